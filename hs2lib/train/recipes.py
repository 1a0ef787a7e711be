"""The whole recipe of each method: every setting with its type, default, help and range.

A notebook's parameters cell shows the dozen settings that a reader changes; its last line, `recipe:
dict = {..}`, overrides any other one of these. `run.recipe` of `hs2lib.report.report.start` is the
result, a typed object. This module imports no torch, so that the parameters of all notebooks are
checked within a second.

Defaults are the paper's. Where it is silent they are the reference code's (paper/reference.csv),
unless the help names another source. What only a tier decides (sizes, hardware) begins small.
"""

from dataclasses import dataclass

from hs2lib import names
from hs2lib.runs.parameters import check, setting, settings


class Settings:
    """Settings whose values are checked; each subclass is made a frozen dataclass.

    They are checked also where no parameters cell made them. Raises ParameterError for a value of
    another type, or outside the range that its setting states.
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        check(vars(self), settings(type(self)), type(self).__name__)


class Recipe(Settings):
    """How to train: what `hs2lib.train.trainer.fit` reads of every recipe."""

    epochs: float = setting(
        2.0,
        "passes over the training data, unless steps are set; paper, reward model: 2 (section 3)",
        0.01,
        1000,
    )
    steps: int = setting(
        0, "steps to stop after, or 0 for the whole global batches of the epochs", 0, 10_000_000
    )
    batch: int = setting(
        64, "groups in a global batch; paper, reward model: 64 pairs of responses", 1, 100_000
    )
    learning_rate: float = setting(
        2e-6, "constant, after the warm-up; paper, 70B reward model: 2e-6", 0, 1
    )
    warmup: int = setting(10, "steps of warm-up; paper: section 3", 0, 100_000)
    weight_decay: float = setting(
        0.1, "of AdamW; reference code (.01 for SFT, SteerLM, SteerLM 2.0)", 0, 1
    )
    betas: tuple[float, float] = setting((0.9, 0.98), "of AdamW; reference code", 0, 1)
    clip: float = setting(1.0, "largest norm of the gradient; reference code", 1e-6, 1e9)
    seed: int = setting(0, "of the order of the data, with the number of the epoch", 0, 2**32 - 1)
    autocast: str = setting(
        "float32", "what the backbone computes in, over float32 weights", one_of=names.PRECISIONS
    )
    budget: int = setting(4096, "size of a micro-batch, tokens: bounds the memory", 1, 10_000_000)
    accumulation: int = setting(
        1, "parts of a global batch that each process computes in turn", 1, 100_000
    )
    checkpointing: bool = setting(False, "compute activations twice, to hold fewer")
    validate_every: int = setting(10, "steps between validations; reference code", 1, 1_000_000)
    save_every: int = setting(50, "steps between checkpoints to go on from", 1, 1_000_000)
    keep: int = setting(1, "best checkpoints to keep, or 0 for the last weights", 0, 1000)
    judge = "none"  # who chooses among the checkpoints: a setting of policies
    fsdp: bool = setting(False, "shard the model over the processes that torchrun started")


class OwnRows(Settings):
    """A file of the user's own."""

    path: str = setting(
        "", "file to read in place of the data set's own, or with ratings for data set ratings"
    )
    columns: str = setting("", "its columns with other names, as prompt=question,chosen=good")


class OwnRatings(OwnRows):
    """A file of the user's own that may hold ratings."""

    scale: str = setting("", 'of own ratings, as 1-5 or clarity:1-5,score:0-1, or "" for 0 to 4')


class Rows(Settings):
    """Which rows are read."""

    dataset: str = setting("helpsteer2", "data set")
    source: str = setting("postcards", "where its rows come from", one_of=names.SOURCES)
    split: str = setting("train", "which split of it", one_of=names.SPLITS)
    n_prompts: int = setting(1000, "prompts to generate when source is postcards", 10, 10_000_000)


class Begun(Settings):
    """What training begins with."""

    start: str = setting(
        "", 'policy to begin with, a folder or a name, or "" for that of an earlier notebook'
    )


class Steered(Settings):
    """What a steered policy is asked for."""

    target: str = setting(
        "helpfulness:4,correctness:4,coherence:4,complexity:2,verbosity:2", "attributes to ask for"
    )


class Resampled(Settings):
    """How intervals are made."""

    n_boot: int = setting(1000, "bootstrap resamples", 100, 100_000)


