"""Pairs of a better and a worse response: RewardBench, prior sets, generated, own.

Every set becomes groups of two responses, the chosen one first (preference -1), with ids
`subset/number`. Whether a set is the whole of RewardBench is counted from what was read, never
assumed: see `hs2lib.evaluate.rewardbench`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hs2lib.corpus import generate
from hs2lib.data.compared import chosen_first
from hs2lib.data.load import BENCHMARKS, data_folder, find, locate, own_file
from hs2lib.data.readers import Name, turns
from hs2lib.data.rows import DataError, Fault, Faults, Row, Text, Unclear, expected, shown, sound
from hs2lib.group import Group, Turn
from hs2lib.names import SOURCES, one_of
from hs2lib.paths import digests_by_place
from hs2lib.train.items import best_worst_pairs, labels_of

OFFICIAL = BENCHMARKS["rewardbench"]
PRIOR = BENCHMARKS["preference-test-sets"]

# The usual names of the columns of pairs, in any case. Of several that a row has the first counts.
USUAL = {
    "prompt": ("prompt", "question", "instruction", "input", "messages"),
    "subset": ("subset", "category", "source"),
    "id": ("id", "pair_id"),
}

# The usual names of the two columns of answers.
ANSWERS = (
    ("chosen", "rejected"),
    ("canonical_solution", "buggy_solution"),
    ("response_a", "response_b"),
    ("response_1", "response_2"),
    ("output_1", "output_2"),
    ("answer_a", "answer_b"),
)

# Of these a column of `VERDICTS` says which answer is better. Of the others the first one is.
JUDGED = ANSWERS[2:]
VERDICTS = ("label", "winner", "preferred", "preference_strength")

# What a verdict may be where the first answer is better, and where the second is.
BETTER = (
    {"a>b", "a>>b", "a", "1", "model_a"},
    {"b>a", "b>>a", "a<b", "a<<b", "b", "2", "model_b"},
)

# The better answer by HelpSteer2-Preference's strength. 0 is a tie.
STRENGTHS = {"-3": "1", "-2": "1", "-1": "1", "1": "2", "2": "2", "3": "2"}


class ChatMessage(Row, extra="ignore"):
    """One message of a conversation, as chat templates take it."""

    role: Literal["system", "user", "assistant"]
    content: Text


def _turns(talk: str | list[ChatMessage]) -> tuple[Turn, ...]:
    """The turns of a prompt string or of a list of messages."""
    if isinstance(talk, str):
        return turns(talk)
    return tuple(Turn(message.role, message.content) for message in talk)


def _answers(talk: str | list[ChatMessage] | list[str]) -> list[tuple[tuple[Turn, ...], str]]:
    """(turns before it, text) of each answer.

    talk: a text, a conversation that ends in the answer, or a list of texts.
    """
    if isinstance(talk, str):
        return [((), talk)]
    if isinstance(talk[0], str):
        return [((), text) for text in talk]
    last = talk[-1]
    if last.role != "assistant":
        raise Fault(
            None, f"the last message is the {last.role}'s", "end with the assistant's answer"
        )
    return [(_turns(talk[:-1]), last.content)]


def _without_slash(name: str) -> str:
    return name.replace("/", "-")


_TALK = expected(
    "text or a list of {role, content}", "write it as text, or as messages with role and content"
)
Talk = Annotated[Text | list[ChatMessage], _TALK, AfterValidator(_turns)]
Answers = Annotated[
    Text | list[ChatMessage] | list[Text], Field(min_length=1), _TALK, AfterValidator(_answers)
]


class OwnPair(Row):
    """Two answers and which is better: own pairs and those of public sets.

    The public sets are RewardBench and its sources, JudgeBench and RM-Bench. An answer is a text, a
    conversation that ends in it and may begin with the prompt, or a list of texts. Three chosen and
    three rejected answers are RM-Bench's styles, from plain to rich: a pair is hard where the
    rejected answer is the richer.

    `columns` has what is carried along. `notes` says how columns were read, as far as their names
    are not ours. The subset stands before the / of ids.
    """

    chosen: Answers
    rejected: Answers
    prompt: Talk | None = None
    subset: Annotated[Text, AfterValidator(_without_slash)] | None = None
    id: Name = None
    columns: dict[str, Any]
    notes: list[str]
    # (style, mark of the id, prompt, chosen, rejected) of each pair.
    _pairs: list[tuple[str, str, tuple[Turn, ...], str, str]]

    @model_validator(mode="before")
    @classmethod
    def usual(cls, row: dict) -> dict:
        """A row of pairs under our names; `columns` has what is left, `notes` says what is what."""
        usual = _UsualColumns(row)
        values = {}
        for ours, names in USUAL.items():
            column = usual.take(*names)
            if column:
                usual.read_from[ours] = column
                values[ours] = row[column]
        if isinstance(values.get("prompt"), str):
            values["prompt"] = _whole_prompt(usual, values["prompt"])
        chosen, rejected = _chosen_and_rejected(usual)
        values["chosen"] = row[chosen]
        values["rejected"] = row[rejected]
        left = {
            name: value
            for name, value in row.items()
            if name not in usual.taken and value is not None
        }
        notes = [f"{ours} from {name}" for ours, name in usual.read_from.items() if ours != name]
        notes += [f"{name} carried along" for name in left]
        values["columns"] = left
        values["notes"] = notes
        return values

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        has_styles = len(self.chosen) == len(self.rejected) == 3
        has_several = len(self.chosen) * len(self.rejected) > 1
        if has_styles:
            self.notes += ["three answers by three are read as RM-Bench's styles"]
        self._pairs = []
        for i, (before_chosen, chosen) in enumerate(self.chosen):
            for j, (before_rejected, rejected) in enumerate(self.rejected):
                prompt = before_chosen if self.prompt is None else self.prompt
                if not prompt or prompt[-1].role != "user":
                    raise Fault(
                        "prompt",
                        "no prompt that ends with the user",
                        "give prompt, or conversations as answers",
                    )
                if before_chosen not in ((), prompt) or before_rejected not in ((), prompt):
                    raise Fault(
                        "chosen",
                        "its conversation does not begin with the prompt",
                        "make both answer one prompt",
                    )
                style = _style(i, j) if has_styles else ""
                mark = f"-{i}-{j}" if has_several else ""
                self._pairs.append((style, mark, prompt, chosen, rejected))
        return self


class _UsualColumns:
    """The columns of a row, which are taken from it by their usual names.

    `taken` has the names of the columns that were taken. `read_from` says in words which columns of
    the row each of ours was read from.
    """

    def __init__(self, row: dict) -> None:
        self.row = row
        self.taken: set[str] = set()
        self.read_from: dict[str, str] = {}
        self._names = {name.lower(): name for name, value in row.items() if value is not None}

    def name(self, usual: str) -> str | None:
        """The row's name of a column; None where the row has none or a null in it."""
        return self._names.get(usual)

    def value(self, usual: str) -> object:
        """What the row has in a column, None where it has none."""
        return self.row.get(self.name(usual))

    def take(self, *usual: str) -> str | None:
        """Take the row's first column of these names; its name in the row."""
        for name in usual:
            if name in self._names:
                column = self._names[name]
                self.taken.add(column)
                return column
        return None


