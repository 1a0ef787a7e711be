"""Models in the reference framework's format, rewritten as ours: `python profiles/nemo/rewrite.py
FOLDER OUT`.

FOLDER holds model_config.yaml and model_weights/, where every array is a folder in zarr's format 2:
`.zarray` has its shape and that of its chunks, and each chunk is a file of raw bfloat16 named by
its place, as 7.0.3. An array of layers holds all of them, one behind the other. Nothing is
unpickled: common.pt and the folders `_extra_state` (scales of 8-bit training) are never opened, and
no name that a file holds becomes a path.

Paper: silent; its models are published so: nvidia/Llama3-70B-SteerLM-RM (f736c15), -PPO-Chat
(e5873af), -DPO-Chat (6d93385), -SteerLM-Chat (0eded9d). **No real file was opened here.** What they
hold is known from the Hub's listings and small files (metadata.json: zarr; .zarray: compressor
null, bfloat16; model.rm_head.weight 9 x 8192) and from code:

    arrays       NVIDIA/Megatron-LM 1bb99f4, megatron/core/dist_checkpointing/strategies/zarr.py, 113-134
    weights      NVIDIA/NeMo 035eced, scripts/checkpoint_converters/convert_llama_nemo_to_hf.py, 140-225
    head         NVIDIA/NeMo-Aligner 032bf35, nemo_aligner/models/nlp/gpt/gpt_reward_model.py, 64-126
    its outputs  NVIDIA/NeMo-Aligner aa5b06f, examples/nlp/data/steerlm/common.py, 28-32
"""

import argparse
import json
import math
from itertools import product
from pathlib import Path

import torch
import transformers as hf
import yaml
from safetensors.torch import save_file

from hs2lib.group import ATTRIBUTES
from hs2lib.models.backbones import load_tokenizer, replace_folder
from hs2lib.models.base import STATE
from hs2lib.paths import read_json

BASE, PAD = (
    "meta-llama/Meta-Llama-3-70B",
    "<|reserved_special_token_0|>",
)  # whose tokenizer has no pad token

# Sizes in model_config.yaml, and what transformers calls them.
SIZES = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "ffn_hidden_size": "intermediate_size",
}
SIZES |= {"num_attention_heads": "num_attention_heads", "num_query_groups": "num_key_value_heads"}
SIZES |= {"max_position_embeddings": "max_position_embeddings", "layernorm_epsilon": "rms_norm_eps"}
SIZES |= {"rotary_base": "rope_theta"}

# What makes it a Llama 3, read as it is here: these values, and nothing where None stands.
LLAMA = {
    "sharded_backend": "zarr",
    "normalization": "rmsnorm",
    "activation": "fast-swiglu",
    "rotary_percentage": 1.0,
}
LLAMA |= dict.fromkeys(
    ["bias", "share_embeddings_and_output_weights", "kv_channels", "seq_len_interpolation_factor"]
)
LLAMA |= dict.fromkeys(["scale_positional_embedding", "use_avg_pool", "output_sequence"])

RAW = {
    "zarr_format": 2,
    "compressor": None,
    "filters": None,
    "order": "C",
    "dtype": "bfloat16",
}  # of an array

EMBEDDING, OUTPUT = "model.embedding.word_embeddings.weight", "model.output_layer.weight"
NORM, LAYERS = "model.decoder.final_layernorm.weight", "model.decoder.layers."
HEAD, BIAS = "model.rm_head.weight", "model.rm_head.bias"


