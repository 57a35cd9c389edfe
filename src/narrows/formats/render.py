"""The text a model would write for a message: for tests, examples, and prompts that show how calls are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from narrows.errors import InputError
from narrows.stream.message import Message

if TYPE_CHECKING:
    from narrows.formats.definition import FormatDefinition
    from narrows.formats.families.base import Shape


def render(fmt: FormatDefinition, message: Any, form: str | None, ids: bool) -> str:
    """See `Format.render`."""
    data = message.to_dict() if isinstance(message, Message) else message
    if not isinstance(data, Mapping):
        raise InputError(f"a message is a dict or a Message, not {type(message).__name__}", code="message_invalid")
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
