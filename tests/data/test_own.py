"""Own ratings: attributes and scale are columns in the file and said, or asked about, and never guessed."""

import json
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from made_rows import rated, write

from hs2lib.data import own
from hs2lib.data.load import load
from hs2lib.data.own import Scale
from hs2lib.data.rows import DataError
from hs2lib.group import ATTRIBUTES


def table(folder, header, *rows):
    """A CSV file of these columns; a row begins with a prompt and a response of its own."""
    path = folder / "own.csv"
    lines = [f"p{number},r,{row}" for number, row in enumerate(rows)]
    path.write_text("\n".join([f"prompt,response,{header}", *lines]) + "\n")
    return path


def scales_of(folder, header, *rows, **options):
    return dict(own.look(table(folder, header, *rows), **options).scales)


def refused(folder, header, *rows, **options):
    with pytest.raises(DataError) as info:
        load("ratings", "folder", path=table(folder, header, *rows), **options)
    return str(info.value)


# Scales


def test_a_scale_that_is_not_named_is_helpsteer2s(tmp_path):
    columns = own.look(table(tmp_path, "clarity,tone", "0,1", "4,2.5", "3,"))
    assert set(columns.scales.values()) == {Scale(0, 4)} and not columns.note


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("1", "5", "3"), "from 1 (line 2) to 5 (line 3)"),
        (("1", "2", "55"), "from 1 (line 2) to 55 (line 4)"),
        (("-1", "0", "1"), "from -1 (line 2) to 1 (line 4)"),
        (("0.2", "7.3"), "from 0.2 (line 2) to 7.3 (line 3)"),
    ],
)
def test_ratings_that_cannot_be_on_it_ask_for_a_scale_in_one_error(tmp_path, values, words):
    """With the lines of both ends, since one of them may be a slip."""
    message = refused(tmp_path, "clarity", *values)
    assert len(message.splitlines()) <= 2 and "field 'clarity'" in message
    assert words in message and "as --scale=" in message
    named = scales_of(tmp_path, "clarity", *values, scale="-1-100")
    assert named == {"clarity": Scale(-1, 100)}


def test_ratings_from_1_may_be_on_1_to_5(tmp_path):
    """They are read as 0 to 4, and a sentence says so."""
    columns = own.look(table(tmp_path, "clarity", "1", "4", "2"))
    assert columns.scales == {"clarity": Scale(0, 4)} and "--scale 1-5" in columns.note
    assert not own.look(tmp_path / "own.csv", scale="1-5").note


def test_columns_may_have_scales_of_their_own(tmp_path):
    setting = "clarity:1-5,score:0-1"
    columns = own.look(table(tmp_path, "clarity,score", "1,0.2", "5,0.91", "2,.35"), scale=setting)
    assert columns.scales == {"clarity": Scale(1, 5), "score": Scale(0, 1)}
    assert columns.scale_setting == setting
    assert own.parse_scales(columns.scale_setting, columns.attributes) == columns.scales


@pytest.mark.parametrize("scale", ["five", "5-1", "1-", "style:1-5", "1-5-9"])
def test_a_scale_that_is_none_is_refused(tmp_path, scale):
    assert "scale" in refused(tmp_path, "clarity", "1", "4", scale=scale)


def test_what_is_not_on_the_scale_is_a_fault(tmp_path):
    path = table(tmp_path, "clarity", "1", "7", "3")
    with pytest.raises(DataError, match="expected a number from 1 to 5, got") as info:
        load("ratings", "folder", path=path, scale="1-5")
    assert info.value.line == 3 and info.value.field == "clarity"


FIVE = ",".join(ATTRIBUTES)


# Attributes


def test_columns_of_numbers_are_attributes_and_others_are_named(tmp_path):
    """One fault per row and column once said that notes are not allowed."""
    path = write(
        tmp_path / "own.jsonl",
        [
            {"prompt": "p", "response": "r", "tone": 1, "notes": "ok", "row_id": 7, "Clarity": 4},
            {"prompt": "q", "response": "r", "tone": 4, "notes": "", "row_id": 9, "Clarity": 1},
        ],
    )
    columns = own.look(path)
    assert columns.attributes == ("tone", "Clarity")
    assert columns.ignored == {
        "notes": 'no numbers, such as "ok"',
        "row_id": "it numbers or names rows",
    }
    (group, _) = load("ratings", "folder", path=path).groups
    assert group.attributes == ("tone", "Clarity") and group.responses[0].labels == (1, 4)


