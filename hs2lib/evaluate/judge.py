"""A judge: any model behind an OpenAI-compatible endpoint, asked concurrently, every reply paid for
once.

    judge = Judge("gpt-4-0125-preview", "https://api.openai.com/v1", price=(10, 30))    # per million tokens
    judge.estimate(asks, file)                                    # requests, tokens and cost, before anything is sent
    verdicts = judge.verdicts(asks, file=file, token_cap=2_000_000, cost_cap=20)        # resumes, in the order of asks
    unparsable(verdicts)                                          # replies without a verdict, to be shown

A local judge is the same: `transformers serve` or llama.cpp's `llama-server -m model.gguf --port
8000`, and `Judge("model", "http://localhost:8000/v1")`. The key is read from the environment
variable `key_variable` when the requests begin. It is sent to `base_url` only and is in no file, no
error and no repr, however a server writes it back; a redirect is refused. A request is counted in
the file before it is sent, so a kill can only count too much.

Paper: section 4.1 and appendix H (GPT-4-0125-preview for MT-Bench, GPT-4-1106-preview for Arena
Hard).
"""

import base64
import functools
import html
import json
import logging
import os
import random
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import anyio
import httpx2
import numpy as np
import pandas as pd
import tenacity
from anyio.from_thread import start_blocking_portal

from hs2lib import names
from hs2lib.engine.cache import Cache, content_key

for _logger in (
    "httpx2",
    "httpcore2",
):  # below a warning they write what a server sends, which may hold the key
    logging.getLogger(_logger).setLevel(logging.WARNING)


class Replies(Cache):
    """Replies by `Judge.request`'s name: {"reply", "tokens" (prompt, reply), ..}; `alone()` keeps
    other runs off.

    A request has a line before it is sent, with the most tokens that it can take. The line that
    says how it ended names that one under "sent", and then counts in its place. Raises ValueError
    naming file and line for a line that is no reply: it may have been paid for.
    """

    def __init__(self, file: str | Path | None = None):
        super().__init__(file, {}, name="reply of a judge", check=_is_reply)

    @property
    def paid(self) -> tuple[int, int]:
        """(prompt tokens, reply tokens) of all requests; of one without an end, the most that it can have taken."""
        ended = {row.get("sent") for row in self.values()}
        return tuple(
            sum(row["tokens"][part] for name, row in self.items() if name not in ended)
            for part in (0, 1)
        )

    def keep(self, key: str, reply: str | None, tokens: Sequence[int], **about) -> None:
        """Keep how a request began or ended: its reply (None: there is none), its tokens, what else is worth a look."""
        self.add({key: {"reply": reply, "tokens": [int(n) for n in tokens], **about}})


def _is_reply(row: dict) -> bool:
    key, reply, tokens = (row.get(name) for name in ("key", "reply", "tokens"))
    counted = isinstance(tokens, list) and len(tokens) == 2 and all(type(n) is int for n in tokens)
    logs = row.get("log_probs", {})
    counted &= isinstance(logs, dict) and all(isinstance(value, float) for value in logs.values())
    return (
        isinstance(key, str)
        and (reply is None or isinstance(reply, str))
        and "reply" in row
        and counted
    )


# What may stand around a verdict on a line of its own: a few words such as "My final verdict is:",
# bold type, a stop. The words are counted, so that a sentence that quotes ("The answer ends with
# the words Rating: [[10]]") is none.
_LABEL = r"(?:(?:my |the |final |overall )*(?:rating|score|verdict)(?: is)?(?: tie)?\s*:?\s*)?"


