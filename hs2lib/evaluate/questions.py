"""A benchmark's questions and the answers to them, as groups.

    questions = mt_bench.load("folder").subset(16, seed=0)
    ours = generate(policy, questions, max_new_tokens=1024, file=folder)  # greedy; resumes
    save(folder / "DPO.jsonl", "DPO", ours)
    theirs = read("model_answer__gpt-4o.jsonl.gz", questions)  # of FastChat or Arena Hard

A question is a group without responses: its prompt holds what the user says, turn after turn. An
answer is a group too, one for each turn. Its prompt is the conversation before the response. Its id
is "question/turn", and turns are counted from 1.

Paper: section 4.1 and appendix H. MT-Bench is answered greedily with 1,024 tokens. Arena Hard's own
settings are greedy with 4,096.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, zip_longest
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import yaml

from hs2lib.data.load import Loaded, data_sets, locate
from hs2lib.data.rows import DataError, rows
from hs2lib.group import Group, Response, Turn
from hs2lib.models.rollout import Sample, rollouts
from hs2lib.paths import json_lines, read_yaml, sha256, write
from hs2lib.stats.bootstrap import Interval, bootstrap
from hs2lib.world import questions as world
from hs2lib.world import sets

if TYPE_CHECKING:
    from hs2lib.models.policy import Policy


@dataclass(frozen=True)
class Questions:
    """A benchmark's questions, or a part of them.

    benchmark: its name.
    groups: one a question, with its turns of the user.
    source: where the questions come from, for captions.
    whole: how many questions the benchmark has.
    generated: whether they were generated, in place of the benchmark's own.
    categories: category of each question, by question id.
    references: a reference answer to each turn, by question id.
    baseline: the answers that other answers are compared with, where the benchmark compares.
    read: the files, as `hs2lib.paths.digests_by_place`.
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
        """The benchmark's name where all of it is here; else how much, or that it was generated."""
        if self.generated:
            return f"generated questions (not {self.benchmark})"
        n = len(self.groups)
        if n == self.whole:
            return self.benchmark
        return f"{self.benchmark}, {n} of {self.whole:,} questions"

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
        """n questions (0: all) drawn by seed, as evenly over the categories as can be.

        They stay in their order. A larger subset of one seed holds the smaller ones. Raises
        ValueError where there are fewer than n.
        """
        if not 0 <= n <= len(self.groups):
            raise ValueError(f"{n} of {len(self.groups)} questions were asked for")
        if n in (0, len(self.groups)):
            return self
        draw = Random(seed)
        by_category: dict[str, list[str]] = {}
        for group in self.groups:
            by_category.setdefault(self.categories.get(group.id, ""), []).append(group.id)
        for ids in by_category.values():
            draw.shuffle(ids)
        category_order = sorted(by_category)
        draw.shuffle(category_order)
        # One question of each category, then the next of each, and so on. Of categories of one size
        # none then has two more than another.
        drawn: list[str] = []
        for one_of_each in zip_longest(*[by_category[name] for name in category_order]):
            drawn += [id for id in one_of_each if id is not None]
        chosen = set(drawn[:n])
        groups = tuple(group for group in self.groups if group.id in chosen)
        baseline = tuple(answer for answer in self.baseline if question_id(answer) in chosen)
        return replace(self, groups=groups, baseline=baseline)


def question_id(answer: Group) -> str:
    """The question that an answer answers: "101" of "101/2"."""
    return answer.id.rpartition("/")[0]


def context(question: Group, replies: Sequence[Response]) -> Group:
    """The conversation up to the first turn that `replies` do not answer.

    It is a group without responses, to be answered.
    """
    turns: list[Turn] = []
    for user, reply in zip(question.prompt, replies, strict=False):
        turns += [user, Turn("assistant", reply.text)]
    turns.append(question.prompt[len(replies)])
    return Group(f"{question.id}/{len(replies) + 1}", tuple(turns), ())


def answered(
    questions: Questions, replies: Mapping[str, Sequence[Response]], source: str
) -> tuple[Group, ...]:
    """Answers to all turns in the questions' order, from the replies to each question by its id."""
    answers = []
    for question in questions.groups:
        responses = replies[question.id]
        for turn in range(len(question.prompt)):
            conversation = context(question, responses[:turn])
            answers.append(replace(conversation, responses=(responses[turn],), source=source))
    return tuple(answers)


