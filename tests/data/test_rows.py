"""Every kind of bad input, one test each: the error names the file, the line, the field, what arrived and the fix.

A researcher with a half-downloaded or hand-edited file sees only this message; a wrong line number or a vague word
costs an afternoon, and a silently skipped row a wrong table.
"""

import gzip

import pytest
from made_rows import caught, line, rated

from hs2lib.data.load import load
from hs2lib.data.rows import DataError

GOOD = [rated(), rated(response="s"), rated("q"), rated("q", "s")]


def third_line_is(bad: bytes) -> bytes:
    return b"".join([*map(line, GOOD[:2]), bad, *map(line, GOOD[3:])])


def without(column: str) -> dict:
    return {name: value for name, value in rated("q").items() if name != column}


# (name, third line of the file, field that must be named, words that must be there)
BAD_ROWS = [
    ("bad JSON", b'{"prompt": "q", "response"\n', None, ["bad JSON at column 27", "one complete JSON object a line"]),
    ("two rows on a line", line(rated("q"))[:-1] + line(rated("q")), None, ["bad JSON", "Extra data"]),
    ("blank line", b"\n", None, ["the line is blank", "remove blank lines"]),
    ("a list", b"[1, 2]\n", None, ["an object is due, got [1, 2] (list)"]),
    ("too deep", b"[" * 100_000 + b"\n", None, ["bad JSON", "plain JSON object"]),
    ("missing column", line(without("coherence")), "coherence", ["column is missing", "the row has: prompt, response"]),
    ("missing text", line(without("prompt")), "prompt", ["column is missing", "add the column 'prompt'"]),
    ("extra column", line(rated("q", quality=1)), "quality", ["unknown extra column", "remove or rename it"]),
    ("column twice", b'{"prompt": "p", "prompt": "q"}\n', "prompt", ["given twice", "keep one of the two"]),
    (
        "rating above",
        line(rated("q", helpfulness=5)),
        "helpfulness",
        ["from 0 to 4 is due, got 5 (int)", "map the scale"],
    ),
    ("rating below", line(rated("q", verbosity=-1)), "verbosity", ["from 0 to 4 is due, got -1 (int)"]),
    ("huge rating", line(rated("q", verbosity=10**30)), "verbosity", ["from 0 to 4 is due"]),
    (
        "fraction",
        line(rated("q", complexity=2.5)),
        "complexity",
        ["a whole number", "got 2.5 (float)", "decimal point"],
    ),
    ("whole float", line(rated("q", complexity=2.0)), "complexity", ["a whole number", "got 2.0 (float)"]),
    ("NaN", line(rated("q", correctness=float("nan"))), "correctness", ["got NaN (float)", "NaN is not a rating"]),
    ("infinity", line(rated("q", correctness=float("inf"))), "correctness", ["got Infinity (float)"]),
    ("boolean", line(rated("q", coherence=True)), "coherence", ["got true (bool)", "write the number itself"]),
    ("null rating", line(rated("q", coherence=None)), "coherence", ["got null (NoneType)"]),
    ("number as text", line(rated("q", coherence="3")), "coherence", ['got "3" (str)', "without quotes"]),
    ("rating list", line(rated("q", coherence=[3, 3])), "coherence", ["got [3, 3] (list)"]),
    ("empty text", line(rated("q", "")), "response", ['the text is empty, got "" (str)', "remove the row"]),
    ("only spaces", line(rated(" \n\t")), "prompt", ["the text is empty"]),
    ("text is a number", line(rated("q", 7)), "response", ["text is due, got 7 (int)", "as a string"]),
    ("text is null", line(rated("q", None)), "response", ["text is due, got null (NoneType)"]),
    (
        "broken UTF-8",
        line(rated("q")).replace(b'"r"', b'"\xe9t\xe9"'),
        "response",
        ["broken UTF-8, byte 0xe9", "as UTF-8"],
    ),
    ("lone surrogate", line(rated("q", "\ud83d")), "response", ["half a surrogate pair", "\\ud83d", "whole character"]),
    (
        "pair differs",
        line(rated("other")),
        "prompt",
        ["lines 3 and 4 are a pair", "prompts differ", "lost, doubled or moved"],
    ),
]


