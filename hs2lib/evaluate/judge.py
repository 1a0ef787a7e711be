"""A judge: any model behind an OpenAI-compatible endpoint. Each of its replies is paid for once.

    judge = Judge("gpt-4-0125-preview", "https://api.openai.com/v1", price=(10, 30))
    judge.estimate(asks, file)  # requests, tokens and cost, before anything is sent
    verdicts = judge.verdicts(asks, file=file, token_cap=2_000_000, cost_cap=20)
    unparsable(verdicts)  # the replies without a verdict, to be shown

Prices are per million tokens. `verdicts` asks many questions at once and returns the verdicts in
the order of the asks. A run that was killed goes on with the replies that its file lacks.

A local judge works the same way: start `transformers serve` or llama.cpp's
`llama-server -m model.gguf --port 8000`, and use `Judge("model", "http://localhost:8000/v1")`.

Requests go through openai's client. It sends one again after 408, 409, 429, 5xx, a timeout or a
lost connection, later each time, or when the server's Retry-After says. Each try is counted in the
file before it is sent, so a kill can only count too much.

The key is read from the environment variable `key_variable` when the requests begin. It is sent to
`base_url` only, and a redirect is refused. The key is in no file, no error and no repr, also where
a server writes it back.

Paper: section 4.1 and appendix H (GPT-4-0125-preview for MT-Bench, GPT-4-1106-preview for Arena
Hard).
"""

import functools
import html
import json
import logging
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import anyio
import httpx2
import numpy as np
import openai
import pandas as pd
from anyio.from_thread import start_blocking_portal
from openai.types.chat import ChatCompletion
from scipy.special import softmax

from hs2lib import names
from hs2lib.engine.cache import Cache, content_key

# Below the level of a warning these write what a server sends, which may hold the key.
for _logger in ("openai", "httpx2", "httpcore2"):
    logging.getLogger(_logger).setLevel(logging.WARNING)


class Replies(Cache):
    """The replies of a judge in a file, by the name that `Judge.request` gives a request.

    A row is {"reply", "tokens" (prompt, reply), ..}. A request has a row before it is sent, with
    the most tokens that it can take. The row that says how the request ended names the earlier row
    under "sent", and then counts in its place. `alone()` keeps other runs off the file.

    Raises ValueError naming file and line for a line that is no reply: it may have been paid for.
    """

    def __init__(self, file: str | Path | None = None) -> None:
        super().__init__(file, {}, name="reply of a judge", check=_is_reply)

    @property
    def paid(self) -> tuple[int, int]:
        """(prompt tokens, reply tokens) of all requests.

        A request whose end is not known counts with the most that it can have taken.
        """
        ended = {row.get("sent") for row in self.values()}
        return _total(row["tokens"] for name, row in self.items() if name not in ended)


def _total(tokens: Iterable[Sequence[int]]) -> tuple[int, int]:
    """The sum of rows (prompt tokens, reply tokens)."""
    return tuple(map(sum, zip((0, 0), *tokens, strict=True)))


def _is_reply(row: dict) -> bool:
    """Whether a row of the file has the fields of a reply."""
    tokens = row.get("tokens")
    is_named = isinstance(row.get("key"), str) and isinstance(row.get("reply", 0), str | None)
    return is_named and isinstance(tokens, list) and [type(n) for n in tokens] == [int, int]


# What may stand before a verdict on a line of its own: a few words such as "My final verdict is:".
# Only these words are allowed, so that a sentence that quotes a verdict ("The answer ends with the
# words Rating: [[10]]") is not taken for one.
_LABEL = r"(?:(?:my |the |final |overall )*(?:rating|score|verdict)(?: is)?(?: tie)? ?:? ?)?"


