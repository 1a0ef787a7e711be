"""The words of the generated world, read from the data files of `phrases/`.

    ENTITIES   kind, such as "metal" -> name -> field, such as "melting point" -> value
    FIELDS     kind -> names of its fields
    ASK        family of tasks -> what a user says
    SCENES     what the tasks that need no facts are about
    WRITING    what responses and conversations are written with, whatever the task

Every list of a file is a tuple here: the texts are the same for all who use them. Paper: silent (our corpus).
"""

from pathlib import Path

from hs2lib.corpus.rules import read_yaml

FOLDER = Path(__file__).parent / "phrases"


def _entities(kind: str) -> dict[str, dict[str, str]]:
    """Name -> field -> value, from a tab-separated file of `phrases/` with a heading."""
    heading, *rows = (line.split("\t") for line in (FOLDER / f"{kind}.tsv").read_text().splitlines())
    return {row[0]: dict(zip(heading[1:], row[1:], strict=True)) for row in rows}


SCENES = read_yaml("phrases/scenes.yaml")
WRITING = read_yaml("phrases/writing.yaml")
ASK = {family: texts["ask"] for family, texts in read_yaml("phrases/families.yaml").items()}
ENTITIES = {kind: _entities(kind) for kind in SCENES["kinds"]}
FIELDS = {kind: tuple(next(iter(entities.values()))) for kind, entities in ENTITIES.items()}
