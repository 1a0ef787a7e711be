"""Decoding by a causal model: each prompt computed once for all its samples.

On a CPU, for a model that runs in groups, prompts are computed as prefix trees. Their keys and
values are kept once. Each step attends from all samples to their prompts in one call, and from
every sample to its own tokens in another. The two are joined by their log-sum-exps, which is exact.
Any other model, and any model on a GPU, is sampled by plain transformers, prompt by prompt.

Paper: silent (an exact saving; `generate` repeats the prompt for every sample).
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor, distributed
from torch.nn.functional import pad
from transformers import PreTrainedModel

from hs2lib.engine import contract
from hs2lib.engine.attention import Tree, check_length, flash, prepare, run
from hs2lib.engine.trees import pack

# Top-p looks at so many of the likeliest tokens at first: it rarely keeps more, and sorting V is
# slow.
FIRST = 256

PREFILL = 8192  # tokens of prompts computed in one pass

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


class _Grouped:
    """Samples whose prompts are computed once, on a CPU. R rows, P prompts.

    Args:
        model: a causal model that runs in groups.
        prompts: token ids of each prompt.
        prompt_of: of each row the position of its prompt.
    """

    def __init__(
        self, model: PreTrainedModel, prompts: list[list[int]], prompt_of: list[int]
    ) -> None:
        self.model = model
        self.prompts = prompts
        self.lengths = torch.tensor([len(ids) for ids in prompts])  # [P]
        self.prompt_of = torch.tensor(prompt_of)  # [R]
        # layer -> keys and values of the prompts, [2, P, key heads, L, D]; all of them end at L
        self.prefix: dict[int, Tensor] = {}
        # layer -> keys and values of the sampled tokens, [2, R or more, key heads, room, D]
        self.cache: dict[int, Tensor] = {}
        self.length = 0  # tokens in the cache

    def start(self) -> Tensor:
        """Logits [R, V] of the first tokens."""
        batch = pack([[ids] for ids in self.prompts])
        longest = int(self.lengths.max())
        paths = [torch.tensor(path) for path in batch.paths()]
        nodes = torch.stack([pad(path, (longest - len(path), 0)) for path in paths])  # [P, L]
        attention = partial(self._prefill, Tree(batch), nodes)
        out = run(self.model, batch.tokens, batch.positions, attention, logits_to_keep=batch.end)
        self._place_rows()
        return out.logits[0][self.prompt_of]

    def keep(self, rows: list[int]) -> None:
        """Keep these rows, in this order; most of them have the place that they had."""
        self.prompt_of = self.prompt_of[rows]
        for place, row in enumerate(rows):
            if place == row:
                continue
            for cache in self.cache.values():
                cache[:, place, :, : self.length] = cache[:, row, :, : self.length]
        self._place_rows()

    def step(self, tokens: Tensor) -> Tensor:
        """Logits [R, V] of the tokens after `tokens` [R]."""
        positions = self.lengths[self.prompt_of] + self.length  # [R]
        logits = run(self.model, tokens, positions, self._step).logits[0]
        self.length += 1
        return logits

    def _place_rows(self) -> None:
        """Number the rows of each prompt, and forget prompts once half of them have no row."""
        present = self.prompt_of.unique()
        if 2 * len(present) <= len(self.lengths):
            self.prompt_of = torch.searchsorted(present, self.prompt_of)
            self.lengths = self.lengths[present]
            longest = int(self.lengths.max())
            for layer, prefix in self.prefix.items():
                self.prefix[layer] = prefix[:, present, :, -longest:].contiguous()
        same = self.prompt_of[:, None] == self.prompt_of  # [R, R]
        self.rank = same.tril(-1).sum(1)  # [R], rows of its prompt before each row
        self.n = int(self.rank.max()) + 1  # rows of the prompt that has most
        before_end = torch.arange(int(self.lengths.max()), 0, -1)  # [L]
        unseen = before_end > self.lengths[:, None]  # [P, L]
        self.bias = (UNSEEN * unseen)[:, None, None] if unseen.any() else None  # [P, 1, 1, L]

    def _prefill(
        self,
        tree: Tree,
        nodes: Tensor,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        window: int | None,
    ) -> Tensor:
        """One layer's attention of the prompts, whose keys and values are kept.

        The arguments from the third on are those of `hs2lib.engine.attention.run`.

        Args:
            tree: of the prompts.
            nodes: [P, L], the index of each prompt's tokens in it.
        """
        keys_values = torch.cat([key, value])  # [2, key heads, T, D]
        keys_values = keys_values.to(torch.promote_types(key.dtype, torch.float32))
        self.prefix[module.layer_idx] = keys_values[:, :, nodes].transpose(1, 2).contiguous()
        return tree(module, query, key, value, scale, window)

    def _step(
        self,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        window: int | None,
    ) -> Tensor:
        """One layer's attention of each row's newest token to its prompt and to its own tokens.

        The arguments are those of `hs2lib.engine.attention.run`.
        """
        dtype = torch.promote_types(query.dtype, torch.float32)
        heads = query.shape[1]
        key_heads = key.shape[1]
        # Heads that share keys are queries of one attention.
        q = query[0].to(dtype).unflatten(0, (key_heads, heads // key_heads))
        q = q.permute(2, 0, 1, 3).contiguous()  # [R, key heads, queries of each, D]
        newest = torch.cat([key, value]).to(dtype).transpose(1, 2)  # [2, R, key heads, D]
        keys, values = self._store(module.layer_idx, newest)  # [R, key heads, length + 1, D] each
        prompt_keys, prompt_values = self.prefix[module.layer_idx]  # [P, key heads, L, D] each
        bias = self.bias
        if window:
            keys = keys[:, :, -window:]
            values = values[:, :, -window:]
            n_unseen = max(0, prompt_keys.shape[2] + self.length + 1 - window)
            prompt_keys = prompt_keys[:, :, n_unseen:]
            prompt_values = prompt_values[:, :, n_unseen:]
            bias = None if bias is None else bias[..., n_unseen:]
        out, lse = flash(q, keys, values, 0.0, False, scale=scale)
        if prompt_keys.shape[2]:
            prompt_out, prompt_lse = self._to_prompts(q, prompt_keys, prompt_values, bias, scale)
            out = out.lerp(prompt_out, torch.sigmoid(prompt_lse - lse)[..., None])
        return out.reshape(1, -1, heads, q.shape[-1]).to(query.dtype)

    def _to_prompts(
        self, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Attention of each row's newest token to its prompt.

        Args:
            query: [R, key heads, queries of each, D].
            keys, values: [P, key heads, L, D].
            bias: [P, 1, 1, L] or None.
            scale: of the scores.
        Returns: shaped as the query, and the log-sum-exps [R, key heads, queries of each].
        """
        _, key_heads, n_queries, width = query.shape
        slots = query.new_zeros(len(keys), key_heads, self.n, n_queries, width)
        slots[self.prompt_of, :, self.rank] = query
        mask = None
        if bias is not None:
            mask = bias.to(query.dtype).expand(-1, -1, self.n * n_queries, -1)
        out, lse = flash(slots.flatten(2, 3), keys, values, 0.0, False, attn_mask=mask, scale=scale)
        out = out.unflatten(2, (self.n, -1))[self.prompt_of, :, self.rank]
        lse = lse.unflatten(2, (self.n, -1))[self.prompt_of, :, self.rank]
        return out, lse

    def _store(self, layer: int, newest: Tensor) -> Tensor:
        """Add a token's keys and values [2, R, key heads, D] to a layer's cache.

        Returns: all keys and values there, [2, R, key heads, length + 1, D].
        """
        n_rows = newest.shape[1]
        if layer not in self.cache:
            self.cache[layer] = newest.new_zeros(*newest.shape[:3], 32, newest.shape[3])
        cache = self.cache[layer]
        room = cache.shape[3]
        if self.length == room:  # room doubles, so that each token is moved about once
            cache = pad(cache[:, :n_rows], (0, 0, 0, room))
            self.cache[layer] = cache
        cache[:, :n_rows, :, self.length] = newest
        return cache[:, :n_rows, :, : self.length + 1]


