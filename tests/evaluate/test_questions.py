"""Answers: a policy's turn by turn, those of public files, and where files come from."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch

from hs2lib import paths
from hs2lib.data import load as data
from hs2lib.data.rows import DataError
from hs2lib.engine import decoding
from hs2lib.engine.chat import label_string
from hs2lib.evaluate import alpaca_eval, arena_hard, mt_bench
from hs2lib.evaluate.grading import rewards
from hs2lib.evaluate.questions import FILES, Questions, characters, generate, read, save
from hs2lib.group import Group, Response, Turn
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts


def question(id, *turns):
    return Group(id, tuple(Turn("user", text) for text in turns), ())


def texts(answers):
    """The responses to each question, by its id."""
    of = {}
    for answer in answers:
        of.setdefault(answer.id.rpartition("/")[0], []).append(answer.responses[0].text)
    return of


QUESTIONS = Questions(
    "MT-Bench",
    tuple(question(str(i), f"{i} is" + " this" * i, f"and {i} more") for i in range(4)),
    "by hand",
    80,
    categories={str(i): "ab"[i % 2] for i in range(4)},
)
HOW = dict(max_new_tokens=8, progress=False)


@pytest.fixture(scope="module")
def policy():
    """A random model, with larger weights than it begins with: those give one token over and over."""
    policy, generator = load_policy("tiny"), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in policy.parameters():
            p += 0.3 * torch.randn(p.shape, generator=generator)
    return policy


@pytest.fixture(scope="module")
def made(policy):
    return generate(policy, QUESTIONS, **HOW)


# Files of questions

# The rows of a file of questions: one, another with its id, another with its text.
ROWS = {
    mt_bench: [(81, "math", ["a", "b"]), (81, "math", ["c", "d"]), (82, "math", ["a", "b"])],
    arena_hard: [("x", "c", "a"), ("x", "c", "b"), ("y", "c", "a")],
    alpaca_eval: [(1, "c", "a"), (1, "c", "b"), (2, "c", "a")],
}
COLUMNS = {mt_bench: ("question_id", "category", "turns"), arena_hard: ("uid", "cluster", "prompt")}
COLUMNS[alpaca_eval] = ("i", "dataset", "instruction")
FOLDERS = {
    mt_bench: "mt_bench/question",
    arena_hard: "arena_hard/question",
    alpaca_eval: "alpaca_eval/instructions",
}


@pytest.mark.parametrize("benchmark", ROWS, ids=FOLDERS.values())
def test_a_question_that_comes_twice_is_refused(tmp_path, benchmark):
    """Under its id or another: in place of one that is lost it would count twice, under the benchmark's whole name."""
    file = tmp_path / f"{FOLDERS[benchmark]}.jsonl"
    file.parent.mkdir()
    one, *others = [dict(zip(COLUMNS[benchmark], row, strict=True)) for row in ROWS[benchmark]]
    for other in others:
        file.write_text(f"{json.dumps(one)}\n{json.dumps(other)}\n")
        with pytest.raises(DataError, match=r"line 2: the question of line 1 again\. Fix: take "):
            benchmark.load("folder", tmp_path)


# A policy's answers


def test_greedy_and_each_turn_after_its_own_earlier_ones(policy, made):
    """Against transformers' own greedy `generate` on the conversation written by the chat template."""
    tokenizer, backbone = policy.tokenizer, policy.backbone
    for asked in QUESTIONS.groups:
        conversation = []
        for turn, text in zip(asked.prompt, texts(made)[asked.id], strict=True):
            conversation.append({"role": "user", "content": turn.text})
            prompt = tokenizer.apply_chat_template(
                conversation, add_generation_prompt=True, tokenize=False
            )
            ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")
            with torch.no_grad():
                out = backbone.generate(**ids, max_new_tokens=8, do_sample=False, pad_token_id=0)
            expected = tokenizer.decode(
                out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True
            )
            assert text == expected
            conversation.append({"role": "assistant", "content": text})
    assert len({answer.responses[0].text for answer in made}) >= 6, (
        "answers differ: a test that can fail"
    )
    assert all("greedy, at most 8 tokens" in answer.source for answer in made)


def test_lengths_and_what_was_cut(made):
    assert characters(made).tolist() == [len(text) for of in texts(made).values() for text in of]
    assert [answer.id for answer in made] == [f"{i}/{turn}" for i in range(4) for turn in (1, 2)]
    cut = sum(not answer.responses[0].finished for answer in made)
    assert cut >= 6, "a random model ends its turn by chance only"


