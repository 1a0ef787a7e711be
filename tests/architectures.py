"""Every causal architecture of the pinned transformers, tiny and random: are our scores those of
transformers?

    python tests/architectures.py [--only llama mamba] [--seconds 60] [--dry]

Each configuration class of transformers' causal mapping is built tiny, with weights large enough to
matter and windows shorter than the sequences. `hs2lib` scores it (log-probabilities of a policy,
end states of a reward model, samples), and so does plain transformers, one sequence at a time, from
a copy that `hs2lib` never touched. Outcomes: equal (in groups), padded (equal, on padded rows),
refused (an error that says why), not built (no tiny model of it can be made or run by transformers
itself). Anything else is WRONG, and the script ends with code 1.

Each architecture has a process of its own, forked, with limits of time and memory; what is done is
kept in `runs/architectures.jsonl`, and a later call goes on with the rest. Only a call for all of
them writes reports/benchmarks/architectures.json.
"""

import argparse
import copy
import dataclasses
import multiprocessing
import re
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
import transformers as hf
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

from hs2lib import paths
from hs2lib.engine import attention, contract
from hs2lib.engine.cache import Cache
from hs2lib.engine.decoding import decode, uniforms
from hs2lib.engine.trees import pack
from hs2lib.models import backbones

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import common

VOCABULARY, MEMORY, TOLERANCE = 97, 8 * 2**30, 1e-4

# Numbers of a configuration by the names they have, made small: the first pattern that matches a
# name counts.
SMALL = {
    r"vocab_size|byte_group_vocab|^num_embeddings$": VOCABULARY,
    r"^(pad|bos|eos|cls|sep|mask|unk|decoder_start)_token_id$": 0,
    r"_token_(id|index)$|_token_ids?$": 3,
    r"^(max_position_embeddings|n_positions|n_ctx|max_seq_len|context_length|max_pos_emb|seq_length)$": 256,
    r"window|chunk|^local_attention$|index_topk$|index_block_size": 16,
    r"rope_head_dim$|^qk_.*head_dim$|^v_head_dim$|head_dim$|kv_channels|attention_head_size|d_head$|dim_head$": 8,
    r"rank$|query_pre_attn_scalar": 8,
    r"(num|n)_(key_value|kv)_heads$|^kv_n_heads$|kv_heads$": 2,
    r"num_.*heads?$|^n_heads?$|attention_heads$|^num_heads$|n_heads$": 4,
    r"experts_per_tok$|moe_top_?k$|moe_k$|top_k_experts$": 2,
    r"experts$|moe_num_experts": 4,
    r"num_shared|n_shared|zero_expert_num|n_group$|topk_group$|n_groups$": 1,
    r"^first_k_dense_replace$|num_dense_layers$": 1,
    r"num_.*layers$|^n_layers?$|^num_layers$|num_blocks$|depth$|(de|en)coder_layers$": 2,
    r"intermediate_size|ffn_dim|ffn_hidden_size|n_inner|d_inner|inner_dim|^dff$|dim_ff|mlp_dim|feed_forward": 64,
    r"d_state$|state_size$": 8,
    r"original_max_position": 32,
    r"per_layer_input$|rel_extent|max_distance|mamba_d_ssm": 16,
    r"hidden_size$|embedding_size$|^d_model$|^n_embd$|embed_dim$|^emb_dim$|embedding_dim|_dim$|lru_width": 32,
    r"image_size": 28,
    r"patch_size": 14,
}
# What some need besides, because their numbers depend on one another.
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 32}
LONGROPE |= {"short_factor": [1.0] * 4, "long_factor": [4.0, 5.0, 6.0, 7.0]}
ALSO: dict[str, dict] = {
    "codegen": {"rotary_dim": 4},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2},
    "gemma3n_text": {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "gptj": {"rotary_dim": 4},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "dots3_note": {"text_config": {"num_key_value_heads": 4}},
    "dots3_note_text": {"num_key_value_heads": 4},
    "gemma4_assistant": {
        "text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "mamba2": {"head_dim": 16},
    "phi3": {"rope_parameters": LONGROPE, "original_max_position_embeddings": 32},
    "ministral": {"head_dim": 8},
    "nemotron": {"num_key_value_heads": 2},
    "xlstm": {"chunk_size": 64},
    "zamba": {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid"] * 2},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"]},
}


def tiny_config(name: str, **overrides):
    """A tiny configuration of a model type."""
    return _shrunk(CONFIG_MAPPING[name], ALSO.get(name, {}) | overrides)


