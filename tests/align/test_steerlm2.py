"""SteerLM 2.0: the estimate against exact answers in small worlds, the whole pipeline on a tiny model."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import forked
import numpy as np
import pytest
import steerlm2_toy as toy
import torch
from tiny_training import Slow, setup_in
from transformers import LlamaConfig, LlamaForCausalLM

from hs2lib.align import common, steerlm2
from hs2lib.data.load import Loaded
from hs2lib.engine.chat import TokenGroup
from hs2lib.group import Group, Turn
from hs2lib.models.policy import Policy, load_policy, unlabelled
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.train import losses
from hs2lib.train.items import Item
from hs2lib.train.objectives import steerlm2 as objective
from hs2lib.train.recipes import SteerLM2
from hs2lib.train.trainer import Recipe, fit

THETA = toy.random_theta(7)
OPTIMUM = toy.log_optimum(toy.log_a, toy.log_p)
gradient_of_kl = torch.func.grad(toy.kl)  # [12] -> [12]


# Nine responses, every distribution written out


def test_the_toy_is_what_it_says():
    """Equation 1 by hand: joint over its sum; and the gradient of KL(P || softmax) in first-token logits is Q - P."""
    joint = toy.log_a.exp() * toy.log_p.exp()
    assert torch.allclose(OPTIMUM.exp(), joint / joint.sum())
    assert toy.log_policy(THETA).exp().sum() == pytest.approx(1)
    first = lambda p: p.view(3, 3).sum(1)  # noqa: E731
    exact = first(toy.log_policy(THETA).exp()) - first(OPTIMUM.exp())
    assert torch.allclose(gradient_of_kl(THETA)[:3], exact)


@pytest.mark.parametrize("baseline", [True, False], ids=["equation 11", "equation 8"])
def test_the_estimates_mean_converges_to_the_exact_gradient_of_equation_2(baseline):
    """Self-normalised weights are biased by about 1/n and b' changes the mean by nothing that
    stays: the error of the mean over 40,000 groups falls with n, and at n = 1000 little but noise
    is left."""
    sampler = toy.log_policy(toy.random_theta(3))  # Q' is another policy than theta
    exact, left = gradient_of_kl(THETA), []
    for n, groups in ((4, 40_000), (40, 40_000), (1000, 8_000)):
        y = toy.sample(sampler, groups, n, seed=0)
        gradients = toy.estimates(THETA, sampler, y, baseline)
        left.append(((gradients.mean(0) - exact).norm() / exact.norm()).item())
    assert left[2] < 0.01 and left[2] < left[1] / 5 < left[0] / 5


def test_the_estimate_is_the_gradient_of_the_loss_that_is_trained():
    """Written out in the toy, it must be what autograd makes of `losses.steerlm2_loss`."""
    sampler = toy.log_policy(toy.random_theta(3))
    y = toy.sample(sampler, 5, 10, seed=0)
    theta = THETA.clone().requires_grad_()
    targets = losses.steerlm2_targets(toy.log_a[y], toy.log_p[y], sampler[y])
    losses.steerlm2_loss(targets, toy.log_policy(theta)[y], sampler[y]).sum().backward()
    assert torch.allclose(theta.grad, toy.estimates(THETA, sampler, y).sum(0), atol=1e-12)


def test_the_baseline_lowers_the_variance_and_at_the_optimum_removes_it():
    """Measured: at the start about a half at n = 10, and five sixths at n = 2; where Q_theta is the
    optimum every group gives exactly zero with b', and without it still noise."""
    variance = toy.variances(THETA, [2, 10], groups=20_000)
    ratio = {n: variance[n, 11] / variance[n, 8] for n in (2, 10)}
    assert ratio[2] < 0.2 and ratio[10] < 0.6
    optimum = THETA.clone()
    for _ in range(600):
        optimum -= gradient_of_kl(optimum)
    assert toy.kl(optimum) < 1e-12
    variance = toy.variances(optimum, [10], groups=2_000)
    assert variance[10, 11] < 1e-10 < 0.05 < variance[10, 8]


