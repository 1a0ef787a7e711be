"""The ledger of claims: every quantitative statement of the paper's text, and its verdict at each
tier.

    table = ledger(["demo", "laptop"], reports())      # one row a claim and tier, from the reports of one root
    html = page(table)                                 # the same as a page to filter, without a script

The claims are data: `claims.yaml` has them all, each with what can test it. This module has the
kinds of test.

Paper: the whole text. Verdicts are computed, never typed. A number of a run counts only if the run
read nothing but rows that the paper describes (`of_paper` in its manifest) or, for the size of a
public benchmark, nothing generated. What comes from generated data is never evidence: the verdict
then is "needs hardware or data", and the note says that the code ran. Where text and tables of the
paper disagree, that is the verdict at every tier.
"""

import re
from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, StrictUndefined
from pydantic.dataclasses import dataclass
from scipy.stats import norm

from hs2lib import paper
from hs2lib.paths import read_yaml
from hs2lib.report import tables, templates
from hs2lib.report.report import csv_text, not_comparable
from hs2lib.report.verdict import CONSISTENT, DIFFERENT, EXACT, JUDGED

DIGIT, DIRECTION, CONTRADICTED = "to the digit", "direction only", "contradicted"
SLIP, NEEDS = "arithmetic slip in the paper", "needs hardware or data"
VERDICTS = (DIGIT, DIRECTION, CONTRADICTED, SLIP, NEEDS)

OWN, RUN, NONE = "the paper's own numbers", "our run", "none"

COLUMNS = ["id", "place", "notebook", "claim", "numbers", "contradicted by"]
COLUMNS += ["tier", "verdict", "evidence", "outcome", "note"]

# What notebook 13 leaves of two policies on the same questions. A measure of Table 4 -> (benchmark,
# measure) there; the benchmark has its own name only where all of it was asked. AlpacaEval's
# length-controlled rate is a regression over all questions, which leaves nothing to pair.
TRADES = "trades.csv"
MEASURES = {
    row["column"]: (row["benchmark"], row["by question"])
    for row in paper.MEASURES
    if row["benchmark"]
}
POLICIES = {row: policy for policy, row in paper.PAPER_ROWS.items()}


@dataclass(frozen=True)
class Claim:
    """One claim of `claims.yaml`, which explains the fields."""

    id: str
    place: str
    notebook: str
    claim: str
    numbers: Sequence[str]
    cells: Sequence[tuple[str, str, str]] = ()
    reported: dict = field(default_factory=dict)
    better: Sequence[tuple[str, str, str]] = ()
    lacks: str = "the released rows, from the Hub (tier paper)"
    check: dict = field(default_factory=dict)
    against: str = ""


LEDGER = read_yaml(__file__, "claims.yaml")

CLAIMS = tuple(Claim(**row) for row in LEDGER["claims"])


LEAST = 0.5  # of a difference that the paper has between two numbers: what still has its direction

# How much wider an interval of 95 % is at 95 % for all comparisons of the ledger together.
WIDER = norm.isf(0.025 / len({pair for claim in CLAIMS for pair in claim.better})) / norm.isf(0.025)


class Finding(NamedTuple):
    """verdict: one of `VERDICTS`. words: the number or numbers it rests on. note: what else to know."""

    verdict: str
    words: str
    note: str = ""


def number(printed: str) -> float:
    """The number that a printed text stands for; a k is a thousand. Raises ValueError where there is none."""
    return float(printed.replace(",", "").removesuffix("k")) * (
        1000 if printed.endswith("k") else 1
    )


def unit(printed: str) -> float:
    """One unit of the last digit that a text prints: "3.63" .01, "100k" 1,000."""
    return 10.0 ** -len(printed.partition(".")[2]) * (1000 if printed.endswith("k") else 1)


def agrees(value: float, printed: str) -> bool:
    """Whether `value` rounds to `printed` ("3.63", "21,362", "100k"). By hand: 3.6393 rounds to 3.64."""
    return abs(value - number(printed)) <= 0.5 * unit(printed) + 1e-9


# What a check may use: the names and lists of claims.yaml, the paper's tables as frames, its other
# numbers.


def same(*values: float) -> bool:
    """Whether all values are equal, but for rounding."""
    return np.allclose(values, values[0], rtol=1e-9, atol=0)


def listed(numbers: pd.Series) -> str:
    """Numbers with their names and signs, in words."""
    return ", ".join(f"{name} {value:+.4g}" for name, value in numbers.items())


