"""A reward model's training: rows that never meet, outputs that are rated, baselines that never see the test part."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from shared_models import share_models
from tiny_training import made, tiny

from hs2lib.data.load import Loaded
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.models import reward_training
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.reward_training import BaselineInputs, Parts, Prepared
from hs2lib.runs.setup import Setup
from hs2lib.train import items, objectives, recipes

NOTEBOOK = "05_reward_model_training"


def setup_of(**settings):
    """A setup by hand, as a benchmark makes it: no notebook, no parameter file."""
    quick = {
        "steps": 2,
        "batch": 4,
        "warmup": 0,
        "autocast": "float32",
        "n_boot": 100,
        "n_prompts": 20,
    }
    return Setup(NOTEBOOK, "smoke", {"tier": "smoke"}, recipes.RewardModel(**quick | settings))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Runs of the test's own."""
    monkeypatch.setenv("HS2_RUNS", str(share_models(tmp_path)))
    return tmp_path / "smoke" / NOTEBOOK


# Rows


def test_what_is_tested_on_comes_from_the_split_that_nothing_is_trained_on():
    """Rows that were trained on say nothing about other rows."""
    data = reward_training.load_parts(setup_of(validation_share=0.2, test_share=0.5))
    assert list(data.groups) == ["validation", "test", "train"]
    known = {name: {items.cluster(group) for group in part} for name, part in data.groups.items()}
    seen = known["train"] | known["validation"]
    assert len(known["validation"]) == round(0.2 * len(seen)) > 0
    assert len(seen) == len(known["train"]) + len(known["validation"])
    assert len(data.groups["train"]) + len(data.groups["validation"]) == 20
    assert len(data.groups["test"]) == 10 and not seen & known["test"]
    assert data.groups["test"] is data.held_out.groups and not data.chosen_on_test


def test_without_a_share_to_choose_by_the_test_split_chooses_and_measures():
    """The paper's way, which baselines must know of: they may not be fitted to what they are measured on."""
    data = reward_training.load_parts(setup_of(validation_share=0.0))
    assert data.chosen_on_test and data.groups["validation"] is data.groups["test"]


def test_a_file_of_the_user_is_cut_three_ways(tmp_path):
    """It has no splits: the named test split would be the same rows once more."""
    labels = dict.fromkeys(ATTRIBUTES, 2)
    rows = [
        labels | {"prompt": f"{i}?", "response": answer} for i in range(20) for answer in ("a", "b")
    ]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = {"dataset": "ratings", "source": "folder", "path": str(tmp_path / "mine.jsonl")}
    data = reward_training.load_parts(setup_of(validation_share=0.1, test_share=0.25, **own))
    assert data.held_out is None
    assert {name: len(part) for name, part in data.groups.items()} == {
        "validation": 2,
        "test": 5,
        "train": 13,
    }


# Model and items


def group(name, texts=("yes", "no"), labels=((4.0,), (0.0,)), attributes=("helpfulness",)):
    responses = [
        Response(f"{name}/{i}", *both) for i, both in enumerate(zip(texts, labels, strict=True))
    ]
    return Group(name, (Turn("user", f"{name}?"),), tuple(responses), attributes)


def parts(groups):
    return Parts(
        {"validation": groups[:1], "test": groups[1:2], "train": groups[2:]},
        Loaded(groups, "x", False),
    )


def test_what_nobody_rated_is_no_output():
    """Its column has no label to fit a baseline to, and a loss of no cell."""
    both = ("helpfulness", "verbosity")
    groups = [
        group(str(i), labels=((4.0, np.nan), (0.0, np.nan)), attributes=both) for i in range(4)
    ]
    setup = setup_of(model_name="tiny", attributes=both)
    assert reward_training.not_learnt(parts(groups), setup) == {"verbosity": "not rated"}
    assert reward_training.new_model(parts(groups), setup).attributes == ("helpfulness",)
    pairs = setup_of(model_name="tiny", objective="bradley-terry")
    assert reward_training.not_learnt(parts(groups), pairs) == {}
    assert reward_training.new_model(parts(groups), pairs).attributes == ("reward",)


def test_items_have_the_labels_of_their_part_and_are_counted():
    setup = setup_of(model_name="tiny", attributes=("helpfulness",))
    data = parts([group(str(i)) for i in range(4)])
    prepared = reward_training.prepare(reward_training.new_model(data, setup), data, setup)
    assert prepared.items["train"][0].targets.tolist() == [[4], [0]]
    assert prepared.counts.loc["groups"].to_dict() == {"validation": 1, "test": 1, "train": 2}


# Baselines


