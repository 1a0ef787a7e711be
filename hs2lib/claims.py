"""The ledger of claims: every quantitative statement of the paper's text, and what became of it at each tier.

    table = ledger(["demo", "laptop"])      # one row a claim and tier, from reports alone
    html = page(table)                      # the same as a page to filter, without a script

Paper: the whole text. Verdicts are computed, never typed. A number of a run counts only if the run read nothing but
rows that the paper describes (`of_paper` in its manifest) or, for the size of a public benchmark, nothing generated.
What comes from generated data is never evidence: the verdict then is "needs hardware or data", and the note says that
the code ran. Where text and tables of the paper disagree, that is the verdict at every tier.
"""

import html as _html
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from hs2lib import assembly, claims_alignment, claims_arithmetic, judged_table, site_pages
from hs2lib.claims_arithmetic import CONTRADICTED, DIGIT, DIRECTION, NEEDS, SLIP, VERDICTS, Finding, agrees, number
from hs2lib.claims_data import CLAIMS, Claim
from hs2lib.paper_evaluation import TABLES

OWN, RUN, NONE = "the paper's own numbers", "our run", "none"
# What notebook 13 leaves of two policies on the same questions: rows as `judged_table.trades` has them. A measure of
# Table 4 -> (benchmark, measure) there; the benchmark has its own name only where all of it was asked. AlpacaEval's
# length-controlled rate is a regression over all questions, which leaves nothing to pair.
TRADES = "trades.csv"
MEASURES = {
    "TruthfulQA MC2": ("TruthfulQA", "TruthfulQA MC2"),
    "MT-Bench": ("MT-Bench", judged_table.GRADE),
    "Arena Hard": ("Arena Hard", judged_table.WON),
}
POLICIES = {row: policy for policy, row in judged_table.PAPER_ROWS.items()}
COLUMNS = ["id", "place", "notebook", "claim", "said", "test", "tier", "verdict", "evidence", "found", "note"]


def derived(claim: Claim) -> Finding | None:
    """What the paper's own numbers say of a claim; None where they say nothing.

    Paper: where `claim.place` says. A number that the text takes from a table must round to the text's digits, else it
    is a slip; whether the table itself is right, only a run can tell.
    """
    found = None
    if claim.derive:
        module = claims_arithmetic if hasattr(claims_arithmetic, claim.derive) else claims_alignment
        found = getattr(module, claim.derive)(claim)
    off = []
    for said, cell in zip(claim.said, claim.cells, strict=False):
        table, row, column = cell
        value = TABLES[table].values[row, column]
        if not agrees(value, said):
            off.append(f"the text has {said}, {TABLES[table].source.split(', ')[1]} {value:g}")
    if off and (found is None or found.verdict not in (SLIP, CONTRADICTED)):
        return Finding(SLIP, "; ".join(off), "cut off, not rounded" if all(map(_cut, claim.said, claim.cells)) else "")
    return found


def verdict(claim: Claim, tier: str) -> dict:
    """One row of the ledger.

    Paper: where `claim.place` says. In order: a contradiction or slip within the paper; what a run on the paper's own
    rows gave; what the paper's own numbers give, for a claim that is about them alone; else nothing can be said. That
    is also the end where policies below the paper's size show the opposite: the note has what was seen.
    Raises ValueError where a report was changed after its run.
    """
    own = derived(claim)
    row = {"id": claim.id, "place": claim.place, "notebook": claim.notebook, "claim": claim.claim}
    row |= {"said": ", ".join(claim.said), "test": tested_by(claim), "tier": tier}
    if own and own.verdict in (SLIP, CONTRADICTED):
        return row | {"verdict": own.verdict, "evidence": OWN, "found": own.found, "note": own.note}
    ran, why = _ran(claim, tier)
    if ran and ran.verdict != NEEDS:
        return row | {"verdict": ran.verdict, "evidence": RUN, "found": ran.found, "note": ran.note}
    if own and not ran and not claim.cells and not claim.reported:
        note = "; ".join(filter(None, (own.note, why)))
        return row | {"verdict": own.verdict, "evidence": OWN, "found": own.found, "note": note}
    seen = ran.note if ran else why
    note = "; ".join(filter(None, (f"needs {claim.lacking}", seen, own and f"within the paper: {own.found}")))
    return row | {"verdict": NEEDS, "evidence": NONE, "found": "", "note": note}


