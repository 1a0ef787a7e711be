# The graph of runs, which Snakemake owns: it says what is to run again, and in which order.
# `hs2 run` starts it. A run has one or two jobs (hs2lib/runs/key.py):
#   compute_08_dpo   the cells that compute, of a notebook that makes a model -> results.json
#   draw_08_dpo      the whole notebook by papermill                         -> drawn.json
# The key of a job is one of its inputs, a file that `hs2 run` writes anew only where it changes.
# Paths are relative to Snakemake's own folder, the ignored run folder.
#
# A stage is a job of its own, before the others of its run, where a profile (or --set-resources)
# says how many nodes it gets and how many processes on each; so may the computing job:
#   train_05_reward_model_training: {nodes: 2, processes: 8}
# Each process gets a GPU at the tiers that want GPUs.
import shlex
import sys

from hs2lib.runs import cells, graph, key

TIER = config["tier"]
CORES = int(config["cores"])
ASKED = str(config["runs"]).split(",")
RUNS = graph.with_upstream(ASKED, TIER)
PYTHON = shlex.quote(sys.executable)

# What profiles and --set-resources ask for: {rule: {resource: value}}
ASKED_RESOURCES = {}
for rule_name, asked in workflow.resource_settings.overwrite_resources.items():
    kind, _, run_name = rule_name.partition("_")
    if kind in (*cells.STAGES, key.COMPUTE, key.DRAW):
        graph.matching([run_name])  # raises where there is no such notebook
        ASKED_RESOURCES[rule_name] = dict(asked)


def stages_of(name: str) -> list[str]:
    """The stages of a run that are jobs of their own, in their order."""
    return [stage for stage in cells.stages_of(name) if f"{stage}_{name}" in ASKED_RESOURCES]


def of_run(name: str, file: str) -> str:
    """A file of a run's folder."""
    return f"{TIER}/{name}/{file}"


def results(names: list[str]) -> list[str]:
    """Files that hold the results of these runs."""
    return [of_run(name, "results.json") for name in names]


def inputs(job: str, name: str) -> list[str]:
    """The key of a job, the results that it reads, and the stages that come before it."""
    first = key.jobs_of(name)[0]
    files = [of_run(name, f"{job}.key.json")]
    if job != first:
        return [*files, of_run(name, "results.json"), *results(graph.upstream(name, TIER))]
    files += [of_run(name, f"{stage}.done") for stage in stages_of(name)]
    if not graph.shows_reports(name):
        return files + results(graph.upstream(name, TIER))
    for manifest in graph.reports_read(name, TIER).values():
        other = manifest.parent.name
        drawn_here = other in RUNS and manifest == graph.manifest(other, TIER)
        if drawn_here:
            files.append(of_run(other, "drawn.json"))
        elif manifest.exists():
            files.append(str(manifest))
    return files


def outputs(job: str, name: str) -> list[str]:
    """What a job writes last. Where no job computes, drawing leaves the results too."""
    files = ["results.json"] if job == key.jobs_of(name)[0] else []
    if job == key.DRAW:
        files.append("drawn.json")
    return [of_run(name, file) for file in files]


def priority(job: str, name: str) -> int:
    """How many runs wait for a job: those that much depends on come first, drawing last."""
    if job != key.jobs_of(name)[0]:
        return 0
    return sum(name in graph.with_upstream([other], TIER) for other in RUNS)


def gpus(name: str) -> int:
    """GPUs of a run, or of each process of it."""
    return graph.about(name)["gpu"] if TIER in ("gpu", "paper") else 0


def size(rule_name: str) -> tuple[int, int]:
    """How many nodes a job gets, and how many processes on each."""
    asked = ASKED_RESOURCES.get(rule_name, {})
    nodes = int(asked["nodes"].raw) if "nodes" in asked else 1
    processes_each = int(asked["processes"].raw) if "processes" in asked else 1
    return nodes, processes_each


def launcher(rule_name: str) -> str:
    """What starts the processes of a job.

    It is python, torchrun on this machine, or one torchrun on each node.
    """
    nodes, processes_each = size(rule_name)
    torchrun = f"{PYTHON} -m torch.distributed.run --nproc-per-node {processes_each}"
    if nodes > 1:
        srun = f"srun --nodes {nodes} --ntasks {nodes}"
        meet = '--rdzv-backend c10d --rdzv-endpoint "$(hostname):$((20000 + SLURM_JOB_ID % 10000))"'
        return f"{srun} {torchrun} --nnodes {nodes} {meet} --rdzv-id $SLURM_JOB_ID"
    if processes_each > 1:
        return f"{torchrun} --standalone"
    return PYTHON


def resources_of(rule_name: str, name: str) -> dict[str, int | str]:
    """What a job asks of the cluster.

    Over several nodes the job itself starts its tasks, as those of MPI do.
    """
    nodes, processes_each = size(rule_name)
    resources = {
        "nodes": nodes,
        "processes": processes_each,
        "gpu": nodes * processes_each * gpus(name),
    }
    if nodes > 1:
        resources |= {"mpi": "srun", "tasks": nodes, "tasks_per_gpu": 0}
    return resources


rule all:
    input:
        # All results: by itself Snakemake does not make again what is gone from the middle.
        results(RUNS),
        [of_run(name, "drawn.json") for name in ASKED],


for name in RUNS:

    for at, stage in enumerate(stages_of(name)):

        rule:
            name:
                f"{stage}_{name}"
            input:
                of_run(name, f"{key.jobs_of(name)[0]}.key.json"),
                results(graph.upstream(name, TIER, stage=stage)),
                [of_run(name, f"{earlier}.done") for earlier in stages_of(name)[:at]],
            output:
                touch(of_run(name, f"{stage}.done")),
            # A shell is put together when its job runs. By then TIER is as it was, but `stage` and
            # `name` are those of the last turn of these loops: what counts is kept here.
            params:
                launcher=launcher(f"{stage}_{name}"),
                name=name,
                stage=stage,
                log=of_run(name, f"{stage}.log"),
            threads: graph.threads(name, TIER, CORES)
            resources:
                **resources_of(f"{stage}_{name}", name),
            shell:
                "exec {params.launcher} -m hs2lib.runs.jobs stage {TIER} {params.name} "
                "{params.stage} 2> {params.log}"

    for job in key.jobs_of(name):

        rule:
            name:
                f"{job}_{name}"
            input:
                inputs(job, name),
            output:
                outputs(job, name),
            params:
                launcher=launcher(f"{job}_{name}"),
                name=name,
                job=job,
                log=of_run(name, f"{job}.log"),
            threads: graph.threads(name, TIER, CORES)
            priority: priority(job, name)
            resources:
                **resources_of(f"{job}_{name}", name),
            shell:
                "exec {params.launcher} -m hs2lib.runs.jobs {params.job} {TIER} {params.name} "
                "2> {params.log}"
