"""A benchmark's questions and the answers to them, as groups.

    questions = mt_bench.load("folder").subset(16, seed=0)
    ours = generate(policy, questions, max_new_tokens=1024, file=folder)            # greedy; resumes
    save(folder / "DPO.jsonl", "DPO", ours)
    theirs = read("model_answer__gpt-4o.jsonl.gz", questions)       # as FastChat or Arena Hard publish them

A question is a group without responses: its prompt holds what the user says, turn after turn. An
answer is a group too, one for each turn: its prompt is the conversation before the response, its id
is "question/turn", turns counted from 1.

Paper: section 4.1 and appendix H: MT-Bench greedily, 1,024 tokens; Arena Hard's own settings are
greedy, 4,096.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, zip_longest
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pandas as pd
import yaml

from hs2lib.corpus import generate as corpus
from hs2lib.data.load import Loaded, data_sets, locate
from hs2lib.data.rows import DataError, rows
from hs2lib.group import Group, Response, Turn
from hs2lib.models.rollout import Sample, rollouts
from hs2lib.paths import json_lines, read_yaml, sha256, write
from hs2lib.stats.bootstrap import Interval, bootstrap


@dataclass(frozen=True)
class Questions:
    """A benchmark's questions, or a part of them; `whole` is how many the benchmark has.

    groups: one a question, with its turns of the user. categories, references (an answer to each
    turn): by question id. baseline: the answers that other answers are compared with, where the
    benchmark compares. read: the files, as `hs2lib.paths.as_read`.
    """

    benchmark: str
    groups: tuple[Group, ...]
    source: str
    whole: int
    generated: bool = False
    categories: Mapping[str, str] = field(default_factory=dict)
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    baseline: tuple[Group, ...] = ()
    read: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def title(self) -> str:
        """The benchmark's name only where all of it is here; otherwise how much, or that it was generated."""
        if self.generated:
            return f"generated questions (not {self.benchmark})"
        n = len(self.groups)
        return (
            self.benchmark
            if n == self.whole
            else f"{self.benchmark}, {n} of {self.whole:,} questions"
        )

    @property
    def complete(self) -> bool:
        """Whether these are the benchmark itself: all of its questions, and not generated ones."""
        return self.title == self.benchmark

    @property
    def partial(self) -> bool:
        """Whether these are some of the benchmark's questions and not all."""
        return not (self.complete or self.generated)

    @property
    def loaded(self) -> Loaded:
        """These questions as a data source of a run."""
        number = f"{len(self)} " if self.generated else ""
        name = f"{number}{self.title}: {self.source}"
        return Loaded(list(self.groups), name, self.generated, read=dict(self.read))

    def subset(self, n: int, seed: int = 0) -> "Questions":
        """n questions (0: all), as evenly over the categories as can be, drawn by seed, in their
        order.

        A larger subset of one seed holds the smaller ones. Raises ValueError where there are fewer
        than n.
        """
        if not 0 <= n <= len(self.groups):
            raise ValueError(f"{n} of {len(self.groups)} questions were asked for")
        if n in (0, len(self.groups)):
            return self
        draw, by_category = Random(seed), {}
        for group in self.groups:
            by_category.setdefault(self.categories.get(group.id, ""), []).append(group.id)
        for ids in by_category.values():
            draw.shuffle(ids)
        order = sorted(by_category)
        draw.shuffle(order)
        # One of each category, then the next of each: of categories of one size none has two more
        # than another.
        rounds = zip_longest(*(by_category[name] for name in order))
        taken = {id for id in [id for several in rounds for id in several if id is not None][:n]}
        baseline = tuple(answer for answer in self.baseline if question_id(answer) in taken)
        return replace(
            self, groups=tuple(g for g in self.groups if g.id in taken), baseline=baseline
        )


def question_id(answer: Group) -> str:
    """The question that an answer answers: "101" of "101/2"."""
    return answer.id.rpartition("/")[0]


def context(question: Group, replies: Sequence[Response]) -> Group:
    """The conversation up to the first turn that `replies` do not answer: a group without responses, to be answered."""
    prompt = []
    for user, reply in zip(question.prompt, replies, strict=False):
        prompt += [user, Turn("assistant", reply.text)]
    return Group(f"{question.id}/{len(replies) + 1}", (*prompt, question.prompt[len(replies)]), ())


