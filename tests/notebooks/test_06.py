"""Notebook 06: its own cells are executed, and held to the library, to scikit-learn or by hand."""

import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression

from hs2lib import paper
from hs2lib.data.pairs import load_pairs
from hs2lib.evaluate import rewardbench, weights
from hs2lib.stats.bootstrap import bootstrap, inside
from hs2lib.world import grade, sets

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "06_rewardbench_evaluation.ipynb"
CELLS = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, 4).cells}


def run(*ids, **values):
    """The names that cells leave."""
    known = {"np": np, "pd": pd, "paper": paper, "LogisticRegression": LogisticRegression}
    namespace = known | values
    for id in ids:
        exec(compile(CELLS[id], id, "exec"), namespace)
    return namespace


def margins(n_pairs, n_outputs=5):
    """Margins in float32 as a model's are, some of them equal."""
    rng = np.random.default_rng(0)
    made = rng.normal(0.1, 1, (n_pairs, n_outputs)).astype(np.float32)
    made[::9] = 0
    return made.astype(np.float64)


def test_published_subsets_give_the_sections_that_the_library_makes_of_them():
    golden = run("golden")["golden"]
    for model, by_subset in paper.SUBSET_ACCURACY.items():
        theirs = rewardbench.section_scores(by_subset)
        assert golden[model].to_dict() == pytest.approx(theirs)
        for column, value in theirs.items():
            assert 100 * value == pytest.approx(paper.value("table-3", model, column), abs=0.1)


def test_the_scale_is_that_of_maximum_likelihood():
    margin = np.random.default_rng(0).normal(0.3, 1, 200)
    times = np.random.default_rng(1).integers(0, 3, 200)
    slope_of = run("slope", rows=pd.DataFrame({"margin": margin}))["slope_of"]
    assert slope_of(np.array([1.0, 1, 1, -1])) == pytest.approx(np.log(3), rel=1e-3)

    def loss(slope, weight):
        return (weight * np.logaddexp(0, -slope * margin)).sum()

    for weight in (np.ones(200), times):
        slope = minimize_scalar(loss, bounds=(-5, 5), args=(weight,), method="bounded").x
        assert slope_of(margin, weight) == pytest.approx(slope, rel=1e-3)
    assert slope_of(1000 * margin) == pytest.approx(slope_of(margin) / 1000, rel=1e-4)


def test_a_share_of_right_pairs_lies_in_its_interval_also_at_its_end():
    rows = pd.DataFrame({"right": [True, False], "prompt": [0, 1]})
    share_of = run("share", bootstrap=bootstrap, inside=inside, rows=rows)["share_of"]
    share, low, high = share_of(np.array([True] * 6 + [False] * 4), list(range(10)))
    assert low < share == 0.6 < high
    share, low, high = share_of(np.array([True] * 10), list(range(10)))
    assert (share, high) == (1, 1)
    assert low == pytest.approx(0.025**0.1)


def searched():
    """The cell of the search, on a model of the paper's outputs."""
    rng = np.random.default_rng(0)
    return run("search", outputs=list(paper.ATTRIBUTES), negative=["verbosity"], rng=rng)


def test_pairs_of_equal_length_have_a_column_of_their_own():
    """They were counted as pairs whose better answer is shorter."""
    values = {"seed": 0, "scores": np.array([[1.0, 0], [0, 1], [1, 0]])}
    values |= {"characters": np.array([[9, 5], [5, 9], [7, 7]])}
    values["scored"] = SimpleNamespace(benchmark=SimpleNamespace(pairs=["x"] * 3))
    values["rewardbench"] = SimpleNamespace(
        subset_of=lambda pair: "x", prompt_numbers=lambda benchmark: np.arange(3)
    )
    by_length = run("rows", **values)["by_length"]
    assert by_length.pairs.to_dict() == {
        ("x", "better is longer"): 1,
        ("x", "better is shorter"): 1,
        ("x", "same length"): 1,
    }
    assert by_length["share right"].to_list() == [1, 0, 1]


def test_the_search_of_the_cell_is_the_librarys():
    made, of_pairs = searched(), margins(80)
    best, share = made["best_of"](of_pairs)
    theirs = weights.search(of_pairs, over=weights.grid(0.25))
    assert len(made["grid"]) == len(weights.grid(0.25))
    assert share == theirs.value
    assert weights.value_of(best, of_pairs) == share


def test_a_search_on_coins_promises_more_than_a_half_and_keeps_a_half():
    made = searched()
    rng = np.random.default_rng(1)
    tries = []
    for _ in range(20):
        coins = margins(60) * rng.choice([-1, 1], size=(60, 1))
        tries.append(made["promised_and_kept"](coins[coins.any(axis=1)], np.arange(53)))
    promised, kept = np.mean(tries, axis=0)
    assert promised > 0.6
    assert kept == pytest.approx(0.5, abs=0.06)


def test_edits_change_an_answer_as_their_names_say():
    edits = run("edits", re=re)["EDITS"]
    made = [edit("One fact. And two more facts.") for edit in edits.values()]
    assert made[:2] == ["One fact.", "One fact. And"]
    assert all(
        edit("One fact.").count("One fact.") == 1 + (name == "said twice")
        for name, edit in list(edits.items())[2:]
    )


@pytest.mark.parametrize("section", ["chat", "chat-hard", "safety", "reasoning"])
def test_the_better_answer_of_a_generated_pair_is_truly_better(section):
    benchmark = load_pairs("postcards", n_per_section=10, seed=3)
    assert benchmark.generated
    of_section = [pair for pair in benchmark.pairs if rewardbench.subset_of(pair) == section]
    assert len(of_section) == 10
    for pair in of_section:
        better, worse = grade.true_goodness(pair)
        assert better > worse


def test_pairs_of_postcards_are_postcards():
    benchmark = load_pairs("postcards", n_per_section=4)
    assert sets.is_generated(benchmark.pairs)
    assert rewardbench.title(benchmark) == "generated benchmark (not RewardBench)"


def test_own_pairs_are_never_searched_against_generated_ones():
    own = load_pairs("postcards", n_per_section=4)
    own = rewardbench.replace(own, kind="own")
    scored = rewardbench.Scored(np.zeros((16, 2, 5)), (), own, {})
    model = SimpleNamespace(attributes=paper.ATTRIBUTES)
    setup = SimpleNamespace(recipe=SimpleNamespace(source="postcards"))
    assert weights.search_heads(scored, model, setup) is None


def test_an_unknown_source_is_named_with_those_there_are():
    with pytest.raises(
        ValueError, match=r"'postcard'.*postcards.*there are: postcards, folder, hub"
    ):
        load_pairs("postcard")
