"""Compiles definitions into constraints beside the event loop. Clients take turns: see compile_queue.py.

    quick lane   threads: read the definition under a small bound on work, then compile
    long lane    one thread: the child reads definitions over that bound (narrows.compiling), the thread compiles

Reading is Python and holds the interpreter lock, which the decoding thread needs. One request's schema would make every
stream wait. Measured with steps of 11 ms and two schemas of a second each: read in threads, the steps take 160 ms
(50 ms with a switch interval of 1 ms in place of 5); read in the child, 11 ms. The core compiles, and fills the first
mask, without that lock.

The models of a server share the lanes: however many models there are, as many threads work, and clients take turns in
one queue. Each model has its own child, since that knows one vocabulary.

Requests to one model for the same definition share one job. A job that no request waits for any more leaves its queue.
If the child is reading it, the child is ended.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from narrows.compiling.definition import FlatGrammar, Report, read_definition
from narrows.compiling.messages import Setup
from narrows.compiling.process import Reader, Stopped
from narrows.engines.api import TakesGrammars
from narrows.errors import EngineError, LimitError, NarrowsError
from narrows.limits import Limits
from narrows.server import memory
from narrows.server.compile_queue import CompileQueue
from narrows.server.logs import log

if TYPE_CHECKING:
    from narrows import Constraint, Vocabulary
    from narrows.formats import Format

QUICK = {"reading_work": 5_000, "ir_nodes": 2_000}
"""Limits of the quick lane: about 5 ms each, which a request costs anyway. So long definitions in this lane delay the
others no more than ordinary requests do."""
QUICK_BYTES = 20_000
"""Longer definitions go to the child at once."""
HEARD_SECONDS = 5.0
"""Seconds to wait for the event loop to take a job's outcome, before it is sent again."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A constraint, and the keywords of its definition that it does not enforce."""

    constraint: Constraint
    loose: tuple[str, ...]
    """Pointers into the definition, to keywords that are not enforced."""
    report: Report | None = None
    """Of a "reported" definition (compiling/definition.py)."""
    handed_bytes: int = 0
    """What an engine keeps beside it (`TakesGrammars`)."""


Outcome = Compiled | NarrowsError | Exception


@dataclass(eq=False, slots=True)
class Job:
    """One definition that is being compiled, and the clients that wait for it."""

    of: Compiler
    key: bytes
    definition: list[Any]
    text: bytes
    """The definition as JSON."""
    ends: asyncio.Future[Outcome]
    lane: Lane
    clients: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


@dataclass(eq=False, slots=True)
class Lane:
    workers: int
    queue: CompileQueue[Job] = field(default_factory=CompileQueue)
    under_way: set[Job] = field(default_factory=set)


class Lanes:
    """The threads of a server that compile, and the jobs of all models. Use from one event loop."""

    def __init__(self, threads: int = 2) -> None:
        self.pool = ThreadPoolExecutor(threads + 1, thread_name_prefix="narrows-compile")
        self.quick = Lane(threads)
        self.long = Lane(1)
        self.jobs: set[Job] = set()
        """Those that wait or are being worked on."""


class _TooLong(Exception):
    """The definition met a bound of the quick lane that is smaller than the server's own."""


