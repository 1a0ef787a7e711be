"""README and the pages of docs/, and their blocks."""

import re
from pathlib import Path

from hs2lib.paths import root

CHECKOUT = root()
PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted(CHECKOUT.glob("docs/*.md"))]
BLOCK = re.compile(r"^```(\w+)(?: +(.+?))?\n(.*?)^```$", re.M | re.S)
FOLLOWED = "extending.md"  # test_docs.py runs it block after block


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """(language, what follows it, text) of every fenced block of a page."""
    return [match.groups() for match in BLOCK.finditer(page.read_text())]
