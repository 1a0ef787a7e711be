"""Readers of RewardBench 2, RM-Bench and JudgeBench: a question with all its answers is a group.

    benchmark = load("RM-Bench", "folder")   # or "hub", or "postcards": generated ones
    benchmark.groups[0].responses            # each has the label right, 1 or 0
    benchmark.title                          # "partial RM-Bench (798 of 1,327 questions; ..)"

The benchmark decides how many answers a question has: RewardBench 2 four (more in Ties), RM-Bench
six, the right ones first, JudgeBench two. What the scores of the answers make of it is in
`hs2lib.evaluate`. Paper: silent; the benchmarks are of later years.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field, model_validator

from hs2lib.data.load import DataSet, Loaded, data_folder, data_sets, files, find
from hs2lib.data.readers import Name
from hs2lib.data.rows import Fault, Faults, Row, Text, expected, printable, shown, sound
from hs2lib.group import Group, Response, Turn
from hs2lib.names import JUDGEBENCH, REWARD_BENCHMARKS, SOURCES, one_of
from hs2lib.paths import digests_by_place
from hs2lib.world import pairs as generated_pairs
from hs2lib.world import sets
from hs2lib.world.pairs import Question

STYLES = ("concise", "detailed", "markdown")  # of the answers of RM-Bench

SETS = data_sets(__file__, "reward_benchmarks.yaml")

# How many questions each part of a benchmark has. RM-Bench's math was not at hand where this was
# written: its number is what the others leave of all 1,327. JudgeBench's are the pairs of gpt-4o,
# which boards report.
SIZES = {
    "RewardBench 2": {
        "Factuality": 475,
        "Precise IF": 160,
        "Math": 183,
        "Safety": 450,
        "Focus": 495,
        "Ties": 102,
    },
    "RM-Bench": {
        "chat": 129,
        "math": 529,
        "code": 228,
        "safety-refuse": 284,
        "safety-response": 157,
    },
    "JudgeBench": {"knowledge": 154, "reasoning": 98, "math": 56, "coding": 42},
}

# Of the other pairs of JudgeBench, by whose answers they are.
OTHER_PAIRS = {
    "claude": {"knowledge": 154, "reasoning": 51, "math": 34, "coding": 31},
    "both": {"knowledge": 308, "reasoning": 149, "math": 90, "coding": 73},
}

OF_FOUR = 4  # answers to a question of RewardBench 2, one of them right; Ties has more of both

# How the source of a JudgeBench pair begins -> its category.
CATEGORIES = {
    "mmlu-pro": "knowledge",
    "livebench-reasoning": "reasoning",
    "livebench-math": "math",
    "livecodebench": "coding",
}

# Rows


class RewardBench2Row(Row, extra="ignore"):
    """A question of RewardBench 2: the right answers are `chosen`, `num_correct` of them.

    In Ties the questions come in twos: "ref:n" has one right answer, "tied:n" several. An answer
    may be empty: it is scored like any other.
    """

    id: Text
    prompt: Text
    chosen: Annotated[list[str], Field(min_length=1)]
    rejected: Annotated[list[str], Field(min_length=1)]
    num_correct: int
    subset: Literal["Factuality", "Precise IF", "Math", "Safety", "Focus", "Ties"]

    @model_validator(mode="after")
    def _counted(self) -> Self:
        right = len(self.chosen)
        answers = right + len(self.rejected)
        if self.num_correct != right:
            raise Fault(
                "num_correct",
                f"it says {self.num_correct}, and chosen has {right} answers",
                "write how many answers chosen has",
            )
        if self.subset != "Ties":
            if (right, answers) != (1, OF_FOUR):
                raise Fault(
                    "chosen",
                    f"{right} right answers of {answers}",
                    f"give one right answer and {OF_FOUR - 1} wrong ones",
                )
            return self
        kind = self.id.partition(":")[0]
        if not re.fullmatch(r"(ref|tied):.+", self.id, re.DOTALL):
            raise Fault(
                "id",
                f"a question of Ties is called ref:n or tied:n, got {shown(self.id)}",
                "take the benchmark's own ids",
            )
        if (kind == "ref") != (right == 1):
            raise Fault(
                "chosen",
                f"{right} right answers of a question called {kind}",
                "give ref one right answer, and tied several",
            )
        return self

    def question(self, source: str) -> Question:
        """The row as a question of its subset."""
        link = f"Ties/{self.id.partition(':')[2]}" if self.subset == "Ties" else self.prompt
        return Question(
            self.subset,
            link,
            _group(f"{self.subset}/{self.id}", self.prompt, self.chosen, self.rejected, source),
        )


_STYLED = expected(
    f"three answers: {', '.join(STYLES)}", "give an answer in each of the three styles, in order"
)
Styled = Annotated[list[Text], Field(min_length=3, max_length=3), _STYLED]


class RMBenchRow(Row, extra="ignore"):
    """A question of RM-Bench: three right and three wrong answers, each in the `STYLES`."""

    id: Name
    prompt: Text
    chosen: Styled
    rejected: Styled

    def question(self, source: str, part: str) -> Question:
        """The row as a question of a domain. The file, not the row, says which."""
        name = f"{part}/{self.id}"
        return Question(
            part, self.prompt, _group(name, self.prompt, self.chosen, self.rejected, source)
        )


def _category(source: str) -> str:
    """The category of a pair of JudgeBench by where its question comes from; raises Fault."""
    for begins, category in CATEGORIES.items():
        if source.startswith(begins):
            return category
    raise Fault(
        None,
        f"no category goes with {shown(source)}; sources begin with {', '.join(CATEGORIES)}",
        "take the benchmark's own rows",
    )


Verdict = Literal["A>B", "B>A"]
Category = Annotated[Text, AfterValidator(_category)]


class JudgeBenchRow(Row, extra="ignore"):
    """A pair of JudgeBench: two answers, A and B, of which `label` says the right one."""

    pair_id: Text
    source: Category
    question_text: Text = Field(alias="question")
    response_A: Text
    response_B: Text
    label: Verdict

    def question(self, source: str) -> Question:
        """The row as a question of its category, answer A first."""
        name = f"{self.source}/{self.pair_id}"
        a_is_right = self.label == "A>B"
        responses = (
            Response(f"{name}/A", self.response_A, (float(a_is_right),)),
            Response(f"{name}/B", self.response_B, (float(not a_is_right),)),
        )
        prompt = (Turn("user", self.question_text),)
        return Question(
            self.source,
            self.question_text,
            Group(name, prompt, responses, generated_pairs.RIGHT, source=source),
        )


class Judgment(Row, extra="ignore"):
    """What a judge said of a pair in one order; `decision` is None where nothing could be read."""

    decision: Literal["A>B", "B>A", "A=B"] | None


class JudgeBenchOutput(Row, extra="ignore"):
    """A judge's output on a pair of JudgeBench: first in the order A, B, then in the order B, A."""

    pair_id: Text
    source: Category
    label: Verdict
    judgments: Annotated[list[Judgment | None], Field(min_length=1, max_length=2)]

    @property
    def decisions(self) -> tuple[str | None, ...]:
        """The decision in each order, as it was spoken: "A>B" prefers what was shown first."""
        return tuple(judgment and judgment.decision for judgment in self.judgments)


