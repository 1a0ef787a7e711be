"""Training over processes, 2 and 4 of them (FSDP2 on gloo) beside one: losses, memory, resuming,
kills, differences.

    python benchmarks/processes.py [--dry] [--only training memory notebooks]

A random Llama of 8 layers and random items; reward model, SFT, DPO and SteerLM 2.0. "apart" is the
largest difference of a step's loss or gradient norm from those of one process, as a share. "share
held" is what a process held at most of weights, gradients and optimiser states at a step, over what
one process alone holds. Two processes stopped after step 3 go on from the checkpoint of step 2 as
1, 2 and 4. One rank of two is killed (SIGKILL): how long the other lives, what torchrun says, and
how the run ends when it is started again. Reference log-probabilities that differ by 1e-3 nat a
rank (more than any device does) must neither hang nor part the folders. What is written at the end
is one file that plain transformers reads. "cost" is `train.cost.bytes_a_process` on the meta device beside the
bytes counted here, by phase. Notebooks 05 to 13 at tier smoke find what two and what four processes
trained, scored and answered in their stages, and read it: their tables beside those of a run by one
process. An hour on two cores. Each case is kept under `runs/benchmarks` by the commit: what was
stopped goes on with the case it was in.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import common
import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor
from torch.profiler import ProfilerActivity, profile
from transformers import LlamaConfig, LlamaForCausalLM, LlamaModel, TrainerCallback

from hs2lib import paths
from hs2lib.engine.chat import TokenGroup
from hs2lib.launch import stages
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.report import report
from hs2lib.run import graph
from hs2lib.train import cost, objectives
from hs2lib.train.items import Item
from hs2lib.train.recipes import Recipe
from hs2lib.train.trainer import fit

SHAPE = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
}
METHODS = ("reward model", "SFT", "DPO", "SteerLM 2.0")
STEPS = 6


def model(method: str):
    """The model that a method trains, the same in every process; a policy's embeddings are tied."""
    torch.manual_seed(0)
    if method == "reward model":
        return RewardModel(LlamaModel(LlamaConfig(**SHAPE)), None, ("helpfulness", "verbosity"))
    return Policy(LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=True)), None)


def task(method: str, trained, off: float = 0.0, times: int = 1):
    """(items, objective) of a method; off: nats added to the log-probabilities of the reference. times: as long."""
    rng, items = np.random.default_rng(0), []
    for i in range(24):
        prompt = rng.integers(0, 512, times * rng.integers(4, 20)).tolist()
        group = tuple(
            prompt + rng.integers(0, 512, times * rng.integers(4, 16)).tolist() for _ in range(2)
        )
        items.append(
            Item(f"{i:02d}", group, rng.normal(2, 1, (2, 2)).astype(np.float32), (len(prompt),) * 2)
        )
    if method == "reward model":
        return items, objectives.REGRESSION
    lengths = [
        np.array([[len(s) - start] for s, start in zip(x.sequences, x.starts, strict=True)])
        for x in items
    ]
    if method == "SFT":
        targets, objective = lengths, objectives.sft()
    else:
        total, _ = trained.log_probs(
            [TokenGroup(None, item.sequences, item.starts) for item in items]
        )
        own = total.numpy().reshape(-1, 2, 1) + off
        order = np.array([[1.0], [0.0]])
        if method == "DPO":
            targets, objective = [np.hstack([order, row]) for row in own], objectives.dpo(0.1)
        else:
            weights = np.log(np.array([[0.7], [0.3]]))
            targets = [
                np.hstack([weights, row, length]) for row, length in zip(own, lengths, strict=True)
            ]
            objective = objectives.steerlm2()
    made = [
        Item(x.id, x.sequences, y.astype(np.float32), x.starts)
        for x, y in zip(items, targets, strict=True)
    ]
    return made, objective


def here(tensors) -> int:
    """Bytes of tensors that lie in this process."""
    return sum((t.to_local() if isinstance(t, DTensor) else t).nbytes for t in tensors)