def test_descent_reaches_the_optimum_with_the_baseline_and_stalls_without():
    """With ten samples equation 8 is pulled towards what was drawn: only b' makes the optimum a point of rest."""
    with_baseline = toy.descend(THETA, n=10, steps=150)
    assert with_baseline[0] > 0.3 and with_baseline[-1] < 1e-3
    assert min(toy.descend(THETA, n=10, steps=150, baseline=False)) > 0.01
    # Samples of temperature .7 under the denominator Q' at temperature 1, as in the paper: the same
    # point of rest.
    assert toy.descend(THETA, n=10, steps=300, temperature=0.7)[-1] < 1e-3


# The objective


def test_the_objective_takes_groups_of_any_size_in_any_order():
    """Two groups, of three and of two, their rows mixed: each must be normalised by itself."""
    group = torch.tensor([1, 0, 1, 0, 0])
    outputs = torch.randn(5, 1, requires_grad=True)
    weights = torch.tensor([0.2, 0.5, 0.8, 0.25, 0.25]).log()
    targets = torch.stack([weights, torch.randn(5), torch.tensor([4.0, 9, 8, 9, 9])], 1)
    each = {}
    for g, rows in {0: [1, 3, 4], 1: [0, 2]}.items():
        three = (targets[rows, 0], outputs[rows, 0], targets[rows, 1])
        each[g] = losses.steerlm2_loss(*(x[None] for x in three)).item()
    plain, scaled = objective(), objective(by_length=True)
    assert plain.count(targets, group) == 2
    assert plain.total(outputs, targets, group).item() == pytest.approx(each[0] + each[1])
    assert scaled.total(outputs, targets, group).item() == pytest.approx(each[0] / 9 + each[1] / 6)
    for one in (plain, scaled):
        distance = one.metrics(outputs, targets, group, ())["distance"]
        assert distance == pytest.approx((each[0] + each[1]) / 2)


# A transformer whose responses are finitely many: two tokens of an alphabet of three, each as a
# sequence


PROMPT = [0, 1, 2, 0]


