"""Data sets: where they are (a folder, the Hub, GitHub), and their groups, every row validated.

After `loaded = load("helpsteer2", "hub", split="train")`, `loaded.groups` are the groups.
`loaded.source` says for captions where they came from, and `loaded.generated` whether they were
made up.

Only data files are fetched (JSONL, CSV and Parquet), never loading scripts or pickles. Each comes
from a pinned commit, so that a file cannot change under its name.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx2

from hs2lib.data import compared, conversations, own, rated
from hs2lib.data.files import parse_columns
from hs2lib.data.own import HELPSTEER, OwnColumns, Scale
from hs2lib.data.readers import reader_of
from hs2lib.data.rows import DataError, Faults
from hs2lib.group import Group
from hs2lib.names import GENERATED, SOURCES, SPLITS, one_of
from hs2lib.paths import data, digests_by_place, read_yaml, root, runs, sha256, write
from hs2lib.world import sets

# What generates data sets, by the source that names it.
WORLDS = {"postcards": sets}

# A reader takes (path, faults, prefix, source), and may take a split.
Reader = Callable[..., Iterator[Group]]


@dataclass(frozen=True)
class DataSet:
    """What a data set is: an entry of `sets.yaml`.

    `sets.yaml` says what each field is. `github` says that the public place is a repository on
    GitHub, not on the Hub.
    """

    title: str
    read: Reader | None = None
    repo: str = ""
    revision: str = ""
    hub: dict[str, list[str]] = field(default_factory=dict)
    local: dict[str, list[str]] = field(default_factory=dict)
    licence: str = ""
    place: str = ""
    split_column: bool = False
    github: bool = False

    def parts(self, split: str) -> tuple[str, ...]:
        """The parts whose files make a split; () where there is no such split."""
        if "train" not in self.hub | self.local:
            return (split,) if split == "both" else ()
        if split == "both" and not self.split_column:
            return ("train", "validation")
        return (split,)


def data_sets(module: str, file: str) -> dict[str, DataSet]:
    """The data sets of a YAML file in the form of `sets.yaml`, by name.

    module: the `__file__` of a module. file: the name of the YAML file, which lies beside it.
    """
    sets = {}
    for name, entry in read_yaml(module, file).items():
        reader = _reader(entry.pop("reader", ""))
        entry.setdefault("place", name)
        sets[name] = DataSet(read=reader, **entry)
    return sets


def _reader(name: str) -> Reader | None:
    """The reader of this name; None where there is none.

    It is a function, or a model of rows that are a group each.
    """
    for module in (own, rated, compared, conversations):
        reader = getattr(module, name, None)
        if isinstance(reader, type):
            return reader_of(reader)
        if reader is not None:
            return reader
    return None


# The sets that `load` reads.
SETS = data_sets(__file__, "sets.yaml")

# The sets that benchmarks read in their own way.
BENCHMARKS = data_sets(__file__, "benchmarks.yaml")


@dataclass
class Loaded:
    """The groups that `load` returns, where they came from, and what was set aside.

    `source` says for captions where the groups came from, `generated` whether they were made up.
    `set_aside` has one `hs2lib.data.rows.DataError` for each row left out, the sound partner of a
    faulty row of a pair included; it is empty unless strict=False. `own` says that they are from a
    file of the user's, whatever it is called. `read` has the files, as
    `hs2lib.paths.digests_by_place`. `own_columns` says of your own ratings what the columns are.
    """

    groups: list[Group]
    source: str
    generated: bool
    set_aside: list[DataError] = field(default_factory=list)
    own: bool = False
    read: dict[str, str] = field(default_factory=dict)
    own_columns: OwnColumns | None = None

    def scale_of(self, attribute: str) -> Scale:
        """The scale of an attribute's labels: HelpSteer2's, where they are not your own."""
        if self.own_columns is None:
            return HELPSTEER
        return self.own_columns.scales[attribute]


class Located(NamedTuple):
    """A file of a data set.

    `origin` is what a caption says of it. `read` has the files that were read or found absent, as
    `hs2lib.paths.digests_by_place`.
    """

    path: Path
    origin: str
    read: dict[str, str]


class Found(NamedTuple):
    """Files that were looked for, and those looked for before them that are absent."""

    files: list[Path]
    absent: list[Path]


def load(
    name: str,
    source: str,
    *,
    folder: str | Path | None = None,
    path: str | Path | None = None,
    split: str = "both",
    strict: bool = True,
    n_prompts: int = 1000,
    seed: int = 0,
    attributes: Sequence[str] = (),
    scale: str = "",
    columns: str = "",
) -> Loaded:
    """A data set as groups, every row validated.

    The groups come from the one source that is named; there is no fallback to another one.

    Args:
        name: demonstrations, helpsteer2, helpsteer2-disagreements, helpsteer2-preference,
            helpsteer2-unrated, helpsteer, helpsteer3-preference, oasst1, oasst1-paths, hh-rlhf,
            daring-anteater, summeval, pandalm, or ratings (your own file).
        source: "hub", the Hugging Face Hub at the pinned revision (honours HF_ENDPOINT); "folder",
            a local copy; or "postcards", generated by `hs2lib.world.sets`.
        folder: the folder of a local copy, by default the environment variable HS2_DATA_DIR.
        path: a file to read, whatever its name, in place of the data set's own ones, as the whole
            of the split. A relative one is looked for in the current directory, then in the
            checkout, then in the folder.
        split: "train", "validation" or "both".
        strict: whether faulty rows raise one error a file, which lists them. Else they are left
            out, and all are reported in `set_aside`.
        n_prompts: of the small world: how many prompts the split has. Its "validation" split has
            the prompts that ask for a fact which no training text of any seed asks for
            (`hs2lib.world.cards.Card.is_reserved`).
        seed: of the small world.
        attributes: of your own ratings: the columns to read, or () for every column of numbers.
        scale: of your own ratings: the lowest and the highest there can be, as "1-5" or
            "clarity:1-5,score:0-1", or "" for 0 to 4.
        columns: of your own ratings: as `hs2lib.data.files.parse_columns`.

    Raises:
        hs2lib.data.rows.DataError: rows are faulty, or data absent; it is a ValueError that names
            file, line, field, what arrived and the fix.
        ValueError: an unknown name, source or split, or they do not go together.
    """
    _check(name, source, split, path)
    if source in WORLDS:
        world = WORLDS[source]
        if name == "demonstrations":
            groups = list(world.demonstrations(n_prompts, seed=seed, split=split))
        else:
            stage = {"helpsteer2": "released", "helpsteer2-disagreements": "annotated"}[name]
            groups = list(world.groups(n_prompts, seed=seed, stage=stage, split=split))
        return Loaded(groups, f"{world.source(seed)}, {n_prompts} prompts", True)
    spec = SETS[name]
    loaded = Loaded([], "", False, own=path is not None)
    if path is None:
        places, loaded.read = files(spec, source, folder, split)
    else:
        users_file, absent = own_file(path, folder)
        places = [(split, users_file, provenance(spec.title, users_file))]
        loaded.read = digests_by_place(users_file, *absent)
    for part, file, origin in places:
        prefix = _id_prefix(name, spec, part, file)
        options: dict[str, object] = {"split": split} if spec.split_column else {}
        if name == "ratings":
            loaded.own_columns = own.look(file, attributes, scale, parse_columns(columns))
            options = {"own_columns": loaded.own_columns}
        with Faults(file, strict) as faults:
            loaded.groups.extend(spec.read(file, faults, prefix, origin, **options))
        loaded.set_aside.extend(faults.set_aside)
    loaded.source = "; ".join(dict.fromkeys(origin for _, _, origin in places))
    return loaded


def _id_prefix(name: str, spec: DataSet, part: str, file: Path) -> str:
    """What the ids of a file's groups start with.

    Args:
        name: of the data set.
        spec: what the data set is.
        part: the part of the split that the file makes.
        file: its path.
    """
    pieces = [name]
    # Where one file holds all splits, ids must not depend on the split that is asked for.
    if part != "both" and not spec.split_column:
        pieces.append(part)
    # The file's own folder keeps ids apart where a split has several files (HH-RLHF's tranches).
    if len(spec.hub.get(part, ())) > 1 and file.parent.name:
        pieces.append(file.parent.name)
    return "/".join(pieces)


def _check(name: str, source: str, split: str, path: str | Path | None) -> None:
    """Raise ValueError for an unknown name, source or split, and for what does not go together."""
    one_of("data set", name, SETS)
    one_of("source", source, SOURCES)
    one_of("split", split, SPLITS)
    if source in WORLDS:
        available = GENERATED
    elif source == "hub":
        available = [on_hub for on_hub, spec in SETS.items() if spec.repo]
    else:
        available = [name for name, spec in SETS.items() if spec.read]
    if name not in available:
        other = "folder" if SETS[name].read else "postcards"
        raise ValueError(
            f"{name!r} does not come from source {source!r}: load it with source={other!r}"
        )
    if source != "folder" and path is not None:
        raise ValueError(
            f"path={str(path)!r} is read with source='folder', not with source={source!r}; "
            "a file of your own ratings wants dataset='ratings' too"
        )
    if name == "ratings" and path is None:
        raise ValueError("your own ratings need path=, the JSONL, CSV or Parquet file to read")
    if source not in WORLDS and path is None and not SETS[name].parts(split):
        raise ValueError(f"{name!r} has no splits: load it with split='both'")


def files(
    spec: DataSet, source: str, folder: str | Path | None = None, split: str = "both"
) -> tuple[list[tuple[str, Path, str]], dict[str, str]]:
    """(part, path, provenance for captions) of each file of a split, and what was read.

    Args:
        spec: what the data set is.
        source: "folder", or "hub", which downloads a file at its commit, whole or not at all.
        folder: the folder of a local copy, by default HS2_DATA_DIR.
        split: "train", "validation" or "both".

    Raises:
        DataError: a file is not there or cannot be had; it names what was looked for and what to
            do.
    """
    parts = spec.parts(split) or (split,)
    if source == "hub":
        repository = f"{spec.title}, {spec.repo}@{spec.revision[:7]}"
        places = []
        for part in parts:
            for name in spec.hub[part]:
                places.append((part, fetch(spec, name), f"{repository} {name}"))
        return places, digests_by_place(*(path for _, path, _ in places))
    one_of("source", source, ("folder", "hub"))
    data_root = data_folder(folder, spec.title)
    absent = []
    hits = []
    if len(parts) > 1:  # one file may hold all parts
        single = find(data_root, spec, split, needed=False)
        absent += single.absent
        hits = [(split, path) for path in single.files]
    if not hits:
        for part in parts:
            several = find(data_root, spec, part)
            absent += several.absent
            hits += [(part, path) for path in several.files]
    places = [(part, path, provenance(spec.title, path, data_root)) for part, path in hits]
    return places, digests_by_place(*(path for _, path in hits), *absent)


def locate(
    spec: DataSet, source: str, folder: str | Path | None = None, split: str = "both"
) -> Located:
    """The file of a split that has only one, as `files` finds it."""
    places, read = files(spec, source, folder, split)
    ((_, path, origin),) = places
    return Located(path, origin, read)


def provenance(title: str, path: Path, root: Path | None = None) -> str:
    """What a caption says of a local file: its title, its place under the folder and its hash.

    The path of one machine is not in it. root: the folder.
    """
    try:
        place = path.relative_to(root).as_posix() if root else path.name
        return f"{title}, {place} (sha256 {sha256(path)[:12]})"
    except OSError as error:
        raise DataError(
            path, None, None, f"cannot be read ({error.strerror})", "check the file"
        ) from None


def data_folder(folder: str | Path | None, title: str) -> Path:
    """The folder that holds data sets, by default HS2_DATA_DIR; raises DataError where it is not.

    title: of the data set that is wanted, for the message.
    """
    fix = "set folder= or HS2_DATA_DIR to the folder that holds the data sets, or use source='hub'"
    chosen = folder or data()
    if not chosen:
        raise DataError(title, None, None, "it needs a data folder, and none is named", fix)
    path = Path(chosen).expanduser()
    if not os.path.isdir(path):  # which is False of a name that is too long, too
        raise DataError(title, None, None, f"the data folder {path} does not exist", fix)
    return path


def own_file(path: str | Path, folder: str | Path | None) -> tuple[Path, list[Path]]:
    """A file of the user's, and the paths before it at which it is not.

    It is looked for in the current directory, in the checkout, and in the data folder. Notebooks
    run in a folder of their own, and from there, too, a file at the root of the checkout is meant
    as it is from the command line. Raises DataError where there is no such file.
    """
    with suppress(RuntimeError):  # ~name.csv, which is no user's folder
        path = Path(path).expanduser()
    path = Path(path)
    data_root = Path(folder or data() or "").expanduser()
    candidates = list(dict.fromkeys([path, root() / path, data_root / path]))
    try:
        hits = _first(candidates)
        is_folder = not hits.files and path.is_dir()
    except OSError as error:  # a name that is too long, or a folder that may not be read
        raise DataError(
            path, None, None, f"cannot be looked for ({error.strerror})", "correct path="
        ) from None
    if hits.files:
        return hits.files[0], hits.absent
    if is_folder:
        raise DataError(path, None, None, "it is a folder", "name a file in it")
    raise DataError(
        path,
        None,
        None,
        f"there is no such file; looked for {' and '.join(map(str, candidates))}",
        "correct path=, or put the file there",
    )


def _first(paths: Iterable[Path]) -> Found:
    """The first path that is a file, if any, and the absent ones before it.

    If an absent one came later, it would be read in its place.
    """
    absent = []
    for path in paths:
        if path.is_file():
            return Found([path], absent)
        absent.append(path)
    return Found([], absent)


def _layouts(spec: DataSet, split: str) -> list[list[str]]:
    """The names that the files of a split may have in a data folder, a list for each layout.

    They may lie as in a clone of the Hub repository, or as the mirror lays them out.
    """
    layouts = []
    hub_files = spec.hub.get(split, [])
    if hub_files and not spec.github:
        for clone in (spec.place, spec.repo.rpartition("/")[2], spec.repo):
            if clone:
                layouts.append([f"{clone}/{file}" for file in hub_files])
    for name in spec.local.get(split, []):
        layouts.append([name])
    return layouts


def find(root: Path, spec: DataSet, split: str = "both", *, needed: bool = True) -> Found:
    """The files of a split under a folder, packed or unpacked; none where one of them is absent.

    Args:
        root: the folder.
        spec: what the data set is.
        split: "train", "validation" or "both".
        needed: whether DataError is raised where a file is absent.

    Raises:
        DataError: a file is needed and absent; it says what was looked for and what to do.
    """
    layouts = _layouts(spec, split)
    absent = []
    for names in layouts:
        hits = []
        for name in names:
            file = _first((root / name, root / name.removesuffix(".gz"), root / f"{name}.gz"))
            absent += file.absent
            hits += file.files
        if len(hits) == len(names):
            return Found(hits, absent)
    if not needed:
        return Found([], absent)
    part = f" ({split})" if split != "both" else ""
    looked_for = ", ".join(dict.fromkeys(name for names in layouts for name in names))
    raise DataError(
        root,
        None,
        None,
        f"{spec.title}{part} is not in this folder; looked for {looked_for}",
        _how_to_get(spec, root),
    )


def _how_to_get(spec: DataSet, root: Path) -> str:
    """What to do, in words, where the files of a data set are not in a folder."""
    if not spec.repo:
        return "put the file there"
    if spec.github:
        return "with a network: source='hub'"
    return (
        f"with a network: hf download {spec.repo} --repo-type dataset "
        f"--revision {spec.revision} --local-dir {root / spec.place}"
    )


RAW = "https://raw.githubusercontent.com"


def fetch(spec: DataSet, file: str) -> Path:
    """A file of its public place at its commit, downloaded or from the cache. Raises DataError."""
    try:
        if spec.github:
            return _from_github(f"{spec.repo}/{spec.revision}/{file}")
        # Imported here: it is slow to import, and not needed for a folder.
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(spec.repo, file, repo_type="dataset", revision=spec.revision))
    except (httpx2.HTTPError, OSError) as error:
        server = RAW if spec.github else os.environ.get("HF_ENDPOINT", "https://huggingface.co")
        cause = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{spec.repo}@{spec.revision[:7]} {file}",
            None,
            None,
            f"could not be had from {server}, and is not in the local cache ({cause})",
            "check the network and HF_ENDPOINT, "
            "or copy the file from a machine that has one: source='folder'",
        ) from error


def _from_github(place: str) -> Path:
    """A file of GitHub, downloaded or from the cache. place: owner/name/commit/file."""
    path = runs() / "public" / place
    if not path.is_file():
        response = httpx2.get(f"{RAW}/{place}", timeout=60, follow_redirects=True)
        content = response.raise_for_status().content
        if content.startswith(b"version https://git-lfs"):
            raise OSError("a pointer to a file that is kept elsewhere: Git LFS")
        write(path, content)
    return path
