"""What a reward model reads of answers to one prompt: rated responses, or a policy's own samples.

    rated = judge("rated responses", compared.prompts, reward_model, setup)
    own = of_round("own samples", first)
    of_dpo = of_policy("DPO's answers", policy, compared)
    read = table([rated, own, of_dpo], **recipe.resampled)    # R within a prompt, pairs right
    shown(read)                               # the same for a reader, a cell with its interval
    spread_in_words(read)                     # how much of a lower R is a smaller spread?
    places(own, **recipe.resampled)           # truth by the place in the judge's order
    misjudged(own)                            # pairs of which the judge takes the worse

A judge that is right on the responses it learnt from may be wrong on what a policy writes that was
trained by such a judge. All here needs the truth, so that of real prompts there is None. Paper:
silent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hs2lib.align.iterative_dpo import SampledPairs
from hs2lib.corpus.generate import is_generated, prompt_of, task_of
from hs2lib.corpus.grade import grade, true_goodness
from hs2lib.evaluate import questions
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.content import GIVES_BACK
from hs2lib.evaluate.response_rows import SCORE, TEXT, TRUTH
from hs2lib.group import Group, Response
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.paper import head_weights
from hs2lib.report.answers import Answer
from hs2lib.report.report import interval
from hs2lib.runs.setup import Setup
from hs2lib.stats.bootstrap import bootstrap, difference, inside

APART = 0.5  # points of truth by which the answers of a pair truly differ

# Columns of `table`: an estimate and the ends of its 95 % interval.
R = ("R within a prompt", "R, 95 % low", "R, 95 % high")
RIGHT = ("pairs right (%)", "pairs right, 95 % low", "pairs right, 95 % high")
ANYTHING = 1.9  # an interval of R so wide, of the 2 from -1 to 1, says nothing
LESS = ("R minus the first row's", "R minus, 95 % low", "R minus, 95 % high")
SPREAD = "spread of truth"


@dataclass(frozen=True)
class Judged:
    """Answers to prompts, each with the reward model's score and its truth.

    name: what the answers are.
    groups: a prompt each, with n answers.
    scores: float64 [prompts, n], points.
    truth: float64 [prompts, n], points.
    """

    name: str
    groups: list[Group]
    scores: np.ndarray
    truth: np.ndarray

    @property
    def centred(self) -> tuple[np.ndarray, np.ndarray]:
        """Truth and scores, each less its prompt's mean: float64 [prompts, n] each."""
        truth = self.truth - self.truth.mean(axis=1, keepdims=True)
        scores = self.scores - self.scores.mean(axis=1, keepdims=True)
        return truth, scores

    @property
    def agreement(self) -> float:
        """Pearson's R of score and truth among the answers to one prompt; nan where all are alike.

        By hand: truth 0, 1 and 2, 5 with scores 3, 4 and 9, 8 are -.5, .5, -1.5, 1.5 and -.5, .5,
        .5, -.5 less their prompt's mean. So R is (.25 + .25 - .75 - .75) / sqrt(5 * 1) = -.447.
        """
        truth, scores = self.centred
        spread = np.sqrt((truth**2).sum() * (scores**2).sum())
        return float((truth * scores).sum() / spread) if spread else np.nan

    @property
    def spread(self) -> float:
        """SD of the truth among the answers to one prompt, pooled over prompts, points.

        That is the root of the mean variance, which also stands in R (`agreement`). A mean of SDs
        would be another number where prompts differ. Each variance is divided by n - 1, so that
        two answers to a prompt and eight can be compared. By hand: truth 0, 1 and 2, 5 have the
        variances .5 and 4.5, so the spread is sqrt(2.5) = 1.58.
        """
        return float(np.sqrt(self.truth.var(axis=1, ddof=1).mean()))

    def first(self, n: int, name: str) -> "Judged":
        """The answers to the first n prompts, under another name."""
        return Judged(name, self.groups[:n], self.scores[:n], self.truth[:n])


