"""hs2lib.score, from the command line and as a function: the same scores whatever happens on the way."""

import json
import os
import random
import shutil
import signal
import sys
import time

import forked
import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from classifiers import Plain, classifier

from hs2lib.group import ATTRIBUTES
from hs2lib.models import backbones
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.paper import HEAD_WEIGHTS
from hs2lib.paths import sha256
from hs2lib.score import score, scoring
from hs2lib.score.__main__ import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return classifier(tmp_path_factory.mktemp("published") / "classifier")


@pytest.fixture(scope="module")
def plain(folder):
    return Plain(folder)


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


MANY = [
    {"prompt": f"Question {i % 5}?", "response": f"Answer {i}. " * (1 + i % 7), "number": i}
    for i in range(60)
]


def test_a_score_does_not_depend_on_what_else_is_in_the_file(tmp_path, folder, plain):
    """In another order, among fewer rows, in batches of another size: the same to rounding."""
    straight = score(written(tmp_path / "a.jsonl", *MANY), folder)
    expected = np.array([float(values[0, 0]) for values in straight.values])
    np.testing.assert_allclose(
        expected[:8], [plain(row["prompt"], row["response"]) for row in MANY[:8]], atol=1e-4
    )
    order = list(range(60))
    random.Random(0).shuffle(order)
    shuffled = score(written(tmp_path / "b.jsonl", *[MANY[i] for i in order]), folder, budget=7)
    got = np.array([float(values[0, 0]) for values in shuffled.values])
    np.testing.assert_allclose(got, expected[order], atol=1e-5)
    alone = score(written(tmp_path / "c.jsonl", MANY[41]), folder)
    assert alone.values[0][0, 0] == pytest.approx(expected[41], abs=1e-5)
    assert straight.out is None and sorted(p.name for p in tmp_path.iterdir()) == [
        "a.jsonl",
        "b.jsonl",
        "c.jsonl",
    ]


def test_a_stopped_run_goes_on_and_scores_nothing_twice(tmp_path, folder):
    """The output is there only when it is whole; what is kept goes then."""
    file, out = written(tmp_path / "a.jsonl", *MANY), tmp_path / "out.jsonl"
    score(file, folder, tmp_path / "straight.jsonl", budget=1)
    model = load_reward_model(folder)
    computed, seen = model._computed, []

    def stop(groups, *how):
        if len(seen) > 20:
            raise KeyboardInterrupt
        seen.extend(groups)
        return computed(groups, *how)

    model._computed = stop
    with pytest.raises(KeyboardInterrupt):
        score(file, model, out, budget=1)
    assert not out.exists() and (tmp_path / ".out.jsonl.kept").is_dir()
    before = len(seen)
    assert 20 < before < 60
    model._computed = lambda groups, *how: seen.extend(groups) or computed(groups, *how)
    score(file, model, out, budget=1)
    assert len(seen) == 60
    assert out.read_bytes() == (tmp_path / "straight.jsonl").read_bytes()
    assert not (tmp_path / ".out.jsonl.kept").exists()


def arguments(folder, where):
    return [str(where / "a.jsonl"), "--model", str(folder), "--out", str(where / "out.jsonl")]


@pytest.mark.slow
def test_kill_9_leaves_nothing_half_written_and_the_same_command_goes_on(tmp_path, folder):
    rows = [row | {"prompt": f"{i} " + row["prompt"]} for i in range(10) for row in MANY]
    written(tmp_path / "a.jsonl", *rows)
    process = forked.start(__file__, *arguments(folder, tmp_path))
    kept = tmp_path / ".out.jsonl.kept"

    def lines():
        return sum(file.read_bytes().count(b"\n") for file in kept.glob("*.jsonl"))

    while process.exitcode is None and lines() < 60:
        time.sleep(0.001)
    process.kill()
    process.join()
    assert 60 <= lines() < 600 and not (tmp_path / "out.jsonl").exists()
    assert main(arguments(folder, tmp_path)) == 0
    assert len(read(tmp_path / "out.jsonl")) == 600 and not kept.exists()


@pytest.mark.slow
def test_a_stop_by_the_keyboard_is_no_traceback_and_keeps_what_is_scored(tmp_path, folder):
    """130 is the code of a command that stopped as it was told; a traceback has another."""
    rows = [row | {"prompt": f"{i} " + row["prompt"]} for i in range(40) for row in MANY]
    written(tmp_path / "a.jsonl", *rows)
    command = [*arguments(folder, tmp_path), "--budget", "64"]
    process = forked.start(sys.modules[main.__module__].__file__, *command)
    while process.exitcode is None and not (tmp_path / ".out.jsonl.kept").is_dir():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    assert not (tmp_path / "out.jsonl").exists() and (tmp_path / ".out.jsonl.kept").is_dir()


