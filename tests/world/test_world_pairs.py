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
