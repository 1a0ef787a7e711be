"""The steps of each notebook's stages: the statements of its cells as functions of a run's setup.

`hs2lib.launch.stages` runs them, and compares them with the notebook: a cell that passes something
else is refused. A function that begins with a call of another begins with the steps of that one. It
returns what a later stage goes on with.
"""

# ruff: noqa: F841, RUF059  (a statement is the notebook's own, which names what a later cell shows)

from hs2lib.align import dpo, iterative_dpo, ppo, sft, steerlm, steerlm2
from hs2lib.evaluate import (
    answering,
    attained,
    best_of_n,
    by_fault,
    by_round,
    gallery,
    grading,
    preferences,
    ratings_or_preferences,
    reward_metrics,
    rewardbench,
    selection,
    steering,
    weights,
)
from hs2lib.evaluate import reward_benchmarks as today
from hs2lib.evaluate.comparison import Comparison
from hs2lib.models import reward_training, saved
from hs2lib.run.setup import Setup

# 05 Reward model


def train_05(setup: Setup) -> tuple:
    """Train the reward model."""
    data = reward_training.load_parts(setup)
    model = reward_training.new_model(data, setup)
    prepared = reward_training.prepare(model, data, setup)
    inputs = reward_training.baseline_inputs(model, data, prepared, setup)
    baselines = reward_training.fit_baselines(inputs, setup)
    reward_training.start_head(model, inputs, setup)
    result = reward_training.train(model, prepared, setup)
    return data, model, prepared, inputs, baselines, result


def evaluate_05(setup: Setup) -> tuple:
    """Score the test part by the trained reward model, and measure it."""
    data, model, prepared, inputs, baselines, result = train_05(setup)
    evaluated = reward_metrics.evaluate(model, data, prepared, inputs, baselines, setup)
    return data, model, prepared, result, evaluated


def export_05(setup: Setup) -> None:
    """Write the trained reward model and its verdict."""
    data, model, prepared, result, evaluated = evaluate_05(setup)
    gains = reward_metrics.gains(evaluated, setup)
    verdict = reward_metrics.verdict(evaluated, gains, result, setup)
    saved_in = reward_training.export(model, prepared, verdict, setup)
    held_out = reward_metrics.for_card(evaluated)
    classifier = reward_training.export_classifier(model, data, verdict, held_out, setup)


# 06 RewardBench


def evaluate_06(setup: Setup) -> tuple:
    """Score both responses of every pair, and count which are right."""
    recipe = setup.recipe
    benchmark = rewardbench.load_benchmark(setup)
    reward_model = rewardbench.load_model(setup)
    weighting = weights.chosen(reward_model, setup)
    scored = rewardbench.score_pairs(benchmark, reward_model, setup)
    results = rewardbench.evaluate_scored(scored, weighting.values, setup)
    return recipe, reward_model, weighting, scored


def score_06(setup: Setup) -> None:
    """Score all that the notebook scores: pairs, changed responses, held-out pairs, faults."""
    recipe, reward_model, weighting, scored = evaluate_06(setup)
    judged = by_fault.judge(scored.benchmark, reward_model, weighting.values, setup)
    few = rewardbench.spread(scored.benchmark, recipe.n_changed)
    changed = rewardbench.change_table(few, reward_model, weighting.values, setup)
    search = weights.search_heads(scored, reward_model, setup)


# 07 SFT


def train_07(setup: Setup) -> tuple:
    """Train the SFT model."""
    conversations = sft.load_conversations(setup)
    policy = saved.base_policy(setup)
    items = sft.prepare(policy, conversations, setup)
    result = sft.train(policy, items, setup)
    return conversations, policy, items, result


def evaluate_07(setup: Setup) -> None:
    """Base and SFT answer the held-out prompts."""
    conversations, policy, items, result = train_07(setup)
    chosen = selection.choose(policy, result, setup.recipe)
    base = saved.base_policy(setup)
    perplexity = sft.perplexity({"base": base, "SFT": policy}, items, setup)
    reward_model = saved.reward_model(setup)
    compared = Comparison.begin(setup, reward_model, policy, earlier=False)
    compared.evaluate(base, "base")
    compared.evaluate(policy, "SFT")
    compared.save()
    writers = {"base": base, "SFT": policy}
    telling = dict(gallery.by_change(compared, "SFT", "base"))
    shown = gallery.ask(writers, list(telling.values()), reward_model, setup)
    beside = gallery.ask(writers, conversations.watched[:2], reward_model, setup)


