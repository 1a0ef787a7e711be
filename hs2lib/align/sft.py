"""Supervised fine-tuning: whole conversations as items, with a loss on what the assistant says.

    conversations = load_conversations(setup)       # groups of one response: one conversation each
    items = prepare(policy, conversations, setup)   # tokens, and which of them are trained
    result = train(policy, items, setup)            # the policy then holds its best or last weights

Paper: section 4.2. Which tokens are trained is decided here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from transformers import TrainerCallback

from hs2lib.align import common
from hs2lib.align.common import Trained, load_rows
from hs2lib.data.load import Loaded
from hs2lib.engine.chat import Rendered, encode, written
from hs2lib.group import Group, Turn
from hs2lib.models.policy import Policy
from hs2lib.runs.setup import Setup
from hs2lib.train import objectives
from hs2lib.train.items import Item, Prepared, cut, labels_of
from hs2lib.train.objectives import Objective

# What is counted of conversations that become items. Of a conversation that is "too_long" not even
# the first exchange fits.
COUNTS = (
    "conversations",
    "turns_trained",
    "shortened",
    "too_long",
    "refused",
    "tokens",
    "tokens_trained",
)


def best_paths(
    groups: Iterable[Group], by: Sequence[str] = ("quality", "helpfulness")
) -> list[Group]:
    """Conversations in which every assistant turn is the best rated reply to what comes before it.

    Paper: silent; of Open Assistant the reference code takes all paths (data set oasst1-paths).
    Where all groups have one response they are conversations already, and are returned unchanged.
    A conversation that is the beginning of another is left out: its turns are trained there.

    Args:
        groups: rated groups.
        by: the attributes that rate, in order of preference; a group is rated by the first that it
            has. Of equally rated responses, and of unrated ones, the first is taken.
    Returns: groups of one response.
    """
    groups = list(groups)
    if all(len(group.responses) == 1 for group in groups):
        return groups
    best_of_prompt = _best_replies(groups, by)
    best_text = {prompt: group.responses[0].text for prompt, group in best_of_prompt.items()}
    conversations = []
    beginnings = set()  # prompts whose conversation goes on in another one
    for prompt, group in best_of_prompt.items():
        answered = [i for i, turn in enumerate(prompt) if turn.role == "assistant"]
        # A turn whose siblings are not among the groups has none to be worse than.
        if all(best_text.get(prompt[:i], prompt[i].text) == prompt[i].text for i in answered):
            conversations.append(group)
            beginnings.update(prompt[:i] for i in answered)
    return [group for group in conversations if group.prompt not in beginnings]


def _best_replies(groups: Sequence[Group], by: Sequence[str]) -> dict[tuple[Turn, ...], Group]:
    """For each prompt a group with its best rated response alone; two groups may share a prompt."""
    best: dict[tuple[Turn, ...], Group] = {}
    best_rating: dict[tuple[Turn, ...], float] = {}
    for group in groups:
        if not group.responses:
            continue
        attribute = next((name for name in by if name in group.attributes), "")
        ratings = np.nan_to_num(labels_of([group], attribute), nan=-1.0).ravel()  # [G]
        if ratings.max() > best_rating.get(group.prompt, -np.inf):
            best_rating[group.prompt] = ratings.max()
            best[group.prompt] = replace(group, responses=(group.responses[ratings.argmax()],))
    return best


@dataclass(frozen=True)
class Conversations:
    """Conversations to train on and to validate on, as groups of one response.

    Attributes:
        loaded: the rows that they were chosen from.
        training: the conversations to train on.
        validation: the conversations to validate on.
        arguments: how they were chosen, for the run's manifest.
    """

    loaded: Loaded
    training: list[Group]
    validation: list[Group]
    arguments: dict[str, object] = field(default_factory=dict)

    @property
    def watched(self) -> list[Group]:
        """The conversations to look at: those held out; else those trained on."""
        return self.validation or self.training


# A rule of conversations: from groups with several responses to groups of one response.
Choose = Callable[[Iterable[Group]], list[Group]]


def load_conversations(setup: Setup, choose: Choose = best_paths) -> Conversations:
    """The conversations that the recipe names, with a share of them cut off to validate on.

    Paper: section 4.2.

    Args:
        setup: the run's recipe and folders.
        choose: a rule in place of `best_paths`.
    Raises: as `hs2lib.data.load.load` and `hs2lib.train.items.cut`.
    """
    recipe = setup.recipe
    loaded = load_rows(recipe)
    shares = {"validation": recipe.validation_share, "train": 1 - recipe.validation_share}
    parts = cut(choose(loaded.groups), shares, recipe.seed)
    return Conversations(loaded, parts["train"], parts["validation"], {"choose": choose})


def tokens_and_mask(policy: Policy, talk: Group) -> tuple[list[int], list[bool]]:
    """Token ids of a conversation, and which of them are trained: the assistant's.

    Paper: section 4.2 (silent on the mask; loss on assistant turns is the reference code's). Each
    assistant turn is rendered as the answer to what comes before it, and is looked for at the same
    place in the whole conversation. The end of a turn is what a sampler stops at (`Policy.ending`).
    It is trained, so that a policy learns to end; what the template writes after it is not.

    Args:
        policy: whose tokenizer and template are used.
        talk: a group of one response.
    Returns: ids and mask, up to the last trained token.
    Raises: ValueError for a group that has not exactly one response, and where the template writes
        earlier turns otherwise than last ones.
    """
    if len(talk.responses) != 1:
        raise ValueError(
            f"group {talk.id} has {len(talk.responses)} responses: choose one (`best_paths`)"
        )
    turns = (*talk.prompt, Turn("assistant", talk.responses[0].text))
    ending = policy.tokenizer.decode(policy.ending())

    def rendered_to(turn: int) -> Rendered:
        """The conversation up to a turn, which is written as the answer."""
        return written(policy.tokenizer, turns[:turn], turns[turn].text, **policy.written)

    whole = rendered_to(len(turns) - 1)
    answers = []  # (start, stop) of each assistant turn, in characters
    for i, turn in enumerate(turns):
        if turn.role != "assistant":
            continue
        beginning = rendered_to(i)
        if not whole.text.startswith(beginning.text[: beginning.end]):
            raise ValueError(
                f"group {talk.id}: the template writes turn {i} otherwise when others follow it"
            )
        stop = beginning.end
        if whole.text.startswith(ending, stop):
            stop += len(ending)
        answers.append((beginning.start, stop))
    ((ids, offsets),) = encode(policy.tokenizer, [whole])

    def in_answer(token_start: int, token_stop: int) -> bool:
        """Whether a token holds a character of an answer, as in `chat.tokenise`."""
        return any(token_start < stop and token_stop > start for start, stop in answers)

    mask = [in_answer(start, stop) for start, stop in offsets]
    last = max(i for i, trained in enumerate(mask) if trained)
    return ids[: last + 1], mask[: last + 1]


def items(policy: Policy, talks: Iterable[Group]) -> tuple[list[Item], dict[str, int]]:
    """Items to train on, and `COUNTS` of what became of the conversations.

    Paper: silent. A conversation that exceeds `policy.max_tokens` loses its last exchanges, whole
    ones, so that no answer is cut and every turn keeps what came before it. Where not even the
    first exchange fits, the conversation is left out and counted. So is one that the policy refuses
    for its control strings.

    Args:
        policy: whose tokenizer, template and length are used.
        talks: groups of one response.
    Returns: the items, and the counts by name. An item's `starts` are the stretches of trained
        tokens; its targets, [1, 1], are the number of these tokens.
    Raises: ValueError for a group that has not exactly one response, and where nothing is left.
    """
    counts = dict.fromkeys(COUNTS, 0)
    trainable = []
    for talk in talks:
        if any(policy.refused(talk)):
            counts["refused"] += 1
            continue
        ids, mask = tokens_and_mask(policy, talk)
        limit = policy.max_tokens or len(ids)
        answers = _stretches(mask)
        fitting = tuple((start, stop) for start, stop in answers if stop <= limit)
        if not fitting:
            counts["too_long"] += 1
            continue
        if len(fitting) < len(answers):
            counts["shortened"] += 1
        _, end = fitting[-1]
        n_trained = sum(stop - start for start, stop in fitting)
        targets = np.array([[n_trained]], np.float32)  # [1, 1]
        trainable.append(Item(talk.id, (ids[:end],), targets, (fitting,)))
        counts["turns_trained"] += len(fitting)
        counts["tokens"] += end
        counts["tokens_trained"] += n_trained
    counts["conversations"] = len(trainable)
    if not trainable:
        raise ValueError(
            f"no conversation fits into {policy.max_tokens} tokens "
            f"({counts['too_long']} are longer)"
        )
    return trainable, counts


def _stretches(mask: Sequence[bool]) -> list[tuple[int, int]]:
    """The stretches (start, stop) of a mask in which it is true."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def prepare(policy: Policy, conversations: Conversations, setup: Setup) -> Prepared:
    """Items of the training and the validation conversations."""
    counts = {}
    validation = []
    if conversations.validation:
        validation, counts["validation"] = items(policy, conversations.validation)
    training, counts["train"] = items(policy, conversations.training)
    return Prepared(training, validation, counts)


def train(
    policy: Policy,
    items: Prepared,
    setup: Setup,
    *,
    objective: Objective | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Trained:
    """Train a policy in place on conversations, by `hs2lib.align.common.train`.

    Paper: section 4.2.

    Args:
        policy: the policy to train.
        items: what `prepare` returned.
        setup: the run's recipe and folders.
        objective: a loss in place of `objectives.sft()`.
        callbacks: as for `common.train`.
    """
    return common.train(
        policy,
        items,
        setup.recipe,
        objective=objective or objectives.sft(),
        folder=setup.folder,
        callbacks=callbacks,
    )


def nll(policy: Policy, items: Sequence[Item], **options: object) -> float:
    """Mean of -log pi over all trained tokens of the items, nats a token: the loss of SFT.

    Paper: section 4.2. Its exponential is the perplexity of what the assistant says. options: as
    for `Policy.rows`.
    """
    log_probs = policy.rows(items, "log-probs", **options)  # [R]
    return -log_probs.double().sum().item() / sum(item.targets.item() for item in items)