def judge(
    name: str, groups: Sequence[Group], reward_model: RewardModel, setup: Setup
) -> Judged | None:
    """Score and grade answers to generated prompts; None of real ones.

    name: what the answers are.
    groups: prompts with at least two answers, all with as many.
    reward_model: its outputs are weighed as the recipe says.
    setup: of the run, in whose folder scores are kept.

    Raises ValueError where prompts have one answer, or not all as many.
    """
    if not is_generated(groups):
        return None
    numbers = {len(group.responses) for group in groups}
    if len(numbers) != 1 or min(numbers) < 2:
        raise ValueError(f"{name}: expected two or more answers to every prompt, got {numbers}")
    recipe = setup.recipe
    weights = np.array(head_weights(recipe.weighting, reward_model.attributes))  # [A]
    outputs = reward_model.score(groups, cache=setup.folder, **recipe.inference)  # [R, A]
    scores = (outputs.numpy() @ weights).reshape(len(groups), -1)  # [prompts, n]
    truth = np.stack([true_goodness(group) for group in groups])  # [prompts, n]
    return Judged(name, list(groups), scores.astype(np.float64), truth)


def of_policy(
    name: str, policy: Policy, compared: Comparison, *, measured: str = ""
) -> Judged | None:
    """Answers of a policy to the held-out prompts, at least two to each; None of real prompts.

    Args:
        name: what the answers are.
        policy: whose.
        compared: has the prompts and the reward model.
        measured: the policy's name among the rows of the comparison. Where these have two answers
            or more to each prompt, they are taken as they are, and no model is run.
    """
    if not compared.truth_known:
        return None
    rows = _measured(compared, measured)
    if rows is not None:
        return _of_rows(name, rows)
    n = max(2, compared.setup.recipe.n_eval_samples)
    answered = compared.answers(policy, n=n)
    return judge(name, answered, compared.reward_model, compared.setup)


def _measured(compared: Comparison, policy: str) -> pd.DataFrame | None:
    """The rows of a policy, in the order of the prompts; None without two to each, and texts."""
    frames = [frame[frame.policy == policy] for frame in compared.frames]
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if rows.empty or not {TEXT, TRUTH, SCORE} <= set(rows):
        return None
    rows = rows.drop_duplicates("response", keep="last").dropna(subset=[TEXT, TRUTH, SCORE])
    numbers = rows.prompt.value_counts()
    wanted = [prompt.id for prompt in compared.prompts]
    if set(numbers.index) != set(wanted) or numbers.nunique() > 1 or numbers.iloc[0] < 2:
        return None
    place = {prompt: number for number, prompt in enumerate(wanted)}
    return rows.sort_values("prompt", key=lambda ids: ids.map(place), kind="stable")


def _of_rows(name: str, rows: pd.DataFrame) -> Judged:
    """Answers as their rows have them, as many to each prompt."""
    groups = []
    for prompt, part in rows.groupby("prompt", sort=False):
        texts = zip(part.response, part[TEXT], strict=True)
        responses = tuple([Response(response, text) for response, text in texts])
        groups.append(replace(prompt_of(prompt), responses=responses))
    shape = (len(groups), -1)
    scores = rows[SCORE].to_numpy(np.float64).reshape(shape)
    return Judged(name, groups, scores, rows[TRUTH].to_numpy(np.float64).reshape(shape))


def of_round(name: str, sampled: SampledPairs) -> Judged | None:
    """The samples of a round of iterative DPO, which have their scores; None of real prompts."""
    if not is_generated(sampled.groups):
        return None
    truth = np.stack([true_goodness(group) for group in sampled.groups])  # [prompts, n]
    return Judged(name, sampled.groups, sampled.scores, truth)


