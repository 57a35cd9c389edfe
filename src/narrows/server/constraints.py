"""From a request's fields to the definition of the grammar that holds its answer.

`wanted` reads response_format and structured_outputs into a `Wanted`. `for_chat` joins it with the tools and the wire
format. The result is a `Plan`: the definition (compiling/definition.py reads it, grammars.py keeps the compiled
grammar), and a function from places in it to places in the request body. Nothing is compiled here.
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
from narrows.server.fields import JSON_OBJECT
from narrows.server.protocol import GenerationRequest
from narrows.tools.turn import TurnOptions

if TYPE_CHECKING:
    from narrows import Vocabulary
    from narrows.engines.api import Parser
    from narrows.formats import Format


@dataclass(frozen=True, slots=True)
class Wanted:
    """The shape that the text itself should have, calls and reasoning aside."""

    language: FrontEnd
    source: Any
    pointer: str
    """Where in the request body the source stands."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of `Grammar.from_language`. Those that the language does not have are left out."""

    def definition(self) -> list[Any]:
        """All that the grammar depends on, as JSON values."""
        return [self.language.name, self.source, self.language.of_those(self.options)]

    def place(self, pointer: str) -> str:
        """A pointer into the source, as a pointer into the request body."""
        return self.pointer + pointer


@dataclass(frozen=True, slots=True)
class Plan:
    """A grammar to be compiled, or taken from the cache."""

    definition: list[Any]
    place: Callable[[str], str]
    """Turns a pointer into the grammar's definition ("" for all of it) into a pointer into the request body."""

    def locate(self, error: NarrowsError) -> NarrowsError:
        """A copy of the error, with its place inside the request body."""
        located = copy.copy(error)
        located.pointer = self.place(error.pointer or "")
        if error.code == "schema_unsupported":
            located.hint = "Remove it. In tools and response_format, keywords without support are ignored unless strict"
        return located


@dataclass(frozen=True, slots=True)
class Task:
    """What a chat needs from the wire format. Grammar and parser are built from the same fields, so that they agree."""

    format: Format
    vocabulary: Vocabulary
    limits: Limits
    turn: TurnOptions
    """Its tools are those that may be called. Without tools, no text is a call."""
    positions: tuple[int, ...] = ()
    """Where these tools stand in the request's list."""
    max_calls: int | None = None
    additional: str = "standard"
    on_unsupported: str = "by_tool"
    content: Wanted | None = None
    """The shape of the content, where the content stands beside calls or after reasoning."""

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
        """All that the grammar depends on, without what is the same for the whole server."""
        shape = self.content.definition() if self.content is not None else None
        return [self.turn.arguments(), self.max_calls, self.additional, self.on_unsupported, shape]

    def place(self, pointer: str) -> str:
        """A pointer into the callable tools or the content's grammar, as a pointer into the request body."""
        if not pointer:
            return "/tools" if self.content is None else ""
        first, _, rest = pointer[1:].partition("/")
        if first == "content" and self.content is not None:
            return f"{self.content.pointer}/{rest}" if rest else self.content.pointer
        number, slash, rest = rest.partition("/")
        if first != "tools" or not number.isdigit() or int(number) >= len(self.positions):
            return pointer
        return f"/tools/{self.positions[int(number)]}{slash}{rest}"

    def holding(self, content: Wanted | None) -> Task:
        """The task with this shape for its content, where the content stands beside calls or after reasoning."""
        beside = content is not None and self.turn.tools and self.turn.tool_choice == "auto"
        after = content is not None and self.starts_in_reasoning
        return replace(self, content=content) if beside or after else self

    @property
    def starts_in_reasoning(self) -> bool:
        """Whether the prompt has opened the model's reasoning."""
        return self.format.starts_in_reasoning(self.turn.prompt, self.turn.reasoning)


