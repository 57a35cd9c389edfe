"""What becomes of each keyword: enforced exactly, or not, and then why.

The report is built after the lowering from the places that were reached, so that it costs nothing on the way. A
definition that nothing refers to is not read and not reported.
"""

from __future__ import annotations

import warnings
from typing import Literal

from narrows.errors import GrammarError, InputError, LimitError, UnsupportedError
from narrows.grammar.options import OnUnsupported

StatusKind = Literal["exact", "over", "under", "ignored"]


class Status(str):
    """`"exact"`, `"over"` (the grammar allows more than the keyword), `"under"` (less) or `"ignored"` (not enforced at
    all).

    Compares and serialises as that word; `reason` says why, "" where there is nothing to say.
    """

    __slots__ = ("reason",)
    reason: str

    def __new__(cls, kind: StatusKind, reason: str = "") -> Status:
        self = super().__new__(cls, kind)
        self.reason = reason
        return self

    def __repr__(self) -> str:
        return f"Status({str(self)!r}, {self.reason!r})"

    def __reduce__(self) -> tuple[type[Status], tuple[str, str]]:
        return Status, (str(self), self.reason)


LOOSE: tuple[StatusKind, ...] = ("ignored", "over")
"""Where what is generated may be invalid."""
EXACT = Status("exact")
ANNOTATION = Status("exact", "an annotation: asserts nothing")
CLOSED = Status("under", 'as asked (additional="declared"): no keys but those that schemas name here')


class Reporter:
    """Collects what is not plainly exact, and applies `on_unsupported`."""

    __slots__ = ("notes", "on_unsupported")

    def __init__(self, on_unsupported: OnUnsupported) -> None:
        if on_unsupported not in ("error", "warn", "ignore"):
            raise InputError(
                f'on_unsupported must be "error", "warn" or "ignore", not {on_unsupported!r}', code="invalid_option"
            )
        self.on_unsupported = on_unsupported
        self.notes: dict[str, Status] = {}

    def unsupported(self, pointer: str, reason: str, *, kind: StatusKind = "ignored", hint: str | None = None) -> None:
        """A keyword that will not be enforced exactly: an error, or a note in the report."""
        if self.on_unsupported == "error":
            raise UnsupportedError(
                reason,
                code="schema_unsupported",
                pointer=pointer,
                hint=hint or 'Remove it; in Python, on_unsupported="warn" does without it',
            )
        if self.on_unsupported == "warn" and pointer not in self.notes:
            warnings.warn(f"JSON Schema: {reason} (at {pointer}): {kind}", UserWarning, stacklevel=2)
        self.notes[pointer] = Status(kind, reason)

    def note(self, pointer: str, status: Status) -> None:
        """An exact keyword about which there is something to say."""
        self.notes.setdefault(pointer, status)


def invalid(pointer: str, message: str, hint: str | None = None) -> GrammarError:
    """A schema that is no schema."""
    return GrammarError(message, code="schema_invalid", pointer=pointer, hint=hint)


def unsatisfiable(pointer: str, message: str) -> GrammarError:
    """A schema that no JSON value satisfies."""
    return GrammarError(message, code="unsatisfiable", pointer=pointer)


def over_limit(name: str, bound: int, message: str, pointer: str | None = None) -> LimitError:
    return LimitError(
        f"{message} (at most {bound:,})",
        pointer=pointer,
        limit=name,
        hint=f"Simplify the schema, or raise Limits.{name} if it is trusted",
    )
