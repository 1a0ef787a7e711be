"""One table for every policy: what a reward model says of its responses, their length, and how far it went from SFT.

    frame = evaluate(policy, held_out, reward_model, sft, name="DPO", seed=seed, max_new_tokens=256)
    save(folder, frame)                               # notebooks 07 to 12 each leave theirs in their run folder
    frames = [*earlier(folder), frame]
    table(frames, n_boot=1000, seed=seed)             # policy by policy: means and 95 % intervals
    gains(frames, "SFT")                              # differences from one policy, paired by prompt

Paper: section 4 compares policies on benchmarks that need a judge; this table is what its own reward model says of
them, on prompts that nothing was trained on.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from hs2lib.bootstrap import bootstrap
from hs2lib.data import Group
from hs2lib.places import write
from hs2lib.render import TokenGroup
from hs2lib.rollout import as_tokens, rollouts
from hs2lib.trees import BUDGET
from hs2lib.weights import named

FILE = "evaluation.csv"
KEYS = ("policy", "prompt", "response", "settings")  # the columns that are no measure


def evaluate(
    policy,
    prompts: Sequence[Group],
    reward_model,
    sft,
    *,
    name: str,
    seed: int,
    max_new_tokens: int,
    n: int = 1,
    temperature: float = 0.7,
    top_p: float = 0.9,
    label: str | Callable[[Group], str] | None = None,
    weighting: str = "goodness",
    file: Path | None = None,
    batch: int = 128,
    budget: int = BUDGET,
    autocast: torch.dtype | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """One row a response: goodness, each attribute, characters, tokens, finished, kl, and whose response it is.

    Paper: section 4.3 (goodness .65, .8, .45 of helpfulness, correctness, coherence; `weighting` by name, as in
    `hs2lib.weights.named`). n responses a prompt are sampled (`hs2lib.rollout`, kept in `file`); the same seed gives
    policies the same uniform numbers. label: SteerLM's, for the policy only; the reward model and sft see none.
    kl: log pi(y|x) - log pi_sft(y|x) of the response, summed over its tokens at temperature 1, nats; nan without sft.
    Its mean over responses estimates KL(pi || pi_sft) without bias where they are sampled at temperature 1 and top_p 1;
    at other settings it is that of the responses which the policy really gives. Single values may be negative.
    """
    if n < 1 or not prompts:
        raise ValueError(f"{n} responses to {len(prompts)} prompts are nothing to evaluate")
    sampling = dict(n=n, temperature=temperature, top_p=top_p, max_new_tokens=max_new_tokens, seed=seed)
    options = dict(label=label, file=file, batch=batch, autocast=autocast, progress=progress)
    sampled = rollouts(policy, prompts, **sampling, **options)
    scores = reward_model.score(sampled, budget=budget, autocast=autocast).numpy()
    goodness = scores @ np.array(named(weighting, reward_model.attributes), dtype=scores.dtype)
    responses = [response for group in sampled for response in group.responses]
    rows = {"policy": name, "prompt": [group.id for group in sampled for _ in group.responses]}
    rows |= {"response": [response.id for response in responses], "goodness": goodness}
    rows |= {attribute: scores[:, k] for k, attribute in enumerate(reward_model.attributes)}
    rows["characters"] = [len(response.text) for response in responses]
    rows["tokens"] = [len(response.tokens) for response in responses]
    rows["finished"] = [int(response.finished) for response in responses]
    rows["kl"] = np.nan
    if sft is policy and label is None:
        rows["kl"] = 0.0
    elif sft is not None:
        rows["kl"] = _kl(policy, sft, sampled, label, budget, autocast)
    rows["settings"] = (
        f"n {n}, temperature {temperature:g}, top-p {top_p:g}, at most {max_new_tokens} tokens, seed {seed}, "
        f"{weighting} of {reward_model.fingerprint()}"
    )
    return pd.DataFrame(rows)


def _kl(policy, sft, sampled: Sequence[Group], label, budget: int, autocast) -> np.ndarray:
    """log pi - log pi_sft of every sampled response, both by the engine and so with the same rounding."""
    options = {"budget": budget, "autocast": autocast}
    ours, _ = policy.log_probs(as_tokens(policy, sampled, label), **options)
    theirs, _ = sft.log_probs(unlabelled(sft, policy, sampled, label), **options)
    return (ours.double() - theirs.double()).numpy()


def unlabelled(judge, sampler, sampled: Sequence[Group], label=None) -> list[TokenGroup]:
    """The sampled tokens after the prompt without label, each with the end of turn of the model that judges it.

    The reference template ends a turn otherwise with a label than without; whether a model would write the other's
    marker is not asked. Raises ValueError where the two tokenizers differ.
    """
    if judge.tokenizer.get_vocab() != sampler.tokenizer.get_vocab():
        raise ValueError(
            "the two policies have different tokenizers: their log-probabilities are not of the same tokens"
        )
    theirs, ours = sampler.ending("" if label is not None else None), judge.ending()
    found = as_tokens(judge, sampled)
    if theirs == ours:
        return found
    end = lambda s: [*s[: -len(theirs)], *ours] if s[-len(theirs) :] == theirs else s  # noqa: E731
    return [replace(group, sequences=tuple(map(end, group.sequences))) for group in found]


def save(folder: Path, frame: pd.DataFrame) -> Path:
    """Write the rows of `evaluate` into a run's folder, for later notebooks."""
    path = Path(folder) / FILE
    write(path, frame.to_csv(index=False, lineterminator="\n"))
    return path


