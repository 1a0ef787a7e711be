"""Named runs from the command line: what defines one, what it reads, and what may be none."""

import pytest
import three_notebooks
from three_notebooks import MODEL, SECOND, execute

from hs2lib import paths
from hs2lib.commands import hs2, named, refusals, watch
from hs2lib.runs import graph, key, lock

checkout = three_notebooks.checkout  # a fixture


@pytest.fixture
def started(checkout, monkeypatch):
    """The runs that commands hand to Snakemake, a list for each command; nothing is run."""
    handed = []
    monkeypatch.setattr(watch, "snakemake", lambda names, *others: handed.append(names) or 0)
    return handed


def run(*words):
    return hs2.main(["run", "--tier", "demo", *words])


def listed(*words):
    return hs2.main(["parameters", "--tier", "demo", *words])


# What a run is made with.


def test_parameters_of_a_named_run_are_listed_and_it_is_defined(started, capsys):
    words = ["02", "03", "--name", "big", "-p", "n=7", "--set", "rate=1e-3"]
    assert listed(*words) == 0
    shown = capsys.readouterr().out
    assert "02_model@big reads no other run\n" in shown
    assert "03_second@big reads 02_model@big\n" in shown
    assert "  n: int = 7  # a number; 0 to 9\n" in shown
    assert "  rate: float = 0.001  # a rate\n" in shown
    assert started == [] and graph.named_runs("demo") == ["02_model@big", "03_second@big"]


@pytest.mark.slow
def test_parameters_are_listed_with_their_value_at_the_tier_and_the_whole_recipe():
    page = named.listed("08_dpo", "paper").splitlines()
    assert page[0] == "08_dpo"
    beta = "  beta: float = 0.001  # how much a change of log-probability counts; 1e-06 to 10"
    shard = "  recipe.fsdp: bool = True  # shard the model over the processes that torchrun started"
    long = "  recipe.too_long: str = 'leave out'  # what to do with a row longer than max_tokens; "
    assert {beta, shard, f"{long}one of raise, leave out"} <= set(page)
    assert sum(line.split(":")[0].endswith("beta") for line in page) == 1


# What it is defined by, and what it reads.


def test_runs_of_one_command_read_each_other(started):
    assert run("02", "03", "--name", "big", "-p", "n=7") == 0
    assert started == [["02_model@big", "03_second@big"]]
    assert graph.upstream("03_second@big", "demo") == ["02_model@big"]
    assert graph.upstream(SECOND, "demo") == [MODEL], "the notebook's own run stays as it is"
    assert graph.resolved("02_model@big", "demo")[1]["n"] == 7
    assert graph.resolved(MODEL, "demo")[1]["n"] == 2


def test_runs_of_one_name_read_each_other_over_several_commands(started, capsys):
    """05 --name mine, and then 06 --name mine: the hint named -p key=value, of which there was none."""
    run("02", "--name", "big", "-p", "n=7")
    assert run("03", "--name", "big") == 0
    assert "03_second@big reads 02_model@big\n" in capsys.readouterr().err
    assert run("03", "--name", "big", "-p", "n=7") == 0
    assert graph.upstream("03_second@big", "demo") == ["02_model@big"]


def test_a_run_of_another_name_is_read_where_it_is_named(started):
    for name in ("big", "other"):
        run("02", "--name", name, "-p", "n=7")
    assert run("03", "--name", "other", "--reads", "02@big") == 0
    assert graph.upstream("03_second@other", "demo") == ["02_model@big"]


def test_a_run_that_did_not_end_is_not_read(started, capsys):
    """One that stops at its data made every later run of its name stop there too."""
    run("02", "--name", "e", "-p", "n=7")
    (paths.runs() / "demo/02_model@e/compute.log").write_text("it stopped\n")
    assert run("03", "--name", "e", "-p", "n=3") == 0
    assert "does not read 02_model@e, which was begun and did not end" in capsys.readouterr().err
    assert graph.upstream("03_second@e", "demo") == [MODEL]
    assert run("03", "--name", "e", "--reads", "02@e") == 0
    assert graph.upstream("03_second@e", "demo") == ["02_model@e"]


def test_a_run_whose_inputs_are_named_reads_no_other(started, monkeypatch):
    monkeypatch.setattr(refusals, "check_files", lambda names, tier: None)  # it is no table
    assert run("03", "--name", "alone", "-p", "path=mine") == 0
    assert graph.with_upstream(["03_second@alone"], "demo") == ["03_second@alone"]


def test_each_command_says_the_whole_of_a_run(started, capsys):
    run("02", "--name", "big", "-p", "n=7", "-p", "rate=1e-3")
    execute("02_model@big")
    capsys.readouterr()
    assert run("02", "--name", "big", "-p", "n=8") == 0
    said = capsys.readouterr().err
    assert said.startswith(
        "02_model@big replaces an earlier run of this name, which also set rate\n"
    )
    assert "Report: " in said and "02_model@big.ipynb" in said
    why = key.why("02_model@big", "demo")
    assert why == "changed: n (was 7, is 8), rate (was 0.001, is 0.5)"


def test_a_run_with_parameters_of_its_own_is_run_again_by_its_name(started):
    run("02", "--name", "big", "-p", "n=7")
    assert run("02@big") == run("02", "--name", "big") == 0
    assert started == [["02_model@big"]] * 3
    assert graph.resolved("02_model@big", "demo")[1]["n"] == 7