class Scale(NamedTuple):
    """A form of verdict: where it stands in a text, what it says (None: not on the scale), how to
    ask again.

    pattern has the verdict's inside as its group 1 and takes in what is off the scale too, so that
    `[[11]]` beside `[[5]]` is two verdicts and not one. names: single letters, of whose
    log-probabilities a verdict can be made.
    """

    pattern: str
    value: Callable[[str], float | str | None]
    again: str
    names: tuple[str, ...] = ()

    def read(self, row: Mapping, judged: Iterable[str] = ()) -> float | str | None:
        """The verdict of a kept reply: the chance of the first of `names` among them, where their
        log-probabilities are there, one at least; otherwise what `parse` reads."""
        logs = np.array([row.get("log_probs", {}).get(name, -np.inf) for name in self.names])
        if not np.isfinite(logs).any():
            return self.parse(row["reply"], judged)
        return float(np.exp(logs[0] - np.logaddexp.reduce(logs)))

    def verdicts_in(self, text: str) -> list[str | float | None]:
        """The verdicts in a text in their order, None for one that is off the scale."""
        return [self.value(inside) for inside in re.findall(self.pattern, text)]

    def parse(self, reply: str, judged: Iterable[str] = ()) -> float | str | None:
        """The verdict of a reply on the texts `judged`, or None where it has none by the rules above."""
        verdicts = self.verdicts_in(reply)
        if not verdicts:
            return None
        if self._alone(reply.strip()):
            return verdicts[0]
        texts = [_bare(text) for text in judged]
        texts += ["".join(texts), "".join(texts[::-1])]  # one that is split over two of them
        planted = {verdict for text in texts for verdict in self.verdicts_in(text)}
        several = len({*verdicts, *self.verdicts_in(_bare(reply))}) > 1
        if several and not self._alone(reply.strip().splitlines()[-1].strip()):
            return None
        return None if verdicts[-1] in planted else verdicts[-1]

    def _alone(self, text: str) -> bool:
        mark = rf"[*_\s]*{_LABEL}[*_\s]*{self.pattern}[*_\s]*\.?[*_\s]*"
        text = re.sub(
            r"([*_\s])[*_\s]+", r"\1", text
        )  # a page of blanks or stars would take the mark minutes
        return re.fullmatch(mark, text, re.IGNORECASE) is not None


# Brackets that are two in one sign or stand for two, and letters that look like A and B.
_LOOKS = {**dict.fromkeys("⟦〚【〖", "[["), **dict.fromkeys("⟧〛】〗", "]]"), "≫": ">>"}
_LOOKS = str.maketrans(
    _LOOKS | dict.fromkeys("\u0410\u0391", "A") | dict.fromkeys("\u0412\u0392", "B")
)


def _bare(text: str) -> str:
    """A text without what a judge that quotes it may leave out or put right: then `[[1&#48;]]`
    plants a 10 as well.

    Compatibility forms (full-width digits), digits of other scripts, escapes, other brackets, white
    space, quotes, marks of Markdown, characters without width.
    """
    for _ in range(3):
        text = _unescaped(unicodedata.normalize("NFKC", text))
    dropped = {
        c
        for c in set(text)
        if c.isspace() or c in "\\*_`~\"'+|" or unicodedata.category(c) in ("Cf", "Mn")
    }
    folded = {ord(c): "" if c in dropped else str(unicodedata.decimal(c, c)) for c in set(text)}
    return text.translate(folded).translate(_LOOKS)


def _unescaped(text: str) -> str:
    """A text without one layer of the escapes of URLs, HTML, JSON and Python."""
    escape = r"[\\%](?:u\{?(?:00)?|x)([0-9a-fA-F]{2})\}?|\\([\"'\\/])"
    return re.sub(
        escape, lambda match: match[2] or chr(int(match[1], 16)), html.unescape(unquote(text))
    )


def _rating(inside: str) -> float | None:
    # One decimal: 7.5 is what judges write between two grades; [[7.25]] or [[1e1]] is no grade on a
    # scale of 1 to 10.
    return (
        float(inside)
        if re.fullmatch(r"\d{1,2}(\.\d)?", inside, re.ASCII) and 1 <= float(inside) <= 10
        else None
    )


COMPARISONS = ("A>>B", "A>B", "A=B", "B>A", "B>>A")


RATING = Scale(
    r"\[\[[ \t]*([-+]?[0-9][0-9.,/e]*)[ \t]*\]\]",
    _rating,
    "Now write your rating alone, a number from 1 to 10 in double brackets as in [[n]], and nothing else.",
)

COMPARISON = Scale(
    r"\[\[[ \t]*([AB<>=]+)[ \t]*\]\]",
    lambda inside: inside if inside in COMPARISONS else None,
    "Now write your final verdict alone, one of [[A>>B]], [[A>B]], [[A=B]], [[B>A]] and [[B>>A]], and nothing else.",
)


class JudgeError(RuntimeError):
    """Verdicts are missing: the message says how many, why, and what to do. All that were paid for are kept."""


class CapReached(JudgeError):
    """The next request could pass the cap, so it was not sent."""


