"""The exact frontier: optima that can be computed otherwise, on a tiny policy."""

import numpy as np
import pandas as pd
import pytest

from hs2lib.evaluate import frontier
from hs2lib.world import sets
from hs2lib.world.cards import card_of, faultless, write


def table_of(log_p, true, judge):
    """Two prompts of three answers, as `enumerated` has them."""
    return pd.DataFrame(
        {
            "prompt": ["a"] * 3 + ["b"] * 3,
            "true": true,
            "judge": judge,
            "sft": log_p,
        }
    )


@pytest.fixture
def table():
    log_p = np.log([0.2, 0.3, 0.1, 0.05, 0.05, 0.4])
    return table_of(log_p, [1.0, 2, 3, 6, 5, 4], [0.0, 1, 2, 3, 1, 1])


def test_probabilities_add_up_within_a_prompt(table):
    q = np.exp(frontier.normalised(table.sft, table.prompt))
    assert q.groupby(table.prompt).sum().tolist() == pytest.approx([1, 1])
    assert q[:3].tolist() == pytest.approx([1 / 3, 1 / 2, 1 / 6])
    assert frontier.mass(table, "sft") == pytest.approx(0.55)


def test_the_tilted_policy_is_the_optimum(table):
    """No policy nearby has more of reward minus beta times the KL, the objective of PPO and DPO."""
    beta = 0.7
    optimum = frontier.tilted(table, "sft", table.judge, beta)

    def objective(log_q):
        got = frontier.reached(table, log_q, "sft")
        return got["judge"] - beta * got["kl"]

    best = objective(optimum)
    rng = np.random.default_rng(0)
    for size in (0.01, 0.1, 1.0):
        for _ in range(20):
            assert objective(optimum + size * rng.normal(size=6)) < best
    # its objective is beta times the log of the normaliser: a formula of its own
    p = np.exp(frontier.normalised(table.sft, table.prompt))
    log_z = np.log((p * np.exp(table.judge / beta)).groupby(table.prompt).sum())
    assert best == pytest.approx(beta * log_z.mean())


def test_best_of_n_is_that_of_many_draws(table):
    n = 4
    exact = np.exp(frontier.best_of(table, "sft", table.judge, n))
    rng = np.random.default_rng(1)
    for _, rows in table.groupby("prompt"):
        p = np.exp(frontier.normalised(rows.sft, rows.prompt)).to_numpy()
        draws = rng.choice(3, size=(40_000, n), p=p)
        scores = rows.judge.to_numpy()[draws]
        best = draws[np.arange(len(draws)), scores.argmax(1)]
        seen = np.bincount(best, minlength=3) / len(draws)
        assert exact[rows.index].tolist() == pytest.approx(seen.tolist(), abs=0.01)
    # of one sample it is the start
    alone = frontier.best_of(table, "sft", table.judge, 1)
    assert alone.tolist() == pytest.approx(frontier.normalised(table.sft, table.prompt).tolist())


def test_what_is_reached(table):
    got = frontier.reached(table, table.sft, "sft")
    assert got["kl"] == pytest.approx(0)
    assert got["likeliest"] == pytest.approx((2 + 4) / 2)
    expected = [1 / 3 * 1 + 1 / 2 * 2 + 1 / 6 * 3, 0.1 * 6 + 0.1 * 5 + 0.8 * 4]
    assert got["true"] == pytest.approx(np.mean(expected))


def test_the_enumeration_holds_each_answer_once_with_its_grade(tiny_policy):
    prompts = list(sets.groups(2, 0, split="validation"))
    table = frontier.enumerated(prompts, {"base": tiny_policy})
    assert table.groupby("prompt").size().isin([72, 120]).all()
    assert not table.duplicated(["prompt", "text"]).any()
    best = table.loc[table.groupby("prompt").true.idxmax()]
    cards = [card_of(prompt.id) for prompt in prompts]
    assert best.text.tolist() == [write(card, faultless(card)) for card in cards]
    assert best.true.tolist() == pytest.approx([7.6, 7.6])
    one_by_one = tiny_policy.log_probs([sets.answered(prompts[0], table.text[:1])])[0]
    assert table.base[0] == pytest.approx(one_by_one.item(), abs=1e-4)
    assert (table.base < 0).all()


def test_the_slope_of_preferences_is_that_of_a_logistic_model():
    """Raters' choices follow what they see: more helpfulness seen, more often preferred."""
    groups = list(sets.groups(600, 0))
    assert 1 < frontier.preference_slope(groups) < 5
