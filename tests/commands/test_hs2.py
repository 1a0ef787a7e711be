"""`hs2 run` on a toy suite: what a change makes run again, kills, a full disk, two runs at once."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy_suite

from hs2lib.commands import hs2, watch
from hs2lib.runs import graph, key, lock

HS2 = [sys.executable, "-m", "hs2lib"]


@pytest.fixture
def suite(tmp_path, monkeypatch):
    folder = tmp_path / "a {} {n} folder"  # Snakemake and papermill take braces for their own
    toy_suite.make(folder)
    monkeypatch.setenv("HS2_ROOT", str(folder))
    for name in ("HS2_REPORTS", "HS2_RUNS"):
        monkeypatch.delenv(name, raising=False)
    return folder


def run(*words):
    command = [*HS2, "run", "--tier", "demo", "--cores", "2", *words]
    return subprocess.run(command, capture_output=True, text=True)


def ran(*words):
    """What `hs2 run` ran, as (01, computed), in any order."""
    done = run(*words)
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"^demo (\d\d)\S*: (computed|drawn) in", done.stdout, re.M))


FIRST = {("01", "computed"), ("01", "drawn")}
SECOND = {("02", "drawn")}


@pytest.mark.slow
def test_what_a_change_makes_run_again(suite):
    """The table of the design: a change runs what depends on it, and nothing else."""
    assert ran() == FIRST | SECOND
    assert (suite / "reports/demo/02_second/sums.csv").read_text() == "sum\n8\n"
    assert ran() == set(), "nothing changed"

    (suite / "params/demo/02_second.yaml").write_text("n: 5\n")
    assert ran() == SECOND, "a value"
    module = suite / "notebooks/mine.py"
    module.write_text(
        '"""A docstring."""\n\n\ndef formula(n):\n    # A comment.\n    return 3 * n\n'
    )
    assert ran() == set(), "a comment and a docstring"
    module.write_text("def formula(n):\n    return n * 3\n")
    assert ran() == FIRST, "a formula with the same result: who reads it does not run"
    module.write_text("def formula(n):\n    return 4 * n\n")
    assert ran() == FIRST | SECOND, "a formula"
    assert (suite / "reports/demo/02_second/sums.csv").read_text() == "sum\n13\n"

    toy_suite.add_markdown(suite, "01_first", "# A title")
    assert ran() == {("01", "drawn")}, "a text"
    toy_suite.first(suite, shows=toy_suite.FIRST.replace("A number", "One number"))
    assert ran() == {("01", "drawn")}, "a caption"

    shutil.rmtree(suite / "runs/.snakemake")
    assert ran() == set(), "Snakemake's metadata are lost"
    (suite / "params/demo/01_first.yaml").write_text("n: 1\n")
    shutil.rmtree(suite / "runs/.snakemake")
    assert ran() == FIRST | SECOND, "a value, and the metadata are lost"

    shutil.rmtree(suite / "runs/demo/01_first/model")
    assert ran() == {("01", "computed")}, "a model is gone"
    (suite / "reports/demo/02_second/manifest.json").unlink()
    assert ran() == SECOND, "a report is gone"
    assert ran("02", "--seeds", "2") == {("01", "computed"), ("02", "drawn")}, "another seed"


@pytest.mark.slow
def test_data_that_a_run_read_count_from_then_on(suite):
    """Which files a run reads only the run itself knows; from its first end on they are in its key."""
    data = suite / "rows.txt"
    data.write_text("7")
    reads = (
        f"from hs2lib import paths\n\nrun.reads({str(data)!r})\nrows = open({str(data)!r}).read()\n"
    )
    toy_suite.write(
        suite, "02_second", reads + 'run.table(pd.DataFrame({"n": [rows]}), "rows", "Rows.");'
    )
    assert ran("02") == SECOND and ran("02") == set()
    os.utime(data, (time.time() + 100,) * 2)
    assert ran("02") == set(), "touched, and the same"
    data.write_text("8")
    assert ran("02") == SECOND
    assert (suite / "reports/demo/02_second/rows.csv").read_text() == "n\n8\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("target", "number"),
    [
        ("hs2", signal.SIGKILL),
        ("hs2", signal.SIGTERM),
        # Another signal to Snakemake alone lets it wait for its jobs.
        ("snakemake", signal.SIGKILL),
        ("jobs", signal.SIGKILL),
        ("jobs", signal.SIGTERM),
        ("ipykernel_launcher", signal.SIGKILL),
        ("ipykernel_launcher", signal.SIGTERM),
    ],
)
def test_after_a_kill_the_next_call_ends_with_the_same_tables(suite, target, number):
    """The job that was killed runs again, and what was done before it does not."""
    waits = "import time\n\nif not (paths.root() / 'once').exists():\n    (paths.root() / 'once').touch()\n    time.sleep(60)\n"
    toy_suite.write(
        suite,
        "02_second",
        toy_suite.SECOND.replace("\n\nbefore", f"\n{waits}\nbefore", 1),
        needs=["01_first"],
    )
    with (suite / "said").open("w") as said:
        process = subprocess.Popen(
            [*HS2, "run", "--tier", "demo", "--cores", "1"], stdout=said, stderr=said
        )
    until(lambda: (suite / "once").exists(), process)
    victim = (
        process.pid
        if target == "hs2"
        else next(pid for pid, line in living(suite).items() if target in line)
    )
    os.kill(victim, number)
    if target == "hs2" and number == signal.SIGKILL:
        # Snakemake lives on and holds the folder; nobody else may write there.
        refused = run()
        assert refused.returncode == 2 and "holds" in refused.stderr
        for pid in living(suite):
            os.kill(pid, signal.SIGKILL)
    process.wait(timeout=60)
    until(lambda: not living(suite), None, seconds=10)
    assert ran() - {("01", "drawn")} == SECOND
    assert (suite / "reports/demo/02_second/sums.csv").read_text() == "sum\n8\n"


def until(condition, process, seconds=60):
    """Wait for a condition while a process lives."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        assert process is None or process.poll() is None, "it ended too early"
        time.sleep(0.1)


