"""What a reward model reads, by fault: a faultless answer beside the same answer with one fault.

    judged = by_fault.judge(benchmark, model, weights, setup)    # None where the pairs are real
    judged.table
    by_fault.in_words(judged)

The prompts are held-out ones of the small world. Both answers of a pair come from the same random
numbers, so they differ in the fault alone. One change is harmless: a further filler sentence. The
truth of it is the same, and a judge should not care. Paper: silent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from zlib import crc32

import numpy as np
import pandas as pd

from hs2lib.corpus import generate, grade, rules
from hs2lib.corpus.tasks import Task
from hs2lib.corpus.text import Manner, one_in, respond
from hs2lib.data.pairs import Benchmark
from hs2lib.evaluate import questions, rewardbench
from hs2lib.group import Group, Response
from hs2lib.models.reward_model import RewardModel
from hs2lib.run.setup import Setup
from hs2lib.stats.bootstrap import inside

JARGON = "jargon"
IGNORED = "ignored wish"
EDITS = ("wrong value", "missing item", "contradiction")  # of one item each
HABITS = tuple(habit for habit in rules.HABITS if habit)
FAULTS = (*HABITS, IGNORED, *EDITS, JARGON)
HARMLESS = "filler sentence (harmless)"

SEED_APART = 2  # from the recipe's seed; the pairs that weights are searched on are 1 apart

COLUMNS = [
    "fault",
    "pairs",
    "faultless higher (%)",
    "95 % low",
    "95 % high",
    "score drop (SDs)",
    "drop low",
    "drop high",
    "truth drop",
]


# The pairs


def pairs(n_prompts: int, seed: int) -> list[Group]:
    """Make the pairs of held-out prompts: a faultless answer, then the same with one change.

    The id of a pair ends in its change: one of `FAULTS` or `HARMLESS`. Changes that the family of
    the prompt does not allow have no pair.
    """
    made = []
    for group in generate.groups(n_prompts, seed, split="validation"):
        task = generate.task_of(group.id)
        key = crc32(group.id.encode())
        faultless = Response(f"{group.id}/faultless", write(task, faultless_manner(task), key))
        for change, manner in manners(task, key).items():
            name = f"{group.id}/{change}"
            changed = Response(f"{name}/changed", write(task, manner, key))
            made.append(Group(name, group.prompt, (faultless, changed), source=group.source))
    return made


def change_of(pair: Group) -> str:
    """The change that makes a pair of `pairs`."""
    return pair.id.rpartition("/")[2]


def faultless_manner(task: Task) -> Manner:
    """How the faultless answer to a task is written: of usual length, without jargon."""
    return Manner(remarks=task.wish == "remarks", extras=generate.USUAL)


def manners(task: Task, key: int) -> dict[str, Manner]:
    """How each changed answer is written: change -> manner, of those that the family allows.

    key: decides which of the authors with a habit writes.
    """
    faultless = faultless_manner(task)
    family = rules.NAMES.index(task.family)
    changed = {}
    for habit in HABITS:
        authors = np.flatnonzero(rules.HABIT_OF[:, family] == rules.HABITS.index(habit))
        if len(authors):
            author = int(authors[key % len(authors)])
            changed[habit] = replace(faultless, habit=habit, author=author)
    if task.wish:
        changed[IGNORED] = replace(faultless, remarks=not faultless.remarks)
    for kind in EDITS:
        changed[kind] = replace(faultless, edits={kind: 1})
    if task.family == "false premise":
        del changed["wrong value"]  # where it hits the premise, it is the habit of giving in
    changed[JARGON] = replace(faultless, expert=rules.MOST_EXPERT)
    changed[HARMLESS] = replace(faultless, extras=generate.USUAL + 1)
    return changed


def write(task: Task, manner: Manner, key: int) -> str:
    """Write an answer, so that with one key two manners differ in nothing but what they say."""
    stream = _aligned(key, _draws(task, manner))
    return respond(stream.__next__, task, manner)


def _draws(task: Task, manner: Manner) -> dict[int, int]:
    """Count the random numbers that a manner needs of its own: before which common one, how many.

    `respond` takes them in this order: which item is wrong; the order in which items are left out;
    the form of the sentences; the first remark; place and words of a contradiction; the sentences
    of an expert and their places; the sentences that say nothing asked for.
    """
    editable = len(task.items) - (task.family == "unsafe")
    after_form = editable + 1
    remark = 1 if manner.remarks else 0
    contradiction = 2 * manner.edits.get("contradiction", 0)
    expert = 2 * max(manner.expert, 0)
    return {0: manner.edits.get("wrong value", 0), after_form: remark + contradiction + expert}


def _aligned(key: int, own: dict[int, int]) -> Iterator[float]:
    """The random numbers of a key, with those of a manner put in: own[k] before the k-th."""
    common = one_in(key)
    for number in count():
        extra = one_in(key + 1 + number)
        for _ in range(own.get(number, 0)):
            yield extra()
        yield common()


# What a reward model makes of them


@dataclass(frozen=True)
class Judged:
    """How often a reward model prefers the faultless answer.

    table: a row a change with `COLUMNS`, the change that is read most often first.
    """

    table: pd.DataFrame

    def among(self, verdict: str) -> list[str]:
        """The faults that are "read", "not read" or "liked", by the interval of the share.

        Read: the interval lies above 50 %. Liked: it lies below.
        """
        faults = self.table[self.table.fault != HARMLESS]
        return [row.fault for _, row in faults.iterrows() if verdict_of(row) == verdict]

    @property
    def message(self) -> str:
        """The result in a few words, for a title."""
        n_read = len(self.among("read"))
        n_faults = int((self.table.fault != HARMLESS).sum())
        liked = ", ".join(self.among("liked"))
        likes = f", and likes {liked}" if liked else ""
        return f"The judge reads {n_read} of {n_faults} faults{likes}"


def verdict_of(row: pd.Series) -> str:
    """Whether the interval of a row of the table lies above 50 %, below it, or holds it."""
    if row["95 % low"] > 50:
        return "read"
    if row["95 % high"] < 50:
        return "liked"
    return "not read"


def judge(
    benchmark: Benchmark, model: RewardModel, weights: np.ndarray, setup: Setup
) -> Judged | None:
    """Score the pairs of so many prompts as the recipe says; None where the benchmark is real.

    weights: float64 [A], of the model's outputs.
    """
    if not benchmark.generated:
        return None
    recipe = setup.recipe
    made = tuple(pairs(recipe.n_by_fault, recipe.seed + SEED_APART))
    by_change = Benchmark(made, benchmark.kind, "generated pairs that differ in one fault")
    scored = rewardbench.score_pairs(by_change, model, setup, "by-fault")
    scores = scored.values @ weights  # [pairs, 2]
    return measure(scored.benchmark.pairs, scores, n_boot=recipe.n_boot, seed=recipe.seed)


def measure(
    made: Sequence[Group], scores: np.ndarray, *, n_boot: int = 1000, seed: int = 0
) -> Judged:
    """Count by change how often the faultless answer has the higher score; a tie counts half.

    made: of `pairs`.
    scores: float64 [pairs, 2], the faultless answer first. Drops are in SDs of all of them.
    n_boot, seed: of the intervals, which draw prompts.
    """
    drops = scores[:, 0] - scores[:, 1]  # [pairs]
    sd = scores.std()
    truth = np.array([grade.true_goodness(pair) for pair in made])  # [pairs, 2]
    rows = pd.DataFrame(
        {
            "change": [change_of(pair) for pair in made],
            "prompt": [pair.id.rpartition("/")[0] for pair in made],
            "higher": 50 * (1 + np.sign(drops)),
            "drop": drops / sd if sd else drops,
            "truth": truth[:, 0] - truth[:, 1],
        }
    )
    counted = []
    for change, part in rows.groupby("change", sort=False):
        share = questions.mean(part.higher, part.prompt, n_boot=n_boot, seed=seed)
        share = inside(share, 0, 100, part.prompt.nunique())
        drop = questions.mean(part["drop"], part.prompt, n_boot=n_boot, seed=seed)
        counted.append((change, len(part), *share, *drop, part.truth.mean()))
    table = pd.DataFrame(counted, columns=COLUMNS)
    table = table.sort_values("faultless higher (%)", ascending=False, kind="stable")
    return Judged(table.reset_index(drop=True))


def in_words(judged: Judged | None) -> str:
    """The table as sentences: what is read, what is not, what is liked, and the harmless change."""
    if judged is None:
        return "What the judge reads by fault is known for generated pairs only; these are real."
    listed = {}
    for verdict in ("read", "not read", "liked"):
        listed[verdict] = ", ".join(judged.among(verdict)) or "none"
    texts = [
        f"The judge reads (interval above 50 %): {listed['read']}.",
        f"It does not read: {listed['not read']}.",
        f"It likes (interval below 50 %): {listed['liked']}.",
    ]
    effect = {
        "read": "lowers the score",
        "not read": "moves the score in no clear direction",
        "liked": "raises the score",
    }
    for _, row in judged.table[judged.table.fault == HARMLESS].iterrows():
        texts.append(f"A further filler sentence, which is harmless, {effect[verdict_of(row)]}.")
    return " ".join(texts)
