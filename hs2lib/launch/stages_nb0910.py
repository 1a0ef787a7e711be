"""The stages of notebooks 09 and 10: the statements of their cells, as functions."""

# ruff: noqa: F841  (a statement is the notebook's own, which names what a later cell shows)

from hs2lib.align import iterative_dpo, ppo
from hs2lib.evaluate import best_of_n, by_round, selection
from hs2lib.evaluate.comparison import Comparison
from hs2lib.models import saved
from hs2lib.run.setup import Setup


def sample_09(setup: Setup) -> None:
    policy = saved.starting_policy(setup, "08_dpo")
    reward_model = saved.required_reward_model(setup, frozen=True)
    prompts = iterative_dpo.load_prompts(setup)
    parts = iterative_dpo.prepare(prompts, setup)
    first = iterative_dpo.sample(policy, parts[0], reward_model, setup)


def train_09(setup: Setup) -> None:
    policy = saved.starting_policy(setup, "08_dpo")
    reward_model = saved.required_reward_model(setup, frozen=True)
    prompts = iterative_dpo.load_prompts(setup)
    parts = iterative_dpo.prepare(prompts, setup)
    played = iterative_dpo.train(policy, parts, reward_model, setup)


def evaluate_09(setup: Setup) -> None:
    policy = saved.starting_policy(setup, "08_dpo")
    reward_model = saved.required_reward_model(setup, frozen=True)
    prompts = iterative_dpo.load_prompts(setup)
    parts = iterative_dpo.prepare(prompts, setup)
    played = iterative_dpo.train(policy, parts, reward_model, setup)
    first_policy = saved.starting_policy(setup, "08_dpo", frozen=True)
    sft = saved.policy(setup, setup.recipe.start, "07_sft", frozen=True)
    compared = Comparison.begin(setup, reward_model, sft, earlier=not setup.recipe.start)
    gained = by_round.compare(compared, policy, first_policy, played.rounds)
    chosen = selection.choose(policy, played.rounds[-1].result, setup.recipe)
    compared.evaluate_first(first_policy, "start")
    compared.evaluate(policy, "Iterative DPO")
    compared.save()


def export_09(setup: Setup) -> None:
    policy = saved.starting_policy(setup, "08_dpo")
    reward_model = saved.required_reward_model(setup, frozen=True)
    prompts = iterative_dpo.load_prompts(setup)
    parts = iterative_dpo.prepare(prompts, setup)
    played = iterative_dpo.train(policy, parts, reward_model, setup)
    chosen = selection.choose(policy, played.rounds[-1].result, setup.recipe)
    saved_in = saved.save(policy, setup)


def train_10(setup: Setup) -> None:
    policy = saved.starting_policy(setup, "07_sft").merge()
    sft = saved.starting_policy(setup, "07_sft").merge()
    reward_model = saved.required_reward_model(setup)
    data = ppo.load_data(setup)
    prompts = ppo.prepare(policy, data, setup)
    reward = ppo.fold_reward(reward_model, data, setup)
    model = ppo.actor_critic(policy, reward, setup)
    result = ppo.train(model, prompts, reward, sft, setup)


def evaluate_10(setup: Setup) -> None:
    policy = saved.starting_policy(setup, "07_sft").merge()
    sft = saved.starting_policy(setup, "07_sft").merge()
    reward_model = saved.required_reward_model(setup)
    data = ppo.load_data(setup)
    prompts = ppo.prepare(policy, data, setup)
    reward = ppo.fold_reward(reward_model, data, setup)
    model = ppo.actor_critic(policy, reward, setup)
    result = ppo.train(model, prompts, reward, sft, setup)
    chosen = selection.choose(policy, result, setup.recipe, model=model)
    compared = Comparison.begin(setup, reward_model, sft, earlier=not setup.recipe.start)
    answers_of_sft = best_of_n.sample(sft, compared, setup)
    ranked = best_of_n.rank(answers_of_sft, reward_model, setup)
    compared.evaluate_first(sft, "SFT")
    compared.evaluate(policy, "PPO")
    compared.save()


def export_10(setup: Setup) -> None:
    policy = saved.starting_policy(setup, "07_sft").merge()
    sft = saved.starting_policy(setup, "07_sft").merge()
    reward_model = saved.required_reward_model(setup)
    data = ppo.load_data(setup)
    prompts = ppo.prepare(policy, data, setup)
    reward = ppo.fold_reward(reward_model, data, setup)
    model = ppo.actor_critic(policy, reward, setup)
    result = ppo.train(model, prompts, reward, sft, setup)
    chosen = selection.choose(policy, result, setup.recipe, model=model)
    saved_in = saved.save(policy, setup)
