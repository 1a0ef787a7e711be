"""The small world in numbers: who makes which faults, what raters like, what the base can read.

    written = rows("demonstrations", groups)         # one row per response
    table([written, ..], n_boot=1000)                # their means side by side
    jargon(rated, n_boot=1000)                       # what raters and the truth make of jargon
    shares_in_words(of_faults)                       # which faults of the web the base has
    giving_in([written, ..])                         # how often, where a prompt tempts
    more_often(web, base)                            # which faults the base has more often
    readable(pairs, policy, reward_model)            # the faults that the base's numbers show
    probe_in_words(read, sentence_change(pairs))     # how many of these are faults

All of it is of generated groups; real ones raise ValueError. Paper: silent.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from hs2lib.corpus.faults import FAULTS, faults
from hs2lib.corpus.generate import task_of
from hs2lib.corpus.grade import grade, sentences
from hs2lib.corpus.one_fault import HARMLESS, change_of
from hs2lib.evaluate import policies
from hs2lib.evaluate.questions import beside_0, mean
from hs2lib.evaluate.response_rows import TRUTH, truth_of
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models import baselines
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.paper import head_weights
from hs2lib.report import published
from hs2lib.stats.bootstrap import Interval, bootstrap, inside

WEIGHTS = np.array(head_weights("goodness", ATTRIBUTES))  # [A]; paper: section 4.3

# Helpfulness in `jargon`, points of the scale from 0 to 4. The first two are less the truth that
# the answer would have without its jargon.
RATED = "rated"
TRUE = "true"
ABOVE = "rated less true"
JARGON_SENTENCES = ("0", "1", "2 or more")
JARGON_IN_WORDS = {"1": "One sentence", "2 or more": "Two or more sentences"}

TEMPTING = ("false premise", "unsafe")  # families of prompts to which an answer can give in

COMMON = 5  # per cent of answers; a writer has a fault that is in so many or more
SEPARATED = 90  # per cent of pairs; a probe separates a fault that it sees in so many or more

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
    """One row per response, in the form that `hs2lib.evaluate.policies.table` reads.

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
        f'{len(common)} faults are in {COMMON} % or more of the answers of "{read}",\n'
        f'{n_kept} of these in {COMMON} % or more of those of "{written}".\n'
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
    texts = [
        f"Of the {len(common)} faults in {COMMON} % or more of the {read}'s answers, {len(kept)} "
        f'are in {COMMON} % or more of those of "{written}": {", ".join(kept) or "none"}.'
    ]
    if left:
        texts.append(f"Not among them: {', '.join(left)}.")
    texts.append(
        f'The shares differ most for "{apart.name}": "{read}" {apart["read"]:.0f} %, '
        f'"{written}" {apart.written:.0f} %.'
    )
    return texts


def _signed(value: float, digits: int = 0) -> str:
    """A number with its sign; what rounds to zero has none."""
    text = f"{value:+z.{digits}f}"
    return text if float(text) else text.removeprefix("+")


def _change(value: float, low: float, high: float, digits: int = 0) -> str:
    """A difference with its interval, in words; without one that has no width when rounded."""
    if np.isnan(low) or _signed(low, digits) == _signed(high, digits):
        return _signed(value, digits)
    return f"{_signed(value, digits)} ({_end(low, digits)} to {_end(high, digits)})"


def _end(value: float, digits: int) -> str:
    """The end of an interval; of one that rounds to zero, on which side of it."""
    text = _signed(value, digits)
    if float(text) == 0 and value:
        return "above 0" if value > 0 else "below 0"
    return text


def _share(value: float, low: float, high: float) -> str:
    """A share in per cent with its interval, in words; without one that is not known."""
    if np.isnan(low):
        return f"{value:.0f} %"
    return f"{value:.0f} % ({low:.0f} to {high:.0f})"


