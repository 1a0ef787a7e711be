"""Loading and validating 21,362 HelpSteer2-shaped rows from JSONL.gz, against a bare loop of gzip
and json.loads.

The bare loop is the least that any loader can do, so the ratio is below 1 by nature; the goal is to
take less than three times as long. Rows are generated with the lengths of the released ones (means:
prompt 713, response 1,493 characters).
"""

import gzip
import json
import random
import tempfile
from pathlib import Path

import common

from hs2lib.data.load import load
from hs2lib.group import ATTRIBUTES, prompt_string

N_PROMPTS = 10_681  # 21,362 rows: 20,324 for training and 1,038 for validation
WORDS = [
    "the",
    "of",
    "and",
    "a",
    "in",
    "that",
    "is",
    "which",
    "example",
    "with",
    "answer",
    "first",
    "number",
    "because",
]


def lines(seed: int = 0):
    """HelpSteer2-shaped rows as JSON lines; 29 % of prompts are multi-turn, as released."""
    draw = random.Random(seed)
    # Real words in random order, so that gzip has about as much to do as on English text.
    pool = [w + draw.choice(["", "", "s", "ing", "ed", ".", ","]) for w in WORDS for _ in range(40)]

    def text(mean: float) -> str:
        # Lognormal: many short ones and a long tail, as in the released rows (prompt: median 238,
        # mean 714).
        return " ".join(
            draw.choices(pool, k=max(1, round(draw.lognormvariate(0, 0.7) / 1.28 * mean / 6.3)))
        )

    for _ in range(N_PROMPTS):
        prompt = text(713)
        if draw.random() < 0.29:
            prompt = (
                f"{text(300)}\n<extra_id_1>Assistant\n{text(300)}\n<extra_id_1>User\n{text(113)}"
            )
        for _ in range(2):
            labels = {name: draw.randint(0, 4) for name in ATTRIBUTES}
            # A newline and a character beyond ASCII, which the decoder has to unescape in real rows
            # too.
            yield (
                json.dumps(
                    {"prompt": prompt, "response": f"{text(1493)}\n\n\u201cso\u201d", **labels}
                )
                + "\n"
            )


def bare(path: Path) -> list[dict]:
    with gzip.open(path) as file:
        return [json.loads(line) for line in file]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "helpsteer2.jsonl.gz"
        with gzip.open(path, "wt") as file:
            file.writelines(lines())
        rows = bare(path)
        groups = load("helpsteer2", "folder", path=path).groups
        ours = [
            (prompt_string(g.prompt), r.text, *map(int, r.labels))
            for g in groups
            for r in g.responses
        ]
        assert ours == [
            tuple(row[name] for name in ("prompt", "response", *ATTRIBUTES)) for row in rows
        ]
        chars = sum(len(row["response"]) for row in rows) / len(rows)
        del groups, ours, rows
        timings = common.times(
            {
                "hs2lib.data.load.load": lambda: load("helpsteer2", "folder", path=path),
                "gzip + json.loads": lambda: bare(path),
            },
            repeats=7,
        )
    ours, theirs = common.medians(timings).values()
    common.write(
        "load_rows",
        compared="a bare gzip + json.loads loop against hs2lib.data.load.load, 21,362 rows of generated text",
        ratio=theirs / ours,
        goal="ratio above 1/3 (under 3 times the bare loop)",
        met=ours < 3 * theirs,
        check="every prompt, response and label equal, in order",
        mean_response_characters=chars,
        timings=timings,
    )


if __name__ == "__main__":
    main()
