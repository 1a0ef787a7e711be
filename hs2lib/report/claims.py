"""The ledger of claims: every quantitative statement of the paper's text, and what became of it at each tier.

    table = ledger(["demo", "laptop"])      # one row a claim and tier, from reports alone
    html = page(table)                      # the same as a page to filter, without a script

Paper: the whole text. Verdicts are computed, never typed. A number of a run counts only if the run read nothing but
rows that the paper describes (`of_paper` in its manifest) or, for the size of a public benchmark, nothing generated.
What comes from generated data is never evidence: the verdict then is "needs hardware or data", and the note says that
the code ran. Where text and tables of the paper disagree, that is the verdict at every tier.
"""

import html as _html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from hs2lib import paper
from hs2lib.paper import ALIGNED, REFERENCES, TABLES
from hs2lib.report import site, tables
from hs2lib.report.tables import assemble, read

DATASET, CORRELATIONS, AGREEMENT = "01_dataset_statistics", "02_attribute_correlations", "03_annotator_agreement"

COLLECTION, REWARD, BENCH = "04_data_collection", "05_reward_model_training", "06_rewardbench_evaluation"

SFT, DPO, ITERATIVE, PPO = "07_sft", "08_dpo", "09_iterative_dpo", "10_ppo"

STEERLM, STEERLM2 = "11_steerlm", "12_steerlm2"

ALIGNMENT, SUMMARY = "13_aligned_model_evaluation", "14_paper_tables_and_figures"


@dataclass(frozen=True)
class Reported:
    """One number of a csv in a notebook's report (where column `where` is `row`, else the first), due in low..high."""

    file: str
    value: str
    low: float
    high: float
    where: str = ""
    row: str = ""
    of_paper: bool = True  # whether only the paper's own rows count; False for a public benchmark, whole and unchanged


@dataclass(frozen=True)
class Claim:
    """One claim. `claim` is our paraphrase; `said` the numbers as printed; see the module's docstring for the rest."""

    id: str
    place: str
    notebook: str
    claim: str
    said: tuple[str, ...]
    cells: tuple[tuple[str, str, str], ...] = ()
    reported: Reported | None = None
    derive: str = ""
    better: tuple[tuple[str, str, str], ...] = ()
    lacking: str = "the released rows, from the Hub (tier paper)"

    @property
    def section(self) -> str:
        """The section or appendix, without the rest of the place."""
        return self.place.split(",")[0]


def _hs2(*pairs: tuple[str, str]) -> tuple[tuple[str, str, str], ...]:
    return tuple(("table-2", row, column) for row, column in pairs)


_JUDGE = "models of the paper's size and a judge; compared on our policies where notebook 13 has both"

_MODEL = "Llama 3 70B or Nemotron-4 340B, trained as in the paper"

_NEVER = "data that were never released"

_OTHERS = "other people's data and reports; not tested here"

_SFT, _DPO, _IT = "SFT w. Daring-Anteater", "DPO w. HelpSteer2", "Iterative DPO w. Daring-Anteater"

_PPO, _ST = "PPO w. HelpSteer2", "SteerLM w. Daring-Anteater"

_ST2, _SFT_OA, _ST_OA = "SteerLM 2.0 iter 2 w. Daring-Anteater", "SFT w. Open Assistant", "SteerLM w. Open Assistant"

_TOP, _LLAMA = "Nemotron-4 340B RM w. HelpSteer2", "Llama 3 70B w. HelpSteer2"

_MC2, _MT, _AE, _AH = "TruthfulQA MC2", "MT-Bench", "AlpacaEval 2 LC", "Arena Hard"

_SIZES = "benchmark-sizes.csv"

