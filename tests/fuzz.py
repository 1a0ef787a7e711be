"""Damaged files against every loader and reader: each mutant is read, set aside or refused by one
clear DataError.

    python tests/fuzz.py                 # 10,000 mutants; writes reports/benchmarks/fuzz.json
    python tests/fuzz.py --mutants 500   # the first 500; what fails is printed, and nothing written
    python tests/fuzz.py --only 17       # one again, and how it ends

A mutant is a small sound file with one to three changes: a value, a column, a row, some bytes, its
packing, its name. What is refused must be a DataError (hs2lib.data.rows) with a fix. Anything else,
five seconds of the processor or a gigabyte is a failure, and the script ends with code 1.
"""

import argparse
import copy
import csv
import gzip
import io
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from hs2lib.collect import annotate
from hs2lib.data import check, pairs
from hs2lib.data.files import parse_columns, read_file
from hs2lib.data.load import SETS, load
from hs2lib.data.rows import DataError, Faults, sound
from hs2lib.evaluate import alpaca_eval, arena_hard, mt_bench, questions, truthfulqa
from hs2lib.group import ATTRIBUTES, Group, Response, Turn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import common

SECONDS = 5
MEGABYTES = 1024
MUTANTS = 10_000  # of a whole run, which is the one that is written down

RATED = {"prompt": "p", "response": "r", **dict.fromkeys(ATTRIBUTES, 2)}
VOTE = {"strength": -100, "justification": "", "statement": "", "elaboration": ""}
HUMAN = "\n\nHuman: Hi\n\nAssistant: "
TALK = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
THREE = {
    "coherence": [1, 2, 3],
    "consistency": [1, 2, 3],
    "fluency": [1, 2, 3],
    "relevance": [1, 2, 3],
}
MESSAGE = {
    "message_id": "a",
    "parent_id": None,
    "role": "prompter",
    "text": "Hi",
    "labels": {"quality": {"value": 0.5}},
}
PREFERENCE = {
    **{
        "split": "val",
        "prompt": "p",
        "response_1": "a",
        "response_2": "b",
        "preference_strength": -2,
    },
    **{
        "preference_statement": "s",
        "preference_elaboration": "e",
        "three_most_similar_preferences": [],
    },
    "all_preferences_unprocessed": [VOTE],
}
SPOKEN = [
    {"from": "User", "value": "Hi"},
    {"from": "Assistant", "value": "Hello", "label": "helpfulness:4"},
]

