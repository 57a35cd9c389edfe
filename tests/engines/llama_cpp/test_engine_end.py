"""How the loop ends: it dies, it drains, its process forks. Everyone gets an answer, and the log says why."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import traceback

import pytest
from engine_rig import FakeConstraint, Rig, collect

from narrows.engines.api import Output, Request, SamplingParams
from narrows.engines.llama_cpp import LlamaCppEngine
from narrows.engines.output_queue import OutputQueue, QueueStream
from narrows.errors import EngineError


def read_all(streams):
    """The outputs of each; fails where one gets no answer."""
    found: list[list[Output]] = [[] for _ in streams]
    threads = [
        threading.Thread(target=lambda s=s, f=f: f.extend(collect(s)), daemon=True)
        for s, f in zip(streams, found, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive(), "a request without an answer"
    return [outputs[0] for outputs in found]


def fail(*arguments, **options):
    raise MemoryError("by request")


@pytest.mark.parametrize("where", ["longest_prefix", "room_for", "open", "extend", "tidy", "close"])
def test_wherever_the_loop_dies_everyone_is_told_and_the_log_says_it(where, caplog, monkeypatch):
    with Rig(max_num_seqs=2, end_chance=0.0, delay=0.001) as rig:
        streams = [rig.generate([1, 2, i], constraint=FakeConstraint(), max_tokens=200) for i in range(6)]
        next(streams[0])
        monkeypatch.setattr(rig.scheduler._cache, where, fail)
        for output in read_all(streams):
            assert output.finish_reason in ("error", "length")
            assert output.error is None or output.error.code == "engine_dead"
        rig.scheduler._thread.join(10)
        (record,) = [r for r in caplog.records if r.levelno == logging.CRITICAL]
        assert "the engine is dead" in record.getMessage()
        assert "MemoryError: by request" in "".join(traceback.format_exception(*record.exc_info))
        for call in (rig.scheduler.check, lambda: rig.generate([1])):
            with pytest.raises(EngineError) as caught:
                call()
            assert caught.value.code == "engine_dead"
            assert isinstance(caught.value.__cause__, MemoryError)


def test_asking_a_dead_engine_for_years_costs_nothing():
    with Rig(max_num_seqs=2, end_chance=0.0) as rig:
        rig.model.fail_at = 1
        read_all([rig.generate([1])])
        lengths = set()
        for _ in range(5):
            with pytest.raises(EngineError) as caught:
                rig.scheduler.check()
            lengths.add(len(traceback.extract_tb(caught.value.__traceback__)))
        assert len(lengths) == 1, "the traceback of one error, raised again and again, grows"


def test_a_parser_that_fails_at_the_end_keeps_no_one_else_from_an_answer():
    class Failing:
        position = 0

        def feed_tokens(self, ids):
            return []

        def finish(self):
            raise ValueError("broken")

    with Rig(max_num_seqs=2, end_chance=0.0) as rig:
        rig.model.fail_at = 5
        with rig.held():
            streams = [rig.generate([1, i], parser_factory=lambda _: Failing()) for i in range(4)]
        assert [o.error.code for o in read_all(streams)] == ["engine_dead"] * 4


def test_a_drain_lets_what_is_here_end_and_takes_nothing_new():
    with Rig(max_num_seqs=2, end_chance=0.0, delay=0.001) as rig:
        streams = [rig.generate([1, 2, i], seed=i, max_tokens=20) for i in range(5)]
        drained = []
        thread = threading.Thread(target=lambda: drained.append(rig.scheduler.drain(20)))
        thread.start()
        while not rig.scheduler._draining:
            time.sleep(0.001)
        with pytest.raises(EngineError) as caught:
            rig.generate([1])
        assert caught.value.code == "engine_closed"
        assert [o.finish_reason for o in read_all(streams)] == ["length"] * 5
        thread.join(10)
        assert drained == [True]
        rig.scheduler.check()


def test_a_drain_ends_when_its_time_is_over():
    with Rig(max_num_seqs=2, cells=4000, end_chance=0.0, delay=0.001) as rig:
        stream = rig.generate([1, 2])
        start = time.monotonic()
        assert not rig.scheduler.drain(0.1)
        assert 0.05 < time.monotonic() - start < 5
        rig.scheduler.close()
        assert read_all([stream])[0].finish_reason == "abort"
        assert rig.scheduler.drain(0)


def test_a_drain_ends_with_an_engine_that_dies():
    with Rig(max_num_seqs=2, end_chance=0.0, delay=0.001) as rig:
        rig.model.fail_at = 20
        with rig.held():
            streams = [rig.generate([1, 2, i]) for i in range(3)]
        assert rig.scheduler.drain(20)
        read_all(streams)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_child(act):
    """The exit code of a child that does this; -1 for one that hangs."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def refused(call):
    with pytest.raises(EngineError) as caught:
        call()
    assert caught.value.code == "engine_forked"


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_stream_in_a_fork_says_so_whoever_holds_its_lock():
    queue = OutputQueue(1, lambda queue: None)
    stream = QueueStream(queue)

    def act():
        refused(lambda: next(stream))
        stream.close()

    with queue._changed:
        assert in_child(act) == 0
    assert queue.unfinished


@pytest.mark.model
@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_an_engine_in_a_fork_says_so_and_goes_on_in_its_own_process(engine):
    request = Request(request_id="parent", prompt_token_ids=[504], sampling=SamplingParams(max_tokens=30, seed=1))
    stream = engine.generate(request)
    next(stream)

    def act():
        other = Request(request_id="child", prompt_token_ids=[504], sampling=SamplingParams(max_tokens=1))
        refused(lambda: engine.generate(other))
        refused(engine.check_health)
        refused(lambda: engine.encode("text"))
        refused(engine.drain)
        engine.close()

    for _ in range(5):
        assert in_child(act) == 0
        time.sleep(0.02)
    assert list(stream)[-1].finish_reason in ("length", "stop")


@pytest.mark.model
def test_an_engine_that_is_dropped_in_its_own_thread_ends_in_order(model_path):
    """A logits processor holds the last reference and lets it go: the thread that runs the model cannot wait for itself."""
    held = [LlamaCppEngine(model_path, n_ctx=256)]

    def let_go(ids, logits):
        held.clear()
        return logits

    request = Request(
        request_id="last", prompt_token_ids=[504], sampling=SamplingParams(max_tokens=200), logits_processors=[let_go]
    )
    stream = held[0].generate(request)
    assert read_all([stream])[0].finish_reason == "abort"
    until = time.monotonic() + 10
    while any(t.name == "narrows-close" for t in threading.enumerate()):
        assert time.monotonic() < until
        time.sleep(0.01)
