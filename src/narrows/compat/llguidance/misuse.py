"""Errors of callers that misuse the classes: as llguidance raises them, and with narrows' codes.

A wrong type is a TypeError there. Here it is an InputError that is a TypeError, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from narrows.arguments import INTEGER, ITERABLE, quoted
from narrows.errors import ConcurrentUseError, InputError


class WrongTypeError(InputError, TypeError):
    """An argument has the wrong type."""

    default_code = "wrong_type"


def wrong_type(name: str, wanted: str, value: object) -> WrongTypeError:
    """The error for an argument of a wrong type."""
    return WrongTypeError(f"{name} must be {wanted}, not {type(value).__name__}", pointer=f"/{name}")


def count(name: str, value: object) -> int:
    """An integer that is not negative. Raises InputError, code `wrong_type` or `out_of_range`."""
    if not INTEGER.fits(value):
        raise wrong_type(name, "an int", value)
    number = int(value)  # type: ignore[call-overload]
    if number < 0:
        raise InputError(f"{name} is {quoted(value)}, and must not be negative", code="out_of_range")
    return int(number)


def token_ids(name: str, values: object) -> list[int]:
    """The ids as ints. Raises InputError, code `wrong_type` or `out_of_range`."""
    if type(values) is list and all(type(value) is int for value in values) and min(values, default=0) >= 0:
        return values
    if not ITERABLE.fits(values):
        raise wrong_type(name, "a list of ints", values)
    made: Iterable[Any] = values  # type: ignore[assignment]
    return [count(name, value) for value in made]


def already_borrowed() -> ConcurrentUseError:
    """The error for a matcher that stands in a list twice."""
    return ConcurrentUseError("Already borrowed: one matcher is in the list twice", code="matcher_twice")
