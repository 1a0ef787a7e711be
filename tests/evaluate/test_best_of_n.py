"""Best of n: the chances against every draw there is, gains by hand, and nothing about the truth of real prompts."""

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hs2lib.world import sets
from hs2lib.world.grade import true_goodness
from hs2lib.evaluate.best_of_n import (
    APART,
    BY_SCORE,
    BY_TRUTH,
    GREEDY_RULE,
    LIKELIEST,
    LONGEST,
    RANDOM,
    Drawn,
    Ranked,
    bound,
    chances,
    rank,
)
from hs2lib.evaluate.response_rows import SCORE, TRUTH
from hs2lib.group import Group, Turn
from hs2lib.models.rollout import Sample

RESAMPLED = {"n_boot": 200, "seed": 0}


@pytest.mark.parametrize(("n", "total"), [(1, 5), (2, 3), (3, 5), (5, 5)])
def test_chances_are_those_of_all_draws(n, total):
    """Of all ways to draw n answers, how often each is the last in order."""
    best = [max(drawn) for drawn in combinations(range(total), n)]
    expected = np.bincount(best, minlength=total) / len(best)
    np.testing.assert_allclose(chances(n, total), expected)
    assert chances(n, total).sum() == pytest.approx(1)


def test_how_far_best_of_n_can_be():
    assert bound(1) == 0 and bound(2) == pytest.approx(np.log(2) - 0.5)


def ranked(truth) -> Ranked:
    """Two prompts of four answers with scores 0 to 3 each."""
    scores = np.tile(np.arange(4.0), (2, 1))
    return Ranked(["a", "b"], {TRUTH: np.array(truth, dtype=float), SCORE: scores}, RESAMPLED)


def test_gains_by_hand():
    """The best of 4 scores 3 where the mean is 1.5; of 2, 3 with chance 1/2, 2 with 1/3, 1 with 1/6: 2 1/3."""
    gains = ranked([[3, 2, 1, 0], [3, 2, 1, 0]]).gains().set_index(["measure", "n"])
    assert gains.gain[SCORE].tolist() == pytest.approx([0, 5 / 6, 1.5])
    assert gains.gain[TRUTH].tolist() == pytest.approx([0, -5 / 6, -1.5])
    assert gains.gain[APART].tolist() == pytest.approx([0, 5 / 3, 3])
    assert gains.index.get_level_values("measure")[0] == TRUTH


def test_agreement_is_that_among_answers_to_one_prompt():
    """Between prompts truth and score may differ by any constant."""
    assert ranked([[0, 1, 2, 3], [10, 11, 12, 13]]).agreement() == pytest.approx(1)
    assert ranked([[3, 2, 1, 0], [10, 9, 8, 7]]).agreement() == pytest.approx(-1)


def test_of_real_prompts_there_is_the_score_alone():
    real = ranked(np.full((2, 4), np.nan))
    assert set(real.gains().measure) == {SCORE}
    assert np.isnan(real.levels()[TRUTH]) and real.levels()[SCORE] == 1.5


def test_the_greedy_answer_stands_beside_the_draws():
    """Four answers, the truth 0 to 3, and a greedy one of 2.5: it gains 1 over a draw at every n."""
    answered = list(sets.groups(3, seed=2))
    one_each = [replace(group, responses=group.responses[:1]) for group in answered]
    truth = np.array([true_goodness(group)[0] for group in one_each])
    values = truth[:, None] + np.array([-2.5, -1.5, -0.5, 0.5])  # on average 1 below the greedy one
    likely = {LIKELIEST: {TRUTH: values, SCORE: values}}
    drawn = Ranked([group.id for group in answered], likely[LIKELIEST], RESAMPLED, likely)
    model = SimpleNamespace(
        attributes=("helpfulness",), score=lambda groups, **_: torch.zeros(len(groups), 1)
    )
    setup = SimpleNamespace(
        recipe=SimpleNamespace(weighting="helpfulness:1", inference={}), folder=None
    )
    beside = drawn.with_greedy(one_each[::-1], model, setup)
    assert beside.gains_by_prompt([1, 4], rule=GREEDY_RULE) == pytest.approx(np.ones((3, 2)))
    assert beside.gains_by_prompt([4], SCORE, GREEDY_RULE)[:, 0] == pytest.approx(1 - truth)
    rules = beside.rules().set_index("rule")
    assert rules["gain in truth"][GREEDY_RULE] == pytest.approx(1)
    assert not drawn.with_greedy(one_each[:1], model, setup).greedy, "not of all prompts"