class Written(Settings):
    """How a model's repository is read, and how a conversation is written for it."""

    revision: str = setting("", 'commit of the Hub repository, or "" for the newest')
    pad_token: str = setting("", 'pad token for a tokenizer that has none, or ""')
    template: str = setting(
        "chat", "how a conversation is written, for a model from elsewhere", one_of=names.TEMPLATES
    )
    max_tokens: int = setting(
        0, "longest response with its prompt, tokens, or 0 for the model's limit", 0, 1_000_000
    )
    control_text: str = setting(
        "escape", "texts that hold control tokens of the template", one_of=names.CONTROL_TEXT
    )

    @property
    def written(self) -> dict:
        """These five, as `hs2lib.models` takes them: None in place of an empty one."""
        return {
            "template": self.template or None,
            "revision": self.revision or None,
            "pad_token": self.pad_token or None,
            "max_tokens": self.max_tokens or None,
            "control_text": self.control_text or "escape",
        }


class Limited(Written):
    """What is done with what is longer than max_tokens."""

    too_long: str = setting(
        "raise", "what to do with a row longer than max_tokens", one_of=names.TOO_LONG
    )


class Trained(Settings):
    """Which rows are trained on, and which weights."""

    strict: bool = setting(True, "stop at the first bad row, or set bad rows aside and count them")
    method: str = setting("full", "all weights or adapters", one_of=names.TRAINED)
    lora_rank: int = setting(16, "rank of the adapters", 1, 1024)


class Scored(Resampled):
    """Which reward model scores answers."""

    reward: str = setting(
        "", 'reward model that measures, a folder or Hub repository, or "" for that of notebook 05'
    )
    weighting: str = setting(
        "goodness", "head weights: goodness, a row of Table 3, or text as quality:1"
    )


class Measured(Scored):
    """How a policy is measured: what it answers."""

    eval_dataset: str = setting("helpsteer2", "held-out prompts", one_of=names.PROMPTS)
    eval_source: str = setting("postcards", "where they come from", one_of=names.SOURCES)
    eval_split: str = setting(
        "validation", "which split of them, never one trained on", one_of=names.SPLITS
    )
    n_eval_prompts: int = setting(8, "held-out prompts to respond to", 1, 100_000)
    eval_tokens: int = setting(12, "longest of them, tokens", 1, 100_000)


class Endpoint(Settings):
    """Where a judge is."""

    judge_url: str = setting("", "address without user, password or query", pattern=names.ADDRESS)
    allow_http: bool = setting(False, "let the key cross plain http to another machine")


class Grader(Endpoint):
    """Who grades answers to MT-Bench."""

    judge_model: str = setting(
        "gpt-4-0125-preview", "model there that grades MT-Bench; paper: appendix H"
    )
    key_variable: str = setting(
        "OPENAI_API_KEY", "name, in capitals, of the key's variable", pattern=names.VARIABLE
    )
    token_cap: int = setting(
        1_000_000, "tokens that judges may ever take for this folder", 0, 10**9
    )


class Aligned(Measured, Trained, Grader, Recipe):
    """What the recipes of all policies share."""

    warmup: int = setting(
        0, "steps of warm-up; paper: section 3 has 10, for the reward model only", 0, 100_000
    )
    autocast: str = setting(
        "float32", "what the models compute in, over float32 weights", one_of=names.PRECISIONS
    )
    judge: str = setting(
        "none",
        "who chooses among all checkpoints, by MT-Bench",
        one_of=("none", "truth", "endpoint"),
    )

    @property
    def inference(self) -> dict:
        """How a model is run without gradients: `budget` and `autocast` of a pass.

        Twice the tokens of training fit.
        """
        return {"budget": 2 * self.budget, "autocast": self.autocast}

    @property
    def resampled(self) -> dict:
        """How intervals are made: `n_boot` and `seed` of `hs2lib.evaluate`."""
        return {"n_boot": self.n_boot, "seed": self.seed}


