"""How figures and pages look: colours by name, the theme, and how a figure is saved.

The colours are Okabe and Ito's, which readers of any colour vision tell apart (Color Universal
Design, 2008). `hs2lib.report.figures` sets the theme, for every figure that is made from then on.
"""

BLACK = "#000000"
ORANGE = "#e69f00"
SKY_BLUE = "#56b4e9"
GREEN = "#009e73"
BLUE = "#0072b2"
VERMILLION = "#d55e00"
PURPLE = "#cc79a7"
# For what is there and does not count: other lines, empty parts, a system prompt.
GREY = "#888888"
PALE_GREY = "#cccccc"

# For kinds of things without a meaning of their own, in this order. Yellow is hard to see on white.
CYCLE = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY_BLUE, GREY, BLACK)

# Who speaks, in conversations on pages.
ROLES = {"system": GREY, "user": BLUE, "assistant": GREEN}

DPI = 200
# What `savefig` is told. Type 42 keeps letters as letters: editors of journals ask for it.
SAVED = {"savefig.dpi": DPI, "savefig.bbox": "tight", "pdf.fonttype": 42, "ps.fonttype": 42}
