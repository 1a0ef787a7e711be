"""The engine: any causal decoder on groups of sequences, every shared prefix computed once.

A batch is a forest of prefix trees packed into T tokens without padding (`hs2lib.engine.trees`).
Attention sees each token's own path, so outputs and gradients equal those of the sequences one by
one. Paper: silent (an exact saving).

A training step, its rows R in the order of the call:

    batch = pack([[ids, ids], [ids]], predict=[[31, 31], [12]])
    hidden = states(model, batch)              # [T, H] final hidden states, after the last norm
    ends = end_states(model, batch, hidden)    # [R, H] at each sequence's last token (reward head)
    logp = log_probs(model, batch, hidden)     # [P] of each token to predict
    total = per_sequence(logp, batch)          # [R] summed; batch.owner [P] is each token's row
    read = predicting_states(batch, hidden)    # [P, H] the state that predicts each (PPO's critic)

Many groups, and their rows in the caller's order:

    for batch in plan(token_groups, budget=2048, predict=...):  # batch.index [R]: whose row it is
        ...
    rows = in_order(lambda batch: head(end_states(model, batch)), token_groups, budget)

`hidden` may be left out: each function then runs the model itself. `predict` takes an int (the
prompt's length) or a list of (start, stop).

The model may be a causal, headless or classification model, also with LoRA adapters, gradient
checkpointing or autocast. `prepare` readies it (`states` does so itself), and it still generates
and runs padded batches as before. Under DDP or FSDP call these functions inside the wrapped
module's forward. Models that do not run in groups run on padded rows, with the same numbers
(`hs2lib.engine.contract`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from hs2lib import rehearsal
from hs2lib.engine import contract
from hs2lib.engine.trees import BUDGET, Batch, TokenIds, block_mask, plan

if TYPE_CHECKING:
    from transformers.utils import ModelOutput

NAME = "hs2_groups"

flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default

_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default

CHUNK = 256  # rows of logits at a time

# Logits of up to this many bytes a call wait for the backward pass; more are computed a second time
# instead.
HELD_BYTES = 2**30


def prepare(model: torch.nn.Module) -> PreTrainedModel:
    """Ready a model, also one with LoRA adapters, for the engine; return its decoder, headless.

    A model that runs in groups gets the group attention.

    Raises:
        TypeError: it is no transformers model.
        ValueError: it is no causal decoder, or its logits are more than a projection.
    """
    model = _transformers_model(model)
    if contract.in_groups(model.config):
        if model.config._attn_implementation != NAME:
            model.hs2_previous_attention = model.config._attn_implementation
            model.set_attn_implementation(NAME)
    elif not getattr(model, "hs2_checked", False):
        has_head = model.get_output_embeddings() is not None
        contract.check(model, projection(model) if has_head else None)
        model.hs2_checked = True
    return model.base_model


def unprepare(model: PreTrainedModel) -> None:
    """Give a model the attention back that it had before `prepare`."""
    if model.config._attn_implementation == NAME:
        model.set_attn_implementation(model.hs2_previous_attention)


def _transformers_model(model: torch.nn.Module) -> PreTrainedModel:
    """The transformers model of one that may have LoRA adapters; raises TypeError for any other."""
    if hasattr(model, "get_base_model"):
        if model.active_peft_config.is_prompt_learning:
            raise TypeError(
                f"{model.peft_type} puts learnt tokens before every sequence: "
                "not supported, use LoRA"
            )
        model = model.get_base_model()
    if not isinstance(model, PreTrainedModel):
        raise TypeError(
            f"expected a transformers model, got {type(model).__name__} (inside "
            "DistributedDataParallel, call the engine in the wrapped module's forward)"
        )
    return model


@contextmanager
def computing(model: torch.nn.Module, autocast: str = "float32") -> Iterator[None]:
    """No dropout and no gradients inside; afterwards the model trains again if it did before.

    That holds after an error too. A model that is shared out over processes has a `root`: what no
    layer holds is gathered meanwhile, and all processes call this alike. Paper: silent.

    autocast: as for `precision`. A model whose projections are rounded computes in bfloat16.
    """
    device = next(model.parameters()).device.type
    training = model.training
    root = getattr(model, "root", None)
    if getattr(model, "rounded", None):
        autocast = "bfloat16"
    model.eval()
    try:
        with torch.no_grad(), precision(device, autocast):
            if root:
                root()
            yield
    finally:
        if root:
            root.reshard()
        model.train(training)


def precision(on: str, autocast: str, kept: bool = True) -> AbstractContextManager:
    """A context with the precision to compute in. Paper: silent.

    Args:
        on: the type of device.
        autocast: "bfloat16" for speed; "float32" leaves whatever autocast there is.
        kept: store rounded weights until the end, for calls that follow: 2 bytes more a weight.
    """
    if autocast == "float32":
        return nullcontext()
    return torch.autocast(on, getattr(torch, autocast), cache_enabled=kept)


def states(model: torch.nn.Module, batch: Batch) -> Tensor:
    """Final hidden states [T, H] of a batch, each token's in the context of its own path.

    Raises ValueError where a sequence is longer than the model's positions, and as `prepare`.
    """
    decoder = prepare(model)
    check_length(decoder, batch.depth)
    batch = batch.to(decoder.device)
    if not contract.in_groups(decoder.config):
        return contract.padded_states(decoder, batch)
    return run(decoder, batch.tokens, batch.positions, Tree(batch)).last_hidden_state[0]  # [T, H]


def check_length(model: PreTrainedModel, length: int) -> None:
    """Raise ValueError where a sequence of so many tokens is longer than the model's positions."""
    limit = contract.longest(model.config)
    if limit and length > limit:
        raise ValueError(
            f"a sequence of {length:,} tokens exceeds the positions of {type(model).__name__} "
            f"({limit:,}): shorten its prompt"
        )


