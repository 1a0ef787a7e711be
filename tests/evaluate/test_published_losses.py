"""What is published of ratings and preferences over seeds, as notebooks 05, 14 and 15 show it."""

import json

import pytest

from hs2lib.evaluate import published_losses as published
from hs2lib.evaluate.learners import LONGER, RIGHT


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Publishes a record in the place of the repository's own."""
    monkeypatch.setattr(published.paths, "root", lambda: tmp_path)
    file = tmp_path / published.PUBLISHED
    file.parent.mkdir(parents=True)
    return lambda record: file.write_text(json.dumps(record))


def difference(first, second, value, low, high, **changed):
    row = {"judgements": 8, "first": first, "second": second, "asks": "x", "measure": RIGHT}
    return row | {"difference": value, "low": low, "high": high, "seeds": 5} | changed


def test_without_a_published_benchmark_its_tables_are_empty(tmp_path, monkeypatch):
    """The notebooks read them where they are, and say nothing where they are not."""
    monkeypatch.setattr(published.paths, "root", lambda: tmp_path)
    assert published.record() == {}
    for table in (published.means(), published.gains(), published.gains_shown()):
        assert len(table) == 0
    assert len(published.means_shown()) == len(published.real_shown()) == 0
    assert "learner" in published.means() and "first" in published.gains()
    assert published.sentences() == published.shown_in_words() == []
    assert published.fewer_in_words() == published.real_in_words() == ""
    assert published.claims_in_words() == []
    assert published.answer() == ""
    assert published.source() == published.source_of_real() == ""


def test_the_answer_over_seeds_names_the_seeds(write):
    row = difference("scaled", "helpfulness", -0.3, -6.3, 5.6)
    write({"seeds": [0, 1], "differences": [row]})
    assert "not shown" in published.answer()
    assert published.answer().endswith("(-6.3 to +5.6; generated data, seeds 0, 1).")


def test_captions_name_the_seeds_and_the_commit_of_what_is_published(write):
    """A run's own caption says its own seed and prompts, and these numbers are of none of them."""
    real = {"pairs": 331, "ties": 72, "base": "SmolLM2", "rows": [], "differences": []}
    write({"commit": "930775510132", "seeds": [0, 1], "prompts": 400, "real": real})
    assert published.source().startswith(
        "reports/benchmarks/losses.json, commit 9307755: small world (generated), seeds 0, 1, 400"
    )
    assert "331 pairs" in published.source_of_real() and "72 ties" in published.source_of_real()


def test_real_pairs_are_held_against_the_longer_answer(write):
    rows = [
        {"learner": name, "value": value, "low": value - 5, "high": value + 5}
        for name, value in (("plain", 56.0), ("scaled", 54.0), (LONGER, 61.9))
    ]
    below = [difference("plain", LONGER, -5.9, -9, -1), difference("scaled", LONGER, -7, -15, 1)]
    write({"real": {"pairs": 331, "rows": rows, "differences": below}})
    words = published.real_in_words()
    assert words.startswith(
        "Of 331 real pairs the longer answer is the better one in 61.9 % (56.9 to 66.9). Of 2 "
        "learners the one that is best on these pairs, *Bradley-Terry*, has 56.0 % (51.0 to 61.0)."
    )
    assert words.endswith("below the longer answer: 1 of 2.")


def test_what_one_seed_published_has_no_interval_and_says_so(write):
    """JSON has no nan: a missing end of an interval comes as null and must not stop the notebook."""
    row = {"judgements": 8, "measure": RIGHT, "low": None, "high": None, "seeds": 1}
    means = [row | {"learner": "plain", "value": 70.0}]
    one = difference("plain", "helpfulness", 2.0, None, None, seeds=1)
    write({"means": means, "differences": [one]})
    assert published.means_shown().to_dict() == {RIGHT: {"Bradley-Terry": "70.0"}}
    (claim, *_) = published.claims_in_words()
    assert claim.startswith("*Ratings teach more than preferences*: not shown")
    assert claim.endswith("-2.0 points of pairs in order, without an interval. Seeds: 1.")
    (sentence,) = published.sentences()
    assert sentence.endswith("+2.0 points, of one seed. Seeds: 1.")


def test_what_is_shown_is_counted_beside_what_chance_would_show(write):
    rows = [difference("plain", "helpfulness", -3.0, -4.0, -2.0)]
    rows.append(difference("helpfulness", "five", 0.5, -1.0, 2.0))
    rows.append(difference("plain", LONGER, 9.0, 8.0, 10.0))  # not one of the comparisons
    rows.append(difference("scaled", "plain", 2.0, 1.0, 3.0, judgements=4))  # of fewer
    write({"differences": rows})
    counted, only = published.shown_in_words()
    assert counted.startswith("Of 2 differences 1 have an interval over seeds without 0")
    assert only.startswith("*Bradley-Terry* minus *regression, helpfulness*: -3.0 points")
    assert only.endswith("fewer. Seeds: 5.")
    assert [sentence.split(":")[0] for sentence in published.sentences()] == [
        "*Bradley-Terry* minus *regression, helpfulness*",
        "*regression, helpfulness* minus *regression, five attributes*",
    ]


def test_fewer_judgements_are_compared_seed_by_seed(write):
    """By hand: differences of -1, -2 and -3 have mean -2, and t 4.303 over root 3 is 2.484."""
    rows = []
    for seed, (few, many) in enumerate([(69, 70), (58, 60), (77, 80)]):
        row = {"seed": seed, "learner": "five", "measure": RIGHT}
        rows += [row | {"judgements": 2, "value": few}, row | {"judgements": 8, "value": many}]
    rows.append({"seed": 9, "learner": "five", "measure": RIGHT, "judgements": 8, "value": 1})
    write({"rows": rows})
    assert published.fewer_in_words() == (
        "Regression, five attributes, with 2 judgements, compared with 8 of the same quality: "
        "-2.0 points of pairs in order (-4.5 to +0.5), not shown to differ. Seeds: 3."
    )
    assert published.fewer_in_words("plain") == ""


def test_each_claim_of_section_3_has_its_verdict(write):
    """One is shown, of one the contrary, and few good against many worse data are not compared.

    What is published is first minus second, and the claims are of second over first.
    """
    differences = [difference("plain", "helpfulness", -3.0, -4.0, -2.0)]
    differences.append(difference("helpfulness", "five", 2.0, 1.0, 3.0))
    rows = []
    for seed, (few, many) in enumerate([(69, 70), (58, 60), (77, 80)]):
        row = {"seed": seed, "learner": "five", "measure": RIGHT}
        rows += [row | {"judgements": 2, "value": few}, row | {"judgements": 8, "value": many}]
    write({"differences": differences, "rows": rows})
    ratings, five, few, number, about = published.claims_in_words()
    assert ratings == (
        "*Ratings teach more than preferences*: shown in the small world. Regression on rated "
        "helpfulness, compared with Bradley-Terry on preferences: +3.0 points of pairs in order "
        "(+2.0 to +4.0), more pairs in order. Seeds: 5."
    )
    assert five.startswith("*Five attributes teach more than one*: the contrary is shown in the")
    assert five.endswith(
        "-2.0 points of pairs in order (-3.0 to -1.0), fewer pairs in order. Seeds: 5."
    )
    assert few.startswith("*Few good data are enough*: not tested")
    assert few.endswith(published.fewer_in_words())
    assert number.startswith("Contrasts shown here: 3, of more in notebook 15.")
    assert about.startswith("A judgement is") and "Neither sign nor size" in about
