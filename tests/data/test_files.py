"""Files of prompts and responses: what is read, and what is one clear error with the option to add.

A file that is read in another way than its owner means it gives scores that nobody can tell are
wrong. So columns have fixed names, or the user names them.
"""

import json

import pandas as pd
import pytest

from hs2lib.data.files import parse_columns, read_file
from hs2lib.data.rows import PLAIN_NUMBER, DataError
from hs2lib.group import Turn


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(tmp_path, *rows, columns="", **options):
    return read_file(written(tmp_path / "mine.jsonl", *rows), parse_columns(columns), **options)


def texts(file):
    """(last turn of the prompt, texts of the responses) of each row."""
    return [
        (group.prompt[-1].text, *[response.text for response in group.responses])
        for group in file.groups
    ]


def talk(*spoken):
    return [
        {"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(spoken)
    ]


def refused(tmp_path, *rows, **options):
    with pytest.raises(DataError) as error:
        read(tmp_path, *rows, **options)
    return str(error.value)


# Shapes


@pytest.mark.parametrize(
    ("row", "read_as"),
    [
        ({"prompt": "p", "response": "a"}, ("p", "a")),
        ({"prompt": talk("p"), "response": "a"}, ("p", "a")),
        ({"prompt": talk("p"), "response": [{"role": "assistant", "content": "a"}]}, ("p", "a")),
        ({"messages": talk("p", "a")}, ("p", "a")),
        ({"prompt": "p", "chosen": "a", "rejected": "b"}, ("p", "a", "b")),
        ({"chosen": talk("p", "a"), "rejected": talk("p", "b")}, ("p", "a", "b")),
        ({"prompt": "p", "chosen": talk("p", "a"), "rejected": talk("p", "b")}, ("p", "a", "b")),
        ({"prompt": "p", "response_a": "a", "response_b": "b"}, ("p", "a", "b")),
        ({"prompt": "p", "responses": ["a", "b", "c"]}, ("p", "a", "b", "c")),
        ({"prompt": "p", "responses": [talk("p", "a"), "b"]}, ("p", "a", "b")),
    ],
)
def test_the_shapes_of_a_row(tmp_path, row, read_as):
    file = read(tmp_path, row)
    assert texts(file) == [read_as]
    assert not file.carried


def test_what_is_not_read_is_carried_and_messages_give_way(tmp_path):
    """UltraFeedback has the chosen conversation under `messages` too."""
    row = {"prompt": "p", "chosen": talk("p", "a"), "rejected": talk("p", "b")}
    file = read(tmp_path, row | {"messages": row["chosen"], "lang": "en"})
    assert texts(file) == [("p", "a", "b")] and file.carried == ["messages", "lang"]
    assert list(file.columns) == ["prompt", "chosen", "rejected"]


def test_markers_of_helpsteer2_and_a_system_turn_make_a_conversation(tmp_path):
    marked = "a\n<extra_id_1>Assistant\nx\n<extra_id_1>User\ny"
    (group,) = read(tmp_path, {"prompt": marked, "response": "r"}).groups
    assert group.prompt == (Turn("user", "a"), Turn("assistant", "x"), Turn("user", "y"))
    system = [{"role": "system", "content": "s"}, *talk("p")]
    (group,) = read(tmp_path, {"prompt": system, "response": talk("p", "r")}).groups
    assert group.prompt == (Turn("system", "s"), Turn("user", "p"))


# Which response is better


def test_preferences_have_the_sign_of_a_group(tmp_path):
    """Negative where the first response is better, 0 for a tie."""
    two = {"prompt": "p", "response_a": "a", "response_b": "b"}
    verdicts = ["a", "B", "model_b", "tie", "tie (bothbad)"]
    file = read(tmp_path, *[two | {"winner": verdict} for verdict in verdicts])
    assert [group.preference for group in file.groups] == [-1, 1, 1, 0, 0]
    assert [row.comparisons for row in file.rows] == [((0, 1),), ((1, 0),), ((1, 0),), (), ()]
    assert file.ties == 2
    file = read(tmp_path, *[two | {"preference_strength": strength} for strength in (-3, 0, 2)])
    assert [group.preference for group in file.groups] == [-3, 0, 2] and file.ties == 1
    file = read(tmp_path, two)
    assert file.groups[0].preference is None and file.rows[0].comparisons == () and not file.ties


def test_a_margin_is_minus_the_preference_and_0_is_a_tie(tmp_path):
    pair = {"prompt": "p", "chosen": "a", "rejected": "b"}
    file = read(tmp_path, *[pair | {"margin": margin} for margin in (2.5, 0)])
    assert [group.preference for group in file.groups] == [-2.5, 0] and file.ties == 1
    assert read(tmp_path, pair).groups[0].preference == -1


def test_scores_compare_every_two_responses_that_differ(tmp_path):
    several = {"prompt": "p", "responses": ["a", "b", "c"]}
    file = read(tmp_path, several | {"scores": [2, 3.5, 2]}, several | {"scores": [1, 1, 1]})
    assert file.rows[0].comparisons == ((1, 0), (1, 2))
    assert file.rows[0].places == (("responses", 0), ("responses", 1), ("responses", 2))
    assert [row.tie for row in file.rows] == [False, True]


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"winner": "left"}, "winner", "expected a, b or tie"),
        ({"winner": 1}, "winner", "expected a, b or tie, got 1"),
        ({"winner": None}, "winner", "expected a, b or tie, got null"),
        ({"preference_strength": 1.5}, "preference_strength", "a whole number from -3 to 3"),
        ({"winner": "a", "preference_strength": 1}, "winner", "both say which response is better"),
    ],
)
def test_a_verdict_that_says_nothing_is_a_fault(tmp_path, change, field, words):
    row = {"prompt": "p", "response_a": "a", "response_b": "b"} | change
    message = refused(tmp_path, row)
    assert f"line 1, field {field!r}: " in message and words in message and "Fix: " in message


