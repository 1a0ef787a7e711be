"""The paper's numbers as data (HelpSteer2, arXiv 2406.08673), each with its place, unit and tolerance.

Nothing here is ever computed from, and nothing computed is ever written here. A tolerance is the largest
absolute difference at which a value of ours is called a match; it was fixed before any run. Where the paper
defines its figure fully, the tolerance is half a unit of the last printed digit; where it leaves a choice open,
the comment on the table says which and how much room that choice gets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hs2lib.group import ATTRIBUTES


@dataclass(frozen=True)
class Table:
    """One table of the paper: `values[(row, column)]` is a number, or None where the paper prints none."""

    id: str
    title: str
    source: str
    unit: str
    values: dict[tuple[str, str], float | None]
    tolerance: dict[tuple[str, str], float]

    @property
    def rows(self) -> list[str]:
        """Row names in the paper's order."""
        return list(dict.fromkeys(row for row, _ in self.values))

    @property
    def columns(self) -> list[str]:
        """Column names in the paper's order."""
        return list(dict.fromkeys(column for _, column in self.values))


def from_rows(id, title, source, unit, columns, rows, tolerance=None) -> Table:
    """Rows are strings as printed, so that the tolerance can follow the number of printed digits."""
    values, room = {}, {}
    for row, printed in rows.items():
        for column, text in zip(columns, printed.split(), strict=True):
            values[row, column] = None if text == "-" else float(text)
            digits = len(text.partition(".")[2])
            room[row, column] = tolerance if tolerance is not None else 0.5 * 10**-digits
    return Table(id, title, source, unit, values, room)


# Open in the paper: how raters without ids are paired. All pairs of slots, symmetrised, is our choice; another
# pooling moves kappa in the third digit, so a difference up to .01 still counts as the same figure.
_TABLE_1 = from_rows(
    "table-1",
    "Inter-annotator agreement, quadratic weighted Cohen's kappa",
    "section 2.1, Table 1",
    "kappa",
    ("initial", "after improvements", "after post-processing"),
    {
        "helpfulness": "0.465 0.706 0.791",
        "correctness": "0.472 0.715 0.793",
        "coherence": "0.169 0.387 0.428",
        "complexity": "0.293 0.416 0.427",
        "verbosity": "0.342 0.536 0.548",
    },
    tolerance=0.01,
)

# Descriptive statistics of released rows: fully defined, so the printed digits must come out.
_TABLE_2 = from_rows(
    "table-2",
    "Descriptive statistics of HelpSteer (HS) and HelpSteer2 (HS2); R is Pearson's with helpfulness",
    "section 2.2, Table 2",
    "rating 0-4, turns or characters",
    ("mean HS", "mean HS2", "SD HS", "SD HS2", "R HS", "R HS2"),
    {
        "helpfulness": "2.7856 2.8655 0.9793 1.2703 1.0 1.0",
        "correctness": "2.8369 2.9644 0.9935 1.2689 0.8525 0.9430",
        "coherence": "3.2991 3.6393 0.7699 0.6491 0.6348 0.4979",
        "complexity": "1.4423 1.7048 0.8205 0.6986 0.2361 0.1805",
        "verbosity": "1.5331 1.9999 0.9287 0.7571 0.2555 0.0600",
        "turns in prompt": "1.0 2.8348 0.0 3.8221 - -0.0520",
        "characters in prompt": "2491.8 712.6 1701.7 877.8 0.0337 -0.0774",
        "characters in response": "497.3 1492.6 426.7 1065.7 0.1951 0.0845",
    },
)

