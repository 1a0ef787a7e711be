"""Every kind of bad input, one test each: the error names the file, the line, the field, what
arrived and the fix.

A researcher with a half-downloaded or hand-edited file sees only this message; a wrong line number
or a vague word costs an afternoon, and a silently skipped row a wrong table.
"""

import gzip
import json
import tracemalloc
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_rows import caught, line, rated, write

from hs2lib.data import rows
from hs2lib.data.load import load
from hs2lib.data.rows import DataError
from hs2lib.group import ATTRIBUTES

GOOD = [rated(), rated(response="s"), rated("q"), rated("q", "s")]


def third_line_is(bad: bytes) -> bytes:
    return b"".join([*map(line, GOOD[:2]), bad, *map(line, GOOD[3:])])


def without(column: str) -> dict:
    return {name: value for name, value in rated("q").items() if name != column}


# (name, third line of the file, field that must be named, words that must be there)
BAD_ROWS = [
    (
        "bad JSON",
        b'{"prompt": "q", "response"\n',
        None,
        ["Expecting ':' delimiter at column 27", "one object a line"],
    ),
    (
        "two rows on a line",
        line(rated("q"))[:-1] + line(rated("q")),
        None,
        ["bad JSON", "Extra data"],
    ),
    ("blank line", b"\n", None, ["Expecting value at column 1", "no blank lines"]),
    ("a list", b"[1, 2]\n", None, ["expected an object, got [1, 2]"]),
    ("too deep", b"[" * 100_000 + b"\n", None, ["bad JSON: maximum recursion depth"]),
    (
        "missing column",
        line(without("coherence")),
        "coherence",
        ["column is missing", "the row has: prompt, response"],
    ),
    (
        "missing text",
        line(without("prompt")),
        "prompt",
        ["column is missing", "add the column 'prompt'"],
    ),
    (
        "extra column",
        line(rated("q", quality=1)),
        "quality",
        ["unknown extra column", "remove or rename it"],
    ),
    (
        "column twice",
        b'{"prompt": "p", "prompt": "q"}\n',
        "prompt",
        ["has this column twice", "keep one of the two"],
    ),
    (
        "rating above",
        line(rated("q", helpfulness=5)),
        "helpfulness",
        ["expected a whole number from 0 to 4, got 5", "map another scale to it"],
    ),
    ("rating below", line(rated("q", verbosity=-1)), "verbosity", ["from 0 to 4, got -1"]),
    ("huge rating", line(rated("q", verbosity=10**30)), "verbosity", ["from 0 to 4, got 1000"]),
    (
        "fraction",
        line(rated("q", complexity=2.5)),
        "complexity",
        ["a whole number", "got 2.5"],
    ),
    (
        "whole float",
        line(rated("q", complexity=2.0)),
        "complexity",
        ["a whole number", "got 2.0"],
    ),
    (
        "NaN",
        line(rated("q", correctness=float("nan"))),
        "correctness",
        ["got NaN", "leave out a row without a value"],
    ),
    (
        "infinity",
        line(rated("q", correctness=float("inf"))),
        "correctness",
        ["got Infinity"],
    ),
    (
        "boolean",
        line(rated("q", coherence=True)),
        "coherence",
        ["got true", "write a whole number from 0 to 4"],
    ),
    ("null rating", line(rated("q", coherence=None)), "coherence", ["got null"]),
    (
        "number as text",
        line(rated("q", coherence="3")),
        "coherence",
        ['got "3"', "without quotes"],
    ),
    ("rating list", line(rated("q", coherence=[3, 3])), "coherence", ["got [3, 3]"]),
    (
        "empty text",
        line(rated("q", "")),
        "response",
        ['expected text that can be seen, got ""', "leave it out"],
    ),
    ("only spaces", line(rated(" \n\t")), "prompt", ["expected text that can be seen"]),
    (
        "text is a number",
        line(rated("q", 7)),
        "response",
        ["expected text that can be seen, got 7"],
    ),
    (
        "text is null",
        line(rated("q", None)),
        "response",
        ["text that can be seen, got null"],
    ),
    (
        "broken UTF-8",
        line(rated("q")).replace(b'"r"', b'"\xe9t\xe9"'),
        None,
        ["can't decode byte 0xe9", "in UTF-8"],
    ),
    (
        "zero width",
        line(rated("q", "\u200b \u3164\u2800")),
        "response",
        ["text that can be seen", "\\u200b"],
    ),
    (
        "lone surrogate",
        line(rated("q", "\ud83d")),
        "response",
        ["text that can be seen", "\\ud83d"],
    ),
    (
        "pair differs",
        line(rated("other")),
        "prompt",
        ["lines 3 and 4 are a pair", "prompts differ", "lost, doubled or moved"],
    ),
]


