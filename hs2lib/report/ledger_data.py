"""Claims of the abstract and of sections 1 and 2: the data."""

from collections.abc import Sequence

from hs2lib.group import ATTRIBUTES
from hs2lib.report.ledger import (
    MODEL,
    NEMOTRON,
    NEVER_RELEASED,
    OTHERS,
    Claim,
    Finding,
    Reported,
    agrees,
    direction,
    exact,
    listed,
    number,
    same,
    stated,
    table_1,
    table_2,
    table_3,
)

# Notebooks whose reports can test claims
STATISTICS = "01_dataset_statistics"
CORRELATIONS = "02_attribute_correlations"
AGREEMENT = "03_annotator_agreement"
COLLECTION = "04_data_collection"

RATED = list(ATTRIBUTES)  # rows of Tables 1 and 2

CLAIMS: list[Claim] = []  # in the order of the paper


# Abstract


def order_of_magnitude(printed: Sequence[str]) -> Finding:
    ratio = 160_000 / stated["prompts released"]
    return direction(ratio > 10, f"160,000 / 10,681 = {ratio:.1f} times as many")


CLAIMS.append(
    Claim(
        id="pairs-fewer",
        place="abstract",
        notebook=STATISTICS,
        claim="HH-RLHF (above 160,000 by appendix D) has ten times as many pairs as these ten "
        "thousand, or more",
        numbers=["ten thousand"],
        check=order_of_magnitude,
    )
)


def tops_table_3(printed: Sequence[str]) -> Finding:
    best = table_3.loc[NEMOTRON, "overall"]
    next = table_3["overall"].drop([NEMOTRON]).max()
    return direction(best > next, f"next in Table 3: {next}")


CLAIMS.append(
    Claim(
        id="best-reward-model",
        place="abstract",
        notebook="06_rewardbench_evaluation",
        claim="92.0 % on RewardBench's primary set, above every listed model",
        numbers=["92.0"],
        cells=[("table-3", NEMOTRON, "overall")],
        check=tops_table_3,
        lacks=MODEL,
    )
)

# Section 1: introduction

CLAIMS.append(
    Claim(
        id="llama-2-comparisons",
        place="section 1",
        notebook=STATISTICS,
        claim="Llama 2 used over 1 million binary comparisons",
        numbers=["1"],
        against="a million comparisons or fewer in its report",
        lacks=OTHERS,
    )
)

CLAIMS.append(
    Claim(
        id="llama-3-samples",
        place="section 1",
        notebook=STATISTICS,
        claim="Llama 3 used 10 million samples for tuning and preferences",
        numbers=["10"],
        lacks=OTHERS,
    )
)

# Section 2.1: dataset collection

CLAIMS.append(
    Claim(
        id="sharegpt",
        place="section 2.1",
        notebook=COLLECTION,
        claim="Over 95 % of the prompts are from ShareGPT",
        numbers=["95"],
        against="95 % of the prompts or fewer from there",
        lacks=NEVER_RELEASED,
    )
)

CLAIMS.append(
    Claim(
        id="topics",
        place="section 2.1",
        notebook=COLLECTION,
        claim="Prompts were clustered into about 1,000 topics and sampled evenly",
        numbers=["1000"],
        lacks=NEVER_RELEASED,
    )
)

CLAIMS.append(
    Claim(
        id="multi-turn",
        place="section 2.1",
        notebook=STATISTICS,
        claim="About 29 % of the samples have multi-turn prompts",
        numbers=["29"],
        reported=Reported(
            file="multi-turn.csv",
            value="multi-turn (%)",
            low=28.5,
            high=29.5,
            where="data",
            row="helpsteer2",
        ),
    )
)


def two_responses(printed: Sequence[str]) -> Finding:
    each = stated["samples released"] / stated["prompts released"]
    return exact(same(each, 2), f"21,362 / 10,681 = {each:g}")


CLAIMS.append(
    Claim(
        id="two-responses",
        place="section 2.1",
        notebook=STATISTICS,
        claim="Two responses a prompt, where HelpSteer had four",
        numbers=["two", "four"],
        check=two_responses,
    )
)


