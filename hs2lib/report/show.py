"""What a notebook shows besides tables and figures: source code, conversations, groups.

`browse` is for a live notebook: it lets a reader look through many groups.
"""

import html
import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import ipywidgets
import numpy as np
import pandas as pd
from IPython import get_ipython
from IPython.display import HTML, Code, DisplayHandle, Markdown, display
from jinja2 import Environment

from hs2lib.corpus import generate, marks
from hs2lib.group import ATTRIBUTES, Group, Response
from hs2lib.paper import head_weights
from hs2lib.report import style
from hs2lib.report.answers import Answer
from hs2lib.report.report import DASH
from hs2lib.world import marks as postcard_marks
from hs2lib.world import sets
from hs2lib.world.cards import card_of

_PAGES = Path(__file__).parent / "pages"
_GROUP = Environment(autoescape=True).from_string((_PAGES / "group.html").read_text())
_GOODNESS = np.array(head_weights("goodness", ATTRIBUTES))  # [A]
_ANSWERS = Environment(autoescape=True).from_string((_PAGES / "answers.html").read_text())


def source_of(*functions: Callable, title: str = "") -> None:
    """Show the source of library functions: the reader sees the code that runs.

    title: a line that stands in for the source and unfolds it; "" shows it at once.
    """
    sources = [inspect.getsource(function) for function in functions]
    code = Code("\n\n".join(sources), language="python")  # at once: each brings its own colours
    if title:
        summary = f"<summary>{html.escape(title)}</summary>"
        display(HTML(f"<details>{summary}{code._repr_html_()}</details>"))
    else:
        display(code)


def program(path: Path) -> None:
    """Show a Python file, as one that a run wrote."""
    display(Code(path.read_text(), language="python"))


def group_html(group: Group, longest: int = 1500) -> str:
    """A group as HTML: its turns, then each response with its labels. All text is escaped.

    longest: characters from which on a text is cut, which the page says.
    """
    labels = [_labels(group, response) for response in group.responses]
    return _GROUP.render(group=group, labels=labels, longest=longest, roles=style.ROLES)


def _labels(group: Group, response: Response) -> str:
    """The labels of a response in words."""
    rated = []
    for name, value in zip(group.attributes, response.labels, strict=False):
        if not math.isnan(value):
            rated.append(f"{name} {value:g}")
    return ", ".join(rated) or "unrated"


def sentences(*texts: str) -> None:
    """Show sentences as a list: what a notebook says about the numbers of its own run.

    Empty ones, and no sentence at all, show nothing.
    """
    lines = [f"* {text}" for text in texts if text]
    if lines:
        display(Markdown("\n".join(lines)))


def verdict(*lines: str) -> None:
    """Show what a notebook ends with: what, how large, why, what would change it, what comes next.

    Raises ValueError for more than five lines: what nobody reads to its end is no verdict.
    """
    shown = [line for line in lines if line]
    if len(shown) > 5:
        raise ValueError(f"a verdict has at most five lines, not {len(shown)}")
    display(Markdown("\n\n".join(f"> {line}" for line in shown)))


def folded(title: str, *parts: str | pd.DataFrame) -> None:
    """Show what few readers want behind a line that unfolds it.

    title: of the line. parts: sentences, which become a list, and tables.
    """
    pieces = []
    for part in parts:
        if isinstance(part, pd.DataFrame):
            pieces.append(part.to_html(border=0, na_rep="-", escape=True))
        else:
            pieces.append(f"<p>{html.escape(part)}</p>")
    head = f"<summary>{html.escape(title)}</summary>"
    display(HTML(f"<details>{head}{''.join(pieces)}</details>"))


def texts(table: pd.DataFrame) -> None:
    """Show a table that has texts in it, their lines kept. All text is escaped.

    The line breaks are in the page itself, for pages that show no style.
    """
    named = table.rename_axis(index=_page_cell(table.index.name or ""))
    styled = named.style.set_uuid("texts").format(_page_cell)
    for axis in (0, 1):
        styled = styled.format_index(_page_cell, axis=axis)
    left = [{"selector": "td, th", "props": "text-align: left; vertical-align: top"}]
    display(styled.set_table_styles(left))


def _page_cell(value: object) -> str:
    """A cell of a page: two decimals, text escaped."""
    if isinstance(value, float):
        return DASH if math.isnan(value) else f"{value:.2f}"
    return html.escape(str(value)).replace("\n", "<br>")


def status() -> Callable[[str], None]:
    """A line that says what is being done: a function whose text replaces the last one.

    Outside a notebook it says nothing.
    """
    if get_ipython() is None:
        return lambda text: None
    handle = DisplayHandle()
    handle.display({"text/plain": ""}, raw=True)

    def say(text: str) -> None:
        handle.update({"text/plain": text}, raw=True)

    return say


