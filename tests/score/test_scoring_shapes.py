"""Files in the shapes in which others publish theirs are read as they are, from the command line.

A user has a file and no converter. Rows are written by hand in the released shape, column for
column. Each score must be that of plain transformers, one conversation at a time.
"""

import gzip
import json
import os

import pandas as pd
import pytest
from classifiers import Plain, classifier

from hs2lib.score.__main__ import main

needs_mirror = pytest.mark.skipif(
    not os.environ.get("HS2_DATA_DIR"),
    reason="HS2_DATA_DIR is not set: the mirror of public data is not here",
)


def messages(*texts):
    """A conversation of these texts, the user's first."""
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def spoken(*texts):
    """The same as HH-RLHF writes it."""
    return "".join(f"\n\n{('Human', 'Assistant')[i % 2]}: {text}" for i, text in enumerate(texts))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return classifier(tmp_path_factory.mktemp("published") / "classifier")


@pytest.fixture(scope="module")
def plain(folder):
    return Plain(folder)


@pytest.fixture
def run(folder, tmp_path, capsys, monkeypatch):
    """Write a file, score it by the command, and give its rows and what was printed."""
    monkeypatch.chdir(tmp_path)

    def scored(name, content, *options, out="out.jsonl"):
        path = tmp_path / name
        if name.endswith(".parquet"):
            pd.DataFrame(content).to_parquet(path)
        else:
            lines = name.removesuffix(".gz").endswith("l")
            text = (
                "".join(json.dumps(row) + "\n" for row in content) if lines else json.dumps(content)
            )
            path.write_bytes(
                gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
            )
        code = main([str(path), "--model", str(folder), "--out", out, *options])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        assert sorted(file.name for file in tmp_path.iterdir()) == sorted({name, out})
        return [json.loads(line) for line in (tmp_path / out).read_text().splitlines()], printed.out

    return scored


def close(expected):
    return pytest.approx(expected, abs=1e-4)


def right(pairs):
    """How many of (better, worse) scores are in the right order, as the command prints it."""
    return f"model    {100 * sum(a > b for a, b in pairs) / len(pairs):5.1f} %"


def test_one_response_a_row_as_alpacaeval_has_its_outputs(run, plain):
    rows = [
        {"dataset": "koala", "instruction": "Name a prime.", "output": "Seven.", "generator": "m"},
        {"dataset": "koala", "instruction": "Another?", "output": "Nine is one.", "generator": "m"},
    ]
    scored, _ = run("outputs.json", rows)
    for before, after in zip(rows, scored, strict=True):
        score = after.pop("score")
        assert after == before, "all columns are carried"
        assert score == close(plain(before["instruction"], before["output"]))


def test_llmbar(run, plain):
    rows = [
        {"input": "Say yes.", "output_1": "yes", "output_2": "It is no.", "label": 1},
        {"input": "Say no.", "output_1": "yes it is", "output_2": "no", "label": 2},
    ]
    scored, printed = run("dataset.json", rows)
    pairs = []
    for before, after in zip(rows, scored, strict=True):
        both = [plain(before["input"], before[name]) for name in ("output_1", "output_2")]
        assert [after["score_output_1"], after["score_output_2"]] == close(both)
        assert {name: after[name] for name in before} == before
        pairs.append(both if before["label"] == 1 else both[::-1])
    assert right(pairs) in printed
    assert "longest    0.0 %" in printed and "shortest 100.0 %" in printed
    assert "random    50.0 %" in printed


def test_evalbiasbench_an_object_with_an_array_for_each_bias(run, plain):
    def row(bias, **more):
        answers = {"response1": "Short.", "response2": "A long one, and longer.", "label": 1}
        return {"bias": bias, "instruction": f"On {bias}?", **answers, **more}

    file = {"length bias": [row("length bias"), row("length bias", label=2)], "nesting": []}
    file["empty reference"] = [row("empty reference")]
    scored, printed = run("biasbench.json", file)
    assert [after["bias"] for after in scored] == ["length bias"] * 2 + ["empty reference"]
    assert "subset" not in scored[0], "the row names its part already"
    pairs = []
    for after in scored:
        both = [plain(after["instruction"], after[name]) for name in ("response1", "response2")]
        assert [after["score_response1"], after["score_response2"]] == close(both)
        pairs.append(both if after["label"] == 1 else both[::-1])
    assert right(pairs) in printed and "3 pairs, 2 prompts" in printed


