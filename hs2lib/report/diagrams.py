"""Drawings of how a method works, made by code so that they change with the words around them.

    run.figure(diagrams.dpo(), "diagram", "DPO's two arrows.", of_data=False)

Nothing here is a result. Paper: it has no such drawings.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from hs2lib.report import style
from hs2lib.report.figures import LENGTH, SCORE, TRUTH

INK = "0.15"
PAPER = "white"
POLICY = style.tint(TRUTH.color, 0.1)  # a model that writes
JUDGE = style.tint(SCORE.color, 0.13)  # a model that judges
TEXT = style.tint(style.BLACK, 0.04)  # words
EXACT = style.tint(TRUTH.color, 0.14)  # what knows the truth
WISHED = style.tint(LENGTH.color, 0.12)  # what is wanted


@dataclass(frozen=True)
class Box:
    """A box with a label: its middle, its width and height, in the units of the drawing."""

    x: float
    y: float
    label: str
    width: float = 2.2
    height: float = 0.8
    color: str = TEXT


def _canvas(width: float, height: float, size: tuple[float, float]) -> tuple[Figure, Axes]:
    """An empty drawing of so many units, and so many inches."""
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.set_aspect("equal")
    ax.axis("off")
    return figure, ax


def _draw(ax: Axes, box: Box) -> Box:
    """Draw a box."""
    corner = (box.x - box.width / 2, box.y - box.height / 2)
    rounded = "round,pad=0.02,rounding_size=0.12"
    patch = FancyBboxPatch(corner, box.width, box.height, boxstyle=rounded, fc=box.color, ec=INK)
    patch.set_linewidth(0.8)
    ax.add_patch(patch)
    ax.text(box.x, box.y, box.label, ha="center", va="center", fontsize=9, color=INK)
    return box


def _arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    label: str = "",
    *,
    color: str = INK,
    bend: float = 0.0,
    dashed: bool = False,
    above: float = 0.16,
) -> None:
    """Draw an arrow with a label above its middle."""
    patch = FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        mutation_scale=12,
        color=color,
        lw=1.3,
        ls="--" if dashed else "-",
        connectionstyle=f"arc3,rad={bend}",
        shrinkA=1,
        shrinkB=1,
    )
    ax.add_patch(patch)
    if label:
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + above)
        ax.text(*middle, label, ha="center", va="bottom", fontsize=8, color=color)


def small_world() -> Figure:
    """The small world: who writes answers, who knows the truth, and who only rates."""
    figure, ax = _canvas(12, 4.6, (8.4, 3.2))
    _draw(ax, Box(1.1, 2.7, "prompt", 1.6, 0.8))
    _draw(ax, Box(4.0, 3.7, "author\nwith two habits", 2.4, 1.0))
    _draw(ax, Box(4.0, 1.7, "policy", 2.4, 0.8, POLICY))
    _draw(ax, Box(7.0, 2.7, "answer", 1.6, 0.8))
    _draw(ax, Box(10.3, 3.7, "grader: the truth,\nby rules, exact", 2.9, 1.0, EXACT))
    _draw(ax, Box(10.3, 1.7, "raters: noise,\nand a taste for jargon", 2.9, 1.0, JUDGE))
    _arrow(ax, (1.9, 2.8), (2.8, 3.6))
    _arrow(ax, (1.9, 2.6), (2.8, 1.8))
    _arrow(ax, (5.2, 3.6), (6.2, 2.8))
    _arrow(ax, (5.2, 1.8), (6.2, 2.6))
    _arrow(ax, (7.8, 2.8), (8.85, 3.6), color=TRUTH.color)
    _arrow(ax, (7.8, 2.6), (8.85, 1.8), color=SCORE.color)
    _arrow(ax, (10.3, 1.2), (4.0, 1.3), color=SCORE.color, bend=-0.2)
    ax.text(7.1, 0.2, "what methods learn from", ha="center", fontsize=8)
    ax.text(10.3, 4.35, "what methods are measured by", ha="center", fontsize=8)
    return figure


def reward_model() -> Figure:
    """Prompt and response in, five numbers out: a regression head on the last state."""
    figure, ax = _canvas(12, 3.4, (8.4, 2.4))
    _draw(ax, Box(1.6, 1.7, "prompt\n+ one response", 2.6, 1.2))
    _draw(ax, Box(5.1, 1.7, "language model\nwithout its last layer", 3.0, 1.2, POLICY))
    _draw(ax, Box(8.0, 1.7, "last state h", 1.6, 0.8))
    _arrow(ax, (2.9, 1.7), (3.6, 1.7))
    _arrow(ax, (6.6, 1.7), (7.2, 1.7))
    names = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")
    for number, name in enumerate(names):
        height = 3.1 - 0.6 * number
        _arrow(ax, (8.8, 1.7), (10.0, height), color=SCORE.color)
        ax.text(10.1, height, name, va="center", fontsize=9, color=INK)
    ax.text(8.9, 0.1, "$W h$: five outputs, squared error", fontsize=8, color=SCORE.color)
    return figure


def prefix_tree() -> Figure:
    """A prompt with its responses as one tree: what they share is computed once."""
    figure, ax = _canvas(12, 4.2, (8.4, 2.9))
    ax.text(2.6, 4.0, "padded rows", ha="center", fontsize=9, color=INK)
    ax.text(9.0, 4.0, "a group as a prefix tree", ha="center", fontsize=9, color=INK)
    for row, (length, padding) in enumerate(((1.4, 0.8), (2.2, 0.0), (0.7, 1.5))):
        y = 3.2 - 1.1 * row
        _draw(ax, Box(1.3, y, "prompt", 2.0, 0.7, POLICY))
        _draw(ax, Box(2.35 + length / 2, y, f"y{row + 1}", length, 0.7, JUDGE))
        if padding:
            box = Box(2.4 + length + padding / 2, y, "pad", padding, 0.7, PAPER)
            _draw(ax, box)
    _draw(ax, Box(7.5, 2.1, "prompt", 2.0, 0.7, POLICY))
    for row, length in enumerate((1.4, 2.2, 0.7)):
        y = 3.2 - 1.1 * row
        _draw(ax, Box(9.4 + length / 2, y, f"y{row + 1}", length, 0.7, JUDGE))
        _arrow(ax, (8.5, 2.1), (9.38, y))
    ax.text(2.6, 0.2, "the prompt three times, and padding", ha="center", fontsize=8)
    ax.text(9.0, 0.2, "the prompt once, no padding, the same numbers", ha="center", fontsize=8)
    return figure


def judgement() -> Figure:
    """One judgement in two forms: ratings for a regression, a preference for a loss of pairs."""
    figure, ax = _canvas(12, 4.6, (8.4, 3.2))
    _draw(ax, Box(1.6, 2.3, "two responses\nto one prompt", 2.4, 1.2))
    _draw(ax, Box(4.9, 3.5, "ratings\n3 and 1", 2.0, 1.1))
    _draw(ax, Box(4.9, 1.1, "preference\nfirst, strength 2", 2.4, 1.1))
    _draw(ax, Box(8.6, 3.5, "regression:\nscores near 3 and 1", 3.0, 1.1, JUDGE))
    _draw(ax, Box(8.6, 1.1, "Bradley-Terry:\nfirst above second", 3.0, 1.1, JUDGE))
    _arrow(ax, (2.8, 2.5), (3.9, 3.4))
    _arrow(ax, (2.8, 2.1), (3.7, 1.2))
    _arrow(ax, (5.9, 3.5), (7.1, 3.5))
    _arrow(ax, (6.1, 1.1), (7.1, 1.1))
    _arrow(ax, (8.6, 2.95), (8.6, 1.65), color=LENGTH.color)
    ax.text(8.8, 2.3, "its weights are a start", fontsize=9, va="center", color=LENGTH.color)
    return figure


def dpo() -> Figure:
    """DPO's two arrows: the chosen response becomes likelier, the rejected one less likely."""
    figure, ax = _canvas(12, 4.2, (8.4, 2.9))
    _draw(ax, Box(1.5, 2.1, "prompt x", 2.0, 0.9))
    _draw(ax, Box(5.0, 3.1, "chosen  $y_c$", 2.4, 0.8, WISHED))
    _draw(ax, Box(5.0, 1.1, "rejected  $y_r$", 2.4, 0.8, JUDGE))
    _arrow(ax, (2.5, 2.2), (3.8, 3.1))
    _arrow(ax, (2.5, 2.0), (3.8, 1.1))
    _arrow(ax, (7.0, 2.75), (7.0, 3.75), color=LENGTH.color)
    ax.text(7.2, 3.25, "log P up", fontsize=9, va="center", color=LENGTH.color)
    _arrow(ax, (7.0, 1.5), (7.0, 0.5), color=SCORE.color)
    ax.text(7.2, 1.0, "log P down", fontsize=9, va="center", color=SCORE.color)
    words = "each measured from a frozen copy\nof the policy, the reference;\n"
    words += "a pair far in order pulls no more"
    ax.text(9.3, 2.1, words, fontsize=8.5, va="center", color=INK)
    return figure


