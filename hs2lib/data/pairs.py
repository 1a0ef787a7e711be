"""Pairs of a better and a worse response: RewardBench, prior sets, generated, own.

Every set becomes groups of two responses, the chosen one first (preference -1), with ids `subset/number`. Whether a set
is the whole of RewardBench is counted from what was read, never assumed: see `hs2lib.evaluate.rewardbench`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, model_validator

from hs2lib.corpus import generate
from hs2lib.data import sources
from hs2lib.data.readers import Name, chosen_first, turns
from hs2lib.data.rows import DataError, Expected, Fault, Faults, Row, SetAside, Text, checked, shown
from hs2lib.group import Group, Turn
from hs2lib.names import SOURCES, WORDINGS, one_of
from hs2lib.train.items import by_score, labels_of

OFFICIAL, PRIOR = sources.BENCHMARKS["rewardbench"], sources.BENCHMARKS["preference-test-sets"]


# Rows: pairs(wording) are (part of the subset's name, of the id, prompt, chosen, rejected) of each pair of a row

Pairs = Iterator[tuple[str, str, tuple[Turn, ...], str, str]]


class HumanEvalPack(Row, extra="ignore"):
    """HumanEvalPack: the canonical solution of a task is the chosen answer, the buggy one the rejected."""

    prompt: Text
    instruction: Text
    declaration: str
    canonical_solution: Text
    buggy_solution: Text

    def pairs(self, wording: str) -> Pairs:
        """The one pair of a row, in one of two wordings.

        "prompt": the unfinished function is the prompt, the two bodies are the answers; "instruction": the task in
        words is the prompt, the answers are whole functions. The official file could not be read where this was
        written: which of the two it has is not known for certain, and accuracies on built pairs need not be the
        official ones.
        """
        before = "" if wording == "prompt" else self.declaration
        prompt = (Turn("user", getattr(self, wording)),)
        yield "", "", prompt, before + self.canonical_solution, before + self.buggy_solution


# The usual names of the columns of pairs, in any case; of several that a row has the first counts.
USUAL = {
    "prompt": ("prompt", "question", "instruction", "input", "messages"),
    "subset": ("subset", "category", "source"),
    "id": ("id", "pair_id"),
}
ANSWERS = (
    *(("chosen", "rejected"), ("response_a", "response_b"), ("response_1", "response_2")),
    *(("output_1", "output_2"), ("answer_a", "answer_b")),
)
VERDICTS = ("label", "winner", "preferred", "preference_strength")
BETTER = ({"a>b", "a>>b", "a", "1", "model_a"}, {"b>a", "b>>a", "a<b", "a<<b", "b", "2", "model_b"})


class ChatMessage(Row, extra="ignore"):
    """One message of a conversation, as chat templates take it."""

    role: Literal["system", "user", "assistant"]
    content: Text


Talk = Annotated[Text | list[ChatMessage] | list[Text], Expected("text", "text or a list of {role, content}")]


# The name of a subset: it becomes the part of ids before the /, so one in it becomes a -.
Subset = Annotated[Text, AfterValidator(lambda name: name.replace("/", "-")), Expected("name", "a name")]


class OwnPair(Row):
    """Own pairs, RewardBench's, JudgeBench's, RM-Bench's: answers chosen and rejected, or two and which is better.

    An answer is a text, a conversation that ends in it and may begin with the prompt, or a list of texts. Three chosen
    and three rejected are RM-Bench's styles, from plain to rich: a pair is hard where the rejected one is the richer.
    `columns` are those that are carried along, `names` says of ours which of the file's each is.
    """

    chosen: Talk
    rejected: Talk
    prompt: Talk | None = None
    subset: Subset | None = None
    id: Name = None
    columns: dict[str, Any]
    names: dict[str, str]
    _pairs: list[tuple[str, str, tuple[Turn, ...], str, str]]

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, row: object) -> object:
        return usual(row) if isinstance(row, dict) else row

    @model_validator(mode="after")
    def _one_prompt(self):
        self._pairs = []
        sides = [self._answers("chosen"), self._answers("rejected")]
        styles = len(sides[0]) == len(sides[1]) == 3
        for (i, chosen), (j, rejected) in product(*map(enumerate, sides)):
            style = (" (easy)", " (normal)", " (hard)")[(j > i) - (j < i) + 1] if styles else ""
            mark = f"-{i}-{j}" if len(sides[0]) * len(sides[1]) > 1 else ""
            before, other_before = chosen[0], rejected[0]
            prompt = before if self.prompt is None else _turns(self.prompt)
            if not prompt or prompt[-1].role != "user":
                raise Fault("prompt", "no prompt that ends with the user", "give prompt, or conversations as answers")
            if before not in ((), prompt) or other_before not in ((), prompt):
                raise Fault("chosen", "its conversation does not begin with the prompt", "make both answer one prompt")
            self._pairs.append((style, mark, prompt, chosen[1], rejected[1]))
        return self

    def _answers(self, name: str) -> list[tuple[tuple[Turn, ...], str]]:
        """(turns before it, text) of each answer."""
        talk = getattr(self, name)
        if isinstance(talk, str):
            return [((), talk)]
        if talk and isinstance(talk[0], str):
            return [((), text) for text in talk]
        if not talk or talk[-1].role != "assistant":
            what = f"the last message is the {talk[-1].role}'s" if talk else "no messages"
            raise Fault(name, what, "end with the assistant's answer")
        return [(_turns(talk[:-1]), talk[-1].content)]

    def pairs(self, wording: str) -> Pairs:
        """The pairs of a row: one, or each chosen answer with each rejected one."""
        yield from self._pairs


def usual(row: dict) -> dict:
    """A row of pairs under our names; `columns` has what is left, `names` which of ours is which of the row's."""
    at = {name.lower(): name for name, value in row.items() if value is not None}
    names = {}
    for ours, several in USUAL.items():
        if first := next((at[name] for name in several if name in at), None):
            names[ours] = first
    values = {ours: row[column] for ours, column in names.items()}
    taken = set(names.values())
    asked, more = values.get("prompt"), row.get(at.get("input"))
    if names.get("prompt") == at.get("instruction") and isinstance(asked, str) and isinstance(more, str):
        values["prompt"] = f"{asked}\n\n{more}"
        names["prompt"] += " and " + at["input"]
        taken.add(at["input"])
    if "system" in at and isinstance(asked := values.get("prompt"), str):
        said = (("system", row[at["system"]]), ("user", asked))
        values["prompt"] = [{"role": role, "content": content} for role, content in said if content]
        names["prompt"] += " after " + at["system"]
        taken.add(at["system"])
    answers = next((both for both in ANSWERS if any(name in at for name in both)), ANSWERS[0])
    if absent := [name for name in answers if name not in at]:
        what = f"the column is missing; the row has: {', '.join(row) or 'none'}"
        raise Fault(absent[0], what, f"add the column {absent[0]!r}")
    columns = [at[name] for name in answers]
    texts = [row[column] for column in columns]
    taken.update(columns)
    if answers != ANSWERS[0]:
        verdict = next((at[name] for name in VERDICTS if name in at), None)
        if _second_is_better(columns, verdict, row.get(verdict)):
            texts.reverse()
        taken.add(verdict)
        names["chosen and rejected"] = f"{columns[0]} and {columns[1]} by {verdict}"
    values |= zip(("chosen", "rejected"), texts, strict=True)
    left = {name: value for name, value in row.items() if name not in taken and value is not None}
    return values | {"columns": left, "names": {ours: name for ours, name in names.items() if ours != name}}


