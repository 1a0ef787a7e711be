"""SteerLM 2.0: train towards P(y|a,x), the answers that have the attributes a by the reward model.

    sampled = rollouts(policy, prompts, n=10, label=target, ...)                # y_i ~ Q'(y|a,x), models.rollout
    weighed = weigh(sampled, policy, sft, reward_model, target, recipe)         # equations 6 and 7
    fit(policy, items(weighed), held_out, steerlm2(), recipe, folder)           # equations 11 and 12

`iterate` does all of it, several times, each time from the policy that the last iteration left:

    prompts = load_prompts(setup)
    history = iterate(policy, prior, reward_model, prompts, setup)

Three models look at each sampled y: the reward model gives P(a|x,y), the SFT model, which sees no
attributes, P(y|x), and the policy that sampled it, Q'(y|a,x). Paper: section 4.5. What it leaves
open is a field of `recipes.SteerLM2`. The formulas are in `hs2lib.train.losses`. The toy below is a
world of nine responses where their results are known exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hs2lib.data.load import Loaded, load
from hs2lib.engine import attention, chat, trees
from hs2lib.group import Group
from hs2lib.models.policy import Policy, unlabelled
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import as_tokens, rollouts
from hs2lib.run.setup import Setup
from hs2lib.train import losses, objectives
from hs2lib.train.items import Item
from hs2lib.train.objectives import Objective
from hs2lib.train.recipes import SteerLM2
from hs2lib.train.trainer import TrainingResult, fit, targets_of

# What names a run besides its `Recipe`.
OWN = (
    "n_samples",
    "temperature",
    "top_p",
    "max_new_tokens",
    "concentration",
    "edges",
    "clamp",
    "unfinished",
    "by_length",
)

# The desired attributes. Paper: section 4.5, "Inference Attributes".
TARGET = "helpfulness:4,correctness:4,coherence:4,complexity:2,verbosity:2"


@dataclass(frozen=True)
class Prompts:
    """What is sampled for: the prompts of each iteration, and those that choose its best step,
    without responses.

    rest: all that choose no step, in the order in which iterations take them. partial: the data set
    has more.
    """

    loaded: Loaded
    partial: bool
    validation: list[Group]
    rest: list[Group]
    by_iteration: list[list[Group]]


def load_prompts(setup: Setup) -> Prompts:
    """The recipe's prompts, in an order drawn by the seed; each iteration has its own unless
    `fresh_prompts` is off.

    Paper: section 4.5 (20,000 prompts an iteration). Raises ValueError where they are too few.
    """
    recipe = setup.recipe
    needed = recipe.iterations * recipe.n_prompts + recipe.n_validation
    loaded = load(
        recipe.dataset,
        recipe.source,
        split=recipe.split,
        strict=recipe.strict,
        n_prompts=max(10, needed),
        seed=recipe.seed,
    )
    order = np.random.default_rng(recipe.seed).permutation(len(loaded.groups))
    prompts = [
        replace(loaded.groups[i], responses=()) for i in order
    ]  # whatever responses there were are not used
    validation = prompts[: recipe.n_validation]
    rest = prompts[recipe.n_validation :]
    by_iteration = []
    for iteration in range(recipe.iterations):
        begin = iteration * recipe.n_prompts if recipe.fresh_prompts else 0
        by_iteration.append(rest[begin : begin + recipe.n_prompts])
    if not all(by_iteration):
        what = f"{len(rest)} prompts are too few for {recipe.iterations} iterations of {recipe.n_prompts}"
        raise ValueError(f"{what}: ask for fewer, or set fresh_prompts to false")
    return Prompts(loaded, len(loaded.groups) > needed, validation, rest, by_iteration)


class Weighed(NamedTuple):
    """One prompt's n samples with all that equations 6 and 7 need: four float64 [n], logarithms in nats."""

    read: chat.TokenGroup  # prompt with label, and responses: Q_theta(y|a,x) is computed on these
    attributes: np.ndarray  # log P(a|x,y)
    prior: np.ndarray  # log P(y|x)
    sampler: np.ndarray  # log Q'(y|a,x)
    tokens: np.ndarray  # length of each response

    @property
    def log_weights(self) -> np.ndarray:
        """log w' [n]. Paper: equation 7, of equation 6."""
        three = (
            torch.from_numpy(x)[None] for x in (self.attributes, self.prior, self.sampler)
        )  # [1, n] each
        return losses.steerlm2_targets(*three)[0].numpy()

    @property
    def effective(self) -> float:
        """The effective number of samples, 1 / sum w'^2, from 1 (one has all the weight) to n. Paper: silent."""
        return float(1 / np.exp(2 * self.log_weights).sum())


