"""An answer of one's own: each change makes it worse in its way, and each button writes it."""

import numpy as np
import pytest

from hs2lib.corpus import generate, grade
from hs2lib.evaluate import own_answer
from hs2lib.models.reward_model import RewardModel
from hs2lib.report import show

GROUPS = own_answer.of_each_family(list(generate.groups(60, 0, split="validation")))


@pytest.fixture(scope="module")
def model():
    return RewardModel.new("tiny", seed=0).eval()


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: generate.task_of(group.id).family)
def test_each_change_lowers_the_truth_in_its_own_way(group):
    """One wrong item, one missing, an expert more, everything repeated; the faultless answer has none."""
    task = generate.task_of(group.id)
    texts = own_answer.preset_texts(group)
    graded = {name: grade.grade(task, text) for name, text in texts.items()}
    faultless = graded[own_answer.AS_IT_IS]
    assert len(faultless.right) == len(task.items)
    assert len(graded["change a value"].wrong) == 1
    assert len(graded["drop an item"].missing) == 1
    assert graded["drop an item"].ignored == 0, "its remark goes with the item"
    assert graded["add jargon"].expert == 1
    assert graded["say it twice"].repeated >= len(task.items)
    helpfulness = [one.attributes[0] for one in graded.values()]
    assert max(helpfulness[1:]) < helpfulness[0]


def test_an_answer_without_an_item_stays(model):
    task = generate.task_of(GROUPS[0].id)
    assert own_answer.change_a_value(task, "Hello.") == "Hello."
    assert own_answer.drop_an_item(task, "") == ""
    assert own_answer.say_twice(task, " ") == " "


def test_the_table_has_predictions_and_truth(model):
    table = own_answer.preset_table(GROUPS[0], model)
    assert list(table.index) == [own_answer.AS_IT_IS, *own_answer.CHANGES]
    assert list(table.columns) == ["score", *model.attributes]
    assert table.score.iloc[0].endswith("(7.60)")
    plain, numbers = own_answer.moves_in_words(GROUPS[0], model)
    assert plain.startswith("Predicted helpfulness: ")
    assert plain.endswith("All 4 changes lower the truth.") and "say it twice" in numbers


def test_a_plain_sentence_says_which_changes_the_model_sees():
    """A wrong value and saying it twice went unseen, and jargon was liked."""
    changes = tuple(own_answer.CHANGES)
    moves = dict(zip(changes, (0.04, -1.4, 0.13, -0.04), strict=True))
    truth = dict(zip(changes, (-2.1, -1.9, -0.25, -1.7), strict=True))
    assert own_answer.seen_in_words("helpfulness", moves, truth) == (
        "Predicted helpfulness: drop an item lowers it; "
        "change a value, say it twice moves it by less than 0.1; add jargon **raises** it. "
        "All 4 changes lower the truth."
    )
    assert own_answer.seen_in_words("tone", {"add jargon": 0.0}) == (
        "Predicted tone: no change lowers it; add jargon moves it by less than 0.1."
    )


def test_all_changes_are_counted(model):
    """Four changes to each of two prompts; a model of random weights sees next to nothing."""
    words = own_answer.missed_in_words(GROUPS[:2], model)
    assert words.startswith("Of 8 changes that lower the true helpfulness, ")
    assert "raise it by 0.1 or more" in words
    assert own_answer.missed_in_words([], model) == ""


def test_a_wrong_value_that_goes_unseen_is_counted_beside_the_truth(model, monkeypatch):
    """By hand: of two prompts the first prediction falls by .3 and the second one rises by .04."""
    moved = iter(([3.0, 2.7, 3.0, 3.0, 3.2], [3.0, 3.04, 2.0, 3.0, 3.0]))
    monkeypatch.setattr(own_answer, "scored", lambda *_: np.array(next(moved))[:, None])
    falls = []
    for group in GROUPS[:2]:
        true = own_answer.truths(group, own_answer.preset_texts(group).values())
        falls.append(true[1, 0] - true[0, 0])
    falls.sort()
    assert own_answer.missed_in_words(GROUPS[:2], model) == (
        "Of 8 changes that lower the true helpfulness, 2 lower predicted helpfulness by 0.1 or "
        "more, and 1 raise it by 0.1 or more, most *say it twice* (+0.20). A wrong value lowers "
        "it so in 1 of 2 prompts: it moves by -0.30 to +0.04, "
        f"true helpfulness by {falls[0]:+.2f} to {falls[1]:+.2f}."
    )


def test_every_part_of_the_box_answers(model):
    """Typing, choosing another prompt, and each button change text and view."""
    prompt, text, buttons, view = own_answer.box(GROUPS, model, draw=show.answers_html).children
    faultless = text.value
    assert "7.60" in view.value
    for button in buttons.children[1:]:
        buttons.children[0].click()
        assert text.value == faultless
        before = view.value
        button.click()
        assert text.value != faultless
        assert view.value != before
    prompt.value = 1
    assert text.value == generate.without_faults(GROUPS[1]).responses[0].text
    text.value = "<b>nothing</b> of the kind"
    assert "&lt;b&gt;nothing" in view.value
