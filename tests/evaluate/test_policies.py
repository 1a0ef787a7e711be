"""The table of policies: what its columns are by other ways, that unlike evaluations are not compared."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from hs2lib.align.sft import best_paths, items
from hs2lib.corpus import generate
from hs2lib.corpus.grade import grade, true_attributes
from hs2lib.engine.chat import label_string, prompt_tokens
from hs2lib.evaluate import mt_bench, policies, selection
from hs2lib.evaluate.judge import Verdict
from hs2lib.evaluate.questions import answered
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.models import policy as policy_table
from hs2lib.models import rollout
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.paths import RUN, notebook, root
from hs2lib.run import graph, parameters
from hs2lib.train import checkpoints, recipes
from hs2lib.train.objectives import sft as sft_objective
from hs2lib.train.trainer import Outputs, fit

pytestmark = pytest.mark.slow

PROMPTS = [
    Group(f"p{i}", (Turn("user", f"{i} is the number of" + " this" * i),), ()) for i in range(5)
]
HOW = dict(seed=3, max_new_tokens=6, n=2, progress=False)


@pytest.fixture(scope="module")
def sft():
    return load_policy("tiny")


@pytest.fixture(scope="module")
def judge():
    return RewardModel.new("tiny").eval()


@pytest.fixture(scope="module")
def other(sft):
    """The SFT model, moved a little: its KL is above 0."""
    moved = Policy.new("tiny").eval()
    with torch.no_grad():
        for p in moved.parameters():
            p += 0.02 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
    return moved


def test_rows_are_what_they_say(sft, other, judge):
    """Scores by the reward model, goodness .65 .8 .45, and kl token by token from full logits in plain transformers."""
    frame = policies.evaluate(other, PROMPTS, judge, sft, name="moved", temperature=0.5, **HOW)
    assert frame.response.tolist() == [f"p{i}/{k}" for i in range(5) for k in range(2)]
    sampled = rollout.rollouts(other, PROMPTS, temperature=0.5, top_p=0.9, **HOW)
    scores = judge.score(sampled).numpy()
    np.testing.assert_allclose(
        frame[policies.SCORE], scores[:, :3] @ np.array([0.65, 0.8, 0.45]), rtol=1e-4, atol=1e-6
    )
    by_attribute = frame[[policies.score_of(name) for name in judge.attributes]]
    np.testing.assert_allclose(by_attribute, scores, rtol=1e-5, atol=1e-7)
    responses = [r for group in sampled for r in group.responses]
    assert frame.characters.tolist() == [len(r.text) for r in responses]
    expected = []
    for group in sampled:
        prompt = prompt_tokens(group.prompt, sft.tokenizer)
        for response in group.responses:
            ids, each = torch.tensor([[*prompt, *response.tokens]]), []
            for model in (other, sft):
                model.backbone.set_attn_implementation("sdpa")
                with torch.no_grad():
                    logp = model.backbone(ids).logits[0, :-1].double().log_softmax(-1)
                each.append(logp.gather(-1, ids[0, 1:, None])[len(prompt) - 1 :].sum().item())
            expected.append(each[0] - each[1])
    np.testing.assert_allclose(frame.kl, expected, atol=1e-4)
    assert frame.kl.mean() > 0.01


def test_answers_to_generated_prompts_have_their_true_attributes_beside_the_reward_models(
    sft, judge
):
    """The truth is the goodness of what the grader reads; of a text that is no prompt of ours nobody knows it."""
    prompts = list(generate.groups(3, seed=4, split="validation"))
    frame = policies.evaluate(sft, prompts, judge, sft, name="SFT", **HOW)
    sampled = rollout.rollouts(sft, prompts, temperature=0.7, top_p=0.9, **HOW)
    expected = [
        grade(generate.task_of(g.id), r.text).attributes for g in sampled for r in g.responses
    ]
    np.testing.assert_allclose(frame[[f"true {name}" for name in ATTRIBUTES]], expected)
    np.testing.assert_allclose(frame.truth, np.array(expected)[:, :3] @ np.array([0.65, 0.8, 0.45]))
    assert {"truth", "true helpfulness"} <= set(policies.table([frame], n_boot=20).measure)
    mixed = policies.evaluate(sft, [*prompts, *PROMPTS], judge, sft, name="SFT", **HOW)
    assert not any(column == "truth" or column.startswith("true ") for column in mixed)


def test_kl_of_a_model_from_itself_is_0_and_of_none_unknown(sft, judge):
    copy = load_policy("tiny")
    same = policies.evaluate(copy, PROMPTS, judge, sft, name="copy", **HOW)
    assert same.kl.abs().max() < 1e-5
    assert (policies.evaluate(sft, PROMPTS, judge, sft, name="SFT", **HOW).kl == 0).all()
    alone = policies.evaluate(sft, PROMPTS, judge, None, name="SFT", **HOW)
    assert alone.kl.isna().all()
    means = policies.table([alone], n_boot=100).set_index("measure")["mean"]
    assert math.isnan(means["kl"]) and not math.isnan(means[policies.SCORE])


def test_without_a_reward_model_all_is_measured_but_scores(sft, other, judge):
    """DPO needs none, so its notebook must not; the same answers, and none beside answers that were scored."""
    alone, scored = (
        policies.evaluate(other, PROMPTS, by, sft, name="DPO", **HOW) for by in (None, judge)
    )
    assert policies.measures(alone) == ["characters", "tokens", "finished", "kl"]
    pd.testing.assert_frame_equal(
        alone.drop(columns="settings"), scored[alone.columns].drop(columns="settings")
    )
    with pytest.raises(ValueError, match="no reward model"):
        policies.table([alone, scored.assign(policy="scored")])


@pytest.mark.slow
def test_the_estimate_at_temperature_1_is_the_kl_of_two_known_distributions(sft, other, judge):
    """One token a response, so that KL is a sum over the vocabulary: exact, against the mean of 3,000 samples."""
    how = HOW | dict(max_new_tokens=1, n=3000, temperature=1.0, top_p=1.0)
    frame = policies.evaluate(other, PROMPTS[:1], judge, sft, name="moved", **how)
    ids = torch.tensor([prompt_tokens(PROMPTS[0].prompt, sft.tokenizer)])
    logp = []
    for model in (other, sft):
        model.backbone.set_attn_implementation("sdpa")
        with torch.no_grad():
            logp.append(model.backbone(ids).logits[0, -1].double().log_softmax(-1))
    exact = (logp[0].exp() * (logp[0] - logp[1])).sum().item()
    assert abs(frame.kl.mean() - exact) < 4 * frame.kl.std() / math.sqrt(len(frame))


@pytest.mark.parametrize("template", ["chat", "reference"])
def test_a_label_is_the_policys_only(template, judge):
    """SteerLM: the policy sees the label, the SFT model does not, and its own end of turn is asked of each."""
    policy = Policy.new("tiny", template=template).eval()
    label = label_string((4, 4, 4, 2, 2))
    frame = policies.evaluate(policy, PROMPTS, judge, policy, name="SteerLM", label=label, **HOW)
    assert (frame.kl != 0).all()
    sampled = rollout.rollouts(policy, PROMPTS, label=label, temperature=0.7, top_p=0.9, **HOW)
    bare = policy_table.unlabelled(policy, policy, sampled)
    for group in bare:
        assert group.sequences[0][: group.starts[0]] == prompt_tokens(
            group.group.prompt, policy.tokenizer, **policy.written
        )


def made(policy, values, prompts, settings="s"):
    responses = [f"{p}/{i}" for i, p in enumerate(prompts)]
    measures = {policies.SCORE: values, "kl": values}
    return pd.DataFrame(
        {"policy": policy, "prompt": prompts, "response": responses, "settings": settings}
        | measures
    )


def test_means_and_gains_by_hand():
    """SFT 0 and 4, DPO 1 and 5: means 2 and 3, a gain of exactly 1 in every resample though both vary by prompt."""
    frames = [made("SFT", [0.0, 4.0], ["a", "b"]), made("DPO", [1.0, 5.0], ["a", "b"])]
    table = policies.table(frames, n_boot=500)
    assert (
        table.policy.tolist() == ["SFT", "DPO"] * 2
        and table.measure.tolist() == [policies.SCORE] * 2 + ["kl"] * 2
    )
    assert table["mean"].tolist() == [2, 3, 2, 3]
    half = 12.706 * 2  # t of one degree of freedom, and the error of a mean of 0 and 4
    assert table.loc[0, ["95 % low", "95 % high"]].tolist() == pytest.approx(
        [2 - half, 2 + half], rel=0.1
    )
    gains = policies.gains_of(frames, "SFT", n_boot=500)
    assert gains.policy.tolist() == ["DPO", "DPO"] and (gains.iloc[:, 2:] == 1).all(axis=None)


def test_wins_by_hand():
    """Of three prompts one won, one a tie, one lost: half; where a prompt has two answers their means are compared."""
    frames = [made("SFT", [1.0, 5.0, 4.0], list("abc")), made("DPO", [3.0, 5.0, 2.0], list("abc"))]
    frames = [frame.assign(truth=frame[policies.SCORE]) for frame in frames]
    assert policies.wins(frames, "SFT", n_boot=200).iloc[0, 1:3].tolist() == ["DPO", 50]
    low, high = policies.wins(frames, "SFT", n_boot=200).iloc[0, 3:]
    assert (
        0 < low < 2 and 98 < high < 100
    )  # three prompts leave all open, and none is outside 0 to 100
    two = [made("SFT", [1.0, 5.0], ["a", "a"]), made("DPO", [2.0, 4.5], ["a", "a"])]
    assert policies.wins([frame.assign(truth=frame[policies.SCORE]) for frame in two], "SFT")[
        "mean"
    ].tolist() == [100]


def test_intervals_are_by_prompt():
    """Ten equal responses to each of two prompts tell no more than one each: the interval is that of two."""
    one = policies.table([made("x", [0.0, 1.0], ["a", "b"])], n_boot=300)
    ten = policies.table([made("x", [0.0, 1.0] * 10, ["a", "b"] * 10)], n_boot=300)
    assert one.iloc[0, 2:].tolist() == pytest.approx(ten.iloc[0, 2:].tolist())
    assert one.iloc[0, 2:].tolist() == pytest.approx(
        [0.5, 0.5 - 12.706 / 2, 0.5 + 12.706 / 2], rel=0.1
    )


def test_unlike_evaluations_are_not_compared():
    one = made("SFT", [0.0, 1.0], ["a", "b"])
    with pytest.raises(
        ValueError, match="SFT and DPO were evaluated on different prompts: b is of one only"
    ):
        policies.table([one, made("DPO", [0.0, 1.0], ["a", "a"])])
    with pytest.raises(ValueError, match="different settings: 's' and 't'"):
        policies.table([one, made("DPO", [0.0, 1.0], ["a", "b"], "t")])
    with pytest.raises(ValueError, match="no policy is called 'PPO'; there are: SFT"):
        policies.gains_of([one], "PPO")


def test_saved_and_read_again_is_the_same(tmp_path, sft, judge):
    frame = policies.evaluate(sft, PROMPTS, judge, sft, name="SFT", **HOW)
    policies.save(tmp_path / "07_sft", frame)
    (again,), read = policies.earlier(tmp_path / "08_dpo")
    assert len(read) == 1, "the manifest names the file"
    tables = [policies.table([x], n_boot=100) for x in (frame, again)]
    pd.testing.assert_frame_equal(*tables)
    # A later notebook evaluates its upstream's policy again, or reads it: either way the policy
    # stands there once.
    pd.testing.assert_frame_equal(policies.table([frame, again], n_boot=100), tables[1])


def test_earlier_policies_are_those_of_lower_notebooks(tmp_path):
    """In the notebooks' order, whatever the file system's; neither this notebook's own rows nor a later one's."""
    rows = pd.DataFrame(
        {
            "policy": ["x"],
            "prompt": ["p"],
            "response": ["p/0"],
            "settings": ["s"],
            "goodness": [1.0],
        }
    )
    for name in ("12_last", "08_two", "10_here", "07_one"):
        policies.save(tmp_path / name, rows.assign(policy=name))
    (tmp_path / "09_not_run").mkdir()
    assert [frame.policy[0] for frame in policies.earlier(tmp_path / "10_here")[0]] == [
        "07_one",
        "08_two",
    ]
    assert policies.earlier(tmp_path / "10_here" / "dry-run") == ([], {})


def test_of_earlier_policies_a_run_sees_those_that_it_needs(tmp_path, monkeypatch):
    """Methods that do not need each other run side by side: which ended first must not change a table."""
    rows = pd.DataFrame(
        {
            "policy": ["x"],
            "prompt": ["p"],
            "response": ["p/0"],
            "settings": ["s"],
            "goodness": [1.0],
        }
    )
    for name in ("07_sft", "08_dpo"):
        policies.save(tmp_path / name, rows.assign(policy=name))
    monkeypatch.setenv(RUN, graph.reading("10_ppo", "smoke"))
    assert [frame.policy[0] for frame in policies.earlier(tmp_path / "10_ppo")[0]] == ["07_sft"]


@pytest.mark.parametrize("tier", ["smoke", "demo", "laptop", "gpu", "paper"])
def test_all_policies_are_evaluated_alike(tier):
    """One table compares notebooks 07 to 12: prompts, seeds, lengths and weights must be the same in each of them."""
    names = [
        "eval_dataset",
        "eval_source",
        "eval_split",
        "n_eval_prompts",
        "n_eval_samples",
        "eval_tokens",
    ]
    names += ["eval_temperature", "eval_top_p", "weighting", "seed"]
    numbers = ("07", "08", "09", "10", "11", "12")
    notebooks = [name for name in graph.notebooks() if name.startswith(numbers)]
    assert len(notebooks) == len(numbers)
    resolved = [evaluated(notebook(name), tier) for name in notebooks]
    assert [{name: values[name] for name in names} for values in resolved] == [
        {name: resolved[0][name] for name in names}
    ] * len(notebooks)


def evaluated(path, tier):
    """All that a notebook is run with at a tier: its parameters and its recipe."""
    values = parameters.resolve(path, tier, root() / "params")
    return values | vars(
        parameters.whole_recipe(parameters.specification(path), values) or SimpleNamespace()
    )


def test_other_models_are_measured_in_place_of_the_notebooks(tmp_path):
    for name in ("a=b", "c"):
        (tmp_path / name).mkdir()
    folders = policies.made("paper", [f"PPO (released)={tmp_path}/a=b", f"DPO={tmp_path}/c"])
    assert list(folders.items()) == [("PPO (released)", tmp_path / "a=b"), ("DPO", tmp_path / "c")]
    for wrong in (f"DPO={tmp_path}/nothing", str(tmp_path), f"={tmp_path}"):
        with pytest.raises(ValueError, match="title=folder"):
            policies.made("paper", [wrong])
    assert "SFT" in policies.made("paper")


def test_answers_are_kept_as_texts_that_no_spreadsheet_runs(tmp_path):
    """A policy may write `=cmd|..`, and most of them write lists that begin with `-`."""
    frame = pd.DataFrame(
        {"prompt": ["=1+1"], "response": ["- one\n- two"], "policy": ["'DPO"], "value": [1 / 3]}
    )
    policies.save(tmp_path / "08_dpo", frame)
    assert (
        (tmp_path / "08_dpo" / policies.FILE)
        .read_text()
        .splitlines()[1]
        .startswith("'=1+1,\"'- one")
    )
    pd.testing.assert_frame_equal(policies.earlier(tmp_path / "09_mine")[0][0], frame)


# Which checkpoint


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
    made, _ = items(policy, best_paths(generate.groups(4, seed=0, split="train")))
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
    assert f"step {best} is taken" in chosen.caption and "4 x 4 answers" in chosen.caption
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


def test_in_the_small_world_the_truth_chooses_by_answers_to_last_turns(tmp_path):
    """Each grade worked out again from greedy answers to the second turns, under SteerLM's label."""
    policy, recipe, result = policy_and_training(tmp_path, judge="truth")
    label = "helpfulness:4"
    chosen = selection.choose(policy, result, recipe, label=label)
    grades = {}
    for step in (1, 4):
        checkpoints.load_weights(
            Outputs(policy, None, "float32"), result.folder / f"checkpoint-{step}"
        )
        questions = mt_bench.load("embedded", n=2)
        answers = selection.generate(
            policy, questions, max_new_tokens=4, label=label, progress=False
        )
        truth = np.concatenate(
            [true_attributes(answer) for answer in answers if answer.id.endswith("/2")]
        )
        grades[step] = (1 + 9 * truth[:, :3] @ np.array([0.65, 0.8, 0.45]) / 7.6).mean()
    table = chosen.table.set_index("step")["mean"]
    assert table[[1, 4]].tolist() == pytest.approx(list(grades.values()))
    assert chosen.result.best_step == table.idxmax()
