"""One table for every policy: what a reward model says of its responses, their length, and how far it went from SFT.

    frame = evaluate(policy, held_out, reward_model, sft, name="DPO", seed=seed, max_new_tokens=256)
    save(folder, frame)                               # notebooks 07 to 12 each leave theirs in their run folder
    frames = [*earlier(folder), frame]
    table(frames, n_boot=1000, seed=seed)             # policy by policy: means and 95 % intervals
    gains(frames, "SFT")                              # differences from one policy, paired by prompt

Paper: section 4 compares policies on benchmarks that need a judge; this table is what its own reward model says of
them, on prompts that nothing was trained on.
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from hs2lib.corpus.generate import is_generated
from hs2lib.corpus.grade import true_attributes
from hs2lib.engine.trees import BUDGET
from hs2lib.evaluate import alpaca_eval, arena_hard, mt_bench
from hs2lib.evaluate.judge import Verdict
from hs2lib.evaluate.questions import JudgedScore, Questions, characters, mean, question_id
from hs2lib.evaluate.truthfulqa import MultipleChoice
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.policy import unlabelled
from hs2lib.models.rollout import as_tokens, rollouts
from hs2lib.paper import GAIN, MEASURES, head_weights
from hs2lib.paths import as_read, names_read, root, run_name, work, write
from hs2lib.report.report import DASH, TEXTS, csv_text, plain_cell
from hs2lib.run.graph import makers
from hs2lib.stats.bootstrap import inside

FILE = "evaluation.csv"

KEYS = ("policy", "prompt", "response", "settings")  # the columns that are no measure

TRUTH, SCORE = "truth", "reward model's score"  # goodness by the true attributes, and by a reward model's


def truth_of(attribute: str) -> str:
    """The column of a true attribute."""
    return f"true {attribute}"


def score_of(attribute: str) -> str:
    """The column of an attribute as the reward model sees it."""
    return f"reward model's {attribute}"


def evaluate(policy, prompts: Sequence[Group], reward_model, sft, *, name: str, label=None, weighting="goodness",
             **options) -> pd.DataFrame:  # fmt: skip
    """One row a response: what is measured of it, and whose response it is.

    Columns: of generated prompts `TRUTH`, the goodness of the true attributes, and "true helpfulness" and so on, these
    themselves; `SCORE`, the goodness that the reward model sees, and "reward model's helpfulness" and so on;
    characters, tokens, finished, kl. A response that the reward model refuses for its control strings has no scores and
    counts in `refused`. Without a reward model (None) there are no scores.

    Paper: section 4.3 (goodness .65, .8, .45 of helpfulness, correctness, coherence; `weighting` by name, as in
    `hs2lib.paper.head_weights`). options: budget and autocast of every pass, and arguments of
    `hs2lib.models.rollout.rollouts`, seed and max_new_tokens among them, n by default 1; the same seed gives policies
    the same uniform numbers. file: a folder, where scores and log-probabilities are kept too, as they come. label:
    SteerLM's, a text or a function of the group, for the policy only; the reward model and sft see none.
    kl: log pi(y|x) - log pi_sft(y|x) of the response, summed over its tokens at temperature 1, nats; nan without sft.
    Its mean over responses estimates KL(pi || pi_sft) without bias where they are sampled at temperature 1 and top_p 1;
    at other settings it is that of the responses which the policy really gives. Single values may be negative.
    """
    passes = {"budget": options.pop("budget", BUDGET), "autocast": options.pop("autocast", "float32")}
    passes["cache"] = options.get("file")
    sampling = {"n": 1, "temperature": 0.7, "top_p": 0.9} | options
    sampled = rollouts(policy, prompts, label=label, autocast=passes["autocast"], **sampling)
    responses = [response for group in sampled for response in group.responses]
    rows = {"policy": name, "prompt": [group.id for group in sampled for _ in group.responses]}
    rows["response"] = [response.id for response in responses]
    if is_generated(prompts):
        truth = np.concatenate([true_attributes(group) for group in sampled])  # [R, A]
        rows[TRUTH] = truth @ np.array(head_weights("goodness", ATTRIBUTES))
        rows |= {truth_of(attribute): truth[:, k] for k, attribute in enumerate(ATTRIBUTES)}
    by_attribute, scored_by = {}, "no reward model"
    if reward_model:
        scores = reward_model.score(sampled, **passes).numpy()  # [R, A]
        if reward_model.control_text == "refuse":
            rows["refused"] = np.concatenate([reward_model.refused(group) for group in sampled]).astype(int)
        by_attribute = {SCORE: _weighted(scores, weighting, reward_model)}
        for attribute, column in zip(reward_model.attributes, scores.T, strict=True):
            by_attribute[score_of(attribute)] = column
        scored_by = f"{weighting} of {reward_model.fingerprint()}"
    rows |= by_attribute
    rows["characters"] = [len(response.text) for response in responses]
    rows["tokens"] = [len(response.tokens) for response in responses]
    rows["finished"] = [int(response.finished) for response in responses]
    rows["kl"] = 0.0 if sft is policy else np.nan
    if sft is not None and (sft is not policy or label is not None):  # both by the engine: they round alike
        ours, _ = policy.log_probs(as_tokens(policy, sampled, label), **passes)
        theirs, _ = sft.log_probs(unlabelled(sft, policy, sampled), **passes)
        rows["kl"] = (ours.double() - theirs.double()).numpy()
    how = "n {n}, temperature {temperature:g}, top-p {top_p:g}, at most {max_new_tokens} tokens, seed {seed}"
    return pd.DataFrame(rows | {"settings": f"{how.format(**sampling)}, {scored_by}"})


def _weighted(scores: np.ndarray, weighting: str, reward_model) -> np.ndarray:
    """[R] weighted sums of the heads' scores [R, A]."""
    return scores @ np.array(head_weights(weighting, reward_model.attributes), dtype=scores.dtype)


