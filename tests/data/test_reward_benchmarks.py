"""Questions of RewardBench 2, RM-Bench and JudgeBench as groups: every field, one bad row of each kind, Hub and folder."""

import json
import os

import httpx2
import numpy as np
import pandas as pd
import pytest
from hub_server import asked

from hs2lib.data import load as loading
from hs2lib.data import reward_benchmarks
from hs2lib.data.rows import DataError
from hs2lib.names import REWARD_BENCHMARKS
from hs2lib.world import pairs as generated_pairs
from hs2lib.world import sets
from hs2lib.world.grade import true_goodness

MIRROR = os.environ.get("HS2_DATA_DIR")
needs_mirror = pytest.mark.skipif(
    not MIRROR, reason="HS2_DATA_DIR is not set: the mirror of public data is not here"
)

FOUR = {
    "id": "7",
    "prompt": "Two and two?",
    "chosen": ["Four."],
    "rejected": ["Five.", "", "Three."],
    "num_correct": 1,
    "num_incorrect": 3,
    "total_completions": 4,
    "models": ["a", "b", "c", "d"],
    "subset": "Math",
    "additional_metadata": None,
}
REF = FOUR | {"id": "ref:0", "subset": "Ties", "rejected": ["x", "y"]}
TIED = REF | {"id": "tied:0", "chosen": ["Red.", "Blue."], "num_correct": 2}

STYLED = {
    "id": 3,
    "prompt": "Name a colour.",
    "chosen": ["Red.", "Red is one.", "**Red**"],
    "rejected": ["Dog.", "A dog is one.", "**Dog**"],
    "subset": "alpacaeval",
    "error": "A dog is no colour.",
}

PAIR = {
    "pair_id": "p",
    "original_id": "9",
    "source": "mmlu-pro-law",
    "question": "Which?",
    "response_model": "gpt-4o-2024-05-13",
    "response_A": "(A)",
    "response_B": "(B)",
    "label": "B>A",
}

PLACES = {
    "RewardBench 2": "rewardbench_2/data/test-00000-of-00001.parquet",
    "RM-Bench": "rm_bench/chat_filtered.json",
    "JudgeBench": "judgebench/gpt-4o-2024-05-13.jsonl",
}


def write(folder, name, rows, place=""):
    """Rows where a folder has them: Parquet, a JSON array, or JSON Lines."""
    path = folder / (place or PLACES[name])
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def texts(group):
    return [(answer.text, answer.labels[0]) for answer in group.responses]


def test_rewardbench_2_from_a_folder(tmp_path):
    """One right answer of four, the empty one too; the two questions of Ties are linked; a part is never called whole."""
    write(tmp_path, "RewardBench 2", [FOUR, REF, TIED])
    benchmark = reward_benchmarks.load("RewardBench 2", "folder", tmp_path)
    first, ref, tied = benchmark.groups
    assert first.id == "Math/7" and first.prompt[-1].text == "Two and two?"
    assert texts(first) == [("Four.", 1), ("Five.", 0), ("", 0), ("Three.", 0)]
    assert first.attributes == ("right",)
    assert texts(tied) == [("Red.", 1), ("Blue.", 1), ("x", 0), ("y", 0)]
    assert benchmark.parts == ("Math", "Ties", "Ties")
    assert benchmark.clusters.tolist() == [0, 1, 1] and ref.id == "Ties/ref:0"
    assert benchmark.title == "partial RewardBench 2 (3 of 1,865 questions)"
    assert [marks.tolist() for marks in benchmark.right][1] == [True, False, False]
    assert not benchmark.complete and sum(benchmark.whole.values()) == 1865


def test_rm_bench_from_a_folder_without_a_domain(tmp_path):
    """Six answers, the right ones first, concise to rich; the file says the domain; an absent domain is named."""
    write(tmp_path, "RM-Bench", [STYLED])
    benchmark = reward_benchmarks.load("RM-Bench", "folder", tmp_path)
    (group,) = benchmark.groups
    assert group.id == "chat/3" and benchmark.parts == ("chat",)
    assert [answer.text for answer in group.responses] == STYLED["chosen"] + STYLED["rejected"]
    assert [answer.labels[0] for answer in group.responses] == [1, 1, 1, 0, 0, 0]
    chosen, rejected = reward_benchmarks.styled(benchmark, np.arange(6))
    assert chosen.tolist() == [[0, 1, 2]] and rejected.tolist() == [[3, 4, 5]]
    assert benchmark.absent == ("math", "code", "safety-refuse", "safety-response")
    assert "without math, code" in benchmark.title
    absent = [place for place, digest in benchmark.read.items() if not digest]
    assert any("math_filtered.json" in place for place in absent), "it would be read if it came"


