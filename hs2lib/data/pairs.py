"""Pairs of a better and a worse response: RewardBench, prior sets, generated, own.

Every set becomes groups of two responses, the chosen one first (preference -1), with ids
`subset/number`. Of pairs of one's own the preference is minus their margin. Whether a set is the
whole of RewardBench is counted from what was read, never assumed: see
`hs2lib.evaluate.rewardbench`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ValidationError

from hs2lib.data.compared import chosen_first
from hs2lib.data.files import FileRow, Reading, parse_columns, renamed
from hs2lib.data.load import BENCHMARKS, Loaded, data_folder, find, locate, own_file, provenance
from hs2lib.data.readers import Name, as_whole, turns
from hs2lib.data.rows import DataError, Fault, Faults, Row, Text, expected, faults_of, sound
from hs2lib.group import Group
from hs2lib.names import SOURCES, one_of
from hs2lib.paths import digests_by_place
from hs2lib.train.items import best_worst_pairs, labels_of
from hs2lib.world import pairs as generated
from hs2lib.world import sets

OFFICIAL = BENCHMARKS["rewardbench"]
PRIOR = BENCHMARKS["preference-test-sets"]


def _without_slash(name: str | int) -> str:
    return str(name).replace("/", "-")


class Names(Row, extra="ignore"):
    """What names a pair; the subset stands before the / of ids."""

    subset: Annotated[
        Text | int,
        expected("text or a whole number", "give it, or leave it out"),
        BeforeValidator(as_whole),
        AfterValidator(_without_slash),
    ] = ""
    id: Name = None


def pairs_of(
    file: Path, faults: Faults, columns: Mapping[str, str] | None = None
) -> Iterator[tuple[Group, dict[str, Any]]]:
    """All pairs of a file, each with the columns that its row carries along.

    A pair is called by the columns `subset` and `id`, by default the name of the file and the
    number of the row. A row whose responses are equally good goes to `faults.partners`.

    Args:
        file: of pairs, as `hs2lib.data.files`.
        faults: takes the faulty rows.
        columns: the file's name of each of our columns that is called otherwise.
    """
    columns = dict(columns or {})
    named = {ours: columns.pop(ours) for ours in ("subset", "id") if ours in columns}
    ids: set[str] = set()
    reading = Reading(file, columns)
    for row in reading.rows(faults):
        try:
            pairs = _pairs(row, renamed(row.row, named), file)
        except ValidationError as error:
            for fault in faults_of(error):
                faults.add(row.line, fault)
            continue
        except Fault as fault:
            faults.add(row.line, fault)
            continue
        if row.tie:
            what = "a tie: neither response is better"
            aside = DataError(file, row.line, None, what, "nothing is wrong with it")
            faults.partners.append(aside)
            continue
        repeated = next((pair.id for pair in pairs if pair.id in ids), None)
        if repeated:
            what = f"the id {repeated} a second time"
            faults.add(row.line, Fault("id", what, "number the rows of a subset"))
            continue
        ids.update(pair.id for pair in pairs)
        read_names = {*reading.columns.values(), *named.values()}
        read_names |= {"subset", "id"} - named.keys()
        carried = {
            name: value
            for name, value in row.row.items()
            if name not in read_names and value is not None
        }
        for pair in pairs:
            yield pair, carried


def _pairs(row: FileRow, values: dict[str, Any], file: Path) -> list[Group]:
    """The pairs of a row; raises ValidationError or Fault where it names or compares none.

    values: of the row, under our names of the columns that name a pair.
    """
    names = Names.model_validate(values, strict=False)
    if not row.comparisons and not row.tie:
        what = "nothing says which response is better"
        fix = "give chosen and rejected, a winner, or scores: docs/your-data.md"
        raise Fault(row.places[0][0], what, fix)
    name = names.subset or file.name.split(".")[0]
    number = names.id or row.line - 1
    margin = abs(row.group.preference or 1.0)
    texts = [response.text for response in row.group.responses]
    pairs = []
    for better, worse in row.comparisons:
        mark = f"-{better}-{worse}" if len(row.comparisons) > 1 else ""
        pair = chosen_first(
            f"{name}/{number}{mark}", row.group.prompt, texts[better], texts[worse], file.name
        )
        pairs.append(replace(pair, preference=-margin))
    return pairs


class LLMBar(Row, extra="ignore"):
    """A row of LLMBar; the label is the number of the better output."""

    input: Text
    output_1: Text
    output_2: Text
    label: Literal[1, 2]

    def pair(self, name: str, source: str) -> Group:
        """The row as a pair."""
        outputs = [self.output_1, self.output_2]
        if self.label == 2:
            outputs.reverse()
        return chosen_first(name, turns(self.input), *outputs, source)


class HumanEvalPack(Row, extra="ignore"):
    """A row of HumanEvalPack; its prompt is the unfinished function."""

    prompt: Text
    canonical_solution: Text
    buggy_solution: Text

    def pair(self, name: str, source: str) -> Group:
        """The row as a pair."""
        return chosen_first(
            name, turns(self.prompt), self.canonical_solution, self.buggy_solution, source
        )


def read_groups(file: Path, subset: str, source: str) -> list[Group]:
    """All pairs of a published file; any fault raises, since it would be another benchmark.

    subset: of all pairs, numbered by row; "" where rows name it.
    """
    with Faults(file) as faults:
        pairs = [pair for pair, _ in pairs_of(file, faults)]
    if subset:
        pairs = [replace(pair, id=f"{subset}/{i}") for i, pair in enumerate(pairs)]
    return [replace(pair, source=source) for pair in pairs]


@dataclass(frozen=True)
class Benchmark:
    """Pairs to be judged.

    `kind` is "rewardbench" (all or a part of it), "generated" or "own". `read` has the files, as
    `hs2lib.paths.digests_by_place`. Of own pairs there are also the rows set aside, with those in
    which neither response is better, and the columns carried along by pair id.
    """

    pairs: tuple[Group, ...]
    kind: str
    source: str
    set_aside: tuple[DataError, ...] = ()
    columns: dict[str, dict] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)

    @property
    def generated(self) -> bool:
        """Whether the pairs were made by `hs2lib.world.pairs`."""
        return self.kind == "generated"

    def first(self, n: int) -> "Benchmark":
        """The first n pairs of each subset (0: all); where any is left out, the source says so."""
        counts: Counter[str] = Counter()
        pairs = []
        for pair in self.pairs:
            subset = pair.id.partition("/")[0]
            counts[subset] += 1
            if not n or counts[subset] <= n:
                pairs.append(pair)
        if len(pairs) == len(self.pairs):
            return self
        source = f"{self.source}, the first {n} pairs of each subset"
        return replace(self, pairs=tuple(pairs), source=source)


def load_pairs(
    source: str,
    *,
    folder: str | Path | None = None,
    path: str | Path | None = None,
    prior_sets: bool = False,
    n_per_section: int = 50,
    seed: int = 0,
    strict: bool = True,
    columns: str = "",
) -> Benchmark:
    """The pairs of one source, validated row by row.

    Paper: section 3 and Table 3. The official file could not be read where this was written.
    HumanEvalPack's pairs are built with the unfinished function as prompt, and accuracies on built
    pairs need not be the official ones.

    Args:
        source: "hub", the official set at a pinned revision; "folder", the official file where it
            is there, else the parts that can be built, LLMBar and HumanEvalPack; or "postcards",
            generated by `hs2lib.world.pairs.rewardbench`.
        folder: the folder of "folder", by default HS2_DATA_DIR.
        path: own pairs in place of these, a file as `hs2lib.data.files` describes it, with the
            columns subset and id if wished.
        prior_sets: whether the four prior sets are read, too.
        n_per_section: the number of generated pairs of each section.
        seed: of the generated pairs.
        strict: of own pairs: False sets faulty rows aside.
        columns: of own pairs: as `hs2lib.data.files.parse_columns`.

    Raises:
        DataError: rows are faulty, or data absent; it names file, line, field and fix.
        ValueError: an unknown source.
    """
    one_of("source", source, SOURCES)
    if path is not None:
        return _own_pairs(path, folder, strict, columns)
    if source == "postcards":
        pairs = generated.rewardbench(n_per_section, seed)
        origin = f"{sets.source(seed)}, {n_per_section} pairs a section"
        return replace(preferred_pairs(pairs, origin), kind="generated")
    if source == "folder":
        built = _parts(data_folder(folder, OFFICIAL.title))
        if built:
            return built
    official = locate(OFFICIAL, source, folder)
    pairs = read_groups(official.path, "", official.origin)
    read = dict(official.read)
    origin = official.origin
    if prior_sets:
        origin += " and prior sets"
        for subset in PRIOR.hub:
            prior = locate(PRIOR, source, folder, subset)
            pairs += read_groups(prior.path, subset, prior.origin)
            read |= prior.read
    return Benchmark(tuple(pairs), "rewardbench", origin, read=read)


def _own_pairs(
    path: str | Path, folder: str | Path | None, strict: bool, columns: str
) -> Benchmark:
    """The pairs of a file of the user's; the arguments are as in `load_pairs`."""
    file, absent = own_file(path, folder)
    with Faults(file, strict) as faults:
        pairs_and_carried = list(pairs_of(file, faults, parse_columns(columns)))
    return Benchmark(
        pairs=tuple(pair for pair, _ in pairs_and_carried),
        kind="own",
        source=file.name,
        set_aside=tuple(faults.set_aside),
        columns={pair.id: carried for pair, carried in pairs_and_carried if carried},
        read=digests_by_place(file, *absent),
    )


