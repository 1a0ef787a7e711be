"""The annotation form: guidelines, and ratings of a prompt's responses, written to a JSONL file.

Paper: section 2.1 ("rate two responses to the same prompt sequentially") and appendix G (flags,
five axes from 0 to 4, check boxes, confidence, safe or not). The guidelines are in our own words.

Other attributes on another scale can be asked for; they have no guidelines. Each level has a
button, so a scale has whole numbers, and few of them.

The form writes two files, one line at a time. The ratings have just the columns that
`data.load("ratings", "folder", path=...)` reads. Everything else goes to `*.notes.jsonl` beside it.
Annotators go by a pseudonym. Of a flagged task only the id is written, since it may hold names.
"""

import html
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import ipywidgets as widgets
from jinja2 import Environment
from pydantic import Field, create_model

from hs2lib.data.own import HELPSTEER, Scale, parse_scales
from hs2lib.data.rows import DataError, Faults, Row, Text, sound
from hs2lib.group import ATTRIBUTES, Group, prompt_string
from hs2lib.paths import json_lines, read_yaml

_GUIDELINES = read_yaml(__file__, "guidelines.yaml")

FLAGS: dict[str, str] = _GUIDELINES["flags"]

# Of each attribute: the question, and the meanings of 0, 1, 2, 3 and 4.
SCALES: dict[str, dict] = _GUIDELINES["scales"]

BOXES: dict[str, list[str]] = _GUIDELINES["boxes"]

MOST_LEVELS = 11  # of a scale

_PAGE = Environment(autoescape=True).from_string(
    (Path(__file__).parent / "response.html").read_text()
)

_PSEUDONYM = re.compile(r"[A-Za-z0-9_-]{1,32}")


def notes_path(path: str | Path) -> Path:
    """The file of everything that is no rating: ratings.notes.jsonl for ratings.jsonl."""
    return Path(path).with_suffix(".notes.jsonl")


def append(path: Path, row: dict) -> None:
    """Add a row to a JSONL file, on disk when this returns.

    The row is written at once: a process that is killed leaves all of it or nothing.
    """
    line = json_lines([row]).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+", buffering=0) as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # some editors leave the last line without its end
                line = b"\n" + line
        file.write(line)
        os.fsync(file.fileno())


class Saved(Row, extra="ignore"):
    """The texts of a row that the form wrote; `_saved` adds the ratings."""

    group: Text
    annotator: Text
    prompt: Text
    response: Text


class Note(Row, extra="ignore"):
    """The fields of a note that the form reads again."""

    group: Text
    annotator: Text
    flags: list[str]


def read_rows(path: Path, model: type[Row]) -> list:
    """The rows of a JSONL file, as `model`; none where there is no file yet.

    Raises:
        DataError: a line is faulty; the message names it.
    """
    if not path.exists() or not path.stat().st_size:
        return []
    with Faults(path) as faults:
        return [row for _, row in sound(path, model, faults)]


