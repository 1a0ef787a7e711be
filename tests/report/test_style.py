"""One place for the look of figures: colours by name, the theme, how a figure is saved."""

import re
from io import BytesIO

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import seaborn as sns
from matplotlib.colors import to_hex, to_rgb
from PIL import Image

from hs2lib.paths import root
from hs2lib.report import style

# Their colours are for text and pages, dark enough to be read on white, or those of two widgets.
OTHERS = {"corpus/marks.py", "collect/raters.py", "collect/response.html", "report/style.py"}
OF_PAGES = {"page.css", "claims.html"}


def test_the_library_has_no_colour_of_its_own():
    """Blue was #0072b2 in one figure, #0173b2 in the next and #4c72b0 in the curves of a training."""
    library = root() / "hs2lib"
    files = [*library.rglob("*.py"), *library.rglob("*.html")]
    with_colours = set()
    for file in files:
        text = file.read_text()
        if re.search(r"#[0-9a-f]{6}\b|color_palette", text, re.I):
            with_colours.add(file)
    names = {f.relative_to(library).as_posix() for f in with_colours if f.name not in OF_PAGES}
    assert names <= OTHERS and "report/style.py" in names


def test_curves_of_a_training_and_all_else_begin_with_the_same_colours():
    """Whatever is drawn without a colour of its own takes the next of the theme's."""
    with mpl.rc_context():
        sns.set_theme(**style.THEME)
        _, ax = plt.subplots()
        shades = [to_hex(ax.plot([0, 1], [0, 1])[0].get_color()) for _ in range(9)]
        plt.close()
    assert shades == style.colors(9) and shades[0] == shades[8] == style.BLUE


def luminance(color):
    """The relative luminance of a colour, 0 to 1, as WCAG 2 defines it."""
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def seen_by(color, matrix):
    """A colour as a reader who lacks one kind of cone sees it, on linear RGB."""
    return [sum(w * p for w, p in zip(row, to_rgb(color), strict=True)) for row in matrix]


# Viénot, Brettel and Mollon (1999): readers without red cones, and without green ones.
PROTAN = ((0.1124, 0.8876, 0.0), (0.1124, 0.8876, 0.0), (0.004, -0.004, 1.0))
DEUTAN = ((0.2928, 0.7072, 0.0), (0.2928, 0.7072, 0.0), (-0.0223, 0.0223, 1.0))


@pytest.mark.parametrize("matrix", [PROTAN, DEUTAN])
def test_truth_score_and_length_differ_without_red_or_green_cones(matrix):
    """These three stand beside each other in most figures."""
    three = [seen_by(color, matrix) for color in (style.BLUE, style.VERMILLION, style.GREEN)]
    for one in range(3):
        for other in range(one):
            distance = sum((a - b) ** 2 for a, b in zip(three[one], three[other], strict=True))
            assert distance**0.5 > 0.2


def test_every_colour_of_the_cycle_is_seen_on_white():
    assert all(1.05 / (luminance(color) + 0.05) > 2 for color in style.CYCLE)
    assert 1.05 / (luminance(style.YELLOW) + 0.05) < 1.5, "why yellow is not in it"


def test_a_tint_is_mixed_with_white():
    assert style.tint("#000000", 0.2) == "#cccccc"
    assert style.tint(style.BLUE, 1) == style.BLUE and style.tint(style.BLUE, 0) == "#ffffff"
    with pytest.raises(ValueError, match=r"0 to 1, got 2"):
        style.tint("#000000", 2)


def test_a_saved_figure_has_200_dots_an_inch_and_letters():
    fig, ax = plt.subplots(figsize=(2, 1))
    ax.set(title="letters")
    saved = {}
    with mpl.rc_context(style.SAVED):
        for kind in ("png", "pdf"):
            saved[kind] = BytesIO()
            fig.savefig(saved[kind], format=kind, bbox_inches=fig.bbox_inches)
    plt.close(fig)
    assert Image.open(saved["png"]).size == (400, 200)
    assert b"/Type0" in saved["pdf"].getvalue() and b"/Type3" not in saved["pdf"].getvalue()
