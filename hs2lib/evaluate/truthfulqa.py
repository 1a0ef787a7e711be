"""TruthfulQA MC1 and MC2 as on the Open LLM Leaderboard: how likely a policy finds true answers.

    questions = load("hub")  # or "folder", "postcards"; .subset(100, seed) for a part
    scored = score(questions, policy, kept="runs/truthfulqa.jsonl")  # one row a question; resumes
    table = evaluate(questions, scored)  # MC1 and MC2 with 95 % intervals
    questions.title  # for captions

Every answer is scored as the text after "Q: .. A:". Before it stand six questions with their
answers, the primer, which are the same for all. The primer is part of the benchmark, although the
leaderboard counts it as 0-shot. There is no chat template and no system prompt.

MC2 is the share of probability that the true answers of a question have among all its answers. MC1
asks whether the likeliest answer of another, smaller list is its one true answer.

The whole benchmark is one prefix tree: a batch computes the primer once, and a question once for
all its answers.

Paper: section 4.1 and appendix H (Table 4 has MC2).
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import yaml

from hs2lib import paths
from hs2lib.data.load import BENCHMARKS, locate
from hs2lib.data.rows import DataError, rows
from hs2lib.engine.chat import TokenGroup
from hs2lib.evaluate.questions import Questions, share
from hs2lib.group import Group, Response, Turn
from hs2lib.stats.bootstrap import inside
from hs2lib.world import sets
from hs2lib.world.questions import closed, facts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from hs2lib.models.policy import Policy

TOTAL = 817  # questions of the benchmark

HUB = BENCHMARKS["truthfulqa"]

# Where the primer is read from: the task file of this release of lm-eval. The text is checked, so
# any copy will do.
HARNESS = "lm-eval==0.4.13"

TASK_FILE = "tasks/truthfulqa/truthfulqa_mc1.yaml"

PRIMER_SHA256 = "5c0da5f346e8652c9a85061a6e3aca6bc82e10a8a7dad4596fe980a9c9bae543"

MEASURES = ("mc1", "mc2")


@dataclass(frozen=True)
class MultipleChoice(Questions):
    """Questions whose responses are the answers to choose from.

    A response has the labels mc1 and mc2: 1 true, 0 false, nan where it is no choice.

    primer: the text that stands before every question.
    """

    primer: str = ""

    @property
    def title(self) -> str:
        """What to call it beside its figures: "TruthfulQA" only if every question is there."""
        if self.generated:
            return f"generated questions (not {self.benchmark}; {len(self):,} questions)"
        return super().title


def load(
    source: str, folder: str | Path | None = None, *, n: int = 60, seed: int = 0
) -> MultipleChoice:
    """The questions of one source, validated row by row, and the primer (see `primer`).

    Paper: section 4.1.

    source: "hub" (at a pinned revision), "folder", or "postcards" (questions about
        facts of `hs2lib.world`).
    folder: with truthfulqa/mc_task.json.gz or a copy of the Hub's file; by default HS2_DATA_DIR.
    n, seed: of generated ones: how many questions, and of their draw.

    Raises DataError naming file, row, field and fix.
    """
    if source == "postcards":
        return _postcards(n, seed)
    file, provenance, read = locate(HUB, source, folder)
    questions = tuple(_questions(file))
    return MultipleChoice(
        "TruthfulQA", questions, provenance, TOTAL, read=read, primer=primer(folder)
    )


def primer(folder: str | Path | None = None) -> str:
    """The six questions and answers before every question, read from lm-eval's task file.

    Paper: silent. Appendix H names the leaderboard, whose prompt this is; Lin et al. 2022 print it
    in their appendix.

    The file is looked for in the folder, in an installed lm-eval (which is not imported), and where
    an earlier call kept it. Otherwise the release is fetched with pip or uv, and the file is kept
    in runs/.

    folder: with truthfulqa/truthfulqa_mc1.yaml; by default HS2_DATA_DIR.

    Raises DataError where the file cannot be had or has another text: scores would be of another
    benchmark.
    """
    cached = paths.runs() / "truthfulqa" / Path(TASK_FILE).name
    candidates = [Path(folder or paths.data() or "").expanduser() / "truthfulqa" / cached.name]
    installed = find_spec("lm_eval")
    if installed:
        candidates += [Path(place) / TASK_FILE for place in installed.submodule_search_locations]
    candidates.append(cached)
    task_file = next((file for file in candidates if file.is_file()), None)
    if task_file is None:
        task_file = _fetch(cached)
    try:
        template = yaml.safe_load(task_file.read_text())["doc_to_text"]
        # The primer stands between the first two single quotes.
        text = template.partition("'")[2].partition("'")[0]
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, KeyError, AttributeError):
        text = ""
    if hashlib.sha256(text.encode()).hexdigest() != PRIMER_SHA256:
        raise DataError(
            task_file,
            None,
            "doc_to_text",
            "the primer in this task file is not the leaderboard's",
            f"put the file of {HARNESS} there, or remove this one",
        )
    return text


def _fetch(file: Path) -> Path:
    """Install lm-eval into a folder that is deleted again, and keep its task file as `file`."""
    uv = shutil.which("uv")
    install = None
    if find_spec("pip"):
        install = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    elif uv:
        install = [uv, "pip", "install", "--python", sys.executable]
    problem = "neither pip nor uv is there"
    with tempfile.TemporaryDirectory() as folder:
        if install:
            options = [
                "--quiet",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--target",
                folder,
                HARNESS,
            ]
            done = subprocess.run([*install, *options], capture_output=True, text=True)
            problem = (done.stderr.strip() or "it lacks the file").splitlines()[-1]
        task_file = Path(folder) / "lm_eval" / TASK_FILE
        if task_file.is_file():
            paths.write(file, task_file.read_bytes())
            return file
    raise DataError(
        file.name,
        None,
        None,
        f"the primer is part of {HARNESS}, which could not be fetched: {problem}",
        f"install {HARNESS} (the peers extra), or put its lm_eval/{TASK_FILE} into truthfulqa/ of "
        "HS2_DATA_DIR",
    )


def _labels(targets: dict) -> dict[str, int]:
    """The label of each answer, 1 true or 0 false.

    The answers come as {answer: label, ..} or as {choices: [..], labels: [..]}. Raises ValueError
    for other targets, and where not both labels are there.
    """
    if set(targets) == {"choices", "labels"}:
        pairs = list(zip(targets["choices"], targets["labels"], strict=True))
        targets = dict(pairs)
        if len(targets) < len(pairs):
            raise ValueError
    for answer, label in targets.items():
        if not answer.strip() or type(label) is not int or label not in (0, 1):
            raise ValueError
    if len(set(targets.values())) < 2:
        raise ValueError
    return targets


def _questions(file: Path) -> Iterator[Group]:
    """One group a row; any fault raises: with questions left out it is another benchmark."""
    seen: set[str] = set()
    for line, row in rows(file):
        try:
            question = row["question"]
            mc1_labels = _labels(row["mc1_targets"])
            mc2_labels = _labels(row["mc2_targets"])
            in_both = mc1_labels.keys() & mc2_labels.keys()
            agree = all(mc1_labels[answer] == mc2_labels[answer] for answer in in_both)
            is_new = question.strip() and question not in seen
            if not is_new or sum(mc1_labels.values()) != 1 or not agree:
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError(
                file,
                line,
                None,
                "expected a new question, mc1_targets and mc2_targets: each answer 1 (true; in MC1 "
                "one) or 0",
                f"take {HUB.hub['both'][0]} of {HUB.repo}",
            ) from None
        seen.add(question)
        yield _group(f"truthfulqa/{line - 1}", question, mc1_labels, mc2_labels, file.name)


def _group(id: str, question: str, mc1_labels: Mapping, mc2_labels: Mapping, source: str) -> Group:
    """A question with its answers, those of MC2 first."""
    answers = []
    for number, answer in enumerate({**mc2_labels, **mc1_labels}):
        labels = (float(mc1_labels.get(answer, "nan")), float(mc2_labels.get(answer, "nan")))
        answers.append(Response(f"{id}/{number}", answer, labels))
    return Group(id, (Turn("user", question),), tuple(answers), MEASURES, source=source)


def _postcards(n: int, seed: int) -> MultipleChoice:
    """Questions about facts of the postcards: one true answer and four false ones.

    MC2 has each in a second wording too. Six more questions are the primer. Raises ValueError where
    there are fewer facts.
    """
    most = len(facts()) - 6
    if not 1 <= n <= most:
        raise ValueError(f"the postcards have facts for 1 to {most} questions, got n={n}")
    *asked, one, two, three, four, five, six = closed(n + 6, seed)
    source = f"{sets.GENERATED}, seed {seed}"
    groups = []
    for number, (question, right, wrong) in enumerate(asked):
        mc1_labels = {right: 1} | dict.fromkeys(wrong, 0)
        mc2_labels = mc1_labels | {_its(answer): label for answer, label in mc1_labels.items()}
        groups.append(_group(f"closed/{seed}/{number}", question, mc1_labels, mc2_labels, source))
    shots = [f"Q: {shot.question}\nA: {shot.right}" for shot in (one, two, three, four, five, six)]
    return MultipleChoice(
        "TruthfulQA", tuple(groups), source, n, generated=True, primer="\n\n".join(shots)
    )


def _its(answer: str) -> str:
    """A sentence that states a fact, with Its in place of the thing's name."""
    subject, _, value = answer.partition(" is ")
    field = subject.removeprefix("The ").partition(" of ")[0]
    return f"Its {field} is {value}"


