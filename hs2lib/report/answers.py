"""What an answer to show is. `hs2lib.report.show.answers` draws it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """An answer to show.

    policy: who wrote it.
    text: what was written.
    how: how it was sampled, as "greedy" or "T = .7".
    score: the reward model's score of it; None where none was asked.
    """

    policy: str
    text: str
    how: str = ""
    score: float | None = None
