"""Multi-turn prompts from user turns alone: new assistant turns, each the best of n candidates.

Paper: appendix F. The released prompts hold no assistant turn of ShareGPT's. A 22B model trained
for it wrote new ones and knew all user turns in advance. Each turn is the candidate of 16 with the
best average rank under three scores. The paper's models were not released, so the sampler and the
scores are callables here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from hs2lib.group import Group, Response, Turn
from hs2lib.paths import read_yaml

_HIDDEN: str = read_yaml(__file__, "patterns.yaml")["hidden"]

# (conversation that ends with the user, n) -> n candidates
Sampler = Callable[[tuple[Turn, ...], int], list[str]]

# (conversation, candidate, user turns to come) -> a number, higher is better
Score = Callable[[tuple[Turn, ...], str, tuple[str, ...]], float]


def hidden_prompt(user_turns: Sequence[str]) -> str:
    """The first user turn of the scheme.

    It shows the whole conversation with the assistant's turns hidden, and then turn one.

    Paper: appendix F, step 3. A model trained with an ordinary causal mask then sees the user turns
    to come.
    """
    hidden = "\nAssistant: <hidden>\n".join(f"User: {turn}" for turn in user_turns)
    return _HIDDEN.format(hidden=hidden, first=user_turns[0])


def scheme(user_turns: Sequence[str], assistant_turns: Sequence[str]) -> tuple[Turn, ...]:
    """The conversation as the completing model sees it, up to the next assistant turn.

    Paper: appendix F. The first user turn is `hidden_prompt`, the later ones are as they were.

    Raises:
        ValueError: every user turn has its answer.
    """
    if len(assistant_turns) >= len(user_turns):
        raise ValueError(
            f"{len(assistant_turns)} assistant turns for {len(user_turns)} user turns: "
            "nothing is left to write"
        )
    turns = [Turn("user", hidden_prompt(user_turns))]
    for reply, user in zip(assistant_turns, user_turns[1:], strict=False):
        turns.append(Turn("assistant", reply))
        turns.append(Turn("user", user))
    return tuple(turns)


def branch_pairs(siblings: Iterable[Group], conversations: Iterable[Group]) -> Iterator[Group]:
    """Pairs that teach what fits the rest of a conversation: the reply in it, and one beside it.

    Paper: appendix F, step 4 (of Open Assistant's trees). The prompts are in the scheme, so that a
    reward model knows the user turns to come. Each assistant turn that a user turn follows makes a
    pair with every other reply to the same turns.

    Args:
        siblings: prompts with replies to them, as of data set oasst1.
        conversations: whose prompts end with the user, as of oasst1-paths; their responses are not
            read.

    Returns: groups of two responses, the one in the conversation first, preference -1.
    """
    replies = {group.prompt: group.responses for group in siblings}
    seen = set()
    for conversation in conversations:
        turns = conversation.prompt
        if turns in seen:
            continue
        seen.add(turns)
        user_turns = [turn.text for turn in turns if turn.role == "user"]
        for position, turn in enumerate(turns):
            if turn.role != "assistant":
                continue
            before = turns[:position]
            said = [earlier.text for earlier in before if earlier.role == "assistant"]
            others = [one for one in replies.get(before, ()) if one.text != turn.text]
            for other in others:
                name = f"{conversation.id}/{position}/{other.id}"
                two = (Response(f"{name}/in", turn.text), Response(f"{name}/beside", other.text))
                prompt = scheme(user_turns, said)
                yield Group(name, prompt, two, preference=-1.0, source=conversation.source)


def mean_ranks(scores: np.ndarray) -> np.ndarray:
    """The average rank of each candidate under several scores; rank 1 has the highest score.

    Paper: appendix F, step 5 (ranks, because the scores have no common unit). The paper is silent
    on ties. Here equal scores share the mean of their ranks, so that a score that cannot tell
    candidates apart has no say.

    Args:
        scores: [candidates, scores], higher is better.

    Returns:
        float64 [candidates].

    Raises:
        ValueError: a score is nan, which has no rank.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or np.isnan(scores).any():
        raise ValueError(
            f"scores must be [candidates, scores] without nan, got shape {scores.shape}"
        )
    return rankdata(-scores, method="average", axis=0).mean(axis=1)


def best_mean_rank(scores: np.ndarray) -> int:
    """The position of the candidate with the best average rank, of scores [candidates, scores].

    Paper: appendix F ("the response with best average rank among the 16 candidates is chosen").
    The paper is silent on ties. Here the better rank under the first score decides (it judges the
    whole conversation), then the second and so on, then the earlier candidate.
    """
    scores = np.asarray(scores, dtype=np.float64)
    ranks = rankdata(-scores, method="min", axis=0)  # [candidates, scores]
    keys = np.column_stack([mean_ranks(scores).round(9), ranks])  # [candidates, 1 + scores]
    return min(range(len(keys)), key=lambda i: (*keys[i], i))


class Choice(NamedTuple):
    """How one assistant turn was chosen.

    candidates: the texts. scores: [candidates, scores]. ranks: the mean rank of each candidate.
    taken: the position of the one that was chosen.
    """

    candidates: tuple[str, ...]
    scores: np.ndarray
    ranks: np.ndarray
    taken: int


def complete(
    user_turns: Sequence[str], sample: Sampler, scores: Sequence[Score], n: int = 16
) -> tuple[tuple[Turn, ...], list[Choice]]:
    """Write the assistant turns of a conversation of which only the user's are known.

    Paper: appendix F, step 5. Of n candidates for an assistant turn the one with the best average
    rank is taken, and then comes the next turn. The last user turn stays unanswered: it is what the
    responses to be rated will answer.

    Args:
        user_turns: the texts of the user, first to last.
        sample: called with the scheme so far and n, it returns the candidates.
        scores: each is called with the plain conversation (without `hidden_prompt`), a candidate
            and the user turns to come. It returns a number, higher is better.
        n: candidates for a turn.

    Returns:
        The turns, a user's first and last, and one `Choice` for each assistant turn.

    Raises:
        ValueError: there is no user turn or no score, or the sampler returns another number of
            candidates.
    """
    if not user_turns or not scores:
        raise ValueError("complete needs at least one user turn and at least one score")
    turns = [Turn("user", user_turns[0])]
    replies = []
    choices = []
    for position in range(1, len(user_turns)):
        candidates = list(sample(scheme(user_turns, replies), n))
        if len(candidates) != n:
            raise ValueError(
                f"the sampler was asked for {n} candidates and returned {len(candidates)}"
            )
        coming = tuple(user_turns[position:])
        rows = []
        for candidate in candidates:
            rows.append([float(score(tuple(turns), candidate, coming)) for score in scores])
        values = np.array(rows)  # [candidates, scores]
        taken = best_mean_rank(values)
        choices.append(Choice(tuple(candidates), values, mean_ranks(values), taken))
        replies.append(candidates[taken])
        turns.append(Turn("assistant", candidates[taken]))
        turns.append(Turn("user", user_turns[position]))
    return tuple(turns), choices
