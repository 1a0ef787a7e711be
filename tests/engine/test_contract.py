"""No model is scored, trained or sampled otherwise than by transformers, whatever its architecture.

Tiny models with weights large enough to matter, and windows shorter than the sequences, are
compared with plain transformers on each sequence alone.
"""

import copy
import itertools
import warnings

import architectures
import numpy as np
import pytest
import torch
from architectures import plain_log_probs, plain_states, share
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from hs2lib.engine import attention, contract
from hs2lib.engine.decoding import decode, uniforms
from hs2lib.engine.trees import pack

# Attention with caps, sinks, two key widths, biases; no attention at all.
PADDED = ["gemma2", "gpt_oss", "deepseek_v3", "bloom", "mamba"]


def tiny(name: str, kind=AutoModelForCausalLM, **overrides):
    return architectures.tiny(architectures.tiny_config(name, **overrides), kind)


def draw(n: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(5, 97, n).tolist()


def numbers(model, groups) -> tuple[torch.Tensor, torch.Tensor]:
    """End states [R, H] and every log-probability, by the engine."""
    batch = pack(groups, [[0] * len(group) for group in groups])
    hidden = attention.states(model, batch)
    return attention.end_states(model, batch, hidden), attention.log_probs(model, batch, hidden)


def one_by_one(model, groups) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by plain transformers, each sequence alone."""
    sequences = list(itertools.chain.from_iterable(groups))
    ends = [plain_states(model.base_model, sequence)[-1] for sequence in sequences]
    return torch.stack(ends), torch.cat([plain_log_probs(model, s) for s in sequences])


def gradients(model, ends, logp) -> dict[str, torch.Tensor]:
    """Every parameter's gradient of a linear function of both."""
    weights = [torch.linspace(-1, 2, x.numel()).view(x.shape) for x in (ends, logp)]
    model.zero_grad()
    ((ends * weights[0]).sum() + (logp * weights[1]).sum()).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(name: str, **overrides) -> None:
    """Values and gradients of some groups are those of their sequences one by one."""
    model = tiny(name, **overrides)
    plain = copy.deepcopy(model)
    groups = architectures.groups()
    expected = one_by_one(plain, groups)
    got = numbers(model, groups)
    for ours, theirs in zip(got, expected, strict=True):
        assert share(ours, theirs) < 1e-5
    theirs = gradients(plain, *expected)
    ours = gradients(model, *got)
    assert ours.keys() == theirs.keys()
    for weight, gradient in theirs.items():
        assert (ours[weight] - gradient).norm() <= 1e-4 * gradient.norm(), weight


@pytest.mark.parametrize("name", sorted(contract.GROUPED))
def test_groups_give_the_values_and_gradients_of_sequences_one_by_one(name):
    """Without a warning: none of these runs on padded rows."""
    overrides = {"rope_parameters": None} if name == "phi3" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(name, **overrides)


@pytest.mark.parametrize("name", PADDED)
def test_other_architectures_run_on_padded_rows_with_the_same_values_and_gradients(name):
    with pytest.warns(UserWarning, match="does not run in groups here: its sequences are padded"):
        assert_same(name)


@pytest.mark.parametrize("name", sorted(contract.GROUPED) + PADDED[:-1])
def test_sampled_tokens_have_the_log_probabilities_of_transformers(name):
    """Prompts shorter and longer than any window, which the samples of both leave behind."""
    model = tiny(name, **({"rope_parameters": None} if name == "phi3" else {}))
    plain = copy.deepcopy(model)
    prompts = [draw(5), draw(30)]
    for row in sampled(model, prompts, 16):
        logp = plain_log_probs(plain, prompts[row.prompt] + row.tokens)[-16:].detach()
        np.testing.assert_allclose(row.log_probs, logp, rtol=1e-4, atol=1e-4)


def sampled(model, prompts, length):
    """Two answers of so many tokens to each prompt."""
    asked = [
        (ids, [(i, uniforms(0, str(p), i, length)) for i in range(2)])
        for p, ids in enumerate(prompts)
    ]
    options = {"ends": lambda tokens: False, "temperature": 1.0, "top_p": 1.0}
    rows = list(decode(model, asked, max_new_tokens=length, **options))
    assert len(rows) == 2 * len(prompts)
    return rows


def test_plain_transformers_samples_the_same_tokens(monkeypatch):
    """So a model on a GPU, or one that does not run in groups, has the same samples."""
    model = tiny("llama")
    prompts = [draw(5), draw(30), draw(7, 1)]

    def samples():
        return {(row.prompt, row.index): row.tokens for row in sampled(model, prompts, 16)}

    ours = samples()
    monkeypatch.setattr(contract, "GROUPED", set())
    assert samples() == ours


def test_a_sequence_that_would_change_its_neighbours_is_refused():
    """Longrope turns every position of a pass by other factors once one sequence is long."""
    model = tiny("phi3")
    assert contract.longest(model.config) == 32
    plain = copy.deepcopy(model)
    prompt = draw(10)
    groups = [[prompt + draw(12, 1), prompt + draw(5, 2)], [draw(32, 3)]]
    with torch.no_grad():
        expected = one_by_one(plain, groups)
        for ours, theirs in zip(numbers(model, groups), expected, strict=True):
            assert share(ours, theirs) < 1e-5
    with pytest.raises(ValueError, match=r"50 tokens exceeds the positions of Phi3Model \(32\)"):
        attention.states(model, pack([[prompt + draw(40, 3)]]))
    with pytest.raises(ValueError, match="33 tokens exceeds the positions"):
        sampled(model, [prompt], 23)


def test_a_head_of_more_than_a_projection_is_no_policy():
    """Its states serve a reward model all the same."""
    groups = architectures.groups()
    model = tiny("modernbert-decoder")
    for _ in range(2):
        with pytest.raises(ValueError, match="its logits are more than a projection"):
            attention.log_probs(model, pack(groups, [[0] * len(group) for group in groups]))
    decoder = tiny("modernbert-decoder", AutoModel)
    plain = copy.deepcopy(decoder)
    with torch.no_grad(), pytest.warns(UserWarning, match="padded rows"):
        ends = attention.end_states(decoder, pack(groups))
        theirs = [plain_states(plain, s)[-1] for s in itertools.chain.from_iterable(groups)]
    assert share(ends, torch.stack(theirs)) < 1e-5


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama", {"is_causal": False}),
        ("gemma3_text", {"use_bidirectional_attention": True}),
    ],
)
def test_attention_to_what_follows_is_refused(name, change):
    for kind in (AutoModelForCausalLM, AutoModel):
        model = tiny(name, kind, **change)
        for _ in range(2):  # the first error must not pass for a verdict
            with pytest.raises(ValueError, match="no causal decoder: tokens see those that follow"):
                attention.end_states(model, pack([[draw(9)]]))


