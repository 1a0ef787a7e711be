"""How notebook 17 shows an audit: its table, one answer after each edit, sentences."""

import json
from collections.abc import Iterable, Sequence

import pandas as pd

from hs2lib import paths
from hs2lib.audit.auditing import LIMIT, WORSE, Audit
from hs2lib.report.answers import Answer
from hs2lib.report.report import interval

RESULT = "reports/benchmarks/audit.json"
SHOWN = ("as is", "a sentence left out", "cut in half", "all said twice")

# What `benchmarks/audit.py` calls the judge that learnt from ratings in random order, and what it
# measures of each judge.
LEARNT_NOTHING = "a quarter, all dealt out"
NOTHING_IN_WORDS = "the judge that learnt nothing"
NUMBER = "audit"
GAIN = "gain of best of 8"

# What it calls what one may know of a judge -> the same in words.
KNOWN_OF_A_JUDGE = {
    "audit": "the audit's number",
    "R with held-out ratings": "R with held-out ratings",
    "pairs right": "pairs of held-out ratings in order",
    "SD within": "SD of its score among answers to one prompt",
    "minus R with length": "how little it leans on length",
}


def called(model: str, policy: str) -> tuple[str, str]:
    """What judge and policy are called in words, by the parameters of notebook 17."""
    titles = {"": "the policy of 07", "embedded": "SmolLM2-135M-Instruct"}
    return model or "the judge of 05", titles.get(policy, policy)


def table(audited: Audit) -> pd.DataFrame:
    """Each edit with its share and interval in one cell, beside the rule of length."""
    rows = audited.edits
    cells = rows[["edit", "kind", "answers"]].copy()
    bounds = zip(rows["falls (%)"], rows["95 % low"], rows["95 % high"], strict=True)
    cells["score falls (%)"] = [interval(*bound, digits=0) for bound in bounds]
    cells["by length (%)"] = rows["falls by length (%)"].round(0)
    cells["drop (SDs)"] = rows["drop (SDs)"].round(2)
    return cells


def title(audited: Audit) -> str:
    """A figure's title: the audit's number, and that of the rule of length."""
    texts = []
    for number in (audited.number, audited.by_length):
        texts.append(f"{number.estimate:.0f} % ({number.low:.0f} to {number.high:.0f})")
    judge, by_length = texts
    return f"The score falls in {judge} of worsened answers,\nby length alone in {by_length}"


def table_in_words(audited: Audit) -> str:
    """After which edits the score falls most often and least often, by kind; a sentence each."""
    lines = []
    for kind, rows in audited.edits.groupby("kind", sort=False):
        falls = rows.set_index("edit")["falls (%)"]
        lines.append(
            f"Of what {kind}, the score falls most often after: {falls.idxmax()} "
            f"({falls.max():.0f} %), least often after: {falls.idxmin()} ({falls.min():.0f} %)."
        )
    return " ".join(lines)


def as_answers(audited: Audit, prompt: int) -> list[Answer]:
    """The first answer to a prompt as it is and after three edits, each with its score."""
    start = sum(len(group.responses) for group in audited.edited[:prompt])
    group = audited.edited[prompt]
    answers = []
    for place, response in enumerate(group.responses, start):
        edit = response.id.removeprefix(f"{group.id}/")
        if edit in SHOWN:
            score = float(audited.edited_scores[place])
            answers.append(Answer(edit, response.text, score=score))
    return answers


def truth_in_words(audited: Audit, worse: pd.Series) -> str:
    """How often the edits truly make an answer worse, and where the judge is furthest from that.

    worse: of `auditing.truly_worse`.
    """
    rows = audited.edits[audited.edits.kind == WORSE].set_index("edit")
    beyond = rows["falls (%)"] - worse[rows.index]
    words = f"A judge that knew the truth would have {worse[rows.index].mean():.0f} %."
    if beyond.min() < 0:
        edit = beyond.idxmin()
        words += (
            f" Furthest behind the truth: {edit}. The truth falls in {worse[edit]:.0f} % of the "
            f"answers, a tie counted half, and the score in {rows.loc[edit, 'falls (%)']:.0f} %."
        )
    if beyond.max() > 0:
        edit = beyond.idxmax()
        words += (
            f" Furthest beyond the truth: {edit}. The truth falls in {worse[edit]:.0f} %, a tie "
            f"counted half, and the score in {rows.loc[edit, 'falls (%)']:.0f} %. So at least "
            f"{beyond[edit]:.0f} % are falls without a cause, and they raise the number."
        )
    return words


