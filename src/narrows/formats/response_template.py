"""A checkpoint's own declaration of how it answers, `response_template` of Hugging Face's tokenizers, as a format.

The declaration names fields (`thinking`, `content`, `tool_calls`), each with what opens and closes it and how its text
is to be read. It is translated into the table that a format's TOML file holds. So it gets everything that a format has:
a parser that streams arguments, a grammar, rendering. Patterns are understood if they are literals, whitespace,
captured names and alternatives of closers (response_patterns.py). That is what they are used for. What a format cannot
say is refused, with its place in the declaration.

Choices:
- Values of `xml-inline` follow the tool's schema. The declaration has text for them.
- `strip` is what a format's layout says: whitespace around text is kept.
- What closes `content` that nothing opens ends the answer.
- Of several closers of a call, the first is written and all are read. If one ends with what begins an assistant's
  message, it stands between calls, and the first of the others stands after the last call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from narrows.arguments import TEXT, wants
from narrows.formats.from_toml import format_of_table
from narrows.formats.response_patterns import (
    WHITESPACE,
    Group,
    Part,
    anchors,
    around,
    invalid,
    literal,
    options,
    read,
    read_all,
    read_one,
    texts_of,
    unsupported,
)

if TYPE_CHECKING:
    from narrows.formats.format import Format

_TOP = {"version", "defaults", "fields", "start_anchor", "start_anchor_pattern"}
_FIELD = {
    "open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join", "optional",
    "transform", "transform_each",
}  # fmt: skip
_REASONING = ("thinking", "reasoning", "reasoning_content")


def from_response_template(declaration: Mapping[str, Any] | str, name: str = "response_template") -> Format:
    """The format that a `response_template` (a dict, or its JSON text) declares.

    Raises `FormatError`: code `response_template_invalid` where it is none, `response_template_unsupported` where a
    format cannot say it; with a JSON pointer into the declaration.
    """
    wants(TEXT, name=name)
    if isinstance(declaration, str):
        try:
            declaration = json.loads(declaration)
        except (ValueError, RecursionError) as error:
            raise invalid("", f"it is not JSON: {error}") from None
    table = _table(declaration, "", _TOP)
    if table.get("version", 1) != 1:
        raise unsupported("/version", "only version 1 is known")
    fields = table.get("fields")
    if not isinstance(fields, Mapping) or not fields:
        raise invalid("/fields", "must be an object that is not empty")
    for key in fields:
        if key not in (*_REASONING, "content", "tool_calls"):
            raise unsupported(_at("/fields", key), "only thinking, content and tool_calls are known")
    translated: dict[str, Any] = {"name": name, "title": "Declared by the checkpoint", "models": [], "verified": False}
    translated["turns"] = anchors(table, "", "start_anchor")
    if not translated["turns"]:
        raise invalid("/start_anchor", "is missing")
    content = _field(fields, "content")
    thinking = [(key, field) for key in _REASONING if (field := _field(fields, key)) is not None]
    if len(thinking) > 1:
        raise unsupported(f"/fields/{thinking[1][0]}", "there is reasoning already")
    if content is not None:
        translated["ends"] = _endings(content, "/fields/content")
    if thinking:
        translated["reasoning"] = _style(name, *thinking[0], content)
    elif content is not None and _has(content, "open"):
        raise unsupported("/fields/content/open", "content that is set off needs a field for reasoning beside it")
    calls = _field(fields, "tool_calls")
    if calls is None:
        raise unsupported("/fields", "a format needs tool_calls")
    call = _call(calls, "/fields/tool_calls", translated["turns"])
    translated["layout"] = {"between": call.pop("between", "")}
    translated["call"] = [call]
    marked = [{"ends": translated.get("ends", [])}, call, *_tables(translated.get("reasoning", {}))]
    translated["tokens"] = _tokens(marked)
    return format_of_table(translated, name, json.dumps(declaration, ensure_ascii=False, indent=2))


# Fields.


def _field(fields: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    if name not in fields:
        return None
    pointer = f"/fields/{name}"
    field = _table(fields[name], pointer, _FIELD)
    if field.get("join") not in (None, ""):
        raise unsupported(f"{pointer}/join", "pieces of a field follow each other without anything between")
    return field


def _style(name: str, key: str, field: Mapping[str, Any], content: Mapping[str, Any] | None) -> dict[str, Any]:
    """A reasoning style of its own."""
    pointer = f"/fields/{key}"
    if field.get("content", "text") != "text":
        raise unsupported(f"{pointer}/content", "reasoning is text")
    style: dict[str, Any] = {"name": f"{name}: {key}", "pair": _pairs(field, pointer)}
    style["rules"] = {"anywhere": bool(field.get("repeats", False)), "calls": "end"}
    if content is not None and _has(content, "open"):
        style["content"] = _pairs(content, "/fields/content")
    return style


def _pairs(field: Mapping[str, Any], pointer: str) -> list[dict[str, str]]:
    openers, closers = anchors(field, pointer, "open"), anchors(field, pointer, "close")
    if not openers:
        raise unsupported(f"{pointer}/open", "is needed here: only content may begin without a marker")
    if not closers:
        raise unsupported(f"{pointer}/close", "is needed here")
    count = max(len(openers), len(closers))
    return [
        {"open": openers[min(i, len(openers) - 1)], "close": closers[min(i, len(closers) - 1)]} for i in range(count)
    ]


def _endings(field: Mapping[str, Any], pointer: str) -> list[str]:
    """What ends content that nothing opens."""
    return anchors(field, pointer, "close") if _has(field, "close") and not _has(field, "open") else []


def _call(field: Mapping[str, Any], pointer: str, anchors: list[str]) -> dict[str, Any]:
    """A [[call]] table. `anchors`: what begins an assistant's message."""
    arguments = field.get("content_args", {})
    arguments = _table(arguments, f"{pointer}/content_args", None)
    opening = read_one(field, pointer, "open")
    closings = _closings(field, pointer)
    names = [part for part in opening if isinstance(part, Group)]
    kind = field.get("content", "text")
    if kind == "xml-inline":
        return _tags(field, pointer, arguments, opening, closings, anchors)
    if kind != "json":
        raise unsupported(f"{pointer}/content", "calls are json or xml-inline")
    first, *more = (literal(closing, pointer) for closing in closings)
    close = {"close": first, "close_also": more}
    if not names:
        return _whole_call(field, pointer, arguments, literal(opening, pointer), close)
    _check_outside(field, pointer)
    at = opening.index(names[0])
    begin = literal(opening[:at], f"{pointer}/open_pattern")
    following = literal(opening[at + 1 :], f"{pointer}/open_pattern") if opening[at + 1 :] else ""
    if arguments.get("string_delims") or arguments.get("unquoted_keys"):
        return _literals(pointer, arguments, begin, following, close)
    call = {"family": "json_arguments", "form": "call", "open": begin, **close}
    return {**call, "arguments_open": following or "{", "arguments_open_may_be_missing": not following}