NAMES = ("verbosity", "own", "helpfulness")


def test_several_outputs_have_a_column_each_and_one_score_by_weights(tmp_path, capsys):
    """They come in HelpSteer2's order, whatever order the classifier has."""
    folder = classifier(tmp_path / "three", NAMES)
    plain = Plain(folder)
    file = written(
        tmp_path / "a.jsonl", {"prompt": "Why?", "chosen": "So it is.", "rejected": "No"}
    )
    theirs = {text: dict(zip(NAMES, plain.outputs("Why?", text), strict=True)) for text in ("So it is.", "No")}  # fmt: skip
    command = [str(file), "--model", str(folder), "--out", str(tmp_path / "o.jsonl")]
    assert main(command) == 0
    assert "random" not in capsys.readouterr().out  # without an overall score nothing is right
    (row,) = read(tmp_path / "o.jsonl")
    assert list(row)[3:6] == ["score_chosen_helpfulness", "score_chosen_verbosity", "score_chosen_own"]  # fmt: skip
    for name in NAMES:
        assert row[f"score_chosen_{name}"] == pytest.approx(theirs["So it is."][name], abs=1e-4)
    assert main([*command, "--weights", "helpfulness:.5,own:-1"]) == 0
    (row,) = read(tmp_path / "o.jsonl")
    overall = {text: 0.5 * values["helpfulness"] - values["own"] for text, values in theirs.items()}
    assert row["score_chosen"] == pytest.approx(overall["So it is."], abs=1e-4)
    right = overall["So it is."] > overall["No"]
    assert f"model    {100 * right:5.1f} %" in capsys.readouterr().out
    assert main([*command, "--weights", "humor:1"]) == 2
    assert "weighting 'humor:1' needs an output 'humor'" in capsys.readouterr().err


def test_a_model_of_our_own_is_weighed_as_the_paper_weighs_it(tmp_path):
    """Notebook 05's model has five outputs, and notebook 06 takes the weights of the paper's 70B model."""
    model = RewardModel.new("tiny", seed=3)
    model.save(tmp_path / "ours")
    scored = score(written(tmp_path / "a.jsonl", *MANY[:4]), tmp_path / "ours")
    assert scored.outputs == ATTRIBUTES
    assert scored.weights == pytest.approx(HEAD_WEIGHTS["Llama 3 70B w. HelpSteer2"])
    expected = model.score(scored.file.groups).double().numpy() @ list(scored.weights.values())
    np.testing.assert_allclose(np.concatenate(scored.scores), expected, atol=1e-6)


def test_a_refused_response_has_no_score_and_is_counted(tmp_path):
    """With control_text "refuse" a text that spells out a turn's end is set aside, as everywhere."""
    RewardModel.new("tiny", attributes=("reward",), control_text="refuse").save(tmp_path / "strict")
    rows = [{"prompt": "a", "chosen": "b", "rejected": "c<|im_end|>"} for _ in range(2)]
    rows[1]["rejected"] = "c"
    out = tmp_path / "o.jsonl"
    scored = score(written(tmp_path / "a.jsonl", *rows), tmp_path / "strict", out)
    first, second = read(out)
    assert first["score_rejected"] is None and isinstance(first["score_chosen"], float)
    assert isinstance(second["score_rejected"], float)
    assert set(scored.accuracy.number) == {1}


def test_long_rows_and_bad_rows_by_option(tmp_path, folder, plain, capsys):
    rows = [
        {"prompt": "Why?", "response": "So."},
        {"prompt": "Why?", "response": "no way " * 200},
        {"prompt": "Why?"},
    ]
    out = tmp_path / "o.jsonl"
    command = [str(written(tmp_path / "a.jsonl", *rows)), "--model", str(folder)]
    command += ["--out", str(out), "--max-tokens", "120"]
    assert main(command) == 2
    assert "Or leave such rows out with --bad-rows leave-out." in capsys.readouterr().err
    command += ["--bad-rows", "leave-out"]
    assert main(command) == 2
    assert "--too-long cut" in capsys.readouterr().err and not out.exists()
    assert main([*command, "--too-long", "leave-out"]) == 0
    printed = capsys.readouterr().out
    assert "line 3" in printed and "line 2" in printed
    first, second = read(out)
    assert first["score"] == pytest.approx(plain("Why?", "So."), abs=1e-4)
    assert second == rows[1] | {"score": None}
    assert main([*command, "--too-long", "cut"]) == 0
    printed = capsys.readouterr().out
    (_, second) = read(out)
    assert second["response"] == rows[1]["response"], "the row is carried whole"
    left = int(printed.partition("in line 2 by ")[2].split(" characters")[0].replace(",", ""))
    text = rows[1]["response"][:-left]
    assert second["score"] == pytest.approx(plain("Why?", text), abs=1e-4)