def small(seed: int) -> Policy:
    """A random Llama that knows three tokens, so its nine responses of two tokens have all the probability."""
    torch.manual_seed(seed)
    size = {"vocab_size": 3, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    size |= {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32}
    size |= {"initializer_range": 0.15}
    return Policy(LlamaForCausalLM(LlamaConfig(**size)), None)


def whole(policy: Policy) -> torch.Tensor:
    """log Q(y) [9] of all responses."""
    sequences = tuple([*PROMPT, *y] for y in toy.answers_of_two.tolist())
    return policy.log_probs([TokenGroup(None, sequences, (len(PROMPT),) * 9)])[0].double()


def weighed(
    policy: Policy, prior: torch.Tensor, groups: int, n: int, seed: int = 0
) -> list[steerlm2.Weighed]:
    """Samples from the policy; P(a|x,y) is the toy's, P(y|x) the prior's."""
    sampler, out = whole(policy), []
    for i, y in enumerate(toy.sample(sampler, groups, n, seed)):
        three = (toy.log_a[y], prior[y], sampler[y])
        sequences = tuple([*PROMPT, *toy.answers_of_two[k].tolist()] for k in y)
        read = TokenGroup(Group(f"{i:03d}", (), ()), sequences, (len(PROMPT),) * n)
        out.append(steerlm2.Weighed(read, *(x.numpy() for x in three), np.full(n, 2)))
    return out


def drawn(policy: Policy, *how, **more) -> list[Item]:
    return steerlm2.items(weighed(policy, *how, **more))


def test_all_nine_responses_have_all_the_probability():
    assert whole(small(1)).exp().sum().item() == pytest.approx(1, abs=1e-6)


def test_training_drives_the_kl_of_equation_2_below_a_thousandth(tmp_path):
    """The whole way, but for the text: a transformer on the group engine, Items, `fit`, validation by equation 12."""
    prior = whole(small(2))
    policy = small(1)
    optimum = (toy.log_a + prior).log_softmax(-1)
    kl = lambda: (optimum.exp() * (optimum - whole(policy))).sum().item()  # noqa: E731
    start = kl()
    recipe = Recipe(
        steps=200,
        batch=16,
        learning_rate=5e-3,
        warmup=0,
        weight_decay=0,
        autocast="float32",
        validate_every=30,
        save_every=1000,
    )
    task = (drawn(policy, prior, 96, 10), drawn(policy, prior, 16, 10, seed=1), objective(), recipe)
    result = fit(policy, *task, tmp_path / "run")
    assert start > 0.1 and kl() < 1e-3
    logged = [x["eval_distance"] for x in result.history if "eval_distance" in x]
    assert logged[0] > 0.05 and logged[-1] < 1e-3


def test_the_first_step_has_no_loss_but_that_of_uniform_weights(tmp_path):
    """At theta = Q' b' = 1/n, so the distance is log n minus the entropy of w', for each group."""
    policy = small(1)
    drawn_items = drawn(policy, whole(small(2)), 8, 10)
    expected = np.mean(
        [np.log(10) + (np.exp(i.targets[:, 0]) * i.targets[:, 0]).sum() for i in drawn_items]
    )
    recipe = Recipe(steps=1, batch=8, warmup=0, autocast="float32")
    result = fit(policy, drawn_items, [], objective(), recipe, tmp_path / "run")
    assert result.history[0]["loss"] == pytest.approx(expected, rel=1e-4)


# Log-probabilities of long responses


def test_weights_survive_log_probabilities_of_minus_ten_thousand():
    """Differences of some nats between numbers of 1e4 decide the weights; float32 would keep three digits of them."""
    log_q = np.array([-1e4, -1.0002e4, -9.99e3, -3.0])
    log_p = log_q + np.array([0.0, 0.25, -0.5, -1e4])
    log_a = np.log([0.1, 0.2, 0.4, 0.3])
    sequences = tuple([0, i] for i in range(4))
    read = TokenGroup(Group("g", (), ()), sequences, (1,) * 4)
    weighed = steerlm2.Weighed(read, log_a, log_p, log_q, np.full(4, 2000))
    raw = np.array([0.1, 0.2 * np.exp(0.25), 0.4 * np.exp(-0.5), 0.0])
    np.testing.assert_allclose(np.exp(weighed.log_weights), raw / raw.sum(), rtol=1e-9)
    assert weighed.effective == pytest.approx(raw.sum() ** 2 / (raw**2).sum())
    (item,) = steerlm2.items([weighed])
    targets, outputs = (
        torch.from_numpy(item.targets),
        torch.tensor(log_q[:, None]).float().requires_grad_(),
    )
    loss = objective().total(outputs, targets, torch.zeros(4, dtype=torch.int64))
    loss.backward()
    assert loss.isfinite() and outputs.grad.isfinite().all()
    np.testing.assert_allclose(outputs.grad[:, 0], 0.25 - raw / raw.sum(), atol=1e-6)


# The attributes


@pytest.mark.parametrize("edges", losses.EDGES)
@pytest.mark.parametrize("clamp", [0.01, 0.001])
def test_levels_have_all_the_probability_for_every_prediction(edges, clamp):
    """Every prediction from below 0 to above 4, both ends and the bin edges themselves among them."""
    predictions = torch.cat(
        [torch.linspace(-0.5, 4.5, 501), torch.tensor([0.0, 4.0, 0.8, 0.5, 3.5])]
    ).double()
    logp = losses.attribute_log_probs(predictions, edges=edges, clamp=clamp)
    np.testing.assert_allclose(logp.exp().sum(-1), 1, atol=1e-12)
    assert logp[predictions <= 0].argmax(-1).unique().tolist() == [0]
    assert logp[predictions >= 4].argmax(-1).unique().tolist() == [4]


def test_a_target_may_name_some_attributes_only_and_in_any_order():
    target = "verbosity:2,helpfulness:4"
    names = ("helpfulness", "correctness", "verbosity")
    predictions = torch.tensor([[3.5, 0.1, 2.2], [1.0, 4.0, 3.0]])
    by_level = losses.attribute_log_probs(predictions)
    expected = by_level[:, 0, 4] + by_level[:, 2, 2]
    assert torch.allclose(
        steerlm2.attribute_log_prob(predictions, names, target, SteerLM2()), expected
    )
    other = SteerLM2(edges="rounding", concentration=10.0, clamp=0.05)
    by_level = losses.attribute_log_probs(
        predictions, edges="rounding", concentration=10.0, clamp=0.05
    )
    assert torch.allclose(
        steerlm2.attribute_log_prob(predictions, names, target, other),
        by_level[:, 0, 4] + by_level[:, 2, 2],
    )
    with pytest.raises(ValueError, match="got 'humor' in 'humor:4'"):
        steerlm2.attribute_log_prob(predictions, names, "humor:4", SteerLM2())
    with pytest.raises(ValueError, match="the target names no attribute"):
        steerlm2.attribute_log_prob(predictions, names, "", SteerLM2())


# The pipeline, on a tiny model and its own samples


GROUPS = [
    Group(f"p{i}", (Turn("user", f"Say {w}."),), ())
    for i, w in enumerate(("one", "two", "three", "four"))
]
RECIPE = SteerLM2(
    steps=3,
    batch=2,
    learning_rate=1e-3,
    validate_every=2,
    save_every=1,
    n_samples=4,
    max_new_tokens=6,
    temperature=1.0,
    top_p=1.0,
)


def prompts_of(by_iteration: list[list[Group]], validation: list[Group]) -> steerlm2.Prompts:
    """Prompts of one's own for each iteration."""
    return steerlm2.Prompts(
        Loaded([], "own", False), False, validation, by_iteration[0], by_iteration
    )


TWICE = prompts_of([GROUPS[:3], GROUPS[:3]], GROUPS[3:])


def test_each_iteration_has_prompts_of_its_own(tmp_path):
    """Ten prompts: two to validate by, then three and three; the same three where they are not fresh."""
    recipe = replace(RECIPE, n_prompts=3, n_validation=2)
    prompts = steerlm2.load_prompts(setup_in(tmp_path, recipe))
    (first, second), validation = prompts.by_iteration, prompts.validation
    assert [len(part) for part in (validation, first, second, prompts.rest)] == [
        2,
        3,
        3,
        8,
    ] and prompts.partial
    assert len({group.id for group in (*validation, *first, *second)}) == 8
    assert not any(group.responses for group in (*validation, *first, *second))
    again = steerlm2.load_prompts(setup_in(tmp_path, replace(recipe, fresh_prompts=False)))
    assert again.by_iteration == [first, first] and again.validation == validation


def test_too_few_prompts_are_refused(tmp_path, monkeypatch):
    loaded = Loaded(GROUPS, "own", False)
    monkeypatch.setattr(common, "load", lambda *_, **how: loaded)
    with pytest.raises(
        ValueError, match="2 prompts are too few for 2 iterations of 2: ask for fewer"
    ):
        steerlm2.load_prompts(setup_in(tmp_path, replace(RECIPE, n_prompts=2, n_validation=2)))
    recipe = replace(RECIPE, n_prompts=2, n_validation=2, fresh_prompts=False)
    order = np.random.default_rng(0).permutation(4)
    assert (
        steerlm2.load_prompts(setup_in(tmp_path, recipe)).by_iteration
        == [[GROUPS[i] for i in order[2:]]] * 2
    )


@pytest.fixture(scope="module")
def models(tiny_policy, trained_reward_model):
    return tiny_policy, trained_reward_model


@pytest.fixture(scope="module")
def sampled(models):
    options = {"n": 4, "max_new_tokens": 6, "temperature": 1.0, "top_p": 1.0, "progress": False}
    return rollouts(models[0], GROUPS, label=steerlm2.TARGET, **options)


def test_the_three_log_probabilities_are_those_of_plain_forward_passes(models, sampled):
    """Every sample by itself through the model, no engine: prompt with label for Q', without for P(y|x)."""
    policy, reward_model = models
    weighed = steerlm2.weigh(sampled, policy, policy, reward_model, steerlm2.TARGET, RECIPE)

    def plain(prompt_of, sample, label):
        text = policy.tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt_of}], tokenize=False
        )
        text += "<|im_start|>assistant\n" + (f"<extra_id_2>{label}\n" if label else "")
        prompt = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([[*prompt, *sample.tokens]])
        with torch.no_grad():
            logp = policy.backbone(ids).logits[0].log_softmax(-1)
        return sum(logp[len(prompt) - 1 + i, t].item() for i, t in enumerate(sample.tokens))

    for one in weighed[:2]:
        asked = one.read.group.prompt[-1].text
        for i, sample in enumerate(one.read.group.responses):
            assert one.sampler[i] == pytest.approx(plain(asked, sample, steerlm2.TARGET), abs=1e-3)
            assert one.sampler[i] == pytest.approx(sum(sample.log_probs), abs=1e-3)
            assert one.prior[i] == pytest.approx(plain(asked, sample, None), abs=1e-3)
            assert one.tokens[i] == len(sample.tokens)
        predictions = reward_model.score([one.read.group])
        expected = steerlm2.attribute_log_prob(
            predictions, reward_model.attributes, steerlm2.TARGET, RECIPE
        )
        np.testing.assert_allclose(one.attributes, expected, rtol=1e-4)
        np.testing.assert_allclose(np.exp(one.log_weights).sum(), 1)
    rows = steerlm2.table(weighed)
    assert len(rows) == 16 and rows.groupby("prompt").weight.sum().round(9).eq(1).all()


