"""The last screen of a tier: what each method reached, in a line each."""

import os

from hs2lib.paths import read_json, reports
from hs2lib.runs import graph, key

SCORE = "true score"
MODEL_SCORE = "reward model's score"


def screen(tier: str) -> str:
    """A line for each method that the tier has run, and where to look; "" where there is none.

    A line has the mean score of the policy's greedy answers, and by how much that is above the
    policy that its training began with. Notebooks leave both in their results.
    """
    lines = []
    measure = MODEL_SCORE
    for run, title in graph.makers("policy").items():
        found = (read_json(key.result(run, tier, key.COMPUTE)) or {}).get("numbers", {})
        for name in (SCORE, f"{SCORE}, {title}", MODEL_SCORE, f"{MODEL_SCORE}, {title}"):
            if name in found:
                measure = name.partition(",")[0]
                gain = found.get(f"gain in {measure}")
                more = "" if gain is None else f"  {gain:+.2f}"
                lines.append(f"  {title:14} {found[name]:5.2f}{more}")
                break
    if not lines:
        return ""
    place = os.path.relpath(reports() / tier)
    head = f"{tier}: {measure} of greedy answers, and the gain over where training began; one seed"
    return "\n".join([head, *lines, f"Reports: {place}/<run>/<run>.ipynb. As pages: make reports"])
