"""What is cited stands where it is cited: sections, quotations, values of the recipes, sentences
that hold a number.

The paper's text is not in this repository. Where the folder of shared data has it (`paper` beside
`HS2_DATA_DIR`), quotations are looked up in the section they are cited from; elsewhere the rest is
tested.
"""

import json
import os
import re
from functools import cache
from pathlib import Path

import numeric_sentences
import pandas as pd
import pytest
import yaml

from hs2lib import paper
from hs2lib.group import ATTRIBUTES
from hs2lib.paths import root
from hs2lib.runs import graph

KNOWN = yaml.safe_load((Path(__file__).parent / "sections.yaml").read_text())

ID = r"(?:[1-5](?:\.\d)?|[A-H](?:\.\d){0,2})(?![\w])"
LIST = r"(?:, | and |, and )(?:(?:section|appendix|appendice)s? )?"
CITED = re.compile(rf"(?:[Ss]ection|[Aa]ppendix|[Aa]ppendice)s? {ID}(?:{LIST}{ID})*")
SHARED = Path(os.environ.get("HS2_DATA_DIR") or root().parent / "shared" / "data").parent / "paper"
TEXT = SHARED / "helpsteer2_paper.txt"
needs_text = pytest.mark.skipif(
    not TEXT.is_file(), reason="the paper's text is not here (paper/ beside HS2_DATA_DIR)"
)


@cache
def files() -> dict[str, str]:
    """Everything that cites, by its place; of notebooks the sources of their cells."""
    places = [
        *root().glob("hs2lib/**/*"),
        *root().glob("params/**/*.yaml"),
        *root().glob("docs/*.md"),
    ]
    places = [p for p in places if p.suffix in (".py", ".yaml", ".csv", ".md")] + [
        root() / "README.md"
    ]
    texts = {p.relative_to(root()).as_posix(): p.read_text() for p in sorted(places)}
    texts |= {
        place: text.replace("\n", "\n\n") for place, text in texts.items() if place.endswith(".csv")
    }
    for place in sorted(root().glob("notebooks/*.ipynb")):
        for cell in json.loads(place.read_text())["cells"]:
            texts[f"{place.name}: {cell['id']}"] = "".join(cell["source"])
    return texts


def words(text: str) -> str:
    """Text as it is compared: one space between words, plain quotes and dashes, no case, no references in brackets."""
    text = re.sub(r"\n\s*#|\s*\[\d+(, \d+)*\]", " ", text)
    return " ".join(text.translate(str.maketrans("“”‘’–", "\"\"''-")).lower().split())


@cache
def body(section: str) -> str:
    """The paper's words in a section and those below it. Raises KeyError for one that it has not."""
    heads = re.compile(
        r"^(?:Appendix (?=[A-H] ))?((?<=Appendix )[A-H]|[1-5](?:\.\d)?|G(?:\.\d){1,2}) [A-Z]", re.M
    )
    parts = [
        (match[1], match.start())
        for match in heads.finditer(TEXT.read_text())
        if match[1] in KNOWN["sections"]
    ]
    stops = [start for _, start in parts[1:]] + [None]
    texts = {}
    for (name, start), stop in zip(parts, stops, strict=True):
        texts.setdefault(name, TEXT.read_text()[start:stop])
    below = [name for name in texts if name == section or name.startswith(f"{section}.")]
    if section not in texts:
        raise KeyError(section)
    return words(" ".join(texts[name] for name in below))


def citations(text: str):
    """(sections cited, what stands in the same sentence or row from there on) of a text."""
    for match in CITED.finditer(text):
        after = text[match.end() : match.end() + 400]
        yield (
            re.findall(ID, match[0].partition(" ")[2]),
            re.split(r"(?<=[.;])\s|\n\n|\)\.|\n *(?=[\w-]+(?:: |=))|\"\"\"", after)[0],
        )


def test_every_section_equation_and_table_that_is_cited_exists():
    number = 0
    for place, text in files().items():
        for sections, _ in citations(text):
            number += 1
            assert set(sections) <= KNOWN["sections"].keys(), f"{place} cites {sections}"
        for word, cited in re.findall(r"\b([Ee]quation|Table)s? (\d+)", text):
            assert 1 <= int(cited) <= KNOWN[f"{word.lower()}s"], f"{place} cites {word} {cited}"
    assert number > 250


def test_a_section_is_cited_for_what_it_says():
    """By subject: weights of heads stand in appendix H, goodness in section 4.3, and so on."""
    seen = set()
    for place, text in files().items():
        for sections, after in citations(text):
            for subject in KNOWN["subjects"]:
                if re.match(rf" ?\(?[^.;]{{0,60}}?(?:{subject['says']})", after, re.I):
                    seen.add(subject["says"])
                    assert set(sections) & set(subject["in"]), (
                        f"{place} cites {sections} for{after}"
                    )
    assert len(seen) == len(KNOWN["subjects"]), "a subject that nothing cites tests nothing"


@needs_text
def test_the_paper_has_these_sections_and_subjects():
    for section in KNOWN["sections"]:
        assert body(section)
    for subject in KNOWN["subjects"]:
        assert words(subject["words"]) in body(subject["in"][0]), subject


