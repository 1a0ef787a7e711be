"""What each data set's reader makes of sound rows; real rows where HS2_DATA_DIR has them."""

import csv
import gzip
import json
import math
import os
from collections import Counter
from operator import eq
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_rows import rated, write

from hs2lib.align import sft
from hs2lib.data.load import SETS, load, own_file
from hs2lib.data.rows import DataError
from hs2lib.data.tables import ratings_array, released_rows, table
from hs2lib.group import ATTRIBUTES, Response, prompt_string
from hs2lib.stats import describe
from hs2lib.world.cards import card_of

REAL = os.environ.get("HS2_DATA_DIR")
real = pytest.mark.skipif(not REAL, reason="HS2_DATA_DIR is not set: no real rows on this machine")


def test_helpsteer2_pairs_by_position(tmp_path):
    """The same prompt in two pairs stays two groups: grouping by prompt would make one of four (facts: 10,161)."""
    rows = [rated("p", name, 1, 2, 3, 4, 0) for name in "abcd"]
    write(tmp_path / "helpsteer2/train.jsonl.gz", rows)
    write(tmp_path / "helpsteer2/validation.jsonl.gz", rows[:2])
    loaded = load("helpsteer2", "folder", folder=tmp_path)
    assert [[r.text for r in group.responses] for group in loaded.groups] == [
        ["a", "b"],
        ["c", "d"],
        ["a", "b"],
    ]
    assert [group.id for group in loaded.groups] == [
        "helpsteer2/train/0",
        "helpsteer2/train/1",
        "helpsteer2/validation/0",
    ]
    assert loaded.groups[0].responses[0] == Response(
        "helpsteer2/train/0/0", "a", (1.0, 2.0, 3.0, 4.0, 0.0)
    )
    assert len(load("helpsteer2", "folder", folder=tmp_path, split="validation").groups) == 1
    assert not loaded.generated and not loaded.set_aside
    assert (
        str(tmp_path) not in loaded.source and "helpsteer2/train.jsonl.gz (sha256 " in loaded.source
    )


@pytest.mark.parametrize("place", ["helpsteer2", "HelpSteer2", "nvidia/HelpSteer2"])
@pytest.mark.parametrize("file", ["train.jsonl.gz", "train.jsonl"])
def test_a_clone_of_the_hub_repository_is_read(tmp_path, monkeypatch, place, file):
    """However the repository was fetched (hf download, git clone, unpacked by hand), HS2_DATA_DIR is enough."""
    write(tmp_path / place / file, [rated("p", "r", 1, 1, 1, 1, 1)] * 2)
    monkeypatch.setenv("HS2_DATA_DIR", str(tmp_path))
    assert len(load("helpsteer2", "folder", split="train").groups) == 1


def test_helpsteer_groups_consecutive_rows(tmp_path):
    rows = [rated("p", str(i), 1, 1, 1, 1, 1) for i in range(4)] + [rated("q", "x", 0, 0, 0, 0, 0)]
    write(tmp_path / "helpsteer/train.jsonl.gz", rows)
    assert [
        len(group.responses)
        for group in load("helpsteer", "folder", folder=tmp_path, split="train").groups
    ] == [
        4,
        1,
    ]


C_SHARP = {
    **{
        "helpfulness": [3, 3, 4],
        "correctness": [3, 4, 4],
        "coherence": [4, 3, 4],
        "complexity": [2, 2, 2],
    },
    **{"verbosity": [2, 1, 1], "prompt": "c#", "response": "C# is a high-level"},
}


