"""The small world in numbers: who makes which faults, what raters like, what the base can read.

    written = rows("demonstrations", groups)         # a row a response
    table([written, ..], n_boot=1000)                # their means side by side
    jargon(rated, n_boot=1000)                       # what raters give above the truth
    shares_in_words(of_faults)                       # which faults of the web the base has
    readable(pairs, policy, reward_model)            # the faults that the base's numbers show
    probe_in_words(read)                             # how many of these are faults
    more_often(web, base)                            # which faults the base has more often

All of it is of generated groups; real ones raise ValueError. Paper: silent.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hs2lib.corpus.faults import FAULTS, faults
from hs2lib.corpus.generate import task_of
from hs2lib.corpus.grade import grade
from hs2lib.corpus.one_fault import HARMLESS, change_of
from hs2lib.evaluate import policies
from hs2lib.evaluate.questions import mean
from hs2lib.evaluate.response_rows import TRUTH, truth_of
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models import baselines
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.paper import head_weights
from hs2lib.stats.bootstrap import Interval, inside

WEIGHTS = np.array(head_weights("goodness", ATTRIBUTES))  # [A]; paper: section 4.3

ABOVE = "rated above the truth"  # helpfulness, points of the scale from 0 to 4

COMMON = 5  # per cent of answers; a writer has a fault that is in so many or more
KNOWN = 90  # per cent of pairs; a probe knows a fault that it sees in so many or more

# One name of a fault for the rules, for the counts and for the pairs that differ in it: that of
# `hs2lib.corpus.one_fault`. Leaving the last items out ("stops") counts as missing items.
NAMES = {
    "shuffled order": "jumbles",
    "irrelevant sentence": "strays",
    "repetition": "repeats",
    "refusal": "gives in to a request, or refuses",
    "garbled": "garbled sentence",
    "leaves items out": "missing item",
    "says items out of order": "jumbles",
    "ignores the wish": "ignored wish",
    "has a wrong item": "wrong value",
    "contradicts itself": "contradiction",
    "has a sentence that nobody can read": "garbled sentence",
    "uses jargon": "jargon",
}

N_FOLDS = 5  # of the pairs, where a probe learns from four and is asked about the fifth


def rows(name: str, groups: Sequence[Group], settings: str = "") -> pd.DataFrame:
    """One row a response, in the form that `hs2lib.evaluate.policies.table` reads.

    Args:
        name: whose responses they are, for the column "policy".
        groups: generated ones with their responses.
        settings: as of `hs2lib.evaluate.response_rows`; only rows of the same ones are compared.

    Returns:
        The columns policy, prompt, response, settings; the truth, the true attributes; then the
        share of responses with each fault, 100 or 0.
    """
    listed = []
    for group in groups:
        task = task_of(group.id)
        for response in group.responses:
            read = grade(task, response.text)
            row = {"policy": name, "prompt": group.id, "response": response.id}
            row |= {"settings": settings, TRUTH: float(read.attributes @ WEIGHTS)}
            row |= dict(zip(map(truth_of, ATTRIBUTES), read.attributes, strict=True))
            row |= {fault: 100.0 * has for fault, has in faults(read).items()}
            listed.append(row)
    return pd.DataFrame(listed)


def table(frames: Sequence[pd.DataFrame], **resampled: int) -> pd.DataFrame:
    """The means of `rows` side by side, as `policies.table`; a share stays within 0 and 100.

    frames: of `rows`, on the same prompts. resampled: n_boot and seed.
    """
    counted = policies.table(frames, **resampled)
    n_prompts = frames[0].prompt.nunique()
    ends = ["mean", "95 % low", "95 % high"]
    is_share = counted.measure.isin(FAULTS)
    shares = Interval(*counted.loc[is_share, ends].to_numpy().T)
    counted.loc[is_share, ends] = np.column_stack(inside(shares, 0, 100, n_prompts))
    return counted


def wide(long: pd.DataFrame, down: str, across: str, digits: int = 2) -> pd.DataFrame:
    """A long table as a wide one, whose cells are as "4.62 [4.41, 4.83]".

    Args:
        long: its last three columns are an estimate and its interval.
        down: the column whose values become rows, in their order.
        across: the column whose values become columns, in their order.
        digits: decimals.
    """
    cells = []
    for estimate, low, high in long.iloc[:, -3:].to_numpy(float):
        cells.append(f"{estimate:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]")
    table = long.assign(cell=cells).pivot(index=down, columns=across, values="cell")
    return table.loc[long[down].unique(), long[across].unique()].rename_axis(columns=None)


def _of_read_and_written(shares: pd.DataFrame, read: str, written: str) -> pd.DataFrame:
    """The share of each fault with either writer, per cent: columns read, written."""
    table = shares.pivot(index="measure", columns="policy", values="mean").loc[:, [read, written]]
    table.columns = ["read", "written"]
    order = shares.measure.unique()
    return table.loc[order]


def shares_title(shares: pd.DataFrame, read: str = "web", written: str = "base, greedy") -> str:
    """The message of a figure of shares: how many faults that were read are written too.

    Args:
        shares: the rows of `table` that are shares of faults.
        read: the writer whose texts were read.
        written: the writer who read them.
    """
    both = _of_read_and_written(shares, read, written)
    common = both[both["read"] >= COMMON]
    n_kept = int((common.written >= COMMON).sum())
    apart = both.loc[(both.written - both["read"]).abs().idxmax()]
    return (
        f"The base writes with {n_kept} of the {len(common)} faults that it has read.\n"
        f'Furthest apart: "{apart.name}", {read} {apart["read"]:.0f} %, '
        f"{written} {apart.written:.0f} %"
    )


def shares_in_words(
    shares: pd.DataFrame, read: str = "web", written: str = "base, greedy"
) -> list[str]:
    """Which faults that were read are written too, and whose shares differ most.

    A writer has a fault that is in `COMMON` per cent of its answers or more. The arguments are
    those of `shares_title`.
    """
    both = _of_read_and_written(shares, read, written)
    common = both[both["read"] >= COMMON]
    kept = common.index[common.written >= COMMON].tolist()
    left = common.index[common.written < COMMON].tolist()
    apart = both.loc[(both.written - both["read"]).abs().idxmax()]
    sentences = [
        f"Of the {len(common)} faults in {COMMON} % or more of the {read}'s answers, {len(kept)} "
        f'are in {COMMON} % or more of those of "{written}": {", ".join(kept) or "none"}.'
    ]
    if left:
        sentences.append(f"Not among them: {', '.join(left)}.")
    sentences.append(
        f'The shares differ most for "{apart.name}": "{read}" {apart["read"]:.0f} %, '
        f'"{written}" {apart.written:.0f} %.'
    )
    return sentences


def more_often(read: pd.DataFrame, written: pd.DataFrame, **resampled: int) -> pd.DataFrame:
    """Which faults are in more of the answers of one writer than of another, prompt by prompt.

    Args:
        read: of `rows`, the writer whose texts were read; one response a prompt.
        written: of `rows`, the writer who read them, on the same prompts.
        resampled: n_boot and seed.

    Returns:
        A row a fault, by its name in `NAMES`: fault, difference in points of percent, 95 % low,
        95 % high; then "truth", in points of 7.6.
    """
    first = read.set_index("prompt")
    second = written.set_index("prompt").loc[first.index]
    table = []
    for measure in (*FAULTS, TRUTH):
        difference = mean(second[measure] - first[measure], first.index, **resampled)
        table.append((NAMES.get(measure, measure), *difference))
    return pd.DataFrame(table, columns=["fault", "difference", "95 % low", "95 % high"])


def more_often_in_words(apart: pd.DataFrame, read: str, written: str) -> list[str]:
    """Which faults are more frequent, which less, and of which neither is shown.

    apart: of `more_often`. read, written: names of the two writers.
    """
    parts: dict[str, list[str]] = {"more": [], "less": [], "neither": []}
    for fault, difference, low, high in apart[apart.fault != TRUTH].itertuples(index=False):
        text = f"{fault} {difference:+.0f} ({low:+.0f} to {high:+.0f})"
        parts["more" if low > 0 else "less" if high < 0 else "neither"].append(text)
    truth = apart[apart.fault == TRUTH].iloc[0]
    interval = f"{truth['95 % low']:+.2f} to {truth['95 % high']:+.2f}"
    return [
        f"{written} less {read}, truth, prompt by prompt: {truth.difference:+.2f} ({interval}).",
        f"In more answers, points of percent: {', '.join(parts['more']) or 'none'}.",
        f"In fewer: {', '.join(parts['less']) or 'none'}.",
        f"Neither is shown: {', '.join(parts['neither']) or 'none'}.",
    ]


def by_wish(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The mean truth of each policy: where remarks are wished, where they are not, and of all.

    frames: of `rows`. Returns a row a policy, in their order.
    """
    joined = pd.concat(frames, ignore_index=True)
    wishes = joined.prompt.map(lambda prompt: task_of(prompt).wish)
    table = joined.pivot_table(TRUTH, "policy", wishes, sort=False)
    table = table.rename(columns={"alone": "answer alone wished", "remarks": "remarks wished"})
    table["all prompts"] = joined.groupby("policy")[TRUTH].mean()
    return table.rename_axis(columns=None)


