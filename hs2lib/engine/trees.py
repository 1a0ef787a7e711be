"""Groups of token sequences as prefix trees, packed into flat batches without padding.

This module handles integers only, no model; `hs2lib.engine.attention` runs models on its batches.
All sequences of a batch form a forest. Tokens that several sequences share from the start on (a
prompt, a few-shot preamble, the common start of two programs) are one node each. The sequences are
sorted, so the nodes are in preorder: a node's descendants are the indices that follow it, up to
`last`. Token j is therefore visible to token i if and only if j <= i <= last[j].

Paper: silent (the paper scores every response on its own).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice, pairwise, repeat
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

# Neighbouring chains of up to this many tokens in all share one attention call with a dense mask. A
# call costs as much as about 50 tokens attending to each other (float32, one core). Measured as
# `attention` in benchmarks/score_pairs.py.
BLOCK = 64

# Tokens a batch by default: what a CPU's cache holds. 8192 tokens take a quarter longer each (two
# cores, SmolLM2-135M, float32: 512, 1024, 2048, 4096, 8192 gave 7.6, 7.2, 7.1, 7.7, 8.9 s). A GPU
# wants 16384 or more.
BUDGET = 2048

# The token ids of one sequence.
TokenIds = Sequence[int] | np.ndarray

# Which tokens of a sequence to predict: all from an index on, or several (start, stop).
Predicted = int | Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Batch:
    """R sequences of some groups, packed into T tokens; rows R are in the order of the call.

    All tensors are int64:

        tokens [T]: the token ids.
        positions [T]: the depth of each token in its tree.
        parent [T]: index of the token before, -1 at a root.
        last [T]: index of the token's last descendant.
        end [R]: index of each sequence's last token.
        index [R]: which of the caller's sequences a row is, counting through all groups.
        node [P]: index of each token to predict, row by row (asked for by `predict`).
        owner [P]: the row of each token to predict.

    The attention of a batch is given as calls on contiguous ranges, which suit a CPU kernel:

        self_calls: (start, stop, masked). The range attends to itself, by the tree's mask where
            `masked`, otherwise causally.
        cross_calls: (query start, query stop, key start, key stop). Every query attends to every
            key.

    depth: the length of the longest sequence.
    """

    tokens: Tensor
    positions: Tensor
    parent: Tensor
    last: Tensor
    end: Tensor
    index: Tensor
    node: Tensor
    owner: Tensor
    self_calls: tuple[tuple[int, int, bool], ...]
    cross_calls: tuple[tuple[int, int, int, int], ...]
    depth: int

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch with its tensors on `device`."""
        moved = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                moved[field.name] = value.to(device)
        return replace(self, **moved)

    def paths(self) -> Iterator[list[int]]:
        """The indices of each row's tokens, its first token first."""
        parent = self.parent.tolist()
        for end in self.end.tolist():
            path = [end]
            while parent[path[-1]] >= 0:
                path.append(parent[path[-1]])
            yield path[::-1]


class _Group(NamedTuple):
    """A group that is to be packed."""

    number: int  # of the group in the caller's order, for error messages
    first_row: int  # number of its first sequence, counting through all groups
    sequences: list[np.ndarray]
    predict: Sequence[Predicted] | None


def pack(
    token_groups: Sequence[Sequence[TokenIds]],
    predict: Sequence[Sequence[Predicted]] | None = None,
) -> Batch:
    """Pack groups of token sequences into one Batch, rows in the order of the call.

    Args:
        token_groups: groups of sequences of token ids, prompt and response together.
        predict: for each group and sequence, the tokens whose log-probability will be asked for.
            An int means all from there on (the prompt's length), a list holds (start, stop). A
            sequence's first token has nothing before it and is never predicted.
    Raises:
        ValueError: for an empty batch or sequence, and for a start or stop outside its sequence.
    """
    groups = []
    first_row = 0
    arrays = [_arrays(number, group) for number, group in enumerate(token_groups)]
    for number, sequences in enumerate(arrays):
        wanted = predict[number] if predict else None
        groups.append(_Group(number, first_row, sequences, wanted))
        first_row += len(sequences)
    return _pack(groups)


