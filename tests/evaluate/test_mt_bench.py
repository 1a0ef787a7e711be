"""MT-Bench: the questions and prompts as they are published, what the judge is asked, and the means by hand."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from judge_server import Reply, serve

from hs2lib.data.rows import DataError
from hs2lib.evaluate import mt_bench
from hs2lib.evaluate.judge import Judge, Verdict
from hs2lib.evaluate.questions import Questions, Template, answered, characters, question_id, read
from hs2lib.group import Group, Response, Turn

DATA = os.environ.get("HS2_DATA_DIR")
needs_data = pytest.mark.skipif(
    not DATA or not (Path(DATA) / "mt_bench").is_dir(), reason="HS2_DATA_DIR has no mt_bench folder"
)

# Of our own: what MT-Bench's prompts look like, with the fields that they have.
TEMPLATES = {
    "single-v1": Template("S", "Q: {question} A: {answer}"),
    "single-math-v1": Template("S", "Q: {question} R: {ref_answer_1} A: {answer}"),
    "single-v1-multi-turn": Template(
        "S2", "Q: {question_1} A: {answer_1} Q: {question_2} A: {answer_2}"
    ),
    "single-math-v1-multi-turn": Template(
        "S2",
        "R: {ref_answer_1}, {ref_answer_2} Q: {question_1} A: {answer_1} Q: {question_2} A: {answer_2}",
    ),
}


def question(id, *turns):
    return Group(id, tuple(Turn("user", text) for text in turns), ())


def answers_of(questions, texts):
    return answered(
        questions, {id: [Response("", text) for text in of] for id, of in texts.items()}, "by hand"
    )


QUESTIONS = Questions(
    "MT-Bench",
    (
        question("81", "write", "again"),
        question("111", "1 + 1?", "and 1 more?"),
        question("82", "draft", "shorter"),
    ),
    "by hand",
    80,
    categories={"81": "writing", "111": "math", "82": "writing"},
    references={"111": ("2", "3")},
)
TEXTS = {"81": ("aa", "bbbb"), "111": ("two", "three"), "82": ("c", "")}
ANSWERS = answers_of(QUESTIONS, TEXTS)


def verdicts(*grades):
    return [Verdict(answer.id, grade, "", 1) for answer, grade in zip(ANSWERS, grades, strict=True)]


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
    hostile = answers_of(QUESTIONS, TEXTS | {"111": ("{ref_answer_1} {0} {", "{ref_answer_2}")})
    asked = {ask.id: ask for ask in mt_bench.asks(QUESTIONS, hostile, TEMPLATES)}
    assert asked["111/1"].messages[1][1] == "Q: 1 + 1? R: 2 A: {ref_answer_1} {0} {"
    assert asked["111/2"].messages[1][1].endswith("A: {ref_answer_2}")


def test_means_by_hand():
    """All grades count alike: 39 / 6, not the mean of means."""
    result = mt_bench.score(QUESTIONS, ANSWERS, verdicts(8.0, 6.0, 10.0, 9.0, 4.0, 2.0), n_boot=200)
    score, low, high = result.overall
    assert result.unparsable == 0 and result.values.tolist() == [8, 6, 10, 9, 4, 2]
    # Questions have 7, 9.5 and 3 on average: SD 3.279, error 1.893, and t of two degrees of freedom
    # is 4.303.
    assert score == 39 / 6 and (low, high) == pytest.approx((6.5 - 8.15, 6.5 + 8.15), abs=0.5)
    # Both turns of a question are drawn together: one question tells nothing of how questions vary.
    one = replace(QUESTIONS, groups=QUESTIONS.groups[1:2])
    alone = mt_bench.score(
        one, ANSWERS[2:4], verdicts(8.0, 6.0, 10.0, 9.0, 4.0, 2.0), n_boot=200
    ).overall
    assert alone[0] == 9.5 and np.isnan(alone[1:]).all()


def test_a_grade_that_was_not_read_is_no_0_and_is_counted():
    """Of 8, -, 10, 9, 4, 2 the mean is 33 / 5."""
    result = mt_bench.score(QUESTIONS, ANSWERS, verdicts(8.0, None, 10.0, 9.0, 4.0, 2.0), n_boot=50)
    assert result.overall[0] == pytest.approx(33 / 5) and result.unparsable == 1
    nothing = mt_bench.score(QUESTIONS, ANSWERS, verdicts(*[None] * 6), n_boot=50)
    assert np.isnan(nothing.overall).all() and nothing.unparsable == 6
    with pytest.raises(KeyError, match="82/2"):
        mt_bench.score(QUESTIONS, ANSWERS, verdicts(*[1.0] * 6)[:-1])


def test_a_subset_is_spread_over_categories_and_named():
    items = tuple(question(f"{c}{i}", "a", "b") for c in "wxyz" for i in range(10))
    questions = Questions(
        "MT-Bench", items, "by hand", 40, categories={group.id: group.id[0] for group in items}
    )
    assert questions.title == "MT-Bench" and questions.subset(0) is questions
    for n in (1, 4, 7, 12, 39):
        some = questions.subset(n, seed=3)
        counts = [sum(group.id[0] == c for group in some.groups) for c in "wxyz"]
        assert (
            len(some) == n
            and max(counts) - min(counts) <= 1
            and some == questions.subset(n, seed=3)
        )
        assert some.title == f"MT-Bench, {n} of 40 questions"
        assert [group for group in items if group in some.groups] == list(some.groups), (
            "in their order"
        )
    assert questions.subset(8, seed=1) != questions.subset(8, seed=2)
    # A larger subset holds the smaller one: answers to the first few are answers to the many.
    assert set(questions.subset(8, seed=1).groups) < set(questions.subset(16, seed=1).groups)
    with pytest.raises(ValueError, match="41 of 40 questions"):
        questions.subset(41)


def test_generated_questions_are_never_called_mt_bench():
    questions = mt_bench.load("postcards", n=5, seed=1)
    assert questions.title == "generated questions (not MT-Bench)" and questions.generated
    assert len(questions) == 5 and all(
        len(group.prompt) == 2 and all(turn.text for turn in group.prompt)
        for group in questions.groups
    )
    assert all(questions.categories[group.id] for group in questions.groups)
    assert (
        questions
        == mt_bench.load("postcards", n=5, seed=1)
        != mt_bench.load("postcards", n=5, seed=2)
    )


def test_from_answers_to_a_score_with_a_judge(tmp_path):
    """The whole path on loopback: the judge's grade is the number of letters it was shown, at most 10."""

    def plan(question, nth):
        shown = question.rpartition("A: ")[2]
        return Reply(f"{len(shown)} letters.\nRating: [[{max(1, len(shown))}]]")

    with serve(plan) as server:
        judge = Judge("m", server.url)
        asked = mt_bench.asks(QUESTIONS, ANSWERS, TEMPLATES)
        judged = judge.verdicts(asked, file=tmp_path / "v.jsonl", token_cap=10**6)
    result = mt_bench.score(QUESTIONS, ANSWERS, judged, n_boot=50)
    assert result.values.tolist() == [2, 4, 3, 5, 1, 1]


