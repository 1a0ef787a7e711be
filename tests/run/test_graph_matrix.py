"""The rows of Tables 3 and 4 that the paper trained: each is a run of tier paper, its own or a named one."""

import pytest

from hs2lib import paper
from hs2lib.paths import root
from hs2lib.run import graph

NAMED = [(file.parent.name, file.stem) for file in sorted((root() / "params").glob("*/*@*.yaml"))]


@pytest.mark.parametrize(("tier", "run"), NAMED)
def test_a_named_run_resolves(tier, run):
    """Its parameters are known, what it reads is needed and defined, and all of it can be put in order."""
    _, values, _ = graph.resolved(run, tier)
    assert values["tier"] == tier
    before = graph.with_upstream([run], tier)
    assert before[-1] == run
    assert {name for name in before if "@" in name} <= set(graph.named_runs(tier))
    changed = graph.definition(run, tier)
    plain = graph.resolved(run.partition("@")[0], tier)[1]
    assert any(values[name] != plain[name] for name in changed[0]) or changed[1], "else it is the tier's own run"


def test_every_row_that_the_paper_trained_has_a_run():
    rows = {}
    for run in ["06_rewardbench_evaluation", *(run for tier, run in NAMED if tier == "paper" and run[:2] == "06")]:
        _, values, _ = graph.resolved(run, "paper")
        assert rows.setdefault(values["paper_row"], run) == run, "two runs for one row"
        name = run.partition("@")[2]
        assert [other.partition("@")[2] for other in graph.upstream(run, "paper")] == [name], "its own model"
    trained = ["Nemotron-4 340B RM w. HelpSteer2", *(f"Llama 3 70B w. {data}" for data in DATA)]
    assert set(rows) == set(trained) <= set(paper.TABLES["table-3"].rows)

    titles = graph.makers("policy")
    for policy, row in paper.PAPER_ROWS.items():
        title, _, name = policy.partition("@")
        (notebook,) = (run for run, made in titles.items() if made == title)
        assert not name or ("paper", f"{notebook}@{name}") in NAMED, row
        if name:  # and a run that measures it, in which what it does not measure is left out
            _, values, recipe = graph.resolved(f"13_aligned_model_evaluation@{name}", "paper")
            read = graph.upstream(f"13_aligned_model_evaluation@{name}", "paper")
            assert f"{notebook}@{name}" in read and title not in values["skip"] and recipe.paper_models
    closed = {"GPT-4-0613", "Llama 3 70B Instruct"}  # trained by others
    assert set(paper.PAPER_ROWS.values()) == set(paper.TABLES["table-4"].rows) - closed


DATA = ("HelpSteer2", "Open Assistant", "HH-RLHF", "HelpSteer")
