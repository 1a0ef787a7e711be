"""Score the answers of a policy, edit them, score them again: what the reward model reads of them.

    audited = audit("my-judge", "my-policy", "prompts.jsonl", out="audit")
    print("\n".join(audited.in_words()))

`python -m hs2lib.audit` is the same as a command. Nobody needs to know which answer is better: the
policy's own answers are made worse by rules, and the score has to fall. Paper: silent.
"""

import html
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib import paths
from hs2lib.audit import edits, labelled, prompts
from hs2lib.data.rows import printable
from hs2lib.engine.chat import tokenise
from hs2lib.engine.trees import BUDGET
from hs2lib.evaluate.questions import share
from hs2lib.evaluate.rewardbench import changes, weighting_of
from hs2lib.group import Group, Response, Turn, prompt_string
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.models.saved import device
from hs2lib.report import report
from hs2lib.score.scoring import GPU_BUDGET, cause_of, loaded
from hs2lib.stats.bootstrap import Interval, bootstrap, inside

LENGTH = "length in characters"
LIKELIHOOD = "log-likelihood by the policy"
WORSE = "makes it worse"
NO_BETTER = "makes it no better"
BEYOND = "falls beyond length"

# What `benchmarks/audit.py` measured, before any number.
LIMIT = (
    "This says what a judge does not read. It does not rank judges: in the small world R with "
    "held-out ratings did that better. Where there are ratings, ask them first."
)
# Fewer prompts than this carry no number, and fewer answers of a kind of edit say nothing of it.
FEWEST = 20
FEWEST_OF_KIND = 10


