"""What takes goodness away, by part: it adds up, and what is given back is no gain."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import generate
from hs2lib.corpus.grade import COSTS, true_goodness
from hs2lib.evaluate import content


def test_the_parts_and_the_truth_add_up_to_a_faultless_answer():
    groups = list(generate.groups(20, seed=3))
    costs = content.costs_of(groups)
    truth = np.concatenate([true_goodness(group) for group in groups])
    assert list(costs.columns) == list(COSTS) and costs.index[0] == groups[0].id
    np.testing.assert_allclose(costs.sum(axis=1) + truth, 7.6)
    best = [generate.without_faults(group) for group in groups]
    singles = [replace(group, responses=group.responses[:1]) for group in best]
    assert content.costs_of(singles).habits.max() == pytest.approx(0)


def test_what_attributes_that_end_at_0_return_is_neither_a_loss_nor_a_gain():
    """More faults at once give more back, which is no better answer."""
    assert content.GIVES_BACK in COSTS
    columns = ["part", "SFT", "PPO", "difference", "95 % low", "95 % high"]
    for difference in (-0.2, 0.2):
        ends = (difference - 0.1, difference + 0.1)
        rows = [(content.GIVES_BACK, -0.2, -0.2 + difference, difference, *ends)]
        rows.append(("habits", 2.0, 1.0, -1.0, -1.2, -0.8))
        less, more = content.parts_in_words(pd.DataFrame(rows, columns=columns))
        assert content.GIVES_BACK not in less + more and "habits" in less