def answered(
    questions: Questions, replies: Mapping[str, Sequence[Response]], source: str
) -> tuple[Group, ...]:
    """Answers to all turns, in the questions' order, from the replies to each question by its id."""
    return tuple(
        replace(
            context(question, replies[question.id][:turn]),
            responses=(replies[question.id][turn],),
            source=source,
        )
        for question in questions.groups
        for turn in range(len(question.prompt))
    )


def last_turns(questions: Questions, answers: Sequence[Group]) -> tuple[Group, ...]:
    """Those answers that are to the last turn of a question."""
    turns = {question.id: len(question.prompt) for question in questions.groups}
    return tuple(
        answer
        for answer in answers
        if answer.id == f"{question_id(answer)}/{turns[question_id(answer)]}"
    )


def characters(answers: Sequence[Group]) -> np.ndarray:
    """Length of every response in characters, int64 [responses]. Paper: appendix H, "MT Bench Response Length"."""
    return np.array(
        [len(response.text) for answer in answers for response in answer.responses], dtype=np.int64
    )


def generate(
    policy, questions: Questions, *, max_new_tokens: int, label=None, **options
) -> tuple[Group, ...]:
    """A policy's greedy answers to every turn, each turn after its own answers to the earlier ones.

    Paper: section 4.1, appendix H (greedy; 1,024 tokens for MT-Bench). label: SteerLM's, a text or
    a function of the question. options, as for `rollout.rollouts`: file (a sample is kept as it
    comes, and none is computed twice, also after a kill), batch, autocast, progress, backend,
    min_new_tokens. A prompt too long for max_new_tokens loses its oldest turns. Raises ValueError
    as `rollouts` does, naming the question whose last turn alone leaves no room.
    """
    replies: dict[str, list[Sample]] = {question.id: [] for question in questions.groups}
    options |= {
        "n": 1,
        "max_new_tokens": max_new_tokens,
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": 0,
    }
    for turn in range(max(len(question.prompt) for question in questions.groups)):
        asked = [question for question in questions.groups if len(question.prompt) > turn]
        prompts = [context(question, replies[question.id]) for question in asked]
        for question, group in zip(
            asked, rollouts(policy, prompts, label=label, **options), strict=True
        ):
            replies[question.id].append(group.responses[0])
    source = f"greedy, at most {max_new_tokens:,} tokens, of {policy.fingerprint()}"
    return answered(questions, replies, source + (f", label {label}" if label else ""))


def save(path: Path, model: str, answers: Sequence[Group]) -> Path:
    """Write answers as FastChat does (a line a question), so that its tools and `read` take them; all or nothing."""
    lines = []
    for id, several in groupby(answers, key=question_id):
        texts = [answer.responses[0].text for answer in several]
        row = {
            "question_id": int(id) if id.isdecimal() and str(int(id)) == id else id,
            "model_id": model,
        }
        lines.append(row | {"choices": [{"index": 0, "turns": texts}]})
    write(Path(path), json_lines(lines).encode(errors="replace"))
    return Path(path)


def read(path: str | Path, questions: Questions) -> tuple[Group, ...]:
    """Answers from a file of FastChat (choices), Arena Hard (messages) or AlpacaEval (output), or
    written by `save`.

    Only those to `questions` are taken. Raises DataError naming file, line and field for a row of
    another form, and naming the question where one is answered twice, not at all, or not in all its
    turns.
    """
    path = Path(path)
    wanted, replies, models = {group.id: group for group in questions.groups}, {}, []
    for line, row in rows(path):
        # AlpacaEval's file has no ids: its instructions are counted from 0.
        id = str(
            row.get(
                "question_id", row.get("uid", row.get("i", line - 1 if "output" in row else ""))
            )
        )
        if id not in wanted:
            continue
        try:
            model, texts = _reply(row)
            if not all(isinstance(text, str) for text in (*texts, model)):
                raise TypeError
        except (KeyError, IndexError, TypeError):
            what = "no answer as FastChat (choices[0].turns), Arena Hard (messages) or AlpacaEval (output) write it"
            raise DataError(
                path, line, None, what, "write model_id, question_id and choices"
            ) from None
        if id in replies or len(texts) != len(wanted[id].prompt):
            what = f"a second answer to question {id}, or {len(texts)} responses to its {len(wanted[id].prompt)} turns"
            raise DataError(path, line, None, what, "keep one answer, with a response to each turn")
        replies[id] = [Response(f"{id}/{turn}/0", text) for turn, text in enumerate(texts, 1)]
        models.append(model)
    if missing := [id for id in wanted if id not in replies]:
        what = f"no answer to {len(missing)} of {len(wanted)} questions, {missing[0]} among them"
        raise DataError(
            path, None, "question_id", what, "generate them, or ask for fewer questions"
        )
    if len(set(models)) > 1:
        raise DataError(
            path,
            None,
            "model_id",
            f"answers of several models: {models[0]}, ..",
            "one file a model",
        )
    return answered(questions, replies, f"{models[0]}, {path.name} (sha256 {sha256(path)[:12]})")


