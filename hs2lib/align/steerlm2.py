"""SteerLM 2.0: train towards P(y|a,x), the answers that have the attributes a by the reward model.

    sampled = rollouts(policy, prompts, n=10, label=target, ...)         # y_i ~ Q'(y|a,x)
    weighed = weigh(sampled, policy, sft, reward_model, target, recipe)  # equations 6 and 7
    fit(policy, items(weighed), held_out, steerlm2(), recipe, folder)    # equations 11 and 12

`iterate` does all of it, several times, each time from the policy that the last iteration left:

    prompts = load_prompts(setup)
    history = iterate(policy, prior, reward_model, prompts, setup)

Paper: section 4.5. What it leaves open is a field of `recipes.SteerLM2`. Three models look at each
sampled y. The reward model gives P(a|x,y). The SFT model, which sees no attributes, gives P(y|x).
The policy that sampled it gives Q'(y|a,x). The formulas are in `hs2lib.train.losses`. The toy below
is a world of nine responses where their results are known exactly.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from hs2lib.data.load import Loaded, load
from hs2lib.engine import attention, chat, trees
from hs2lib.group import Group
from hs2lib.models.policy import Policy, unlabelled
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import as_tokens, rollouts
from hs2lib.runs.setup import Setup
from hs2lib.train import losses, objectives
from hs2lib.train.items import Item
from hs2lib.train.objectives import Objective
from hs2lib.train.recipes import SteerLM2
from hs2lib.train.trainer import TrainingResult, fit, targets_of

# The settings that name a run, besides those of every `Recipe`.
STEERLM2_SETTINGS = (
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

# Two estimates of the same gradient.
ESTIMATORS = ("equation 8, no baseline", "equation 11, baseline b'")


@dataclass(frozen=True)
class Prompts:
    """The prompts to sample answers to, without responses.

    Attributes:
        loaded: the data that the prompts are from.
        partial: whether the data set has more prompts.
        validation: the prompts that choose the best step of an iteration.
        rest: all other prompts, in the order in which iterations take them.
        by_iteration: the prompts of each iteration.
    """

    loaded: Loaded
    partial: bool
    validation: list[Group]
    rest: list[Group]
    by_iteration: list[list[Group]]


def load_prompts(setup: Setup) -> Prompts:
    """The recipe's prompts, in an order drawn by the seed.

    Paper: section 4.5 (20,000 prompts an iteration). Each iteration has its own prompts unless
    `fresh_prompts` is off. Raises ValueError where there are too few.
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
    prompts = [replace(loaded.groups[i], responses=()) for i in order]
    validation = prompts[: recipe.n_validation]
    rest = prompts[recipe.n_validation :]
    by_iteration = []
    for iteration in range(recipe.iterations):
        begin = iteration * recipe.n_prompts if recipe.fresh_prompts else 0
        by_iteration.append(rest[begin : begin + recipe.n_prompts])
    if not all(by_iteration):
        raise ValueError(
            f"{len(rest)} prompts are too few for {recipe.iterations} iterations "
            f"of {recipe.n_prompts}: ask for fewer, or set fresh_prompts to false"
        )
    return Prompts(
        loaded=loaded,
        partial=len(loaded.groups) > needed,
        validation=validation,
        rest=rest,
        by_iteration=by_iteration,
    )


class Weighed(NamedTuple):
    """One prompt's n samples with all that equations 6 and 7 need.

    Attributes:
        read: the prompt with label, and the responses: Q_theta(y|a,x) is computed on these tokens.
        attributes: log P(a|x,y), float64 [n], nats.
        prior: log P(y|x), float64 [n], nats.
        sampler: log Q'(y|a,x), float64 [n], nats.
        tokens: the length of each response, float64 [n].
    """

    read: chat.TokenGroup
    attributes: np.ndarray
    prior: np.ndarray
    sampler: np.ndarray
    tokens: np.ndarray

    @property
    def log_weights(self) -> np.ndarray:
        """log w' [n]. Paper: equation 7, of equation 6."""
        attributes = torch.from_numpy(self.attributes)[None]  # [1, n]
        prior = torch.from_numpy(self.prior)[None]  # [1, n]
        sampler = torch.from_numpy(self.sampler)[None]  # [1, n]
        return losses.steerlm2_targets(attributes, prior, sampler)[0].numpy()

    @property
    def effective(self) -> float:
        """The effective number of samples, 1 / sum w'^2. Paper: silent.

        It goes from 1 (one sample has all the weight) to n.
        """
        return float(1 / np.exp(2 * self.log_weights).sum())


