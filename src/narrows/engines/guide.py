"""What keeps one sequence to its constraint: the matcher, the mask of the next token, and the work that both take.

    take(token) ─► work(), in a thread of its own ─► mask, or `ended`, or `error`

A call of a matcher may take a tenth of a second, and may wait for a lock under which others work. So the thread that
runs the model makes none: it takes tokens and reads masks. One job makes the matcher, or accepts the token that was
taken, and fills the mask of the next. A guide is in one of three states, and each belongs to one thread: `due` and
`ready` to the engine's, `queued` to the one that works. So the matcher never meets two threads.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from narrows.errors import EngineError

if TYPE_CHECKING:
    from narrows.constraint import Constraint, Matcher

_MOST_ALLOWANCE = 0.02
"""Seconds of work that a sequence may have saved up: the first mask inside a string takes some of it, once."""
_ALLOWANCE_PER_STEP = 0.005
"""Seconds of work that each step adds: a hundred times what most masks take."""


class Guide:
    """The constraint's side of one sequence. `mask_words`: int32 words of a mask."""

    def __init__(self, constraint: Constraint, mask_words: int) -> None:
        self._constraint = constraint
        self._matcher: Matcher | None = None
        self._taken: int | None = None
        self._closed = False
        self._allowance = 0.0
        self.state: Literal["due", "queued", "ready"] = "due"
        self.mask: NDArray[np.int32] = np.zeros(mask_words, dtype=np.int32)
        """Of the next token. Valid while `ready`."""
        self.ended = False
        """The text is whole, and nothing may follow. Valid while `ready`."""
        self.error: Exception | None = None
        """What the work raised; the sequence cannot go on. Valid while `ready`."""
        self.seconds = 0.0
        """What the last work took of its thread's time."""
        self.used_lately = 0.0
        self.queued_at = 0.0
        """Both kept by the lane that the work waits in (`llama_cpp/lanes.py`)."""

    @property
    def is_new(self) -> bool:
        """Whether nothing was done yet, and so nobody knows what it takes."""
        return self._matcher is None

    @property
    def is_heavy(self) -> bool:
        """Whether its work took more than its steps allow: 5 ms each, up to 20 ms saved. Thread time, so that waiting
        does not count."""
        return self._allowance < 0

    @property
    def is_apart(self) -> bool:
        """Whether its constraint shares no lock with others, having asked for much work before."""
        return self._constraint.is_apart

    def take(self, token: int) -> None:
        """The sequence goes on with this token, which the mask allows. Costs nothing: the work is due from now on."""
        self._taken = token
        self.state = "due"

    def work(self) -> None:
        """Do what is due, and make the guide ready. Raises nothing. A closed guide has nothing due."""
        if self._closed:
            return
        start = time.thread_time()
        try:
            self._work()
        except Exception as error:
            self.error = error
        self.seconds = time.thread_time() - start
        self._allowance = min(self._allowance + _ALLOWANCE_PER_STEP, _MOST_ALLOWANCE) - self.seconds
        self.state = "ready"  # last: from here on it is the engine's again

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
        # A vocabulary without end tokens, or a text that has come to its end before it: nothing may follow.
        self.ended = not self.mask.any() and matcher.is_accepting

    def close(self) -> None:
        """The sequence is over. Work that has not begun will not; the rest ends by itself, and nobody reads it."""
        self._closed = True
