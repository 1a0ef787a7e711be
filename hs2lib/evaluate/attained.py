"""Do answers have the attributes asked for? SteerLM 2.0's iterations beside SFT and SteerLM.

    compared = begin(setup, policy, prior, reward_model)       # SFT and SteerLM, before training
    after = save_and_measure(compared)
    history = steerlm2.iterate(policy, prior, reward_model, prompts, setup, after=after)
    chosen = choose(policy, history, compared)                 # where a judge chooses
    save(compared)                                             # for notebook 13

Paper: section 4.5. SteerLM 2.0 begins with SteerLM's policy.
"""

from collections.abc import Callable, Sequence

import pandas as pd
import torch

from hs2lib.align import steerlm2
from hs2lib.evaluate import content, gallery, questions, response_rows, selection
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.response_rows import GREEDY, SCORE, TRUTH, score_of, truth_of
from hs2lib.group import ATTRIBUTES, Group, named_numbers
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.report import published
from hs2lib.report.answers import Answer
from hs2lib.runs.setup import Setup
from hs2lib.train.recipes import SteerLM2

PROMISED = "log P(a|x,y)"  # of the target: what SteerLM 2.0 trains towards

# Two estimates of the same gradient.
ESTIMATORS = ("equation 8, no baseline", "equation 11, baseline b'")


def names(iterations: int) -> list[str]:
    """The policies' names in tables; the last one has the method's own name."""
    earlier = [f"SteerLM 2.0, iteration {number}" for number in range(1, iterations)]
    return [*earlier, "SteerLM 2.0"]


def shown(setup: Setup) -> list[str]:
    """The policies that are compared, in their order."""
    return ["SFT", "SteerLM", *names(setup.recipe.iterations)]


def begin(setup: Setup, policy: Policy, prior: Policy, reward_model: RewardModel) -> Comparison:
    """A comparison that has SFT and SteerLM, before training.

    Their rows are those that earlier notebooks left, or they are measured now. Of a policy or prior
    that the recipe names nothing was left.

    setup: of the run.
    policy: SteerLM's, which training begins with.
    prior: SFT's.
    reward_model: scores the answers.
    """
    recipe = setup.recipe
    named = bool(recipe.start or recipe.prior)
    compared = Comparison.begin(setup, reward_model, prior, earlier=not named)
    compared.evaluate_first(prior, "SFT")
    if "SteerLM" not in {frame.policy[0] for frame in compared.frames}:
        compared.evaluate(policy, "SteerLM", recipe.target)
    return compared


def save_and_measure(compared: Comparison) -> Callable[[int, Policy], None]:
    """A function that saves the policy an iteration leaves and puts it into the comparison."""
    setup = compared.setup
    name_of = names(setup.recipe.iterations)

    def after(number: int, policy: Policy) -> None:
        policy.save(setup.folder / f"iteration-{number}" / "policy")
        compared.evaluate(policy, name_of[number - 1], setup.recipe.target)

    return after


def choose(policy: Policy, history: steerlm2.History, compared: Comparison) -> selection.Chosen:
    """Put the checkpoint of the last iteration that a judge finds best into the policy.

    It is measured in place of the iteration's last one. Without a judge nothing changes.
    """
    recipe = compared.setup.recipe
    chosen = selection.choose(policy, history.last, recipe, label=recipe.target)
    if recipe.judge != "none":
        compared.frames.pop()
        save_and_measure(compared)(recipe.iterations, policy)
    return chosen


def save(compared: Comparison) -> None:
    """Leave the rows of all iterations for later notebooks."""
    frames = compared.frames[-compared.setup.recipe.iterations :]
    response_rows.save(compared.setup.folder, pd.concat(frames, ignore_index=True))


def numbers(compared: Comparison, history: steerlm2.History) -> dict[str, float]:
    """The main numbers of a run, of its last iteration over SteerLM: `Comparison.numbers`."""
    last = compared.frames[-1].policy[0]
    return compared.numbers(last, "SteerLM", history.last)