def test_disagreements_are_ratings_and_join_to_released_rows(tmp_path):
    """The row of the dataset card; which rows survived the final filter is known only through (prompt, response)."""
    dropped = [{**C_SHARP, "prompt": "d", "response": name} for name in "xy"]
    alone = {**C_SHARP, "prompt": "e"}
    second = {**C_SHARP, "response": "C sharp", "helpfulness": [1, 1], "correctness": [1, 1]}
    second |= {name: [0, 0] for name in ATTRIBUTES[2:]}
    write(
        tmp_path / "helpsteer2/disagreements/disagreements.jsonl.gz",
        [*dropped, C_SHARP, second, alone],
    )
    write(
        tmp_path / "helpsteer2/train.jsonl.gz",
        [rated("c#", "C# is a high-level", 3, 4, 4, 2, 1), rated("c#", "C sharp", 1, 1, 0, 0, 0)],
    )
    groups = load("helpsteer2-disagreements", "folder", folder=tmp_path).groups
    assert [len(group.responses) for group in groups] == [2, 2, 1]
    assert groups[1].responses[0].ratings == (
        (3.0, 3.0, 4.0, 2.0, 2.0),
        (3.0, 4.0, 3.0, 2.0, 1.0),
        (4.0, 4.0, 4.0, 2.0, 1.0),
    )
    assert groups[1].responses[0].labels == ()
    assert ratings_array(groups)[0].shape == (5, 3, 5)
    released = load("helpsteer2", "folder", folder=tmp_path, split="train").groups
    assert released_rows(groups, released).tolist() == [-1, -1, 0, 1, -1]
    # A row that occurs twice was released only as often as it stands in the released file.
    assert released_rows([groups[1], groups[1]], released).tolist() == [0, 1, -1, -1]


def test_preference_strengths_and_splits(tmp_path):
    """Negative means response 1, as in Group; -100 (neither response valid) is a missing rating, not a strong one."""
    row = {
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
        "all_preferences_unprocessed": [
            {"strength": s, "justification": "j"} for s in (-2, -100, 3)
        ],
    }
    write(tmp_path / "helpsteer2/preference/preference.jsonl.gz", [row, {**row, "split": "train"}])
    both = load("helpsteer2-preference", "folder", folder=tmp_path)
    (group,) = load("helpsteer2-preference", "folder", folder=tmp_path, split="validation").groups
    assert len(both.groups) == 2 and group == both.groups[0]
    assert group.preference == -2 and [response.text for response in group.responses] == ["a", "b"]
    path = tmp_path / "helpsteer2/preference/preference.jsonl.gz"
    assert len(load("helpsteer2-preference", "folder", path=path, split="train").groups) == 1
    assert group.preferences[::2] == (-2, 3) and math.isnan(group.preferences[1])


def message(name, parent, role, text, labels=None):
    return {"message_id": name, "parent_id": parent, "role": role, "text": text, "labels": labels}


@pytest.mark.parametrize("layout", ["parquet", "jsonl"])
def test_oasst1_siblings_are_a_group(tmp_path, layout):
    """A tree by hand: the prompt is the path from the root, labels in [0, 1] become 0-4, both export layouts."""
    labels = {
        "name": ["spam", "quality", "toxicity"],
        "value": [0.0, 0.75, 0.25],
        "count": [3, 3, 3],
    }
    rows = [
        message(
            "q2", "a1", "prompter", "and 2+2?"
        ),  # before its parent: the order of a file promises nothing
        message("q", None, "prompter", "1+1?"),
        message("a1", "q", "assistant", "2", labels),
        message("a2", "q", "assistant", "3"),
        message("a3", "q2", "assistant", "4", labels),
    ]
    path = tmp_path / f"tree.{layout}"
    if layout == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        by_name = {
            name: {"value": value, "count": 3}
            for name, value in zip(labels["name"], labels["value"], strict=True)
        }
        write(path, [{**row, "labels": row["labels"] and by_name} for row in rows])
    first, second = load("oasst1", "folder", path=path).groups
    assert [response.id for response in first.responses] == ["a1", "a2"]
    assert first.attributes == (
        "quality",
        "helpfulness",
        "creativity",
        "humor",
        "toxicity",
        "violence",
    )
    assert first.responses[0].labels[0] == 3 and first.responses[0].labels[4] == 1
    assert math.isnan(first.responses[0].labels[1]) and first.responses[1].labels == ()
    assert (
        prompt_string(second.prompt) == "1+1?\n<extra_id_1>Assistant\n2\n<extra_id_1>User\nand 2+2?"
    )


