"""The ledger of claims: every quantitative statement of the paper's text, and its verdict by tier.

    table = ledger(["demo", "laptop"], reports())  # one row a claim and tier
    html = page(table)  # the same as a page to filter, without a script

The claims stand in `ledger_data`, `ledger_reward_model`, `ledger_alignment` and
`ledger_appendices`, each with what can test it. This module has the kinds of test.

Paper: the whole text. Verdicts are computed, never typed. A number of a run counts only if the run
read nothing but rows that the paper describes (`of_paper` in its manifest) or, for the size of a
public benchmark, nothing generated. What comes from generated data is never evidence: the verdict
then is "needs hardware or data", and the note says that the code ran. Where text and tables of the
paper disagree, that is the verdict at every tier.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

from hs2lib import paper
from hs2lib.report import (
    ledger_alignment,
    ledger_appendices,
    ledger_data,
    ledger_reward_model,
    style,
    tables,
    templates,
)
from hs2lib.report.ledger import (
    CONTRADICTED,
    DIGIT,
    DIRECTION,
    NEEDS,
    SLIP,
    VERDICTS,
    Claim,
    Finding,
    Reported,
    agrees,
    condition,
    number,
    unit,
)
from hs2lib.report.report import CompletedRun, Run, csv_text, not_comparable
from hs2lib.report.verdict import CONSISTENT, DIFFERENT, EXACT, JUDGED

# The evidence for a verdict
PAPERS_NUMBERS = "numbers that the paper and its sources print"
RUN = "our run"
NONE = "none"

CUT_OFF = "cut off, not rounded"  # the note of a number whose last digits were left out

COLUMNS = [
    "id",
    "place",
    "notebook",
    "claim",
    "numbers",
    "contradicted by",
    "tier",
    "verdict",
    "evidence",
    "outcome",
    "note",
]

# In the order of the paper.
CLAIMS: tuple[Claim, ...] = (
    *ledger_data.CLAIMS,
    *ledger_reward_model.CLAIMS,
    *ledger_alignment.CLAIMS,
    *ledger_appendices.CLAIMS,
)

# What notebook 13 leaves of two policies on the same questions.
TRADES = "trades.csv"

# A measure of Table 4 -> (benchmark, measure) in `TRADES`. The benchmark has its own name only
# where all of it was asked. AlpacaEval's length-controlled rate is a regression over all questions,
# which leaves nothing to pair.
MEASURES = {
    row["column"]: (row["benchmark"], row["by question"])
    for row in paper.MEASURES
    if row["benchmark"]
}

# A row of Table 4 -> our policy.
POLICIES = {row: policy for policy, row in paper.PAPER_ROWS.items()}

# The least part of a difference between two numbers of the paper that still has its direction.
LEAST = 0.5

# How much wider an interval of 95 % is at 95 % for all comparisons of the ledger together.
_COMPARISONS = {pair for claim in CLAIMS for pair in claim.better}
WIDER = norm.isf(0.025 / len(_COMPARISONS)) / norm.isf(0.025)


# What the paper's own numbers say


def check(claim: Claim) -> Finding | None:
    """What a claim's check says of the numbers it prints; None where it has no check."""
    return claim.check(claim.numbers) if claim.check else None


def derived(claim: Claim) -> Finding | None:
    """What the paper's own numbers say of a claim; None where they say nothing.

    A number that the text takes from a table must round to the text's digits, else it is a slip.
    Whether the table itself is right, only a run can tell.

    Paper: where `claim.place` says.
    """
    finding = check(claim)
    if finding and finding.verdict in (SLIP, CONTRADICTED):
        return finding
    differ = []
    cut_off = True
    for printed, cell in zip(claim.numbers, claim.cells, strict=False):
        value = paper.value(*cell)
        if not agrees(value, printed):
            table = paper.TABLES[cell[0]].source.split(", ")[1]
            differ.append(f"the text has {printed}, {table} {value:g}")
        size = abs(number(printed))
        if not size <= abs(value) < size + unit(printed):
            cut_off = False
    if not differ:
        return finding
    return Finding(SLIP, "; ".join(differ), CUT_OFF if cut_off else "")


# What a run says: a finding, or why there is none


