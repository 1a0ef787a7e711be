"""What a notebook shows besides tables and figures: a browser of groups finds a text from where it stands."""

from hs2lib.group import Group, Response, Turn
from hs2lib.report import show


def test_the_browser_shows_a_group_or_the_next_that_holds_a_text(monkeypatch):
    texts = ("Gold", "silver", "old <gold>")
    groups = [Group(str(k), (Turn("user", "?"),), (Response("a", text),)) for k, text in enumerate(texts)]
    shown = []
    monkeypatch.setattr(show, "display", lambda what: shown.append(what.data))
    browser = show.browse(groups)
    assert "<small>0</small>" in shown.pop(), "the first, to begin with"
    for number, find in ((1, ""), (0, "gold"), (1, "gold"), (2, "silver"), (0, "lead")):
        browser.f(number, find)
    first, second, third, again, nothing = shown
    assert "<small>1</small>" in first and "<small>0</small>" in second
    assert "<small>2</small>" in third and "old &lt;gold&gt;" in third
    assert again == first and nothing == "no group holds that text"
