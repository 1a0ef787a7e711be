"""DPO: the pairs are the paper's, and loss, implicit rewards, gradients and weights are those of TRL's DPOTrainer."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from transformers import TrainerCallback

from hs2lib.align import dpo as preferences
from hs2lib.data.load import Loaded
from hs2lib.engine.attention import response_log_probs
from hs2lib.engine.trees import pack
from hs2lib.group import Group, Response, Turn
from hs2lib.models.policy import load_policy
from hs2lib.train.objectives import REGRESSION, dpo
from hs2lib.train.recipes import DPO
from hs2lib.train.trainer import Recipe, fit, targets_of
from hs2lib.world import sets


@pytest.fixture
def trl():
    """Our use of TRL, in slow tests alone: importing TRL takes seconds."""
    import trl_oracle

    return trl_oracle


def rated(name, *helpfulness, prompt="Why?"):
    """A group whose responses have these labels for helpfulness, and others that must not count."""
    responses = tuple(
        Response(f"{name}/{i}", f"Because {i}.", (h, 4 - i, 0, 0, 0))
        for i, h in enumerate(helpfulness)
    )
    return Group(name, (Turn("user", prompt),), responses)


# Pairs


def test_the_rule_of_the_7221_pairs():
    """Higher helpfulness is chosen, ties are dropped, and a prompt that occurs in two pairs gives two."""
    groups = [
        rated("0", 1, 3),
        rated("1", 2, 2),
        rated("2", 4, 0),
        rated("3", 0, 1),
        rated("4", 3, 3),
    ]
    pairs, counts = preferences.by_attribute(
        groups
    )  # all five have one prompt, and stay five pairs
    assert [(p.id, *(r.id for r in p.responses), p.preference) for p in pairs] == [
        ("0", "0/1", "0/0", -2.0),
        ("2", "2/0", "2/1", -4.0),
        ("3", "3/1", "3/0", -1.0),
    ]
    assert counts == {"groups": 5, "pairs": 3, "ties": 2, "fewer than two scores": 0}
    # The paper's own arithmetic: 10,162 pairs, 2,941 of them ties.
    many = [rated(str(i), 2, 2 + (i >= 2941)) for i in range(10162)]
    assert len(preferences.by_attribute(many)[0]) == 7221


def test_of_several_responses_the_best_meets_the_worst():
    nan = math.nan
    pairs, counts = preferences.by_attribute(
        [rated("a", 2, 4, 0, 4, 0), rated("b", nan, 3), rated("c", nan, 3, 1)]
    )
    assert [[r.id for r in p.responses] for p in pairs] == [["a/1", "a/2"], ["c/1", "c/2"]]
    assert counts["fewer than two scores"] == 1
    pairs, _ = preferences.best_worst_pairs([rated("a", 0, 0, 0)], [-1.5, nan, 2.0])
    assert [r.id for r in pairs[0].responses] == ["a/2", "a/0"] and pairs[0].preference == -3.5
    with pytest.raises(ValueError, match="3 responses need a score each, got shape"):
        preferences.best_worst_pairs([rated("a", 0, 0, 0)], [1.0, 2.0])
    with pytest.raises(ValueError, match="labels for 'quality'; there are: coherence"):
        preferences.by_attribute([rated("a", 0, 1)], "quality")


# The loss


@pytest.fixture
def pairs():
    """Generated pairs: responses of different lengths, some beginning alike, prompts of several turns."""
    return preferences.by_attribute(sets.groups(24, seed=3))[0]


def move(model, seed=0):
    """Take a model away from its reference, so that log-ratios are not all 0."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * weight.std().nan_to_num() * torch.randn_like(weight)


def test_dpo_by_hand():
    """Log-ratios 1 and -1, beta .5: margin 1, loss log(1 + e^-1); a tie (equal values) is no item."""
    objective = dpo(0.5)
    outputs, group = torch.tensor([[-9.0], [-13.0], [-1.0], [-1.0]]), torch.tensor([0, 0, 1, 1])
    targets = torch.tensor([[1.0, -10.0], [0.0, -12.0], [2.0, -1.0], [2.0, -5.0]])
    assert objective.count(targets, group) == 1
    assert objective.total(outputs, targets, group).item() == pytest.approx(
        math.log1p(math.exp(-1)), rel=1e-6
    )
    assert objective.metrics(outputs, targets, group, ()) == {
        "accuracy": 1.0,
        "margin": pytest.approx(1.0),
    }


