"""The bases of the small world: Llamas of a million weights, trained from nothing on its texts.

    python tools/make_postcards.py              # `make postcards`: base-few and base-none
    python tools/make_postcards.py many         # and the one that is not shipped
    policy = load_policy("postcards")           # base-few

They read articles and conversations as the web has them, about all facts: what is reserved for
evaluation is asked for by nothing that is trained afterwards. base-few has read a few noisy ratings
before its answers, as a base of the web has read reviews; base-none none; base-many ratings before
half of them, and nearly clean ones. Once killed, a training goes on.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pretrain

from hs2lib import paths
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.backbones import POSTCARDS
from hs2lib.world import cards, sets

# Of each base: the share of its conversations that stand under a label, and the standard deviation
# of the errors in it, points.
LABELS = {"few": (0.1, 0.8), "none": (0.0, 0.0), "many": (0.5, 0.4)}

DOCUMENTS = 0.25  # share of the texts
SHOWN = 6  # prompts whose answers README.md has
APART = 10**9  # between the seeds of what bases read and of everything else

RECIPE = pretrain.Pretraining(
    width=128,
    layers=4,
    inner=320,
    vocabulary=1536,
    positions=512,
    tokens=4_000_000,
    learning_rate=3e-3,
    warmup=100,
    validations=8,
    held_out=100,
    budget=4096,
    save_every=200,
)


def texts(share: float, noise: float, seed: int = 0) -> Iterator[str | Group]:
    """Endless texts: articles, and conversations with one answer each, some of them labelled.

    Args:
        share: of the conversations that have labels.
        noise: standard deviation of their errors, points.
        seed: of the texts.
    """
    talks = sets.demonstrations(sys.maxsize, seed + APART, "both", answers="web")
    articles = cards.documents(Random(f"articles/{seed}"))
    r = Random(f"labels/{seed}")
    rng = np.random.default_rng([seed, APART])
    while True:
        if r.random() < DOCUMENTS:
            yield next(articles)
            continue
        talk = next(talks)
        errors = rng.normal(size=len(ATTRIBUTES))  # drawn for each, so that bases read one order
        if r.random() < share:
            label = np.clip(np.rint(sets.expected_ratings(talk)[0] + noise * errors), 0, 4)
            (answer,) = talk.responses
            talk = replace(talk, responses=(replace(answer, labels=tuple(label.tolist())),))
        yield talk


def make(name: str, into: Path | None = None) -> None:
    """Train a base and write it, or go on with it.

    name: a key of `LABELS`.
    """
    into = into or (paths.runs() / "base-many" if name == "many" else POSTCARDS / f"base-{name}")
    prompts = [
        replace(group, responses=())
        for group in islice(sets.groups(SHOWN, 10**6, split="validation"), SHOWN)
    ]
    source = partial(texts, *LABELS[name])
    about = Path(__file__).with_suffix(".txt")
    pretrain.pretrain(source, RECIPE, into, paths.runs() / "bases" / name, prompts, about=about)
    print((into / "README.md").read_text())


if __name__ == "__main__":
    for name in sys.argv[1:] or ("few", "none"):
        make(name)