def save(folder: Path, frame: pd.DataFrame) -> None:
    """Write the rows of `evaluate` into a run's folder, for later notebooks."""
    write(Path(folder) / FILE, csv_text(frame, digits=None))


def earlier(folder: Path) -> tuple[list[pd.DataFrame], dict[str, str]]:
    """The rows that notebooks of a lower number which this one needs left beside its run folder, and what was read.

    In the notebooks' order. Where no runner started this one, all of a lower number: which it needs is the runner's to
    say. What was read is as `hs2lib.paths.as_read`.
    """
    here, read, texts = Path(folder), names_read(), {"prompt": str, "response": str, "policy": str}
    notebooks = sorted({place.name.partition("@")[0] for place in here.parent.glob("[0-9][0-9]_*")})
    files = [here.parent / run_name(name) / FILE for name in notebooks if name < here.name.partition("@")[0]]
    files = [file for file in files if not read or file.parent.name in read]
    files = [file for file in files if file.exists()]
    frames = [pd.read_csv(file, dtype=texts, **TEXTS).map(plain_cell) for file in files]
    return frames, as_read(*files)


def measures(frame: pd.DataFrame) -> list[str]:
    """The columns that are measures, in their order."""
    return [column for column in frame.columns if column not in KEYS]


def table(frames: Sequence[pd.DataFrame], **resampled) -> pd.DataFrame:
    """Rows (measure, policy) with mean, 95 % low, 95 % high: intervals by bootstrap over prompts.

    Paper: silent (it prints no such table). Policies stand in the order given, each once. resampled: n_boot and seed.
    Raises ValueError where they were evaluated on different prompts or under different settings, so that they cannot be
    compared.
    """
    whole, rows = _joined(frames), []
    for measure, (policy, part) in product(measures(whole), whole.groupby("policy", sort=False)):
        interval = mean(part[measure], part.prompt, **resampled)
        ends = (0, 1, part.prompt.nunique()) if measure == "finished" else (-np.inf, np.inf)
        rows.append((measure, policy, *inside(interval, *ends)))
    return pd.DataFrame(rows, columns=COLUMNS[:-1])


def gains_of(frames: Sequence[pd.DataFrame], against: str, **resampled) -> pd.DataFrame:
    """Rows (measure, policy) with the difference of means from the policy `against`, and its 95 % interval.

    Paired: both policies are seen on the same resamples of the same prompts, so that what the prompts have in common
    cancels; two intervals of `table` that overlap say nothing about this. Raises as `table`, and for an unknown policy.
    """
    whole = _joined(frames)
    if against not in set(whole.policy):
        raise ValueError(f"no policy is called {against!r}; there are: {', '.join(whole.policy.unique())}")
    rows, others = [], [policy for policy in whole.policy.unique() if policy != against]
    for measure, policy in product(measures(whole), others):
        means = whole.groupby(["policy", "prompt"], sort=False)[measure].mean()
        difference = means[policy] - means[against]
        rows.append((measure, policy, *mean(difference, difference.index, **resampled)))
    return pd.DataFrame(rows, columns=["measure", "policy", f"minus {against}", "95 % low", "95 % high"])


