"""The architecture contract: no model is scored otherwise than transformers scores it, whatever its
architecture.

Every case is one that was once wrong without a word: numbers of a tiny model with weights large
enough to matter, beside transformers' own forward pass on each sequence alone.
"""

import copy
import itertools

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from hs2lib.engine import attention, contract, decoding
from hs2lib.engine.decoding import decode, uniforms
from hs2lib.engine.trees import pack

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
SIZES |= {"num_key_value_heads": 2, "initializer_range": 0.2, "pad_token_id": 0}
LONGROPE = {"max_position_embeddings": 64, "original_max_position_embeddings": 32}
LONGROPE["rope_parameters"] = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "original_max_position_embeddings": 32,
}
LONGROPE["rope_parameters"] |= {"short_factor": [1.0] * 4, "long_factor": [4.0, 5.0, 6.0, 7.0]}


@pytest.fixture(autouse=True)
def _own_verdicts(tmp_path, monkeypatch):
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))


def tiny(name: str, kind=AutoModelForCausalLM, **overrides):
    torch.manual_seed(0)
    return kind.from_config(AutoConfig.for_model(name, **SIZES | overrides)).eval()


def draw(n: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(5, 97, n).tolist()


def scores(model, groups, **options):
    """Summed log-probabilities [R] as every part of the library computes them."""
    predict = [[0] * len(group) for group in groups]
    total = lambda batch: attention.per_sequence(attention.log_probs(model, batch), batch)  # noqa: E731
    return attention.in_order(total, groups, predict=predict, **options)


def alone(model, groups):
    with torch.no_grad():
        each = [
            contract.plain_log_probs(model, s).sum() for s in itertools.chain.from_iterable(groups)
        ]
    return torch.stack(each)


def test_a_score_does_not_depend_on_a_long_neighbour():
    """Longrope turns every position of a batch by other factors as soon as one sequence passes the original length."""
    model, prompt = tiny("phi3", **LONGROPE), draw(10)
    groups = [[prompt + draw(12, 1), prompt + draw(5, 2)], [prompt + draw(40, 3), draw(33, 4)]]
    expected = alone(tiny("phi3", **LONGROPE), groups)
    assert torch.allclose(scores(model, groups), expected, rtol=1e-5)
    assert torch.allclose(scores(model, groups[:1]), expected[:2], rtol=1e-5)
    assert "beyond 32 tokens" in attention.alone(model)["Phi3ForCausalLM"]
    decoder = tiny("phi3", AutoModel, **LONGROPE)
    ends = attention.in_order(lambda batch: attention.end_states(decoder, batch), groups)
    with torch.no_grad():
        theirs = torch.stack(
            [contract.plain_states(decoder, s)[-1] for group in groups for s in group]
        )
    assert torch.allclose(ends, theirs, atol=1e-5)
    with pytest.raises(ValueError, match="can only score a sequence of 50 tokens: beyond 32"):
        attention.states(model, pack(groups[1:]))
    with pytest.raises(ValueError, match="can only score a sequence of 33 tokens"):
        sampled(model, [prompt], 23)


def test_a_head_of_more_than_a_projection_is_scored_one_by_one_and_not_trained(capsys):
    model, groups = tiny("modernbert-decoder"), [[draw(9), draw(14, 1)], [draw(3, 2)]]
    expected = alone(model, groups)
    for _ in range(2):
        assert torch.allclose(scores(model, groups), expected, rtol=1e-5)
    printed = capsys.readouterr().err
    assert printed.count("ModernBertDecoderForCausalLM is scored one sequence at a time") == 1
    assert attention.alone(model)["ModernBertDecoderForCausalLM"] in printed
    for call in (
        lambda: attention.log_probs(model, pack(groups, [[0, 0], [0]])),
        lambda: sampled(model, [draw(9)], 3),
    ):
        with pytest.raises(
            ValueError, match=r"neither trained nor sampled from: .* log-probabilities differ by \d"
        ):
            call()


@pytest.mark.parametrize("name", ["xlstm", "mamba", "bloom"])
def test_layers_that_are_no_attention_of_ours_are_scored_one_by_one(name):
    model = tiny(name, **{"state_size": 8, "num_heads": 4})
    prompt = draw(12)
    groups = [[prompt + draw(9, 1), prompt, prompt + draw(3, 2)], [draw(30, 3)]]
    assert torch.allclose(scores(model, groups), alone(model, groups), rtol=1e-5)
    assert attention.alone(model)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama", {"is_causal": False}),
        ("gemma3_text", {"use_bidirectional_attention": True, "head_dim": 8}),
    ],
)
def test_attention_to_what_follows_is_refused(name, change):
    for kind in (AutoModelForCausalLM, AutoModel):
        model, batch = tiny(name, kind, **change), pack([[draw(9)]])
        for _ in range(2):  # the first error must not pass for a verdict
            with pytest.raises(
                ValueError,
                match=r"no causal decoder, .* numbers of tokens that others follow differ by \d",
            ):
                attention.end_states(model, batch)