def ledger(tiers: Sequence[str]) -> pd.DataFrame:
    """The whole ledger, one row a claim and tier (columns `COLUMNS`), in the order of the paper. Paper: the text."""
    return pd.DataFrame([verdict(claim, tier) for claim in CLAIMS for tier in tiers], columns=COLUMNS)


def counts(table: pd.DataFrame) -> pd.DataFrame:
    """How many claims got each verdict on what evidence: index (verdict, evidence), a column a tier. Paper: silent."""
    found = pd.crosstab([table.verdict, table.evidence], table.tier)
    order = [(v, e) for v in VERDICTS for e in (RUN, OWN, NONE) if (v, e) in found.index]
    return found.loc[order, list(dict.fromkeys(table.tier))].rename_axis(columns=None)


def tested_by(claim: Claim) -> str:
    """What tests a claim, in words. Paper: silent."""
    ways = [f"against-{t}.csv: {row}, {column}" for t, row, column in claim.cells]
    ways += [f"{claim.reported.file}: {claim.reported.row or claim.reported.value}"] if claim.reported else []
    ways += [f"{TRADES}: {better} above {worse}, {measure}" for measure, better, worse in claim.better]
    ways += [f"arithmetic: {claim.derive}"] if claim.derive else []
    return "; ".join(ways) or "nothing at hand"


def _cut(said: str, cell: tuple[str, str, str]) -> bool:
    value = TABLES[cell[0]].values[cell[1:]]
    return abs(number(said)) <= abs(value) < abs(number(said)) + claims_arithmetic.unit(said)


def _ran(claim: Claim, tier: str) -> tuple[Finding | None, str]:
    """What our run at this tier says; else None and why not."""
    why = ""
    for look in (_cells, _reported, _better):
        found, reason = look(claim, tier)
        if found:
            return found, ""
        why = why or reason
    return None, why


def _cells(claim: Claim, tier: str) -> tuple[Finding | None, str]:
    if not claim.cells:
        return None, ""
    tables = {table: assembly.assemble(table, tier).set_index(["row", "column"]) for table, *_ in claim.cells}
    rows = [tables[table].loc[(row, column)] for table, row, column in claim.cells]
    verdicts = [r.verdict for r in rows]
    if any("generated" in v for v in verdicts):
        return None, f"notebook {rows[0].notebook[:2]} ran on generated data, which is no evidence"
    words = ", ".join(f"{r.ours:.4g} (paper {r.paper:g})" for r in rows if r.verdict in ("match", "differs"))
    if any(v not in ("match", "differs") for v in verdicts):
        why = next((r.reason for r in rows if r.verdict not in ("match", "differs") and r.reason), "")
        return None, "; ".join(filter(None, (words and f"in part: {words}", why)))
    if all(v == "match" for v in verdicts):
        exact = all(agrees(r.ours, said) for r, said in zip(rows, claim.said, strict=False))
        note = "" if exact else "within the tolerance that the table has, not to its last digit"
        return Finding(DIGIT if exact else DIRECTION, words, note), ""
    # Two numbers in one claim compare something: the direction may hold though the numbers do not.
    same = len(rows) > 1 and all(np.sign(a.ours - b.ours) == np.sign(a.paper - b.paper) for a, b in pairwise(rows))
    return Finding(DIRECTION if same else CONTRADICTED, words), ""


