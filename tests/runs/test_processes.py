"""A run owns its processes: however it ends they end too, and nobody else writes its folders before they have."""

import os
import signal
import subprocess
import sys
import time

import pytest

from hs2lib.commands import runner, steps
from hs2lib.paths import RUN
from hs2lib.runs import processes

CHAIN = """import sys
from hs2lib.runs import processes
lock = processes.hold(__import__("pathlib").Path(sys.argv[1]))
child = "import time; print('here', flush=True); time.sleep(20); print('still here')"
try:
    processes.run([sys.executable, "-c", child], [lock])
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def other(monkeypatch):
    """Another run than the one of the process under test; it does not wait."""
    monkeypatch.setenv(processes.OWNER, "another")
    monkeypatch.setattr(processes, "PATIENCE_S", 0.0)


def held(folder):
    try:
        processes.hold(folder).close()
    except BlockingIOError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_child_does_not_outlive_its_run_and_keeps_the_folder_until_then(tmp_path, other, number):
    script = f"import signal\nsignal.signal(signal.SIGTERM, signal.default_int_handler)\n{CHAIN}"
    environment = {name: value for name, value in os.environ.items() if name != processes.OWNER}
    command = [sys.executable, "-c", script, str(tmp_path)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert run.stdout.readline() == "here\n"
    with pytest.raises(BlockingIOError, match=rf"another run \(process {run.pid} on .*\) holds"):
        processes.hold(tmp_path)
    run.send_signal(number)
    assert run.wait(5) == (-9 if number == signal.SIGKILL else 130)
    assert run.stdout.read() == "", "the child held the other end, and has ended"
    assert not held(tmp_path)


def test_the_last_process_alive_holds_the_folder(tmp_path, other, monkeypatch):
    """A kernel that hangs is still a writer, also when all that started it is gone."""
    monkeypatch.setenv(processes.OWNER, "one")
    lock = processes.hold(tmp_path)
    second = processes.hold(tmp_path)  # of the same run
    child = subprocess.Popen(["sleep", "60"], pass_fds=[lock.fileno()])
    lock.close()
    second.close()
    monkeypatch.setenv(processes.OWNER, "two")
    assert held(tmp_path)
    child.kill()
    child.wait()
    assert not held(tmp_path)


def test_of_two_runs_that_start_at_once_one_has_the_folder(tmp_path):
    """A lock is taken alone, then shared: between the two, which flock(2) allows to be long, others may take it."""
    code = "import fcntl, pathlib, sys, time\nfrom hs2lib.runs import processes\nprocesses.PATIENCE_S = 0\n"
    code += "plain = fcntl.flock\ndef parted(file, how):\n if how & fcntl.LOCK_SH:\n"
    code += "  plain(file, fcntl.LOCK_UN)\n  time.sleep(0.3)\n plain(file, how)\n"
    code += "fcntl.flock = parted\nprint('ready', flush=True)\nsys.stdin.readline()\n"
    code += "try:\n lock = processes.hold(pathlib.Path(sys.argv[1]))\nexcept BlockingIOError:\n print('refused')\n"
    code += "else:\n print('has it')\nsys.stdout.flush()\nsys.stdin.readline()\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", code, str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != processes.OWNER}
    runs = [subprocess.Popen(command, env=environment, **pipes) for _ in range(4)]
    assert [run.stdout.readline() for run in runs] == ["ready\n"] * 4
    for run in runs:
        run.stdin.write("\n")
        run.stdin.flush()
    answers = [run.stdout.readline().strip() for run in runs]
    for run in runs:
        run.communicate("\n")
    assert sorted(answers).count("has it") == 1 and answers.count("refused") == 3


def test_a_job_whose_snakemake_ended_before_it_began_does_nothing(tmp_path):
    code = "from hs2lib.runs import processes\nprocesses.follow()\nprint('works')"
    for parent, says in ((os.getpid(), "works\n"), (gone(), "")):
        environment = os.environ | {processes.PARENT: str(parent)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert done.stdout == says
    assert done.returncode == 1 and not done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_ends_with_its_snakemake_and_frees_the_folder_then(tmp_path, other, number):
    """Its kernel wrote on, and the folder was free for a second one."""
    job = "from hs2lib.runs import processes\nimport sys, time, pathlib\nprocesses.follow()\n"
    job += "lock = processes.hold(pathlib.Path(sys.argv[1]))\nprint('here', flush=True)\n"
    job += "time.sleep(20)\nprint('still here')"
    snakemake = "import subprocess, sys\nfrom hs2lib.runs import processes\nprocesses.lead()\n"
    snakemake += "subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    environment = {name: value for name, value in os.environ.items() if name != processes.OWNER}
    command = [sys.executable, "-c", snakemake, job, str(tmp_path)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert first.stdout.readline() == "here\n" and held(tmp_path)
    first.send_signal(number)
    first.wait(5)
    assert first.stdout.read() == "", "the job held the other end, and has ended"
    assert not held(tmp_path)


def gone():
    """The number of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_an_interrupt_of_the_first_reaches_its_group(tmp_path):
    """Snakemake alone would wait until its jobs are done, which at tier laptop takes hours."""
    code = "import subprocess\nfrom hs2lib.runs import processes\nprocesses.interrupt_group()\n"
    code += "child = subprocess.Popen(['sleep', '60'])\n"
    code += "try:\n print('here', flush=True)\n child.wait()\nexcept KeyboardInterrupt:\n print(child.wait())"
    first = subprocess.Popen(
        [sys.executable, "-c", code], process_group=0, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout.readline() == "here\n"
    began = time.monotonic()
    first.terminate()
    assert first.communicate(timeout=5)[0] == f"{-signal.SIGINT}\n"
    assert time.monotonic() - began < 3


def test_a_training_by_torchrun_beside_a_run_is_refused(tmp_path, monkeypatch, capsys):
    """Both would train into one folder."""
    monkeypatch.setattr(processes, "PATIENCE_S", 0.0)
    monkeypatch.setattr(processes, "end_with", lambda parent: None)
    monkeypatch.setattr(processes.signal, "signal", lambda *handler: None)
    settings = {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    for name, value in (
        settings | {"HS2_RUNS": str(tmp_path), processes.OWNER: "the runner"}
    ).items():
        monkeypatch.setenv(name, value)
    with processes.hold(tmp_path):
        assert runner.main(["--stage", "train", "--tier", "smoke", "05"]) == 2
    assert capsys.readouterr().err.startswith(f"error: another run (the runner) holds {tmp_path}")


def test_a_training_that_fails_keeps_the_folder_until_its_process_is_gone(tmp_path, monkeypatch):
    """Of two training processes one was killed: the other, seconds in its last words, had freed what both write."""
    monkeypatch.setattr(processes, "PATIENCE_S", 0.0)
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path))
    monkeypatch.setenv(processes.OWNER, "the training")

    def fails(setup):
        raise RuntimeError("Connection reset by peer")

    monkeypatch.setattr(steps, "train_05", fails)
    monkeypatch.delenv(RUN, raising=False)
    with pytest.raises(RuntimeError):
        runner.main(["--stage", "train", "--tier", "smoke", "05"])
    assert RUN not in os.environ, "an empty one made the next run by hand leave a stamp"
    monkeypatch.setenv(processes.OWNER, "another")
    assert held(tmp_path)