def plan(
    token_groups: Iterable[Sequence[TokenIds]],
    budget: int = BUDGET,
    predict: Iterable[Sequence[Predicted]] | None = None,
    *,
    window: int | None = 4096,
) -> Iterator[Batch]:
    """Yield batches of whole groups, neighbours chosen to share what they can.

    The groups of a window are sorted by their tokens and packed one after another, so an endless
    iterable needs the memory of one window. The batches are the same at every call. `Batch.index`
    puts results into the caller's order (`hs2lib.engine.attention.in_order`).

    Args:
        token_groups: as for `pack`; it may be endless.
        budget: the most tokens of a batch. A larger group is not cut: it gets a batch of its own.
        predict: as for `pack`.
        window: how many groups are sorted at a time; None sorts all.
    Raises:
        ValueError: for an empty group or sequence.
    """
    if predict is None:
        source = enumerate(zip(token_groups, repeat(None), strict=False))
    else:
        source = enumerate(zip(token_groups, predict, strict=True))
    first_row = 0  # number of the next group's first sequence, through all groups
    while items := list(islice(source, window)):
        ready = []  # (sorted keys, group)
        for number, (group, wanted) in items:
            sequences = _arrays(number, group)
            keys = sorted(_key(sequence) for sequence in sequences)
            ready.append((keys, _Group(number, first_row, sequences, wanted)))
            first_row += len(sequences)
        ready.sort(key=lambda item: (item[0], item[1].number))
        yield from _batches(ready, budget)


def _batches(ready: list[tuple[list[bytes], _Group]], budget: int) -> Iterator[Batch]:
    """Pack sorted groups, each behind the sorted keys of its sequences, one after another."""
    chosen = []
    size = 0  # tokens of the chosen groups
    previous = b""  # the last key of the group before
    for keys, group in ready:
        n_tokens = sum(len(sequence) for sequence in group.sequences)
        distinct = n_tokens - sum(_n_shared(a, b) for a, b in pairwise(keys))
        shared = _n_shared(previous, keys[0])
        if chosen and size + distinct - shared > budget:
            yield _pack(chosen)
            chosen = []
            size = 0
            shared = 0
        chosen.append(group)
        # At most this many: the batch is sorted again as a whole and may share more.
        size += distinct - shared
        previous = keys[-1]
    yield _pack(chosen)


def _pack(groups: list[_Group]) -> Batch:
    """The batch of some groups, rows in their order."""
    sequences = [sequence for group in groups for sequence in group.sequences]
    if not sequences:
        raise ValueError("a batch needs at least one sequence")
    spans = []  # of each row: (start, stop) of the tokens to predict
    for group in groups:
        for i, sequence in enumerate(group.sequences):
            wanted = () if group.predict is None else group.predict[i]
            spans.append(_spans(sequence, wanted, group.number, i))
    keys = [_key(sequence) for sequence in sequences]
    tokens = []
    positions = []
    parents = []
    chains = []  # [start, stop, the token that the chain hangs from]
    end = np.empty(len(sequences), np.int64)  # [R]
    predicted: list = [None] * len(sequences)  # of each row: indices of the tokens to predict
    path = np.empty(0, np.int64)  # indices of the current row's tokens
    previous = b""
    size = 0  # tokens packed so far
    for row in sorted(range(len(sequences)), key=keys.__getitem__):
        shared = _n_shared(previous, keys[row])
        n_new = len(sequences[row]) - shared
        previous = keys[row]
        if n_new:
            new_path = np.arange(size, size + n_new)  # [new tokens]
            hangs_from = int(path[shared - 1]) if shared else -1
            tokens.append(sequences[row][shared:])
            positions.append(np.arange(shared, shared + n_new))
            parents.append(np.concatenate([[hangs_from], new_path[:-1]]))
            if shared and hangs_from == size - 1:  # it goes on where the row before ended
                chains[-1][1] = size + n_new
            else:
                chains.append([size, size + n_new, hangs_from])
            path = np.concatenate([path[:shared], new_path])  # [tokens of the row]
            size += n_new
        end[row] = path[-1]
        predicted[row] = np.concatenate([path[:0], *[path[a:b] for a, b in spans[row]]])
    last, self_calls, cross_calls = _attention_calls(np.array(chains))
    index = []
    for group in groups:
        index.append(np.arange(group.first_row, group.first_row + len(group.sequences)))
    owner = np.repeat(np.arange(len(sequences)), [len(nodes) for nodes in predicted])  # [P]
    return Batch(
        tokens=_tensor(np.concatenate(tokens)),
        positions=_tensor(np.concatenate(positions)),
        parent=_tensor(np.concatenate(parents)),
        last=_tensor(last),
        end=_tensor(end),
        index=_tensor(np.concatenate(index)),
        node=_tensor(np.concatenate(predicted)),
        owner=_tensor(owner),
        self_calls=self_calls,
        cross_calls=cross_calls,
        depth=max(len(sequence) for sequence in sequences),
    )


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.astype(np.int64))