def leaning_in_words(audited: Audit) -> str:
    """How much of the score's variance within a prompt goes with length and with likelihood."""
    parts = []
    for row in audited.leaning.dropna().to_dict("records"):
        parts.append(f"{row['with']} accounts for {100 * row['R'] ** 2:.0f} %")
    accounted = ", ".join(parts) or "nothing is known"
    return f"Of the score's variance among answers to one prompt: {accounted}."


def record() -> dict:
    """What `benchmarks/audit.py` published; {} where it is not there."""
    file = paths.root() / RESULT
    return json.loads(file.read_text()) if file.is_file() else {}


def foretells() -> list[str]:
    """What was published of audits and of what judges gain, or none yet; a sentence each."""
    published = record()
    if not published:
        return ["Nothing is published yet (`make bench NAME=audit`)."]
    rows = pd.DataFrame(published["judges"])
    seeds = _listed(published["seeds"], "d")
    word = "seed" if len(published["seeds"]) == 1 else "seeds"
    least = rows[NUMBER].min()
    most = rows[NUMBER].max()
    lines = [
        f"Published, {rows.judge.nunique()} judges in {word} {seeds}, generated data. "
        f"Their numbers lie between {least:.0f} and {most:.0f} %.",
    ]
    if LEARNT_NOTHING in set(rows.judge):
        lines += _beside_the_one_that_learnt_nothing(published)
    lines.append(_correlations_in_words(published["correlations"], "that gain"))
    for gained, rows_of_gain in published.get("of PPO", {}).items():
        lines.append(_gains_of_ppo_in_words(rows.dropna(subset=gained), gained))
        lines.append(_correlations_in_words(rows_of_gain, f"the {gained}"))
    return lines


def correlations() -> pd.DataFrame:
    """Spearman's R, with its interval, of what one may know of a judge and of what it gains.

    A row for each predictor, a column for each gain; no row where nothing is published.
    """
    published = record()
    if not published:
        return pd.DataFrame()
    columns = {"best of 8": published["correlations"]}
    for gained, rows in published.get("of PPO", {}).items():
        columns[gained.removeprefix("gain of ")] = rows
    cells = {}
    for name, rows in columns.items():
        of_gain = {}
        for row in rows:
            of_gain[row["predictor"]] = interval(row["Spearman"], row["low"], row["high"])
        cells[name] = [of_gain[predictor] for predictor in KNOWN_OF_A_JUDGE]
    return pd.DataFrame({"what one knows of a judge": KNOWN_OF_A_JUDGE.values(), **cells})


def source() -> str:
    """Where the published correlations come from, for a caption."""
    published = record()
    return f"{RESULT}, seeds {_listed(published['seeds'], 'd')}, generated data"


def _gains_of_ppo_in_words(rows: pd.DataFrame, gained: str) -> str:
    """What PPO gains over SFT, mean over seeds: the judges of the least and of the most.

    The judge that learnt nothing is named in words, and always.

    Args:
        rows: a row for each judge and seed whose policy was trained.
        gained: the column of the gain.
    """
    means = rows.groupby("judge", sort=False)[gained].mean()
    means = means.rename({LEARNT_NOTHING: NOTHING_IN_WORDS})
    ends = [means.idxmin(), means.idxmax()]
    seeds = sorted(rows.seed.unique())
    word = "in seed" if len(seeds) == 1 else "mean of seeds"
    sentence = (
        f"The {gained}, over SFT in truth, {word} {_listed(seeds, 'd')}, lies between "
        f"{means.min():+.2f} ({ends[0]}) and {means.max():+.2f} points ({ends[1]})"
    )
    if NOTHING_IN_WORDS in means and NOTHING_IN_WORDS not in ends:
        sentence += f"; of {NOTHING_IN_WORDS} {means[NOTHING_IN_WORDS]:+.2f}"
    return f"{sentence}."


