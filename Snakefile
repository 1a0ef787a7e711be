# The suite as a graph: one rule, one job a notebook. Started by `python -m hs2lib.run`, which checks every parameter and
# says which notebooks are to be run. Paths are relative to Snakemake's own folder, the ignored run folder.
import shlex
import sys

from hs2lib.run import graph, processes, runner

TIER = config["tier"]
CORES = int(config["cores"])
NOTEBOOKS = str(config["notebooks"]).split(",")
PYTHON = runner.doubled(shlex.quote(sys.executable))

processes.lead()


onstart:
    processes.interrupt_group()  # by itself Snakemake would wait until its jobs are done


rule all:
    input:
        [f"{TIER}/{name}/stamp.json" for name in NOTEBOOKS],


for name in NOTEBOOKS:

    rule:
        name:
            name
        input:
            [f"{TIER}/{need}/stamp.json" for need in graph.upstream(name, TIER) if need in NOTEBOOKS],
        output:
            f"{TIER}/{name}/stamp.json",
        params:
            name=name,
        threads: graph.threads(name, TIER, CORES)
        resources:
            gpu=graph.about(name)["gpu"] if TIER in ("gpu", "paper") else 0,
        shell:
            # exec: a job's parent is Snakemake, not a shell that would outlive it.
            f"exec {PYTHON} -m hs2lib.run --execute --tier {TIER} " "{params.name} 2> " f"{TIER}/" "{params.name}/log.txt"