def shares_add_up(printed: Sequence[str]) -> Finding:
    total = sum(number(share) for share in printed)
    return exact(same(total, 100), f"they sum to {total:.1f} %")


CLAIMS.append(
    Claim(
        id="source-shares",
        place="section 2.1",
        notebook=STATISTICS,
        claim="The sources of responses and their shares (18.9, 40.4, 26.9, 7.9 and 5.9 %) cover "
        "all of them",
        numbers=["18.9", "40.4", "26.9", "7.9", "5.9"],
        check=shares_add_up,
    )
)


def parts_add_up(printed: Sequence[str]) -> Finding:
    three = number(printed[0]) + number(printed[1])
    four = number(printed[2]) + number(printed[3])
    return exact(
        same(three, 40.4) and same(four, 26.9),
        f"Nemotron-3 {three:.1f} %, Nemotron-4 {four:.1f} %",
    )


CLAIMS.append(
    Claim(
        id="source-parts",
        place="section 2.1",
        notebook=STATISTICS,
        claim="Nemotron-3's 40.4 % are 2.2 (8B) and 38.2 (22B); Nemotron-4's 26.9 % are 9.5 (15B) "
        "and 17.4 (340B)",
        numbers=["2.2", "38.2", "9.5", "17.4"],
        check=parts_add_up,
    )
)

CLAIMS.append(
    Claim(
        id="annotators-mean",
        place="section 2.1",
        notebook=AGREEMENT,
        claim="3.41 annotators a sample on average",
        numbers=["3.41"],
        reported=Reported(
            file="raters.csv",
            value="ratings a row",
            low=3.405,
            high=3.415,
            unless="about half of all annotations were left out, so the released ones may have "
            "another mean",
        ),
    )
)

CLAIMS.append(
    Claim(
        id="annotators-number",
        place="section 2.1",
        notebook=COLLECTION,
        claim="About 1,000 annotators, against 200 for HelpSteer",
        numbers=["1,000", "200"],
        lacks=NEVER_RELEASED,
    )
)

CLAIMS.append(
    Claim(
        id="kappa-initial",
        place="section 2.1",
        notebook=AGREEMENT,
        claim="Kappa of helpfulness was .465 at first",
        numbers=["0.465"],
        cells=[("table-1", "helpfulness", "initial")],
        lacks="the first annotations, which were never released",
    )
)

CLAIMS.append(
    Claim(
        id="kappa-improved",
        place="section 2.1",
        notebook=AGREEMENT,
        claim="Kappa of helpfulness reached .706",
        numbers=["0.706"],
        cells=[("table-1", "helpfulness", "after improvements")],
    )
)


def kappas_rise(printed: Sequence[str]) -> Finding:
    rising = (table_1.diff(axis=1).dropna(axis=1) > 0).all(axis=1)
    number = rising.sum()
    rows = len(rising)
    return direction(
        number == rows,
        f"{number} of {rows} attributes, at both steps of Table 1",
        "part of a rise comes from keeping the three most alike: notebook 03 shows how much on "
        "random ratings",
    )


CLAIMS.append(
    Claim(
        id="kappa-all-improved",
        place="section 2.1",
        notebook=AGREEMENT,
        claim="Agreement rose for all five attributes",
        numbers=["all"],
        check=kappas_rise,
    )
)


def share_removed(printed: Sequence[str]) -> Finding:
    share = (23_652 - stated["samples released"]) / 23_652 * 100
    return exact(
        agrees(share, printed[0]),
        f"1 - 21,362 / 23,652 = {share:.1f} %",
        "23,652 rows of the released disagreements; of five ratings the closest three never differ "
        "by more than 2",
    )


CLAIMS.append(
    Claim(
        id="removed",
        place="section 2.1",
        notebook=COLLECTION,
        claim="Keeping what is at most 2 points apart removed about 10 % of the samples",
        numbers=["10"],
        check=share_removed,
    )
)

