"""What the grader counts in answers, by hand."""

from dataclasses import replace

import pytest

from hs2lib.corpus import generate
from hs2lib.evaluate import content
from hs2lib.group import Group, Response, Turn


def test_an_answer_that_says_nothing_treats_nothing_and_lacks_every_item():
    """Three answers to one prompt of three items: one says all of them, one has the first one wrong, one says none."""
    group = next(iter(generate.groups(1, seed=0)))
    task = generate.task_of(group.id)
    first, *others = (item.forms[0].format(v=item.value) for item in task.items)
    wrong = task.items[0].forms[0].format(v=task.items[0].other)
    texts = ["\n".join([first, *others]), "\n".join([wrong, *others]), "Hm."]
    answered = replace(
        group, responses=tuple(Response(str(i), text) for i, text in enumerate(texts))
    )
    counts = content.counts([answered])
    assert len(task.items) == 3 and counts.index.tolist() == [group.id] * 3
    assert counts[content.TREATS].tolist() == [100, 100, 0]
    assert counts["items right (%)"].tolist() == pytest.approx([100, 200 / 3, 0])
    assert counts["items wrong (%)"].tolist() == pytest.approx([0, 100 / 3, 0])
    assert counts["items missing (%)"].tolist() == [0, 0, 100]
    assert counts["garbled, an answer"].tolist() == [0, 0, 1]


def test_of_a_real_prompt_nothing_is_counted():
    real = Group("helpsteer2/validation/0", (Turn("user", "?"),), (Response("0", "Yes."),))
    with pytest.raises(ValueError):
        content.counts([real])
