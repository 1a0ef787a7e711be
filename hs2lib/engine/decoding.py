"""Decoding by a causal model: each prompt computed once for all its samples.

Nothing is padded, and a sample that is done leaves. The keys and values of a prompt are kept once.
Each step attends from all its samples to them in one call, and from every sample to its own tokens
in another; the two are joined by their log-sum-exps, which is exact. Prompts that are admitted
together are a cohort, whose samples have equally many tokens; when enough samples are done the next
prompts are admitted beside the others. Paper: silent (an exact saving; `generate` repeats the
prompt for every sample).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, distributed

from hs2lib.engine import contract
from hs2lib.engine.attention import How, check_length, flash, formula, prepare, run, unprepare

FIRST = 256  # how many of the likeliest tokens are looked at first: top-p rarely keeps more, and sorting V is slow


def uniforms(seed: int, prompt: str, index: int, number: int) -> np.ndarray:
    """The uniform numbers in [0, 1) of one sample, float64 [number]; more of them begin with the same ones."""
    key = hashlib.sha256(f"{seed}\0{prompt}\0{index}".encode()).digest()[:16]
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little"))).random(number)


def choose(
    logits: Tensor, draws: Tensor, temperature: float, top_p: float, forbidden: Tensor | None = None
) -> tuple:
    """(tokens int64 [R], their log-probabilities at temperature 1, float32 [R]) of logits [R, V]
    and draws [R].

    Paper: section 4.3 (temperature 0.7, top-p 0.9). top_p keeps the fewest likeliest tokens whose
    probabilities at this temperature add up to at least top_p. temperature 0 takes the likeliest
    token. The log-probability is the model's own, before temperature and top-p: what DPO, PPO and
    SteerLM 2.0 call log pi(y|x). forbidden: bool [R, V] or [V], tokens that shall not be taken.
    """
    logits = logits.float()
    allowed = logits if forbidden is None else logits.masked_fill(forbidden, -torch.inf)  # [R, V]
    draws = draws.to(logits.device)
    tokens = allowed.argmax(-1) if temperature == 0 else _draw(allowed / temperature, draws, top_p)
    return tokens, logits.gather(-1, tokens[:, None])[:, 0] - logits.logsumexp(-1)


def _draw(scaled: Tensor, draws: Tensor, top_p: float, first: int = FIRST) -> Tensor:
    """Tokens [R] of logits over the temperature [R, V]; the `first` likeliest are looked at, then all if too few."""
    if top_p >= 1:
        return _inverse(scaled.double().softmax(-1), draws)
    total, size = scaled.logsumexp(-1, keepdim=True).double(), scaled.shape[-1]  # [R, 1]
    # [R, K] each; to sort all is quicker than a topk of all.
    values, ids = (
        scaled.topk(first) if first < size else scaled.sort(dim=-1, descending=True, stable=True)
    )
    p = (values.double() - total).exp()  # [R, K]
    mass = p.cumsum(-1)  # [R, K]
    wide = (mass[:, -1] < top_p) & (first < size)  # [R]: more than these are kept
    # In the order of the ids, those not kept last and without weight.
    ids, order = ids.masked_fill(mass - p >= top_p, size).sort(-1)
    p = p.gather(-1, order).masked_fill(ids == size, 0.0)  # [R, K]
    tokens = ids.gather(-1, _inverse(p, draws)[:, None])[:, 0]  # [R]
    if wide.any():
        tokens[wide] = _draw(scaled[wide], draws[wide], top_p, size)
    return tokens


def _inverse(weights: Tensor, draws: Tensor) -> Tensor:
    """Positions [R] at which the cumulated weights [R, K] pass the share draws [R] of their sum."""
    mass = weights.cumsum(-1)  # [R, K]
    at = torch.searchsorted(mass, draws[:, None] * mass[:, -1:], right=True)[:, 0]  # [R]
    return at.clamp(max=mass.shape[-1] - 1)


PREFILL = 8192  # tokens of prompts computed in one pass


@dataclass
class Row:
    """One sample on its way: whose it is, its uniform numbers, and the tokens so far with their log-probabilities."""

    prompt: int
    index: int
    draws: np.ndarray
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finished: bool = False


@dataclass
class Cohort:
    """Samples with equally many tokens. Row r has place r in keys and values [places, key heads, room, D]."""

    prompts: dict[int, int]  # number of the prompt -> its length
    rows: list[Row] = field(default_factory=list)
    length: int = 0  # tokens in the cache
    # layer -> prompt -> keys, values [1, key heads, L, D]
    prefix: dict[int, dict[int, tuple[Tensor, ...]]] = field(default_factory=dict)
    own: dict[int, list[Tensor]] = field(default_factory=dict)  # layer -> keys, values
    members: list[tuple[int, Tensor]] = field(default_factory=list)  # prompt, its rows

    def regroup(self) -> None:
        """Note which rows belong to which prompt, and forget prompts that have none left."""
        by_prompt: dict[int, list[int]] = {}
        for place, row in enumerate(self.rows):
            by_prompt.setdefault(row.prompt, []).append(place)
        self.members = [(prompt, torch.tensor(places)) for prompt, places in by_prompt.items()]
        kept = self.prefix.items()
        self.prefix = {
            layer: {prompt: both[prompt] for prompt in by_prompt} for layer, both in kept
        }

    def leave(self, most: int) -> list[Row]:
        """Take out the rows that are finished or have so many tokens, and return them.

        The last row moves into each free place, so that one row is copied and not all.
        """
        done = [
            place for place, row in enumerate(self.rows) if row.finished or len(row.tokens) == most
        ]
        gone = [self.rows[place] for place in done]
        for place in reversed(done):
            last = self.rows.pop()
            if place < len(self.rows):
                self.rows[place] = last
                for cache in (x for both in self.own.values() for x in both):
                    cache[place, :, : self.length] = cache[len(self.rows), :, : self.length]
        if done:
            self.regroup()
        return gone

    def store(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add one token a row, [R, key heads, D], and return all there are, [R, key heads, length + 1, D]."""
        if layer not in self.own:
            self.own[layer] = [
                x.new_empty(x.shape[0], x.shape[1], 32, x.shape[2]) for x in (key, value)
            ]
        caches = self.own[layer]
        if (
            self.length == caches[0].shape[2]
        ):  # room doubles, so that each token is moved about once
            for i, cache in enumerate(caches):
                caches[i] = cache.new_empty(
                    len(self.rows), cache.shape[1], 2 * cache.shape[2], cache.shape[3]
                )
                caches[i][:, :, : self.length] = cache[: len(self.rows)]
        for cache, new in zip(caches, (key, value), strict=True):
            cache[: len(self.rows), :, self.length] = new
        return tuple(cache[: len(self.rows), :, : self.length + 1] for cache in caches)


