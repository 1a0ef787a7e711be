"""Where data sets are: the table of sets, a folder, the Hub, GitHub.

Only data files are fetched (JSONL, CSV and Parquet), never loading scripts or pickles; each from a pinned commit, so
that a file cannot change under its name.
"""

import http.client
import os
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml

from hs2lib.data import readers
from hs2lib.data.rows import DataError
from hs2lib.names import EMBEDDED, SOURCES, SPLITS, one_of
from hs2lib.paths import noted, root, runs, sha256, write


@dataclass(frozen=True)
class DataSet:
    """What a data set is, its reader, its public place, its files and its licence: an entry of `sets.yaml`.

    github: its public place is a repository there, not on the Hub.
    """

    read: readers.Reader | None
    title: str
    repo: str = ""
    revision: str = ""
    hub: dict[str, tuple[str, ...]] = field(default_factory=dict)
    local: dict[str, tuple[str, ...]] = field(default_factory=dict)
    licence: str = ""
    place: str = ""
    split_column: bool = False
    github: bool = False

    @property
    def splits(self) -> bool:
        """Whether the set is divided into train and validation."""
        return "train" in self.hub or "train" in self.local


def table(file: Path) -> dict[str, DataSet]:
    """The data sets of a YAML file in the form of `sets.yaml`, by name."""
    entries = yaml.safe_load(file.read_text()).items()
    return {n: DataSet(getattr(readers, e.pop("reader", ""), None), **{"place": n, **e}) for n, e in entries}


# The sets that `hs2lib.data.load` reads, and those that benchmarks read in their own way.
SETS, BENCHMARKS = (table(Path(__file__).parent / file) for file in ("sets.yaml", "benchmarks.yaml"))


def check(name: str, source: str, split: str, path: str | Path | None = None) -> None:
    """Refuse an unknown name, source or split, and combinations that do not exist. Raises ValueError."""
    for what, value, known in (("data set", name, SETS), ("source", source, SOURCES), ("split", split, SPLITS)):
        one_of(what, value, known)
    if source == "embedded" and name not in EMBEDDED:
        raise ValueError(f"the small world has no {name!r}, only {', '.join(EMBEDDED)}: load it from hub or folder")
    if source == "hub" and not SETS[name].repo:
        raise ValueError(f"{name!r} is not on the Hub in a form that can be read: load it with source='folder'")
    if source != "folder" and path is not None:
        raise ValueError(f"path={str(path)!r} is read with source='folder', not with source={source!r}")
    if name == "ratings" and path is None:
        raise ValueError("your own ratings need path=, the JSONL, CSV or Parquet file to read")
    if split != "both" and source != "embedded" and not SETS[name].splits and path is None:
        raise ValueError(f"{name!r} has no splits: load it with split='both'")


def files(name: str, source: str, *, folder=None, path=None, split: str = "both") -> list[tuple]:
    """(path, provenance for captions, reader) of each file of a data set: the reader takes `faults`, yields groups.

    Fetched from the Hub, or those in a folder. Raises DataError where one is absent.
    """
    spec = SETS[name]

    def file(part: str, path: Path, source: str) -> tuple:
        # The file's own folder keeps ids apart where a split has several files (HH-RLHF's tranches). Where one file
        # holds all splits, ids must not depend on the split that is asked for.
        tranche = path.parent.name if len(spec.hub.get(part, ())) > 1 else ""
        prefix = "/".join(filter(None, (name, "" if part == "both" or spec.split_column else part, tranche)))
        options = {"split": split} if spec.split_column else {}
        return path, source, partial(spec.read, path, prefix=prefix, source=source, **options)

    if path is not None:
        path = own_file(path, folder)
        return [file(split, path, provenance(spec.title, path))]
    both = split == "both" and spec.splits and not spec.split_column
    parts = ("train", "validation") if both else (split,)
    if source == "hub":
        fetched = [(part, each, *fetch(spec, each)) for part in parts for each in spec.hub[part]]
        return [file(part, path, f"{spec.repo}@{commit[:7]} {each}") for part, each, path, commit in fetched]
    root = data_folder(folder, name)
    if both and (single := _first(root, spec.local.get("both", ()))):
        places = [("both", single)]
    else:
        places = [(part, path) for part in parts for path in present(root, spec, part)]
    return [file(part, path, provenance(spec.title, path, root)) for part, path in places]


def provenance(title: str, path: Path, root: Path | None = None) -> str:
    """What a caption says of a local file: its place under the folder, never the path of one machine, and its hash."""
    return f"{title}, {path.relative_to(root).as_posix() if root else path.name} (sha256 {sha256(path)[:12]})"


def data_folder(folder: str | Path | None, title: str) -> Path:
    """The folder that holds data sets, by default HS2_DATA_DIR; raises DataError where there is none."""
    chosen = folder or os.environ.get("HS2_DATA_DIR")
    if not chosen:
        fix = "pass folder=, set HS2_DATA_DIR to the folder that holds the data sets, or use source='hub'"
        raise DataError(title, None, None, "source='folder' needs a folder, and none is named", fix)
    root = Path(chosen).expanduser()
    if not root.is_dir():
        raise DataError(root, None, None, "the data folder does not exist", "correct folder= or HS2_DATA_DIR")
    return root


