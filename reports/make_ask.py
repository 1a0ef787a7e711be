"""A page that asks policies of the small world in a browser, without a network: `make ask`.

    python reports/make_ask.py                                  # the base, and yours of tier demo
    python reports/make_ask.py "mine=runs/demo/08_dpo@mine/policy" "steered=FOLDER:label"

The page holds everything: weights in float16, fifty held-out prompts as tokens, the tokens' bytes,
and what the grader knows of each prompt. `ask.js` computes the answers, and grades them as
`hs2lib.world.grade` does. A policy must have the base's shape and tokens. `:label` after a folder
says that the policy reads labels.
"""

import argparse
import base64
import hashlib
import json
from pathlib import Path

import torch
from transformers.convert_slow_tokenizer import bytes_to_unicode

from hs2lib import paths
from hs2lib.engine.chat import label_string, prompt_tokens
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.policy import Policy, load_policy
from hs2lib.paper import head_weights
from hs2lib.report.templates import FOLDER
from hs2lib.world import cards, grade, marks, sets

HERE = Path(__file__).parent
N_PROMPTS = 50
SEED = 200  # of the prompts, as `evaluate.answers.held_out_prompts` has it for seed 0
LONGEST = 128  # tokens of an answer

# What is asked by default: name -> notebook of tier demo. Those of 11 and 12 read labels.
YOURS = {
    "SFT": "07_sft",
    "DPO": "08_dpo",
    "iterative DPO": "09_iterative_dpo",
    "PPO": "10_ppo",
    "SteerLM": "11_steerlm",
    "SteerLM 2.0": "12_steerlm2",
}

# The page's names of the weights -> transformers' names, in the order in which they are written.
OF_LAYER = {
    "input_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "mlp_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}


def tensors(policy: Policy) -> dict[str, torch.Tensor]:
    """The weights of a policy by the page's names, in order."""
    weights = policy.backbone.model.state_dict()
    named = {"embed": weights["embed_tokens.weight"]}
    for layer in range(policy.backbone.config.num_hidden_layers):
        for ours, theirs in OF_LAYER.items():
            named[f"{layer}.{ours}"] = weights[f"layers.{layer}.{theirs}.weight"]
    return named | {"norm": weights["norm.weight"]}


def shape(policy: Policy) -> dict:
    """What the page must know of the architecture.

    Raises ValueError for a policy that is no such model.
    """
    config = policy.backbone.config
    same_heads = config.num_key_value_heads == config.num_attention_heads
    if config.model_type != "llama" or not same_heads or not config.tie_word_embeddings:
        raise ValueError("the page knows Llama with tied embeddings and as many keys as heads only")
    return {
        "width": config.hidden_size,
        "layers": config.num_hidden_layers,
        "head": config.head_dim,
        "epsilon": config.rms_norm_eps,
        "theta": config.rope_parameters["rope_theta"],
        "tensors": [[name, tensor.numel()] for name, tensor in tensors(policy).items()],
    }


def float16(policy: Policy) -> str:
    """All weights one after the other, little-endian float16 in base64."""
    flat = torch.cat([tensor.detach().flatten().half() for tensor in tensors(policy).values()])
    return base64.b64encode(flat.numpy().astype("<f2").tobytes()).decode()


def prompt(policy: Policy, group: Group) -> dict:
    """A prompt as the page has it: its tokens, without a label and with one, and its card."""
    card = cards.card_of(group.id)
    asked = {field: card.value(field) for field in card.fields}
    low, high = (
        prompt_tokens(group.prompt, policy.tokenizer, **policy.written | {"label": label})
        for label in (label_string([level] * len(ATTRIBUTES)) for level in (0, 4))
    )
    return {
        "question": group.prompt[-1].text,
        "earlier": [turn.text for turn in group.prompt[:-1]],
        "ids": prompt_tokens(group.prompt, policy.tokenizer, **policy.written),
        "labelled": low,
        "slots": [at for at, (a, b) in enumerate(zip(low, high, strict=True)) if a != b],
        "card": {
            "name": card.name,
            "unsafe": card.is_unsafe,
            "fields": [] if card.is_unsafe else list(cards.FIELDS[card.kind]),
            "asked": {"answer": cards.REFUSAL} if card.is_unsafe else asked,
            "smallTalk": card.small_talk,
        },
    }


def content(policies: dict[str, tuple[Policy, bool]]) -> dict:
    """Everything that the page holds. policies: name -> policy, whether it reads labels."""
    first = next(iter(policies.values()))[0]
    groups = sets.groups(N_PROMPTS, SEED, split="validation")
    byte_of = {letter: chr(byte) for byte, letter in bytes_to_unicode().items()}
    vocabulary = first.tokenizer.get_vocab()
    pieces = [""] * (max(vocabulary.values()) + 1)
    for token, number in vocabulary.items():
        pieces[number] = "".join(byte_of.get(letter, "") for letter in token)
    kinds = {cards.ASIDE: "asides", cards.HEDGE: "hedges"}
    kinds |= dict.fromkeys(cards.JARGON, "jargon") | dict.fromkeys(cards.SMALL_TALK, "small_talk")
    shown = []
    for name, (policy, labelled) in policies.items():
        if shape(policy) != shape(first) or policy.tokenizer.get_vocab() != vocabulary:
            raise ValueError(f"{name} has another shape or other tokens than the first policy")
        shown.append({"name": name, "labelled": labelled, "float16": float16(policy)})
    return {
        "shape": shape(first),
        "pieces": pieces,
        "digits": [vocabulary[str(level)] for level in range(5)],
        "ends": [first.tokenizer.eos_token_id, first.ending()[-1]],
        "longest": LONGEST,
        "attributes": list(ATTRIBUTES),
        "weights": list(head_weights("goodness", ATTRIBUTES)),
        "jargonPoints": grade.JARGON_POINTS,
        "said": {"again": cards.AGAIN, "replies": [cards.REFUSAL, cards.HELP], "kinds": kinds},
        "kinds": marks.KINDS,
        "prompts": [prompt(first, group) for group in groups],
        "policies": shown,
    }


def page(policies: dict[str, tuple[Policy, bool]]) -> str:
    """The page. Its own policy lets it run its one script, and reach nothing."""
    script = (HERE / "ask.js").read_text()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(content(policies)).replace("<", "\\u003c")
    text = (HERE / "ask.html").read_text()
    css = (FOLDER / "page.css").read_text()
    for place, filled in {"CSS": css, "HASH": digest, "DATA": data, "SCRIPT": script}.items():
        text = text.replace(f"@@{place}@@", filled)
    return text


def main() -> None:
    """Command line: `make ask`."""
    parser = argparse.ArgumentParser(prog="make ask", description=__doc__.partition("\n")[0])
    parser.add_argument("policy", nargs="*", help="NAME=FOLDER, or NAME=FOLDER:label")
    named = parser.parse_args().policy
    folders = {"base": "postcards"}
    for name, notebook in YOURS.items():
        folder = paths.runs() / "demo" / notebook / "policy"
        if folder.is_dir():
            folders[name] = f"{folder}:label" if name.startswith("SteerLM") else str(folder)
    if named:
        folders = dict(one.split("=", 1) for one in named)
    policies = {}
    for name, folder in folders.items():
        where, _, label = folder.partition(":")
        policies[name] = load_policy(where), label == "label"
    file = paths.reports() / "site" / "ask.html"
    paths.write(file, page(policies))
    print(file)
    if list(folders) == ["base"]:
        print("Only the base is there: `make demo` trains the others.")


if __name__ == "__main__":
    main()
