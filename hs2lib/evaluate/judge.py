"""A judge: any model behind an OpenAI-compatible endpoint. Each of its replies is paid for once.

    judge = Judge("gpt-4-0125-preview", "https://api.openai.com/v1", price=(10, 30))
    judge.estimate(asks, file)  # requests, tokens and cost, before anything is sent
    verdicts = judge.verdicts(asks, file=file, token_cap=2_000_000, cost_cap=20)
    unparsable(verdicts)  # the replies without a verdict, to be shown

Prices are per million tokens. `verdicts` asks many questions at once and returns the verdicts in
the order of the asks. A run that was killed goes on with the replies that its file lacks.

A local judge works the same way: start `transformers serve` or llama.cpp's
`llama-server -m model.gguf --port 8000`, and use `Judge("model", "http://localhost:8000/v1")`.

The key is read from the environment variable `key_variable` when the requests begin. It is sent to
`base_url` only, and a redirect is refused. The key is in no file, no error and no repr, however a
server writes it back. A request is counted in the file before it is sent, so a kill can only count
too much.

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

# Below the level of a warning these write what a server sends, which may hold the key.
for _logger in ("httpx2", "httpcore2"):
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
        prompt_tokens = 0
        reply_tokens = 0
        for name, row in self.items():
            if name not in ended:
                prompt_tokens += row["tokens"][0]
                reply_tokens += row["tokens"][1]
        return prompt_tokens, reply_tokens

    def keep(self, key: str, reply: str | None, tokens: Iterable[int], **details: object) -> None:
        """Write down how a request began or ended.

        reply: the judge's text, or None where there is none.
        tokens: (prompt, reply).
        details: what else is worth a look.
        """
        self.add({key: {"reply": reply, "tokens": [int(n) for n in tokens], **details}})


def _is_reply(row: dict) -> bool:
    """Whether a row of the file has every field of a reply, each of the right type."""
    if not isinstance(row.get("key"), str) or "reply" not in row:
        return False
    if not isinstance(row["reply"], str | None):
        return False
    tokens = row.get("tokens")
    if not isinstance(tokens, list) or len(tokens) != 2:
        return False
    if not all(type(count) is int for count in tokens):
        return False
    log_probs = row.get("log_probs", {})
    if not isinstance(log_probs, dict):
        return False
    return all(isinstance(value, float) for value in log_probs.values())


# What may stand before a verdict on a line of its own: a few words such as "My final verdict is:".
# Only these words are allowed, so that a sentence that quotes a verdict ("The answer ends with the
# words Rating: [[10]]") is not taken for one.
_LABEL = r"(?:(?:my |the |final |overall )*(?:rating|score|verdict)(?: is)?(?: tie)?\s*:?\s*)?"


class Scale(NamedTuple):
    """A form of verdict: where it stands in a text, what it says, and how to ask for it again.

    pattern: a regular expression with the verdict's inside as its group 1. It also matches what is
        off the scale, so that `[[11]]` beside `[[5]]` is two verdicts and not one.
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
        log_probs = np.array([by_name.get(name, -np.inf) for name in self.names])
        if not np.isfinite(log_probs).any():
            return self.parse(row["reply"], judged)
        return float(np.exp(log_probs[0] - np.logaddexp.reduce(log_probs)))

    def verdicts_in(self, text: str) -> list[str | float | None]:
        """The verdicts in a text in their order, None for one that is off the scale."""
        return [self.value(inside) for inside in re.findall(self.pattern, text)]

    def parse(self, reply: str, judged: Iterable[str] = ()) -> float | str | None:
        """The verdict of a reply, or None where it has none that can be trusted.

        A reply that is a verdict and nothing else is that verdict. Otherwise the last verdict
        counts. Where the reply has several different ones, the last must stand on the last line
        alone. A verdict that one of the judged texts contains is never taken: the judge may have
        quoted it.

        judged: the texts under judgement.
        """
        verdicts = self.verdicts_in(reply)
        if not verdicts:
            return None
        if self._stands_alone(reply.strip()):
            return verdicts[0]
        texts = [_bare(text) for text in judged]
        # A verdict may be split over two texts.
        texts += ["".join(texts), "".join(texts[::-1])]
        planted: set[str | float | None] = set()
        for text in texts:
            planted.update(self.verdicts_in(text))
        different = {*verdicts, *self.verdicts_in(_bare(reply))}
        if len(different) > 1:
            last_line = reply.strip().splitlines()[-1]
            if not self._stands_alone(last_line.strip()):
                return None
        if verdicts[-1] in planted:
            return None
        return verdicts[-1]

    def _stands_alone(self, text: str) -> bool:
        """Whether a text is one verdict and nothing else but a label, bold type and a full stop."""
        alone = rf"[*_\s]*{_LABEL}[*_\s]*{self.pattern}[*_\s]*\.?[*_\s]*"
        # A page of blanks or stars would take the pattern minutes.
        text = re.sub(r"([*_\s])[*_\s]+", r"\1", text)
        return re.fullmatch(alone, text, re.IGNORECASE) is not None


