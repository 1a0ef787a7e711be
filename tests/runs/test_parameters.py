"""Parameters are refused before anything runs: papermill only warns of unknown names and checks no type."""

import dataclasses
import inspect
import math
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from hs2lib import code
from hs2lib.paths import notebook as path
from hs2lib.paths import root, sha256
from hs2lib.runs import graph, parameters
from hs2lib.runs.parameters import ParameterError
from hs2lib.train import recipes


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
    assert known["n_prompts"] == parameters.Parameter(
        "n_prompts", int, 400, "prompts, pairs", (), 1.0, 1000.0
    )
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
        (
            "n_promts: 7",
            r"01_toy.yaml: unknown parameter 'n_promts'; nearest valid name: n_prompts",
        ),
        ("n_prompts: many", r"01_toy.yaml: n_prompts is int \(prompts, pairs\), got str 'many'"),
        ("n_prompts: 7.5", r"n_prompts is int"),
        ("n_prompts: true", r"n_prompts is int .* got bool True"),
        ("n_prompts: 0", r"n_prompts = 0 is outside 1 to 1000"),
        ("tier: demmo", r"tier = 'demmo' is not one of smoke, demo; nearest: demo"),
        ("names: [a, c]", r"names = 'c' is not one of a, b"),
        ("- 3", r"expected 'name: value' lines, got list"),
        ("a: [", r"01_toy.yaml: not YAML"),
        ("n_prompts: 2024-13-45", r"01_toy.yaml: not YAML: month must be in"),
        (b"path: caf\xe9", r"01_toy.yaml: byte 10 is not UTF-8"),
        ("names: " + "[" * 5000, r"01_toy.yaml: nested too deeply"),
        (
            "n_prompts: 7\nrate: 1\nn_prompts: 8",
            r"01_toy.yaml, line 3: n_prompts stands in line 1 too",
        ),
        ("tier: smoke", r"01_toy.yaml: tier is smoke, but these are values of tier demo"),
        ("false", r"expected 'name: value' lines, got bool"),
        (f"rate: {10**400}", r"rate = inf is not finite"),
    ],
)
def test_a_bad_override_names_file_parameter_and_fix(suite, yaml, message):
    """Each is refused before a notebook starts; the last ones were a traceback, or passed without a word."""
    (suite[1] / "demo" / "01_toy.yaml").write_bytes(
        yaml if isinstance(yaml, bytes) else yaml.encode()
    )
    with pytest.raises(ParameterError, match=message):
        parameters.resolve(suite[0], "demo", suite[1])


def test_a_file_may_say_its_own_tier_for_papermill(suite):
    """`papermill -f` takes a file without `hs2 run`, which alone knows the tier otherwise."""
    (suite[1] / "demo" / "01_toy.yaml").write_text("tier: demo\nn_prompts: 7\n")
    assert parameters.resolve(suite[0], "demo", suite[1])["tier"] == "demo"


@pytest.mark.parametrize(
    ("name", "words"), [("a" * 300, "File name too long"), ("", "Is a directory")]
)
def test_a_parameter_file_that_cannot_be_read_is_named(tmp_path, name, words):
    with pytest.raises(ParameterError, match=rf"{name}: cannot be read .{words}"):
        parameters.read_values(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n = 3  # help", "write 'name: type = literal"),
        ("n: int = 3", "write 'name: type = literal"),
        ("n: int = 3  # help; from 1 up", "its comment 'help, unit'"),
        ("n: dict = {}  # help", "types: int, .* \\(dict for recipe alone\\)"),
        ("n: set = {3}  # help", "types: int, float"),
        ('n: str = "a"  # help; one of SUORCES', "n = 'a' is not one of SUORCES"),
        (
            'n: str = "web"  # help; one of SOURCES',
            "n = 'web' is not one of postcards, folder, hub",
        ),
        ("recipe: dict = {}  # further settings", "of recipe 'see a.module.Name'"),
        ("recipe: dict = {}  # see hs2lib.train.recipes.DPPO", "of recipe 'see a.module.Name'"),
        (
            'recipe: dict = {"keep": -1}  # see hs2lib.train.recipes.DPO',
            "recipe: keep = -1 is outside 0 to 1000",
        ),
        ('n: str = "a=b"  # help', "no second '='"),
        ('n: str = "a|b"  # help', "and no '|'"),
        ("n: int = 1 + len('a')  # help", "n must be a literal"),
        ("n: int = 9  # help; 1 to 5", "n = 9 is outside 1 to 5"),
    ],
)
def test_a_cell_papermill_would_misread_is_refused(tmp_path, line, message):
    path = notebook(tmp_path / "01_toy.ipynb", line)
    with pytest.raises(ParameterError, match=message.replace("|", r"\|")):
        parameters.specification(path)


METHOD = """tier: str = "smoke"  # tier; one of TIERS
beta: float = 0.5  # KL penalty
recipe: dict = {"keep": 2, "warmup": 3}  # further settings, see hs2lib.train.recipes.DPO"""


@pytest.fixture
def method(tmp_path):
    (tmp_path / "params" / "demo").mkdir(parents=True)
    return notebook(tmp_path / "01_toy.ipynb", METHOD), tmp_path / "params"


