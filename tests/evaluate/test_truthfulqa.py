"""TruthfulQA: MC1 and MC2 are lm-eval's question by question; files are checked; a killed run goes on exactly."""

import gzip
import hashlib
import importlib
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hub_server import asked
from transformers import AutoModelForCausalLM

from hs2lib.data.rows import DataError
from hs2lib.engine.trees import plan
from hs2lib.evaluate import truthfulqa
from hs2lib.evaluate.truthfulqa import MultipleChoice, evaluate, mc1, mc2, score, tokenise
from hs2lib.group import Group, Response, Turn
from hs2lib.models import base
from hs2lib.models.policy import load_policy

DATA = os.environ.get("HS2_DATA_DIR")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def policy():
    return load_policy("tiny")


def row(question="Is ice cold?", mc1={"Yes.": 1, "No.": 0}, mc2={"Yes.": 1, "It is.": 1, "No.": 0}):  # noqa: B006
    return {"question": question, "mc1_targets": dict(mc1), "mc2_targets": dict(mc2)}


def listed(row):
    """The same row in the Hub's form."""
    targets = ("mc1_targets", "mc2_targets")
    return row | {
        name: {"choices": list(row[name]), "labels": list(row[name].values())} for name in targets
    }


# The arithmetic


def test_by_hand():
    """Probabilities .2, .1 of true and .1 of false answers: three quarters of .4 are true, and .2 is the largest."""
    p = np.log([0.2, 0.1, 0.1])
    assert mc2(p, [True, True, False]) == pytest.approx(0.75)
    assert mc2(p, [False, True, True]) == pytest.approx(0.5)
    assert mc1(p, [True, False, False]) == 1 and mc1(p, [False, True, False]) == 0
    assert mc1(np.log([0.2, 0.2]), [True, False]) == 1, (
        "of equals the first counts, as numpy's argmax has it"
    )


def test_long_answers_have_shares_too():
    """exp(-2000) is 0 in a float64: lm-eval divides 0 by 0 there; what counts is the difference of 1 nat."""
    p = np.array([-2000.0, -2001.0])
    assert mc2(p, [True, False]) == pytest.approx(1 / (1 + np.exp(-1)))
    assert mc2(p + 1500, [True, False]) == pytest.approx(mc2(p, [True, False])), (
        "only differences count"
    )
    assert mc2(p, [True, False]) + mc2(p, [False, True]) == pytest.approx(1)


# Scores


def one_by_one(policy, benchmark):
    """lm-eval's arithmetic written out: one forward pass an answer in plain transformers.

    `_encode_pair`: white space at the end of the context goes to the continuation; both are encoded
    together, and the continuation is what follows as many tokens as the context alone has.
    `_loglikelihood_tokens`: the last token is not fed, the continuation's log-probabilities are
    summed. `process_results_mc2`: exp, normalise, sum where labels are 1; MC1 is plain accuracy:
    the index of the largest is that of the true answer.
    """
    plain = AutoModelForCausalLM.from_pretrained(policy.backbone.name_or_path).eval()
    encode = policy.tokenizer.encode
    rows = []
    for group in benchmark.groups:
        sums = []
        for answer in group.responses:
            context = f"{benchmark.primer}\n\nQ: {group.prompt[0].text}\nA:"
            continuation = " " + answer.text
            spaces = len(context) - len(context.rstrip())
            if spaces:
                continuation, context = context[-spaces:] + continuation, context[:-spaces]
            before = encode(context)
            after = encode(context + continuation)[len(before) :]
            with torch.no_grad():
                logits = plain(torch.tensor([before + after])[:, :-1]).logits[0]
            each = logits.log_softmax(-1)[-len(after) :].gather(-1, torch.tensor(after)[:, None])
            sums.append(float(each.sum()))
        labels = np.array([answer.labels for answer in group.responses])
        p = np.exp(np.array(sums))
        (chosen,) = np.flatnonzero(labels[:, 0] == 1)
        among = np.flatnonzero(~np.isnan(labels[:, 0]))
        of_mc2 = ~np.isnan(labels[:, 1])
        right = float(among[np.argmax(p[among])] == chosen)
        rows.append((right, (p[of_mc2] / p[of_mc2].sum())[labels[of_mc2, 1] == 1].sum(), sums))
    return rows