class Peak(TrainerCallback):
    """The most bytes that the second step's tensors take at once beside weights and moments, and its largest batch."""

    def on_step_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
        if state.global_step == 1:
            states = [
                v
                for one in optimizer.state.values()
                for v in one.values()
                if torch.is_tensor(v) and v.ndim
            ]
            self.before, self.tokens = here([*model.parameters(), *states]), 0
            self.hook = model.register_forward_pre_hook(self.seen)
            self.profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
            self.profile.start()

    def seen(self, model, batches):
        self.tokens = max(self.tokens, sum(len(batch.tokens) for batch in batches))

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step == 1:
            self.profile.stop()
            self.hook.remove()
            events = [
                e for e in self.profile.profiler.kineto_results.events() if e.name() == "[memory]"
            ]
            taken = np.cumsum(
                [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
            )
            self.held = {"compute": self.before + int(taken.max()), "tokens": self.tokens}


class Watch(TrainerCallback):
    """Bytes held by phase; a byte in a file for each step done; stops after `stop` steps, or waits a little at each."""

    def __init__(self, folder: Path, stop: int, slow: bool):
        self.folder, self.stop, self.slow, self.held = folder, stop, slow, {}

    def note(self, phase: str, size: int) -> None:
        self.held[phase] = max(self.held.get(phase, 0), size)

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        self.note("weights", here(model.parameters()))

    def on_pre_optimizer_step(self, args, state, control, model=None, optimizer=None, **kwargs):
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        states = [
            v
            for one in optimizer.state.values()
            for v in one.values()
            if torch.is_tensor(v) and v.ndim
        ]
        if states:  # from the second step on
            self.note("step", here([*model.parameters(), *grads, *states]))

    def on_step_end(self, args, state, control, **kwargs):
        if args.process_index == 0:
            with (self.folder / "reached").open("a") as reached:
                reached.write(".")
        time.sleep(0.3 if self.slow else 0)
        if self.stop and state.global_step >= self.stop:
            raise KeyboardInterrupt


def child(options) -> None:
    """Train the methods in this process, alone or as one of several."""
    torch.set_num_threads(1)
    rank, number = (
        int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"))
    )
    for method in options.methods:
        trained, folder = model(method), options.child / method
        folder.mkdir(parents=True, exist_ok=True)
        items, objective = task(method, trained, options.off * rank, 40 if options.compute else 1)
        recipe = Recipe(
            steps=STEPS,
            batch=8,
            learning_rate=1e-3,
            warmup=2,
            autocast="float32",
            save_every=2,
            keep=0,
            fsdp=number > 1 or options.parts,
        )
        if options.compute:
            recipe = replace(recipe, steps=2, checkpointing=True, autocast="bfloat16", budget=4096)
        watch = Peak() if options.compute else Watch(folder, options.stop, options.slow)
        with contextlib.suppress(KeyboardInterrupt):
            fit(trained, items, [], objective, recipe, folder, callbacks=[watch])
        (folder / f"held-{rank}.json").write_text(json.dumps(watch.held))
    if number > 1:
        torch.distributed.destroy_process_group()


def start(folder: Path, processes: int, *more: str, methods=METHODS) -> subprocess.Popen:
    """Begin `child` in so many processes; what they say goes to a file."""
    folder.mkdir(parents=True, exist_ok=True)
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone"] * (
        processes > 1
    )
    command = [
        sys.executable,
        *launch,
        __file__,
        "--child",
        str(folder),
        *more,
        "--methods",
        *methods,
    ]
    with (folder / "log").open("w") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )


def run(folder: Path, processes: int, *more: str, **options) -> float:
    """`start`, and wait, unless it has ended well before: nothing here takes five minutes. Returns its seconds."""
    ended = folder / f"ended-{processes}{''.join(more)}"
    if not ended.exists():
        begun, process = time.time(), start(folder, processes, *more, **options)
        if process.wait(300):
            sys.exit(f"{folder.name}: {(folder / 'log').read_text()[-3000:]}")
        ended.write_text(str(time.time() - begun))
    return float(ended.read_text())


def place(folder: Path, method: str) -> Path:
    """The one folder of a method's run."""
    (place_of_run,) = (folder / method).glob("training-*")
    return place_of_run


def curve(folder: Path, method: str) -> np.ndarray:
    """(loss, gradient norm) of each step."""
    history = json.loads((place(folder, method) / "done.json").read_text())["history"]
    return np.array([(row["loss"], row["grad_norm"]) for row in history if "loss" in row])


def apart(folder: Path, one: Path, method: str) -> float:
    """The largest difference of two runs' losses and gradient norms, as a share."""
    return float(np.abs(curve(folder, method) / curve(one, method) - 1).max())