class DPO(Begun, OwnRatings, Limited, Rows, Aligned):
    """Notebook 08. Paper: section 4.3."""

    reward: str = setting(
        "",
        'reward model that measures, a folder or repository, none, or "" for that of notebook 05',
    )
    attribute: str = setting(
        "helpfulness",
        'label whose highest response is chosen, whose lowest is rejected, or "" for preferences',
    )
    n_pairs: int = setting(0, "pairs to train on, drawn by the seed, or 0 for all", 0, 10_000_000)
    validation_split: str = setting(
        "", 'to validate on, or "" to cut a share off', one_of=("", *names.SPLITS)
    )
    validation_share: float = setting(0.2, "of the prompts, to validate on", 0, 0.5)
    beta: float = setting(
        0.001, "KL penalty: how much a log-ratio counts; paper: section 4.3", 1e-6, 10
    )


class RewardModel(OwnRatings, Resampled, Limited, Rows, Trained, Recipe):
    """Notebook 05. Paper: section 3."""

    model_name: str = setting(
        "postcards", "base: postcards, embedded, tiny, a folder or a repository"
    )
    attributes: tuple = setting(names.ATTRIBUTES, "the model's outputs")

    validation_share: float = setting(0.15, "of the prompts, to choose the checkpoint", 0, 0.5)
    test_split: str = setting(
        "validation", 'to test on, or "" to cut test_share off', one_of=("", *names.SPLITS)
    )
    test_share: float = setting(
        0.25, "of the prompts, for the metrics; as many of a generated test_split", 0, 0.5
    )
    objective: str = setting("regression", "the loss", one_of=names.OBJECTIVES)
    compare: str = setting(
        "", 'label to order responses by for a loss of pairs, or "" for the data\'s preferences'
    )
    ties: str = setting(
        "leave out",
        "two equally good responses, for a loss of pairs; left out in HelpSteer2-Preference",
        one_of=names.TIES,
    )
    start: str = setting(
        "", 'saved reward model whose weights training begins with, a folder, or "" for the base'
    )
    head: str = setting(
        "fresh",
        "where the head starts, near zero, at the ridge solution, or as start has it (saved)",
        one_of=names.HEADS,
    )
    ridge_groups: int = setting(
        1600, "groups to fit baselines to, or 0 for all of them and no ridge", 0, 10_000_000
    )


class Supervised(Settings):
    """How a policy is trained on answers as they stand."""

    keep: int = setting(
        0, "best checkpoints to keep, or 0 for the last weights; paper: the last", 0, 1000
    )


class SFT(OwnRatings, Supervised, Written, Rows, Aligned):
    """Notebook 07. Paper: section 4.2."""

    model_name: str = setting("postcards", "base: postcards, embedded, a folder or a repository")

    validation_share: float = setting(0.15, "of the conversations, to watch the loss on", 0, 0.5)


class Tempered(Settings):
    """How surely a policy is sampled."""

    temperature: float = setting(0.7, "of the sampling; paper: sections 4.3 and 4.5", 0, 10)
    top_p: float = setting(
        0.9, "share of the probability that is sampled from; paper: as above", 0.01, 1
    )


class Sampled(Tempered):
    """How responses are sampled to train on."""

    max_new_tokens: int = setting(12, "longest response sampled to train on, tokens", 1, 100_000)


class Served(Settings):
    """What generates."""

    backend: str = setting(
        "transformers",
        "what generates: our engine, transformers' continuous batching or a vLLM server",
        one_of=names.BACKENDS,
    )


class Compared(Served, Sampled, Rows):
    """Prompts whose several responses are compared with each other."""

    n_prompts: int = setting(
        20_000, "prompts a round or an iteration; paper: sections 4.3 and 4.5", 1, 10_000_000
    )
    n_samples: int = setting(10, "responses sampled for each prompt, n; paper: as above", 2, 1000)

    @property
    def sampling(self) -> dict:
        """How responses to train on are sampled: options of `hs2lib.models.rollout.rollouts`."""
        return {
            "n": self.n_samples,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "max_new_tokens": self.max_new_tokens,
            "backend": self.backend,
            "autocast": self.autocast,
        }


class IterativeDPO(Begun, Compared, Written, Aligned):
    """Notebook 09. Paper: section 4.3."""

    rounds: int = setting(
        1, "of sampling and training, each on new prompts; paper: section 4.3", 1, 100
    )
    unfinished: str = setting(
        "keep", "samples cut off: as the others, or in no pair", one_of=("keep", "leave out")
    )
    reference: str = setting(
        "previous", "start of which round DPO keeps close to", one_of=("previous", "first")
    )
    beta: float = setting(
        0.001, "KL penalty: how much a log-ratio counts; paper: section 4.3", 1e-6, 10
    )