_DATA = (
    Claim("pairs-fewer", "abstract", DATASET, "HH-RLHF (above 160,000 by appendix D) has ten times as many pairs "
          "as these ten thousand, or more", ("ten thousand",), derive="order_of_magnitude"),
    Claim("best-reward-model", "abstract", BENCH, "92.0 % on RewardBench's primary set, above every listed model",
          ("92.0",), cells=(("table-3", _TOP, "overall"),), derive="tops_table_3", lacking=_MODEL),
    Claim("llama-2-comparisons", "section 1", DATASET, "Llama 2 used over 1 million binary comparisons", ("1",),
          lacking=_OTHERS),
    Claim("llama-3-samples", "section 1", DATASET, "Llama 3 used 10 million samples for tuning and preferences",
          ("10",),
          lacking=_OTHERS),
    Claim("sharegpt", "section 2.1", COLLECTION, "Over 95 % of the prompts are from ShareGPT", ("95",), lacking=_NEVER),
    Claim("topics", "section 2.1", COLLECTION, "Prompts were clustered into about 1,000 topics and sampled evenly",
          ("1000",), lacking=_NEVER),
    Claim("multi-turn", "section 2.1", DATASET, "About 29 % of the samples have multi-turn prompts", ("29",),
          reported=Reported("multi-turn.csv", "multi-turn (%)", 28.5, 29.5, "data", "helpsteer2")),
    Claim("two-responses", "section 2.1", DATASET, "Two responses a prompt, where HelpSteer had four", ("two", "four"),
          derive="two_responses"),
    Claim("source-shares", "section 2.1", DATASET, "The sources of responses and their shares (18.9, 40.4, 26.9, 7.9 "
          "and "
          "5.9 %) cover all of them", ("18.9", "40.4", "26.9", "7.9", "5.9"), derive="shares_add_up"),
    Claim("source-parts", "section 2.1", DATASET, "Nemotron-3's 40.4 % are 2.2 (8B) and 38.2 (22B); Nemotron-4's 26.9 "
          "% "
          "are 9.5 (15B) and 17.4 (340B)", ("2.2", "38.2", "9.5", "17.4"), derive="parts_add_up"),
    Claim("annotators-mean", "section 2.1", AGREEMENT, "3.41 annotators a sample on average", ("3.41",),
          reported=Reported("raters.csv", "ratings a row", 3.405, 3.415)),
    Claim("annotators-number", "section 2.1", COLLECTION, "About 1,000 annotators, against 200 for HelpSteer",
          ("1,000", "200"), lacking=_NEVER),
    Claim("kappa-initial", "section 2.1", AGREEMENT, "Kappa of helpfulness was .465 at first", ("0.465",),
          cells=(("table-1", "helpfulness", "initial"),), lacking="the first annotations, which were never released"),
    Claim("kappa-improved", "section 2.1", AGREEMENT, "Kappa of helpfulness reached .706", ("0.706",),
          cells=(("table-1", "helpfulness", "after improvements"),)),
    Claim("kappa-all-improved", "section 2.1", AGREEMENT, "Agreement rose for all five attributes", ("all",),
          derive="kappas_rise"),
    Claim("removed", "section 2.1", COLLECTION, "Keeping what is at most 2 points apart removed about 10 % of the "
          "samples", ("10",), derive="share_removed"),
    Claim("annotations-excluded", "section 2.1", COLLECTION, "About 50 % of all annotations were excluded", ("50",),
          lacking=_NEVER),
    Claim("samples", "section 2.1", DATASET, "21,362 samples: 10,681 prompts with two responses each",
          ("21,362", "10,681"), reported=Reported("multi-turn.csv", "prompts", 10_681, 10_681, "data", "helpsteer2"),
          derive="samples_are_pairs"),
    Claim("split", "section 2.1", DATASET, "95 % of the data are for training, 5 % for validation", ("95", "5"),
          derive="split_shares"),
    Claim("all-means-higher", "section 2.2", DATASET, "All five attributes are rated higher than in HelpSteer",
          ("all",),
          derive="means_rise"),
    Claim("coherence-mean", "section 2.2", DATASET, "Coherence reaches 3.63 of 4", ("3.63",),
          cells=_hs2(("coherence", "mean HS2"))),
    Claim("coherence-most", "section 2.2", DATASET, "The largest change of the five is coherence's", ("most",),
          derive="largest_change"),
    Claim("verbosity-mean", "section 2.2", DATASET, "Verbosity rose by almost .5, from 1.53 to 2.00", ("1.53", "2.00"),
          cells=_hs2(("verbosity", "mean HS"), ("verbosity", "mean HS2")), derive="verbosity_rise"),
    Claim("response-length", "section 2.2", DATASET, "Responses are 3 times as long: 497.3 to 1492.6 characters",
          ("497.3", "1492.6"), derive="three_times",
          cells=_hs2(("characters in response", "mean HS"), ("characters in response", "mean HS2"))),
    Claim("turns", "section 2.2", DATASET, "2.83 turns a prompt on average, one in HelpSteer", ("2.83",),
          cells=_hs2(("turns in prompt", "mean HS2"))),
    Claim("prompt-length", "section 2.2", DATASET, "Prompts have 712 characters on average, HelpSteer's 2491",
          ("712", "2491"), cells=_hs2(("characters in prompt", "mean HS2"), ("characters in prompt", "mean HS"))),
    Claim("coherence-predicts-less", "section 2.2", CORRELATIONS, "Coherence predicts helpfulness less: R .4979, was "
          ".6348", ("0.4979", "0.6348"), cells=_hs2(("coherence", "R HS2"), ("coherence", "R HS")), derive="falls"),
    Claim("correctness-predicts-more", "section 2.2", CORRELATIONS, "Correctness predicts it better: R .9430, was "
          ".8525",
          ("0.9430", "0.8525"), cells=_hs2(("correctness", "R HS2"), ("correctness", "R HS")), derive="rises"),
    Claim("complexity-predicts-less", "section 2.2", CORRELATIONS, "R of complexity fell from .2361 to .1805",
          ("0.1805", "0.2361"), cells=_hs2(("complexity", "R HS2"), ("complexity", "R HS")), derive="falls"),
    Claim("verbosity-predicts-less", "section 2.2", CORRELATIONS, "R of verbosity fell from .2555 to .0600",
          ("0.0600", "0.2555"), cells=_hs2(("verbosity", "R HS2"), ("verbosity", "R HS")), derive="falls"),
    Claim("long-prompts", "section 2.2", CORRELATIONS, "Longer prompts are answered slightly worse: R -.0774",
          ("-0.0774",), cells=_hs2(("characters in prompt", "R HS2"))),
    Claim("many-turns", "section 2.2", CORRELATIONS, "More turns go with slightly less help: R -.0520", ("-0.0520",),
          cells=_hs2(("turns in prompt", "R HS2"))),
    Claim("long-responses", "section 2.2", CORRELATIONS, "Longer responses are slightly more helpful: R .0845",
          ("0.0845",), cells=_hs2(("characters in response", "R HS2"))),
)  # fmt: skip

