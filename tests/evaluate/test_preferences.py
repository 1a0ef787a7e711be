"""How DPO orders pairs, beside the longer response, and what its checkpoints do; numbers by hand, a tiny policy."""

from dataclasses import replace

import numpy as np
import pytest

from hs2lib.align import dpo
from hs2lib.engine import checkpoints
from hs2lib.evaluate import preferences
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.questions import mean
from hs2lib.group import Group, Response, Turn
from hs2lib.models import saved
from hs2lib.runs.setup import Setup
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
    assert ordered.n_prompts == 2
    _, low, high = ordered.table.loc["log-ratio of the chosen, nats"]
    assert low < 1 < high


def test_the_likelihood_before_training_stands_beside_it_where_it_is_known():
    """By hand: the reference finds two chosen responses likelier, and one pair alike."""
    reference = np.array([[-1.0, -2.0], [-3.0, -3.0], [-1.0, -3.0]])
    ordered = preferences.order(RATIOS, PAIRS, reference=reference, **RESAMPLED)
    share = ordered.table.loc["right by SFT's likelihood, %"]
    assert (
        share["mean"] == pytest.approx(250 / 3)
        and 0 <= share["95 % low"] < share["95 % high"] <= 100
    )


def test_of_a_policy_that_is_its_reference_no_order_is_reported():
    """Every margin is 0 but for rounding: 0 % were said to be in the right order."""
    ordered = preferences.order(RATIOS, PAIRS, trained=False, held_out=False, **RESAMPLED)
    assert (
        ordered.table.loc["right, %"].isna().all()
        and ordered.table.loc["right by length, %", "mean"] == 50
    )


def test_the_pairs_to_look_at_are_the_median_and_the_lowest():
    """Margins 1, -1 and 2: the median pair is the first, the lowest the second."""
    ordered = preferences.order(RATIOS, PAIRS, **RESAMPLED)
    items = Prepared([], [Item(group.id, (), np.zeros(0)) for group in PAIRS], {})
    pairs = dpo.Pairs(None, None, [], PAIRS, {})
    shown = preferences.to_look_at(ordered, items, pairs)
    assert [group.id for group in shown.values()] == ["a1", "a2"]


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