_EXPRESSIONS = Environment(undefined=StrictUndefined)
_EXPRESSIONS.globals |= (
    LEDGER["names"]
    | LEDGER["lists"]
    | {
        **{name.replace("-", "_"): tables.columns(table) for name, table in paper.TABLES.items()},
        **{
            function.__name__: function
            for function in (number, agrees, same, listed, tables.regression, tables.williams)
        },
        "stated": paper.STATED,
        "weights": paper.HEAD_WEIGHTS,
        "subsets": paper.REWARDBENCH_COUNTS,
        "sections": paper.REWARDBENCH_SECTIONS,
    }
)

# What a check states -> the verdict where it holds, and the verdict where it does not.
KINDS = {"exact": (DIGIT, SLIP), "direction": (DIRECTION, CONTRADICTED)}


def work_out(text: str, values: dict) -> object:
    """The value of an expression of Jinja. Raises jinja2.UndefinedError for an unknown name."""
    return _EXPRESSIONS.compile_expression(text, undefined_to_none=False)(values)


def check(claim: Claim) -> Finding | None:
    """What a claim's check says; None where it has none. Raises jinja2.UndefinedError for an unknown name."""
    if not claim.check:
        return None
    values = {"printed": claim.numbers}
    for name, text in claim.check.get("values", {}).items():
        values[name] = work_out(str(text), values)
    (kind,) = KINDS.keys() & claim.check.keys()
    verdict = KINDS[kind][0 if work_out(claim.check[kind], values) else 1]
    return Finding(
        verdict, claim.check["words"].format(**values), claim.check.get("note", "").format(**values)
    )


def derived(claim: Claim) -> Finding | None:
    """What the paper's own numbers say of a claim; None where they say nothing.

    Paper: where `claim.place` says. A number that the text takes from a table must round to the
    text's digits, else it is a slip; whether the table itself is right, only a run can tell.
    """
    finding = check(claim)
    if finding and finding.verdict in (SLIP, CONTRADICTED):
        return finding
    cells = [
        (text, cell[0], paper.value(*cell))
        for text, cell in zip(claim.numbers, claim.cells, strict=False)
    ]
    off = [
        (text, paper.TABLES[name].source.split(", ")[1], v)
        for text, name, v in cells
        if not agrees(v, text)
    ]
    if not off:
        return finding
    words = "; ".join(f"the text has {text}, {table} {value:g}" for text, table, value in off)
    cut = all(
        abs(number(text)) <= abs(value) < abs(number(text)) + unit(text) for text, _, value in cells
    )
    return Finding(SLIP, words, "cut off, not rounded" if cut else "")


# What a run says: a finding, or why there is none.


def _no_evidence(claim: Claim, report, of_paper: bool) -> str:
    """Why a notebook's report says nothing of a claim; "" where it may."""
    if not report:
        return f"notebook {claim.notebook[:2]} has not run"
    if report.generated:
        return f"notebook {claim.notebook[:2]} ran on generated data, which is no evidence"
    other = of_paper and not_comparable(report.manifest["sources"])
    return f"notebook {claim.notebook[:2]} ran on other data" if other else ""


def from_cells(claim: Claim, tier: str, root: Path) -> Finding | str:
    """Our numbers in the cells that the claim repeats."""
    assembled = {
        table: tables.assemble(table, tier, root).set_index(["row", "column"])
        for table, *_ in claim.cells
    }
    rows = [assembled[table].loc[(row, column)] for table, row, column in claim.cells]
    if any("generated" in row.verdict for row in rows):
        return f"notebook {rows[0].notebook[:2]} ran on generated data, which is no evidence"
    judged = [row for row in rows if row.verdict in JUDGED]
    words = ", ".join(f"{row.ours:.4g} (paper {row.paper:g})" for row in judged)
    if len(judged) < len(rows):
        why = next((row.reason for row in rows if row.verdict not in JUDGED and row.reason), "")
        return "; ".join(filter(None, (words and f"in part: {words}", why)))
    verdicts = {row.verdict for row in rows}
    if verdicts <= {EXACT, CONSISTENT}:
        exact = all(
            agrees(row.ours, printed) for row, printed in zip(rows, claim.numbers, strict=False)
        )
        note = "" if exact else "consistent by the rule of the table, not to its last digit"
        return Finding(DIGIT if exact else DIRECTION, words, note)
    # Two numbers in one claim compare something: the direction may hold though the numbers do not.
    if len(rows) > 1 and all(_as_far_apart(one, other) for one, other in pairwise(rows)):
        # Where policies are compared, their paired differences say more than the order of two
        # numbers.
        return f"other numbers: {words}" if claim.better else Finding(DIRECTION, words)
    if DIFFERENT not in verdicts:
        return f"inconclusive: {words}"
    return Finding(CONTRADICTED, words)


