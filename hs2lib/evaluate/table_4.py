"""What the benchmarks say of every policy, in rows: all measures, whole benchmarks, and the paper's
Table 4.

    rows = measured(truthful, choices, graded.judged, **resampled)   # measure, policy, mean, 95 % low, 95 % high, note
    benchmarks(rows, policies)                                     # whole benchmarks under their own names
    paper_rows(rows, table_rows, questions)                        # as `Run.against_paper("table-4", ..)` takes them

Paper: Table 4, appendix H.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hs2lib.evaluate.answering import Answers
from hs2lib.evaluate.grading import PROTOCOLS, Judged
from hs2lib.evaluate.policies import COLUMNS
from hs2lib.evaluate.questions import Questions
from hs2lib.evaluate.truthfulqa import Categories, MultipleChoice, evaluate
from hs2lib.paper import MEASURES
from hs2lib.report.report import DASH

# Measures of whole benchmarks as `Judged.rows` names them, and the columns of Table 4.
TABLE_4 = {row["measure"]: row["column"] for row in MEASURES}

# Who judged in the paper, as a note of `Judged.rows` begins. Paper: appendix H.
PAPERS_JUDGES = dict.fromkeys(PROTOCOLS, "judge gpt-4-1106-preview") | {
    "MT-Bench": "judge gpt-4-0125-preview"
}


def multiple_choice(
    truthful: MultipleChoice, answers: Mapping[str, Answers], **resampled
) -> pd.DataFrame:
    """MC1 and MC2 of every policy: rows (measure, policy, questions, value, low, high, chance), MC1 first."""
    parts = []
    for name, each in answers.items():
        parts.append(evaluate(truthful, each.truthfulqa, **resampled).assign(policy=name))
    columns = ["measure", "policy", "questions", "value", "low", "high", "chance"]
    return pd.concat(parts)[columns].sort_values("measure", kind="stable").reset_index(drop=True)


def mc2_rows(choices: pd.DataFrame, title: str) -> pd.DataFrame:
    """The MC2 of `multiple_choice` in the form of `Judged.rows`; "TruthfulQA MC2" only if every question was asked."""
    rows = []
    for row in choices[choices.measure == "MC2"].itertuples():
        rows.append(
            (f"{title} MC2", row.policy, row.value, row.low, row.high, f"chance {row.chance:.3f}")
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def mc2_by_question(truthful: MultipleChoice, answers: Mapping[str, Answers]) -> list[pd.DataFrame]:
    """MC2 of every question, of each policy one frame in the form of `Judged.by_question`."""
    frames = []
    for name, each in answers.items():
        ids = each.truthfulqa.id
        rows = {"policy": name, "prompt": ids, "response": ids, "settings": truthful.title}
        rows["TruthfulQA MC2"] = each.truthfulqa.mc2
        frames.append(pd.DataFrame(rows))
    return frames


def measured(
    truthful: MultipleChoice, choices: pd.DataFrame, judged: Sequence[Judged], **resampled
) -> pd.DataFrame:
    """Every measure of every policy: MC2, then `Judged.rows`. resampled: n_boot and seed of the intervals."""
    parts = [mc2_rows(choices, truthful.title)]
    for each in judged:
        parts.append(each.rows(**resampled))
    return pd.concat(parts, ignore_index=True)


def judged_table(rows: pd.DataFrame) -> pd.DataFrame:
    """All measures but MC2: measures down, policies across, as text."""
    without = rows[~rows.measure.str.endswith("MC2")]
    return wide([without]).set_index("policy").T.rename_axis("measure")


def by_category(frames: Sequence[pd.DataFrame], questions: Questions) -> pd.DataFrame:
    """The mean of the last measure of `Judged.by_question` by category: categories down, policies
    across.

    That is the judge's grade, else the reward model's score, else characters.
    """
    whole = pd.concat(frames)
    measure = whole.columns[-1]
    category = whole.prompt.map(questions.categories).rename("category")
    means = whole.groupby([category, "policy"], sort=False)[measure].mean().unstack()
    return means.reindex(columns=whole.policy.unique()).rename_axis(columns=None)


def benchmarks(rows: pd.DataFrame, policies: Sequence[str]) -> pd.DataFrame:
    """Every policy's figure on every whole benchmark of Table 4, in `COLUMNS`; nan, and why, where
    there is none.

    Paper: Table 4. What stands under a benchmark's own name here was computed on all of it. A part
    of one, generated questions and a reward model's score have other names and are left out.
    """
    wanted = pd.MultiIndex.from_product([policies, TABLE_4], names=["policy", "measure"])
    table = rows.set_index(["policy", "measure"]).reindex(wanted).reset_index()
    return table.fillna({"note": "not run: not the whole benchmark"})[COLUMNS]


def paper_rows(
    rows: pd.DataFrame, table_rows: Mapping[str, str], asked: Sequence[Questions]
) -> pd.DataFrame:
    """Figures on whole benchmarks as `Run.against_paper("table-4", ..)` takes them.

    Paper: Table 4, appendix H (judges). table_rows: policy -> row of the table; a policy that has
    none is not here. asked: TruthfulQA and the others, whose sources stand in the column data.
    Columns: row, column, ours, low, high, data, and not comparable ("other judge", or "difficulties
    recovered").
    """
    known = rows[rows.measure.isin(TABLE_4) & rows.policy.isin(table_rows) & rows["mean"].notna()]
    benchmark = known.measure.str.extract(
        f"^({'|'.join([*PAPERS_JUDGES, 'TruthfulQA'])})", expand=False
    )
    graded = known.note.str.startswith("judge ")
    other_judge = graded & ~known.note.str.startswith(tuple(PAPERS_JUDGES.values()))
    recovered = known.measure.str.contains("recovered")
    sources = {questions.benchmark: questions.loaded.source for questions in asked}
    table = pd.DataFrame(
        {
            "row": known.policy.map(table_rows),
            "column": known.measure.map(TABLE_4),
            "ours": known["mean"],
            "low": known["95 % low"],
            "high": known["95 % high"],
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
    """How large the benchmarks are, counted in what was read: rows (quantity, value); nan where it
    was generated.

    Paper: appendix H. truthful: before any subset is taken. asked: MT-Bench, Arena Hard,
    AlpacaEval; their loaders refuse a file that is not whole, so `whole` was counted there.
    """
    n_options = []
    for group in truthful.groups:
        n_options.append(sum(not np.isnan(response.labels[1]) for response in group.responses))
    counted = {
        questions.benchmark: np.nan if questions.generated else questions.whole
        for questions in asked
    }
    rows = {
        "MT-Bench questions": counted["MT-Bench"],
        "TruthfulQA questions": len(n_options) if truthful.complete else np.nan,
        "TruthfulQA categories": categories.number if categories else np.nan,
        "TruthfulQA MC2 options, mean": np.mean(n_options) if truthful.complete else np.nan,
        "AlpacaEval instructions": counted["AlpacaEval 2"],
        "Arena Hard prompts": counted["Arena Hard"],
    }
    return pd.DataFrame(rows.items(), columns=["quantity", "value"])


def wide(rows: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Policies down, measures across, as text: "7.96 [7.70, 8.21]", "not run: no judge", or a dash."""
    whole = pd.concat(rows, ignore_index=True)
    whole["cell"] = [_cell(*row) for row in whole[COLUMNS[2:]].itertuples(index=False)]
    table = whole.pivot(index="policy", columns="measure", values="cell").fillna(DASH)
    table = table.loc[whole.policy.unique(), whole.measure.unique()]
    return table.rename_axis(columns=None).reset_index()


def _cell(value: float, low: float, high: float, note: str) -> str:
    """One number with its interval, as text."""
    if np.isnan(value):
        return note or DASH
    if np.isnan(low) or np.isnan(high):
        return f"{value:.2f}"
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def trade_sentences(traded: pd.DataFrame, base: str) -> list[str]:
    """How many differences of `policies.trades` are clear, and each of these."""
    clear = traded[(traded["95 % low"] > 0) | (traded["95 % high"] < 0)]
    by_chance = 0.05 * len(traded)
    lines = [
        f"**Benchmarks**: {len(clear)} of {len(traded)} differences from {base} have an interval that leaves out 0; "
        f"by chance alone about {by_chance:.0f} would."
    ]
    for row in clear.to_dict("records"):
        interval = f"{row['95 % low']:.3g} to {row['95 % high']:.3g}"
        lines.append(
            f"{row['policy']} {row['gain']:+.3g} ({interval}) in {row['measure']}, {row['benchmark']}."
        )
    return lines