def test_killed_and_resumed_gives_the_same(policy, made, tmp_path, monkeypatch):
    """Killed every few tokens, in either turn: nothing is computed twice and the answers are those of one run."""
    real, kills = decoding.choose, 0
    while True:
        calls = iter(range(20))

        def dies(*arguments, calls=calls, **options):
            if next(calls, None) is None:
                raise InterruptedError
            return real(*arguments, **options)

        monkeypatch.setattr(decoding, "choose", dies)
        try:
            answers = generate(policy, QUESTIONS, file=tmp_path / "samples.jsonl", batch=2, **HOW)
            break
        except InterruptedError:
            kills += 1
    assert kills >= 1 and texts(answers) == texts(made)
    monkeypatch.setattr(decoding, "choose", None)
    assert generate(policy, QUESTIONS, file=tmp_path / "samples.jsonl", **HOW) == answers
    # A subset is part of the whole: its answers are there already.
    some = QUESTIONS.subset(2)
    again = generate(policy, some, file=tmp_path / "samples.jsonl", **HOW)
    assert set(again) < set(answers) and len(again) == 4


def test_a_label_opens_every_turn(policy):
    """SteerLM's label goes to the sampler, for each turn; the conversation of the second turn holds no label."""
    label = label_string((4, 4, 4, 2, 2))
    answers = generate(policy, QUESTIONS, label=label, **HOW)
    second = answers[1::2]
    expected = rollouts(policy, second, n=1, temperature=0, label=label, **HOW)
    assert [g.responses[0].text for g in expected] == [g.responses[0].text for g in second]
    assert not any("helpfulness" in turn.text for group in second for turn in group.prompt)
    assert answers[0].source.endswith(f"label {label}")


def test_one_turn_is_asked_where_there_is_one(policy):
    mixed = Questions(
        "Arena Hard", (question("a", "only"), question("b", "this", "and that")), "", 500
    )
    assert [answer.id for answer in generate(policy, mixed, **HOW)] == ["a/1", "b/1", "b/2"]


def test_a_question_that_leaves_no_room_is_named(policy):
    long = Questions("Arena Hard", (question("far-too-long", "word " * 10_000),), "", 500)
    with pytest.raises(ValueError, match=r"group far-too-long/1: .* no older turn left to drop"):
        generate(policy, long, **HOW)


# Files of answers


def test_saved_and_read_again_is_the_same(made, tmp_path):
    file = save(tmp_path / "answers" / "tiny.jsonl", "tiny", made)
    again = read(file, QUESTIONS)
    for ours, theirs in zip(made, again, strict=True):
        assert (ours.id, ours.prompt, ours.responses[0].text) == (
            theirs.id,
            theirs.prompt,
            theirs.responses[0].text,
        )
        assert theirs.source.startswith("tiny, tiny.jsonl (sha256 ")
    assert list(file.parent.iterdir()) == [file]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows[0]["question_id"] == 0 and rows[0]["choices"][0]["turns"] == texts(made)["0"]
    assert rows[0]["model_id"] == "tiny"
    before = file.read_bytes()
    assert save(file, "tiny", made).read_bytes() == before


def test_a_number_with_a_zero_in_front_stays_an_id(tmp_path):
    """Question 007 was written as 7, and reading it again found no answer."""
    asked = Questions("MT-Bench", (question("007", "Who?"), question("8", "Why?")), "mine", 2)
    answers = tuple(
        replace(group, id=f"{group.id}/1", responses=(Response(group.id, "I."),))
        for group in asked.groups
    )
    assert texts(read(save(tmp_path / "m.jsonl", "m", answers), asked)) == texts(answers)


def test_faulty_answers_are_named(tmp_path):
    file, good = (
        tmp_path / "a.jsonl",
        {"question_id": 0, "model_id": "m", "choices": [{"turns": ["a", "b"]}]},
    )
    one = replace(QUESTIONS, groups=QUESTIONS.groups[:1])
    for wrong, match in (
        ([good | {"choices": []}], r"a\.jsonl, line 1: no answer as FastChat"),
        ([good | {"choices": [{"turns": ["a", 2]}]}], "line 1: no answer as FastChat"),
        (
            [{"uid": "0", "model": "m", "messages": [{"role": "assistant"}]}],
            "line 1: no answer as FastChat",
        ),
        ([{k: v for k, v in good.items() if k != "model_id"}], "line 1: no answer as FastChat"),
        ([good | {"choices": [{"turns": "ab"}]}], "line 1: .*1 responses to its 2 turns"),
        (
            [good | {"choices": [{"turns": ["a"]}]}],
            "line 1: .* question 0, or 1 responses to its 2 turns",
        ),
        ([good, good], "line 2: a second answer to question 0"),
        ([good | {"question_id": 9}], "no answer to 1 of 1 questions, 0 among them"),
    ):
        file.write_text("".join(json.dumps(row) + "\n" for row in wrong))
        with pytest.raises(DataError, match=match):
            read(file, one)
    file.write_text(
        "".join(json.dumps(good | {"question_id": i, "model_id": f"m{i}"}) + "\n" for i in range(4))
    )
    with pytest.raises(DataError, match=r"answers of several models: m0"):
        read(file, QUESTIONS)
    assert texts(read(file, one)) == {"0": ["a", "b"]}, "answers to other questions are passed over"