def _as_far_apart(one: pd.Series, other: pd.Series) -> bool:
    """Whether two numbers of ours differ in the direction of the paper's two, and at least half as
    much.

    By hand: 1.44 and 1.70 in place of 497.3 and 1,492.6 characters rise, and are no response that
    is 3 times as long.
    """
    ours = other.ours - one.ours
    papers = other.paper - one.paper
    return np.sign(ours) == np.sign(papers) and abs(ours) >= LEAST * abs(papers)


def from_report(claim: Claim, tier: str, root: Path) -> Finding | str:
    """One number of a csv in the notebook's report."""
    want, report = claim.reported, tables.report_of(tier, claim.notebook, root)
    if why := _no_evidence(claim, report, want.get("of_paper", True)):
        return why
    frame, column, where = report.table(want["file"]), want["value"], want.get("where")
    if frame is None or column not in frame or (where and where not in frame):
        return f"no {want['file']} with {column!r} in the report"
    values = frame[column][frame[where] == want["row"]] if where else frame[column]
    if values[:1].isna().all():
        return f"no value for {want.get('row', column)!r} in {want['file']}"
    value = values.iloc[0]
    right = want["low"] - 1e-9 <= value <= want["high"] + 1e-9
    if not right and "unless" in want:
        return f"{value:,.4g}: {want['unless']}"
    return Finding(
        DIGIT if right else CONTRADICTED, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
    )


def from_policies(claim: Claim, tier: str, root: Path) -> Finding | str:
    """Whether one policy of ours beats another as the paper's do: paired differences whose interval
    leaves out 0.

    The ledger compares many pairs, so the interval is taken `WIDER` (Bonferroni's correction over
    all of them). Either way counts alike: what may confirm at a size may contradict at it, and the
    note names the size. So this is about policies of ours, whoever judged them; what reads the
    paper's rows alone is `from_cells` and `from_report`.
    """
    report = tables.report_of(tier, claim.notebook, root)
    if why := _no_evidence(claim, report, of_paper=False):
        return why
    gains, words, signs = {}, [], []
    for run, *_ in reversed(
        tables.seeds_of(tier, [claim.notebook], root).values()
    ):  # its own last: it counts
        gains |= (
            {}
            if run.generated
            else _paired_gains(run.table(TRADES), run.notebook.partition("@")[2])
        )
    for measure, better, worse in claim.better:
        one, other = POLICIES.get(better, better), POLICIES.get(worse, worse)
        pair = (*MEASURES.get(measure, (measure, measure)), one, other)
        if pair not in gains:
            return f"no {measure} of {one} against {other} on the whole benchmark in {TRADES}"
        gain, low, high = gains[pair]
        words.append(f"{measure}, {one} minus {other}: {gain:+.4g} [{low:.4g}, {high:.4g}]")
        signs.append(int(gain > WIDER * (gain - low)) - int(-gain > WIDER * (high - gain)))
    seen, size = "; ".join(words), "policies of ours, at the size and on the data of this tier"
    if 0 in signs:
        return f"no clear difference: {seen}"
    return Finding(DIRECTION if min(signs) > 0 else CONTRADICTED, seen, size)


def _paired_gains(
    frame: pd.DataFrame | None, name: str = ""
) -> dict[tuple[str, ...], tuple[float, ...]]:
    """(benchmark, measure, policy, other) -> (gain, low, high), whichever of the two was taken from
    the other.

    name: of a named run. A policy that it alone can have trained is called by it too, as in
    POLICIES.
    """
    columns = ["benchmark", "measure", "policy", "against", *paper.GAIN]
    own = {
        policy.partition("@")[0]: policy
        for policy in paper.PAPER_ROWS
        if policy.partition("@")[2] == name
    }
    rows = (
        []
        if frame is None
        else frame.dropna(subset=paper.GAIN)[columns].replace(own if name else {}).to_numpy()
    )
    turned = {
        (b, m, other, one): (-gain, -high, -low) for b, m, one, other, gain, low, high in rows
    }
    return turned | {tuple(row[:4]): tuple(row[4:]) for row in rows}


def _from_run(claim: Claim, tier: str, root: Path) -> Finding | str:
    """What our runs at a tier say of a claim: the first test with an answer, else the first reason why not."""
    tests = (
        (claim.cells, from_cells),
        (claim.reported, from_report),
        (claim.better, from_policies),
    )
    answers = [test(claim, tier, root) for wanted, test in tests if wanted]
    return next(
        (answer for answer in answers if isinstance(answer, Finding)),
        next(filter(None, answers), ""),
    )