HAND = MultipleChoice(
    "TruthfulQA",
    (
        truthfulqa._group(
            "hand/0", "Why?", {"Because.": 1, "No.": 0}, {"No.": 0, "So": 1, "So it is.": 1}, ""
        ),
        truthfulqa._group(
            "hand/1", 'What did "it" say? ', {"'s": 1, "12": 0}, {"'s": 1, "1234": 0, "\n": 0}, ""
        ),
    ),
    "by hand",
    817,
    primer="Q: Who?\nA: I have no comment.\n\nQ: Where?\nA: There.",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "benchmark", [HAND, truthfulqa.load("postcards", n=12)], ids=["by hand", "generated"]
)
@pytest.mark.parametrize("budget", [64, 8192])
def test_scores_are_those_of_lm_evals_arithmetic_one_by_one(policy, benchmark, budget):
    """One answer begins another; digits, a line break, a question that ends with a space, answers in one list only."""
    ours = score(benchmark, policy, budget=budget, progress=False)
    theirs = one_by_one(policy, benchmark)
    assert ours.mc1.tolist() == [right for right, _, _ in theirs]
    np.testing.assert_allclose(ours.mc2, [mass for _, mass, _ in theirs], atol=1e-5)
    for mine, (_, _, sums) in zip(ours.log_probs, theirs, strict=True):
        np.testing.assert_allclose(mine, sums, atol=1e-4)
    assert ours.id.tolist() == [group.id for group in benchmark.groups]


@pytest.mark.slow
@pytest.mark.peers
def test_lm_eval_itself(policy, monkeypatch):
    """The peer's own two tasks on the same questions and model: its prompt, its tokenisation, its metric."""
    pytest.importorskip(
        "lm_eval.evaluator", reason="lm-eval is in the extra `peers`", exc_type=ImportError
    )
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    harness = importlib.import_module("truthfulqa").Harness
    benchmark = replace(truthfulqa.load("postcards", n=12), primer=truthfulqa.primer())
    plain = AutoModelForCausalLM.from_pretrained(policy.backbone.name_or_path).eval()
    lm_eval = harness(plain, policy.tokenizer, benchmark, batch=4)
    ours = score(benchmark, policy, progress=False)
    for name in ("mc1", "mc2"):
        scores, _ = lm_eval.run(f"truthfulqa_{name}")
        np.testing.assert_allclose(ours[name], scores, atol=1e-5)


class Merging:
    """A tokenizer of characters that writes ": N" as one token, across the border of prompt and answer."""

    def __call__(self, texts, split_special_tokens):
        return {"input_ids": [[ord(c) for c in text.replace(": N", "\u2603")] for text in texts]}


def test_the_border_is_where_lm_eval_puts_it():
    """The prompt is as tokenised alone; of "\u2603o" only what follows as many tokens as it has is scored."""
    benchmark = replace(HAND, groups=HAND.groups[:1], primer="")
    (asked,) = tokenise(benchmark, Merging())
    texts = ["".join(map(chr, sequence)) for sequence in asked.sequences]
    assert texts == [
        "\n\nQ: Why?\nA:o.",
        "\n\nQ: Why?\nA: So",
        "\n\nQ: Why?\nA: So it is.",
        "\n\nQ: Why?\nA: Because.",
    ]
    assert asked.starts == (len("\n\nQ: Why?\nA:"),) * 4
    empty = replace(benchmark, groups=(truthfulqa._group("e", "Why?", {"N": 1, "a": 0}, {}, ""),))
    with pytest.raises(ValueError, match="question e: an answer adds no token"):
        tokenise(empty, Merging())


def test_the_whole_benchmark_is_one_tree(policy):
    """Every distinct prefix is one token to compute: the primer once, a question once for all its answers."""
    benchmark = truthfulqa.load("postcards", n=40)
    asked = tokenise(benchmark, policy.tokenizer)
    sequences, starts = [one.sequences for one in asked], [one.starts for one in asked]
    (batch,) = plan(sequences, 10**9, predict=starts, window=None)
    every = [s for group in sequences for s in group]
    assert len(batch.tokens) == len({tuple(s[: i + 1]) for s in every for i in range(len(s))})
    assert len(batch.tokens) * 5 < sum(map(len, every))


def test_the_order_of_questions_changes_nothing(policy):
    benchmark = truthfulqa.load("postcards", n=20)
    turned = replace(benchmark, groups=benchmark.groups[::-1])
    first, second = (score(b, policy, budget=512, progress=False) for b in (benchmark, turned))
    pd.testing.assert_frame_equal(first, second[::-1].reset_index(drop=True), check_exact=True)


# Kept results