def _whole_prompt(usual: _UsualColumns, prompt: str) -> str | list[dict[str, object]]:
    """A prompt with the further input of an instruction, and after a system message.

    It is a text, or a list of messages where there is a system message.
    """
    more = usual.value("input")
    is_instruction = usual.read_from["prompt"] == usual.name("instruction")
    if is_instruction and isinstance(more, str) and more.strip():
        prompt = f"{prompt}\n\n{more}"
        usual.read_from["prompt"] += f" and {usual.take('input')}"
    system = usual.value("system")
    if not system:
        return prompt
    usual.read_from["prompt"] += f" after {usual.take('system')}"
    talk = [Turn("system", system), *turns(prompt)]
    return [{"role": turn.role, "content": turn.text} for turn in talk]


def _chosen_and_rejected(usual: _UsualColumns) -> tuple[str, str]:
    """The names of the columns of the chosen and of the rejected answer; raises Fault, Unclear."""
    answers = ANSWERS[0]
    for names in ANSWERS:
        if any(usual.name(name) for name in names):
            answers = names
            break
    absent = [name for name in answers if not usual.name(name)]
    if absent:
        raise Fault(
            absent[0],
            f"the column is missing; the row has: {', '.join(usual.row) or 'none'}",
            f"add the column {absent[0]!r}",
        )
    first = usual.take(answers[0])
    second = usual.take(answers[1])
    if answers not in JUDGED:
        return first, second
    verdict = usual.take(*VERDICTS)
    first_is_better = _first_is_better(usual.row.get(verdict), verdict, first, second)
    usual.read_from["chosen and rejected"] = f"{first} and {second} by {verdict}"
    return (first, second) if first_is_better else (second, first)


