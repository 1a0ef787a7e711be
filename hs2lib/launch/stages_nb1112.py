"""The stages of notebooks 11 and 12: the statements of their cells, as functions."""

# ruff: noqa: F841  (a statement is the notebook's own, which names what a later cell shows)

from hs2lib.align import steerlm, steerlm2
from hs2lib.evaluate import attained, selection, steering
from hs2lib.evaluate.comparison import Comparison
from hs2lib.models import saved
from hs2lib.run.setup import Setup


def label_11(setup: Setup) -> None:
    answers = steerlm.load_answers(setup)
    labelled = steerlm.label_answers(answers, setup)


def train_11(setup: Setup) -> None:
    answers = steerlm.load_answers(setup)
    labelled = steerlm.label_answers(answers, setup)
    policy = saved.starting_policy(setup)
    prepared = steerlm.prepare(policy, labelled, setup)
    result = steerlm.train(policy, prepared, setup)


def evaluate_11(setup: Setup) -> None:
    answers = steerlm.load_answers(setup)
    labelled = steerlm.label_answers(answers, setup)
    policy = saved.starting_policy(setup)
    prepared = steerlm.prepare(policy, labelled, setup)
    result = steerlm.train(policy, prepared, setup)
    chosen = selection.choose(policy, result, setup.recipe, label=setup.recipe.target)
    policy.merge()
    reward_model = saved.reward_model(setup, frozen=True)
    sft = steerlm.reference(setup)
    compared = Comparison.begin(setup, reward_model, sft)
    steered = steering.answers_by_level(policy, compared)
    three = steering.under_three_labels(policy, compared)
    compared.evaluate_first(sft, "SFT")
    compared.evaluate(policy, "SteerLM", setup.recipe.target)
    compared.save()


def export_11(setup: Setup) -> None:
    answers = steerlm.load_answers(setup)
    labelled = steerlm.label_answers(answers, setup)
    policy = saved.starting_policy(setup)
    prepared = steerlm.prepare(policy, labelled, setup)
    result = steerlm.train(policy, prepared, setup)
    chosen = selection.choose(policy, result, setup.recipe, label=setup.recipe.target)
    policy.merge()
    saved_in = saved.save(policy, setup)


def train_12(setup: Setup) -> None:
    policy = saved.starting_policy(setup, "11_steerlm")
    prior = saved.policy(setup, setup.recipe.prior, "07_sft", frozen=True)
    reward_model = saved.reward_model(setup, frozen=True)
    prompts = steerlm2.load_prompts(setup)
    weighed = steerlm2.one_group(policy, prior, reward_model, prompts, setup)
    compared = attained.begin(setup, policy, prior, reward_model)
    after = attained.save_and_measure(compared)
    history = steerlm2.iterate(policy, prior, reward_model, prompts, setup, after=after)


def evaluate_12(setup: Setup) -> None:
    policy = saved.starting_policy(setup, "11_steerlm")
    prior = saved.policy(setup, setup.recipe.prior, "07_sft", frozen=True)
    reward_model = saved.reward_model(setup, frozen=True)
    prompts = steerlm2.load_prompts(setup)
    compared = attained.begin(setup, policy, prior, reward_model)
    after = attained.save_and_measure(compared)
    history = steerlm2.iterate(policy, prior, reward_model, prompts, setup, after=after)
    chosen = attained.choose(policy, history, compared)
    attained.save(compared)


def export_12(setup: Setup) -> None:
    policy = saved.starting_policy(setup, "11_steerlm")
    prior = saved.policy(setup, setup.recipe.prior, "07_sft", frozen=True)
    reward_model = saved.reward_model(setup, frozen=True)
    prompts = steerlm2.load_prompts(setup)
    compared = attained.begin(setup, policy, prior, reward_model)
    after = attained.save_and_measure(compared)
    history = steerlm2.iterate(policy, prior, reward_model, prompts, setup, after=after)
    chosen = attained.choose(policy, history, compared)
    saved_in = saved.save(policy, setup)