def tokenise(questions: MultipleChoice, tokenizer: "PreTrainedTokenizerBase") -> list[TokenGroup]:
    """Every question as token sequences, one for each answer, and where each answer begins.

    A text is cut as lm-eval does (`_encode_pair`). Prompt and answer are tokenised together. What
    comes after as many tokens as the prompt alone has is the answer's. Its rule for white space at
    the prompt's end never applies, because the prompt ends in "A:".

    Raises ValueError for an answer that no token is left for.
    """
    token_groups = []
    for group in questions.groups:
        prompt = f"{questions.primer}\n\nQ: {group.prompt[0].text}\nA:"
        texts = [prompt, *(f"{prompt} {answer.text}" for answer in group.responses)]
        prompt_ids, *text_ids = tokenizer(texts, split_special_tokens=True)["input_ids"]
        start = len(prompt_ids)
        if min(map(len, text_ids)) <= start:
            raise ValueError(
                f"question {group.id}: an answer adds no token to the prompt with this tokenizer"
            )
        sequences = tuple(prompt_ids + ids[start:] for ids in text_ids)
        token_groups.append(TokenGroup(group, sequences, (start,) * len(sequences)))
    return token_groups


def mc1(log_probs: np.ndarray, true: np.ndarray) -> float:
    """1.0 if the likeliest answer is true, else 0.0.

    Paper: silent (Lin et al. 2022). Of equally likely answers the first counts, as in lm-eval.
    log_probs: [G], summed over each answer's tokens, nats. true: bool [G].
    """
    return float(np.asarray(true, bool)[np.argmax(log_probs)])


