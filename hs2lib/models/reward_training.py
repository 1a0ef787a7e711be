"""Training a reward model: its rows, its items, its baselines, the run and the folder.

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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import distributed

from hs2lib import paths
from hs2lib.data import held_out as held_out_rows
from hs2lib.data import own
from hs2lib.data.load import Loaded, load
from hs2lib.data.pairs import own_preferences
from hs2lib.group import Group
from hs2lib.models import baselines, derived
from hs2lib.models import export as classifiers
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.models.saved import SOURCES, device
from hs2lib.names import OWN_PAIRS
from hs2lib.runs.setup import Setup
from hs2lib.train import items, objectives, recipes
from hs2lib.train.items import Item
from hs2lib.train.objectives import Objective
from hs2lib.train.trainer import TrainingResult, fit

if TYPE_CHECKING:
    from transformers import TrainerCallback

# Makes items of (model, groups, too_long=..), and counts them, as `items.rated` does.
ItemMaker = Callable[..., tuple[list[Item], dict[str, int]]]

# How far a score of the saved model may be from that of the trained one: devices round otherwise.
SAVED = 1e-4


# Data


@dataclass(frozen=True)
class Parts:
    """Groups to train on, to choose the checkpoint by, and to measure on.

    Args:
        groups: by part, "validation", "test" and "train" in this order; a part may be absent.
        loaded: the data set that was cut.
        held_out: the split that the test part comes from, None where it was cut off `loaded`.
        chosen_on_test: whether the rows that choose the checkpoint are those that it is measured
            on.
    """

    groups: dict[str, list[Group]]
    loaded: Loaded
    held_out: Loaded | None = None
    chosen_on_test: bool = False


def has_own_test_split(recipe: recipes.RewardModel) -> bool:
    """Whether the rows that are measured on come from a split that nothing is trained on.

    A file of the user's own has no splits. Split "both" would be tested on rows that it trained on.
    """
    return not recipe.path and {recipe.split, recipe.test_split} == {"train", "validation"}


def load_parts(setup: Setup) -> Parts:
    """The rows of a reward model, cut three ways, whole conversations together.

    Paper: section 3 (trained on the train split, chosen by the validation split). Without a share
    of its own to choose by, the test split chooses and measures, which is the paper's way. Raises
    as `hs2lib.data.load.load` and `hs2lib.train.items.cut`.
    """
    recipe = setup.recipe
    load_split = partial(
        load,
        recipe.dataset,
        recipe.source,
        path=recipe.path or None,
        strict=recipe.strict,
        seed=recipe.seed,
        attributes=recipe.attributes,
        scale=recipe.scale,
        columns=recipe.columns,
    )
    if recipe.dataset == OWN_PAIRS:
        loaded = own_preferences(recipe.path, recipe.columns, strict=recipe.strict)
    else:
        loaded = load_split(split=recipe.split, n_prompts=recipe.n_prompts)
    own_split = has_own_test_split(recipe)
    validation_share = recipe.validation_share
    test_share = 0.0 if own_split else recipe.test_share
    shares = {
        "validation": validation_share,
        "test": test_share,
        "train": 1 - (validation_share + test_share),
    }
    groups = items.cut(loaded.groups, shares, recipe.seed)
    if not own_split:
        return Parts(groups, loaded)
    generated_prompts = max(10, round(recipe.test_share * recipe.n_prompts))
    held_out = load_split(split=recipe.test_split, n_prompts=generated_prompts)
    groups["test"] = held_out.groups
    if groups["validation"]:
        return Parts(groups, loaded, held_out)
    groups["validation"] = held_out.groups
    return Parts(groups, loaded, held_out, chosen_on_test=True)


# The model


def not_learnt(data: Parts, setup: Setup) -> dict[str, str]:
    """The attributes that the rows to train on say nothing of, with the reason.

    Nobody rated them, or all ratings of them are equal. A loss of pairs has no attributes: {}.
    """
    if setup.recipe.objective != "regression":
        return {}
    reasons = {}
    for name in attributes_of(data, setup):
        labels = items.labels_of(data.groups["train"], name)  # [R]
        values = np.unique(labels[~np.isnan(labels)])
        if len(values) == 0:
            reasons[name] = "not rated"
        elif len(values) == 1 and data.loaded.own_columns:
            reasons[name] = f"every rating is {values[0]:g}"
    return reasons


def attributes_of(data: Parts, setup: Setup) -> tuple[str, ...]:
    """The attributes that are asked for: the recipe's, of your own ratings those that were read."""
    own_columns = data.loaded.own_columns
    return own_columns.attributes if own_columns else tuple(setup.recipe.attributes)


