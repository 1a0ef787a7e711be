"""A benchmark's questions and the answers to them, as groups.

    questions = mt_bench.load("folder").subset(16, seed=0)
    ours = generate(policy, questions, max_new_tokens=1024, file=folder)            # greedy; resumes
    save(folder / "DPO.jsonl", "DPO", ours)
    theirs = read("model_answer__gpt-4o.jsonl.gz", questions)       # as FastChat or Arena Hard publish them

A question is a group without responses: its prompt holds what the user says, turn after turn. An answer is a group too,
one for each turn: its prompt is the conversation before the response, its id is "question/turn", turns counted from 1.

Paper: section 4.1 and appendix H: MT-Bench greedily, 1,024 tokens; Arena Hard's own settings are greedy, 4,096.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pandas as pd
import yaml

from hs2lib.corpus import generate as corpus
from hs2lib.data.load import DataSet, data_sets, locate
from hs2lib.data.rows import DataError, rows
from hs2lib.engine.cache import content_key
from hs2lib.engine.rollout import Sample, rollouts
from hs2lib.group import Group, Response, Turn
from hs2lib.paths import sha256, write
from hs2lib.stats.bootstrap import Interval, bootstrap


@dataclass(frozen=True)
class Questions:
    """A benchmark's questions, or a part of them; `whole` is how many the benchmark has.

    groups: one a question, with its turns of the user. categories, references (an answer to each turn): by question id.
    baseline: the answers that other answers are compared with, where the benchmark compares.
    """

    benchmark: str
    groups: tuple[Group, ...]
    source: str
    whole: int
    generated: bool = False
    categories: Mapping[str, str] = field(default_factory=dict)
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    baseline: tuple[Group, ...] = ()

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def title(self) -> str:
        """The benchmark's name only where all of it is here; otherwise how much, or that it was generated."""
        if self.generated:
            return f"generated questions (not {self.benchmark})"
        n = len(self.groups)
        return self.benchmark if n == self.whole else f"{self.benchmark}, {n} of {self.whole:,} questions"

    def subset(self, n: int, seed: int = 0) -> "Questions":
        """n questions (0: all), as evenly over the categories as can be, drawn by seed, in their order.

        A larger subset of one seed holds the smaller ones. Raises ValueError where there are fewer than n.
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
        # One of each category, then the next of each: of categories of one size none has two more than another.
        places = [(place, order.index(name), id) for name, ids in by_category.items() for place, id in enumerate(ids)]
        taken = {id for _, _, id in sorted(places)[:n]}
        baseline = tuple(answer for answer in self.baseline if question_id(answer) in taken)
        return replace(self, groups=tuple(g for g in self.groups if g.id in taken), baseline=baseline)


def question_id(answer: Group) -> str:
    """The question that an answer answers: "101" of "101/2"."""
    return answer.id.rpartition("/")[0]


def context(question: Group, replies: Sequence[Response]) -> Group:
    """The conversation up to the first turn that `replies` do not answer: a group without responses, to be answered."""
    prompt = []
    for user, reply in zip(question.prompt, replies, strict=False):
        prompt += [user, Turn("assistant", reply.text)]
    return Group(f"{question.id}/{len(replies) + 1}", (*prompt, question.prompt[len(replies)]), ())


def answered(questions: Questions, replies: Mapping[str, Sequence[Response]], source: str) -> tuple[Group, ...]:
    """Answers to all turns, in the questions' order, from the replies to each question by its id."""
    return tuple(
        replace(context(question, replies[question.id][:turn]), responses=(replies[question.id][turn],), source=source)
        for question in questions.groups
        for turn in range(len(question.prompt))
    )


def characters(answers: Sequence[Group]) -> np.ndarray:
    """Length of every response in characters, int64 [responses]. Paper: appendix H, "MT Bench Response Length"."""
    return np.array([len(response.text) for answer in answers for response in answer.responses], dtype=np.int64)


def generate(
    policy, questions: Questions, *, max_new_tokens: int, label: str | Callable[[Group], str] | None = None, **options
) -> tuple[Group, ...]:
    """A policy's greedy answers to every turn, each turn after its own answers to the earlier ones.

    Paper: section 4.1, appendix H (greedy; 1,024 tokens for MT-Bench). label: SteerLM's. options, as for
    `rollout.rollouts`: file (a sample is kept as it comes, and none is computed twice, also after a kill), batch,
    autocast, progress, backend, min_new_tokens. A prompt too long to leave room for max_new_tokens loses its oldest
    turns. Raises ValueError as `rollouts` does, naming the question whose last turn alone leaves no room.
    """
    replies: dict[str, list[Sample]] = {question.id: [] for question in questions.groups}
    settings = {"n": 1, "max_new_tokens": max_new_tokens, "temperature": 0.0, "top_p": 1.0, "seed": 0}
    for turn in range(max(len(question.prompt) for question in questions.groups)):
        asked = [question for question in questions.groups if len(question.prompt) > turn]
        prompts = [context(question, replies[question.id]) for question in asked]
        sampled = rollouts(policy, prompts, **settings, label=label, **options)
        for question, group in zip(asked, sampled, strict=True):
            replies[question.id].append(group.responses[0])
    source = f"greedy, at most {max_new_tokens:,} tokens, of {policy.fingerprint()}"
    return answered(questions, replies, source + (f", label {label}" if label else ""))