def own_preferences(path: str | Path, columns: str = "", *, strict: bool = True) -> Loaded:
    """The pairs of a file of one's own to train on, the better response first.

    The preference is minus the margin: -1 where the file has none. Paper: silent (section 3
    compares with HH-RLHF, whose rows are such pairs).

    Args:
        path: a file of pairs, as `hs2lib.data.files`.
        columns: as `hs2lib.data.files.parse_columns`.
        strict: whether faulty rows raise one error. Else they are set aside.

    Raises:
        DataError: as `load_pairs`.
        ValueError: there is no path.
    """
    if not path:
        raise ValueError("your own preferences need path=, the JSONL, CSV or Parquet file to read")
    pairs = load_pairs("folder", path=path, strict=strict, columns=columns)
    file, _ = own_file(path, None)
    return Loaded(
        list(pairs.pairs),
        provenance("your own preferences", file),
        False,
        list(pairs.set_aside),
        own=True,
        read=pairs.read,
    )


def _parts(root: Path) -> Benchmark | None:
    """The part of RewardBench that can be built from its sources in a folder.

    None where the official file is there, or no source is.
    """
    official = find(root, OFFICIAL, needed=False)
    if official.files:
        return None
    pairs: list[Group] = []
    read = digests_by_place(*official.absent)
    for subset, names in OFFICIAL.local.items():
        file = root / names[0]
        if subset != "both" and file.is_file():
            model = HumanEvalPack if subset.startswith("hep") else LLMBar
            source = f"{model.__name__} {file.name}"
            with Faults(file) as faults:
                rows = sound(file, model, faults)
                pairs += [row.pair(f"{subset}/{line - 1}", source) for line, row in rows]
            read |= digests_by_place(file)
    if not pairs:
        return None
    titles = dict.fromkeys(pair.source.partition(" ")[0] for pair in pairs)
    source = f"{' and '.join(titles)} files, as RewardBench uses them"
    return Benchmark(tuple(pairs), "rewardbench", source, read=read)


def preferred_pairs(groups: Iterable[Group], source: str) -> Benchmark:
    """Rated or compared responses as own pairs, the better one first.

    Held-out pairs of this kind are what weights of heads are searched on. A group of two with a
    preference is taken by it. Any other one is taken by its labels, the best against the worst in
    helpfulness. Groups in which no response is better (a tie, no such label) are left out. Paper:
    silent for weights; section 4.3 for the rule (no pair where helpfulness is equal).

    Raises ValueError where no group is left.
    """
    groups = list(groups)
    scores = []
    for group in groups:
        if group.preference is not None and len(group.responses) == 2:
            scores += [-group.preference, group.preference]
        else:
            scores += labels_of([group], "helpfulness").tolist()
    pairs, _ = best_worst_pairs(groups, scores)
    if not pairs:
        raise ValueError(
            f"{source}: no group has a response that is better than another "
            "by preference or helpfulness"
        )
    own_pairs = tuple(replace(pair, attributes=(), preference=-1.0) for pair in pairs)
    return Benchmark(own_pairs, "own", source)