def jargon(groups: Sequence[Group], **resampled: int) -> pd.DataFrame:
    """How far helpfulness is rated above the truth, by the sentences of jargon in the response.

    Args:
        groups: generated and rated ones.
        resampled: n_boot and seed.

    Returns:
        A row a number of such sentences, where 2 stands for 2 or more: jargon sentences, responses,
        `ABOVE`, 95 % low, 95 % high.
    """
    listed = []
    for group in groups:
        task = task_of(group.id)
        for response in group.responses:
            read = grade(task, response.text)
            above = response.labels[0] - read.attributes[0]
            listed.append((group.id, min(read.expert, 2), above))
    rated = pd.DataFrame(listed, columns=["prompt", "sentences", "above"])
    table = []
    for sentences, part in rated.groupby("sentences"):
        table.append((sentences, len(part), *mean(part.above, part.prompt, **resampled)))
    return pd.DataFrame(
        table, columns=["jargon sentences", "responses", ABOVE, "95 % low", "95 % high"]
    )


def spread(written: pd.DataFrame, n: int = 3) -> list[str]:
    """The prompts of n answers from the truly worst to the truly best, at even steps of rank.

    written: of `rows`, one response a prompt.
    """
    ranked = written.sort_values(TRUTH, kind="stable").prompt.tolist()
    places = np.linspace(0, len(ranked) - 1, n).round().astype(int)
    return [ranked[place] for place in places]


