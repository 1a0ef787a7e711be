"""SteerLM: label an SFT set by the reward model, train on it, steer by the labels.

    answers = load_answers(setup)                         # every answer of the conversations, a group each
    labelled = label_answers(answers, setup)              # with the label that the reward model gives it
    prepared = prepare(policy, labelled, setup)           # items, the label line before each answer
    result = train(policy, prepared, setup)
    targets(base, "verbosity", [0, 2, 4])                 # the label strings to ask for

The label line stands before the answer (`hs2lib.engine.chat`), so the policy learns P(answer |
prompt, attributes); at use the line names the attributes that are wanted. The file of labels is the
reference format, one answer a line, which `data.load("daring-anteater", .., path=file)` reads too.
Paper: section 4.5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from hs2lib import paths
from hs2lib.data.load import Loaded, load
from hs2lib.engine.chat import label_string, label_vector, parse_label, whole
from hs2lib.group import MISSING, Group, Response, named_numbers, prompt_string
from hs2lib.models import saved
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.run.setup import Setup
from hs2lib.train import checkpoints, objectives
from hs2lib.train.items import Item
from hs2lib.train.objectives import Objective
from hs2lib.train.trainer import TrainingResult, fit

# The stages


@dataclass(frozen=True)
class Answers:
    """What is labelled: answers, a group of one response each, and the conversations that they are from."""

    loaded: Loaded
    groups: list[Group]


def load_answers(setup: Setup) -> Answers:
    """The recipe's conversations, and as many of their answers as it asks for, drawn by the seed.

    Paper: section 4.5 (all of Daring-Anteater). With `balance` all are labelled, for the labels
    decide which are taken.
    """
    recipe = setup.recipe
    loaded = load(
        recipe.dataset,
        recipe.source,
        split=recipe.split,
        path=recipe.path or None,
        strict=recipe.strict,
        n_prompts=recipe.n_prompts,
        seed=recipe.seed,
    )
    groups = answers(loaded.groups)
    if recipe.single_turn:
        groups = [group for group in groups if len(group.prompt) == 1]
    order = np.random.default_rng(recipe.seed).permutation(len(groups))
    if recipe.n_answers and not recipe.balance:
        order = order[: recipe.n_answers]
    return Answers(loaded, [groups[i] for i in order])


@dataclass(frozen=True)
class Labelled:
    """Labelled answers: groups of one response, its labels in the order of the reward model's
    attributes.

    file: where they are in the reference format. warning: what captions must say of the reward
    model. read and control_strings: the reward model's, for the run's manifest; the model itself is
    let go. arguments: what was passed in place of the method's own.
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
    """Label the answers; with the recipe's `balance` take those whose levels are as even as the set
    allows.

    Paper: section 4.5. reward_model: None for `saved.reward_model`, which is in memory only while
    it labels: the training needs the room. rule: in place of `label`, and called as that is: it
    says which label an answer gets, and writes `file`. Raises ValueError, before anything is
    labelled, where there is no reward model, and where the recipe's `target` or `steer_by` name
    what it does not know.
    """
    recipe = setup.recipe
    arguments = {}
    if reward_model is not None:
        arguments["reward model"] = reward_model.fingerprint()
    if rule is not None:
        arguments["rule"] = rule
    labeller = reward_model or saved.reward_model(setup, frozen=True)
    if labeller is None:
        raise ValueError(
            "the recipe's reward is none, and SteerLM's labels are what a reward model says: name one"
        )
    parse_label(recipe.target, labeller.attributes)
    for attribute in recipe.steer_by:
        targets(recipe.target, attribute, recipe.steer_levels)
    file = setup.folder / "labelled.jsonl"
    groups = (rule or label)(
        answers.groups, labeller, levels=recipe.levels, file=file, **recipe.inference
    )
    if recipe.balance:
        number = recipe.n_answers or len(groups)
        groups = balanced(groups, recipe.steer_by[0], number, recipe.seed, recipe.balance)
    return Labelled(
        groups, file, labeller.warning, labeller.read, labeller.control_strings, arguments
    )


