"""Best of n: how far a reward model can be trusted, pressed on without any training.

    ranked = rank(sample(sft, compared, setup), reward_model, setup)
    ranked.gains()            # of the best of 1, 2, 4 .. answers, by truth and by score
    ranked.agreement()        # of the two
    ranked.rules()            # of the longest, the likeliest .. of n, beside them
    ranked.likeliest_sentences()    # what a rule without a reward model reaches
    ranked.worth_in_words()   # does the favourite beat what costs no reward model?
    ranked.with_greedy(compared.greedy_answers(sft), reward_model, setup)    # and greedy decoding
    drawn(answered, reward_model, setup).winner(0, 16)    # the text that wins of the first 16

Draw n answers of a policy and keep the one that the reward model likes best. Press on a reward
model hard enough, and the truth stops rising with it (Gao et al. 2022, arXiv 2210.10760; their laws
are in `hs2lib.evaluate.overoptimisation`). Paper: silent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from hs2lib.evaluate import questions
from hs2lib.evaluate.by_round import truth_of_responses
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.response_rows import SCORE, TRUTH
from hs2lib.group import Group
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.paper import head_weights
from hs2lib.report.answers import Answer
from hs2lib.runs.setup import Setup
from hs2lib.train.recipes import PPO

APART = f"{SCORE} less truth"

# Rules by which one of n answers is kept. Those between the reward model and the truth need no
# reward model.
BY_SCORE = "best by the reward model"
LONGEST = "longest"
LIKELIEST = "likeliest"
RANDOM = "at random"
GREEDY_RULE = "greedy"  # the policy's own answer at temperature 0, whatever n is
BY_TRUTH = "best by the truth"

# n of the table of rules, besides the largest.
RULES_AT = (4, 16)


def chances(n: int, total: int) -> np.ndarray:
    """Chance of each of `total` answers, the worst first, to be the best of n drawn of them.

    Of N answers the i-th is the best of n with chance C(i - 1, n - 1) / C(N, n). So N answers give
    an unbiased estimate for every n up to N. At n = N it rests on one choice per prompt. By hand:
    of 3 answers, the best of 2 is never the first, once in three times the second.

    Returns float64 [total].
    """
    return np.array([math.comb(i, n - 1) / math.comb(total, n) for i in range(total)])


def bound(n: int) -> float:
    """The largest KL of best of n from the policy that it draws from, nats: log n - (n - 1) / n."""
    return math.log(n) - (n - 1) / n


@dataclass(frozen=True)
class Ranked:
    """Answers of a policy to each prompt, the worst by the reward model first.

    ids: of the prompts.
    values: `TRUTH` (nan of real prompts) and `SCORE` of each answer, float64 [prompts, n] each.
    resampled: options of `hs2lib.evaluate.questions.mean`.
    others: rule -> the same values, the worst by that rule first.
    greedy: the same values of the policy's greedy answer, float64 [prompts] each; {} without one.
    """

    ids: list[str]
    values: dict[str, np.ndarray]
    resampled: dict[str, int]
    others: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    greedy: dict[str, np.ndarray] = field(default_factory=dict)

    def with_greedy(
        self, answered: Sequence[Group], reward_model: RewardModel, setup: Setup
    ) -> "Ranked":
        """The same with the policy's greedy answers beside them.

        answered: prompts with one greedy answer each, those of `ids` among them.
        """
        by_id = {group.id: group for group in answered}
        if not by_id.keys() >= set(self.ids):
            return self
        own = [by_id[name] for name in self.ids]
        scores = _scores(own, reward_model, setup)  # [prompts]
        return replace(self, greedy={TRUTH: truth_of_responses(own), SCORE: scores})

    @property
    def total(self) -> int:
        """How many answers each prompt has."""
        return self.values[SCORE].shape[1]

    def gains_by_prompt(
        self, numbers: Sequence[int], measure: str = TRUTH, rule: str = BY_SCORE
    ) -> np.ndarray:
        """What the best of n answers by a rule gains over one answer, float64 [prompts, numbers].

        numbers: the n. One answer at random gains 0, whatever n is.
        """
        if rule == RANDOM:
            return np.zeros((len(self.ids), len(numbers)))
        if rule == GREEDY_RULE:
            gain = self.greedy[measure] - self.values[measure].mean(axis=1)  # [prompts]
            return np.repeat(gain[:, None], len(numbers), axis=1)
        values = {BY_SCORE: self.values, **self.others}[rule][measure]  # [prompts, n]
        one = chances(1, self.total)
        gains = [values @ (chances(n, self.total) - one) for n in numbers]
        return np.stack(gains, axis=1)

    @property
    def _rules_at(self) -> list[int]:
        """The n at which rules are compared: those of `RULES_AT`, and the largest."""
        return [*[n for n in RULES_AT if n < self.total], self.total]

    def rules(self) -> pd.DataFrame:
        """What the best of n by each rule gains over one answer.

        n are those of `RULES_AT` and the largest. Rows (rule, n, gain in truth, 95 % low, 95 %
        high, gain in score). The truth is nan of real prompts. One at random gains 0, and the
        greedy answer the same at every n.
        """
        numbers = self._rules_at
        rows = []
        for rule in (BY_SCORE, *self.others, *([GREEDY_RULE] if self.greedy else []), RANDOM):
            truth = self.gains_by_prompt(numbers, TRUTH, rule)  # [prompts, numbers]
            if np.isnan(self.values[TRUTH]).all():
                truth = np.full_like(truth, np.nan)
            score = self.gains_by_prompt(numbers, SCORE, rule).mean(axis=0)
            for k, n in enumerate(numbers):
                interval = questions.mean(truth[:, k], self.ids, **self.resampled)
                rows.append((rule, n, *interval, score[k]))
        columns = ["rule", "n", "gain in truth", "95 % low", "95 % high", "gain in score"]
        return pd.DataFrame(rows, columns=columns)

    def rule_sentences(self) -> list[str]:
        """Whether the reward model reaches more than rules without content, at the largest n.

        The greedy answer, where it is known, stands beside the rules. Empty for real prompts.
        """
        if np.isnan(self.values[TRUTH]).all():
            return []
        by_score = self._hardest()
        compared = []
        for rule in (LONGEST, LIKELIEST, GREEDY_RULE):
            if rule not in self._without_model:
                continue
            by_rule = self._hardest(rule)
            _, low, high = questions.mean(by_score - by_rule, self.ids, **self.resampled)
            verdict = questions.beside_0(
                low,
                high,
                above="more than",
                below="**less than**",
                neither="not shown to differ from",
            )
            other = f"one taken by the rule *{rule}*"
            if rule == GREEDY_RULE:
                other = "the greedy answer"
            compared.append(
                f"{verdict} {other} ({by_rule.mean():+.2f}; difference {low:.2f} to {high:.2f})"
            )
        value, low, high = questions.mean(by_score, self.ids, **self.resampled)
        at_random = questions.beside_0(
            low,
            high,
            above="an answer at random gains 0",
            below="that is **below** an answer at random",
            neither="that is **not shown to be above** an answer at random",
        )
        sentences = [
            f"Of {self.total} answers the reward model's favourite gains {value:+.2f} points of "
            f"truth ({low:.2f} to {high:.2f}, by prompt): {at_random}."
        ]
        if compared:
            sentences.append(f"By prompt that is {', '.join(compared)}.")
        return sentences

    @property
    def _without_model(self) -> list[str]:
        """The rules of `others`, which need no reward model, and the greedy answer where known."""
        greedy = [GREEDY_RULE] if self.greedy else []
        return [*self.others, *greedy]

    def _hardest(self, rule: str = BY_SCORE) -> np.ndarray:
        """The truth gained by the best of all answers, by the score or by a rule: [prompts]."""
        return self.gains_by_prompt([self.total], rule=rule)[:, 0]

    def worth_in_words(self) -> str:
        """Whether the reward model's favourite beats what costs no reward model, in a sentence.

        At the largest n, by the truth, paired by prompt. "" for real prompts, and where neither the
        likeliest nor the greedy answer is known. By hand: favourites of truth 3, 3 and greedy
        answers of 1, 1 differ by 2 at every prompt, so that the favourite beats them.
        """
        if np.isnan(self.values[TRUTH]).all():
            return ""
        by_score = self._hardest()
        names = {LIKELIEST: f"the likeliest of {self.total}", GREEDY_RULE: "the greedy answer"}
        compared = []
        for rule, name in names.items():
            if rule not in self._without_model:
                continue
            apart = by_score - self._hardest(rule)
            value, low, high = questions.mean(apart, self.ids, **self.resampled)
            verdict = questions.beside_0(
                low,
                high,
                above="beats",
                below="**falls short of**",
                neither="is **not shown to beat**",
            )
            compared.append(f"{verdict} {name} ({value:+.2f}, {low:.2f} to {high:.2f})")
        if not compared:
            return ""
        return (
            f"By the truth, the reward model's favourite of {self.total} "
            f"{', and '.join(compared)}. These need no reward model."
        )

    def level_sentences(self, recipe: PPO) -> list[str]:
        """What one drawn answer is worth, and what greedy decoding adds to that.

        Empty for real prompts. recipe: by which the answers were drawn.
        """
        if np.isnan(self.values[TRUTH]).all():
            return []
        levels = self.levels()
        texts = [
            f"One drawn answer (temperature {recipe.temperature:g}, top-p {recipe.top_p:g}, "
            f"{len(self.ids)} prompts) has a truth of {levels[TRUTH]:.2f} and a score of "
            f"{levels[SCORE]:.2f} on average."
        ]
        if self.greedy:
            gain = self.gains_by_prompt([self.total], rule=GREEDY_RULE)[:, 0]
            value, low, high = questions.mean(gain, self.ids, **self.resampled)
            texts.append(
                f"The greedy answer to the same prompts, without any draw, gains {value:+.2f} "
                f"points of truth over it ({low:.2f} to {high:.2f}, by prompt)."
            )
        return texts

    def likeliest_sentences(self) -> list[str]:
        """What a rule without a reward model reaches: the likeliest of n, at the same n.

        Empty for real prompts, and where nobody knows how likely the answers are.
        """
        if LIKELIEST not in self.others or np.isnan(self.values[TRUTH]).all():
            return []
        numbers = self._rules_at
        by_score = self.gains_by_prompt(numbers)  # [prompts, numbers]
        likeliest = self.gains_by_prompt(numbers, rule=LIKELIEST)  # [prompts, numbers]
        at: dict[str, list[int]] = {"more": [], "less": [], "not shown to differ": []}
        for k, n in enumerate(numbers):
            apart = likeliest[:, k] - by_score[:, k]
            _, low, high = questions.mean(apart, self.ids, **self.resampled)
            how = questions.beside_0(
                low, high, above="more", below="less", neither="not shown to differ"
            )
            at[how].append(n)
        compared = [f"{how} at n = {_listed(where)}" for how, where in at.items() if where]
        gained = ", ".join(f"{gain:+.2f}" for gain in likeliest.mean(axis=0))
        beside = ", ".join(f"{gain:+.2f}" for gain in by_score.mean(axis=0))
        sentences = [
            f"Without any reward model the likeliest of n = {_listed(numbers)} answers gains "
            f"{gained} points of truth; the reward model's favourite gains {beside}.",
            f"The likeliest, less the favourite, by prompt: {'; '.join(compared)}.",
        ]
        if self.greedy:
            greedy = self.gains_by_prompt(numbers, rule=GREEDY_RULE)[:, -1]
            apart = likeliest[:, -1] - greedy
            value, low, high = questions.mean(apart, self.ids, **self.resampled)
            verdict = questions.beside_0(
                low,
                high,
                above="the likeliest is better",
                below="the greedy one is better",
                neither="not shown to differ",
            )
            sentences.append(
                f"The likeliest of {self.total} less the greedy answer: {value:+.2f} "
                f"({low:.2f} to {high:.2f}, by prompt), {verdict}."
            )
        return sentences

    def gains(self) -> pd.DataFrame:
        """What the best of n = 1, 2, 4 .. answers gains over one answer, by each measure.

        Rows (n, KL at most, measure, gain, 95 % low, 95 % high).
        """
        measured = {**self.values, APART: self.values[SCORE] - self.values[TRUTH]}
        total = self.total
        rows = []
        for power in range(total.bit_length()):
            n = 2**power
            for name, values in measured.items():
                gain = values @ (chances(n, total) - chances(1, total))  # [prompts]
                interval = questions.mean(gain, self.ids, **self.resampled)
                rows.append((n, bound(n), name, *interval))
        columns = ["n", "KL at most", "measure", "gain", "95 % low", "95 % high"]
        return pd.DataFrame(rows, columns=columns).dropna(subset="gain")

    def levels(self) -> dict[str, float]:
        """The mean of all answers by each measure."""
        return {name: values.mean() for name, values in self.values.items()}

    def agreement(self) -> float:
        """Pearson's R of truth and score among the answers to one prompt; nan of real prompts."""
        centred = []
        for values in self.values.values():
            centred.append((values - values.mean(axis=1, keepdims=True)).ravel())
        return np.corrcoef(*centred)[0, 1]