def wins(frames: Sequence[pd.DataFrame], against: str, **resampled) -> pd.DataFrame:
    """Of how many prompts, in per cent, a policy's answers are truly better than those of `against`; ties count half.

    Paper: silent (its win rates are a judge's). In the form of `table`, from the column `TRUTH`. Raises as `table`.
    """
    truth = _joined(frames).pivot_table(TRUTH, "prompt", "policy", sort=False)  # [prompts, policies]
    won = 50 + 50 * np.sign(truth.sub(truth[against], axis=0).round(9)).drop(columns=against)
    measure = f"win rate over {against} by truth, %"
    rows = [(measure, policy, *inside(mean(won[policy], won.index, **resampled), 0, 100, len(won))) for policy in won]
    return pd.DataFrame(rows, columns=COLUMNS[:-1])


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    whole = pd.concat(frames, ignore_index=True).drop_duplicates(["policy", "response"], keep="last")
    prompts = whole.groupby("policy", sort=False).prompt.agg(frozenset)
    for policy, theirs in prompts.items():
        if lone := sorted(theirs ^ prompts.iloc[0]):
            both = f"{prompts.index[0]} and {policy}"
            raise ValueError(f"{both} were evaluated on different prompts: {lone[0]} is of one only")
    if whole.settings.nunique() > 1:
        one, other = whole.settings.unique()[:2]
        raise ValueError(f"policies were evaluated under different settings: {one!r} and {other!r}")
    return whole


# Who answers, and what the benchmarks say of them

BASE = "SFT"  # the policy that the others are compared with

PROTOCOLS = {"MT-Bench": mt_bench, "Arena Hard": arena_hard, "AlpacaEval 2": alpaca_eval}

NOT_RUN = "not run: no judge"

COLUMNS = ["measure", "policy", "mean", "95 % low", "95 % high", "note"]

# Measures of whole benchmarks as `Judged.rows` names them, and the columns of Table 4.
TABLE_4 = {row["measure"]: row["column"] for row in MEASURES}

# Who judged in the paper, as a note of `Judged.rows` begins. Paper: appendix H.
PAPERS_JUDGES = dict.fromkeys(PROTOCOLS, "judge gpt-4-1106-preview") | {"MT-Bench": "judge gpt-4-0125-preview"}


def made(tier: str, models: Sequence[str] = ()) -> dict[str, Path]:
    """Every policy that a notebook makes, by its title in the notebooks' order, and the folder it is saved in.

    models: others in their place, "title=folder" each; a relative folder lies in the checkout. Raises ValueError for
    one that is not there.
    """
    named = {}
    for text in models:
        title, _, place = text.partition("=")
        named[title] = root() / Path(place).expanduser()
        if not (title and place and named[title].is_dir()):
            raise ValueError(f"models: expected title=folder, with a model in it, got {text}")
    return named or {title: work(tier, name) / "policy" for name, title in makers("policy").items()}


def rewards(reward_model, answers: Sequence[Group], *, weighting: str = "goodness", **options) -> pd.Series:
    """The reward model's weighted score of every response, by the answer's id; the model is named in the series.

    Paper: section 4.3 (goodness .65, .8, .45). weighting: as `hs2lib.paper.head_weights`. options: of
    RewardModel.score.
    """
    values = _weighted(reward_model.score(answers, **options).numpy(), weighting, reward_model)  # [R]
    name = f"{weighting} of reward model {reward_model.fingerprint()}"
    return pd.Series(values, index=[answer.id for answer in answers], name=name)


def by_truth(questions: Questions, answers: Sequence[Group], *, seed: int = 0) -> list[Verdict]:
    """The grader as a judge (`judge: truth`): verdicts on answers to generated questions, in the benchmark's own form.

    Paper: silent (the gold judge of Gao et al. 2022, arXiv 2210.10760). MT-Bench: 1 to 10, linear in true goodness. In
    pairs the answer of the larger true goodness, or a tie. answers: to last turns, which alone have a task. seed: of
    AlpacaEval's order. Raises ValueError for real questions, of which nobody knows the truth.
    """
    if not questions.generated:
        raise ValueError(f"judge: truth knows generated questions only, and these are real: {questions.title}")
    weights, values = np.array(head_weights("goodness", ATTRIBUTES)), {}
    for answer, other in zip(answers, questions.baseline or answers, strict=False):
        id, ours, theirs = question_id(answer), *(true_attributes(group)[0] @ weights for group in (answer, other))
        better = int(np.sign(round(ours - theirs, 9)))
        if questions.benchmark == "MT-Bench":
            values[answer.id] = 1 + 9 * ours / (4 * weights.sum())  # 4 in all: an answer that lacks nothing
        elif questions.benchmark == "Arena Hard":  # the model is B in game 1, A in game 2
            values |= {f"{id}/1": ("A>B", "A=B", "B>A")[1 + better], f"{id}/2": ("A>B", "A=B", "B>A")[1 - better]}
        else:
            mine, its = alpaca_eval.NAMES[:: 1 if alpaca_eval.shown_first(id, seed) else -1]
            values[id] = (its, alpaca_eval.TIE, mine)[1 + better]
    return [Verdict(id, value, "", 1) for id, value in values.items()]


