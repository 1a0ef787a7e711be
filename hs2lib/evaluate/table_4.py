"""What the benchmarks say of every policy: all measures, whole benchmarks, the paper's Table 4.

    rows = measured(truthful, choices, graded.judged, **resampled)  # one row a measure and policy
    benchmarks(rows, policies)                  # whole benchmarks under their own names
    paper_rows(rows, table_rows, questions)     # for `Run.against_paper("table-4", ..)`

Rows have the columns `hs2lib.evaluate.policies.COLUMNS`: measure, policy, mean, 95 % low, 95 %
high, note.

Paper: Table 4, appendix H.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hs2lib.evaluate import alpaca_eval
from hs2lib.evaluate.answering import Answers
from hs2lib.evaluate.grading import PROTOCOLS, Judged
from hs2lib.evaluate.policies import COLUMNS
from hs2lib.evaluate.questions import Questions
from hs2lib.evaluate.truthfulqa import Categories, MultipleChoice, evaluate
from hs2lib.paper import MEASURES
from hs2lib.report.report import DASH

SATURATED = 0.95  # a share of right choices from which on differences can only be small

# Measures of whole benchmarks as `Judged.rows` names them, and the columns of Table 4.
TABLE_4 = {row["measure"]: row["column"] for row in MEASURES}

# Who judged in the paper, as a note of `Judged.rows` begins. Paper: appendix H.
PAPERS_JUDGES = {
    **dict.fromkeys(PROTOCOLS, "judge gpt-4-1106-preview"),
    "MT-Bench": "judge gpt-4-0125-preview",
}


def multiple_choice(
    truthful: MultipleChoice, answers: Mapping[str, Answers], **resampled: int
) -> pd.DataFrame:
    """MC1 and MC2 of every policy, MC1 first.

    Rows (measure, policy, questions, value, low, high, chance).

    truthful: TruthfulQA's questions.
    answers: by policy.
    resampled: n_boot and seed of the intervals.
    """
    tables = []
    for policy, answers_of_policy in answers.items():
        table = evaluate(truthful, answers_of_policy.truthfulqa, **resampled)
        tables.append(table.assign(policy=policy))
    columns = ["measure", "policy", "questions", "value", "low", "high", "chance"]
    joined = pd.concat(tables)[columns]
    return joined.sort_values("measure", kind="stable").reset_index(drop=True)


def mc2_rows(choices: pd.DataFrame, title: str) -> pd.DataFrame:
    """The MC2 of `multiple_choice` in the form of `Judged.rows`.

    choices: of `multiple_choice`.
    title: of the questions, which is "TruthfulQA" only if every question was asked.
    """
    rows = []
    for row in choices[choices.measure == "MC2"].itertuples():
        rows.append(
            (f"{title} MC2", row.policy, row.value, row.low, row.high, f"chance {row.chance:.3f}")
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def mc2_by_question(truthful: MultipleChoice, answers: Mapping[str, Answers]) -> list[pd.DataFrame]:
    """MC2 of every question, one frame a policy in the form of `Judged.by_question`."""
    frames = []
    for policy, answers_of_policy in answers.items():
        scored = answers_of_policy.truthfulqa
        columns = {
            "policy": policy,
            "prompt": scored.id,
            "response": scored.id,
            "settings": truthful.title,
            "TruthfulQA MC2": scored.mc2,
        }
        frames.append(pd.DataFrame(columns))
    return frames


def measured(
    truthful: MultipleChoice, choices: pd.DataFrame, judged: Sequence[Judged], **resampled: int
) -> pd.DataFrame:
    """Every measure of every policy: MC2, then `Judged.rows`.

    truthful: TruthfulQA's questions.
    choices: of `multiple_choice`.
    judged: every policy on every other benchmark.
    resampled: n_boot and seed of the intervals.
    """
    tables = [mc2_rows(choices, truthful.title)]
    for policy_on_benchmark in judged:
        tables.append(policy_on_benchmark.rows(**resampled))
    return pd.concat(tables, ignore_index=True)


def judged_table(rows: pd.DataFrame) -> pd.DataFrame:
    """All measures but MC2: measures down, policies across, as text."""
    without_mc2 = rows[~rows.measure.str.endswith("MC2")]
    return wide([without_mc2]).set_index("policy").T.rename_axis("measure")


# Measures that few readers want: the protocols' own intervals, and the parts of the LC regression.
_INTERNALS = ("low, points", "high, points", "SE of", "weight ", "characters")


def headline(rows: pd.DataFrame) -> pd.DataFrame:
    """The measures that matter, policies down, as text; those that nobody graded are left out.

    A raw win rate has the interval of its standard error.

    rows: of `measured`.
    """
    rows = _with_standard_errors(rows)
    names = rows.measure
    internal = pd.Series(False, index=rows.index)
    for part in _INTERNALS:
        internal |= names.str.contains(part, regex=False)
    graded = rows.groupby("measure")["mean"].transform("count") > 0
    return wide([rows[~internal & graded]])


def _with_standard_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, each raw win rate with 1.96 of its standard error to each side, within 0 to 100."""
    rows = rows.copy()
    error_of = rows.set_index(["measure", "policy"])["mean"]
    for number, row in rows[rows.measure.str.endswith(alpaca_eval.RAW)].iterrows():
        name = row.measure.removesuffix(alpaca_eval.RAW) + alpaca_eval.RAW_SE
        reach = 1.96 * error_of.get((name, row.policy), np.nan)
        rows.loc[number, "95 % low"] = np.maximum(row["mean"] - reach, 0)
        rows.loc[number, "95 % high"] = np.minimum(row["mean"] + reach, 100)
    return rows