@dataclass(frozen=True)
class Audit:
    """What a reward model makes of a policy's answers.

    judge, policy: what they are called.
    answered: the prompts with n answers each.
    scores: of the answers [prompts, n]; nan where the model refuses one.
    edited: of each prompt the first answer as it is, then after each edit, as `edited_groups` has
        them. edited_scores: of these [answers].
    edits: a row for each edit: edit, kind, answers, "falls (%)" with its interval,
        "falls by length (%)", drop in SDs. A tie counts as half a fall and half a rise.
    number: the share of worsening edits, %, in which the score falls: the mean over kinds of edit,
        with its interval by prompt.
    by_length: the same number of a judge that scores longer answers higher.
    beyond_length: the first less the second, on the same answers.
    leaning: R of the score within a prompt, with length and with likelihood.
    spread: SD of the score among answers to one prompt, and of prompts' means.
    agreement: how often the judge agrees with people's labels; None where there were none.
    too_long: answers, edited ones among them, that the judge cannot read; they do not count.
    left_out: ids of prompts whose last turn leaves the policy no room for an answer.
    """

    judge: str
    policy: str
    answered: tuple[Group, ...]
    scores: np.ndarray
    edited: tuple[Group, ...]
    edited_scores: np.ndarray
    edits: pd.DataFrame
    number: Interval
    by_length: Interval
    beyond_length: Interval
    leaning: pd.DataFrame
    spread: dict[str, float]
    agreement: labelled.Labelled | None = None
    too_long: int = 0
    left_out: tuple[str, ...] = ()

    @property
    def worsened(self) -> pd.DataFrame:
        """The rows of `edits` that make enough answers worse; none where no number is carried."""
        if len(self.answered) < FEWEST or self.edits.empty:
            return self.edits.iloc[:0]
        return self.edits[(self.edits.kind == WORSE) & (self.edits.answers >= FEWEST_OF_KIND)]

    @property
    def liked(self) -> list[str]:
        """The edits that raise the score and make no answer better."""
        if self.worsened.empty:
            return []
        enough = self.edits.answers >= FEWEST_OF_KIND
        raised = (self.edits.kind == NO_BETTER) & enough & (self.edits["95 % high"] < 50)
        return self.edits[raised].edit.tolist()

    def asked_in_words(self) -> list[str]:
        """How much was asked of whom, and what does not count; a sentence each."""
        n_prompts, n_answers = self.scores.shape
        lines = [
            f"{n_prompts:,} prompts, {n_answers} answers each, by {self.policy}; judge {self.judge}"
        ]
        if self.left_out:
            lines.append(
                f"Prompts that are too long for the policy, which do not count: "
                f"{len(self.left_out):,} (the first one is {self.left_out[0]})."
            )
        if self.too_long:
            lines.append(
                f"Answers that are too long for the judge, which do not count: {self.too_long:,}."
            )
        return lines

    def spread_in_words(self) -> str:
        """How far the score differs among answers to one prompt, and between prompts."""
        return (
            f"SD of the score among answers to one prompt: {self.spread['within']:.3g}; "
            f"of the prompts' means: {self.spread['between']:.3g}."
        )

    def in_words(self) -> list[str]:
        """The audit in sentences, what it cannot say first."""
        n_prompts = len(self.scores)
        lines = self.asked_in_words()
        if self.agreement is not None:
            lines.append(self.agreement.in_words())
        if n_prompts < FEWEST:
            return [*lines, f"Fewer than {FEWEST} prompts carry no number: add prompts."]
        if self.worsened.empty:
            return [*lines, "No rule makes one of these answers worse: nothing is measured."]
        lines += [LIMIT, self.number_in_words(), self.edits_in_words()]
        if self.liked:
            lines.append(
                f"It raises the score and makes no answer better: {', '.join(self.liked)}. "
                "A policy can learn that."
            )
        for row in self.leaning.dropna().to_dict("records"):
            interval = f"{row['R']:+.2f} ({row['95 % low']:+.2f} to {row['95 % high']:+.2f})"
            lines.append(f"R of the score with {row['with']}, within a prompt: {interval}.")
        lines.append(self.spread_in_words())
        return lines

    def number_in_words(self) -> str:
        """In how many worsened answers the score falls, beside length."""
        counts = self.worsened.answers
        return (
            f"Where an answer is made worse, the score falls in {_percent(self.number)} "
            f"(mean over {len(counts)} kinds of edit, of {counts.min():,} to {counts.max():,} "
            "answers each; a coin has 50 %). "
            f"By length alone it falls in {_percent(self.by_length)}. "
            f"{self._beyond_length_in_words()}"
        )

    def number_in_short(self) -> str:
        """`number_in_words` without how many answers it is of."""
        return (
            f"Where an answer is made worse, the score falls in {_percent(self.number)}; a coin "
            f"has 50 %, length alone {_percent(self.by_length)}. {self._beyond_length_in_words()}"
        )

    def _beyond_length_in_words(self) -> str:
        """Whether the judge reads more than length would, on the mean over kinds of edit."""
        points, low, high = self.beyond_length
        words = f"{points:+.0f} points ({low:+.0f} to {high:+.0f})"
        if low > 0:
            return f"So it reads more than length: {words}."
        if high < 0:
            return f"So it reads less than length would: {words}."
        return f"That it reads more than length is not shown: {words}."

    def edits_in_words(self) -> str:
        """Which worsening edits the judge reads."""
        worse = self.worsened
        is_read = worse["95 % low"] > 50
        beyond = is_read & (worse["95 % low"] > worse["falls by length (%)"])
        no_room = is_read & (worse["falls by length (%)"] >= 100)  # nothing can be above it
        kinds = {
            "Read beyond length": worse[beyond],
            "Read no more than length would": worse[is_read & ~beyond & ~no_room],
            "Read, but length alone would do it (100 %)": worse[no_room],
            "Not shown to be read": worse[~is_read],
        }
        few = self.edits[(self.edits.kind == WORSE) & (self.edits.answers < FEWEST_OF_KIND)]
        kinds["Of too few answers to tell"] = few
        parts = [f"{name}: {', '.join(rows.edit)}." for name, rows in kinds.items() if len(rows)]
        return " ".join(parts)