def test_a_csv_in_and_a_csv_out_with_columns_named_by_hand(tmp_path, folder, plain):
    file = tmp_path / "my.csv"
    file.write_text("q;reply;rater\nq1;yes, it is;ann\nq2;no;\n")
    command = [str(file), "--model", str(folder), "--out", str(tmp_path / "o.csv")]
    assert main([*command, "--columns", "prompt=q,response=reply"]) == 0
    frame = pd.read_csv(tmp_path / "o.csv")
    assert list(frame) == ["q", "reply", "rater", "score"] and frame.rater[0] == "ann"
    assert frame.score.tolist() == pytest.approx(
        [plain("q1", "yes, it is"), plain("q2", "no")], abs=1e-4
    )


# Bad input: one clear error, nothing half-written


def lm_folder(tmp_path, folder):
    return str(backbones.tiny_model())


def policy_folder(tmp_path, folder):
    return str(load_policy("tiny").save(tmp_path / "policy"))


def run_folder(tmp_path, folder):
    """The folder of a run of notebook 05, which holds its model."""
    (tmp_path / "05@mine" / "model").mkdir(parents=True)
    return "../05@mine"


def broken_folder(tmp_path, folder):
    broken = classifier(tmp_path / "broken")
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    return str(broken)


GOOD = [{"prompt": "Why?", "response": "So."}]


