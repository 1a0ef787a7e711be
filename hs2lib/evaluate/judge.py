"""A judge: any model behind an OpenAI-compatible endpoint, asked concurrently, every reply paid for once.

    judge = Judge("gpt-4-0125-preview", "https://api.openai.com/v1", price=(10, 30))    # per million tokens
    judge.estimate(asks, file)                                    # requests, tokens and cost, before anything is sent
    verdicts = judge.verdicts(asks, file=file, token_cap=2_000_000, cost_cap=20)        # resumes, in the order of asks
    unparsable(verdicts)                                          # replies without a verdict, to be shown

A local judge is the same: `transformers serve` or llama.cpp's `llama-server -m model.gguf --port 8000`, and
`Judge("model", "http://localhost:8000/v1")`. The key is read from the environment variable `key_variable` when the
requests begin. It is sent to `base_url` only and is in no file, no error and no repr; a redirect is refused.

Paper: section 4.1 and appendix H (GPT-4-0125-preview for MT-Bench, GPT-4-1106-preview for Arena Hard).
"""

import asyncio
import email.utils
import functools
import html
import json
import os
import random
import re
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import httpx2  # what openai itself runs on
import numpy as np
import openai
import pandas as pd
import tenacity
from anyio.from_thread import start_blocking_portal

from hs2lib.engine.cache import Cache, content_key


class Replies(Cache):
    """Replies by `Judge.request`'s name: {"reply", "tokens" (prompt, reply), ..}; `alone()` keeps other runs off.

    Raises ValueError naming file and line for a line that is no reply: it may have been paid for.
    """

    def __init__(self, file: str | Path | None = None):
        super().__init__(file, {}, name="reply of a judge", check=_is_reply)

    @property
    def paid(self) -> tuple[int, int]:
        """(prompt tokens, reply tokens) of all replies, those that arrived broken included."""
        return tuple(sum(row["tokens"][part] for row in self.values()) for part in (0, 1))

    def keep(self, key: str, reply: str | None, tokens: Sequence[int], **more) -> None:
        """Keep a reply (None: it was paid and arrived broken) with its tokens, and what else is worth a look."""
        # A broken reply has a name of its own: its request is sent again.
        name = key if reply is not None else f"{key} broken {len(self)}"
        self.add({name: {"reply": reply, "tokens": [int(n) for n in tokens], **more}})


def _is_reply(row: dict) -> bool:
    key, reply, tokens = (row.get(name) for name in ("key", "reply", "tokens"))
    counted = isinstance(tokens, list) and len(tokens) == 2 and all(type(n) is int for n in tokens)
    return isinstance(key, str) and (reply is None or isinstance(reply, str)) and "reply" in row and counted


# What may stand around a verdict on a line of its own: a few words such as "My final verdict is:", bold type, a stop.
# The words are counted, so that a sentence that quotes ("The answer ends with the words Rating: [[10]]") is none.
_LABEL = r"(?:(?:my |the |final |overall )*(?:rating|score|verdict)(?: is)?(?: tie)?\s*:?\s*)?"


@dataclass(frozen=True)
class Scale:
    """A form of verdict: where it stands in a text, what it says (None: not on the scale), how to ask again.

    pattern has the verdict's inside as its group 1 and takes in what is off the scale too, so that `[[11]]` beside
    `[[5]]` is two verdicts and not one.
    """

    pattern: str
    value: Callable[[str], float | str | None]
    again: str

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
        planted = {verdict for text in judged for verdict in self.verdicts_in(_bare(text))}
        if len(set(verdicts)) > 1 and not self._alone(reply.strip().splitlines()[-1].strip()):
            return None
        return None if verdicts[-1] in planted else verdicts[-1]

    def _alone(self, text: str) -> bool:
        mark = rf"[*_\s]*{_LABEL}[*_\s]*{self.pattern}[*_\s]*\.?[*_\s]*"
        return re.fullmatch(mark, text, re.IGNORECASE) is not None