class Ask(NamedTuple):
    """One question to a judge: (role, text) messages, the scale of its verdict, and the texts under judgement."""

    id: str
    messages: tuple[tuple[str, str], ...]
    scale: Scale
    judged: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """A judge's answer: its value (None: no verdict could be read in any of its replies), last reply, replies taken."""

    id: str
    value: float | str | None
    reply: str
    replies: int


@dataclass(frozen=True)
class Judge:
    """A model at an address, and how it is asked.

    base_url: what stands before /chat/completions, without user, password or query. key_variable:
    the name of an environment variable; allow_http: its key may go to another machine unencrypted.
    reply_tokens: longest reply that is asked for. extra: further fields of the request, or others
    than ours (temperature 0); None takes one out ({"max_tokens": None, "max_completion_tokens":
    4096}). price: of a million prompt tokens and of a million reply tokens, in any currency; None:
    not known. in_flight: requests at once. timeout: seconds a request, whole. tries: of a request
    that is refused for now (429, 5xx, a timeout, a lost connection, a reply that is no chat
    completion), `wait`, 2 `wait`, 4 `wait` .. seconds apart or as long as Retry-After says,
    `longest_wait` at most. reasks: further questions where a reply has no verdict.
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
    wait: float = 1.0
    longest_wait: float = 120.0
    reasks: int = 2

    def __post_init__(self):
        try:
            address = httpx2.URL(self.base_url)
        except httpx2.InvalidURL:
            address = httpx2.URL()
        if (
            address.scheme not in ("http", "https")
            or not address.host
            or not 0 <= (address.port or 0) < 2**16
        ):
            raise ValueError(
                "base_url must be http://host.. or https://host.., as in https://api.openai.com/v1"
            )
        if address.userinfo or address.query or address.fragment:
            # Not shown: what stands there may be a secret.
            raise ValueError(
                "base_url holds a user, password or query: name a key by key_variable instead"
            )
        if not re.fullmatch(names.VARIABLE, self.key_variable):
            raise ValueError(
                "key_variable is the name of an environment variable, as OPENAI_API_KEY, never the key"
            )
        counts = self.reply_tokens, self.in_flight, self.tries, self.reasks + 1
        if min(*counts, self.timeout, self.wait, self.longest_wait) <= 0:
            raise ValueError(
                "reply_tokens, in_flight, tries and seconds must be above 0, reasks at least 0"
            )

    @property
    def local(self) -> bool:
        """Whether the endpoint is on this machine; then no key is needed and no proxy is used."""
        return (
            re.fullmatch(r"localhost|::1|127(\.\d{1,3}){3}", httpx2.URL(self.base_url).host)
            is not None
        )

    @property
    def secure(self) -> bool:
        """Whether what is sent cannot be read on its way."""
        return self.base_url.lower().startswith("https:")

    def request(self, messages: Sequence[tuple[str, str]], attempt: int) -> tuple[str, dict]:
        """The request for some messages, as (its name in the file, as it is sent); attempt 0 is an
        ask's first.

        The name is of the whole body (model, messages, temperature ..) and the attempt. The address
        is not in it: the same model behind another address is the same judge, and is not paid
        again.
        """
        # Half a surrogate pair, which JSON may hold, cannot be sent.
        named = [
            {"role": role, "content": text.encode(errors="replace").decode()}
            for role, text in messages
        ]
        body = {
            "model": self.model,
            "messages": named,
            "temperature": 0.0,
            "max_tokens": self.reply_tokens,
        }
        body |= self.extra
        body = {name: value for name, value in body.items() if value is not None}
        return content_key([body, attempt], 32), body

    @property
    def longest_reply(self) -> int:
        """Tokens that a reply can have: what a request under way counts with."""
        named = (self.extra.get(name) or 0 for name in ("max_tokens", "max_completion_tokens"))
        return max(self.reply_tokens, *named)

    def cost(self, tokens: Sequence[float]) -> float:
        """What (prompt, reply) tokens cost; nan where no price is given."""
        return float(np.dot(tokens, self.price)) / 1e6 if self.price else float("nan")

    def key_missing(self) -> str:
        """Why nothing can be asked, or ""; the key itself is not in it."""
        variable, key = (
            f"the environment variable {self.key_variable}",
            os.environ.get(self.key_variable, ""),
        )
        if key and not re.fullmatch("[!-~]+", key):
            return f"{variable} holds white space, a line break perhaps, or another sign that no key has: set it again"
        if self.local or (self.allow_http and not self.secure):
            return ""
        if self.secure:
            return "" if key else f"{variable} is not set; {self.base_url} needs a key"
        what = f"{variable} holds a key, and http would carry it readable to {self.base_url}"
        return (
            f"{what}: use https, allow_http=True, or, for no key, a key_variable that is not set"
            if key
            else ""
        )

    def estimate(self, asks: Sequence[Ask], file: str | Path | None = None) -> pd.DataFrame:
        """One row, before anything is sent: questions, requests to send, their tokens and cost, and
        what was paid.

        A token for every four bytes of a prompt; a reply as long as those kept on average, or a
        quarter of reply_tokens where there are none; second questions not counted. "at most": a
        token for every byte, replies of full length.
        """
        kept = Replies(file)
        n, expected, most = self._needs(asks, kept)
        row = {"judge": self.model, "questions": len(asks), "requests": n}
        row |= {
            "prompt tokens": round(expected[0]),
            "reply tokens": round(expected[1]),
            "cost": self.cost(expected),
        }
        row |= {"tokens at most": sum(most), "cost at most": self.cost(most)}
        return pd.DataFrame(
            [row | {"tokens paid before": sum(kept.paid), "cost before": self.cost(kept.paid)}]
        )

    def _needs(
        self, asks: Sequence[Ask], kept: Replies
    ) -> tuple[int, tuple[float, float], tuple[int, int]]:
        """First requests still to be sent: how many, their (prompt, reply) tokens as expected, and at most."""
        bodies = dict(self.request(ask.messages, 0) for ask in asks)
        sizes = [prompt_bytes(body) for key, body in bodies.items() if key not in kept]
        usual = [
            row["tokens"][1]
            for row in kept.values()
            if row.get("attempt") == 0 and row["reply"] is not None
        ]
        reply = sum(usual) / len(usual) if usual else self.reply_tokens / 4
        n, prompts = len(sizes), sum(sizes)
        return n, (prompts / 4, reply * n), (prompts, self.longest_reply * n)

    def verdicts(
        self, asks: Sequence[Ask], *, file, token_cap: int, cost_cap: float | None = None
    ) -> list[Verdict]:
        """The verdict on every ask, in order; a reply in `file` is not asked for again, nor are
        equal asks twice.

        token_cap, cost_cap: of all that the file has ever paid and what this call will. Nothing is
        sent where the estimate passes one of them, and no request where it could: until its reply
        is there it counts with as many tokens as its prompt has bytes, and longest_reply more. A
        reply without a verdict is followed by the scale's second question, `reasks` times. file
        None keeps nothing. Raises JudgeError where verdicts are missing in the end, CapReached
        where a cap is why.
        """
        if len({ask.id for ask in asks}) < len(asks):
            raise ValueError("two asks have one id: verdicts could not be told apart")
        if cost_cap is not None and not self.price:
            raise ValueError(
                "a cost_cap needs price=, of a million prompt and of a million reply tokens"
            )

        with Replies(file).alone() as kept:
            requests = Requests(self, kept, token_cap, cost_cap)
            todo = [ask for ask in asks if requests.needed(ask)]
            if todo and (problem := self.key_missing()):
                raise JudgeError(f"{problem}; {len(todo)} of {len(asks)} verdicts are missing")
            _, expected, _ = self._needs(todo, kept)
            if todo and requests.passes(expected):
                what = f"{len(todo)} verdicts, of about {sum(expected):,.0f} tokens, would pass the cap"
                raise CapReached(f"{what} ({requests.cap_words()}): nothing was sent")
            stopped = requests.all(todo) if todo else None
        if missing := [ask.id for ask in asks if ask.id not in requests.verdicts]:
            what = f"{len(missing)} of {len(asks)} verdicts are missing; the others are kept, ask again for these"
            if stopped:
                raise type(stopped)(f"{stopped}. {what}")
            raise JudgeError(f"{what}. Of {missing[0]}: {requests.failed[missing[0]]}")
        return [requests.verdicts[ask.id] for ask in asks]


def unparsable(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """The verdicts that could not be read: id, replies taken and the last of them, to be shown beside every score."""
    rows = [(v.id, v.replies, v.reply) for v in verdicts if v.value is None]
    return pd.DataFrame(rows, columns=["id", "replies", "last reply"])


def prompt_bytes(body: Mapping) -> int:
    """Bytes of a prompt's texts, and 16 a message for what the chat format adds: more than it can have tokens."""
    return sum(len(message["content"].encode()) + 16 for message in body["messages"])