def _no_evidence(claim: Claim, report: CompletedRun | None, of_paper: bool) -> str:
    """Why a notebook's report says nothing of a claim; "" where it may."""
    if not report:
        return f"notebook {claim.notebook[:2]} has not run"
    if report.generated:
        return f"notebook {claim.notebook[:2]} ran on generated data, which is no evidence"
    if of_paper and not_comparable(report.manifest["sources"]):
        return f"notebook {claim.notebook[:2]} ran on other data"
    return ""


def from_cells(claim: Claim, tier: str, root: Path) -> Finding | str:
    """Our numbers in the cells that the claim repeats."""
    assembled = {}
    for table in {table for table, *_ in claim.cells}:
        assembled[table] = tables.assemble(table, tier, root).set_index(["row", "column"])
    rows = [assembled[table].loc[(row, column)] for table, row, column in claim.cells]
    if any("generated" in row.verdict for row in rows):
        return f"notebook {rows[0].notebook[:2]} ran on generated data, which is no evidence"
    judged = [row for row in rows if row.verdict in JUDGED]
    words = ", ".join(f"{row.ours:.4g} (paper {row.paper:g})" for row in judged)
    if len(judged) < len(rows):
        missing = [row.reason for row in rows if row.verdict not in JUDGED and row.reason]
        return tables.joined(f"in part: {words}" if words else "", *missing[:1])
    verdicts = {row.verdict for row in rows}
    if verdicts <= {EXACT, CONSISTENT}:
        printed = zip(rows, claim.numbers, strict=False)
        if all(agrees(row.ours, text) for row, text in printed):
            return Finding(DIGIT, words)
        note = "consistent by the rule of the table, not to its last digit"
        return Finding(DIRECTION, words, note)
    # Two numbers in one claim compare something: the direction may hold though the numbers do not.
    if len(rows) > 1 and all(_as_far_apart(one, other) for one, other in pairwise(rows)):
        # Where policies are compared, their paired differences say more than the order of two
        # numbers.
        return f"other numbers: {words}" if claim.better else Finding(DIRECTION, words)
    if DIFFERENT not in verdicts:
        return f"inconclusive: {words}"
    return Finding(CONTRADICTED, words)


def _as_far_apart(one: pd.Series, other: pd.Series) -> bool:
    """Whether two numbers of ours differ in the paper's direction, and at least half as much.

    By hand: 1.44 and 1.70 in place of 497.3 and 1,492.6 characters rise, and are no response that
    is 3 times as long.
    """
    ours = other.ours - one.ours
    papers = other.paper - one.paper
    return np.sign(ours) == np.sign(papers) and abs(ours) >= LEAST * abs(papers)


def from_report(claim: Claim, tier: str, root: Path) -> Finding | str:
    """One number of a csv in the notebook's report."""
    wanted = claim.reported
    report = tables.report_of(tier, claim.notebook, root)
    why = _no_evidence(claim, report, wanted.of_paper)
    if why:
        return why
    frame = report.table(wanted.file)
    if frame is None or wanted.value not in frame or (wanted.where and wanted.where not in frame):
        return f"no {wanted.file} with {wanted.value!r} in the report"
    values = frame[wanted.value]
    if wanted.where:
        values = values[frame[wanted.where] == wanted.row]
    if values[:1].isna().all():
        return f"no value for {wanted.row or wanted.value!r} in {wanted.file}"
    value = values.iloc[0]
    right = wanted.low - 1e-9 <= value <= wanted.high + 1e-9
    if not right and wanted.unless:
        return f"{value:,.4g}: {wanted.unless}"
    words = f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
    return Finding(DIGIT if right else CONTRADICTED, words)