def test_conversations_by_hand(made):
    """Turn 2 stands after turn 1 and its answer; a reward model sees each response after what came before it."""
    first, second = made[6:]
    assert first.id == "3/1" and first.prompt == (Turn("user", "3 is this this this"),)
    assert second.id == "3/2" and second.prompt == (
        Turn("user", "3 is this this this"),
        Turn("assistant", first.responses[0].text),
        Turn("user", "and 3 more"),
    )
    assert len(made) == 8 and [len(answer.responses) for answer in made] == [1] * 8


# What a reward model says


def test_a_reward_models_scores_are_weighed_and_named_by_the_model(made):
    """A number of a reward model must not pass for a judge's."""
    model = RewardModel.new("tiny").eval()
    scores = rewards(model, made)
    expected = model.score(made).numpy()[:, :3] @ np.array([0.65, 0.8, 0.45])
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-6)
    assert scores.index.tolist() == [answer.id for answer in made]
    assert model.fingerprint() in scores.name


# Where files come from


@contextmanager
def web(folder):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    ).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def test_public_files_are_fetched_once_at_their_commit(tmp_path, monkeypatch):
    """From a server that has GitHub's addresses; then it is gone, and the file is still there."""
    file, runs = FILES["MT-Bench references/gpt-4-0125-preview"], tmp_path / "runs"
    there = tmp_path / "web" / file.repo / file.revision / file.hub["both"][0]
    there.parent.mkdir(parents=True)
    there.write_text('{"question_id": 101}\n')
    monkeypatch.setenv("HS2_RUNS", str(runs))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with web(tmp_path / "web") as (url, asked):
        monkeypatch.setattr(data, "RAW", url)
        for _ in range(2):
            path, source, read = data.locate(file, "hub")
            assert list(read.values()) == [paths.sha256(path)]
            assert path.read_bytes() == there.read_bytes() and runs in path.parents
            assert source == f"{file.title}, lm-sys/FastChat@962316e {file.hub['both'][0]}"
        assert len(asked) == 1
        missing = replace(file, hub={"both": ["not/there.jsonl"]})
        with pytest.raises(
            DataError, match=r"could not be had from .*404 File not found.*source='folder'"
        ):
            data.locate(missing, "hub")
        there.write_text("version https://git-lfs.github.com/spec/v1\n")
        monkeypatch.setenv("HS2_RUNS", str(tmp_path / "other"))
        with pytest.raises(DataError, match="Git LFS"):
            data.locate(file, "hub")
        assert not list((tmp_path / "other").rglob("*.jsonl"))
    monkeypatch.setenv("HS2_RUNS", str(runs))
    assert data.locate(file, "hub")[0] == path
    with pytest.raises(DataError, match="could not be had"):
        data.locate(missing, "hub")


def test_a_folder_is_asked_for_and_nothing_else_is_tried(tmp_path, monkeypatch):
    monkeypatch.delenv("HS2_DATA_DIR", raising=False)
    with pytest.raises(DataError, match="needs a data folder, and none is named"):
        mt_bench.load("folder")
    with pytest.raises(
        DataError, match=r"MT-Bench questions is not in this folder; looked for mt_bench/"
    ):
        mt_bench.load("folder", tmp_path)
    with pytest.raises(ValueError, match="unknown source 'web'; there are: folder, hub"):
        mt_bench.load("web")


def test_every_pin_is_a_whole_commit():
    assert len(FILES) == 11
    for file in FILES.values():
        assert (
            len(file.revision) == 40
            and set(file.revision) <= set("0123456789abcdef")
            and file.local
        )


@pytest.mark.parametrize(
    ("load", "turns"), [(mt_bench.load, 2), (arena_hard.load, 1), (alpaca_eval.load, 1)]
)
def test_generated_questions_ask_for_what_nobody_was_trained_on(load, turns):
    """Arena Hard's and AlpacaEval's baseline has an answer to each."""
    questions = load("postcards", n=4, seed=3)
    assert questions.generated and len(questions) == 4
    for asked in questions.groups:
        assert len(asked.prompt) == turns
    assert len(questions.baseline) == (0 if turns == 2 else 4)