# Columns under other names


def test_columns_are_named_by_the_user(tmp_path):
    row = {"Question": "p", "out 1": "a", "out 2": "b", "note": 7}
    columns = "prompt=Question,chosen=out 2,rejected=out 1"
    file = read(tmp_path, row, columns=columns)
    assert texts(file) == [("p", "b", "a")] and file.carried == ["note"]
    assert file.rows[0].places == (("out 2", None), ("out 1", None))
    assert file.rows[0].row == row


def test_a_name_that_is_given_to_another_column_leaves_ours_unread(tmp_path):
    row = {"prompt": "old", "question": "p", "response": "a"}
    file = read(tmp_path, row, columns="prompt=question")
    assert texts(file) == [("p", "a")] and file.carried == ["prompt"]


@pytest.mark.parametrize(
    ("row", "option"),
    [
        ({"question": "p", "answer": "a"}, "prompt=question,response=answer"),
        ({"Prompt": "p", "Response": "a"}, "prompt=Prompt,response=Response"),
        ({"prompt": "p", "output_1": "a", "output_2": "b", "label": 1},
         "response_a=output_1,response_b=output_2,winner=label"),
        ({"instruction": "p", "preferred": "a", "reject": "b"},
         "prompt=instruction,chosen=preferred,rejected=reject"),
        ({"prompt": "p", "Response A": "a", "Response B": "b", "winner": "a"},
         "'response_a=Response A,response_b=Response B'"),
        ({"query": "p", "completions": ["a"]}, "prompt=query,responses=completions"),
        ({"conversations": []}, "messages=conversations"),
    ],
)  # fmt: skip
def test_usual_names_are_suggested_and_not_read(tmp_path, row, option):
    """The error prints the option to add, once for the file."""
    message = refused(tmp_path, row, row)
    assert message.endswith(f"add --columns {option}.") and len(message.splitlines()) == 1


def test_unknown_names_are_listed(tmp_path):
    message = refused(tmp_path, {"frage": "p", "antwort": "a"})
    assert "the row has: frage, antwort" in message
    assert "--columns prompt=COLUMN,response=COLUMN" in message
    message = refused(tmp_path, {"frage": "p", "response": "a"})
    assert "field 'prompt': no prompt; the row has: frage, response" in message
    message = refused(tmp_path, {"question": "p", "response": "a"})
    assert "add --columns prompt=question." in message


def test_two_shapes_in_a_row_are_asked_about(tmp_path):
    row = {"prompt": "p", "chosen": "a", "rejected": "b", "response": "c"}
    message = refused(tmp_path, row)
    assert "--columns chosen=chosen,rejected=rejected or --columns response=response" in message
    assert texts(read(tmp_path, row, columns="response=response")) == [("p", "c")]