def ppo() -> Figure:
    """PPO's loop: answer, judge, compare with the baseline, move a little, answer again."""
    figure, ax = _canvas(12, 5.0, (8.4, 3.5))
    _draw(ax, Box(2.0, 4.0, "policy writes several\nanswers to a prompt", 3.0, 1.1, POLICY))
    _draw(ax, Box(7.0, 4.0, "reward model\nscores each", 2.8, 1.1, JUDGE))
    _draw(ax, Box(10.3, 2.4, "score\n- penalty for leaving SFT", 3.0, 1.1))
    _draw(ax, Box(7.0, 0.9, "advantage:\nhow much better than expected", 3.6, 1.1))
    _draw(ax, Box(2.0, 0.9, "clipped step:\nlikelier if better", 3.0, 1.1, POLICY))
    _arrow(ax, (3.5, 4.0), (5.6, 4.0), "answers")
    _arrow(ax, (8.4, 3.9), (10.3, 2.98), bend=-0.2)
    _arrow(ax, (10.3, 1.82), (8.8, 0.9), bend=-0.25)
    _arrow(ax, (5.2, 0.9), (3.5, 0.9))
    _arrow(ax, (2.0, 1.45), (2.0, 3.45))
    ax.text(2.15, 2.45, "next round", fontsize=8, va="center", color=INK)
    return figure