@dataclass(frozen=True, slots=True)
class Strictness:
    """How a request's schemas are read."""

    additional: str
    """ "declared" or "standard": see `Grammar.from_json_schema`."""
    everywhere: bool
    """Refuse every keyword that cannot be enforced, whatever `strict` is."""

    def of(self, strict: bool | None) -> str:
        """The `on_unsupported` option for a schema with this `strict`: "error" or "ignore"."""
        return "error" if strict or self.everywhere else "ignore"

    @property
    def of_tools(self) -> str:
        return "error" if self.everywhere else "by_tool"


def strictness(request: GenerationRequest, disable_additional_properties: bool, strict_schemas: bool) -> Strictness:
    """The server's two settings, unless the request has its own."""
    own = request.disable_additional_properties
    return Strictness(_additional(disable_additional_properties if own is None else own), strict_schemas)


def _additional(disable_additional_properties: bool) -> str:
    return "declared" if disable_additional_properties else "standard"


def wanted(request: GenerationRequest, strictness: Strictness) -> Wanted | None:
    """What response_format or structured_outputs ask for. None for free text. The request must be checked before."""
    outputs = request.structured_outputs
    if outputs is not None:
        name, value = outputs.given()[0]
        pointer = f"/structured_outputs/{name}"
        own = outputs.disable_additional_properties
        options = {
            "whitespace": "compact" if outputs.disable_any_whitespace else "bounded",
            "additional": strictness.additional if own is None else _additional(own),
            "on_unsupported": "error",
        }
        if name == JSON_OBJECT:
            return Wanted(JSON_SCHEMA, OBJECT, pointer, {**options, **_OBJECT_OPTIONS})
        language = LANGUAGES[name]
        return Wanted(language, _schema(value, pointer) if language is JSON_SCHEMA else value, pointer, options)
    response_format = request.response_format
    if response_format is None or response_format.type == "text":
        return None
    inner = response_format.json_schema
    strict = inner.strict if inner is not None else None
    options = {
        "whitespace": "bounded",
        "additional": strictness.additional,
        "on_unsupported": strictness.of(strict),
    }
    if response_format.type == "structural_tag":
        tag = response_format.structural_tag()
        return Wanted(LANGUAGES["structural_tag"], tag, "/response_format", options)
    if inner is not None and inner.schema_ is not None:
        return Wanted(JSON_SCHEMA, inner.schema_, "/response_format/json_schema/schema", options)
    if response_format.schema_ is None:
        return Wanted(JSON_SCHEMA, OBJECT, "/response_format", {**options, **_OBJECT_OPTIONS})
    schema = response_format.schema_
    if response_format.type == "json_object":  # an object, whatever else its schema says
        schema = OBJECT if schema is True else schema
        schema = {**OBJECT, **schema} if isinstance(schema, dict) else schema
    return Wanted(JSON_SCHEMA, schema, "/response_format/schema", options)


OBJECT = {"type": "object"}
"""The schema of any JSON object."""
_OBJECT_OPTIONS = {"additional": "standard", "on_unsupported": "error"}
"""Fixed, since the options make no difference here. So one compiled grammar serves all such requests."""


def _schema(value: Any, pointer: str) -> Any:
    """vLLM takes a schema as an object or as its JSON text. The front end reads texts, under its limits."""
    if isinstance(value, str) and not value.strip():
        raise InputError("the schema is an empty string", pointer=pointer, code="schema_invalid")
    return value


def plain(content: Wanted | None) -> Plan | None:
    """The plan for a text without calls or reasoning: the whole answer is a sentence of the grammar."""
    if content is None:
        return None
    return Plan(["text", *content.definition()], content.place)


def for_chat(task: Task, content: Wanted | None) -> Plan | None:
    """The plan for a chat turn. `task` must already have the content's shape where the content stands beside calls or
    after reasoning (see `Task.holding`)."""
    if task.content is None and (not task.turn.tools or (task.turn.tool_choice == "none" and content is not None)):
        return plain(content)
    return Plan(["chat", *task.definition()], task.place)
