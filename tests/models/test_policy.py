"""Policies: log-probabilities are those of plain transformers, killed passes go on exactly, folders are whole."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from hs2lib.engine.chat import label_string
from hs2lib.group import Group, Response, Turn
from hs2lib.models import base
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts

TALK = (Turn("user", "Hi"), Turn("assistant", "Hello."), Turn("user", "Name a prime."))
GROUPS = [
    Group(
        "a",
        TALK,
        (Response("a/0", "Seven."), Response("a/1", "Nine is a prime. " * 20)),
        preference=-1,
    ),
    Group("b", TALK[:1], (Response("b/0", ""),)),
    Group("c", TALK[2:], tuple(Response(f"c/{i}", f"{i}, of course") for i in range(4))),
]
LABEL = label_string((4, 4, 4, 2, 2))


@pytest.fixture
def policy(own_policy):
    return own_policy


def one_by_one(policy, label=None):
    """log P(y|x) and lengths from full logits of one sequence at a time, in plain transformers and float64."""
    plain = AutoModelForCausalLM.from_pretrained(policy.backbone.name_or_path).double().eval()
    totals, lengths = [], []
    for group in policy.tokenise(GROUPS, label):
        for sequence, start in zip(group.sequences, group.starts, strict=True):
            ids = torch.tensor([sequence])
            with torch.no_grad():
                each = plain(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
            totals.append(each[start - 1 :].sum().item())
            lengths.append(len(sequence) - start)
    return totals, lengths


@pytest.mark.parametrize(
    "label", [None, LABEL, lambda group: LABEL if group.id == "b" else "helpfulness:0"]
)
def test_log_probs_are_those_of_plain_transformers_one_by_one(policy, label):
    """Sums of up to 120 log-probabilities of about -8: 1e-5 of each sum is 1e-2 of a single token's rounding."""
    totals, lengths = one_by_one(policy, label)
    for budget in (8192, 64):
        ours, tokens = policy.log_probs(GROUPS, label=label, budget=budget)
        assert ours.dtype == torch.float32 and tokens.tolist() == lengths
        torch.testing.assert_close(
            ours.double(), torch.tensor(totals).double(), rtol=1e-5, atol=1e-5
        )


def test_a_response_ends_where_a_sampler_stops(policy):
    """SmolLM2's template writes a line break after <|im_end|>: no policy samples it, so it is no part of P(y|x)."""
    decode = policy.tokenizer.decode
    for label in (None, LABEL):
        for group in policy.tokenise(GROUPS, label):
            ends = [
                decode(s[start:]) for s, start in zip(group.sequences, group.starts, strict=True)
            ]
            assert all(
                end.endswith(r.text + "<|im_end|>")
                for end, r in zip(ends, group.group.responses, strict=True)
            )
    assert decode(policy.ending()) == "<|im_end|>"
    reference = load_policy(
        "tiny", template="reference"
    )  # plain text: the whole marker ends the turn
    assert decode(reference.ending()) == "\n<extra_id_1>"
    for label in (None, LABEL):
        shown = decode(next(reference.tokenise(GROUPS[:1], label)).sequences[0])
        assert shown.startswith("<extra_id_0>System\n\n<extra_id_1>User") and shown.endswith(
            "Seven.\n<extra_id_1>"
        )


def test_labels_are_part_of_the_prompt(policy):
    (first,) = policy.tokenise(GROUPS[:1], LABEL)
    assert policy.tokenizer.decode(first.sequences[0][: first.starts[0]]).endswith(
        f"<extra_id_2>{LABEL}\n"
    )
    tokens = list(policy.tokenise(GROUPS, LABEL))
    assert torch.equal(policy.log_probs(tokens)[0], policy.log_probs(GROUPS, label=LABEL)[0])
    with pytest.raises(ValueError, match="pass label to `tokenise`"):
        policy.log_probs(tokens, label=LABEL)
    with pytest.raises(ValueError, match="no groups"):
        policy.log_probs([])


# The cache


def many():
    return [
        Group(f"g{i}", TALK[:1], (Response("0", "yes " * (i + 1)), Response("1", f"no {i}")))
        for i in range(40)
    ]


def test_a_killed_pass_goes_on_and_ends_bit_for_bit_the_same(policy, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "CHUNK", 5)
    straight, tokens = policy.log_probs(many(), budget=128, cache=tmp_path / "straight")
    real, calls = Policy._computed, []

    def killed(self, part, *rest):
        calls.append(len(part))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, part, *rest)

    monkeypatch.setattr(Policy, "_computed", killed)
    with pytest.raises(KeyboardInterrupt):
        policy.log_probs(many(), budget=128, cache=tmp_path / "killed")
    (file,) = (tmp_path / "killed").glob("*.jsonl")
    done = len(file.read_text().splitlines())
    with file.open("a") as torn:  # the kill came in the middle of a write
        torn.write('["0123", -1')
    resumed, again = policy.log_probs(many(), budget=128, cache=tmp_path / "killed")
    assert 0 < done < 80 and torch.equal(straight, resumed) and torch.equal(tokens, again)
    computed = len(calls)
    backwards, _ = policy.log_probs(
        many()[::-1], budget=64, cache=tmp_path / "killed"
    )  # by content: nothing is new
    assert len(calls) == computed and torch.equal(
        backwards.view(40, 2), straight.view(40, 2).flip(0)
    )


