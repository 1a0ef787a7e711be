"""Training a reward model: its rows in three parts, its items, what the frozen base knows, the run,
the folder.

    data = reward_training.load_parts(setup)
    model = reward_training.new_model(data, setup)
    prepared = reward_training.prepare(model, data, setup)
    inputs = reward_training.baseline_inputs(model, data, prepared, setup)
    baselines = reward_training.fit_baselines(inputs, setup)
    reward_training.start_head(model, inputs, setup)
    result = reward_training.train(model, prepared, setup)

Paper: section 3, "Training". What is measured of the result is in `hs2lib.evaluate.reward_metrics`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from hs2lib import paths
from hs2lib.data.load import Loaded, load
from hs2lib.group import Group
from hs2lib.models import baselines
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.saved import device
from hs2lib.run.setup import Setup
from hs2lib.train import items, objectives, progress
from hs2lib.train.items import Item
from hs2lib.train.objectives import Objective
from hs2lib.train.recipes import Recipe
from hs2lib.train.trainer import TrainingResult, fit

ItemMaker = Callable[
    ..., tuple[list[Item], dict[str, int]]
]  # of (model, groups, too_long=..), as `items.rated`

SAVED = 1e-4  # how far a score of the saved model may be from that of the trained one: devices round otherwise


# Data


@dataclass(frozen=True)
class Parts:
    """Groups to train on, to choose the checkpoint by, and to measure on.

    groups: by part, "validation", "test" and "train" in this order; a part may be absent. loaded:
    the data set that was cut. held_out: the split that the test part comes from, None where it was
    cut off `loaded`. chosen_on_test: whether the rows that choose the checkpoint are those that it
    is measured on.
    """

    groups: dict[str, list[Group]]
    loaded: Loaded
    held_out: Loaded | None = None
    chosen_on_test: bool = False


def has_own_test_split(recipe: Any) -> bool:
    """Whether the rows that are measured on come from a split that nothing is trained on.

    A file of the user's own has no splits, and split "both" would be tested on rows that it trained
    on.
    """
    return not recipe.path and {recipe.split, recipe.test_split} == {"train", "validation"}


def load_parts(setup: Setup) -> Parts:
    """The rows of a reward model, cut three ways, whole conversations together.

    Paper: section 3 (trained on the train split, chosen by the validation split). Without a share
    of its own to choose by, the test split chooses and measures, which is the paper's way. Raises
    as `hs2lib.data.load.load` and `hs2lib.train.items.cut`.
    """
    recipe = setup.recipe
    options = {"path": recipe.path or None, "strict": recipe.strict, "seed": recipe.seed}
    loaded = load(
        recipe.dataset, recipe.source, split=recipe.split, n_prompts=recipe.n_prompts, **options
    )
    own_split = has_own_test_split(recipe)
    shares = {
        "validation": recipe.validation_share,
        "test": 0.0 if own_split else recipe.test_share,
    }
    shares["train"] = 1 - sum(shares.values())
    groups = items.cut(loaded.groups, shares, recipe.seed)
    if not own_split:
        return Parts(groups, loaded)
    generated = max(10, round(recipe.test_share * recipe.n_prompts))
    held_out = load(
        recipe.dataset, recipe.source, split=recipe.test_split, n_prompts=generated, **options
    )
    groups["test"] = held_out.groups
    if groups["validation"]:
        return Parts(groups, loaded, held_out)
    groups["validation"] = held_out.groups
    return Parts(groups, loaded, held_out, chosen_on_test=True)


# The model


def unrated(data: Parts, setup: Setup) -> list[str]:
    """The recipe's attributes that no response to train on is rated for; [] for a loss of pairs, which has none."""
    if setup.recipe.objective != "regression":
        return []
    train = data.groups["train"]
    return [
        name for name in setup.recipe.attributes if np.isnan(items.labels_of(train, name)).all()
    ]


def new_model(data: Parts, setup: Setup) -> RewardModel:
    """A reward model under a fresh head, an output for each rated attribute; for a loss of pairs
    one, "reward".

    Paper: section 3 (a linear layer on the state of the last token). Where nothing is rated the
    recipe's attributes are kept, and `prepare` refuses the rows. Raises as `RewardModel.new`.
    """
    recipe = setup.recipe
    outputs = ["reward"]
    if recipe.objective == "regression":
        absent = unrated(data, setup)
        outputs = [name for name in recipe.attributes if name not in absent] or list(
            recipe.attributes
        )
    model = RewardModel.new(
        recipe.model_name, attributes=outputs, seed=recipe.seed, **recipe.written
    )
    return model.to(device())


