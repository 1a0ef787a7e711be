"""Claims of section 3, the reward model, and two that belong to it."""

from collections.abc import Sequence

from hs2lib.paper import REWARDBENCH_COUNTS, REWARDBENCH_SECTIONS
from hs2lib.report.ledger import (
    LLAMA,
    MODEL,
    NEMOTRON,
    OTHERS,
    Claim,
    Finding,
    agrees,
    direction,
    exact,
    number,
    same,
    stated,
    table_3,
    unit,
    weights,
)

# Notebooks whose reports can test claims
REWARDBENCH = "06_rewardbench_evaluation"

# Rows of Table 3 that were trained on data whose licences allow commercial use, as the table groups
# them.
PERMISSIVE = [
    "Llama 3 70B w. Open Assistant",
    "Llama 3 70B w. HH-RLHF",
    "Pythia 1.4B w. Open Assistant",
    "Llama 3 70B w. HelpSteer",
]

CLAIMS: list[Claim] = []  # in the order of the paper


# Section 3: reward model


def reward_steps(printed: Sequence[str]) -> Finding:
    steps = stated["train rows"] * 2 / 128
    whole = stated["train rows"] * 2 // 128
    return exact(
        same(whole, stated["reward model steps"]),
        f"20,324 x 2 / 128 = {steps:.1f}; reference {whole}",
    )


CLAIMS.append(
    Claim(
        id="epochs",
        place="section 3",
        notebook="05_reward_model_training",
        claim="Two epochs at batch 128 (the reference code: 317 steps)",
        numbers=["two", "128"],
        check=reward_steps,
    )
)


def benchmark_rows(printed: Sequence[str]) -> Finding:
    pairs = sum(REWARDBENCH_COUNTS.values())
    return exact(same(pairs, number(printed[0])), f"the subsets' rows sum to {pairs:,}")


CLAIMS.append(
    Claim(
        id="benchmark-size",
        place="section 3",
        notebook=REWARDBENCH,
        claim="RewardBench has 2985 tasks",
        numbers=["2985"],
        check=benchmark_rows,
    )
)


def benchmark_parts(printed: Sequence[str]) -> Finding:
    categories = len(REWARDBENCH_SECTIONS)
    parts = len(REWARDBENCH_COUNTS)
    return exact(
        same(categories, number(printed[0])) and same(parts, number(printed[1])),
        f"{categories} and {parts}",
    )


CLAIMS.append(
    Claim(
        id="benchmark-parts",
        place="section 3",
        notebook=REWARDBENCH,
        claim="... in 23 subsets, which form 4 categories",
        numbers=["4", "23"],
        check=benchmark_parts,
    )
)


def overall_is_mean(printed: Sequence[str]) -> Finding:
    means = table_3[["chat", "chat-hard", "safety", "reasoning"]].mean(axis=1)
    apart = (means - table_3["overall"]).abs()
    # Categories are rounded: their mean may be off by half a unit, and so may the printed one.
    right = (apart <= 0.1 + 1e-9).sum()
    rows = len(apart)
    return exact(
        right == rows,
        f"{right} of {rows} rows, the largest difference {apart.max():.3f}",
        "differences up to .1 come from rounded categories",
    )


CLAIMS.append(
    Claim(
        id="overall-is-mean",
        place="section 3",
        notebook=REWARDBENCH,
        claim="Overall is the mean of the four categories (19 rows of Table 3)",
        numbers=["mean"],
        check=overall_is_mean,
    )
)

CLAIMS.append(
    Claim(
        id="leaderboard-size",
        place="section 3",
        notebook=REWARDBENCH,
        claim="Its leaderboard had more than 80 models",
        numbers=["80"],
        against="80 models or fewer on it at that time",
        lacks=OTHERS,
    )
)


def pairs_ten_thousand(printed: Sequence[str]) -> Finding:
    training = stated["train rows"] / 2
    return exact(
        agrees(training, printed[0]),
        f"{training:,.0f} for training",
        f"{stated['prompts released']:,} in all, which would round to 11k",
    )


CLAIMS.append(
    Claim(
        id="pairs-ten-thousand",
        place="section 3",
        notebook="01_dataset_statistics",
        claim="HelpSteer2 has ten thousand (10k) pairs of responses",
        numbers=["10k"],
        check=pairs_ten_thousand,
    )
)

CLAIMS.append(
    Claim(
        id="best-permissive",
        place="section 3",
        notebook=REWARDBENCH,
        claim="Llama 3 70B with HelpSteer2 has 88.8 %",
        numbers=["88.8"],
        cells=[("table-3", LLAMA, "overall")],
        lacks=MODEL,
    )
)


