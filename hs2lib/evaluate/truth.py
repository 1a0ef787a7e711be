"""The truth as a judge: verdicts on answers to generated questions, in each benchmark's own form.

    verdicts = by_truth(questions, answers)
    result = mt_bench.score(questions, answers, verdicts)  # as with a judge's verdicts

Paper: silent. Gao et al. 2022 (arXiv 2210.10760) grade by a model that stands for the truth; here
the grader of the small world knows it (`hs2lib.world.grade`).
"""

from collections.abc import Sequence

import numpy as np

from hs2lib.evaluate import alpaca_eval
from hs2lib.evaluate.judge import Verdict
from hs2lib.evaluate.questions import Questions, question_id
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.paper import head_weights
from hs2lib.world import questions as postcards

WEIGHTS = np.array(head_weights("goodness", ATTRIBUTES))  # [A]; paper: section 4.3

HIGHEST = 4 * WEIGHTS.sum()  # of an answer that lacks nothing: 4 on every attribute that counts


def check_generated(questions: Questions) -> None:
    """Raise ValueError for real questions, of which nobody knows the truth."""
    if not questions.generated:
        raise ValueError(
            f"judge: truth knows generated questions only, and these are real: {questions.title}"
        )


def by_truth(questions: Questions, answers: Sequence[Group], *, seed: int = 0) -> list[Verdict]:
    """Verdicts by the true attributes of answers.

    Paper: silent. In MT-Bench a verdict is a grade from 1 to 10, linear in the weighted sum of the
    true attributes. In Arena Hard and AlpacaEval it says whether the answer is truly better than
    the baseline's, worse, or equal.

    answers: in the order of `questions.baseline`, where there is one.
    seed: of the order in which AlpacaEval shows two answers.

    Raises ValueError as `check_generated`, for answers to other questions than the baseline's, and
    for another benchmark.
    """
    check_generated(questions)
    others = questions.baseline or answers
    our_ids = [question_id(answer) for answer in answers]
    their_ids = [question_id(other) for other in others]
    if our_ids != their_ids:
        raise ValueError(
            f"{questions.title}: {len(our_ids)} answers are not to the baseline's "
            f"{len(their_ids)} questions"
        )
    verdicts: dict[str, float | str] = {}
    for answer, other in zip(answers, others, strict=True):
        id = question_id(answer)
        truth = _truth(answer)
        difference = round(truth - _truth(other), 9)
        if questions.benchmark == "MT-Bench":
            verdicts[answer.id] = 1 + 9 * truth / HIGHEST
        elif questions.benchmark == "Arena Hard":
            verdicts[f"{id}/1"] = _by_sign(difference, "B>A", "A=B", "A>B")  # the model is B
            verdicts[f"{id}/2"] = _by_sign(difference, "A>B", "A=B", "B>A")  # the model is A
        elif questions.benchmark != "AlpacaEval 2":
            raise ValueError(f"{questions.title}: no rule says what the truth makes of an answer")
        elif alpaca_eval.shown_first(id, seed):  # "m" is the answer shown first, the model's
            verdicts[id] = _by_sign(difference, "m", alpaca_eval.TIE, "M")
        else:
            verdicts[id] = _by_sign(difference, "M", alpaca_eval.TIE, "m")
    return [Verdict(id, value, "", 1) for id, value in verdicts.items()]


def _truth(answer: Group) -> float:
    """The weighted sum of the true attributes of an answer."""
    return float(postcards.true_goodness(answer)[0])


def _by_sign(difference: float, better: str, tie: str, worse: str) -> str:
    """The verdict that a difference of truth means, the model's answer less the other."""
    if difference > 0:
        return better
    if difference < 0:
        return worse
    return tie