def attribute_log_prob(
    predictions: Tensor, attributes: Sequence[str], target: str, recipe: SteerLM2
) -> Tensor:
    """log P(a|x,y) float64 [R] of the target attributes, from predictions [R, A] on the scale 0-4.

    Paper: section 4.5. The product over attributes, as if they were independent, is ours.

    Args:
        predictions: [R, A].
        attributes: the outputs' names, [A].
        target: a label string. It may name some of the attributes only; a consists of those.
        recipe: how a prediction becomes probabilities of levels.
    Raises: ValueError for a name that is no output, and for a target that names none.
    """
    levels = np.array(chat.parse_label(target, attributes))  # [A], nan where not named
    named = np.flatnonzero(~np.isnan(levels))
    if not len(named):
        raise ValueError("the target names no attribute, so there is nothing to steer towards")
    by_level = level_log_probs(predictions[:, named.tolist()], recipe)  # [R, named, 5]
    return losses.target_log_prob(by_level, torch.from_numpy(levels[named]).long())


def level_log_probs(predictions: Tensor, recipe: SteerLM2) -> Tensor:
    """log P(level) [.., 5] of predictions [..] on the scale 0-4, with the recipe's choices.

    Paper: section 4.5.
    """
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

    Paper: section 4.5, equation 6. Both policies are taken at temperature 1 and on the tokens that
    were sampled; the reward model reads the text. Groups with fewer than two samples have no
    weights to compare and are left out. Refused samples do not count, nor unfinished ones with
    `unfinished: drop`.

    Args:
        sampled: groups of samples.
        sampler: Q', the policy that sampled.
        prior: the SFT model, which sees no label.
        reward_model: gives P(a|x,y).
        target: the label string of the desired attributes.
        recipe: the method's choices.
        **options: budget, autocast and cache of `Policy.log_probs`. With a cache all three are kept
            as they come, so a run that was killed goes on.
    Raises: ValueError where two tokenizers differ, or no group is left.
    """
    if recipe.unfinished == "drop":
        sampled = [_finished_only(group) for group in sampled]
    admitted = [reward_model.admitted(group) for group in sampled]
    sampled = [group for group in admitted if len(group.responses) > 1]
    if not sampled:
        raise ValueError("no prompt has two samples to weigh against each other")
    labelled = as_tokens(sampler, sampled, target)
    log_q, tokens = sampler.log_probs(labelled, **options)  # [R] each
    log_p, _ = prior.log_probs(unlabelled(prior, sampler, sampled), **options)  # [R]
    predictions = reward_model.score(sampled, **options)  # [R, A]
    log_a = attribute_log_prob(predictions, reward_model.attributes, target, recipe)  # [R]
    stops = np.cumsum([len(group.responses) for group in sampled])[:-1]

    def by_group(values: Tensor) -> list[np.ndarray]:
        """Values [R] as one float64 [n] for each group."""
        return np.split(values.numpy().astype(float), stops)

    columns = (labelled, by_group(log_a), by_group(log_p), by_group(log_q), by_group(tokens))
    return [Weighed(*of_group) for of_group in zip(*columns, strict=True)]


def _finished_only(group: Group) -> Group:
    """The group without its unfinished samples."""
    finished = [sample for sample in group.responses if sample.finished]
    return replace(group, responses=tuple(finished))


def items(weighed: Sequence[Weighed]) -> list[Item]:
    """Items for `objectives.steerlm2`: targets [n, 3] = log w', log Q'(y|a,x), length in tokens."""
    out = []
    for group in weighed:
        targets = np.column_stack([group.log_weights, group.sampler, group.tokens])  # [n, 3]
        tokens = group.read
        out.append(
            Item(tokens.group.id, tokens.sequences, targets.astype(np.float32), tokens.starts)
        )
    return out


def table(weighed: Sequence[Weighed]) -> pd.DataFrame:
    """One row a sample: its prompt, the three log-probabilities, length, weight w', finished."""
    frames = []
    for group in weighed:
        columns = {
            "prompt": group.read.group.id,
            "log P(a|x,y)": group.attributes,
            "log P(y|x)": group.prior,
            "log Q'(y|a,x)": group.sampler,
            "tokens": group.tokens,
            "weight": np.exp(group.log_weights),
            "finished": [sample.finished for sample in group.read.group.responses],
        }
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def one_group(
    policy: Policy, prior: Policy, reward_model: RewardModel, prompts: Prompts, setup: Setup
) -> list[Weighed]:
    """The weighed samples of the first prompt, unfinished ones too, before any training."""
    recipe = setup.recipe
    sampled = rollouts(
        policy,
        prompts.rest[:1],
        label=recipe.target,
        file=setup.folder,
        progress=False,
        **recipe.sampling,
    )
    return weigh(
        sampled,
        policy,
        prior,
        reward_model,
        recipe.target,
        replace(recipe, unfinished="keep"),
        autocast=recipe.autocast,
        cache=setup.folder,
    )


