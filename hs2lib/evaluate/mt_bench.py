"""MT-Bench: 80 questions of two turns, each response graded from 1 to 10 by a judge, the mean over 160.

    questions = load("folder")                                       # or "hub", "embedded"
    asked = asks(questions, answers, prompts("folder"))              # 160 questions to a judge
    result = score(questions, answers, judge.verdicts(asked, file=file, token_cap=2_000_000))
    result.table                                                     # by category, by turn, overall; intervals

Paper: section 4.1 and appendix H: single-answer grading by GPT-4-0125-preview, reference answers for maths, reasoning
and coding. 13 of the 30 references that come with the benchmark are wrong; the paper had GPT-4-0125-preview write all
30 again and checked them by hand. Those are the default here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib.data.rows import DataError
from hs2lib.data.sources import PublicFile, locate, rows
from hs2lib.evaluate.judge import RATING, Ask, Verdict
from hs2lib.evaluate.questions import Answers, Question, Questions, embedded
from hs2lib.stats.bootstrap import bootstrap

CATEGORIES = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")

WITH_REFERENCE = ("math", "reasoning", "coding")

# Of the references that came with the benchmark (gpt-4), those that are wrong. Paper: appendix H.
WRONG_REFERENCES = (104, 105, 109, 111, 113, 114, 120, 122, 124, 125, 126, 128, 130)

WHOLE = 80

_FASTCHAT, _DATA = "lm-sys/FastChat", "fastchat/llm_judge/data"

QUESTIONS = PublicFile(
    "MT-Bench questions",
    _FASTCHAT,
    "589532dcfa83700f950b9aa3983416c543afabc0",
    f"{_DATA}/mt_bench/question.jsonl",
    ("mt_bench/mt_bench__question.jsonl", "mt_bench/question.jsonl"),
)

PROMPTS = PublicFile(
    "MT-Bench judge prompts",
    _FASTCHAT,
    "0e6e7fdc78bf64aceea1508694ce4e6472810b8b",
    f"{_DATA}/judge_prompts.jsonl",
    ("mt_bench/judge_prompts.jsonl",),
)

# The paper's references are in its authors' pull request 3158, which FastChat never merged; GitHub serves its commit.
REFERENCES = {
    "gpt-4-0125-preview": PublicFile(
        "MT-Bench references of gpt-4-0125-preview",
        _FASTCHAT,
        "962316eba4e9db86bc8002243290e4074dabf48e",
        f"{_DATA}/mt_bench/reference_answer/gpt-4-0125-preview.jsonl",
        ("mt_bench/mt_bench__reference_answer__gpt-4-0125-preview.jsonl", "mt_bench/gpt-4-0125-preview.jsonl"),
    ),
    "gpt-4-1106-preview": PublicFile(
        "MT-Bench references of gpt-4-1106-preview",
        "princeton-nlp/SimPO",
        "e36b6d5946a60684e25a908a740a91ae2418903f",
        "eval/mt-bench/gpt-4-1106-preview.jsonl",
        ("mt_bench/reference_answer__gpt-4-1106-preview_SimPO.jsonl", "mt_bench/gpt-4-1106-preview.jsonl"),
    ),
    "gpt-4": PublicFile(
        "MT-Bench references of gpt-4 (13 of 30 wrong)",
        _FASTCHAT,
        "ae7cdfd1b823f0a7ed50b843963887a8b460c451",
        f"{_DATA}/mt_bench/reference_answer/gpt-4.jsonl",
        ("mt_bench/mt_bench__reference_answer__gpt-4.jsonl", "mt_bench/gpt-4.jsonl"),
    ),
}

# Template names by (with a reference, turn), and the fields each has.
TEMPLATES = {
    (False, 0): "single-v1",
    (False, 1): "single-v1-multi-turn",
    (True, 0): "single-math-v1",
    (True, 1): "single-math-v1-multi-turn",
}

_FIELDS = {
    "single-v1": ("question", "answer"),
    "single-math-v1": ("question", "ref_answer_1", "answer"),
    "single-v1-multi-turn": ("question_1", "answer_1", "question_2", "answer_2"),
    "single-math-v1-multi-turn": (
        *("question_1", "ref_answer_1", "question_2", "ref_answer_2", "answer_1", "answer_2"),
    ),
}


@dataclass(frozen=True)
class Template:
    """A judge prompt: the system message, and the text with {fields}."""

    system: str
    text: str

    def fill(self, **fields: str) -> tuple[tuple[str, str], ...]:
        """The messages; braces in a field's text stay as they are."""
        return ("system", self.system), ("user", self.text.format(**fields))