def samples(prompt: Group, texts: list[str], log_probs: list[float]) -> Group:
    """A prompt answered by these texts of two tokens each, with these log-probabilities together."""
    answers = []
    for text, log_prob in zip(texts, log_probs, strict=True):
        answers.append(Sample("", text, tokens=(1, 2), log_probs=(log_prob / 2, log_prob / 2)))
    return replace(prompt, responses=tuple(answers))


def ranked_samples(answered: list[Group], scores: list[float]) -> Ranked:
    """Their rank by a reward model of one output that gives these scores."""
    scored = torch.tensor(scores)[:, None]
    model = SimpleNamespace(attributes=("helpfulness",), score=lambda *_, **__: scored)
    n = len(answered[0].responses)
    recipe = SimpleNamespace(weighting="helpfulness:1", inference={}, n_best=n, resampled=RESAMPLED)
    return rank(answered, model, SimpleNamespace(recipe=recipe, folder=None))


def test_other_rules_by_hand():
    """Scores 0, 1, 2; the longest has 1, the likeliest 0: over the mean of 1, one gains 0, one loses 1."""
    prompt = Group("real", (Turn("user", "Hi"),), ())
    real = ranked_samples([samples(prompt, ["a", "ccc", "bb"], [-1, -2, -4])], [0.0, 1.0, 2.0])
    rules = real.rules()
    gained = rules.set_index("rule")["gain in score"]
    assert gained.to_dict() == pytest.approx({BY_SCORE: 1, LONGEST: 0, LIKELIEST: -1, RANDOM: 0})
    assert rules.n.unique().tolist() == [3], "the largest, where there are no 4 and no 16"
    assert rules["gain in truth"].isna().all()


def test_the_truth_is_the_most_that_a_rule_reaches():
    """Of generated prompts with answers whose truth is known; one at random gains nothing, exactly."""
    answered = []
    for group in sets.groups(6, seed=2):
        texts = [response.text for response in group.responses]
        answered.append(samples(group, texts, [-1.0, -2.0]))
    order = np.array([true_goodness(group) for group in answered])
    rules = ranked_samples(answered, (-order).ravel().tolist()).rules().set_index("rule")
    truth = rules["gain in truth"]
    spread = np.abs(order[:, 0] - order[:, 1]).mean() / 2
    assert truth[BY_TRUTH] == pytest.approx(spread) and truth[BY_TRUTH] == truth.max()
    assert truth[BY_SCORE] == pytest.approx(-spread), "these scores are the truth turned round"
    assert truth[RANDOM] == 0


def drawn_by_hand(group: Group) -> Drawn:
    """Four answers with scores 1, 3, 2, 4."""
    texts = [f"Answer {k}." for k in range(4)]
    return Drawn([samples(group, texts, [-1.0] * 4)] * 2, np.array([[1.0, 3, 2, 4], [4, 3, 2, 1]]))


def test_the_winner_is_the_favourite_of_the_first_n():
    drawn = drawn_by_hand(Group("real", (Turn("user", "Hi"),), ()))
    winners = [drawn.winner(0, n) for n in (1, 2, 3, 4)]
    assert [winner.text for winner in winners] == [f"Answer {k}." for k in (0, 1, 1, 3)]
    assert [winner.score for winner in winners] == [1, 3, 3, 4]
    assert [winner.text for winner in drawn.presets(0)] == ["Answer 0.", "Answer 3."]
    assert [winner.text for winner in drawn.presets(1)] == ["Answer 0."], "one winner, once"
    assert drawn.parting() == 0, "of real prompts the one whose score rises"


def test_of_generated_prompts_one_is_shown_where_the_truth_falls():
    group = next(sets.groups(1, seed=4, split="train"))
    best = sets.without_faults(group).responses[0].text
    better_first = samples(group, [best, "I like tea."], [-1.0, -1.0])
    drawn = Drawn(
        [samples(group, ["I like tea.", best], [-1.0, -1.0]), better_first], np.eye(2)[[1, 1]]
    )
    assert drawn.parting() == 1
