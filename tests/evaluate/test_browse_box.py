"""The browser of answers: what is wrong in them, the largest gaps, and which answers are shown in which order."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import generate
from hs2lib.corpus.faults import FAULTS, JARGON
from hs2lib.corpus.tasks import WRITING
from hs2lib.data.load import Loaded
from hs2lib.evaluate import browse_box, own_answer
from hs2lib.evaluate.browse_box import ANY, NONE
from hs2lib.evaluate.held_out import SideBySide
from hs2lib.report import show

GROUPS = own_answer.of_each_family(list(generate.groups(60, 0, split="validation")))[:4]
FAULTLESS = [generate.without_faults(group).responses[0].text for group in GROUPS]
ABOVE, BELOW, AS_ASKED = browse_box.ORDERS


def beside(**changes):
    """SFT answers faultlessly, PPO adds jargon. The truth is 7; SFT's scores are 7, 6, 5, 4, PPO's 8, 11, 10, 7."""
    frames = []
    jargon = f" {WRITING['expert'][0]}"
    for policy, scores, added in (("SFT", [7, 6, 5, 4], ""), ("PPO", [8, 11, 10, 7], jargon)):
        rows = {
            "policy": policy,
            "prompt": [group.id for group in GROUPS],
            "response": [f"{group.id}/0" for group in GROUPS],
            "text": [text + added for text in FAULTLESS],
            "truth": 7.0,
            "reward model's score": np.array(scores, dtype=float),
        }
        frames.append(pd.DataFrame(rows))
    rows = pd.concat(frames, ignore_index=True)
    loaded = Loaded([group.id for group in GROUPS], "x", True)
    made = SideBySide(loaded, pd.DataFrame(), pd.DataFrame(), truth_known=True, rows=rows)
    return replace(made, **changes)


@pytest.fixture
def answers():
    return browse_box.read(beside())


def test_every_answer_has_its_gap_its_family_and_its_faults(answers):
    by_policy = answers.groupby("policy", sort=False)[browse_box.GAP].apply(list)
    assert by_policy["SFT"] == [0, -1, -2, -3] and by_policy["PPO"] == [1, 4, 3, 0]
    assert answers.faults.tolist() == [()] * 4 + [(JARGON,)] * 4
    families = [generate.task_of(group.id).family for group in GROUPS]
    assert answers.family.tolist() == families * 2


def test_without_texts_or_the_truth_there_is_nothing_to_browse():
    """Rows of an earlier version hold no texts; of real answers nobody knows the truth."""
    rows = beside().rows
    for column in ("text", "truth"):
        empty = browse_box.read(beside(rows=rows.drop(columns=column)))
        assert empty.empty
        assert browse_box.preset_table(empty).empty
    assert browse_box.read(beside(rows=pd.DataFrame())).empty


def test_without_a_reward_model_answers_are_browsed_in_the_order_of_the_prompts():
    rows = beside().rows.drop(columns="reward model's score")
    answers = browse_box.read(beside(rows=rows))
    assert answers[browse_box.GAP].isna().all()
    for order in browse_box.ORDERS:
        rows = browse_box.chosen(answers, "PPO", order=order)
        assert rows.prompt.tolist() == [group.id for group in GROUPS]
    assert browse_box.preset_table(answers).empty
    *_, view = browse_box.box(answers, draw=show.columns_html).children
    assert view.value


@pytest.mark.parametrize(
    ("order", "places"), [(ABOVE, [1, 2, 0, 3]), (BELOW, [3, 0, 2, 1]), (AS_ASKED, [0, 1, 2, 3])]
)
def test_the_order_is_that_of_the_gap(answers, order, places):
    """PPO's gaps are 1, 4, 3, 0."""
    rows = browse_box.chosen(answers, "PPO", order=order)
    assert rows.prompt.tolist() == [GROUPS[place].id for place in places]


def test_family_and_fault_choose(answers):
    family = answers.family[2]
    (row,) = browse_box.chosen(answers, "PPO", family=family, order=AS_ASKED).to_dict("records")
    assert row["prompt"] == GROUPS[2].id
    counts = {}
    for fault in (ANY, NONE, *FAULTS):
        counts[fault] = [
            len(browse_box.chosen(answers, policy, fault=fault, order=ABOVE))
            for policy in ("SFT", "PPO")
        ]
    assert counts.pop(ANY) == [4, 4] and counts.pop(NONE) == [4, 0]
    assert counts.pop(JARGON) == [0, 4]
    assert set(map(tuple, counts.values())) == {(0, 0)}


def test_the_presets_are_the_largest_gaps_one_a_prompt(answers):
    """4, 3 and 1 of PPO, by hand; were SFT's gap of the second prompt 3.5, it would still stand once."""
    table = browse_box.preset_table(answers)
    assert table.index.tolist() == ["PPO"] * 3
    assert table[browse_box.GAP].tolist() == [4, 3, 1]
    assert table.faults.tolist() == [JARGON] * 3
    rows = beside().rows
    rows.loc[1, "reward model's score"] = 10.5
    again = browse_box.preset_table(browse_box.read(beside(rows=rows)))
    assert again[browse_box.GAP].tolist() == [4, 3, 1]


def test_the_box_shows_two_policies_on_one_prompt(answers):
    drawn = []

    def draw(group, shown):
        drawn.append((group.id, [answer.policy for answer in shown]))
        return ""

    policy, other, family, fault, order, place, *_ = browse_box.box(answers, draw=draw).children
    assert drawn == [(GROUPS[1].id, ["PPO", "SFT"])], "PPO's largest gap"
    assert place.max == 3
    place.value = 3
    assert drawn[-1][0] == GROUPS[3].id
    order.value = BELOW
    assert place.value == 0 and drawn[-1][0] == GROUPS[3].id
    family.value = answers.family[0]
    assert place.max == 0 and drawn[-1][0] == GROUPS[0].id
    before = len(drawn)
    fault.value = FAULTS[0]
    assert len(drawn) == before, "no such answer"
    fault.value = ANY
    policy.value = "SFT"
    assert drawn[-1][1] == ["SFT"], "beside itself it stands once"
    other.value = "PPO"
    assert drawn[-1][1] == ["SFT", "PPO"]


def test_what_policies_write_is_text(answers):
    """An answer, and a policy's name, may hold markup."""
    rows = beside().rows
    rows["text"] = "<script>alert(1)</script>"
    rows["policy"] = rows.policy.str.replace("SFT", "<i>SFT</i>")
    read = browse_box.read(beside(rows=rows))
    *_, view = browse_box.box(read, draw=show.columns_html).children
    assert "<script" not in view.value and "&lt;script" in view.value
    assert "<i>SFT" not in view.value
