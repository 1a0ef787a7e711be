"""A file of one's own and nothing else: what it holds becomes parameters of the run, and is said before it runs."""

import contextlib
import csv
import sys

import pytest

from hs2lib.commands import hs2, own_file
from hs2lib.group import ATTRIBUTES
from hs2lib.runs import graph
from hs2lib.runs.parameters import ParameterError

PROMPTS = 12


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Runs and reports of the test's own, and the current folder, in which the files lie."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name, header, rows):
    """A CSV file; a row is what stands after prompt and the number of the response."""
    with open(name, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(header)
        table.writerows(rows)
    return name


def clarity_and_tone(name="my.csv"):
    rows = []
    for number in range(PROMPTS):
        rows.append((f"Why {number}?", "Because.", number % 5, 4 - number % 5, "fine"))
        rows.append((f"Why {number}?", "No idea, really.", 4, 0, "so so"))
    return written(name, ["prompt", "response", "clarity", "tone", "notes"], rows)


def preferences(name="pairs.csv"):
    rows = [(f"Why {number}?", "Because.", "No.") for number in range(PROMPTS)]
    return written(name, ["prompt", "chosen", "rejected"], rows)


def define(*words):
    """Define named runs as `hs2 run` does, and run nothing; the exit status."""
    args = hs2.parser().parse_args(["run", *words])
    try:
        with contextlib.ExitStack() as undo:
            hs2._defined(args, undo)
            undo.pop_all()
    except ParameterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def values_of(run, tier="smoke"):
    """What a command has made of a named run: its parameters and its recipe."""
    _, values, recipe = graph.resolved(graph.matching([run])[0], tier)
    return values, recipe


def test_a_file_of_ratings_is_enough(folder, capsys):
    clarity_and_tone()
    assert define("05", "--name", "mine", "-p", "path=my.csv") == 0
    printed = capsys.readouterr()
    first, second = printed.err.splitlines()
    assert first == ("my.csv: ratings for 12 prompts; attributes: clarity (0 to 4), tone (0 to 4).")
    assert second == (
        "05_reward_model_training@mine trains on clarity, tone, from SmolLM2-135M-Instruct, "
        "in about 14 steps of 2 prompts."
    )
    values, recipe = values_of("05@mine")
    assert (values["dataset"], values["source"]) == ("ratings", "folder")
    assert recipe.attributes == ("clarity", "tone") and recipe.scale == "0-4"
    assert (recipe.model_name, recipe.method) == ("embedded", "lora")
    assert recipe.objective == "regression" and recipe.validate_every == 4
    threads = graph.threads("05_reward_model_training@mine", "smoke", 4)
    assert threads == 4, "the small base alone gains nothing by a second one"


def test_preferences_are_trained_on_as_such(folder, capsys):
    """They had to be called HelpSteer2-Preference and given a column of splits."""
    preferences()
    assert define("05", "--name", "mine", "-p", "path=pairs.csv") == 0
    printed = capsys.readouterr().err
    assert "pairs.csv: preferences between two responses: 12." in printed
    assert "trains by which response is better (bradley-terry)" in printed
    values, recipe = values_of("05@mine")
    assert (values["dataset"], recipe.objective) == ("pairs", "bradley-terry")


def test_ties_are_counted_and_a_file_of_ties_alone_is_named(folder, capsys):
    """It had 0 different prompts, which are too few."""
    header = ["prompt", "response_a", "response_b", "winner"]
    rows = [(f"Why {number}?", "Because.", "No.", "ab"[number % 2]) for number in range(PROMPTS)]
    ties = [(f"How {number}?", "So.", "Or so.", "tie") for number in range(PROMPTS)]
    written("some.csv", header, [*rows, *ties])
    assert define("05", "--name", "mine", "-p", "path=some.csv") == 0
    printed = capsys.readouterr().err
    assert "12 (ties and faulty rows, which are left out: 12)" in printed
    written("ties.csv", header, ties)
    assert hs2.main(["run", "05", "--name", "ties", "-p", "path=ties.csv"]) == 2
    printed = capsys.readouterr().err
    assert "ties.csv: no row prefers one response, rows left out: 12; the first: " in printed
    assert "line 2" in printed and "a tie: neither response is better" in printed


def test_what_is_typed_counts(folder):
    clarity_and_tone()
    words = ["-p", "path=my.csv", "-p", "attributes=[tone]", "-p", "epochs=3"]
    words += ["-p", "model_name=tiny", "-p", "recipe.validate_every=7", "--scale", "0-10"]
    assert define("05", "--name", "mine", *words) == 0
    _, recipe = values_of("05@mine")
    assert recipe.attributes == ("tone",) and recipe.scale == "0-10" and recipe.epochs == 3
    assert (recipe.model_name, recipe.method, recipe.validate_every) == ("tiny", "full", 7)


def test_the_tiers_of_real_data_keep_their_sizes(folder):
    clarity_and_tone()
    command = ["--tier", "laptop", "05", "--name", "mine", "-p", "path=my.csv", "-p", "batch=4"]
    assert define(*command) == 0
    _, recipe = values_of("05@mine", "laptop")
    _, of_tier = values_of("05", "laptop")
    assert (recipe.learning_rate, recipe.epochs) == (of_tier.learning_rate, of_tier.epochs)
    assert recipe.attributes == ("clarity", "tone") and recipe.dataset == "ratings"


def test_a_batch_of_the_tier_that_the_rows_cannot_fill_is_refused_before_anything_runs(
    folder, capsys
):
    """A training on a GPU loaded its model first, and then stopped without a way out."""
    clarity_and_tone()
    command = ["--tier", "gpu", "05", "--name", "mine", "-p", "path=my.csv"]
    assert define(*command) == 2
    printed = capsys.readouterr().err
    assert "make no batch of 64" in printed and "-p batch=" in printed
    assert not list(folder.glob("runs/*/*/run.yaml"))
    assert define(*command, "-p", "batch=4") == 0
    _, recipe = values_of("05@mine", "gpu")
    assert recipe.batch == 4


@pytest.mark.parametrize("tier", ["gpu", "laptop"])
def test_06_measures_on_the_held_out_rows_at_tiers_of_real_data_too(folder, tier):
    """It said so, and measured on the tier's benchmark by the weights of the tier's own model."""
    clarity_and_tone()
    words = ["--name", "mine", "-p", "path=my.csv", "-p", "batch=4"]
    assert define("--tier", tier, "05", "06", *words) == 0
    values, recipe = values_of("06@mine", tier)
    assert (recipe.source, recipe.path, values["weighting"]) == ("postcards", "", "")
    after = ["--tier", tier, "06", "--name", "mine"]
    assert define(*after, "-p", "weighting=clarity:1") == 0
    values, recipe = values_of("06@mine", tier)
    assert (recipe.source, values["weighting"]) == ("postcards", "clarity:1")
    words = ["-p", "source=hub", "-p", "weighting=clarity:1"]
    assert define(*after, *words) == 0
    assert values_of("06@mine", tier)[1].source == "hub", "what is typed counts"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(f"p{number}", "r", 1 + number % 5) for number in range(20)], "as --scale=1-5"),
        ([(f"p{number}", "r", 3) for number in range(20)], "all ratings are equal (clarity 3)"),
        ([(f"p{number}", "r", 4 * number) for number in range(2)], "2 different prompts"),
        ([(f"p{number}", "", number % 5) for number in range(40)], "40 faults in 40 rows"),
    ],
)
def test_what_cannot_be_used_is_one_error_and_leaves_nothing(folder, capsys, rows, words):
    """A refused run was defined all the same, and the next command of its name failed over it."""
    written("my.csv", ["prompt", "response", "clarity"], rows)
    assert hs2.main(["run", "05", "--name", "mine", "-p", "path=my.csv"]) == 2
    printed = capsys.readouterr().err
    assert words in printed and len(printed.splitlines()) < 5
    assert not list(folder.glob("runs/*/*/run.yaml"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["02", "-p", "path=pairs.csv"], "pairs.csv holds preferences, and 02_"),
        (["05", "-p", "path=pairs.csv", "-p", "objective=regression"], "regression needs ratings"),
        (["05", "-p", "path=five.csv"], "all ratings are equal (helpfulness 3"),
    ],
)
def test_a_file_of_the_wrong_kind_is_refused(folder, capsys, command, words):
    preferences()
    rows = [(f"p{number}", "r", *[3] * len(ATTRIBUTES)) for number in range(PROMPTS)]
    written("five.csv", ["prompt", "response", *ATTRIBUTES], rows)
    assert define(*command, "--name", "mine") == 2
    assert words in capsys.readouterr().err
    assert not list(folder.glob("runs/*/*/run.yaml"))


