"""A run's setup: one recipe with all that the cell says, and the folders that belong to it."""

from hs2lib.paths import runs
from hs2lib.runs.setup import Setup


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