def test_hh_rlhf_conversations_as_texts(run, plain):
    rows = [
        {"chosen": spoken("Hi", "Hello.", "Help?", "Yes."), "rejected": spoken("Hi", "Hello.", "Help?", "No!")},
        {"chosen": spoken("Ill?", "See a doctor."), "rejected": spoken("Ill?", "Too bad.")},
    ]  # fmt: skip
    scored, printed = run("test.jsonl.gz", rows)
    prompts = [messages("Hi", "Hello.", "Help?"), messages("Ill?")]
    answers = [("Yes.", "No!"), ("See a doctor.", "Too bad.")]
    pairs = []
    for after, prompt, texts in zip(scored, prompts, answers, strict=True):
        pairs.append([plain(prompt, text) for text in texts])
        assert [after["score_chosen"], after["score_rejected"]] == close(pairs[-1])
    assert right(pairs) in printed


def rmb(answer, score=None):
    more = {} if score is None else {"score": score}
    return {"llm_name": "m", "answer": answer, **more}


def rmb_prompt(*texts):
    return [{**message, "language": "English"} for message in messages(*texts)]


def test_rmb_pairs(run, plain):
    rows = [
        {
            "pair_uid": "1",
            "conversation_input": rmb_prompt("Hi", "Hello.", "Why?"),
            "chosen": rmb("Because of that.", 5.0),
            "reject": rmb("So.", 4.5),
            "category_path": "Pairwise_set/Helpfulness/Chat",
        }
    ]
    ((after,), printed) = run("pairs.json", rows)
    prompt = messages("Hi", "Hello.", "Why?")
    both = [plain(prompt, "Because of that."), plain(prompt, "So.")]
    assert [after["score_chosen"], after["score_reject"]] == close(both)
    assert right([both]) in printed


def test_rmb_best_of_n(run, plain):
    rows = []
    for i in range(3):
        rows.append(
            {
                "conversation_input": rmb_prompt(f"Why {i}?"),
                "bon_best": rmb("Because of that."),
                "loser_list": [rmb("So."), rmb("I do not know, and nobody does."), rmb("Hm.")],
                "bon_uid": str(i),
                "category_path": "BoN_set/Helpfulness/Chat",
            }
        )
    scored, printed = run("bon.json", rows)
    n_right = 0
    for row, after in zip(rows, scored, strict=True):
        prompt = row["conversation_input"][0]["content"]
        best = plain(prompt, row["bon_best"]["answer"])
        others = [plain(prompt, loser["answer"]) for loser in row["loser_list"]]
        assert after["score_bon_best"] == close(best)
        assert after["score_loser_list"] == close(others)
        n_right += best > max(others)
    _, _, of_best = printed.partition("The best of several")
    assert f"model    {100 * n_right / 3:5.1f} %" in of_best
    assert "longest    0.0 %" in of_best and "random    25.0 %" in of_best
    assert "The better scores higher: 9 pairs, 3 prompts" in printed


def test_shp_json_lines_that_are_called_json(folder, plain, tmp_path, capsys):
    """1 means that A is better, and 0 that B is; the file's own scores stay what they are."""
    rows = []
    for label in (1, 0):
        rows.append(
            {
                "post_id": "p",
                "domain": "askhr_test",
                "upvote_ratio": 0.9,
                "history": f"Why {label}?",
            }
            | {"c_root_id_A": "a", "c_root_id_B": "b", "created_at_utc_A": 1, "created_at_utc_B": 2}
            | {"score_A": 9, "score_B": 3, "human_ref_A": "So it is.", "human_ref_B": "No."}
            | {"labels": label, "seconds_difference": 1.0, "score_ratio": 3.0}
        )
    path = tmp_path / "train.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main([str(path), "--model", str(folder), "--out", str(tmp_path / "o.jsonl")]) == 0
    scored = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    pairs = []
    for row, after in zip(rows, scored, strict=True):
        both = [plain(row["history"], row[name]) for name in ("human_ref_A", "human_ref_B")]
        assert [after["score_human_ref_A"], after["score_human_ref_B"]] == close(both)
        assert after["score_A"] == 9
        pairs.append(both if row["labels"] else both[::-1])
    printed = capsys.readouterr().out
    assert right(pairs) in printed
    assert "longest   50.0 %" in printed, "A is longer, and better in one of two"


def pku(better, safer):
    harms = {"Endangering Public Health": False, "Violence": True}
    row = {"prompt": "How?", "response_0": "Not at all.", "response_1": "Like this, and so on."}
    for i in (0, 1):
        row |= {f"is_response_{i}_safe": i == 0, f"response_{i}_harm_category": harms}
        row |= {f"response_{i}_severity_level": i, f"response_{i}_sha256": "ab"}
        row |= {f"response_{i}_source": "Alpaca3-8B"}
    return row | {"better_response_id": better, "safer_response_id": safer}


