"""One row a response, for every policy: the truth, a reward model's score, length, distance from
SFT.

    frame = evaluate(policy, held_out, reward_model, sft, name="DPO", seed=seed, max_new_tokens=256)
    save(folder, frame)                               # notebooks 07 to 12 each leave theirs in their run folder
    frames, read = earlier(folder)
    table([*frames, frame], n_boot=1000, seed=seed)   # policy by policy: means and 95 % intervals
    gains_of([*frames, frame], "SFT")                 # differences from one policy, paired by prompt

Paper: section 4 compares policies on benchmarks that need a judge; these are what the truth, where
it is known, and the policies' own reward model say of them, on prompts that nothing was trained on.
"""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib.corpus.generate import is_generated
from hs2lib.corpus.grade import true_attributes
from hs2lib.engine.trees import BUDGET
from hs2lib.evaluate.questions import mean
from hs2lib.evaluate.truth import by_truth as by_truth
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.policy import Policy, unlabelled
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import as_tokens, rollouts
from hs2lib.paper import GAIN, head_weights
from hs2lib.paths import as_read, names_read, root, run_name, work, write
from hs2lib.report.report import TEXTS, csv_text, plain_cell
from hs2lib.run.graph import makers
from hs2lib.stats.bootstrap import inside

FILE = "evaluation.csv"

BASE = "SFT"  # the policy that the others are compared with

COLUMNS = ["measure", "policy", "mean", "95 % low", "95 % high", "note"]

KEYS = ("policy", "prompt", "response", "settings")  # the columns that are no measure

TRUTH = "truth"  # the weighted sum (goodness) of the true attributes
SCORE = "reward model's score"  # that of the attributes as the reward model sees them


def truth_of(attribute: str) -> str:
    """The column of a true attribute."""
    return f"true {attribute}"


def score_of(attribute: str) -> str:
    """The column of an attribute as the reward model sees it."""
    return f"reward model's {attribute}"


def evaluate(
    policy: Policy,
    prompts: Sequence[Group],
    reward_model: RewardModel | None,
    sft: Policy | None,
    *,
    name: str,
    label: str | Callable[[Group], str] | None = None,
    weighting: str = "goodness",
    **options,
) -> pd.DataFrame:
    """One row a response: what is measured of it, and whose response it is.

    Columns: of generated prompts `TRUTH`, the goodness of the true attributes, and "true
    helpfulness" and so on, these themselves; `SCORE`, the goodness that the reward model sees, and
    "reward model's helpfulness" and so on; characters, tokens, finished, kl. A response that the
    reward model refuses for its control strings has no scores and counts in `refused`. Without a
    reward model (None) there are no scores.

    Paper: section 4.3 (goodness .65, .8, .45 of helpfulness, correctness, coherence; `weighting` by
    name, as in `hs2lib.paper.head_weights`). options: budget and autocast of every pass, and
    arguments of `hs2lib.models.rollout.rollouts`, seed and max_new_tokens among them, n by default
    1; the same seed gives policies the same uniform numbers. file: a folder, where scores and
    log-probabilities are kept too, as they come. label: SteerLM's, a text or a function of the
    group, for the policy only; the reward model and sft see none. kl: log pi(y|x) - log pi_sft(y|x)
    of the response, summed over its tokens at temperature 1, nats; nan without sft. Its mean over
    responses estimates KL(pi || pi_sft) without bias where they are sampled at temperature 1 and
    top_p 1; at other settings it is that of the responses which the policy really gives. Single
    values may be negative.
    """
    passes = {
        "budget": options.pop("budget", BUDGET),
        "autocast": options.pop("autocast", "float32"),
    }
    passes["cache"] = options.get("file")
    sampling = {"n": 1, "temperature": 0.7, "top_p": 0.9} | options
    sampled = rollouts(policy, prompts, label=label, autocast=passes["autocast"], **sampling)
    responses = [response for group in sampled for response in group.responses]
    rows = {"policy": name}
    rows["prompt"] = [group.id for group in sampled for _ in group.responses]
    rows["response"] = [response.id for response in responses]
    if is_generated(prompts):
        truth = np.concatenate([true_attributes(group) for group in sampled])  # [R, A]
        rows[TRUTH] = truth @ np.array(head_weights("goodness", ATTRIBUTES))
        for k, attribute in enumerate(ATTRIBUTES):
            rows[truth_of(attribute)] = truth[:, k]
    scored_by = "no reward model"
    if reward_model:
        scored_by = f"{weighting} of {reward_model.fingerprint()}"
        scores = reward_model.score(sampled, **passes).numpy()  # [R, A]
        if reward_model.control_text == "refuse":
            rows["refused"] = np.concatenate(
                [reward_model.refused(group) for group in sampled]
            ).astype(int)
        rows[SCORE] = weighted(scores, weighting, reward_model)
        for attribute, column in zip(reward_model.attributes, scores.T, strict=True):
            rows[score_of(attribute)] = column
    rows["characters"] = [len(response.text) for response in responses]
    rows["tokens"] = [len(response.tokens) for response in responses]
    rows["finished"] = [int(response.finished) for response in responses]
    rows["kl"] = 0.0 if sft is policy else np.nan
    if sft is not None and (
        sft is not policy or label is not None
    ):  # both by the engine: they round alike
        ours, _ = policy.log_probs(as_tokens(policy, sampled, label), **passes)
        theirs, _ = sft.log_probs(unlabelled(sft, policy, sampled), **passes)
        rows["kl"] = (ours.double() - theirs.double()).numpy()
    how = "n {n}, temperature {temperature:g}, top-p {top_p:g}, at most {max_new_tokens} tokens, seed {seed}"
    rows["settings"] = f"{how.format(**sampling)}, {scored_by}"
    return pd.DataFrame(rows)


