"""How complex a prompt is, from 1 to 5, as a language model answers the paper's question.

    judge = Judge("model", "http://localhost:8000/v1", reply_tokens=32)
    scores, unparsable = complexity(prompts, judge, file=file)
    scores, unparsable = complexity(prompts, local(model, tokenizer))
    scores, unparsable = complexity(prompts, heuristic)

Paper: appendix E (the template) and section 2.1 (asked of Nemotron-2 43B). Three judges can be
asked:

- A model behind an OpenAI-compatible server. `hs2lib.evaluate.judge` has the caps, the file of
  replies and the care for the key.
- `local`, a transformers model, which is scored by probability.
- `heuristic`, which is no model and counts words. It is called a heuristic wherever its scores are
  shown.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from hs2lib.engine.chat import encode, written
from hs2lib.evaluate.judge import Ask, Judge, Scale
from hs2lib.group import Turn
from hs2lib.paths import read_yaml

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_WORDS = read_yaml(__file__, "patterns.yaml")

TEMPLATE: str = _WORDS["template"]  # of appendix E, with {prompt}

LEVELS = (1, 2, 3, 4, 5)

# Tokens that a server may take for one file of replies, unless another cap is set.
TOKEN_CAP = 1_000_000


def _level(number: str) -> int | None:
    """The score that a reply names, None where it is not one of LEVELS."""
    score = float(number)
    return int(score) if score in LEVELS else None


# Text and code fences around the JSON object are passed over, and so are other keys in it. Single
# quotes, a quoted number and 4.0 are read as meant. `{"score": score}`, the template sent back, is
# no score, and neither is 3.5.
COMPLEXITY = Scale(
    r"(?i:\{(?=[^{}]*\})[^{}]*?[\"']?\bscore[\"']?\s*:\s*[\"']?(-?\d+(?:\.\d+)?)[\"']?\s*(?:,[^{}]*)?\})",
    _level,
    'Now write the score alone, a number from 1 to 5 in JSON as in {"score": n}, and nothing else.',
)

TextJudge = Callable[[str], str]  # from the filled-in template to a reply that holds the score


def asks(prompts: Sequence[str]) -> list[Ask]:
    """The question of appendix E about each prompt, for `Judge.estimate` and `Judge.verdicts`."""
    questions = []
    for position, prompt in enumerate(prompts):
        messages = (("user", TEMPLATE.format(prompt=prompt)),)
        questions.append(Ask(str(position), messages, COMPLEXITY, (prompt,)))
    return questions


def complexity(
    prompts: Sequence[str],
    judge: Judge | TextJudge,
    *,
    file: str | Path | None = None,
    token_cap: int = TOKEN_CAP,
) -> tuple[np.ndarray, list[tuple[int, str]]]:
    """Ask for the complexity of each prompt.

    Paper: appendix E. A reply without exactly one score from 1 to 5 is returned as it came. No
    score is made up for it, and its prompt has nan.

    Args:
        prompts: n texts.
        judge: a `Judge`, or a function of the filled-in template.
        file: where a `Judge` keeps its replies.
        token_cap: the tokens that a `Judge` may take for the file.

    Returns:
        The scores, float64 [n], and the replies without a score as (position, reply).

    Raises:
        JudgeError: verdicts of a server are missing, or a cap is reached: half a scoring is no
            scoring.
    """
    questions = asks(prompts)
    answers = []  # (score or None, reply) of each prompt
    if isinstance(judge, Judge):
        for verdict in judge.verdicts(questions, file=file, token_cap=token_cap):
            answers.append((verdict.value, verdict.reply))
    else:
        replies = [judge(question.messages[0][1]) for question in questions]
        for question, reply in zip(questions, replies, strict=True):
            answers.append((COMPLEXITY.parse(reply, question.judged), reply))
    unparsable = [
        (position, reply) for position, (score, reply) in enumerate(answers) if score is None
    ]
    return np.array([score for score, _ in answers], dtype=float), unparsable


def heuristic(question: str) -> str:
    """A stand-in for a judge where there is no model; it counts instructions and constraints.

    Paper: none. It is not the paper's method, and its scores say nothing about HelpSteer2. It
    answers the filled-in template as a judge would, so that the same path runs.

    Level 1 is at most one instruction and no constraint. Instructions beyond the first and
    constraints count alike, and every two of them are one level more, up to 5.
    """
    prompt = question.partition("[prompt]: ")[2].lower()
    clauses = re.split(r"[.!?;:\n]+|,|\band\b|\bthen\b", prompt)
    action = re.compile(rf"\W*(please |can you |could you )?({_WORDS['actions']})\b")
    instructions = len([clause for clause in clauses if action.match(clause)]) + prompt.count("?")
    constraints = len(re.findall(_WORDS["constraints"], prompt, re.MULTILINE))
    demands = max(instructions - 1, 0) + constraints
    level = 1 + (demands + 1) // 2  # rounded up: one demand alone is level 2
    return json.dumps({"score": min(5, level)})


def local(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", max_tokens: int = 1024
) -> TextJudge:
    """A judge that reads the probability of each score off a causal language model.

    Paper: appendix E, with the form of the answer fixed: after the chat turn and `{"score": `, it
    is the most likely of 1 to 5. A prompt takes one forward pass and no sampling, so the answer is
    deterministic, and it can always be parsed.

    Args:
        model: of transformers.
        tokenizer: of transformers, with a chat template.
        max_tokens: longer texts lose their middle, because the question stands at the start and the
            form of the answer at the end.

    Raises:
        ValueError: the tokenizer does not begin the five scores with five different tokens.
    """

    def ask(question: str) -> str:
        talk = (Turn("user", question),)
        replies = [written(tokenizer, talk, f'{{"score": {level}}}') for level in LEVELS]
        sequences = [ids for ids, _ in encode(tokenizer, replies)]  # one for each level
        prefix, score_tokens = _next_tokens(sequences)
        if len(prefix) > max_tokens:
            beginning = max_tokens // 2
            prefix = prefix[:beginning] + prefix[-(max_tokens - beginning) :]
        with torch.inference_mode():
            logits = model(torch.tensor([prefix], device=model.device)).logits[0, -1].float()  # [V]
        return json.dumps({"score": LEVELS[int(logits[score_tokens].argmax())]})

    return ask


def _next_tokens(sequences: Sequence[list[int]]) -> tuple[list[int], list[int]]:
    """The tokens that all sequences begin with, and the next token of each.

    Raises:
        ValueError: two sequences have the same next token, or they do not differ.
    """
    for position, tokens in enumerate(zip(*sequences, strict=False)):
        if len(set(tokens)) == len(sequences):
            return sequences[0][:position], list(tokens)
        if len(set(tokens)) > 1:
            break
    raise ValueError("this tokenizer does not tell the scores 1 to 5 apart by their first token")
