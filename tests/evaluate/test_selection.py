"""The checkpoint that a judge finds best: chosen again alike, and by the truth in the small world."""

import numpy as np
import pytest

from hs2lib.align.sft import best_paths, items
from hs2lib.engine import checkpoints
from hs2lib.evaluate import mt_bench, selection
from hs2lib.evaluate.judge import Verdict
from hs2lib.evaluate.questions import answered
from hs2lib.group import Response
from hs2lib.models.policy import load_policy
from hs2lib.train import recipes
from hs2lib.train.objectives import sft as sft_objective
from hs2lib.train.trainer import Outputs, fit
from hs2lib.world import sets
from hs2lib.world.questions import true_goodness


def policy_and_training(folder, **changes):
    """A tiny policy trained for four steps with a checkpoint of each, its recipe and what `fit` gave."""
    own = {
        "steps": 4,
        "batch": 2,
        "save_every": 1,
        "learning_rate": 1e-2,
        "n_eval_prompts": 2,
        "n_boot": 100,
    }
    recipe = recipes.SFT(**own | {"judge": "endpoint", "eval_tokens": 4} | changes)
    policy = load_policy("tiny")
    made, _ = items(policy, best_paths(sets.groups(4, seed=0, split="train")))
    return policy, recipe, fit(policy, made, [], sft_objective(), recipe, folder)


@pytest.fixture
def graded(monkeypatch, tmp_path):
    """Grades by step of the training in tmp_path: its policy answers with its own name, and the judge knows that."""
    policy, _, result = policy_and_training(tmp_path)
    names, grades, whole = {}, {}, Outputs(policy, None, "float32")
    for step in range(1, 5):
        checkpoints.load_weights(whole, result.folder / f"checkpoint-{step}")
        names[policy.fingerprint()] = step
    assert len(names) == 4

    def generate(policy, questions, **how):
        reply = Response("", policy.fingerprint())
        return answered(questions, {group.id: [reply, reply] for group in questions.groups}, "stub")

    class Judge:
        def __init__(self, *about):
            pass

        def verdicts(self, asks, **caps):
            return [Verdict(ask.id, grades[names[ask.judged[-1]]], "", 1) for ask in asks]

    monkeypatch.setattr(selection, "generate", generate)
    monkeypatch.setattr(selection, "Judge", Judge)
    return grades


@pytest.mark.slow
@pytest.mark.parametrize(
    "by_step, best",
    [([2.0, 7.0, 9.5, 3.0], 3), ([2.0, 8.0, 8.0, 8.0], 2), ([None, 1.0, 1.5, None], 3)],
)
def test_a_judge_chooses_the_checkpoint_with_the_best_answers_of_equals_the_earliest(
    graded, tmp_path, by_step, best
):
    """So does a run that finds the training done; the weights are those of that step, and the table says all grades."""
    graded |= dict(enumerate(by_step, 1))
    both = []
    for _ in range(2):
        policy, recipe, result = policy_and_training(tmp_path)
        assert result.best_step == 4
        both.append(selection.choose(policy, result, recipe))
        assert both[-1].result.best_step == best
        saved = load_policy("tiny")
        checkpoints.load_weights(
            Outputs(saved, None, "float32"), result.folder / f"checkpoint-{best}"
        )
        assert policy.fingerprint() == saved.fingerprint()
    chosen, again = both
    assert chosen.table.equals(again.table)
    assert chosen.table["mean"].fillna(0).tolist() == [grade or 0 for grade in by_step]
    assert not list(result.folder.glob("checkpoint-*/optimizer.pt"))


def test_without_all_its_checkpoints_no_judge_chooses_and_without_a_judge_nothing_changes(tmp_path):
    policy, _, result = policy_and_training(tmp_path, judge="none")
    assert [path.name for path in result.folder.glob("checkpoint-*")] == ["checkpoint-4"]
    chosen = selection.choose(policy, result, recipes.SFT())
    assert chosen.result is result and chosen.table is None
    policy, recipe, result = policy_and_training(tmp_path)
    with pytest.raises(
        ValueError, match="lacks earlier checkpoints: delete it, and train with a judge"
    ):
        selection.choose(policy, result, recipe)


@pytest.mark.slow
def test_in_the_small_world_the_truth_chooses_by_answers_to_both_turns(tmp_path):
    """Each grade worked out again from greedy answers, under SteerLM's label."""
    policy, recipe, result = policy_and_training(tmp_path, judge="truth")
    label = "helpfulness:4"
    chosen = selection.choose(policy, result, recipe, label=label)
    grades = {}
    for step in (1, 4):
        checkpoints.load_weights(
            Outputs(policy, None, "float32"), result.folder / f"checkpoint-{step}"
        )
        questions = mt_bench.load("postcards", n=2)
        answers = selection.generate(
            policy, questions, max_new_tokens=4, label=label, progress=False
        )
        truth = np.concatenate([true_goodness(answer) for answer in answers])
        assert len(truth) == 4
        grades[step] = (1 + 9 * truth / 7.6).mean()
    table = chosen.table.set_index("step")["mean"]
    assert table[[1, 4]].tolist() == pytest.approx(list(grades.values()))
    assert chosen.result.best_step == table.idxmax()