_REWARD = (
    Claim("epochs", "section 3", REWARD, "Two epochs at batch 128 (the reference code: 317 steps)", ("two", "128"),
          derive="reward_steps"),
    Claim("benchmark-size", "section 3", BENCH, "RewardBench has 2985 tasks", ("2985",), derive="benchmark_rows"),
    Claim("benchmark-parts", "section 3", BENCH, "... in 23 subsets, which form 4 categories", ("4", "23"),
          derive="benchmark_parts"),
    Claim("overall-is-mean", "section 3", BENCH, "Overall is the mean of the four categories (19 rows of Table 3)",
          ("mean",), derive="overall_is_mean"),
    Claim("leaderboard-size", "section 3", BENCH, "Its leaderboard had more than 80 models", ("80",), lacking=_OTHERS),
    Claim("best-permissive", "section 3", BENCH, "Llama 3 70B with HelpSteer2 has 88.8 %", ("88.8",),
          cells=(("table-3", _LLAMA, "overall"),), lacking=_MODEL),
    Claim("ahead-of-permissive", "section 3", BENCH, "... and is more than 9.7 points ahead of all other models "
          "trained "
          "on permissive data", ("9.7",), derive="ahead_of_permissive", lacking=_MODEL),
    Claim("scaling", "section 3", BENCH, "The 340B base model lifts the overall score to 92.0 %", ("92.0",),
          cells=(("table-3", _TOP, "overall"),), derive="scaling", lacking=_MODEL),
    Claim("chat-hard", "section 3", BENCH, "In Chat-Hard, models trained with HelpSteer2 are 6.5 points ahead of the "
          "second best", ("6.5",), derive="chat_hard_lead", lacking=_MODEL),
    Claim("reasoning", "section 3", BENCH, "They do not reach the best models' Reasoning", ("below",),
          derive="reasoning_below", lacking=_MODEL),
    Claim("prior-sets", "section 3", BENCH, "On Prior Sets they stand well below many others", ("below",),
          derive="prior_sets_below", lacking=_MODEL),
    Claim("goodness-weights", "section 4.3", BENCH, "Goodness weighs .65, .8 and .45 (the first three of the 70B "
          "model's "
          "weights in appendix H)", ("0.65", "0.8", "0.45"), derive="goodness_weights"),
    Claim("prior-sets-ceiling", "appendix H", BENCH, "Parts of Prior Sets are not predicted beyond 70 % even by models "
          "trained on them", ("70",), lacking=_OTHERS),
)  # fmt: skip

_ALIGN = (
    Claim("sft-epochs-oasst", "section 4.2", SFT, "Open Assistant, 56k conversations: 2400 steps of 128 are close to 4 "
          "epochs", ("56k", "2400", "128", "4"), derive="epochs_oasst"),
    Claim("sft-epochs-anteater", "section 4.2", SFT, "Daring-Anteater, 100k conversations: 1600 steps of 384 are close "
          "to "
          "2 epochs", ("100k", "1600", "384", "2"), derive="epochs_anteater"),
    Claim("sft-oasst-weak", "section 4.2", ALIGNMENT, "SFT on Open Assistant alone is weak beside Llama 3 70B Instruct",
          ("weak",), derive="sft_oasst_weak", lacking=_JUDGE),
    Claim("anteater-size", "section 4.2", SFT, "Daring-Anteater has 100k conversations", ("100k",),
          derive="anteater_rows", lacking="Daring-Anteater, from the Hub"),
    Claim("anteater-turns", "section 4.2", SFT, "... with 2.88 model turns each", ("2.88",),
          reported=Reported("daring-anteater.csv", "model turns", 2.875, 2.885),
          lacking="Daring-Anteater, from the Hub"),
    Claim("anteater-synthetic", "section 4.2", SFT, "About 93 % of it is generated by models", ("93",),
          lacking="the origin of each conversation"),
    Claim("dpo-pairs", "section 4.3", DPO, "7,221 pairs after dropping ties in helpfulness", ("7,221",),
          reported=Reported("against-pairs.csv", "ours", 7_221, 7_221), derive="dpo_pairs"),
    Claim("goodness-best", "section 4.3", ITERATIVE, "Of the weightings tried, .65, .8, .45 tells chosen from rejected "
          "best", ("0.65", "0.8", "0.45"), lacking=_MODEL),
    Claim("beta-fits", "section 4.5", STEERLM2, "The Beta distribution with alpha + beta = 24 has the spread of the "
          "annotators", ("24",), lacking="the released disagreements, from the Hub"),
    Claim("responses-three-times", "section 4.5", STEERLM, "HelpSteer2's responses are around 3 times as long as "
          "HelpSteer's, and more complex", ("3",), derive="three_times"),
    Claim("target-attributes", "section 4.5", STEERLM, "Complexity and verbosity 2 give better answers than 4", ("2",
          "4"),
          lacking=_JUDGE),
    Claim("match-instruct", "section 4.6", ALIGNMENT, "On every measure one of the models matches (within a standard "
          "error) "
          "or beats Llama 3 70B Instruct", ("every",), derive="match_instruct", lacking=_JUDGE),
    Claim("one-per-cent", "section 4.6", SUMMARY, "Llama 3 had 10 million samples; 10 thousand pairs with 100 thousand "
          "conversations are 1 % of that", ("1", "10", "100"), derive="one_per_cent"),
    Claim("beat-gpt-4", "section 4.6", ALIGNMENT, "The models exceed GPT-4-0613 on every measure", ("every",),
          derive="beat_gpt_4", lacking=_JUDGE),
    Claim("dpo-truthful", "section 4.6", ALIGNMENT, "DPO (with its iteration) is best on TruthfulQA", ("best",),
          derive="best_truthful", better=((_MC2, _DPO, _SFT), (_MC2, _IT, _PPO)), lacking=_JUDGE),
    Claim("dpo-arena", "section 4.6", ALIGNMENT, "... and on Arena Hard", ("best",), derive="best_arena",
          better=((_AH, _DPO, _SFT),), lacking=_JUDGE),
    Claim("dpo-most", "section 4.6", ALIGNMENT, "Most of that comes from the first round on HelpSteer2, and iterating "
          "adds "
          "more", ("most",), derive="first_round_most", lacking=_JUDGE),
    Claim("helpful-is-correct", "section 4.6", CORRELATIONS, "Helpfulness and correctness correlate at .943",
          ("0.943",),
          cells=_hs2(("correctness", "R HS2"))),
    Claim("arena-coding", "section 4.6", ALIGNMENT, "More than half of Arena Hard is coding", ("50",),
          lacking="labels of its questions"),
    Claim("ppo-alpaca", "section 4.6", ALIGNMENT, "PPO is best on AlpacaEval 2 LC", ("best",), derive="best_alpaca",
          better=((_AE, _PPO, _SFT),), lacking=_JUDGE),
    Claim("ppo-style", "section 4.6", ALIGNMENT, "PPO improves the style of the SFT model minimally", ("minimally",),
          derive="ppo_minimal", lacking=_JUDGE),
    Claim("ppo-truthful", "section 4.6", ALIGNMENT, "PPO loses much of TruthfulQA", ("severe",), derive="ppo_truthful",
          better=((_MC2, _SFT, _PPO),), lacking=_JUDGE),
    Claim("steerlm-mt-bench", "section 4.6", ALIGNMENT,
          "SteerLM is best on MT-Bench", ("best",), derive="best_mt_bench",
          better=((_MT, _ST2, _SFT),), lacking=_JUDGE),
    Claim("ablation-drop", "section 4.6", ALIGNMENT, "With Open Assistant alone MT-Bench falls from 7.96 to 6.75, and "
          "all "
          "else falls too", ("7.96", "6.75"), derive="ablation_drop", better=((_MT, _SFT, _SFT_OA),), lacking=_JUDGE,
          cells=(("table-4", _SFT, _MT), ("table-4", _SFT_OA, _MT))),
    Claim("ablation-gain", "section 4.6", ALIGNMENT, "There the reward model lifts it to 7.44, more than the lift from "
          "7.96 "
          "to 8.28", ("7.44", "8.28"), derive="ablation_gain", better=((_MT, _ST_OA, _SFT_OA),), lacking=_JUDGE,
          cells=(("table-4", _ST_OA, _MT), ("table-4", _ST2, _MT))),
    Claim("kappa-final", "section 5", AGREEMENT, "Kappa of helpfulness is .791", ("0.791",),
          cells=(("table-1", "helpfulness", "after post-processing"),)),
)  # fmt: skip

