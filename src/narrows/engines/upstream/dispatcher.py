"""Runs sequences at the upstream: one thread, one event loop, a task for each sequence that has a place."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter

from narrows.engines.api import EngineStats
from narrows.engines.output_queue import OutputQueue
from narrows.engines.sequence import Sequence
from narrows.engines.upstream.client import Client
from narrows.engines.upstream.running import run
from narrows.engines.upstream.servers import Server
from narrows.engines.upstream.waiting import Places
from narrows.errors import EngineError, LimitError
from narrows.grammar.export import Written

HEALTH_SECONDS = 5.0
"""Between two looks at the upstream's health; a fifth of it while it is down."""


class Dispatcher:
    """`submit`, `abort`, `stats`, `check`, `drain` and `close` may be called from any thread."""

    def __init__(self, client: Client, server: Server, *, max_num_seqs: int, max_queue: int, limit: int) -> None:
        self._client = client
        self._server = server
        self._most = max_num_seqs + max_queue
        self._limit = limit
        self._places = Places(max_num_seqs)
        self._grammars: dict[Sequence, Written | None] = {}
        """Of all sequences that are not over."""
        self._tasks: dict[Sequence, asyncio.Task[None]] = {}
        self._lock = threading.Lock()
        self._unfinished = 0
        self._closing = False
        self._down: EngineError | None = None
        self._finished: Counter[str] = Counter()
        self._prompt_tokens = self._cached_tokens = self._generated_tokens = 0
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="narrows-upstream", daemon=True)
        self._thread.start()

    def submit(self, sequences: list[Sequence], grammar: Written | None) -> None:
        """Raises LimitError `queue_full`, and EngineError `engine_closed`."""
        with self._lock:
            if self._closing:
                raise EngineError("the engine takes no more requests", code="engine_closed")
            if self._unfinished + len(sequences) > self._most:
                raise LimitError(
                    f"{self._unfinished} sequences run and wait, and {self._most} may",
                    code="queue_full",
                    limit="max_queue",
                    hint="Try again in a moment",
                )
            self._unfinished += len(sequences)
            self._loop.call_soon_threadsafe(self._add, sequences, grammar)

    def abort(self, queue: OutputQueue) -> None:
        """End the sequences of a queue."""
        with self._lock:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._end_all, queue)

    def stats(self) -> EngineStats:
        return EngineStats(
            running=self._places.running,
            waiting=self._places.waiting,
            prompt_tokens_total=self._prompt_tokens,
            cached_tokens_total=self._cached_tokens,
            generation_tokens_total=self._generated_tokens,
            retries_total=self._client.retries_total,
            finished_total=dict(self._finished),
        )

    def check(self) -> None:
        """Raises EngineError `engine_closed`, or `upstream_unreachable` while the upstream does not answer."""
        if self._loop.is_closed():
            raise EngineError("the engine is closed", code="engine_closed")
        if self._down is not None:
            raise self._down

    def drain(self, timeout: float | None) -> bool:
        """Take nothing new, and wait for what is there. Whether all has ended."""
        with self._lock:
            self._closing = True
        until = None if timeout is None else time.monotonic() + timeout
        while self._unfinished and (until is None or time.monotonic() < until):
            time.sleep(0.01)
        return not self._unfinished

    def close(self) -> None:
        """End all sequences, and the thread. Idempotent."""
        with self._lock:
            self._closing = True
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    # In the event loop.

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._until_closed())
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            with self._lock:
                self._loop.close()

    async def _until_closed(self) -> None:
        self._client.open()
        watching = asyncio.ensure_future(self._watch())
        try:
            await self._stop.wait()
        finally:
            watching.cancel()
            for sequence in list(self._grammars):
                self._end(sequence)
            await asyncio.gather(watching, *self._tasks.values(), return_exceptions=True)
            await self._client.close()

    def _add(self, sequences: list[Sequence], grammar: Written | None) -> None:
        for sequence in sequences:
            self._grammars[sequence] = grammar
            if sequence.queue.abandoned or self._stop.is_set():
                self._end(sequence)
            else:
                self._places.add(sequence)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while (sequence := self._places.next()) is not None:
            self._tasks[sequence] = asyncio.ensure_future(self._run(sequence))

    async def _run(self, sequence: Sequence) -> None:
        self._prompt_tokens += sequence.prompt_length
        room = self._limit - sequence.prompt_length
        most = sequence.request.sampling.max_tokens
        room = room if most is None else min(most, room)
        try:
            self._cached_tokens += await run(sequence, self._server, self._client, self._grammars[sequence], room)
            self._down = None
        except asyncio.CancelledError:
            sequence.finish("abort")
        except Exception as error:
            sequence.fail(error)
            if isinstance(error, EngineError) and error.code == "upstream_unreachable":
                self._down = error
        finally:
            self._places.leave(sequence)
            del self._tasks[sequence]
            self._over(sequence)
            self._start_waiting()

    def _over(self, sequence: Sequence) -> None:
        del self._grammars[sequence]
        self._generated_tokens += sequence.output_length
        self._finished[str(sequence.finish_reason)] += 1
        with self._lock:
            self._unfinished -= 1

    def _end_all(self, queue: OutputQueue) -> None:
        for sequence in list(self._grammars):
            if sequence.queue is queue:
                self._end(sequence)

    def _end(self, sequence: Sequence) -> None:
        task = self._tasks.get(sequence)
        if task is not None:
            task.cancel()
            return
        self._places.discard(sequence)
        sequence.finish("abort")
        self._over(sequence)

    async def _watch(self) -> None:
        """Look at the upstream's health from time to time."""
        path = self._server.health
        while True:
            await asyncio.sleep(HEALTH_SECONDS if self._down is None else HEALTH_SECONDS / 5)
            is_up = await self._client.is_up(path)
            self._down = (
                None
                if is_up
                else EngineError(
                    f"the upstream {self._client.root} does not answer {path}", code="upstream_unreachable"
                )
            )