def test_a_named_column_that_is_not_there_refuses_the_file(tmp_path):
    rows = [{"prompt": "p", "reply": "r"}] * 2
    message = refused(tmp_path, *rows, columns="response=rply", strict=False)
    assert "field 'rply': columns names it for response, and the row has: prompt, reply" in message
    rows = [{"prompt": "p", "reply": "r"}, {"prompt": "p"}]
    message = refused(tmp_path, *rows, columns="response=reply")
    assert (
        "line 2, field 'reply': columns names it for response, and the row has: prompt" in message
    )
    file = read(tmp_path, *rows, columns="response=reply", strict=False)
    assert texts(file) == [("p", "r")] and file.set_aside[0].line == 2


def test_a_name_that_the_shape_does_not_read_refuses_the_file(tmp_path):
    """A slip of the pen would leave the margin unread."""
    row = {"prompt": "p", "chosen": "a", "rejected": "b", "strength": 3}
    message = refused(tmp_path, row, columns="margins=strength")
    assert "field 'strength': columns names it for margins, which is not read here" in message
    assert "prompt, chosen, rejected, margin" in message


def test_the_option_keeps_what_was_named_already(tmp_path):
    """A second --columns replaces the first one."""
    message = refused(tmp_path, {"question": "p", "answer": "a"}, columns="response=answer")
    assert message.endswith("add --columns response=answer,prompt=question.")
    row = {"question": "p", "good": "a", "rejected": "b", "response": "c"}
    message = refused(tmp_path, row, columns="prompt=question,chosen=good")
    assert "--columns prompt=question,chosen=good,rejected=rejected" in message


def test_conversations_are_read_beside_a_response_where_they_are_named(tmp_path):
    row = {"response": "a", "prompt": "q", "messages": talk("q", "b")}
    assert texts(read(tmp_path, row)) == [("q", "a")]
    assert texts(read(tmp_path, row, columns="messages=messages")) == [("q", "b")]


def test_no_option_is_printed_that_says_nothing(tmp_path):
    message = refused(tmp_path, {"chosen": "a", "rejected": "b"})
    assert "--columns" not in message and "give one, or conversations as responses" in message


@pytest.mark.parametrize(
    "text", ["prompt", "=a", "prompt=", "prompt=a,prompt=b", "prompt=a,response=a"]
)
def test_an_option_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="as prompt=question,response=answer"):
        parse_columns(text)


# Faults


@pytest.mark.parametrize(
    ("row", "field", "words"),
    [
        ({"prompt": "p", "response": " "}, "response", 'expected text or a list of {role, content}, got " "'),
        ({"prompt": 7, "response": "r"}, "prompt", "expected text or a list of {role, content}, got 7"),
        ({"prompt": "p"}, "response", "the column is missing; the row has: prompt"),
        ({"prompt": "p", "response": None}, "response", "got null"),
        ({"prompt": "p", "response": ["a"]}, "response[0]", "expected an object with named columns"),
        ({"prompt": "p", "response": talk("a")}, "response", "the last message is the user's"),
        ({"prompt": talk("a", "b"), "response": "r"}, "prompt", "the last message is the assistant's"),
        ({"prompt": [], "response": "r"}, "prompt", "got []"),
        ({"prompt": "z", "response": talk("a", "b")}, "response", "does not begin with the prompt"),
        ({"prompt": "p", "response": [{"role": "tool", "content": "a"}]}, "response[0].role", 'got "tool"'),
        ({"prompt": [{"role": "user"}], "response": "a"}, "prompt[0].content", "the column is missing"),
    ],
)  # fmt: skip
def test_bad_rows_are_named_by_line_and_column_or_set_aside(tmp_path, row, field, words):
    good = {"prompt": "p", "response": "r"}
    message = refused(tmp_path, good, row)
    assert f"mine.jsonl, line 2, field {field!r}: " in message and words in message
    assert "Fix: " in message and "strict=False" in message
    file = read(tmp_path, good, row, strict=False)
    assert len(file.rows) == 1 and [aside.line for aside in file.set_aside] == [2]


def test_a_fault_is_under_the_files_own_name(tmp_path):
    row = {"question": "p", "answer": " "}
    message = refused(tmp_path, row, columns="prompt=question,response=answer")
    assert "line 1, field 'answer': " in message


def test_conversations_of_two_prompts_are_no_pair(tmp_path):
    message = refused(tmp_path, {"chosen": talk("p", "a"), "rejected": talk("q", "b")})
    assert "field 'rejected': its conversation does not begin with the prompt" in message


def test_all_rows_have_the_columns_of_the_first(tmp_path):
    """A row without a margin would count as one of 1."""
    pair = {"prompt": "p", "chosen": "a", "rejected": "b"}
    message = refused(tmp_path, pair | {"margin": 2}, pair)
    assert "line 2, field 'margin': " in message
    message = refused(tmp_path, pair, pair | {"margin": 2})
    assert "line 2, field 'margin': the first row has no such column" in message
    message = refused(tmp_path, pair, {"prompt": "p", "response": "a"})
    assert "field 'chosen': the column is missing" in message