@pytest.mark.parametrize(("verdict", "longest"), [("better_response_id", 100), ("safer_response_id", 0)])  # fmt: skip
def test_pku_saferlhf_is_asked_which_of_its_two_verdicts_counts(
    run, folder, plain, tmp_path, capsys, verdict, longest
):
    """It says which response is better and which is safer. Either may be meant."""
    rows = [pku(1, 0)]
    (tmp_path / "asked.jsonl").write_text(json.dumps(rows[0]) + "\n")
    assert main([str(tmp_path / "asked.jsonl"), "--model", str(folder)]) == 2
    assert "--verdict better_response_id or --verdict safer_response_id" in capsys.readouterr().err
    (tmp_path / "asked.jsonl").unlink()
    ((after,), printed) = run("train.jsonl", rows, "--verdict", verdict)
    both = [plain("How?", rows[0][name]) for name in ("response_0", "response_1")]
    assert [after["score_response_0"], after["score_response_1"]] == close(both)
    assert right([both[::-1] if verdict.startswith("better") else both]) in printed
    assert f"longest  {longest:5.1f} %" in printed


def test_helpsteer2_preference_with_its_zeros(run, plain):
    """A strength of 0 is a tie: it is scored and counted, and is no fault; two turns make a prompt."""
    vote = {"strength": -1, "justification": "j", "statement": "s", "elaboration": "e"}
    rows = []
    for strength in (-3, 0, 2):
        rows.append(
            {
                "split": "val",
                "prompt": f"Is it {strength}?\n<extra_id_1>Assistant\nNo.\n<extra_id_1>User\nWhy?",
                "response_1": "It is not.",
                "response_2": "Because.",
                "preference_strength": strength,
                "preference_statement": "s",
                "preference_elaboration": "e",
                "three_most_similar_preferences": [vote],
                "all_preferences_unprocessed": [vote],
            }
        )
    scored, printed = run("preference.jsonl.gz", rows)
    both = []
    for row, after in zip(rows, scored, strict=True):
        prompt = messages(f"Is it {row['preference_strength']}?", "No.", "Why?")
        both.append([plain(prompt, row[name]) for name in ("response_1", "response_2")])
        assert [after["score_response_1"], after["score_response_2"]] == close(both[-1])
    assert right([both[0], both[2][::-1]]) in printed and "2 pairs, 2 prompts" in printed


def test_helpsteer3_preference(run, plain):
    """The doctor once took it for a file of ratings."""
    rows = []
    for strength in (-1, 3):
        rows.append(
            {
                "domain": "general",
                "language": "english",
                "context": messages("Hi", "Hello.", f"Why {strength}?"),
                "response1": "Because of it.",
                "response2": "So.",
                "overall_preference": strength,
                "individual_preference": [{"score": strength, "reasoning": "r", "feedback1": "f"}],
            }
        )
    scored, printed = run("validation.jsonl", rows)
    pairs = []
    for row, after in zip(rows, scored, strict=True):
        both = [plain(row["context"], row[name]) for name in ("response1", "response2")]
        assert [after["score_response1"], after["score_response2"]] == close(both)
        pairs.append(both if row["overall_preference"] < 0 else both[::-1])
    assert right(pairs) in printed


def test_ultrafeedback_binarized_message_lists(run, folder, plain, tmp_path, capsys):
    """Its own columns of scores are called like ours would be, so ours get another name."""
    rows = [
        {
            "prompt": "Why?",
            "prompt_id": "id",
            "chosen": messages("Why?", "Because of that."),
            "rejected": messages("Why?", "So."),
            "messages": messages("Why?", "Because of that."),
            "score_chosen": 8.0,
            "score_rejected": 2.0,
        }
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "asked.parquet")
    assert main([str(tmp_path / "asked.parquet"), "--model", str(folder)]) == 2
    message = capsys.readouterr().err
    assert "field 'score_chosen': the file has this column already" in message
    assert "--column NAME" in message
    (tmp_path / "asked.parquet").unlink()
    ((after,), printed) = run("train.parquet", rows, "--column", "reward")
    both = [plain("Why?", text) for text in ("Because of that.", "So.")]
    assert [after["reward_chosen"], after["reward_rejected"]] == close(both)
    assert after["score_chosen"] == 8.0 and after["messages"] == rows[0]["messages"]
    assert right([both]) in printed


def test_nectar_ranked_lists(run, plain):
    """Seven answers in the released file, three here. By hand: of ranks 1, 2, 2 two pairs count."""
    texts = ("Because of that.", "So.", "I do not know.")
    rows = [
        {
            "prompt": "\n\nHuman: Hi\n\nAssistant: Hello.\n\nHuman: Why?\n\nAssistant: ",
            "answers": [
                {"answer": text, "model": "m", "rank": rank}
                for text, rank in zip(texts, (1.0, 2.0, 2.0), strict=True)
            ],
            "turns": 2,
            "num_responses": 3,
            "source": ["lmsys-chat-1m"],
            "good_natured": True,
        }
    ]
    ((after,), printed) = run("rlaif.parquet", rows)
    prompt = messages("Hi", "Hello.", "Why?")
    each = [plain(prompt, text) for text in texts]
    assert after["scores"] == close(each)
    assert right([(each[0], each[1]), (each[0], each[2])]) in printed
    assert "2 pairs, 1 prompt" in printed