class PPO(Begun, OwnRatings, Sampled, Written, Rows, Aligned):
    """Notebook 10. Paper: section 4.4."""

    n_validate: int = setting(
        0, "prompts that choose the checkpoint by their reward, or 0 for the last", 0, 100_000
    )
    n_standard: int = setting(
        0, "groups that give the reward's mean and SD, or 0 for all; paper: all", 0, 10_000_000
    )
    critic: str = setting(
        "separate",
        "own model (reference code), or the mean of an answer's group",
        one_of=("separate", "group"),
    )
    critic_rate: float = setting(
        10.0, "learning rate of a separate critic over the policy's; reference code", 0, 1000
    )
    buffer: int = setting(128, "prompts answered in a round; paper: section 4.4", 1, 100_000)
    passes: int = setting(1, "over the answers of a round; reference code", 1, 100)
    kl_weight: float = setting(0.003, "of the KL in the reward; paper: section 4.4", 0, 100)
    kl_form: str = setting(
        "absolute", "of the KL of a token; reference code", one_of=("absolute", "plain", "k3")
    )
    gamma: float = setting(1.0, "discount; reference code", 0, 1)
    lam: float = setting(0.95, "of the advantage estimates; reference code", 0, 1)
    ratio_clip: float = setting(0.2, "how far a token's ratio counts; reference code", 0, 100)
    value_clip: float = setting(0.2, "how far a value may move; reference code", 0, 1e9)
    normalise: bool = setting(
        True, "bring advantages to mean 0 and SD 1 over the buffer; reference code"
    )
    n_samples: int = setting(1, "answers to each prompt; reference code", 1, 1000)
    unfinished: str = setting(
        "drop",
        "answers cut off: drop gives them no gradient, keep one as any other; reference code: drop",
        one_of=names.CUT_OFF,
    )
    weigh: str = setting(
        "tokens", "what counts alike in the losses; reference code: responses", one_of=names.WEIGHED
    )
    temperature: float = setting(1.0, "of sampling in training; reference code", 0.01, 10)
    top_p: float = setting(
        1.0, "share of the probability that is sampled from; reference code", 0.01, 1
    )
    n_best_prompts: int = setting(4, "held-out prompts that best-of-n answers", 1, 100_000)
    n_best: int = setting(8, "answers to each, of which the best are taken", 2, 100_000)


class SteerLM(Begun, Steered, OwnRatings, Supervised, Tempered, Limited, Rows, Aligned):
    """Notebook 11. Paper: section 4.5."""

    model_name: str = setting(
        "postcards", "base that is asked under the label too, as it was before any training"
    )
    steer_by: tuple = setting(names.ATTRIBUTES, "attributes varied one by one")

    single_turn: bool = setting(
        False, "only answers to a first message (short prompts: more answers in the same time)"
    )
    n_answers: int = setting(
        0, "label and train on at most so many answers, or 0 for all", 0, 100_000_000
    )
    levels: str = setting(
        "rounded", "predictions rounded or ranked, or a set's own ratings", one_of=names.LABELLED
    )
    balance: tuple = setting(
        (), "levels of the first of steer_by, taken as evenly as can be, or () for any", 0, 4
    )
    steer_levels: tuple = setting((0, 4), "levels that each attribute is asked for", 0, 4)
    n_steer_prompts: int = setting(4, "held-out prompts to steer on", 1, 100_000)
    steer_tokens: int = setting(16, "longest steered response, tokens", 1, 100_000)


class SteerLM2(Begun, Steered, Compared, Aligned):
    """Notebook 12. Paper: section 4.5."""

    prior: str = setting(
        "", 'SFT model without attributes, a folder or a name, or "" for the policy of notebook 07'
    )
    iterations: int = setting(2, "of sampling and training; paper: section 4.5", 1, 100)
    fresh_prompts: bool = setting(
        True, "other prompts in each iteration, or the same ones; paper: section 4.5"
    )
    n_validation: int = setting(
        2, "prompts that choose the best step by the distance, or 0 for none", 0, 100_000
    )
    concentration: float = setting(
        24.0, "alpha plus beta of the Beta distribution; paper: section 4.5", 0.1, 10_000
    )
    edges: str = setting("fifths", "bins of the five levels", one_of=("fifths", "rounding"))
    clamp: float = setting(0.01, "how far from 0 and 1 a scaled prediction is kept", 1e-6, 0.2)
    unfinished: str = setting("keep", "samples that reach max_new_tokens", one_of=names.CUT_OFF)
    by_length: bool = setting(
        False, "divide the loss of a group by its mean length; reference code: yes"
    )


