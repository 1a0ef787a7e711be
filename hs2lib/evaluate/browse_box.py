"""Browse the policies' held-out answers: by family, by fault, by the gap of score and truth.

    answers = read(beside)                       # every answer with its faults and its gap
    preset_table(answers), in_words(answers)     # the largest gaps, for copies that do not run
    box(answers, draw=show.columns_html)         # the same to browse, in a live notebook

The gap is the reward model's score less the truth. Where it is large, an answer pleases the reward
model by what the truth does not see. The answers are those that notebooks 07 to 12 sampled; no
model is run. Paper: silent.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import ipywidgets
import numpy as np
import pandas as pd

from hs2lib.corpus import generate, marks
from hs2lib.corpus.faults import FAULTS, faults
from hs2lib.corpus.grade import grade
from hs2lib.corpus.tasks import Task
from hs2lib.evaluate.held_out import SideBySide
from hs2lib.evaluate.response_rows import SCORE, TEXT, TRUTH
from hs2lib.group import Group
from hs2lib.report.answers import Answer

GAP = "score less truth"
FAMILY = "family"
FAULT = "faults"  # names of an answer's faults, of `FAULTS`
ANY = "any"
NONE = "no fault"
PRESET = 3  # answers in the table of presets
MANY = 20  # answers with a fault, from which on their mean gap is told

# Order -> whether the smallest gap comes first; None for the order in which prompts were asked.
ORDERS = {
    "score most above the truth": False,
    "score most below the truth": True,
    "as they were asked": None,
}


def read(beside: SideBySide) -> pd.DataFrame:
    """Every sampled answer to the held-out prompts, with what is wrong in it.

    Paper: silent. Columns: policy, prompt, response, text, truth, score and gap (nan without a
    reward model), family, faults (a tuple of names). Empty where the truth is not known, and where
    the rows hold no texts, as those of an earlier version.
    """
    rows = beside.rows
    if TEXT not in rows or TRUTH not in rows:
        return pd.DataFrame()
    rows = rows.dropna(subset=[TEXT, TRUTH])
    answers = rows[["policy", "prompt", "response", TEXT, TRUTH]].copy()
    answers[SCORE] = rows.get(SCORE, np.nan)
    answers[GAP] = answers[SCORE] - answers[TRUTH]
    tasks = {prompt: generate.task_of(prompt) for prompt in answers.prompt.unique()}
    answers[FAMILY] = [tasks[prompt].family for prompt in answers.prompt]
    faults = []
    for prompt, text in zip(answers.prompt, answers[TEXT], strict=True):
        faults.append(_faults(tasks[prompt], text))
    answers[FAULT] = pd.Series(faults, index=answers.index, dtype=object)
    return answers.reset_index(drop=True)


def _faults(task: Task, text: str) -> tuple[str, ...]:
    """The names of an answer's faults, in the order of `FAULTS`."""
    return tuple(name for name, has in faults(grade(task, text)).items() if has)


def chosen(
    answers: pd.DataFrame, policy: str, *, family: str = ANY, fault: str = ANY, order: str
) -> pd.DataFrame:
    """The answers of a policy to a family that have a fault, in an order; rows of `answers`.

    Args:
        answers: of `read`.
        policy: whose.
        family: of the prompts, or `ANY`.
        fault: one of `FAULTS`, `ANY` for all answers, or `NONE` for faultless ones.
        order: one of `ORDERS`. Where gaps are equal, and where there are none, the answers stay in
            the order in which the prompts were asked.
    """
    fits = answers.policy == policy
    if family != ANY:
        fits &= answers[FAMILY] == family
    if fault == NONE:
        fits &= answers[FAULT].map(len) == 0
    elif fault != ANY:
        fits &= _has(answers, fault)
    rows = answers[fits]
    if ORDERS[order] is not None:
        rows = rows.sort_values(GAP, ascending=ORDERS[order], kind="stable")
    return rows


def _has(answers: pd.DataFrame, fault: str) -> pd.Series:
    """Whether each answer has a fault, bool [answers]."""
    return answers[FAULT].map(lambda names: fault in names).astype(bool)