@dataclass(frozen=True)
class Prepared:
    """What is trained on: items, and the labelled answers that they are made of, in the same order.

    left_out: answers that are too long. separated: tokens of the label line that got embeddings of
    their own.
    """

    items: list[Item]
    groups: list[Group]
    left_out: int
    separated: int


def prepare(policy: Policy, labelled: Labelled, setup: Setup) -> Prepared:
    """Items of the labelled answers; the policy is changed where it cannot tell the names of
    attributes apart.

    Paper: section 4.5. Tokens, their number in all: `sum(len(item.sequences[0]) for item in
    prepared.items)`.
    """
    recipe = setup.recipe
    separated = tell_apart(policy, recipe.target, recipe.seed)
    made = items(policy, labelled.groups, recipe.too_long)
    fitting = {item.id for item in made}
    groups = [group for group in labelled.groups if group.id in fitting]
    return Prepared(made, groups, len(labelled.groups) - len(made), separated)


def train(
    policy: Policy,
    prepared: Prepared,
    setup: Setup,
    *,
    objective: Objective | None = None,
    callbacks: Sequence = (),
) -> TrainingResult:
    """Train the policy in place on labelled answers, all its weights or adapters, by our trainer or
    TRL's.

    Paper: section 4.5 ("We trained the SteerLM model following [12]"), which is SFT. objective:
    None for `objectives.sft()`. callbacks: transformers' own, of our trainer. Raises ValueError for
    an objective of one's own where the recipe's backend is trl, and as `hs2lib.train.trainer.fit`.
    """
    recipe = setup.recipe
    if recipe.backend == "trl" and objective is not None:
        raise ValueError(
            "TRL's SFTTrainer has its own loss: with another objective take backend 'groups'"
        )
    if recipe.method == "lora":
        policy.lora(rank=recipe.lora_rank, alpha=2 * recipe.lora_rank)
    if recipe.backend == "trl":
        from hs2lib.align import trl_backends  # here: importing TRL takes seconds

        return trl_backends.fit_sft(policy, prepared.items, [], recipe, setup.folder)
    result = fit(
        policy,
        prepared.items,
        [],
        objective or objectives.sft(),
        recipe,
        setup.folder,
        about={"backend": recipe.backend},
        callbacks=callbacks,
    )
    if objective is not None:
        result = replace(result, arguments={"objective": objective})
    return result


def reference(setup: Setup) -> Policy:
    """The policy from which KL is measured: that of notebook 07, or where there is none what training began with."""
    if setup.dry_run or not setup.saved("07_sft").is_dir():
        return saved.starting_policy(setup)
    return saved.policy(setup, "", "07_sft")


def tokens_of(policy: Policy, item: Item) -> pd.DataFrame:
    """The tokens of an item with one response, as text, and whether each is trained."""
    tokens = item.sequences[0]
    shown = [repr(policy.tokenizer.decode([token])) for token in tokens]
    return pd.DataFrame({"token": shown, "trained": np.arange(len(tokens)) >= item.starts[0]})


# Labels


def answers(groups: Sequence[Group]) -> list[Group]:
    """Every answer of conversations as a group of its own: the turns before it are the prompt, it
    is the response.

    The earlier assistant turns of a prompt count as answers too, unless they are a response of one
    of the groups (as in Open Assistant's trees) or were met before. Ids are "<group id>/<number of
    the turn>", and for the group's own responses "<group id>/<number of the turn>.<number of the
    response>". Paper: section 4.2 (2.88 answers a conversation in Daring-Anteater); one labelled
    answer a row is the reference code's format of HelpSteer. Where it trains on a conversation of
    several answers, each has its label line; here the earlier ones have none.
    """
    out, seen = (
        [],
        {(group.prompt, response.text) for group in groups for response in group.responses},
    )
    for group in groups:
        parts = []  # (name, prompt, response)
        for at, turn in enumerate(group.prompt):
            if turn.role == "assistant" and (group.prompt[:at], turn.text) not in seen:
                seen.add((group.prompt[:at], turn.text))
                parts.append((f"{at}", group.prompt[:at], Response("", turn.text)))
        parts += [
            (f"{len(group.prompt)}.{number}", group.prompt, one)
            for number, one in enumerate(group.responses)
        ]
        for number, prompt, one in parts:
            name = f"{group.id}/{number}"
            out.append(
                replace(
                    group,
                    id=name,
                    prompt=prompt,
                    responses=(replace(one, id=name),),
                    preference=None,
                )
            )
    return out


