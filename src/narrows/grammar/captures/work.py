"""Counts the work of reading one text (`Limits.capture_work`), and keeps the automata of its terminals."""

from __future__ import annotations

from narrows.errors import LimitError
from narrows.grammar import ir
from narrows.grammar.regular import NEVER, Regular
from narrows.grammar.work import Work
from narrows.limits import Limits


class CaptureWork(Work):
    """The work of one text, with the network of its grammar."""

    __slots__ = ()

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.most = limits.capture_work

    def spend(self, units: int) -> None:
        self.spent += units
        if self.spent > self.most:
            raise self.refusal("capture_work", f"reading this text takes more than {self.most:,} units of work")

    def refusal(self, limit: str, message: str) -> LimitError:
        hint = f"Capture less of a text at a time, or raise Limits.{limit} if it is trusted"
        return LimitError(message, limit=limit, hint=hint)


class Terminals:
    """The automata of regular nodes, made as far as texts lead. A state is a number; `NEVER` leads nowhere."""

    def __init__(self, work: Work) -> None:
        self._regular = Regular(work)
        self._after: dict[tuple[int, int], int] = {}
        self._ends: dict[int, bool] = {}
        self._alive: dict[int, int] = {}

    def of(self, node: ir.Node) -> int:
        """The first state. `NEVER` if nothing matches."""
        return self._or_never(self._regular.of(node))

    def ends(self, state: int) -> bool:
        """Whether a text may end here."""
        known = self._ends.get(state)
        if known is None:
            known = self._ends[state] = self._regular.matches(state, b"")
        return known

    def after(self, state: int, byte: int) -> int:
        known = self._after.get((state, byte))
        if known is None:
            known = self._after[state, byte] = self._or_never(self._regular.after(state, byte))
        return known

    def _or_never(self, state: int) -> int:
        known = self._alive.get(state)
        if known is None:
            known = self._alive[state] = NEVER if self._regular.is_never(state) else state
        return known
