"""Score an answer of one's own: what a reward model says of it, beside the truth.

    own_answer.preset_table(prompt, model)   # a faultless answer and its changes, as a table
    own_answer.box(prompts, model, draw=..)  # the same to type in, in a live notebook

The buttons of the box are the `CHANGES`, which make an answer worse. Paper: silent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import ipywidgets
import numpy as np
import pandas as pd

from hs2lib.corpus import generate, grade, marks
from hs2lib.corpus.tasks import WRITING, Task
from hs2lib.group import ATTRIBUTES, Group, Response
from hs2lib.models.reward_model import RewardModel
from hs2lib.paper import GOODNESS, head_weights
from hs2lib.report.answers import Answer

AS_IT_IS = "as it is"
MOVES = 0.1  # points of a scale from 0 to 4; a prediction that moves less hardly moves


def change_a_value(task: Task, text: str) -> str:
    """Make the first right item wrong, in the same words; an answer without one stays."""
    for sentence in _of_kind(task, text, "right"):
        for item in task.items:
            changed = sentence
            if item.value and item.value in sentence:
                changed = sentence.replace(item.value, item.other)
            elif item.slip and item.say() in sentence:
                changed = sentence.replace(item.say(), item.slip)
            whole = text.replace(sentence, changed, 1)
            if len(grade.grade(task, whole).wrong) > len(grade.grade(task, text).wrong):
                return whole
    return text


def drop_an_item(task: Task, text: str) -> str:
    """Leave out the last right item, and the remark on it; an answer without one stays."""
    sentences = list(marks.mark(task, text).sentences)
    right = [k for k, sentence in enumerate(sentences) if sentence.kind == "right"]
    if not right:
        return text
    last = right[-1]
    del sentences[last]
    if last < len(sentences) and sentences[last].kind.endswith("remark"):
        del sentences[last]
    lines: list[str] = []
    for sentence in sentences:
        if sentence.begins_line or not lines:
            lines.append(sentence.text)
        else:
            lines[-1] += f" {sentence.text}"
    return "\n".join(lines)


def add_jargon(task: Task, text: str) -> str:
    """Add a sentence of an expert that the answer does not have yet."""
    for sentence in WRITING["expert"]:
        if sentence not in text:
            return f"{text} {sentence}".strip()
    return text


def say_twice(task: Task, text: str) -> str:
    """Say the whole answer twice."""
    return f"{text}\n\n{text}" if text.strip() else text


CHANGES: dict[str, Callable[[Task, str], str]] = {
    "change a value": change_a_value,
    "drop an item": drop_an_item,
    "add jargon": add_jargon,
    "say it twice": say_twice,
}


def _of_kind(task: Task, text: str, kind: str) -> list[str]:
    """The sentences of an answer that are of a kind of `marks.KINDS`."""
    texts = []
    for sentence in marks.mark(task, text).sentences:
        if sentence.kind == kind:
            texts.append(sentence.text)
    return texts


def scored(group: Group, texts: Sequence[str], model: RewardModel) -> np.ndarray:
    """What a model predicts of answers to a prompt, float64 [answers, A]."""
    responses = [Response(f"{group.id}/{k}", text) for k, text in enumerate(texts)]
    asked = replace(group, responses=tuple(responses), preference=None, preferences=())
    return model.score([asked]).double().numpy()


def truths(group: Group, texts: Sequence[str]) -> np.ndarray:
    """The true attributes of answers to a prompt of the small world, float64 [answers, 5]."""
    task = generate.task_of(group.id)
    return np.array([grade.grade(task, text).attributes for text in texts])


def compared(group: Group, texts: Mapping[str, str], model: RewardModel) -> pd.DataFrame:
    """Answers down; across what the model predicts of each attribute, with the truth in brackets.

    The score, the weighted sum of predictions that alignment maximises, stands first where the
    model has its outputs. Its truth is goodness. Paper: section 4.3 (goodness).

    Args:
        group: the prompt.
        texts: answers by name.
        model: of the outputs.
    """
    predicted = scored(group, list(texts.values()), model)  # [answers, A]
    true = truths(group, list(texts.values()))  # [answers, 5]
    cells = {}
    if set(GOODNESS) <= set(model.attributes):
        by_model = predicted @ np.array(head_weights("goodness", model.attributes))
        by_truth = true @ np.array(head_weights("goodness", ATTRIBUTES))
        cells["score"] = _cells(by_model, by_truth)
    for k, name in enumerate(model.attributes):
        if name in ATTRIBUTES:
            cells[name] = _cells(predicted[:, k], true[:, ATTRIBUTES.index(name)])
        else:
            cells[name] = [f"{value:.2f}" for value in predicted[:, k]]
    return pd.DataFrame(cells, index=pd.Index(texts, name="answer"))


def _cells(predicted: np.ndarray, true: np.ndarray) -> list[str]:
    """Predictions with the truth in brackets."""
    return [f"{x:.2f} ({y:.2f})" for x, y in zip(predicted, true, strict=True)]


def preset_texts(group: Group) -> dict[str, str]:
    """A faultless answer to a prompt of the small world, and the same after each change."""
    task = generate.task_of(group.id)
    faultless = generate.without_faults(group).responses[0].text
    texts = {AS_IT_IS: faultless}
    for name, change in CHANGES.items():
        texts[name] = change(task, faultless)
    return texts


def preset_table(group: Group, model: RewardModel) -> pd.DataFrame:
    """`compared` for the faultless answer and its changes: the box for copies that do not run."""
    return compared(group, preset_texts(group), model)


def moves_in_words(group: Group, model: RewardModel) -> list[str]:
    """Which changes lower the first output and which do not, then what each adds to it.

    Beside it stands what each adds to the truth, where the output has one.
    """
    texts = preset_texts(group)
    predicted = scored(group, list(texts.values()), model)[:, 0]
    name = model.attributes[0]
    moves = dict(zip(list(texts)[1:], predicted[1:] - predicted[0], strict=True))
    parts = [f"{change} {move:+.2f}" for change, move in moves.items()]
    if name not in ATTRIBUTES:
        return [seen_in_words(name, moves), f"Predicted {name} moves: {'; '.join(parts)}."]
    true = truths(group, list(texts.values()))[:, ATTRIBUTES.index(name)]
    true_moves = dict(zip(moves, true[1:] - true[0], strict=True))
    parts = [
        f"{part} (truth {move:+.2f})" for part, move in zip(parts, true_moves.values(), strict=True)
    ]
    return [
        seen_in_words(name, moves, true_moves),
        f"Predicted {name} moves: {'; '.join(parts)}.",
    ]


def seen_in_words(
    name: str, moves: Mapping[str, float], true_moves: Mapping[str, float] | None = None
) -> str:
    """Which changes lower a prediction, which hardly move it, and which raise it.

    A move of less than `MOVES` counts as none.

    Args:
        name: of the attribute.
        moves: of the prediction, by change.
        true_moves: of the truth, by change, where it is known.
    """
    lowered = [change for change, move in moves.items() if move <= -MOVES]
    raised = [change for change, move in moves.items() if move >= MOVES]
    still = [change for change in moves if change not in (*lowered, *raised)]
    parts = [f"{', '.join(lowered) or 'no change'} lowers it"]
    if still:
        parts.append(f"{', '.join(still)} moves it by less than {MOVES:g}")
    if raised:
        parts.append(f"{', '.join(raised)} **raises** it")
    words = f"Predicted {name}: {'; '.join(parts)}."
    if true_moves and max(true_moves.values()) < 0:
        words += f" All {len(true_moves)} changes lower the truth."
    return words


def missed_in_words(groups: Sequence[Group], model: RewardModel) -> str:
    """Of all changes to faultless answers to these prompts: which lower the first output, and how.

    Every change lowers the true helpfulness. The output that rises most is named, and in how many
    prompts it falls with a wrong value. "" without prompts.
    """
    if not groups:
        return ""
    name = model.attributes[0]
    rises = []
    of_values = []
    true_of_values = []
    n_lowered = 0
    for group in groups:
        texts = preset_texts(group)
        predicted = scored(group, list(texts.values()), model)[:, 0]
        true = truths(group, [texts[AS_IT_IS], texts["change a value"]])[:, 0]  # helpfulness
        moves = dict(zip(list(texts)[1:], predicted[1:] - predicted[0], strict=True))
        n_lowered += sum(move <= -MOVES for move in moves.values())
        rises += [(move, change) for change, move in moves.items() if move >= MOVES]
        of_values.append(moves["change a value"])
        true_of_values.append(true[1] - true[0])
    words = (
        f"Of {len(groups) * len(CHANGES)} changes that lower the true helpfulness, {n_lowered} "
        f"lower predicted {name} by {MOVES:g} or more, and {len(rises)} raise it by {MOVES:g} or "
        "more"
    )
    if rises:
        most, change = max(rises)
        words += f", most *{change}* ({most:+.2f})"
    n_seen = sum(move <= -MOVES for move in of_values)
    return (
        f"{words}. A wrong value lowers it so in {n_seen or 'none'} of {len(groups)} prompts: "
        f"it moves by {_range(of_values)}, true helpfulness by {_range(true_of_values)}."
    )


def _range(moves: Sequence[float]) -> str:
    """The least and the largest of some moves in words."""
    return f"{min(moves):+.2f} to {max(moves):+.2f}"


def of_each_family(groups: Sequence[Group]) -> list[Group]:
    """The first prompt of each family of the small world, in the order in which they come."""
    first: dict[str, Group] = {}
    for group in groups:
        first.setdefault(generate.task_of(group.id).family, group)
    return list(first.values())


def box(
    groups: Sequence[Group],
    model: RewardModel,
    *,
    draw: Callable[[Group, Sequence[Answer]], str],
) -> ipywidgets.VBox:
    """A box for a live notebook: type an answer to a prompt, and see scores, truth and marks.

    The buttons make the answer worse in one way each. `children` are, in this order: the choice of
    the prompt, the text, the row of buttons, the view.

    groups: prompts of the small world to choose from.
    model: a reward model.
    draw: what makes HTML of a prompt and answers, as `show.answers_html`.
    """
    names = [group.prompt[-1].text.splitlines()[0][:90] for group in groups]
    options = [(name, k) for k, name in enumerate(names)]
    wide = {"width": "60em"}
    prompt = ipywidgets.Dropdown(options=options, value=0, description="prompt", layout=wide)
    text = ipywidgets.Textarea(continuous_update=False, layout=wide | {"height": "9em"})
    view = ipywidgets.HTML()
    buttons = [ipywidgets.Button(description=name) for name in ("faultless", *CHANGES)]

    def show_scores(_: object) -> None:
        group = groups[prompt.value]
        table = compared(group, {"yours": text.value}, model)
        answer = Answer("your answer", text.value)
        scores = table.rename_axis(None).to_html(border=0, col_space="7em")
        view.value = scores + draw(group, [answer])

    def write_faultless(_: object) -> None:
        text.value = generate.without_faults(groups[prompt.value]).responses[0].text

    def write_changed(button: ipywidgets.Button) -> None:
        task = generate.task_of(groups[prompt.value].id)
        text.value = CHANGES[button.description](task, text.value)

    text.observe(show_scores, "value")
    prompt.observe(write_faultless, "value")
    buttons[0].on_click(write_faultless)
    for button in buttons[1:]:
        button.on_click(write_changed)
    write_faultless(None)
    return ipywidgets.VBox([prompt, text, ipywidgets.HBox(buttons), view])
