"""MT-Bench: the questions and prompts as they are published, what the judge is asked, and the means by hand."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from judge_server import Reply, serve

from hs2lib.data.rows import DataError
from hs2lib.evaluate import mt_bench
from hs2lib.evaluate.judge import Judge, Verdict
from hs2lib.evaluate.mt_bench import Template
from hs2lib.evaluate.questions import Answers, Question, Questions, read

DATA = os.environ.get("HS2_DATA_DIR")
needs_data = pytest.mark.skipif(
    not DATA or not (Path(DATA) / "mt_bench").is_dir(), reason="HS2_DATA_DIR has no mt_bench folder"
)

# Of our own: what MT-Bench's prompts look like, with the fields that they have.
TEMPLATES = {
    "single-v1": Template("S", "Q: {question} A: {answer}"),
    "single-math-v1": Template("S", "Q: {question} R: {ref_answer_1} A: {answer}"),
    "single-v1-multi-turn": Template("S2", "Q: {question_1} A: {answer_1} Q: {question_2} A: {answer_2}"),
    "single-math-v1-multi-turn": Template(
        "S2", "R: {ref_answer_1}, {ref_answer_2} Q: {question_1} A: {answer_1} Q: {question_2} A: {answer_2}"
    ),
}
QUESTIONS = Questions(
    "MT-Bench",
    (
        Question("81", "writing", ("write", "again")),
        Question("111", "math", ("1 + 1?", "and 1 more?"), ("2", "3")),
        Question("82", "writing", ("draft", "shorter")),
    ),
    "by hand",
    80,
)
ANSWERS = Answers("m", {"81": ("aa", "bbbb"), "111": ("two", "three"), "82": ("c", "")}, "by hand")


def verdicts(*grades):
    ids = [f"{question.id}/{turn}" for question in QUESTIONS.items for turn in (1, 2)]
    return [Verdict(id, grade, "", 1) for id, grade in zip(ids, grades, strict=True)]


def test_each_turn_is_asked_with_its_prompt_and_references():
    """Turn 1 alone, turn 2 with both turns; maths with the references; the texts under judgement are the answers."""
    asked = {ask.id: ask for ask in mt_bench.asks(QUESTIONS, ANSWERS, TEMPLATES)}
    assert list(asked) == ["81/1", "81/2", "111/1", "111/2", "82/1", "82/2"]
    assert asked["81/1"].messages == (("system", "S"), ("user", "Q: write A: aa"))
    assert asked["81/2"].messages == (("system", "S2"), ("user", "Q: write A: aa Q: again A: bbbb"))
    assert asked["111/1"].messages[1][1] == "Q: 1 + 1? R: 2 A: two"
    assert asked["111/2"].messages[1][1] == "R: 2, 3 Q: 1 + 1? A: two Q: and 1 more? A: three"
    assert asked["81/1"].judged == ("aa",) and asked["81/2"].judged == ("aa", "bbbb")


def test_braces_in_an_answer_stay_what_they_are():
    """An answer that names a field of the template is not filled in, so it cannot put the reference into itself."""
    hostile = Answers("m", ANSWERS.turns | {"111": ("{ref_answer_1} {0} {", "{ref_answer_2}")}, "")
    asked = {ask.id: ask for ask in mt_bench.asks(QUESTIONS, hostile, TEMPLATES)}
    assert asked["111/1"].messages[1][1] == "Q: 1 + 1? R: 2 A: {ref_answer_1} {0} {"
    assert asked["111/2"].messages[1][1].endswith("A: {ref_answer_2}")


def test_means_by_hand():
    """Writing 8, 6, 4, 2 and maths 10, 9: 5 and 9.5; turn 1 is (8 + 10 + 4) / 3; all 39 / 6, not the mean of means."""
    result = mt_bench.score(QUESTIONS, ANSWERS, verdicts(8.0, 6.0, 10.0, 9.0, 4.0, 2.0), n_boot=200)
    table = result.table.set_index("name")
    assert table.loc[["writing", "math", "turn 1", "turn 2", "overall"], "score"].tolist() == pytest.approx(
        [5, 9.5, 22 / 3, 17 / 3, 39 / 6]
    )
    assert table.responses.tolist() == [4, 2, 3, 3, 6] and not table.unparsable.any()
    assert (table.lowest == table.score).all() and result.title == "MT-Bench, 3 of 80 questions"
    score, low, high = result.overall()
    assert low <= score <= high and low == pytest.approx(3) and high == pytest.approx(9.5)
    # Both turns of a question are drawn together: one question tells nothing of how questions vary.
    assert np.isnan(table.loc["math", ["low", "high"]].astype(float)).all()
    assert result.grades.characters.tolist() == [2, 4, 3, 5, 1, 0]


def test_a_grade_that_was_not_read_is_no_0_and_is_counted():
    """Of 8, -, 10, 9, 4, 2 the mean is 33 / 5; it could at lowest be 34 / 6, with a 1 for the one missing."""
    table = mt_bench.score(QUESTIONS, ANSWERS, verdicts(8.0, None, 10.0, 9.0, 4.0, 2.0), n_boot=50).table
    overall = table.set_index("name").loc["overall"]
    assert overall.score == pytest.approx(33 / 5) and overall.lowest == pytest.approx(34 / 6)
    assert overall.unparsable == 1 and table.set_index("name").loc["writing", "unparsable"] == 1
    nothing = mt_bench.score(QUESTIONS, ANSWERS, verdicts(*[None] * 6), n_boot=50).table
    assert nothing.score.isna().all() and (nothing.lowest == 1).all()
    with pytest.raises(KeyError, match="82/2"):
        mt_bench.score(QUESTIONS, ANSWERS, verdicts(*[1.0] * 6)[:-1])


def test_a_subset_is_spread_over_categories_and_named():
    items = tuple(Question(f"{c}{i}", c, ("a", "b")) for c in "wxyz" for i in range(10))
    questions = Questions("MT-Bench", items, "by hand", 40)
    assert questions.title == "MT-Bench" and questions.subset(0) is questions
    for n in (1, 4, 7, 12, 39):
        some = questions.subset(n, seed=3)
        counts = [sum(q.category == c for q in some.items) for c in "wxyz"]
        assert len(some) == n and max(counts) - min(counts) <= 1 and some == questions.subset(n, seed=3)
        assert some.title == f"MT-Bench, {n} of 40 questions"
        assert [q for q in items if q in some.items] == list(some.items), "in their order"
    assert questions.subset(8, seed=1) != questions.subset(8, seed=2)
    # A larger subset holds the smaller one: answers to the first few are answers to the many.
    assert set(questions.subset(8, seed=1).items) < set(questions.subset(16, seed=1).items)
    with pytest.raises(ValueError, match="41 of 40 questions"):
        questions.subset(41)


def test_generated_questions_are_never_called_mt_bench():
    questions = mt_bench.load("embedded", n=5, seed=1)
    assert questions.title == "generated questions (not MT-Bench)" and questions.generated
    assert len(questions) == 5 and all(len(q.turns) == 2 and all(q.turns) and q.category for q in questions.items)
    assert questions == mt_bench.load("embedded", n=5, seed=1) != mt_bench.load("embedded", n=5, seed=2)


def test_from_answers_to_a_score_with_a_judge(tmp_path):
    """The whole path on loopback: the judge's grade is the number of letters it was shown, at most 10."""

    def plan(question, nth):
        shown = question.rpartition("A: ")[2]
        return Reply(f"{len(shown)} letters.\nRating: [[{max(1, len(shown))}]]")

    with serve(plan) as server:
        judge = Judge("m", server.url, wait=0.01)
        asked = mt_bench.asks(QUESTIONS, ANSWERS, TEMPLATES)
        found = judge.verdicts(asked, file=tmp_path / "v.jsonl", token_cap=10**6)
    result = mt_bench.score(QUESTIONS, ANSWERS, found, n_boot=50)
    assert result.grades.grade.tolist() == [2, 4, 3, 5, 1, 1]


