"""Losses of pairs: by hand, beside TRL's reward trainer, with ties in each treatment, on real strengths."""

import gzip
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_training import tiny

from hs2lib import paths
from hs2lib.data.load import load
from hs2lib.engine.attention import end_states
from hs2lib.engine.trees import pack
from hs2lib.group import Group, Response, Turn
from hs2lib.models.reward_model import RewardModel
from hs2lib.names import OBJECTIVES
from hs2lib.train import items, losses
from hs2lib.train.objectives import named, tied_pairs
from hs2lib.train.trainer import fit, targets_of

PAIRS = [name for name in OBJECTIVES if name != "regression"]


def log_sigma(x: float) -> float:
    """By its definition, as a hand calculator has it."""
    return -math.log(1 + math.exp(-x))


# By hand


def test_margin_loss_by_hand():
    """Rewards that differ by 3 under a margin of 2 cost what plain ones that differ by 1 cost."""
    loss = losses.margin_loss(
        torch.tensor([3.0, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor([2.0, 1.0])
    )
    assert loss.tolist() == pytest.approx([-log_sigma(1), -log_sigma(-2)])


def test_scaled_loss_by_hand():
    """Strength 3 costs three times what strength 1 costs, and so does its gradient."""
    chosen = torch.tensor([1.0, 1.0], requires_grad=True)
    loss = losses.scaled_loss(chosen, torch.zeros(2), torch.tensor([1.0, 3.0]))
    assert loss.tolist() == pytest.approx([-log_sigma(1), -3 * log_sigma(1)])
    loss.sum().backward()
    assert chosen.grad.tolist() == pytest.approx([-0.26894, -3 * 0.26894], abs=1e-5)  # -m s(-1)


def test_tie_loss_by_hand():
    """Equal rewards cost log 2 and pull nowhere; unequal ones cost more, alike in either order."""
    first = torch.tensor([0.0, 2.0, 0.0], requires_grad=True)
    loss = losses.tie_loss(first, torch.tensor([0.0, 0.0, 2.0]))
    unequal = -(log_sigma(2) + log_sigma(-2)) / 2
    assert loss.tolist() == pytest.approx([math.log(2), unequal, unequal])
    loss.sum().backward()
    pull = (1 / (1 + math.exp(-2))) - 0.5
    assert first.grad.tolist() == pytest.approx([0.0, pull, -pull])


@pytest.mark.parametrize("loss", [losses.margin_loss, losses.scaled_loss])
@pytest.mark.parametrize("strength", [0.0, -1.0])
def test_a_strength_that_is_not_positive_is_refused(loss, strength):
    """A strength below 0 would teach the worse response, and one of 0 nothing, without a word."""
    with pytest.raises(ValueError, match=f"is positive, got {strength:g}"):
        loss(torch.zeros(2), torch.zeros(2), torch.tensor([1.0, strength]))


OUTPUTS = torch.tensor([[1.0], [0.0], [0.5], [0.5]])
TARGETS = torch.tensor([[1.0], [-1.0], [-0.5], [0.5]])  # strengths 2 and 1, as halves to each side
GROUP = torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bradley-terry", -log_sigma(1) - log_sigma(0)),
        ("bradley-terry-margin", -log_sigma(1 - 2) - log_sigma(0 - 1)),
        ("bradley-terry-scaled", -2 * log_sigma(1) - log_sigma(0)),
    ],
)
def test_objectives_take_the_strength_from_the_targets(name, expected):
    """Differences 1 and 0 under strengths 2 and 1; the mean is over pairs, not over strengths."""
    objective = named(name)
    assert objective.total(OUTPUTS, TARGETS, GROUP).item() == pytest.approx(expected, rel=1e-6)
    assert objective.count(TARGETS, GROUP) == 2
    assert objective.name == name


# Ties


def preferred(name: str, preference: float | None) -> Group:
    """A prompt with two responses."""
    responses = (Response(f"{name}/0", "yes"), Response(f"{name}/1", "no"))
    return Group(name, (Turn("user", f"{name}?"),), responses, (), preference=preference)


GROUPS = [preferred("a", 2.0), preferred("tie", 0.0), preferred("none", None), preferred("b", -1.0)]


@pytest.fixture(scope="module")
def model() -> RewardModel:
    return RewardModel.new("tiny", attributes=("reward",))