def _closings(field: Mapping[str, Any], pointer: str) -> list[list[Part]]:
    """What may end a call, as parts; the first is the one that is written."""
    closings = read_all(field, pointer, "close") or [[]]
    if any(isinstance(part, Group) for closing in closings for part in closing):
        raise unsupported(f"{pointer}/close_pattern", "a name can be captured in open_pattern alone")
    return closings


def _whole_call(
    field: Mapping[str, Any], pointer: str, arguments: Mapping[str, Any], begin: str, close: Mapping[str, Any]
) -> dict[str, Any]:
    """The name and the arguments within one JSON value."""
    for key in ("string_delims", "unquoted_keys"):
        if arguments.get(key):
            raise unsupported(f"{pointer}/content_args/{key}", "is known only where the name stands outside")
    each = field.get("transform_each", False)
    function = _function(field, pointer)
    keys = {"name": "name", "arguments": "arguments"}
    if function != "{content}":
        inside = "" if each else "content."
        if not isinstance(function, Mapping):
            raise unsupported(f"{pointer}/transform/function", 'must be "{content}", or hold name and arguments')
        for key in keys:
            value = function.get(key)
            value = value[1:-1] if isinstance(value, str) and value[:1] == "{" and value[-1:] == "}" else ""
            if not value.startswith(inside) or not value[len(inside) :] or "." in value[len(inside) :]:
                raise unsupported(f"{pointer}/transform/function/{key}", "must be one key of the call's object")
            keys[key] = value[len(inside) :]
    family = "json_array" if each else "json_object"
    call = {"family": family, "form": "call", "open": begin, **close}
    return {**call, "name_keys": [keys["name"]], "arguments_keys": [keys["arguments"]]}