_APPENDICES = (
    Claim("oasst-size", "appendix D", DATASET, "Open Assistant: over 160,000 messages, 35 languages, over 10,000 trees",
          ("160,000", "35", "10,000"), lacking=_OTHERS),
    Claim("hh-size", "appendix D", DATASET, "HH-RLHF: above 160,000 comparisons", ("160,000",), lacking=_OTHERS),
    Claim("helpsteer-size", "appendix D", DATASET, "HelpSteer: over 37,000 rated responses", ("37,000",),
          lacking="HelpSteer, from the Hub"),
    Claim("mt-bench-size", "appendix H", ALIGNMENT, "MT-Bench: 80 questions of two turns, 160 prompts, 8 categories",
          ("80", "160", "8"), derive="mt_bench_prompts", lacking="MT-Bench's questions in the report of notebook 13",
          reported=Reported(_SIZES, "value", 80, 80, "quantity", "MT-Bench questions", of_paper=False)),
    Claim("mt-bench-referenced", "appendix H", ALIGNMENT, "Coding, mathematics and reasoning are 30 of the 80", ("30",
          "80"),
          derive="referenced"),
    Claim("references-wrong", "appendix H", ALIGNMENT, "13 of the 30 reference answers were wrong, and are listed",
          ("13", "30"), derive="wrong_references"),
    Claim("judge-lower", "appendix H", SUMMARY, "The new judge gives .8 points less on average", ("0.8",),
          derive="judge_lower"),
    Claim("r2-new", "appendix H", SUMMARY, "R squared of Arena Elo on the new judge's MT-Bench is .819", ("0.819",),
          derive="r2_new"),
    Claim("r2-old", "appendix H", SUMMARY, "... and .703 on the old judge's", ("0.703",), derive="r2_old"),
    Claim("judge-better", "appendix H", SUMMARY, "The new judge follows the crowd better", ("better",),
          derive="judge_better"),
    Claim("truthfulqa-size", "appendix H", ALIGNMENT, "TruthfulQA: 817 questions", ("817",),
          reported=Reported(_SIZES, "value", 817, 817, "quantity", "TruthfulQA questions", of_paper=False),
          lacking="TruthfulQA in the report of notebook 13"),
    Claim("truthfulqa-categories", "appendix H", ALIGNMENT, "... in 38 categories", ("38",),
          reported=Reported(_SIZES, "value", 38, 38, "quantity", "TruthfulQA categories", of_paper=False),
          lacking="TruthfulQA in the report of notebook 13"),
    Claim("truthfulqa-options", "appendix H", ALIGNMENT, "... with 4 to 5 answer options each (MC2)", ("4", "5"),
          reported=Reported(_SIZES, "value", 4, 5, "quantity", "TruthfulQA MC2 options, mean", of_paper=False),
          lacking="TruthfulQA in the report of notebook 13"),
    Claim("alpaca-size", "appendix H", ALIGNMENT, "AlpacaEval 2: 805 instructions", ("805",),
          reported=Reported(_SIZES, "value", 805, 805, "quantity", "AlpacaEval instructions", of_paper=False),
          lacking="AlpacaEval in the report of notebook 13"),
    Claim("arena-size", "appendix H", ALIGNMENT, "Arena Hard: 500 prompts", ("500",),
          reported=Reported(_SIZES, "value", 500, 500, "quantity", "Arena Hard prompts", of_paper=False),
          lacking="Arena Hard in the report of notebook 13"),
)  # fmt: skip

CLAIMS = (*_DATA, *_REWARD, *_ALIGN, *_APPENDICES)

DIGIT, DIRECTION, CONTRADICTED = "to the digit", "direction only", "contradicted"

SLIP, NEEDS = "arithmetic slip in the paper", "needs hardware or data"

VERDICTS = (DIGIT, DIRECTION, CONTRADICTED, SLIP, NEEDS)

RATED_BEFORE_FILTER = 23_652  # rows of the released disagreements file

HH_RLHF = 160_000  # appendix D