def held(folder: Path, method: str, processes: int, phase: str = "step") -> list[int]:
    """Bytes that each process held at most in a phase."""
    return [
        json.loads((folder / method / f"held-{rank}.json").read_text())[phase]
        for rank in range(processes)
    ]


def killed(folder: Path, one: Path) -> dict:
    """Kill one rank of two at a step, then start again."""
    if (folder / "killed.json").exists():
        return json.loads((folder / "killed.json").read_text())
    shutil.rmtree(folder, ignore_errors=True)
    process = start(folder, 2, "--slow", methods=METHODS[:1])
    reached, patience = folder / METHODS[0] / "reached", time.time() + 120
    while not (reached.exists() and reached.stat().st_size >= 3):
        if process.poll() is not None or time.time() > patience:
            sys.exit((folder / "log").read_text()[-3000:])
        time.sleep(0.05)
    ranks = [int(p.name) for p in Path("/proc").glob("[0-9]*") if parent(p) == process.pid]
    os.kill(max(ranks), signal.SIGKILL)
    sent = time.monotonic()
    code = process.wait(120)
    ended = time.monotonic() - sent
    log = (folder / "log").read_text().replace(f"{Path(__file__).parent}/", "")
    last_words = [
        line.strip() for line in log.splitlines() if "SIGKILL" in line or "FAILED" in line
    ]
    run(folder, 2, methods=METHODS[:1])
    result = {
        "exit code": code,
        "seconds until all had ended": round(ended, 1),
        "said": last_words[:2],
        "apart after a second start": apart(folder, one, METHODS[0]),
    }
    (folder / "killed.json").write_text(json.dumps(result))
    return result


def parent(process: Path) -> int:
    """The process that started one of /proc; -1 where it has ended."""
    with contextlib.suppress(OSError):
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    return -1


def exported(folder: Path) -> dict:
    """What DPO wrote, read by plain transformers."""
    (file,) = place(folder, "DPO").rglob("model.safetensors")
    weights = {
        name.removeprefix("model.backbone."): value for name, value in load_file(file).items()
    }
    plain = LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=True))
    missing, unexpected = plain.load_state_dict(weights, strict=False)
    plain.tie_weights()
    return {
        "missing": [x for x in missing if x != "lm_head.weight"],
        "unexpected": unexpected,
        "tied": len(missing),
    }


def compared(work: Path) -> dict:
    """Losses, memory, export, resuming, a kill and processes that differ: what the methods do in 2 and 4 processes."""
    figures, folders = {}, {number: work / str(number) for number in (1, 2, 4)}
    figures["seconds"] = {
        f"{number} processes": [run(folder, number)] for number, folder in folders.items()
    }
    one, first = folders[1], METHODS[0]
    for number in (2, 4):
        figures[f"apart, {number}"] = {m: apart(folders[number], one, m) for m in METHODS}
        whole = {m: held(one, m, 1)[0] for m in METHODS}
        figures[f"share held, {number}"] = {
            m: max(held(folders[number], m, number)) / whole[m] for m in METHODS
        }
    figures["first DPO loss less ln 2"] = {
        n: curve(f, "DPO")[0, 0] - np.log(2) for n, f in folders.items()
    }
    figures["export"] = exported(folders[2])
    again = {}
    for number in (1, 2, 4):
        folder = work / f"again-{number}"
        run(folder, 2, "--stop", "3", methods=METHODS[:1])
        run(folder, number, *["--parts"] * (number == 1), methods=METHODS[:1])
        again[number] = apart(folder, one, first)
    figures["apart, stopped as 2 and gone on as"] = again
    figures["a rank killed"] = killed(work / "killed", one)
    differ = work / "differ"
    run(differ, 2, "--off", "1e-3", methods=["DPO"])
    figures["apart, ranks differ by 1e-3 nat"] = apart(differ, folders[2], "DPO")
    figures["cost"] = {}
    for number in (1, 2, 4):
        with torch.device("meta"):
            predicted = cost.bytes_a_process(model(first), number)
        for phase in ("weights", "step"):
            counted = max(held(folders[number], first, number, phase))
            figures["cost"][f"{phase}, {number}"] = {
                "counted": counted,
                "cost.py": predicted[phase],
            }
    return figures