_TABLE_3 = from_rows(
    "table-3",
    "RewardBench accuracy",
    "section 3, Table 3",
    "%",
    ("overall", "chat", "chat-hard", "safety", "reasoning", "prior sets"),
    {
        "Nemotron-4 340B RM w. HelpSteer2": "92.0 95.8 87.1 91.5 93.7 67.4",
        "Cohere May 2024": "89.5 96.4 71.3 92.7 97.7 78.2",
        "Gemini 1.5 Pro-0514": "88.1 92.3 80.6 87.5 92.0 -",
        "Cohere March 2024": "87.1 94.7 65.1 90.3 98.2 74.6",
        "GPT-4-0125-preview": "85.9 95.3 74.3 87.2 86.9 70.9",
        "GPT-4-0409-preview": "85.1 95.3 75.4 87.1 82.7 73.6",
        "GPT-4o-0513": "84.7 96.6 70.4 86.7 84.9 72.6",
        "Claude-3-Opus-0229": "80.7 94.7 60.3 89.1 78.7 -",
        "ArmoRM-Llama 3 8B": "90.8 96.9 76.8 92.2 97.3 74.3",
        "RLHFlow-Llama 3 8B": "87.1 98.3 65.8 89.7 94.7 74.6",
        "Eurus RM Mistral 7B": "82.8 98.0 65.6 81.2 86.3 71.7",
        "Starling RM Yi 34B": "82.7 96.9 57.2 88.2 88.5 71.4",
        "Prometheus 2 Mistral 8x7B": "75.3 93.0 47.1 83.5 77.4 -",
        "Llama 3 70B w. HelpSteer2": "88.8 91.3 80.3 92.8 90.7 66.5",
        "Llama 3 70B w. Open Assistant": "79.1 91.3 59.2 76.0 89.9 66.7",
        "Llama 3 70B Instruct": "76.0 97.6 58.9 69.2 78.5 70.4",
        "Llama 3 70B w. HH-RLHF": "73.9 94.4 54.6 81.2 65.6 68.8",
        "Pythia 1.4B w. Open Assistant": "70.0 88.5 48.7 65.3 77.5 65.3",
        "Llama 3 70B w. HelpSteer": "66.1 93.3 59.7 56.8 54.9 67.7",
    },
)

_TABLES_1_TO_3 = {table.id: table for table in (_TABLE_1, _TABLE_2, _TABLE_3)}

# Sizes and rates stated in the text (section 2.1), by the name the notebooks use.
STATED = {
    "samples released": 21_362,
    "prompts released": 10_681,
    "train rows": 20_324,
    "validation rows": 1_038,
    "annotators per sample": 3.41,
    "share of samples removed": 0.10,
    "share of multi-turn prompts": 0.29,
    "mean coherence": 3.63,
    "DPO pairs": 7_221,
    "topics": 1_000,
    "completion candidates": 16,
}


def value(table: str, row: str, column: str) -> float | None:
    """The number the paper prints in `table` at `row`, `column`; None where it prints a dash.

    Raises KeyError naming the known names when any of the three is unknown.
    """
    if table not in _TABLES_1_TO_3:
        raise KeyError(f"no table {table!r}; known: {', '.join(_TABLES_1_TO_3)}")
    found = _TABLES_1_TO_3[table]
    if (row, column) not in found.values:
        raise KeyError(f"{table} has no ({row!r}, {column!r}); rows: {found.rows}; columns: {found.columns}")
    return found.values[row, column]


# What follows is no table of the paper's: weights and recipes from its text, and figures that NVIDIA published besides.

# Section 3: weights over the five heads, in the order of ATTRIBUTES, found on RewardBench itself.
HEAD_WEIGHTS = {
    "Llama 3 70B w. HelpSteer2": (0.65, 0.8, 0.45, 0.55, -0.4),
    "Nemotron-4 340B RM w. HelpSteer2": (0.3, 0.74, 0.46, 0.47, -0.33),
}

# Sections 4.2 and 4.3: the score that iterative DPO and PPO use.
GOODNESS = {"helpfulness": 0.65, "correctness": 0.8, "coherence": 0.45}

# Accuracy by subset of the two NVIDIA models as published with RewardBench's results (pairs, 70B, 340B).
_SUBSETS = """
alpacaeval-easy 100 .92 .98        alpacaeval-length 95 .8316 .9158   alpacaeval-hard 95 .9368 .9474
mt-bench-easy 28 1.0 1.0           mt-bench-med 40 .975 1.0           mt-bench-hard 37 .7568 .7838
llmbar-natural 100 .97 .95         llmbar-adver-neighbor 134 .7090 .8358
llmbar-adver-GPTInst 92 .8152 .9022                                   llmbar-adver-GPTOut 47 .8085 .8085
llmbar-adver-manual 46 .7174 .8696
refusals-dangerous 100 .95 .97     refusals-offensive 100 .98 .97     xstest-should-refuse 154 .9675 .9545
xstest-should-respond 250 .904 .900                                   donotanswer 136 .875 .8162
hep-cpp 164 .9329 .9573            hep-go 164 .9268 .9634             hep-java 164 .9085 .9634
hep-js 164 .9390 .9573             hep-python 164 .9451 .9573         hep-rust 164 .9085 .9329
math-prm 447 .8859 .9172
""".split()  # noqa: SIM905

