"""The page that asks policies: its answers and its grades are the library's."""

import importlib
import json
import sys
from dataclasses import replace

import browser
import pytest

from hs2lib.engine.chat import label_string
from hs2lib.models.policy import load_policy
from hs2lib.models.rollout import rollouts
from hs2lib.paths import root
from hs2lib.world import cards, grade, marks, sets

sys.path.insert(0, str(root() / "reports"))
ask = importlib.import_module("make_ask")
sys.path.pop(0)

LEVELS = (4, 3, 2, 1, 0)
ASKED = """
data.prompts.map((prompt) => [null, %s].map((levels) => {
  const ids = promptIds(prompt, levels);
  return [ids, textOf(sampled(data.policies[0], ids, 0))];
}))
"""


def groups():
    made = sets.groups(ask.N_PROMPTS, ask.SEED, split="validation")
    return [replace(group, responses=()) for group in made]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of the shipped base, open in a browser."""
    file = tmp_path_factory.mktemp("site") / "ask.html"
    file.write_text(ask.page({"base": (load_policy("postcards"), True)}))
    with browser.Browser(seconds=300) as opened:
        opened.open(file, 1000)
        yield opened


@pytest.mark.slow
@browser.needed
def test_greedy_answers_are_the_librarys_token_by_token_with_a_label_and_without(page):
    policy = load_policy("postcards")
    answers = page.value(ASKED % json.dumps(LEVELS))
    for number, label in enumerate((None, label_string(LEVELS))):
        made = rollouts(
            policy,
            groups(),
            n=1,
            temperature=0.0,
            label=label,
            max_new_tokens=ask.LONGEST,
            batch=64,
            progress=False,
        )
        for group, answer in zip(made, answers, strict=True):
            ids, text = answer[number]
            written = policy.written | {"label": label}
            assert ids == ask.prompt_tokens(group.prompt, policy.tokenizer, **written)
            assert text == group.responses[0].text, group.id
    assert page.errors() == []


@pytest.mark.slow
@browser.needed
def test_grades_and_signs_are_the_librarys(page):
    """Of answers with every kind of fault, and of texts that no writer here would write."""
    rated = list(sets.groups(ask.N_PROMPTS, ask.SEED, split="validation"))
    for number, group in enumerate(rated):
        card = cards.card_of(group.id)
        texts = [response.text for response in group.responses]
        texts += [" ".join(texts), f"{texts[1]} Its use is a  ruin. No!", "", "Its"]
        call = f"{json.dumps(texts)}.map((text) => graded(data.prompts[{number}].card, text))"
        for text, found in zip(texts, page.value(call), strict=True):
            marked = marks.mark(card, text)
            assert found["sentences"] == [[one.text, one.kind] for one in marked.sentences]
            assert found["ratings"] == pytest.approx(marked.attributes.tolist()), text
            assert found["score"] == pytest.approx(float(grade.goodness(marked.attributes)))
            facts = [one for one in marked.missing if not one.startswith("small talk")]
            assert found["missing"] == len(facts)


@pytest.mark.slow
@browser.needed
def test_a_visitor_asks_and_reads_a_marked_answer(page):
    page.value('document.getElementById("ask").click()')
    shown = page.value('document.querySelector("article").textContent')
    assert "base, temperature 0, asked for helpfulness 4" in shown and "true score" in shown
    assert page.value("document.documentElement.scrollWidth <= innerWidth")
    assert page.errors() == []


def test_the_page_reaches_nothing_and_runs_its_own_script_alone():
    text = (root() / "reports" / "ask.html").read_text()
    assert "default-src 'none'; script-src 'sha256-@@HASH@@'" in text
    assert "http" not in (root() / "reports" / "ask.js").read_text()