class RewardBench(OwnRows, Resampled, Limited):
    """Notebook 06. Paper: section 3, Table 3."""

    source: str = setting("postcards", "where the pairs come from", one_of=names.SOURCES)
    n_per_section: int = setting(
        50, "pairs to generate for each section when source is postcards", 4, 1_000_000
    )
    limit: int = setting(0, "take only so many pairs of each subset, or 0 for all", 0, 100_000)
    prior_sets: bool = setting(False, "also the four prior sets, from the Hub")
    model: str = setting(
        "", 'reward model, a folder or a Hub repository, or "" for that of notebook 05'
    )
    weighting: str = setting(
        "", 'head weights: a row of Table 3, goodness, text as quality:1, or "" for the paper\'s'
    )
    paper_row: str = setting("", 'row of Table 3 that this model reproduces, or "" for none')
    held_out: str = setting("helpsteer2", "pairs to search weights on")
    held_out_split: str = setting(
        "validation", "which of their splits, never one trained on", one_of=names.SPLITS
    )
    negative: tuple = setting(("verbosity",), "outputs whose weights run from 0 to -1, not to 1")
    seed: int = setting(0, "of the generator, the folds and the bootstrap", 0, 2**32 - 1)
    control_text: str = setting(
        "", 'as elsewhere, or "" for what the model has', one_of=("", *names.CONTROL_TEXT)
    )
    n_changed: int = setting(
        48, "pairs whose responses are changed, to see what raises a score", 1, 100_000
    )
    n_by_fault: int = setting(
        24, "generated prompts whose answer is given one fault at a time", 2, 100_000
    )
    strict: bool = setting(
        True, "refuse a file of own pairs with bad rows, or set the rows aside and count them"
    )
    autocast: str = setting(
        "float32", "what the model computes in, over float32 weights", one_of=names.PRECISIONS
    )
    budget: int = setting(8192, "size of a batch, tokens", 1, 10_000_000)
    n_held_out: int = setting(
        40, "prompts to search weights on, or 0 for all (not if generated)", 0, 1_000_000
    )
    weight_step: float = setting(0.25, "step of the grid of weights, a divisor of 1", 0.01, 1)
    folds: int = setting(5, "parts of the pairs when weights are fitted across", 2, 100)


class RewardBenchmarks(Resampled, Limited):
    """Notebook 16. Paper: silent; these benchmarks of reward models are of later years."""

    benchmarks: tuple = setting(
        names.REWARD_BENCHMARKS, "benchmarks to run", one_of=names.REWARD_BENCHMARKS
    )
    source: str = setting("postcards", "where the questions come from", one_of=names.SOURCES)
    n_per_part: int = setting(
        4, "questions to generate for each part when source is postcards", 1, 100_000
    )
    limit: int = setting(0, "take only so many questions of each part, or 0 for all", 0, 100_000)
    answered_by: str = setting("gpt-4o", "whose answers JudgeBench's are", one_of=names.JUDGEBENCH)
    model: str = setting(
        "", 'reward model, a folder or a Hub repository, or "" for that of notebook 05'
    )
    weighting: str = setting(
        "", 'head weights: a row of Table 3, goodness, text as quality:1, or "" for the paper\'s'
    )
    seed: int = setting(0, "of the generator, random answers and the bootstrap", 0, 2**32 - 1)
    control_text: str = setting(
        "", 'as elsewhere, or "" for what the model has', one_of=("", *names.CONTROL_TEXT)
    )
    autocast: str = setting(
        "float32", "what the model computes in, over float32 weights", one_of=names.PRECISIONS
    )
    budget: int = setting(8192, "size of a batch, tokens", 1, 10_000_000)


