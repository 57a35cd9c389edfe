"""Finds the names of control tokens in text, and breaks them so that no user can write a control token.

A broken name has one character inside it that no text may contain. `template.py` breaks names in messages and tools
before a template renders them, and removes the character when the prompt is encoded.

Cost: linear in the text, times the number of distinct lengths of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

BREAK = "\ufdd0"
"""A Unicode noncharacter: reserved for use inside a program. It is refused in messages and never reaches a model."""

# Words with a fixed meaning, which templates compare and use in markup. They are never broken.
_STRUCTURE = frozenset(
    "system developer user assistant tool function type name id content role tool_calls tool_call_id arguments "
    "parameters properties required description items enum const default title format pattern anyOf oneOf allOf "
    "additionalProperties $ref $defs definitions string number integer boolean array object null text strict nullable "
    "minimum maximum".split()
)


class SpecialNames:
    """Finds the names of special tokens in text: leftmost, longest."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name for name in names if len(name) > 1)
        self._buckets: dict[str, list[int]] = {}
        for name in self._names:
            lengths = self._buckets.setdefault(name[:2], [])
            if len(name) not in lengths:
                lengths.append(len(name))
        for lengths in self._buckets.values():
            lengths.sort(reverse=True)
        self._insides = {
            name[i:j]
            for name in self._names
            if len(name) <= 64
            for i in range(1, len(name))
            for j in range(i + 1, len(name))
        }
        self._heads = {name[:i] for name in self._names for i in range(1, len(name))}
        self._tails = {name[i:] for name in self._names for i in range(1, len(name))}
        self._longest = max((len(name) for name in self._names), default=0)
        self._guard_short = lru_cache(maxsize=4096)(self._guard)

    def find(self, text: str) -> Iterator[tuple[int, str]]:
        """(index, longest name there) for every index where a name begins, in order. Names may overlap."""
        starts = []
        for head in self._buckets:
            at = text.find(head)
            while at >= 0:
                starts.append(at)
                at = text.find(head, at + 1)
        for at in sorted(starts):
            for length in self._buckets[text[at : at + 2]]:
                name = text[at : at + length]
                if name in self._names:
                    yield at, name
                    break

    def guard(self, text: str) -> str:
        """`text` with every name broken. Also breaks a beginning or an end of `text` that could form a name together
        with the template's own text."""
        if text in _STRUCTURE or not self._names:
            return text
        # The strings of a tool come again with every request of a conversation.
        return self._guard_short(text) if len(text) <= 256 else self._guard(text)

    def _guard(self, text: str) -> str:
        if text in self._insides:  # a key `tool_call` that the template writes as `<tool_call>`
            return text[:1] + BREAK + text[1:] if len(text) > 1 else text + BREAK
        pieces, last = [], 0
        for at, _ in self.find(text):
            pieces.append(text[last : at + 1])
            last = at + 1
        out = BREAK.join([*pieces, text[last:]])
        window = range(1, min(len(text), self._longest) + 1)
        if any(text[:n] in self._tails for n in window):
            out = BREAK + out
        if any(text[-n:] in self._heads for n in window):
            out = out + BREAK
        return out

    def guard_value(self, value: Any) -> Any:
        """A JSON value with every string and key in it guarded. Its depth was bounded when it was read."""
        if isinstance(value, str):
            return self.guard(value)
        # No recursion: containers are built first and filled from a work list.
        root: list[Any] = [None]
        work: list[tuple[Any, Any, Any]] = [(root, 0, value)]
        while work:
            target, key, item = work.pop()
            if isinstance(item, str):
                target[key] = self.guard(item)
            elif isinstance(item, Mapping):
                copy: dict[str, Any] = {self.guard(str(k)): None for k in item}
                target[key] = copy
                work.extend((copy, self.guard(str(k)), v) for k, v in item.items())
            elif isinstance(item, (list, tuple)):
                target[key] = [None] * len(item)
                work.extend((target[key], i, v) for i, v in enumerate(item))
            else:
                target[key] = item
        return root[0]
