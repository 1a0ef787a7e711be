"""SFT: the mask is exactly the assistant's words, the loss is TRL's, a killed run ends where it would have."""

import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_training import run_folder
from transformers import AutoModelForCausalLM, TrainerCallback

from hs2lib.align import sft
from hs2lib.data import load
from hs2lib.group import Group, Response, Turn
from hs2lib.models.backbones import embedded_model, load_tokenizer
from hs2lib.models.policy import load_policy
from hs2lib.models.rollout import rollouts
from hs2lib.train import objectives
from hs2lib.train.recipes import SFT
from hs2lib.train.trainer import Recipe, fit

TURNS = (Turn("user", "Hi"), Turn("assistant", "Hello.\n\nYes?"), Turn("user", "Name a prime."))
TALK = Group("a", TURNS, (Response("a/0", " Seven, or 11"),))


@pytest.fixture
def trl():
    """Our use of TRL, in slow tests alone: importing TRL takes seconds."""
    import trl_oracle

    return trl_oracle


def talks(number=12, turns=3):
    """Conversations of one to `turns` exchanges, of different lengths."""
    conversations = []
    for i in range(number):
        prompt = []
        for k in range(i % turns):
            prompt += [
                Turn("user", f"{i} or {k}?" + " more" * (i + k)),
                Turn("assistant", f"{k}" + " of them" * k),
            ]
        prompt.append(Turn("user", "And" + " now" * (5 * i % 7)))
        conversations.append(
            Group(
                f"t{i:02d}",
                tuple(prompt),
                (Response(f"t{i}/0", f"It is {i}" + " again" * (3 * i % 11)),),
            )
        )
    return conversations


def recipe(**changes):
    fixed = dict(
        steps=6, batch=4, learning_rate=1e-2, warmup=1, autocast="float32", budget=256, save_every=2
    )
    return Recipe(**(fixed | dict(validate_every=3) | changes))


def runs_of(policy, ids, mask):
    """The texts of the runs of trained tokens."""
    edges = np.flatnonzero(np.diff([0, *map(int, mask), 0]))
    return [policy.tokenizer.decode(ids[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]


# The mask


def test_the_mask_is_each_answer_and_its_end(tiny_policy):
    ids, mask = sft.tokens_and_mask(tiny_policy, TALK)
    assert runs_of(tiny_policy, ids, mask) == [
        "Hello.\n\nYes?<|im_end|>",
        " Seven, or 11<|im_end|>",
    ]
    tokenizer = tiny_policy.tokenizer
    assert ids[-1] == tokenizer.eos_token_id and mask[-1]
    rest = tokenizer.decode([t for t, trained in zip(ids, mask, strict=True) if not trained])
    assert "Hi" in rest and "prime" in rest and "Seven" not in rest and "Hello" not in rest


def test_the_mask_in_the_reference_template():
    """The reference code's mask by hand: of what follows an answer its line break and the marker of the next turn."""
    policy = load_policy("tiny", template="reference")
    ids, mask = sft.tokens_and_mask(policy, TALK)
    text = policy.tokenizer.decode(ids)
    assert text.startswith("<extra_id_0>System\n\n<extra_id_1>User\n") and text.endswith(
        "\n<extra_id_1>"
    )
    answers = [turn.text for turn in TALK.prompt if turn.role == "assistant"] + [
        TALK.responses[0].text
    ]
    assert runs_of(policy, ids, mask) == [f"{answer}\n<extra_id_1>" for answer in answers]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["postcards", "oasst1"])
def test_the_mask_on_real_conversations(name):
    """SmolLM2's own tokenizer and template: every answer, whole and in order, each with the end of
    its turn.

    Where a token holds the end of what stands before an answer it is the answer's first, so a run
    may begin with that.
    """
    if name == "oasst1":
        if "HS2_DATA_DIR" not in os.environ:
            pytest.skip("HS2_DATA_DIR is not set: no Open Assistant trees here")
        groups = load.load("oasst1", "folder", split="validation", strict=False).groups
    else:
        groups = load.load("helpsteer2", "postcards", n_prompts=150).groups
    policy = load_policy("tiny")
    policy.tokenizer, policy.max_tokens = load_tokenizer(embedded_model()), None
    paths = sft.best_paths(groups)
    assert sum(len(talk.prompt) > 1 for talk in paths) >= 10, "multi-turn ones among them"
    for talk in paths:
        ids, mask = sft.tokens_and_mask(policy, talk)
        answers = [turn.text for turn in talk.prompt if turn.role == "assistant"] + [
            talk.responses[0].text
        ]
        assert [run.lstrip("\n") for run in runs_of(policy, ids, mask)] == [
            f"{x}<|im_end|>".lstrip("\n") for x in answers
        ]
        # The mask starts where a sampler starts: after the prompt as it is rendered for generation.
        (tokens,) = policy.tokenise([talk])
        start = tokens.starts[0]
        assert tokens.sequences[0] == ids and all(mask[start:]) and not mask[start - 1]


def test_a_template_that_rewrites_earlier_turns_is_refused():
    """Some templates leave the reasoning out of earlier turns: their loss would be on words that are not there."""
    policy = load_policy("tiny")
    policy.tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{{ m.content if loop.last or m.role == 'user' else m.content[:3] }}<|im_end|>\n{% endfor %}"
    )
    with pytest.raises(
        ValueError, match="group a: the template writes turn 1 otherwise when others follow it"
    ):
        sft.tokens_and_mask(policy, TALK)


