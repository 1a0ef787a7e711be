"""Benchmarks: each runs whole on a tiny model, FLOPs are those by hand, a GPU's results never
replace a CPU's.

No GPU is needed. What only one can show is that its kernels give the results of the CPU's; here the
clock, the memory and the devices are stood in for, and what is tested is what is made of them.
"""

import ast
import importlib
import io
import json
import os
import random
import statistics
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tenacity
import torch
import vllm_server
from sklearn.linear_model import Ridge
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModel, AutoModelForCausalLM

from hs2lib.corpus import generate as corpus
from hs2lib.engine.trees import pack
from hs2lib.group import Group, Response, Turn
from hs2lib.models import baselines
from hs2lib.models.backbones import tiny_model
from hs2lib.models.policy import load_policy
from hs2lib.models.rollout import Server
from hs2lib.paths import root

pytestmark = pytest.mark.slow

sys.path.insert(0, str(root() / "benchmarks"))
(
    common,
    dpo_step,
    fuzz,
    gpu_check,
    kills,
    real_rows,
    rollout,
    same_tables,
    score_pairs,
    steerlm2_step,
    train_reward,
) = map(
    importlib.import_module,
    (
        *(
            "common",
            "dpo_step",
            "fuzz",
            "gpu_check",
            "kills",
            "real_rows",
            "rollout",
            "same_tables",
            "score_pairs",
        ),
        *("steerlm2_step", "train_reward"),
    ),
)
departures = importlib.import_module("departures")
score_file = importlib.import_module("score_file")
reward_benchmarks = importlib.import_module("reward_benchmarks")
sys.path.pop(0)


def talk(id, words):
    """A conversation of one exchange, so many words long."""
    return Group(id, (Turn("user", "Hi"),), (Response(f"{id}/0", "yes " * words),))


def test_departures_train_on_what_they_say():
    """Of ten conversations one is too long: the next is trained twice in its place, or it is cut,
    or it goes. By hand: tokens of probability 1/2, and of 1/4 and 1/8, are a loss of 1.75 ln 2 by
    conversation, 2 ln 2 by token."""
    talks = [talk(str(i), 30 if i == 4 else 3) for i in range(10)]
    policy = load_policy("small")
    theirs, _ = departures.replaced(policy, talks)
    assert [item.id for item in theirs] == ["0", "1", "2", "3", "5", "5+", "6", "7", "8", "9"]
    assert [item.id for item in departures.shortened(policy, talks)[0]] == list("012356789")
    most, (whole, _), (cut, _) = (
        made(policy, talks) for made in (departures.limit, departures.ours, departures.cut_off)
    )
    assert [item.sequences[0] for item in cut] == [item.sequences[0][:most] for item in whole]
    assert [item.targets.item() for item in cut] == [
        sum(b - a for a, b in item.starts[0]) for item in cut
    ]
    assert cut[4].targets < whole[4].targets and cut[3] == whole[3]
    outputs, targets = np.log([[0.5, 1], [1 / 32, 1]]), np.array([[1.0], [2.0]])
    for variant, expected in ((departures.by_conversation, 1.75), (departures.ours, 2.0)):
        _, objective = variant(policy, talks[:1])
        tensors = torch.tensor(outputs), torch.tensor(targets)
        loss = objective.total(*tensors, None) / objective.count(tensors[1], None)
        assert loss.item() == pytest.approx(expected * np.log(2))