def save(path: Path, model: str, answers: Sequence[Group]) -> Path:
    """Write answers as FastChat does (a line a question), so that its tools and `read` take them; all or nothing."""
    lines = []
    for id, several in groupby(answers, key=question_id):
        replies = [answer.responses[0] for answer in several]
        texts = [reply.text for reply in replies]
        row = {"question_id": int(id) if id.isdecimal() else id, "answer_id": content_key([model, id, texts], 22)}
        row |= {"model_id": model, "choices": [{"index": 0, "turns": texts}], "source": answers[0].source}
        row |= {"unfinished": [turn for turn, reply in enumerate(replies, 1) if is_cut(reply)]}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    write(Path(path), "".join(lines).encode(errors="replace"))
    return Path(path)


def is_cut(reply: Response) -> bool:
    """Whether a response was cut at the longest length; only of a `Sample` is that known."""
    return isinstance(reply, Sample) and not reply.finished


def read(path: str | Path, questions: Questions) -> tuple[Group, ...]:
    """Answers from a JSONL file, of FastChat (choices), of Arena Hard (messages), or written by `save`.

    Only those to `questions` are taken. Raises DataError naming file, line and field for a row of another form, and
    naming the question where one is answered twice, not at all, or not in all its turns.
    """
    path = Path(path)
    wanted, replies, models, source = {group.id: group for group in questions.groups}, {}, [], ""
    for line, row in rows(path):
        id = str(row.get("question_id", row.get("uid", "")))
        if id not in wanted:
            continue
        try:
            texts, model = _texts(row), row.get("model_id", row.get("model"))
            cut, source = row.get("unfinished") or [], row.get("source") or source
            if not all(isinstance(text, str) for text in (*texts, model, source)) or not isinstance(cut, list):
                raise TypeError
        except (KeyError, IndexError, TypeError):
            what = "no answer as FastChat (choices[0].turns) or Arena Hard (messages) write it"
            raise DataError(path, line, None, what, "write model_id, question_id and choices") from None
        if id in replies:
            raise DataError(path, line, "question_id", f"a second answer to question {id}", "keep one")
        if len(texts) != len(wanted[id].prompt):
            what = f"{len(texts)} responses to the {len(wanted[id].prompt)} turns of question {id}"
            raise DataError(path, line, "choices", what, "give one response to each turn")
        replies[id] = [Sample(f"{id}/{k}/0", text, finished=k not in cut) for k, text in enumerate(texts, 1)]
        models.append(model)
    if missing := [id for id in wanted if id not in replies]:
        what = f"no answer to {len(missing)} of {len(wanted)} questions, {missing[0]} among them"
        raise DataError(path, None, "question_id", what, "generate them, or ask for fewer questions")
    if len(set(models)) > 1:
        raise DataError(path, None, "model_id", f"answers of several models: {models[0]}, ..", "one file a model")
    return answered(questions, replies, source or f"{models[0]}, {path.name} (sha256 {sha256(path)[:12]})")


def _texts(row: dict) -> list:
    """The responses of a row, turn by turn, in the form of Arena Hard or of FastChat."""
    if "messages" in row:
        contents = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
        return [c["answer"] if isinstance(c, dict) else c for c in contents]
    turns = row["choices"][0]["turns"]
    return [t["content"] if isinstance(t, dict) else t for t in (turns if isinstance(turns, list) else [turns])]


# Where questions come from


def public_files(benchmark: str) -> dict[str, DataSet]:
    """The public files of a benchmark by what they hold, from `files.yaml`."""
    every = data_sets(Path(__file__).parent / "files.yaml")
    return {name.partition("/")[2]: file for name, file in every.items() if name.partition("/")[0] == benchmark}