def test_long_conversations_lose_whole_exchanges_and_are_counted():
    policy = load_policy("tiny")
    ids, mask = sft.tokens_and_mask(policy, TALK)
    first = mask.index(False, mask.index(True))  # the end of the first answer
    for limit, kept in ((len(ids), len(ids)), (len(ids) - 1, first), (first, first)):
        policy.max_tokens = limit
        (item,), counts = sft.items(policy, [TALK])
        assert item.sequences[0] == ids[:kept] and counts["shortened"] == (kept < len(ids))
        assert counts["tokens_trained"] == sum(mask[:kept]) and counts["turns_trained"] == 1 + (
            kept == len(ids)
        )
    policy.max_tokens = first - 1
    with pytest.raises(ValueError, match=r"no conversation fits into \d+ tokens \(1 are longer\)"):
        sft.items(policy, [TALK])
    short = Group("b", TURNS[:1], (Response("b/0", "Yes."),))
    items, counts = sft.items(policy, [TALK, short])
    assert [item.id for item in items] == ["b"] and counts["too_long"] == 1


def test_best_paths_follow_the_best_reply(tiny_policy):
    """A tree of two replies, each answered again: the path through the worse one is left out, and
    so is the beginning of the other, which is trained as part of the whole."""
    labels = ("quality",)
    u, good, bad, on = (
        Turn("user", "u"),
        Turn("assistant", "good"),
        Turn("assistant", "bad"),
        Turn("user", "on"),
    )
    replies = (Response("1", "bad", (1.0,)), Response("2", "good", (3.0,)))
    root = Group("root", (u,), replies, labels)
    through = Group(
        "through", (u, good, on), (Response("3", "x", (1.0,)), Response("4", "y", (2.0,))), labels
    )
    around = Group("around", (u, bad, on), (Response("5", "z", (4.0,)),), labels)
    unrated = Group(
        "unrated", (Turn("user", "v"),), (Response("6", "first"), Response("7", "second")), ()
    )
    kept = sft.best_paths([root, through, around, unrated])
    assert [(talk.id, talk.responses[0].text) for talk in kept] == [
        ("through", "y"),
        ("unrated", "first"),
    ]
    with pytest.raises(ValueError, match="group root has 2 responses: choose one"):
        sft.items(tiny_policy, [root])


def test_the_best_reply_to_a_prompt_may_stand_in_its_second_group():
    """HelpSteer2 has a prompt twice: the first group's replies counted, and better ones were lost without a word."""
    u, labels = (Turn("user", "u"),), ("helpfulness",)
    worse = Group("0", u, (Response("1", "bad", (0.0,)), Response("2", "poor", (1.0,))), labels)
    better = Group("1", u, (Response("3", "good", (4.0,)), Response("4", "fair", (1.0,))), labels)
    for groups in ([worse, better], [better, worse]):
        assert [(talk.id, talk.responses[0].text) for talk in sft.best_paths(groups)] == [
            ("1", "good")
        ]


# The loss


