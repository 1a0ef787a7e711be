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
import time
from collections import Counter
from itertools import chain, islice
from random import Random

import numpy as np
import pytest

from hs2lib import paper
from hs2lib.corpus import generate, rules
from hs2lib.corpus.tasks import ASK, ENTITIES, FAMILY, FIELDS, SCENES, WRITING, is_reserved
from hs2lib.corpus.text import respond
from hs2lib.data.tables import ratings_array, table
from hs2lib.group import ATTRIBUTES
from hs2lib.paths import root
from hs2lib.stats import aggregate
from hs2lib.stats.agreement import weighted_kappa

sys.path.insert(0, str(root() / "benchmarks"))
base_texts = importlib.import_module("base_texts")
sys.path.pop(0)

DIGEST = """import hashlib
import sys
from itertools import islice
from hs2lib.corpus import generate
from hs2lib.paths import root
sys.path.insert(0, str(root() / "benchmarks"))
import base_texts
texts = [*generate.groups(30), *generate.benchmark(3), *islice(base_texts.pretraining(), 30)]
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
    assert 20 <= dropped <= 60  # about 10 % of 390


def test_every_group_says_that_it_was_generated():
    made = [next(generate.groups(1, seed=5)), generate.benchmark(1, seed=5)[0]]
    assert [g.source.split(", ")[0] for g in made] == ["small world (generated)"] * 2
    assert made[0].source == "small world (generated), seed 5"
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
    "group", ["oasst/1", "embedded", "embedded/0", "embedded/x/1", "chat/1", "other/0/1", ""]
)
def test_what_was_not_generated_has_no_task(group):
    with pytest.raises(ValueError, match="embedded/SEED/ITEM"):
        generate.task_of(group)


def test_the_task_behind_an_id_is_the_one_asked():
    for group in [*generate.groups(200, seed=3), *generate.benchmark(25, seed=3)]:
        task = generate.task_of(group.id)
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
    sentences = Counter(
        sentence.strip().casefold() for words in WRITING.values() for sentence in words
    )
    assert {sentence for sentence, n in sentences.items() if n > 1} == set()
    for name, words in WRITING.items():
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
    whats = [what for theme in SCENES["themes"].values() for what in theme["whats"]]
    assert len(set(whats)) == len(whats)


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
    tasks = [generate.task_of(group.id) for group in held]
    asked = {f"{task.prompt}\n\n{task.passage}" if task.passage else task.prompt for task in tasks}
    assert len(asked) > 600
    read = [
        t if isinstance(t, str) else conversation(t)
        for t in islice(base_texts.pretraining(), 10_000)
    ]
    for seed in range(3):
        read += map(conversation, generate.groups(1500, seed=seed, split="train"))
    whole = "\n".join(read)
    assert [prompt for prompt in asked if prompt in whole] == []
    # Nor in other words: of tasks that are about facts, no fact; of others, not the thing asked.
    facts = {
        f"{name}/{field}" for kind in ENTITIES for name in ENTITIES[kind] for field in FIELDS[kind]
    }
    kept = {fact for fact in facts if is_reserved(fact)}
    assert 10 <= len(kept) <= 30
    questions = ["What is the {1} of {0}?".format(*fact.split("/")) for fact in kept]
    for group in chain(*(generate.groups(1500, seed=seed, split="train") for seed in range(3))):
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
    return task, respond(Random(seed + 1000).random, task, edits, extras, expert)


def held(task, text, wrong=False):
    """How many items of a task a text contains, in their right or in their wrong version, in any of their wordings."""
    return sum(
        any(form in text.casefold() for form in wordings(item, wrong)) for item in task.items
    )


def wordings(item, wrong=False):
    return {item.say(k, not wrong).casefold() for k in range(len(item.forms))}


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
        _, text = with_edit(family, seed, {"shuffled order": 3})
        low = text.casefold()
        places = [
            min(low.find(form) for form in wordings(item) if form in low) for item in task.items
        ]
        assert sum(a != b for a, b in zip(np.argsort(places), range(4), strict=True)) == 3
        _, text = with_edit(family, seed, {"refusal": 4})
        assert held(task, text) == 0 and text in WRITING["refusals"]
        _, text = with_edit(family, seed, {"irrelevant sentence": 2})
        assert held(task, text) == 4 and len(text) > len(clean) + 20


def test_style_edits_do_what_their_names_say():
    every = [*WRITING["openings"], *WRITING["closings"], *WRITING["remarks"], *WRITING["fillers"]]
    for seed in range(20):
        for extras in (0, 3, 9):
            task, text = with_edit("facts", seed, {}, extras=extras)
            assert (
                held(task, text) == 4 and sum(text.count(sentence) for sentence in every) == extras
            )
        for expert in (0, 1, 3):
            task, text = with_edit("steps", seed, {}, expert=expert)
            assert (
                held(task, text) == 4
                and sum(text.count(sentence) for sentence in WRITING["expert"]) == expert
            )
        _, text = with_edit("steps", seed, {}, expert=-1)
        assert text.startswith(tuple(WRITING["plain"]))


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


def rule(plan, n=6):
    """The attributes of a plan's response to a task of n items; (kind, severity) pairs as in PLANS."""
    index = next(i for i, (_, p) in enumerate(rules.PLANS) if p == list(map(list, plan)))
    touched = rules.touched_items(np.array(index), np.array(n))
    base = np.array([4.0, 4.0, 4.0, 1.5, 2.0])
    return rules.attributes(base, rules.by_kind(np.array(index), touched), np.array(n)), touched