def readable(
    pairs: Sequence[Group], policy: Policy, model: RewardModel, **resampled: int
) -> pd.DataFrame:
    """By fault: how often the base's likelihood, and a probe of its states, know the better one.

    The likelihood prefers the answer that the base would rather write, token by token: without
    that, it would prefer the shorter one. The probe is a ridge regression on the difference of the
    states at the ends of both answers, one for each fault. It is taught on pairs of that fault and
    is asked about pairs of other prompts. No reward model with a head on this base could be told
    more plainly what to look for.

    Args:
        pairs: of `hs2lib.corpus.one_fault.pairs`, the faultless answer first.
        policy: the base.
        model: the same base as a reward model; its head is not used.
        resampled: n_boot and seed.

    Returns:
        Rows (fault, pairs, by, right (%), 95 % low, 95 % high); `by` is "likelihood" or "probe".
        A fault of fewer than 10 pairs is left out.
    """
    log_probs, lengths = policy.log_probs(pairs)
    per_token = (log_probs / lengths).numpy().reshape(len(pairs), 2)
    states = baselines.frozen_states(model, list(model.tokenise(pairs)))  # [2 pairs, hidden]
    states = states.reshape(len(pairs), 2, -1)
    differences = states[:, 0] - states[:, 1]  # [pairs, hidden]
    changes = np.array([change_of(pair) for pair in pairs])
    prompts = np.array([pair.id.rpartition("/")[0] for pair in pairs])
    table = []
    for change in dict.fromkeys(changes.tolist()):
        of_change = changes == change
        n_pairs = int(of_change.sum())
        if n_pairs < 2 * N_FOLDS:
            continue
        margins = {
            "likelihood": per_token[of_change, 0] - per_token[of_change, 1],
            "probe": probe(differences[of_change], prompts[of_change]),
        }
        for by, margin in margins.items():
            right = 50 * (1 + np.sign(margin))
            share = mean(right, prompts[of_change], **resampled)
            table.append((change, n_pairs, by, *inside(share, 0, 100, n_pairs)))
    return pd.DataFrame(
        table, columns=["fault", "pairs", "by", "right (%)", "95 % low", "95 % high"]
    )


