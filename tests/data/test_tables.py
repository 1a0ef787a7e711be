"""Groups, prompt strings and tables: what everything else in the suite builds on."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hs2lib.data.tables import ratings_array, shares_by_level, table
from hs2lib.group import ATTRIBUTES, Group, Response, Turn, parse_prompt, prompt_string

# Any text, but often one with pieces of markers in it: what a hostile or unlucky prompt would
# contain.
TEXTS = st.lists(
    st.sampled_from(
        ["\n", "<extra_id_1>", "<extra_id_0>", "User", "Assistant", "System\n", "a", " ", "é"]
    )
    | st.text(max_size=5),
    max_size=6,
).map("".join)


# Prompt strings


def test_prompt_string_is_the_released_format():
    """The one string every other tool uses: characters and turns of Table 2 are counted on it."""
    turns = (Turn("user", "Hi"), Turn("assistant", "Hello!"), Turn("user", "1+1?"))
    string = "Hi\n<extra_id_1>Assistant\nHello!\n<extra_id_1>User\n1+1?"
    assert prompt_string(turns) == string
    assert parse_prompt(string) == turns
    assert len(turns) == 1 + string.count("<extra_id_1>")


def test_system_turn_round_trips():
    turns = (Turn("system", "Be brief."), Turn("user", "Hi"))
    assert prompt_string(turns) == "<extra_id_0>System\nBe brief.\n<extra_id_1>User\nHi"
    assert parse_prompt(prompt_string(turns)) == turns


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), TEXTS), max_size=4),
    TEXTS,
    st.none() | TEXTS,
)
def test_turns_come_back_or_are_refused(rest, first, system):
    """Never a third way: a text that imitates a marker must not silently move the border between two turns."""
    turns = (Turn("user", first), *(Turn(role, text) for role, text in rest))
    if system is not None:
        turns = (Turn("system", system), *turns)
    try:
        string = prompt_string(turns)
    except ValueError as error:
        assert "marker" in str(error)
        assert any("<extra_id_" in turn.text for turn in turns), "only markers may be refused"
    else:
        assert parse_prompt(string) == turns


@given(TEXTS)
def test_strings_come_back_or_are_refused(string):
    """The other direction: no character of a released prompt is lost by parsing it."""
    try:
        assert prompt_string(parse_prompt(string)) == string
    except ValueError:
        assert "<extra_id_0>System" in string


def test_conversation_without_a_user_turn_is_refused():
    for turns in (
        (),
        (Turn("assistant", "a"),),
        (Turn("system", "s"),),
        (Turn("user", "u"), Turn("tool", "t")),
    ):
        with pytest.raises(ValueError, match="turn"):
            prompt_string(turns)


# Tables


def hand_made() -> list[Group]:
    nan = math.nan
    conversation = parse_prompt("Hi\n<extra_id_1>Assistant\nHello!\n<extra_id_1>User\n1+1?")
    first = Response("a", "two", (4.0, 4.0, 4.0, 1.0, 2.0), ((4.0,) * 5, (3.0, nan, 4.0, 1.0, 2.0)))
    return [
        Group("g0", conversation, (first, Response("b", "three"))),
        Group(
            "g1",
            (Turn("user", "c#"),),
            (Response("c", "C# is", (3.0, 4.0, 4.0, 2.0, 1.0), ((1.0,) * 5,)),),
        ),
    ]


def test_table_by_hand():
    rows = table(iter(hand_made()))
    assert list(rows) == [
        "group",
        "response",
        "turns",
        "prompt_chars",
        "response_chars",
        *ATTRIBUTES,
    ]
    assert rows["group"].tolist() == [0, 0, 1] and rows["response"].tolist() == [0, 1, 0]
    assert rows["turns"].tolist() == [3, 3, 1]
    # 2 + 23 + 6 + 18 + 4: the texts and the two markers, as the released string counts them.
    assert rows["prompt_chars"].tolist() == [53, 53, 2] and rows["response_chars"].tolist() == [
        3,
        5,
        5,
    ]
    assert rows["group"].dtype == rows["response"].dtype == np.int64
    assert rows.loc[0, list(ATTRIBUTES)].tolist() == [4, 4, 4, 1, 2]
    assert rows.loc[1, list(ATTRIBUTES)].isna().all(), (
        "an unrated response has missing labels, not zeros"
    )


def test_ratings_array_by_hand():
    ratings, groups = ratings_array(iter(hand_made()))
    assert ratings.shape == (3, 2, 5) and ratings.dtype == np.float64
    assert groups.tolist() == [0, 0, 1] and groups.dtype == np.int64
    assert ratings[0, 1].tolist()[2:] == [4, 1, 2] and np.isnan(ratings[0, 1, 1])
    assert (
        np.isnan(ratings[1]).all() and np.isnan(ratings[2, 1]).all() and (ratings[2, 0] == 1).all()
    )


def test_no_groups_make_empty_arrays():
    """A filter that keeps nothing must give an empty table with its columns, not an exception far away."""
    assert table([]).shape == (0, 10)
    assert [array.shape for array in ratings_array([])] == [(0, 0, 5), (0,)]


def test_groups_of_different_attributes_do_not_share_a_table():
    """Quality of Open Assistant in the column of helpfulness would be a silent mistake in every statistic."""
    groups = [*hand_made(), Group("x", (Turn("user", "q"),), (), ("quality",))]
    for make in (table, ratings_array):
        with pytest.raises(ValueError, match="x has attributes"):
            make(groups)


def test_shares_by_level_by_hand():
    """Each level of a whole scale; fifths where scales differ or are fine. 3.6 is rounded to 4."""
    rows = pd.DataFrame({"clarity": [1, 5, 3.6, np.nan], "score": [0.0, 1.0, 0.19, 0.2]})
    of_one = shares_by_level(rows, ["clarity"], {"clarity": (1, 5)})
    assert of_one.loc["clarity"].round(6).to_dict() == pytest.approx(
        {1: 100 / 3, 2: 0, 3: 0, 4: 100 / 3, 5: 100 / 3}, abs=1e-5
    )
    of_both = shares_by_level(rows, ["clarity", "score"], {"clarity": (1, 5), "score": (0, 1)})
    assert of_both.loc["score"].to_dict() == {1: 50, 2: 25, 3: 0, 4: 0, 5: 25}
