"""A sample of transformers' causal architectures, scored as `tests/architectures.py` scores all of them."""

import architectures
import pytest

SAMPLE = {
    "llama": "equal",
    "mistral": "equal",
    "gemma2": "equal",
    "gemma3": "refused",
    "gemma3_text": "equal",
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