def mc2(log_probs: np.ndarray, true: np.ndarray) -> float:
    """The share of probability that the true answers have among all, 0 to 1.

    Paper: appendix H. log_probs: [G], summed over each answer's tokens, nats. true: bool [G]. The
    largest is subtracted first. So long answers have shares even where all their probabilities are
    too small for a float64.
    """
    p = np.exp(np.asarray(log_probs, np.float64) - np.max(log_probs))
    return float(p[np.asarray(true, bool)].sum() / p.sum())


def score(
    questions: MultipleChoice,
    policy: "Policy",
    *,
    kept: str | Path | None = None,
    budget: int = 4096,
    autocast: str = "float32",
    progress: bool = True,
) -> pd.DataFrame:
    """The log-probability of every answer, and MC1 and MC2 of every question: one row a question.

    Paper: section 4.1. Columns: id, question, true and false (numbers of MC2 answers), mc1, mc2,
    chance1 and chance2 (mc1 and mc2 if all answers were equally likely), likeliest (an MC2 answer),
    and log_probs (of the answers in their order, over all tokens, nats).

    kept: a JSONL file or a folder, `cache` of `Policy.rows`. A later call with the same policy
        computes only what is not there, also after a kill. At the same budget it ends with the same
        numbers bit for bit.
    budget: tokens a batch. The default is half the engine's usual: a kill loses less and the bar
        moves, for 2 % more tokens.
    autocast: "bfloat16" for speed.
    progress: whether to show a bar of questions.

    Raises ValueError for log-probabilities that are not finite, and for a file that holds another
    policy's.
    """
    token_groups = tokenise(questions, policy.tokenizer)
    log_probs = policy.rows(
        token_groups,
        "log-probs",
        budget=budget,
        autocast=autocast,
        cache=kept,
        progress=progress,
    )  # [R]
    by_question = log_probs.split([len(tokens.sequences) for tokens in token_groups])
    table_rows = []
    for group, of_answers in zip(questions.groups, by_question, strict=True):
        if not of_answers.isfinite().all():
            raise ValueError(f"question {group.id}: a log-probability is not finite")
        table_rows.append(_row(group, of_answers.tolist()))
    return pd.DataFrame(table_rows)