def test_one_fit_to_all_games_gives_each_models_share_of_games_won(monkeypatch):
    """Arena Hard's fit and the closed form: 3 of 4 games won, and 1.5 of 2."""
    monkeypatch.setattr(departures, "MODELS", 2)
    tables = [([3, 1], [3, 0]), ([1, 1], [1, 0.5])]
    games = [
        departures.one_by_one(pd.DataFrame({"counted": n, "won": won}, dtype=float))
        for n, won in tables
    ]
    rates = departures.joint(pd.concat([game.assign(model=k) for k, game in enumerate(games)]))
    assert rates == pytest.approx([75, 75], abs=1e-2)


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Small dense products, reports in a folder of the test, and no GPU even where there is one."""
    monkeypatch.setitem(common.DENSE, "cpu", (8, 8, 8, 1))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_damaged_files_are_read_set_aside_or_refused(monkeypatch, tmp_path):
    """A sample of the ten thousand; a seed gives the same file everywhere, so that a failure can be repeated."""
    for module, name in (
        (fuzz.truthfulqa, "primer"),
        (fuzz.mt_bench, "WHOLE"),
        (fuzz.arena_hard, "WHOLE"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))  # given back after the test
    monkeypatch.setattr(fuzz.alpaca_eval, "INSTRUCTIONS", fuzz.alpaca_eval.INSTRUCTIONS)
    ends = {seed: fuzz.outcome(seed, tmp_path)[1] for seed in range(120)}
    assert set(ends.values()) == {"read", "set aside", "refused"}, ends
    first, again = (fuzz.mutant(5, tmp_path)[1].read_bytes() for _ in range(2))
    assert first == again


def test_a_hundred_kills_leave_no_target_signal_or_notebook_out():
    """Drawn by weights alone, the first twenty kills never fell on one of two training processes."""
    rng, killed = (
        random.Random(0),
        [{"target": "kernel", "signal": "SIGINT", "notebook": "b"}] * 5,
    )  # an unequal start
    while len(killed) < 100:
        killed.append(
            dict(
                zip(
                    killed[0],
                    kills.draw(rng, {"a": 10.0, "b": 10.0, "c": 40.0}, killed),
                    strict=True,
                )
            )
        )
    assert {row["target"] for row in killed[5:10]} == set(kills.TARGETS) - {"kernel"}
    both = Counter((row["target"], row["signal"]) for row in killed)
    assert len(both) == 18 and min(both.values()) >= 3
    notebooks = Counter(row["notebook"] for row in killed)
    assert abs(notebooks["a"] - notebooks["b"]) <= 1 and notebooks["c"] >= 8


def test_kills_of_an_earlier_commit_count_where_they_were_clean_and_this_ones_all(monkeypatch):
    """What was mended since must not stand against the count, and nothing of today's may drop out of it."""
    written, same = (
        {},
        {"signal": "SIGINT", "notebook": "a", "differing": "", "left": [], "others_s": 0.0},
    )
    monkeypatch.setattr(kills.common, "write", lambda name, **result: written.update(result))
    for commit, clean, outcome, number, met in (
        ("old", True, "killed", 2, True),
        ("old", False, "killed", 1, False),
        ("now", False, "killed", 2, False),
        ("now", True, "ended before the kill", 1, False),
    ):
        row = {
            "target": "job",
            "second_writer": not clean,
            "clean": clean,
            "commit": commit,
            "outcome": outcome,
        }
        first = {**row, "clean": True, "second_writer": False, "commit": "now", "outcome": "killed"}
        done = [same | first, same | row]
        kills.write(done, "now", 2, {})
        assert (len(kills.counted(done, "now")), written["met"], written["kills"]) == (
            number,
            met,
            done,
        )