def test_unfinished_samples_are_kept_or_dropped(models, sampled):
    policy, reward_model = models
    cut = [
        replace(g, responses=tuple(replace(r, finished=i < 2) for i, r in enumerate(g.responses)))
        for g in sampled
    ]
    kept = steerlm2.weigh(cut, policy, policy, reward_model, steerlm2.TARGET, RECIPE)
    dropped = steerlm2.weigh(
        cut, policy, policy, reward_model, steerlm2.TARGET, replace(RECIPE, unfinished="drop")
    )
    assert [len(w.attributes) for w in kept] == [4] * 4 and [
        len(w.attributes) for w in dropped
    ] == [2] * 4
    one = [
        replace(g, responses=tuple(replace(r, finished=i < 1) for i, r in enumerate(g.responses)))
        for g in sampled
    ]
    with pytest.raises(ValueError, match="no prompt has two samples"):
        steerlm2.weigh(
            one, policy, policy, reward_model, steerlm2.TARGET, replace(RECIPE, unfinished="drop")
        )


def test_each_model_is_asked_about_its_own_end_of_turn(models):
    """The reference template ends a turn with <extra_id_1>, the tokenizer's own with <|im_end|>."""
    policy, reward_model = models
    sampler = Policy.new("tiny", template="reference").eval()
    (group,) = rollouts(
        sampler, GROUPS[:1], n=2, max_new_tokens=4, label=steerlm2.TARGET, progress=False
    )
    ending = sampler.ending()
    first = replace(group.responses[0], tokens=(*group.responses[0].tokens, *ending), finished=True)
    group = replace(group, responses=(first, group.responses[1]))
    (tokens,) = unlabelled(policy, sampler, [group])
    assert (
        ending != policy.ending()
        and tokens.sequences[0][-len(policy.ending()) :] == policy.ending()
    )
    assert tokens.sequences[1][tokens.starts[1] :] == list(group.responses[1].tokens)
    assert steerlm2.weigh([group], policy, sampler, reward_model, steerlm2.TARGET, RECIPE)


