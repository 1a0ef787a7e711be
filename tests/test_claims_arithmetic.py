"""The claims of the paper's text held to the numbers that the paper itself prints.

`hs2lib/paper/claims.csv` says of each claim whether it follows (`follows`) and how (`working`).
"""

import numeric_sentences
import numpy as np
import pandas as pd
import pytest

from hs2lib import paper
from hs2lib.paper import HEAD_WEIGHTS, REWARDBENCH_COUNTS, REWARDBENCH_SECTIONS, STATED, TABLES

CLAIMS = pd.DataFrame(paper.CLAIMS).set_index("id")
FILES = ("multi-turn.csv", "raters.csv", "daring-anteater.csv", "against-pairs.csv")
FILES = (*FILES, "benchmark-sizes.csv")


def frame_of(name):
    """A table of the paper, a row a row."""
    table = TABLES[name]
    return pd.Series(table.values, dtype=float).unstack().loc[table.rows, table.columns]


one, two, three, four, five = (frame_of(f"table-{number}") for number in range(1, 6))
RATED = ["helpfulness", "correctness", "coherence", "complexity", "verbosity"]
LARGE = "Nemotron-4 340B RM w. HelpSteer2"
SMALL = "Llama 3 70B w. HelpSteer2"
PERMISSIVE = ["Llama 3 70B w. Open Assistant", "Llama 3 70B w. HH-RLHF"]
PERMISSIVE += ["Pythia 1.4B w. Open Assistant", "Llama 3 70B w. HelpSteer"]
SFT = "SFT w. Daring-Anteater"
DPO = "DPO w. HelpSteer2"
AGAIN = "Iterative DPO w. Daring-Anteater"
PPO = "PPO w. HelpSteer2"
STEERLM = ["SteerLM w. Daring-Anteater", "SteerLM 2.0 iter 1 w. Daring-Anteater"]
STEERLM += ["SteerLM 2.0 iter 2 w. Daring-Anteater"]
ALIGNED = four.loc[[DPO, AGAIN, PPO, *STEERLM]]
MEASURES = ["MT-Bench", "TruthfulQA MC2", "AlpacaEval 2 LC", "Arena Hard"]
MC2 = "TruthfulQA MC2"
ALPACA = "AlpacaEval 2 LC"
ERROR = "AlpacaEval 2 LC SE"
WRONG = [104, 105, 109, 111, 113, 114, 120, 122, 124, 125, 126, 128, 130]


def cells(claim):
    """The cells of the paper's tables that a claim repeats, in the order of its numbers."""
    rows = claim.row.split("; ")
    columns = claim.column.split("; ")
    return [(claim.table, row, column) for row in rows for column in columns]


def rounds_to(value, printed):
    """Whether a number has the digits that are printed: 3.6393 has 3.64, and not 3.63."""
    thousand = 1000 if printed.endswith("k") else 1
    text = printed.removesuffix("k").replace(",", "")
    last = 10.0 ** -len(text.partition(".")[2]) * thousand
    return abs(value - float(text) * thousand) <= last / 2 + 1e-9


def best(column, rows):
    """Whether one of these aligned models has the highest number of all."""
    return ALIGNED[column].idxmax() in rows