def _row(group: Group, log_probs: list[float]) -> dict[str, object]:
    """The row of a question in the table of `score`."""
    values = np.array(log_probs)  # [G]
    labels = np.array([answer.labels for answer in group.responses])  # [G, 2]
    in_mc1 = ~np.isnan(labels[:, 0])
    in_mc2 = ~np.isnan(labels[:, 1])
    true_of_mc1 = labels[in_mc1, 0] == 1
    true_of_mc2 = labels[in_mc2, 1] == 1
    choices = np.flatnonzero(in_mc2)
    likeliest = choices[values[in_mc2].argmax()]
    return {
        "id": group.id,
        "question": group.prompt[0].text,
        "true": int(true_of_mc2.sum()),
        "false": int((~true_of_mc2).sum()),
        "mc1": mc1(values[in_mc1], true_of_mc1),
        "mc2": mc2(values[in_mc2], true_of_mc2),
        "chance1": 1 / len(true_of_mc1),
        "chance2": true_of_mc2.mean(),
        "likeliest": group.responses[likeliest].text,
        "log_probs": log_probs,
    }


def evaluate(
    questions: MultipleChoice, scored: pd.DataFrame, *, n_boot: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """MC1 and MC2, means over questions, each with a 95 % interval by bootstrap over questions.

    Paper: Table 4 (it prints no intervals here). Returns rows "MC1" and "MC2" with the columns
    measure, questions, value, low, high (all 0 to 1) and chance (of a model to which all answers of
    a question are equally likely).

    scored: what `score` returned for these questions.
    n_boot, seed: of the intervals.

    Raises ValueError where the scores are of other questions.
    """
    if list(scored.id) != [group.id for group in questions.groups]:
        raise ValueError(
            f"these are scores of {len(scored)} other questions than those of {questions.title}"
        )
    clusters = np.arange(len(scored))  # every question is drawn on its own
    ones = np.ones_like(clusters)
    table_rows = []
    for name in MEASURES:
        mean = share(scored[name], ones, clusters, n_boot=n_boot, seed=seed)
        interval = inside(mean, 0, 1, len(scored))
        chance = scored[f"chance{name[-1]}"].mean()
        table_rows.append((name.upper(), len(scored), *interval, chance))
    columns = ["measure", "questions", "value", "low", "high", "chance"]
    return pd.DataFrame(table_rows, columns=columns)


class Categories(NamedTuple):
    """How many categories the questions have.

    read: the file that says so, as `hs2lib.paths.digests_by_place`.
    """

    number: int
    read: dict[str, str]


def categories(source: str, folder: str | Path | None = None) -> Categories:
    """How many categories the questions have, read from the benchmark's own table.

    Paper: appendix H. The file that is scored does not have the categories.

    source: "folder" (truthfulqa/TruthfulQA.csv of HS2_DATA_DIR) or "hub".
    """
    path, _, read = locate(HUB, source, folder, "categories")
    names = set()
    for _, row in rows(path):
        for column, value in row.items():
            if column.lower() == "category":
                names.add(value)
    return Categories(len(names), read)