def _shrunk(kind, overrides: dict):
    values = {}
    for field in dataclasses.fields(kind):
        default = None if field.default is dataclasses.MISSING else field.default
        whole = isinstance(default, int) and not isinstance(default, bool)
        if field.name in kind.sub_configs:
            continue
        if small := next(
            (n for pattern, n in SMALL.items() if re.search(pattern, field.name)), None
        ):
            if whole and (default > small or small == 3):
                values[field.name] = small
        elif whole and re.search(
            r"^(pad|bos|eos|cls|sep|mask|unk|decoder_start)_token_id$", field.name
        ):
            values[field.name] = {"pad": 0, "bos": 1}.get(field.name[:3], 2)
    if "kv_lora_rank" in values and "num_key_value_heads" in values:
        values["num_key_value_heads"] = 4  # latent attention has a key head for each query head
    for name, sub in kind.sub_configs.items():
        if sub is hf.AutoConfig:
            sub = CONFIG_MAPPING[kind.sub_configs_defaults[name].model_type]
        values[name] = _shrunk(sub, overrides.get(name, {}))
    return kind(**{**values, **{k: v for k, v in overrides.items() if k not in kind.sub_configs}})


def tiny(config, loader):
    """A random model of a configuration in which attention, routers and biases matter."""
    torch.manual_seed(0)
    model = loader.from_config(copy.deepcopy(config), dtype=torch.float32).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point() and weight.dim() > 1:
                weight.normal_(0, weight.shape[-1] ** -0.5)
            elif weight.is_floating_point():
                weight.add_(0.1 * torch.randn_like(weight))
    return model


def groups() -> list[list[list[int]]]:
    """Three groups: short ones, some that share much, some longer than every window; other tokens than the check's."""
    rng = np.random.default_rng(1)
    draw = lambda n: rng.integers(5, VOCABULARY, n).tolist()  # noqa: E731
    short, long = draw(6), draw(60)
    return [
        [short + draw(4), short + draw(20), short],
        [long + draw(30), long[:40] + draw(30)],
        [draw(2)],
    ]


def plain_states(decoder, sequence: list[int]) -> torch.Tensor:
    """The final hidden states [T, H] of a sequence run alone by transformers."""
    return decoder(input_ids=torch.tensor([sequence]), use_cache=False).last_hidden_state[0]


def plain_log_probs(model, sequence: list[int]) -> torch.Tensor:
    """Log-probabilities [T - 1] of a sequence's tokens but the first, run alone by transformers."""
    ids = torch.tensor([sequence])  # [1, T]
    logits = model(input_ids=ids, use_cache=False).logits[0, :-1]  # [T - 1, V]
    return logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]