def new_model(data: Parts, setup: Setup) -> RewardModel:
    """A reward model with a fresh head, with an output for each rated attribute.

    Paper: section 3 (a linear layer on the state of the last token).

    For a loss of pairs the one output is "reward". Where nothing is rated the model has all of the
    attributes, and `prepare` refuses the rows. Where the recipe names a saved model to `start`
    with, its weights are taken, and with head "saved" its outputs (`derived.begun`). Raises as
    `RewardModel.new` and `derived.begun`, ValueError for head "saved" without a start, and
    DataError where all ratings are equal.
    """
    recipe = setup.recipe
    if recipe.objective == "regression":
        reasons = not_learnt(data, setup)
        asked = attributes_of(data, setup)
        outputs = [name for name in asked if name not in reasons]
        if not outputs and set(reasons.values()) != {"not rated"}:
            raise own.nothing_to_learn(recipe.path, data.loaded.own_columns.constant)
        if not outputs:
            outputs = list(asked)
    else:
        outputs = ["reward"]
    if recipe.head == "saved" and not recipe.start:
        raise ValueError("head saved needs a model that has one: set start to its folder")
    if recipe.start:
        saved = load_reward_model(recipe.start)
        head_seed = None if recipe.head == "saved" else recipe.seed
        model = derived.begun(saved, outputs, head_seed=head_seed)
        if recipe.method == "lora" and model.origin is None:
            raise ValueError(
                f"{recipe.start} is itself adapters, which are merged now, and new ones on top "
                "could not be saved: take method full"
            )
        return model.to(device())
    model = RewardModel.new(
        recipe.model_name, attributes=outputs, seed=recipe.seed, **recipe.written
    )
    own_columns = data.loaded.own_columns
    if own_columns and recipe.objective == "regression":
        model.scales = {name: tuple(own_columns.scales[name]) for name in outputs}
    return model.to(device())


# Items


@dataclass(frozen=True)
class Prepared:
    """What `prepare` returns.

    Args:
        items: by part.
        counts: how many items there are and were left out, a row for each number, a column for
            each part.
        units: what a label of each output is divided by to be trained on (`units_of`); () for 1.
    """

    items: dict[str, list[Item]]
    counts: pd.DataFrame
    units: tuple[float, ...] = ()


def units_of(model: RewardModel, data: Parts, setup: Setup) -> tuple[float, ...]:
    """A quarter of the width of each output's scale; () for a loss of pairs.

    Labels divided by it lie as far apart as HelpSteer2's, for which the recipes' rates are made.
    """
    if setup.recipe.objective != "regression":
        return ()
    widths = [data.loaded.scale_of(name).width for name in model.attributes]
    return tuple(width / own.HELPSTEER.width for width in widths)


def item_maker(recipe: recipes.RewardModel) -> ItemMaker:
    """How the recipe's loss takes a group: its ratings, or which of its responses is better."""
    if recipe.objective == "regression":
        return items.rated
    return partial(items.compared, attribute=recipe.compare, ties=recipe.ties)


def prepare(model: RewardModel, data: Parts, setup: Setup) -> Prepared:
    """Every group of every part as an item of token sequences and targets.

    Args:
        model: whose tokenizer and outputs they are for.
        data: the groups.
        setup: with the recipe.

    Raises:
        ValueError: as `items.rated`, for rows without any label and groups that are too long.
    """
    make_items = item_maker(setup.recipe)
    items_of = {}
    counts = {}
    for part, groups in data.groups.items():
        items_of[part], counts[part] = make_items(model, groups, too_long=setup.recipe.too_long)
    return Prepared(items_of, pd.DataFrame(counts), units_of(model, data, setup))


# What needs no training