# Items


@dataclass(frozen=True)
class Prepared:
    """Items by part, and how many there are and were left out: a row for each number, a column for
    each part.

    arguments: what `prepare` was asked to do in another way than the recipe's, for the run's
    manifest.
    """

    items: dict[str, list[Item]]
    counts: pd.DataFrame
    arguments: dict[str, object] = field(default_factory=dict)


def item_maker(recipe: Any) -> ItemMaker:
    """How the recipe's loss takes a group: its ratings, or which of its responses is better."""
    if recipe.objective == "regression":
        return items.rated
    return partial(items.compared, attribute=recipe.compare)


def prepare(
    model: RewardModel, data: Parts, setup: Setup, *, make: ItemMaker | None = None
) -> Prepared:
    """Every group of every part as an item of token sequences and targets.

    make: another way to make items, of (model, groups, too_long=..), such as one with labels dealt
    at random. Raises ValueError as `items.rated`, for rows without any label and groups that are
    too long.
    """
    chosen = make or item_maker(setup.recipe)
    made = {}
    counts = {}
    for part, groups in data.groups.items():
        made[part], counts[part] = chosen(model, groups, too_long=setup.recipe.too_long)
    return Prepared(made, pd.DataFrame(counts), {"make": make} if make else {})


# What needs no training


@dataclass(frozen=True)
class BaselineInputs:
    """What baselines read of each response, by part; of "train" only of the first `ridge_groups`
    groups.

    items: the groups. clusters: of each row its conversation (`items.cluster`), text [rows].
    states: of each row the frozen base's state at its last token, float32 [rows, hidden]; no part
    has them where nothing asks for them. known: the parts that baselines are fitted to, which are
    never those that they are measured on.
    """

    items: dict[str, list[Item]]
    clusters: dict[str, np.ndarray]
    states: dict[str, np.ndarray]
    known: tuple[str, ...]


def baseline_inputs(
    model: RewardModel, data: Parts, prepared: Prepared, setup: Setup
) -> BaselineInputs:
    """The frozen base's states and the conversations of all rows; to be called before the model is
    trained.

    Paper: silent. States are kept in the run folder. Several processes share them out, and all call
    this alike.
    """
    recipe = setup.recipe
    used = {**prepared.items, "train": prepared.items["train"][: recipe.ridge_groups or None]}
    conversation = {
        group.id: items.cluster(group) for groups in data.groups.values() for group in groups
    }
    clusters = {}
    states = {}
    for part, part_items in used.items():
        clusters[part] = np.array(
            [conversation[item.id] for item in part_items for _ in item.sequences]
        )
        if recipe.ridge_groups or recipe.head == "ridge":
            states[part] = baselines.frozen_states(
                model, part_items, autocast=recipe.autocast, cache=setup.folder
            )
    known = ("train",) if data.chosen_on_test else ("train", "validation")
    return BaselineInputs(used, clusters, states, known)


def fit_baselines(inputs: BaselineInputs, setup: Setup) -> dict[str, np.ndarray]:
    """Predictions float64 [rows, A] for the test part by name: of the mean, of the log-length, of
    ridge on the states.

    Paper: silent. Each is fitted to the known parts, ridge's alpha chosen by attribute in folds of
    whole conversations.
    """
    labels = np.concatenate(
        [baselines.targets(inputs.items[part])[0] for part in inputs.known]
    )  # [rows, A]
    clusters = np.concatenate([inputs.clusters[part] for part in inputs.known])  # [rows]

    def fitted(by_part: dict[str, np.ndarray]) -> np.ndarray:
        X = np.concatenate([by_part[part] for part in inputs.known])  # [rows, d]
        alpha = baselines.best_alpha(X, labels, clusters, seed=setup.recipe.seed)  # [A]
        W, b = baselines.ridge(X, labels, alpha)  # [d, A], [A]
        return by_part["test"] @ W + b

    lengths = {part: baselines.log_lengths(inputs.items[part]) for part in (*inputs.known, "test")}
    predicted = {"mean": np.tile(baselines.column_means(labels), (len(lengths["test"]), 1))}
    predicted["log-length"] = fitted(lengths)
    if inputs.states:
        predicted["ridge on frozen states"] = fitted(inputs.states)
    return predicted