def load(
    source: str,
    folder: str | Path | None = None,
    *,
    references: str = "gpt-4-0125-preview",
    n: int = 0,
    seed: int = 0,
    length_scale: float = 1.0,
) -> Questions:
    """The 80 questions with references for maths, reasoning and coding; n of them (0: all) spread over categories.

    source: "folder" (default HS2_DATA_DIR), "hub" (GitHub at pinned commits) or "embedded" (generated conversations
    in place of MT-Bench, and called so). references: gpt-4-0125-preview (the paper's), gpt-4-1106-preview (SimPO's),
    gpt-4 (the benchmark's own, 13 wrong), or "" for none (to generate answers only). length_scale: of generated
    texts, as in `answers.embedded`. Raises DataError for a file that is absent or not as it should be.
    """
    if source == "embedded":
        return embedded("MT-Bench", n or 8, 2, seed, length_scale)
    if references and references not in REFERENCES:
        raise ValueError(f"references are one of {', '.join(REFERENCES)} or '' for none, got {references!r}")
    path, said = locate(QUESTIONS, source, folder)
    right = {}
    if references:
        file, also = locate(REFERENCES[references], source, folder)
        right, said = _references(file), f"{said}; {also}"
    items = []
    for line, row in rows(path):
        id, turns, category = row.get("question_id"), row.get("turns"), row.get("category")
        if not (isinstance(turns, list) and len(turns) == 2 and all(isinstance(t, str) and t for t in turns)):
            raise DataError(path, line, "turns", "two texts are due", "take FastChat's question.jsonl")
        if category not in CATEGORIES:
            raise DataError(path, line, "category", f"{category!r} is none of MT-Bench's", "take FastChat's file")
        needs = category in WITH_REFERENCE and references
        if needs and id not in right:
            what = f"no reference of {references} to question {id} ({category})"
            raise DataError(file, None, "question_id", what, "take a file with all 30")
        items.append(Question(str(id), category, tuple(turns), right[id] if needs else ()))
    if len({question.id for question in items}) != WHOLE or len(items) != WHOLE:
        what = f"{len(items)} questions, MT-Bench has {WHOLE} with ids of their own"
        raise DataError(path, None, "question_id", what, "take FastChat's file")
    return Questions("MT-Bench", tuple(items), said, WHOLE).subset(n, seed)


def _references(path: Path) -> dict[int, tuple[str, str]]:
    out = {}
    for line, row in rows(path):
        try:
            id, (first, second) = row["question_id"], row["choices"][0]["turns"]
            if not (isinstance(first, str) and isinstance(second, str)):
                raise TypeError
        except (KeyError, IndexError, TypeError, ValueError):
            fix = "write question_id and choices[0].turns, two texts"
            raise DataError(path, line, "choices", "no reference to two turns", fix) from None
        out[id] = first, second
    return out


def prompts(source: str, folder: str | Path | None = None) -> dict[str, Template]:
    """The judge prompts for single-answer grading by name, each with the fields it must have."""
    path, _ = locate(PROMPTS, source, folder)
    found = {}
    for line, row in rows(path):
        if row.get("name") not in _FIELDS:
            continue
        name, text = row["name"], row.get("prompt_template")
        missing = [f for f in _FIELDS[name] if not isinstance(text, str) or f"{{{f}}}" not in text]
        if missing or not isinstance(row.get("system_prompt"), str):
            what = f"{name} lacks {missing[0] if missing else 'its system_prompt'}"
            raise DataError(path, line, "prompt_template", what, "take FastChat's judge_prompts.jsonl")
        found[name] = Template(row["system_prompt"], text)
    if lacking := [name for name in _FIELDS if name not in found]:
        raise DataError(path, None, "name", f"no prompt {lacking[0]}", "take FastChat's judge_prompts.jsonl")
    return found


