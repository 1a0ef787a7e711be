"""What was published over five seeds, to stand beside the number of one run.

    first_line("dpo")            # what the seeds show of a method, in plain sentences
    of_seeds("dpo")              # "over five seeds +1.20 (+1.01 to +1.39), works (above ..)"
    controls_in_words("ppo", {"blind": "a blind judge"})    # beside its controls
    verdicts()                   # a row for each method

`benchmarks/works.py` writes it. Where it is not there, or is of another edition of the small world,
nothing stands beside a run. Paper: silent.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

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
TITLES = {name: title for title, name in METHODS.items()}
# A method -> whose answers its own are held against.
STARTS = {
    "sft": "the base",
    "dpo": "SFT",
    "iterative dpo": "DPO",
    "ppo": "SFT",
    "steerlm": "SFT",
    "steerlm 2": "SteerLM",
}
SAMPLED_AT = 0.7  # the temperature of the paper's section 4
# A control whose loss is least, with no gradient, at its start: SteerLM 2.0 with equal weights.
CANNOT_MOVE = "steerlm 2, at random"
# A verdict of works.json -> what it means.
MEANINGS = {
    "works": "above its start and above every control that trained",
    "rises": "above its start; no control left the start, so none tells the cause",
    "harms": "below the start",
    "surer": "a gain when sampled, which a lower temperature gives as well, and none shown greedy",
    "not shown": "not shown to be above both its start and each control",
}
# The sign of a difference -> what it shows of a method's answers beside others.
COMPARES = {1: "better than", 0: "not shown to differ from", -1: "worse than"}
# A method -> an oracle of it in works.json, what that changes, and what it says if it gains.
CAUSES = {
    "sft": (
        "sft, faultless",
        "On demonstrations without a fault",
        "So the faults of its demonstrations hold it back.",
    ),
    "iterative dpo": (
        "iterative dpo, by the truth",
        "Where the truth chooses the pairs",
        "So the reward model's choice of pairs holds it back.",
    ),
    "steerlm": (
        "steerlm, by the truth",
        "With labels of the truth",
        "So the reward model's labels hold it back.",
    ),
}
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}


def written(file: Path) -> dict:
    """What a benchmark wrote; {} where the file is not there."""
    return json.loads(file.read_text()) if file.is_file() else {}


def source_of(place: str, result: dict, more: str = "") -> str:
    """Where means over seeds of the small world come from, for a caption; "" without a result.

    Args:
        place: of the file, from the root of the checkout.
        result: what it holds, with seeds and commit.
        more: what stands behind the seeds.
    """
    if not result:
        return ""
    seeds = ", ".join(str(seed) for seed in result["seeds"])
    return (
        f"{place}, commit {result['commit'][:7]}: small world (generated), seeds {seeds}{more}. "
        "Generated data, which say nothing about the paper's"
    )


def _works() -> dict:
    """What `benchmarks/works.py` wrote, of this edition of the small world; {} without it."""
    published = written(root() / WORKS)
    return published if "verdicts" in published else {}


def source() -> str:
    """Where what is published comes from, for a caption; "" where nothing is."""
    works = _works()
    return f"{WORKS}, {_seeds(len(works['seeds']))}, generated data" if works else ""


def of_seeds(
    method: str,
    *,
    less: str = "start",
    temperature: float = 0.0,
    what: str = "held out",
    measure: str = "truth",
) -> str:
    """A method's published mean over seeds with its interval, in words; "" where there is none.

    The method's verdict follows, and in brackets what that means. SteerLM's verdict is of what its
    label of quality does, so nothing follows what it adds to its start.

    Args:
        method: as in `benchmarks/works.py`: "sft", "dpo", "iterative dpo", "ppo", "steerlm" ..,
            or a control or an oracle of it: "ppo, by the truth".
        less: what the mean is less: "start", "itself" (nothing), or the name of a control.
        temperature: of the answers; 0 is greedy.
        what: "held out", or what is steered: "quality", "complexity", "verbosity".
        measure: as in works.json.
    """
    row = _row(method, less, what, temperature, measure)
    if row is None:
        return ""
    words = f"over {_seeds(row['seeds'])} {_change(row, 'value')}"
    # A control has no verdict, and a method's is of greedy answers alone, of the truth, and beside
    # no control.
    judged_by = ("itself", "quality") if method == "steerlm" else ("start", "held out")
    is_judged = (less, what) == judged_by and measure == "truth" and not temperature
    word = _works()["verdicts"].get(method)
    return f"{words}, {word} ({_meaning(method, word)})" if is_judged and word else words


def _meaning(method: str, word: str) -> str:
    """What the verdict on a method says of it."""
    if word != "not shown":
        return MEANINGS[word]
    if method == "steerlm":
        return "no effect of its label of quality on the truth is shown"
    start = _row(method, "start")
    if start is not None and start["low"] > 0:
        return "above its start, but not shown to be above each control"
    return "greedy, no difference from its start is shown"


def first_line(method: str) -> str:
    """What the seeds show of a method, for a notebook's first line; "" where nothing is published.

    The greedy answers beside the start's; the sampled ones where they show something else; and of a
    method that is not shown to work the cause, as far as it is measured.

    method: as in `of_seeds`, one of `METHODS`.
    """
    works = _works()
    if method not in works.get("verdicts", {}):
        return ""
    seeds = _seeds(len(works["seeds"]))
    if method == "steerlm":
        row = _row(method, "itself", "quality")
        shows = {
            1: "makes greedy answers better",
            0: "is not shown to make greedy answers better",
            -1: "makes greedy answers worse",
        }
        words = [
            f"Over {seeds}, asking SteerLM for quality 4 in place of 0 {shows[_sign(row)]}: "
            f"{_change(row, 'value')} points of truth.",
            styles_in_words(),
        ]
    else:
        row = _row(method, "start")
        words = [
            f"Over {seeds}, greedy answers of {TITLES[method]} are {COMPARES[_sign(row)]} those of "
            f"{STARTS[method]}: {_change(row, 'value')} points of truth.",
            _sampled_otherwise(method),
        ]
    verdict = works["verdicts"][method]
    if verdict == "works":
        words.append("That is more than each control reaches.")
    elif verdict != "rises":
        words += [control_in_the_way(method), cause_in_words(method)]
    return " ".join(word for word in words if word)


def about() -> str:
    """What the words of `first_line` mean and where its numbers come from; "" without any."""
    works = _works()
    if not works:
        return ""
    return (
        "*Truth* is the grader's goodness of an answer, 0 to 7.6 points. A *greedy* answer takes "
        "the likeliest token each time. What is said *over seeds* is of our own runs at tier demo, "
        f"on generated data, with {works['prompts']} held-out prompts a seed ({WORKS}). These are "
        "no numbers of the paper."
    )


def _sampled_otherwise(method: str) -> str:
    """The sampled answers beside the start's, where they show something else than greedy ones."""
    greedy = _row(method, "start")
    sampled = _row(method, "start", temperature=SAMPLED_AT)
    if sampled is None or _sign(sampled) == _sign(greedy):
        return ""
    start = STARTS[method]
    words = (
        f"Sampled at T = {SAMPLED_AT:g} they are {COMPARES[_sign(sampled)]} those of {start}: "
        f"{_change(sampled, 'value')}."
    )
    beside_greedy = _row(method, "greedy start", temperature=SAMPLED_AT)
    if _sign(sampled) == 1 and beside_greedy is not None:
        words += (
            f" These sampled ones are {COMPARES[_sign(beside_greedy)]} greedy answers of {start}, "
            f"which need no training: {_change(beside_greedy, 'value')}."
        )
    return words