def characters(answers: Sequence[Group]) -> np.ndarray:
    """Length of every response in characters, int64 [responses].

    Paper: appendix H, "MT Bench Response Length".
    """
    lengths = [len(response.text) for answer in answers for response in answer.responses]
    return np.array(lengths, dtype=np.int64)


def generate(
    policy: "Policy",
    questions: Questions,
    *,
    max_new_tokens: int,
    label: str | None = None,
    **options: object,
) -> tuple[Group, ...]:
    """A policy's greedy answers to every turn, each turn after its own answers to the earlier ones.

    Paper: section 4.1, appendix H (greedy; 1,024 tokens for MT-Bench).

    max_new_tokens: of an answer. A prompt that leaves too little room loses its oldest turns.
    label: SteerLM's label string.
    options: file, batch, autocast, progress, backend and min_new_tokens of `rollout.rollouts`. With
        a file, samples are written as they come, and a run that was killed goes on.

    Raises ValueError as `rollouts` does, naming the question whose last turn alone leaves no room.
    """
    replies: dict[str, list[Sample]] = {question.id: [] for question in questions.groups}
    sampling = {
        **options,
        "n": 1,
        "max_new_tokens": max_new_tokens,
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": 0,
    }
    for turn in range(max(len(question.prompt) for question in questions.groups)):
        asked = [question for question in questions.groups if len(question.prompt) > turn]
        prompts = [context(question, replies[question.id]) for question in asked]
        sampled = rollouts(policy, prompts, label=label, **sampling)
        for question, group in zip(asked, sampled, strict=True):
            replies[question.id].append(group.responses[0])
    source = f"greedy, at most {max_new_tokens:,} tokens, of {policy.fingerprint()}"
    if label:
        source += f", label {label}"
    return answered(questions, replies, source)


def save(path: Path, model: str, answers: Sequence[Group]) -> Path:
    """Write answers as FastChat does, a line a question; the file is written whole or not at all.

    FastChat's tools and `read` take it.
    """
    file_rows = []
    for id, answers_to_one in groupby(answers, key=question_id):
        texts = [answer.responses[0].text for answer in answers_to_one]
        is_number = id.isdecimal() and str(int(id)) == id
        file_rows.append(
            {
                "question_id": int(id) if is_number else id,
                "model_id": model,
                "choices": [{"index": 0, "turns": texts}],
            }
        )
    write(Path(path), json_lines(file_rows).encode(errors="replace"))
    return Path(path)