class Compiler:
    """Use from one event loop. `observe(seconds)` is called after each job. `keep(key, compiled)` is called before the
    waiting requests get the result. `taker`: an engine that has to see each grammar first. `lanes`: shared with other
    compilers."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        fmt: Format,
        limits: Limits,
        *,
        keep: Callable[[bytes, Compiled], None],
        observe: Callable[[float], None] = lambda seconds: None,
        taker: TakesGrammars | None = None,
        lanes: Lanes | None = None,
    ) -> None:
        self._lanes = lanes or Lanes()
        self._taker = taker
        self._vocabulary = vocabulary
        self._format = fmt
        self._facts = vocabulary.facts
        self._limits = limits
        self._keep = keep
        self._observe = observe
        self._jobs: dict[bytes, Job] = {}
        self._closed = False
        setup = Setup(fmt, self._facts, limits)
        self.reader = Reader(setup) if Reader.can_read(setup) else None
        self._quick_limits = limits
        if self.reader is None:
            log.warning("long schemas and grammars are read in threads: a child process cannot load this format")
        else:
            self._quick_limits = replace(limits, **{n: min(most, getattr(limits, n)) for n, most in QUICK.items()})

    def __len__(self) -> int:
        """The number of its jobs that wait or are being worked on."""
        return len(self._jobs)

    async def compile(self, key: bytes, definition: list[Any], text: bytes, client: str) -> Compiled:
        """The constraint for a definition. `text` is its JSON; equal definitions have equal keys.

        Raises `GrammarError` and its subclasses and `LimitError`, with pointers into the definition
        (compiling/definition.py); `LimitError` code `compile_queue_full`; `NarrowsError` codes `out_of_memory` and
        `reading_died`; `EngineError` code `server_stopping`. If a caller is cancelled, the job goes on for the others.
        """
        job = self._jobs.get(key) or self._new(key, definition, text, client)
        job.clients[client] += 1
        if job not in job.lane.under_way:
            job.lane.queue.add(client, job)
            self._start_waiting()
        try:
            await asyncio.wait({job.ends})
        finally:
            self._leave(job, client)
        outcome = job.ends.result()
        if isinstance(outcome, Compiled):
            return outcome
        # A copy for each request, since each adds its own place.
        raise copy(outcome) if isinstance(outcome, NarrowsError) else outcome

    def close(self) -> None:
        """Stop, and the lanes with it. All waiting requests get the error `server_stopping`. The child ends. Threads
        finish their job, and its result is dropped."""
        self._closed = True
        for job in list(self._jobs.values()):
            self._settle(job, EngineError("the server is stopping", code="server_stopping"))
        if self.reader is not None:
            self.reader.close()
        self._lanes.pool.shutdown(wait=False, cancel_futures=True)

    def _new(self, key: bytes, definition: list[Any], text: bytes, client: str) -> Job:
        if self._closed:
            raise EngineError("the server is stopping", code="server_stopping")
        left = self._limits.compile_queue - len(self._lanes.jobs)
        client_jobs = sum(client in job.clients for job in self._lanes.jobs)
        if left <= 0 or client_jobs >= left:
            raise LimitError(
                "too many grammars wait to be compiled" if left <= 0 else "too many grammars of this client wait",
                code="compile_queue_full",
                limit="compile_queue",
                hint="Try again in a moment",
            )
        apart = self.reader is not None and len(text) > QUICK_BYTES
        ends = asyncio.get_running_loop().create_future()
        lane = self._lanes.long if apart else self._lanes.quick
        job = self._jobs[key] = Job(self, key, definition, text, ends, lane)
        self._lanes.jobs.add(job)
        return job

    def _leave(self, job: Job, client: str) -> None:
        job.clients[client] -= 1
        if job.clients[client]:
            return
        del job.clients[client]
        job.lane.queue.discard(client, job)
        if not job.clients and not job.ends.done():
            self._forget(job)
            job.ends.cancel()
            if self.reader is not None and job in self._lanes.long.under_way:
                self.reader.stop(job)

    def _forget(self, job: Job) -> None:
        self._lanes.jobs.discard(job)
        if self._jobs.get(job.key) is job:
            del self._jobs[job.key]

    def _start_waiting(self) -> None:
        for lane in (self._lanes.quick, self._lanes.long):
            while len(lane.under_way) < lane.workers and (taken := lane.queue.take()) is not None:
                job, client = taken
                lane.under_way.add(job)
                try:
                    self._lanes.pool.submit(job.of._work, asyncio.get_running_loop(), job, lane, client)
                except RuntimeError as error:  # no thread can be started, or the pool is closed
                    job.of._finish_job(job, lane, client, _out_of_memory(str(error)))

    def _finish_job(self, job: Job, lane: Lane, client: str, outcome: Outcome) -> None:
        if job not in lane.under_way:
            return  # this outcome was delivered before
        if isinstance(outcome, _TooLong) and not job.ends.done():
            job.lane = self._lanes.long
            for waiting in job.clients:
                job.lane.queue.add(waiting, job)
        else:
            self._settle(job, outcome)
        lane.under_way.discard(job)
        lane.queue.done(client)
        self._start_waiting()

    def _settle(self, job: Job, outcome: Outcome) -> None:
        if isinstance(outcome, Compiled):
            self._keep(job.key, outcome)
        self._forget(job)
        if not job.ends.done():
            job.ends.set_result(outcome)

    # In a thread:

    def _work(self, loop: asyncio.AbstractEventLoop, job: Job, lane: Lane, client: str) -> None:
        started = time.perf_counter()
        outcome = self._outcome(job, lane)
        job.seconds += time.perf_counter() - started
        if not isinstance(outcome, _TooLong):
            self._observe(job.seconds)
        # When memory is short, delivering the outcome may fail too, here or in the loop. So it is tried until it works:
        # the requests must not wait for ever.
        delivered = threading.Event()

        def deliver() -> None:
            self._finish_job(job, lane, client, outcome)
            delivered.set()

        while not delivered.is_set() and not self._closed:
            try:
                loop.call_soon_threadsafe(deliver)
            except MemoryError:
                time.sleep(0.05)
                continue
            except RuntimeError:  # the loop is closed, so no request waits
                return
            delivered.wait(HEARD_SECONDS)
        memory.trim()

    def _outcome(self, job: Job, lane: Lane) -> Outcome:
        try:
            flat = self._read_apart(job) if lane is self._lanes.long else self._read_here(job)
            constraint = self._vocabulary.assemble(flat.arrays, self._limits)
            # The first mask is needed anyway. If it meets a limit, the request should fail before its answer begins.
            constraint.matcher().fill_mask(np.zeros((self._vocabulary.size + 31) // 32, dtype=np.int32))
            handed = self._taker.take_grammar(constraint, flat.arrays) if self._taker is not None else 0
            return Compiled(constraint, flat.loose, flat.report, handed)
        except MemoryError:
            pass  # the error is built below, after the memory of this attempt is freed
        except NarrowsError as error:
            if error.code == "reading_died":
                log.warning("%s", error)
            error.__traceback__ = error.__context__ = error.__cause__ = None  # they hold the text and its parsed form
            return error
        except Exception as error:
            return error
        return _out_of_memory("there is not enough memory to read and compile it")

    def _read_here(self, job: Job) -> FlatGrammar:
        try:
            return read_definition(job.definition, self._format, self._facts, self._quick_limits)
        except LimitError as error:
            name = error.limit or ""
            if name in QUICK and getattr(self._quick_limits, name) < getattr(self._limits, name):
                raise _TooLong from None
            raise

    def _read_apart(self, job: Job) -> FlatGrammar:
        assert self.reader is not None
        if job.ends.done():
            raise Stopped
        return self.reader.read(job.text, job)


def _out_of_memory(message: str) -> NarrowsError:
    return NarrowsError(message, code="out_of_memory", hint="Try again later, or make the schema or grammar smaller")