def _first_is_better(value: object, verdict: str | None, first: str, second: str) -> bool:
    """Whether a verdict says that the first of two answers is better.

    Args:
        value: the verdict.
        verdict: the name of its column.
        first: the name of the column of the first answer.
        second: that of the second.

    Raises:
        Fault: it does not say which answer is better.
        Unclear: it is a number or a bool that may mean either.
    """
    word = str(value).strip().lower()
    if verdict and verdict.lower() == "preference_strength":
        # An integer column with a gap is one of floats.
        word = STRENGTHS.get(word.removesuffix(".0"), "a tie")
    first_words, second_words = BETTER
    if word == first.lower() or word in first_words:
        return True
    if word == second.lower() or word in second_words:
        return False
    is_number = re.fullmatch(r"[+-]?\d+(\.\d+)?|true|false", word)
    kind = Unclear if is_number else Fault
    raise kind(
        verdict or "label",
        f"expected which answer is better, got {shown(value)}",
        "write A>B or B>A, or 1 or 2 (beside a 0 a 1 may mean either), in a column label; "
        "remove ties",
    )


def _style(chosen: int, rejected: int) -> str:
    """How hard a pair of RM-Bench is, by the styles of its answers, from 0 (plain) to 2 (rich)."""
    if rejected > chosen:
        return " (hard)"
    if rejected < chosen:
        return " (easy)"
    return " (normal)"


def pairs_of(
    file: Path, faults: Faults, subset: str = "", source: str = ""
) -> Iterator[tuple[Group, OwnPair]]:
    """All pairs of a file, each with its row.

    The id of a pair is a subset and a number.

    Args:
        file: of pairs.
        faults: takes the faulty rows.
        subset: of all pairs; by default that of the row, or else the name of the file.
        source: what captions say of the pairs, by default the name of the file.
    """
    ids: set[str] = set()
    for line, row in sound(file, OwnPair, faults):
        name = subset or row.subset or file.name.split(".")[0]
        number = row.id if row.id and not subset else line - 1
        pairs = []
        for style, mark, prompt, chosen, rejected in row._pairs:
            pair_id = f"{name}{style}/{number}{mark}"
            pairs.append(chosen_first(pair_id, prompt, chosen, rejected, source or file.name))
        repeated = next((pair.id for pair in pairs if pair.id in ids), None)
        if repeated:
            what = f"the id {repeated} a second time"
            faults.add(line, Fault("id", what, "number the rows of a subset"))
            continue
        ids.update(pair.id for pair in pairs)
        for pair in pairs:
            yield pair, row


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
    `hs2lib.paths.digests_by_place`. Of own pairs there are also the rows set aside, the columns
    carried along by pair id, and how columns were read, in words.
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
            `OwnPair`). A prompt is a text or a list of {role, content}. Answers are texts, or such
            lists that end in the answer.
        prior_sets: whether the four prior sets are read, too.
        n_per_section: the number of generated pairs of each section.
        seed: of the generated pairs.
        strict: of own pairs: False sets faulty rows aside.

    Raises:
        DataError: rows are faulty, or data absent; it names file, line, field and fix.
        ValueError: an unknown source.
    """
    one_of("source", source, SOURCES)
    if path is not None:
        return _own_pairs(path, folder, strict)
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


def _own_pairs(path: str | Path, folder: str | Path | None, strict: bool) -> Benchmark:
    """The pairs of a file of the user's; `path`, `folder` and `strict` as in `load_pairs`."""
    file, absent = own_file(path, folder)
    read = digests_by_place(file, *absent)
    with Faults(file, strict) as faults:
        pairs_and_rows = list(pairs_of(file, faults))
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
