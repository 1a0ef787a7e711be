"""One row a response: what its columns are by other ways, and which rows a later notebook reads."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from hs2lib.engine.chat import label_string, prompt_tokens
from hs2lib.evaluate import policies, response_rows
from hs2lib.group import ATTRIBUTES, Group, Turn
from hs2lib.models import policy as policy_table
from hs2lib.models import rollout
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.paths import RUN, notebook, root
from hs2lib.runs import graph, parameters
from hs2lib.world import grade, sets
from hs2lib.world.cards import card_of

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
    frame = response_rows.evaluate(other, PROMPTS, judge, sft, name="moved", temperature=0.5, **HOW)
    assert frame.response.tolist() == [f"p{i}/{k}" for i in range(5) for k in range(2)]
    sampled = rollout.rollouts(other, PROMPTS, temperature=0.5, top_p=0.9, **HOW)
    scores = judge.score(sampled).numpy()
    np.testing.assert_allclose(
        frame[response_rows.SCORE],
        scores[:, :3] @ np.array([0.65, 0.8, 0.45]),
        rtol=1e-4,
        atol=1e-6,
    )
    by_attribute = frame[[response_rows.score_of(name) for name in judge.attributes]]
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
    prompts = list(sets.groups(3, seed=4, split="validation"))
    frame = response_rows.evaluate(sft, prompts, judge, sft, name="SFT", **HOW)
    sampled = rollout.rollouts(sft, prompts, temperature=0.7, top_p=0.9, **HOW)
    expected = [grade.true_ratings(card_of(g.id), r.text) for g in sampled for r in g.responses]
    np.testing.assert_allclose(frame[[f"true {name}" for name in ATTRIBUTES]], expected)
    np.testing.assert_allclose(frame.truth, np.array(expected)[:, :3] @ np.array([0.65, 0.8, 0.45]))
    assert {"truth", "true helpfulness"} <= set(policies.table([frame], n_boot=20).measure)
    mixed = response_rows.evaluate(sft, [*prompts, *PROMPTS], judge, sft, name="SFT", **HOW)
    assert not any(column == "truth" or column.startswith("true ") for column in mixed)


def test_kl_of_a_model_from_itself_is_0_and_of_none_unknown(sft, judge):
    copy = load_policy("tiny")
    same = response_rows.evaluate(copy, PROMPTS, judge, sft, name="copy", **HOW)
    assert same.kl.abs().max() < 1e-5
    assert (response_rows.evaluate(sft, PROMPTS, judge, sft, name="SFT", **HOW).kl == 0).all()
    alone = response_rows.evaluate(sft, PROMPTS, judge, None, name="SFT", **HOW)
    assert alone.kl.isna().all()
    means = policies.table([alone], n_boot=100).set_index("measure")["mean"]
    assert math.isnan(means["kl"]) and not math.isnan(means[response_rows.SCORE])


def test_without_a_reward_model_all_is_measured_but_scores(sft, other, judge):
    """DPO needs none, so its notebook must not; the same answers, and none beside answers that were scored."""
    alone, scored = (
        response_rows.evaluate(other, PROMPTS, by, sft, name="DPO", **HOW) for by in (None, judge)
    )
    assert response_rows.measures(alone) == ["characters", "tokens", "finished", "kl"]
    pd.testing.assert_frame_equal(
        alone.drop(columns="settings"), scored[alone.columns].drop(columns="settings")
    )
    with pytest.raises(ValueError, match="no reward model"):
        policies.table([alone, scored.assign(policy="scored")])


@pytest.mark.slow
@pytest.mark.slow
def test_the_estimate_at_temperature_1_is_the_kl_of_two_known_distributions(sft, other, judge):
    """One token a response, so that KL is a sum over the vocabulary: exact, against the mean of 3,000 samples."""
    how = HOW | dict(max_new_tokens=1, n=3000, temperature=1.0, top_p=1.0)
    frame = response_rows.evaluate(other, PROMPTS[:1], judge, sft, name="moved", **how)
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
    frame = response_rows.evaluate(
        policy, PROMPTS, judge, policy, name="SteerLM", label=label, **HOW
    )
    assert (frame.kl != 0).all()
    sampled = rollout.rollouts(policy, PROMPTS, label=label, temperature=0.7, top_p=0.9, **HOW)
    bare = policy_table.unlabelled(policy, policy, sampled)
    for group in bare:
        assert group.sequences[0][: group.starts[0]] == prompt_tokens(
            group.group.prompt, policy.tokenizer, **policy.written
        )


def test_saved_and_read_again_is_the_same(tmp_path, sft, judge):
    frame = response_rows.evaluate(sft, PROMPTS, judge, sft, name="SFT", **HOW)
    response_rows.save(tmp_path / "07_sft", frame)
    (again,), read = response_rows.earlier(tmp_path / "08_dpo")
    assert len(read) == 1, "the manifest names the file"
    assert again.text.tolist() == frame.text.tolist(), "the answers themselves, too"
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
        response_rows.save(tmp_path / name, rows.assign(policy=name))
    (tmp_path / "09_not_run").mkdir()
    assert [frame.policy[0] for frame in response_rows.earlier(tmp_path / "10_here")[0]] == [
        "07_one",
        "08_two",
    ]
    assert response_rows.earlier(tmp_path / "10_here" / "dry-run") == ([], {})


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
        response_rows.save(tmp_path / name, rows.assign(policy=name))
    monkeypatch.setenv(RUN, graph.reading("10_ppo", "smoke"))
    assert [frame.policy[0] for frame in response_rows.earlier(tmp_path / "10_ppo")[0]] == [
        "07_sft"
    ]


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


def test_every_text_comes_back_as_it_was_written(tmp_path):
    """A policy may say nothing, a word that reads like a number or a missing cell, or odd characters."""
    texts = [
        "",
        "NaN",
        "None",
        "-5",
        "1e5",
        "=1+1",
        "'it",
        "''",
        " a ",
        "\n",
        "a\r\nb\rc",
        "\0 \x1a",
    ]
    texts += ['"q", "z"', "\u2028\ufeff\ufffd", "<b>"]
    frame = pd.DataFrame({"policy": "a", "prompt": "p", "text": texts, "truth": 1.0})
    frame["response"] = [f"p/{k}" for k in range(len(texts))]
    response_rows.save(tmp_path / "08_dpo", frame)
    ((again,), _) = response_rows.earlier(tmp_path / "09_mine")
    assert again.text.tolist() == texts
    assert response_rows.measures(again) == ["truth"], "a text is no measure"


def test_answers_are_kept_as_texts_that_no_spreadsheet_runs(tmp_path):
    """A policy may write `=cmd|..`, and most of them write lists that begin with `-`."""
    frame = pd.DataFrame(
        {"prompt": ["=1+1"], "response": ["- one\n- two"], "policy": ["'DPO"], "value": [1 / 3]}
    )
    response_rows.save(tmp_path / "08_dpo", frame)
    assert (
        (tmp_path / "08_dpo" / response_rows.FILE)
        .read_text()
        .splitlines()[1]
        .startswith("'=1+1,\"'- one")
    )
    pd.testing.assert_frame_equal(response_rows.earlier(tmp_path / "09_mine")[0][0], frame)
