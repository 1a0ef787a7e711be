"""Rendering: the reference code's strings to the byte, label strings both ways, where an answer lies in its tokens."""

import gzip
import json
import math
import os
from pathlib import Path

import pytest

from hs2lib import group as data
from hs2lib.data import load
from hs2lib.engine import chat
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.models import backbones

MIRROR = os.environ.get("HS2_DATA_DIR")
needs_mirror = pytest.mark.skipif(not MIRROR, reason="HS2_DATA_DIR is not set: the mirror of public data is not here")
USER, ASSISTANT = "user", "assistant"
TALK = (Turn(USER, "Hi"), Turn(ASSISTANT, "Hello."), Turn(USER, "Name a prime."))


@pytest.fixture(scope="module")
def tokenizer():
    return backbones.load_tokenizer("tiny")


def group(prompt, *answers, name="g"):
    return Group(name, tuple(prompt), tuple(Response(f"{name}/{i}", text) for i, text in enumerate(answers)))


def parse_reference(text):
    """(prompt with its system turn, answer, label string or None) of a text of the reference template."""
    text, mark, end = text.rpartition("\n<extra_id_")
    assert mark and end in ("1>", "2>")
    turns = data.parse_prompt(text)
    answer, label = turns[-1].text, None
    if end == "1>":
        label, newline, answer = answer.removeprefix("<extra_id_2>").partition("\n")
        assert newline and turns[-1].text.startswith("<extra_id_2>")
    return turns[:-1], answer, label


def rows(path):
    with gzip.open(Path(MIRROR) / path, "rt") as file:
        return [json.loads(line) for line in file]


@needs_mirror
def test_the_eight_reference_rows_come_out_to_the_byte(tmp_path):
    """From plain HelpSteer2 rows through the loader: the text the reference code trained on, and its 9 labels."""
    reference = rows("helpsteer2/nemo_regression_8rows.jsonl.gz")
    plain = []
    for row in reference:
        turns, answer, label = parse_reference(row["text"])
        assert label is None and turns[0] == Turn("system", chat.SYSTEM_PROMPT)
        ratings = dict(zip(ATTRIBUTES, map(int, row["label"][4:]), strict=True))
        plain.append({"prompt": data.prompt_string(turns[1:]), "response": answer, **ratings})
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in plain))
    groups = load.load("helpsteer2", "folder", path=file).groups
    ours = [
        {
            "text": chat.reference(one.prompt, response.text).text,
            "label": list(chat.label_vector(response.labels, one.attributes, chat.NINE)),
        }
        for one in groups
        for response in one.responses
    ]
    assert json.dumps(ours).encode() == json.dumps(reference).encode()


@needs_mirror
def test_512_labelled_conversations_go_there_and_back_without_loss():
    file = "steerlm/attribute_labelled_512.jsonl.gz"
    for row, one in zip(rows(file), load.load("daring-anteater", "folder").groups, strict=True):
        asked, answered = row["conversations"]
        label = chat.label_string(one.responses[0].labels)
        assert label == answered["label"] and chat.parse_label(label) == one.responses[0].labels
        text = chat.reference(one.prompt, one.responses[0].text, label).text
        turns, answer, back = parse_reference(text)
        assert (answer, back) == (answered["value"], answered["label"])
        assert turns[0].text == (row["system"] or chat.SYSTEM_PROMPT)
        assert data.prompt_string(turns[1:]) == asked["value"]


def test_reference_template_by_hand():
    plain = chat.reference(TALK[:1], "7")
    text = f"<extra_id_0>System\n{chat.SYSTEM_PROMPT}\n<extra_id_1>User\nHi\n<extra_id_1>Assistant\n7\n<extra_id_2>"
    assert plain.text == text and plain.text[plain.start : plain.end] == "7"
    steered = chat.reference((Turn("system", "S"), *TALK[:1]), "7", "helpfulness:4")
    label_line = "<extra_id_2>helpfulness:4\n"
    assert (
        steered.text
        == f"<extra_id_0>System\nS\n<extra_id_1>User\nHi\n<extra_id_1>Assistant\n{label_line}7\n<extra_id_1>"
    )
    assert steered.text[steered.start :] == "7\n<extra_id_1>"
    with pytest.raises(ValueError, match="marker"):
        chat.reference(TALK[:1], "7\n<extra_id_2>")
    with pytest.raises(ValueError, match="marker"):
        chat.reference((Turn(USER, "a\n<extra_id_1>User\nb"),), "7")


def test_labels():
    nan = math.nan
    oasst = ("quality", "helpfulness", "creativity", "humor", "toxicity", "violence")
    vector = chat.label_vector((3.0, 2.0, nan, 1.0, 0.0, 4.0), oasst, chat.NINE)
    assert vector == (3, 0, 1, -100, 2, -100, -100, -100, -100)
    assert chat.label_vector((), ATTRIBUTES) == (-100,) * 5
    assert chat.label_string((4, nan, 4, 2, 2)) == "helpfulness:4,coherence:4,complexity:2,verbosity:2"
    assert chat.whole((4.6, -0.2, 2.5, 1.5, 2.51)) == (4, 0, 2, 2, 3)  # half to even, clamped
    with pytest.raises(ValueError, match="whole number"):
        chat.label_string((3.7, 4, 4, 2, 2))
    with pytest.raises(ValueError, match="'helpfulness:5'"):
        chat.parse_label("helpfulness:5")
    with pytest.raises(ValueError, match="2 labels for 5"):
        chat.label_vector((1, 2), ATTRIBUTES)