def follows():
    """Claim -> whether it follows from the paper's numbers, computed here from its tables."""
    gaps = two.loc[RATED, "mean HS2"] - two.loc[RATED, "mean HS"]
    ratio = two["mean HS2"] / two["mean HS"]
    sections = three[["chat", "chat-hard", "safety", "reasoning"]]
    others = three.drop([LARGE, SMALL])
    permissive_lead = three.overall[SMALL] - three.overall[PERMISSIVE].max()
    prior = others["prior sets"].dropna()
    without = list(three.index[three["prior sets"].isna()])
    tops = ALIGNED[MEASURES].max()
    instruct = four.loc["Llama 3 70B Instruct"]
    arena_error = (instruct["Arena Hard high"] - instruct["Arena Hard low"]) / 3.92
    bar = instruct[MEASURES] - [0, 0, instruct[ERROR], arena_error]
    weak = four.loc["SFT w. Open Assistant", MEASURES]
    lift = four.loc["SteerLM w. Open Assistant", "MT-Bench"] - weak["MT-Bench"]
    share = (four.loc[DPO] - four.loc[SFT]) / (four.loc[AGAIN] - four.loc[SFT])
    gain = four.loc[PPO, ALPACA] - four.loc[SFT, ALPACA]
    seventy = HEAD_WEIGHTS[SMALL]
    r2 = five.corr()["Arena Elo"] ** 2
    old, new, _ = five.columns
    checks = {
        "pairs-fewer": 10 * STATED["prompts released"] < 160_000,
        "best-reward-model": three.overall.idxmax() == LARGE,
        "two-responses": STATED["samples released"] == 2 * STATED["prompts released"],
        "source-shares": np.isclose(18.9 + 40.4 + 26.9 + 7.9 + 5.9, 100),
        "source-parts": np.allclose([2.2 + 38.2, 9.5 + 17.4], [40.4, 26.9]),
        "kappa-all-improved": (one.diff(axis=1).iloc[:, 1:] > 0).all(axis=None),
        "removed": rounds_to(100 * (1 - STATED["samples released"] / 23_652), "10"),
        "samples": 2 * 10_681 == 21_362,
        "split": rounds_to(100 * 20_324 / 21_362, "95") and rounds_to(100 * 1_038 / 21_362, "5"),
        "all-means-higher": (gaps > 0).all(),
        "coherence-most": gaps.idxmax() == "coherence",
        "verbosity-mean": rounds_to(gaps["verbosity"], "0.5"),
        "response-length": rounds_to(ratio["characters in response"], "3"),
        "responses-three-times": rounds_to(ratio["characters in response"], "3")
        and ratio["complexity"] > 1,
        "coherence-predicts-less": two.loc["coherence", "R HS2"] < two.loc["coherence", "R HS"],
        "correctness-predicts-more": two.loc["correctness", "R HS2"]
        > two.loc["correctness", "R HS"],
        "complexity-predicts-less": two.loc["complexity", "R HS2"] < two.loc["complexity", "R HS"],
        "verbosity-predicts-less": two.loc["verbosity", "R HS2"] < two.loc["verbosity", "R HS"],
        "epochs": STATED["reward model steps"] == 20_324 * 2 // 128,
        "benchmark-size": sum(REWARDBENCH_COUNTS.values()) == 2_985,
        "benchmark-parts": (len(REWARDBENCH_SECTIONS), len(REWARDBENCH_COUNTS)) == (4, 23),
        # Categories are rounded, and so is the overall score.
        "overall-is-mean": ((sections.mean(axis=1) - three.overall).abs() <= 0.1 + 1e-9).all(),
        "pairs-ten-thousand": rounds_to(STATED["train rows"] / 2, "10k"),
        "ahead-of-permissive": rounds_to(permissive_lead, "9.7"),
        "scaling": three.overall[LARGE] > three.overall[SMALL],
        "chat-hard": rounds_to(three["chat-hard"][LARGE] - others["chat-hard"].max(), "6.5"),
        "reasoning": others.reasoning.max() > three.reasoning[[LARGE, SMALL]].max(),
        "prior-sets": (prior > three["prior sets"][[LARGE, SMALL]].max()).mean() > 0.5,
        "goodness-weights": all(seventy[name] == x for name, x in HEAD_WEIGHTS["goodness"].items()),
        "sft-epochs-oasst": rounds_to(2400 * 128 / 56_000, "4"),
        "sft-epochs-anteater": rounds_to(1600 * 384 / 100_000, "2"),
        "sft-oasst-weak": (weak < instruct[MEASURES]).all(),
        "anteater-size": rounds_to(99_532, "100k"),
        "dpo-pairs": 10_162 - 2_941 == 7_221,
        "match-instruct": (tops > bar).all(),
        "one-per-cent": rounds_to((10_000 + 100_000) / 10_000_000 * 100, "1"),
        "beat-gpt-4": (tops > four.loc["GPT-4-0613", MEASURES]).all(),
        "dpo-truthful": best(MC2, [DPO, AGAIN]),
        "dpo-arena": best("Arena Hard", [DPO, AGAIN]),
        "dpo-most": share[[MC2, "Arena Hard"]].between(0.5, 1).all(),
        "ppo-alpaca": best(ALPACA, [PPO]),
        "ppo-style": 0 < gain < four.loc[PPO, ERROR],
        "ppo-truthful": ALIGNED[MC2].idxmin() == PPO and four.loc[PPO, MC2] < four.loc[SFT, MC2],
        "steerlm-mt-bench": best("MT-Bench", STEERLM),
        "ablation-drop": (weak < four.loc[SFT, MEASURES]).all(),
        "ablation-gain": lift > four.loc[STEERLM[-1], "MT-Bench"] - four.loc[SFT, "MT-Bench"],
        "prior-sets-missing": [name.split("-")[0].split(" ")[0] for name in without]
        == ["Gemini", "Claude", "Prometheus"],
        "mt-bench-size": 2 * 80 == 160 and 8 * 10 == 80,
        "mt-bench-referenced": 3 * 10 == 30,
        "references-wrong": len([number for number in WRONG if 101 <= number <= 130]) == 13,
        "judge-lower": rounds_to((five[old] - five[new]).mean(), "0.8"),
        "r2-new": rounds_to(r2[new], "0.819"),
        "r2-old": rounds_to(r2[old], "0.703"),
        "table-5-models": five.notna().all(axis=1).sum() == 10,
        "judge-better": r2[new] > r2[old],
    }
    for name, claim in CLAIMS[CLAIMS.table.str.startswith("table-")].iterrows():
        printed = zip(cells(claim), claim.numbers.split("; "), strict=False)
        digits = [(cell, text) for cell, text in printed if text[-1].isdigit()]
        same = all(rounds_to(paper.value(*cell), text) for cell, text in digits)
        checks[name] = checks.get(name, True) and same
    return {name: bool(holds) for name, holds in checks.items()}