def run(
    model: PreTrainedModel,
    tokens: Tensor,
    positions: Tensor,
    attention: Callable[..., Tensor],
    **options: object,
) -> "ModelOutput":
    """The output of a prepared model on tokens laid end to end.

    Args:
        model: as `prepare` leaves it.
        tokens: [T].
        positions: [T].
        attention: says who sees whom. It is called in every layer with (module, q [1, heads, T, D],
            k and v [1, key heads, T, D], scale of the scores, how many tokens are seen or None),
            and returns [1, T, heads, D].
        options: further arguments of the model.
    """
    # A mask that is 4-D already is handed on untouched, so no [T, T] mask is built.
    no_mask = torch.zeros(1, 1, 1, 1, device=tokens.device)
    return model(
        input_ids=tokens[None],
        position_ids=positions[None],
        attention_mask=no_mask,
        use_cache=False,
        hs2_attention=attention,
        **options,
    )


def end_states(model: torch.nn.Module, batch: Batch, hidden: Tensor | None = None) -> Tensor:
    """The hidden state [R, H] at each sequence's last token: where a reward head reads.

    Paper: section 3, Training.
    """
    hidden = states(model, batch) if hidden is None else hidden  # [T, H]
    return hidden[batch.end.to(hidden.device)]


def predicting_states(batch: Batch, hidden: Tensor) -> Tensor:
    """The hidden state [P, H] that predicts each token of `batch.node`.

    PPO's value head reads there.
    """
    return hidden[batch.parent[batch.node].to(hidden.device)]


def log_probs(model: torch.nn.Module, batch: Batch, hidden: Tensor | None = None) -> Tensor:
    """Log-probability, float32 [P], of each token to predict after its path.

    The tokens are those of `batch.node`, row by row. One that several sequences share is predicted
    once. The vocabulary is projected once for each state that predicts anything, some states at a
    time. Raises ValueError where the batch was packed without `predict`.
    """
    if not len(batch.node):
        raise ValueError("the batch has no token to predict: pass predict= to pack or plan")
    head = projection(model)
    hidden = states(model, batch) if hidden is None else hidden  # [T, H]
    batch = batch.to(hidden.device)
    node, inverse = batch.node.unique(return_inverse=True)  # [distinct tokens], [P]
    parent, order = batch.parent[node].sort(stable=True)
    node = node[order]
    # The states that predict, and which of them predicts each token.
    rows, row_of = parent.unique_consecutive(return_inverse=True)
    chosen = chosen_log_probs(head, hidden[rows], row_of, batch.tokens[node])
    return chosen[order.argsort()[inverse]]


def response_log_probs(model: torch.nn.Module, batch: Batch) -> Tensor:
    """A policy's log-probability, float32 [R, 1], of each response: the sum over its tokens."""
    return per_sequence(log_probs(model.backbone, batch), batch)[:, None]