CLAIMS.append(
    Claim(
        id="annotations-excluded",
        place="section 2.1",
        notebook=COLLECTION,
        claim="About 50 % of all annotations were excluded",
        numbers=["50"],
        lacks=NEVER_RELEASED,
    )
)


def samples_are_pairs(printed: Sequence[str]) -> Finding:
    twice = 2 * number(printed[1])
    return exact(same(twice, number(printed[0])), f"2 x 10,681 = {twice:,.0f}")


CLAIMS.append(
    Claim(
        id="samples",
        place="section 2.1",
        notebook=STATISTICS,
        claim="21,362 samples: 10,681 prompts with two responses each",
        numbers=["21,362", "10,681"],
        reported=Reported(
            file="multi-turn.csv",
            value="prompts",
            low=10681,
            high=10681,
            where="data",
            row="helpsteer2",
        ),
        check=samples_are_pairs,
    )
)


def split_shares(printed: Sequence[str]) -> Finding:
    training = stated["train rows"] / stated["samples released"] * 100
    validation = stated["validation rows"] / stated["samples released"] * 100
    return exact(
        agrees(training, printed[0]) and agrees(validation, printed[1]),
        f"{training:.1f} % and {validation:.1f} %",
    )


CLAIMS.append(
    Claim(
        id="split",
        place="section 2.1",
        notebook=STATISTICS,
        claim="95 % of the data are for training, 5 % for validation",
        numbers=["95", "5"],
        check=split_shares,
    )
)

# Section 2.2: dataset analysis


def means_rise(printed: Sequence[str]) -> Finding:
    gaps = table_2.loc[RATED, "mean HS2"] - table_2.loc[RATED, "mean HS"]
    return direction(gaps.min() > 0, listed(gaps))


CLAIMS.append(
    Claim(
        id="all-means-higher",
        place="section 2.2",
        notebook=STATISTICS,
        claim="All five attributes are rated higher than in HelpSteer",
        numbers=["all"],
        check=means_rise,
    )
)

CLAIMS.append(
    Claim(
        id="coherence-mean",
        place="section 2.2",
        notebook=STATISTICS,
        claim="Coherence reaches 3.63 of 4",
        numbers=["3.63"],
        cells=[("table-2", "coherence", "mean HS2")],
    )
)


def largest_change(printed: Sequence[str]) -> Finding:
    gaps = table_2.loc[RATED, "mean HS2"] - table_2.loc[RATED, "mean HS"]
    in_spread = gaps / table_2.loc[RATED, "SD HS"]
    largest = gaps.idxmax()
    return direction(
        largest == "coherence",
        f"{largest} {gaps['verbosity']:+.4f}, coherence {gaps['coherence']:+.4f}",
        f"in units of HelpSteer's SD: verbosity {in_spread['verbosity']:.2f}, "
        f"coherence {in_spread['coherence']:.2f}",
    )


CLAIMS.append(
    Claim(
        id="coherence-most",
        place="section 2.2",
        notebook=STATISTICS,
        claim="The largest change of the five is coherence's",
        numbers=["most"],
        check=largest_change,
    )
)


def verbosity_rise(printed: Sequence[str]) -> Finding:
    rise = table_2.loc["verbosity", "mean HS2"] - table_2.loc["verbosity", "mean HS"]
    return exact(agrees(rise, "0.5"), f"{rise:+.4f}")


CLAIMS.append(
    Claim(
        id="verbosity-mean",
        place="section 2.2",
        notebook=STATISTICS,
        claim="Verbosity rose by almost .5, from 1.53 to 2.00",
        numbers=["1.53", "2.00"],
        cells=[("table-2", "verbosity", "mean HS"), ("table-2", "verbosity", "mean HS2")],
        check=verbosity_rise,
    )
)


def three_times(printed: Sequence[str]) -> Finding:
    means = table_2.loc[["characters in response", "complexity"]]
    ratios = means["mean HS2"] / means["mean HS"]
    longer = ratios["characters in response"]
    return exact(
        agrees(longer, "3"),
        f"{longer:.3f} times as long",
        f"complexity is {ratios['complexity']:.2f} times as high",
    )


