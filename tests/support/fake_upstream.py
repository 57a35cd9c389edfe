"""A server that answers as a test tells it to, in the forms of the servers that narrows stands before.

    fake = FakeUpstream(owner="vllm")
    fake.answers += [refuse(503), stream(ids("Hello."))]

Its model's tokens are the 256 bytes and some special tokens (`folder`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SPECIAL = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
END = 257
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if tools %}<tool_call>{{ tools | tojson }}</tool_call>{% endif %}<|im_start|>assistant{{ '\\n' }}"
)


def folder(path: Path) -> Path:
    """Writes the model's tokenizer into a folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    # The alphabet in the order of the bytes that it stands for.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(next(others)) for byte in range(256) if byte not in letters}
    vocabulary = {letters[byte]: byte for byte in range(256)} | {name: 256 + i for i, name in enumerate(SPECIAL)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(path / "tokenizer.json"))
    config = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[1], "chat_template": TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def ids(text: str, end: bool = True) -> list[int]:
    """The ids of a text, in which special tokens stand by their names, and the end token."""
    found: list[int] = []
    while text:
        at, name = min(((text.find(name), name) for name in SPECIAL if name in text), default=(len(text), ""))
        found += text[:at].encode() + b""
        found += [256 + SPECIAL.index(name)] if name else []
        text = text[at + len(name) :]
    return found + [END] * end


Handler = Callable[["_Request"], None]


def refuse(status: int, message: str = "no", **headers: str) -> Handler:
    """An error answer."""

    def handle(request: _Request) -> None:
        request.answer(status, {"error": {"message": message}}, headers)

    return handle


def stream(tokens: Iterable[int], finish: str | None = "stop", pause: float = 0.0) -> Handler:
    """vLLM's events, one for each token. `finish` None: the stream ends without its end."""

    def handle(request: _Request) -> None:
        request.begin()
        given = list(tokens)
        for at, token in enumerate(given):
            last = finish if at == len(given) - 1 else None
            request.event({"choices": [{"index": 0, "text": "", "token_ids": [token], "finish_reason": last}]})
            time.sleep(pause)
        if finish is not None:
            request.write(b"data: [DONE]\n\n")

    return handle


def texts(pieces: Iterable[str], finish: str | None = "stop") -> Handler:
    """OpenAI's events, which have no ids."""

    def handle(request: _Request) -> None:
        request.begin()
        for piece in pieces:
            request.event({"choices": [{"index": 0, "text": piece, "finish_reason": None}]})
        request.event({"choices": [{"index": 0, "text": "", "finish_reason": finish}]})
        request.write(b"data: [DONE]\n\n")

    return handle


def events(given: Iterable[dict[str, Any]]) -> Handler:
    """These events."""

    def handle(request: _Request) -> None:
        request.begin()
        for event in given:
            request.event(event)

    return handle


class FakeUpstream(ThreadingHTTPServer):
    """`answers`: to the completions, in turn. `asked`: their bodies. `left`: set when a client leaves a stream."""

    daemon_threads = True

    def __init__(self, owner: str = "vllm") -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.owner = owner
        self.answers: list[Handler] = []
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.left = threading.Event()
        self.is_healthy = True
        self.has_narrows = False
        self.props: dict[str, Any] = {}
        self.tokenized: list[int] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.left.set()


@contextmanager
def fake_upstream(owner: str = "vllm") -> Iterator[FakeUpstream]:
    """A running one."""
    server = FakeUpstream(owner)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Request(BaseHTTPRequestHandler):
    server: FakeUpstream

    def do_GET(self) -> None:
        server = self.server
        server.keys.append(self.headers["authorization"])
        if self.path == "/v1/models":
            self.answer(200, {"data": [{"id": "org/small", "owned_by": server.owner, "max_model_len": 4096}]})
        elif self.path == "/props":
            self.answer(200, server.props)
        else:
            self.answer(200 if server.is_healthy else 503, {})

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/tokenize":
            self.answer(200, {"tokens": server.tokenized or list((body.get("prompt") or body["content"]).encode())})
        elif body.get("vllm_xargs", {}).get("narrows_regex") == "(":
            status = 400 if server.has_narrows else 200
            self.answer(status, {"error": {"message": "bad [narrows: regex_invalid]"}})
        else:
            server.asked.append({**body, "path": self.path})
            server.keys.append(self.headers["authorization"])
            server.answers.pop(0)(self)

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(data)), **(headers or {})}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()

    def event(self, event: dict[str, Any]) -> None:
        self.write(b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n")

    def write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
