"""What holds an answer: from a request's fields to a grammar that is built once and remembered.

`wanted` reads response_format and structured_outputs into a `Wanted`; `for_chat` joins it with tools and the wire
format. A `Plan` is the result: a definition that says all (compiling/definition.py reads it, grammars.py keeps what it
comes to), and where in the body it came from.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from narrows.errors import InputError, NarrowsError
from narrows.grammar.languages import LANGUAGES, FrontEnd
from narrows.grammar.languages.json_schema import JSON_SCHEMA
from narrows.limits import Limits
from narrows.server.protocol import JSON_OBJECT, GenerationRequest
from narrows.tools.turn import TurnOptions

if TYPE_CHECKING:
    from narrows import Vocabulary
    from narrows.engines.api import Parser
    from narrows.formats import Format


@dataclass(frozen=True, slots=True)
class Wanted:
    """The shape that the text itself should have."""

    language: FrontEnd
    source: Any
    pointer: str
    """Where in the request body the source stands."""
    options: Mapping[str, str] = field(default_factory=dict)
    """How it is read; those that its language does not have are left out. See `Grammar.from_language`."""

    def definition(self) -> list[Any]:
        """All that the grammar depends on."""
        return [self.language.name, self.source, self.language.of_those(self.options)]

    def place(self, pointer: str) -> str:
        """A place inside the source as one in the request body."""
        return self.pointer + pointer


@dataclass(frozen=True, slots=True)
class Plan:
    """A grammar to be built, unless it is remembered."""

    definition: list[Any]
    place: Callable[[str], str]
    """A place in the grammar's definition ("" for all of it) as a pointer into the request body."""

    def locate(self, error: NarrowsError) -> NarrowsError:
        """The error with its place inside the request body."""
        located = copy.copy(error)
        located.pointer = self.place(error.pointer or "")
        if error.code == "schema_unsupported":
            located.hint = "Remove it; in tools and response_format, what cannot be enforced is left out without strict"
        return located


@dataclass(frozen=True, slots=True)
class Task:
    """What a chat asks of the wire format. Grammar and parser are made from the same fields, so that they agree."""

    format: Format
    vocabulary: Vocabulary
    limits: Limits
    turn: TurnOptions
    """Its tools are those that may be called; none: nothing is a call."""
    positions: tuple[int, ...] = ()
    """Where these tools stand in the request's list."""
    max_calls: int | None = None
    additional: str = "standard"
    on_unsupported: str = "by_tool"
    content: Wanted | None = None
    """The shape of the content, where that stands beside calls or after reasoning."""

    def parser(self, id_factory: Callable[[int], str]) -> Parser:
        return self.format.parser(
            **self.turn.arguments(),
            vocab=self.vocabulary,
            limits=self.limits,
            id_factory=id_factory,
            content=self.content is not None,
            constrained=True,
        )

    def definition(self) -> list[Any]:
        """All that the grammar depends on, but for what is the same for the whole server."""
        shape = self.content.definition() if self.content is not None else None
        return [self.turn.arguments(), self.max_calls, self.additional, self.on_unsupported, shape]

    def place(self, pointer: str) -> str:
        """A place in the tools that may be called, or in the content's grammar, as one in the request body."""
        if not pointer:
            return "/tools" if self.content is None else ""
        first, _, rest = pointer[1:].partition("/")
        if first == "content" and self.content is not None:
            return f"{self.content.pointer}/{rest}" if rest else self.content.pointer
        number, slash, rest = rest.partition("/")
        if first != "tools" or not number.isdigit() or int(number) >= len(self.positions):
            return pointer
        return f"/tools/{self.positions[int(number)]}{slash}{rest}"

    def holding(self, asked: Wanted | None) -> Task:
        """The task with the content held to this shape, where that stands beside calls or after reasoning."""
        beside = asked is not None and self.turn.tools and self.turn.tool_choice == "auto"
        return replace(self, content=asked) if beside or (asked is not None and self.starts_in_reasoning) else self

    @property
    def starts_in_reasoning(self) -> bool:
        """The prompt has opened the model's reasoning."""
        return self.format.starts_in_reasoning(self.turn.prompt, self.turn.reasoning)


