"""Parameters of notebooks: read the cell, check overrides, build the typed recipe.

One parameter a line in the cell tagged `parameters`:

    n_prompts: int = 400  # prompts to load, pairs; 1 to 1000000
    source: str = "postcards"  # where rows come from; one of SOURCES
    recipe: dict = {"keep": 2}  # further settings, see hs2lib.train.recipes.DPO

An upper-case word after `one of` is a tuple of `hs2lib.names`. The last line is for methods with
many settings. The word after `see` names a frozen dataclass whose fields are made by `setting`. It
holds the whole recipe. A parameter of the cell with the name of a field sets that field. It takes
the field's range where its own comment states none.

papermill only warns about an unknown parameter and never checks a type. Here both are refused
before anything runs.
"""

import ast
import difflib
import json
import math
import pkgutil
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_origin

import yaml

from hs2lib import names

TYPES = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict}


class ParameterError(ValueError):
    """A parameter or a parameters cell is wrong; the message says where and what to do."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a cell, or a setting of a recipe.

    Its range, if it has one, is `choices` or `low` to `high`.

    Fields:
        help: what it is, with its unit.
        pattern: what a text must match that may be a secret by mistake. A text that does not match
            is refused and not shown.
        recipe: of the parameter called recipe, its dataclass.
    """

    name: str
    type: type
    default: object
    help: str
    choices: tuple = ()
    low: float | None = None
    high: float | None = None
    pattern: str = ""
    recipe: type | None = None

    @property
    def limits(self) -> str:
        """The range in words, or ""."""
        if self.choices:
            return "one of " + ", ".join(str(choice) or '""' for choice in self.choices)
        if self.low is None:
            return ""
        return f"{self.low:.12g} to {self.high:.12g}"

    def check(self, value: object, where: str) -> object:
        """The value with this parameter's type; an int may stand for a float.

        Args:
            value: what a cell, a file or the command line gives.
            where: the file or cell that gives it, for messages.

        Raises:
            ParameterError: the type is wrong, the value is out of range, or a recipe holds an
                unknown name.
        """
        if self.pattern and not (isinstance(value, str) and re.fullmatch(self.pattern, value)):
            raise ParameterError(
                f"{where}: {self.name} is: {self.help}; what arrived is none, and is not shown"
            )
        value = self._converted(value)
        if type(value) is not self.type:
            raise ParameterError(
                f"{where}: {self.name} is {self.type.__name__} ({self.help}), "
                f"got {type(value).__name__} {value!r}"
            )
        if self.recipe:
            return check(value, settings(self.recipe), f"{where}, recipe")
        if self.type in (list, tuple):
            for item in value:
                self._check_range(item, where)
        else:
            self._check_range(value, where)
        return value

    def _converted(self, value: object) -> object:
        """An int as a float and a list as a tuple, where this parameter is of that type."""
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:  # 400 digits: no float is so large
                return math.inf
        if self.type is tuple and isinstance(value, list):
            return tuple(value)
        return value

    def _check_range(self, item: object, where: str) -> None:
        """Raise ParameterError where a value, or one item of a list, is out of range."""
        if isinstance(item, float) and not math.isfinite(item):
            raise ParameterError(f"{where}: {self.name} = {item!r} is not finite")
        if self.choices and item not in self.choices:
            nearest = difflib.get_close_matches(str(item), map(str, self.choices), 1, 0.4)
            hint = f"; nearest: {nearest[0]}" if nearest else ""
            raise ParameterError(f"{where}: {self.name} = {item!r} is not {self.limits}{hint}")
        if self.low is None:
            return
        if not isinstance(item, int | float) or not self.low <= item <= self.high:
            raise ParameterError(f"{where}: {self.name} = {item!r} is outside {self.limits}")


def setting(
    default: object,
    help: str,
    low: float | None = None,
    high: float | None = None,
    one_of: tuple = (),
    pattern: str = "",
) -> Any:
    """A field of a recipe: its default, what it is with its unit, and its range.

    The range is `low` to `high`, the choices `one_of`, or a regular expression, `pattern`.
    """
    metadata = {"help": help, "low": low, "high": high, "choices": one_of, "pattern": pattern}
    return field(default=default, metadata=metadata)


def settings(recipe: type) -> dict[str, Parameter]:
    """The fields of a recipe's dataclass by name, as parameters."""
    parameters = {}
    for entry in fields(recipe):
        plain_type = get_origin(entry.type) or entry.type  # tuple, of tuple[float, float]
        parameters[entry.name] = Parameter(entry.name, plain_type, entry.default, **entry.metadata)
    return parameters