def measure_promise(compared: Comparison) -> str:
    """Add `PROMISED` to the rows of every policy, and return the name of the measure that counts.

    Paper: section 4.5. The reward model's column has `PROMISED` of its predictions, which is what
    training can see. Where the truth is known, a second column has that of the true attributes, and
    this one counts.
    """
    recipe = compared.setup.recipe
    attribute_columns = {}  # by measure: the column of each attribute
    if compared.truth_known:
        attribute_columns[truth_of(PROMISED)] = {name: truth_of(name) for name in ATTRIBUTES}
    attributes = compared.reward_model.attributes
    attribute_columns[score_of(PROMISED)] = {name: score_of(name) for name in attributes}
    for frame in compared.frames:
        for measure, column_of in attribute_columns.items():
            values = torch.tensor(frame[list(column_of.values())].to_numpy(float))  # [responses, A]
            frame[measure] = steerlm2.attribute_log_prob(
                values, list(column_of), recipe.target, recipe
            )
    return next(iter(attribute_columns))


def gains_over_steerlm(compared: Comparison) -> pd.DataFrame:
    """What each iteration adds to the policy that the first one began with, paired by prompt."""
    gains = compared.gains("SteerLM")
    return gains[gains.policy.str.startswith("SteerLM 2.0")].reset_index(drop=True)


def gains_over_sft(compared: Comparison) -> pd.DataFrame:
    """What the last iteration adds to SFT, which is shown no label, paired by prompt."""
    gains = compared.gains("SFT")
    return gains[gains.policy == "SteerLM 2.0"].reset_index(drop=True)


def differences(compared: Comparison) -> pd.DataFrame:
    """What each step adds: SteerLM to SFT, each iteration to SteerLM, SteerLM 2.0 to SFT.

    Paper: silent. Paired by prompt. Columns: comparison, measure, difference, low, high (95 %).
    """
    over_sft = compared.gains("SFT")
    over_sft = over_sft[over_sft.policy.isin(["SteerLM", "SteerLM 2.0"])]
    tables = {"SteerLM": gains_over_steerlm(compared), "SFT": over_sft}
    rows = []
    for against, table in tables.items():
        for measure, policy, *difference in table.itertuples(index=False):
            rows.append((f"{policy}\nless {against}", measure, *difference))
    table = pd.DataFrame(rows, columns=["comparison", "measure", "difference", "low", "high"])
    order = list(dict.fromkeys(table.comparison))
    order.insert(0, order.pop(order.index("SteerLM\nless SFT")))
    return table.set_index("comparison").loc[order].reset_index()


def examples(
    policies: dict[str, Policy], compared: Comparison
) -> list[tuple[str, Group, list[Answer]]]:
    """Answers of SFT, SteerLM and SteerLM 2.0 to a few prompts, greedy and sampled.

    Paper: silent. The prompts are those where SteerLM 2.0 gained most over SteerLM, lost most, and
    the median, by the truth of greedy answers where it is known, else by the reward model's score.

    policies: by the names in `compared`; all but SFT's are asked for the target.

    Returns why a prompt was chosen, the prompt, and its answers.
    """
    setup = compared.setup
    chosen = gallery.by_change(compared, "SteerLM 2.0", "SteerLM")
    shown = gallery.ask(
        policies,
        [group for _, group in chosen],
        compared.reward_model,
        setup,
        labels={name: setup.recipe.target for name in policies if name != "SFT"},
    )
    return [(why, *asked) for (why, _), asked in zip(chosen, shown, strict=True)]


def toy_title(descents: pd.DataFrame) -> str:
    """The message of the toy's figure. descents: of notebook 12, a column a way."""
    last = descents.iloc[-1]
    return (
        f"At n = 10 the descent ends {last['equation 11, n = 10']:.1g} nats from the optimum with "
        f"the baseline, {last['equation 8, n = 10']:.1g} without"
    )