def export_07(setup: Setup) -> None:
    """Write the SFT model."""
    conversations, policy, items, result = train_07(setup)
    chosen = selection.choose(policy, result, setup.recipe)
    saved_in = saved.save(policy, setup)


# 08 DPO


def train_08(setup: Setup) -> tuple:
    """Train by DPO on pairs of rated responses."""
    pairs = dpo.load_pairs(setup)
    policy = saved.starting_policy(setup)
    items = dpo.prepare(policy, pairs, setup)
    result = dpo.train(policy, items, setup)
    return pairs, policy, items, result


def evaluate_08(setup: Setup) -> None:
    """SFT, DPO and its checkpoints answer the held-out prompts and order pairs."""
    pairs, policy, items, result = train_08(setup)
    chosen = selection.choose(policy, result, setup.recipe)
    ordered = preferences.order_pairs(policy, items, pairs, chosen.result, setup)
    to_look_at = preferences.to_look_at(ordered, items, pairs)
    reward_model = saved.reward_model(setup, frozen=True)
    reference = saved.starting_policy(setup, frozen=True)
    earlier = reward_model is not None and not setup.recipe.start
    compared = Comparison.begin(setup, reward_model, reference, earlier=earlier)
    compared.evaluate_first(reference, "SFT")
    compared.evaluate(policy, "DPO")
    compared.save()
    writers = {"SFT": reference, "DPO": policy}
    telling = dict(gallery.by_change(compared, "DPO", "SFT"))
    shown = gallery.ask(writers, list(telling.values()), reward_model, setup)
    beside = gallery.ask(writers, list(to_look_at.values()), reward_model, setup)
    path = preferences.along(policy, items, pairs, chosen.result, compared, setup)


def export_08(setup: Setup) -> None:
    """Write the DPO policy."""
    pairs, policy, items, result = train_08(setup)
    chosen = selection.choose(policy, result, setup.recipe)
    saved_in = saved.save(policy, setup)


# 09 Iterative DPO


def begin_09(setup: Setup) -> tuple:
    """Load what the rounds begin with."""
    policy = saved.starting_policy(setup, "08_dpo")
    reward_model = saved.required_reward_model(setup, frozen=True)
    prompts = iterative_dpo.load_prompts(setup)
    parts = iterative_dpo.prepare(prompts, setup)
    return policy, reward_model, prompts, parts


def sample_09(setup: Setup) -> None:
    """Sample for the first round."""
    policy, reward_model, prompts, parts = begin_09(setup)
    first = iterative_dpo.sample(policy, parts[0], reward_model, setup)


def train_09(setup: Setup) -> tuple:
    """Train by iterative DPO, all rounds."""
    policy, reward_model, prompts, parts = begin_09(setup)
    played = iterative_dpo.train(policy, parts, reward_model, setup)
    return policy, reward_model, played


def evaluate_09(setup: Setup) -> None:
    """The policies of all rounds answer the held-out prompts."""
    policy, reward_model, played = train_09(setup)
    first_policy = saved.starting_policy(setup, "08_dpo", frozen=True)
    sft = saved.policy(setup, setup.recipe.start, "07_sft", frozen=True)
    compared = Comparison.begin(setup, reward_model, sft, earlier=not setup.recipe.start)
    gained = by_round.compare(compared, policy, first_policy, played.rounds)
    chosen = selection.choose(policy, played.rounds[-1].result, setup.recipe)
    compared.evaluate_first(first_policy, "start")
    compared.evaluate(policy, "Iterative DPO")
    compared.save()


def export_09(setup: Setup) -> None:
    """Write the last round's policy."""
    policy, reward_model, played = train_09(setup)
    chosen = selection.choose(policy, played.rounds[-1].result, setup.recipe)
    saved_in = saved.save(policy, setup)


# 10 PPO


def train_10(setup: Setup) -> tuple:
    """Train by PPO."""
    policy = saved.starting_policy(setup, "07_sft").merge()
    sft = saved.starting_policy(setup, "07_sft").merge()
    reward_model = saved.required_reward_model(setup)
    data = ppo.load_data(setup)
    prompts = ppo.prepare(policy, data, setup)
    reward = ppo.fold_reward(reward_model, data, setup)
    model = ppo.actor_critic(policy, reward, setup)
    result = ppo.train(model, prompts, reward, sft, setup)
    return policy, sft, reward_model, model, result