def inputs(test_targets=3.0):
    """Ten groups to fit to in two parts, two to measure on; a state is its label and a constant."""
    made_items = {
        name: made(n, seed)
        for name, n, seed in (("train", 8, 0), ("validation", 4, 1), ("test", 2, 2))
    }
    for item in made_items["test"]:
        item.targets[:] = test_targets
    states = {}
    clusters = {}
    for name, some in made_items.items():
        targets = np.concatenate([item.targets for item in some])
        states[name] = np.column_stack([targets, np.ones(len(targets))]).astype(np.float32)
        clusters[name] = np.array([item.id for item in some for _ in item.sequences])
    return BaselineInputs(made_items, clusters, states, ("train", "validation"))


def test_baselines_are_fitted_to_the_known_parts_alone():
    """One that saw the labels it is measured by would be no floor."""
    setup = setup_of()
    predicted = reward_training.fit_baselines(inputs(), setup)
    assert list(predicted) == ["mean", "log-length", "ridge on frozen states"]
    labels = np.concatenate(
        [item.targets for part in ("train", "validation") for item in inputs().items[part]]
    )
    means = np.nanmean(np.where(labels == -100, np.nan, labels), axis=0)
    np.testing.assert_allclose(
        predicted["mean"], np.tile(means, (len(predicted["mean"]), 1)), rtol=1e-6
    )
    other = replace(inputs(), items=inputs(test_targets=0.0).items)
    for name, values in reward_training.fit_baselines(other, setup).items():
        np.testing.assert_array_equal(values, predicted[name])


def test_without_states_there_is_no_ridge():
    """`ridge_groups: 0` and a fresh head ask for none: a large base is not run for baselines."""
    assert list(reward_training.fit_baselines(replace(inputs(), states={}), setup_of())) == [
        "mean",
        "log-length",
    ]


def test_the_head_starts_where_the_recipe_says():
    """At the ridge solution a model predicts before any step; a fresh one is near zero."""
    states = inputs().states["train"]
    wide = replace(inputs(), states={"train": np.pad(states, ((0, 0), (0, 16 - states.shape[1])))})
    fresh, started = tiny(), tiny()
    reward_training.start_head(fresh, wide, setup_of(head="fresh"))
    reward_training.start_head(started, wide, setup_of(head="ridge"))
    assert torch.equal(fresh.head.weight, tiny().head.weight)
    predicted = started.predict(torch.from_numpy(wide.states["train"])).detach().numpy()
    labels = np.concatenate([item.targets for item in wide.items["train"]])
    known = labels != -100
    assert np.abs(predicted - labels)[known].mean() < 0.5 < np.abs(labels)[known].mean()


# Training


def prepared():
    """Tiny items, which need no tokenizer."""
    three = {"train": made(8), "validation": made(4, seed=1), "test": made(4, seed=2)}
    return Prepared(three, counts=None)


def test_another_loss_is_an_argument_and_recorded(folder):
    """Who tries a loss of their own passes it; the result names it, and its training has a folder of its own."""
    setup = setup_of(attributes=("helpfulness", "verbosity"))
    doubled = objectives.REGRESSION._replace(
        name="doubled", total=lambda *of: 2 * objectives.REGRESSION.total(*of)
    )
    usual = reward_training.train(tiny(), prepared(), setup)
    other = reward_training.train(tiny(), prepared(), setup, objective=doubled)
    assert usual.arguments == {} and other.arguments == {"objective": doubled}
    assert usual.folder != other.folder and usual.folder.parent == folder
    assert other.history[0]["eval_loss"] == pytest.approx(2 * usual.history[0]["eval_loss"])


def test_adapters_are_put_on_as_the_recipe_says():
    """`method: lora` trains few weights: the head and the adapters."""
    model = tiny()
    reward_training.train(model, prepared(), setup_of(method="lora", lora_rank=2))
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert trained and all("lora" in name or name.startswith("head") for name in trained)


@pytest.mark.slow
def test_the_saved_model_scores_alike(folder):
    setup = setup_of(model_name="tiny", attributes=("helpfulness",))
    data = parts([group(str(i)) for i in range(6)])
    model = reward_training.new_model(data, setup).eval()
    made_items = reward_training.prepare(model, data, setup)
    assert reward_training.export(model, data, made_items, setup) == folder / "model"
    sequences = [item.sequences for item in made_items.items["test"]]
    again = RewardModel.load(folder / "model").score_tokens(sequences)
    assert torch.equal(again, model.score_tokens(sequences))


def test_a_saved_model_that_scores_otherwise_is_refused(monkeypatch):
    """A folder that lost a weight on the way must not be scored with."""
    setup = setup_of(model_name="tiny", attributes=("helpfulness",))
    data = parts([group(str(i)) for i in range(6)])
    model = reward_training.new_model(data, setup).eval()
    made_items = reward_training.prepare(model, data, setup)
    other = reward_training.new_model(data, setup).eval()
    with torch.no_grad():
        other.head.weight.add_(1.0)
    monkeypatch.setattr(RewardModel, "load", classmethod(lambda cls, folder: other))
    with pytest.raises(ValueError, match="scores otherwise, by up to"):
        reward_training.export(model, data, made_items, setup)
