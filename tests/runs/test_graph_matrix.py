"""The rows of Tables 3 and 4 that the paper trained: each is a run of tier paper, its own or a named one."""

import pytest

from hs2lib import paper
from hs2lib.commands import hs2
from hs2lib.paths import root
from hs2lib.runs import cells, graph, key

NAMED = [(file.parent.name, file.stem) for file in sorted((root() / "params").glob("*/*@*.yaml"))]


@pytest.mark.slow
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
    assert any(values[name] != plain[name] for name in changed[0]) or changed[1], (
        "else it is the tier's own run"
    )


def test_every_row_that_the_paper_trained_has_a_run():
    rows = {}
    named = [
        run
        for tier, run in NAMED
        if tier == "paper" and run[:2] == "06" and not run.endswith("@released")
    ]
    for run in ["06_rewardbench_evaluation", *named]:
        _, values, _ = graph.resolved(run, "paper")
        assert rows.setdefault(values["paper_row"], run) == run, "two runs for one row"
        name = run.partition("@")[2]
        assert [other.partition("@")[2] for other in graph.upstream(run, "paper")] == [name], (
            "its own model"
        )
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
            assert (
                f"{notebook}@{name}" in read and title not in values["skip"] and recipe.paper_models
            )
    closed = {"GPT-4-0613", "Llama 3 70B Instruct"}  # trained by others
    assert set(paper.PAPER_ROWS.values()) == set(paper.TABLES["table-4"].rows) - closed


def test_published_models_are_measured_without_any_training():
    """In the row that the authors' card gives it, or in a row of its own; under the template it was trained with."""
    runs = {
        run: graph.resolved(run, "paper")[1:]
        for run in graph.named_runs("paper")
        if run.endswith("@released")
    }
    assert [graph.with_upstream([run], "paper") for run in runs] == [[run] for run in runs]
    (reward, _), (_, policies) = (
        runs["06_rewardbench_evaluation@released"],
        runs["13_aligned_model_evaluation@released"],
    )
    assert (reward["paper_row"], reward["weighting"]) == ("Llama 3 70B w. HelpSteer2", "")
    titles = [text.partition("=")[0] for text in policies.models]
    own = dict.fromkeys(
        row for row, _ in paper.TABLES["table-4"].rules.keys() - paper.TABLES["table-4"].values
    )
    assert (
        sorted(titles) == sorted(own)
        and policies.paper_models
        and policies.reward == reward["model"]
    )


DATA = ("HelpSteer2", "Open Assistant", "HH-RLHF", "HelpSteer")


def test_seeds_of_a_run_differ_in_the_seed_alone_and_read_those_of_the_same_seed():
    """No file defines them; the runs that they read are of the same seed, and of the same name where that has one."""
    for run, seed in (
        ("06_rewardbench_evaluation", 2),
        ("06_rewardbench_evaluation@preferences", 3),
    ):
        name = graph.of_seed(run, seed)
        assert name == {2: f"{run}@seed-2", 3: f"{run}-seed-3"}[seed] and graph.without_seed(
            name
        ) == (run, seed)
        (base,), (read,) = graph.upstream(run, "demo"), graph.upstream(name, "demo")
        assert read == graph.of_seed(base, seed)
        for one, of in ((run, name), (base, read)):
            plain, values = (graph.resolved(each, "demo")[1] for each in (one, of))
            assert values == plain | {"seed": plain["seed"] + seed}
    assert graph.of_seed("05_x@seed-1", 2) == "05_x@seed-3", (
        "and not a seed of a seed: that is the same run twice"
    )
    assert graph.of_seed("05_x@mine-seed-1", 0) == "05_x@mine-seed-1"
    assert graph.of_seed("05_x", 0) == "05_x" and graph.without_seed("05_x@seed-low") == (
        "05_x@seed-low",
        0,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "tier"),
    [
        ("13_aligned_model_evaluation", "demo"),
        ("13_aligned_model_evaluation", "paper"),
        ("13_aligned_model_evaluation@iteration-1", "paper"),
    ],
)
def test_a_seed_of_a_policy_has_all_before_it_of_that_seed(run, tier):
    """Also where a tier's file gives a start, as of 11 at tier paper: its own run reads on, and so do seeds."""
    before = graph.with_upstream([graph.of_seed(run, 1)], tier)
    assert (
        before == [graph.of_seed(name, 1) for name in graph.with_upstream([run], tier)]
        and len(before) > 6
    )
    for name in before:  # and of a stage, which reads no more than it computes with
        for stage in cells.stages_of(name):
            plain = graph.upstream(graph.without_seed(name)[0], tier, stage=stage)
            seeds = [graph.of_seed(other, 1) for other in plain]
            assert graph.upstream(name, tier, stage=stage) == seeds