def test_oasst1_paths_are_all_from_a_root_to_a_leaf(tmp_path):
    """Three leaves below a root by hand, one of them the user's: that path ends with the answer before it."""
    rows = [
        message("q", None, "prompter", "1+1?"),
        message("a1", "q", "assistant", "3"),
        message("a2", "q", "assistant", "2"),
        message("u1", "a2", "prompter", "thanks"),
        message("u2", "a2", "prompter", "and 2+2?"),
        message("a3", "u2", "assistant", "4"),
        message("alone", None, "prompter", "anyone?"),
    ]
    groups = load("oasst1-paths", "folder", path=write(tmp_path / "tree.jsonl", rows)).groups
    shown = {
        g.id.rpartition("/")[2]: [*(turn.text for turn in g.prompt), g.responses[0].text]
        for g in groups
    }
    assert shown == {"a1": ["1+1?", "3"], "u1": ["1+1?", "2"], "a3": ["1+1?", "2", "and 2+2?", "4"]}
    assert sft.best_paths(groups) == groups, "all of them are trained"


def test_hh_rlhf_splits_off_the_last_answer(tmp_path):
    start = "\n\nHuman: Hi\n\nAssistant: Hello\n\nHuman: Bye\n\nAssistant:"
    path = write(
        tmp_path / "hh.jsonl", [{"chosen": f"{start} Goodbye.", "rejected": f"{start} No."}]
    )
    (group,) = load("hh-rlhf", "folder", path=path).groups
    assert [turn.text for turn in group.prompt] == ["Hi", "Hello", "Bye"] and group.preference == -1
    assert [response.text for response in group.responses] == ["Goodbye.", "No."]


def test_hh_rlhf_tranches_do_not_share_ids(tmp_path):
    """Four tranches have a line 1 each: ids made of lines alone would collide, and a split by id would leak."""
    row = {"chosen": "\n\nHuman: Hi\n\nAssistant: a", "rejected": "\n\nHuman: Hi\n\nAssistant: b"}
    for tranche in SETS["hh-rlhf"].hub["train"]:
        write(tmp_path / "hh-rlhf" / tranche, [row])
    groups = load("hh-rlhf", "folder", folder=tmp_path, split="train").groups
    assert len({group.id for group in groups}) == len(groups) == 4


def test_daring_anteater_labels_and_system_turn(tmp_path):
    turns = [
        {
            "from": "User",
            "value": "Hi\n<extra_id_1>Assistant\nHello\n<extra_id_1>User\nBye",
            "label": None,
        },
        {"from": "Assistant", "value": "Goodbye", "label": "verbosity:1,helpfulness:4"},
    ]
    row = {"system": "Be kind.", "mask": "User", "dataset": "d", "conversations": turns}
    (group,) = load("daring-anteater", "folder", path=write(tmp_path / "d.jsonl", [row])).groups
    assert [turn.role for turn in group.prompt] == ["system", "user", "assistant", "user"]
    labels = group.responses[0].labels
    assert labels[0] == 4 and labels[4] == 1 and all(map(math.isnan, labels[1:4]))


# Your own ratings


OWN = [
    {**rated("p", "a", 4, 4, 4, 2, 2), "annotator": "ann"},
    {**rated("q", "x", 0, 0, 0, 0, 0), "annotator": "ann"},
    {**rated("p", "a", 2, 3, 4, 2, None), "annotator": "bob"},
    {**rated("p", "b", None, 1, 1, 1, 1), "annotator": "bob"},
]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "parquet"])
def test_own_ratings_in_every_format_are_the_same_groups(tmp_path, kind):
    """Four people's formats, one meaning: rows of a response gather whatever their order, and missing stays missing."""
    path = tmp_path / f"own.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(OWN[0]))
            writer.writeheader()
            writer.writerows(OWN)
    elif kind == "parquet":
        pd.DataFrame(OWN).astype(dict.fromkeys(ATTRIBUTES, "Int64")).to_parquet(path)
    else:
        write(path, OWN)
    first, second = load("ratings", "folder", path=path).groups
    assert [response.text for response in first.responses] == ["a", "b"] and len(
        second.responses
    ) == 1
    a, b = first.responses
    assert (
        a.labels == (3, 3.5, 4, 2, 2)
        and a.ratings[0] == (4, 4, 4, 2, 2)
        and math.isnan(a.ratings[1][4])
    )
    assert math.isnan(b.labels[0]) and b.labels[1:] == (1, 1, 1, 1)


