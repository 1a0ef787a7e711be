"""A file of one's own and nothing else: what it holds becomes parameters of the run, and is said before it runs."""

import csv

import pytest

from hs2lib.commands import own_file, runner
from hs2lib.group import Group, Response, Turn
from hs2lib.runs import graph
from hs2lib.train import cost

PROMPTS = 12


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Runs and reports of the test's own, and the current folder, in which the files lie."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.setattr(cost, "operations_a_second", lambda threads: 1e11)
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
        rows.append((f"Why {number}?", "Because.", 1 + number % 5, 5 - number % 5, "fine"))
        rows.append((f"Why {number}?", "No idea, really.", 5, 1, "so so"))
    return written(name, ["prompt", "response", "clarity", "tone", "notes"], rows)


def preferences(name="pairs.csv"):
    rows = [(f"Why {number}?", "Because.", "No.") for number in range(PROMPTS)]
    return written(name, ["prompt", "chosen", "rejected"], rows)


def values_of(run, tier="smoke"):
    """What a command has made of a named run: its parameters and its recipe."""
    _, values, recipe = graph.resolved(graph.matching([run])[0], tier)
    return values, recipe


def test_a_file_of_ratings_is_enough(folder, capsys):
    """It took dataset, source, five columns of certain names and a scale from 0 to 4."""
    clarity_and_tone()
    assert runner.main(["05", "--name", "mine", "-p", "path=my.csv", "--parameters"]) == 0
    printed = capsys.readouterr()
    first, second = printed.err.splitlines()
    assert first == (
        "my.csv: ratings of clarity and tone from 1 to 5, for 24 responses to 12 prompts."
    )
    assert "05_reward_model_training@mine trains on clarity and tone" in second
    assert "SmolLM2-135M-Instruct" in second and "about half a minute on this machine" in second
    values, recipe = values_of("05@mine")
    assert (values["dataset"], values["source"]) == ("ratings", "folder")
    assert recipe.attributes == ("clarity", "tone") and recipe.scale == "1-5"
    assert (recipe.model_name, recipe.method) == ("embedded", "lora")
    assert recipe.test_split == "" and recipe.objective == "regression"
    threads = graph.threads("05_reward_model_training@mine", "smoke", 4)
    assert threads == 4, "the small base alone gains nothing by a second one"


def test_preferences_are_trained_on_as_such(folder, capsys):
    """They had to be called HelpSteer2-Preference and given a column of splits."""
    preferences()
    assert runner.main(["05", "--name", "mine", "-p", "path=pairs.csv", "--parameters"]) == 0
    printed = capsys.readouterr().err
    assert "pairs.csv: 12 preferences between two responses." in printed
    assert "trains by which response is better (bradley-terry)" in printed
    values, recipe = values_of("05@mine")
    assert (values["dataset"], recipe.objective) == ("pairs", "bradley-terry")


def test_ties_are_counted_and_a_file_of_ties_alone_is_named(folder, capsys):
    """It had 0 different prompts, which are too few."""
    header = ["prompt", "response_a", "response_b", "winner"]
    rows = [(f"Why {number}?", "Because.", "No.", "ab"[number % 2]) for number in range(PROMPTS)]
    ties = [(f"How {number}?", "So.", "Or so.", "tie") for number in range(PROMPTS)]
    written("some.csv", header, [*rows, *ties])
    assert runner.main(["05", "--name", "mine", "-p", "path=some.csv", "--parameters"]) == 0
    printed = capsys.readouterr().err
    assert "12 preferences between two responses; ties and faulty rows, which are left" in printed
    written("ties.csv", header, ties)
    assert runner.main(["05", "--name", "ties", "-p", "path=ties.csv"]) == 2
    printed = capsys.readouterr().err
    assert "ties.csv: no row prefers one response, rows left out: 12; the first: " in printed
    assert "line 2" in printed and "a tie: neither answer is better" in printed


def test_what_is_typed_counts(folder):
    clarity_and_tone()
    words = ["-p", "path=my.csv", "-p", "attributes=[tone]", "-p", "epochs=3"]
    words += ["-p", "model_name=tiny", "-p", "recipe.validate_every=7", "--scale", "1-10"]
    assert runner.main(["05", "--name", "mine", *words, "--parameters"]) == 0
    _, recipe = values_of("05@mine")
    assert recipe.attributes == ("tone",) and recipe.scale == "1-10" and recipe.epochs == 3
    assert (recipe.model_name, recipe.method, recipe.validate_every) == ("tiny", "full", 7)