def changes(gains: pd.DataFrame, policy: str, measures: Sequence[str]) -> list[str]:
    """A sentence for each of these measures on what a policy changed.

    gains: as from `hs2lib.evaluate.policies.gains_of`. The name of its third column ends in what
    the policy is compared with.
    """
    against = gains.columns[2].partition(" ")[2]
    rows = gains[gains.measure.isin(measures) & (gains.policy == policy)]
    texts = []
    for measure, _, difference, low, high in rows.itertuples(index=False):
        if low > 0:
            change = "a rise"
        elif high < 0:
            change = "a fall"
        else:
            change = "no clear change"
        interval = f"{difference:+.2f}, 95 % interval {low:.2f} to {high:.2f}"
        texts.append(f"From {against} to {policy}, {measure}: {change} ({interval}).")
    return texts


def groups(shown: Sequence[Group], longest: int = 600) -> None:
    """Show some groups, one under the other."""
    display(HTML("<hr>".join(group_html(group, longest) for group in shown)))


def answers_html(
    group: Group, shown: Sequence[Answer], longest: int = 1500, *, columns: bool = False
) -> str:
    """A prompt and answers to it as HTML. All text is escaped.

    Answers to a prompt of the small world have a sign before each sentence, what they lack in a
    last line, and the truth beside the reward model's score. A sign says what its colour says, for
    pages that show no colour.

    Args:
        group: the prompt; its own responses are not shown.
        shown: the answers.
        longest: characters from which on an answer to a real prompt is cut, which the page says.
        columns: whether answers stand side by side, where the page is wide enough.
    """
    marked = []
    truths = []
    signs = marks.KINDS
    if generate.is_generated([group]):
        marked = [marks.mark(generate.task_of(group.id), answer.text) for answer in shown]
        truths = [float(one.grade.attributes @ _GOODNESS) for one in marked]
    elif sets.is_generated([group]):
        signs = postcard_marks.KINDS
        card = card_of(group.id)
        marked = [postcard_marks.mark(card, answer.text) for answer in shown]
        truths = [float(one.attributes @ _GOODNESS) for one in marked]
    kinds = {sentence.kind for one in marked for sentence in one.sentences}
    kinds |= {"missing" for one in marked if one.missing}
    legend = {kind: signs[kind] for kind in signs if kind in kinds}
    return _ANSWERS.render(
        group=group,
        shown=shown,
        marked=marked,
        truths=truths,
        kinds=signs,
        legend=legend,
        longest=longest,
        columns=columns,
        roles=style.ROLES,
        edge=style.PALE_GREY,
    )


def columns_html(group: Group, shown: Sequence[Answer]) -> str:
    """`answers_html` with the answers side by side."""
    return answers_html(group, shown, columns=True)


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


def browse(all_groups: Sequence[Group]) -> ipywidgets.VBox:
    """A browser of groups for a live notebook: a slider picks one, a text leads to the next.

    The search begins at the slider's group and goes around, so it reaches every group.
    """
    slider = ipywidgets.IntSlider(0, 0, len(all_groups) - 1, description="group")
    text = ipywidgets.Text(placeholder="text to find, then Enter", continuous_update=False)
    view = ipywidgets.HTML(group_html(all_groups[0]))

    def holds_text(group: Group) -> bool:
        wanted = text.value.casefold()
        return any(wanted in part.text.casefold() for part in (*group.prompt, *group.responses))

    def show(_: object) -> None:
        view.value = "no group holds that text"
        for group in (*all_groups[slider.value :], *all_groups[: slider.value]):
            if holds_text(group):
                view.value = group_html(group)
                break

    for widget in (slider, text):
        widget.observe(show, "value")
    return ipywidgets.VBox([slider, text, view])


def best_of(
    groups: Sequence[Group], total: int, winner: Callable[[int, int], Answer], first: int = 0
) -> ipywidgets.VBox:
    """Sliders for a live notebook: a prompt, and n; below them the answer that wins of n.

    groups: the prompts.
    total: the largest n.
    winner: (number of the prompt, n) -> the answer, as `hs2lib.evaluate.best_of_n.Drawn.winner`.
    first: number of the prompt to begin with.
    """
    prompt = ipywidgets.IntSlider(first, 0, len(groups) - 1, description="prompt")
    n = ipywidgets.IntSlider(1, 1, total, description="best of n")
    view = ipywidgets.HTML()

    def draw(_: object) -> None:
        answer = winner(prompt.value, n.value)
        view.value = answers_html(groups[prompt.value], [answer])

    for slider in (prompt, n):
        slider.observe(draw, "value")
    draw(None)
    return ipywidgets.VBox([prompt, n, view])


class Headline:
    """A line at a notebook's beginning that its end may replace by what the run showed."""

    def __init__(self, text: str) -> None:
        self.handle = DisplayHandle()
        self.handle.display(Markdown(f"> {text}"))

    def becomes(self, text: str) -> None:
        """Replace the line; an empty text leaves it as it is."""
        if text:
            self.handle.update(Markdown(f"> {text}"))