def start_head(model: RewardModel, inputs: BaselineInputs, setup: Setup) -> None:
    """Put the head where the recipe says: at the ridge solution of the training part, or leave it
    fresh.

    Paper: section 3 has a fresh head. See `baselines.start_head` on the other way.
    """
    if setup.recipe.head != "ridge":
        return
    states = inputs.states["train"]
    targets, _ = baselines.targets(inputs.items["train"])
    clusters = inputs.clusters["train"]
    alpha = baselines.best_alpha(states, targets, clusters, seed=setup.recipe.seed, intercept=False)
    baselines.start_head(model, states, targets, alpha)


# Training


def train(
    model: RewardModel,
    prepared: Prepared,
    setup: Setup,
    *,
    objective: Objective | None = None,
    callbacks: Sequence = (),
) -> TrainingResult:
    """Train a reward model in place and leave it with the weights of its lowest validation loss.

    Paper: section 3 (squared error, two epochs, the checkpoint with the lowest validation loss).
    All weights, or adapters with `method: lora`. objective: another loss than the recipe's; the
    result's `arguments` name it. callbacks: transformers' own, as `progress.Live`. Under torchrun
    every process calls this alike. Raises as `hs2lib.train.trainer.fit`.
    """
    recipe = setup.recipe
    if recipe.method == "lora":
        model.lora(rank=recipe.lora_rank, alpha=2 * recipe.lora_rank)
    result = fit(
        model,
        prepared.items["train"],
        prepared.items["validation"],
        objective or objectives.named(recipe.objective),
        recipe,
        setup.folder,
        about={"head": recipe.head},
        callbacks=callbacks,
    )
    if objective is None:
        return replace(result, arguments=prepared.arguments)
    return replace(result, arguments=prepared.arguments | {"objective": objective})


def shortest_differing(groups: Sequence[Group], number: int = 4) -> list[Group]:
    """The groups with the shortest responses of which no two are equal: of equal ones none can be learnt as better."""
    differing = [
        group
        for group in groups
        if len({one.text for one in group.responses}) == len(group.responses)
    ]
    return sorted(differing, key=lambda group: sum(len(one.text) for one in group.responses))[
        :number
    ]


def learn_by_heart(
    groups: Sequence[Group],
    attributes: Sequence[str],
    setup: Setup,
    *,
    objective: Objective | None = None,
) -> pd.Series:
    """The loss of the small base at each of fifty steps on a few groups: what a sound trainer
    brings near zero.

    Paper: silent. It checks the trainer and the loss, not the base that the recipe trains.
    attributes: the outputs.
    """
    recipe = setup.recipe
    model = RewardModel.new("small", attributes=attributes, seed=recipe.seed)
    by_heart, _ = item_maker(recipe)(model, groups)
    quick = Recipe(
        steps=50,
        batch=len(by_heart),
        learning_rate=2e-3,
        warmup=0,
        autocast="float32",
        save_every=50,
    )
    result = fit(
        model, by_heart, [], objective or objectives.named(recipe.objective), quick, setup.folder
    )
    training, _ = progress.curves(result.history)
    return training.loss


# The folder


def export(model: RewardModel, prepared: Prepared, verdict: str, setup: Setup) -> Path:
    """Save the model in the run folder, whole or not at all, with its verdict; other notebooks
    score with it.

    Paper: silent. verdict: a sentence on what the model is worth,
    `hs2lib.evaluate.reward_metrics.verdict`; who loads the model has it as its `warning` where it
    warns. Under torchrun every process calls this alike. Raises ValueError where the model that is
    read back scores the first test groups otherwise.
    """
    folder = model.save(setup.folder / "model")
    sequences = [item.sequences for item in prepared.items["test"][:4]]
    saved = RewardModel.load(folder).score_tokens(sequences).cpu()
    trained = model.score_tokens(sequences).cpu()
    if not torch.allclose(saved, trained, rtol=SAVED, atol=SAVED):
        largest = (saved - trained).abs().max().item()
        raise ValueError(
            f"{folder}: read back, the model scores otherwise, by up to {largest:.2g}: train it again"
        )
    paths.write(folder / "verdict.txt", verdict + "\n")
    return folder