def attribute_log_prob(
    predictions: Tensor, attributes: Sequence[str], target: str, recipe: SteerLM2
) -> Tensor:
    """log P(a|x,y) float64 [R] of the target attributes, from predictions [R, A] on the scale 0-4.

    Paper: section 4.5; the product over attributes, as if independent, is ours. attributes: the
    outputs' names. A target may name some of them only; a then consists of those. Raises ValueError
    for a name that is no output.
    """
    levels = np.array(chat.parse_label(target, attributes))  # [A], nan where not named
    named = np.flatnonzero(~np.isnan(levels))
    if not len(named):
        raise ValueError("the target names no attribute, so there is nothing to steer towards")
    by_level = level_log_probs(predictions[:, named.tolist()], recipe)  # [R, named, 5]
    return losses.target_log_prob(by_level, torch.from_numpy(levels[named]).long())


def level_log_probs(predictions: Tensor, recipe: SteerLM2) -> Tensor:
    """log P(level) [.., 5] of predictions [..] on the scale 0-4, with the recipe's choices. Paper: section 4.5."""
    return losses.attribute_log_probs(
        predictions, concentration=recipe.concentration, edges=recipe.edges, clamp=recipe.clamp
    )


def weigh(
    sampled: Sequence[Group],
    sampler: Policy,
    prior: Policy,
    reward_model: RewardModel,
    target: str,
    recipe: SteerLM2,
    **options: object,
) -> list[Weighed]:
    """The three log-probabilities of every sample of `rollouts`, group by group.

    Paper: section 4.5, equation 6. sampler: Q', the policy that sampled; prior: the SFT model,
    which sees no label; both at temperature 1 and on the tokens that were sampled. The reward model
    reads the text. Groups with fewer than two samples (after `unfinished: drop`, and without
    refused ones) have no weights to compare and are left out. options: budget, autocast and cache
    of `Policy.log_probs`; with a cache all three are kept as they come, and a killed run goes on.
    Raises ValueError where two tokenizers differ, or no group is left.
    """
    if recipe.unfinished == "drop":
        sampled = [
            replace(g, responses=tuple(r for r in g.responses if r.finished)) for g in sampled
        ]
    sampled = [group for group in map(reward_model.admitted, sampled) if len(group.responses) > 1]
    if not sampled:
        raise ValueError("no prompt has two samples to weigh against each other")
    labelled = as_tokens(sampler, sampled, target)
    log_q, tokens = sampler.log_probs(labelled, **options)  # [R] each
    log_p, _ = prior.log_probs(unlabelled(prior, sampler, sampled), **options)  # [R]
    log_a = attribute_log_prob(
        reward_model.score(sampled, **options), reward_model.attributes, target, recipe
    )
    stops = np.cumsum([len(group.responses) for group in sampled])[:-1]
    parts = (np.split(x.numpy().astype(float), stops) for x in (log_a, log_p, log_q, tokens))
    return [Weighed(*each) for each in zip(labelled, *parts, strict=True)]


def items(weighed: Sequence[Weighed]) -> list[Item]:
    """Items for `objectives.steerlm2`: targets [n, 3] = log w', log Q'(y|a,x), length in tokens."""
    out = []
    for one in weighed:
        targets = np.column_stack([one.log_weights, one.sampler, one.tokens]).astype(
            np.float32
        )  # [n, 3]
        out.append(Item(one.read.group.id, one.read.sequences, targets, one.read.starts))
    return out