def memory(work: Path) -> dict:
    """`cost.bytes_a_process` of the phase "compute" beside the bytes counted, of each method."""
    rows, seconds = {}, {}
    for number in (1, 2, 4):
        folder = work / f"compute-{number}"
        seconds[f"{number} processes, compute"] = [run(folder, number, "--compute")]
        for method in METHODS:
            ranks = [held(folder, method, number, phase) for phase in ("compute", "tokens")]
            with torch.device("meta"):
                predicted = cost.bytes_a_process(model(method), number, max(ranks[1]))["compute"]
            rows[f"{method}, {number}"] = {"counted": max(ranks[0]), "cost.py": predicted}
    return {"cost, gathered layers and activations": rows, "seconds": seconds}


NUMBERS = ("05", "06", "07", "08", "09", "10", "11", "12", "13")
NOTEBOOKS = "notebooks after stages by 2 and 4 processes"
EXACT = {"recipe.autocast": "float32"}  # in bfloat16 a rounding may turn a pair about
IN_PARTS = EXACT | {"recipe.fsdp": "true"}  # each process holds its share of the weights
VALUES = {
    "05": IN_PARTS
    | {"model_name": "hs2lib/corpus/base"},  # as a folder: a model by a short name is read whole
    "06": {"seed": "0"},
    "07": IN_PARTS,
    "08": IN_PARTS,
    "09": IN_PARTS,
    "10": EXACT,
    "11": IN_PARTS,
    "12": IN_PARTS | {"batch": "4"},  # a group for each of four processes
    "13": EXACT,
}
STREAMED = ("05", "06", "08")  # these stages hold the models in parts from the first byte on


def notebooks(work: Path) -> dict:
    """05 to 13 at tier smoke: every stage by one, two and four processes, then the notebooks that
    read what these left.

    By one process means that the notebook computes for itself. Each number of processes has folders
    of its own, in which a notebook reads the results of those before it. A notebook that is done is
    not done again.
    """
    rows, seconds = {}, {}
    for processes in (1, 2, 4):
        home = work / "notebooks" / str(processes)
        for number in NUMBERS:
            key = f"{number}, {processes}"
            record = home / f"{number}.json"
            if record.exists():
                done = json.loads(record.read_text())
                seconds[key] = done["seconds"]
                if processes > 1:
                    rows[key] = done["row"]
                continue
            words = ["-m", "hs2lib.run", "--tier", "smoke", "--name", "parts"]
            for name, value in VALUES[number].items():
                words += ["-p", f"{name}={value}"]
            began = time.time()
            before = {}
            if processes > 1:
                by_stages(home, number, processes, words)
                before = kept(home, number)
            say(home, [*words, "--execute", number])
            seconds[key] = [time.time() - began]
            print(f"{key}: {seconds[key][0]:.0f} s", flush=True)
            done = {"seconds": seconds[key]}
            if processes > 1:
                after = kept(home, number)
                again = [
                    name for name, lines in before.items() if after[name][: len(lines)] != lines
                ]
                rows[key] = {
                    "computed again": again,
                    "files kept by the stages": len(before),
                    "lines that the notebook added to them": sum(
                        len(after[name]) - len(before[name]) for name in before
                    ),
                    "tables": tables_apart(
                        work / "notebooks/1/reports/smoke", home / "reports/smoke", number
                    ),
                }
                done["row"] = rows[key]
            paths.write(record, json.dumps(done))
    return {NOTEBOOKS: rows, "seconds": seconds}


def by_stages(home: Path, number: str, processes: int, words: list[str]) -> None:
    """Every stage of a notebook, in their order, each by so many processes."""
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone"]
    streamed = ["--stream"] if number in STREAMED else []
    (name,) = graph.matching([number])
    for stage in stages.stages_of(name):
        say(home, [*launch, *words, "--stage", stage, *streamed, number])


def say(home: Path, words: list[str]) -> None:
    """Run a command with folders of its own."""
    own = {
        "HS2_RUNS": str(home / "runs"),
        "HS2_REPORTS": str(home / "reports"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, *words],
        cwd=paths.root(),
        env=os.environ | own,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr[-4000:]}")