class AnnotationForm(widgets.VBox):
    """A form that shows an annotator one response after the other, from where the file ends.

    Its controls have names, for tests and for whoever lays them out anew: annotator, flags,
    ratings, boxes, confidence, safe, save, flag, message.

    Args:
        groups: prompts with their responses. Ids are unique and no text is empty.
        path: the JSONL file, made when the first rating is saved.
        annotator: a pseudonym of letters, digits, - and _. It can be typed into the form instead.
        attributes: what is rated. HelpSteer2's have guidelines.
        scale: of the ratings, as "1-5", or of each attribute, as "clarity:1-5,safe:0-1".

    Raises:
        ValueError: an id occurs twice, a response is empty, the file does not end in .jsonl, or an
            attribute has no scale, or one without a button for each level.
        DataError: the file cannot be continued.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        path: str | Path,
        annotator: str = "",
        *,
        attributes: Sequence[str] = ATTRIBUTES,
        scale: str = "0-4",
    ) -> None:
        self.groups = tuple(groups)
        self.path = Path(path)
        scales = parse_scales(scale, attributes)
        without = [name for name in attributes if name not in scales]
        if without or not scales:
            raise ValueError(f"scale {scale!r} says nothing of {', '.join(without) or 'any'}")
        if self.path.suffix != ".jsonl":
            raise ValueError(
                "ratings are written as JSON lines: "
                f"the file must end in .jsonl, got {self.path.name!r}"
            )
        self.ratings = {name: _buttons(name, scales[name]) for name in attributes}
        self.row_model = _saved(scales)
        _check_groups(self.groups)
        self._check_file()

        self.annotator = widgets.Text(
            annotator,
            description="annotator",
            placeholder="pseudonym",
            continuous_update=False,  # its value is read when Enter is pressed
        )
        self.shown = widgets.HTML()
        self.message = widgets.HTML()
        self.flags = {name: _checkbox(f"{name}: {meaning}") for name, meaning in FLAGS.items()}
        self.boxes = {
            attribute: dict(zip(names, map(_checkbox, names), strict=True))
            for attribute, names in BOXES.items()
            if attribute in self.ratings
        }
        self.confidence = widgets.ToggleButtons(
            options=_GUIDELINES["confidence"], value=None, description="how sure?"
        )
        self.safe = widgets.ToggleButtons(options=("pass", "fail"), value=None, description="safe?")
        self.save = widgets.Button(description="Save rating", button_style="primary")
        self.flag = widgets.Button(description="Flag task, skip it", button_style="warning")

        self.annotator.observe(lambda _: self._next(), "value")
        self.save.on_click(lambda _: self._guarded(self._save))
        self.flag.on_click(lambda _: self._guarded(self._flag))
        super().__init__(self._layout(scales))
        self._next()

    def _layout(self, scales: Mapping[str, Scale]) -> list[widgets.Widget]:
        """All controls, from top to bottom."""
        rating_rows = []
        sure_about = "correctness" if "correctness" in self.ratings else list(self.ratings)[-1]
        for name, control in self.ratings.items():
            rating_rows.append(widgets.HTML(_question(name, scales[name])))
            rating_rows.append(control)
            if name in self.boxes:
                rating_rows.append(widgets.HBox(list(self.boxes[name].values())))
            if name == sure_about:
                rating_rows.append(self.confidence)
        flags = [widgets.HTML("<b>Not to be rated?</b>"), *self.flags.values(), self.flag]
        advice = widgets.HTML(f"<small>{_GUIDELINES['advice']}</small>")
        top = [self.annotator, self.shown, widgets.VBox(flags)]
        return [*top, *rating_rows, self.safe, advice, self.save, self.message]

    def _check_file(self) -> None:
        """Check that every row can be read, and that each group's id means the same prompt.

        Raises:
            DataError: a row is faulty, or its group has another prompt in this form.
        """
        prompts = {group.id: group.prompt for group in self.groups}
        for line, row in enumerate(read_rows(self.path, self.row_model), 1):
            prompt = prompts.get(row.group)
            if prompt is not None and row.prompt != prompt_string(prompt):
                raise DataError(
                    self.path,
                    line,
                    "prompt",
                    f"group {row.group!r} has another prompt here",
                    "name a new file",
                )
        read_rows(notes_path(self.path), Note)

    def done(self) -> tuple[dict[tuple[str, str], str], set[str]]:
        """What the annotator has finished.

        Returns:
            The ratings in words by (group id, response text), and the ids of the flagged groups.
        """
        annotator = self.annotator.value.strip()
        rated = {}
        for row in read_rows(self.path, self.row_model):
            if row.annotator == annotator:
                rated[row.group, row.response] = _in_words(
                    row.model_dump(by_alias=True), self.ratings
                )
        notes = read_rows(notes_path(self.path), Note)
        flagged = {note.group for note in notes if note.annotator == annotator and note.flags}
        return rated, flagged

    def _next(self, message: str = "") -> None:
        """Show the first response not yet rated.

        Two identical responses to a prompt are rated once.
        """
        rated, flagged = self.done()
        tasks = [
            (group, position)
            for group in self.groups
            if group.id not in flagged
            for position in range(len(group.responses))
        ]
        unrated = [
            (group, position)
            for group, position in tasks
            if (group.id, group.responses[position].text) not in rated
        ]
        self.current = unrated[0] if unrated else None
        self._clear()
        self.save.disabled = self.current is None
        self.flag.disabled = self.current is None

        group = None
        shown = []  # responses, each with its rating in words, None where it has none
        if self.current:
            group, position = self.current
            for response in group.responses[: position + 1]:
                shown.append((response, rated.get((group.id, response.text))))
        self.shown.value = _PAGE.render(
            group=group, shown=shown, done=len(tasks) - len(unrated), total=len(tasks)
        )
        self.message.value = html.escape(message)

    def _clear(self) -> None:
        """Take back all that was ticked and chosen."""
        for boxes in (self.flags, *self.boxes.values()):
            for box in boxes.values():
                box.value = False
        for control in (*self.ratings.values(), self.confidence, self.safe):
            control.value = None

    def _guarded(self, action: Callable[[], str]) -> None:
        """Run a button's action, and show what is wrong in the form; nothing entered is lost."""
        try:
            if not _PSEUDONYM.fullmatch(self.annotator.value.strip()):
                raise ValueError(
                    "annotator: give a pseudonym of letters, digits, - or _, "
                    "not a name or an address"
                )
            message = action()
        except (ValueError, OSError) as error:
            self.message.value = (
                f"<span style='color:#b00'>Not saved. {html.escape(str(error))}</span>"
            )
        else:
            self._next(message)

    def _save(self) -> str:
        """Write the rating of the response that is shown; returns what the form then says."""
        group, position = self.current
        response = group.responses[position]
        if _ticked(self.flags):
            raise ValueError("a flag is set: take it back, or use the button 'Flag task, skip it'")
        needed = {**self.ratings, "how sure?": self.confidence, "safe?": self.safe}
        if missing := [name for name, control in needed.items() if control.value is None]:
            raise ValueError(f"still to be chosen: {', '.join(missing)}")
        values = {name: control.value for name, control in self.ratings.items()}
        row = {
            "group": group.id,
            "id": response.id,
            "prompt": prompt_string(group.prompt),
            "response": response.text,
            "annotator": self.annotator.value.strip(),
        }
        ticked = {attribute: _ticked(boxes) for attribute, boxes in self.boxes.items()}
        # The note is written before the rating. A form that is killed between the two counts the
        # response as unrated and shows it again.
        self._note(
            id=response.id,
            flags=[],
            **ticked,
            confidence=self.confidence.value,
            safe=self.safe.value,
        )
        append(self.path, row | values)
        return f"Saved: {_in_words(values, values)}."

    def _flag(self) -> str:
        """Write the flags of the group that is shown; returns what the form then says."""
        flags = _ticked(self.flags)
        if not flags:
            raise ValueError(f"tick what is wrong with the task first: {', '.join(FLAGS)}")
        self._note(id=None, flags=flags)
        return f"Flagged as {', '.join(flags)}; both responses are skipped."

    def _note(self, **fields: object) -> None:
        """Add a note about the group that is shown."""
        group, _ = self.current
        note = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "annotator": self.annotator.value.strip(),
            "group": group.id,
            **fields,
        }
        append(notes_path(self.path), note)


