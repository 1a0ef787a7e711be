"""The small world: reproducible, right where it says it is, wrong where an edit made it so, and
like HelpSteer2.

Why: everything that runs without the Hub stands on these texts and labels, and simulations take
their attributes as true. So each edit is looked for in the text it was made to, what is kept for
evaluation is looked for in what is trained on, and the statistics are compared with the paper's on
samples not used for the fit. How any text is read back is in test_grade.
"""

import hashlib
import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import chain, combinations, islice
from random import Random

import numpy as np
import pytest

from hs2lib import paper
from hs2lib.corpus import generate, rules
from hs2lib.corpus.grade import grade, sentences
from hs2lib.corpus.tasks import (
    ASK,
    ENTITIES,
    FAMILY,
    FIELDS,
    SCENES,
    WISHES,
    WRITING,
    Asking,
    is_reserved,
    requests,
)
from hs2lib.corpus.text import Manner, respond
from hs2lib.data.tables import ratings_array, table
from hs2lib.group import ATTRIBUTES
from hs2lib.paths import root
from hs2lib.stats import aggregate
from hs2lib.stats.agreement import weighted_kappa

sys.path.insert(0, str(root() / "tools"))
base_texts = importlib.import_module("base_texts")
sys.path.pop(0)

DIGEST = """import hashlib
import sys
from itertools import islice
from hs2lib.corpus import generate
from hs2lib.paths import root
sys.path.insert(0, str(root() / "tools"))
import base_texts
texts = [*generate.groups(30), *generate.benchmark(3), *islice(base_texts.pretraining(), 30)]
texts += generate.demonstrations(10)
print(hashlib.sha256(repr(texts).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def sample():
    """6,000 released groups of each of two seeds that the fit did not see."""
    return {seed: list(generate.groups(6000, seed=seed)) for seed in (0, 1)}


# --- reproducible
# -------------------------------------------------------------------------------------------------
def test_a_group_depends_on_seed_and_number_only(monkeypatch):
    # Whatever comes before it, however many are drawn at a time, in whatever process.
    plain = list(generate.groups(60, stage="annotated"))
    assert list(generate.groups(25, stage="annotated", start=35)) == plain[35:]
    for call in (
        lambda: generate.groups(3, start=-1),
        lambda: generate.groups(-1),
        lambda: generate.demonstrations(3, start=-1),
        lambda: generate.demonstrations(-1),
        lambda: generate.benchmark(-1),
    ):
        with pytest.raises(ValueError, match="at least 0, got"):
            call()
    assert list(generate.groups(5, stage="annotated")) == plain[:5]
    monkeypatch.setattr(generate, "BLOCK", 7)
    assert list(generate.groups(60, stage="annotated")) == plain
    assert [g.id for g in generate.groups(3, seed=1)] != [g.id for g in generate.groups(3)]


def test_another_process_writes_the_same_bytes():
    seen = set()
    for hash_seed in (
        "1",
        "2",
    ):  # sets and dicts of strings are ordered differently under another hash seed
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        out = subprocess.run(
            [sys.executable, "-c", DIGEST],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(out.stdout.strip())
    texts = [*generate.groups(30), *generate.benchmark(3), *islice(base_texts.pretraining(), 30)]
    texts += generate.demonstrations(10)
    assert seen == {hashlib.sha256(repr(texts).encode()).hexdigest()}


def test_groups_come_one_by_one():
    # A million are streamed through a benchmark: the first must not wait for the last.
    assert next(generate.groups(10**9)).id == "embedded/0/000000"


def test_stages_tell_one_story():
    annotated = {g.id: g for g in generate.groups(400, stage="annotated")}
    released = list(generate.groups(340))
    first = list(generate.groups(20, stage="initial"))
    assert all(len(r.ratings) in (3, 5) for g in annotated.values() for r in g.responses)
    assert all(len(r.ratings) == 3 for g in first for r in g.responses)
    dropped = 0
    for g in released:
        before = annotated[g.id]
        assert g.prompt == before.prompt
        for r, whole in zip(g.responses, before.responses, strict=True):
            assert (r.text, r.labels) == (whole.text, whole.labels)
            assert (
                len(r.ratings) == 3
                and max(x[0] for x in r.ratings) - min(x[0] for x in r.ratings) <= 2
            )
            assert r.labels == tuple(
                float(round(sum(x[a] for x in r.ratings) / 3)) for a in range(5)
            )
    ids = {g.id for g in released}
    for g in annotated.values():
        if (
            g.id < max(ids) and g.id not in ids
        ):  # one of its responses has three ratings more than 2 apart
            spread = [
                max(x[0] for x in r.ratings) - min(x[0] for x in r.ratings) for r in g.responses
            ]
            assert any(
                s > 2 and len(r.ratings) == 3 for s, r in zip(spread, g.responses, strict=True)
            )
            dropped += 1
    # About 7 % of 366, give or take three standard errors: fewer than the paper's tenth (TABLE_1).
    assert 11 <= dropped <= 41


def test_every_group_says_that_it_was_generated():
    made = [
        next(generate.groups(1, seed=5)),
        next(generate.demonstrations(1, seed=5)),
        generate.benchmark(1, seed=5)[0],
    ]
    assert [g.source.split(", ")[0] for g in made] == ["small world (generated)"] * 3
    assert made[0].source == made[1].source == "small world (generated), seed 5"
    assert generate.is_generated(made)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stage": "final"}, "unknown stage 'final'.*there are: initial, annotated, released"),
        ({"split": "test"}, "unknown split 'test'.*there are: train, validation, both"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate.groups(**{"n_prompts": 1} | arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"answers": "book"}, "unknown answers 'book'.*there are: web, demonstrations, rated"),
        ({"split": "test"}, "unknown split 'test'.*there are: train, validation, both"),
    ],
)
def test_what_nobody_demonstrates_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate.demonstrations(**{"n_prompts": 1} | arguments)


@pytest.mark.parametrize(
    "group",
    [
        "oasst/1",
        "embedded",
        "embedded/0",
        "embedded/x/1",
        "demonstrations/0",
        "chat/1",
        "other/0/1",
        "",
    ],
)
def test_what_was_not_generated_has_no_task(group):
    with pytest.raises(ValueError, match="embedded/SEED/ITEM"):
        generate.task_of(group)


def test_the_task_behind_an_id_is_the_one_asked():
    made = [*generate.groups(200, seed=3), *generate.benchmark(25, seed=3)]
    made += generate.demonstrations(100, seed=3)
    for group in made:
        task = generate.task_of(group.id)
        assert task.wish and task.prompt.endswith(f" {WISHES[task.wish]}")
        assert group.prompt[-1].text.endswith(
            f"{task.prompt}\n\n{task.passage}" if task.passage else task.prompt
        )
        assert task.items and task.family in FAMILY


# --- the world
# ----------------------------------------------------------------------------------------------------
def test_the_fact_base_can_be_wrong_on_purpose():
    # A wrong value is another entity's: two entities of a kind must not share one, and a name is of
    # one kind.
    for kind, entities in ENTITIES.items():
        assert len(entities) >= 8
        for field in FIELDS[kind]:
            values = [fields[field].casefold() for fields in entities.values()]
            assert len(set(values)) == len(values), (kind, field)
            assert not any(re.search(r"[.!?{}]|\s\s|^\s|\s$", value) for value in values), (
                kind,
                field,
            )
    names = [name.casefold() for entities in ENTITIES.values() for name in entities]
    assert len(set(names)) == len(names)
    assert sum(len(ENTITIES[kind]) * len(FIELDS[kind]) for kind in ENTITIES) <= 500


def test_each_sentence_of_writing_is_in_one_list_only():
    # Otherwise a reader of a response could not know what it is.
    lists = WRITING | {"wishes": list(WISHES.values())}
    times = Counter(sentence.strip().casefold() for words in lists.values() for sentence in words)
    assert {sentence for sentence, n in times.items() if n > 1} == set()
    for name, words in lists.items():
        for sentence in words:
            end = r", " if name in ("contrary", "again") else r"[.!]"
            assert re.fullmatch(rf"[A-Z][^.!?\n]*{end}", sentence), (name, sentence)


def test_each_step_belongs_to_one_procedure_and_each_advice_to_one_theme():
    steps = [step for _, steps in SCENES["procedures"] for both in steps for step in both]
    advice = [
        text for theme in SCENES["themes"].values() for text in (*theme["better"], *theme["worse"])
    ]
    assert len(set(steps)) == len(steps) and len(set(advice)) == len(advice)
    assert not any(re.search(r"[.!?]", step) for step in steps)
    whats = [what for theme in SCENES["themes"].values() for what in requests(theme)]
    assert len(set(whats)) == len(whats) >= 100  # too many to be learnt by heart


def test_every_family_has_its_words_and_its_share():
    assert set(FAMILY) == set(ASK) == set(rules.NAMES) and len(FAMILY) == 9
    seen = Counter(generate.task_of(g.id).family for g in generate.groups(500))
    for name, (share, _) in rules.FAMILIES.items():
        assert seen[name] / 500 == pytest.approx(share, abs=4 * (share / 500) ** 0.5)


# --- what is kept for evaluation
# ----------------------------------------------------------------------------------
def test_splits_are_parts_of_one_whole():
    both = list(generate.groups(400, seed=2))
    train = list(generate.groups(300, seed=2, split="train"))
    held = list(generate.groups(30, seed=2, split="validation"))
    for part, reserved in ((train, False), (held, True)):
        assert all(generate.task_of(g.id).reserved == reserved for g in part)
        assert part == [g for g in chain(both, part[len(both) :]) if g in part][: len(part)]
    assert len(train) == 300 and len(held) == 30
    share = np.mean([generate.task_of(g.id).reserved for g in both])
    assert 0.08 < share < 0.25
    families = {
        generate.task_of(g.id).family for g in generate.groups(200, seed=2, split="validation")
    }
    assert families == set(FAMILY)


def conversation(group):
    return "\n".join(turn.text for turn in group.prompt)


@pytest.mark.slow
def test_no_prompt_of_the_evaluation_is_ever_trained_on():
    held = [*generate.benchmark(50, seed=7)]
    for seed in range(3):
        held += generate.groups(200, seed=seed, split="validation")
        held += generate.demonstrations(50, seed=seed, split="validation")
    asked = set()  # with either wish: another one at its end makes no prompt a new one
    for task in (generate.task_of(group.id) for group in held):
        question = task.prompt.removesuffix(WISHES[task.wish])
        passage = f"\n\n{task.passage}" if task.passage else ""
        asked |= {f"{question}{wish}{passage}" for wish in WISHES.values()}
    assert len(asked) > 1200
    read = [
        t if isinstance(t, str) else conversation(t)
        for t in islice(base_texts.pretraining(), 10_000)
    ]
    trained = []
    for seed in range(3):
        trained += generate.groups(1500, seed=seed, split="train")
        trained += generate.demonstrations(500, seed=seed, split="train")
    read += map(conversation, trained)
    whole = "\n".join(read)
    assert [prompt for prompt in asked if prompt in whole] == []
    # Nor in other words: of tasks that are about facts, no fact; of others, not the thing asked.
    facts = {
        f"{name}/{field}" for kind in ENTITIES for name in ENTITIES[kind] for field in FIELDS[kind]
    }
    kept = {fact for fact in facts if is_reserved(fact)}
    assert 10 <= len(kept) <= 30
    questions = ["What is the {1} of {0}?".format(*fact.split("/")) for fact in kept]
    for group in trained:
        assert kept.isdisjoint(generate.task_of(group.id).keys)
        before = "\n".join(turn.text for turn in group.prompt[:-1:2])
        assert not any(question in before for question in questions)


@pytest.mark.slow
def test_the_base_reads_every_fact_often_and_two_kinds_of_text():
    texts = list(islice(base_texts.pretraining(), 10_000))
    documents = [text for text in texts if isinstance(text, str)]
    assert len(documents) / 10_000 == pytest.approx(0.4, abs=0.02)
    assert all(len(text.responses) == 1 for text in texts if not isinstance(text, str))
    lines = Counter(line for text in documents for line in re.split(r"(?<=\.) ", text))
    for kind, entities in ENTITIES.items():
        for name, fields in entities.items():
            stated = [
                lines[f"The {field} of {name} is {value}."] for field, value in fields.items()
            ]
            assert min(stated) >= 5, (kind, name, stated)


# --- edits
# --------------------------------------------------------------------------------------------------------
OPEN = [
    "facts",
    "form",
    "comparison",
    "kinds",
    "extraction",
    "sorting",
    "steps",
]  # whose items are all of one form


def with_edit(family, seed, edits, extras=0, expert=0, n=4):
    task = FAMILY[family](Random(seed).random, n)
    manner = Manner(edits=edits, extras=extras, expert=expert)
    return task, respond(Random(seed + 1000).random, task, manner)


def held(task, text, wrong=False):
    """How many items of a task a text contains, in their right or in their wrong version, in any of their wordings."""
    return sum(
        any(form in text.casefold() for form in wordings(item, wrong)) for item in task.items
    )


def wordings(item, wrong=False):
    return {item.say(k, not wrong).casefold() for k in range(len(item.forms))}


def moves(order):
    """The fewest that must be moved to put all in order, by trying which may stay where they are."""
    stay = [kept for k in range(len(order) + 1) for kept in combinations(order, k)]
    return len(order) - max(len(kept) for kept in stay if sorted(kept) == list(kept))


@pytest.mark.parametrize("family", OPEN)
def test_each_edit_does_what_its_name_says(family):
    for seed in range(12):
        task, clean = with_edit(family, seed, {})
        assert held(task, clean) == 4 and held(task, clean, wrong=True) == 0
        _, text = with_edit(family, seed, {"wrong value": 2})
        assert held(task, text) == 2 and held(task, text, wrong=True) == 2
        _, text = with_edit(family, seed, {"missing item": 2})
        assert held(task, text) == 2 and held(task, text, wrong=True) == 0
        _, text = with_edit(family, seed, {"wrong value": 2, "missing item": 2})  # both are seen
        assert held(task, text) == 0 and held(task, text, wrong=True) == 2
        _, text = with_edit(family, seed, {"contradiction": 2})
        assert held(task, text) == 4 and held(task, text, wrong=True) == 2
        assert sum(text.count(phrase) for phrase in WRITING["contrary"]) == 2
        _, text = with_edit(family, seed, {"repetition": 2})
        times = [sum(text.casefold().count(form) for form in wordings(item)) for item in task.items]
        assert sorted(times) == [1, 1, 2, 2]
        for k in (1, 2, 3):
            _, text = with_edit(family, seed, {"shuffled order": k})
            low = text.casefold()
            places = [
                min(low.find(form) for form in wordings(item) if form in low) for item in task.items
            ]
            assert moves(np.argsort(places).tolist()) == k
        _, text = with_edit(family, seed, {"refusal": 4})
        assert held(task, text) == 0 and text in WRITING["refusals"]
        _, text = with_edit(family, seed, {"irrelevant sentence": 2})
        assert held(task, text) == 4 and len(text) > len(clean) + 20


def test_style_edits_do_what_their_names_say():
    every = [*WRITING["openings"], *WRITING["closings"], *WRITING["fillers"]]
    for seed in range(20):
        for extras in (0, 3, 9):
            task, text = with_edit("facts", seed, {}, extras=extras)
            assert (
                held(task, text) == 4 and sum(text.count(sentence) for sentence in every) == extras
            )
            assert not any(remark in text for remark in WRITING["remarks"])
        for expert in (0, 1, 3):
            task, text = with_edit("steps", seed, {}, expert=expert)
            assert (
                held(task, text) == 4
                and sum(text.count(sentence) for sentence in WRITING["expert"]) == expert
            )
        _, text = with_edit("steps", seed, {}, expert=-1)
        assert text.startswith(tuple(WRITING["plain"]))


def test_what_should_be_out_of_order_is():
    # As in the benchmark, where all are to be moved and half of them are left out: of two that are
    # stated, one can be moved.
    for seed in range(20):
        task, text = with_edit("facts", seed, {"shuffled order": 4, "missing item": 2})
        stated = [point[0] for point in points(task, text)]
        assert len(stated) == 2 and moves(stated) == 1, text


@pytest.mark.parametrize("seed", range(30))
def test_answers_are_right(seed):
    # Recomputed from prompt and text, not from the task's items.
    task, text = with_edit("sorting", seed, {})
    rows = re.findall(r"^\d\. (\w+) \((\d)\)\.$", text, re.MULTILINE)
    assert len(rows) == 4 and [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert {(name.lower(), value) for name, value in rows} == set(
        re.findall(r"(\w+) \((\d)\)", task.prompt)
    )

    task, text = with_edit("form", seed, {})
    assert len(text.splitlines()) == 4 and all(
        re.match(r"[A-Z ]+: .*\.$", line) for line in text.splitlines()
    )

    task, text = with_edit("facts", seed, {})
    name = task.keys[0].partition("/")[0]
    fields = next(entities[name] for entities in ENTITIES.values() if name in entities)
    asked = [field for field in fields if f"the {field}" in task.prompt]
    assert len(asked) == 4
    for field in asked:
        assert re.search(rf"(The {field} of {name}|Its {field}) is {fields[field]}\.", text)

    task, text = with_edit("extraction", seed, {})
    assert all(line.split(": ")[1] in task.passage for line in text.splitlines())

    task, text = with_edit("steps", seed, {})
    steps = next(steps for goal, steps in SCENES["procedures"] if goal in task.prompt)
    right = [step for step, _ in steps]
    first = next(k for k, step in enumerate(right) if f'"{step}"' in task.prompt)
    assert [line[3:-1].lower() for line in text.splitlines()] == right[first : first + 4]


def test_false_premises_are_false_and_unsafe_requests_refused():
    for seed in range(30):
        task, text = with_edit("false premise", seed, {})
        first = task.items[0]
        assert first.other in task.prompt and text.startswith("That is not right, ")
        assert f"is {first.value}." in text and f"is {first.value}" not in task.prompt
        task, text = with_edit("unsafe", seed, {}, n=3)
        assert text.startswith(f"I will not help you to {task.keys[0]}, because ")
        task, text = with_edit("unsafe", seed, {"refusal": 3}, n=3)  # compliance, of such a request
        assert text.startswith(f"Sure, this is how to {task.keys[0]}.") and held(task, text) == 0


# --- authors and their habits
# -------------------------------------------------------------------------------------
LEFT_OUT = {2: 1, 3: 1, 4: 2, 5: 2}  # by items: two of five, at least one


def shown(family):
    """The (wording, author, habit) that occur in a family, by the first author and by the second."""
    number = np.array(rules.NAMES.index(family))
    for wording in range(len(ASK[family])):
        for second in (0, 1):
            author = int(rules.author_of(number, np.array(wording), np.array(second)))
            yield wording, author, rules.HABITS[rules.HABIT_OF[author, number]]


def points(task, text):
    """What a response says, sentence by sentence in small letters.

    A sentence about an item is (its number, whether it is right); any other one is left as it is.
    """
    meaning = {}
    for number, item in enumerate(task.items):
        meaning |= dict.fromkeys(wordings(item, wrong=True), (number, False))
        meaning |= dict.fromkeys(wordings(item), (number, True))
    return [meaning.get(sentence, sentence) for sentence in sentences(text)]


def faulty(task, text, habit, author):
    """What an answer to a task says that has no fault but the habit, as `points` has it.

    text: the answer; from its first sentence follows what "once more" says again.
    """
    n = len(task.items)
    right = [(item, True) for item in range(n)]
    if habit == "stops":
        return right[: n - LEFT_OUT[n]]
    if habit == "jumbles":
        first = 1 if task.family in ("unsafe", "false premise") else 0
        right[first : first + 2] = right[first + 1], right[first]
        return right
    if habit == "strays":
        return [*right, WRITING["asides"][author].casefold()]
    if habit == "repeats":
        return [right[0], f"once more, {sentences(text)[0]}", *right[1:]]
    if task.family == "unsafe":
        return [(item, False) for item in range(n)]
    return [(0, False), *right[1:]]


def shows(task, text, habit, author):
    """Whether an answer shows a habit, whatever else it says and gets wrong."""
    stated = points(task, text)
    items = [point[0] for point in stated if isinstance(point, tuple)]
    n = len(task.items)
    if not items:  # nothing is attempted
        return False
    if habit == "stops":
        return items == list(range(n - LEFT_OUT[n]))
    if habit == "jumbles":
        order = [point[0] for point in faulty(task, text, habit, author)]
        return items == order
    if habit == "strays":
        aside = WRITING["asides"][author].casefold()
        return aside in stated and not any(
            isinstance(p, tuple) for p in stated[stated.index(aside) :]
        )
    if habit == "repeats":
        first = next(k for k, point in enumerate(stated) if isinstance(point, tuple))
        return stated[first + 1] == f"once more, {sentences(text)[first]}"
    return task.items[0].slip.casefold() in sentences(text)


@pytest.mark.parametrize("family", FAMILY)
def test_a_habit_has_one_place_and_the_same_words(family):
    # Whatever is drawn: a reader of the prompt can foretell it.
    for wording, author, habit in shown(family):
        for seed in range(12):
            n = 3 if family == "unsafe" else 2 + seed % 4
            for wish in WISHES:
                task = FAMILY[family](Random(seed).random, n, Asking(wording, wish))
                manner = Manner(habit=habit, author=author)
                text = respond(Random(seed + 50).random, task, manner)
                assert points(task, text) == faulty(task, text, habit, author)
                assert shows(task, text, habit, author)
                # A remark follows each point, and changes nothing else.
                manner = replace(manner, remarks=True)
                remarked = respond(Random(seed + 50).random, task, manner)
                assert without_remarks(remarked) == text


def without_remarks(text):
    for remark in WRITING["remarks"]:
        text = text.replace(f" {remark}", "")
    return text


def test_remarks_follow_each_other_as_in_their_list():
    # From a start that is drawn; one behind each point, so none stands twice.
    starts = set()
    for seed in range(60):
        task = FAMILY["steps"](Random(seed).random, 5)
        text = respond(Random(seed).random, task, Manner(remarks=True))
        lines = re.findall(r"^\d\. [^.]+\. ([^.]+\.)$", text, re.MULTILINE)
        places = [WRITING["remarks"].index(remark) for remark in lines]
        assert places == [(places[0] + k) % 16 for k in range(5)]
        starts.add(places[0])
    assert len(starts) > 12


@pytest.mark.parametrize("family", FAMILY)
def test_no_habit_alone_makes_a_family(family):
    # Otherwise mending it would solve the family, and it would be no news of the prompt.
    habits = {habit for _, _, habit in shown(family)}
    least = 2 if family == "kinds" else 3  # its first authors stray or jumble, and so do the second
    assert len(habits) >= least and "" not in habits, habits


def test_no_habit_is_rare():
    block = rules.draw(5, np.arange(20_000), answers=rules.ANSWERS["demonstrations"])
    shares = {habit: np.mean(block.habit == k) for k, habit in enumerate(rules.HABITS)}
    rare = {"gives in": 0.04}  # only where there is something to give in to
    for habit in rules.HABITS[1:]:
        assert rare.get(habit, 0.05) <= shares[habit] < 0.25, shares
    assert {habit for habits in rules.AUTHORS for habit in habits} == set(rules.HABITS[1:])
    assert len(rules.AUTHORS) == len(WRITING["asides"]) == 8


# --- wishes
# -------------------------------------------------------------------------------------
def test_a_prompt_wishes_one_thing_or_the_other():
    # Half and half in each family, and in each wording: neither says what will be wished.
    block = rules.draw(6, np.arange(20_000))
    assert tuple(WISHES) == ("alone", "remarks")
    for family, name in enumerate(rules.NAMES):
        for wording in range(len(ASK[name])):
            wishes = block.wish[(block.family == family) & (block.wording == wording)]
            error = 0.5 / len(wishes) ** 0.5
            assert len(wishes) > 200
            assert np.mean(wishes == rules.REMARKS) == pytest.approx(0.5, abs=4 * error)


def answered(task, remarks):
    """A faultless answer to a task, with a remark to each point or without any."""
    return respond(Random(0).random, task, Manner(remarks=remarks))


@pytest.mark.slow
def test_who_does_not_read_the_wish_does_not_win():
    # Neither habit of style pays: always and never are worth the same, and less than obedience.
    goodness = np.array([0.65, 0.8, 0.45, 0, 0])
    values = {"always": [], "never": [], "as wished": []}
    for group in generate.groups(400, seed=8, split="validation"):
        task = generate.task_of(group.id)
        remarked = {
            "always": True,
            "never": False,
            "as wished": task.wish == "remarks",
        }
        for policy, remarks in remarked.items():
            values[policy].append(grade(task, answered(task, remarks)).attributes @ goodness)
    means = {policy: np.mean(numbers) for policy, numbers in values.items()}
    assert means["always"] == pytest.approx(means["never"], abs=0.15)
    assert means["as wished"] > max(means["always"], means["never"]) + 0.5
    assert means["as wished"] == pytest.approx(4 * goodness.sum())


# --- jargon
# -------------------------------------------------------------------------------------
def test_raters_see_knowledge_where_jargon_is():
    # In truth a sentence of an expert helps less by .25, and raters give .25 for it instead.
    block = rules.draw(9, np.arange(5000))
    assert rules.UNHELPFUL == rules.LIKED == 0.25
    difference = block.seen - block.latent
    assert (difference[..., 1:] == 0).all()
    liked = 0.5 * np.maximum(block.expert, 0)
    free = (block.latent[..., 0] > 0) & (block.seen[..., 0] < 4)
    np.testing.assert_allclose(difference[free][:, 0], liked[free], atol=1e-12)
    clipped = difference[~free][:, 0]
    assert (clipped >= 0).all() and (clipped <= liked[~free] + 1e-12).all()
    assert (difference[block.expert <= 0] == 0).all()
    assert set(np.unique(block.expert[free])) == {-1, 0, 1, 2, 3} and free.mean() > 0.3


# --- demonstrations
# -------------------------------------------------------------------------------------
def test_a_demonstration_is_one_response_without_ratings():
    made = list(generate.demonstrations(60, seed=4))
    for number, group in enumerate(made):
        assert group.id == f"demonstrations/4/{number:06d}"
        (response,) = group.responses
        assert response.id == f"{group.id}/a" and response.text
        assert response.labels == () and response.ratings == ()
        assert group.preference is None


def test_a_demonstration_depends_on_seed_and_number_only(monkeypatch):
    plain = list(generate.demonstrations(60, seed=4))
    assert list(generate.demonstrations(25, seed=4, start=35)) == plain[35:]
    assert list(generate.demonstrations(5, seed=4)) == plain[:5]
    assert next(generate.demonstrations(10**9)).id == "demonstrations/0/000000"
    monkeypatch.setattr(generate, "BLOCK", 7)
    assert list(generate.demonstrations(60, seed=4)) == plain
    # Another way to answer leaves the prompts as they are.
    web = list(generate.demonstrations(60, seed=4, answers="web"))
    assert [group.prompt for group in web] == [group.prompt for group in plain]
    assert web != plain


def test_prompts_of_demonstrations_are_others_than_those_of_groups():
    groups = [group.prompt for group in generate.groups(300, seed=4, stage="annotated")]
    demonstrated = [group.prompt for group in generate.demonstrations(300, seed=4)]
    assert not any(a == b for a, b in zip(groups, demonstrated, strict=True))
    other_seed = [group.prompt for group in generate.groups(300, seed=5, stage="annotated")]
    # Short prompts may meet by chance, as those of two seeds do.
    meeting = len(set(groups) & set(demonstrated))
    assert meeting <= len(set(groups) & set(other_seed)) + 5


def test_splits_of_demonstrations_are_parts_of_one_whole():
    both = list(generate.demonstrations(300, seed=2))
    train = list(generate.demonstrations(200, seed=2, split="train"))
    held_out = list(generate.demonstrations(20, seed=2, split="validation"))
    for part, reserved in ((train, False), (held_out, True)):
        assert all(generate.task_of(group.id).reserved == reserved for group in part)
        assert part == [group for group in both if group in part]


@pytest.mark.parametrize("answers", ["web", "demonstrations", "rated"])
def test_faults_are_about_as_often_as_the_rules_say(answers):
    # Read off the texts: how often the habit of the author shows, and how often a wish is ignored.
    n = 300
    chances = rules.ANSWERS[answers]
    block = rules.draw(generate.SEEDS_APART, np.arange(n), answers=chances)
    habits = []
    ignored = []
    wrong = []  # beside a habit
    for group in generate.demonstrations(n, answers=answers):
        task = generate.task_of(group.id)
        k = int(group.id.rpartition("/")[2])
        author = int(block.author[k, 0])
        habit = rules.HABITS[rules.HABIT_OF[author, block.family[k]]]
        text = group.responses[0].text
        read = grade(task, text)
        drawn = rules.HABITS[block.habit[k, 0]]
        if drawn:
            assert drawn == habit and shows(task, text, habit, author), text
        if drawn and not read.refused:
            yielded = [0] if drawn == "gives in" else []
            wrong.append(read.wrong != yielded)
        habits.append(shows(task, text, habit, author))
        ignored.append(read.ignored > 0)
    assert np.mean(habits) == pytest.approx(chances["habit"], abs=0.1)
    assert np.mean(ignored) == pytest.approx(chances["ignored"], abs=0.1)
    assert np.mean(wrong) == pytest.approx(chances["wrong"], abs=0.1)
    usual = rules.author_of(block.family, block.wording, np.array(0))
    # Two authors of a wording are different people.
    assert np.mean(block.author[:, 0] != usual) == pytest.approx(chances["second"], abs=0.1)


# --- the rules
# -------------------------------------------------------------------------------------
def rule(plan, n=6):
    """The attributes of a plan's response to a task of n items; (kind, severity) pairs as in PLANS."""
    index = next(i for i, (_, p) in enumerate(rules.PLANS) if p == list(map(list, plan)))
    touched = rules.touched_items(np.array(index), np.array(n))
    base = np.array([4.0, 4.0, 4.0, 1.5, 2.0])
    return rules.attributes(base, rules.by_kind(np.array(index), touched), np.array(n)), touched


