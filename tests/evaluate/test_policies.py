"""Policies side by side: means, gains and wins by hand, and that unlike evaluations are not compared."""

import pandas as pd
import pytest

from hs2lib.evaluate import policies


def made(policy, values, prompts, settings="s"):
    responses = [f"{p}/{i}" for i, p in enumerate(prompts)]
    measures = {policies.SCORE: values, "kl": values}
    return pd.DataFrame(
        {"policy": policy, "prompt": prompts, "response": responses, "settings": settings}
        | measures
    )


def test_means_and_gains_by_hand():
    """SFT 0 and 4, DPO 1 and 5: means 2 and 3, a gain of exactly 1 in every resample though both vary by prompt."""
    frames = [made("SFT", [0.0, 4.0], ["a", "b"]), made("DPO", [1.0, 5.0], ["a", "b"])]
    table = policies.table(frames, n_boot=500)
    assert (
        table.policy.tolist() == ["SFT", "DPO"] * 2
        and table.measure.tolist() == [policies.SCORE] * 2 + ["kl"] * 2
    )
    assert table["mean"].tolist() == [2, 3, 2, 3]
    half = 12.706 * 2  # t of one degree of freedom, and the error of a mean of 0 and 4
    assert table.loc[0, ["95 % low", "95 % high"]].tolist() == pytest.approx(
        [2 - half, 2 + half], rel=0.1
    )
    gains = policies.gains_of(frames, "SFT", n_boot=500)
    assert gains.policy.tolist() == ["DPO", "DPO"] and (gains.iloc[:, 2:] == 1).all(axis=None)


def test_wins_by_hand():
    """Of three prompts one won, one a tie, one lost: half; where a prompt has two answers their means are compared."""
    frames = [made("SFT", [1.0, 5.0, 4.0], list("abc")), made("DPO", [3.0, 5.0, 2.0], list("abc"))]
    frames = [frame.assign(truth=frame[policies.SCORE]) for frame in frames]
    assert policies.wins(frames, "SFT", n_boot=200).iloc[0, 1:3].tolist() == ["DPO", 50]
    low, high = policies.wins(frames, "SFT", n_boot=200).iloc[0, 3:]
    assert (
        0 < low < 2 and 98 < high < 100
    )  # three prompts leave all open, and none is outside 0 to 100
    two = [made("SFT", [1.0, 5.0], ["a", "a"]), made("DPO", [2.0, 4.5], ["a", "a"])]
    assert policies.wins([frame.assign(truth=frame[policies.SCORE]) for frame in two], "SFT")[
        "mean"
    ].tolist() == [100]


def test_intervals_are_by_prompt():
    """Ten equal responses to each of two prompts tell no more than one each: the interval is that of two."""
    one = policies.table([made("x", [0.0, 1.0], ["a", "b"])], n_boot=300)
    ten = policies.table([made("x", [0.0, 1.0] * 10, ["a", "b"] * 10)], n_boot=300)
    assert one.iloc[0, 2:].tolist() == pytest.approx(ten.iloc[0, 2:].tolist())
    assert one.iloc[0, 2:].tolist() == pytest.approx(
        [0.5, 0.5 - 12.706 / 2, 0.5 + 12.706 / 2], rel=0.1
    )


def test_unlike_evaluations_are_not_compared():
    one = made("SFT", [0.0, 1.0], ["a", "b"])
    with pytest.raises(
        ValueError, match="SFT and DPO were evaluated on different prompts: b is of one only"
    ):
        policies.table([one, made("DPO", [0.0, 1.0], ["a", "a"])])
    with pytest.raises(ValueError, match="different settings: 's' and 't'"):
        policies.table([one, made("DPO", [0.0, 1.0], ["a", "b"], "t")])
    with pytest.raises(ValueError, match="no policy is called 'PPO'; there are: SFT"):
        policies.gains_of([one], "PPO")


def test_other_models_are_measured_in_place_of_the_notebooks(tmp_path):
    for name in ("a=b", "c"):
        (tmp_path / name).mkdir()
    folders = policies.made("paper", [f"PPO (released)={tmp_path}/a=b", f"DPO={tmp_path}/c"])
    assert list(folders.items()) == [("PPO (released)", tmp_path / "a=b"), ("DPO", tmp_path / "c")]
    for wrong in (f"DPO={tmp_path}/nothing", str(tmp_path), f"={tmp_path}"):
        with pytest.raises(ValueError, match="title=folder"):
            policies.made("paper", [wrong])
    assert "SFT" in policies.made("paper")