@pytest.mark.parametrize(
    ("bad", "field", "words"), [row[1:] for row in BAD_ROWS], ids=[row[0] for row in BAD_ROWS]
)
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_bad_row(tmp_path, bad, field, words, suffix):
    """Strict: the message has file, line 3, field, what came and the fix. Otherwise: that pair aside, the rest kept."""
    path = tmp_path / f"train{suffix}"
    path.write_bytes(
        gzip.compress(third_line_is(bad)) if suffix.endswith(".gz") else third_line_is(bad)
    )
    error = caught(path)
    assert str(error).startswith(f"{path}, line 3" + (f", field {field!r}: " if field else ": "))
    assert (error.line, error.field) == (3, field)
    for word in [*words, "strict=False"]:
        assert word in str(error)

    loaded = load("helpsteer2", "folder", path=path, strict=False)
    assert [[response.text for response in group.responses] for group in loaded.groups] == [
        ["r", "s"]
    ]
    assert [(aside.file, aside.line) for aside in loaded.set_aside] == [
        (str(path), 3),
        (str(path), 4),
    ]
    assert loaded.set_aside[0].field == field and words[0] in loaded.set_aside[0].what


@pytest.mark.parametrize(
    ("rows", "field", "words"),
    [
        (
            [{"id": "a"}, {"response": "s", "id": "a"}],
            "id",
            "'a' is another response (line 1)",
        ),
        (
            [{"id": "a", "annotator": 1}, {"id": "b", "annotator": 2}],
            "id",
            "the response has another id (line 1)",
        ),
        # A response without an id is called ratings/GROUP/NUMBER: two responses would have one id.
        (
            [{}, {"prompt": "q", "id": "ratings/0/0"}],
            "id",
            "'ratings/0/0' is another response (line 1)",
        ),
        (
            [{"id": "ratings/1/0"}, {"prompt": "q"}],
            "id",
            "'ratings/1/0' is another response (line 1)",
        ),
        (
            [{"id": "ratings/0/1"}, {"response": "s"}],
            "id",
            "'ratings/0/1' is another response (line 1)",
        ),
        (
            [{"annotator": 1}, {"response": "s"}],
            "annotator",
            "only one of two rows names it (line 1)",
        ),
        (
            [{"response": "s"}, {"annotator": 1}],
            "annotator",
            "only one of two rows names it (line 1)",
        ),
        ([{"group": 1}, {"prompt": "q"}], "group", "only one of two rows names it (line 1)"),
        ([{}, {"prompt": "q", "group": "0"}], "group", "only one of two rows names it (line 1)"),
        (
            [{"group": "q"}, {"group": "q", "prompt": "r"}],
            "prompt",
            "group 'q' has another prompt (line 1)",
        ),
    ],
)
def test_own_ratings_that_do_not_fit_together(tmp_path, rows, field, words):
    """Each was read without a word once: an id twice, the second of two ids dropped, two groups made one."""
    path = write(tmp_path / "rows.jsonl", [rated(**row) for row in rows])
    error = caught(path, "ratings")
    assert (error.line, error.field) == (len(rows), field) and words in str(error)
    kept = load("ratings", "folder", path=path, strict=False)
    assert (
        sum(len(group.responses) for group in kept.groups)
        == len(rows) - 1
        == len(rows) - len(kept.set_aside)
    )


@pytest.mark.parametrize("cell", ["0_3", "\u0663", "0x3", "three", "1e999", "--3"])
def test_a_csv_cell_is_a_number_in_plain_digits_only(tmp_path, cell):
    """float() reads 0_3 and Arabic digits: as a typing slip or another column they must not become a rating."""
    path = tmp_path / "own.csv"
    path.write_text(f"{HEADER}\np,r,1,1,1,1,{cell}\n")
    assert caught(path, "ratings").field == "verbosity"
    path.write_text(f"{HEADER}\np,r, 3 ,+1,2.,.5,1e0\n")
    assert load("ratings", "folder", path=path).groups[0].responses[0].labels == (3, 1, 2, 0.5, 1)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".json"])
def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path, suffix):
    """Windows editors write one; it was refused in JSON Lines alone."""
    content = {
        ".csv": f"{HEADER}\np,r,1,1,1,1,1\n",
        ".json": json.dumps([rated()]),
        ".jsonl": line(rated()).decode(),
    }
    path = tmp_path / f"own{suffix}"
    path.write_text(content[suffix], encoding="utf-8-sig")
    assert load("ratings", "folder", path=path).groups[0].prompt[0].text == "p"


