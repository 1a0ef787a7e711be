"""Claims of section 5 and of the appendices D and H."""

from collections.abc import Sequence

from hs2lib.report.ledger import (
    OTHERS,
    Claim,
    Finding,
    Reported,
    agrees,
    direction,
    exact,
    number,
    same,
    table_3,
    table_5,
)
from hs2lib.report.tables import NEW, OLD, regression, williams

# Notebooks whose reports can test claims
STATISTICS = "01_dataset_statistics"
EVALUATION = "13_aligned_model_evaluation"
PAPER_TABLES = "14_paper_tables_and_figures"

# Ids of the MT-Bench questions whose reference answers the paper lists as wrong
WRONG_REFERENCES = [104, 105, 109, 111, 113, 114, 120, 122, 124, 125, 126, 128, 130]

CLAIMS: list[Claim] = []  # in the order of the paper


# Section 5: conclusion

CLAIMS.append(
    Claim(
        id="kappa-final",
        place="section 5",
        notebook="03_annotator_agreement",
        claim="Kappa of helpfulness is .791",
        numbers=["0.791"],
        cells=[("table-1", "helpfulness", "after post-processing")],
    )
)

# Appendix D: related work

CLAIMS.append(
    Claim(
        id="oasst-size",
        place="appendix D",
        notebook=STATISTICS,
        claim="Open Assistant: over 160,000 messages, 35 languages, over 10,000 trees",
        numbers=["160,000", "35", "10,000"],
        against="160,000 messages or 10,000 trees or fewer, or another number of languages",
        lacks=OTHERS,
    )
)

CLAIMS.append(
    Claim(
        id="hh-size",
        place="appendix D",
        notebook=STATISTICS,
        claim="HH-RLHF: above 160,000 comparisons",
        numbers=["160,000"],
        against="160,000 or fewer",
        lacks=OTHERS,
    )
)

CLAIMS.append(
    Claim(
        id="helpsteer-size",
        place="appendix D",
        notebook=STATISTICS,
        claim="HelpSteer: over 37,000 rated responses",
        numbers=["37,000"],
        against="37,000 or fewer",
        lacks="HelpSteer, from the Hub",
    )
)

# Appendix H: evaluation


def prior_sets_missing(printed: Sequence[str]) -> Finding:
    without = list(table_3.index[table_3["prior sets"].isna()])
    return exact(
        without == ["Gemini 1.5 Pro-0514", "Claude-3-Opus-0229", "Prometheus 2 Mistral 8x7B"],
        f"Table 3 has a dash for {without[0]}, {without[1]} and {without[2]}",
    )


CLAIMS.append(
    Claim(
        id="prior-sets-missing",
        place="appendix H",
        notebook="06_rewardbench_evaluation",
        claim="Prior Sets are not reported by Gemini 1.5 Pro, Claude 3 Opus and Prometheus 2",
        numbers=["several"],
        check=prior_sets_missing,
    )
)


def mt_bench_prompts(printed: Sequence[str]) -> Finding:
    questions = number(printed[0])
    twice = 2 * questions
    categories = number(printed[2])
    by_category = categories * 10
    return exact(
        same(twice, number(printed[1])) and same(by_category, questions),
        f"2 x {questions:g} = {twice:g}; {categories:g} x 10 = {questions:g}",
    )


CLAIMS.append(
    Claim(
        id="mt-bench-size",
        place="appendix H",
        notebook=EVALUATION,
        claim="MT-Bench: 80 questions of two turns, 160 prompts, 8 categories",
        numbers=["80", "160", "8"],
        reported=Reported(
            file="benchmark-sizes.csv",
            value="value",
            low=80,
            high=80,
            where="quantity",
            row="MT-Bench questions",
            of_paper=False,
        ),
        check=mt_bench_prompts,
        lacks="MT-Bench's questions in the report of notebook 13",
    )
)


def referenced(printed: Sequence[str]) -> Finding:
    with_references = 3 * 10
    every = 8 * 10
    return exact(
        same(with_references, number(printed[0])) and same(every, number(printed[1])),
        "3 categories of 10 questions, of 8",
    )


CLAIMS.append(
    Claim(
        id="mt-bench-referenced",
        place="appendix H",
        notebook=EVALUATION,
        claim="Coding, mathematics and reasoning are 30 of the 80",
        numbers=["30", "80"],
        check=referenced,
    )
)


def wrong_references(printed: Sequence[str]) -> Finding:
    listed = len(WRONG_REFERENCES)
    reasoning = sum(101 <= question <= 110 for question in WRONG_REFERENCES)
    mathematics = sum(111 <= question <= 120 for question in WRONG_REFERENCES)
    coding = sum(121 <= question <= 130 for question in WRONG_REFERENCES)
    inside = reasoning + mathematics + coding
    return exact(
        same(inside, listed, number(printed[0])),
        f"{inside} ids, of them {reasoning} reasoning, {mathematics} mathematics, {coding} coding",
    )


CLAIMS.append(
    Claim(
        id="references-wrong",
        place="appendix H",
        notebook=EVALUATION,
        claim="13 of the 30 reference answers were wrong, and are listed",
        numbers=["13", "30"],
        check=wrong_references,
    )
)