def errors_sentence(errors: pd.DataFrame) -> str:
    """What the baseline does to bias and variance of the toy's estimate, at the most samples.

    errors: of notebook 12, a row for each n and estimator.
    """
    without, with_baseline = ESTIMATORS
    most = errors[errors.n == errors.n.max()].set_index("estimator")
    fewest = errors[errors.n == errors.n.min()].set_index("estimator")
    ratios = [table.variance[without] / table.variance[with_baseline] for table in (fewest, most)]
    return (
        f"The baseline divides the variance by {ratios[0]:.1f} at n = {errors.n.min()} and by "
        f"{ratios[1]:.1f} at n = {errors.n.max()}. The bias with it is "
        f"{fewest.bias[with_baseline]:.3f} and {most.bias[with_baseline]:.3f} of the gradient, "
        f"without it {fewest.bias[without]:.3f} and {most.bias[without]:.3f}."
    )


def moved_title(gains: pd.DataFrame) -> str:
    """Which true attributes SteerLM 2.0 clearly raises and lowers against SteerLM; a title.

    gains: of `gains_over_steerlm`.
    """
    rows = gains[gains.policy == "SteerLM 2.0"].set_index("measure")
    rows = rows.reindex([truth_of(name) for name in ATTRIBUTES])
    parts = []
    for change, clear in (("rise", rows["95 % low"] > 0), ("fall", rows["95 % high"] < 0)):
        names = [measure.removeprefix("true ") for measure in rows.index[clear]]
        if names:
            parts.append(f"{change}: {', '.join(names)}")
    return f"SteerLM 2.0 less SteerLM, {'; '.join(parts) or 'no clear change'}"


def derivation(errors: pd.DataFrame, descents: pd.DataFrame) -> list[str]:
    """Whether the toy of this run shows what section 4.5 derives, a sentence each.

    Paper: section 4.5, equations 8 and 11; silent on the bias.

    errors: of notebook 12, a row for each n and estimator. descents: a column for each way.
    """
    without, with_baseline = ESTIMATORS
    bias = errors.pivot(index="n", columns="estimator", values="bias")
    variance = errors.pivot(index="n", columns="estimator", values="variance")
    fewest = bias.index[0]
    most = bias.index[-1]
    falls = bool((bias.loc[most] < bias.loc[fewest]).all())
    n_lower = int((variance[with_baseline] < variance[without]).sum())
    last = descents.iloc[-1]
    nearer = bool(last["equation 11, n = 10"] < last["equation 8, n = 10"])
    holds = falls and nearer and n_lower == len(variance)
    verdict = "holds" if holds else "**does not hold in all**"
    change = "falls" if falls else "**does not fall**"
    end = "nearer to" if nearer else "**no nearer to**"
    lines = [
        f"In the toy of this run the derivation {verdict}. From n = {fewest} to n = {most} the "
        f"bias of (11) {change}, from {bias.loc[fewest, with_baseline]:.3f} to "
        f"{bias.loc[most, with_baseline]:.3f} of the gradient. (11) varies less than (8) at "
        f"{n_lower} of {len(variance)} sizes. Descent on (11) ends {end} the optimum."
    ]
    rows = errors[errors.n == 10]
    if len(rows):
        clear = bool((rows.bias > 2 * rows.noise).all())
        shown = "biased" if clear else "not shown to be biased"
        of_each = rows.set_index("estimator").bias
        lines.append(
            f"At n = 10, the paper's number of samples, the estimate is {shown}: by "
            f"{of_each[with_baseline]:.3f} of the gradient with the baseline and by "
            f"{of_each[without]:.3f} without. The paper does not mention a bias."
        )
    return lines


def variance_sentence(variances: pd.DataFrame) -> str:
    """What the baseline buys on the policy. variances: of notebook 12, a row a prompt."""
    ratio = variances.ratio
    return (
        f"On this policy the baseline divides the variance of a group's gradient "
        f"by {ratio.median():.1f}. That is the median of "
        f"{len(ratio)} prompts, which lie from {ratio.min():.1f} to {ratio.max():.1f}."
    )


