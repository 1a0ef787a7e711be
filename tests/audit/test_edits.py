"""Edits of an answer, by hand."""

import pytest

from hs2lib.audit import edits

LISTED = "1. First.\n2. Second, of 10.\n3. Third."


@pytest.mark.parametrize(
    ("edit", "text", "edited"),
    [
        (edits.leave_out, LISTED, "1. First.\n3. Third."),
        (edits.leave_out, "One. Two! Three?", "One. Three?"),
        (edits.leave_out, "One alone.", None),
        (edits.leave_out, "", None),
        (edits.first_half, "one two three four five", "one two"),
        (edits.first_half, "one two three", None),
        (edits.change_number, LISTED, LISTED.replace("10", "16")),
        (edits.change_number, "It has 3 doors and 0 windows.", "It has 3 doors and 1 windows."),
        (edits.change_number, "1. First.\n2. Second.", None),  # marks of items are no values
        (edits.change_number, "Version v2 of file 3a.", None),
        (edits.change_number, "No value.", None),
        (edits.change_number, "It is 0.05, or 1,000, on 2024-05-03 at 10:30.", None),
        (edits.change_number, "It has 3.", "It has 5."),
        (edits.leave_out, "Intro.\n\nA.\n\nB.\n\nC.", "Intro.\n\nA.\n\nC."),
        (edits.leave_out, "冰很冷。它会融化。它浮在水上。", "冰很冷。它浮在水上。"),
        (edits.first_half, "a\nb\nc\nd\ne f", "a\nb\nc"),
        (edits.first_half, "冰" * 20 + "水" * 20, "冰" * 20),
        (edits.reverse, "A.\n\nB.\nC.", "C.\n\nB.\nA."),
        (edits.repeat_first, "A.\n\nB.\n\nC.", "A.\n\nB.\n\nC.\n\nA."),
        (edits.reverse, LISTED, "3. Third.\n2. Second, of 10.\n1. First."),
        (edits.reverse, "One. Two.", None),
        (edits.repeat_first, "One. Two.", "One. Two. One."),
        (edits.repeat_first, " \n ", None),
    ],
)
def test_each_edit_by_hand(edit, text, edited):
    assert edit(text) == edited


def test_no_edit_raises_on_any_text():
    for text in (
        "",
        " ",
        "\n\n\n",
        "...",
        "9" * 40,
        "\ud7ff\U0001f600",
        "a" * 10_000,
        "1.\n2.\n3.",
    ):
        for edit in (edits.WORSE | edits.NO_BETTER).values():
            changed = edit(text)
            assert changed is None or isinstance(changed, str)
