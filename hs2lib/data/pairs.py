"""Pairs of a better and a worse response: RewardBench, prior sets, generated, own.

Every set becomes groups of two responses, the chosen one first (preference -1), with ids
`subset/number`. Whether a set is the whole of RewardBench is counted from what was read, never
assumed: see `hs2lib.evaluate.rewardbench`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from hs2lib.corpus import generate
from hs2lib.data.load import BENCHMARKS, data_folder, find, locate, own_file
from hs2lib.data.readers import Name, chosen_first, turns
from hs2lib.data.rows import DataError, Fault, Faults, Row, Text, Unclear, expected, shown, sound
from hs2lib.group import Group, Turn
from hs2lib.names import SOURCES, one_of
from hs2lib.paths import as_read
from hs2lib.train.items import by_score, labels_of

OFFICIAL, PRIOR = BENCHMARKS["rewardbench"], BENCHMARKS["preference-test-sets"]


# The usual names of the columns of pairs, in any case; of several that a row has the first counts.
USUAL = {
    "prompt": ("prompt", "question", "instruction", "input", "messages"),
    "subset": ("subset", "category", "source"),
    "id": ("id", "pair_id"),
}
ANSWERS = (
    *(
        ("chosen", "rejected"),
        ("canonical_solution", "buggy_solution"),
        ("response_a", "response_b"),
    ),
    *(("response_1", "response_2"), ("output_1", "output_2"), ("answer_a", "answer_b")),
)
JUDGED = ANSWERS[
    2:
]  # a column of VERDICTS says which of the two is better; of the others the first is
VERDICTS = ("label", "winner", "preferred", "preference_strength")
BETTER = ({"a>b", "a>>b", "a", "1", "model_a"}, {"b>a", "b>>a", "a<b", "a<<b", "b", "2", "model_b"})
STRENGTHS = dict(
    zip(("-3", "-2", "-1", "1", "2", "3"), "111222", strict=True)
)  # HelpSteer2-Preference's: 0 is a tie


class ChatMessage(Row, extra="ignore"):
    """One message of a conversation, as chat templates take it."""

    role: Literal["system", "user", "assistant"]
    content: Text


def _turns(talk: str | list[ChatMessage]) -> tuple[Turn, ...]:
    return (
        turns(talk)
        if isinstance(talk, str)
        else tuple(Turn(message.role, message.content) for message in talk)
    )


def _answers(talk: str | list) -> list[tuple[tuple[Turn, ...], str]]:
    """(turns before it, text) of each answer: of a text, of a conversation that ends in it, of a list of texts."""
    if isinstance(talk, str):
        return [((), talk)]
    if isinstance(talk[0], str):
        return [((), text) for text in talk]
    if talk[-1].role != "assistant":
        raise Fault(
            None, f"the last message is the {talk[-1].role}'s", "end with the assistant's answer"
        )
    return [(_turns(talk[:-1]), talk[-1].content)]


_TALK = expected(
    "text or a list of {role, content}", "write it as text, or as messages with role and content"
)
Talk = Annotated[Text | list[ChatMessage], _TALK, AfterValidator(_turns)]
Answers = Annotated[
    Text | list[ChatMessage] | list[Text], Field(min_length=1), _TALK, AfterValidator(_answers)
]


class OwnPair(Row):
    """Own pairs, RewardBench's and those of its sources, JudgeBench's, RM-Bench's: two answers and
    which is better.

    An answer is a text, a conversation that ends in it and may begin with the prompt, or a list of
    texts. Three chosen and three rejected are RM-Bench's styles, from plain to rich: a pair is hard
    where the rejected one is the richer. `columns` are those that are carried along, `notes` how
    columns were read, as far as their names are not ours.
    """

    chosen: Answers
    rejected: Answers
    prompt: Talk | None = None
    subset: Annotated[Text, AfterValidator(lambda name: name.replace("/", "-"))] | None = (
        None  # before the / of ids
    )
    id: Name = None
    columns: dict[str, Any]
    notes: list[str]
    _pairs: list[
        tuple[str, str, tuple[Turn, ...], str, str]
    ]  # (style, mark of the id, prompt, chosen, rejected) each

    @model_validator(mode="before")
    @classmethod
    def usual(cls, row: dict) -> dict:
        """A row of pairs under our names; `columns` has what is left, `notes` which of ours is which of the row's."""
        at = {name.lower(): name for name, value in row.items() if value is not None}
        names, values, taken = {}, {}, set()

        def take(*known: str) -> str | None:
            """The row's first column of these names."""
            column = next((at[name] for name in known if name in at), None)
            taken.add(column)
            return column

        for ours, known in USUAL.items():
            if column := take(*known):
                names[ours], values[ours] = column, row[column]
        prompt, more = values.get("prompt"), row.get(at.get("input"))
        if (
            isinstance(prompt, str)
            and isinstance(more, str)
            and names["prompt"] == at.get("instruction")
        ):
            names["prompt"] += f" and {take('input')}" if more.strip() else ""
            values["prompt"] = prompt = f"{prompt}\n\n{more}" if more.strip() else prompt
        if isinstance(prompt, str) and row.get(at.get("system")):
            names["prompt"] += f" after {take('system')}"
            talk = [Turn("system", row[at["system"]]), *turns(prompt)]
            values["prompt"] = [{"role": turn.role, "content": turn.text} for turn in talk]

        answers = next((both for both in ANSWERS if any(name in at for name in both)), ANSWERS[0])
        if absent := [name for name in answers if name not in at]:
            what = f"the column is missing; the row has: {', '.join(row) or 'none'}"
            raise Fault(absent[0], what, f"add the column {absent[0]!r}")
        columns = [take(name) for name in answers]
        if answers in JUDGED:
            verdict = take(*VERDICTS)
            word = str(row.get(verdict)).strip().lower()
            if verdict and verdict.lower() == "preference_strength":
                word = STRENGTHS.get(
                    word.removesuffix(".0"), "a tie"
                )  # an integer column with a gap is one of floats
            better = [
                column
                for column, words in zip(columns, BETTER, strict=True)
                if word in {column.lower(), *words}
            ]
            if not better:
                kind = Unclear if re.fullmatch(r"[+-]?\d+(\.\d+)?|true|false", word) else Fault
                what = f"expected which answer is better, got {shown(row.get(verdict))}"
                fix = "write A>B or B>A, or 1 or 2 (beside a 0 a 1 may mean either), in a column label; remove ties"
                raise kind(verdict or "label", what, fix)
            names["chosen and rejected"] = f"{columns[0]} and {columns[1]} by {verdict}"
            columns = columns if better[0] == columns[0] else columns[::-1]
        values |= {"chosen": row[columns[0]], "rejected": row[columns[1]]}
        left = {
            name: value for name, value in row.items() if name not in taken and value is not None
        }
        notes = [f"{ours} from {name}" for ours, name in names.items() if ours != name]
        return values | {
            "columns": left,
            "notes": notes + [f"{name} carried along" for name in left],
        }

    @model_validator(mode="after")
    def _one_prompt(self):
        self._pairs = []
        styles, several = (
            len(self.chosen) == len(self.rejected) == 3,
            len(self.chosen) * len(self.rejected) > 1,
        )
        self.notes += ["three answers by three are read as RM-Bench's styles"] if styles else []
        for (i, (before, chosen)), (j, (other, rejected)) in product(
            enumerate(self.chosen), enumerate(self.rejected)
        ):
            prompt = before if self.prompt is None else self.prompt
            if not prompt or prompt[-1].role != "user":
                raise Fault(
                    "prompt",
                    "no prompt that ends with the user",
                    "give prompt, or conversations as answers",
                )
            if {before, other} - {(), prompt}:
                raise Fault(
                    "chosen",
                    "its conversation does not begin with the prompt",
                    "make both answer one prompt",
                )
            style = (" (easy)", " (normal)", " (hard)")[(j > i) - (j < i) + 1] if styles else ""
            self._pairs.append((style, f"-{i}-{j}" if several else "", prompt, chosen, rejected))
        return self