class Iteration(NamedTuple):
    """One iteration: the weighed samples to train on and to validate by, and the training."""

    training: list[Weighed]
    validation: list[Weighed]
    result: TrainingResult


@dataclass(frozen=True)
class History:
    """What `iterate` did.

    Attributes:
        iterations: one after the other.
        arguments: what was passed in place of the method's own.
    """

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
    callbacks: Callable[[], Sequence[TrainerCallback]] = tuple,
    after: Callable[[int, Policy], None] | None = None,
) -> History:
    """Train the policy in place, one iteration for each list of prompts.

    Paper: section 4.5 (two iterations, "using the optimized policy after each iteration to sample
    responses and train an improved policy"). Each iteration samples from the policy as it stands,
    for the validation prompts too. On these equation 12's distance is logged and the best step
    chosen; without them the last step's weights stay. With recipe.method "lora" adapters are
    trained, and merged after each iteration. Every result is kept under the setup's folder by what
    it was computed from, so a run that was killed goes on and ends where it would have ended.

    Args:
        policy: at first the SteerLM model of notebook 11.
        prior: the SFT model.
        reward_model: gives P(a|x,y).
        prompts: what `load_prompts` returned.
        setup: the run's recipe and folders.
        weights: what weighs the samples, in place of `weigh` and called as that is.
        objective: a loss in place of `objectives.steerlm2`.
        callbacks: a function that makes the callbacks of `hs2lib.train.trainer.fit`.
        after: called with each iteration's number and the policy that it left, to save or evaluate
            it.
    Returns: the outcome of each iteration.
    Raises: ValueError without a reward model.
    """
    recipe = setup.recipe
    if reward_model is None:
        raise ValueError(
            "the recipe's reward is none, and SteerLM 2.0 weighs by what a reward model says: "
            "name one"
        )
    weigh_by = weights or weigh
    arguments = {}
    if weights is not None:
        arguments["weights"] = weights
    if objective is not None:
        arguments["objective"] = objective
    settings = {name: getattr(recipe, name) for name in STEERLM2_SETTINGS}
    models = (policy, prior, reward_model)
    iterations = []
    for number, training_prompts in enumerate(prompts.by_iteration, 1):
        folder = setup.folder / f"iteration-{number}"
        sampling = {
            **recipe.sampling,
            # Each iteration has its own random numbers: with the same ones a policy that hardly
            # moved samples the same.
            "seed": recipe.seed + number,
            "label": recipe.target,
            "file": folder / "samples",
        }
        options = {"cache": folder, "budget": recipe.budget, "autocast": recipe.autocast}
        sampled = rollouts(policy, training_prompts, **sampling)
        sampled_validation = []
        if prompts.validation:
            sampled_validation = rollouts(policy, prompts.validation, **sampling)
        training = weigh_by(sampled, *models, recipe.target, recipe, **options)
        validation = []
        if prompts.validation:
            validation = weigh_by(sampled_validation, *models, recipe.target, recipe, **options)
        if recipe.method == "lora":
            policy.merge().lora(rank=recipe.lora_rank, alpha=2 * recipe.lora_rank)
        result = fit(
            policy,
            items(training),
            items(validation),
            objective or objectives.steerlm2(recipe.by_length),
            recipe,
            folder,
            about={"iteration": number, "target": recipe.target, **settings},
            callbacks=callbacks(),
        )
        iterations.append(Iteration(training, validation, result))
        policy.merge()
        if after:
            after(number, policy)
    return History(iterations, arguments)