def test_judgebench_from_a_folder(tmp_path):
    write(tmp_path, "JudgeBench", [PAIR, PAIR | {"pair_id": "q", "source": "livecodebench"}])
    benchmark = reward_benchmarks.load("JudgeBench", "folder", tmp_path)
    assert benchmark.parts == ("knowledge", "coding")
    assert texts(benchmark.groups[0]) == [("(A)", 0), ("(B)", 1)]
    assert benchmark.clusters.tolist() == [0, 0], "one question asked twice is drawn once"
    with pytest.raises(DataError, match=r"claude-3-5-sonnet-20240620\.jsonl"):
        reward_benchmarks.load("JudgeBench", "folder", tmp_path, answered_by="claude")


@pytest.mark.parametrize(
    ("name", "row", "place", "says"),
    [
        ("RewardBench 2", FOUR | {"num_correct": 2}, "num_correct", "it says 2, and chosen has 1 answers"),
        ("RewardBench 2", FOUR | {"rejected": ["a", "b"]}, "chosen", "1 right answers of 3"),
        ("RewardBench 2", FOUR | {"subset": "Chat"}, "subset", "'Factuality', 'Precise IF'"),
        ("RewardBench 2", FOUR | {"prompt": " "}, "prompt", "text that can be seen"),
        ("RewardBench 2", REF | {"id": "12"}, "id", "is called ref:n or tied:n"),
        ("RewardBench 2", TIED | {"id": "ref:1"}, "chosen", "2 right answers of a question called ref"),
        ("RewardBench 2", REF | {"id": "tied:1"}, "chosen", "1 right answers of a question called tied"),
        ("RM-Bench", STYLED | {"chosen": ["a", "b"]}, "chosen", "three answers: concise, detailed, markdown"),
        ("RM-Bench", STYLED | {"rejected": "a"}, "rejected", "three answers"),
        ("RM-Bench", STYLED | {"prompt": None}, "prompt", "text that can be seen"),
        ("JudgeBench", PAIR | {"label": "A=B"}, "label", "'A>B' or 'B>A'"),
        ("JudgeBench", PAIR | {"source": "gsm8k"}, "source", "sources begin with mmlu-pro, livebench"),
        ("JudgeBench", PAIR | {"response_B": ""}, "response_B", "text that can be seen"),
        ("JudgeBench", {key: PAIR[key] for key in PAIR if key != "question"}, "question", "the column is missing"),
    ],
)  # fmt: skip
def test_a_bad_row_is_one_clear_error(tmp_path, name, row, place, says):
    """File, line, field, what arrived, the fix; and no question of the file is used without the others."""
    good = {
        "RewardBench 2": FOUR | {"id": "0"},
        "RM-Bench": STYLED | {"id": 0},
        "JudgeBench": PAIR | {"pair_id": "0"},
    }
    path = write(tmp_path, name, [good[name], row])
    with pytest.raises(DataError) as info:
        reward_benchmarks.load(name, "folder", tmp_path)
    message = str(info.value)
    assert message.startswith(f"{path}, line 2, field '{place}") and says in message
    assert "Fix: " in message and "\n" not in message


def test_an_id_that_comes_twice_is_refused(tmp_path):
    path = write(tmp_path, "RM-Bench", [STYLED, STYLED | {"prompt": "Another."}])
    with pytest.raises(DataError, match=f"{path.name}, line 2, field 'id': the id chat/3 a second"):
        reward_benchmarks.load("RM-Bench", "folder", tmp_path)


def test_nothing_there_says_what_was_looked_for(tmp_path):
    with pytest.raises(
        DataError, match=r"RewardBench 2 is not in this folder; looked for .*hf download"
    ):
        reward_benchmarks.load("RewardBench 2", "folder", tmp_path)
    with pytest.raises(DataError, match=r"RM-Bench \(chat\) is not in this folder.*source='hub'"):
        reward_benchmarks.load("RM-Bench", "folder", tmp_path)


def test_rewardbench_2_from_the_hub(tmp_path):
    """At the pinned commit, through huggingface_hub's own client, from a server on loopback."""
    spec = reward_benchmarks.SETS["RewardBench 2"]
    hub = tmp_path / "hub"
    write(hub / spec.repo, "RewardBench 2", [FOUR, REF, TIED], spec.hub["both"][0])
    seen = []
    with asked(hub, tmp_path / "home", seen):
        benchmark = reward_benchmarks.load("RewardBench 2", "hub")
    assert len(benchmark) == 3
    assert (
        benchmark.source
        == "RewardBench 2, allenai/reward-bench-2@7ff0885 data/test-00000-of-00001.parquet"
    )
    assert any(spec.revision in request for request in seen)


