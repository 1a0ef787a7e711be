"""Every sentence of the paper that holds a number: claimed in the ledger, or left out with a
reason.

    python tests/numeric_sentences.py [TEXT]      # TEXT: the paper's text, by default beside HS2_DATA_DIR

The text stays where it is. `numeric_sentences.csv` beside this script has of each sentence its
section, its place in the text (characters from, to), a digest, and either the claims of
`hs2lib.report.claims` that hold it, or why there is none: "recipe" (tests/recipes.yaml holds
the value against params/paper), "procedure" (how the authors worked, which leaves nothing to
recompute), "scale", "example", "name". Sentences without a decision are printed, and fail.

A number is a figure or a word from two to ten, outside of names (Llama 3, GPT-4-0613), references
in brackets, numbers of sections, tables and equations, headings and the marks of lists. Tables and
references are left out.
"""

import csv
import hashlib
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from hs2lib import paper, paths

DECIDED = Path(__file__).with_suffix(".csv")
REASONS = ("recipe", "procedure", "scale", "example", "name")

HEADING = re.compile(
    r"^(?:Appendix (?=[A-H] ))?((?<=Appendix )[A-H]|[1-5](?:\.\d)?|G(?:\.\d){1,2}) [A-Z][\w -]{2,60}$"
    r"|^(References|Abstract)$",
    re.M,
)
SENTENCE = re.compile(r"\S.*?(?:(?<!Sec)(?<!e\.g)(?<!i\.e)[.!?][\"”)]?(?=\s+[A-Z“\"(<])|$)")
NAMES = re.compile(
    r"\[\d+(?:, \d+)*\]|\bLlama 2\b|\bLlama 3\b|SteerLM 2\.0|Help[Ss]teer2|GPT-?[34]o?(?:-\w+)*|gpt-3\.5-turbo-\d+|"
    r"Nemotron-\d|Claude 3|Gemini Pro 1\.5|Mixtral-8x7B[\w.-]*|Mistral 8\*7B|\b\d+B\d*\b|\bMC2\b|AlpacaEval 2(?:\.0)?|"
    r"Sec\. [\dG](?:\.\d)*|USER TURN \d|ASSISTANT TURN \d|Response [12](?: ratings)?:|Table \d|"
    r"Equation \d+(?: from \d+)?|Likert-5|PRM800K|https?://\S+|Prometheus 2|CC-BY-4\.0|"
    r"Apache 2\.0|Anteater’\)111"
)
NUMBER = re.compile(r"\d|\b(?:two|three|four|five|nine|ten|twice)\b", re.I)


class Sentence(NamedTuple):
    """Where a sentence stands: its section, the characters from and to, a digest of its text."""

    section: str
    start: int
    stop: int
    digest: str


def listed(text: str) -> list[Sentence]:
    """The sentences of the paper's text that hold a number."""
    heads = [(match.start(), match[1] or match[2], match[0]) for match in HEADING.finditer(text)]
    rows, start = [], 0
    for line in text.splitlines(keepends=True):
        section = next((name for at, name, _ in reversed(heads) if at <= start), "")
        head = any(at == start for at, *_ in heads)
        if section != "References" and "|" not in line and not head:
            for match in SENTENCE.finditer(line.rstrip("\n")):
                if re.fullmatch(r"[-\s]*\d+\.", match[0]) or not NUMBER.search(
                    NAMES.sub(" ", match[0])
                ):
                    continue
                digest = hashlib.sha256(match[0].encode()).hexdigest()[:12]
                rows.append(Sentence(section, start + match.start(), start + match.end(), digest))
        start += len(line)
    return rows


def decisions() -> list[dict[str, str]]:
    """The rows of `numeric_sentences.csv`."""
    with DECIDED.open(newline="") as file:
        return list(csv.DictReader(file))


def faults(rows: list[dict[str, str]], claims: set[str]) -> list[str]:
    """What is wrong with the decisions, in words: each is claims that exist, or one of the reasons."""
    out = []
    for row in rows:
        named, reason = row["claims"].split(), row["reason"]
        if bool(named) == bool(reason):
            out.append(f"{row['section']} at {row['start']}: claimed or left out, not both")
        out += [
            f"{row['section']} at {row['start']}: no claim {name!r}"
            for name in named
            if name not in claims
        ]
        if reason and reason.partition(":")[0] not in REASONS:
            out.append(
                f"{row['section']} at {row['start']}: {reason!r} does not begin with one of {REASONS}"
            )
    return out


def source() -> Path:
    """The paper's text, in the folder beside that of the data."""
    shared = Path(os.environ.get("HS2_DATA_DIR") or paths.root().parent / "shared" / "data").parent
    return shared / "paper" / "helpsteer2_paper.txt"


def main() -> None:
    file = Path(sys.argv[1]) if sys.argv[1:] else source()
    text, rows = file.read_text(), decisions()
    known = {row["digest"]: row for row in rows}
    sentences = listed(text)
    for each in sentences:
        if each.digest not in known:
            print(f"{','.join(map(str, each))},,    # {text[each.start : each.stop]}")
    known_claims = {claim["id"] for claim in paper.CLAIMS}
    wrong = faults(rows, known_claims)
    for fault in wrong:
        print(fault)
    undecided = [each for each in sentences if each.digest not in known]
    claimed = sum(bool(row["claims"]) for row in rows)
    reasons = Counter(row["reason"].partition(":")[0] for row in rows if row["reason"])
    print(f"{len(sentences)} sentences, {claimed} claimed, left out: {dict(reasons.most_common())}")
    sys.exit(bool(undecided or wrong))


if __name__ == "__main__":
    main()
