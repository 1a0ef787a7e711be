"""HelpSteer3's preferences from rows made by hand in its card's fields; no released file was at hand."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hub_server import asked
from made_rows import caught, write
from shared_models import share_models

from hs2lib.align import dpo
from hs2lib.data.load import SETS, load
from hs2lib.data.pairs import Benchmark
from hs2lib.evaluate import rewardbench, weights
from hs2lib.group import Group, Response, Turn
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs.setup import Setup
from hs2lib.stats import agreement
from hs2lib.train import items
from hs2lib.train.recipes import DPO, RewardBench

NAME = "helpsteer3-preference"


def judged(*scores: int) -> list[dict]:
    return [{"score": score, "reasoning": f"because {score}"} for score in scores]


def row(preference: int = -2, votes: Iterable[int] = (-2, -2, -3), **changes) -> dict:
    """A row in the card's fields."""
    context = [
        {"role": "user", "content": "Sort a list."},
        {"role": "assistant", "content": "In which language?"},
        {"role": "user", "content": "In Python."},
    ]
    return {
        "domain": "code",
        "language": "python",
        "context": context,
        "response1": "sorted(numbers)",
        "response2": "numbers.sort(), and it returns None",
        "overall_preference": preference,
        "individual_preference": judged(*votes),
        **changes,
    }


ROWS = [row(-2), row(0, (0, 1, -1)), row(3, (3, 2)), row(1, (1, 1, 0))]


@pytest.fixture
def folder(tmp_path) -> Path:
    """A data folder that holds both splits, as `hf download` leaves them."""
    write(tmp_path / "helpsteer3/preference/train.jsonl.gz", ROWS)
    write(tmp_path / "helpsteer3/preference/validation.jsonl.gz", ROWS[:1])
    return tmp_path


# Every field, from either place


def test_every_field_of_a_row_arrives(folder):
    """Domain and language are for who chooses among rows; a reason is read, and not kept."""
    (group,) = load(NAME, "folder", folder=folder, split="validation").groups
    assert group.id == f"{NAME}/validation/0"
    assert group.prompt == (
        Turn("user", "Sort a list."),
        Turn("assistant", "In which language?"),
        Turn("user", "In Python."),
    )
    assert [response.text for response in group.responses] == [
        "sorted(numbers)",
        "numbers.sort(), and it returns None",
    ]
    assert group.preference == -2.0  # negative: the first response is better, as in Group
    assert group.preferences == (-2.0, -2.0, -3.0)
    assert group.source.endswith(", code, python")
    assert group.attributes == () and group.responses[0].labels == ()


def test_a_system_message_and_further_columns_of_a_judgement_are_read(tmp_path):
    """A later release has feedback beside each score: what is not known there is left alone."""
    system = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    votes = [{**vote, "feedback1": "good", "feedback2": "long"} for vote in judged(1, 2)]
    path = write(tmp_path / "rows.jsonl", [row(1, context=system, individual_preference=votes)])
    (group,) = load(NAME, "folder", path=path).groups
    assert group.prompt == (Turn("system", "Be brief."), Turn("user", "Hi"))
    assert group.preferences == (1.0, 2.0)


def test_both_splits_come_from_the_hub_at_the_pinned_commit(folder, tmp_path):
    """A file must not change under its name: what is asked for is the commit in the table."""
    seen: list[str] = []
    hub = tmp_path / "hub"
    (hub / "nvidia").mkdir(parents=True)
    (folder / "helpsteer3").rename(hub / "nvidia" / "HelpSteer3")
    with asked(hub, tmp_path / "home", seen):
        loaded = load(NAME, "hub")
    assert len(loaded.groups) == 5 and not loaded.generated
    pinned = SETS[NAME].revision
    assert len(pinned) == 40
    assert f"nvidia/HelpSteer3@{pinned[:7]} preference/validation.jsonl.gz" in loaded.source
    asked_for = [request for request in seen if request.startswith("GET /datasets/")]
    assert asked_for and all(f"/resolve/{pinned}/preference/" in request for request in asked_for)


# A bad row


def without(column: str) -> dict:
    return {name: value for name, value in row().items() if name != column}


CONTEXT = row()["context"]

BAD = [
    (row(domain="poetry"), "domain", "expected 'general', 'stem', 'code' or 'multilingual'"),
    (row(language=" "), "language", "text that can be seen"),
    (row(context=[]), "context", "the conversation is empty"),
    (row(context=CONTEXT[:2]), "context", "ends with the assistant's"),
    (row(context=CONTEXT[1:]), "context", "a user's first"),
    (row(context="Sort a list."), "context", 'got "Sort a list."'),
    (row(context=[{"role": "tool", "content": "x"}]), "context[0].role", "expected 'system'"),
    (row(context=[{"role": "user", "content": ""}]), "context[0].content", "can be seen"),
    (row(response1=None), "response1", "expected text that can be seen, got null"),
    (row(response2=""), "response2", "text that can be seen"),
    (row(4), "overall_preference", "from -3 to 3"),
    (row(1.5), "overall_preference", "a whole number"),
    (row(individual_preference=[{"reasoning": "r"}]), "individual_preference[0].score", "missing"),
    (row(votes=(-4,)), "individual_preference[0].score", "from -3 to 3"),
    (
        row(individual_preference=[{"score": 1, "reasoning": None}]),
        "individual_preference[0].reasoning",
        "got null",
    ),
    *[(without(column), column, "the column is missing") for column in row()],
]


