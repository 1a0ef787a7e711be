"""Models in the reference framework's format: a tiny one, written here by the documents, is read as
it was.

No real file of this format was opened. What the writer below does is therefore written down from
the sources that `profiles/nemo/rewrite.py` names, as loops over heads and rows, and not as the
inverse of the reader's code.
"""

import importlib.util
import json
import pickle
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
import yaml

from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.models.backbones import load_tokenizer, postcards_model
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import load_reward_model
from hs2lib.paths import root

spec = importlib.util.spec_from_file_location("nemo", root() / "profiles" / "nemo" / "rewrite.py")
nemo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(nemo)

SETTINGS = {
    "num_layers": 2,
    "hidden_size": 32,
    "ffn_hidden_size": 40,
    "num_attention_heads": 4,
    "num_query_groups": 2,
}
SETTINGS |= {
    "max_position_embeddings": 512,
    "layernorm_epsilon": 1e-5,
    "rotary_base": 5e5,
    "kv_channels": None,
}
SETTINGS |= {
    "normalization": "rmsnorm",
    "activation": "fast-swiglu",
    "rotary_percentage": 1.0,
    "bias": False,
}
SETTINGS |= {"share_embeddings_and_output_weights": False, "position_embedding_type": "rope"}

GROUPS = [
    Group(
        "a",
        (Turn("user", "Name a prime."),),
        (Response("a/0", "Seven."), Response("a/1", "Nine is one.")),
    ),
    Group(
        "b",
        (Turn("user", "Hi"), Turn("assistant", "Hello."), Turn("user", "Bye")),
        (Response("b/0", ""),),
    ),
]


@pytest.fixture(scope="module")
def llama():
    """A random Llama whose weights are bfloat16 numbers, held in float32, and nine outputs with a bias."""
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    sizes |= {
        "num_hidden_layers": 2,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 5e5,
    }
    model = hf.LlamaForCausalLM(
        hf.LlamaConfig(vocab_size=len(load_tokenizer("postcards")), **sizes)
    ).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_((weight + 0.1 * torch.randn_like(weight)).bfloat16())
    return model, torch.randn(9, 32).bfloat16().float(), torch.randn(9).bfloat16().float()


