"""Reads what `create_chat_completion` was asked for, and says which grammar holds the answer and which parser reads it.

The two are made from the same fields, so they agree. Errors have pointers into the arguments, as into the body of
OpenAI's request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.arguments import quoted
from narrows.compiling.definition import grammar as grammar_of
from narrows.errors import InputError, NarrowsError
from narrows.grammar.languages.json_schema import JSON_SCHEMA
from narrows.tools.request import read_choice, read_tools
from narrows.tools.turn import TurnOptions

if TYPE_CHECKING:
    from narrows.formats import Format
    from narrows.grammar.grammar import Grammar
    from narrows.limits import Limits
    from narrows.stream.parser import StreamParser
    from narrows.vocabulary.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Reading:
    """How the schemas of requests are read. The fields are those of `ChatHandler`."""

    additional: str = "declared"
    strict: bool = False
    max_calls: int | None = None

    @property
    def of_tools(self) -> str:
        """How tools' schemas are read: `on_unsupported` of `Format.grammar`."""
        return "error" if self.strict else "by_tool"


@dataclass(frozen=True, slots=True)
class Content:
    """The shape of the content, from a `response_format`."""

    definition: list[Any]
    """A language, its source and its options: see compiling/definition.py."""
    pointer: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer. `held`: the shape of the content, where the content stands beside calls or after reasoning."""

    format: Format
    options: TurnOptions
    definition: list[Any] | None
    """Of the answer's grammar. None for free text."""
    held: bool
    content_pointer: str

    def grammar(self, limits: Limits) -> Grammar:
        """Raises what reading the schemas raises, with its place in the request."""
        assert self.definition is not None
        try:
            return grammar_of(self.definition, self.format, limits)
        except NarrowsError as error:
            error.pointer = self._place(error.pointer or "")
            raise

    def parser(self, vocabulary: Vocabulary, limits: Limits, make_id: Callable[[int], str]) -> StreamParser:
        """A parser for one answer to this turn."""
        return self.format.parser(
            **self.options.arguments(),
            vocab=vocabulary,
            limits=limits,
            id_factory=make_id,
            content=self.held,
            constrained=True,
        )

    def _place(self, pointer: str) -> str:
        assert self.definition is not None
        if self.definition[0] == "text":
            return self.content_pointer + pointer
        if pointer == "/content" or pointer.startswith("/content/"):
            return self.content_pointer + pointer[len("/content") :]
        return pointer or "/tools"


def read_turn(
    fmt: Format,
    reasoning: str | None,
    prompt: str,
    tools: list[dict[str, Any]],
    tool_choice: Any,
    content: Content | None,
    parallel: bool,
    reading: Reading,
) -> Turn:
    """The turn of a chat. `prompt`: the end of the rendered prompt. `tools` and `tool_choice`: as `read_tool_choice`
    gives them."""
    options = TurnOptions(tools=tools, tool_choice=tool_choice, parallel=parallel, reasoning=reasoning, prompt=prompt)
    beside = bool(tools) and tool_choice == "auto"
    held = content if content is not None and (beside or fmt.starts_in_reasoning(prompt, reasoning)) else None
    definition: list[Any] | None
    if held is None and (not tools or (tool_choice == "none" and content is not None)):
        definition = None if content is None else ["text", *content.definition]
    else:
        shape = None if held is None else held.definition
        definition = ["chat", options.arguments(), reading.max_calls, reading.additional, reading.of_tools, shape]
    return Turn(fmt, options, definition, held is not None, "" if content is None else content.pointer)


def read_tool_choice(tools: Any, choice: Any, limits: Limits) -> tuple[list[dict[str, Any]], Any]:
    """The tools as a list of dicts, and the choice as formats take it. Raises InputError."""
    given = [] if tools is None else tools
    if not isinstance(given, list) or not all(isinstance(tool, Mapping) for tool in given):
        raise InputError("tools must be a list of dicts", code="tools_invalid", pointer="/tools")
    table = read_tools(given, limits=limits)
    read = read_choice(choice, table)
    if not given:
        if read.mode == "required":
            raise InputError(
                "tool_choice is required, but there are no tools", code="tool_choice_invalid", pointer="/tool_choice"
            )
        return [], "none"
    if read.mode == "named":
        return [dict(tool) for tool in given], {"type": "function", "function": {"name": read.name}}
    return [dict(tool) for tool in given], read.mode


def read_response_format(value: Any, reading: Reading) -> Content | None:
    """The shape that the content must have. None for free text. Raises InputError."""
    if value is None:
        return None
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind == "text":
        return None
    options = {"whitespace": "bounded", "additional": reading.additional}
    if kind == "json_object":
        schema = value.get("schema")
        if schema is None or schema is True:
            return _content(_OBJECT, "/response_format", {**options, "additional": "standard"}, strict=True)
        if isinstance(schema, dict):  # an object, whatever else its schema says
            schema = {**_OBJECT, **schema}
        return _content(schema, "/response_format/schema", options, reading.strict)
    if kind == "json_schema":
        inner = value.get("json_schema")
        if isinstance(inner, Mapping) and inner.get("schema") is not None:
            strict = reading.strict or inner.get("strict") is True
            return _content(inner["schema"], "/response_format/json_schema/schema", options, strict)
        if value.get("schema") is not None:
            return _content(value["schema"], "/response_format/schema", options, reading.strict)
        raise InputError(
            "the response format has no schema", code="response_format_invalid", pointer="/response_format/json_schema"
        )
    raise InputError(
        f"response_format of type {quoted(kind)} is not known",
        code="response_format_invalid",
        pointer="/response_format/type",
        hint="Use text, json_object or json_schema",
    )


_OBJECT = {"type": "object"}


def _content(schema: Any, pointer: str, options: dict[str, str], strict: bool) -> Content:
    named = {**options, "on_unsupported": "error" if strict else "ignore"}
    return Content([JSON_SCHEMA.name, schema, JSON_SCHEMA.of_those(named)], pointer)


def check_messages(messages: Any) -> None:
    """Raises InputError, code `invalid_messages`, where a message has not the form of OpenAI's API."""
    if not isinstance(messages, list) or not messages:
        raise _invalid("messages must be a list of dicts, and not empty", "/messages")
    for index, message in enumerate(messages):
        pointer = f"/messages/{index}"
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise _invalid("a message must be a dict with a role", pointer)
        content = message.get("content")
        if isinstance(content, list):
            if not all(isinstance(part, Mapping) for part in content):
                raise _invalid("the parts of a content must be dicts", f"{pointer}/content")
        elif content is not None and not isinstance(content, str):
            raise _invalid("content must be a string, or a list of parts", f"{pointer}/content")
        calls = message.get("tool_calls")
        if calls is not None and not (isinstance(calls, list) and all(map(_is_call, calls))):
            raise _invalid("tool_calls must be a list of calls of functions", f"{pointer}/tool_calls")


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, Mapping) else None
    return isinstance(function, Mapping) and isinstance(function.get("name"), str)


def _invalid(message: str, pointer: str) -> InputError:
    return InputError(message, code="invalid_messages", pointer=pointer)