def iteration_sentences(summary: pd.DataFrame, recipe: SteerLM2) -> list[str]:
    """What the iterations say, a sentence each. summary: of notebook 12, a row an iteration."""
    effective_samples = summary["effective samples"].mean()
    lines = [
        f"Samples were drawn at temperature {recipe.temperature:g} and top-p {recipe.top_p:g}; "
        f"the effective number of them a prompt is {effective_samples:.1f} "
        f"of {recipe.n_samples}."
    ]
    if "distance best" in summary:
        for row in summary.to_dict("records"):
            lines.append(
                f"Iteration {row['iteration']}: the distance on the prompts that choose the step "
                f"goes from {row['distance before']:.3f} to {row['distance best']:.3f}."
            )
            if row["best step"] == 0:
                lines.append(
                    f"The best step of iteration {row['iteration']} is 0: it trained nothing."
                )
    return lines


def trained(summary: pd.DataFrame) -> list[str]:
    """The policies of the iterations that trained anything: whose best step is not 0."""
    iterations = zip(names(len(summary)), summary["best step"], strict=True)
    return [name for name, best_step in iterations if best_step]


def conclusion(gains: pd.DataFrame, over_sft: pd.DataFrame, measure: str) -> str:
    """Whether SteerLM 2.0 improves on SteerLM, and where it stands beside SFT, by this measure.

    gains: of `gains_over_steerlm`.
    over_sft: of `gains_over_sft`.
    measure: by which is judged, as the goodness of greedy answers.
    """
    final = gains[(gains.policy == "SteerLM 2.0") & (gains.measure == measure)].iloc[0]
    verdict = questions.beside_0(
        final["95 % low"],
        final["95 % high"],
        above="improves on SteerLM here",
        below="is worse than SteerLM here",
        neither="is not shown to improve on SteerLM here",
    )
    return (
        f"**SteerLM 2.0 {verdict}** ({measure}): {_in_words(final)}. "
        f"{_beside_sft(over_sft.set_index('measure').loc[measure])}"
    )


def title(conclusion: str) -> str:
    """The verdict of a `conclusion` alone, for a figure."""
    return conclusion.replace("**", "").partition(":")[0]


def _in_words(row: pd.Series) -> str:
    """A difference and its interval; the difference stands before `95 % low`."""
    difference = row.iloc[list(row.index).index("95 % low") - 1]
    return f"{difference:+.2f} ({row['95 % low']:+.2f} to {row['95 % high']:+.2f})"


def _beside_sft(row: pd.Series) -> str:
    """Where SteerLM 2.0 stands beside SFT, in a sentence."""
    where = questions.beside_0(
        row["95 % low"],
        row["95 % high"],
        above="ends above",
        below="stays below",
        neither="is not clearly above or below",
    )
    return f"It {where} SFT, {_in_words(row)}."


def why_beside_sft(steps: pd.DataFrame, measure: str) -> str:
    """SteerLM 2.0's difference from SFT as the sum of its two steps, in a sentence.

    steps: of `differences`.
    measure: whose differences add up.
    """
    of_measure = steps[steps.measure == measure].set_index("comparison").difference
    first = of_measure["SteerLM\nless SFT"]
    second = of_measure["SteerLM 2.0\nless SteerLM"]
    return (
        f"By {measure}, SteerLM stands {first:+.2f} from SFT, and SteerLM 2.0 {second:+.2f} from "
        f"SteerLM: together {first + second:+.2f}. No control of this run separates labels or "
        "weights from training as such."
    )


