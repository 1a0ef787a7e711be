"""How DPO orders pairs, beside the longer response, and what its checkpoints do; numbers by hand, a tiny policy."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hs2lib.align import dpo
from hs2lib.engine import checkpoints
from hs2lib.evaluate import preferences
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.questions import mean
from hs2lib.group import Group, Response, Turn
from hs2lib.models import saved
from hs2lib.run.setup import Setup
from hs2lib.stats.bootstrap import inside
from hs2lib.train.items import Item, Prepared
from hs2lib.train.recipes import DPO
from hs2lib.train.trainer import Outputs

RESAMPLED = {"n_boot": 500, "seed": 0}


def pair(name, chosen, rejected):
    """A pair to the prompt that is the first letter of its name."""
    return Group(name, (Turn("user", name[0]),), (Response("0", chosen), Response("1", rejected)))


PAIRS = [pair("a1", "long", "x"), pair("a2", "as", "is"), pair("b", "x", "long")]
RATIOS = np.array([[1.0, 0], [0, 1], [2, 0]])


def test_the_longer_response_stands_beside_the_order_of_held_out_pairs():
    """Three pairs, two of one prompt: intervals are by prompt, and those of shares lie between 0 and 100."""
    ordered = preferences.order(RATIOS, PAIRS, **RESAMPLED)
    np.testing.assert_allclose(ordered.table["mean"], [200 / 3, 50, 50 / 3, 2 / 3, 1, 1 / 3])
    by_prompt = inside(mean([100, 0, 100], ["a", "a", "b"], **RESAMPLED), 0, 100, 2)
    assert (
        ordered.table.loc["right, %"].tolist() == list(by_prompt)
        and 0 <= by_prompt.low < by_prompt.high <= 100
    )
    assert ordered.pairs == "3 held-out pairs" and ordered.n_prompts == 2
    assert ordered.sentence.startswith(
        "67 % of 3 held-out pairs are in the right order (95 % interval "
    )
    first, second = ordered.sentences()
    assert first.endswith("; by length alone 50 % would be right.")
    _, low, high = ordered.table.loc["log-ratio of the chosen, nats"]
    assert low < 1 < high
    chosen = f"the chosen responses changed by +1.00 nats ({low:+.2f} to {high:+.2f})"
    assert second.startswith(f"On average {chosen} and the rejected responses changed by +0.33")


def test_the_likelihood_before_training_stands_beside_it_where_it_is_known():
    """By hand: the reference finds two chosen responses likelier, and one pair alike."""
    reference = np.array([[-1.0, -2.0], [-3.0, -3.0], [-1.0, -3.0]])
    ordered = preferences.order(RATIOS, PAIRS, reference=reference, **RESAMPLED)
    share = ordered.table.loc["right by SFT's likelihood, %"]
    assert (
        share["mean"] == pytest.approx(250 / 3)
        and 0 <= share["95 % low"] < share["95 % high"] <= 100
    )
    assert "by length alone 50 % and by SFT's own likelihood 83 % would" in ordered.sentences()[0]


def test_of_a_policy_that_is_its_reference_no_order_is_reported():
    """Every margin is 0 but for rounding: 0 % were said to be in the right order."""
    ordered = preferences.order(RATIOS, PAIRS, trained=False, held_out=False, **RESAMPLED)
    assert (
        ordered.table.loc["right, %"].isna().all()
        and ordered.table.loc["right by length, %", "mean"] == 50
    )
    assert (
        ordered.sentence
        == "nothing is ordered: of 3 training pairs every margin is 0 but for rounding"
    )


def test_the_pairs_to_look_at_are_the_median_and_the_lowest():
    """Margins 1, -1 and 2: the median pair is the first, the lowest the second."""
    ordered = preferences.order(RATIOS, PAIRS, **RESAMPLED)
    items = Prepared([], [Item(group.id, (), np.zeros(0)) for group in PAIRS], {})
    pairs = dpo.Pairs(None, None, [], PAIRS, {})
    shown = preferences.to_look_at(ordered, items, pairs)
    assert [group.id for group in shown.values()] == ["a1", "a2"]
    why = list(shown)[1]
    assert why == "The pair of the lowest margin (-1.0 nats: chosen +0.0, rejected +1.0)"


def test_half_of_the_pull_is_left_at_ln_3_over_beta():
    """By hand: 2 sigma(-ln 3) = 2 / (1 + 3). One pair there and one at 0 have three quarters left."""
    moved = pd.DataFrame({"margin": [np.log(3) / 0.5, 0.0]})
    half, ours, papers = preferences.pull_in_words(0.5, moved)
    assert half == "At beta = 0.5 half of the pull is left at a margin of 2.2 nats."
    assert ours == (
        "At these pairs' mean margin of 1.1 nats 73 % is left. "
        "Averaged over the pairs it is 75 %, because pairs near or below 0 keep most."
    )
    assert "half is left at 1,099 nats; the largest margin here is 2.2." in papers
    one = moved.iloc[:1]
    assert preferences.pull_in_words(0.5, one)[1].endswith("Averaged over the pairs it is 50 %.")


def test_the_pairs_that_chose_the_step_say_so():
    validation = pd.DataFrame({"step": [0, 2, 4], "accuracy": [np.nan, 0.94, 0.88]})
    words = "These pairs also chose the step that stays, so the share may be a little too high."
    assert preferences.chosen_in_words(validation, 2) == f"{words} At the last step it is 88 %."
    assert preferences.chosen_in_words(validation, 4) == words
    assert preferences.chosen_in_words(validation, 0) == "", "nothing is ordered"
    assert preferences.chosen_in_words(validation.iloc[:0], 2) == ""


def test_the_title_of_a_path_is_the_step_that_stays():
    rows = [(2, "truth", 1.0, 0.5, 1.5), (4, "truth", 0.5, -0.1, 1.1), (4, "kl", 3.0, 2.0, 4.0)]
    path = pd.DataFrame(rows, columns=preferences.PATH)
    kept = "Step {} is kept; less SFT, sampled: truth {}"
    assert preferences.path_in_words(path, 2) == kept.format(2, "+1.00")
    assert preferences.path_in_words(path, 4) == kept.format(4, "+0.50 (not shown)")
    assert preferences.path_in_words(path, 6) == "Step 6 is kept: not scored"


def test_every_step_of_a_path_in_words():
    """By hand: at step 2 the score is .3 above the truth, at step 4 no score was asked for."""
    rows = [(0, "truth", 0.0, 0.0, 0.0), (2, "truth", 1.0, 0.5, 1.5), (4, "truth", 0.5, 0.0, 1.0)]
    rows += [(2, preferences.SCORE, 1.3, 1.0, 1.6), (2, preferences.APART, 0.3, 0.1, 0.5)]
    path = pd.DataFrame(rows, columns=preferences.PATH)
    assert preferences.path_sentences(path) == [
        "Gains over SFT at step 2: truth +1.00 (+0.50 to +1.50), "
        "reward model's score +1.30 (+1.00 to +1.60); "
        "**the score outruns the truth** by +0.30 (0.10 to 0.50, by prompt).",
        "Gains over SFT at step 4: truth +0.50 (+0.00 to +1.00).",
    ]
    assert preferences.path_sentences(path[path.step == 0]) == []


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """The setup of a run of four steps that keeps all weights, in a folder of its own; its models are the others'."""
    models = Setup("08_dpo", "smoke", {}, None).folder.parents[1] / "models"
    models.mkdir(parents=True, exist_ok=True)
    (tmp_path / "models").symlink_to(models)
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    recipe = DPO(
        n_prompts=24,
        batch=4,
        steps=4,
        validate_every=2,
        keep=9,
        learning_rate=1e-3,
        warmup=0,
        beta=0.1,
        start="tiny",
        reward="none",
        n_eval_prompts=3,
        eval_tokens=6,
        n_boot=100,
    )
    return Setup("08_dpo", "smoke", {"tier": "smoke"}, recipe)


