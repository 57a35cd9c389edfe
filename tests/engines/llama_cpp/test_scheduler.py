"""The decode loop on a model without weights: every invariant that a reader of outputs, a processor or another sequence may
rely on, under random arrivals, aborts, stops, failures and a cache that is too small."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import numpy as np
import pytest
from engine_fakes import EOS, TOKENS, FakeVocabulary, LaggingParser
from engine_rig import FakeConstraint, Rig, alone, collect, wait_until_idle

from narrows.engines.api import LogitsProcessorFactory, Output, Request, SamplingParams
from narrows.engines.output_queue import OutputQueue, QueueStream
from narrows.engines.sequence import Sequence
from narrows.errors import EngineError, LimitError


def text_of(ids):
    return b"".join(TOKENS[i] for i in ids).decode("utf-8", "replace")


PROMPTS = [[1, 2, 3, 4, 5] * 4 + [i] for i in range(1, 6)] + [[7] * 40, [3], [9, 8]]


def test_a_sequence_in_a_crowd_gives_what_it_gives_alone():
    with Rig() as rig:
        streams = [(p, s, rig.generate(p, n=2, seed=s, max_tokens=30)) for s, p in enumerate(PROMPTS * 3)]
        for prompt, seed, stream in streams:
            for output in collect(stream, 2):
                assert output.token_ids == alone(prompt, output.index, seed=seed, max_tokens=30)
                assert output.text == text_of(output.token_ids)
                assert output.finish_reason == ("stop" if output.token_ids[-1] == EOS else "length")


def test_under_a_cache_too_small_for_all_sequences_are_preempted_and_the_result_is_the_same():
    with Rig(cells=64, kept_tokens=10) as rig:
        made = []

        def factory():
            made.append([])
            mine = made[-1]

            def processor(ids, logits):
                assert len(ids) == len(mine), "the state of a processor and its sequence have come apart"
                mine.append(1)
                return logits

            return processor

        prompts = PROMPTS[:5]
        streams = [
            (p, s, rig.generate(p, seed=s, max_tokens=40, logits_processors=[LogitsProcessorFactory(factory)]))
            for s, p in enumerate(prompts)
        ]
        for prompt, seed, stream in streams:
            (output,) = collect(stream)
            assert output.token_ids == alone(prompt, seed=seed, max_tokens=40, limit=64)
        assert rig.scheduler.stats().preemptions_total > 0
        assert len(made) == len(prompts), "a preempted sequence keeps its processors"


def test_a_common_prefix_is_computed_once():
    with Rig() as rig:
        collect(rig.generate([1, 2, 3, 4] * 10, n=4, seed=1, max_tokens=1), 4)
        assert rig.model.computed == 40 + 3, "the siblings compute the last token alone"
        (output,) = collect(rig.generate([1, 2, 3, 4] * 10 + [5], seed=1, max_tokens=1))
        assert output.cached_tokens == 40
        assert rig.scheduler.stats().cached_tokens_total == 3 * 39 + 40


def test_given_output_is_found_in_the_cells_that_an_earlier_answer_left():
    with Rig(end_chance=0.0) as rig:
        prompt = [1, 2, 3, 4] * 10
        (whole,) = collect(rig.generate(prompt, temperature=0, max_tokens=12))
        before = rig.model.computed
        given = whole.token_ids[:10]
        (output,) = collect(rig.generate(prompt, temperature=0, max_tokens=12, output_token_ids=given))
        assert output.token_ids == whole.token_ids
        assert rig.model.computed - before == 2, "the last given token, and the one after it"


def test_a_long_prompt_does_not_stall_the_others():
    with Rig(end_chance=0.0, batch_tokens=24, prefill_chunk=6, delay=0.005) as rig:
        running = rig.generate([1, 2], seed=1, max_tokens=200)  # a second: it still runs when the other comes
        next(running)
        rig.model.largest_batch = 0
        collect(rig.generate([5] * 120, seed=2, max_tokens=1))
        assert rig.model.largest_batch <= 7
        collect(running)


def test_priority_runs_first():
    with Rig(max_num_seqs=1, end_chance=0.0, delay=0.001) as rig:
        order = []

        def noting(name):
            return [LogitsProcessorFactory(lambda: order.append(name) or (lambda ids, x: x))]

        first = rig.generate([1], max_tokens=20)
        next(first)
        late = rig.generate([2], max_tokens=2, logits_processors=noting("late"))
        urgent = rig.generate([3], max_tokens=2, priority=-1, logits_processors=noting("urgent"))
        for stream in (first, late, urgent):
            collect(stream)
        assert order == ["urgent", "late"]


def test_a_full_queue_refuses_all_of_a_request_and_recovers():
    with Rig(max_num_seqs=2, max_queue=3, end_chance=0.0, delay=0.001) as rig:
        streams = [rig.generate([1], max_tokens=40) for _ in range(4)]
        with pytest.raises(LimitError) as caught:
            rig.generate([1], n=4, max_tokens=1)
        assert (caught.value.code, caught.value.limit) == ("queue_full", "max_queue")
        for stream in streams:
            collect(stream)
        collect(rig.generate([1], n=4, max_tokens=1), 4)


class Counted:
    """A stateful processor that knows how often it was released, and fails if it is used afterwards."""

    def __init__(self, closed, fail_after):
        self.closed, self.fail_after = closed, fail_after
        closed[self] = 0

    def __call__(self, ids, logits):
        assert self.closed[self] == 0
        if len(ids) >= self.fail_after:
            raise RuntimeError("by request")
        return logits

    def close(self):
        self.closed[self] += 1


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(s, marks=pytest.mark.soak) for s in range(3, 60))])
def test_races_of_finish_stop_abort_and_failure(seed):
    """200 sequences that end in every way at random moments: nothing follows an end, no tail is lost, and each processor is
    released once."""
    choose = random.Random(seed)
    closed: dict[Counted, int] = {}
    parsers: list[LaggingParser] = []
    reasons: dict[str, int] = {}

    def parser(index):
        parsers.append(LaggingParser())
        return parsers[-1]

    with Rig(cells=160, max_num_seqs=6, abort_at_random=0.03, kept_tokens=40) as rig:
        threads = []

        def reader(stream, n, leave_after, parsed, stop):
            outputs = [Output(index=i) for i in range(n)]
            for count, output in enumerate(stream):
                assert outputs[output.index].finish_reason is None
                outputs[output.index].merge(output)
                if count == leave_after:
                    stream.close()
                    return
            for output in outputs:
                assert output.finish_reason is not None
                reasons[output.finish_reason] = reasons.get(output.finish_reason, 0) + 1
                shown = "".join(e.text for e in output.events) if parsed else output.text
                kept = [t for t in output.token_ids if t != EOS]
                encoding = "latin-1" if parsed else "utf-8"
                whole = b"".join(TOKENS[t] for t in kept).decode(encoding, "replace")
                if stop and stop in whole:
                    # What a parser held may complete the stop text when the end, a failure, is already decided.
                    assert output.stop_reason == stop or output.finish_reason == "error"
                    whole = whole[: whole.index(stop)]
                assert shown == whole

        for round_number in range(120):
            n = choose.choice([1, 1, 2, 4])
            parsed = choose.random() < 0.5
            stop = choose.choice([None, "ab", "STOP"])
            fail_after = choose.choice([1000, 1000, 3])
            stream = rig.generate(
                choose.choice(PROMPTS),
                n=n,
                seed=round_number,
                max_tokens=choose.choice([1, 5, 30]),
                stop=(stop,) if stop else (),
                parser_factory=parser if parsed else None,
                logits_processors=[LogitsProcessorFactory(lambda f=fail_after: Counted(closed, f))],
            )
            leave_after = choose.choice([None, None, 0, 3])
            threads.append(
                threading.Thread(target=_keep(errors := [], reader), args=(stream, n, leave_after, parsed, stop))
            )
            threads[-1].errors = errors
            threads[-1].start()
            if choose.random() < 0.3:
                time.sleep(0.002)
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
            assert not thread.errors, thread.errors
        deadline = time.monotonic() + 10
        while (rig.scheduler.stats().running or rig.scheduler.stats().waiting) and time.monotonic() < deadline:
            time.sleep(0.01)
        stats = rig.scheduler.stats()
        assert (stats.running, stats.waiting, stats.kv_used) == (0, 0, 0)
        assert set(closed.values()) == {1}, "each processor is released exactly once"
        assert parsers
        assert {"stop", "length", "error"} <= set(reasons), reasons
        assert sum(stats.finished_total.values()) == next(rig.arrivals)


def _keep(errors, function):
    def run(*arguments):
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(repr(error))

    return run


def test_a_failing_processor_ends_its_own_sequence_alone():
    def failing(ids, logits):
        raise ValueError("broken")

    with Rig() as rig:
        good = rig.generate([1, 2, 3], seed=1, max_tokens=20)
        bad = rig.generate([1, 2, 3], seed=1, max_tokens=20, logits_processors=[failing])
        unmade = rig.generate(
            [1, 2, 3], seed=1, max_tokens=20, logits_processors=[LogitsProcessorFactory(lambda: 1 / 0)]
        )
        for stream in (bad, unmade):
            (output,) = collect(stream)
            assert output.finish_reason == "error"
            assert output.error.code == "logits_processor_failed"
        assert collect(good)[0].token_ids == alone([1, 2, 3], seed=1, max_tokens=20)


def test_constraints_hold_for_each_sequence_and_fail_alone():
    shared, limited = FakeConstraint(), FakeConstraint(steps=4)
    with Rig(end_chance=0.0) as rig:
        good = rig.generate([1, 2], n=3, seed=1, max_tokens=25, constraint=shared)
        bad = rig.generate([1, 2], seed=1, max_tokens=25, constraint=limited)
        for output in collect(good, 3):
            assert output.finish_reason == "length"
            assert set(output.token_ids) <= set(range(1, 6))
        assert shared.matchers == 3
        (output,) = collect(bad)
        assert (output.finish_reason, output.error.code, output.error.limit) == ("error", "limit_reached", "step_work")
        assert len(output.token_ids) == 4
        assert output.text == text_of(output.token_ids), "what came before the failure is not lost"


def test_stop_tokens_ends_and_least_lengths():
    with Rig(end_chance=1.0) as rig:
        (output,) = collect(rig.generate([1], temperature=0))
        assert (output.token_ids, output.text, output.finish_reason, output.stop_reason) == ([EOS], "", "stop", None)
        (output,) = collect(rig.generate([1], temperature=0, min_tokens=5))
        assert len(output.token_ids) == 6
        (output,) = collect(rig.generate([1], temperature=0, ignore_eos=True, max_tokens=7))
        assert (output.finish_reason, EOS in output.token_ids) == ("length", False)
        first = output.token_ids[0]
        (output,) = collect(rig.generate([1], temperature=0, ignore_eos=True, max_tokens=7, stop_token_ids=(first,)))
        assert (output.finish_reason, output.stop_reason, output.text) == ("stop", first, "")


def test_a_sequence_ends_once():
    given = []
    queue = OutputQueue(1, given.append)
    request = Request(request_id="r", prompt_token_ids=[1], sampling=SamplingParams(temperature=0, stop=("zz",)))
    sequence = Sequence(request, 0, arrival=0, vocabulary=FakeVocabulary(), limit=9, queue=queue)
    sequence.open()
    sequence.step(np.eye(len(TOKENS), dtype=np.float32)[11])
    sequence.finish("abort")
    sequence.finish("stop")
    sequence.fail(ValueError("late"))
    (output,) = collect(QueueStream(queue))
    assert (output.text, output.finish_reason, output.error) == ("yz", "abort", None), (
        "what might have become a stop text is not lost"
    )
    assert not given


def test_the_context_is_a_length_limit():
    with Rig(cells=40, end_chance=0.0) as rig:
        (output,) = collect(rig.generate([1] * 30))
        assert (output.finish_reason, len(output.token_ids)) == ("length", 10)


def test_an_engine_that_dies_tells_everyone():
    with Rig(max_num_seqs=2, end_chance=0.0) as rig:
        rig.model.fail_at = 10
        with rig.held():
            streams = [rig.generate([1, 2, i]) for i in range(5)]
        for stream in streams:
            (output,) = collect(stream)
            assert (output.finish_reason, output.error.code) == ("error", "engine_dead")
        with pytest.raises(EngineError) as caught:
            rig.generate([1])
        assert caught.value.code == "engine_dead"


def test_closing_aborts_what_runs_and_refuses_what_comes():
    rig = Rig(max_num_seqs=2, end_chance=0.0, delay=0.001)
    streams = [rig.generate([1, 2, i]) for i in range(5)]
    next(streams[0])
    rig.scheduler.close()
    for stream in streams:
        assert list(stream)[-1].finish_reason == "abort"
    with pytest.raises(EngineError) as caught:
        rig.generate([1])
    assert caught.value.code == "engine_closed"
    rig.scheduler.close()


def test_leaving_a_stream_in_any_way_aborts_it():
    with Rig(max_num_seqs=2, end_chance=0.0, delay=0.001, cells=4000) as rig:
        queued = [rig.generate([1]) for _ in range(5)]
        del queued  # dropped: running and waiting ones alike
        wait_until_idle(rig)
        stream = rig.generate([1])
        next(stream)
        stream.close()
        stream.close()
        assert list(stream) == []
        wait_until_idle(rig)
        with rig.generate([1]) as stream:
            next(stream)
        wait_until_idle(rig)
        assert rig.scheduler.stats().finished_total == {"abort": 7}


def test_streams_are_read_from_an_event_loop():
    async def read(stream):
        async with stream:
            return [o async for o in stream]

    async def leave(stream):
        async with stream:
            async for _ in stream:
                return

    async def everything(rig):
        results = await asyncio.gather(*(read(rig.generate([1, 2, i], seed=i, max_tokens=20)) for i in range(8)))
        task = asyncio.ensure_future(read(rig.generate([3], ignore_eos=True)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await leave(rig.generate([4], ignore_eos=True))
        stream = rig.generate([1, 2], seed=1, max_tokens=5)
        with pytest.raises(asyncio.TimeoutError):  # a wait that is given up loses nothing
            await asyncio.wait_for(asyncio.shield(asyncio.sleep(1)), 0.001)
        return results, await read(stream)

    with Rig(delay=0.0005, cells=4000) as rig:
        results, last = asyncio.run(everything(rig))
        for i, outputs in enumerate(results):
            assert [t for o in outputs for t in o.token_ids] == alone([1, 2, i], seed=i, max_tokens=20, limit=4000)
        assert [t for o in last for t in o.token_ids] == alone([1, 2], seed=1, max_tokens=5)
        wait_until_idle(rig)


def test_a_slow_reader_gets_everything_in_few_pieces():
    with Rig(end_chance=0.0) as rig:
        stream = rig.generate([1, 2], seed=3, max_tokens=60, logprobs=1)
        wait_until_idle(rig)
        outputs = list(stream)
        assert len(outputs) == 1
        assert len(outputs[0].token_ids) == len(outputs[0].logprobs) == 60
        assert np.isfinite([p.logprob for p in outputs[0].logprobs]).all()
