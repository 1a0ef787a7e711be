"""What a run takes from a file of one's own: what its rows are, and settings that fit their number.

`python -m hs2lib.run 05 --name mine -p path=my.csv` names a file and nothing else. What it holds,
ratings or preferences, on which attributes and scale, is found here. So are sizes of a training
that fit the number of rows. All of it becomes parameters of the named run, as if it had been typed,
and is said before anything runs. What was typed counts.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hs2lib.data import check, load, preferences
from hs2lib.data.own import OwnColumns, joined, nothing_to_learn
from hs2lib.data.rows import DataError, printable
from hs2lib.group import Group
from hs2lib.names import OWN_PAIRS
from hs2lib.paths import runs
from hs2lib.runs import graph
from hs2lib.runs.parameters import Parameter, ParameterError
from hs2lib.train import cost, items

# What people write is no language of the small world, and its base knows no other.
BASE = "embedded"
BASE_IN_WORDS = "SmolLM2-135M-Instruct"
BASE_WEIGHTS = 106e6  # of its layers

CHARACTERS_A_TOKEN = 4.2  # of SmolLM2, in English
TOKENS_A_TURN = 8  # that the chat template adds

# Of a small file as many tokens are trained on: half a minute of a core.
TRAINED_TOKENS = 3000
MOST_EPOCHS = 4

VALIDATIONS = 4  # in a training, besides the one before it
VALIDATED = 60  # prompts that choose the checkpoint, at most
MEASURED = 300  # prompts that are measured on, at most
RIDGE = 400  # groups that baselines and the head's start are fitted to, at most

# Tokens of a micro-batch: a step of the base then takes about 3 GB of memory.
BUDGET = 1024

FEWEST = 8  # prompts: fewer cannot be cut into three parts


class Settled(NamedTuple):
    """What was found: values of parameters, with settings under "recipe", and sentences."""

    values: dict
    sentences: list[str]


def settle(run: str, tier: str, values: dict, known: Mapping[str, Parameter]) -> Settled:
    """What a run on a file of one's own needs besides the file's path.

    Args:
        run: a named run of a notebook that has the parameters dataset, source and path.
        tier: one of `graph.TIERS`.
        values: what was typed: parameters by name, settings under "recipe".
        known: what can be set of the run, by name.

    Raises:
        ParameterError: the file cannot be read, or the notebook reads no such file.
    """
    path = values["path"]
    recipe = values.get("recipe", {})
    try:
        file, _ = load.own_file(path, None)
        kind = check.kind_of(file)
        if kind == "ratings":
            loaded = load.load(
                "ratings",
                "folder",
                path=path,
                strict=values.get("strict", recipe.get("strict", True)),
                attributes=values.get("attributes", ()),
                scale=values.get("scale", recipe.get("scale", "")),
            )
        else:
            loaded = preferences.load(path, strict=recipe.get("strict", True))
    except DataError as error:
        raise ParameterError(printable(str(error))) from None
    makes_reward_model = "reward_model" in graph.about(run)["makes"]
    if kind == "pairs" and not makes_reward_model:
        raise ParameterError(f"{path} holds preferences, and {run} reads ratings")
    settings: dict = {"dataset": "ratings" if kind == "ratings" else OWN_PAIRS, "source": "folder"}
    recipe_settings: dict = {}
    objective = values.get("objective", "")
    if kind == "ratings":
        what = _ratings_in_words(loaded.own_columns, loaded.groups)
        if "scale" in known:
            settings["scale"] = loaded.own_columns.scale_setting
        elif "recipe.scale" in known:
            recipe_settings["scale"] = loaded.own_columns.scale_setting
    else:
        what = f"{len(loaded.groups):,} preferences between two responses"
        aside = len(loaded.set_aside)
        if aside:
            what += f"; ties and faulty rows, which are left out: {aside:,}"
        if not loaded.groups:
            raise ParameterError(
                f"{path}: no row prefers one response, rows left out: {aside:,}; "
                f"the first: {printable(str(loaded.set_aside[0]))}"
            )
        if objective == "regression":
            raise ParameterError(f"{path} holds preferences, and regression needs ratings")
    sentences = [f"{Path(path).name}: {what}."]
    if makes_reward_model:
        more, more_recipe, words = _training(kind, loaded, values, tier)
        settings |= more
        recipe_settings |= more_recipe
        sentences.append(f"{run} {words}")
    recipe_settings = {name: value for name, value in recipe_settings.items() if name not in values}
    merged = settings | values | {"recipe": recipe_settings | recipe}
    if not merged["recipe"]:
        del merged["recipe"]
    if makes_reward_model:
        _check_steps(run, tier, merged, len(loaded.groups))
    return Settled(merged, sentences)


def _check_steps(run: str, tier: str, values: dict, n_groups: int) -> None:
    """Raise ParameterError where so many groups make no training step with these values."""
    _, _, recipe = graph.resolved(run, tier, (values, [], f"-p of {run}"))
    trained_share = 1 - recipe.validation_share - recipe.test_share
    seen = recipe.epochs * trained_share * n_groups
    if not recipe.steps and seen < recipe.batch:
        fitting = max(1, min(8, int(seen) // 4))
        raise ParameterError(
            f"{n_groups} prompts make no batch of {recipe.batch}, which tier {tier} takes at a "
            f"step: add a smaller one, as -p batch={fitting}"
        )


def _ratings_in_words(own_columns: OwnColumns, groups: Sequence[Group]) -> str:
    """What a file of ratings is, in a sentence."""
    n_responses = sum(len(group.responses) for group in groups)
    by_scale: dict[str, list[str]] = {}
    for name, scale in own_columns.scales.items():
        by_scale.setdefault(scale.words, []).append(name)
    parts = [f"{printable(joined(names))} from {words}" for words, names in by_scale.items()]
    return (
        f"ratings of {'; '.join(parts)}, for {n_responses:,} responses to {len(groups):,} prompts"
    )


def _training(kind: str, loaded: load.Loaded, values: dict, tier: str) -> tuple[dict, dict, str]:
    """Settings of the training of a reward model: parameters, recipe, and what it does in words.

    At the tiers of real data the tier's own sizes hold.
    """
    groups = loaded.groups
    prompts = len({items.cluster(group) for group in groups})
    if prompts < FEWEST:
        raise ParameterError(
            f"{prompts} different prompts are too few: they are cut into parts to train on, to "
            f"choose by and to measure on, which takes {FEWEST}, better some tens"
        )
    settings: dict = {}
    recipe: dict = {"test_split": ""}
    if kind == "pairs":
        settings["objective"] = "bradley-terry"
        words = "trains by which response is better (bradley-terry)"
    elif values.get("objective") == "bradley-terry":
        recipe["compare"] = loaded.own_columns.attributes[0]
        attribute = printable(recipe["compare"])
        words = f"trains by which response is better in {attribute} (bradley-terry)"
    else:
        attributes = list(loaded.own_columns.attributes)
        settings["attributes"] = attributes
        constant = loaded.own_columns.constant
        if len(constant) == len(attributes):
            raise ParameterError(str(nothing_to_learn(loaded.own_columns.path, constant)))
        learnt = [name for name in attributes if name not in constant]
        words = f"trains on {printable(joined(learnt))}"
        if constant:
            words += f" (of {printable(joined(list(constant)))} all ratings are equal)"
    if tier not in graph.SMALL_WORLD:
        return settings, recipe, f"{words}, with the settings of tier {tier}."
    base = values.get("model_name", BASE)
    settings["model_name"] = base
    steps = values.get("recipe", {}).get("steps", 0)
    sizes, of_recipe, work = sized(groups, prompts, values.get("epochs", 0), steps)
    if base not in ("small", "tiny"):
        of_recipe |= {"method": "lora"}
        sizes["learning_rate"] = 2e-4
    epochs = sizes["epochs"]
    name = BASE_IN_WORDS if base == BASE else base
    words += f", from {name}, "
    if steps:
        words += f"{steps} steps"
    else:
        words += f"{epochs:g} {'time' if epochs == 1 else 'times'} over its rows"
    if base == BASE:
        speed = cost.operations_a_second(os.cpu_count() or 1)
        seconds = cost.seconds_on_cpu(BASE_WEIGHTS, work, speed)
        words += f": {cost.in_words(seconds)} on this machine"
        if seconds > 600:
            words += " (less with -p recipe.steps=20, or with --tier gpu on a GPU)"
        if not list((runs() / "models").glob("smollm2-*")):
            words += ", and once another to unpack it"
    return settings | sizes, recipe | of_recipe, f"{words}."


def sized(
    groups: Sequence[Group], prompts: int, epochs: float = 0, steps: int = 0
) -> tuple[dict, dict, cost.Work]:
    """Sizes of a training that fit the rows: parameters, settings of the recipe, and its work.

    A small file is seen up to `MOST_EPOCHS` times, a large one once. It is validated `VALIDATIONS`
    times, on not too many prompts. Paper: silent (its two epochs are of 20,324 responses).

    Args:
        groups: all rows.
        prompts: how many different ones they have.
        epochs: passes that were asked for, 0 for as many as fit.
        steps: that were asked for, 0 for all of the passes.
    """
    tokens = sum(_tokens(group) for group in groups)
    validation_share = round(min(0.15, VALIDATED / prompts), 4)
    test_share = round(min(0.25, MEASURED / prompts), 4)
    trained_share = 1 - validation_share - test_share
    n_trained = round(trained_share * len(groups))
    in_a_pass = trained_share * tokens
    fitting = min(MOST_EPOCHS, max(1, TRAINED_TOKENS // max(in_a_pass, 1)))
    epochs = float(epochs or fitting)
    if n_trained >= 128:
        batch = 8
    elif n_trained >= 32:
        batch = 4
    else:
        batch = 2
    steps = steps or max(1, int(epochs * n_trained) // batch)
    every = max(1, -(-steps // VALIDATIONS))
    recipe = {
        "validation_share": validation_share,
        "test_share": test_share,
        "warmup": min(10, steps // 5),
        "validate_every": every,
        "save_every": max(every, 50),
        "head": "ridge",
        "ridge_groups": RIDGE,
        "budget": BUDGET,
        "too_long": "leave out",
    }
    scored = (VALIDATIONS + 1) * validation_share * tokens + 2 * test_share * tokens
    scored += min(1, RIDGE / max(n_trained, 1)) * in_a_pass
    passes = steps * batch / max(n_trained, 1)
    work = cost.Work(trained=passes * in_a_pass, scored=scored)
    return {"epochs": epochs, "batch": batch}, recipe, work


def _tokens(group: Group) -> float:
    """About how many tokens a group is as a prefix tree."""
    texts = [turn.text for turn in group.prompt]
    texts += [response.text for response in group.responses]
    return sum(len(text) / CHARACTERS_A_TOKEN + TOKENS_A_TURN for text in texts)
