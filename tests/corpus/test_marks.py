"""Marks of sentences: they add up to the grade, for responses of policies and of the generator."""

import json
from collections import Counter
from pathlib import Path

import pytest

from hs2lib.corpus import generate
from hs2lib.corpus.grade import grade
from hs2lib.corpus.marks import KINDS, mark, plain

SAMPLES = Path(__file__).parent / "labelled" / "second-edition.jsonl"


def by_kind(marked):
    return Counter(sentence.kind for sentence in marked.sentences)


def test_the_marks_of_responses_of_policies_add_up_to_their_grades():
    """Where more sentences of style stand than style has steps, the last ones are off the point."""
    differ = 0
    for line in SAMPLES.read_text().splitlines():
        sample = json.loads(line)
        task = generate.task_of(sample["id"].rpartition("/")[0])
        marked = mark(task, sample["response"])
        kinds = by_kind(marked)
        read = marked.grade
        remarks = task.wish == "remarks" and read.ignored > 0
        assert len(marked.missing) == len(read.missing) + remarks
        marks = (
            kinds["right"] + kinds["out of order"],
            kinds["garbled"],
            kinds["repeated"],
            kinds["contradicted"],
            kinds["jargon"],
            kinds["unwished remark"],
        )
        counts = (
            len(read.right),
            read.garbled,
            read.repeated,
            read.contradicted,
            read.expert,
            read.remarks,
        )
        differ += marks != counts
    assert differ <= 15  # of 480: two things may be wrong with one sentence


def test_every_kind_has_a_sign_of_its_own():
    """On a page without colour a sign alone says what a sentence is."""
    signs = [sign for sign, _, _ in KINDS.values()]
    assert len(set(signs)) == len(signs)


@pytest.mark.parametrize("number", range(0, 60, 7))
def test_a_faultless_answer_has_every_item_right_and_nothing_else_of_note(number):
    group = next(generate.groups(1, seed=3, split="train", start=number))
    task = generate.task_of(group.id)
    text = generate.without_faults(group).responses[0].text
    kinds = by_kind(mark(task, text))
    assert kinds["right"] == len(task.items)
    assert set(kinds) <= {"right", "wished remark", "style"}


def test_every_sentence_is_there_with_its_sign_and_what_is_missing_is_named():
    group = next(generate.groups(1, seed=3, split="train"))
    task = generate.task_of(group.id)
    text = "1. Nonsense of the of.\nMy cousin plays chess every evening."
    shown = plain(mark(task, text))
    assert "? 1. Nonsense of the of." in shown
    assert "○ My cousin plays chess every evening." in shown
    for item in task.items:
        assert f"{KINDS['missing'][0]} {item.say()}" in shown


@pytest.mark.parametrize("text", ["", "\n\n", "...", "1.", "- ", "\0", "é" * 500, "a.\n" * 200])
def test_any_text_can_be_marked(text):
    task = generate.task_of("embedded/1/000001")
    assert mark(task, text).grade == grade(task, text)


def test_wished_remarks_that_are_not_there_are_counted():
    """A faultless answer has a remark on each point; without its remarks it lacks just those."""
    numbers = range(60)
    groups = [next(generate.groups(1, seed=3, split="train", start=n)) for n in numbers]
    group = next(one for one in groups if generate.task_of(one.id).wish == "remarks")
    task = generate.task_of(group.id)
    whole = mark(task, generate.without_faults(group).responses[0].text)
    assert whole.missing == ()
    kept = [one.text for one in whole.sentences if one.kind != "wished remark"]
    bare = mark(task, "\n".join(kept))
    number = len(task.items)
    (missing,) = bare.missing
    assert number > 1 and str(number) in missing
