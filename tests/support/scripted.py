"""An engine that writes what a test tells it to, token by token, through the library's own `Sequence`.

Everything after the logits is real: masks, sampling, stop texts, the parser, the flush at the end. One token is one
byte or one special token. `hold()` stops all generation until `release()`, so that a test can act in between.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from narrows import Vocabulary
from narrows.engines.api import EngineStats, Request
from narrows.engines.output_queue import OutputQueue, QueueStream
from narrows.engines.sequence import Sequence as RunningSequence
from narrows.errors import EngineError, LimitError, TokenError

SPECIAL = {"<|im_start|>": 256, "<|im_end|>": 257, "<|endoftext|>": 258}
SIZE = 259
Script = Callable[[Request, int], str]


def byte_vocabulary() -> Vocabulary:
    return Vocabulary([bytes([b]) for b in range(256)] + [b"", b"", b""], special=SPECIAL, eos=[257, 258])


class ScriptedEngine:
    """`script(request, index)` is the text that sequence `index` of a request would write before it ends."""

    model_name = "scripted"
    max_num_seqs = 16
    special_tokens: Mapping[str, str] = {"eos_token": "<|im_end|>", "bos_token": ""}
    eos_token_ids = frozenset((257, 258))
    add_bos = False

    def __init__(
        self, script: Script | str = "Hello.", *, max_model_len: int = 1_000_000, chat_template: str | None = None
    ) -> None:
        self.script: Script = script if callable(script) else lambda request, index: script
        self.max_model_len = max_model_len
        self.chat_template = chat_template
        self.vocabulary = byte_vocabulary()
        self.requests: list[Request] = []
        self.finished: Counter[str] = Counter()
        self.queue_full = False
        self.fails_at: int | None = None
        """Tokens after which a sequence fails."""
        self.holds_at: int | None = None
        """Tokens of a sequence after which the engine holds by itself."""
        self.dead: EngineError | None = None
        self._go = threading.Event()
        self._go.set()
        self._closed = False
        self._running = 0
        self._lock = threading.Lock()

    def hold(self) -> None:
        self._go.clear()

    def release(self) -> None:
        self._go.set()

    @property
    def running(self) -> int:
        """The number of requests that are not over."""
        return self._running

    def encode(self, text: str, *, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        if len(text) > 4 * self.max_model_len:
            raise LimitError("the text cannot fit the context", code="context_length_exceeded", limit="max_model_len")
        if not parse_special:
            return list(text.encode())
        ids: list[int] = []
        while text:
            at, name = min(((text.find(name), name) for name in SPECIAL if name in text), default=(len(text), ""))
            ids += text[:at].encode()
            if name:
                ids.append(SPECIAL[name])
            text = text[at + len(name) :]
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(t for t in token_ids if t < 256).decode(errors="replace")

    def text_of(self, token_ids: Sequence[int]) -> str:
        """Ids as text. Special tokens stand in double angle brackets, so they cannot be mistaken for their names."""
        names = {i: f"«{name}»" for name, i in SPECIAL.items()}
        out, run = "", bytearray()
        for token in token_ids:
            if token < 256:
                run.append(token)
            else:
                out += run.decode() + names[token]
                run.clear()
        return out + run.decode()

    def generate(self, request: Request) -> QueueStream:
        if self.dead is not None:
            raise self.dead
        if self.queue_full:
            raise LimitError("the queue is full", code="queue_full", limit="max_queue")
        wanted = len(request.prompt_token_ids) + (request.sampling.max_tokens or 1)
        if wanted > self.max_model_len:
            raise LimitError("the prompt is too long", code="context_length_exceeded", limit="max_model_len")
        for name, ids in (
            ("prompt_token_ids", request.prompt_token_ids),
            ("stop_token_ids", request.sampling.stop_token_ids),
        ):
            if not all(0 <= token < SIZE for token in ids):
                raise TokenError(f"{name} holds an id outside 0..{SIZE - 1}", pointer=f"/{name}")
        self.requests.append(request)
        queue = OutputQueue(request.n, lambda queue: None)
        sequences = [
            RunningSequence(request, i, arrival=i, vocabulary=self.vocabulary, limit=self.max_model_len, queue=queue)
            for i in range(request.n)
        ]
        with self._lock:
            self._running += 1
        threading.Thread(target=self._run, args=(request, sequences, queue), daemon=True).start()
        return QueueStream(queue)

    def _run(self, request: Request, sequences: list[RunningSequence], queue: OutputQueue) -> None:
        try:
            scripts = [self._tokens(request, i) for i in range(request.n)]
            for sequence in sequences:
                try:
                    sequence.open()
                except Exception as error:
                    sequence.fail(error)
            while not all(sequence.finished for sequence in sequences):
                if self.holds_at is not None and any(s.output_length >= self.holds_at for s in sequences):
                    self.hold()
                while not self._go.wait(0.005) and not queue.abandoned and not self._closed:
                    pass
                for sequence, tokens in zip(sequences, scripts, strict=True):
                    if sequence.finished:
                        continue
                    if queue.abandoned or self._closed:
                        sequence.finish("abort")
                        continue
                    if self.fails_at is not None and sequence.output_length >= self.fails_at:
                        sequence.fail(EngineError("the model has failed", code="sequence_failed"))
                        continue
                    logits = np.zeros(SIZE, dtype=np.float32)
                    logits[tokens[min(sequence.output_length, len(tokens) - 1)]] = 1000.0
                    sequence.step(logits)
        finally:
            with self._lock:
                self._running -= 1
                self.finished.update(str(sequence.finish_reason) for sequence in sequences)

    def _tokens(self, request: Request, index: int) -> list[int]:
        return [*self.encode(self.script(request, index), parse_special=True), 257]

    def abort(self, request_id: str) -> None:
        raise NotImplementedError

    def stats(self) -> EngineStats:
        return EngineStats(running=self._running, finished_total=dict(self.finished))

    def describe(self) -> Mapping[str, Any]:
        return {"engine": "scripted"}

    def check_health(self) -> None:
        if self.dead is not None:
            raise self.dead

    def close(self) -> None:
        self._closed = True
        self._go.set()