def judge_lower(printed: Sequence[str]) -> Finding:
    lower = table_5[OLD].mean() - table_5[NEW].mean()
    return exact(agrees(lower, printed[0]), f"{lower:.3f} over ten models")


CLAIMS.append(
    Claim(
        id="judge-lower",
        place="appendix H",
        notebook=PAPER_TABLES,
        claim="The new judge gives .8 points less on average",
        numbers=["0.8"],
        check=judge_lower,
    )
)


def r2_new(printed: Sequence[str]) -> Finding:
    r2, low, high = regression()[NEW]
    return exact(
        agrees(r2, printed[0]),
        f"{r2:.4f}",
        f"95 % interval of ten points: {low:.2f} to {high:.2f} (Fisher)",
    )


CLAIMS.append(
    Claim(
        id="r2-new",
        place="appendix H",
        notebook=PAPER_TABLES,
        claim="R squared of Arena Elo on the new judge's MT-Bench is .819",
        numbers=["0.819"],
        check=r2_new,
    )
)


def r2_old(printed: Sequence[str]) -> Finding:
    r2, low, high = regression()[OLD]
    return exact(
        agrees(r2, printed[0]),
        f"{r2:.4f}",
        f"95 % interval of ten points: {low:.2f} to {high:.2f} (Fisher)",
    )


CLAIMS.append(
    Claim(
        id="r2-old",
        place="appendix H",
        notebook=PAPER_TABLES,
        claim="... and .703 on the old judge's",
        numbers=["0.703"],
        check=r2_old,
    )
)


def table_5_models(printed: Sequence[str]) -> Finding:
    rows = len(table_5)
    both = table_5.notna().all(axis=1).sum()
    return exact(
        same(rows, number(printed[0])) and same(both, rows),
        f"{rows} rows of Table 5, all with both",
    )


CLAIMS.append(
    Claim(
        id="table-5-models",
        place="appendix H",
        notebook=PAPER_TABLES,
        claim="Ten models were measured under both judges",
        numbers=["10"],
        check=table_5_models,
    )
)


def judge_better(printed: Sequence[str]) -> Finding:
    new = regression()[NEW].estimate
    old = regression()[OLD].estimate
    t, p = williams()
    return direction(
        new > old,
        f"R squared {new:.3f} against {old:.3f}",
        f"ten models: Williams' t {t:.2f}, p {p:.3f}; "
        "the bootstrap's interval of the difference is in Table 5",
    )


CLAIMS.append(
    Claim(
        id="judge-better",
        place="appendix H",
        notebook=PAPER_TABLES,
        claim="The new judge follows the crowd better",
        numbers=["better"],
        check=judge_better,
    )
)

CLAIMS.append(
    Claim(
        id="truthfulqa-size",
        place="appendix H",
        notebook=EVALUATION,
        claim="TruthfulQA: 817 questions",
        numbers=["817"],
        reported=Reported(
            file="benchmark-sizes.csv",
            value="value",
            low=817,
            high=817,
            where="quantity",
            row="TruthfulQA questions",
            of_paper=False,
        ),
        lacks="TruthfulQA in the report of notebook 13",
    )
)

CLAIMS.append(
    Claim(
        id="truthfulqa-categories",
        place="appendix H",
        notebook=EVALUATION,
        claim="... in 38 categories",
        numbers=["38"],
        reported=Reported(
            file="benchmark-sizes.csv",
            value="value",
            low=38,
            high=38,
            where="quantity",
            row="TruthfulQA categories",
            of_paper=False,
        ),
        lacks="TruthfulQA in the report of notebook 13",
    )
)

CLAIMS.append(
    Claim(
        id="truthfulqa-options",
        place="appendix H",
        notebook=EVALUATION,
        claim="... with 4 to 5 answer options each (MC2)",
        numbers=["4", "5"],
        reported=Reported(
            file="benchmark-sizes.csv",
            value="value",
            low=4,
            high=5,
            where="quantity",
            row="TruthfulQA MC2 options, mean",
            of_paper=False,
        ),
        lacks="TruthfulQA in the report of notebook 13",
    )
)

CLAIMS.append(
    Claim(
        id="alpaca-size",
        place="appendix H",
        notebook=EVALUATION,
        claim="AlpacaEval 2: 805 instructions",
        numbers=["805"],
        reported=Reported(
            file="benchmark-sizes.csv",
            value="value",
            low=805,
            high=805,
            where="quantity",
            row="AlpacaEval instructions",
            of_paper=False,
        ),
        lacks="AlpacaEval in the report of notebook 13",
    )
)

CLAIMS.append(
    Claim(
        id="arena-size",
        place="appendix H",
        notebook=EVALUATION,
        claim="Arena Hard: 500 prompts",
        numbers=["500"],
        reported=Reported(
            file="benchmark-sizes.csv",
            value="value",
            low=500,
            high=500,
            where="quantity",
            row="Arena Hard prompts",
            of_paper=False,
        ),
        lacks="Arena Hard in the report of notebook 13",
    )
)
