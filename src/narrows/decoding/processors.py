"""User code between the model and the sampler: an ordered list that mixes plain callables and factories.

A plain callable is for the stateless: one object serves every sequence of every request that names it. What remembers
goes through a `LogitsProcessorFactory`, which makes one processor per sequence, so that n > 1, several prompts and
preemption never share or lose a state. A made processor is released exactly once, when its sequence ends, however it
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from narrows.errors import EngineError, InputError, NarrowsError

Logits = NDArray[np.float32]
LogitsProcessor = Callable[[Sequence[int], Logits], Logits]
"""`(token_ids, logits) -> logits`: the ids that the sequence has generated so far (prompt left out) and float32[V],
masked by the constraint. It may work in place. It runs in the decode loop: its time is everyone's time."""


@dataclass(frozen=True, slots=True)
class LogitsProcessorFactory:
    """Marks `make` as something to call once per sequence. If what it makes has `close()`, that is called at the
    end."""

    make: Callable[[], LogitsProcessor]


LogitsProcessorSpec = Union[LogitsProcessor, LogitsProcessorFactory]


class ProcessorChain:
    """The processors of one sequence, in order. `close` releases what factories made, once, whatever they raise."""

    __slots__ = ("_made", "_processors")

    def __init__(self, specs: Sequence[LogitsProcessorSpec]) -> None:
        self._processors: list[LogitsProcessor] = []
        self._made: list[Any] = []
        try:
            for spec in specs:
                if isinstance(spec, LogitsProcessorFactory):
                    processor = spec.make()
                    self._made.append(processor)
                else:
                    processor = spec
                if not callable(processor):
                    raise InputError(f"a logits processor must be callable, not {processor!r}", code=_CODE)
                self._processors.append(processor)
        except BaseException as error:
            self.close()
            raise _as_own_error(error, "could not be made") from error

    def __bool__(self) -> bool:
        return bool(self._processors)

    def __call__(self, token_ids: Sequence[int], logits: Logits) -> Logits:
        """The logits after every processor, float32[V]. What a processor raises becomes an error of its sequence
        alone."""
        size = logits.shape
        for processor in self._processors:
            try:
                logits = np.asarray(processor(token_ids, logits), dtype=np.float32)
            except Exception as error:
                raise _as_own_error(error, "failed") from error
            if logits.shape != size:
                raise InputError(
                    f"a logits processor returned shape {logits.shape} for {size}", code=_CODE, hint=f"{processor!r}"
                )
        return logits

    def close(self) -> list[Exception]:
        """Release what factories made, in reverse order. Returns what the releases raised; calling again does
        nothing."""
        raised: list[Exception] = []
        self._processors.clear()
        while self._made:
            release = getattr(self._made.pop(), "close", None)
            if release is None:
                continue
            try:
                release()
            except Exception as error:  # a failing release must not keep the others from theirs
                raised.append(error)
        return raised


_CODE = "logits_processor_failed"


def _as_own_error(error: BaseException, what: str) -> BaseException:
    if isinstance(error, NarrowsError) or not isinstance(error, Exception):
        return error
    return EngineError(f"a logits processor {what}: {type(error).__name__}: {error}", code=_CODE)
