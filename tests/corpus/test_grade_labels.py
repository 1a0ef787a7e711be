"""The grader against 1,080 responses of real policies, labelled by readers (`labelled/README.md` has the rules)."""

import json
from pathlib import Path

import numpy as np
import pytest

from hs2lib.corpus import rules
from hs2lib.corpus.grade import Grade, grade
from hs2lib.corpus.tasks import Item, Task
from hs2lib.group import ATTRIBUTES

LABELLED = Path(__file__).parent / "labelled"
SAMPLES, SECOND, FRESH = (
    [json.loads(line) for line in (LABELLED / name).read_text().splitlines()]
    for name in ("samples.jsonl", "second.jsonl", "fresh.jsonl")
)


def task_of(fields):
    """The task of a prompt from its fields in a file of tasks."""
    items = []
    for forms, value, other, slip, *otherwise in fields["items"]:
        items.append(Item(tuple(forms), value, other, slip, *map(tuple, otherwise)))
    written = {"items": tuple(items), "keys": tuple(fields["keys"])}
    return Task(**fields | written)


TASKS = {
    prompt: task_of(fields)
    for prompt, fields in json.loads((LABELLED / "tasks.json").read_text()).items()
}


def prompt_of(sample):
    return sample["id"].rpartition("/")[0]


def by_hand(family, label):
    """The attributes that follow from a label, by the rules of the world.

    Of those is that more sentences of style than style has steps are beside the point. Since the
    second edition these are 1.5 for each item, and the first one wrote more.
    """
    label = dict(label)
    items = label.pop("items")
    most = {
        "extras": round(rules.EXTRAS[-1] * len(items)),
        "remarks": len(items),
        "expert": rules.MOST_EXPERT,
    }
    for name, number in most.items():
        surplus = max(0, label.get(name, 0) - number)
        label["irrelevant"] = label.get("irrelevant", 0) + surplus
    places = {mark: [i for i, letter in enumerate(items) if letter == mark] for mark in "RWM"}
    grade = Grade(len(items), family, places["R"], places["W"], places["M"])
    for name, number in label.items():
        setattr(grade, name, type(getattr(grade, name))(number))
    return grade.attributes


def labelled(samples, labels):
    return np.array(
        [
            by_hand(sample["family"], row["label"])
            for sample, row in zip(samples, labels, strict=True)
        ]
    )


def graded(samples):
    return np.array([grade(TASKS[prompt_of(s)], s["response"]).attributes for s in samples])


@pytest.fixture(scope="module")
def read():
    """Attributes [200, A] by a reader and by the grader: of the first samples by each reader and the mean, of fresh."""
    first, second, its = labelled(SAMPLES, SAMPLES), labelled(SAMPLES, SECOND), graded(SAMPLES)
    both = {"first": (first, its), "second": (second, its), "mean": ((first + second) / 2, its)}
    return both | {"fresh": (labelled(FRESH, FRESH), graded(FRESH))}


def explained(truth, other):
    """R squared of the numbers themselves, not of a line through them."""
    return 1 - np.sum((truth - other) ** 2) / np.sum((truth - truth.mean()) ** 2)


@pytest.mark.parametrize("samples", [SAMPLES, FRESH], ids=["first", "fresh"])
def test_samples_are_of_four_policies_and_all_families(samples):
    assert (
        len(samples) == 200
        and len({s["policy"] for s in samples}) == 4
        and len({s["family"] for s in samples}) == 9
    )
    assert [s["id"] for s in SAMPLES] == [s["id"] for s in SECOND]
    assert not {prompt_of(s) for s in FRESH} & {prompt_of(s) for s in SAMPLES}


def test_each_label_has_its_task_of_the_first_edition():
    """No prompt wished anything of remarks then, and the generator of today writes other prompts."""
    assert {prompt_of(s) for s in [*SAMPLES, *FRESH, *SECOND_EDITION, *AS_JUDGED]} == set(TASKS)
    assert {TASKS[prompt_of(s)].wish for s in [*SAMPLES, *FRESH]} == {""}
    for s in [*SAMPLES, *FRESH]:
        task = TASKS[prompt_of(s)]
        assert (task.family, len(task.items)) == (s["family"], len(s["label"]["items"]))


@pytest.mark.parametrize("rows", [SAMPLES, SECOND, FRESH], ids=["first", "second", "fresh"])
def test_of_the_items_of_an_answer_one_can_stay(rows):
    """`displaced` is the fewest items to move: the old count of two that changed places was two."""
    for row in rows:
        stated = len(row["label"]["items"]) - row["label"]["items"].count("M")
        assert 0 <= row["label"].get("displaced", 0) <= max(stated - 1, 0), row["id"]


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_the_readers_agree_with_each_other(read, attribute):
    """The ceiling for the grader: coherence .897, the others above .98.

    By the effects of the first edition coherence was .909. The readers differ on the same 20
    responses. But what is said twice or out of order costs less coherence since the second edition,
    so there is less to explain (the sum of squares about the mean fell from 257 to 164).
    """
    k = ATTRIBUTES.index(attribute)
    ceiling = 0.89 if attribute == "coherence" else 0.9
    assert explained(read["first"][0][:, k], read["second"][0][:, k]) > ceiling


