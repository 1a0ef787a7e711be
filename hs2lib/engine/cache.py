"""Results kept in a JSONL file by content, so that a killed run goes on with what is missing."""

import fcntl
import glob
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from torch import distributed

from hs2lib.code import kept_policy, reusable
from hs2lib.paths import content_key, json_lines


class Cache(dict):
    """key -> row (a dict of JSON values), read from a file and appended to it as results come.

        cache = Cache(folder, {"model": model.fingerprint()}, name="scores")
        rows = cache.computed(keys, lambda: [{"score": x} for x in model.score(these)])

    place: a .jsonl file; any other path is a folder, in which each settings have a file of their
    own; None: memory alone. settings: what all rows share and no key says, the file's first line;
    {} where the keys say it all. check: whether a row is one (it has its "key"); with it a line
    that is no row is an error, without it counts as none. A last line that a kill cut short always
    counts as none: what was in it is computed again.

    code: the digest of the code that computes the rows (`hs2lib.code`), where they are to be made
    again when that changes. It stands in the first line and in the file's name; where a file of
    your own name holds rows of other code, the code's digest is added to that name.
    `hs2lib.code.kept_policy` says whether rows of other code are read all the same; `reused` is
    then the file that they came from, and new rows go into today's own.

    shared: for processes that have to compute alike, as they share the work out or hold one model
    in parts: what the first of them read holds for all, and it alone writes.

    Several processes may add to one file. Paper: silent. Raises ValueError for a file of other
    settings, naming them: one model's numbers must not pass for another's. Raises
    `hs2lib.code.MadeByOtherCode` where that is to be asked.
    """

    def __init__(
        self,
        place: str | Path | None,
        settings: Mapping,
        *,
        name: str,
        check: Callable | None = None,
        shared=False,
        code: str = "",
    ):
        super().__init__()
        self.settings, self.name, self.check, self.shared = (
            json.loads(json.dumps(settings)),
            name,
            check,
            shared,
        )
        self.file = None if place is None else Path(place)
        self.reused: Path | None = None
        if shared and distributed.get_rank():
            self.file = None
        if self.file and self.file.suffix != ".jsonl":
            self.file /= f"{name}-{content_key(settings, 12)}.jsonl"
            if code:
                self.file = _of_code(self.file, code)
        if code:
            self._choose(code)
        self._read()
        self.share()

    def _choose(self, code: str) -> None:
        """Settle which file holds the rows that this code computed, and which of other code is read besides."""
        self.settings["code"] = code
        if not self.file:
            return
        same = _without_code(self.settings)
        stem = self.file.stem.removesuffix(f"-{code[:8]}")
        others = []
        for file in self.file.parent.glob(f"{glob.escape(stem)}*.jsonl"):
            before = _settings_of(file)
            if before is not None and before.get("code") != code and same == _without_code(before):
                others.append(file)
        if self.file in others:  # of a name that the caller chose
            self.file = _of_code(self.file, code)
        if kept_policy() == "reuse" or not self.file.exists():
            others.sort(key=lambda file: file.stat().st_mtime)
            self.reused = reusable(
                others, f"a file of {self.name}", lambda file: _differs(file, code)
            )

    def share(self) -> None:
        """Where it is shared, give all processes the rows of the first one; all of them call this alike."""
        if self.shared:
            rows = [dict(self)]
            distributed.broadcast_object_list(rows)
            self.update(rows[0])

    def computed(self, keys: Sequence[str], compute: Callable[[], Iterable[Mapping]]) -> list[dict]:
        """The rows of these keys. Where one is missing, `compute` makes the rows of all, in order,
        and they are added.

        All or none, so that what is computed together does not depend on where a run was killed:
        its numbers end the same bit for bit.
        """
        if any(key not in self for key in keys):
            self.add(dict(zip(keys, compute(), strict=True)))
        return [self[key] for key in keys]

    def add(self, rows: Mapping[str, Mapping]) -> None:
        """Keep rows by key, appended to the file in one write. A key that has its row already keeps that."""
        new = {key: dict(row) for key, row in rows.items() if key not in self}
        self.update(new)
        if not self.file or not new:
            return
        lines = [{"settings": self.settings}] * (not self._begun) + [
            {"key": key, **row} for key, row in new.items()
        ]
        content = ("\n" * self._torn + json_lines(lines)).encode(errors="replace")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab", buffering=0) as file:
            while content:  # a full disk may take a part: the error comes with the next write
                content = content[file.write(content) :]
        self._begun, self._torn = True, False

    @contextmanager
    def alone(self) -> Iterator[Self]:
        """Hold the file, so that no other process that asks for it this way adds to it: for results
        that cost money.

        Rows that others added since are read, a line that a kill cut short is taken off. The lock
        goes with the process, however that ends. Raises BlockingIOError where another process holds
        the file.
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
        """Take the file's rows, then those of other code, and return the length of its whole lines in bytes."""
        self.clear()
        content = self.file.read_bytes() if self.file and self.file.exists() else b""
        whole = content.rfind(b"\n") + 1
        self._torn = whole < len(content)
        self._begun = self._take(self.file, content[:whole], self.settings)
        if self.reused:
            others = self.reused.read_bytes()
            self._take(self.reused, others[: others.rfind(b"\n") + 1], _settings_of(self.reused))
        return whole

    def _take(self, file: Path | None, content: bytes, settings: dict) -> bool:
        """Take the rows of whole lines, but for keys that have one; whether the line of settings was among them."""
        begun = not settings
        for number, line in enumerate(content.split(b"\n")[:-1], 1):
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if isinstance(row, dict) and isinstance(row.get("settings"), dict) and "key" not in row:
                before, begun = row["settings"], True
                differ = [
                    name for name in settings | before if settings.get(name) != before.get(name)
                ]
                for name in differ[:1]:
                    both = f"{name} was {before.get(name)!r}, now {settings.get(name)!r}"
                    what = (
                        f"holds {self.name} of other settings ({', '.join(differ)} differ; {both})"
                    )
                    raise ValueError(
                        f"{file} {what}: remove it, or use another file, or a folder for both"
                    )
            elif (
                begun
                and isinstance(row, dict)
                and "key" in row
                and (not self.check or self.check(row))
            ):
                self.setdefault(row.pop("key"), row)
            elif self.check:
                shown = line[:60].decode(errors="replace")
                raise ValueError(
                    f"{file}, line {number}: no {self.name}: {shown!r}; remove the line"
                )
        return begun


def _of_code(file: Path, code: str) -> Path:
    """The name of a file of rows that this code computed."""
    return file.with_name(f"{file.stem}-{code[:8]}.jsonl")


def _settings_of(file: Path) -> dict | None:
    """What a file says that all its rows share; None where it says nothing."""
    with file.open("rb") as lines:
        for line in itertools.islice(lines, 2):  # the first may have been cut by a kill
            try:
                settings = json.loads(line)["settings"]
            except (ValueError, KeyError, TypeError):
                continue
            return settings if line.endswith(b"\n") and isinstance(settings, dict) else None
    return None


def _without_code(settings: Mapping) -> dict:
    return {name: value for name, value in settings.items() if name != "code"}


def _differs(file: Path, code: str) -> str:
    before = (_settings_of(file) or {}).get("code")
    if not before:
        return "nothing says by which code it was made"
    return f"the code had the digest {before[:8]}, now {code[:8]}"
