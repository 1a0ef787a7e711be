"""A widget is moved as a reader moves it: its view changes, in less than a second of computing."""

from collections.abc import Callable
from time import process_time

import ipywidgets

SECONDS = 1.0  # of the processor, so that a busy machine does not count


def moved(view: ipywidgets.HTML, act: Callable[[], object], what: str) -> str:
    """Act, and return what the view shows then.

    view: must change. act: sets a value or clicks. what: it is, for the message.
    """
    before = view.value
    began = process_time()
    act()
    took = process_time() - began
    assert took < SECONDS, f"{what} took {took:.2f} s"
    assert view.value != before, f"{what} changed nothing"
    return view.value


def sets(widget: ipywidgets.ValueWidget, value: object) -> Callable[[], None]:
    """What sets a widget's value when it is called."""
    return lambda: setattr(widget, "value", value)