def summary(history: History) -> pd.DataFrame:
    """The samples of each iteration, and how far training went: one row an iteration.

    Paper: silent. Columns: iteration, mean log P(a|x,y), finished, effective samples, best step.
    With validation prompts also the distance of equation 12 before training and at the best step.
    """
    rows = []
    for number, iteration in enumerate(history.iterations, 1):
        samples = table(iteration.training)
        row = {
            "iteration": number,
            "mean log P(a|x,y)": samples["log P(a|x,y)"].mean(),
            "finished": samples.finished.mean(),
            "effective samples": np.mean([group.effective for group in iteration.training]),
            "best step": iteration.result.best_step,
        }
        evaluations = [entry for entry in iteration.result.history if "eval_distance" in entry]
        if evaluations:
            row["distance before"] = evaluations[0]["eval_distance"]
            row["distance best"] = min(entry["eval_distance"] for entry in evaluations)
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


def effective_samples(history: History) -> list[np.ndarray]:
    """The effective number of samples of each prompt, by iteration (`Weighed.effective`)."""
    by_iteration = []
    for iteration in history.iterations:
        by_iteration.append(np.array([group.effective for group in iteration.training]))
    return by_iteration


def distances(policy: Policy, weighed: Sequence[Weighed], **options: object) -> np.ndarray:
    """The distance of equation 12 for each group, nats: 0 where the policy is the optimum on it.

    Paper: section 4.5, "We can use this distance to monitor the training progress".

    Args:
        policy: the policy pi_theta.
        weighed: what `weigh` returned.
        **options: budget and autocast of `Policy.log_probs`.
    Returns: [groups].
    """
    log_q, _ = policy.log_probs([group.read for group in weighed], **options)  # [R]
    targets, owner = targets_of(items(weighed), "cpu")  # [R, 3], [R]
    by_group = objectives.steerlm2_distances(log_q[:, None], targets, owner)
    return np.array([distance.item() for distance, _ in by_group])


def variances(policy: Policy, groups: Sequence[Weighed]) -> tuple[float, float]:
    """Variance of a group's gradient, summed over trained weights: by equation 8, and by 11.

    Paper: section 4.5 (the baseline b'). groups: two or more groups of samples for one prompt.
    """
    weights = [weight for weight in policy.parameters() if weight.requires_grad]
    without_baseline = []  # a gradient for each group
    with_baseline = []
    for group in groups:
        batch = trees.pack([group.read.sequences], [group.read.starts])
        log_q = attention.response_log_probs(policy, batch)[:, 0]  # [n]
        w = torch.from_numpy(np.exp(group.log_weights)).to(log_q)[None]  # [1, n]
        sampler = torch.from_numpy(group.sampler).to(log_q)[None]  # [1, n]
        b = losses.steerlm2_policy(log_q.detach()[None], sampler).exp()  # [1, n]
        without_baseline.append(_gradient(w[0], log_q, weights))
        with_baseline.append(_gradient((w - b)[0], log_q, weights))
    return _total_variance(without_baseline), _total_variance(with_baseline)


