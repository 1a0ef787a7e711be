"""How figures and pages look: colours by name, the theme, and how a figure is saved.

The colours are Okabe and Ito's, which readers of any colour vision tell apart (Color Universal
Design, 2008). `hs2lib.report.figures` sets the theme, for every figure that is made from then on.
"""

from matplotlib.colors import to_hex, to_rgb

BLACK = "#000000"
ORANGE = "#e69f00"
SKY_BLUE = "#56b4e9"
GREEN = "#009e73"
YELLOW = "#f0e442"
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

# What seaborn's `set_theme` is told.
THEME = {"style": "whitegrid", "context": "paper", "palette": list(CYCLE), "rc": SAVED}


def colors(number: int) -> list[str]:
    """So many colours of `CYCLE`; from the ninth on they begin anew."""
    return [CYCLE[place % len(CYCLE)] for place in range(number)]


def tint(color: str, share: float) -> str:
    """A colour mixed with white, as #rrggbb.

    share: of the colour, 0 (white) to 1. Raises ValueError for another share.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the share of a colour is 0 to 1, got {share}")
    mixed = [1 + share * (part - 1) for part in to_rgb(color)]
    return to_hex(mixed)