def styles_in_words() -> str:
    """Which label of style SteerLM's answers follow over the seeds; "" where none is shown.

    Of each such label: how much more than under labels at random, and whether the label of quality
    moves the same.
    """
    texts = []
    for style in ("complexity", "verbosity"):
        own = _row("steerlm", "itself", style, measure=style)
        if own is None or _sign(own) < 1:
            continue
        text = (
            f"Asked for {style} 4 in place of 0, answers have more of it: {_change(own, 'value')}"
        )
        lead = _row("steerlm", "steerlm, at random", style, measure=style)
        if lead is not None:
            shows = "" if _sign(lead) == 1 else ", not shown to be more"
            text += f". Less what labels at random move: {_change(lead, 'value')}{shows}"
        by_quality = _row("steerlm", "itself", "quality", measure=style)
        if by_quality is not None and _sign(by_quality):
            text += f". The label of quality moves it too, by {_change(by_quality, 'value')}"
        texts.append(f"{text}.")
    return " ".join(texts)


def control_in_the_way(method: str) -> str:
    """Of a method above its start: over which control its lead holds 0; "" where there is none.

    method: as in `of_seeds`, one that is judged by its start: not SteerLM.
    """
    start = _row(method, "start")
    if start is None or start["low"] <= 0 or method == "steerlm":
        return ""
    works = _works()
    passed_over = works.get("at their start", {})
    for control, meaning in works.get("controls", {}).items():
        lead = _row(method, control)
        if lead is not None and lead["low"] <= 0 and control not in passed_over:
            return (
                f"It is above its start, but not shown to be above its control ({meaning}): "
                f"{_change(lead, 'value')}."
            )
    return ""


