"""What holds an answer: from a request's fields to a grammar that is built once and remembered.

`wanted` reads response_format and structured_outputs into a `Wanted`; `for_chat` joins it with tools and the wire format. A `Plan`
is the result: a JSON value that says all (the key of grammars.py), how to build the grammar, and where in the body it came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from narrows import Grammar
from narrows.errors import InputError, NarrowsError
from narrows.limits import Limits
from narrows.server.errors import at
from narrows.server.protocol import GenerationRequest

if TYPE_CHECKING:
    from narrows import Vocabulary
    from narrows.engines.api import Parser
    from narrows.formats import Format


@dataclass(frozen=True, slots=True)
class Wanted:
    """The shape that the text itself should have."""

    kind: str
    """json, regex, choice or grammar."""
    value: Any
    pointer: str
    """Where in the request body the value stands."""
    whitespace: str = "bounded"

    def build(self, limits: Limits) -> Grammar:
        """The grammar. Raises `GrammarError`, `UnsupportedError` or `LimitError`, with places inside the value."""
        if self.kind == "json":
            return Grammar.from_json_schema(self.value, whitespace=self.whitespace, limits=limits)
        if self.kind == "regex":
            return Grammar.from_regex(self.value, limits=limits)
        if self.kind == "choice":
            return Grammar.choice(self.value)
        return Grammar.from_gbnf(self.value, limits=limits)


@dataclass(frozen=True, slots=True)
class Plan:
    """A grammar to be built, unless it is remembered."""

    definition: Any
    build: Callable[[Limits], Grammar]
    pointer: str

    def locate(self, error: NarrowsError) -> NarrowsError:
        """The error with its place inside the request body."""
        inside = (error.pointer or "").startswith(self.pointer + "/") or error.pointer == self.pointer
        return error if inside and self.pointer else at(error, self.pointer)


@dataclass(frozen=True, slots=True)
class Task:
    """What a chat asks of the wire format. Grammar and parser are made from the same fields, so that they agree."""

    format: Format
    vocabulary: Vocabulary
    limits: Limits
    tools: list[dict[str, Any]]
    """Those that may be called; empty: nothing is a call."""
    tool_choice: str | dict[str, Any]
    parallel: bool
    reasoning: str | None
    prompt: str
    """The end of the rendered prompt: the open turn of the assistant."""
    content: Wanted | None = None
    """The shape of the content, where that stands beside calls or behind reasoning."""

    def grammar(self, limits: Limits) -> Grammar:
        content = None
        if self.content is not None:
            try:
                content = self.content.build(limits)
            except NarrowsError as error:
                raise at(error, self.content.pointer) from None
        return self.format.grammar(**self._options(), content=content)

    def parser(self, id_factory: Callable[[int], str]) -> Parser:
        return self.format.parser(
            **self._options(), id_factory=id_factory, content=self.content is not None, constrained=True
        )

    def definition(self) -> list[Any]:
        """All that the grammar depends on, but for what is the same for the whole server."""
        asked = self.content
        shape = [asked.kind, asked.value, asked.whitespace] if asked is not None else None
        return [self.tools, self.tool_choice, self.parallel, self.reasoning, self.prompt, shape]

    def holding(self, asked: Wanted | None) -> Task:
        """The task with the content held to this shape, where that stands beside calls or behind reasoning."""
        beside = asked is not None and self.tools and self.tool_choice == "auto"
        return replace(self, content=asked) if beside or (asked is not None and self.starts_in_reasoning) else self

    @property
    def starts_in_reasoning(self) -> bool:
        """The prompt has opened the model's reasoning."""
        if self.reasoning is None:
            return False
        return bool(self.format.parse("x", tools=[], reasoning=self.reasoning, prompt=self.prompt).reasoning)

    def _options(self) -> dict[str, Any]:
        return {
            "tools": self.tools,
            "tool_choice": self.tool_choice,
            "parallel": self.parallel,
            "reasoning": self.reasoning,
            "prompt": self.prompt,
            "vocab": self.vocabulary,
            "limits": self.limits,
        }


def wanted(request: GenerationRequest) -> Wanted | None:
    """What response_format or structured_outputs ask for; None for free text. The request has been checked."""
    asked = request.structured_outputs
    if asked is not None:
        whitespace = "compact" if asked.disable_any_whitespace else "bounded"
        if asked.json_ is not None:
            return Wanted(
                "json", _schema(asked.json_, "/structured_outputs/json"), "/structured_outputs/json", whitespace
            )
        if asked.regex is not None:
            return Wanted("regex", asked.regex, "/structured_outputs/regex")
        if asked.choice is not None:
            return Wanted("choice", asked.choice, "/structured_outputs/choice")
        if asked.grammar is not None:
            return Wanted("grammar", asked.grammar, "/structured_outputs/grammar")
        return Wanted("json", {"type": "object"}, "/structured_outputs/json_object", whitespace)
    shape = request.response_format
    if shape is None or shape.type == "text":
        return None
    if shape.type == "json_object":
        return Wanted("json", {"type": "object"}, "/response_format")
    assert shape.json_schema is not None  # checked with the request
    return Wanted("json", shape.json_schema.schema_, "/response_format/json_schema/schema")


def _schema(value: Any, pointer: str) -> Any:
    """vLLM takes the schema as an object or as its JSON text; texts are read by the front end, under its limits."""
    if isinstance(value, str) and not value.strip():
        raise InputError("the schema is an empty string", pointer=pointer, code="schema_invalid")
    return value


def plain(asked: Wanted | None) -> Plan | None:
    """For a text without calls or reasoning: the answer is the grammar's sentence, nothing around it."""
    if asked is None:
        return None
    return Plan(["text", asked.kind, asked.value, asked.whitespace], asked.build, asked.pointer)


def for_chat(task: Task, asked: Wanted | None) -> Plan | None:
    """For a chat turn; `task` has the content's shape where that stands beside calls or behind reasoning (see `Task.holding`)."""
    if task.content is None and (not task.tools or (task.tool_choice == "none" and asked is not None)):
        return plain(asked)
    return Plan(["chat", *task.definition()], task.grammar, "/tools" if task.content is None else "")