def _range_of(text: str) -> dict[str, Any]:
    """The range that a comment states after its help.

    It is `one of a, NAMES`, `each one of a, NAMES` or `LO to HI`.
    """
    one_of = re.fullmatch(r"(?:each )?one of (.+)", text)
    if not one_of:
        low, high = map(float, text.split(" to "))
        return {"low": low, "high": high}
    choices: list[str] = []
    for word in one_of[1].split(","):
        word = word.strip(' "')
        if word.isupper():
            choices += getattr(names, word, (word,))
        else:
            choices.append(word)
    return {"choices": tuple(choices)}


def specification(notebook: Path) -> dict[str, Parameter]:
    """Parameters of a notebook by name, in order.

    Raises ParameterError for a cell that papermill would misread.
    """
    # Not by nbformat: every kernel comes through here, and its schemas take two seconds to load.
    cells = json.loads(notebook.read_text())["cells"]
    cells = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    if len(cells) != 1:
        raise ParameterError(
            f"{notebook.name}: needs exactly one cell tagged 'parameters', has {len(cells)}"
        )
    source = "".join(cells[0]["source"])
    lines = source.splitlines()
    backwards: dict[str, Parameter] = {}
    of_recipe: dict[str, Parameter] = {}
    # The recipe, the last line, comes first: the others may take their range from it.
    for statement in reversed(ast.parse(source).body):
        where = f"{notebook.name}, parameters cell line {statement.lineno}"
        text = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
        parameter = _read_line(statement, text, of_recipe, where)
        if parameter.recipe:
            of_recipe = settings(parameter.recipe)
        backwards[parameter.name] = parameter
    known = dict(reversed(backwards.items()))
    defaults = {name: parameter.default for name, parameter in known.items()}
    check(defaults, known, f"{notebook.name}, parameters cell")
    return known


def _read_line(
    statement: ast.stmt, text: str, of_recipe: dict[str, Parameter], where: str
) -> Parameter:
    """The parameter that a statement of the cell sets.

    Args:
        statement: as Python reads it.
        text: its lines, with the comment.
        of_recipe: the settings of the recipe, by name.
        where: the notebook and the line, for messages.

    Raises:
        ParameterError: papermill would misread the line, or it has another form.
    """
    assignment, mark, comment = text.rpartition("  # ")
    comment = comment.removesuffix("\n)")  # a long line, as `ruff format` breaks it
    name, _, kind = assignment.partition(" = ")[0].partition(": ")
    is_known = kind in TYPES and (kind == "dict") == (name == "recipe")
    is_misread = (assignment + comment).count("=") > 1 or "|" in assignment + comment
    if not mark or not is_known or is_misread:
        raise ParameterError(
            f"{where}: write 'name: type = literal  # help, unit; range', with no second '=' and "
            f"no '|'; types: {', '.join(TYPES)} (dict for recipe alone)"
        )
    help, _, range_text = comment.partition("; ")
    try:
        default = ast.literal_eval(statement.value)
        limits = _range_of(range_text) if range_text else {}
        recipe = None
        if name == "recipe":
            recipe = pkgutil.resolve_name(help.rpartition("see ")[2])
    except (ImportError, AttributeError, ValueError) as error:
        raise ParameterError(
            f"{where}: {name} must be a literal, its comment 'help, unit', '; one of a, b', "
            f"'; LO to HI', of recipe 'see a.module.Name': {error}"
        ) from error
    if not range_text and name in of_recipe:
        same = of_recipe[name]
        limits = {
            "choices": same.choices,
            "low": same.low,
            "high": same.high,
            "pattern": same.pattern,
        }
    return Parameter(name, TYPES[kind], default, help, recipe=recipe, **limits)


def check(overrides: dict, known: dict[str, Parameter], where: str) -> dict:
    """The overrides, with every name and value checked.

    Args:
        overrides: values by name.
        known: the parameters that there are, by name.
        where: the file that the overrides come from, for messages.

    Raises:
        ParameterError: a name is unknown or stands in the wrong place, or a value is refused.
    """
    valid = list(known)
    if "recipe" in known:
        valid += [f"recipe.{name}" for name in settings(known["recipe"].recipe)]
    for name in overrides:
        if name not in known:
            nearest = difflib.get_close_matches(str(name), valid, 1, 0.0)
            raise ParameterError(
                f"{where}: unknown parameter {name!r}; nearest valid name: {nearest[0]}"
            )
    checked = {name: known[name].check(value, where) for name, value in overrides.items()}
    misplaced = checked.get("recipe", {}).keys() & known.keys()
    if misplaced:
        raise ParameterError(
            f"{where}, recipe: {min(misplaced)} is in the cell itself: set it as a parameter"
        )
    return checked


