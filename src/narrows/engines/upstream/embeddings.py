"""Embeddings of the upstream: `/v1/embeddings` is handed on, and its numbers come back as they are.

Cost: a few threads, which wait for the upstream.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from narrows.engines.api import Embeddings
from narrows.engines.upstream.client import Client, message_of
from narrows.errors import EngineError, LimitError

_THREADS = 4
"""Requests that are at the upstream at once. Further ones wait."""
_SECONDS = 600.0


class UpstreamEmbeddings:
    """Asks the upstream for embeddings, under its own name of the model."""

    def __init__(self, client: Client, model: str, max_queue: int) -> None:
        self._client = client
        self._places = threading.Semaphore(_THREADS + max_queue)
        self._model = model
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="narrows-embeddings")

    def submit(self, inputs: Sequence[str | Sequence[int]]) -> Future[Embeddings]:
        """Queue a request. Raises `LimitError` code queue_full, and `EngineError` code engine_closed."""
        if not self._places.acquire(blocking=False):
            raise LimitError(
                "too many requests for embeddings are waiting",
                code="queue_full",
                limit="max_queue",
                hint="Try again later",
            )
        try:
            future = self._threads.submit(self._ask, [one if isinstance(one, str) else list(one) for one in inputs])
        except RuntimeError:
            self._places.release()
            raise EngineError("the engine is closed", code="engine_closed") from None
        future.add_done_callback(lambda _: self._places.release())
        return future

    def _ask(self, inputs: list[Any]) -> Embeddings:
        body = {"model": self._model, "input": inputs, "encoding_format": "float"}
        status, answer = self._client.ask("/v1/embeddings", body, timeout=_SECONDS)
        if status != 200:
            raise EngineError(
                f"the upstream answered {status}: {message_of(answer) or 'it computes no embeddings'}",
                code="upstream_refused" if status < 500 or status == 501 else "upstream_failed",
            )
        try:
            found = sorted(answer["data"], key=lambda each: int(each["index"]))
            vectors = [np.asarray(each["embedding"], dtype=np.float32) for each in found]
            tokens = int(answer["usage"]["prompt_tokens"])
        except (KeyError, TypeError, ValueError):
            vectors, tokens = [], 0
        if len(vectors) != len(inputs) or any(vector.ndim != 1 for vector in vectors):
            raise EngineError("the upstream's embeddings cannot be read", code="upstream_failed")
        return Embeddings(vectors=vectors, prompt_tokens=tokens)

    def close(self) -> None:
        """Take no more requests. What waits is cancelled; what has begun ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
