"""Training a small Llama from nothing on generated texts; `make_postcards.py` names the texts.

It reads whole texts: documents, and conversations in its chat template. Each is a sequence of its
own, so it never looks at another text, and texts that begin alike share their beginning. Every
token counts but the first of a text. Paper: silent (its bases were trained by others).
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from itertools import count, islice, tee
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import transformers as hf
from tokenizers import models, pre_tokenizers, trainers

from hs2lib import names, paths
from hs2lib.align import sft
from hs2lib.engine.chat import label_string
from hs2lib.group import Group
from hs2lib.models.backbones import (
    BEGIN,
    END,
    IDS,
    PAD,
    byte_level,
    fast_tokenizer,
    replace_folder,
)
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.rollout import rollouts
from hs2lib.report.report import commit, device
from hs2lib.runs.parameters import setting
from hs2lib.train import objectives, progress
from hs2lib.train.items import Item, order
from hs2lib.train.recipes import Recipe
from hs2lib.train.trainer import GroupTrainer, TrainingResult, fit

Text = str | Group  # a document, or a conversation: a group of exactly one response

SAMPLE = 20_000  # texts that the tokenizer is made from
DIGESTED = 1_000  # texts that tell one corpus from another

# SmolLM2's template without its system message.
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class Pretraining(Recipe):
    """How a base is trained; Recipe's batch and steps follow from tokens and step_tokens."""

    width: int = setting(192, "of the hidden states, in heads of 32", 32, 1024)
    layers: int = setting(4, "of the decoder", 1, 32)
    inner: int = setting(512, "width inside the feed-forward layers", 32, 4096)
    vocabulary: int = setting(
        3072, "entries of the tokenizer, special ones and bytes included", 300, 65_000
    )
    positions: int = setting(1024, "longest text, tokens", 16, 65_000)
    tokens: int = setting(20_000_000, "read in training, each once", 1, 10**9)
    step_tokens: int = setting(4096, "in a step, on average", 1, 10**6)
    held_out: int = setting(200, "texts kept out of training, for the held-out loss", 1, 100_000)
    validations: int = setting(20, "of them, evenly over the training", 1, 10_000)
    learning_rate: float = setting(
        2e-3, "highest, after the warm-up; then it falls to 0 in a straight line", 0, 1
    )
    warmup: int = setting(100, "steps of warm-up", 0, 100_000)
    betas: tuple[float, float] = setting((0.9, 0.95), "of AdamW", 0, 1)
    budget: int = setting(2048, "size of a micro-batch, tokens", 1, 10_000_000)
    keep: int = setting(0, "the last weights are kept", 0, 0)
    autocast: str = setting(
        "float32",
        "precision of the forward pass: bfloat16 gives other weights on another processor",
        one_of=names.PRECISIONS,
    )


class Falling(GroupTrainer):
    """A trainer whose learning rate, after its warm-up, falls to 0 in a straight line."""

    def rate(self, step: int, steps: int) -> float:
        return min(
            super().rate(step, steps), (steps - step) / max(1, steps - self.args.warmup_steps - 1)
        )


def messages(text: Text) -> list[str]:
    """The messages of a conversation, or a document as the only one."""
    if isinstance(text, str):
        return [text]
    return [*[turn.text for turn in text.prompt], text.responses[0].text]


def asked(text: Text) -> str:
    """What a conversation answers, its last question; or a whole document."""
    return text if isinstance(text, str) else text.prompt[-1].text


def label_of(text: Group) -> str | None:
    """The label string before the answer of a conversation, None without labels."""
    (answer,) = text.responses
    return label_string(answer.labels, text.attributes) if answer.labels else None


def corpus_digest(texts: Iterable[Text]) -> str:
    """A digest of the first texts of a corpus: a base that was trained on others has another."""
    out = hashlib.sha256()
    for text in islice(texts, DIGESTED):
        out.update("\0".join([*messages(text), "\0"]).encode())
    return out.hexdigest()[:16]


