"""AlpacaEval 2: answers to 805 instructions against gpt4_1106_preview's, controlled for length.

    questions = load("folder")  # or "hub", "postcards"
    asked = asks(questions, answers, prompts("hub"))  # 805 questions to a judge
    verdicts = judge.verdicts(asked, file=file, token_cap=10_000_000)
    result = score(questions, answers, verdicts)
    save_outputs(folder / "DPO.json", "DPO", answers)  # for the alpaca_eval package and its judge

    published = difficulties("df_gamed.csv")
    fit = length_controlled(preferences, lengths, baseline_lengths, published=published)

A preference p lies between 1 (the baseline wins) and 2 (the model wins); 1.5 is a draw, and nan is
no verdict. A judge may give log-probabilities of the two names (`LOG_PROBS`). Then p is 1 plus the
chance of the model's name, as published. Where a judge only writes a name, p is 1 or 2.

Paper: section 4.1, appendix H (evaluator GPT-4-1106-preview, 805 instructions), Table 4. AlpacaEval
2.0 LC is of Dubois et al. 2024, arXiv 2404.04475. For one model m against the baseline b, over
instructions x with difficulty gamma_x,

    P(m wins | x) = sigmoid(phi tanh(d_x / SD(d)) + psi gamma_x + theta)
    d_x = len(b's answer) - len(m's answer)

and the length-controlled win rate is 100 mean_x sigmoid(psi gamma_x + theta): what the rate would
be at equal lengths. Which form was fitted depends on what is at hand, and is always named (`form`).

The evaluation set is published for non-commercial use. It is read in place, and none of it belongs
in a report.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
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
from hs2lib.paths import data, digests_by_place, write

MEASURE = "LC win rate, %"

RAW = "raw win rate, %"

RAW_SE = "SE of the raw win rate, points"

BASELINE = "gpt4_1106_preview"

INSTRUCTIONS = 805

# What is fitted, by what is at hand; the names in brackets are those of the published code.
PUBLISHED = "published form (length_controlled_v1)"

MINIMAL = "minimal form: no difficulty (length_controlled_minimal)"

RECOVERED = "recovered form: difficulties and gamed baselines from published fits"

# Settings of the published fit. One of ten L1 penalties is chosen by five-fold cross-validation.
# Theta is the only intercept. The gamed baselines (concise and verbose versions of the baseline
# itself) have a weight of .2 between the two of them.
PENALTIES = np.logspace(-4, 4, 10)

FOLDS = 5

GAMED_WEIGHT = 0.2 / 2

SEED = 123

# The weights that make the rate; that of length is left out of it.
COUNTED = ("weight theta", "weight psi")

# Names of the answer shown first, and of the one shown second, in the published prompt.
NAMES = ("m", "M")

# A judge never replies with a tie, but the truth may be one.
TIE = "="

# What the published judge is asked for
# (evaluators_configs/weighted_alpaca_eval_gpt4_turbo/configs.yaml, lines 6 to 9).
LOG_PROBS = {"max_tokens": 1, "temperature": 1, "logprobs": True, "top_logprobs": 5}

# Only a reply that is a name and nothing else is a verdict: a single letter in prose may mean
# anything.
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
        where no difficulty was used, since all chances are then one.
    form: PUBLISHED, RECOVERED or MINIMAL.
    weights: phi, psi (nan where no difficulty was used) and theta.
    raw: the raw rate of the same preferences. Its standard error is what the brackets of the
        paper's Table 4 hold.
    """

    rate: float
    standard_error: float
    form: str
    weights: dict[str, float]
    raw: WinRate


class Published(NamedTuple):
    """What the published file holds, read from it or `recovered`.

    difficulty: [805], by instruction.
    gamed: the rows of the gamed baselines.
    form: PUBLISHED or RECOVERED.
    read: the file or folder that it came from, as `hs2lib.paths.digests_by_place`.
    """

    difficulty: np.ndarray
    gamed: pd.DataFrame
    form: str = PUBLISHED
    read: Mapping[str, str] = {}


def load(
    source: str, folder: str | Path | None = None, *, n: int = 0, seed: int = 0
) -> bench.Questions:
    """The 805 instructions with the baseline's answers.

    source: "folder", "hub" (GitHub at a pinned commit), or "postcards". "postcards" has generated
        prompts in place of AlpacaEval, and says so. Its baseline is the better of each prompt's two
        generated responses.
    folder: of source "folder", by default HS2_DATA_DIR.
    n, seed: how many instructions (0: all), spread over their five sets.

    Raises DataError for a file that is absent or not as it should be.
    """
    return bench.load("AlpacaEval 2", INSTRUCTIONS, 1, _columns, source, folder, n, seed)