def headline_sentences(rows: pd.DataFrame, base: str) -> list[str]:
    """What each column of `headline` goes from and to, and who has no number; a sentence each.

    rows: of `measured`. base: the policy that the others are compared with.
    """
    lines = []
    for measure in headline(rows).columns.drop("policy"):
        values = rows[rows.measure == measure].set_index("policy")["mean"]
        if values.min() == values.max():
            line = f"{measure}: {values.min():.2f} for every policy."
        else:
            line = (
                f"{measure}: from {values.min():.2f} ({values.idxmin()}) to {values.max():.2f} "
                f"({values.idxmax()}); {base} has {values.get(base, np.nan):.2f}."
            )
        without = values.index[values.isna()]
        if len(without):
            line += f" No number: {', '.join(without)}."
        weightless = [policy for policy in without if _is_weightless(rows, measure, policy)]
        if weightless:
            line += (
                f" The fit's penalty on weights sets theta to 0 for {', '.join(weightless)}. "
                "The rate would be 50 %, whatever was judged, so it is left out."
            )
        lines.append(line)
    return lines


def _is_weightless(rows: pd.DataFrame, measure: str, policy: str) -> bool:
    """Whether the fit behind a measure left this policy none of the weights that make its rate.

    Not where none was fitted. The weight of length makes no rate.

    rows: of `measured`.
    """
    benchmark = measure.rpartition(": ")[0]
    counted = [f"{benchmark}: {name}" for name in alpaca_eval.COUNTED]
    weights = rows["mean"][rows.measure.isin(counted) & (rows.policy == policy)].dropna()
    return len(weights) > 0 and bool((weights == 0).all())


def multiple_choice_sentences(choices: pd.DataFrame, base: str) -> list[str]:
    """What MC1 and MC2 say of the policies, and whether differences can only be small.

    choices: of `multiple_choice`. base: the policy that the others are compared with.
    """
    lines = []
    for measure, part in choices.groupby("measure", sort=False):
        by_policy = part.set_index("policy").value
        if by_policy.min() >= SATURATED:
            lowest = np.floor(100 * by_policy.min()) / 100
            lines.append(
                f"{measure} is at least {lowest:.2f} for every policy. The questions are easy for "
                "them, so differences are small."
            )
            continue
        lines.append(
            f"{measure} is highest for {by_policy.idxmax()} ({by_policy.max():.3f}), lowest for "
            f"{by_policy.idxmin()} ({by_policy.min():.3f}); {base} has {by_policy[base]:.3f}, "
            f"chance {part.chance.iloc[0]:.3f}."
        )
    return lines


def by_category(frames: Sequence[pd.DataFrame], questions: Questions) -> pd.DataFrame:
    """The mean of one measure by category: categories down, policies across.

    It is the last measure of `Judged.by_question`: the judge's grade, else the reward model's
    score, else characters.

    frames: one a policy, of `Judged.by_question`.
    questions: that were answered.
    """
    joined = pd.concat(frames)
    measure = joined.columns[-1]
    category = joined.prompt.map(questions.categories).rename("category")
    means = joined.groupby([category, "policy"], sort=False)[measure].mean().unstack()
    return means.reindex(columns=joined.policy.unique()).rename_axis(columns=None)


def benchmarks(rows: pd.DataFrame, policies: Sequence[str]) -> pd.DataFrame:
    """Every policy's figure on every whole benchmark of Table 4, in `COLUMNS`.

    Paper: Table 4. What stands under a benchmark's own name here was computed on all of it. A part
    of one, generated questions and a reward model's score have other names and are left out. Where
    there is no figure, the mean is nan and the note says why.
    """
    wanted = pd.MultiIndex.from_product([policies, TABLE_4], names=["policy", "measure"])
    table = rows.set_index(["policy", "measure"]).reindex(wanted).reset_index()
    return table.fillna({"note": "not run: not the whole benchmark"})[COLUMNS]