def test_own_ratings_groups_ids_and_csv_with_quoted_line_breaks(tmp_path):
    """`group` keeps two runs of one prompt apart; a text with commas, quotes and lines survives CSV."""
    path = tmp_path / "own.csv"
    path.write_text(
        "group,id,prompt,response," + ",".join(ATTRIBUTES) + "\n"
        '1,r7,p,"one, ""two""\nthree",4,4,4,2,2.5\n'
        "2,r8,p,other,1,1,1,1,1\n"
    )
    first, second = load("ratings", "folder", path=path).groups
    assert first.responses == (Response("r7", 'one, "two"\nthree', (4.0, 4.0, 4.0, 2.0, 2.5)),)
    assert (first.id, second.id) == ("ratings/1", "ratings/2")


# The small world


def test_the_small_world_is_marked_as_generated():
    """Whatever is drawn from it must be captioned as generated; its validation prompts are none that are trained on."""
    both = load("helpsteer2", "postcards", n_prompts=40, seed=1)
    parts = [
        load("helpsteer2", "postcards", n_prompts=40, seed=1, split=s)
        for s in ("train", "validation")
    ]
    assert both.generated and "generated" in both.source and "seed 1" in both.source
    assert [len(loaded.groups) for loaded in (both, *parts)] == [40, 40, 40]
    assert [{card_of(g.id).is_reserved for g in part.groups} for part in parts] == [{False}, {True}]
    assert {part.source for part in parts} == {"postcards (generated), seed 1, 40 prompts"}
    assert any(
        r.ratings
        for g in load("helpsteer2-disagreements", "postcards", n_prompts=4).groups
        for r in g.responses
    )


# Real rows


