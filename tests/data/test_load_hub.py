"""The Hub path of the loader, against a Hub on loopback: the one route to the real data, and no test has a network.

Each test runs a process of its own, because huggingface_hub reads HF_ENDPOINT and the cache's place when imported.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hub_server import serve
from made_rows import rated, write

from hs2lib.data.load import SETS

ROOT = Path(__file__).parents[2]
PINNED = SETS["helpsteer2"].revision

LOAD = """
import json, sys
from hs2lib.data.load import load
loaded = load(sys.argv[1], "hub", split=sys.argv[2])
groups = [[group.id, group.prompt[0].text, [[r.text, r.labels] for r in group.responses]] for group in loaded.groups]
print(json.dumps({"groups": groups, "source": loaded.source, "generated": loaded.generated}))
"""


@pytest.fixture
def hub(tmp_path):
    write(
        tmp_path / "hub/nvidia/HelpSteer2/train.jsonl.gz",
        [rated("c#", "a", 3, 4, 4, 2, 1), rated("c#", "b", 1, 1, 4, 2, 0)],
    )
    write(tmp_path / "hub/nvidia/HelpSteer2/validation.jsonl.gz", [rated("d", "e", 0, 0, 2, 0, 0)] * 2)
    return tmp_path / "hub"


def load(endpoint: str, home: Path, *arguments: str, offline: bool = False) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}
    environment |= {"HF_HUB_OFFLINE": "1"} if offline else {}
    command = [sys.executable, "-c", LOAD, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_hub_files_at_the_pinned_revision_become_groups(hub, tmp_path):
    """What was asked for is the commit in our table, and provenance names it; both splits come, in order."""
    seen = []
    with serve(hub, seen) as url:
        done = load(url, tmp_path / "home", "helpsteer2", "both")
    assert done.returncode == 0, done.stderr
    loaded, of_hub = json.loads(done.stdout), f"HelpSteer2, nvidia/HelpSteer2@{PINNED[:7]}"
    assert loaded["source"] == f"{of_hub} train.jsonl.gz; {of_hub} validation.jsonl.gz"
    assert loaded["generated"] is False
    assert loaded["groups"] == [
        ["helpsteer2/train/0", "c#", [["a", [3, 4, 4, 2, 1]], ["b", [1, 1, 4, 2, 0]]]],
        ["helpsteer2/validation/0", "d", [["e", [0, 0, 2, 0, 0]], ["e", [0, 0, 2, 0, 0]]]],
    ]
    files = [request.partition("/resolve/")[2] for request in seen if request.startswith("GET /datasets/")]
    assert files == [f"{PINNED}/train.jsonl.gz", f"{PINNED}/validation.jsonl.gz"], "these two, and no scripts"


@pytest.mark.slow
def test_second_load_needs_no_hub(hub, tmp_path):
    """The cache serves a pinned revision by itself: a run that was downloaded once repeats on a train."""
    with serve(hub) as url:
        assert load(url, tmp_path / "home", "helpsteer2", "validation").returncode == 0
    again = load(url, tmp_path / "home", "helpsteer2", "validation", offline=True)
    assert again.returncode == 0, again.stderr
    assert PINNED[:7] in json.loads(again.stdout)["source"]


@pytest.mark.slow
def test_absent_file_and_absent_hub_say_what_to_do(hub, tmp_path):
    """No fallback: without the file, or without a Hub, the error names the file, the endpoint and the way out.

    Offline mode stands for a missing network: the error is the same, without a quarter of a minute of retries.
    """
    with serve(hub) as url:
        absent = load(url, tmp_path / "home", "helpsteer2-disagreements", "both")
    unreachable = load(url, tmp_path / "home", "helpsteer2", "train", offline=True)
    for done in (absent, unreachable):
        assert done.returncode == 1
        assert url in done.stderr and "Fix: " in done.stderr and "source='folder'" in done.stderr
    assert f"nvidia/HelpSteer2@{PINNED[:7]} disagreements/disagreements.jsonl.gz" in absent.stderr
    assert "could not be had from" in absent.stderr and "404" in absent.stderr


def test_parquet_from_the_hub(tmp_path):
    """Open Assistant's official splits exist only as Parquet, read here without `datasets` and its loading scripts."""
    message = {"labels": {"name": ["quality"], "value": [0.5], "count": [3]}}
    rows = [
        {"message_id": "q", "parent_id": None, "role": "prompter", "text": "1+1?", **message},
        {"message_id": "a", "parent_id": "q", "role": "assistant", "text": "2", **message},
    ]
    (name,) = SETS["oasst1"].hub["validation"]
    path = tmp_path / "hub/OpenAssistant/oasst1" / name
    path.parent.mkdir(parents=True)
    pd.DataFrame(rows).to_parquet(path)
    with serve(tmp_path / "hub") as url:
        done = load(url, tmp_path / "home", "oasst1", "validation")
    assert done.returncode == 0, done.stderr
    ((identity, prompt, [[text, labels]]),) = json.loads(done.stdout)["groups"]
    assert (identity, prompt, text, labels[0]) == ("oasst1/validation/q", "1+1?", "2", 2.0)
