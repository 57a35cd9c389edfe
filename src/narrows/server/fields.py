"""The objects in a request: messages, tools, and what an answer is held to.

Types are strict: a number in quotes is an error, as at OpenAI. Large values are taken by reference. protocol.py has the
requests, and looks into these values in Python, item by item.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf

from narrows.errors import InputError
from narrows.grammar.languages import LANGUAGES

Json = Any
Object = InstanceOf[dict[str, Json]]
"""An object that is taken as it is. Its keys are strings, since it was read from JSON."""
Strings = InstanceOf[list[str]]
Numbers = InstanceOf[list[int]]
"""`check` looks at the types of their items."""


class Model(BaseModel):
    """Strict types, no NaN. Unknown fields go to `model_extra`."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, protected_namespaces=())


class Closed(Model):
    """An object that holds a constraint. An unknown field could be a constraint that would not be enforced, so it is
    refused."""

    harmless: ClassVar[frozenset[str]] = frozenset()
    """Unknown fields that clients send, and that do not change the shape of an answer."""

    def unknown(self) -> dict[str, Json]:
        """The fields that are not known here."""
        return self.model_extra or {}


class FunctionCall(Model):
    name: str
    arguments: str | Object | None = None


class ToolCall(Model):
    id: str | None = None
    type: Literal["function"] = "function"
    function: FunctionCall


class Message(Model):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | InstanceOf[list[dict[str, Json]]] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class Function(Closed):
    # A function's result, and notes for people and caches. The chat template gets them.
    harmless: ClassVar[frozenset[str]] = frozenset(
        "return returns response output_schema outputSchema examples input_examples title annotations "
        "cache_control".split()
    )
    name: str
    description: str | None = None
    parameters: Object | bool | None = None
    strict: bool | None = None


class Tool(Closed):
    harmless: ClassVar[frozenset[str]] = frozenset(("cache_control",))
    type: Literal["function"]
    function: Function


class FunctionName(Closed):
    name: str


class NamedTool(Closed):
    type: Literal["function"] = "function"
    function: FunctionName


class AllowedToolList(Closed):
    mode: Literal["auto", "required"]
    tools: list[NamedTool]


class AllowedTools(Closed):
    type: Literal["allowed_tools"]
    allowed_tools: AllowedToolList


class JsonSchemaFormat(Closed):
    name: str = "schema"
    description: str | None = None
    schema_: Annotated[Object | bool | None, Field(alias="schema")] = None
    strict: bool | None = None


class ResponseFormat(Closed):
    """OpenAI's, and with `schema` beside the type, as llama.cpp, Together and Fireworks take it. And structural tags,
    in both of their forms, as vLLM and SGLang take them."""

    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: JsonSchemaFormat | None = None
    schema_: Annotated[Object | bool | None, Field(alias="schema")] = None
    format: Object | None = None
    structures: InstanceOf[list[dict[str, Json]]] | None = None
    triggers: Strings | None = None

    def structural_tag(self) -> dict[str, Json]:
        """The structural tag, for a request of that type."""
        fields = {"format": self.format, "structures": self.structures, "triggers": self.triggers}
        return {"type": self.type, **{name: value for name, value in fields.items() if value is not None}}

    def check(self) -> None:
        """Raises `InputError` for two schemas, for none that is needed, and for one that does not fit the type."""
        inner = self.json_schema.schema_ if self.json_schema is not None else None
        pointer = "/response_format"
        if self.type == "structural_tag":
            for name, given in (("json_schema", self.json_schema), ("schema", self.schema_)):
                if given is not None:
                    raise InputError(
                        f"{name} does not go with type structural_tag",
                        pointer=f"{pointer}/{name}",
                        code="conflicting_constraints",
                    )
            return
        for name in list(self.structural_tag())[1:]:
            raise InputError(
                f"{name} goes with type structural_tag, not {self.type}",
                pointer=f"{pointer}/{name}",
                code="conflicting_constraints",
            )
        if self.type != "json_schema" and self.json_schema is not None:
            raise InputError(
                f"json_schema goes with type json_schema, not {self.type}",
                pointer=f"{pointer}/json_schema",
                code="conflicting_constraints",
            )
        if self.type == "text" and self.schema_ is not None:
            raise InputError(
                "a schema goes with type json_schema or json_object, not text",
                pointer=f"{pointer}/schema",
                code="conflicting_constraints",
            )
        if inner is not None and self.schema_ is not None:
            raise InputError("there are two schemas", pointer=f"{pointer}/schema", code="conflicting_constraints")
        if self.type == "json_schema" and inner is None and self.schema_ is None:
            raise InputError(
                "type json_schema needs json_schema.schema", pointer=f"{pointer}/json_schema", code="missing_field"
            )