def share(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """How far `ours` is from `theirs`, as a share of the norm of `theirs`."""
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()


def examine(name: str, **overrides) -> dict:
    """What comes of one architecture as a policy (log-probabilities, samples) and as a reward model (end states)."""
    warnings.simplefilter("ignore")
    hf.logging.set_verbosity_error()
    out = {}
    try:
        config = tiny_config(name, **overrides)
        backbones.check_causal("it", config)
    except ValueError as error:
        if "not a causal decoder" in str(error):
            return {"policy": "refused", "reward": "refused", "why": str(error)}
        return {"policy": "not built", "reward": "not built", "why": _line(error)}
    except Exception as error:
        return {"policy": "not built", "reward": "not built", "why": _line(error)}
    for kind, loader, compare in (
        ("policy", hf.AutoModelForCausalLM, _as_policy),
        ("reward", hf.AutoModel, _as_reward),
    ):
        try:
            whole = tiny(config, loader)
            with torch.no_grad():
                plain = plain_log_probs if kind == "policy" else plain_states
                plain(copy.deepcopy(whole), groups()[0][0])
        except Exception as error:
            out[kind] = "not built"
            out[f"{kind} why"] = _line(error)
            continue
        out |= compare(whole)
    return out


def _as_policy(whole) -> dict:
    """Log-probabilities and samples."""
    model = copy.deepcopy(whole)

    def ours(some) -> torch.Tensor:
        return attention.log_probs(model, pack(some, [[0] * len(group) for group in some]))

    try:
        with torch.no_grad():
            together, apart = ours(groups()), torch.cat([ours([group]) for group in groups()])
    except (ValueError, TypeError) as error:
        return {"policy": "refused", "policy why": _line(error)}
    theirs = torch.cat([plain_log_probs(whole, s).detach() for group in groups() for s in group])
    result = _outcome("policy", model, theirs, together, apart)
    if result["policy"] != "WRONG":
        result["samples"] = _samples(model, copy.deepcopy(whole))
    return result


def _samples(model, plain) -> str:
    draws = np.random.default_rng(2).integers(5, VOCABULARY, 40).tolist()
    prompts = [(draws[:n], [(i, uniforms(0, str(n), i, 12)) for i in range(2)]) for n in (5, 40)]
    options = {"max_new_tokens": 12, "ends": lambda tokens: False, "temperature": 1.0, "top_p": 1.0}
    try:
        rows = list(decode(model, prompts, **options))
    except (ValueError, TypeError) as error:
        return f"refused: {_line(error)}"
    worst = 0.0
    for row in rows:
        theirs = plain_log_probs(plain, draws[: (5, 40)[row.prompt]] + row.tokens)[-12:].detach()
        # A nat more each, so that of log-probabilities near 0 no rounding is compared.
        worst = max(worst, share(torch.tensor(row.log_probs) - 1, theirs - 1))
    return "equal" if worst <= TOLERANCE else f"WRONG by {worst:.2%}"


def _as_reward(whole) -> dict:
    """End states."""
    model = copy.deepcopy(whole)
    try:
        with torch.no_grad():
            together = attention.end_states(model, pack(groups()))
            apart = torch.cat([attention.end_states(model, pack([group])) for group in groups()])
    except (ValueError, TypeError) as error:
        return {"reward": "refused", "reward why": _line(error)}
    with torch.no_grad():
        theirs = torch.stack([plain_states(whole, s)[-1] for group in groups() for s in group])
    return _outcome("reward", model, theirs, together, apart)


def _outcome(kind: str, model, theirs: torch.Tensor, *ours: torch.Tensor) -> dict:
    difference = float(np.max([share(x, theirs) for x in ours]))
    out = {f"{kind} difference": difference}
    if not difference <= TOLERANCE:
        return out | {kind: "WRONG"}
    return out | {kind: "equal" if contract.in_groups(model.config) else "padded"}


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"


def _child(name: str, pipe) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    try:
        pipe.send(examine(name))
    except BaseException as error:
        pipe.send(
            {
                "policy": "WRONG",
                "reward": "WRONG",
                "why": f"an error that is none of ours: {_line(error)}",
            }
        )


def limited(name: str, seconds: float) -> dict:
    """`examine` in a process of its own, ended after so many seconds."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_child, args=(name, theirs))
    child.start()
    theirs.close()
    try:
        out = ours.recv() if ours.poll(seconds) else {"why": f"took more than {seconds:g} s"}
    except EOFError:
        out = {"why": "its process ended without a word"}
    child.kill()
    child.join()
    return {"policy": "not built", "reward": "not built"} | out


def main() -> None:
    """Examine what no call before has, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=list(CAUSAL),
        metavar="TYPE",
        help="these model types, always anew",
    )
    parser.add_argument("--seconds", type=float, default=60, help="limit for one architecture")
    parser.add_argument("--dry", action="store_true", help="print, write no result")
    options = parser.parse_args()
    versions = {"torch": torch.__version__, "transformers": hf.__version__}
    kept = Cache(None if options.dry else paths.runs() / "architectures", versions, name="outcomes")
    start = time.perf_counter()
    for name in options.only:
        if name not in kept:
            kept.add({name: limited(name, options.seconds)})
            print(f"{name}: {kept[name]}", file=sys.stderr, flush=True)
    table = {name: kept[name] for name in options.only}
    counts = {kind: {} for kind in ("policy", "reward", "samples")}
    for row in table.values():
        for kind, number in counts.items():
            if kind in row:
                reason = (
                    row[kind].split(":")[0].split(" by ")[0] if kind == "samples" else row[kind]
                )
                number[reason] = number.get(reason, 0) + 1
    wrong = [
        name for name, row in table.items() if any("WRONG" in str(value) for value in row.values())
    ]
    print(counts, "wrong:", wrong or "none", file=sys.stderr)
    if not options.dry and set(options.only) == set(CAUSAL):
        common.write(
            "architectures",
            "scores of every causal architecture of transformers, ours and transformers' one by one",
            float(len(wrong)),
            "none wrong: each equal, padded, or refused with a reason (ratio: number that are wrong)",
            not wrong,
            f"largest difference over a sequence at most {TOLERANCE:g} of its norm, from an untouched copy",
            {"all": [time.perf_counter() - start]},
            packages=("torch", "transformers"),
            counts=counts,
            architectures=table,
        )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
