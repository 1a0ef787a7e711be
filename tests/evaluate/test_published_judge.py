"""What benchmarks/judge.py wrote is read into tables; without it they are empty."""

import json

import pandas as pd
import pytest

from hs2lib.evaluate import published_judge


def mean(value, half=0.1):
    return {"mean": value, "plus or minus": half}


@pytest.fixture
def judged(tmp_path, monkeypatch):
    monkeypatch.setattr(published_judge.paths, "root", lambda: tmp_path)
    read = []
    for name, r in (("rated responses", 0.7), ("answers of ppo", 0.2)):
        for judge in ("reward model", "blind reward model"):
            row = {"set": name, "judge": judge, "R within a prompt": mean(r)}
            read.append(row | {"pairs right": mean(0.6), "spread of truth": mean(1.5)})
    read.append(read[0] | {"judge": "the annotators' ratings", "R within a prompt": mean(0.9)})
    by_fault = [
        {"fault": fault, "judge": judge, "higher (%)": mean(share, 5.0)}
        for fault, share in (
            ("stops", 97.0),
            ("jumbles", 52.0),
            ("filler sentence (harmless)", 49.0),
        )
        for judge in ("reward model", "blind reward model")
    ]
    law = {"alpha": mean(1.0), "beta": mean(0.3), "d at the peak": mean(1.7)}
    best = {"best of 4": mean(0.3), "best of 16": mean(0.6), "best of 64": mean(0.8)}
    pressed = [
        {"judge": judge, **best, **law}
        for judge in ("reward model, all of the ratings", "blind reward model")
    ]
    of_ppo = {"truth gained": mean(1.1), "kl": mean(3.0, None), "seeds": 1}
    trained = [{"judge": pressed[0]["judge"], **of_ppo, **law}]
    ceiling = [{"attribute": "coherence", "R of truth and ratings": mean(0.8)}]
    result = {"seeds": [0, 1], "commit": "0123456789", "read": read, "by fault": by_fault}
    result |= {"pressed": pressed, "trained": trained, "ceiling": ceiling}
    file = tmp_path / published_judge.PUBLISHED
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(result))
    return file


def test_without_a_result_there_is_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(published_judge.paths, "root", lambda: tmp_path)
    assert published_judge.record() == {}
    for make in ("read", "by_fault", "pressed", "trained", "ceiling"):
        assert getattr(published_judge, make)().empty, make


def test_each_table_has_its_means_with_intervals(judged):
    read = published_judge.read()
    assert read.index.tolist() == ["rated responses", "answers of ppo"]
    assert read.loc["answers of ppo", "reward model"] == "0.20 [0.10, 0.30]"
    assert read.loc["answers of ppo", "the annotators' ratings"] == "", "nobody rated these"
    assert read.columns[-1] == "spread of truth"
    right = published_judge.read(published_judge.RIGHT)
    assert set(right["blind reward model"]) == {"0.60 [0.50, 0.70]"}
    faults = published_judge.by_fault()
    assert faults.loc["jumbles", "reward model"] == "52 [47, 57]"
    assert faults.loc["stops", "reward model"] == "97 [92, 100]", "a share ends at 100"
    pressed = published_judge.pressed()
    assert pressed.columns.tolist()[:4] == ["best of 4", "best of 16", "best of 64", "alpha"]
    trained = published_judge.trained()
    assert trained["truth gained"].tolist() == ["1.10 [1.00, 1.20]"]
    assert trained["kl"].tolist() == ["3.00"], "one seed has no interval"
    assert trained["seeds"].tolist() == [1], "of fewer seeds than the other tables"
    expected = pd.DataFrame({"R": {"coherence": "0.80 [0.70, 0.90]"}}).rename_axis("attribute")
    pd.testing.assert_frame_equal(published_judge.ceiling(), expected)