# Sound rows of every data set, and of what benchmarks, forms and pairs are read from.
ROWS: dict[str, list[dict]] = {
    "helpsteer2": [RATED, {**RATED, "response": "s"}],
    "helpsteer2-disagreements": [{**RATED, **{name: [2, 3, 2] for name in ATTRIBUTES}}],
    "helpsteer2-preference": [PREFERENCE],
    "helpsteer3-preference": [
        {"domain": "code", "language": "python", "context": [{"role": "user", "content": "p"}]}
        | {"response1": "a", "response2": "b", "overall_preference": -2}
        | {"individual_preference": [{"score": -2, "reasoning": "r"}]}
    ],
    "helpsteer2-unrated": [
        {"input": "a\n<extra_id_1>Assistant\nb", "response_a": "b", "response_b": "c"}
    ],
    "helpsteer": [RATED, {**RATED, "response": "s"}],
    "oasst1": [MESSAGE, {**MESSAGE, "message_id": "b", "parent_id": "a", "role": "assistant"}],
    "hh-rlhf": [{"chosen": HUMAN + "a", "rejected": HUMAN + "b"}],
    "daring-anteater": [{"system": "", "mask": "User", "dataset": "d", "conversations": SPOKEN}],
    "summeval": [
        {
            "doc_id": "d",
            "system": "M0",
            "source": "long",
            "summary": "short",
            "expert_ratings": THREE,
        }
    ],
    "pandalm": [
        {"instruction": "i", "input": "", "response1": "a", "response2": "b"}
        | {"annotator1": 0, "annotator2": 1, "annotator3": 2}
    ],
    "ratings": [
        {**RATED, "group": "1", "id": "x", "annotator": "ann"},
        {**RATED, "group": "1", "id": "x", "annotator": "bob", "verbosity": None},
    ],
    "pairs": [
        {"prompt": "p", "chosen": "a", "rejected": "b", "subset": "s", "id": 1, "lang": "en"},
        {"prompt": TALK[:1], "chosen": TALK, "rejected": "b", "subset": "s", "id": 2},
    ],
    "margins": [{"prompt": "p", "chosen": "a", "rejected": "b", "margin": 1.5}],
    "conversations": [{"messages": TALK, "lang": "en"}],
    "one": [{"prompt": "p", "question": "q", "response": "r"}],
    "two": [
        {"prompt": "p", "response_a": "a", "response_b": "b", "winner": "a"},
        {"prompt": TALK[:1], "response_a": "a", "response_b": "b", "winner": "tie"},
    ],
    "several": [{"prompt": "p", "responses": ["a", "b", "c"], "scores": [1, 0.5, 1]}],
    "humanevalpack": [
        {"prompt": "p", "instruction": "i", "declaration": "d"}
        | {"canonical_solution": "a", "buggy_solution": "b"}
    ],
    "truthfulqa": [
        {
            "question": "q",
            "mc1_targets": {"a": 1, "b": 0},
            "mc2_targets": {"choices": ["a", "b"], "labels": [1, 0]},
        }
    ],
    "answers": [
        {"model_id": "m", "question_id": 81, "choices": [{"index": 0, "turns": ["a", "b"]}]},
        {
            "model": "m",
            "uid": "82",
            "messages": [{"role": "assistant", "content": {"answer": "a"}}] * 2,
        },
    ],
    "mt-bench": [{"question_id": i, "category": "writing", "turns": ["a", "b"]} for i in (81, 82)],
    "judge-prompts": [
        {
            "name": name,
            "system_prompt": "s",
            "prompt_template": " ".join(f"{{{field}}}" for field in fields),
        }
        for name, fields in mt_bench.FIELDS.items()
    ],
    "arena-hard": [
        {"uid": "u", "prompt": "p", "cluster": "c"},
        {"question_id": "v", "turns": [{"content": "q"}]},
    ],
    "alpaca-eval": [
        {"instruction": "i", "dataset": "d", "output": "o"},
        {"instruction": "j", "i": 1, "output": "o"},
    ],
    "form": [{**RATED, "group": "g", "annotator": "ann"}],
}
TO_SCORE = ("margins", "conversations", "one", "two", "several")
FORMATS = ("jsonl", "jsonl.gz", "json", "json.gz", "csv", "csv.gz", "parquet")
ONLY = {
    "form": ("jsonl",),
    "mt-bench": ("jsonl",),
    "judge-prompts": ("jsonl",),
    "arena-hard": ("jsonl",),
}
ONLY["alpaca-eval"] = ONLY["truthfulqa"] = ("json",)

DEEP = "deep"  # stands for lists in lists, which Python itself cannot copy or write
NASTY = [
    *(
        None,
        True,
        -1,
        0,
        7,
        2.5,
        10**30,
        10**400,
        float("nan"),
        float("inf"),
        -0.0,
        [],
        {},
        [1],
        [[]],
        {"a": 1},
    ),
    *(
        "",
        " ",
        "\n",
        "\u200b",
        "\ud83d",
        "\x00",
        "\ufeff",
        "0_3",
        "\u0663",
        "nan",
        "-",
        "--2",
        "=1+1",
        "A=B",
        "tie",
    ),
    *(
        "<extra_id_1>",
        "\n<extra_id_1>User\n",
        "<extra_id_0>System\n",
        "<|im_end|>",
        "a/b",
        "../x",
        "\u202e",
        "r" * 10**5,
    ),
    *(
        ["a", "b"],
        [None],
        [["user"]],
        {"role": "user"},
        TALK,
        TALK[0],
        {"value": []},
        {"name": [[]], "value": [1]},
    ),
]