def test_real_rows_are_predicted_by_what_never_saw_them(monkeypatch):
    """A figure that is chosen by what it is measured on is worth nothing: other ratings of a fold
    must change nothing in what is predicted for it, whatever the penalty and the way chosen, and
    all that is predicted for other folds."""
    monkeypatch.setattr(
        real_rows, "WAYS", {"pairs": (("a", "b"), "pairs"), "ratings": (("b",), "standardised")}
    )
    rng = np.random.default_rng(0)
    read = {"a": rng.normal(size=(120, 4)), "b": rng.normal(size=(120, 3))}
    truth = read["b"] @ (2, 1, 0) + 0.1 * rng.normal(size=120)
    rows = SimpleNamespace(read=read, labels=np.tile(truth[:, None], 5), prompt=np.arange(120) // 2)
    rows.first, rows.second = np.arange(0, 120, 2), np.arange(1, 120, 2)
    rows.strength = truth[1::2] - truth[::2]
    before = real_rows.cross_validated(rows, 0, list(real_rows.WAYS))
    tested = baselines.folds(rows.prompt[rows.first], real_rows.OUTER, 0) == 3
    again = tested[rows.prompt]
    rows.labels = np.where(again[:, None], rng.normal(size=(120, 5)), rows.labels)
    rows.strength = np.where(tested, rng.normal(size=60), rows.strength)
    after = real_rows.cross_validated(rows, 0, list(real_rows.WAYS))
    for way in (*real_rows.WAYS, "chosen inside"):
        assert real_rows.right(rows, before[way])[~tested].mean() > 0.9, (
            "there is something to learn"
        )
        assert np.array_equal(before[way][tested], after[way][tested])
        assert not np.isclose(before[way][~tested], after[way][~tested]).any()


@pytest.mark.parametrize("shape", [(9, 14), (14, 9)])
@pytest.mark.parametrize("intercept", [True, False])
def test_real_rows_ridge_is_scikit_learns(shape, intercept):
    rng = np.random.default_rng(0)
    X, y, test = rng.normal(size=shape), rng.normal(size=shape[0]), rng.normal(size=(3, shape[1]))
    ours = real_rows.path(X, y, test, intercept)
    for alpha, column in zip(real_rows.ALPHAS, ours.T, strict=True):
        assert np.allclose(
            column, Ridge(alpha * shape[0], fit_intercept=intercept).fit(X, y).predict(test)
        )


# --- whole benchmarks
# ---------------------------------------------------------------------------------------------


def ask(i):
    return (Turn("user", f"Name {i} primes, please."),)


def unrated(*args, **options):
    """Pairs of unequal lengths with a word of their own each, in place of HelpSteer2's."""
    pairs = [(f"{i} primes: two, three " + "and five " * i, f"None. Not {i}.") for i in range(6)]
    groups = [
        Group(f"g{i}", ask(i), tuple(Response(f"g{i}/{j}", text) for j, text in enumerate(two)))
        for i, two in enumerate(pairs)
    ]
    return SimpleNamespace(groups=groups, source="made for a test")


def rated(*args, **options):
    """Rated replies in place of Open Assistant's."""
    names, groups = train_reward.ATTRIBUTES, unrated().groups
    rows = [
        [
            Response(r.id, r.text, tuple(float((i + j + k) % 5) for k in range(5)))
            for j, r in enumerate(g.responses)
        ]
        for i, g in enumerate(groups)
    ]
    labelled = [
        Group(g.id, g.prompt, tuple(row), names) for g, row in zip(groups, rows, strict=True)
    ]
    return SimpleNamespace(groups=labelled, source="made for a test")


def in_this_process(module):
    """`common.alone` without the seconds it takes to import everything again."""

    def alone(script, arguments, environment=None):
        with redirect_stdout(io.StringIO()) as printed:
            module.main(arguments)
        line = next(line for line in printed.getvalue().splitlines() if line.startswith("RESULT "))
        return json.loads(line.removeprefix("RESULT "))

    return alone


RUNS = {
    score_pairs: "--pairs 2 --repeats 1",
    train_reward: "--replies 4 --steps 2 --threads 1 --budget 128 --checkpointing",
    dpo_step: "--pairs 2 --steps 1 --rows 1 --growth 2 --dtypes float32 --threads 1",
    steerlm2_step: "--groups 1 --repeats 1 --growth 1 --threads 1",
    rollout: "--prompts 2 --n 2 --tokens 4 --batch 4 --repeats 1 --sizes 2",
}


@pytest.mark.slow
@pytest.mark.skipif("HS2_DATA_DIR" not in os.environ, reason="HS2_DATA_DIR is not set")
def test_a_scored_file_and_transformers_pipeline_give_the_same_scores(monkeypatch, tmp_path):
    """Both read the same file of real pairs. What is timed must be one task."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path))
    score_file.main(["--model", "tiny", "--pairs", "7"])
    result = json.loads((tmp_path / "benchmarks" / "score_file.json").read_text())
    assert result["pairs"] == 7 and result["ratios"].keys() == score_file.GOALS.keys()
    tokens = result["tokens"]
    by_length = tokens["pipeline, sorted by length"]
    assert tokens["one by one"] < by_length < tokens["pipeline, file order"]
    assert "largest difference of a score: {'pipeline, file order': " in result["check"]
    rows = score_file.pairs(7)
    assert len(rows) == 7 and all(row["chosen"] != row["rejected"] for row in rows)
    assert score_file.padded_tokens(np.array([5, 1, 3]), np.array([1, 2, 0])) == 15


@pytest.mark.slow
@pytest.mark.parametrize("module", RUNS, ids=lambda module: module.__name__)
def test_a_benchmark_runs_whole_and_both_sides_agree(module, monkeypatch, tmp_path):
    """A script that is run once a year rots unseen. Both sides on a tiny model must agree: its speed says nothing."""
    monkeypatch.setenv("HS2_DATA_DIR", str(tmp_path))
    pairs = SimpleNamespace(pairs=corpus.benchmark(1))
    monkeypatch.setattr(score_pairs.pairs, "load_pairs", lambda *args, **options: pairs)
    monkeypatch.setattr(common, "alone", in_this_process(module))
    if module is not score_pairs:
        monkeypatch.setattr(module.load, "load", rated if module is train_reward else unrated)
    module.main(["--model", "tiny", *RUNS[module].split()])
    (file,) = (tmp_path / "benchmarks").iterdir()
    result = json.loads(file.read_text())
    assert (
        file.name == f"{module.__name__}.json"
        and result["name"] == module.__name__
        and result["model"] == "tiny"
    )
    assert result["ratio"] > 0 and result["timings"]
    checks = {score_pairs: "; the same: True", train_reward: "}: True;", dpo_step: "the same: True"}
    assert checks.get(module, ": True") in result["check"]
    if module is train_reward:
        # On the same task, so that the shares of two sides compare as their speed does; computed:
        # eight passes for six.
        ours, theirs = (
            result["utilisation"][f"{side} float32"]["of the dense rate"]
            for side in ("ours", "theirs")
        )
        assert (
            min(ours["model"], theirs["model"]) > 0 and theirs["hardware"] > 4 / 3 * theirs["model"]
        )
        assert (
            result["utilisation"]["ours float32"]["of the data sheet"]
            == "not known for this device"
        )
    if module is score_pairs:
        one = result["utilisation"]["float32"]["groups"]["of the dense rate"]
        assert one["hardware"] == pytest.approx(result["share_of_dense_rate"]["float32"])
        assert one["model"] / one["hardware"] > 1.05, "the prompts of pairs are computed once"


def test_scoring_reward_benchmarks_runs_whole_and_all_sides_agree(monkeypatch, tmp_path):
    """Generated questions stand in for the real ones: 30 pairs, three ways to run them, one set of numbers.

    By hand, 15 questions of RM-Bench are 45 pairs and 12 of JudgeBench 12: of 57 just 30 are drawn.
    """
    monkeypatch.setenv("HS2_DATA_DIR", str(tmp_path))
    sets = reward_benchmarks.sets
    made = {name: sets.load(name, "embedded", n_per_part=3) for name in ("RM-Bench", "JudgeBench")}
    monkeypatch.setattr(sets, "load", lambda name, *args, **options: made[name])
    reward_benchmarks.main(["--model", "tiny", "--pairs", "30"])
    result = json.loads((tmp_path / "benchmarks" / "reward_benchmarks.json").read_text())
    questions = result["questions"]
    assert 3 * questions["RM-Bench"] + questions["JudgeBench"] == 30
    assert result["check"].endswith("the same: True") and set(result["ratios"]) == {
        "padded, as they come",
        "padded, style by style",
    }
    assert result["tokens"]["groups"] < result["tokens"]["one by one"]
    assert result["tokens"]["one by one"] <= result["tokens"]["padded, as they come"]
    reward_benchmarks.main(["--model", "tiny", "--pairs", "7", "--loops", "padded, style by style"])
    result = json.loads((tmp_path / "benchmarks" / "reward_benchmarks.json").read_text())
    assert set(result["ratios"]) == {"padded, style by style"} and result["pairs"] == 7
    assert result["goal"].startswith("at least 2x padded, style by style")
    with pytest.raises(SystemExit, match="there are only 57 pairs: ask for no more"):
        reward_benchmarks.main(["--model", "tiny", "--pairs", "58"])


def test_the_orders_of_padded_loops_by_hand():
    """A question of RM-Bench (six answers), then a pair. First answers of up to eight pairs, then second ones."""
    orders = reward_benchmarks.orders([6, 2])
    assert orders == {
        "padded, as they come": [0, 1, 2, 6, 3, 4, 5, 7],
        "padded, style by style": [0, 1, 2, 6, 3, 4, 5, 7],
    }
    by_style = reward_benchmarks.orders([6, 6])["padded, style by style"]
    assert by_style == [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]
    assert reward_benchmarks.tokens_of([1, 2, 3, 4], [0, 1, 2, 3]) == 16


# --- FLOPs
# --------------------------------------------------------------------------------------------------------

# Two layers of tiny: q and o 32 x 64, k and v 32 x 32, three products 32 x 64; 4 heads of 16.
WEIGHTS = 2 * (2 * 32 * 64 + 2 * 32 * 32 + 3 * 32 * 64)


def test_flops_of_two_layers_by_hand():
    """10 tokens in one sequence: 55 pairs of a query and a key; each costs 2 x 64 to score and 2 x 64 to sum up."""
    model = AutoModel.from_pretrained(tiny_model())
    by_hand = 2 * WEIGHTS * 10 + 2 * (4 * 64) * 55
    assert common.work([10]) == (10, 55)
    assert [common.flops(model, 10, 55, passes) for passes in (1, 3, 4)] == [
        by_hand,
        3 * by_hand,
        4 * by_hand,
    ]


def test_flops_are_those_that_torch_counts():
    """torch's counter as oracle, forward and backward; eager attention scores all 10 x 10 pairs. The rest is rotary."""
    model = AutoModel.from_pretrained(tiny_model(), attn_implementation="eager")
    with FlopCounterMode(display=False) as counter:
        out = model(input_ids=torch.arange(10)[None], use_cache=False).last_hidden_state
        forward = counter.get_total_flops()
        out.sum().backward()
    assert forward == pytest.approx(common.flops(model, 10, 100), rel=1e-3)
    assert counter.get_total_flops() == pytest.approx(
        common.flops(model, 10, 100, passes=3), rel=1e-3
    )


def test_packed_work_counts_a_shared_prompt_once():
    """Three shared tokens, then one and two of their own: 3 + 1 + 2 tokens, which see 1 2 3, 4, and 4 5."""
    group = [[1, 2, 3, 4], [1, 2, 3, 5, 6]]
    assert common.packed([pack([group])]) == (6, 19)
    assert common.work(len(sequence) for sequence in group) == (9, 10 + 15)


def test_padded_rows_are_as_long_as_their_longest():
    """Lengths 3, 5 in one batch of theirs: two rows of 5; of the pairs' loop in arrival order 3 beside none."""
    these = [SimpleNamespace(sequences=([1, 2, 3], [1, 2, 4, 5, 6]))]
    assert train_reward.work(these, 99, "theirs") == ((8, 6 + 15), (10, 30))
    assert train_reward.work(these, 99, "ours") == ((8, 21), (6, 1 + 2 + 3 + 3 + 4 + 5))
    sizes = score_pairs.work([list(these[0].sequences)], 99)
    assert sizes["padded, arrival order"] == sizes["padded, sorted by length"] == (10, 30)
    assert sizes["one by one"] == (8, 21) and sizes["groups"] == (6, 18)


# The names that torch gives.
@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A100 80GB PCIe", 312e12),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA GeForce RTX 4090", None),
        ("Intel(R) Xeon(R) Processor, 2 cores", None),
    ],
)
def test_a_peak_is_named_only_where_it_is_known(name, peak):
    """A PCIe card or a part of a device has not the peak of its namesake."""
    assert common.data_sheet(name, "bfloat16") == peak


