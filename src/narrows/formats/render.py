"""The text a model would write for a message: for tests, examples, and prompts that show how calls are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from narrows.errors import InputError, UnsupportedError
from narrows.formats.spelling import arguments_of, json_text
from narrows.stream.message import Message

if TYPE_CHECKING:
    from narrows.formats.definition import FormatDefinition
    from narrows.formats.families.base import Shape


def render(fmt: FormatDefinition, message: Any, form: str | None = None, ids: bool = False) -> str:
    """As `Format.render`, whatever a parser would read in the text."""
    data = message.to_dict() if isinstance(message, Message) else message
    if not isinstance(data, Mapping):
        raise InputError(f"a message is a dict or a Message, not {type(message).__name__}", code="message_invalid")
    if form is not None:
        fmt.form(form)
    parts: list[str] = []
    reasoning = _text(data.get("reasoning") or data.get("reasoning_content"), "/reasoning")
    style = fmt.reasoning
    if reasoning and style is not None:
        opener, closer = style.pairs[0]
        after_open, before_close, after_close = fmt.around_reasoning
        parts += [opener, after_open, reasoning, before_close, closer, after_close]
    elif reasoning:
        raise InputError(f"{fmt.name} has no way to write reasoning", code="message_invalid", pointer="/reasoning")
    content = _text(data.get("content"), "/content")
    if content and style is not None and style.wraps:
        opener, closer = style.wrap(bool(data.get("tool_calls")))
        parts += [opener, style.inside_content, content, style.inside_content, closer]
    else:
        texts = [s.render_text(content) for s in fmt.calls] if content and not data.get("tool_calls") else []
        written = next((text for text in texts if text is not None), None)
        parts += [fmt.heading if content else "", content] if written is None else [written]
    calls = [_call(call, f"/tool_calls/{i}") for i, call in enumerate(data.get("tool_calls") or ())]
    if calls:
        shape = fmt.form(form)
        if content and shape.at_start:
            shape = _after_text(fmt, form)
        parts += [fmt.before if content else "", shape.render(calls, fmt.between, ids)]
    return "".join(parts)


def refuse_unread(fmt: FormatDefinition, message: Any, read: Callable[[list[dict[str, Any]] | None], Message]) -> None:
    """Raises where `read(tools)`, which reads the text of this message, does not find the same calls in it.

    Such a text cannot be written: a parameter between tags cannot hold its own closing tag, and a tool's name not what
    ends it. The tools allow the types that the arguments have."""
    data = message.to_dict() if isinstance(message, Message) else message
    calls = [_call(call, f"/tool_calls/{i}") for i, call in enumerate(data.get("tool_calls") or ())]
    if not calls and not data.get("content"):
        return
    written: list[tuple[str, Any]] = []
    for i, (name, arguments, _) in enumerate(calls):
        try:
            written.append((name, json.loads(json_text(arguments_of(arguments)))))
        except InputError as error:
            error.pointer = f"/tool_calls/{i}/function/arguments"
            raise
    schemas: dict[str, Any] = {}
    for name, arguments in written:
        schemas.setdefault(name, _schema_of(arguments))
    tools = [{"name": name, "parameters": schema} for name, schema in schemas.items()]
    found = [(call.name, call.arguments if call.complete else None) for call in read(tools or None).tool_calls]
    if [name for name, _ in found] != [name for name, _ in written]:
        raise _unwritten(fmt, "" if calls else "/content")
    for i, ((name, arguments), (_, text)) in enumerate(zip(written, found, strict=True)):
        place = f"/tool_calls/{i}/function/arguments"
        try:
            # A later call of a tool may have other types. What bare text is then cannot be told.
            is_other = text is None or (json.loads(text) != arguments and _schema_of(arguments) == schemas[name])
        except RecursionError:  # of Python's own comparison
            raise InputError("the arguments are nested too deep", code="arguments_invalid", pointer=place) from None
        if is_other:
            raise _unwritten(fmt, place)


def _schema_of(value: Any) -> dict[str, Any]:
    """A schema with the types of a JSON value, at every depth."""
    schema: dict[str, Any] = {}
    todo = [(value, schema)]
    while todo:
        part, says = todo.pop()
        says["type"] = _TYPES[type(part)]
        inner: list[tuple[Any, dict[str, Any]]] = []
        if isinstance(part, dict):
            says["properties"] = {key: {} for key in part}
            inner = [(part[key], inside) for key, inside in says["properties"].items()]
        elif part and isinstance(part, list):
            says["prefixItems"] = [{} for _ in part]
            inner = list(zip(part, says["prefixItems"], strict=True))
        todo += inner
    return schema


def _unwritten(fmt: FormatDefinition, pointer: str) -> UnsupportedError:
    return UnsupportedError(
        f"{fmt.name} cannot write this: its parser reads something else",
        code="message_unsupported",
        pointer=pointer,
        hint="Texts between tags cannot hold the format's own tags",
    )


_TYPES = {
    str: "string", bool: "boolean", int: "number", float: "number", type(None): "null", list: "array", dict: "object"
}  # fmt: skip


def _after_text(fmt: FormatDefinition, form: str | None) -> Shape:
    """The first way of writing calls that may follow text."""
    shapes = [] if form is not None else [s for s in fmt.calls if not s.at_start]
    if not shapes:
        raise InputError(
            f"{fmt.name} writes these calls only where an answer begins",
            code="message_invalid",
            pointer="/content",
            hint="Leave the content out",
        )
    return shapes[0]


def _text(content: Any, pointer: str) -> str:
    """Text, or the text parts of a list."""
    if content is None:
        return ""
    if isinstance(content, list):
        content = "".join(
            p.get("text", "") for p in content if isinstance(p, Mapping) and isinstance(p.get("text"), str)
        )
    if not isinstance(content, str):
        raise InputError(f"text is expected, not {type(content).__name__}", code="message_invalid", pointer=pointer)
    return content


def _call(call: Any, pointer: str) -> tuple[str, Mapping[str, Any] | str, str]:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InputError("a call needs a function with a name", code="message_invalid", pointer=pointer)
    arguments = function.get("arguments")
    if arguments is None or arguments == "":
        arguments = {}
    if not isinstance(arguments, (str, Mapping)):
        raise InputError(
            "arguments are an object or its JSON", code="message_invalid", pointer=f"{pointer}/function/arguments"
        )
    call_id = call.get("id")
    return function["name"], arguments, call_id if isinstance(call_id, str) else ""
