"""The rows come out as they went in, with scores: whole files, types kept, nothing overwritten."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hs2lib.data.files import read_file
from hs2lib.data.rows import DataError
from hs2lib.score import output

NESTED = {
    "prompt": 'a, "b"\nc',
    "response": "Größe 🦙",
    "tags": ["x", "y"],
    "meta": {"n": 1.5},
    "note": None,
    "flag": True,
}


def read(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_file(path)


def test_json_lines_and_csv_carry_every_column(tmp_path):
    """A cell of CSV holds lists and objects as JSON; an empty one stays empty."""
    file = read(tmp_path / "mine.jsonl", NESTED, NESTED | {"more": 1})
    rows = output.scored_rows(file, [[[0.1]], None], "score", ("",))
    output.write(tmp_path / "o.jsonl", rows, file.path)
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert lines == [NESTED | {"score": 0.1}, NESTED | {"more": 1, "score": None}]
    output.write(tmp_path / "o.csv", rows, file.path)
    frame = pd.read_csv(tmp_path / "o.csv")
    assert list(frame) == [*NESTED, "score", "more"] and frame.prompt[0] == NESTED["prompt"]
    assert json.loads(frame.meta[0]) == {"n": 1.5} and json.loads(frame.tags[0]) == ["x", "y"]
    assert frame.score.tolist()[0] == 0.1 and np.isnan(frame.score[1]) and np.isnan(frame.note[0])
    again = read_file(tmp_path / "o.csv")
    assert again.groups[0].responses[0].text == NESTED["response"]


def test_parquet_keeps_the_types_of_its_columns(tmp_path):
    """Dates, unsigned numbers and columns without a value came out as something else, or not at all."""
    table = pa.table(
        {
            "prompt": ["a", "b"],
            "response": ["c", "d"],
            "n": pa.array([1, None], pa.uint8()),
            "day": pa.array([0, 1], pa.date32()),
            "empty": pa.array([None, None], pa.string()),
        }
    )
    pq.write_table(table, tmp_path / "mine.parquet")
    file = read_file(tmp_path / "mine.parquet")
    rows = output.scored_rows(file, [[[0.5]], [[-1.0]]], "score", ("",))
    output.write(tmp_path / "o.parquet", rows, file.path)
    written = pq.read_table(tmp_path / "o.parquet")
    assert written.select(table.column_names).equals(table)
    assert written["score"].to_pylist() == [0.5, -1.0]
    output.write(tmp_path / "o.jsonl", rows, file.path)
    assert json.loads((tmp_path / "o.jsonl").read_text().splitlines()[0])["day"] == "1970-01-01"


def test_what_parquet_cannot_hold_is_an_error_and_no_file(tmp_path, tmp_path_factory, monkeypatch):
    nowhere = tmp_path_factory.mktemp("device") / "null"
    nowhere.touch()
    monkeypatch.setattr(os, "devnull", str(nowhere))
    file = read(tmp_path / "mine.jsonl", NESTED, NESTED | {"note": 1}, NESTED | {"note": "x"})
    rows = output.scored_rows(file, [[[0.1]]] * 3, "score", ("",))
    # This is known before anything is scored.
    for unfit in ([row.row for row in file.rows], [{"note": {}}]):
        with pytest.raises(DataError, match="do not fit into Parquet"):
            output.check_rows(tmp_path / "o.parquet", unfit, file.path)
        output.check_rows(tmp_path / "o.jsonl", unfit, file.path)
    with pytest.raises(DataError, match=r"do not fit into Parquet .* let --out end in .jsonl"):
        output.write(tmp_path / "o.parquet", rows, file.path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.jsonl"]
    assert nowhere.exists(), "the null device was removed, as far as the user may"


def test_a_broken_letter_in_another_column_is_carried(tmp_path):
    """JSON holds half a surrogate pair, which UTF-8 has not; the prompt and the response may not."""
    file = read(tmp_path / "mine.jsonl", {"prompt": "a", "response": "b", "note": "\ud83d"})
    rows = output.scored_rows(file, [[[1.0]]], "score", ("",))
    output.write(tmp_path / "o.jsonl", rows, file.path)
    assert json.loads((tmp_path / "o.jsonl").read_text())["note"] == "\ud83d"


def test_the_columns_of_scores_by_shape(tmp_path):
    """One response: score. A list, and each of several columns: one of its own name."""
    shapes = {
        '{"prompt": "a", "response": "b"}': {"score": 1},
        '{"prompt": "a", "responses": ["b", "c"]}': {"score_responses": [1, 2]},
        '{"prompt": "a", "chosen": "b", "rejected": "c"}': {
            "score_chosen": 1,
            "score_rejected": 2,
        },
    }
    for line, added in shapes.items():
        file = read(tmp_path / "mine.jsonl", json.loads(line))
        n = len(file.rows[0].places)
        (row,) = output.scored_rows(file, [[[i + 1.0] for i in range(n)]], "score", ("",))
        assert row == json.loads(line) | added
    file = read(tmp_path / "mine.jsonl", {"prompt": "a", "chosen": "b", "rejected": "c"})
    values = [[[0.5, 1.0, 2.0], [0.1, 3.0, float("nan")]]]
    (row,) = output.scored_rows(file, values, "rm", ("", "helpfulness", "humor"))
    assert list(row.items())[3:] == [
        ("rm_chosen", 0.5),
        ("rm_chosen_helpfulness", 1.0),
        ("rm_chosen_humor", 2.0),
        ("rm_rejected", 0.1),
        ("rm_rejected_helpfulness", 3.0),
        ("rm_rejected_humor", None),
    ]


def test_a_score_has_the_digits_of_a_float32(tmp_path):
    """Fewer would tie what differs; more would be noise of the conversion."""
    value = float(np.float32(0.1) + np.float32(1e-8))
    file = read(tmp_path / "mine.jsonl", {"prompt": "a", "response": "b"})
    (row,) = output.scored_rows(file, [[[value]]], "score", ("",))
    assert np.float32(row["score"]) == np.float32(value) and len(str(row["score"])) <= 11


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (
            "o.xlsx",
            "unknown kind of file '.xlsx'. Fix: let --out end in one of .jsonl, .csv, .parq",
        ),
        ("o", "unknown kind of file 'o'"),
        ("mine.jsonl", "it is the file that is read"),
        ("folder.csv", "it is a folder"),
    ],
)
def test_where_scores_cannot_be_written_is_an_error_before_anything_is_read(tmp_path, out, words):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError) as error:
        output.check(tmp_path / out, tmp_path / "mine.jsonl")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("name", "out"),
    [
        ("data/my.csv", "my.scored.csv"),
        ("my.jsonl.gz", "my.scored.jsonl"),
        ("my.parquet", "my.scored.parquet"),
        ("my.json", "my.scored.jsonl"),
        ("my.tsv", "my.scored.jsonl"),
        ("MINE.CSV", "MINE.scored.csv"),
        ("mine.Parquet", "mine.scored.parquet"),
        ("mine.CSV.GZ", "mine.scored.csv"),
    ],
)
def test_the_name_of_the_file_of_scores(name, out):
    assert output.default_name(Path(name)) == out


def test_a_place_that_can_hold_no_file_is_named_before_the_model_is_loaded(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text("x")
    with pytest.raises(DataError, match=r"a\.jsonl is no folder\. Fix: name another --out"):
        output.check(file / "o.jsonl", tmp_path / "b.jsonl")
    (tmp_path / ".o.csv.kept").write_text("x")
    with pytest.raises(DataError, match=r"which is a file\. Fix: move it"):
        output.check(tmp_path / "o.csv", file)
    output.check(tmp_path / "new" / "folder" / "o.csv", file)
