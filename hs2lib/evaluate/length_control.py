"""AlpacaEval 2: raw and length-controlled win rates from pairwise preferences against gpt4_1106_preview.

    found = length_controlled(preferences, lengths, baseline_lengths, published=read_published("df_gamed.csv"))
    found.rate, found.standard_error, found.form

A preference p lies between 1 (the baseline wins) and 2 (the model wins); 1.5 is a draw. nan is no verdict.

Paper: section 4.1, appendix H (AlpacaEval 2.0 LC, Dubois et al. 2024, arXiv 2404.04475). For one model m against the
baseline b, over instructions x with difficulty gamma_x,

    P(m wins | x) = sigmoid(phi tanh(d_x / SD(d)) + psi gamma_x + theta),     d_x = len(b's answer) - len(m's answer)

and the length-controlled win rate is 100 mean_x sigmoid(psi gamma_x + theta): what it would be at equal lengths. Which
form was fitted depends on what is at hand, and is always named (`form`). The evaluation set is published for
non-commercial use: it is read in place, and none of it belongs in a report.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GroupKFold

from hs2lib.paths import noted

BASELINE = "gpt4_1106_preview"

INSTRUCTIONS = 805

# What is fitted, by what is at hand; the names in brackets are those of the published code.
PUBLISHED = "published form (length_controlled_v1)"

MINIMAL = "minimal form: no difficulty (length_controlled_minimal)"

ESTIMATED = "minimal form: difficulty estimated from other models' preferences"

# Settings of the published fit: an L1 penalty chosen from ten by five-fold cross-validation, no intercept beside theta,
# and the gamed baselines (concise and verbose versions of the baseline itself) with weight .2 between the two of them.
PENALTIES = np.logspace(-4, 4, 10)

FOLDS = 5

GAMED_WEIGHT = 0.2 / 2

SEED = 123


class WinRate(NamedTuple):
    """Raw win rate, in per cent, with its standard error."""

    rate: float
    standard_error: float


class LengthControlled(NamedTuple):
    """A length-controlled win rate, in per cent, and how it was made.

    standard_error: that of the mean of the predicted chances, as published. It is small, and 0 where no difficulty
    was used, since all chances are then one; the brackets of the paper's Table 4 are the raw rate's. form: PUBLISHED,
    MINIMAL or ESTIMATED. weights: phi, psi (nan where no difficulty was used) and theta. raw: the raw rate of the same
    preferences.
    """

    rate: float
    standard_error: float
    form: str
    weights: dict[str, float]
    raw: WinRate


class Published(NamedTuple):
    """The published file of difficulties: [805] by instruction, and the rows of the gamed baselines."""

    difficulty: np.ndarray
    gamed: pd.DataFrame


def win_rate(preferences: Sequence[float]) -> WinRate:
    """The raw win rate of preferences [N], each nan (left out), 0 (an old way to write a draw) or from 1 to 2.

    Paper: appendix H. Equals the public leaderboard's figures on all 20 models of the mirror.
    Raises ValueError naming the first value out of range, or where no preference is left.
    """
    p = _checked(preferences) - 1
    p = p[~np.isnan(p)]
    if not len(p):
        raise ValueError("no preference among the values: every one is nan, so there is no win rate")
    return WinRate(100 * p.mean(), 100 * p.std(ddof=1) / np.sqrt(len(p)) if len(p) > 1 else np.nan)


def length_controlled(
    preferences: Sequence[float], lengths, baseline_lengths, *, published=None, difficulty=None, instructions=None
) -> LengthControlled:
    """The length-controlled win rate of one model; with a `Published`, the published form, else a minimal one.

    Paper: appendix H; the regression in the module's docstring. preferences [N] as in `win_rate`; lengths and
    baseline_lengths: characters of both answers [N]; instructions: which of the 805 each row is (default: 0 .. N-1).
    difficulty: values [805] of your own, e.g. `estimated_difficulty`. A subset of the instructions may be passed; say
    so where the figure is shown. Raises ValueError on shapes, values out of range, or answers that all differ by one
    length from the baseline's (nothing to standardise by).
    Checked against alpaca_eval 0.6.6 given one file (1e-6).
    """
    raw, p = win_rate(preferences), _checked(preferences) - 1
    delta = np.asarray(baseline_lengths, dtype=float) - np.asarray(lengths, dtype=float)
    rows = np.arange(len(p)) if instructions is None else np.asarray(instructions, dtype=int)
    if not p.shape == delta.shape == rows.shape:
        raise ValueError(f"one length and instruction for each of {p.shape} preferences: {delta.shape}, {rows.shape}")
    if np.array_equal(delta, np.zeros_like(delta)) and (p == 0.5).all():
        return LengthControlled(50.0, 0.0, MINIMAL, {"phi": 0.0, "psi": 0.0, "theta": 0.0}, raw)
    spread = delta.std(ddof=1) if len(delta) > 1 else 0.0
    if not np.isfinite(spread) or spread == 0:
        raise ValueError("every answer differs from the baseline's by one and the same length: nothing to standardise")
    gamma = published.difficulty if published is not None else difficulty
    gamma = None if gamma is None else _of_rows(np.asarray(gamma, dtype=float), rows)
    used = PUBLISHED if published is not None else MINIMAL if gamma is None else ESTIMATED
    X = _design(np.tanh(delta / spread), gamma, 1.0)
    judged = ~np.isnan(p)
    X_train, y, weight = X[judged], p[judged], np.ones(judged.sum())
    if published is not None:
        gamed = published.gamed
        extra = _design(np.tanh(gamed.std_delta_len.to_numpy()), gamed.instruction_difficulty.to_numpy(), 0.0)
        # The gamed rows come first, as in the published code: the folds and the solver depend on the order of rows.
        X_train, y = np.concatenate([extra, X_train]), np.concatenate([gamed.preference.to_numpy(), y])
        weight = np.concatenate([np.full(len(extra), GAMED_WEIGHT), weight])
    w = _fit(X_train, y, weight)
    X_equal = X.copy()
    X_equal[:, 0] = 0.0
    chance = 1 / (1 + np.exp(-X_equal @ w))
    names = ("phi", "theta") if gamma is None else ("phi", "psi", "theta")
    weights = {"psi": np.nan} | {name: float(value) for name, value in zip(names, w, strict=True)}
    error = 100 * float(chance.std(ddof=1) / np.sqrt(len(chance)))
    return LengthControlled(100 * float(chance.mean()), error, used, weights, raw)


def estimated_difficulty(preferences: np.ndarray) -> np.ndarray:
    """Difficulty of each instruction [N] from preferences [models, N]: the log odds that a model beats the baseline.

    Paper: silent; ours, for want of the published file, which comes from a joint fit over the whole leaderboard. Half
    a win and half a loss are added, so that an instruction that nobody won stays finite; standardised. Leave out the
    model to be judged, or its own preferences explain themselves.
    """
    p = np.asarray(preferences, dtype=float) - 1
    n, wins = (~np.isnan(p)).sum(axis=0), np.nansum(p, axis=0)
    odds = np.log((wins + 0.5) / (n - wins + 0.5))
    return (odds - odds.mean()) / odds.std()


def read_published(path: Path | str) -> Published:
    """The published file `df_gamed.csv` (data set tatsu-lab/alpaca_eval on the Hub): difficulties and gamed baselines.

    Paper: silent. Raises ValueError naming the file and the column or instruction that is missing.
    """
    frame = pd.read_csv(noted(path))
    columns = ["index", "preference", "std_delta_len", "instruction_difficulty", "not_gamed_baseline"]
    if missing := [name for name in columns if name not in frame]:
        raise ValueError(f"{path}: no column {missing[0]!r}; expected {', '.join(columns)}")
    if frame[columns].isna().any(axis=None) or frame.not_gamed_baseline.astype(bool).any():
        raise ValueError(f"{path}: rows of gamed baselines only, without gaps, are expected")
    by_instruction = frame.drop_duplicates("index").set_index("index").instruction_difficulty
    if lacking := sorted(set(range(by_instruction.index.max() + 1)) - set(by_instruction.index)):
        raise ValueError(f"{path}: no difficulty for instruction {lacking[0]}")
    return Published(by_instruction.sort_index().to_numpy(), frame[columns].reset_index(drop=True))


def read_mirror(folder: Path | str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows (model, i, preference, length, baseline_length) of a local copy, and the public leaderboard by model.

    Paper: silent. folder: with preferences_vs_gpt4_1106.csv.gz, outputs/<model>.jsonl.gz and leaderboard.csv. An answer
    that was not judged has preference nan. Raises FileNotFoundError naming what is missing.
    """
    folder = noted(folder)
    for name in ("preferences_vs_gpt4_1106.csv.gz", "leaderboard.csv", f"outputs/{BASELINE}.jsonl.gz"):
        if not (folder / name).exists():
            raise FileNotFoundError(f"{folder / name}: missing; is this a copy of AlpacaEval 2's results?")
    preferences = pd.read_csv(folder / "preferences_vs_gpt4_1106.csv.gz")
    answers = []
    for file in sorted((folder / "outputs").glob("*.jsonl.gz")):
        rows = pd.read_json(file, lines=True, dtype=False)
        model = file.name.removesuffix(".jsonl.gz")
        answers.append(pd.DataFrame({"model": model, "i": rows.i, "length": rows.output.str.len()}))
    rows = pd.concat(answers).merge(preferences, on=["model", "i"], how="left")
    rows["baseline_length"] = rows.i.map(rows[rows.model == BASELINE].set_index("i").length)
    return rows, pd.read_csv(folder / "leaderboard.csv", index_col=0)