@dataclass(frozen=True, slots=True)
class Strictness:
    """How a request's schemas are read."""

    additional: str
    """ "declared" or "standard": see `Grammar.from_json_schema`."""
    everywhere: bool
    """What cannot be enforced is refused, whatever `strict` says."""

    def of(self, strict: bool | None) -> str:
        """What becomes of a keyword that cannot be enforced."""
        return "error" if strict or self.everywhere else "ignore"

    @property
    def of_tools(self) -> str:
        return "error" if self.everywhere else "by_tool"


def strictness(request: GenerationRequest, disable_additional_properties: bool, strict_schemas: bool) -> Strictness:
    """The server's way (the two settings), unless the request says."""
    asked = request.disable_additional_properties
    return Strictness(_additional(disable_additional_properties if asked is None else asked), strict_schemas)


def _additional(disable_additional_properties: bool) -> str:
    return "declared" if disable_additional_properties else "standard"


def wanted(request: GenerationRequest, how: Strictness) -> Wanted | None:
    """What response_format or structured_outputs ask for; None for free text. The request has been checked."""
    asked = request.structured_outputs
    if asked is not None:
        name, value = asked.given()[0]
        pointer = f"/structured_outputs/{name}"
        own = asked.disable_additional_properties
        options = {
            "whitespace": "compact" if asked.disable_any_whitespace else "bounded",
            "additional": how.additional if own is None else _additional(own),
            "on_unsupported": "error",
        }
        if name == JSON_OBJECT:
            return Wanted(JSON_SCHEMA, OBJECT, pointer, {**options, **_OBJECT_OPTIONS})
        language = LANGUAGES[name]
        return Wanted(language, _schema(value, pointer) if language is JSON_SCHEMA else value, pointer, options)
    shape = request.response_format
    if shape is None or shape.type == "text":
        return None
    inner = shape.json_schema
    strict = inner.strict if inner is not None else None
    options = {"whitespace": "bounded", "additional": how.additional, "on_unsupported": how.of(strict)}
    if inner is not None and inner.schema_ is not None:
        return Wanted(JSON_SCHEMA, inner.schema_, "/response_format/json_schema/schema", options)
    if shape.schema_ is None:
        return Wanted(JSON_SCHEMA, OBJECT, "/response_format", {**options, **_OBJECT_OPTIONS})
    schema = shape.schema_
    if shape.type == "json_object":  # an object, whatever its schema says besides
        schema = OBJECT if schema is True else schema
        schema = {**OBJECT, **schema} if isinstance(schema, dict) else schema
    return Wanted(JSON_SCHEMA, schema, "/response_format/schema", options)


OBJECT = {"type": "object"}
"""The schema of any JSON object."""
_OBJECT_OPTIONS = {"additional": "standard", "on_unsupported": "error"}
"""How that is read: nothing depends on it, so one compiled grammar serves all who ask for it."""


def _schema(value: Any, pointer: str) -> Any:
    """vLLM takes the schema as an object or as its JSON text; texts are read by the front end, under its limits."""
    if isinstance(value, str) and not value.strip():
        raise InputError("the schema is an empty string", pointer=pointer, code="schema_invalid")
    return value


def plain(asked: Wanted | None) -> Plan | None:
    """For a text without calls or reasoning: the answer is the grammar's sentence, nothing around it."""
    if asked is None:
        return None
    return Plan(["text", *asked.definition()], asked.place)


def for_chat(task: Task, asked: Wanted | None) -> Plan | None:
    """For a chat turn; `task` has the content's shape where that stands beside calls or after reasoning (see
    `Task.holding`)."""
    if task.content is None and (not task.turn.tools or (task.turn.tool_choice == "none" and asked is not None)):
        return plain(asked)
    return Plan(["chat", *task.definition()], task.place)