class Answered(Settings):
    """Which questions the policies answer, and who grades the answers."""

    source: str = setting("postcards", "where the questions come from", one_of=names.SOURCES)
    skip: tuple = setting((), "titles of policies to leave out")
    n_truthfulqa: int = setting(0, "questions of TruthfulQA, or 0 for all 817", 0, 817)
    n_mt_bench: int = setting(0, "questions of MT-Bench, or 0 for all 80", 0, 80)
    n_arena_hard: int = setting(0, "questions of Arena Hard, or 0 for all 500", 0, 500)
    n_alpaca: int = setting(0, "instructions of AlpacaEval, or 0 for all 805", 0, 805)
    answer_tokens: int = setting(1024, "longest answer, tokens; paper, MT-Bench: 1,024", 1, 100_000)
    judge: str = setting(
        "none", "who grades the answers", one_of=("none", "truth", "reward_model", "endpoint")
    )
    seed: int = setting(
        0, "of generated questions, subsets, orders and the bootstrap", 0, 2**32 - 16
    )


class Evaluation(Steered, Answered, Served, Grader, Scored):
    """Notebook 13. Paper: section 4.1, Table 4, appendix H."""

    models: tuple = setting(
        (), "what to measure in place of the notebooks' policies, each title=folder"
    )
    paper_models: bool = setting(
        False, "whether these are the models of the paper, for Table 4 to judge"
    )
    pair_judge: str = setting(
        "gpt-4-1106-preview", "model there that compares answers, Arena Hard and AlpacaEval"
    )
    pair_tokens: int = setting(
        0, "answer_tokens for Arena Hard and AlpacaEval, or 0; published: 4,096", 0, 100_000
    )
    log_probs: bool = setting(
        False, "ask AlpacaEval's judge for log-probabilities of its two names, as published"
    )
    price: tuple = setting(
        (), "of a million prompt and of a million reply tokens, or () if not known", 0, 10_000
    )
    cost_cap: float = setting(
        0.0, "most that judges may cost, in the currency of the price, or 0 for no cap", 0, 10**6
    )
    reply_tokens: int = setting(2048, "longest reply of a judge, tokens", 1, 100_000)
    in_flight: int = setting(32, "questions to a judge at once", 1, 1000)
    references: str = setting(
        "gpt-4-0125-preview",
        "MT-Bench's references",
        one_of=("gpt-4-0125-preview", "gpt-4-1106-preview", "gpt-4"),
    )
    difficulty: str = setting(
        "", 'AlpacaEval\'s published file of difficulties, df_gamed.csv, or ""'
    )
    batch: int = setting(64, "answers at once", 1, 100_000)
    autocast: str = setting(
        "float32", "what the models compute in, over float32 weights", one_of=names.PRECISIONS
    )
    budget: int = setting(4096, "size of a batch that is scored, tokens", 1, 10_000_000)

    @property
    def inference(self) -> dict:
        """How a model is run without gradients: `budget` and `autocast` of a pass."""
        return {"budget": self.budget, "autocast": self.autocast}

    @property
    def resampled(self) -> dict:
        """How intervals are made: `n_boot` and `seed` of `hs2lib.evaluate`."""
        return {"n_boot": self.n_boot, "seed": self.seed}

    @property
    def generation(self) -> dict:
        """How answers are sampled: options of `hs2lib.evaluate.questions.generate`."""
        return {"backend": self.backend, "batch": self.batch, "autocast": self.autocast}

    def longest(self, benchmark: str) -> int:
        """How long an answer to a benchmark may be, tokens.

        Arena Hard and AlpacaEval compare pairs; MT-Bench does not.
        """
        if self.pair_tokens and benchmark != "MT-Bench":
            return self.pair_tokens
        return self.answer_tokens


class Collection(Endpoint):
    """Notebook 04. Paper: section 2.1."""

    attributes: tuple = setting(names.ATTRIBUTES, "what the annotation form asks for")
    scale: str = setting("0-4", "of its ratings, as 1-5 or clarity:1-5,score:0-1")
    english_threshold: float = setting(
        0.3, "least probability of being English, 1 keeps almost nothing", 0, 1
    )
    topic_share: float = setting(0.7, "share of the prompts drawn evenly over topics", 0.01, 1)
    complexity_share: float = setting(
        0.5, "share of those drawn over levels of complexity", 0.01, 1
    )
    top_weight: float = setting(2.0, "weight of complexity 5 against the other levels", 0.1, 10)
    n_candidates: int = setting(16, "candidates for each assistant turn", 2, 1000)