class Scale(NamedTuple):
    """A form of verdict: where it stands in a text, what it says, and how to ask for it again.

    pattern: a regular expression with the verdict's inside as its group 1.
    value: from the inside to the verdict; None where it is not on the scale.
    again: the second question, where a reply has no verdict.
    names: single letters, where a verdict can be made of their log-probabilities.
    """

    pattern: str
    value: Callable[[str], float | str | None]
    again: str
    names: tuple[str, ...] = ()

    def read(self, row: Mapping, judged: Iterable[str] = ()) -> float | str | None:
        """The verdict of a row of `Replies`: a chance where it has log-probabilities, or `parse`.

        The chance is that of the first of `names` among them. One log-probability is enough.
        """
        by_name = row.get("log_probs", {})
        log_probs = [by_name.get(name, -np.inf) for name in self.names]
        if max(log_probs, default=-np.inf) == -np.inf:
            return self.parse(row["reply"], judged)
        return float(softmax(log_probs)[0])

    def parse(self, reply: str, judged: Iterable[str] = ()) -> float | str | None:
        """The verdict of a reply, or None where it has none that can be trusted.

        A reply that is a verdict and nothing else is that verdict. Otherwise the last verdict
        counts. Where the reply has several different ones, the last must stand on the last line
        alone. A verdict that one of the judged texts contains is never taken: the judge may have
        quoted it.

        judged: the texts under judgement.
        """
        verdicts = self._verdicts_in(reply)
        if not verdicts:
            return None
        if self._stands_alone(reply):
            return verdicts[-1]
        texts = [_bare(text) for text in judged]
        # A verdict may be split over two texts.
        texts += ["".join(texts), "".join(texts[::-1])]
        is_planted = any(verdicts[-1] in self._verdicts_in(text) for text in texts)
        is_last = len(set(verdicts)) == 1 or self._stands_alone(reply.strip().splitlines()[-1])
        return verdicts[-1] if is_last and not is_planted else None

    def _verdicts_in(self, text: str) -> list[float | str | None]:
        """The verdicts in a text in their order, None for one that is off the scale."""
        return [self.value(inside) for inside in re.findall(self.pattern, text)]

    def _stands_alone(self, text: str) -> bool:
        """Whether a text is one verdict and nothing else but a label, bold type and a full stop."""
        text = re.sub(r"[*_\s]+", " ", text).strip(" .")
        return re.fullmatch(_LABEL + self.pattern, text, re.IGNORECASE) is not None


def _bare(text: str) -> str:
    """A text without what a judge who quotes it may leave out or put right.

    One layer of escapes and compatibility forms, such as full-width digits, are undone. White
    space, quotes, marks of Markdown, accents and characters without width are left out.
    """
    text = unicodedata.normalize("NFKC", html.unescape(unquote(text)))
    return re.sub(r"[\s\\*_`~\"'+|\u00ad\u0300-\u036f\u200b-\u200f\u2060\ufeff]", "", text)


def _grade(inside: str) -> float | None:
    """A grade from 1 to 10, or None."""
    grade = float(inside)
    return grade if 1 <= grade <= 10 else None


COMPARISONS = ("A>>B", "A>B", "A=B", "B>A", "B>>A")

# The patterns of FastChat (MT-Bench) and Arena Hard, with blanks inside the brackets. What is taken
# of several verdicts is ours: FastChat takes the first, which may be a quotation.
RATING = Scale(
    r"\[\[ *([0-9]+\.?[0-9]*) *\]\]",
    _grade,
    "Now write your rating alone, a number from 1 to 10 in double brackets as in [[n]], "
    "and nothing else.",
)

COMPARISON = Scale(
    r"\[\[ *([AB<>=]+) *\]\]",
    {name: name for name in COMPARISONS}.get,
    "Now write your final verdict alone, one of [[A>>B]], [[A>B]], [[A=B]], [[B>A]] and [[B>>A]], "
    "and nothing else.",
)


class JudgeError(RuntimeError):
    """Verdicts are missing: the message says how many, why, and what to do.

    All replies that were paid for are in the file.
    """


class CapReached(JudgeError):
    """The next request could pass the cap, so it was not sent."""


class Ask(NamedTuple):
    """One question to a judge.

    id: what its verdict is known by.
    messages: (role, text) of each.
    scale: the form of its verdict.
    judged: the texts under judgement.
    """

    id: str
    messages: tuple[tuple[str, str], ...]
    scale: Scale
    judged: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """A judge's answer to an `Ask`.

    id: that of the ask.
    value: the verdict; None where none could be read in any of the replies.
    reply: the last reply.
    replies: how many replies it took.
    """

    id: str
    value: float | str | None
    reply: str
    replies: int


