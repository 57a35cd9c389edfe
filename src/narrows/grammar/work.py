"""How much work the reading of one grammar has taken, and the end of it.

Every front end carries one `Work` and charges it where work is done: for each node that is made, for a set of
characters by its ranges, for an alternative, a digit, a key. So nested loops and products cannot hide, and a text of
some kilobytes that would keep a processor busy for minutes is refused after a second. A unit is about 1 us of Python;
nothing here looks at a clock, and what a cache spares is charged all the same, once per reading: the same input meets
the same limit everywhere and at any time.

Cost: some 80 ns a charge; loops charge in bulk.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from narrows.errors import LimitError
from narrows.limits import Limits

T = TypeVar("T")

_LONGEST_POINTER = 1_024


class Work:
    """The work of one reading, over all its parts: patterns in a schema, tools of a request, the lowering to arrays."""

    __slots__ = ("_seen", "limits", "most", "pointer", "source", "spent")

    def __init__(self, limits: Limits, spent: int = 0) -> None:
        self.limits = limits
        self.spent = spent
        """Units so far."""
        self.pointer: str | None = None
        """Where in a schema the reading is; other languages add their place to the error themselves."""
        self.source: str | None = None
        """What is known of the place of a rule instead (`ir.Module.sources`): a JSON pointer, or line:column."""
        self.most = limits.reading_work
        self._seen: set[Hashable] = set()

    @staticmethod
    def of(bounds: Limits | Work) -> Work:
        """The work that a caller shares among several parts, or a new one."""
        return bounds if isinstance(bounds, Work) else Work(bounds)

    def spend(self, units: int) -> None:
        """Charges work, best before it is done. Raises LimitError (`reading_work`)."""
        self.spent += units
        if self.spent > self.most:
            raise self.refusal("reading_work", f"reading this takes more than {self.most:,} units of work")

    def refusal(self, limit: str, message: str) -> LimitError:
        """The error of a limit that was reached here."""
        pointer, line, column = self.pointer, None, None
        if self.source is not None and (self.source == "" or self.source.startswith("/")):
            pointer = self.source
        elif self.source is not None:
            before, _, after = self.source.partition(":")
            if before.isdecimal() and after.isdecimal():
                line, column = int(before), int(after)
        if pointer is not None and len(pointer) > _LONGEST_POINTER:  # names of megabytes: a place above it will do
            pointer = pointer[: pointer.rfind("/", 0, _LONGEST_POINTER)]
        hint = f"Simplify what stands here and before, or raise Limits.{limit} if it is trusted"
        return LimitError(message, pointer=pointer, line=line, column=column, limit=limit, hint=hint)

    def first(self, key: Hashable) -> bool:
        """Whether this is met for the first time in this reading. What is kept is charged in full then, and but for the
        look-up later."""
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


class Kept(Generic[T]):
    """What was made before, by its key, for all readings of the process. Bounded by weight, and emptied when that is
    reached."""

    __slots__ = ("_entries", "_most", "_weight")

    def __init__(self, most: int) -> None:
        self._entries: dict[Hashable, T] = {}
        self._most = most
        self._weight = 0

    def get(self, key: Hashable) -> T | None:
        return self._entries.get(key)

    def put(self, key: Hashable, value: T, weight: int) -> None:
        """Keeps it, unless it alone is heavier than an eighth of all."""
        if 8 * weight > self._most:
            return
        self._weight += weight
        if self._weight > self._most:
            self._entries.clear()
            self._weight = weight
        self._entries[key] = value