def places(value: object, path: tuple = ()) -> list[tuple]:
    """The path to every value inside rows."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [place for key, part in inside for place in ((*path, key), *places(part, (*path, key)))]


def change(rows: list, draw: random.Random) -> None:
    """Change one value, column or row, in place."""
    path = draw.choice(places(rows))
    holder = rows
    for key in path[:-1]:
        holder = holder[key]
    key, what = path[-1], draw.random()
    if what < 0.6:
        holder[key] = copy.deepcopy(draw.choice((*NASTY, DEEP)))
    elif what < 0.7:
        del holder[key]
    elif what < 0.8 and isinstance(holder, list):
        holder.insert(draw.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
    elif isinstance(holder, dict):
        name = draw.choice(
            ["", "prompt", "label", "id", "group", "annotator", "x", "Prompt", "columns", "\ud83d"]
        )
        holder[name] = copy.deepcopy(draw.choice(NASTY))
    if not rows:
        rows.append({})


def as_bytes(rows: list, form: str) -> bytes:
    """Rows in a format; what it cannot hold is written as text."""
    kind = form.removesuffix(".gz")
    if kind == "jsonl":
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    elif kind == "json":
        content = json.dumps(rows).encode()
    if kind in ("jsonl", "json"):
        content = content.replace(b'"deep"', b"[" * 950 + b"]" * 950)
    else:
        table = [row if isinstance(row, dict) else {"row": row} for row in rows]
        if kind == "csv":
            names = list(dict.fromkeys(name for row in table for name in row))
            lines = [names, *([row.get(name, "") for name in names] for row in table)]
            text = io.StringIO()
            csv.writer(text).writerows(
                [["" if cell is None else cell for cell in line] for line in lines]
            )
            content = text.getvalue().encode(errors="surrogatepass")
        else:
            content = _parquet(table)
    return gzip.compress(content, mtime=0) if form.endswith(".gz") else content


def _parquet(table: list[dict]) -> bytes:
    for rows in (
        table,
        [{str(k)[:9]: repr(v)[:99] for k, v in row.items()} for row in table],
        [{"a": 1}],
    ):
        try:
            file = io.BytesIO()
            pd.DataFrame(rows).to_parquet(file)
            return file.getvalue()
        except Exception:  # Arrow has no column for it: then as text
            continue
    raise AssertionError


SPLICES = (
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\n",
    b"\r",
    b'"',
    b",",
    b"{",
    b"[" * 3000,
    b"1" * 5000,
    b"\xed\xa0\x80",
)


def damage(content: bytes, draw: random.Random) -> bytes:
    """Change some bytes."""
    at, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    what = draw.randrange(5)
    if what == 0:
        return content[:at]
    if what == 1:
        return content[:at] + content[end:]
    if what == 2:
        return content[:at] + draw.choice(SPLICES) + content[at:]
    if what == 3:
        return content[:end] + content[at:end] + content[end:]
    return (
        content[:at]
        + bytes(b ^ draw.randrange(256) for b in content[at : at + 3])
        + content[at + 3 :]
    )


def bomb(draw: random.Random) -> tuple[str, bytes]:
    """A small file that unpacks to 100 MB: one row, many rows, or blank lines."""
    kind = draw.choice(("jsonl.gz", "json.gz", "csv.gz"))
    part = draw.choice((b"a" * 2**20, b"\n" * 2**20, b"[]," * 2**18, b'"' + b"a,\n" * 2**18))
    packed = gzip.compress(part, mtime=0)
    return kind, packed * 100


def readers(folder: Path) -> dict[str, Callable[[Path, random.Random], object]]:
    """How each kind of file is read: (path, draw) -> groups, or what has `set_aside`."""
    asked = tuple(
        Group(str(i), (Turn("user", "a"), Turn("user", "b")), (), source="") for i in (81, 82)
    )
    of_two = questions.Questions("MT-Bench", asked, "", 2)
    truthfulqa.primer = lambda folder=None: ""
    mt_bench.WHOLE, arena_hard.WHOLE, alpaca_eval.INSTRUCTIONS = 2, 2, 2
    answers = [{"uid": id, "model": "m", "messages": TALK} for id in "uv"]
    (folder / "arena_hard").mkdir(exist_ok=True)
    (folder / "arena_hard" / "gpt-4-0314.jsonl").write_bytes(as_bytes(answers, "jsonl"))
    form = Group("g", (Turn("user", "p"),), (Response("r", "r"),))

    def at(name: str, read: Callable) -> Callable:
        """Reads a file of a benchmark from its place in a data folder."""

        def placed(path: Path, draw: random.Random) -> object:
            place = folder / name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(path.read_bytes())
            return read("folder", folder)

        return placed

    def loaded(name: str, path: Path, draw: random.Random) -> object:
        if draw.random() < 0.3:
            return check.examine(path, name)[1]
        return load(name, "folder", path=path, strict=draw.random() < 0.5)

    def of_pairs(path: Path, draw: random.Random) -> object:
        if draw.random() < 0.3:
            return check.examine(path)[1]
        return pairs.load_pairs("folder", path=path, strict=draw.random() < 0.5)

    def of_published(path: Path, draw: random.Random) -> object:
        with Faults(path) as faults:
            return list(sound(path, pairs.HumanEvalPack, faults))

    def to_score(path: Path, draw: random.Random) -> object:
        columns = parse_columns(draw.choice(["", "prompt=question"]))
        return read_file(path, columns, strict=draw.random() < 0.5)

    return {
        **{name: partial(loaded, name) for name in SETS},
        **dict.fromkeys(TO_SCORE, to_score),
        "pairs": of_pairs,
        "humanevalpack": of_published,
        "truthfulqa": at("truthfulqa/mc_task.json", truthfulqa.load),
        "answers": lambda path, draw: questions.read(path, of_two),
        "mt-bench": at(
            "mt_bench/question.jsonl", lambda *place: mt_bench.load(*place, references="")
        ),
        "judge-prompts": at("mt_bench/judge_prompts.jsonl", mt_bench.prompts),
        "arena-hard": at("arena_hard/question.jsonl", arena_hard.load),
        "alpaca-eval": at("alpaca_eval/gpt4_1106_preview.json", alpaca_eval.load),
        "form": lambda path, draw: annotate.AnnotationForm([form], path, "ann").done(),
    }


def mutant(seed: int, folder: Path) -> tuple[str, Path, random.Random]:
    """(kind, file, the draws that are left) of one mutant."""
    draw = random.Random(seed)
    kind = draw.choice(list(ROWS))
    form = draw.choice(ONLY.get(kind, FORMATS))
    rows = copy.deepcopy(ROWS[kind])
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        change(rows, draw)
    content = as_bytes(rows, form)
    if draw.random() < 0.4:
        content = damage(content, draw)
    if draw.random() < 0.03 and kind not in ONLY:
        form = draw.choice(FORMATS)  # a name that its content does not have
    if draw.random() < 0.01 and kind not in ONLY:
        form, content = bomb(draw)
    path = folder / f"mine.{form}"
    path.write_bytes(content)
    return kind, path, draw


def outcome(seed: int, folder: Path, show: bool = False) -> tuple[str, str, float]:
    """(kind of file, how reading it ended, seconds)."""
    kind, path, draw = mutant(seed, folder)
    start = time.process_time()  # of the processor: what else the machine does is not counted
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(60)
    try:
        out = readers(folder)[kind](path, draw)
        ended = "set aside" if getattr(out, "set_aside", None) else "read"
    except DataError as error:
        ended = "refused" if "Fix: " in str(error) else "no fix is named"
        if show:
            print(error)
    except BaseException as error:
        ended = type(error).__name__
        if show:
            traceback.print_exc()
    signal.alarm(0)
    seconds = time.process_time() - start
    path.unlink()
    return kind, ended if seconds < SECONDS else "hang", seconds


def too_long(*_) -> None:
    raise TimeoutError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=MUTANTS)
    parser.add_argument("--only", type=int, help="read this one, show how it ends")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.only is not None:
            print(*outcome(args.only, folder, show=True))
            return
        counts: dict[str, Counter] = {kind: Counter() for kind in ROWS}
        bad, seconds = [], []
        for seed in range(args.mutants):
            kind, ended, took = outcome(seed, folder)
            counts[kind][ended] += 1
            seconds.append(took)
            if ended not in ("read", "set aside", "refused"):
                bad.append(seed)
                print(f"mutant {seed}, {kind}: {ended}", file=sys.stderr)
    total = sum(counts.values(), Counter())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    met = not bad and memory < MEGABYTES
    print(f"{dict(sorted(total.items()))}, {memory:.0f} MB, {sum(seconds):.0f} s", file=sys.stderr)
    if args.mutants == MUTANTS:
        common.write(
            "fuzz",
            compared=f"{args.mutants:,} mutants of sound files over {len(ROWS)} kinds of rows and {len(FORMATS)} formats",
            ratio=1 - len(bad) / args.mutants,
            goal=f"share read, set aside or refused by one clear error: 1; under {MEGABYTES} MB, {SECONDS} s a file",
            met=met,
            check="whatever is raised is a DataError with a fix; anything else counts against it, under its own name",
            outcomes=dict(sorted(total.items())),
            by_kind={kind: dict(sorted(ends.items())) for kind, ends in counts.items()},
            failed=bad[:100],
            memory_mb=round(memory),
            longest_s=round(max(seconds), 2),
            timings={"all mutants": [sum(seconds)]},
        )
    sys.exit(not met)


if __name__ == "__main__":
    main()