@dataclass(frozen=True)
class Judge:
    """A model at an address, and how it is asked.

    model: its name at the endpoint.
    base_url: what stands before /chat/completions, without user, password or query.
    key_variable: the name of an environment variable that holds the key.
    allow_http: whether the key may go to another machine unencrypted.
    reply_tokens: the longest reply that is asked for.
    extra: further fields of the request, or other values than ours (temperature 0). None takes a
        field out, as in {"max_tokens": None, "max_completion_tokens": 4096}.
    price: of a million prompt tokens and of a million reply tokens, in any currency; None where it
        is not known.
    in_flight: requests at once.
    timeout: seconds without a sign from the server, after which a request is given up.
    tries: how often a request is sent at most.
    reasks: further questions where a reply has no verdict.
    """

    model: str
    base_url: str
    key_variable: str = "OPENAI_API_KEY"
    allow_http: bool = False
    reply_tokens: int = 2048
    extra: Mapping = field(default_factory=dict)
    price: tuple[float, float] | None = None
    in_flight: int = 32
    timeout: float = 120.0
    tries: int = 6
    reasks: int = 2

    def __post_init__(self) -> None:
        # Neither value is shown: it may be a secret.
        if not self.base_url or not re.fullmatch(names.ADDRESS, self.base_url):
            raise ValueError(
                "base_url must be http://host.. or https://host.., as https://api.openai.com/v1, "
                "without user, password or query: name a key by key_variable instead"
            )
        if not re.fullmatch(names.VARIABLE, self.key_variable):
            raise ValueError(
                "key_variable is the name of an environment variable, as OPENAI_API_KEY, "
                "never the key"
            )
        if min(self.reply_tokens, self.in_flight, self.tries, self.timeout, self.reasks + 1) <= 0:
            raise ValueError(
                "reply_tokens, in_flight, tries and timeout must be above 0, reasks at least 0"
            )

    @property
    def local(self) -> bool:
        """Whether the endpoint is on this machine; then no key is needed and no proxy is used."""
        host = httpx2.URL(self.base_url).host
        return re.fullmatch(r"localhost|::1|127(\.\d{1,3}){3}", host) is not None

    def request(self, messages: Sequence[tuple[str, str]], attempt: int) -> tuple[str, dict]:
        """The request for some messages: its name in the file, and its body as it is sent.

        The name is a digest of the whole body (model, messages, temperature ..) and the attempt.
        The address is not in it: the same model behind another address is the same judge, and is
        not paid again.

        attempt: 0 for the first request of an ask.
        """
        body = {
            "model": self.model,
            "messages": [{"role": role, "content": _sendable(text)} for role, text in messages],
            "temperature": 0.0,
            "max_tokens": self.reply_tokens,
            **self.extra,
        }
        body = {name: value for name, value in body.items() if value is not None}
        return content_key([body, attempt], 32), body

    def most(self, body: Mapping) -> list[int]:
        """The tokens [prompt, reply] that a request can take at most.

        A prompt has no more of them than bytes, and 16 a message for the chat format.
        """
        prompt = sum(len(message["content"].encode()) + 16 for message in body["messages"])
        longest = [body.get(name, 0) for name in ("max_tokens", "max_completion_tokens")]
        return [prompt, max(self.reply_tokens, *longest)]

    def cost(self, tokens: Sequence[float]) -> float:
        """What (prompt, reply) tokens cost; nan where no price is known."""
        return float(np.dot(tokens, self.price or (np.nan, np.nan))) / 1e6

    def key_missing(self) -> str:
        """Why nothing can be asked, or ""; the key itself is not in it."""
        variable = f"the environment variable {self.key_variable}"
        key = os.environ.get(self.key_variable, "")
        secure = self.base_url.lower().startswith("https:")
        if key and not re.fullmatch("[!-~]+", key):
            return f"{variable} holds white space or another sign that no key has: set it again"
        if secure and not key and not self.local:
            return f"{variable} is not set; {self.base_url} needs a key"
        if key and not (secure or self.local or self.allow_http):
            return (
                f"{variable} holds a key, and http would carry it readable to {self.base_url}: use "
                "https, allow_http=True, or, for no key, a key_variable that is not set"
            )
        return ""

    def estimate(self, asks: Sequence[Ask], file: str | Path | None = None) -> pd.DataFrame:
        """One row about what `verdicts` will send: requests, tokens and cost; and what was paid.

        Nothing is sent here. The expected numbers count a token for every four bytes of a prompt.
        They count a reply as long as the file's replies on average, or a quarter of reply_tokens
        where it has none. Second questions are not counted. The numbers "at most" count a token for
        every byte, and replies of full length.
        """
        replies = Replies(file)
        bodies = dict(self.request(ask.messages, 0) for ask in asks)  # equal asks are one request
        mosts = [self.most(body) for key, body in bodies.items() if key not in replies]
        most = _total(mosts)
        earlier = [
            row["tokens"][1]
            for row in replies.values()
            if row.get("attempt") == 0 and row["reply"] is not None
        ]
        usual_reply = np.mean(earlier or [self.reply_tokens / 4])
        expected = (most[0] / 4, usual_reply * len(mosts))
        row = {
            "judge": self.model,
            "questions": len(asks),
            "requests": len(mosts),
            "prompt tokens": round(expected[0]),
            "reply tokens": round(expected[1]),
            "cost": self.cost(expected),
            "tokens at most": sum(most),
            "cost at most": self.cost(most),
            "tokens paid before": sum(replies.paid),
            "cost before": self.cost(replies.paid),
        }
        return pd.DataFrame([row])

    def verdicts(
        self,
        asks: Sequence[Ask],
        *,
        file: str | Path | None,
        token_cap: int,
        cost_cap: float | None = None,
    ) -> list[Verdict]:
        """The verdict on every ask, in order.

        A reply in `file` is not asked for again, nor are equal asks twice. A reply without a
        verdict is followed by the scale's second question, `reasks` times.

        Nothing is sent where the estimate passes a cap, and no request where it could. Until its
        reply is there, a request counts with the most tokens that it can take.

        file: where replies are written as they come; None keeps nothing.
        token_cap, cost_cap: of all that the file has ever paid and what this call will pay.

        Raises JudgeError where verdicts are missing in the end, CapReached where a cap is why.
        """
        if len({ask.id for ask in asks}) < len(asks):
            raise ValueError("two asks have one id: verdicts could not be told apart")
        if cost_cap is not None and not self.price:
            raise ValueError(
                "a cost_cap needs price=, of a million prompt and of a million reply tokens"
            )
        stopped = None
        with Replies(file).alone() as replies:
            requests = Requests(self, replies, token_cap, cost_cap)
            todo = [ask for ask in asks if requests.needed(ask) is not None]
            if todo:
                if problem := self.key_missing():
                    raise JudgeError(f"{problem}; {len(todo)} of {len(asks)} verdicts are missing")
                row = self.estimate(todo, file).iloc[0]
                expected = row[["prompt tokens", "reply tokens"]]
                if requests.could_pass(expected):
                    raise CapReached(
                        f"{len(todo)} verdicts, of about {expected.sum():,} tokens, would pass "
                        f"the cap ({requests.cap_words()}): nothing was sent"
                    )
                try:
                    # In a thread of its own: a notebook's has an event loop running already.
                    with start_blocking_portal() as portal:
                        portal.call(requests.ask_all, todo)
                except* JudgeError as errors:
                    stopped = errors.exceptions[0]
        missing = [ask.id for ask in asks if ask.id not in requests.verdicts]
        if missing:
            why = stopped or f"Of {missing[0]}: {requests.failed[missing[0]]}"
            raise type(stopped or JudgeError())(
                f"{len(missing)} of {len(asks)} verdicts are missing; the others are kept, "
                f"ask again for these. {why}"
            )
        return [requests.verdicts[ask.id] for ask in asks]


