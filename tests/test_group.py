"""What stands in a group's texts: names and numbers."""

import pytest

from hs2lib.group import named_numbers


def test_names_and_numbers_by_hand():
    assert named_numbers("helpfulness:4,verbosity: -.5") == {"helpfulness": 4.0, "verbosity": -0.5}
    for text in ("", "helpfulness", "helpfulness:much", ":4", "a:1,a:1", "a:1,", "a:nan", "a:1:2"):
        with pytest.raises(ValueError, match=r"expected name:number, name:number \.\., got '.*'"):
            named_numbers(text)
