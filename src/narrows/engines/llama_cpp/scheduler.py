"""The decode loop: which sequences run, what each step computes, which sequences wait and which are preempted.

One thread owns the model. Each turn of the loop:
1. takes the sequences that arrived and drops those that were aborted;
2. gives waiting sequences a place while there are slots and cells (`line.py` chooses them);
3. makes one batch: the next token of every generating sequence, and pieces of the prompts that are not computed yet
   (`prefill.py` chooses the pieces). The pieces are small while other sequences generate, so that no stream waits for a
   long prompt;
4. takes cells for the batch (`cache.py`). If there are too few, a sequence is preempted (`placing.py` chooses it): its
   cells are given up, and it waits again. Later it continues from what was kept of it, and computes the rest anew;
5. decodes. Meanwhile other threads do the work of the constraints (`lanes.py`): accept the last token, fill the mask
   of the next;
6. steps every sequence that has its logits and its mask, or that draws before there is a mask. A sequence whose mask
   takes long keeps its logits and is left out of the next batches. A costly grammar thus delays only its own sequence.

The loop's thread calls nothing of a matcher that may wait. It waits for no lock that other threads hold while they
work, except up to `_PATIENCE` after a decode.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from narrows.decoding.draft_cost import DraftCost
from narrows.decoding.processors import Logits
from narrows.engines.api import EngineStats
from narrows.engines.llama_cpp.cache import CellCache, CellModel
from narrows.engines.llama_cpp.lanes import Lanes
from narrows.engines.llama_cpp.line import Admission, Line, Running, Waiting
from narrows.engines.llama_cpp.placing import first_to_go
from narrows.engines.llama_cpp.prefill import Pace, share, share_bursts
from narrows.engines.llama_cpp.queue_limit import QueueLimit
from narrows.engines.output_queue import OutputQueue
from narrows.engines.sequence import Sequence
from narrows.errors import EngineError

_PATIENCE = 0.01
"""Most seconds after a decode for which the step waits for quick masks that are not ready. It never waits longer than a
quarter of the time of the decode."""
_LATE_POLL = 0.01
"""Seconds for which the loop waits for a late mask before it looks for new arrivals, if it has nothing else to do."""

_MOST_DRAFTING = 8
"""Most sequences that generate at once while tokens are guessed. With more of them a step has enough to compute."""

_log = logging.getLogger(__name__)


class DecodeModel(CellModel, Protocol):
    """What the loop calls of the model. `model.LlamaModel` implements it."""

    def decode(self, tokens: list[int], positions: list[int], sequences: list[int], wanted: list[bool]) -> int: ...

    def logits(self, index: int) -> Logits: ...

    def request_abort(self) -> None: ...

    def clear_abort(self) -> None: ...


@dataclass(slots=True)
class _Batch:
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    wanted: list[bool] = field(default_factory=list)
    rows: list[tuple[Running, int, list[int]]] = field(default_factory=list)
    """(sequence, index of its row of logits, guessed tokens) for each sequence that takes a token. The rows of the
    guessed tokens follow."""
    starts: dict[int, int] = field(default_factory=dict)
    """Length of each slot before the batch."""
    members: list[Running] = field(default_factory=list)
    streams: int = 0
    """Number of tokens of generating sequences if some sequence has begun its output, because its reader waits.
    Otherwise 0."""
    drafted: int = 0
    """Number of guessed tokens."""

    @property
    def one_each(self) -> bool:
        """Whether each sequence has one token that is not guessed, and takes another after it."""
        return len(self.tokens) - self.drafted == len(self.members) == len(self.rows)


class Scheduler:
    """Runs sequences on a model until `close`. `submit`, `abort` and `stats` are thread-safe."""

    def __init__(
        self,
        model: DecodeModel,
        cache: CellCache,
        *,
        max_num_seqs: int,
        max_queue: int,
        batch_tokens: int,
        prefill_chunk: int,
    ) -> None:
        self._model = model
        self._cache = cache
        self._batch_tokens = batch_tokens
        self._pace = Pace(prefill_chunk)
        self._draft_cost = DraftCost()
        self._changed = threading.Condition()
        self._arrived: list[Sequence] = []
        self._queue = QueueLimit(max_num_seqs=max_num_seqs, max_queue=max_queue)
        """Of the waiting sequences, including those that arrived since the last turn."""
        self._live: set[Sequence] = set()
        """Sequences that have not ended."""
        self._draining = False
        self._closing = False
        self._failure: BaseException | None = None
        self._line = Line(cache, max_num_seqs=max_num_seqs, shares_prefixes=model.shares_prefixes)
        self._decoding_for: frozenset[OutputQueue] = frozenset()
        self._totals: Counter[str] = Counter()
        self._finished: Counter[str] = Counter()
        self._lanes = Lanes()
        self._decode_seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="narrows-decode", daemon=True)
        self._thread.start()

    # From any thread.

    def submit(self, sequences: list[Sequence]) -> None:
        """Queue the sequences of one request, all or none. Raises `LimitError` code `queue_full`."""
        with self._changed:
            self.check()
            if self._draining:
                raise EngineError("the engine is draining and takes no new requests", code="engine_closed")
            client = sequences[0].request.client if sequences else ""
            self._queue.check(client, len(sequences), running=len(self._line.running))
            self._queue.add(client, len(sequences))
            self._arrived += sequences
            self._live.update(sequences)
            self._changed.notify_all()

    def check(self) -> None:
        """Raises `EngineError` code `engine_dead` or `engine_closed` if the loop does not run."""
        if self._failure is not None:
            # A new exception each time: one that is raised repeatedly would keep the frames of every caller alive.
            raise EngineError(f"the decode loop failed: {self._failure}", code="engine_dead") from self._failure
        if self._closing:
            raise EngineError("the engine is closed", code="engine_closed")

    def drain(self, timeout: float | None) -> bool:
        """Refuse new requests, and wait until all sequences have ended. False if `timeout` seconds were not enough."""
        with self._changed:
            self._draining = True
            return self._changed.wait_for(lambda: not self._live, timeout)

    def abort(self, queue: OutputQueue) -> None:
        """End the sequences of a request at the next turn. Abort the running decode if it serves no other request.

        Takes no lock: the garbage collector calls this for a dropped stream, in any thread, whatever locks that thread
        holds. A loop with such a sequence is not idle, so nothing has to be woken.
        """
        queue.aborted = True
        decoding = self._decoding_for
        if decoding and all(q.aborted for q in decoding):
            # If the decode has ended by now, the next one is aborted needlessly and repeated.
            self._model.request_abort()

    def stats(self) -> EngineStats:
        # Read while the loop runs: each number is right, but two of them may be of different steps.
        totals = self._totals
        return EngineStats(
            running=len(self._line.running),
            waiting=self._queue.waiting,
            kv_used=self._cache.used,
            kv_kept=self._cache.kept,
            kept_bytes=self._cache.kept_bytes,
            kv_total=self._cache.total,
            preemptions_total=totals["preemptions"],
            prompt_tokens_total=totals["prompt_tokens"],
            cached_tokens_total=totals["cached_tokens"],
            generation_tokens_total=totals["generation_tokens"],
            steps_total=totals["steps"],
            finished_total=dict(self._finished),
        )

    def strategy_totals(self) -> dict[str, int]:
        names = ("jumped_tokens", "masks", "draft_tokens", "accepted_draft_tokens")
        rows = ("guided_rows", "late_rows", "refused_rows")
        return {name: self._totals[name] for name in (*names, *rows)}

    def owns(self, thread: threading.Thread) -> bool:
        return thread is self._thread or self._lanes.owns(thread)

    def close(self) -> None:
        """Abort all sequences and end the loop. Returns when it has ended. Not for the scheduler's own threads."""
        with self._changed:
            self._closing = True
            self._model.request_abort()
            self._changed.notify_all()
        self._thread.join()
        self._lanes.close()

    # The loop's thread.

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while self._turn():
                pass
        except BaseException as error:
            failure = error
        with self._changed:
            self._closing = True
            self._failure = failure
            unfinished = sorted(self._live, key=_order)
            self._line.running, self._line.waiting, self._arrived = [], [], []
            self._queue.clear()
        for sequence in unfinished:
            self._answer(sequence)
        if failure is not None:  # after the answers, because a log may be slow
            _log.critical(
                "the decode loop failed, and the engine is dead; %d sequences were ended",
                len(unfinished),
                exc_info=failure,
            )

    def _answer(self, sequence: Sequence) -> None:
        """End a sequence after the loop has ended. If that fails, the other sequences are still ended."""
        try:
            self.check()
        except EngineError as error:
            try:
                if error.code == "engine_dead":
                    sequence.finish("error", error=error)
                else:
                    sequence.finish("abort")
            except Exception:
                _log.exception("a sequence could not be ended")
        self._over(sequence)

    def _over(self, sequence: Sequence) -> None:
        """Count a sequence that has ended, and let it go."""
        self._finished[str(sequence.finish_reason)] += 1
        self._let_go(sequence)

    def _let_go(self, sequence: Sequence) -> None:
        with self._changed:
            self._live.discard(sequence)
            self._changed.notify_all()

    def _turn(self) -> bool:
        """One turn; False when the engine is closing."""
        if not self._take_arrivals():
            return False
        self._drop_aborted()
        self._admit()
        self._take_runs()
        self._cache.tidy()
        start = time.monotonic()
        batch = self._plan()
        decoded = False
        if not batch.tokens:
            late = [r.sequence.guide for r in self._line.running if r.logits is not None]
            self._lanes.wait([g for g in late if g is not None], _LATE_POLL, one=True)
        elif decoded := self._decode(batch):
            self._advance(batch)
        self._advance_late()
        if decoded and batch.one_each:
            self._draft_cost.observe(len(batch.rows), batch.drafted, time.monotonic() - start)
        if not self._line.running and not self._line.waiting:
            self._cache.tidy(idle=True)
        return True

    def _take_arrivals(self) -> bool:
        with self._changed:
            while not (self._line.running or self._line.waiting or self._arrived or self._closing):
                self._changed.wait()
            if self._arrived:
                self._line.waiting += [Waiting(sequence) for sequence in self._arrived]
                self._line.waiting.sort(key=lambda waiting: waiting.sequence.order)
                self._arrived = []
            return not self._closing

    def _drop_aborted(self) -> None:
        for running in [r for r in self._line.running if r.sequence.queue.aborted]:
            running.sequence.finish("abort")
            self._leave(running)
        aborted = [w.sequence for w in self._line.waiting if w.sequence.queue.aborted]
        if not aborted:
            return
        self._line.waiting = [w for w in self._line.waiting if not w.sequence.queue.aborted]
        with self._changed:
            for sequence in aborted:
                self._queue.add(sequence.request.client, -1)
        for sequence in aborted:
            sequence.finish("abort")
            self._over(sequence)

    def _leave(self, running: Running) -> None:
        """Take the place of a finished sequence away. It is kept for later prompts with the same beginning."""
        self._totals["jumped_tokens"] += running.sequence.jumped_tokens
        self._totals["masks"] += running.sequence.masks
        self._finished[str(running.sequence.finish_reason)] += 1  # first: its reader may know the end already
        self._cache.close(running.slot, keep=True)
        self._let_go(running.sequence)
        self._line.running.remove(running)  # last: when nothing runs, the cells are settled

    # Placing and preempting.

    def _admit(self) -> None:
        while (decision := self._line.next(self._totals["steps"])) is not None:
            if isinstance(decision, Admission):
                self._place(decision)
            else:
                self._preempt(decision)

    def _place(self, admission: Admission) -> None:
        sequence, donor, shared = admission.waiting.sequence, admission.donor, admission.shared
        try:
            sequence.open()
        except Exception as error:
            sequence.fail(error)
        if sequence.finished:
            self._over(sequence)
        else:
            if len(admission.waiting.ids()) > sequence.prompt_length:  # it begins with given output, or ran before
                donor, shared = self._cache.longest_prefix(admission.waiting.ids()[:-1])
            slot = self._cache.open(donor, shared)
            shared = self._cache.recall(slot, admission.waiting.ids()[:-1])
            steps = self._totals["steps"]
            self._line.running.append(
                Running(sequence, slot, long=admission.long, fed_at=steps, passed=admission.passed)
            )
            self._line.running.sort(key=lambda running: running.sequence.order)
            if not admission.waiting.again:
                shared = min(shared, sequence.prompt_length)
                sequence.cached_tokens = shared
                self._totals["prompt_tokens"] += sequence.prompt_length
                self._totals["cached_tokens"] += shared
        with self._changed:
            self._queue.add(sequence.request.client, -1)

    def _preempt(self, running: Running) -> None:
        """Take a sequence's place away and let it wait again. What is kept of it need not be computed anew."""
        with self._changed:
            self._queue.add(running.sequence.request.client, 1)
        self._line.running.remove(running)
        self._cache.close(running.slot, keep=True)
        self._totals["preemptions"] += 1
        self._line.waiting.append(Waiting(running.sequence, again=True))
        self._line.waiting.sort(key=lambda waiting: waiting.sequence.order)

    # One step.

    def _plan(self) -> _Batch:
        while True:
            running = [r for r in self._line.running if r.logits is None]
            generating = [r for r in running if self._line.generates(r)]
            filling = [r for r in running if not self._line.generates(r)]
            # A stream whose mask is late counts too.
            streaming = any(r.sequence.output_length and self._line.generates(r) for r in self._line.running)
            bursts = share_bursts([self._line.missing(r) for r in generating], self._batch_tokens)
            room = self._batch_tokens - sum(bursts)
            if streaming:
                room = min(room, self._pace.room(generating=bool(generating)))
            counts = share(self._line.fillings(filling, self._totals["steps"]), room)
            if sum(bursts) + sum(counts) <= self._cache.total - self._cache.used:
                break
            present = self._line.running
            index = first_to_go(self._line.places(present), self._line.held(present))
            if index is None:
                raise EngineError("a single sequence does not fit into the key-value cache")
            self._preempt(present[index])
        batch = _Batch()
        cost = self._draft_cost.of(max(1, len(generating)))
        free = self._cache.total - self._cache.used
        spare = min(self._batch_tokens, free) - sum(bursts) - sum(counts)
        for each, count in zip(generating, bursts, strict=True):
            self._add(batch, each, count)
            if each.sequence.knows_next or len(generating) <= _MOST_DRAFTING:
                spare -= self._add_draft(batch, each, spare, cost)
        for each, count in zip(filling, counts, strict=True):
            if count:
                each.fed_at = self._totals["steps"]
                self._add(batch, each, count)
                if each.sequence.knows_next:
                    spare -= self._add_draft(batch, each, spare, cost)
        batch.streams = len(batch.tokens) - sum(counts) if streaming else 0
        return batch

    def _add(self, batch: _Batch, running: Running, count: int) -> None:
        """Put a sequence's next `count` tokens into the batch. `_plan` has made sure that there are cells."""
        start = self._cache.length(running.slot)
        tokens = running.sequence.tokens[start : start + count]
        if not self._cache.extend(running.slot, tokens):
            raise EngineError("the key-value cache has fewer free cells than it counted")
        last = start + count == len(running.sequence.tokens)
        batch.starts[running.slot] = start
        batch.members.append(running)
        batch.tokens += tokens
        batch.positions += range(start, start + count)
        batch.slots += [running.slot] * count
        batch.wanted += [False] * (count - 1) + [last]
        if last:
            batch.rows.append((running, len(batch.tokens) - 1, []))

    def _add_draft(self, batch: _Batch, running: Running, most: int, cost: float) -> int:
        """Put guessed tokens after the last token of a sequence, where each costs that part of a step. Returns their
        number."""
        if self._line.missing(running) or not self._model.shares_prefixes:
            return 0  # some tokens of its text come later, or what is computed cannot be taken back
        draft = running.sequence.guess(most, cost)
        if not draft or not self._cache.extend(running.slot, draft):
            return 0
        start = len(running.sequence.tokens)
        batch.tokens += draft
        batch.positions += range(start, start + len(draft))
        batch.slots += [running.slot] * len(draft)
        batch.wanted += [True] * len(draft)
        batch.rows[-1] = (running, batch.rows[-1][1], draft)
        batch.drafted += len(draft)
        return len(draft)

    def _decode(self, batch: _Batch) -> bool:
        """Run the batch. False if it was aborted; then no sequence has changed."""
        self._decoding_for = frozenset(r.sequence.queue for r in batch.members)
        for running in self._line.running:
            guide = running.sequence.guide
            if guide is not None and guide.state == "due":
                self._lanes.submit(guide)
        start = time.monotonic()
        code = self._model.decode(batch.tokens, batch.positions, batch.slots, batch.wanted)
        self._decode_seconds = time.monotonic() - start
        self._decoding_for = frozenset()
        with self._changed:
            if not self._closing:
                self._model.clear_abort()
        self._totals["steps"] += 1
        if code == 0:
            if batch.streams:
                self._pace.observe(len(batch.tokens) - batch.streams, self._decode_seconds)
            return True
        for slot, length in batch.starts.items():
            self._cache.truncate(slot, length)
        if code == 2:
            return False
        raise EngineError(f"llama_decode returned {code} for {len(batch.tokens)} tokens")

    def _advance(self, batch: _Batch) -> None:
        """Step the sequences of a batch with their rows of logits. Keep the rows whose mask is not ready."""
        guides = [g for r, _, _ in batch.rows if (g := r.sequence.guide) is not None]
        self._totals["guided_rows"] += len(guides)
        self._totals["late_rows"] += sum(g.state == "queued" for g in guides)
        quick = [g for g in guides if not g.is_heavy and not g.is_apart]
        if any(g.state == "queued" for g in quick):
            self._lanes.wait(quick, self._patience())
        undecided = [r.sequence.guide for r, row, draft in batch.rows if not self._advance_one(r, row, draft)]
        due = [g for g in undecided if g is not None and g.state == "due"]
        self._totals["refused_rows"] += len(due)
        for guide in due:
            self._lanes.submit(guide)
        self._lanes.wait([g for g in due if not g.is_heavy and not g.is_apart], self._patience())

    def _advance_one(self, running: Running, row: int, draft: list[int]) -> bool:
        """Step a sequence with the row of its last token, and with those of the guessed tokens as long as they come
        true. False if a row was kept, because its guide has to work first."""
        sequence = running.sequence
        came_true, kept = 0, False
        is_guess = not sequence.knows_next
        while True:
            guide = sequence.guide
            logits = self._model.logits(row + came_true)
            before = len(sequence.tokens)
            late = not sequence.may_step or (
                came_true > 0 and guide is not None and guide.state == "due" and not sequence.knows_next
            )
            if late or not self._step(running, logits):
                running.logits, kept = logits.copy(), True
                break
            added = sequence.tokens[before:]
            same = _common(added, draft[came_true:])
            came_true += same
            if same < len(added) or sequence.finished:
                break
        if draft:
            if is_guess:
                self._totals["draft_tokens"] += len(draft)
                self._totals["accepted_draft_tokens"] += came_true
            if not sequence.finished:
                if came_true < len(draft):
                    self._cache.truncate(running.slot, self._cache.length(running.slot) - len(draft) + came_true)
                running.burst = max(1, self._line.missing(running))
        return not kept

    def _patience(self) -> float:
        return min(_PATIENCE, self._decode_seconds / 4)

    def _advance_late(self) -> None:
        """Step the sequences whose mask became ready after their batch, with the rows that were kept."""
        for running in [r for r in self._line.running if r.logits is not None and r.sequence.may_step]:
            logits, running.logits = running.logits, None
            assert logits is not None
            if not self._step(running, logits):
                running.logits = logits
                assert running.sequence.guide is not None
                self._lanes.submit(running.sequence.guide)

    def _take_runs(self) -> None:
        """Add the forced tokens that guides have found since the last step."""
        for running in [r for r in self._line.running if r.logits is None]:
            before = running.sequence.output_length
            generates = self._line.generates(running)
            running.sequence.take_run()
            self._count(running, before, generates=generates)

    def _step(self, running: Running, logits: Logits) -> bool:
        """Step a sequence. False if its guide has to work first."""
        before = running.sequence.output_length
        stepped = running.sequence.step(logits)
        self._count(running, before, generates=True)
        return stepped

    def _count(self, running: Running, before: int, *, generates: bool) -> None:
        """Count the tokens that a sequence has added, and let it leave if it has ended."""
        added = running.sequence.output_length - before
        self._totals["generation_tokens"] += added
        if running.sequence.finished:
            self._leave(running)
        elif added and generates:
            running.burst = self._line.missing(running)


def _common(a: list[int], b: list[int]) -> int:
    """Number of equal leading tokens."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _order(sequence: Sequence) -> tuple[int, int]:
    return sequence.order
