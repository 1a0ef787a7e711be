"""Tests of benchmarks/readings.py, and that what it published can be read again."""

import importlib
import json
import sys

import pandas as pd
import pytest

from hs2lib.corpus.generate import task_of
from hs2lib.corpus.grade import grade
from hs2lib.paths import root

sys.path.insert(0, str(root() / "benchmarks"))
bench = importlib.import_module("readings")
sys.path.pop(0)

PUBLISHED = root() / "reports" / "benchmarks"


@pytest.fixture
def table():
    """Two answers with everything that is known of them."""
    prompt = {"prompt": "What is the hour?", "facts": "Hour: six."}
    rows = [
        {"id": "a/0/0", "policy": "base", **prompt, "answer": "Five.", "truth": 1.0},
        {"id": "a/0/0", "policy": "sft", **prompt, "answer": "Six.", "truth": 7.6},
    ]
    return pd.DataFrame(rows).rename_axis("number").reset_index()


def marks(folder, text):
    """A file that a reader wrote."""
    file = folder / "marks.csv"
    file.write_text(text)
    return file


def test_a_reader_sees_neither_policy_nor_grade(table):
    lines = [json.loads(line) for line in bench.sheet(table).splitlines()]
    assert [set(line) for line in lines] == [{"number", "prompt", "facts", "answer"}] * 2


def test_marks_find_their_answers_in_any_order(table, tmp_path):
    table = bench.with_marks(table, [marks(tmp_path, "number,mark\n1,9\n0,2.5\n")])
    assert table["reader 1"].tolist() == [2.5, 9]


@pytest.mark.parametrize("text", ["0,2\n", "0,2\n0,3\n1,4\n", "0,2\n1,11\n", "0,2\n1,\n"])
def test_marks_that_are_not_one_each_are_refused(table, tmp_path, text):
    with pytest.raises(ValueError, match=r"marks\.csv: "):
        bench.with_marks(table, [marks(tmp_path, f"number,mark\n{text}")])


def test_what_is_published_can_be_graded_again():
    """The truth of each answer is the grader's today, and the means are those of the answers."""
    read = pd.read_csv(PUBLISHED / "readings.csv", keep_default_na=False)
    assert read.policy.value_counts().to_dict() == dict.fromkeys(bench.POLICIES, bench.N_PROMPTS)
    assert read.groupby("id").policy.nunique().eq(len(bench.POLICIES)).all()
    again = [
        grade(task_of(row.id), row.answer).attributes @ bench.works.WEIGHTS
        for row in read.itertuples()
    ]
    assert read.truth.tolist() == pytest.approx(again, abs=1e-4)
    published = json.loads((PUBLISHED / "readings.json").read_text())
    agreement = bench.summary(read)
    assert agreement["R"] == published["R"]
    assert agreement["R within a prompt"] == published["R within a prompt"]
    assert agreement["means"] == published["means"]