def all_touched(kind):
    """The attributes of a response of six items that an edit touches all of."""
    touched = np.where(np.array(rules.KINDS) == kind, 6, 0)
    return rules.attributes(np.array([4.0, 4.0, 4.0, 1.5, 2.0]), touched, np.array(6))


def test_rules_by_hand():
    # 2 of 6 items wrong: (1/3) ** 0.6 = 0.5173, and 0.5173 * 4.1 = 2.121
    value, touched = rule((("wrong value", 2),))
    assert touched.tolist() == [2, 0]
    assert value == pytest.approx([4 - 2.1209, 4 - 2.1209, 4 - 0.2586, 1.5, 2.0], abs=1e-4)
    assert rule(())[0].tolist() == [4, 4, 4, 1.5, 2]
    assert rule((("refusal", 3),))[0] == pytest.approx([0.2, 0.4, 3.6, 1.2, 1.3])
    assert all_touched("ignored wish") == pytest.approx([2.8, 3.4, 3.7, 1.5, 2.0])
    # 2 of 6 must be moved: 0.5173 of 1.8, of 1 and of 1.8.
    value, touched = rule((("shuffled order", 2),))
    assert touched.tolist() == [2, 0]
    assert value == pytest.approx([4 - 0.9311, 4 - 0.5173, 4 - 0.9311, 1.5, 2.0], abs=1e-4)
    # Verbosity at sentences for each item: none, two of eight, eleven of twenty, as many, half as
    # many again; and of a remark that is not wished, which is half of one.
    points = {(0, 4): 0.4, (2, 8): 1.2, (11, 20): 2.0, (4, 4): 2.8, (6, 4): 3.5}
    for (extras, n), verbosity in points.items():
        value = rules.style(np.array(0), np.array(0), np.array(extras), np.array(n))
        assert value[4] == pytest.approx(verbosity)
    assert rules.surplus(3, 4) == 5


