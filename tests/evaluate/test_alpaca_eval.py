"""AlpacaEval's questions and comparisons: order drawn and undone, names read, rates by hand, the package's prompt."""

import json
import math
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from judge_server import Reply, completion, serve

from hs2lib.data.rows import DataError
from hs2lib.evaluate import alpaca_eval
from hs2lib.evaluate.alpaca_eval import NAME, asks, preferences, save_outputs, score, shown_first
from hs2lib.evaluate.judge import Judge, Verdict
from hs2lib.evaluate.questions import FILES, Questions, Template, answered, characters
from hs2lib.group import Group, Response, Turn

DATA = os.environ.get("HS2_DATA_DIR")
needs_data = pytest.mark.skipif(
    not DATA or not (Path(DATA) / "alpaca_eval").is_dir(),
    reason="HS2_DATA_DIR has no alpaca_eval folder",
)
N = 40
ASKED = tuple(Group(str(i), (Turn("user", f"say {i}"),), ()) for i in range(N))
QUESTIONS = Questions("AlpacaEval 2", ASKED, "by hand", 805)


def answers_of(text):
    return answered(QUESTIONS, {str(i): [Response("", text(i))] for i in range(N)}, "by hand")


QUESTIONS = replace(QUESTIONS, baseline=answers_of(lambda i: "b" * 20))
OURS = answers_of(lambda i: "a" * (10 + i))
TEMPLATE = Template("S", "{instruction}: {output_1} or {output_2}")


def verdicts(better):
    """What a judge says that finds the model's answer better where `better(i)` is True, and cannot say where None."""
    out = []
    for i in range(N):
        first, second = NAME_OF[shown_first(str(i))]
        value = {True: first, False: second, None: None}[better(i)]
        out.append(Verdict(str(i), value, "", 1))
    return out


NAME_OF = {
    True: ("m", "M"),
    False: ("M", "m"),
}  # (the model's name, the baseline's) by who is shown first


def test_the_order_is_drawn_once_and_undone():
    """About half of the answers stand first, the same at every call; a preference is of the model wherever it stood."""
    drawn = [shown_first(str(i)) for i in range(1000)]
    assert 440 < sum(drawn) < 560 and drawn == [shown_first(str(i)) for i in range(1000)]
    assert drawn != [shown_first(str(i), seed=1) for i in range(1000)]
    for ask, first in zip(asks(QUESTIONS, OURS, TEMPLATE), drawn, strict=False):
        ours, theirs = "a" * (10 + int(ask.id)), "b" * 20
        pair = (ours, theirs) if first else (theirs, ours)
        assert ask.messages[1][1] == f"say {ask.id}: {pair[0]} or {pair[1]}"
        assert set(ask.judged) == {ours, theirs}
    assert (preferences(QUESTIONS, verdicts(lambda i: True)) == 2).all()
    assert (preferences(QUESTIONS, verdicts(lambda i: False)) == 1).all()
    some = preferences(QUESTIONS, verdicts(lambda i: None if i == 3 else i < 10))
    assert np.isnan(some[3]) and np.nansum(some == 2) == 9 and np.nansum(some == 1) == 30


@pytest.mark.parametrize(
    ("reply", "name"),
    [("m", "m"), ("M", "M"), (' "m"\n', "m"), ("**M**.", "M"), ("m.", "m")]
    + [(text, None) for text in ("", "The first", "I'm sure: M", "m or M", "mM", "m\nM", "A", "µ")],
)
def test_only_a_name_alone_is_a_verdict(reply, name):
    """A letter in prose means anything, so prose is asked again; an answer that is itself "m" changes nothing."""
    assert NAME.parse(reply) == name and NAME.parse(reply, ["m", "M"]) == name


def chosen(first, second):
    """A chat completion whose only token is m, with log-probabilities as the published judge gives them."""
    top = [("m", first), ("M", second), ("The", -9.0)]
    content = [
        {
            "token": "m",
            "logprob": first,
            "top_logprobs": [{"token": t, "logprob": x} for t, x in top],
        }
    ]
    message = {"role": "assistant", "content": "m"}
    return completion(
        "m", choices=[{"index": 0, "message": message, "logprobs": {"content": content}}]
    )


