"""Results kept in a JSONL file by content, so that a killed run goes on with what is missing."""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from torch import distributed

from hs2lib.paths import content_key, json_lines


class Cache(dict):
    """Results by key, each a dict of JSON values, read from a file and appended to it as they come.

        cache = Cache(folder, {"model": model.fingerprint()}, name="scores")
        rows = cache.computed(keys, lambda: [{"score": x} for x in model.score(these)])

    A last line that a kill cut short counts as none: its rows are computed again. Several processes
    may add to one file. Paper: silent.

    Args:
        place: a .jsonl file, or a folder that gets one file for each set of settings. With None the
            results stay in memory.
        settings: what all rows share and no key says. It is the file's first line. {} where the
            keys say it all.
        name: what a row is, in the plural, for error messages and for the file's name in a folder.
        check: says whether a row, which holds its "key", is a valid one. With it any other line is
            an error; without it such a line is skipped.
        shared: for processes that have to compute alike, because they share the work out or hold
            one model in parts. The rows that the first process read then hold for all, and it alone
            writes.
        code: the digest of the code that computes the rows (`hs2lib.code`), where a change of that
            code calls for new rows. It is one of the settings.
    Raises:
        ValueError: for a file of other settings. One model's numbers must not pass for another's.
    """

    def __init__(
        self,
        place: str | Path | None,
        settings: Mapping,
        *,
        name: str,
        check: Callable[[dict], bool] | None = None,
        shared: bool = False,
        code: str = "",
    ) -> None:
        super().__init__()
        self.settings = json.loads(json.dumps(settings))
        if code:
            self.settings["code"] = code
        self.name = name
        self.check = check
        self.shared = shared
        self.file = None if place is None else Path(place)
        if shared and distributed.get_rank():
            self.file = None
        if self.file and self.file.suffix != ".jsonl":
            self.file /= f"{name}-{content_key(self.settings, 12)}.jsonl"
        self._read()
        self.share()

    def share(self) -> None:
        """Give all processes the first one's rows if it is shared; all of them call this alike."""
        if self.shared:
            rows = [dict(self)]
            distributed.broadcast_object_list(rows)
            self.update(rows[0])

    def computed(self, keys: Sequence[str], compute: Callable[[], Iterable[Mapping]]) -> list[dict]:
        """The rows of these keys; where one is missing all of them are computed and added.

        Computing all or none makes the numbers independent of where a run was killed: they end the
        same bit for bit.

        Args:
            keys: of the rows that are asked for.
            compute: makes the rows of all the keys, in their order.
        """
        if any(key not in self for key in keys):
            self.add(dict(zip(keys, compute(), strict=True)))
        return [self[key] for key in keys]

    def add(self, rows: Mapping[str, Mapping]) -> None:
        """Add rows by key, in one write to the file; a key that has a row keeps that row."""
        new = {key: dict(row) for key, row in rows.items() if key not in self}
        self.update(new)
        if not self.file or not new:
            return
        lines = []
        if not self._begun:
            lines.append({"settings": self.settings})
        for key, row in new.items():
            lines.append({"key": key, **row})
        text = json_lines(lines)
        if self._torn:
            text = "\n" + text
        content = text.encode(errors="replace")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab", buffering=0) as file:
            while content:  # a full disk may take a part: the error comes with the next write
                content = content[file.write(content) :]
        self._begun = True
        self._torn = False

    @contextmanager
    def alone(self) -> Iterator[Self]:
        """Hold the file for results that cost money, so that no other holder adds to it.

        Rows that others added since are read, and a line that a kill cut short is taken off. The
        lock ends with the process, however that ends. Raises BlockingIOError where another process
        holds the file.
        """
        if not self.file:
            yield self
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BlockingIOError(
                    f"another run is writing to {self.file}: wait, or use another file"
                ) from None
            file.truncate(self._read())
            self._torn = False
            try:
                yield self
            finally:
                os.fsync(file.fileno())

    def _read(self) -> int:
        """Read the file's rows; return the bytes of its whole lines."""
        self.clear()
        content = b""
        if self.file and self.file.exists():
            content = self.file.read_bytes()
        whole = content.rfind(b"\n") + 1
        self._torn = whole < len(content)
        self._begun = self._read_lines(content[:whole])
        return whole

    def _read_lines(self, content: bytes) -> bool:
        """Read the rows of whole lines; return whether the line of settings was among them.

        Rows before that line count as none, but with no settings there need be no such line. A row
        whose key has one already is passed over.
        """
        begun = not self.settings
        for number, line in enumerate(content.split(b"\n")[:-1], 1):
            row = _row(line)
            if "key" not in row and "settings" in row:
                if row["settings"] != self.settings:
                    raise ValueError(
                        f"{self.file} holds {self.name} of other settings, {row['settings']}, "
                        f"now {self.settings}: remove it, or use another file or a folder"
                    )
                begun = True
            elif begun and "key" in row and (not self.check or self.check(row)):
                self.setdefault(row.pop("key"), row)
            elif self.check:
                shown = line[:60].decode(errors="replace")
                raise ValueError(
                    f"{self.file}, line {number}: no {self.name}: {shown!r}; remove the line"
                )
        return begun


def _row(line: bytes) -> dict:
    """The JSON object of a line; {} where it holds none."""
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