@pytest.mark.parametrize(("bad", "field", "words"), BAD, ids=[f"{b[1]}-{b[2][:12]}" for b in BAD])
def test_a_bad_row_is_one_clear_error_or_is_set_aside(tmp_path, bad, field, words):
    """The error names file, line, field and fix; with strict False the sound rows stay, and one is counted."""
    path = write(tmp_path / "rows.jsonl", [row(), bad])
    error = caught(path, NAME)
    assert (error.line, error.field) == (2, field)
    assert words in str(error) and "faults" not in str(error)
    loaded = load(NAME, "folder", path=path, strict=False)
    assert len(loaded.groups) == 1 and [aside.line for aside in loaded.set_aside] == [2]


# What it is good for


def test_agreement_of_its_raters_by_the_functions_of_notebook_03(folder):
    """Rows of two raters beside rows of three; kappa is that of the same numbers typed in."""
    groups = load(NAME, "folder", folder=folder, split="train").groups
    assert [group.preferences for group in groups] == [(-2, -2, -3), (0, 1, -1), (3, 2), (1, 1, 0)]
    preferences = pd.DataFrame(group.preferences for group in groups).to_numpy(float)
    kappa = agreement.weighted_kappa(preferences, range(-3, 4), n_boot=0).estimate
    # All pairs of slots: ten in one order, whose squares are 0, 1, 1, 1, 1, 4, 1, 0, 1, 1.
    pairs = [(-2, -2), (-2, -3), (-2, -3), (0, 1), (0, -1), (1, -1), (3, 2), (1, 1), (1, 0), (1, 0)]
    both_orders = np.array(pairs + [(b, a) for a, b in pairs])
    expected = np.mean((both_orders[:, :1] - both_orders[:, 1]) ** 2)
    assert kappa == pytest.approx(1 - 1.1 / expected)


def test_reward_models_and_dpo_take_its_preferences(folder):
    """05 and 15 train on its strengths; 08 takes the better response of each pair; ties go."""
    groups = load(NAME, "folder", folder=folder, split="train").groups
    made, counts = items.compared(RewardModel.new("tiny", attributes=("reward",)), groups)
    assert [item.targets.ravel().tolist() for item in made] == [[1, -1], [-1.5, 1.5], [-0.5, 0.5]]
    assert counts["ties_left_out"] == 1
    pairs, counts = dpo.by_attribute(groups, "")
    assert [pair.responses[0].text for pair in pairs] == [
        "sorted(numbers)",
        "numbers.sort(), and it returns None",
        "numbers.sort(), and it returns None",
    ]
    assert counts["ties"] == 1 and all(pair.preference < 0 for pair in pairs)
    recipe = DPO(dataset=NAME, source="folder", attribute="", validation_share=0.0)
    loaded = load(NAME, "folder", folder=folder, split="train")
    assert len(dpo.paired(loaded, None, recipe).training) == 3


def test_notebook_06_searches_head_weights_on_its_pairs(folder, tmp_path, monkeypatch):
    """A tie is no pair: of four rows three have a better response, which stands first in its pair."""
    monkeypatch.setenv("HS2_DATA_DIR", str(folder))
    monkeypatch.setenv("HS2_RUNS", str(share_models(tmp_path / "runs")))
    settings = {"held_out": NAME, "held_out_split": "train", "source": "folder"}
    recipe = RewardBench(weight_step=0.5, folds=2, n_boot=100, **settings)
    setup = Setup("06_rewardbench_evaluation", "smoke", {"tier": "smoke"}, recipe)
    model = RewardModel.new("tiny", attributes=("helpfulness", "verbosity")).eval()
    answers = (Response("better", "yes"), Response("worse", "no"))
    asked_of = [Group(f"chat/{k}", (Turn("user", f"{k}?"),), answers) for k in range(4)]
    benchmark = Benchmark(tuple(asked_of), "own", "by hand")
    values = np.array([[[1.0, 0.0], [0.0, 0.0]]] * 4)  # helpfulness alone is right
    scored = rewardbench.Scored(values, ("better", "worse") * 4, benchmark, {})
    search = weights.search_heads(scored, model, setup)
    chosen = [group.responses[0].text for group in search.source.groups]
    assert chosen == ["sorted(numbers)", *["numbers.sort(), and it returns None"] * 2]
    assert search.held_out_margins.shape == (3, 2) and not search.source.generated
    right = [(search.held_out_margins @ w > 0).mean() for w in ([1, 0], [0, -1], [1, -1])]
    assert search.best_held_out.value >= max(right)
    assert search.fit.best.value == 1.0 and search.fit.best.weights[0] > 0
