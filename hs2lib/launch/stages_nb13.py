"""The stage of notebook 13: the statements of its cells, as a function."""

from hs2lib.evaluate import answering, grading
from hs2lib.run.setup import Setup


def sample_13(setup: Setup) -> None:
    recipe = setup.recipe
    who = answering.who_answers(setup)
    every = answering.load_truthfulqa(setup)
    truthful = every.subset(recipe.n_truthfulqa, recipe.seed)
    mt = answering.load_mt_bench(setup)
    arena = answering.load_arena_hard(setup)
    alpaca = answering.load_alpaca_eval(setup)
    asked = [mt, arena, alpaca]
    graders = grading.appoint(setup, asked)  # noqa: F841  (refused here, before hours are spent on answers)
    answers = answering.respond(setup, who, truthful, asked)  # noqa: F841
