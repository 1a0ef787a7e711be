"""Supervised fine-tuning: whole conversations as items, with a loss on what the assistant says.

    conversations = load_conversations(setup)       # groups of one response: one conversation each
    items = prepare(policy, conversations, setup)   # tokens, and which of them are trained
    result = train(policy, items, setup)            # the policy then holds its best or its last weights

Paper: section 4.2. Which tokens are trained is decided here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from hs2lib.data.load import Loaded, load
from hs2lib.engine.chat import Rendered, encode, written
from hs2lib.group import Group, Turn
from hs2lib.models.policy import Policy
from hs2lib.run.setup import Setup
from hs2lib.train import objectives
from hs2lib.train.items import Item, Prepared, cut, labels_of
from hs2lib.train.objectives import Objective
from hs2lib.train.recipes import SFT
from hs2lib.train.trainer import TrainingResult, fit

# What is counted of conversations that become items; of the too long ones not even the first
# exchange fits.
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
    Where all groups have one response they are conversations as they stand. by: the attributes that
    rate, the first that a group has; the first of equals and of the unrated is taken. Conversations
    that are the beginning of another are left out: their turns are trained there. Returns groups of
    one response.
    """
    groups = list(groups)
    if all(len(group.responses) == 1 for group in groups):
        return groups
    by_prompt: dict[tuple, Group] = {}
    ratings: dict[tuple, float] = {}  # of the reply in by_prompt: a prompt may have two groups
    for group in groups:
        rated_by = next((name for name in by if name in group.attributes), "")
        if group.responses:
            rated = np.nan_to_num(labels_of([group], rated_by), nan=-1.0).ravel()
            if rated.max() > ratings.get(group.prompt, -np.inf):
                ratings[group.prompt] = rated.max()
                by_prompt[group.prompt] = replace(
                    group, responses=(group.responses[rated.argmax()],)
                )
    best = {prompt: group.responses[0].text for prompt, group in by_prompt.items()}
    kept, inner = [], set()
    for prompt, group in by_prompt.items():
        before = [i for i, turn in enumerate(prompt) if turn.role == "assistant"]
        # A turn whose siblings are not among the groups has none to be worse than.
        if all(best.get(prompt[:i], prompt[i].text) == prompt[i].text for i in before):
            kept.append(group)
            inner.update(prompt[:i] for i in before)
    return [group for group in kept if group.prompt not in inner]


@dataclass(frozen=True)
class Conversations:
    """Conversations to train on and to validate on, as groups of one response.

    loaded: the rows that they were chosen from. arguments: how, for the run's manifest.
    """

    loaded: Loaded
    training: list[Group]
    validation: list[Group]
    arguments: dict[str, object] = field(default_factory=dict)


Choose = Callable[[Iterable[Group]], list[Group]]


def load_conversations(setup: Setup, choose: Choose = best_paths) -> Conversations:
    """The conversations that the recipe names, with a share of them cut off to validate on.

    Paper: section 4.2. choose: from groups with several responses to conversations, groups of one
    response. Raises as `hs2lib.data.load.load` and `hs2lib.train.items.cut`.
    """
    recipe = setup.recipe
    loaded = load(
        recipe.dataset,
        recipe.source,
        path=recipe.path or None,
        split=recipe.split,
        strict=recipe.strict,
        n_prompts=recipe.n_prompts,
        seed=recipe.seed,
    )
    return conversations(loaded, recipe, choose)


def conversations(loaded: Loaded, recipe: SFT, choose: Choose = best_paths) -> Conversations:
    """`load_conversations` of rows that are here already."""
    shares = {"validation": recipe.validation_share, "train": 1 - recipe.validation_share}
    parts = cut(choose(loaded.groups), shares, recipe.seed)
    return Conversations(loaded, parts["train"], parts["validation"], {"choose": choose})


def tokens_and_mask(policy, talk: Group) -> tuple[list[int], list[bool]]:
    """Token ids of a conversation, and which are the assistant's: each answer with the end of its
    turn.

    Paper: section 4.2 (silent on the mask; loss on assistant turns is the reference code's). Each
    assistant turn is rendered as the answer to what comes before it; its place in the whole is
    where it stands there. The end of a turn is what a sampler stops at (`Policy.ending`), so that a
    policy learns to end; what the template writes after it is not trained. Raises ValueError where
    the template writes earlier turns otherwise than last ones.
    """
    if len(talk.responses) != 1:
        raise ValueError(
            f"group {talk.id} has {len(talk.responses)} responses: choose one (`best_paths`)"
        )
    turns = (*talk.prompt, Turn("assistant", talk.responses[0].text))
    ending = policy.tokenizer.decode(policy.ending())

    def shown(last: int) -> Rendered:
        return written(policy.tokenizer, turns[:last], turns[last].text, **policy.written)

    last, spans = shown(len(turns) - 1), []
    for i, turn in enumerate(turns):
        if turn.role == "assistant":
            part = shown(i)
            if not last.text.startswith(part.text[: part.end]):
                raise ValueError(
                    f"group {talk.id}: the template writes turn {i} otherwise when others follow it"
                )
            spans.append(
                (part.start, part.end + len(ending) * last.text.startswith(ending, part.end))
            )
    ((ids, offsets),) = encode(policy.tokenizer, [last])
    # A token that holds a character of the answer is the answer's, as in `chat.tokenise`.
    mask = [any(a < stop and b > start for start, stop in spans) for a, b in offsets]
    last = max(i for i, trained in enumerate(mask) if trained)
    return ids[: last + 1], mask[: last + 1]


