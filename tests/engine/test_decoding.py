"""Prompts are computed as one batch, and no prompt may notice its neighbours."""

import pytest
import torch
import transformers as hf

from hs2lib.engine.decoding import choose, decode, uniforms

VOCABULARY = 61


def tiny(kind: str) -> hf.PreTrainedModel:
    """A random model of two layers: plain, with a window, or one that does not run in groups."""
    torch.manual_seed(0)
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "initializer_range": 0.5,  # large enough that a wrong neighbour would be seen
    }
    if kind == "plain":
        config = hf.LlamaConfig(**sizes)
    elif kind == "window":
        config = hf.MistralConfig(**sizes, sliding_window=12)
    else:
        config = hf.GptOssConfig(
            **sizes, sliding_window=12, num_local_experts=2, num_experts_per_tok=1
        )
    return hf.AutoModelForCausalLM.from_config(config).eval()


def sampled(model: hf.PreTrainedModel, prompts: list, batch: int = 64) -> dict:
    """(tokens, log-probabilities) of each sample, by the prompt's tokens and the sample's index."""
    rows = decode(
        model,
        prompts,
        max_new_tokens=20,
        ends=lambda tokens: tokens[-1] < 6,  # a tenth of the vocabulary: rows leave at all times
        temperature=1.0,
        top_p=1.0,
        batch=batch,
    )
    results = {}
    for row in rows:
        results[tuple(prompts[row.prompt][0]), row.index] = (row.tokens, row.log_probs)
    return results


@pytest.mark.parametrize("kind", ["plain", "window", "sinks"])
@pytest.mark.parametrize("batch", [64, 5])
def test_samples_beside_prompts_of_other_lengths_are_those_of_the_prompt_alone(kind, batch):
    """Shorter prompts have unseen places before them. What is there must not reach a sample."""
    model = tiny(kind)
    draw = torch.Generator().manual_seed(1)
    prompts = []
    for number, length in enumerate((8, 9, 10, 10, 11, 16, 18, 20, 3)):
        ids = torch.randint(0, VOCABULARY, (length,), generator=draw).tolist()
        n_samples = 1 + number % 3
        prompts.append((ids, [(i, uniforms(0, str(number), i, 20)) for i in range(n_samples)]))
    together = sampled(model, prompts, batch)
    alone = {}
    for prompt in prompts:
        alone |= sampled(model, [prompt])
    assert together.keys() == alone.keys()
    for key, (tokens, log_probs) in alone.items():
        assert together[key][0] == tokens
        assert together[key][1] == pytest.approx(log_probs, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_log_probability_is_the_models_own_whatever_is_forbidden(temperature):
    """Of logits log 1, log 2 and log 5 the last is forbidden: the second has 2 / 8, not 2 / 3."""
    logits = torch.tensor([[1.0, 2.0, 5.0]]).log()
    forbidden = torch.tensor([False, False, True])
    token, log_prob = choose(logits, torch.tensor([0.99]), temperature, 1.0, forbidden)
    assert token.item() == 1
    assert log_prob.item() == pytest.approx(torch.tensor(2 / 8).log().item())