def load(folder: Path) -> pd.DataFrame:
    """The rows that `save` wrote. Raises FileNotFoundError naming what has to be run first."""
    path = Path(folder) / FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: run notebook {Path(folder).name} at this tier first")
    return pd.read_csv(StringIO(path.read_text()), dtype={"prompt": str, "response": str, "policy": str})


def earlier(folder: Path) -> list[pd.DataFrame]:
    """The rows that notebooks of a lower number left beside the run folder of this one, in their order."""
    here = Path(folder)
    found = sorted(path.parent for path in here.parent.glob(f"[0-9][0-9]_*/{FILE}"))
    return [load(other) for other in found if other.name < here.name]


def measures(frame: pd.DataFrame) -> list[str]:
    """The columns that are measures, in their order: goodness, the attributes, characters, tokens, finished, kl."""
    return [column for column in frame.columns if column not in KEYS]


def table(frames: Sequence[pd.DataFrame], n_boot: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Rows (measure, policy) with mean, 95 % low, 95 % high: intervals by bootstrap over prompts.

    Paper: silent (it prints no such table). Policies stand in the order given, each once. Raises ValueError where they
    were evaluated on different prompts or under different settings, so that they cannot be compared.
    """
    whole = _joined(frames)
    rows = []
    for measure in measures(whole):
        for policy, part in whole.groupby("policy", sort=False):
            rows.append((measure, policy, *_mean(part[measure], part.prompt, n_boot, seed)))
    return pd.DataFrame(rows, columns=["measure", "policy", "mean", "95 % low", "95 % high"])


def gains(frames: Sequence[pd.DataFrame], against: str, n_boot: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Rows (measure, policy) with the difference of means from the policy `against`, and its 95 % interval.

    Paired: both policies are seen on the same resamples of the same prompts, so that what the prompts have in common
    cancels; two intervals of `table` that overlap say nothing about this. Raises as `table`, and for an unknown policy.
    """
    whole = _joined(frames)
    if against not in set(whole.policy):
        raise ValueError(f"no policy is called {against!r}; there are: {', '.join(whole.policy.unique())}")
    rows = []
    for measure in measures(whole):
        means = whole.groupby(["policy", "prompt"], sort=False)[measure].mean()
        for policy in whole.policy.unique():
            if policy != against:
                difference = means[policy] - means[against].reindex(means[policy].index)
                rows.append((measure, policy, *_mean(difference, difference.index, n_boot, seed)))
    return pd.DataFrame(rows, columns=["measure", "policy", f"less {against}", "95 % low", "95 % high"])


def _mean(values, prompts, n_boot: int, seed: int) -> tuple[float, float, float]:
    """Mean over responses and its interval; all nan where a value is missing (no sft to compare with)."""
    values = np.asarray(values, dtype=np.float64)
    if np.isnan(values).any():
        return (np.nan,) * 3
    sums = np.column_stack([values, np.ones_like(values)])
    found = bootstrap(sums, np.asarray(prompts, str), lambda s: s[:, :1] / s[:, 1:], n_boot=n_boot, seed=seed)
    return tuple(float(part[0]) for part in found)


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    whole = pd.concat(frames, ignore_index=True).drop_duplicates(["policy", "response"], keep="last")
    prompts = {policy: frozenset(part.prompt) for policy, part in whole.groupby("policy", sort=False)}
    first = next(iter(prompts))
    for policy, theirs in prompts.items():
        if theirs != prompts[first]:
            lone = sorted(theirs ^ prompts[first])[0]
            raise ValueError(f"{first} and {policy} were evaluated on different prompts: {lone} is of one only")
    if whole.settings.nunique() > 1:
        one, other = whole.settings.unique()[:2]
        raise ValueError(f"policies were evaluated under different settings: {one!r} and {other!r}")
    return whole
