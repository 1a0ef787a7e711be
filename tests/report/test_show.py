"""What a notebook shows besides tables and figures: a browser of groups finds a text from where it stands."""

import re

import pandas as pd

from hs2lib.group import Group, Response, Turn
from hs2lib.report import show
from hs2lib.report.answers import Answer
from hs2lib.world import sets


def test_the_browser_shows_a_group_or_the_next_that_holds_a_text():
    texts = ("Gold", "silver", "old <gold>")
    groups = [
        Group(str(k), (Turn("user", "?"),), (Response("a", text),)) for k, text in enumerate(texts)
    ]
    slider, text, view = show.browse(groups).children
    assert "<small>0</small>" in view.value, "the first, to begin with"
    for number, find, expected in ((1, "", 1), (0, "gold", 0), (1, "gold", 2), (2, "silver", 1)):
        slider.value, text.value = number, find
        assert f"<small>{expected}</small>" in view.value
    slider.value, text.value = 2, "gold"
    assert "old &lt;gold&gt;" in view.value
    text.value = "lead"
    assert "<small>" not in view.value


def test_a_table_of_texts_keeps_its_lines_and_shows_no_markup(monkeypatch):
    """Policies write the cells, prompts name the index, and either may hold markup."""
    shown = []
    monkeypatch.setattr(show, "display", lambda thing: shown.append(thing.to_html()))
    rows = {"truth <i>": [1.234, float("nan")], "answer": ["one\n<b>two</b>", "&"]}
    show.texts(pd.DataFrame(rows, index=["<u>0</u>"] * 2).rename_axis("<s>\nprompt"))
    (page,) = shown
    assert "one<br>&lt;b&gt;two&lt;/b&gt;" in page and "1.23" in page and ">\u2013<" in page
    for tag in ("<b>", "<u>", "<i>", "<s>"):
        assert tag not in page
    assert "&lt;s&gt;<br>prompt" in page


def test_answers_side_by_side_are_the_same_answers():
    group = next(sets.groups(1, seed=0))
    both = [Answer("a", group.responses[0].text), Answer("b", group.responses[1].text)]
    under = show.answers_html(group, both)
    beside = show.columns_html(group, both)
    texts = [re.findall(r"&nbsp;([^<]*)<", page) for page in (under, beside)]
    assert texts[0] == texts[1] and len(texts[0]) > 2