def table(weighed: Sequence[Weighed]) -> pd.DataFrame:
    """One row a sample: prompt, log P(a|x,y), log P(y|x), log Q'(y|a,x), tokens, finished, weight w'."""
    frames = []
    for one in weighed:
        columns = {
            "prompt": one.read.group.id,
            "log P(a|x,y)": one.attributes,
            "log P(y|x)": one.prior,
        }
        columns |= {
            "log Q'(y|a,x)": one.sampler,
            "tokens": one.tokens,
            "weight": np.exp(one.log_weights),
        }
        frames.append(
            pd.DataFrame(
                columns | {"finished": [sample.finished for sample in one.read.group.responses]}
            )
        )
    return pd.concat(frames, ignore_index=True)


def one_group(
    policy: Policy, prior: Policy, reward_model: RewardModel, prompts: Prompts, setup: Setup
) -> list[Weighed]:
    """The weighed samples of the first prompt, the unfinished ones too, as they are before any training."""
    recipe = setup.recipe
    sampled = rollouts(
        policy,
        prompts.rest[:1],
        label=recipe.target,
        file=setup.folder,
        progress=False,
        **recipe.sampling,
    )
    kept = replace(recipe, unfinished="keep")
    options = {"autocast": recipe.autocast, "cache": setup.folder}
    return weigh(sampled, policy, prior, reward_model, recipe.target, kept, **options)


class Iteration(NamedTuple):
    """One iteration: the weighed samples to train on and to validate by, and the outcome of training."""

    training: list[Weighed]
    validation: list[Weighed]
    result: TrainingResult


@dataclass(frozen=True)
class History:
    """What `iterate` did. arguments: what was passed in place of the method's own."""

    iterations: list[Iteration]
    arguments: dict[str, object] = field(default_factory=dict)

    @property
    def last(self) -> TrainingResult:
        """The outcome of the last iteration."""
        return self.iterations[-1].result


def iterate(
    policy: Policy,
    prior: Policy,
    reward_model: RewardModel,
    prompts: Prompts,
    setup: Setup,
    *,
    weights: Callable[..., list[Weighed]] | None = None,
    objective: Objective | None = None,
    callbacks: Callable[[], Sequence] = tuple,
    after: Callable[[int, Policy], None] | None = None,
) -> History:
    """Train the policy in place, one iteration for each list of prompts; returns the outcome of
    each.

    Paper: section 4.5 (two iterations, "using the optimized policy after each iteration to sample
    responses and train an improved policy"). policy: at first the SteerLM model of notebook 11.
    prior: the SFT model. Each iteration samples from the policy as it stands, also for the
    validation prompts, on which equation 12's distance is logged and the best step chosen (no such
    prompts: the last step's weights stay). With recipe.method "lora" adapters are trained, and
    merged after each iteration. weights: what weighs the samples, in place of `weigh` and called as
    that is. objective: None for `objectives.steerlm2`. callbacks: a function that makes those of
    `fit`. after: called with each iteration's number and the policy that it left, to save or
    evaluate it. Everything is kept under the setup's folder, by content: a run that was killed goes
    on and ends where it would have ended. Raises ValueError without a reward model.
    """
    recipe = setup.recipe
    if reward_model is None:
        raise ValueError(
            "the recipe's reward is none, and SteerLM 2.0 weighs by what a reward model says: name one"
        )
    weigh_by = weights or weigh
    arguments = {}
    if weights is not None:
        arguments["weights"] = weights
    if objective is not None:
        arguments["objective"] = objective
    about = {name: getattr(recipe, name) for name in OWN}
    options = {"budget": recipe.budget, "autocast": recipe.autocast}
    iterations = []
    for number, these in enumerate(prompts.by_iteration, 1):
        place = setup.folder / f"iteration-{number}"
        # Random numbers of its own for each iteration: with the same ones a policy that hardly
        # moved samples the same.
        sampling = recipe.sampling | {"seed": recipe.seed + number}
        sampled = []  # of the prompts to train on, and of those to validate by, if any
        for part in filter(None, (these, prompts.validation)):
            sampled.append(
                rollouts(policy, part, label=recipe.target, file=place / "samples", **sampling)
            )
        weighed = []
        for groups in sampled:
            models = (policy, prior, reward_model)
            weighed.append(weigh_by(groups, *models, recipe.target, recipe, cache=place, **options))
        training = weighed[0]
        validation = weighed[1] if prompts.validation else []
        if recipe.method == "lora":
            policy.merge().lora(rank=recipe.lora_rank, alpha=2 * recipe.lora_rank)
        result = fit(
            policy,
            items(training),
            items(validation),
            objective or objectives.steerlm2(recipe.by_length),
            recipe,
            place,
            about={"iteration": number, "target": recipe.target} | about,
            callbacks=callbacks(),
        )
        iterations.append(Iteration(training, validation, result))
        policy.merge()
        if after:
            after(number, policy)
    return History(iterations, arguments)