def test_helpsteer2s_names_come_first_in_their_order(tmp_path):
    columns = own.look(table(tmp_path, "tone,verbosity,helpfulness", "1,4,2", "4,1,3"))
    assert columns.attributes == ("helpfulness", "verbosity", "tone")


def test_a_lone_attribute_is_enough(tmp_path):
    """It was refused with seven faults a row, whose fix was to add six columns."""
    path = table(tmp_path, "helpfulness", "0", "4", "3")
    assert load("ratings", "folder", path=path).groups[0].attributes == ("helpfulness",)


def test_attributes_narrow(tmp_path):
    """A length is no rating, and its scale cannot be told."""
    path = table(tmp_path, "clarity,tone,length", "1,4,700", "4,1,90")
    with pytest.raises(DataError, match="if length is no rating"):
        load("ratings", "folder", path=path)
    columns = own.look(path, ["clarity"])
    assert columns.attributes == ("clarity",)
    assert columns.ignored["length"] == columns.ignored["tone"] == "attributes does not name it"
    with pytest.raises(DataError, match="there is no such column") as info:
        own.look(path, ["clarty"])
    assert "clarity, tone, length" in str(info.value)


def test_the_default_five_stand_for_all_columns_where_none_of_them_is_there(tmp_path):
    """A notebook's parameter says five; a file with others is not thereby empty."""
    path = table(tmp_path, "clarity,tone", "1,4", "4,1")
    assert own.look(path, ATTRIBUTES).attributes == ("clarity", "tone")
    path = table(tmp_path, f"{FIVE},turn", "0,1,2,3,4,1", "4,3,2,1,0,2")
    assert own.look(path, ATTRIBUTES).attributes == ATTRIBUTES


def test_a_slip_in_a_column_of_ratings_is_a_fault_of_its_row(tmp_path):
    """A column that is numbers but for one cell is a rating with a slip, not a column of texts."""
    path = table(tmp_path, "clarity", "1", "3", "three", "4")
    with pytest.raises(DataError, match="expected a number from 0 to 4") as info:
        load("ratings", "folder", path=path)
    assert info.value.line == 4