def test_preferences_from_log_probabilities(tmp_path):
    """P(m) = .6 and P(M) = .2: the answer shown first has a chance of .75; kept, so that no second run asks again."""
    asked = asks(QUESTIONS, OURS, TEMPLATE)
    with serve(lambda question, nth: Reply(body=chosen(math.log(0.6), math.log(0.2)))) as server:
        judge = Judge("m", server.url, reply_tokens=1, extra=alpaca_eval.LOG_PROBS)
        for _ in range(2):
            read = judge.verdicts(asked, file=tmp_path / "v.jsonl", token_cap=10**6)
    assert set(server.asked.values()) == {1} and server.bodies[0]["top_logprobs"] == 5
    expected = [1.75 if shown_first(ask.id) else 1.25 for ask in asked]
    assert preferences(QUESTIONS, read) == pytest.approx(expected) and set(expected) == {1.75, 1.25}
    for row, value in (({"m": -0.5}, 1.0), ({"M": -0.5}, 0.0), ({"T": -0.1}, "M"), ({}, "M")):
        assert NAME.read({"reply": "M", "log_probs": row}) == value, (
            "one name alone is certain; none: what is written"
        )


@pytest.mark.slow
@pytest.mark.peers
def test_a_chance_is_the_packages_preference():
    """2 - P(m), of which 1 means that the first answer was preferred."""
    parsers = pytest.importorskip(
        "alpaca_eval.completion_parsers", reason="alpaca_eval is in the peers extra"
    )
    row = json.loads(chosen(-0.3, -1.9))["choices"][0]
    (theirs,) = parsers.logprob_parser(row, "m", ["m", "M"], is_binarize=False)
    assert NAME.read({"reply": "m", "log_probs": {"m": -0.3, "M": -1.9}}) == pytest.approx(
        2 - theirs
    )


def test_rates_by_hand():
    """3 of 4 are preferred, and the interval is that of a share of 75 %; nothing read gives no rate and no error."""
    asked = verdicts(lambda i: i % 4 > 0)
    result, half = score(QUESTIONS, OURS, asked), 1.96 * 100 * np.sqrt(0.75 * 0.25 / (N - 1))
    fit = alpaca_eval.length_controlled(
        preferences(QUESTIONS, asked), characters(OURS), characters(QUESTIONS.baseline)
    )
    assert fit.raw.rate == 75 and fit.form == alpaca_eval.MINIMAL
    assert result.overall == pytest.approx((fit.rate, fit.rate - half, fit.rate + half))
    assert result.beside[alpaca_eval.RAW] == 75 and "weight psi" not in result.beside, (
        "no difficulty, no weight of it"
    )
    nothing = score(QUESTIONS, OURS, verdicts(lambda i: None))
    assert nothing.unparsable == N and np.isnan(nothing.overall).all()
    few = score(QUESTIONS, OURS, verdicts(lambda i: i % 2 > 0 if i < 4 else None))
    assert np.isnan(few.overall).all() and few.unparsable == N - 4, (
        "fewer verdicts than folds give no fit"
    )
    level = answers_of(lambda i: "c" * 20)
    assert np.isnan(score(QUESTIONS, level, verdicts(lambda i: True)).overall).all(), (
        "no lengths to control for"
    )


def test_a_fit_without_any_weight_gives_no_rate():
    """It was 50 % for each of six policies: cross-validation on 60 questions chose the penalty that leaves nothing."""
    result = score(QUESTIONS, OURS, verdicts(lambda i: i % 2 > 0))
    assert np.isnan(result.overall).all() and result.beside[alpaca_eval.RAW] == 50
    assert result.beside["weight phi"] == result.beside["weight theta"] == 0


