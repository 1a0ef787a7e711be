"""MT-Bench: 80 questions of two turns, each response graded from 1 to 10 by a judge.

    questions = load("folder")  # or "hub", "postcards"
    asked = asks(questions, answers, prompts("folder"))  # 160 questions to a judge
    verdicts = judge.verdicts(asked, file=file, token_cap=2_000_000)
    result = score(questions, answers, verdicts)
    result.overall  # the mean of the 160 grades, and its interval

Paper: section 4.1 and appendix H: single-answer grading by GPT-4-0125-preview, with reference
answers for maths, reasoning and coding. Of the 30 references that come with the benchmark 13 are
wrong. The paper had GPT-4-0125-preview write all 30 again and checked them by hand. Those are the
default here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from hs2lib.data.load import locate
from hs2lib.data.rows import rows
from hs2lib.evaluate import questions as bench
from hs2lib.evaluate.judge import RATING, Ask, Verdict
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

# The published judge prompts by name, and the fields of each.
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
    source: str,
    folder: str | Path | None = None,
    *,
    references: str = "gpt-4-0125-preview",
    n: int = 0,
    seed: int = 0,
) -> bench.Questions:
    """The 80 questions, with references for maths, reasoning and coding.

    source: "folder", "hub" (GitHub at pinned commits), or "postcards". "postcards" has generated
        conversations in place of MT-Bench, and says so.
    folder: of source "folder", by default HS2_DATA_DIR.
    references: gpt-4-0125-preview (the paper's), gpt-4-1106-preview (SimPO's), gpt-4 (the
        benchmark's own, 13 wrong), or "" for none (to generate answers only).
    n, seed: how many questions (0: all), spread over the categories.

    Raises DataError for a file that is absent or not as it should be.
    """
    one_of("references", references or "none", ("none", *REFERENCES))
    questions = bench.load("MT-Bench", WHOLE, 2, _columns, source, folder, n, seed, CATEGORIES)
    needed = tuple(
        group for group in questions.groups if questions.categories[group.id] in WITH_REFERENCE
    )
    if questions.generated or not references or not needed:
        return questions
    references_file = bench.FILES[f"MT-Bench references/{references}"]
    path, provenance, read = locate(references_file, source, folder)
    texts: dict[str, tuple[str, ...]] = {}
    for answer in bench.read(path, replace(questions, groups=needed)):
        id = bench.question_id(answer)
        texts[id] = (*texts.get(id, ()), answer.responses[0].text)
    source = f"{questions.source}; {provenance}"
    return replace(questions, references=texts, source=source, read=questions.read | read)


def _columns(line: int, row: dict) -> tuple[object, object, object]:
    """The id, the category and the texts of a row of the file."""
    return row.get("question_id"), row.get("category"), row.get("turns")


def prompts(source: str, folder: str | Path | None = None) -> bench.Templates:
    """The judge prompts for single-answer grading by name; for "postcards" some of our own."""
    return bench.prompts("MT-Bench", FIELDS, _parse_prompts, source, folder)


def _parse_prompts(path: Path) -> dict[str, bench.Template]:
    """All prompts in FastChat's file."""
    templates = {}
    for _, row in rows(path):
        template = bench.Template(row.get("system_prompt"), row.get("prompt_template"))
        templates[str(row.get("name"))] = template
    return templates


def asks(
    questions: bench.Questions, answers: Sequence[Group], templates: Mapping[str, bench.Template]
) -> list[Ask]:
    """What to ask the judge: a grade of each turn's response, ids "question/turn".

    Paper: appendix H (single-answer grading). The judge of a second turn sees both turns. Maths,
    reasoning and coding are asked with their reference answers.

    templates: as `prompts` returns them.
    """
    asked = []
    for answer in answers:
        references = questions.references.get(bench.question_id(answer), ())
        users = [turn.text for turn in answer.prompt if turn.role == "user"]
        responses = [turn.text for turn in answer.prompt if turn.role == "assistant"]
        responses.append(answer.responses[0].text)
        name = "single-math-v1" if references else "single-v1"
        if len(users) > 1:
            name += "-multi-turn"
        fields = {
            "question": users[0],
            "answer": responses[0],
            **_numbered("question", users),
            **_numbered("answer", responses),
            **_numbered("ref_answer", references),
        }
        messages = templates[name].fill(**fields)
        asked.append(Ask(answer.id, messages, RATING, tuple(responses)))
    return asked


def _numbered(name: str, texts: Sequence[str]) -> dict[str, str]:
    """The fields of a prompt that hold some texts: "answer_1", "answer_2" .."""
    return {f"{name}_{number}": text for number, text in enumerate(texts, 1)}


def score(
    questions: bench.Questions,
    answers: Sequence[Group],
    verdicts: Sequence[Verdict],
    **resampled: int,
) -> bench.JudgedScore:
    """The mean grade, with a 95 % interval by bootstrap over questions.

    Paper: appendix H ("the mean across all prompts"); it prints no interval. A grade that could not
    be read counts in no mean and is counted beside it. Both turns of a question are drawn together.

    verdicts: on each answer. Raises KeyError naming a missing one.
    resampled: n_boot and seed of the interval.
    """
    grade_of = {verdict.id: verdict.value for verdict in verdicts}
    grades = pd.Series([grade_of[answer.id] for answer in answers], dtype=float, name=GRADE)
    clusters = [bench.question_id(answer) for answer in answers]
    overall = bench.share(grades.fillna(0), grades.notna(), clusters, **resampled)
    return bench.JudgedScore(MEASURE, overall, int(grades.isna().sum()), grades)
