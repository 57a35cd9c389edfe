"""Bracketed classes of the Rust dialect: nested classes, `&&`, `--` and `~~`, POSIX names.

Items side by side form a union. The union binds tighter than the three operators, which are evaluated from left to
right.

Cost: linear in the class and in the ranges of its sets, once per operator (`Limits.reading_work`). Open classes are
kept on a list.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from narrows.errors import LimitError
from narrows.grammar import utf8
from narrows.grammar.regex import classes, escapes
from narrows.grammar.regex.escapes import Atom, Source
from narrows.grammar.utf8 import Ranges

_SPACE = " \t\n\v\f\r\x85\u200e\u200f\u2028\u2029"


@dataclass(slots=True)
class _Level:
    """An open class: the left operand so far, the operator after it, and the items read after the operator."""

    offset: int
    negate: bool
    left: Ranges = ()
    operator: str = ""
    items: list[Ranges] = field(default_factory=list)


def rust_class(source: Source, flags: frozenset[str], offset: int) -> Ranges:
    """The set of a class whose `[` has been taken."""
    caseless = "i" in flags
    levels = [_open(source, flags, offset)]
    while True:
        source.work.spend(6)
        _skip_space(source, flags)
        level = levels[-1]
        if source.at_end:
            source.fail("unclosed character class", level.offset)
        at = source.pos
        if source.skip("]"):
            ranges = _cased(source, _combined(source, level, caseless), caseless)
            levels.pop()
            ranges = source.complement(ranges) if level.negate else ranges
            if not levels:
                return ranges
            levels[-1].items.append(ranges)
        elif source.at("["):
            named = _posix(source, caseless)
            if named is not None:
                level.items.append(named)
            else:
                source.pos += 1
                if len(levels) > source.work.limits.nesting:
                    raise LimitError(f"{len(levels)} classes are open", limit="nesting", offset=at)
                levels.append(_open(source, flags, at))
        elif source.peek() in ("&", "-", "~") and source.peek(1) == source.peek():
            level.left = _combined(source, level, caseless)
            level.operator = source.take()
            source.pos += 1
            level.items = []
        else:
            level.items.append(_item(source, flags, at, level.offset))


def _open(source: Source, flags: frozenset[str], offset: int) -> _Level:
    _skip_space(source, flags)
    level = _Level(offset, source.skip("^"))
    _skip_space(source, flags)
    while source.skip("-"):
        level.items.append(utf8.code_points("-"))
        _skip_space(source, flags)
    if not level.items and source.skip("]"):
        level.items.append(utf8.code_points("]"))
    return level


def _combined(source: Source, level: _Level, caseless: bool) -> Ranges:
    right = source.union(level.items)
    if not level.operator:
        return right
    left, right = _cased(source, level.left, caseless), _cased(source, right, caseless)
    source.work.spend(2 * (len(left) + len(right)))
    if level.operator == "&":
        return utf8.intersection(left, right)
    if level.operator == "-":
        return utf8.difference(left, right)
    return utf8.union(utf8.difference(left, right), utf8.difference(right, left))


def _cased(source: Source, ranges: Ranges, caseless: bool) -> Ranges:
    return source.fold(ranges, "rust") if caseless else ranges


def _item(source: Source, flags: frozenset[str], at: int, offset: int) -> Ranges:
    low = _atom(source, flags, offset)
    _skip_space(source, flags)
    if not source.at("-") or _after_hyphen(source, flags) in ("]", "-", ""):
        return low.ranges
    source.pos += 1
    _skip_space(source, flags)
    high = _atom(source, flags, offset)
    if low.point is None or high.point is None:
        source.fail("bad character range: an end is not one character", at)
    if low.point > high.point:
        source.fail("bad character range: the ends are out of order", at)
    return utf8.code_points((low.point, high.point))


def _atom(source: Source, flags: frozenset[str], offset: int) -> Atom:
    if source.at_end:
        source.fail("unclosed character class", offset)
    char = source.take()
    if char != "\\":
        return Atom(utf8.code_points(char), ord(char))
    atom = escapes.read(source, "rust", flags, in_class=True)
    assert isinstance(atom, Atom)
    return atom


def _posix(source: Source, caseless: bool) -> Ranges | None:
    """Reads `[:name:]` or `[:^name:]`. None if neither stands here."""
    end = source.text.find(":]", source.pos + 2) if source.at("[:") else -1
    if end < 0:
        return None
    name = source.text[source.pos + 2 : end]
    ranges = classes.POSIX.get(name.removeprefix("^"))
    if ranges is None:
        return None
    source.pos = end + 2
    ranges = _cased(source, ranges, caseless)
    return source.complement(ranges) if name.startswith("^") else ranges


def _skip_space(source: Source, flags: frozenset[str]) -> None:
    """Steps over whitespace and comments between items, under the flag x."""
    while "x" in flags and not source.at_end:
        if source.skip("#"):
            end = source.text.find("\n", source.pos)
            source.pos = len(source.text) if end < 0 else end + 1
        elif source.peek() in _SPACE:
            source.pos += 1
        else:
            return


def _after_hyphen(source: Source, flags: frozenset[str]) -> str:
    """The character after the hyphen that stands here; "" at the end."""
    back = source.pos
    source.pos += 1
    _skip_space(source, flags)
    char = source.peek()
    source.pos = back
    return char
