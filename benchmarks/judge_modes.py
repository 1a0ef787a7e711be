"""The judge client against a server that does everything wrong, and against twelve kills. No
network, no money.

Each mode is one way of a server on loopback to answer: 200s of many forms, statuses, waits asked
for, torn, slow and endless bodies, the key sent back in every dress. The client must answer each
question rightly and once, or raise one clear error, within seconds; it must count no fewer tokens
than were served, and no byte that it writes (file, log, error with local values) may hold a part of
the key. Then a run of 32 requests in flight is killed twelve times.
"""

import asyncio
import base64
import gzip
import io
import json
import logging
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

import common

from hs2lib.evaluate.judge import RATING, Ask, Judge, JudgeError, Replies

KEY, VARIABLE = "sk-hs2/modes+0123456789~abcdefXYZ", "HS2_MODES_KEY"
QUESTIONS, PROMPT, REPLY = 6, 40, 10  # and the tokens that every answer takes
KILLS, IN_FLIGHT, REPLY_TOKENS = 12, 32, 64

# A server's answer: bytes to send, seconds to wait, None to close the connection.
Steps = Iterable[bytes | float | None]


def asks(n: int, label: str = "question") -> list[Ask]:
    return [
        Ask(f"q{i}", (("system", "You judge."), ("user", f"{label} {i}")), RATING) for i in range(n)
    ]


def grade(number: int) -> int:
    """The right answer to a question."""
    return 1 + number % 10


# --- what the server sends
# -----------------------------------------------------------------------------------------


