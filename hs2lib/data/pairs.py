"""Pairs of a better and a worse response: RewardBench, prior sets, generated, own.

Every set becomes groups of two responses, the chosen one first (preference -1), with ids
`subset/number`. Of pairs of one's own the preference is minus their strength. Whether a set is the
whole of RewardBench is counted from what was read, never assumed: see
`hs2lib.evaluate.rewardbench`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, ValidationError

from hs2lib.corpus import generate
from hs2lib.data.compared import chosen_first
from hs2lib.data.layouts import STRENGTHS, WORDS, bare
from hs2lib.data.load import BENCHMARKS, data_folder, find, locate, own_file
from hs2lib.data.own import as_number
from hs2lib.data.readers import Name, as_whole
from hs2lib.data.rows import DataError, Fault, Faults, Row, Text, expected, faults_of, shown
from hs2lib.data.shapes import PromptRow, difficulty, prompt_rows
from hs2lib.group import Group
from hs2lib.names import SOURCES, one_of
from hs2lib.paths import digests_by_place
from hs2lib.train.items import best_worst_pairs, labels_of

OFFICIAL = BENCHMARKS["rewardbench"]
PRIOR = BENCHMARKS["preference-test-sets"]

# The usual names of what names a pair, in any case. Of several that a row has the first counts.
USUAL = {"subset": ("subset", "category", "source"), "id": ("id", "pair_id")}


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


class PairRow(NamedTuple):
    """What a row of pairs has besides its pairs.

    columns: what is carried along.
    notes: how columns were read, as far as their names are not ours.
    id_column: what the file calls the column of ids.
    """

    columns: dict[str, Any]
    notes: list[str]
    id_column: str = "id"


def _names(row: PromptRow, faults: list[Fault]) -> tuple[Names, PairRow]:
    """What names the pairs of a row, and what is left of it.

    A list or an object, as Nectar has for a source, names nothing.

    faults: takes what is wrong with the names, each under the file's name of its column.
    """
    left = row.carried
    columns = {bare(name): name for name in left}
    values = {}
    column_of = {}
    notes = list(row.notes)
    for ours, usual in USUAL.items():
        for name in usual:
            column = columns.get(name)
            if column and not isinstance(left[column], list | dict):
                values[ours] = left.pop(column)
                column_of[ours] = column
                if column != ours:
                    notes.append(f"{ours} from {column}")
                break
    notes += [f"{name} carried along" for name in left]
    names = Names()
    try:
        names = Names.model_validate(values)
    except ValidationError as error:
        for fault in faults_of(error):
            ours, what, fix = fault.args
            faults.append(Fault(column_of[ours], what, fix))
    return names, PairRow(left, notes, column_of.get("id", "id"))


def _comparisons(row: PromptRow) -> list[tuple[str, str, int, int]]:
    """(style, mark of the id, better, worse) of each pair of a row.

    The style says how hard a pair of RM-Bench is. The mark has the numbers of the two answers, each
    counted in its own column.
    """
    pairs = []
    starts = {column: i for i, (column, _) in reversed(list(enumerate(row.places)))}
    for better, worse in row.comparisons:
        i = better - starts[row.places[better][0]]
        j = worse - starts[row.places[worse][0]]
        style = difficulty(row, better, worse)
        style = f" ({style})" if style else ""
        mark = f"-{i}-{j}" if len(row.comparisons) > 1 else ""
        pairs.append((style, mark, better, worse))
    return pairs


def pairs_of(
    file: Path, faults: Faults, subset: str = "", source: str = "", margins: bool = False
) -> Iterator[tuple[Group, PairRow]]:
    """All pairs of a file, each with its row.

    The id of a pair is a subset and a number. Its preference is minus the strength of the row: -2
    where the better answer is better by 2. A row whose two answers are equally good has no pair; it
    goes to `faults.partners`.

    Args:
        file: of pairs.
        faults: takes the faulty rows.
        subset: of all pairs; by default that of the row, or else the name of the file.
        source: what captions say of the pairs, by default the name of the file.
        margins: whether a column of `MARGINS` says how much better the chosen response is.
    """
    ids: set[str] = set()
    for row in prompt_rows(file, faults, several_only=True):
        row_faults: list[Fault] = []
        names, rest = _names(row, row_faults)
        for fault in row_faults:
            faults.add(row.line, fault)
        if row_faults:
            continue
        strength = abs(row.group.preference or 1.0)
        verdict = row.layout.verdict
        if margins and row.layout.kind == "better first":
            try:
                verdict = _margin_column(row)
                strength = 1.0 if verdict is None else _margin(verdict, row.row[verdict])
            except Fault as fault:
                faults.add(row.line, fault)
                continue
            if verdict is not None:
                rest.columns.pop(verdict)
                rest.notes.remove(f"{verdict} carried along")
                rest.notes.append(f"{verdict} says how much better the chosen response is")
        if row.tie or not strength:
            what = "a tie: neither answer is better"
            aside = DataError(file, row.line, verdict, what, "nothing is wrong with it")
            faults.partners.append(aside)
            continue
        comparisons = _comparisons(row)
        if not comparisons:
            faults.add(row.line, _no_better(row))
            continue
        name = subset or names.subset or file.name.split(".")[0]
        number = names.id if names.id and not subset else row.line - 1
        texts = [response.text for response in row.group.responses]
        pairs = []
        for style, mark, better, worse in comparisons:
            pair_id = f"{name}{style}/{number}{mark}"
            prompt = row.group.prompt
            origin = source or file.name
            pair = chosen_first(pair_id, prompt, texts[better], texts[worse], origin)
            pairs.append(replace(pair, preference=-strength))
            if style and _STYLES not in rest.notes:
                rest.notes.append(_STYLES)
        repeated = next((pair.id for pair in pairs if pair.id in ids), None)
        if repeated:
            what = f"the id {repeated} a second time"
            faults.add(row.line, Fault(rest.id_column, what, "number the rows of a subset"))
            continue
        ids.update(pair.id for pair in pairs)
        for pair in pairs:
            yield pair, rest


# What a training reads beside chosen and rejected; TRL's reward trainer has the first name.
MARGINS = ("margin", "strength", "preference_strength")


def _margin_column(row: PromptRow) -> str | None:
    """The column that says how much better the chosen response is; None where there is none.

    Raises Fault where two may say it.
    """
    names = [name for name in row.row if bare(name) in MARGINS]
    if len(names) > 1:
        raise Fault(
            names[1],
            f"{' and '.join(names)} may say how much better the chosen response is",
            "rename those that do not",
        )
    return names[0] if names else None


def _margin(column: str, value: object) -> float:
    """How much better the chosen response of a row is: a number from 0, which is a tie.

    Raises Fault for anything else, so that no row without a value counts as one of 1.
    """
    number = as_number(value)  # a cell of a CSV is text
    if number is not None and number >= 0:
        return number
    raise Fault(
        column,
        f"expected how much better the chosen response is, got {shown(value)}",
        f"write a number above 0, or 0 for a tie, in every row; or rename {column}",
    )


_STYLES = "three answers by three are read as RM-Bench's styles"


def _no_better(row: PromptRow) -> Fault:
    """The fault of a row that does not say which of its answers is better."""
    if len(row.places) == 1:
        return Fault(
            row.layout.responses[0],
            "one answer alone, which is compared with nothing",
            "give two or more, or leave the row out",
        )
    if row.layout.kind == "list" or len(row.places) > 2:
        return Fault(
            row.layout.responses[0],
            "nothing says which of the answers is better",
            "give each its rank, 1 for the best",
        )
    usual = (*WORDS, *STRENGTHS)
    column = next((name for name in row.row if bare(name) in usual), "label")
    return Fault(
        column,
        "expected which answer is better, got null (NoneType)",
        f"write A>B or B>A in a column {column}, or leave the row out",
    )


def read_groups(file: Path, subset: str, source: str) -> list[Group]:
    """All pairs of a file, as `pairs_of`; any fault raises.

    With rows left out it would be another benchmark.
    """
    with Faults(file) as faults:
        return [pair for pair, _ in pairs_of(file, faults, subset, source)]


@dataclass(frozen=True)
class Benchmark:
    """Pairs to be judged.

    `kind` is "rewardbench" (all or a part of it), "generated" or "own". `read` has the files, as
    `hs2lib.paths.digests_by_place`. Of own pairs there are also the rows set aside, with those in
    which neither answer is better, the columns carried along by pair id, and how columns were read,
    in words.
    """

    pairs: tuple[Group, ...]
    kind: str
    source: str
    set_aside: tuple[DataError, ...] = ()
    columns: dict[str, dict] = field(default_factory=dict)
    read_as: str = ""
    read: dict[str, str] = field(default_factory=dict)

    @property
    def generated(self) -> bool:
        """Whether the pairs were made by `hs2lib.corpus.generate`."""
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
    margins: bool = False,
) -> Benchmark:
    """The pairs of one source, validated row by row.

    Paper: section 3 and Table 3. The official file could not be read where this was written.
    HumanEvalPack's pairs are built with the unfinished function as prompt, and accuracies on built
    pairs need not be the official ones.

    Args:
        source: "hub", the official set at a pinned revision; "folder", the official file where it
            is there, else the parts that can be built, LLMBar and HumanEvalPack; or "embedded",
            generated by `hs2lib.corpus.generate.benchmark`.
        folder: the folder of "folder", by default HS2_DATA_DIR.
        path: own pairs in place of these, a JSONL, JSON, CSV or Parquet file. It has prompt,
            chosen, rejected and, if wished, subset and id, under these or other usual names (see
            `hs2lib.data.layouts`). A prompt is a text or a list of {role, content}. Answers are
            texts, or such lists that end in the answer.
        prior_sets: whether the four prior sets are read, too.
        n_per_section: the number of generated pairs of each section.
        seed: of the generated pairs.
        strict: of own pairs: False sets faulty rows aside.
        margins: of own pairs: whether a column of `MARGINS` is the strength of a pair. Else it is
            carried along.

    Raises:
        DataError: rows are faulty, or data absent; it names file, line, field and fix.
        ValueError: an unknown source.
    """
    one_of("source", source, SOURCES)
    if path is not None:
        return _own_pairs(path, folder, strict, margins)
    if source == "embedded":
        pairs = generate.benchmark(n_per_section, seed)
        origin = f"small world (generated), seed {seed}, {n_per_section} pairs a section"
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
    path: str | Path, folder: str | Path | None, strict: bool, margins: bool
) -> Benchmark:
    """The pairs of a file of the user's; the arguments are as in `load_pairs`."""
    file, absent = own_file(path, folder)
    read = digests_by_place(file, *absent)
    with Faults(file, strict) as faults:
        pairs_and_rows = list(pairs_of(file, faults, margins=margins))
    notes: dict[str, None] = {}  # in the order in which they first occur
    for _, row in pairs_and_rows:
        notes |= dict.fromkeys(row.notes)
    return Benchmark(
        pairs=tuple(pair for pair, _ in pairs_and_rows),
        kind="own",
        source=file.name,
        set_aside=tuple(faults.set_aside),
        columns={pair.id: row.columns for pair, row in pairs_and_rows if row.columns},
        read_as="; ".join(notes),
        read=read,
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
            title = "HumanEvalPack" if subset.startswith("hep") else "LLMBar"
            pairs += read_groups(file, subset, f"{title} {file.name}")
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