def _reported(claim: Claim, tier: str) -> tuple[Finding | None, str]:
    want = claim.reported
    report = want and assembly.read(tier, claim.notebook)
    if not report:
        return None, f"notebook {claim.notebook[:2]} has not run" if want else ""
    if report.generated:
        return None, f"notebook {claim.notebook[:2]} ran on generated data, which is no evidence"
    if want.of_paper and not report.of_paper:
        return None, f"notebook {claim.notebook[:2]} ran on other data"
    frame = report.table(want.file)
    if frame is None or want.value not in frame or (want.where and want.where not in frame):
        return None, f"no {want.file} with {want.value!r} in the report"
    frame = frame[frame[want.where] == want.row] if want.where else frame
    value = frame[want.value].iloc[0] if len(frame) else np.nan
    if pd.isna(value):
        return None, f"no value for {want.row or want.value!r} in {want.file}"
    right = want.low - 1e-9 <= value <= want.high + 1e-9
    return Finding(DIGIT if right else CONTRADICTED, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"), ""


def _better(claim: Claim, tier: str) -> tuple[Finding | None, str]:
    """Whether one policy of ours beats another as the paper's do: paired differences whose interval leaves out 0.

    A small policy that shows the opposite contradicts nothing said of 70B: only tier paper can.
    """
    report = assembly.read(tier, claim.notebook) if claim.better else None
    if not report:
        return None, f"notebook {claim.notebook[:2]} has not run" if claim.better else ""
    if report.generated:
        return None, f"notebook {claim.notebook[:2]} ran on generated data, which is no evidence"
    frame, words, signs = report.table(TRADES), [], []
    for measure, better, worse in claim.better:
        of = POLICIES.get(better, better), POLICIES.get(worse, worse)
        gap = _gap(frame, MEASURES.get(measure, (measure, measure)), *of)
        if gap is None:
            return None, f"no {measure} of {of[0]} against {of[1]} on the whole benchmark in {TRADES}"
        value, low, high = gap
        words.append(f"{measure}, {of[0]} less {of[1]}: {value:+.4g} [{low:.4g}, {high:.4g}]")
        signs.append((low > 0) - (high < 0))
    said, size = "; ".join(words), "policies of ours, at the size and on the data of this tier"
    if min(signs) > 0:
        return Finding(DIRECTION, said, size), ""
    if min(signs) < 0 and tier != "paper":
        return Finding(NEEDS, "", f"{size}, show the opposite: {said}"), ""
    if min(signs) < 0:
        return Finding(CONTRADICTED, said, size), ""
    return None, f"no clear difference: {said}"


def _gap(frame: pd.DataFrame | None, key: tuple[str, str], one: str, other: str) -> tuple[float, float, float] | None:
    """(difference, low, high) of two policies, whichever of them was taken from the other; None where neither was."""
    if frame is None:
        return None
    part = frame[(frame.benchmark == key[0]) & (frame.measure == key[1])].dropna(subset=judged_table.GAIN)
    for policy, against, sign in ((one, other, 1), (other, one, -1)):
        found = part[(part.policy == policy) & (part.against == against)]
        if len(found):
            value, low, high = (sign * float(x) for x in found.iloc[0][judged_table.GAIN])
            return value, min(low, high), max(low, high)
    return None


# The page filters by style sheet alone: a choice is a radio button, and a rule hides the rows that do not have it.
# So it keeps the policy of every page of the site, which forbids scripts, and nothing can be injected into one.
_GROUPS = {name: name for name in ("tier", "verdict", "evidence", "section", "notebook")}
_STYLE = """
body { max-width: 84rem; } fieldset { border: 1px solid var(--line); margin: .4rem 0; } legend { font-weight: 600; }
fieldset label { display: inline-block; margin-right: .9rem; }
.to-the-digit { color: #0a7d33; } .contradicted, .arithmetic-slip-in-the-paper { color: #c62828; }
@media (prefers-color-scheme: dark) { .to-the-digit { color: #5fd08a; }
  .contradicted, .arithmetic-slip-in-the-paper { color: #ff8a80; } }
"""


def page(table: pd.DataFrame, name: str = "claims.html") -> str:
    """The ledger as one page of the site: filters by tier, verdict, section and notebook; no script, nothing to load.

    Paper: silent. table: as from `ledger`. name: the page's path in the site. All text is escaped.
    """
    out = _html.escape
    frame = table.assign(section=table.place.str.split(",").str[0])
    choices, rules = [], []
    for group, column in _GROUPS.items():
        there = list(dict.fromkeys(frame[column]))
        values = (
            [v for v in VERDICTS if v in there] if group == "verdict" else there if group == "tier" else sorted(there)
        )
        one = group == "tier"  # every claim has a row for each tier: one tier at a time reads best
        buttons = [] if one else [f'<label><input type="radio" name="{group}" checked> all</label>']
        for k, value in enumerate(values):
            key = f"{group}-{_slug(value)}"
            checked = " checked" if one and k == len(values) - 1 else ""
            per_tier = (frame[column] == value).sum() // frame.tier.nunique()
            number_of = f" ({per_tier})" if group in ("section", "notebook") else ""
            buttons.append(
                f'<label><input type="radio" name="{group}" id="{key}"{checked}> {out(value)}{number_of}</label>'
            )
            rules.append(f"main:has(#{key}:checked) tr.c:not(.{key}) {{ display: none; }}")
        choices.append(f"<fieldset><legend>{group}</legend>{''.join(buttons)}</fieldset>")
    tally = counts(table)
    head = "".join(f"<th>{out(tier)}</th>" for tier in tally.columns)
    lines = "".join(
        f"<tr><th>{out(v)}</th><td>{out(e)}</td>{''.join(f'<td class=n>{n}</td>' for n in row)}</tr>"
        for (v, e), row in zip(tally.index, tally.to_numpy(), strict=True)
    )
    rows = []
    for r in frame.itertuples():
        marks = " ".join(f"{group}-{_slug(getattr(r, column))}" for group, column in _GROUPS.items())
        cells = [(r.place, r.notebook), (r.claim,), (r.said,), (r.verdict, r.evidence), (r.found, r.note), (r.test,)]
        colour = ["", "", "", f' class="{_slug(r.verdict)}"', "", ""]
        shown = "".join(
            f"<td{c}>{'<br>'.join(out(x) for x in cell if x)}</td>" for c, cell in zip(colour, cells, strict=True)
        )
        rows.append(f'<tr class="c {marks}" id="{out(r.id)}-{_slug(r.tier)}">{shown}</tr>')
    names = ("place, notebook", "what is claimed", "numbers", "verdict, evidence", "found", "tested by")
    body = f"""<h1>Claims</h1>
<p>Every quantitative statement of the paper's text, {table.id.nunique()} in all, in our words. <em>Evidence</em> says
what a verdict rests on: the paper's own numbers say only whether its text follows from its tables. Generated data are
never evidence.</p>
<table><tr><th>verdict</th><th>evidence</th>{head}</tr>{lines}</table>
{"".join(choices)}
<div class="scroll" tabindex="0" role="region" aria-label="claims"><table>
<tr>{"".join(f"<th>{n}</th>" for n in names)}</tr>
{chr(10).join(rows)}
</table></div>"""
    return site_pages.page(name, "plain", "Claims", css=_STYLE + "\n".join(rules), body=body)


def save(run, table: pd.DataFrame) -> None:
    """Write the ledger into the report of a run as `claims.csv` and `claims.html`. Paper: silent. run: `report.Run`."""
    words = run.caption(f"The {table.id.nunique()} quantitative claims of the paper's text, and what became of them.")
    run.keep("claims.csv", table.to_csv(index=False, lineterminator="\n"), words)
    run.keep("claims.html", page(table, f"{run.tier}/{run.notebook}/claims.html"), words)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