def own_file(path: str | Path, folder: str | Path | None) -> Path:
    """A file of the user's, looked for here, in the checkout, and in the data folder; raises DataError.

    Notebooks run in a folder of their own: what lies at the root of the checkout is meant from the command line too.
    """
    path, known = Path(path).expanduser(), folder or os.environ.get("HS2_DATA_DIR")
    tried = [path, root() / path, *([Path(known).expanduser() / path] if known else [])]
    tried = list(dict.fromkeys(tried))  # of an absolute path one
    try:
        for candidate in tried:
            if candidate.is_file():
                with candidate.open("rb") as file:
                    file.read(1)
                return candidate
    except OSError as error:
        raise DataError(candidate, None, None, f"cannot be read ({error.strerror})", "check the file") from None
    what = f"there is no such file; looked for {' and '.join(map(str, tried))}"
    raise DataError(path, None, None, what, "correct path=, or put the file there")


def _first(root: Path, names: Iterable[str]) -> Path | None:
    return next((root / name for name in names if (root / name).is_file()), None)


def find(root: Path, spec: DataSet, split: str = "both") -> tuple[list[Path], list[str]]:
    """A split's files under the folder, [] unless all are there, and the names that were looked for.

    They may lie as in a clone of the Hub repository (with its names, or unpacked), or as the mirror lays them out.
    """
    wanted, looked = () if spec.github else spec.hub.get(split, ()), []
    for place in filter(None, (spec.place, spec.repo.rpartition("/")[2], spec.repo)):
        files = [_first(root / place, (file, file.removesuffix(".gz"))) for file in wanted]
        if files and None not in files:
            return files, looked
        looked += [f"{place}/{file}" for file in wanted]
    local = spec.local.get(split, ())
    single = _first(root, [either for name in local for either in (name, f"{name}.gz")])
    return [single] if single else [], list(dict.fromkeys([*looked, *local]))


def present(root: Path, spec: DataSet, split: str = "both") -> list[Path]:
    """A split's files under the folder; raises DataError, which says what to do, where one is absent."""
    files, looked = find(root, spec, split)
    if not files:
        part = f" ({split})" if split != "both" else ""
        what = f"{spec.title}{part} is not in this folder; looked for {', '.join(looked)}"
        fix = download(spec, root / spec.place) if spec.repo else "put the file there"
        raise DataError(root, None, None, what, fix)
    return files


def download(spec: DataSet, folder: Path) -> str:
    """How to get a data set, as the fix of an error."""
    if spec.github:
        return f"with a network: source='hub', or put {_url(spec, spec.hub['both'][0])} there"
    options = f"--repo-type dataset --revision {spec.revision} --local-dir {folder}"
    return f"with a network: hf download {spec.repo} {options}"


def fetch(spec: DataSet, file: str) -> tuple[Path, str]:
    """A file of its public place, downloaded or from the cache, and the commit it is of. Raises DataError."""
    if spec.github:
        return _from_github(spec, file), spec.revision
    from huggingface_hub import hf_hub_download  # here: slow to import, and not needed for a folder
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    url = f"{spec.repo}@{spec.revision[:7]} {file}"
    try:
        path = Path(hf_hub_download(spec.repo, file, repo_type="dataset", revision=spec.revision))
    except (HfHubHTTPError, EntryNotFoundError, OSError) as error:
        endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
        unreachable = isinstance(error, LocalEntryNotFoundError) or not isinstance(error, HfHubHTTPError)
        why = "could not be reached, and the file is not in the local cache" if unreachable else "refused the file"
        cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        fix = "check the network and HF_ENDPOINT, or copy the file from a machine that has one: source='folder'"
        raise DataError(url, None, None, f"the Hub at {endpoint} {why} ({cause})", fix) from error
    # The cache keeps files under snapshots/<commit>/: the commit that was really read, whatever was asked for.
    parts = path.parts
    commit = parts[parts.index("snapshots") + 1] if "snapshots" in parts else spec.revision
    return path, commit


RAW = "https://raw.githubusercontent.com"


def locate(spec: DataSet, source: str, folder: str | Path | None = None, split: str = "both") -> tuple[Path, str]:
    """(path, provenance) of a split of one file, from the one source named: "folder" (default HS2_DATA_DIR) or "hub".

    "hub" downloads it at its commit, so it cannot change, whole or not at all. Raises DataError where it is not there
    or cannot be had, naming what was looked for and what to do.
    """
    if source == "hub":
        (file,) = spec.hub[split]
        path, commit = fetch(spec, file)
        return noted(path), f"{spec.title}, {spec.repo}@{commit[:7]} {file}"
    if source != "folder":
        raise ValueError(f"{spec.title} comes from source 'folder' or 'hub', got {source!r}")
    root = data_folder(folder, spec.title)
    (path,) = present(root, spec, split)
    return noted(path), provenance(spec.title, path, root)


def _url(spec: DataSet, file: str) -> str:
    return f"{RAW}/{spec.repo}/{spec.revision}/{file}"


def _from_github(spec: DataSet, file: str) -> Path:
    path = runs() / "public" / spec.repo / spec.revision / file
    if path.is_file():
        return path
    url = _url(spec, file)
    fix = f"copy the file into the data folder as {spec.local['both'][0]} and use source='folder'"
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            content = reply.read()
    except (http.client.HTTPException, OSError) as error:
        what = f"could not be fetched ({getattr(error, 'reason', error)})"
        raise DataError(url, None, None, what, f"check the network, or {fix}") from None
    if content.startswith(b"version https://git-lfs"):
        raise DataError(url, None, None, "is a pointer to a file that is kept elsewhere (Git LFS)", fix)
    write(path, content)
    return path