def _literals(
    pointer: str, arguments: Mapping[str, Any], begin: str, following: str, close: Mapping[str, Any]
) -> dict[str, Any]:
    """`call:N{K:<|"|>V<|"|>}`."""
    where = f"{pointer}/content_args"
    delims = arguments.get("string_delims", [['"', '"']])
    fits = isinstance(delims, list) and len(delims) == 1 and isinstance(delims[0], list) and len(delims[0]) == 2
    if not fits or not isinstance(delims[0][0], str) or delims[0][0] != delims[0][1] or not delims[0][0]:
        raise unsupported(f"{where}/string_delims", "one delimiter is known, the same on both sides")
    if not arguments.get("unquoted_keys"):
        raise unsupported(f"{where}/string_delims", "is known only beside unquoted_keys")
    if following not in ("", "{"):
        raise unsupported(f"{pointer}/open_pattern", "the arguments must stand right after the name")
    bare = bool(arguments.get("allow_non_json", False))
    call = {"family": "literal_calls", "form": "call", "open": begin, **close, "bare_strings": bare}
    braces = {"arguments_open": "{", "arguments_close": "}", "assign": ":"}
    return {**call, **braces, "quotes": [delims[0][0]], "escapes": False, "bare_keys": True}


def _tags(
    field: Mapping[str, Any],
    pointer: str,
    arguments: Mapping[str, Any],
    opening: list[Part],
    closings: list[list[Part]],
    begins: list[str],
) -> dict[str, Any]:
    """`<tool_call><function=N><parameter=K>V</parameter></function></tool_call>`, or `
    to=N<|message|><parameter=K>V</parameter><|call|>`."""
    where = f"{pointer}/content_args"
    _check_outside(field, pointer)
    if arguments.get("merge_duplicates"):
        raise unsupported(f"{where}/merge_duplicates", "a parameter has one value")
    parser = arguments.get("value_parser")
    if isinstance(parser, Mapping) and parser.get("name", "text") not in ("text", "json"):
        raise unsupported(f"{where}/value_parser/name", "values are text or JSON, by the tool's schema")
    before, after = around(opening, "name", f"{pointer}/open_pattern")
    outer, names_end = texts_of(before), texts_of(after)
    ends = [texts_of(closing) for closing in closings]
    fits = len(outer) in (1, 2) and len(ends[0]) == len(outer) and len(names_end) == 1
    if not fits or not all(1 <= len(end) <= len(outer) for end in ends):
        raise unsupported(f"{pointer}/open_pattern", "tags around a call, a name, the tag's end; the same tags closed")
    call = {"form": "call", "name_end": names_end[0], **_parameter(arguments, where)}
    if len(outer) == 1:
        closers = [end[0] for end in ends]
        leads = [
            (closer, begin) for closer in closers for begin in begins if closer.removesuffix(begin) not in ("", closer)
        ]
        if leads:
            return {**call, **_message(outer[0], closers, *leads[0])}
        return {
            **call,
            "family": "xml_parameters",
            "open": outer[0],
            "call_close": closers[0],
            "call_close_also": closers[1:],
        }
    whole = [end for end in ends[1:] if len(end) == 2]
    return {
        **call,
        "family": "xml_parameters",
        "open": outer[0],
        "close": ends[0][1],
        "close_also": list(dict.fromkeys(end[-1] for end in ends[1:] if end[-1] != ends[0][1])),
        "call_open": outer[1],
        "call_close": ends[0][0],
        "call_close_also": list(dict.fromkeys(end[0] for end in whole if end[0] != ends[0][0])),
    }


def _message(head: str, closers: list[str], leads_on: str, begin: str) -> dict[str, Any]:
    """A message to the tool, where one of the closers leads on to the next message: it ends with what begins an
    assistant's."""
    close = leads_on.removesuffix(begin)
    others = [closer for closer in closers if closer != leads_on]
    last = next((closer for closer in others if not closer.endswith(begin)), close)
    also = [other for closer in others if (other := closer.removesuffix(begin)) not in (close, last)]
    call = {"family": "xml_message", "open": head, "open_also": [begin + head], "between": begin}
    return {**call, "call_close": close, "call_close_also": also, "last_close": last}


