"""Decoding by a causal model: each prompt computed once for all its samples.

A sample that is done leaves its batch. The keys and values of a prompt are stored once, beside
those of other prompts of about its length: a shelf. Each step attends from all samples of a shelf
to their prompts in one call, and from every sample to its own tokens in another. The two are joined
by their log-sum-exps, which is exact.

Prompts that are admitted together are a cohort, whose samples have equally many tokens. When enough
samples are done the next prompts are admitted beside the others.

Paper: silent (an exact saving; `generate` repeats the prompt for every sample).
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, distributed
from transformers import PreTrainedModel

from hs2lib.engine import contract
from hs2lib.engine.attention import (
    AttentionOptions,
    check_length,
    eager_attention,
    flash,
    prepare,
    run,
    unprepare,
)

# Top-p looks at so many of the likeliest tokens at first: it rarely keeps more, and sorting V is
# slow.
FIRST = 256

PREFILL = 8192  # tokens of prompts computed in one pass

# Prompts share a shelf where the longest has at most so many times the tokens of the shortest.
SPREAD = 1.25

# Added to the scores of places before a prompt. Its exponential is 0, and so is that of a whole
# block of such places once a real one has been seen: with -inf it would be nan until then.
UNSEEN = -1e30

# A prompt to decode: its token ids, and (index, uniform numbers float64) of each of its samples.
Prompt = tuple[list[int], list[tuple[int, np.ndarray]]]


def uniforms(seed: int, prompt: str, index: int, number: int) -> np.ndarray:
    """The uniform numbers in [0, 1) of one sample, float64 [number]; more begin with the same."""
    key = hashlib.sha256(f"{seed}\0{prompt}\0{index}".encode()).digest()[:16]
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little"))).random(number)


def choose(
    logits: Tensor, draws: Tensor, temperature: float, top_p: float, forbidden: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Draw a token for each row of logits.

    The log-probability is the model's own, before temperature and top-p: what DPO, PPO and SteerLM
    2.0 call log pi(y|x). Paper: section 4.3 (temperature 0.7, top-p 0.9).

    Args:
        logits: [R, V].
        draws: [R], uniform numbers in [0, 1).
        temperature: 0 takes the likeliest token.
        top_p: keeps the fewest likeliest tokens whose probabilities at this temperature add up to
            at least top_p.
        forbidden: bool [R, V] or [V], tokens that must not be taken.
    Returns: tokens, int64 [R], and their log-probabilities at temperature 1, float32 [R].
    """
    logits = logits.float()
    allowed = logits if forbidden is None else logits.masked_fill(forbidden, -torch.inf)  # [R, V]
    draws = draws.to(logits.device)
    tokens = allowed.argmax(-1) if temperature == 0 else _draw(allowed / temperature, draws, top_p)
    return tokens, logits.gather(-1, tokens[:, None])[:, 0] - logits.logsumexp(-1)


def _draw(scaled: Tensor, draws: Tensor, top_p: float, first: int = FIRST) -> Tensor:
    """Tokens [R] of logits over the temperature [R, V].

    The `first` likeliest tokens are looked at, then all in rows where these are too few.
    """
    if top_p >= 1:
        return _inverse(scaled.double().softmax(-1), draws)
    total = scaled.logsumexp(-1, keepdim=True).double()  # [R, 1]
    size = scaled.shape[-1]
    if first < size:
        values, ids = scaled.topk(first)  # [R, K] each
    else:  # to sort all is quicker than a topk of all
        values, ids = scaled.sort(dim=-1, descending=True, stable=True)
    p = (values.double() - total).exp()  # [R, K]
    mass = p.cumsum(-1)  # [R, K]
    dropped = mass - p >= top_p  # [R, K]
    if first >= size:
        p = p.masked_fill(dropped, 0.0)
        in_order = torch.zeros_like(p).scatter(-1, ids, p)  # [R, V], in the order of the ids
        return _inverse(in_order, draws)
    # In the order of the ids; those that are not kept come last and have no weight.
    ids, order = ids.masked_fill(dropped, size).sort(-1)
    p = p.gather(-1, order).masked_fill(ids == size, 0.0)  # [R, K]
    tokens = ids.gather(-1, _inverse(p, draws)[:, None])[:, 0]  # [R]
    too_few = mass[:, -1] < top_p  # [R]: top-p keeps more than these
    if too_few.any():
        tokens[too_few] = _draw(scaled[too_few], draws[too_few], top_p, size)
    return tokens


