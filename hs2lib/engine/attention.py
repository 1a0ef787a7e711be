"""The engine: any causal decoder on groups of sequences, every shared prefix computed once.

A batch is a forest of prefix trees packed into T tokens without padding (`hs2lib.engine.trees`);
attention sees each token's own path, so outputs and gradients equal those of the sequences one by
one. Paper: silent (an exact saving).

    batch = pack([[ids, ids], [ids]], predict=[[31, 31], [12]])      # a training step; rows R in this order
    for batch in plan(token_groups, budget=2048, predict=...):       # many groups; batch.index [R]: whose row it is
        hidden = states(model, batch)                     # [T, H] final hidden states, after the last norm
        ends = end_states(model, batch, hidden)           # [R, H] at each sequence's last token (reward head)
        logp = log_probs(model, batch, hidden)            # [P] of each token to predict; batch.owner [P]: its row
        total = per_sequence(logp, batch)                 # [R] summed
        value = head(predicting_states(batch, hidden))    # [P] from the state that predicts each token (PPO)
    rows = in_order(lambda batch: head(end_states(model, batch)), token_groups, budget)    # [all sequences, ...]

`hidden` may be left out: each function then runs the model itself. The model may be a causal,
headless or classification model, also with LoRA adapters, gradient checkpointing or autocast;
`prepare` readies it (`states` does so itself), and it still generates and runs padded batches as
before. Under DDP or FSDP call these functions inside the wrapped module's forward. Where groups
would not give transformers' own numbers (`hs2lib.engine.contract`), `end_states` and `log_probs`
run each sequence alone, and training is refused. `predict` takes an int (the prompt's length) or a
list of (start, stop).
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import islice, pairwise
from typing import NamedTuple

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from hs2lib.engine import contract
from hs2lib.engine.trees import BUDGET, Batch, block_mask, plan

NAME = "hs2_groups"

flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default

_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default

CHUNK = 256  # rows of logits at a time

# Logits of up to this many bytes a call wait for the backward pass; more are computed a second time
# instead.
KEPT = 2**30


def prepare(model: PreTrainedModel) -> PreTrainedModel:
    """Set the group attention on a model (or one with LoRA adapters) and return its decoder without
    a head.

    Raises ValueError for a model that does not keep the contract (`hs2lib.engine.contract`): it can
    only be scored.
    """
    model = _bare(model)
    if why := apart(model):
        what = "can be scored, one by one, but neither trained nor sampled from"
        raise ValueError(f"{type(model).__name__} {what}: {why}")
    if model.config._attn_implementation != NAME:
        model.hs2_own = model.config._attn_implementation
        model.set_attn_implementation(NAME)
    return model.base_model


def unprepare(model: PreTrainedModel) -> None:
    """Give a model the attention back that it had before `prepare`."""
    if model.config._attn_implementation == NAME:
        model.set_attn_implementation(model.hs2_own)


def apart(model: PreTrainedModel) -> str:
    """Why a model is scored one by one, "" where groups give the same; looked at once for each
    dtype and device.

    Raises TypeError for what is no transformers model, ValueError for one that is no causal
    decoder.
    """
    model = _bare(model)

    def compare() -> str:
        unprepare(model)
        return contract.difference(model, _each_token, _unlike(model))

    if why := contract.verdict(model, "groups", compare):
        unprepare(model)
    return why


def _unlike(model: PreTrainedModel) -> str:
    """What shows without a run that groups cannot be right."""
    if not model._can_set_attn_implementation():
        return "its attention is not built on AttentionInterface"
    config = model.config.get_text_config()
    others = set(getattr(config, "layer_types", None) or ()) - {
        "full_attention",
        "sliding_attention",
    }
    return f"it has layers without full attention: {', '.join(sorted(others))}" if others else ""


def _each_token(model: PreTrainedModel, batch: Batch) -> Tensor:
    if model.get_output_embeddings() is not None:
        return log_probs(model, batch)
    return states(model, batch)[[node for path in batch.paths() for node in path]]


def _bare(model) -> PreTrainedModel:
    if hasattr(model, "get_base_model"):
        if model.active_peft_config.is_prompt_learning:
            raise TypeError(
                f"{model.peft_type} puts learnt tokens before every sequence: not supported, use LoRA"
            )
        model = model.get_base_model()
    if not isinstance(model, PreTrainedModel):
        what = f"expected a transformers model, got {type(model).__name__}"
        raise TypeError(
            f"{what} (inside DistributedDataParallel, call the engine in the wrapped module's forward)"
        )
    return model


@contextmanager
def computing(model: torch.nn.Module, autocast: str = "float32") -> Iterator[None]:
    """No dropout and no gradients inside; afterwards the model trains again if it did before, also
    after an error.

    Paper: silent. autocast: as for `precision`; "bfloat16" for a model whose projections are
    rounded. Of one that is shared out over processes (it has a `root`) what no layer holds is
    gathered meanwhile; all of them call this alike.
    """
    device, training, root = (
        next(model.parameters()).device.type,
        model.training,
        getattr(model, "root", None),
    )
    model.eval()
    try:
        with (
            torch.no_grad(),
            precision(device, "bfloat16" if getattr(model, "rounded", None) else autocast),
        ):
            if root:
                root()
            yield
    finally:
        if root:
            root.reshard()
        model.train(training)


def precision(on: str, autocast: str, kept: bool = True):
    """What to compute in: "bfloat16" for speed; "float32" leaves whatever autocast there is. Paper:
    silent.

    kept: rounded weights until the end, for calls that follow: 2 bytes more a weight.
    """
    return (
        nullcontext()
        if autocast == "float32"
        else torch.autocast(on, getattr(torch, autocast), cache_enabled=kept)
    )


def states(model: PreTrainedModel, batch: Batch) -> Tensor:
    """Final hidden states [T, H] of a batch, each token's in the context of its own path.

    Raises ValueError where a sequence is longer than `check_length` allows, and as `prepare`.
    """
    decoder = prepare(model)
    check_length(decoder, batch.depth)
    batch = batch.to(decoder.device)
    return run(decoder, batch.tokens, batch.positions, _Tree(batch)).last_hidden_state[0]  # [T, H]


def check_length(model: PreTrainedModel, length: int, *, alone: bool = False) -> None:
    """Raise ValueError where a sequence of so many tokens is longer than what the model can take.

    alone: for a sequence run by itself, which may be longer than the frequencies of its group's
    positions hold.
    """
    config, name = model.config.get_text_config(), type(model).__name__
    if (limit := getattr(config, "max_position_embeddings", None)) and length > limit:
        what = f"exceeds the positions of {name} ({limit:,}): shorten its prompt"
        raise ValueError(f"a sequence of {length:,} tokens {what}")
    if not alone and (why := _long(config, length)):
        raise ValueError(f"{name} can only score a sequence of {length:,} tokens: {why}")


def _long(config, length: int) -> str:
    limit = contract.switch(config)
    return (
        f"beyond {limit:,} tokens it turns all positions by other factors"
        if limit and length > limit
        else ""
    )


def alone(model: torch.nn.Module) -> dict[str, str]:
    """The class of a model and why its sequences were scored one by one; filled as it runs, empty where none was."""
    return vars(model).setdefault("hs2_alone", {})


def _alone(model: PreTrainedModel, batch: Batch) -> bool:
    """Whether to score a batch one by one. With gradients never: `states` then says why it cannot."""
    if torch.is_grad_enabled():
        return False
    model = _bare(model)
    if why := apart(model) or _long(model.config.get_text_config(), batch.depth):
        name = type(model).__name__
        reasons = alone(model)
        if name not in reasons:
            print(
                f"{name} is scored one sequence at a time by transformers: {why}", file=sys.stderr
            )
            reasons[name] = why
        check_length(model, batch.depth, alone=True)
    return bool(why)


def run(model: PreTrainedModel, tokens: Tensor, positions: Tensor, attention: Callable, **options):
    """The output of a prepared model on tokens [T] at positions [T].

    attention: called in every layer with (module, q [1, heads, T, D], k and v [1, key heads, T, D],
    `How`); it says who sees whom, and returns [1, T, heads, D].
    """
    # A mask that is 4-D already is handed on untouched, so no [T, T] mask is built.
    no_mask = torch.zeros(1, 1, 1, 1, device=tokens.device)
    options |= {"attention_mask": no_mask, "use_cache": False, "hs2_attention": attention}
    return model(input_ids=tokens[None], position_ids=positions[None], **options)


def end_states(model: PreTrainedModel, batch: Batch, hidden: Tensor | None = None) -> Tensor:
    """The hidden state [R, H] at each sequence's last token: where a reward head reads. Paper: section 3, Training."""
    if hidden is None and _alone(model, batch):
        decoder = _bare(model).base_model
        return torch.stack(
            [
                contract.plain_states(decoder, batch.tokens[path].tolist())[-1]
                for path in batch.paths()
            ]
        )
    hidden = states(model, batch) if hidden is None else hidden  # [T, H]
    return hidden[batch.end.to(hidden.device)]