def test_a_fit_with_a_weight_of_length_alone_gives_no_rate():
    """An answer wins where it is longer: theta is 0, so the rate would be 50 whatever was judged."""
    level = replace(QUESTIONS, baseline=answers_of(lambda i: "b" * 20))
    ours = answers_of(lambda i: "a" * (10 if i % 2 else 30))
    result = score(level, ours, verdicts(lambda i: i % 2 == 0))
    assert result.beside["weight phi"] != 0 and result.beside["weight theta"] == 0
    assert np.isnan(result.overall).all() and result.beside[alpaca_eval.RAW] == 50


def test_generated_instructions_are_never_called_alpaca_eval():
    questions = alpaca_eval.load("postcards", n=5, seed=1)
    assert questions.title == "generated questions (not AlpacaEval 2)" and len(
        questions
    ) == 5 == len(questions.baseline)


def test_outputs_are_those_that_the_package_reads(tmp_path):
    rows = json.loads(save_outputs(tmp_path / "m.json", "m", OURS).read_text())
    assert len(rows) == N and rows[1] == {
        "instruction": "say 1",
        "output": "a" * 11,
        "generator": "m",
    }


def published(folder, text):
    (folder / "alpaca_eval").mkdir()
    (folder / "alpaca_eval" / "alpaca_eval_clf.txt").write_text(text)
    return folder


def test_the_prompt_keeps_its_own_braces_and_fills_three_fields(tmp_path):
    """The published text is half JSON: only the three fields are filled in, also with texts that have braces."""
    system = "<|im_start|>system\nYou rank.\n<|im_end|>\n"
    user = '<|im_start|>user\n{\n "i": "{instruction}"\n}\n{output_1} {output_2}\n<|im_end|>'
    prompt = alpaca_eval.prompts("folder", published(tmp_path, system + user))
    (_, system), (_, user) = prompt.fill(instruction="{output_2}", output_1="one", output_2="two")
    assert system == "You rank." and user == '{\n "i": "{output_2}"\n}\none two'


def test_a_prompt_without_its_fields_is_refused(tmp_path):
    with pytest.raises(DataError, match="lacks output_1"):
        alpaca_eval.prompts(
            "folder", published(tmp_path, "<|im_start|>user\n{instruction}\n<|im_end|>")
        )
    (tmp_path / "alpaca_eval" / "alpaca_eval_clf.txt").write_bytes(b"<|im_start|>user\n\xff")
    with pytest.raises(DataError, match=r"broken UTF-8, byte 18.*alpaca_eval_clf.txt"):
        alpaca_eval.prompts("folder", tmp_path)


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.skipif(
    not find_spec("alpaca_eval"), reason="alpaca_eval is not installed (the peers extra)"
)
def test_the_prompt_of_the_package_is_read(tmp_path):
    (place,) = find_spec("alpaca_eval").submodule_search_locations
    text = (
        Path(place) / FILES["AlpacaEval 2/prompts"].hub["both"][0].partition("src/alpaca_eval/")[2]
    ).read_text()
    (role, _), (_, user) = alpaca_eval.prompts("folder", published(tmp_path, text)).fill(
        instruction="I", output_1="one", output_2="two"
    )
    expected = text.partition("<|im_start|>user\n")[2].partition("\n<|im_end|>")[0]
    for name, value in (("instruction", "I"), ("output_1", "one"), ("output_2", "two")):
        expected = expected.replace(f"{{{name}}}", value)
    assert role == "system" and user == expected


@needs_data
def test_the_published_instructions():
    """805 in five sets; a subset is spread over them and keeps the baseline's answers to its own instructions."""
    questions = alpaca_eval.load("folder")
    assert questions.title == "AlpacaEval 2" and len(questions) == 805 == len(questions.baseline)
    some = alpaca_eval.load("folder", n=10, seed=1)
    assert (
        some.title == "AlpacaEval 2, 10 of 805 questions"
        and len({some.categories[group.id] for group in some.groups}) == 5
    )
    assert [a.id for a in some.baseline] == [f"{group.id}/1" for group in some.groups]
    assert set(some.baseline) < set(questions.baseline)
    rows, *_ = alpaca_eval.read_mirror(Path(DATA) / "alpaca_eval")
    lengths = rows.drop_duplicates("i").sort_values("i").baseline_length
    assert characters(questions.baseline).tolist() == lengths.tolist()