def _inverse(weights: Tensor, draws: Tensor) -> Tensor:
    """Positions [R] at which the cumulated weights [R, K] pass the share draws [R] of their sum."""
    mass = weights.cumsum(-1)  # [R, K]
    position = torch.searchsorted(mass, draws[:, None] * mass[:, -1:], right=True)[:, 0]  # [R]
    return position.clamp(max=mass.shape[-1] - 1)


@dataclass
class Row:
    """One sample: its prompt's number, its uniform numbers, its tokens so far.

    index: of the sample among those of its prompt.
    """

    prompt: int
    index: int
    draws: np.ndarray
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finished: bool = False


@dataclass
class Shelf:
    """Prompts of about one length, whose keys and values are computed with as one batch of P.

    All end at the last place of L. Shorter prompts have unseen places before them.
    """

    lengths: dict[int, int]  # number of the prompt -> its tokens, in the order of the batch
    # layer -> keys, values [P, key heads, L, D] each
    prefix: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    bias: Tensor | None = None  # [P, 1, 1, L], UNSEEN before each prompt; None where nothing is
    n_rows: int = 0  # of the prompt that has most

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max(self.lengths.values())

    def put(self, layer: int, prompt: int, key: Tensor, value: Tensor) -> None:
        """Store a layer's keys and values of a prompt, [1, key heads, its tokens, D] each."""
        if layer not in self.prefix:
            shape = (len(self.lengths), key.shape[1], self.longest, key.shape[3])
            self.prefix[layer] = (key.new_zeros(shape), value.new_zeros(shape))
        position = list(self.lengths).index(prompt)
        keys, values = self.prefix[layer]
        keys[position, :, self.longest - key.shape[2] :] = key[0]
        values[position, :, self.longest - value.shape[2] :] = value[0]

    def slots(self, rows_of: dict[int, list[int]], device: torch.device) -> list[int | None]:
        """Room for equally many rows of each prompt; prompts without any go once half are such.

        rows_of: places of rows by the number of the prompt, of at least one of this shelf's.
        Returns: the place of the row in each slot, prompt after prompt; None where there is none.
        """
        present = [prompt for prompt in self.lengths if prompt in rows_of]
        if 2 * len(present) <= len(self.lengths):
            self._keep(present)
        self.n_rows = max(len(rows_of[prompt]) for prompt in present)
        slots: list[int | None] = []
        for prompt in self.lengths:
            rows = rows_of.get(prompt, [])
            slots += [*rows, *[None] * (self.n_rows - len(rows))]
        self.bias = None
        if min(self.lengths.values()) < self.longest:
            lengths = torch.tensor(list(self.lengths.values()), device=device)  # [P]
            before_end = torch.arange(self.longest, 0, -1, device=device)  # [L]
            unseen = before_end > lengths[:, None]  # [P, L]
            self.bias = (UNSEEN * unseen)[:, None, None]
        return slots

    def _keep(self, prompts: list[int]) -> None:
        """Forget all prompts but these."""
        order = list(self.lengths)
        kept = [order.index(prompt) for prompt in prompts]
        self.lengths = {prompt: self.lengths[prompt] for prompt in prompts}
        for layer, (keys, values) in self.prefix.items():
            self.prefix[layer] = (
                keys[kept, :, -self.longest :].contiguous(),
                values[kept, :, -self.longest :].contiguous(),
            )


def shelves_of(lengths: dict[int, int]) -> list[Shelf]:
    """Prompts, by length, on shelves on which none is more than SPREAD times as long as another."""
    shelves: list[dict[int, int]] = []
    shortest = 0
    for prompt, length in sorted(lengths.items(), key=lambda item: item[1]):
        if not shelves or length > SPREAD * shortest:
            shelves.append({})
            shortest = length
        shelves[-1][prompt] = length
    return [Shelf(shelf) for shelf in shelves]


