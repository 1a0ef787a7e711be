"""docs/map.md has one line for every module: the first line of its docstring.

python tests/test_map.py    # writes the map into docs/map.md
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = (
    "stats",
    "engine",
    "run",
    "corpus",
    "report",
    "train",
    "data",
    "models",
    "align",
    "evaluate",
    "collect",
    "launch",
    "score",
    "audit",
)
MARKS = "<!-- map: written by python tests/test_map.py -->\n", "<!-- end of the map -->\n"


def first_line(path):
    """What a module is for, in its own words."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def modules(folder):
    """The modules of a room, or those of the ground."""
    return sorted(path for path in folder.glob("*.py") if not path.name.startswith("__"))


def written():
    """The map as README has it: the ground, then the rooms in the order in which they may use each other."""
    lines = [f"hs2lib/{path.name:22}{first_line(path)}" for path in modules(ROOT / "hs2lib")]
    for room in ROOMS:
        folder = ROOT / "hs2lib" / room
        lines.append(f"{f'{room}/':24}{first_line(folder / '__init__.py')}")
        lines += [f"  {path.name:27}{first_line(path)}" for path in modules(folder)]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def test_the_map_has_every_module_in_its_own_words():
    """A map that is not held to the files is soon a map of another house."""
    text = (ROOT / "docs" / "map.md").read_text().partition(MARKS[0])[2].partition(MARKS[1])[0]
    assert text == written(), (
        "docs/map.md is not that of the files: python tests/test_map.py writes it"
    )


def test_first_lines_say_what_a_module_is_for():
    for path in (ROOT / "hs2lib").rglob("*.py"):
        if path.name != "__main__.py":
            line = first_line(path)
            assert len(line.split()) >= 3 and line.endswith("."), (
                f"{path.relative_to(ROOT)}: {line!r}"
            )
            assert len(line) <= 120, path


def test_the_rooms_are_those_of_the_linter():
    """The order of the map is the order that import-linter holds."""
    layers = re.search(r"^layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S)[
        1
    ]
    assert re.findall(r'"(\w+)"', layers)[::-1] == list(ROOMS)


def test_every_fault_of_old_is_held_by_tests_that_are_there():
    rows = [
        row
        for row in (ROOT / "docs" / "trust.md").read_text().splitlines()
        if re.match(r"\| \d", row)
    ]
    assert {int(row.split()[1]) for row in rows} == set(range(1, 11)) and all(
        row.count(" | ") == 2 for row in rows
    )
    for row in rows:
        held = re.findall(r"`(tests/[\w/]+\.py)`: ([\w, ]+\w)", row)
        assert held and not [
            name
            for file, names in held
            for name in names.split(", ")
            if f"def {name}(" not in (ROOT / file).read_text()
        ], row


def test_tests_lie_in_the_room_of_what_they_test():
    """Who changes a module finds its tests without a search: test_MODULE*.py, or the room's or a notebook's name."""
    for path in (ROOT / "tests").glob("*/test_*.py"):
        room, topic = path.parent.name, path.stem.removeprefix("test_")
        known = [module.stem for module in modules(ROOT / "hs2lib" / room)] + [room, "notebook"]
        assert room in ROOMS and any(
            topic == name or topic.startswith(f"{name}_") for name in known
        ), path


if __name__ == "__main__":
    before, _, rest = (ROOT / "docs" / "map.md").read_text().partition(MARKS[0])
    (ROOT / "docs" / "map.md").write_text(
        before + MARKS[0] + written() + MARKS[1] + rest.partition(MARKS[1])[2]
    )
