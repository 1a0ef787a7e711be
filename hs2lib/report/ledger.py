"""What a claim of the paper is, and what the checks of claims compute with.

A claim is a quantitative statement of the paper's text, with what can test it. The claims
themselves stand in `ledger_data`, `ledger_reward_model`, `ledger_alignment` and
`ledger_appendices`, in the order of the paper. `hs2lib.report.claims` tests them.

A check is a function of the numbers that a claim prints. It asks whether the paper's own numbers
say what the claim says, and returns what it found:

    def two_responses(printed: Sequence[str]) -> Finding:
        each = stated["samples released"] / stated["prompts released"]
        return exact(same(each, 2), f"21,362 / 10,681 = {each:g}")

The ledger quotes a check: its name, and its condition as the source has it, here `same(each, 2)`.
"""

import ast
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from hs2lib import paper
from hs2lib.report import tables

DIGIT = "to the digit"
DIRECTION = "direction only"
CONTRADICTED = "contradicted"
SLIP = "arithmetic slip in the paper"
NEEDS = "needs hardware or data"
VERDICTS = (DIGIT, DIRECTION, CONTRADICTED, SLIP, NEEDS)


class Finding(NamedTuple):
    """What a test says of a claim.

    verdict: one of `VERDICTS`. words: the number or numbers it rests on. note: what else to know.
    """

    verdict: str
    words: str
    note: str = ""


Check = Callable[[Sequence[str]], Finding]


@dataclass(frozen=True)
class Reported:
    """A number in a csv of a notebook's report, and where it has to lie.

    file, value: the csv and its column.
    low, high: the claim is confirmed where the number lies between them, both included.
    where, row: the number is that of the line whose column `where` is `row`; else of the first.
    of_paper: whether only the paper's own rows count. False for a public benchmark, whole and
        unchanged.
    unless: why a number outside contradicts nothing.
    """

    file: str
    value: str
    low: float
    high: float
    where: str = ""
    row: str = ""
    of_paper: bool = True
    unless: str = ""


@dataclass(frozen=True)
class Claim:
    """One quantitative statement of the paper's text, and what can test it.

    id, place: a name of its own, and where the paper says it.
    notebook: whose report can test it.
    claim, numbers: our paraphrase, and the numbers as printed.
    cells: of the paper's tables that the numbers come from, one a number: (table, row, column).
    reported: a number in a csv of the notebook's report.
    better: (measure, a, b): policy a beats policy b, in the paired gains that notebook 13 leaves.
    lacks: what a verdict needs where no report has it.
    check: what the paper's own numbers say of the claim.
    against: what would contradict a claim that nothing tests, where "other numbers" does not say
        it.
    reading: a reading under which the claim's numbers do not follow, where another may keep them.
    """

    id: str
    place: str
    notebook: str
    claim: str
    numbers: Sequence[str]
    cells: Sequence[tuple[str, str, str]] = ()
    reported: Reported | None = None
    better: Sequence[tuple[str, str, str]] = ()
    lacks: str = "the released rows, from the Hub (tier paper)"
    check: Check | None = None
    against: str = ""
    reading: str = ""


# A reading of a claim under which its numbers do not follow; another reading may keep them.
EPOCHS = "an epoch counts conversations"

# What a claim lacks

JUDGE = (
    "models of the paper's size and a judge; compared on our policies where notebook 13 has both"
)
MODEL = "Llama 3 70B or Nemotron-4 340B, trained as in the paper"
NEVER_RELEASED = "data that were never released"
OTHERS = "other people's data and reports; not tested here"


# The paper's numbers

table_1 = tables.columns(paper.TABLES["table-1"])
table_2 = tables.columns(paper.TABLES["table-2"])
table_3 = tables.columns(paper.TABLES["table-3"])
table_4 = tables.columns(paper.TABLES["table-4"])
table_5 = tables.columns(paper.TABLES["table-5"])

stated = paper.STATED
weights = pd.DataFrame(paper.HEAD_WEIGHTS)  # a row an attribute, a column a reward model

# Rows of Table 3
NEMOTRON = "Nemotron-4 340B RM w. HelpSteer2"
LLAMA = "Llama 3 70B w. HelpSteer2"

# Rows of Table 4
SFT = "SFT w. Daring-Anteater"
DPO = "DPO w. HelpSteer2"
PPO = "PPO w. HelpSteer2"
STEERLM_2 = "SteerLM 2.0 iter 2 w. Daring-Anteater"
SFT_OASST = "SFT w. Open Assistant"
STEERLM_OASST = "SteerLM w. Open Assistant"


# How numbers are compared


def number(printed: str) -> float:
    """The number that a printed text stands for; a k is a thousand.

    Raises ValueError where there is none.
    """
    value = float(printed.replace(",", "").removesuffix("k"))
    return value * 1000 if printed.endswith("k") else value


def unit(printed: str) -> float:
    """One unit of the last digit that a text prints: "3.63" .01, "100k" 1,000."""
    decimals = len(printed.partition(".")[2])
    return 10.0**-decimals * (1000 if printed.endswith("k") else 1)


def agrees(value: float, printed: str) -> bool:
    """Whether `value` rounds to `printed` ("3.63", "21,362", "100k").

    By hand: 3.6393 rounds to 3.64.
    """
    return abs(value - number(printed)) <= 0.5 * unit(printed) + 1e-9


def same(*values: float) -> bool:
    """Whether all values are equal, but for rounding."""
    return np.allclose(values, values[0], rtol=1e-9, atol=0)


def listed(numbers: pd.Series) -> str:
    """Numbers with their names and signs, in words."""
    return ", ".join(f"{name} {value:+.4g}" for name, value in numbers.items())


# What a check returns


def exact(holds: bool, words: str, note: str = "") -> Finding:
    """The numbers are as stated, to the digit; where they are not, the paper has slipped."""
    return Finding(DIGIT if holds else SLIP, words, note)


def direction(holds: bool, words: str, note: str = "") -> Finding:
    """One number is above another, as stated; where it is not, the claim is contradicted."""
    return Finding(DIRECTION if holds else CONTRADICTED, words, note)


@functools.cache
def condition(check: Check) -> str:
    """What has to hold for a check, as its source has it.

    It is the first argument of the `exact` or `direction` that the check returns in its last line.
    """
    source = inspect.getsource(check)
    function = ast.parse(source).body[0]
    holds = function.body[-1].value.args[0]
    return " ".join(ast.get_source_segment(source, holds).split())
