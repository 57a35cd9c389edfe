"""Logits processors: user code between the model and the sampler. A list of plain callables and factories, in order.

A plain callable must be stateless: one object serves every sequence of every request that names it. A processor with a
state comes from a `LogitsProcessorFactory`, which makes one processor per sequence. So n > 1, several prompts and
preemption never share or lose a state. A processor that a factory made is closed exactly once, when its sequence ends,
however it ends.
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
"""`(token_ids, logits) -> logits`. token_ids: the ids that the sequence has generated so far, without the prompt.
logits: float32[V], masked by the constraint. It may work in place. It runs in the decode loop, so its time delays all
sequences."""


@dataclass(frozen=True, slots=True)
class LogitsProcessorFactory:
    """Marks `make` as a function to call once per sequence. If its result has `close()`, that is called at the end."""

    make: Callable[[], LogitsProcessor]


LogitsProcessorSpec = Union[LogitsProcessor, LogitsProcessorFactory]
"""A plain function, or a factory for functions with a state."""


class ProcessorChain:
    """The processors of one sequence, in order. `close` closes those that factories made, once, whatever they raise."""

    __slots__ = ("_owned", "_processors")

    def __init__(self, specs: Sequence[LogitsProcessorSpec]) -> None:
        self._processors: list[LogitsProcessor] = []
        self._owned: list[Any] = []
        try:
            for spec in specs:
                if isinstance(spec, LogitsProcessorFactory):
                    processor = spec.make()
                    self._owned.append(processor)
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
        """The logits after every processor, float32[V]. An exception of a processor becomes an error of its sequence
        alone."""
        size = logits.shape
        for processor in self._processors:
            try:
                logits = np.asarray(processor(token_ids, logits), dtype=np.float32)
            except Exception as error:
                raise _as_own_error(error, "failed") from error
            if logits.shape != size:
                raise InputError(
                    f"a logits processor returned shape {logits.shape} instead of {size}",
                    code=_CODE,
                    hint=f"{processor!r}",
                )
        return logits

    def close(self) -> list[Exception]:
        """Close the processors that factories made, in reverse order. Returns the exceptions of their `close`. A second
        call has no effect."""
        raised: list[Exception] = []
        self._processors.clear()
        while self._owned:
            release = getattr(self._owned.pop(), "close", None)
            if release is None:
                continue
            try:
                release()
            except Exception as error:  # the other processors must still be closed
                raised.append(error)
        return raised


_CODE = "logits_processor_failed"


def _as_own_error(error: BaseException, failure: str) -> BaseException:
    if isinstance(error, NarrowsError) or not isinstance(error, Exception):
        return error
    return EngineError(f"a logits processor {failure}: {type(error).__name__}: {error}", code=_CODE)