def _parameter(arguments: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`<parameter=K>V</parameter>`. Where the next parameter's tag may stand in place of the closing one, an
    alternative looks ahead to it."""
    pattern, place = arguments.get("tag_pattern"), f"{where}/tag_pattern"
    if not isinstance(pattern, str):
        raise invalid(place, "must be a pattern")
    tags = options(pattern, place)
    plain = [option for option in tags if "(?=" not in option]
    if len(plain) != 1:
        raise unsupported(place, "a parameter is closed in one way")
    tag = read(plain[0], place)
    key_open, rest = around(tag, "key", place)
    _, value_close = around(rest, "value", place)
    key_ends = [part for part in rest if isinstance(part, str)][:1]
    if not key_ends or rest[0] is WHITESPACE:
        raise unsupported(place, "a key ends with a literal")
    for option in tags:
        if option is not plain[0]:
            shorter, _, ahead = option.partition("(?=")
            if literal(read(ahead.removesuffix(")"), place), place) != literal(key_open, place) or read(
                shorter, place
            ) != [
                *tag[: -len(value_close)],
                *_without_tag(value_close),
            ]:
                raise unsupported(place, "in place of the closing tag, only the next parameter's may stand")
    key_end, value_end = key_ends[0], literal(value_close, place)
    trimmed, inside = value_close[0] is WHITESPACE, "\n"
    if not trimmed and key_end.endswith("\n") and value_end.startswith("\n"):
        trimmed, inside, key_end, value_end = True, "", key_end[:-1], value_end[1:]
    return {
        "parameter_open": literal(key_open, place),
        "key_end": key_end,
        "parameter_close": value_end,
        "parameter_close_may_be_missing": len(tags) > 1,
        "trim_value": trimmed,
        "inside": inside if trimmed else "",
    }


def _without_tag(value_close: list[Part]) -> list[Part]:
    """What stands between a value and its closing tag: whitespace, a newline, or nothing."""
    kept: list[Part] = []
    for part in value_close:
        space = part if part is WHITESPACE else part[: len(part) - len(part.lstrip())]
        if space:
            kept.append(space)
        if space != part:
            break
    return kept


def _tables(style: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*style.get("pair", ()), *style.get("content", ())]


def _tokens(tables: list[Mapping[str, Any]]) -> list[str]:
    """Parts of markers that look like single tokens, `<|...|>`, where a marker is more than that."""
    texts = [
        text for table in tables for value in table.values() for text in (value if isinstance(value, list) else [value])
    ]
    tokens: dict[str, None] = {}
    for text in texts:
        at = text.find("<|") if isinstance(text, str) else -1
        while at >= 0:
            end = text.find("|>", at)
            token = text[at : end + 2]
            if end >= 0 and token != text and "<" not in token[1:] and not any(char.isspace() for char in token):
                tokens[token] = None
            at = text.find("<|", at + 2)
    return list(tokens)


def _function(field: Mapping[str, Any], pointer: str) -> Any:
    """What a transform makes of a call: `{"type": "function", "function": ...}`, or without it the parsed content."""
    transform = field.get("transform")
    if transform is None:
        return "{content}"
    if not isinstance(transform, Mapping) or "function" not in transform:
        raise unsupported(f"{pointer}/transform", 'must be {"type": "function", "function": ...}')
    return transform["function"]


def _check_outside(field: Mapping[str, Any], pointer: str) -> None:
    """A name that was captured is the name, and the content the arguments."""
    function = _function(field, pointer)
    if (
        not isinstance(function, Mapping)
        or function.get("name") != "{name}"
        or function.get("arguments") != "{content}"
    ):
        raise unsupported(f"{pointer}/transform/function", 'must be {"name": "{name}", "arguments": "{content}"}')


def _has(field: Mapping[str, Any], key: str) -> bool:
    return key in field or f"{key}_pattern" in field


def _table(value: Any, pointer: str, known: set[str] | None) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise invalid(pointer, "must be an object")
    for key in value:
        if known is not None and key not in known:
            raise invalid(_at(pointer, str(key)), f"is not known; allowed: {', '.join(sorted(known))}")
    return value


def _at(pointer: str, key: str) -> str:
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
