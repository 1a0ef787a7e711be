"""The annotation form, driven without a browser: set values, click, read the files it wrote."""

import json

import pytest

from hs2lib.collect.annotate import FLAGS, AnnotationForm, append, notes_path
from hs2lib.data.load import load
from hs2lib.data.rows import DataError
from hs2lib.data.tables import ratings_array
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.stats import aggregate


def group(name, *responses, prompt="What is <b>2 + 2</b>?"):
    answers = tuple(Response(f"{name}/{i}", text) for i, text in enumerate(responses))
    return Group(name, (Turn("user", prompt),), answers)


@pytest.fixture
def groups():
    turns = (Turn("user", "Hello"), Turn("assistant", "Hi & bye"), Turn("user", "A joke?"))
    talk = Group(
        "talk",
        turns,
        (Response("talk/0", "Knock."), Response("talk/1", "<script>alert(1)</script>")),
    )
    return [group("sum", "4", "Four."), talk]


def rate(form, values=(4, 4, 4, 1, 2), confidence="very", safe="pass"):
    for control, value in zip(form.ratings.values(), values, strict=True):
        control.value = value
    form.confidence.value, form.safe.value = confidence, safe
    form.save.click()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_ratings_come_back_through_the_loader_and_aggregate(groups, tmp_path):
    path = tmp_path / "mine" / "ratings.jsonl"
    for annotator, helpfulness in (("a-1", 3), ("b_2", 3), ("c", 4)):
        form = AnnotationForm(groups, path, annotator)
        for _ in range(4):
            rate(form, (helpfulness, 4, 4, 2, 1))
        assert form.current is None and form.save.disabled
    loaded = load("ratings", "folder", path=path)
    assert [g.prompt for g in loaded.groups] == [g.prompt for g in groups] and not loaded.set_aside
    assert [r.text for g in loaded.groups for r in g.responses] == [
        "4",
        "Four.",
        "Knock.",
        groups[1].responses[1].text,
    ]
    ratings, index = ratings_array(loaded.groups)
    assert ratings.shape == (4, 3, 5) and index.tolist() == [0, 0, 1, 1]
    assert (
        aggregate.aggregate(ratings, aggregate.keep_three(ratings)).tolist()
        == [[3, 4, 4, 2, 1]] * 4
    )


@pytest.mark.parametrize(
    ("ids", "second", "words"), [("00", "b", "'0' occurs twice"), ("01", " ", "'1' has no text")]
)
def test_responses_that_no_file_of_ratings_can_hold_are_refused_before_any_is_rated(
    tmp_path, ids, second, words
):
    """The file could not be continued, or not be loaded, after the annotator's work was done."""
    answers = [Response(*one) for one in zip(ids, ("a", second), strict=True)]
    pair = [Group(f"g{n}", (Turn("user", "?"),), (answer,)) for n, answer in enumerate(answers)]
    with pytest.raises(ValueError, match=words):
        AnnotationForm(pair, tmp_path / "r.jsonl", "ann")
    assert not list(tmp_path.iterdir())


def test_what_a_row_holds_and_what_goes_to_the_notes(groups, tmp_path):
    form = AnnotationForm(groups, tmp_path / "r.jsonl", "ann")
    form.boxes["correctness"]["key information missing"].value = True
    rate(form, (1, 2, 3, 0, 4), "somewhat", "fail")
    expected = {
        "group": "sum",
        "id": "sum/0",
        "prompt": "What is <b>2 + 2</b>?",
        "response": "4",
        "annotator": "ann",
    }
    assert lines(form.path) == [expected | dict(zip(ATTRIBUTES, (1, 2, 3, 0, 4), strict=True))]
    (note,) = lines(notes_path(form.path))
    assert note["time"].endswith("+00:00") and note["correctness"] == ["key information missing"]
    assert (note["id"], note["coherence"], note["confidence"], note["safe"]) == (
        "sum/0",
        [],
        "somewhat",
        "fail",
    )


def test_responses_of_a_prompt_follow_each_other_and_the_form_is_empty_again(groups, tmp_path):
    form = AnnotationForm(groups, tmp_path / "r.jsonl", "ann")
    assert "Four." not in form.shown.value
    rate(form, (3, 4, 4, 0, 0))
    assert form.current == (groups[0], 1) and "Four." in form.shown.value
    assert all(
        control.value is None for control in (*form.ratings.values(), form.confidence, form.safe)
    )


