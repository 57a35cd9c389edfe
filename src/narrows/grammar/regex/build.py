"""Constructors of regular nodes that simplify, so that plain text becomes one node; and the division of the characters
into the classes that a pattern tells apart."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

from narrows.errors import UnsupportedError
from narrows.grammar import ir, utf8
from narrows.grammar.regex.tree import Behind
from narrows.grammar.utf8 import Ranges
from narrows.grammar.work import Work

T = TypeVar("T")
Steps = Generator[Any, Any, T]
"""A walk without recursion: it yields the walks whose results it needs."""


def run(steps: Steps[T]) -> T:
    """Runs a generator that yields the generators whose results it needs."""
    stack: list[Steps[Any]] = [steps]
    result: Any = None
    while True:
        try:
            stack.append(stack[-1].send(result))
            result = None
        except StopIteration as stop:
            stack.pop()
            result = stop.value
            if not stack:
                return result  # type: ignore[no-any-return]


def looks_behind(part: Behind) -> UnsupportedError:
    """The refusal of a look-behind that stands where it cannot be lowered."""
    return UnsupportedError(
        "look-behind by more than one character is not supported here in a regular expression",
        code="regex_unsupported",
        offset=part.offset,
        hint="It may stand outside groups, if nothing before it looks around",
    )


def partition(sets: Iterable[Ranges], work: Work) -> list[Ranges]:
    """The coarsest classes of characters such that each of the sets holds all of a class or none of it."""
    parts = [utf8.ANY]
    for ranges in sets:
        others = utf8.complement(ranges)
        cut = []
        for part in parts:
            work.spend(2 + len(part) + 2 * len(ranges))
            cut.append((utf8.intersection(part, ranges), utf8.intersection(part, others)))
        parts = [half for halves in cut for half in halves if half]
    return parts


_SHORT = 64
"""Sequences up to this length are flattened. To copy longer ones again and again would be quadratic."""


def seq(items: Iterable[ir.Node], work: Work) -> ir.Node:
    flat: list[ir.Node] = []
    for item in items:
        if item == ir.NEVER:
            return ir.NEVER
        flat.extend(item.items if isinstance(item, ir.Seq) and len(item.items) <= _SHORT else (item,))
    work.spend(1 + len(flat) // 4)
    spelled: list[ir.Node] = []
    text: list[bytes] = []  # the characters since the last item that is not a character
    for item in flat:
        if isinstance(item, ir.ByteSet) and item.bits & (item.bits - 1) == 0:
            text.append(bytes([item.bits.bit_length() - 1]))
        elif isinstance(item, ir.Bytes):
            work.spend(len(item.data) // 1024)
            text.append(item.data)
        else:
            _add_text(spelled, text)
            spelled.append(item)
    _add_text(spelled, text)
    return spelled[0] if len(spelled) == 1 else ir.Seq(tuple(spelled)) if spelled else ir.EMPTY


def _add_text(spelled: list[ir.Node], text: list[bytes]) -> None:
    if data := b"".join(text):
        spelled.append(ir.Bytes(data))
    text.clear()


def alt(items: Iterable[ir.Node]) -> ir.Node:
    """An alternation. All items that are `Bytes` become one `Literals`."""
    literals: dict[bytes, None] = {}
    others: dict[int, ir.Node] = {}
    for item in items:
        if isinstance(item, ir.Bytes):
            literals[item.data] = None
        elif item != ir.NEVER:
            others[id(item)] = item
    options = list(others.values())
    if len(literals) == 1:
        options.append(ir.Bytes(next(iter(literals))))
    elif literals:
        options.append(ir.Literals(tuple(literals)))
    return options[0] if len(options) == 1 else ir.Alt(tuple(options))


def repeat(item: ir.Node, low: int, high: int | None) -> ir.Node:
    if high is not None and high < low:
        return ir.NEVER
    if high == 0 or item == ir.EMPTY:
        return ir.EMPTY
    if item == ir.NEVER:
        return ir.EMPTY if low == 0 else ir.NEVER
    return item if (low, high) == (1, 1) else ir.Repeat(item, low, high)