@real
def test_real_validation_ratings_to_the_digit():
    """Part of the validation split with its people's ratings: means, SDs, R, ties, and how often
    the longer one is preferred.

    The figures of the 448 pairs were worked out twice, from the same rows by other code; the others
    were counted in the files by hand.
    """
    packed = (Path(REAL) / "helpsteer2/preference_validation_448_labels_only.jsonl.gz").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    labels = np.array(
        [[row[f"labels_{i}"][name] for name in ATTRIBUTES] for row in rows for i in (1, 2)],
        dtype=float,
    )
    strength = np.array([row["preference_strength"] for row in rows])
    every = describe.moments(labels, np.arange(896) // 2, n_boot=2)
    assert every.mean.estimate.round(3).tolist() == [2.922, 3.016, 3.648, 1.658, 1.921]
    assert every.pearson.estimate[0, 1:].round(3).tolist() == [0.943, 0.506, 0.180, 0.056]
    # Theirs are SDs of these rows, divided by n; ours by n - 1.
    assert labels.std(axis=0).round(3).tolist() == [1.248, 1.232, 0.665, 0.725, 0.792]
    of_rows = every.sd.estimate * np.sqrt(895 / 896)
    np.testing.assert_allclose(of_rows, labels.std(axis=0))
    correctness, _, complexity, verbosity = every.pearson.estimate[1:].round(3)
    assert (correctness[2], complexity[4]) == (0.479, 0.410)
    assert (complexity[2], verbosity[2]) == (-0.001, -0.061)
    apart = labels[1::2, 0] - labels[::2, 0]  # [pairs] of helpfulness, second less first
    assert [(abs(apart) == points).sum() for points in (0, 1)] == [115, 156]
    assert round(np.corrcoef(strength, apart)[0, 1], 3) == 0.915

    loaded = load("helpsteer2-partial", "folder")
    assert loaded.source.startswith("partial HelpSteer2 validation split, ")
    read = table(loaded.groups)
    part = describe.moments(read[list(ATTRIBUTES)].to_numpy(float), read.group.to_numpy(), n_boot=2)
    assert len(read) == 838 and (read.turns[::2] > 1).sum() == 130
    assert part.mean.estimate.round(4).tolist() == [2.8652, 2.9690, 3.6325, 1.6718, 1.9403]
    assert part.pearson.estimate[0, 1:].round(4).tolist() == [0.9380, 0.5169, 0.1849, 0.0520]

    pairs = load("helpsteer2-preference-partial", "folder").groups
    longer = [len(g.responses[1].text) > len(g.responses[0].text) for g in pairs if g.preference]
    second = [g.preference > 0 for g in pairs if g.preference]
    assert len(pairs) == 403 and len(second) == 331
    assert sum(map(eq, longer, second)) == 205  # .619


@real
def test_real_helpsteer2_prompts():
    """466 of the 519 validation pairs; 147 multi-turn; every string of them comes back from its turns."""
    loaded = load("helpsteer2-unrated", "folder")
    assert len(loaded.groups) == 466 and {len(group.responses) for group in loaded.groups} == {2}
    turns = table(loaded.groups)["turns"][::2]
    assert (turns > 1).sum() == 147 and (turns % 2 == 1).all(), "every prompt ends with the user"


@real
def test_real_open_assistant_trees():
    """Three messages answer to messages in other languages, which this English file lacks: named, not dropped."""
    loaded = load("oasst1", "folder", split="validation", strict=False)
    assert [aside.field for aside in loaded.set_aside] == ["parent_id"] * 3
    assert sum(len(group.responses) for group in loaded.groups) == 1241
    labels = table(loaded.groups)[["quality", "helpfulness", "toxicity"]].stack()
    assert labels.min() >= 0 and labels.max() <= 4
    paths = load("oasst1-paths", "folder", split="validation", strict=False).groups
    assert len(paths) == 1002 and len({group.responses[0].id for group in paths}) == 1002
    with pytest.raises(ValueError, match=r"line 153, field 'parent_id'"):
        load("oasst1", "folder", split="validation")


@real
def test_real_agreement_data():
    ratings, groups = ratings_array(load("summeval", "folder").groups)
    assert ratings.shape == (1600, 3, 4) and np.bincount(groups).tolist() == [16] * 100
    assert np.nanmin(ratings) == 1 and np.nanmax(ratings) == 5
    pairs = load("pandalm", "folder").groups
    votes = Counter(vote for group in pairs for vote in group.preferences)
    # Counted in the file: 2s are votes for the second response, 1s for the first.
    assert len(pairs) == 999 and votes == {
        1: 475 + 466 + 475,
        -1: 427 + 417 + 411,
        0: 97 + 116 + 113,
    }
    assert pairs[157].responses[0].text == "True", (
        "a boolean in the released file, shown to annotators as a word"
    )


@real
def test_real_attribute_labelled_conversations():
    loaded = load("daring-anteater", "folder")
    labels = table(loaded.groups)[list(ATTRIBUTES)]
    assert (
        len(labels) == 512 and not labels.isna().any().any() and labels.isin(range(5)).all().all()
    )


def test_a_file_at_the_root_of_the_checkout_is_meant_from_a_notebook_too(tmp_path, monkeypatch):
    """`-p path=my.jsonl` is typed at the root, and the kernel runs in notebooks/."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "my.jsonl").write_text("{}\n")
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.delenv("HS2_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path / "notebooks")
    path, absent = own_file("my.jsonl", None)
    assert path == tmp_path / "my.jsonl" and absent == [Path("my.jsonl")]
    with pytest.raises(DataError, match=r"looked for other\.jsonl and .*/other.jsonl"):
        own_file("other.jsonl", None)