def _columns(line: int, row: dict) -> tuple[object, str, list]:
    """The id, the data set and the text of a row of the file.

    An instruction without "i" is counted from 0, as in the published file.
    """
    return row.get("i", line - 1), str(row.get("dataset", "")), [row.get("instruction")]


def prompts(source: str, folder: str | Path | None = None) -> bench.Template:
    """The judge prompt, with the instruction and two answers; one of our own for "postcards"."""
    fields = {"pair": ("instruction", "output_1", "output_2")}
    return bench.prompts("AlpacaEval 2", fields, _parse_prompts, source, folder)["pair"]


def _parse_prompts(path: Path) -> dict[str, bench.Template]:
    """The prompt in AlpacaEval's file, which is a conversation in ChatML."""
    text_of: dict[str, str] = {}
    for message in path.read_text().split("<|im_start|>"):
        role, _, text = message.partition("\n")
        text_of[role] = text.partition("<|im_end|>")[0].rstrip("\n")
    return {"pair": bench.Template(text_of.get("system"), text_of.get("user"))}


def shown_first(question: str, seed: int = 0) -> bool:
    """Whether the model's answer is shown first: by chance, but the same at every call.

    Paper: silent.
    """
    return bool(hashlib.sha256(f"{seed} {question}".encode()).digest()[0] & 1)


def asks(
    questions: bench.Questions, answers: Sequence[Group], prompt: bench.Template, *, seed: int = 0
) -> list[Ask]:
    """One comparison an instruction, with the question's id.

    seed: of the draw which answer stands first.
    """
    comparisons = []
    for answer, other in zip(answers, questions.baseline, strict=True):
        id = bench.question_id(answer)
        instruction = answer.prompt[0].text
        ours = answer.responses[0].text
        theirs = other.responses[0].text
        if shown_first(id, seed):
            messages = prompt.fill(instruction=instruction, output_1=ours, output_2=theirs)
        else:
            messages = prompt.fill(instruction=instruction, output_1=theirs, output_2=ours)
        comparisons.append(Ask(id, messages, NAME, (ours, theirs)))
    return comparisons


# Of a verdict that is no number: the chance that the answer shown first is the better one.
_CHANCE_OF_FIRST = {NAMES[0]: 1.0, NAMES[1]: 0.0, TIE: 0.5, None: np.nan}


def preferences(
    questions: bench.Questions, verdicts: Sequence[Verdict], *, seed: int = 0
) -> np.ndarray:
    """Preferences [N]: 2 where the model was preferred, 1 the baseline, 1.5 at a tie.

    A verdict that is a number is the chance of the name of the answer shown first. Where no verdict
    could be read the preference is nan.
    """
    value_of = {verdict.id: verdict.value for verdict in verdicts}
    values = []
    for group in questions.groups:
        value = value_of[group.id]
        chance = _CHANCE_OF_FIRST.get(value, value)
        if shown_first(group.id, seed):
            values.append(1 + chance)
        else:
            values.append(2 - chance)
    return np.array(values)


def score(
    questions: bench.Questions,
    answers: Sequence[Group],
    verdicts: Sequence[Verdict],
    published: Published | None = None,
    n_boot: int = 0,
    seed: int = 0,
) -> bench.JudgedScore:
    """The length-controlled win rate of a model against the baseline, in per cent, from verdicts.

    Paper: Table 4. The 95 % interval is that of the raw rate's SE, because the fit's own SE leaves
    out which instructions were drawn. The raw rate, its SE and the weights stand beside it. The
    measure is called "LC win rate" only for the published form; otherwise it names the form.

    Fewer verdicts than the fit has folds give no rate, nor does a fit whose penalty leaves none of
    the weights `COUNTED`.

    published: as `difficulties` gives them. They are of the 805 instructions and cannot be used for
        others.
    n_boot: not used here, where the error has a formula.
    seed: as for `asks`.
    """
    p = preferences(questions, verdicts, seed=seed)  # [N]
    is_read = ~np.isnan(p)  # [N]
    ids = [group.id for group in questions.groups]
    lengths = bench.characters(answers)  # [N]
    baseline_lengths = bench.characters(questions.baseline)  # [N]
    overall = (np.nan, np.nan, np.nan)
    form = MINIMAL
    beside: dict[str, float] = {}
    if is_read.sum() >= FOLDS and np.ptp(baseline_lengths - lengths):
        instructions = None
        if published is not None:
            instructions = [int(id) for id in ids]
        fit = length_controlled(
            p, lengths, baseline_lengths, published=published, instructions=instructions
        )
        form = fit.form
        weights = {
            f"weight {name}": weight for name, weight in fit.weights.items() if not np.isnan(weight)
        }
        # The rate leaves out phi. Where nothing else is left, it is one half, whatever was judged.
        if any(weights[name] for name in weights.keys() & COUNTED):
            half_width = 1.96 * fit.raw.standard_error
            overall = (fit.rate, fit.rate - half_width, fit.rate + half_width)
        beside = {
            RAW: fit.raw.rate,
            RAW_SE: fit.raw.standard_error,
            **weights,
        }
    measure = MEASURE
    if form != PUBLISHED:
        measure = f"LC win rate, {form.partition(':')[0]}, %"
    values = pd.Series(100 * (p - 1), index=ids, name=PREFERRED)
    return bench.JudgedScore(measure, overall, int((~is_read).sum()), values, beside)