def items(policy: Policy, talks: Iterable[Group]) -> tuple[list[Item], dict[str, int]]:
    """Items to train on, with the runs of trained tokens and their number as targets [1, 1], and
    `COUNTS`.

    A conversation that exceeds `policy.max_tokens` loses its last exchanges, whole ones, so that no
    answer is cut and every turn keeps what came before it. Where not even the first fits, it is
    left out and counted; so is one that the policy refuses for its control strings. Paper: silent.
    Raises ValueError for a group that has not exactly one response, and where nothing is left.
    """
    counts = dict.fromkeys(COUNTS, 0)
    made = []
    for talk in talks:
        if any(policy.refused(talk)):
            counts["refused"] += 1
            continue
        ids, mask = tokens_and_mask(policy, talk)
        edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
        all_runs = list(zip(edges[::2], edges[1::2], strict=True))
        runs = tuple(run for run in all_runs if run[1] <= (policy.max_tokens or len(ids)))
        if not runs:
            counts["too_long"] += 1
            continue
        number = sum(stop - start for start, stop in runs)
        made.append(Item(talk.id, (ids[: runs[-1][1]],), np.array([[number]], np.float32), (runs,)))
        counts["shortened"] += len(runs) < len(all_runs)
    counts |= {
        "conversations": len(made),
        "turns_trained": sum(len(item.starts[0]) for item in made),
    }
    counts |= {"tokens": sum(len(item.sequences[0]) for item in made)}
    counts |= {"tokens_trained": int(sum(item.targets.item() for item in made))}
    if not made:
        raise ValueError(
            f"no conversation fits into {policy.max_tokens} tokens ({counts['too_long']} are longer)"
        )
    return made, counts


def prepare(policy: Policy, conversations: Conversations, setup: Setup) -> Prepared:
    """`items` of both parts."""
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
    callbacks: Sequence = (),
) -> TrainingResult:
    """Train a policy in place; it then holds its best weights, or its last ones without validation
    or `keep`.

    Paper: section 4.2. The recipe says whether all weights are trained or adapters, by our trainer
    or by TRL's. objective: a loss in place of `objectives.sft()`. callbacks: as for
    `hs2lib.train.trainer.fit`. Raises ValueError for an objective with TRL, which has its own, and
    as `fit`.
    """
    recipe = setup.recipe
    if recipe.backend == "trl" and objective is not None:
        raise ValueError(
            f"backend 'trl' trains by TRL's own loss, not by {objective.name}: take backend 'groups'"
        )
    if recipe.method == "lora":
        policy.lora(rank=recipe.lora_rank, alpha=2 * recipe.lora_rank)
    if recipe.backend == "trl":
        from hs2lib.align import trl_backends  # here: importing TRL takes seconds

        return trl_backends.fit_sft(
            policy, items.training, items.validation, recipe, setup.folder, callbacks=callbacks
        )
    objective = objective or objectives.sft()
    result = fit(
        policy,
        items.training,
        items.validation,
        objective,
        recipe,
        setup.folder,
        about={"backend": recipe.backend},
        callbacks=callbacks,
    )
    return replace(result, arguments={"objective": objective})


def nll(policy, items: Sequence[Item], **options) -> float:
    """Mean of -log pi over all trained tokens of the items, nats a token: the loss of SFT.

    Paper: section 4.2. Its exponential is the perplexity of what the assistant says. options: as
    for `Policy.rows`.
    """
    total = policy.rows(items, "log-probs", **options)  # [R]
    return -total.double().sum().item() / sum(item.targets.item() for item in items)


def perplexity(policies: Mapping[str, Policy], items: Prepared, setup: Setup) -> pd.DataFrame:
    """Loss and perplexity of each policy, by name, on the items that are watched; rows are kept in
    the run's folder.

    Paper: silent.
    """
    recipe = setup.recipe
    losses = {}
    for name, policy in policies.items():
        losses[name] = nll(
            policy,
            items.watched,
            budget=recipe.budget,
            autocast=recipe.autocast,
            cache=setup.folder,
        )
    table = pd.DataFrame({"loss, nats a token": losses})
    table["perplexity"] = np.exp(table["loss, nats a token"])
    return table.rename_axis("policy")