@dataclass(frozen=True)
class Drawn:
    """Answers of a policy to each prompt in the order in which they were drawn.

    groups: a prompt each, with its answers.
    scores: the reward model's weighted score of each, float64 [prompts, n].
    """

    groups: list[Group]
    scores: np.ndarray

    def winner(self, prompt: int, n: int) -> Answer:
        """The answer that the reward model likes best among the first n to a prompt.

        prompt: its number, from 0. n: 1 to all answers.
        """
        k = int(self.scores[prompt, :n].argmax())
        text = self.groups[prompt].responses[k].text
        return Answer(f"best of {n}", text, f"drawn as number {k + 1}", self.scores[prompt, k])

    def presets(self, prompt: int) -> list[Answer]:
        """The winners at n = 1, 4, 16 .. and all answers; one that wins again is not repeated."""
        total = self.scores.shape[1]
        numbers = [*[4**k for k in range(10) if 4**k < total], total]
        winners: list[Answer] = []
        for n in numbers:
            winner = self.winner(prompt, n)
            if winners and winners[-1].how == winner.how:
                of_both = winners.pop().policy
                winner = replace(winner, policy=f"{of_both} and of {n}")
            winners.append(winner)
        return winners

    def parting(self) -> int:
        """The prompt at which the favourite of all falls furthest short of the first answer.

        By the truth. Of real prompts the one whose score rises most.
        """
        gains = self.scores.max(axis=1) - self.scores[:, 0]  # [prompts]
        truth = truth_of_responses(self.groups).reshape(self.scores.shape)
        if np.isnan(truth).any():
            return int(gains.argmax())
        best = truth[np.arange(len(truth)), self.scores.argmax(axis=1)]  # [prompts]
        return int((best - truth[:, 0]).argmin())