@pytest.mark.slow
def test_along_its_checkpoints_a_training_is_measured_and_its_weights_stay(setup):
    """Each margin is worked out again from the checkpoint's own weights; step 0 gains nothing and has no order."""
    pairs = dpo.load_pairs(setup)
    policy = saved.starting_policy(setup)
    items = dpo.prepare(policy, pairs, setup)
    result = dpo.train(policy, items, setup)
    assert result.arguments["objective"].name == "DPO, beta 0.1"
    reference = saved.starting_policy(setup, frozen=True)
    compared = Comparison.begin(setup, None, reference, earlier=False)
    compared.evaluate_first(reference, "SFT")
    compared.evaluate(policy, "DPO")
    trained = policy.fingerprint()
    path = preferences.along(policy, items, pairs, result, compared, setup)
    assert policy.fingerprint() == trained
    assert path.columns.tolist() == preferences.PATH
    steps = path.groupby("measure").step.agg(list).to_dict()
    assert steps.pop("accuracy") == [2, 4]
    assert set(steps) == {"characters", "kl", "margin", "truth"} and all(
        at == [0, 2, 4] for at in steps.values()
    )
    at = path.set_index(["measure", "step"]).difference
    assert at["truth", 0] == at["characters", 0] == at["kl", 0] == 0 and at[
        "margin", 0
    ] == pytest.approx(0, abs=1e-4)
    checkpoints.load_weights(
        Outputs(policy, None, "float32"), result.folder / "best" / "step-000004"
    )
    ratios = dpo.log_ratios(policy, items.validation)
    assert (
        at["margin", 4] == pytest.approx((ratios[:, 0] - ratios[:, 1]).mean(), rel=1e-4)
        and at["margin", 4] != 0
    )
    assert at["accuracy", 4] == pytest.approx(100 * (ratios[:, 0] > ratios[:, 1]).mean())
    without = replace(result, folder=setup.folder / "another")
    assert preferences.along(policy, items, pairs, without, compared, setup).empty, (
        "TRL keeps no checkpoint"
    )


def test_margins_by_step_are_drawn_with_what_they_are_compared_with():
    """A panel of one measure has no legend; the order of pairs is compared with chance."""
    from hs2lib.report import figures

    rows = [
        (0, "truth", 0.0, 0.0, 0.0),
        (2, "truth", 0.5, 0.1, 0.9),
        (2, "accuracy", 75.0, 60.0, 90.0),
    ]
    path = pd.DataFrame(rows, columns=preferences.PATH)
    panels = [
        figures.Panel("points", {"truth": figures.TRUTH, "reward model's score": figures.SCORE}),
        figures.Panel("%", {"accuracy": figures.LENGTH}, level=50),
    ]
    left, right = figures.by_step(path, panels).axes
    assert (
        left.lines[0].get_xydata().tolist() == [[0, 0], [2, 0.5]] and left.get_ylabel() == "points"
    )
    assert right.lines[0].get_xydata().tolist() == [[2, 75]] and right.lines[1].get_ydata()[0] == 50
    assert left.get_legend() is None and right.get_legend() is None
    left, right = figures.by_step(path, panels, kept=2).axes
    assert set(left.lines[-1].get_xdata()) == set(right.lines[-1].get_xdata()) == {2}
    assert [text.get_text() for text in left.texts] == ["kept"]
    assert left.get_legend() is None and right.get_legend() is None
