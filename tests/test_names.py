"""The table of names: every name in it stands for something, and everything that has a name is in it."""

from hs2lib import names
from hs2lib.data.load import SETS
from hs2lib.engine import chat
from hs2lib.models import backbones
from hs2lib.runs import graph


def test_names_and_what_they_stand_for_agree():
    """Two lists that may differ would let a parameter name what the library does not have, or hide what it has."""
    kinds = (
        names.RATED,
        names.ANNOTATED,
        names.COMPARED,
        names.UNRATED,
        names.CONVERSATIONS,
        names.PROMPTS,
    )
    assert {name for kind in kinds for name in kind} == set(SETS)
    assert set(names.TIERS) == set(graph.TIERS)
    assert set(names.MODELS) == set(backbones.NAMED)
    assert chat.TEMPLATES is names.TEMPLATES


def test_no_table_names_a_thing_twice():
    tables = {
        name: value
        for name, value in vars(names).items()
        if name.isupper() and isinstance(value, tuple)
    }
    for name, table in tables.items():
        assert len(set(table)) == len(table), name
        assert all(isinstance(value, str) and value for value in table), name
    assert set(names.GENERATED) <= set(SETS)