# Brackets that are two in one sign or stand for two, and letters that look like A and B.
_LOOK_ALIKES = str.maketrans(
    {
        **dict.fromkeys("⟦〚【〖", "[["),
        **dict.fromkeys("⟧〛】〗", "]]"),
        "≫": ">>",
        **dict.fromkeys("\u0410\u0391", "A"),
        **dict.fromkeys("\u0412\u0392", "B"),
    }
)


def _bare(text: str) -> str:
    """A text without all that a judge who quotes it may leave out or put right.

    Then `[[1&#48;]]` plants a 10 as well. Undone are escapes, compatibility forms such as
    full-width digits, digits of other scripts and other brackets. White space, quotes, marks of
    Markdown and characters without width are left out.
    """
    for _ in range(3):
        text = _unescaped(unicodedata.normalize("NFKC", text))
    replacements = {}
    for character in set(text):
        if _may_be_left_out(character):
            replacements[ord(character)] = ""
        else:  # a digit of any script becomes 0 to 9, any other character stays
            replacements[ord(character)] = str(unicodedata.decimal(character, character))
    return text.translate(replacements).translate(_LOOK_ALIKES)


def _may_be_left_out(character: str) -> bool:
    """Whether a character is white space, a quote, a mark of Markdown, or has no width."""
    if character.isspace() or character in "\\*_`~\"'+|":
        return True
    return unicodedata.category(character) in ("Cf", "Mn")


_ESCAPE = r"[\\%](?:u\{?(?:00)?|x)([0-9a-fA-F]{2})\}?|\\([\"'\\/])"


def _unescaped(text: str) -> str:
    """A text without one layer of the escapes of URLs, HTML, JSON and Python."""
    return re.sub(_ESCAPE, _escaped_character, html.unescape(unquote(text)))


def _escaped_character(escape: re.Match) -> str:
    """The character that a match of `_ESCAPE` stands for."""
    if escape[2]:
        return escape[2]
    return chr(int(escape[1], 16))


def _rating(inside: str) -> float | None:
    """A grade from 1 to 10 with at most one decimal, or None.

    Judges write 7.5 between two grades; [[7.25]] or [[1e1]] is no grade.
    """
    if not re.fullmatch(r"\d{1,2}(\.\d)?", inside, re.ASCII):
        return None
    grade = float(inside)
    return grade if 1 <= grade <= 10 else None


COMPARISONS = ("A>>B", "A>B", "A=B", "B>A", "B>>A")


def _comparison(inside: str) -> str | None:
    """One of `COMPARISONS`, or None."""
    return inside if inside in COMPARISONS else None


RATING = Scale(
    r"\[\[[ \t]*([-+]?[0-9][0-9.,/e]*)[ \t]*\]\]",
    _rating,
    "Now write your rating alone, a number from 1 to 10 in double brackets as in [[n]], "
    "and nothing else.",
)

