"""What was published over five seeds, to stand beside the number of one run.

    of_seeds("dpo")              # "over five seeds +1.20 (+1.01 to +1.39), works"
    controls_in_words("ppo", {"blind": "a blind judge"})    # beside its controls
    verdicts()                   # a row for each method

`benchmarks/works.py` writes it. Where it is not there, or is of another edition of the small world,
nothing stands beside a run. Paper: silent.
"""

import json
from collections.abc import Mapping

import pandas as pd

from hs2lib.paths import root

WORKS = "reports/benchmarks/works.json"
# A policy of a notebook -> its method in works.json.
METHODS = {
    "SFT": "sft",
    "DPO": "dpo",
    "Iterative DPO": "iterative dpo",
    "PPO": "ppo",
    "SteerLM": "steerlm",
    "SteerLM 2.0": "steerlm 2",
}
# A verdict of works.json -> what it means.
MEANINGS = {
    "works": "above its start and above the same method without its cause",
    "rises": "above its start; no control left the start, so none tells the cause",
    "harms": "below the start",
    "surer": "a gain when sampled, which a lower temperature gives as well, and none shown greedy",
    "not shown": "no clear gain",
}
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}


def _works() -> dict:
    """What `benchmarks/works.py` wrote, of this edition of the small world; {} without it."""
    file = root() / WORKS
    if not file.is_file():
        return {}
    published = json.loads(file.read_text())
    return published if "verdicts" in published else {}


def of_seeds(
    method: str,
    *,
    less: str = "start",
    temperature: float = 0.0,
    what: str = "held out",
    measure: str = "truth",
) -> str:
    """A method's published mean over seeds with its interval, in words; "" where there is none.

    Args:
        method: as in `benchmarks/works.py`: "sft", "dpo", "iterative dpo", "ppo", "steerlm" ..,
            or a control or an oracle of it: "ppo, by the truth".
        less: what the mean is less: "start", "itself" (nothing), or the name of a control.
        temperature: of the answers; 0 is greedy.
        what: "held out", or what is steered: "quality", "complexity", "verbosity".
        measure: as in works.json.
    """
    published = _works()
    if "verdicts" not in published:  # nothing, or an earlier edition of the small world
        return ""
    wanted = {
        "policy": method,
        "less": less,
        "temperature": temperature,
        "what": what,
        "measure": measure,
    }
    for row in published["means"]:
        if all(row.get(key) == value for key, value in wanted.items()):
            n_seeds = row["seeds"]
            seeds = NUMBERS.get(n_seeds, str(n_seeds))
            words = f"over {seeds} seeds {_in_brackets(row)}"
            word = published["verdicts"].get(method)  # a control has none
            return f"{words}, {word}" if word else words
    return ""


def reading(method: str) -> list[str]:
    """How to read the words of `of_seeds`: what the interval and the verdict are; [] without any.

    method: as in `of_seeds`.
    """
    verdict = _works().get("verdicts", {}).get(method)
    if verdict is None:
        return []
    return [
        "That interval is of a mean over seeds: a single seed, as this run, may lie outside. "
        "The policies of the seeds were trained apart from this one.",
        f'"{verdict[:1].upper()}{verdict[1:]}" means: {MEANINGS[verdict]}.',
    ]


def controls_in_words(method: str, controls: Mapping[str, str]) -> list[str]:
    """Each control's own greedy truth less the start's, and the method's less the control's.

    Both are paired over the seeds. A control that is not published is named as not run. The last
    sentence names the control over which the method has the smallest lead. [] where nothing is
    published.

    method: as in `of_seeds`.
    controls: as in "ppo, blind" without the method -> how to name it.
    """
    table = pd.DataFrame(_works().get("means", []))
    if table.empty:
        return []
    is_wanted = (table.temperature == 0) & (table.what == "held out") & (table.measure == "truth")
    table = table[is_wanted].set_index(["policy", "less"])
    texts = []
    leads = {}
    for control, name in controls.items():
        key = f"{method}, {control}"
        if (key, "start") not in table.index:
            texts.append(f"{name}: not run.")
            continue
        own = table.loc[(key, "start")]
        text = f"{name}: {_in_brackets(own)} beside the start"
        if own.high < 0:
            text += ", a damaged policy"
        if (method, key) in table.index:
            lead = table.loc[(method, key)]
            leads[name] = lead
            text += f". The method less this control: {_in_brackets(lead)}"
        texts.append(f"{text}.")
    if len(leads) > 1:
        nearest = min(leads, key=lambda name: leads[name].value)
        texts.append(f"The hardest control, with the smallest lead: {nearest.lower()}.")
    return texts