# The public files


@needs_data
def test_the_published_questions():
    """80 x 2 turns, ten of each category, references where the paper's protocol has them and nowhere else."""
    questions = mt_bench.load("folder", references="gpt-4-1106-preview")
    assert len(questions) == 80 and questions.title == "MT-Bench"
    for category in mt_bench.CATEGORIES:
        some = [q for q in questions.items if q.category == category]
        assert len(some) == 10
        assert {len(q.references) for q in some} == {2 if category in mt_bench.WITH_REFERENCE else 0}
    assert len([q for q in questions.items if int(q.id) in mt_bench.WRONG_REFERENCES]) == 13
    old = mt_bench.load("folder", references="gpt-4")
    right = {q.id: q.references for q in questions.items}
    assert all(q.references != right[q.id] for q in old.items if q.references)
    assert not any(q.references for q in mt_bench.load("folder", references="").items)
    assert mt_bench.load("folder", references="", n=16).title == "MT-Bench, 16 of 80 questions"


@needs_data
@pytest.mark.parametrize(("model", "characters"), [("gpt-4o", 1646.25), ("llama-2-chat7b", 1510.1875)])
def test_published_answers_and_their_prompts(model, characters):
    """160 questions to the judge, each with its answer in it word for word; lengths as counted from the raw file."""
    questions = mt_bench.load("folder", references="gpt-4-1106-preview")
    answers = read(Path(DATA) / "mt_bench" / f"model_answer__{model}.jsonl.gz", questions)
    asked = mt_bench.asks(questions, answers, mt_bench.prompts("folder"))
    assert len(asked) == 160 and answers.model == model
    assert answers.characters(questions).mean() == characters
    for ask in asked:
        id, _, turn = ask.id.partition("/")
        text = ask.messages[1][1]
        assert all(answer in text for answer in answers.turns[id][: int(turn)]), ask.id
        assert "{" not in text or any("{" in part for q in questions.items if q.id == id
                                      for part in (*q.turns, *q.references, *answers.turns[id]))  # fmt: skip
    second = [ask for ask in asked if ask.id.endswith("/2")]
    assert all("second" in ask.messages[0][1] for ask in second), "its prompt asks for the second turn"
    assert sum("Reference" in ask.messages[1][1] for ask in asked) >= 60


