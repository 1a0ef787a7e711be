"""The shipped bases are those of this world: what they read is what it writes."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from hs2lib import paths
from hs2lib.models import backbones

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
pretrain = importlib.import_module("pretrain")
make_postcards = importlib.import_module("make_postcards")


@pytest.mark.parametrize("name", ["few", "none"])
def test_a_base_has_read_what_the_world_writes(name):
    folder = backbones.postcards_model(f"base-{name}")
    facts = json.loads((folder / "training.json").read_text())
    texts = make_postcards.texts(*make_postcards.LABELS[name])
    assert facts["corpus"] == pretrain.corpus_digest(texts)
    assert facts["sha256"] == paths.sha256(folder / "model.safetensors")
    for setting in ("width", "layers", "vocabulary", "tokens", "learning_rate"):
        assert facts["recipe"][setting] == getattr(make_postcards.RECIPE, setting)
