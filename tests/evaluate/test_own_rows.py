"""A training on rows of one's own: in a unit of their scale, exported, scored by plain transformers as here."""

import csv
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hs2lib.data import held_out
from hs2lib.data.load import load
from hs2lib.data.pairs import own_preferences
from hs2lib.data.rows import DataError
from hs2lib.evaluate import own_rows, reward_metrics, rewardbench
from hs2lib.evaluate.reward_metrics import Evaluated
from hs2lib.group import Turn
from hs2lib.models import reward_training
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.reward_training import BaselineInputs
from hs2lib.runs.setup import Setup
from hs2lib.train import recipes

QUICK = {
    "model_name": "tiny",
    "source": "folder",
    "steps": 3,
    "batch": 2,
    "warmup": 0,
    "learning_rate": 1e-3,
    "validate_every": 1,
    "head": "ridge",
    "n_boot": 100,
    "test_split": "",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Runs of the test's own."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    return tmp_path


def setup_of(path, dataset="ratings", **settings):
    values = QUICK | {"path": str(path), "dataset": dataset} | settings
    return Setup(
        "05_reward_model_training", "smoke", {"tier": "smoke"}, recipes.RewardModel(**values)
    )


def written(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


WORDS = ("water", "light", "leaf", "sugar", "plant", "green", "cell", "seed")


def answers(n=20):
    """(prompt, response, a level from 0 to 4): the level is how many words the response has, about."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(n):
        for level in rng.permutation(5)[:2]:
            words = rng.choice(WORDS, 3 + 3 * level)
            rows.append((f"What is {WORDS[number % 8]} {number}?", " ".join(words), int(level)))
    return rows


@dataclass
class Trained:
    """What a training leaves."""

    data: reward_training.Parts
    model: RewardModel
    prepared: reward_training.Prepared
    inputs: BaselineInputs
    evaluated: Evaluated
    result: object
    classifier: object = None
    setup: Setup = field(default=None)


def trained(setup):
    """The steps of notebook 05, as its stages have them."""
    data = reward_training.load_parts(setup)
    model = reward_training.new_model(data, setup)
    prepared = reward_training.prepare(model, data, setup)
    inputs = reward_training.baseline_inputs(model, data, prepared, setup)
    baselines = reward_training.fit_baselines(inputs, setup)
    reward_training.start_head(model, inputs, setup)
    result = reward_training.train(model, prepared, setup)
    evaluated = reward_metrics.evaluate(model, data, prepared, inputs, baselines, setup)
    return Trained(data, model, prepared, inputs, evaluated, result, setup=setup)


def exported(setup):
    """The same up to the classifier."""
    all_of = trained(setup)
    gains = reward_metrics.gains(all_of.evaluated, setup)
    verdict = reward_metrics.verdict(all_of.evaluated, gains, all_of.result, setup)
    reward_training.export(all_of.model, all_of.data, all_of.prepared, verdict, setup)
    card = reward_metrics.for_card(all_of.evaluated)
    all_of.classifier = reward_training.export_classifier(
        all_of.model, all_of.data, verdict, card, setup
    )
    return all_of


def plain_scores(classifier, groups):
    """What plain transformers says of every response, one by one: [R, A]."""
    tokenizer = AutoTokenizer.from_pretrained(classifier)
    model = AutoModelForSequenceClassification.from_pretrained(classifier, dtype=torch.float32)
    scores = []
    for group in groups:
        for response in group.responses:
            turns = [*group.prompt, Turn("assistant", response.text)]
            talk = [{"role": turn.role, "content": turn.text} for turn in turns]
            tokens = tokenizer.apply_chat_template(talk, return_tensors="pt", return_dict=True)
            with torch.no_grad():
                scores.append(model.eval()(**tokens).logits[0])
    return torch.stack(scores)


def assert_plain_transformers_agrees(all_of, widest):
    """To 1e-4 of the scale's width."""
    groups = all_of.data.loaded.groups
    ours = all_of.model.score(groups)
    assert (plain_scores(all_of.classifier, groups) - ours).abs().max() < 1e-4 * widest


# From a file to a classifier


@pytest.mark.slow
def test_clarity_and_tone_on_1_to_5(folder):
    """Attributes and a scale that were refused with 280 faults: trained, exported, scored by others."""
    rows = [(p, r, 1 + level, 5 - level, "x") for p, r, level in answers()]
    path = written(folder / "my.csv", ["prompt", "response", "clarity", "tone", "notes"], rows)
    all_of = exported(setup_of(path, scale="1-5"))
    assert all_of.model.attributes == ("clarity", "tone") and all_of.prepared.units == (1, 1)
    assert all_of.model.scales == {"clarity": (1, 5), "tone": (1, 5)}
    assert_plain_transformers_agrees(all_of, widest=4)
    config = AutoModelForSequenceClassification.from_pretrained(all_of.classifier).config
    assert config.id2label == {0: "clarity", 1: "tone"}
    assert RewardModel.load(all_of.setup.folder / "model").scales == all_of.model.scales
    card = (all_of.classifier / "README.md").read_text()
    assert "`clarity` (people rated from 1 to 5)" in card and "## Held-out rows" in card
    assert "your own ratings, my.csv" in card and "| clarity | Pearson |" in card
    length = own_rows.length(all_of.evaluated, all_of.inputs, all_of.data, all_of.setup)
    assert list(length.of) == ["ratings", "model"] * 2
    assert length.R.iloc[0] > 0.9, "a higher level has more words"
    shown = subprocess.run(
        [sys.executable, all_of.classifier / "use.py"], capture_output=True, text=True, check=True
    )
    assert [line.partition(":")[0] for line in shown.stdout.splitlines()] == ["clarity", "tone"]


@pytest.mark.slow
def test_preferences(folder):
    """Which of two is better, and nothing else."""
    pairs = {}
    for prompt, response, level in answers():
        pairs.setdefault(prompt, []).append((level, response))
    rows = []
    for prompt, both in pairs.items():
        (_, rejected), (_, chosen) = sorted(both)
        rows.append((prompt, chosen, rejected))
    path = written(folder / "pairs.csv", ["prompt", "chosen", "rejected"], rows)
    all_of = exported(setup_of(path, "pairs", objective="bradley-terry", head="fresh"))
    assert all_of.model.attributes == ("reward",) and all_of.model.scales == {}
    assert_plain_transformers_agrees(all_of, widest=1)
    more = own_rows.more_ratings(all_of.evaluated, all_of.inputs, all_of.data, all_of.setup)
    assert list(more.curve.groups.unique()) == [6, 12]
    left = held_out.pairs(all_of.setup.folder / held_out.FILE, {})
    assert len(left.pairs) == len(all_of.data.groups["test"]) == 5


def test_preferences_with_strength(folder):
    """How much better is read, and a strength of 0 is set aside and counted.

    Strengths were lost: only their sign was read, so that a margin was the same for all.
    """
    pairs = {}
    for prompt, response, level in answers():
        pairs.setdefault(prompt, []).append((level, response))
    rows = []
    for number, (prompt, both) in enumerate(pairs.items()):
        (low, worse), (high, better) = sorted(both)
        strength = 0 if number == 0 else min(3, high - low)
        rows.append((prompt, better, worse, -strength))  # below 0 the first is better
    header = ["prompt", "response_a", "response_b", "preference_strength"]
    path = written(folder / "pairs.csv", header, rows)
    setup = setup_of(path, "pairs", objective="bradley-terry-margin")
    data = reward_training.load_parts(setup)
    read = sorted(group.preference for group in data.loaded.groups)
    assert read == sorted(row[-1] for row in rows if row[-1]) and len(set(read)) > 2
    assert ["a tie" in str(row) for row in data.loaded.set_aside] == [True]


def test_a_margin_beside_chosen_and_rejected_is_a_strength(folder):
    """TRL's name; a row without one, or with one below 0, is a fault."""
    rows = [("a", "b", "c", 2.5), ("d", "e", "f", 0), ("g", "h", "i", 1)]
    path = written(folder / "pairs.csv", ["prompt", "chosen", "rejected", "margin"], rows)
    loaded = own_preferences(path)
    assert [group.preference for group in loaded.groups] == [-2.5, -1]
    assert ["a tie" in str(row) for row in loaded.set_aside] == [True]
    for margin in (-2, ""):
        rows = [("a", "b", "c", margin)]
        path = written(folder / "bad.csv", ["prompt", "chosen", "rejected", "margin"], rows)
        with pytest.raises(DataError, match=r"line 2, field 'margin': expected a number from 0"):
            own_preferences(path)


@pytest.mark.slow
def test_a_scale_is_a_unit_and_nothing_else(folder):
    """Ratings in 0 to 1 train the same model as four times these in 0 to 4, but for the unit of its outputs."""
    models = {}
    for name, times in (("score", 0.25), ("quality", 1.0)):
        rows = [(p, r, times * level) for p, r, level in answers()]
        path = written(folder / f"{name}.csv", ["prompt", "response", name], rows)
        setup = setup_of(path, scale=f"0-{4 * times:g}")
        models[name] = trained(setup)
    score, quality = models["score"], models["quality"]
    assert (score.prepared.units, quality.prepared.units) == ((0.25,), (1,))
    torch.testing.assert_close(
        4 * score.model.head.weight, quality.model.head.weight, rtol=1e-4, atol=1e-5
    )
    weights = score.model.backbone.state_dict()
    for name, weight in quality.model.backbone.state_dict().items():
        torch.testing.assert_close(weights[name], weight, rtol=1e-4, atol=1e-5)
    losses = [training.result.history[0]["eval_loss"] for training in (score, quality)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    errors = [training.result.history[0]["eval_MSE " + name] for name, training in models.items()]
    assert 16 * errors[0] == pytest.approx(errors[1], rel=1e-4), "metrics are on the ratings' scale"


def test_what_does_not_vary_is_no_output(folder):
    """Of a constant nothing can be learnt; R would divide by 0."""
    rows = [(p, r, level, 3) for p, r, level in answers()]
    path = written(folder / "my.csv", ["prompt", "response", "clarity", "tone"], rows)
    setup = setup_of(path, scale="0-4")
    data = reward_training.load_parts(setup)
    assert reward_training.not_learnt(data, setup) == {"tone": "every rating is 3"}
    assert reward_training.new_model(data, setup).attributes == ("clarity",)


def test_helpsteer2s_five_that_do_not_vary_are_one_error(folder):
    rows = [(p, r, 2, 2, 2, 2, 2) for p, r, _ in answers()]
    names = ["helpfulness", "correctness", "coherence", "complexity", "verbosity"]
    setup = setup_of(written(folder / "my.csv", ["prompt", "response", *names], rows))
    with pytest.raises(DataError, match="all ratings are equal") as info:
        reward_training.new_model(reward_training.load_parts(setup), setup)
    assert len(str(info.value).splitlines()) == 1


# Held-out rows, for notebook 06


@pytest.mark.slow
def test_06_measures_on_what_05_held_out(folder):
    """Pairs of the held-out prompts alone, ordered by the sum of their ratings, each attribute alike."""
    rows = [(p, r, 1 + level, level / 4) for p, r, level in answers()]
    path = written(folder / "my.csv", ["prompt", "response", "clarity", "score"], rows)
    before = setup_of(path, scale="clarity:1-5,score:0-1")
    data = reward_training.load_parts(before)
    model = reward_training.new_model(data, before)
    model.save(before.folder / "model")
    held_out.write(before.folder / held_out.FILE, data.groups["test"], data.loaded)
    tests = {group.prompt[-1].text for group in data.groups["test"]}
    setup = Setup(
        "06_rewardbench_evaluation", "smoke", {"tier": "smoke"}, recipes.RewardBench(seed=0)
    )
    benchmark = rewardbench.load_benchmark(setup)
    assert {pair.prompt[-1].text for pair in benchmark.pairs} == tests
    for pair in benchmark.pairs:
        chosen, rejected = pair.responses
        assert len(chosen.text.split()) > len(rejected.text.split()), (
            "a higher level has more words"
        )
    weighting = rewardbench.weighting_of(model.attributes, model.scales)
    np.testing.assert_allclose(weighting.values, [1 / 8, 1 / 2])
    only = recipes.RewardBench(seed=0, source="postcards", n_per_section=4, model="tiny")
    assert rewardbench.load_benchmark(Setup("06", "smoke", {}, only)).kind == "generated"


def test_held_out_rows_without_a_better_response_say_what_to_do(folder):
    rows = [(f"p{number}", "r", number % 5) for number in range(10)]
    path = written(folder / "my.csv", ["prompt", "response", "score"], rows)
    loaded = load("ratings", "folder", path=path)
    file = held_out.write(folder / held_out.FILE, loaded.groups, loaded)
    with pytest.raises(DataError, match=r"-p path=pairs\.csv"):
        held_out.pairs(file, {"score": 1.0})


def test_a_group_comes_back_as_it_was(folder):
    rows = [("p", "r", "ann", 0, None), ("p", "r", "bob", 4, 1), ("p", "s", "bob", 4, 3)]
    path = written(folder / "my.csv", ["prompt", "response", "annotator", "a", "b"], rows)
    loaded = load("ratings", "folder", path=path, scale="0-4")
    file = held_out.write(folder / held_out.FILE, loaded.groups, loaded)
    groups, source = held_out.read(file)
    assert repr(groups) == repr(loaded.groups) and source == loaded.source


# What is said besides


def test_several_annotators_give_agreement_and_a_ceiling(folder):
    """By hand: with raters who add noise of the truth's own spread, two agree at R .5 and three have the ceiling .87."""
    rng = np.random.default_rng(1)
    rows = []
    for number in range(300):
        for k in range(2):
            true = rng.normal(2, 1)
            for annotator in ("ann", "bob", "cy"):
                value = np.clip(true + rng.normal(0, 1), -3, 7)
                rows.append((f"p{number}", f"r{k}", annotator, round(value, 3)))
    path = written(folder / "my.csv", ["prompt", "response", "annotator", "score"], rows)
    setup = setup_of(path, scale="-3-7", ridge_groups=20)
    data = reward_training.load_parts(setup)
    metrics = pd.DataFrame(
        [("score", "Pearson", "trained", 0.4)], columns=["attribute", "metric", "model", "value"]
    )
    evaluated = Evaluated(("score",), {"ratings": None}, {}, np.arange(1), np.arange(1), metrics)
    table = own_rows.raters(evaluated, data, setup)
    (row,) = table.to_dict("records")
    assert (row["responses"], row["raters"]) == (600, 3)
    assert np.isnan(row["kappa"]), "numbers between levels have no kappa"
    assert row["noise ceiling"] == pytest.approx((3 * 0.5 / (1 + 2 * 0.5)) ** 0.5, abs=0.03)
    assert row["noise ceiling, 95 % low"] < row["noise ceiling"] < row["noise ceiling, 95 % high"]
    (drawn,) = own_rows.ceiling(table).to_dict("records")
    assert (drawn["against"], drawn["metric"], drawn["attribute"]) == (
        "ratings",
        "Pearson",
        "score",
    )


def test_one_annotator_has_no_agreement_and_no_ceiling(folder):
    rows = [(p, r, "ann", level) for p, r, level in answers()]
    path = written(folder / "my.csv", ["prompt", "response", "annotator", "clarity"], rows)
    setup = setup_of(path)
    data = reward_training.load_parts(setup)
    evaluated = Evaluated(("clarity",), {}, {}, np.arange(1), np.arange(1), pd.DataFrame())
    table = own_rows.raters(evaluated, data, setup)
    assert table.empty and own_rows.ceiling(table).empty


def inputs_by_hand(noise):
    """64 training groups and 1,000 test rows whose label is the sum of thirty states, and noise."""
    rng = np.random.default_rng(0)
    states = {}
    labels = {}
    for part, n in (("train", 128), ("test", 1000)):
        states[part] = rng.normal(size=(n, 30))
        labels[part] = states[part].sum(axis=1) + noise * rng.normal(size=n)
    return states, labels


@pytest.mark.parametrize(("noise", "helps"), [(10.0, True), (0.0, False)])
def test_more_ratings_help_where_the_second_half_did(folder, noise, helps):
    """Thirty weights from noisy labels: twice the rows, half the error. Without noise half of them are enough."""
    states, labels = inputs_by_hand(noise)
    rows = [(f"p{number}", "r", number % 5) for number in range(10)]
    path = written(folder / "my.csv", ["prompt", "response", "clarity"], rows)
    setup = setup_of(path)
    data = reward_training.load_parts(setup)
    items = [FewTargets(labels["train"][2 * k : 2 * k + 2]) for k in range(64)]
    prompts = np.repeat(np.arange(500), 2)
    clusters = {"train": np.repeat(np.arange(64), 2), "test": prompts}
    inputs = BaselineInputs({"train": items}, clusters, states, ("train",))
    evaluated = Evaluated(
        ("clarity",), {"ratings": labels["test"][:, None]}, {}, prompts, prompts, pd.DataFrame()
    )
    more = own_rows.more_ratings(evaluated, inputs, data, setup)
    R = more.curve.groupby("groups").R.mean()
    assert R.index.tolist() == [16, 32, 64]
    assert (R[64] - R[32] > own_rows.SEEN) == helps


class FewTargets:
    """An item of which only the targets are read."""

    def __init__(self, labels):
        self.targets = labels[:, None]
        self.sequences = tuple([0] for _ in labels)