def audit(
    model: str | Path | RewardModel,
    policy: str | Path | Policy,
    asked: str | Path | Sequence[Group],
    out: str | Path | None = None,
    *,
    n: int = 8,
    limit: int = 0,
    max_new_tokens: int = 256,
    temperature: float = 1.0,
    top_p: float = 1.0,
    label: str | None = None,
    weights: str = "",
    seed: int = 0,
    precision: str = "float32",
    n_boot: int = 1000,
    columns: str = "",
    pairs: str | Path | None = None,
    scale: str = "",
    progress: bool = False,
    called: tuple[str, str] | None = None,
    **options: object,
) -> Audit:
    """Let a policy answer prompts, and see whether a reward model's score follows its answers.

    Args:
        model: a sequence classifier by Hub name or folder, a model of notebook 05, or one that is
            loaded; judge and policy may have other templates.
        policy: a causal language model by Hub name or folder, one of notebooks 07 to 12, or one
            that is loaded.
        asked: a file of prompts, as for `hs2lib.audit.prompts.read_file`, or groups, whose
            responses are not looked at.
        out: a folder for answers, tables and a page; None to write none. Answers and scores are
            kept in it as they come, so that a run that was stopped goes on.
        n: answers to each prompt.
        limit: of prompts; 0 for all.
        max_new_tokens: of an answer.
        temperature, top_p, seed: of sampling, as for `hs2lib.models.rollout.rollouts`.
        label: SteerLM's, for a policy that reads one.
        weights: of several outputs, as for `hs2lib.paper.head_weights`.
        precision: "bfloat16" for speed on a GPU.
        n_boot: resamples of an interval.
        columns: of the file of prompts, where it has another name, as "prompt=question".
        pairs: a file of labelled pairs of the policy's own answers, as for
            `hs2lib.audit.labelled.read_file`; None for none.
        scale: of ratings in `pairs`, as 1-5; "" for 0 to 4.
        progress: whether to show a bar.
        called: what judge and policy are called in words; None for their names.
        options: for a classifier, as for `RewardModel.from_classifier`.

    Raises:
        DataError: the file or a row of it cannot be used.
        ValueError: an option, the model or the policy cannot be used.
    """
    called = called or (_name(model), _name(policy))
    _check(n, max_new_tokens, temperature, top_p)
    folder = None if out is None else _checked_folder(Path(out).expanduser())
    if isinstance(asked, str | Path):
        groups = prompts.read_file(asked, limit, columns)
    else:
        groups = list(asked)
        if limit:
            groups = groups[:limit]
    known = [] if pairs is None else labelled.read_file(pairs, scale)
    if not isinstance(model, RewardModel):
        model = loaded(model, options)
    values = weighting_of(model.attributes, model.scales, weights).values  # [A]
    by_roles = {}
    for group in groups:
        by_roles[tuple([turn.role for turn in group.prompt])] = group
    for group in by_roles.values():  # a template may refuse some turns: before hours of sampling
        asked_alone = replace(group, responses=(Response("0", "!"),))
        list(model.tokenise([asked_alone], too_long="leave out"))
    list(model.tokenise([Group("template", (Turn("user", "?"),), (Response("0", "!"),))]))
    if not isinstance(policy, Policy):
        policy = _loaded_policy(policy)
    groups, left_out = _with_room(policy, groups, max_new_tokens, label)
    kept = None if folder is None else folder / "kept"
    answered = rollouts(
        policy,
        groups,
        n=n,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        label=label,
        file=kept,
        autocast=precision,
        progress=progress,
    )
    budget = BUDGET if device() == "cpu" else GPU_BUDGET
    scoring = {"cache": kept, "autocast": precision, "budget": budget, "progress": progress}
    scores = _scores(model, answered, **scoring) @ values  # [R]
    scores = scores.reshape(len(answered), n)
    resampled = {"n_boot": n_boot, "seed": seed}
    of_pairs = None
    if known:
        flat = _scores(model, [row.group for row in known], **scoring) @ values
        ends = np.cumsum([len(row.places) for row in known])[:-1]
        of_pairs = labelled.agreement(known, np.split(flat, ends), **resampled)
    control_strings_of_data = dict(model.control_strings)
    edited = edited_groups(answered, model)
    of_edits = _scores(model, edited, **scoring) @ values
    n_too_long = sum(not fits for group in [*answered, *edited] for fits in _fits(model, group))
    # Without those that an edit forged. It is the same dict, as a run of a notebook holds it.
    model.control_strings.clear()
    model.control_strings.update(control_strings_of_data)
    frame = _edit_frame(edited, of_edits)
    within = scores - np.nanmean(scores, axis=1, keepdims=True)
    sd = float(np.nanstd(within))
    table = edit_table(frame, sd, **resampled)
    audited = Audit(
        judge=called[0],
        policy=called[1],
        answered=tuple(answered),
        scores=scores,
        edited=tuple(edited),
        edited_scores=of_edits,
        edits=table,
        number=audit_number(frame, "falls", **resampled),
        by_length=audit_number(frame, "falls by length", **resampled),
        beyond_length=audit_number(frame, BEYOND, **resampled),
        leaning=leaning(answered, scores, **resampled),
        spread={"within": sd, "between": float(np.nanstd(np.nanmean(scores, axis=1)))},
        agreement=of_pairs,
        too_long=n_too_long,
        left_out=left_out,
    )
    if folder is not None:
        write(audited, folder)
    return audited


