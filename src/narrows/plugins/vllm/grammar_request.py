"""Tool calls as a structured output: a text with which a parser requests the grammar of a wire format.

vLLM carries one string from the front end to the process that makes masks: `StructuredOutputsParams(grammar=...)`.
`for_tools` writes into such a string what a format's grammar depends on, and `read` parses it. `ToolSpec.grammar`
builds the grammar from the same fields that the stream parser got, so the two agree:

    text = grammar_request.for_tools("hermes_json", tools, "required")
    request.structured_outputs = StructuredOutputsParams(grammar=text)

The text is JSON, `{"narrows": {"format": ..., "tools": [...], "tool_choice": ..., ...}}`. A schema with an option of
its request is carried in the same way, as `StructuredOutputsParams(json=...)`: `{"narrows": {"schema": "...",
"additional": "standard"}}`. A client may send such a text as `structured_outputs: {"grammar": ...}`. So it is checked
like all untrusted input. It names formats, never files.

Where calls may come and the content has a shape of its own (`response_format`, `structured_outputs`), the text has that
in its field "content": a language and a source. The answer is then either calls, or that.

Flags of a vLLM that has narrows installed:

* no flag: narrows constrains calls by its own parsers (`--tool-call-parser narrows_<format>`) when `tool_choice` is
  required or named, and when calls may come beside strict tools or a shaped content. All other structured outputs go to
  the backend that vLLM chooses, as before.
* `--structured-outputs-config.backend narrows`: all of them go to narrows.
* `NARROWS_VLLM_STRUCTURED_OUTPUTS=1` in the environment: the same for engines that are made in Python (`LLM(...)`).
  There vLLM reads its configuration before it loads plug-ins. The variable makes the backend "auto" mean narrows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from narrows import Grammar, formats
from narrows.errors import InputError, LimitError
from narrows.formats.registry import known
from narrows.grammar.languages import LANGUAGES, front_end
from narrows.grammar.options import Additional
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.tools.turn import TurnOptions

_OPENER = '{"narrows":'
_WITH_CONTENT = _OPENER + '{"content":'
JSON_OBJECT = "json_object"
"""vLLM's name for JSON Schema's {"type": "object"}, beside the languages."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of the content."""

    language: str
    """A language of `narrows.grammar.languages`, or JSON_OBJECT."""
    text: str
    """The source as text (`FrontEnd.to_text`)."""

    def grammar(self, additional: str, limits: Limits) -> Grammar:
        """The grammar of the content. Raises what the language's front end raises."""
        if self.language == JSON_OBJECT:
            return Grammar.from_json_schema({"type": "object"}, limits=limits)
        text = self.text
        if is_schema(text):
            text, additional = read_schema(text)
        language = front_end(self.language)
        options = language.of_those({"additional": additional})
        return Grammar.from_language(self.language, language.from_text(text), limits=limits, **options)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The arguments of `narrows.formats.Format.grammar` for a turn with tools."""

    format: str
    turn: TurnOptions
    """Its `reasoning` is None if the mask begins only after the reasoning."""
    additional: str = "declared"
    content: Shape | None = None

    def grammar(self, limits: Limits = DEFAULT_LIMITS) -> Grammar:
        """The grammar of the turn. Raises `GrammarError`, `UnsupportedError`, `InputError` or `LimitError`. Their
        pointers lead into the tools."""
        return formats.get(self.format).grammar(
            **self.turn.arguments(),
            limits=limits,
            additional=cast(Additional, self.additional),
            content=None if self.content is None else self.content.grammar(self.additional, limits),
        )


def for_tools(
    format_name: str,
    tools: Sequence[Any] | None,
    tool_choice: Any = "required",
    parallel: bool = True,
    reasoning: str | None = "auto",
    prompt_tail: str = "",
    additional: str | None = None,
    content: Shape | None = None,
) -> str:
    """The text that requests the grammar of this format with these tools.

    tools and tool_choice: as in OpenAI's API, dicts or objects with the same fields (vLLM's pydantic ones).
    reasoning: None if vLLM has a reasoning parser, because it begins to mask only after the reasoning. Otherwise
      "auto" or a style.
    prompt_tail: the end of the rendered prompt, from the opening of the last turn on.
    additional: None if the request does not set it.
    content: what an answer without calls is held to; only where calls need not come.
    """
    body: dict[str, Any] = {} if content is None else {"content": {"language": content.language, "text": content.text}}
    body |= {
        "format": format_name,
        "tools": [_plain(tool) for tool in tools or ()],
        "tool_choice": _plain(tool_choice),
        "parallel": bool(parallel),
        "reasoning": reasoning,
        "prompt": prompt_tail,
    }
    if additional is not None:
        body["additional"] = additional
    return f"{_OPENER}{json.dumps(body, separators=(',', ':'))}}}"


def for_schema(schema: str, additional: str) -> str:
    """The text that carries a schema (itself JSON text) and the value of `additional` for it."""
    return f"{_OPENER}{json.dumps({'schema': schema, 'additional': additional}, separators=(',', ':'))}}}"


def is_schema(text: str) -> bool:
    """Whether the text is one of `for_schema`. No JSON Schema has a keyword `narrows`."""
    return text.startswith(_OPENER)


def read_schema(text: str) -> tuple[str, str]:
    """(schema, additional) of such a text. Raises `InputError` code `tool_spec_invalid` with a pointer."""
    try:
        body = json.loads(text)["narrows"]
    except (ValueError, RecursionError) as error:
        raise _invalid(f"this is not valid JSON: {error}", "") from error
    if not isinstance(body, dict) or set(body) != {"schema", "additional"} or not isinstance(body["schema"], str):
        raise _invalid('must be an object with "schema" (its JSON text) and "additional"', "")
    return body["schema"], _additional(body["additional"])


def is_for_tools(text: str) -> bool:
    """Whether a grammar text requests a wire format. No other language that vLLM accepts begins like this."""
    return text.startswith(_OPENER)


def holds_content(text: str) -> bool:
    """Whether a text of `for_tools` gives the content a shape."""
    return text.startswith(_WITH_CONTENT)


def read(text: str, limits: Limits = DEFAULT_LIMITS, additional: str = "declared") -> ToolSpec:
    """The fields of such a text. Raises `InputError` code `tool_spec_invalid` with a pointer, or `LimitError`.

    `additional` is the value for a text without that field."""
    if len(text) > limits.schema_bytes:
        raise LimitError(f"tools of {len(text)} characters", limit="schema_bytes")
    try:
        outer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"this is not valid JSON: {error}", "") from error
    body = outer["narrows"]
    if not isinstance(body, dict):
        raise _invalid("must be an object", "")
    unknown = set(body) - set(_FIELDS)
    if unknown:
        raise _invalid(f"unknown field {min(unknown)!r}", f"/{min(unknown)}")
    for name, kinds in _FIELDS.items():
        if name in body and not isinstance(body[name], kinds):
            raise _invalid(f"{name} cannot be a {type(body[name]).__name__}", f"/{name}")
    if body.get("format") not in known():
        raise _invalid(f"there is no format {body.get('format')!r}", "/format")
    tools = body.get("tools", [])
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict):
            raise _invalid("a tool must be an object", f"/tools/{index}")
    return ToolSpec(
        body["format"],
        TurnOptions(
            tools=tools,
            tool_choice=body.get("tool_choice", "required"),
            parallel=body.get("parallel", True),
            reasoning=body.get("reasoning", "auto"),
            prompt=body.get("prompt", ""),
        ),
        _additional(body.get("additional", additional)),
        _shape(body["content"]) if "content" in body else None,
    )


_FIELDS: dict[str, tuple[type, ...]] = {
    "format": (str,),
    "tools": (list,),
    "tool_choice": (str, dict),
    "parallel": (bool,),
    "reasoning": (str, type(None)),
    "prompt": (str,),
    "additional": (str,),
    "content": (dict,),
}


def _shape(value: dict[str, Any]) -> Shape:
    language, text = value.get("language"), value.get("text")
    is_text = len(value) == 2 and isinstance(text, str) and isinstance(language, str)
    if is_text and language in (*LANGUAGES, JSON_OBJECT):
        return Shape(str(language), str(text))
    raise _invalid('content must be an object with a "language" and its "text"', "/content")


def _additional(value: Any) -> str:
    if value not in ("standard", "declared"):
        raise _invalid('additional must be "standard" or "declared"', "/additional")
    return str(value)


def _invalid(message: str, pointer: str) -> InputError:
    return InputError(message, code="tool_spec_invalid", pointer=f"/narrows{pointer}")


def _plain(value: Any) -> Any:
    """A pydantic object as JSON values, without the fields that were not sent."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True, by_alias=True)
    return dict(value) if isinstance(value, Mapping) else value
