"""How complex a prompt is, from 1 to 5, as a language model answers the paper's question.

Paper: appendix E (the template) and section 2.1 (asked of Nemotron-2 43B). A judge is any callable `ask`, text in, text
out. Three are here: `endpoint` (an OpenAI-compatible server), `local` (a transformers model, scored by probability) and
`heuristic` (no model at all: counts words, and is called a heuristic wherever its scores are shown).
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

TEMPLATE = (
    "Please evaluate the complexity of the following prompt based on the number of instructional intentions and the "
    "number of constraints. Provide a score between 1 and 5, where 1 represents very simple and straightforward, and "
    '5 represents highly complex and intricate. Put the score into JSON format {{"score": score}}. [prompt]: {prompt}'
)

LEVELS = (1, 2, 3, 4, 5)

Ask = Callable[[str], str]


@dataclass(frozen=True)
class Scored:
    """scores float64 [n], nan where the answer held no score; unparsable: those answers, (position, answer)."""

    scores: np.ndarray
    unparsable: tuple[tuple[int, str], ...]


def complexity(prompts: Sequence[str], ask: Ask) -> Scored:
    """Ask for the complexity of each prompt with the template of appendix E.

    Paper: appendix E. An answer without exactly one score from 1 to 5 is kept as it came and counted; no score is made
    up for it, and its prompt has nan. Exceptions of `ask` (a dead server) are not caught: half a scoring is no scoring.
    """
    scores, unparsable = np.full(len(prompts), np.nan), []
    for position, prompt in enumerate(prompts):
        answer = ask(TEMPLATE.format(prompt=prompt))
        score = parse_score(answer)
        if score is None:
            unparsable.append((position, answer))
        else:
            scores[position] = score
    return Scored(scores, tuple(unparsable))


def parse_score(answer: str) -> int | None:
    """The score in a judge's answer, or None where it holds none, several different ones, or one outside 1 to 5.

    Text and code fences around the JSON object are passed over, and so are other keys in it; single quotes, a quoted
    number and 4.0 are read as meant. `{"score": score}`, the template given back, is no score, and neither is 3.5.
    """
    pattern = r"\{[^{}]*?[\"']?\bscore[\"']?\s*:\s*[\"']?(-?\d+(?:\.\d+)?)[\"']?\s*(?:,[^{}]*)?\}"
    found = {float(number) for number in re.findall(pattern, answer, re.IGNORECASE)}
    return int(found.pop()) if len(found) == 1 and found <= set(map(float, LEVELS)) else None


_ACTIONS = (
    r"add|analyse|analyze|answer|arrange|calculate|change|choose|classify|compare|complete|compute|"
    r"convert|correct|count|create|define|describe|design|discuss|draft|edit|estimate|evaluate|"
    r"explain|extract|fill|find|fix|generate|give|identify|imagine|improve|include|list|make|name|"
    r"outline|plan|predict|provide|rank|recommend|rephrase|rewrite|say|show|simplify|solve|sort|"
    r"suggest|summarise|summarize|tell|translate|turn|use|write"
)

_CONSTRAINT = (
    r"\b(must|should|needs? to|has to|have to|only|exactly|at least|at most|no more than|no fewer than|fewer than|"
    r"less than|more than|between|without|avoid|do not|don't|never|always|each|every|make sure|ensure|in the style|"
    r"format|table|bullet|numbered|json|alphabetical|order(ed)? by|tone|words?|sentences?|paragraphs?|under \d+)\b"
    r"|^\s*([-*\u2022]|\d+[.)])\s"
)


def heuristic(question: str) -> str:
    """A stand-in for a judge where there is no model: counts instructions and constraints by their words.

    Paper: none; it is not the paper's method and its scores say nothing about HelpSteer2. It answers the filled-in
    template as a judge would, so that the same path runs. Level 1: at most one instruction, no constraint; one level
    more for every two of (instructions beyond the first + constraints), up to 5.
    """
    prompt = question.partition("[prompt]: ")[2].lower()
    clauses = re.split(r"[.!?;:\n]+|,|\band\b|\bthen\b", prompt)
    actions = sum(bool(re.match(rf"\W*(please |can you |could you )?({_ACTIONS})\b", c)) for c in clauses)
    instructions = actions + prompt.count("?")
    constraints = len(re.findall(_CONSTRAINT, prompt, re.MULTILINE))
    extra = max(instructions - 1, 0) + constraints
    return json.dumps({"score": min(5, 1 + (extra + 1) // 2)})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another server: refuse it."""

    def redirect_request(self, *_):
        return None