def _gradient(coefficient: Tensor, log_q: Tensor, weights: Sequence[nn.Parameter]) -> Tensor:
    """The gradient of -sum coefficient log Q_theta in all weights, as one vector."""
    parts = torch.autograd.grad(-(coefficient * log_q).sum(), weights, retain_graph=True)
    return torch.cat([part.flatten() for part in parts])


def _total_variance(gradients: Sequence[Tensor]) -> float:
    """The variance over gradients of each entry, summed over entries."""
    return torch.stack(gradients).var(0).sum().item()


def real_variances(
    policy: Policy, prior: Policy, reward_model: RewardModel, prompts: Prompts, setup: Setup
) -> pd.DataFrame:
    """`variances` on the real policy, and their ratio: a row for each of `real_prompts` prompts.

    Paper: section 4.5 (the baseline b'). Each prompt gets the recipe's `real_groups` groups of
    samples, with the unfinished ones.
    """
    recipe = setup.recipe
    n_groups = recipe.real_groups
    sampling = {**recipe.sampling, "n": n_groups * recipe.n_samples}
    rows = []
    for number, prompt in enumerate(prompts.rest[: recipe.real_prompts], 1):
        (sampled,) = rollouts(policy, [prompt], label=recipe.target, progress=False, **sampling)
        groups = []
        for k in range(n_groups):
            groups.append(replace(sampled, responses=sampled.responses[k::n_groups]))
        weighed = weigh(
            groups,
            policy,
            prior,
            reward_model,
            recipe.target,
            replace(recipe, unfinished="keep"),
            autocast=recipe.autocast,
        )
        without_baseline, with_baseline = variances(policy, weighed)
        rows.append((number, without_baseline, with_baseline))
    frame = pd.DataFrame(rows, columns=["prompt", *ESTIMATORS])
    return frame.assign(ratio=frame[ESTIMATORS[0]] / frame[ESTIMATORS[1]])


# The toy

ALPHABET = 3

RESPONSES = torch.cartesian_prod(torch.arange(ALPHABET), torch.arange(ALPHABET))  # [9, 2]


class Toy(NamedTuple):
    """A world of nine responses, each two tokens of an alphabet of three.

    Attributes:
        attributes: log P(a|x,y), float64 [9].
        prior: log P(y|x), float64 [9].
    """

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


def random_toy(seed: int = 0) -> Toy:
    """A toy with a random SFT model, rated at random within 3/4 of the target."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.tensor(chat.parse_label(TARGET)).long()  # [A]
    uniform = torch.rand(len(RESPONSES), len(target), generator=generator, dtype=torch.float64)
    ratings = (target + (1.5 * uniform - 0.75)).clamp(0, 4)  # [9, A]
    by_level = losses.attribute_log_probs(ratings)  # [9, A, 5]
    return Toy(losses.target_log_prob(by_level, target), log_policy(logits(seed + 1)))


def logits(seed: int, scale: float = 0.7) -> Tensor:
    """Random parameters theta [12] of a policy."""
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(ALPHABET + ALPHABET**2, generator=generator, dtype=torch.float64)


def log_policy(theta: Tensor, temperature: float = 1.0) -> Tensor:
    """log Q_theta(y) [9]: the sum of the log-probabilities of its two tokens at a temperature."""
    first = (theta[:ALPHABET] / temperature).log_softmax(-1)  # [3]
    second = (theta[ALPHABET:].view(ALPHABET, ALPHABET) / temperature).log_softmax(-1)  # [3, 3]
    return first[RESPONSES[:, 0]] + second[RESPONSES[:, 0], RESPONSES[:, 1]]


def sample(log_probs: Tensor, groups: int, n: int, seed: int = 0) -> Tensor:
    """Numbers of responses, int64 [groups, n], drawn independently from a distribution [9]."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.multinomial(
        log_probs.exp(), groups * n, replacement=True, generator=generator
    )  # [groups * n]
    return numbers.view(groups, n)