def trl_trainer(trl, policy, items, beta, folder, reference=True):
    recipe = Recipe(steps=1, batch=len(items), autocast="float32")
    own = {"beta": beta, "max_length": None, "precompute_ref_log_probs": True}
    args = trl.settings(trl.DPOConfig, folder, recipe, len(items), len(items), False, **own)
    data = trl.dpo_rows(items)
    if not reference:
        data = data.remove_columns(["ref_chosen_logps", "ref_rejected_logps"])
    return trl.TokenDPOTrainer(
        policy.backbone, args=args, train_dataset=data, processing_class=policy.tokenizer
    )


@pytest.mark.parametrize("beta", [1e-3, 0.3])
def test_loss_implicit_rewards_and_gradients_equal_those_of_trl(
    pairs, tmp_path, beta, trl, tiny_policy
):
    """One batch, the same tokens: TRL computes its own reference, pads, and has its own log-probabilities and loss."""
    shorter = [
        replace(p, responses=tuple(replace(r, text=r.text[:60]) for r in p.responses))
        for p in pairs
    ]
    items, _ = preferences.items(
        tiny_policy, shorter
    )  # sums of few terms: float32 has seven digits
    trainer = trl_trainer(trl, load_policy("tiny"), items, beta, tmp_path, reference=False)
    their_rows = trainer.train_dataset  # with the reference log-probabilities that TRL computed
    ours = torch.from_numpy(np.stack([item.targets[:, 1] for item in items]))
    theirs = torch.tensor([their_rows["ref_chosen_logps"], their_rows["ref_rejected_logps"]]).T
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)

    move(trainer.model.train())
    their_loss = trainer.compute_loss(trainer.model, trainer.data_collator(list(their_rows)))
    their_loss.backward()
    logged = {name: values[-1] for name, values in trainer._metrics["train"].items()}

    policy, objective = load_policy("tiny"), dpo(beta)
    move(policy.backbone)
    targets, group = targets_of(items, "cpu")
    outputs = response_log_probs(
        policy, pack([item.sequences for item in items], [list(i.starts) for i in items])
    )
    loss = objective.total(outputs, targets, group) / objective.count(targets, group)
    loss.backward()
    assert loss.item() == pytest.approx(their_loss.item(), rel=1e-5)
    assert abs(loss.item() - math.log(2)) > 1e-4 * beta
    # Log-ratios are differences of two sums of about -200, and 1e-6 is meant relative to these.
    theirs_now = torch.stack(
        trainer.compute_ref_log_probs(trainer.model, trainer.data_collator(list(their_rows))), dim=1
    )
    room = 1e-6 * theirs_now.abs().max().item()
    ratios = (outputs[:, 0] - targets[:, 1]).detach().view(-1, 2)
    torch.testing.assert_close(ratios, theirs_now - theirs, rtol=1e-5, atol=room)
    assert ratios.abs().mean() > 100 * room
    rewards = beta * ratios
    for name, value in zip(("chosen", "rejected"), rewards.mean(0).tolist(), strict=True):
        assert logged[f"rewards/{name}"] == pytest.approx(value, rel=1e-5, abs=beta * room)
    assert (
        logged["rewards/accuracies"] == objective.metrics(outputs, targets, group, ())["accuracy"]
    )
    # A gradient is judged as the whole vector that it is: its parts are small differences of large
    # sums.
    their_gradients = {name: p.grad for name, p in trainer.model.named_parameters()}
    apart = sum(
        (p.grad - their_gradients[name]).square().sum()
        for name, p in policy.backbone.named_parameters()
    ).sqrt()
    assert apart < 1e-5 * sum(g.square().sum() for g in their_gradients.values()).sqrt()
    # And the loss is -log sigma of the margin, written out.
    assert loss.item() == pytest.approx(
        -F.logsigmoid(rewards[:, 0] - rewards[:, 1]).mean().item(), rel=1e-6
    )