def by_hand(items, name):
    """Mean over trained tokens of -log p, and the gradient: one conversation at a time in plain transformers."""
    model = AutoModelForCausalLM.from_pretrained(name)
    total, count = 0.0, 0
    for item in items:
        ids = torch.tensor(item.sequences)
        logp = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
        for start, stop in item.starts[0]:
            total, count = total - logp[start - 1 : stop - 1].sum(), count + stop - start
    (total / count).backward()
    return (total / count).item(), torch.stack(
        [p.grad.norm() for p in model.parameters()]
    ).norm().item()


class Gradients(TrainerCallback):
    """The gradient of every step, as one vector."""

    def __init__(self):
        self.of = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        parts = {name.rpartition("backbone.")[2]: p.grad for name, p in model.named_parameters()}
        self.of.append(torch.cat([parts[name].flatten() for name in sorted(parts)]).clone())


@pytest.mark.parametrize("accumulation", [1, 2])
def test_losses_and_gradients_equal_those_of_trl(tmp_path, accumulation, trl, tiny_policy):
    """Five steps, into the second epoch, on conversations of unequal lengths, which TRL pads three at a time."""
    items, _ = sft.items(tiny_policy, talks())
    how = recipe(
        steps=5,
        batch=6,
        accumulation=accumulation,
        learning_rate=1e-3,
        clip=1e9,
        budget=150,
        keep=0,
    )
    ours, theirs = Gradients(), Gradients()
    task = (items, items[:3])
    one = fit(
        load_policy("tiny"), *task, objectives.sft(), how, tmp_path / "ours", callbacks=[ours]
    )
    other = trl.fit_sft(
        load_policy("tiny"), *task, how, tmp_path / "theirs", rows_a_batch=3, callbacks=[theirs]
    )
    for name, number in (("loss", 5), ("eval_loss", 3), ("eval_accuracy", 3)):
        values = [[x[name] for x in result.history if name in x] for result in (one, other)]
        assert len(values[0]) == number and values[0] == pytest.approx(values[1], rel=1e-5), name
    assert len(ours.of) == len(theirs.of) == 5
    for gradient, their_gradient in zip(ours.of, theirs.of, strict=True):
        assert (gradient - their_gradient).norm() < 1e-5 * their_gradient.norm()


@pytest.mark.parametrize("accumulation", [1, 2])
def test_the_first_step_is_that_of_plain_transformers(tmp_path, accumulation):
    """Loss and gradient of conversations one by one, however they are cut into micro-batches."""
    policy = load_policy("tiny")
    items, _ = sft.items(policy, talks())
    how = recipe(steps=1, batch=12, accumulation=accumulation, budget=150, clip=1e9, keep=0)
    first = fit(policy, items, (), objectives.sft(), how, tmp_path / "run").history[0]
    loss, norm = by_hand(items, policy.backbone.name_or_path)
    assert (first["loss"], first["grad_norm"]) == pytest.approx((loss, norm), rel=1e-5)