def paper_rows(
    rows: pd.DataFrame, table_rows: Mapping[str, str], asked: Sequence[Questions]
) -> pd.DataFrame:
    """Figures on whole benchmarks as `Run.against_paper("table-4", ..)` takes them.

    Paper: Table 4, appendix H (judges).

    rows: of `measured`.
    table_rows: policy -> row of the table; a policy that has none is left out.
    asked: TruthfulQA and the others, whose sources stand in the column data.

    Returns the columns row, column, ours, low, high, data, and not comparable ("other judge", or
    "difficulties recovered").
    """
    in_table = rows.measure.isin(TABLE_4) & rows.policy.isin(table_rows)
    figures = rows[in_table & rows["mean"].notna()]
    names = "|".join([*PAPERS_JUDGES, "TruthfulQA"])
    benchmark = figures.measure.str.extract(f"^({names})", expand=False)
    graded = figures.note.str.startswith("judge ")
    other_judge = graded & ~figures.note.str.startswith(tuple(PAPERS_JUDGES.values()))
    recovered = figures.measure.str.contains("recovered")
    sources = {questions.benchmark: questions.loaded.source for questions in asked}
    table = pd.DataFrame(
        {
            "row": figures.policy.map(table_rows),
            "column": figures.measure.map(TABLE_4),
            "ours": figures["mean"],
            "low": figures["95 % low"],
            "high": figures["95 % high"],
            "data": benchmark.map(sources),
            "not comparable": np.select(
                [other_judge, recovered], ["other judge", "difficulties recovered"], ""
            ),
        }
    )
    return table.reset_index(drop=True)


def sizes(
    truthful: MultipleChoice, categories: Categories | None, asked: Sequence[Questions]
) -> pd.DataFrame:
    """How large the benchmarks are, counted in what was read: rows (quantity, value).

    Paper: appendix H. The value is nan where the questions were generated.

    truthful: TruthfulQA's questions, before any subset is taken.
    categories: of TruthfulQA; None where they are not known.
    asked: MT-Bench, Arena Hard, AlpacaEval. Their loaders refuse a file that is not whole, so
        `whole` was counted there.
    """
    n_options = []
    for group in truthful.groups:
        n_options.append(sum(not np.isnan(response.labels[1]) for response in group.responses))
    counted = {}
    for questions in asked:
        counted[questions.benchmark] = np.nan if questions.generated else questions.whole
    values = {
        "MT-Bench questions": counted["MT-Bench"],
        "TruthfulQA questions": len(n_options) if truthful.complete else np.nan,
        "TruthfulQA categories": categories.number if categories else np.nan,
        "TruthfulQA MC2 options, mean": np.mean(n_options) if truthful.complete else np.nan,
        "AlpacaEval instructions": counted["AlpacaEval 2"],
        "Arena Hard prompts": counted["Arena Hard"],
    }
    return pd.DataFrame(values.items(), columns=["quantity", "value"])


def wide(rows: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Policies down, measures across, as text.

    A cell is as "7.96 [7.70, 8.21]", "not run: no judge", "no number" where a judge's verdicts give
    none, or a dash.
    """
    joined = pd.concat(rows, ignore_index=True)
    joined["cell"] = [_cell(*row) for row in joined[COLUMNS[2:]].itertuples(index=False)]
    table = joined.pivot(index="policy", columns="measure", values="cell").fillna(DASH)
    table = table.loc[joined.policy.unique(), joined.measure.unique()]
    return table.rename_axis(columns=None).reset_index()


def _cell(value: float, low: float, high: float, note: str) -> str:
    """One number with its interval, as text."""
    if np.isnan(value):
        return "no number" if note.startswith("judge ") else note or DASH
    if np.isnan(low) or np.isnan(high):
        return f"{value:.2f}"
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def clear_trades(traded: pd.DataFrame) -> tuple[int, int, int]:
    """How many differences there are, how many are clear gains, and how many clear losses.

    More characters are neither gain nor loss, and are not counted.
    """
    judged = traded[traded.measure != "characters"]
    n_gains = int((judged["95 % low"] > 0).sum())
    n_losses = int((judged["95 % high"] < 0).sum())
    return len(judged), n_gains, n_losses


def trades_title(traded: pd.DataFrame, base: str) -> str:
    """The message of a figure of `policies.benchmark_gains`: how much is clear."""
    n, n_gains, n_losses = clear_trades(traded)
    return (
        f"Of {n} differences from {base}, lengths aside, clear gains: {n_gains}, "
        f"clear losses: {n_losses}"
    )


def _quantities(traded: pd.DataFrame) -> str:
    """What the differences of `clear_trades` are in, in words."""
    has_mc2 = traded.measure.str.endswith("MC2").any()
    return "MC2, grades and win rates" if has_mc2 else "grades and win rates"


def trade_sentences(traded: pd.DataFrame, base: str) -> list[str]:
    """How many gains over `base` are clear (of `policies.benchmark_gains`), and each of these."""
    clear = traded[(traded["95 % low"] > 0) | (traded["95 % high"] < 0)]
    n, n_gains, n_losses = clear_trades(traded)
    lines = [
        f"**Benchmarks**: {n} differences from {base} in {_quantities(traded)}. "
        f"Clear gains (the interval leaves out 0): {n_gains}. Clear losses: {n_losses}. "
        f"By chance alone about {0.05 * n:.0f} would be clear."
    ]
    for row in clear.to_dict("records"):
        interval = f"{row['95 % low']:.3g} to {row['95 % high']:.3g}"
        lines.append(
            f"{row['policy']} {row['gain']:+.3g} ({interval}) "
            f"in {row['measure']}, {row['benchmark']}."
        )
    return lines