# Training


def small(**changes):
    kept = {
        "batch": 4,
        "steps": 6,
        "learning_rate": 1e-3,
        "warmup": 2,
        "autocast": "float32",
        "budget": 600,
    }
    return Recipe(**{**kept, "save_every": 2, "validate_every": 3, **changes})


@pytest.mark.slow
def test_training_on_groups_and_by_trl_ends_with_the_same_weights(
    pairs, tmp_path, trl, tiny_policy
):
    """Six steps of AdamW, same order, same schedule: what differs is rounding, which Adam's first steps enlarge."""
    ends = []
    for backend in ("groups", "trl"):
        policy = load_policy("tiny")
        items, _ = preferences.items(policy, pairs[:12])
        if backend == "groups":
            result = fit(policy, items, [], dpo(0.1), small(), tmp_path / backend)
        else:
            result = trl.fit_dpo(
                policy, items, [], 0.1, small(), tmp_path / backend, rows_a_batch=2
            )
        ends.append(
            (
                dict(policy.backbone.named_parameters()),
                [x["loss"] for x in result.history if "loss" in x],
            )
        )
    assert ends[0][1] == pytest.approx(ends[1][1], rel=1e-4)
    start = dict(tiny_policy.backbone.named_parameters())
    gone = sum((p - start[name]).square().sum() for name, p in ends[0][0].items()).sqrt()
    apart = sum((p - ends[1][0][name]).square().sum() for name, p in ends[0][0].items()).sqrt()
    assert gone > 0.1 and apart < 1e-2 * gone