def asks(questions: Questions, answers: Answers, templates: dict[str, Template]) -> list[Ask]:
    """What to ask the judge: a grade of each turn's response, ids "question/turn"; the second with both turns in view.

    Paper: appendix H (single-answer grading). Maths, reasoning and coding are asked with their reference answers.
    """
    out = []
    for question in questions.items:
        given = answers.turns[question.id]
        fields = {"question": question.turns[0], "answer": given[0]}
        fields |= {f"question_{k}": text for k, text in enumerate(question.turns, 1)}
        fields |= {f"answer_{k}": text for k, text in enumerate(given, 1)}
        fields |= {f"ref_answer_{k}": text for k, text in enumerate(question.references, 1)}
        for turn in range(2):
            template = templates[TEMPLATES[bool(question.references), turn]]
            out.append(Ask(f"{question.id}/{turn + 1}", template.fill(**fields), RATING, given[: turn + 1]))
    return out


@dataclass(frozen=True)
class Result:
    """Grades by a judge. table: part ("category", "turn", "overall"), name, responses, unparsable, score, low, high
    (95 %), lowest (the score if every grade that could not be read were 1); grades: one row a response, nan unread."""

    title: str
    table: pd.DataFrame
    grades: pd.DataFrame

    def overall(self) -> tuple[float, float, float]:
        """(score, low, high) of all responses."""
        row = self.table[self.table.part == "overall"].iloc[0]
        return float(row.score), float(row.low), float(row.high)


def score(
    questions: Questions, answers: Answers, verdicts: Sequence[Verdict], *, n_boot: int = 1000, seed: int = 0
) -> Result:
    """Mean grade by category, by turn and overall, each with a 95 % interval by bootstrap over questions.

    Paper: appendix H ("the mean across all prompts"); it prints no interval. A grade that could not be read counts in
    no mean and is counted beside it. Both turns of a question are drawn together. Raises KeyError naming a missing
    verdict.
    """
    given = {verdict.id: verdict.value for verdict in verdicts}
    found = [
        (question.id, question.category, turn, given[f"{question.id}/{turn}"], len(text))
        for question in questions.items
        for turn, text in enumerate(answers.turns[question.id], 1)
    ]
    frame = pd.DataFrame(found, columns=["question", "category", "turn", "grade", "characters"])
    frame["grade"] = frame.grade.astype(float)
    there = [name for name in (*CATEGORIES, *sorted(set(frame.category))) if name in set(frame.category)]
    parts = [("category", name, frame.category == name) for name in dict.fromkeys(there)]
    parts += [("turn", f"turn {turn}", frame.turn == turn) for turn in (1, 2)]
    parts += [("overall", "overall", pd.Series(True, index=frame.index))]
    rows_of = np.column_stack([of.to_numpy() for _, _, of in parts])
    read = frame.grade.notna().to_numpy()[:, None] & rows_of
    sums = np.hstack([np.where(read, frame.grade.fillna(0).to_numpy()[:, None], 0.0), read])
    k = len(parts)
    interval = bootstrap(sums, frame.question.to_numpy(str), lambda s: s[:, :k] / s[:, k:], n_boot=n_boot, seed=seed)
    table = pd.DataFrame([part[:2] for part in parts], columns=["part", "name"])
    table = table.assign(responses=rows_of.sum(axis=0), unparsable=(rows_of & ~read).sum(axis=0))
    table = table.assign(score=interval.estimate, low=interval.low, high=interval.high)
    lowest = np.where(rows_of, frame.grade.fillna(1).to_numpy()[:, None], 0).sum(axis=0) / rows_of.sum(axis=0)
    return Result(questions.title, table.assign(lowest=lowest), frame)
