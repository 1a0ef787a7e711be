"""The pages of docs/, their blocks, and which of them a test follows block after block."""

import re

from hs2lib.paths import root

CHECKOUT = root()
# Pages of which test_docs.py follows every block. Of the others test_page_commands.py runs the commands.
FOLLOWED = (*sorted(path.name for path in CHECKOUT.glob("docs/add-*.md")), "score-a-file.md")
BLOCK = re.compile(r"^```(\w+)(?: +(.+?))?\n(.*?)^```$", re.M | re.S)