def verdict(claim: Claim, tier: str, root: Path) -> dict:
    """One row of the ledger, from the reports of one root.

    Paper: where `claim.place` says. In order: a contradiction or slip within the paper; what a run
    on the paper's own rows gave; what the paper's own numbers give, for a claim that is about them
    alone; else no evidence. Raises ValueError where a report was changed after its run.
    """
    own = derived(claim)
    ran = own if own and own.verdict in (SLIP, CONTRADICTED) else _from_run(claim, tier, root)
    if isinstance(ran, Finding):
        finding, evidence = ran, OWN if ran is own else RUN
    elif own and not claim.cells and not claim.reported:
        finding, evidence = own._replace(note="; ".join(filter(None, (own.note, ran)))), OWN
    else:
        note = "; ".join(
            filter(None, (f"needs {claim.lacks}", ran, own and f"within the paper: {own.words}"))
        )
        finding, evidence = Finding(NEEDS, "", note), NONE
    row = {
        "id": claim.id,
        "place": claim.place,
        "notebook": claim.notebook,
        "claim": claim.claim,
        "tier": tier,
    }
    row |= {
        "numbers": ", ".join(claim.numbers),
        "contradicted by": contradicted_by(claim),
        "evidence": evidence,
    }
    return row | {"verdict": finding.verdict, "outcome": finding.words, "note": finding.note}


def contradicted_by(claim: Claim) -> str:
    """What would contradict a claim, in words, by the rules of its tests; where it has none, why no
    run can show it.

    Paper: silent. A number of a table is different by the margin and spread of its column
    (`report.verdict`).
    """
    cells = [
        f"against-{t}.csv: {row}, {column} ({paper.value(t, row, column):g})"
        for t, row, column in claim.cells
    ]
    order = ", in another order or less than half as far apart" if len(cells) > 1 else ""
    ways = (
        [f"numbers of ours *different* from the paper's{order}: {' and '.join(cells)}"]
        if cells
        else []
    )
    for want in [claim.reported] if claim.reported else []:
        what = want["value"] + (f" of {want['row']}" if "row" in want else "")
        room = (
            f"outside {want['low']:,} to {want['high']:,}"
            if want["low"] < want["high"]
            else f"not {want['low']:,}"
        )
        ways.append(f"{want['file']}: {what} {room}")
    ways += [
        f"{TRADES}: {better} clearly below {worse}, {measure}"
        for measure, better, worse in claim.better
    ]
    for kind in KINDS.keys() & claim.check.keys():
        ways.append(f"the paper's own numbers, unless {claim.check[kind]} ({claim.check['name']})")
    against = claim.against or f"numbers that disagree with {', '.join(claim.numbers)}"
    return (
        "; or ".join(ways)
        or f"{against}; no run of ours is tested for that, it takes {claim.lacks}"
    )


def ledger(tiers: Sequence[str], root: Path) -> pd.DataFrame:
    """The whole ledger, one row a claim and tier (columns `COLUMNS`), in the order of the paper. Paper: the text."""
    return pd.DataFrame(
        [verdict(claim, tier, root) for claim in CLAIMS for tier in tiers], columns=COLUMNS
    )


def counts(table: pd.DataFrame) -> pd.DataFrame:
    """How many claims got each verdict on what evidence: index (verdict, evidence), a column a tier. Paper: silent."""
    tally = pd.crosstab([table.verdict, table.evidence], table.tier)
    index = [(v, e) for v in VERDICTS for e in (RUN, OWN, NONE) if (v, e) in tally.index]
    return tally.loc[index, list(dict.fromkeys(table.tier))].rename_axis(columns=None)


def page(table: pd.DataFrame, name: str = "claims.html") -> str:
    """The ledger as one page of the site: filters by tier, verdict, section and notebook; no
    script, nothing to load.

    Paper: silent. table: as from `ledger`. name: the page's path in the site. All text is escaped.
    """
    frame, tiers = table.assign(section=table.place), table.tier.unique()
    filters = {"tier": tiers}
    filters |= {
        name: sorted(frame[name].unique())
        for name in ("verdict", "evidence", "section", "notebook")
    }
    sizes = {
        column: frame[column].value_counts() // len(tiers) for column in ("section", "notebook")
    }
    shown = {
        "filters": filters,
        "sizes": sizes,
        "rows": frame.to_dict("records"),
        "number": table.id.nunique(),
    }
    return templates.page(
        name, "claims", "Claims", **shown, tally=counts(table).reset_index(), slug=_slug
    )


def save(run, table: pd.DataFrame) -> None:
    """Write the ledger into the report of a run as `claims.csv` and `claims.html`. Paper: silent. run: `report.Run`."""
    words = run.caption(
        f"The {table.id.nunique()} quantitative claims of the paper's text, and what became of them."
    )
    run.keep("claims.csv", csv_text(table), words)
    run.keep("claims.html", page(table, f"{run.tier}/{run.notebook}/claims.html"), words)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