SHARES = {
    "Nemotron-2": (18.9,),
    "Nemotron-3": (2.2, 38.2),
    "Nemotron-4": (9.5, 17.4),
    "Mixtral": (7.9,),
    "humans": (5.9,),
}

OURS = ("Nemotron-4 340B RM w. HelpSteer2", "Llama 3 70B w. HelpSteer2")

PERMISSIVE = (  # trained on data whose licences allow commercial use, as Table 3 groups them
    *("Llama 3 70B w. Open Assistant", "Llama 3 70B w. HH-RLHF"),
    *("Pythia 1.4B w. Open Assistant", "Llama 3 70B w. HelpSteer"),
)


class Finding(NamedTuple):
    """verdict: one of `VERDICTS`. found: the number or numbers worked out, in words. note: what else to know."""

    verdict: str
    found: str
    note: str = ""


def agrees(value: float, said: str) -> bool:
    """Whether `value` rounds to `said` as printed ("3.63", "21,362", "100k"). By hand: 3.6393 rounds to 3.64."""
    return abs(value - number(said)) <= 0.5 * unit(said) + 1e-9


def number(said: str) -> float:
    """The number that a printed text stands for; a k is a thousand. Raises ValueError where there is none."""
    return float(said.replace(",", "").removesuffix("k")) * (1000 if said.endswith("k") else 1)


def unit(said: str) -> float:
    """One unit of the last digit that a text prints: "3.63" .01, "100k" 1,000."""
    return 10.0 ** -len(said.partition(".")[2]) * (1000 if said.endswith("k") else 1)


def cell(table: str, row: str, column: str) -> float:
    """A number of the paper's tables; None where it prints a dash."""
    return TABLES[table].values[row, column]


def as_said(value: float, said: str, words: str, note: str = "") -> Finding:
    """To the digit where `value` rounds to what is said, else a slip."""
    return Finding(DIGIT if agrees(value, said) else SLIP, words, note)


def holds(right: bool, words: str, note: str = "") -> Finding:
    """For what is said without a number: the direction holds, or the paper's own numbers contradict it."""
    return Finding(DIRECTION if right else CONTRADICTED, words, note)


# Sections 2.1 and 2.2: the data


def order_of_magnitude(claim: Claim) -> Finding:
    ratio = HH_RLHF / paper.STATED["prompts released"]
    return holds(ratio >= 10, f"160,000 / 10,681 = {ratio:.1f} times as many")


def two_responses(claim: Claim) -> Finding:
    each = paper.STATED["samples released"] / paper.STATED["prompts released"]
    return Finding(DIGIT if each == 2 else SLIP, f"21,362 / 10,681 = {each:g}")


def shares_add_up(claim: Claim) -> Finding:
    total = sum(map(number, claim.said))
    return Finding(DIGIT if math.isclose(total, 100) else SLIP, f"they sum to {total:.1f} %")


def parts_add_up(claim: Claim) -> Finding:
    sums = {name: sum(parts) for name, parts in SHARES.items() if len(parts) == 2}
    right = math.isclose(sums["Nemotron-3"], 40.4) and math.isclose(sums["Nemotron-4"], 26.9)
    return Finding(DIGIT if right else SLIP, ", ".join(f"{name} {total:.1f} %" for name, total in sums.items()))


def kappas_rise(claim: Claim) -> Finding:
    table = TABLES["table-1"]
    rises = [all(np.diff([table.values[row, c] for c in table.columns]) > 0) for row in table.rows]
    note = "part of a rise comes from keeping the three most alike: notebook 03 shows how much on random ratings"
    return holds(all(rises), f"{sum(rises)} of {len(rises)} attributes, at both steps of Table 1", note)


def share_removed(claim: Claim) -> Finding:
    share = 100 * (1 - paper.STATED["samples released"] / RATED_BEFORE_FILTER)
    note = "23,652 rows of the released disagreements; of five ratings the closest three never differ by more than 2"
    return as_said(share, claim.said[0], f"1 - 21,362 / 23,652 = {share:.1f} %", note)


def samples_are_pairs(claim: Claim) -> Finding:
    right = number(claim.said[0]) == 2 * number(claim.said[1])
    return Finding(DIGIT if right else SLIP, f"2 x 10,681 = {2 * number(claim.said[1]):,.0f}")


def split_shares(claim: Claim) -> Finding:
    shares = [100 * paper.STATED[n] / paper.STATED["samples released"] for n in ("train rows", "validation rows")]
    right = all(map(agrees, shares, claim.said))
    return Finding(DIGIT if right else SLIP, f"{shares[0]:.1f} % and {shares[1]:.1f} %")


def _changes() -> dict[str, float]:
    rows = TABLES["table-2"].rows[:5]
    return {row: cell("table-2", row, "mean HS2") - cell("table-2", row, "mean HS") for row in rows}


def means_rise(claim: Claim) -> Finding:
    return holds(min(_changes().values()) > 0, ", ".join(f"{row} {x:+.4f}" for row, x in _changes().items()))


def largest_change(claim: Claim) -> Finding:
    changes = _changes()
    in_sd = {row: x / cell("table-2", row, "SD HS") for row, x in changes.items()}
    most = max(changes, key=changes.get)
    words = f"{most} {changes[most]:+.4f}, coherence {changes['coherence']:+.4f}"
    note = f"in units of HelpSteer's SD: verbosity {in_sd['verbosity']:.2f}, coherence {in_sd['coherence']:.2f}"
    return holds(most == "coherence", words, note)


def verbosity_rise(claim: Claim) -> Finding:
    return as_said(_changes()["verbosity"], "0.5", f"{_changes()['verbosity']:+.4f}")


def three_times(claim: Claim) -> Finding:
    ratio = cell("table-2", "characters in response", "mean HS2") / cell("table-2", "characters in response", "mean HS")
    more = cell("table-2", "complexity", "mean HS2") / cell("table-2", "complexity", "mean HS")
    return as_said(ratio, "3", f"{ratio:.3f} times as long", f"complexity is {more:.2f} times as high")


