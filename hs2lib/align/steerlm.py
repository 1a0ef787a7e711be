"""SteerLM: label an SFT set by the reward model, train on it, steer by the labels.

    answers = load_answers(setup)                # every answer of the conversations, a group each
    labelled = label_answers(answers, setup)     # with the label that the reward model gives it
    items = prepare(policy, labelled, setup)     # the label line before each answer
    result = train(policy, items, setup)
    targets(base, "verbosity", [0, 2, 4])        # the label strings to ask for

Paper: section 4.5. The label line stands before the answer (`hs2lib.engine.chat`), so the policy
learns P(answer | prompt, attributes). When the policy is used, the line names the attributes that
are wanted. The file of labels is the reference format, one answer a line;
`data.load("daring-anteater", .., path=file)` reads it too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import cosine_similarity, normalize
from transformers import TrainerCallback

from hs2lib import paths
from hs2lib.align import common
from hs2lib.align.common import Trained, load_rows
from hs2lib.data.load import Loaded
from hs2lib.engine import checkpoints
from hs2lib.engine.chat import as_labels, label_string, label_vector, parse_label
from hs2lib.group import MISSING, Group, Response, Turn, named_numbers, prompt_string
from hs2lib.models import saved
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs.setup import Setup
from hs2lib.train import objectives
from hs2lib.train.items import Item, Prepared
from hs2lib.train.objectives import Objective

# The stages


@dataclass(frozen=True)
class Answers:
    """What is labelled.

    Attributes:
        loaded: the conversations that the answers are from.
        groups: the answers, a group of one response each.
    """

    loaded: Loaded
    groups: list[Group]


def load_answers(setup: Setup) -> Answers:
    """The recipe's conversations, and as many of their answers as it asks for, drawn by the seed.

    Paper: section 4.5 (all of Daring-Anteater). With `balance` all answers are labelled, because
    the labels decide which are taken.
    """
    recipe = setup.recipe
    loaded = load_rows(recipe)
    groups = answers(loaded.groups)
    if recipe.single_turn:
        groups = [group for group in groups if len(group.prompt) == 1]
    order = np.random.default_rng(recipe.seed).permutation(len(groups))
    if recipe.n_answers and not recipe.balance:
        order = order[: recipe.n_answers]
    return Answers(loaded, [groups[i] for i in order])


@dataclass(frozen=True)
class Labelled:
    """Labelled answers, and what is reported of the reward model, which is let go.

    Attributes:
        groups: groups of one response, its labels in the order of the reward model's attributes.
        file: where the answers are in the reference format.
        warning: what captions must say of the reward model.
        read: the reward model's, for the run's manifest.
        control_strings: the reward model's, for the run's manifest.
        arguments: the rule, and a reward model that was passed, for the run's manifest.
    """

    groups: list[Group]
    file: Path
    warning: str
    read: dict[str, str]
    control_strings: dict[tuple, bool]
    arguments: dict[str, object] = field(default_factory=dict)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self.groups[0].attributes


def label_answers(
    answers: Answers,
    setup: Setup,
    *,
    reward_model: RewardModel | None = None,
    rule: Callable[..., list[Group]] | None = None,
) -> Labelled:
    """Label the answers; with the recipe's `balance` take a part that has the levels evenly.

    Paper: section 4.5.

    Args:
        answers: what `load_answers` returned.
        setup: the run's recipe and folders.
        reward_model: what labels. None takes `saved.reward_model`, which is in memory only while it
            labels: the training needs the room.
        rule: in place of `label`, and called as that is. It says which label an answer gets, and
            writes `file`.
    Raises: ValueError, before anything is labelled, where there is no reward model, and where the
        recipe's `target` or `steer_by` name what it does not know.
    """
    recipe = setup.recipe
    label_by = rule or label
    arguments = {"rule": label_by}
    if reward_model is not None:
        arguments["reward model"] = reward_model.fingerprint()
    labeller = reward_model or saved.reward_model(setup, frozen=True)
    if labeller is None:
        raise ValueError(
            "the recipe's reward is none, and SteerLM's labels are what a reward model says: "
            "name one"
        )
    # Names that the reward model does not know raise here, before anything is labelled.
    parse_label(recipe.target, labeller.attributes)
    for attribute in recipe.steer_by:
        targets(recipe.target, attribute, recipe.steer_levels)
    file = setup.folder / "labelled.jsonl"
    groups = label_by(answers.groups, labeller, levels=recipe.levels, file=file, **recipe.inference)
    if recipe.balance:
        number = recipe.n_answers or len(groups)
        groups = balanced(groups, recipe.steer_by[0], number, recipe.seed, recipe.balance)
    return Labelled(
        groups=groups,
        file=file,
        warning=labeller.warning,
        read=labeller.read,
        control_strings=labeller.control_strings,
        arguments=arguments,
    )


def prepare(policy: Policy, labelled: Labelled, setup: Setup) -> Prepared:
    """Items of the labelled answers.

    Paper: section 4.5. The policy is changed where it cannot tell the names of attributes apart
    (`tell_apart`).

    Returns: the items, and counted of them: "answers", "too_long", which are left out, and
        "separated", the tokens of the label line that got embeddings of their own.
    """
    recipe = setup.recipe
    separated = tell_apart(policy, recipe.target, recipe.seed)
    fitting = items(policy, labelled.groups, recipe.too_long)
    counts = {
        "answers": len(fitting),
        "too_long": len(labelled.groups) - len(fitting),
        "separated": separated,
    }
    return Prepared(fitting, [], {"train": counts})


def train(
    policy: Policy,
    items: Prepared,
    setup: Setup,
    *,
    objective: Objective | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Trained:
    """Train the policy in place on labelled answers, by `hs2lib.align.common.train`.

    Paper: section 4.5 ("We trained the SteerLM model following [12]"), which is SFT.

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


