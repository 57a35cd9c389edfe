"""A checkpoint's own declaration of how it answers, `response_template` of Hugging Face's tokenizers, as a format.

The declaration names fields (`thinking`, `content`, `tool_calls`), each with what opens and closes it and how its text is to be read. It is
translated into the table that a format's TOML file holds, and so gets everything that a format has: a parser that streams arguments,
a grammar, rendering. Patterns are understood as far as they are literals, blanks and one captured name, which is what they are
used for; nothing is matched with them. What cannot be said in a format is refused, with its place in the declaration.

Choices: values of `xml-inline` follow the tool's schema, where the declaration has text; `strip` is what a format's layout says (blanks
around text are kept); what closes `content` that nothing opens ends the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import FormatError
from narrows.formats.loader import from_table

if TYPE_CHECKING:
    from narrows.formats.model import Format

_TOP = {"version", "defaults", "fields", "start_anchor", "start_anchor_pattern"}
_FIELD = {
    "open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join", "optional",
    "transform", "transform_each",
}  # fmt: skip
_REASONING = ("thinking", "reasoning", "reasoning_content")


def from_response_template(declaration: Mapping[str, Any] | str, name: str = "response_template") -> Format:
    """The format that a `response_template` (a dict, or its JSON text) declares.

    Raises `FormatError`: code `response_template_invalid` where it is none, `response_template_unsupported` where a format cannot say it;
    with a JSON pointer into the declaration.
    """
    if isinstance(declaration, str):
        try:
            declaration = json.loads(declaration)
        except (ValueError, RecursionError) as error:
            raise _invalid("", f"it is not JSON: {error}") from None
    table = _table(declaration, "", _TOP)
    if table.get("version", 1) != 1:
        raise _unsupported("/version", "only version 1 is known")
    fields = table.get("fields")
    if not isinstance(fields, Mapping) or not fields:
        raise _invalid("/fields", "must be an object that is not empty")
    for key in fields:
        if key not in (*_REASONING, "content", "tool_calls"):
            raise _unsupported(_at("/fields", key), "only thinking, content and tool_calls are known")
    made: dict[str, Any] = {"name": name, "title": "Declared by the checkpoint", "models": [], "verified": False}
    made["turns"] = _anchors(table, "", "start_anchor")
    if not made["turns"]:
        raise _invalid("/start_anchor", "is missing")
    content = _field(fields, "content")
    thinking = [(key, field) for key in _REASONING if (field := _field(fields, key)) is not None]
    if len(thinking) > 1:
        raise _unsupported(f"/fields/{thinking[1][0]}", "there is reasoning already")
    if content is not None:
        made["ends"] = _endings(content, "/fields/content")
    if thinking:
        made["reasoning"] = _style(name, *thinking[0], content)
    elif content is not None and _has(content, "open"):
        raise _unsupported("/fields/content/open", "content that is set off needs a field for reasoning beside it")
    calls = _field(fields, "tool_calls")
    if calls is None:
        raise _unsupported("/fields", "a format needs tool_calls")
    made["call"] = [_call(calls, "/fields/tool_calls")]
    return from_table(made, name, json.dumps(declaration, ensure_ascii=False, indent=2))


# Fields.


def _field(fields: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    if name not in fields:
        return None
    pointer = f"/fields/{name}"
    field = _table(fields[name], pointer, _FIELD)
    if field.get("join") not in (None, ""):
        raise _unsupported(f"{pointer}/join", "pieces of a field follow each other without anything between")
    return field


def _style(name: str, key: str, field: Mapping[str, Any], content: Mapping[str, Any] | None) -> dict[str, Any]:
    """A reasoning style of its own."""
    pointer = f"/fields/{key}"
    if field.get("content", "text") != "text":
        raise _unsupported(f"{pointer}/content", "reasoning is text")
    style: dict[str, Any] = {"name": f"{name}: {key}", "pair": _pairs(field, pointer)}
    style["rules"] = {"anywhere": bool(field.get("repeats", False)), "calls": "end"}
    if content is not None and _has(content, "open"):
        style["content"] = _pairs(content, "/fields/content")
    return style


def _pairs(field: Mapping[str, Any], pointer: str) -> list[dict[str, str]]:
    openers, closers = _anchors(field, pointer, "open"), _anchors(field, pointer, "close")
    if not openers:
        raise _unsupported(f"{pointer}/open", "is needed here: only content may begin without a marker")
    if not closers:
        raise _unsupported(f"{pointer}/close", "is needed here")
    count = max(len(openers), len(closers))
    return [
        {"open": openers[min(i, len(openers) - 1)], "close": closers[min(i, len(closers) - 1)]} for i in range(count)
    ]


def _endings(field: Mapping[str, Any], pointer: str) -> list[str]:
    """What ends content that nothing opens: literals, or a pattern of several."""
    if not _has(field, "close") or _has(field, "open"):
        return []
    pattern = field.get("close_pattern")
    if not isinstance(pattern, str):
        return _anchors(field, pointer, "close")
    while pattern.startswith(("\\s*", "\\s+")):
        pattern = pattern[3:]
    inside = pattern[3:-1] if pattern.startswith("(?:") and pattern.endswith(")") else pattern
    options = inside.replace("\\|", "\0").split("|")  # escaped bars are characters
    where = f"{pointer}/close_pattern"
    return [_literal(_read_pattern(option.replace("\0", "\\|"), where), where) for option in options]


def _call(field: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    """A [[call]] table."""
    arguments = field.get("content_args", {})
    arguments = _table(arguments, f"{pointer}/content_args", None)
    opening = _parts(field, pointer, "open")
    closing = _parts(field, pointer, "close")
    names = [part for part in opening if isinstance(part, _Name)]
    if any(isinstance(part, _Name) for part in closing):
        raise _unsupported(f"{pointer}/close_pattern", "a name can be captured in open_pattern alone")
    kind = field.get("content", "text")
    if kind == "xml-inline":
        return _tags(field, pointer, arguments, opening, closing)
    if kind != "json":
        raise _unsupported(f"{pointer}/content", "calls are json or xml-inline")
    if not names:
        return _whole_call(field, pointer, arguments, _literal(opening, pointer), _literal(closing, pointer))
    _check_outside(field, pointer)
    at = opening.index(names[0])
    begin = _literal(opening[:at], f"{pointer}/open_pattern")
    behind = _literal(opening[at + 1 :], f"{pointer}/open_pattern") if opening[at + 1 :] else ""
    if arguments.get("string_delims") or arguments.get("unquoted_keys"):
        return _literals(pointer, arguments, begin, behind, _literal(closing, pointer))
    call = {"family": "json_arguments", "form": "call", "open": begin, "close": _literal(closing, pointer)}
    return {**call, "arguments_open": behind or "{", "arguments_open_may_be_missing": not behind}


def _whole_call(
    field: Mapping[str, Any], pointer: str, arguments: Mapping[str, Any], begin: str, end: str
) -> dict[str, Any]:
    """The name and the arguments within one JSON value."""
    for key in ("string_delims", "unquoted_keys"):
        if arguments.get(key):
            raise _unsupported(f"{pointer}/content_args/{key}", "is known only where the name stands outside")
    each = field.get("transform_each", False)
    function = _function(field, pointer)
    keys = {"name": "name", "arguments": "arguments"}
    if function != "{content}":
        inside = "" if each else "content."
        if not isinstance(function, Mapping):
            raise _unsupported(f"{pointer}/transform/function", 'must be "{content}", or hold name and arguments')
        for key in keys:
            value = function.get(key)
            value = value[1:-1] if isinstance(value, str) and value[:1] == "{" and value[-1:] == "}" else ""
            if not value.startswith(inside) or not value[len(inside) :] or "." in value[len(inside) :]:
                raise _unsupported(f"{pointer}/transform/function/{key}", "must be one key of the call's object")
            keys[key] = value[len(inside) :]
    family = "json_array" if each else "json_object"
    call = {"family": family, "form": "call", "open": begin, "close": end}
    return {**call, "name_keys": [keys["name"]], "arguments_keys": [keys["arguments"]]}


def _literals(pointer: str, arguments: Mapping[str, Any], begin: str, behind: str, end: str) -> dict[str, Any]:
    """`call:N{K:<|"|>V<|"|>}`."""
    where = f"{pointer}/content_args"
    delims = arguments.get("string_delims", [['"', '"']])
    fits = isinstance(delims, list) and len(delims) == 1 and isinstance(delims[0], list) and len(delims[0]) == 2
    if not fits or not isinstance(delims[0][0], str) or delims[0][0] != delims[0][1] or not delims[0][0]:
        raise _unsupported(f"{where}/string_delims", "one delimiter is known, the same on both sides")
    if not arguments.get("unquoted_keys"):
        raise _unsupported(f"{where}/string_delims", "is known only beside unquoted_keys")
    if behind not in ("", "{"):
        raise _unsupported(f"{pointer}/open_pattern", "the arguments must stand right behind the name")
    bare = bool(arguments.get("allow_non_json", False))
    call = {"family": "literal_calls", "form": "call", "open": begin, "close": end, "bare_strings": bare}
    braces = {"arguments_open": "{", "arguments_close": "}", "assign": ":"}
    return {**call, **braces, "quotes": [delims[0][0]], "escapes": False, "bare_keys": True}


def _tags(
    field: Mapping[str, Any], pointer: str, arguments: Mapping[str, Any], opening: list[_Part], closing: list[_Part]
) -> dict[str, Any]:
    """`<tool_call><function=N><parameter=K>V</parameter></function></tool_call>`."""
    where = f"{pointer}/content_args"
    _check_outside(field, pointer)
    if arguments.get("merge_duplicates"):
        raise _unsupported(f"{where}/merge_duplicates", "a parameter has one value")
    parser = arguments.get("value_parser")
    if isinstance(parser, Mapping) and parser.get("name", "text") not in ("text", "json"):
        raise _unsupported(f"{where}/value_parser/name", "values are text or JSON, by the tool's schema")
    before, after = _around(opening, "name", f"{pointer}/open_pattern")
    if not isinstance(arguments.get("tag_pattern"), str):
        raise _invalid(f"{where}/tag_pattern", "must be a pattern")
    tag = _read_pattern(arguments["tag_pattern"], f"{where}/tag_pattern")
    key_open, rest = _around(tag, "key", f"{where}/tag_pattern")
    _, value_close = _around(rest, "value", f"{where}/tag_pattern")
    key_end = [part for part in rest if isinstance(part, str)][:1]
    trimmed = bool(value_close) and value_close[0] is _BLANKS
    outer, ends = _texts_of(before), _texts_of(closing)
    names_end = _texts_of(after)
    if len(outer) not in (1, 2) or len(ends) != len(outer) or len(names_end) != 1 or not key_end or rest[0] is _BLANKS:
        raise _unsupported(f"{pointer}/open_pattern", "tags around a call, a name, the tag's end; the same tags closed")
    call = {"family": "xml_parameters", "form": "call", "trim_value": trimmed, "inside": "\n" if trimmed else ""}
    call |= {
        "open": outer[0],
        "close": ends[-1],
        "call_open": outer[-1],
        "call_close": ends[0],
        "name_end": names_end[0],
    }
    if len(outer) == 1:
        call |= {"call_open": "", "close": ""}
    value_end = _literal(value_close, f"{where}/tag_pattern")
    return {**call, "parameter_open": _literal(key_open, where), "key_end": key_end[0], "parameter_close": value_end}


def _function(field: Mapping[str, Any], pointer: str) -> Any:
    """What a transform makes of a call: `{"type": "function", "function": ...}`, or without it the parsed content."""
    transform = field.get("transform")
    if transform is None:
        return "{content}"
    if not isinstance(transform, Mapping) or "function" not in transform:
        raise _unsupported(f"{pointer}/transform", 'must be {"type": "function", "function": ...}')
    return transform["function"]


def _check_outside(field: Mapping[str, Any], pointer: str) -> None:
    """A name that was captured is the name, and the content the arguments."""
    function = _function(field, pointer)
    if (
        not isinstance(function, Mapping)
        or function.get("name") != "{name}"
        or function.get("arguments") != "{content}"
    ):
        raise _unsupported(f"{pointer}/transform/function", 'must be {"name": "{name}", "arguments": "{content}"}')


# Anchors and patterns: literals, blanks, and captured names.


@dataclass(frozen=True, slots=True)
class _Name:
    """A named group."""

    name: str


class _Blanks:
    """`\\s*` and its like."""


_BLANKS = _Blanks()
_Part = Any  # a literal (str), a captured name, or blanks


def _has(field: Mapping[str, Any], key: str) -> bool:
    return key in field or f"{key}_pattern" in field


def _anchors(table: Mapping[str, Any], pointer: str, key: str) -> list[str]:
    """The literals of an anchor; a pattern must be one."""
    if f"{key}_pattern" in table:
        return [_literal(_parts(table, pointer, key), f"{pointer}/{key}_pattern")]
    value = table.get(key, [])
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(text, str) and text for text in found):
        raise _invalid(f"{pointer}/{key}", "must be a string or a list of strings, none of them empty")
    return list(dict.fromkeys(found))


def _parts(field: Mapping[str, Any], pointer: str, key: str) -> list[_Part]:
    if f"{key}_pattern" in field and key in field:
        raise _invalid(f"{pointer}/{key}_pattern", f"stands beside {key}")
    if f"{key}_pattern" in field:
        if not isinstance(field[f"{key}_pattern"], str):
            raise _invalid(f"{pointer}/{key}_pattern", "must be a pattern")
        return _read_pattern(field[f"{key}_pattern"], f"{pointer}/{key}_pattern")
    anchors = _anchors(field, pointer, key)
    if len(anchors) > 1:
        raise _unsupported(f"{pointer}/{key}", "one literal is known for calls")
    return list(anchors)


def _read_pattern(pattern: str, pointer: str) -> list[_Part]:
    """A pattern as parts. Refuses all that is not a literal, blanks, or a named group that holds one repeated character class."""
    parts: list[_Part] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("(?P<", at) or pattern.startswith("(?<", at):
            end = pattern.find(">", at)
            close = _group_end(pattern, end + 1)
            if end < 0 or close < 0:
                raise _unsupported(pointer, f"a group at offset {at} is not closed, or holds more than one class")
            parts.append(_Name(pattern[pattern.index("<", at) + 1 : end]))
            at = close + 1
        elif pattern.startswith(("\\s*", "\\s+", "\\n*", "\\n?"), at):
            at += 4 if pattern.startswith(("\\s*?", "\\s+?"), at) else 3
            if not parts or parts[-1] is not _BLANKS:
                parts.append(_BLANKS)
        elif char == "\\" and at + 1 < len(pattern) and (not pattern[at + 1].isalnum() or pattern[at + 1] in "nt"):
            at = _add(parts, {"n": "\n", "t": "\t"}.get(pattern[at + 1], pattern[at + 1]), at + 2)
        elif char in ".^$*+?()[]|\\" or (char in "{}" and pattern[at + 1 : at + 2].isdigit()):
            raise _unsupported(
                pointer, f"the pattern's {char!r} at offset {at}: literals, blanks and named groups are known"
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


def _add(parts: list[_Part], char: str, at: int) -> int:
    if parts and isinstance(parts[-1], str):
        parts[-1] += char
    else:
        parts.append(char)
    return at


def _literal(parts: list[_Part], pointer: str) -> str:
    """The parts as one literal: blanks at its ends are layout, which formats read over."""
    while parts and parts[0] is _BLANKS:
        parts = parts[1:]
    while parts and parts[-1] is _BLANKS:
        parts = parts[:-1]
    if not parts or not all(isinstance(part, str) for part in parts):
        raise _unsupported(pointer, "blanks inside an anchor, or more than one name")
    return "".join(parts)


def _texts_of(parts: list[_Part]) -> list[str]:
    return [part for part in parts if isinstance(part, str)]


def _around(parts: list[_Part], name: str, pointer: str) -> tuple[list[_Part], list[_Part]]:
    """What stands before and behind the group of this name."""
    for at, part in enumerate(parts):
        if isinstance(part, _Name) and part.name == name:
            return parts[:at], parts[at + 1 :]
    raise _unsupported(pointer, f"must capture {name!r}")


# Errors.


def _table(value: Any, pointer: str, known: set[str] | None) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _invalid(pointer, "must be an object")
    for key in value:
        if known is not None and key not in known:
            raise _invalid(_at(pointer, str(key)), f"is not known; allowed: {', '.join(sorted(known))}")
    return value


def _at(pointer: str, key: str) -> str:
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


def _invalid(pointer: str, message: str) -> FormatError:
    return FormatError(f"response_template: {message}", code="response_template_invalid", pointer=pointer)


def _unsupported(pointer: str, message: str) -> FormatError:
    return FormatError(
        f"response_template: {message}",
        code="response_template_unsupported",
        pointer=pointer,
        hint="Write a format's TOML file instead; docs/formats.md says how",
    )
