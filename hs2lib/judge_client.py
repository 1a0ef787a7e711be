"""The requests behind `judges.Judge.verdicts`: concurrent, backed off, under a cap, every reply kept as it arrives.

The openai package carries the requests with its own retries off (`max_retries=0`): it would count one request where
the server saw three, and would not know of the cap. Replies are read as raw JSON and checked here, because the package
builds its objects without looking at types.

Paper: silent.
"""

import asyncio
import email.utils
import json
import os
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import httpx2  # what openai itself runs on
import openai

from hs2lib.judge_replies import Replies, content_key
from hs2lib.judges import Ask, CapReached, Judge, JudgeError, Verdict, prompt_bytes

BARREN = 8  # questions in a row that no try could answer: the server is down, and the others need not find out
APART = 0.002  # seconds between the first requests: sent at once they come home at once, and queue in every round
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class _Again(Exception):
    """A request that may succeed later: (what happened, seconds to wait if the server said, may it have been paid)."""


class _Refused(_Again):
    """A request that the server will never take (too long, say): the others go on."""


class Run:
    """One call of `Judge.verdicts`: what it may still spend, what is under way, what failed."""

    def __init__(self, judge: Judge, kept: Replies, token_cap: int, cost_cap: float | None):
        self.judge, self.kept, self.token_cap, self.cost_cap = judge, kept, token_cap, cost_cap
        self.reserved, self.flying = (0, 0), 0
        self.failed: dict[str, str] = {}
        self._first: dict[str, tuple[str, dict]] = {}
        self.fatal: JudgeError | None = None
        self.barren, self.resume = 0, 0.0
        self.loop = None

    # What there is

    def first(self, ask: Ask) -> tuple[str, dict]:
        """The (key, body) of an ask's first request, made once: of long prompts that takes a while."""
        if ask.id not in self._first:
            body = self.judge.body(ask.messages)
            self._first[ask.id] = content_key(body, 0), body
        return self._first[ask.id]

    def state(self, ask: Ask) -> Verdict | tuple[str, dict, int]:
        """The verdict on an ask from the replies kept, or the (key, body, attempt) of the request it still needs."""
        messages, row = ask.messages, {}
        for attempt in range(1 + self.judge.reasks):
            if attempt == 0:
                key, body = self.first(ask)
            else:
                body = self.judge.body(messages)
                key = content_key(body, attempt)
            row = self.kept.there.get(key)
            if row is None:
                return key, body, attempt
            value = ask.scale.parse(row["reply"], ask.judged)
            if value is not None:
                break
            # A blank turn of its own is refused by some servers: then the question is put once more as it was.
            if row["reply"].strip():
                messages = (*ask.messages, ("assistant", row["reply"]), ("user", ask.scale.again))
        return Verdict(ask.id, value, row["reply"], attempt + 1)

    def passes(self, prompt: float, reply: float) -> bool:
        """Whether so many tokens more could pass a cap."""
        total = [sum(n) for n in zip(self.kept.paid, self.reserved, (prompt, reply), strict=True)]
        return sum(total) > self.token_cap or (self.cost_cap is not None and self.judge.cost(total) > self.cost_cap)

    def cap_words(self) -> str:
        """The caps and what was paid, for a message."""
        caps = f"{self.token_cap:,} tokens" + (f", {self.cost_cap:g} in money" if self.cost_cap is not None else "")
        spent = f"{sum(self.kept.paid):,} tokens"
        spent += f", {self.judge.cost(self.kept.paid):.2f} in money" if self.judge.price else ""
        return f"cap {caps}; paid so far {spent}"

    def complain(self, missing: Sequence[str], total: int) -> None:
        """Raise what has to be known where verdicts are missing."""
        if not missing:
            return
        what = f"{len(missing)} of {total} verdicts are missing; the others are kept, and a next call asks for these"
        if self.fatal:
            raise type(self.fatal)(f"{self.fatal}. {what}")
        some = next((id for id in missing if id in self.failed), missing[0])
        raise JudgeError(f"{what}. Of {some}: {self.failed.get(some, 'interrupted')}")

    # Asking

    async def all(self, asks: Sequence[Ask], arrived: Callable[[Verdict], None]) -> None:
        """Ask until every ask has its verdict, has failed, or nothing more may be sent."""
        self.loop, self.halt, self.freed = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        alike: dict[str, list[Ask]] = {}
        for ask in asks:
            alike.setdefault(self.first(ask)[0], []).append(ask)
        todo = deque(alike.values())
        limits = httpx2.Limits(max_connections=self.judge.in_flight, max_keepalive_connections=self.judge.in_flight)
        # Over plain HTTP there is no certificate to look at, and reading the list of authorities takes 40 ms.
        secure = self.judge.base_url.startswith("https:")
        options = {"limits": limits, "timeout": self.judge.timeout, "verify": secure, "follow_redirects": False}
        http = openai.DefaultAsyncHttpxClient(trust_env=not self.judge.local, **options)
        # The key goes from the environment into the client and into no name here: tracebacks may show local values.
        self.client = openai.AsyncOpenAI(
            api_key=os.environ.get(self.judge.key_variable) or "none",
            base_url=self.judge.base_url,
            max_retries=0,
            timeout=self.judge.timeout,
            http_client=http,
        )
        async with self.client:
            workers = [self._worker(todo, arrived, i * APART) for i in range(min(self.judge.in_flight, len(todo)))]
            ended = await asyncio.gather(*workers, return_exceptions=True)
        for error in filter(None, ended):
            raise error

    def stop(self) -> None:
        """From another thread: send nothing more, let what is under way come home."""
        with suppress(RuntimeError, AttributeError):  # the loop has ended, or has not begun
            self.loop.call_soon_threadsafe(self._halt)

    def _halt(self) -> None:
        self.halt.set()
        self.freed.set()

    async def _worker(self, todo: deque, arrived, late: float) -> None:
        await asyncio.sleep(late)
        while todo and not self.halt.is_set():
            for ask in todo.popleft():
                try:
                    while not isinstance(state := self.state(ask), Verdict):
                        await self._reply(ask, *state)
                    arrived(state)
                except _Again as failure:
                    self.failed[ask.id] = failure.args[0]
                    self.barren += not (self.halt.is_set() or isinstance(failure, _Refused))
                    if self.barren >= BARREN:
                        self._give_up(JudgeError(f"{BARREN} questions in a row failed; the last: {failure.args[0]}"))
                except JudgeError as error:
                    self._give_up(error)
                except BaseException:
                    self._halt()
                    raise
                if self.halt.is_set():
                    return

    def _give_up(self, error: JudgeError) -> None:
        self.fatal = self.fatal or error
        self._halt()

    async def _reply(self, ask: Ask, key: str, body: dict, attempt: int) -> None:
        """Get the reply to one request into the file, or raise _Again when it is out of tries."""
        need = prompt_bytes(body), self.judge.longest_reply
        for n in range(1, self.judge.tries + 1):
            await self._reserve(need)
            try:
                found = await self._once(body)
                self.kept.add(key, **found, id=ask.id, attempt=attempt)
                self.barren = 0
                return
            except _Refused:
                raise
            except _Again as failure:
                problem, asked, paid = failure.args
                if paid:  # perhaps: a cap that is never passed has to count it, and with the most it can have cost
                    self.kept.add(key, None, need, id=ask.id, attempt=attempt, problem=problem)
            finally:
                self.reserved = self.reserved[0] - need[0], self.reserved[1] - need[1]
                self.flying -= 1
                self.freed.set()
            if n < self.judge.tries:
                await self._back_off(n, asked)
        raise _Again(f"gave up after {self.judge.tries} tries; the last: {problem}", None, False)

    async def _back_off(self, n: int, asked: float | None) -> None:
        wait = self.judge.wait
        if asked is None:
            # Drawn, so that requests refused together do not come back together.
            seconds = min(wait * 2 ** (n - 1), self.judge.longest_wait) * random.uniform(0.5, 1.0)
        elif asked > self.judge.longest_wait:
            what = f"the server asks to come back in {asked:,.0f} s, longest_wait is {self.judge.longest_wait:g} s"
            raise JudgeError(what)
        else:
            # What the server says of one request holds for all: nobody knocks before.
            self.resume, seconds = max(self.resume, time.monotonic() + asked), asked + random.uniform(0, 0.1 * wait)
        await self._sleep(seconds)

    async def _sleep(self, seconds: float) -> None:
        """Sleep, unless nothing more shall be sent."""
        try:
            await asyncio.wait_for(self.halt.wait(), seconds)
        except TimeoutError:
            return
        raise _Again("stopped while it waited to try again", None, False)

    async def _reserve(self, need: tuple[int, int]) -> None:
        """Wait until a request fits under the caps, whatever it may cost, and count it as under way."""
        while (wait := self.resume - time.monotonic()) > 0:
            await self._sleep(wait)
        while self.passes(*need):
            if not self.flying:
                what = f"the next request may take {sum(need):,} tokens, which could pass the cap"
                raise CapReached(f"{what} ({self.cap_words()})")
            self.freed.clear()
            await self.freed.wait()
            if self.halt.is_set():
                raise _Again("stopped before it was sent", None, False)
        self.reserved = self.reserved[0] + need[0], self.reserved[1] + need[1]
        self.flying += 1

    async def _once(self, body: dict) -> dict:
        """One request: reply, tokens, finish and model, or _Again, or JudgeError where no try can help."""
        where = f"{self.judge.base_url}, model {self.judge.model}"
        try:
            async with asyncio.timeout(self.judge.timeout):
                response = await self.client.post("/chat/completions", cast_to=httpx2.Response, body=body)
        except (TimeoutError, openai.APITimeoutError) as error:
            paid = not isinstance(error.__cause__, _NOT_SENT)
            raise _Again(f"no reply within {self.judge.timeout:g} s", None, paid) from None
        except openai.APIStatusError as error:
            self._refused(error, where)
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            cause = error.__cause__ or error
            what = f"connection lost: {self._clean(f'{type(cause).__name__} {cause}')}"
            raise _Again(what, None, not isinstance(cause, _NOT_SENT)) from None
        try:
            return self._read(response.content, body)
        except (ValueError, KeyError, IndexError, TypeError, RecursionError, AttributeError):
            shown = self._clean(response.content[:120].decode(errors="replace"))
            raise _Again(f"the reply is no chat completion: {shown!r}", None, True) from None

    def _refused(self, error: openai.APIStatusError, where: str) -> None:
        """Raise what a status says: try again, or a JudgeError."""
        status, said = error.status_code, self._clean(str(error.message))[:300]
        # A used-up account also says 429, and waiting does not fill it.
        if (status in (408, 409, 429) and error.code != "insufficient_quota") or status >= 500:
            raise _Again(f"HTTP {status}: {said}", _retry_after(error.response.headers), False) from None
        if status in (400, 413, 422):
            raise _Refused(f"HTTP {status}: {said}", None, False) from None
        hint = {401: f"is {self.judge.key_variable} right?", 403: f"is {self.judge.key_variable} right?"}
        hint |= dict.fromkeys((301, 302, 303, 307, 308), "it redirects, and the key is sent nowhere else")
        raise JudgeError(f"{where}: HTTP {status}: {said} {hint.get(status, '')}".strip()) from None

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
        named = {name: self._clean(str(where.get(name))) for name, where in (("model", row), ("finish_reason", choice))}
        return {"reply": self._clean(text), "tokens": tokens, **named}

    def _clean(self, text: str) -> str:
        """A text from outside, as it may be shown and kept: without the key, should it be in there, and encodable."""
        secret = os.environ.get(self.judge.key_variable, "")
        text = text.replace(secret, "[key]") if len(secret) >= 6 else text
        return text.encode(errors="replace").decode()


def _retry_after(headers) -> float | None:
    """Seconds to wait by the headers Retry-After-Ms or Retry-After (seconds or a date); None where they say nothing."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
            return seconds if 0 <= seconds < 1e9 else None
        except (KeyError, ValueError):
            continue
    when = email.utils.parsedate_tz(headers.get("retry-after", ""))
    return max(0.0, email.utils.mktime_tz(when) - time.time()) if when else None