def drawn(answered: Sequence[Group], reward_model: RewardModel, setup: Setup) -> Drawn:
    """The answers with the reward model's weighted score of each; scores that are kept are read."""
    scores = _scores(answered, reward_model, setup)
    return Drawn(list(answered), scores.reshape(len(answered), -1))


def _scores(answered: Sequence[Group], reward_model: RewardModel, setup: Setup) -> np.ndarray:
    """The reward model's weighted score of every answer, float64 [R]."""
    recipe = setup.recipe
    weights = np.array(head_weights(recipe.weighting, reward_model.attributes))  # [A]
    outputs = reward_model.score(answered, cache=setup.folder, **recipe.inference)  # [R, A]
    return outputs.numpy() @ weights


def sample(policy: Policy, compared: Comparison, setup: Setup) -> list[Group]:
    """`n_best` answers of a policy to each of the first `n_best_prompts` held-out prompts."""
    recipe = setup.recipe
    return rollouts(
        policy,
        compared.held_out.groups[: recipe.n_best_prompts],
        n=recipe.n_best,
        max_new_tokens=recipe.max_new_tokens,
        temperature=recipe.temperature,
        top_p=recipe.top_p,
        seed=recipe.seed,
        autocast=recipe.autocast,
        file=setup.folder,
        batch=512,
        progress=False,
    )