def label(
    groups: Sequence[Group],
    reward_model: RewardModel,
    *,
    levels: str = "rounded",
    file: Path | None = None,
    **options: object,
) -> list[Group]:
    """Every answer of the groups, labelled with what the reward model predicts, made whole.

    Paper: section 4.5 ("we used the Llama 3 70B Reward Model to annotate the Daring Anteater SFT
    dataset"); clamped to 0-4 and rounded half to even, as in the reference code. Returns groups of
    one response, its labels in the order of the reward model's attributes. levels: "rounded"; or
    "fifths" (ours), for reward models so weak that all their predictions round to two levels: an
    attribute's level is then the fifth of this set that the answer's prediction falls into, so 0
    means "of the least verbose fifth"; or "ratings" (ours), for rated sets: the ratings of people
    instead of the model's, and answers that nobody rated are left out. file: the labelled set in
    the reference format, written whole at the end; the scores lie beside it as they come, so a run
    that was killed goes on. options: budget and autocast of `RewardModel.score`. Raises ValueError
    for "ratings" without one of the attributes.
    """
    each = answers(groups)
    if levels == "ratings":
        each, values = _rated(each, reward_model.attributes)
    else:
        each = [group for group in map(reward_model.admitted, each) if group.responses]
        values = reward_model.score(each, cache=file and file.parent, **options)  # [answers, A]
    if levels == "fifths":
        values = (5 * values.argsort(dim=0, stable=True).argsort(dim=0)).div(
            len(values), rounding_mode="floor"
        )
    out = []
    for group, row in zip(each, values.tolist(), strict=True):
        answer = replace(group.responses[0], labels=whole(row))
        out.append(replace(group, responses=(answer,), attributes=reward_model.attributes))
    if file:
        paths.write(file, paths.json_lines(map(as_row, out)))
    return out


def _rated(each: Sequence[Group], attributes: tuple[str, ...]) -> tuple[list[Group], torch.Tensor]:
    """The answers that have a rating for each attribute, and these, float32 [R, A]."""
    rows = [label_vector(group.responses[0].labels, group.attributes, attributes) for group in each]
    rated = [(group, row) for group, row in zip(each, rows, strict=True) if MISSING not in row]
    if not rated:
        raise ValueError(
            f"no answer is rated on all of {', '.join(attributes)}: let the reward model label them"
        )
    return [group for group, _ in rated], torch.tensor([row for _, row in rated])


def label_of(group: Group) -> str:
    """The label string of a labelled answer, `helpfulness:4,..`."""
    return label_string(group.responses[0].labels, group.attributes)


def as_row(group: Group) -> dict:
    """A labelled answer as a row of the reference format: earlier turns lie inside the user's, the answer is learnt."""
    system = [turn.text for turn in group.prompt[:1] if turn.role == "system"]
    asked = {"value": prompt_string(group.prompt[len(system) :]), "from": "User", "label": None}
    answer = {"from": "Assistant", "value": group.responses[0].text, "label": label_of(group)}
    return {
        "system": "".join(system),
        "mask": "User",
        "dataset": group.source,
        "conversations": [asked, answer],
    }