def http(content: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A whole response."""
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def completion(number: int, text: str | None = "Rating: [[{}]]", **changes) -> bytes:
    """A chat completion; `{}` of its text is the right grade."""
    message = {"role": "assistant", "content": text and text.replace("{}", str(grade(number)))}
    row = {"model": "served", "usage": {"prompt_tokens": PROMPT, "completion_tokens": REPLY}}
    row["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
    return json.dumps(row | changes).encode()


def chunked(content: bytes, size: int) -> bytes:
    """A whole response in chunks."""
    parts = [content[i : i + size] for i in range(0, len(content), size)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"


@dataclass(frozen=True)
class Mode:
    """A way of answering: what is sent to question `number`, what must come of it, and whether
    tokens were taken.

    once: only the first try of a question meets it, the next is answered as it should be.
    """

    name: str
    steps: Callable[[int], Steps]
    answers: bool = True
    once: bool = False
    paid: bool = True

    def to(self, number: int, nth: int) -> Steps:
        return [http(completion(number))] if self.once and nth else self.steps(number)

    def took(self, nth: int) -> int:
        """Tokens that the try took on the server."""
        return (PROMPT + REPLY) * (self.paid or (self.once and nth > 0))


def good() -> Iterator[Mode]:
    """Answers that a client has to understand."""

    def text(name: str, form: Callable[[int], bytes]) -> Mode:
        return Mode(name, lambda n: [http(form(n))])

    yield text("a plain answer", completion)
    for name, usage in {
        "usage null": None,
        "usage of text": {"prompt_tokens": "40", "completion_tokens": "10"},
        "usage below zero": {"prompt_tokens": -1, "completion_tokens": -5},
        "usage true and a fraction": {"prompt_tokens": True, "completion_tokens": 0.5},
        "usage of 400 digits": {"prompt_tokens": 10**400, "completion_tokens": 10**400},
        "usage a list": [40, 10],
    }.items():
        yield text(name, lambda n, usage=usage: completion(n, usage=usage))
    yield text("no finish_reason, no model", lambda n: completion(n, model=None))
    yield text(
        "two choices",
        lambda n: completion(n).replace(b'"choices": [', b'"choices": [' + CHOICE % grade(n)),
    )
    yield text("UTF-8 with a mark", lambda n: b"\xef\xbb\xbf" + completion(n))
    yield text("UTF-16", lambda n: completion(n).decode().encode("utf-16"))
    yield text("blanks before and after", lambda n: b" \r\n" * 2000 + completion(n) + b"\n" * 2000)
    yield text(
        "stars without end, then a grade",
        lambda n: completion(n, "*" * 60_000 + "\nRating: [[{}]]"),
    )
    yield text(
        "odd characters", lambda n: completion(n, "\u0000\x1b[2J \ud800 \u202e Rating: [[{}]]")
    )
    yield Mode("chunks of one byte", lambda n: [chunked(completion(n), 1)])
    yield Mode(
        "byte after byte, slowly",
        lambda n: [x for b in http(completion(n)) for x in (bytes([b]), 0.0002)],
    )
    yield Mode(
        "HTTP/1.0, until it closes", lambda n: [b"HTTP/1.0 200 OK\r\n\r\n" + completion(n), None]
    )
    yield Mode(
        "100 and 103 first",
        lambda n: [b"HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 103 Soon\r\n\r\n" + http(completion(n))],
    )
    yield Mode("status 201", lambda n: [http(completion(n), "201 Created")])
    yield Mode("each answer twice", lambda n: [http(completion(n)) * 2])
    yield Mode(
        "another answer after it", lambda n: [http(completion(n)) + http(completion(n + 1)), 0.01]
    )
    yield Mode("rubbish after it", lambda n: [http(completion(n)) + b"\x00rubbish\r\n\r\n"])
    yield Mode(
        "cookies",
        lambda n: [http(completion(n), "200 OK", *(f"Set-Cookie: c{i}={i}" for i in range(500)))],
    )
    yield Mode(
        "the key in headers",
        lambda n: [http(completion(n), "200 OK", f"X-Echo: Bearer {KEY}", f"Set-Cookie: k={KEY}")],
    )
    yield Mode("the key in the reason", lambda n: [http(completion(n), f"200 {KEY}")])
    yield text(
        "the key as model and finish",
        lambda n: completion(n, model=KEY).replace(b"stop", KEY.encode()),
    )
    for name, form in FORMS.items():
        yield text(
            f"the key in a reply, {name}",
            lambda n, form=form: completion(n, f"{form(KEY)}\nRating: [[{{}}]]"),
        )


CHOICE = b'{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "[[%d]]"}}, '

# The key as a server may write it.
FORMS = {
    "as it is": str,
    "for Python": lambda key: "".join(f"\\x{ord(c):02x}" for c in key),
    "for JSON": lambda key: "".join(f"\\u{ord(c):04X}" for c in key),
    "for URLs": lambda key: quote(key, safe=""),
    "for URLs, whole": lambda key: "".join(f"%{ord(c):02x}" for c in key),
    "for HTML": lambda key: "".join(f"&#{ord(c)};" for c in key),
    "hex": lambda key: key.encode().hex(),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 of a header": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "base64 for URLs": lambda key: base64.urlsafe_b64encode(f"me:{key}".encode()).decode(),
}


def passing() -> Iterator[Mode]:
    """Faults of the first try: the next one is answered."""
    for name, body in {
        "empty": b"",
        "null": b"null",
        "a list": b"[1, 2]",
        "a text": b'"Rating: [[3]]"',
        "choices empty": b'{"choices": []}',
        "choices an object": b'{"choices": {"0": 1}}',
        "message a text": b'{"choices": [{"message": "Rating: [[3]]"}]}',
        "content a number": b'{"choices": [{"message": {"content": 3}}]}',
        "content a list": b'{"choices": [{"message": {"content": ["Rating: [[3]]"]}}]}',
        "no UTF-8": b"\xff\xfe\xff Rating: [[3]]",
        "nested deeply": b"[" * 100_000,
        "a page": b"<html>Rating: [[3]]</html>",
        "an error as 200": b'{"error": {"message": "overloaded"}}',
        "events": b'data: {"choices": [{"delta": {"content": "Rating: [[3]]"}}]}\n\ndata: [DONE]\n\n',
        "a number too long": b'{"choices": ' + b"9" * 5000 + b"}",
        "gzip": gzip.compress(completion(2)),
    }.items():
        yield Mode(f"body: {name}", lambda n, body=body: [http(body)], once=True)
    cut = http(completion(2))
    for name, steps in {
        "closed at once": [None],
        "closed after half of the headers": [cut[:30], None],
        "closed after half of the body": [cut[:-60], None],
        "closed in a chunk": [chunked(completion(2), 50)[:150], None],
        "headers, then silence": [cut[:-60], 2.0],
        "silence": [2.0],
        "no HTTP": [b"SSH-2.0-OpenSSH_9.6\r\n", None],
        "a negative length": [b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", None],
        "two lengths": [
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nnull  ",
            None,
        ],
        "headers without end": [b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"y" * 8000 + b"\r\n"] * 40],
        "100 without end": [b"HTTP/1.1 100 Go\r\n\r\n" * 100] * 2000,
    }.items():
        yield Mode(name, lambda n, steps=steps: steps, once=True)
    yield Mode("status 204", lambda n: [b"HTTP/1.1 204 Nothing\r\n\r\n"], once=True)
    for status in (
        "408 Late",
        "409 Conflict",
        "429 Busy",
        "500 Error",
        "502 Gateway",
        "503 Busy",
        "529 Busy",
        "599 X",
    ):
        yield Mode(
            f"status {status[:3]}", lambda n, s=status: [http(b"<html>", s)], once=True, paid=False
        )
    yield Mode("status 504, and yet it was answered", lambda n: [http(b"", "504 Late")], once=True)
    waits = {header: header for header in ("0", "0.05", "5e-2", "-3", "nan", "soon", "1, 2", "")}
    waits |= {"a date, now": formatdate(usegmt=True), "a date of 1970": formatdate(0, usegmt=True)}
    for name, header in waits.items():
        busy = http(b"{}", "429 Busy", f"Retry-After: {header}")
        yield Mode(f"Retry-After: {name}", lambda n, busy=busy: [busy], once=True, paid=False)
    busy = http(b"{}", "503 Busy", "Retry-After-Ms: 20", "Retry-After: 99")
    yield Mode("Retry-After-Ms: 20", lambda n: [busy], once=True, paid=False)


def lasting() -> Iterator[Mode]:
    """What never gets better: one clear error."""

    def always(name: str, *steps, paid: bool = True) -> Mode:
        return Mode(name, lambda n: steps, answers=False, paid=paid)

    for status in (301, 302, 304, 307, 308, 400, 401, 402, 403, 404, 405, 413, 418, 422, 500):
        more = ["Location: /v1/elsewhere"] * (status < 400)
        yield always(
            f"always {status}",
            http(b'{"error": {"message": "no"}}', f"{status} No", *more),
            paid=False,
        )
    yield always(
        "always 101",
        b"HTTP/1.1 101 Switch\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        None,
        paid=False,
    )
    quota = b'{"error": {"message": "pay first", "code": "insufficient_quota"}}'
    yield always("no money left", http(quota, "429 Busy"), paid=False)
    for text in ("3600", "1e9", "1e400", "inf", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"):
        yield always(
            f"Retry-After: {text[:40]}", http(b"{}", "429 Busy", f"Retry-After: {text}"), paid=False
        )
    yield always("a body without end", HEAD, *[b"x" * 65_536] * 4000)
    yield always(
        "an error without end",
        HEAD.replace(b"200 OK", b"400 No"),
        *[b"x" * 65_536] * 4000,
        paid=False,
    )
    bomb = zlib.compressobj(wbits=31)
    bomb = bomb.compress(bytes(2**28)) + bomb.flush()
    yield always("a bomb in gzip", http(bomb, "200 OK", "Content-Encoding: gzip"))
    yield always(
        "a bomb in gzip as an error", http(bomb, "400 No", "Content-Encoding: gzip"), paid=False
    )
    yield always(
        "content with an encoding of its own", http(b"x", "200 OK", "Content-Encoding: key")
    )
    yield always(
        "usage of a billion",
        http(completion(0, usage={"prompt_tokens": 10**9, "completion_tokens": 10**9})),
    )
    for name, form in FORMS.items():
        for status in ("401 No", "400 No", "500 No"):
            text = f"{'x' * 280 * (status > '41')}{form(KEY)} is no key of ours"
            yield always(
                f"the key in a {status[:3]}, {name}", http(text.encode(), status), paid=False
            )
        yield always(f"the key in what is no JSON, {name}", http(f"{form(KEY)}".encode()))
    yield always("the key in a broken header", f"HTTP/1.1 200 OK\r\n{KEY}\r\n\r\n".encode(), None)
    yield always("the key in place of a status", f"{KEY} 200 OK\r\n\r\n".encode(), None)


# --- the server
# ----------------------------------------------------------------------------------------------------


class Server:
    """Answers by `mode`, and counts what it was asked and what that took."""

    def __init__(self) -> None:
        self.mode = next(good())
        self.asked, self.took, self.elsewhere, self.keys = Counter(), 0, 0, set()
        self.loop = asyncio.new_event_loop()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                body = json.loads(
                    await reader.readexactly(int(re.search(r"(?i)content-length: (\d+)", head)[1]))
                )
                question = body["messages"][-1]["content"]
                nth = self.asked[question]
                self.asked[question] += 1
                self.took += self.mode.took(nth)
                self.elsewhere += not head.startswith("POST /v1/chat/completions ")
                self.keys.add(re.search(r"(?i)authorization: (.*)\r", head)[1])
                await self.send(writer, self.mode.to(int(question.split()[-1]), nth))
        writer.close()

    async def send(self, writer: asyncio.StreamWriter, steps: Steps) -> None:
        for step in steps:
            if step is None:
                raise ConnectionError
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                writer.write(step)
                await writer.drain()


@contextmanager
def serve() -> Iterator[tuple[Server, str]]:
    server, ready = Server(), threading.Event()

    async def run() -> None:
        listening = await asyncio.start_server(server.connection, "127.0.0.1", 0, backlog=256)
        server.port = listening.sockets[0].getsockname()[1]
        server.loop, server.end = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await server.end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield server, f"http://127.0.0.1:{server.port}/v1"
    finally:
        server.loop.call_soon_threadsafe(server.end.set)
        thread.join(5)


# --- the client, mode by mode
# --------------------------------------------------------------------------------------


def traces() -> list[str]:
    """Parts of the key that no written byte may hold: each 12 signs of it, as they are or in any dress."""
    parts = [KEY[i : i + 12] for i in range(len(KEY) - 11)]
    out = {
        form(part)
        for name, form in FORMS.items()
        for part in parts
        if not name.startswith("base64")
    }
    for before in ("", "B", "BB"):
        for coded in (base64.b64encode, base64.urlsafe_b64encode):
            text = coded((before + KEY).encode()).decode()[4:-4]
            out |= {text[i : i + 14] for i in range(len(text) - 13)}
    return sorted(out)


def run_mode(
    server: Server, url: str, mode: Mode, folder: Path, log: io.StringIO
) -> tuple[dict, list[str]]:
    """What one mode comes to, and what is wrong with that."""
    server.mode, server.took, server.asked, wrong = mode, 0, Counter(), []
    label, file = re.sub(r"\W+", "-", mode.name), folder / f"{len(list(folder.iterdir()))}.jsonl"
    options = {
        "in_flight": 3,
        "tries": 3,
        "wait": 0.01,
        "longest_wait": 1.0,
        "timeout": 0.6,
        "reply_tokens": REPLY_TOKENS,
    }
    judge = Judge("m", url, VARIABLE, **options)
    questions, right = asks(QUESTIONS, label), [grade(i) for i in range(QUESTIONS)]
    began, outcome, written = time.perf_counter(), "answered", ""
    try:
        verdicts = judge.verdicts(questions, file=file, token_cap=100_000)
        if [v.value for v in verdicts] != right:
            wrong.append(f"grades {[v.value for v in verdicts]}, not {right}")
        written = repr(verdicts)
    except JudgeError as error:
        outcome = str(error)
        written = "".join(
            traceback.TracebackException.from_exception(error, capture_locals=True).format()
        )
    except Exception as error:
        wrong.append(f"raised {type(error).__name__}: {str(error)[:200]}")
        outcome = "raised"
    seconds = time.perf_counter() - began
    if (outcome == "answered") != mode.answers:
        wrong.append(f"expected {'answers' if mode.answers else 'an error'}, got {outcome[:200]!r}")
    if "\n" in outcome or len(outcome) > 700:
        wrong.append("the error is no line")
    counted, took, before = sum(Replies(file).paid), server.took, dict(server.asked)
    if counted < took:
        wrong.append(f"{counted} tokens counted, {took} taken")
    kept = {row["id"] for row in Replies(file).values() if row["reply"] is not None}
    written += file.read_text() + log.getvalue()
    shown = [trace for trace in traces() if trace in written]
    if shown:
        wrong.append(f"{len(shown)} parts of the key were written, {shown[0]!r}")
    log.seek(0)
    log.truncate()
    server.mode = MODES[0]
    if "a billion" not in mode.name:  # what was counted there leaves nothing under the cap
        again = judge.verdicts(questions, file=file, token_cap=10**6)
        if [v.value for v in again] != right:
            wrong.append("not all answered in the next run")
        asked_again = [
            id for id in kept if server.asked[f"{label} {id[1:]}"] != before[f"{label} {id[1:]}"]
        ]
        replies = Counter(row["id"] for row in Replies(file).values() if row["reply"] is not None)
        if asked_again or set(replies.values()) != {1}:
            wrong.append(f"answered before and asked again: {asked_again}, {replies}")
    shown = re.sub(r"127.0.0.1:\d+", "127.0.0.1", outcome)
    requests = sum(before.values())
    return {
        "outcome": shown,
        "requests": requests,
        "counted": counted,
        "taken": took,
        "seconds": round(seconds, 2),
    }, wrong


# --- kills
# ---------------------------------------------------------------------------------------------------------

CHILD = f"""
import sys
from hs2lib.evaluate.judge import RATING, Ask, Judge
n, options = int(sys.argv[3]), {{"in_flight": {IN_FLIGHT}, "reply_tokens": {REPLY_TOKENS}}}
asks = [Ask(f"q{{i}}", (("system", "You judge."), ("user", f"question {{i}}")), RATING) for i in range(n)]
Judge("m", sys.argv[1], {VARIABLE!r}, **options).verdicts(asks, file=sys.argv[2], token_cap=10**9)
"""


def kills(
    server: Server, url: str, folder: Path, n: int = 2500, seed: int = 0
) -> tuple[list[dict], list[str]]:
    """Kill a run again and again, each time after another number of requests; then let it end."""
    draw, file, rows, wrong = random.Random(seed), folder / "kills.jsonl", [], []
    answers = Mode("kills", lambda i: [draw.uniform(0.005, 0.1), http(completion(i))])
    server.mode, server.took, server.asked = answers, 0, Counter()
    for _ in range(KILLS):
        goal = sum(server.asked.values()) + draw.randint(40, 160)
        child = subprocess.Popen([sys.executable, "-c", CHILD, url, str(file), str(n)])
        while sum(server.asked.values()) < goal and child.poll() is None:
            time.sleep(0.002)
        child.kill()
        child.wait()
        time.sleep(0.3)  # what was on its way to the server is read
        counted = sum(Replies(file).paid)
        replies = sum(row["reply"] is not None for row in Replies(file).values())
        rows.append(
            {
                "requests": sum(server.asked.values()),
                "replies": replies,
                "taken": server.took,
                "counted": counted,
            }
        )
        if counted < server.took:
            wrong.append(f"after kill {len(rows)}: {counted} counted, {server.took} taken")
    kept = [row["id"] for row in Replies(file).values() if row["reply"] is not None]
    before = dict(server.asked)
    server.mode = MODES[0]
    verdicts = Judge("m", url, VARIABLE, in_flight=IN_FLIGHT, reply_tokens=REPLY_TOKENS).verdicts(
        asks(n), file=file, token_cap=10**9
    )
    if [v.value for v in verdicts] != [grade(i) for i in range(n)]:
        wrong.append("verdicts differ after the kills")
    if any(server.asked[f"question {id[1:]}"] != before[f"question {id[1:]}"] for id in kept):
        wrong.append("a reply that was kept was asked for again")
    replies = Counter(row["id"] for row in Replies(file).values() if row["reply"] is not None)
    if len(replies) != n or set(replies.values()) != {1}:
        wrong.append("a question has no reply, or two")
    return rows, wrong


MODES = [*good(), *passing(), *lasting()]


def main() -> None:
    os.environ[VARIABLE] = KEY
    log = io.StringIO()
    logging.basicConfig(stream=log, level=logging.DEBUG)
    results, faults = {}, {}
    with tempfile.TemporaryDirectory() as name, serve() as (server, url):
        folder = Path(name)
        for mode in MODES:
            results[mode.name], wrong = run_mode(server, url, mode, folder, log)
            if wrong:
                faults[mode.name] = wrong
                print(f"{mode.name}: {'; '.join(wrong)}", file=sys.stderr)
        rows, wrong = kills(server, url, folder)
        if wrong:
            faults["kills"] = wrong
        if server.elsewhere or server.keys != {f"Bearer {KEY}"}:
            faults["elsewhere"] = [
                f"{server.elsewhere} requests to other paths; keys of {len(server.keys)} kinds"
            ]
    assert len(results) == len(MODES), "two modes have one name"
    seconds = [result.pop("seconds") for result in results.values()]
    common.write(
        "judge_modes",
        compared=f"{len(MODES)} ways of a server to answer, {QUESTIONS} questions each, and {KILLS} kills",
        ratio=1 - len(faults) / (len(MODES) + 1),
        goal="each question answered rightly and once or one clear error, no part of the key written, none uncounted",
        met=not faults,
        check="grades by the question's number; files, debug logs and errors with local values searched for the key",
        faults=faults,
        kills=rows,
        modes=results,
        slowest_mode_s=max(seconds),
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        timings={"modes": [sum(seconds)]},
        packages=("httpx2", "tenacity"),
    )
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
