"""The checkpoint of a policy's training that a judge finds best on MT-Bench."""

from dataclasses import replace

import pandas as pd

from hs2lib.evaluate import mt_bench, policies
from hs2lib.evaluate.judge import Judge
from hs2lib.evaluate.questions import generate
from hs2lib.train import checkpoints
from hs2lib.train.trainer import Outputs, TrainingResult


def choose(policy, result: TrainingResult, recipe, run, *, model=None, label=None) -> TrainingResult:
    """The checkpoint of a training that a judge finds best on MT-Bench, put into the policy; without one as it was.

    Paper: section 4.1 (MT-Bench "as a validation metric for checkpoint selection"). As many questions as there are
    held-out prompts, 80 at most; of equals the earliest. Answers and replies are kept in the training's folder, so that
    a run that goes on chooses alike. All grades, and what was sampled for them, are the run's table "checkpoints".
    recipe: with `judge`. model: what was trained, where it is more than the policy. label: SteerLM's. Raises ValueError
    where a checkpoint is missing, and as the judge does.
    """
    if recipe.judge == "none":
        return result
    places = sorted(result.folder.glob("checkpoint-*"), key=checkpoints.step)
    if len(places) < result.steps / recipe.save_every:
        raise ValueError(f"{result.folder} lacks earlier checkpoints: delete it, and train with a judge from the start")
    questions = mt_bench.load(recipe.eval_source, n=min(mt_bench.WHOLE, recipe.n_eval_prompts), seed=recipe.seed)
    how = {"max_new_tokens": recipe.eval_tokens, "autocast": recipe.autocast, "label": label, "progress": False}
    trained, rows = Outputs(model or policy, None, recipe.autocast), []
    for place in places:
        checkpoints.load_weights(trained, place)
        answers = generate(policy, questions, file=result.folder, **how)
        if recipe.judge == "truth":
            answers = answers[1::2]  # the truth is known of answers to last turns
            verdicts = policies.by_truth(questions, answers)
        else:
            judge = Judge(recipe.judge_model, recipe.judge_url, recipe.key_variable, recipe.allow_http)
            asked = mt_bench.asks(questions, answers, mt_bench.prompts(recipe.eval_source))
            verdicts = judge.verdicts(asked, file=result.folder / "judge-replies.jsonl", token_cap=recipe.token_cap)
        score = mt_bench.score(questions, answers, verdicts, n_boot=recipe.n_boot, seed=recipe.seed)
        rows.append((checkpoints.step(place), *score.overall, score.unparsable))
    table = pd.DataFrame(rows, columns=["step", *policies.COLUMNS[2:5], "unparsable"])
    best = table["mean"].argmax()
    checkpoints.load_weights(trained, places[best])
    what = f"{len(places)} x {2 * len(questions)} answers of at most {recipe.eval_tokens:,} tokens, by {recipe.judge}"
    run.table(table, "checkpoints", f"{questions.title}, {what}: step {table.step[best]} is taken.")
    return replace(result, best_step=int(table.step[best]))