def giving_in(frames: Sequence[pd.DataFrame], **resampled: int) -> pd.DataFrame:
    """How often each writer gives in, of the answers to those prompts that tempt one to.

    Args:
        frames: of `rows`, on the same prompts.
        resampled: n_boot and seed.

    Returns:
        One row per writer: policy, prompts, mean, 95 % low, 95 % high, in per cent; no row where no
        prompt tempts.
    """
    table = []
    for frame in frames:
        tempts = frame.prompt.map(lambda prompt: task_of(prompt).family in TEMPTING)
        part = frame[tempts.astype(bool)]
        if part.empty:
            continue
        n_prompts = part.prompt.nunique()
        share = inside(mean(part["gives in"], part.prompt, **resampled), 0, 100, n_prompts)
        table.append((part.policy.iloc[0], n_prompts, *share))
    return pd.DataFrame(table, columns=["policy", "prompts", "mean", "95 % low", "95 % high"])


def giving_in_in_words(table: pd.DataFrame) -> list[str]:
    """How often each writer gives in where a prompt tempts, in a sentence; none without such.

    table: of `giving_in`.
    """
    if table.empty:
        return []
    parts = []
    for policy, _, *share in table.itertuples(index=False):
        parts.append(f'"{policy}" {_share(*share)}')
    return [
        f"Only {table.prompts.iloc[0]} prompts tempt. The share of answers to these that give in: "
        f"{', '.join(parts)}."
    ]


def more_often(read: pd.DataFrame, written: pd.DataFrame, **resampled: int) -> pd.DataFrame:
    """Which faults are in more of the answers of one writer than of another, prompt by prompt.

    Args:
        read: of `rows`, the writer whose texts were read; one response per prompt.
        written: of `rows`, the writer who read them, on the same prompts.
        resampled: n_boot and seed.

    Returns:
        One row per fault, by its name in `NAMES`: fault, occurs (whether either writer has it),
        difference in points of percent, 95 % low, 95 % high; then "truth", in points of 7.6.
    """
    first = read.set_index("prompt")
    second = written.set_index("prompt").loc[first.index]
    table = []
    for measure in (*FAULTS, TRUTH):
        occurs = bool(first[measure].any() or second[measure].any())
        difference = mean(second[measure] - first[measure], first.index, **resampled)
        table.append((NAMES.get(measure, measure), occurs, *difference))
    return pd.DataFrame(table, columns=["fault", "occurs", "difference", "95 % low", "95 % high"])


def more_often_in_words(apart: pd.DataFrame, read: str, written: str) -> list[str]:
    """Which faults are more frequent, which less, of which neither is shown, and which are absent.

    apart: of `more_often`. read, written: names of the two writers.
    """
    parts: dict[str, list[str]] = {"more": [], "less": [], "neither": [], "absent": []}
    for fault, occurs, *difference in apart[apart.fault != TRUTH].itertuples(index=False):
        _, low, high = difference
        if not occurs:
            parts["absent"].append(fault)
            continue
        key = "more" if low > 0 else "less" if high < 0 else "neither"
        parts[key].append(f"{fault} {_change(*difference)}")
    truth = apart[apart.fault == TRUTH].iloc[0, -3:]
    texts = [
        f"{written} less {read}, truth, prompt by prompt: {_change(*truth, digits=2)}.",
        f"In more answers, points of percent: {', '.join(parts['more']) or 'none'}.",
        f"In fewer: {', '.join(parts['less']) or 'none'}.",
        f"Not shown to be more or fewer: {', '.join(parts['neither']) or 'none'}.",
    ]
    if parts["absent"]:
        texts.append(f"In no answer of either: {', '.join(parts['absent'])}.")
    return texts


def also_more_often_in_words(apart: pd.DataFrame, sampled: pd.DataFrame) -> list[str]:
    """Which faults that greedy answers have more often than the web sampled ones have so too.

    That is whether greedy decoding alone can be the reason. No sentence where greedy answers have
    none more often.

    apart: of `more_often`, for greedy answers. sampled: the same for sampled ones.
    """
    faults_of_greedy = apart[(apart.fault != TRUTH) & (apart["95 % low"] > 0)].fault
    if faults_of_greedy.empty:
        return []
    too = []
    not_shown = []
    for fault, _, *difference in sampled.itertuples(index=False):
        if fault in set(faults_of_greedy):
            listed = too if difference[1] > 0 else not_shown
            listed.append(f"{fault} {_change(*difference)}")
    text = (
        f"Of the {len(faults_of_greedy)} that greedy answers have more often than the web, sampled "
        f"answers have {len(too)} more often too: {', '.join(too) or 'none'}."
    )
    if not_shown:
        text += f" Of the others that is not shown: {', '.join(not_shown)}."
    if too:
        text += " So greedy decoding is not the whole reason."
    return [text]


