"""What a notebook shows besides tables and figures: a browser of groups finds a text from where it stands."""

from hs2lib.group import Group, Response, Turn
from hs2lib.report import show


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
    assert view.value == "no group holds that text"