def read(path: str | Path, questions: Questions) -> tuple[Group, ...]:
    """The answers to `questions` in a file of FastChat, Arena Hard or AlpacaEval, or of `save`.

    FastChat writes choices, Arena Hard messages, AlpacaEval output. Answers to other questions are
    passed over. Raises DataError naming file, line and field for a row of another form. It names
    the question where one is answered twice, not at all, or not in all its turns.
    """
    path = Path(path)
    wanted = {group.id: group for group in questions.groups}
    replies: dict[str, list[Response]] = {}
    models: list[str] = []
    for line, row in rows(path):
        id = _answered_question(line, row)
        if id not in wanted:
            continue
        try:
            model, texts = _model_and_texts(row)
            if not all(isinstance(text, str) for text in (*texts, model)):
                raise TypeError
        except (KeyError, IndexError, TypeError):
            raise DataError(
                path,
                line,
                None,
                "no answer as FastChat (choices[0].turns), Arena Hard (messages) or AlpacaEval "
                "(output) write it",
                "write model_id, question_id and choices",
            ) from None
        n_turns = len(wanted[id].prompt)
        if id in replies or len(texts) != n_turns:
            raise DataError(
                path,
                line,
                None,
                f"a second answer to question {id}, or {len(texts)} responses to its {n_turns} "
                "turns",
                "keep one answer, with a response to each turn",
            )
        replies[id] = [Response(f"{id}/{turn}/0", text) for turn, text in enumerate(texts, 1)]
        models.append(model)
    missing = [id for id in wanted if id not in replies]
    if missing:
        raise DataError(
            path,
            None,
            "question_id",
            f"no answer to {len(missing)} of {len(wanted)} questions, {missing[0]} among them",
            "generate them, or ask for fewer questions",
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


def _answered_question(line: int, row: Mapping) -> str:
    """The id of the question that a row of a file of answers belongs to; "" where it has none."""
    for name in ("question_id", "uid", "i"):
        if name in row:
            return str(row[name])
    if "output" in row:  # AlpacaEval's file has no ids: its instructions are counted from 0
        return str(line - 1)
    return ""


def _model_and_texts(row: dict) -> tuple[str, list]:
    """(model, responses turn by turn) of a row as Arena Hard, AlpacaEval or FastChat write it."""
    if "messages" in row:
        contents = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
        return row["model"], [c["answer"] if isinstance(c, dict) else c for c in contents]
    if "output" in row:
        return row.get("generator", "a model"), [row["output"]]
    turns = row["choices"][0]["turns"]
    if not isinstance(turns, list):
        turns = [turns]
    return row["model_id"], [t["content"] if isinstance(t, dict) else t for t in turns]


# Where questions come from


# The public files of the benchmarks, by "benchmark/what they hold".
FILES = data_sets(__file__, "files.yaml")


def load(
    benchmark: str,
    whole: int,
    turns: int,
    columns: Callable[[int, dict], tuple[object, object, object]],
    source: str,
    folder: str | Path | None = None,
    n: int = 0,
    seed: int = 0,
    categories: Sequence[str] = (),
) -> Questions:
    """The `Questions` of a benchmark, with the baseline's answers if it has one.

    benchmark: its name in `FILES`.
    whole: how many questions it has.
    turns: how many turns each question has.
    columns: from (line, row) to the row's id, category and list of texts.
    source: "folder", "hub" (GitHub at a pinned commit) or "postcards" (see
        `postcards`).
    folder: of source "folder", by default HS2_DATA_DIR.
    n, seed: as for `Questions.subset`; 0 of generated ones is 8.
    categories: those that a question may have; any where there are none.

    Raises DataError for a file that is absent, a row of another form, a question that comes twice,
    and any other number than `whole`.
    """
    if source == "postcards":
        return postcards(benchmark, n or 8, seed)
    file = FILES[f"{benchmark}/questions"]
    path, provenance, files_read = locate(file, source, folder)
    fix = f"take {file.hub['both'][0]} of {file.repo}"
    groups: list[Group] = []
    category_of: dict[str, str] = {}
    first_line: dict[str | tuple[str, ...], int] = {}  # of each id and of each question's texts
    for line, row in rows(path):
        id, category, texts = columns(line, row)
        are_texts = isinstance(texts, list) and all(isinstance(t, str) and t for t in texts)
        if not are_texts or len(texts) != turns or not isinstance(id, int | str):
            number = f"{turns} turns" if turns > 1 else f"{turns} turn"
            raise DataError(
                path,
                line,
                None,
                f"expected an id and the text of {number}, got {str(texts)[:60]!r}",
                fix,
            )
        if categories and category not in categories:
            raise DataError(path, line, "category", f"{category!r} is none of {benchmark}'s", fix)
        same_id = first_line.setdefault(str(id), line)
        same_texts = first_line.setdefault(tuple(texts), line)
        earlier = min(same_id, same_texts)
        if earlier < line:
            raise DataError(path, line, None, f"the question of line {earlier} again", fix)
        users = tuple(Turn("user", text) for text in texts)
        groups.append(Group(str(id), users, (), source=provenance))
        category_of[str(id)] = category
    if len(groups) != whole:
        raise DataError(path, None, None, f"{len(groups)} questions, {benchmark} has {whole}", fix)
    every_question = Questions(
        benchmark, tuple(groups), provenance, whole, categories=category_of, read=files_read
    )
    questions = every_question.subset(n, seed)
    answers_file = FILES.get(f"{benchmark}/answers")
    if answers_file is None:
        return questions
    answers = locate(answers_file, source, folder)
    baseline = read(answers.path, questions)
    return replace(questions, baseline=baseline, read=files_read | answers.read)


def postcards(benchmark: str, n: int, seed: int = 0) -> Questions:
    """Postcards in place of a benchmark's questions: see `hs2lib.world.questions`.

    Paper: none. Raises ValueError as `hs2lib.world.questions.asked`.
    """
    asked = world.asked(benchmark, n, seed)
    questions = Questions(
        benchmark,
        tuple(question.group for question in asked),
        f"{sets.GENERATED}, seed {seed}",
        n,
        generated=True,
        categories={question.group.id: question.category for question in asked},
    )
    replies = {
        question.group.id: [Response(f"{question.group.id}/baseline", question.baseline)]
        for question in asked
        if question.baseline
    }
    if not replies:
        return questions
    return replace(questions, baseline=answered(questions, replies, "a careful writer"))


# What a judge is asked, and what a policy scores


@dataclass(frozen=True)
class Template:
    """A judge prompt.

    system: the system message.
    text: the user's message, with {fields}.
    read: its file, as `hs2lib.paths.digests_by_place`.
    """

    system: str
    text: str
    read: Mapping[str, str] = field(default_factory=dict, compare=False)

    def fill(self, **fields: str) -> tuple[tuple[str, str], ...]:
        """The messages; other braces, of the template and in a field's text, stay as they are."""
        text = re.sub(r"{(\w+)}", lambda match: fields.get(match[1], match[0]), self.text)
        return ("system", self.system), ("user", text)


class Templates(dict[str, Template]):
    """Judge prompts by name. read: the file, as `hs2lib.paths.digests_by_place`."""

    def __init__(self, templates: Mapping[str, Template], read: Mapping[str, str]) -> None:
        super().__init__(templates)
        self.read = read


def prompts(
    benchmark: str,
    fields: Mapping[str, Sequence[str]],
    parse: Callable[[Path], Mapping[str, Template]],
    source: str,
    folder: str | Path | None = None,
) -> Templates:
    """The judge prompts of a benchmark by name; for generated questions some of our own.

    benchmark: its name in `FILES`.
    fields: name of a prompt -> the fields that its text must have.
    parse: from the public file to the `Template` of each name.
    source, folder: as for `load`.

    Raises DataError naming what a prompt lacks.
    """
    if source == "postcards":
        texts = read_yaml(__file__, "own_prompts.yaml")
        system = texts["system"]
        ours = {name: Template(system, text) for name, text in texts[benchmark].items()}
        return Templates(ours, {})
    file = FILES[f"{benchmark}/prompts"]
    path, _, files_read = locate(file, source, folder)
    fix = f"take {file.hub['both'][0]} of {file.repo}"
    try:
        templates = parse(path)
    except UnicodeDecodeError as error:
        raise DataError(path, None, None, f"broken UTF-8, byte {error.start + 1}", fix) from None
    except (yaml.YAMLError, KeyError, TypeError):
        templates = {}
    for name, needed in fields.items():
        template = templates.get(name, Template(None, None))
        text = template.text if isinstance(template.text, str) else ""
        lacks = [field for field in needed if f"{{{field}}}" not in text]
        if not isinstance(template.system, str):
            lacks.append("its system message")
        if lacks:
            raise DataError(path, None, name, f"prompt {name} lacks {lacks[0]}", fix)
    checked = {name: replace(templates[name], read=files_read) for name in fields}
    return Templates(checked, files_read)


class JudgedScore(NamedTuple):
    """What a judge's verdicts make of one policy on one benchmark.

    measure: what the score may be called, with its unit.
    overall: (score, 95 % low, high).
    unparsable: verdicts that could not be read.
    values: the verdict on each answer [answers], nan where none was read. Their name is one of
        `hs2lib.paper.GRADE`, `WON`, `PREFERRED`.
    beside: further numbers by name, which have no interval.
    """

    measure: str
    overall: tuple[float, float, float]
    unparsable: int
    values: pd.Series
    beside: Mapping[str, float] = {}


def share(
    above: Sequence[float],
    below: Sequence[float],
    clusters: Sequence,
    n_boot: int = 1000,
    seed: int = 0,
) -> Interval:
    """sum(above) / sum(below) of values [rows], with a 95 % interval that draws whole clusters.

    The interval holds plain numbers. A mean is such a share: values above, ones below. It is nan
    where the sum below is 0. Paper: silent.
    """
    sums = np.column_stack([above, below])  # [rows, 2]
    interval = bootstrap(sums, np.asarray(clusters), _ratio, n_boot=n_boot, seed=seed)
    return Interval(*(float(part[0]) for part in interval))


def _ratio(sums: np.ndarray) -> np.ndarray:
    """The first sum over the second, [B, 1] of sums [B, 2]."""
    return sums[:, :1] / sums[:, 1:]


def mean(values: Sequence[float], clusters: Sequence, **resampled: int) -> Interval:
    """The mean of those values [rows] that are not nan, with its 95 % interval as for `share`.

    Of nan alone all three numbers are nan. resampled: n_boot and seed.
    """
    values = np.asarray(values, dtype=np.float64)
    is_known = ~np.isnan(values)
    if not is_known.any():
        return Interval(np.nan, np.nan, np.nan)
    known_clusters = np.asarray(clusters, str)[is_known]
    return share(values[is_known], np.ones(is_known.sum()), known_clusters, **resampled)