def public_questions(
    benchmark: str, whole: int, turns: int, file: DataSet, *place, columns: Callable, categories: Sequence[str] = ()
) -> Questions:
    """All questions of a public file. place: its source and folder, as for `locate`.

    columns: from a row to its id, category and list of texts; categories: those it may have. Raises DataError for a
    file that is absent, a row of another form, and any other number of questions than `whole`.
    """
    path, provenance = locate(file, *place)
    groups, of_id, fix = [], {}, f"take {file.hub['both'][0]} of {file.repo}"
    for line, row in rows(path):
        id, category, texts = columns(row)
        of_text = isinstance(texts, list) and all(isinstance(text, str) and text for text in texts)
        if not (of_text and len(texts) == turns and isinstance(id, int | str)):
            what = f"expected an id and the text of {turns} turn{'s' * (turns > 1)}, got {str(texts)[:60]!r}"
            raise DataError(path, line, None, what, fix)
        if categories and category not in categories:
            raise DataError(path, line, "category", f"{category!r} is none of {benchmark}'s", fix)
        groups.append(Group(str(id), tuple(Turn("user", text) for text in texts), (), source=provenance))
        of_id[str(id)] = category
    if len(groups) != whole or len(of_id) != whole:
        what = f"{len(groups)} questions, {benchmark} has {whole} with ids of their own"
        raise DataError(path, None, None, what, fix)
    return Questions(benchmark, tuple(groups), provenance, whole, categories=of_id)


def embedded(benchmark: str, n: int, turns: int, seed: int = 0) -> Questions:
    """Generated questions with so many user turns each: the last ones of conversations, for machines without the data.

    Paper: none. Their category is the family of the last turn's task; there are no references. The baseline of
    questions with one turn is the better of the prompt's generated responses. Nothing is trained on these prompts.
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
    questions = Questions(benchmark, tuple(groups), corpus.source(seed), n, generated=True, categories=families)
    return replace(questions, baseline=answered(questions, best, "the better generated response") if turns == 1 else ())


# What a judge is asked, and what a policy scores


class Template(NamedTuple):
    """A judge prompt: the system message, and the text with {fields}."""

    system: str
    text: str

    def fill(self, **fields: str) -> tuple[tuple[str, str], ...]:
        """The messages; braces in a field's text stay as they are."""
        return ("system", self.system), ("user", self.text.format(**fields))


def template(path: Path, name: str, system: object, text: object, fields: Collection[str], fix: str) -> Template:
    """A template read from a file. Raises DataError naming the field that it lacks."""
    missing = [field for field in fields if not isinstance(text, str) or f"{{{field}}}" not in text]
    missing += [] if isinstance(system, str) else ["its system message"]
    if missing:
        raise DataError(path, None, name, f"{name} lacks {missing[0]}", fix)
    return Template(system, text)


def own_prompts(benchmark: str) -> dict[str, Template]:
    """The judge prompts of our own for generated questions, by name, from `own_prompts.yaml`."""
    texts = yaml.safe_load((Path(__file__).parent / "own_prompts.yaml").read_text())
    return {name: Template(texts["system"], text) for name, text in texts[benchmark].items()}


class JudgedScore(NamedTuple):
    """What a judge's verdicts make of one policy on one benchmark.

    measure: what the score may be called, with its unit. overall: (score, 95 % low, high). unparsable: verdicts that
    could not be read. table: the benchmark's own table. verdicts: one row a verdict. values [answers]: the verdict on
    each answer, nan where none was read; its name is one of `hs2lib.paper.GRADE`, `WON`, `PREFERRED`.
    """

    title: str
    measure: str
    overall: tuple[float, float, float]
    unparsable: int
    table: pd.DataFrame
    verdicts: pd.DataFrame
    values: pd.Series


def shares(above: np.ndarray, below: np.ndarray, clusters: Sequence, *, n_boot: int, seed: int) -> Interval:
    """sum(above) / sum(below) of each column, [rows, k], with 95 % intervals that draw clusters whole.

    A mean is such a share: values above, ones below. nan where the sum below is 0. Paper: silent.
    """
    k = above.shape[1]
    sums = np.hstack([above, below])  # [rows, 2 k]
    return bootstrap(sums, np.asarray(clusters), lambda s: s[:, :k] / s[:, k:], n_boot=n_boot, seed=seed)


def mean(values: Sequence[float], clusters: Sequence, *, n_boot: int = 1000, seed: int = 0) -> Interval:
    """(mean, 95 % low, high) of values [rows], as numbers; all nan where one of them is missing."""
    column = np.asarray(values, dtype=np.float64)[:, None]  # [rows, 1]
    if np.isnan(column).any():
        return Interval(np.nan, np.nan, np.nan)
    interval = shares(column, np.ones_like(column), np.asarray(clusters, str), n_boot=n_boot, seed=seed)
    return Interval(*(float(part[0]) for part in interval))