def test_trls_padded_batch_is_the_conversations_one_by_one(tmp_path, trl, tiny_policy):
    """The first loss and gradient: nothing of a conversation is seen by another, and padding counts nowhere."""
    policy = load_policy("tiny")
    items, _ = sft.items(policy, talks())
    how = recipe(steps=1, batch=12, clip=1e9)
    first = trl.fit_sft(policy, items, (), how, tmp_path / "run", rows_a_batch=12).history[0]
    loss, norm = by_hand(items, policy.backbone.name_or_path)
    assert sft.nll(tiny_policy, items, budget=100) == pytest.approx(loss, rel=1e-5)
    assert (first["loss"], first["grad_norm"]) == pytest.approx((loss, norm), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("adapters", [False, True], ids=["full", "LoRA"])
def test_a_few_conversations_are_learnt_by_heart_and_saved(tmp_path, adapters):
    policy = load_policy("tiny")
    if adapters:
        policy.lora(rank=16)
    few = talks(3)
    items, _ = sft.items(policy, few)
    how = recipe(steps=150, batch=3, learning_rate=2e-2, save_every=150)
    result = fit(policy, items, (), objectives.sft(), how, tmp_path / "run")
    losses = [x["loss"] for x in result.history if "loss" in x]
    # Adapters leave the small random vocabulary projection as it is, whose logits stay below 1:
    # little can be learnt.
    assert losses[0] > 6 and losses[-1] < (0.98 if adapters else 0.3) * losses[0]
    policy.save(tmp_path / "policy")
    again = load_policy(tmp_path / "policy")
    assert torch.equal(again.log_probs(few)[0], policy.log_probs(few)[0])
    if not adapters:  # what it has learnt by heart it says, and stops
        answers = rollouts(again, few, n=1, max_new_tokens=40, temperature=0, progress=False)
        assert [g.responses[0].text for g in answers] == [t.responses[0].text for t in few]
        assert all(g.responses[0].finished for g in answers)


# Killed and resumed


class Killed(Exception):
    pass


class Kill(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise Killed


@pytest.mark.slow
def test_killed_and_resumed_is_straight_bit_for_bit(tmp_path):
    """Killed after steps 1, 3 and 4, with checkpoints at 2 and 4: the same weights and losses, over ends of epochs."""

    def run(folder, callbacks=()):
        policy = load_policy("tiny")
        items, _ = sft.items(policy, talks())
        how = recipe(steps=7, batch=2, budget=150, keep=0)
        return policy, fit(
            policy, items, items[:2], objectives.sft(), how, folder, callbacks=callbacks
        )

    straight, expected = run(tmp_path / "straight")
    for step in (1, 3, 4):
        with pytest.raises(Killed):
            run(tmp_path / "killed", [Kill(step)])
    folder = run_folder(tmp_path / "killed")
    (folder / "checkpoint-6").mkdir()
    (folder / "checkpoint-6" / "torn").write_text("half of a file")
    resumed, result = run(tmp_path / "killed")
    for (name, p), q in zip(straight.named_parameters(), resumed.parameters(), strict=True):
        assert torch.equal(p, q), name
    losses = [
        [(x["step"], x["loss"]) for x in r.history if "loss" in x] for r in (expected, result)
    ]
    assert losses[0] == losses[1] and len(losses[0]) == 7
    assert sorted(x.name for x in folder.glob("*checkpoint*")) == ["checkpoint-7"]
    again, read = run(tmp_path / "killed", [Kill(1)])  # finished: nothing is trained
    assert read.history == result.history and torch.equal(
        *(next(m.parameters()) for m in (again, resumed))
    )


# What a run does


def setup_of(folder, **changes):
    """What a run's functions read of its setup."""
    fixed = dict(n_prompts=12, steps=1, batch=2, autocast="float32", model_name="tiny")
    return SimpleNamespace(
        recipe=SFT(**fixed | changes), folder=folder, notebook="07_sft", tier="smoke"
    )


def worst(groups):
    """The control of choosing the best reply: the worst one."""
    return [
        replace(group, responses=(min(group.responses, key=lambda one: one.labels[0]),))
        for group in groups
    ]


def test_conversations_are_chosen_by_another_rule_too_and_say_so(tmp_path):
    """A control trains on other replies to the same prompts; the run's manifest has to name the rule."""
    setup = setup_of(tmp_path)
    best, control = sft.load_conversations(setup), sft.load_conversations(setup, choose=worst)
    assert best.arguments == {"choose": sft.best_paths} and control.arguments == {"choose": worst}
    assert [talk.id for talk in best.training] == [talk.id for talk in control.training]
    assert len(best.training) + len(best.validation) == 12 and len(best.validation) == 2
    higher = [
        a.responses[0].labels[0] - b.responses[0].labels[0]
        for a, b in zip(best.training, control.training, strict=True)
    ]
    assert min(higher) >= 0 and max(higher) > 0


@pytest.mark.slow
def test_training_takes_another_objective_too_and_says_so(tmp_path):
    """A loss of the reader's own is minimised in place of the method's, and the result names it."""
    setup = setup_of(tmp_path, validation_share=0.0, learning_rate=1e-3)
    conversations = sft.load_conversations(setup)
    policy = load_policy("tiny")
    items = sft.prepare(policy, conversations, setup)
    assert not items.validation and items.watched == items.training
    doubled = objectives.sft()._replace(
        name="twice", total=lambda *rows: 2 * objectives.sft().total(*rows)
    )
    plain = sft.train(policy, items, setup)
    other = sft.train(load_policy("tiny"), items, setup, objective=doubled)
    assert plain.arguments["objective"].name == "SFT" and other.arguments == {"objective": doubled}
    assert other.history[0]["loss"] == pytest.approx(2 * plain.history[0]["loss"])
