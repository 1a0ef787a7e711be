"""The rules of the small world as tables to look at: families, authors, faults and their costs.

Paper: silent.
"""

from itertools import count, islice

import numpy as np
import pandas as pd

from hs2lib.corpus import generate, rules
from hs2lib.corpus.grade import true_attributes
from hs2lib.corpus.rules import attributes as attributes  # for the notebook that shows its source
from hs2lib.corpus.tasks import FAMILY
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.paper import head_weights

HABITS = {
    "stops": "leaves the last items out",
    "jumbles": "changes the places of the first two items",
    "strays": "ends in a sentence about something else",
    "repeats": "says the first item twice",
    "gives in": "agrees with a false premise, helps with an unsafe request",
}


def families(seed: int = 0) -> pd.DataFrame:
    """The first prompt without earlier turns of each family, with a faultless answer to it."""
    examples = {}
    for start in count(0, 100):
        for group in islice(generate.groups(100, seed, start=start), 100):
            family = generate.task_of(group.id).family
            if len(group.prompt) == 1 and family not in examples:
                answer = generate.without_faults(group).responses[0].text
                examples[family] = (group.prompt[-1].text, answer)
        if len(examples) == len(FAMILY):
            break
    rows = [(family, *examples[family]) for family in FAMILY]
    return pd.DataFrame(rows, columns=["family", "a prompt", "a faultless answer"])


def authors() -> pd.DataFrame:
    """The authors with their two habits, and what these are."""
    rows = []
    for number, habits in enumerate(rules.AUTHORS, 1):
        described = [f"{habit}: {HABITS[habit]}" for habit in habits]
        rows.append((number, *described))
    return pd.DataFrame(rows, columns=["author", "a habit", "another"])


def shares() -> pd.DataFrame:
    """How often each kind of text shows its author's habit and ignores the wish, %."""
    columns = {"habit": "shows the habit (%)", "ignored": "ignores the wish (%)"}
    table = pd.DataFrame(rules.ANSWERS).T[list(columns)].astype(float) * 100
    return table.rename(columns=columns).rename_axis("texts")


def costs() -> pd.DataFrame:
    """What each kind of fault changes where it touches all items, by attribute, and in goodness.

    Goodness is .65 helpfulness + .8 correctness + .45 coherence (paper: section 4.3).
    """
    table = pd.DataFrame(rules.RULES, index=list(ATTRIBUTES)).T
    table["goodness"] = table.to_numpy() @ np.array(head_weights("goodness", ATTRIBUTES))
    return table.rename_axis("fault").sort_values("goodness")


def ratings(group: Group, response: int = 0) -> pd.DataFrame:
    """What each rater made of a response, the label that was made of it, and the truth."""
    rated = group.responses[response]
    rows = {f"rater {number}": marks for number, marks in enumerate(rated.ratings, 1)}
    rows["label, their rounded mean"] = rated.labels
    rows["the truth"] = true_attributes(group)[response]
    return pd.DataFrame(rows, index=list(ATTRIBUTES)).T


def style() -> pd.DataFrame:
    """What an answer's style makes of the attributes where it has no fault: a_0 of the truth.

    Attributes across. The first row is an answer without jargon and without a sentence that says
    nothing asked for; below it, what jargon and such sentences add. Complexity begins at the
    family's, which is from 1.3 to 1.6.
    """
    whole = np.zeros(1, dtype=int)  # of the first family
    plain = rules.style(whole, np.zeros(1), np.zeros(1), np.ones(1))[0]
    rows = {"no jargon, no sentence that says nothing asked for": plain}
    for expert in range(1, rules.MOST_EXPERT + 1):
        some = rules.style(whole, np.full(1, expert), np.zeros(1), np.ones(1))[0]
        rows[f"added by {expert} of jargon"] = some - plain
    rows["added by plain words"] = (
        rules.style(whole, -np.ones(1), np.zeros(1), np.ones(1))[0] - plain
    )
    for extras in rules.EXTRAS[1:]:
        some = rules.style(whole, np.zeros(1), np.full(1, extras), np.ones(1))[0]
        rows[f"added by {extras:g} such sentences per item"] = some - plain
    return pd.DataFrame(rows, index=list(ATTRIBUTES)).T.rename_axis("style")
