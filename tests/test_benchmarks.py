"""The scripts of benchmarks/ run whole on a tiny model: both sides of a comparison must agree.

Speed is not tested. Operations are counted by hand and by torch; the check of a GPU runs on the CPU.
"""

import ast
import importlib
import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel

from hs2lib.engine.trees import pack
from hs2lib.group import Group, Response, Turn
from hs2lib.models.backbones import tiny_model
from hs2lib.models.reward_model import RewardModel
from hs2lib.paths import root
from hs2lib.train.objectives import REGRESSION
from hs2lib.train.trainer import Outputs
from hs2lib.world import pairs as generated

pytestmark = pytest.mark.slow


def script(name: str) -> ModuleType:
    """A script of benchmarks/, imported where a test needs it: some import TRL, which takes seconds."""
    sys.path.insert(0, str(root() / "benchmarks"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


common = script("common")


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Small dense products, reports in a folder of the test, and no GPU even where there is one."""
    monkeypatch.setitem(common.DENSE, "cpu", (8, 8, 8, 1))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path))
    monkeypatch.setenv("HS2_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


# Both sides of a comparison


def unrated(*args, **options):
    """Pairs of unequal lengths with a word of their own each, in place of HelpSteer2's."""
    groups = []
    for i in range(6):
        prompt = (Turn("user", f"Name {i} primes, please."),)
        texts = (f"{i} primes: two, three " + "and five " * i, f"None. Not {i}.")
        responses = [Response(f"g{i}/{j}", text) for j, text in enumerate(texts)]
        groups.append(Group(f"g{i}", prompt, tuple(responses)))
    return SimpleNamespace(groups=groups, source="made for a test")


def rated(*args, **options):
    """The same responses with labels, in place of Open Assistant's replies."""
    groups = []
    for i, group in enumerate(unrated().groups):
        responses = []
        for j, response in enumerate(group.responses):
            labels = tuple(float((i + j + k) % 5) for k in range(5))
            responses.append(Response(response.id, response.text, labels))
        names = script("train_reward").ATTRIBUTES
        groups.append(Group(group.id, group.prompt, tuple(responses), names))
    return SimpleNamespace(groups=groups, source="made for a test")


def in_this_process(module):
    """`common.alone` without the seconds that it takes to import everything again."""

    def alone(script, arguments, environment=None):
        with redirect_stdout(io.StringIO()) as printed:
            module.main(arguments)
        line = next(line for line in printed.getvalue().splitlines() if line.startswith("RESULT "))
        return json.loads(line.removeprefix("RESULT "))

    return alone


RUNS = {
    "score_pairs": ("--pairs 2 --repeats 1", "; the same: True"),
    "train_reward": ("--replies 4 --steps 2 --threads 1 --budget 128 --checkpointing", "}: True;"),
    "dpo_step": (
        "--pairs 2 --steps 1 --rows 1 --growth 2 --dtypes float32 --threads 1",
        "the same: True",
    ),
    "rollout": (
        "--prompts 2 --n 2 --tokens 4 --batch 4 --repeats 1 --sizes 2",
        "but for ties: True",
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_both_sides_of_a_benchmark_agree(name, monkeypatch, tmp_path):
    """A ratio of two programs means nothing unless they do the same."""
    module = script(name)
    options, agreed = RUNS[name]
    monkeypatch.setattr(common, "alone", in_this_process(module))
    if name == "score_pairs":
        made = SimpleNamespace(pairs=generated.rewardbench(1))
        monkeypatch.setattr(module.pairs, "load_pairs", lambda *args, **options: made)
    else:
        monkeypatch.setattr(module.load, "load", rated if name == "train_reward" else unrated)
    module.main(["--model", "tiny", *options.split()])
    result = json.loads((tmp_path / "benchmarks" / f"{name}.json").read_text())
    assert agreed in result["check"]
    assert result["ratio"] > 0 and result["timings"]


def test_a_scored_file_and_transformers_pipeline_give_the_same_scores(monkeypatch, tmp_path):
    """Both read the same file of pairs, of more than one batch."""
    module = script("score_file")
    pairs = []
    for group in unrated().groups:
        prompt = [{"role": turn.role, "content": turn.text} for turn in group.prompt]
        chosen, rejected = [response.text for response in group.responses]
        pairs.append({"prompt": prompt, "chosen": chosen, "rejected": rejected})
    monkeypatch.setattr(module, "pairs", lambda number: pairs)
    module.main(["--model", "tiny", "--pairs", "6"])
    result = json.loads((tmp_path / "benchmarks" / "score_file.json").read_text())
    apart = [float(number) for number in re.findall(r"': ([\d.e-]+)", result["check"])]
    assert len(apart) == len(module.GOALS) and max(apart) <= module.WITHIN


# Operations

# Two layers of tiny: q and o 32 x 64, k and v 32 x 32, three products 32 x 64; 4 heads of 16.
WEIGHTS = 2 * (2 * 32 * 64 + 2 * 32 * 32 + 3 * 32 * 64)


def test_flops_of_two_layers_by_hand():
    """10 tokens in one sequence: 55 pairs of a query and a key; each costs 2 x 64 to score and 2 x 64 to sum up."""
    model = AutoModel.from_pretrained(tiny_model())
    by_hand = 2 * WEIGHTS * 10 + 2 * (4 * 64) * 55
    assert common.work([10]) == (10, 55)
    for passes in (1, 3, 4):
        assert common.flops(model, 10, 55, passes) == passes * by_hand


def test_flops_are_those_that_torch_counts():
    """Forward and backward; eager attention scores all 10 x 10 pairs. The rest is rotary."""
    model = AutoModel.from_pretrained(tiny_model(), attn_implementation="eager")
    with FlopCounterMode(display=False) as counter:
        out = model(input_ids=torch.arange(10)[None], use_cache=False).last_hidden_state
        forward = counter.get_total_flops()
        out.sum().backward()
    assert forward == pytest.approx(common.flops(model, 10, 100), rel=1e-3)
    both = common.flops(model, 10, 100, passes=3)
    assert counter.get_total_flops() == pytest.approx(both, rel=1e-3)


def test_packed_work_counts_a_shared_prompt_once():
    """Three shared tokens, then one and two of their own: 3 + 1 + 2 tokens, which see 1 2 3, 4, and 4 5."""
    group = [[1, 2, 3, 4], [1, 2, 3, 5, 6]]
    assert common.packed([pack([group])]) == (6, 19)
    assert common.work(len(sequence) for sequence in group) == (9, 10 + 15)


def test_utilisation_by_hand(monkeypatch):
    """Half the data sheet's peak, and nothing of a sheet that is not known: a PCIe card is slower."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    shares = common.utilisation(989e12, 494.5e12, 2.0, 400e12, "bfloat16")
    assert shares["of the data sheet"] == {"model": 0.5, "hardware": 0.25}
    assert shares["of the dense rate"]["hardware"] == pytest.approx(247.25 / 400)
    assert common.data_sheet("NVIDIA H100 PCIe", "bfloat16") is None


# On a GPU


def test_the_clock_waits_for_a_gpu_and_a_first_round_is_not_counted(monkeypatch):
    """Three calls for two rounds. A GPU's work is queued: a clock that did not wait would time nothing."""
    happened = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: happened.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: happened.append("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 3 * 2**20)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 10 * 2**20)
    memory = {}
    seconds = common.times({"side": lambda: happened.append("call")}, 2, "cuda", memory)
    assert len(seconds["side"]) == 2 and memory == {"side": 7.0}
    assert happened == ["reset", "wait", "call", "wait"] * 3


@pytest.mark.parametrize(
    ("device", "there", "message"),
    [
        ("cuda", 0, "no CUDA device was found"),
        ("cuda", 2, "2 GPUs are visible"),
        ("cpu", 1, "CUDA_VISIBLE_DEVICES="),
    ],
)
def test_another_device_than_asked_for_is_one_clear_line(device, there, message, monkeypatch):
    """A trainer takes whatever GPU it sees, so a CPU is never timed where there is one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: there)
    with pytest.raises(SystemExit, match=message) as error:
        common.find(device)
    assert "\n" not in str(error.value)


def test_bench_gpu_goes_on_after_a_failure_and_names_it(tmp_path):
    """A benchmark that runs out of memory must not cost the others' hour."""
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\necho "$@"\ncase "$1" in *dpo_step.py|*rollout.py) exit 1;; esac\n'
    )
    python.chmod(0o755)
    ready = tmp_path / "ready"
    command = ["make", "-o", str(ready), f"READY={ready}", f"BIN={tmp_path}"]
    left_out = ("MAKEFLAGS", "MAKELEVEL", "CUDA_VISIBLE_DEVICES")
    environment = {name: text for name, text in os.environ.items() if name not in left_out}
    done = subprocess.run(
        [*command, "bench-gpu", "MODEL=one/small"],
        cwd=root(),
        env=environment,
        capture_output=True,
        text=True,
    )
    ran = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("benchmarks/")]
    assert ran == [f"benchmarks/{name}.py" for name in RUNS]
    assert "--device cuda --model one/small" in done.stdout
    assert done.returncode != 0 and "failed: dpo_step rollout" in done.stderr


def imports(file: Path) -> set[str]:
    """The packages that a file imports at its top, directly or through files of this checkout."""
    waiting, seen, others = [file], set(), set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                ours = [
                    folder / f"{name.replace('.', '/')}.py"
                    for folder in (root(), root() / "benchmarks")
                ]
                waiting += [path for path in ours if path.is_file() and path not in seen]
                others |= {name.partition(".")[0]} - {"hs2lib", *sys.stdlib_module_names}
    return others - {path.stem for path in seen}


def test_the_check_of_a_gpu_needs_torch_and_transformers_alone():
    """A machine with a GPU has a Python of its own: with one package more the check would not start."""
    needed = {"torch", "transformers", "numpy", "yaml"}  # transformers itself needs the last two
    assert imports(root() / "benchmarks" / "gpu_check.py") == needed
    assert imports(root() / "benchmarks" / "train_reward.py") > {"pandas", "pydantic"}


def test_the_check_of_a_gpu_runs_whole_on_a_cpu(tmp_path):
    """The same code on tiny shapes: every part that a CPU has passes."""
    gpu_check = script("gpu_check")
    assert gpu_check.main(["--device", "cpu", "--small"]) == 0
    result = json.loads((tmp_path / "gpu-check" / "cpu-small.json").read_text())
    passed = {name for name, part in result["parts"].items() if part["ok"]}
    assert passed == {"exact", "decode", "step", "score", "train", "rollout", "fit"}
    assert result["passed"]
    shapes = result["parts"]["exact"]["shapes"]
    assert 0 < shapes["Mistral, window 64"]["gradients, float32"]["apart"] < 1e-5


def test_a_part_that_fails_is_reported_and_the_others_run(monkeypatch, tmp_path):
    gpu_check = script("gpu_check")

    def broken(check):
        raise RuntimeError("no kernel")

    parts = {
        "a": broken,
        "b": lambda check: {"ok": True},
        "c": lambda check: {"ok": False, "apart": 0.5},
    }
    monkeypatch.setattr(gpu_check, "PARTS", parts)
    assert gpu_check.main(["--device", "cpu", "--small"]) == 1
    result = json.loads((tmp_path / "gpu-check" / "cpu-small.json").read_text())
    assert not result["passed"] and result["parts"]["a"]["error"] == "RuntimeError: no kernel"
    assert [result["parts"][name]["ok"] for name in "abc"] == [False, True, False]


def test_a_part_again_keeps_the_others_of_the_same_code(monkeypatch, tmp_path):
    """A part that is mended is run alone; what other code measured is not kept beside it."""
    gpu_check = script("gpu_check")
    small = ["--device", "cpu", "--small"]
    parts = {"a": lambda check: {"ok": False}, "b": lambda check: {"ok": True, "by": 1}}
    monkeypatch.setattr(gpu_check, "PARTS", parts)
    assert gpu_check.main(small) == 1
    parts["a"] = lambda check: {"ok": True}
    assert gpu_check.main([*small, "--parts", "a"]) == 0
    file = tmp_path / "gpu-check" / "cpu-small.json"
    result = json.loads(file.read_text())
    assert list(result["parts"]) == ["a", "b"] and result["parts"]["b"]["by"] == 1
    file.write_text(json.dumps(result | {"code": "another"}))
    assert gpu_check.main([*small, "--parts", "a"]) == 0
    assert list(json.loads(file.read_text())["parts"]) == ["a"]


# The memory of a step, counted without data


@pytest.mark.parametrize("lora", [0, 4])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("autocast", ["float32", "bfloat16"])
def test_the_count_on_tensors_without_data_is_what_a_real_step_allocates(
    autocast, checkpointing, lora
):
    memory = script("memory")
    config = AutoConfig.for_model(
        "llama",
        vocab_size=512,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    batch = memory.batch_of(1024)
    options = {"checkpointing": checkpointing, "lora": lora, "autocast": autocast}
    found = memory.counted(config, batch, **options)

    model = RewardModel(AutoModel.from_config(config), None).train()
    if lora:
        model.lora(rank=lora, alpha=2 * lora)
    if checkpointing:
        model.backbone.gradient_checkpointing_enable({"use_reentrant": False})
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    outputs = Outputs(model, REGRESSION, autocast)
    with torch.profiler.profile(profile_memory=True) as profile:
        outputs(batch).square().sum().backward()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    allocated = np.cumsum([event.nbytes() for event in events]).max()
    assert found["peak"] - found["held"] == pytest.approx(allocated, rel=0.02)