# The public files


@needs_data
def test_the_published_questions():
    """80 x 2 turns, ten of each category, references where the paper's protocol has them and nowhere else."""
    questions = mt_bench.load("folder", references="gpt-4-1106-preview")
    assert len(questions) == 80 and questions.title == "MT-Bench"
    for category in mt_bench.CATEGORIES:
        some = [id for id, name in questions.categories.items() if name == category]
        assert len(some) == 10
        lengths = {len(questions.references.get(id, ())) for id in some}
        assert lengths == {2 if category in mt_bench.WITH_REFERENCE else 0}
    old = mt_bench.load("folder", references="gpt-4").references
    assert len(old) == 30 and all(old[id] != questions.references[id] for id in old)
    assert not mt_bench.load("folder", references="").references
    assert mt_bench.load("folder", references="", n=16).title == "MT-Bench, 16 of 80 questions"


@needs_data
@pytest.mark.parametrize(("model", "mean"), [("gpt-4o", 1646.25), ("llama-2-chat7b", 1510.1875)])
def test_published_answers_and_their_prompts(model, mean):
    """160 questions to the judge, each with its answer in it word for word; lengths as counted from the raw file."""
    questions = mt_bench.load("folder", references="gpt-4-1106-preview")
    answers = read(Path(DATA) / "mt_bench" / f"model_answer__{model}.jsonl.gz", questions)
    asked = mt_bench.asks(questions, answers, mt_bench.prompts("folder"))
    assert len(asked) == 160 and answers[0].source.startswith(
        f"{model}, model_answer__{model}.jsonl.gz"
    )
    assert characters(answers).mean() == mean
    for ask, answer in zip(asked, answers, strict=True):
        text, own = (
            ask.messages[1][1],
            (*(turn.text for turn in answer.prompt), answer.responses[0].text),
        )
        assert ask.id == answer.id and all(part in text for part in own), ask.id
        assert "{" not in text or any(
            "{" in part for part in (*own, *questions.references.get(question_id(answer), ()))
        )
    second = [ask for ask in asked if ask.id.endswith("/2")]
    assert all("second" in ask.messages[0][1] for ask in second), (
        "its prompt asks for the second turn"
    )
    assert sum("Reference" in ask.messages[1][1] for ask in asked) >= 60