def _second_is_better(columns: list[str], verdict: str | None, value: object) -> bool:
    """Whether the second of two answers is the better one, as the column `verdict` says."""
    if verdict is None:
        what = f"{columns[0]} and {columns[1]}, and no column says which is better ({', '.join(VERDICTS)})"
        raise Fault("label", what, "add a column label with A>B or B>A")
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if verdict.lower() == "preference_strength":  # HelpSteer2-Preference: negative where the first is better
        word = {"-3": "1", "-2": "1", "-1": "1", "1": "2", "2": "2", "3": "2"}.get(word, "")
    word = {column.lower(): str(number) for number, column in enumerate(columns, 1)}.get(word, word)
    better = [word in words for words in BETTER]
    if not any(better):
        what = f"expected which answer is better, got {shown(value)}"
        raise Fault(verdict, what, "write A>B or B>A, or 1 or 2; a tie is no pair: remove the row")
    return better[1]


def _turns(talk: str | list) -> tuple[Turn, ...]:
    if isinstance(talk, str):
        return turns(talk)
    if any(isinstance(message, str) for message in talk):
        raise Fault("prompt", "a list of texts", "write one text, or a list of {role, content}")
    return tuple(Turn(message.role, message.content) for message in talk)


def _pairs(
    file: Path, faults: Faults, model: type[Row], subset: str | None, source: str, *, wording="prompt", named=False
) -> Iterator[tuple[Group, Row]]:
    """All pairs of a file, each with its row.

    Their ids are the subset and the number of the row; named: what a row itself says goes before.
    """
    ids: set[str] = set()
    for line, row in checked(file, model, faults):
        if row is None:
            continue
        name, number = subset, line - 1
        if named:
            name, number = row.subset or subset, row.id or number
        made = [(f"{name}{part}/{number}{mark}", *pair) for part, mark, *pair in row.pairs(wording)]
        if not name:
            faults.add(line, Fault("subset", "the row names no subset", "name the subset"))
        elif twice := next((key for key, *_ in made if key in ids), None):
            faults.add(line, Fault("id", f"the id {twice} a second time", "number the rows of a subset"))
        else:
            ids.update(key for key, *_ in made)
            yield from ((chosen_first(*pair, source), row) for pair in made)