def tokenizer_of(texts: Iterable[Text], vocabulary: int = 2048, positions: int = 1024):
    """A byte-level BPE tokenizer made from texts; digits stand alone, special tokens have SmolLM2's
    ids 0, 1, 2.

    SteerLM's label strings are among the texts, so that a label costs few tokens.
    """
    core, special = byte_level(models.BPE()), [PAD, BEGIN, END]
    options = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
    sample = [message for text in texts for message in messages(text)]
    labels = [f"<extra_id_{i % 3}>{label_string((i % 5,) * 5)}\n" for i in range(len(sample) // 10)]
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=special, **options)
    core.train_from_iterator(sample + labels, trainer)
    return fast_tokenizer(core, TEMPLATE, positions)


def new(tokenizer, recipe: Pretraining) -> Policy:
    """A policy with random weights, the same for the same seed."""
    size = {
        "vocab_size": len(tokenizer),
        "hidden_size": recipe.width,
        "intermediate_size": recipe.inner,
    }
    size |= {"num_hidden_layers": recipe.layers, "num_attention_heads": recipe.width // 32}
    config = hf.LlamaConfig(
        max_position_embeddings=recipe.positions, tie_word_embeddings=True, **size, **IDS
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return Policy(hf.LlamaForCausalLM(config), tokenizer, base="postcards")


def items_of(policy: Policy, texts: Iterable[Text]) -> Iterator[Item]:
    """Items that train every token of a text after its first; a document ends with <|endoftext|>.

    A document that is longer than the model's positions becomes several items.
    """
    texts, ahead = tee(texts)
    numbers = count()
    talks = policy.tokenise((text for text in ahead if isinstance(text, Group)), label=label_of)
    for text in texts:
        if isinstance(text, str):
            read = policy.tokenizer(text + PAD, add_special_tokens=False)["input_ids"]
        else:
            read = next(talks).sequences[0]
        for start in range(0, len(read) - 1, policy.max_tokens):
            ids = np.array(read[start : start + policy.max_tokens], np.uint16)  # [T]
            yield Item(
                f"{next(numbers):07d}", (ids,), np.array([[len(ids) - 1]], np.float32), starts=(1,)
            )


def prepare(source: Callable[[], Iterator[Text]], recipe: Pretraining):
    """A new policy, its training items and its held-out items.

    source: begins the endless corpus anew. The first texts are held out, and whatever begins as
    they do is not trained.
    """
    policy, texts = (
        new(tokenizer_of(islice(source(), SAMPLE), recipe.vocabulary, recipe.positions), recipe),
        source(),
    )
    held = list(islice(texts, recipe.held_out))
    known = {asked(text) for text in held}
    items, size = [], 0
    for item in items_of(policy, (text for text in texts if asked(text) not in known)):
        items.append(item)
        size += len(item.sequences[0])
        if size >= recipe.tokens:
            break
    return policy, items, list(items_of(policy, held))


def pretrain(
    source: Callable[[], Iterator[Text]],
    recipe: Pretraining,
    into: Path,
    parent: Path,
    prompts,
    callbacks=(),
    *,
    about: Path,
) -> TrainingResult:
    """Train the base in a folder under `parent` that says which run it is, then write it to the
    folder `into`.

    source: begins the endless corpus anew. prompts: groups whose prompts it answers, for the reader
    of `into`. callbacks: as for `fit`. about: what that reader reads first.
    """
    policy, items, held_out = prepare(source, recipe)
    sizes = np.array([len(item.sequences[0]) for item in items])  # [B]
    batch = max(1, round(recipe.step_tokens / sizes.mean()))
    steps = recipe.steps or len(items) // batch
    how = replace(
        recipe, batch=batch, steps=steps, validate_every=math.ceil(steps / recipe.validations)
    )
    shape = {"learning rate": "falls to 0"} | {
        name: getattr(recipe, name) for name in ("width", "layers", "inner")
    }
    task = policy, items, held_out, objectives.sft(), how
    result = fit(*task, parent, about=shape, trainer=Falling, callbacks=callbacks)
    positions = list(islice(order([item.id for item in items], how.seed), steps * batch))
    read = sizes[positions].reshape(steps, batch).sum(1).cumsum()  # [steps]
    facts = {
        "corpus": corpus_digest(source()),
        "commit": commit(),
        "device": device(),
        "steps": steps,
        "batch": batch,
    }
    facts |= {
        "tokens": int(read[-1]),
        "threads": torch.get_num_threads(),
        "seconds": result.seconds,
    }
    replace_folder(
        into,
        lambda folder: save(
            folder, policy, held_out, prompts, recipe, facts, curve(result, read), about
        ),
    )
    return result


def curve(result: TrainingResult, read: np.ndarray) -> pd.DataFrame:
    """Loss by step: held out, and in training on average since the validation before; tokens read by then."""
    training, validation = progress.curves(result.history)
    rows = (
        validation[["step", "loss"]]
        .rename(columns={"loss": "held-out loss"})
        .drop_duplicates("step")
    )
    cut = pd.cut(training.step, rows.step, labels=rows.step[1:])
    rows["loss"] = rows.step.map(training.loss.groupby(cut, observed=True).mean().to_dict())
    rows["tokens"] = [int(read[step - 1]) if step else 0 for step in rows.step]
    return rows[["step", "tokens", "loss", "held-out loss"]]


def save(
    folder: Path,
    policy: Policy,
    held_out,
    prompts,
    recipe: Pretraining,
    facts: dict,
    points: pd.DataFrame,
    about: Path,
):
    """Write weights in 16 bit, tokenizer, curve.csv, training.json and README.md."""
    policy.backbone.to(torch.float16).save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder, save_jinja_files=False)
    written = load_policy(folder)
    facts = {"weights": sum(weight.numel() for weight in written.parameters()), **facts}
    facts["held-out loss"] = round(sft.nll(written, held_out), 4)
    facts["sha256"] = paths.sha256(folder / "model.safetensors")
    points.round(4).to_csv(folder / "curve.csv", index=False)
    (folder / "training.json").write_text(
        json.dumps(facts | {"recipe": asdict(recipe)}, indent=1) + "\n"
    )
    shown = rollouts(
        written, prompts, n=1, max_new_tokens=min(200, recipe.positions // 2), progress=False
    )
    talks = [
        "\n".join([*[turn.text for turn in group.prompt], "> " + group.responses[0].text])
        for group in shown
    ]
    lines = [f"- {name}: {value}" for name, value in facts.items()]
    (folder / "README.md").write_text(
        about.read_text().format(facts="\n".join(lines), answers="\n\n".join(talks))
    )