def _attention_calls(
    chains: np.ndarray,
) -> tuple[np.ndarray, tuple[tuple[int, int, bool], ...], tuple[tuple[int, int, int, int], ...]]:
    """`last`, `self_calls` and `cross_calls` of a batch, from its chains.

    A chain is a run of tokens that each follow the one before. A token sees its own chain up to
    itself. Of the chain that its own hangs from it sees everything up to that token, and so on to
    the root. Chains that hang from one token are neighbours. So all of them, with what hangs from
    them, read the chain above in a single call.

    chains: [C, 3], start, stop, and the index of the token that the chain hangs from (-1: a root).
    """
    start, stop, hangs_from = chains.T  # [C] each
    above = np.searchsorted(start, hangs_from, side="right") - 1  # [C], the chain it hangs from
    reach = stop - 1  # [C], the last token that hangs from each
    for c in range(len(chains) - 1, -1, -1):
        if hangs_from[c] >= 0:
            reach[above[c]] = max(reach[above[c]], reach[c])
    last = np.repeat(stop - 1, stop - start)  # [T]
    # In order: chains that hang lower come first, and do not reach as far.
    for c in np.flatnonzero(hangs_from >= 0):
        last[start[above[c]] : hangs_from[c] + 1] = reach[c]
    self_calls = []
    block_stop = np.empty(len(chains), np.int64)  # [C], where the block of each chain stops
    c = 0
    while c < len(chains):
        end = c + 1
        while end < len(chains) and stop[end] - start[c] <= BLOCK:
            end += 1
        masked = end > c + 1
        self_calls.append((int(start[c]), int(stop[end - 1]), masked))
        block_stop[c:end] = stop[end - 1]
        c = end
    cross_calls = []
    parents, first_chains = np.unique(hangs_from, return_index=True)
    for parent, c in zip(parents, first_chains, strict=True):
        if parent < 0:
            continue
        # What lies in one block with the chain above has seen it there.
        query_start = max(start[c], block_stop[above[c]])
        query_stop = last[parent] + 1
        if query_start < query_stop:
            key_start = start[above[c]]
            key_stop = parent + 1
            cross_calls.append((int(query_start), int(query_stop), int(key_start), int(key_stop)))
    return last, tuple(self_calls), tuple(cross_calls)


