"""What a run takes from a file of one's own: what its rows are, and settings that fit their number.

`hs2 run 05 --name mine -p path=my.csv` names a file and nothing else. Whether it holds ratings or
preferences, on which attributes and scale, is found here, and so are sizes of a training that fit
the number of rows. They become parameters of the named run, as if they had been typed, and are
said before anything runs. What was typed counts.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hs2lib.data import load
from hs2lib.data.files import Reading, parse_columns
from hs2lib.data.own import nothing_to_learn
from hs2lib.data.pairs import own_preferences
from hs2lib.data.rows import printable
from hs2lib.runs import graph
from hs2lib.runs.parameters import Parameter, ParameterError
from hs2lib.train import items
from hs2lib.train.recipes import RewardModel

# What people write is no language of the small world, and its base knows no other.
BASE = "embedded"
BASE_IN_WORDS = "SmolLM2-135M-Instruct"

FEWEST = 8  # prompts: fewer cannot be cut into three parts

# Sizes at the tiers of generated data. Paper: silent (its two epochs are of 20,324 responses).
SEEN = 48  # groups: a file with fewer is seen again and again
MOST_EPOCHS = 4
VALIDATIONS = 4  # in a training, besides the one before it
VALIDATED = 60  # prompts that choose the checkpoint, at most
MEASURED = 300  # prompts that are measured on, at most
RIDGE = 400  # groups that baselines and the head's start are fitted to, at most
BUDGET = 1024  # tokens of a micro-batch: a step of the base then takes about 3 GB of memory


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
        ParameterError: the file cannot be read, the notebook reads no such file, or its rows are
            too few to train on.
    """
    path = values["path"]
    typed = values.get("recipe", {}) | values
    kind, loaded = _read(path, typed)
    found = {"dataset": kind, "source": "folder"}
    if kind == "ratings":
        found["scale"] = loaded.own_columns.scale_setting
    sentences = [printable(f"{Path(path).name}: {_rows_in_words(loaded)}.")]
    if "reward_model" not in graph.about(run)["makes"]:
        if kind == "pairs":
            raise ParameterError(f"{path} holds preferences, and {run} reads ratings")
        return Settled(_placed(found, values, known), sentences)
    objective, learns = _objective(path, kind, loaded, typed)
    found |= objective
    n_groups = len(loaded.groups)
    prompts = len({items.cluster(group) for group in loaded.groups})
    if prompts < FEWEST:
        raise ParameterError(
            f"{prompts} different prompts are too few: they are cut into parts to train on, to "
            f"choose by and to measure on, which takes {FEWEST}, better some tens"
        )
    is_small = tier in graph.SMALL_WORLD  # at the other tiers the tier's own sizes hold
    if is_small:
        found |= _sizes(n_groups, prompts, typed.get("model_name", BASE))
    defined = (_placed(found, values, known), [], f"-p of {run}")
    _, _, recipe = graph.resolved(run, tier, defined)
    steps = _steps(recipe, n_groups)
    if steps == 0:
        raise ParameterError(
            f"{n_groups} prompts make no batch of {recipe.batch}, which tier {tier} takes at a "
            "step: add a smaller one, as -p batch=2"
        )
    if is_small:
        found |= _pace(steps)
    base = BASE_IN_WORDS if recipe.model_name == BASE else recipe.model_name
    how_long = f"in about {steps:,} steps of {recipe.batch} prompts"
    sentences.append(printable(f"{run} {learns}, from {base}, {how_long}."))
    return Settled(_placed(found, values, known), sentences)


