"""What `benchmarks/judge.py` published: what reward models read over seeds, and how hard to press.

    read()                # R of score and truth within a prompt, by whose answers and by judge
    by_fault()            # pairs that differ in one fault, in the right order
    pressed()             # truth gained by the best of n, and Gao's law, by judge
    trained()             # the law of PPO, by the share of the ratings that its judge learnt from
    in_words()            # the same in sentences

Notebook 06 shows it beside its own run, which is one seed. Without the file all are empty.
Paper: silent; the laws are those of Gao et al. 2022.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib import paths
from hs2lib.corpus import one_fault
from hs2lib.data.readers import or_nan
from hs2lib.report import published
from hs2lib.report.report import interval

PUBLISHED = "reports/benchmarks/judge.json"
WITHIN = "R within a prompt"
RIGHT = "pairs right"
REWARD_MODEL = "reward model"
LIKELIEST = "likeliest"  # as `best_of_n.LIKELIEST`, whose module trains policies
BLIND = "blind reward model"  # it learnt from answers that stood under other prompts
NUMBERS = (4, 16, 64)  # the n of best of n that are shown
LAW = ["alpha", "beta", "d at the peak"]  # d: the root of nats from the start


def file() -> Path:
    """The file that `benchmarks/judge.py` writes, there or not."""
    return paths.root() / PUBLISHED


def record() -> dict:
    """What `benchmarks/judge.py` wrote; {} where it is not there."""
    return published.written(file())


def source() -> str:
    """Where the means over seeds come from, for a caption; "" where nothing is published."""
    return published.source_of(PUBLISHED, record())


def read(measure: str = WITHIN) -> pd.DataFrame:
    """What each judge reads of whose answers: mean over seeds with its interval, as text.

    measure: `WITHIN`, Pearson's R with each prompt's mean taken off, or `RIGHT`, the share of pairs
        in the right order of those that truly differ.
    Returns answers down, judges across, and "spread of truth" within a prompt.
    """
    rows = record().get("read", [])
    table: dict[str, dict[str, str]] = {}
    for row in rows:
        cells = table.setdefault(row["set"], {})
        cells[row["judge"]] = _cell(row[measure])
        cells["spread of truth"] = _cell(row["spread of truth"])
    frame = pd.DataFrame.from_dict(table, orient="index").fillna("").rename_axis("answers")
    if "spread of truth" in frame:
        frame["spread of truth"] = frame.pop("spread of truth")  # the last column
    return frame


def by_fault() -> pd.DataFrame:
    """How often the faultless answer scores higher than the same with one fault, %, as text.

    Faults down, the reward model and the blind one across. An interval of Student's t may reach
    beyond 0 or 100; the cell ends there.
    """
    table: dict[str, dict[str, str]] = {}
    for row in record().get("by fault", []):
        table.setdefault(row["fault"], {})[row["judge"]] = _share(row["higher (%)"])
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("fault")


def pressed() -> pd.DataFrame:
    """What the best of n answers of SFT gains in truth, and the law fitted to it, as text.

    Judges down; across the gain at `NUMBERS` and the law's alpha, beta and peak.
    """
    columns = [f"best of {n}" for n in NUMBERS] + LAW
    return _by_judge("pressed", columns)


def trained() -> pd.DataFrame:
    """The law of PPO by the share of the ratings that its reward model learnt from, as text.

    Judges down; across the truth of the last round less the first, the KL there, and the law. The
    last column says of how many seeds a row is, which may be fewer than those of the other tables.
    """
    frame = _by_judge("trained", ["truth gained", "kl", *LAW])
    return frame.assign(seeds=[row["seeds"] for row in record().get("trained", [])])


def ceiling() -> pd.DataFrame:
    """R of the truth with the annotators' ratings by attribute, as text: what ratings can teach."""
    rows = record().get("ceiling", [])
    cells = {row["attribute"]: [_cell(row["R of truth and ratings"])] for row in rows}
    return pd.DataFrame.from_dict(cells, orient="index", columns=["R"]).rename_axis("attribute")


def in_words() -> list[str]:
    """What the reward model reads of rated and of policies' own answers; [] where nothing is there.

    The last sentences say which faults it reads in the mean of all seeds, and what it gains beside
    a judge that never saw a pair's own prompt.
    """
    of_all = record()
    if not of_all:
        return []
    r = {row["set"]: row[WITHIN] for row in of_all["read"] if row["judge"] == REWARD_MODEL}
    listed = ", ".join(f"{name} {_cell(value)}" for name, value in r.items())
    n_seeds = len(of_all["seeds"])
    texts = [f"Over {n_seeds} seeds R of score and truth within a prompt is: {listed}."]
    not_read = []
    for row in of_all.get("by fault", []):
        share = row["higher (%)"]
        is_fault = row["fault"] != one_fault.HARMLESS
        is_read = share["mean"] - or_nan(share["plus or minus"]) > 50  # of one seed it is not shown
        if row["judge"] == REWARD_MODEL and is_fault and not is_read:
            not_read.append(f"{row['fault']} {_share(share)} %")
    texts.append(f"Faults not shown to be read over the seeds: {', '.join(not_read) or 'none'}.")
    gained = {row["judge"]: row[f"best of {NUMBERS[-1]}"] for row in of_all["pressed"]}
    whole = f"{REWARD_MODEL}, all of the ratings"
    if whole in gained and BLIND in gained:
        text = (
            f"The best of {NUMBERS[-1]} of SFT's answers gains {_cell(gained[whole])} points of "
            f"truth by the reward model, and {_cell(gained[BLIND])} by the blind one."
        )
        if LIKELIEST in gained:
            text += f" Where simply the likeliest is taken, it gains {_cell(gained[LIKELIEST])}."
        texts.append(text)
    return texts


def _by_judge(part: str, columns: Sequence[str]) -> pd.DataFrame:
    """Rows of a part of the record as text, judges down."""
    cells = {}
    for row in record().get(part, []):
        cells[row["judge"]] = [_cell(row[name]) for name in columns]
    frame = pd.DataFrame.from_dict(cells, orient="index", columns=list(columns))
    return frame.rename_axis("judge")


def _share(value: dict[str, float]) -> str:
    """A mean share over seeds, %, with its interval, as text."""
    mean = or_nan(value["mean"])
    half = or_nan(value["plus or minus"])
    low, high = np.clip([mean - half, mean + half], 0, 100)
    return interval(mean, low, high, digits=0)


def _cell(value: dict[str, float]) -> str:
    """A mean over seeds with its interval, as text; None is a number that there is not."""
    mean = or_nan(value["mean"])
    half = or_nan(value["plus or minus"])
    return interval(mean, mean - half, mean + half)
