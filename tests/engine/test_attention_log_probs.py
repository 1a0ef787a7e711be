"""Log-probabilities of chosen tokens are those of log_softmax, logits held or computed twice."""

import copy

import architectures
import pytest
import torch
import transformers as hf

from hs2lib.engine import attention
from hs2lib.engine.attention import chosen_log_probs
from hs2lib.engine.trees import pack

WIDTH = 5
VOCABULARY = 11


def example(bias: bool = False, dtype: torch.dtype = torch.float64):
    """A head, hidden states, and a token of each."""
    torch.manual_seed(0)
    head = torch.nn.Linear(WIDTH, VOCABULARY, bias=bias, dtype=dtype)
    hidden = torch.randn(8, WIDTH, dtype=dtype, requires_grad=True)
    token = torch.tensor([3, 0, 10, 3, 2, 1, 9, 8])
    return head, hidden, token


def plain(head, hidden, token):
    return head(hidden).log_softmax(-1)[torch.arange(len(token)), token]


def outcome(function, head, hidden, token, **options):
    """Values and the gradients of states, weight and bias under unequal upstream gradients."""
    head, hidden = copy.deepcopy(head), hidden.detach().clone().requires_grad_()
    got = function(head, hidden, token, **options)
    (got * torch.linspace(-1, 2, len(got), dtype=got.dtype)).sum().backward()
    return [got.detach(), hidden.grad, *[p.grad for p in head.parameters()]]


@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_are_those_of_log_softmax(monkeypatch, chunk, recompute, bias):
    monkeypatch.setattr(attention, "CHUNK", chunk)
    arguments = example(bias)
    expected = outcome(plain, *arguments)
    got = outcome(chosen_log_probs, *arguments, recompute=recompute)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_a_frozen_head_or_frozen_states_get_no_gradient():
    head, hidden, token = example()
    head.weight.requires_grad_(False)
    chosen_log_probs(head, hidden, token).sum().backward()
    assert head.weight.grad is None and hidden.grad is not None
    head.weight.requires_grad_(True)
    chosen_log_probs(head, hidden.detach(), token).sum().backward()
    assert head.weight.grad is not None
    with torch.no_grad():
        assert not chosen_log_probs(head, hidden, token).requires_grad


@pytest.mark.parametrize("recompute", [False, True])
def test_autocast_rounds_as_autograd_does(recompute):
    arguments = example(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        expected = outcome(lambda *a: plain(*a).float(), *arguments)
        got = outcome(chosen_log_probs, *arguments, recompute=recompute)
    assert got[0].dtype == torch.float32 and got[1].dtype == torch.float32
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=0.02, atol=0.02)


def test_extreme_logits_stay_finite():
    head, hidden, token = example()
    with torch.no_grad():
        head.weight.mul_(1e5)
    for x in outcome(chosen_log_probs, head, hidden, token):
        assert torch.isfinite(x).all()


@pytest.mark.parametrize(("held", "passes"), [(10**9, 1), (0, 2)])
def test_logits_that_would_take_too_much_memory_are_computed_again(monkeypatch, held, passes):
    monkeypatch.setattr(attention, "HELD_BYTES", held)
    model = architectures.tiny(architectures.tiny_config("llama"), hf.AutoModelForCausalLM)
    projected = []
    model.lm_head.register_forward_hook(lambda *call: projected.append(1))
    batch = pack([[[5, 6, 7, 8]]], [[1]])
    attention.log_probs(model, batch).sum().backward()
    assert len(projected) == passes
    with torch.no_grad():
        attention.log_probs(model, batch)
    assert len(projected) == passes + 1