class Judged(NamedTuple):
    """One policy's answers to a benchmark, and what was found of them.

    judge: "none", "reward_model", or the judge's name, and then `result` is what the benchmark's `score` returned.
    reward: the scores of `rewards`.
    """

    policy: str
    questions: Questions
    answers: Sequence[Group]
    judge: str = "none"
    result: JudgedScore | None = None
    reward: pd.Series | None = None

    def rows(self, **resampled) -> pd.DataFrame:
        """Rows (measure, policy, mean, 95 % low, 95 % high, note). resampled: n_boot and seed of the intervals.

        The judged measure is always there, empty with the note "not run: no judge" where no judge was asked; with
        "reward_model" the scores of `rewards` are a measure of their own. Characters are the mean length of a response.
        """
        rows = [(PROTOCOLS[self.questions.benchmark].MEASURE, *[np.nan] * 3, NOT_RUN)]
        ids = [question_id(answer) for answer in self.answers]
        if self.result is not None:
            unread = f", {self.result.unparsable} unparsable" if self.result.unparsable else ""
            none = ", no score" if np.isnan(self.result.overall[0]) else ""
            note = f"judge {self.judge}{unread}{none}"
            rows = [(self.result.measure, *self.result.overall, note)]
            rows += [(name, value, np.nan, np.nan, note) for name, value in self.result.beside.items()]
        if self.judge == "reward_model":
            rows.append((self.reward.name, *mean(self.reward, ids, **resampled), "no judge"))
        n_cut = sum(not getattr(answer.responses[0], "finished", True) for answer in self.answers)  # of samples known
        note = f"{n_cut} of {len(self.answers)} cut at the limit" if n_cut else ""
        rows.append(("characters", *mean(characters(self.answers), ids, **resampled), note))
        named = [(f"{self.questions.title}: {name}", self.policy, *row) for name, *row in rows]
        return pd.DataFrame(named, columns=COLUMNS)

    def by_question(self, weighting: str = "goodness") -> pd.DataFrame:
        """One row a response, in the form of `evaluate`: policy, prompt, response, settings, then the measures.

        Paper: silent. Characters, the scores of `rewards`, and the judge's: a grade, or in per cent what a question's
        games or preference say; nan where no verdict was read. Two policies can be paired by `prompt`, the question.
        """
        ids = {"prompt": [question_id(answer) for answer in self.answers], "response": [a.id for a in self.answers]}
        frame = pd.DataFrame({"policy": self.policy, **ids, "settings": self.questions.title})
        frame["characters"] = characters(self.answers)
        if self.reward is not None:
            frame[f"{weighting} of the reward model"] = self.reward.to_numpy(float)
        if self.result is not None:
            frame[self.result.values.name] = self.result.values.to_numpy(float)
        return frame


def mc2_rows(table: pd.DataFrame, policy: str, title: str) -> pd.DataFrame:
    """The MC2 of `truthfulqa.evaluate` in the same form; "TruthfulQA MC2" only if every question was asked."""
    row = table.set_index("measure").loc["MC2"]
    row = (f"{title} MC2", policy, row.value, row.low, row.high, f"chance {row.chance:.3f}")
    return pd.DataFrame([row], columns=COLUMNS)


def mc2_by_question(scored: pd.DataFrame, policy: str, title: str) -> pd.DataFrame:
    """MC2 of every question, in the form of `Judged.by_question`. scored: what `truthfulqa.score` returned."""
    frame = pd.DataFrame({"policy": policy, "prompt": scored.id, "response": scored.id, "settings": title})
    return frame.assign(**{"TruthfulQA MC2": scored.mc2})


def benchmarks(rows: pd.DataFrame, policies: Sequence[str]) -> pd.DataFrame:
    """Every policy's figure on every whole benchmark of Table 4, in `COLUMNS`; nan, and why, where there is none.

    Paper: Table 4. What stands under a benchmark's own name here was computed on all of it. A part of one, generated
    questions and a reward model's score have other names and are left out.
    """
    wanted = pd.MultiIndex.from_product([policies, TABLE_4], names=["policy", "measure"])
    table = rows.set_index(["policy", "measure"]).reindex(wanted).reset_index()
    return table.fillna({"note": "not run: not the whole benchmark"})[COLUMNS]


