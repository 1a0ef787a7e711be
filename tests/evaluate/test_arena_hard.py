"""Arena Hard: both orders, the weight of a verdict, the Bradley-Terry rating in closed form against a fitted one."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from judge_server import Reply, serve
from sklearn.linear_model import LogisticRegression

from hs2lib.data.rows import DataError
from hs2lib.evaluate import arena_hard
from hs2lib.evaluate.judge import COMPARISONS, Judge, Verdict
from hs2lib.evaluate.questions import Questions, Template, answered, read
from hs2lib.group import Group, Response, Turn

DATA = os.environ.get("HS2_DATA_DIR")
needs_data = pytest.mark.skipif(
    not DATA or not (Path(DATA) / "arena_hard").is_dir(),
    reason="HS2_DATA_DIR has no arena_hard folder",
)
TEMPLATE = Template("S", "Q: {question_1} A: {answer_1} B: {answer_2}")
MIRROR = {"A>>B": "B>>A", "A>B": "B>A", "A=B": "A=B", "B>A": "A>B", "B>>A": "A>>B", None: None}


def questions(n):
    groups = tuple(Group(f"u{i}", (Turn("user", f"q{i}"),), ()) for i in range(n))
    return Questions(
        "Arena Hard", groups, "by hand", 500, categories={f"u{i}": f"c{i % 5}" for i in range(n)}
    )


def answers_of(asked, texts):
    return answered(asked, {id: [Response("", text)] for id, text in texts.items()}, "by hand")


def against(baseline):
    """One question for each text, and the baseline's answers to them."""
    asked = questions(len(baseline))
    return replace(
        asked, baseline=answers_of(asked, {f"u{i}": text for i, text in enumerate(baseline)})
    )


def score(verdicts, n_boot=20):
    """The score of the answers that these verdicts are on; what the answers say does not matter."""
    asked = questions(len(verdicts) // 2)
    return arena_hard.score(asked, (), verdicts, n_boot=n_boot)


def verdicts(*pairs):
    """Verdicts on the games of each question: game 1 has the baseline as A, game 2 as B."""
    return [
        Verdict(f"u{i}/{game}", v, "", 1)
        for i, pair in enumerate(pairs)
        for game, v in enumerate(pair, 1)
    ]


def games_of(pairs):
    return arena_hard.games(questions(len(pairs)), verdicts(*pairs))


def test_each_question_is_two_games_with_places_changed():
    asked = against(["base"])
    one, two = arena_hard.asks(asked, answers_of(asked, {"u0": "ours {answer_2}"}), TEMPLATE)
    assert one.id == "u0/1" and one.messages == (
        ("system", "S"),
        ("user", "Q: q0 A: base B: ours {answer_2}"),
    )
    assert two.id == "u0/2" and two.messages[1][1] == "Q: q0 A: ours {answer_2} B: base"
    assert set(one.judged) == set(two.judged) == {"base", "ours {answer_2}"}


def test_games_won_by_hand():
    """Game 1, the model as B: A>>B loses three, B>A wins one; game 2, as A: A>B wins one, B>>A loses three."""
    frame = arena_hard.games(
        questions(3), verdicts(("A>>B", "A>B"), ("B>A", "B>>A"), ("A=B", None))
    )
    assert frame.counted.tolist() == [3, 1, 1, 3, 1, 0] and frame.won.tolist() == [
        0,
        1,
        1,
        0,
        0.5,
        0,
    ]
    result = score(verdicts(("A>>B", "A>B"), ("B>A", "B>>A"), ("A=B", None)), 100)
    assert result.overall[0] == pytest.approx(100 * 2.5 / 9) and result.unparsable == 1
    assert result.values.tolist() == [25, 25, 50]


def test_changing_places_changes_nothing_and_changing_sides_mirrors():
    """The model's win rate is the same from either place; the baseline's is what is left of 100."""
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.choice(COMPARISONS, 2)) for _ in range(60)]
    swapped = [(MIRROR[second], MIRROR[first]) for first, second in pairs]
    sides = [(second, first) for first, second in pairs]
    one, two, other = (score(verdicts(*p), 20).overall[0] for p in (pairs, swapped, sides))
    assert one == pytest.approx(two) and one + other == pytest.approx(100)
    assert arena_hard.rating(one / 100) - 1000 == pytest.approx(
        1000 - arena_hard.rating(other / 100)
    )


def test_a_judge_that_always_likes_the_first_says_50():
    """Both orders are asked so that a bias for the place is none for the model."""
    assert score(verdicts(*[("A>>B", "A>>B")] * 9), 50).overall == (50, 50, 50)


