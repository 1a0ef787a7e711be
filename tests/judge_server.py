"""A judge on loopback: answers chat completions as a test says, keeps count of what it was asked
and what was paid.

A test gives `plan(question, nth)`: the text of the last user message and how often it was asked
before, to a `Reply`. By hand: `python tests/judge_server.py` serves "Rating: [[7]]" to everything,
50 ms each.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Reply:
    """What the server does: a status, a body (text makes a chat completion of it), headers,
    seconds, and faults.

    cut: bytes of the body that are sent before the connection closes, though the length of all of
    it was promised. twice: the whole response is sent a second time, in one write with the first.
    """

    text: str | None = "Rating: [[7]]"
    status: int = 200
    body: bytes | None = None
    headers: dict = field(default_factory=dict)
    delay: float = 0.0
    cut: int | None = None
    twice: bool = False


def completion(
    text: str | None, prompt_tokens: int = 40, completion_tokens: int = 10, **changes
) -> bytes:
    """A chat completion as an OpenAI-compatible server writes it."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    row = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-model",
        "usage": usage,
    }
    row["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
    return json.dumps(row | changes).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question = body["messages"][-1]["content"]
        with server.lock:
            nth = server.asked[question]
            server.asked[question] += 1
            server.bodies.append(body)
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.flying += 1
            server.most = max(server.most, server.flying)
        reply = server.plan(question, nth)
        time.sleep(reply.delay)
        content = reply.body if reply.body is not None else completion(reply.text)
        with server.lock:
            server.flying -= 1
            server.paid[question] += (
                reply.status == 200 and reply.body is None and reply.cut is None
            )
        with suppress(ConnectionError):
            self.send_response(reply.status)
            for name, value in ({"Content-Type": "application/json"} | reply.headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            head, self._headers_buffer = b"".join(self._headers_buffer) + b"\r\n", []
            self.wfile.write((head + content[: reply.cut]) * (1 + reply.twice))
        self.close_connection = self.close_connection or reply.cut is not None

    def log_message(self, *_: object) -> None:
        """Quiet: what was asked is counted."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A client that was killed or gave up is no error here."""


@contextmanager
def serve(plan: Callable[[str, int], Reply]) -> Iterator[_Server]:
    """Serve on a free port of 127.0.0.1; yields the server with `url`, `asked`, `paid`, `bodies`, `headers`, `most`."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.plan, server.lock, server.asked, server.paid = (
        plan,
        threading.Lock(),
        Counter(),
        Counter(),
    )
    server.bodies, server.headers, server.flying, server.most = [], [], 0, 0
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    with serve(lambda question, nth: Reply(delay=0.05)) as running:
        print(running.url, flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
