"""Best of n: the chances against every draw there is, gains by hand, and nothing about the truth of real prompts."""

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from nbclient import NotebookClient

from hs2lib.corpus import generate
from hs2lib.corpus.grade import true_goodness
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
    sentences,
    title,
)
from hs2lib.evaluate.response_rows import SCORE, TRUTH
from hs2lib.group import Group, Turn
from hs2lib.models.rollout import Sample
from hs2lib.train.recipes import PPO

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
    assert set(real.gains().measure) == {SCORE} and sentences(real.gains()) == []
    assert np.isnan(real.levels()[TRUTH]) and real.levels()[SCORE] == 1.5


def test_the_sentence_says_where_truth_and_score_part():
    gains = ranked([[3, 2, 1, 0], [2, 2, 1, 0]]).gains()
    assert title(gains) == f"Best of 4 answers of SFT:\n{SCORE} +1.50, {TRUTH} -1.38"
    (parted,) = sentences(gains)
    assert parted.startswith("Best of 4, the hardest press: **the score outruns the truth**. ")
    assert "The favourite gains +1.50 by its score and -1.38 in truth (" in parted
    (same,) = sentences(ranked([[0, 1, 2, 3], [0, 1, 2, 3]]).gains())
    assert "hardest press: score and truth are not shown to part. " in same


def parting(intervals: dict[int, tuple[float, float]]) -> list[str]:
    """The sentences on these intervals of score less truth, by n."""
    rows = []
    for n, (low, high) in intervals.items():
        rows += [(n, 0.0, TRUTH, 1.0, 0.9, 1.1), (n, 0.0, SCORE, 1.2, 1.1, 1.3)]
        rows.append((n, 0.0, APART, 0.2, low, high))
    columns = ["n", "KL at most", "measure", "gain", "95 % low", "95 % high"]
    return sentences(pd.DataFrame(rows, columns=columns))


def test_a_parting_at_some_n_is_not_hidden_by_the_largest():
    """The score outran the truth at small n; the interval at the largest n was wide and held 0."""
    largest, fewer = parting(
        {1: (0, 0), 2: (0.1, 0.3), 4: (0.1, 0.3), 8: (-0.1, 0.5), 16: (-0.4, 0.9)}
    )
    assert largest.startswith("Best of 16, the hardest press: score and truth are not shown to")
    assert fewer == (
        "Of fewer answers the score outruns the truth at n = 2, 4. "
        "All n are of the same 16 answers to a prompt, so that this is one finding."
    )
    largest, fewer = parting({2: (-0.3, -0.1), 4: (0.1, 0.3)})
    assert "**the score outruns the truth**" in largest
    assert fewer.startswith("Of fewer answers the truth outruns the score at n = 2. ")
    assert parting({2: (-0.1, 0.1), 4: (-0.3, -0.1)})[0].startswith(
        "Best of 4, the hardest press: the truth outruns the score."
    )


def test_the_likeliest_stands_beside_the_reward_model_at_the_same_n():
    """Four answers, the truth 0 to 3: the likeliest of 4 gains 1.5, the reward model's favourite loses 1.5."""
    worst_first = np.tile(np.arange(4.0), (3, 1))
    likely = {LIKELIEST: {TRUTH: worst_first, SCORE: worst_first}}
    backwards = {TRUTH: worst_first[:, ::-1], SCORE: worst_first}
    gained, compared = Ranked(list("abc"), backwards, RESAMPLED, likely).likeliest_sentences()
    assert gained == (
        "Without any reward model the likeliest of n = 4 answers gains +1.50 points of truth; "
        "the reward model's favourite gains -1.50."
    )
    assert compared == "The likeliest, less the favourite, by prompt: more at n = 4."
    alike = Ranked(list("abc"), likely[LIKELIEST], RESAMPLED, likely).likeliest_sentences()
    assert alike[1].endswith("by prompt: not shown to differ at n = 4.")
    assert Ranked(list("abc"), backwards, RESAMPLED).likeliest_sentences() == []
    unknown = {TRUTH: np.full((3, 4), np.nan), SCORE: worst_first}
    assert Ranked(list("abc"), unknown, RESAMPLED, likely).likeliest_sentences() == []


def test_the_greedy_answer_stands_beside_the_draws():
    """Four answers, the truth 0 to 3, and a greedy one of 2.5: it gains 1 over a draw at every n."""
    answered = list(generate.groups(3, seed=2))
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
    level, greedy = beside.level_sentences(PPO())
    assert level == (
        f"One drawn answer (temperature 1, top-p 1, 3 prompts) has a truth of {truth.mean() - 1:.2f} "
        f"and a score of {truth.mean() - 1:.2f} on average."
    )
    assert "without any draw, gains +1.00 points of truth over it (1.00 to 1.00" in greedy
    assert beside.likeliest_sentences()[-1] == (
        "The likeliest of 4 less the greedy answer: +0.50 (0.50 to 0.50, by prompt), "
        "the likeliest is better."
    )
    _, compared = beside.rule_sentences()
    assert compared.endswith("more than the greedy answer (+1.00; difference 0.50 to 0.50).")
    assert beside.worth_in_words() == (
        "By the truth, the reward model's favourite of 4 is **not shown to beat** the likeliest of "
        "4 (+0.00, 0.00 to 0.00), and beats the greedy answer (+0.50, 0.50 to 0.50). "
        "These need no reward model."
    )
    worse = replace(beside, values={TRUTH: values[:, ::-1], SCORE: values})
    assert "**falls short of** the greedy answer (-2.50, -2.50 to -2.50)" in worse.worth_in_words()
    assert replace(drawn, others={}).worth_in_words() == "", "nothing stands beside it"
    assert ranked(np.full((2, 4), np.nan)).worth_in_words() == ""
    assert not drawn.with_greedy(one_each[:1], model, setup).greedy, "not of all prompts"
    assert len(drawn.level_sentences(PPO())) == 1
    assert ranked(np.full((2, 4), np.nan)).level_sentences(PPO()) == []


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
    assert rules["gain in truth"].isna().all() and real.rule_sentences() == []