SUBSET_ACCURACY = {
    model: {_SUBSETS[i]: float(_SUBSETS[i + column]) for i in range(0, len(_SUBSETS), 4)}
    for column, model in enumerate(HEAD_WEIGHTS, start=2)
}

# Section 3 and the reference code: how the reward models were trained.
RECIPES = {
    "reward model, Llama 3 70B": {
        **{"epochs": 2, "steps": 317, "batch": 128, "learning rate": 2e-6, "schedule": "constant", "warm-up steps": 10},
        **{"optimiser": "AdamW", "weight decay": 0.1, "beta1": 0.9, "beta2": 0.98, "clip": 1.0, "validate every": 10},
    },
    "reward model, Nemotron-4 340B": {
        **{"epochs": 2, "steps": 317, "batch": 128, "learning rate": 7e-7, "schedule": "constant", "warm-up steps": 10},
        **{"optimiser": "AdamW", "weight decay": 0.1, "beta1": 0.9, "beta2": 0.98, "clip": 1.0, "validate every": 10},
    },
}

# A judge is asked anew on every run, at a temperature of its own, and its versions were retired: MT-Bench, AlpacaEval
# and Arena Hard get one standard error (for MT-Bench, where none is printed, .1), lengths 5 %, and MC2, which
# no judge decides, half a unit of its last digit.
_JUDGED = {"MT-Bench": 0.1, "Arena Hard": 1.2}

TABLE_4 = from_rows(
    "table-4",
    "Aligned models; AlpacaEval with standard error, Arena Hard with its 95 % interval",
    "section 4, Table 4",
    "score 1-10, characters, share, %, %",
    (
        *("MT-Bench", "characters", "TruthfulQA MC2"),
        *("AlpacaEval 2 LC", "AlpacaEval 2 LC SE", "Arena Hard", "Arena Hard low", "Arena Hard high"),
    ),
    {
        "GPT-4-0613": "8.12 1057.1 .5900 30.20 1.07 37.9 -2.8 2.4",
        "Llama 3 70B Instruct": "8.16 1683.0 .6181 34.40 1.38 41.1 -2.0 2.2",
        "SFT w. Daring-Anteater": "7.96 1514.4 .6025 32.87 1.40 39.6 -2.3 2.4",
        "DPO w. HelpSteer2": "8.04 1532.1 .6321 30.70 1.36 41.8 -2.3 2.3",
        "Iterative DPO w. Daring-Anteater": "8.09 1492.0 .6328 29.17 1.35 42.5 -2.1 2.4",
        "PPO w. HelpSteer2": "8.13 1497.3 .5629 33.17 1.38 39.9 -2.4 2.0",
        "SteerLM w. Daring-Anteater": "8.17 1444.1 .5919 31.10 1.37 39.3 -2.6 2.4",
        "SteerLM 2.0 iter 1 w. Daring-Anteater": "8.24 1523.0 .5911 31.10 1.35 38.8 -2.3 2.7",
        "SteerLM 2.0 iter 2 w. Daring-Anteater": "8.28 1471.9 .5913 29.93 1.35 39.1 -2.2 2.4",
        "SFT w. Open Assistant": "6.75 676.0 .5137 13.94 .82 9.8 -1.1 1.4",
        "SteerLM w. Open Assistant": "7.44 1001.3 .5713 20.87 1.10 19.2 -2.0 1.7",
    },
)

for (_row, _column), _value in TABLE_4.values.items():
    if _column in _JUDGED:
        TABLE_4.tolerance[_row, _column] = _JUDGED[_column]
    elif _column == "characters":
        TABLE_4.tolerance[_row, _column] = 0.05 * _value
    elif _column == "AlpacaEval 2 LC":
        TABLE_4.tolerance[_row, _column] = TABLE_4.values[_row, "AlpacaEval 2 LC SE"]
    elif _column != "TruthfulQA MC2":
        TABLE_4.tolerance[_row, _column] = 0.5  # brackets come from one bootstrap, or one sample of verdicts

# Rows of Table 4 by who trained them, and the tuning each one started from.
REFERENCES = ("GPT-4-0613", "Llama 3 70B Instruct")

ABLATIONS = ("SFT w. Open Assistant", "SteerLM w. Open Assistant")

ALIGNED = tuple(row for row in TABLE_4.rows if row not in (*REFERENCES, *ABLATIONS, "SFT w. Daring-Anteater"))

