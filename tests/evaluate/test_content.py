"""What the grader counts in answers, by hand."""

from dataclasses import replace
from types import SimpleNamespace

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


def test_two_policies_are_counted_greedy_and_sampled():
    """Greedy both say all three items; sampled the base says none, and SFT's second answer none."""
    recipe = SimpleNamespace(eval_temperature=0.7, resampled={"n_boot": 200, "seed": 0})
    prompts = list(generate.groups(2, seed=0))

    def whole_or_none(group, whole):
        items = generate.task_of(group.id).items
        return "\n".join(item.forms[0].format(v=item.value) for item in items) if whole else "Hm."

    def answered(whole_of):
        groups = []
        for group in prompts:
            samples = [
                Response(str(i), whole_or_none(group, whole)) for i, whole in enumerate(whole_of)
            ]
            groups.append(replace(group, responses=tuple(samples)))
        return groups

    compared = SimpleNamespace(
        truth_known=True,
        setup=SimpleNamespace(recipe=recipe),
        greedy_answers=lambda policy: answered([True]),
        answers=lambda policy: answered([policy == "SFT", False]),
    )
    read_off = content.of_policies(compared, {"base": "base", "SFT": "SFT"})
    right = read_off.table.loc["items right (%)"]
    assert right.to_dict() == pytest.approx(
        {"base, greedy": 100, "SFT, greedy": 100, "base, T = 0.7": 0, "SFT, T = 0.7": 50}
    )


def test_of_a_real_prompt_nothing_is_counted():
    real = Group("helpsteer2/validation/0", (Turn("user", "?"),), (Response("0", "Yes."),))
    with pytest.raises(ValueError):
        content.counts([real])


def test_answers_that_do_not_end_are_found():
    """Of DPO's three answers two were cut off, of SFT's none."""
    texts = {
        "SFT": [("A. B.", True)] * 3,
        "DPO": [("A. A. B", False), ("A. B", False), ("A.", True)],
    }

    def answers(policy):
        samples = [SimpleNamespace(text=text, finished=ended) for text, ended in texts[policy]]
        return [SimpleNamespace(responses=[sample]) for sample in samples]

    recipe = SimpleNamespace(eval_tokens=9, resampled={"n_boot": 100, "seed": 0})
    compared = SimpleNamespace(answers=answers, setup=SimpleNamespace(recipe=recipe))
    cut = content.unfinished(compared, {"SFT": "SFT", "DPO": "DPO"})
    assert [answer.text for _, answer in cut.examples] == ["A. A. B", "A. B"]
    assert content.unfinished(compared, {"SFT": "SFT"}).examples == []