DEEP, LONG_NUMBER = "[" * 100_000, "1" * 5_000


@pytest.mark.parametrize("content", [DEEP, f"[{LONG_NUMBER}]"])
def test_json_that_python_cannot_hold_is_an_error_of_the_file(tmp_path, content):
    path = tmp_path / "testset.json"
    path.write_text(content)
    assert "bad JSON: " in str(caught(path, "pandalm"))


def test_values_that_cannot_be_shown_or_compared_are_faults_too(tmp_path):
    """A list where a name belongs, a key that is no text, a number beyond every float: none may end in a traceback."""
    listed = {**MESSAGE, "labels": {"name": [["quality"]], "value": [0.5]}}
    assert caught(write(tmp_path / "a.jsonl", [listed]), "oasst1").field == "labels"
    assert (
        caught(write(tmp_path / "b.jsonl", [{**MESSAGE, "role": ["prompter"]}]), "oasst1").field
        == "role"
    )
    huge = {**MESSAGE, "labels": {"quality": {"value": 10**400}}}
    assert caught(write(tmp_path / "c.jsonl", [huge]), "oasst1").field == "labels.quality"
    assert "a value" in rows.shown({("a", "b"): 1})


def test_a_parquet_file_whose_dates_python_has_not(tmp_path):
    path = tmp_path / "own.parquet"
    far = pa.array([2**30], pa.date32())
    pq.write_table(pa.table({"prompt": ["p"], "annotator": far}), path)
    assert "not a sound Parquet file" in str(caught(path, "ratings"))
    pd.DataFrame([rated(annotator=pd.Timestamp("2024-01-01"))]).to_parquet(path)
    assert 'got "2024-01-01 00:00:00"' in str(caught(path, "ratings"))


def test_a_column_of_parquet_that_comes_twice_is_refused(tmp_path):
    """The last one was taken without a word; CSV and JSON refuse it."""
    columns = {name: [value] for name, value in rated().items()}
    table = pa.table([*columns.values(), [0]], names=[*columns, "helpfulness"])
    pq.write_table(table, tmp_path / "r.parquet")
    error = caught(tmp_path / "r.parquet", "ratings")
    assert error.field == "helpfulness" and "this column twice" in str(error)


def test_what_a_file_is_called_before_its_kind_makes_no_csv_of_it(tmp_path):
    """In export.csv.jsonl a text counted as a number."""
    write(tmp_path / "export.csv.jsonl", [rated(helpfulness="4")])
    assert caught(tmp_path / "export.csv.jsonl", "ratings").field == "helpfulness"


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "own.jsonl"
    path.symlink_to("/proc/self/mem")  # a file by its looks, whose reading fails
    assert "cannot be read (Input/output error)" in str(caught(path, "ratings"))
    with pytest.raises(DataError, match=r"own.jsonl: cannot be read"):
        rows.rows(path)


def test_a_folder_a_loop_of_links_and_a_name_that_begins_as_a_users_folder(tmp_path, monkeypatch):
    """A folder was said not to be there, and ~$own.csv, as Excel calls its lock, was a traceback."""
    error = caught(tmp_path, "ratings")
    assert "it is a folder. Fix: name a file in it" in str(error)
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    assert "there is no such file" in str(caught(loop, "ratings"))
    monkeypatch.chdir(tmp_path)
    assert "there is no such file" in str(caught(Path("~$own.csv"), "ratings"))
    Path("~$own.csv").write_text("prompt,response,clarity\np,r,1\np,s,4\n")
    assert len(load("ratings", "folder", path="~$own.csv").groups) == 1


def test_a_csv_is_read_row_by_row(tmp_path):
    """A file of 20 MB was held five times over; now a row of it is."""
    path = tmp_path / "own.csv"
    path.write_text(f"{HEADER}\n" + f"p,{'r' * 1000},1,1,1,1,1\n" * 20_000)
    tracemalloc.start()
    with rows.Faults(path) as faults:
        assert sum(1 for _ in rows.read(path, faults)) == 20_000
    assert tracemalloc.get_traced_memory()[1] < 2e6
    tracemalloc.stop()


def test_every_character_of_emoji_escapes_is_kept(tmp_path):
    """The guard against half surrogate pairs must not refuse whole ones, which is how json.dumps writes emoji."""
    path = tmp_path / "train.jsonl"
    path.write_bytes(line(rated("\U0001f600")) * 2)
    assert load("helpsteer2", "folder", path=path).groups[0].prompt[0].text == "\U0001f600"