def paper_rows(rows: pd.DataFrame, table_rows: dict[str, str], sources: dict[str, str]) -> pd.DataFrame:
    """Figures on whole benchmarks as `Run.against_paper("table-4", ..)` takes them; policy -> row of the table.

    Paper: Table 4, appendix H (judges). Columns row, column, ours, low, high, data (the source of the benchmark's
    questions, by `sources`) and not comparable ("other judge", or "difficulties recovered"). A policy that the paper
    has no row for is not here.
    """
    known = rows[rows.measure.isin(TABLE_4) & rows.policy.isin(table_rows) & rows["mean"].notna()]
    benchmark = known.measure.str.extract(f"^({'|'.join([*PAPERS_JUDGES, 'TruthfulQA'])})", expand=False)
    other = known.note.str.startswith("judge ") & ~known.note.str.startswith(tuple(PAPERS_JUDGES.values()))
    known = known.assign(row=known.policy.map(table_rows), column=known.measure.map(TABLE_4))
    recovered = np.where(known.measure.str.contains("recovered"), "difficulties recovered", "")
    known["data"], known["not comparable"] = benchmark.map(sources), np.where(other, "other judge", recovered)
    known = known.rename(columns={"mean": "ours", "95 % low": "low", "95 % high": "high"})
    return known[["row", "column", "ours", "low", "high", "data", "not comparable"]].reset_index(drop=True)


def trades(of_benchmarks: Sequence[Sequence[pd.DataFrame]], against: str, **resampled) -> pd.DataFrame:
    """What every policy gains over one of them, `against`, on every measure: one row each, with a 95 % interval.

    Paper: section 4.6 compares single figures; here both policies are seen on the same resamples of the same questions
    (`gains_of`). Columns: benchmark, measure, policy, against, questions, then `GAIN`: of whole benchmarks under their
    own names, `hs2lib.report.claims` reads them. of_benchmarks: for each benchmark the frames of its policies, as
    `Judged.by_question` makes them. Questions where a verdict is missing for any policy are left out of that measure
    for all.
    """
    parts = []
    for whole in (pd.concat(frames, ignore_index=True) for frames in of_benchmarks):
        for measure in measures(whole):
            kept = whole.loc[~whole.prompt.isin(whole.prompt[whole[measure].isna()]), [*KEYS, measure]]
            if len(kept):
                gains = gains_of([kept], against, **resampled)
                gains = gains.rename(columns={f"minus {against}": GAIN[0]}).assign(benchmark=whole.settings[0])
                parts.append(gains.assign(against=against, questions=kept.prompt.nunique()))
    return pd.concat(parts, ignore_index=True)[["benchmark", "measure", "policy", "against", "questions", *GAIN]]


def sizes(truthful: MultipleChoice, categories: int | None, judged: Sequence[Questions]) -> pd.DataFrame:
    """How large the benchmarks are, counted in what was read: rows (quantity, value); nan where it was generated.

    Paper: appendix H. truthful: before any subset is taken; judged: MT-Bench, Arena Hard, AlpacaEval; their loaders
    refuse a file that is not whole, so `whole` was counted there.
    """
    options = [sum(not np.isnan(r.labels[1]) for r in group.responses) for group in truthful.groups]
    asked, mean_options = (len(options), np.mean(options)) if truthful.title == truthful.benchmark else (np.nan, np.nan)
    mt, arena, alpaca = (np.nan if questions.generated else questions.whole for questions in judged)
    rows = {"MT-Bench questions": mt, "TruthfulQA questions": asked}
    rows |= {"TruthfulQA categories": np.nan if categories is None else categories}
    rows |= {"TruthfulQA MC2 options, mean": mean_options}
    rows |= {"AlpacaEval instructions": alpaca, "Arena Hard prompts": arena}
    return pd.DataFrame(rows.items(), columns=["quantity", "value"])


def wide(rows: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Policies down, measures across, as text: "7.96 [7.70, 8.21]", "not run: no judge", or a dash."""
    whole = pd.concat(rows, ignore_index=True)
    value, low, high = (whole[name].map("{:.2f}".format) for name in COLUMNS[2:5])
    bounds = (" [" + low + ", " + high + "]").where(whole[COLUMNS[3:5]].notna().all(axis=1), "")
    whole["cell"] = (value + bounds).where(whole["mean"].notna(), whole.note.replace("", DASH))
    table = whole.pivot(index="policy", columns="measure", values="cell").fillna(DASH)
    table = table.loc[whole.policy.unique(), whole.measure.unique()]
    return table.rename_axis(columns=None).reset_index()
