"""AlpacaEval 2: 805 instructions, answers set against gpt4_1106_preview's by a judge, rates
controlled for length.

    questions = load("folder")                                       # or "hub", "embedded"
    asked = asks(questions, answers, prompts("hub"))                 # 805 questions to a judge
    result = score(questions, answers, judge.verdicts(asked, file=file, token_cap=10_000_000))
    save_outputs(folder / "DPO.json", "DPO", answers)                # for the alpaca_eval package and its own judge
    fit = length_controlled(preferences, lengths, baseline_lengths, published=difficulties("df_gamed.csv"))

A preference p lies between 1 (the baseline wins) and 2 (the model wins); 1.5 is a draw. nan is no
verdict. Where the judge gives log-probabilities of the two names (`LOG_PROBS`), p is 1 plus the
chance of the model's, as published; where it only writes a name, 1 or 2.

Paper: section 4.1, appendix H (evaluator GPT-4-1106-preview, 805 instructions), Table 4. AlpacaEval
2.0 LC is of Dubois et al. 2024, arXiv 2404.04475. For one model m against the baseline b, over
instructions x with difficulty gamma_x,

    P(m wins | x) = sigmoid(phi tanh(d_x / SD(d)) + psi gamma_x + theta),     d_x = len(b's answer) - len(m's answer)

and the length-controlled win rate is 100 mean_x sigmoid(psi gamma_x + theta): what it would be at
equal lengths. Which form was fitted depends on what is at hand, and is always named (`form`). The
evaluation set is published for non-commercial use: it is read in place, and none of it belongs in a
report.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GroupKFold

from hs2lib.evaluate import questions as bench
from hs2lib.evaluate.judge import Ask, Scale, Verdict
from hs2lib.group import Group
from hs2lib.paper import PREFERRED
from hs2lib.paths import as_read, data, write

MEASURE, RAW, RAW_SE = "LC win rate, %", "raw win rate, %", "SE of the raw win rate, points"

BASELINE = "gpt4_1106_preview"

INSTRUCTIONS = 805

# What is fitted, by what is at hand; the names in brackets are those of the published code.
PUBLISHED = "published form (length_controlled_v1)"

MINIMAL = "minimal form: no difficulty (length_controlled_minimal)"

RECOVERED = "recovered form: difficulties and gamed baselines from published fits"

# Settings of the published fit: an L1 penalty chosen from ten by five-fold cross-validation, no
# intercept beside theta, and the gamed baselines (concise and verbose versions of the baseline
# itself) with weight .2 between the two of them.
PENALTIES = np.logspace(-4, 4, 10)

FOLDS = 5

GAMED_WEIGHT = 0.2 / 2

SEED = 123

NAMES = ("m", "M")  # of the answer shown first, and second; those of the published prompt

TIE = "="  # which no reply says, but one who knows the truth may

# What the published judge is asked for
# (evaluators_configs/weighted_alpaca_eval_gpt4_turbo/configs.yaml, lines 6 to 9).
LOG_PROBS = {"max_tokens": 1, "temperature": 1, "logprobs": True, "top_logprobs": 5}

# The whole reply is a name, or it is no verdict: a single letter in prose means anything.
NAME = Scale(
    r"^[\s\"'`*]*([mM])[\s\"'`*.]*$",
    str,
    "Now write the name of the better answer alone, m or M, and nothing else.",
    NAMES,
)


class WinRate(NamedTuple):
    """Raw win rate, in per cent, with its standard error."""

    rate: float
    standard_error: float


class LengthControlled(NamedTuple):
    """A length-controlled win rate, in per cent, and how it was made.

    standard_error: that of the mean of the predicted chances, as published. It is small, and 0
    where no difficulty was used, since all chances are then one. form: PUBLISHED, RECOVERED or
    MINIMAL. weights: phi, psi (nan where no difficulty was used) and theta. raw: the raw rate of
    the same preferences, whose standard error the brackets of the paper's Table 4 are.
    """

    rate: float
    standard_error: float
    form: str
    weights: dict[str, float]
    raw: WinRate


class Published(NamedTuple):
    """The published file of difficulties: [805] by instruction, and the rows of the gamed
    baselines; or `recovered`.

    read: the file or folder that it came from, as `hs2lib.paths.as_read`.
    """

    difficulty: np.ndarray
    gamed: pd.DataFrame
    form: str = PUBLISHED
    read: dict[str, str] = {}  # noqa: RUF012  (nobody writes to it)


def load(
    source: str, folder: str | Path | None = None, *, n: int = 0, seed: int = 0
) -> bench.Questions:
    """The 805 instructions (n of them, 0: all, spread over their five sets) with the baseline's
    answers.

    source: "folder" (default HS2_DATA_DIR), "hub" (GitHub at a pinned commit), or "embedded"
    (generated prompts in place of AlpacaEval, and called so; the baseline is the better of each
    prompt's two generated responses). Raises DataError for a file that is absent or not as it
    should be.
    """

    def columns(
        line: int, row: dict
    ):  # an instruction without "i" is counted from 0, as in the published file
        return row.get("i", line - 1), str(row.get("dataset", "")), [row.get("instruction")]

    return bench.load("AlpacaEval 2", INSTRUCTIONS, 1, columns, source, folder, n, seed)


def prompts(source: str, folder: str | Path | None = None) -> bench.Template:
    """The judge prompt, with the instruction and two answers; for source "embedded" one of our own."""

    def parse(path: Path) -> dict[str, bench.Template]:
        parts = [part.partition("\n") for part in path.read_text().split("<|im_start|>")]
        texts = {role: text.partition("<|im_end|>")[0].rstrip("\n") for role, _, text in parts}
        return {"pair": bench.Template(texts.get("system"), texts.get("user"))}

    fields = {"pair": ("instruction", "output_1", "output_2")}
    return bench.prompts("AlpacaEval 2", fields, parse, source, folder)["pair"]


def shown_first(question: str, seed: int = 0) -> bool:
    """Whether the model's answer is shown first, by chance: the same at every call. Paper: silent."""
    return bool(hashlib.sha256(f"{seed} {question}".encode()).digest()[0] & 1)


def asks(
    questions: bench.Questions, answers: Sequence[Group], prompt: bench.Template, *, seed: int = 0
) -> list[Ask]:
    """One comparison an instruction, ids those of the questions; which answer stands first is drawn by seed."""
    out = []
    for answer, other in zip(answers, questions.baseline, strict=True):
        id, pair = bench.question_id(answer), (answer.responses[0].text, other.responses[0].text)
        first, second = pair if shown_first(id, seed) else pair[::-1]
        out.append(
            Ask(
                id,
                prompt.fill(instruction=answer.prompt[0].text, output_1=first, output_2=second),
                NAME,
                pair,
            )
        )
    return out


def preferences(
    questions: bench.Questions, verdicts: Sequence[Verdict], *, seed: int = 0
) -> np.ndarray:
    """Preferences [N], 2 where the model was preferred, 1 the baseline, 1.5 at a tie, nan where
    none could be read.

    A verdict that is a number is the chance of the name of the answer shown first.
    """
    named, values = {verdict.id: verdict.value for verdict in verdicts}, []
    for group in questions.groups:
        first = {NAMES[0]: 1.0, NAMES[1]: 0.0, TIE: 0.5, None: np.nan}.get(
            named[group.id], named[group.id]
        )
        values.append(1 + first if shown_first(group.id, seed) else 2 - first)
    return np.array(values)


def score(
    questions: bench.Questions, answers, verdicts, published=None, n_boot=0, seed=0
) -> bench.JudgedScore:
    """The length-controlled win rate of a model against the baseline, in per cent, from verdicts.

    Paper: Table 4. published: as `difficulties` gives them; they are of the 805 instructions and
    cannot be used for others. Fewer verdicts than the fit has folds give no rate, nor does a fit
    whose penalty leaves no weight. overall: the length-controlled rate and a 95 % interval of the
    raw rate's SE, as its own SE leaves out which instructions were drawn; the raw rate, both SEs
    and the weights stand beside it. measure: "LC win rate" only for the published form, otherwise
    which form it was. n_boot: not used here, where the error has a formula.
    """
    p, ids = (
        preferences(questions, verdicts, seed=seed),
        [group.id for group in questions.groups],
    )  # [N]
    lengths, theirs, read = (
        bench.characters(answers),
        bench.characters(questions.baseline),
        ~np.isnan(p),
    )
    overall, form, beside = (np.nan,) * 3, MINIMAL, {}
    if read.sum() >= FOLDS and np.ptp(theirs - lengths):
        numbers = [int(id) for id in ids] if published else None
        fit = length_controlled(p, lengths, theirs, published=published, instructions=numbers)
        half, form = 1.96 * fit.raw.standard_error, fit.form
        weights = {
            f"weight {name}": weight for name, weight in fit.weights.items() if not np.isnan(weight)
        }
        if any(
            weights.values()
        ):  # else the penalty left none, and the rate is one half whatever was judged
            overall = fit.rate, fit.rate - half, fit.rate + half
        beside = {RAW: fit.raw.rate, RAW_SE: fit.raw.standard_error}
        beside |= {"SE of the LC win rate alone, points": fit.standard_error} | weights
    measure = MEASURE if form == PUBLISHED else f"LC win rate, {form.partition(':')[0]}, %"
    values = pd.Series(100 * (p - 1), index=ids, name=PREFERRED)
    return bench.JudgedScore(measure, overall, int((~read).sum()), values, beside)


def save_outputs(path: Path, model: str, answers: Sequence[Group]) -> Path:
    """Write answers as the alpaca_eval package takes them (`alpaca_eval --model_outputs`), whole or not at all."""
    rows = [
        {"instruction": a.prompt[0].text, "output": a.responses[0].text, "generator": model}
        for a in answers
    ]
    write(Path(path), json.dumps(rows, indent=1, ensure_ascii=False).encode(errors="replace"))
    return Path(path)


# Length control


def win_rate(preferences: Sequence[float]) -> WinRate:
    """The raw win rate of preferences [N], each nan (left out), 0 (an old way to write a draw) or
    from 1 to 2.

    Paper: appendix H. Equals the public leaderboard's figures on all 20 models of the mirror.
    Raises ValueError naming the first value out of range, or where no preference is left.
    """
    p = _checked(preferences) - 1
    p = p[~np.isnan(p)]
    if not len(p):
        raise ValueError(
            "no preference among the values: every one is nan, so there is no win rate"
        )
    return WinRate(100 * p.mean(), 100 * p.std(ddof=1) / np.sqrt(len(p)) if len(p) > 1 else np.nan)


def length_controlled(
    preferences: Sequence[float],
    lengths,
    baseline_lengths,
    *,
    published: Published | None = None,
    instructions=None,
) -> LengthControlled:
    """The length-controlled win rate of one model; with a `Published`, the published form, else a
    minimal one.

    Paper: appendix H; the regression in the module's docstring. preferences [N] as in `win_rate`;
    lengths and baseline_lengths: characters of both answers [N]; instructions: which of the 805
    each row is (default: 0 .. N-1). A subset of the instructions may be passed; say so where the
    figure is shown. Raises ValueError on shapes, values out of range, or answers that all differ by
    one length from the baseline's (nothing to standardise by). Checked against alpaca_eval 0.6.6
    given one file (1e-6).
    """
    raw, p = win_rate(preferences), _checked(preferences) - 1
    delta = np.asarray(baseline_lengths, dtype=float) - np.asarray(lengths, dtype=float)
    rows = np.arange(len(p)) if instructions is None else np.asarray(instructions, dtype=int)
    if not p.shape == delta.shape == rows.shape:
        raise ValueError(
            f"one length and instruction for each of {p.shape} preferences: {delta.shape}, {rows.shape}"
        )
    if not np.ptp(delta) > 0:
        raise ValueError(
            "every answer differs from the baseline's by one and the same length: nothing to standardise"
        )
    gamma, form = (None, MINIMAL) if published is None else (published.difficulty, published.form)
    if gamma is not None:
        if rows.min() < 0 or rows.max() >= len(gamma):
            raise ValueError(f"{len(gamma)} difficulties do not reach instruction {rows.max()}")
        gamma = gamma[rows]
    X = _design(np.tanh(delta / delta.std(ddof=1)), gamma, 1.0)
    judged = ~np.isnan(p)
    X_train, y, weight = X[judged], p[judged], np.ones(judged.sum())
    if published is not None:
        gamed = published.gamed
        extra = _design(
            np.tanh(gamed.std_delta_len.to_numpy()), gamed.instruction_difficulty.to_numpy(), 0.0
        )
        # The gamed rows come first, as in the published code: the folds and the solver depend on
        # the order of rows.
        X_train, y = (
            np.concatenate([extra, X_train]),
            np.concatenate([gamed.preference.to_numpy(), y]),
        )
        weight = np.concatenate([np.full(len(extra), GAMED_WEIGHT), weight])
    w = _fit(X_train, y, weight)
    X[:, 0] = 0.0  # at equal lengths
    chance = expit(X @ w)
    names = ("phi", "theta") if gamma is None else ("phi", "psi", "theta")
    weights = dict.fromkeys(("phi", "psi"), np.nan) | {
        name: float(value) for name, value in zip(names, w, strict=True)
    }
    error = 100 * float(chance.std(ddof=1) / np.sqrt(len(chance)))
    return LengthControlled(100 * float(chance.mean()), error, form, weights, raw)


def difficulties(path: str | Path, folder: str | Path | None = None) -> Published | None:
    """The published file, where a path names it; else `recovered` from the mirror in the folder;
    else None.

    Paper: silent. folder: with alpaca_eval/, as for `read_mirror`, by default HS2_DATA_DIR.
    """
    if path:
        return read_published(path)
    mirror = _mirror(folder)
    if mirror is None:
        return None
    rows, _, weights = read_mirror(mirror)
    return recovered(rows, weights)._replace(read=as_read(mirror))


def recovered(rows: pd.DataFrame, weights: pd.DataFrame) -> Published:
    """What the published file says, as far as it follows from published fits, whose preferences and
    weights are known.

    Paper: silent. An instruction's difficulty is the value with which the fits' own weights explain
    its preferences best, under a standard normal prior. The gamed baselines prefer as their weights
    say, at one SD shorter and longer. rows, weights: as `read_mirror` gives them; without the model
    to be judged, or it explains itself. 19 models, each left out in turn, come within .62 points of
    the leaderboard on average, 2.3 at most; the minimal form within 8.2.
    """
    lengths = rows.assign(delta=rows.baseline_length - rows.length).pivot(
        index="model", columns="i", values="delta"
    )
    p = rows.pivot(index="model", columns="i", values="preference").to_numpy() - 1  # [models, 805]
    fits = weights.loc[lengths.index]
    known = (
        np.tanh(lengths.div(lengths.std(axis=1), axis=0))
        .mul(fits.phi, axis=0)
        .add(fits.theta, axis=0)
        .to_numpy()
    )
    psi, gamma = fits.psi.to_numpy()[:, None], np.zeros(p.shape[1])
    for _ in range(50):  # Newton's steps, kept short
        chance = expit(known + psi * gamma)
        slope = np.nansum(psi * (p - chance), axis=0) - gamma
        gamma = gamma + np.clip(
            slope / (1 + np.nansum(psi**2 * chance * (1 - chance), axis=0)), -1, 1
        )
    gamed = []
    for name, delta in (("concise", 1.0), ("verbose", -1.0)):
        fit = weights.loc[f"{BASELINE}_{name}"]
        frame = pd.DataFrame({"preference": expit(fit.phi * np.tanh(delta) + fit.psi * gamma)})
        gamed.append(frame.assign(std_delta_len=delta, instruction_difficulty=gamma))
    return Published(gamma, pd.concat(gamed, ignore_index=True), RECOVERED)


def read_published(path: Path | str) -> Published:
    """The published file `df_gamed.csv` (data set tatsu-lab/alpaca_eval on the Hub): difficulties
    and gamed baselines.

    Paper: silent. Raises ValueError naming the file and the column or instruction that is missing.
    """
    frame = pd.read_csv(path)
    columns = [
        "index",
        "preference",
        "std_delta_len",
        "instruction_difficulty",
        "not_gamed_baseline",
    ]
    if missing := [name for name in columns if name not in frame]:
        raise ValueError(f"{path}: no column {missing[0]!r}; expected {', '.join(columns)}")
    if frame[columns].isna().any(axis=None) or frame.not_gamed_baseline.astype(bool).any():
        raise ValueError(f"{path}: rows of gamed baselines only, without gaps, are expected")
    by_instruction = frame.drop_duplicates("index").set_index("index").instruction_difficulty
    if lacking := sorted(set(range(by_instruction.index.max() + 1)) - set(by_instruction.index)):
        raise ValueError(f"{path}: no difficulty for instruction {lacking[0]}")
    gamed = frame[columns].reset_index(drop=True)
    return Published(by_instruction.sort_index().to_numpy(), gamed, read=as_read(path))


def read_mirror(folder: Path | str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Rows (model, i, preference, length, baseline_length) of a local copy, the public leaderboard,
    and the fits.

    Paper: silent. folder: with preferences_vs_gpt4_1106.csv.gz, outputs/<model>.jsonl.gz,
    leaderboard.csv, and lc_weights.csv, the weights phi, psi and theta of public fits by model. An
    answer that was not judged has preference nan. Raises FileNotFoundError or KeyError naming what
    is missing.
    """
    folder = Path(folder)
    preferences = pd.read_csv(folder / "preferences_vs_gpt4_1106.csv.gz")
    lengths = {}
    for file in sorted((folder / "outputs").glob("*.jsonl.gz")):
        rows = pd.read_json(file, lines=True, dtype=False)
        lengths[file.name.removesuffix(".jsonl.gz")] = rows.set_index("i").output.str.len()
    rows = pd.concat(lengths, names=["model"]).rename("length").reset_index()
    rows = rows.merge(preferences, on=["model", "i"], how="left").assign(
        baseline_length=rows.i.map(lengths[BASELINE])
    )
    weights = pd.read_csv(folder / "lc_weights.csv", index_col=0).set_axis(
        ["phi", "psi", "theta"], axis=1
    )
    return (
        rows[rows.model != BASELINE],
        pd.read_csv(folder / "leaderboard.csv", index_col=0),
        weights,
    )


def _mirror(folder: str | Path | None) -> Path | None:
    mirror = Path(folder or data() or "").expanduser() / "alpaca_eval"
    return mirror if (mirror / "leaderboard.csv").exists() else None


class Leaderboard(NamedTuple):
    """How near our rates come to the public leaderboard's, one row a form; read: as `hs2lib.paths.as_read`."""

    table: pd.DataFrame
    read: dict[str, str]


def near_leaderboard(
    published: Published | None = None, folder: str | Path | None = None
) -> Leaderboard | None:
    """How near our length-controlled rates of public models come to the leaderboard's, in points;
    no baseline.

    Paper: silent. Without the published file the minimal form, and the recovered one without the
    model's own fit. folder: as for `difficulties`; None where it has no leaderboard.
    """
    if not (mirror := _mirror(folder)):
        return None
    rows, leaderboard, weights = read_mirror(mirror)
    rates = []
    for model, own in rows.sort_values("i").groupby("model"):
        forms = [published]
        if published is None or published.form == RECOVERED:
            forms = [None, recovered(rows[rows.model != model], weights)]
        for form in forms:
            fit = length_controlled(
                own.preference, own.length, own.baseline_length, published=form, instructions=own.i
            )
            rates.append((fit.form, fit.rate, leaderboard.length_controlled_winrate[model]))
    near = []
    for form, of in pd.DataFrame(rates, columns=["form", "ours", "public"]).groupby(
        "form", sort=False
    ):
        both, error = (
            (of.ours.corr(of.public, method=how) for how in ("pearson", "spearman")),
            of.ours - of.public,
        )
        near.append((form, len(of), *both, error.abs().mean(), error.mean(), error.abs().max()))
    columns = [
        "form",
        "models",
        "Pearson",
        "Spearman",
        "mean absolute error",
        "mean error",
        "largest error",
    ]
    return Leaderboard(pd.DataFrame(near, columns=columns), as_read(mirror))


def _checked(preferences: Sequence[float]) -> np.ndarray:
    p = np.asarray(preferences, dtype=float)
    p = np.where(p == 0, 1.5, p)
    if len(wrong := np.flatnonzero((p < 1) | (p > 2))):
        raise ValueError(
            f"preference {wrong[0]} is {p[wrong[0]]}: expected 1 (baseline) to 2 (model), 0 or nan"
        )
    return p


def _design(length: np.ndarray, difficulty: np.ndarray | None, constant: float) -> np.ndarray:
    columns = (
        [length] + ([] if difficulty is None else [difficulty]) + [np.full(len(length), constant)]
    )
    return np.stack(columns, axis=1)


def _fit(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """L1-penalised logistic regression of chances y in [0, 1]; the penalty by cross-validation on log loss."""
    rows = np.arange(len(y))
    twice, label = (
        np.concatenate([rows, rows]),
        np.repeat([1, 0], len(rows)),
    )  # a chance is a win and a loss, weighed
    # Weight 0 is a row left out: of a fold with losses alone the solver then knows one class, and
    # takes it for wins.
    share = np.maximum(np.concatenate([y, 1 - y]), 1e-9) * weight[twice]
    folds = list(GroupKFold(n_splits=FOLDS).split(twice, label, groups=twice))
    # liblinear stops early enough for its random order to show in the fourth digit: the state is
    # published too. A handful of questions need more rounds than the usual 100, large sets fewer:
    # what was fitted well stays as it is.
    solver = {
        "solver": "liblinear",
        "l1_ratios": (1,),
        "fit_intercept": False,
        "random_state": SEED,
    }
    choice = {
        "Cs": PENALTIES,
        "cv": folds,
        "scoring": "neg_log_loss",
        "use_legacy_attributes": False,
    }
    search = LogisticRegressionCV(max_iter=10_000, **choice, **solver)
    return search.fit(X[twice], label, sample_weight=share).coef_[0]
