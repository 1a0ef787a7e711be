"""A vLLM server on loopback, as far as rollouts ask it: completions of token ids, and its
development endpoints.

What it samples follows from the seed, the prompt and the weights that it has read, and from nothing
else. `plan`, of the completion's number, may return the bytes to send in its place (b"": the
connection is closed) and a status.
"""

import hashlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

STEPS = [
    "/sleep?level=2",
    "/wake_up?tags=weights",
    "/collective_rpc",
    "/wake_up?tags=kv_cache",
    "/reset_prefix_cache",
]


def sampled(
    seed: int, prompt: list[int], weights: str, longest: int
) -> tuple[list[int], list[float]]:
    """What the server samples: tokens below 2,000 and their log-probabilities."""
    drawn = random.Random(f"{seed} {prompt} {weights}")
    tokens = [drawn.randrange(100, 2000) for _ in range(drawn.randint(1, longest))]
    return tokens, [-drawn.random() for _ in tokens]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.reply({"data": [{"id": "served", "root": str(self.server.folder)}]})

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
        if self.path != "/v1/completions":
            with server.lock:
                server.steps.append(self.path)
            if self.path == "/collective_rpc" and body == {"method": "reload_weights"}:
                server.read()
            return self.reply(None)
        with server.lock:
            number = len(server.bodies)
            server.bodies.append(body)
        time.sleep(random.random() * 0.01)  # the replies come in another order than the requests
        if planned := server.plan(number):
            return self.reply(*planned)
        assert "sleep" not in "".join(server.steps[-4:]), "asked while it has no weights"
        tokens, log_probs = sampled(
            body["seed"], body["prompt"], server.weights, body["max_tokens"]
        )
        about = {
            "finish_reason": "stop" if len(tokens) < body["max_tokens"] else "length",
            "token_ids": tokens,
        }
        return self.reply({"choices": [about | {"logprobs": {"token_logprobs": log_probs}}]})

    def reply(self, content: object, status: int = 200) -> None:
        if content == b"":
            self.close_connection = True
            return
        sent = b"" if content is None else json.dumps(content).encode()
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        """Quiet: what was asked is kept."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def read(self) -> None:
        """Take the weights that lie in the folder."""
        files = sorted(self.folder.glob("*.safetensors"))
        self.weights = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

    def handle_error(self, *_: object) -> None:
        """A client that gave up is no error here."""


@contextmanager
def serve(
    folder: Path, plan: Callable[[int], tuple | None] = lambda number: None
) -> Iterator[_Server]:
    """Serve `folder` on a free port; yields the server with `url`, `bodies` of completions, `steps` and `weights`."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.plan, server.lock, server.folder, server.bodies, server.steps = (
        plan,
        threading.Lock(),
        Path(folder),
        [],
        [],
    )
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.read()
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