def evaluate_10(setup: Setup) -> None:
    """SFT and PPO answer the held-out prompts; SFT answers many times for best of n."""
    policy, sft, reward_model, model, result = train_10(setup)
    chosen = selection.choose(policy, result, setup.recipe, model=model)
    compared = Comparison.begin(setup, reward_model, sft, earlier=not setup.recipe.start)
    compared.evaluate_first(sft, "SFT")
    compared.evaluate(policy, "PPO")
    compared.save()
    answers_of_sft = best_of_n.sample(sft, compared, setup)
    ranked = best_of_n.rank(answers_of_sft, reward_model, setup)


def export_10(setup: Setup) -> None:
    """Write the PPO policy."""
    policy, sft, reward_model, model, result = train_10(setup)
    chosen = selection.choose(policy, result, setup.recipe, model=model)
    saved_in = saved.save(policy, setup)


# 11 SteerLM


def label_11(setup: Setup) -> tuple:
    """Label answers by the reward model."""
    answers = steerlm.load_answers(setup)
    labelled = steerlm.label_answers(answers, setup)
    return answers, labelled


def train_11(setup: Setup) -> tuple:
    """Train on the labelled answers."""
    answers, labelled = label_11(setup)
    policy = saved.starting_policy(setup)
    prepared = steerlm.prepare(policy, labelled, setup)
    result = steerlm.train(policy, prepared, setup)
    return policy, result


def evaluate_11(setup: Setup) -> None:
    """Steer the policy, and let it answer the held-out prompts beside SFT."""
    policy, result = train_11(setup)
    chosen = selection.choose(policy, result, setup.recipe, label=setup.recipe.target)
    policy.merge()
    reward_model = saved.reward_model(setup, frozen=True)
    sft = steerlm.reference(setup)
    compared = Comparison.begin(setup, reward_model, sft)
    steered = steering.answers_by_level(policy, compared)
    compared.evaluate_first(sft, "SFT")
    compared.evaluate(policy, "SteerLM", setup.recipe.target)
    compared.save()


def export_11(setup: Setup) -> None:
    """Write the steered policy."""
    policy, result = train_11(setup)
    chosen = selection.choose(policy, result, setup.recipe, label=setup.recipe.target)
    policy.merge()
    saved_in = saved.save(policy, setup)


# 12 SteerLM 2.0


def train_12(setup: Setup) -> tuple:
    """Train by SteerLM 2.0; the policy of each iteration is saved and answers held-out prompts."""
    policy = saved.starting_policy(setup, "11_steerlm")
    prior = saved.policy(setup, setup.recipe.prior, "07_sft", frozen=True)
    reward_model = saved.reward_model(setup, frozen=True)
    prompts = steerlm2.load_prompts(setup)
    compared = attained.begin(setup, policy, prior, reward_model)
    after = attained.save_and_measure(compared)
    history = steerlm2.iterate(policy, prior, reward_model, prompts, setup, after=after)
    return policy, compared, history


def evaluate_12(setup: Setup) -> None:
    """Leave the rows of all iterations for later notebooks."""
    policy, compared, history = train_12(setup)
    chosen = attained.choose(policy, history, compared)
    attained.save(compared)


def export_12(setup: Setup) -> None:
    """Write the last iteration's policy."""
    policy, compared, history = train_12(setup)
    chosen = attained.choose(policy, history, compared)
    saved_in = saved.save(policy, setup)


# 13 Aligned model evaluation


def sample_13(setup: Setup) -> None:
    """Every policy answers the benchmarks' questions."""
    who = answering.who_answers(setup)
    every = answering.load_truthfulqa(setup)
    truthful = every.subset(setup.recipe.n_truthfulqa, setup.recipe.seed)
    mt = answering.load_mt_bench(setup)
    arena = answering.load_arena_hard(setup)
    alpaca = answering.load_alpaca_eval(setup)
    asked = [mt, arena, alpaca]
    graders = grading.choose_graders(setup, asked)
    answers = answering.respond(setup, who, truthful, asked)


# 15 Ratings or preferences


def train_15(setup: Setup) -> tuple:
    """Train each learner, from ratings or from preferences."""
    judged = ratings_or_preferences.load_judgements(setup)
    folders = ratings_or_preferences.train(judged, setup)
    return judged, folders


# 16 Reward benchmarks of today


def score_16(setup: Setup) -> None:
    """Score every answer to every question."""
    loaded = today.load(setup)
    reward_model = rewardbench.load_model(setup)
    scored = today.score(loaded, reward_model, setup)