def save_outputs(path: Path, model: str, answers: Sequence[Group]) -> Path:
    """Write answers as the alpaca_eval package takes them (`alpaca_eval --model_outputs`).

    The file is written whole or not at all.
    """
    rows = []
    for answer in answers:
        rows.append(
            {
                "instruction": answer.prompt[0].text,
                "output": answer.responses[0].text,
                "generator": model,
            }
        )
    write(Path(path), json.dumps(rows, indent=1, ensure_ascii=False).encode(errors="replace"))
    return Path(path)


# Length control


def win_rate(preferences: Sequence[float]) -> WinRate:
    """The raw win rate of preferences [N], each from 1 to 2.

    Paper: appendix H. A preference may also be nan, which is left out, or 0, an old way to write a
    draw. Equals the public leaderboard's figures on all 20 models of the mirror. Raises ValueError
    naming the first value out of range, or where no preference is left.
    """
    p = _checked(preferences) - 1  # [N]
    p = p[~np.isnan(p)]
    if not len(p):
        raise ValueError(
            "no preference among the values: every one is nan, so there is no win rate"
        )
    standard_error = np.nan
    if len(p) > 1:
        standard_error = 100 * p.std(ddof=1) / np.sqrt(len(p))
    return WinRate(100 * p.mean(), standard_error)


def length_controlled(
    preferences: Sequence[float],
    lengths: Sequence[float],
    baseline_lengths: Sequence[float],
    *,
    published: Published | None = None,
    instructions: Sequence[int] | None = None,
) -> LengthControlled:
    """The length-controlled win rate of one model.

    Paper: appendix H; the regression in the module's docstring. A subset of the instructions may be
    passed; say so where the figure is shown. Checked against alpaca_eval 0.6.6 on one file (1e-6).

    preferences: [N] as in `win_rate`.
    lengths, baseline_lengths: characters of the model's and the baseline's answers [N].
    published: with it the published form is fitted, without it the minimal one.
    instructions: which of the 805 each row is [N]; by default 0 .. N-1.

    Raises ValueError on shapes, values out of range, or answers that all differ by one length from
    the baseline's (nothing to standardise by).
    """
    raw = win_rate(preferences)
    p = _checked(preferences) - 1  # [N]
    delta = np.asarray(baseline_lengths, dtype=float) - np.asarray(lengths, dtype=float)  # [N]
    rows = np.arange(len(p)) if instructions is None else np.asarray(instructions, dtype=int)  # [N]
    if not p.shape == delta.shape == rows.shape:
        raise ValueError(
            f"one length and instruction for each of {p.shape} preferences: "
            f"{delta.shape}, {rows.shape}"
        )
    if not np.ptp(delta) > 0:
        raise ValueError(
            "every answer differs from the baseline's by one and the same length: "
            "nothing to standardise"
        )
    gamma = None
    form = MINIMAL
    if published is not None:
        n_known = len(published.difficulty)
        if rows.min() < 0 or rows.max() >= n_known:
            raise ValueError(f"{n_known} difficulties do not reach instruction {rows.max()}")
        gamma = published.difficulty[rows]  # [N]
        form = published.form
    X = _design(np.tanh(delta / delta.std(ddof=1)), gamma, 1.0)  # [N, weights]
    judged = ~np.isnan(p)
    X_train = X[judged]
    y = p[judged]
    row_weights = np.ones(judged.sum())
    if published is not None:
        gamed = published.gamed
        X_gamed = _design(
            np.tanh(gamed.std_delta_len.to_numpy()), gamed.instruction_difficulty.to_numpy(), 0.0
        )
        # The gamed rows come first, as in the published code: the folds and the solver depend on
        # the order of rows.
        X_train = np.concatenate([X_gamed, X_train])
        y = np.concatenate([gamed.preference.to_numpy(), y])
        row_weights = np.concatenate([np.full(len(X_gamed), GAMED_WEIGHT), row_weights])
    w = _fit(X_train, y, row_weights)
    X[:, 0] = 0.0  # at equal lengths
    chance = expit(X @ w)  # [N]
    if gamma is None:
        phi, theta = w
        psi = np.nan
    else:
        phi, psi, theta = w
    weights = {"phi": float(phi), "psi": float(psi), "theta": float(theta)}
    error = 100 * float(chance.std(ddof=1) / np.sqrt(len(chance)))
    return LengthControlled(100 * float(chance.mean()), error, form, weights, raw)


