"""vLLM's V1 contract, without an engine: a batch whose rows come, go, move and swap; every row gets the mask of its own sequence."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from states import COUNT, EOS, REGEXES, SIZE, allowed, constrained, counting, expected
from vllm.v1.sample.logits_processor.interface import BatchUpdate, MoveDirectionality

from narrows.plugins.vllm.masking.processors_v1 import OnV1
from narrows.plugins.vllm.masking.sequences import ProcessorState


class Batch:
    """What vLLM's input batch does to a logits processor: one row per request, holes closed by moves, placeholders until sampling."""

    def __init__(self, processor: OnV1) -> None:
        self.processor = processor
        self.rows: list[Any] = []
        self.removed: list[int] = []
        self.added: list[Any] = []
        self.moved: list[Any] = []

    def add(self, request: Any) -> None:
        """A new request, or one that returns after a preemption: with its output, in a list of its own."""
        request.output = list(request.text)
        index = min(self.removed, default=len(self.rows))
        if self.removed:
            self.removed.remove(index)
            self.rows[index] = request
        else:
            self.rows.append(request)
        self.added.append((index, request, None, request.output))

    def remove(self, index: int) -> None:
        self.removed.append(index)
        self.rows[index] = None

    def swap(self, first: int, second: int) -> None:
        self.rows[first], self.rows[second] = self.rows[second], self.rows[first]
        self.moved.append((first, second, MoveDirectionality.SWAP))

    def step(self, placeholders: bool) -> None:
        """Close the holes, tell the processor, sample one token for every row from what it allows."""
        holes = sorted(self.removed)
        removed = sorted(self.removed, reverse=True)
        while holes and self.rows:
            while self.rows and self.rows[-1] is None:
                self.rows.pop()
            hole = holes.pop(0)
            if hole < len(self.rows):
                last = len(self.rows) - 1
                self.rows[hole] = self.rows.pop()
                self.moved.append((last, hole, MoveDirectionality.UNIDIRECTIONAL))
        update = None
        if removed or self.added or self.moved:
            update = BatchUpdate(len(self.rows), tuple(removed), tuple(self.added), tuple(self.moved))
        self.removed, self.added, self.moved = [], [], []
        for request in self.rows:
            if placeholders and request.output and len(request.output) == len(request.text):
                request.output[-1] = -1
        self.processor.update_state(update)
        for request in self.rows:
            request.output[:] = request.text
        logits = torch.zeros(len(self.rows), SIZE)
        logits = self.processor.apply(logits)
        for request, row in zip(self.rows, logits, strict=True):
            request.check(allowed(row))


class Request:
    """Sampling parameters and sequence in one. `pick` chooses among the allowed tokens."""

    def __init__(self, kind: int, pick: int) -> None:
        self.kind, self.pick = kind, pick
        self.text: list[int] = []
        self.output: list[int] = []

    def check(self, found: list[int]) -> None:
        assert found == expected(self.kind, self.text)
        self.pick = self.pick * 5 + 3
        self.text.append(found[self.pick % len(found)])

    @property
    def is_finished(self) -> bool:
        return bool(self.text) and self.text[-1] == EOS


def make(request: Any) -> Any:
    if request.kind == COUNT:
        return counting(request)
    return constrained(REGEXES[request.kind]) if request.kind < COUNT else None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove", "preempt", "swap", "none"]), st.integers(0, 99), st.integers(0, 99)
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.booleans())
def test_rows_keep_their_own_state(steps: list[tuple[str, int, int]], placeholders: bool) -> None:
    batch = Batch(OnV1(make))
    waiting: list[Request] = []
    for action, first, second in steps:
        size = len(batch.rows)
        if action == "add":
            batch.add(waiting.pop() if waiting and first % 2 else Request(first % (len(REGEXES) + 2), second))
        elif size and action in ("remove", "preempt"):
            gone = batch.rows[first % size]
            batch.remove(first % size)
            if action == "preempt" and not gone.is_finished:
                waiting.append(gone)
        elif size and action == "swap":
            batch.swap(first % size, second % size) if first % size != second % size else None
        batch.step(placeholders)


def test_a_shorter_output_is_followed() -> None:
    """vLLM takes tokens back when a transfer of its cache failed."""
    processor = OnV1(make)
    request = Request(2, 0)
    processor.update_state(BatchUpdate(1, (), ((0, request, None, request.output),), ()))
    for text in ([], [2], [2, 3], [2, 3, 4], [2], [2, 5], [2, 5, 5], [2, 11]):
        request.output[:] = text
        assert allowed(processor.apply(torch.zeros(1, SIZE))[0]) == expected(2, text)