def sampled(model, prompts, length):
    """Two answers of so many tokens to each prompt, each token with its log-probability."""
    asked = [
        (ids, [(i, uniforms(0, str(p), i, length)) for i in range(2)])
        for p, ids in enumerate(prompts)
    ]
    options = {
        "max_new_tokens": length,
        "ends": lambda tokens: False,
        "temperature": 1.0,
        "top_p": 1.0,
    }
    return list(decode(model, asked, **options))


SPECIAL = {
    "mistral": {},
    "gemma3_text": {},
    "gemma2": {"attn_logit_softcapping": 0.5, "final_logit_softcapping": 1.5},
}
SPECIAL["gpt_oss"] = {"num_local_experts": 4}


@pytest.mark.parametrize("name", SPECIAL)
def test_sampling_keeps_to_window_cap_and_sinks(name):
    """Prompts shorter and longer than the window, which the samples of both leave behind."""
    model = tiny(name, **{"sliding_window": 12, "head_dim": 8} | SPECIAL[name])
    plain, prompts = copy.deepcopy(model), [draw(5), draw(30)]
    for row in sampled(model, prompts, 16):
        with torch.no_grad():
            logp = contract.plain_log_probs(plain, prompts[row.prompt] + row.tokens)[-16:]
        np.testing.assert_allclose(row.log_probs, logp, rtol=1e-4, atol=1e-4)


def test_layers_that_attend_twice_a_step_are_not_sampled():
    """Groups are scored right, but one key and value a layer, which sampling keeps, are too few."""
    model = tiny("diffllama", head_dim=8)
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"cannot be sampled from: .* of sampled tokens differ by \d"
        ):
            sampled(model, [draw(5)], 3)
    assert attention.why_one_by_one(model) == ""


@pytest.mark.parametrize("sure", [1, 20, 200])
def test_a_sure_model_in_bfloat16_is_sampled(sure):
    """Where the drawn token's probability is nearly 1, rounding is a large share of its log-probability."""
    model = tiny("llama", hidden_size=64)
    with torch.no_grad():
        model.lm_head.weight *= sure
    assert len(sampled(model.bfloat16(), [draw(5)], 3)) == 2


def test_the_verdict_is_kept_and_belongs_to_the_configuration(monkeypatch):
    ran = []
    monkeypatch.setattr(
        contract, "plain", lambda *call, real=contract.plain: ran.append(call) or real(*call)
    )
    assert attention.why_one_by_one(tiny("llama")) == "" and len(ran) == 5
    assert attention.why_one_by_one(tiny("llama")) == "" and len(ran) == 5
    assert attention.why_one_by_one(tiny("llama", num_hidden_layers=1)) == "" and len(ran) == 10
    assert attention.why_one_by_one(tiny("llama").double()) == "" and len(ran) == 15
    eager = tiny("llama")
    eager.set_attn_implementation("eager")
    assert attention.why_one_by_one(eager) == "" and len(ran) == 20


def test_a_small_error_of_the_engine_shows(monkeypatch):
    """The check would be worth nothing if it could not see scores of the attention that are one in a hundred off."""
    exact = attention._Tree.__call__

    def off(tree, *args):
        return exact(tree, *args[:4], args[4]._replace(scale=args[4].scale * 1.01))

    monkeypatch.setattr(attention._Tree, "__call__", off)
    assert "log-probabilities differ by" in attention.why_one_by_one(tiny("llama"))


def no_gpu_memory():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.parametrize(
    "exhaust", [no_gpu_memory, lambda: torch.empty(1 << 60)], ids=["GPU", "CPU"]
)
def test_memory_that_ran_out_says_nothing_against_a_model(monkeypatch, exhaust):
    """It stood as the verdict from then on: a model that could be sampled from and run in groups was not."""
    model = tiny("llama")
    with pytest.raises(RuntimeError):
        contract.verdict(
            model, "groups", lambda: contract.difference(model, lambda *batch: exhaust())
        )
    with monkeypatch.context() as small, pytest.raises(RuntimeError):
        small.setattr(decoding, "_step", lambda *a: exhaust())
        sampled(model, [draw(5)], 3)
    assert sampled(model, [draw(5)], 3)