def table(judged: Sequence[Judged], **resampled: int) -> pd.DataFrame:
    """How well score and truth agree among the answers to one prompt, a row a set of answers.

    Columns: answers, prompts, answers per prompt, "R within a prompt" and "pairs right (%)" with
    their 95 % intervals over prompts, and "spread of truth", the SD among the answers to a prompt,
    pooled over prompts (`Judged.spread`). Pairs, as many as "pairs" says, have truths `APART` or
    more apart. Where the spread is small, R is small too, so the three belong together. "R minus
    the first row's" and its interval are paired by prompt; nan for sets of other prompts than the
    first one's.

    resampled: n_boot and seed.
    """
    rows = []
    first_sums = _products(judged[0])
    for one in judged:
        sums = _products(one)
        r = bootstrap(sums, None, correlation, **resampled).at(0)
        _, low, high = inside(r, -1, 1, len(one.groups))
        right, prompts = _pairs_right(one)
        share = questions.mean(right, prompts, **resampled)
        if len(right):
            share = inside(share, 0, 100, len(set(prompts)))
        counts = (one.name, len(one.groups), one.truth.shape[1])
        less_first = (np.nan, np.nan, np.nan)
        if one is not judged[0] and _prompts(one) == _prompts(judged[0]):
            paired = difference(sums, first_sums, None, correlation, **resampled).at(0)
            less_first = tuple(map(float, paired))
        own = (one.agreement, float(low), float(high), len(right), *share, one.spread)
        rows.append((*counts, *own, *less_first))
    columns = ["answers", "prompts", "answers per prompt", *R, "pairs", *RIGHT, SPREAD, *LESS]
    return pd.DataFrame(rows, columns=columns)


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `table` for a reader: "0.67 [0.53, 0.78]" in a cell.

    table: of `table`.
    """
    cells = table[["answers", "prompts", "answers per prompt"]].copy()
    first = table.answers.iloc[0]
    quantities = {R: "R within a prompt", LESS: f"R minus R of {first}", RIGHT: "pairs right (%)"}
    for columns, name in quantities.items():
        digits = 0 if columns is RIGHT else 2
        numbers = table[list(columns)].itertuples(index=False, name=None)
        cells[name] = [interval(*row, digits=digits) for row in numbers]
    cells.insert(5, "pairs", table.pairs)
    cells[SPREAD] = table[SPREAD]
    return cells


def _is_lower(row: pd.Series, first: pd.Series) -> bool:
    """Whether R of a row of `table` is shown to be lower than that of the first one.

    Prompt by prompt, where both are of the same prompts, else by whether their intervals part.
    """
    if np.isnan(row[LESS[1]]):
        return bool(row[R[2]] < first[R[1]])
    return bool(row[LESS[2]] < 0)


def restricted(r: float, ratio: float) -> float:
    """Pearson's R where the spread of one side is so many times as large, all else alike.

    Thorndike's formula for range restriction: r u / sqrt(1 - r^2 + r^2 u^2). By hand: r = .6 and
    u = .5 give .3 / sqrt(.64 + .09) = .351.

    r: before. ratio: u, the new SD over the old one.
    """
    return float(r * ratio / np.sqrt(1 - r**2 + (r * ratio) ** 2))


def spread_in_words(table: pd.DataFrame) -> list[str]:
    """How far a smaller spread of the truth alone lowers R, for each set after the first.

    Sets whose spread is not smaller are passed over, and so are those whose R is not shown to be
    lower.

    table: of `table`.
    """
    first = table.iloc[0]
    texts = []
    for _, row in table.iloc[1:].iterrows():
        if not (row[SPREAD] < first[SPREAD] and _is_lower(row, first)):
            continue
        expected = restricted(first[R[0]], row[SPREAD] / first[SPREAD])
        rest = "That alone may explain it"
        if _is_unexplained(row, first):
            rest = "That alone does not explain it"
        texts.append(
            f"The truth spreads less among {row.answers} (SD {row[SPREAD]:.2f} after "
            f"{first[SPREAD]:.2f}). By the formula for range restriction that alone lowers R from "
            f"{first[R[0]]:.2f} to about {expected:.2f}, and R is {row[R[0]]:.2f} "
            f"({row[R[1]]:.2f} to {row[R[2]]:.2f}). {rest}."
        )
    return texts


def _is_unexplained(row: pd.Series, first: pd.Series) -> bool:
    """Whether R of a row of `table` is lower than its smaller spread of the truth makes it."""
    return bool(restricted(first[R[0]], row[SPREAD] / first[SPREAD]) > row[R[2]])


def seen_in_words(table: pd.DataFrame) -> list[str]:
    """What a judge sees of a policy's answers and of the first set: pairs right, then R.

    Pairs come first, as they truly differ in both sets. R falls with the spread of the truth too.

    table: the rows of `table` of the two sets.
    """
    first = table.iloc[0]
    row = table.iloc[-1]
    shares = []
    for one in (first, row):
        bounds = f"{one[RIGHT[1]]:.0f} to {one[RIGHT[2]]:.0f}"
        shares.append(f"Among {one.answers} it has {one[RIGHT[0]]:.0f} % right ({bounds}).")
    texts = [
        f"The judge orders pairs whose truth differs by {APART} or more. {' '.join(shares)} "
        "Chance is 50 %."
    ]
    if _is_lower(row, first):
        falls = f"R also falls, from {first[R[0]]:.2f} to {row[R[0]]:.2f}"
        if row[SPREAD] >= first[SPREAD]:
            texts.append(f"{falls}, and the truth spreads no less.")
        elif _is_unexplained(row, first):
            texts.append(f"{falls}, and a smaller spread alone does not explain that.")
        else:
            texts.append(f"{falls}, but a smaller spread may explain that alone.")
    return texts


def _products(judged: Judged) -> np.ndarray:
    """Sums of products, squares of truth and squares of scores of each prompt, [prompts, 3]."""
    truth, scores = judged.centred
    return np.stack([(truth * scores).sum(1), (truth**2).sum(1), (scores**2).sum(1)], axis=1)


def _prompts(judged: Judged) -> list[str]:
    """The ids of the prompts, in their order."""
    return [group.id for group in judged.groups]


def correlation(sums: np.ndarray) -> np.ndarray:
    """Pearson's R of each row of sums: products, squares of truth, squares of scores.

    [B, 3] to [B, 1].
    """
    products, of_truth, of_scores = sums.T
    return (products / np.sqrt(of_truth * of_scores))[:, None]


def _pairs_right(judged: Judged) -> tuple[np.ndarray, list[str]]:
    """Of each pair that truly differs 100 where the better one has the higher score, else 0.

    Equal scores count 50. Returns these numbers and the prompts that they are of.
    """
    right = []
    prompts = []
    n = judged.truth.shape[1]
    for group, truth, scores in zip(judged.groups, judged.truth, judged.scores, strict=True):
        for first in range(n):
            for second in range(first):
                gap = truth[first] - truth[second]
                if abs(gap) >= APART:
                    agrees = np.sign(gap) * np.sign(scores[first] - scores[second])
                    right.append(50 * (1 + agrees))
                    prompts.append(group.id)
    return np.array(right), prompts


BY_JUDGE = "reward model"
BY_TRUTH = "truth"


def places(judged: Judged, **resampled: int) -> pd.DataFrame:
    """The mean truth of the answer at each place of an order, the best first.

    The order is the reward model's or, for comparison, that of the truth. Rows (ordered by, place,
    truth, 95 % low, 95 % high). resampled: n_boot and seed.
    """
    ids = [group.id for group in judged.groups]
    rows = []
    for name, order_by in ((BY_JUDGE, judged.scores), (BY_TRUTH, judged.truth)):
        order = np.argsort(-order_by, axis=1, kind="stable")  # [prompts, n]
        ordered = np.take_along_axis(judged.truth, order, axis=1)
        for place, truth in enumerate(ordered.T, 1):
            rows.append((name, place, *questions.mean(truth, ids, **resampled)))
    return pd.DataFrame(rows, columns=["ordered by", "place", TRUTH, "95 % low", "95 % high"])


def misjudged(judged: Judged) -> list[tuple[Group, list[Answer]]]:
    """Prompts whose favourite by the reward model is truly worse than its last, the worst first.

    Each with two answers to show: the favourite and the last, as a pair for DPO would have them.
    """
    pairs = sorted(_favourites_and_lasts(judged), key=lambda row: row[0])
    return [(group, answers) for gap, group, answers in pairs if gap < 0]


def well_judged(judged: Judged) -> list[tuple[Group, list[Answer]]]:
    """As `misjudged`, of prompts whose favourite is truly better than its last."""
    return [(group, answers) for gap, group, answers in _favourites_and_lasts(judged) if gap > 0]


def _favourites_and_lasts(judged: Judged) -> list[tuple[float, Group, list[Answer]]]:
    """Of each prompt the truth of the favourite less that of the last, the prompt, and the two."""
    shown = []
    for group, truth, scores in zip(judged.groups, judged.truth, judged.scores, strict=True):
        best = int(scores.argmax())
        last = int(scores.argmin())
        answers = []
        for name, k in (("chosen by the reward model", best), ("rejected", last)):
            answers.append(Answer(name, group.responses[k].text, "", float(scores[k])))
        shown.append((truth[best] - truth[last], group, answers))
    return shown


def sentences(table: pd.DataFrame) -> list[str]:
    """A sentence on each set of answers after the first, beside the first.

    Sets of the same prompts are compared prompt by prompt, others by whether their intervals part.
    An R that may be nearly anything is not compared.

    table: of `table`.
    """
    rows = table.set_index("answers")
    first = rows.iloc[0]
    texts = []
    for name, row in rows.iloc[1:].iterrows():
        if max(row[R[2]] - row[R[1]], first[R[2]] - first[R[1]]) > ANYTHING:
            texts.append(f"{name}: too few answers to say whether R differs from the first set's.")
            continue
        change = "not shown to differ from"
        is_paired = not np.isnan(row[LESS[1]])
        is_higher = row[LESS[1]] > 0 if is_paired else row[R[1]] > first[R[2]]
        if _is_lower(row, first):
            change = "**lower than**"
        elif is_higher:
            change = "higher than"
        paired = ""
        if is_paired:
            bounds = f"{row[LESS[1]]:+.2f} to {row[LESS[2]]:+.2f}"
            paired = f" (paired {row[LESS[0]]:+.2f}, {bounds})"
        texts.append(
            f"{name}: R {row[R[0]]:.2f} ({row[R[1]]:.2f} to {row[R[2]]:.2f}),"
            f" {change} the {first[R[0]]:.2f} of {rows.index[0]}{paired};"
            f" {row[RIGHT[0]]:.0f} % of the pairs right."
        )
    return texts


def pairs_in_words(table: pd.DataFrame) -> str:
    """The share of pairs in the right order of each set of answers. table: of `table`."""
    shares = []
    for row in table.to_dict("records"):
        bounds = f"{row[RIGHT[1]]:.0f} to {row[RIGHT[2]]:.0f}"
        shares.append(f"{row['answers']} {row[RIGHT[0]]:.0f} % ({bounds})")
    return (
        f"Pairs of truly different answers in the reward model's right order: {', '.join(shares)}."
    )


def ends(judged: Judged, **resampled: int) -> pd.DataFrame:
    """The truth of the reward model's favourite and of its last, less that of a sample at random.

    Paired by prompt. Rows favourite and last; columns truth, difference, 95 % low, 95 % high.
    resampled: n_boot and seed.
    """
    everyone = np.arange(len(judged.truth))
    mean = judged.truth.mean(axis=1)  # [prompts]
    ids = [group.id for group in judged.groups]
    rows = {}
    for name, place in (("favourite", judged.scores.argmax(1)), ("last", judged.scores.argmin(1))):
        truth = judged.truth[everyone, place]  # [prompts]
        rows[name] = (truth.mean(), *questions.mean(truth - mean, ids, **resampled))
    columns = [TRUTH, "difference", "95 % low", "95 % high"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def title(judged: Judged, ends: pd.DataFrame) -> str:
    """The message of `places`. ends: of `ends`."""
    favourite = ends.loc["favourite"]
    n = judged.truth.shape[1]
    is_shown = favourite["95 % low"] > 0 or favourite["95 % high"] < 0
    return (
        f"The judge's favourite of {n}, beside a sample at random: {favourite.difference:+.2f} "
        f"points{'' if is_shown else ' (not shown)'}"
    )


def in_words(judged: Judged, ends: pd.DataFrame) -> list[str]:
    """What the reward model's favourite, a sample at random and its last are truly worth.

    ends: of `ends`.
    """
    texts = [
        f"The reward model's favourite of {judged.truth.shape[1]} has a truth of "
        f"{ends.truth['favourite']:.2f}, the mean sample {judged.truth.mean():.2f}, the last "
        f"{ends.truth['last']:.2f}; the truly best {judged.truth.max(axis=1).mean():.2f}."
    ]
    for name, row in ends.iterrows():
        verdict = "not shown to differ from"
        if row["95 % low"] > 0:
            verdict = "better than" if name == "favourite" else "**better than**"
        elif row["95 % high"] < 0:
            verdict = "**worse than**" if name == "favourite" else "worse than"
        interval = f"{row.difference:+.2f}, {row['95 % low']:.2f} to {row['95 % high']:.2f}"
        texts.append(f"The {name} is {verdict} a sample at random ({interval}).")
    return texts


def as_answers(sampled: SampledPairs, prompt: int = 0, most: int = 3) -> list[Answer]:
    """The first samples of a round for a prompt, to show; `most` of them. prompt: its number."""
    shown = []
    samples = sampled.groups[prompt].responses
    for k in range(min(most, len(samples))):
        shown.append(Answer(f"sample {k + 1}", samples[k].text, "", sampled.scores[prompt, k]))
    return shown


RIGHTLY = "rejected less chosen, rightly ordered"


def overlooked(
    mistakes: Sequence[tuple[Group, list[Answer]]], right: Sequence[tuple[Group, list[Answer]]]
) -> pd.DataFrame:
    """What the chosen samples of misjudged pairs lose more than the rejected ones, by part.

    mistakes: of `misjudged`. right: of `well_judged`.

    Returns rows (part, chosen, rejected, difference, `RIGHTLY`), points an answer
    (`hs2lib.corpus.grade.Grade.costs`), the largest difference first. The last column is what the
    rejected samples of the other pairs lose more than the chosen ones; nan without such pairs.
    """
    table = _costs_of_pairs(mistakes)
    table["difference"] = table.chosen - table.rejected
    table[RIGHTLY] = np.nan
    if right:
        of_right = _costs_of_pairs(right)
        table[RIGHTLY] = of_right.rejected - of_right.chosen
    return table.sort_values("difference", ascending=False).reset_index()


def _costs_of_pairs(pairs: Sequence[tuple[Group, list[Answer]]]) -> pd.DataFrame:
    """Points that the chosen and the rejected samples lose on average, by part."""
    chosen = []
    rejected = []
    for group, answers in pairs:
        task = task_of(group.id)
        chosen.append(grade(task, answers[0].text).costs)
        rejected.append(grade(task, answers[1].text).costs)
    means = {"chosen": pd.DataFrame(chosen).mean(), "rejected": pd.DataFrame(rejected).mean()}
    return pd.DataFrame(means).rename_axis("part")


def overlooked_in_words(lost: pd.DataFrame) -> str:
    """The part that the judge overlooked most, in words. lost: of `overlooked`.

    What is given back where an answer ends at 0 is no fault. The rightly ordered pairs stand
    beside it: a fault that weighs as much there is not one that the judge prefers.
    """
    most = lost[lost.part != GIVES_BACK].iloc[0]
    text = (
        f"In these pairs, picked because the chosen sample is truly worse, it loses most by "
        f"{most.part}: {most.difference:.2f} points more than the rejected one."
    )
    if not np.isnan(most[RIGHTLY]):
        text += (
            f" In the rightly ordered pairs the rejected sample loses {most[RIGHTLY]:.2f} points "
            f"more by {most.part}. Both sides were picked by their truth, so neither number alone "
            "says what the judge sees."
        )
    return text
