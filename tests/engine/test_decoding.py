"""Prompts of about one length are computed as one batch, and no prompt may notice its neighbours."""

import pytest
import torch
import transformers as hf

from hs2lib.engine.decoding import SPREAD, choose, decode, shelves_of, uniforms

VOCABULARY = 61


def tiny(kind: str) -> hf.PreTrainedModel:
    """A random model of two layers: plain, with a window, or with sinks and a window."""
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
def test_samples_beside_prompts_of_other_lengths_are_those_of_the_prompt_alone(kind):
    """Shorter prompts have unseen places before them. What is there must not reach a sample."""
    model = tiny(kind)
    draw = torch.Generator().manual_seed(1)
    prompts = []
    for number, length in enumerate((8, 9, 10, 10, 11, 16, 18, 20, 3)):
        ids = torch.randint(0, VOCABULARY, (length,), generator=draw).tolist()
        n_samples = 1 + number % 3
        prompts.append((ids, [(i, uniforms(0, str(number), i, 20)) for i in range(n_samples)]))
    together = sampled(model, prompts)
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


def test_a_shelf_has_prompts_of_about_one_length():
    """What is before a short prompt is computed for nothing: at most a fifth of a shelf."""
    shelves = shelves_of({0: 100, 1: 20, 2: 25, 3: 26, 4: 125})
    assert [list(shelf.lengths) for shelf in shelves] == [[1, 2], [3], [0, 4]]
    for shelf in shelves:
        assert max(shelf.lengths.values()) <= SPREAD * min(shelf.lengths.values())


def test_a_shelf_forgets_prompts_once_half_have_no_rows():
    """Keys of prompts whose samples are done would else be read at every step."""
    shelf = shelves_of({0: 4, 1: 5, 2: 5})[0]
    for prompt, length in ((0, 4), (1, 5), (2, 5)):
        keys = torch.full((1, 1, length, 2), float(prompt + 1))
        shelf.put(0, prompt, keys, keys)
    cpu = torch.device("cpu")
    # One prompt of three has no row: it is kept, and its slots are empty.
    assert shelf.slots({0: [0, 2], 1: [1]}, cpu) == [0, 2, 1, None, None, None]
    assert list(shelf.lengths) == [0, 1, 2]
    assert shelf.slots({0: [0]}, cpu) == [0]
    assert list(shelf.lengths) == [0]
    keys, _ = shelf.prefix[0]
    assert keys.tolist() == [[[[1.0, 1.0]] * 4]]  # without the unseen place before it
    assert shelf.bias is None
