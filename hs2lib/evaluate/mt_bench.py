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
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib.data.load import locate
from hs2lib.data.rows import DataError, rows
from hs2lib.evaluate import questions as bench
from hs2lib.evaluate.judge import RATING, Ask, Verdict
from hs2lib.evaluate.questions import JudgedScore, Questions, Template, question_id
from hs2lib.group import Group
from hs2lib.names import one_of
from hs2lib.paper import GRADE

MEASURE = "score, 1 to 10"

CATEGORIES = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")

WITH_REFERENCE = ("math", "reasoning", "coding")

WHOLE = 80

FILES = bench.public_files("mt-bench")

REFERENCES = bench.public_files("mt-bench references")

# The published judge prompts, by name, and the fields each has.
FIELDS = {
    "single-v1": ("question", "answer"),
    "single-math-v1": ("question", "ref_answer_1", "answer"),
    "single-v1-multi-turn": ("question_1", "answer_1", "question_2", "answer_2"),
    "single-math-v1-multi-turn": ("question_1", "ref_answer_1", "question_2", "ref_answer_2", "answer_1", "answer_2"),
}


def load(
    source: str, folder: str | Path | None = None, *, references="gpt-4-0125-preview", n: int = 0, seed: int = 0
) -> Questions:
    """The 80 questions with references for maths, reasoning and coding; n of them (0: all) spread over categories.

    source: "folder" (default HS2_DATA_DIR), "hub" (GitHub at pinned commits) or "embedded" (generated conversations
    in place of MT-Bench, and called so). references: gpt-4-0125-preview (the paper's), gpt-4-1106-preview (SimPO's),
    gpt-4 (the benchmark's own, 13 wrong), or "" for none (to generate answers only). Raises
    DataError for a file that is absent or not as it should be.
    """
    if source == "embedded":
        return bench.embedded("MT-Bench", n or 8, 2, seed)
    one_of("references", references or "none", ("none", *REFERENCES))

    def columns(row: dict):
        return row.get("question_id"), row.get("category"), row.get("turns")

    place = FILES["questions"], source, folder
    questions = bench.public_questions("MT-Bench", WHOLE, 2, *place, columns=columns, categories=CATEGORIES)
    if references:
        path, provenance = locate(REFERENCES[references], source, folder)
        needed = tuple(g for g in questions.groups if questions.categories[g.id] in WITH_REFERENCE)
        texts: dict[str, tuple[str, ...]] = {}
        for answer in bench.read(path, replace(questions, groups=needed)):
            texts[question_id(answer)] = (*texts.get(question_id(answer), ()), answer.responses[0].text)
        questions = replace(questions, references=texts, source=f"{questions.source}; {provenance}")
    return questions.subset(n, seed)


def prompts(source: str, folder: str | Path | None = None) -> dict[str, Template]:
    """The judge prompts for single-answer grading by name; for source "embedded" some of our own."""
    if source == "embedded":
        return bench.own_prompts("mt-bench")
    path, _ = locate(FILES["prompts"], source, folder)
    named = {row["name"]: row for _, row in rows(path) if str(row.get("name")) in FIELDS}
    fix = "take FastChat's judge_prompts.jsonl"
    if missing := [name for name in FIELDS if name not in named]:
        raise DataError(path, None, "name", f"no prompt {missing[0]}", fix)
    texts = {name: (row.get("system_prompt"), row.get("prompt_template")) for name, row in named.items()}
    return {name: bench.template(path, name, *texts[name], fields, fix) for name, fields in FIELDS.items()}


def asks(questions: Questions, answers: Sequence[Group], templates: dict[str, Template]) -> list[Ask]:
    """What to ask the judge: a grade of each turn's response, ids "question/turn"; the second with both turns in view.

    Paper: appendix H (single-answer grading). Maths, reasoning and coding are asked with their reference answers.
    """
    out = []
    for answer in answers:
        references = questions.references.get(question_id(answer), ())
        users = [turn.text for turn in answer.prompt if turn.role == "user"]
        responses = [turn.text for turn in answer.prompt if turn.role == "assistant"] + [answer.responses[0].text]
        fields = {"question": users[0], "answer": responses[0]}
        for name, texts in (("question", users), ("answer", responses), ("ref_answer", references)):
            fields |= {f"{name}_{k}": text for k, text in enumerate(texts, 1)}
        name = ("single-math-v1" if references else "single-v1") + "-multi-turn" * (len(users) > 1)
        out.append(Ask(answer.id, templates[name].fill(**fields), RATING, tuple(responses)))
    return out


def score(
    questions: Questions, answers: Sequence[Group], verdicts: Sequence[Verdict], *, n_boot: int = 1000, seed: int = 0
) -> JudgedScore:
    """Mean grade by category, by turn and overall, each with a 95 % interval by bootstrap over questions.

    Paper: appendix H ("the mean across all prompts"); it prints no interval. A grade that could not be read counts in
    no mean and is counted beside it. Both turns of a question are drawn together. Raises KeyError naming a missing
    verdict. table: part ("category", "turn", "overall"), name, responses, unparsable, score, low, high, lowest (the
    score if every grade that could not be read were 1). verdicts: question, category, turn, grade, characters.
    """
    graded = {verdict.id: verdict.value for verdict in verdicts}
    frame = pd.DataFrame({"question": [question_id(answer) for answer in answers]})
    frame = frame.assign(category=frame.question.map(questions.categories), turn=[int(a.id[-1]) for a in answers])
    frame = frame.assign(grade=[graded[answer.id] for answer in answers], characters=bench.characters(answers))
    frame["grade"] = frame.grade.astype(float)
    present = set(frame.category)
    ordered = [name for name in CATEGORIES if name in present] + sorted(present - set(CATEGORIES))
    parts = [("category", name, frame.category == name) for name in ordered]
    parts += [("turn", f"turn {turn}", frame.turn == turn) for turn in sorted(set(frame.turn))]
    parts += [("overall", "overall", pd.Series(True, index=frame.index))]
    member = np.column_stack([rows.to_numpy() for _, _, rows in parts])  # [responses, parts]
    read = frame.grade.notna().to_numpy()[:, None] & member  # [responses, parts]
    grades = np.where(read, frame.grade.fillna(0).to_numpy()[:, None], 0.0)  # [responses, parts]
    interval = bench.shares(grades, read, frame.question.to_numpy(str), n_boot=n_boot, seed=seed)
    table = pd.DataFrame([part[:2] for part in parts], columns=["part", "name"])
    table = table.assign(responses=member.sum(axis=0), unparsable=(member & ~read).sum(axis=0))
    table = table.assign(score=interval.estimate, low=interval.low, high=interval.high)
    lowest = np.where(member, frame.grade.fillna(1).to_numpy()[:, None], 0).sum(axis=0) / member.sum(axis=0)
    overall, unparsable = tuple(float(part[-1]) for part in interval), int(frame.grade.isna().sum())
    table, values = table.assign(lowest=lowest), frame.grade.rename(GRADE)
    return JudgedScore(questions.title, MEASURE, overall, unparsable, table, frame, values)
