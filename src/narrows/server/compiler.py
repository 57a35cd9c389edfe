"""Definitions become constraints here, beside the event loop, and in turns: see compile_queue.py.

    quick lane   threads: read under a small bound on work, compile
    long lane    one thread: the child process reads what met that bound (narrows.compiling), the thread compiles

Reading is Python, and would keep the interpreter lock from the thread that decodes: every stream would wait for one
request's schema. Two schemas of a second each, read in threads, made steps of 11 ms take 160 ms (50 ms with a switch
interval of 1 ms in place of 5); read in the child, 11 ms. Compiling, and the first mask, are the core's, without that
lock.

Requests that want the same definition share one job. A job that nobody waits for any more is dropped from its line, or
ended with the child.
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

from narrows.compiling.definition import FlatGrammar, read_definition
from narrows.compiling.messages import Setup
from narrows.compiling.process import Reader, Stopped
from narrows.errors import EngineError, LimitError, NarrowsError
from narrows.limits import Limits
from narrows.server.compile_queue import CompileQueue
from narrows.server.logs import log

if TYPE_CHECKING:
    from narrows import Constraint, Vocabulary
    from narrows.formats import Format

QUICK = {"reading_work": 5_000, "ir_nodes": 2_000}
"""Limits of the quick lane: some 5 ms each, which is what a request costs anyway. Who sends nothing but long ones takes
no more."""
QUICK_BYTES = 20_000
"""Longer definitions go to the child at once."""
HEARD_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Compiled:
    """A constraint, and what of its definition it does not enforce."""

    constraint: Constraint
    loose: tuple[str, ...]
    """Places in the definition of keywords that are left out."""


Outcome = Compiled | NarrowsError | Exception


@dataclass(eq=False, slots=True)
class Job:
    """One definition on its way, and who waits for it."""

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
    read: Callable[[Job], FlatGrammar]
    queue: CompileQueue[Job] = field(default_factory=CompileQueue)
    under_way: set[Job] = field(default_factory=set)


class _TooLong(Exception):
    """Met a bound of the quick lane that is none of the server's."""


class Compiler:
    """Use from one event loop. `observe(seconds)` is called after each job, `keep(key, compiled)` before anyone who
    waits is told."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        fmt: Format,
        limits: Limits,
        *,
        keep: Callable[[bytes, Compiled], None],
        observe: Callable[[float], None] = lambda seconds: None,
        threads: int = 2,
    ) -> None:
        self._vocabulary = vocabulary
        self._format = fmt
        self._facts = vocabulary.facts
        self._limits = limits
        self._keep = keep
        self._observe = observe
        self._jobs: dict[bytes, Job] = {}
        self._closed = False
        self._pool = ThreadPoolExecutor(threads + 1, thread_name_prefix="narrows-compile")
        setup = Setup(fmt, self._facts, limits)
        self.reader = Reader(setup) if Reader.can_read(setup) else None
        self._quick_limits = limits
        if self.reader is None:
            log.warning("long schemas and grammars are read in threads: no child process can know this format")
        else:
            self._quick_limits = replace(limits, **{n: min(most, getattr(limits, n)) for n, most in QUICK.items()})
        self._quick = Lane(threads, self._read_here)
        self._long = Lane(1, self._read_apart)

    def __len__(self) -> int:
        """Jobs that wait or are being worked on."""
        return len(self._jobs)

    async def compile(self, key: bytes, definition: list[Any], text: bytes, client: str) -> Compiled:
        """The constraint for a definition; `text` is its JSON, `key` the same for the same definition.

        Raises `GrammarError` and its kin and `LimitError`, with places inside the definition (compiling/definition.py);
        `LimitError` code `compile_queue_full`; `NarrowsError` codes `out_of_memory` and `reading_died`; `EngineError`
        code `server_stopping`. Who is cancelled here leaves the job to the others who want it.
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
        raise copy(outcome) if isinstance(outcome, NarrowsError) else outcome  # each request its own: it adds its place

    def close(self) -> None:
        """Everyone who waits is told that the server stops; the child ends, and what threads work on is dropped when it
        is done."""
        self._closed = True
        for job in list(self._jobs.values()):
            self._settle(job, EngineError("the server is stopping", code="server_stopping"))
        if self.reader is not None:
            self.reader.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _new(self, key: bytes, definition: list[Any], text: bytes, client: str) -> Job:
        if self._closed:
            raise EngineError("the server is stopping", code="server_stopping")
        left = self._limits.compile_queue - len(self._jobs)
        own = sum(client in job.clients for job in self._jobs.values())
        if left <= 0 or own >= left:
            raise LimitError(
                "too many grammars wait to be compiled" if left <= 0 else "too many grammars of this client wait",
                code="compile_queue_full",
                limit="compile_queue",
                hint="Try again in a moment",
            )
        apart = self.reader is not None and len(text) > QUICK_BYTES
        ends = asyncio.get_running_loop().create_future()
        job = self._jobs[key] = Job(key, definition, text, ends, self._long if apart else self._quick)
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
            if self.reader is not None and job in self._long.under_way:
                self.reader.stop(job)

    def _forget(self, job: Job) -> None:
        if self._jobs.get(job.key) is job:
            del self._jobs[job.key]

    def _start_waiting(self) -> None:
        for lane in (self._quick, self._long):
            while len(lane.under_way) < lane.workers and (taken := lane.queue.take()) is not None:
                job, client = taken
                lane.under_way.add(job)
                try:
                    self._pool.submit(self._work, asyncio.get_running_loop(), job, lane, client)
                except RuntimeError as error:  # no thread can be started, or the pool is closed
                    self._over(job, lane, client, _out_of_memory(str(error)))

    def _over(self, job: Job, lane: Lane, client: str, outcome: Outcome) -> None:
        if job not in lane.under_way:
            return  # heard of before
        if isinstance(outcome, _TooLong) and not job.ends.done():
            job.lane = self._long
            for waiting in job.clients:
                self._long.queue.add(waiting, job)
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
        # Where memory is short, telling may fail as well, here or in the loop; the requests must not wait for ever.
        heard = threading.Event()

        def tell() -> None:
            self._over(job, lane, client, outcome)
            heard.set()

        while not heard.is_set() and not self._closed:
            try:
                loop.call_soon_threadsafe(tell)
            except MemoryError:
                time.sleep(0.05)
                continue
            except RuntimeError:  # the loop is closed, and nobody waits
                return
            heard.wait(HEARD_SECONDS)

    def _outcome(self, job: Job, lane: Lane) -> Outcome:
        try:
            flat = lane.read(job)
            constraint = self._vocabulary.assemble(flat.arrays, self._limits)
            # The first mask is needed anyway, and a limit that it meets is better met before the answer has begun.
            constraint.matcher().fill_mask(np.zeros((self._vocabulary.size + 31) // 32, dtype=np.int32))
            self.shared_bytes = constraint.stats()[
                "shared_bytes"
            ]  # waits for other masks, which the event loop should not
            return Compiled(constraint, flat.loose)
        except MemoryError:
            pass  # what was made is let go first
        except NarrowsError as error:
            if error.code == "reading_died":
                log.warning("%s", error)
            error.__traceback__ = error.__context__ = error.__cause__ = None  # they hold what was being read
            return error
        except Exception as error:
            return error
        return _out_of_memory("reading or compiling it takes more memory than there is")

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


def _out_of_memory(what: str) -> NarrowsError:
    return NarrowsError(what, code="out_of_memory", hint="Try again later, or make the schema or grammar smaller")