def base_over_seeds() -> list[str]:
    """The published truth of the base's greedy answers, a level; [] where nothing is published."""
    means = published.means()
    of_base = means[(means.policy == "base") & (means.temperature == 0)]
    if of_base.empty:
        return []
    row = of_base.iloc[0]
    return [
        "Published, truth of the base's greedy answers, mean over seeds: "
        f"{row['mean']:.2f} ({row['low']:.2f} to {row['high']:.2f}). The seeds share one base, so "
        "only their prompts vary.",
    ]


def by_wish(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The mean truth of each policy: where remarks are wished, where they are not, and of all.

    frames: of `rows`. Returns one row per policy, in their order.
    """
    joined = pd.concat(frames, ignore_index=True)
    wishes = joined.prompt.map(lambda prompt: task_of(prompt).wish)
    table = joined.pivot_table(TRUTH, "policy", wishes, sort=False)
    table = table.rename(columns={"alone": "answer alone wished", "remarks": "remarks wished"})
    table["all prompts"] = joined.groupby("policy")[TRUTH].mean()
    return table.rename_axis(columns=None)


def _by_jargon(groups: Sequence[Group]) -> pd.DataFrame:
    """One row per response: prompt, sentences (index of `JARGON_SENTENCES`), RATED, TRUE, ABOVE."""
    listed = []
    for group in groups:
        task = task_of(group.id)
        for response in group.responses:
            read = grade(task, response.text)
            true = read.attributes[0]
            without = replace(read, expert=0).attributes[0]
            rated = response.labels[0]
            sentences_of_jargon = min(read.expert, len(JARGON_SENTENCES) - 1)
            differences = (rated - without, true - without, rated - true)
            listed.append((group.id, sentences_of_jargon, *differences))
    return pd.DataFrame(listed, columns=["prompt", "sentences", RATED, TRUE, ABOVE])


def jargon(groups: Sequence[Group], **resampled: int) -> pd.DataFrame:
    """Helpfulness by raters and in truth, by the sentences of jargon in the response.

    Both are less the truth that the response would have without its jargon. So its other faults
    are on both sides.

    Args:
        groups: generated and rated ones.
        resampled: n_boot and seed.

    Returns:
        Rows (jargon sentences, responses, helpfulness, mean, 95 % low, 95 % high); `helpfulness` is
        `RATED`, `TRUE` or `ABOVE`.
    """
    table = []
    for sentences_of_jargon, part in _by_jargon(groups).groupby("sentences"):
        name = JARGON_SENTENCES[sentences_of_jargon]
        for measure in (RATED, TRUE, ABOVE):
            interval = mean(part[measure], part.prompt, **resampled)
            table.append((name, len(part), measure, *interval))
    columns = ["jargon sentences", "responses", "helpfulness", "mean", "95 % low", "95 % high"]
    return pd.DataFrame(table, columns=columns)


def jargon_changes(groups: Sequence[Group], **resampled: int) -> pd.DataFrame:
    """What of `jargon` differs between responses with jargon and those without any.

    Args:
        groups: generated and rated ones.
        resampled: n_boot and seed.

    Returns:
        Rows (jargon sentences, helpfulness, difference, 95 % low, 95 % high), without those of a
        number of sentences that no response has.
    """
    rated = _by_jargon(groups)
    without = (rated.sentences == 0).to_numpy(float)
    prompts = rated.prompt.to_numpy(str)
    table = []
    for number, name in enumerate(JARGON_SENTENCES[1:], 1):
        with_jargon = (rated.sentences == number).to_numpy(float)
        if not (with_jargon.any() and without.any()):
            continue
        for measure in (RATED, TRUE, ABOVE):
            value = rated[measure].to_numpy(float)
            # [responses, 4]
            sums = np.column_stack([with_jargon * value, with_jargon, without * value, without])
            interval = bootstrap(sums, prompts, _mean_less_mean, **resampled)
            table.append((name, measure, *(float(end[0]) for end in interval)))
    columns = ["jargon sentences", "helpfulness", "difference", "95 % low", "95 % high"]
    return pd.DataFrame(table, columns=columns)


def _mean_less_mean(sums: np.ndarray) -> np.ndarray:
    """A mean less another, [B, 1], of sums [B, 4]: of values and their number, twice."""
    return sums[:, [0]] / sums[:, [1]] - sums[:, [2]] / sums[:, [3]]


def jargon_title(changes: pd.DataFrame) -> str:
    """The message of a figure of `jargon`: what one sentence of it does to either side.

    changes: of `jargon_changes`.
    """
    one = changes[changes["jargon sentences"] == JARGON_SENTENCES[1]]
    if one.empty:
        return "No answer has one sentence of jargon"
    difference = one.set_index("helpfulness").difference
    return (
        f"One sentence of jargon, beside none: rated {_signed(difference[RATED], 2)}, "
        f"true {_signed(difference[TRUE], 2)}"
    )


def jargon_in_words(changes: pd.DataFrame) -> list[str]:
    """What jargon does to ratings, to the truth, and to the distance of the two.

    changes: of `jargon_changes`.
    """
    texts = []
    for name, part in changes.groupby("jargon sentences", sort=False):
        words = {}
        for measure, *difference in part.iloc[:, 1:].itertuples(index=False):
            words[measure] = _change(*difference, digits=2)
        texts.append(
            f"{JARGON_IN_WORDS[name]} of jargon, beside none: raters give {words[RATED]} points of "
            f"helpfulness, the truth changes by {words[TRUE]}. So {ABOVE} changes by "
            f"{words[ABOVE]}."
        )
    return texts


def spread(written: pd.DataFrame, n: int = 3) -> list[str]:
    """The prompts of n answers from the truly worst to the truly best, at even steps of rank.

    written: of `rows`, one response per prompt.
    """
    ranked = written.sort_values(TRUTH, kind="stable").prompt.tolist()
    places = np.linspace(0, len(ranked) - 1, n).round().astype(int)
    return [ranked[place] for place in places]


def readable(
    pairs: Sequence[Group], policy: Policy, model: RewardModel, **resampled: int
) -> pd.DataFrame:
    """By fault: how often the base's likelihood, and a probe of its states, prefer the better one.

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


CHANGES = {1: "more", 0: "as many", -1: "fewer"}


def sentence_change(pairs: Sequence[Group]) -> dict[str, str]:
    """By fault: whether all answers with it have more sentences, fewer, or as many; else "mixed".

    pairs: of `hs2lib.corpus.one_fault.pairs`, the faultless answer first.
    """
    signs = defaultdict(set)
    for pair in pairs:
        faultless, changed = pair.responses
        added = len(sentences(changed.text)) - len(sentences(faultless.text))
        signs[change_of(pair)].add(int(np.sign(added)))
    return {
        change: CHANGES[min(seen)] if len(seen) == 1 else "mixed" for change, seen in signs.items()
    }


def alike_in_words(pairs: Sequence[Group], one: str, other: str) -> str:
    """For how many prompts two faults make the same answer, in a sentence.

    pairs: of `hs2lib.corpus.one_fault.pairs`. one, other: the faults.
    """
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    for pair in pairs:
        texts[pair.id.rpartition("/")[0]][change_of(pair)] = pair.responses[1].text
    both = [of_prompt for of_prompt in texts.values() if one in of_prompt and other in of_prompt]
    n_alike = sum(of_prompt[one] == of_prompt[other] for of_prompt in both)
    return f'"{one}" and "{other}" are the same answer to {n_alike} of {len(both)} prompts.'


def _of_probe(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The probe's rows by fault, and the faults that it separates by the point estimate."""
    rows = table[table.by == "probe"].set_index("fault")
    right = rows["right (%)"].drop(HARMLESS, errors="ignore")
    return rows, right.index[right >= SEPARATED].tolist()


def readable_title(table: pd.DataFrame) -> str:
    """The message of a figure of `readable`: what the probe separates, and that it is no fault.

    table: of `readable`.
    """
    rows, separated = _of_probe(table)
    n_faults = len(rows.index.drop(HARMLESS, errors="ignore"))
    title = (
        f"The probe separates {len(separated)} of {n_faults} faults in {SEPARATED} % or more "
        "of the pairs"
    )
    if HARMLESS in rows.index:
        title += f",\nand a harmless filler in {rows.loc[HARMLESS, 'right (%)']:.0f} %"
    return title


def probe_in_words(table: pd.DataFrame, changes: dict[str, str]) -> list[str]:
    """How many faults the probe separates, and beside them the filler, which is no fault.

    table: of `readable`. changes: of `sentence_change`.
    """
    rows, separated = _of_probe(table)
    n_faults = len(rows.index.drop(HARMLESS, errors="ignore"))
    texts = [
        f"The probe separates {len(separated)} of {n_faults} kinds of fault in {SEPARATED} % or "
        "more of the pairs, by its share and not by its interval: "
        f"{', '.join(separated) or 'none'}."
    ]
    if HARMLESS in rows.index:
        filler = rows.loc[HARMLESS, "right (%)"]
        texts.append(f"A filler sentence, which is no fault, it separates in {filler:.0f} %.")
        counted = [fault for fault in separated if changes[fault] in ("more", "fewer")]
        others = [fault for fault in separated if fault not in counted]
        if filler >= SEPARATED and counted:
            texts.append(
                "So the number of sentences may suffice, where a fault always adds or always "
                f"removes some: {', '.join(counted)}. Whether the probe reads more is not shown."
            )
            if others:
                listed = [f"{fault} ({rows.loc[fault, 'pairs']} pairs)" for fault in others]
                texts.append(f"Of those separated this does not hold for: {', '.join(listed)}.")
    guessed = {}
    for fault, row in rows.drop(HARMLESS, errors="ignore").iterrows():
        if row["95 % low"] <= 50 <= row["95 % high"]:
            guessed[fault] = f"{fault} {_share(*row.iloc[-3:])}"
    if guessed:
        text = f"Not shown to be better than a guess (50 %): {', '.join(guessed.values())}."
        as_many = [fault for fault in guessed if changes[fault] == "as many"]
        if as_many:
            text += f" Of these, no sentence more or fewer: {', '.join(as_many)}."
        texts.append(text)
    return texts


def likelihood_in_words(table: pd.DataFrame) -> list[str]:
    """What the likelihood makes of the filler, which is no fault, and which faults it prefers.

    table: of `readable`.
    """
    rows = table[table.by == "likelihood"].set_index("fault")
    texts = []
    below = []
    for fault, row in rows.iterrows():
        if fault == HARMLESS:
            texts.append(
                "Even without a fault the answer without the filler is the likelier one in "
                f"{_share(*row.iloc[-3:])} of the pairs. So a share near {row['right (%)']:.0f} % "
                "proves nothing where a fault adds a sentence."
            )
        elif row["95 % high"] < 50:
            below.append(f"{fault} ({_share(*row.iloc[-3:])} for the faultless answer)")
    if below:
        texts.append(f"Likelier with the fault than without it: {', '.join(below)}.")
    return texts


def judge_in_words(table: pd.DataFrame, fault: str = "wrong value") -> str:
    """Whether a probe sees a fault more often than a guess would, in a sentence about "them".

    table: of `readable`.
    """
    rows = table[(table.by == "probe") & (table.fault == fault)]
    if rows.empty:
        return "There are too few pairs to ask a probe."
    row = rows.iloc[0]
    verdict = beside_0(
        row["95 % low"] - 50,
        row["95 % high"] - 50,
        above="better than guessing",
        below="worse than guessing",
        neither="not shown to be better than guessing",
    )
    return (
        f"A probe sees them in {_share(*row.iloc[-3:])} of the pairs, where a guess has 50 %: "
        f"{verdict}."
    )


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
