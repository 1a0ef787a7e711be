"""What a reward model reads, by fault: a faultless answer beside the same answer with one fault.

    judged = by_fault.judge(benchmark, model, weights, setup)    # None where the pairs are real
    judged.table
    by_fault.in_words(judged)

The prompts are held-out ones of the small world. Both answers of a pair come from the same random
numbers, so they differ in the fault alone. One change is harmless: a further filler sentence. The
truth of it is the same, and a reward model should not care. Paper: silent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hs2lib.corpus import grade
from hs2lib.corpus.one_fault import HARMLESS, change_of, pairs
from hs2lib.data.pairs import Benchmark
from hs2lib.evaluate import questions, rewardbench
from hs2lib.group import Group
from hs2lib.models.reward_model import RewardModel
from hs2lib.report.answers import Answer
from hs2lib.report.report import interval
from hs2lib.runs.setup import Setup
from hs2lib.stats.bootstrap import Interval, inside

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


# What `Judged.among` calls it, in words.
SAYS = {
    "read": "The reward model reads",
    "not read": "It is not shown to read",
    "liked": "It likes",
}


@dataclass(frozen=True)
class Judged:
    """How often a reward model prefers the faultless answer.

    table: a row a change with `COLUMNS`, the change that is read most often first.
    pairs: what was scored, of `hs2lib.corpus.one_fault.pairs`.
    values: float64 [pairs, 2, A], all outputs, the faultless answer first.
    scores: float64 [pairs, 2], weighted.
    source: what the pairs are, for a caption.
    """

    table: pd.DataFrame
    pairs: tuple[Group, ...] = ()
    values: np.ndarray | None = None
    scores: np.ndarray | None = None
    source: str = ""

    def among(self, verdict: str) -> list[str]:
        """The faults that are "read", "not read" or "liked", by the interval of the share.

        Read: the interval lies above 50 %. Liked: it lies below.
        """
        faults = self.table[self.table.fault != HARMLESS]
        return [row.fault for _, row in faults.iterrows() if verdict_of(row) == verdict]

    def example(self, fault: str) -> tuple[Group, list[Answer]]:
        """The pair of a fault whose drop of the score is the median, as answers to show."""
        of_fault = [k for k, pair in enumerate(self.pairs) if change_of(pair) == fault]
        drops = self.scores[of_fault, 0] - self.scores[of_fault, 1]
        middle = of_fault[np.argsort(drops, kind="stable")[len(of_fault) // 2]]
        pair = self.pairs[middle]
        answers = []
        for name, response, score in zip(
            ("faultless", fault), pair.responses, self.scores[middle], strict=True
        ):
            answers.append(Answer(name, response.text, score=float(score)))
        return pair, answers

    def examples(self) -> dict[str, str]:
        """A fault for each verdict of `among` that has one: the first of those that are read, the
        last of those that are not read, and of those that are liked."""
        chosen = {}
        for verdict, place in (("read", 0), ("not read", -1), ("liked", -1)):
            names = self.among(verdict)
            if names:
                chosen[verdict] = names[place]
        return chosen

    @property
    def message(self) -> str:
        """The result in a few words, for a title."""
        n_read = len(self.among("read"))
        n_faults = int((self.table.fault != HARMLESS).sum())
        liked = ", ".join(self.among("liked"))
        likes = f", and likes {liked}" if liked else ""
        return f"The reward model reads {n_read} of {n_faults} faults{likes}"


def verdict_of(row: Mapping[str, float]) -> str:
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
    seed = recipe.seed + SEED_APART
    made = tuple(pairs(recipe.n_by_fault, seed))
    source = f"small world (generated), seed {seed}, {recipe.n_by_fault} prompts"
    by_change = Benchmark(made, benchmark.kind, "generated pairs that differ in one fault")
    scored = rewardbench.score_pairs(by_change, model, setup, "by-fault")
    scores = scored.values @ weights  # [pairs, 2]
    pairs_scored = scored.benchmark.pairs
    judged = measure(pairs_scored, scores, n_boot=recipe.n_boot, seed=recipe.seed)
    return replace(judged, pairs=pairs_scored, values=scored.values, scores=scores, source=source)


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
            "prompt": prompts_of(made),
            "higher": 50 * (1 + np.sign(drops)),
            "drop": drops / sd if sd else drops,
            "truth": truth[:, 0] - truth[:, 1],
        }
    )
    counted = []
    for change, part in rows.groupby("change", sort=False):
        share = share_higher(part.higher, part.prompt, n_boot=n_boot, seed=seed)
        drop = questions.mean(part["drop"], part.prompt, n_boot=n_boot, seed=seed)
        counted.append((change, len(part), *share, *drop, part.truth.mean()))
    table = pd.DataFrame(counted, columns=COLUMNS)
    table = table.sort_values("faultless higher (%)", ascending=False, kind="stable")
    return Judged(table.reset_index(drop=True))


def prompts_of(made: Sequence[Group]) -> list[str]:
    """The id of each pair's prompt: what stands in the pair's before its change."""
    return [pair.id.rpartition("/")[0] for pair in made]


def share_higher(higher: Sequence[float], prompts: Sequence[str], **resampled: int) -> Interval:
    """Percent of pairs whose faultless answer scores higher, and its 95 % interval by prompt.

    higher: of each pair 100, 50 for a tie, or 0. resampled: n_boot and seed.
    """
    share = questions.mean(higher, prompts, **resampled)
    return inside(share, 0, 100, len(set(prompts)))


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table of `Judged` as a notebook shows it, "mean [low, high]" in a cell."""
    cells = {"pairs": table.pairs}
    for name, digits in (("faultless higher (%)", 0), ("score drop (SDs)", 2)):
        place = COLUMNS.index(name)
        numbers = table.iloc[:, place : place + 3].itertuples(index=False, name=None)
        cells[name] = [interval(*row, digits=digits) for row in numbers]
    cells["truth drop"] = table["truth drop"].map("{:.2f}".format)
    return pd.DataFrame(cells).set_axis(table.fault)


def in_words(judged: Judged | None) -> str:
    """The table as sentences: what is read, what is not, what is liked, and the harmless change."""
    if judged is None:
        return (
            "What a reward model reads by fault is known for generated pairs only; these are real."
        )
    listed = {}
    for verdict in ("read", "not read", "liked"):
        listed[verdict] = ", ".join(judged.among(verdict)) or "none"
    texts = [
        f"The reward model reads (interval above 50 %): {listed['read']}.",
        f"It is not shown to read: {listed['not read']}.",
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