def difficulties(path: str | Path, folder: str | Path | None = None) -> Published | None:
    """The published file, where a path names it; else `recovered` from the mirror; else None.

    Paper: silent.

    folder: with alpaca_eval/, the mirror of `read_mirror`; by default HS2_DATA_DIR.
    """
    if path:
        return read_published(path)
    mirror = _mirror(folder)
    if mirror is None:
        return None
    rows, _, weights = read_mirror(mirror)
    return recovered(rows, weights)._replace(read=digests_by_place(mirror))


def recovered(rows: pd.DataFrame, weights: pd.DataFrame) -> Published:
    """What the published file says, as far as it follows from published fits.

    Paper: silent. The preferences and weights of these fits are known. An instruction's difficulty
    is the value with which the fits' own weights explain its preferences best, under a standard
    normal prior. The gamed baselines prefer as their weights say, at one SD shorter and longer.

    19 models, each left out in turn, come within .62 points of the leaderboard on average, and 2.3
    at most; the minimal form comes within 8.2.

    rows, weights: as `read_mirror` gives them, without the model to be judged, or it would explain
        itself.
    """
    deltas = rows.assign(delta=rows.baseline_length - rows.length).pivot(
        index="model", columns="i", values="delta"
    )  # [models, 805]
    p = rows.pivot(index="model", columns="i", values="preference").to_numpy() - 1  # [models, 805]
    fits = weights.loc[deltas.index]
    lengths = np.tanh(deltas.div(deltas.std(axis=1), axis=0))  # [models, 805]
    # The logits without the part of the difficulty.
    logits = lengths.mul(fits.phi, axis=0).add(fits.theta, axis=0).to_numpy()  # [models, 805]
    psi = fits.psi.to_numpy()[:, None]  # [models, 1]
    gamma = np.zeros(p.shape[1])  # [805]
    for _ in range(50):  # Newton's steps, kept short
        chance = expit(logits + psi * gamma)
        slope = np.nansum(psi * (p - chance), axis=0) - gamma
        curvature = 1 + np.nansum(psi**2 * chance * (1 - chance), axis=0)
        gamma = gamma + np.clip(slope / curvature, -1, 1)
    gamed = []
    for name, delta in (("concise", 1.0), ("verbose", -1.0)):
        fit = weights.loc[f"{BASELINE}_{name}"]
        frame = pd.DataFrame({"preference": expit(fit.phi * np.tanh(delta) + fit.psi * gamma)})
        gamed.append(frame.assign(std_delta_len=delta, instruction_difficulty=gamma))
    return Published(gamma, pd.concat(gamed, ignore_index=True), RECOVERED)


def read_published(path: Path | str) -> Published:
    """The published file `df_gamed.csv` (data set tatsu-lab/alpaca_eval on the Hub).

    Paper: silent. It has the difficulties and the gamed baselines. Raises ValueError naming the
    file and the column or instruction that is missing.
    """
    frame = pd.read_csv(path)
    columns = [
        "index",
        "preference",
        "std_delta_len",
        "instruction_difficulty",
        "not_gamed_baseline",
    ]
    missing = [name for name in columns if name not in frame]
    if missing:
        raise ValueError(f"{path}: no column {missing[0]!r}; expected {', '.join(columns)}")
    if frame[columns].isna().any(axis=None) or frame.not_gamed_baseline.astype(bool).any():
        raise ValueError(f"{path}: rows of gamed baselines only, without gaps, are expected")
    by_instruction = frame.drop_duplicates("index").set_index("index").instruction_difficulty
    without = sorted(set(range(by_instruction.index.max() + 1)) - set(by_instruction.index))
    if without:
        raise ValueError(f"{path}: no difficulty for instruction {without[0]}")
    gamed = frame[columns].reset_index(drop=True)
    return Published(by_instruction.sort_index().to_numpy(), gamed, read=digests_by_place(path))