def own_pairs(path: Path, faults: Faults) -> Iterator[tuple[Group, OwnPair]]:
    """The pairs of a file of your own, each with its row."""
    return _pairs(path, faults, OwnPair, path.name.split(".")[0], path.name, named=True)


def read_groups(file: Path, *form, **options) -> list[Group]:
    """All pairs of a file; any fault raises: with rows left out it is another benchmark."""
    with Faults(file) as faults:
        return [pair for pair, _ in _pairs(file, faults, *form, **options)]


def read_as(rows: Iterable[OwnPair]) -> str:
    """How the columns of own pairs were read, in words, as far as their names are not ours; "" where all are."""
    renamed, carried, styles = {}, {}, False
    for row in rows:
        renamed |= dict.fromkeys(f"{ours} from {theirs}" for ours, theirs in row.names.items())
        carried |= dict.fromkeys(row.columns)
        styles |= len(row._pairs) == 9
    said = [*renamed, f"carried along: {', '.join(carried)}" if carried else ""]
    said.append("three answers by three are read as RM-Bench's styles" if styles else "")
    return "; ".join(filter(None, said))


@dataclass(frozen=True)
class Benchmark:
    """Pairs to be judged: kind is "rewardbench" (all or a part of it), "generated" or "own".

    Of own pairs also the rows set aside, the columns carried along by pair id, and how columns were read, in words.
    """

    pairs: tuple[Group, ...]
    kind: str
    source: str
    set_aside: tuple[SetAside, ...] = ()
    columns: dict[str, dict] = field(default_factory=dict)
    read_as: str = ""

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
        return replace(self, pairs=tuple(first), source=f"{self.source}, the first {n} pairs of each subset")