# Labels


def answers(groups: Sequence[Group]) -> list[Group]:
    """Every answer of conversations as a group of its own; its prompt is the turns before it.

    Paper: section 4.2 (2.88 answers a conversation in Daring-Anteater). One labelled answer a row
    is the reference code's format of HelpSteer. Where the reference code trains on a conversation
    of several answers, each has its label line; here the earlier ones have none.

    The earlier assistant turns of a prompt count as answers too. Not so where they are a response
    of one of the groups (as in Open Assistant's trees) or were met before. Ids are "<group
    id>/<number of the turn>", and for the group's own responses "<group id>/<number of the
    turn>.<number of the response>".
    """
    seen = set()  # (prompt, text) of answers
    for group in groups:
        seen.update((group.prompt, response.text) for response in group.responses)
    of_all = []
    for group in groups:
        for position, turn in enumerate(group.prompt):
            before = group.prompt[:position]
            if turn.role == "assistant" and (before, turn.text) not in seen:
                seen.add((before, turn.text))
                of_all.append(_answer(group, str(position), before, Response("", turn.text)))
        for number, response in enumerate(group.responses):
            name = f"{len(group.prompt)}.{number}"
            of_all.append(_answer(group, name, group.prompt, response))
    return of_all


def _answer(group: Group, name: str, prompt: tuple[Turn, ...], response: Response) -> Group:
    """One answer of a group as a group of its own; its id is "<group id>/<name>"."""
    id = f"{group.id}/{name}"
    responses = (replace(response, id=id),)
    return replace(group, id=id, prompt=prompt, responses=responses, preference=None)


def label(
    groups: Sequence[Group],
    reward_model: RewardModel,
    *,
    levels: str = "rounded",
    file: Path | None = None,
    **options: object,
) -> list[Group]:
    """Every answer of the groups, labelled with what the reward model predicts, in whole levels.

    Paper: section 4.5 ("we used the Llama 3 70B Reward Model to annotate the Daring Anteater SFT
    dataset"). Predictions are clamped to 0-4 and rounded half to even, as in the reference code.

    Args:
        groups: conversations.
        reward_model: what labels.
        levels: "rounded", as above. "fifths" (ours), for reward models so weak that all their
            predictions round to two levels: the level is the fifth of this set that the prediction
            falls into, so 0 means "of the least verbose fifth". "ratings" (ours), for rated sets:
            the ratings of people instead of the model's; answers that nobody rated are left out.
        file: where the labelled set is written in the reference format, whole, at the end. The
            scores lie beside it as they come, so a run that was killed goes on.
        **options: budget and autocast of `RewardModel.score`.
    Returns: groups of one response, its labels in the order of the reward model's attributes.
    Raises: ValueError for "ratings" where no answer is rated on all attributes.
    """
    to_label = answers(groups)
    if levels == "ratings":
        to_label, values = _rated(to_label, reward_model.attributes)  # values [answers, A]
    else:
        admitted = [reward_model.admitted(group) for group in to_label]
        to_label = [group for group in admitted if group.responses]
        cache = file.parent if file else None
        values = reward_model.score(to_label, cache=cache, **options)  # [answers, A]
    if levels == "fifths":
        ranks = values.argsort(dim=0, stable=True).argsort(dim=0)  # [answers, A], from 0
        values = (5 * ranks).div(len(values), rounding_mode="floor")
    labelled = []
    for group, row in zip(to_label, values.tolist(), strict=True):
        answer = replace(group.responses[0], labels=as_labels(row))
        labelled.append(replace(group, responses=(answer,), attributes=reward_model.attributes))
    if file:
        paths.write(file, paths.json_lines(map(as_row, labelled)))
    return labelled


def _rated(
    groups: Sequence[Group], attributes: tuple[str, ...]
) -> tuple[list[Group], torch.Tensor]:
    """The answers that are rated on all attributes, and their ratings, float32 [answers, A]."""
    rated = []
    ratings = []
    for group in groups:
        row = label_vector(group.responses[0].labels, group.attributes, attributes)
        if MISSING not in row:
            rated.append(group)
            ratings.append(row)
    if not rated:
        raise ValueError(
            f"no answer is rated on all of {', '.join(attributes)}: let the reward model label them"
        )
    return rated, torch.tensor(ratings)


