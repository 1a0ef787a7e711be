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
RATED = (
    "helpsteer2",
    "helpsteer2-partial",
    "helpsteer",
    "oasst1",
    "ratings",
)  # labels on every response
ANNOTATED = (
    "helpsteer2-disagreements",
    "summeval",
    "pandalm",
    "ratings",
)  # each annotator's own ratings
COMPARED = (
    "helpsteer2-preference",
    "helpsteer2-preference-partial",
    "hh-rlhf",
    "pandalm",
)  # which of two is better
UNRATED = ("helpsteer2-unrated",)  # responses without labels
PREDECESSORS = ("helpsteer",)  # rated on the same attributes: the HS columns of Table 2
PREFERENCES = (
    *RATED,
    *COMPARED,
)  # of two responses one may be better: what a reward model learns from
CONVERSATIONS = (
    "helpsteer2",
    "oasst1",
    "oasst1-paths",
    "daring-anteater",
)  # for SFT; of rated responses the best
PROMPTS = ("helpsteer2", "helpsteer2-unrated", "oasst1", "daring-anteater")  # to sample answers to

EMBEDDED = (
    "helpsteer2",
    "helpsteer2-disagreements",
)  # the sets that generated data can stand in for

# Where a data set or a benchmark comes from: generated here, a local folder, or fetched from where
# it is published (the Hugging Face Hub at a pinned revision, GitHub at a pinned commit).
SOURCES = ("embedded", "folder", "hub")

SPLITS = ("train", "validation", "both")

TIERS = ("smoke", "demo", "laptop", "gpu", "paper")

MODELS = (
    "tiny",
    "small",
    "embedded",
)  # that come with the packages; elsewhere a folder or a Hub repository is named

TEMPLATES = (
    "chat",
    "reference",
)  # how a conversation is written: the model's own way, or HelpSteer2's
CONTROL_TEXT = (
    "plain",
    "escape",
    "refuse",
)  # what is done with a text that spells out a template's control tokens
OBJECTIVES = ("regression", "bradley-terry")  # of a reward model
TRAINED = ("full", "lora")  # what is trained: all weights, or adapters
PRECISIONS = ("float32", "bfloat16")  # what a model computes in, over float32 weights
TOO_LONG = ("raise", "leave out")  # what to do with a conversation that is too long
WEIGHED = ("tokens", "responses")  # what counts alike in a mean over a batch
CUT_OFF = ("keep", "drop")  # what to do with an answer that is cut off at its longest
LABELLED = ("rounded", "fifths", "ratings")  # where SteerLM's labels come from
BACKENDS = ("transformers", "vllm")  # what samples: this process, or a vLLM server
VARIABLE = "[A-Z_][A-Z0-9_]{0,63}"  # what the name of an environment variable looks like, and a key does not
ADDRESS = r"((?i:https?)://[^\s/?#@]+(/[^\s?#]*)?)?"  # of a server, with no user, password or query, or none


def one_of(what: str, value: str, known: Iterable[str]) -> None:
    """Raise ValueError, which names the nearest, for a value that is not among those known. Paper: silent."""
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"unknown {what} {value!r}{hint}; there are: {', '.join(known)}")
