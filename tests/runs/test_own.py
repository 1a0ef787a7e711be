"""A function that a parameter names, of the library or in a file of one's own."""

import pytest

from hs2lib.paths import root
from hs2lib.runs import own

KNOWN = {"dpo": min, "ipo": max}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def test_a_name_is_the_librarys(checkout):
    assert own.function("ipo", KNOWN) is max
    assert own.place("ipo") is None


def test_a_file_is_found_beside_the_notebooks_and_in_the_checkout(checkout):
    (checkout / "mine.py").write_text("def twice(x):\n    return 2 * x\n")
    assert own.function("mine.py:twice", KNOWN)(3) == 6
    assert own.place("mine.py:twice") == root() / "mine.py"
    (checkout / "notebooks" / "mine.py").write_text("def twice(x):\n    return 3 * x\n")
    assert own.function("mine.py:twice", KNOWN)(3) == 9


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dop", r"'dop' is none of dpo, ipo \(nearest: dpo\), and no function in a file"),
        ("gone.py:mine", "there is no gone.py beside the notebooks or in"),
        ("mine.py:thrice", "mine.py has no function thrice"),
        ("mine.py:number", "mine.py has no function number"),
    ],
)
def test_what_is_neither_is_refused(checkout, name, message):
    (checkout / "mine.py").write_text("number = 3\n")
    with pytest.raises(ValueError, match=message):
        own.function(name, KNOWN)