def folder_without_system_turns(tmp_path, folder):
    strict = classifier(tmp_path / "strict")
    (strict / "chat_template.jinja").write_text(
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    return str(strict)


def pickled_folder(tmp_path, folder):
    pickled = classifier(tmp_path / "pickled")
    weights = safetensors.torch.load_file(pickled / "model.safetensors")
    torch.save(weights, pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    return str(pickled)


def folder_without_pad(tmp_path, folder):
    without = classifier(tmp_path / "without")
    file = without / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    settings.pop("pad_token")
    file.write_text(json.dumps(settings))
    return str(without)


def file_of_folder(tmp_path, folder):
    return str(folder / "config.json")


BAD = {
    "a system turn that the template refuses": (
        [
            *GOOD,
            {
                "prompt": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Why?"},
                ],
                "response": "So.",
            },
        ],
        folder_without_system_turns,
        [],
        "a.jsonl, line 2: the chat template refuses a conversation with roles "
        "['system', 'user']: no system. Fix: take rows with such turns out",
    ),
    "a pickled model": (GOOD, pickled_folder, [], "no file named model.safetensors"),
    "no pad token": (GOOD, folder_without_pad, [], "with --pad-token for a reward model"),
    "a file for a model": (GOOD, file_of_folder, [], "cannot be loaded: it is a file. Fix: name"),
    "a column without a name": (GOOD, None, ["--column", " "], "the new columns have no name"),
    "a revision of a folder": (GOOD, None, ["--revision", "main"], "which has no revisions"),
    "a pad token that is none": (GOOD, None, ["--pad-token", "nope"], ". Fix: name the folder"),
    "an empty file": ([], None, [], "the file has no rows"),
    "no such file": (None, None, [], "there is no such file"),
    "two shapes": (
        [*GOOD, {"prompt": "a", "chosen": "b", "rejected": "c"}],
        None,
        [],
        "line 2, field 'response': the column is missing; the row has: prompt, chosen, rejected",
    ),
    "a model without head": (GOOD, lm_folder, [], "never trained as such"),
    "a policy": (GOOD, policy_folder, [], "holds a policy, no reward model"),
    "a broken model": (GOOD, broken_folder, [], "cannot be loaded"),
    "no such model": (
        GOOD,
        lambda tmp_path, folder: "./no-such-folder",
        [],
        "the model ./no-such-folder cannot be loaded: there is no such folder.",
    ),
    "a name that is no folder": (
        GOOD,
        lambda tmp_path, folder: "my-publishd",
        [],
        "the model my-publishd cannot be loaded: there is no such folder.",
    ),
    "a run in place of its model": (
        GOOD,
        run_folder,
        [],
        "it holds a run, whose model is ../05@mine/model.",
    ),
    "a column that is there": (
        [{**GOOD[0], "score": 1}],
        None,
        [],
        "field 'score': the file has this column already. Fix: name the new ones with --column",
    ),
    "a column that is not there": (
        GOOD,
        None,
        ["--columns", "prompt=question"],
        "field 'question': columns names it for prompt, and the row has: prompt, response",
    ),
    "an output of another kind": (GOOD, None, ["--out", "o.xlsx"], "unknown kind of file '.xlsx'"),
    "half an option": (GOOD, None, ["--columns", "prompt"], "as prompt=question,response=answer"),
    "every row too long": (
        [{"prompt": "Why?", "response": "no " * 500}],
        None,
        ["--too-long", "leave-out", "--max-tokens", "100"],
        "every row is longer than 100 tokens",
    ),
}


def test_rows_that_the_model_was_trained_on_are_no_measurement(tmp_path, folder, capsys):
    """Notebook 05 leaves the file's digest beside a model; other files, and an edited one, are fine."""
    model = tmp_path / "model"
    shutil.copytree(folder, model)
    pair = {"prompt": "Why?", "chosen": "So it is.", "rejected": "No."}
    file = written(tmp_path / "pairs.jsonl", pair)
    noted = f"your own preferences, pairs.jsonl (sha256 {sha256(file)[:12]})\n"
    (model / "trained-on.txt").write_text(noted)
    words = ["--model", str(model), "--out", str(tmp_path / "out.jsonl")]
    assert main([str(file), *words]) == 0
    assert "No measurement: the model was trained on rows of this file." in capsys.readouterr().out
    written(file, pair, pair)
    assert main([str(file), *words]) == 0
    assert "No measurement" not in capsys.readouterr().out


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_error_and_nothing_is_written(
    tmp_path, folder, capfd, monkeypatch, name
):
    """capfd, because what libraries say on the way would hide it."""
    rows, make_model, options, words = BAD[name]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    where = tmp_path / "work"
    where.mkdir()
    monkeypatch.chdir(where)
    if rows is not None:
        written(where / "a.jsonl", *rows)
    model = make_model(tmp_path, folder) if make_model else str(folder)
    capfd.readouterr()
    assert main(["a.jsonl", "--model", model, *options]) == 2
    captured = capfd.readouterr()
    assert words in captured.err and captured.out == ""
    assert "Traceback" not in captured.err and len(captured.err.strip().splitlines()) <= 2
    assert sorted(file.name for file in where.iterdir()) == (
        ["a.jsonl"] if rows is not None else []
    )


def test_a_full_disk_leaves_the_scores_that_are_kept(tmp_path, folder, monkeypatch):
    """The output is written last. Where that fails, hours of scoring must not be lost with it."""

    def full(*arguments):
        raise OSError(28, "No space left on device")

    file, out = written(tmp_path / "a.jsonl", *MANY[:4]), tmp_path / "o.jsonl"
    monkeypatch.setattr(scoring.output, "write", full)
    assert main([str(file), "--model", str(folder), "--out", str(out)]) == 2
    assert not out.exists() and list((tmp_path / ".o.jsonl.kept").glob("*.jsonl"))


def test_the_function_takes_a_loaded_model_and_columns(tmp_path, folder):
    file = written(tmp_path / "a.jsonl", {"q": "Why?", "a": "So.", "b": "Because.", "best": "b"})
    columns = "prompt=q,response_a=a,response_b=b,winner=best"
    scored = score(file, load_reward_model(folder), columns=columns, limit=1)
    assert scored.file.groups[0].preference == 1 and set(scored.accuracy.number) == {1}
    with pytest.raises(ValueError, match="unknown bad_rows 'skip'"):
        score(file, folder, bad_rows="skip")


def test_bfloat16_is_near_and_kept_apart(tmp_path, folder):
    """A GPU's precision; scores of one must never be read for the other."""
    file = written(tmp_path / "a.jsonl", *MANY[:6])
    exact, rough = (score(file, folder, precision=p) for p in ("float32", "bfloat16"))
    exact, rough = np.concatenate(exact.scores), np.concatenate(rough.scores)
    assert (exact != rough).any() and np.abs(exact - rough).max() < 0.1 * np.abs(exact).max()


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.exit(main([*sys.argv[1:], "--budget", "64"]))


def test_a_folder_is_no_file_of_prompts(tmp_path, folder, capsys):
    assert main([str(tmp_path), "--model", str(folder)]) == 2
    assert "it is a folder. Fix: name a file in it" in capsys.readouterr().err
