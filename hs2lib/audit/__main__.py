"""Does a reward model read what a policy writes? Ask before you train on its score.

    python -m hs2lib.audit --model owner/judge --policy owner/policy --prompts prompts.jsonl
    python -m hs2lib.audit --model my-judge --policy my-policy --prompts my.csv --limit 200 --n 8

The policy answers each prompt n times. Its answers are made worse by rules (a sentence left out, a
number changed, cut in half, answers of two prompts swapped), and the score has to fall. They are
made longer and no better, and it should not rise. Beside it stands what length alone would do.
"""

import argparse
import sys

import transformers

from hs2lib.audit.auditing import audit
from hs2lib.data.rows import printable
from hs2lib.names import PRECISIONS, TEMPLATES
from hs2lib.score.options import keep_out_of_the_way, whole


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = argparse.ArgumentParser(
        prog="python -m hs2lib.audit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = options.add_argument
    add("--model", required=True, help="the judge: a sequence classifier, or one of notebook 05")
    add("--policy", required=True, help="a causal language model, or one of notebooks 07 to 12")
    add("--prompts", required=True, metavar="FILE", help="JSONL, JSON, CSV or Parquet")
    add("--pairs", metavar="FILE", help="labelled pairs of the policy's own answers, or ratings")
    add("--scale", default="", help="of ratings in --pairs, as 1-5 (default: 0-4)")
    add("--out", default="audit", metavar="FOLDER", help="for page and tables (default: audit)")
    add("--columns", default="", metavar="prompt=THEIRS", help="the column of the prompts")
    add("--n", type=whole, default=8, help="answers to each prompt (default: 8)")
    add("--limit", type=whole, default=0, metavar="N", help="the first N prompts only")
    add("--max-new-tokens", type=whole, default=256, metavar="N", help="of an answer (256)")
    add("--temperature", type=float, default=1.0)
    add("--top-p", type=float, default=1.0)
    add("--label", help="SteerLM's label, for a policy that reads one")
    add("--weights", default="", help="of several outputs, as helpfulness:.65,correctness:.8")
    add("--seed", type=whole, default=0)
    add("--precision", default="float32", choices=PRECISIONS)
    add("--pad-token", help="for a classifier whose tokenizer has none")
    add("--template", choices=TEMPLATES, help="how a classifier reads conversations")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Command line: audit a judge on a policy.

    Returns 0, or 2 where the file, an option, the judge or the policy cannot be used.
    """
    args = parser().parse_args(arguments)
    keep_out_of_the_way()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options = {"pad_token": args.pad_token, "template": args.template}
    try:
        audited = audit(
            args.model,
            args.policy,
            args.prompts,
            args.out,
            n=args.n,
            limit=args.limit,
            max_new_tokens=args.max_new_tokens,
            temperature=args.temperature,
            top_p=args.top_p,
            label=args.label,
            weights=args.weights,
            seed=args.seed,
            precision=args.precision,
            columns=args.columns,
            pairs=args.pairs,
            scale=args.scale,
            progress=True,
            **{name: value for name, value in options.items() if value},
        )
    except (OSError, ValueError) as error:
        print(printable(str(error).strip()), file=sys.stderr)
        return 2
    print(printable("\n".join(audited.in_words())))
    print(printable(f"written: {args.out}"))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from there", file=sys.stderr)
        sys.exit(130)