@pytest.mark.parametrize("reader", ["first", "second", "mean", "fresh"])
@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_the_grader_agrees_with_the_labels(read, attribute, reader):
    """R squared of the numbers themselves, not of a line through them, at least .8.

    The first 200 found the grader calling garbled a refusal of another request and advice for
    another one (coherence .74 and .77); it was mended by them, so they show no more than that it
    was. The fresh 200 were drawn and labelled after that, and nothing was changed by them:
    coherence .82 (95 % .65 to .94), helpfulness and correctness .96, complexity 1.00, verbosity
    .98. By the effects of the first edition coherence was .90, with the same misreadings.
    """
    k = ATTRIBUTES.index(attribute)
    by_reader, its = (attributes[:, k] for attributes in read[reader])
    assert explained(by_reader, its) > 0.8


# The second edition of the world: wishes for remarks or for the answer alone

SECOND_EDITION = [
    json.loads(line) for line in (LABELLED / "second-edition.jsonl").read_text().splitlines()
]
TASKS |= {
    prompt: task_of(fields)
    for prompt, fields in json.loads((LABELLED / "second-edition-tasks.json").read_text()).items()
}
SETS = (1, 2, 3, 4, 5)  # in the order in which they were drawn; the last one mended nothing


def of_set(number):
    return [sample for sample in SECOND_EDITION if sample["set"] == number]


def test_each_rule_of_the_second_edition_has_ten_labels_and_more():
    labels = [sample["label"] for sample in SECOND_EDITION]
    assert len(labels) == 480 and len({sample["id"] for sample in SECOND_EDITION}) == 480
    for rule in ("displaced", "ignored", "remarks", "repeated", "irrelevant", "garbled", "expert"):
        assert sum(label.get(rule, 0) > 0 for label in labels) >= 40, rule
    assert {TASKS[prompt_of(sample)].wish for sample in SECOND_EDITION} == {"alone", "remarks"}


@pytest.mark.parametrize("number", SETS)
@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_the_grader_agrees_with_labels_of_the_second_edition(attribute, number):
    """R squared of the numbers themselves above .85, but for coherence of the last set.

    Each set was drawn and labelled after the grader had been mended by the sets before it. Fresh,
    the first had .71, .70, .67, 1 and .92; the next three had coherence .84, .81 and .85, all else
    above .94. The last set changed nothing: helpfulness .99 (95 % .98 to 1), correctness .99 (.97
    to 1), coherence .79 (.59 to .92), complexity .97 (.92 to 1), verbosity .98 (.94 to 1). The
    readings of coherence that differ are of words that a policy broke at temperature 1, where two
    readers differ too.
    """
    k = ATTRIBUTES.index(attribute)
    samples = of_set(number)
    least = 0.75 if attribute == "coherence" and number == SETS[-1] else 0.85
    assert explained(labelled(samples, samples)[:, k], graded(samples)[:, k]) > least


def test_wishes_and_order_are_read_as_the_readers_do():
    """The new rules one by one: equal numbers in at least 97 of 100 responses."""
    for rule in ("ignored", "displaced"):
        equal = [
            getattr(grade(TASKS[prompt_of(sample)], sample["response"]), rule)
            == sample["label"].get(rule, 0)
            for sample in SECOND_EDITION
        ]
        assert np.mean(equal) > 0.97, rule


# Greedy answers, and those at temperature .7: what the verdicts of the small world are about

AS_JUDGED = [json.loads(line) for line in (LABELLED / "as-judged.jsonl").read_text().splitlines()]
TASKS |= {
    prompt: task_of(fields)
    for prompt, fields in json.loads((LABELLED / "as-judged-tasks.json").read_text()).items()
}


def at(temperature):
    return [sample for sample in AS_JUDGED if sample["temperature"] == temperature]


def by_readers(samples):
    """The attributes [N, A] by the first reader and by the second."""
    return [labelled(samples, [{"label": s[who]} for s in samples]) for who in ("label", "second")]


def test_answers_as_judged_are_of_four_policies_and_all_families():
    assert len(AS_JUDGED) == 200 and len({sample["id"] for sample in AS_JUDGED}) == 200
    earlier = {prompt_of(sample) for sample in [*SAMPLES, *FRESH, *SECOND_EDITION]}
    assert not earlier & {prompt_of(sample) for sample in AS_JUDGED}
    for temperature in (0.0, 0.7):
        samples = at(temperature)
        policies = [sample["policy"] for sample in samples]
        assert {policies.count(name) for name in ("sft", "dpo", "ppo", "steerlm2")} == {25}
        assert {sample["family"] for sample in samples} == {s["family"] for s in SAMPLES}


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_the_grader_agrees_with_labels_of_answers_as_judged(attribute, temperature):
    """R squared above .85 with its interval by response, against the mean of two readers.

    Nothing was changed by these labels. Coherence: greedy .96 (95 % .89 to 1), at .7 .96 (.88 to
    1). Verbosity has .94 (.87 to .99) and .97 (.92 to 1); the readers differ on whether a wished
    remark behind a point that was not asked is one too many. All else is .99 and more.
    """
    k = ATTRIBUTES.index(attribute)
    samples = at(temperature)
    mean = np.mean(by_readers(samples), axis=0)[:, k]
    its = graded(samples)[:, k]
    drawn = np.random.default_rng(0).integers(0, len(samples), (2000, len(samples)))
    low = np.percentile([explained(mean[rows], its[rows]) for rows in drawn], 2.5)
    assert low > 0.85


def test_the_readers_of_answers_as_judged_agree_with_each_other():
    """Of coherence they have .999 in common: greedy answers are hardly ever garbled."""
    first, second = by_readers(AS_JUDGED)
    for k, attribute in enumerate(ATTRIBUTES):
        ceiling = 0.9 if attribute == "verbosity" else 0.99
        assert explained(first[:, k], second[:, k]) > ceiling, attribute