def cause_in_words(method: str) -> str:
    """What holds a method back, by its oracle over the seeds, in words; "" for a method without.

    method: as in `of_seeds`.
    """
    if method not in CAUSES:
        return ""
    oracle, changed, says = CAUSES[method]
    is_steered = method == "steerlm"
    what = "quality" if is_steered else "held out"
    row = _row(oracle, "itself" if is_steered else "start", what)
    if row is None:
        return "What holds it back was not measured over the seeds."
    words = f"{changed} it has {_change(row, 'value')}. "
    less = _row(method, oracle, what)
    if row["low"] > 0:
        words += says
    elif less is not None:
        shows = "" if _sign(less) else ", no difference shown"
        words += f"The method as it is less this: {_change(less, 'value')}{shows}."
    return f"{words} {labels_in_words()}".strip() if is_steered else words.strip()


def labels_in_words() -> str:
    """How far SteerLM's policy reads its label over the seeds, in words; "" where nothing is there.

    Under its own labels an answer is likelier than under those of another answer, by as much as the
    policy reads them.
    """
    rows = {}
    for row in _works().get("means", []):
        if (row["policy"], row["what"], row["less"]) == ("steerlm", "labels", "itself"):
            rows[row["measure"]] = row
    if not rows:
        return ""
    quality = rows["quality, nats"]
    style = rows["style, nats"]
    reads = "hardly reads" if quality["low"] <= 0 else "reads"
    return (
        f"The policy {reads} what its label says of quality. Under its own labels of quality an "
        f"answer is likelier than under another answer's, by {_change(quality, 'value')} nats. "
        f"For labels of style it is {_change(style, 'value')} nats."
    )


def surer_in_words(method: str, temperature: float) -> list[str]:
    """Whether a method gains over its start, greedy and sampled, over seeds: a sentence each.

    The last one holds its sampled answers against the greedy ones of the start, which a lower
    temperature gives for nothing. [] where one of the three means is not published.

    method: as in `of_seeds`, one of `METHODS`.
    temperature: of the sampled answers.
    """
    table = means("start")
    from_greedy = means("greedy start")
    policy = TITLES[method]
    rows = []
    for of_less, at in ((table, 0.0), (table, temperature), (from_greedy, temperature)):
        wanted = of_less[(of_less.policy == policy) & (of_less.temperature == at)]
        if wanted.empty:
            return []
        rows.append(wanted.iloc[0])
    greedy, sampled, above = rows
    seeds = _seeds(len(_works()["seeds"]))
    shown = {1: "gains", 0: "is **not shown** to gain", -1: "**loses**"}
    more = {1: "more than that", 0: "not shown to be more", -1: "less than that"}
    return [
        f"Over {seeds} {policy} {shown[_sign(greedy)]} greedy: {_change(greedy, 'mean')}.",
        f"Over {seeds} it {shown[_sign(sampled)]} at T = {temperature:g}: "
        f"{_change(sampled, 'mean')}.",
        f"The policy that {policy} began with can answer greedily without further training. "
        f"Beside those answers the sampled ones of {policy} have {_change(above, 'mean')}, "
        f"{more[_sign(above)]}.",
    ]


def _sign(row: Mapping[str, float]) -> int:
    """1 for an interval above 0, -1 for one below it, else 0."""
    return int(row["low"] > 0) - int(row["high"] < 0)