def _saved(scales: Mapping[str, Scale]) -> type[Saved]:
    """The rows that a form with these attributes wrote, with the ratings under aliases."""
    fields = {}
    for number, (name, scale) in enumerate(scales.items()):
        rating = Annotated[float, Field(ge=scale.low, le=scale.high)]
        fields[f"rating_{number}"] = (rating, Field(alias=name))
    return create_model("Row", __base__=Saved, **fields)


def _check_groups(groups: Sequence[Group]) -> None:
    """Raise ValueError where two groups or responses share an id, or a response has no text."""
    responses = [response for group in groups for response in group.responses]
    for kind, ids in (
        ("group", [group.id for group in groups]),
        ("response", [response.id for response in responses]),
    ):
        for id, times in Counter(ids).items():
            if times > 1:
                raise ValueError(f"{kind} ids must be unique, {id!r} occurs twice")
    if empty := [response.id for response in responses if not response.text.strip()]:
        raise ValueError(f"response {empty[0]!r} has no text that can be seen: leave its group out")


def _meanings(name: str, scale: Scale) -> list[str]:
    """What each level of an attribute means; nothing where no guidelines were written for it."""
    return SCALES[name]["meanings"] if scale == HELPSTEER and name in SCALES else []


def _question(name: str, scale: Scale) -> str:
    """The line above a control, as HTML: what is asked, and what the levels mean."""
    meanings = _meanings(name, scale)
    text = "; ".join(f"<b>{n}</b> {meaning}" for n, meaning in enumerate(meanings))
    if not meanings:
        text = f"from {scale.low:g}, the least, to {scale.high:g}, the most"
    question = SCALES[name]["question"] if name in SCALES else ""
    return f"<b>{html.escape(name)}</b>: {question} <small>{text}</small>"


def _buttons(name: str, scale: Scale) -> widgets.ToggleButtons:
    """A button for each level, with its meaning. Raises ValueError for a scale without levels."""
    low = int(scale.low)
    high = int(scale.high)
    if (low, high) != scale or high - low >= MOST_LEVELS:
        raise ValueError(
            f"{name}: the form has a button for each level, so a scale has whole numbers, and at "
            f"most {MOST_LEVELS}; got {scale.low:g}-{scale.high:g}"
        )
    return widgets.ToggleButtons(
        options=range(low, high + 1),
        value=None,
        tooltips=_meanings(name, scale),
        style={"button_width": "3em"},
    )


def _in_words(values: Mapping[str, float], names: Iterable[str]) -> str:
    return ", ".join(f"{name} {values[name]:g}" for name in names)


def _checkbox(text: str) -> widgets.Checkbox:
    return widgets.Checkbox(False, description=text, indent=False, layout={"width": "auto"})


def _ticked(boxes: Mapping[str, widgets.Checkbox]) -> list[str]:
    """The names of the boxes that are ticked."""
    return [name for name, box in boxes.items() if box.value]