def test_as_many_scores_as_responses(tmp_path):
    message = refused(tmp_path, {"prompt": "p", "responses": ["a", "b"], "scores": [1]})
    assert "field 'scores': 1 scores of 2 responses" in message


# Cells of CSV


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_cells_between_commas_semicolons_or_tabs(tmp_path, separator):
    path = tmp_path / "mine.csv"
    lines = [("prompt", "response", "note"), ("a, b; c\td", "e", "1,5")]
    cells = [separator.join(f'"{cell}"' for cell in line) for line in lines]
    path.write_text("\ufeff" + "\n".join(cells) + "\n")
    file = read_file(path)
    assert texts(file) == [("a, b; c\td", "e")] and file.rows[0].row["note"] == "1,5"


def test_lists_in_cells_are_json(tmp_path):
    """What str() of a list gives is not JSON, and would be scored as a text."""
    path = tmp_path / "mine.csv"

    def cells(**row):
        pd.DataFrame([row]).to_csv(path, index=False)
        return path

    said = json.dumps(talk("p", "a"))
    assert texts(read_file(cells(messages=said))) == [("p", "a")]
    assert texts(read_file(cells(prompt="p", response=said))) == [("p", "a")]
    several = read_file(cells(prompt="p", responses='["a", "b"]', scores="[1, 0.5]"))
    assert texts(several) == [("p", "a", "b")] and several.rows[0].comparisons == ((0, 1),)
    assert texts(read_file(cells(prompt="p", response="[1, 2]"))) == [("p", "[1, 2]")]
    for row in (
        {"prompt": "p", "response": str(talk("p", "a"))},
        {"prompt": "p", "responses": "['a', 'b']"},
        {"prompt": "p", "response": '[{"role": ' + "[" * 100_000},
        {"prompt": "array([{'role': 'user', 'content': 'p'}], dtype=object)", "response": "a"},
    ):
        with pytest.raises(DataError, match=r"line 2, .*expected a list as JSON"):
            read_file(cells(**row))
    for row in (
        {"prompt": '[{"from": "human", "value": "p"}]', "response": "a"},
        {"prompt": "p", "responses": '["a", "b"]', "scores": "[true, false]"},
        {"prompt": "p", "responses": '["a", "b"]', "scores": '["1", "2"]'},
    ):
        with pytest.raises(DataError, match=r"line 2, field '(prompt|scores)"):
            read_file(cells(**row))


def test_names_in_quotes_are_no_separators_and_a_space_before_a_quote_is_none(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text('prompt, response,"rating (1;2;3;4)"\n"hello", "there, you",1\n')
    file = read_file(path)
    assert texts(file) == [("hello", "there, you")] and file.carried == ["rating (1;2;3;4)"]


def test_a_long_cell_of_digits_takes_no_time(tmp_path):
    """It took the square of its length."""
    assert not PLAIN_NUMBER.fullmatch("1" * 200_000 + "x")


def test_an_empty_cell_is_a_fault_and_nothing_stands_in(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("prompt,question,response\np,q,a\n,q,b\n")
    with pytest.raises(DataError, match=r"line 3, field 'prompt': expected text .*got null"):
        read_file(path)


def test_parquet_with_lists_of_messages(tmp_path):
    path = tmp_path / "mine.parquet"
    pd.DataFrame([{"chosen": talk("p", "a"), "rejected": talk("p", "b")}]).to_parquet(path)
    assert texts(read_file(path)) == [("p", "a", "b")]


def test_a_limit_leaves_the_rest_unread(tmp_path):
    rows = [{"prompt": "p", "response": str(i)} for i in range(3)] + [{"prompt": "p"}]
    file = read(tmp_path, *rows, limit=3)
    assert len(file.rows) == 3 and not file.complete
    assert read(tmp_path, *rows[:3], limit=4).complete
    assert [group.id for group in file.groups] == ["mine/0", "mine/1", "mine/2"]


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.csv", "mine.json", "mine.parquet"])
def test_an_empty_file_is_one_clear_error(tmp_path, name):
    (tmp_path / name).write_text("[]" if name.endswith("json") else "")
    with pytest.raises(DataError, match=r"the file has no rows|not a sound Parquet file"):
        read_file(tmp_path / name)