def test_utilisation_by_hand(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    shares = common.utilisation(989e12, 494.5e12, 2.0, 400e12, "bfloat16")
    assert shares["of the data sheet"] == {"model": 0.5, "hardware": 0.25}
    assert shares["of the dense rate"]["hardware"] == pytest.approx(247.25 / 400)


# --- a GPU, stood in for
# ------------------------------------------------------------------------------------------


def test_the_clock_waits_for_a_gpu_and_a_first_round_is_not_counted(monkeypatch):
    """Three calls for two rounds; before and after each the device is waited for; memory is what a call adds."""
    happened = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: happened.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: happened.append("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 3 * 2**20)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 10 * 2**20)
    memory = {}
    seconds = common.times({"side": lambda: happened.append("call")}, 2, "cuda", memory)
    assert len(seconds["side"]) == 2 and memory == {"side": 7.0}
    assert happened == ["reset", "wait", "call", "wait"] * 3
    happened.clear()
    assert (
        len(common.times({"side": lambda: happened.append("call")}, 2)["side"]) == 2
        and happened == ["call"] * 2
    )


@pytest.mark.parametrize(
    ("device", "there", "message"),
    [
        ("cuda", 0, "no CUDA device was found"),
        ("cuda", 2, "2 GPUs are visible"),
        ("cpu", 1, "CUDA_VISIBLE_DEVICES="),
    ],
)
def test_another_device_than_asked_for_is_one_clear_line(device, there, message, monkeypatch):
    """A trainer takes whatever GPU it sees, so a CPU's figures are never taken beside one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: there)
    with pytest.raises(SystemExit, match=message) as error:
        score_pairs.main(["--device", device])
    assert "\n" not in str(error.value)


def test_defaults_of_a_gpu_hold_there_only_and_what_is_typed_wins(monkeypatch):
    monkeypatch.setattr(common, "find", lambda device: None)

    def budget(*arguments):
        parser = common.argparse.ArgumentParser()
        parser.add_argument("--budget", type=int, default=2048)
        return common.parse(parser, list(arguments), budget=16384).budget

    assert [budget(), budget("--device", "cuda"), budget("--device", "cuda", "--budget", "9")] == [
        2048,
        16384,
        9,
    ]


def test_a_gpus_result_lies_beside_the_cpus(tmp_path):
    shared = ("steps", "a against b", 2.0, "1x", True, "same", {"a": [1.0]})
    names = [common.write(*shared, on=on).name for on in ("cpu", "cuda")]
    assert (
        names == ["steps.json", "steps-gpu.json"]
        and len(list((tmp_path / "benchmarks").iterdir())) == 2
    )


class OneDevice(TorchDispatchMode):
    """Refuses an operation whose tensors lie on two devices, as a GPU would; "meta" stands for the GPU."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name()
        if name == "aten::_to_copy" and (kwargs or {}).get("device") == torch.device("cpu"):
            return torch.zeros(args[0].shape, dtype=args[0].dtype)
        if (
            name == "aten::_local_scalar_dense" and args[0].is_meta
        ):  # whether a mask is all ones: no
            return 0
        flat = [x for arg in args for x in (arg if isinstance(arg, list | tuple) else [arg])]
        devices = {x.device.type for x in flat if isinstance(x, torch.Tensor) and x.dim()}
        # Copies are how tensors get there, and indices may lie on the CPU.
        if len(devices) > 1 and not name.startswith(
            ("aten::_to_copy", "aten::copy", "aten::index", "aten::_index")
        ):
            raise RuntimeError(f"{name} mixes {devices}")
        return function(*args, **(kwargs or {}))


def test_padded_batches_lie_on_the_models_device(monkeypatch):
    """Their batches are made on the CPU: each tensor must have been moved before the model sees it."""
    sequences = [[1, 2, 3, 4], [1, 2, 5], [1, 2, 9, 10, 11]]
    model = AutoModel.from_pretrained(tiny_model()).eval().to("meta")
    head = torch.nn.Linear(32, 5).to("meta")
    causal = AutoModelForCausalLM.from_pretrained(tiny_model()).to("meta")
    monkeypatch.setattr(steerlm2_step, "N", 3)
    item = SimpleNamespace(sequences=sequences, starts=(2, 2, 2))
    with OneDevice():
        assert score_pairs.padded(model, head, sequences, [2, 0, 1]).shape == (3, 5)
        assert steerlm2_step.padded_log_probs(causal, item, 2, 0).shape == (3,)
        with pytest.raises(RuntimeError, match="mixes"):
            model(input_ids=torch.tensor(sequences[:1]))


# --- vLLM, processes, make
# ----------------------------------------------------------------------------------------


def test_vllms_rounds_are_timed_without_its_start_and_with_an_empty_cache(monkeypatch, tmp_path):
    """Each round after the cache of prompts is emptied, or later ones get prompts free; the first is not timed."""
    monkeypatch.delenv("HS2_DATA_DIR", raising=False)
    options = dict(
        device="cuda",
        dtypes=["bfloat16"],
        model="tiny",
        prompts=2,
        longest=512,
        n=3,
        tokens=4,
        batch=4,
    )
    options = SimpleNamespace(**options, repeats=2)
    timings = {"bfloat16": {"rollouts": [2.0], "generate": [3.0]}}
    assert "not run" in rollout.with_vllm(options, timings)
    with vllm_server.serve(tmp_path) as server:
        monkeypatch.setenv("HS2_VLLM_URL", server.url)
        monkeypatch.setenv("HS2_VLLM_FOLDER", str(tmp_path))
        result = rollout.with_vllm(options, timings)["bfloat16"]
        assert server.steps == [
            "/reset_prefix_cache",
            *vllm_server.STEPS,
            *["/reset_prefix_cache"] * 2,
        ]
        assert len(server.bodies) == 18 and {body["min_tokens"] for body in server.bodies} == {4}
    assert len(timings["bfloat16"]["vllm"]) == 2 and 6 <= result["tokens"] <= 24
    assert result["rollouts over vllm"] == pytest.approx(
        2 / statistics.median(timings["bfloat16"]["vllm"])
    )
    monkeypatch.setenv("HS2_VLLM_FOLDER", str(tmp_path / "other"))
    monkeypatch.setattr(Server.ask.retry, "stop", tenacity.stop_after_attempt(1))
    assert "failed: " in rollout.with_vllm(options, timings)


def test_a_side_in_a_process_of_its_own_gives_its_result_or_its_failure(tmp_path):
    script = tmp_path / "side.py"
    script.write_text(
        "import os, sys\nprint('noise')\nprint('RESULT', os.environ['A'])\nsys.exit(int(sys.argv[1]))\n"
    )
    assert common.alone(str(script), ["0"], {"A": '{"x": 1}'}) == {"x": 1}
    with pytest.raises(SystemExit, match="ended with code 3"):
        common.alone(str(script), ["3"], {"A": "{}"})


def test_bench_gpu_goes_on_after_a_failure_and_names_it(tmp_path):
    """A benchmark that runs out of memory must not cost the others' hour."""
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\necho "$@"\ncase "$1" in *dpo_step.py|*rollout.py) exit 1;; esac\n'
    )
    python.chmod(0o755)
    ready = tmp_path / "ready"
    command = [
        "make",
        "-o",
        str(ready),
        f"READY={ready}",
        f"BIN={tmp_path}",
        "bench-gpu",
        "MODEL=one/small",
    ]
    environment = {
        k: v
        for k, v in os.environ.items()
        if k not in ("MAKEFLAGS", "MAKELEVEL", "CUDA_VISIBLE_DEVICES")
    }
    done = subprocess.run(command, cwd=root(), env=environment, capture_output=True, text=True)
    ran = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("benchmarks/")]
    assert ran == [
        f"benchmarks/{m.__name__}.py"
        for m in (score_pairs, train_reward, dpo_step, steerlm2_step, rollout)
    ]
    assert "--device cuda --model one/small" in done.stdout
    assert done.returncode != 0 and "failed: dpo_step rollout" in done.stderr


