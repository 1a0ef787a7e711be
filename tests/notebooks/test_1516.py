"""Notebooks 15 and 16: cells of formulas are executed and held to the library or another program."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge

from hs2lib import beyond
from hs2lib.data import reward_benchmarks
from hs2lib.train import losses
from hs2lib.world import grade, pairs, sets
from hs2lib.world.cards import card_of

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RATINGS = "15_ratings_or_preferences"


def source(name, id):
    """The source of a cell."""
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4).cells
    (found,) = [cell for cell in cells if cell.id == id]
    return found.source


def run_cells(*ids, **values):
    """The names that cells of notebook 15 leave, after its imports."""
    imports = source(RATINGS, "start").split("run = report")[0]
    namespace = dict(values)
    for text in (imports, *(source(RATINGS, id) for id in ids)):
        exec(text, namespace)
    return namespace


def judgements(n=40, hidden=3):
    """States, ratings and strengths of pairs, some of them ties."""
    rng = np.random.default_rng(0)
    states = torch.tensor(rng.normal(size=(n, 2, hidden)))
    ratings = torch.tensor(rng.integers(0, 5, size=(n, 2))).double()
    return states, ratings, (ratings[:, 1] - ratings[:, 0]).clamp(-3, 3)


def test_the_cells_losses_are_the_librarys_with_their_gradients():
    made = run_cells("losses")["LOSSES"]
    states, ratings, strength = judgements()
    told = strength != 0
    assert told.any() and not told.all()
    m = strength[told].abs()

    def of_pairs(r):
        second = (strength[told] > 0).long()[:, None]
        return r[told].gather(1, second)[:, 0], r[told].gather(1, 1 - second)[:, 0]

    theirs = {
        "regression": lambda r: losses.regression_loss(r, ratings),
        "Bradley-Terry": lambda r: losses.bradley_terry_loss(*of_pairs(r)).mean(),
        "margin": lambda r: losses.margin_loss(*of_pairs(r), m).mean(),
        "scaled": lambda r: losses.scaled_loss(*of_pairs(r), m).mean(),
    }
    assert made.keys() == theirs.keys()
    for name in made:
        both = []
        for loss in (partial(made[name], ratings=ratings, strength=strength), theirs[name]):
            r = states.sum(-1).requires_grad_()
            value = loss(r)
            value.backward()
            both.append((value.detach(), r.grad))
        for mine, other in zip(*both, strict=True):
            torch.testing.assert_close(mine, other)


def test_a_head_is_that_of_scikit_learn():
    made = run_cells("losses", "fit", penalty=0.01)
    states, ratings, strength = judgements()
    w, b = made["fit"](made["LOSSES"]["regression"], states, ratings, strength)
    flat = states.flatten(0, 1).numpy()
    ridge = Ridge(0.01 * len(flat)).fit(flat, ratings.flatten().numpy())
    np.testing.assert_allclose(w, ridge.coef_, atol=1e-5)
    assert b.item() == pytest.approx(ridge.intercept_, abs=1e-5)

    w, _ = made["fit"](made["LOSSES"]["scaled"], states, ratings, strength)
    told = (strength != 0).numpy()
    apart = (states[:, 1] - states[:, 0]).numpy()[told]
    # mean over n pairs + .01 |w|^2 is scikit-learn's C * sum + |w|^2 / 2 at C = 1 / (.02 n)
    fitted = LogisticRegression(C=1 / (0.02 * told.sum()), fit_intercept=False, tol=1e-10)
    fitted.fit(apart, (strength > 0).numpy()[told], sample_weight=strength.abs().numpy()[told])
    np.testing.assert_allclose(w, fitted.coef_[0], atol=1e-4)


def test_bradley_terry_does_not_see_what_is_added_to_a_prompt():
    made = run_cells("losses")["LOSSES"]
    states, ratings, strength = judgements()
    r = states.sum(-1)
    moved = r + 5 * torch.arange(len(r))[:, None]
    for name in ("Bradley-Terry", "margin", "scaled"):
        torch.testing.assert_close(
            made[name](moved, ratings, strength), made[name](r, ratings, strength)
        )
    assert made["regression"](moved, ratings, strength) > made["regression"](r, ratings, strength)


def test_the_exercises_solution_is_the_librarys_loss_of_ties():
    text = re.findall(r"```python\n(.*?)```", source(RATINGS, "questions"), re.S)[1]
    made = run_cells()
    exec(text, made)
    r = torch.tensor([[0.0, 1.5], [2.0, 2.0]])
    theirs = losses.tie_loss(r[:, 0], r[:, 1]).mean()
    torch.testing.assert_close(made["with_ties"](r, None, torch.zeros(2)), theirs)


def judged(groups, preferences="", stated=()):
    """The pairs that the cell of the data leaves of groups."""
    data = SimpleNamespace(groups={"train": groups})
    asked = SimpleNamespace(groups=list(stated))
    values = {"setup": None, "preferences": preferences, "source": "postcards"}
    namespace = run_cells(**values)
    namespace["reward_training"] = SimpleNamespace(load_parts=lambda setup: data)
    namespace["load"] = lambda *_, **__: asked
    namespace["replace"] = lambda thing, **new: (
        SimpleNamespace(**new) if thing is data else replace(thing, **new)
    )
    exec(source(RATINGS, "data"), namespace)
    return namespace["data"].groups["train"]


def with_ratings(group, *ratings):
    """A pair with these ratings of helpfulness."""
    responses = []
    for response, rating in zip(group.responses, ratings, strict=True):
        responses.append(replace(response, labels=(rating, *response.labels[1:])))
    return replace(group, responses=tuple(responses))


def test_a_preference_is_the_difference_of_two_ratings_and_at_most_three():
    one, two, three, four = sets.groups(4, 0, split="train")
    groups = [
        with_ratings(one, 0, 4),
        with_ratings(two, 3, 1),
        with_ratings(three, 2, float("nan")),
        replace(four, responses=four.responses[:1]),
    ]
    assert [pair.preference for pair in judged(groups)] == [3, -2]


def test_a_stated_preference_is_found_by_its_texts_and_pairs_without_one_are_left_out():
    one, two = sets.groups(2, 0, split="train")
    stated = replace(two, id="another name", preference=-1.0)
    (pair,) = judged([one, two], "helpsteer2-preference", [stated])
    assert pair.id == two.id and pair.preference == -1


def test_a_score_that_is_the_truth_loses_by_what_is_added_to_prompts_alone():
    true = np.random.default_rng(1).normal(size=(200, 2))
    offsets = np.random.default_rng(2).normal(size=(200, 1))
    made = run_cells("measure", data=None)
    scores = {"Bradley-Terry": true + offsets, "same": true}
    over_all = made["measured"](scores, true, "Pearson").ours
    within = made["measured"](scores, true, "Pearson", centred=True).ours
    assert within["Bradley-Terry"] == pytest.approx(1) == pytest.approx(within["same"])
    by_scipy = stats.pearsonr(scores["Bradley-Terry"].ravel(), true.ravel()).statistic
    assert over_all["Bradley-Terry"] == pytest.approx(by_scipy)
    gain = made["measured"](scores, true, "Pearson", minus="Bradley-Terry").loc["same"]
    assert gain.low > 0
    points = run_cells("in-points", equal={}, faultless=[])["in_points"]
    assert points(3 * true + offsets, true) == pytest.approx(3)


def test_results_of_others_are_shares_of_pairs():
    anchors = beyond.anchors()
    assert anchors.value.between(0, 1).all() and (anchors.pairs > 0).all()
    assert anchors.source.notna().all() and not anchors.model.duplicated().any()


@pytest.mark.parametrize("name", list(pairs.PARTS))
def test_generated_questions_are_never_taken_for_the_benchmark(name):
    made = reward_benchmarks.load(name, "postcards", n_per_part=2)
    assert made.generated and not made.complete and made.loaded.generated
    assert set(made.counts) == set(pairs.PARTS[name]) and all(made.counts.values())
    for group, right in zip(made.groups, made.right, strict=True):
        assert right.any() and not right.all()
        texts = np.array([response.text for response in group.responses])
        assert not set(texts[right]) & set(texts[~right])


def test_the_right_answer_has_the_higher_true_score():
    for group in reward_benchmarks.load("JudgeBench", "postcards", n_per_part=5).groups:
        card = card_of(group.id.rsplit("/", 1)[0])
        true = [grade.goodness(grade.true_ratings(card, y.text)) for y in group.responses]
        labels = [y.labels[0] for y in group.responses]
        assert np.argmax(true) == np.argmax(labels)


def test_an_unknown_source_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="did you mean 'postcards'"):
        reward_benchmarks.load("RM-Bench", "postcard")
