"""The messages, tools and choices of a chat: what types cannot say of them, with errors that lead to the member."""

from __future__ import annotations

from typing import Literal, TypeVar, Union

from pydantic import ValidationError

from narrows.arguments import quoted
from narrows.errors import InputError, UnsupportedError
from narrows.server.errors import from_validation
from narrows.server.fields import AllowedTools, Json, Message, Model, NamedTool, Tool, check_items
from narrows.tools.request import check_known, read_choice, read_tools

Choice = Union[Literal["none", "auto", "required"], NamedTool, AllowedTools, None]
_MESSAGE_FIELDS = {"function_call": "tool_calls", "audio": "content, with the text of the audio"}
"""Parts of a conversation that the prompt would be without, and what to use."""
M = TypeVar("M", bound=Model)


def validated(model: type[M], value: Json, pointer: str) -> M:
    """The value at `pointer` in a body as a model. Raises `RequestError` with the place."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise from_validation(error, pointer) from None


def check_messages(messages: list[Message]) -> None:
    """Raises `InputError` with the place in the body."""
    if not messages:
        raise InputError("messages must not be empty", pointer="/messages", code="invalid_messages")
    for i, message in enumerate(messages):
        if isinstance(message.content, list):
            check_items(message.content, dict, f"/messages/{i}/content")
        for name, instead in _MESSAGE_FIELDS.items():
            if (message.model_extra or {}).get(name) is not None:
                raise UnsupportedError(
                    f"{name} in a message is not supported",
                    pointer=f"/messages/{i}/{name}",
                    code="field_unsupported",
                    hint=f"Use {instead}",
                )


def choice_of(choice: Json) -> NamedTool | AllowedTools:
    """The object of `tool_choice`, by its type."""
    kind = choice.get("type", "function")
    if kind == "allowed_tools":
        return validated(AllowedTools, choice, "/tool_choice")
    if kind != "function":
        raise InputError(
            f"Input should be function or allowed_tools, not {quoted(kind)}",
            pointer="/tool_choice/type",
            code="invalid_value",
            hint="none, auto and required stand alone, as strings",
        )
    return validated(NamedTool, choice, "/tool_choice")


def check_tools(given: list[Tool], choice: Choice) -> None:
    """What the library asks of tools and of the choice, and what HTTP asks besides: short names of few characters."""
    for i, tool in enumerate(given):
        name = tool.function.name
        if not 0 < len(name) <= 256 or not all(ch.isalnum() or ch in "_-.:/@" for ch in name):
            raise InputError(
                f"a tool's name is 1 to 256 letters, digits and any of _-.:/@, not {name[:64]!r}",
                pointer=f"/tools/{i}/function/name",
                code="tool_name_invalid",
            )
    tools = read_tools(given)
    if choice is not None and choice not in ("none", "auto") and not tools.tools:
        raise InputError("tool_choice needs tools", pointer="/tool_choice", code="invalid_value")
    if isinstance(choice, AllowedTools):
        if choice.allowed_tools.mode == "required" and not choice.allowed_tools.tools:
            raise InputError(
                "a call is required, and no tool is allowed",
                pointer="/tool_choice/allowed_tools/tools",
                code="invalid_value",
            )
        for i, allowed in enumerate(choice.allowed_tools.tools):
            check_known(allowed.function.name, tools, f"/tool_choice/allowed_tools/tools/{i}/function/name")
    else:
        read_choice(choice, tools)