def test_a_placeholder_that_stays_ends_the_sequence() -> None:
    """Better than a mask for a text that is not there."""
    processor = OnV1(make)
    requests = [Request(0, 0), Request(0, 0)]
    added = tuple((index, request, None, request.output) for index, request in enumerate(requests))
    processor.update_state(BatchUpdate(2, (), added, ()))
    processor.apply(torch.zeros(2, SIZE))
    requests[0].output.append(-1)
    requests[1].output.append(1)
    rows = processor.apply(torch.zeros(2, SIZE))
    assert allowed(rows[0]) == [EOS]
    assert allowed(rows[1]) == expected(0, [1])


def test_vllm_is_told_to_keep_tokens_only_while_they_are_needed() -> None:
    class InputBatch:
        logitsprocs_need_output_token_ids = False

    processor, batch = OnV1(make), InputBatch()
    processor.watch(batch)
    plain, ours = Request(COUNT + 1, 0), Request(0, 0)
    processor.update_state(BatchUpdate(1, (), ((0, plain, None, []),), ()))
    assert not batch.logitsprocs_need_output_token_ids
    processor.update_state(BatchUpdate(2, (), ((1, ours, None, []),), ()))
    assert batch.logitsprocs_need_output_token_ids
    processor.update_state(BatchUpdate(1, (1,), (), ()))
    assert not batch.logitsprocs_need_output_token_ids


class Recorder:
    def __init__(self, log: list[Any], fails: bool = False) -> None:
        self.log, self.fails = log, fails

    def __call__(self, tokens: list[int], logits: torch.Tensor) -> torch.Tensor:
        self.log.append(("call", tuple(tokens), float(logits[0])))
        if self.fails:
            raise RuntimeError("the user's fault")
        return logits

    def close(self) -> None:
        self.log.append("close")


def test_a_processor_sees_each_length_once_and_is_closed() -> None:
    log: list[Any] = []
    processor = OnV1(lambda params: ProcessorState(lambda: Recorder(log), [EOS]))
    output = [5, 6]
    processor.update_state(BatchUpdate(1, (), ((0, None, None, output),), ()))
    processor.apply(torch.ones(1, SIZE))
    output.append(7)
    processor.apply(torch.ones(1, SIZE))
    processor.update_state(BatchUpdate(0, (0,), (), ()))
    lengths = [("call", (), 0.0), ("call", (5,), 0.0), ("call", (5, 6), 1.0), ("call", (5, 6, 7), 1.0)]
    assert log == [*lengths, "close"]


def test_a_processor_with_replay_is_not_called_for_what_was() -> None:
    class Replayed(Recorder):
        def replay(self, tokens: list[int]) -> None:
            self.log.append(("replay", tuple(tokens)))

    log: list[Any] = []
    processor = OnV1(lambda params: ProcessorState(lambda: Replayed(log), [EOS]))
    processor.update_state(BatchUpdate(1, (), ((0, None, None, [5, 6]),), ()))
    processor.apply(torch.ones(1, SIZE))
    assert log == [("replay", (5, 6)), ("call", (5, 6), 1.0)]


@pytest.mark.parametrize("kind", ["processor", "grammar"])
def test_what_fails_ends_its_own_sequence(kind: str) -> None:
    def make_failing(params: Any) -> Any:
        if params == "good":
            return constrained(REGEXES[0])
        if kind == "processor":
            return ProcessorState(lambda: Recorder([], fails=True), [EOS])
        broken: Future[Any] = Future()
        broken.set_exception(ValueError("a limit"))
        return constrained(broken)

    processor = OnV1(make_failing)
    added = ((0, "bad", None, []), (1, "good", None, []))
    processor.update_state(BatchUpdate(2, (), added, ()))
    rows = processor.apply(torch.zeros(2, SIZE))
    assert allowed(rows[0]) == [EOS]
    assert allowed(rows[1]) == expected(0, [])


def test_logits_of_any_width() -> None:
    """Models pad their logits; what lies beyond the tokenizer is forbidden."""
    processor = OnV1(make)
    processor.update_state(BatchUpdate(1, (), ((0, Request(0, 0), None, []),), ()))
    row = processor.apply(torch.zeros(1, SIZE, dtype=torch.float16))[0]
    assert np.isneginf(row.numpy()).sum() == SIZE - len(expected(0, []))
