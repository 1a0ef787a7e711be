"""Where the data sets are: on the Hub at pinned revisions, or in a folder; and which reader reads them.

Only data files are fetched (JSONL and Parquet), never loading scripts or pickles.
"""

import difflib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hs2lib.data import readers
from hs2lib.data.rows import DataError, Faults, read
from hs2lib.group import Group
from hs2lib.names import EMBEDDED, SOURCES, SPLITS
from hs2lib.paths import runs, sha256, write


@dataclass(frozen=True)
class DataSet:
    """Where one data set is kept.

    `hub` names the files of each split in the Hub repository; a set without splits has only "both". `local` names
    further files, relative to the data folder, which a local mirror may hold in their place.
    """

    read: Callable[..., Iterator[Group]]
    title: str
    repo: str = ""
    revision: str = ""
    hub: dict[str, tuple[str, ...]] = field(default_factory=dict)
    local: dict[str, tuple[str, ...]] = field(default_factory=dict)


_HELPSTEER2 = {"repo": "nvidia/HelpSteer2", "revision": "990b2711a36180dd19d9c94b8627844866f8982a"}

_JSONL = {"train": ("train.jsonl.gz",), "validation": ("validation.jsonl.gz",)}

_HH = ("harmless-base", "helpful-base", "helpful-online", "helpful-rejection-sampled")

# Revisions: HelpSteer2's is the one of the paper's released rows that this project is checked against; the others are
# those that independent public code pins for the same files. A revision is a commit, so a file cannot change under it.
SETS = {
    "helpsteer2": DataSet(readers.helpsteer2, "HelpSteer2", hub=_JSONL, **_HELPSTEER2),
    "helpsteer2-disagreements": DataSet(
        readers.disagreements,
        "HelpSteer2 disagreements",
        hub={"both": ("disagreements/disagreements.jsonl.gz",)},
        **_HELPSTEER2,
    ),
    "helpsteer2-preference": DataSet(
        readers.preference,
        "HelpSteer2-Preference",
        hub=dict.fromkeys(SPLITS, ("preference/preference.jsonl.gz",)),
        **_HELPSTEER2,
    ),
    "helpsteer2-unrated": DataSet(
        readers.unrated,
        "HelpSteer2 validation pairs, unrated (facebookresearch/RAM)",
        local={"both": ("helpsteer2/validation_pairs_unrated.jsonl.gz",)},
    ),
    "helpsteer": DataSet(
        readers.helpsteer, "HelpSteer", "nvidia/HelpSteer", "3ca5d59c1bc1080af195b4254e7407db60b6f450", _JSONL
    ),
    "oasst1": DataSet(
        readers.oasst1,
        "Open Assistant",
        "OpenAssistant/oasst1",
        "fdf72ae0827c1cda404aff25b6603abec9e3399b",
        # Parquet, not the .messages.jsonl.gz export: only there are the official splits.
        {
            "train": ("data/train-00000-of-00001-b42a775f407cee45.parquet",),
            "validation": ("data/validation-00000-of-00001-134b8fd0c89408b6.parquet",),
        },
        {
            "train": ("oasst1/en-train.jsonl.gz",),
            "validation": ("oasst1/en-validation.jsonl.gz",),
            "both": ("oasst1/2023-04-12_oasst_ready.messages.jsonl.gz",),
        },
    ),
    "hh-rlhf": DataSet(
        readers.hh_rlhf,
        "HH-RLHF",
        "Anthropic/hh-rlhf",
        "09be8c5bbc57cb3887f3a9732ad6aa7ec602a1fa",
        {
            "train": tuple(f"{tranche}/train.jsonl.gz" for tranche in _HH),
            "validation": tuple(f"{tranche}/test.jsonl.gz" for tranche in _HH),
        },
    ),
    "daring-anteater": DataSet(
        readers.daring_anteater,
        "Daring-Anteater",
        "nvidia/Daring-Anteater",
        "ae79f8ac44cf185fbd3250dbe46057a7f7c4ec40",
        {"both": ("train.jsonl",)},
        {"both": ("steerlm/attribute_labelled_512.jsonl.gz",)},
    ),
    "summeval": DataSet(
        readers.summeval,
        "SummEval",
        local={"both": ("agreement/summeval_1600_text_and_3expert_ratings.jsonl.gz",)},
    ),
    "pandalm": DataSet(readers.pandalm, "PandaLM", local={"both": ("agreement/testset-v1.json.gz",)}),
    "ratings": DataSet(readers.ratings, "your own ratings"),
}