def rises(claim: Claim) -> Finding:
    now, before = map(number, claim.said)
    return holds(now > before, f"{now - before:+.4f}")


def falls(claim: Claim) -> Finding:
    now, before = map(number, claim.said)
    return holds(now < before, f"{now - before:+.4f}")


# Section 3: the reward models


def reward_steps(claim: Claim) -> Finding:
    steps = paper.STATED["train rows"] * 2 / 128
    reference = paper.STATED["reward model steps"]
    return Finding(DIGIT if int(steps) == reference else SLIP, f"20,324 x 2 / 128 = {steps:.1f}; reference {reference}")


def benchmark_rows(claim: Claim) -> Finding:
    total = sum(paper.REWARDBENCH_COUNTS.values())
    return Finding(DIGIT if total == number(claim.said[0]) else SLIP, f"the subsets' rows sum to {total:,}")


def benchmark_parts(claim: Claim) -> Finding:
    parts = len(paper.REWARDBENCH_SECTIONS), len(paper.REWARDBENCH_COUNTS)
    right = parts == tuple(map(number, claim.said))
    return Finding(DIGIT if right else SLIP, f"{parts[0]} and {parts[1]}")


def overall_is_mean(claim: Claim) -> Finding:
    table, off = TABLES["table-3"], {}
    for row in table.rows:
        mean = np.mean([table.values[row, c] for c in ("chat", "chat-hard", "safety", "reasoning")])
        # Sections are rounded themselves: their mean may be off by half a unit, and so may what is printed.
        off[row] = abs(mean - table.values[row, "overall"])
    wrong = {row: round(x, 3) for row, x in off.items() if x > 0.1 + 1e-9}
    words = f"{len(off) - len(wrong)} of {len(off)} rows, the largest difference {max(off.values()):.3f}"
    note = "; ".join(f"{row}: {x}" for row, x in wrong.items()) or "differences up to .1 come from rounded categories"
    return Finding(SLIP if wrong else DIGIT, words, note)


def tops_table_3(claim: Claim) -> Finding:
    scores = {row: cell("table-3", row, "overall") for row in TABLES["table-3"].rows}
    second = sorted(scores.values())[-2]
    return holds(max(scores, key=scores.get) == OURS[0], f"next in Table 3: {second}")


def ahead_of_permissive(claim: Claim) -> Finding:
    best = max(cell("table-3", row, "overall") for row in PERMISSIVE)
    lead = cell("table-3", OURS[1], "overall") - best
    note = "it is 9.7 in printed digits, not more than that; the average of the published subsets, 88.77, makes it less"
    return as_said(lead, claim.said[0], f"88.8 - {best} = {lead:.1f}", note)


def scaling(claim: Claim) -> Finding:
    large, small = (cell("table-3", row, "overall") for row in OURS)
    return holds(large > small, f"{small} to {large}")


def chat_hard_lead(claim: Claim) -> Finding:
    others = [cell("table-3", row, "chat-hard") for row in TABLES["table-3"].rows if row not in OURS]
    large, small = (cell("table-3", row, "chat-hard") for row in OURS)
    note = f"true of the 340B model; the 70B model has {small}, less than the second best"
    return as_said(large - max(others), claim.said[0], f"{large} - {max(others)} = {large - max(others):.1f}", note)


def reasoning_below(claim: Claim) -> Finding:
    best = max(cell("table-3", row, "reasoning") for row in TABLES["table-3"].rows if row not in OURS)
    ours = [cell("table-3", row, "reasoning") for row in OURS]
    return holds(max(ours) < best, f"{ours[0]} and {ours[1]}, the best {best}")


def prior_sets_below(claim: Claim) -> Finding:
    others = [cell("table-3", row, "prior sets") for row in TABLES["table-3"].rows if row not in OURS]
    others = [x for x in others if x is not None]
    ours = [cell("table-3", row, "prior sets") for row in OURS]
    above = sum(x > max(ours) for x in others)
    return holds(above > len(others) / 2, f"{ours[0]} and {ours[1]}; {above} of {len(others)} others are higher")


def goodness_weights(claim: Claim) -> Finding:
    weights = tuple(paper.HEAD_WEIGHTS[OURS[1]].values())[:3]
    right = tuple(map(number, claim.said)) == tuple(paper.GOODNESS.values()) == weights
    return Finding(DIGIT if right else SLIP, ", ".join(map(str, weights)))


TRAIN_PAIRS, TRAIN_TIES = 10_162, 2_941  # released train pairs, and those with equal helpfulness

ANTEATER, ANTEATER_TURNS = 99_532, 2.88  # conversations of the released Daring-Anteater, and model turns in one

WRONG_REFERENCES = (104, 105, 109, 111, 113, 114, 120, 122, 124, 125, 126, 128, 130)  # appendix H, question ids

REFERENCED = range(101, 131)  # MT-Bench's ids of reasoning, mathematics and coding, ten each

CATEGORIES, QUESTIONS_EACH = 8, 10

ROW_SFT, ROW_DPO = "SFT w. Daring-Anteater", "DPO w. HelpSteer2"

ROW_ITERATIVE, ROW_PPO = "Iterative DPO w. Daring-Anteater", "PPO w. HelpSteer2"

SFT_OASST, STEERLM_OASST = "SFT w. Open Assistant", "SteerLM w. Open Assistant"

BEST_STEERLM = "SteerLM 2.0 iter 2 w. Daring-Anteater"

GPT_4, INSTRUCT = REFERENCES

OF_TABLE_4 = ("MT-Bench", "TruthfulQA MC2", "AlpacaEval 2 LC", "Arena Hard")


def _score(row: str, measure: str) -> float:
    return cell("table-4", row, measure)