def test_all_faults_of_a_file_are_reported_at_once(tmp_path):
    """Correcting a file one error at a time takes as many runs as it has faults; a row may have several."""
    bad = [rated("q", complexity=5, verbosity="2"), rated("q"), rated("r"), without("coherence")]
    path = write(tmp_path / "train.jsonl", [*GOOD, *bad])
    error = caught(path)
    assert (error.line, error.field) == (5, "complexity"), "the first"
    first, *listed, last = str(error).splitlines()
    assert first == f"{path}: 3 faults in 2 rows" and "strict=False" in last
    assert "expected a whole number from 0 to 4, got 5. Fix: " in listed[0]
    places = [
        "line 5, field 'complexity'",
        "line 5, field 'verbosity'",
        "line 8, field 'coherence'",
    ]
    assert [fault.partition(":")[0].strip() for fault in listed] == places and all(
        "Fix: " in fault for fault in listed
    )


def test_of_many_faults_the_first_are_listed_and_the_others_counted(tmp_path):
    """A screenful says so as well as twenty thousand lines."""
    bad = [rated(**{f"column {number}": 1}) for number in range(2000)]
    error = caught(write(tmp_path / "train.jsonl", bad))
    listed = str(error).splitlines()
    assert len(listed) == rows.SHOWN + 3 and listed[0].endswith("2,000 faults in 2,000 rows")
    assert listed[-2].strip() == f"and {2000 - rows.SHOWN:,} more"


def test_a_fault_that_many_rows_have_stands_once(tmp_path):
    """A file on another scale had a fault in every row, and 280 lines said one thing."""
    bad = [rated(helpfulness=7 + number) for number in range(2000)]
    error = caught(write(tmp_path / "train.jsonl", [*bad, rated(verbosity=9), rated()]))
    first, several, single, _ = str(error).splitlines()
    assert first.endswith("2,001 faults in 2,001 rows")
    assert several.startswith("  lines 1, 2, 3, 4, 5 and 1,995 more, field 'helpfulness': expected")
    assert "got 7 and others. Fix: write a whole number from 0 to 4" in several
    assert single.startswith("  line 2001, field 'verbosity'")


def test_a_line_that_is_null_is_no_row(tmp_path):
    """null is sound JSON and no object: it must be a fault like any other, not a row that is silently not there."""
    error = caught(write(tmp_path / "rows.jsonl", [rated(), None]), "ratings")
    assert error.line == 2 and "expected an object, got null" in str(error)


def test_fault_in_the_second_row_takes_the_pair(tmp_path):
    """A reward model trained on half a pair would see a group of one: the sound partner goes too, and is counted."""
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"".join([line(GOOD[0]), b"{\n", line(GOOD[2]), line(GOOD[3])]))
    loaded = load("helpsteer2", "folder", path=path, strict=False)
    assert len(loaded.groups) == 1
    assert sorted((aside.line, aside.what.split(":")[0]) for aside in loaded.set_aside) == [
        (1, "its pair partner, line 2, is set aside"),
        (2, "bad JSON"),
    ]


def test_odd_number_of_rows(tmp_path):
    """One lost row shifts all later pairs: an odd count is the sign of it."""
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"".join(map(line, GOOD[:3])))
    error = caught(path)
    assert (
        error.line == 3
        and "3 rows, an odd number" in str(error)
        and "restore the row" in str(error)
    )
    loaded = load("helpsteer2", "folder", path=path, strict=False)
    assert len(loaded.groups) == 1 and [aside.line for aside in loaded.set_aside] == [3]


def test_a_lost_row_is_reported_for_every_pair_after_it(tmp_path):
    """Nothing after a lost row can be trusted to be a pair: rows are counted as set aside, never re-paired by guess."""
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"".join(map(line, [GOOD[1], *GOOD[2:], *GOOD])))
    loaded = load("helpsteer2", "folder", path=path, strict=False)
    n_rows = sum(len(group.responses) for group in loaded.groups) + len(loaded.set_aside)
    assert n_rows == 7 and len({aside.line for aside in loaded.set_aside}) == len(loaded.set_aside)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("content", "at", "words"),
    [
        (
            gzip.compress(b"".join(map(line, GOOD)), mtime=0)[:-30],
            None,
            ["ended before the end-of-stream marker", "download the file again"],
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            1,
            ["not a sound gzip file", "git lfs pull"],
        ),
        (gzip.compress(b"", mtime=0), None, ["the file has no rows"]),
        (b"", None, ["the file has no rows"]),
    ],
    ids=["truncated gzip", "git LFS pointer", "empty gzip", "empty file"],
)
def test_bad_file(tmp_path, content, at, words, strict):
    """How many rows a broken file lacks is unknown, so strict=False cannot count them: it raises there too."""
    path = tmp_path / "train.jsonl.gz"
    path.write_bytes(content)
    error = caught(path, strict=strict)
    assert all(word in str(error) for word in words)
    assert at is None or error.line == at