# --- the check of a GPU
# -------------------------------------------------------------------------------------------


def imports(file: Path) -> set[str]:
    """What a file imports at its top, and what of this checkout that imports in turn: names of packages not ours."""
    waiting, seen, others = [file], set(), set()
    while waiting:
        seen.add(path := waiting.pop())
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
    """A machine with a GPU has a Python of its own: one package more, and it says nothing at all."""
    with_transformers = {"numpy", "yaml"}  # what it needs itself
    assert (
        imports(root() / "benchmarks" / "gpu_check.py")
        == {"torch", "transformers"} | with_transformers
    )
    assert imports(root() / "benchmarks" / "train_reward.py") > {
        "pandas",
        "pydantic",
    }  # others are seen


@pytest.mark.slow
def test_the_check_of_a_gpu_runs_whole_on_a_cpu(tmp_path):
    """The same code, tiny: what it compares is the same, and a difference fails it."""
    assert gpu_check.main(["--device", "cpu", "--small"]) == 0
    result = json.loads((tmp_path / "gpu-check" / "cpu-small.json").read_text())
    ran = {name for name, part in result["parts"].items() if part["ok"]}
    assert (
        ran == {"exact", "decode", "step", "score", "train", "rollout", "fit"} and result["passed"]
    )
    gradients = result["parts"]["exact"]["shapes"]["Mistral, window 64"]["gradients, float32"][
        "apart"
    ]
    assert 0 < gradients < 1e-5


