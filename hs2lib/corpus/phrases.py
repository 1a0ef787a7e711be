"""The texts of the generated world, read from the data files of `phrases/`.

    KINDS          what facts are about, such as "animal": names of the kind, what it is sorted by, an expert's words
    FIELDS         kind -> names of its fields
    ENTITIES       kind -> one row a thing: its name, then its value of each field
    PHRASES        kind -> one `Wording` a field, in the order of FIELDS
    FAMILY_TEXTS   family of tasks -> what the user asks, remarks, which advice fits
    SCENES         what the tasks that need no facts are about
    WRITING        what responses and conversations are written with, whatever the task

Every list of a file is a tuple here: the texts are the same for all who use them. Paper: silent (our corpus).
"""

from pathlib import Path
from typing import NamedTuple

from hs2lib.corpus.rules import read_yaml

FOLDER = Path(__file__).parent / "phrases"


def _rows(name: str) -> list[tuple[str, ...]]:
    """The rows of a tab-separated file of `phrases/`, the heading first."""
    return [tuple(line.split("\t")) for line in (FOLDER / name).read_text().splitlines()]


class Wording(NamedTuple):
    """How a field of a kind is put into words. {S}: the entity at the start of a sentence; {s}: inside; {v}: the value.

    The third sentence uses a pronoun. The remarks hold for every entity of the kind: responses grow longer by them.
    """

    label: str
    question: str
    sentences: tuple[str, str, str]
    remarks: tuple[str, str]


KINDS = read_yaml("phrases/kinds.yaml")
_TABLES = {kind: _rows(f"{kind}.tsv") for kind in KINDS}

FIELDS = {kind: rows[0][1:] for kind, rows in _TABLES.items()}
ENTITIES = {kind: tuple(rows[1:]) for kind, rows in _TABLES.items()}
PHRASES: dict[str, list[Wording]] = {kind: [] for kind in KINDS}
for _kind, _field, _label, _question, *_texts in _rows("sentences.tsv")[1:]:
    PHRASES[_kind].append(Wording(_label, _question, tuple(_texts[:3]), tuple(_texts[3:])))

FAMILY_TEXTS = read_yaml("phrases/families.yaml")
SCENES = read_yaml("phrases/scenes.yaml")
WRITING = read_yaml("phrases/writing.yaml")