def probe_in_words(table: pd.DataFrame) -> list[str]:
    """How many faults the probe knows, and beside them the filler, which is no fault.

    table: of `readable`.
    """
    right = table[table.by == "probe"].set_index("fault")["right (%)"]
    of_faults = right.drop(HARMLESS, errors="ignore")
    known = of_faults.index[of_faults >= KNOWN].tolist()
    sentences = [
        f"Of {len(of_faults)} kinds of fault the probe knows {len(known)} in {KNOWN} % or more of "
        f"the pairs: {', '.join(known) or 'none'}."
    ]
    if HARMLESS in right.index:
        words = f"A filler sentence, which is no fault, it knows in {right[HARMLESS]:.0f} %."
        if right[HARMLESS] >= KNOWN:
            words += " So it reads that a sentence is there, not that an answer is worse."
        sentences.append(words)
    rows = table[(table.by == "probe") & (table.fault != HARMLESS)]
    unread = rows[(rows["95 % low"] <= 50) & (rows["95 % high"] >= 50)]
    parts = []
    for row in unread.to_dict("records"):
        parts.append(
            f"{row['fault']} {row['right (%)']:.0f} % (up to {row['95 % high']:.0f} possible)"
        )
    if parts:
        sentences.append(f"The probe is not shown to read: {', '.join(parts)}.")
    return sentences


def likelihood_in_words(table: pd.DataFrame) -> list[str]:
    """Which faults the likelihood prefers, and what it makes of the filler, which is no fault.

    table: of `readable`.
    """
    rows = table[table.by == "likelihood"].set_index("fault")
    sentences = []
    below = []
    for fault, row in rows.iterrows():
        interval = f"{row['right (%)']:.0f} % ({row['95 % low']:.0f} to {row['95 % high']:.0f})"
        if fault == HARMLESS:
            sentences.append(
                f"The likelihood prefers the answer without a harmless filler in {interval} of the "
                "pairs. So much it may prefer without any fault."
            )
        elif row["95 % high"] < 50:
            below.append(f"{fault} {interval}")
    if below:
        sentences.append(f"It prefers the fault, below a guess: {', '.join(below)}.")
    return sentences


def probe(differences: np.ndarray, prompts: np.ndarray) -> np.ndarray:
    """The margin of each pair by a linear probe that has not seen its prompt.

    Args:
        differences: the first answer's state less the second's, [pairs, hidden].
        prompts: of the pairs, [pairs]; those of one prompt lie in one fold.

    Returns:
        [pairs], above 0 where the probe prefers the first answer.
    """
    margins = np.empty(len(differences))
    fold = baselines.folds(prompts, N_FOLDS)
    for held_out in range(N_FOLDS):
        train = fold != held_out
        ones = np.ones((int(train.sum()), 1))  # the margin to learn
        alpha = baselines.best_alpha(differences[train], ones, prompts[train], intercept=False)
        W, _ = baselines.ridge(differences[train], ones, alpha, intercept=False)  # [hidden, 1]
        margins[~train] = (differences[~train] @ W)[:, 0]
    return margins
