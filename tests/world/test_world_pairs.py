"""Answers that differ in one known fault, and benchmarks in the forms of others."""

from hs2lib.world import grade, pairs, sets


def test_a_pair_differs_in_its_fault_alone():
    fields = {"stops": "missing", "aside": "asides", "hedge": "hedges", "twice": "repeats"}
    for prompt in sets.groups(60, 0, split="validation"):
        for fault in pairs.FAULTS:
            pair = pairs.one_fault(prompt, fault)
            if pair is None:
                continue
            card = pairs.card_of(prompt.id)
            right, wrong = (vars(grade.count(card, r.text)) for r in pair.responses)
            changed = {name for name in right if right[name] != wrong[name]}
            changed -= {"right"} if fault in ("stops", "wrong") else set()
            expected = {"tone": "small_talk"}.get(fault, fields.get(fault, fault))
            assert changed == {expected}, (fault, pair)
            better, worse = grade.true_goodness(pair)
            assert better > worse


def test_the_forms_of_other_benchmarks():
    n_right = {"RewardBench 2": {1, 3}, "RM-Bench": {3}, "JudgeBench": {1}}
    for benchmark, parts in pairs.PARTS.items():
        made = pairs.questions(benchmark, 3, seed=1)
        assert {question.part for question in made} == set(parts)
        for question in made:
            labels = [response.labels[0] for response in question.group.responses]
            assert sum(labels) in n_right[benchmark]
            true = grade.true_goodness(question.group)
            for style in range(len(labels) // 2 if benchmark == "RM-Bench" else 1):
                if benchmark == "RM-Bench":  # the same style, right and wrong
                    assert true[style] > true[style + 3]
                else:
                    right = [value for value, label in zip(true, labels, strict=True) if label]
                    wrong = [value for value, label in zip(true, labels, strict=True) if not label]
                    assert max(right) > max(wrong)
    pairs_of_sections = pairs.rewardbench(6, seed=1)
    assert [pair.id.partition("/")[0] for pair in pairs_of_sections][::6] == list(pairs.SECTIONS)
    for pair in pairs_of_sections:
        first, second = grade.true_goodness(pair)
        assert (first > second) == (pair.preference < 0)
    assert {pair.preference for pair in pairs_of_sections} == {-1.0, 1.0}