def _error(row: str, measure: str) -> float:
    """One standard error where Table 4 prints an interval or an error, else 0."""
    if measure == "AlpacaEval 2 LC":
        return _score(row, "AlpacaEval 2 LC SE")
    if measure == "Arena Hard":
        return (_score(row, "Arena Hard high") - _score(row, "Arena Hard low")) / (2 * 1.96)
    return 0.0


def _best(measure: str) -> tuple[str, float]:
    best = max(ALIGNED, key=lambda row: _score(row, measure))
    return best, _score(best, measure)


# Section 4: data and steps


def _epochs(claim: Claim, note: str = "") -> Finding:
    rows, steps, batch, epochs = claim.said
    found = number(steps) * number(batch) / number(rows)
    words = f"{steps} x {batch} / {number(rows):,.0f} = {found:.2f} epochs"
    return as_said(found, epochs, words, note)


def epochs_oasst(claim: Claim) -> Finding:
    return _epochs(claim, "4 epochs of 56k conversations are 1,750 steps of 128")


def epochs_anteater(claim: Claim) -> Finding:
    rows, steps, batch, _ = claim.said
    by_turn = number(steps) * number(batch) / (number(rows) * ANTEATER_TURNS)
    return _epochs(claim, f"counted by model turn (2.88 a conversation) it is {by_turn:.2f}, which would be close to 2")


def sft_oasst_weak(claim: Claim) -> Finding:
    gaps = {measure: _score(SFT_OASST, measure) - _score(INSTRUCT, measure) for measure in OF_TABLE_4}
    return holds(max(gaps.values()) < 0, ", ".join(f"{measure} {x:+.4g}" for measure, x in gaps.items()))


def anteater_rows(claim: Claim) -> Finding:
    return as_said(ANTEATER, claim.said[0], f"{ANTEATER:,} conversations in the released file")


def dpo_pairs(claim: Claim) -> Finding:
    pairs = TRAIN_PAIRS - TRAIN_TIES
    return as_said(pairs, claim.said[0], f"10,162 - 2,941 ties = {pairs:,}", "counts of the released train rows")


# Section 4.6: reading Table 4


def match_instruct(claim: Claim) -> Finding:
    found, right = [], True
    for measure in OF_TABLE_4:
        best, value = _best(measure)
        theirs, error = _score(INSTRUCT, measure), _error(INSTRUCT, measure)
        right &= value >= theirs - error
        found.append(f"{measure} {value:g} ({best}) against {theirs:g}" + f" +- {error:.2f}" * (value < theirs))
    alone = [
        row for row in ALIGNED if all(_score(row, m) >= _score(INSTRUCT, m) - _error(INSTRUCT, m) for m in OF_TABLE_4)
    ]
    return holds(right, "; ".join(found), f"no measure apart, {len(alone)} single models do on all four")


def beat_gpt_4(claim: Claim) -> Finding:
    best = {measure: _best(measure)[1] for measure in OF_TABLE_4}
    right = all(best[measure] > _score(GPT_4, measure) for measure in OF_TABLE_4)
    words = "; ".join(f"{measure} {best[measure]:g} against {_score(GPT_4, measure):g}" for measure in OF_TABLE_4)
    alone = [row for row in ALIGNED if all(_score(row, m) > _score(GPT_4, m) for m in OF_TABLE_4)]
    return holds(right, words, f"the best model on each measure; on all four: {', '.join(alone) or 'no single model'}")


def one_per_cent(claim: Claim) -> Finding:
    share = 100 * (10e3 + 100e3) / 10e6
    return as_said(share, claim.said[0], f"110 thousand of 10 million = {share:.1f} %")


def _best_is(measure: str, *rows: str) -> Finding:
    best, value = _best(measure)
    above = [f"{row} {_score(row, measure):g}" for row in (INSTRUCT, ROW_SFT) if _score(row, measure) > value]
    note = f"among models aligned in the paper; higher: {', '.join(above)}" if above else ""
    return holds(best in rows, f"{best} {value:g}", note)


def best_truthful(claim: Claim) -> Finding:
    return _best_is("TruthfulQA MC2", ROW_DPO, ROW_ITERATIVE)


def best_arena(claim: Claim) -> Finding:
    return _best_is("Arena Hard", ROW_DPO, ROW_ITERATIVE)


def best_alpaca(claim: Claim) -> Finding:
    return _best_is("AlpacaEval 2 LC", ROW_PPO)


def best_mt_bench(claim: Claim) -> Finding:
    return _best_is("MT-Bench", BEST_STEERLM, "SteerLM 2.0 iter 1 w. Daring-Anteater", "SteerLM w. Daring-Anteater")


def first_round_most(claim: Claim) -> Finding:
    shares = {}
    for measure in ("TruthfulQA MC2", "Arena Hard"):
        first, both = (_score(row, measure) - _score(ROW_SFT, measure) for row in (ROW_DPO, ROW_ITERATIVE))
        shares[measure] = 100 * first / both
    note = "iterating lowers AlpacaEval 2 LC, as the first round did" * (
        _score(ROW_ITERATIVE, "AlpacaEval 2 LC")
        < _score(ROW_DPO, "AlpacaEval 2 LC")
        < _score(ROW_SFT, "AlpacaEval 2 LC")
    )
    words = ", ".join(f"{share:.0f} % of the gain on {measure}" for measure, share in shares.items())
    return holds(all(50 < share < 100 for share in shares.values()), words, note)


def ppo_minimal(claim: Claim) -> Finding:
    gain, error = (
        _score(ROW_PPO, "AlpacaEval 2 LC") - _score(ROW_SFT, "AlpacaEval 2 LC"),
        _error(ROW_PPO, "AlpacaEval 2 LC"),
    )
    return holds(0 < gain < error, f"AlpacaEval 2 LC {gain:+.2f}, standard error {error:.2f}")


