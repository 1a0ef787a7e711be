"""The annotation form: guidelines, ratings of a prompt's responses one after the other, written to
a JSONL file.

Paper: section 2.1 ("rate two responses to the same prompt sequentially") and appendix G (flags,
five axes from 0 to 4, check boxes, confidence, safe or not), the guidelines in our own words. Two
files are written, a line a time: the ratings, with just the columns that `data.load("ratings",
"folder", path=...)` reads, and beside it `*.notes.jsonl` with everything else. Annotators go by a
pseudonym; of a flagged task nothing but its id is kept, as it may hold names.
"""

import html
import os
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import ipywidgets as widgets
from jinja2 import Environment

from hs2lib.data.rated import OwnRating
from hs2lib.data.rows import DataError, Faults, Row, Text, sound
from hs2lib.group import ATTRIBUTES, Group, prompt_string
from hs2lib.paths import json_lines, read_yaml

_GUIDELINES = read_yaml(__file__, "guidelines.yaml")

FLAGS: dict[str, str] = _GUIDELINES["flags"]

SCALES: dict[str, dict] = _GUIDELINES[
    "scales"
]  # attribute -> question, and meanings of 0, 1, 2, 3 and 4

BOXES: dict[str, list[str]] = _GUIDELINES["boxes"]

_PAGE = Environment(autoescape=True).from_string(
    (Path(__file__).parent / "response.html").read_text()
)

_PSEUDONYM = re.compile(r"[A-Za-z0-9_-]{1,32}")


def notes_path(path: str | Path) -> Path:
    """Where flags, check boxes, confidence, safety and times go: ratings.jsonl -> ratings.notes.jsonl."""
    return Path(path).with_suffix(".notes.jsonl")


def append(path: Path, row: dict) -> None:
    """Add a row to a JSONL file in one write, on disk when this returns: a kill leaves all of it or nothing."""
    line = json_lines([row]).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+", buffering=0) as file:
        if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
            line = b"\n" + line  # a last line without its end, as some editors leave it
        file.write(line)
        os.fsync(file.fileno())


class Saved(OwnRating):
    """A rating as the form wrote it: with a group and an annotator."""

    group: Text
    annotator: Text


class Note(Row, extra="ignore"):
    """What of a note the form reads again."""

    group: Text
    annotator: Text
    flags: list[str]


def earlier(path: Path, model: type[Row]) -> list:
    """The rows of a JSONL file, none where there is no file yet. Raises DataError naming a line that is of no use."""
    if not path.exists() or not path.stat().st_size:
        return []
    with Faults(path) as faults:
        return [row for _, row in sound(path, model, faults)]


