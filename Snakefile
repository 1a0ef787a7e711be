# The suite as a graph: one rule, one job a notebook. Started by `python -m hs2lib.run`, which checks every parameter and
# says which notebooks are to be run. Paths are relative to Snakemake's own folder, the ignored run folder.
#
# A stage is a job of its own, before its notebook, where a profile (or --set-resources) says how many nodes it gets and
# how many processes on each, a GPU for each at the tiers that want GPUs; else the notebook computes it itself:
#   train_05_reward_model_training: {nodes: 2, processes: 8}
import shlex
import sys

from hs2lib.launch import runner, stages
from hs2lib.run import graph, processes

TIER = config["tier"]
CORES = int(config["cores"])
NOTEBOOKS = str(config["notebooks"]).split(",")
PYTHON = shlex.quote(sys.executable)

processes.lead()


onstart:
    processes.interrupt_group()  # by itself Snakemake would wait until its jobs are done


# {rule of a stage: {resource: value}}
WANTED = {rule: dict(wanted) for rule, wanted in workflow.resource_settings.overwrite_resources.items()}
WANTED = {rule: wanted for rule, wanted in WANTED.items() if rule.partition("_")[0] in stages.STAGES}
for rule_name in WANTED:
    graph.matching([rule_name.partition("_")[2]])  # raises where there is no such notebook


def stages_of(name):
    """The stages of a notebook that are jobs of their own, in their order."""
    return [stage for stage in stages.stages_of(name) if f"{stage}_{name}" in WANTED]


def done(names):
    """Files that say that these notebooks are done, of those that are run."""
    return [f"{TIER}/{name}/stamp.json" for name in names if name in NOTEBOOKS]


def gpus(name):
    """GPUs of a notebook, or of each process of its stages."""
    return graph.about(name)["gpu"] if TIER in ("gpu", "paper") else 0


def size(stage, name):
    """How many nodes a stage gets, and how many processes on each."""
    wanted = WANTED[f"{stage}_{name}"]
    return [int(wanted[key].raw) if key in wanted else 1 for key in ("nodes", "processes")]


def launcher(stage, name):
    """What starts the processes of a stage: python, torchrun on this machine, or one torchrun on each node."""
    nodes, processes = size(stage, name)
    torchrun = f"{PYTHON} -m torch.distributed.run --nproc-per-node {processes}"
    if nodes > 1:
        srun = f"srun --nodes {nodes} --ntasks {nodes}"
        meet = '--rdzv-backend c10d --rdzv-endpoint "$(hostname):$((20000 + SLURM_JOB_ID % 10000))"'
        return f"{srun} {torchrun} --nnodes {nodes} {meet} --rdzv-id $SLURM_JOB_ID"
    return f"{torchrun} --standalone" if processes > 1 else PYTHON


def resources_of(stage, name):
    """What a stage asks of the cluster. Over several nodes the job itself starts its tasks, as those of MPI do."""
    nodes, processes = size(stage, name)
    several = {"mpi": "srun", "tasks": nodes, "tasks_per_gpu": 0} if nodes > 1 else {}
    return {"nodes": nodes, "processes": processes, "gpu": nodes * processes * gpus(name)} | several


rule all:
    input:
        done(NOTEBOOKS),


for name in NOTEBOOKS:

    for at, stage in enumerate(stages_of(name)):

        rule:
            name:
                f"{stage}_{name}"
            input:
                done(stages.upstream(name, TIER, stage)),
                [f"{TIER}/{name}/{earlier}.done" for earlier in stages_of(name)[:at]],
            output:
                touch(f"{TIER}/{name}/{stage}.done"),
            params:  # what a job is made of now; its shell is put together when it runs, for the last one of this loop
                launcher=launcher(stage, name),
                name=name,
                stage=stage,
            threads: graph.threads(name, TIER, CORES)
            resources:
                **resources_of(stage, name),
            shell:
                "exec {params.launcher} -m hs2lib.run --stage {params.stage} "
                f"--tier {TIER} " "{params.name} 2> " f"{TIER}/" "{params.name}/log.txt"

    rule:
        name:
            name
        input:
            done(graph.upstream(name, TIER)),
            [f"{TIER}/{name}/{stage}.done" for stage in stages_of(name)],
        output:
            f"{TIER}/{name}/stamp.json",
        params:
            name=name,
        threads: graph.threads(name, TIER, CORES)
        resources:
            gpu=gpus(name),
        shell:
            # exec: a job's parent is Snakemake, not a shell that would outlive it.
            f"exec {runner.doubled(PYTHON)} -m hs2lib.run --execute --tier {TIER} " "{params.name} 2> " f"{TIER}/" "{params.name}/log.txt"