@dataclass
class Cohort:
    """Samples with equally many tokens, and their keys and values.

    Row r has place r in the cache.
    """

    prompt_lengths: dict[int, int]  # number of the prompt -> its tokens
    device: torch.device
    rows: list[Row] = field(default_factory=list)
    length: int = 0  # tokens in the cache
    shelves: list[Shelf] = field(default_factory=list)
    # The slots S of all shelves, one shelf after the other. What row each computes, int64 [S]: the
    # first one where it has none, whose result nobody reads. And the slot of each row, int64 [R].
    places: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    slot_of: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    # layer -> keys, values [places, key heads, room, D] of the sampled tokens
    cache: dict[int, list[Tensor]] = field(default_factory=dict)

    def regroup(self) -> None:
        """Note which rows belong to which prompt, and forget shelves that have none left."""
        by_prompt: dict[int, list[int]] = {}
        for place, row in enumerate(self.rows):
            by_prompt.setdefault(row.prompt, []).append(place)
        self.shelves = [shelf for shelf in self.shelves if by_prompt.keys() & shelf.lengths.keys()]
        slots: list[int | None] = []
        for shelf in self.shelves:
            slots += shelf.slots(by_prompt, self.device)
        slot_of = {place: slot for slot, place in enumerate(slots) if place is not None}
        # Whole numbers, not masks: to know how many a mask keeps, a GPU's queue is waited for.
        self.places = torch.tensor([place or 0 for place in slots], device=self.device)
        self.slot_of = torch.tensor([slot_of[r] for r in range(len(slot_of))], device=self.device)

    def remove_done(self, max_tokens: int) -> list[Row]:
        """Take out the rows that are finished or have max_tokens tokens, and return them.

        The last row moves into each free place, so that one row is copied and not all.
        """
        done = []
        for place, row in enumerate(self.rows):
            if row.finished or len(row.tokens) == max_tokens:
                done.append(place)
        removed = [self.rows[place] for place in done]
        for place in reversed(done):
            last = self.rows.pop()
            if place == len(self.rows):
                continue
            self.rows[place] = last
            for keys_values in self.cache.values():
                for cache in keys_values:
                    cache[place, :, : self.length] = cache[len(self.rows), :, : self.length]
        if done:
            self.regroup()
        return removed

    def store(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add one token a row to a layer's cache, and return all keys and values there.

        Args:
            layer: its number.
            key: [R, key heads, D].
            value: [R, key heads, D].
        Returns: keys and values, [R, key heads, length + 1, D] each.
        """
        n_rows = len(self.rows)
        if layer not in self.cache:
            self.cache[layer] = [
                x.new_empty(x.shape[0], x.shape[1], 32, x.shape[2]) for x in (key, value)
            ]
        caches = self.cache[layer]
        room = caches[0].shape[2]
        if self.length == room:  # room doubles, so that each token is moved about once
            for i, cache in enumerate(caches):
                caches[i] = cache.new_empty(n_rows, cache.shape[1], 2 * room, cache.shape[3])
                caches[i][:, :, : self.length] = cache[:n_rows]
        keys, values = caches
        keys[:n_rows, :, self.length] = key
        values[:n_rows, :, self.length] = value
        stop = self.length + 1
        return keys[:n_rows, :, :stop], values[:n_rows, :, :stop]


def prefill(
    cohort: Cohort,
    segments: list[tuple[int, int, int]],
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    options: AttentionOptions,
) -> Tensor:
    """One layer's attention of prompts laid end to end, each to itself.

    Stores the prompts' keys and values in the cohort. For `hs2lib.engine.attention.run`, whose
    arguments follow these:

    Args:
        cohort: of the prompts.
        segments: (prompt, start, stop) of each prompt.
    """
    q, k, v = _wide(query, key, value)
    out = torch.empty_like(q)  # [1, heads, T, D]
    shelf_of = {prompt: shelf for shelf in cohort.shelves for prompt in shelf.lengths}
    for prompt, start, stop in segments:
        keys = k[:, :, start:stop].contiguous()
        values = v[:, :, start:stop].contiguous()
        shelf_of[prompt].put(module.layer_idx, prompt, keys, values)
        out[:, :, start:stop] = _causal(module, q[:, :, start:stop], keys, values, options)
    return out.transpose(1, 2).to(query.dtype).contiguous()


def step(
    cohorts: list[Cohort],
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    options: AttentionOptions,
) -> Tensor:
    """One layer's attention of one token for every row of the cohorts, cohort after cohort.

    For `hs2lib.engine.attention.run`, whose arguments follow the cohorts.
    """
    q, k, v = _wide(query, key, value)
    heads = q.shape[1]
    width = q.shape[3]
    key_heads = k.shape[1]
    # Heads that share keys are queries of one attention.
    q = q[0].view(key_heads, heads // key_heads, -1, width)
    q = q.permute(2, 0, 1, 3)  # [rows, key heads, queries of each, D]
    k = k[0].transpose(0, 1)  # [rows, key heads, D]
    v = v[0].transpose(0, 1)  # [rows, key heads, D]
    sizes = [len(cohort.rows) for cohort in cohorts]
    out = []
    for cohort, q_part, k_part, v_part in zip(
        cohorts, q.split(sizes), k.split(sizes), v.split(sizes), strict=True
    ):
        out.append(_of_cohort(cohort, module.layer_idx, q_part, k_part, v_part, options))
    return torch.cat(out).reshape(1, -1, heads, width).to(query.dtype)


def _of_cohort(
    cohort: Cohort, layer: int, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions
) -> Tensor:
    """Attention of a cohort's newest tokens to their prompts and to the tokens sampled so far.

    Args:
        query: [rows, key heads, queries of each, D].
        key, value: [rows, key heads, D].
    Returns: shaped as the query.
    """
    window = options.window
    query = query.contiguous()
    keys, values = cohort.store(layer, key, value)
    if window:
        keys = keys[:, :, -window:]
        values = values[:, :, -window:]
    out, lse = _attend(query, keys, values, options)
    n_seen = None  # tokens of a prompt, its last ones; all without a window
    if window:
        n_seen = window - cohort.length - 1
    if n_seen is None or n_seen > 0:
        prompt_out, prompt_lse = _to_prompts(cohort, layer, query, n_seen, options)
        weight = torch.sigmoid(prompt_lse - lse)[..., None].to(out.dtype)  # of the prompt
        out = out.lerp(prompt_out.to(out.dtype), weight)
        lse = lse.logaddexp(prompt_lse)
    if options.sinks is not None:
        sinks = options.sinks.float().view(lse.shape[1:])
        out *= torch.sigmoid(lse - sinks)[..., None].to(out.dtype)
    return out


def _to_prompts(
    cohort: Cohort, layer: int, query: Tensor, n_seen: int | None, options: AttentionOptions
) -> tuple[Tensor, Tensor]:
    """Attention of each row's newest token to the last n_seen tokens of its prompt.

    Args:
        query: [rows, key heads, queries of each, D].
        n_seen: None for all.
    Returns: shaped as the query, and the log-sum-exps, float32 [rows, key heads, queries of each].
    """
    outs = []
    lses = []
    sizes = [len(shelf.lengths) * shelf.n_rows for shelf in cohort.shelves]
    for shelf, part in zip(cohort.shelves, query[cohort.places].split(sizes), strict=True):
        first = 0 if n_seen is None else max(0, shelf.longest - n_seen)
        keys, values = shelf.prefix[layer]
        bias = None if shelf.bias is None else shelf.bias[..., first:]
        part = part.unflatten(0, (-1, shelf.n_rows)).transpose(1, 2)
        # part: [P, key heads, n, queries, D]
        o, s = _attend(part.flatten(2, 3), keys[:, :, first:], values[:, :, first:], options, bias)
        o = o.unflatten(2, part.shape[2:4]).transpose(1, 2)  # [P, n, key heads, queries, D]
        s = s.unflatten(2, part.shape[2:4]).transpose(1, 2)  # [P, n, key heads, queries]
        outs.append(o.flatten(0, 1))
        lses.append(s.flatten(0, 1))
    return torch.cat(outs)[cohort.slot_of], torch.cat(lses)[cohort.slot_of]


def _wide(*tensors: Tensor) -> list[Tensor]:
    """Queries, keys and values in the precision they are computed in."""
    dtype = tensors[0].dtype
    device = tensors[0].device.type
    if dtype != torch.float64 and device == "cpu":
        dtype = torch.float32  # the CPU kernel is faster and more precise so
    elif torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    return [x.to(dtype) for x in tensors]


def _causal(
    module: torch.nn.Module, q: Tensor, k: Tensor, v: Tensor, options: AttentionOptions
) -> Tensor:
    """Attention [1, heads, L, D] of a prompt's q to its own k and v, within the window."""
    length = q.shape[-2]
    window = options.window
    mask = None
    if options.special or (window and window < length):
        seen = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()  # [L, L]
        if window:
            seen = seen.triu(1 - window)
        mask = torch.zeros(seen.shape, dtype=q.dtype, device=q.device)  # [L, L]
        mask = mask.masked_fill(~seen, -torch.inf)
    if options.special:
        return eager_attention(module, q, k, v, mask, options).transpose(1, 2)
    if mask is None and q.device.type == "cpu":
        return flash(q, k, v, 0.0, True, scale=options.scale)[0]
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=mask is None, scale=options.scale, enable_gqa=True
    )