def living(folder):
    """The processes that run for a suite, by number: their command lines."""
    commands = {}
    marker = f"HS2_ROOT={folder}\0".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (process / "environ").read_bytes() and int(process.name) != os.getpid():
                line = (process / "cmdline").read_text()
                if line:
                    commands[int(process.name)] = line
        except OSError:
            continue  # it has ended
    return commands


@pytest.mark.slow
def test_an_interrupt_says_what_is_kept_and_leaves_no_process(suite):
    toy_suite.write(
        suite,
        "02_second",
        f"open({str(suite / 'here')!r}, 'w').close()\nimport time\n\ntime.sleep(60)",
    )
    process = subprocess.Popen(
        [*HS2, "run", "02", "--tier", "demo"], stderr=subprocess.PIPE, text=True, process_group=0
    )
    until(lambda: (suite / "here").exists(), process)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=20)[1]
    assert said.splitlines()[-1].startswith("stopped. Kept: ")
    assert said.endswith("To go on: hs2 run 02 --tier demo\n")
    until(lambda: not living(suite), None, seconds=10)


@pytest.mark.slow
def test_a_failing_notebook_leaves_no_report_and_says_which_cell(suite):
    """An error's text may come from data or a model: here a long one, with commands to the terminal."""
    toy_suite.first(
        suite, computes="raise ValueError('the moon is full \\x1b]0;mine\\x07' + '!' * 1_000_000)"
    )
    failed = run()
    assert failed.returncode == 1 and failed.stdout == ""
    head, *traceback, last = failed.stderr.splitlines()
    assert (
        head == f"error: demo 01_first failed; the end of {suite}/runs/demo/01_first/compute.log:"
    )
    assert traceback[-1].startswith(r"    ValueError: the moon is full \x1b]0;mine\x07!!!!")
    assert last == "not run: 02_second" and len(failed.stderr) < 1500
    assert not graph.manifest("01_first", "demo").exists()
    assert key.why("01_first", "demo") == "compute did not end"


def test_wrong_parameters_stop_the_run_before_anything_starts(suite, capsys):
    (suite / "params/demo/02_second.yaml").write_text("nn: 5\n")
    assert hs2.main(["run", "--tier", "demo"]) == 2
    assert "unknown parameter 'nn'; nearest valid name: n" in capsys.readouterr().err
    assert not (suite / "reports").exists()


def test_a_list_says_what_would_run_and_why(suite, capsys):
    assert hs2.main(["list", "--tier", "demo"]) == 0
    assert (
        capsys.readouterr().out == "demo 01_first: never run here\ndemo 02_second: never run here\n"
    )