def test_truncated_gzip_names_the_line_it_broke_at(tmp_path):
    path = tmp_path / "train.jsonl.gz"
    # Stored, not compressed: the cut then falls where we put it, in the third line.
    path.write_bytes(
        gzip.compress(b"".join(map(line, GOOD)), compresslevel=0)[: -len(line(GOOD[3])) - 20]
    )
    assert caught(path).line == 3


def test_damaged_gzip(tmp_path):
    """A flipped byte in the middle: seen by the checksum at the latest, and never read as data without an error."""
    path = tmp_path / "train.jsonl.gz"
    packed = bytearray(gzip.compress(b"".join(map(line, GOOD * 50))))
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(packed)
    assert caught(path).fix


def test_unknown_kind_of_file(tmp_path):
    path = tmp_path / "rows.pkl"
    path.write_bytes(b"\x80\x04.")
    assert "unknown kind of file '.pkl'" in str(caught(path, "ratings")) and ".parquet" in str(
        caught(path, "ratings")
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("MINE.CSV", b"prompt,response\np,r\n"),
        ("mine.Json", b'[{"prompt": "p", "response": "r"}]'),
        ("mine.CSV.GZ", gzip.compress(b"prompt,response\np,r\n", mtime=0)),
    ],
)
def test_what_a_file_is_called_counts_in_any_case(tmp_path, name, content):
    """Windows writes .CSV, which was an unknown kind of file beside .csv."""
    path = tmp_path / name
    path.write_bytes(content)
    assert [row for _, row in rows.rows(path)] == [{"prompt": "p", "response": "r"}]


def test_names_with_commas_between_tabs(tmp_path):
    """The header of a questionnaire has more commas than tabs, and a .tsv file was cut at commas."""
    path = tmp_path / "mine.tsv"
    path.write_text("prompt\tclear, short\tkind, calm, warm\np\t1\t2\n")
    assert rows.rows(path) == [(2, {"prompt": "p", "clear, short": "1", "kind, calm, warm": "2"})]
    path.write_text("prompt,response\np,r\n")
    assert rows.rows(path) == [(2, {"prompt": "p", "response": "r"})], "without a tab it is CSV"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("prompt,response,,\np,r,,\n", "field '': the row has this column twice"),
        ("\nprompt,response\np,r\n", "line 1: the first line is blank"),
    ],
)
def test_a_first_line_that_names_no_columns_says_so(tmp_path, content, words):
    """Each row was a fault that was none: a column twice, or cells to be put in quotes."""
    path = tmp_path / "own.csv"
    path.write_text(content)
    error = caught(path, "ratings")
    assert words in str(error) and len(str(error).splitlines()) == 1


def test_a_json_array_under_the_name_of_json_lines_is_one_error(tmp_path):
    """Printed over lines, each of its lines was a fault."""
    path = tmp_path / "own.jsonl"
    for indent in (None, 1):
        path.write_text(json.dumps([rated(), rated("q")], indent=indent))
        error = caught(path, "ratings")
        assert "begins with [, as one JSON array does. Fix: call it .json" in str(error)
        assert error.line == 1 and len(str(error).splitlines()) == 1


def test_a_category_of_pandas_is_text(tmp_path):
    table = pd.DataFrame([rated(str(i) + "p" * 100) for i in range(40)])
    path = tmp_path / "own.parquet"
    table.assign(prompt=table.prompt.astype("category")).to_parquet(path)
    assert [row["prompt"] for _, row in rows.rows(path)] == table.prompt.tolist()


@pytest.mark.parametrize("n_rows", [1, 2])
def test_an_error_gives_the_terminal_no_orders(tmp_path, n_rows):
    """In code nobody makes a message printable before Python prints it."""
    path = tmp_path / "\x1b[2J.csv"
    path.write_text("prompt,re\x1b[31msponse,clarity\n" + "".join(["p,r,1\n", "q,r,5\n"][:n_rows]))
    with pytest.raises(DataError) as info:
        load("ratings", "folder", path=path, scale="1-5")
    assert "the row has: prompt, re\\x1b[31msponse" in str(info.value)
    assert "\x1b" not in str(info.value) and "lines 2, 3, line" not in str(info.value)