def weighted(scores: np.ndarray, weighting: str, reward_model: RewardModel) -> np.ndarray:
    """The reward model's score of each response [R], from its heads' scores [R, A]; weighting: as `head_weights`."""
    return scores @ np.array(head_weights(weighting, reward_model.attributes), dtype=scores.dtype)


def save(folder: Path, frame: pd.DataFrame) -> None:
    """Write the rows of `evaluate` into a run's folder, for later notebooks."""
    write(Path(folder) / FILE, csv_text(frame, digits=None))


def earlier(folder: Path) -> tuple[list[pd.DataFrame], dict[str, str]]:
    """The rows that notebooks of a lower number which this one needs left beside its run folder,
    and what was read.

    In the notebooks' order. Where no runner started this one, all of a lower number: which it needs
    is the runner's to say. What was read is as `hs2lib.paths.as_read`.
    """
    here = Path(folder)
    mine = here.name.partition("@")[0]
    needed = names_read()
    notebooks = sorted({place.name.partition("@")[0] for place in here.parent.glob("[0-9][0-9]_*")})
    places = [here.parent / run_name(name) for name in notebooks if name < mine]
    if needed:
        places = [place for place in places if place.name in needed]
    files = [place / FILE for place in places if (place / FILE).exists()]
    texts = {"prompt": str, "response": str, "policy": str}
    frames = [pd.read_csv(file, dtype=texts, **TEXTS).map(plain_cell) for file in files]
    return frames, as_read(*files)


def measures(frame: pd.DataFrame) -> list[str]:
    """The columns that are measures, in their order."""
    return [column for column in frame.columns if column not in KEYS]


def table(frames: Sequence[pd.DataFrame], **resampled) -> pd.DataFrame:
    """Rows (measure, policy) with mean, 95 % low, 95 % high: intervals by bootstrap over prompts.

    Paper: silent (it prints no such table). Policies stand in the order given, each once.
    resampled: n_boot and seed. Raises ValueError where they were evaluated on different prompts or
    under different settings, so that they cannot be compared.
    """
    whole = _joined(frames)
    rows = []
    for measure, (policy, part) in product(measures(whole), whole.groupby("policy", sort=False)):
        interval = mean(part[measure], part.prompt, **resampled)
        if measure == "finished":  # a share
            interval = inside(interval, 0, 1, part.prompt.nunique())
        rows.append((measure, policy, *interval))
    return pd.DataFrame(rows, columns=COLUMNS[:-1])


