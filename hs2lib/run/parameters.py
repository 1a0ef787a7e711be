"""What a notebook may be told: parse its parameters cell, check overrides against it, name the nearest valid name.

One parameter a line in the cell tagged `parameters`:

    n_prompts: int = 400  # prompts to load, pairs; 1 to 1000000
    source: str = "embedded"  # where rows come from; one of embedded, folder, hub

papermill only warns about an unknown parameter and never checks a type; here both are refused before anything runs.
"""

import ast
import difflib
import io
import json
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path

import yaml

TYPES = {"int": int, "float": float, "str": str, "bool": bool, "list": list}


class ParameterError(ValueError):
    """A parameter or a parameters cell is wrong; the message says where and what to do."""


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell. `choices` or (`low`, `high`) is the range its comment states, if any."""

    name: str
    type: type
    default: object
    help: str
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None

    def check(self, value: object, where: str) -> object:
        """`value` as this parameter takes it (an int is welcome where a float is due); `where` names the file."""
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not self.type:
            raise ParameterError(
                f"{where}: {self.name} is {self.type.__name__} ({self.help}), got {type(value).__name__} {value!r}"
            )
        items = value if self.type is list else [value]
        for item in items:
            if self.choices and item not in self.choices:
                near = difflib.get_close_matches(str(item), self.choices, 1, 0.4)
                hint = f"; nearest: {near[0]}" if near else ""
                raise ParameterError(f"{where}: {self.name} = {item!r} is not one of {', '.join(self.choices)}{hint}")
            if self.low is not None and not self.low <= item <= self.high:
                raise ParameterError(f"{where}: {self.name} = {item!r} is outside {self.low:g} to {self.high:g}")
        return value


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}


_NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"


def specification(notebook: Path) -> dict[str, Parameter]:
    """Parameters of `notebook` by name, in order. Raises ParameterError for a cell papermill would misread."""
    # Not by nbformat: every kernel comes through here, and its schemas take two seconds to load.
    cells = json.loads(notebook.read_text())["cells"]
    cells = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    if len(cells) != 1:
        raise ParameterError(f"{notebook.name}: needs exactly one cell tagged 'parameters', has {len(cells)}")
    source, found = "".join(cells[0]["source"]), {}
    comments = _comments(source)
    for node in ast.parse(source).body:
        where = f"{notebook.name}, parameters cell line {node.lineno}"
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Name) and node.value):
            raise ParameterError(f"{where}: write 'name: type = literal  # help, unit; range'")
        line = source.splitlines()[node.lineno - 1]
        if node.annotation.id not in TYPES or line.count("=") > 1 or "|" in line:
            raise ParameterError(f"{where}: type must be one of {', '.join(TYPES)}; no second '=' and no '|'")
        help, _, limits = comments.get(node.lineno, "").partition("; ")
        one_of = re.fullmatch(r"(?:each |)one of (.+)", limits)
        span = re.fullmatch(rf"({_NUMBER}) to ({_NUMBER})", limits)
        if not help or (limits and not one_of and not span):
            raise ParameterError(f"{where}: the comment must read 'help, unit; one of a, b' or '; LO to HI'")
        choices = tuple(x.strip().strip('"') for x in one_of[1].split(",")) if one_of else ()
        low, high = (float(span[1]), float(span[2])) if span else (None, None)
        name = node.target.id
        try:
            default = ast.literal_eval(node.value)
        except ValueError as error:
            raise ParameterError(f"{where}: {name} must be a literal") from error
        parameter = Parameter(name, TYPES[node.annotation.id], default, help, choices, low, high)
        parameter.check(default, where)
        found[name] = parameter
    return found


def check(overrides: dict, known: dict[str, Parameter], where: str) -> dict:
    """`overrides` with every name and value checked against `known`; `where` names the file they came from."""
    for name in overrides:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1, 0.0)
            raise ParameterError(f"{where}: unknown parameter {name!r}; nearest valid name: {near[0]}")
    return {name: known[name].check(value, where) for name, value in overrides.items()}


def resolve(notebook: Path, tier: str, params: Path, overrides: dict | None = None) -> dict:
    """Values to inject: the notebook's own, then `params/<tier>/<notebook>.yaml`, then `overrides`.

    The notebook's own values are the smoke tier, so that tier needs no file.
    """
    known = specification(notebook)
    values = {name: p.default for name, p in known.items()}
    file = params / tier / f"{notebook.stem}.yaml"
    if file.exists():
        try:
            loaded = yaml.safe_load(file.read_text()) or {}
        except yaml.YAMLError as error:
            raise ParameterError(f"{file}: not YAML: {error}") from error
        if not isinstance(loaded, dict):
            raise ParameterError(f"{file}: expected 'name: value' lines, got {type(loaded).__name__}")
        values |= check(loaded, known, str(file))
    return values | {"tier": tier} | check(overrides or {}, known, "--set")