COMPARISON = Scale(
    r"\[\[[ \t]*([AB<>=]+)[ \t]*\]\]",
    _comparison,
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
    timeout: seconds that a whole request may take.
    tries: how often a request is sent at most. It is sent again after 429, 5xx, a timeout, a lost
        connection, or a reply that is no chat completion.
    wait: seconds before the second try. The next waits are twice and four times as long, and so on.
        A server's Retry-After counts instead where there is one.
    longest_wait: seconds between two tries at most.
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
    wait: float = 1.0
    longest_wait: float = 120.0
    reasks: int = 2

    def __post_init__(self) -> None:
        try:
            address = httpx2.URL(self.base_url)
        except httpx2.InvalidURL:
            address = httpx2.URL()
        is_http = address.scheme in ("http", "https") and address.host
        if not is_http or not 0 <= (address.port or 0) < 2**16:
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
                "key_variable is the name of an environment variable, as OPENAI_API_KEY, "
                "never the key"
            )
        smallest = min(
            self.reply_tokens,
            self.in_flight,
            self.tries,
            self.reasks + 1,
            self.timeout,
            self.wait,
            self.longest_wait,
        )
        if smallest <= 0:
            raise ValueError(
                "reply_tokens, in_flight, tries and seconds must be above 0, reasks at least 0"
            )

    @property
    def local(self) -> bool:
        """Whether the endpoint is on this machine; then no key is needed and no proxy is used."""
        host = httpx2.URL(self.base_url).host
        return re.fullmatch(r"localhost|::1|127(\.\d{1,3}){3}", host) is not None

    @property
    def secure(self) -> bool:
        """Whether what is sent cannot be read on its way."""
        return self.base_url.lower().startswith("https:")

    def request(self, messages: Sequence[tuple[str, str]], attempt: int) -> tuple[str, dict]:
        """The request for some messages: its name in the file, and its body as it is sent.

        The name is a digest of the whole body (model, messages, temperature ..) and the attempt.
        The address is not in it: the same model behind another address is the same judge, and is
        not paid again.

        attempt: 0 for the first request of an ask.
        """
        sent_messages = []
        for role, text in messages:
            # Half a surrogate pair, which JSON may hold, cannot be sent.
            sent_messages.append({"role": role, "content": text.encode(errors="replace").decode()})
        body = {
            "model": self.model,
            "messages": sent_messages,
            "temperature": 0.0,
            "max_tokens": self.reply_tokens,
            **self.extra,
        }
        body = {name: value for name, value in body.items() if value is not None}
        return content_key([body, attempt], 32), body

    @property
    def longest_reply(self) -> int:
        """Tokens that a reply can have. A request counts with so many until its reply is there."""
        limits = [self.extra.get(name) or 0 for name in ("max_tokens", "max_completion_tokens")]
        return max(self.reply_tokens, *limits)

    def cost(self, tokens: Sequence[float]) -> float:
        """What (prompt, reply) tokens cost; nan where no price is known."""
        if not self.price:
            return float("nan")
        return float(np.dot(tokens, self.price)) / 1e6

    def key_missing(self) -> str:
        """Why nothing can be asked, or ""; the key itself is not in it."""
        key = os.environ.get(self.key_variable, "")
        if key and not re.fullmatch("[!-~]+", key):
            return (
                f"the environment variable {self.key_variable} holds white space, a line break "
                "perhaps, or another sign that no key has: set it again"
            )
        if self.local:
            return ""
        if self.secure:
            if key:
                return ""
            return (
                f"the environment variable {self.key_variable} is not set; "
                f"{self.base_url} needs a key"
            )
        if self.allow_http or not key:
            return ""
        return (
            f"the environment variable {self.key_variable} holds a key, and http would carry it "
            f"readable to {self.base_url}: use https, allow_http=True, or, for no key, a "
            "key_variable that is not set"
        )

    def estimate(self, asks: Sequence[Ask], file: str | Path | None = None) -> pd.DataFrame:
        """One row about what `verdicts` will send: requests, tokens and cost; and what was paid.

        Nothing is sent here. The expected numbers count a token for every four bytes of a prompt.
        They count a reply as long as the file's replies on average, or a quarter of reply_tokens
        where it has none. Second questions are not counted. The numbers "at most" count a token for
        every byte, and replies of full length.
        """
        replies = Replies(file)
        n_requests, expected, most = self._first_requests(asks, replies)
        paid = replies.paid
        row = {
            "judge": self.model,
            "questions": len(asks),
            "requests": n_requests,
            "prompt tokens": round(expected[0]),
            "reply tokens": round(expected[1]),
            "cost": self.cost(expected),
            "tokens at most": sum(most),
            "cost at most": self.cost(most),
            "tokens paid before": sum(paid),
            "cost before": self.cost(paid),
        }
        return pd.DataFrame([row])

    def _first_requests(
        self, asks: Sequence[Ask], replies: Replies
    ) -> tuple[int, tuple[float, float], tuple[int, int]]:
        """How many first requests are still to be sent, and their tokens as expected and at most.

        Tokens are (prompt, reply), of all these requests together.
        """
        bodies = dict(self.request(ask.messages, 0) for ask in asks)  # equal asks are one request
        sizes = [prompt_bytes(body) for key, body in bodies.items() if key not in replies]
        earlier = [
            row["tokens"][1]
            for row in replies.values()
            if row.get("attempt") == 0 and row["reply"] is not None
        ]
        usual_reply = self.reply_tokens / 4
        if earlier:
            usual_reply = sum(earlier) / len(earlier)
        n_requests = len(sizes)
        expected = (sum(sizes) / 4, usual_reply * n_requests)
        most = (sum(sizes), self.longest_reply * n_requests)
        return n_requests, expected, most

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
        reply is there, a request counts with as many tokens as its prompt has bytes, and
        `longest_reply` more.

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
                problem = self.key_missing()
                if problem:
                    raise JudgeError(f"{problem}; {len(todo)} of {len(asks)} verdicts are missing")
                _, expected, _ = self._first_requests(todo, replies)
                if requests.could_pass(expected):
                    raise CapReached(
                        f"{len(todo)} verdicts, of about {sum(expected):,.0f} tokens, would pass "
                        f"the cap ({requests.cap_words()}): nothing was sent"
                    )
                stopped = requests.ask_all(todo)
        missing = [ask.id for ask in asks if ask.id not in requests.verdicts]
        if missing:
            problem = (
                f"{len(missing)} of {len(asks)} verdicts are missing; the others are kept, "
                "ask again for these"
            )
            if stopped:
                raise type(stopped)(f"{stopped}. {problem}")
            raise JudgeError(f"{problem}. Of {missing[0]}: {requests.failed[missing[0]]}")
        return [requests.verdicts[ask.id] for ask in asks]


