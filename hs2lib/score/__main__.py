"""Score a file of prompts and responses by any reward model, from the command line.

    hs2 score answers.csv --model owner/name
    hs2 score pairs.jsonl --model my-folder --out scored.parquet
    hs2 score my.parquet --model owner/name --limit 20 --too-long cut
    hs2 score faq.jsonl --model owner/name --columns prompt=question,response=answer

A row of FILE has one of these shapes:

    prompt, response
    prompt, chosen, rejected [, margin]
    prompt, response_a, response_b [, winner: a, b or tie]
    prompt, responses [, scores]
    messages

Out come its rows with all their columns and a score of each response, and, where the file says
which response is better, how often the score says the same.
"""

import argparse
import signal
import sys
from pathlib import Path

import torch
import transformers

from hs2lib.data.rows import printable
from hs2lib.names import PRECISIONS, TEMPLATES
from hs2lib.score import output
from hs2lib.score.fit import TOO_LONG
from hs2lib.score.options import keep_out_of_the_way, whole
from hs2lib.score.scoring import BAD_ROWS, GPU_BUDGET, score, was_trained_on


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = argparse.ArgumentParser(
        prog="hs2 score",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = options.add_argument
    add("file", help="JSONL, JSON, CSV (all also .gz) or Parquet")
    add(
        "--model",
        required=True,
        help="a sequence classifier by Hub name or folder, or a model of notebook 05",
    )
    add(
        "--out",
        help="the file to write, .jsonl, .csv or .parquet (default: my.scored.csv for my.csv, in "
        "the current folder; an older one is replaced)",
    )
    add("--limit", type=whole, default=0, metavar="N", help="score the first N rows only")
    add(
        "--too-long",
        default="stop",
        choices=TOO_LONG,
        help="rows longer than the model reads: stop, cut them, or write them without a score",
    )
    add(
        "--bad-rows",
        default="stop",
        choices=BAD_ROWS,
        help="faulty rows: stop, or leave them out of the output",
    )
    add(
        "--columns",
        default="",
        metavar="OURS=THEIRS,..",
        help="columns under other names: prompt=question,response=answer",
    )
    add(
        "--weights",
        default="",
        help="of several outputs, for one score: helpfulness:.65,correctness:.8, or goodness",
    )
    add("--column", default="score", help="what the new columns are called (default: score)")
    add("--max-tokens", type=whole, default=0, metavar="N", help="the longest sequence")
    add("--precision", default="float32", choices=PRECISIONS)
    add("--budget", type=whole, default=0, metavar="N", help="tokens of a batch")
    add("--revision", help="a commit or branch of the model's repository")
    add("--pad-token", help="for a classifier whose tokenizer has none")
    add("--template", choices=TEMPLATES, help="how a classifier reads conversations")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Command line: score a file.

    Returns 0, or 2 where the file, an option or the model cannot be used.
    """
    args = parser().parse_args(arguments)
    keep_out_of_the_way()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options = {"revision": args.revision, "pad_token": args.pad_token, "template": args.template}
    try:
        scored = score(
            args.file,
            args.model,
            args.out or output.default_name(Path(args.file)),
            columns=args.columns,
            limit=args.limit,
            too_long=args.too_long,
            bad_rows=args.bad_rows,
            weights=args.weights,
            column=args.column,
            max_tokens=args.max_tokens,
            precision=args.precision,
            budget=args.budget,
            progress=True,
            **{name: value for name, value in options.items() if value},
        )
    except (OSError, ValueError) as error:
        print(printable(str(error).strip()), file=sys.stderr)
        return 2
    except torch.OutOfMemoryError:
        print(
            f"out of memory; the scores so far are kept. Fix: a --budget below {GPU_BUDGET:,}, "
            "or --precision bfloat16",
            file=sys.stderr,
        )
        return 2
    print(printable("\n".join(scored.in_words())))
    if was_trained_on(args.model, Path(args.file)):
        print(
            "No measurement: the model was trained on rows of this file. "
            "hs2 run 06, with the --name of its training, takes the rows that were held out."
        )
    print(printable(f"written: {scored.out}"))
    return 0


if __name__ == "__main__":
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        sys.exit(main())
    except KeyboardInterrupt:
        print(
            "\nstopped; the scores so far are kept, and the same command goes on from there",
            file=sys.stderr,
        )
        sys.exit(130)