def _reply(row: dict) -> tuple[str, list]:
    """(model, responses turn by turn) of a row in the form of Arena Hard, of AlpacaEval or of FastChat."""
    if "messages" in row:
        contents = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
        return row["model"], [c["answer"] if isinstance(c, dict) else c for c in contents]
    if "output" in row:
        return row.get("generator", "a model"), [row["output"]]
    turns = row["choices"][0]["turns"]
    turns = turns if isinstance(turns, list) else [turns]
    return row["model_id"], [t["content"] if isinstance(t, dict) else t for t in turns]


# Where questions come from


# The public files of the benchmarks, by "benchmark/what they hold".
FILES = data_sets(__file__, "files.yaml")


def load(
    benchmark,
    whole: int,
    turns: int,
    columns: Callable,
    source,
    folder=None,
    n=0,
    seed=0,
    categories=(),
):
    """`Questions` of a benchmark, n of them (0: all), each of so many turns, with the baseline's
    answers if it has one.

    source: "folder" (default HS2_DATA_DIR), "hub" (GitHub at a pinned commit), or "embedded"
    (`embedded`). columns: from (line, row) to the row's id, category and list of texts; categories:
    those it may have. Raises DataError for a file that is absent, a row of another form, a question
    that comes twice, and any other number than `whole`.
    """
    if source == "embedded":
        return embedded(benchmark, n or 8, turns, seed)
    file = FILES[f"{benchmark}/questions"]
    path, provenance, files_read = locate(file, source, folder)
    groups, of_id, seen, fix = [], {}, {}, f"take {file.hub['both'][0]} of {file.repo}"
    for line, row in rows(path):
        id, category, texts = columns(line, row)
        of_text = isinstance(texts, list) and all(isinstance(text, str) and text for text in texts)
        if not (of_text and len(texts) == turns and isinstance(id, int | str)):
            what = f"expected an id and the text of {turns} turn{'s' * (turns > 1)}, got {str(texts)[:60]!r}"
            raise DataError(path, line, None, what, fix)
        if categories and category not in categories:
            raise DataError(path, line, "category", f"{category!r} is none of {benchmark}'s", fix)
        first = min(seen.setdefault(name, line) for name in (str(id), tuple(texts)))
        if first < line:
            raise DataError(path, line, None, f"the question of line {first} again", fix)
        groups.append(
            Group(str(id), tuple(Turn("user", text) for text in texts), (), source=provenance)
        )
        of_id[str(id)] = category
    if len(groups) != whole:
        raise DataError(path, None, None, f"{len(groups)} questions, {benchmark} has {whole}", fix)
    every = Questions(
        benchmark, tuple(groups), provenance, whole, categories=of_id, read=files_read
    )
    questions = every.subset(n, seed)
    answers = FILES.get(f"{benchmark}/answers")
    if answers is None:
        return questions
    baseline = locate(answers, source, folder)
    return replace(
        questions, baseline=read(baseline.path, questions), read=files_read | baseline.read
    )


def embedded(benchmark: str, n: int, turns: int, seed: int = 0) -> Questions:
    """Generated questions with so many user turns each: the last ones of conversations, for
    machines without the data.

    Paper: none. Their category is the family of the last turn's task; there are no references. The
    baseline of questions with one turn is the better of the prompt's generated responses. Nothing
    is trained on these prompts.
    """
    groups, families, best, start = [], {}, {}, 0
    while len(groups) < n:
        block = list(corpus.groups(max(16, 2 * n), seed=seed, split="validation", start=start))
        for group in block:
            users = tuple(turn for turn in group.prompt if turn.role == "user")[-turns:]
            if len(users) == turns and len(groups) < n:
                groups.append(Group(group.id, users, (), source=group.source))
                families[group.id] = corpus.task_of(group.id).family
                best[group.id] = [max(group.responses, key=lambda response: response.labels[0])]
        start = int(block[-1].id.rpartition("/")[2]) + 1
    questions = Questions(
        benchmark, tuple(groups), corpus.source(seed), n, generated=True, categories=families
    )
    return replace(
        questions,
        baseline=answered(questions, best, "the better generated response") if turns == 1 else (),
    )


