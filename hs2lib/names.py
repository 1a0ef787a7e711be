"""The names a parameter may take: data sets by kind, sources, splits, tiers, choices.

A line of a notebook's parameters cell names a tuple of this module after `one of`, so that a name
is typed once:

    dataset: str = "helpsteer2"  # data set to describe; one of RATED

What a data set is (its files, reader and licence) is in the table of `hs2lib.data.load`.
"""

import difflib
from collections.abc import Iterable

from hs2lib.group import ATTRIBUTES as ATTRIBUTES

# Data sets, by what their groups hold. A set may be of several kinds.

# Every response has labels.
RATED = ("helpsteer2", "helpsteer2-partial", "helpsteer", "oasst1", "ratings")

# Every response has the ratings of each annotator, or every pair their preferences.
ANNOTATED = ("helpsteer2-disagreements", "summeval", "pandalm", "helpsteer3-preference", "ratings")

# The data set says which of two responses is better.
COMPARED = (
    "helpsteer2-preference",
    "helpsteer2-preference-partial",
    "helpsteer3-preference",
    "hh-rlhf",
    "pandalm",
)

# The responses have no labels.
UNRATED = ("helpsteer2-unrated",)

# Benchmarks of reward models that came after RewardBench (`hs2lib.data.reward_benchmarks`).
REWARD_BENCHMARKS = ("RewardBench 2", "RM-Bench", "JudgeBench")

# Whose answers JudgeBench's pairs are.
JUDGEBENCH = ("gpt-4o", "claude", "both")

# Rated on the same attributes as HelpSteer2: the HS columns of Table 2.
PREDECESSORS = ("helpsteer",)

# Your own preferences, a file of pairs (`hs2lib.data.preferences`).
OWN_PAIRS = "pairs"

# Of two responses one may be better. A reward model learns from these.
PREFERENCES = (*RATED, *COMPARED, OWN_PAIRS)

# Conversations for SFT. Of rated responses the best is taken.
CONVERSATIONS = ("demonstrations", "helpsteer2", "oasst1", "oasst1-paths", "daring-anteater")

# Prompts to sample answers to.
PROMPTS = ("demonstrations", "helpsteer2", "helpsteer2-unrated", "oasst1", "daring-anteater")

# The data sets that are generated here: the first two stand in for published ones, demonstrations
# are there only so.
GENERATED = ("helpsteer2", "helpsteer2-disagreements", "demonstrations")

# Where a data set or a benchmark comes from: generated here, a local folder, or fetched from where
# it is published (the Hugging Face Hub at a pinned revision, GitHub at a pinned commit).
SOURCES = ("postcards", "folder", "hub")

SPLITS = ("train", "validation", "both")

TIERS = ("smoke", "demo", "laptop", "gpu", "paper")

# The models that come with the packages. Any other one is named by its folder or Hub repository.
MODELS = ("tiny", "embedded", "postcards", "postcards-none")

# How a conversation is written: the model's own way, or HelpSteer2's.
TEMPLATES = ("chat", "reference")

# What is done with a text that spells out a control token of a template.
CONTROL_TEXT = ("escape", "refuse")

# What a reward model minimises: squared errors of ratings, or a loss of pairs of responses.
OBJECTIVES = ("regression", "bradley-terry", "bradley-terry-margin", "bradley-terry-scaled")

# What a loss of pairs does with two responses of which neither is better.
TIES = ("leave out", "keep", "refuse")


# Where the head of a reward model starts: near zero, at the ridge solution, as the model that the
# training begins with has it.
HEADS = ("fresh", "ridge", "saved")

# What is trained: all weights, or adapters.
TRAINED = ("full", "lora")

# Where rows of people come from, whose true score nobody knows.
REAL = ("folder", "hub")

# What a model computes in, over float32 weights.
PRECISIONS = ("float32", "bfloat16")

# What is done with a conversation that is too long.
TOO_LONG = ("raise", "leave out")

# What has the same weight in a mean over a batch.
WEIGHED = ("tokens", "responses")

# What is done with an answer that was cut off at the largest length.
CUT_OFF = ("keep", "drop")

# Where the labels of SteerLM come from.
LABELLED = ("rounded", "fifths", "ratings")

# What samples: this process, or a vLLM server.
BACKENDS = ("transformers", "generate_batch", "vllm")

# Regular expressions.

# The name of an environment variable. A key of a service does not match it.
VARIABLE = "[A-Z_][A-Z0-9_]{0,63}"

# The address of a server without user, password or query, or no address at all.
ADDRESS = r"((?i:https?)://[^\s/?#@]+(/[^\s?#]*)?)?"


def one_of(what: str, value: str, known: Iterable[str]) -> None:
    """Raise ValueError for a value that is not among the known ones.

    Args:
        what: what the value is, for the message.
        value: the value to check.
        known: the values there are. The message lists them, and names the one nearest to `value`.
    """
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"unknown {what} {value!r}{hint}; there are: {', '.join(known)}")