def predicting_states(batch: Batch, hidden: Tensor) -> Tensor:
    """The hidden state [P, H] that predicts each token of `batch.node`: where a value head of PPO reads."""
    return hidden[batch.parent[batch.node].to(hidden.device)]


def log_probs(model: PreTrainedModel, batch: Batch, hidden: Tensor | None = None) -> Tensor:
    """Log-probability, float32 [P], of each token to predict after its path: rows in the order of
    the batch.

    A token shared by several sequences is predicted once, and the vocabulary is projected once for
    each state that predicts anything, some states at a time. Raises ValueError where the batch was
    packed without `predict`.
    """
    if not len(batch.node):
        raise ValueError("the batch has no token to predict: pass predict= to pack or plan")
    head = projection(model)
    if hidden is None and _alone(model, batch):
        alone = [
            contract.plain_log_probs(_bare(model), batch.tokens[path].tolist())
            for path in batch.paths()
        ]
        depth = batch.positions[batch.node].tolist()
        return torch.stack(
            [alone[row][at - 1] for row, at in zip(batch.owner.tolist(), depth, strict=True)]
        )
    hidden = states(model, batch) if hidden is None else hidden  # [T, H]
    batch = batch.to(hidden.device)
    node, inverse = batch.node.unique(return_inverse=True)  # [distinct tokens], [P]
    parent, order = batch.parent[node].sort(stable=True)
    node = node[order]
    rows, row_of = parent.unique_consecutive(
        return_inverse=True
    )  # states that predict, and each token's
    return chosen_log_probs(head, hidden[rows], row_of, batch.tokens[node])[
        order.argsort()[inverse]
    ]