class AnnotationForm(widgets.VBox):
    """A form that walks an annotator through groups, response by response, and resumes where the
    file ends.

    groups: prompts with their responses, ids unique, no text empty. path: the JSONL file, made when
    the first rating is saved. annotator: a pseudonym, letters, digits, - and _; can be typed into
    the form instead. Controls by name, for tests and for whoever lays them out anew: annotator,
    flags, ratings, boxes, confidence, safe, save, flag, message. Raises ValueError for repeated ids
    and empty responses, DataError for a file that cannot be continued.
    """

    def __init__(self, groups: Sequence[Group], path: str | Path, annotator: str = ""):
        self.groups, self.path = tuple(groups), Path(path)
        if self.path.suffix != ".jsonl":
            raise ValueError(
                f"ratings are written as JSON lines: the file must end in .jsonl, got {self.path.name!r}"
            )
        if repeated := [
            id for id, times in Counter(group.id for group in self.groups).items() if times > 1
        ]:
            raise ValueError(f"group ids must be unique, {repeated[0]!r} occurs twice")
        ids = Counter(response.id for group in self.groups for response in group.responses)
        if repeated := [id for id, times in ids.items() if times > 1]:
            raise ValueError(
                f"response ids must be unique in all groups, {repeated[0]!r} occurs twice"
            )
        if empty := [r.id for group in self.groups for r in group.responses if not r.text.strip()]:
            raise ValueError(
                f"response {empty[0]!r} has no text that can be seen: leave its group out"
            )
        self._check_file()
        placeholder = {
            "placeholder": "pseudonym",
            "continuous_update": False,
        }  # read when Enter is pressed
        self.annotator = widgets.Text(annotator, description="annotator", **placeholder)
        self.shown, self.message = widgets.HTML(), widgets.HTML()
        self.flags = {name: _checkbox(f"{name}: {meaning}") for name, meaning in FLAGS.items()}
        scale = dict(options=range(5), value=None, style={"button_width": "3em"})
        self.ratings = {
            a: widgets.ToggleButtons(tooltips=SCALES[a]["meanings"], **scale) for a in ATTRIBUTES
        }
        self.boxes = {a: {name: _checkbox(name) for name in names} for a, names in BOXES.items()}
        self.confidence = widgets.ToggleButtons(
            options=_GUIDELINES["confidence"], value=None, description="how sure?"
        )
        self.safe = widgets.ToggleButtons(options=("pass", "fail"), value=None, description="safe?")
        self.save = widgets.Button(description="Save rating", button_style="primary")
        self.flag = widgets.Button(description="Flag task, skip it", button_style="warning")
        self.annotator.observe(lambda _: self._next(), "value")
        self.save.on_click(lambda _: self._guarded(self._save))
        self.flag.on_click(lambda _: self._guarded(self._flag))
        super().__init__(self._layout())
        self._next()

    def _layout(self) -> list[widgets.Widget]:
        rows = []
        for name, scale in self.ratings.items():
            question, meanings = SCALES[name].values()
            text = "; ".join(f"<b>{n}</b> {m}" for n, m in enumerate(meanings))
            rows += [widgets.HTML(f"<b>{name}</b>: {question} <small>{text}</small>"), scale]
            if name in BOXES:
                rows.append(widgets.HBox(list(self.boxes[name].values())))
            if name == "correctness":
                rows.append(self.confidence)
        flags = widgets.VBox(
            [widgets.HTML("<b>Not to be rated?</b>"), *self.flags.values(), self.flag]
        )
        advice = widgets.HTML(f"<small>{_GUIDELINES['advice']}</small>")
        return [
            self.annotator,
            self.shown,
            flags,
            *rows,
            self.safe,
            advice,
            self.save,
            self.message,
        ]

    def _check_file(self) -> None:
        """Every row must have what the loader needs, and a group's id must mean the same prompt as here."""
        prompts = {group.id: group.prompt for group in self.groups}
        for line, row in enumerate(earlier(self.path, Saved), 1):
            if row.prompt != prompts.get(row.group, row.prompt):
                what = f"group {row.group!r} has another prompt here"
                raise DataError(self.path, line, "prompt", what, "name a new file")
        earlier(notes_path(self.path), Note)

    def done(self) -> tuple[dict[tuple[str, str], str], set[str]]:
        """What the annotator has finished: ratings in words by (group id, response text), and ids of groups flagged."""
        mine = self.annotator.value.strip()
        rows = [row for row in earlier(self.path, Saved) if row.annotator == mine]
        rated = {
            (r.group, r.response): ", ".join(f"{a} {getattr(r, a):g}" for a in ATTRIBUTES)
            for r in rows
        }
        notes = earlier(notes_path(self.path), Note)
        return rated, {note.group for note in notes if note.annotator == mine and note.flags}

    def _next(self, message: str = "") -> None:
        """Show the first response not yet rated; two identical responses to a prompt are rated once."""
        rated, flagged = self.done()
        asked = [
            (g, i) for g in self.groups if g.id not in flagged for i in range(len(g.responses))
        ]
        left = [
            (group, i) for group, i in asked if (group.id, group.responses[i].text) not in rated
        ]
        self.current = left[0] if left else None
        for control in (
            *self.flags.values(),
            *(box for boxes in self.boxes.values() for box in boxes.values()),
        ):
            control.value = False
        for control in (*self.ratings.values(), self.confidence, self.safe):
            control.value = None
        self.save.disabled = self.flag.disabled = self.current is None
        group, position = self.current or (None, 0)
        shown = (
            [(r, rated.get((group.id, r.text))) for r in group.responses[: position + 1]]
            if group
            else []
        )
        self.shown.value = _PAGE.render(
            group=group, shown=shown, done=len(asked) - len(left), total=len(asked)
        )
        self.message.value = html.escape(message)

    def _guarded(self, act) -> None:
        """Run a button's action; what is wrong is said in the form, and nothing entered is lost."""
        try:
            if not _PSEUDONYM.fullmatch(self.annotator.value.strip()):
                raise ValueError(
                    "annotator: give a pseudonym of letters, digits, - or _, not a name or an address"
                )
            message = act()
        except (ValueError, OSError) as error:
            self.message.value = (
                f"<span style='color:#b00'>Not saved. {html.escape(str(error))}</span>"
            )
        else:
            self._next(message)

    def _save(self) -> str:
        group, position = self.current
        response = group.responses[position]
        if any(box.value for box in self.flags.values()):
            raise ValueError("a flag is set: take it back, or use the button 'Flag task, skip it'")
        needed = {**self.ratings, "how sure?": self.confidence, "safe?": self.safe}
        if missing := [name for name, control in needed.items() if control.value is None]:
            raise ValueError(f"still to be chosen: {', '.join(missing)}")
        row = {
            "group": group.id,
            "id": response.id,
            "prompt": prompt_string(group.prompt),
            "response": response.text,
        }
        row |= {"annotator": self.annotator.value.strip()} | {
            a: self.ratings[a].value for a in ATTRIBUTES
        }
        ticked = {
            a: [name for name, box in boxes.items() if box.value] for a, boxes in self.boxes.items()
        }
        # Notes first: after a kill between the two, the response counts as unrated and is shown
        # again.
        self._note(
            id=response.id,
            flags=[],
            **ticked,
            confidence=self.confidence.value,
            safe=self.safe.value,
        )
        append(self.path, row)
        return f"Saved: {', '.join(f'{a} {row[a]}' for a in ATTRIBUTES)}."

    def _flag(self) -> str:
        flags = [name for name, box in self.flags.items() if box.value]
        if not flags:
            raise ValueError(f"tick what is wrong with the task first: {', '.join(FLAGS)}")
        self._note(id=None, flags=flags)
        return f"Flagged as {', '.join(flags)}; both responses are skipped."

    def _note(self, **more: object) -> None:
        note = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "annotator": self.annotator.value.strip(),
        }
        append(notes_path(self.path), note | {"group": self.current[0].id, **more})


def _checkbox(text: str) -> widgets.Checkbox:
    return widgets.Checkbox(False, description=text, indent=False, layout={"width": "auto"})