def load_pairs(
    source: str, *, folder=None, path=None, prior_sets=False, n_per_section=50, seed=0, wording="prompt", strict=True
) -> Benchmark:
    """The pairs of one source, validated row by row.

    Paper: section 3 and Table 3. source: "hub" (the official set at a pinned revision), "folder" (below `folder`, by
    default HS2_DATA_DIR: the official file where it is there, else the parts that can be built, LLMBar and
    HumanEvalPack), or "embedded" (generated by `hs2lib.corpus.generate.benchmark`: n_per_section, seed).
    path: own pairs in place of them, a JSONL, JSON, CSV or Parquet file with prompt, chosen, rejected and, if wished,
    subset and id, under these or other usual names (see `OwnPair`); prompt is a text or a list of {role, content}, the
    answers are texts or such lists that end in the answer. strict: False sets faulty rows of them aside.
    prior_sets: also the four prior sets ("hub" only). wording: how built HumanEvalPack pairs ask, see `HumanEvalPack`.
    Raises DataError naming file, line, field and fix, ValueError for an unknown source or wording.
    """
    one_of("source", source, SOURCES)
    one_of("wording", wording, WORDINGS)
    if path is not None:
        path = sources.own_file(path, folder)
        with Faults(path, strict, "Or set such rows aside with strict=False.") as faults:
            made = list(own_pairs(path, faults))
        pairs = tuple(pair for pair, _ in made)
        columns = {pair.id: row.columns for pair, row in made if row.columns}
        said = read_as(row for _, row in made)
        return Benchmark(pairs, "own", path.name, tuple(faults.set_aside), columns, said)
    if source == "embedded":
        pairs = (_chosen_first(pair) for pair in generate.benchmark(n_per_section, seed))
        what = f"seed {seed}, {n_per_section} pairs a section"
        return Benchmark(tuple(pairs), "generated", f"small world (generated), {what}")
    if source == "hub":
        path, commit = sources.fetch(OFFICIAL, *OFFICIAL.hub["both"])
        name = f"{OFFICIAL.repo}@{commit[:7]}"
        pairs = read_groups(path, OwnPair, None, name, named=True)
        for subset, (file,) in PRIOR.hub.items() if prior_sets else ():
            path, commit = sources.fetch(PRIOR, file)
            pairs += read_groups(path, OwnPair, subset, f"{PRIOR.repo}@{commit[:7]} {file}")
        return Benchmark(tuple(pairs), "rewardbench", name + (" and prior sets" if prior_sets else ""))
    root = sources.data_folder(folder, OFFICIAL.title)
    present, _ = sources.find(root, OFFICIAL)
    if present:
        name = present[0].relative_to(root).as_posix()
        pairs = read_groups(present[0], OwnPair, None, f"RewardBench, {name}", named=True)
        return Benchmark(tuple(pairs), "rewardbench", name)
    return _parts(root, wording)


def _parts(root: Path, wording: str) -> Benchmark:
    """What of RewardBench can be built from its sources in a folder."""
    pairs: list[Group] = []
    built: dict[str, None] = {}
    for subset, (name, *_) in OFFICIAL.local.items():
        if subset != "both" and (file := root / name).is_file():
            title, model = ("HumanEvalPack", HumanEvalPack) if subset.startswith("hep") else ("LLMBar", OwnPair)
            pairs += read_groups(file, model, subset, f"{title} {file.name}", wording=wording)
            built[title] = None
    if not pairs:
        official = OFFICIAL.hub["both"][0]
        what = f"neither {official} nor LLMBar or HumanEvalPack files are below rewardbench/ in this folder"
        raise DataError(root, None, None, what, sources.download(OFFICIAL, root / "rewardbench"))
    return Benchmark(tuple(pairs), "rewardbench", f"{' and '.join(built)} files, as RewardBench uses them")


def preferred(groups: Iterable[Group], source: str) -> Benchmark:
    """Rated or compared responses as own pairs, the better one first: held-out pairs to search head weights on.

    Paper: silent for weights; section 4.3 for the rule (no pair where helpfulness is equal). A group of two with a
    preference is taken by it; any other by its labels, the best against the worst in helpfulness. Groups in which
    nothing is better (a tie, no such label) are left out. Raises ValueError where no group is left.
    """
    groups, scores = list(groups), []
    for group in groups:
        compared = group.preference is not None and len(group.responses) == 2
        scores += [-group.preference, group.preference] if compared else labels_of([group], "helpfulness").tolist()
    pairs, _ = by_score(groups, scores)
    if not pairs:
        raise ValueError(f"{source}: no group has a response that is better than another by preference or helpfulness")
    return Benchmark(tuple(replace(pair, attributes=(), preference=-1.0) for pair in pairs), "own", source)


def _chosen_first(pair: Group) -> Group:
    if not pair.preference or len(pair.responses) != 2:
        raise ValueError(f"pair {pair.id}: expected two responses and a preference that is not 0")
    first, second = pair.responses if pair.preference < 0 else pair.responses[::-1]
    return Group(pair.id, pair.prompt, (first, second), (), preference=-abs(pair.preference), source=pair.source)