def projection(model: torch.nn.Module) -> Callable[[Tensor], Tensor]:
    """From hidden states to logits: the vocabulary projection, and the scale or cap on its logits.

    Some models have a scale or a cap. Raises ValueError for a model without a projection.
    """
    model = _transformers_model(model)
    head = model.get_output_embeddings()
    if head is None:
        raise ValueError(
            f"{type(model).__name__} has no vocabulary projection: load it as a causal model"
        )
    config = model.config.get_text_config()
    factor = getattr(config, "logit_scale", None) or 1
    divisor = getattr(config, "logits_scaling", None) or 1
    scale = factor / divisor
    cap = getattr(config, "final_logit_softcapping", None)
    if scale == 1 and not cap:
        return head

    def scaled_head(hidden: Tensor) -> Tensor:
        logits = head(hidden) * scale
        return torch.tanh(logits / cap) * cap if cap else logits

    return scaled_head


def chosen_log_probs(
    head: Callable[[Tensor], Tensor], hidden: Tensor, row: Tensor, token: Tensor
) -> Tensor:
    """Log-probability [P], float32 or more, of some tokens under the logits of some rows.

    Every row is projected once, CHUNK rows at a time. Logits of more than HELD_BYTES are not held
    for the backward pass but computed again. For a plain linear head the gradient is written out,
    d logp[i] = onehot(token[i]) - softmax, so that no copy of the logits is made beside the buffer
    they are computed in. Any other head (adapters, quantised) goes through autograd.

    Args:
        head: the vocabulary projection, H to V.
        hidden: [R, H].
        row: [P], the row of each token, ascending.
        token: [P].
    """
    plain = type(head) is torch.nn.Linear and not (head._forward_hooks or head._forward_pre_hooks)
    on = hidden.device.type
    dtype = torch.get_autocast_dtype(on) if torch.is_autocast_enabled(on) else hidden.dtype
    if plain:
        held = (
            torch.is_grad_enabled()
            and len(hidden) * head.out_features * dtype.itemsize <= HELD_BYTES
        )
        return _ChosenLogProbs.apply(hidden, head.weight, head.bias, row, token, dtype, held)

    def of_chunk(hidden: Tensor, row: Tensor, token: Tensor) -> Tensor:
        logits = head(hidden).float()  # [rows, V]
        return logits[row, token] - logits.logsumexp(-1)[row]

    chunks = []
    for start, stop, token_start, token_stop in _chunks(len(hidden), row):
        tokens = slice(token_start, token_stop)
        chunks.append(
            checkpoint(
                of_chunk,
                hidden[start:stop],
                row[tokens] - start,
                token[tokens],
                use_reentrant=False,
            )
        )
    return torch.cat(chunks)


def _chunks(n_rows: int, row: Tensor) -> Iterator[tuple[int, int, int, int]]:
    """Chunks of rows and of their tokens: (first row, last + 1, first token, last + 1)."""
    bounds = [*range(0, n_rows, CHUNK), n_rows]
    cuts = torch.searchsorted(row, torch.tensor(bounds, device=row.device)).tolist()
    for rows, tokens in zip(pairwise(bounds), pairwise(cuts), strict=True):
        yield *rows, *tokens


