"""Pairs of a better and a worse response: RewardBench, prior sets, generated, own.

Every set becomes groups of two responses, the chosen one first (preference -1), with ids `subset/number`. Whether a set
is the whole of RewardBench is counted from what was read, never assumed: see `hs2lib.evaluate.rewardbench`.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import StringConstraints, model_validator

from hs2lib.corpus import generate
from hs2lib.data import sources
from hs2lib.data.readers import Name, chosen_first
from hs2lib.data.rows import DataError, Expected, Fault, Faults, Row, Text, checked, whole, with_columns
from hs2lib.group import Group, Turn
from hs2lib.names import SOURCES, WORDINGS

OFFICIAL, PRIOR = sources.BENCHMARKS["rewardbench"], sources.BENCHMARKS["preference-test-sets"]


# Rows: pair(wording) is the prompt, the chosen and the rejected answer


class LLMBar(Row):
    """LLMBar as RewardBench has it: `input` is the prompt, the output that `label` names is the chosen one."""

    input: Text
    output_1: Text
    output_2: Text
    label: whole(1, 2)

    def pair(self, wording: str) -> tuple[tuple[Turn, ...], str, str]:
        """Prompt, chosen and rejected answer."""
        answers = (self.output_1, self.output_2)
        return (Turn("user", self.input),), *(answers if self.label == 1 else answers[::-1])


class HumanEvalPack(Row, extra="ignore"):
    """HumanEvalPack: the canonical solution of a task is the chosen answer, the buggy one the rejected."""

    prompt: Text
    instruction: Text
    declaration: str
    canonical_solution: Text
    buggy_solution: Text

    def pair(self, wording: str) -> tuple[tuple[Turn, ...], str, str]:
        """Prompt, chosen and rejected answer, in one of two wordings.

        "prompt": the unfinished function is the prompt, the two bodies are the answers; "instruction": the task in
        words is the prompt, the answers are whole functions. The official file could not be read where this was
        written: which of the two it has is not known for certain, and accuracies on built pairs need not be the
        official ones.
        """
        before = "" if wording == "prompt" else self.declaration
        return (Turn("user", getattr(self, wording)),), before + self.canonical_solution, before + self.buggy_solution


class ChatMessage(Row):
    """One message of a conversation, as chat templates take it."""

    role: Literal["system", "user", "assistant"]
    content: Text


Talk = Annotated[Text | list[ChatMessage], Expected("text", "text or a list of {role, content}")]


# The name of a subset: it becomes the part of ids before the /.
Subset = Annotated[str, StringConstraints(pattern=r"^[^/]*[^/\s][^/]*$"), Expected("name", "a name without /")]


class OwnPair(with_columns(("chosen_model", "rejected_model"), default=None)):
    """Own pairs, and RewardBench's: texts or conversations; an answer's ends in it and may begin with the prompt."""

    chosen: Talk
    rejected: Talk
    prompt: Talk | None = None
    subset: Subset | None = None
    id: Name = None
    _pair: tuple[tuple[Turn, ...], str, str]

    @model_validator(mode="after")
    def _one_prompt(self):
        (before, chosen), (other_before, rejected) = self._answer("chosen"), self._answer("rejected")
        prompt = before if self.prompt is None else _turns(self.prompt)
        if not prompt or prompt[-1].role != "user":
            raise Fault("prompt", "no prompt that ends with the user", "give prompt, or whole conversations as answers")
        if before not in ((), prompt) or other_before not in ((), prompt):
            raise Fault("chosen", "its conversation does not begin with the prompt", "make both answer one prompt")
        self._pair = (prompt, chosen, rejected)
        return self

    def _answer(self, name: str) -> tuple[tuple[Turn, ...], str]:
        talk = getattr(self, name)
        if isinstance(talk, str):
            return (), talk
        if not talk or talk[-1].role != "assistant":
            what = f"the last message is the {talk[-1].role}'s" if talk else "no messages"
            raise Fault(name, what, "end with the assistant's answer")
        return _turns(talk[:-1]), talk[-1].content

    def pair(self, wording: str) -> tuple[tuple[Turn, ...], str, str]:
        """Prompt, chosen and rejected answer."""
        return self._pair


class PriorPair(OwnPair, extra="ignore"):
    """A row of a prior set: an own pair among other columns."""


def _turns(talk: str | list[ChatMessage]) -> tuple[Turn, ...]:
    if isinstance(talk, str):
        return (Turn("user", talk),)
    return tuple(Turn(message.role, message.content) for message in talk)


def _pairs(
    file: Path, model: type[Row], subset: str | None, source: str, *, wording="prompt", named=False
) -> list[Group]:
    """All pairs of a file; any fault raises: with rows left out it is another benchmark.

    Their ids are the subset and the number of the row; named: what a row itself says goes before.
    """
    pairs: dict[str, Group] = {}
    with Faults(file) as faults:
        for line, row in checked(file, model, faults):
            if row is None:
                continue
            name, number = subset, line - 1
            if named:
                name, number = row.subset or subset, row.id or number
            if not name:
                faults.add(line, Fault("subset", "the row names no subset", "name the subset"))
            elif (key := f"{name}/{number}") in pairs:
                faults.add(line, Fault("id", f"the id {key} a second time", "number the rows of a subset"))
            else:
                pairs[key] = chosen_first(key, *row.pair(wording), source)
    return list(pairs.values())


@dataclass(frozen=True)
class Benchmark:
    """Pairs to be judged: kind is "rewardbench" (all or a part of it), "generated" or "own"."""

    pairs: tuple[Group, ...]
    kind: str
    source: str

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
        return Benchmark(tuple(first), self.kind, f"{self.source}, the first {n} pairs of each subset")


def load_pairs(
    source: str,
    *,
    folder: str | Path | None = None,
    path: str | Path | None = None,
    prior_sets: bool = False,
    n_per_section: int = 50,
    seed: int = 0,
    wording: str = "prompt",
) -> Benchmark:
    """The pairs of one source, validated row by row.

    Paper: section 3 and Table 3. source: "hub" (the official set at a pinned revision), "folder" (below `folder`, by
    default HS2_DATA_DIR: the official file where it is there, else the parts that can be built, LLMBar and
    HumanEvalPack), or "embedded" (generated by `hs2lib.corpus.generate.benchmark`: n_per_section, seed).
    path: own pairs in place of them, a JSONL, JSON or Parquet file with prompt, chosen, rejected and, if wished, subset
    and id; prompt is a text or a list of {role, content}, the answers are texts or such lists that end in the answer.
    prior_sets: also the four prior sets ("hub" only). wording: how built HumanEvalPack pairs ask, see `HumanEvalPack`.
    Raises DataError naming file, line, field and fix, ValueError for an unknown source or wording.
    """
    sources.one_of("source", source, SOURCES)
    sources.one_of("wording", wording, WORDINGS)
    if path is not None:
        path = sources.own_file(path, folder)
        pairs = _pairs(path, OwnPair, path.name.split(".")[0], str(path), named=True)
        return Benchmark(tuple(pairs), "own", path.name)
    if source == "embedded":
        pairs = (_chosen_first(pair) for pair in generate.benchmark(n_per_section, seed))
        what = f"seed {seed}, {n_per_section} pairs a section"
        return Benchmark(tuple(pairs), "generated", f"small world (generated), {what}")
    if source == "hub":
        path, commit = sources.fetch(OFFICIAL, *OFFICIAL.hub["both"])
        name = f"{OFFICIAL.repo}@{commit[:7]}"
        pairs = _pairs(path, OwnPair, None, name, named=True)
        for subset, (file,) in PRIOR.hub.items() if prior_sets else ():
            path, commit = sources.fetch(PRIOR, file)
            pairs += _pairs(path, PriorPair, subset, f"{PRIOR.repo}@{commit[:7]} {file}")
        return Benchmark(tuple(pairs), "rewardbench", name + (" and prior sets" if prior_sets else ""))
    root = sources.data_folder(folder, OFFICIAL.title)
    present, _ = sources.find(root, "rewardbench", OFFICIAL)
    if present:
        name = present[0].relative_to(root).as_posix()
        pairs = _pairs(present[0], OwnPair, None, f"RewardBench, {name}", named=True)
        return Benchmark(tuple(pairs), "rewardbench", name)
    return _parts(root, wording)


def _parts(root: Path, wording: str) -> Benchmark:
    """What of RewardBench can be built from its sources in a folder."""
    pairs: list[Group] = []
    built: dict[str, None] = {}
    for subset, (name, *_) in OFFICIAL.local.items():
        if subset != "both" and (file := root / name).is_file():
            title, model = ("HumanEvalPack", HumanEvalPack) if subset.startswith("hep") else ("LLMBar", LLMBar)
            pairs += _pairs(file, model, subset, f"{title} {file.name}", wording=wording)
            built[title] = None
    if not pairs:
        official = OFFICIAL.hub["both"][0]
        what = f"neither {official} nor LLMBar or HumanEvalPack files are below rewardbench/ in this folder"
        raise DataError(root, None, None, what, sources.download(OFFICIAL, root / "rewardbench"))
    return Benchmark(tuple(pairs), "rewardbench", f"{' and '.join(built)} files, as RewardBench uses them")


def preferred(groups: Iterable[Group], source: str, attribute: str = "helpfulness") -> Benchmark:
    """Rated or compared responses as own pairs, the better one first: held-out pairs to search head weights on.

    Paper: silent for weights; section 4.3 for the rule (no pair where helpfulness is equal). A group of two with a
    preference is taken by it; any other by its labels, the best against the worst in `attribute`. Groups in which
    nothing is better (a tie, no such label) are left out. Raises ValueError where no group is left.
    """
    pairs = []
    for group in groups:
        answers = group.responses
        if group.preference is not None and len(answers) == 2:
            answers = answers if group.preference < 0 else answers[::-1] if group.preference else ()
        elif attribute in group.attributes:
            at = group.attributes.index(attribute)
            rated = [a for a in answers if a.labels and not math.isnan(a.labels[at])]
            answers = sorted(rated, key=lambda a: -a.labels[at])  # stable: of equals the first
            answers = (answers[0], answers[-1]) if answers and answers[0].labels[at] > answers[-1].labels[at] else ()
        else:
            answers = ()
        if answers:
            pairs.append(Group(group.id, group.prompt, tuple(answers), (), preference=-1.0, source=group.source))
    if not pairs:
        raise ValueError(f"{source}: no group has a response that is better than another by preference or {attribute}")
    return Benchmark(tuple(pairs), "own", source)


def _chosen_first(pair: Group) -> Group:
    if not pair.preference or len(pair.responses) != 2:
        raise ValueError(f"pair {pair.id}: expected two responses and a preference that is not 0")
    first, second = pair.responses if pair.preference < 0 else pair.responses[::-1]
    return Group(pair.id, pair.prompt, (first, second), (), preference=-abs(pair.preference), source=pair.source)
