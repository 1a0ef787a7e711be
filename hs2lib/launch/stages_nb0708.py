"""The stages of notebooks 07 and 08: the statements of their cells, as functions."""

# ruff: noqa: F841  (a statement is the notebook's own, which names what a later cell shows)

from hs2lib.align import dpo, sft
from hs2lib.evaluate import preferences, selection
from hs2lib.evaluate.comparison import Comparison
from hs2lib.models import saved
from hs2lib.run.setup import Setup


def train_07(setup: Setup) -> None:
    conversations = sft.load_conversations(setup)
    policy = saved.base_policy(setup)
    items = sft.prepare(policy, conversations, setup)
    result = sft.train(policy, items, setup)


def evaluate_07(setup: Setup) -> None:
    conversations = sft.load_conversations(setup)
    policy = saved.base_policy(setup)
    items = sft.prepare(policy, conversations, setup)
    result = sft.train(policy, items, setup)
    chosen = selection.choose(policy, result, setup.recipe)
    base = saved.base_policy(setup)
    perplexity = sft.perplexity({"base": base, "SFT": policy}, items, setup)
    reward_model = saved.reward_model(setup)
    compared = Comparison.begin(setup, reward_model, policy, earlier=False)
    greedy = compared.greedy({"base": base, "SFT": policy})
    compared.evaluate(base, "base")
    compared.evaluate(policy, "SFT")
    compared.save()


def export_07(setup: Setup) -> None:
    conversations = sft.load_conversations(setup)
    policy = saved.base_policy(setup)
    items = sft.prepare(policy, conversations, setup)
    result = sft.train(policy, items, setup)
    chosen = selection.choose(policy, result, setup.recipe)
    saved_in = saved.save(policy, setup)


def train_08(setup: Setup) -> None:
    pairs = dpo.load_pairs(setup)
    policy = saved.starting_policy(setup)
    items = dpo.prepare(policy, pairs, setup)
    result = dpo.train(policy, items, setup)


def evaluate_08(setup: Setup) -> None:
    pairs = dpo.load_pairs(setup)
    policy = saved.starting_policy(setup)
    items = dpo.prepare(policy, pairs, setup)
    result = dpo.train(policy, items, setup)
    chosen = selection.choose(policy, result, setup.recipe)
    ordered = preferences.order_pairs(policy, items, pairs, chosen.result, setup)
    reward_model = saved.reward_model(setup, frozen=True)
    reference = saved.starting_policy(setup, frozen=True)
    earlier = reward_model is not None and not setup.recipe.start
    compared = Comparison.begin(setup, reward_model, reference, earlier=earlier)
    compared.evaluate_first(reference, "SFT")
    compared.evaluate(policy, "DPO")
    compared.save()
    path = preferences.along(policy, items, pairs, chosen.result, compared, setup)


def export_08(setup: Setup) -> None:
    pairs = dpo.load_pairs(setup)
    policy = saved.starting_policy(setup)
    items = dpo.prepare(policy, pairs, setup)
    result = dpo.train(policy, items, setup)
    chosen = selection.choose(policy, result, setup.recipe)
    saved_in = saved.save(policy, setup)
