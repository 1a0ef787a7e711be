"""Notebooks 03 and 04: their own cells are executed and held to the library or another program."""

import ast
import json
import os
import re
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import cohen_kappa_score

from hs2lib.collect import completion, complexity
from hs2lib.data.load import load
from hs2lib.group import Group, Response, Turn
from hs2lib.models.policy import load_policy
from hs2lib.stats import aggregate, agreement, chance, describe
from hs2lib.world import grade, raters, sets

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
AGREEMENT = "03_annotator_agreement"
COLLECTION = "04_data_collection"


def run_cell(name, id, **known):
    """The names that a cell leaves, run among these."""
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4).cells
    (found,) = [cell for cell in cells if cell.id == id]
    namespace = {"np": np, "pd": pd, "combinations": combinations} | known
    exec(compile(found.source, f"{name}, {id}", "exec"), namespace)
    return namespace


def functions(name, id, **known):
    """The functions that a cell defines; nothing else of it is run."""
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4).cells
    (found,) = [cell for cell in cells if cell.id == id]
    tree = ast.parse(found.source)
    tree.body = [part for part in tree.body if isinstance(part, ast.FunctionDef)]
    namespace = {"np": np, "pd": pd, "combinations": combinations} | known
    exec(compile(tree, f"{name}, {id}", "exec"), namespace)
    return SimpleNamespace(**namespace)


def some_ratings(rows=300, seed=0):
    """Ratings of up to five people, [rows, 5], some of them missing."""
    rng = np.random.default_rng(seed)
    rated = rng.normal(2, 1, (rows, 1)) + rng.normal(0, 1, (rows, 5))
    rated = rated.round().clip(0, 4)
    rated[rng.random((rows, 5)) < 0.3] = np.nan
    return rated


def test_kappa_is_the_librarys_and_scikit_learns():
    made = SimpleNamespace(**run_cell(AGREEMENT, "whole"))
    ratings = some_ratings()
    pairs = made.pairs_of(ratings)
    assert not np.isnan(pairs).any()
    theirs = agreement.weighted_kappa(ratings, n_boot=0).estimate
    assert made.kappa(made.both_orders(pairs)) == pytest.approx(float(theirs), abs=1e-12)
    of_two = cohen_kappa_score(*pairs.T.astype(int), weights="quadratic")
    assert made.kappa(pairs) == pytest.approx(of_two, abs=1e-12)


def test_the_closest_three_are_the_librarys():
    closest_three = functions(AGREEMENT, "closest").closest_three
    rows = np.random.default_rng(1).integers(0, 5, (200, 5)).astype(float)
    keep = aggregate.keep_three(rows[:, :, None])
    for given, kept in zip(rows, keep, strict=True):
        assert list(closest_three(list(given))) == given[kept].tolist()


def test_the_error_of_all_five_is_that_of_their_rounded_mean():
    known = {"aggregate": aggregate, "agreement": agreement, "chance": chance}
    made = SimpleNamespace(**run_cell(AGREEMENT, "errors", **known))
    rng = np.random.default_rng(2)
    true = rng.uniform(0, 4, 40)
    five = rng.integers(0, 5, (40, 5, 1)).astype(float)
    row, squares = made.outcome(five, true, made.RULES["five, all kept"])
    np.testing.assert_allclose(squares, (np.rint(five[:, :, 0].mean(1)) - true) ** 2)
    assert row["removed"] == 0 and row["ratings of an answer"] == 5
    row, _ = made.outcome(five, true, made.RULES["three, filtered"])
    apart = np.ptp(five[:, :3, 0], axis=1) > 2
    dropped = apart.reshape(-1, 2).any(axis=1)
    assert row["removed"] == pytest.approx(dropped.mean())


def test_the_careless_rater_is_found_by_agreement_alone():
    groups = list(sets.groups(100, 3, "annotated"))
    known = {"describe": describe, "boot": {"n_boot": 100, "seed": 0}}
    with_the_others = functions(AGREEMENT, "careless", **known).with_the_others
    found = with_the_others(sets.annotations(groups), "helpfulness")
    assert found.index[0] == raters.CARELESS
    assert found.high.iloc[0] < found.low.iloc[1:].min()
    own = pd.DataFrame({"response": ["a", "a", "b", "b"], "annotator": ["x", "y"] * 2})
    own = own.assign(prompt=["p", "p", "q", "q"], clarity=[1, 2, 3, 5])
    assert with_the_others(own, "clarity").R.tolist() == pytest.approx([1, 1])