BARREN = 8  # questions in a row that no try could answer: the server is down, and the others need not find out

APART = 0.002  # seconds between the first requests: sent at once they come home at once, and queue in every round

LARGEST = 2**22  # bytes of a response that are read: a reply of 100,000 tokens has a fifth of them

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_NOT_SENT += (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol)


class _NoReply(Exception):
    """A request without a reply. again: a later try may get one. paid: it may have cost tokens.
    wait: the seconds that the server asks for."""

    def __init__(
        self, what: str, *, again: bool = True, paid: bool = False, wait: float | None = None
    ):
        super().__init__(what)
        self.again, self.paid, self.wait = again, paid, wait


class Requests:
    """The requests of one call of `Judge.verdicts`: what they may still cost, what is under way,
    what failed.

    Tokens are counted as arrays [2]: of prompts, of replies.
    """

    def __init__(self, judge: Judge, kept: Replies, token_cap: int, cost_cap: float | None):
        self.judge, self.kept, self.token_cap, self.cost_cap = judge, kept, token_cap, cost_cap
        self.paid, self.flying, self.freed = np.array(kept.paid), 0, anyio.Event()
        self.verdicts: dict[str, Verdict] = {}
        self.failed: dict[str, str] = {}
        self.request = functools.cache(judge.request)  # of long prompts it takes a while
        self.places = anyio.CapacityLimiter(judge.in_flight)
        self.barren, self.resume = 0, 0.0
        again = tenacity.retry_if_exception(
            lambda error: isinstance(error, _NoReply) and error.again
        )
        limits = {"retry": again, "stop": tenacity.stop_after_attempt(judge.tries), "reraise": True}
        self.reply = tenacity.retry(wait=self._seconds, **limits)(self._try)

    # What is known

    def needed(self, ask: Ask) -> tuple[str, dict, int] | None:
        """The (key, body, attempt) of the request that an ask still needs; None: its verdict is in `verdicts`."""
        messages = ask.messages
        for attempt in range(1 + self.judge.reasks):
            key, body = self.request(messages, attempt)
            if key not in self.kept:
                return key, body, attempt
            reply = self.kept[key]["reply"]
            value = ask.scale.read(self.kept[key], ask.judged)
            if value is not None:
                break
            # A blank turn of its own is refused by some servers: then the question is put once more
            # as it was.
            if reply.strip():
                messages = (*ask.messages, ("assistant", reply), ("user", ask.scale.again))
        self.verdicts[ask.id] = Verdict(ask.id, value, reply, attempt + 1)
        return None

    def passes(self, tokens: Sequence[float]) -> bool:
        """Whether so many tokens more, (prompt, reply), could pass a cap."""
        total = self.paid + tokens  # [2]
        return total.sum() > self.token_cap or (
            self.cost_cap is not None and self.judge.cost(total) > self.cost_cap
        )

    def cap_words(self) -> str:
        """The caps and what was paid, for a message."""
        words = f"cap {self.token_cap:,} tokens, paid so far {self.paid.sum():,}"
        money = self.cost_cap is not None
        return words + (
            f"; in money cap {self.cost_cap:g}, paid {self.judge.cost(self.paid):.2f}"
            if money
            else ""
        )

    # Asking. An error, or an interrupt, cancels all that waits; what is under way is shielded, and
    # comes home.

    def all(self, asks: Sequence[Ask]) -> JudgeError | None:
        """Ask until every ask has its verdict or has failed; returns why nothing more may be sent, if that is so."""
        try:
            with (
                start_blocking_portal() as portal
            ):  # a notebook's own thread has a loop running already
                portal.call(self._all, asks)
        except ExceptionGroup as errors:
            if not isinstance(errors.exceptions[0], JudgeError):
                raise errors.exceptions[0] from None
            return errors.exceptions[0]

    async def _all(self, asks: Sequence[Ask]) -> None:
        alike: dict[str, list[Ask]] = {}
        for ask in asks:
            alike.setdefault(self.request(ask.messages, 0)[0], []).append(ask)
        judge = self.judge
        async with (
            httpx2.AsyncClient(
                # The key goes from the environment into the client and into no name here:
                # tracebacks may show names.
                headers={
                    "Authorization": f"Bearer {os.environ.get(judge.key_variable) or 'none'}",
                    "Accept-Encoding": "identity",  # what is not compressed cannot grow
                },
                # A connection for each request: what a server sends after its reply is then no
                # reply to the next.
                limits=httpx2.Limits(max_connections=judge.in_flight, max_keepalive_connections=0),
                timeout=httpx2.Timeout(judge.timeout, connect=judge.timeout / 2),
                trust_env=not judge.local,
                # Over plain HTTP there is no certificate to look at, and reading the list of
                # authorities takes 40 ms.
                verify=judge.secure,
            ) as self.client,
            anyio.create_task_group() as group,
        ):
            for place, several in enumerate(alike.values()):
                group.start_soon(self._answer, several, APART * min(place, judge.in_flight))

    async def _answer(self, alike: Sequence[Ask], late: float) -> None:
        """Get the verdict on asks that are one question to the judge."""
        await anyio.sleep(late)
        async with self.places:
            for ask in alike:
                try:
                    while request := self.needed(ask):
                        await self.reply(*request, ask.id)
                except _NoReply as failure:
                    gave_up = (
                        f"gave up after {self.judge.tries} tries; the last: "
                        if failure.again
                        else ""
                    )
                    self.failed[ask.id] = f"{gave_up}{failure}"
                    self.barren += failure.again
                    if self.barren >= BARREN:
                        raise JudgeError(
                            f"{BARREN} questions in a row failed; {ask.id}: {failure}"
                        ) from None

    async def _try(self, key: str, body: dict, attempt: int, id: str) -> None:
        """Send a request once its cost fits under the caps, counted before it is sent, and keep how it ended."""
        most = np.array([prompt_bytes(body), self.judge.longest_reply])  # [2]
        await self._room(most)
        sent, about = f"sent {os.urandom(16).hex()}", {"id": id, "attempt": attempt}
        self.kept.keep(sent, None, most, **about)
        self.paid += most
        self.flying += 1
        name, row = f"{sent} failed", {"reply": None, "tokens": most}
        try:
            name, row = key, await self._once(body)
            self.barren = 0
        except (_NoReply, JudgeError) as failure:
            row["problem"] = str(failure)
            if not getattr(
                failure, "paid", False
            ):  # perhaps: a cap that is never passed has to count it
                row["tokens"] = (0, 0)
            raise
        finally:
            self.kept.keep(name, **row, **about, sent=sent)
            self.paid += row["tokens"] - most
            self.flying -= 1
            self.freed.set()
            self.freed = anyio.Event()

    def _seconds(self, tried: tenacity.RetryCallState) -> float:
        """How long to wait before the next try of a request."""
        judge, asked = self.judge, getattr(tried.outcome.exception(), "wait", None)
        if asked is None:
            # Drawn, so that requests refused together do not come back together.
            return tenacity.wait_exponential(judge.wait, judge.longest_wait)(
                tried
            ) * random.uniform(0.5, 1.0)
        if asked > judge.longest_wait:
            limit = f"longest_wait is {judge.longest_wait:g} s"
            raise JudgeError(f"the server asks to come back in {asked:,.0f} s, {limit}")
        # What the server says of one request holds for all: nobody knocks before.
        self.resume = max(self.resume, time.monotonic() + asked)
        return asked + random.uniform(0, 0.1 * judge.wait)

    async def _room(self, need: np.ndarray) -> None:
        """Wait until a request may be sent and fits under the caps, whatever it may cost."""
        await anyio.sleep(0)  # who is cancelled goes no further
        while (wait := self.resume - time.monotonic()) > 0:
            await anyio.sleep(wait)
        while self.passes(need):
            if not self.flying:
                what = f"the next request may take {need.sum():,} tokens, which could pass the cap"
                raise CapReached(f"{what} ({self.cap_words()})")
            await self.freed.wait()

    async def _once(self, body: dict) -> dict:
        """One request: reply and tokens, or _NoReply, or JudgeError where no try can help."""
        url, content = self.judge.base_url.rstrip("/") + "/chat/completions", bytearray()
        try:
            with anyio.fail_after(self.judge.timeout, shield=True):
                async with self.client.stream("POST", url, json=body) as response:
                    async for part in response.aiter_raw():
                        content += part
                        if len(content) > LARGEST:
                            break
        except (TimeoutError, httpx2.HTTPError) as error:
            what = f"connection lost: {type(error).__name__} {self._shown(str(error).encode(errors='replace'))}"
            if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
                what = f"no reply within {self.judge.timeout:g} s"
            raise _NoReply(what, paid=not isinstance(error, _NOT_SENT)) from None
        if not response.is_success:
            raise self._of_status(response, content)
        if len(content) > LARGEST:
            raise _NoReply(f"the reply is longer than {LARGEST:,} bytes", paid=True)
        try:
            return self._read(content, body)
        except (ValueError, KeyError, IndexError, TypeError, RecursionError, AttributeError):
            raise _NoReply(
                f"the reply is no chat completion: {self._shown(content)}", paid=True
            ) from None

    def _of_status(self, response: httpx2.Response, content: bytes) -> Exception:
        """What to raise for a status: _NoReply, or JudgeError where all requests will end alike."""
        status, what = response.status_code, f"HTTP {response.status_code}: {self._shown(content)}"
        # A used-up account also says 429, and waiting does not fill it.
        if (status in (408, 409, 429) and b'"insufficient_quota"' not in content) or status >= 500:
            # A gateway that gave up waiting may have left a model that did not.
            return _NoReply(what, wait=_retry_after(response.headers), paid=status in (504, 524))
        if status in (400, 413, 422):  # too long, say: the others go on
            return _NoReply(what, again=False)
        hint = f" is {self.judge.key_variable} right?" if status in (401, 403) else ""
        hint = " it redirects, and the key is sent nowhere else" if 300 <= status < 400 else hint
        return JudgeError(f"{self.judge.base_url}, model {self.judge.model}: {what}{hint}")

    def _read(self, raw: bytes, body: dict) -> dict:
        row = json.loads(raw)
        message = row["choices"][0]["message"]
        text = message["content"]
        if text is None:
            text = message.get("refusal") or ""
        if not isinstance(text, str):
            raise TypeError
        usage = row["usage"] if isinstance(row.get("usage"), dict) else {}
        tokens = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        if not all(type(n) is int and 0 <= n < 2**40 for n in tokens):
            # Some local servers do not count: as many as there can be.
            tokens = [prompt_bytes(body), len(text.encode(errors="replace"))]
        kept = {"reply": self._clean(text), "tokens": tokens}
        if body.get("logprobs") and (
            content := (row["choices"][0].get("logprobs") or {}).get("content")
        ):
            likely = [(one["token"], float(one["logprob"])) for one in content[0]["top_logprobs"]]
            kept["log_probs"] = {
                token: log_prob for token, log_prob in likely if len(token) == 1
            }  # letters alone
        return kept

    def _clean(self, text: str) -> str:
        """A text from outside, as it may be kept: without the key, in whatever form it holds it, and encodable."""
        clean = text
        for _ in range(4):
            for form in _forms(os.environ.get(self.judge.key_variable, "")):
                if form in text:
                    clean = text = text.replace(form, "[key]")
            text = _unescaped(text)
        return clean.encode(errors="replace").decode()

    def _shown(self, text: bytes) -> str:
        """The beginning of a text from outside, as a message may hold it: clean, quoted, without control characters."""
        return repr(self._clean(text.decode(errors="replace"))[:300])[:302]


def _forms(key: str) -> list[str]:
    """A key as it is, in hex, and in base64: what is the same of that wherever in a text the key begins."""
    if len(key) < 6:
        return []
    coded = []
    for before in range(3):  # bytes that share a group of three with the key's first
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            letters = encode(bytes(before) + key.encode()).decode()
            coded.append(letters[-(-before * 8 // 6) : (before + len(key)) * 8 // 6])
    return [key, key.encode().hex(), key.encode().hex().upper(), *coded]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by the headers Retry-After-Ms or Retry-After (seconds or a date); None where they say nothing."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            if (seconds := float(headers[name]) * unit) >= 0:
                return seconds
    with suppress(ValueError, OverflowError, TypeError):
        return max(0.0, parsedate_to_datetime(headers.get("retry-after")).timestamp() - time.time())
    return None
