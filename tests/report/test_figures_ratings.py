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


def texts(fig):
    return [text.get_text() for ax in fig.axes for text in ax.texts]


def test_the_share_of_each_rating_stands_on_its_bar():
    shares = pd.DataFrame([[10.0, 20, 30, 40, 0]], index=["helpfulness"])
    fig = figures_ratings.rating_shares(shares, "a title")
    assert texts(fig) == ["10", "20", "30", "40", "0"]


def test_ranks_are_named_only_where_they_differ_from_r():
    r = np.array([[1, 0.5, 0.2], [0.5, 1, np.nan], [0.2, np.nan, 1]])
    ranks = np.array([[1, 0.55, 0.9], [0.55, 1, 0], [0.9, 0, 1]])
    fig = figures_ratings.correlation_map(["a", "b", "c"], Interval(r, r - 0.1, r + 0.1), ranks)
    assert texts(fig) == ["0.50\n0.40, 0.60", "0.20\n0.10, 0.30\nranks 0.90"]


def test_kappa_by_rule_names_its_lines_and_the_papers_numbers():
    stages = ["first", "kept"]
    rows = pd.DataFrame(
        [(kind, stage, 0.5, 0.4, np.nan) for kind in ("as rated", "null") for stage in stages],
        columns=["ratings", "stage", "kappa", "low", "high"],
    )
    fig = figures_ratings.by_rule(rows.fillna(0.6), {"kept": 0.706, "other": 1.0}, "a title")
    assert {"as rated", "null", "paper 0.71"} <= set(texts(fig)) and "paper 1.00" not in texts(fig)


def test_a_kappa_of_0_has_no_sign():
    rows = pd.DataFrame(
        [(kind, "first", -0.004, -0.1, 0.1) for kind in ("as rated", "null")],
        columns=["ratings", "stage", "kappa", "low", "high"],
    )
    fig = figures_ratings.by_rule(rows, {}, "a title")
    assert texts(fig).count("0.00") == 2 and "-0.00" not in texts(fig)


def test_rules_at_one_place_share_a_label_and_each_has_its_interval():
    rules = pd.DataFrame({"asked": [3.0, 3.01, 5.0], "error": [0.5, 0.501, 0.4]}, ["a", "b", "c"])
    rules = rules.assign(low=rules.error - 0.01, high=rules.error + 0.02)
    fig = figures_ratings.error_by_cost(rules, "a title")
    assert texts(fig) == ["a,\nb", "c"]
    (bars,) = fig.axes[0].containers
    ends = [segment[:, 1].tolist() for segment in bars[2][0].get_segments()]
    assert ends == pytest.approx(rules[["low", "high"]].to_numpy())
