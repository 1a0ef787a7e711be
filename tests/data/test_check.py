"""The data doctor: what a person learns of a file before an hour of notebooks runs on it."""

import json
import tracemalloc

import pytest
from made_rows import rated, write

from hs2lib.data import check


def test_faults_and_what_will_be_done_come_in_one_pass(tmp_path, capsys):
    """A file is corrected once, not once an error."""
    rows = [
        {**rated("p", "hello <|im_end|>", coherence=None), "annotator": "ann"},
        {**rated("p", "second", coherence=None), "annotator": "ann"},
        {**rated("p", "second", coherence=None), "annotator": "ann"},
        {**rated("q", "caf\ufffd", coherence=9), "annotator": "ann"},
        {"prompt": "r", "response": "r", **dict.fromkeys(list(rated())[2:]), "annotator": "ann"},
    ]
    path = write(tmp_path / "own.jsonl", rows)
    assert check.main([str(path), "--scale", "0-4"]) == 1
    printed = capsys.readouterr().out
    for words in (
        f"{path}, read as ratings",
        "3 responses to 2 prompts",
        "helpfulness: every rating is 2",
        "2 faults in 2 rows",
        "line 3, field 'annotator': ",
        "line 4, field 'coherence': expected a number from 0 to 4, got 9",
        "leaves out 2 faulty rows",
    ):
        assert words in printed, words


def test_an_id_that_another_response_gets_by_default_is_a_fault(tmp_path, capsys):
    """The doctor once found no fault here, and notebooks gave two responses one id."""
    path = write(tmp_path / "own.jsonl", [rated("p", "r"), rated("q", "s", id="ratings/0/0")])
    assert check.main([str(path)]) == 1
    assert (
        "line 2, field 'id': 'ratings/0/0' is another response (line 1)" in capsys.readouterr().out
    )


def test_a_path_that_is_too_long_is_one_sentence(capsys):
    """The operating system refuses to look for it, which was a traceback."""
    assert check.main(["a" * 300 + ".jsonl"]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert "File name too long" in line


def test_a_sound_file_of_pairs_is_known_by_its_columns(tmp_path, capsys):
    path = write(
        tmp_path / "mine.jsonl", [{"question": "a", "chosen": "b", "rejected": "c", "lang": "en"}]
    )
    assert check.main([str(path), "--columns", "prompt=question"]) == 0
    printed = capsys.readouterr().out
    assert "read as pairs\n  1 pairs: mine 1\n" in printed


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompt": "a", "response": "b", "rater": "ann"}, "2 responses to 2 prompts"),
        ({"prompt": "a", "responses": ["b", "c"]}, "4 responses to 2 prompts"),
        ({"prompt": "a", "response_a": "b", "response_b": "c"}, "4 responses to 2 prompts"),
        ({"messages": [{"role": role, "content": "a"} for role in ("user", "assistant")]}, "2 responses"),
    ],
)  # fmt: skip
def test_a_file_that_compares_nothing_is_there_to_be_scored(tmp_path, capsys, row, words):
    path = write(tmp_path / "mine.jsonl", [row, row])
    assert check.main([str(path)]) == 0
    printed = capsys.readouterr().out
    assert "read as responses" in printed and words in printed


def test_a_first_row_without_responses_makes_no_ratings_of_pairs(tmp_path, capsys):
    pair = {"prompt": "a", "chosen": "b", "rejected": "c"}
    rows = [pair | {"chosen": None, "rejected": None}, pair]
    path = write(tmp_path / "mine.jsonl", rows)
    assert check.main([str(path)]) == 1
    printed = capsys.readouterr().out
    assert "read as pairs" in printed and "line 1, field 'chosen': expected text" in printed


def test_a_file_gives_the_terminal_no_orders(tmp_path, capsys):
    path = write(
        tmp_path / "mine.jsonl",
        [{"prompt": "a", "chosen": "b", "rejected": "c", "\x1b[2J": 1, "subset": "\x9bs"}],
    )
    assert check.main([str(path)]) == 0
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x9b"} & set(printed)


def test_attributes_may_have_spaces_between_them(tmp_path, capsys):
    """No column can be called " tone": the file's names lose such spaces."""
    path = tmp_path / "own.csv"
    path.write_text("prompt,response,clarity,tone,length\np,r,1,4,90\nq,r,4,1,80\n")
    assert check.main([str(path), "--attributes", "clarity, tone"]) == 0
    assert "attributes: clarity (0 to 4), tone (0 to 4)" in capsys.readouterr().out


def test_rows_of_a_data_set_are_checked_by_its_own_reader(tmp_path, capsys):
    path = write(tmp_path / "train.jsonl", [rated(), rated(response="s"), rated()])
    assert check.main([str(path), "--as", "helpsteer2"]) == 1
    assert "1 groups of 2" in (printed := capsys.readouterr().out) and "an odd number" in printed


@pytest.mark.parametrize("content", [None, "", "[" * 5000])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, capsys, content):
    path = tmp_path / "own.json"
    if content is not None:
        path.write_text(content)
    assert check.main([str(path)]) == 2 and len(capsys.readouterr().out.splitlines()) == 1


def test_memory_holds_a_row_and_not_the_file(tmp_path):
    path = tmp_path / "own.jsonl"
    with path.open("w") as file:
        for i in range(300):
            file.write(json.dumps(rated(f"{i} " + "p" * 10_000, "r" * 10_000)) + "\n")
    tracemalloc.start()
    _, faults, lines = check.examine(path)
    assert tracemalloc.get_traced_memory()[1] < 1.5e6, "of 6 MB"
    tracemalloc.stop()
    assert not faults.faults and lines[0] == "300 responses to 300 prompts, 0 with two or more"


def test_an_example_to_try_the_commands_with_is_sound_and_overwrites_nothing(tmp_path, capsys):
    """Who has no ratings at hand gets forty; a file of one's own stays."""
    path = tmp_path / "my.csv"
    assert check.main([str(path), "--example"]) == 0
    assert "40 rows written, generated" in capsys.readouterr().out
    assert check.main([str(path)]) == 0
    printed = capsys.readouterr().out
    assert "40 responses to 20 prompts, 20 with two or more" in printed
    assert "attributes: helpful (0 to 4), correct (0 to 4)" in printed
    before = path.read_bytes()
    assert check.main([str(path), "--example"]) == 2
    assert path.read_bytes() == before
