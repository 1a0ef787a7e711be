"""What the methods share: the rows of a recipe, and one training of a policy on items."""

import pytest

from hs2lib.align import common, sft
from hs2lib.models.policy import load_policy
from hs2lib.train import objectives
from hs2lib.train.items import Prepared
from hs2lib.train.recipes import DPO, SFT, IterativeDPO
from hs2lib.world import sets


def test_rows_are_those_that_the_recipe_names(monkeypatch):
    """A file of the user's own is passed on where the recipe has one; a split and a number may be others."""
    asked = []
    monkeypatch.setattr(common, "load", lambda *names, **how: asked.append((names, how)))
    own = DPO(dataset="ratings", source="folder", path="mine.csv", scale="1-5", n_prompts=20)
    common.load_rows(own, split="validation")
    common.load_rows(IterativeDPO(dataset="demonstrations", n_prompts=20, seed=3), n_prompts=40)
    same = {"strict": True}
    assert asked == [
        (
            ("ratings", "folder"),
            {
                "path": "mine.csv",
                "scale": "1-5",
                "columns": "",
                "split": "validation",
                "n_prompts": 20,
                "seed": 0,
                **same,
            },
        ),
        (
            ("demonstrations", "postcards"),
            {"split": "train", "n_prompts": 40, "seed": 3, **same},
        ),
    ]


def trained(items: Prepared, folder, policy=None, **changes) -> common.Trained:
    """Two steps of SFT on the tiny base."""
    settings = {"steps": 2, "batch": 2, "learning_rate": 1e-3, "validate_every": 1, "keep": 1}
    return common.train(
        policy or load_policy("tiny"),
        items,
        SFT(**settings | changes),
        objective=objectives.sft(),
        folder=folder,
    )


@pytest.fixture(scope="module")
def items() -> Prepared:
    """Six generated conversations to train on, two to validate on."""
    groups = sft.best_paths(sets.groups(8, seed=1))
    made, _ = sft.items(load_policy("tiny"), groups)
    return Prepared(made[2:], made[:2])


@pytest.mark.slow
def test_a_training_is_found_by_what_made_it(items, tmp_path):
    """The same policy, items and recipe read what is there; other items or another rate train anew."""
    first = trained(items, tmp_path)
    losses = [entry["eval_loss"] for entry in first.history if "eval_loss" in entry]
    assert len(losses) == 3 and first.best_loss == min(losses)
    written = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.safetensors")}
    again = trained(items, tmp_path)
    assert again.folder == first.folder and again.history == first.history
    assert again.policy is not first.policy
    assert again.policy.fingerprint() == first.policy.fingerprint()
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.safetensors")} == written
    others = (
        trained(Prepared(items.training, []), tmp_path),
        trained(items, tmp_path, learning_rate=1e-2),
    )
    assert len({first.folder, *[other.folder for other in others]}) == 3


@pytest.mark.slow
def test_adapters_that_the_policy_has_are_trained_on(items, tmp_path):
    """A second round goes on with the adapters of the first, as iterative DPO's rounds do."""
    how = {"method": "lora", "lora_rank": 2}
    first = trained(items, tmp_path, **how)
    assert first.policy.adapter["rank"] == 2
    before = first.policy.fingerprint()
    second = trained(items, tmp_path, policy=first.policy, **how)
    assert second.policy is first.policy and second.folder != first.folder
    assert second.policy.fingerprint() != before
