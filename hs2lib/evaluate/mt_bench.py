"""MT-Bench: 80 questions of two turns, each response graded from 1 to 10 by a judge, the mean over
160.

    questions = load("folder")                                       # or "hub", "embedded"
    asked = asks(questions, answers, prompts("folder"))              # 160 questions to a judge
    result = score(questions, answers, judge.verdicts(asked, file=file, token_cap=2_000_000))
    result.overall                                                   # the mean grade and its interval

Paper: section 4.1 and appendix H: single-answer grading by GPT-4-0125-preview, reference answers
for maths, reasoning and coding. 13 of the 30 references that come with the benchmark are wrong; the
paper had GPT-4-0125-preview write all 30 again and checked them by hand. Those are the default
here.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from hs2lib.data.load import locate
from hs2lib.data.rows import rows
from hs2lib.evaluate import questions as bench
from hs2lib.evaluate.judge import RATING, Ask
from hs2lib.group import Group
from hs2lib.names import one_of
from hs2lib.paper import GRADE

MEASURE = "score, 1 to 10"

CATEGORIES = (
    "writing",
    "roleplay",
    "reasoning",
    "math",
    "coding",
    "extraction",
    "stem",
    "humanities",
)

WITH_REFERENCE = ("math", "reasoning", "coding")

WHOLE = 80

REFERENCES = [
    name.partition("/")[2] for name in bench.FILES if name.startswith("MT-Bench references/")
]

# The published judge prompts, by name, and the fields each has.
FIELDS = {
    "single-v1": ("question", "answer"),
    "single-math-v1": ("question", "ref_answer_1", "answer"),
    "single-v1-multi-turn": ("question_1", "answer_1", "question_2", "answer_2"),
    "single-math-v1-multi-turn": (
        "question_1",
        "ref_answer_1",
        "question_2",
        "ref_answer_2",
        "answer_1",
        "answer_2",
    ),
}


def load(
    source: str, folder=None, *, references="gpt-4-0125-preview", n: int = 0, seed: int = 0
) -> bench.Questions:
    """The 80 questions with references for maths, reasoning and coding; n of them (0: all) spread
    over categories.

    source: "folder" (default HS2_DATA_DIR), "hub" (GitHub at pinned commits) or "embedded"
    (generated conversations in place of MT-Bench, and called so). references: gpt-4-0125-preview
    (the paper's), gpt-4-1106-preview (SimPO's), gpt-4 (the benchmark's own, 13 wrong), or "" for
    none (to generate answers only). Raises DataError for a file that is absent or not as it should
    be.
    """
    one_of("references", references or "none", ("none", *REFERENCES))

    def columns(line: int, row: dict):
        return row.get("question_id"), row.get("category"), row.get("turns")

    questions = bench.load("MT-Bench", WHOLE, 2, columns, source, folder, n, seed, CATEGORIES)
    needed = tuple(
        group for group in questions.groups if questions.categories[group.id] in WITH_REFERENCE
    )
    if questions.generated or not references or not needed:
        return questions
    path, provenance, read = locate(
        bench.FILES[f"MT-Bench references/{references}"], source, folder
    )
    texts: dict[str, tuple[str, ...]] = {}
    for answer in bench.read(path, replace(questions, groups=needed)):
        texts[bench.question_id(answer)] = (
            *texts.get(bench.question_id(answer), ()),
            answer.responses[0].text,
        )
    source = f"{questions.source}; {provenance}"
    return replace(questions, references=texts, source=source, read=questions.read | read)


def prompts(source: str, folder: str | Path | None = None) -> bench.Templates:
    """The judge prompts for single-answer grading by name; for source "embedded" some of our own."""

    def parse(path: Path) -> dict[str, bench.Template]:
        keys = ("name", "system_prompt", "prompt_template")
        texts = [[row.get(key) for key in keys] for _, row in rows(path)]
        return {str(name): bench.Template(*prompt) for name, *prompt in texts}

    return bench.prompts("MT-Bench", FIELDS, parse, source, folder)


def asks(
    questions: bench.Questions, answers: Sequence[Group], templates: dict[str, bench.Template]
) -> list[Ask]:
    """What to ask the judge: a grade of each turn's response, ids "question/turn"; the second with
    both turns in view.

    Paper: appendix H (single-answer grading). Maths, reasoning and coding are asked with their
    reference answers.
    """
    out = []
    for answer in answers:
        references = questions.references.get(bench.question_id(answer), ())
        users = [turn.text for turn in answer.prompt if turn.role == "user"]
        responses = [turn.text for turn in answer.prompt if turn.role == "assistant"] + [
            answer.responses[0].text
        ]
        fields = {"question": users[0], "answer": responses[0]}
        for name, texts in (("question", users), ("answer", responses), ("ref_answer", references)):
            fields |= {f"{name}_{k}": text for k, text in enumerate(texts, 1)}
        name = ("single-math-v1" if references else "single-v1") + "-multi-turn" * (len(users) > 1)
        out.append(Ask(answer.id, templates[name].fill(**fields), RATING, tuple(responses)))
    return out


def score(
    questions: bench.Questions, answers: Sequence[Group], verdicts, **resampled
) -> bench.JudgedScore:
    """The mean grade, with a 95 % interval by bootstrap over questions.

    Paper: appendix H ("the mean across all prompts"); it prints no interval. A grade that could not
    be read counts in no mean and is counted beside it. Both turns of a question are drawn together.
    Raises KeyError naming a missing verdict.
    """
    graded, ids = (
        {verdict.id: verdict.value for verdict in verdicts},
        [bench.question_id(answer) for answer in answers],
    )
    grades = pd.Series([graded[answer.id] for answer in answers], dtype=float, name=GRADE)
    overall = bench.share(grades.fillna(0), grades.notna(), ids, **resampled)
    return bench.JudgedScore(MEASURE, overall, int(grades.isna().sum()), grades)
