"""Groups of token sequences as prefix trees, packed into flat batches without padding.

Only integers, no model. All sequences of a batch form a forest: tokens that a set of sequences
share from the start on (a prompt, a few-shot preamble, the common start of two programs) are one
node each. Sorting the sequences puts the nodes in preorder, so a node's descendants are the indices
that follow it, up to `last`: token j is visible to token i iff j <= i <= last[j]. Paper: silent
(the paper scores every response on its own); `hs2lib.engine.attention` runs models on these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice, pairwise, repeat

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

# Consecutive chains of up to this many tokens in all share one attention call with a dense mask: a
# call costs as much as about 50 tokens attending to each other (float32, one core). Measured, as
# `attention` in benchmarks/score_pairs.py.
BLOCK = 64

# Tokens a batch by default: what a CPU's cache holds. 8192 tokens take a quarter longer each (two
# cores, SmolLM2-135M, float32: 512, 1024, 2048, 4096, 8192 gave 7.6, 7.2, 7.1, 7.7, 8.9 s); a GPU
# wants 16384 or more.
BUDGET = 2048


@dataclass(frozen=True, slots=True)
class Batch:
    """R sequences of some groups packed into T tokens; tensors are int64. Rows R are in the order
    of the call.

    tokens [T], positions [T] (depth in the tree), parent [T] (index of the token before; -1 at a
    root), last [T] (the last descendant). end [R]: index of each sequence's last token. index [R]:
    which of the caller's sequences a row is, counting through all groups. node [P]: index of each
    token to predict, row by row (asked for by `predict`); owner [P]: its row.

    The attention of a batch as calls on contiguous ranges of it, which a CPU kernel is good at:
    `own`: (start, stop, masked): the range attends to itself, causally or, where `masked`, by the
    tree's mask. `cross`: (query start, query stop, key start, key stop): every query attends to
    every key.
    """

    tokens: Tensor
    positions: Tensor
    parent: Tensor
    last: Tensor
    end: Tensor
    index: Tensor
    node: Tensor
    owner: Tensor
    own: tuple[tuple[int, int, bool], ...]
    cross: tuple[tuple[int, int, int, int], ...]

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch with its tensors on `device`."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(
            self, **{name: x.to(device) for name, x in values.items() if isinstance(x, Tensor)}
        )

    @property
    def depth(self) -> int:
        """The length of the longest sequence."""
        return int(self.positions.max()) + 1

    def paths(self) -> Iterator[list[int]]:
        """The indices of each row's tokens, its first token first."""
        parent = self.parent.tolist()
        for end in self.end.tolist():
            path = [end]
            while parent[path[-1]] >= 0:
                path.append(parent[path[-1]])
            yield path[::-1]


def pack(token_groups: Sequence, predict: Sequence | None = None) -> Batch:
    """Pack groups of token sequences into one Batch, rows in the order of the call.

    token_groups: groups of sequences of token ids (lists or integer arrays, prompt and response
    together). predict: for each group and sequence the tokens whose log-probability will be asked
    for: an int (all from there on: the prompt's length) or a list of (start, stop). A sequence's
    first token has nothing before it and is never predicted. Raises ValueError for an empty batch
    or sequence, and for a start or stop outside its sequence.
    """
    groups = [(g, _arrays(g, group)) for g, group in enumerate(token_groups)]
    starts = [0, *np.cumsum([len(sequences) for _, sequences in groups])]
    return _pack([(g, starts[g], s, predict[g] if predict else None) for g, s in groups])