@pytest.mark.parametrize("objective", ["bradley-terry", "bradley-terry-margin"])
def test_ratings_are_compared_by_the_first_attribute(folder, capsys, objective):
    """With a margin they were compared by helpfulness, which the file does not have."""
    clarity_and_tone()
    words = ["05", "--name", "mine", "-p", "path=my.csv", "-p", f"objective={objective}"]
    assert define(*words, "-p", "recipe.steps=3") == 0
    printed = capsys.readouterr().err
    assert f"by which response is better in clarity ({objective})" in printed
    assert "in about 3 steps of 2 prompts" in printed
    _, recipe = values_of("05@mine")
    assert (recipe.compare, recipe.steps, recipe.validate_every) == ("clarity", 3, 1)
    assert define(*words, "-p", "recipe.compare=tone") == 0
    assert f"better in tone ({objective})" in capsys.readouterr().err


def test_ratings_are_not_handed_to_06_as_pairs(folder, capsys):
    """05 06 -p path=my.csv stopped at the ratings, which are no pairs."""
    clarity_and_tone()
    assert define("05", "06", "--name", "mine", "-p", "path=my.csv") == 0
    assert "measures on the rows that 05_reward_model_training@mine holds out" in (
        capsys.readouterr().err
    )
    values, _ = values_of("06@mine")
    assert values["path"] == ""
    assert graph.upstream("06_rewardbench_evaluation@mine", "smoke") == [
        "05_reward_model_training@mine"
    ]