def test_of_many_columns_an_error_names_the_first(tmp_path):
    """The header of a questionnaire filled the screen."""
    names = [f"question {number}" for number in range(300)]
    path = tmp_path / "own.csv"
    path.write_text(f"{','.join(names)}\n{'1,' * 299}5\n")
    error = caught(path, "ratings", scale="1-5")
    assert "question 19, and 280 more" in str(error) and len(str(error)) < 3000
    path.write_text(f"{','.join(names)}\n{'a,' * 299}b\n")
    error = caught(path, "ratings")
    assert "and 280 more" in str(error) and len(str(error)) < 3000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("p,r\n".encode("utf-16"), "the file is text in UTF-16. Fix: save it as UTF-8"),
        (
            gzip.compress(line(rated()), mtime=0),
            "the file is packed by gzip. Fix: let its name end in .gz",
        ),
        (b"PK\x03\x04\x14", "as a workbook of Excel is. Fix: unpack it, or save it as CSV"),
        (b"PAR1\x15", "the file is a Parquet file. Fix: let its name end in .parquet"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Fix: git lfs pull"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json"])
def test_a_file_that_is_no_text_is_called_what_it_is(tmp_path, content, words, suffix):
    """Each of its lines was a fault: a byte that cannot be decoded, or a column of an odd name."""
    path = tmp_path / f"own{suffix}"
    path.write_bytes(content)
    error = caught(path, "ratings")
    assert words in str(error) and len(str(error).splitlines()) == 1


# The other data sets and formats: every model has checks of its own, each here with the smallest
# row that trips it


LISTS = {**rated(), **{name: [2, 2, 2] for name in ATTRIBUTES}}
PREFERENCE = {
    **{
        "split": "val",
        "prompt": "p",
        "response_1": "a",
        "response_2": "b",
        "preference_strength": -2,
    },
    **{
        "preference_statement": "s",
        "preference_elaboration": "e",
        "three_most_similar_preferences": [],
    },
    "all_preferences_unprocessed": [],
}
MESSAGE = {"message_id": "a", "parent_id": None, "role": "prompter", "text": "Hi", "labels": None}
HH = {"chosen": "\n\nHuman: Hi\n\nAssistant: a", "rejected": "\n\nHuman: Hi\n\nAssistant: b"}
USER, ASSISTANT = (
    {"from": "User", "value": "Hi"},
    {"from": "Assistant", "value": "Hello", "label": None},
)
SFT = {"system": "", "mask": "User", "dataset": "d", "conversations": [USER, ASSISTANT]}
SUMMARY = {"doc_id": "d", "system": "M0", "source": "long", "summary": "short"}
EXPERTS = {name: [1, 2, 3] for name in ("coherence", "consistency", "fluency", "relevance")}
PANDA = {"instruction": "i", "input": "", "response1": "a", "response2": "b"}
VOTES = {"annotator1": 0, "annotator2": 1, "annotator3": 2}
SCORES = {"quality": {"value": 1.5}}