CLAIMS.append(
    Claim(
        id="response-length",
        place="section 2.2",
        notebook=STATISTICS,
        claim="Responses are 3 times as long: 497.3 to 1492.6 characters",
        numbers=["497.3", "1492.6"],
        cells=[
            ("table-2", "characters in response", "mean HS"),
            ("table-2", "characters in response", "mean HS2"),
        ],
        check=three_times,
    )
)

CLAIMS.append(
    Claim(
        id="turns",
        place="section 2.2",
        notebook=STATISTICS,
        claim="2.83 turns a prompt on average, one in HelpSteer",
        numbers=["2.83"],
        cells=[("table-2", "turns in prompt", "mean HS2")],
    )
)

CLAIMS.append(
    Claim(
        id="prompt-length",
        place="section 2.2",
        notebook=STATISTICS,
        claim="Prompts have 712 characters on average, HelpSteer's 2491",
        numbers=["712", "2491"],
        cells=[
            ("table-2", "characters in prompt", "mean HS2"),
            ("table-2", "characters in prompt", "mean HS"),
        ],
    )
)


def falls(printed: Sequence[str]) -> Finding:
    change = number(printed[0]) - number(printed[1])
    return direction(number(printed[1]) > number(printed[0]), f"{change:+.4f}")


CLAIMS.append(
    Claim(
        id="coherence-predicts-less",
        place="section 2.2",
        notebook=CORRELATIONS,
        claim="Coherence predicts helpfulness less: R .4979, was .6348",
        numbers=["0.4979", "0.6348"],
        cells=[("table-2", "coherence", "R HS2"), ("table-2", "coherence", "R HS")],
        check=falls,
    )
)


def rises(printed: Sequence[str]) -> Finding:
    change = number(printed[0]) - number(printed[1])
    return direction(number(printed[0]) > number(printed[1]), f"{change:+.4f}")


CLAIMS.append(
    Claim(
        id="correctness-predicts-more",
        place="section 2.2",
        notebook=CORRELATIONS,
        claim="Correctness predicts it better: R .9430, was .8525",
        numbers=["0.9430", "0.8525"],
        cells=[("table-2", "correctness", "R HS2"), ("table-2", "correctness", "R HS")],
        check=rises,
    )
)

CLAIMS.append(
    Claim(
        id="complexity-predicts-less",
        place="section 2.2",
        notebook=CORRELATIONS,
        claim="R of complexity fell from .2361 to .1805",
        numbers=["0.1805", "0.2361"],
        cells=[("table-2", "complexity", "R HS2"), ("table-2", "complexity", "R HS")],
        check=falls,
    )
)

CLAIMS.append(
    Claim(
        id="verbosity-predicts-less",
        place="section 2.2",
        notebook=CORRELATIONS,
        claim="R of verbosity fell from .2555 to .0600",
        numbers=["0.0600", "0.2555"],
        cells=[("table-2", "verbosity", "R HS2"), ("table-2", "verbosity", "R HS")],
        check=falls,
    )
)

CLAIMS.append(
    Claim(
        id="long-prompts",
        place="section 2.2",
        notebook=CORRELATIONS,
        claim="Longer prompts are answered slightly worse: R -.0774",
        numbers=["-0.0774"],
        cells=[("table-2", "characters in prompt", "R HS2")],
    )
)

CLAIMS.append(
    Claim(
        id="many-turns",
        place="section 2.2",
        notebook=CORRELATIONS,
        claim="More turns go with slightly less help: R -.0520",
        numbers=["-0.0520"],
        cells=[("table-2", "turns in prompt", "R HS2")],
    )
)

CLAIMS.append(
    Claim(
        id="long-responses",
        place="section 2.2",
        notebook=CORRELATIONS,
        claim="Longer responses are slightly more helpful: R .0845",
        numbers=["0.0845"],
        cells=[("table-2", "characters in response", "R HS2")],
    )
)