def test_a_tie_is_left_out_and_counted(model):
    """NVIDIA leaves rows of strength 0 out; a reader must see how many."""
    made, counts = items.compared(model, GROUPS)
    assert [item.id for item in made] == ["a", "b"]
    assert made[0].targets.tolist() == [[-1.0], [1.0]] and made[1].targets.tolist() == [
        [0.5],
        [-0.5],
    ]
    assert counts["ties_left_out"] == 1 and "ties_kept" not in counts
    assert counts["groups_without_target"] == 2  # the tie, and the row without a preference


def test_a_tie_is_kept_and_counted(model):
    """It is an item whose two targets are equal; a row without a preference is not a tie."""
    made, counts = items.compared(model, GROUPS, ties="keep")
    assert [item.id for item in made] == ["a", "tie", "b"]
    assert made[1].targets.tolist() == [[0.0], [0.0]]
    assert counts["ties_kept"] == 1 and "ties_left_out" not in counts
    assert counts["groups_without_target"] == 1


def test_ties_are_refused_with_the_first_named(model):
    """Who holds that there are none is told where one is, and what to do."""
    with pytest.raises(ValueError, match=r"1 of 4 groups .* preference, the first is 'tie': take"):
        items.compared(model, GROUPS, ties="refuse")
    made, counts = items.compared(model, GROUPS[:1], ties="refuse")
    assert len(made) == 1 and counts["ties_left_out"] == 0


def test_ties_by_a_label_are_counted_as_pairs(model):
    """Ratings 4, 4 and 1: one tie, two pairs. The tie was no item before either; now it is counted."""
    responses = [
        Response(f"r{i}", f"text {i}", (label,)) for i, label in enumerate((4.0, 4.0, 1.0))
    ]
    group = Group("g", (Turn("user", "?"),), tuple(responses), ("helpfulness",))
    for ties, count in (("leave out", "ties_left_out"), ("keep", "ties_kept")):
        made, counts = items.compared(model, [group], attribute="helpfulness", ties=ties)
        assert counts[count] == 1
        assert made[0].targets.tolist() == [[4.0], [4.0], [1.0]]


@pytest.mark.parametrize("name", PAIRS)
def test_kept_ties_count_as_pairs_in_every_loss(name):
    """Group 0 is a tie with rewards that differ by 1; group 1 is as it was."""
    targets = torch.tensor([[0.0], [0.0], [-0.5], [0.5]])
    first, second = tied_pairs(targets, GROUP)
    assert (first.tolist(), second.tolist()) == ([0], [1])
    kept = named(name, ties="keep")
    without = named(name, ties="leave out")
    of_tie = -(log_sigma(1) + log_sigma(-1)) / 2
    expected = without.total(OUTPUTS, targets, GROUP).item() + of_tie
    assert kept.total(OUTPUTS, targets, GROUP).item() == pytest.approx(expected, rel=1e-6)
    assert (kept.count(targets, GROUP), without.count(targets, GROUP)) == (2, 1)
    assert kept.name == f"{name}, ties kept"  # its training has a folder of its own


def test_missing_targets_are_no_tie():
    """Two responses without a label are equal in -100, which says nothing."""
    first, _ = tied_pairs(torch.tensor([[-100.0], [-100.0], [1.0], [1.0]]), GROUP)
    assert first.tolist() == [2]


@pytest.mark.slow
def test_training_on_kept_ties_pulls_their_rewards_together(tmp_path):
    """The loss of a tie has to reach the weights: alone it brings two rewards to one number."""
    from tiny_training import made, recipe

    pairs = []
    for item in made(8, k=1):
        two = (item.sequences * 2)[:2]
        if len(item.sequences) == 1:
            two = (two[0], two[1][::-1])
        pairs.append(
            replace(item, sequences=two, targets=np.zeros((2, 1), np.float32), starts=(1, 1))
        )
    model = tiny(("reward",))
    with torch.no_grad():
        model.head.weight.mul_(300)  # rewards that differ at first

    def apart() -> float:
        scores = model.score_tokens([pair.sequences for pair in pairs])
        return scores.view(-1, 2).diff(dim=1).abs().mean().item()

    before = apart()
    fit(model, pairs, (), named("bradley-terry-margin", ties="keep"), recipe(steps=40), tmp_path)
    assert apart() < before / 4


# A peer


STRENGTHS = (1.0, 2.0, 3.0)


