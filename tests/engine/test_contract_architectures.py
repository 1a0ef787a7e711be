"""A sample of transformers' causal architectures, scored as `benchmarks/architectures.py` scores all of them."""

import importlib
import json
import sys

import pytest
import transformers as hf

from hs2lib.paths import root

sys.path.insert(0, str(root() / "benchmarks"))
architectures = importlib.import_module("architectures")
sys.path.pop(0)

SAMPLE = {
    "llama": "equal",
    "mistral": "equal",
    "gemma2": "equal",
    "gemma3": "equal",
    "gpt_oss": "equal",
    "deepseek_v3": "equal",
    "qwen3_moe": "equal",
    "modernbert-decoder": "one by one",
    "mamba": "one by one",
    "bert": "refused",
}


@pytest.mark.parametrize("name", SAMPLE)
def test_no_architecture_is_scored_wrongly(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    row = architectures.examine(name)
    assert "WRONG" not in str(row) and row["policy"] == SAMPLE[name]
    assert row.get("samples", "equal") == "equal"


def test_the_committed_sweep_is_of_all_architectures_of_this_transformers_and_none_is_wrong():
    table = json.loads((root() / "reports" / "benchmarks" / "architectures.json").read_text())
    assert table["met"] and table["versions"]["transformers"] == hf.__version__
    assert set(table["architectures"]) == set(architectures.CAUSAL)
    assert "WRONG" not in str(table["architectures"])