@pytest.mark.slow
def test_two_iterations_sample_from_the_policy_of_the_one_before(models, tmp_path):
    reward_model, policy = models[1], load_policy("tiny")
    before = {name: p.clone() for name, p in policy.named_parameters()}
    prior = models[0]
    setup = setup_in(
        tmp_path, replace(RECIPE, keep=0)
    )  # the last weights, whatever validation says
    history = steerlm2.iterate(policy, prior, reward_model, TWICE, setup)
    done = history.iterations
    first, second = (i.training for i in done)
    assert any(not torch.equal(p, before[name]) for name, p in policy.named_parameters())
    # In the first iteration Q' is the SFT model itself but for the label; in the second it has
    # moved.
    assert [w.read.sequences for w in first] != [w.read.sequences for w in second]
    assert all("eval_distance" in x for i in done for x in i.result.history if "eval_loss" in x)
    assert history.arguments == {"weights": steerlm2.weigh}
    assert history.last is done[1].result
    again = load_policy("tiny")
    repeated = steerlm2.iterate(again, prior, reward_model, TWICE, setup).iterations
    assert [i.result.history for i in repeated] == [i.result.history for i in done]
    assert all(
        torch.equal(p, dict(policy.named_parameters())[name])
        for name, p in again.named_parameters()
    )


