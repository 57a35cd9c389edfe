"""The macros of xgrammar's EBNF: TagDispatch, TokenTagDispatch, Token, ExcludeToken, Regex and Substring.

`TagDispatch(("<t>", rule), ...)` is free text in which each `"<t>"` begins a text of its rule. Free text has no tag and
no excluded text in it. Which tag is the first to be complete must not depend on the tool: a tag that stands inside
another one, but not at its beginning, is refused.

Cost: linear in the text; the free text of a `TagDispatch` is one automaton of all its tags.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Union

from narrows.errors import NarrowsError
from narrows.grammar import ir, utf8
from narrows.grammar.languages.reader import ANY, MAX_TOKEN, Reader
from narrows.grammar.regex import Dialect, regex_node

Value = Union[str, int, bool, ir.Ref, "tuple[Value, ...]"]
"""What can be an argument; a name is a reference to the rule."""

_ANY_TEXT = ir.Repeat(ANY)
_BYTES = ir.Repeat(ir.ANY_BYTE)
_SOME_BYTES = ir.Repeat(ir.ANY_BYTE, 1, None)
_OF_A_JSON_STRING = ir.Repeat(utf8.node(utf8.complement(utf8.code_points((0, 0x1F), '"\\'))))
_LOOP, _EXCLUDES = "loop_after_dispatch", "excludes"


@dataclass(slots=True)
class Macro:
    """A call, as it is written. Each value has the offset where it stands."""

    name: str
    offset: int
    arguments: list[tuple[Value, int]] = field(default_factory=list)
    named: dict[str, tuple[Value, int]] = field(default_factory=dict)


def macro_node(reader: Reader, macro: Macro) -> ir.Node:
    """What a call matches. Raises `GrammarError` for wrong arguments."""
    names, make = _MACROS[macro.name]
    for name, (_, offset) in macro.named.items():
        if name not in names:
            hint = f"There is {' and '.join(names)}" if names else "It has no named arguments"
            reader.source.fail(f"{macro.name} has no argument {name[:64]!r}", offset, hint)
    return make(reader, macro)


# Free text with tags.


def _tag_dispatch(reader: Reader, macro: Macro) -> ir.Node:
    tags, places = _tags(reader, macro)
    excludes = _excluded_texts(reader, macro, sorted(tags))
    _check_apart({**places, **excludes}, reader)
    firsts = _first_parts(sorted(tags))
    known = list(firsts)
    stops = [*known, *(text for text in excludes if not _begins(text, known))]
    stopped = ir.seq(_BYTES, ir.Literals(tuple(stops)))
    free = ir.Lexeme(ir.And((_ANY_TEXT, ir.Not(ir.seq(stopped, _BYTES)))))
    late = ir.Not(ir.seq(stopped, _SOME_BYTES))
    called = [_dispatch(first, longer, late, tags) for first, longer in firsts.items()]
    if not called:
        return free
    if _flag(reader, macro, _LOOP, True):
        return ir.seq(ir.Repeat(ir.alt(*called)), free)
    return ir.alt(free, *called)


def _tags(reader: Reader, macro: Macro) -> tuple[dict[bytes, list[ir.Node]], dict[bytes, int]]:
    """(tag -> its rules, tag -> where it stands)."""
    tags: dict[bytes, list[ir.Node]] = {}
    places: dict[bytes, int] = {}
    for value, offset in macro.arguments:
        text, rule = value if isinstance(value, tuple) and len(value) == 2 else ("", "")
        if not (isinstance(text, str) and text and isinstance(rule, ir.Ref)):
            reader.source.fail("expected a tag and a rule", offset, 'Write ("<tag>", rule)')
        tags.setdefault(text.encode(), []).append(reader.ref(rule.name, offset))
        places[text.encode()] = offset
    return tags, places


def _excluded_texts(reader: Reader, macro: Macro, tags: list[bytes]) -> dict[bytes, int]:
    """Each with the place where it stands. `tags` are sorted."""
    excludes: dict[bytes, int] = {}
    for text, offset in _tuple(reader, macro):
        if not isinstance(text, str) or not text:
            reader.source.fail("excludes has texts that are not empty", offset)
        data = text.encode()
        if any(tag.startswith(data) for tag in tags[bisect_left(tags, data) :][:1]):
            reader.source.fail(f"the excluded text {text[:64]!r} begins a tag", offset)
        excludes[data] = offset
    return excludes


def _first_parts(tags: list[bytes]) -> dict[bytes, list[bytes]]:
    """The tags that no other tag begins, in order, each with the tags that it begins. `tags` are sorted."""
    firsts: dict[bytes, list[bytes]] = {}
    first: bytes | None = None
    for tag in tags:
        if first is None or not tag.startswith(first):
            first = tag
        firsts.setdefault(first, []).append(tag)
    return firsts


def _begins(text: bytes, firsts: list[bytes]) -> bool:
    """Whether one of these begins the text. They are sorted, and none begins another."""
    at = bisect_right(firsts, text)
    return at > 0 and text.startswith(firsts[at - 1])


def _check_apart(texts: dict[bytes, int], reader: Reader) -> None:
    """Raises `UnsupportedError` where one text stands inside another, but not at its beginning. `texts`: each with its
    place."""
    lengths = sorted({len(text) for text in texts})
    for text, offset in texts.items():
        for begin in range(1, len(text)):
            reader.work.spend(1)
            for length in lengths:
                if begin + length > len(text):
                    break
                reader.work.spend(1 + length // 64)
                part = text[begin : begin + length]
                if part in texts:
                    reader.source.unsupported(
                        f"the text {part.decode()!r} stands inside {text.decode()!r}, so it is open which comes first",
                        offset,
                        "Write tags and excluded texts that are not parts of each other",
                    )


def _dispatch(first: bytes, longer: list[bytes], late: ir.Node, tags: dict[bytes, list[ir.Node]]) -> ir.Node:
    """Free text up to a tag, the tag, and a text of its rule. `late`: texts in which nothing stops before the end."""
    ends = ir.And((ir.seq(_ANY_TEXT, ir.Bytes(first)), late))
    rests = [ir.seq(ir.Bytes(tag[len(first) :]), ir.alt(*tags[tag])) for tag in longer]
    return ir.seq(ir.Lexeme(ends), ir.alt(*rests))


# Tokens.


def _token_tag_dispatch(reader: Reader, macro: Macro) -> ir.Node:
    called: list[ir.Node] = []
    ids: list[int] = []
    for value, offset in macro.arguments:
        pair = value if isinstance(value, tuple) and len(value) == 2 else ("", "")
        if not isinstance(pair[1], ir.Ref):
            reader.source.fail("expected a token id and a rule", offset, "Write (42, rule)")
        ids.append(_id(reader, pair[0], offset))
        called.append(ir.seq(ir.Token((ids[-1],)), reader.ref(pair[1].name, offset)))
    excludes = [(_id(reader, value, offset), offset) for value, offset in _tuple(reader, macro)]
    known = set(ids)
    for token, offset in excludes:
        if token in known:
            reader.source.fail(f"the excluded token {token} begins a text", offset)
    others = tuple(dict.fromkeys([*ids, *(token for token, _ in excludes)]))
    free = ir.Repeat(ir.Token(others, negate=True))
    if not called:
        return free
    if _flag(reader, macro, _LOOP, True):
        return ir.Repeat(ir.alt(ir.Token(others, negate=True), *called))
    return ir.seq(free, ir.optional(ir.alt(*called)))


def _token(reader: Reader, macro: Macro) -> ir.Node:
    if not macro.arguments:
        reader.source.fail(f"{macro.name} needs a token id", macro.offset)
    ids = tuple(dict.fromkeys([_id(reader, value, offset) for value, offset in macro.arguments]))
    return ir.Token(ids, negate=macro.name == "ExcludeToken")


def _id(reader: Reader, value: Value, offset: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value > MAX_TOKEN:
        reader.source.fail("expected a token id", offset, "A token id is a whole number, as in Token(42)")
    return value


# Texts.


def _regex(reader: Reader, macro: Macro) -> ir.Node:
    """Without flags, `.` is any character. With flags, it is any character but a line feed, unless `s` is there; and
    `i` is for ASCII."""
    if len(macro.arguments) != 1 or not isinstance(macro.arguments[0][0], str):
        reader.source.fail("Regex takes one string, the pattern", macro.offset)
    pattern, offset = macro.arguments[0][0], macro.arguments[0][1]
    dialect: Dialect = "ecma"
    before, after = "(?s:", ")"
    if "flags" in macro.named:
        flags, place = macro.named["flags"]
        if not isinstance(flags, str) or not set(flags) <= {"i", "s", "u"}:
            reader.source.fail("the flags of Regex are i, s and u", place)
        dialect, before, after = "python", f"(?a{''.join(sorted(set(flags) - {'u'}))})", ""
    try:
        regex_node(pattern, dialect, limits=reader.work)  # as it is written: no bracket closes the group around it
        node = regex_node(before + pattern + after, dialect, limits=reader.work)
    except NarrowsError as error:
        error.line, error.column = reader.source.place(offset)
        error.offset = None
        raise
    if _flag(reader, macro, "json_string", False):
        node = ir.And((node, _OF_A_JSON_STRING))
    return ir.Lexeme(node)


def _substring(reader: Reader, macro: Macro) -> ir.Node:
    """Each run of chunks, also none. A rule for each chunk: it and what may follow it, or nothing."""
    chunks: list[bytes] = []
    for value, offset in macro.arguments:
        if not isinstance(value, str):
            reader.source.fail("Substring takes strings", offset)
        if value:
            chunks.append(value.encode())
    rest: ir.Node = ir.EMPTY
    runs: list[ir.Node] = [ir.EMPTY]
    for chunk in reversed(chunks):
        rest = reader.hidden_rule(ir.optional(ir.seq(ir.Lexeme(ir.Bytes(chunk)), rest)), macro.offset)
        runs.append(rest)
    return ir.alt(*runs)


# Arguments.


def _flag(reader: Reader, macro: Macro, name: str, default: bool) -> bool:
    value, offset = macro.named.get(name, (default, 0))
    if not isinstance(value, bool):
        reader.source.fail(f"{name} is true or false", offset)
    return value


def _tuple(reader: Reader, macro: Macro) -> list[tuple[Value, int]]:
    value, offset = macro.named.get(_EXCLUDES, ((), 0))
    if not isinstance(value, tuple):
        reader.source.fail(f"{_EXCLUDES} is a tuple", offset, 'Write excludes=("a", "b")')
    return [(item, offset) for item in value]


_MACROS: dict[str, tuple[tuple[str, ...], Callable[[Reader, Macro], ir.Node]]] = {
    "TagDispatch": ((_LOOP, _EXCLUDES), _tag_dispatch),
    "TokenTagDispatch": ((_LOOP, _EXCLUDES), _token_tag_dispatch),
    "Token": ((), _token),
    "ExcludeToken": ((), _token),
    "Regex": (("json_string", "flags"), _regex),
    "Substring": ((), _substring),
}
"""Name -> its named arguments, and what makes its node."""
MACROS = frozenset(_MACROS)