def plan(
    token_groups, budget: int = BUDGET, predict=None, *, window: int | None = 4096
) -> Iterator[Batch]:
    """Yield batches of at most `budget` tokens, groups whole, neighbours chosen to share what they
    can.

    Of `window` groups at a time (None: of all) the groups are sorted by their tokens and packed one
    after another, so an endless iterable needs the memory of one window. Deterministic;
    `Batch.index` puts results into the caller's order (`hs2lib.engine.attention.in_order`). A group
    larger than the budget gets a batch of its own: nothing is cut. Raises ValueError for an empty
    group or sequence.
    """
    source = enumerate(
        zip(token_groups, repeat(None) if predict is None else predict, strict=predict is not None)
    )
    first = 0  # number of the window's first sequence, through all groups
    while items := list(islice(source, window)):
        ready = []
        for g, (group, spans) in items:
            sequences = _arrays(g, group)
            # Big-endian bytes compare as the tokens do, and in C.
            ready.append(
                (sorted(s.astype(">u4").tobytes() for s in sequences), g, first, sequences, spans)
            )
            first += len(sequences)
        ready.sort(key=lambda item: item[:2])
        chosen, size, before = [], 0, b""
        for keys, g, start, sequences, spans in ready:
            inside = sum(map(len, keys)) // 4 - sum(
                _common(a, b) // 4 for a, b in pairwise(keys)
            )  # distinct tokens
            shared = _common(before, keys[0]) // 4
            if chosen and size + inside - shared > budget:
                yield _pack(chosen)
                chosen, size, shared = [], 0, 0
            chosen.append((g, start, sequences, spans))
            # At most this many: the batch is sorted again as a whole and may share more.
            size += inside - shared
            before = keys[-1]
        yield _pack(chosen)


def _pack(groups: list) -> Batch:
    """`groups`: (group number, number of its first sequence, sequences, what to predict)."""
    sequences = [s for _, _, group, _ in groups for s in group]
    if not sequences:
        raise ValueError("a batch needs at least one sequence")
    spans = []
    for g, _, group, wanted in groups:
        spans += [
            _spans(s, wanted[i] if wanted is not None else (), g, i) for i, s in enumerate(group)
        ]
    keys = [s.astype(">u4").tobytes() for s in sequences]
    tokens, positions, parents, chains = [], [], [], []
    end = np.empty(len(sequences), np.int64)  # [R]
    node: list = [None] * len(sequences)
    path, before, size = np.empty(0, np.int64), b"", 0
    for row in sorted(range(len(sequences)), key=keys.__getitem__):
        shared = _common(before, keys[row]) // 4
        new = len(sequences[row]) - shared
        before = keys[row]
        if new:
            own = np.arange(size, size + new)  # [new tokens]
            at = int(path[shared - 1]) if shared else -1
            tokens.append(sequences[row][shared:])
            positions.append(np.arange(shared, shared + new))
            parents.append(np.concatenate([[at], own[:-1]]))
            if shared and at == size - 1:  # goes on where the sequence before ended
                chains[-1][1] = size + new
            else:
                chains.append([size, size + new, at])
            path = np.concatenate([path[:shared], own])  # [tokens of the row]
            size += new
        end[row] = path[-1]
        node[row] = np.concatenate([path[:0], *[path[a:b] for a, b in spans[row]]])
    last, *calls = _attention(np.array(chains))
    index = np.concatenate(
        [np.arange(start, start + len(group)) for _, start, group, _ in groups]
    )  # [R]
    owner = np.repeat(np.arange(len(sequences)), [len(n) for n in node])  # [P]
    arrays = [
        np.concatenate(tokens),
        np.concatenate(positions),
        np.concatenate(parents),
        last,
        end,
        index,
    ]
    tensors = [torch.from_numpy(a.astype(np.int64)) for a in [*arrays, np.concatenate(node), owner]]
    return Batch(*tensors, *calls)


