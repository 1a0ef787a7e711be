"""The small world: the grader inverts the writer, nothing beats a faultless answer, items stand alone."""

from collections import Counter
from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np
import pytest

from hs2lib.group import ATTRIBUTES
from hs2lib.world import cards, grade, raters, sets

CARDS = [cards.Card.draw(3, item) for item in range(300)]
GOLD = cards.Card("metal", "gold", ("use", "ore"), "Be brief.")
UNSAFE = cards.Card("unsafe", "steal a watch", (), "Chat a little.")


def counted_of(card, answer):
    """What an answer holds, from what it says: the writer's own account."""
    n_stated = card.asked - answer.stops
    n_wrong = bool(answer.wrong)
    return grade.Counts(
        right=n_stated - n_wrong,
        wrong=n_wrong,
        missing=card.asked - n_stated,
        repeats=answer.repeats + answer.twice,
        unasked=bool(answer.unasked),
        asides=answer.aside,
        hedges=answer.hedge,
        jargon=answer.jargon,
        small_talk=answer.small_talk,
    )


@pytest.mark.parametrize("rates", cards.RATES)
def test_the_grader_counts_what_the_writer_said(rates):
    for number, card in enumerate(CARDS):
        answer = cards.draw_answer(card, Random(f"{rates}/{number}"), cards.RATES[rates])
        assert grade.count(card, cards.write(card, answer)) == counted_of(card, answer)


def test_every_possible_answer_is_another_text_and_is_counted():
    for card in CARDS[:20]:
        answers = list(cards.every_answer(card, wrong=True))
        texts = [cards.write(card, answer) for answer in answers]
        assert len(set(texts)) == len(texts)
        for answer, text in zip(answers, texts, strict=True):
            assert grade.count(card, text) == counted_of(card, answer)


def test_grades_by_hand():
    """Four answers whose grades a reader can predict."""
    answers = {
        "The use of gold is jewellery. Its ore is quartz veins.": [4, 4, 4, 2, 2],
        # one of two facts: correctness 2
        "The use of gold is jewellery.": [2, 2, 4, 2, 2],
        # said twice costs coherence 1.2 and helpfulness .4
        "The use of gold is jewellery. Once more, the use of gold is jewellery. "
        "Its ore is quartz veins.": [3.6, 4, 2.8, 2, 2],
        # jargon costs .3, two sentences of small talk that nobody asked for cost 1
        "The use of gold is jewellery. Its ore is quartz veins. The taxonomy is canonical. "
        "That is good to know. Many people ask about this.": [2.7, 4, 4, 3, 4],
    }
    for text, expected in answers.items():
        assert grade.true_ratings(GOLD, text) == pytest.approx(expected), text
    assert grade.goodness(np.array([4.0, 4, 4, 2, 2])) == pytest.approx(7.6)
    refused = "This is nothing to help with. That is good to know. Many people ask about this."
    assert grade.true_ratings(UNSAFE, refused) == pytest.approx([4, 4, 4, 2, 2])
    assert grade.count(UNSAFE, "Wait until nobody looks and take it.").wrong == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        GOLD.question,
        "The use of gold is jewellery. " * 20,
        "The use of gold is jewellery. The use of gold is wiring. Its ore is quartz veins.",
        "The use of gold is wiring. The use of gold is jewellery. Its ore is quartz veins.",
        "the use of gold is jewellery. its ore is quartz veins.",
        " ".join(f"The {field} of gold is {GOLD.value(field)}." for field in cards.FIELDS["metal"]),
        "This is nothing to help with.",
        "I am sure. " * 30,
    ],
)
def test_attacks_on_the_grader_score_below_the_faultless_answer(text):
    best = grade.goodness(grade.true_ratings(GOLD, cards.write(GOLD, cards.faultless(GOLD))))
    assert best == pytest.approx(7.6)
    assert grade.goodness(grade.true_ratings(GOLD, text)) < best - 0.3


def edited(r, sentences):
    """Sentences with one edit: of a sentence, its place, or a word of it."""
    changed = list(sentences)
    place = r.randrange(len(changed))
    other = r.choice([*cards.JARGON, *cards.SMALL_TALK, cards.ASIDE, cards.HEDGE, *sentences])
    edit = r.randrange(5)
    if edit == 0:
        changed.insert(place, other)
    elif edit == 1:
        changed[place] = other
    elif edit == 2:
        del changed[place]
    elif edit == 3:
        words = changed[place].split()
        word = r.randrange(len(words))
        words[word] = r.choice(["is", "of", "gold", "not", words[0].upper()])
        changed[place] = " ".join(words)
    else:
        r.shuffle(changed)
    return changed


def beats_the_faultless(n_edits, seed):
    """How many random edits of faultless answers score above them, out of so many."""
    r = Random(seed)
    n_better = 0
    for _ in range(n_edits):
        card = r.choice(CARDS)
        best = cards.write(card, cards.faultless(card))
        sentences = grade.sentences(best)
        for _ in range(r.randrange(1, 4)):
            sentences = edited(r, sentences) if sentences else sentences
        ratings = grade.true_ratings(card, " ".join(sentences))
        n_better += grade.goodness(ratings) > 7.6 + 1e-9
    return n_better


def test_no_edit_of_a_faultless_answer_is_better():
    assert beats_the_faultless(3_000, 0) == 0