def test_the_tiers_of_real_data_keep_their_sizes(folder):
    clarity_and_tone()
    command = ["--tier", "laptop", "05", "--name", "mine", "-p", "path=my.csv", "-p", "batch=4"]
    assert runner.main([*command, "--parameters"]) == 0
    _, recipe = values_of("05@mine", "laptop")
    _, of_tier = values_of("05", "laptop")
    assert (recipe.learning_rate, recipe.epochs) == (of_tier.learning_rate, of_tier.epochs)
    assert recipe.attributes == ("clarity", "tone") and recipe.dataset == "ratings"


def test_a_batch_of_the_tier_that_the_rows_cannot_fill_is_refused_before_anything_runs(
    folder, capsys
):
    """A training on a GPU loaded its model first, and then stopped without a way out."""
    clarity_and_tone()
    command = ["--tier", "gpu", "05", "--name", "mine", "-p", "path=my.csv", "--parameters"]
    assert runner.main(command) == 2
    printed = capsys.readouterr().err
    assert "make no batch of 64" in printed and "-p batch=" in printed
    assert not list(folder.glob("runs/*/*/run.yaml"))
    assert runner.main([*command, "-p", "batch=4"]) == 0
    _, recipe = values_of("05@mine", "gpu")
    assert recipe.batch == 4


@pytest.mark.parametrize("tier", ["gpu", "laptop"])
def test_06_measures_on_the_held_out_rows_at_tiers_of_real_data_too(folder, tier):
    """It said so, and measured on the tier's benchmark by the weights of the tier's own model."""
    clarity_and_tone()
    words = ["--name", "mine", "-p", "path=my.csv", "-p", "batch=4", "--parameters"]
    assert runner.main(["--tier", tier, "05", "06", *words]) == 0
    values, recipe = values_of("06@mine", tier)
    assert (recipe.source, recipe.path, values["weighting"]) == ("embedded", "", "")
    after = ["--tier", tier, "06", "--name", "mine"]
    assert runner.main([*after, "-p", "weighting=clarity:1", "--parameters"]) == 0
    values, recipe = values_of("06@mine", tier)
    assert (recipe.source, values["weighting"]) == ("embedded", "clarity:1")
    words = ["-p", "source=hub", "-p", "weighting=clarity:1", "--parameters"]
    assert runner.main([*after, *words]) == 0
    assert values_of("06@mine", tier)[1].source == "hub", "what is typed counts"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("p", "r", 1 + number % 4) for number in range(20)], "as --scale 1-5"),
        ([(f"p{number}", "r", 3) for number in range(20)], "all ratings are equal (clarity 3)"),
        ([(f"p{number}", "r", 1 + 4 * number) for number in range(2)], "2 different prompts"),
        ([(f"p{number}", "", 1 + number % 5) for number in range(40)], "40 faults in 40 rows"),
    ],
)
def test_what_cannot_be_used_is_one_error_and_leaves_nothing(folder, capsys, rows, words):
    """A refused run was defined all the same, and the next command of its name failed over it."""
    written("my.csv", ["prompt", "response", "clarity"], rows)
    assert runner.main(["05", "--name", "mine", "-p", "path=my.csv"]) == 2
    printed = capsys.readouterr().err
    assert words in printed and len(printed.splitlines()) < 5
    assert not list(folder.glob("runs/*/*/run.yaml"))


def test_ratings_are_not_handed_to_06_as_pairs(folder, capsys):
    """05 06 -p path=my.csv stopped at the ratings, which are no pairs."""
    clarity_and_tone()
    assert runner.main(["05", "06", "--name", "mine", "-p", "path=my.csv", "--parameters"]) == 0
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
    assert runner.main(["05", "--name", "mine", "-p", "path=my.csv", "--parameters"]) == 0
    assert runner.main(["06", "--name", "mine", "--parameters"]) == 0
    reads = "06_rewardbench_evaluation@mine reads 05_reward_model_training@mine"
    assert reads in capsys.readouterr().err
    assert runner.main(["06", "--name", "mine", "-p", "path=pairs.csv", "--parameters"]) == 0
    values, _ = values_of("06@mine")
    assert values["path"] == str(folder / "pairs.csv"), "as it is called from notebooks/, too"