def ahead_of_permissive(printed: Sequence[str]) -> Finding:
    best = table_3.loc[PERMISSIVE, "overall"].max()
    lead = table_3.loc[LLAMA, "overall"] - best
    return direction(
        lead > number(printed[0]) - unit(printed[0]) / 2,
        f"88.8 - {best} = {lead:.1f}",
        "it is 9.7 in printed digits, not more than that; the average of the published subsets, "
        "88.77, makes it less",
    )


CLAIMS.append(
    Claim(
        id="ahead-of-permissive",
        place="section 3",
        notebook=REWARDBENCH,
        claim="... and is more than 9.7 points ahead of all other models trained on permissive "
        "data",
        numbers=["9.7"],
        check=ahead_of_permissive,
        lacks=MODEL,
    )
)


def scaling(printed: Sequence[str]) -> Finding:
    large = table_3.loc[NEMOTRON, "overall"]
    small = table_3.loc[LLAMA, "overall"]
    return direction(large > small, f"{small} to {large}")


CLAIMS.append(
    Claim(
        id="scaling",
        place="section 3",
        notebook=REWARDBENCH,
        claim="The 340B base model lifts the overall score to 92.0 %",
        numbers=["92.0"],
        cells=[("table-3", NEMOTRON, "overall")],
        check=scaling,
        lacks=MODEL,
    )
)


def chat_hard_lead(printed: Sequence[str]) -> Finding:
    large = table_3.loc[NEMOTRON, "chat-hard"]
    small = table_3.loc[LLAMA, "chat-hard"]
    second = table_3["chat-hard"].drop([NEMOTRON, LLAMA]).max()
    lead = large - second
    return exact(
        agrees(lead, printed[0]),
        f"{large} - {second} = {lead:.1f}",
        f"true of the 340B model; the 70B model has {small}, less than the second best",
    )


CLAIMS.append(
    Claim(
        id="chat-hard",
        place="section 3",
        notebook=REWARDBENCH,
        claim="In Chat-Hard, models trained with HelpSteer2 are 6.5 points ahead of the second "
        "best",
        numbers=["6.5"],
        check=chat_hard_lead,
        lacks=MODEL,
    )
)


def reasoning_below(printed: Sequence[str]) -> Finding:
    large = table_3.loc[NEMOTRON, "reasoning"]
    small = table_3.loc[LLAMA, "reasoning"]
    best = table_3["reasoning"].drop([NEMOTRON, LLAMA]).max()
    return direction(best > large and best > small, f"{large} and {small}, the best {best}")


CLAIMS.append(
    Claim(
        id="reasoning",
        place="section 3",
        notebook=REWARDBENCH,
        claim="They do not reach the best models' Reasoning",
        numbers=["below"],
        check=reasoning_below,
        lacks=MODEL,
    )
)


def prior_sets_below(printed: Sequence[str]) -> Finding:
    large = table_3.loc[NEMOTRON, "prior sets"]
    small = table_3.loc[LLAMA, "prior sets"]
    others = table_3["prior sets"].drop([NEMOTRON, LLAMA]).dropna()
    higher = (others > max(large, small)).sum()
    share = higher / len(others)
    return direction(
        share > 0.5, f"{large} and {small}; {higher} of {len(others)} others are higher"
    )


CLAIMS.append(
    Claim(
        id="prior-sets",
        place="section 3",
        notebook=REWARDBENCH,
        claim="On Prior Sets they stand well below many others",
        numbers=["below"],
        check=prior_sets_below,
        lacks=MODEL,
    )
)

# Section 4.3 and appendix H, on the reward model


def goodness_weights(printed: Sequence[str]) -> Finding:
    a = weights[LLAMA].helpfulness
    b = weights[LLAMA].correctness
    c = weights[LLAMA].coherence
    return exact(
        same(a, number(printed[0]), weights.goodness.helpfulness)
        and same(b, number(printed[1]), weights.goodness.correctness)
        and same(c, number(printed[2]), weights.goodness.coherence),
        f"{a}, {b}, {c}",
    )


CLAIMS.append(
    Claim(
        id="goodness-weights",
        place="section 4.3",
        notebook=REWARDBENCH,
        claim="Goodness weighs .65, .8 and .45 (the first three of the 70B model's weights in "
        "appendix H)",
        numbers=["0.65", "0.8", "0.45"],
        check=goodness_weights,
    )
)

CLAIMS.append(
    Claim(
        id="prior-sets-ceiling",
        place="appendix H",
        notebook=REWARDBENCH,
        claim="Parts of Prior Sets are not predicted beyond 70 % even by models trained on them",
        numbers=["70"],
        against="a model trained on them above 70 % on each part",
        lacks=OTHERS,
    )
)
