"""The few groups that a cell holds at once."""

from dataclasses import replace

from hs2lib.data import examples
from hs2lib.group import Group, Response, Turn


def group(name, text):
    return Group(name, (Turn("user", name),), (Response(f"{name}/0", text),), source="here")


def test_a_few_are_the_first_ones_and_of_real_ones_the_shortest():
    texts = ["x" * 30, "x", "x" * 20, "x" * 10, "", "", "", "", ""]
    groups = [group(str(i), text) for i, text in enumerate(texts)]
    found = [one.id for one in examples.a_few(groups, 4)]
    assert found == ["1", "3"], "at least two of the first four"
    generated = [replace(one, source="postcards (generated), seed 0") for one in groups]
    assert examples.a_few(generated, 4) == generated[:4]


def test_of_a_pair_the_better_response_has_one():
    """By hand: a negative preference is for the first; rated groups stay as they are."""
    two = (Response("0", "a"), Response("1", "b"))
    pair = Group("p", (Turn("user", "?"),), two, preference=-2.0, source="here")
    ties = replace(pair, preference=0.0)
    found = examples.with_ratings([pair, replace(pair, preference=1.0), ties])
    labels = [[response.labels for response in one.responses] for one in found]
    assert labels == [[(1.0,), (0.0,)], [(0.0,), (1.0,)], [(0.5,), (0.5,)]]
    rated = replace(pair, responses=tuple(replace(one, labels=(3.0,)) for one in two))
    assert examples.with_ratings([rated]) == [rated]
