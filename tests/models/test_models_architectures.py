"""What a user may bring: classifiers with several outputs, unequal widths."""

import pytest
import torch
import transformers as hf

from hs2lib.group import Group, Response, Turn
from hs2lib.models import backbones
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel, load_reward_model

GROUPS = [
    Group(
        "a",
        (Turn("user", "Name a prime."),),
        (Response("a/0", "Seven."), Response("a/1", "Nine is a prime. " * 9)),
    ),
    Group("b", (Turn("user", "Hi"),), (Response("b/0", "Hello."),)),
]
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
SIZES |= {
    "num_key_value_heads": 2,
    "vocab_size": backbones.TINY,
    "initializer_range": 0.2,
    "pad_token_id": 0,
}
SIZES |= {"bos_token_id": 1, "eos_token_id": 2, "head_dim": 8}


def saved(folder, loader, name, **config):
    """A random model in a folder, with the tiny tokenizer."""
    torch.manual_seed(0)
    model = loader.from_config(hf.AutoConfig.for_model(name, **config)).eval()
    model.save_pretrained(folder)
    backbones.load_tokenizer("tiny").save_pretrained(folder)
    return model


def one_by_one(model, run):
    """Rows of run(ids [1, T]) for each response as the model writes it."""
    with torch.no_grad():
        return torch.stack(
            [run(torch.tensor([s])) for group in model.tokenise(GROUPS) for s in group.sequences]
        )


def test_a_classifier_with_several_outputs_scores_as_transformers_does(tmp_path):
    names = {0: "helpfulness", 1: "safety", 2: "style"}
    plain = saved(
        tmp_path,
        hf.AutoModelForSequenceClassification,
        "qwen2",
        **SIZES,
        num_labels=3,
        id2label=names,
    )
    model = load_reward_model(tmp_path)
    assert model.attributes == ("helpfulness", "safety", "style")
    torch.testing.assert_close(
        model.score(GROUPS), one_by_one(model, lambda ids: plain(ids).logits[0])
    )


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_an_encoder_s_classifier_is_refused(tmp_path, name):
    """Its score is read where a decoder's text begins, and its last token sees no whole text."""
    sizes = {k: v for k, v in SIZES.items() if k not in ("num_key_value_heads", "head_dim")}
    saved(tmp_path, hf.AutoModelForSequenceClassification, name, **sizes, num_labels=1)
    with pytest.raises(ValueError, match=f"is a {name} model, not a causal decoder"):
        load_reward_model(tmp_path)


def test_a_classifier_whose_score_is_more_than_its_head_is_refused(tmp_path, monkeypatch):
    saved(tmp_path, hf.AutoModelForSequenceClassification, "llama", **SIZES, num_labels=1)
    plain = hf.LlamaForSequenceClassification.forward

    def scaled(self, *args, **options):
        out = plain(self, *args, **options)
        out.logits = out.logits * 1.01
        return out

    monkeypatch.setattr(hf.LlamaForSequenceClassification, "forward", scaled)
    with pytest.raises(
        ValueError, match=r"another than that of its head on the last token's state \(by 0\.99%\)"
    ):
        load_reward_model(tmp_path)


def test_a_model_that_sees_is_refused(tmp_path):
    """Its text model alone is one that transformers writes."""
    eye = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = hf.Gemma3Config(text_config=SIZES, vision_config=eye)
    config.save_pretrained(tmp_path)
    for load in (load_policy, load_reward_model):
        with pytest.raises(ValueError, match="a gemma3 model, not a causal decoder of text alone"):
            load(tmp_path)


def test_a_head_is_as_wide_as_the_states(tmp_path):
    """OPT-350m projects its states to half their width."""
    sizes = {
        k: v
        for k, v in SIZES.items()
        if k not in ("head_dim", "num_key_value_heads", "initializer_range")
    }
    saved(
        tmp_path,
        hf.AutoModelForCausalLM,
        "opt",
        **sizes,
        ffn_dim=64,
        word_embed_proj_dim=16,
        init_std=0.2,
    )
    model = RewardModel.new(tmp_path)
    assert model.head.in_features == 16
    theirs = one_by_one(
        model, lambda ids: model.head(hf.AutoModel.from_pretrained(tmp_path)(ids)[0][0, -1])
    )
    torch.testing.assert_close(model.score(GROUPS), theirs, atol=1e-5, rtol=1e-4)