def read_mirror(folder: Path | str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Three tables of a local copy: answers with preferences, the public leaderboard, the fits.

    Paper: silent. The first has rows (model, i, preference, length, baseline_length); the
    preference of an answer that was not judged is nan. The last has the weights phi, psi and theta
    of public fits by model.

    folder: with preferences_vs_gpt4_1106.csv.gz, outputs/<model>.jsonl.gz, leaderboard.csv and
        lc_weights.csv.

    Raises FileNotFoundError or KeyError naming what is missing.
    """
    folder = Path(folder)
    preferences = pd.read_csv(folder / "preferences_vs_gpt4_1106.csv.gz")
    lengths = {}
    for file in sorted((folder / "outputs").glob("*.jsonl.gz")):
        outputs = pd.read_json(file, lines=True, dtype=False)
        lengths[file.name.removesuffix(".jsonl.gz")] = outputs.set_index("i").output.str.len()
    rows = pd.concat(lengths, names=["model"]).rename("length").reset_index()
    rows = rows.merge(preferences, on=["model", "i"], how="left")
    rows = rows.assign(baseline_length=rows.i.map(lengths[BASELINE]))
    weights = pd.read_csv(folder / "lc_weights.csv", index_col=0)
    weights = weights.set_axis(["phi", "psi", "theta"], axis=1)
    leaderboard = pd.read_csv(folder / "leaderboard.csv", index_col=0)
    return rows[rows.model != BASELINE], leaderboard, weights


def _mirror(folder: str | Path | None) -> Path | None:
    """The folder of the mirror, or None where it has no leaderboard."""
    mirror = Path(folder or data() or "").expanduser() / "alpaca_eval"
    return mirror if (mirror / "leaderboard.csv").exists() else None


def _checked(preferences: Sequence[float]) -> np.ndarray:
    """Preferences as floats [N], a draw written 0 as 1.5; ValueError for one out of range."""
    p = np.asarray(preferences, dtype=float)
    p = np.where(p == 0, 1.5, p)
    wrong = np.flatnonzero((p < 1) | (p > 2))
    if len(wrong):
        raise ValueError(
            f"preference {wrong[0]} is {p[wrong[0]]}: expected 1 (baseline) to 2 (model), 0 or nan"
        )
    return p


def _design(length: np.ndarray, difficulty: np.ndarray | None, constant: float) -> np.ndarray:
    """The design matrix [N, 2 or 3]: length, difficulty where there is one, and a constant."""
    columns = [length]
    if difficulty is not None:
        columns.append(difficulty)
    columns.append(np.full(len(length), constant))
    return np.stack(columns, axis=1)


def _fit(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """L1-penalised logistic regression on chances y in [0, 1].

    The penalty is chosen by cross-validation on log loss. X: [N, k]; y, weight: [N]. Returns [k].
    """
    # A chance is a win and a loss, weighed.
    rows = np.arange(len(y))
    twice = np.concatenate([rows, rows])  # [2 N]
    label = np.repeat([1, 0], len(rows))  # [2 N]
    # A row of weight 0 is left out by the solver. In a fold with losses alone it would then know
    # one class, and take it for wins.
    share = np.maximum(np.concatenate([y, 1 - y]), 1e-9) * weight[twice]  # [2 N]
    folds = list(GroupKFold(n_splits=FOLDS).split(twice, label, groups=twice))
    search = LogisticRegressionCV(
        Cs=PENALTIES,
        cv=folds,
        scoring="neg_log_loss",
        use_legacy_attributes=False,
        # A handful of questions need more rounds than the usual 100. Large sets need fewer, and
        # their fits stay as they are.
        max_iter=10_000,
        solver="liblinear",
        l1_ratios=(1,),
        fit_intercept=False,
        # liblinear stops early enough for its random order to show in the fourth digit. The state
        # is published too.
        random_state=SEED,
    )
    return search.fit(X[twice], label, sample_weight=share).coef_[0]