def test_attention_that_selects_among_all_tokens_is_refused():
    """What pads a row, or follows in another, would be among those."""
    with pytest.raises(ValueError, match="DogeModel is not supported: its attention selects"):
        attention.end_states(tiny("doge", AutoModel), pack([[draw(9)]]))


def test_a_cache_that_gives_other_numbers_is_not_sampled_from(monkeypatch):
    model = tiny("gemma2")
    forward = type(model).forward

    def off(self, *args, use_cache=None, **options):
        out = forward(self, *args, use_cache=use_cache, **options)
        if use_cache:
            out.logits = 1.01 * out.logits
        return out

    monkeypatch.setattr(type(model), "forward", off)
    with pytest.raises(ValueError, match="transformers' cache gives its tokens other"):
        sampled(model, [draw(5)], 3)


@pytest.mark.parametrize("sure", [1, 20, 200])
def test_a_sure_model_in_bfloat16_is_sampled(sure):
    """A token whose probability is nearly 1: rounding is a large share of its log-probability."""
    torch.manual_seed(0)
    config = AutoConfig.for_model("llama", vocab_size=97, hidden_size=64, num_hidden_layers=2)
    config.intermediate_size = 64
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        model.lm_head.weight *= sure
    sampled(model.bfloat16(), [draw(5)], 3)


def test_no_architecture_is_scored_wrongly(tmp_path, monkeypatch):
    """As `tests/architectures.py` scores all of them; an encoder is refused."""
    outcomes = {
        name: architectures.examine(name) for name in ("gemma3_text", "deepseek_v3", "bert")
    }
    assert [outcome["policy"] for outcome in outcomes.values()] == ["equal", "padded", "refused"]
    assert "WRONG" not in str(outcomes)
