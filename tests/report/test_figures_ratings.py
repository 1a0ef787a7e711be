"""Figures of ratings draw what they are handed, also where a value is missing."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from hs2lib.report import figures_ratings
from hs2lib.stats.bootstrap import Interval


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_each_rating_has_a_bar_of_its_share():
    shares = pd.DataFrame([[10.0, 20, 30, 40, 0]], index=["helpfulness"])
    (ax,) = figures_ratings.rating_shares(shares, "a title").axes
    assert [bar.get_height() for bar in ax.patches] == [10, 20, 30, 40, 0]


def test_a_missing_r_is_left_out_of_the_map():
    r = np.array([[1, 0.5, 0.2], [0.5, 1, np.nan], [0.2, np.nan, 1]])
    ranks = np.array([[1, 0.55, 0.9], [0.55, 1, 0], [0.9, 0, 1]])
    fig = figures_ratings.correlation_map(["a", "b", "c"], Interval(r, r - 0.1, r + 0.1), ranks)
    assert len(fig.axes[0].texts) == 2


def test_rules_at_one_place_have_an_interval_each():
    rules = pd.DataFrame({"asked": [3.0, 3.01, 5.0], "error": [0.5, 0.501, 0.4]}, ["a", "b", "c"])
    rules = rules.assign(low=rules.error - 0.01, high=rules.error + 0.02)
    fig = figures_ratings.error_by_cost(rules, "a title")
    (bars,) = fig.axes[0].containers
    ends = [segment[:, 1].tolist() for segment in bars[2][0].get_segments()]
    assert ends == pytest.approx(rules[["low", "high"]].to_numpy())