def against_leaderboard(
    rows: pd.DataFrame, leaderboard: pd.DataFrame, published: Published | None = None
) -> pd.DataFrame:
    """Our raw and length-controlled rates beside the public ones, one row a model and form.

    Paper: silent. Without `published` the two minimal forms are fitted, each model's difficulties from the others.
    Columns: model, form, raw, raw public, LC, SE, LC public, difference.
    """
    table = rows.pivot(index="model", columns="i", values="preference")
    lines = []
    for model, own in rows.sort_values("i").groupby("model"):
        others = estimated_difficulty(table.drop(index=[model, BASELINE], errors="ignore").to_numpy())
        forms = [{"difficulty": None}, {"difficulty": others}] if published is None else [{"published": published}]
        public = leaderboard.loc[model]
        for form in forms:
            fit = length_controlled(own.preference, own.length, own.baseline_length, instructions=own.i, **form)
            line = (model, fit.form, fit.raw.rate, public.win_rate, fit.rate, fit.standard_error)
            lines.append((*line, public.length_controlled_winrate))
    frame = pd.DataFrame(lines, columns=["model", "form", "raw", "raw public", "LC", "SE", "LC public"])
    return frame.assign(difference=frame["LC"] - frame["LC public"])


def summary(compared: pd.DataFrame) -> pd.DataFrame:
    """How near each form comes to the leaderboard, the baseline itself left out: correlations and errors in points."""
    found = []
    for form, part in compared[compared.model != BASELINE].groupby("form", sort=False):
        r, rank = (part["LC"].corr(part["LC public"], method=how) for how in ("pearson", "spearman"))
        error = part.difference
        found.append((form, len(part), r, rank, error.abs().mean(), error.mean(), error.abs().max()))
    columns = ["form", "models", "Pearson", "Spearman", "mean absolute error", "mean error", "largest error"]
    return pd.DataFrame(found, columns=columns)