def test_a_recipe_is_the_cell_then_the_file_then_the_defaults(method):
    """beta is the cell's own, keep the file's over the cell's, warmup the cell's over the default, clip the default."""
    (method[1] / "demo" / "01_toy.yaml").write_text(
        "beta: 2\nrecipe:\n  keep: 5\n  betas: [0.8, 0.9]\n"
    )
    values = parameters.resolve(method[0], "demo", method[1])
    assert values == {
        "tier": "demo",
        "beta": 2.0,
        "recipe": {"keep": 5, "warmup": 3, "betas": (0.8, 0.9)},
    }
    whole = parameters.whole_recipe(parameters.specification(method[0]), values)
    assert isinstance(whole, recipes.DPO)
    assert (whole.beta, whole.keep, whole.warmup, whole.betas) == (2.0, 5, 3, (0.8, 0.9))
    assert whole.clip == recipes.DPO().clip


def test_a_setting_that_stands_twice_in_a_recipe_is_named(method):
    (method[1] / "demo" / "01_toy.yaml").write_text("recipe:\n  warmup: 3\n  warmup: 4\n")
    with pytest.raises(ParameterError, match=r"01_toy.yaml, line 3: warmup stands in line 2 too"):
        parameters.resolve(method[0], "demo", method[1])


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        (
            "recipe: {kepe: 2}",
            r"01_toy.yaml, recipe: unknown parameter 'kepe'; nearest valid name: keep",
        ),
        ("recipe: {keep: 2.5}", r"recipe: keep is int \(best checkpoints.* got float 2.5"),
        (
            "recipe: {method: lra}",
            r"recipe: method = 'lra' is not one of full, lora; nearest: lora",
        ),
        ("recipe: {betas: [0.9, 2]}", r"betas = 2 is outside 0 to 1"),
        ("recipe: {clip: .nan}", r"clip = nan is not finite"),
        ("recipe: {beta: 0.1}", r"recipe: beta is in the cell itself: set it as a parameter"),
        ("recipe: 3", r"recipe is dict"),
        ("beta: 11", r"beta = 11.0 is outside 1e-06 to 10"),
        ("keep: 3", r"unknown parameter 'keep'; nearest valid name: recipe.keep"),
    ],
)
def test_a_recipe_is_checked_as_strictly_as_parameters(method, yaml, message):
    (method[1] / "demo" / "01_toy.yaml").write_text(yaml)
    with pytest.raises(ParameterError, match=message):
        parameters.resolve(method[0], "demo", method[1])


@pytest.mark.parametrize("key", ["sk-hs2-0123456789", "hf_AbCdEf0123456789", 12345678])
def test_a_key_in_the_place_of_its_variable_is_refused_and_not_shown(key, tmp_path):
    """Before papermill writes it into the executed notebook; from a file as from the command line."""
    thirteen = path("13_aligned_model_evaluation")
    with pytest.raises(
        ParameterError, match=r"key_variable is: name, in capitals, .* is not shown"
    ) as info:
        parameters.resolve(thirteen, "smoke", tmp_path, {"recipe": {"key_variable": key}})
    (tmp_path / "smoke").mkdir()
    (tmp_path / "smoke" / thirteen.with_suffix(".yaml").name).write_text(
        f"recipe: {{key_variable: {key}}}"
    )
    with pytest.raises(ParameterError, match="is not shown") as again:
        parameters.resolve(thirteen, "smoke", tmp_path)
    assert str(key) not in str(info.value) + str(again.value)
    named = {"recipe": {"key_variable": "MY_KEY_2"}}
    assert parameters.resolve(thirteen, "laptop", tmp_path, named)["recipe"] == named["recipe"]


@pytest.mark.parametrize("name", ["04_data_collection", "13_aligned_model_evaluation"])
@pytest.mark.parametrize(
    "url", ["https://host/v1?key=sk-1", "https://me:sk-1@host/v1", "sk-1", "http://host/v1#sk-1"]
)
def test_an_address_that_may_hold_a_key_is_refused_and_not_shown(name, url, tmp_path):
    """The judge refused it too, but papermill had written it into the executed notebook by then."""

    def resolve(address):
        asked = {"judge_url": address}
        asked = asked if "judge_url" in CELLS[name] else {"recipe": asked}
        return parameters.resolve(path(name), "smoke", tmp_path, asked)

    with pytest.raises(
        ParameterError, match=r"judge_url is: address .*without user, .* is not shown"
    ) as info:
        resolve(url)
    assert "sk-1" not in str(info.value)
    for sound in ("", "http://localhost:8000/v1", "HTTPS://api.example.com"):
        values = resolve(sound)
        assert values.get("judge_url", values["recipe"].get("judge_url")) == sound