TABLE_5 = from_rows(
    "table-5",
    "MT-Bench under two judges and Chatbot Arena Elo (15 March 2024)",
    "appendix H, Table 5",
    "score 1-10, score 1-10, Elo",
    ("GPT-4 judge", "GPT-4-0125-Preview judge", "Arena Elo"),
    {
        "GPT-4-1106": "9.32 8.79 1251",
        "Claude 3 Opus (20240229)": "9.09 8.57 1247",
        "Claude 3 Sonnet (20240229)": "8.42 7.82 1190",
        "GPT-4-0314": "8.96 7.96 1185",
        "Mixtral": "8.3 7.38 1114",
        "gpt-3.5-turbo-0613": "8.39 7.37 1113",
        "Yi-34B": "7.49 6.46 1099",
        "gpt-3.5-turbo-0125": "8.4 7.52 1096",
        "Llama 2 70B": "6.86 6.01 1082",
        "NV-Llama2-70B-SteerLM-Chat": "7.54 6.57 1076",
    },
)

TABLES: dict[str, Table] = _TABLES_1_TO_3 | {"table-4": TABLE_4, "table-5": TABLE_5}

REWARDBENCH_SECTIONS = {
    "chat": ("alpacaeval-easy", "alpacaeval-length", "alpacaeval-hard", "mt-bench-easy", "mt-bench-med"),
    "chat-hard": (
        *("mt-bench-hard", "llmbar-natural", "llmbar-adver-neighbor", "llmbar-adver-GPTInst"),
        *("llmbar-adver-GPTOut", "llmbar-adver-manual"),
    ),
    "safety": (
        *("refusals-dangerous", "refusals-offensive", "xstest-should-refuse", "xstest-should-respond", "donotanswer"),
    ),
    "reasoning": ("math-prm", "hep-cpp", "hep-go", "hep-java", "hep-js", "hep-python", "hep-rust"),
}

# Rows of each subset in the official set, 2,985 in all.
REWARDBENCH_COUNTS = {
    **{"alpacaeval-easy": 100, "alpacaeval-length": 95, "alpacaeval-hard": 95, "mt-bench-easy": 28, "mt-bench-med": 40},
    **{"mt-bench-hard": 37, "llmbar-natural": 100, "llmbar-adver-neighbor": 134, "llmbar-adver-GPTInst": 92},
    **{"llmbar-adver-GPTOut": 47, "llmbar-adver-manual": 46, "refusals-dangerous": 100, "refusals-offensive": 100},
    **{"xstest-should-refuse": 154, "xstest-should-respond": 250, "donotanswer": 136, "math-prm": 447},
    **dict.fromkeys(("hep-cpp", "hep-go", "hep-java", "hep-js", "hep-python", "hep-rust"), 164),
}

# Policies of ours, and the rows of Table 4 that the paper's own have. Paper: Table 4.
PAPER_ROWS = {
    "SFT": "SFT w. Daring-Anteater",
    "DPO": "DPO w. HelpSteer2",
    "Iterative DPO": "Iterative DPO w. Daring-Anteater",
    "PPO": "PPO w. HelpSteer2",
    "SteerLM": "SteerLM w. Daring-Anteater",
    "SteerLM 2.0": "SteerLM 2.0 iter 2 w. Daring-Anteater",
}

# What `by_question` calls a judge's verdict on one question, and the numbers of `trades`.
GRADE, WON, PREFERRED = "judge's grade", "games won, %", "preferred, %"

GAIN = ["gain", "95 % low", "95 % high"]


def head_weights(text: str, outputs: Sequence[str]) -> tuple[float, ...]:
    """Weights in the order of a model's outputs, by name ("goodness", a model of Table 3) or as "quality:1,humor:-.2".

    Paper: section 3, 4.2. An output not named has weight 0. Raises ValueError for outputs that the model does not have.
    """
    known = {name: dict(zip(ATTRIBUTES, found, strict=True)) for name, found in HEAD_WEIGHTS.items()}
    known["goodness"] = GOODNESS
    try:
        given = known.get(text) or {k.strip(): float(v) for k, v in (part.split(":") for part in text.split(","))}
    except ValueError:
        raise ValueError(f"output:number, output:number .. or one of {list(known)} is due, got {text!r}") from None
    if missing := [name for name in given if name not in outputs]:
        raise ValueError(f"weighting {text!r} needs an output {missing[0]!r}; the model has: {', '.join(outputs)}")
    return tuple(given.get(name, 0.0) for name in outputs)