def array(place: Path, *shape: int, layer: tuple[int, int] | None = None) -> torch.Tensor:
    """The array in a folder as bfloat16 of this shape; with `layer` (which, of how many) of an
    array [layers, *shape].

    shape: -n stands for n or more. Raises ValueError where there is none, or one that is written
    otherwise or has another shape, and where a chunk is missing or cut short.
    """
    about = read_json(place / ".zarray") or {}
    expected = shape if layer is None else (layer[1], *shape)
    whole, chunk = (
        part if isinstance(part := about.get(name), list) else [] for name in ("shape", "chunks")
    )
    sizes = len(whole) == len(chunk) == len(expected) and all(
        type(n) is int and n > 0 for n in whole + chunk
    )
    fits = sizes and all(
        n == want or n >= -want > 0 for n, want in zip(whole, expected, strict=True)
    )
    if not fits or not RAW.items() <= about.items() or (layer and chunk[0] != 1):
        raise ValueError(
            f"{place}: expected an array {expected} with {RAW}, .zarray says {about or 'nothing'}"
        )
    first, whole, chunk = (layer[:1], whole[1:], chunk[1:]) if layer else ((), whole, chunk)
    out = torch.empty(whole, dtype=torch.bfloat16)
    for at in product(*(range(math.ceil(n / c)) for n, c in zip(whole, chunk, strict=True))):
        file = place / ".".join(map(str, (*first, *at)))
        raw = bytearray(file.read_bytes() if file.is_file() else b"")
        if len(raw) != 2 * math.prod(chunk):
            raise ValueError(
                f"{file}: {len(raw):,} bytes of {2 * math.prod(chunk):,}: download this file again"
            )
        part = out[tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunk, strict=True))]
        block = torch.frombuffer(raw, dtype=torch.bfloat16).view(chunk)
        part.copy_(
            block[tuple(map(slice, part.shape))]
        )  # the last chunk of an axis may reach beyond it
    return out


def configuration(folder: Path) -> hf.LlamaConfig:
    """The Llama that a folder describes. Raises ValueError for anything else."""
    try:
        about = yaml.safe_load((folder / "model_config.yaml").read_text())
        about |= read_json(folder / "model_weights" / "metadata.json") or {}
        config = hf.LlamaConfig(
            **{name: about[own] for own, name in SIZES.items()}, dtype=torch.bfloat16
        )
    except Exception as error:  # yaml and transformers raise many kinds
        raise ValueError(
            f"{folder}: no model_config.yaml and model_weights/ (unpack a .nemo): {error!r}"
        ) from error
    if other := {
        name: about.get(name) for name, value in LLAMA.items() if (about.get(name) or None) != value
    }:
        raise ValueError(f"{folder}: only zarr arrays of a Llama 3 are read here, this has {other}")
    return config


def layer_weights(folder: Path, config: hf.LlamaConfig, at: int) -> dict[str, torch.Tensor]:
    """The weights of one layer by their names in transformers.

    linear_qkv holds, group by group, the queries of a group, its key and its value, [head, hidden]
    each; linear_fc1 the gate and then the upward projection. The norm before each of both is stored
    with it.
    """
    hidden, heads, groups = (
        config.hidden_size,
        config.num_attention_heads,
        config.num_key_value_heads,
    )
    qkv, fc1, head = "self_attention.linear_qkv.", "mlp.linear_fc1.", config.head_dim

    def read(key: str, *shape: int) -> torch.Tensor:
        return array(folder / (LAYERS + key), *shape, layer=(at, config.num_hidden_layers))

    mixed = read(qkv + "weight", (heads + 2 * groups) * head, hidden).view(groups, -1, head, hidden)
    upward = read(fc1 + "weight", 2 * config.intermediate_size, hidden).chunk(2)
    weights = {
        "self_attn.q_proj": mixed[:, :-2],
        "self_attn.k_proj": mixed[:, -2],
        "self_attn.v_proj": mixed[:, -1],
    }
    weights = {name: part.reshape(-1, hidden) for name, part in weights.items()}
    weights |= {"self_attn.o_proj": read("self_attention.linear_proj.weight", hidden, heads * head)}
    weights |= {"mlp.gate_proj": upward[0].clone(), "mlp.up_proj": upward[1].clone()}
    weights |= {"mlp.down_proj": read("mlp.linear_fc2.weight", hidden, config.intermediate_size)}
    weights |= {"input_layernorm": read(qkv + "layer_norm_weight", hidden)}
    weights |= {"post_attention_layernorm": read(fc1 + "layer_norm_weight", hidden)}
    return {f"model.layers.{at}.{name}.weight": weight for name, weight in weights.items()}