def summary(history: History) -> pd.DataFrame:
    """The samples of each iteration, and how far training went: one row an iteration.

    Columns: iteration, mean log P(a|x,y), finished, effective samples, best step; with validation
    prompts the distance of equation 12 before training and at the best step. Paper: silent.
    """
    rows = []
    for number, iteration in enumerate(history.iterations, 1):
        drawn = table(iteration.training)
        row = {
            "iteration": number,
            "mean log P(a|x,y)": drawn["log P(a|x,y)"].mean(),
            "finished": drawn.finished.mean(),
            "effective samples": np.mean([group.effective for group in iteration.training]),
            "best step": iteration.result.best_step,
        }
        seen = [
            entry["eval_distance"] for entry in iteration.result.history if "eval_distance" in entry
        ]
        if seen:
            row["distance before"] = seen[0]
            row["distance best"] = min(seen)
        rows.append(row)
    return pd.DataFrame(rows)


def watched(history: History) -> pd.DataFrame:
    """The distance of equation 12 on the validation prompts: rows (iteration, step, distance)."""
    rows = []
    for number, iteration in enumerate(history.iterations, 1):
        for entry in iteration.result.history:
            if "eval_distance" in entry:
                rows.append((number, entry["step"], entry["eval_distance"]))
    return pd.DataFrame(rows, columns=["iteration", "step", "distance"])


def weights_of(history: History) -> list[np.ndarray]:
    """The weights w' of all samples that each iteration was trained on."""
    return [
        np.concatenate([np.exp(group.log_weights) for group in done.training])
        for done in history.iterations
    ]


def distances(policy: Policy, weighed: Sequence[Weighed], **options: object) -> np.ndarray:
    """The distance of equation 12 for each group, [groups], nats: 0 where the policy is the optimum
    on it.

    Paper: section 4.5, "We can use this distance to monitor the training progress". options: budget
    and autocast of `Policy.log_probs`.
    """
    log_q, _ = policy.log_probs([one.read for one in weighed], **options)  # [all samples]
    each = objectives.steerlm2_distances(log_q[:, None], *targets_of(items(weighed), "cpu"))
    return np.array([distance.item() for distance, _ in each])


def variances(policy: Policy, groups: Sequence[Weighed]) -> tuple[float, float]:
    """Variance of a group's gradient, summed over all trained weights: by equation 8, and by
    equation 11.

    Paper: section 4.5 (the baseline b'). groups: two or more of samples for one prompt.
    """
    weights = [weight for weight in policy.parameters() if weight.requires_grad]
    estimates: tuple[list, list] = ([], [])
    for one in groups:
        log_q = attention.response_log_probs(
            policy, trees.pack([one.read.sequences], [one.read.starts])
        )[:, 0]  # [n]
        w, sampler = (
            torch.from_numpy(x).to(log_q)[None] for x in (np.exp(one.log_weights), one.sampler)
        )
        b = losses.steerlm2_policy(log_q.detach()[None], sampler).exp()  # [1, n]
        for kept, coefficient in zip(estimates, (w, w - b), strict=True):
            parts = torch.autograd.grad(-(coefficient[0] * log_q).sum(), weights, retain_graph=True)
            kept.append(torch.cat([part.flatten() for part in parts]))
    return tuple(torch.stack(each).var(0).sum().item() for each in estimates)