def test_a_conversation_with_the_answer_inside(run, plain):
    """As SFT sets have it, OpenAI's and ShareGPT's."""
    rows = [{"messages": messages("Hi", "Hello.", "Why?", "Because.")}]
    ((after,), _) = run("talks.jsonl", rows)
    assert after["score"] == close(plain(messages("Hi", "Hello.", "Why?"), "Because."))
    spoken_rows = [
        {"conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]}
    ]
    ((after,), _) = run("talks.jsonl", spoken_rows)
    assert after["score"] == close(plain("Why?", "So."))


def test_n_responses_in_a_list_or_in_numbered_columns(run, plain):
    """Samples of a policy, before anybody judged them."""
    ((after,), _) = run("a.jsonl", [{"prompt": "Why?", "responses": ["So.", "Because."]}])
    assert after["scores"] == close([plain("Why?", "So."), plain("Why?", "Because.")])
    row = {"prompt": "Why?", "output_1": "So.", "output_2": "Because.", "output_3": "Hm."}
    ((after,), printed) = run("a.jsonl", [row])
    for name in ("output_1", "output_2", "output_3"):
        assert after[f"score_{name}"] == close(plain("Why?", row[name]))
    assert "random" not in printed, "nothing says which is better"


@pytest.mark.slow
@needs_mirror
@pytest.mark.parametrize(
    ("name", "responses", "pairs"),
    [
        (
            "judgebench/gpt-4o-2024-05-13.jsonl.gz",
            ("response_A", "response_B"),
            "6 pairs, 6 prompts",
        ),
        (
            "rewardbench/LLMBar_Natural_dataset.json.gz",
            ("output_1", "output_2"),
            "6 pairs, 6 prompts",
        ),
    ],
)
def test_published_pairs_as_they_are(folder, plain, tmp_path, capsys, name, responses, pairs):
    """Real rows, read in place; their prompts are long, and some spell out a chat template's marks."""
    out = tmp_path / "out.jsonl"
    assert main([name, "--model", str(folder), "--limit", "6", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert pairs in printed
    for line in out.read_text().splitlines():
        row = json.loads(line)
        prompt = row.get("question", row.get("input"))
        for column in responses:
            assert row[f"score_{column}"] == close(plain(prompt, row[column]))


@pytest.mark.slow
@needs_mirror
def test_rm_bench_as_it_is(folder, plain, tmp_path, capsys):
    """Three styles of each answer: of nine pairs three are easy, three normal and three hard."""
    out = tmp_path / "out.jsonl"
    words = ["rm_bench/chat_filtered.json.gz", "--model", str(folder), "--limit", "4"]
    assert main([*words, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    better = {"easy": 0, "normal": 0, "hard": 0}
    for line in out.read_text().splitlines():
        row = json.loads(line)
        for column in ("chosen", "rejected"):
            each = [plain(row["prompt"], text) for text in row[column]]
            assert row[f"score_{column}"] == close(each)
        for i, chosen in enumerate(row["score_chosen"]):
            for j, rejected in enumerate(row["score_rejected"]):
                level = "hard" if j > i else "easy" if j < i else "normal"
                better[level] += chosen > rejected
    for level, n_right in better.items():
        _, _, of_level = printed.partition(f"12 {level} pairs, 4 prompts")
        assert of_level.splitlines()[1].startswith(f"  model    {100 * n_right / 12:5.1f} %")


@pytest.mark.slow
@needs_mirror
def test_all_real_helpsteer2_preferences_are_read_and_its_ties_counted(folder, tmp_path, capsys):
    """403 rows, 72 of them ties; the first 40 are scored."""
    name = "helpsteer2/preference_validation_403pairs.jsonl.gz"
    words = [name, "--model", str(folder), "--limit", "40", "--out", str(tmp_path / "o.csv")]
    assert main(words) == 0
    printed = capsys.readouterr().out
    frame = pd.read_csv(tmp_path / "o.csv")
    ties = int((frame.preference_strength == 0).sum())
    assert len(frame) == 40 and frame[["score_response_1", "score_response_2"]].notna().all(None)
    n_prompts = frame.prompt[frame.preference_strength != 0].nunique()
    assert f"{40 - ties} pairs, {n_prompts} prompts" in printed
