"""How complex a prompt is, from 1 to 5, as a language model answers the paper's question.

    scored = complexity(prompts, Judge("model", "http://localhost:8000/v1", reply_tokens=32), file=file)
    scored = complexity(prompts, local(model, tokenizer))           # or heuristic, which is no model

Paper: appendix E (the template) and section 2.1 (asked of Nemotron-2 43B). Three judges can be
asked: a model behind an OpenAI-compatible server (`hs2lib.evaluate.judge`, with its caps, its file
of replies and its care for the key), `local` (a transformers model, scored by probability) and
`heuristic` (no model at all: it counts words, and is called a heuristic wherever its scores are
shown).
"""

import json
import re
from collections.abc import Callable, Sequence

import numpy as np
import torch

from hs2lib.engine.chat import encode, written
from hs2lib.evaluate.judge import Ask, Judge, Scale
from hs2lib.group import Turn
from hs2lib.paths import read_yaml

_WORDS = read_yaml(__file__, "patterns.yaml")

TEMPLATE: str = _WORDS["template"]  # of appendix E, with {prompt}

LEVELS = (1, 2, 3, 4, 5)

TOKEN_CAP = (
    1_000_000  # tokens that a server may take for one file of replies, unless another cap is set
)

# Text and code fences around the JSON object are passed over, and so are other keys in it; single
# quotes, a quoted number and 4.0 are read as meant. `{"score": score}`, the template sent back, is
# no score, and neither is 3.5.
COMPLEXITY = Scale(
    r"(?i:\{(?=[^{}]*\})[^{}]*?[\"']?\bscore[\"']?\s*:\s*[\"']?(-?\d+(?:\.\d+)?)[\"']?\s*(?:,[^{}]*)?\})",
    lambda number: int(float(number)) if float(number) in LEVELS else None,
    'Now write the score alone, a number from 1 to 5 in JSON as in {"score": n}, and nothing else.',
)

TextJudge = Callable[[str], str]  # the filled-in template in, a reply with the score out


def asks(prompts: Sequence[str]) -> list[Ask]:
    """The question of appendix E about each prompt, for `Judge.estimate` and `Judge.verdicts`."""
    messages = [(("user", TEMPLATE.format(prompt=prompt)),) for prompt in prompts]
    return [Ask(str(i), one, COMPLEXITY, (prompts[i],)) for i, one in enumerate(messages)]


def complexity(
    prompts: Sequence[str], judge: Judge | TextJudge, *, file=None, token_cap=TOKEN_CAP
) -> tuple[np.ndarray, list[tuple[int, str]]]:
    """Ask for the complexity of each prompt: (scores float64 [n], replies without a score as
    (position, reply)).

    Paper: appendix E. A reply without exactly one score from 1 to 5 is kept as it came and counted;
    no score is made up for it, and its prompt has nan. file, token_cap: of `Judge.verdicts`, used
    for a `Judge` only. Raises what the judge raises (a dead server, a cap): half a scoring is no
    scoring.
    """
    questions = asks(prompts)
    if isinstance(judge, Judge):
        verdicts = judge.verdicts(questions, file=file, token_cap=token_cap)
        answers = [(verdict.value, verdict.reply) for verdict in verdicts]
    else:
        replies = [judge(question.messages[0][1]) for question in questions]
        answers = [
            (COMPLEXITY.parse(r, q.judged), r) for q, r in zip(questions, replies, strict=True)
        ]
    unparsable = [(i, reply) for i, (score, reply) in enumerate(answers) if score is None]
    return np.array([score for score, _ in answers], dtype=float), unparsable


def heuristic(question: str) -> str:
    """A stand-in for a judge where there is no model: counts instructions and constraints by their
    words.

    Paper: none; it is not the paper's method and its scores say nothing about HelpSteer2. It
    answers the filled-in template as a judge would, so that the same path runs. Level 1: at most
    one instruction, no constraint; one level more for every two of (instructions beyond the first +
    constraints), up to 5.
    """
    prompt = question.partition("[prompt]: ")[2].lower()
    clauses = re.split(r"[.!?;:\n]+|,|\band\b|\bthen\b", prompt)
    actions = sum(
        bool(re.match(rf"\W*(please |can you |could you )?({_WORDS['actions']})\b", c))
        for c in clauses
    )
    instructions = actions + prompt.count("?")
    constraints = len(re.findall(_WORDS["constraints"], prompt, re.MULTILINE))
    return json.dumps({"score": min(5, 1 + (max(instructions - 1, 0) + constraints + 1) // 2)})


def local(model, tokenizer, max_tokens: int = 1024) -> TextJudge:
    """A judge that reads the probability of each score off a causal language model; its answer can
    always be parsed.

    Paper: appendix E, with the form of the answer fixed: after the chat turn and `{"score": `,
    which of 1 to 5 is most likely next. One forward pass a prompt and no sampling, so
    deterministic. model, tokenizer: of transformers, with a chat template. Texts above max_tokens
    tokens lose their middle (the question stands at the start, the answer's form at the end).
    Raises ValueError if the tokenizer does not begin the five scores with five different tokens.
    """

    def ask(question: str) -> str:
        replies = [
            written(tokenizer, (Turn("user", question),), f'{{"score": {n}}}') for n in LEVELS
        ]
        candidates = [ids for ids, _ in encode(tokenizer, replies)]
        shared = next(
            i for i, column in enumerate(zip(*candidates, strict=False)) if len(set(column)) > 1
        )
        tokens = [c[shared] for c in candidates]
        if len(set(tokens)) < len(LEVELS):
            raise ValueError(
                "this tokenizer does not tell the scores 1 to 5 apart by their first token"
            )
        prefix = candidates[0][:shared]
        if len(prefix) > max_tokens:
            prefix = prefix[: max_tokens // 2] + prefix[-(max_tokens - max_tokens // 2) :]
        with torch.inference_mode():
            logits = model(torch.tensor([prefix], device=model.device)).logits[0, -1].float()
        return json.dumps({"score": LEVELS[int(logits[tokens].argmax())]})

    return ask
