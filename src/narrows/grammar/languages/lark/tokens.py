"""Cuts the text of a Lark grammar into tokens.

Both notations are read: that of the Python package, and the additions of llguidance (`%json {...}`, `<|special|>`,
`@grammar`, `x{2,3}`, names with `-`). Where the two give one text two meanings, it is refused.

Cost: linear, about 1 us per token.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from narrows.errors import LimitError
from narrows.grammar.languages.text import GrammarText

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_DIGITS = frozenset("0123456789")
_WORD = _LETTERS | _DIGITS
_HEX = _DIGITS | frozenset("abcdefABCDEF")
_SPACE = frozenset(" \t\f\r")
_PAIRS = ("->", "..", "::")
_MARKS = frozenset(":|()[]{}~&?*+!,=.")
_WITH_JSON = ("%json", "%regex", "%llguidance")
_JSON = json.JSONDecoder()
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", '"': '"', "\\": "\\"}
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    kind: str
    """string, regexp, name, number, hex, special, grammar, keyword, newline or end; a mark is its own kind."""
    text: str
    offset: int
    value: Any = None
    """Of a keyword with JSON after it: the JSON value."""


def tokens_of(text: GrammarText) -> list[Token]:
    """All tokens, the last one of kind "end". Raises `GrammarError`, and `LimitError` (`schema_depth`,
    `reading_work`)."""
    found: list[Token] = []
    source, at, work = text.text, 0, text.work
    while at < len(source):
        if source[at] in _SPACE or source[at] == "#" or source.startswith("//", at):
            at = _after_space(text, at)
            continue
        if source[at] == "\\":
            end = _run(source, at + 1, _SPACE)
            if source[end : end + 1] == "\n":
                work.spend(1 + (end - at) // 64)
                at = end + 1  # the line goes on
                continue
        kind, end = _token_at(source, at)
        if not kind:
            text.fail(f"unexpected {source[at]!r}", at, _hint(source, at))
        work.spend(1 + (end - at) // 64)
        value = None
        if kind == "keyword" and source[at:end] in _WITH_JSON:
            name = source[at:end]
            value, end = _json_after(text, end, at)
            found.append(Token(kind, name, at, value))
        else:
            found.append(Token(kind, source[at:end], at))
        at = end
    found.append(Token("newline", "", at))
    found.append(Token("end", "", at))
    return found


def _after_space(text: GrammarText, at: int) -> int:
    """Where a run of spaces, or a comment, ends."""
    source = text.text
    if source[at] not in _SPACE:
        end = source.find("\n", at)
        end = len(source) if end < 0 else end
    else:
        end = _run(source, at, _SPACE)
    text.work.spend(1 + (end - at) // 64)
    return end


def _token_at(source: str, at: int) -> tuple[str, int]:
    """Kind and end of the token that begins here; no kind if none does."""
    char = source[at]
    if char in _LETTERS:
        return "name", _end_of_name(source, at)
    if char == '"':
        return _delimited(source, at, "string", "i", lines=False)
    if char == "/":
        return _delimited(source, at, "regexp", "abcdefghijklmnopqrstuvwxyz", lines=True)
    if char == "\n":
        return "newline", at + 1
    if char == "0" and source[at + 1 : at + 2] == "x" and source[at + 2 : at + 3] in _HEX:
        return "hex", _run(source, at + 2, _HEX)
    if char in _DIGITS or (char in "+-" and source[at + 1 : at + 2] in _DIGITS):
        return "number", _end_of_number(source, at)
    if char == "<":
        return _special(source, at)
    if char in "@%":
        end = _run(source, at + 1, _WORD | {"-"} if char == "@" else _LETTERS)
        return ("grammar" if char == "@" else "keyword", end) if end > at + 1 else ("", at)
    if source[at : at + 2] in _PAIRS:
        return source[at : at + 2], at + 2
    return (char, at + 1) if char in _MARKS else ("", at)


def _run(source: str, at: int, alphabet: frozenset[str]) -> int:
    while at < len(source) and source[at] in alphabet:
        at += 1
    return at


def _end_of_name(source: str, at: int) -> int:
    end = _run(source, at, _WORD)
    while source[end : end + 1] == "-" and source[end + 1 : end + 2] in _WORD:
        end = _run(source, end + 1, _WORD)
    return end


def _end_of_number(source: str, at: int) -> int:
    end = _run(source, at + 1, _DIGITS)
    if source[end : end + 1] == "." and source[end + 1 : end + 2] in _DIGITS:
        end = _run(source, end + 1, _DIGITS)
    return end


def _delimited(source: str, at: int, kind: str, flags: str, *, lines: bool) -> tuple[str, int]:
    """To the mark that begins it, which a backslash hides, and the flags after it."""
    mark, end = source[at], at + 1
    while end < len(source) and source[end] != mark:
        if source[end] == "\n" and not lines:
            return "", at
        end += 2 if source[end] == "\\" and source[end + 1 : end + 2] != "\n" else 1
    if end >= len(source):
        return "", at
    return kind, _run(source, end + 1, frozenset(flags))


def _special(source: str, at: int) -> tuple[str, int]:
    end = at + 1
    while end < len(source) and source[end] not in "<>" and not source[end].isspace():
        end += 1
    return ("special", end + 1) if source[end : end + 1] == ">" and end > at + 1 else ("", at)


def _hint(source: str, at: int) -> str | None:
    if source[at] == "'":
        return 'Strings stand between double quotes: "..."'
    if source[at] == '"':
        return "A string ends with a double quote on the same line"
    if source[at] == "/":
        return "A regular expression stands between slashes; a slash in it is written \\/"
    return None


def _json_after(text: GrammarText, at: int, keyword: int) -> tuple[Any, int]:
    """The JSON value that begins at `at`, or after whitespace there; and where it ends."""
    source = text.text
    while source[at : at + 1] in (" ", "\t", "\r", "\n"):
        at += 1
    try:
        value, end = _JSON.raw_decode(source, at)
    except RecursionError:
        line, column = text.place(keyword)
        raise LimitError(
            "the JSON is nested too deeply", limit="schema_depth", line=line, column=column, hint="Nest it less"
        ) from None
    except ValueError as error:
        text.fail(f"expected JSON: {error}", min(getattr(error, "pos", at), len(source)))
    text.work.spend((end - at) // 16)
    return value, end


def characters(text: GrammarText, token: Token) -> str:
    """What a string token says. An unknown escape is the backslash and the character, as in Lark."""
    body = token.text[1 : token.text.rindex('"')]
    if "\\" not in body:
        return body
    parts: list[str] = []
    at = 0
    while at < len(body):
        char = body[at]
        at += 1
        if char != "\\":
            parts.append(char)
            continue
        letter = body[at]
        at += 1
        if letter in _HEX_ESCAPES:
            digits = body[at : at + _HEX_ESCAPES[letter]]
            at += len(digits)
            parts.append(_character(text, letter, digits, token.offset + at))
        elif letter in _ESCAPES:
            parts.append(_ESCAPES[letter])
        elif letter in "/b":
            here = token.offset + at - 1
            meanings = "a slash" if letter == "/" else "a backspace"
            text.fail(
                f"\\{letter} is {meanings} in llguidance, and a backslash with {letter} in Lark",
                here,
                f"Write {'/' if letter == '/' else chr(92) + 'x08'}, or {chr(92) * 2}{letter}",
            )
        else:
            parts.append("\\" + letter)
    return "".join(parts)


def _character(text: GrammarText, letter: str, digits: str, end: int) -> str:
    wanted = _HEX_ESCAPES[letter]
    if len(digits) < wanted or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        text.fail(f"\\{letter} needs {wanted} hexadecimal digits", end - len(digits) - 1)
    point = int(digits, 16)
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        text.fail(f"U+{point:04X} is not a character", end - len(digits) - 1)
    return chr(point)
