"""The tools of a request, as the parser, the grammar and the coercion of values see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from narrows.arguments import ITERABLE, quoted
from narrows.errors import InputError
from narrows.tools.type_names import standard_types

UNTYPED = ("string", "json")
"""What an argument without a schema may be, where it is written as bare text."""


@dataclass(slots=True)
class Tool:
    name: str
    declared: Any
    """JSON Schema of the arguments (a dict or a boolean) as it came, or None where the tool declares none."""
    strict: bool = False
    """The arguments must follow the schema to the letter (OpenAI's `strict`)."""
    _read: bool = False

    @property
    def parameters(self) -> Any:
        """The same with the standard's names of types. Found when first asked for: not every format asks."""
        if not self._read:
            self.declared, self._read = standard_types(self.declared), True
        return self.declared


@dataclass(frozen=True, slots=True)
class Tools:
    """`tools` is None where none were given: then any name is a call, and arguments are untyped."""

    tools: dict[str, Tool] | None
    loose: bool = False
    """Arguments without a schema that are written as bare text are JSON where they can be."""

    def knows(self, name: str) -> bool:
        return self.tools is None or name in self.tools

    def parameters(self, name: str) -> Any:
        """The schema of this tool's arguments, or None."""
        tool = self.tools.get(name) if self.tools is not None else None
        return tool.parameters if tool is not None else None


def _field(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def read_tools(tools: Any, untyped: str = "string") -> Tools:
    """From OpenAI tools: dicts or objects, `{"type": "function", "function": {...}}` or the inner form alone. `untyped`: see
    `Format.parser`."""
    if untyped not in UNTYPED:
        raise InputError(f"untyped is one of {', '.join(UNTYPED)}, not {quoted(untyped)}", code="untyped_invalid")
    if tools is None:
        return Tools(None, untyped == "json")
    if isinstance(tools, dict) or not ITERABLE.fits(tools):
        raise InputError(f"tools must be a list, not {type(tools).__name__}", code="tools_invalid")
    found: dict[str, Tool] = {}
    for position, entry in enumerate(tools):
        function = _field(entry, "function")
        function = entry if function is None else function
        name, pointer = _field(function, "name"), f"/tools/{position}/function/name"
        if not isinstance(name, str) or not name:
            raise InputError("a tool has no name", code="tools_invalid", pointer=pointer)
        if name in found:
            raise InputError(f"two tools are named {quoted(name)}", code="tools_invalid", pointer=pointer)
        parameters = _field(function, "parameters")
        if parameters is not None and not isinstance(parameters, (dict, bool)):
            dump = getattr(parameters, "model_dump", None)
            if dump is None:
                raise InputError(
                    f"parameters must be a JSON Schema, not {type(parameters).__name__}",
                    code="tools_invalid",
                    pointer=f"/tools/{position}/function/parameters",
                )
            parameters = dump(exclude_none=True, by_alias=True)
        found[name] = Tool(name, parameters, _field(function, "strict") is True)
    return Tools(found, untyped == "json")


@dataclass(frozen=True, slots=True)
class Choice:
    """`tool_choice`, read: `mode` is none, auto, required or named; `name` is the tool's for named."""

    mode: str
    name: str | None = None


def read_choice(choice: Any, tools: Tools) -> Choice:
    """From "none", "auto", "required", None (auto), or `{"type": "function", "function": {"name": ...}}`."""
    if choice is None or (isinstance(choice, str) and choice in ("auto", "none", "required")):
        return Choice(choice or "auto")
    name = choice if isinstance(choice, str) else _field(_field(choice, "function"), "name") or _field(choice, "name")
    hint = 'Use "none", "auto", "required" or {"type": "function", "function": {"name": ...}}'
    if not isinstance(name, str) or not name:
        raise InputError("tool_choice is not understood", code="tool_choice_invalid", pointer="/tool_choice", hint=hint)
    if not tools.knows(name):
        raise InputError(
            f"tool_choice names {quoted(name)}, which is not among the tools",
            code="tool_choice_unknown",
            pointer="/tool_choice/function/name",
        )
    return Choice("named", name)