def test_rules_by_hand():
    # 2 of 6 items wrong: (1/3) ** 0.6 = 0.5173, and 0.5173 * 4.1 = 2.121
    value, touched = rule((("wrong value", 2),))
    assert touched.tolist() == [2, 0]
    assert value == pytest.approx([4 - 2.1209, 4 - 2.1209, 4 - 0.2586, 1.5, 2.0], abs=1e-4)
    assert rule(())[0].tolist() == [4, 4, 4, 1.5, 2]
    assert rule((("refusal", 3),))[0] == pytest.approx([0.2, 0.4, 3.6, 1.2, 1.3])


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
# Tolerances are the issue's. The samples are finite: a mean of 12,000 labels has a standard error
# of 0.012 (0.02 where both responses share the value), a correlation of 0.01, turns 0.05, which is
# allowed beside the tolerance. Lengths are not the paper's: these texts are short ones for a small
# model.
@pytest.mark.slow
def test_table_2(sample):
    for groups in sample.values():
        t = table(groups)
        for a in ATTRIBUTES:
            assert t[a].mean() == pytest.approx(paper.value("table-2", a, "mean HS2"), abs=0.05)
            assert t[a].std() == pytest.approx(paper.value("table-2", a, "SD HS2"), abs=0.05)
        r = t.corr()["helpfulness"]
        for a in ATTRIBUTES[1:]:
            assert r[a] == pytest.approx(paper.value("table-2", a, "R HS2"), abs=0.03)
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
def test_table_1(sample):
    stages = {
        "initial": generate.groups(6000, stage="initial"),
        "annotated": generate.groups(6000, stage="annotated"),
    }
    stages = {name: ratings_array(groups)[0] for name, groups in stages.items()} | {
        "released": ratings_array(sample[0])[0]
    }
    whole = stages["annotated"]
    assert np.isin((~np.isnan(whole[:, :, 0])).sum(axis=1), (3, 5)).all()
    assert (~np.isnan(whole[:, :, 0])).sum(axis=1).mean() == pytest.approx(3.41, abs=0.06)
    keep = aggregate.keep_three(whole)
    removed = 1 - aggregate.released(whole, keep, np.repeat(np.arange(6000), 2)).mean()
    assert removed == pytest.approx(0.10, abs=0.02)
    stages["annotated"] = np.where(keep[:, :, None], whole, np.nan)
    columns = ("initial", "after improvements", "after post-processing")
    for ratings, column in zip(stages.values(), columns, strict=True):
        for a, name in enumerate(ATTRIBUTES):
            ours = float(np.squeeze(weighted_kappa(ratings[:, :, a], n_boot=2).estimate))
            assert ours == pytest.approx(paper.value("table-1", name, column), abs=0.03), (
                name,
                column,
            )


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
    # One length scale: of answers that have as many items, the wordier are the longer ones.
    groups = [group for group in sample[0][:3000] if len(generate.task_of(group.id).items) == 4]
    t = table(groups)
    assert t["response_chars"].corr(t["verbosity"]) > 0.5


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


def test_a_small_run_is_quick_and_streams():
    # 400 prompts are what notebooks take at tier smoke; the limit is generous for a busy machine.
    began = time.process_time()
    assert len(list(islice(generate.groups(400), 400))) == 400
    assert time.process_time() - began < 1.5