class StructuredOutputs(Closed):
    """vLLM's: exactly one of json, regex, choice, grammar, json_object. Any other language of
    `narrows.grammar.languages` has a field of its own name."""

    harmless: ClassVar[frozenset[str]] = frozenset(("disable_fallback",))  # nothing falls back here

    json_: Annotated[str | Object | bool | None, Field(alias="json")] = None
    regex: str | None = None
    choice: Strings | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool | None = None

    def given(self) -> list[tuple[str, Json]]:
        """(name, source) of each constraint that is set."""
        fields = {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}
        fields |= self.model_extra or {}
        given = [(name, fields[name]) for name in LANGUAGES if fields.get(name) is not None]
        return [*given, (JSON_OBJECT, True)] if self.json_object else given

    def unknown(self) -> dict[str, Json]:
        """The fields that are neither known here nor languages."""
        return {name: value for name, value in (self.model_extra or {}).items() if name not in LANGUAGES}

    def check(self) -> None:
        """Raises `InputError` unless exactly one constraint is set, with a source of the kind that its language
        takes."""
        pointer = "/structured_outputs"
        given = self.given()
        if len(given) != 1:
            names = ", ".join(name for name, _ in given) or "none"
            raise InputError(
                f"structured_outputs takes exactly one of {', '.join((*LANGUAGES, JSON_OBJECT))}; got {names}",
                pointer=pointer,
                code="conflicting_constraints",
            )
        check_items(self.choice or (), str, f"{pointer}/choice")
        name, source = given[0]
        if name in LANGUAGES and not LANGUAGES[name].takes.fits(source):
            raise InputError(
                f"Input should be {LANGUAGES[name].takes.says}, not {kind_of(source)}",
                pointer=f"{pointer}/{name}",
                code="invalid_type",
            )


JSON_OBJECT = "json_object"
"""The field of `structured_outputs` for JSON Schema's {"type": "object"}."""


class RepetitionDetection(Closed):
    """vLLM's object. As there, nothing is looked for without `max_pattern_size`."""

    max_pattern_size: int = 0
    min_pattern_size: int = 0
    min_count: int = 0
    longest_run: int | None = None


class StreamOptions(Model):
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False
    """vLLM's: beside `include_usage`, each chunk has the usage so far."""
    include_values: bool | Strings | None = False


_KINDS: dict[type, str] = {str: "a string", int: "an integer", dict: "an object", list: "an array"}


def kind_of(value: Json) -> str:
    """The JSON type of a value, for a message."""
    if value is None:
        return "null"
    return "a boolean" if isinstance(value, bool) else _KINDS.get(type(value), "a number")


def pointer_to(pointer: str, name: str) -> str:
    """A JSON pointer to a member of the object at `pointer`."""
    return f"{pointer}/" + name.replace("~", "~0").replace("/", "~1")


def check_items(items: Iterable[Json], kind: type, pointer: str) -> None:
    """Raises `InputError` with the place of the first item of another type."""
    for i, item in enumerate(items):
        if not isinstance(item, kind) or isinstance(item, bool):
            raise InputError(
                f"Input should be {_KINDS[kind]}, not {kind_of(item)}", pointer=f"{pointer}/{i}", code="invalid_type"
            )


def as_dict(model: Model) -> dict[str, Json]:
    """The fields that were given, under the names in the request. Values are not copied."""
    fields = type(model).model_fields
    given = {fields[name].alias or name: getattr(model, name) for name in fields if name in model.model_fields_set}
    return {**given, **(model.model_extra or {})}
