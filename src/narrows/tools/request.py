"""The tools of a request: their names, and what their schemas say about the arguments.

Parsers and the grammars of bare text both ask `Tool.place` about a schema, so they agree. The JSON formats' grammars
read all of `Tool.parameters`. A schema is read when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from narrows.arguments import ITERABLE, quoted
from narrows.errors import InputError
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.value_types import LOOSE_NOWHERE, NOWHERE, Place

UNTYPED = ("string", "json")
"""How an argument without a schema may be read, in formats that write arguments as bare text."""
INPUT = "input_grammar"
"""The field of a tool for `Tool.input`, a list of the two. Not for users: the server sets it, and refuses it in
requests."""

_SCHEMA_ELSEWHERE = ("input_schema", "inputSchema", "parameter", "params", "arguments", "args", "schema")
"""Where the Messages API of Anthropic, MCP and slips of the pen have what OpenAI's tools have as `parameters`."""
_CHOSEN = "/tool_choice/function/name"


@dataclass(slots=True)
class Tool:
    name: str
    parameters: Any
    """JSON Schema of the arguments (a dict or a boolean), unchanged. None where the tool declares none. Its types may
    have names from other languages."""
    strict: bool = False
    """The arguments must follow the schema exactly (OpenAI's `strict`)."""
    nowhere: Place = NOWHERE
    """The place of an argument that the schema does not mention."""
    limits: Limits = DEFAULT_LIMITS
    """Bounds for reading the schema."""
    input: tuple[str, str] | None = None
    """The language and the source of a grammar that the argument `input` is held to, a string and the only argument.
    OpenAI's custom tools have one."""
    _place: Place | None = None

    @property
    def place(self) -> Place:
        """The schema's place of the arguments, an object. Computed when first asked for: not every format needs it, and
        few tools are called."""
        if self._place is None:
            if self.parameters is None:
                self._place = self.nowhere
            else:
                # The front end for schemas. Few parsers need it, so it is imported here.
                from narrows.grammar.json_schema.view import place_of

                self._place = place_of(self.parameters, self.limits, self.nowhere)
        return self._place


@dataclass(frozen=True, slots=True)
class Tools:
    """`tools` is None where no tools were given. Then any name is a call, and arguments are untyped."""

    tools: dict[str, Tool] | None
    nowhere: Place = NOWHERE
    """The place of an argument that no schema mentions."""

    def knows(self, name: str) -> bool:
        return self.tools is None or name in self.tools

    def place(self, name: str) -> Place:
        """The schema's place of this tool's arguments."""
        tool = self.tools.get(name) if self.tools is not None else None
        return tool.place if tool is not None else self.nowhere


def _fields(value: Any) -> Callable[[str], Any]:
    """What reads the fields of a dict or an object; None for one that is not there."""
    return value.get if isinstance(value, dict) else lambda name: getattr(value, name, None)


def read_tools(tools: Any, untyped: str = "string", limits: Limits = DEFAULT_LIMITS) -> Tools:
    """Reads OpenAI's tools: dicts or objects, as `{"type": "function", "function": {...}}` or the inner form alone.
    Also Python functions, with their type hints (functions.py). Raises `InputError`. `untyped`: see `Format.parser`.
    `limits` bound the later reading of each schema."""
    if untyped not in UNTYPED:
        raise InputError(f"untyped is one of {', '.join(UNTYPED)}, not {quoted(untyped)}", code="untyped_invalid")
    nowhere = LOOSE_NOWHERE if untyped == "json" else NOWHERE
    if tools is None:
        return Tools(None, nowhere)
    if isinstance(tools, dict) or not ITERABLE.fits(tools):
        raise InputError(f"tools must be a list, not {type(tools).__name__}", code="tools_invalid")
    table: dict[str, Tool] = {}
    for position, entry in enumerate(tools):
        if isinstance(entry, FunctionType | MethodType):
            entry = _of_function(entry)
        outer = _fields(entry)
        function = outer("function")
        field = outer if function is None else _fields(function)
        name = field("name")
        if not isinstance(name, str) or not name:
            raise InputError("a tool has no name", code="tools_invalid", pointer=f"/tools/{position}/function/name")
        if name in table:
            raise InputError(
                f"two tools are named {quoted(name)}",
                code="tool_name_duplicate",
                pointer=f"/tools/{position}/function/name",
            )
        parameters = field("parameters")
        if parameters is None:
            _check_no_schema_elsewhere(field, f"/tools/{position}/" + ("" if function is None else "function/"))
        if parameters is not None and not isinstance(parameters, (dict, bool)):
            dump = getattr(parameters, "model_dump", None)
            if dump is None:
                raise InputError(
                    f"parameters must be a JSON Schema, not {type(parameters).__name__}",
                    code="tools_invalid",
                    pointer=f"/tools/{position}/function/parameters",
                )
            parameters = dump(exclude_none=True, by_alias=True)
        given = field(INPUT)
        text = (str(given[0]), str(given[1])) if isinstance(given, (list, tuple)) and len(given) == 2 else None
        table[name] = Tool(name, parameters, field("strict") is True, nowhere, limits, text)
    return Tools(table, nowhere)


def _check_no_schema_elsewhere(field: Callable[[str], Any], pointer: str) -> None:
    """Raises where the schema of a tool without `parameters` stands under the name that another API has for it. Without
    this, the tool would take no arguments."""
    for name in _SCHEMA_ELSEWHERE:
        if isinstance(field(name), dict):
            raise InputError(
                f"the schema of a tool is its `parameters`; here it is in `{name}`",
                code="tools_invalid",
                pointer=pointer + name,
                hint=f'Write {{"type": "function", "function": {{"name": ..., "parameters": tool["{name}"]}}}}',
            )


def _of_function(function: Callable[..., Any]) -> dict[str, Any]:
    from narrows.tools.functions import tool_of  # needs Pydantic

    return tool_of(function)


@dataclass(frozen=True, slots=True)
class Choice:
    """A `tool_choice`. `mode` is none, auto, required or named. `name` is the tool's if `mode` is named."""

    mode: str
    name: str | None = None


def read_choice(choice: Any, tools: Tools) -> Choice:
    """Reads "none", "auto", "required", None (auto), a tool's name, or `{"type": "function", "function": {"name":
    ...}}`. Raises `InputError` for anything else, and for a name that is not among the tools."""
    if choice is None or (isinstance(choice, str) and choice in ("auto", "none", "required")):
        return Choice(choice or "auto")
    name = (
        choice if isinstance(choice, str) else _fields(_fields(choice)("function"))("name") or _fields(choice)("name")
    )
    hint = 'Use "none", "auto", "required" or {"type": "function", "function": {"name": ...}}'
    if isinstance(choice, str) and not tools.knows(choice):
        raise InputError(f"no tool is named {quoted(choice)}", code="tool_unknown", pointer=_CHOSEN, hint=hint)
    if not isinstance(name, str) or not name:
        raise InputError("tool_choice is not understood", code="tool_choice_invalid", pointer="/tool_choice", hint=hint)
    check_known(name, tools, _CHOSEN)
    return Choice("named", name)


def check_known(name: str, tools: Tools, pointer: str) -> None:
    """Raises where no tool has the name that stands at `pointer`."""
    if not tools.knows(name):
        raise InputError(f"no tool is named {quoted(name)}", code="tool_unknown", pointer=pointer)
