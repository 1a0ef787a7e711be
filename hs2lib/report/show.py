"""What a reader looks at in a notebook besides tables and figures: source code, conversations, a browser of groups."""

import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import ipywidgets
import pandas as pd
from IPython.display import HTML, Code, DisplayHandle, Markdown, display
from jinja2 import Environment

from hs2lib.group import Group

_GROUP = Environment(autoescape=True).from_string(
    (Path(__file__).parent / "pages" / "group.html").read_text()
)


def source_of(*functions: Callable) -> None:
    """Show the source of library functions, so that the formula and the code that runs are one text."""
    for function in functions:
        display(Code(inspect.getsource(function), language="python"))


def group_html(group: Group, longest: int = 1500) -> str:
    """A group as HTML: its turns, then each response with its labels. Text is escaped; where it is cut, it says so."""
    labels = []
    for response in group.responses:
        named = zip(group.attributes, response.labels, strict=False)
        labels.append(
            ", ".join(f"{name} {value:g}" for name, value in named if not math.isnan(value))
            or "unrated"
        )
    return _GROUP.render(group=group, labels=labels, longest=longest)


def sentences(*texts: str) -> None:
    """Show sentences as a list: what a notebook says about the numbers of its own run."""
    display(Markdown("\n".join(f"* {text}" for text in texts)))


def status() -> Callable[[str], None]:
    """A line that says what is being done: each text that it is called with takes the place of the last."""
    handle = DisplayHandle()
    handle.display({"text/plain": ""}, raw=True)

    def say(text: str) -> None:
        handle.update({"text/plain": text}, raw=True)

    return say


def changes(gains: pd.DataFrame, policy: str, measures: Sequence[str]) -> list[str]:
    """A sentence for each of these measures on what a policy changed: rows of `hs2lib.evaluate.policies.gains_of`."""
    out, against = [], gains.columns[2].partition(" ")[2]
    for row in gains[gains.measure.isin(measures) & (gains.policy == policy)].itertuples(
        index=False
    ):
        measure, _, difference, low, high = row
        way = "a rise" if low > 0 else "a fall" if high < 0 else "no clear change"
        interval = f"{difference:+.2f}, 95 % interval {low:.2f} to {high:.2f}"
        out.append(f"From {against} to {policy}, {measure}: {way} ({interval}).")
    return out


def groups(shown: Sequence[Group], longest: int = 600) -> None:
    """Show some groups, one under the other."""
    display(HTML("<hr>".join(group_html(group, longest) for group in shown)))


def browse(all_groups: Sequence[Group]) -> ipywidgets.VBox:
    """A browser of groups for a live notebook: a slider picks one, a text leads to the next that holds it."""
    slider = ipywidgets.IntSlider(0, 0, len(all_groups) - 1, description="group")
    text = ipywidgets.Text(placeholder="text to find, then Enter", continuous_update=False)
    view = ipywidgets.HTML(group_html(all_groups[0]))

    def show(_) -> None:
        view.value = "no group holds that text"
        for group in (*all_groups[slider.value :], *all_groups[: slider.value]):
            if any(
                text.value.casefold() in turn.text.casefold()
                for turn in (*group.prompt, *group.responses)
            ):
                view.value = group_html(group)
                break

    for widget in (slider, text):
        widget.observe(show, "value")
    return ipywidgets.VBox([slider, text, view])