def label_of(group: Group) -> str:
    """The label string of a labelled answer, `helpfulness:4,..`."""
    return label_string(group.responses[0].labels, group.attributes)


def as_row(group: Group) -> dict:
    """A labelled answer as a row of the reference format.

    Earlier turns lie inside the user's text; the answer is learnt.
    """
    system = [turn.text for turn in group.prompt[:1] if turn.role == "system"]
    turns = group.prompt[len(system) :]
    question = {"value": prompt_string(turns), "from": "User", "label": None}
    answer = {"from": "Assistant", "value": group.responses[0].text, "label": label_of(group)}
    return {
        "system": "".join(system),
        "mask": "User",
        "dataset": group.source,
        "conversations": [question, answer],
    }


def balanced(
    labelled: Sequence[Group],
    attribute: str,
    number: int,
    seed: int,
    levels: Sequence[int] = range(5),
) -> list[Group]:
    """At most `number` of the labelled answers, the levels of one attribute as even as can be.

    Paper: silent. Nearly all answers have the middle level of an attribute, and a policy that is
    trained on few of them never reads the others.

    Args:
        labelled: labelled answers.
        attribute: the attribute whose levels are made even.
        number: how many answers to take at most.
        seed: decides which of a level's answers are taken.
        levels: answers with other levels are left out.
    Returns: the answers, in the set's order.
    Raises: ValueError where no answer has one of the levels.
    """
    column = labelled[0].attributes.index(attribute)
    labelled = [group for group in labelled if group.responses[0].labels[column] in levels]
    if not labelled:
        raise ValueError(
            f"no answer has {attribute} at one of the levels {', '.join(map(str, levels))}"
        )
    order = np.random.default_rng(seed).permutation(len(labelled))
    level = pd.Series([labelled[i].responses[0].labels[column] for i in order], index=order)
    # Take the first answer of each level, then the second ones, ..
    turn = level.groupby(level).cumcount()
    taken = turn.sort_values(kind="stable").index[:number]
    return [labelled[i] for i in sorted(taken)]


def items(policy: Policy, labelled: Sequence[Group], too_long: str = "raise") -> list[Item]:
    """Items for SFT: each answer under its own label line.

    Paper: section 4.5. The prompt and the label line are read, the answer and the end of its turn
    are learnt. Earlier turns carry no label, as none does when the policy is used.

    Args:
        policy: whose tokenizer, template and length are used.
        labelled: labelled answers.
        too_long: "raise", or "leave out" answers that do not fit `policy.max_tokens` even without
            the older turns of their prompt.
    Returns: items, whose targets [1, 1] are the answer's number of tokens.
    """
    admitted = [policy.admitted(group) for group in labelled]
    admitted = [group for group in admitted if group.responses]
    out = []
    for tokens in policy.tokenise(admitted, label_of, too_long=too_long):
        if tokens is None:  # too long
            continue
        length = len(tokens.sequences[0]) - tokens.starts[0]
        target = np.array([[length]], np.float32)
        out.append(Item(tokens.group.id, tokens.sequences, target, tokens.starts))
    return out


def targets(base: str, attributes: str | Sequence[str], levels: Sequence[int]) -> dict[int, str]:
    """A label string for each level of one attribute or of several, the others as in `base`.

    Raises ValueError where `base` does not name an attribute.
    """
    values = named_numbers(base)
    varied = (attributes,) if isinstance(attributes, str) else tuple(attributes)
    for attribute in varied:
        if attribute not in values:
            raise ValueError(f"{base!r} does not name {attribute!r}: there is nothing to vary")
    strings = {}
    for level in levels:
        asked = {**values, **dict.fromkeys(varied, level)}
        strings[level] = label_string(asked.values(), tuple(values))
    return strings


def tell_apart(policy: Policy, label: str, seed: int = 0) -> int:
    """Separate the embeddings of a label line's tokens that look the same to the policy.

    Paper: silent. Tokens that a base never read it was taught to write nowhere, all alike, so in
    the end they have one embedding. To the small base `verbosity` is `coherence`, and only their
    places differ. Each gets a random vector added, as long as its own. Larger bases know the words,
    and nothing is changed.

    Args:
        policy: the policy, changed in place.
        label: a label string.
        seed: of the random vectors.
    Returns: the number of tokens whose embedding changed.
    """
    embeddings = policy.backbone.get_input_embeddings().weight
    table = checkpoints.full_tensor(embeddings.detach())  # [V, H]
    ids = policy.tokenizer(label, add_special_tokens=False)["input_ids"]
    tokens = torch.tensor(sorted(set(ids)))  # [tokens]
    rows = table[tokens]  # [tokens, H]
    similarity = cosine_similarity(rows[:, None], rows[None], dim=-1)  # [tokens, tokens]
    alike = similarity.fill_diagonal_(0) > 0.99
    tokens = tokens[alike.any(1)]
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(tokens), table.shape[1], generator=generator).to(table)
    lengths = table[tokens].norm(dim=1, keepdim=True)  # [tokens, 1]
    table[tokens] += lengths * normalize(noise, dim=1)
    checkpoints.fill_parameter(embeddings, table)
    return len(tokens)
