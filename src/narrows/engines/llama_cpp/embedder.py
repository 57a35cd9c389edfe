"""Embeddings beside generation: a queue, and one thread that computes them.

The thread has a context of its own, so it waits for no step of the decode loop, and the loop never waits for it. Its
priority is low (as that of the lane `apart`, lanes.py), and threads of llama.cpp that it starts inherit that. So
streams go on at nearly their speed. Embeddings get the time that they leave, and about a tenth of it where they leave
none.

Requests take turns: each decode has one input of each, round and round, as many as fit. So a request with a thousand
inputs does not keep the next one waiting. What is computed together is bounded so that a text has the same vector,
whatever is beside it. Cost: the time of the prompts.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from narrows.engines.api import Embeddings
from narrows.engines.checks import check_ids
from narrows.engines.llama_cpp.embedding_context import EmbeddingContext
from narrows.engines.llama_cpp.lanes import lower_priority
from narrows.engines.llama_cpp.model import LlamaModel
from narrows.errors import EngineError, InputError, LimitError, NarrowsError

_log = logging.getLogger(__name__)


class _Job:
    """A request."""

    def __init__(self, inputs: list[Sequence[int]]) -> None:
        self.inputs = inputs
        self.begun = 0
        """Inputs that are computed, or being computed."""
        self.vectors: list[NDArray[np.float32]] = []
        self.future: Future[Embeddings] = Future()

    def finish(self) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(Embeddings(vectors=self.vectors, prompt_tokens=sum(len(ids) for ids in self.inputs)))

    def fail(self, error: NarrowsError) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Embedder:
    """Computes vectors until `close`. Thread-safe."""

    def __init__(self, model: LlamaModel, context: EmbeddingContext, *, max_queue: int, longest_token: int) -> None:
        self._model = model
        self._context = context
        self._max_queue = max_queue
        self._longest_token = longest_token
        self._changed = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._computing = False
        self._closing = self._draining = False
        self._thread = threading.Thread(target=self._run, name="narrows-embeddings", daemon=True)
        self._thread.start()

    def submit(self, inputs: Sequence[str | Sequence[int]], *, pooled: bool) -> Future[Embeddings]:
        """See `api.Embeds.embed`."""
        if pooled and self._context.pooling == "none":
            raise InputError(
                "the model names no pooling, so there is a vector for each token and none for an input",
                code="pooling_none",
                hint="Start it with --pooling mean, or last",
            )
        job = _Job([self._read(one, f"/{i}") for i, one in enumerate(inputs)])
        with self._changed:
            if self._closing or self._draining:
                raise EngineError("the engine is closed, or takes no new requests", code="engine_closed")
            if len(self._jobs) > self._max_queue:
                raise LimitError(
                    f"{len(self._jobs)} requests for embeddings are waiting",
                    code="queue_full",
                    limit="max_queue",
                    hint="Try again later",
                )
            if job.inputs:
                self._jobs.append(job)
            else:
                job.finish()
            self._changed.notify_all()
        return job.future

    def _read(self, one: str | Sequence[int], pointer: str) -> Sequence[int]:
        most = self._context.tokens
        if isinstance(one, str):
            if len(one) > most * self._longest_token:
                raise _too_long(f"{len(one)} characters", most, pointer)
            ids: Sequence[int] = self._model.encode(one, parse_special=True, add_special=True)
        else:
            ids = one
            try:
                check_ids(ids, "an input", self._model.vocab_size)
            except InputError as error:
                error.pointer = pointer
                raise
        if not len(ids):
            raise InputError("an input is empty", code="prompt_empty", pointer=pointer, hint="Leave it out")
        if len(ids) > most:
            raise _too_long(f"{len(ids)} tokens", most, pointer)
        return ids

    def drain(self, timeout: float | None) -> bool:
        """Refuse new requests, and wait until those that are here have ended. False if `timeout` seconds were not
        enough."""
        with self._changed:
            self._draining = True
            return self._changed.wait_for(lambda: not self._jobs and not self._computing, timeout)

    def owns(self, thread: threading.Thread) -> bool:
        return thread is self._thread

    def close(self) -> None:
        """End what waits and what runs with `EngineError` code engine_closed, and free the context. Idempotent."""
        with self._changed:
            self._closing = True
            self._context.abort.request()
            self._changed.notify_all()
        self._thread.join()
        self._context.close()

    # The thread.

    def _run(self) -> None:
        lower_priority()
        while taken := self._next():
            try:
                vectors = self._context.compute([job.inputs[i] for job, i in taken])
            except NarrowsError as error:
                self._fail({job for job, _ in taken}, error)
            except Exception as error:
                _log.exception("embeddings failed")
                self._fail({job for job, _ in taken}, EngineError(f"embeddings failed: {error}"))
            else:
                for (job, _), vector in zip(taken, vectors, strict=True):
                    job.vectors.append(vector)
                    if len(job.vectors) == len(job.inputs):
                        job.finish()
            del taken
        for job in self._jobs:
            job.fail(EngineError("the engine is closed", code="engine_closed"))

    def _fail(self, jobs: set[_Job], error: NarrowsError) -> None:
        with self._changed:
            self._jobs = deque(job for job in self._jobs if job not in jobs)
        for job in jobs:
            job.fail(error)

    def _next(self) -> list[tuple[_Job, int]]:
        """The inputs of the next decode, as (request, number of its input). None when the engine is closing."""
        with self._changed:
            self._computing = False
            self._changed.notify_all()
            while True:
                if self._closing:
                    return []
                if taken := self._take():
                    self._computing = True
                    return taken
                self._changed.wait()

    def _take(self) -> list[tuple[_Job, int]]:
        taken: list[tuple[_Job, int]] = []
        room = self._context.together
        while self._jobs and len(taken) < self._context.sequences:
            job = self._jobs[0]
            if job.future.cancelled():
                self._jobs.popleft()
                continue
            size = len(job.inputs[job.begun])
            if taken and size > room:
                break  # it is the first of the next decode
            room -= size
            taken.append((job, job.begun))
            job.begun += 1
            self._jobs.popleft()
            if job.begun < len(job.inputs):
                self._jobs.append(job)
        return taken


def _too_long(size: str, most: int, pointer: str) -> LimitError:
    return LimitError(
        f"an input of {size} is too long: an embedding takes at most {most} tokens",
        code="context_length_exceeded",
        pointer=pointer,
        limit="embd_batch",
        hint="Shorten it, or start the server with --embd-batch-size N",
    )
