"""Bad input in the other data sets and formats: the same error, from the same checks, with line and field.

Every reader has checks of its own; each appears here once with the smallest row that trips it.
"""

import pandas as pd
import pytest
from made_rows import caught, rated, write

from hs2lib.data.load import load
from hs2lib.data.rows import SetAside
from hs2lib.group import ATTRIBUTES

LISTS = {**rated(), **{name: [2, 2, 2] for name in ATTRIBUTES}}
PREFERENCE = {
    **{"split": "val", "prompt": "p", "response_1": "a", "response_2": "b", "preference_strength": -2},
    **{"preference_statement": "s", "preference_elaboration": "e", "three_most_similar_preferences": []},
    "all_preferences_unprocessed": [],
}
MESSAGE = {"message_id": "a", "parent_id": None, "role": "prompter", "text": "Hi", "labels": None}
HH = {"chosen": "\n\nHuman: Hi\n\nAssistant: a", "rejected": "\n\nHuman: Hi\n\nAssistant: b"}
USER, ASSISTANT = {"from": "User", "value": "Hi"}, {"from": "Assistant", "value": "Hello", "label": None}
SFT = {"system": "", "mask": "User", "dataset": "d", "conversations": [USER, ASSISTANT]}
SUMMARY = {"doc_id": "d", "system": "M0", "source": "long", "summary": "short"}
EXPERTS = {name: [1, 2, 3] for name in ("coherence", "consistency", "fluency", "relevance")}
PANDA = {"instruction": "i", "input": "", "response1": "a", "response2": "b"}
VOTES = {"annotator1": 0, "annotator2": 1, "annotator3": 2}
SCORES = {"quality": {"value": 1.5}}

OTHERS = [
    ("helpsteer", rated(coherence=9), "coherence", "from 0 to 4"),
    ("helpsteer", rated("<extra_id_0>System\na"), "prompt", "make no conversation"),
    ("helpsteer2-disagreements", {**LISTS, "verbosity": [2, 2]}, "verbosity", "2 ratings, but helpfulness has 3"),
    ("helpsteer2-disagreements", {**LISTS, "verbosity": [2, 2, 2.5]}, "verbosity", "a whole number"),
    ("helpsteer2-disagreements", {**LISTS, "helpfulness": []}, "helpfulness", "a list of ratings is due"),
    ("helpsteer2-disagreements", {**LISTS, "helpfulness": 3}, "helpfulness", "got 3 (int)"),
    ("helpsteer2-preference", {**PREFERENCE, "preference_strength": 4}, "preference_strength", "from -3 to 3"),
    ("helpsteer2-preference", {**PREFERENCE, "split": "test"}, "split", "train or val is due"),
    ("helpsteer2-preference", {**PREFERENCE, "response_2": ""}, "response_2", "the text is empty"),
    ("helpsteer2-unrated", {"input": "a", "response_a": "b"}, "response_b", "column is missing"),
    ("oasst1", {**MESSAGE, "role": "system"}, "role", "prompter or assistant is due"),
    ("oasst1", {**MESSAGE, "role": "assistant"}, "role", "opens the tree"),
    ("oasst1", {**MESSAGE, "parent_id": "b"}, "parent_id", "parent b is not in the file"),
    ("oasst1", {**MESSAGE, "parent_id": "a"}, "parent_id", "leads back to the message itself"),
    ("oasst1", {**MESSAGE, "labels": SCORES}, "quality", "from 0 to 1"),
    ("oasst1", {**MESSAGE, "labels": {"name": ["quality"], "value": []}}, "labels", "differ in length"),
    ("hh-rlhf", {**HH, "chosen": "Hi"}, "chosen", "from Human to Assistant"),
    ("hh-rlhf", {**HH, "chosen": "\n\nHuman: Hi\n\nAssistant: "}, "chosen", "last answer is empty"),
    ("hh-rlhf", {**HH, "chosen": "\n\nHuman: Ho\n\nAssistant: a"}, "rejected", "do not share a prompt"),
    ("daring-anteater", {**SFT, "conversations": [ASSISTANT, USER]}, "conversations", "a turn from User is due"),
    ("daring-anteater", {**SFT, "conversations": [USER, USER]}, "conversations", "a turn from Assistant is due"),
    ("daring-anteater", {**SFT, "conversations": [USER, ASSISTANT, USER]}, "conversations", "the user's"),
    (
        "daring-anteater",
        {**SFT, "conversations": [USER, {**ASSISTANT, "label": "x:4"}]},
        "conversations",
        "label string",
    ),
    ("daring-anteater", {**SFT, "conversations": [USER, {**ASSISTANT, "label": "verbosity:7"}]}, "verbosity", "0 to 4"),
    ("summeval", {**SUMMARY, "expert_ratings": {**EXPERTS, "fluency": [1, 2]}}, "fluency", "three ratings"),
    ("summeval", {**SUMMARY, "expert_ratings": {**EXPERTS, "fluency": [0, 2, 3]}}, "fluency", "from 1 to 5"),
    ("pandalm", {**PANDA, **VOTES, "annotator2": 3}, "annotator2", "from 0 to 2"),
    ("pandalm", {**PANDA, **VOTES, "response1": None}, "response1", "text is due"),
    ("pandalm", {**PANDA, **VOTES, "instruction": ""}, "instruction", "the text is empty"),
    ("ratings", rated(coherence=4.5), "coherence", "a number from 0 to 4 is due, got 4.5"),
    ("ratings", rated(notes="?"), "notes", "unknown extra column"),
    ("ratings", rated(annotator=True), "annotator", "a name is due"),
]


