"""Rows longer than a model reads: told before anything is scored, left out, or cut and said how.

A score of a text that was cut in silence looks like any other. Each cut text here is the longest
that the model reads, and nothing besides is changed.
"""

import json

import pytest

from hs2lib.data.files import read_file
from hs2lib.data.rows import DataError
from hs2lib.group import Turn
from hs2lib.models.reward_model import RewardModel
from hs2lib.score.fit import fit


@pytest.fixture(scope="module")
def model():
    """A model that reads 120 tokens."""
    return RewardModel.new("tiny", max_tokens=120)


@pytest.fixture
def file_of(tmp_path):
    def read(*rows):
        path = tmp_path / "mine.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return read_file(path)

    return read


SHORT = {"prompt": "Why?", "response": "So."}
LONG_ANSWER = {"prompt": "Why?", "response": "no way " * 200}
LONG_PROMPT = {"prompt": "why not " * 200, "response": "So it is."}
TALK = [
    {"role": role, "content": text}
    for role, text in (("system", "Be brief."), ("user", "old " * 90), ("assistant", "r"), ("user", "new"))
]  # fmt: skip
OLD_TURNS = {"prompt": TALK, "response": "So."}


def lengths(groups, model):
    """The tokens of each response of groups that fit."""
    return [[len(ids) for ids in tokens.sequences] for tokens in model.tokenise(groups)]


def test_long_rows_stop_before_anything_is_scored(file_of, model):
    """All are counted, the first is named with its length, and what to do is said."""
    file = file_of(SHORT, LONG_ANSWER, LONG_PROMPT, OLD_TURNS)
    with pytest.raises(DataError) as error:
        fit(file, model)
    message = str(error.value)
    assert "mine.jsonl, line 2: " in message and "the model reads 120" in message
    assert "rows that are too long: 3" in message and "--too-long cut" in message


def test_long_rows_are_left_out(file_of, model):
    fitted = fit(file_of(SHORT, LONG_ANSWER, OLD_TURNS), model, "leave-out")
    assert [group is None for group in fitted.groups] == [False, True, True]
    assert list(fitted.left_out) == [2, 3] and fitted.left_out[2] > 120 and not fitted.cut


def test_a_response_loses_its_end_and_the_prompt_stays(file_of, model):
    file = file_of(SHORT, LONG_ANSWER)
    fitted = fit(file, model, "cut")
    short, long = fitted.groups
    assert short is file.groups[0]
    text = long.responses[0].text
    assert long.prompt == file.groups[1].prompt
    assert LONG_ANSWER["response"].startswith(text) and len(text) < 1400
    assert lengths([long], model) == [[120]]
    assert list(fitted.cut) == [2] and fitted.cut[2].startswith(f"{1400 - len(text):,} ")


def test_a_prompt_loses_its_end_and_the_response_stays(file_of, model):
    fitted = fit(file_of(LONG_PROMPT), model, "cut")
    (group,) = fitted.groups
    assert group.responses[0].text == "So it is."
    assert LONG_PROMPT["prompt"].startswith(group.prompt[0].text)
    ((n_tokens,),) = lengths([group], model)
    assert 117 <= n_tokens <= 120, "a character less or more may be a token or none"
    assert list(fitted.cut) == [1]


def test_of_two_long_responses_each_is_cut_and_both_see_one_prompt(file_of, model):
    row = {"prompt": "why not " * 200, "chosen": "yes " * 300, "rejected": "No."}
    (group,) = fit(file_of(row), model, "cut").groups
    assert group.responses[1].text == "No."
    (tokens,) = model.tokenise([group])
    assert 55 <= tokens.starts[0] <= 60, "the prompt keeps half"
    assert len(tokens.sequences[0]) == 120


def test_older_turns_go_first_and_the_system_turn_stays(file_of, model):
    """Nothing of a text is cut where that is enough."""
    fitted = fit(file_of(OLD_TURNS), model, "cut")
    assert list(fitted.cut) == [1] and fitted.groups[0].prompt[1].text == "old " * 90
    both = {"prompt": TALK, "response": "no way " * 200}
    fitted = fit(file_of(both), model, "cut")
    assert fitted.groups[0].prompt == (Turn("system", "Be brief."), Turn("user", "new"))


def test_what_no_cut_makes_fit_is_an_error(file_of):
    talk = [{"role": "system", "content": "rule " * 200}, {"role": "user", "content": "Hi"}]
    file = file_of({"prompt": talk, "response": "So."})
    with pytest.raises(DataError, match="line 1: it cannot be cut to the 120 tokens"):
        fit(file, RewardModel.new("tiny", max_tokens=120), "cut")


def test_letters_of_several_bytes_are_not_taken_for_short(file_of, model):
    """Text of few characters may have many tokens; a bound by characters would let it through."""
    fitted = fit(file_of({"prompt": "Why?", "response": "日本語の文" * 40}), model, "leave-out")
    assert list(fitted.left_out) == [1]


def test_an_unknown_way_is_refused(file_of, model):
    with pytest.raises(ValueError, match="unknown too_long 'trim'"):
        fit(file_of(SHORT), model, "trim")