@pytest.mark.parametrize("name", graph.notebooks())
def test_a_number_out_of_range_or_none_is_refused_and_named(name):
    """Of every parameter and every setting: before anything runs, so that earlier results stay whole."""
    known = parameters.specification(path(name))
    several = [
        *known.values(),
        *(parameters.settings(known["recipe"].recipe).values() if "recipe" in known else ()),
    ]
    wrong = {
        float: (math.nan, math.inf, -math.inf),
        int: (-(10**400), 10**400),
        list: ([math.nan],),
    }
    wrong[tuple] = ((math.nan,),)
    for parameter in several:
        for value in wrong.get(parameter.type, ()):
            with pytest.raises(
                ParameterError, match=f"^file: {parameter.name} = .* is (outside|not) "
            ) as info:
                parameter.check(value, "file")
            assert len(str(info.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": -0.1}, "DPO: beta = -0.1 is outside 1e-06 to 10"),
        ({"batch": 0}, "DPO: batch = 0 is outside 1 to 100000"),
        ({"autocast": "float16"}, "DPO: autocast = 'float16' is not one of float32, bfloat16"),
        ({"clip": "1"}, "DPO: clip is float .* got str '1'"),
    ],
)
def test_a_recipe_made_in_python_is_checked_too(changes, message):
    """A notebook's was; of one made for `trainer.fit` by hand a batch of 0 or a beta below 0 passed."""
    with pytest.raises(ParameterError, match=message):
        recipes.DPO(**changes)
    with pytest.raises(ParameterError, match=message):
        dataclasses.replace(recipes.DPO(), **changes)


def test_every_default_of_every_recipe_is_in_its_own_range():
    classes = [x for x in vars(recipes).values() if dataclasses.is_dataclass(x)]
    assert recipes.DPO in classes
    for recipe in classes:
        for setting in parameters.settings(recipe).values():
            setting.check(setting.default, recipe.__name__)


CELLS = {name: parameters.specification(path(name)) for name in graph.notebooks()}


def reached(cells):
    """The modules of hs2lib that cells use, directly or through others."""
    names = set()
    for cell in cells:
        names |= code.read_cell(cell.source).library
    return code.reach(names)


@pytest.mark.parametrize("name", graph.notebooks())
def test_every_setting_counts(name):
    """A setting that neither the notebook nor a module of it reads is none."""
    cells = [cell for cell in nbformat.read(path(name), 4).cells if cell.cell_type == "code"]
    (cell,) = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    if "recipe" in CELLS[name]:
        modules = [file.read_text() for file in map(code.module_file, reached(cells))]
        text = "\n".join([*(other.source for other in cells if other is not cell), *modules])
        recipe = CELLS[name]["recipe"].recipe
        for kind in recipe.__mro__:  # a property of a method's own goes on from that of all methods
            for option, member in inspect.getmembers(
                kind, lambda member: isinstance(member, property)
            ):
                if f"recipe.{option}" in text:  # what it is made of is read with it
                    text += inspect.getsource(member.fget).replace("self.", "recipe.")
        own = parameters.settings(recipe).keys() - CELLS[name].keys()
        assert not [
            setting
            for setting in own
            if f"recipe.{setting}" not in text and f'"{setting}"' not in text
        ]


QUOTED = re.compile(
    r"#.*(section \d|appendix [A-Z]|paper silent|reference code|not of the paper)", re.I
)


@pytest.mark.parametrize("tier, said", [("paper", QUOTED), ("gpu", re.compile(r"  # \w"))])
def test_every_value_says_where_it_is_from(tier, said):
    """At tier gpu: what the paper has in its place, or another source, or that nobody says it."""
    files = sorted((root() / "params" / tier).glob("*.yaml"))
    lines = [(file.name, line) for file in files for line in file.read_text().splitlines()]
    values = [(file, line) for file, line in lines if re.match(r" *\w+: *\S", line)]
    assert len(values) > 100 and any(line.startswith("  ") for _, line in values)
    assert not [(file, line) for file, line in values if not said.search(line)]


def test_tier_paper_stays_as_it_is():
    """Its values are the paper's: the small world changes, and they do not, unless somebody means it."""
    digests = {file.name: sha256(file) for file in (root() / "params" / "paper").glob("*.yaml")}
    lines = [f"{digest}  {name}\n" for name, digest in sorted(digests.items())]
    recorded = root() / "tests" / "runs" / "tier-paper.sha256"
    assert "".join(lines) == recorded.read_text(), (
        f"params/paper has changed. If that is meant, write this to {recorded.name}:\n"
        + "".join(lines)
    )


@pytest.mark.parametrize("tier", ["smoke", "demo"])
def test_what_is_trained_on_a_cpu_computes_in_float32(tier):
    """In bfloat16 verdicts hang on the processor: its kernels round another sum."""
    counted = 0
    for run in [*graph.notebooks(), *graph.named_runs(tier)]:
        _, _, recipe = graph.resolved(run, tier)
        if hasattr(recipe, "autocast"):
            assert recipe.autocast == "float32", run
            counted += 1
    assert counted > 10


def test_every_parameter_file_of_the_suite_fits_its_notebook():
    files = [file for file in sorted((root() / "params").glob("*/*.yaml")) if "@" not in file.stem]
    assert files
    for file in files:
        parameters.resolve(
            root() / "notebooks" / f"{file.stem}.ipynb", file.parent.name, root() / "params"
        )
