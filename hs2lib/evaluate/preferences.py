"""What DPO does to pairs: how many a policy has in the right order, and its gains step by step.

    ordered = order_pairs(policy, items, pairs, result, setup)   # beside a rule of length
    path = along(policy, items, pairs, result, compared, setup)  # and the answers, by checkpoint

Paper: silent; section 4.3 evaluates checkpoints every 25 steps on its benchmarks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hs2lib.align import dpo
from hs2lib.align.dpo import Pairs
from hs2lib.engine import checkpoints
from hs2lib.evaluate import by_round, policies
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.questions import mean
from hs2lib.evaluate.response_rows import SCORE, TRUTH
from hs2lib.group import Group
from hs2lib.models.policy import Policy
from hs2lib.runs.setup import Setup
from hs2lib.stats.bootstrap import Interval, inside
from hs2lib.train.items import Prepared, cluster
from hs2lib.train.trainer import Outputs, TrainingResult

PATH = ["step", "measure", "difference", "95 % low", "95 % high"]

# The gains over SFT that are followed step by step.
FOLLOWED = (TRUTH, SCORE, "characters", "kl")
APART = "score less truth"


@dataclass(frozen=True)
class Ordered:
    """How a policy orders pairs.

    moved: a row a pair, the log-ratios of the chosen and of the rejected response and their
        difference, the margin, nats.
    table: of how many pairs the order is right, by the policy, by length and by the likelihood
        before training, then margin and log-ratios, with 95 % intervals over prompts.
    pairs: what they are, as "12 held-out pairs".
    n_prompts: how many prompts they have.
    sentence: the result in words.
    """

    moved: pd.DataFrame
    table: pd.DataFrame
    pairs: str
    n_prompts: int
    sentence: str

    @property
    def spread(self) -> pd.DataFrame:
        """Mean, SD and range of the log-ratios and margins over pairs."""
        return self.moved.describe().loc[["mean", "std", "min", "max"]]

    def sentences(self) -> list[str]:
        """What training did to the pairs, for a reader."""
        by_length = self.table.loc["right by length, %", "mean"]
        moves = []
        for side in ("chosen", "rejected"):
            nats, low, high = self.table.loc[f"log-ratio of the {side}, nats"]
            bounds = f"{low:+z.2f} to {high:+z.2f}"
            moves.append(f"the {side} responses changed by {nats:+z.2f} nats ({bounds})")
        rules = f"by length alone {by_length:.0f} %"
        if "right by SFT's likelihood, %" in self.table.index:
            likelier = self.table.loc["right by SFT's likelihood, %", "mean"]
            rules += f" and by SFT's own likelihood {likelier:.0f} %"
        return [
            f"After training {self.sentence}; {rules} would be right.",
            f"On average {moves[0]} and {moves[1]}.",
        ]


def order(
    ratios: np.ndarray,
    groups: Sequence[Group],
    *,
    reference: np.ndarray | None = None,
    trained: bool = True,
    held_out: bool = True,
    **resampled: int,
) -> Ordered:
    """How log-ratios order pairs, beside two rules that nobody trained.

    By one rule the longer response is the better one, by the other the one that the reference finds
    likelier. Paper: silent. By a rule two responses alike count half.

    ratios: [pairs, 2] of the policy and its reference, chosen first.
    groups: the pairs, chosen before rejected.
    reference: [pairs, 2], log-probabilities of the responses by the reference; None to leave that
        rule out.
    trained: whether the policy differs from its reference at all. Where not, margins are rounding,
        and no order is reported.
    held_out: whether the pairs are, for the words.
    resampled: n_boot and seed of the intervals, over prompts.
    """
    moved = pd.DataFrame(ratios, columns=["chosen", "rejected"])
    moved["margin"] = moved.chosen - moved.rejected
    prompts = [cluster(pair) for pair in groups]  # one may have two pairs
    n_prompts = len(set(prompts))
    characters = []
    for pair in groups:
        characters.append([len(response.text) for response in pair.responses])
    lengths = np.array(characters)  # [pairs, 2]
    length_sign = np.sign(lengths[:, 0] - lengths[:, 1])  # [pairs], 1 where the longer is chosen
    right = pd.DataFrame(
        {"right, %": 100.0 * (moved.margin > 0), "right by length, %": 50.0 + 50 * length_sign}
    )
    right["right, less by length"] = right["right, %"] - right["right by length, %"]
    shares = ["right, %", "right by length, %"]
    if reference is not None:
        likelier = np.sign(reference[:, 0] - reference[:, 1])  # [pairs]
        right["right by SFT's likelihood, %"] = 50.0 + 50 * likelier
        shares.append("right by SFT's likelihood, %")
    right["margin, nats"] = moved.margin
    for side in ("chosen", "rejected"):
        right[f"log-ratio of the {side}, nats"] = moved[side]
    if not trained:
        right[["right, %", "right, less by length"]] = np.nan
    intervals = {}
    for name, values in right.items():
        intervals[name] = mean(values, prompts, **resampled)
    for share in shares:
        intervals[share] = inside(intervals[share], 0, 100, n_prompts)
    table = pd.DataFrame(intervals, index=["mean", "95 % low", "95 % high"]).T.rename_axis("pairs")
    pairs = f"{len(moved)} {'held-out' if held_out else 'training'} pairs"
    if trained:
        share, low, high = table.loc["right, %"]
        sentence = (
            f"{share:.0f} % of {pairs} are in the right order "
            f"(95 % interval {low:.0f} to {high:.0f})"
        )
    else:
        sentence = f"nothing is ordered: of {pairs} every margin is 0 but for rounding"
    return Ordered(moved, table, pairs, n_prompts, sentence)


def order_pairs(
    policy: Policy, items: Prepared, pairs: Pairs, result: TrainingResult, setup: Setup
) -> Ordered:
    """`order` of the pairs that training watched: those to validate on, else those trained on.

    policy: after training.
    items: the pairs in tokens.
    pairs: those that `items` was made of.
    result: of the training.
    setup: of the run.
    """
    ratios = dpo.log_ratios(policy, items.watched, cache=setup.folder, **setup.recipe.inference)
    return order(
        ratios,
        watched(items, pairs),
        reference=np.stack([item.targets[:, 1] for item in items.watched]),
        trained=result.best_step > 0,
        held_out=bool(items.validation),
        **setup.recipe.resampled,
    )


def watched(items: Prepared, pairs: Pairs) -> list[Group]:
    """The pairs of the items that are watched, in their order."""
    by_id = {pair.id: pair for pair in [*pairs.validation, *pairs.training]}
    return [by_id[item.id] for item in items.watched]


def to_look_at(ordered: Ordered, items: Prepared, pairs: Pairs) -> dict[str, Group]:
    """Pairs to show, by why: the one of the median margin, and the worst one.

    ordered: of `order_pairs`. items, pairs: as there.
    """
    by_margin = ordered.moved.margin.sort_values(kind="stable")
    groups = watched(items, pairs)
    shown = {}
    for why, place in {"median": (len(by_margin) - 1) // 2, "lowest": 0}.items():
        number = by_margin.index[place]
        chosen, rejected, margin = ordered.moved.loc[number, ["chosen", "rejected", "margin"]]
        words = (
            f"The pair of the {why} margin ({margin:+.1f} nats: "
            f"chosen {chosen:+.1f}, rejected {rejected:+.1f})"
        )
        shown[words] = groups[number]
    return shown


def pull_in_words(beta: float, moved: pd.DataFrame) -> list[str]:
    """What beta did to the pull of pairs.

    The pull on a pair is beta sigma(-beta margin): beta / 2 at first, half of that at ln 3 / beta.

    beta: of the training.
    moved: of `Ordered`.
    """
    middle = moved.margin.mean()
    at_middle = 2 / (1 + np.exp(beta * middle))
    mean_left = (2 / (1 + np.exp(beta * moved.margin))).mean()
    averaged = f"Averaged over the pairs it is {100 * mean_left:.0f} %"
    if round(100 * mean_left) > round(100 * at_middle):
        averaged += ", because pairs near or below 0 keep most"
    papers = 0.001
    return [
        f"At beta = {beta:g} half of the pull is left at a margin of {np.log(3) / beta:.1f} nats.",
        f"At these pairs' mean margin of {middle:.1f} nats {100 * at_middle:.0f} % is left. "
        f"{averaged}.",
        f"At the paper's {papers:g} half is left at {np.log(3) / papers:,.0f} nats; the largest "
        f"margin here is {moved.margin.max():.1f}. There the rate and the number of steps end a "
        "training, and not beta.",
    ]


def chosen_in_words(validation: pd.DataFrame, kept: int) -> str:
    """Why the share of watched pairs in order may be too high; "" where none were held out.

    validation: the second table of `progress.curves`. kept: the step whose weights stay.
    """
    if validation.empty or kept == 0:
        return ""
    text = "These pairs also chose the step that stays, so the share may be a little too high."
    last = validation.iloc[-1]
    if last.step == kept:
        return text
    return f"{text} At the last step it is {100 * last.accuracy:.0f} %."


def path_in_words(path: pd.DataFrame, kept: int) -> str:
    """A figure's title: what the checkpoint that stays gains. path: of `along`. kept: its step."""
    of_kept = path[path.step == kept].set_index("measure")
    changes = []
    for measure in (TRUTH, SCORE):
        if measure in of_kept.index:
            gain = of_kept.loc[measure, ["difference", "95 % low", "95 % high"]]
            changes.append(policies.gain_in_title(measure, *gain))
    if not changes:
        return f"Step {kept} is kept: not scored"
    return f"Step {kept} is kept; less SFT, sampled: {', '.join(changes)}"


