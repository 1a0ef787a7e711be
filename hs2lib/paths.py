"""Where files lie, how they are written, and what they are called in records and in public."""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

# An environment variable that `hs2 run` sets. Its value is JSON: the folder's name by notebook, of
# this run and of those that it reads.
RUN = "HS2_RUN"


def root() -> Path:
    """The folder of the checkout.

    It is `HS2_ROOT` where that is set, else the folder above hs2lib if notebooks lie there too,
    else the current folder. An installed hs2lib has no checkout around it, and what it writes does
    not belong among installed packages.
    """
    if chosen := os.environ.get("HS2_ROOT"):
        return Path(chosen)
    return _ABOVE if in_checkout() else Path.cwd()


def in_checkout() -> bool:
    """Whether this library lies in a checkout, and not among installed packages."""
    return (_ABOVE / "notebooks").is_dir()


# The folder above hs2lib.
_ABOVE = Path(__file__).resolve().parent.parent


def reports() -> Path:
    """The user's folder of reports: `HS2_REPORTS`, else `reports/` of the checkout."""
    return Path(os.environ.get("HS2_REPORTS") or root() / "reports").absolute()


def published_reports() -> Path:
    """The folder of published reports: `HS2_PUBLISHED`, else `reports/published/` of the checkout.

    It has folders `<tier>/<run>/`, as `reports` has. `make publish` writes there, and no run does.
    """
    return Path(os.environ.get("HS2_PUBLISHED") or root() / "reports" / "published").absolute()


def runs() -> Path:
    """The folder of keys, caches, checkpoints and models: `HS2_RUNS`, else `runs/`.

    git ignores `runs/` of the checkout.
    """
    return Path(os.environ.get("HS2_RUNS") or root() / "runs").absolute()


def data() -> Path | None:
    """The folder of data sets, `HS2_DATA_DIR`; None where it is not set."""
    folder = os.environ.get("HS2_DATA_DIR")
    return Path(folder).expanduser().absolute() if folder else None


def notebook(name: str) -> Path:
    """The file of a notebook without outputs. Of a named run, as 08_dpo@mine, it is 08_dpo's."""
    return root() / "notebooks" / f"{name.partition('@')[0]}.ipynb"


def run_name(notebook: str) -> str:
    """The name of the run of `notebook` that this process is, or reads.

    It is the notebook's name, or that and @name.
    """
    return _run_names().get(notebook, notebook)


def _run_names() -> dict[str, str]:
    """The name of a run by its notebook, as `hs2 run` left them in the environment."""
    return json.loads(os.environ.get(RUN) or "{}")


def work(tier: str, notebook: str) -> Path:
    """The folder of a notebook's run, as this process reads or writes it.

    Models, checkpoints and samples lie there.
    """
    return runs() / tier / run_name(notebook)


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# The digest of a file of at least so many bytes is kept.
LARGE = 1 << 20

# A file that changed less than so many nanoseconds ago may change once more within the same tick of
# the file system's clock. Its digest is not kept.
_SETTLED = 2_000_000_000


def digest(path: Path, *, again: bool = False) -> str:
    """Hex digest of a file, or of a folder's names and files; "" where there is neither.

    The digest of a large file is kept in the run folder. It holds as long as the file's size, times
    and inode stay the same.

    Args:
        path: a file or a folder.
        again: whether a large file is read although its digest is kept.
    """
    if path.is_dir():
        lines = []
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            name = file.relative_to(path).as_posix()
            lines.append(f"{name} {digest(file, again=again)}\n")
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    if not path.is_file():
        return ""
    status = path.stat()
    if status.st_size < LARGE:
        return sha256(path)
    cache = runs() / ".digests.json"
    name = str(path.resolve())
    state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    digests = read_json(cache) or {}
    if not again and digests.get(name, [])[:-1] == state:
        return digests[name][-1]
    value = sha256(path)
    if time.time_ns() - status.st_mtime_ns > _SETTLED:
        with contextlib.suppress(OSError):
            write(cache, json.dumps(digests | {name: [*state, value]}))
    return value


