"""Counts the work of reading one grammar, and ends the reading at the limit.

Every front end has one `Work` and charges it: for each new node, for the ranges of a set of characters, for an
alternative, a digit, a key. So nested loops and products are counted too. A text of a few kilobytes that would keep a
processor busy for minutes is refused after a second.

A unit is about 1 us of Python, but no clock is read. A result that comes from a cache is charged as if it were
computed, once per reading. So the same input reaches the same limit on every machine and at any time.

Cost: about 80 ns per charge. Loops charge in bulk.
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

    __slots__ = ("_seen", "limits", "most", "pointer", "regular", "source", "spent")

    def __init__(self, limits: Limits, spent: int = 0) -> None:
        self.limits = limits
        self.spent = spent
        """Units charged so far."""
        self.pointer: str | None = None
        """The JSON pointer that the reading has reached in a schema. Other languages add the place to the error
        themselves."""
        self.source: str | None = None
        """Instead of `pointer`, the source of a rule (`ir.Module.sources`): a JSON pointer, or line:column."""
        self.most = limits.reading_work
        self.regular: object | None = None
        """What regular.py has found out so far."""
        self._seen: set[Hashable] = set()

    @staticmethod
    def of(bounds: Limits | Work) -> Work:
        """The work that a caller shares among several parts, or a new one."""
        return bounds if isinstance(bounds, Work) else Work(bounds)

    def spend(self, units: int) -> None:
        """Charges work; call it before doing the work if possible. Raises LimitError (`reading_work`)."""
        self.spent += units
        if self.spent > self.most:
            raise self.refusal("reading_work", f"reading this takes more than {self.most:,} units of work")

    def refusal(self, limit: str, message: str) -> LimitError:
        """The error for a limit that was reached, with the current place."""
        pointer, (line, column) = self.pointer, place_of(self.source or "")
        if self.source is not None and (self.source == "" or self.source.startswith("/")):
            pointer = self.source
        if pointer is not None and len(pointer) > _LONGEST_POINTER:  # a name may have megabytes: give a place above it
            pointer = pointer[: pointer.rfind("/", 0, _LONGEST_POINTER)]
        hint = f"Simplify what stands here and before, or raise Limits.{limit} if it is trusted"
        return LimitError(message, pointer=pointer, line=line, column=column, limit=limit, hint=hint)

    def first(self, key: Hashable) -> bool:
        """Whether this reading meets `key` for the first time. If so, charge a cached result in full; later, charge the
        look-up only."""
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


def place_of(source: str) -> tuple[int | None, int | None]:
    """Line and column of a source of a rule (`ir.Module.sources`), if it has them."""
    line, _, column = source.partition(":")
    return (int(line), int(column)) if line.isdecimal() and column.isdecimal() else (None, None)


class Kept(Generic[T]):
    """A cache of results by key, for all readings of the process. It is bounded by weight, and emptied when the bound
    is reached."""

    __slots__ = ("_entries", "_most", "_weight")

    def __init__(self, most: int) -> None:
        self._entries: dict[Hashable, T] = {}
        self._most = most
        self._weight = 0

    def get(self, key: Hashable) -> T | None:
        return self._entries.get(key)

    def put(self, key: Hashable, value: T, weight: int) -> None:
        """Keeps the value, unless it weighs more than an eighth of the bound."""
        if 8 * weight > self._most:
            return
        self._weight += weight
        if self._weight > self._most:
            self._entries.clear()
            self._weight = weight
        self._entries[key] = value