def counts(labelled: Sequence[Group]) -> pd.DataFrame:
    """How many answers have each level, one row an attribute, columns 0 to 4."""
    values = pd.DataFrame(
        [group.responses[0].labels for group in labelled], columns=labelled[0].attributes
    )
    return pd.DataFrame({level: (values == level).sum() for level in range(5)}).rename_axis(
        "attribute"
    )


def balanced(
    labelled: Sequence[Group],
    attribute: str,
    number: int,
    seed: int,
    levels: Sequence[int] = range(5),
) -> list[Group]:
    """At most `number` of the labelled answers, these levels of one attribute as evenly present as
    the set allows.

    Paper: silent. Nearly all answers have the middle level of an attribute, and a policy that is
    trained on few of them never reads the others. In the set's order; which of a level's answers
    are taken is decided by the seed. Raises ValueError where no answer has one of the levels.
    """
    at = labelled[0].attributes.index(attribute)
    labelled = [group for group in labelled if group.responses[0].labels[at] in levels]
    if not labelled:
        raise ValueError(
            f"no answer has {attribute} at one of the levels {', '.join(map(str, levels))}"
        )
    order = np.random.default_rng(seed).permutation(len(labelled))
    level = pd.Series([labelled[i].responses[0].labels[at] for i in order], index=order)
    turn = level.groupby(
        level
    ).cumcount()  # first the first answer of each level, then the second ones, ..
    return [labelled[i] for i in sorted(turn.sort_values(kind="stable").index[:number])]


def items(policy: Policy, labelled: Sequence[Group], too_long: str = "raise") -> list[Item]:
    """Items for SFT: each answer under its own label line; targets [1, 1] are its number of tokens.

    Paper: section 4.5. The prompt and the label line are read, the answer and the end of its turn
    are learnt; earlier turns carry no label, as none does when the policy is used. too_long:
    "raise", or "leave out" answers that do not fit `policy.max_tokens` even without the older turns
    of their prompt.
    """
    labelled = [group for group in map(policy.admitted, labelled) if group.responses]
    out = []
    for one in filter(None, policy.tokenise(labelled, label_of, too_long=too_long)):
        length = np.array([[len(one.sequences[0]) - one.starts[0]]], np.float32)
        out.append(Item(one.group.id, one.sequences, length, one.starts))
    return out


def targets(base: str, attribute: str, levels: Sequence[int]) -> dict[int, str]:
    """A label string for each level of one attribute, the others as in `base`. Raises ValueError for no such one."""
    values = named_numbers(base)
    if attribute not in values:
        raise ValueError(f"{base!r} does not name {attribute!r}: there is nothing to vary")
    return {
        level: label_string((values | {attribute: level}).values(), tuple(values))
        for level in levels
    }


def tell_apart(policy: Policy, label: str, seed: int = 0) -> int:
    """Give tokens of a label line that look the same to the policy embeddings of their own; returns
    how many did.

    Paper: silent. What a base never read it was taught to write nowhere, all such tokens alike, so
    that in the end they have one embedding: to the small base `verbosity` is `coherence`, and only
    their places differ. Each gets a random vector added, as long as its own. Larger bases know the
    words, and nothing is changed.
    """
    embeddings = policy.backbone.get_input_embeddings().weight
    table = checkpoints.whole(embeddings.detach())  # [V, H]
    tokens = torch.tensor(
        sorted(set(policy.tokenizer(label, add_special_tokens=False)["input_ids"]))
    )  # [tokens]
    rows = table[tokens]  # [tokens, H]
    alike = (
        torch.nn.functional.cosine_similarity(rows[:, None], rows[None], dim=-1).fill_diagonal_(0)
        > 0.99
    )
    tokens = tokens[alike.any(1)]
    noise = torch.randn(
        len(tokens), table.shape[1], generator=torch.Generator().manual_seed(seed)
    ).to(table)
    table[tokens] += table[tokens].norm(dim=1, keepdim=True) * torch.nn.functional.normalize(
        noise, dim=1
    )
    checkpoints.put(embeddings, table)
    return len(tokens)
