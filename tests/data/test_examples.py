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