class _ChosenLogProbs(torch.autograd.Function):
    """Log-probabilities by a linear head, with the gradient written out.

    Logits are in `dtype`, sums over the vocabulary in float32 or more.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        row: Tensor,
        token: Tensor,
        dtype: torch.dtype,
        held: bool,
    ) -> Tensor:
        """The values [P]; `held` keeps the logits for the backward pass."""
        wide = torch.promote_types(dtype, torch.float32)
        h = hidden.to(dtype)  # [R, H]
        w = weight.to(dtype)  # [V, H]
        out = hidden.new_empty(len(row), dtype=wide)  # [P]
        total = hidden.new_empty(len(hidden), 1, dtype=wide)  # [R, 1], log-sum-exps
        scratch = hidden.new_empty(min(CHUNK, len(hidden)), len(weight), dtype=wide)  # [rows, V]
        # One buffer for all chunks unless their logits are held: fresh memory costs a CPU as much
        # as a pass over it.
        n_buffered = len(hidden) if held else len(scratch)
        buffer = hidden.new_empty(n_buffered, len(weight), dtype=dtype)
        for start, stop, token_start, token_stop in _chunks(len(hidden), row):
            n_rows = stop - start
            tokens = slice(token_start, token_stop)
            logits = buffer[start:stop] if held else buffer[:n_rows]  # [rows, V]
            _project(h[start:stop], w, bias, logits)
            top = logits.amax(-1, keepdim=True)  # [rows, 1]
            torch.sub(logits, top, out=scratch[:n_rows]).exp_()
            total[start:stop] = scratch[:n_rows].sum(-1, keepdim=True).log_() + top
            out[tokens] = logits[row[tokens] - start, token[tokens]] - total[row[tokens], 0]
        ctx.save_for_backward(hidden, weight, bias, row, token, total, buffer if held else None)
        ctx.dtype = dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of hidden states, weight and bias, where they are asked for."""
        hidden, weight, bias, row, token, total, held = ctx.saved_tensors
        h = hidden.to(ctx.dtype)  # [R, H]
        w = weight.to(ctx.dtype)  # [V, H]
        scratch = total.new_empty(min(CHUNK, len(hidden)), len(weight))  # [rows, V]
        buffer = h.new_empty(scratch.shape) if held is None else None  # [rows, V]
        by_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None  # [R, H]
        by_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None  # [V, H]
        by_bias = torch.zeros_like(bias) if ctx.needs_input_grad[2] else None  # [V]
        by_row = total.new_zeros(len(hidden)).index_add_(0, row, grad.to(total.dtype))  # [R]
        by_row = by_row[:, None]  # [R, 1]
        for start, stop, token_start, token_stop in _chunks(len(hidden), row):
            n_rows = stop - start
            tokens = slice(token_start, token_stop)
            if held is None:
                logits = buffer[:n_rows]  # [rows, V]
                _project(h[start:stop], w, bias, logits)
            else:
                logits = held[start:stop]  # [rows, V]
            slope = torch.sub(logits, total[start:stop], out=scratch[:n_rows])
            slope.exp_().mul_(-by_row[start:stop])
            slope.index_put_(
                (row[tokens] - start, token[tokens]), grad[tokens].to(slope.dtype), accumulate=True
            )
            slope = slope.to(ctx.dtype)  # [rows, V]: of the logits
            if by_hidden is not None:
                by_hidden[start:stop] = slope @ w
            if by_weight is not None and weight.dtype == ctx.dtype:
                by_weight.addmm_(slope.T, h[start:stop])
            elif by_weight is not None:
                by_weight += slope.T @ h[start:stop]
            if by_bias is not None:
                by_bias += slope.sum(0)
        return by_hidden, by_weight, by_bias, None, None, None, None


