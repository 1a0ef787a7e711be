"""Stages of notebooks 05 and 06: the very statements of their cells, as functions of a run's setup."""

from hs2lib.evaluate import reward_metrics, rewardbench, weights
from hs2lib.models import reward_training
from hs2lib.run.setup import Setup


def train_05(setup: Setup) -> None:
    """Train the reward model."""
    data = reward_training.load_parts(setup)
    model = reward_training.new_model(data, setup)
    prepared = reward_training.prepare(model, data, setup)
    inputs = reward_training.baseline_inputs(model, data, prepared, setup)
    reward_training.start_head(model, inputs, setup)
    result = reward_training.train(model, prepared, setup)  # noqa: F841


def evaluate_05(setup: Setup) -> None:
    """Score the test part by the trained reward model, and measure it."""
    data = reward_training.load_parts(setup)
    model = reward_training.new_model(data, setup)
    prepared = reward_training.prepare(model, data, setup)
    inputs = reward_training.baseline_inputs(model, data, prepared, setup)
    baselines = reward_training.fit_baselines(inputs, setup)
    reward_training.start_head(model, inputs, setup)
    result = reward_training.train(model, prepared, setup)  # noqa: F841
    evaluated = reward_metrics.evaluate(model, data, prepared, inputs, baselines, setup)  # noqa: F841


def export_05(setup: Setup) -> None:
    """Write the trained reward model and its verdict."""
    data = reward_training.load_parts(setup)
    model = reward_training.new_model(data, setup)
    prepared = reward_training.prepare(model, data, setup)
    inputs = reward_training.baseline_inputs(model, data, prepared, setup)
    baselines = reward_training.fit_baselines(inputs, setup)
    reward_training.start_head(model, inputs, setup)
    result = reward_training.train(model, prepared, setup)
    evaluated = reward_metrics.evaluate(model, data, prepared, inputs, baselines, setup)
    gains = reward_metrics.gains(evaluated, setup)
    verdict = reward_metrics.verdict(evaluated, gains, result, setup)
    saved_in = reward_training.export(model, prepared, verdict, setup)  # noqa: F841


def evaluate_06(setup: Setup) -> None:
    """Score both responses of every pair, and count which are right."""
    benchmark = rewardbench.load_benchmark(setup)
    reward_model = rewardbench.load_model(setup)
    weighting = weights.chosen(reward_model, setup)
    scored = rewardbench.score_pairs(benchmark, reward_model, setup)
    results = rewardbench.evaluate_scored(scored, weighting.values, setup)  # noqa: F841


def score_06(setup: Setup) -> None:
    """Score all that the notebook scores: the pairs, changed responses, held-out pairs."""
    recipe = setup.recipe
    benchmark = rewardbench.load_benchmark(setup)
    reward_model = rewardbench.load_model(setup)
    weighting = weights.chosen(reward_model, setup)
    scored = rewardbench.score_pairs(benchmark, reward_model, setup)
    few = rewardbench.spread(scored.benchmark, recipe.n_changed)
    changed = rewardbench.changed(few, reward_model, weighting.values, setup)  # noqa: F841
    search = weights.search_heads(scored, reward_model, setup)  # noqa: F841