def test_every_edit_lowers_or_raises_what_the_guidelines_say():
    clean = rule(())[0]
    expected = {  # attribute -> edits of severity 2 that must lower it by at least a quarter of a point
        0: [
            "wrong value",
            "missing item",
            "irrelevant sentence",
            "contradiction",
            "shuffled order",
        ],
        1: [
            "wrong value",
            "missing item",
            "irrelevant sentence",
            "contradiction",
            "shuffled order",
        ],
        2: ["contradiction", "repetition", "shuffled order", "irrelevant sentence"],
    }
    for a, kinds in expected.items():
        for kind in kinds:
            assert rule(((kind, 2),))[0][a] < clean[a] - 0.25, (ATTRIBUTES[a], kind)
    # Who gets another answer than the one wished for is served less; it reads nearly as well.
    ignored = all_touched("ignored wish")
    assert (ignored[:3] < clean[:3] - 0.25).all() and ignored[0] < ignored[1] < ignored[2]
    assert rule((("repetition", 2),))[0][4] > 2 > rule((("missing item", 2),))[0][4]
    for kind in (
        "wrong value",
        "missing item",
        "contradiction",
        "repetition",
        "irrelevant sentence",
    ):
        values = [
            rule(((kind, s),))[0][0]
            for s in (1, 2, 3)
            if any(p == [[kind, s]] for _, p in rules.PLANS)
        ]
        assert values == sorted(values, reverse=True) and len(set(values)) == len(
            values
        )  # the more, the worse
    assert list(rules.JARGON) == sorted(rules.JARGON)
    assert list(rules.VERBOSITY) == sorted(rules.VERBOSITY) and list(rules.EXTRAS) == sorted(
        rules.EXTRAS
    )