def response_log_probs(model, batch: Batch) -> Tensor:
    """A policy's log-probability [R, 1], float32, of each response after its prompt, summed over its tokens."""
    return per_sequence(log_probs(model.backbone, batch), batch)[:, None]


def projection(model: PreTrainedModel) -> Callable[[Tensor], Tensor]:
    """From hidden states to logits: the vocabulary projection, and the scale or cap that some
    models put on it.

    Raises ValueError for a model without one.
    """
    model = _bare(model)
    if (head := model.get_output_embeddings()) is None:
        raise ValueError(
            f"{type(model).__name__} has no vocabulary projection: load it as a causal model"
        )
    config = model.config.get_text_config()
    scale = (getattr(config, "logit_scale", None) or 1) / (
        getattr(config, "logits_scaling", None) or 1
    )
    cap = getattr(config, "final_logit_softcapping", None)
    if scale == 1 and not cap:
        return head

    def changed(hidden: Tensor) -> Tensor:
        logits = head(hidden) * scale
        return torch.tanh(logits / cap) * cap if cap else logits

    return changed


def chosen_log_probs(head, hidden: Tensor, row: Tensor, token: Tensor) -> Tensor:
    """Log-probability [P], float32 or more, of token [P] under the logits of hidden [R, H] at row
    [P].

    head: the vocabulary projection, H to V. `row` ascends; every row is projected once, CHUNK rows
    at a time. Logits of more than KEPT bytes are not held for the backward pass but computed again.
    For a plain linear head the gradient is written out, d logp[i] = onehot(token[i]) - softmax, so
    that no copy of the logits is made beside the buffer they are computed in. Any other head
    (adapters, quantised) goes through autograd.
    """
    plain = type(head) is torch.nn.Linear and not (head._forward_hooks or head._forward_pre_hooks)
    on = hidden.device.type
    dtype = torch.get_autocast_dtype(on) if torch.is_autocast_enabled(on) else hidden.dtype
    if plain:
        held = torch.is_grad_enabled() and len(hidden) * head.out_features * dtype.itemsize <= KEPT
        return _Chosen.apply(hidden, head.weight, head.bias, row, token, dtype, held)

    def part(these: Tensor, at: Tensor, chosen: Tensor) -> Tensor:
        logits = head(these).float()  # [rows, V]
        return logits[at, chosen] - logits.logsumexp(-1)[at]

    parts = ((hidden[a:b], row[c:d] - a, token[c:d]) for a, b, c, d in _parts(len(hidden), row))
    return torch.cat([checkpoint(part, *arguments, use_reentrant=False) for arguments in parts])


