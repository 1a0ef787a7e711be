"""Arena Hard v0.1: 500 prompts, each answer compared with gpt-4-0314's in both orders.

    questions = load("folder")  # or "hub", "postcards"
    asked = asks(questions, answers, prompts("hub"))  # 1,000 questions to a judge
    verdicts = judge.verdicts(asked, file=file, token_cap=10_000_000)
    result = score(questions, answers, verdicts)  # the win rate and its interval

A verdict is one of A>>B, A>B, A=B, B>A, B>>A. By the protocol ">>" counts as three games, and "="
as half a game won.

The Bradley-Terry model of these games has a closed form here. Every game is against the baseline,
so the likelihood is a product of one factor a model. Each factor has its maximum at P(win) = w, the
share of games won. The rating is 1000 for the baseline and 1000 + 400 log10(w / (1 - w)) for the
model. Other models in the same fit change nothing.

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

WHOLE = 500

MEASURE = "win rate, %"

# The protocol's own interval, as differences from the win rate: Table 4 prints them so.
LOW = "protocol's low, points"

HIGH = "protocol's high, points"

# Games that "significantly better" counts as. Paper: silent; the weight of Arena Hard v0.1.
HEAVY = 3


def load(
    source: str, folder: str | Path | None = None, *, n: int = 0, seed: int = 0
) -> bench.Questions:
    """The 500 questions with the baseline's answers.

    source: "folder", "hub" (GitHub at a pinned commit), or "postcards". "postcards" has generated
        prompts in place of Arena Hard, and says so. Its baseline is the better of each prompt's two
        generated responses.
    folder: of source "folder", by default HS2_DATA_DIR.
    n, seed: how many questions (0: all), spread over their 250 clusters.

    Raises DataError for a file that is absent or not as it should be.
    """
    return bench.load("Arena Hard", WHOLE, 1, _columns, source, folder, n, seed)


def _columns(line: int, row: dict) -> tuple[object, str, list]:
    """The id, the category and the text of a row of the file.

    The file has two forms: a prompt, or (before October 2024) a list of turns.
    """
    text = row.get("prompt")
    if not text:
        turns = row.get("turns")
        first_turn = turns[0] if isinstance(turns, list) and turns else None
        text = first_turn.get("content") if isinstance(first_turn, dict) else None
    id = row.get("uid", row.get("question_id"))
    return id, str(row.get("cluster", "")), [text]


def prompts(source: str, folder: str | Path | None = None) -> bench.Template:
    """The judge prompt of v0.1, with question and two answers; one of our own for "postcards"."""
    fields = {"pair": ("question_1", "answer_1", "answer_2")}
    return bench.prompts("Arena Hard", fields, _parse_prompts, source, folder)["pair"]


def _parse_prompts(path: Path) -> dict[str, bench.Template]:
    """The prompt in Arena Hard's YAML file."""
    row = yaml.safe_load(path.read_text())
    return {"pair": bench.Template(row["system_prompt"], *row["prompt_template"])}


def asks(questions: bench.Questions, answers: Sequence[Group], prompt: bench.Template) -> list[Ask]:
    """Two games a question: A is the baseline in "question/1", and the model in "question/2"."""
    games_to_judge = []
    for answer, other in zip(answers, questions.baseline, strict=True):
        id = bench.question_id(answer)
        question = answer.prompt[0].text
        ours = answer.responses[0].text
        theirs = other.responses[0].text
        first = prompt.fill(question_1=question, answer_1=theirs, answer_2=ours)
        second = prompt.fill(question_1=question, answer_1=ours, answer_2=theirs)
        games_to_judge.append(Ask(f"{id}/1", first, COMPARISON, (theirs, ours)))
        games_to_judge.append(Ask(f"{id}/2", second, COMPARISON, (theirs, ours)))
    return games_to_judge


# How many games a verdict counts as, and how many of these B has won. B is the model in game 1 and
# the baseline in game 2.
_COUNTED = dict(zip(COMPARISONS, (HEAVY, 1, 1, 1, HEAVY), strict=True))

_WON_BY_B = dict(zip(COMPARISONS, (0, 0, 0.5, 1, HEAVY), strict=True))


def games(questions: bench.Questions, verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row a game: question, game (1 or 2), verdict, counted, and won games of the model.

    verdict is None where none was read.
    """
    value_of = {verdict.id: verdict.value for verdict in verdicts}
    keys = [(question.id, game) for question in questions.groups for game in (1, 2)]
    values = [value_of[f"{id}/{game}"] for id, game in keys]
    frame = pd.DataFrame(keys, columns=["question", "game"]).assign(verdict=values)
    counted = np.array([_COUNTED.get(value, 0) for value in values], dtype=float)  # [games]
    won_by_b = np.array([_WON_BY_B.get(value, 0) for value in values], dtype=float)  # [games]
    won = np.where(frame.game == 1, won_by_b, counted - won_by_b)  # [games]
    return frame.assign(counted=counted, won=won)


def rating(win_rate: np.ndarray | float) -> np.ndarray:
    """The Bradley-Terry rating of a share of games won against the baseline, which has 1000.

    It is infinite at 0 and 1.
    """
    share = np.asarray(win_rate, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return 1000 + 400 * (np.log10(share) - np.log10(1 - share))


def score(
    questions: bench.Questions,
    answers: Sequence[Group],
    verdicts: Sequence[Verdict],
    **resampled: int,
) -> bench.JudgedScore:
    """The win rate of a model against the baseline in per cent, by the protocol of Arena Hard v0.1.

    Paper: Table 4. The interval is over questions: both games of a question are drawn together,
    which is what would vary with other questions. Beside it stands the protocol's interval. A
    verdict that was not read counts in nothing but `unparsable`.

    verdicts: two a question, as for `games`.
    resampled: n_boot and seed of the intervals.
    """
    frame = games(questions, verdicts)
    rate = inside(bench.share(100 * frame.won, frame.counted, frame.question, **resampled), 0, 100)
    sums = frame.groupby("question", sort=False)[["won", "counted"]].sum()
    values = (100 * sums.won / sums.counted.replace(0, np.nan)).rename(WON)
    low, high = protocol_interval(frame, **resampled) - rate[0]
    n_unread = int(frame.verdict.isna().sum())
    return bench.JudgedScore(MEASURE, rate, n_unread, values, {LOW: low, HIGH: high})


def protocol_interval(frame: pd.DataFrame, *, n_boot: int = 1000, seed: int = 0) -> np.ndarray:
    """The 95 % interval [2] that Arena Hard v0.1 gives a win rate, in per cent.

    Paper: Table 4. Every counted game is drawn on its own: the three of a ">>" apart, and both
    games of a question apart. The interval is therefore narrower than the data warrant. Drawing N
    of N games that are won, halved or lost is a multinomial draw, so no game is copied.

    frame: as `games` makes it. The interval is nan where no game counts.
    """
    n = int(frame.counted.sum())
    if not n:
        return np.full(2, np.nan)
    half = (frame.won % 1 > 0).sum()
    won = frame.won.sum() - half / 2
    chances = np.array([won, half, n - won - half]) / n
    draws = np.random.default_rng(seed).multinomial(n, chances, size=n_boot)  # [n_boot, 3]
    win_rates = 100 * (draws[:, 0] + draws[:, 1] / 2) / n  # [n_boot]
    return np.quantile(win_rates, [0.025, 0.975])