def convert(
    folder: Path, out: Path, *, tokenizer: str | Path = BASE, pad_token: str | None = PAD
) -> Path:
    """Write the model of `folder` as ours into `out`, whole or not at all, holding one layer at a
    time.

    With a head it is a reward model of the last five of nine outputs, HelpSteer2's attributes: "the
    first four are not trained or used" (its card). Paper: appendix H has nine weights, the first
    four 0. Otherwise it is a policy. Either has the reference template, which it was trained with.
    Raises ValueError where anything is not as expected.
    """
    folder, weights = Path(folder), Path(folder) / "model_weights"
    config, arrays = configuration(folder), {file.parent.name for file in weights.glob("*/.zarray")}
    if Path(out).exists():
        raise ValueError(f"{out} is there already: remove it, or name another folder")
    words, reward = load_tokenizer(tokenizer, pad_token=pad_token), bool(arrays & {HEAD, BIAS})
    config.vocab_size, config.bos_token_id, config.eos_token_id = (
        len(words),
        words.bos_token_id,
        words.eos_token_id,
    )
    config.architectures = ["LlamaModel" if reward else "LlamaForCausalLM"]
    if extra := {
        n
        for n in arrays - {EMBEDDING, OUTPUT, NORM, HEAD, BIAS}
        if LAYERS not in n or n.endswith("bias")
    }:
        raise ValueError(f"{weights}: {min(extra)} is no weight of a Llama")
    head = (
        {"weight": array(weights / HEAD, 9, config.hidden_size), "bias": array(weights / BIAS, 9)}
        if reward
        else {}
    )
    first, rows = (
        {"model.norm.weight": array(weights / NORM, config.hidden_size)},
        {"model.embed_tokens": EMBEDDING},
    )
    for name, key in (rows if reward else rows | {"lm_head": OUTPUT}).items():
        # The rows for tokens are padded to a multiple.
        first[f"{name}.weight"] = array(weights / key, -len(words), config.hidden_size)[
            : len(words)
        ].clone()

    def write(into: Path) -> None:
        files = {}
        for at in range(-1, config.num_hidden_layers):
            shard, file = (
                first if at < 0 else layer_weights(weights, config, at),
                f"model-{at + 1:05d}.safetensors",
            )
            save_file(shard, into / file, metadata={"format": "pt"})
            files |= dict.fromkeys(shard, file)
        (into / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": files})
        )
        if reward:
            save_file(
                {name: part[-5:].float() for name, part in head.items()}, into / "head.safetensors"
            )
        config.save_pretrained(into)
        words.save_pretrained(into)
        state = {
            "attributes": ATTRIBUTES if reward else [],
            "bias": True,
            "folded": None,
            "base": folder.name,
        }
        state |= dict.fromkeys(["max_tokens", "revision", "origin", "adapter"])
        (into / STATE).write_text(
            json.dumps(state | {"template": "reference", "control_text": "escape"})
        )

    return replace_folder(out, write)


def main(arguments: list[str] | None = None) -> None:
    """Command line; where the folder cannot be written, it ends with 2 and says what to do."""
    parser = argparse.ArgumentParser(
        prog="python profiles/nemo/rewrite.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "folder", type=Path, help="as downloaded: model_config.yaml and model_weights/"
    )
    parser.add_argument("out", type=Path, help="folder to write, which appears when it is whole")
    parser.add_argument(
        "--tokenizer", default=BASE, help="folder or repository (default: %(default)s)"
    )
    parser.add_argument(
        "--pad-token", default=PAD, help="a token that no text holds (default: %(default)s)"
    )
    try:
        convert(**vars(parser.parse_args(arguments)))
    except (ValueError, OSError) as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
