"""A small HTTP server that plays the few endpoints of the Hugging Face Hub that `huggingface_hub` asks for files.

    with fake_hub({"user/model": {"a.gguf": b"..."}}) as hub: ...  # hub.url is for HF_ENDPOINT

Repositories named `gated/...` are gated, and those named `private/...` are only there with the token `hf_secret`.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secret"
Files = Mapping[str, "bytes | Path"]


@dataclass
class FakeHub:
    repos: Mapping[str, Files]
    url: str = ""
    asked: list[str] = field(default_factory=list)
    """Method and path of every request."""
    broken: set[str] = field(default_factory=set)
    """Names of files whose connection is cut."""

    @property
    def fetched(self) -> list[str]:
        """The names of the files whose bytes were sent, in the order of their names."""
        return sorted(
            each.partition("/resolve/main/")[2] for each in self.asked if each.startswith("GET") and "/resolve/" in each
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(send=True)

    def do_HEAD(self) -> None:
        self._answer(send=False)

    def _answer(self, send: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        parts = path.removeprefix("/api/models").strip("/").split("/")
        repo, rest = "/".join(parts[:2]), parts[2:]
        files = self.hub.repos.get(repo)
        if repo.startswith("gated/"):
            self._send(403, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "ask for access"})
        elif files is None or (repo.startswith("private/") and self.headers.get("authorization") != f"Bearer {TOKEN}"):
            self._send(401, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif not rest:
            listed = [{"rfilename": name} for name in files]
            told = {"id": repo, "sha": COMMIT, "siblings": listed}
            self._send(200, json.dumps(told).encode(), {"Content-Type": "application/json"})
        elif rest[:1] == ["resolve"] and (name := "/".join(rest[2:])) in files:
            self._file(name, files[name], send)
        else:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})

    def _file(self, name: str, content: bytes | Path, send: bool) -> None:
        data = (
            content.read_bytes()
            if isinstance(content, Path) and send
            else content
            if isinstance(content, bytes)
            else b""
        )
        head = {"ETag": f'"{_etag(name, content)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if send and name in self.hub.broken:
            self.close_connection = True
            return
        self._send(200, data, head, _size(content))

    def _send(self, status: int, data: bytes, headers: Mapping[str, str], length: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _size(content: bytes | Path) -> int:
    return content.stat().st_size if isinstance(content, Path) else len(content)


def _etag(name: str, content: bytes | Path) -> str:
    return hashlib.sha1(content if isinstance(content, bytes) else name.encode()).hexdigest()


@contextmanager
def fake_hub(repos: Mapping[str, Files]) -> Iterator[FakeHub]:
    hub = FakeHub(repos)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
