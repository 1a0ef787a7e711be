"""Files of prompts and responses: what is recognised, what is asked about, and what is one clear error.

A file that is read in another way than its owner means it gives scores that nobody can tell are
wrong. So names decide, in words, or the user does.
"""

import json

import pandas as pd
import pytest

from hs2lib.data import rows as data_rows
from hs2lib.data.layouts import Columns, checked_columns, has_several
from hs2lib.data.rows import DataError
from hs2lib.data.shapes import read_prompts
from hs2lib.group import Turn


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(tmp_path, *rows, **options):
    return read_prompts(written(tmp_path / "mine.jsonl", *rows), **options)


def texts(file):
    """(last turn of the prompt, texts of the responses) of each row."""
    return [
        (group.prompt[-1].text, *[response.text for response in group.responses])
        for group in file.groups
    ]


@pytest.mark.parametrize(
    ("row", "read_as"),
    [
        ({"prompt": "a", "response": "b"}, ""),
        ({"Question": "a", "Answer": "b"}, "prompt from Question; responses from Answer"),
        ({"query": "a", "completion": "b"}, "prompt from query; responses from completion"),
        ({"history": "a", "output": "b"}, "prompt from history; responses from output"),
        ({"prompt": [{"role": "user", "content": "a"}], "response": "b"}, ""),
        (
            {"context": [{"role": "user", "content": "a"}], "response": [{"role": "assistant", "content": "b"}]},
            "prompt from context",
        ),
        (
            {"messages": [{"role": "user", "content": "a"}], "response": "b"},
            "prompt from messages",
        ),
        # What a column is called exactly counts more than what it may be.
        ({"prompt": "a", "question": "c", "response": "b", "answer": "d"}, ""),
        ({"prompt": "a", "response": "b", "answers": ["d"]}, ""),
    ],
)  # fmt: skip
def test_a_prompt_and_a_response_under_usual_names(tmp_path, row, read_as):
    file = read(tmp_path, row)
    assert texts(file) == [("a", "b")] and file.read_as == read_as
    assert file.groups[0].preference is None and file.rows[0].comparisons == ()


def test_preferences_have_the_sign_of_a_group(tmp_path):
    """Negative where the first response is better, whatever way the file says it; 0 for a tie."""
    two = {"prompt": "a", "response_a": "b", "response_b": "c"}
    verdicts = ["A>B", "b", "model_b", "tie", "response_a", 2, "A=B"]
    file = read(tmp_path, *[two | {"winner": verdict} for verdict in verdicts])
    assert [group.preference for group in file.groups] == [-1, 1, 1, 0, -1, 1, 0]
    assert file.ties == 2
    two = {"prompt": "a", "response1": "b", "response2": "c"}
    strengths = [-3, 0, 2.0, "1"]
    file = read(tmp_path, *[two | {"overall_preference": strength} for strength in strengths])
    assert [group.preference for group in file.groups] == [-3, 0, 2, 1]
    assert [row.comparisons for row in file.rows] == [((0, 1),), (), ((1, 0),), ((1, 0),)]
    file = read(tmp_path, {"prompt": "a", "chosen": "b", "rejected": "c"})
    assert file.groups[0].preference == -1


def test_a_file_may_say_nothing_of_which_is_better(tmp_path):
    """Two answers of two policies, to be compared by the scores."""
    file = read(tmp_path, {"prompt": "a", "response_a": "b", "response_b": "c", "judge": "x"})
    assert file.groups[0].preference is None and not file.rows[0].comparisons
    assert file.read_as == "responses from response_a, response_b"
    assert file.carried == {"mine/0": {"judge": "x"}}