def fitted(games_by_model):
    """Ratings by logistic regression on one row a game, as the leaderboard's Bradley-Terry: baseline at 1000."""
    names = list(games_by_model)
    X, y, weight = [], [], []
    for k, frame in enumerate(games_by_model.values()):
        for game in frame.itertuples():
            row = np.zeros(len(names) + 1)
            row[0], row[k + 1] = -math.log(10), math.log(10)
            for outcome, share in ((1, game.won), (0, game.counted - game.won)):
                if share:
                    X.append(row), y.append(outcome), weight.append(share)
    fit = LogisticRegression(fit_intercept=False, C=np.inf, tol=1e-10, max_iter=1000)
    coefficients = 400 * fit.fit(np.array(X), y, sample_weight=weight).coef_[0]
    return dict(zip(names, 1000 + coefficients[1:] - coefficients[0], strict=True))


def test_the_closed_form_is_the_fitted_bradley_terry_model():
    """Three models in one fit by scikit-learn: each has the rating and the win rate that its own games give alone."""
    rng, results, played = np.random.default_rng(1), {}, {}
    for name, p in {
        "weak": [4, 3, 2, 1, 1],
        "even": [2, 2, 1, 2, 2],
        "strong": [1, 1, 2, 4, 6],
    }.items():
        pairs = [
            (
                rng.choice(COMPARISONS, p=np.array(p) / sum(p)),
                MIRROR[rng.choice(COMPARISONS, p=np.array(p) / sum(p))],
            )
            for _ in range(120)
        ]
        results[name], played[name] = score(verdicts(*pairs), 20), games_of(pairs)
    ratings = fitted(played)
    for name, result in results.items():
        rate = result.overall[0]
        assert arena_hard.rating(rate / 100) == pytest.approx(ratings[name], abs=0.05)
        predicted = 100 / (1 + 10 ** ((1000 - ratings[name]) / 400))
        assert rate == pytest.approx(predicted, abs=0.01)


def test_ratings_at_the_ends():
    assert arena_hard.rating(0.5) == 1000 and arena_hard.rating(10 / 11) == pytest.approx(1400)
    assert arena_hard.rating(0.0) == -np.inf and arena_hard.rating(1.0) == np.inf


def test_intervals_are_over_questions():
    """500 questions, all verdicts ">>" and equal in both games: 500 draws, with an error of 100 sqrt(.25 / 500)."""
    rng = np.random.default_rng(2)
    pairs = [
        ("B>>A", "A>>B") if won else ("A>>B", "B>>A")
        for won in rng.permutation([True, False] * 250)
    ]
    rate, low, high = score(verdicts(*pairs), 4000).overall
    assert rate == 50 and low == pytest.approx(50 - 1.96 * 2.236, abs=0.35)
    assert high == pytest.approx(50 + 1.96 * 2.236, abs=0.35)


def test_the_protocols_interval_draws_games_and_not_questions():
    """The same 500 questions are 3,000 counted games: 100 sqrt(.25 / 3000) = .91 points instead of 2.24."""
    rng = np.random.default_rng(2)
    pairs = [
        ("B>>A", "A>>B") if won else ("A>>B", "B>>A")
        for won in rng.permutation([True, False] * 250)
    ]
    beside = score(verdicts(*pairs), 4000).beside
    assert list(beside.values()) == pytest.approx([-1.96 * 0.9129, 1.96 * 0.9129], abs=0.15)


def test_the_protocols_interval_is_that_of_copied_games():
    """One multinomial draw against the protocol's way, every counted game a row and rows drawn with replacement."""
    rng = np.random.default_rng(3)
    pairs = [tuple(rng.choice(COMPARISONS, 2)) for _ in range(100)]
    frame = games_of(pairs)
    copies = [
        won / counted
        for counted, won in frame[["counted", "won"]].to_numpy()
        for _ in range(int(counted))
    ]
    draws = 100 * rng.choice(copies, (5_000, len(copies))).mean(axis=1)
    protocol = arena_hard.protocol_interval(frame, n_boot=20_000)
    np.testing.assert_allclose(protocol, np.quantile(draws, [0.025, 0.975]), atol=0.4)


def test_nothing_read_is_no_rate():
    result = score(verdicts((None, None), (None, None)), 10)
    assert result.unparsable == 4 and np.isnan([*result.overall, *result.beside.values()]).all()
    with pytest.raises(KeyError, match="u1/1"):
        arena_hard.score(questions(2), (), verdicts(("A=B", "A=B")))


def test_from_answers_to_a_win_rate_with_a_judge(tmp_path):
    """The whole path on loopback: a judge that prefers the longer answer, at once or after a second question."""

    def plan(question, nth):
        if not question.startswith("Q: "):
            return Reply("[[A=B]]")
        a, _, b = question.partition(" A: ")[2].partition(" B: ")
        if len(a) == len(b):
            return Reply("Hard to say.")
        return Reply("My final verdict is: " + ("[[A>>B]]" if len(a) > len(b) else "[[B>>A]]"))

    some = against(["same"] * 4)
    ours = answers_of(some, {"u0": "long answer", "u1": "x", "u2": "long answer", "u3": "same"})
    with serve(plan) as server:
        asked = arena_hard.asks(some, ours, TEMPLATE)
        judged = Judge("m", server.url).verdicts(asked, file=tmp_path / "v.jsonl", token_cap=10**6)
    result = arena_hard.score(some, ours, judged, n_boot=50)
    assert result.overall[0] == pytest.approx(100 * 13 / 20) and result.unparsable == 0