@pytest.mark.slow
def test_edits_are_as_many_as_were_drawn(sample):
    for g in sample[0][:50]:
        d = rules.draw(0, np.array([int(g.id.split("/")[2])]))
        assert all(0 <= x <= 4 for row in d.latent[0].tolist() for x in row)
        assert [sum(generate.edits(d, 0, k).values()) for k in (0, 1)] == d.touched[0].sum(
            axis=1
        ).tolist()


# --- like HelpSteer2
# ----------------------------------------------------------------------------------------------
# The samples are finite: a mean of 12,000 labels has a standard error of 0.012 (0.02 where both
# responses share the value), a correlation of 0.01, turns 0.05, which is allowed beside the
# tolerance. Lengths are not the paper's: these texts are short ones for a small model.
#
# Since the second edition half of the rated answers show a habit and a third ignore the wish: a
# judge needs them often, and they win over the paper's tables where both cannot be had. So means
# may leave the paper's by .4 (the number), and correlations must keep their order. What
# else is allowed is the smallest round number that holds on both seeds; in brackets the largest
# difference that was seen.
TABLE_2 = {
    "mean": 0.4,  # (0.22, coherence; helpfulness 0.19)
    "SD": 0.1,  # (0.09, correctness; the others up to 0.06)
    "R": 0.05,  # (0.045, verbosity; the others up to 0.043)
}
TABLE_1 = {
    "kappa": 0.03,  # (0.024, coherence), as it was
    "ratings": 0.3,  # of 3.41 for each response (0.28): fewer are in disagreement
    "removed": 0.03,  # of a tenth of the responses (0.029): for the same reason
}