def test_it_resumes_where_the_annotator_stopped_and_keeps_annotators_apart(groups, tmp_path):
    path = tmp_path / "r.jsonl"
    rate(AnnotationForm(groups, path, "ann"))
    again = AnnotationForm(groups, path, "ann")
    assert again.current == (groups[0], 1)
    again.annotator.value = "bob"
    assert again.current == (groups[0], 0)


def test_a_flag_skips_both_responses_and_leaves_no_text_behind(groups, tmp_path):
    form = AnnotationForm(groups, tmp_path / "r.jsonl", "ann")
    rate(form)
    form.flags["pii"].value = True
    rate(form)
    assert len(lines(form.path)) == 1
    form.flag.click()
    assert form.current == (groups[1], 0) and not form.flags["pii"].value
    note = lines(notes_path(form.path))[-1]
    assert note["flags"] == ["pii"] and "2 + 2" not in json.dumps(note)
    assert AnnotationForm(groups, form.path, "ann").current == (groups[1], 0)
    assert set(FLAGS) == {"pii", "non-english", "coding", "assistant"}


def test_what_is_missing_is_named_and_nothing_entered_is_lost(groups, tmp_path):
    form = AnnotationForm(groups, tmp_path / "r.jsonl")
    form.ratings["helpfulness"].value = 2
    form.save.click()
    assert "give a pseudonym" in form.message.value
    form.annotator.value = "Ada Lovelace, ada@example.org"
    form.save.click()
    assert "give a pseudonym" in form.message.value and not form.path.exists()
    form.annotator.value = "ada"
    form.ratings["helpfulness"].value = 2
    form.save.click()
    missing = "correctness, coherence, complexity, verbosity"
    assert missing in form.message.value and form.ratings["helpfulness"].value == 2
    form.flag.click()
    assert not form.path.exists()


def test_dataset_text_is_escaped(groups, tmp_path):
    form = AnnotationForm(groups, tmp_path / "r.jsonl", "ann")
    assert "&lt;b&gt;2 + 2" in form.shown.value and "<b>2 + 2" not in form.shown.value
    for _ in range(3):
        rate(form)
    assert "&lt;script&gt;" in form.shown.value and "<script" not in form.shown.value
    assert "Hi &amp; bye" in form.shown.value


def test_a_file_that_cannot_be_written_is_named(groups, tmp_path):
    form = AnnotationForm(groups, tmp_path / "r.jsonl", "ann")
    (tmp_path / "r.jsonl").mkdir()  # also for root, whom permissions do not stop
    form.done = lambda: ({}, set())
    rate(form)
    assert "Not saved." in form.message.value and form.ratings["helpfulness"].value == 4


def test_files_that_cannot_be_continued_are_refused_by_line(groups, tmp_path):
    path = tmp_path / "r.jsonl"
    rate(AnnotationForm(groups, path, "ann"))
    sound = path.read_text()
    path.write_text(sound + sound[:40])
    with pytest.raises(DataError, match=r"r\.jsonl, line 2: bad JSON"):
        AnnotationForm(groups, path)
    path.write_text(sound + '{"prompt": "x", "response": "y"}\n')
    with pytest.raises(DataError, match="line 2, field 'group': the column is missing"):
        AnnotationForm(groups, path)
    path.write_text(sound.replace('"group": "sum"', '"group": ["sum"]'))
    with pytest.raises(
        DataError,
        match=r"line 1, field 'group': expected text that can be seen, got \[\"sum\"\]",
    ):
        AnnotationForm(groups, path)
    path.write_text(sound)
    with pytest.raises(
        DataError, match="line 1, field 'prompt': group 'sum' has another prompt here"
    ):
        AnnotationForm([group("sum", "4", prompt="What is 3 + 3?")], path)
    with pytest.raises(ValueError, match="'sum' occurs twice"):
        AnnotationForm([groups[0], groups[0]], tmp_path / "new.jsonl")
    with pytest.raises(ValueError, match=r"must end in \.jsonl, got 'r\.csv'"):
        AnnotationForm(groups, tmp_path / "r.csv")


def test_a_kill_between_notes_and_rating_only_shows_the_response_again(groups, tmp_path):
    form = AnnotationForm(groups, tmp_path / "r.jsonl", "ann")
    form._note(id="sum/0", flags=[])
    assert AnnotationForm(groups, form.path, "ann").current == (groups[0], 0)


def test_a_last_line_without_its_end_is_not_glued_to_the_next(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"a": 1}')
    append(path, {"a": 2})
    assert lines(path) == [{"a": 1}, {"a": 2}]


def test_two_equal_responses_are_rated_once(tmp_path):
    form = AnnotationForm([group("same", "4", "4")], tmp_path / "r.jsonl", "ann")
    rate(form)
    assert form.current is None
