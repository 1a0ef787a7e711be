"""Examples of a rating are chosen by what they are rated, never by their place alone."""

from dataclasses import replace

import pytest

from hs2lib.data import examples
from hs2lib.group import Group, Response, Turn

NAMES = ("helpfulness", "coherence")


def group(name, *rated, turns=1):
    """A group of responses (text, labels, ratings)."""
    prompt = tuple(Turn("assistant" if i % 2 else "user", f"{name}{i}") for i in range(turns))
    responses = [
        Response(f"{name}/{k}", text, labels, tuple(ratings))
        for k, (text, labels, ratings) in enumerate(rated)
    ]
    return Group(name, prompt, tuple(responses), NAMES, source="here")


def test_of_each_level_the_response_on_which_raters_agree_and_else_the_typical_one():
    groups = [
        group("a", ("doubtful", (2, 3), [(1, 3), (3, 3)]), ("clear", (2, 3), [(2, 3), (2, 3)])),
        group("b", ("odd", (4, 0), [(4, 0)]), ("usual", (4, 3), [(4, 3)])),
        group("c", ("usual too", (4, 4), [(4, 4)]), ("far", (1, 1), [(1, 1)])),
        group("d", ("a long talk", (3, 3), [(3, 3)]), ("b", (3, 3), [(3, 3)]), turns=3),
    ]
    chosen = examples.at_levels(groups, "helpfulness")
    assert {level: response.text for level, (_, response) in chosen.items()} == {
        1: "far",
        2: "clear",
        4: "usual",
    }
    assert chosen[4][0].id == "b"
    with pytest.raises(ValueError, match="verbosity is not rated here: helpfulness, coherence"):
        examples.at_levels(groups, "verbosity")
    assert examples.at_levels([group("e")], "verbosity") == {}


def test_one_point_apart_and_else_alike():
    near = group("near", ("xx", (3, 3), []), ("yy", (3, 4), []))
    short = group("short", ("x", (3, 3), []), ("y", (3, 4), []))
    other = group("other", ("x", (2, 3), []), ("y", (3, 4), []))
    unsure = group("unsure", ("", (3, 3), [(3, 2), (3, 4)]), ("", (3, 4), []))
    groups = [unsure, other, near, short]
    assert examples.one_apart(groups, "coherence").id == "short"
    assert examples.one_apart([other], "helpfulness").id == "other"
    assert examples.one_apart([near], "helpfulness") is None


def test_the_longer_response_that_is_much_better_or_much_worse():
    better = group("better", ("x", (0, 3), []), ("xxxx", (3, 3), []))
    worse = group("worse", ("xxxx", (0, 3), []), ("x", (2, 3), []))
    little = group("little", ("x", (2, 3), []), ("xxxxxxxxx", (3, 3), []))
    groups = [little, worse, better]
    assert examples.longer_one(groups, better=True).id == "better"
    assert examples.longer_one(groups, better=False).id == "worse"
    assert examples.longer_one([little], better=True) is None


def test_a_few_are_the_first_ones_and_of_real_ones_the_shortest():
    texts = ["x" * 30, "x", "x" * 20, "x" * 10, "", "", "", "", ""]
    groups = [group(str(i), (text, (0, 0), [])) for i, text in enumerate(texts)]
    found = [one.id for one in examples.a_few(groups, 4)]
    assert found == ["1", "3"], "at least two of the first four"
    generated = [replace(one, source="postcards (generated), seed 0") for one in groups]
    assert examples.a_few(generated, 4) == generated[:4]
