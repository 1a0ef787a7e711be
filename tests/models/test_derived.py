"""Reward models begun from saved ones: which weights and outputs training begins with."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from shared_models import share_models

from hs2lib.data.load import Loaded
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.models import derived, reward_training
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.reward_training import Parts
from hs2lib.runs.setup import Setup
from hs2lib.train import items, recipes

TEXTS = ("A short one.", "Another answer, and a longer one.")


def pair(name: str, preference: float = 1.0) -> Group:
    """Two responses with a preference and ratings of helpfulness."""
    responses = tuple(
        Response(f"{name}/{i}", text, (float(2 * i),)) for i, text in enumerate(TEXTS)
    )
    return Group(name, (Turn("user", f"{name}?"),), responses, ("helpfulness",), preference)


GROUPS = [pair(str(i), preference) for i, preference in enumerate((1.0, 2.0, 3.0, 1.0, 2.0, 3.0))]
PARTS = Parts(
    {"validation": GROUPS[:1], "test": GROUPS[1:2], "train": GROUPS[2:]},
    Loaded(GROUPS, "by hand", False),
)


def moved(seed: int, attributes=("helpfulness",), **options) -> RewardModel:
    """The tiny base with weights of its own."""
    model = RewardModel.new("tiny", attributes=attributes, **options)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model.eval()


def setup_of(**settings) -> Setup:
    quick = {"steps": 2, "batch": 2, "warmup": 0, "model_name": "tiny", "n_boot": 100}
    return Setup("05_reward_model_training", "smoke", {}, recipes.RewardModel(**quick | settings))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """Runs of the test's own."""
    monkeypatch.setenv("HS2_RUNS", str(share_models(tmp_path / "runs")))
    return tmp_path


def test_a_loss_of_pairs_begins_with_the_scores_of_the_saved_regression(
    trained_folder, trained_reward_model
):
    """NVIDIA's stage 2: backbone and the head of helpfulness. Before a step both say the same number."""
    setup = setup_of(objective="bradley-terry-scaled", start=str(trained_folder), head="saved")
    model = reward_training.new_model(PARTS, setup)
    assert model.attributes == ("reward",) and not model.training
    helpfulness = trained_reward_model.score(GROUPS)[:, [ATTRIBUTES.index("helpfulness")]]
    torch.testing.assert_close(model.score(GROUPS), helpfulness)
    assert model.read  # the run's manifest names the folder that was read


def test_with_a_fresh_head_only_the_backbone_is_taken(trained_folder, trained_reward_model):
    """Who asks for a fresh head gets one: near zero, by the seed."""
    settings = {"objective": "bradley-terry", "start": str(trained_folder)}
    model = reward_training.new_model(PARTS, setup_of(**settings))
    fresh = RewardModel.new("tiny", attributes=("reward",))
    assert torch.equal(model.head.weight, fresh.head.weight)
    ours = dict(model.backbone.named_parameters())
    taken = trained_reward_model.backbone.named_parameters()
    assert all(torch.equal(ours[name], weight) for name, weight in taken)


@pytest.mark.slow
def test_trainings_begun_from_other_models_have_other_folders(folder):
    """Two models may differ in the head alone: the second must not read the first one's training."""
    first = moved(1)
    first.save(folder / "first")
    with torch.no_grad():
        first.head.weight.mul_(2)
    first.save(folder / "second")
    folders = []
    for name in ("first", "second", "first"):
        setup = setup_of(objective="bradley-terry", start=str(folder / name), head="saved")
        model = reward_training.new_model(PARTS, setup)
        prepared = reward_training.prepare(model, PARTS, setup)
        folders.append(reward_training.train(model, prepared, setup).folder)
    assert folders[0] == folders[2] != folders[1]


def test_a_regression_begins_with_the_rows_of_its_own_names():
    """Outputs are matched by name, whatever their order and number in the saved model."""
    saved = moved(1, ATTRIBUTES)
    expected = saved.score(GROUPS)[:, [0, 4]]
    model = derived.begun(saved, ("helpfulness", "verbosity"))
    torch.testing.assert_close(model.score(GROUPS), expected)


@pytest.mark.parametrize(
    ("attributes", "outputs"),
    [(("reward",), ("helpfulness",)), (("helpfulness",), ("reward",)), (("reward",), ("reward",))],
)
def test_a_reward_and_helpfulness_stand_for_each_other(attributes, outputs):
    """A loss of pairs names its output reward, a regression helpfulness: each may begin from the other."""
    saved = moved(1, attributes)
    expected = saved.score(GROUPS)
    torch.testing.assert_close(derived.begun(saved, outputs).score(GROUPS), expected)


def test_adapters_are_merged_before_training_goes_on():
    """What was trained are the sums; the scores stay, and all weights can be trained again."""
    saved = moved(1).lora(rank=2)
    with torch.no_grad():
        for name, weight in saved.named_parameters():
            if "lora_B" in name:
                weight += 0.05
    expected = saved.score(GROUPS)
    model = derived.begun(saved, ["reward"])
    torch.testing.assert_close(model.score(GROUPS), expected, rtol=1e-4, atol=1e-5)
    assert model.adapter is None and all(w.requires_grad for w in model.parameters())


def test_what_training_cannot_begin_with_is_refused(folder):
    """Each would else train something other than what was asked for."""
    with pytest.raises(ValueError, match="no output 'verbosity' to begin with; it has: reward"):
        derived.begun(moved(1, ("reward",)), ["verbosity"])
    with pytest.raises(ValueError, match="set start to its folder"):
        reward_training.new_model(PARTS, setup_of(head="saved"))
    moved(1).lora(rank=2).save(folder / "adapters")
    adapters = setup_of(start=str(folder / "adapters"), head="saved", method="lora")
    with pytest.raises(ValueError, match="is itself adapters"):
        reward_training.new_model(PARTS, replace(adapters))


@pytest.mark.slow
def test_strengths_from_a_saved_start_train_by_every_loss(trained_folder):
    """The recipe's names reach the trainer: each loss of pairs makes its steps from the saved model."""
    losses = {}
    for objective in ("bradley-terry", "bradley-terry-margin", "bradley-terry-scaled"):
        setup = setup_of(objective=objective, start=str(trained_folder), head="saved")
        model = reward_training.new_model(PARTS, setup)
        prepared = reward_training.prepare(model, PARTS, setup)
        assert prepared.counts.loc["ties_left_out"].tolist() == [0, 0, 0]
        result = reward_training.train(model, prepared, setup)
        losses[objective] = result.history[0]["eval_loss"]
    plain, margin, scaled = losses.values()
    strength = abs(GROUPS[0].preference)
    assert scaled == pytest.approx(strength * plain) and margin > plain
    assert items.compared(model, GROUPS)[1]["groups"] == len(GROUPS)