def from_policies(claim: Claim, tier: str, root: Path) -> Finding | str:
    """Whether one policy of ours beats another as the paper's do, by paired differences.

    The interval of a difference has to leave out 0. The ledger compares many pairs, so the interval
    is taken `WIDER` (Bonferroni's correction over all of them). Either way counts alike: what may
    confirm at a size may contradict at it, and the note names the size. So this is about policies
    of ours, whoever judged them. The paper's rows alone are read by `from_cells` and `from_report`.
    """
    report = tables.report_of(tier, claim.notebook, root)
    why = _no_evidence(claim, report, of_paper=False)
    if why:
        return why
    gains = {}
    # The notebook's own run comes last, and so counts where a named run has the same pair.
    for run, *_ in reversed(tables.seeds_of(tier, [claim.notebook], root).values()):
        if not run.generated:
            gains |= _paired_gains(run.table(TRADES), run.notebook.partition("@")[2])
    words = []
    signs = []
    for measure, better, worse in claim.better:
        one = POLICIES.get(better, better)
        other = POLICIES.get(worse, worse)
        benchmark, by_question = MEASURES.get(measure, (measure, measure))
        pair = (benchmark, by_question, one, other)
        if pair not in gains:
            return f"no {measure} of {one} against {other} on the whole benchmark in {TRADES}"
        gain, low, high = gains[pair]
        words.append(f"{measure}, {one} minus {other}: {gain:+.4g} [{low:.4g}, {high:.4g}]")
        if gain > WIDER * (gain - low):
            signs.append(1)
        elif -gain > WIDER * (high - gain):
            signs.append(-1)
        else:
            signs.append(0)
    seen = "; ".join(words)
    if 0 in signs:
        return f"no clear difference: {seen}"
    size = "policies of ours, at the size and on the data of this tier"
    return Finding(DIRECTION if min(signs) > 0 else CONTRADICTED, seen, size)


def _paired_gains(
    frame: pd.DataFrame | None, name: str = ""
) -> dict[tuple[str, ...], tuple[float, ...]]:
    """(benchmark, measure, policy, other) -> (gain, low, high), in both directions.

    frame: as in `TRADES`, where each pair stands once. name: of a named run. A policy that it alone
    can have trained is called by it too, as in POLICIES.
    """
    if frame is None:
        return {}
    columns = ["benchmark", "measure", "policy", "against", *paper.GAIN]
    rows = frame.dropna(subset=paper.GAIN)[columns]
    if name:
        renamed = {}
        for policy in paper.PAPER_ROWS:
            method, _, run = policy.partition("@")
            if run == name:
                renamed[method] = policy
        rows = rows.replace(renamed)
    turned = {}
    straight = {}
    for benchmark, measure, one, other, gain, low, high in rows.to_numpy():
        turned[benchmark, measure, other, one] = (-gain, -high, -low)
        straight[benchmark, measure, one, other] = (gain, low, high)
    return turned | straight


def _from_run(claim: Claim, tier: str, root: Path) -> Finding | str:
    """What our runs at a tier say: the first test with an answer, else the first reason why not."""
    answers = []
    if claim.cells:
        answers.append(from_cells(claim, tier, root))
    if claim.reported:
        answers.append(from_report(claim, tier, root))
    if claim.better:
        answers.append(from_policies(claim, tier, root))
    for answer in answers:
        if isinstance(answer, Finding):
            return answer
    return next((answer for answer in answers if answer), "")


# The ledger


def verdict(claim: Claim, tier: str, root: Path) -> dict:
    """One row of the ledger, from the reports of one root.

    What decides, in order: a contradiction or slip within the paper; what a run on the paper's own
    rows gave; what the paper's own numbers give, for a claim that is about them alone; else no
    evidence.

    Paper: where `claim.place` says. Raises ValueError where a report was changed after its run.
    """
    own = derived(claim)
    if own and own.verdict in (SLIP, CONTRADICTED):
        finding = own
        evidence = PAPERS_NUMBERS
    else:
        ran = _from_run(claim, tier, root)
        if isinstance(ran, Finding):
            finding = ran
            evidence = RUN
        elif own and not claim.cells and not claim.reported:
            finding = own._replace(note=tables.joined(own.note, ran))
            evidence = PAPERS_NUMBERS
        else:
            within = f"within the paper: {own.words}" if own else ""
            finding = Finding(NEEDS, "", tables.joined(f"needs {claim.lacks}", ran, within))
            evidence = NONE
    return {
        "id": claim.id,
        "place": claim.place,
        "notebook": claim.notebook,
        "claim": claim.claim,
        "tier": tier,
        "numbers": ", ".join(claim.numbers),
        "contradicted by": contradicted_by(claim),
        "evidence": evidence,
        "verdict": finding.verdict,
        "outcome": finding.words,
        "note": finding.note,
    }