@pytest.mark.parametrize(("name", "row", "field", "words"), OTHERS, ids=[f"{row[0]}-{row[3][:20]}" for row in OTHERS])
def test_bad_row_of_another_data_set(tmp_path, name, row, field, words):
    path = write(tmp_path / "rows.jsonl", [row])
    error = caught(path, name)
    assert (error.line, error.field) == (1, field) and words in str(error)
    loaded = load(name, "folder", path=path, strict=False)
    assert loaded.groups == [] and [aside.line for aside in loaded.set_aside] == [1]
    assert isinstance(loaded.set_aside[0], SetAside)


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
        write(tmp_path / "rows.jsonl", [MESSAGE, {**MESSAGE, "message_id": "b", "parent_id": "a"}]), "oasst1"
    )
    assert (again.line, again.field) == (2, "role") and "make the roles alternate" in str(again)


def test_own_ratings_that_contradict_each_other(tmp_path):
    """Two ratings of one response with nobody's name on them cannot both be the label; which one is not ours to say."""
    error = caught(write(tmp_path / "rows.jsonl", [rated(), rated(coherence=1)]), "ratings")
    assert (error.line, error.field) == (2, "annotator") and "first in line 1" in str(error)
    rows = [rated(group="1"), rated("other", group="1")]
    error = caught(write(tmp_path / "rows.jsonl", [*rows]), "ratings")
    assert (error.line, error.field) == (2, "prompt") and "group '1'" in str(error)


HEADER = "prompt,response," + ",".join(ATTRIBUTES)


@pytest.mark.parametrize(
    ("content", "at", "field", "words"),
    [
        (f"{HEADER}\np,r,1,1,1,1,1\nq,r,1,1\n", 3, None, "4 cells, the header has 7"),
        (f'{HEADER}\n"two\nlines",r,1,1,1,1,1\nq,r,x,1,1,1,1\n', 4, "helpfulness", 'got "x" (str)'),
        (f"{HEADER}\nq,r,nan,1,1,1,1\n", 2, "helpfulness", "NaN is not a rating"),
        (f"{HEADER}\n,r,1,1,1,1,1\n", 2, "prompt", "text is due, got null"),
        (f'{HEADER}\n"q,r,1,1,1,1,1\n', 2, None, "bad CSV"),
        (f"{HEADER},coherence\nq,r,1,1,1,1,1,1\n", 1, "coherence", "given twice"),
        ("prompt,response\nq,r\n", 2, "helpfulness", "column is missing"),
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
    assert error.line == 3 and "broken UTF-8, byte 0xe9" in str(error)


def test_bad_parquet(tmp_path):
    path = tmp_path / "own.parquet"
    pd.DataFrame([rated(), rated("q", helpfulness=7)]).to_parquet(path)
    error = caught(path, "ratings")
    assert (error.line, error.field) == (2, "helpfulness") and "from 0 to 4" in str(error)
    path.write_bytes(path.read_bytes()[:-20])
    assert "not a sound Parquet file" in str(caught(path, "ratings"))


@pytest.mark.parametrize(
    ("content", "words"),
    [("[{]", "bad JSON at column 3"), ("{}", "a JSON array is due"), ("[]", "no rows"), ("[1]", "an object is due")],
)
def test_bad_json_array(tmp_path, content, words):
    path = tmp_path / "testset.json"
    path.write_text(content)
    assert words in str(caught(path, "pandalm"))
