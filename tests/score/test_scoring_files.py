"""Files as users have them, scored from the command line.

Each score must be that of plain transformers, one conversation at a time.
"""

import gzip
import json
import os

import pandas as pd
import pytest
from classifiers import Plain, classifier

from hs2lib.score.__main__ import main

needs_mirror = pytest.mark.skipif(
    not os.environ.get("HS2_DATA_DIR"),
    reason="HS2_DATA_DIR is not set: the mirror of public data is not here",
)


def messages(*texts):
    """A conversation of these texts, the user's first."""
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return classifier(tmp_path_factory.mktemp("published") / "classifier")


@pytest.fixture(scope="module")
def plain(folder):
    return Plain(folder)


@pytest.fixture
def run(folder, tmp_path, capsys, monkeypatch):
    """Write a file, score it by the command, and give its rows and what was printed."""
    monkeypatch.chdir(tmp_path)

    def scored(name, content, *options, out="out.jsonl"):
        path = tmp_path / name
        if name.endswith(".parquet"):
            pd.DataFrame(content).to_parquet(path)
        else:
            lines = name.removesuffix(".gz").endswith("l")
            text = (
                "".join(json.dumps(row) + "\n" for row in content) if lines else json.dumps(content)
            )
            path.write_bytes(
                gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
            )
        code = main([str(path), "--model", str(folder), "--out", out, *options])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        assert sorted(file.name for file in tmp_path.iterdir()) == sorted({name, out})
        return [json.loads(line) for line in (tmp_path / out).read_text().splitlines()], printed.out

    return scored


def close(expected):
    return pytest.approx(expected, abs=1e-4)


def right(pairs):
    """How many of (better, worse) scores are in the right order, as the command prints it."""
    return f"model    {100 * sum(a > b for a, b in pairs) / len(pairs):5.1f} %"


def test_one_response_a_row_as_alpacaeval_has_its_outputs(run, plain):
    rows = [
        {"dataset": "koala", "instruction": "Name a prime.", "output": "Seven.", "generator": "m"},
        {"dataset": "koala", "instruction": "Another?", "output": "Nine is one.", "generator": "m"},
    ]
    scored, _ = run("outputs.json", rows, "--columns", "prompt=instruction,response=output")
    for before, after in zip(rows, scored, strict=True):
        score = after.pop("score")
        assert after == before, "all columns are carried"
        assert score == close(plain(before["instruction"], before["output"]))


def test_arena_battles_between_two_models(run, plain):
    rows = [
        {"question": "Say yes.", "model_a": "m", "model_b": "n", "one": "yes", "two": "It is no."},
        {"question": "Say no.", "model_a": "m", "model_b": "n", "one": "yes it is", "two": "no"},
        {"question": "Hi", "model_a": "m", "model_b": "n", "one": "Hi", "two": "Hi."},
    ]
    for row, winner in zip(rows, ("model_a", "model_b", "tie (bothbad)"), strict=True):
        row["winner"] = winner
    columns = "prompt=question,response_a=one,response_b=two"
    scored, printed = run("battles.jsonl", rows, "--columns", columns)
    pairs = []
    for before, after in zip(rows, scored, strict=True):
        both = [plain(before["question"], before[name]) for name in ("one", "two")]
        assert [after["score_one"], after["score_two"]] == close(both)
        pairs.append(both if before["winner"] == "model_a" else both[::-1])
    assert right(pairs[:2]) in printed
    assert "longest    0.0 %" in printed and "shortest 100.0 %" in printed
    assert "random    50.0 %" in printed
    assert "ties in the file, which do not count: 1" in printed


def test_ultrafeedback_binarized_message_lists(run, plain):
    """Its columns score_chosen and score_rejected are its own; the scores go elsewhere."""
    rows = [
        {
            "prompt": "Name a prime.",
            "chosen": messages("Name a prime.", "Seven."),
            "rejected": messages("Name a prime.", "Nine, I think."),
            "messages": messages("Name a prime.", "Seven."),
            "score_chosen": 8.5,
            "score_rejected": 4.0,
        }
    ]
    scored, printed = run("train.parquet", rows, "--column", "reward")
    (after,) = scored
    assert after["reward_chosen"] == close(plain("Name a prime.", "Seven."))
    assert after["reward_rejected"] == close(plain("Name a prime.", "Nine, I think."))
    assert after["score_chosen"] == 8.5 and "carried along: messages, score_chosen" in printed


def test_n_responses_in_a_list_with_scores(run, plain):
    """Best of n by somebody's scores, which are a column of the file and stay."""
    answers = ["Seven.", "Nine is one.", "One."]
    row = {"prompt": "Name a prime.", "responses": answers, "scores": [2, 0, 1]}
    ((after,), printed) = run("n.jsonl.gz", [row])
    expected = [plain("Name a prime.", answer) for answer in answers]
    assert after["score_responses"] == close(expected) and after["scores"] == [2, 0, 1]
    assert "3 pairs, 1 prompt" in printed and "The best of several" in printed
    assert right([(expected[i], expected[j]) for i, j in ((0, 1), (0, 2), (2, 1))]) in printed


def test_conversations_that_end_in_the_response(run, plain):
    rows = [{"messages": messages("Why?", "So.")}]
    ((after,), printed) = run("talks.parquet", rows)
    assert after["score"] == close(plain("Why?", "So.")) and "random" not in printed


@pytest.mark.slow
@needs_mirror
def test_all_real_helpsteer2_preferences_are_read_and_its_ties_counted(folder, tmp_path, capsys):
    """403 rows, 72 of them ties; the first 40 are scored."""
    name = "helpsteer2/preference_validation_403pairs.jsonl.gz"
    words = [name, "--model", str(folder), "--limit", "40", "--out", str(tmp_path / "o.csv")]
    assert main([*words, "--columns", "response_a=response_1,response_b=response_2"]) == 0
    printed = capsys.readouterr().out
    frame = pd.read_csv(tmp_path / "o.csv")
    ties = int((frame.preference_strength == 0).sum())
    assert len(frame) == 40 and frame[["score_response_1", "score_response_2"]].notna().all(None)
    n_prompts = frame.prompt[frame.preference_strength != 0].nunique()
    assert f"{40 - ties} pairs, {n_prompts} prompts" in printed
