"""Where files lie, and how they are written, named by content and named in what is published."""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

import yaml

RUN = "HS2_RUN"  # set by the runner: of this run and of those it reads, the folder's name by notebook, as JSON


def root() -> Path:
    """The checkout: `HS2_ROOT`, else the folder above hs2lib if notebooks lie there too, else the
    current one.

    An installed hs2lib has no checkout around it, and what it writes does not belong among
    installed packages.
    """
    if chosen := os.environ.get("HS2_ROOT"):
        return Path(chosen)
    above = Path(__file__).resolve().parent.parent
    return above if (above / "notebooks").is_dir() else Path.cwd()


def reports() -> Path:
    """Folder that runs write their reports to, the user's own: `HS2_REPORTS`, else `reports/` of the checkout."""
    return Path(os.environ.get("HS2_REPORTS") or root() / "reports").absolute()


def published_reports() -> Path:
    """Folder of the published reports, `<tier>/<run>/` as in `reports`: `HS2_PUBLISHED`, else
    `reports/published/`.

    No run writes there: `make publish` does.
    """
    return Path(os.environ.get("HS2_PUBLISHED") or root() / "reports" / "published").absolute()


def runs() -> Path:
    """Ignored folder of stamps, caches, checkpoints and models: `HS2_RUNS`, else `runs/` of the checkout."""
    return Path(os.environ.get("HS2_RUNS") or root() / "runs").absolute()


def data() -> Path | None:
    """The folder of data sets, `HS2_DATA_DIR`; None where it is not set."""
    folder = os.environ.get("HS2_DATA_DIR")
    return Path(folder).expanduser().absolute() if folder else None


def notebook(name: str) -> Path:
    """The stripped source of notebook `name`; of a named run, as 08_dpo@mine, that of its notebook."""
    return root() / "notebooks" / f"{name.partition('@')[0]}.ipynb"


def run_name(notebook: str) -> str:
    """What the run of `notebook` that this process is, or reads, is called: the notebook's name, or that and @name."""
    return json.loads(os.environ.get(RUN) or "{}").get(notebook, notebook)


def names_read() -> list[str]:
    """What the runs that this process reads are called, itself among them; none where no runner started it."""
    return list(json.loads(os.environ.get(RUN) or "{}").values())


def work(tier: str, notebook: str) -> Path:
    """The run folder of a notebook as this process reads or writes it: models, checkpoints, samples."""
    return runs() / tier / run_name(notebook)


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


LARGE = 1 << 20  # bytes from which on a file's digest is kept


def digest(path: Path, *, again: bool = False) -> str:
    """Hex digest of a file, or of a folder's names and files; "" where there is neither.

    That of a large file is kept in the run folder, and holds as long as size, times and inode do.
    again: not trusted.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        lines = [
            f"{file.relative_to(path).as_posix()} {digest(file, again=again)}\n" for file in files
        ]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    if not path.is_file():
        return ""
    about = path.stat()
    if about.st_size < LARGE:
        return sha256(path)
    kept, name = runs() / ".digests.json", str(path.resolve())
    mark = [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino]
    known = read_json(kept) or {}
    if not again and known.get(name, [])[:-1] == mark:
        return known[name][-1]
    value = sha256(path)
    if (
        time.time_ns() - about.st_mtime_ns > 2_000_000_000
    ):  # a file still being written may change within one tick
        with contextlib.suppress(OSError):
            write(kept, json.dumps(known | {name: [*mark, value]}))
    return value


def read_json(path: Path) -> dict | None:
    """The object in a JSON file; None where there is no file, or no object in it, such as half a manifest."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def read_yaml(module: str, name: str):
    """What a YAML file beside a module, of which this is the `__file__`, says."""
    text = (Path(module).parent / name).read_text()
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def json_lines(rows: Iterable) -> str:
    """Rows as JSON Lines, one a line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def content_key(content: object, digits: int = 24) -> str:
    """The name of some content, anything that JSON can hold: equal content has equal names. Paper: silent."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:digits]


def write(path: Path, content: str | bytes) -> None:
    """Write under a temporary name of this process, then rename: a reader sees the old file or the new, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)  # half of it, where the disk is full


def as_read(*paths: str | Path) -> dict[str, str]:
    """What a result that read these files or folders depends on: the digest of each as it is now,
    by its place.

    What is absent has the digest "": the result depends on its absence, for what comes later would
    be read.
    """
    return {place(path): digest(Path(path)) for path in paths}


def place(path: str | Path) -> str:
    """A path as stamps have it: below the data folder, the run folder or the checkout, else whole.
    See `located`.

    A file that was fetched lies in a cache under its commit. Its place is
    "hub:owner/name@commit/file".
    """
    path = Path(path).absolute()
    if cached := re.search(
        r"/(?:models|datasets)--([^/]+)/snapshots/(.+)", path.as_posix()
    ):  # the Hub's cache
        return f"hub:{cached[1].replace('--', '/')}@{cached[2]}"
    for prefix, folder in _folders():
        if path.is_relative_to(folder):
            name = prefix + path.relative_to(folder).as_posix()
            return (
                name.replace("runs/public/", "hub:", 1) if name.startswith("runs/public/") else name
            )
    return str(path)


def located(place: str) -> Path | None:
    """The path of a place today; None where nobody can say, and for what was fetched at a commit and cannot change."""
    if place.startswith(("hub:", "elsewhere:")):
        return None
    for prefix, folder in sorted(
        _folders(), key=lambda known: -len(known[0])
    ):  # reports/published/ before reports/
        if prefix and place.startswith(prefix):
            return folder / place.removeprefix(prefix)
    return root() / place


def manifest_place(place: str) -> str:
    """A place as a manifest has it: of one that is nothing but a path of this machine, the last part."""
    return f"elsewhere:{Path(place).name}" if place.startswith("/") else place


def _folders() -> list[tuple[str, Path]]:
    """(name in what is written, folder of this machine), the deepest first."""
    known = [
        ("$HS2_DATA_DIR/", data()),
        ("runs/", runs()),
        ("reports/", reports()),
        ("", root()),
        ("~/", Path.home()),
    ]
    known.append(("reports/published/", published_reports()))
    known = [(name, folder) for name, folder in known if folder and len(folder.parts) > 1]
    return sorted(known, key=lambda pair: len(pair[1].parts), reverse=True)


_HIDDEN: dict[str, str] = {}  # path of a user's -> its last part


def hide(values: object) -> None:
    """Let `public` write only the last part of each absolute path in `values`, a text or a dict or list of them."""
    for value in (
        values.values()
        if isinstance(values, dict)
        else values
        if isinstance(values, list)
        else [values]
    ):
        if isinstance(value, dict | list):
            hide(value)
        elif (
            isinstance(value, str)
            and value.startswith("/")
            and value.count("/") > 1
            and place(value) == value
        ):
            _HIDDEN[value] = Path(value).name


def public(text: str) -> str:
    """A text without the folders of this machine: data folder, run folder, checkout, home, and what was hidden."""
    for path in sorted(_HIDDEN, key=len, reverse=True):
        text = text.replace(path, _HIDDEN[path])
    for name, folder in _folders():  # but after the host of an address
        named = rf"(https?://[^\s/\"]+)?{re.escape(str(folder))}/"
        text = re.sub(named, lambda match, name=name: match[0] if match[1] else name, text)
    return text