def gains_of(frames: Sequence[pd.DataFrame], against: str, **resampled) -> pd.DataFrame:
    """Rows (measure, policy) with the difference of means from the policy `against`, and its 95 %
    interval.

    Paired: both policies are seen on the same resamples of the same prompts, so that what the
    prompts have in common cancels; two intervals of `table` that overlap say nothing about this.
    Raises as `table`, and for an unknown policy.
    """
    whole = _joined(frames)
    if against not in set(whole.policy):
        raise ValueError(
            f"no policy is called {against!r}; there are: {', '.join(whole.policy.unique())}"
        )
    others = [policy for policy in whole.policy.unique() if policy != against]
    rows = []
    for measure, policy in product(measures(whole), others):
        means = whole.groupby(["policy", "prompt"], sort=False)[measure].mean()
        difference = means[policy] - means[against]
        rows.append((measure, policy, *mean(difference, difference.index, **resampled)))
    return pd.DataFrame(
        rows, columns=["measure", "policy", f"minus {against}", "95 % low", "95 % high"]
    )


def wins(frames: Sequence[pd.DataFrame], against: str, **resampled) -> pd.DataFrame:
    """Of how many prompts, in per cent, a policy's answers are truly better than those of
    `against`; ties count half.

    Paper: silent (its win rates are a judge's). In the form of `table`, from the column `TRUTH`.
    Raises as `table`.
    """
    truth = _joined(frames).pivot_table(
        TRUTH, "prompt", "policy", sort=False
    )  # [prompts, policies]
    won = 50 + 50 * np.sign(truth.sub(truth[against], axis=0).round(9)).drop(columns=against)
    measure = f"win rate over {against} by truth, %"
    rows = []
    for policy in won:
        interval = inside(mean(won[policy], won.index, **resampled), 0, 100, len(won))
        rows.append((measure, policy, *interval))
    return pd.DataFrame(rows, columns=COLUMNS[:-1])


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    whole = pd.concat(frames, ignore_index=True).drop_duplicates(
        ["policy", "response"], keep="last"
    )
    prompts = whole.groupby("policy", sort=False).prompt.agg(frozenset)
    for policy, theirs in prompts.items():
        if lone := sorted(theirs ^ prompts.iloc[0]):
            both = f"{prompts.index[0]} and {policy}"
            raise ValueError(
                f"{both} were evaluated on different prompts: {lone[0]} is of one only"
            )
    if whole.settings.nunique() > 1:
        one, other = whole.settings.unique()[:2]
        raise ValueError(f"policies were evaluated under different settings: {one!r} and {other!r}")
    return whole


def trades(
    of_benchmarks: Sequence[Sequence[pd.DataFrame]], against: str, **resampled
) -> pd.DataFrame:
    """What every policy gains over one of them, `against`, on every measure: one row each, with a
    95 % interval.

    Paper: section 4.6 compares single figures; here both policies are seen on the same resamples of
    the same questions (`gains_of`). Columns: benchmark, measure, policy, against, questions, then
    `GAIN`: of whole benchmarks under their own names, `hs2lib.report.claims` reads them.
    of_benchmarks: for each benchmark the frames of its policies, as
    `hs2lib.evaluate.grading.Judged.by_question` makes them. Questions where a verdict is missing
    for any policy are left out of that measure for all.
    """
    parts = []
    for frames in of_benchmarks:
        whole = pd.concat(frames, ignore_index=True)
        for measure in measures(whole):
            missing = set(whole.prompt[whole[measure].isna()])
            kept = whole.loc[~whole.prompt.isin(missing), [*KEYS, measure]]
            if kept.empty:
                continue
            gains = gains_of([kept], against, **resampled).rename(
                columns={f"minus {against}": GAIN[0]}
            )
            about = {
                "benchmark": whole.settings[0],
                "against": against,
                "questions": kept.prompt.nunique(),
            }
            parts.append(gains.assign(**about))
    return pd.concat(parts, ignore_index=True)[
        ["benchmark", "measure", "policy", "against", "questions", *GAIN]
    ]


def made(tier: str, models: Sequence[str] = ()) -> dict[str, Path]:
    """Every policy that a notebook makes, by its title in the notebooks' order, and the folder it
    is saved in.

    models: others in their place, "title=folder" each; a relative folder lies in the checkout.
    Raises ValueError for one that is not there.
    """
    named = {}
    for text in models:
        title, _, place = text.partition("=")
        named[title] = root() / Path(place).expanduser()
        if not (title and place and named[title].is_dir()):
            raise ValueError(f"models: expected title=folder, with a model in it, got {text}")
    return named or {title: work(tier, name) / "policy" for name, title in makers("policy").items()}
