"""What one run of a notebook was asked to do: its parameters, its recipe and its folders.

A notebook has it as `run.setup`. A stage that is started without its notebook makes the same one by
`Setup.of`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hs2lib import paths
from hs2lib.runs import graph

SMALL: dict[str, Any] = paths.read_yaml(__file__, "small.yaml")
SMALL_OF: dict[str, dict] = SMALL.pop("by notebook")


def small(recipe: Any, notebook: str) -> Any:
    """The recipe of a dry run: a random model, generated text and few steps.

    `small.yaml` says what replaces which setting. Settings that the recipe does not have are left
    out.
    """
    replaced = {}
    names = {field.name for field in fields(recipe)}
    for name, value in (SMALL | SMALL_OF.get(notebook, {})).items():
        if name not in names:
            continue
        if isinstance(getattr(recipe, name), tuple):
            value = tuple(value)  # YAML has lists only
        replaced[name] = value
    return replace(recipe, **replaced)


@dataclass(frozen=True)
class Setup:
    """One run's settings and folders.

    Fields:
        notebook: its name, as 08_dpo.
        tier: one of `hs2lib.names.TIERS`.
        values: the parameters of the notebook's cell.
        recipe: the whole typed recipe (`hs2lib.train.recipes`); None for a notebook without one.
            Where `dry_run` is set it is that of a dry run.
        place: the folder to work in, for a script of one's own; None for the run's.
    """

    notebook: str
    tier: str
    values: Mapping[str, Any]
    recipe: Any
    place: Path | None = None

    @classmethod
    def of(cls, notebook: str, values: Mapping[str, Any], recipe: Any) -> "Setup":
        """The setup of a notebook with these checked values and this recipe."""
        if values.get("dry_run"):
            recipe = small(recipe, notebook)
        return cls(notebook, values["tier"], values, recipe)

    @classmethod
    def of_run(cls, run: str, tier: str) -> "Setup":
        """The setup of a run that the command line knows, as 08_dpo or 08_dpo@mine.

        Raises ParameterError as `graph.resolved`.
        """
        _, values, recipe = graph.resolved(run, tier)
        return cls.of(run.partition("@")[0], values, recipe)

    @property
    def dry_run(self) -> bool:
        """Whether the run only goes through all cells with a tiny model."""
        return bool(self.values.get("dry_run"))

    @property
    def folder(self) -> Path:
        """Where the run keeps models, checkpoints and samples."""
        if self.place is not None:
            return self.place
        folder = paths.work(self.tier, self.notebook)
        return folder / "dry-run" if self.dry_run else folder

    def saved(self, notebook: str, part: str = "policy") -> Path:
        """The folder in which the run of another notebook, which this run reads, saves a model."""
        return paths.work(self.tier, notebook) / part
