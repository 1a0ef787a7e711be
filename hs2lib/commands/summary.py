"""The last screen of a tier: what each method did to the true score, in a line each."""

import os

from hs2lib.paths import read_json, reports, root
from hs2lib.report import published
from hs2lib.runs import graph, key

SCORE = "true score"
MODEL_SCORE = "reward model's score"


def screen(tier: str) -> str:
    """A line for the reward model and for each method, of the tier's own runs, and where to look.

    A line has the score of the policy before and after, and the difference with its 95 % interval
    over prompts. Beside them stands the gain of the strongest control, a mean over the published
    seeds, where the data are generated as there. "" where no method has been run.
    """
    numbers = {}
    for kind in ("reward_model", "policy"):
        for run, title in graph.makers(kind).items():
            left = read_json(key.result(run, tier, key.COMPUTE)) or {}
            numbers[title] = left.get("numbers", {})
    lines = []
    for title, found in numbers.items():
        measure = SCORE if SCORE in found else MODEL_SCORE
        if f"{measure}, gained" in found:
            lines.append(_line(title, found, measure, tier))
        elif "pairs right (%)" in found:
            right = found["pairs right (%)"]
            lines.append(f"  {title:14} {right:.0f} % of held-out pairs in the raters' order")
    if not lines:
        return ""
    place = os.path.relpath(reports() / tier)
    known = any(SCORE in found for found in numbers.values())
    measure = f"{SCORE} of greedy answers" if known else MODEL_SCORE
    head = f"{tier}: {measure} before and after, 95 % intervals over prompts, one seed"
    return "\n".join([head, *lines, f"Reports: {place}/<run>/<run>.ipynb. As pages: make reports"])


def _line(title: str, found: dict[str, float], measure: str, tier: str) -> str:
    """What a method did to a score."""
    before = found[f"{measure}, before"]
    gain = found[f"{measure}, gained"]
    low = found[f"{measure}, gained, low"]
    high = found[f"{measure}, gained, high"]
    after = found[measure]
    words = f"  {title:14} {before:5.2f} -> {after:5.2f}  {gain:+.2f} [{low:+.2f}, {high:+.2f}]"
    control = _control(title) if tier == "demo" and measure == SCORE else None
    return words if control is None else f"{words}  control {control:+.2f} (published)"


def _control(title: str) -> float | None:
    """What the strongest control of a method gains over its start, greedy, mean over the seeds.

    None where nothing is published of one.
    """
    works = published.written(root() / published.WORKS)
    method = published.METHODS.get(title, "")
    names = {name for name in works.get("controls", {}) if name.startswith(f"{method}, ")}
    gains = []
    for row in works.get("means", []):
        is_greedy = (row["temperature"], row["what"], row["measure"]) == (0, "held out", "truth")
        if is_greedy and row["less"] == "start" and row["policy"] in names:
            gains.append(row["value"])
    return max(gains, default=None)
