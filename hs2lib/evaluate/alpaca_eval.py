"""AlpacaEval 2: 805 instructions, each answer set against gpt4_1106_preview's by a judge, in an order drawn by seed.

    questions, baseline = load("folder")                             # or "hub", "embedded"
    asked = asks(questions, answers, baseline, prompt("hub"))     # 805 questions to a judge
    result = score(questions, answers, baseline, judge.verdicts(asked, file=file, token_cap=10_000_000))
    save_outputs(folder / "DPO.json", questions, answers)            # for the alpaca_eval package and its own judge

`hs2lib.evaluate.length_control` has the arithmetic. The published judge gives log-probabilities of the two names;
this client reads
a name, so a preference is 1 or 2 and nothing between: a rate of verdicts, called that (`Result.measure`). The
evaluation set is published for non-commercial use: it is read in place, and none of it belongs in a report.

Paper: section 4.1, appendix H (evaluator GPT-4-1106-preview, 805 instructions), Table 4.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib.data.rows import DataError
from hs2lib.data.sources import PublicFile, locate, rows
from hs2lib.evaluate import arena_hard, length_control
from hs2lib.evaluate.judge import Ask, Scale, Verdict
from hs2lib.evaluate.length_control import BASELINE, FOLDS, INSTRUCTIONS, PUBLISHED, Published
from hs2lib.evaluate.mt_bench import Template
from hs2lib.evaluate.questions import Answers, Question, Questions
from hs2lib.paths import write

_REPO, _COMMIT = "tatsu-lab/alpaca_eval", "15fd513071d389b79dab27fd464800c6fe10c15a"

_OUTPUTS = f"results/{BASELINE}/model_outputs.json"  # instructions and the baseline's answers in one file

_PLACES = (f"alpaca_eval/outputs/{BASELINE}.jsonl", f"alpaca_eval/{BASELINE}.json")

ANSWERS = PublicFile(f"AlpacaEval answers of {BASELINE}", _REPO, _COMMIT, _OUTPUTS, _PLACES)

QUESTIONS = PublicFile(
    "AlpacaEval instructions", _REPO, _COMMIT, _OUTPUTS, ("alpaca_eval/instructions.jsonl", _PLACES[1])
)

PROMPT = PublicFile(
    "AlpacaEval 2 judge prompt",
    _REPO,
    _COMMIT,
    "src/alpaca_eval/evaluators_configs/alpaca_eval_clf_gpt4_turbo/alpaca_eval_clf.txt",
    ("alpaca_eval/alpaca_eval_clf.txt",),
)

_FIELDS = ("instruction", "output_1", "output_2")

NAMES = ("m", "M")  # of the answer shown first, and second; those of the published prompt

# The whole reply is a name, or it is no verdict: a single letter in prose means anything.
NAME = Scale(
    "name",
    r"^[\s\"'`*]*([mM])[\s\"'`*.]*$",
    lambda inside: inside if inside in NAMES else None,
    "Now write the name of the better answer alone, m or M, and nothing else.",
)


def load(
    source: str, folder: str | Path | None = None, *, n: int = 0, seed: int = 0, length_scale: float = 1.0
) -> tuple[Questions, Answers]:
    """The 805 instructions (n of them, 0: all, spread over their five sets) and the baseline's answers.

    source: "folder" (default HS2_DATA_DIR), "hub" (GitHub at a pinned commit), or "embedded" (generated prompts in
    place of AlpacaEval, and called so; the baseline is the better of each prompt's two generated responses).
    length_scale: of generated texts, as in `answers.embedded`. Raises DataError for a file that is absent or not as it
    should be.
    """
    if source == "embedded":
        questions, answers = arena_hard.load("embedded", n=n, seed=seed, length_scale=length_scale)
        return Questions("AlpacaEval 2", questions.items, questions.source, len(questions), generated=True), answers
    path, said = locate(QUESTIONS, source, folder)
    items = []
    for line, row in rows(path):
        text = row.get("instruction")
        if not (isinstance(text, str) and text):
            raise DataError(path, line, "instruction", "a text is due", f"take {_REPO}'s file")
        items.append(Question(str(row.get("i", line - 1)), str(row.get("dataset", "")), (text,)))
    if len(items) != INSTRUCTIONS or len({question.id for question in items}) != INSTRUCTIONS:
        what = f"{len(items)} instructions, AlpacaEval has {INSTRUCTIONS}"
        raise DataError(path, None, "instruction", what, f"take {_REPO}'s file")
    questions = Questions("AlpacaEval 2", tuple(items), said, INSTRUCTIONS).subset(n, seed)
    path, said = locate(ANSWERS, source, folder)
    given = {str(row.get("i", line - 1)): row.get("output") for line, row in rows(path)}
    if lacking := [q.id for q in questions.items if not isinstance(given.get(q.id), str)]:
        what = f"no answer of {BASELINE} to {len(lacking)} of {len(questions)} instructions, {lacking[0]} among them"
        raise DataError(path, None, "output", what, f"take {_REPO}'s file")
    return questions, Answers(BASELINE, {q.id: (given[q.id],) for q in questions.items}, said)


def prompt(source: str, folder: str | Path | None = None) -> Template:
    """The judge prompt: the system message, and the template with the instruction and two answers."""
    path, _ = locate(PROMPT, source, folder)
    parts = [part.partition("\n") for part in path.read_text().split("<|im_start|>")[1:]]
    found = {role: text.partition("<|im_end|>")[0].rstrip("\n") for role, _, text in parts}
    if found.keys() != {"system", "user"} or any(f"{{{name}}}" not in found["user"] for name in _FIELDS):
        what = f"no system and user message with {', '.join(_FIELDS)}"
        raise DataError(path, None, None, what, f"take {PROMPT.path} of {_REPO}")
    text = found["user"].replace("{", "{{").replace("}", "}}")  # the published text has braces of its own
    for name in _FIELDS:
        text = text.replace(f"{{{{{name}}}}}", f"{{{name}}}")
    return Template(found["system"], text)


def shown_first(question: str, seed: int = 0) -> bool:
    """Whether the model's answer is shown first, by chance: the same at every call. Paper: silent."""
    return bool(hashlib.sha256(f"{seed} {question}".encode()).digest()[0] & 1)


def asks(questions: Questions, answers: Answers, baseline: Answers, template: Template, *, seed: int = 0) -> list[Ask]:
    """One comparison an instruction, ids those of the questions; which answer stands first is drawn by seed."""
    out = []
    for question in questions.items:
        pair = answers.turns[question.id][0], baseline.turns[question.id][0]
        one, two = pair if shown_first(question.id, seed) else pair[::-1]
        messages = template.fill(instruction=question.turns[0], output_1=one, output_2=two)
        out.append(Ask(question.id, messages, NAME, pair))
    return out


def preferences(questions: Questions, verdicts: Sequence[Verdict], *, seed: int = 0) -> np.ndarray:
    """Preferences [N], 2 where the model was preferred, 1 the baseline, nan where no name could be read."""
    given, found = {verdict.id: verdict.value for verdict in verdicts}, []
    for question in questions.items:
        ours, theirs = NAMES if shown_first(question.id, seed) else NAMES[::-1]
        named = {given[question.id]: 0.0} if given[question.id] else {}
        found.append(length_control.preference(named, model_token=ours, baseline_token=theirs))
    return np.array(found)


@dataclass(frozen=True)
class Result:
    """Preferences of a judge. table: one row with model, instructions, unparsable, raw, raw SE, LC, low, high (95 %, of
    the raw rate's SE: that of the LC rate leaves out which instructions were drawn), form; preferences: one row each.
    measure: what the rate may be called."""

    title: str
    table: pd.DataFrame
    preferences: pd.DataFrame

    @property
    def measure(self) -> str:
        """ "LC win rate" only for the published form; otherwise which form it was."""
        form = self.table.at[0, "form"]
        return "LC win rate, %" if form == PUBLISHED else f"LC win rate, {form.partition(':')[0]}, %"

    def overall(self) -> tuple[float, float, float]:
        """(length-controlled win rate in per cent, low, high)."""
        return tuple(float(self.table.at[0, name]) for name in ("LC", "low", "high"))


def score(
    questions: Questions,
    answers: Answers,
    baseline: Answers,
    verdicts: Sequence[Verdict],
    *,
    published: Published | None = None,
    seed: int = 0,
) -> Result:
    """Raw and length-controlled win rates of a model against the baseline, in per cent, from verdicts.

    Paper: Table 4. published: difficulties, as `alpaca_eval.read_published` gives them; they are of the 805
    instructions and cannot be used for others. Fewer verdicts than the fit has folds give no length-controlled rate.
    """
    p = preferences(questions, verdicts, seed=seed)
    lengths, theirs = answers.characters(questions), baseline.characters(questions)
    row = {"model": answers.model, "instructions": len(p), "unparsable": int(np.isnan(p).sum())}
    row |= dict.fromkeys(("raw", "raw SE", "LC", "low", "high"), np.nan) | {"form": length_control.MINIMAL}
    if (~np.isnan(p)).any():
        raw = length_control.win_rate(p)
        row |= {"raw": raw.rate, "raw SE": raw.standard_error}
    if (~np.isnan(p)).sum() >= FOLDS and np.ptp(theirs - lengths):
        given = (
            {} if published is None else {"published": published, "instructions": [int(q.id) for q in questions.items]}
        )
        fit = length_control.length_controlled(p, lengths, theirs, **given)
        half = 1.96 * fit.raw.standard_error
        row |= {"LC": fit.rate, "low": fit.rate - half, "high": fit.rate + half, "form": fit.form}
    of = pd.DataFrame({"question": [q.id for q in questions.items], "preference": p})
    return Result(questions.title, pd.DataFrame([row]), of)


def save_outputs(path: Path, questions: Questions, answers: Answers) -> Path:
    """Write answers as the alpaca_eval package takes them (`alpaca_eval --model_outputs`), whole or not at all."""
    found = [(question.turns[0], answers.turns[question.id][0]) for question in questions.items]
    lines = [{"instruction": text, "output": output, "generator": answers.model} for text, output in found]
    write(Path(path), json.dumps(lines, indent=1, ensure_ascii=False).encode(errors="replace"))
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