def pairs_of(
    file: Path, faults: Faults, subset: str = "", source: str = ""
) -> Iterator[tuple[Group, OwnPair]]:
    """All pairs of a file, each with its row; ids are the subset (as asked, the row's, the file's) and a number."""
    ids: set[str] = set()
    for line, row in sound(file, OwnPair, faults):
        name = subset or row.subset or file.name.split(".")[0]
        number = (not subset and row.id) or line - 1
        made = [(f"{name}{style}/{number}{mark}", *pair) for style, mark, *pair in row._pairs]
        if twice := next((key for key, *_ in made if key in ids), None):
            faults.add(
                line, Fault("id", f"the id {twice} a second time", "number the rows of a subset")
            )
            continue
        ids.update(key for key, *_ in made)
        yield from ((chosen_first(*pair, source or file.name), row) for pair in made)


def read_groups(file: Path, subset: str, source: str) -> list[Group]:
    """All pairs of a file; any fault raises: with rows left out it is another benchmark."""
    with Faults(file) as faults:
        return [pair for pair, _ in pairs_of(file, faults, subset, source)]


@dataclass(frozen=True)
class Benchmark:
    """Pairs to be judged: kind is "rewardbench" (all or a part of it), "generated" or "own".

    Of own pairs also the rows set aside, the columns carried along by pair id, and how columns were
    read, in words. read: the files, as `hs2lib.paths.as_read`.
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
        """The first n pairs of each subset (0: all); where that leaves any out, the source says so."""
        seen: Counter[str] = Counter()
        first = []
        for pair in self.pairs:
            seen[subset := pair.id.partition("/")[0]] += 1
            first += [pair] if not n or seen[subset] <= n else []
        if len(first) == len(self.pairs):
            return self
        return replace(
            self, pairs=tuple(first), source=f"{self.source}, the first {n} pairs of each subset"
        )


def load_pairs(
    source: str,
    *,
    folder: str | Path | None = None,
    path: str | Path | None = None,
    prior_sets=False,
    n_per_section: int = 50,
    seed=0,
    strict=True,
) -> Benchmark:
    """The pairs of one source, validated row by row.

    Paper: section 3 and Table 3. source: "hub" (the official set at a pinned revision), "folder"
    (below `folder`, by default HS2_DATA_DIR: the official file where it is there, else the parts
    that can be built, LLMBar and HumanEvalPack), or "embedded" (generated by
    `hs2lib.corpus.generate.benchmark`: n_per_section, seed). path: own pairs in place of them, a
    JSONL, JSON, CSV or Parquet file with prompt, chosen, rejected and, if wished, subset and id,
    under these or other usual names (see `OwnPair`); prompt is a text or a list of {role, content},
    the answers are texts or such lists that end in the answer. strict: False sets faulty rows of
    them aside. prior_sets: also the four prior sets. The official file could not be read where this
    was written: HumanEvalPack's pairs are built with the unfinished function as prompt, and
    accuracies on built pairs need not be the official ones. Raises DataError naming file, line,
    field and fix, ValueError for an unknown source.
    """
    one_of("source", source, SOURCES)
    if path is not None:
        path, absent = own_file(path, folder)
        read = as_read(path, *absent)
        with Faults(path, strict) as faults:
            made = list(pairs_of(path, faults))
        pairs = tuple(pair for pair, _ in made)
        columns = {pair.id: row.columns for pair, row in made if row.columns}
        notes = "; ".join(dict.fromkeys(sentence for _, row in made for sentence in row.notes))
        return Benchmark(pairs, "own", path.name, tuple(faults.set_aside), columns, notes, read)
    if source == "embedded":
        what = f"small world (generated), seed {seed}, {n_per_section} pairs a section"
        return replace(preferred(generate.benchmark(n_per_section, seed), what), kind="generated")
    if source == "folder" and (parts := _parts(data_folder(folder, OFFICIAL.title))):
        return parts
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


def _parts(root: Path) -> Benchmark | None:
    """What of RewardBench can be built from its sources in a folder; None beside the official file or where none is."""
    official = find(root, OFFICIAL, needed=False)
    if official.files:
        return None
    pairs: list[Group] = []
    read = as_read(*official.absent)
    for subset, (name, *_) in OFFICIAL.local.items():
        file = root / name
        if subset != "both" and file.is_file():
            title = "HumanEvalPack" if subset.startswith("hep") else "LLMBar"
            pairs += read_groups(file, subset, f"{title} {file.name}")
            read |= as_read(file)
    if not pairs:
        return None
    titles = dict.fromkeys(pair.source.partition(" ")[0] for pair in pairs)
    source = f"{' and '.join(titles)} files, as RewardBench uses them"
    return Benchmark(tuple(pairs), "rewardbench", source, read=read)


def preferred(groups: Iterable[Group], source: str) -> Benchmark:
    """Rated or compared responses as own pairs, the better one first: held-out pairs to search head
    weights on.

    Paper: silent for weights; section 4.3 for the rule (no pair where helpfulness is equal). A
    group of two with a preference is taken by it; any other by its labels, the best against the
    worst in helpfulness. Groups in which nothing is better (a tie, no such label) are left out.
    Raises ValueError where no group is left.
    """
    groups, scores = list(groups), []
    for group in groups:
        compared = group.preference is not None and len(group.responses) == 2
        scores += (
            [-group.preference, group.preference]
            if compared
            else labels_of([group], "helpfulness").tolist()
        )
    pairs, _ = by_score(groups, scores)
    if not pairs:
        raise ValueError(
            f"{source}: no group has a response that is better than another by preference or helpfulness"
        )
    return Benchmark(
        tuple(replace(pair, attributes=(), preference=-1.0) for pair in pairs), "own", source
    )
