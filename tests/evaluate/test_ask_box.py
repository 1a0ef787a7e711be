"""Ask any policy: what is asked, what is loaded for it, and what a reader types is text and no markup."""

import pytest
import torch

from hs2lib.corpus import generate
from hs2lib.evaluate import ask_box, gallery
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.report import show
from hs2lib.runs.setup import Setup
from hs2lib.train.recipes import Evaluation

PROMPTS = list(generate.groups(12, seed=1, split="validation"))


@pytest.fixture
def setup(tmp_path):
    return Setup("13_x", "smoke", {}, Evaluation(answer_tokens=6), place=tmp_path / "kept")


@pytest.fixture(scope="module")
def policies():
    second = Policy.new("tiny").eval()
    with torch.no_grad():
        for weights in second.parameters():
            weights += 0.02 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(1))
    return {"first": Policy.new("tiny").eval(), "second": second}


def parts(places, setup, reward_model=None, labels=None, prompts=PROMPTS, draw=show.answers_html):
    box = ask_box.box(places, prompts, reward_model, setup, labels=labels or {}, draw=draw)
    return box.children


def test_the_text_that_was_not_changed_is_the_chosen_prompt_and_its_truth_is_known():
    chosen = PROMPTS[0]
    assert ask_box.asked(chosen, chosen.prompt[-1].text) is chosen
    by_hand = ask_box.asked(chosen, chosen.prompt[-1].text + "!")
    assert not generate.is_generated([by_hand])
    assert [turn.role for turn in by_hand.prompt] == ["user"]
    assert ask_box.asked(None, "What is tin?").prompt[0].text == "What is tin?"
    with pytest.raises(ValueError, match="nothing to ask"):
        ask_box.asked(chosen, " \n")


def test_nothing_is_loaded_before_one_asks_and_then_one_policy_at_a_time(
    setup, policies, monkeypatch
):
    """Six policies of a real size do not fit into a machine at once."""
    loaded = []

    def load(place):
        loaded.append(place)
        return policies[place]

    monkeypatch.setattr(ask_box, "load_policy", load)
    policy, temperature, prompt, *_, view = parts({"A": "first", "B": "second"}, setup)
    assert loaded == [] and view.value == ask_box.WAITS
    temperature.value = 0.7
    prompt.value = 3
    assert loaded == ["first"]
    policy.value = "B"
    assert loaded == ["first", "second"]
    policy.value = "A"
    assert loaded == ["first", "second", "first"]


def test_the_answer_is_the_one_that_the_gallery_shows(setup, policies):
    """One way to answer: the box at temperature .7 says what the preset answers above it say."""
    model = RewardModel.new("tiny").eval()
    drawn = []

    def draw(group, answers):
        drawn.append((group, answers[0]))
        return ""

    policy, temperature, prompt, _, again, _ = parts(policies, setup, model, draw=draw)
    temperature.value = 0.7
    policy.value = "second"
    chosen = PROMPTS[prompt.value]
    ((_, (answer,)),) = gallery.ask(
        {"second": policies["second"]}, [chosen], model, setup, temperatures=(0.7,), keep=False
    )
    group, first = drawn[-1]
    assert group is chosen and (first.text, first.score) == (answer.text, answer.score)
    again.click()
    assert drawn[-1][1].text != first.text
    temperature.value = 0.0
    greedy = drawn[-1]
    again.click()
    assert drawn[-1] == greedy
    temperature.value = 0.7
    assert drawn[-1][1] == first, "a change of any part begins with the first sample again"
    assert not setup.folder.exists(), "what a reader asks is kept nowhere"


def test_choosing_a_prompt_writes_its_text_and_markup_in_a_typed_one_is_text(setup, policies):
    _, _, prompt, text, _, view = parts(policies, setup)
    prompt.value = 5
    assert text.value == PROMPTS[5].prompt[-1].text
    text.value = "<script>alert(1)</script> & <b>gold</b>?"
    assert "&lt;script&gt;" in view.value and "<script" not in view.value


def test_two_prompts_that_end_in_the_same_words_are_two_prompts(setup, policies):
    """The text does not change then, so no event comes from it."""
    twice = [PROMPTS[0], PROMPTS[1], PROMPTS[0]]
    _, _, prompt, _, _, view = parts(policies, setup, prompts=twice)
    prompt.value = 1
    prompt.value = 0
    view.value = ""
    prompt.value = 2
    assert view.value


def test_without_prompts_one_types(setup, policies):
    """Of real prompts no texts are at hand."""
    _, _, prompt, text, _, view = parts(policies, setup, prompts=[])
    assert prompt.value is None and text.value == ""
    text.value = "What is gold?"
    assert "What is gold?" in view.value


def test_what_cannot_be_answered_stands_in_its_place(setup, policies):
    """A policy whose folder is gone, a text that is too long: an error in a callback is seen by nobody."""
    drawn = []

    def draw(group, answers):
        drawn.append(group)
        return ""

    places = {"<gone>": "no/such/folder"} | policies
    policy, _, _, text, again, view = parts(places, setup, draw=draw)
    again.click()
    assert "no/such/folder" in view.value and not drawn
    policy.value = "first"
    assert len(drawn) == 1
    policies["first"].max_tokens = 64
    text.value = "a <b> " * 200
    policies["first"].max_tokens = 0
    assert len(drawn) == 1 and "max_tokens" in view.value and "<b> " not in view.value


def test_a_policy_that_reads_a_label_gets_its_own(setup, policies, monkeypatch):
    labels = {"second": "helpfulness:4", "first": None}
    seen = []

    def answer(policy, prompts, *, label, **options):
        seen.append(label)
        return prompts

    monkeypatch.setattr(gallery, "rollouts", answer)
    policy, *_, again, _ = parts(policies, setup, labels=labels)
    again.click()
    policy.value = "second"
    assert seen == [None, "helpfulness:4"]
