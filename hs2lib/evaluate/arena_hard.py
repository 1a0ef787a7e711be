"""Arena Hard v0.1: 500 prompts, each answer set against gpt-4-0314's in both orders, a win rate
with its interval.

    questions = load("folder")                                       # or "hub", "embedded"
    asked = asks(questions, answers, prompts("hub"))                 # 1,000 questions to a judge
    result = score(questions, answers, judge.verdicts(asked, file=file, token_cap=10_000_000))

A verdict is one of A>>B, A>B, A=B, B>A, B>>A; by the protocol ">>" counts as three games, "=" as
half a game won. The Bradley-Terry model of these games has a closed form here. Every game is
against the baseline, so the likelihood falls apart into one factor a model, whose maximum is at
P(win) = w, the share of games won; the rating, anchored at 1000 for the baseline, is 1000 + 400
log10(w / (1 - w)). Other models in the same fit change nothing.

Paper: section 4.1, appendix H (judge GPT-4-1106-preview, win rate against GPT-4-0314), Table 4.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from hs2lib.evaluate import questions as bench
from hs2lib.evaluate.judge import COMPARISON, COMPARISONS, Ask, Verdict
from hs2lib.group import Group
from hs2lib.paper import WON
from hs2lib.stats.bootstrap import inside

WHOLE, MEASURE = 500, "win rate, %"

LOW, HIGH = (
    "protocol's low, points",
    "protocol's high, points",
)  # from the win rate, as Table 4 prints them

HEAVY = (
    3  # games that "significantly better" counts as. Paper: silent; the weight of Arena Hard v0.1
)


def load(
    source: str, folder: str | Path | None = None, *, n: int = 0, seed: int = 0
) -> bench.Questions:
    """The 500 questions (n of them, 0: all, spread over their 250 clusters) with the baseline's
    answers.

    source: "folder" (default HS2_DATA_DIR), "hub" (GitHub at a pinned commit), or "embedded"
    (generated prompts in place of Arena Hard, and called so; the baseline is the better of each
    prompt's two generated responses). Raises DataError for a file that is absent or not as it
    should be.
    """

    def columns(line: int, row: dict):
        # Two forms: a prompt, or (before October 2024) a list of turns.
        turns = row.get("turns")
        first = turns[0] if isinstance(turns, list) and turns else None
        text = row.get("prompt") or (first.get("content") if isinstance(first, dict) else None)
        return row.get("uid", row.get("question_id")), str(row.get("cluster", "")), [text]

    return bench.load("Arena Hard", WHOLE, 1, columns, source, folder, n, seed)


def prompts(source: str, folder: str | Path | None = None) -> bench.Template:
    """The judge prompt of v0.1, with question and two answers; for source "embedded" one of our own."""

    def parse(path: Path) -> dict[str, bench.Template]:
        row = yaml.safe_load(path.read_text())
        return {"pair": bench.Template(row["system_prompt"], *row["prompt_template"])}

    fields = {"pair": ("question_1", "answer_1", "answer_2")}
    return bench.prompts("Arena Hard", fields, parse, source, folder)["pair"]


def asks(questions: bench.Questions, answers: Sequence[Group], prompt: bench.Template) -> list[Ask]:
    """Two games a question, ids "question/1" (A is the baseline) and "question/2" (A is the model)."""
    out = []
    for answer, other in zip(answers, questions.baseline, strict=True):
        pair = other.responses[0].text, answer.responses[0].text
        for game, (a, b) in enumerate((pair, pair[::-1]), 1):
            messages = prompt.fill(question_1=answer.prompt[0].text, answer_1=a, answer_2=b)
            out.append(Ask(f"{bench.question_id(answer)}/{game}", messages, COMPARISON, pair))
    return out


# Of the model's side in game 1, where it is B: games counted, and of these won. Game 2 is the
# mirror image.
_COUNTED = dict(zip(COMPARISONS, (HEAVY, 1, 1, 1, HEAVY), strict=True))

_WON = dict(zip(COMPARISONS, (0, 0, 0.5, 1, HEAVY), strict=True))


def games(questions: bench.Questions, verdicts: Sequence[Verdict]) -> pd.DataFrame:
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
    questions: bench.Questions, answers, verdicts: Sequence[Verdict], **resampled
) -> bench.JudgedScore:
    """The win rate of a model against the baseline in percent, by the protocol of Arena Hard v0.1.

    Paper: Table 4. The interval is over questions: both games of a question are drawn together,
    which is what would vary with other questions. Beside it stands the protocol's. A verdict not
    read counts in nothing but `unparsable`. verdicts: as `games`.
    """
    frame = games(questions, verdicts)
    rate = inside(bench.share(100 * frame.won, frame.counted, frame.question, **resampled), 0, 100)
    sums = frame.groupby("question", sort=False)[["won", "counted"]].sum()
    values = (100 * sums.won / sums.counted.replace(0, np.nan)).rename(WON)
    protocol = dict(zip((LOW, HIGH), protocol_interval(frame, **resampled) - rate[0], strict=True))
    return bench.JudgedScore(MEASURE, rate, int(frame.verdict.isna().sum()), values, protocol)


def protocol_interval(frame: pd.DataFrame, *, n_boot: int = 1000, seed: int = 0) -> np.ndarray:
    """The 95 % interval [2] that Arena Hard v0.1 gives a win rate, in per cent; nan where no game
    counts.

    Paper: Table 4. Every counted game is drawn for itself, the three of a ">>" apart and both of a
    question, so that it is narrower than the data warrant. Drawing N of N games that are won,
    halved or lost is a multinomial draw: no game is copied. frame: as `games` makes it.
    """
    if not (n := int(frame.counted.sum())):
        return np.full(2, np.nan)
    half = (frame.won % 1 > 0).sum()
    won = frame.won.sum() - half / 2
    draws = np.random.default_rng(seed).multinomial(
        n, np.array([won, half, n - won - half]) / n, size=n_boot
    )
    return np.quantile(
        100 * (draws[:, 0] + draws[:, 1] / 2) / n, [0.025, 0.975]
    )  # of draws [n_boot, 3]
