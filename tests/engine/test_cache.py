"""The cache: what a kill leaves, files of other settings, several processes, and results that cost money."""

import json
import multiprocessing

import pytest
from full_disk import full

from hs2lib.engine.cache import Cache


def test_rows_are_read_back_and_a_line_cut_short_is_none(tmp_path):
    """A kill inside a write leaves half a line; it counts as none, and the next row begins a line of its own."""
    file, numbers = tmp_path / "results.jsonl", {"seed": 1}
    first = Cache(file, numbers, name="results")
    first.add({"a": {"x": 0.1 + 0.2, "text": "one\u2028line"}, "b": {"x": -1e-300, "text": ""}})
    with file.open("a") as torn:
        torn.write('{"key": "c", "x"')
    second = Cache(file, numbers, name="results")
    assert second == first and second["a"]["x"] == 0.1 + 0.2
    second.add({"c": {"x": 3}})
    assert dict(Cache(file, numbers, name="results")) == {**first, "c": {"x": 3}}
    assert json.loads(file.read_text().splitlines()[0]) == {"settings": numbers}


def test_a_kill_in_the_first_write_leaves_no_rows(tmp_path):
    file = tmp_path / "results.jsonl"
    file.write_text('{"settings": {"se')
    cache = Cache(file, {"seed": 1}, name="results")
    assert not cache
    cache.add({"a": {"x": 1}})
    assert Cache(file, {"seed": 1}, name="results") == {"a": {"x": 1}}


def test_a_full_disk_is_one_error_and_costs_no_row_that_was_kept(tmp_path):
    """A part of the new row is in the file; it counts as none, and with room again it is written whole."""
    file, rows = tmp_path / "results.jsonl", {"a": {"x": 1}}
    Cache(file, {}, name="results").add(rows)
    with pytest.raises(OSError, match="File too large"), full(40):
        Cache(file, {}, name="results").add({"b": {"text": "long " * 20}})
    assert file.stat().st_size == 40 and Cache(file, {}, name="results") == rows
    Cache(file, {}, name="results").add({"b": {"x": 2}})
    assert Cache(file, {}, name="results") == rows | {"b": {"x": 2}}


def test_all_or_none_of_what_is_computed_together():
    """With one of three missing all three are computed, but the first results stay."""
    cache, calls = Cache(None, {}, name="results"), []

    def compute():
        calls.append(1)
        return [{"x": len(calls)} for _ in range(3)]

    assert cache.computed("ab", lambda: [{"x": 0}, {"x": 0}]) == [{"x": 0}, {"x": 0}]
    assert cache.computed("abc", compute) == [{"x": 0}, {"x": 0}, {"x": 1}]
    assert cache.computed("cba", compute) == [{"x": 1}, {"x": 0}, {"x": 0}] and len(calls) == 1


def test_other_settings_are_refused_and_a_folder_takes_both(tmp_path):
    file = tmp_path / "results.jsonl"
    Cache(file, {"seed": 1, "model": "m"}, name="results").add({"a": {"x": 1}})
    for changed in ({"seed": 2, "model": "m"}, {"seed": 1}):
        with pytest.raises(ValueError, match=r"of other settings, .*'seed': 1.*use another file"):
            Cache(file, changed, name="results")
    for seed in (1, 2, 1):
        Cache(tmp_path / "version 1.5", {"seed": seed}, name="scores").add({"a": {"x": seed}})
    assert len(list((tmp_path / "version 1.5").glob("scores-*.jsonl"))) == 2
    assert Cache(tmp_path / "version 1.5", {"seed": 2}, name="scores") == {"a": {"x": 2}}


def _adds(file, number):
    cache = Cache(file, {"seed": 1}, name="results")
    for i in range(200):
        cache.add({f"{number}/{i}": {"text": "x" * 500}})


def test_several_processes_add_to_one_file(tmp_path):
    file = tmp_path / "results.jsonl"
    processes = [
        multiprocessing.get_context("fork").Process(target=_adds, args=(file, n)) for n in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(Cache(file, {"seed": 1}, name="results")) == 600


def test_a_file_held_alone(tmp_path):
    """Another holder is refused; rows added since are seen, and a line cut short is taken off, not left in the way."""
    file = tmp_path / "paid.jsonl"
    cache = Cache(file, {}, name="results", check=lambda row: "key" in row)
    Cache(file, {}, name="results").add({"a": {"x": 1}})
    with file.open("a") as torn:
        torn.write('{"key": "b"')
    with cache.alone():
        assert cache == {"a": {"x": 1}}
        with (
            pytest.raises(BlockingIOError, match="another run is writing to"),
            Cache(file, {}, name="results").alone(),
        ):
            pass
        cache.add({"c": {"x": 2}})
    assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == ["a", "c"]
    file.write_text("no row\n")
    with pytest.raises(
        ValueError, match=r"paid\.jsonl, line 1: no results: 'no row'; remove the line"
    ):
        Cache(file, {}, name="results", check=lambda row: "key" in row)
    assert file.read_text() == "no row\n"


def rows_of(cache):
    return {key: row["x"] for key, row in cache.items()}


def test_rows_of_other_code_are_made_again_beside_them(tmp_path):
    """Scores by a formula that was mended since passed for scores by today's."""
    one, two = "1" * 64, "2" * 64

    def cache(by, place=tmp_path / "folder"):
        return Cache(place, {"seed": 1}, name="scores", code=by)

    cache(one).add({"a": {"x": 1}, "b": {"x": 1}})
    assert rows_of(cache(one)) == {"a": 1, "b": 1}
    (before,) = (tmp_path / "folder").iterdir()
    assert json.loads(before.read_text().splitlines()[0]) == {"settings": {"seed": 1, "code": one}}
    assert not cache(two)
    cache(two).add({"a": {"x": 2}})
    assert rows_of(cache(two)) == {"a": 2} and rows_of(cache(one)) == {"a": 1, "b": 1}
    assert len(list((tmp_path / "folder").iterdir())) == 2
    with pytest.raises(ValueError, match="of other settings"):
        cache(two, before)