# (row, what may be meant, the option that decides, the columns that it then is)
UNCLEAR = [
    (
        {"question": "q", "context": "c", "response": "r"},
        "the prompt may be question or context",
        "--prompt question, or --prompt question,context to join them",
        Columns(prompt=("context", "question")),
        ("c\n\nq", "r"),
    ),
    (
        {"prompt": "p", "chosen": "a", "rejected": "b", "response": "r"},
        "the responses may be chosen and rejected, or response",
        "--response chosen,rejected or --response response",
        Columns(response=("response",)),
        ("p", "r"),
    ),
    (
        {"prompt": "p", "output": "a", "answer": "b"},
        "the responses may be output, or answer",
        "--response output or --response answer",
        Columns(response=("output",)),
        ("p", "a"),
    ),
    (
        {"prompt": "p", "response_a": "a", "response_b": "b", "label": "A>B", "winner": "b"},
        "label and winner may say which response is better",
        "--verdict label or --verdict winner",
        Columns(verdict="label"),
        ("p", "a", "b"),
    ),
]


@pytest.mark.parametrize(("row", "what", "option", "columns", "read_texts"), UNCLEAR)
def test_what_may_mean_two_things_is_asked_about_once_and_decided_by_an_option(
    tmp_path, row, what, option, columns, read_texts
):
    with pytest.raises(DataError) as error:
        read(tmp_path, row, row, strict=False)
    assert what in str(error.value) and option in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert texts(read(tmp_path, row, columns=columns)) == [read_texts]


@pytest.mark.parametrize(
    ("verdict", "values", "preferences"),
    [
        ("label=0,1", (0, 1), (-1, 1)),
        ("label=1,0,2", (0, 1, 2), (1, -1, 0)),
        ("label=left,right", ("Left", "right"), (-1, 1)),
        ("label=-,+", (-0.5, 0, 2), (-1, 0, 1)),
        ("label=+,-", (-0.5, "0", 2), (1, 0, -1)),
        ("none", ("?", 7), (None, None)),
        ("first", ("?", 7), (-1, -1)),
    ],
)
def test_a_verdict_in_other_words_is_read_as_the_user_says(tmp_path, verdict, values, preferences):
    """A 0 beside a 1 may mean either; without the option such a file is refused."""
    rows = [
        {"prompt": "a", "response_a": "b", "response_b": "c", "label": value} for value in values
    ]
    columns = Columns(response=("response_a", "response_b"), verdict=verdict)
    file = read(tmp_path, *rows, columns=checked_columns(columns))
    assert [group.preference for group in file.groups] == list(preferences)


def test_a_number_that_may_mean_either_names_the_option(tmp_path):
    row = {"prompt": "a", "response_a": "b", "response_b": "c", "label": 0}
    with pytest.raises(DataError, match="takes --verdict label=FIRST,SECOND with the two values"):
        read(tmp_path, row, strict=False)


@pytest.mark.parametrize("verdict", ["label=0", "label=", "label=0,1,2,3", "label=,1"])
def test_a_verdict_needs_a_value_for_each_response(verdict):
    with pytest.raises(ValueError, match="expected COLUMN=FIRST,SECOND"):
        checked_columns(Columns(verdict=verdict))


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (
            {"prompt": "p", "chosen": "a", "rejected": "b"},
            "this row has a better and a worse response (chosen, rejected), "
            "line 1 has one response (response)",
        ),
        (
            {"prompt": "p", "responses": ["a", "b"]},
            "this row has a list of responses (responses), line 1 has one response (response)",
        ),
    ],
)
def test_two_shapes_in_a_file_are_one_error(tmp_path, second, words):
    """Scores of one column would stand beside none, and accuracy would be of a part."""
    rows = [{"prompt": "p", "response": "a"}, second, second]
    for strict in (True, False):
        with pytest.raises(DataError) as error:
            read(tmp_path, *rows, strict=strict)
        assert f"mine.jsonl, line 2: {words}. Fix: keep one shape in a file" in str(error.value)