def _attention(chains: np.ndarray) -> tuple[np.ndarray, tuple, tuple]:
    """The last descendant of every token, and the attention calls: `last`, `own` and `cross` of a
    batch.

    chains [C, 3]: start, stop, and the index of the token the chain hangs from (-1: a root). A
    chain is a run of tokens that each follow the one before; a token sees its own chain up to
    itself, and of the chain that its own hangs from everything up to that token, and so on to the
    root. Chains that hang from one token are neighbours, so all of them, with what hangs from them,
    read the chain above in a single call.
    """
    start, stop, at = chains.T  # [C] each
    above = np.searchsorted(start, at, side="right") - 1  # [C], the chain that each hangs from
    reach = stop - 1  # [C], the last token that hangs from each
    for c in range(len(chains) - 1, -1, -1):
        if at[c] >= 0:
            reach[above[c]] = max(reach[above[c]], reach[c])
    last = np.repeat(stop - 1, stop - start)  # [T]
    for c in np.flatnonzero(
        at >= 0
    ):  # in order: chains that hang lower come first, and do not reach as far
        last[start[above[c]] : at[c] + 1] = reach[c]
    own, closed = [], np.empty(len(chains), np.int64)  # closed: where the block of a chain stops
    c = 0
    while c < len(chains):
        end = c + 1
        while end < len(chains) and stop[end] - start[c] <= BLOCK:
            end += 1
        own.append((int(start[c]), int(stop[end - 1]), end > c + 1))
        closed[c:end] = stop[end - 1]
        c = end
    cross = []
    hung, firsts = np.unique(at, return_index=True)
    for node, c in zip(hung, firsts, strict=True):
        if node >= 0:
            # What lies in one block with the chain above has seen it there.
            begin, end = max(start[c], closed[above[c]]), last[node] + 1
            if begin < end:
                cross.append((int(begin), int(end), int(start[above[c]]), int(node) + 1))
    return last, tuple(own), tuple(cross)


def block_mask(
    last: Tensor, size=128, positions: Tensor | None = None, window: int | None = None
) -> BlockMask:
    """FlexAttention's block mask of a batch from its `last` [T], without looking at T x T pairs.

    window: of the tokens of its path each sees itself and those before, so many in all, by
    `positions` [T].

    A block of keys is seen by a later block of queries where one of them has a descendant there,
    and needs no mask where all of them have all of the queries as descendants; a block's own
    queries always need the mask.
    """
    n = len(last)
    blocks = -(-n // size)
    padded = torch.nn.functional.pad(last, (0, blocks * size - n), value=-1).view(
        blocks, size
    )  # [blocks, size]
    first = torch.arange(blocks, device=last.device) * size  # [blocks]
    earlier = first[None] < first[:, None]  # [query block, key block]
    full = earlier & (padded.amin(1)[None] >= first[:, None] + size - 1)  # [query block, key block]
    # The last block of queries is filled up with none: it needs the mask too.
    full &= (first + size <= n)[:, None]
    partly = (earlier & (padded.amax(1)[None] >= first[:, None])) | (first[None] == first[:, None])

    def listed(which: Tensor) -> tuple[Tensor, Tensor]:
        order = which.int().argsort(dim=1, descending=True, stable=True)  # [query block, key block]
        return which.sum(1, dtype=torch.int32)[None, None], order.int()[None, None]

    # A tensor, so that windows of all sizes share one compiled kernel.
    reach = torch.tensor(window, device=last.device) if window else None

    def on_path(b, h, query, key):
        seen = (key <= query) & (query <= last[key])
        return seen if reach is None else seen & (positions[query] - positions[key] < reach)

    if window:
        full = torch.zeros_like(full)  # the window may cut any block
    lists = *listed(partly & ~full), *listed(full)
    return BlockMask.from_kv_blocks(*lists, BLOCK_SIZE=size, mask_mod=on_path, seq_lengths=(n, n))


def _arrays(g: int, group: Sequence) -> list[np.ndarray]:
    if not len(group):
        raise ValueError(f"group {g} has no sequence")
    sequences = [np.asarray(s) for s in group]
    for i, s in enumerate(sequences):
        if s.ndim != 1 or not len(s) or s.dtype.kind not in "iu" or s.min() < 0:
            raise ValueError(
                f"group {g}, sequence {i}: token ids are integers >= 0, at least one, got {s!r:.40}"
            )
    return sequences


def _spans(sequence: np.ndarray, wanted, g: int, i: int) -> list[tuple[int, int]]:
    spans = [(wanted, len(sequence))] if isinstance(wanted, int | np.integer) else wanted
    for a, b in spans:
        if not 0 <= a <= b <= len(sequence):
            raise ValueError(
                f"group {g}, sequence {i}: cannot predict tokens {a} to {b} of {len(sequence)}"
            )
    return [(max(a, 1), b) for a, b in spans]


def _common(a: bytes, b: bytes) -> int:
    """The length of the common start in bytes."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    return int((np.frombuffer(a, np.uint8, n) != np.frombuffer(b, np.uint8, n)).argmax())