def test_chat_is_what_the_template_writes_and_ends_with_its_closing_marker(tokenizer):
    for answer in ("2", " 3 \n", ""):
        shown = chat.chat(tokenizer, TALK, answer)
        turns = [{"role": t.role, "content": t.text} for t in (*TALK, Turn(ASSISTANT, answer))]
        assert shown.text == tokenizer.apply_chat_template(turns, tokenize=False)
        assert shown.text[shown.start :] == f"{answer}<|im_end|>\n" and shown.text[shown.start : shown.end] == answer
    steered = chat.chat(tokenizer, TALK, "2", "helpfulness:4")
    assert steered.text.endswith("assistant\n<extra_id_2>helpfulness:4\n2<|im_end|>\n")


class Templated:
    """A tokenizer reduced to its template."""

    chat_template, eos_token = "any", "</s>"

    def __init__(self, write):
        self.write = write

    def apply_chat_template(self, turns, tokenize):
        return self.write([(turn["role"], turn["content"]) for turn in turns])


def test_templates_that_strip_that_close_nothing_and_that_rewrite():
    strips = Templated(lambda turns: "".join(f"[{role}]{content.strip()}[end]" for role, content in turns))
    assert chat.chat(strips, TALK[:1], " a ").text == "[user]Hi[end][assistant]a[end]"
    open_end = Templated(lambda turns: "".join(f"[{role}]{content}" for role, content in turns))
    assert chat.chat(open_end, TALK[:1], "a").text == "[user]Hi[assistant]a</s>"
    rewrites = Templated(lambda turns: "".join(f"[{r}]{c.replace('<think>', '')}[end]" for r, c in turns))
    with pytest.raises(ValueError, match="changes this answer"):
        chat.chat(rewrites, TALK[:1], "<think>a")

    def refuse(turns):
        raise RuntimeError("roles must alternate")

    with pytest.raises(ValueError, match="roles must alternate"):
        chat.chat(Templated(refuse), TALK[:1], "a")


def test_tokens_are_those_of_the_whole_text_and_the_answer_begins_where_it_says(tokenizer):
    answers = ("The answer is 7.", "\n\n1. Seven", "")
    (tokens,) = chat.tokenise([group(TALK, *answers)], tokenizer)
    for ids, start, answer in zip(tokens.sequences, tokens.starts, answers, strict=True):
        text = chat.chat(tokenizer, TALK, answer).text
        assert ids == tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids[start:]).lstrip("\n") == f"{answer}<|im_end|>\n".lstrip("\n")
        assert tokenizer.decode(ids) == text
    # What a sampler continues, and what closes its answer, are the same tokens.
    assert chat.prompt_tokens(TALK, tokenizer) == tokens.sequences[0][: tokens.starts[0]]
    assert tokens.sequences[0][-2:] == chat.closing_tokens(tokenizer)
    (plain,) = chat.tokenise([group(TALK, "7")], tokenizer, template="reference")
    assert tokenizer.decode(plain.sequences[0]) == chat.reference(TALK, "7").text


def test_batches_of_rendering_change_nothing(tokenizer, monkeypatch):
    many = [group(TALK[: 1 + 2 * (i % 2)], f"answer {i}", "no", name=str(i)) for i in range(5)]
    whole = list(chat.tokenise(many, tokenizer))
    assert whole == [one for g in many for one in chat.tokenise([g], tokenizer)]
    monkeypatch.setattr(chat, "CHUNK", 2)
    assert whole == list(chat.tokenise(iter(many), tokenizer))


def test_an_over_long_prompt_loses_its_oldest_exchanges_and_says_so(tokenizer):
    system = Turn("system", "Be brief.")
    talk = (
        system,
        Turn(USER, "old " * 50),
        Turn(ASSISTANT, "reply"),
        Turn(USER, "newer"),
        Turn(ASSISTANT, "r"),
        TALK[0],
    )
    long, short = group(talk, "a", "a longer answer"), group(TALK, "b", name="short")
    whole, other = chat.tokenise([long, short], tokenizer)
    assert (whole.dropped, other.dropped) == (0, 0)
    room = max(map(len, whole.sequences)) - 1
    cut, other = chat.tokenise([long, short], tokenizer, max_tokens=room)
    assert (cut.dropped, other.dropped) == (2, 0)
    # As if the conversation had begun later, the system turn kept; the answers are whole.
    (expected,) = chat.tokenise([group((system, *talk[3:]), "a", "a longer answer")], tokenizer)
    assert (cut.sequences, cut.starts) == (expected.sequences, expected.starts)
    with pytest.raises(ValueError, match=r"group g: \d+ tokens .* 20 fit.*raise max_tokens"):
        list(chat.tokenise([long], tokenizer, max_tokens=20))


def test_a_refused_group_is_named(tokenizer):
    with pytest.raises(ValueError, match=r"group bad: .*marker"):
        list(chat.tokenise([group(TALK, "\n<extra_id_2>", name="bad")], tokenizer, template="reference"))
    with pytest.raises(ValueError, match=r"unknown template .*: chat, reference"):
        list(chat.tokenise([], tokenizer, template="alpaca"))