def test_what_follows_from_the_papers_own_numbers_and_what_does_not():
    """Five claims do not: two are cut off, two count epochs, one names the wrong attribute."""
    computed = follows()
    said = CLAIMS.follows[CLAIMS.follows != ""]
    assert {name: text != "no" for name, text in said.items()} == computed
    assert {name for name, holds in computed.items() if not holds} == {
        "coherence-mean",
        "coherence-most",
        "prompt-length",
        "sft-epochs-anteater",
        "sft-epochs-oasst",
    }
    assert CLAIMS.working[said.index].ne("").all()


@pytest.mark.parametrize(
    ("value", "printed", "holds"),
    [
        (3.6393, "3.64", True),
        (3.6393, "3.63", False),
        (99_532, "100k", True),
        (99_400, "100k", False),
        (2941, "2,940", False),
        (-0.07744, "-0.0774", True),
    ],
)
def test_rounding_by_hand(value, printed, holds):
    assert rounds_to(value, printed) == holds


def test_claims_are_whole():
    """Ninety, each of a section of the paper, with its numbers, what it needs and what settles it."""
    assert len(CLAIMS) == 90 and CLAIMS.index.is_unique
    assert CLAIMS[["section", "claim", "numbers"]].ne("").all(axis=None)
    assert CLAIMS.section.str.fullmatch(r"abstract|[1-5](\.\d)?|[A-H]").all()
    assert set(CLAIMS.needs) == {"arithmetic", "data", "unreleased data", "hardware"}
    assert set(CLAIMS.follows) == {"to the digit", "in direction", "no", ""}
    for claim in CLAIMS.itertuples():
        if claim.table.startswith("table-"):
            assert all(cell[1:] in TABLES[claim.table].values for cell in cells(claim)), claim
        elif claim.table:
            assert claim.table in FILES and claim.column
        has_room = claim.table.endswith(".csv")
        assert bool(claim.low and claim.high) == has_room, claim
        assert not has_room or float(claim.low) <= float(claim.high)


def test_every_sentence_with_a_number_is_one_of_these_claims_or_left_out_with_a_reason():
    assert not numeric_sentences.faults(numeric_sentences.decisions(), set(CLAIMS.index))