def prefill(
    cohort: Cohort, segments: list[tuple[int, int, int]], module, query, key, value, how: How
) -> Tensor:
    """One pass over prompts laid end to end: each attends to itself, and its keys and values are
    kept.

    segments: (prompt, start, stop), ..
    """
    q, k, v = _wide(query, key, value)
    out = torch.empty_like(q)  # [1, heads, T, D]
    for prompt, a, b in segments:
        key, value = k[:, :, a:b].contiguous(), v[:, :, a:b].contiguous()
        cohort.prefix.setdefault(module.layer_idx, {})[prompt] = key, value
        out[:, :, a:b] = _causal(module, q[:, :, a:b], key, value, how)
    return out.transpose(1, 2).to(query.dtype).contiguous()


def step(cohorts: list[Cohort], module, query, key, value, how: How) -> Tensor:
    """One pass of one token for every row of the cohorts, row after row, cohort after cohort."""
    q, k, v = _wide(query, key, value)
    (_, heads, _, width), key_heads = q.shape, k.shape[1]
    # [rows, key heads, queries of each, D]: heads that share keys are queries of one attention
    q = q[0].view(key_heads, heads // key_heads, -1, width).permute(2, 0, 1, 3)
    k, v = k[0].transpose(0, 1), v[0].transpose(0, 1)  # [rows, key heads, D]
    sizes = [len(cohort.rows) for cohort in cohorts]
    parts = zip(cohorts, q.split(sizes), k.split(sizes), v.split(sizes), strict=True)
    out = torch.cat([_of_cohort(cohort, module.layer_idx, *part, how) for cohort, *part in parts])
    return out.reshape(1, -1, heads, width).to(query.dtype)


def _of_cohort(cohort: Cohort, layer: int, query, key, value, how: How) -> Tensor:
    query = query.contiguous()
    kept, number = cohort.store(layer, key, value), cohort.length + 1
    out, own = _attend(query, *(x[:, :, -how.window :] if how.window else x for x in kept), how)
    for prompt, places in cohort.members:
        start = (
            max(0, cohort.prompts[prompt] + number - how.window) if how.window else 0
        )  # what the window leaves
        if start >= cohort.prompts[prompt]:
            continue
        places = places.to(query.device)
        part = query[places].transpose(0, 1)  # [key heads, n, queries, D]
        o, s = _attend(
            part.flatten(1, 2)[None], *(x[:, :, start:] for x in cohort.prefix[layer][prompt]), how
        )
        o, s = (x[0].unflatten(1, part.shape[1:3]).transpose(0, 1) for x in (o, s))
        out[places] = out[places].lerp(
            o.to(out.dtype), torch.sigmoid(s - own[places])[..., None].to(out.dtype)
        )
        own[places] = own[places].logaddexp(s)
    if how.sinks is not None:
        out *= torch.sigmoid(own - how.sinks.float().view(own.shape[1:]))[..., None].to(out.dtype)
    return out


def _wide(*tensors: Tensor) -> list[Tensor]:
    """Queries, keys and values in the precision they are computed in."""
    dtype, device = tensors[0].dtype, tensors[0].device.type
    if dtype != torch.float64 and device == "cpu":
        dtype = torch.float32  # the CPU kernel is faster and more precise so
    elif torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    return [x.to(dtype) for x in tensors]


def _causal(module, q, k, v, how: How) -> Tensor:
    """Attention of a prompt's q [1, heads, L, D] to its own k, v, the window's alone: [1, heads, L, D]."""
    mask = None
    if how.special or (how.window and how.window < q.shape[-2]):
        seen = torch.ones(
            q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device
        ).tril()  # [L, L]
        seen = seen.triu(1 - how.window) if how.window else seen
        mask = torch.zeros(seen.shape, dtype=q.dtype, device=q.device).masked_fill(
            ~seen, -torch.inf
        )  # [L, L]
    if how.special:
        return formula(module, q, k, v, mask, how).transpose(1, 2)
    if mask is None and q.device.type == "cpu":
        return flash(q, k, v, 0.0, True, scale=how.scale)[0]
    options = {"attn_mask": mask, "is_causal": mask is None, "scale": how.scale, "enable_gqa": True}
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)


