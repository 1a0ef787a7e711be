"""A run's setup: one recipe with all that the cell says, and the folders that belong to it."""

from hs2lib.paths import runs
from hs2lib.runs.setup import Setup, small
from hs2lib.train.recipes import DPO, PPO, SteerLM


def test_the_recipe_holds_what_the_cell_says():
    """A stage that runs without its notebook knows every parameter from the recipe alone."""
    setup = Setup.of_run("08_dpo", "smoke")
    assert (
        setup.recipe.dataset == "helpsteer2"
        and setup.recipe.n_prompts == setup.values["n_prompts"] == 40
        and setup.recipe.beta == setup.values["beta"] == 0.5
    )
    assert setup.folder == runs() / "smoke" / "08_dpo"
    assert setup.saved("07_sft") == runs() / "smoke" / "07_sft" / "policy"


def test_a_dry_run_has_a_small_recipe_and_a_folder_of_its_own():
    setup = Setup.of_run("10_ppo", "paper")
    assert setup.dry_run and setup.folder.name == "dry-run"
    assert setup.recipe.start == setup.recipe.reward == "tiny" and not setup.recipe.fsdp


def test_a_small_recipe_keeps_what_no_dry_run_replaces():
    recipe = DPO(batch=128, budget=16384, beta=0.5, clip=0.3)
    made = small(recipe, "08_dpo")
    assert (made.batch, made.budget, made.beta, made.clip) == (4, 4096, 0.5, recipe.clip)
    assert small(PPO(steps=60), "10_ppo").steps == 2, "PPO has steps of its own"
    assert small(SteerLM(balance=(0, 4)), "11_steerlm").balance == (), (
        "settings that are tuples stay tuples"
    )