def test_other_weights_or_another_precision_share_nothing(policy, tmp_path):
    first, _ = policy.log_probs(GROUPS, cache=tmp_path)
    policy.log_probs(GROUPS, cache=tmp_path, autocast="bfloat16")
    with torch.no_grad():
        policy.backbone.model.norm.weight[0] += 1e-3
    changed, _ = policy.log_probs(GROUPS, cache=tmp_path)
    assert len(list(tmp_path.glob("*.jsonl"))) == 3 and not torch.equal(first, changed)


# On disk


@pytest.mark.parametrize("adapters", [False, True], ids=["whole", "adapters only"])
def test_saved_and_loaded_it_is_the_same(policy, tmp_path, adapters):
    if adapters:
        policy.lora(rank=2)
    with torch.no_grad():
        for weight in (p for p in policy.parameters() if p.requires_grad):
            weight += 0.01
    before, _ = policy.log_probs(GROUPS)
    loaded = load_policy(policy.save(tmp_path / "policy"))
    assert (tmp_path / "policy" / "model.safetensors").exists() is not adapters
    assert (
        torch.equal(loaded.log_probs(GROUPS)[0], before)
        and loaded.fingerprint() == policy.fingerprint()
    )
    torch.testing.assert_close(loaded.merge().log_probs(GROUPS)[0], before, rtol=1e-5, atol=1e-5)
    whole = load_policy(loaded.save(tmp_path / "whole"))
    assert whole.base == "tiny" and whole.adapter is None
    torch.testing.assert_close(whole.log_probs(GROUPS)[0], before, rtol=1e-5, atol=1e-5)


def test_second_adapters_sit_on_the_weights_that_were_saved_not_on_the_first_base(policy, tmp_path):
    """A policy goes on from another's folder (07, then 08): its adapters must find those weights, not the model's."""
    with torch.no_grad():
        policy.backbone.model.norm.weight += 0.5
    second = load_policy(policy.save(tmp_path / "first")).lora(rank=2)
    expected, _ = second.log_probs(GROUPS)
    assert torch.equal(load_policy(second.save(tmp_path / "second")).log_probs(GROUPS)[0], expected)
    with pytest.raises(ValueError, match="on no disk: merge these too"):
        second.merge().lora(rank=2).save(tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_a_reward_model_is_no_policy_nor_the_other_way_round(policy, tmp_path):
    with pytest.raises(ValueError, match="holds a reward model, no policy"):
        load_policy(RewardModel.new("tiny").save(tmp_path / "reward"))
    with pytest.raises(ValueError, match="holds a policy, no reward model"):
        RewardModel.load(policy.save(tmp_path / "policy"))
    with pytest.raises(ValueError, match=r"holds no policy of hs2lib \(hs2.json"):
        Policy.load(tmp_path)
    state = json.loads((tmp_path / "policy" / base.STATE).read_text())
    assert state["template"] == "chat" and state["attributes"] == []


def test_a_frozen_model_computes_the_same_bits_in_half_the_memory(policy, tmp_path):
    """What autocast rounds at each call is kept rounded, and asked for float32 it has nothing but that."""
    judge, whole = RewardModel.new("tiny"), (policy, RewardModel.new("tiny"))
    frozen = load_policy("tiny").frozen("bfloat16"), judge.frozen("bfloat16")
    layer = frozen[0].backbone.model.layers[0]
    assert (
        layer.mlp.up_proj.weight.nbytes * 2
        == policy.backbone.model.layers[0].mlp.up_proj.weight.nbytes
    )
    exact = [layer.input_layernorm.weight, frozen[0].backbone.lm_head.weight, judge.head.weight]
    assert {weight.dtype for weight in exact} == {torch.float32}, (
        "the projection of tied embeddings is the embedding"
    )
    assert [model.fingerprint() for model in frozen] == [model.fingerprint() for model in whole]
    for autocast in ("float32", "bfloat16"):
        ours = frozen[0].log_probs(GROUPS, autocast=autocast)[0]
        assert torch.equal(ours, policy.log_probs(GROUPS, autocast="bfloat16")[0])
        assert torch.equal(
            judge.score(GROUPS, autocast=autocast), whole[1].score(GROUPS, autocast="bfloat16")
        )
    how = dict(n=2, max_new_tokens=8, autocast="bfloat16", progress=False)
    ours, theirs = (
        [r for group in rollouts(one, GROUPS, **how) for r in group.responses]
        for one in (frozen[0], policy)
    )
    assert ours == theirs
    with pytest.raises(ValueError, match="were rounded when the model was frozen"):
        judge.save(tmp_path / "model")
    assert load_policy("tiny").frozen("float32").backbone.dtype == torch.float32