def test_columns_are_named_by_the_user(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("Question, Answer,Helpfulness\np,r,1\nq,r,4\n")
    columns = "prompt=Question,response=Answer,helpfulness=Helpfulness"
    (_, group) = load("ratings", "folder", path=path, columns=columns).groups
    assert group.attributes == ("helpfulness",) and group.responses[0].labels == (4,)
    with pytest.raises(DataError, match="columns names it for prompt"):
        load("ratings", "folder", path=path, columns="prompt=q")


def test_two_columns_with_one_name_are_refused(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("prompt,response,clarity, clarity\np,r,1,2\n")
    with pytest.raises(DataError, match="the row has this column twice"):
        own.look(path)


def test_a_prompt_may_be_messages(tmp_path):
    talk = [{"role": "user", "content": "p"}]
    path = write(
        tmp_path / "own.jsonl",
        [
            {"prompt": talk, "response": "r", "tone": 1},
            {"prompt": talk, "response": "s", "tone": 4},
        ],
    )
    (group,) = load("ratings", "folder", path=path).groups
    assert group.prompt[0].text == "p" and len(group.responses) == 2


def test_a_file_without_ratings_says_what_its_columns_hold(tmp_path):
    path = write(tmp_path / "own.jsonl", [{"prompt": "p", "response": "r", "score": "3"}])
    with pytest.raises(DataError, match="add a column of numbers") as info:
        own.look(path)
    assert 'score (no numbers, such as "3")' in str(info.value)


def test_rows_that_cannot_be_read_are_named_before_what_is_missing_without_them(tmp_path):
    """A comma too many in each good answer, and the error was about the scale of the bad ones."""
    path = table(tmp_path, "clarity", "3,more", "2", "3", "5,more")
    with pytest.raises(DataError, match="2 faults in 2 rows") as info:
        load("ratings", "folder", path=path)
    assert 'put a cell with a comma or a line break in "quotes"' in str(info.value)


# Ratings without variation


def test_equal_ratings_are_one_error(tmp_path):
    """Nothing can be learnt from them; forty rows do not need forty faults."""
    message = refused(tmp_path, "clarity,tone", *["3,2"] * 40)
    assert "all ratings are equal (clarity 3, tone 2)" in message
    assert len(message.splitlines()) == 1


def test_an_attribute_without_variation_is_noted_beside_others(tmp_path):
    columns = own.look(table(tmp_path, "clarity,tone", "1,3", "4,3"))
    assert columns.constant == {"tone": 3}


def test_the_five_as_always_are_loaded_even_if_they_are_equal(tmp_path):
    path = write(tmp_path / "own.jsonl", [rated(), rated("q")])
    assert len(load("ratings", "folder", path=Path(path)).groups) == 2


def test_ratings_between_tabs(tmp_path):
    """A file called .tsv had texts alone, and so no ratings."""
    path = tmp_path / "own.tsv"
    path.write_text("prompt\tresponse\tclarity\np\ta\t1\np\tb\t4\n")
    assert [
        response.labels for response in load("ratings", "folder", path=path).groups[0].responses
    ] == [(1,), (4,)]


def test_the_number_of_a_rater_is_no_rating(tmp_path):
    columns = own.look(table(tmp_path, "clarity,rater", "1,1", "4,2", "3,3"))
    assert columns.attributes == ("clarity",) and "rater" in columns.ignored
    named = own.look(tmp_path / "own.csv", attributes=["rater"])
    assert named.attributes == ("rater",), "unless it is named"


def test_a_word_for_nothing_has_to_be_an_empty_cell(tmp_path):
    path = table(tmp_path, "clarity", "1", "NaN", "4")
    with pytest.raises(DataError, match=r'got "NaN"\. Fix: .*leave the cell empty'):
        load("ratings", "folder", path=path)


def test_the_index_of_a_table_of_pandas_is_no_rating(tmp_path):
    """Of a hundred rows that a filter left, the index was a second attribute, from 0 to 100."""
    table = pd.DataFrame(
        [{"prompt": f"p{i}", "response": "r", "clarity": i % 3 * 2} for i in range(101)]
    )
    table[table.index % 5 < 2].to_parquet(tmp_path / "own.parquet")
    columns = own.look(tmp_path / "own.parquet")
    assert columns.attributes == ("clarity",)
    assert columns.ignored == {"__index_level_0__": "it numbers or names rows"}


def test_decimals_of_parquet_are_numbers(tmp_path):
    """DuckDB and Postgres write them; the column was left out, or the file had no ratings."""
    table = pd.DataFrame([rated("p"), rated("q")])[["prompt", "response"]]
    path = tmp_path / "own.parquet"
    table.assign(clarity=[Decimal("1.0"), Decimal("4.5")]).to_parquet(path)
    loaded = load("ratings", "folder", path=path, scale="1-5")
    assert [group.responses[0].labels for group in loaded.groups] == [(1,), (4.5,)]
    assert loaded.own_columns.steps == {"clarity": 0.5}


def test_a_response_may_be_a_conversation_in_every_format(tmp_path):
    """In CSV it was a text with brackets and all."""
    talk = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "r"}]
    rows = [
        {"prompt": "p", "response": talk, "tone": 1},
        {"prompt": "p", "response": "s", "tone": 4},
    ]
    of_json = load("ratings", "folder", path=write(tmp_path / "own.jsonl", rows))
    rows[0]["response"] = json.dumps(talk)
    pd.DataFrame(rows).to_csv(tmp_path / "own.csv", index=False)
    of_csv = load("ratings", "folder", path=tmp_path / "own.csv")
    for loaded in (of_json, of_csv):
        assert [response.text for response in loaded.groups[0].responses] == ["r", "s"]


def test_two_columns_off_the_scale_print_one_option(tmp_path):
    """Of two options the last one counts. Large numbers are written out."""
    message = refused(tmp_path, "clarity,my length", "1,7407402", "5,90")
    option = "--scale='clarity:1-5,my length:1-7407402'"
    assert message.count(option) == 2
    path = tmp_path / "own.csv"
    assert (
        own.look(path, scale="clarity:1-5,my length:1-7407402").scales["my length"].high == 7407402
    )


def test_faults_are_under_the_files_own_names(tmp_path):
    rows = [{"q": "", "a": "r", "stars": 3}, {"q": "p", "a": "r", "stars": 2}]
    path = write(tmp_path / "own.jsonl", rows)
    with pytest.raises(DataError, match="line 1, field 'q': expected text"):
        load("ratings", "folder", path=path, columns="prompt=q,response=a,helpfulness=stars")


def test_an_attribute_that_is_named_twice_is_one(tmp_path):
    assert own.look(table(tmp_path, "tone", "1", "4"), ["tone", "tone"]).attributes == ("tone",)