def test_the_truth_is_the_most_that_a_rule_reaches():
    """Of generated prompts with answers whose truth is known; one at random gains nothing, exactly."""
    answered = []
    for group in generate.groups(6, seed=2):
        texts = [response.text for response in group.responses]
        answered.append(samples(group, texts, [-1.0, -2.0]))
    order = np.array([true_goodness(group) for group in answered])
    rules = ranked_samples(answered, (-order).ravel().tolist()).rules().set_index("rule")
    truth = rules["gain in truth"]
    spread = np.abs(order[:, 0] - order[:, 1]).mean() / 2
    assert truth[BY_TRUTH] == pytest.approx(spread) and truth[BY_TRUTH] == truth.max()
    assert truth[BY_SCORE] == pytest.approx(-spread), "these scores are the truth turned round"
    assert truth[RANDOM] == 0


def test_the_sentences_set_the_reward_model_beside_rules_without_content():
    worst_first = np.tile(np.arange(4.0), (3, 1))
    others = {LONGEST: {TRUTH: worst_first[:, ::-1], SCORE: worst_first}}
    known = Ranked(list("abc"), {TRUTH: worst_first, SCORE: worst_first}, RESAMPLED, others)
    favourite, compared = known.rule_sentences()
    assert favourite == (
        "Of 4 answers the reward model's favourite gains +1.50 points of truth "
        "(1.50 to 1.50, by prompt): an answer at random gains 0."
    )
    assert "more than one taken by the rule *longest* (-1.50; difference 3.00 to 3.00)" in compared
    turned = Ranked(known.ids, others[LONGEST], RESAMPLED, {LONGEST: known.values})
    favourite, compared = turned.rule_sentences()
    assert compared.startswith("By prompt that is **less than** one taken")
    assert favourite.endswith("that is **below** an answer at random.")
    alike = {TRUTH: np.ones((3, 4)), SCORE: worst_first}
    (favourite,) = Ranked(list("abc"), alike, RESAMPLED).rule_sentences()
    assert favourite.endswith("that is **not shown to be above** an answer at random.")


def drawn_by_hand(group: Group) -> Drawn:
    """Four answers with scores 1, 3, 2, 4."""
    texts = [f"Answer {k}." for k in range(4)]
    return Drawn([samples(group, texts, [-1.0] * 4)] * 2, np.array([[1.0, 3, 2, 4], [4, 3, 2, 1]]))


def test_the_winner_is_the_favourite_of_the_first_n():
    drawn = drawn_by_hand(Group("real", (Turn("user", "Hi"),), ()))
    winners = [drawn.winner(0, n) for n in (1, 2, 3, 4)]
    assert [winner.text for winner in winners] == [f"Answer {k}." for k in (0, 1, 1, 3)]
    assert [winner.score for winner in winners] == [1, 3, 3, 4]
    assert [winner.policy for winner in drawn.presets(0)] == ["best of 1", "best of 4"]
    assert [winner.policy for winner in drawn.presets(1)] == ["best of 1 and of 4"]
    assert drawn.parting() == 0, "of real prompts the one whose score rises"


def test_of_generated_prompts_one_is_shown_where_the_truth_falls():
    group = next(generate.groups(1, seed=4, split="train"))
    best = generate.without_faults(group).responses[0].text
    better_first = samples(group, [best, "I like tea."], [-1.0, -1.0])
    drawn = Drawn(
        [samples(group, ["I like tea.", best], [-1.0, -1.0]), better_first], np.eye(2)[[1, 1]]
    )
    assert drawn.parting() == 1


CELL = """
import numpy as np
from moves import moved, sets
from hs2lib.corpus import generate
from hs2lib.evaluate.best_of_n import Drawn
from hs2lib.report import show

groups = list(generate.groups(3, seed=2))
drawn = Drawn(groups, np.array([[0.0, 1.0]] * 3))
prompt, n, view = show.best_of(groups, 2, drawn.winner).children
assert "best of 1" in view.value
assert "best of 2" in moved(view, sets(n, 2), "n")
moved(view, sets(prompt, 1), "the prompt")
assert groups[1].prompt[-1].text[:20] in view.value and "reward model 1.00" in view.value
"""


@pytest.mark.slow
def test_the_sliders_answer_in_a_kernel_within_a_second():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    NotebookClient(notebook, timeout=120).execute()