def test_loss_with_a_margin_equals_that_of_trls_reward_trainer(tmp_path, model):
    """The same tokens: TRL pads, pools, scores and has its own loss, with a margin column and without."""
    from datasets import Dataset
    from trl import RewardConfig, RewardTrainer

    from hs2lib.models.export import _classifier

    groups = [preferred(str(strength), strength) for strength in STRENGTHS]
    texts = ("A short one.", "Another answer, which is longer.")
    groups = [
        replace(
            group,
            responses=tuple(
                replace(r, text=t) for r, t in zip(group.responses, texts, strict=True)
            ),
        )
        for group in groups
    ]
    made, _ = items.compared(model, groups)
    rows = []
    for item, strength in zip(made, STRENGTHS, strict=True):
        worse, better = item.sequences  # a positive preference says that the second is better
        rows.append({"chosen_ids": better, "rejected_ids": worse, "margin": strength})
    with torch.no_grad():
        model.head.weight.normal_(0, 1, generator=torch.Generator().manual_seed(1))
    targets, group = targets_of(made, "cpu")
    batch = pack([item.sequences for item in made])
    outputs = model.predict(end_states(model.backbone, batch))
    for name, columns in (("bradley-terry-margin", ["margin"]), ("bradley-terry", [])):
        data = Dataset.from_list(rows).select_columns(["chosen_ids", "rejected_ids", *columns])
        args = RewardConfig(str(tmp_path), use_cpu=True, bf16=False, report_to="none")
        classifier = _classifier(model, model.tokenizer)
        trainer = RewardTrainer(
            classifier, args, train_dataset=data, processing_class=model.tokenizer
        )
        their_inputs = trainer.data_collator(list(trainer.train_dataset))
        theirs = trainer.compute_loss(trainer.model, their_inputs)
        objective = named(name)
        total = objective.total(outputs[batch.index.argsort()], targets, group)
        ours = total / objective.count(targets, group)
        assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
        (gradient,) = torch.autograd.grad(ours, model.head.weight, retain_graph=True)
        (their_gradient,) = torch.autograd.grad(theirs, classifier.score.weight)
        torch.testing.assert_close(gradient, their_gradient, rtol=1e-4, atol=1e-6)
    assert ours.item() != pytest.approx(math.log(2), rel=1e-2)


# Real strengths


def labels_of_448() -> list[dict]:
    """Ratings and strengths of all validation pairs of HelpSteer2-Preference; the texts are not there."""
    file = (
        paths.data() / "helpsteer2" / "preference_validation_448_labels_only.jsonl.gz"
        if paths.data()
        else None
    )
    if file is None or not file.is_file():
        pytest.skip("HS2_DATA_DIR has no labels of HelpSteer2-Preference's validation pairs")
    with gzip.open(file, "rt") as lines:
        return [json.loads(line) for line in lines]


def test_helpsteer2_preferences_validation_strengths_to_the_digit():
    """NVIDIA's released rows: the histogram from -3 to 3, how many have a direction, and R with helpfulness."""
    rows = labels_of_448()
    strength = np.array([row["preference_strength"] for row in rows])
    assert np.bincount(strength + 3).tolist() == [40, 51, 71, 96, 88, 60, 42]
    assert (len(strength), (strength != 0).sum()) == (448, 352)
    second = np.array([row["labels_2"]["helpfulness"] for row in rows])
    first = np.array([row["labels_1"]["helpfulness"] for row in rows])
    assert round(np.corrcoef(strength, second - first)[0, 1], 4) == 0.9148


def test_the_403_pairs_with_texts_are_331_with_a_direction_and_72_ties(model):
    """What a loss of pairs trains on, from the file to the items, in two treatments."""
    if not paths.data() or not (paths.data() / "helpsteer2").is_dir():
        pytest.skip("HS2_DATA_DIR has no HelpSteer2 rows")
    groups = load("helpsteer2-preference-partial", "folder").groups
    short = [
        replace(
            g,
            prompt=g.prompt[:1],
            responses=tuple(replace(r, text=r.text[:9]) for r in g.responses),
        )
        for g in groups
    ]
    short = [replace(g, prompt=(Turn("user", g.prompt[0].text[:9]),)) for g in short]
    _, left_out = items.compared(model, short)
    assert (left_out["groups"], left_out["ties_left_out"]) == (331, 72)
    _, kept = items.compared(model, short, ties="keep")
    assert (kept["groups"], kept["ties_kept"]) == (403, 72)
