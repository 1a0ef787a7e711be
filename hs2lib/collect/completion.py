"""Multi-turn prompts from user turns alone: new assistant turns, each the best of n candidates.

Paper: appendix F. The released prompts hold no assistant turn of ShareGPT's: a 22B model trained
for it wrote new ones, knowing all user turns in advance, and each turn is the candidate of 16 with
the best average rank of three scores. The sampler and the three scores are callables here: the
paper's models were not released.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from hs2lib.group import Turn
from hs2lib.paths import read_yaml

_HIDDEN: str = read_yaml(__file__, "patterns.yaml")["hidden"]

Sampler = Callable[
    [tuple[Turn, ...], int], list[str]
]  # conversation ending with the user, n -> n candidates

Score = Callable[
    [tuple[Turn, ...], str, tuple[str, ...]], float
]  # conversation, candidate, user turns to come


def hidden_prompt(user_turns: Sequence[str]) -> str:
    """The first user turn of the scheme: the whole conversation with the assistant's turns hidden,
    then turn one.

    Paper: appendix F, step 3. Lets a model trained with an ordinary causal mask see the user turns
    to come.
    """
    hidden = "\nAssistant: <hidden>\n".join(f"User: {turn}" for turn in user_turns)
    return _HIDDEN.format(hidden=hidden, first=user_turns[0])


def scheme(user_turns: Sequence[str], assistant_turns: Sequence[str]) -> tuple[Turn, ...]:
    """The conversation as the completing model sees it, up to the next assistant turn to be
    written.

    Paper: appendix F: the first user turn is hidden_prompt, the later ones are as they were. Raises
    ValueError where every user turn has its answer.
    """
    if len(assistant_turns) >= len(user_turns):
        raise ValueError(
            f"{len(assistant_turns)} assistant turns for {len(user_turns)} user turns: nothing is left to write"
        )
    out = [Turn("user", hidden_prompt(user_turns))]
    for reply, user in zip(assistant_turns, user_turns[1:], strict=False):
        out += [Turn("assistant", reply), Turn("user", user)]
    return tuple(out)


def mean_ranks(scores: np.ndarray) -> np.ndarray:
    """The average rank of each candidate under several scores, higher scores first: 1 is the best
    rank.

    Paper: appendix F, step 5 (ranks, because the scores have no common unit). Paper silent on ties:
    equal scores share the mean of their ranks, so that a score that cannot tell candidates apart
    has no say. scores [candidates, scores]; returns float64 [candidates]. Raises ValueError for
    nan, which has no rank.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or np.isnan(scores).any():
        raise ValueError(
            f"scores must be [candidates, scores] without nan, got shape {scores.shape}"
        )
    return rankdata(-scores, method="average", axis=0).mean(axis=1)


def best_mean_rank(scores: np.ndarray) -> int:
    """The position of the candidate with the best average rank.

    Paper: appendix F ("the response with best average rank among the 16 candidates is chosen").
    Paper silent on ties: the better rank under the first score decides (it judges the whole
    conversation), then the second and so on, then the earlier candidate.
    """
    scores = np.asarray(scores, dtype=np.float64)
    keys = np.column_stack([mean_ranks(scores).round(9), rankdata(-scores, method="min", axis=0)])
    return min(range(len(keys)), key=lambda i: (*keys[i], i))


class Choice(NamedTuple):
    """How one assistant turn was chosen: candidates, scores [candidates, scores], mean ranks, the one taken."""

    candidates: tuple[str, ...]
    scores: np.ndarray
    ranks: np.ndarray
    taken: int


def complete(
    user_turns: Sequence[str], sample: Sampler, scores: Sequence[Score], n: int = 16
) -> tuple[tuple[Turn, ...], list[Choice]]:
    """Write the assistant turns of a conversation of which only the user's are known.

    Paper: appendix F, step 5: for each assistant turn, n candidates; the best average rank is kept;
    then the next turn. `sample(scheme so far, n)` returns candidates; each `score(conversation,
    candidate, user turns to come)` a number, higher is better, where the conversation is the plain
    one (no hidden_prompt). The last user turn stays unanswered: it is what the responses to be
    rated will answer. Returns (turns, user first and last; one Choice per assistant turn). Raises
    ValueError for no user turn, no score, and a sampler that returns another number of candidates.
    """
    if not user_turns or not scores:
        raise ValueError("complete needs at least one user turn and at least one score")
    turns, choices = [Turn("user", user_turns[0])], []
    for position in range(1, len(user_turns)):
        candidates = list(sample(scheme(user_turns, [turn.text for turn in turns[1::2]]), n))
        if len(candidates) != n:
            raise ValueError(
                f"the sampler was asked for {n} candidates and returned {len(candidates)}"
            )
        coming = tuple(user_turns[position:])
        values = np.array(
            [[float(score(tuple(turns), c, coming)) for score in scores] for c in candidates]
        )
        taken = best_mean_rank(values)
        choices.append(Choice(tuple(candidates), values, mean_ranks(values), taken))
        turns += [Turn("assistant", candidates[taken]), Turn("user", user_turns[position])]
    return tuple(turns), choices