class _OnceLoader(yaml.SafeLoader):
    """A YAML loader that refuses a key which stands twice; the last one would count otherwise."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        line_of: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # a list or a mapping as a key is refused below
            line = key.start_mark.line + 1
            if key.value in line_of:
                raise ParameterError(
                    f"line {line}: {key.value} stands in line {line_of[key.value]} too: "
                    "keep one of them"
                )
            line_of[key.value] = line
        return super().construct_mapping(node, deep)


def read_values(file: Path) -> dict:
    """The `name: value` lines of a YAML file; {} where there is no file.

    Raises ParameterError for anything else.
    """
    try:
        if not file.exists():
            return {}
        values = yaml.load(file.read_text(encoding="utf-8"), _OnceLoader)
    except OSError as error:  # also of a name that is too long
        raise ParameterError(f"{file}: cannot be read ({error.strerror})") from error
    except ParameterError as error:
        raise ParameterError(f"{file}, {error}") from None
    except UnicodeDecodeError as error:
        raise ParameterError(
            f"{file}: byte {error.start + 1} is not UTF-8: save the file as UTF-8"
        ) from error
    except RecursionError:
        raise ParameterError(f"{file}: nested too deeply: expected 'name: value' lines") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2024-13-45
        raise ParameterError(f"{file}: not YAML: {error}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ParameterError(f"{file}: expected 'name: value' lines, got {type(values).__name__}")
    return values


SEARCHED = "searched"  # of a tier's file: the values that the paper searched, by name
READS = "reads"  # the runs to read in place of a notebook's own: `hs2lib.runs.graph`


def searched(file: Path) -> dict[str, list]:
    """What the file of a tier says that was searched: values by parameter or setting.

    Raises ParameterError where it says something else than lists by name.
    """
    found = read_values(file).get(SEARCHED) or {}
    if not isinstance(found, dict) or not all(isinstance(part, list) for part in found.values()):
        raise ParameterError(f"{file}: {SEARCHED} is lists by name, as beta: [0.1, 0.3]")
    return found


def typed(text: str, p: Parameter) -> object:
    """The value that `-p name=text` means, by the parameter's type.

    A number or a text is taken as Python reads it, all else as YAML does. Raises ParameterError for
    a text that is no such value.
    """
    try:
        if p.type in (int, float, str):
            return p.type(text)
        return yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise ParameterError(
            f"-p {p.name}={text}: {p.name} is {p.type.__name__} ({p.help})"
        ) from error


def resolve(
    notebook: Path, tier: str, params: Path, overrides: dict | None = None, where: str = "overrides"
) -> dict:
    """Values to inject into a notebook at a tier.

    They are the notebook's own, then those of `params/<tier>/<notebook>.yaml`, then the overrides.
    A `recipe:` overrides single settings. The notebook's own values are the smoke tier, so that
    tier needs no file.

    Args:
        notebook: its file.
        tier: one of `hs2lib.names.TIERS`.
        params: the folder `params`.
        overrides: values by name.
        where: where the overrides come from, for messages.

    Raises:
        ParameterError: as `check`, and for another `tier` than the one that is asked for.
    """
    known = specification(notebook)
    file = params / tier / f"{notebook.stem}.yaml"
    values = {name: parameter.default for name, parameter in known.items()}
    of_tier = read_values(file)
    of_tier.pop(SEARCHED, None)
    of_tier.pop(READS, None)
    for layer, source in ((of_tier, str(file)), (overrides or {}, where)):
        checked = check(layer, known, source)
        if checked.get("tier", tier) != tier:
            raise ParameterError(
                f"{source}: tier is {checked['tier']}, but these are values of tier {tier}: "
                "remove it"
            )
        recipe = values.get("recipe", {}) | checked.get("recipe", {})
        values |= checked
        values["tier"] = tier
        if recipe:
            values["recipe"] = recipe
    return values


def whole_recipe(known: dict[str, Parameter], values: dict) -> object | None:
    """The recipe that checked values make; None for a notebook without one.

    A setting's value is that of the cell's parameter or of its `recipe`, else the default.
    """
    if "recipe" not in known:
        return None
    recipe_class = known["recipe"].recipe
    of_recipe = settings(recipe_class)
    chosen = {name: value for name, value in values.items() if name in of_recipe}
    chosen |= values.get("recipe", {})
    return recipe_class(**check(chosen, of_recipe, "recipe"))
