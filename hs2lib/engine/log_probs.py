"""Log-probabilities of chosen tokens from hidden states, some rows of logits at a time. Paper: silent.

    logp = log_probs(head, hidden, row, token)    # [P]: log of softmax(head(hidden[row[i]])) at token[i]

For a plain linear head the gradient is written out, d logp[i] = onehot(token[i]) - softmax, so that no copy of the
logits is made beside the buffer they are computed in. Any other head (adapters, quantised) goes through autograd.
"""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

CHUNK = 256  # rows of logits at a time

# Logits of up to this many bytes a call wait for the backward pass; more are computed a second time instead.
KEPT = 2**30


def log_probs(head: torch.nn.Module, hidden: torch.Tensor, row: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    """Log-probability [P], float32 or more, of token [P] under the logits of hidden [R, H] at row [P].

    head: the vocabulary projection, H to V. `row` ascends; every row is projected once, CHUNK rows at a time.
    Logits of more than KEPT bytes are not held for the backward pass but computed again.
    """
    plain = type(head) is torch.nn.Linear and not (head._forward_hooks or head._forward_pre_hooks)
    on = hidden.device.type
    dtype = torch.get_autocast_dtype(on) if torch.is_autocast_enabled(on) else hidden.dtype
    needed = torch.is_grad_enabled()
    if plain:
        held = needed and len(hidden) * head.out_features * dtype.itemsize <= KEPT
        return _Chosen.apply(hidden, head.weight, head.bias, row, token, dtype, held)

    def part(these: torch.Tensor, at: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        logits = head(these).float()  # [rows, V]
        return logits[at, chosen] - logits.logsumexp(-1)[at]

    out = []
    for a, b, c, d in _parts(len(hidden), row):
        arguments = hidden[a:b], row[c:d] - a, token[c:d]
        out.append(checkpoint(part, *arguments, use_reentrant=False) if needed else part(*arguments))
    return torch.cat(out)


def _parts(rows: int, row: torch.Tensor) -> Iterator[tuple[int, int, int, int]]:
    """Chunks of rows and where their tokens lie: (first row, last + 1, first token, last + 1)."""
    bounds = [*range(0, rows, CHUNK), rows]
    cuts = torch.searchsorted(row, torch.tensor(bounds, device=row.device)).tolist()
    for (a, b), (c, d) in zip(pairwise(bounds), pairwise(cuts), strict=True):
        yield a, b, c, d


class _Chosen(torch.autograd.Function):
    """log_probs of a linear head: logits in `dtype`, sums over the vocabulary in float32 or more."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, row, token, dtype: torch.dtype, held: bool):
        wide = torch.promote_types(dtype, torch.float32)
        h, w = hidden.to(dtype), weight.to(dtype)
        out, total = hidden.new_empty(len(row), dtype=wide), hidden.new_empty(len(hidden), 1, dtype=wide)
        scratch = hidden.new_empty(min(CHUNK, len(hidden)), len(weight), dtype=wide)
        # One buffer for all chunks unless their logits are held: fresh memory costs a CPU as much as a pass over it.
        room = hidden.new_empty(len(hidden) if held else len(scratch), len(weight), dtype=dtype)
        for a, b, c, d in _parts(len(hidden), row):
            logits = _project(h[a:b], w, bias, room[a:b] if held else room[: b - a])
            top = logits.amax(-1, keepdim=True)
            torch.sub(logits, top, out=scratch[: b - a]).exp_()
            total[a:b] = scratch[: b - a].sum(-1, keepdim=True).log_() + top
            out[c:d] = logits[row[c:d] - a, token[c:d]] - total[row[c:d], 0]
        ctx.save_for_backward(hidden, weight, bias, row, token, total, room if held else None)
        ctx.dtype = dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        hidden, weight, bias, row, token, total, held = ctx.saved_tensors
        h, w = hidden.to(ctx.dtype), weight.to(ctx.dtype)
        scratch = total.new_empty(min(CHUNK, len(hidden)), len(weight))
        room = h.new_empty(scratch.shape) if held is None else None
        by_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        by_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        by_bias = torch.zeros_like(bias) if ctx.needs_input_grad[2] else None
        share = total.new_zeros(len(hidden)).index_add_(0, row, grad.to(total.dtype))[:, None]  # [R, 1]
        for a, b, c, d in _parts(len(hidden), row):
            logits = held[a:b] if room is None else _project(h[a:b], w, bias, room[: b - a])
            slope = torch.sub(logits, total[a:b], out=scratch[: b - a]).exp_().mul_(-share[a:b])
            slope.index_put_((row[c:d] - a, token[c:d]), grad[c:d].to(slope.dtype), accumulate=True)
            slope = slope.to(ctx.dtype)  # [rows, V]: of the logits
            if by_hidden is not None:
                by_hidden[a:b] = slope @ w
            if by_weight is not None and weight.dtype == ctx.dtype:
                by_weight.addmm_(slope.T, h[a:b])
            elif by_weight is not None:
                by_weight += slope.T @ h[a:b]
            if by_bias is not None:
                by_bias += slope.sum(0)
        return by_hidden, by_weight, by_bias, *[None] * 4


def _project(h: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> torch.Tensor:
    torch.mm(h, w.T, out=out)
    return out if bias is None else out.add_(bias)