OTHERS = [
    ("helpsteer", rated(coherence=9), "coherence", "from 0 to 4"),
    (
        "helpsteer",
        rated("<extra_id_0>System\na"),
        "prompt",
        "a user's first (after at most one system turn)",
    ),
    ("helpsteer2-disagreements", {**LISTS, "verbosity": [2, 2]}, None, "[3, 3, 3, 3, 2]"),
    (
        "helpsteer2-disagreements",
        {**LISTS, "verbosity": [2, 2, 2.5]},
        "verbosity[2]",
        "a whole number",
    ),
    ("helpsteer2-disagreements", {**LISTS, "helpfulness": []}, "helpfulness", "at least 1 item"),
    ("helpsteer2-disagreements", {**LISTS, "helpfulness": 3}, "helpfulness", "got 3"),
    (
        "helpsteer2-preference",
        {**PREFERENCE, "preference_strength": 4},
        "preference_strength",
        "from -3 to 3",
    ),
    (
        "helpsteer2-preference",
        {**PREFERENCE, "split": "test"},
        "split",
        "expected 'train' or 'val', got",
    ),
    (
        "helpsteer2-preference",
        {**PREFERENCE, "response_2": ""},
        "response_2",
        "text that can be seen",
    ),
    ("helpsteer2-unrated", {"input": "a", "response_a": "b"}, "response_b", "column is missing"),
    ("oasst1", {**MESSAGE, "role": "system"}, "role", "expected 'prompter' or 'assistant'"),
    (
        "oasst1",
        {**MESSAGE, "role": "assistant"},
        "role",
        "turn 1 of a conversation is the assistant's",
    ),
    ("oasst1", {**MESSAGE, "parent_id": "b"}, "parent_id", "parent b is not in the file"),
    ("oasst1", {**MESSAGE, "parent_id": "a"}, "parent_id", "or comes from the message"),
    ("oasst1", {**MESSAGE, "labels": SCORES}, "labels.quality", "from 0 to 1"),
    (
        "oasst1",
        {**MESSAGE, "labels": {"name": ["quality"], "value": []}},
        "labels",
        "no lists of one length",
    ),
    ("hh-rlhf", {**HH, "chosen": "Hi"}, "chosen", "from Human to an answer"),
    (
        "hh-rlhf",
        {**HH, "chosen": "\n\nHuman: Hi\n\nAssistant: "},
        "chosen",
        "to an answer of Assistant",
    ),
    (
        "hh-rlhf",
        {**HH, "chosen": "\n\nHuman: Ho\n\nAssistant: a"},
        "rejected",
        "do not share a prompt",
    ),
    (
        "daring-anteater",
        {**SFT, "conversations": [ASSISTANT, USER]},
        "conversations",
        "make turns alternate",
    ),
    (
        "daring-anteater",
        {**SFT, "conversations": [USER, USER]},
        "conversations",
        "make turns alternate",
    ),
    (
        "daring-anteater",
        {**SFT, "conversations": [USER, ASSISTANT, USER]},
        "conversations",
        "make turns alternate",
    ),
    (
        "daring-anteater",
        {**SFT, "conversations": [USER, {**ASSISTANT, "label": "x:4"}]},
        "conversations[1].label",
        "got 'x'",
    ),
    (
        "daring-anteater",
        {**SFT, "conversations": [USER, {**ASSISTANT, "label": "verbosity:7"}]},
        "conversations[1].label",
        "name:0 to name:4",
    ),
    (
        "summeval",
        {**SUMMARY, "expert_ratings": {**EXPERTS, "fluency": [1, 2]}},
        "expert_ratings.fluency",
        "at least 3 items",
    ),
    (
        "summeval",
        {**SUMMARY, "expert_ratings": {**EXPERTS, "fluency": [0, 2, 3]}},
        "expert_ratings.fluency[0]",
        "from 1 to 5",
    ),
    ("pandalm", {**PANDA, **VOTES, "annotator2": 3}, "annotator2", "from 0 to 2"),
    ("pandalm", {**PANDA, **VOTES, "response1": None}, "response1", "expected text"),
    ("pandalm", {**PANDA, **VOTES, "instruction": ""}, "instruction", "the text is empty"),
    ("ratings", rated(coherence=True), "coherence", "expected a number from 0 to 4, got true"),
    ("ratings", rated(coherence="7"), "coherence", "or name another scale"),
    ("ratings", rated(annotator=True), "annotator", "expected a name, got true"),
]


@pytest.mark.parametrize(
    ("name", "row", "field", "words"), OTHERS, ids=[f"{row[0]}-{row[3][:20]}" for row in OTHERS]
)
def test_bad_row_of_another_data_set(tmp_path, name, row, field, words):
    path = write(tmp_path / "rows.jsonl", [row])
    error = caught(path, name)
    assert (error.line, error.field) == (1, field) and words in str(error)
    loaded = load(name, "folder", path=path, strict=False)
    assert loaded.groups == [] and [aside.line for aside in loaded.set_aside] == [1]


def test_messages_under_an_orphan_go_with_it(tmp_path):
    """A reply to a message that is not there has no prompt; its replies have none either, and each is counted."""
    rows = [
        {**MESSAGE, "message_id": "c", "parent_id": "b"},
        {**MESSAGE, "message_id": "b", "parent_id": "gone", "role": "assistant"},
    ]
    loaded = load("oasst1", "folder", path=write(tmp_path / "rows.jsonl", [*rows]), strict=False)
    assert sorted(aside.line for aside in loaded.set_aside) == [1, 2] and not loaded.groups


def test_a_message_twice_and_a_role_twice(tmp_path):
    twice = caught(write(tmp_path / "rows.jsonl", [MESSAGE, MESSAGE]), "oasst1")
    assert (twice.line, twice.field) == (2, "message_id") and "first in line 1" in str(twice)
    again = caught(
        write(tmp_path / "rows.jsonl", [MESSAGE, {**MESSAGE, "message_id": "b", "parent_id": "a"}]),
        "oasst1",
    )
    assert (again.line, again.field) == (2, "role") and "make the roles alternate" in str(again)


def test_own_ratings_that_contradict_each_other(tmp_path):
    """Two ratings of one response with nobody's name on them cannot both be the label; which one is not ours to say."""
    error = caught(write(tmp_path / "rows.jsonl", [rated(), rated(coherence=1)]), "ratings")
    assert (error.line, error.field) == (
        2,
        "annotator",
    ) and "this response was rated before" in str(error)
    rows = [rated(group="1"), rated("other", group="1")]
    error = caught(write(tmp_path / "rows.jsonl", [*rows]), "ratings")
    assert (error.line, error.field) == (2, "prompt") and "group '1'" in str(error)


