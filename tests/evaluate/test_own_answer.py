"""An answer of one's own: each change makes it worse in its way, and each button writes it."""

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