def test_a_fault_that_all_rows_have_stands_once(tmp_path):
    """Of 40 rows without a known column there were 40 faults, twenty of them shown."""
    with pytest.raises(DataError) as error:
        read(tmp_path, *[{"prompt": "p", "reply": str(i)} for i in range(40)])
    (line,) = str(error.value).splitlines()
    assert "line 1: no column of responses is known; the row has: prompt, reply" in line
    assert "(and so it is in all 40 rows)" in line and "--response COLUMN" in line
    file = read(tmp_path, {"prompt": "p", "reply": "r"}, columns=Columns(response=("Reply",)))
    assert texts(file) == [("p", "r")], "names of columns are known in any case"
    with pytest.raises(DataError, match="field 'rply': the column is missing; the row has: prompt"):
        read(tmp_path, {"prompt": "p", "reply": "r"}, columns=Columns(response=("rply",)))


@pytest.mark.parametrize(
    ("row", "field", "words"),
    [
        ({"prompt": "p", "response": " "}, "response", 'expected text or a list of {role, content}, got " "'),
        ({"prompt": 7, "response": "r"}, "prompt", "expected text or a list of {role, content}, got 7"),
        ({"prompt": "p", "responses": []}, "responses", "got [] (list)"),
        ({"prompt": "p", "responses": ["a", {"model": "m"}]}, "responses", "expected text or a list"),
        # Two messages of unknown speakers were two responses.
        (
            {"prompt": "p", "response": [{"role": "tool", "content": "a"}, {"role": "bot", "content": "b"}]},
            "response",
            "expected text or a list of {role, content}",
        ),
        (
            {"prompt": "p", "response": [{"role": "user", "content": "a"}, {"answer": "b"}]},
            "response",
            "the last message is the user's",
        ),
        ({"response": "r"}, "prompt", "no prompt that ends with the user"),
        (
            {"messages": [{"role": "user", "content": "a"}]},
            "messages",
            "the last message is the user's",
        ),
        (
            {"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "response": "r"},
            "prompt",
            "no prompt that ends with the user",
        ),
        (
            {"prompt": "z", "chosen": "\n\nHuman: a\n\nAssistant: b", "rejected": "c"},
            "chosen",
            "its conversation does not begin with the prompt",
        ),
        (
            {"chosen": "\n\nHuman: a\n\nAssistant: b", "rejected": "\n\nHuman: z\n\nAssistant: c"},
            "rejected",
            "its conversation does not begin with the prompt",
        ),
        (
            {"prompt": "p", "response_a": "a", "response_b": "b", "winner": "nobody knows"},
            "winner",
            "expected which answer is better",
        ),
        (
            {"prompt": "p", "response_0": "a", "response_1": "b", "better_response_id": 2},
            "better_response_id",
            "Fix: write 0 or 1",
        ),
        ({"prompt": "p", "response_1": "a", "winner": "1"}, "response_2", "the column is missing"),
        ({"prompt": "p", "reject": "a"}, "chosen", "the column is missing"),
    ],
)  # fmt: skip
def test_bad_rows_are_named_by_line_and_column_or_set_aside(tmp_path, row, field, words):
    """The column is called as the file calls it."""
    good = {"prompt": "p", "response": "r"} if "response" in row or "messages" in row else None
    if "responses" in row:
        good = {"prompt": "p", "responses": ["r"]}
    if good is None and "chosen" in (*row, field):
        good = {"prompt": "p", "chosen": "a", "rejected": "b"}
    if good is None:
        good = {"prompt": "p", "response_0": "a", "response_1": "b", "response_2": "c"}
    with pytest.raises(DataError) as error:
        read(tmp_path, good, row)
    message = str(error.value)
    assert f"mine.jsonl, line 2, field {field!r}: " in message and words in message
    assert "Fix: " in message and "strict=False" in message
    file = read(tmp_path, good, row, strict=False)
    assert len(file.rows) == 1 and [aside.line for aside in file.set_aside] == [2]


def test_a_system_turn_and_an_alpaca_input_belong_to_the_prompt(tmp_path):
    rows = [
        {"system": "Be brief.", "instruction": "Sum up.", "input": "A text.", "output": "b"},
        {"system": " ", "instruction": "Sum up.", "input": "", "output": "b"},
    ]
    file = read(tmp_path, *rows)
    assert file.groups[0].prompt == (
        Turn("system", "Be brief."),
        Turn("user", "Sum up.\n\nA text."),
    )
    assert file.groups[1].prompt == (Turn("user", "Sum up."),)
    assert "prompt from instruction and input after system" in file.read_as


def test_a_system_column_that_is_none_is_left_unread_by_naming_the_prompt(tmp_path):
    """It may be the name of a model."""
    row = {"system": "model-a", "prompt": "p", "response": "r"}
    assert read(tmp_path, row).groups[0].prompt[0] == Turn("system", "model-a")
    named = read(tmp_path, row, columns=Columns(("prompt",)))
    assert named.groups[0].prompt == (Turn("user", "p"),)
    both = read(tmp_path, row, columns=Columns(("system", "prompt")))
    assert both.groups[0].prompt == (Turn("system", "model-a"), Turn("user", "p"))


def test_of_columns_that_are_joined_one_may_be_empty_and_none_may_be_missing(tmp_path):
    """A slip of the pen in --prompt would score every row without its context."""
    rows = [{"ctx": "c", "q": "a", "response": "r"}, {"ctx": None, "q": "a", "response": "r"}]
    columns = Columns(("ctx", "q"))
    assert texts(read(tmp_path, *rows, columns=columns)) == [("c\n\na", "r"), ("a", "r")]
    with pytest.raises(DataError, match="field 'ctxt': the column is missing"):
        read(tmp_path, *rows, columns=Columns(("ctxt", "q")))


def test_the_first_column_may_be_declared_to_hold_the_better_ones(tmp_path):
    row = {"prompt": "p", "good": "a", "bad": "b", "worse": "c"}
    columns = Columns(response=("good", "bad", "worse"), verdict="first")
    file = read(tmp_path, row, columns=columns)
    assert file.rows[0].comparisons == ((0, 1), (0, 2)) and file.groups[0].preference is None
    assert file.read_as == "chosen from good; rejected from bad and worse"
    row = {"prompt": "p", "response_a": "a", "response_b": "b"}
    assert read(tmp_path, row, columns=Columns(verdict="first")).groups[0].preference == -1


@pytest.mark.parametrize(
    ("separator", "note"),
    [(",", ""), (";", "cells separated by semicolons"), ("\t", "cells separated by tabs")],
)
def test_what_separates_cells_is_seen_in_the_header_and_named(tmp_path, separator, note):
    """Excel writes semicolons where a comma is the decimal point; the advice was to quote commas."""
    path = tmp_path / "mine.csv"
    lines = [("prompt", "response", "n;o,t"), ("a, b; c\td", "e", "1,5")]
    cells = [separator.join(f'"{cell}"' for cell in line) for line in lines]
    path.write_text("\n".join(cells) + "\n")
    file = read_prompts(path)
    assert texts(file) == [("a, b; c\td", "e")] and file.read_as == note
    assert file.carried == {"mine/1": {"n;o,t": "1,5"}}
    (tmp_path / "mine.tsv").write_text("prompt\tresponse\na\tb\n")
    assert texts(read_prompts(tmp_path / "mine.tsv")) == [("a", "b")]


def test_a_cell_that_is_short_of_one_names_the_separator(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("prompt;response\na;b\na;b;c\n")
    with pytest.raises(
        DataError, match=r"3 cells, the header has 2\. Fix: put a cell with a semicolon"
    ):
        read_prompts(path)


def test_lists_of_messages_in_cells(tmp_path):
    """JSON is read; what str() of a list gives is not JSON, and would be scored as a text."""
    path = tmp_path / "mine.csv"
    talk = json.dumps([{"role": "user", "content": "a"}]).replace('"', '""')
    path.write_text(f'prompt,response\n"{talk}","[1, 2]"\n')
    assert texts(read_prompts(path)) == [("a", "[1, 2]")]
    printed = "\"[{'role': 'user', 'content': 'a'}]\""
    path.write_text(f"prompt,response,raw\na,b,{printed}\n")
    assert texts(read_prompts(path)) == [("a", "b")], "what is carried may be anything"
    path.write_text(f"prompt,response\n{printed},b\n")
    with pytest.raises(DataError, match="field 'prompt': a list as Python prints it"):
        read_prompts(path)
    path.write_text('prompt,response\n"[{""role"": 1",b\n')
    with pytest.raises(DataError, match="field 'prompt': bad JSON"):
        read_prompts(path)


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
        read_prompts(tmp_path / name)


def test_a_row_beyond_the_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(data_rows, "ROW", 1000)
    with pytest.raises(DataError, match="line 2: the line is longer than 1,000 bytes"):
        read(tmp_path, {"prompt": "p", "response": "r"}, {"prompt": "p", "response": "r" * 2000})


def test_json_lines_and_objects_of_arrays_in_a_json_file(tmp_path):
    """One row of message lists on a line is a row, although all its values are lists of objects."""
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    path = tmp_path / "mine.json"
    path.write_text(f"{json.dumps({'chosen': talk, 'rejected': talk})}\n" * 2)
    assert len(read_prompts(path).rows) == 2
    path.write_text(json.dumps({"easy": [{"prompt": "p", "response": "r"}], "hard": []}, indent=1))
    (row,) = read_prompts(path).rows
    assert row.row == {"prompt": "p", "response": "r", "subset": "easy"}
    path.write_text(json.dumps({"prompt": "p", "response": "r"}, indent=1))
    with pytest.raises(DataError, match="expected a JSON array"):
        read_prompts(path)


# Untidy files


@pytest.mark.parametrize(
    ("lines", "column"),
    [
        ("prompt,response,answer\np,r,a\nq,,b\n", "answer"),
        ("prompt,question,response\np,z,a\n,y,b\n", "question"),
        ("prompt,question,response\n,z,a\nx,y,b\n", "question"),
    ],
)
def test_no_column_stands_in_for_one_that_is_empty_in_a_row(tmp_path, lines, column):
    """The second row's score was that of another model's answer, or of another prompt."""
    path = tmp_path / "mine.csv"
    path.write_text(lines)
    for strict in (True, False):
        with pytest.raises(DataError, match="rows would be read from different columns") as error:
            read_prompts(path, strict=strict)
        assert f"line 3, field {column!r}" in str(error.value) and "line 2" in str(error.value)
    named = {"answer": Columns(response=("response",)), "question": Columns(("prompt",))}[column]
    with pytest.raises(DataError, match="it is empty"):
        read_prompts(path, named)
    assert len(read_prompts(path, named, strict=False).rows) == 1


def test_rows_of_other_names_side_by_side_are_read(tmp_path):
    """No column of theirs is read in one row and left in another."""
    rows = [
        {"prompt": "a", "question": None, "response": "b"},
        {"prompt": None, "question": "c", "response": "d"},
        {"instruction": "e", "input": "", "response": "f"},
        {"instruction": "g", "input": "h", "response": "i"},
    ]
    assert texts(read(tmp_path, *rows)) == [("a", "b"), ("c", "d"), ("e", "f"), ("g\n\nh", "i")]


@pytest.mark.parametrize(
    ("header", "cells", "column"),
    [
        ("prompt,response", "q,", "response"),
        ("prompt,chosen,rejected", "q,,b", "chosen"),
        ("prompt,chosen,rejected", "q,b,", "rejected"),
        ("prompt,response_1,response_2,response_3,response_4", "q,a,b,,d", "response_3"),
    ],
)
def test_an_empty_cell_is_called_empty_and_not_unknown(tmp_path, header, cells, column):
    """Of four answers the one after the gap had no score, without a word."""
    path = tmp_path / "mine.csv"
    sound = ",".join("p" * len(header.split(",")))
    path.write_text(f"{header}\n{sound}\n{cells}\n")
    with pytest.raises(DataError, match=f"line 3, field '{column}': it is empty. Fix: fill it"):
        read_prompts(path)


def test_names_that_differ_in_case_alone_are_refused_where_they_are_read(tmp_path):
    """The last one counted."""
    row = {"Prompt": "a", "prompt": "b", "response": "r"}
    with pytest.raises(DataError, match="the columns Prompt and prompt have one name"):
        read(tmp_path, row)
    file = read(tmp_path, {"ID": 1, "id": 2, "prompt": "b", "response": "r"})
    assert texts(file) == [("b", "r")]


def test_two_columns_of_one_number_are_asked_about(tmp_path):
    """The first was dropped without a word, and so was its response."""
    row = {"prompt": "a", "response_1": "b", "response_01": "c", "response_2": "d"}
    with pytest.raises(DataError, match="response_1 and response_01 have one number"):
        read(tmp_path, row)
    assert has_several(row)


def test_a_1_beside_responses_that_are_numbered_from_0_is_asked_about(tmp_path):
    """It was taken for the first, whose name ends in 0."""
    row = {"prompt": "p", "response_0": "a", "response_1": "b", "label": 1}
    with pytest.raises(DataError, match="--verdict label=FIRST,SECOND"):
        read(tmp_path, row)
    file = read(tmp_path, row, columns=Columns(verdict="label=0,1"))
    assert file.rows[0].comparisons == ((1, 0),)
    file = read(tmp_path, row | {"label": "response_1"})
    assert file.rows[0].comparisons == ((1, 0),)


def test_a_value_that_verdict_does_not_name_is_a_fault_of_its_row(tmp_path):
    """It was an error about zip(), without file and line."""
    rows = [
        {"prompt": "p", "response_a": "a", "response_b": "b", "label": label}
        for label in (1.0, 0.0, "x")
    ]
    columns = checked_columns(Columns(verdict="label=1.0, 0"))
    with pytest.raises(DataError, match=r"line 3, field 'label': expected which answer is better"):
        read(tmp_path, *rows, columns=columns)
    assert [row.comparisons for row in read(tmp_path, *rows[:2], columns=columns).rows] == [
        ((0, 1),),
        ((1, 0),),
    ]
    with pytest.raises(ValueError, match="expected COLUMN=FIRST,SECOND"):
        checked_columns(Columns(verdict="label=1,1.0"))


def test_a_verdict_that_no_row_can_have_is_refused(tmp_path):
    """It was passed over, and chosen counted as the better one."""
    row = {"prompt": "p", "chosen": "a", "rejected": "b", "label": 1}
    with pytest.raises(DataError, match="--verdict names label, and the row has a better and a"):
        read(tmp_path, row, columns=Columns(verdict="label=0,1"))
    named = Columns(response=("rejected", "chosen"), verdict="label=0,1")
    assert read(tmp_path, row, columns=named).rows[0].comparisons == ((1, 0),)


def test_answers_without_a_rank_are_scored_and_not_compared(tmp_path):
    """One missing rank took the comparisons of the whole row away, and nothing said so."""
    answers = [{"answer": "a", "rank": 2}, {"answer": "b"}, {"answer": "c", "rank": 1}]
    file = read(tmp_path, {"prompt": "p", "answers": answers})
    assert file.rows[0].comparisons == ((2, 0),)
    assert len(file.rows[0].group.responses) == 3
    assert "without a rank" in file.read_as
    no_ranks = [{"answer": "a"}, {"answer": "b"}]
    assert read(tmp_path, {"prompt": "p", "answers": no_ranks}).rows[0].comparisons == ()


def test_lists_of_answers_and_messages_in_other_order_in_cells(tmp_path):
    """A list of answers in a cell was one answer, brackets and all."""
    path = tmp_path / "mine.csv"

    def cell(value):
        return '"' + json.dumps(value).replace('"', '""') + '"'

    path.write_text(f"prompt,responses\np,{cell(['a', 'b'])}\n")
    assert texts(read_prompts(path)) == [("p", "a", "b")]
    ranked = [{"answer": "a", "rank": 2}, {"answer": "b", "rank": 1}]
    path.write_text(f"prompt,answers\np,{cell(ranked)}\n")
    assert read_prompts(path).rows[0].comparisons == ((1, 0),)
    talk = [
        {"id": 1, "role": "user", "content": "a"},
        {"id": 2, "role": "assistant", "content": "b"},
    ]
    path.write_text(f"messages\n{cell(talk)}\n")
    assert texts(read_prompts(path)) == [("a", "b")]
    path.write_text(f"prompt,response\np,{cell(['a'])}\nq,{cell([{'a': 1}])}\n")
    assert texts(read_prompts(path)) == [("p", '["a"]'), ("q", '[{"a": 1}]')], "answers of JSON"
    path.write_text("prompt,responses\np,\"['a', 'b']\"\n")
    with pytest.raises(DataError, match="field 'responses': a list that is no JSON"):
        read_prompts(path)


def test_blank_lines_and_line_breaks_of_old_are_named(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("prompt,response\np,r\n\n\n")
    with pytest.raises(DataError, match=r"lines 3, 4: a blank line\. Fix: take it out"):
        read_prompts(path)
    path.write_bytes(b"prompt,response\rp,r\r")
    with pytest.raises(DataError, match="with line breaks of Unix or Windows"):
        read_prompts(path)


@pytest.mark.parametrize(
    ("header", "cells", "places"),
    [
        ("Prompt , Response", "p,r", (" Response",)),
        ("prompt, chosen , Rejected", "p,r,s", (" chosen ", " Rejected")),
        ("Prompt,Response A,Response B,Winner", "p,r,s,A", ("Response A", "Response B")),
        (" prompt, response_1, response_2, label", "p,r,s,1", (" response_1", " response_2")),
    ],
)
def test_names_are_known_with_spaces_around_them_and_in_them(tmp_path, header, cells, places):
    """No option could name such a column either, and ratings were read all the same."""
    path = tmp_path / "mine.csv"
    path.write_text(f"{header}\n{cells}\n")
    (row,) = read_prompts(path).rows
    assert [column for column, _ in row.places] == list(places)
    assert row.group.prompt[0].text == "p"
    assert row.comparisons == (((0, 1),) if len(places) == 2 else ())
    named = tuple(column.strip() for column in places)
    verdict = "" if "chosen" not in header else "first"
    (row,) = read_prompts(path, Columns(("prompt",), named, verdict)).rows
    assert [column for column, _ in row.places] == list(places)


def test_names_that_differ_in_spaces_alone_are_refused_where_they_are_read(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("prompt,response,response \np,r,s\n")
    with pytest.raises(DataError, match="the columns response and response  have one name"):
        read_prompts(path)


@pytest.mark.parametrize("columns", [("prompt", "response"), ("messages",)])
def test_a_system_column_beside_a_conversation_that_has_a_system_turn(tmp_path, columns):
    """The column was dropped without a word, and the command said that it was read."""
    talk = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]
    if columns == ("messages",):
        row = {"messages": [*talk, {"role": "assistant", "content": "b"}]}
    else:
        row = {"prompt": talk, "response": "b"}
    with pytest.raises(DataError, match="line 1, field 'system': it is another system turn"):
        read(tmp_path, row | {"system": "t"})
    turns = (Turn("system", "s"), Turn("user", "a"))
    for system in ("s", " s\n", "", None):
        assert read(tmp_path, row | {"system": system}).groups[0].prompt == turns
    named = read(tmp_path, row | {"system": "t"}, columns=Columns((columns[0],)))
    assert named.groups[0].prompt == turns
    (row,) = read(tmp_path, {"messages": talk[1:], "response": "b", "system": "s"}).rows
    assert row.group.prompt == turns


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "tool", "content": "t"}, 'got message 3 with role "tool" (str)'),
        ({"role": "assistant", "content": None}, "got message 3 with content null (NoneType)"),
        ({"role": "assistant", "content": ""}, 'got message 3 with content "" (str)'),
        ({"role": "assistant"}, 'got message 3, which is {"role": "assistant"} (dict)'),
        (
            {"role": "assistant", "content": [{"type": "text", "text": "b"}] * 2},
            "got message 3 with content [{",
        ),
        (
            {"role": "assistant", "content": [{"type": "image_url", "text": "b"}]},
            "got message 3 with content [{",
        ),
    ],
)
def test_of_a_conversation_the_faulty_message_is_named(tmp_path, message, words):
    """The error showed how the conversation began, whichever of its messages was at fault."""
    talk = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, message]
    for row in (
        {"messages": [*talk, {"role": "assistant", "content": "c"}]},
        {"messages": [*talk, {"role": "user", "content": "c"}], "response": "d"},
    ):
        with pytest.raises(DataError) as error:
            read(tmp_path, row)
        assert "line 1, field 'messages': expected text or a list of" in str(error.value)
        assert words in str(error.value)


