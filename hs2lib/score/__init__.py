"""A file of prompts and responses, scored by any reward model."""

from hs2lib.score.scoring import score as score
