"""A Hugging Face Hub on loopback: answers the Hub's protocol for data sets with the files of a
folder.

The folder holds OWNER/NAME/FILE.. as the Hub does. Every revision asked for exists, and is a commit
of its own if it looks like one. In a test: `with asked(folder, home):`, or `with serve(folder) as
url:` and a process whose HF_ENDPOINT is that url. By hand: `python tests/hub_server.py FOLDER`.
"""

import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import huggingface_hub
import pytest
from huggingface_hub import constants

_RESOLVE = re.compile(r"/datasets/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_API = re.compile(r"/api/datasets/(?P<repo>[^/]+/[^/]+?)(/revision/(?P<revision>[^/]+))?")
_TREE = re.compile(r"/api/datasets/(?P<repo>[^/]+/[^/]+)/tree/(?P<revision>[^/]+)(/(?P<file>.+))?")


class _Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        if self.server.seen is not None:
            self.server.seen.append(f"{self.command} {path}")
        if match := _TREE.fullmatch(path):
            self._tree(match, body)
        elif match := _RESOLVE.fullmatch(path):
            self._file(match, body)
        elif match := _API.fullmatch(path):
            self._info(match, body)
        else:
            self._refuse("NotFound", f"no such address: {path}", body)

    def _repo(self, match: re.Match, body: bool) -> tuple[Path, str] | None:
        repo = self.server.folder / match["repo"]
        if ".." in match["repo"] or not repo.is_dir():
            self._refuse("RepoNotFound", f"no data set {match['repo']}", body)
            return None
        revision = match["revision"] or "main"
        is_commit = re.fullmatch("[0-9a-f]{40}", revision)
        return repo, revision if is_commit else hashlib.sha1(revision.encode()).hexdigest()

    def _file(self, match: re.Match, body: bool) -> None:
        if (place := self._repo(match, body)) is None:
            return
        repo, commit = place
        file = (repo / match["file"]).resolve()
        if not (file.is_file() and file.is_relative_to(repo.resolve())):
            self._refuse(
                "EntryNotFound", f"no file {match['file']} in {match['repo']}", body, commit
            )
            return
        content = file.read_bytes()
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        # The Hub sends the X-Linked pair for files kept in LFS, as .gz and .parquet files are.
        linked = {"X-Linked-Etag": etag, "X-Linked-Size": str(len(content))}
        self._send(200, content, body, {"ETag": etag, "X-Repo-Commit": commit, **linked})

    def _info(self, match: re.Match, body: bool) -> None:
        if (place := self._repo(match, body)) is not None:
            repo, commit = place
            siblings = [{"rfilename": file.relative_to(repo).as_posix()} for file in _files(repo)]
            info = {
                "_id": "0",
                "id": match["repo"],
                "sha": commit,
                "private": False,
                "tags": [],
                "downloads": 0,
            }
            self._json({**info, "likes": 0, "siblings": siblings}, body)

    def _tree(self, match: re.Match, body: bool) -> None:
        if (place := self._repo(match, body)) is not None:
            repo, _ = place
            inside = match["file"] or ""
            entries = [
                {
                    "type": "file",
                    "path": path,
                    "size": file.stat().st_size,
                    "oid": hashlib.sha1(file.read_bytes()).hexdigest(),
                }
                for file in _files(repo)
                if (path := file.relative_to(repo).as_posix()).startswith(inside)
            ]
            self._json(entries, body)

    def _json(self, value: object, body: bool) -> None:
        self._send(200, json.dumps(value).encode(), body, {"Content-Type": "application/json"})

    def _refuse(self, code: str, message: str, body: bool, commit: str = "") -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self._send(
            404, message.encode(), body, headers | ({"X-Repo-Commit": commit} if commit else {})
        )

    def _send(self, status: int, content: bytes, body: bool, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Quiet: what was asked is in `seen`."""


def _files(repo: Path) -> list[Path]:
    return sorted(file for file in repo.rglob("*") if file.is_file())


@contextmanager
def serve(folder: str | Path, seen: list[str] | None = None) -> Iterator[str]:
    """Serve a folder on a free port of 127.0.0.1; yields the endpoint. `seen` collects "METHOD /path" as asked."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    server.folder, server.seen = Path(folder), seen
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def asked(folder: str | Path, home: Path, seen: list[str] | None = None) -> Iterator[str]:
    """Serve a folder as the Hub of this process, which keeps its cache in `home`: what the
    variables HF_ENDPOINT and HF_HOME say, but huggingface_hub reads those once, when it is
    imported."""
    with serve(folder, seen) as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", url)
        patch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        patch.setattr(constants, "HF_HUB_CACHE", str(home))
        patch.setenv("HF_ENDPOINT", url)
        patch.setenv("NO_PROXY", "127.0.0.1")
        huggingface_hub.close_session()
        yield url
    huggingface_hub.close_session()


if __name__ == "__main__":
    with serve(sys.argv[1]) as url:
        print(f"HF_ENDPOINT={url}", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