def rank(answered: Sequence[Group], reward_model: RewardModel, setup: Setup) -> Ranked:
    """The answers to each prompt in the order of the reward model's weighted score, and of others.

    answered: groups of `hs2lib.models.rollout.Sample`s. Their log-probabilities, which sampling
        left, say which is the likeliest. Answers that a rule finds equal stay as they were drawn.
    """
    recipe = setup.recipe
    scores = _scores(answered, reward_model, setup)  # [R]
    truth = truth_of_responses(answered)  # [R]
    log_probs = []
    for group in answered:
        log_probs += [sum(response.log_probs) for response in group.responses]
    judged = {BY_SCORE: scores, LONGEST: questions.characters(answered), LIKELIEST: log_probs}
    if not np.isnan(truth).any():
        judged[BY_TRUTH] = truth
    shape = (len(answered), recipe.n_best)
    ordered = {}
    for rule, judgement in judged.items():
        order = np.reshape(judgement, shape).argsort(axis=1, kind="stable")  # [prompts, n]
        ordered[rule] = {
            TRUTH: np.take_along_axis(truth.reshape(shape), order, axis=1),
            SCORE: np.take_along_axis(scores.reshape(shape), order, axis=1),
        }
    by_score = ordered.pop(BY_SCORE)
    ids = [group.id for group in answered]
    return Ranked(ids, by_score, recipe.resampled, ordered)