def test_seeds_of_a_named_run_are_run_with_it(started):
    assert run("02", "03", "--name", "big", "-p", "n=7", "--seeds", "2") == 0
    both = ["02_model@big", "03_second@big"]
    assert sorted(started[0]) == sorted([*both, *(f"{name}-seed-1" for name in both)])


def test_the_list_has_named_runs_too(started, capsys):
    run("02", "--name", "big", "-p", "n=7")
    assert hs2.main(["list", "--tier", "demo"]) == 0
    assert "demo 02_model@big: never run here\n" in capsys.readouterr().out


# Files in params.


def defined_by_file(checkout, run, text):
    paths.write(checkout / f"params/demo/{run}.yaml", text)


def test_a_file_in_params_defines_a_named_run(checkout, capsys):
    defined_by_file(checkout, "02_model@big", "n: 9\n")
    defined_by_file(checkout, "03_second@filed", "n: 6\nreads: [02@big]\n")
    assert graph.named_runs("demo") == ["02_model@big", "03_second@filed"]
    assert listed("03@filed") == 0
    shown = capsys.readouterr().out
    assert "03_second@filed reads 02_model@big\n" in shown and "n: int = 6" in shown


def test_a_file_that_reads_what_nothing_defines_says_where_to_define_it(checkout, capsys):
    defined_by_file(checkout, "03_second@filed", "n: 6\nreads: [02@big]\n")
    assert listed("03@filed") == 2
    assert "write params/demo/02_model@big.yaml" in capsys.readouterr().err


def test_what_a_file_reads_is_a_list(checkout, capsys):
    defined_by_file(checkout, "03_second@text", "n: 6\nreads: 02@big\n")
    assert listed("03@text") == 2
    assert "03_second@text.yaml: reads is a list" in capsys.readouterr().err


def test_what_a_file_defines_no_command_defines_otherwise(started, checkout, capsys):
    defined_by_file(checkout, "02_model@big", "n: 9\n")
    assert run("02", "--name", "big", "-p", "n=9") == 0, "the same again"
    assert run("02", "--name", "big", "-p", "n=7") == 2
    file = checkout / "params/demo/02_model@big.yaml"
    assert f"02_model@big is defined in {file}: change that file" in capsys.readouterr().err


# What is refused.


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["02", "-p", "n=3"],
            "02_model at tier demo has the tier's parameters: name a run of your own, --name mine",
        ),
        (["02", "--name", "a", "-p", "nn=3"], "-p: unknown parameter 'nn'; nearest valid name: n"),
        (["02", "--name", "a", "-p", "n=many"], "-p n=many: n is int (a number)"),
        (["02", "--name", "a", "-p", "n=10"], "n = 10 is outside 0 to 9"),
        (["02", "--name", "a", "-p", "n"], "-p n: write -p n=value"),
        (["02", "--name", "a", "-p", "path"], "-p path: write -p path=value"),
        (["02", "--name", "a", "-p", "many=x"], "many is list (some texts), got str 'x'"),
        (
            ["02", "--name", "a b", "-p", "n=3"],
            "02@a b: a run's name has letters, digits, '.', '_' and '-'",
        ),
        (["02", "--name", "by-hand", "-p", "n=3"], "not by-hand"),
        (
            ["02", "--name", "a-seed-2", "-p", "n=3"],
            "02_model@a-seed-2 is 02_model@a of a higher seed: choose another",
        ),
        (
            ["02", "--name", "seed-1", "-p", "n=3"],
            "02_model@seed-1 is 02_model of a higher seed: choose another name",
        ),
        (["02", "--name", "a"], "02_model@a is not defined at tier demo: add -p key=value"),
        (
            ["02", "--name", "a", "--reads", "03@b"],
            "--reads 03_second@b: none of 02_model@a needs it",
        ),
        (["03", "--name", "a", "--reads", "04@b"], "no notebook '04@b'"),
        (["02", "--name", "a", "--scale", "1-5"], "02_model@a read no such file of your own"),
    ],
)
def test_what_a_named_run_may_not_be_is_refused_and_leaves_nothing(started, capsys, words, message):
    assert run(*words) == 2
    assert message in capsys.readouterr().err
    assert graph.named_runs("demo") == [] and started == []


@pytest.mark.slow
def test_a_named_run_whose_file_cannot_be_read_is_not_defined(started, checkout, capsys):
    """It was refused and still defined: the next run of that name read it, and failed of it."""
    assert run("02", "--name", "e", "-p", f"path={checkout}/none.jsonl") == 2
    assert "none.jsonl cannot be read" in capsys.readouterr().err
    assert graph.named_runs("demo") == [] and started == []
    assert run("03", "--name", "e", "-p", "n=3") == 0
    assert graph.upstream("03_second@e", "demo") == [MODEL]


def test_a_refused_command_leaves_a_named_run_as_it_was(started):
    """While another run holds the folder, what it runs must not be defined anew either."""
    run("02", "--name", "e", "-p", "n=3")
    before = graph.definition("02_model@e", "demo")
    assert run("02", "--name", "e", "-p", "n=12") == 2
    with lock.hold(paths.runs()):
        assert run("02", "--name", "e", "-p", "n=4") == 2
    assert graph.definition("02_model@e", "demo") == before
