"""Parameters of notebooks: read the cell, check overrides, build the typed recipe.

One parameter a line in the cell tagged `parameters`:

    n_prompts: int = 400  # prompts to load, pairs; 1 to 1000000
    source: str = "embedded"  # where rows come from; one of SOURCES
    recipe: dict = {"keep": 2}  # further settings, see hs2lib.train.recipes.DPO

An upper-case word after `one of` is a tuple of `hs2lib.names`. The last line is for methods with
many settings: the word after `see` names a frozen dataclass whose fields are made by `setting`. It
holds the whole recipe. A parameter of the cell with the name of a field sets that field, and takes
the field's range where its own comment states none.

papermill only warns about an unknown parameter and never checks a type; here both are refused
before anything runs.
"""

import ast
import difflib
import json
import math
import pkgutil
import re
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, get_origin

import yaml

from hs2lib import names

TYPES = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict}


class ParameterError(ValueError):
    """A parameter or a parameters cell is wrong; the message says where and what to do."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a cell, or a setting of a recipe. `choices` or (`low`, `high`) is its range,
    if any.

    pattern: of a text that may be a secret by mistake; one that does not match it is refused and
    not shown. recipe: of `recipe` itself, the dataclass.
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
        return "" if self.low is None else f"{self.low:.12g} to {self.high:.12g}"

    def check(self, value: object, where: str) -> object:
        """`value` with this parameter's type (an int may stand for a float); `where` names the
        file.

        Raises ParameterError for a wrong type, a value out of range, or, in a recipe, an unknown
        name.
        """
        if self.pattern and not (isinstance(value, str) and re.fullmatch(self.pattern, value)):
            raise ParameterError(
                f"{where}: {self.name} is: {self.help}; what arrived is none, and is not shown"
            )
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                value = float(value)
            except OverflowError:  # 400 digits: no float is so large
                value = math.inf
        if self.type is tuple and isinstance(value, list):
            value = tuple(value)
        if type(value) is not self.type:
            wanted = f"{where}: {self.name} is {self.type.__name__} ({self.help})"
            raise ParameterError(f"{wanted}, got {type(value).__name__} {value!r}")
        if self.recipe:
            return check(value, settings(self.recipe), f"{where}, recipe")
        for item in value if self.type in (list, tuple) else [value]:
            if isinstance(item, float) and not math.isfinite(item):
                raise ParameterError(f"{where}: {self.name} = {item!r} is not finite")
            if self.choices and item not in self.choices:
                near = difflib.get_close_matches(str(item), map(str, self.choices), 1, 0.4)
                hint = f"; nearest: {near[0]}" if near else ""
                raise ParameterError(f"{where}: {self.name} = {item!r} is not {self.limits}{hint}")
            if self.low is not None and not (
                isinstance(item, int | float) and self.low <= item <= self.high
            ):
                raise ParameterError(f"{where}: {self.name} = {item!r} is outside {self.limits}")
        return value


def setting(
    default: object,
    help: str,
    low: float | None = None,
    high: float | None = None,
    one_of: tuple = (),
    pattern: str = "",
) -> Any:
    """A field of a recipe: its default, what it is with its unit, and its range, its choices or its pattern."""
    limits = dict(help=help, low=low, high=high, choices=one_of, pattern=pattern)
    return field(default=default, metadata=limits)


def settings(recipe: type) -> dict[str, Parameter]:
    """The fields of a recipe's dataclass by name, as parameters."""
    return {
        f.name: Parameter(f.name, get_origin(f.type) or f.type, f.default, **f.metadata)
        for f in fields(recipe)
    }


def _limits(text: str) -> dict:
    """The range that a comment states after its help: `one of a, NAMES`, `each one of ..` or `LO to HI`."""
    if not (one_of := re.fullmatch(r"(?:each )?one of (.+)", text)):
        low, high = map(float, text.split(" to "))
        return {"low": low, "high": high}
    words = [word.strip(' "') for word in one_of[1].split(",")]
    several = [getattr(names, word, (word,)) if word.isupper() else (word,) for word in words]
    return {"choices": tuple(chain.from_iterable(several))}


