"""Where a JSON text that may be cut stands: in which value, at which part of it.

The text is taken to be the beginning of a JSON text. Nothing is checked: whoever asks has read it by a grammar. Cost:
one pass over the text, some 0.1 us a structural character; strings are skipped at once. No recursion.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from narrows.grammar.json_schema.document import escape

Part = Literal["value", "key", "colon", "next", "end"]
_ENDS = frozenset(',]}: \t\r\n"')


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place behind the last character of a text."""

    path: tuple[str | int, ...]
    """Keys and indices that lead to the value. It is the value that is being written or comes next ("value"), or the
    object or array in which something comes next ("key", "colon", "next")."""
    part: Part
    """"value": inside a value, or before one. "key": inside a key, or before one. "colon": behind a key. "next": behind
    a member or an item. "end": behind the whole text."""
    keys: tuple[str, ...] = ()
    """The complete keys of the object, if the part is "key", "colon" or "next"."""

    @property
    def pointer(self) -> str:
        """The path as a JSON pointer."""
        return "".join(f"/{escape(str(step))}" for step in self.path)


class _Open:
    """An object or array that is open."""

    __slots__ = ("index", "keys")

    def __init__(self, is_object: bool) -> None:
        self.keys: list[str] | None = [] if is_object else None
        self.index = 0

    @property
    def step(self) -> str | int:
        return self.index if self.keys is None else self.keys[-1] if self.keys else ""


def cursor(text: str) -> Cursor:
    """The place behind this beginning of a JSON text."""
    stack: list[_Open] = []
    part: Part = "value"
    at, size = 0, len(text)
    while at < size:
        char = text[at]
        if char == '"':
            end = _string_end(text, at)
            if end > size:
                break
            if part == "key":
                keys = stack[-1].keys
                assert keys is not None
                keys.append(_string(text[at:end]))
                part = "colon"
            else:
                part = "next"
            at = end
            continue
        at += 1
        if char in "{[":
            stack.append(_Open(char == "{"))
            part = "key" if char == "{" else "value"
        elif char in "}]":
            if stack:
                stack.pop()
            part = "next"
        elif char == ":":
            part = "value"
        elif char == ",":
            if stack and stack[-1].keys is None:
                stack[-1].index += 1
                part = "value"
            else:
                part = "key"
        elif char not in " \t\r\n":
            while at < size and text[at] not in _ENDS:
                at += 1
            if at == size and char not in "tfn":  # a number may go on
                break
            part = "next" if at < size or text.endswith(("true", "false", "null")) else "value"
            if part == "value":
                break
    path = [one.step for one in stack]
    if part == "value" or not stack:
        return Cursor(tuple(path), part if part == "value" else "end")
    return Cursor(tuple(path[:-1]), part, tuple(stack[-1].keys or ()))


def _string_end(text: str, at: int) -> int:
    """Behind the string that begins here; more than the text has if it is cut."""
    end = at + 1
    while True:
        end = text.find('"', end)
        if end < 0:
            return len(text) + 1
        slashes = end
        while text[slashes - 1] == "\\":
            slashes -= 1
        if (end - slashes) % 2 == 0:
            return end + 1
        end += 1


def _string(spelled: str) -> str:
    try:
        return str(json.loads(spelled, strict=False))
    except ValueError:
        return spelled[1:-1]
