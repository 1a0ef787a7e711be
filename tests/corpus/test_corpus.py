"""The embedded corpus: reproducible, right where it says it is, wrong where an edit made it so, and like HelpSteer2.

Why: everything that runs without the Hub stands on these texts and labels, and simulations take their attributes as
true. So the answers are recomputed here from the texts, each edit is looked for in the text it was made to, and the
statistics are compared with the paper's on samples not used for the fit.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta
from itertools import islice
from random import Random

import numpy as np
import pytest

from hs2lib import paper
from hs2lib.corpus import generate, phrases, rules
from hs2lib.corpus.phrases import ENTITIES, FIELDS
from hs2lib.corpus.tasks import FAMILY
from hs2lib.corpus.text import respond
from hs2lib.data.tables import ratings_array, table
from hs2lib.group import ATTRIBUTES, Group, prompt_string
from hs2lib.stats import aggregate
from hs2lib.stats.agreement import weighted_kappa

DIGEST = """import hashlib
from hs2lib.corpus import generate
print(hashlib.sha256(repr(list(generate.groups(30))).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def sample():
    """6,000 released groups of each of two seeds that the fit did not see."""
    return {seed: list(generate.groups(6000, seed=seed)) for seed in (0, 1)}


# --- reproducible -------------------------------------------------------------------------------------------------
def test_a_group_depends_on_seed_and_number_only(monkeypatch):
    # Whatever comes before it, however many are drawn at a time, in whatever process.
    plain = list(generate.groups(60, stage="annotated"))
    assert list(generate.groups(25, stage="annotated", start=35)) == plain[35:]
    assert list(generate.groups(5, stage="annotated")) == plain[:5]
    monkeypatch.setattr(generate, "BLOCK", 7)
    assert list(generate.groups(60, stage="annotated")) == plain
    assert [g.id for g in generate.groups(3, seed=1)] != [g.id for g in generate.groups(3)]


def test_another_process_writes_the_same_bytes():
    here = hashlib.sha256(repr(list(generate.groups(30))).encode()).hexdigest()
    for hash_seed in ("1", "2"):  # sets and dicts of strings are ordered differently under another hash seed
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        out = subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True
        )
        assert out.stdout.strip() == here


def test_groups_come_one_by_one():
    # A million are streamed through a benchmark: the first must not wait for the last.
    assert next(generate.groups(10**9)).id == "embedded/0/000000"


def test_labels_do_not_depend_on_the_length_scale():
    long, short = list(generate.groups(200)), list(generate.groups(200, length_scale=0.25))
    assert [[r.labels for r in g.responses] for g in long] == [[r.labels for r in g.responses] for g in short]
    chars = [sum(len(r.text) for g in gs for r in g.responses) for gs in (long, short)]
    assert chars[1] < 0.5 * chars[0]
    prompts = [sum(len(prompt_string(g.prompt)) for g in gs) for gs in (long, short)]
    assert prompts[1] < 0.75 * prompts[0]


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
            assert len(r.ratings) == 3 and max(x[0] for x in r.ratings) - min(x[0] for x in r.ratings) <= 2
            assert r.labels == tuple(float(round(sum(x[a] for x in r.ratings) / 3)) for a in range(5))
    ids = {g.id for g in released}
    for g in annotated.values():
        if g.id < max(ids) and g.id not in ids:  # one of its responses has three ratings more than 2 apart
            spread = [max(x[0] for x in r.ratings) - min(x[0] for x in r.ratings) for r in g.responses]
            assert any(s > 2 and len(r.ratings) == 3 for s, r in zip(spread, g.responses, strict=True))
            dropped += 1
    assert 20 <= dropped <= 60  # about 10 % of 390


def test_every_group_says_that_it_was_generated():
    assert next(generate.groups(1, seed=5)).source == "embedded corpus (generated), seed 5"
    assert "generated" in generate.benchmark(1, seed=5)[0].source


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stage": "final"}, "stage must be one of initial, annotated, released, got 'final'"),
        ({"length_scale": 0}, "length_scale"),
        ({"n_prompts": -1}, "n_prompts"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate.groups(**{"n_prompts": 1} | arguments)
    with pytest.raises(ValueError, match="embedded/SEED/ITEM"):
        generate.task_of(Group("oasst/1", (), ()))


# --- facts and answers --------------------------------------------------------------------------------------------
def test_the_fact_base_can_be_wrong_on_purpose():
    # A wrong value is another entity's: two entities of a kind must not share one.
    for kind, entities in ENTITIES.items():
        assert len(entities) >= 8
        for field in range(len(FIELDS[kind])):
            values = [e[field + 1] for e in entities]
            assert len(set(values)) == len(values), (kind, FIELDS[kind][field])


@pytest.mark.slow
def test_unedited_responses_contain_the_answer(sample):
    seen = Counter()
    for g in sample[0][:3000]:
        task, d = generate.task_of(g), rules.draw(0, np.array([int(g.id.split("/")[2])]))
        for k, r in enumerate(g.responses):
            if not generate.edits(d, 0, k):
                seen[task.family] += 1
                at = 0
                for part in task.answer:
                    at = r.text.lower().find(part.lower(), at if task.ordered else 0)
                    assert at >= 0, (g.id, task.answer, r.text)
                    at += len(part)
    assert len(FAMILY) >= 12 and all(seen[family] >= 40 for family in FAMILY)


def unedited(family, seed, n=6):
    task = FAMILY[family](Random(seed).random, n)
    return task, respond(Random(seed).random, task, {}, 1, 2, 1200.0)


@pytest.mark.parametrize("seed", range(40))
def test_sums_dates_and_times_are_right(seed):
    # Recomputed from the text, not from the generator's own numbers.
    task, text = unedited("arithmetic", seed)
    steps = re.findall(r"(\d+) ([+-]) (\d+) = (\d+)", text)
    assert len(steps) == 6
    assert all(int(a) + (int(b) if sign == "+" else -int(b)) == int(c) for a, sign, b, c in steps)
    assert [s[3] for s in steps[:-1]] == [s[0] for s in steps[1:]] and task.answer == (steps[-1][3],)
    assert all(int(a) * int(b) == int(c) for a, b, c in re.findall(r"(\d+) x (\d+) = (\d+)", text))
    assert all(f" {a} " in task.prompt for _, _, a, _ in steps if " x " not in text)

    task, _ = unedited("dates", seed)
    start = datetime.strptime(re.search(r"\d+ \w+ 20\d\d", task.prompt)[0], "%d %B %Y")
    end = start + timedelta(days=sum(map(int, re.findall(r"\((\d+) days\)", task.prompt))))
    assert task.answer == (f"{end:%A}, {end.day} {end:%B %Y}",)

    task, text = unedited("planning", seed)
    minutes = [int(h) * 60 + int(m) for h, m in re.findall(r"(\d+):(\d\d)", text)]
    assert minutes[1:-2:2] == minutes[2:-1:2]  # no gaps: each point starts when the one before ends
    assert minutes[-1] - minutes[0] == sum(map(int, re.findall(r"\((\d+) minutes\)", task.prompt)))

    task, text = unedited("sorting", seed)
    numbers = [float(x.replace(",", "")) for x in re.findall(r"^\d\. \D+?(-?[\d,.]*\d)", text, re.MULTILINE)]
    falling = "largest number to the smallest" in task.prompt or "most recent to the oldest" in task.prompt
    assert len(numbers) == 6 and numbers == sorted(numbers, reverse=falling)

    task, text = unedited("format", seed)
    assert len(text.splitlines()) == 6 and all(re.match(r"[A-Z ]+: ", line) for line in text.splitlines())


def test_conversions_are_right():
    known = {"miles": 1.609344, "kilograms": 2.2046226, "inches": 2.54, "feet": 0.3048, "weeks": 7.0, "hours": 60.0}
    checked = 0
    for seed in range(60):
        task, _ = unedited("units", seed)
        for item in task.items:
            n, source, value = re.match(r"(\d+) ([\w ]+) are (?:about )?([\d,.]*\d)", item.right[0]).groups()
            if source in known:
                assert float(value.replace(",", "")) == pytest.approx(int(n) * known[source], abs=0.051)
                checked += 1
    assert checked > 100


def test_false_premises_are_false_and_unsafe_requests_refused():
    for seed in range(30):
        task, text = unedited("false premise", seed)
        assert task.answer[0] not in task.prompt and task.answer[0] in text
        task, text = unedited("unsafe", seed)
        assert re.match(r"I (can't help|won't assist) with", text)


# --- edits --------------------------------------------------------------------------------------------------------
def with_edit(family, seed, edits, jargon=1, verbosity=2, n=6):
    task = FAMILY[family](Random(seed).random, n)
    return task, respond(Random(seed).random, task, edits, jargon, verbosity, 600.0)


def held(task, text, wrong=False):
    """How many items of a task a text contains, in their right or in their wrong version."""
    return sum(any(p in text for p in (i.wrong if wrong else i.right)) for i in task.items)


@pytest.mark.parametrize("family", ["explanation", "instructions", "extraction", "comparison", "rewriting"])
def test_each_edit_does_what_its_name_says(family):
    for seed in range(12):
        task, clean = with_edit(family, seed, {})
        assert held(task, clean) == 6 and held(task, clean, wrong=True) == 0
        _, text = with_edit(family, seed, {"wrong value": 2})
        assert held(task, text) == 4 and held(task, text, wrong=True) == 2
        _, text = with_edit(family, seed, {"missing item": 2})
        assert held(task, text) == 4 and held(task, text, wrong=True) == 0
        _, text = with_edit(family, seed, {"contradiction": 2})
        assert held(task, text) == 6 and held(task, text, wrong=True) == 2
        assert sum(text.count(phrase) for phrase in phrases.WRITING["contrary"]) == 2
        _, text = with_edit(family, seed, {"repetition": 2})
        assert sum(any(text.count(p) > 1 for p in item.right) for item in task.items) == 2
        _, text = with_edit(family, seed, {"shuffled order": 3})
        places = [min(text.find(p) for p in item.right if p in text) for item in task.items]
        assert sum(a != b for a, b in zip(np.argsort(places), range(6), strict=True)) == 3
        _, text = with_edit(family, seed, {"refusal": 6})
        assert held(task, text) == 0 and any(text.startswith(phrase) for phrase in phrases.WRITING["refusals"])
        _, text = with_edit(family, seed, {"irrelevant sentence": 2})
        assert held(task, text) == 6 and len(set(text.split(". ")) - set(clean.split(". "))) >= 1


def test_style_edits_do_what_their_names_say():
    for seed in range(20):
        task, usual = with_edit("explanation", seed, {})
        _, terse = with_edit("explanation", seed, {}, verbosity=0)
        _, padded = with_edit("explanation", seed, {}, verbosity=4)
        assert held(task, terse) == held(task, padded) == 6
        assert len(terse) < len(usual) and not any(f in usual for f in phrases.WRITING["fillers"])
        assert sum(f in padded for f in phrases.WRITING["fillers"]) >= 2
        _, technical = with_edit("instructions", seed, {}, jargon=4)
        assert sum(s in technical for s in phrases.WRITING["expert"]["doing"]) == 3


def test_compliance_is_the_refusal_of_an_unsafe_request():
    _, text = with_edit("unsafe", 3, {"refusal": 6})
    assert re.match(r"(Sure|No problem), ", text)


def test_an_error_is_carried_on():
    # One wrong step and everything after it is off, as in a person's calculation; the result is wrong then.
    for seed in range(20):
        task, text = with_edit("arithmetic", seed, {"wrong value": 1})
        steps = re.findall(r"(\d+) ([+-]) (\d+) = (\d+)", text)
        assert [s[3] for s in steps[:-1]] == [s[0] for s in steps[1:]]
        assert sum(int(a) + (int(b) if s == "+" else -int(b)) != int(c) for a, s, b, c in steps) == 1
        assert not re.search(rf"(is|leaves) {task.answer[0]} ", text)


def rule(plan, n=6):
    """The attributes of a plan's response to a task of n items; (kind, severity) pairs as in PLANS."""
    index = next(i for i, (_, p) in enumerate(rules.PLANS) if p == plan)
    touched = rules.touched_items(np.array(index), np.array(n))
    base = np.array([4.0, 4.0, 4.0, 1.5, 2.0])
    return rules.attributes(base, np.array(index), touched, np.array(n)), touched


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
        0: ["wrong value", "missing item", "irrelevant sentence", "contradiction", "shuffled order"],
        1: ["wrong value", "missing item", "irrelevant sentence", "contradiction", "shuffled order"],
        2: ["contradiction", "repetition", "shuffled order", "irrelevant sentence"],
    }
    for a, kinds in expected.items():
        for kind in kinds:
            assert rule(((kind, 2),))[0][a] < clean[a] - 0.25, (ATTRIBUTES[a], kind)
    assert rule((("repetition", 2),))[0][4] > 2 > rule((("missing item", 2),))[0][4]
    for kind in ("wrong value", "missing item", "contradiction", "repetition", "irrelevant sentence"):
        values = [rule(((kind, s),))[0][0] for s in (1, 2, 3) if any(p == ((kind, s),) for _, p in rules.PLANS)]
        assert values == sorted(values, reverse=True) and len(set(values)) == len(values)  # the more, the worse
    assert list(rules.JARGON) == sorted(rules.JARGON)
    assert list(rules.VERBOSITY) == sorted(rules.VERBOSITY)


def test_edits_are_as_many_as_were_drawn(sample):
    for g in sample[0][:50]:
        d = rules.draw(0, np.array([int(g.id.split("/")[2])]))
        assert all(0 <= x <= 4 for row in d.latent[0].tolist() for x in row)
        assert [sum(generate.edits(d, 0, k).values()) for k in (0, 1)] == d.touched[0].sum(axis=1).tolist()


# --- like HelpSteer2 ----------------------------------------------------------------------------------------------
# Tolerances are the issue's. The samples are finite: a mean of 12,000 labels has a standard error of 0.012 (0.02 where
# both responses share the value), a correlation of 0.01, turns 0.05. Two of them are allowed where the target is met
# by turns or prompt characters, which 6,000 prompts fix worst.
def test_table_2(sample):
    for groups in sample.values():
        t = table(groups)
        for a in ATTRIBUTES:
            assert t[a].mean() == pytest.approx(paper.value("table-2", a, "mean HS2"), abs=0.05)
            assert t[a].std() == pytest.approx(paper.value("table-2", a, "SD HS2"), abs=0.05)
        r = t.corr()["helpfulness"]
        for a in ATTRIBUTES[1:]:
            assert r[a] == pytest.approx(paper.value("table-2", a, "R HS2"), abs=0.03)
        for row, column, extra in (
            ("turns in prompt", "turns", 0.026),
            ("characters in prompt", "prompt_chars", 0.026),
            ("characters in response", "response_chars", 0.01),
        ):
            assert r[column] == pytest.approx(paper.value("table-2", row, "R HS2"), abs=0.03 + extra)
            assert t[column].mean() == pytest.approx(paper.value("table-2", row, "mean HS2"), rel=0.1)
            assert t[column].std() == pytest.approx(paper.value("table-2", row, "SD HS2"), rel=0.1)


@pytest.mark.slow
def test_table_1(sample):
    stages = {"initial": generate.groups(6000, stage="initial"), "annotated": generate.groups(6000, stage="annotated")}
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
            assert ours == pytest.approx(paper.value("table-1", name, column), abs=0.03), (name, column)


def test_turns(sample):
    turns = np.array([len(g.prompt) for g in sample[0]])
    assert (turns % 2 == 1).all()
    assert (turns > 1).mean() == pytest.approx(0.29, abs=3 * (0.29 * 0.71 / 6000) ** 0.5)
    for g in sample[0][:200]:
        assert [t.role for t in g.prompt] == (["user", "assistant"] * len(g.prompt))[: len(g.prompt)]


def test_annotators_are_different_people():
    people = rules.who(0, np.arange(5000))
    assert all(len(set(row)) == 5 for row in people.tolist())
    assert len(np.unique(people)) == rules.N_ANNOTATORS == 1000
    assert (rules.who(0, np.array([7])) == people[7]).all()


DEBRIS = re.compile(
    r"[{}]|\bNone\b|\bnan\b|  | [,.;?!]|\.\.|\?\.|[.!?]{2}|\n{3}|\A\s|\s\Z"
    r"|\(\)|\b(\w+) \1\b|[a-z]\.[A-Z]|\b[Aa] [aeio]\w"
)


@pytest.mark.slow
def test_texts_read_clean(sample):
    groups = [*sample[1][:2500], *generate.groups(500, seed=2, length_scale=0.25), *generate.benchmark(50, seed=2)]
    for g in groups:
        for text in [t.text for t in g.prompt] + [r.text for r in g.responses]:
            match = DEBRIS.search(text)
            assert not match, (g.id, text[max(match.start() - 60, 0) : match.end() + 60])
    starts = Counter(g.responses[0].text[:25] for g in sample[1])
    assert len(starts) > 1500 and starts.most_common(1)[0][1] < 180  # of 6,000: openings vary


# --- benchmark ----------------------------------------------------------------------------------------------------
def test_benchmark_has_known_winners_in_balanced_order():
    pairs = generate.benchmark(60)
    assert Counter(g.id.split("/")[0] for g in pairs) == dict.fromkeys(("chat", "chat-hard", "safety", "reasoning"), 60)
    assert sum(g.preference < 0 for g in pairs) == 120 and len({g.id for g in pairs}) == 240
    assert pairs == generate.benchmark(60) and pairs[:5] == generate.benchmark(5)[:5]
    longer = []
    for g in pairs:
        better, worse = g.responses if g.preference < 0 else g.responses[::-1]
        section = g.id.split("/")[0]
        assert better.text != worse.text and len(g.prompt) == 1 and g.responses[0].labels == ()
        refused = [any(p in r.text for p in phrases.WRITING["refusals"]) for r in (better, worse)]
        assert not refused[0]
        if section == "safety":
            assert refused[1] or re.match(r"(Sure|No problem), ", worse.text)
            assert refused[1] or re.match(r"I (can't help|won't assist) with", better.text)
        if section == "chat-hard":
            longer.append(len(worse.text) > 1.2 * len(better.text))
    assert 0.25 < np.mean(longer) < 0.75  # neither length alone nor its opposite finds the better one


def test_a_small_run_is_quick_and_streams():
    # 400 prompts are what notebooks take at tier smoke; the limit is generous for a busy machine.
    import time

    began = time.process_time()
    assert len(list(islice(generate.groups(400), 400))) == 400
    assert time.process_time() - began < 1.5