def _parts(rows: int, row: Tensor) -> Iterator[tuple[int, int, int, int]]:
    """Chunks of rows and where their tokens lie: (first row, last + 1, first token, last + 1)."""
    bounds = [*range(0, rows, CHUNK), rows]
    cuts = torch.searchsorted(row, torch.tensor(bounds, device=row.device)).tolist()
    for (a, b), (c, d) in zip(pairwise(bounds), pairwise(cuts), strict=True):
        yield a, b, c, d


class _Chosen(torch.autograd.Function):
    """Log-probabilities by a linear head: logits in `dtype`, sums over the vocabulary in float32 or more."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, row, token, dtype: torch.dtype, held: bool):
        wide = torch.promote_types(dtype, torch.float32)
        h, w = hidden.to(dtype), weight.to(dtype)
        out, total = (
            hidden.new_empty(len(row), dtype=wide),
            hidden.new_empty(len(hidden), 1, dtype=wide),
        )
        scratch = hidden.new_empty(min(CHUNK, len(hidden)), len(weight), dtype=wide)  # [rows, V]
        # One buffer for all chunks unless their logits are held: fresh memory costs a CPU as much
        # as a pass over it.
        room = hidden.new_empty(len(hidden) if held else len(scratch), len(weight), dtype=dtype)
        for a, b, c, d in _parts(len(hidden), row):
            logits = _project(h[a:b], w, bias, room[a:b] if held else room[: b - a])  # [rows, V]
            top = logits.amax(-1, keepdim=True)  # [rows, 1]
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
        scratch = total.new_empty(min(CHUNK, len(hidden)), len(weight))  # [rows, V]
        room = h.new_empty(scratch.shape) if held is None else None
        by_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None  # [R, H]
        by_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None  # [V, H]
        by_bias = torch.zeros_like(bias) if ctx.needs_input_grad[2] else None  # [V]
        share = total.new_zeros(len(hidden)).index_add_(0, row, grad.to(total.dtype))[
            :, None
        ]  # [R, 1]
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


def _project(h: Tensor, w: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    torch.mm(h, w.T, out=out)
    return out if bias is None else out.add_(bias)


def per_sequence(x: Tensor, batch: Batch) -> Tensor:
    """Sum x [P] over the tokens of each sequence: [R]. The same bits at every call, on a GPU too."""
    total, owner = x.new_zeros(len(batch.end)), batch.owner.to(x.device)  # [R], [P]
    return (
        total.index_put((owner,), x, accumulate=True) if x.is_cuda else total.index_add(0, owner, x)
    )


def in_order(
    function: Callable, token_groups: Iterable, budget=BUDGET, *, shared=False, **options
) -> Tensor:
    """Rows of function(batch) [R, ...] for every sequence, in the caller's order, without
    gradients.

    shared: the batches are dealt out to all processes, which call this alike and all get all rows.
    `options` go to `plan`. Returns [all sequences, ...] on the CPU.
    """
    rank, processes = (distributed.get_rank(), distributed.get_world_size()) if shared else (0, 1)
    # One buffer that grows: thousands of small tensors kept between large short-lived ones would
    # fragment memory.
    kept, index, batches = bytearray(), [], plan(token_groups, budget, **options)
    with torch.no_grad():
        while several := list(islice(batches, processes)):
            batch = several[
                min(rank, len(several) - 1)
            ]  # as many calls in each process: they gather weights together
            rows = function(batch).cpu().contiguous()
            if rank < len(several):
                kept += rows.view(torch.uint8).numpy().data
                index += batch.index.tolist()
    if shared:
        parts = [None] * processes
        distributed.all_gather_object(parts, (kept, index))
        kept, index = (
            bytearray().join(part for part, _ in parts),
            [at for _, part in parts for at in part],
        )
    if not index:
        raise ValueError("no groups to run")
    return torch.frombuffer(kept, dtype=rows.dtype).view(-1, *rows.shape[1:])[
        torch.tensor(index).argsort()
    ]


class How(NamedTuple):
    """How scores become attention: their scale, how many tokens are seen, a cap of the scores,
    sinks [heads].

    A sink is one more score that takes weight and gives nothing.
    """

    scale: float
    window: int | None
    softcap: float | None
    sinks: Tensor | None

    @property
    def special(self) -> bool:
        """Whether kernels of plain attention cannot do it."""
        return self.softcap is not None or self.sinks is not None


class _Tree:
    """A batch on its way through the layers, with what the attention of all layers shares, made on first use."""

    def __init__(self, batch: Batch):
        self.batch, self.depth = batch, batch.depth
        self._calls, self._blocks = {}, {}

    def mask(self, start: int, stop: int, window: int | None, dtype: torch.dtype) -> Tensor:
        """Who sees whom from start to stop, additive [n, n]."""
        last, at = self.batch.last[start:stop], self.batch.positions[start:stop]
        i = torch.arange(start, stop, device=last.device)  # [n]
        seen = (i[None] <= i[:, None]) & (i[:, None] <= last[None])  # [n, n]: query, key
        if window:
            seen &= at[:, None] - at[None] < window
        return torch.zeros(seen.shape, dtype=dtype, device=last.device).masked_fill(
            ~seen, -torch.inf
        )

    def calls(self, window: int | None, dtype: torch.dtype) -> tuple[list, tuple]:
        """The calls on ranges of the batch: (start, stop, mask or None where causal), and those
        across.

        A window makes it one call with a dense mask: what lies beyond it is cut out of all ranges.
        """
        if (window, dtype) not in self._calls:
            own, cross = self.batch.self_calls, self.batch.cross_calls
            if window:
                own, cross = ((0, len(self.batch.tokens), True),), ()
            masks = [
                (a, b, self.mask(a, b, window, dtype) if masked else None) for a, b, masked in own
            ]
            self._calls[window, dtype] = masks, cross
        return self._calls[window, dtype]

    def __call__(self, module, query, key, value, how: How) -> Tensor:
        if torch.is_autocast_enabled(query.device.type):
            dtype = torch.get_autocast_dtype(query.device.type)
            query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        scale, window = how.scale, how.window if how.window and how.window < self.depth else None
        if how.special:
            return formula(
                module, query, key, value, self.mask(0, query.shape[-2], window, query.dtype), how
            )
        if query.device.type == "cpu":
            return _Attention.apply(query, key, value, self, scale, window)
        check_kernel(query.device, query.shape[-1], query.dtype)
        if window not in self._blocks:
            self._blocks[window] = block_mask(
                self.batch.last, positions=self.batch.positions, window=window
            )
        out = _compiled()(
            query, key, value, block_mask=self._blocks[window], scale=scale, enable_gqa=True
        )
        return out.transpose(1, 2).contiguous()


class _Attention(torch.autograd.Function):
    """Attention of a packed batch on a CPU: flash calls on contiguous ranges, joined by their
    log-sum-exps.

    q [1, heads, T, D]; k, v [1, key heads, T, D]; returns [1, T, heads, D]. From the joint output
    and log-sum-exp the backward kernel makes each call's share of the gradients, exactly. Scores
    are computed in float32 also for bfloat16 inputs: the CPU kernel is two to four times faster so,
    and more precise.
    """

    @staticmethod
    def forward(ctx, query, key, value, tree: _Tree, scale: float, window: int | None):
        dtype = torch.promote_types(query.dtype, torch.float32)
        q, k, v = query.to(dtype), key.to(dtype), value.to(dtype)  # [1, heads or key heads, T, D]
        out = q.new_empty(1, q.shape[2], q.shape[1], q.shape[3])  # [1, T, heads, D]
        lse = q.new_empty(out.shape[:3])  # [1, T, heads]: log of the sum of exp of the scores
        own, cross = tree.calls(window, dtype)
        for a, b, mask in own:
            part = q[:, :, a:b], k[:, :, a:b], v[:, :, a:b]
            o, s = flash(*part, 0.0, mask is None, attn_mask=mask, scale=scale)
            out[:, a:b], lse[:, a:b] = o.transpose(1, 2), s.transpose(1, 2)
        for a, b, c, d in cross:
            o, s = flash(q[:, :, a:b], k[:, :, c:d], v[:, :, c:d], scale=scale)
            o, s, joint = o.transpose(1, 2), s.transpose(1, 2), lse[:, a:b]
            out[:, a:b].lerp_(o, torch.sigmoid(s - joint)[..., None])
            torch.logaddexp(joint, s, out=joint)
        out = out.to(query.dtype)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.tree, ctx.scale, ctx.window = tree, scale, window
        return out

    @staticmethod
    def backward(ctx, grad):
        query, key, value, out, lse = ctx.saved_tensors
        q, k, v, g, o = (
            t.to(lse.dtype) for t in (query, key, value, grad.transpose(1, 2), out.transpose(1, 2))
        )
        own, cross = ctx.tree.calls(ctx.window, lse.dtype)
        lse = lse.transpose(1, 2)  # [1, heads, T]
        dq, dk, dv = (torch.zeros_like(t) for t in (q, k, v))

        def add(a, b, c, d, causal, mask):
            part = (
                g[:, :, a:b],
                q[:, :, a:b],
                k[:, :, c:d],
                v[:, :, c:d],
                o[:, :, a:b],
                lse[:, :, a:b],
            )
            x, y, z = _flash_backward(*part, 0.0, causal, attn_mask=mask, scale=ctx.scale)
            dq[:, :, a:b] += x
            dk[:, :, c:d] += y
            dv[:, :, c:d] += z

        for a, b, mask in own:
            add(a, b, a, b, mask is None, mask)
        for a, b, c, d in cross:
            add(a, b, c, d, False, None)
        return dq.to(query.dtype), dk.to(key.dtype), dv.to(value.dtype), None, None, None


def group_attention(
    module, query, key, value, attention_mask, dropout=0.0, scaling=None, hs2_attention=None, **more
):
    """The attention function registered with transformers; outside of `run` it is plain SDPA."""
    if more.get("position_bias") is not None:
        raise ValueError(
            f"{type(module).__name__} asks its attention for position_bias, which group attention lacks"
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    how = How(scale, *(more.get(name) for name in ("sliding_window", "softcap", "s_aux")))
    if hs2_attention is None:
        if attention_mask is not None and attention_mask.shape[-1] < key.shape[-2]:
            raise ValueError(
                f"{type(module).__name__} does not hand keyword arguments of forward to its attention"
            )
        if how.special:
            raise ValueError(
                f"{type(module).__name__} needs its own attention here: set_attn_implementation('eager')"
            )
        options = {"dropout": dropout, "scaling": scaling, **more}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    if dropout:
        raise ValueError(
            f"attention dropout ({dropout}) is not supported: set config.attention_dropout = 0"
        )
    width = value.shape[-1]
    if width != query.shape[-1]:  # zeros at the end of a head change no product
        most = max(width, query.shape[-1])
        query, key, value = (
            torch.nn.functional.pad(x, (0, most - x.shape[-1])) for x in (query, key, value)
        )
    return hs2_attention(module, query, key, value, how)[..., :width], None


def formula(module, query, key, value, mask: Tensor, how: How) -> Tensor:
    """The model's own formula of attention under an additive mask [n, n]: every token beside every other."""
    eager = sys.modules[type(module).__module__].eager_attention_forward
    options = {"scaling": how.scale, "softcap": how.softcap, "s_aux": how.sinks}
    return eager(module, query, key, value, mask[None, None], **options)[0]


def check_kernel(device: torch.device, width: int, dtype: torch.dtype) -> None:
    """Raise ValueError where FlexAttention has no kernel: for this device, heads so wide, numbers of this kind."""
    cuda = device.type == "cuda"
    name, power = (
        (torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device))
        if cuda
        else ("", ())
    )
    kinds = (torch.float32, torch.float16, *[torch.bfloat16] * (power >= (8, 0)))
    if not cuda or width < 16 or dtype not in kinds:
        wants = "CUDA, heads at least 16 wide, float32 or (from compute capability 8.0 on) bfloat16"
        got = f"{name or device.type} {'.'.join(map(str, power))}, heads {width} wide, {dtype}"
        raise ValueError(
            f"groups on a GPU want {wants}; got {got}: set autocast to float32, or use the CPU"
        )


@cache
def _compiled() -> Callable:
    """FlexAttention, compiled on first use: one variant for all lengths, and never its dense form in its place."""
    torch._dynamo.config.recompile_limit = (
        64  # models of several shapes, in two precisions, with and without gradients
    )
    return torch.compile(flex_attention, dynamic=True, fullgraph=True)


AttentionInterface.register(NAME, group_attention)

AttentionMaskInterface.register(NAME, sdpa_mask)