def _read(path: str, typed: dict) -> tuple[str, load.Loaded]:
    """The rows of a file, and whether they are "ratings" or "pairs"."""
    strict = typed.get("strict", True)
    columns = typed.get("columns", "")
    try:
        file, _ = load.own_file(path, None)
        kind = Reading(file, parse_columns(columns)).kind()
        if kind != "ratings":
            kind = "pairs"
            return kind, own_preferences(path, columns, strict=strict)
        loaded = load.load(
            "ratings",
            "folder",
            path=path,
            strict=strict,
            attributes=typed.get("attributes", ()),
            scale=typed.get("scale", ""),
            columns=columns,
        )
    except ValueError as error:
        raise ParameterError(printable(str(error))) from None
    return kind, loaded


def _rows_in_words(loaded: load.Loaded) -> str:
    """What the rows of a file are."""
    number = f"{len(loaded.groups):,}"
    if loaded.own_columns:
        return f"ratings for {number} prompts; {loaded.own_columns.in_words()[0]}"
    if loaded.set_aside:
        number += f" (ties and faulty rows, which are left out: {len(loaded.set_aside):,})"
    return f"preferences between two responses: {number}"


def _objective(path: str, kind: str, loaded: load.Loaded, typed: dict) -> tuple[dict, str]:
    """The settings that say what a reward model learns from these rows, and that in words."""
    if kind == "pairs":
        if not loaded.groups:
            raise ParameterError(
                f"{path}: no row prefers one response, rows left out: {len(loaded.set_aside):,}; "
                f"the first: {printable(str(loaded.set_aside[0]))}"
            )
        objective = typed.get("objective", "bradley-terry")
        if objective == "regression":
            raise ParameterError(f"{path} holds preferences, and regression needs ratings")
        return {"objective": objective}, f"trains by which response is better ({objective})"
    columns = loaded.own_columns
    objective = typed.get("objective", "regression")
    if objective != "regression":
        compared = typed.get("compare", columns.attributes[0])
        words = f"trains by which response is better in {compared} ({objective})"
        return {"compare": compared}, words
    learnt = [name for name in columns.attributes if name not in columns.constant]
    if not learnt:
        raise ParameterError(str(nothing_to_learn(columns.path, columns.constant)))
    return {"attributes": list(columns.attributes)}, f"trains on {', '.join(learnt)}"


def _sizes(n_groups: int, prompts: int, base: str) -> dict:
    """Sizes of a training that fit the number of rows: a small file is seen again and again."""
    validation_share = round(min(0.15, VALIDATED / prompts), 4)
    test_share = round(min(0.25, MEASURED / prompts), 4)
    trained = (1 - validation_share - test_share) * n_groups
    sizes = {
        "model_name": base,
        "validation_share": validation_share,
        "test_share": test_share,
        "epochs": float(max(1, min(MOST_EPOCHS, SEEN // trained))),
        "batch": int(max(2, min(8, trained // 8))),
        "head": "ridge",
        "ridge_groups": RIDGE,
        "budget": BUDGET,
        "too_long": "leave out",
    }
    if base not in graph.SMALL_BASES:
        sizes |= {"method": "lora", "learning_rate": 2e-4}
    return sizes


def _steps(recipe: RewardModel, n_groups: int) -> int:
    """About how many steps a training takes; 0 where its rows do not fill one batch."""
    trained_share = 1 - recipe.validation_share - recipe.test_share
    return recipe.steps or int(recipe.epochs * trained_share * n_groups) // recipe.batch


def _pace(steps: int) -> dict:
    """How often a training of so many steps is validated and saved."""
    every = -(-steps // VALIDATIONS)
    return {
        "warmup": min(10, steps // 5),
        "validate_every": every,
        "save_every": max(every, 50),
    }


def _placed(found: dict, values: dict, known: Mapping[str, Parameter]) -> dict:
    """What was found and what was typed, as parameters, and as settings under "recipe".

    What was typed counts, and what the notebook does not have is left out.
    """
    placed = {name: value for name, value in found.items() if name in known} | values
    settings = {name: value for name, value in found.items() if f"recipe.{name}" in known}
    settings |= values.get("recipe", {})
    if settings:
        placed["recipe"] = settings
    return placed