def _group(
    name: str, prompt: str, right: Sequence[str], wrong: Sequence[str], source: str
) -> Group:
    """A question with its answers, the right ones first."""
    responses = []
    for kind, texts, label in (("chosen", right, 1.0), ("rejected", wrong, 0.0)):
        for number, text in enumerate(texts):
            responses.append(Response(f"{name}/{kind}-{number}", text, (label,)))
    return Group(
        name,
        (Turn("user", prompt),),
        tuple(responses),
        generated_pairs.RIGHT,
        source=source,
    )


# Benchmarks


@dataclass(frozen=True)
class RewardBenchmark:
    """The questions of a benchmark of reward models, each with all its answers.

    name: one of `hs2lib.names.REWARD_BENCHMARKS`.
    groups: the questions. The label `right` of an answer is 1 or 0.
    parts: of each question its subset, domain or category.
    links: of each question what it shares with those that are drawn together with it.
    source: where the questions come from, for captions.
    generated: whether they were generated, in place of the benchmark's own.
    absent: the parts that have no file here.
    whole: how many questions each part has in the benchmark.
    answered_by: of JudgeBench: whose answers the pairs are, where it is not gpt-4o.
    read: the files, as `hs2lib.paths.digests_by_place`.
    """

    name: str
    groups: tuple[Group, ...]
    parts: tuple[str, ...]
    links: tuple[str, ...]
    source: str
    generated: bool = False
    absent: tuple[str, ...] = ()
    whole: dict[str, int] = field(default_factory=dict)
    answered_by: str = ""
    read: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def counts(self) -> dict[str, int]:
        """How many questions of each part are here, in the benchmark's order."""
        counts = Counter(self.parts)
        return {part: counts[part] for part in SIZES[self.name]}

    @property
    def complete(self) -> bool:
        """Whether these are what boards report: all questions, not generated, of gpt-4o."""
        return not self.generated and not self.answered_by and self.counts == self.whole

    @property
    def partial(self) -> bool:
        """Whether these are some of the benchmark's questions and not all."""
        return not self.generated and self.counts != self.whole

    @property
    def title(self) -> str:
        """The benchmark's name where all of it is here; else how much, or that it was generated."""
        if self.generated:
            return f"generated questions in the form of {self.name}"
        of = f", pairs of {self.answered_by}" if self.answered_by else ""
        if not self.partial:
            return f"{self.name}{of}"
        lacking = f"; without {', '.join(self.absent)}" if self.absent else ""
        number = f"{len(self):,} of {sum(self.whole.values()):,} questions"
        return f"partial {self.name}{of} ({number}{lacking})"

    @property
    def clusters(self) -> np.ndarray:
        """The number of each question's link, int64 [questions]; equal links are drawn together."""
        return pd.factorize(pd.Series(self.links))[0]

    @property
    def right(self) -> list[np.ndarray]:
        """Of each question which of its answers are right, bool [G]."""
        marks = []
        for group in self.groups:
            marks.append(np.array([answer.labels[0] == 1 for answer in group.responses]))
        return marks

    @property
    def loaded(self) -> Loaded:
        """These questions as a data source of a run."""
        name = self.source if self.complete else f"{self.title}: {self.source}"
        return Loaded(list(self.groups), name, self.generated, read=dict(self.read))

    def where(self, keep: Sequence[bool], words: str) -> "RewardBenchmark":
        """Some of the questions. words: which, for the source; said only where any is left out."""
        if all(keep):
            return self
        kept = [number for number, is_kept in enumerate(keep) if is_kept]
        return replace(
            self,
            groups=tuple(self.groups[number] for number in kept),
            parts=tuple(self.parts[number] for number in kept),
            links=tuple(self.links[number] for number in kept),
            source=f"{self.source}, {words}",
        )

    def first(self, n: int) -> "RewardBenchmark":
        """The first n questions of each part (0: all); of Ties n linked pairs of questions."""
        if not n:
            return self
        seen: dict[str, dict[str, None]] = {}  # part -> its links, in the order they first occur
        keep = []
        for number, (part, link) in enumerate(zip(self.parts, self.links, strict=True)):
            unit = link if part == "Ties" else str(number)
            units = seen.setdefault(part, {})
            if len(units) < n:
                units[unit] = None
            keep.append(unit in units)
        return self.where(keep, f"the first {n} questions of each part")