def block_mask(
    last: Tensor, size: int = 128, positions: Tensor | None = None, window: int | None = None
) -> BlockMask:
    """FlexAttention's block mask of a batch, made without looking at T x T pairs.

    A block of keys is seen by a later block of queries where one of the keys has a descendant
    there. It needs no mask where all of the queries are descendants of all of the keys. A block's
    own queries always need the mask.

    Args:
        last: [T], as in `Batch`.
        size: tokens of a block.
        positions: [T], as in `Batch`; needed with a window.
        window: how many tokens of its path each token sees, itself and those before; None: all.
    """
    n_tokens = len(last)
    n_blocks = -(-n_tokens // size)
    padding = n_blocks * size - n_tokens
    last_padded = torch.nn.functional.pad(last, (0, padding), value=-1)
    last_padded = last_padded.view(n_blocks, size)  # [blocks, size]
    first = torch.arange(n_blocks, device=last.device) * size  # [blocks]
    earlier = first[None] < first[:, None]  # [query block, key block]
    all_seen = last_padded.amin(1)[None] >= first[:, None] + size - 1  # [query block, key block]
    full = earlier & all_seen
    # The last block of queries is filled up with none: it needs the mask too.
    full &= (first + size <= n_tokens)[:, None]
    same = first[None] == first[:, None]  # [query block, key block]
    some_seen = last_padded.amax(1)[None] >= first[:, None]  # [query block, key block]
    partial = (earlier & some_seen) | same

    def listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
        """The number of marked key blocks of each query block, and the marked ones first."""
        order = blocks.int().argsort(dim=1, descending=True, stable=True)
        return blocks.sum(1, dtype=torch.int32)[None, None], order.int()[None, None]

    # A tensor, so that windows of all sizes share one compiled kernel.
    reach = torch.tensor(window, device=last.device) if window else None

    def on_path(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = (key <= query) & (query <= last[key])
        if reach is None:
            return seen
        return seen & (positions[query] - positions[key] < reach)

    if window:
        full = torch.zeros_like(full)  # the window may cut any block
    n_partial, partial_order = listed(partial & ~full)
    n_full, full_order = listed(full)
    return BlockMask.from_kv_blocks(
        n_partial,
        partial_order,
        n_full,
        full_order,
        BLOCK_SIZE=size,
        mask_mod=on_path,
        seq_lengths=(n_tokens, n_tokens),
    )


def _arrays(group_number: int, group: Sequence[TokenIds]) -> list[np.ndarray]:
    """A group's sequences as arrays; raises ValueError for what is no sequence of token ids."""
    if not len(group):
        raise ValueError(f"group {group_number} has no sequence")
    sequences = [np.asarray(s) for s in group]
    for i, s in enumerate(sequences):
        if s.ndim != 1 or not len(s) or s.dtype.kind not in "iu" or s.min() < 0:
            raise ValueError(
                f"group {group_number}, sequence {i}: "
                f"token ids are integers >= 0, at least one, got {s!r:.40}"
            )
    return sequences


def _spans(
    sequence: np.ndarray, predicted: Predicted, group_number: int, i: int
) -> list[tuple[int, int]]:
    """Which tokens of a sequence to predict as (start, stop); never its first one."""
    spans = predicted
    if isinstance(predicted, int | np.integer):
        spans = [(predicted, len(sequence))]
    for start, stop in spans:
        if not 0 <= start <= stop <= len(sequence):
            raise ValueError(
                f"group {group_number}, sequence {i}: "
                f"cannot predict tokens {start} to {stop} of {len(sequence)}"
            )
    return [(max(start, 1), stop) for start, stop in spans]


def _key(sequence: np.ndarray) -> bytes:
    """A sequence as big-endian bytes, which compare as its tokens do, and in C."""
    return sequence.astype(">u4").tobytes()


def _n_shared(key: bytes, other: bytes) -> int:
    """The number of tokens that two sequences share from the start on, by their keys."""
    n_bytes = min(len(key), len(other))
    if key[:n_bytes] != other[:n_bytes]:
        differ = np.frombuffer(key, np.uint8, n_bytes) != np.frombuffer(other, np.uint8, n_bytes)
        n_bytes = int(differ.argmax())
    return n_bytes // 4