def _attend(q, k, v, how: How) -> tuple[Tensor, Tensor]:
    """Attention of q [B, heads, Q, D] to all of k, v [B, heads, K, D], and the log-sum-exps [B, heads, Q] float32."""
    if q.device.type == "cpu" and not how.softcap:
        return flash(q, k, v, 0.0, False, scale=how.scale)
    scores = (q @ k.transpose(-1, -2)).float() * how.scale  # [B, heads, Q, K]
    scores = torch.tanh(scores / how.softcap) * how.softcap if how.softcap else scores
    lse = scores.logsumexp(-1)  # [B, heads, Q]
    return (scores - lse[..., None]).exp().to(v.dtype) @ v, lse


@torch.no_grad()
def decode(
    model,
    prompts,
    *,
    max_new_tokens: int,
    ends: Callable,
    forbidden=None,
    min_new_tokens=0,
    batch=128,
    shared=False,
    **how,
):
    """Sample from a causal model, yielding each sample as soon as it is done; `Row.prompt` is the
    prompt's number.

    prompts: an iterable of (token ids, [(index of a sample, its uniform numbers float64
    [max_new_tokens]), ..]). ends: says of a list of tokens whether it ends a response. forbidden:
    bool [V], tokens not to be taken before min_new_tokens. batch: samples at once. shared: the
    weights are shared out over processes, which call this alike, and what the first one draws holds
    for all. how: temperature and top_p of `choose`. Without gradients; under whatever autocast is
    on.
    """
    decoder = prepare(model)  # raises for a model that is scored one by one
    bare = getattr(model, "get_base_model", lambda: model)()
    if why := contract.verdict(bare, "sampling", lambda: _unlike(bare)):
        raise ValueError(f"{type(bare).__name__} cannot be sampled from: {why}")
    device = next(model.parameters()).device
    waiting, cohorts, number = iter(prompts), [], 0
    ahead = next(waiting, None)

    def advance(cohort: Cohort, logits: Tensor) -> list[Row]:
        """Give each row its next token; those that are done leave and are returned."""
        draws = torch.from_numpy(
            np.array([row.draws[len(row.tokens)] for row in cohort.rows])
        )  # [R]
        early = forbidden if len(cohort.rows[0].tokens) < min_new_tokens else None
        tokens, log_probs = choose(logits, draws, forbidden=early, **how)  # [R] each
        for drawn in (tokens, log_probs) if shared else ():
            distributed.broadcast(drawn, 0)
        for row, token, log_prob in zip(
            cohort.rows, tokens.tolist(), log_probs.tolist(), strict=True
        ):
            row.tokens.append(token)
            row.log_probs.append(log_prob)
            row.finished = len(row.tokens) >= min_new_tokens and ends(row.tokens)
        return cohort.leave(max_new_tokens)

    while ahead is not None or cohorts:
        room = batch - sum(len(cohort.rows) for cohort in cohorts)
        # Not each place that gets free is filled at once: a pass over one short prompt costs as
        # much as a step.
        if ahead is not None and (room == batch or room >= max(len(ahead[1]), batch // 4)):
            tokens, bounds, rows, first = [], [0], [], number
            while ahead is not None:
                ids, samples = ahead
                if tokens and (len(rows) + len(samples) > room or len(tokens) + len(ids) > PREFILL):
                    break
                check_length(decoder, len(ids) + max_new_tokens)
                tokens += ids
                bounds.append(len(tokens))
                rows += [Row(number, index, draws) for index, draws in samples]
                number, ahead = number + 1, next(waiting, None)
            cohort, logits = _admit(model, first, tokens, bounds, rows, device)
            stepped, cohorts = [cohort], [*cohorts, cohort]
        else:
            stepped, logits = cohorts, _step(model, cohorts, device)
        for cohort, part in zip(
            stepped, logits.split([len(cohort.rows) for cohort in stepped]), strict=True
        ):
            yield from advance(cohort, part)
        cohorts = [cohort for cohort in cohorts if cohort.rows]


def _unlike(model) -> str:
    """How a few sampled tokens differ from transformers', "" where they do not.

    So hot that all tokens are about as likely: of the likely ones of a sure model mere rounding is
    a large share.
    """
    short, long = [group[0][:-4] or group[0] for group in contract.examples(model)]
    prompts = [
        (ids, [(i, uniforms(0, str(len(ids)), i, 3)) for i in range(2)]) for ids in (short, long)
    ]
    options = {"max_new_tokens": 3, "ends": lambda tokens: False, "temperature": 1e4, "top_p": 1.0}
    try:
        rows = list(decode(model, prompts, **options))
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:
        return contract.reason(error)
    unprepare(model)
    theirs = [
        contract.plain_log_probs(model, [*prompts[row.prompt][0], *row.tokens])[-3:] for row in rows
    ]
    prepare(model)
    ours = [torch.tensor(row.log_probs, device=model.device) for row in rows]
    return contract.unequal(model, ours, theirs, "the log-probabilities of sampled tokens")


def _admit(
    model, first: int, tokens: list[int], bounds: list[int], rows: list[Row], device
) -> tuple[Cohort, Tensor]:
    """A cohort of rows with its prompts computed, and the logits [rows, V] of their first tokens.

    first: number of the first prompt. tokens: of all prompts, each from one of the bounds to the
    next.
    """
    segments = [(first + i, a, b) for i, (a, b) in enumerate(pairwise(bounds))]
    cohort = Cohort({number: b - a for number, a, b in segments}, rows)
    cohort.regroup()
    positions = torch.cat([torch.arange(b - a) for _, a, b in segments]).to(device)  # [T]
    ends = torch.tensor(bounds[1:], device=device) - 1  # [prompts]
    attention = partial(prefill, cohort, segments)
    out = run(model, torch.tensor(tokens, device=device), positions, attention, logits_to_keep=ends)
    return cohort, out.logits[0][torch.tensor([row.prompt - first for row in rows], device=device)]


def _step(model, cohorts: list[Cohort], device) -> Tensor:
    """Logits [rows, V] of the next token of every row of the cohorts."""
    rows = [
        (row, cohort.prompts[row.prompt] + cohort.length)
        for cohort in cohorts
        for row in cohort.rows
    ]
    tokens = torch.tensor([row.tokens[-1] for row, _ in rows], device=device)  # [rows]
    positions = torch.tensor([position for _, position in rows], device=device)  # [rows]
    logits = run(model, tokens, positions, partial(step, cohorts)).logits[0]  # [rows, V]
    for cohort in cohorts:
        cohort.length += 1
    return logits