@needs_text
def test_quotations_stand_in_the_section_that_is_cited():
    """`section 4.3: "for 7 epochs"` is looked up there; .. stands for what was left out."""
    number = 0
    for place, text in files().items():
        for sections, after in citations(text):
            for quoted in re.findall(r'^(?::|,|[^"“.;]{0,40})?[ (\n]["“]([^"”]{8,})["”]', after):
                number += 1
                pieces = [words(piece).strip(" .,;") for piece in re.split(r"\.\.+|…", quoted)]
                assert any(all(piece in body(s) for piece in pieces) for s in sections), (
                    f"{place} {sections}: {quoted}"
                )
    assert number > 60


# Recipes

RECIPES = yaml.safe_load((Path(__file__).parent / "recipes.yaml").read_text())
SPELT = {"two": 2, "three": 3}


def numbers(text: str) -> set[float]:
    """The numbers that a text names, in figures (2e-6, 20k, 20,000) or as a word."""
    figures = re.findall(r"(?<![\w.])-?\d[\d,]*\.?\d*(?:e-?\d+)?k?\b", text.lower())
    values = {
        float(x.rstrip("k").replace(",", "")) * (1000 if x.endswith("k") else 1) for x in figures
    }
    return values | {value for word, value in SPELT.items() if word in text.lower().split()}


@pytest.mark.parametrize("run", RECIPES)
def test_tier_paper_has_the_values_of_the_paper(run):
    """Each as it comes out of params, notebook and defaults together; a number stands in its own quotation."""
    _, values, recipe = graph.resolved(run, "paper")
    for name, expected, section, *quoted in RECIPES[run]:
        value = values[name] if name in values else getattr(recipe, name)
        assert value == (tuple(expected) if isinstance(value, tuple) else expected), name
        assert bool(quoted) == (section in KNOWN["sections"]) or section in (
            "reference code",
            "paper silent",
        )
        if quoted and type(expected) in (int, float) and expected and name != "concentration":
            assert {expected, 2 * expected} & numbers(quoted[0]), f"{name}: {quoted[0]}"


def test_head_weights_are_those_of_appendix_h():
    """The last five of nine: the first four outputs are masked."""
    (_, _, _, quoted), *_ = RECIPES["06_rewardbench_evaluation"]
    printed = json.loads(quoted.partition(" for")[0])[4:]
    assert printed == [paper.HEAD_WEIGHTS["Llama 3 70B w. HelpSteer2"][name] for name in ATTRIBUTES]


@needs_text
def test_quotations_of_recipes_stand_in_their_sections():
    for run, rows in RECIPES.items():
        for name, _, section, *quoted in rows:
            for piece in quoted[0].split("..") if quoted else ():
                assert words(piece).strip() in body(section), f"{run}, {name}: {piece}"


def test_every_value_of_tier_paper_says_where_it_comes_from():
    """A section, the reference code, "paper silent", or that the paper has no such thing."""
    sources = re.compile(
        rf"{CITED.pattern}|paper silent|reference code|not of the paper|the paper's|Ahrabian"
    )
    for file in sorted((root() / "params" / "paper").glob("*.yaml")):
        for line in file.read_text().splitlines():
            value, _, comment = line.partition("  # ")
            if line.lstrip().startswith("#") or not value.partition(":")[2].strip():
                continue
            assert sources.search(comment), f"{file.name}: {line}"


# The reference code


def test_every_rule_of_the_reference_code_names_its_lines_our_place_and_our_test():
    rules = pd.read_csv(root() / "hs2lib/paper/reference.csv", keep_default_na=False)
    assert len(rules) > 40 and rules.rule.is_unique
    for row in rules.to_dict("records"):
        file, name = row["place"].split(": ")
        text = (root() / file).read_text()
        assert re.search(rf"\b{re.escape(name)}\b", text), f"{row['rule']}: {file} has no {name}"
        file, name = row["test"].split(": ")
        text = (root() / file).read_text()
        assert f"def {name}(" in text, f"{row['rule']}: {file} has no {name}"
        # Lines of a release, or of the commit in brackets; of a page the setting or the heading.
        theirs = row["in the reference code"]
        assert re.search(r"\.(py|yaml):\d+|\.(rst|yaml), |, process_dataset \(", theirs), row[
            "rule"
        ]
        assert re.match(r"later|not dated|.*:\d+", row["in 0.3.1"]), row["rule"]


# Sentences that hold a number


def test_numbers_are_listed_outside_of_names_headings_and_lists():
    text = (
        "2.1 Dataset Collection\n"
        "We use Llama 3 70B [12, 3] (see Sec. 4.2 and Table 2). It has 5 heads. Two of them read. None write.\n"
        "1.\nMT | 8.2 |\nReferences\n- [1] In 1999.\n"
    )
    rows = numeric_sentences.listed(text)
    assert [text[row.start : row.stop] for row in rows] == ["It has 5 heads.", "Two of them read."]
    assert {row.section for row in rows} == {"2.1"}


@needs_text
def test_the_list_of_sentences_is_that_of_the_text():
    """None more, none less, each at its place with its digest."""
    columns = numeric_sentences.Sentence._fields
    decided = [tuple(row[name] for name in columns) for row in numeric_sentences.decisions()]
    assert decided == [tuple(map(str, row)) for row in numeric_sentences.listed(TEXT.read_text())]