def test_a_part_that_fails_is_reported_and_the_others_run(monkeypatch, tmp_path, capsys):
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
    """A part that is mended is run alone; what other code measured does not stand beside it."""
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


def test_without_a_gpu_it_says_so_in_one_line():
    with pytest.raises(SystemExit, match=r"^no CUDA device was found .*CUDA_VISIBLE_DEVICES$"):
        gpu_check.main([])


# --- tables before and after
# --------------------------------------------------------------------------------------


@pytest.fixture
def two_reports(tmp_path, monkeypatch):
    """Writes the tables of two report folders; answers with the exit status of the comparison."""
    monkeypatch.setattr(same_tables, "RENAMED", {"01_a/renamed": {"found": "rows"}})
    monkeypatch.setattr(same_tables, "CHANGED", {"07_sft/*": "SFT's trainer is another"})

    def compare(before, after):
        for side, tables in (("before", before), ("after", after)):
            for name, text in tables.items():
                (tmp_path / side / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / side / f"{name}.csv").write_text(text)
        return same_tables.main([str(tmp_path / "before"), str(tmp_path / "after")])

    return compare


REPORTS = "14_paper_tables_and_figures/reports"


@pytest.mark.parametrize(
    ("name", "before", "after", "status"),
    [
        ("01_a/same", "a,b\n1,2\n", "a,b\n1,2\n", 0),
        ("01_a/same", "a,b\n1,2\n", "a,b\n1,2.0\n", 1),
        ("01_a/same", "a,b\n1,2\n", "a,b\n1,2\n3,4\n", 1),
        ("01_a/moved", "a,b\n1,2\n3,4\n", "b,a\n4,3\n2,1\n", 0),
        ("01_a/moved", "a,b\n1,2\n3,4\n", "b,a\n4,1\n2,3\n", 1),
        (
            "01_a/words",
            "measure,x\ngold,1\ngoodness,2\n",
            "measure,x\ntruth,1\nreward model's score,2\n",
            0,
        ),
        (
            "01_a/words",
            "measure,x\ngold,1\ngoodness,2\n",
            "measure,x\ntruth,2\nreward model's score,1\n",
            1,
        ),
        ("01_a/renamed", 'found,b\n1,"x, y"\n', 'rows,b\n1,"x, y"\n', 0),
        ("01_a/renamed", "found,b\n1,2\n", "rows,b\n1,3\n", 1),
        ("01_a/renamed", "found,b\n1,2\n", "rows,c\n1,2\n", 1),
        ("01_a/other", "found,b\n1,2\n", "rows,b\n1,2\n", 1),
        ("07_sft/loss", "a\n1\n", "a\n2\n", 0),
        (REPORTS, "tier,commit\nsmoke,1a\n", "tier,commit\nsmoke,2b\n", 0),
        (REPORTS, "tier,commit\nsmoke,1a\n", "tier,commit\ndemo,1a\n", 1),
    ],
)
def test_same_tables_sees_what_may_not_differ(two_reports, name, before, after, status):
    """A comparison that lets a number through proves nothing about a rewrite."""
    assert two_reports({name: before}, {name: after}) == status


def test_same_tables_names_a_table_that_only_one_side_has(two_reports, capsys):
    assert two_reports({"01_a/t": "a\n"}, {"01_a/t": "a\n", "01_a/more": "a\n"}) == 1
    assert "01_a/more: only in" in capsys.readouterr().out


def test_same_tables_wants_tables(two_reports):
    """Two empty folders are the same and show nothing."""
    with pytest.raises(FileNotFoundError, match="no table"):
        two_reports({}, {"01_a/t": "a\n"})
