"""Results of one scorer in a file, kept as they come, so that a killed run goes on with what is missing."""

from collections.abc import Iterable
from pathlib import Path

from hs2lib.paths import append_lines, read_lines


class Kept(dict):
    """id -> row (a dict with "id"), read from a JSONL file whose first line names the scorer; file None keeps nothing.

    Paper: silent. Raises ValueError for a file of another scorer: its numbers must not pass for this one's.
    """

    def __init__(self, file: str | Path | None, scorer: str):
        super().__init__()
        self.file, self.scorer = file and Path(file), scorer
        found, self.torn = read_lines(self.file) if self.file else ([], False)
        self.begun = bool(found)
        for row in found:
            if "scorer" not in row:
                self[row["id"]] = row
            elif row["scorer"] != scorer:
                raise ValueError(f"{file} holds scores of {row['scorer']}, not of {scorer}: use another file")

    def add(self, rows: Iterable[dict]) -> None:
        """Keep rows, appended to the file in one write."""
        new = {row["id"]: row for row in rows}
        self.update(new)
        if self.file:
            append_lines(self.file, [*([] if self.begun else [{"scorer": self.scorer}]), *new.values()], self.torn)
            self.begun, self.torn = True, False