def test_a_run_of_a_name_that_nothing_has_is_not_defined(folder, capsys):
    assert runner.main(["06", "--name", "other", "--parameters"]) == 2
    assert "06_rewardbench_evaluation@other is not defined" in capsys.readouterr().err


def test_a_run_that_did_not_end_is_not_read(folder, capsys):
    """05@e that stops at its data made every later 06@e stop there too."""
    clarity_and_tone()
    preferences()
    assert runner.main(["05", "--name", "e", "-p", "path=my.csv", "--parameters"]) == 0
    (folder / "runs/smoke/05_reward_model_training@e/log.txt").write_text("it stopped\n")
    assert runner.main(["06", "--name", "e", "-p", "path=pairs.csv", "--parameters"]) == 0
    assert "does not read 05_reward_model_training@e" in capsys.readouterr().err
    assert graph.upstream("06_rewardbench_evaluation@e", "smoke") == ["05_reward_model_training"]


def test_scale_is_a_word_of_runs_that_read_ratings(folder, capsys):
    assert runner.main(["12", "--name", "mine", "--scale", "1-5", "--parameters"]) == 2
    assert "read no ratings of your own" in capsys.readouterr().err


@pytest.mark.parametrize("objective", ["regression", "bradley-terry"])
def test_names_of_columns_give_the_terminal_no_orders(folder, capsys, objective):
    """Of the sentences about a file one named the attribute as it is."""
    rows = [(f"p{number}", "r", 1 + number % 5) for number in range(PROMPTS)]
    written("my.csv", ["prompt", "response", "\x1b[31mclarity"], rows)
    words = ["05", "--name", "mine", "-p", "path=my.csv", "-p", f"objective={objective}"]
    assert runner.main([*words, "--parameters"]) == 0
    printed = capsys.readouterr().err
    assert "\x1b" not in printed and printed.count("\\x1b[31mclarity") == 2


# Sizes


def groups(n, characters=420):
    """n prompts with two responses, each of so many characters."""
    both = (Response("a", "x" * characters), Response("b", "y" * characters))
    return [Group(str(number), (Turn("user", "?" * characters),), both) for number in range(n)]


def test_a_small_file_is_seen_often_and_a_large_one_once():
    """Forty rows make no step of eight groups; two thousand validated every four steps took ten minutes."""
    for n, characters, epochs, batch in ((12, 100, 4, 2), (60, 420, 1, 4), (2000, 420, 1, 8)):
        sizes, recipe, _ = own_file.sized(groups(n, characters), n)
        assert (sizes["epochs"], sizes["batch"]) == (epochs, batch), n
        trained = n * (1 - recipe["validation_share"] - recipe["test_share"])
        steps = int(sizes["epochs"] * round(trained)) // batch
        assert steps >= 4 and steps / recipe["validate_every"] <= own_file.VALIDATIONS
        assert recipe["validation_share"] * n <= own_file.VALIDATED
        assert recipe["test_share"] * n <= own_file.MEASURED


def test_the_time_is_that_of_all_tokens():
    """2,000 prompts of 300 tokens: 1,640 of them are trained on, 60 are validated on five times."""
    _, _, work = own_file.sized(groups(2000), 2000)
    tokens = 3 * (420 / own_file.CHARACTERS_A_TOKEN + own_file.TOKENS_A_TURN)
    assert work.trained == pytest.approx(1640 * tokens)
    _, _, work = own_file.sized(groups(2000), 2000, steps=10)
    assert work.trained == pytest.approx(10 * 8 * tokens), "of the steps that were asked for"
    _, _, work = own_file.sized(groups(2000), 2000)
    assert work.scored == pytest.approx((5 * 60 + 2 * 300 + 400) * tokens)
    seconds = cost.seconds_on_cpu(1e8, cost.Work(trained=1000, scored=1000), 1e11)
    assert seconds == pytest.approx(cost.BESIDE_PRODUCTS * 2e8 * 1000 * (1 + cost.TRAINED) / 1e11)


def test_times_in_words():
    times = {20: "half a minute", 70: "a minute", 600: "10 minutes", 7200: "2 hours"}
    for seconds, words in times.items():
        assert cost.in_words(seconds) == f"about {words}"
