# The suite as a graph: one rule, one job a notebook. Started by `python -m hs2lib.run`, which checks every parameter
# first and passes tier and notebooks. Paths are absolute: Snakemake's own folder is the ignored run folder.
import shlex
import sys

from hs2lib.run import runner

TIER = config.get("tier", "smoke")
CORES = int(config.get("cores", 1))
NOTEBOOKS = runner.chosen([n for n in str(config.get("notebooks", "")).split(",") if n])
ALL = runner.with_upstream(NOTEBOOKS)


rule all:
    input:
        [str(path) for name in NOTEBOOKS for path in runner.outputs(name, TIER).values()],


for name in ALL:

    rule:
        name:
            name
        input:
            [str(path) for path in runner.inputs(name, TIER).values()],
        output:
            **{kind: str(path) for kind, path in runner.outputs(name, TIER).items()},
        params:
            # By content, so that a change counts whatever the clock says; upstream manifests are not there yet.
            name=name,
            digests={k: v for k, v in runner.digests(name, TIER).items() if not k.startswith("upstream")},
        threads: runner.threads(name, TIER, CORES)
        resources:
            gpu=runner.about(name)["gpu"] if TIER in ("gpu", "paper") else 0,
        shell:
            f"{shlex.quote(sys.executable)} -m hs2lib.run --execute --tier {TIER} " "{params.name}"
