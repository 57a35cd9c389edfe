"""The guide of one sequence holds it to its constraint. It has the matcher and the mask of the next token.

    take(token) ─► work(), in another thread ─► mask, or `ended`, or `error`

A call of a matcher may take a tenth of a second, and may wait for a lock that other threads hold. So the thread that
runs the model never calls a matcher: it takes tokens and reads masks. One job makes the matcher, or accepts the token
that was taken, and fills the mask of the next token. A guide is in one of three states. In `due` and `ready` it belongs
to the engine's thread, in `queued` to the thread that works. So only one thread at a time uses the matcher.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from narrows.errors import EngineError, without_frames

if TYPE_CHECKING:
    from narrows.constraint import Constraint, Matcher

_MOST_ALLOWANCE = 0.02
"""Most seconds of work that a sequence may save up. The first mask inside a string needs some of them, once."""
_ALLOWANCE_PER_STEP = 0.005
"""Seconds of work that each step allows: a hundred times what most masks take."""


class Guide:
    """Matcher and mask of one sequence. `mask_words`: number of int32 words of a mask."""

    def __init__(self, constraint: Constraint, mask_words: int) -> None:
        self._constraint = constraint
        self._matcher: Matcher | None = None
        self._taken: int | None = None
        self._closed = False
        self._allowance = 0.0
        self.state: Literal["due", "queued", "ready"] = "due"
        self.mask: NDArray[np.int32] = np.zeros(mask_words, dtype=np.int32)
        """The mask of the next token, int32[mask_words]. Valid while `ready`."""
        self.ended = False
        """Whether the text is complete and no token may follow. Valid while `ready`."""
        self.error: Exception | None = None
        """The exception of the work, after which the sequence cannot go on. Valid while `ready`."""
        self.seconds = 0.0
        """Thread time of the last work."""
        self.used_lately = 0.0
        self.queued_at = 0.0
        """`used_lately` and `queued_at` are set by the lane that the work waits in (`llama_cpp/lanes.py`)."""

    @property
    def is_new(self) -> bool:
        """Whether no work was done yet, so that its cost is unknown."""
        return self._matcher is None

    @property
    def is_heavy(self) -> bool:
        """Whether its work took more than its steps allow: 5 ms each, up to 20 ms saved. Thread time is measured, so
        that waiting does not count."""
        return self._allowance < 0

    @property
    def is_apart(self) -> bool:
        """Whether its constraint shares no lock with others, because it needed much work before."""
        return self._constraint.is_apart

    def take(self, token: int) -> None:
        """Record the next token of the sequence, which the mask allows. Does no work, but makes it due."""
        self._taken = token
        self.state = "due"

    def work(self) -> None:
        """Do the due work, and make the guide ready. Errors go to `error`. A closed guide does nothing."""
        if self._closed:
            return
        start = time.thread_time()
        try:
            self._work()
        except Exception as error:
            self.error = without_frames(error)
        self.seconds = time.thread_time() - start
        self._allowance = min(self._allowance + _ALLOWANCE_PER_STEP, _MOST_ALLOWANCE) - self.seconds
        self.state = "ready"  # last: from here on the engine's thread may use the guide

    def _work(self) -> None:
        matcher = self._matcher
        if matcher is None:
            matcher = self._matcher = self._constraint.matcher()
        elif self._taken is not None and not matcher.accept(self._taken):
            raise EngineError(
                f"the constraint refuses token {self._taken}, which its own mask allows", code="mask_disagrees"
            )
        self._taken = None
        if matcher.is_finished:
            self.ended = True
            return
        matcher.fill_mask(self.mask)
        # No token is allowed: the vocabulary has no end tokens, or the text is complete. So the sequence ends.
        self.ended = not self.mask.any() and matcher.is_accepting

    def close(self) -> None:
        """The sequence has ended. Queued work is skipped. The result of running work is not read."""
        self._closed = True
