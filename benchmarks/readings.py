"""Do greedy answers look as the table of `works.py` says, to a reader who sees no grade?

    python benchmarks/readings.py --sheet sheet.jsonl [--matrix]      # writes what a reader gets
    python benchmarks/readings.py --sheet sheet.jsonl --marks first.csv second.csv [--matrix]

Twelve held-out prompts are answered greedily by the base and by each method's policy (seed 0 of
`works.py`, whose first 400 held-out prompts they are drawn from). The sheet has 84 lines in random
order: a number, the prompt, the facts that it asks for and the answer. It names no policy and has
no grade. A reader gives each number a mark from 0 to 10, as a CSV file of the columns `number` and
`mark`. Marks are joined only where the same policies give the sheet again. The readers of the
published result are two language models, not people.

`reports/benchmarks/readings.csv` keeps every answer with its policy, the grader's truth and the
marks, so that anybody may read them again. Means by policy, and R of marks and truth, stand in
`readings.json` beside it.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import torch
import works
from works import World

from hs2lib import paths
from hs2lib.corpus.generate import task_of
from hs2lib.corpus.grade import true_goodness
from hs2lib.group import prompt_string
from hs2lib.models.rollout import rollouts
from hs2lib.report import report

POLICIES = ("base", *works.NOTEBOOKS)
N_PROMPTS = 12
DRAWN = 9  # seed of the prompts and of the order of the sheet
MARKS = (0, 10)


def answers(world: World) -> pd.DataFrame:
    """The greedy answer of each policy to each prompt, in random order, with the truth of it."""
    asked = Random(DRAWN).sample(world.held_out, N_PROMPTS)
    rows = []
    for policy in POLICIES:
        answered = rollouts(
            world.policy(policy),
            asked,
            n=1,
            temperature=0.0,
            max_new_tokens=works.LONGEST,
            label=works.TARGET if policy.startswith("steerlm") else None,
            seed=world.seed,
            batch=512,
            progress=False,
        )
        for group in answered:
            row = {"id": group.id, "policy": policy, "prompt": prompt_string(group.prompt)}
            row["facts"] = " ".join(item.say() for item in task_of(group.id).items)
            row["answer"] = group.responses[0].text
            rows.append(row | {"truth": round(float(true_goodness(group)[0]), 4)})
    Random(DRAWN).shuffle(rows)
    return pd.DataFrame(rows).rename_axis("number").reset_index()


def sheet(table: pd.DataFrame) -> str:
    """JSON lines that a reader gets: nothing of them says whose answer it is, or how good."""
    shown = table[["number", "prompt", "facts", "answer"]]
    return shown.to_json(orient="records", lines=True, force_ascii=False)


def with_marks(table: pd.DataFrame, files: Sequence[Path]) -> pd.DataFrame:
    """The answers with a column of marks for each reader.

    Raises ValueError where a reader has left out a number, or has a mark outside 0 to 10.
    """
    for reader, file in enumerate(files, start=1):
        marks = pd.read_csv(file)
        if sorted(marks.number) != table.number.tolist():
            raise ValueError(f"{file.name}: not one mark for each of {len(table)} numbers")
        if not marks.mark.between(*MARKS).all():
            raise ValueError(f"{file.name}: a mark is not from {MARKS[0]} to {MARKS[1]}")
        table = table.assign(**{f"reader {reader}": marks.set_index("number").mark[table.number]})
    return table


def of_prompts(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The columns less their means by prompt."""
    by_prompt = table.groupby("id")[list(columns)]
    return table[list(columns)] - by_prompt.transform("mean")


def summary(table: pd.DataFrame) -> dict:
    """Means by policy of truth and marks, and Pearson's R of each two of them.

    R is over all answers, and within a prompt: each less its mean over the answers to a prompt.
    """
    columns = ["truth", *(name for name in table if name.startswith("reader "))]
    means = table.groupby("policy")[columns].mean().loc[list(POLICIES)]
    result = {"means": means.round(2).reset_index().to_dict(orient="records")}
    for name, values in (("R", table[columns]), ("R within a prompt", of_prompts(table, columns))):
        r = np.corrcoef(values.to_numpy(float), rowvar=False)
        result[name] = {
            f"{columns[i]}, {columns[k]}": round(float(r[i, k]), 3)
            for k in range(len(columns))
            for i in range(k)
        }
    return result


def main() -> None:
    """Write the sheet, or join what readers said of it with whose answers they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    help = "what a reader gets; written without --marks, read with them"
    parser.add_argument("--sheet", type=Path, required=True, metavar="FILE", help=help)
    parser.add_argument("--marks", type=Path, nargs="+", metavar="FILE", help="what readers said")
    parser.add_argument("--seed", type=int, default=0, help="of the policies")
    parser.add_argument("--folder", type=Path, default=paths.runs() / "works")
    parser.add_argument("--matrix", action="store_true", help="policies are those of make matrix")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = answers(World(options.seed, options.folder, matrix=options.matrix))
    if not options.marks:
        paths.write(options.sheet, sheet(table))
        return
    if options.sheet.read_text() != sheet(table):
        parser.error(f"{options.sheet} has other answers than these policies give")
    table = with_marks(table, options.marks)
    agreement = summary(table)
    of_readers = [r for names, r in agreement["R"].items() if names.startswith("truth, ")]
    result = {
        "name": "readings",
        "compared": f"marks of readers who see no grade with the truth, {len(table)} greedy answers",
        "figure": "; ".join(f"R of {names} {r:.2f}" for names, r in agreement["R"].items()),
        "goal": "R of at least .8",
        "met": min(of_readers) >= 0.8,
        "seed": options.seed,
        "readers": "language models",
        **agreement,
        "device": report.device(),
        "commit": report.commit(),
    }
    folder = paths.reports() / "benchmarks"
    paths.write(folder / "readings.csv", table.drop(columns="facts").to_csv(index=False))
    paths.write(folder / "readings.json", json.dumps(result, indent=1) + "\n")
    print(pd.DataFrame(agreement["means"]).to_string(index=False), agreement, sep="\n")


if __name__ == "__main__":
    main()