def how_large(gains: pd.DataFrame, temperature: float) -> str:
    """SteerLM 2.0 less SteerLM in this seed and over seeds, greedy and sampled.

    Without the truth it is the reward model's score of sampled answers, of this seed alone.

    gains: of `gains_over_steerlm`.
    temperature: of the sampled answers.
    """
    final = gains[gains.policy == "SteerLM 2.0"].set_index("measure")
    sampled = f"sampled at {temperature:g}"
    if TRUTH not in final.index:
        score = _in_words(final.loc[SCORE])
        return f"By the reward model's score, {sampled}: this seed {score}."
    lines = []
    for words, measure, at in (("greedy", GREEDY, 0.0), (sampled, TRUTH, temperature)):
        seeds = published.of_seeds("steerlm 2", temperature=at).partition(", ")[0]
        own = f"By the truth, {words}: this seed {_in_words(final.loc[measure])}"
        lines.append(f"{own}{f', {seeds}' if seeds else ''}.")
    if any(", over " in line for line in lines):
        lines += published.reading("steerlm 2")
    return " ".join(lines)


def why_over_steerlm(parts: pd.DataFrame | None) -> str:
    """Of which faults SteerLM 2.0's answers have fewer than SteerLM's, and whether items are right.

    "" where the truth is not known.

    parts: of `hs2lib.evaluate.content.parts_of`, SteerLM first.
    """
    if parts is None:
        return ""
    fewer, _ = content.parts_in_words(parts)
    items = parts.set_index("part").loc["wrong items"]
    if items["95 % low"] <= 0 <= items["95 % high"]:
        fewer += f" Wrong items are not shown to change: {_in_words(items)}."
    return fewer


def fit_in_words(steps: pd.DataFrame, measures: Sequence[str]) -> str:
    """Whether SteerLM 2.0's answers fit the target better than SFT's, by each of these readers.

    steps: of `differences`.
    measures: `PROMISED` by the truth and by the reward model; one that was not measured is left
        out.
    """
    of_final = steps[steps.comparison == "SteerLM 2.0\nless SFT"].set_index("measure")
    lines = []
    for measure in measures:
        if measure not in of_final.index:
            continue
        row = of_final.loc[measure]
        fit = questions.beside_0(
            row["low"],
            row["high"],
            above="fit the target better than SFT's",
            below="fit the target worse than SFT's",
            neither="are not shown to fit the target better than SFT's",
        )
        interval = f"{row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"
        lines.append(f"By the {measure}, answers {fit}: {interval} nats.")
    return " ".join(lines)


def last_iteration(compared: Comparison, measure: str) -> str:
    """What the last iteration adds to the one before it, in a sentence; "" where it is the first.

    measure: by which is judged, as the goodness of greedy answers.
    """
    iterations = names(compared.setup.recipe.iterations)
    if len(iterations) == 1:
        return ""
    gains = compared.gains(iterations[-2])
    row = gains[(gains.policy == iterations[-1]) & (gains.measure == measure)].iloc[0]
    shown = questions.beside_0(
        row["95 % low"],
        row["95 % high"],
        above="is shown to add something to",
        below="is worse than",
        neither="is not shown to add anything to",
    )
    return f"By {measure}, the last iteration {shown} the one before it: {_in_words(row)}."


def styles_moved(table: pd.DataFrame, target: str) -> list[str]:
    """From where to where the true styles move, and whether that is nearer to what was asked for.

    A sentence for complexity and for verbosity; none where the truth is not known.

    table: of `Comparison.table`.
    target: the label string.
    """
    means = table.set_index(["measure", "policy"])["mean"]
    asked_for = named_numbers(target)
    lines = []
    for name in ("complexity", "verbosity"):
        measure = truth_of(name)
        if (measure, "SteerLM") not in means.index or name not in asked_for:
            continue
        before = means[measure, "SteerLM"]
        after = means[measure, "SteerLM 2.0"]
        asked = asked_for[name]
        where = "nearer to" if abs(after - asked) < abs(before - asked) else "no nearer to"
        lines.append(
            f"The mean of {measure} goes from {before:.2f} to {after:.2f}, {where} the {asked:g} "
            "asked for."
        )
    return lines