def unparsable(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """The verdicts that could not be read, to be shown beside every score.

    Columns: id, replies (how many were asked for) and last reply.
    """
    rows = [(v.id, v.replies, v.reply) for v in verdicts if v.value is None]
    return pd.DataFrame(rows, columns=["id", "replies", "last reply"])


def prompt_bytes(body: Mapping) -> int:
    """Bytes of a prompt's texts, and 16 a message for the chat format: it has no more tokens."""
    return sum(len(message["content"].encode()) + 16 for message in body["messages"])


# Questions in a row that no try could answer. The server is then taken for dead, and the other
# questions are not asked.
BARREN = 8

# Seconds between the first requests. If they were sent at once, their replies would come at once,
# and requests would queue in every round.
APART = 0.002

# Bytes of a response that are read: a reply of 100,000 tokens has a fifth of them.
LARGEST = 2**22

# After these errors no server has seen the request.
_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.LocalProtocolError,
    httpx2.UnsupportedProtocol,
)


class _NoReply(Exception):
    """A request without a reply.

    again: whether a later try may get one.
    paid: whether it may have cost tokens.
    wait: the seconds that the server asks for.
    """

    def __init__(
        self, problem: str, *, again: bool = True, paid: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(problem)
        self.again = again
        self.paid = paid
        self.wait = wait


def _is_worth_a_try(error: BaseException) -> bool:
    """Whether a request that ended in this error may get a reply later."""
    return isinstance(error, _NoReply) and error.again


class Requests:
    """The requests of one call of `Judge.verdicts`, and what they have cost.

    Tokens are counted as arrays [2], of prompts and of replies.

    paid: tokens, also those that requests under way can take.
    verdicts: by the id of the ask.
    failed: why an ask has no verdict, by its id.
    """

    def __init__(
        self, judge: Judge, replies: Replies, token_cap: int, cost_cap: float | None
    ) -> None:
        self.judge = judge
        self.replies = replies
        self.token_cap = token_cap
        self.cost_cap = cost_cap
        self.paid = np.array(replies.paid)  # [2]
        self.verdicts: dict[str, Verdict] = {}
        self.failed: dict[str, str] = {}
        self.request = functools.cache(judge.request)  # of long prompts it takes a while
        self.n_under_way = 0
        self.one_ended = anyio.Event()  # a new one is made each time that it is set
        self.slots = anyio.CapacityLimiter(judge.in_flight)
        self.failures_in_a_row = 0
        self.resume_at = 0.0  # on the monotonic clock; no request is sent before
        self.send = tenacity.retry(
            wait=self._seconds_to_wait,
            retry=tenacity.retry_if_exception(_is_worth_a_try),
            stop=tenacity.stop_after_attempt(judge.tries),
            reraise=True,
        )(self._send_once)

    # What is known

    def needed(self, ask: Ask) -> tuple[str, dict, int] | None:
        """The (key, body, attempt) of the request that an ask still needs, or None.

        None means that the ask needs no more requests: its verdict is then in `verdicts`.
        """
        messages = ask.messages
        for attempt in range(1 + self.judge.reasks):
            key, body = self.request(messages, attempt)
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
        if total.sum() > self.token_cap:
            return True
        return self.cost_cap is not None and self.judge.cost(total) > self.cost_cap

    def cap_words(self) -> str:
        """The caps and what was paid, for a message."""
        words = f"cap {self.token_cap:,} tokens, paid so far {self.paid.sum():,}"
        if self.cost_cap is not None:
            words += f"; in money cap {self.cost_cap:g}, paid {self.judge.cost(self.paid):.2f}"
        return words

    # Asking. An error or an interrupt cancels all requests that wait. Those under way are shielded,
    # and their replies are still written down.

    def ask_all(self, asks: Sequence[Ask]) -> JudgeError | None:
        """Ask until every ask has its verdict or has failed.

        Returns why nothing more may be sent, if that is so.
        """
        try:
            # A notebook's own thread has an event loop running already.
            with start_blocking_portal() as portal:
                portal.call(self._ask_all, asks)
        except ExceptionGroup as errors:
            if not isinstance(errors.exceptions[0], JudgeError):
                raise errors.exceptions[0] from None
            return errors.exceptions[0]
        return None

    async def _ask_all(self, asks: Sequence[Ask]) -> None:
        """Ask all questions at once; asks with the same first request are one question."""
        by_request: dict[str, list[Ask]] = {}
        for ask in asks:
            key, _ = self.request(ask.messages, 0)
            by_request.setdefault(key, []).append(ask)
        async with self._new_client() as self.client, anyio.create_task_group() as group:
            for position, same_asks in enumerate(by_request.values()):
                delay = APART * min(position, self.judge.in_flight)
                group.start_soon(self._answer, same_asks, delay)

    def _new_client(self) -> httpx2.AsyncClient:
        """An HTTP client that sends the key in its headers."""
        judge = self.judge
        return httpx2.AsyncClient(
            # The key goes from the environment into the client and into no name here: tracebacks
            # may show names.
            headers={
                "Authorization": f"Bearer {os.environ.get(judge.key_variable) or 'none'}",
                "Accept-Encoding": "identity",  # what is not compressed cannot grow
            },
            # A connection for each request: what a server sends after its reply is then not taken
            # for the next reply.
            limits=httpx2.Limits(max_connections=judge.in_flight, max_keepalive_connections=0),
            timeout=httpx2.Timeout(judge.timeout, connect=judge.timeout / 2),
            trust_env=not judge.local,
            # Over plain HTTP there is no certificate to look at, and reading the list of
            # authorities takes 40 ms.
            verify=judge.secure,
        )

    async def _answer(self, same_asks: Sequence[Ask], delay: float) -> None:
        """Wait `delay` seconds, then get the verdict on asks that are one question to the judge."""
        await anyio.sleep(delay)
        async with self.slots:
            for ask in same_asks:
                try:
                    while request := self.needed(ask):
                        key, body, attempt = request
                        await self.send(key, body, attempt, ask.id)
                except _NoReply as failure:
                    problem = str(failure)
                    if failure.again:
                        problem = f"gave up after {self.judge.tries} tries; the last: {failure}"
                        self.failures_in_a_row += 1
                    self.failed[ask.id] = problem
                    if self.failures_in_a_row >= BARREN:
                        raise JudgeError(
                            f"{BARREN} questions in a row failed; {ask.id}: {failure}"
                        ) from None

    async def _send_once(self, key: str, body: dict, attempt: int, ask_id: str) -> None:
        """Send a request once its cost fits under the caps, and write down how it ended.

        The request is counted before it is sent.
        """
        most = np.array([prompt_bytes(body), self.judge.longest_reply])  # [2]
        await self._wait_for_room(most)
        sent = f"sent {os.urandom(16).hex()}"
        self.replies.keep(sent, None, most, id=ask_id, attempt=attempt)
        self.paid += most
        self.n_under_way += 1
        name = f"{sent} failed"
        row = {"reply": None, "tokens": most}
        try:
            row = await self._reply_to(body)
            name = key
            self.failures_in_a_row = 0
        except (_NoReply, JudgeError) as failure:
            row["problem"] = str(failure)
            # Where it may have been paid it counts in full: a cap is never passed unseen.
            if not getattr(failure, "paid", False):
                row["tokens"] = (0, 0)
            raise
        finally:
            self.replies.keep(name, **row, id=ask_id, attempt=attempt, sent=sent)
            self.paid += row["tokens"] - most
            self.n_under_way -= 1
            self.one_ended.set()
            self.one_ended = anyio.Event()

    def _seconds_to_wait(self, tried: tenacity.RetryCallState) -> float:
        """How long to wait before the next try of a request."""
        judge = self.judge
        server_asks = getattr(tried.outcome.exception(), "wait", None)
        if server_asks is None:
            longest = tenacity.wait_exponential(judge.wait, judge.longest_wait)(tried)
            # Drawn, so that requests refused together do not come back together.
            return longest * random.uniform(0.5, 1.0)
        if server_asks > judge.longest_wait:
            raise JudgeError(
                f"the server asks to come back in {server_asks:,.0f} s, "
                f"longest_wait is {judge.longest_wait:g} s"
            )
        # What the server says of one request holds for all.
        self.resume_at = max(self.resume_at, time.monotonic() + server_asks)
        return server_asks + random.uniform(0, 0.1 * judge.wait)

    async def _wait_for_room(self, most: np.ndarray) -> None:
        """Wait until a request may be sent and fits under the caps, whatever it may cost.

        most: the tokens [2] that it can take.
        """
        await anyio.sleep(0)  # a request that was cancelled ends here
        while (wait := self.resume_at - time.monotonic()) > 0:
            await anyio.sleep(wait)
        while self.could_pass(most):
            if not self.n_under_way:
                raise CapReached(
                    f"the next request may take {most.sum():,} tokens, which could pass the cap "
                    f"({self.cap_words()})"
                )
            await self.one_ended.wait()

    async def _reply_to(self, body: dict) -> dict:
        """Send one request; returns its reply and tokens.

        Raises _NoReply, or JudgeError where no try can help.
        """
        url = self.judge.base_url.rstrip("/") + "/chat/completions"
        content = bytearray()
        try:
            with anyio.fail_after(self.judge.timeout, shield=True):
                async with self.client.stream("POST", url, json=body) as response:
                    async for part in response.aiter_raw():
                        content += part
                        if len(content) > LARGEST:
                            break
        except (TimeoutError, httpx2.HTTPError) as error:
            if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
                problem = f"no reply within {self.judge.timeout:g} s"
            else:
                shown = self._shown(str(error).encode(errors="replace"))
                problem = f"connection lost: {type(error).__name__} {shown}"
            raise _NoReply(problem, paid=not isinstance(error, _NOT_SENT)) from None
        if not response.is_success:
            raise self._status_error(response, content)
        if len(content) > LARGEST:
            raise _NoReply(f"the reply is longer than {LARGEST:,} bytes", paid=True)
        try:
            return self._read_completion(content, body)
        except (ValueError, KeyError, IndexError, TypeError, RecursionError, AttributeError):
            raise _NoReply(
                f"the reply is no chat completion: {self._shown(content)}", paid=True
            ) from None

    def _status_error(self, response: httpx2.Response, content: bytes) -> _NoReply | JudgeError:
        """The error for a status: JudgeError where all other requests will end in the same way."""
        status = response.status_code
        problem = f"HTTP {status}: {self._shown(content)}"
        # A used-up account also says 429, and waiting does not fill it.
        account_is_empty = b'"insufficient_quota"' in content
        if status >= 500 or (status in (408, 409, 429) and not account_is_empty):
            # A gateway that gave up waiting may have left a model that did not.
            paid = status in (504, 524)
            return _NoReply(problem, wait=_retry_after(response.headers), paid=paid)
        if status in (400, 413, 422):  # this request is too long, say: the others go on
            return _NoReply(problem, again=False)
        hint = ""
        if status in (401, 403):
            hint = f" is {self.judge.key_variable} right?"
        elif 300 <= status < 400:
            hint = " it redirects, and the key is sent nowhere else"
        return JudgeError(f"{self.judge.base_url}, model {self.judge.model}: {problem}{hint}")

    def _read_completion(self, content: bytes, body: dict) -> dict:
        """Reply, tokens and log-probabilities of a chat completion.

        Raises ValueError, KeyError, IndexError, TypeError, RecursionError or AttributeError for
        content that is none.
        """
        completion = json.loads(content)
        choice = completion["choices"][0]
        message = choice["message"]
        text = message["content"]
        if text is None:
            text = message.get("refusal") or ""
        if not isinstance(text, str):
            raise TypeError
        usage = completion.get("usage")
        if not isinstance(usage, dict):
            usage = {}
        tokens = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
        if not all(type(count) is int and 0 <= count < 2**40 for count in tokens):
            # Some local servers do not count: as many as there can be.
            tokens = [prompt_bytes(body), len(text.encode(errors="replace"))]
        row = {"reply": self._clean(text), "tokens": tokens}
        if body.get("logprobs"):
            by_position = (choice.get("logprobs") or {}).get("content")
            if by_position:
                row["log_probs"] = _log_probs_of_letters(by_position[0]["top_logprobs"])
        return row

    def _clean(self, text: str) -> str:
        """A text from outside that may be written down: encodable, without the key in any form."""
        clean = text
        for _ in range(4):
            for form in _forms(os.environ.get(self.judge.key_variable, "")):
                if form in text:
                    text = text.replace(form, "[key]")
                    clean = text
            text = _unescaped(text)
        return clean.encode(errors="replace").decode()

    def _shown(self, text: bytes) -> str:
        """The beginning of a text from outside, as a message may hold it.

        It is clean and quoted, and has no control characters.
        """
        return repr(self._clean(text.decode(errors="replace"))[:300])[:302]


def _log_probs_of_letters(candidates: Sequence[Mapping]) -> dict[str, float]:
    """The log-probabilities of those candidates for a token that are a single letter."""
    log_probs = {}
    for candidate in candidates:
        token = candidate["token"]
        log_prob = float(candidate["logprob"])
        if len(token) == 1:
            log_probs[token] = log_prob
    return log_probs


def _forms(key: str) -> list[str]:
    """The forms in which a text may hold a key: as it is, in hex, and in base64.

    In base64 a key looks different after 0, 1 or 2 other bytes in its group of three. Of each of
    these, the form has the letters that the key alone decides.
    """
    if len(key) < 6:
        return []
    in_base64 = []
    for before in range(3):  # bytes that share a group of three with the key's first
        start = (before * 8 + 5) // 6  # a letter holds 6 bits
        end = (before + len(key)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            letters = encode(bytes(before) + key.encode()).decode()
            in_base64.append(letters[start:end])
    in_hex = key.encode().hex()
    return [key, in_hex, in_hex.upper(), *in_base64]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by the headers Retry-After-Ms or Retry-After; None where they say nothing.

    Retry-After holds seconds or a date.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            seconds = float(headers[name]) * unit
            if seconds >= 0:
                return seconds
    with suppress(ValueError, OverflowError, TypeError):
        date = parsedate_to_datetime(headers.get("retry-after"))
        return max(0.0, date.timestamp() - time.time())
    return None