# What a judge is asked, and what a policy scores


@dataclass(frozen=True)
class Template:
    """A judge prompt: the system message, the text with {fields}. read: its file, as `hs2lib.paths.as_read`."""

    system: str
    text: str
    read: Mapping[str, str] = field(default_factory=dict, compare=False)

    def fill(self, **fields: str) -> tuple[tuple[str, str], ...]:
        """The messages; other braces, of the template and in a field's text, stay as they are."""
        text = re.sub(r"{(\w+)}", lambda field: fields.get(field[1], field[0]), self.text)
        return ("system", self.system), ("user", text)


class Templates(dict[str, Template]):
    """Judge prompts by name. read: the file, as `hs2lib.paths.as_read`."""

    def __init__(self, templates: Mapping[str, Template], read: Mapping[str, str]):
        super().__init__(templates)
        self.read = read


def prompts(
    benchmark: str, fields: Mapping, parse: Callable, source: str, folder: str | Path | None = None
) -> Templates:
    """The judge prompts of a benchmark by name, with the fields each has; for source "embedded"
    some of our own.

    parse: from the public file to the `Template` of each name. Raises DataError naming what a
    prompt lacks.
    """
    if source == "embedded":
        texts = read_yaml(__file__, "own_prompts.yaml")
        return Templates(
            {name: Template(texts["system"], text) for name, text in texts[benchmark].items()}, {}
        )
    file = FILES[f"{benchmark}/prompts"]
    path, _, files_read = locate(file, source, folder)
    fix = f"take {file.hub['both'][0]} of {file.repo}"
    try:
        named = parse(path)
    except UnicodeDecodeError as error:
        raise DataError(path, None, None, f"broken UTF-8, byte {error.start + 1}", fix) from None
    except (yaml.YAMLError, KeyError, TypeError):
        named = {}
    for name, needed in fields.items():
        template = named.get(name, Template(None, None))
        text = template.text if isinstance(template.text, str) else ""
        lacks = [field for field in needed if f"{{{field}}}" not in text]
        if not isinstance(template.system, str):
            lacks.append("its system message")
        if lacks:
            raise DataError(path, None, name, f"prompt {name} lacks {lacks[0]}", fix)
    return Templates({name: replace(named[name], read=files_read) for name in fields}, files_read)


class JudgedScore(NamedTuple):
    """What a judge's verdicts make of one policy on one benchmark.

    measure: what the score may be called, with its unit. overall: (score, 95 % low, high).
    unparsable: verdicts that could not be read. values [answers]: the verdict on each answer, nan
    where none was read; its name is one of `hs2lib.paper.GRADE`, `WON`, `PREFERRED`. beside:
    further numbers by name, which have no interval.
    """

    measure: str
    overall: tuple[float, float, float]
    unparsable: int
    values: pd.Series
    beside: Mapping[str, float] = {}


def share(
    above: Sequence[float], below: Sequence[float], clusters: Sequence, n_boot=1000, seed=0
) -> Interval:
    """sum(above) / sum(below) of values [rows], with a 95 % interval that draws clusters whole, as
    numbers.

    A mean is such a share: values above, ones below. nan where the sum below is 0. Paper: silent.
    """
    sums = np.column_stack([above, below])  # [rows, 2]
    interval = bootstrap(
        sums, np.asarray(clusters), lambda s: s[:, :1] / s[:, 1:], n_boot=n_boot, seed=seed
    )
    return Interval(*(float(part[0]) for part in interval))


def mean(values: Sequence[float], clusters: Sequence, **resampled) -> Interval:
    """(mean, 95 % low, high) of those values [rows] that are not nan, as numbers; of nan alone all three are nan."""
    values = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(values)
    if not known.any():
        return Interval(np.nan, np.nan, np.nan)
    return share(values[known], np.ones(known.sum()), np.asarray(clusters, str)[known], **resampled)
