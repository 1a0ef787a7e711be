"""The runner on a toy suite: what is current is not run again, a change re-runs what depends on it and nothing else."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from made_rows import rated, write
from nbformat.v4 import (
    new_code_cell,
    new_markdown_cell,
    new_notebook,
    new_output,
)

from hs2lib import code, paths
from hs2lib.commands import runner
from hs2lib.data import check
from hs2lib.paths import root
from hs2lib.runs import graph, parameters, processes

CHECKOUT = root()


def toy(folder, name, body, needs=(), gpu=0, makes=None):
    cells = [
        new_code_cell(
            'tier: str = "smoke"  # tier; one of smoke, demo\nn: int = 2  # a number; 0 to 9',
            id="parameters",
            metadata={"tags": ["parameters"]},
        ),
        new_code_cell(
            "import pandas as pd\n\nfrom hs2lib import paths\n"
            f"from hs2lib.report import report\n\nrun = report.start({name!r}, globals())",
            id="start",
        ),
        new_code_cell(body, id="body"),
        new_code_cell("run.finish()", id="finish"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    meta = {"kernelspec": kernel, "hs2": {"needs": list(needs), "gpu": gpu, "makes": makes or {}}}
    file = folder / "notebooks" / f"{name}.ipynb"
    nbformat.write(new_notebook(cells=cells, metadata=meta), file)
    os.utime(
        file, (time.time() + 9e6,) * 2
    )  # from a machine whose clock is ahead: times count for nothing


FIRST = 'run.table(pd.DataFrame({"n": [n]}), "numbers", "A number.");'
SECOND = """n_before = pd.read_csv(paths.reports() / tier / "01_first" / "numbers.csv").n[0]
run.table(pd.DataFrame({"sum": [n + n_before]}), "sums", "A sum.");"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    tmp_path /= "a {} {n} folder"  # Snakemake takes braces for its own
    for name in ("notebooks", "params/demo"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(CHECKOUT / "Snakefile", tmp_path)
    toy(tmp_path, "01_first", FIRST)
    toy(tmp_path, "02_second", SECOND, ["01_first"])
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.delenv("HS2_REPORTS", raising=False)
    monkeypatch.delenv("HS2_RUNS", raising=False)
    return tmp_path


def made(run, tier):
    """What a stamp would hold now, but for data and what the run leaves."""
    _, values, recipe = graph.resolved(run, tier)
    return graph.made_of(run, tier, values, recipe)


def make(*arguments):
    command = [sys.executable, "-m", "hs2lib.run", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def stamps(suite):
    return {p.parent.name: p.stat().st_mtime_ns for p in suite.glob("runs/demo/*/stamp.json")}


@pytest.mark.slow
def test_a_change_reruns_what_depends_on_it_and_nothing_else(suite, capsys, monkeypatch):
    """The first run finds locks of a killed Snakemake; to unlock it would parse the Snakefile too, threads included."""
    warning = "hs2lib/models/reward_model.py:1: UserWarning"
    toy(
        suite,
        "01_first",
        f"import os\n\nprint(os.environ['HS2_ROOT'] + '/{warning}')\n{FIRST}",
        gpu=1,
    )
    (suite / "runs/.snakemake/locks").mkdir(parents=True)
    for kind in ("input", "output"):
        (suite / f"runs/.snakemake/locks/0.{kind}.lock").write_text(
            f"{suite}/runs/demo/01_first/stamp.json\n"
        )
    first = make("--tier", "demo", "--cores", "2")
    assert first.returncode == 0, first.stderr
    assert (suite / "reports/demo/02_second/sums.csv").read_text() == "sum\n4\n"
    text = (suite / "reports/demo/01_first/01_first.ipynb").read_text()
    assert warning in text and str(suite) not in text, (
        "where the checkout lies is nobody's business"
    )

    before, ran = stamps(suite), []
    assert runner.main(["--tier", "demo", "--list"]) == runner.main(["--tier", "demo"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "demo 01_first: current\ndemo 02_second: current\n"
    assert printed.err == "demo: all current, nothing to run\n" and stamps(suite) == before
    with monkeypatch.context() as patch:
        patch.setattr(runner, "snakemake", lambda names, *others: ran.append(names))
        (suite / "params/demo/02_second.yaml").write_text("n: 5\n")
        assert graph.why_stale("02_second", "demo") == "changed since: parameter n (was 2, is 5)"
        runner.main(["--tier", "demo"])
        (suite / "params/demo/01_first.yaml").write_text("n: 1\n")
        assert graph.why_stale("02_second", "demo") == "01_first is stale"
        runner.main(["--tier", "demo", "02"])
        (suite / "params/demo/01_first.yaml").unlink()
        manifest = suite / "reports/demo/01_first/manifest.json"
        manifest.rename(suite / "kept")
        assert graph.why_stale("01_first", "demo") == "its manifest is gone"
        named = ["--tier", "demo", "02", "--name", "mine", "-p", "n=8"]
        runner.main(named)
        (suite / "kept").rename(manifest)
    assert ran == [["02_second"], ["01_first", "02_second"], ["01_first", "02_second@mine"]]

    assert make(*named).returncode == 0
    after = stamps(suite)
    assert {name: after[name] for name in before} == before, "the other runs stay as they were"
    assert (suite / "reports/demo/02_second@mine/sums.csv").read_text() == "sum\n10\n"
    assert (
        runner.main(named) == 0 and capsys.readouterr().err == "demo: all current, nothing to run\n"
    )


def links(text):
    """Where the links of a Markdown text lead, a heading of the notebook itself and the web apart."""
    return [link for link in re.findall(r"\]\(([^)\s]+)", text) if not re.match("https:|#", link)]


def texts(notebook):
    """The texts of a notebook that are read as Markdown: cells and outputs."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield cell.source
        for output in cell.get("outputs", []):
            yield output.get("data", {}).get("text/markdown", "")


@pytest.mark.slow
def test_links_of_an_executed_copy_lead_to_other_copies(suite):
    """A copy lies one folder deeper than its notebook, and each link of it led nowhere."""
    sentence = "next [02](02_second.ipynb), then [its end](02_second.ipynb#end) or [9](09_x.ipynb)"
    toy(
        suite,
        "01_first",
        f"from IPython.display import Markdown, display\n\ndisplay(Markdown({sentence!r}))\n{FIRST}",
    )
    source = suite / "notebooks/01_first.ipynb"
    edited = nbformat.read(source, 4)
    edited.cells.insert(0, new_markdown_cell(sentence, id="title"))
    nbformat.write(edited, source)
    before = source.read_bytes()
    done = make("--execute", "--tier", "demo", "01", "02")
    assert done.returncode == 0, done.stderr
    copy = graph.outputs("01_first", "demo")["notebook"]
    led = [links(text) for text in texts(nbformat.read(copy, 4)) if "next" in text]
    other = "../02_second/02_second.ipynb"
    assert led == [[other, f"{other}#end", "09_x.ipynb"]] * 2, "the cell's, and the output's"
    assert (copy.parent / other).resolve() == graph.outputs("02_second", "demo")["notebook"]
    assert (copy.parent / other).exists()
    assert source.read_bytes() == before, "the notebook's own links stay"


@pytest.mark.parametrize("name", graph.notebooks())
def test_each_link_of_a_notebook_leads_on_from_its_copy_too(name):
    """Also from a published one, which lies a folder deeper still: so notebooks link to one another alone."""
    notebook = nbformat.read(paths.notebook(name), 4)
    outputs = []  # Markdown that the code cells show
    for cell in notebook.cells:
        if cell.cell_type == "code" and links(cell.source):
            outputs.append(new_output("display_data", {"text/markdown": cell.source}))
    notebook.cells.append(new_code_cell("", outputs=outputs))
    before = [link for text in texts(notebook) for link in links(text)]
    assert before, "each leads to another"
    for link in before:
        assert (paths.notebook(name).parent / link).is_file(), link
    copied = nbformat.reads(runner.copy_text(notebook), 4)
    after = [link for text in texts(copied) for link in links(text)]
    of_copies = [f"../{Path(link).stem}/{link}" for link in before]
    assert after == of_copies
    for tier in ("demo", "laptop"):
        copy = graph.outputs(name, tier)["notebook"]
        led = {(copy.parent / link).resolve() for link in after}
        copies = {graph.outputs(other, tier)["notebook"] for other in graph.notebooks()}
        assert led <= copies


@pytest.mark.slow
def test_a_failing_notebook_leaves_no_manifest_and_says_which_cell(suite):
    """An error's text may come from data or a model: here a long one, with commands to the terminal."""
    toy(
        suite,
        "01_first",
        "raise ValueError('the moon is full \\x1b]0;mine\\x07' + '!' * 1_000_000)",
    )
    failed = make("--tier", "demo")
    assert failed.returncode == 1 and failed.stdout == ""
    head, *traceback, last = failed.stderr.removeprefix("demo 01_first ...\n").splitlines()
    assert head == f"error: demo 01_first failed; the end of {suite}/runs/demo/01_first/log.txt:"
    assert len(traceback) == 4 and traceback[-1].startswith(
        r"    ValueError: the moon is full \x1b]0;mine\x07!!!!"
    )
    assert last == "not run: 02_second" and len(failed.stderr) < 1500
    assert not (suite / "reports/demo/01_first/manifest.json").exists()
    assert graph.why_stale("01_first", "demo") == "never run here"


def test_wrong_parameters_stop_the_run_before_anything_starts(suite, capsys):
    (suite / "params/demo/02_second.yaml").write_text("nn: 5\n")
    assert runner.main(["--tier", "demo"]) == 2
    assert "unknown parameter 'nn'; nearest valid name: n" in capsys.readouterr().err
    assert not (suite / "reports").exists(), (
        "the first notebook was fine, and still must not have run"
    )


@pytest.mark.parametrize(
    ("folder", "what"), [(None, "is not set"), ("/nowhere", "names /nowhere, which is no folder")]
)
def test_data_from_a_folder_that_is_not_named_stop_the_run_before_anything_starts(
    folder, what, tmp_path, monkeypatch, capsys
):
    """Notebooks started for a minute, and failed with an error that named neither parameter file nor command."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.setenv("HS2_DATA_DIR", folder or "")
    monkeypatch.setattr(runner, "snakemake", lambda *_: pytest.fail("started"))
    assert runner.main(["--tier", "laptop", "01"]) == 2
    printed = capsys.readouterr().err
    assert (
        f"01_dataset_statistics reads data sets from a folder at tier laptop, and HS2_DATA_DIR {what}"
        in printed
    )
    assert (
        "Say HS2_DATA_DIR=/folder/of/your/data/sets python -m hs2lib.run --tier laptop;" in printed
    )
    assert runner.main(["--tier", "laptop", "--stage", "train", "05"]) == 2
    assert f"HS2_DATA_DIR {what}" in capsys.readouterr().err


def test_a_file_of_your_own_needs_no_data_folder_but_questions_from_one_do(monkeypatch):
    named = {"source": "folder", "path": "own.jsonl", "eval_source": "embedded"}
    monkeypatch.setattr(graph, "resolved", lambda name, tier: ({}, named, None))
    monkeypatch.delenv("HS2_DATA_DIR", raising=False)
    runner.check_folder(["05"], "laptop")
    named["eval_source"] = "folder"
    with pytest.raises(parameters.ParameterError, match="HS2_DATA_DIR is not set"):
        runner.check_folder(["05"], "laptop")


@pytest.mark.slow
def test_a_file_with_faults_stops_the_run_before_anything_starts(tmp_path, monkeypatch, capfd):
    """A bad row of your own is known before an hour of notebooks, with every other one; strict = False goes on."""
    file = tmp_path / "own.jsonl"
    write(file, [rated(), rated(response="", helpfulness=9), rated(coherence=5)])
    named = {"path": str(file), "dataset": "ratings", "strict": True}
    monkeypatch.setattr(graph, "resolved", lambda name, tier: ({}, named, None))
    with pytest.raises(
        parameters.ParameterError,
        match=r"own.jsonl cannot be read as it is \(above\), and nothing was run: 01",
    ):
        runner.check_files(["01", "02"], "demo")
    printed = capfd.readouterr().err
    assert printed.count("read as ratings") == 1 and "3 faults in 2 rows" in printed

    def doctor(command, stdout, cwd):  # without the seconds that a process of its own takes
        assert cwd.name == "notebooks", "where a kernel looks for a relative path"
        return subprocess.CompletedProcess(command, check.main(command[3:]))

    monkeypatch.setattr(subprocess, "run", doctor)
    named["strict"] = False
    runner.check_files(["01"], "demo")
    write(file, [rated(), rated(response="s")])
    named |= {
        "dataset": "helpsteer2-disagreements",
        "also": "ratings",
        "strict": True,
    }  # 03 reads two sets
    runner.check_files(["03"], "demo")
    file.write_text("")
    with pytest.raises(parameters.ParameterError):
        runner.check_files(["01"], "demo")


def test_ratings_from_minus_1_to_1_are_handed_to_the_doctor(tmp_path, monkeypatch):
    """Their scale, -1-1, was taken for an option, and the file could not be read as it is."""
    file = tmp_path / "own.csv"
    file.write_text("prompt,response,clarity\np,r,-1\np,s,1\n")
    named = {"path": str(file), "dataset": "ratings", "scale": "-1-1", "attributes": ("clarity",)}
    monkeypatch.setattr(graph, "resolved", lambda name, tier: ({}, named, None))

    def doctor(command, stdout, cwd):  # without the seconds that a process of its own takes
        return subprocess.CompletedProcess(command, check.main(command[3:]))

    monkeypatch.setattr(subprocess, "run", doctor)
    runner.check_files(["05"], "smoke")


def test_help_names_the_tiers_and_a_list_says_what_is_stale(suite, capsys):
    with pytest.raises(SystemExit):
        runner.main(["--help"])
    shown = capsys.readouterr().out
    assert all(tier in shown for tier in ("smoke", "demo", "laptop", "gpu", "paper"))
    assert runner.main(["--list", "--tier", "demo"]) == 0
    assert (
        capsys.readouterr().out == "demo 01_first: never run here\ndemo 02_second: never run here\n"
    )


@pytest.mark.slow
def test_parameters_are_listed_with_their_value_at_the_tier_and_the_whole_recipe():
    page = runner.listed("08_dpo", "paper").splitlines()
    assert (
        page[0] == "08_dpo"
        and "  beta: float = 0.001  # KL penalty: how much a log-ratio counts; 1e-06 to 10" in page
    )
    assert (
        "  recipe.fsdp: bool = True  # shard the model over the processes that torchrun started"
        in page
    )
    assert (
        "  recipe.too_long: str = 'leave out'  # what to do with a row longer than max_tokens; one of raise, leave out"
        in page
    )
    assert sum(line.split(":")[0].endswith("beta") for line in page) == 1


def test_a_weighting_that_the_reward_model_has_not_is_refused_at_once(
    tmp_path, monkeypatch, capsys
):
    """The notebook stopped after 90 seconds, and what its error proposed was no parameter of it."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    of_pairs = ["-p", "objective=bradley-terry", "-p", "recipe.compare=helpfulness"]
    assert runner.main(["05", "06", "--name", "bt", *of_pairs, "--list"]) == 0
    reading = ["08", "--name", "bt", "--reads", "05@bt"]
    assert runner.main([*reading, "--list"]) == 2
    error = capsys.readouterr().err
    assert "that reward model has reward: add -p recipe.weighting=reward:1" in error
    assert not (tmp_path / "runs/smoke/08_dpo@bt/run.yaml").exists()
    weighed = ["-p", "recipe.weighting=reward:1", "--parameters"]
    assert runner.main([*reading, *weighed]) == 2
    error = capsys.readouterr().err
    assert "measured by another reward model" in error and "first run 07 --name bt" in error
    assert runner.main(["07", *reading, *weighed]) == 0


def test_a_policy_beside_one_that_is_measured_otherwise_is_refused_at_once(
    tmp_path, monkeypatch, capsys
):
    """The notebook stopped at the table of both, after the training."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    for word, name in (("seed=3", "seed"), ("recipe.eval_temperature=1", "eval_temperature")):
        assert runner.main(["08", "--name", "s", "-p", word, "--parameters"]) == 2
        assert f"measured by another {name} (" in capsys.readouterr().err
        assert runner.main(["07", "08", "--name", name, "-p", word, "--parameters"]) == 0
    assert runner.main(["08", "--name", "s", "-p", "beta=.3", "--parameters"]) == 0
    assert runner.main(["08", "--name", "n", "-p", "recipe.reward=none", "--parameters"]) == 0


def test_an_unknown_notebook_is_named(suite):
    refused = make("03")
    assert refused.returncode == 2
    assert "no notebook '03'; known: 01_first, 02_second" in refused.stderr


def test_a_further_maker_comes_before_what_needs_its_kind(suite):
    """A fifteenth method: the evaluation depends on it and comes after it, with no line changed there."""
    for name, needs, makes in (
        ("07_sft", (), {"policy": "SFT"}),
        ("13_evaluation", ("policy",), {}),
        ("15_mine", ("07_sft",), {"policy": "Mine"}),
    ):
        toy(suite, name, FIRST, needs, makes=makes)
    assert graph.makers("policy") == {"07_sft": "SFT", "15_mine": "Mine"}
    assert graph.upstream("13_evaluation", "demo") == ["07_sft", "15_mine"]
    assert graph.with_upstream(["13_evaluation"]) == ["07_sft", "15_mine", "13_evaluation"]
    assert graph.with_upstream(graph.notebooks()) == [
        "01_first",
        "02_second",
        "07_sft",
        "15_mine",
        "13_evaluation",
    ]
    assert "15_mine" in made("13_evaluation", "demo")["upstream"]


def test_needs_that_nothing_meets_or_that_go_in_a_circle_are_named(suite):
    toy(suite, "02_second", FIRST, ["reward_model"])
    with pytest.raises(parameters.ParameterError, match="02_second needs 'reward_model'"):
        graph.with_upstream(graph.notebooks())
    toy(suite, "01_first", FIRST, ["02_second"], makes={"policy": "First"})
    toy(suite, "02_second", FIRST, ["policy"])
    with pytest.raises(parameters.ParameterError, match=r"in a circle: 0._\w+ <- 0._\w+ <- 0._"):
        graph.with_upstream(graph.notebooks())


@pytest.mark.parametrize("place", ["runs", "reports/demo"])
def test_two_runs_in_one_folder_are_refused(suite, capsys, monkeypatch, place):
    """Two runs with run folders of their own would still write one report."""
    monkeypatch.setattr(processes, "PATIENCE_S", 0)
    monkeypatch.setenv(processes.OWNER, "the other")
    with processes.hold(suite / place):
        assert runner.main(["--tier", "demo", "01"]) == 2
    assert f"error: another run (the other) holds {suite / place}" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_line(suite, capsys):
    (suite / "reports").write_text("a file where a folder should be")
    assert runner.main(["--tier", "demo", "01"]) == 2
    why = f"{suite}/reports/demo cannot be written to: Not a directory; mend that, or use another folder"
    assert capsys.readouterr().err == f"error: {why}\n"


def living(marker):
    """Processes whose environment holds this text."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (process / "environ").read_bytes():
                commands.append((process / "cmdline").read_text())
        except OSError:
            continue  # it has ended
    return commands


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_interrupt_is_one_line_and_leaves_no_process(suite):
    toy(
        suite,
        "01_first",
        f"open({str(suite / 'here')!r}, 'w').close()\nimport time\n\ntime.sleep(60)",
    )
    command = [sys.executable, "-m", "hs2lib.run", "--tier", "demo"]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0)
    while not (suite / "here").exists():
        assert run.poll() is None, run.stderr.read()
        time.sleep(0.1)
    assert len(living(str(suite))) >= 4, "runner, Snakemake, job, kernel"
    os.killpg(run.pid, signal.SIGINT)
    lines, went = run.communicate(timeout=10)[1].splitlines(), time.monotonic()
    assert lines == [
        "demo 01_first ...",
        "",
        "stopped; what is done stays done, and the same command goes on from there",
    ]
    while living(str(suite)):
        assert time.monotonic() < went + 5, living(str(suite))
        time.sleep(0.1)


def test_cores_are_at_least_one(capsys):
    """0 made Snakemake wait for ever."""
    for text in ("0", "-1", "many", ""):
        with pytest.raises(SystemExit):
            runner.main(["--cores", text])
        assert "--cores" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_a_stamp_that_is_none_is_called_so(suite, content):
    for file in graph.outputs("01_first", "demo").values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    assert graph.why_stale("01_first", "demo") == "its manifest is not the one its stamp names"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_a_manifest_that_is_none_is_an_input_like_another(suite, content):
    (suite / "reports/demo/01_first").mkdir(parents=True)
    (suite / "reports/demo/01_first/manifest.json").write_text(content)
    assert made("02_second", "demo")["upstream"] == {"01_first": ""}


def test_the_end_of_a_log_is_safe_to_print(tmp_path):
    log = tmp_path / "log.txt"
    log.write_bytes(b"no\n" * 9000 + b"\x1b[31mred\x1b[0m\n\n\xff\xe2\x80\xae" + b"x" * 500 + b"\n")
    *_, coloured, odd = runner.end_of(log).splitlines()
    assert coloured == "    red" and odd == "    \ufffd\\u202e" + "x" * 193 + " .."
    log.write_text("")
    assert "it was killed, or the disk is full" in runner.end_of(log)
    log.write_text("Traceback\nnbclient.exceptions.DeadKernelError: Kernel died\n")
    assert (
        runner.end_of(log)
        .splitlines()[-1]
        .startswith("    it was killed: most often memory ran out")
    )


@pytest.mark.slow
def test_a_setting_of_several_values_arrives_as_such(tmp_path, monkeypatch):
    """The price of tier paper's judge arrived as the text "(10, 30)", which the notebook refused."""
    import papermill
    from papermill.translators import PythonTranslator

    written = []
    monkeypatch.setattr(
        papermill, "execute_notebook", lambda *args, **options: written.append(args[2]) or 1 / 0
    )
    for name, value in (
        ("HS2_RUNS", str(tmp_path)),
        ("HS2_REPORTS", str(tmp_path)),
        (paths.RUN, "{}"),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(ZeroDivisionError):
        runner.execute("13_aligned_model_evaluation", "paper", [])
    exec(PythonTranslator.codify(written[0]), arrived := {})
    assert arrived["recipe"]["price"] == [10, 30] == written[0]["recipe"]["price"]


# What a stamp depends on. A copy of the library and of the suite is touched, and nothing is run.


@pytest.fixture
def touched(tmp_path, monkeypatch):
    """A function: after a change to this file of hs2lib, which notebooks compute by other code at
    this tier?

    At the tiers of real data the small world is asked about apart, by `world`.
    """
    skip = shutil.ignore_patterns("__pycache__")
    for folder in ("hs2lib", "notebooks", "params"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder, ignore=skip)
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.setattr(code, "package", lambda: tmp_path / "hs2lib")

    def touch(name, tier, use="computes"):
        before = {name: made(name, tier)["code"][use] for name in graph.notebooks()}
        with (tmp_path / name).open("a") as file:
            file.write("\nTOUCHED = 1\n" if name.endswith(".py") else "\n")
        return {
            name[:2] for name in graph.notebooks() if made(name, tier)["code"][use] != before[name]
        }

    return touch


PHRASES = "hs2lib/corpus/phrases/animal.tsv"
ALL = {name[:2] for name in graph.notebooks()}


@pytest.mark.slow
@pytest.mark.parametrize("file", ["hs2lib/corpus/tasks.py", PHRASES])
def test_a_phrase_of_generated_text_counts_where_text_is_generated(touched, file):
    """No report of real data is stale because a greeting was reworded; at tier smoke all rows are generated."""
    assert touched(file, "laptop") == set()
    assert touched(file, "smoke") == ALL
    assert touched(file, "laptop", "world") == ALL, (
        "for a run whose manifest says that it generated rows"
    )


@pytest.mark.slow
def test_the_rules_of_simulated_annotators_count_for_03_and_04_at_any_tier(touched):
    assert touched("hs2lib/corpus/rules.yaml", "laptop") == {"03", "04"}


@pytest.mark.slow
def test_the_losses_count_where_models_are_trained(touched):
    assert touched("hs2lib/train/losses.py", "laptop") == {
        "05",
        "07",
        "08",
        "09",
        "10",
        "11",
        "12",
        "15",
    }


@pytest.mark.slow
def test_a_number_of_the_paper_counts_for_the_tables_beside_it(touched):
    assert "14" in touched("hs2lib/paper/table-4.csv", "laptop")


@pytest.mark.slow
def test_a_setting_counts_where_it_changes_the_recipe(touched, tmp_path):
    """A default of another method's recipe changes no notebook that does not import the module of recipes."""
    file = tmp_path / "params" / "laptop" / "06_rewardbench_evaluation.yaml"
    before = made("06_rewardbench_evaluation", "laptop")
    file.write_text(file.read_text() + "  folds: 7\n")
    assert made("06_rewardbench_evaluation", "laptop")["recipe"] != before["recipe"]
    assert "06" not in touched("hs2lib/train/recipes.py", "laptop")


def test_every_data_file_is_used_by_some_module():
    """One that no module names would change a report without making it stale."""
    package = CHECKOUT / "hs2lib"
    files = {
        file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts
    }
    base = set(
        (package / "corpus" / "base").iterdir()
    )  # its weights count where `model_name` is "small"
    files -= base
    modules = {file for file in files if file.suffix == ".py"}
    files = {file for file in files if file.name not in code.SITE}
    names = [".".join(file.relative_to(CHECKOUT).with_suffix("").parts) for file in modules]
    assert files - modules == set().union(*map(code.data_files, names))


def test_an_import_that_is_no_module_is_an_error(suite):
    toy(suite, "01_first", "from hs2lib.stats import bootstrop")
    with pytest.raises(
        ImportError, match=r"hs2lib.stats.bootstrop is imported, and hs2lib has no such module"
    ):
        made("01_first", "demo")