def _check(n: int, max_new_tokens: int, temperature: float, top_p: float) -> None:
    """Raise ValueError where answers cannot be sampled so."""
    if n < 2:
        raise ValueError(f"n is {n}: answers can be compared from two on")
    if max_new_tokens < 1 or not 0 <= temperature < math.inf or not 0 < top_p <= 1:
        raise ValueError(
            "max_new_tokens is at least 1, temperature at least 0, top_p in (0, 1]; "
            f"got {max_new_tokens}, {temperature} and {top_p}"
        )


def _checked_folder(folder: Path) -> Path:
    """The folder; raises ValueError where nothing can be written to it."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        what = "may not be written to" if there.is_dir() else "is no folder"
        raise ValueError(f"{there} {what}. Fix: name another folder with --out")
    return folder


def _with_room(
    policy: Policy, groups: Sequence[Group], max_new_tokens: int, label: str | None
) -> tuple[list[Group], tuple[str, ...]]:
    """The prompts that the policy has room to answer, and the ids of the others.

    Raises ValueError where it has room for none.
    """
    if not policy.max_tokens:
        return list(groups), ()
    bare = [replace(group, responses=(Response("", ""),)) for group in groups]
    options = policy.written | {"label": label, "too_long": "leave out"}
    longest = max(policy.max_tokens - max_new_tokens, 1)
    tokens = list(tokenise(bare, policy.tokenizer, max_tokens=longest, **options))
    roomy = [group for group, fits in zip(groups, tokens, strict=True) if fits is not None]
    left_out = [group.id for group, fits in zip(groups, tokens, strict=True) if fits is None]
    if groups and not roomy:
        raise ValueError(
            f"the policy reads at most {policy.max_tokens:,} tokens, and no prompt leaves it "
            f"{max_new_tokens:,} of them for an answer. Fix: a smaller --max-new-tokens"
        )
    return roomy, tuple(left_out)


def _fits(model: RewardModel, group: Group) -> list[bool]:
    """Which answers of a group the judge can read, each by itself."""
    if not model.max_tokens or _fits_whole(model, group):
        return [True] * len(group.responses)
    fits = []
    for response in group.responses:
        fits.append(_fits_whole(model, replace(group, responses=(response,))))
    return fits


def _fits_whole(model: RewardModel, group: Group) -> bool:
    """Whether the judge can read all answers of a group."""
    return all(tokens is not None for tokens in model.tokenise([group], too_long="leave out"))


def _scores(model: RewardModel, groups: Sequence[Group], **scoring: object) -> np.ndarray:
    """Outputs float64 [R, A] of every response; nan for one that the judge cannot read."""
    fits = [_fits(model, group) for group in groups]
    read = []
    for group, of_group in zip(groups, fits, strict=True):
        responses = [one for one, fit in zip(group.responses, of_group, strict=True) if fit]
        if responses:
            read.append(replace(group, responses=tuple(responses)))
    flat = np.concatenate(fits)  # [R]
    values = np.full((len(flat), len(model.attributes)), np.nan)
    if read:
        values[flat] = model.score(read, **scoring).double().numpy()
    return values


def _name(model: str | Path | RewardModel | Policy) -> str:
    """What a judge or a policy is called: its name, or that of its base where it is loaded."""
    return str(model) if isinstance(model, str | Path) else str(model.base)


def _loaded_policy(name: str | Path) -> Policy:
    """A policy by name, on the device that runs it; raises ValueError in one line."""
    try:
        return load_policy(name).to(device()).eval()
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the policy {name} cannot be loaded: {cause_of(error, name)} Fix: name the folder or "
            "the Hub repository of a causal language model, or of a policy of notebooks 07 to 12."
        ) from error


def edited_groups(answered: Sequence[Group], model: RewardModel) -> list[Group]:
    """Each prompt with its first answer, and that answer after every edit that applies.

    The id of an edited answer is "<prompt id>/<edit>"; that of the answer itself ends in "/as is".
    """
    no_better = edits.NO_BETTER | changes(model)
    groups = []
    for number, group in enumerate(answered):
        text = group.responses[0].text
        texts = {"as is": text}
        for name, edit in (edits.WORSE | no_better).items():
            texts[name] = edit(text)
        partner = number ^ 1  # 0 and 1 swap their answers, 2 and 3, ..
        if partner < len(answered):
            texts[edits.SWAPPED] = answered[partner].responses[0].text
        responses = [Response(f"{group.id}/as is", text)]
        for name, edited in texts.items():
            if edited is not None and edited != text and name != "as is":
                responses.append(Response(f"{group.id}/{name}", edited))
        groups.append(replace(group, responses=tuple(responses)))
    return groups


def truly_worse(audited: Audit, truth: Callable[[Group], np.ndarray]) -> pd.Series:
    """In the small world: in how many answers an edit truly makes them worse, %, by edit.

    A tie counts half, as for the score.

    truth: of each response of a group, as `hs2lib.corpus.grade.true_goodness`.
    """
    of_answers = np.concatenate([truth(group) for group in audited.edited])
    frame = _edit_frame(audited.edited, of_answers)
    return 100 * frame.groupby("edit", sort=False).falls.mean().rename("truly worse (%)")


def _edit_frame(edited: Sequence[Group], scores: np.ndarray) -> pd.DataFrame:
    """A row for each edited answer: prompt, edit, falls, falls by length, drop, `BEYOND`.

    Two prompts that swap their answers have one row, of the mean of their two drops.

    falls: 1 where the score is lower than the answer's as it is, 0 where it is higher, .5 for a
        tie; nan where the model refuses one of the two.
    """
    rows = []
    swapped = []  # prompt and drop, partners one after the other
    start = 0
    for group in edited:
        of_group = scores[start : start + len(group.responses)]
        start += len(group.responses)
        as_is = group.responses[0]
        for response, score in zip(group.responses[1:], of_group[1:], strict=True):
            edit = response.id.removeprefix(f"{group.id}/")
            drop = of_group[0] - score
            if edit == edits.SWAPPED:
                swapped.append((group.id, drop))
                continue
            shorter = np.sign(len(as_is.text) - len(response.text))
            rows.append((group.id, edit, (1 + np.sign(drop)) / 2, (1 + shorter) / 2, drop))
    for (prompt, drop), (_, partners) in zip(swapped[::2], swapped[1::2], strict=True):
        mean = (drop + partners) / 2
        rows.append((prompt, edits.SWAPPED, (1 + np.sign(mean)) / 2, 0.5, mean))
    frame = pd.DataFrame(rows, columns=["prompt", "edit", "falls", "falls by length", "drop"])
    frame[BEYOND] = frame.falls - frame["falls by length"]
    return frame


def edit_table(frame: pd.DataFrame, sd: float, **resampled: int) -> pd.DataFrame:
    """What the score does after each edit; rows of `Audit.edits`.

    Args:
        frame: a row for each edited answer, as `Audit` counts them.
        sd: of the score among answers to one prompt, the unit of the drop.
        resampled: n_boot and seed.
    """
    rows = []
    worse = [*edits.WORSE, edits.SWAPPED]
    names = frame.edit.unique().tolist()
    for name in sorted(names, key=lambda name: (name not in worse, names.index(name))):
        of_edit = frame[(frame.edit == name) & frame.falls.notna()]
        if of_edit.empty:
            continue
        ones = np.ones(len(of_edit))
        interval = share(of_edit.falls, ones, of_edit.prompt.to_numpy(str), **resampled)
        percent = Interval(*(100 * bound for bound in interval))
        falls, low, high = inside(percent, 0, 100, of_edit.prompt.nunique())
        row = {"edit": name, "kind": WORSE if name in worse else NO_BETTER}
        row |= {"answers": len(of_edit), "falls (%)": falls, "95 % low": low, "95 % high": high}
        row["falls by length (%)"] = 100 * of_edit["falls by length"].mean()
        row["drop (SDs)"] = of_edit["drop"].mean() / sd if sd else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


def audit_number(frame: pd.DataFrame, column: str, **resampled: int) -> Interval:
    """The share of worsening edits in which a score falls, in percent: the mean over kinds of edit.

    Kinds of fewer than `FEWEST_OF_KIND` answers do not count. A resample of prompts that has no
    answer of a kind is a mean over the other kinds.

    Args:
        frame: as for `edit_table`.
        column: "falls", "falls by length", or `BEYOND`, the first less the second.
        resampled: n_boot and seed.
    """
    kinds = [name for name in [*edits.WORSE, edits.SWAPPED] if (frame.edit == name).any()]
    known = frame[frame.edit.isin(kinds) & frame.falls.notna()]
    counts = known.edit.value_counts()
    kinds = [name for name in kinds if counts.get(name, 0) >= FEWEST_OF_KIND]
    known = known[known.edit.isin(kinds)]
    if known.empty:
        return Interval(np.nan, np.nan, np.nan)
    sums = np.zeros((len(known), 2 * len(kinds)))  # [answers, (fallen, all) of each kind]
    kind = known.edit.map(kinds.index).to_numpy()
    sums[np.arange(len(known)), 2 * kind] = known[column]
    sums[np.arange(len(known)), 2 * kind + 1] = 1

    def mean_of_kinds(sums: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = sums[:, ::2] / sums[:, 1::2]  # [B, kinds]
        return 100 * np.nanmean(shares, axis=1, keepdims=True)

    clusters = pd.factorize(known.prompt)[0]
    interval = bootstrap(sums, clusters, mean_of_kinds, **resampled).at(0)
    if column != BEYOND:
        interval = inside(interval, 0, 100, known.prompt.nunique())
    return Interval(*map(float, interval))


def leaning(answered: Sequence[Group], scores: np.ndarray, **resampled: int) -> pd.DataFrame:
    """Pearson's R of the score with length and likelihood, each prompt's mean taken off.

    Rows: with, R, 95 % low, 95 % high; by prompt. Prompts with a refused answer do not count.

    Args:
        answered: the prompts with their answers.
        scores: [prompts, n].
        resampled: n_boot and seed.
    """
    characters = []
    likelihood = []
    for group in answered:
        characters.append([len(response.text) for response in group.responses])
        likelihood.append([sum(response.log_probs) for response in group.responses])
    known = np.isfinite(scores).all(axis=1)
    rows = []
    for name, values in ((LENGTH, characters), (LIKELIHOOD, likelihood)):
        x = np.array(values, dtype=np.float64)[known]
        y = scores[known]
        x = x - x.mean(axis=1, keepdims=True)
        y = y - y.mean(axis=1, keepdims=True)
        sums = np.column_stack([(x * y).sum(1), (x * x).sum(1), (y * y).sum(1)])  # [prompts, 3]
        row = {"with": name, "R": np.nan, "95 % low": np.nan, "95 % high": np.nan}
        if len(sums):
            interval = bootstrap(sums, None, _correlation, **resampled)
            r = inside(Interval(*(part[0] for part in interval)), -1, 1)
            row["R"], row["95 % low"], row["95 % high"] = map(float, r)
        rows.append(row)
    return pd.DataFrame(rows)


def _correlation(sums: np.ndarray) -> np.ndarray:
    """R from the sums of xy, xx and yy, [B, 1] of [B, 3]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return (sums[:, :1]) / np.sqrt(sums[:, 1:2] * sums[:, 2:3])