def _sendable(text: str) -> str:
    """A text with a "?" for half a surrogate pair, which JSON may hold and UTF-8 may not."""
    return text.encode(errors="replace").decode()


# Questions in a row that no try could answer. The server is then taken for dead, and the other
# questions are not asked.
BARREN = 8

# Bytes of a response that are read: a reply of 100,000 tokens has a fifth of them.
LARGEST = 2**22

SEEN = 4096  # characters of a response in which an error looks for what to say


class Requests(httpx2.AsyncClient):
    """The requests of one call of `Judge.verdicts`: an HTTP client that counts what each may cost.

    Tokens are counted as arrays [2], of prompts and of replies.

    paid: tokens, also those that requests under way can take.
    verdicts: by the id of the ask.
    failed: why an ask has no verdict, by its id.
    """

    def __init__(
        self, judge: Judge, replies: Replies, token_cap: int, cost_cap: float | None
    ) -> None:
        # A connection for each request: what a server sends after its reply is then not taken for
        # the next reply.
        limits = httpx2.Limits(max_keepalive_connections=0)
        super().__init__(limits=limits, trust_env=not judge.local)
        self.judge = judge
        self.replies = replies
        self.token_cap = token_cap
        self.cost_cap = np.inf if cost_cap is None else cost_cap
        self.paid = np.array(replies.paid)  # [2]
        self.verdicts: dict[str, Verdict] = {}
        self.failed: dict[str, str] = {}
        self.named = functools.cache(judge.request)  # of long prompts it takes a while
        self.begun: dict[str, tuple[dict, dict]] = {}  # body and details of a request, by its name
        self.slots = anyio.Semaphore(judge.in_flight)
        self.n_under_way = 0
        self.failures_in_a_row = 0

    def needed(self, ask: Ask) -> tuple[str, dict, int] | None:
        """The (key, body, attempt) of the request that an ask still needs, or None.

        None means that the ask needs no more requests: its verdict is then in `verdicts`.
        """
        messages = ask.messages
        for attempt in range(1 + self.judge.reasks):
            key, body = self.named(messages, attempt)
            if key not in self.replies:
                return key, body, attempt
            reply = self.replies[key]["reply"]
            value = ask.scale.read(self.replies[key], ask.judged)
            if value is not None:
                break
            # Some servers refuse a blank turn of the assistant. After a blank reply the question is
            # put once more as it was.
            if reply.strip():
                messages = (*ask.messages, ("assistant", reply), ("user", ask.scale.again))
        self.verdicts[ask.id] = Verdict(ask.id, value, reply, attempt + 1)
        return None

    def could_pass(self, tokens: Sequence[float]) -> bool:
        """Whether so many tokens more, (prompt, reply), could pass a cap."""
        total = self.paid + tokens  # [2]
        return total.sum() > self.token_cap or self.judge.cost(total) > self.cost_cap

    def cap_words(self) -> str:
        """The caps and what was paid, for a message."""
        words = f"cap {self.token_cap:,} tokens, paid so far {self.paid.sum():,}"
        if self.judge.price:
            words += f"; in money cap {self.cost_cap:g}, paid {self.judge.cost(self.paid):.2f}"
        return words

    async def ask_all(self, asks: Sequence[Ask]) -> None:
        """Ask until every ask has its verdict or has failed.

        An error or an interrupt cancels all requests that wait. Those under way are shielded, and
        their replies are still written down.

        Raises a group with a JudgeError, where nothing more may be sent.
        """
        by_request: dict[str, list[Ask]] = {}  # asks with one first request are one question
        for ask in asks:
            by_request.setdefault(self.named(ask.messages, 0)[0], []).append(ask)
        client = openai.AsyncOpenAI(
            # The key goes from the environment into the client and into no name here: tracebacks
            # may show names.
            api_key=os.environ.get(self.judge.key_variable) or "none",
            base_url=self.judge.base_url,
            timeout=self.judge.timeout,
            max_retries=self.judge.tries - 1,
            http_client=self,
        )
        async with client, anyio.create_task_group() as group:
            for same_asks in by_request.values():
                group.start_soon(self._answer, client, same_asks)

    async def _answer(self, client: openai.AsyncOpenAI, same_asks: Sequence[Ask]) -> None:
        """Get the verdict on asks that are one question to the judge."""
        async with self.slots:
            for ask in same_asks:
                try:
                    while request := self.needed(ask):
                        key, body, attempt = request
                        self.begun[key] = (body, {"id": ask.id, "attempt": attempt})
                        # By this header `send` knows the request, at each of its tries.
                        named = {"headers": {"Idempotency-Key": key}}
                        await client.post(
                            "/chat/completions", cast_to=httpx2.Response, body=body, options=named
                        )
                        self.failures_in_a_row = 0
                except openai.APIError as error:
                    self._note(ask, error)

    def _note(self, ask: Ask, error: openai.APIError) -> None:
        """Note why an ask has no reply.

        Raises JudgeError where the other asks will end in the same way.
        """
        tries = 1 + int(error.request.headers["x-stainless-retry-count"])
        status = getattr(error, "status_code", None)
        problem = self._clean(f"no reply, {error.__cause__!r}")[:400]
        if status:
            problem = f"HTTP {status}: {error.response.text!r}"
        if status in (400, 413, 422):  # this question is too long, say: the others go on
            self.failed[ask.id] = problem
            return
        if status and tries < self.judge.tries:  # the client saw that no later try will help
            waits = error.response.headers.get("retry-after", "none")
            raise JudgeError(
                f"{problem}, Retry-After: {waits} ({self.judge.base_url}, model "
                f"{self.judge.model}, key in {self.judge.key_variable})"
            ) from None
        self.failed[ask.id] = f"gave up after {tries} tries; the last: {problem}"
        self.failures_in_a_row += 1
        if self.failures_in_a_row >= BARREN:
            raise JudgeError(f"{BARREN} questions in a row failed; {ask.id}: {problem}") from None

    async def send(self, request: httpx2.Request, **_: object) -> httpx2.Response:
        """Send a request once its cost fits under the caps, and write down how it ended.

        The client calls this for every try. Raises CapReached, and an error of httpx2 where no chat
        completion came.
        """
        name = request.headers["Idempotency-Key"]
        body, details = self.begun[name]
        most = self.judge.most(body)
        await anyio.sleep(0)  # a request that was cancelled ends here
        while self.could_pass(most):
            if not self.n_under_way:
                raise CapReached(
                    f"the next request may take {sum(most):,} tokens, which could pass the cap "
                    f"({self.cap_words()})"
                )
            await anyio.sleep(0.01)
        sent = f"sent {os.urandom(16).hex()}"
        # Where it may have been paid it counts in full: a cap is never passed unseen.
        row = {"reply": None, "tokens": most}
        self.replies.add({sent: row | details})
        self.paid += most
        self.n_under_way += 1
        end = f"{sent} failed"
        try:
            with anyio.CancelScope(shield=True):
                response = await super().send(request, stream=True)
                text = await _read(response)
            if response.is_success:
                row = self._completion(text, most)
                end = name
            # A gateway that gave up waiting may have left a model that did not.
            elif response.status_code not in (504, 524):
                row["tokens"] = [0, 0]
        except (httpx2.ConnectError, httpx2.ConnectTimeout):  # no server has seen it
            row["tokens"] = [0, 0]
            raise
        finally:
            self.replies.add({end: row | details | {"sent": sent}})
            self.paid += np.subtract(row["tokens"], most)
            self.n_under_way -= 1
        headers = {n: v for n, v in response.headers.items() if n.startswith("retry-after")}
        if "insufficient_quota" in text:  # a used-up account: waiting does not fill it
            headers["x-should-retry"] = "false"
        text = self._clean(text[:SEEN])[:300]
        return httpx2.Response(response.status_code, headers=headers, text=text, request=request)

    def _completion(self, text: str, most: Sequence[int]) -> dict:
        """Reply, tokens and log-probabilities of a chat completion.

        Raises httpx2.RemoteProtocolError, after which the client tries again, for another text.
        """
        try:
            completion = ChatCompletion.construct(**json.loads(text))
            choice = completion.choices[0]
            reply = choice.message.content
            if reply is None:
                reply = choice.message.refusal or ""
            counts = ("prompt_tokens", "completion_tokens")
            tokens = [getattr(completion.usage, name, None) for name in counts]
            if not all(type(count) is int and 0 <= count < 2**40 for count in tokens):
                # Some local servers do not count: as many as there can be.
                tokens = [most[0], len(reply.encode(errors="replace"))]
            row = {"reply": self._clean(reply), "tokens": tokens}
            if choice.logprobs and choice.logprobs.content:
                likeliest = choice.logprobs.content[0].top_logprobs
                row["log_probs"] = {
                    one.token: float(one.logprob) for one in likeliest if len(one.token) == 1
                }
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise httpx2.RemoteProtocolError(
                f"the reply is no chat completion: {self._clean(text[:SEEN])[:300]!r}"
            ) from None
        return row

    def _clean(self, text: str) -> str:
        """A text from outside that may be written down: encodable, and without the key."""
        key = os.environ.get(self.judge.key_variable, "")
        if len(key) > 5:
            text = text.replace(key, "[key]")
        return _sendable(text)


async def _read(response: httpx2.Response) -> str:
    """The text of a response, which has no end after `LARGEST` bytes."""
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > LARGEST:
            break
    await response.aclose()
    return content.decode(errors="replace")