def estimates(
    toy: Toy, theta: Tensor, sampler: Tensor, y: Tensor, *, baseline: bool = True
) -> Tensor:
    """The estimated gradient of each group of samples.

    Paper: equation 11, sum_i -(w'_i - b'_i) grad log Q_theta(y_i).

    Args:
        toy: gives the log-probabilities of w.
        theta: [12], the policy's parameters.
        sampler: log Q'(y|a,x) [9], the denominator of w and b.
        y: int64 [groups, n], numbers of the sampled responses.
        baseline: False takes equation 8, without b'.
    Returns: [groups, 12].
    """
    log_weights = losses.steerlm2_targets(toy.attributes[y], toy.prior[y], sampler[y])
    coefficient = log_weights.exp()  # [groups, n]
    if baseline:
        coefficient = coefficient - losses.steerlm2_policy(log_policy(theta)[y], sampler[y]).exp()
    jacobian = torch.func.jacrev(log_policy)(theta)  # [9, 12], grad log Q_theta(y)
    # One sum of coefficients for each of the nine responses, then nine gradients instead of n.
    by_response = coefficient.new_zeros(len(y), len(RESPONSES)).scatter_add(1, y, coefficient)
    return -by_response @ jacobian


def errors(
    toy: Toy, theta: Tensor, sizes: Iterable[int], groups: int = 100_000, seed: int = 0
) -> pd.DataFrame:
    """Bias and variance of both estimates at theta, sampled from Q_theta itself, by group size.

    Args:
        toy: the world.
        theta: [12], the policy's parameters.
        sizes: group sizes n.
        groups: how many groups are drawn.
        seed: of the samples.
    Returns: a frame with columns n, estimator, bias (length of mean - exact, over the exact
        gradient's length), noise (the standard error of the bias), variance (of one group's
        estimate, summed over theta).
    """
    exact = toy.gradient(theta)  # [12]
    rows = []
    for n in sizes:
        y = sample(log_policy(theta), groups, n, seed)  # [groups, n]
        for name, baseline in zip(ESTIMATORS, (False, True), strict=True):
            of_groups = estimates(toy, theta, log_policy(theta), y, baseline=baseline)
            variance = of_groups.var(0).sum()
            bias = (of_groups.mean(0) - exact).norm() / exact.norm()
            noise = (variance / groups).sqrt() / exact.norm()
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
    """The KL of equation 2 before and after each step of plain gradient descent on the estimate.

    The samples come from Q', which is theta at the start. They are drawn afresh for each step.

    Args:
        toy: the world.
        theta: [12], the policy's parameters at the start.
        n: the size of a group.
        groups: how many groups a step averages over.
        steps: how many steps.
        rate: the learning rate.
        baseline: as for `estimates`.
        temperature: at which responses are sampled.
        seed: of the first step's samples.
    Returns: steps + 1 values, nats.
    """
    sampler = log_policy(theta)  # [9]
    proposal = log_policy(theta, temperature)  # [9]
    theta = theta.clone()
    values = [toy.kl(theta).item()]
    for step in range(steps):
        y = sample(proposal, groups, n, seed + step)  # [groups, n]
        theta -= rate * estimates(toy, theta, sampler, y, baseline=baseline).mean(0)
        values.append(toy.kl(theta).item())
    return values


def descents(toy: Toy, theta: Tensor, steps: int, seed: int) -> pd.DataFrame:
    """`descend` by several estimates of the gradient, a column each."""
    options_by_name = {
        "equation 8, n = 10": {"n": 10, "baseline": False},
        "equation 11, n = 10": {"n": 10},
        "equation 11, n = 4": {"n": 4},
        "equation 11, n = 10, temperature .7": {"n": 10, "temperature": 0.7},
    }
    columns = {}
    for name, options in options_by_name.items():
        columns[name] = descend(toy, theta, steps=steps, seed=seed, **options)
    return pd.DataFrame(columns)