def kept(home: Path, number: str) -> dict[str, list[str]]:
    """What a notebook keeps, by file: when a training ended, and the lines of states, scores and
    log-probabilities.

    Not what it writes anew for its readers: labelled.jsonl, and answers in the form of the
    benchmarks' own tools.
    """
    (folder,) = home.glob(f"runs/smoke/{number}_*")
    contents = {}
    for file in folder.glob("training-*/done.json"):
        contents[str(file.relative_to(folder))] = [str(file.stat().st_mtime_ns)]
    for file in folder.rglob("*.jsonl"):
        name = file.relative_to(folder)
        if file.name != "labelled.jsonl" and name.parts[0] != "answers":
            contents[str(name)] = file.read_text().splitlines()
    return contents


def tables_apart(one: Path, other: Path, number: str) -> dict:
    """Of two reports' tables: how many, cells whose words differ, and the largest difference of a
    number, as a share.

    A difference counts against 1 where the number is smaller.
    """
    files = sorted(one.glob(f"{number}_*/*.csv"))
    words, largest = [], (0.0, "")
    for file in files:
        mine, theirs = (pd.read_csv(folder / file.relative_to(one)) for folder in (one, other))
        if mine.shape != theirs.shape or list(mine) != list(theirs):
            words.append(f"{file.stem}: {mine.shape} and {theirs.shape}")
            continue
        for column in mine:
            if pd.api.types.is_numeric_dtype(mine[column]):
                a, b = mine[column].to_numpy(float), theirs[column].to_numpy(float)
                off = np.nan_to_num(np.abs(a - b) / np.maximum(1, np.abs(a)))
                largest = max(largest, (float(off.max(initial=0)), f"{file.stem}: {column}"))
            elif (mine[column].astype(str) != theirs[column].astype(str)).any():
                words.append(f"{file.stem}: {column}")
    return {
        "tables": len(files),
        "other words": words,
        "largest difference": largest[0],
        "in": largest[1],
    }


PARTS = {"training": compared, "memory": memory, "notebooks": notebooks}


def main(argv: list[str] | None = None) -> None:
    """The parts, one after the other; write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        help="these; the rest stays as it is",
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--methods", nargs="+", default=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--stop", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--off", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--slow", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compute", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--parts", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        child(options)
        return
    work = paths.runs() / "benchmarks" / f"processes-{report.commit()}"
    file = paths.reports() / "benchmarks" / "processes.json"
    before = json.loads(file.read_text()) if file.exists() else {"figures": {}, "timings": {}}
    figures, seconds = (
        {"commit, training": before.get("commit")} | before["figures"],
        before["timings"],
    )
    for name in options.only:
        part = PARTS[name](work)
        seconds |= part.pop("seconds")
        figures |= part | {f"commit, {name}": report.commit()}
    print(json.dumps(figures, indent=1))
    losses = max(max(figures[f"apart, {number}"].values()) for number in (2, 4))
    half, quarter = (max(figures[f"share held, {number}"].values()) for number in (2, 4))
    kept = (
        figures["a rank killed"]["apart after a second start"],
        figures["apart, ranks differ by 1e-3 nat"],
    )
    after = max(*figures["apart, stopped as 2 and gone on as"].values(), *kept)
    predicted = (
        *figures["cost"].values(),
        *figures["cost, gathered layers and activations"].values(),
    )
    off = max(abs(x["cost.py"] / x["counted"] - 1) for x in predicted)
    figures.pop("notebooks after two processes that held the models in parts", None)
    read = figures[NOTEBOOKS].values()
    tables = max(row["tables"]["largest difference"] for row in read)
    again = [
        name for row in read for name in (*row["computed again"], *row["tables"]["other words"])
    ]
    once = not again and all(row["files kept by the stages"] for row in read)
    tied = figures["export"] == {"missing": [], "unexpected": [], "tied": 1}
    met = (
        losses < 1e-3
        and half <= 0.6
        and after < 1e-3
        and off < 0.1
        and tied
        and once
        and tables < 1e-2
    )
    if not options.dry:
        common.write(
            "processes",
            "FSDP2 on 2 and 4 gloo processes beside one: reward model, SFT, DPO, SteerLM 2.0",
            1 / half,
            "losses within 1e-3, at most .6 of the memory with two, cost.py within 10 %, resumed by 1, 2, 4 and after "
            "a kill, no hang; notebooks read what two and four processes computed, tables within 1 %",
            met,
            f"losses apart {losses:.1e}, after a stop or kill {after:.1e}; of four {quarter:.2f}, cost.py {off:.1%}, "
            f"tables {tables:.1e}",
            seconds,
            packages=("torch", "transformers", "accelerate"),
            figures=figures,
        )
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