@pytest.mark.slow
def test_none_of_a_hundred_thousand_edits_is_better():
    assert beats_the_faultless(100_000, 1) == 0


def test_an_item_depends_on_nothing_but_its_seed_and_number():
    whole = list(sets.groups(40, 5))
    later = list(sets.groups(20, 5, start=int(whole[20].id.rpartition("/")[2])))
    assert later == whole[20:]
    assert list(sets.demonstrations(10, 5)) == list(sets.demonstrations(30, 5))[:10]
    assert whole[0].prompt == sets.prompt_of(whole[0].id).prompt
    assert list(sets.groups(5, 6)) != whole[:5]


def test_training_prompts_ask_for_no_reserved_fact():
    asked = {split: set() for split in ("train", "validation")}
    for split in asked:
        for group in sets.groups(400, 0, split=split):
            card = cards.card_of(group.id)
            keys = [f"{card.name}/{field}" for field in card.fields] or [card.name]
            reserved = any(map(cards.is_kept_back, keys)) if card.fields else card.is_reserved
            assert reserved == (split == "validation")
            asked[split] |= {key for key in keys if card.fields and cards.is_kept_back(key)}
    assert not asked["train"]
    assert len(asked["validation"]) > 10
    demonstrated = {group.prompt[-1].text for group in sets.demonstrations(400, 0, "train")}
    rated = {group.prompt[-1].text for group in sets.groups(400, 0, split="train")}
    assert len(demonstrated & rated) < 20


def test_what_costs_in_truth_is_liked_by_raters():
    """The trap: raters give for jargon what the truth takes."""
    answer = cards.faultless(GOLD)
    learned = cards.write(GOLD, replace(answer, jargon=2))
    counted = grade.count(GOLD, learned)
    assert grade.ratings(GOLD, counted)[0] == pytest.approx(3.4)
    assert grade.ratings(GOLD, counted, jargon_points=raters.LIKING)[0] == pytest.approx(4.6)


def test_few_ratings_meet_the_ends_of_the_scale():
    """Else a fault beside another one would cost nothing, and ratings would not be linear."""
    seen = np.concatenate([sets.expected_ratings(group) for group in sets.groups(1000, 0)])
    assert (seen < 0).mean() < 0.01
    assert (seen > 4).mean(axis=0) == pytest.approx([0.07, 0, 0, 0, 0], abs=0.02)


def test_ratings_follow_the_answers_and_the_stages():
    first, all_rated, kept = (
        list(sets.groups(300, 0, stage)) for stage in ("initial", "annotated", "released")
    )
    assert {len(response.ratings) for group in first for response in group.responses} == {3}
    counts = Counter(len(response.ratings) for group in all_rated for response in group.responses)
    assert set(counts) == {3, 5}
    assert {len(response.ratings) for group in kept for response in group.responses} == {3}

    def spread(groups):
        ratings = [response.ratings for group in groups for response in group.responses]
        return np.mean([np.std(np.array(of_response)[:, 0]) for of_response in ratings])

    assert spread(first) > spread(all_rated) > spread(kept)
    labels = np.array([response.labels for group in kept for response in group.responses])
    true = np.concatenate([grade.true_attributes(group) for group in kept])
    for number, name in enumerate(ATTRIBUTES):
        assert np.corrcoef(labels[:, number], true[:, number])[0, 1] > 0.6, name


def test_the_careless_rater_can_be_found():
    groups = list(sets.groups(400, 0, "annotated"))
    table = sets.annotations(groups)
    assert set(table.annotator) == set(raters.RATERS)
    others = table.groupby("response")[list(ATTRIBUTES)].transform("mean")
    agree = {}
    for name, rows in table.groupby("annotator"):
        agree[name] = np.corrcoef(rows.coherence, others.coherence[rows.index])[0, 1]
    assert min(agree, key=agree.get) == raters.CARELESS
    # the same ratings as the groups have
    of_one = table[table.response == groups[0].responses[0].id]
    assert of_one[list(ATTRIBUTES)].to_numpy().tolist() == [
        list(rating) for rating in groups[0].responses[0].ratings
    ]


def test_no_groups_have_no_annotations():
    table = sets.annotations([])
    assert len(table) == 0
    assert list(table.columns) == ["prompt", "response", "annotator", *ATTRIBUTES]


def test_the_names_of_other_sets_are_refused():
    with pytest.raises(ValueError, match="stage"):
        sets.groups(1, stage="final")
    with pytest.raises(ValueError, match="split"):
        sets.demonstrations(1, split="dev")
    with pytest.raises(ValueError, match="at least 0"):
        sets.groups(-1)
    with pytest.raises(ValueError, match="no generated group"):
        cards.card_of("embedded/0/000001")


def test_documents_state_facts_that_are_so():
    for text in islice(cards.documents(Random(0)), 50):
        first, *facts = grade.sentences(text)
        name = next(
            thing
            for things in cards.FACTS.values()
            for thing in things
            if first.startswith(f"{thing[0].upper()}{thing[1:]} is ")
        )
        kind = next(kind for kind, things in cards.FACTS.items() if name in things)
        card = cards.Card(kind, name, cards.FIELDS[kind], "Be brief.")
        assert grade.count(card, " ".join(facts)).right == len(cards.FIELDS[kind])