def contradicted_by(claim: Claim) -> str:
    """What would contradict a claim, in words, by the rules of its tests.

    Where it has no test, the words say why no run can show it. A number of a table is different by
    the margin and spread of its column (`report.verdict`).

    Paper: silent.
    """
    ways = []
    if claim.cells:
        ways.append(_other_cells(claim.cells))
    if claim.reported:
        ways.append(_outside(claim.reported))
    for measure, better, worse in claim.better:
        ways.append(f"{TRADES}: {better} clearly below {worse}, {measure}")
    if claim.check:
        holds = condition(claim.check)
        ways.append(f"the paper's own numbers, unless {holds} ({claim.check.__name__})")
    if ways:
        return "; or ".join(ways)
    against = claim.against or f"numbers that disagree with {', '.join(claim.numbers)}"
    return f"{against}; no run of ours is tested for that, it takes {claim.lacks}"


def _other_cells(cells: Iterable[tuple[str, str, str]]) -> str:
    """What would contradict numbers in cells of tables, in words."""
    named = []
    for table, row, column in cells:
        value = paper.value(table, row, column)
        named.append(f"against-{table}.csv: {row}, {column} ({value:g})")
    order = ", in another order or less than half as far apart" if len(named) > 1 else ""
    return f"numbers of ours *different* from the paper's{order}: {' and '.join(named)}"


def _outside(wanted: Reported) -> str:
    """What would contradict a number of a csv, in words."""
    of_row = f" of {wanted.row}" if wanted.row else ""
    room = f"not {wanted.low:,}"
    if wanted.low < wanted.high:
        room = f"outside {wanted.low:,} to {wanted.high:,}"
    return f"{wanted.file}: {wanted.value}{of_row} {room}"


def ledger(tiers: Sequence[str], root: Path) -> pd.DataFrame:
    """The whole ledger, one row a claim and tier (columns `COLUMNS`), in the order of the paper.

    Paper: the text.
    """
    return pd.DataFrame(
        [verdict(claim, tier, root) for claim in CLAIMS for tier in tiers], columns=COLUMNS
    )


def counts(table: pd.DataFrame) -> pd.DataFrame:
    """How many claims got each verdict on what evidence.

    Index (verdict, evidence), a column a tier. Paper: silent.
    """
    tally = pd.crosstab([table.verdict, table.evidence], table.tier)
    index = [(v, e) for v in VERDICTS for e in (RUN, PAPERS_NUMBERS, NONE) if (v, e) in tally.index]
    return tally.loc[index, list(dict.fromkeys(table.tier))].rename_axis(columns=None)


def conclusion(table: pd.DataFrame, tier: str) -> str:
    """Whether the paper is right, as far as a tier can say: a paragraph of counts.

    Paper: silent. table: as from `ledger`.
    """
    mine = table[table.tier == tier]
    tally = mine.groupby(["verdict", "evidence"]).size()

    def number_of(verdicts: Sequence[str], evidence: str) -> int:
        return int(sum(tally.get((verdict, evidence), 0) for verdict in verdicts))

    holds = (DIGIT, DIRECTION)
    fails = (SLIP, CONTRADICTED)
    exactly = number_of([DIGIT], PAPERS_NUMBERS)
    roughly = number_of([DIRECTION], PAPERS_NUMBERS)
    confirmed = number_of(holds, RUN)
    contradicted = number_of(fails, RUN)
    settled = confirmed + contradicted
    if contradicted:
        answer = f"In part: our runs contradict {contradicted} of the {settled} claims they settle."
    elif settled:
        answer = f"As far as it was tested: our runs confirm all {settled} claims they settle."
    else:
        answer = "Our runs do not settle it: none at this tier is on the paper's data."
    is_off = mine.verdict.isin(fails) & (mine.evidence == PAPERS_NUMBERS)
    off = f" ({how_they_fail(mine[is_off])})" if is_off.any() else ""
    return (
        f"**{answer}** The text makes {len(mine)} quantitative claims. "
        "By arithmetic on numbers that the paper and its sources print, "
        f"{exactly} follow to the digit, {roughly} follow in direction only, and "
        f"{number_of(fails, PAPERS_NUMBERS)} do not{off}. {number_of([NEEDS], NONE)} need "
        f"hardware or data that tier {tier} does not have."
    )