class _Plain:
    """Samples of one prompt by plain transformers, with the methods of `_Grouped`.

    Args:
        model: a causal model.
        prompt: its token ids.
        n: the number of samples.
    """

    def __init__(self, model: PreTrainedModel, prompt: list[int], n: int) -> None:
        self.model = model
        self.prompt = torch.tensor([prompt], device=model.device).expand(n, -1)  # [n, L]
        self.rows = torch.arange(n, device=model.device)  # that are kept
        self.cache = None

    def start(self) -> Tensor:
        """Logits [n, V] of the first tokens."""
        return self._logits(self.prompt)

    def keep(self, rows: list[int]) -> None:
        """Keep these rows; the others are computed all the same."""
        self.rows = self.rows[rows]

    def step(self, tokens: Tensor) -> Tensor:
        """Logits [R, V] of the tokens after `tokens` [R]."""
        newest = torch.zeros_like(self.prompt[:, :1])  # [n, 1]
        newest[self.rows, 0] = tokens.to(newest.device)
        return self._logits(newest)

    def _logits(self, tokens: Tensor) -> Tensor:
        out = self.model(
            input_ids=tokens, past_key_values=self.cache, use_cache=True, logits_to_keep=1
        )
        self.cache = getattr(out, "past_key_values", None)
        if self.cache is None:
            raise ValueError(f"{type(self.model).__name__} keeps no keys and values to sample by")
        return out.logits[self.rows, -1]


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
            ..]) of each prompt. Neighbours of about one length are quickest.
        max_new_tokens: the most tokens of a sample.
        ends: says of a list of tokens whether it ends a response.
        forbidden: bool [V], tokens that must not be taken before min_new_tokens.
        min_new_tokens: the fewest tokens of a sample.
        batch: samples at once.
        shared: for weights that are shared out over processes. They call this alike, and what the
            first one draws holds for all.
        sampling: temperature and top_p of `choose`.
    Raises:
        ValueError: for a model that is no causal decoder, or a sample that would be too long.
    """
    decoder = prepare(model)
    grouped = decoder.device.type == "cpu" and contract.in_groups(decoder.config)
    first = 0  # number of the first prompt of those that are sampled at once
    for some in _batches(prompts, batch if grouped else 1):
        rows = []
        for number, (ids, samples) in enumerate(some, first):
            check_length(decoder, len(ids) + max_new_tokens)
            rows += [Row(number, index, draws) for index, draws in samples]
        if grouped:
            prompt_of = [row.prompt - first for row in rows]
            engine = _Grouped(model, [ids for ids, _ in some], prompt_of)
        else:
            engine = _Plain(model, some[0][0], len(rows))
        first += len(some)
        logits = engine.start()
        while True:
            uniform = [row.draws[len(row.tokens)] for row in rows]
            early = forbidden if len(rows[0].tokens) < min_new_tokens else None
            tokens, log_probs = choose(
                logits, torch.tensor(uniform, dtype=torch.float64), forbidden=early, **sampling
            )  # [R] each
            if shared:
                distributed.broadcast(tokens, 0)
                distributed.broadcast(log_probs, 0)
            kept = list(range(len(rows)))
            for row, token, log_prob in zip(rows, tokens.tolist(), log_probs.tolist(), strict=True):
                row.tokens.append(token)
                row.log_probs.append(log_prob)
                row.finished = len(row.tokens) >= min_new_tokens and ends(row.tokens)
            for place in reversed(range(len(rows))):
                if rows[place].finished or len(rows[place].tokens) == max_new_tokens:
                    if not contract.in_groups(decoder.config):
                        _check_cache(model, some[0][0], rows[place])
                    yield rows[place]
                    # The last row moves into each free place, so that one row is moved and not all.
                    kept[place] = kept[-1]
                    kept.pop()
            if not kept:
                break
            if len(kept) < len(rows):
                rows = [rows[place] for place in kept]
                engine.keep(kept)
            logits = engine.step(torch.tensor([row.tokens[-1] for row in rows]))


def _check_cache(model: PreTrainedModel, prompt: list[int], row: Row) -> None:
    """Raise ValueError where transformers' cache gives a sample other numbers than a whole pass."""
    ids = torch.tensor([prompt + row.tokens], device=model.device)  # [1, T]
    logits = model(input_ids=ids, use_cache=False).logits[0, -len(row.tokens) - 1 : -1].float()
    chosen = logits.gather(1, ids[0, -len(row.tokens) :, None])[:, 0] - logits.logsumexp(-1)
    # A nat more each, so that of log-probabilities near 0 no rounding is compared.
    if not contract.close(torch.tensor(row.log_probs) - 1, chosen.cpu() - 1):
        raise ValueError(
            f"{type(model).__name__} cannot be sampled from: transformers' cache gives its tokens "
            "other log-probabilities than a pass over the whole sequence"
        )


def _batches(prompts: Iterable[Prompt], most: int) -> Iterator[list[Prompt]]:
    """Prompts with up to so many samples and PREFILL tokens together, at least one prompt."""
    chosen: list[Prompt] = []
    n_samples = 0
    n_tokens = 0
    for ids, samples in prompts:
        n_samples += len(samples)
        n_tokens += len(ids)
        if chosen and (n_samples > most or n_tokens > PREFILL):
            yield chosen
            chosen = []
            n_samples = len(samples)
            n_tokens = len(ids)
        chosen.append((ids, samples))
    if chosen:
        yield chosen