def steerlm() -> Figure:
    """SteerLM's label: in training the reward model's, in use the reader's wish."""
    figure, ax = _canvas(12, 4.6, (8.4, 3.2))
    ax.text(0.2, 4.3, "training", fontsize=9, color=INK)
    _draw(ax, Box(1.6, 3.4, "prompt", 1.8, 0.7))
    label = "helpfulness:2, .., verbosity:1"
    _draw(ax, Box(5.2, 3.4, label, 4.2, 0.7, JUDGE))
    _draw(ax, Box(9.4, 3.4, "an answer of that quality", 3.6, 0.7, POLICY))
    _arrow(ax, (2.5, 3.4), (3.1, 3.4))
    _arrow(ax, (7.3, 3.4), (7.6, 3.4))
    ax.text(5.2, 2.75, "the reward model's rating of the answer", ha="center", fontsize=8)
    ax.text(0.2, 2.0, "use", fontsize=9, color=INK)
    _draw(ax, Box(1.6, 1.1, "prompt", 1.8, 0.7))
    _draw(ax, Box(5.2, 1.1, "helpfulness:4, .., verbosity:2", 4.2, 0.7, WISHED))
    _draw(ax, Box(9.4, 1.1, "what does it write?", 3.6, 0.7, PAPER))
    _arrow(ax, (2.5, 1.1), (3.1, 1.1))
    _arrow(ax, (7.3, 1.1), (7.6, 1.1), dashed=True)
    ax.text(5.2, 0.45, "what you ask for", ha="center", fontsize=8)
    return figure


def steerlm2() -> Figure:
    """SteerLM 2.0: samples are weighed, the policy is trained towards the weights, and again."""
    figure, ax = _canvas(13, 5.6, (8.6, 3.7))
    _draw(ax, Box(1.7, 3.4, "policy asked for\nattributes a", 2.8, 1.1, POLICY))
    weights = (0.55, 0.1, 0.35)
    for number, weight in enumerate(weights):
        y = 4.8 - 1.4 * number
        _draw(ax, Box(5.2, y, f"sample $y_{number + 1}$", 1.8, 0.7))
        _arrow(ax, (3.1, 3.4), (4.3, y))
        bar = Box(7.6 + 2.0 * weight, y, "", 4.0 * weight, 0.5, TRUTH.color)
        _draw(ax, bar)
        ax.text(7.75 + 4.0 * weight, y, f"{weight:.2f}", va="center", fontsize=8)
        _arrow(ax, (6.1, y), (7.5, y))
    ax.text(6.8, 5.35, "weight = P(a | x, y) P(y | x) / Q'(y | a, x)", fontsize=8.5, color=INK)
    words = "high where the reward model\nsees the attributes, where SFT\n"
    words += "would write it too, and where\nthe policy wrote it too rarely"
    ax.text(10.0, 3.3, words, fontsize=8, va="center", color=INK)
    _draw(ax, Box(8.6, 0.7, "train towards\nthe weights", 2.4, 1.0))
    _arrow(ax, (8.6, 1.7), (8.6, 1.2))
    _arrow(ax, (7.4, 0.7), (1.7, 2.85), "again from this policy", bend=-0.3, above=-1.6)
    return figure