def _attend(
    q: Tensor, k: Tensor, v: Tensor, options: AttentionOptions, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attention of q [B, heads, Q, D] to all of k, v [B, heads, K, D].

    bias: [B, 1, 1, K], added to the scores.

    Returns: [B, heads, Q, D], and the log-sum-exps, float32 [B, heads, Q].
    """
    softcap = options.softcap
    if q.device.type == "cpu" and not softcap:
        mask = None
        if bias is not None:
            mask = bias.to(q.dtype).expand(-1, -1, q.shape[2], -1)
        return flash(q, k, v, 0.0, False, attn_mask=mask, scale=options.scale)
    scores = (q @ k.transpose(-1, -2)).float() * options.scale  # [B, heads, Q, K]
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    if bias is not None:
        scores = scores + bias
    lse = scores.logsumexp(-1)  # [B, heads, Q]
    return (scores - lse[..., None]).exp().to(v.dtype) @ v, lse


@torch.no_grad()
def decode(
    model: PreTrainedModel,
    prompts: Iterable[Prompt],
    *,
    max_new_tokens: int,
    ends: Callable[[list[int]], bool],
    forbidden: Tensor | None = None,
    min_new_tokens: int = 0,
    batch: int = 128,
    shared: bool = False,
    **sampling: float,
) -> Iterator[Row]:
    """Sample from a causal model, yielding each sample as soon as it is done.

    `Row.prompt` is the prompt's number. There are no gradients; whatever autocast is on stays on.

    Args:
        model: also one with LoRA adapters.
        prompts: (token ids, [(index of a sample, its uniform numbers float64 [max_new_tokens]),
            ..]) of each prompt.
        max_new_tokens: the most tokens of a sample.
        ends: says of a list of tokens whether it ends a response.
        forbidden: bool [V], tokens that must not be taken before min_new_tokens.
        min_new_tokens: the fewest tokens of a sample.
        batch: samples at once.
        shared: for weights that are shared out over processes. They call this alike, and what the
            first one draws holds for all.
        sampling: temperature and top_p of `choose`.
    Raises:
        ValueError: for a model that cannot be sampled from, or a sample that would be too long.
    """
    decoder = prepare(model)  # raises for a model that is scored one by one
    bare = getattr(model, "get_base_model", lambda: model)()
    if why := contract.verdict(bare, "sampling", lambda: _unlike(bare)):
        raise ValueError(f"{type(bare).__name__} cannot be sampled from: {why}")
    device = next(model.parameters()).device

    def advance(cohort: Cohort, logits: Tensor) -> list[Row]:
        """Give each row its next token; those that are done leave and are returned."""
        uniform = [row.draws[len(row.tokens)] for row in cohort.rows]
        draws = torch.from_numpy(np.array(uniform))  # [R]
        early = forbidden if len(cohort.rows[0].tokens) < min_new_tokens else None
        tokens, log_probs = choose(logits, draws, forbidden=early, **sampling)  # [R] each
        if shared:
            distributed.broadcast(tokens, 0)
            distributed.broadcast(log_probs, 0)
        for row, token, log_prob in zip(
            cohort.rows, tokens.tolist(), log_probs.tolist(), strict=True
        ):
            row.tokens.append(token)
            row.log_probs.append(log_prob)
            row.finished = len(row.tokens) >= min_new_tokens and ends(row.tokens)
        return cohort.remove_done(max_new_tokens)

    waiting = iter(prompts)
    upcoming = next(waiting, None)
    number = 0  # of the upcoming prompt
    cohorts = []
    while upcoming is not None or cohorts:
        room = batch - sum(len(cohort.rows) for cohort in cohorts)
        # Not each place that gets free is filled at once: a pass over one short prompt costs as
        # much as a step.
        if upcoming is not None and (room == batch or room >= max(len(upcoming[1]), batch // 4)):
            first = number
            tokens = []
            bounds = [0]
            rows = []
            while upcoming is not None:
                ids, samples = upcoming
                if tokens and (len(rows) + len(samples) > room or len(tokens) + len(ids) > PREFILL):
                    break
                check_length(decoder, len(ids) + max_new_tokens)
                tokens += ids
                bounds.append(len(tokens))
                rows += [Row(number, index, draws) for index, draws in samples]
                number += 1
                upcoming = next(waiting, None)
            cohort, logits = _admit(model, first, tokens, bounds, rows, device)
            cohorts = [*cohorts, cohort]
            stepped = [cohort]
        else:
            stepped = cohorts
            logits = _step(model, cohorts, device)
        sizes = [len(cohort.rows) for cohort in stepped]
        for cohort, part in zip(stepped, logits.split(sizes), strict=True):
            yield from advance(cohort, part)
        cohorts = [cohort for cohort in cohorts if cohort.rows]


def _unlike(model: PreTrainedModel) -> str:
    """How a few sampled tokens differ from transformers', "" where they do not.

    The temperature is so high that all tokens are about as likely. Among the likely tokens of a
    sure model mere rounding would be a large share.
    """
    prompts = []
    for group in contract.examples(model):
        ids = group[0][:-4] or group[0]
        prompts.append((ids, [(i, uniforms(0, str(len(ids)), i, 3)) for i in range(2)]))
    try:
        rows = list(
            decode(
                model,
                prompts,
                max_new_tokens=3,
                ends=lambda tokens: False,
                temperature=1e4,
                top_p=1.0,
            )
        )
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:
        return contract.reason(error)
    unprepare(model)
    theirs = []
    for row in rows:
        ids, _ = prompts[row.prompt]
        theirs.append(contract.plain_log_probs(model, [*ids, *row.tokens])[-3:])
    prepare(model)
    ours = [torch.tensor(row.log_probs, device=model.device) for row in rows]
    return contract.unequal(model, ours, theirs, "the log-probabilities of sampled tokens")


def _admit(
    model: PreTrainedModel,
    first: int,
    tokens: list[int],
    bounds: list[int],
    rows: list[Row],
    device: torch.device,
) -> tuple[Cohort, Tensor]:
    """A cohort of rows with its prompts computed, and the logits [rows, V] of their first tokens.

    Args:
        model: the causal model.
        first: number of the first prompt.
        tokens: of all prompts, each from one of the bounds to the next.
        bounds: as many as prompts and one more.
        rows: the samples of the prompts.
        device: where the model is.
    """
    segments = []  # (prompt, start, stop)
    for i, (start, stop) in enumerate(pairwise(bounds)):
        segments.append((first + i, start, stop))
    lengths = {prompt: stop - start for prompt, start, stop in segments}
    cohort = Cohort(lengths, device, rows, shelves=shelves_of(lengths))
    cohort.regroup()
    positions = torch.cat([torch.arange(stop - start) for _, start, stop in segments])  # [T]
    ends = torch.tensor(bounds[1:], device=device) - 1  # [prompts]
    attention = partial(prefill, cohort, segments)
    out = run(
        model,
        torch.tensor(tokens, device=device),
        positions.to(device),
        attention,
        logits_to_keep=ends,
    )
    return cohort, out.logits[0][torch.tensor([row.prompt - first for row in rows], device=device)]


def _step(model: PreTrainedModel, cohorts: list[Cohort], device: torch.device) -> Tensor:
    """Logits [rows, V] of the next token of every row of the cohorts."""
    last_tokens = []
    depths = []
    for cohort in cohorts:
        for row in cohort.rows:
            last_tokens.append(row.tokens[-1])
            depths.append(cohort.prompt_lengths[row.prompt] + cohort.length)
    tokens = torch.tensor(last_tokens, device=device)  # [rows]
    positions = torch.tensor(depths, device=device)  # [rows]
    logits = run(model, tokens, positions, partial(step, cohorts)).logits[0]  # [rows, V]
    for cohort in cohorts:
        cohort.length += 1
    return logits