def read_json(path: Path) -> dict | None:
    """The object in a JSON file.

    None where there is no file, or something else than an object in it, such as half a manifest.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def read_yaml(module: str, name: str) -> Any:
    """The content of a YAML file.

    Args:
        module: the `__file__` of a module. The YAML file lies beside it.
        name: of the YAML file.
    """
    text = (Path(module).parent / name).read_text()
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def json_lines(rows: Iterable[object]) -> str:
    """Rows as JSON Lines, one a line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def content_key(content: object, digits: int = 24) -> str:
    """A name for content that JSON can hold: equal content has equal names.

    Args:
        content: what is to be named.
        digits: the length of the name, in hexadecimal digits, at most 64.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:digits]


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path`, to be written; it takes its place where nothing was raised.

    So a reader sees the old file or the new one, never half of it. Its name is one of this process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)  # half of it, where the disk is full


def write(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees the old one or the new one: see `replacing`."""
    with replacing(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def digests_by_place(*paths: str | Path) -> dict[str, str]:
    """The digests, as they are now, of files or folders that a result depends on, by place.

    An absent one has the digest "". The result depends on its absence, for it would be read if it
    came later. `noted` has all that this process has asked for.
    """
    digests = {place(path): digest(Path(path)) for path in paths}
    _NOTED.update(digests)
    return digests


_NOTED: dict[str, str] = {}


def noted() -> dict[str, str]:
    """The digests by place of all files that results of this process depend on, so far."""
    return dict(_NOTED)


# A file in the cache of the Hugging Face Hub.
_HUB_CACHE = re.compile(r"/(?:models|datasets)--([^/]+)/snapshots/(.+)")


def place(path: str | Path) -> str:
    """A path as keys and manifests have it; `located` is the inverse.

    A path below the data folder, the run folder, the reports or the checkout is written from there
    on. Any other one is written whole. The place of a fetched file, which lies in a cache under its
    commit, is "hub:owner/name@commit/file".
    """
    path = Path(path).absolute()
    if cached := _HUB_CACHE.search(path.as_posix()):
        return f"hub:{cached[1].replace('--', '/')}@{cached[2]}"
    for prefix, folder in _folders():
        if path.is_relative_to(folder):
            name = prefix + path.relative_to(folder).as_posix()
            if name.startswith("runs/public/"):
                return name.replace("runs/public/", "hub:", 1)
            return name
    return str(path)


def located(place: str) -> Path | None:
    """The path of a place today; None where it is not known.

    It is None, too, for what was fetched at a commit, which cannot change.
    """
    if place.startswith(("hub:", "elsewhere:")):
        return None
    # The longest prefix comes first: reports/published/ before reports/.
    for prefix, folder in sorted(_folders(), key=lambda pair: -len(pair[0])):
        if prefix and place.startswith(prefix):
            return folder / place.removeprefix(prefix)
    return root() / place


def manifest_place(place: str) -> str:
    """A place as a manifest has it: of a path of this machine only the last part is left."""
    return f"elsewhere:{Path(place).name}" if place.startswith("/") else place


def _folders() -> list[tuple[str, Path]]:
    """(name in what is written, folder of this machine), the deepest first."""
    named = [
        ("$HS2_DATA_DIR/", data()),
        ("runs/", runs()),
        ("reports/", reports()),
        ("", root()),
        ("~/", Path.home()),
        ("reports/published/", published_reports()),
    ]
    present = [(name, folder) for name, folder in named if folder and len(folder.parts) > 1]
    return sorted(present, key=lambda pair: len(pair[1].parts), reverse=True)


# The last part of each path of the user's that `public` hides, by path.
_HIDDEN: dict[str, str] = {}


def hide(values: object) -> None:
    """Let `public` write only the last part of each absolute path in these values.

    values: a text, or a dict or list of values. Anything else holds no path.
    """
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, list):
        values = [values]
    for value in values:
        if isinstance(value, dict | list):
            hide(value)
        elif isinstance(value, str) and _is_path_of_the_user(value):
            _HIDDEN[value] = Path(value).name


def _is_path_of_the_user(text: str) -> bool:
    """Whether a text is an absolute path of two parts or more that lies in none of `_folders`."""
    return text.startswith("/") and text.count("/") > 1 and place(text) == text


def public(text: str) -> str:
    """A text without the folders of this machine.

    The data folder, the run folder, the reports, the checkout and the home folder are called by
    their names in places. Of a path that `hide` took in the last part is left.
    """
    for path in sorted(_HIDDEN, key=len, reverse=True):
        text = text.replace(path, _HIDDEN[path])
    for name, folder in _folders():
        text = _with_named_folder(text, folder, name)
    return text


def _with_named_folder(text: str, folder: Path, name: str) -> str:
    """A text in which a folder is called by a name, except after the host of an address."""
    pattern = rf"(https?://[^\s/\"]+)?{re.escape(str(folder))}/"
    return re.sub(pattern, lambda match: match[0] if match[1] else name, text)