def real_variances(
    policy: Policy, prior: Policy, reward_model: RewardModel, prompts: Prompts, setup: Setup
) -> pd.DataFrame:
    """`variances` on the real policy: one row for each of the recipe's `real_prompts`, and the
    ratio of the two.

    Paper: section 4.5 (the baseline b'). Of each prompt `real_groups` groups of samples, the
    unfinished ones too.
    """
    recipe = setup.recipe
    kept = replace(recipe, unfinished="keep")
    sampling = recipe.sampling | {"n": recipe.real_groups * recipe.n_samples}
    rows = []
    for number, prompt in enumerate(prompts.rest[: recipe.real_prompts], 1):
        (many,) = rollouts(policy, [prompt], label=recipe.target, progress=False, **sampling)
        groups = [
            replace(many, responses=many.responses[k :: recipe.real_groups])
            for k in range(recipe.real_groups)
        ]
        weighed = weigh(
            groups, policy, prior, reward_model, recipe.target, kept, autocast=recipe.autocast
        )
        rows.append((number, *variances(policy, weighed)))
    frame = pd.DataFrame(rows, columns=["prompt", *ESTIMATORS])
    return frame.assign(ratio=frame[ESTIMATORS[0]] / frame[ESTIMATORS[1]])


# The toy

ESTIMATORS = ("equation 8, no baseline", "equation 11, baseline b'")

ALPHABET = 3

RESPONSES = torch.cartesian_prod(torch.arange(ALPHABET), torch.arange(ALPHABET))  # [9, 2]


class Toy(NamedTuple):
    """Nine responses, two tokens of an alphabet of three: log P(a|x,y) [9] and log P(y|x) [9], float64."""

    attributes: Tensor
    prior: Tensor

    @property
    def optimum(self) -> Tensor:
        """log P(y|a,x) [9]. Paper: equation 1; here the sum over all responses can be taken."""
        return (self.attributes + self.prior).log_softmax(-1)

    def kl(self, theta: Tensor) -> Tensor:
        """KL(P(y|a,x) || Q_theta(y|a,x)), a scalar, nats. Paper: equation 2 for one prompt."""
        return (self.optimum.exp() * (self.optimum - log_policy(theta))).sum()

    def gradient(self, theta: Tensor) -> Tensor:
        """The exact gradient [12] of equation 2 in theta."""
        return torch.func.grad(self.kl)(theta)


def made(seed: int = 0) -> Toy:
    """A toy whose responses are rated at random within 3/4 of the target, under a random SFT model."""
    draw = torch.Generator().manual_seed(seed)
    target = torch.tensor(chat.parse_label(TARGET)).long()  # [A]
    away = (
        1.5 * torch.rand(len(RESPONSES), len(target), generator=draw, dtype=torch.float64) - 0.75
    )  # [9, A]
    by_level = losses.attribute_log_probs((target + away).clamp(0, 4))  # [9, A, 5]
    return Toy(losses.target_log_prob(by_level, target), log_policy(logits(seed + 1)))


def logits(seed: int, scale: float = 0.7) -> Tensor:
    """Random parameters theta [12] of a policy."""
    draw = torch.Generator().manual_seed(seed)
    return scale * torch.randn(ALPHABET + ALPHABET**2, generator=draw, dtype=torch.float64)


def log_policy(theta: Tensor, temperature: float = 1.0) -> Tensor:
    """log Q_theta(y) [9]: the sum of its two tokens' log-probabilities, each token drawn at this temperature."""
    first = (theta[:ALPHABET] / temperature).log_softmax(-1)  # [3]
    second = (theta[ALPHABET:].view(ALPHABET, ALPHABET) / temperature).log_softmax(-1)  # [3, 3]
    return first[RESPONSES[:, 0]] + second[RESPONSES[:, 0], RESPONSES[:, 1]]


