"""Arena Hard v0.1: 500 prompts, each answer set against gpt-4-0314's in both orders, a win rate with its interval.

    questions = load("folder")                                       # or "hub", "embedded"
    asked = asks(questions, answers, prompts("hub"))                 # 1,000 questions to a judge
    result = score(questions, answers, judge.verdicts(asked, file=file, token_cap=10_000_000))

A verdict is one of A>>B, A>B, A=B, B>A, B>>A; by the protocol ">>" counts as three games, "=" as half a game won. The
Bradley-Terry model of these games has a closed form here. Every game is against the baseline, so the likelihood falls
apart into one factor a model, whose maximum is at P(win) = w, the share of games won; the rating, anchored at 1000 for
the baseline, is 1000 + 400 log10(w / (1 - w)). Other models in the same fit change nothing.

Paper: section 4.1, appendix H (judge GPT-4-1106-preview, win rate against GPT-4-0314), Table 4.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from hs2lib.data.load import locate
from hs2lib.data.rows import DataError
from hs2lib.evaluate import questions as bench
from hs2lib.evaluate.judge import COMPARISON, COMPARISONS, Ask, Verdict
from hs2lib.evaluate.questions import JudgedScore, Questions, Template, question_id
from hs2lib.group import Group
from hs2lib.paper import WON

WHOLE, MEASURE = 500, "win rate, %"

HEAVY = 3  # games that "significantly better" counts as. Paper: silent; the weight of Arena Hard v0.1

FILES = bench.public_files("arena-hard")


def load(source: str, folder: str | Path | None = None, *, n: int = 0, seed: int = 0) -> Questions:
    """The 500 questions (n of them, 0: all, spread over their 250 clusters) with the baseline's answers.

    source: "folder" (default HS2_DATA_DIR), "hub" (GitHub at a pinned commit), or "embedded" (generated prompts in
    place of Arena Hard, and called so; the baseline is the better of each prompt's two generated responses).
    Raises DataError for a file that is absent or not as it should be.
    """
    if source == "embedded":
        return bench.embedded("Arena Hard", n or 8, 1, seed)

    def columns(row: dict):
        # Two forms: a prompt, or (before October 2024) a list of turns.
        turns = row.get("turns")
        first = turns[0] if isinstance(turns, list) and turns else None
        text = row.get("prompt") or (first.get("content") if isinstance(first, dict) else None)
        return row.get("uid", row.get("question_id")), str(row.get("cluster", "")), [text]

    place = FILES["questions"], source, folder
    questions = bench.public_questions("Arena Hard", WHOLE, 1, *place, columns=columns).subset(n, seed)
    return replace(questions, baseline=bench.read(locate(FILES["answers"], source, folder)[0], questions))


def prompts(source: str, folder: str | Path | None = None) -> Template:
    """The judge prompt of v0.1, with question and two answers; for source "embedded" one of our own."""
    if source == "embedded":
        return bench.own_prompts("arena-hard")["pair"]
    path, _ = locate(FILES["prompts"], source, folder)
    fix = "take config/judge_config.yaml of arena-hard-auto v0.1"
    try:
        row = yaml.safe_load(path.read_text())
        system, (text,) = row["system_prompt"], row["prompt_template"]
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        raise DataError(path, None, None, "no system_prompt and one prompt_template", fix) from None
    return bench.template(path, "prompt_template", system, text, ("question_1", "answer_1", "answer_2"), fix)


def asks(questions: Questions, answers: Sequence[Group], prompt: Template) -> list[Ask]:
    """Two games a question, ids "question/1" (A is the baseline) and "question/2" (A is the model)."""
    out = []
    for answer, other in zip(answers, questions.baseline, strict=True):
        pair = other.responses[0].text, answer.responses[0].text
        for game, (a, b) in enumerate((pair, pair[::-1]), 1):
            messages = prompt.fill(question_1=answer.prompt[0].text, answer_1=a, answer_2=b)
            out.append(Ask(f"{question_id(answer)}/{game}", messages, COMPARISON, pair))
    return out


# Of the model's side in game 1, where it is B: games counted, and of these won. Game 2 is the mirror image.
_COUNTED = dict(zip(COMPARISONS, (HEAVY, 1, 1, 1, HEAVY), strict=True))

_WON = dict(zip(COMPARISONS, (0, 0, 0.5, 1, HEAVY), strict=True))


def games(questions: Questions, verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row a game: question, game (1 or 2), verdict (None: not read), counted and won games of the model."""
    value_of = {verdict.id: verdict.value for verdict in verdicts}
    keys = [(question.id, game) for question in questions.groups for game in (1, 2)]
    values = [value_of[f"{id}/{game}"] for id, game in keys]
    frame = pd.DataFrame(keys, columns=["question", "game"]).assign(verdict=values)
    counted = np.array([_COUNTED.get(value, 0) for value in values], dtype=float)  # [games]
    won = np.array([_WON.get(value, 0) for value in values], dtype=float)  # [games]
    return frame.assign(counted=counted, won=np.where(frame.game == 1, won, counted - won))


def rating(win_rate: np.ndarray | float) -> np.ndarray:
    """The Bradley-Terry rating of a share of games won against the baseline, which has 1000; infinite at 0 and 1."""
    share = np.asarray(win_rate, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return 1000 + 400 * (np.log10(share) - np.log10(1 - share))


def score(
    questions: Questions, answers: Sequence[Group], verdicts: Sequence[Verdict], *, n_boot: int = 1000, seed: int = 0
) -> JudgedScore:
    """The win rate of a model against the baseline in percent, by the protocol of Arena Hard v0.1.

    Paper: Table 4. Two intervals. Over questions: both games of a question are drawn together, which is what would vary
    with other questions. The protocol's: every counted game is drawn for itself, the three of a ">>" apart, so that it
    is narrower than the data warrant; the paper's intervals are of this kind. Drawing N of N games that are won, halved
    or lost is a multinomial draw, so no game is ever copied. A verdict not read counts in nothing but `unparsable`.
    table: one row with questions, games read, unparsable, win rate (%), low, high (95 %, over questions), protocol low,
    protocol high, rating, first (%): how often answer A was preferred, ties half, 50 without a bias for the first.
    verdicts: as `games`.
    """
    frame = games(questions, verdicts)
    won, counted = frame[["won"]].to_numpy(), frame[["counted"]].to_numpy()  # [games, 1]
    interval = bench.shares(won, counted, frame.question.to_numpy(str), n_boot=n_boot, seed=seed)
    overall = tuple(100 * float(part[0]) for part in interval)
    protocol = np.full(2, np.nan)
    if total := int(frame.counted.sum()):
        half = int((frame.verdict == "A=B").sum())
        won = int(frame.won.sum() - half / 2)
        kinds = np.array([won, half, total - won - half]) / total
        draws = np.random.default_rng(seed).multinomial(total, kinds, size=n_boot)  # [n_boot, 3]
        protocol = np.quantile(100 * (draws[:, 0] + draws[:, 1] / 2) / total, [0.025, 0.975])
    side = frame.verdict.map({"A>>B": 1, "A>B": 1, "A=B": 0.5, "B>A": 0, "B>>A": 0})
    unparsable = int(frame.verdict.isna().sum())
    row = {"questions": len(questions), "games": len(frame) - unparsable, "unparsable": unparsable}
    row |= dict(zip(("win rate", "low", "high"), overall, strict=True))
    row |= {"protocol low": protocol[0], "protocol high": protocol[1], "rating": float(rating(overall[0] / 100))}
    table = pd.DataFrame([row | {"first": 100 * side.astype(float).mean()}])
    sums = frame.groupby("question", sort=False)[["won", "counted"]].sum()
    values = (100 * sums.won / sums.counted.replace(0, np.nan)).rename(WON)
    return JudgedScore(questions.title, MEASURE, overall, unparsable, table, frame, values)