# The public files


@needs_data
@pytest.mark.parametrize("model", ["gpt-4-0314", "gpt-4-0613", "gpt-3.5-turbo-0125"])
def test_the_published_questions_and_answers(model):
    benchmark = arena_hard.load("folder")
    assert (
        len(benchmark) == 500
        and benchmark.title == "Arena Hard"
        and benchmark.baseline[0].source.startswith("gpt-4-0314, ")
    )
    answers = read(
        Path(DATA) / "arena_hard" / f"arena-hard-v0.1__model_answer__{model}.jsonl.gz", benchmark
    )
    asked = arena_hard.asks(benchmark, answers, TEMPLATE)
    assert len(asked) == 1000 and answers[0].source.startswith(f"{model}, ")
    assert (answers == benchmark.baseline) == (model == "gpt-4-0314")


@needs_data
def test_a_subset_takes_as_many_clusters_as_it_can():
    benchmark = arena_hard.load("folder", n=100, seed=1)
    assert len({benchmark.categories[group.id] for group in benchmark.groups}) == 100
    assert [answer.id for answer in benchmark.baseline] == [
        f"{group.id}/1" for group in benchmark.groups
    ]


def test_both_published_forms_are_read(tmp_path, monkeypatch):
    """As the repository had them at first (turns) and has them now (prompt, messages): the same in both."""
    monkeypatch.setattr(arena_hard, "WHOLE", 2)
    folder = tmp_path / "arena_hard"
    folder.mkdir()

    def written(name, rows):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    written(
        "question.jsonl",
        [
            {"uid": i, "category": "arena-hard-v0.1", "cluster": "c", "prompt": f"q{i}"}
            for i in "ab"
        ],
    )
    new = [{"role": "user", "content": "q"}, {"role": "assistant", "content": {"answer": "yes"}}]
    written("gpt-4-0314.jsonl", [{"uid": i, "model": "gpt-4-0314", "messages": new} for i in "ab"])
    now = arena_hard.load("folder", tmp_path)
    written(
        "question.jsonl",
        [{"question_id": i, "cluster": "c", "turns": [{"content": f"q{i}"}]} for i in "ab"],
    )
    old = [{"index": 0, "turns": [{"content": "yes", "token_len": 1}]}]
    written(
        "gpt-4-0314.jsonl",
        [{"question_id": i, "model_id": "gpt-4-0314", "choices": old} for i in "ab"],
    )
    then = arena_hard.load("folder", tmp_path)
    for read_now, read_then in ((now.groups, then.groups), (now.baseline, then.baseline)):
        assert [(group.id, group.prompt) for group in read_now] == [
            (group.id, group.prompt) for group in read_then
        ]
    assert [answer.responses[0].text for answer in (*now.baseline, *then.baseline)] == ["yes"] * 4
    for wrong in ({"prompt": 3}, {"turns": ["q"]}):
        written("question.jsonl", [{"uid": "a", **wrong}, {"uid": "b", "prompt": "x"}])
        with pytest.raises(DataError, match=r"question\.jsonl, line 1"):
            arena_hard.load("folder", tmp_path)


def test_the_judge_prompt_is_read_and_checked(tmp_path):
    file = tmp_path / "arena_hard" / "judge_config.yaml"
    with pytest.raises(
        DataError,
        match=r"arena_hard/judge_config.yaml",
    ):
        arena_hard.prompts("folder", tmp_path)
    file.parent.mkdir()
    file.write_text(
        json.dumps({"system_prompt": TEMPLATE.system, "prompt_template": [TEMPLATE.text]})
    )
    assert arena_hard.prompts("folder", tmp_path) == TEMPLATE
    for wrong in (
        "[",
        "a: 1",
        json.dumps({"system_prompt": "S", "prompt_template": ["{question_1} {answer_1}"]}),
    ):
        file.write_text(wrong)
        with pytest.raises(DataError, match=r"lacks (question_1|answer_2)"):
            arena_hard.prompts("folder", tmp_path)


def test_generated_questions_are_never_called_arena_hard():
    benchmark = arena_hard.load("postcards", n=6, seed=2)
    assert benchmark.title == "generated questions (not Arena Hard)"
    assert [answer.id for answer in benchmark.baseline] == [
        f"{group.id}/1" for group in benchmark.groups
    ]
    assert all(answer.responses[0].text for answer in benchmark.baseline)