def test_a_content_that_is_one_part_of_text_is_that_text(tmp_path):
    """Servers of models keep their conversations so."""
    talk = [
        {"role": role, "content": [{"type": "text", "text": text}]}
        for role, text in (("user", "a"), ("assistant", "b"))
    ]
    assert texts(read(tmp_path, {"messages": talk})) == [("a", "b")]
    assert texts(read(tmp_path, {"prompt": talk[:1], "response": talk[1:]})) == [("a", "b")]
    path = tmp_path / "mine.parquet"
    pd.DataFrame([{"prompt": talk[:1], "chosen": talk, "rejected": talk}]).to_parquet(path)
    assert texts(read_prompts(path)) == [("a", "b", "b")]


def test_sharegpt_with_the_usual_names_of_roles(tmp_path):
    talk = [{"from": "user", "value": "a"}, {"from": "assistant", "value": "b"}]
    assert texts(read(tmp_path, {"conversations": talk})) == [("a", "b")]
    with pytest.raises(DataError, match=r'got message 2 with from "bing" \(str\)'):
        read(tmp_path, {"conversations": [talk[0], {"from": "bing", "value": "b"}]})


def test_a_rank_of_nan_is_none(tmp_path):
    """It was said to be compared, and was not."""
    nan = float("nan")
    answers = [
        {"answer": text, "rank": rank} for text, rank in zip("abc", (2, nan, 1), strict=True)
    ]
    file = read(tmp_path, {"prompt": "p", "answers": answers})
    assert file.rows[0].comparisons == ((2, 0),)
    assert "without a rank" in file.read_as


def test_cells_that_hold_no_list_after_all(tmp_path):
    """An empty list made the shapes of rows differ, and a deep one was a traceback."""
    path = tmp_path / "mine.csv"
    path.write_text('prompt,responses\np,"[""a"", ""b""]"\nq,[]\n')
    with pytest.raises(DataError, match=r"line 3, field 'responses': expected text .*got \[\]"):
        read_prompts(path)
    assert texts(read_prompts(path, strict=False)) == [("p", "a", "b")]
    path.write_text(f'prompt,response\np,"[{{""role"": {"[" * 100_000}"\n')
    with pytest.raises(DataError, match="line 2, field 'response': bad JSON"):
        read_prompts(path)
