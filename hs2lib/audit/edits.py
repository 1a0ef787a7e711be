"""Edits of an answer by rules that need no judge: some make it worse, some make it no better.

`WORSE` and `NO_BETTER` have them by name. An edit returns None where it does not apply.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

Edit = Callable[[str], str | None]

_LINE_BREAK = re.compile(r"(\s*\n\s*)")

_SENTENCE_BREAK = re.compile(r"((?<=[.!?])\s+|(?<=[。！？])\s*)")

# A whole number that is not the mark of an item, as "2." or "3)" at the beginning of a line, nor a
# part of a decimal, a date or a number with separators.
_NUMBER = re.compile(r"(?<![\w.,:/-])(?<!^)(?<!\n)\d{1,9}(?![\w]|[.,:/-]\d)")


class Parts(NamedTuple):
    """The lines or sentences of a text, and what stands between them: one fewer."""

    texts: list[str]
    breaks: list[str]

    def joined(self) -> str:
        """The text again."""
        text = ""
        for part, after in zip(self.texts, [*self.breaks, ""], strict=True):
            text += part + after
        return text


def parts_of(text: str) -> Parts:
    """The lines of a text, or its sentences where it has fewer than three lines."""
    lines = _LINE_BREAK.split(text.strip())
    if len(lines) >= 5:  # three lines and what stands between them
        return Parts(lines[::2], lines[1::2])
    pieces = _SENTENCE_BREAK.split(text.strip())
    if pieces[-1] == "":  # a break that ends the text is none
        pieces = pieces[:-2]
    return Parts(pieces[::2], pieces[1::2])


def leave_out(text: str) -> str | None:
    """The text without its middle line or sentence; None where it has one alone."""
    texts, breaks = parts_of(text)
    if len(texts) < 2:
        return None
    middle = len(texts) // 2
    gap = middle - 1  # the break before what is left out goes with it
    return Parts(texts[:middle] + texts[middle + 1 :], breaks[:gap] + breaks[gap + 1 :]).joined()


def first_half(text: str) -> str | None:
    """The first half of the words, as of an answer that was cut off; None for fewer than four.

    Of a text without spaces, as Chinese, it is the first half of the characters.
    """
    words = re.findall(r"\S+\s*", text)
    if len(words) >= 4:
        return "".join(words[: len(words) // 2]).rstrip()
    return text[: len(text) // 2] if len(text) >= 40 else None


def change_number(text: str) -> str | None:
    """The text with its last whole number half as large again, and 1 more; None without one."""
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return None
    last = numbers[-1]
    value = int(last.group())
    return text[: last.start()] + str(value + value // 2 + 1) + text[last.end() :]


def reverse(text: str) -> str | None:
    """The lines or sentences in the opposite order; None for fewer than three."""
    texts, breaks = parts_of(text)
    return Parts(texts[::-1], breaks).joined() if len(texts) >= 3 else None


def repeat_first(text: str) -> str | None:
    """The first line or sentence said once more at the end; None for an empty text."""
    texts, breaks = parts_of(text)
    if not texts or not texts[0]:
        return None
    last_break = breaks[-1] if breaks else " "
    return Parts([*texts, texts[0]], [*breaks, last_break]).joined()


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