@dataclass(frozen=True)
class BaselineInputs:
    """What baselines read of each response, by part.

    Of part "train" these are the first `ridge_groups` groups.

    Args:
        items: the groups.
        clusters: the conversation of each row (`items.cluster`), text [rows].
        states: the frozen base's state at the last token of each row, float32 [rows, hidden]. No
            part has them where nothing asks for them.
        known: the parts that baselines are fitted to, which are never those that they are measured
            on.
    """

    items: dict[str, list[Item]]
    clusters: dict[str, np.ndarray]
    states: dict[str, np.ndarray]
    known: tuple[str, ...]


def baseline_inputs(
    model: RewardModel, data: Parts, prepared: Prepared, setup: Setup
) -> BaselineInputs:
    """The frozen base's states and the conversations of all rows, before the model is trained.

    Paper: silent. States are written to the run folder and read from there again. Several processes
    share them out, and all call this alike.
    """
    recipe = setup.recipe
    items_of = dict(prepared.items)
    if recipe.ridge_groups:
        items_of["train"] = items_of["train"][: recipe.ridge_groups]
    conversation = {
        group.id: items.cluster(group) for groups in data.groups.values() for group in groups
    }
    clusters = {}
    states = {}
    for part, part_items in items_of.items():
        clusters[part] = np.array(
            [conversation[item.id] for item in part_items for _ in item.sequences]
        )
        if recipe.ridge_groups or recipe.head == "ridge":
            states[part] = baselines.frozen_states(
                model, part_items, autocast=recipe.autocast, cache=setup.folder
            )
    known = ("train",) if data.chosen_on_test else ("train", "validation")
    return BaselineInputs(items_of, clusters, states, known)


def fit_baselines(inputs: BaselineInputs, setup: Setup) -> dict[str, np.ndarray]:
    """Predictions for the test part, float64 [rows, A], by the name of the baseline.

    Paper: silent.

    There is the mean, ridge on the log-length, and ridge on the states where there are any. Each is
    fitted to the known parts. The alpha of ridge is chosen by attribute, in folds of whole
    conversations.
    """
    targets = [baselines.targets(inputs.items[part])[0] for part in inputs.known]
    labels = np.concatenate(targets)  # [rows, A]
    clusters = np.concatenate([inputs.clusters[part] for part in inputs.known])  # [rows]

    def fit_ridge(features: dict[str, np.ndarray]) -> np.ndarray:
        X = np.concatenate([features[part] for part in inputs.known])  # [rows, d]
        alpha = baselines.best_alpha(X, labels, clusters, seed=setup.recipe.seed)  # [A]
        W, b = baselines.ridge(X, labels, alpha)  # [d, A], [A]
        return features["test"] @ W + b

    lengths = {part: baselines.log_lengths(inputs.items[part]) for part in (*inputs.known, "test")}
    predictions = {
        "mean": np.tile(baselines.column_means(labels), (len(lengths["test"]), 1)),
        "log-length": fit_ridge(lengths),
    }
    if inputs.states:
        predictions["ridge on frozen states"] = fit_ridge(inputs.states)
    return predictions


