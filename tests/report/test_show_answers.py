"""Answers side by side: signs, truth and score, and nothing of a text is run or lost."""

import re
from dataclasses import replace

from hs2lib.group import Group, Response, Turn
from hs2lib.report import show
from hs2lib.world import sets
from hs2lib.world.cards import card_of, faultless, write


def words_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", html).replace("&nbsp;", " "))


def test_an_answer_of_the_small_world_is_marked_and_judged():
    group = next(sets.groups(1, seed=4, split="train"))
    card = card_of(group.id)
    best = write(card, faultless(card))
    html = show.answers_html(group, [show.Answer("SFT", best, "greedy", 3.25)])
    assert "7.60" in words_of(html) and "3.25" in words_of(html)
    assert words_of(html).count("✓") == card.asked + 1  # and once in the legend


def test_an_answer_to_a_real_prompt_has_no_marks():
    group = Group("a", (Turn("user", "Why?"),), (Response("a/1", "no"),))
    html = show.answers_html(group, [show.Answer("SFT", "because <script>alert(1)</script>")])
    assert "✓" not in html and "truth" not in html and "<script>" not in html
    assert "because &lt;script&gt;" in html


def test_text_of_a_policy_is_escaped_where_it_is_marked_too():
    group = next(sets.groups(1, seed=4, split="train"))
    html = show.answers_html(group, [show.Answer("<b>x", "<img src=x onerror=y>. Yes.")])
    assert "<img" not in html and "<b>x" not in html


def test_an_empty_answer_is_shown():
    group = replace(next(sets.groups(1, seed=4, split="train")), responses=())
    assert "SFT" in words_of(show.answers_html(group, [show.Answer("SFT", "")]))
