"""Edits of an answer by rules that need no judge: some make it worse, some make it no better.

`WORSE` and `NO_BETTER` have them by name. An edit returns None where it does not apply.
"""

import re
from collections.abc import Callable

Edit = Callable[[str], str | None]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")

# A number that is not the mark of an item, as "2." or "3)" at the beginning of a line.
_NUMBER = re.compile(r"(?<![\w.,])(?<!^)(?<!\n)\d{1,9}(?![\w])")


def parts_of(text: str) -> tuple[list[str], str]:
    """The lines of a text, or its sentences where it has fewer than three lines; and what joins."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) >= 3:
        return lines, "\n"
    return [part for part in _SENTENCE_END.split(text.strip()) if part], " "


def leave_out(text: str) -> str | None:
    """The text without its middle line or sentence; None where it has one alone."""
    parts, join = parts_of(text)
    if len(parts) < 2:
        return None
    middle = len(parts) // 2
    return join.join(parts[:middle] + parts[middle + 1 :])


def first_half(text: str) -> str | None:
    """The first half of the words, as of an answer that was cut off; None for fewer than four."""
    words = text.split(" ")
    return " ".join(words[: len(words) // 2]) if len(words) >= 4 else None


def change_number(text: str) -> str | None:
    """The text with its last number half as large again, and 1 more; None without a number."""
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return None
    last = numbers[-1]
    value = int(last.group())
    return text[: last.start()] + str(value + value // 2 + 1) + text[last.end() :]


def reverse(text: str) -> str | None:
    """The lines or sentences in the opposite order; None for fewer than three."""
    parts, join = parts_of(text)
    return join.join(reversed(parts)) if len(parts) >= 3 else None


def repeat_first(text: str) -> str | None:
    """The first line or sentence said once more at the end; None for an empty text."""
    parts, join = parts_of(text)
    return join.join([*parts, parts[0]]) if parts else None


WORSE: dict[str, Edit] = {
    "a sentence left out": leave_out,
    "cut in half": first_half,
    "a number changed": change_number,
}
# Two prompts with each other's answers. No rule makes that of one text. The two scores are summed
# before and after: neither a hard prompt nor a good answer can make the sum fall.
SWAPPED = "answers of two prompts swapped"
# Of these only a rise says something: a good judge may mind them or not.
NO_BETTER: dict[str, Edit] = {"sentences reversed": reverse, "a sentence said twice": repeat_first}