def _project(hidden: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """Write the logits [rows, V] of hidden [rows, H] into `out`."""
    torch.mm(hidden, weight.T, out=out)
    if bias is not None:
        out.add_(bias)


def per_sequence(x: Tensor, batch: Batch) -> Tensor:
    """Sum x [P] over the tokens of each sequence: [R].

    It gives the same bits at every call, on a GPU too.
    """
    total = x.new_zeros(len(batch.end))  # [R]
    owner = batch.owner.to(x.device)  # [P]
    if x.is_cuda:
        return total.index_put((owner,), x, accumulate=True)
    return total.index_add(0, owner, x)


def in_order(
    function: Callable[[Batch], Tensor],
    token_groups: Iterable[Sequence[TokenIds]],
    budget: int = BUDGET,
    *,
    shared: bool = False,
    **options: object,
) -> Tensor:
    """Rows of function(batch) for every sequence, in the caller's order, without gradients.

    Args:
        function: from a batch to rows [R, ...].
        token_groups: as for `plan`.
        budget: as for `plan`.
        shared: deal the batches out to all processes, which call this alike and all get all rows.
        options: those of `plan`.
    Returns: [all sequences, ...] on the CPU.
    Raises:
        ValueError: for no groups.
    """
    rank = 0
    processes = 1
    if shared:
        rank = distributed.get_rank()
        processes = distributed.get_world_size()
    batches = plan(token_groups, budget, **options)
    if rehearsal.on():
        several_batches, function = rehearsal.few_batches(list(batches), function)
        batches = iter(several_batches)
    # One buffer that grows: thousands of small tensors between large short-lived ones would
    # fragment memory.
    buffer = bytearray()
    index = []
    with torch.no_grad():
        while several := list(islice(batches, processes)):
            # As many calls in each process, because they gather weights together.
            batch = several[min(rank, len(several) - 1)]
            rows = function(batch).cpu().contiguous()
            if rank < len(several):
                buffer += rows.view(torch.uint8).numpy().data
                index += batch.index.tolist()
    if shared:
        gathered = [None] * processes
        distributed.all_gather_object(gathered, (buffer, index))
        buffer = bytearray()
        index = []
        for part_buffer, part_index in gathered:
            buffer += part_buffer
            index += part_index
    if not index:
        raise ValueError("no groups to run")
    all_rows = torch.frombuffer(buffer, dtype=rows.dtype).view(-1, *rows.shape[1:])
    return all_rows[torch.tensor(index).argsort()]


class Tree:
    """A batch on its way through the layers.

    It holds what the attention of all layers shares, made on first use.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.depth = batch.depth
        self._calls: dict[tuple[int | None, torch.dtype], tuple[list, tuple]] = {}
        self._blocks = {}  # window -> FlexAttention's block mask

    def mask(self, start: int, stop: int, window: int | None, dtype: torch.dtype) -> Tensor:
        """Who sees whom from start to stop, additive [n, n]."""
        last = self.batch.last[start:stop]
        positions = self.batch.positions[start:stop]
        i = torch.arange(start, stop, device=last.device)  # [n]
        seen = (i[None] <= i[:, None]) & (i[:, None] <= last[None])  # [n, n]: query, key
        if window:
            seen &= positions[:, None] - positions[None] < window
        zeros = torch.zeros(seen.shape, dtype=dtype, device=last.device)
        return zeros.masked_fill(~seen, -torch.inf)

    def calls(
        self, window: int | None, dtype: torch.dtype
    ) -> tuple[list[tuple[int, int, Tensor | None]], tuple[tuple[int, int, int, int], ...]]:
        """The batch's attention as calls on ranges of it, as in `Batch`, but with masks made.

        A window makes it one call with a dense mask: what lies beyond it is cut out of all ranges.

        Returns: (start, stop, mask or None where causal) of each range that attends to itself, and
            `cross_calls`.
        """
        if (window, dtype) not in self._calls:
            self_calls = self.batch.self_calls
            cross_calls = self.batch.cross_calls
            if window:
                self_calls = ((0, len(self.batch.tokens), True),)
                cross_calls = ()
            with_masks = []
            for start, stop, masked in self_calls:
                mask = self.mask(start, stop, window, dtype) if masked else None
                with_masks.append((start, stop, mask))
            self._calls[window, dtype] = (with_masks, cross_calls)
        return self._calls[window, dtype]

    def __call__(
        self,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        window: int | None,
    ) -> Tensor:
        """The attention of a layer, as `run` calls it."""
        if torch.is_autocast_enabled(query.device.type):
            dtype = torch.get_autocast_dtype(query.device.type)
            query = query.to(dtype)
            key = key.to(dtype)
            value = value.to(dtype)
        if window and window >= self.depth:  # it cuts nothing
            window = None
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
    """Attention of a packed batch on a CPU: flash calls on ranges, joined by their log-sum-exps.

    From the joint output and log-sum-exp the backward kernel makes each call's share of the
    gradients, exactly. Scores are computed in float32 also for bfloat16 inputs: the CPU kernel is
    two to four times faster so, and more precise.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        tree: Tree,
        scale: float,
        window: int | None,
    ) -> Tensor:
        """From query [1, heads, T, D], key and value [1, key heads, T, D] to [1, T, heads, D]."""
        dtype = torch.promote_types(query.dtype, torch.float32)
        q = query.to(dtype)  # [1, heads, T, D]
        k = key.to(dtype)  # [1, key heads, T, D]
        v = value.to(dtype)  # [1, key heads, T, D]
        out = q.new_empty(1, q.shape[2], q.shape[1], q.shape[3])  # [1, T, heads, D]
        lse = q.new_empty(out.shape[:3])  # [1, T, heads]: log of the sum of exp of the scores
        self_calls, cross_calls = tree.calls(window, dtype)
        for start, stop, mask in self_calls:
            o, s = flash(
                q[:, :, start:stop],
                k[:, :, start:stop],
                v[:, :, start:stop],
                0.0,
                mask is None,
                attn_mask=mask,
                scale=scale,
            )
            out[:, start:stop] = o.transpose(1, 2)
            lse[:, start:stop] = s.transpose(1, 2)
        for start, stop, key_start, key_stop in cross_calls:
            o, s = flash(
                q[:, :, start:stop],
                k[:, :, key_start:key_stop],
                v[:, :, key_start:key_stop],
                scale=scale,
            )
            o = o.transpose(1, 2)
            s = s.transpose(1, 2)
            joint = lse[:, start:stop]
            out[:, start:stop].lerp_(o, torch.sigmoid(s - joint)[..., None])
            torch.logaddexp(joint, s, out=joint)
        out = out.to(query.dtype)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.tree = tree
        ctx.scale = scale
        ctx.window = window
        return out

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of query, key and value."""
        query, key, value, out, lse = ctx.saved_tensors
        dtype = lse.dtype
        q = query.to(dtype)  # [1, heads, T, D]
        k = key.to(dtype)  # [1, key heads, T, D]
        v = value.to(dtype)  # [1, key heads, T, D]
        g = grad.transpose(1, 2).to(dtype)  # [1, heads, T, D]
        o = out.transpose(1, 2).to(dtype)  # [1, heads, T, D]
        self_calls, cross_calls = ctx.tree.calls(ctx.window, dtype)
        lse = lse.transpose(1, 2)  # [1, heads, T]
        dq = torch.zeros_like(q)
        dk = torch.zeros_like(k)
        dv = torch.zeros_like(v)

        def add(queries: slice, keys: slice, causal: bool, mask: Tensor | None) -> None:
            """Add what the call on these queries and keys gives to the gradients."""
            by_query, by_key, by_value = _flash_backward(
                g[:, :, queries],
                q[:, :, queries],
                k[:, :, keys],
                v[:, :, keys],
                o[:, :, queries],
                lse[:, :, queries],
                0.0,
                causal,
                attn_mask=mask,
                scale=ctx.scale,
            )
            dq[:, :, queries] += by_query
            dk[:, :, keys] += by_key
            dv[:, :, keys] += by_value

        for start, stop, mask in self_calls:
            add(slice(start, stop), slice(start, stop), mask is None, mask)
        for start, stop, key_start, key_stop in cross_calls:
            add(slice(start, stop), slice(key_start, key_stop), False, None)
        return dq.to(query.dtype), dk.to(key.dtype), dv.to(value.dtype), None, None, None


def group_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    hs2_attention: Callable[..., Tensor] | None = None,
    **more: object,
) -> tuple[Tensor, None]:
    """The attention function registered with transformers; outside of `run` it is plain SDPA.

    Args:
        module: the layer's attention.
        query: [1, heads, T, D].
        key: [1, key heads, T, D].
        value: [1, key heads, T, D].
        attention_mask: of transformers; `run` has none.
        dropout: only outside of `run`.
        scaling: of the scores; None for D ** -.5.
        hs2_attention: the `attention` of `run`.
        more: what else the model hands to its attention.
    Returns: [1, T, heads, D], and None in place of the weights.
    Raises:
        ValueError: for dropout in `run`.
    """
    if hs2_attention is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **more
        )
    if dropout:
        raise ValueError(
            f"attention dropout ({dropout}) is not supported: set config.attention_dropout = 0"
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return hs2_attention(module, query, key, value, scale, more.get("sliding_window")), None


def check_kernel(device: torch.device, width: int, dtype: torch.dtype) -> None:
    """Raise ValueError where FlexAttention has no kernel.

    Args:
        device: where the numbers are.
        width: of a head.
        dtype: of the numbers.
    """
    name = device.type
    power = ()  # compute capability
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device) or device.type
        power = torch.cuda.get_device_capability(device)
    dtypes = [torch.float32, torch.float16]
    if power >= (8, 0):
        dtypes.append(torch.bfloat16)
    if device.type != "cuda" or width < 16 or dtype not in dtypes:
        raise ValueError(
            "groups on a GPU want CUDA, heads at least 16 wide, float32 or (from compute "
            f"capability 8.0 on) bfloat16; got {name} {'.'.join(map(str, power))}, heads {width} "
            f"wide, {dtype}: set autocast to float32, or use the CPU"
        )


@cache
def _compiled() -> Callable[..., Tensor]:
    """FlexAttention, compiled on first use, and never its dense form in its place.

    One variant serves all lengths.
    """
    # Models of several shapes, in two precisions, with and without gradients.
    torch._dynamo.config.recompile_limit = 64
    return torch.compile(flex_attention, dynamic=True, fullgraph=True)


AttentionInterface.register(NAME, group_attention)

AttentionMaskInterface.register(NAME, sdpa_mask)