@pytest.mark.parametrize(("bad", "field", "words"), [row[1:] for row in BAD_ROWS], ids=[row[0] for row in BAD_ROWS])
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_bad_row(tmp_path, bad, field, words, suffix):
    """Strict: the message has file, line 3, field, what came and the fix. Otherwise: that pair aside, the rest kept."""
    path = tmp_path / f"train{suffix}"
    path.write_bytes(gzip.compress(third_line_is(bad)) if suffix.endswith(".gz") else third_line_is(bad))
    error = caught(path)
    assert str(error).startswith(f"{path}, line 3" + (f", field {field!r}: " if field else ": "))
    assert (error.line, error.field) == (3, field)
    for word in [*words, "strict=False"]:
        assert word in str(error)

    loaded = load("helpsteer2", "folder", path=path, strict=False)
    assert [[response.text for response in group.responses] for group in loaded.groups] == [["r", "s"]]
    assert [(aside.file, aside.line) for aside in loaded.set_aside] == [(str(path), 3), (str(path), 4)]
    assert loaded.set_aside[0].field == field and words[0] in loaded.set_aside[0].reason


def test_every_character_of_emoji_escapes_is_kept(tmp_path):
    """The guard against half surrogate pairs must not refuse whole ones, which is how json.dumps writes emoji."""
    path = tmp_path / "train.jsonl"
    path.write_bytes(line(rated("\U0001f600")) * 2)
    assert load("helpsteer2", "folder", path=path).groups[0].prompt[0].text == "\U0001f600"


def test_fault_in_the_second_row_takes_the_pair(tmp_path):
    """A reward model trained on half a pair would see a group of one: the sound partner goes too, and is counted."""
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"".join([line(GOOD[0]), b"{\n", line(GOOD[2]), line(GOOD[3])]))
    loaded = load("helpsteer2", "folder", path=path, strict=False)
    assert len(loaded.groups) == 1
    assert sorted((aside.line, aside.reason.split(":")[0]) for aside in loaded.set_aside) == [
        (1, "its pair partner, line 2, is set aside"),
        (2, "bad JSON at column 2"),
    ]


def test_odd_number_of_rows(tmp_path):
    """One lost row shifts all later pairs: an odd count is the sign of it."""
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"".join(map(line, GOOD[:3])))
    error = caught(path)
    assert error.line == 3 and "3 rows, an odd number" in str(error) and "restore the lost row" in str(error)
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
        (gzip.compress(b"".join(map(line, GOOD)))[:-30], None, ["ends before its end mark", "download the file again"]),
        (b"version https://git-lfs.github.com/spec/v1\n", 1, ["not a sound gzip file", "git lfs pull"]),
        (gzip.compress(b""), None, ["the file has no rows"]),
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
    path.write_bytes(gzip.compress(b"".join(map(line, GOOD)), compresslevel=0)[: -len(line(GOOD[3])) - 20])
    assert caught(path).line == 3


def test_damaged_gzip(tmp_path):
    """A flipped byte in the middle: found by the checksum at the latest, and never read as data without an error."""
    path = tmp_path / "train.jsonl.gz"
    packed = bytearray(gzip.compress(b"".join(map(line, GOOD * 50))))
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(packed)
    assert caught(path).fix


def test_unknown_kind_of_file(tmp_path):
    path = tmp_path / "rows.pkl"
    path.write_bytes(b"\x80\x04.")
    assert "unknown kind of file '.pkl'" in str(caught(path, "ratings")) and ".parquet" in str(caught(path, "ratings"))


# What is asked for does not exist


def test_absent_data_set_says_where_it_was_looked_for_and_how_to_get_it(tmp_path):
    with pytest.raises(DataError) as info:
        load("helpsteer2", "folder", folder=tmp_path)
    message = str(info.value)
    for word in ("HelpSteer2 (train)", "helpsteer2/train.jsonl.gz", "nvidia/HelpSteer2/train.jsonl.gz"):
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
        (("summeval", "hub"), "not on the Hub"),
        (("oasst1", "embedded"), "the embedded corpus has no 'oasst1'"),
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
