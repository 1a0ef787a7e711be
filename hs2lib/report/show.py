"""What a notebook shows besides tables and figures: prompts with answers to them, marked."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from IPython.display import HTML, display
from jinja2 import Environment

from hs2lib.group import ATTRIBUTES, Group, Response
from hs2lib.paper import head_weights
from hs2lib.report import style
from hs2lib.report.answers import Answer
from hs2lib.world import marks, sets
from hs2lib.world.cards import card_of

_PAGES = Path(__file__).parent / "pages"
_GOODNESS = np.array(head_weights("goodness", ATTRIBUTES))  # [A]
_ANSWERS = Environment(autoescape=True).from_string((_PAGES / "answers.html").read_text())


def _labels(group: Group, response: Response) -> str:
    """The labels of a response in words."""
    rated = []
    for name, value in zip(group.attributes, response.labels, strict=False):
        if not math.isnan(value):
            rated.append(f"{name} {value:g}")
    return ", ".join(rated) or "unrated"


def answers_html(group: Group, shown: Sequence[Answer], longest: int = 1500) -> str:
    """A prompt and answers to it as HTML. All text is escaped.

    Answers to a prompt of the small world have a sign before each sentence, what they lack in a
    last line, and the truth beside the reward model's score. A sign says what its colour says, for
    pages that show no colour.

    Args:
        group: the prompt; its own responses are not shown.
        shown: the answers.
        longest: characters from which on an answer to a real prompt is cut, which the page says.
    """
    marked = []
    truths = []
    if sets.is_generated([group]):
        card = card_of(group.id)
        marked = [marks.mark(card, answer.text) for answer in shown]
        truths = [float(one.attributes @ _GOODNESS) for one in marked]
    kinds = {sentence.kind for one in marked for sentence in one.sentences}
    kinds |= {"missing" for one in marked if one.missing}
    legend = {kind: marks.KINDS[kind] for kind in marks.KINDS if kind in kinds}
    return _ANSWERS.render(
        group=group,
        shown=shown,
        marked=marked,
        truths=truths,
        kinds=marks.KINDS,
        legend=legend,
        longest=longest,
        roles=style.ROLES,
        edge=style.PALE_GREY,
    )


def answers(group: Group, shown: Sequence[Answer], longest: int = 1500) -> None:
    """Show a prompt and answers to it, marked where the truth is known; see `answers_html`."""
    display(HTML(answers_html(group, shown, longest)))


def rated(group: Group) -> list[Answer]:
    """The responses of a group with their labels, to be shown by `answers`."""
    shown = []
    for number, response in enumerate(group.responses, 1):
        how = f"rated {_labels(group, response)}"
        shown.append(Answer(f"response {number}", response.text, how))
    return shown
