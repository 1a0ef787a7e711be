"""What is refused before anything runs, because it could not end."""

import os
import subprocess
import sys

from hs2lib.commands import named
from hs2lib.group import ATTRIBUTES
from hs2lib.paper import head_weights
from hs2lib.paths import data, root, runs
from hs2lib.runs import graph, key
from hs2lib.runs.parameters import ParameterError

# Kind of thing that a notebook makes -> the folder that it is saved in.
MADE = {"reward_model": "model", "policy": "policy"}


def check_folder(names: list[str], tier: str) -> None:
    """Raise ParameterError where a run reads data sets from HS2_DATA_DIR, and that is no folder."""
    folder = data()
    if folder and os.path.isdir(folder):
        return
    for name in names:
        values = values_and_settings(name, tier)
        from_folder = values.get("source") == "folder" and not values.get("path")
        if from_folder or values.get("eval_source") == "folder":
            fault = f"names {folder}, which is no folder" if folder else "is not set"
            raise ParameterError(
                f"{name} reads data sets from a folder at tier {tier}, and HS2_DATA_DIR {fault}; "
                "nothing was run. "
                f"Say HS2_DATA_DIR=/folder/of/your/data/sets hs2 run --tier {tier}; "
                "docs/quickstart.md says how the sets lie there"
            )


def check_files(names: list[str], tier: str) -> None:
    """Have the data doctor read every file of your own that these notebooks name.

    What it says is printed. Raises ParameterError for a file at which a notebook would stop.
    """
    status_of: dict[tuple[str, str], int] = {}
    for name in names:
        values = values_and_settings(name, tier)
        path = values.get("path")
        if not path:
            continue
        if "ratings" in (values.get("dataset"), values.get("also")):  # 03 reads two sets
            kind = "ratings"
        else:
            kind = values.get("dataset", "pairs")
        if (path, kind) not in status_of:
            # A process of its own, since the doctor's room is not for us to import. It starts where
            # a kernel does.
            command = [sys.executable, "-m", "hs2lib.data.check", path, "--as", kind]
            command.append(f"--columns={values.get('columns', '')}")
            if kind == "ratings":
                # With =, since a scale from -1 to 1 begins as an option does.
                command.append(f"--scale={values.get('scale', '')}")
                command.append(f"--attributes={','.join(values.get('attributes', ()))}")
            doctor = subprocess.run(command, stdout=2, cwd=root() / "notebooks")
            status_of[path, kind] = doctor.returncode
        status = status_of[path, kind]
        # Status 1 says that rows have faults: a notebook leaves them out where it is not strict.
        if status and (status != 1 or values.get("strict", True)):
            raise ParameterError(
                f"{path} cannot be read as it is (above), and nothing was run: {name} needs it"
            )


def check_weighting(run: str, tier: str) -> None:
    """Raise ParameterError where a run weighs outputs that the reward model it reads will not have.

    A reward model of pairs has the one output "reward". The notebook would stop too, after minutes.
    """
    values = values_and_settings(run, tier)
    weighting = values.get("weighting")
    if not weighting:
        return
    for other in graph.upstream(run, tier):
        if "reward_model" not in graph.about(other)["makes"]:
            continue
        of_model = values_and_settings(other, tier)
        if of_model.get("objective", "regression") == "regression":
            outputs = of_model.get("attributes", ATTRIBUTES)
        else:
            outputs = ["reward"]
        try:
            head_weights(weighting, outputs)
        except ValueError:
            name = "weighting" if "weighting" in named.settable(run) else "recipe.weighting"
            raise ParameterError(
                f"{run} weighs the outputs of {other} by {weighting!r}, and that reward model has "
                f"{', '.join(outputs)}: add -p {name}={outputs[0]}:1"
            ) from None


def check_upstream(run: str, tier: str, stage: str) -> None:
    """Raise ParameterError where a stage reads a run that has left nothing to read."""
    for other in graph.upstream(run, tier, stage=stage):
        needed = []
        for kind in graph.about(other)["makes"]:
            if kind in MADE:
                needed.append(runs() / tier / other / MADE[kind])
        if not needed:
            needed.append(key.result(other, tier, key.COMPUTE))
        missing = [path for path in needed if not path.exists()]
        if missing:
            raise ParameterError(
                f"stage {stage} of {run} reads {other}, and there is no {missing[0]}: "
                f"run hs2 run --tier {tier} {other} first"
            )


def values_and_settings(run: str, tier: str) -> dict[str, object]:
    """The parameters of a run and the settings of its recipe by name, with their values."""
    _, values, recipe = graph.resolved(run, tier)
    return (vars(recipe) if recipe else {}) | values