def _in_brackets(line: Mapping[str, float]) -> str:
    """A mean with its interval, as `of_seeds` writes it."""
    return f"{line['value']:+.2f} ({line['low']:+.2f} to {line['high']:+.2f})"


def means(less: str = "itself", *, what: str = "held out", measure: str = "truth") -> pd.DataFrame:
    """The published means over seeds at each temperature: (policy, temperature, mean, low, high).

    Policies have the names of the notebooks, the base its own. Empty where nothing is published.

    Args:
        less: what the means are less, as in `of_seeds`.
        what: as in `of_seeds`.
        measure: as in works.json.
    """
    title_of = {method: title for title, method in METHODS.items()} | {"base": "base"}
    rows = []
    for row in _works().get("means", []):
        is_wanted = (row["less"], row["what"], row["measure"]) == (less, what, measure)
        if is_wanted and row["policy"] in title_of:
            title = title_of[row["policy"]]
            rows.append((title, row["temperature"], row["value"], row["low"], row["high"]))
    return pd.DataFrame(rows, columns=["policy", "temperature", "mean", "low", "high"])


def verdicts() -> pd.DataFrame:
    """What the published seeds say of each method, greedy and sampled, beside its controls.

    Columns: method; verdict (works, harms, surer or not shown); truth, greedy and at the other
    temperatures, less the start's; and greedy less that of the control nearest to the method, of
    those that every seed has. A cell is as "+1.20 [+1.01, +1.39]". Of SteerLM it is by how much
    answers asked for quality 4 are better than those asked for 0. Empty where nothing is published.
    """
    works = _works()
    table = pd.DataFrame(works.get("means", []))
    rows = []
    for title, method in METHODS.items():
        if method not in works.get("verdicts", {}):
            continue
        what = "held out"
        start = "start"
        if method == "steerlm":
            what = "quality"
            start = "itself"
        own = table[(table.policy == method) & (table.what == what) & (table.measure == "truth")]
        row = {"method": title, "verdict": works["verdicts"][method]}
        for line in own[own.less == start].sort_values("temperature").to_dict("records"):
            at = f"at {line['temperature']:g}" if line["temperature"] else "greedy"
            row[f"{at}, less start"] = _cell(line)
        is_control = own.less.isin(works["controls"]) & (own.seeds == len(works["seeds"]))
        controls = own[is_control & (own.temperature == 0)]
        if len(controls):
            row["greedy, less nearest control"] = _cell(controls.loc[controls.value.idxmin()])
        rows.append(row)
    return pd.DataFrame(rows)


def _cell(line: Mapping[str, float]) -> str:
    """A mean with its interval."""
    return f"{line['value']:+.2f} [{line['low']:+.2f}, {line['high']:+.2f}]"


def sentence() -> str:
    """What the published seeds say of all methods, with their means, in a sentence; "" without any.

    A mean is the greedy truth less the start's; of SteerLM what asking for quality 4 adds to 0.
    """
    works = _works()
    by_verdict: dict[str, list[str]] = {}
    for title, method in METHODS.items():
        if method not in works.get("verdicts", {}):
            continue
        rows = means("itself", what="quality") if method == "steerlm" else means("start")
        greedy = rows[(rows.policy == title) & (rows.temperature == 0)]
        mean = ""
        if len(greedy):
            row = greedy.iloc[0]
            mean = f" {row['mean']:+.2f} ({row.low:+.2f} to {row.high:+.2f})"
        by_verdict.setdefault(works["verdicts"][method], []).append(f"{title}{mean}")
    parts = []
    for verdict, meaning in MEANINGS.items():
        if verdict in by_verdict:
            parts.append(f"{meaning}: {', '.join(by_verdict[verdict])}")
    if not parts:
        return ""
    seeds = NUMBERS.get(len(works["seeds"]), str(len(works["seeds"])))
    return (
        f"Over {seeds} seeds of the small world, by the truth of greedy answers less the start's "
        f"(SteerLM: quality asked for at 4 less 0), {'; '.join(parts)}."
    )
