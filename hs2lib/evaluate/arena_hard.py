"""Arena Hard v0.1: 500 prompts, each answer set against gpt-4-0314's in both orders, a win rate with its interval.

    questions, baseline = load("folder")                             # or "hub", "embedded"
    asked = asks(questions, answers, baseline, prompt("hub"))     # 1,000 questions to a judge
    result = score(questions, judge.verdicts(asked, file=file, token_cap=10_000_000), answers.model)

A verdict is one of A>>B, A>B, A=B, B>A, B>>A; by the protocol ">>" counts as three games, "=" as half a game won. The
Bradley-Terry model of these games has a closed form here. Every game is against the baseline, so the likelihood falls
apart into one factor a model, whose maximum is at P(win) = w, the share of games won; the rating, anchored at 1000 for
the baseline, is 1000 + 400 log10(w / (1 - w)). Other models in the same fit change nothing.

Paper: section 4.1, appendix H (judge GPT-4-1106-preview, win rate against GPT-4-0314), Table 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from hs2lib.corpus import generate
from hs2lib.data.rows import DataError
from hs2lib.data.sources import PublicFile, locate, rows
from hs2lib.evaluate.judge import COMPARISON, COMPARISONS, Ask, Verdict
from hs2lib.evaluate.mt_bench import Template
from hs2lib.evaluate.questions import Answers, Question, Questions, embedded, read
from hs2lib.stats.bootstrap import bootstrap

WHOLE, BASELINE = 500, "gpt-4-0314"

HEAVY = 3  # games that "significantly better" counts as. Paper: silent; the weight of Arena Hard v0.1

_ARENA, _COMMIT = "lmarena/arena-hard-auto", "6c82720015d5da7b8795b809b91f63ef74abbf6a"

QUESTIONS = PublicFile(
    "Arena Hard v0.1 questions",
    _ARENA,
    _COMMIT,
    "data/arena-hard-v0.1/question.jsonl",
    ("arena_hard/arena-hard-v0.1__question.jsonl", "arena_hard/question.jsonl"),
)

ANSWERS = PublicFile(
    f"answers of {BASELINE}",
    _ARENA,
    _COMMIT,
    f"data/arena-hard-v0.1/model_answer/{BASELINE}.jsonl",
    (f"arena_hard/arena-hard-v0.1__model_answer__{BASELINE}.jsonl", f"arena_hard/{BASELINE}.jsonl"),
)

PROMPT = PublicFile(
    "Arena Hard v0.1 judge prompt",
    _ARENA,
    "7f1b7f5dd6ce53e1f8530220ceb452b7019a8056",
    "config/judge_config.yaml",
    ("arena_hard/judge_config.yaml",),
)

_FIELDS = ("question_1", "answer_1", "answer_2")


def load(
    source: str, folder: str | Path | None = None, *, n: int = 0, seed: int = 0, length_scale: float = 1.0
) -> tuple[Questions, Answers]:
    """The 500 questions (n of them, 0: all, spread over their 250 clusters) and the baseline's answers.

    source: "folder" (default HS2_DATA_DIR), "hub" (GitHub at a pinned commit), or "embedded" (generated prompts in
    place of Arena Hard, and called so; the baseline is the better of each prompt's two generated responses).
    length_scale: of generated texts, as in `answers.embedded`. Raises DataError for a file that is absent or not as it
    should be.
    """
    if source == "embedded":
        return _embedded(n or 8, seed, length_scale)
    path, said = locate(QUESTIONS, source, folder)
    items = []
    for line, row in rows(path):
        # Two forms: a prompt, or (before October 2024) a list of turns.
        id, turns = row.get("uid", row.get("question_id")), row.get("turns")
        text = row.get("prompt") or (turns[0].get("content") if isinstance(turns, list) and turns else None)
        if not (isinstance(text, str) and text and isinstance(id, str)):
            raise DataError(path, line, "prompt", "a text and its uid are due", "take arena-hard-auto's question.jsonl")
        items.append(Question(id, str(row.get("cluster", "")), (text,)))
    if len(items) != WHOLE or len({question.id for question in items}) != WHOLE:
        what = f"{len(items)} questions, Arena Hard v0.1 has {WHOLE} with ids of their own"
        raise DataError(path, None, "uid", what, "take arena-hard-auto's question.jsonl")
    questions = Questions("Arena Hard", tuple(items), said, WHOLE).subset(n, seed)
    return questions, read(locate(ANSWERS, source, folder)[0], questions)


def _embedded(n: int, seed: int, length_scale: float) -> tuple[Questions, Answers]:

    questions = embedded("Arena Hard", n, 1, seed, length_scale)
    best = {}
    for start in (int(question.id.rpartition("/")[2]) for question in questions.items):
        (group,) = generate.groups(1, seed=seed, length_scale=length_scale, start=start)
        best[group.id] = (max(group.responses, key=lambda response: response.labels[0]).text,)
    return questions, Answers("the better generated response", best, questions.source)


def prompt(source: str, folder: str | Path | None = None) -> Template:
    """The judge prompt of v0.1: the system message, and the template with question and two answers."""
    path, _ = locate(PROMPT, source, folder)
    try:
        found = yaml.safe_load(path.read_text())
        system, (text,) = found["system_prompt"], found["prompt_template"]
        missing = [name for name in _FIELDS if f"{{{name}}}" not in text]
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        system, missing = None, _FIELDS
    if missing or not isinstance(system, str):
        what = f"no system_prompt and one prompt_template with {', '.join(_FIELDS)}"
        raise DataError(path, None, "prompt_template", what, "take config/judge_config.yaml of arena-hard-auto v0.1")
    return Template(system, text)


def asks(questions: Questions, answers: Answers, baseline: Answers, template: Template) -> list[Ask]:
    """Two games a question, ids "question/1" (A is the baseline) and "question/2" (A is the model)."""
    out = []
    for question in questions.items:
        pair = baseline.turns[question.id][0], answers.turns[question.id][0]
        for game, (a, b) in enumerate((pair, pair[::-1]), 1):
            messages = template.fill(question_1=question.turns[0], answer_1=a, answer_2=b)
            out.append(Ask(f"{question.id}/{game}", messages, COMPARISON, pair))
    return out


# Of the model's side in game 1, where it is B: games counted, and of these won. Game 2 is the mirror image.
_COUNTED = dict(zip(COMPARISONS, (HEAVY, 1, 1, 1, HEAVY), strict=True))

_WON = dict(zip(COMPARISONS, (0, 0, 0.5, 1, HEAVY), strict=True))


def games(questions: Questions, verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row a game: question, game (1 or 2), verdict (None: not read), counted and won games of the model."""
    given = {verdict.id: verdict.value for verdict in verdicts}
    keys = [(question.id, game) for question in questions.items for game in (1, 2)]
    values = [given[f"{id}/{game}"] for id, game in keys]
    frame = pd.DataFrame(keys, columns=["question", "game"]).assign(verdict=values)
    counted = np.array([_COUNTED.get(value, 0) for value in values], dtype=float)
    won = np.array([_WON.get(value, 0) for value in values], dtype=float)
    return frame.assign(counted=counted, won=np.where(frame.game == 1, won, counted - won))


def rating(win_rate: np.ndarray | float) -> np.ndarray:
    """The Bradley-Terry rating of a share of games won against the baseline, which has 1000; infinite at 0 and 1."""
    share = np.asarray(win_rate, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return 1000 + 400 * (np.log10(share) - np.log10(1 - share))


@dataclass(frozen=True)
class Result:
    """Games against the baseline. table: one row with model, questions, games read, unparsable, win rate (%), low, high
    (95 %, over questions), protocol low, protocol high (over games, as the leaderboard has them), rating, first (%):
    how often answer A was preferred, ties half, 50 without a bias for the first; games: as `games`."""

    title: str
    table: pd.DataFrame
    games: pd.DataFrame

    def overall(self) -> tuple[float, float, float]:
        """(win rate in percent, low, high), intervals over questions."""
        return tuple(float(self.table.at[0, name]) for name in ("win rate", "low", "high"))


def score(
    questions: Questions, verdicts: Sequence[Verdict], model: str, *, n_boot: int = 1000, seed: int = 0
) -> Result:
    """The win rate of a model against the baseline in percent, by the protocol of Arena Hard v0.1.

    Paper: Table 4. Two intervals. Over questions: both games of a question are drawn together, which is what would vary
    with other questions. The protocol's: every counted game is drawn for itself, the three of a ">>" apart, so that it
    is narrower than the data warrant; the paper's intervals are of this kind. Drawing N of N games that are won, halved
    or lost is a multinomial draw, so no game is ever copied. A verdict not read counts in nothing but `unparsable`.
    """
    frame = games(questions, verdicts)
    contributions = frame[["won", "counted"]].to_numpy()
    share = bootstrap(
        contributions, frame.question.to_numpy(str), lambda s: s[:, :1] / s[:, 1:], n_boot=n_boot, seed=seed
    )
    estimate, low, high = (100 * float(part[0]) for part in share)
    protocol = np.full(2, np.nan)
    if total := int(frame.counted.sum()):
        half = int((frame.verdict == "A=B").sum())
        won = int(frame.won.sum() - half / 2)
        kinds = np.array([won, half, total - won - half]) / total
        draws = np.random.default_rng(seed).multinomial(total, kinds, size=n_boot)
        protocol = np.quantile(100 * (draws[:, 0] + draws[:, 1] / 2) / total, [0.025, 0.975])
    side = frame.verdict.map({"A>>B": 1, "A>B": 1, "A=B": 0.5, "B>A": 0, "B>>A": 0})
    row = {"model": model, "questions": len(questions), "games": int(frame.verdict.notna().sum())}
    row |= {"unparsable": int(frame.verdict.isna().sum()), "win rate": estimate, "low": low, "high": high}
    row |= {"protocol low": protocol[0], "protocol high": protocol[1], "rating": float(rating(estimate / 100))}
    return Result(questions.title, pd.DataFrame([row | {"first": 100 * side.astype(float).mean()}]), frame)