def path_sentences(path: pd.DataFrame) -> list[str]:
    """What truth and score gain at each step, and whether they part there; [] without either.

    path: of `along`.
    """
    cells = path.set_index(["measure", "step"])
    texts = []
    for step in sorted(path.step[path.step > 0].unique()):
        words = []
        for measure in (TRUTH, SCORE):
            if (measure, step) in cells.index:
                value, low, high = cells.loc[(measure, step), PATH[2:]]
                words.append(f"{measure} {value:+.2f} ({low:+.2f} to {high:+.2f})")
        if not words:
            continue
        text = f"Gains over SFT at step {step}: {', '.join(words)}"
        if (APART, step) in cells.index:
            parted = Interval(*cells.loc[(APART, step), PATH[2:]])
            text += f"; {by_round.apart_in_words(parted)}"
        texts.append(f"{text}.")
    return texts


def along(
    policy: Policy,
    items: Prepared,
    pairs: Pairs,
    result: TrainingResult,
    compared: Comparison,
    setup: Setup,
) -> pd.DataFrame:
    """What the checkpoints that training kept do to the watched pairs and to the answers.

    Paper: silent. The policy ends with the weights that it has now.

    policy, items, pairs, result: as for `order_pairs`.
    compared: with SFT's rows, and the policy's as the last.
    setup: of the run.

    Returns rows `PATH`; none where training kept no checkpoint (TRL, or `keep` 0). Step 0 is SFT.
    measure is one of `FOLLOWED`, gains over SFT paired by prompt, or `APART`, the gain of the score
    less that of the truth, or "margin", nats, or "accuracy", %, of the watched pairs.
    """
    recipe = setup.recipe
    folders = {}  # of the checkpoints, by step
    for name in sorted(checkpoints.best(result.folder)):
        folders[checkpoints.step(result.folder / name)] = result.folder / "best" / name
    if not folders:
        return pd.DataFrame(columns=PATH)
    prompts = [cluster(pair) for pair in watched(items, pairs)]
    outputs = Outputs(policy, None, recipe.autocast)
    sft = next(frame for frame in compared.frames if frame.policy[0] == "SFT")
    frame_of_step = {0: sft, result.best_step: compared.frames[-1]}
    frames = [sft]
    rows = []
    if 0 not in folders:
        frames.append(sft.assign(policy="0"))
        rows.append((0, "margin", 0.0, 0.0, 0.0))
    for step, folder in folders.items():
        checkpoints.load_weights(outputs, folder)
        ratios = dpo.log_ratios(policy, items.watched, cache=setup.folder, **recipe.inference)
        margins = ratios[:, 0] - ratios[:, 1]  # [pairs]
        rows.append((step, "margin", *mean(margins, prompts, **recipe.resampled)))
        if step > 0:  # before training every margin is 0 but for rounding
            accuracy = mean(100.0 * (margins > 0), prompts, **recipe.resampled)
            rows.append((step, "accuracy", *inside(accuracy, 0, 100, len(set(prompts)))))
        if step not in frame_of_step:
            frame_of_step[step] = compared.measure(policy, "")
        frames.append(frame_of_step[step].assign(policy=str(step)))
        risen = by_round.risen([sft, frames[-1]], str(step), "SFT") if step > 0 else None
        if risen is not None:
            rows.append((step, APART, *by_round.apart(risen, **recipe.resampled)))
    last_weights = f"best/step-{result.best_step:06d}"
    if recipe.judge != "none":
        last_weights = f"checkpoint-{result.best_step}"
    checkpoints.load_weights(outputs, result.folder / last_weights)
    gains = policies.gains_of(frames, "SFT", **recipe.resampled)
    gains = gains[gains.measure.isin(FOLLOWED)]
    gains = gains.assign(step=gains.policy.astype(int)).rename(columns={"minus SFT": "difference"})
    path = pd.concat([pd.DataFrame(rows, columns=PATH), gains[PATH]])
    return path.sort_values(["measure", "step"], kind="stable", ignore_index=True)
