"""Parameters are refused before anything runs: papermill only warns of unknown names and checks no type."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from hs2lib.paths import root
from hs2lib.run import parameters
from hs2lib.run.parameters import ParameterError


def notebook(path, source):
    cell = new_code_cell(source, id="parameters", metadata={"tags": ["parameters"]})
    nbformat.write(new_notebook(cells=[cell]), path)
    return path


CELL = """tier: str = "smoke"  # tier; one of smoke, demo
n_prompts: int = 400  # prompts, pairs; 1 to 1000
rate: float = 1e-6  # learning rate; 0 to 1
names: list = ["a"]  # data sets to read; each one of a, b
path: str = ""  # file"""


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "params" / "demo").mkdir(parents=True)
    return notebook(tmp_path / "01_toy.ipynb", CELL), tmp_path / "params"


def test_cell_is_read_with_types_help_and_ranges(suite):
    known = parameters.specification(suite[0])
    assert list(known) == ["tier", "n_prompts", "rate", "names", "path"]
    assert known["n_prompts"] == parameters.Parameter("n_prompts", int, 400, "prompts, pairs", (), 1.0, 1000.0)
    assert known["tier"].choices == ("smoke", "demo")
    assert known["path"].choices == () and known["path"].low is None


def test_sparse_overrides_join_the_notebooks_own_values(suite):
    (suite[1] / "demo" / "01_toy.yaml").write_text("n_prompts: 7\nrate: 1\n")
    values = parameters.resolve(*suite[:1], "demo", suite[1])
    assert values == {"tier": "demo", "n_prompts": 7, "rate": 1.0, "names": ["a"], "path": ""}
    assert type(values["rate"]) is float


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("n_promts: 7", r"01_toy.yaml: unknown parameter 'n_promts'; nearest valid name: n_prompts"),
        ("n_prompts: many", r"01_toy.yaml: n_prompts is int \(prompts, pairs\), got str 'many'"),
        ("n_prompts: 7.5", r"n_prompts is int"),
        ("n_prompts: true", r"n_prompts is int .* got bool True"),
        ("n_prompts: 0", r"n_prompts = 0 is outside 1 to 1000"),
        ("tier: demmo", r"tier = 'demmo' is not one of smoke, demo; nearest: demo"),
        ("names: [a, c]", r"names = 'c' is not one of a, b"),
        ("- 3", r"expected 'name: value' lines, got list"),
        ("a: [", r"01_toy.yaml: not YAML"),
    ],
)
def test_a_bad_override_names_file_parameter_and_fix(suite, yaml, message):
    (suite[1] / "demo" / "01_toy.yaml").write_text(yaml)
    with pytest.raises(ParameterError, match=message):
        parameters.resolve(suite[0], "demo", suite[1])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n = 3  # help", "write 'name: type = literal"),
        ("n: int = 3", "the comment must read"),
        ("n: int = 3  # help; from 1 up", "the comment must read"),
        ("n: dict = 3  # help", "type must be one of"),
        ('n: str = "a=b"  # help', "no second '='"),
        ('n: str = "a|b"  # help', "no '|'"),
        ("n: int = 1 + len('a')  # help", "n must be a literal"),
        ("n: int = 9  # help; 1 to 5", "n = 9 is outside 1 to 5"),
    ],
)
def test_a_cell_papermill_would_misread_is_refused(tmp_path, line, message):
    path = notebook(tmp_path / "01_toy.ipynb", line)
    with pytest.raises(ParameterError, match=message.replace("|", r"\|")):
        parameters.specification(path)


def test_every_parameter_file_of_the_suite_fits_its_notebook():
    files = sorted((root() / "params").glob("*/*.yaml"))
    assert files
    for file in files:
        parameters.resolve(root() / "notebooks" / f"{file.stem}.ipynb", file.parent.name, root() / "params")
