"""What one run of a notebook was asked to do: its parameters, its recipe and its folders.

A notebook has it as `run.setup`. A stage that is started without its notebook makes the same one by
`Setup.of`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hs2lib import paths
from hs2lib.runs import graph


@dataclass(frozen=True)
class Setup:
    """One run's settings and folders.

    Fields:
        notebook: its name, as 08_dpo.
        tier: one of `hs2lib.names.TIERS`.
        values: the parameters of the notebook's cell.
        recipe: the whole typed recipe (`hs2lib.train.recipes`); None for a notebook without one.
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
        return cls(notebook, values["tier"], values, recipe)

    @classmethod
    def of_run(cls, run: str, tier: str) -> "Setup":
        """The setup of a run that the command line knows, as 08_dpo or 08_dpo@mine.

        Raises ParameterError as `graph.resolved`.
        """
        _, values, recipe = graph.resolved(run, tier)
        return cls.of(run.partition("@")[0], values, recipe)

    @property
    def folder(self) -> Path:
        """Where the run keeps models, checkpoints and samples."""
        if self.place is not None:
            return self.place
        return paths.work(self.tier, self.notebook)

    def saved(self, notebook: str, part: str = "policy") -> Path:
        """The folder in which the run of another notebook, which this run reads, saves a model."""
        return paths.work(self.tier, notebook) / part