@pytest.mark.slow
def test_adapters_are_merged_after_each_iteration(models, tmp_path):
    policy = load_policy("tiny")
    left = []
    setup = setup_in(tmp_path, replace(RECIPE, steps=1, method="lora", lora_rank=2))
    prompts = prompts_of([GROUPS[:2]] * 2, [])
    after = lambda number, policy: left.append((number, policy.adapter))  # noqa: E731
    steerlm2.iterate(policy, *models, prompts, setup, after=after)
    assert left == [(1, None), (2, None)]
    assert policy.adapter is None and not any(
        "lora" in name for name, _ in policy.named_parameters()
    )
    assert (
        load_policy(policy.save(tmp_path / "policy")).fingerprint().rpartition("-")[2]
        == (policy.fingerprint().rpartition("-")[2])
    )


@pytest.mark.slow
def test_weights_and_loss_of_ones_own_are_used_and_recorded(models, tmp_path):
    """The control of SteerLM 2.0 is one weight for all samples: w' is 1/n, and where nothing moved so is b'."""

    def one_weight(*models_and_samples, **options):
        weighed = steerlm2.weigh(*models_and_samples, **options)
        return [one._replace(attributes=0 * one.attributes, prior=one.sampler) for one in weighed]

    own = objective()._replace(name="own")
    setup = setup_in(tmp_path, replace(RECIPE, steps=1))
    prompts = prompts_of([GROUPS[:2]], [])
    history = steerlm2.iterate(
        load_policy("tiny"), *models, prompts, setup, weights=one_weight, objective=own
    )
    assert history.arguments == {"weights": one_weight}
    assert history.last.arguments == {"objective": own}
    effective = [group.effective for group in history.iterations[0].training]
    np.testing.assert_allclose(effective, 4, rtol=1e-6)
    assert history.last.history[0]["loss"] == pytest.approx(0, abs=1e-6)
    with pytest.raises(ValueError, match="the recipe's reward is none"):
        steerlm2.iterate(load_policy("tiny"), models[0], None, prompts, setup)


# Killed and resumed


def run(folder: Path, callbacks=tuple) -> None:
    """The run that is killed: two iterations on four prompts."""
    policy, prior, reward_model = (
        load_policy("tiny"),
        load_policy("tiny"),
        RewardModel.new("tiny").eval(),
    )
    steerlm2.iterate(
        policy, prior, reward_model, TWICE, setup_in(folder, RECIPE), callbacks=callbacks
    )
    policy.save(folder / "policy")


@pytest.mark.slow
def test_killed_and_resumed_is_a_straight_run_bit_for_bit(tmp_path):
    """SIGKILL in the second iteration's training, and half a line in files of samples, scores and log-probabilities."""
    run(tmp_path / "straight")
    folder = tmp_path / "killed"
    process = forked.start(__file__, folder)
    patience = time.time() + 120
    while not list(folder.glob("iteration-2/training-*/checkpoint-1")):
        assert process.exitcode is None and time.time() < patience
        time.sleep(0.02)
    process.kill()
    process.join()
    assert not (folder / "policy").exists()
    torn = sorted(folder.rglob("*.jsonl"))
    for file in torn[::2]:
        file.write_bytes(file.read_bytes()[:-7])
    run(folder)
    names = [
        p.relative_to(tmp_path / "straight") for p in (tmp_path / "straight").rglob("done.json")
    ]
    assert len(names) == 2
    for name in names:
        one, other = (
            json.loads((place / name).read_text())["history"]
            for place in (tmp_path / "straight", folder)
        )
        assert one == other
    weights = "policy/model.safetensors"
    assert (tmp_path / "straight" / weights).read_bytes() == (folder / weights).read_bytes()


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    run(place, lambda: [Slow(place)])