@dataclass(frozen=True)
class File:
    """A file to read: where it lies, its provenance for captions, and its reader (faults -> groups)."""

    path: Path
    source: str
    read: Callable[[Faults], Iterator[Group]]


def check(name: str, source: str, split: str, path: str | Path | None = None) -> None:
    """Refuse an unknown name, source or split, and combinations that do not exist. Raises ValueError."""
    for what, value, known in (("data set", name, SETS), ("source", source, SOURCES), ("split", split, SPLITS)):
        if value not in known:
            near = difflib.get_close_matches(str(value), known, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(f"unknown {what} {value!r}{hint}; there are: {', '.join(known)}")
    spec = SETS[name]
    if source == "embedded" and name not in EMBEDDED:
        raise ValueError(f"the embedded corpus has no {name!r}, only {', '.join(EMBEDDED)}: load it from hub or folder")
    if source == "hub" and not spec.repo:
        raise ValueError(f"{name!r} is not on the Hub in a form that can be read: load it with source='folder'")
    if source != "folder" and path is not None:
        raise ValueError(f"path={str(path)!r} is read with source='folder', not with source={source!r}")
    if name == "ratings" and path is None:
        raise ValueError("your own ratings need path=, the JSONL, CSV or Parquet file to read")
    has_splits = source == "embedded" or "train" in {**spec.hub, **spec.local}
    if split != "both" and not has_splits and path is None:
        raise ValueError(f"{name!r} has no splits: load it with split='both'")


def files(name: str, source: str, *, folder=None, path=None, split: str = "both") -> list[File]:
    """The files of a data set, fetched from the Hub or found in a folder; raises DataError where one is absent."""
    spec = SETS[name]
    if path is not None:
        return [_file(name, split, _own(path, folder), spec, split=split)]
    whole_in_one_file = name == "helpsteer2-preference"
    if whole_in_one_file or split != "both" or "train" not in {**spec.hub, **spec.local}:
        splits = (split,)
    else:
        splits = ("train", "validation")
    out = []
    if source == "hub":
        for part in splits:
            for file in spec.hub[part]:
                fetched, commit = fetch(spec, file)
                out.append(_file(name, part, fetched, spec, f"{spec.repo}@{commit[:7]} {file}", split))
        return out
    root = local_root(folder, name, spec)
    if split == "both" and (single := _first(root, spec.local.get("both", ()))) and len(splits) == 2:
        return [_file(name, "", single, spec, None, split, root)]
    for part in splits:
        for found in _find(root, name, spec, part):
            out.append(_file(name, part, found, spec, None, split, root))
    return out


def _file(name: str, part: str, path: Path, spec: DataSet, source: str | None = None, split="both", root=None) -> File:
    if source is None:
        # Only the place under the folder is shown: reports must not carry the paths of one machine. The hash says
        # which file it was.
        shown = path.relative_to(root).as_posix() if root else path.name
        source = f"{spec.title}, {shown} (sha256 {sha256(path)[:12]})"
    # The file's own folder keeps ids apart where a split has several files (HH-RLHF's tranches).
    tranche = path.parent.name if path.parent.name in _HH else ""
    # One file with a split column: ids must not depend on the split that is asked for.
    extra = {"split": split} if spec.read is readers.preference else {}
    prefix = "/".join(filter(None, (name, part if part != "both" and not extra else "", tranche)))
    return File(path, source, partial(_read, spec.read, path, prefix, source, extra))


def _read(read, path: Path, prefix: str, source: str, extra: dict, faults: Faults) -> Iterator[Group]:
    return read(path, faults, prefix, source, **extra)


def fetch(spec: DataSet, file: str) -> tuple[Path, str]:
    """A file of a Hub repository, downloaded or from the Hub's cache, and the commit it is of."""
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
        fix = (
            "check the network and HF_ENDPOINT, or copy the file from a machine that has one and load it with "
            "source='folder'"
        )
        raise DataError(url, None, None, f"the Hub at {endpoint} {why} ({cause})", fix) from error
    # The cache keeps files under snapshots/<commit>/: the commit that was really read, whatever was asked for.
    parts = path.parts
    commit = parts[parts.index("snapshots") + 1] if "snapshots" in parts else spec.revision
    return path, commit


def local_root(folder: str | Path | None, name: str, spec: DataSet) -> Path:
    chosen = folder or os.environ.get("HS2_DATA_DIR")
    if not chosen:
        fix = "pass folder=, or set HS2_DATA_DIR to the folder that holds the data sets"
        raise DataError(name, None, None, "source='folder' needs a folder, and none was given", fix)
    root = Path(chosen).expanduser()
    if not root.is_dir():
        raise DataError(root, None, None, "the data folder does not exist", "correct folder= or HS2_DATA_DIR")
    return root


def _own(path: str | Path, folder: str | Path | None) -> Path:
    path = Path(path).expanduser()
    root = folder or os.environ.get("HS2_DATA_DIR")
    tried = [path] if path.is_absolute() or not root else [path, Path(root).expanduser() / path]
    for candidate in tried:
        if candidate.is_file():
            return candidate
    what = f"there is no such file; looked for {' and '.join(map(str, tried))}"
    raise DataError(path, None, None, what, "correct path=, or put the file there")


def _first(root: Path, names: tuple[str, ...]) -> Path | None:
    return next((root / name for name in names if (root / name).is_file()), None)


def _find(root: Path, name: str, spec: DataSet, split: str) -> list[Path]:
    """A split's files under the folder: as a clone of the Hub repository, or as the mirror lays them out."""
    looked = []
    places = [name.partition("-")[0] if spec.repo == "nvidia/HelpSteer2" else name]
    places += [spec.repo.rpartition("/")[2], spec.repo] if spec.repo else []
    for place in places:
        wanted = spec.hub.get(split, ())
        # A clone keeps the Hub's names; whoever unpacked the files has them without .gz.
        found = [_first(root / place, (file, file.removesuffix(".gz"))) for file in wanted]
        if found and None not in found:
            return found
        looked += [f"{place}/{file}" for file in wanted]
    if single := _first(root, spec.local.get(split, ())):
        return [single]
    looked += spec.local.get(split, ())
    fix = "put the file there"
    if spec.repo:
        download = f"hf download {spec.repo} --repo-type dataset --revision {spec.revision}"
        fix = f"with a network: {download} --local-dir {root / places[0]}"
    what = f"{spec.title} ({split}) is not in this folder; looked for {', '.join(dict.fromkeys(looked))}"
    raise DataError(root, None, None, what, fix)


RAW = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class PublicFile:
    """A file of a GitHub repository at a commit, and the names under which a local folder may hold it."""

    title: str
    repo: str
    commit: str
    path: str
    local: tuple[str, ...]


def locate(file: PublicFile, source: str, folder: str | Path | None = None) -> tuple[Path, str]:
    """(path, provenance) of a file from the one source named: "folder" (default HS2_DATA_DIR) or "hub".

    "hub" downloads it at its commit, so it cannot change, into the runs folder, whole or not at all. Raises
    DataError where it is not there or cannot be had, naming what was looked for and what to do.
    """
    if source == "hub":
        return _fetch(file), f"{file.title}, {file.repo}@{file.commit[:7]} {file.path}"
    if source != "folder":
        raise ValueError(f"{file.title} comes from source 'folder' or 'hub', got {source!r}")
    chosen = folder or os.environ.get("HS2_DATA_DIR")
    if not chosen:
        fix = "pass folder=, set HS2_DATA_DIR to the folder that holds the data sets, or use source='hub'"
        raise DataError(file.title, None, None, "source='folder' needs a folder, and none was given", fix)
    root = Path(chosen).expanduser()
    for name in file.local:
        for path in (root / name, root / f"{name}.gz"):
            if path.is_file():
                # Only the place under the folder is shown: reports must not carry the paths of one machine.
                shown = path.relative_to(root).as_posix()
                return path, f"{file.title}, {shown} (sha256 {sha256(path)[:12]})"
    what = f"{file.title} is not in this folder; looked for {', '.join(file.local)}"
    url = f"{RAW}/{file.repo}/{file.commit}/{file.path}"
    raise DataError(root, None, None, what, f"with a network: source='hub', or put {url} there")


def rows(path: Path) -> list[tuple[int, dict]]:
    """(line, row) of every row of a JSONL file; the first faulty one raises DataError."""
    return [(line, row) for line, row in read(path, Faults(path)) if row is not None]


def _fetch(file: PublicFile) -> Path:
    path = runs() / "public" / file.repo / file.commit / file.path
    if path.is_file():
        return path
    url = f"{RAW}/{file.repo}/{file.commit}/{file.path}"
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            content = reply.read()
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        fix = f"check the network, or copy the file into the data folder as {file.local[0]} and use source='folder'"
        raise DataError(url, None, None, f"could not be fetched ({getattr(error, 'reason', error)})", fix) from None
    if content.startswith(b"version https://git-lfs"):
        fix = f"copy the file into the data folder as {file.local[0]} and use source='folder'"
        raise DataError(url, None, None, "is a pointer to a file that is kept elsewhere (Git LFS)", fix)
    write(path, content)
    return path