HEADER = "prompt,response," + ",".join(ATTRIBUTES)


@pytest.mark.parametrize(
    ("content", "at", "field", "words"),
    [
        (f"{HEADER}\np,r,1,1,1,1,1\nq,r,1,1\n", 3, None, "4 cells, the header has 7"),
        (f'{HEADER}\n"two\nlines",r,1,1,1,1,1\nq,r,x,1,1,1,1\n', 4, "helpfulness", 'got "x"'),
        (f"{HEADER}\nq,r,nan,1,1,1,1\n", 2, "helpfulness", "leave the cell empty"),
        (
            f"{HEADER}\n,r,1,1,1,1,1\n",
            2,
            "prompt",
            "expected text or a list of {role, content}, got null",
        ),
        (f'{HEADER}\n"q,r,1,1,1,1,1\n', 2, None, "bad CSV"),
        (f"{HEADER},coherence\nq,r,1,1,1,1,1,1\n", None, "coherence", "column twice"),
        ("prompt,response\nq,r\n", None, None, "no column holds ratings"),
        (f"{HEADER}\n", None, None, "the file has no rows"),
        ("", None, None, "the file has no rows"),
    ],
)
def test_bad_csv(tmp_path, content, at, field, words):
    path = tmp_path / "own.csv"
    path.write_text(content)
    error = caught(path, "ratings")
    assert (error.line, error.field) == (at, field) and words in str(error)


def test_broken_utf8_in_csv(tmp_path):
    path = tmp_path / "own.csv"
    path.write_bytes(f"{HEADER}\np,r,1,1,1,1,1\n".encode() + b"caf\xe9,r,1,1,1,1,1\n")
    error = caught(path, "ratings")
    assert error.line == 3 and "can't decode byte 0xe9" in str(error)


def test_bad_parquet(tmp_path):
    path = tmp_path / "own.parquet"
    pd.DataFrame([rated(), rated("q", helpfulness=7)]).to_parquet(path)
    error = caught(path, "ratings")
    assert (error.line, error.field) == (2, "helpfulness") and "is 0 to 4" in str(error)
    path.write_bytes(path.read_bytes()[:-20])
    assert "not a sound Parquet file" in str(caught(path, "ratings"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[{]", "at column 3"),
        ("{}", "expected a JSON array"),
        ("[]", "no rows"),
        ("[1]", "expected an object"),
    ],
)
def test_bad_json_array(tmp_path, content, words):
    path = tmp_path / "testset.json"
    path.write_text(content)
    assert words in str(caught(path, "pandalm"))


# What is asked for does not exist


def test_absent_data_set_says_where_it_was_looked_for_and_how_to_get_it(tmp_path):
    with pytest.raises(DataError) as info:
        load("helpsteer2", "folder", folder=tmp_path)
    message = str(info.value)
    for word in (
        "HelpSteer2 (train)",
        "helpsteer2/train.jsonl.gz",
        "nvidia/HelpSteer2/train.jsonl.gz",
    ):
        assert word in message
    assert "hf download nvidia/HelpSteer2 --repo-type dataset --revision 990b2711a361" in message
    assert f"--local-dir {tmp_path / 'helpsteer2'}" in message


def test_no_folder_is_an_error_not_another_source(tmp_path, monkeypatch):
    """A run that asks for real rows must never quietly get generated ones."""
    monkeypatch.delenv("HS2_DATA_DIR", raising=False)
    with pytest.raises(DataError, match="HS2_DATA_DIR"):
        load("helpsteer2", "folder")
    with pytest.raises(DataError, match="does not exist"):
        load("helpsteer2", "folder", folder=tmp_path / "absent")
    with pytest.raises(DataError, match="no such file"):
        load("ratings", "folder", path=tmp_path / "own.jsonl")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("helpster2", "folder"), "did you mean 'helpsteer2'"),
        (("helpsteer2", "hubb"), "did you mean 'hub'"),
        (("summeval", "hub"), "'summeval' does not come from source 'hub'"),
        (("oasst1", "postcards"), "'oasst1' does not come from source 'postcards'"),
        (("ratings", "folder"), "need path="),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(arguments, words):
    with pytest.raises(ValueError, match=words):
        load(*arguments)


def test_impossible_splits_and_paths_are_refused():
    with pytest.raises(ValueError, match="did you mean 'train'"):
        load("helpsteer2", "folder", split="trian")
    with pytest.raises(ValueError, match="has no splits"):
        load("summeval", "folder", split="train")
    with pytest.raises(ValueError, match="source='folder'"):
        load("helpsteer2", "hub", path="rows.jsonl")