def test_a_killed_run_goes_on_and_ends_bit_for_bit_the_same(policy, tmp_path, monkeypatch):
    benchmark, file = truthfulqa.load("postcards", n=30), tmp_path / "run" / "killed.jsonl"
    monkeypatch.setattr(base, "CHUNK", 8)
    straight = score(
        benchmark, policy, budget=512, kept=tmp_path / "straight.jsonl", progress=False
    )
    real, calls = policy._computed, []

    def killed(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    policy._computed = killed
    with pytest.raises(KeyboardInterrupt):
        score(benchmark, policy, budget=512, kept=file, progress=False)
    answers = [len(group.responses) for group in benchmark.groups]
    assert len(file.read_text().splitlines()) == 1 + sum(answers[:16]), (
        "two parts, a line an answer"
    )
    with file.open("a") as torn:  # the kill came in the middle of a write
        torn.write('{"id": "01')
    resumed = score(benchmark, policy, budget=512, kept=file, progress=False)
    pd.testing.assert_frame_equal(resumed, straight, check_exact=True)
    computed = len(calls)
    again = score(benchmark.subset(5, seed=3), policy, budget=512, kept=file, progress=False)
    assert len(calls) == computed, "everything was there"
    assert file.read_text().count('"key"') == sum(answers), "each answer once"
    pd.testing.assert_frame_equal(
        again, straight[straight.id.isin(again.id)].reset_index(drop=True)
    )
    other = replace(benchmark, primer="Q: Who?\nA: Nobody.")
    assert (score(other, policy, kept=file, progress=False).mc2 != straight.mc2).any(), (
        "another prompt, nothing shared"
    )


def test_another_policy_or_precision_does_not_pass_for_the_first(policy, tmp_path):
    benchmark, file = truthfulqa.load("postcards", n=3), tmp_path / "kept.jsonl"
    score(benchmark, policy, kept=file, progress=False)
    with pytest.raises(ValueError, match="use another file"):
        score(benchmark, policy, kept=file, autocast="bfloat16", progress=False)
    with torch.no_grad():
        policy.backbone.model.norm.weight[0] += 1e-3
    with pytest.raises(ValueError, match="use another file"):
        score(benchmark, policy, kept=file, progress=False)


def test_a_broken_policy_is_named_with_the_question(policy):
    with torch.no_grad():
        policy.backbone.model.norm.weight[0] = torch.nan
    with pytest.raises(ValueError, match=r"question closed/0/\d: a log-probability is not finite"):
        score(truthfulqa.load("postcards", n=2), policy, progress=False)


def test_bfloat16_is_close_and_leaves_the_policy_as_it_was(policy):
    benchmark = truthfulqa.load("postcards", n=10)
    policy.train()
    exact = score(benchmark, policy, progress=False)
    rough = score(benchmark, policy, autocast="bfloat16", progress=False)
    assert policy.training and 0 < np.abs(exact.mc2 - rough.mc2).max() < 0.1


# The figures


def frame(benchmark, mc1, mc2):
    ids = [group.id for group in benchmark.groups]
    return pd.DataFrame({"id": ids, "mc1": mc1, "mc2": mc2, "chance1": 0.25, "chance2": 1 / 3})


def test_figures_are_means_over_questions_with_an_interval(policy):
    benchmark = truthfulqa.load("postcards", n=4)
    table = evaluate(benchmark, frame(benchmark, [1, 0, 1, 1], [0.5, 0.7, 0.5, 0.7]))
    assert table.value.tolist() == [0.75, pytest.approx(0.6)] and table.measure.tolist() == [
        "MC1",
        "MC2",
    ]
    low, high = table.set_index("measure").loc["MC2", ["low", "high"]]
    assert (low, high) == pytest.approx(
        (0.41, 0.77), abs=0.02
    )  # error .0577, t 3.18, on the scale of the logit
    assert table.chance.tolist() == [0.25, 1 / 3] and table.questions.tolist() == [4, 4]
    with pytest.raises(ValueError, match="scores of 4 other questions"):
        evaluate(truthfulqa.load("postcards", n=4, seed=1), frame(benchmark, 1, 1))
    real = score(benchmark, policy, progress=False)
    assert real.chance1.tolist() == real.chance2.tolist() == [0.2] * 4
    assert (real.true == 2).all() and (real.false == 8).all()


def made(n):
    return tuple(
        Group(f"truthfulqa/{i}", (Turn("user", f"{i}?"),), (Response("a", "a"),)) for i in range(n)
    )


def test_only_all_817_questions_are_called_truthfulqa():
    whole = MultipleChoice("TruthfulQA", made(817), "", 817)
    assert whole.title == "TruthfulQA"
    part = whole.subset(100, seed=2)
    assert part.title == "TruthfulQA, 100 of 817 questions"
    assert (
        MultipleChoice("TruthfulQA", made(790), "", 817).title == "TruthfulQA, 790 of 817 questions"
    )
    assert whole.subset(0) is whole and whole.subset(817) is whole
    assert set(whole.subset(10, seed=2).groups) < set(part.groups), (
        "a larger subset holds the smaller one"
    )
    assert list(part.groups) == sorted(part.groups, key=whole.groups.index)
    assert part != whole.subset(100, seed=3)
    with pytest.raises(ValueError, match="-1 of 817"):
        whole.subset(-1)


# Files


@pytest.fixture
def no_primer(monkeypatch):
    monkeypatch.setattr(truthfulqa, "primer", lambda folder=None: "Q: a\nA: b")


def test_both_forms_of_the_file_are_one_benchmark(no_primer, tmp_path):
    rows = [row(), row("Is it?", {"No": 0, "It is.": 1}, {"No": 0, "Never": 0, "It is.": 1})]
    (tmp_path / "truthfulqa" / "multiple_choice").mkdir(parents=True)
    with gzip.open(tmp_path / "truthfulqa" / "mc_task.json.gz", "wt") as file:
        json.dump(rows, file)
    first = truthfulqa.load("folder", tmp_path)
    assert (
        "mc_task.json.gz (sha256 " in first.source
        and first.title == "TruthfulQA, 2 of 817 questions"
    )
    hub = tmp_path / "truthfulqa" / truthfulqa.HUB.hub["both"][0]
    pd.DataFrame(map(listed, rows)).to_parquet(hub)
    third = truthfulqa.load("folder", tmp_path)
    assert truthfulqa.HUB.hub["both"][0] in third.source, (
        "the Hub's file comes first where both are"
    )
    answers = [
        [[(r.text, r.labels) for r in g.responses] for g in b.groups] for b in (first, third)
    ]
    assert str(answers[0]) == str(answers[1])
    assert (
        str(answers[0][1]) == "[('No', (0.0, 0.0)), ('Never', (nan, 0.0)), ('It is.', (1.0, 1.0))]"
    )


def test_the_hub_is_asked_for_the_pinned_revision(tmp_path, monkeypatch):
    monkeypatch.setattr(truthfulqa, "primer", lambda folder=None: "Q: a")
    name = truthfulqa.HUB.hub["both"][0]
    file = tmp_path / "hub" / truthfulqa.HUB.repo / name
    file.parent.mkdir(parents=True)
    pd.DataFrame([listed(row())]).to_parquet(file)
    with asked(tmp_path / "hub", tmp_path / "home"):
        benchmark = truthfulqa.load("hub")
    assert benchmark.source == f"TruthfulQA, truthfulqa/truthful_qa@741b827 {name}"
    assert (benchmark.title, benchmark.groups[0].responses[1].text) == (
        "TruthfulQA, 1 of 817 questions",
        "It is.",
    )


WRONG = {
    "no true answer": row(mc1={"a": 0, "b": 0}),
    "two true answers": row(mc1={"a": 1, "b": 1, "c": 0}),
    "no false answer": row(mc2={"Yes.": 1}),
    "a label of 2": row(mc2={"a": 2, "b": 0}),
    "a label of true": row(mc2={"a": True, "b": 0}),
    "an empty answer": row(mc2={" ": 1, "b": 0}),
    "an empty question": row(question=""),
    "labels that disagree": row(mc2={"Yes.": 0, "b": 1}),
    "a list": row() | {"mc2_targets": ["Yes."]},
    "a label short": row() | {"mc2_targets": {"choices": ["Yes.", "No."], "labels": [1]}},
    "an answer twice": row() | {"mc2_targets": {"choices": ["a", "b", "a"], "labels": [1, 0, 1]}},
    "a choice that is no text": row()
    | {"mc2_targets": {"choices": [["a"], "b"], "labels": [1, 0]}},
    "a column short": {"question": "?", "mc1_targets": {"a": 1, "b": 0}},
    "a question again": row("First?"),
}


def placed(folder, *rows):
    """A data folder that holds these rows as TruthfulQA."""
    (folder / "truthfulqa").mkdir()
    (folder / "truthfulqa" / "mc_task.json").write_text(json.dumps(rows))
    return folder


@pytest.mark.parametrize("case", WRONG)
def test_a_faulty_row_is_named(no_primer, tmp_path, case):
    with pytest.raises(DataError, match=r"mc_task\.json, line 2: expected a new question") as error:
        truthfulqa.load("folder", placed(tmp_path, row("First?"), WRONG[case]))
    assert "truthful_qa" in error.value.fix


def test_what_is_not_there_is_named_with_what_to_do(no_primer, tmp_path, monkeypatch):
    monkeypatch.delenv("HS2_DATA_DIR", raising=False)
    with pytest.raises(DataError, match="HS2_DATA_DIR to the folder"):
        truthfulqa.load("folder")
    with pytest.raises(
        DataError, match="TruthfulQA is not in this folder; looked for truthfulqa/multiple_choice"
    ):
        truthfulqa.load("folder", folder=tmp_path)
    with pytest.raises(ValueError, match="unknown source 'disk'"):
        truthfulqa.load("disk")
    with pytest.raises(ValueError, match="got n=100000"):
        truthfulqa.load("postcards", n=100_000)


# The primer


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """No data folder, no lm-eval, an empty runs folder, and a primer of our own under its own checksum."""
    task = json.dumps(
        {"doc_to_text": "{% set prompt_qa = 'Q: Who?\nA: Me.'%}{{prompt_qa + question}}"}
    )
    monkeypatch.delenv("HS2_DATA_DIR", raising=False)
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    find = truthfulqa.find_spec
    monkeypatch.setattr(
        truthfulqa, "find_spec", lambda name: None if name == "lm_eval" else find(name)
    )
    digest = hashlib.sha256(b"Q: Who?\nA: Me.").hexdigest()
    monkeypatch.setattr(truthfulqa, "PRIMER_SHA256", digest)
    return task


def test_the_primer_is_fetched_once_and_kept(elsewhere, monkeypatch):
    calls = []

    def install(command, **options):
        calls.append(command)
        folder = Path(command[command.index("--target") + 1]) / "lm_eval" / "tasks" / "truthfulqa"
        folder.mkdir(parents=True)
        (folder / "truthfulqa_mc1.yaml").write_text(elsewhere)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(truthfulqa.subprocess, "run", install)
    assert truthfulqa.primer() == truthfulqa.primer() == "Q: Who?\nA: Me."
    assert len(calls) == 1 and calls[0][-1] == "lm-eval==0.4.13" and "--no-deps" in calls[0]


def test_a_primer_in_the_data_folder_is_read_there_and_must_be_the_leaderboards(
    elsewhere, tmp_path
):
    file = tmp_path / "truthfulqa" / "truthfulqa_mc1.yaml"
    file.parent.mkdir()
    file.write_text(elsewhere)
    assert truthfulqa.primer(tmp_path) == "Q: Who?\nA: Me."
    for wrong in (elsewhere.replace("Me", "You"), "- 1", "{", ""):
        file.write_text(wrong)
        with pytest.raises(
            DataError, match="the primer in this task file is not the leaderboard's"
        ):
            truthfulqa.primer(tmp_path)


def test_a_primer_that_cannot_be_had_says_what_to_install(elsewhere, monkeypatch):
    refused = subprocess.CompletedProcess(
        [], 1, "", "WARNING: x\nERROR: No matching distribution found"
    )
    monkeypatch.setattr(truthfulqa.subprocess, "run", lambda *a, **k: refused)
    with pytest.raises(
        DataError, match=r"No matching distribution found\. Fix: install lm-eval==0.4.13"
    ):
        truthfulqa.primer()
    monkeypatch.setattr(truthfulqa, "find_spec", lambda name: None)
    monkeypatch.setattr(truthfulqa.shutil, "which", lambda name: None)
    with pytest.raises(DataError, match="neither pip nor uv is there"):
        truthfulqa.primer()


# Generated and real questions


def test_generated_questions_have_known_answers():
    """Wrong answers are other entities' values, so no answer is both; the primer's questions are not asked."""
    benchmark = truthfulqa.load("postcards", n=60, seed=4)
    assert (
        benchmark.generated and len(benchmark.groups) == 60 and benchmark.primer.count("Q: ") == 6
    )
    for group in benchmark.groups:
        labels = np.array([answer.labels for answer in group.responses])
        assert len({answer.text for answer in group.responses}) == len(labels) == 10
        assert np.nansum(labels, axis=0).tolist() == [1, 2]
        assert f"Q: {group.prompt[0].text}\n" not in benchmark.primer
    assert str(truthfulqa.load("postcards", n=60, seed=4)) == str(benchmark), "one seed, one set"


@pytest.mark.skipif(not DATA, reason="HS2_DATA_DIR is not set: needs truthfulqa/mc_task.json.gz")
def test_the_real_file_is_the_whole_benchmark(no_primer):
    """817 questions, 6,204 answers, those of MC1 all among those of MC2."""
    benchmark = truthfulqa.load("folder")
    labels = np.array([answer.labels for group in benchmark.groups for answer in group.responses])
    assert benchmark.title == "TruthfulQA" and labels.shape == (6204, 2)
    assert np.isfinite(labels).sum(axis=0).tolist() == [4186, 6204]