class _Stop(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 3:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("adapters", [False, True], ids=["full", "LoRA"])
def test_a_killed_run_goes_on_bit_for_bit(pairs, tmp_path, adapters):
    """References from the cache, weights and optimiser from the checkpoint: nothing differs from a straight run."""
    runs = []
    for name, stop in (("straight", False), ("killed", True)):
        for attempt in range(1 + stop):
            policy = load_policy("tiny")
            items, _ = preferences.items(policy, pairs[:14], cache=tmp_path / f"{name}-cache")
            if adapters:
                policy.lora(rank=2, dropout=0.1)
            task = (policy, items[:10], items[10:], dpo(0.1), small(), tmp_path / name)
            if stop and not attempt:
                with pytest.raises(KeyboardInterrupt):
                    fit(*task, callbacks=[_Stop()])
            else:
                result = fit(*task)
        runs.append((result.history, policy.fingerprint(), dict(policy.named_parameters())))
    assert runs[0][:2] == runs[1][:2]
    assert all(torch.equal(p, runs[1][2][name]) for name, p in runs[0][2].items())
    assert {"eval_accuracy", "eval_margin"} <= set(next(x for x in runs[0][0] if "eval_loss" in x))


@pytest.mark.slow
def test_preferences_are_learnt(pairs, tmp_path):
    """At first every margin is 0 and the loss log 2; trained on a few pairs, all are ordered rightly."""
    policy = load_policy("tiny")
    items, _ = preferences.items(policy, pairs[:8])
    recipe = small(steps=30, batch=8, learning_rate=3e-3, save_every=30, validate_every=30)
    history = fit(policy, items, items, dpo(0.1), recipe, tmp_path / "run").history
    first, last = (x for x in history if "eval_loss" in x)
    assert (
        first["eval_loss"] == pytest.approx(math.log(2), rel=1e-5)
        and abs(first["eval_margin"]) < 1e-4
    )
    assert last["eval_accuracy"] == 1 and last["eval_loss"] < 0.3


def test_what_cannot_be_trained_is_refused(pairs, tmp_path, own_policy):
    items, _ = preferences.items(own_policy, pairs[:4])
    with pytest.raises(
        ValueError, match="the model has 0 outputs, regression on these items asks for 2"
    ):
        fit(own_policy, items, [], REGRESSION, small(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# What a run does


def setup_of(folder, **changes):
    """What a run's functions read of its setup."""
    fixed = dict(n_prompts=20, steps=1, batch=2, autocast="float32", beta=0.1)
    return SimpleNamespace(recipe=DPO(**fixed | changes), folder=folder)


def backwards(groups, attribute):
    """A rule of the reader's own: the worse response is chosen."""
    pairs, counts = preferences.by_attribute(groups, attribute)
    return [replace(pair, responses=pair.responses[::-1]) for pair in pairs], counts


def test_pairs_are_made_by_another_rule_too_and_say_so(tmp_path):
    """A control trains on the same pairs with another preference; the run's manifest has to name the rule."""
    setup = setup_of(tmp_path)
    pairs, control = preferences.load_pairs(setup), preferences.load_pairs(setup, rule=backwards)
    assert pairs.arguments == {"rule": preferences.by_attribute} and control.arguments == {
        "rule": backwards
    }
    assert [pair.responses for pair in pairs.training] == [
        pair.responses[::-1] for pair in control.training
    ]
    assert pairs.counts["train"]["groups"] + pairs.counts["validation"]["groups"] == 20
    assert len(pairs.training) == pairs.counts["train"]["pairs"] > 0
    assert not pairs.of_paper and pairs.held_out is None


def test_pairs_are_the_papers_only_of_the_whole_train_split_by_its_own_rule():
    """7,221 is the number of these alone: a share cut off, an own file or another rule gives another number."""
    rows = Loaded([rated("0", 1, 3), rated("1", 2, 2)], "HelpSteer2", False)
    recipe = DPO(source="hub", validation_share=0.0)
    assert preferences.paired(rows, None, recipe).of_paper
    others = [
        replace(recipe, **change) for change in ({"attribute": "correctness"}, {"strict": False})
    ]
    assert not any(preferences.paired(rows, None, other).of_paper for other in others)
    assert not preferences.paired(replace(rows, generated=True), None, recipe).of_paper
    assert not preferences.paired(replace(rows, own=True), None, recipe).of_paper
    assert not preferences.paired(rows, None, recipe, backwards).of_paper
    held_out = Loaded([rated("2", 4, 0, prompt="Who?")], "HelpSteer2", False)
    apart = preferences.paired(rows, held_out, replace(recipe, validation_share=0.2))
    assert apart.of_paper and [pair.id for pair in apart.validation] == ["2"], (
        "their own split takes nothing away"
    )


def test_a_number_of_pairs_is_drawn_by_the_seed_in_their_order(tmp_path, tiny_policy):
    """The draw is the same for every process and every repetition."""
    setup = setup_of(tmp_path, n_pairs=5)
    pairs = preferences.load_pairs(setup)
    ids = [pair.id for pair in pairs.training]
    drawn = [item.id for item in preferences.prepare(tiny_policy, pairs, setup).training]
    wanted = np.random.default_rng(0).permutation(len(ids))[:5]
    assert drawn == [ids[i] for i in sorted(wanted)]


@pytest.mark.slow
def test_training_takes_another_objective_too_and_says_so(tmp_path):
    """A reversed loss moves the margins of the same pairs the other way."""
    setup = setup_of(tmp_path, validation_share=0.0, steps=6, learning_rate=1e-3)
    pairs = preferences.load_pairs(setup)
    plain = dpo(0.1)
    reversed_loss = plain._replace(
        name="reversed", total=lambda outputs, targets, group: -plain.total(outputs, targets, group)
    )
    margins = {}
    for name, objective in (("own", None), ("reversed", reversed_loss)):
        policy = load_policy("tiny")
        items = preferences.prepare(policy, pairs, setup)
        result = preferences.train(policy, items, setup, objective=objective)
        assert (
            result.arguments["objective"].name
            == {"own": "DPO, beta 0.1", "reversed": "reversed"}[name]
        )
        ratios = preferences.log_ratios(policy, items.training)
        margins[name] = (ratios[:, 0] - ratios[:, 1]).mean()
    assert margins["own"] > 0 > margins["reversed"]