def largest(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers whose score is furthest above the truth, one a prompt; rows of `answers`.

    answers: of `read`.
    """
    if answers.empty:
        return answers
    ordered = answers.dropna(subset=[GAP]).sort_values(GAP, ascending=False, kind="stable")
    return ordered.drop_duplicates("prompt").head(PRESET)


def preset_table(answers: pd.DataFrame) -> pd.DataFrame:
    """The largest gaps, a row each: what stands in the box's place in copies that do not run.

    The index is the policy. Columns: score, truth, gap, faults, prompt, answer, with signs as in
    `hs2lib.corpus.marks`. Empty where `largest` is.

    answers: of `read`.
    """
    rows = []
    for row in largest(answers).to_dict("records"):
        prompt = _prompt(row["prompt"])
        marked = marks.mark(generate.task_of(row["prompt"]), row[TEXT])
        cells = {SCORE: row[SCORE], TRUTH: row[TRUTH], GAP: row[GAP]}
        cells["faults"] = ", ".join(row[FAULT]) or NONE
        cells["prompt"] = prompt.prompt[-1].text
        cells["answer"] = marks.plain(marked)
        rows.append(pd.Series(cells, name=row["policy"]))
    return pd.DataFrame(rows).rename_axis("policy")


def legend(answers: pd.DataFrame) -> str:
    """What the signs in `preset_table` say, in a sentence; "" where it is empty.

    answers: of `read`.
    """
    kinds = set()
    for row in largest(answers).to_dict("records"):
        marked = marks.mark(generate.task_of(row["prompt"]), row[TEXT])
        kinds |= {sentence.kind for sentence in marked.sentences}
        if marked.missing:
            kinds.add("missing")
    signs = [f"{marks.KINDS[kind][0]} {kind}" for kind in marks.KINDS if kind in kinds]
    return f"Signs: {', '.join(signs)}." if signs else ""


def in_words(answers: pd.DataFrame) -> list[str]:
    """What the gaps say: the mean of each policy, and which fault goes with the largest ones.

    The fault is that, of those which `MANY` answers have, whose answers have the largest mean gap
    beside that of all other answers. answers: of `read`.
    """
    gaps = answers.dropna(subset=[GAP]) if len(answers) else answers
    if gaps.empty:
        return ["No answers with a text, a truth and a score were left at this tier."]
    means = gaps.groupby("policy", sort=False)[GAP].mean()
    listed = ", ".join(f"{policy} {mean:+.2f}" for policy, mean in means.items())
    lines = [f"Mean score less truth, all answers: {listed}."]
    differences = {}
    for fault in FAULTS:
        has = _has(gaps, fault)
        if MANY <= has.sum() < len(has):
            differences[fault] = (gaps[GAP][has].mean() - gaps[GAP][~has].mean(), int(has.sum()))
    if differences:
        fault = max(differences, key=lambda name: differences[name][0])
        difference, number = differences[fault]
        where = "above" if difference > 0 else "below"
        lines.append(
            f"The fault that goes with the largest gaps: the answer {fault}. The mean gap of the "
            f"{number} answers that have it is {abs(difference):.2f} points {where} that of the "
            "others."
        )
    return lines


@lru_cache(maxsize=1024)
def _prompt(id: str) -> Group:
    """The prompt of this id."""
    return generate.prompt_of(id)


def _shown(row: Mapping) -> Answer:
    """An answer to show, with its gap and its faults beside its name. row: of `read`, as a dict."""
    faults = ", ".join(row[FAULT]) or NONE
    if np.isnan(row[GAP]):
        return Answer(row["policy"], row[TEXT], faults)
    return Answer(row["policy"], row[TEXT], f"{GAP} {row[GAP]:+.2f}, {faults}", row[SCORE])


def box(
    answers: pd.DataFrame, *, draw: Callable[[Group, Sequence[Answer]], str]
) -> ipywidgets.VBox:
    """A browser for a live notebook: which answers, in which order, beside another policy's.

    Family, fault and order are of the first policy's answers. `children` are, in this order: the
    first policy, the second, the family, the fault, the order, the slider, the count, the view.

    answers: of `read`, at least one.
    draw: what makes HTML of a prompt and answers, as `show.columns_html`.
    """
    names = list(answers.policy.unique())
    row_of = {(row["policy"], row["response"]): row for row in answers.to_dict("records")}
    policy = ipywidgets.Dropdown(options=names, value=names[-1], description="answers of")
    other = ipywidgets.Dropdown(options=names, value=names[0], description="beside")
    families = [ANY, *sorted(answers[FAMILY].unique())]
    family = ipywidgets.Dropdown(options=families, description="family")
    fault = ipywidgets.Dropdown(options=[ANY, NONE, *FAULTS], description="fault")
    order = ipywidgets.Dropdown(options=list(ORDERS), description="order")
    place = ipywidgets.IntSlider(0, 0, 0, description="answer", continuous_update=False)
    count = ipywidgets.HTML()
    view = ipywidgets.HTML()
    fitting: list[str] = []  # responses that fit, in their order

    def show(_: object = None) -> None:
        if not fitting:
            view.value = "<p>No such answer.</p>"
            return
        response = fitting[place.value]
        prompt = row_of[policy.value, response]["prompt"]
        shown = []
        for name in dict.fromkeys((policy.value, other.value)):
            if (name, response) in row_of:
                shown.append(_shown(row_of[name, response]))
        view.value = draw(_prompt(prompt), shown)

    def choose(_: object = None) -> None:
        rows = chosen(
            answers, policy.value, family=family.value, fault=fault.value, order=order.value
        )
        fitting[:] = rows.response
        count.value = f"{len(fitting)} of {(answers.policy == policy.value).sum()} answers"
        place.unobserve(show, "value")  # the view is drawn once
        place.max = max(len(fitting) - 1, 0)
        place.value = 0
        place.observe(show, "value")
        show()

    for widget in (policy, family, fault, order):
        widget.observe(choose, "value")
    other.observe(show, "value")
    place.observe(show, "value")
    choose()
    return ipywidgets.VBox([policy, other, family, fault, order, place, count, view])