def _bare(text: str) -> str:
    """A text without what a judge that quotes it may leave out or put right: then `[[1&#48;]]` plants a 10 as well.

    Compatibility forms (full-width digits), HTML entities, white space, marks of Markdown, characters without width.
    """
    text = unicodedata.normalize("NFKC", html.unescape(text))
    return "".join(c for c in text if not (c.isspace() or c in "\\*_`~" or unicodedata.category(c) == "Cf"))


def _rating(inside: str) -> float | None:
    # One decimal: 7.5 is what judges write between two grades; [[7.25]] or [[1e1]] is no grade on a scale of 1 to 10.
    return float(inside) if re.fullmatch(r"\d{1,2}(\.\d)?", inside, re.ASCII) and 1 <= float(inside) <= 10 else None


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


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a judge: (role, text) messages, the scale of its verdict, and the texts under judgement."""

    id: str
    messages: tuple[tuple[str, str], ...]
    scale: Scale
    judged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's answer: its value (None: no verdict could be read in any of its replies), last reply, replies taken."""

    id: str
    value: float | str | None
    reply: str
    replies: int


@dataclass(frozen=True)
class Judge:
    """A model at an address, and how it is asked.

    base_url: as the openai client takes it, without user, password or query. reply_tokens: longest reply asked for.
    extra: further fields of the request, or others than ours (temperature 0); None takes one out
    ({"max_tokens": None, "max_completion_tokens": 4096}).
    price: of a million prompt tokens and of a million reply tokens, in any currency; None: not known.
    in_flight: requests at once. timeout: seconds a request, whole. tries: of a request that is refused for now (429,
    5xx, a timeout, a lost connection, a reply that is no chat completion), `wait`, 2 `wait`, 4 `wait` .. seconds apart
    or as long as Retry-After says, `longest_wait` at most. reasks: further questions where a reply has no verdict.
    """

    model: str
    base_url: str
    key_variable: str = "OPENAI_API_KEY"
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
        address = urlsplit(self.base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError("base_url must be http://host.. or https://host.., as in https://api.openai.com/v1")
        if "@" in address.netloc or address.query or address.fragment:
            # Not shown: what stands there may be a secret.
            raise ValueError("base_url holds a user, password or query: name a key by key_variable instead")
        for name in ("reply_tokens", "in_flight", "tries"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if min(self.timeout, self.wait, self.longest_wait) <= 0 or self.reasks < 0:
            raise ValueError("timeout, wait and longest_wait must be above 0 seconds, reasks at least 0")

    @property
    def local(self) -> bool:
        """Whether the endpoint is on this machine; then no key is needed and no proxy is used."""
        host = urlsplit(self.base_url).hostname
        with suppress(ValueError):
            return ip_address(host).is_loopback
        return host == "localhost"

    def request(self, messages: Sequence[tuple[str, str]], attempt: int) -> tuple[str, dict]:
        """The request for some messages, as (its name in the file, as it is sent); attempt 0 is an ask's first.

        The name is of the whole body (model, messages, temperature ..) and the attempt. The address is not in it: the
        same model behind another address is the same judge, and is not paid again.
        """
        # Half a surrogate pair, which JSON may hold, cannot be sent.
        named = [{"role": role, "content": text.encode(errors="replace").decode()} for role, text in messages]
        body = {"model": self.model, "messages": named, "temperature": 0.0}
        body |= {"max_tokens": self.reply_tokens, **self.extra}
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
        """Why nothing can be asked, or ""."""
        if self.local or os.environ.get(self.key_variable):
            return ""
        return f"the environment variable {self.key_variable} is not set; {self.base_url} needs a key"

    def estimate(self, asks: Sequence[Ask], file: str | Path | None = None) -> pd.DataFrame:
        """One row, before anything is sent: questions, requests to send, their tokens and cost, and what was paid.

        A token for every four bytes of a prompt; a reply as long as those kept on average, or a quarter of reply_tokens
        where there are none; second questions not counted. "at most": a token for every byte, replies of full length.
        """
        kept = Replies(file)
        bodies = dict(self.request(ask.messages, 0) for ask in asks)
        missing = [body for key, body in bodies.items() if key not in kept]
        expected, most = self._tokens(missing, kept)
        row = {"judge": self.model, "questions": len(asks), "requests": len(missing)}
        row |= {"prompt tokens": round(expected[0]), "reply tokens": round(expected[1]), "cost": self.cost(expected)}
        row |= {"tokens at most": sum(most), "cost at most": self.cost(most)}
        return pd.DataFrame([row | {"tokens paid before": sum(kept.paid), "cost before": self.cost(kept.paid)}])

    def _tokens(self, bodies: Sequence[dict], kept: Replies) -> tuple[tuple[float, float], tuple[int, int]]:
        """(prompt, reply) tokens of some requests: expected, and at most."""
        usual = [row["tokens"][1] for row in kept.values() if row.get("attempt") == 0 and row["reply"] is not None]
        reply = sum(usual) / len(usual) if usual else self.reply_tokens / 4
        sizes = [prompt_bytes(body) for body in bodies]
        return (sum(sizes) / 4, reply * len(sizes)), (sum(sizes), self.longest_reply * len(sizes))

    def verdicts(
        self, asks: Sequence[Ask], *, file: str | Path | None, token_cap: int, cost_cap: float | None = None
    ) -> list[Verdict]:
        """The verdict on every ask, in order; a reply in `file` is not asked for again, nor are equal asks twice.

        token_cap, cost_cap: of all that the file has ever paid and what this call will. Nothing is sent where the
        estimate passes one of them, and no request where it could: until its reply is there it counts with as many
        tokens as its prompt has bytes, and longest_reply more. A reply without a verdict is followed by the scale's
        second question, `reasks` times. file None keeps nothing.
        Raises JudgeError where verdicts are missing in the end, CapReached where a cap is why.
        """
        if len({ask.id for ask in asks}) < len(asks):
            raise ValueError("two asks have one id: verdicts could not be told apart")
        if cost_cap is not None and not self.price:
            raise ValueError("a cost_cap needs price=, of a million prompt and of a million reply tokens")

        with Replies(file).alone() as kept:
            requests = Requests(self, kept, token_cap, cost_cap)
            states = {ask.id: requests.state(ask) for ask in asks}
            verdicts = {id: state for id, state in states.items() if isinstance(state, Verdict)}
            todo = [ask for ask in asks if ask.id not in verdicts]
            if todo:
                if problem := self.key_missing():
                    raise JudgeError(f"{problem}; {len(todo)} of {len(asks)} verdicts are missing")
                first = dict(requests.request(ask.messages, 0) for ask in todo)
                expected, _ = self._tokens([body for key, body in first.items() if key not in kept], kept)
                if requests.passes(expected):
                    what = f"{len(todo)} verdicts, of about {sum(expected):,.0f} tokens, would pass the cap"
                    raise CapReached(f"{what} ({requests.cap_words()}): nothing was sent")
                with start_blocking_portal() as portal:  # a notebook's own thread has a loop running already
                    asking = portal.start_task_soon(requests.all, todo, verdicts)
                    try:
                        asking.result()
                    except KeyboardInterrupt:  # requests in flight are paid for; a second interrupt leaves them
                        portal.call(requests.stop)
                        futures.wait([asking])
                        raise
            if missing := [ask.id for ask in asks if ask.id not in verdicts]:
                requests.complain(missing, len(asks))
        return [verdicts[ask.id] for ask in asks]


def unparsable(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """The verdicts that could not be read: id, replies taken and the last of them, to be shown beside every score."""
    rows = [(v.id, v.replies, v.reply) for v in verdicts if v.value is None]
    return pd.DataFrame(rows, columns=["id", "replies", "last reply"])


def prompt_bytes(body: Mapping) -> int:
    """Bytes of a prompt's texts, and 16 a message for what the chat format adds: more than it can have tokens."""
    return sum(len(message["content"].encode()) + 16 for message in body["messages"])


BARREN = 8  # questions in a row that no try could answer: the server is down, and the others need not find out

APART = 0.002  # seconds between the first requests: sent at once they come home at once, and queue in every round

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class _NoReply(Exception):
    """A request without a reply. again: a later try may get one. paid: it may have cost tokens. wait: the seconds that
    the server asks for."""

    def __init__(self, what: str, *, again: bool = True, paid: bool = False, wait: float | None = None):
        super().__init__(what)
        self.again, self.paid, self.wait = again, paid, wait


class Requests:
    """The requests of one call of `Judge.verdicts`: what they may still cost, what is under way, what failed.

    Tokens are counted as arrays [2]: of prompts, of replies.
    """

    def __init__(self, judge: Judge, kept: Replies, token_cap: int, cost_cap: float | None):
        self.judge, self.kept, self.token_cap, self.cost_cap = judge, kept, token_cap, cost_cap
        self.paid, self.reserved, self.flying = np.array(kept.paid), np.zeros(2, dtype=int), 0
        self.failed: dict[str, str] = {}
        self.request = functools.cache(judge.request)  # of long prompts it takes a while
        self.halt, self.freed = asyncio.Event(), asyncio.Event()
        self.fatal: JudgeError | None = None
        self.barren, self.resume = 0, 0.0

    # What is known

    def state(self, ask: Ask) -> Verdict | tuple[str, dict, int]:
        """The verdict on an ask from the replies kept, or the (key, body, attempt) of the request it still needs."""
        messages = ask.messages
        for attempt in range(1 + self.judge.reasks):
            key, body = self.request(messages, attempt)
            if key not in self.kept:
                return key, body, attempt
            reply = self.kept[key]["reply"]
            value = ask.scale.parse(reply, ask.judged)
            if value is not None:
                break
            # A blank turn of its own is refused by some servers: then the question is put once more as it was.
            if reply.strip():
                messages = (*ask.messages, ("assistant", reply), ("user", ask.scale.again))
        return Verdict(ask.id, value, reply, attempt + 1)

    def passes(self, tokens: Sequence[float]) -> bool:
        """Whether so many tokens more, (prompt, reply), could pass a cap."""
        total = self.paid + self.reserved + tokens  # [2]
        return total.sum() > self.token_cap or (self.cost_cap is not None and self.judge.cost(total) > self.cost_cap)

    def cap_words(self) -> str:
        """The caps and what was paid, for a message."""
        caps = f"{self.token_cap:,} tokens" + (f", {self.cost_cap:g} in money" if self.cost_cap is not None else "")
        spent = f"{self.paid.sum():,} tokens"
        spent += f", {self.judge.cost(self.paid):.2f} in money" if self.judge.price else ""
        return f"cap {caps}; paid so far {spent}"

    def complain(self, missing: Sequence[str], total: int) -> None:
        """Raise what has to be known where verdicts are missing."""
        what = f"{len(missing)} of {total} verdicts are missing; the others are kept, and a next call asks for these"
        if self.fatal:
            raise type(self.fatal)(f"{self.fatal}. {what}")
        example = next((id for id in missing if id in self.failed), missing[0])
        raise JudgeError(f"{what}. Of {example}: {self.failed.get(example, 'interrupted')}")

    # Asking

    async def all(self, asks: Sequence[Ask], verdicts: dict[str, Verdict]) -> None:
        """Ask until every ask has its verdict, by id in `verdicts`, has failed, or nothing more may be sent."""
        alike: dict[str, list[Ask]] = {}
        for ask in asks:
            alike.setdefault(self.request(ask.messages, 0)[0], []).append(ask)
        todo, judge = deque(alike.values()), self.judge
        limits = httpx2.Limits(max_connections=judge.in_flight, max_keepalive_connections=judge.in_flight)
        # Over plain HTTP there is no certificate to look at, and reading the list of authorities takes 40 ms.
        options = {"limits": limits, "trust_env": not judge.local, "verify": judge.base_url.startswith("https:")}
        http = openai.DefaultAsyncHttpxClient(follow_redirects=False, **options)
        # The key goes from the environment into the client and into no name here: tracebacks may show local values.
        self.client = openai.AsyncOpenAI(
            api_key=os.environ.get(judge.key_variable) or "none",
            base_url=judge.base_url,
            max_retries=0,  # a try has to be counted under the caps before it is sent
            timeout=judge.timeout,
            http_client=http,
        )
        async with self.client:
            workers = [self._worker(todo, verdicts, i * APART) for i in range(min(judge.in_flight, len(todo)))]
            ended = await asyncio.gather(*workers, return_exceptions=True)
        for error in filter(None, ended):
            raise error

    def stop(self, error: JudgeError | None = None) -> None:
        """Send nothing more, let what is under way come home. error: why, where no try can help."""
        self.fatal = self.fatal or error
        self.halt.set()
        self.freed.set()

    async def _worker(self, todo: deque, verdicts: dict[str, Verdict], late: float) -> None:
        await asyncio.sleep(late)
        while todo and not self.halt.is_set():
            for ask in todo.popleft():
                try:
                    while not isinstance(state := self.state(ask), Verdict):
                        await self._reply(ask, *state)
                    verdicts[ask.id] = state
                except _NoReply as failure:
                    self.failed[ask.id] = str(failure)
                    self.barren += failure.again and not self.halt.is_set()
                    if self.barren >= BARREN:
                        self.stop(JudgeError(f"{BARREN} questions in a row failed; the last: {failure}"))
                except JudgeError as error:
                    self.stop(error)
                except BaseException:
                    self.stop()
                    raise
                if self.halt.is_set():
                    return

    async def _reply(self, ask: Ask, key: str, body: dict, attempt: int) -> None:
        """Get the reply to one request into the file, or raise _NoReply when it is out of tries."""
        tries = self.judge.tries
        again = tenacity.retry_if_exception(lambda error: isinstance(error, _NoReply) and error.again)
        limit = {"retry": again, "stop": tenacity.stop_after_attempt(tries), "reraise": True}
        retrying = tenacity.AsyncRetrying(wait=self._seconds, sleep=self._sleep, **limit)
        try:
            await retrying(self._try, key, body, id=ask.id, attempt=attempt)
        except _NoReply as failure:
            what = f"gave up after {tries} tries; the last: {failure}" if failure.again else str(failure)
            raise _NoReply(what, again=failure.again) from None

    async def _try(self, key: str, body: dict, **about) -> None:
        """Send a request once its cost fits under the caps, and keep its reply, or what it may have cost."""
        need = np.array([prompt_bytes(body), self.judge.longest_reply])  # [2]
        await self._reserve(need)
        try:
            self._keep(key, **await self._once(body), **about)
            self.barren = 0
        except _NoReply as failure:
            if failure.paid:  # perhaps: a cap that is never passed has to count it, and with the most it can have cost
                self._keep(key, None, need, **about, problem=str(failure))
            raise
        finally:
            self.reserved -= need
            self.flying -= 1
            self.freed.set()

    def _keep(self, key: str, reply: str | None, tokens: Sequence[int], **about) -> None:
        self.kept.keep(key, reply, tokens, **about)
        self.paid += tokens

    def _seconds(self, tried: tenacity.RetryCallState) -> float:
        """How long to wait before the next try of a request."""
        wait, asked = self.judge.wait, getattr(tried.outcome.exception(), "wait", None)
        if asked is None:
            # Drawn, so that requests refused together do not come back together.
            return tenacity.wait_exponential(wait, self.judge.longest_wait)(tried) * random.uniform(0.5, 1.0)
        if asked > self.judge.longest_wait:
            limit = f"longest_wait is {self.judge.longest_wait:g} s"
            raise JudgeError(f"the server asks to come back in {asked:,.0f} s, {limit}")
        # What the server says of one request holds for all: nobody knocks before.
        self.resume = max(self.resume, time.monotonic() + asked)
        return asked + random.uniform(0, 0.1 * wait)

    async def _sleep(self, seconds: float) -> None:
        """Sleep, unless nothing more shall be sent."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.halt.wait(), seconds)
            raise _NoReply("stopped while it waited to try again", again=False)

    async def _reserve(self, need: np.ndarray) -> None:
        """Wait until a request fits under the caps, whatever it may cost, and count it as under way."""
        while (wait := self.resume - time.monotonic()) > 0:
            await self._sleep(wait)
        while self.passes(need):
            if not self.flying:
                what = f"the next request may take {need.sum():,} tokens, which could pass the cap"
                raise CapReached(f"{what} ({self.cap_words()})")
            self.freed.clear()
            await self.freed.wait()
            if self.halt.is_set():
                raise _NoReply("stopped before it was sent", again=False)
        self.reserved += need
        self.flying += 1

    async def _once(self, body: dict) -> dict:
        """One request: reply, tokens, finish and model, or _NoReply, or JudgeError where no try can help."""
        try:
            async with asyncio.timeout(self.judge.timeout):
                response = await self.client.post("/chat/completions", cast_to=httpx2.Response, body=body)
            return self._read(response.content, body)
        except (TimeoutError, openai.APITimeoutError) as error:
            paid = not isinstance(error.__cause__, _NOT_SENT)
            raise _NoReply(f"no reply within {self.judge.timeout:g} s", paid=paid) from None
        except openai.APIStatusError as error:
            raise self._of_status(error) from None
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            cause = error.__cause__ or error
            what = f"connection lost: {self._clean(f'{type(cause).__name__} {cause}')}"
            raise _NoReply(what, paid=not isinstance(cause, _NOT_SENT)) from None
        except (ValueError, KeyError, IndexError, TypeError, RecursionError, AttributeError):
            shown = self._clean(response.content[:120].decode(errors="replace"))
            raise _NoReply(f"the reply is no chat completion: {shown!r}", paid=True) from None

    def _of_status(self, error: openai.APIStatusError) -> Exception:
        """What to raise for a status: _NoReply, or JudgeError where all requests will end alike."""
        status, what = error.status_code, f"HTTP {error.status_code}: {self._clean(str(error.message))[:300]}"
        # A used-up account also says 429, and waiting does not fill it.
        if (status in (408, 409, 429) and error.code != "insufficient_quota") or status >= 500:
            return _NoReply(what, wait=_retry_after(error.response.headers))
        if status in (400, 413, 422):  # too long, say: the others go on
            return _NoReply(what, again=False)
        hint = f" is {self.judge.key_variable} right?" if status in (401, 403) else ""
        hint = " it redirects, and the key is sent nowhere else" if 300 <= status < 400 else hint
        return JudgeError(f"{self.judge.base_url}, model {self.judge.model}: {what}{hint}")

    def _read(self, raw: bytes, body: dict) -> dict:
        row = json.loads(raw)
        choice = row["choices"][0]
        message = choice["message"]
        text = message["content"]
        if text is None:
            text = message.get("refusal") or ""
        if not isinstance(text, str):
            raise TypeError
        usage = row.get("usage")
        tokens = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else []
        if not tokens or not all(type(n) is int and n >= 0 for n in tokens):
            # Some local servers do not count: four bytes a token, as in the estimate.
            tokens = [prompt_bytes(body) // 4, len(text.encode(errors="replace")) // 4]
        model, finish = self._clean(str(row.get("model"))), self._clean(str(choice.get("finish_reason")))
        return {"reply": self._clean(text), "tokens": tokens, "model": model, "finish_reason": finish}

    def _clean(self, text: str) -> str:
        """A text from outside, as it may be shown and kept: without the key, should it be in there, and encodable."""
        secret = os.environ.get(self.judge.key_variable, "")
        text = text.replace(secret, "[key]") if len(secret) >= 6 else text
        return text.encode(errors="replace").decode()


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by the headers Retry-After-Ms or Retry-After (seconds or a date); None where they say nothing."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            seconds = float(headers[name]) * unit
            return seconds if 0 <= seconds < 1e9 else None
    when = email.utils.parsedate_tz(headers.get("retry-after", ""))
    return max(0.0, email.utils.mktime_tz(when) - time.time()) if when else None
