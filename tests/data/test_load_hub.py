"""The Hub path of the loader, against a Hub on loopback: the one route to the real data, and no test has a network."""

import pandas as pd
import pytest
from hub_server import asked
from huggingface_hub import constants
from made_rows import rated, write

from hs2lib.data.load import SETS, load
from hs2lib.data.rows import DataError

PINNED = SETS["helpsteer2"].revision


@pytest.fixture
def hub(tmp_path):
    write(
        tmp_path / "hub/nvidia/HelpSteer2/train.jsonl.gz",
        [rated("c#", "a", 3, 4, 4, 2, 1), rated("c#", "b", 1, 1, 4, 2, 0)],
    )
    write(
        tmp_path / "hub/nvidia/HelpSteer2/validation.jsonl.gz", [rated("d", "e", 0, 0, 2, 0, 0)] * 2
    )
    return tmp_path / "hub"


def test_hub_files_at_the_pinned_revision_become_groups(hub, tmp_path):
    """What was asked for is the commit in our table, and provenance names it; both splits come, in order."""
    seen, of_hub = [], f"HelpSteer2, nvidia/HelpSteer2@{PINNED[:7]}"
    with asked(hub, tmp_path / "home", seen):
        loaded = load("helpsteer2", "hub", split="both")
    assert loaded.source == f"{of_hub} train.jsonl.gz; {of_hub} validation.jsonl.gz"
    assert loaded.generated is False
    assert [
        (g.id, g.prompt[0].text, *((r.text, r.labels) for r in g.responses)) for g in loaded.groups
    ] == [
        ("helpsteer2/train/0", "c#", ("a", (3, 4, 4, 2, 1)), ("b", (1, 1, 4, 2, 0))),
        ("helpsteer2/validation/0", "d", ("e", (0, 0, 2, 0, 0)), ("e", (0, 0, 2, 0, 0))),
    ]
    files = [
        request.partition("/resolve/")[2]
        for request in seen
        if request.startswith("GET /datasets/")
    ]
    assert files == [f"{PINNED}/train.jsonl.gz", f"{PINNED}/validation.jsonl.gz"], (
        "these two, and no scripts"
    )


def test_second_load_needs_no_hub(hub, tmp_path, monkeypatch):
    """The cache serves a pinned revision by itself: a run that was downloaded once repeats on a train."""
    with asked(hub, tmp_path / "home"):
        load("helpsteer2", "hub", split="validation")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert PINNED[:7] in load("helpsteer2", "hub", split="validation").source


def test_absent_file_and_absent_hub_say_what_to_do(hub, tmp_path, monkeypatch):
    """No fallback: without the file, or without a Hub, the error names the file, the endpoint and
    the way out.

    Offline mode stands for a missing network: the error is the same, without a quarter of a minute
    of retries.
    """
    with asked(hub, tmp_path / "home") as url:
        with pytest.raises(DataError) as absent:
            load("helpsteer2-disagreements", "hub", split="both")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(DataError) as unreachable:
            load("helpsteer2", "hub", split="train")
    for error in map(str, (absent.value, unreachable.value)):
        assert url in error and "Fix: " in error and "source='folder'" in error
    assert f"nvidia/HelpSteer2@{PINNED[:7]} disagreements/disagreements.jsonl.gz" in str(
        absent.value
    )
    assert "could not be had from" in str(absent.value) and "404" in str(absent.value)


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
    with asked(tmp_path / "hub", tmp_path / "home"):
        (group,) = load("oasst1", "hub", split="validation").groups
    (reply,) = group.responses
    assert (group.id, group.prompt[0].text, reply.text, reply.labels[0]) == (
        "oasst1/validation/q",
        "1+1?",
        "2",
        2.0,
    )
