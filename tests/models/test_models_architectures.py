"""What a user may bring: classifiers with several outputs, text models of multimodal ones, unequal widths."""

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


def multimodal(folder, name):
    config = {
        "text_config": SIZES,
        "image_token_index": 9,
        "boi_token_index": 10,
        "eoi_token_index": 11,
    }
    config |= {
        "image_token_id": 9,
        "video_token_id": 10,
        "vision_start_token_id": 11,
        "vision_end_token_id": 12,
    }
    if name == "gemma3":
        eye = {
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
        }
        config |= {
            "mm_tokens_per_image": 4,
            "vision_config": eye | {"image_size": 28, "patch_size": 14},
        }
    else:
        rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
        config |= {
            "vision_config": {
                "depth": 1,
                "embed_dim": 16,
                "hidden_size": 32,
                "num_heads": 2,
                "mlp_ratio": 2,
            }
        }
        config["text_config"] = SIZES | {"rope_parameters": rope}
    return saved(folder, hf.AutoModelForImageTextToText, name, **config)


@pytest.mark.parametrize("name", ["gemma3", "qwen2_vl"])
def test_of_a_multimodal_model_the_text_model_is_scored(tmp_path, name):
    plain = multimodal(tmp_path / "whole", name)
    model = RewardModel.new(tmp_path / "whole")
    assert type(model.backbone).__name__.endswith("TextModel") and model.max_tokens
    theirs = one_by_one(
        model, lambda ids: model.head(plain.model(input_ids=ids).last_hidden_state[0, -1])
    )
    torch.testing.assert_close(model.score(GROUPS), theirs, atol=1e-5, rtol=1e-4)
    again = load_reward_model(model.save(tmp_path / "ours"))
    torch.testing.assert_close(again.score(GROUPS), model.score(GROUPS), atol=0, rtol=0)


def test_a_policy_of_a_multimodal_model_is_its_causal_text_model(tmp_path):
    plain = multimodal(tmp_path / "gemma", "gemma3")
    policy = load_policy(tmp_path / "gemma")
    assert type(policy.backbone) is hf.Gemma3ForCausalLM
    (tokens,) = policy.tokenise(GROUPS[1:])
    ids, start = torch.tensor([tokens.sequences[0]]), tokens.starts[0]
    with torch.no_grad():
        each = (
            plain(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])
        )  # [T - 1, 1]
    total, _ = policy.log_probs(GROUPS[1:])
    torch.testing.assert_close(total[0], each[start - 1 :].sum(), rtol=1e-4, atol=1e-4)
    again = load_policy(policy.save(tmp_path / "policy"))
    torch.testing.assert_close(again.log_probs(GROUPS[1:])[0], total, atol=0, rtol=0)
    multimodal(tmp_path / "qwen", "qwen2_vl")
    with pytest.raises(ValueError, match="no causal model of the text alone of qwen2_vl"):
        load_policy(tmp_path / "qwen")


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
