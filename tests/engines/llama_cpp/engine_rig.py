"""A scheduler on the fake model, and what a sequence must give, computed without any engine."""

from __future__ import annotations

import itertools
import threading
import time

from engine_fakes import EOS, FakeModel, FakeVocabulary, row_for

from narrows.decoding.sampling import Sampler
from narrows.engines.api import Output, Request, SamplingParams
from narrows.engines.llama_cpp.cache import CellCache, slack
from narrows.engines.llama_cpp.scheduler import Scheduler
from narrows.engines.output_queue import OutputQueue, QueueStream
from narrows.engines.sequence import Sequence
from narrows.errors import LimitError

END_CHANCE = 0.03


class Rig:
    """A scheduler on the fake model, and what an engine does around it."""

    def __init__(
        self,
        *,
        cells=400,
        max_num_seqs=6,
        max_queue=1000,
        batch_tokens=24,
        prefill_chunk=6,
        kept_tokens=100,
        memory=None,
        **model,
    ):
        self.model = FakeModel(cells + slack(cells, batch_tokens), **({"end_chance": END_CHANCE} | model))
        cache = CellCache(
            self.model,
            cells=cells,
            slots=max_num_seqs,
            batch_tokens=batch_tokens,
            kept_bytes=None,
            kept_tokens=kept_tokens,
            piece=5,
        )
        self.limit = cells
        self.memory = memory
        self.arrivals = itertools.count()
        self.scheduler = Scheduler(
            self.model,
            cache,
            max_num_seqs=max_num_seqs,
            max_queue=max_queue,
            batch_tokens=batch_tokens,
            prefill_chunk=prefill_chunk,
        )

    def generate(self, prompt, n=1, **options):
        names = (
            "parser_factory",
            "logits_processors",
            "constraint",
            "priority",
            "client",
            "strategies",
            "output_token_ids",
            "score_output",
            "repetition_detection",
            "thinking_budget",
        )
        fields = {k: options.pop(k) for k in names if k in options}
        sampling = SamplingParams(**options)
        return self.run(Request(request_id="r", prompt_token_ids=prompt, n=n, sampling=sampling, **fields))

    def run(self, request):
        n = request.n
        queue = OutputQueue(n, self.scheduler.abort)
        sequences = [
            Sequence(
                request,
                i,
                arrival=next(self.arrivals),
                vocabulary=FakeVocabulary(),
                limit=self.limit,
                queue=queue,
                memory=self.memory,
            )
            for i in range(n)
        ]
        self.scheduler.submit(sequences)
        return QueueStream(queue)

    def held(self):
        """The loop takes no new sequence in this block: what is generated in it arrives at once."""
        return self.scheduler._changed  # it may be taken again by who holds it

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.scheduler.close()


def collect(stream, n=1):
    outputs = [Output(index=i) for i in range(n)]
    for output in stream:
        assert outputs[output.index].finish_reason is None, "an output after the end"
        outputs[output.index].merge(output)
    assert all(o.finish_reason for o in outputs)
    return outputs


def alone(prompt, index=0, limit=400, mask=None, **options):
    """What a sequence must give, computed without any engine."""
    params = SamplingParams(**options)
    sampler = Sampler(params, index=index, prompt=prompt)
    tokens = list(prompt)
    while True:
        token, _ = sampler.sample(row_for(list(enumerate(tokens)), END_CHANCE), mask=mask)
        tokens.append(token)
        sampler.observe(token)
        if token == EOS or len(tokens) - len(prompt) == params.max_tokens or len(tokens) == limit:
            return tokens[len(prompt) :]


def wait_until_idle(rig):
    deadline = time.monotonic() + 10
    while rig.scheduler.stats().running or rig.scheduler.stats().waiting:
        assert time.monotonic() < deadline
        time.sleep(0.002)


class RigEngine:
    """The methods of an engine that strategies on engines call."""

    def __init__(self, rig, vocabulary, encode):
        self.generate, self.vocabulary, self.encode = rig.run, vocabulary, encode
        self.max_num_seqs = 4
        self.special_tokens = {}

    def decode(self, token_ids):
        return b"".join(self.vocabulary.token_bytes(t) for t in token_ids).decode("utf-8", "replace")


class FakeConstraint:
    """Allows tokens 1..`allowed`, and fails after `steps`. Each call of its matchers sleeps for what `pause` says: as long as a lock
    would keep it waiting. Knows when a matcher is misused."""

    is_apart = False

    def __init__(self, allowed=5, steps=1000, pause=lambda call: 0.0):
        self.allowed, self.steps, self.pause = allowed, steps, pause
        self.matchers = 0
        self.threads: set[str] = set()

    def matcher(self):
        self.matchers += 1
        self.wait("matcher")
        return FakeMatcher(self)

    def wait(self, call):
        self.threads.add(threading.current_thread().name)
        if seconds := self.pause(call):
            time.sleep(seconds)

    @property
    def mask(self):
        return sum(1 << t for t in range(1, self.allowed + 1))


class FakeMatcher:
    is_finished = False
    is_accepting = False

    def __init__(self, constraint):
        self.constraint, self.taken, self.busy = constraint, 0, threading.Lock()

    def fill_mask(self, row):
        assert self.busy.acquire(blocking=False), "two threads in one matcher"
        self.constraint.wait("fill_mask")
        try:
            if self.taken >= self.constraint.steps:
                raise LimitError("too much", limit="step_work")
            row[:] = self.constraint.mask
        finally:
            self.busy.release()

    def try_accept(self, token):
        """What is known never waits. Here it depends on the token."""
        assert self.busy.acquire(blocking=False), "two threads in one matcher"
        allowed = 1 <= token <= self.constraint.allowed if (token + self.taken) % 3 else None
        self.taken += allowed is True
        self.busy.release()
        return allowed

    def accept(self, token):
        assert self.busy.acquire(blocking=False), "two threads in one matcher"
        self.constraint.wait("accept")
        allowed = 1 <= token <= self.constraint.allowed
        self.taken += allowed
        self.busy.release()
        return allowed