class JudgedPairs(NamedTuple):
    """What a published judge said of the pairs of JudgeBench.

    rows: one a pair.
    read: the file, as `hs2lib.paths.digests_by_place`.
    """

    rows: tuple[JudgeBenchOutput, ...]
    read: dict[str, str]


def load(
    name: str,
    source: str,
    folder: str | Path | None = None,
    *,
    answered_by: str = "gpt-4o",
    n_per_part: int = 4,
    seed: int = 0,
) -> RewardBenchmark:
    """The questions of a benchmark, every row validated.

    A part that a folder does not have is left out and named (`absent`). RewardBench 2 was never
    read by this code where it was written, and neither was RM-Bench's math: hand-written rows of
    their form were.

    Args:
        name: one of `hs2lib.names.REWARD_BENCHMARKS`.
        source: "hub" (the Hugging Face Hub or GitHub, at a pinned commit), "folder", or
            "postcards", questions of the small world in the benchmark's form.
        folder: of source "folder", by default HS2_DATA_DIR.
        answered_by: of JudgeBench: whose answers the pairs are, "gpt-4o", "claude" or "both".
        n_per_part: of "postcards": how many questions each part has.
        seed: of "postcards".

    Raises:
        hs2lib.data.rows.DataError: rows are faulty, or all data absent; it names file, line, field
            and fix.
        ValueError: an unknown name or source.
    """
    one_of("benchmark", name, REWARD_BENCHMARKS)
    one_of("source", source, SOURCES)
    one_of("answered_by", answered_by, JUDGEBENCH)
    sizes = SIZES[name]
    if source == "postcards":
        made = generated_pairs.questions(name, n_per_part, seed)
        return _benchmark(name, made, sets.source(seed), generated=True)
    spec = SETS[name]
    if name == "RewardBench 2":
        splits = ("both",)
    elif name == "RM-Bench":
        splits = tuple(sizes)
    elif answered_by == "both":
        splits = tuple(spec.hub)
    else:
        splits = (answered_by,)
    located = _locate(spec, source, folder, splits)
    questions: list[Question] = []
    for split, path, origin in located.files:
        questions += _read(path, *_reader(name, split, origin))
    benchmark = _benchmark(name, questions, "; ".join(origin for _, _, origin in located.files))
    if name == "JudgeBench" and answered_by != "gpt-4o":
        of_others = {"claude": "claude", "both": "gpt-4o and claude"}
        sizes = OTHER_PAIRS[answered_by]
        benchmark = replace(benchmark, answered_by=of_others[answered_by])
    return replace(benchmark, absent=located.absent, whole=sizes, read=located.read)


