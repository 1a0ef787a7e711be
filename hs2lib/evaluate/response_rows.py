"""One row a response of a policy: the truth, a reward model's score, length, distance from SFT.

    rows = evaluate(policy, held_out, reward_model, sft, name="DPO", seed=seed, max_new_tokens=256)
    save(folder, rows)                # notebooks 07 to 12 each leave theirs in their run folder
    frames, read = earlier(folder)    # those that earlier notebooks left
    frames, read = beside(folder)     # those of the policies that these began with

Paper: section 4 compares policies on benchmarks that need a judge. These rows are what the truth,
where it is known, and the policies' own reward model say of answers to prompts that nothing was
trained on. `hs2lib.evaluate.policies` compares policies by them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib.corpus.generate import is_generated
from hs2lib.corpus.grade import true_attributes, true_goodness
from hs2lib.engine.trees import BUDGET
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.policy import Policy, unlabelled
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import as_tokens, rollouts
from hs2lib.paper import head_weights
from hs2lib.paths import digests_by_place, names_read, run_name, write
from hs2lib.report.report import TEXTS, csv_text, plain_cell

FILE = "evaluation.csv"
BESIDE = "evaluation-beside.csv"  # of policies that no notebook makes, as the base

KEYS = ("policy", "prompt", "response", "settings")  # whose response it is, and how it came
TEXT = "text"  # the response itself; no measure either

TRUTH = "truth"  # the weighted sum (goodness) of the true attributes
GREEDY = "truth, greedy"  # of the answer that takes the likeliest token each time
SCORE = "reward model's score"  # that of the attributes as the reward model sees them


def truth_of(attribute: str) -> str:
    """The column of a true attribute."""
    return f"true {attribute}"


def score_of(attribute: str) -> str:
    """The column of an attribute as the reward model sees it."""
    return f"reward model's {attribute}"


def measures(frame: pd.DataFrame) -> list[str]:
    """The columns that are measures, in their order."""
    return [column for column in frame.columns if column not in (*KEYS, TEXT)]


def evaluate(
    policy: Policy,
    prompts: Sequence[Group],
    reward_model: RewardModel | None,
    sft: Policy | None,
    *,
    name: str,
    label: str | Callable[[Group], str] | None = None,
    weighting: str = "goodness",
    **options: object,
) -> pd.DataFrame:
    """One row a response that a policy samples: its measures, and whose response it is.

    Paper: section 4.3 (goodness .65, .8, .45 of helpfulness, correctness, coherence).

    policy: writes the responses.
    prompts: groups without responses.
    reward_model: scores the responses; None for no scores.
    sft: the policy that kl is measured from; None for none.
    name: of the policy, for the column "policy".
    label: SteerLM's, a text or a function of the group. Only the policy sees it; the reward model
        and sft do not.
    weighting: of the reward model's outputs, by name, as in `hs2lib.paper.head_weights`.
    options: budget and autocast of every pass, and arguments of `hs2lib.models.rollout.rollouts`,
        seed and max_new_tokens among them; n is 1 by default. The same seed gives all policies the
        same uniform numbers. file: a folder, in which scores and log-probabilities are kept, too.

    Returns the columns policy, prompt, response, text, the measures, and settings. The measures
    are:

    - of generated prompts `TRUTH`, the goodness of the true attributes, "true helpfulness" and so
      on, these attributes themselves, and `GREEDY`, the goodness of the policy's greedy answer to
      the prompt, the same in the rows of all its responses;
    - with a reward model `SCORE`, the goodness that it sees, and "reward model's helpfulness" and
      so on. A response that it refuses for its control strings has no scores and is marked in
      "refused";
    - characters, tokens, and finished (0 or 1);
    - kl: log pi(y|x) - log pi_sft(y|x) of the response, summed over its tokens at temperature 1,
      nats; nan without sft. Single values may be negative. The mean over responses estimates
      KL(pi || pi_sft) without bias where they are sampled at temperature 1 and top_p 1. At other
      settings it is that of the responses which the policy really gives.
    """
    passes = {
        "budget": options.pop("budget", BUDGET),
        "autocast": options.pop("autocast", "float32"),
        "cache": options.get("file"),
    }
    sampling = {"n": 1, "temperature": 0.7, "top_p": 0.9, **options}
    sampled = rollouts(policy, prompts, label=label, autocast=passes["autocast"], **sampling)
    responses = [response for group in sampled for response in group.responses]
    columns = {
        "policy": name,
        "prompt": [group.id for group in sampled for _ in group.responses],
        "response": [response.id for response in responses],
        TEXT: [response.text for response in responses],
    }
    if is_generated(prompts):
        truth = np.concatenate([true_attributes(group) for group in sampled])  # [R, A]
        columns[TRUTH] = truth @ np.array(head_weights("goodness", ATTRIBUTES))
        for attribute, values in zip(ATTRIBUTES, truth.T, strict=True):
            columns[truth_of(attribute)] = values
        greedy = rollouts(
            policy,
            prompts,
            label=label,
            autocast=passes["autocast"],
            **sampling | {"n": 1, "temperature": 0.0},
        )
        of_prompt = np.concatenate([true_goodness(group) for group in greedy])  # [B]
        columns[GREEDY] = np.repeat(of_prompt, [len(group.responses) for group in sampled])
    scored_by = "no reward model"
    if reward_model:
        scored_by = f"{weighting} of {reward_model.fingerprint()}"
        scores = reward_model.score(sampled, **passes).numpy()  # [R, A]
        if reward_model.control_text == "refuse":
            refused = [reward_model.refused(group) for group in sampled]
            columns["refused"] = np.concatenate(refused).astype(int)
        columns[SCORE] = weighted(scores, weighting, reward_model)
        for attribute, values in zip(reward_model.attributes, scores.T, strict=True):
            columns[score_of(attribute)] = values
    columns["characters"] = [len(response.text) for response in responses]
    columns["tokens"] = [len(response.tokens) for response in responses]
    columns["finished"] = [int(response.finished) for response in responses]
    columns["kl"] = _log_ratios(policy, sft, sampled, label, passes)
    columns["settings"] = (
        f"n {sampling['n']}, temperature {sampling['temperature']:g}, "
        f"top-p {sampling['top_p']:g}, at most {sampling['max_new_tokens']} tokens, "
        f"seed {sampling['seed']}, {scored_by}"
    )
    return pd.DataFrame(columns)


def _log_ratios(
    policy: Policy,
    sft: Policy | None,
    sampled: Sequence[Group],
    label: str | Callable[[Group], str] | None,
    passes: dict[str, object],
) -> np.ndarray | float:
    """log pi(y|x) - log pi_sft(y|x) [R]; nan without sft, 0 where the policy is sft itself."""
    if sft is None:
        return np.nan
    if sft is policy and label is None:
        return 0.0
    # Both by the engine: they round alike.
    policy_log_probs, _ = policy.log_probs(as_tokens(policy, sampled, label), **passes)  # [R]
    sft_log_probs, _ = sft.log_probs(unlabelled(sft, policy, sampled), **passes)  # [R]
    return (policy_log_probs.double() - sft_log_probs.double()).numpy()


def weighted(scores: np.ndarray, weighting: str, reward_model: RewardModel) -> np.ndarray:
    """The reward model's score of each response [R], from its outputs [R, A].

    weighting: by name, as in `hs2lib.paper.head_weights`.
    """
    weights = np.array(head_weights(weighting, reward_model.attributes), dtype=scores.dtype)  # [A]
    return scores @ weights


def save(folder: Path, frame: pd.DataFrame, file: str = FILE) -> None:
    """Write the rows of `evaluate` into a run's folder, for later notebooks.

    file: `FILE`, or `BESIDE` for rows of another policy than the one that the notebook makes.
    """
    write(Path(folder) / file, csv_text(frame, digits=None))


def earlier(folder: Path) -> tuple[list[pd.DataFrame], dict[str, str]]:
    """The rows that notebooks of a lower number left, of those that this one needs.

    They lie beside this notebook's run folder. Where `hs2 run` did not start this notebook,
    all of a lower number count: which of them it needs is for `hs2 run` to say.

    Returns the rows of each notebook, in the notebooks' order, and the files that were read, as
    `hs2lib.paths.digests_by_place`.
    """
    return _left(folder, FILE)


def beside(folder: Path) -> tuple[list[pd.DataFrame], dict[str, str]]:
    """As `earlier`, of policies that stood beside those: the base that SFT began with."""
    return _left(folder, BESIDE)


def _left(folder: Path, file: str) -> tuple[list[pd.DataFrame], dict[str, str]]:
    """The rows in the file of this name that notebooks of a lower number left."""
    folder = Path(folder)
    this_notebook = folder.name.partition("@")[0]
    run_folders = folder.parent.glob("[0-9][0-9]_*")
    notebooks = sorted({run.name.partition("@")[0] for run in run_folders})
    runs = [folder.parent / run_name(name) for name in notebooks if name < this_notebook]
    needed = names_read()
    if needed:
        runs = [run for run in runs if run.name in needed]
    files = [run / file for run in runs if (run / file).exists()]
    texts = {"prompt": str, "response": str, "policy": str, TEXT: str}
    frames = []
    for file in files:
        frame = pd.read_csv(file, dtype=texts, **TEXTS).map(plain_cell)
        if TEXT in frame:  # rows of an earlier version have none
            frame[TEXT] = frame[TEXT].fillna("")  # a policy may say nothing
        frames.append(frame)
    return frames, digests_by_place(*files)
