"""Log-probabilities of chosen tokens: the written-out gradient against autograd, held logits or not."""

import copy

import pytest
import torch

from hs2lib.engine import attention as module
from hs2lib.engine.attention import chosen_log_probs

ROWS, WIDTH, VOCABULARY = 7, 5, 11


def example(bias: bool = False, dtype: torch.dtype = torch.float64):
    """A head, hidden states, and three tokens of row 0, two of row 5, none of rows 2 and 6."""
    torch.manual_seed(0)
    head = torch.nn.Linear(WIDTH, VOCABULARY, bias=bias, dtype=dtype)
    hidden = torch.randn(ROWS, WIDTH, dtype=dtype, requires_grad=True)
    row = torch.tensor([0, 0, 0, 1, 3, 4, 5, 5])
    token = torch.tensor([3, 0, 10, 3, 2, 1, 9, 8])
    return head, hidden, row, token


def plain(head, hidden, row, token):
    return head(hidden).log_softmax(-1)[row, token]


def outcome(function, head, hidden, row, token):
    """Values and the gradients of states, weight and bias under unequal upstream gradients."""
    head, hidden = copy.deepcopy(head), hidden.detach().clone().requires_grad_()
    got = function(head, hidden, row, token)
    (got * torch.linspace(-1, 2, len(got), dtype=got.dtype)).sum().backward()
    return [got.detach(), hidden.grad, *[p.grad for p in head.parameters()]]


@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
@pytest.mark.parametrize("kept", [0, 10**9])
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_are_those_of_log_softmax(monkeypatch, chunk, kept, bias):
    monkeypatch.setattr(module, "CHUNK", chunk)
    monkeypatch.setattr(module, "HELD_BYTES", kept)
    arguments = example(bias)
    expected = outcome(plain, *arguments)
    for ours, theirs in zip(outcome(chosen_log_probs, *arguments), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_a_head_with_code_of_its_own_is_called(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 3)
    head, hidden, row, token = example()
    seen = []
    head.register_forward_hook(
        lambda module, inputs, output: seen.append(len(inputs[0])) or 2 * output
    )
    got = outcome(chosen_log_probs, head, hidden, row, token)
    assert max(seen) == 3
    expected = outcome(
        lambda h, x, r, t: (2 * torch.nn.functional.linear(x, h.weight)).log_softmax(-1)[r, t],
        head,
        hidden,
        row,
        token,
    )
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(
            ours, theirs, rtol=1e-6, atol=1e-6, check_dtype=False
        )  # logits there are float32


def test_a_frozen_head_or_frozen_states_get_no_gradient():
    head, hidden, row, token = example()
    head.weight.requires_grad_(False)
    chosen_log_probs(head, hidden, row, token).sum().backward()
    assert head.weight.grad is None and hidden.grad is not None
    head.weight.requires_grad_(True)
    chosen_log_probs(head, hidden.detach(), row, token).sum().backward()
    assert head.weight.grad is not None
    with torch.no_grad():
        assert not chosen_log_probs(head, hidden, row, token).requires_grad


@pytest.mark.parametrize("kept", [0, 10**9])
def test_autocast_rounds_as_autograd_does(monkeypatch, kept):
    monkeypatch.setattr(module, "HELD_BYTES", kept)
    arguments = example(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        expected = outcome(lambda *a: plain(*a).float(), *arguments)
        got = outcome(chosen_log_probs, *arguments)
    assert got[0].dtype == torch.float32 and got[1].dtype == torch.float32
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=0.02, atol=0.02)


def test_extreme_logits_stay_finite():
    head, hidden, row, token = example()
    with torch.no_grad():
        head.weight.mul_(1e5)
    for x in outcome(chosen_log_probs, head, hidden, row, token):
        assert torch.isfinite(x).all()