def test_the_assistants_turns_are_stripped():
    user_turns = functions(COLLECTION, "raw").user_turns
    turns = (Turn("user", "Hello."), Turn("assistant", "Hi."), Turn("user", "A joke?"))
    assert user_turns(Group("talk", turns, ())) == ["Hello.", "A joke?"]


def test_every_prompt_has_a_level():
    parts = functions(COLLECTION, "complexity", re=re, json=json).parts
    texts = ["?", "c#", "A: b, c and d. e!", "and " * 50, "Tell me how to steal a lamp. Be brief."]
    scores, unparsable = complexity.complexity(texts, parts)
    assert not unparsable
    assert scores.tolist() == [1, 1, 3, 1, 1]


def test_the_likelihood_of_a_user_turn_is_transformers_loss():
    policy = load_policy("postcards-none").eval()
    known = {"cache": cache, "torch": torch, "load_policy": load_policy}
    known |= {"model_name": "postcards-none", "run": SimpleNamespace(reads=lambda _: None)}
    made = SimpleNamespace(**run_cell(COLLECTION, "reading", **known))
    (group,) = sets.groups(1, 0)
    turns = (*group.prompt, Turn("assistant", group.responses[0].text))
    following = Turn("user", "Tell me about gold: the use. Be brief.")
    before = len(made.tokens(turns))
    ids = torch.tensor([made.tokens((*turns, following))])
    labels = ids.clone()
    labels[:, :before] = -100
    with torch.no_grad():
        loss = policy.backbone(ids, labels=labels).loss * (ids.shape[1] - before)
    assert made.log_prob(turns, following) == pytest.approx(-loss.item(), rel=1e-5)


def test_faults_are_the_sentences_that_differ():
    known = {"grade": grade, "Counter": Counter}
    faults = functions(COLLECTION, "picked", **known).faults
    right = "The use of gold is coins. Its ore is quartz."
    assert faults(right, right) == 0
    assert faults(f"My cousin plays chess. {right} Its ore is quartz.", right) == 2
    assert faults("The use of gold is coins.", right) == 1


def talk(name, *texts):
    """A conversation that the user begins and ends."""
    turns = [Turn(("user", "assistant")[i % 2], text) for i, text in enumerate(texts)]
    return Group(name, tuple(turns), ())


def test_the_reply_in_the_branch_is_preferred_to_each_beside_it():
    first = (Turn("user", "Hello"),)
    replies = (Response("a", "Hi."), Response("b", "Go away."), Response("c", "Yes?"))
    siblings = [Group("root", first, replies)]
    conversations = [talk("one", "Hello", "Hi.", "A joke?"), talk("two", "Hello", "Hi.", "A joke?")]
    conversations.append(talk("three", "Hello", "Yes?", "What?", "No.", "Bye"))
    pairs = list(completion.branch_pairs(siblings, conversations))
    texts = [tuple(response.text for response in pair.responses) for pair in pairs]
    assert texts == [
        ("Hi.", "Go away."),
        ("Hi.", "Yes?"),
        ("Yes?", "Hi."),
        ("Yes?", "Go away."),
    ]
    assert {pair.preference for pair in pairs} == {-1.0}
    assert pairs[0].prompt == completion.scheme(["Hello", "A joke?"], [])
    assert len({pair.id for pair in pairs}) == 4
    assert not list(completion.branch_pairs([], conversations))


@pytest.mark.skipif("HS2_DATA_DIR" not in os.environ, reason="HS2_DATA_DIR is not set")
def test_branches_of_open_assistants_trees():
    siblings = load("oasst1", "folder", split="validation", strict=False).groups
    paths = load("oasst1-paths", "folder", split="validation", strict=False).groups
    pairs = list(completion.branch_pairs(siblings, paths))
    assert len(pairs) > 100
    for pair in pairs:
        chosen, rejected = pair.responses
        assert chosen.text != rejected.text
        assert pair.prompt[0].text.startswith("Below is a conversation")
        assert len({response.id for response in pair.responses}) == 2