def start_head(model: RewardModel, inputs: BaselineInputs, setup: Setup) -> None:
    """Put the head at the ridge solution of the training part, where the recipe says so.

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
    callbacks: "Sequence[TrainerCallback]" = (),
) -> TrainingResult:
    """Train a reward model in place and leave it with the weights of its lowest validation loss.

    Paper: section 3 (squared error, two epochs, the checkpoint with the lowest validation loss).

    All weights are trained, or adapters with `method: lora`. Labels on another scale than
    HelpSteer2's are trained on in a unit; afterwards the head is multiplied by it, so that the
    model's outputs are on the labels' scale. Under torchrun every process calls this alike. Raises
    as `hs2lib.train.trainer.fit`.

    Args:
        model: is changed.
        prepared: items to train on and to choose the checkpoint by.
        setup: with the recipe and the folder.
        objective: another loss than the recipe's; the result's `arguments` name it.
        callbacks: of transformers, such as `progress.Live`.
    """
    recipe = setup.recipe
    about = {"head": recipe.head}
    if recipe.head == "saved":
        about["start"] = model.fingerprint()  # of the head too: it was read, not computed
    if recipe.method == "lora":
        model.lora(rank=recipe.lora_rank, alpha=2 * recipe.lora_rank)
    units = () if objective else prepared.units
    multiply_head(model, [1 / unit for unit in units])
    result = fit(
        model,
        prepared.items["train"],
        prepared.items["validation"],
        objective or objectives.named(recipe.objective, ties=recipe.ties, units=units),
        recipe,
        setup.folder,
        about=about,
        callbacks=callbacks,
    )
    multiply_head(model, units)
    if objective is None:
        return result
    return replace(result, arguments={"objective": objective})


def multiply_head(model: RewardModel, factors: Sequence[float]) -> None:
    """Multiply each output of a model by its factor, in place; () leaves it as it is.

    A head without bias stays one: the factor goes into its weights.
    """
    if all(factor == 1 for factor in factors):
        return
    with torch.no_grad():
        for parameter in model.head.parameters():  # weight [A, H], and a bias [A] if it has one
            by_output = torch.tensor(factors, dtype=parameter.dtype, device=parameter.device)
            parameter.mul_(by_output.view(-1, *[1] * (parameter.dim() - 1)))


# The folder


def export(model: RewardModel, data: Parts, prepared: Prepared, setup: Setup) -> Path:
    """Save the model in the run folder; other notebooks score with it.

    It is saved whole or not at all. Under torchrun every process calls this alike. Paper: silent.

    Args:
        model: trained.
        data: that it was trained and tested on; their sources are named beside the model.
        prepared: whose first test groups are scored again by what was saved.
        setup: with the folder.

    Returns:
        The model's folder.

    Raises:
        ValueError: the model that is read back scores otherwise.
    """
    folder = model.save(setup.folder / "model")
    sequences = [item.sequences for item in prepared.items["test"][:4]]
    saved = RewardModel.load(folder).score_tokens(sequences).cpu()
    trained = model.score_tokens(sequences).cpu()
    if not torch.allclose(saved, trained, rtol=SAVED, atol=SAVED):
        largest = (saved - trained).abs().max().item()
        raise ValueError(
            f"{folder}: read back, the model scores otherwise, by up to {largest:.2g}: "
            "train it again"
        )
    sources = [loaded.source for loaded in (data.loaded, data.held_out) if loaded]
    paths.write(folder / SOURCES, "; ".join(sources) + "\n")
    return folder


def export_classifier(
    model: RewardModel, data: Parts, held_out: pd.DataFrame, setup: Setup
) -> Path | None:
    """Write a model of your own rows as a classifier that plain transformers scores with.

    It has all outputs of the model, on the scales of your ratings. Its model card says what it was
    trained on and what it is worth. The held-out rows lie beside it, for notebook 06. Paper:
    silent.

    Under torchrun every process calls this alike, after `export`.

    Args:
        model: trained.
        data: that it was trained on.
        held_out: what it reaches on held-out rows, for the card.
        setup: with the folder.

    Returns:
        The classifier's folder, None where the rows are not your own.

    Raises:
        ValueError: as `hs2lib.models.export.export`.
    """
    left = setup.folder / held_out_rows.FILE
    folder = setup.folder / "classifier"
    several = distributed.is_initialized()
    if several and distributed.get_rank() > 0:
        return folder if data.loaded.own else None
    if not data.loaded.own:
        left.unlink(missing_ok=True)  # of an earlier run on other rows
        return None
    if several:  # each process holds a part of the weights; `export` has gathered them
        model = RewardModel.load(setup.folder / "model")
    scales = {}
    if setup.recipe.objective == "regression":
        scales = {name: data.loaded.scale_of(name).words for name in model.attributes}
    numbers = []
    for name, groups in data.groups.items():
        responses = sum(len(group.responses) for group in groups)
        numbers.append(f"{responses:,} responses to {len(groups):,} prompts in part {name}")
    about = f"{data.loaded.source}: {', '.join(numbers)}."
    held_out_rows.write(left, data.groups["test"], data.loaded)
    classifiers.export(model, folder, data=about, held_out=held_out, scales=scales)
    return folder