def write_array(place: Path, values: np.ndarray, chunk: tuple) -> None:
    """zarr's format 2: chunks of one size, named by their place; the last ones of an axis reach beyond the array."""
    place.mkdir(parents=True)
    about = {
        "chunks": chunk,
        "compressor": None,
        "dtype": "bfloat16",
        "fill_value": None,
        "filters": None,
    }
    (place / ".zarray").write_text(
        json.dumps(about | {"order": "C", "shape": values.shape, "zarr_format": 2})
    )
    for at in product(*(range(-(-n // c)) for n, c in zip(values.shape, chunk, strict=True))):
        inside = values[tuple(slice(i * c, i * c + c) for i, c in zip(at, chunk, strict=True))]
        block = np.full(chunk, np.nan, np.float32)
        block[tuple(map(slice, inside.shape))] = inside
        (place / ".".join(map(str, at))).write_bytes(
            (block.view("<u4") >> 16).astype("<u2").tobytes()
        )


def publish(folder: Path, llama, *, reward: bool) -> Path:
    """The folder as it would be downloaded."""
    model, head, bias = llama
    weights = {name: weight.detach().numpy() for name, weight in model.state_dict().items()}
    arrays, own = {}, "model.decoder.layers."
    for at in range(2):
        of = {
            name.removeprefix(f"model.layers.{at}."): w
            for name, w in weights.items()
            if f"layers.{at}." in name
        }
        q, k, v = (
            of[f"self_attn.{x}_proj.weight"].reshape(-1, 8, 32) for x in "qkv"
        )  # [heads, 8, hidden]
        mixed = [
            q[0],
            q[1],
            k[0],
            v[0],
            q[2],
            q[3],
            k[1],
            v[1],
        ]  # two heads share a key and a value
        parts = {"self_attention.linear_qkv.weight": np.concatenate(mixed)}
        parts["mlp.linear_fc1.weight"] = np.concatenate(
            [of["mlp.gate_proj.weight"], of["mlp.up_proj.weight"]]
        )
        parts["self_attention.linear_proj.weight"] = of["self_attn.o_proj.weight"]
        parts["mlp.linear_fc2.weight"] = of["mlp.down_proj.weight"]
        parts["self_attention.linear_qkv.layer_norm_weight"] = of["input_layernorm.weight"]
        parts["mlp.linear_fc1.layer_norm_weight"] = of["post_attention_layernorm.weight"]
        for name, part in parts.items():
            arrays.setdefault(own + name, []).append(part)
    arrays = {name: np.stack(layers) for name, layers in arrays.items()}
    padding = np.zeros((100, 32), np.float32)  # rows that no token has
    arrays["model.embedding.word_embeddings.weight"] = np.concatenate(
        [weights["model.embed_tokens.weight"], padding]
    )
    arrays["model.decoder.final_layernorm.weight"] = weights["model.norm.weight"]
    if reward:
        arrays |= {"model.rm_head.weight": head.numpy(), "model.rm_head.bias": bias.numpy()}
    else:
        arrays["model.output_layer.weight"] = np.concatenate([weights["lm_head.weight"], padding])
    for name, values in arrays.items():
        first = 1 if name.startswith(own) else 9 if "rm_head" in name else 1000
        write_array(folder / "model_weights" / name, values, (first, *[12] * (values.ndim - 1)))
    about = {"sharded_backend": "zarr", "sharded_backend_version": 1, "common_backend": "torch"}
    (folder / "model_weights" / "metadata.json").write_text(json.dumps(about))
    (folder / "model_config.yaml").write_text(yaml.safe_dump(SETTINGS))
    return folder


class Bomb:
    """What a pickle may do to who opens it."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


@pytest.fixture
def folder(tmp_path, llama):
    """A published reward model, with pickles as real ones have them."""
    made = publish(tmp_path / "published", llama, reward=True)
    scales = made / "model_weights" / "model.decoder.layers.mlp.linear_fc1._extra_state"
    scales.mkdir()
    for place in (made / "model_weights" / "common.pt", scales / "shard_0_2.pt"):
        place.write_bytes(pickle.dumps(Bomb(tmp_path / "opened")))
    return made


def convert(folder: Path, out: Path) -> int:
    try:
        nemo.main(
            [
                str(folder),
                str(out),
                "--tokenizer",
                str(postcards_model("base-few")),
                "--pad-token",
                "<|endoftext|>",
            ]
        )
    except SystemExit as ended:
        return ended.code
    return 0


def test_a_policy_has_the_logits_of_the_model_that_was_written(tmp_path, llama):
    assert convert(publish(tmp_path / "published", llama, reward=False), tmp_path / "out") == 0
    policy = load_policy(tmp_path / "out")
    assert (policy.template, policy.max_tokens, policy.base) == ("reference", 512, "published")
    tokens = torch.tensor(
        [load_tokenizer("postcards")("A prime is a number, and seven is one.")["input_ids"]]
    )
    with torch.no_grad():
        ours, theirs = (model(input_ids=tokens).logits for model in (policy.backbone, llama[0]))
    assert theirs.std() > 0.1, "else equal logits say nothing"
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_a_reward_model_has_the_last_five_outputs_at_the_last_token(tmp_path, folder, llama):
    assert convert(folder, tmp_path / "out") == 0
    model, (plain, head, bias) = load_reward_model(tmp_path / "out"), llama
    assert (model.attributes, model.template) == (ATTRIBUTES, "reference")
    expected = []
    for group in model.tokenise(GROUPS):
        for sequence in group.sequences:
            with torch.no_grad():
                state = plain.model(input_ids=torch.tensor([sequence])).last_hidden_state[0, -1]
            expected.append(
                (head @ state + bias)[4:]
            )  # helpfulness stands behind Open Assistant's four
    torch.testing.assert_close(model.score(GROUPS), torch.stack(expected), atol=1e-5, rtol=0)
    assert not (tmp_path / "opened").exists(), "a pickle was opened"


LAYER = "model.decoder.layers.mlp.linear_fc2.weight"


def change(file: str, **values):
    """Changes what a JSON or YAML file says."""

    def changed(folder: Path) -> None:
        place = folder / file
        text = yaml.safe_load(place.read_text()) | values  # JSON is YAML too
        place.write_text(yaml.safe_dump(text) if place.suffix == ".yaml" else json.dumps(text))

    return changed


def remove(name: str):
    return lambda folder: [file.unlink() for file in (folder / "model_weights").glob(f"{name}")]


def cut(folder: Path) -> None:
    file = folder / "model_weights" / LAYER / "1.0.0"
    file.write_bytes(file.read_bytes()[:-2])


FAULTS = {
    "no settings": (lambda folder: (folder / "model_config.yaml").unlink(), "model_config.yaml"),
    "a size is missing": (
        lambda folder: (folder / "model_config.yaml").write_text("num_layers: 2"),
        "hidden_size",
    ),
    "other arrays": (
        change("model_weights/metadata.json", sharded_backend="torch_dist"),
        "torch_dist",
    ),
    "scaled positions": (
        change("model_config.yaml", scale_positional_embedding=True),
        "scale_positional_embedding",
    ),
    "another model": (change("model_config.yaml", ffn_hidden_size=48), "linear_fc1.weight"),
    "more layers": (change("model_config.yaml", num_layers=3), "linear_qkv.weight"),
    "fewer layers": (change("model_config.yaml", num_layers=1), "linear_qkv.weight"),
    "text for a size": (change("model_config.yaml", num_layers="../../x"), "num_hidden_layers"),
    "a compressed array": (
        change(f"model_weights/{LAYER}/.zarray", compressor={"id": "blosc"}),
        "blosc",
    ),
    "another type": (change(f"model_weights/{LAYER}/.zarray", dtype="<f4"), "<f4"),
    "a path for a size": (
        change(f"model_weights/{LAYER}/.zarray", shape=[2, "../../x", 40]),
        "../../x",
    ),
    "a path for a chunk": (
        change(f"model_weights/{LAYER}/.zarray", chunks=[1, "../../x", 12]),
        "../../x",
    ),
    "no shape": (change(f"model_weights/{LAYER}/.zarray", shape=7), LAYER),
    "no JSON": (
        lambda folder: (folder / "model_weights" / LAYER / ".zarray").write_text("{"),
        LAYER,
    ),
    "negative chunks": (change(f"model_weights/{LAYER}/.zarray", chunks=[1, -12, 12]), "-12"),
    "no array": (remove(f"{LAYER}/.zarray"), LAYER),
    "no head": (remove("model.rm_head.weight/.zarray"), "model.rm_head.weight"),
    "no bias": (remove("model.rm_head.bias/.zarray"), "model.rm_head.bias"),
    "no chunk": (remove(f"{LAYER}/1.0.0"), "1.0.0"),
    "half a chunk": (cut, "1.0.0"),
    "a weight that a Llama has not": (
        lambda folder: write_array(
            folder / "model_weights" / "model.decoder.layers.linear.bias", np.zeros((2, 2)), (1, 2)
        ),
        "linear.bias",
    ),
    "out is there": (lambda folder: (folder.parent / "out").mkdir(), "remove it"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_as_expected_is_refused_in_one_line_and_nothing_is_written(
    tmp_path, folder, capsys, fault
):
    breaks, named = FAULTS[fault]
    breaks(folder)
    before = sorted(tmp_path.iterdir())
    assert convert(folder, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and named in error and str(tmp_path) in error
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_of_the_framework_has_to_be_unpacked_first(tmp_path, capsys):
    (tmp_path / "model.nemo").write_bytes(b"a tar archive")
    assert convert(tmp_path / "model.nemo", tmp_path / "out") == 2
    assert "unpack" in capsys.readouterr().err
