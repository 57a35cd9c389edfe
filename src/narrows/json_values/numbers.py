"""The numbers of JSON, read character by character."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from narrows.errors import InputError

_DIGITS = "0123456789"
_FRACTION = {".": "point", "e": "exponent", "E": "exponent"}

STEPS: dict[str, dict[str, str]] = {
    "": {"-": "minus", "0": "zero", **dict.fromkeys("123456789", "whole")},
    "minus": {"0": "zero", **dict.fromkeys("123456789", "whole")},
    "zero": _FRACTION,
    "whole": {**dict.fromkeys(_DIGITS, "whole"), **_FRACTION},
    "point": dict.fromkeys(_DIGITS, "fraction"),
    "fraction": {**dict.fromkeys(_DIGITS, "fraction"), "e": "exponent", "E": "exponent"},
    "exponent": {**dict.fromkeys(_DIGITS, "power"), "+": "sign", "-": "sign"},
    "sign": dict.fromkeys(_DIGITS, "power"),
    "power": dict.fromkeys(_DIGITS, "power"),
}
"""For each state, the state after a character. A number begins in the state ""."""
WHOLE = frozenset(("zero", "whole", "fraction", "power"))
"""The states in which the text is a number."""
_INTEGERS = frozenset(("zero", "whole"))
_MOST_DIGITS = 4_300
"""Digits of the largest integer, as in Python and Pydantic. Reading digits takes quadratic time."""


def number(text: str, state: str, parse_float: Callable[[str], Any], offset: int) -> Any:
    """The value of a number that ends in `state`. Raises `InputError` for an integer of more than 4,300 digits."""
    if state not in _INTEGERS:
        return parse_float(text)
    if len(text) <= _MOST_DIGITS:
        try:
            return int(text)
        except ValueError:  # the process has set a lower bound
            pass
    raise InputError(f"an integer of {len(text)} digits is too long to be read", code="json_invalid", offset=offset)
