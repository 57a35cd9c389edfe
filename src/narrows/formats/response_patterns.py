"""The patterns of a `response_template`, as far as they are literals, whitespace, captured names, and alternatives of
these. Nothing is matched with
them: they become the markers of a format. Linear in the pattern, but for alternatives, of which there may be `MOST` in
    one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from narrows.errors import FormatError

MOST = 16
"""Alternatives of one pattern, all told."""


@dataclass(frozen=True, slots=True)
class Group:
    """A named group."""

    name: str


class _Whitespace:
    """`\\s*` and its like."""


WHITESPACE = _Whitespace()
Part = Any  # a literal (str), a captured name (Group), or whitespace


def anchors(table: Mapping[str, Any], pointer: str, key: str) -> list[str]:
    """The literals of an anchor: a string, a list of strings, or a pattern that is one literal or several."""
    if f"{key}_pattern" in table:
        where = f"{pointer}/{key}_pattern"
        return [literal(parts, where) for parts in read_all(table, pointer, key)]
    value = table.get(key, [])
    literals = [value] if isinstance(value, str) else value
    if not isinstance(literals, list) or not all(isinstance(text, str) and text for text in literals):
        raise invalid(f"{pointer}/{key}", "must be a string or a list of strings, none of them empty")
    return list(dict.fromkeys(literals))


def read_all(table: Mapping[str, Any], pointer: str, key: str) -> list[list[Part]]:
    """What an anchor may be, each as parts."""
    where = f"{pointer}/{key}_pattern"
    if f"{key}_pattern" not in table:
        return [[text] for text in anchors(table, pointer, key)]
    if key in table:
        raise invalid(where, f"stands beside {key}")
    pattern = table[f"{key}_pattern"]
    if not isinstance(pattern, str):
        raise invalid(where, "must be a pattern")
    return [read(option, where) for option in options(pattern, where)]


def read_one(table: Mapping[str, Any], pointer: str, key: str) -> list[Part]:
    """The same, where it must be one."""
    readings = read_all(table, pointer, key)
    if len(readings) > 1:
        where = f"{key}_pattern" if f"{key}_pattern" in table else key
        raise unsupported(f"{pointer}/{where}", "one literal is known for calls")
    return readings[0] if readings else []


def options(pattern: str, pointer: str) -> list[str]:
    """The patterns without alternatives that a pattern stands for: `a(?:b|c)` is `ab` or `ac`. The groups may not be
    repeated or nested."""
    joined = [""]
    branches: list[str] = []
    at = 0
    begun = 0
    for begin, end in _groups(pattern, pointer):
        for bar in _bars(pattern, at, begin):
            branches += _joined(joined, pattern[begun:bar])
            joined, begun = [""], bar + 1
            _check(len(branches), pointer)
        if pattern.startswith("(?:", begin):
            if pattern[end : end + 1] in ("*", "+", "?", "{"):
                raise unsupported(pointer, f"the group at offset {begin} is repeated")
            before = pattern[begun:begin]
            cuts = [begin + 2, *_bars(pattern, begin + 3, end - 1), end - 1]
            _check(len(joined) * (len(cuts) - 1), pointer)
            joined = [one for a, b in pairwise(cuts) for one in _joined(joined, before + pattern[a + 1 : b])]
            begun = end
        at = end
    for bar in _bars(pattern, at, len(pattern)):
        branches += _joined(joined, pattern[begun:bar])
        joined, begun = [""], bar + 1
        _check(len(branches), pointer)
    branches += _joined(joined, pattern[begun:])
    _check(len(branches), pointer)
    return branches


def _joined(joined: list[str], more: str) -> list[str]:
    return [one + more for one in joined]


def _check(count: int, pointer: str) -> None:
    if count > MOST:
        raise unsupported(pointer, f"at most {MOST} alternatives are known")


def _groups(pattern: str, pointer: str) -> list[tuple[int, int]]:
    """Where the outermost groups begin and end."""
    groups: list[tuple[int, int]] = []
    depth = begin = at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if char == "[":
            close = pattern.find("]", at + 2)
            at = close if close >= 0 else at
        elif char == "(":
            begin = at if depth == 0 else begin
            depth += 1
        elif char == ")" and depth:
            depth -= 1
            if depth == 0:
                groups.append((begin, at + 1))
        at += 1
    if depth:
        raise unsupported(pointer, f"a group at offset {begin} is not closed, or holds more than one class")
    return groups


def _bars(pattern: str, begin: int, end: int) -> list[int]:
    """The bars between alternatives: those that are no characters, and in no class or group."""
    bars: list[int] = []
    depth, at = 0, begin
    while at < end:
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if char == "[":
            close = pattern.find("]", at + 2)
            at = close if close >= 0 else at
        depth += (char == "(") - (char == ")")
        if char == "|" and not depth:
            bars.append(at)
        at += 1
    return bars


def read(pattern: str, pointer: str) -> list[Part]:
    """A pattern as parts. Refuses all that is not a literal, whitespace, or a named group that holds one repeated
    character class."""
    parts: list[Part] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("(?P<", at) or pattern.startswith("(?<", at):
            end = pattern.find(">", at)
            close = _group_end(pattern, end + 1)
            if end < 0 or close < 0:
                raise unsupported(pointer, f"a group at offset {at} is not closed, or holds more than one class")
            parts.append(Group(pattern[pattern.index("<", at) + 1 : end]))
            at = close + 1
        elif pattern.startswith(("\\s*", "\\s+", "\\n*", "\\n?"), at):
            at += 4 if pattern.startswith(("\\s*?", "\\s+?"), at) else 3
            if not parts or parts[-1] is not WHITESPACE:
                parts.append(WHITESPACE)
        elif char == "\\" and at + 1 < len(pattern) and (not pattern[at + 1].isalnum() or pattern[at + 1] in "nt"):
            at = _add(parts, {"n": "\n", "t": "\t"}.get(pattern[at + 1], pattern[at + 1]), at + 2)
        elif char in ".^$*+?()[]|\\" or (char in "{}" and pattern[at + 1 : at + 2].isdigit()):
            raise unsupported(
                pointer, f"the pattern's {char!r} at offset {at}: literals, whitespace and named groups are known"
            )
        else:
            at = _add(parts, char, at + 1)
    return parts


def _group_end(pattern: str, at: int) -> int:
    """Where a group that holds one repeated class ends: `[^>]+`, `\\w+`, `.*?`; -1 if it is not that."""
    if pattern.startswith("[", at):
        at = pattern.find("]", at + 2) + 1
    elif pattern.startswith((".", "\\w", "\\S"), at):
        at += 1 if pattern[at] == "." else 2
    else:
        return -1
    while at > 0 and pattern[at : at + 1] in ("*", "+", "?"):
        at += 1
    return at if at > 0 and pattern[at : at + 1] == ")" else -1


def _add(parts: list[Part], char: str, at: int) -> int:
    if parts and isinstance(parts[-1], str):
        parts[-1] += char
    else:
        parts.append(char)
    return at


def literal(parts: list[Part], pointer: str) -> str:
    """The parts as one literal: whitespace at its ends is layout, which formats read over."""
    while parts and parts[0] is WHITESPACE:
        parts = parts[1:]
    while parts and parts[-1] is WHITESPACE:
        parts = parts[:-1]
    if not parts or not all(isinstance(part, str) for part in parts):
        raise unsupported(pointer, "whitespace inside an anchor, or more than one name")
    return "".join(parts)


def texts_of(parts: list[Part]) -> list[str]:
    return [part for part in parts if isinstance(part, str)]


def around(parts: list[Part], name: str, pointer: str) -> tuple[list[Part], list[Part]]:
    """What stands before and after the group of this name."""
    for at, part in enumerate(parts):
        if isinstance(part, Group) and part.name == name:
            return parts[:at], parts[at + 1 :]
    raise unsupported(pointer, f"must capture {name!r}")


# Errors.


def invalid(pointer: str, message: str) -> FormatError:
    return FormatError(f"response_template: {message}", code="response_template_invalid", pointer=pointer)


def unsupported(pointer: str, message: str) -> FormatError:
    return FormatError(
        f"response_template: {message}",
        code="response_template_unsupported",
        pointer=pointer,
        hint="Write a format's TOML file instead; docs/formats.md says how",
    )