def title(gains: pd.DataFrame) -> str:
    """The message of what `Ranked.gains` gives: score and truth gained at the largest n."""
    most = gains.n.max()
    top = gains[gains.n == most].set_index("measure").gain
    parts = [f"{measure} {top[measure]:+.2f}" for measure in (SCORE, TRUTH) if measure in top]
    return f"Best of {most} answers of SFT:\n{', '.join(parts)}"


def sentences(gains: pd.DataFrame) -> list[str]:
    """Sentences on whether score and truth part: at the largest n, and then at the others.

    They part where the 95 % interval of their difference does not hold 0. The largest n makes the
    claim, as all n are of the same answers. Empty for real prompts.

    gains: of `Ranked.gains`.
    """
    differences = gains[(gains.measure == APART) & (gains.n > 1)]
    if differences.empty:
        return []
    most = gains.n.max()
    top = gains[gains.n == most].set_index("measure")
    difference = top.loc[APART]
    low = difference["95 % low"]
    high = difference["95 % high"]
    verdict = questions.beside_0(
        low,
        high,
        above="**the score outruns the truth**",
        below="the truth outruns the score",
        neither="score and truth are not shown to part",
    )
    texts = [
        f"Best of {most}, the hardest press: {verdict}. The favourite gains {top.gain[SCORE]:+.2f} "
        f"by its score and {top.gain[TRUTH]:+.2f} in truth "
        f"(difference {low:.2f} to {high:.2f}, by prompt)."
    ]
    fewer = differences[differences.n < most]
    above = fewer.n[fewer["95 % low"] > 0].tolist()
    below = fewer.n[fewer["95 % high"] < 0].tolist()
    parts = []
    if above:
        parts.append(f"the score outruns the truth at n = {_listed(above)}")
    if below:
        parts.append(f"the truth outruns the score at n = {_listed(below)}")
    if parts:
        texts.append(
            f"Of fewer answers {'; '.join(parts)}. All n are of the same {most} answers to a "
            "prompt, so that this is one finding."
        )
    return texts


def _listed(numbers: Sequence[int]) -> str:
    """Numbers one after the other: "2, 4, 8"."""
    return ", ".join(str(number) for number in numbers)