def test_06_follows_by_itself(folder, capsys):
    """The hint named -p key=value, of which there was none to give."""
    clarity_and_tone()
    preferences()
    assert define("05", "--name", "mine", "-p", "path=my.csv") == 0
    assert define("06", "--name", "mine") == 0
    reads = "06_rewardbench_evaluation@mine reads 05_reward_model_training@mine"
    assert reads in capsys.readouterr().err
    assert define("06", "--name", "mine", "-p", "path=pairs.csv") == 0
    values, _ = values_of("06@mine")
    assert values["path"] == str(folder / "pairs.csv"), "as it is called from notebooks/, too"


def test_a_run_of_a_name_that_nothing_has_is_not_defined(folder, capsys):
    assert define("06", "--name", "other") == 2
    assert "06_rewardbench_evaluation@other is not defined" in capsys.readouterr().err


def test_a_run_that_did_not_end_is_not_read(folder, capsys):
    """05@e that stops at its data made every later 06@e stop there too."""
    clarity_and_tone()
    preferences()
    assert define("05", "--name", "e", "-p", "path=my.csv") == 0
    (folder / "runs/smoke/05_reward_model_training@e/compute.log").write_text("it stopped\n")
    assert define("06", "--name", "e", "-p", "path=pairs.csv") == 0
    assert "does not read 05_reward_model_training@e" in capsys.readouterr().err
    assert graph.upstream("06_rewardbench_evaluation@e", "smoke") == ["05_reward_model_training"]


def test_scale_and_columns_are_words_of_runs_that_read_files(folder, capsys):
    for words in (["--scale", "1-5"], ["--columns", "prompt=q"]):
        assert define("12", "--name", "mine", *words) == 2
        assert "read no such file of your own" in capsys.readouterr().err


def test_columns_of_other_names_and_stars(folder, capsys):
    """One error names each option to add, and the command with both defines the run."""
    rows = [(f"Why {number}?", "Because.", 1 + number % 5) for number in range(PROMPTS)]
    written("stars.csv", ["question", "answer", "stars"], rows)
    command = ["05", "--name", "mine", "-p", "path=stars.csv"]
    assert define(*command) == 2
    option = "--columns prompt=question,response=answer"
    assert f"add {option}." in capsys.readouterr().err
    command += option.split()
    assert define(*command) == 2
    assert "as --scale=1-5" in capsys.readouterr().err
    assert define(*command, "--scale", "1-5") == 0
    _, recipe = values_of("05@mine")
    assert (recipe.attributes, recipe.scale) == (("stars",), "1-5")
    assert recipe.columns == "prompt=question,response=answer"


@pytest.mark.parametrize("objective", ["regression", "bradley-terry"])
def test_names_of_columns_give_the_terminal_no_orders(folder, capsys, objective):
    """Of the sentences about a file one named the attribute as it is."""
    rows = [(f"p{number}", "r", number % 5) for number in range(PROMPTS)]
    written("my.csv", ["prompt", "response", "\x1b[31mclarity"], rows)
    words = ["05", "--name", "mine", "-p", "path=my.csv", "-p", f"objective={objective}"]
    assert define(*words) == 0
    printed = capsys.readouterr().err
    assert "\x1b" not in printed and printed.count("\\x1b[31mclarity") == 2


# Sizes


@pytest.mark.parametrize(
    ("n", "epochs", "batch"), [(8, 4, 2), (12, 4, 2), (40, 2, 3), (60, 1, 4), (2000, 1, 8)]
)
def test_a_small_file_is_seen_often_and_a_large_one_once(n, epochs, batch):
    """Two thousand rows validated every four steps took ten minutes."""
    sizes = own_file._sizes(n, n, "embedded")
    assert (sizes["epochs"], sizes["batch"]) == (epochs, batch)
    assert sizes["validation_share"] * n <= own_file.VALIDATED
    assert sizes["test_share"] * n <= own_file.MEASURED


@pytest.mark.parametrize("steps", [1, 2, 14, 205])
def test_a_training_is_validated_at_most_four_times(steps):
    pace = own_file._pace(steps)
    assert 1 <= steps / pace["validate_every"] <= own_file.VALIDATIONS
    assert pace["warmup"] <= steps / 5