@pytest.mark.parametrize(
    "word", ["list", "parameters", "run", "check", "score", "compare", "publish"]
)
def test_each_command_has_a_help(word, capsys):
    with pytest.raises(SystemExit) as left:
        hs2.main([word, "--help"])
    assert left.value.code == 0 and f"usage: hs2 {word}" in capsys.readouterr().out


def test_an_unknown_notebook_is_named(suite, capsys):
    assert hs2.main(["run", "03"]) == 2
    assert "no notebook '03'; known: 01_first, 02_second" in capsys.readouterr().err


def test_two_runs_in_one_folder_are_refused(suite, capsys):
    with lock.hold(suite / "runs"):
        assert hs2.main(["run", "01", "--tier", "demo"]) == 2
    assert re.search(r"error: another run \(process \d+ on .*\) holds ", capsys.readouterr().err)


def test_a_folder_that_cannot_be_written_is_one_line(suite, capsys):
    (suite / "runs").write_text("a file where a folder should be")
    assert hs2.main(["run", "01", "--tier", "demo"]) == 2
    why = f"{suite}/runs cannot be written to: File exists; mend that, or use another folder"
    assert capsys.readouterr().err == f"error: {why}\n"


def test_cores_and_seeds_are_at_least_one(capsys):
    """0 made Snakemake wait for ever."""
    for text in ("0", "-1", "many", ""):
        for option in ("--cores", "--seeds"):
            with pytest.raises(SystemExit):
                hs2.main(["run", option, text])
            assert option in capsys.readouterr().err


def test_the_end_of_a_log_is_safe_to_print(tmp_path):
    log = tmp_path / "log.txt"
    log.write_bytes(b"no\n" * 9000 + b"\x1b[31mred\x1b[0m\n\n\xff\xe2\x80\xae" + b"x" * 500 + b"\n")
    *_, coloured, odd = watch.end_of(log).splitlines()
    assert coloured == "    red" and odd == "    \ufffd\\u202e" + "x" * 193 + " .."
    log.write_text("")
    assert "it was killed, or the disk is full" in watch.end_of(log)
    log.write_text("Traceback\nnbclient.exceptions.DeadKernelError: Kernel died\n")
    assert watch.end_of(log).splitlines()[-1].startswith("    it was killed: most often memory")


@pytest.mark.slow
def test_a_search_names_its_best_point_and_what_chose_it(suite):
    """By hand: the toy's true score is three times n."""
    done = run("01", "--grid", "n=1,3,2")
    assert done.returncode == 0, done.stderr
    assert "Best by true score: n = 3 (9)." in done.stderr
    table = (suite / "reports/demo/grids/01_first-n.csv").read_text().splitlines()
    assert table[0].startswith("n,seeds,true score") and len(table) == 4
    assert (suite / "reports/demo/grids/01_first-n.png").exists()
    about = json.loads((suite / "reports/demo/grids/01_first-n.json").read_text())
    assert about["runs"] == ["01_first@n-1", "01_first@n-3", "01_first@n-2"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["01", "02", "--grid", "n=1,2"], "searches for one notebook"),
        (["01", "--grid", "m=1,2"], "unknown parameter 'm'"),
        (["01", "--grid", "n=1,77"], "is outside 0 to 9"),
        (["01", "--grid", "n=1,1"], "a value stands there twice"),
        (["01", "--grid", "n"], "write --grid n=V1,V2"),
        (["01", "--grid", "searched"], "says nothing of a search"),
    ],
)
def test_a_search_with_a_fault_runs_nothing(suite, words, fault, capsys):
    assert hs2.main(["run", "--tier", "demo", *words]) == 2
    assert fault in capsys.readouterr().err
    assert not list(suite.glob("runs/demo/*/run.yaml"))


@pytest.mark.slow
def test_a_full_disk_is_one_error_and_the_next_call_ends(suite):
    """No file grows beyond so many bytes; what was whole before stays, and nothing is half written."""

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

    command = [*HS2, "run", "--tier", "demo"]
    full = subprocess.run(command, capture_output=True, text=True, preexec_fn=fill)
    assert full.returncode and "error: " in full.stderr
    assert not list(suite.glob("reports/demo/*/manifest.json"))
    assert ran() == FIRST | SECOND