def endpoint(
    base_url: str,
    model: str,
    key_variable: str = "OPENAI_API_KEY",
    timeout: float = 60.0,
    retries: int = 3,
    wait: float = 1.0,
    max_tokens: int = 32,
) -> Ask:
    """A judge behind any OpenAI-compatible server (vLLM, llama.cpp, Ollama, a hosted one), at temperature 0.

    base_url: as the openai client takes it, for example http://localhost:8000/v1. The key is read from the environment
    variable named key_variable at each request, sent to base_url only, and never stored or shown; unset, none is sent.
    timeout in seconds a request. Rate limits (429), server errors (5xx) and lost connections are tried again `retries`
    times, after wait, 2 wait, 4 wait ... seconds. Raises RuntimeError that names the server and its answer.
    """
    if not base_url.startswith(("http://", "https://")):
        raise ValueError(f"base_url must start with http:// or https://, got {base_url!r}")
    url = base_url.rstrip("/") + "/chat/completions"
    opener = urllib.request.build_opener(_NoRedirect)

    def once(question: str) -> str:
        body = {"model": model, "messages": [{"role": "user", "content": question}]}
        body |= {"temperature": 0, "max_tokens": max_tokens}
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        if key := os.environ.get(key_variable):
            request.add_unredirected_header("Authorization", f"Bearer {key}")
        with opener.open(request, timeout=timeout) as reply:
            raw = reply.read()
        try:
            return str(json.loads(raw)["choices"][0]["message"]["content"] or "")
        except (ValueError, KeyError, IndexError, TypeError):
            raise RuntimeError(f"{url}: not a chat completion: {raw[:200]!r}") from None

    def ask(question: str) -> str:
        for attempt in range(retries + 1):
            try:
                return once(question)
            except urllib.error.HTTPError as error:
                problem = f"HTTP {error.code} {error.read(200)!r}"
                if error.code != 429 and error.code < 500:
                    hint = f"; is {key_variable} set?" if error.code in (401, 403) else ""
                    raise RuntimeError(f"{url}, model {model}: {problem}{hint}") from None
            except OSError as error:  # URLError, timeouts, resets
                problem = str(getattr(error, "reason", error))
            if attempt < retries:
                time.sleep(wait * 2**attempt)
        raise RuntimeError(f"{url}, model {model}: gave up after {retries + 1} tries; the last: {problem}")

    return ask


def local(model, tokenizer, max_tokens: int = 1024) -> Ask:
    """A judge that reads the probability of each score off a causal language model; its answer can always be parsed.

    Paper: appendix E, with the answer's form given: after the chat turn and `{"score": `, which of 1 to 5 is most
    likely next. One forward pass a prompt and no sampling, so deterministic. model, tokenizer: of transformers.
    Texts above max_tokens tokens lose their middle (the question stands at the start, the answer's form at the end).
    Raises ValueError if the tokenizer does not begin the five scores with five different tokens.
    """
    import torch

    def ask(question: str) -> str:
        text = question
        if getattr(tokenizer, "chat_template", None):
            turns = [{"role": "user", "content": question}]
            text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        candidates = [tokenizer(f'{text}{{"score": {n}}}', add_special_tokens=False)["input_ids"] for n in LEVELS]
        shared = next(i for i, column in enumerate(zip(*candidates, strict=False)) if len(set(column)) > 1)
        tokens = [c[shared] for c in candidates]
        if len(set(tokens)) < len(LEVELS):
            raise ValueError("this tokenizer does not tell the scores 1 to 5 apart by their first token")
        prefix = candidates[0][:shared]
        if len(prefix) > max_tokens:
            prefix = prefix[: max_tokens // 2] + prefix[-(max_tokens - max_tokens // 2) :]
        with torch.inference_mode():
            logits = model(torch.tensor([prefix], device=model.device)).logits[0, -1].float()
        return json.dumps({"score": LEVELS[int(logits[tokens].argmax())]})

    return ask