def ppo_truthful(claim: Claim) -> Finding:
    change = _score(ROW_PPO, "TruthfulQA MC2") - _score(ROW_SFT, "TruthfulQA MC2")
    lowest = min(ALIGNED, key=lambda row: _score(row, "TruthfulQA MC2")) == ROW_PPO
    return holds(change < 0 and lowest, f"{change:+.4f} from SFT, the lowest of all aligned on Daring-Anteater")


def ablation_drop(claim: Claim) -> Finding:
    drops = {measure: _score(SFT_OASST, measure) - _score(ROW_SFT, measure) for measure in OF_TABLE_4}
    return holds(max(drops.values()) < 0, ", ".join(f"{measure} {x:+.4g}" for measure, x in drops.items()))


def ablation_gain(claim: Claim) -> Finding:
    there = _score(STEERLM_OASST, "MT-Bench") - _score(SFT_OASST, "MT-Bench")
    here = _score(BEST_STEERLM, "MT-Bench") - _score(ROW_SFT, "MT-Bench")
    return holds(there > here, f"{there:+.2f} against {here:+.2f}")


# Appendix H


def mt_bench_prompts(claim: Claim) -> Finding:
    questions, prompts, categories = map(number, claim.said)
    right = prompts == 2 * questions and questions == categories * QUESTIONS_EACH
    return Finding(
        DIGIT if right else SLIP, f"2 x {questions:g} = {2 * questions:g}; {categories:g} x 10 = {questions:g}"
    )


def referenced(claim: Claim) -> Finding:
    right = len(REFERENCED) == number(claim.said[0]) and number(claim.said[1]) == CATEGORIES * QUESTIONS_EACH
    return Finding(DIGIT if right else SLIP, "3 categories of 10 questions, of 8")


def wrong_references(claim: Claim) -> Finding:
    inside = [i for i in WRONG_REFERENCES if i in REFERENCED]
    right = len(inside) == len(set(WRONG_REFERENCES)) == number(claim.said[0])
    by = [sum(start <= i < start + 10 for i in inside) for start in (101, 111, 121)]
    words = f"{len(inside)} ids, of them {by[0]} reasoning, {by[1]} mathematics, {by[2]} coding"
    return Finding(DIGIT if right else SLIP, words)


def judge_lower(claim: Claim) -> Finding:
    frame = tables.columns()
    lower = float((frame[tables.OLD] - frame[tables.NEW]).mean())
    return as_said(lower, claim.said[0], f"{lower:.3f} over ten models")


def _r2(claim: Claim, judge: str) -> Finding:
    found = tables.regression()[judge]
    note = f"95 % interval of ten points: {found.low:.2f} to {found.high:.2f} (Fisher)"
    return as_said(found.r2, claim.said[0], f"{found.r2:.4f}", note)


def r2_new(claim: Claim) -> Finding:
    return _r2(claim, tables.NEW)


def r2_old(claim: Claim) -> Finding:
    return _r2(claim, tables.OLD)


def judge_better(claim: Claim) -> Finding:
    old, new = (tables.regression()[judge] for judge in (tables.OLD, tables.NEW))
    t, p = tables.williams()
    note = f"ten models: Williams' t {t:.2f}, p {p:.3f}; the bootstrap's interval of the difference is in Table 5"
    return holds(new.r2 > old.r2, f"R squared {new.r2:.3f} against {old.r2:.3f}", note)


OWN, RUN, NONE = "the paper's own numbers", "our run", "none"

# What notebook 13 leaves of two policies on the same questions: rows as `judged_table.trades` has them. A measure of
# Table 4 -> (benchmark, measure) there; the benchmark has its own name only where all of it was asked. AlpacaEval's
# length-controlled rate is a regression over all questions, which leaves nothing to pair.
TRADES = "trades.csv"

MEASURES = {
    "TruthfulQA MC2": ("TruthfulQA", "TruthfulQA MC2"),
    "MT-Bench": ("MT-Bench", paper.GRADE),
    "Arena Hard": ("Arena Hard", paper.WON),
}

POLICIES = {row: policy for policy, row in paper.PAPER_ROWS.items()}

COLUMNS = ["id", "place", "notebook", "claim", "said", "test", "tier", "verdict", "evidence", "found", "note"]


def derived(claim: Claim) -> Finding | None:
    """What the paper's own numbers say of a claim; None where they say nothing.

    Paper: where `claim.place` says. A number that the text takes from a table must round to the text's digits, else it
    is a slip; whether the table itself is right, only a run can tell.
    """
    found = None
    if claim.derive:
        found = globals()[claim.derive](claim)
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
    return abs(number(said)) <= abs(value) < abs(number(said)) + unit(said)


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
    tables = {table: assemble(table, tier).set_index(["row", "column"]) for table, *_ in claim.cells}
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
    report = want and read(tier, claim.notebook)
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
    report = read(tier, claim.notebook) if claim.better else None
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
    part = frame[(frame.benchmark == key[0]) & (frame.measure == key[1])].dropna(subset=paper.GAIN)
    for policy, against, sign in ((one, other, 1), (other, one, -1)):
        found = part[(part.policy == policy) & (part.against == against)]
        if len(found):
            value, low, high = (sign * float(x) for x in found.iloc[0][paper.GAIN])
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
    return site.page(name, "plain", "Claims", css=_STYLE + "\n".join(rules), body=body)


def save(run, table: pd.DataFrame) -> None:
    """Write the ledger into the report of a run as `claims.csv` and `claims.html`. Paper: silent. run: `report.Run`."""
    words = run.caption(f"The {table.id.nunique()} quantitative claims of the paper's text, and what became of them.")
    run.keep("claims.csv", table.to_csv(index=False, lineterminator="\n"), words)
    run.keep("claims.html", page(table, f"{run.tier}/{run.notebook}/claims.html"), words)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
