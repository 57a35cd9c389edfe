"""JSON inside a stream: the scanner that finds where a value ends, and small helpers.

`JsonScanner` belongs to the core (core/stream/json_scanner.hpp). It is fed in pieces, takes about a nanosecond a
character, and needs a bit of memory per open bracket. `scan(text, pos)` reads from `pos` to the end of the text or of
the value, and returns how far it came. Then `done` says whether the value has ended. A number outside any bracket ends
at the first character that is not its own, or at `end_of_text`. `kind` is the value's first character, "" before that.

Two kinds of errors are told apart. A `flaw` is a raw control character or an unknown escape inside a string: the
structure stays readable, and scanning goes on. A `fault` is anything else: it stops the scan at the wrong character,
and the caller decides what to do with the rest. A caller may also set `fault` to end a scan.
"""

from __future__ import annotations

import json
import math
from json.encoder import encode_basestring

from narrows._core import JsonScanner

__all__ = ["WHITESPACE", "JsonScanner", "is_finite", "is_json", "keys_of", "quote"]

WHITESPACE = " \t\n\r"


def quote(text: str) -> str:
    """The text as a JSON string. Characters beyond ASCII are not escaped."""
    return encode_basestring(text)


def is_finite(number: str) -> bool:
    """Whether a JSON number is not read as infinity. Integers without an exponent are read digit by digit."""
    return not set(number).intersection("eE.") or math.isfinite(float(number))


def is_json(text: str, max_depth: int) -> bool:
    """Whether the text is one strict JSON value and nothing more."""
    scanner = JsonScanner(max_depth)
    at = scanner.scan(text, 0)
    scanner.end_of_text()
    return scanner.done and scanner.fault is None and scanner.flaw is None and at == len(text)


def keys_of(json_object: str) -> list[str]:
    """The names of the members of an object, given as JSON. Linear."""
    keys: list[str] = []
    last = ""
    depth, at, size = 0, 0, len(json_object)
    while at < size:
        char = json_object[at]
        if char == '"':
            begin = at
            at += 1
            while json_object[at] != '"':
                at += 2 if json_object[at] == "\\" else 1
            last = json_object[begin : at + 1]
        elif char == ":" and depth == 1:
            keys.append(json.loads(last))
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
        at += 1
    return keys