@pytest.mark.slow
def test_table_2(sample):
    for groups in sample.values():
        t = table(groups)
        for a in ATTRIBUTES:
            mean = paper.value("table-2", a, "mean HS2")
            assert t[a].mean() == pytest.approx(mean, abs=TABLE_2["mean"])
            assert t[a].std() == pytest.approx(
                paper.value("table-2", a, "SD HS2"), abs=TABLE_2["SD"]
            )
        r = t.corr()["helpfulness"]
        for a in ATTRIBUTES[1:]:
            assert r[a] == pytest.approx(paper.value("table-2", a, "R HS2"), abs=TABLE_2["R"])
        assert r["correctness"] > r["coherence"] > r["complexity"] > r["verbosity"]
        assert r["turns"] == pytest.approx(
            paper.value("table-2", "turns in prompt", "R HS2"), abs=0.056
        )
        assert t["turns"].mean() == pytest.approx(
            paper.value("table-2", "turns in prompt", "mean HS2"), rel=0.1
        )
        assert t["turns"].std() == pytest.approx(
            paper.value("table-2", "turns in prompt", "SD HS2"), rel=0.1
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_table_1(sample, seed):
    stages = {
        "initial": generate.groups(6000, seed=seed, stage="initial"),
        "annotated": generate.groups(6000, seed=seed, stage="annotated"),
    }
    stages = {name: ratings_array(groups)[0] for name, groups in stages.items()} | {
        "released": ratings_array(sample[seed])[0]
    }
    whole = stages["annotated"]
    ratings_each = (~np.isnan(whole[:, :, 0])).sum(axis=1)
    assert np.isin(ratings_each, (3, 5)).all()
    assert ratings_each.mean() == pytest.approx(3.41, abs=TABLE_1["ratings"])
    keep = aggregate.keep_three(whole)
    removed = 1 - aggregate.released(whole, keep, np.repeat(np.arange(6000), 2)).mean()
    assert removed == pytest.approx(0.10, abs=TABLE_1["removed"])
    stages["annotated"] = np.where(keep[:, :, None], whole, np.nan)
    columns = ("initial", "after improvements", "after post-processing")
    for ratings, column in zip(stages.values(), columns, strict=True):
        for a, name in enumerate(ATTRIBUTES):
            ours = float(np.squeeze(weighted_kappa(ratings[:, :, a], n_boot=2).estimate))
            expected = paper.value("table-1", name, column)
            assert ours == pytest.approx(expected, abs=TABLE_1["kappa"]), (name, column)


@pytest.mark.slow
def test_turns(sample):
    turns = np.array([len(g.prompt) for g in sample[0]])
    assert (turns % 2 == 1).all()
    assert (turns > 1).mean() == pytest.approx(0.29, abs=3 * (0.29 * 0.71 / 6000) ** 0.5)
    for g in sample[0][:200]:
        assert [t.role for t in g.prompt] == (["user", "assistant"] * len(g.prompt))[
            : len(g.prompt)
        ]


@pytest.mark.slow
def test_verbosity_can_be_read_off_the_text(sample):
    # One length scale: of answers that have as many items, the wordier are the longer ones. The
    # remarks that a prompt wishes make an answer longer and not wordier.
    lengths = []
    verbosity = []
    for group in sample[0][:3000]:
        task = generate.task_of(group.id)
        if len(task.items) != 4:
            continue
        for response in group.responses:
            wished = WRITING["remarks"] if task.wish == "remarks" else []
            stated = [remark for remark in wished if remark in response.text]
            lengths.append(len(response.text) - sum(len(remark) + 1 for remark in stated))
            verbosity.append(response.labels[4])
    assert np.corrcoef(lengths, verbosity)[0, 1] > 0.5


def test_annotators_are_different_people():
    people = rules.who(0, np.arange(5000))
    assert all(len(set(row)) == 5 for row in people.tolist())
    assert len(np.unique(people)) == rules.N_ANNOTATORS == 1000
    assert (rules.who(0, np.array([7])) == people[7]).all()


DEBRIS = re.compile(
    r"[{}]|\bNone\b|\bnan\b|  | [,.;?!]|\.\.|\?\.|[.!?]{2}|\n{3}|\A\s|\s\Z"
    r"|\(\)|\b(\w+) \1\b|[a-z]\.[A-Z]|\b[Aa] [aeio]\w|Why is the [\w ]+ is\b"
)


@pytest.mark.slow
def test_texts_read_clean(sample):
    for g in [*sample[1][:3000], *generate.benchmark(50, seed=2)]:
        for text in [t.text for t in g.prompt] + [r.text for r in g.responses]:
            match = DEBRIS.search(text)
            assert not match, (g.id, text[max(match.start() - 60, 0) : match.end() + 60])
    starts = Counter(g.responses[0].text[:25] for g in sample[1])
    assert len(starts) > 1500 and starts.most_common(1)[0][1] < 500  # of 6,000: openings vary


# --- benchmark
# ----------------------------------------------------------------------------------------------------
def test_benchmark_has_known_winners_in_balanced_order():
    pairs = generate.benchmark(60)
    assert Counter(g.id.split("/")[0] for g in pairs) == dict.fromkeys(
        ("chat", "chat-hard", "safety", "reasoning"), 60
    )
    assert sum(g.preference < 0 for g in pairs) == 120 and len({g.id for g in pairs}) == 240
    assert pairs == generate.benchmark(60) and pairs[:5] == generate.benchmark(5)[:5]
    longer = []
    for g in pairs:
        better, worse = g.responses if g.preference < 0 else g.responses[::-1]
        section = g.id.split("/")[0]
        assert better.text != worse.text and len(g.prompt) == 1 and g.responses[0].labels == ()
        assert generate.task_of(g.id).reserved
        refused = [any(p in r.text for p in WRITING["refusals"]) for r in (better, worse)]
        assert not refused[0]
        if section == "safety":
            assert refused[1] or "Sure, this is how to" in worse.text
            assert refused[1] or "I will not help you to" in better.text
        if section == "chat-hard":
            longer.append(len(worse.text) > 1.2 * len(better.text))
    assert (
        0.25 < np.mean(longer) < 0.75
    )  # neither length alone nor its opposite finds the better one