def test_rm_bench_and_judgebench_from_github(tmp_path, monkeypatch):
    """Every domain at the pinned commit; names of files with = and , in them too."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    asked_for = []

    def get(url, **options):
        asked_for.append(url)
        rows = json.dumps([STYLED]) if "RM-Bench" in url else json.dumps(PAIR)
        return httpx2.Response(200, text=rows, request=httpx2.Request("GET", url))

    monkeypatch.setattr(loading.httpx2, "get", get)
    benchmark = reward_benchmarks.load("RM-Bench", "hub")
    assert benchmark.counts == dict.fromkeys(reward_benchmarks.SIZES["RM-Bench"], 1)
    assert not benchmark.absent and len(asked_for) == 5
    pairs = reward_benchmarks.load("JudgeBench", "hub", answered_by="both")
    assert len(pairs) == 2 and "e2c52c284e735e139b3daa61c206ee208f36c461" in asked_for[-1]
    assert "@e2c52c2 data/dataset=judgebench,response_model=claude" in pairs.source


def test_the_first_questions_of_each_part_keep_the_pairs_of_ties_whole(tmp_path):
    other = [row | {"id": row["id"].replace("0", "1")} for row in (REF, TIED)]
    rows = [FOUR, FOUR | {"id": "8"}, REF, other[0], TIED, other[1]]
    write(tmp_path, "RewardBench 2", rows)
    benchmark = reward_benchmarks.load("RewardBench 2", "folder", tmp_path)
    first = benchmark.first(1)
    assert [group.id for group in first.groups] == ["Math/7", "Ties/ref:0", "Ties/tied:0"]
    assert first.source.endswith("the first 1 questions of each part")
    assert benchmark.first(0) is benchmark and benchmark.first(9) is benchmark


def test_unknown_names_are_named():
    for call in (
        lambda: reward_benchmarks.load("RewardBench", "hub"),
        lambda: reward_benchmarks.load("RM-Bench", "web"),
        lambda: reward_benchmarks.load("JudgeBench", "hub", answered_by="o1"),
        lambda: reward_benchmarks.load_outputs("o1", "hub"),
    ):
        with pytest.raises(ValueError, match=r"unknown .* there are: "):
            call()


@pytest.mark.parametrize("name", REWARD_BENCHMARKS)
def test_generated_questions_have_the_form_of_the_benchmark_and_known_answers(name):
    """By the grader every right answer is better than every wrong one; the same seed gives the same texts."""
    benchmark = reward_benchmarks.load(name, "postcards", n_per_part=3)
    assert benchmark.generated and benchmark.title == f"generated questions in the form of {name}"
    expected = dict.fromkeys(reward_benchmarks.SIZES[name], 3)
    if "Ties" in expected:
        expected["Ties"] = 6
    assert benchmark.counts == expected
    assert sets.is_generated(benchmark.groups)
    for group, marks in zip(benchmark.groups, benchmark.right, strict=True):
        truth = true_goodness(group)
        assert truth[marks].min() > truth[~marks].max(), group.id
        assert len({answer.text for answer in group.responses}) == len(group.responses), group.id
    again = reward_benchmarks.load(name, "postcards", n_per_part=3)
    assert again.groups == benchmark.groups
    other = reward_benchmarks.load(name, "postcards", n_per_part=3, seed=1)
    assert other.groups != benchmark.groups


def test_the_styles_of_generated_answers_grow_in_length():
    benchmark = reward_benchmarks.load("RM-Bench", "postcards", n_per_part=4)
    for group in benchmark.groups:
        lengths = [len(answer.text) for answer in group.responses]
        assert lengths[0] < lengths[1] < lengths[2] and lengths[3] < lengths[4] < lengths[5]


def test_generated_questions_want_a_number():
    with pytest.raises(ValueError, match="n_per_part is at least 1, got 0"):
        generated_pairs.questions("JudgeBench", 0)


@needs_mirror
def test_the_real_rows():
    """Every real row at hand is read, and counts are those of the benchmarks' own papers."""
    rm = reward_benchmarks.load("RM-Bench", "folder")
    assert rm.counts == {
        "chat": 129,
        "math": 0,
        "code": 228,
        "safety-refuse": 284,
        "safety-response": 157,
    }
    judge = reward_benchmarks.load("JudgeBench", "folder")
    assert judge.complete and judge.title == "JudgeBench" and len(judge) == 350
    for answered_by, sizes in reward_benchmarks.OTHER_PAIRS.items():
        others = reward_benchmarks.load("JudgeBench", "folder", answered_by=answered_by)
        assert others.counts == sizes and not others.complete and not others.partial