def how_they_fail(table: pd.DataFrame) -> str:
    """How often claims fail in which way, by numbers that the paper and its sources print.

    Paper: silent. table: rows of `ledger` that do not hold.
    """
    reading_of = {claim.id: claim.reading for claim in CLAIMS}
    ways: dict[str, int] = {}
    for row in table.to_dict("records"):
        reading = reading_of[row["id"]]
        if row["verdict"] == CONTRADICTED:
            way = "contradicted by the tables"
        elif row["note"] == CUT_OFF:
            way = "last digits cut off, not rounded"
        elif reading:
            way = f"not if {reading}"
        else:
            way = "arithmetic slip"
        ways[way] = ways.get(way, 0) + 1
    return "; ".join(f"{way}: {number}" for way, number in ways.items())


# Segment of the figure -> its colour, and the pairs of verdict and evidence in it.
SEGMENTS = {
    "our runs: to the digit": (style.GREEN, [(DIGIT, RUN)]),
    "our runs: direction only": (style.tint(style.GREEN, 0.35), [(DIRECTION, RUN)]),
    "our runs: contradicted": (style.VERMILLION, [(CONTRADICTED, RUN)]),
    "arithmetic: to the digit": (
        style.tint(style.SKY_BLUE, 0.8),
        [(DIGIT, PAPERS_NUMBERS)],
    ),
    "arithmetic: direction only": (
        style.tint(style.SKY_BLUE, 0.35),
        [(DIRECTION, PAPERS_NUMBERS)],
    ),
    "arithmetic: does not follow": (
        style.PURPLE,
        [(SLIP, PAPERS_NUMBERS), (CONTRADICTED, PAPERS_NUMBERS)],
    ),
    "no evidence: needs hardware or data": (style.tint(style.BLACK, 0.13), [(NEEDS, NONE)]),
}


def segments(table: pd.DataFrame) -> dict[str, tuple[str, list[int]]]:
    """Segment -> its colour and how many claims are in it at each tier; all claims are in one.

    Paper: silent. table: as from `counts`. Raises ValueError for a claim that is in no segment.
    """
    counted = {}
    for name, (shade, pairs) in SEGMENTS.items():
        numbers = table.reindex(pairs, fill_value=0).sum()
        counted[name] = (shade, [int(number) for number in numbers])
    total = sum(np.array(numbers) for _, numbers in counted.values())
    if (total != table.sum().to_numpy()).any():
        raise ValueError(f"claims that are in no segment: {table.index.tolist()}")
    return counted


def page(table: pd.DataFrame, name: str = "claims.html") -> str:
    """The ledger as one page of the site: filters by tier, verdict, section and notebook.

    The page has no script and loads nothing. All text is escaped.

    Paper: silent. table: as from `ledger`. name: the page's path in the site.
    """
    frame = table.assign(section=table.place)
    tiers = table.tier.unique()
    filters = {"tier": tiers}
    for column in ("verdict", "evidence", "section", "notebook"):
        filters[column] = sorted(frame[column].unique())
    sizes = {
        column: frame[column].value_counts() // len(tiers) for column in ("section", "notebook")
    }
    return templates.page(
        name,
        "claims",
        "Claims",
        filters=filters,
        sizes=sizes,
        rows=frame.to_dict("records"),
        number=table.id.nunique(),
        tally=counts(table).reset_index(),
        slug=_slug,
    )


def save(run: Run, table: pd.DataFrame) -> None:
    """Write the ledger into the report of a run as `claims.csv` and `claims.html`.

    Paper: silent.
    """
    number_of_claims = table.id.nunique()
    words = run.caption(
        f"The {number_of_claims} quantitative claims of the paper's text, and what became of them."
    )
    run.keep("claims.csv", csv_text(table), words)
    run.keep("claims.html", page(table, f"{run.tier}/{run.notebook}/claims.html"), words)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
