"""What was published over five seeds, to stand beside the number of one run.

    of_seeds("dpo")              # "over five seeds +1.20 (+1.01 to +1.39), works (above ..)"
    controls_in_words("ppo", {"blind": "a blind judge"})    # beside its controls
    verdicts()                   # a row for each method

`benchmarks/works.py` writes it. Where it is not there, or is of another edition of the small world,
nothing stands beside a run. Paper: silent.
"""

import json
from collections.abc import Mapping, Sequence

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
# A control whose loss is least, with no gradient, at its start: SteerLM 2.0 with equal weights.
CANNOT_MOVE = "steerlm 2, at random"
# Controls of `benchmarks/works.py` that came after its last result, in its words.
NOT_RUN_YET = {
    "steerlm 2, dealt out": "the weights of a group dealt out at random among its samples",
}
# A verdict of works.json -> what it means.
MEANINGS = {
    "works": "above its start and above every control that trained",
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

    The method's verdict follows, and in brackets what that means.

    Args:
        method: as in `benchmarks/works.py`: "sft", "dpo", "iterative dpo", "ppo", "steerlm" ..,
            or a control or an oracle of it: "ppo, by the truth".
        less: what the mean is less: "start", "itself" (nothing), or the name of a control.
        temperature: of the answers; 0 is greedy.
        what: "held out", or what is steered: "quality", "complexity", "verbosity".
        measure: as in works.json.
    """
    wanted = {
        "policy": method,
        "less": less,
        "temperature": temperature,
        "what": what,
        "measure": measure,
    }
    works = _works()
    for row in works.get("means", []):
        if all(row.get(key) == value for key, value in wanted.items()):
            words = f"over {_seeds(row['seeds'])} {_change(row, 'value')}"
            # A control has no verdict, and a method's is of greedy answers alone, of the truth, and
            # beside no control.
            is_judged = measure == "truth" and less in ("start", "itself") and not temperature
            word = works["verdicts"].get(method) if is_judged else None
            return f"{words}, {word} ({MEANINGS[word]})" if word else words
    return ""


def reading(method: str) -> list[str]:
    """How to read the words of `of_seeds`: what the interval is of; [] without a verdict.

    method: as in `of_seeds`.
    """
    if method not in _works().get("verdicts", {}):
        return []
    return [
        "That interval is of a mean over seeds: a single seed, as this run, may lie outside. "
        "The policies of the seeds were trained apart from this one.",
    ]


def controls_in_words(method: str, controls: Mapping[str, str]) -> list[str]:
    """Each control's own greedy truth less the start's, and the method's less the control's.

    Both are paired over the seeds. Of a control that is not published it says so. The last sentence
    names the control over which the method has the smallest lead. [] where nothing is published.

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
            seeds = _seeds(len(_works()["seeds"]))
            texts.append(f"{name}: the benchmark has not yet run it over the published {seeds}.")
            continue
        own = table.loc[(key, "start")]
        text = f"{name}: {_change(own, 'value')} beside the start"
        if own.high < 0:
            text += ", a damaged policy"
        if (method, key) in table.index:
            lead = table.loc[(method, key)]
            leads[name] = lead
            text += f". The method less this control: {_change(lead, 'value')}"
        texts.append(f"{text}.")
    if len(leads) > 1:
        nearest = min(leads, key=lambda name: leads[name].value)
        texts.append(f"The hardest control, with the smallest lead: {nearest.lower()}.")
    return texts


def _seeds(n: int) -> str:
    """How many seeds, in words."""
    return f"{NUMBERS.get(n, str(n))} seeds"


def _change(row: Mapping[str, float], name: str) -> str:
    """A mean, which has this name, with its interval, in words."""
    return f"{row[name]:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"


def sign(method: str) -> int | None:
    """What the seeds show of a method's greedy truth less its start's.

    Returns 1 for a gain, -1 for a loss, 0 where the interval holds 0; None where nothing is
    published.
    """
    title_of = {method: title for title, method in METHODS.items()}
    rows = means("start")
    rows = rows[(rows.policy == title_of.get(method)) & (rows.temperature == 0)]
    if rows.empty:
        return None
    row = rows.iloc[0]
    return int(row.low > 0) - int(row.high < 0)


def kept_its_start(control: str) -> str:
    """In how many seeds a control kept the weights it began with, and what it shows then.

    A run keeps the step of the lowest validation loss, and step 0 counts. "" where no seed did, or
    nothing is published. control: as in `benchmarks/works.py`: "dpo, at random".
    """
    works = _works()
    n_kept = works.get("at their start", {}).get(control, 0)
    if not n_kept:
        return ""
    if control == CANNOT_MOVE:
        return (
            "With equal weights w' = b' = 1/n at the start, so the distance is 0 and so is its "
            "gradient. This control cannot leave its start: it tests nothing. The difference from "
            "it is the gain over SteerLM once more."
        )
    n_seeds = len(works["seeds"])
    words = (
        f"Chosen by validation loss, this control stays at its start in {n_kept} of "
        f"{n_seeds} seeds. That shows that it learns nothing which lowers the loss on held-out "
        "data. It does not show what such training does to answers."
    )
    if n_kept == n_seeds:
        words += " The difference from it is the gain over the start once more."
    return words


def control_sentences(method: str) -> list[str]:
    """What a method adds to each of its controls over seeds, and what a control cannot say.

    Greedy truth. Controls that were not run yet are named as such. Empty where nothing is
    published. method: as in `of_seeds`.
    """
    works = _works()
    if method not in works.get("verdicts", {}):
        return []
    title_of = {method: title for title, method in METHODS.items()}
    controls = {
        name: meaning
        for name, meaning in works.get("controls", {}).items()
        if name.startswith(f"{method}, ")
    }
    lines = []
    for name, meaning in controls.items():
        gain = of_seeds(method, less=name)
        if gain:
            lines.append(f"{title_of[method]} less its control ({meaning}), greedy: {gain}.")
            kept = kept_its_start(name)
            if kept:
                lines.append(kept)
    for meaning in not_run(method).values():
        lines.append(f"A control of {title_of[method]} is not run yet: {meaning}.")
    if f"{method}, blind" not in controls:
        lines.append(f"No blind control was run for {title_of[method]}.")
    return lines


def not_run(method: str) -> dict[str, str]:
    """The controls of a method that the result does not have yet -> their meaning.

    method: as in `of_seeds`.
    """
    measured = {row["policy"] for row in _works().get("means", [])}
    missing = {}
    for name, meaning in NOT_RUN_YET.items():
        if name.startswith(f"{method}, ") and name not in measured:
            missing[name] = meaning
    return missing


def parts_in_words(method: str, parts: Sequence[str]) -> str:
    """Points that greedy answers lose by part, less the start's, over seeds; "" without any.

    method: as in `of_seeds`. parts: measures of works.json.
    """
    listed = []
    for row in _works().get("means", []):
        key = (row["policy"], row["less"], row["what"], row["temperature"])
        if key == (method, "start", "held out", 0.0) and row["measure"] in parts:
            listed.append(f"{row['measure']} {_change(row, 'value')}")
    if not listed:
        return ""
    seeds = _seeds(len(_works()["seeds"]))
    return f"Points lost, less the start's, over {seeds}: {', '.join(listed)}."


def gains_in_words() -> str:
    """Every method's greedy truth less its start's over seeds, the largest first; "" for none."""
    rows = means("start")
    rows = rows[(rows.temperature == 0) & rows.policy.isin(list(METHODS))]
    if rows.empty:
        return ""
    listed = []
    for row in rows.sort_values("mean", ascending=False).to_dict("records"):
        listed.append(f"{row['policy']} {_change(row, 'mean')}")
    return f"Over {_seeds(len(_works()['seeds']))}, greedy, less the start: {', '.join(listed)}."


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
    those that every seed has and that can move. A cell is as "+1.20 [+1.01, +1.39]". Of SteerLM the
    numbers say how much better answers are that were asked for quality 4 in place of 0, and its
    name says so. Empty where nothing is published.
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
            title += " (quality 4 less 0)"
        own = table[(table.policy == method) & (table.what == what) & (table.measure == "truth")]
        row = {"method": title, "verdict": works["verdicts"][method]}
        for line in own[own.less == start].sort_values("temperature").to_dict("records"):
            at = f"at {line['temperature']:g}" if line["temperature"] else "greedy"
            row[f"{at}, less start"] = _cell(line)
        is_control = own.less.isin(works["controls"]) & (own.seeds == len(works["seeds"]))
        is_control &= own.less != CANNOT_MOVE
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
            mean = f" {_change(row, 'mean')}"
        by_verdict.setdefault(works["verdicts"][method], []).append(f"{title}{mean}")
    parts = []
    for verdict, meaning in MEANINGS.items():
        if verdict in by_verdict:
            parts.append(f"{meaning}: {', '.join(by_verdict[verdict])}")
    if not parts:
        return ""
    return (
        f"Over {_seeds(len(works['seeds']))} of the small world, by the truth of greedy answers "
        f"less the start's (SteerLM: quality asked for at 4 less 0), {'; '.join(parts)}."
    )
