"""The marks of an answer are what is counted in it."""

from collections import Counter
from random import Random

from hs2lib.report import show
from hs2lib.report.answers import Answer
from hs2lib.world import cards, grade, marks, sets


def test_marks_are_the_counts():
    for number in range(200):
        card = cards.Card.draw(4, number)
        answer = cards.draw_answer(card, Random(number), cards.RATES["rated"])
        text = cards.write(card, answer)
        counted = grade.count(card, text)
        marked = marks.mark(card, text)
        kinds = Counter(sentence.kind for sentence in marked.sentences)
        small_talk = kinds.pop("small_talk", 0) + kinds.pop("too much", 0)
        assert small_talk == counted.small_talk
        for kind, n in kinds.items():
            assert getattr(counted, kind) == n
        wanting = max(0, card.small_talk - counted.small_talk) > 0
        assert len(marked.missing) == counted.missing + wanting
        assert " ".join(sentence.text for sentence in marked.sentences) == text
        assert marked.attributes.tolist() == grade.true_ratings(card, text).tolist()


def test_a_marked_answer_is_shown_with_its_signs_and_its_true_score():
    group = next(iter(sets.groups(1, 0)))
    card = cards.card_of(group.id)
    best = cards.write(card, cards.faultless(card))
    page = show.answers_html(group, [Answer("faultless", best, ""), Answer("none", "<u>", "")])
    assert marks.KINDS["right"][0] in page
    assert "7.6" in page
    assert "<u>" not in page