def reading(method: str) -> list[str]:
    """How to read the words of `of_seeds`: what the interval is of; [] without a verdict.

    method: as in `of_seeds`.
    """
    if method not in _works().get("verdicts", {}):
        return []
    return [
        "That interval is of a mean over seeds: a single seed, as this run, may lie outside. "
        "The policies of those seeds were trained apart from this one.",
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
            texts.append(f"{name}: the benchmark has not yet run it over the {seeds}.")
            continue
        own = table.loc[(key, "start")]
        text = f"{name}: {_change(own, 'value')} beside the start"
        if (method, key) in table.index:
            lead = table.loc[(method, key)]
            leads[name] = lead
            text += f". The method less this control: {_change(lead, 'value')}"
            if own.high < 0:
                text += ". A part of that lead is what the control loses itself"
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
    rows = means("start")
    rows = rows[(rows.policy == TITLES.get(method)) & (rows.temperature == 0)]
    if rows.empty:
        return None
    return _sign(rows.iloc[0])


def kept_its_start(control: str, name: str = "this control") -> str:
    """In how many seeds a control kept the weights it began with, and what it shows then.

    A run keeps the step of the lowest validation loss, and step 0 counts. "" where no seed did, or
    nothing is published.

    control: as in `benchmarks/works.py`: "dpo, at random".
    name: what to call it where it does not stand in the sentence before.
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
        f"Chosen by validation loss, {name} stays at its start in {n_kept} of "
        f"{n_seeds} seeds. That shows that it learns nothing which lowers the loss on held-out "
        "data. It does not show what such training does to answers."
    )
    if n_kept == n_seeds:
        words += " The difference from it is the gain over the start once more."
    return words


def control_sentences(method: str) -> list[str]:
    """What a method adds to each of its controls over seeds, and what a control cannot say.

    Greedy truth. Empty where nothing is published. method: as in `of_seeds`.
    """
    works = _works()
    if method not in works.get("verdicts", {}):
        return []
    controls = {
        name: meaning
        for name, meaning in works.get("controls", {}).items()
        if name.startswith(f"{method}, ")
    }
    at_start = works.get("at their start", {})
    controls = dict(sorted(controls.items(), key=lambda item: at_start.get(item[0], 0)))
    lines = []
    for name, meaning in controls.items():
        gain = of_seeds(method, less=name)
        if gain:
            lines.append(f"{TITLES[method]} less its control ({meaning}), greedy: {gain}.")
            kept = kept_its_start(name)
            if kept:
                lines.append(kept)
    if f"{method}, blind" not in controls:
        lines.append(f"No blind control was run for {TITLES[method]}.")
    return lines


def _parts(method: str, parts: Iterable[str]) -> list[dict]:
    """The rows of works.json on what greedy answers lose by part, less the start's."""
    wanted = set(parts)  # of a series `in` would ask for its index
    rows = []
    for row in _works().get("means", []):
        key = (row["policy"], row["less"], row["what"], row["temperature"])
        if key == (method, "start", "held out", 0.0) and row["measure"] in wanted:
            rows.append(row)
    return rows


def parts_in_words(method: str, parts: Iterable[str]) -> str:
    """Points that greedy answers lose by part, less the start's, over seeds; "" without any.

    method: as in `of_seeds`. parts: measures of works.json.
    """
    listed = [f"{row['measure']} {_change(row, 'value')}" for row in _parts(method, parts)]
    if not listed:
        return ""
    seeds = _seeds(len(_works()["seeds"]))
    return f"Points lost, less the start's, over {seeds}: {', '.join(listed)}."


def parts_beside_control(method: str, control: str, parts: Iterable[str]) -> str:
    """Points that greedy answers lose by part, less those of a control, over seeds; "" for none.

    Paired by seed.

    Args:
        method: as in `of_seeds`.
        control: as in "dpo, blind" without the method.
        parts: measures of works.json.
    """
    listed = []
    for part in parts:
        row = _row(method, f"{method}, {control}", measure=part)
        if row is not None:
            shows = ", not shown to differ" if not _sign(row) else ""
            listed.append(f"{part} {_change(row, 'value')}{shows}")
    if not listed:
        return ""
    seeds = _seeds(len(_works()["seeds"]))
    return (
        f"Points lost by the method less those by this control, over {seeds}: {'; '.join(listed)}."
    )


def costlier_in_words(method: str, faults: Iterable[str]) -> str:
    """By which faults greedy answers clearly lose more than the start's over seeds; "" for none.

    method: as in `of_seeds`. faults: measures of works.json.
    """
    listed = []
    for row in _parts(method, faults):
        if row["low"] > 0:
            bounds = f"{row['low']:.2f} to {row['high']:.2f}"
            listed.append(f"{row['value']:.2f} points more by {row['measure']} ({bounds})")
    if not listed:
        return ""
    return f"Over {_seeds(len(_works()['seeds']))} they lose {' and '.join(listed)}."


def _row(
    policy: str,
    less: str,
    what: str = "held out",
    temperature: float = 0.0,
    measure: str = "truth",
) -> dict | None:
    """The row of works.json that is asked for; None where there is none."""
    wanted = {
        "policy": policy,
        "less": less,
        "what": what,
        "temperature": temperature,
        "measure": measure,
    }
    for row in _works().get("means", []):
        if all(row.get(key) == value for key, value in wanted.items()):
            return row
    return None


def share_of_control(method: str, control: str, name: str) -> list[str]:
    """How much of a method's gain its control has too, and what is left; [] without both.

    Greedy truth over seeds.

    Args:
        method: as in `of_seeds`.
        control: as in "dpo, blind" without the method.
        name: of the control, in the plural.
    """
    key = f"{method}, {control}"
    whole = _row(method, "start")
    shared = _row(key, "start")
    rest = _row(method, key)
    if whole is None or shared is None or rest is None:
        return []
    is_shown = shared["low"] > 0
    texts = [f"{name} give {_change(shared, 'value')} of the {whole['value']:+.2f} points."]
    if is_shown and rest["low"] > 0:
        texts.append("So that part does not need the pair's own prompt.")
    if rest["low"] > 0:
        texts.append(f"The other {_change(rest, 'value')} does need it.")
    else:
        texts.append(f"That the rest needs the prompt is not shown: {_change(rest, 'value')}.")
    return texts


def choice_in_words(method: str, control: str, oracle: str) -> list[str]:
    """Whether steps are too few for a gain, and whether the choice of pairs beats a random one.

    Greedy truth over seeds. Each sentence is left out where its number is not published, or where
    it says nothing against a cause.

    Args:
        method: as in `of_seeds`.
        control: the method with pairs at random, as in "iterative dpo, at random" without it.
        oracle: the method with pairs by the truth.
    """
    texts = []
    by_truth = _row(f"{method}, {oracle}", "start")
    if by_truth is not None and by_truth["low"] > 0:
        texts.append(
            f"The same rounds gain {_change(by_truth, 'value')} where the truth chooses the pairs. "
            "So the rounds are long enough to gain, given the right pairs."
        )
    lead = _row(method, f"{method}, {control}")
    if lead is not None:
        verdict = "not shown to differ from"
        if lead["low"] > 0:
            verdict = "shown to beat"
        elif lead["high"] < 0:
            verdict = "**worse than**"
        texts.append(
            f"The reward model's choice is {verdict} a choice at random: "
            f"{_change(lead, 'value')} points."
        )
    return texts


def gains_in_words(start_of: Callable[[str], str]) -> str:
    """Every method's greedy truth less its start's over seeds, grouped by start; "" for none.

    Gains over different starts do not rank the policies.

    start_of: the start of a policy, by name.
    """
    rows = means("start")
    rows = rows[(rows.temperature == 0) & rows.policy.isin(list(METHODS))]
    if rows.empty:
        return ""
    by_start: dict[str, list[str]] = {}
    for row in rows.sort_values("mean", ascending=False).to_dict("records"):
        gain = f"{row['policy']} {_change(row, 'mean')}"
        by_start.setdefault(start_of(row["policy"]), []).append(gain)
    parts = [f"less {start}: {', '.join(gains)}" for start, gains in by_start.items()]
    return f"Over {_seeds(len(_works()['seeds']))}, greedy, {'; '.join(parts)}."


def less_sft_in_words() -> str:
    """Every method's greedy truth less SFT's over seeds, the largest first; "" without any.

    PPO less DPO follows, where it is there: two ways to learn from the same judgements.
    """
    rows = means("sft")
    rows = rows[rows.temperature == 0].sort_values("mean", ascending=False)
    if rows.empty:
        return ""
    listed = []
    for row in rows.to_dict("records"):
        shows = ", not shown" if not _sign(row) else ""
        listed.append(f"{row['policy']} {_change(row, 'mean')}{shows}")
    words = f"Over {_seeds(len(_works()['seeds']))}, greedy truth less SFT's: {'; '.join(listed)}."
    of_two = _row("ppo", "dpo")
    if of_two is not None:
        shows = COMPARES[_sign(of_two)]
        words += f" Answers of PPO are {shows} those of DPO: {_change(of_two, 'value')}."
    return words


def in_short() -> str:
    """The verdict on each method over seeds, in a sentence without numbers; "" without any."""
    works = _works()
    by_verdict: dict[str, list[str]] = {}
    for title, method in METHODS.items():
        if method in works.get("verdicts", {}):
            by_verdict.setdefault(works["verdicts"][method], []).append(title)
    parts = [f"{word}: {', '.join(by_verdict[word])}" for word in MEANINGS if word in by_verdict]
    if not parts:
        return ""
    return (
        f"In the small world, over {_seeds(len(works['seeds']))}, {'; '.join(parts)} "
        "(what these words mean: below)."
    )


def means(less: str = "itself", *, what: str = "held out", measure: str = "truth") -> pd.DataFrame:
    """The published means over seeds at each temperature: (policy, temperature, mean, low, high).

    Policies have the names of the notebooks, the base its own. Empty where nothing is published.

    Args:
        less: what the means are less, as in `of_seeds`.
        what: as in `of_seeds`.
        measure: as in works.json.
    """
    title_of = TITLES | {"base": "base"}
    rows = []
    for row in _works().get("means", []):
        is_wanted = (row["less"], row["what"], row["measure"]) == (less, what, measure)
        if is_wanted and row["policy"] in title_of:
            title = title_of[row["policy"]]
            rows.append((title, row["temperature"], row["value"], row["low"], row["high"]))
    return pd.DataFrame(rows, columns=["policy", "temperature", "mean", "low", "high"])


def beside_sft() -> pd.DataFrame:
    """The truth of each method's answers less that of SFT's, over the published seeds.

    Columns: method, and one for each temperature with cells as "+1.20 [+1.01, +1.39]". Empty where
    nothing is published.
    """
    table = means("sft")
    if table.empty:
        return pd.DataFrame()
    table["at"] = ["greedy" if not at else f"at T = {at:g}" for at in table.temperature]
    table["cell"] = [
        f"{row.mean:+.2f} [{row.low:+.2f}, {row.high:+.2f}]" for row in table.itertuples()
    ]
    wide = table.pivot(index="policy", columns="at", values="cell")
    wide = wide.reindex(index=table.policy.unique(), columns=table["at"].unique())
    return wide.rename_axis(index="method", columns=None).reset_index()


def verdicts() -> pd.DataFrame:
    """What the published seeds say of each method, greedy and sampled, beside its controls.

    Columns: method; verdict (works, harms, surer or not shown); truth, greedy and at the other
    temperatures, less the start's; and greedy less that of the control nearest to the method, of
    those that every seed has and that never stayed at their start. A cell is as "+1.20 [+1.01,
    +1.39]". Of SteerLM the numbers say how much better answers are that were asked for quality 4 in
    place of 0, and its name says so. Empty where nothing is published.
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
        is_control &= ~own.less.isin(works.get("at their start", {}))
        controls = own[is_control & (own.temperature == 0)]
        if len(controls):
            row["greedy, less nearest control"] = _cell(controls.loc[controls.value.idxmin()])
        rows.append(row)
    return pd.DataFrame(rows)


def sampled_losses() -> list[str]:
    """Methods whose sampled answers are below their start's though no verdict says so; sentences.

    A verdict is of greedy answers, SteerLM's of what asking for another level of quality does to
    them. At temperatures above 0, over the published seeds.
    """
    works = _works()
    rows = means("start")
    rows = rows[(rows.temperature > 0) & (rows.high < 0) & rows.policy.isin(METHODS)]
    lines = []
    for policy, part in rows.groupby("policy", sort=False):
        if works["verdicts"].get(METHODS[policy]) == "harms":
            continue
        listed = ", ".join(
            f"{_change(row, 'mean')} at {row['temperature']:g}" for row in part.to_dict("records")
        )
        judged = "greedy answers"
        if METHODS[policy] == "steerlm":
            judged = "greedy answers asked for quality 4 and 0, not of its start"
        lines.append(f"Sampled, {policy} is below its start: {listed}. Its verdict is of {judged}.")
    return lines


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