@pytest.mark.slow
def test_five_seeds_are_the_run_and_four_more(capsys):
    """With what they read, each once; of a named run as of a notebook's own."""
    words = ["parameters", "--tier", "demo", "--seeds", "5", "05", "06", "06@preferences"]
    assert hs2.main(words) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("  ")]
    more = [
        f"06_rewardbench_evaluation@seed-{k} reads 05_reward_model_training@seed-{k}"
        for k in range(1, 5)
    ]
    assert len(shown) == 15 and set(more) < set(shown)
    assert (
        "06_rewardbench_evaluation@preferences-seed-4 reads 05_reward_model_training@preferences-seed-4"
        in shown
    )


SHOWN = '{"artefacts": {"a": {"sha256": "1"}}}'


@pytest.mark.parametrize(
    ("tier", "of", "counts"),
    [
        ("demo", "06_rewardbench_evaluation@preferences", True),
        ("demo", "06_rewardbench_evaluation@preferences-seed-1", True),
        ("laptop", "13_aligned_model_evaluation@mine", True),
        ("demo", "06_rewardbench_evaluation@by-hand", False),
        ("gpu", "06_rewardbench_evaluation@preferences", False),
    ],
)
def test_notebook_14_depends_on_the_reports_of_named_runs_and_of_seeds(
    monkeypatch, tmp_path, tier, of, counts
):
    """A report that a named run leaves makes it run again; one that was made by hand does not."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path))
    name = "14_paper_tables_and_figures"
    values, recipe = graph.resolved(name, "demo")[1:]
    settled = (values | {"beside": ["laptop"]}, recipe)
    before = key.upstream(name, "demo", settled)
    assert "laptop/06_rewardbench_evaluation" in before
    (tmp_path / tier / of).mkdir(parents=True)
    (tmp_path / tier / of / "manifest.json").write_text(SHOWN)
    new = [of if tier == "demo" else f"{tier}/{of}"] if counts else []
    assert sorted(key.upstream(name, "demo", settled).keys() - before.keys()) == new


def test_notebook_14_of_the_published_reports_depends_on_them_alone(monkeypatch, tmp_path):
    """A run of the user's own then changes nothing in it, and need not have been made."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "own"))
    monkeypatch.setenv("HS2_PUBLISHED", str(tmp_path / "published"))
    name = "14_paper_tables_and_figures@mine"
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    graph.define(name, "demo", {"published": True, "beside": ["laptop"]}, [])
    assert graph.upstream(name, "demo") == []
    for whose, tier, run in (
        ("own", "demo", "06_rewardbench_evaluation"),
        ("published", "demo", "06_rewardbench_evaluation@preferences"),
        ("published", "laptop", "01_dataset_statistics"),
        ("published", "demo", "14_paper_tables_and_figures"),
        ("published", "gpu", "01_dataset_statistics"),
    ):
        (tmp_path / whose / tier / run).mkdir(parents=True)
        (tmp_path / whose / tier / run / "manifest.json").write_text(SHOWN)
    assert key.upstream(name, "demo").keys() == {
        "06_rewardbench_evaluation@preferences",
        "laptop/01_dataset_statistics",
    }