def sample(log_probs: Tensor, groups: int, n: int, seed: int = 0) -> Tensor:
    """Numbers of responses, int64 [groups, n], drawn independently from a distribution [9]."""
    draw = torch.Generator().manual_seed(seed)
    return torch.multinomial(log_probs.exp(), groups * n, replacement=True, generator=draw).view(
        groups, n
    )


def estimates(
    toy: Toy, theta: Tensor, sampler: Tensor, y: Tensor, *, baseline: bool = True
) -> Tensor:
    """The estimated gradient [groups, 12] of each group of samples y [groups, n].

    Paper: equation 11, sum_i -(w'_i - b'_i) grad log Q_theta(y_i); baseline=False: equation 8,
    without b'. sampler: log Q'(y|a,x) [9], the denominator of w and b.
    """
    coefficient = losses.steerlm2_targets(
        toy.attributes[y], toy.prior[y], sampler[y]
    ).exp()  # [groups, n]
    if baseline:
        coefficient = coefficient - losses.steerlm2_policy(log_policy(theta)[y], sampler[y]).exp()
    jacobian = torch.func.jacrev(log_policy)(theta)  # [9, 12], grad log Q_theta(y)
    # One sum of coefficients for each of the nine responses, then nine gradients instead of n.
    return -coefficient.new_zeros(len(y), len(RESPONSES)).scatter_add(1, y, coefficient) @ jacobian


def errors(toy: Toy, theta: Tensor, sizes, groups: int = 100_000, seed: int = 0) -> pd.DataFrame:
    """Bias and variance of the estimate at theta, sampled from Q_theta itself, for each group size
    n.

    Columns: n, estimator, bias (length of mean - exact, over the exact gradient's length), noise
    (its standard error), variance (of one group's estimate, summed over theta).
    """
    exact, rows = toy.gradient(theta), []
    for n in sizes:
        y = sample(log_policy(theta), groups, n, seed)  # [groups, n]
        for name, baseline in zip(ESTIMATORS, (False, True), strict=True):
            each = estimates(toy, theta, log_policy(theta), y, baseline=baseline)  # [groups, 12]
            variance = each.var(0).sum()
            bias, noise = (
                (each.mean(0) - exact).norm() / exact.norm(),
                (variance / groups).sqrt() / exact.norm(),
            )
            rows.append((n, name, bias.item(), noise.item(), variance.item()))
    return pd.DataFrame(rows, columns=["n", "estimator", "bias", "noise", "variance"])


def descend(
    toy: Toy,
    theta: Tensor,
    *,
    n: int = 10,
    groups: int = 64,
    steps: int = 300,
    rate: float = 0.5,
    baseline: bool = True,
    temperature: float = 1.0,
    seed: int = 0,
) -> list[float]:
    """The KL of equation 2 before and after each step of plain gradient descent on the estimate,
    [steps + 1].

    The samples come from Q', which is theta at the start, drawn afresh for each step at this
    temperature.
    """
    sampler, proposal, theta = log_policy(theta), log_policy(theta, temperature), theta.clone()
    values = [toy.kl(theta).item()]
    for step in range(steps):
        y = sample(proposal, groups, n, seed + step)  # [groups, n]
        theta -= rate * estimates(toy, theta, sampler, y, baseline=baseline).mean(0)
        values.append(toy.kl(theta).item())
    return values


def descents(toy: Toy, theta: Tensor, steps: int, seed: int) -> pd.DataFrame:
    """The KL of equation 2 before and after each step, one column for each way of estimating the gradient."""
    ways = {
        "equation 8, n = 10": {"n": 10, "baseline": False},
        "equation 11, n = 10": {"n": 10},
        "equation 11, n = 4": {"n": 4},
        "equation 11, n = 10, temperature .7": {"n": 10, "temperature": 0.7},
    }
    return pd.DataFrame(
        {name: descend(toy, theta, steps=steps, seed=seed, **how) for name, how in ways.items()}
    )