@needs_data
def test_what_is_not_in_the_folder_is_named_with_its_address():
    with pytest.raises(
        DataError, match=r"gpt-4-0125-preview is not in this folder; .*source='hub'"
    ):
        mt_bench.load("folder")


def write(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_faulty_files_are_named(tmp_path, monkeypatch):
    """A question with one turn, of an unknown category, too few of them; a maths question without its reference."""
    file, good = (
        tmp_path / "mt_bench" / "question.jsonl",
        {"question_id": 1, "category": "math", "turns": ["a", "b"]},
    )
    for wrong, match in (
        (good | {"turns": ["a"]}, "line 2: expected an id and the text of 2 turns"),
        (good | {"category": "poems"}, "line 2, field 'category': 'poems' is none"),
        ({**good, "question_id": 2, "turns": ["c", "d"]}, "2 questions, MT-Bench has 80"),
    ):
        write(file, [good, wrong])
        with pytest.raises(DataError, match=match):
            mt_bench.load("folder", tmp_path, references="")
    reference = tmp_path / "mt_bench" / "gpt-4.jsonl"
    monkeypatch.setattr(mt_bench, "WHOLE", 1)
    write(file, [good])
    row = {"question_id": 1, "model_id": "gpt-4"}
    write(reference, [row | {"question_id": 2, "choices": [{"turns": ["x", "y"]}]}])
    with pytest.raises(
        DataError, match=r"gpt-4\.jsonl.*no answer to 1 of 1 questions, 1 among them"
    ):
        mt_bench.load("folder", tmp_path, references="gpt-4")
    write(reference, [row | {"choices": [{"turns": ["x"]}]}])
    with pytest.raises(
        DataError, match=r"gpt-4\.jsonl, line 1: .* 1, or 1 responses to its 2 turns"
    ):
        mt_bench.load("folder", tmp_path, references="gpt-4")
    with pytest.raises(ValueError, match="unknown references"):
        mt_bench.load("folder", tmp_path, references="gpt-5")
    prompts = tmp_path / "mt_bench" / "judge_prompts.jsonl"
    rows = [
        {"name": n, "system_prompt": t.system, "prompt_template": t.text}
        for n, t in TEMPLATES.items()
    ]
    write(prompts, rows)
    assert mt_bench.prompts("folder", tmp_path) == TEMPLATES
    write(prompts, rows[:3])
    with pytest.raises(DataError, match="prompt single-math-v1-multi-turn lacks question_1"):
        mt_bench.prompts("folder", tmp_path)
    write(prompts, [rows[0] | {"prompt_template": "Q: {question}"}, *rows[1:]])
    with pytest.raises(DataError, match="single-v1 lacks answer"):
        mt_bench.prompts("folder", tmp_path)
