"""TruthfulQA MC1 and MC2: how likely a policy finds the true answers, with the Open LLM
Leaderboard's prompt.

    questions = load("hub")                            # or "folder", "embedded"; .subset(100, seed) for a part
    scored = score(questions, policy, kept="runs/truthfulqa.jsonl")        # a row each; resumes where a kill stopped
    table = evaluate(questions, scored)                # MC1 and MC2 with 95 % intervals; questions.title for captions

Every answer is scored as the text after "Q: .. A:", behind six questions with their answers, the
primer, which is part of the benchmark (the leaderboard counts it as 0-shot) and is the same for
all: no chat template, no system prompt. MC2 is the share of probability that falls to the true ones
among a question's answers; MC1 asks whether the likeliest of another, smaller list is its one true
answer. Paper: section 4.1 and appendix H (Table 4 has MC2). The whole benchmark is one prefix tree:
a batch computes the primer once, and a question once for all its answers.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import yaml

from hs2lib import paths
from hs2lib.corpus.tasks import ENTITIES, FACT, FIELDS
from hs2lib.data.load import BENCHMARKS, locate
from hs2lib.data.rows import DataError, rows
from hs2lib.engine.chat import TokenGroup
from hs2lib.evaluate.questions import Questions, share
from hs2lib.group import Group, Response, Turn
from hs2lib.stats.bootstrap import inside

TOTAL = 817  # questions of the benchmark

HUB = BENCHMARKS["truthfulqa"]

# Where the primer is read from: the task file of this release of lm-eval. The text is checked, so
# any copy will do.
HARNESS, TASK_FILE = "lm-eval==0.4.13", "tasks/truthfulqa/truthfulqa_mc1.yaml"

PRIMER_SHA256 = "5c0da5f346e8652c9a85061a6e3aca6bc82e10a8a7dad4596fe980a9c9bae543"

MEASURES = ("mc1", "mc2")


@dataclass(frozen=True)
class MultipleChoice(Questions):
    """Questions whose responses are the answers to choose from, and the primer that stands before
    every question.

    Labels of a response: mc1, mc2 (1 true, 0 false, nan where it is no choice).
    """

    primer: str = ""

    @property
    def title(self) -> str:
        """What to call it wherever its figures stand: "TruthfulQA" only if every question is there."""
        if self.generated:
            return f"generated questions (not {self.benchmark}; {len(self):,} questions)"
        return super().title


def load(
    source: str, folder: str | Path | None = None, *, n: int = 60, seed: int = 0
) -> MultipleChoice:
    """The questions of one source, validated row by row, and the primer (see `primer`).

    Paper: section 4.1. source: "hub" (at a pinned revision), "folder" (below `folder`, by default
    HS2_DATA_DIR: truthfulqa/mc_task.json.gz, or a copy of the Hub's file), or "embedded" (n
    questions made of the corpus's facts). Raises DataError naming file, row, field and fix.
    """
    if source == "embedded":
        return _generated(n, seed)
    file, provenance, read = locate(HUB, source, folder)
    questions = tuple(_questions(file))
    return MultipleChoice(
        "TruthfulQA", questions, provenance, TOTAL, read=read, primer=primer(folder)
    )


def primer(folder: str | Path | None = None) -> str:
    """The six questions and answers that stand before every question, read from lm-eval's task
    file.

    Paper: silent (appendix H names the leaderboard, whose prompt this is; Lin et al. 2022 print it
    in their appendix). Looked for in `folder` (by default HS2_DATA_DIR) as
    truthfulqa/truthfulqa_mc1.yaml, in an installed lm-eval, which is not imported, and where an
    earlier call kept it; else the release is fetched with pip or uv and the file kept in runs/.
    Raises DataError where it cannot be had, or has another text: scores would be of another
    benchmark.
    """
    kept = paths.runs() / "truthfulqa" / Path(TASK_FILE).name
    candidates = [Path(folder or paths.data() or "").expanduser() / "truthfulqa" / kept.name]
    if installed := find_spec("lm_eval"):
        candidates += [Path(place) / TASK_FILE for place in installed.submodule_search_locations]
    task = next((file for file in [*candidates, kept] if file.is_file()), None) or _fetched(kept)
    try:
        wording = (
            yaml.safe_load(task.read_text())["doc_to_text"].partition("'")[2].partition("'")[0]
        )
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, KeyError, AttributeError):
        wording = ""
    if hashlib.sha256(wording.encode()).hexdigest() != PRIMER_SHA256:
        what = "the primer in this task file is not the leaderboard's"
        raise DataError(
            task, None, "doc_to_text", what, f"put the file of {HARNESS} there, or remove this one"
        )
    return wording


def _fetched(file: Path) -> Path:
    uv = shutil.which("uv")
    pip = (
        [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
        if find_spec("pip")
        else None
    )
    command = pip or ([uv, "pip", "install", "--python", sys.executable] if uv else None)
    why = "neither pip nor uv is there"
    with tempfile.TemporaryDirectory() as folder:
        if command:
            options = [
                "--quiet",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--target",
                folder,
                HARNESS,
            ]
            done = subprocess.run([*command, *options], capture_output=True, text=True)
            why = (done.stderr.strip() or "it lacks the file").splitlines()[-1]
        if (got := Path(folder) / "lm_eval" / TASK_FILE).is_file():
            paths.write(file, got.read_bytes())
            return file
    fix = f"install {HARNESS} (the peers extra), or put its lm_eval/{TASK_FILE} into truthfulqa/ of HS2_DATA_DIR"
    raise DataError(
        file.name,
        None,
        None,
        f"the primer is part of {HARNESS}, which could not be fetched: {why}",
        fix,
    )


def _labels(targets: dict) -> dict[str, int]:
    """{answer: 1 true or 0 false, ..}, also where it comes as {choices: [..], labels: [..]}."""
    if set(targets) == {"choices", "labels"}:
        pairs = list(zip(targets["choices"], targets["labels"], strict=True))
        targets = dict(pairs) if len(dict(pairs)) == len(pairs) else {}
    known = all(
        answer.strip() and type(label) is int and label in (0, 1)
        for answer, label in targets.items()
    )
    if not known or len(set(targets.values())) < 2:
        raise ValueError
    return targets


def _questions(file: Path) -> Iterator[Group]:
    """One group a row; any fault raises: with questions left out it is another benchmark."""
    seen: set[str] = set()
    for line, row in rows(file):
        try:
            question, mc1, mc2 = (
                row["question"],
                _labels(row["mc1_targets"]),
                _labels(row["mc2_targets"]),
            )
            alike = all(mc1[answer] == mc2[answer] for answer in mc1.keys() & mc2.keys())
            if not question.strip() or question in seen or sum(mc1.values()) != 1 or not alike:
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError):
            what = "expected a new question, mc1_targets and mc2_targets: each answer 1 (true; in MC1 one) or 0"
            raise DataError(
                file, line, None, what, f"take {HUB.hub['both'][0]} of {HUB.repo}"
            ) from None
        seen.add(question)
        yield _group(f"truthfulqa/{line - 1}", question, mc1, mc2, file.name)


def _group(id: str, question: str, mc1: dict, mc2: dict, source: str) -> Group:
    labels = {
        answer: tuple(float(of.get(answer, "nan")) for of in (mc1, mc2))
        for answer in {**mc2, **mc1}
    }
    answers = [
        Response(f"{id}/{i}", answer, both) for i, (answer, both) in enumerate(labels.items())
    ]
    return Group(id, (Turn("user", question),), tuple(answers), MEASURES, source=source)


def _generated(n: int, seed: int) -> MultipleChoice:
    """Facts of the corpus asked for, wrong answers from other entities; the last six questions are the primer."""

    rng = np.random.default_rng(seed)
    known = [
        (kind, name, field)
        for kind in ENTITIES
        for name in ENTITIES[kind]
        for field in FIELDS[kind]
    ]
    if not 1 <= n <= len(known) - 6:
        raise ValueError(
            f"the small world has facts for 1 to {len(known) - 6} questions, got n={n}"
        )
    asked = []
    for kind, name, field in (known[i] for i in rng.permutation(len(known))[: n + 6]):
        right = ENTITIES[kind][name][field]
        values = dict.fromkeys(
            fields[field] for fields in ENTITIES[kind].values() if fields[field] != right
        )
        values = [right, *rng.permutation(list(values))[:3]]
        full, short = ([form.format(f=field, s=name, v=value) for value in values] for form in FACT)
        mc1 = {answer: int(k == 0) for k, answer in enumerate(full)}
        asked.append((f"What is the {field} of {name}?", mc1, {**mc1, short[0]: 1, short[1]: 0}))
    what = f"small world (generated), seed {seed}, {n} questions"
    shots = "\n\n".join(f"Q: {question}\nA: {next(iter(mc1))}" for question, mc1, _ in asked[n:])
    groups = (_group(f"generated/{seed}/{i}", *row, what) for i, row in enumerate(asked[:n]))
    return MultipleChoice("TruthfulQA", tuple(groups), what, n, generated=True, primer=shots)


def tokenise(questions: MultipleChoice, tokenizer) -> list[TokenGroup]:
    """Every question as token sequences, one for each answer, and where each answer begins.

    As lm-eval cuts a text (`_encode_pair`): prompt and answer are tokenised together, and what
    comes after as many tokens as the prompt alone has is the answer's. Its rule for white space at
    the prompt's end never applies: "A:". Raises ValueError for an answer that no token is left for.
    """
    out = []
    for group in questions.groups:
        prompt = f"{questions.primer}\n\nQ: {group.prompt[0].text}\nA:"
        texts = [prompt, *(f"{prompt} {answer.text}" for answer in group.responses)]
        before, *whole = tokenizer(texts, split_special_tokens=True)["input_ids"]
        if min(map(len, whole)) <= len(before):
            raise ValueError(
                f"question {group.id}: an answer adds no token to the prompt with this tokenizer"
            )
        sequences = tuple(before + ids[len(before) :] for ids in whole)
        out.append(TokenGroup(group, sequences, (len(before),) * len(whole)))
    return out


def mc1(log_probs: np.ndarray, true: np.ndarray) -> float:
    """1.0 if the likeliest answer is true, else 0.0; of equally likely ones the first counts, as in
    lm-eval.

    Paper: silent (Lin et al. 2022). log_probs [G] summed over each answer's tokens, nats; true bool
    [G].
    """
    return float(np.asarray(true, bool)[np.argmax(log_probs)])


def mc2(log_probs: np.ndarray, true: np.ndarray) -> float:
    """The share of probability that the true answers have among all, 0 to 1. Paper: appendix H.

    log_probs [G] summed over each answer's tokens, nats; true bool [G]. The largest is subtracted
    first, so that long answers all of whose probabilities are too small for a float64 still have
    shares.
    """
    p = np.exp(np.asarray(log_probs, np.float64) - np.max(log_probs))
    return float(p[np.asarray(true, bool)].sum() / p.sum())


def score(
    questions: MultipleChoice, policy, *, kept=None, budget=4096, autocast="float32", progress=True
):
    """One row a question: id, question, true, false (numbers of MC2 answers), mc1, mc2, chance1,
    chance2 (both were all answers equally likely), likeliest (MC2 answer), log_probs (of the
    answers in their order, over all tokens, nats).

    Paper: section 4.1. policy: a `Policy`. budget: tokens a batch, half the engine's usual: a kill
    loses less and the bar moves, for 2 % more tokens. kept: a JSONL file, `cache` of Policy.rows; a
    later call with the same policy computes only what is not there, also after a kill, and at the
    same budget ends with the same numbers bit for bit. progress: a bar of questions. Raises
    ValueError for log-probabilities that are not finite, and for a file that holds another
    policy's.
    """
    asked, options = tokenise(questions, policy.tokenizer), {"budget": budget, "autocast": autocast}
    values = policy.rows(asked, "log-probs", cache=kept, progress=progress, **options)  # [R]
    each = values.split([len(one.sequences) for one in asked])
    for group, of_answers in zip(questions.groups, each, strict=True):
        if not of_answers.isfinite().all():
            raise ValueError(f"question {group.id}: a log-probability is not finite")
    return pd.DataFrame(
        [_row(group, p.tolist()) for group, p in zip(questions.groups, each, strict=True)]
    )


def _row(group: Group, values: list[float]) -> dict:
    p, labels = np.array(values), np.array([answer.labels for answer in group.responses])
    (p1, true1), (p2, true2) = ((p[~np.isnan(of)], of[~np.isnan(of)] == 1) for of in labels.T)
    choices = [
        answer.text
        for answer, of in zip(group.responses, labels[:, 1], strict=True)
        if not np.isnan(of)
    ]
    row = {
        "id": group.id,
        "question": group.prompt[0].text,
        "true": int(true2.sum()),
        "false": int((~true2).sum()),
    }
    row |= {
        "mc1": mc1(p1, true1),
        "mc2": mc2(p2, true2),
        "chance1": 1 / len(p1),
        "chance2": true2.mean(),
    }
    return row | {"likeliest": choices[int(p2.argmax())], "log_probs": values}


def evaluate(
    questions: MultipleChoice, scored: pd.DataFrame, *, n_boot: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """MC1 and MC2, means over questions, each with a 95 % interval by bootstrap over questions.

    Paper: Table 4 (it prints no intervals here). scored: what `score` returned for these questions.
    Returns rows "MC1" and "MC2" with columns measure, questions, value, low, high (all 0 to 1),
    chance (a model to which all answers of a question are equally likely). Raises ValueError where
    the scores are of other questions.
    """
    if list(scored.id) != [group.id for group in questions.groups]:
        raise ValueError(
            f"these are scores of {len(scored)} other questions than those of {questions.title}"
        )
    each, rows = np.arange(len(scored)), []
    for name in MEASURES:
        interval = inside(
            share(scored[name], np.ones_like(each), each, n_boot=n_boot, seed=seed), 0, 1, len(each)
        )
        rows.append((name.upper(), len(each), *interval, scored[f"chance{name[-1]}"].mean()))
    return pd.DataFrame(rows, columns=["measure", "questions", "value", "low", "high", "chance"])


class Categories(NamedTuple):
    """How many categories the questions have, and the file that says so, as `hs2lib.paths.as_read`."""

    number: int
    read: dict[str, str]


def categories(source: str, folder: str | Path | None = None) -> Categories:
    """How many categories the questions have, read from the benchmark's own table (the scored file
    does not say).

    Paper: appendix H. source: "folder" (truthfulqa/TruthfulQA.csv of HS2_DATA_DIR) or "hub".
    """
    path, _, read = locate(HUB, source, folder, "categories")
    names = set()
    for _, row in rows(path):
        names |= {value for column, value in row.items() if column.lower() == "category"}
    return Categories(len(names), read)
