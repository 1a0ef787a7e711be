"""AlpacaEval 2: 805 instructions, each answer set against gpt4_1106_preview's by a judge, in an order drawn by seed.

    questions = load("folder")                                       # or "hub", "embedded"
    asked = asks(questions, answers, prompts("hub"))                 # 805 questions to a judge
    result = score(questions, answers, judge.verdicts(asked, file=file, token_cap=10_000_000))
    save_outputs(folder / "DPO.json", "DPO", answers)                # for the alpaca_eval package and its own judge

`hs2lib.evaluate.length_control` has the arithmetic. The published judge gives log-probabilities of the two names; this
client reads a name, so a preference is 1 or 2 and nothing between: a rate of verdicts, called that
(`JudgedScore.measure`). The evaluation set is published for non-commercial use: it is read in place, and none of it
belongs in a report.

Paper: section 4.1, appendix H (evaluator GPT-4-1106-preview, 805 instructions), Table 4.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib.data.load import locate
from hs2lib.data.rows import DataError, rows
from hs2lib.evaluate import length_control
from hs2lib.evaluate import questions as bench
from hs2lib.evaluate.judge import Ask, Scale, Verdict
from hs2lib.evaluate.length_control import BASELINE, FOLDS, INSTRUCTIONS, PUBLISHED, Published
from hs2lib.evaluate.questions import JudgedScore, Questions, Template, question_id
from hs2lib.group import Group, Response
from hs2lib.paper import PREFERRED
from hs2lib.paths import write

MEASURE = "LC win rate, %"

FILES = bench.public_files("alpaca-eval")

_FIELDS = ("instruction", "output_1", "output_2")

NAMES = ("m", "M")  # of the answer shown first, and second; those of the published prompt

TIE = "="  # which no reply says, but one who knows the truth may

# The whole reply is a name, or it is no verdict: a single letter in prose means anything.
NAME = Scale(
    r"^[\s\"'`*]*([mM])[\s\"'`*.]*$",
    lambda inside: inside if inside in NAMES else None,
    "Now write the name of the better answer alone, m or M, and nothing else.",
)


def load(source: str, folder: str | Path | None = None, *, n: int = 0, seed: int = 0) -> Questions:
    """The 805 instructions (n of them, 0: all, spread over their five sets) with the baseline's answers.

    source: "folder" (default HS2_DATA_DIR), "hub" (GitHub at a pinned commit), or "embedded" (generated prompts in
    place of AlpacaEval, and called so; the baseline is the better of each prompt's two generated responses).
    Raises DataError for a file that is absent or not as it should be.
    """
    if source == "embedded":
        return bench.embedded("AlpacaEval 2", n or 8, 1, seed)
    numbers = iter(range(INSTRUCTIONS + 1))  # an instruction without "i" is counted from 0, as in the published file

    def columns(row: dict):
        number = next(numbers, None)
        return row.get("i", number), str(row.get("dataset", "")), [row.get("instruction")]

    place = FILES["questions"], source, folder
    questions = bench.public_questions("AlpacaEval 2", INSTRUCTIONS, 1, *place, columns=columns).subset(n, seed)
    path, provenance = locate(FILES["answers"], source, folder)
    outputs = {str(row.get("i", line - 1)): row.get("output") for line, row in rows(path)}
    if missing := [group.id for group in questions.groups if not isinstance(outputs.get(group.id), str)]:
        what = f"no answer of {BASELINE} to {len(missing)} of {len(questions)} instructions, {missing[0]} among them"
        raise DataError(path, None, "output", what, f"take the file of {FILES['answers'].repo}")
    replies = {group.id: [Response(BASELINE, outputs[group.id])] for group in questions.groups}
    return replace(questions, baseline=bench.answered(questions, replies, provenance))


def prompts(source: str, folder: str | Path | None = None) -> Template:
    """The judge prompt, with the instruction and two answers; for source "embedded" one of our own."""
    if source == "embedded":
        return bench.own_prompts("alpaca-eval")["pair"]
    path, _ = locate(FILES["prompts"], source, folder)
    fix = f"take {FILES['prompts'].hub['both'][0]} of {FILES['prompts'].repo}"
    try:
        parts = [part.partition("\n") for part in path.read_text().split("<|im_start|>")[1:]]
    except UnicodeDecodeError as error:
        raise DataError(path, None, None, f"broken UTF-8, byte {error.start + 1}", fix) from None
    texts = {role: text.partition("<|im_end|>")[0].rstrip("\n") for role, _, text in parts}
    checked = bench.template(path, "the user's message", texts.get("system"), texts.get("user"), _FIELDS, fix)
    text = checked.text.replace("{", "{{").replace("}", "}}")  # the published text has braces of its own
    for name in _FIELDS:
        text = text.replace(f"{{{{{name}}}}}", f"{{{name}}}")
    return Template(checked.system, text)


def shown_first(question: str, seed: int = 0) -> bool:
    """Whether the model's answer is shown first, by chance: the same at every call. Paper: silent."""
    return bool(hashlib.sha256(f"{seed} {question}".encode()).digest()[0] & 1)


def asks(questions: Questions, answers: Sequence[Group], prompt: Template, *, seed: int = 0) -> list[Ask]:
    """One comparison an instruction, ids those of the questions; which answer stands first is drawn by seed."""
    out = []
    for answer, other in zip(answers, questions.baseline, strict=True):
        id, pair = question_id(answer), (answer.responses[0].text, other.responses[0].text)
        first, second = pair if shown_first(id, seed) else pair[::-1]
        out.append(Ask(id, prompt.fill(instruction=answer.prompt[0].text, output_1=first, output_2=second), NAME, pair))
    return out


def preferences(questions: Questions, verdicts: Sequence[Verdict], *, seed: int = 0) -> np.ndarray:
    """Preferences [N], 2 where the model was preferred, 1 the baseline, 1.5 at a tie, nan where none could be read."""
    named = {verdict.id: verdict.value for verdict in verdicts}
    values = []
    for group in questions.groups:
        preferred = (2.0, 1.0) if shown_first(group.id, seed) else (1.0, 2.0)
        values.append((dict(zip(NAMES, preferred, strict=True)) | {TIE: 1.5}).get(named[group.id], np.nan))
    return np.array(values)


def score(
    questions: Questions, answers: Sequence[Group], verdicts: Sequence[Verdict], *, published=None, n_boot=0, seed=0
) -> JudgedScore:
    """Raw and length-controlled win rates of a model against the baseline, in per cent, from verdicts.

    Paper: Table 4. published: difficulties, as `length_control.read_published` gives them; they are of the 805
    instructions and cannot be used for others. Fewer verdicts than the fit has folds give no length-controlled rate.
    table: one row with instructions, unparsable, raw, raw SE, LC, low, high (95 %, of the raw rate's SE: that of the LC
    rate leaves out which instructions were drawn), form. measure: "LC win rate" only for the published form, otherwise
    which form it was. n_boot: not used here, where the standard error has a formula.
    """
    p, ids = preferences(questions, verdicts, seed=seed), [group.id for group in questions.groups]  # [N]
    lengths, theirs = bench.characters(answers), bench.characters(questions.baseline)
    row = {"instructions": len(p), "unparsable": int(np.isnan(p).sum())}
    row |= dict.fromkeys(("raw", "raw SE", "LC", "low", "high"), np.nan) | {"form": length_control.MINIMAL}
    if (~np.isnan(p)).any():
        raw = length_control.win_rate(p)
        row |= {"raw": raw.rate, "raw SE": raw.standard_error}
    if (~np.isnan(p)).sum() >= FOLDS and np.ptp(theirs - lengths):
        numbers = [int(id) for id in ids] if published else None
        fit = length_control.length_controlled(p, lengths, theirs, published=published, instructions=numbers)
        half = 1.96 * fit.raw.standard_error
        row |= {"LC": fit.rate, "low": fit.rate - half, "high": fit.rate + half, "form": fit.form}
    measure = MEASURE if row["form"] == PUBLISHED else f"LC win rate, {row['form'].partition(':')[0]}, %"
    overall, values = (row["LC"], row["low"], row["high"]), pd.Series(100 * (p - 1), index=ids, name=PREFERRED)
    frame = pd.DataFrame({"question": ids, "preference": p})
    return JudgedScore(questions.title, measure, overall, row["unparsable"], pd.DataFrame([row]), frame, values)


def save_outputs(path: Path, model: str, answers: Sequence[Group]) -> Path:
    """Write answers as the alpaca_eval package takes them (`alpaca_eval --model_outputs`), whole or not at all."""
    texts = [(answer.prompt[0].text, answer.responses[0].text) for answer in answers]
    rows = [{"instruction": instruction, "output": output, "generator": model} for instruction, output in texts]
    write(Path(path), json.dumps(rows, indent=1, ensure_ascii=False).encode(errors="replace"))
    return Path(path)


def near_leaderboard(published: Published | None = None, folder: str | Path | None = None) -> pd.DataFrame | None:
    """How near our length-controlled rates of public models come to the leaderboard: `alpaca_eval.summary`.

    Paper: silent. folder: with alpaca_eval/ (public preferences and leaderboard), by default HS2_DATA_DIR; None where
    it has no leaderboard.
    """
    mirror = Path(folder or os.environ.get("HS2_DATA_DIR", "")).expanduser() / "alpaca_eval"
    if not (mirror / "leaderboard.csv").exists():
        return None
    return length_control.summary(length_control.against_leaderboard(*length_control.read_mirror(mirror), published))