def load_outputs(model: str, source: str, folder: str | Path | None = None) -> JudgedPairs:
    """What one of five published reward models said of JudgeBench's 350 pairs, in both orders.

    Args:
        model: a name under "JudgeBench outputs" in reward_benchmarks.yaml.
        source: "hub" or "folder".
        folder: of source "folder", by default HS2_DATA_DIR.

    Raises DataError as `load`, and ValueError for an unknown model.
    """
    spec = SETS["JudgeBench outputs"]
    one_of("model", model, spec.hub)
    ((_, path, _),), read = files(spec, source, folder, model)
    with Faults(path) as faults:
        rows = tuple(row for _, row in sound(path, JudgeBenchOutput, faults))
    return JudgedPairs(rows, read)


OUTPUTS_OF = tuple(SETS["JudgeBench outputs"].hub)


class _Located(NamedTuple):
    """(split, path, provenance) of each file; the splits without one; what was looked at."""

    files: list[tuple[str, Path, str]]
    absent: tuple[str, ...]
    read: dict[str, str]


def _locate(
    spec: DataSet, source: str, folder: str | Path | None, splits: Sequence[str]
) -> _Located:
    """The files of those splits that are there; raises DataError where none is."""
    places: list[tuple[str, Path, str]] = []
    absent: list[str] = []
    read: dict[str, str] = {}
    for split in splits:
        if source == "folder":
            sought = find(data_folder(folder, spec.title), spec, split, needed=False)
            if not sought.files:
                absent.append(split)
                read |= digests_by_place(*sought.absent)
                continue
        of_split, read_now = files(spec, source, folder, split)
        places += of_split
        read |= read_now
    if not places:
        find(data_folder(folder, spec.title), spec, splits[0])  # raises, and says what to do
    return _Located(places, tuple(absent), read)


def _reader(
    name: str, split: str, origin: str
) -> tuple[type[Row], Callable[[RewardBench2Row | RMBenchRow | JudgeBenchRow], Question]]:
    """The model of a file's rows, and how a row becomes a question."""
    if name == "RewardBench 2":
        return RewardBench2Row, lambda row: row.question(origin)
    if name == "RM-Bench":
        return RMBenchRow, lambda row: row.question(origin, split)
    return JudgeBenchRow, lambda row: row.question(origin)


def _read(path: Path, model: type[Row], question_of: Callable[..., Question]) -> Iterator[Question]:
    """The questions of a file; any fault raises, with all others.

    With rows left out it would be another benchmark.
    """
    ids: set[str] = set()
    with Faults(path) as faults:
        for line, row in sound(path, model, faults):
            question = question_of(row)
            if question.group.id in ids:
                what = f"the id {printable(question.group.id)} a second time"
                faults.add(line, Fault("id", what, "give each question of a part its own id"))
                continue
            ids.add(question.group.id)
            yield question


def _benchmark(
    name: str, questions: Collection[Question], source: str, *, generated: bool = False
) -> RewardBenchmark:
    """The benchmark of these questions."""
    return RewardBenchmark(
        name,
        tuple(question.group for question in questions),
        tuple(question.part for question in questions),
        tuple(question.link for question in questions),
        source,
        generated,
        whole=SIZES[name],
    )


def styled(benchmark: RewardBenchmark, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores of RM-Bench's answers by style: of the right and of the wrong ones, [questions, 3].

    flat: of all answers in their order, [responses].
    """
    by_question = np.asarray(flat, dtype=np.float64).reshape(len(benchmark), 2, len(STYLES))
    return by_question[:, 0], by_question[:, 1]


def texts_of(benchmark: RewardBenchmark) -> list[str]:
    """The texts of all answers, question after question."""
    groups = chain.from_iterable(group.responses for group in benchmark.groups)
    return [answer.text for answer in groups]