def specification(notebook: Path) -> dict[str, Parameter]:
    """Parameters of `notebook` by name, in order. Raises ParameterError for a cell papermill would misread."""
    # Not by nbformat: every kernel comes through here, and its schemas take two seconds to load.
    cells = json.loads(notebook.read_text())["cells"]
    cells = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    if len(cells) != 1:
        raise ParameterError(
            f"{notebook.name}: needs exactly one cell tagged 'parameters', has {len(cells)}"
        )
    source = "".join(cells[0]["source"])
    lines, known, of_recipe = source.splitlines(), {}, {}
    for node in reversed(
        ast.parse(source).body
    ):  # the recipe first: the others may take their range from it
        where = f"{notebook.name}, parameters cell line {node.lineno}"
        text, mark, comment = "\n".join(lines[node.lineno - 1 : node.end_lineno]).rpartition("  # ")
        name, _, kind = text.partition(" = ")[0].partition(": ")
        known_type = kind in TYPES and (kind == "dict") == (name == "recipe")
        if not mark or not known_type or (text + comment).count("=") > 1 or "|" in text + comment:
            line = (
                "write 'name: type = literal  # help, unit; range', with no second '=' and no '|'"
            )
            raise ParameterError(
                f"{where}: {line}; types: {', '.join(TYPES)} (dict for recipe alone)"
            )
        help, _, limits = comment.partition("; ")
        try:
            default, more = ast.literal_eval(node.value), _limits(limits) if limits else {}
            if name == "recipe":
                more["recipe"] = pkgutil.resolve_name(help.rpartition("see ")[2])
                of_recipe = settings(more["recipe"])
        except (ImportError, AttributeError, ValueError) as error:
            form = "a literal, its comment 'help, unit', '; one of a, b', '; LO to HI', of recipe 'see a.module.Name'"
            raise ParameterError(f"{where}: {name} must be {form}: {error}") from error
        if not limits and (same := of_recipe.get(name)):
            more = {limit: getattr(same, limit) for limit in ("choices", "low", "high", "pattern")}
        known[name] = Parameter(name, TYPES[kind], default, help, **more)
    known = dict(reversed(known.items()))
    check(
        {name: parameter.default for name, parameter in known.items()},
        known,
        f"{notebook.name}, parameters cell",
    )
    return known


def check(overrides: dict, known: dict[str, Parameter], where: str) -> dict:
    """`overrides` with every name and value checked against `known`; `where` names the file they came from."""
    further = settings(known["recipe"].recipe) if "recipe" in known else ()
    for name in overrides:
        if name not in known:
            near = difflib.get_close_matches(
                str(name), [*known, *(f"recipe.{more}" for more in further)], 1, 0.0
            )
            raise ParameterError(
                f"{where}: unknown parameter {name!r}; nearest valid name: {near[0]}"
            )
    checked = {name: known[name].check(value, where) for name, value in overrides.items()}
    if misplaced := checked.get("recipe", {}).keys() & known.keys():
        raise ParameterError(
            f"{where}, recipe: {min(misplaced)} is in the cell itself: set it as a parameter"
        )
    return checked


class _OnceLoader(yaml.SafeLoader):
    """A YAML loader that refuses a key which stands twice: the last one would count without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        lines: dict[str, int] = {}  # of each key
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # a list or a mapping as a key is refused below
            line = key.start_mark.line + 1
            if key.value in lines:
                raise ParameterError(
                    f"line {line}: {key.value} stands in line {lines[key.value]} too: keep one of them"
                )
            lines[key.value] = line
        return super().construct_mapping(node, deep)


def read_values(file: Path) -> dict:
    """The `name: value` lines of a YAML file; none where there is no file. Raises ParameterError for anything else."""
    try:
        if not file.exists():
            return {}
        loaded = yaml.load(file.read_text(encoding="utf-8"), _OnceLoader)
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
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ParameterError(f"{file}: expected 'name: value' lines, got {type(loaded).__name__}")
    return loaded


def typed(text: str, p: Parameter) -> object:
    """The value that `-p name=text` means, by the parameter's type: text as it is, else as Python
    or YAML writes it.

    Raises ParameterError for a text that is no such value.
    """
    try:
        return p.type(text) if p.type in (int, float, str) else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise ParameterError(
            f"-p {p.name}={text}: {p.name} is {p.type.__name__} ({p.help})"
        ) from error


def resolve(
    notebook: Path, tier: str, params: Path, overrides: dict | None = None, where: str = "overrides"
) -> dict:
    """Values to inject: the notebook's own, then `params/<tier>/<notebook>.yaml`, then `overrides`
    from `where`.

    A `recipe:` overrides single settings. The notebook's own values are the smoke tier, so that
    tier needs no file. Raises ParameterError as `check` does, and for another `tier` than the one
    that is asked for.
    """
    known = specification(notebook)
    file = params / tier / f"{notebook.stem}.yaml"
    values = {name: p.default for name, p in known.items()}
    for layer, source in ((read_values(file), str(file)), (overrides or {}, where)):
        checked = check(layer, known, source)
        if checked.get("tier", tier) != tier:
            raise ParameterError(
                f"{source}: tier is {checked['tier']}, but these are values of tier {tier}: remove it"
            )
        recipe = values.get("recipe", {}) | checked.get("recipe", {})
        values |= checked | {"tier": tier} | ({"recipe": recipe} if recipe else {})
    return values


def whole_recipe(known: dict[str, Parameter], values: dict) -> object | None:
    """The recipe that checked `values` make: the cell's parameters, its `recipe`, then defaults. None without one."""
    if "recipe" not in known:
        return None
    recipe, own = known["recipe"].recipe, settings(known["recipe"].recipe)
    chosen = {name: value for name, value in values.items() if name in own} | values.get(
        "recipe", {}
    )
    return recipe(**check(chosen, own, "recipe"))
