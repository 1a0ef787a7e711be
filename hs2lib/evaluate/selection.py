"""The checkpoint of a policy's training that a judge finds best on MT-Bench.

chosen = choose(policy, result, recipe)
chosen.result.best_step, chosen.table
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pandas as pd
from torch import nn

from hs2lib.engine import checkpoints
from hs2lib.evaluate import mt_bench
from hs2lib.evaluate.judge import Judge
from hs2lib.evaluate.questions import JudgedScore, Questions, Template, generate
from hs2lib.evaluate.truth import by_truth
from hs2lib.group import Group
from hs2lib.models.policy import Policy
from hs2lib.train.recipes import Aligned
from hs2lib.train.trainer import Outputs, TrainingResult


@dataclass(frozen=True)
class Chosen:
    """A training after the choice among its checkpoints.

    result: as it was, but for its `best_step`.
    table: the grades of every checkpoint; None where there is no judge.
    read: the files that were read, as `hs2lib.paths.digests_by_place`.
    """

    result: TrainingResult
    table: pd.DataFrame | None = None
    read: dict[str, str] = field(default_factory=dict)


def choose(
    policy: Policy,
    result: TrainingResult,
    recipe: Aligned,
    *,
    model: nn.Module | None = None,
    label: str | None = None,
) -> Chosen:
    """Put the checkpoint that a judge finds best on MT-Bench into the policy.

    Paper: section 4.1 (MT-Bench "as a validation metric for checkpoint selection"). Without a judge
    nothing changes. As many questions are asked as there are held-out prompts, 80 at most. Of equal
    checkpoints the earliest is taken. Answers and replies are kept in the training's folder, so
    that a run that goes on chooses alike.

    policy: answers the questions, and ends with the weights of the chosen checkpoint.
    result: of its training.
    recipe: with `judge`.
    model: what was trained, where it is more than the policy.
    label: SteerLM's.

    Raises ValueError where a checkpoint is missing, and as the judge does.
    """
    if recipe.judge == "none":
        return Chosen(result)
    folders = sorted(result.folder.glob("checkpoint-*"), key=checkpoints.step)
    if len(folders) < result.steps / recipe.save_every:
        raise ValueError(
            f"{result.folder} lacks earlier checkpoints: "
            "delete it, and train with a judge from the start"
        )
    n_questions = min(mt_bench.WHOLE, recipe.n_eval_prompts)
    questions = mt_bench.load(recipe.eval_source, n=n_questions, seed=recipe.seed)
    read = dict(questions.read)
    templates = {}
    if recipe.judge == "endpoint":
        templates = mt_bench.prompts(recipe.eval_source)
        read |= templates.read
    trained = Outputs(model or policy, None, recipe.autocast)
    rows = []
    for folder in folders:
        checkpoints.load_weights(trained, folder)
        answers = generate(
            policy,
            questions,
            max_new_tokens=recipe.eval_tokens,
            autocast=recipe.autocast,
            label=label,
            progress=False,
            file=result.folder,
        )
        if recipe.judge == "truth":
            answers = answers[1::2]  # the truth is known of answers to last turns
        score = graded(questions, answers, templates, result, recipe)
        rows.append((checkpoints.step(folder), *score.overall, score.unparsable))
    table = pd.DataFrame(rows, columns=["step", "mean", "95 % low", "95 % high", "unparsable"])
    best = table["mean"].argmax()
    best_step = int(table.step[best])
    checkpoints.load_weights(trained, folders[best])
    return Chosen(replace(result, best_step=best_step), table, read)


def graded(
    questions: Questions,
    answers: Sequence[Group],
    templates: dict[str, Template],
    result: TrainingResult,
    recipe: Aligned,
) -> JudgedScore:
    """The grades of one checkpoint's answers, by the truth or by the recipe's endpoint.

    questions, answers: MT-Bench's, and the answers to them.
    templates: the judge's prompts; none for the truth.
    result: of the training; the endpoint's replies are kept in its folder.
    recipe: with `judge`.
    """
    if recipe.judge == "truth":
        verdicts = by_truth(questions, answers)
    else:
        judge = Judge(recipe.judge_model, recipe.judge_url, recipe.key_variable, recipe.allow_http)
        asks = mt_bench.asks(questions, answers, templates)
        replies = result.folder / "judge-replies.jsonl"
        verdicts = judge.verdicts(asks, file=replies, token_cap=recipe.token_cap)
    return mt_bench.score(questions, answers, verdicts, **recipe.resampled)