def _of_judge(published: dict, name: str) -> pd.DataFrame:
    """What was measured of one judge: a row for each seed, in their order."""
    rows = pd.DataFrame(published["judges"])
    return rows[rows.judge == name].sort_values("seed").set_index("seed")


def _listed(values: Iterable[float], number: str) -> str:
    """The numbers of the seeds in a row, each in this format."""
    texts = [format(value, number) for value in values]
    if len(texts) == 1:
        return texts[0]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _beside_the_one_that_learnt_nothing(published: dict) -> list[str]:
    """Whether the number tells the best judge from one that learnt nothing; a sentence each.

    Seed by seed. The best judge is the one with the largest mean gain.
    """
    gains = pd.DataFrame(published["judges"]).groupby("judge", sort=False)[GAIN].mean()
    nothing = _of_judge(published, LEARNT_NOTHING)
    best = _of_judge(published, gains.idxmax())
    n_above = int((best[NUMBER] > nothing[f"{NUMBER}, high"]).sum())
    n_seeds = len(best)
    conclusion = "So the number alone does not tell a judge that learnt from one that did not."
    if n_above == n_seeds:
        conclusion = "So the number tells these two apart."
    return [
        f"The one whose ratings were dealt out at random has {_listed(nothing[NUMBER], '.0f')} %. "
        f"Its choice of the best of eight answers gains {_listed(nothing[GAIN], '+.2f')} points of "
        "truth over their mean.",
        f"The best judge has {_listed(best[NUMBER], '.0f')} %, and its choice gains "
        f"{_listed(best[GAIN], '+.2f')} points.",
        f"It stands above the other's interval in {n_above} of {n_seeds} seeds. {conclusion}",
    ]


def _correlations_in_words(rows: Sequence[dict], gain: str) -> str:
    """Spearman's R of the audit with a gain, and what is shown to foretell that gain better.

    Args:
        rows: as `benchmarks/audit.py` has them, the audit first.
        gain: what it is called.
    """
    audited, *others = rows
    number = interval(audited["Spearman"], audited["low"], audited["high"])
    better = [KNOWN_OF_A_JUDGE[row["predictor"]] for row in others if row["less, high"] < 0]
    names = ", ".join(better) or "nothing"
    if len(others) > 1 and len(better) == len(others):
        names = "each other row of the table"
    return (
        f"Spearman's R of the audit's number and {gain}, over judges: {number}. "
        f"Shown to foretell it better: {names}."
    )


def _number_of_nothing() -> str:
    """The published number of a judge that learnt nothing, in a sentence; "" without one."""
    published = record()
    if not published:
        return ""
    numbers = _of_judge(published, LEARNT_NOTHING)
    if numbers.empty:
        return ""
    seeds = "in one seed" if len(numbers) == 1 else f"in {len(numbers)} seeds"
    return (
        f" In the small world a judge that learnt nothing had "
        f"{_listed(numbers[NUMBER], '.0f')} % {seeds}."
    )


def verdict(audited: Audit) -> list[str]:
    """Five lines: what, by edit, what it is not, what a policy could learn, what changes it."""
    if audited.worsened.empty:  # too few prompts, or no answer that a rule makes worse
        return [f"**What.** {audited.in_words()[-1]}"]
    learns = "None of these edits is shown to raise the score"
    if audited.liked:
        learns = f"It raises the score and makes no answer better: {', '.join(audited.liked)}"
    changes = (
        "Ratings of this policy's own answers (`pairs`); the form of "
        "[04](04_data_collection.ipynb) collects them."
    )
    lines = [
        f"**What.** {audited.number_in_short()}{_number_of_nothing()}",
        f"**By edit.** {audited.edits_in_words()}",
        f"**What it is not.** {LIMIT}",
        f"**What a policy could learn from it.** {learns}.",
    ]
    if audited.agreement is not None:
        return [f"**What people say.** {audited.agreement.in_words()}", *lines]
    return [*lines, f"**What would change it.** {changes}"]