def _checked(preferences: Sequence[float]) -> np.ndarray:
    p = np.asarray(preferences, dtype=float)
    p = np.where(p == 0, 1.5, p)
    wrong = np.flatnonzero((p < 1) | (p > 2))
    if len(wrong):
        raise ValueError(f"preference {wrong[0]} is {p[wrong[0]]}: expected 1 (baseline) to 2 (model), 0 or nan")
    return p


def _of_rows(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    if values.ndim != 1 or rows.min(initial=0) < 0 or rows.max(initial=0) >= len(values):
        raise ValueError(f"difficulties {values.shape} do not reach instruction {rows.max()}")
    return values[rows]


def _design(length: np.ndarray, difficulty: np.ndarray | None, constant: float) -> np.ndarray:
    columns = [length] + ([] if difficulty is None else [difficulty]) + [np.full(len(length), constant)]
    return np.stack(columns, axis=1)


def _fit(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """L1-penalised logistic regression of chances y in [0, 1]; the penalty by cross-validation on log loss."""
    rows = np.arange(len(y))
    twice, label = np.concatenate([rows, rows]), np.repeat([1, 0], len(rows))  # a chance is a win and a loss, weighed
    share = np.concatenate([y, 1 - y]) * weight[twice]
    folds = list(GroupKFold(n_splits=FOLDS).split(twice, label, groups=twice))
    # liblinear stops early enough for its random order to show in the fourth digit: the state is published too.
    # A handful of questions need more rounds than the usual 100, large sets fewer: what was fitted well stays as it is.
    solver = {
        "solver": "liblinear",
        "l1_ratios": (1,),
        "fit_intercept": False,
        "random_state": SEED,
        "max_iter": 10_000,
    }
    search = LogisticRegressionCV(Cs=PENALTIES, cv=folds, scoring="neg_log_loss", use_legacy_attributes=False, **solver)
    return search.fit(X[twice], label, sample_weight=share).coef_[0]
