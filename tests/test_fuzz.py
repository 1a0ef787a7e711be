"""A sample of the ten thousand damaged files that `python tests/fuzz.py` reads."""

import fuzz
import pytest

pytestmark = pytest.mark.slow


def test_damaged_files_are_read_set_aside_or_refused(monkeypatch, tmp_path):
    """A file that ends in a traceback tells its owner nothing."""
    # `fuzz.readers` sets these; they are given back after the test.
    for module, name in (
        (fuzz.truthfulqa, "primer"),
        (fuzz.mt_bench, "WHOLE"),
        (fuzz.arena_hard, "WHOLE"),
        (fuzz.alpaca_eval, "INSTRUCTIONS"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    ends = {seed: fuzz.outcome(seed, tmp_path)[1] for seed in range(500)}
    assert set(ends.values()) == {"read", "set aside", "refused"}, ends


def test_a_seed_gives_the_same_file_again(tmp_path):
    """So that a failure can be looked at."""
    first = fuzz.mutant(5, tmp_path)[1].read_bytes()
    assert fuzz.mutant(5, tmp_path)[1].read_bytes() == first