@needs_data
def test_what_is_not_in_the_folder_is_named_with_its_address():
    with pytest.raises(DataError, match=r"gpt-4-0125-preview is not in this folder.*hub.*962316eba4e9") as info:
        mt_bench.load("folder")
    assert "raw.githubusercontent.com/lm-sys/FastChat/962316eba4e9db86bc8002243290e4074dabf48e/" in str(info.value)


def write(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_faulty_files_are_named(tmp_path):
    """A question with one turn, of an unknown category, too few of them; a maths question without its reference."""
    file, good = tmp_path / "mt_bench" / "question.jsonl", {"question_id": 1, "category": "math", "turns": ["a", "b"]}
    for wrong, match in (
        (good | {"turns": ["a"]}, "line 2, field 'turns': two texts are due"),
        (good | {"category": "poems"}, "line 2, field 'category': 'poems' is none"),
        (good, "2 questions, MT-Bench has 80"),
    ):
        write(file, [good, wrong])
        with pytest.raises(DataError, match=match):
            mt_bench.load("folder", tmp_path, references="")
    reference = tmp_path / "mt_bench" / "gpt-4.jsonl"
    write(reference, [{"question_id": 2, "choices": [{"turns": ["x", "y"]}]}])
    with pytest.raises(DataError, match=r"no reference of gpt-4 to question 1 \(math\)"):
        mt_bench.load("folder", tmp_path, references="gpt-4")
    write(reference, [{"question_id": 1, "choices": [{"turns": ["x"]}]}])
    with pytest.raises(DataError, match=r"gpt-4\.jsonl, line 1, field 'choices': no reference to two turns"):
        mt_bench.load("folder", tmp_path, references="gpt-4")
    with pytest.raises(ValueError, match="references are one of"):
        mt_bench.load("folder", tmp_path, references="gpt-5")
    prompts = tmp_path / "mt_bench" / "judge_prompts.jsonl"
    rows = [{"name": n, "system_prompt": t.system, "prompt_template": t.text} for n, t in TEMPLATES.items()]
    write(prompts, rows)
    assert mt_bench.prompts("folder", tmp_path) == TEMPLATES
    write(prompts, rows[:3])
    with pytest.raises(DataError, match="no prompt single-math-v1-multi-turn"):
        mt_bench.prompts("folder", tmp_path)
    write(prompts, [rows[0] | {"prompt_template": "Q: {question}"}])
    with pytest.raises(DataError, match="single-v1 lacks answer"):
        mt_bench.prompts("folder", tmp_path)