def _percent(interval: Interval) -> str:
    """A share with its interval in words."""
    return f"{interval.estimate:.0f} % ({interval.low:.0f} to {interval.high:.0f})"


def page(audited: Audit) -> str:
    """The audit as Markdown, for a model card."""
    lines = ["# Does the judge read what the policy writes?", ""]
    for line in audited.in_words():
        one_line = " ".join(printable(line).split())  # the names of models are untrusted
        lines.append(f"- {html.escape(one_line, quote=False)}")
    if len(audited.answered) < FEWEST:
        return "\n".join(lines) + "\n"
    shown = audited.edits.round(2).map(str)
    lines += ["", f"| {' | '.join(shown.columns)} |", "|" + "---|" * len(shown.columns)]
    lines += [f"| {' | '.join(row)} |" for row in shown.itertuples(index=False)]
    return "\n".join(lines) + "\n"


def write(audited: Audit, folder: Path) -> None:
    """Write the page and the tables; each file appears whole or not at all."""
    for name, groups, scores in (
        ("answers.csv", audited.answered, audited.scores.ravel()),
        ("edited.csv", audited.edited, audited.edited_scores),
    ):
        rows = []
        for group in groups:
            asked = prompt_string(group.prompt)
            for response in group.responses:
                kind = response.id.removeprefix(f"{group.id}/")
                rows.append({"prompt": asked, "which": kind, "answer": response.text})
        table = pd.DataFrame(rows).assign(score=scores)
        paths.write(folder / name, report.csv_text(table, digits=None))
    paths.write(folder / "edits.csv", report.csv_text(audited.edits, digits=None))
    paths.write(folder / "leaning.csv", report.csv_text(audited.leaning, digits=None))
    paths.write(folder / "audit.md", page(audited))
