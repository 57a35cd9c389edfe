"""What a person has written in the first pane, as a definition that the server compiles (compiling/definition.py).

The source is always text, as it stands in the pane: so errors have places in it. Languages whose sources are values,
and tools, are JSON texts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from narrows import formats, json_pieces
from narrows.arguments import quoted
from narrows.errors import InputError, NarrowsError
from narrows.grammar.languages import front_end
from narrows.grammar.languages.json_schema import JSON_SCHEMA
from narrows.server.fields import Model
from narrows.tools.request import read_tools
from narrows.tools.turn import TurnOptions

if TYPE_CHECKING:
    from narrows.formats import Format
    from narrows.server.service import Service

TOOLS = "tools"
"""In place of a language: the calls of these tools, in a wire format."""
SOURCE = "/definition/source"
"""Where the source stands in a request body."""
_PLAIN = frozenset(("json", "regex", "choice", "substring"))
"""Languages that name no tokens. Where a text has the name of a control token, it is text."""


class Strict(Model):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class Definition(Strict):
    """The first pane."""

    language: str
    """A name of narrows.grammar.languages, or "tools"."""
    source: str
    options: dict[str, str] = Field(default_factory=dict)
    """Of the language."""
    format: str | None = None
    """The wire format of the calls. None: the server's."""
    tool_choice: str = "auto"
    """ "auto", "required", "none", or the name of a tool."""
    parallel: bool = True
    """Whether several calls may follow each other."""


@dataclass(frozen=True, slots=True)
class Read:
    """A definition that has been read, but not compiled."""

    definition: list[Any]
    source: Any
    """Of the language; the list of tools."""
    language: str
    options: dict[str, str]
    turn: TurnOptions | None
    """For tools."""
    format: Format | None

    @property
    def names_tokens(self) -> bool:
        """Whether a control token's name in a text stands for that token."""
        return self.language not in _PLAIN

    @property
    def has_rules(self) -> bool:
        """Whether an explanation can name rules of a text."""
        return self.language not in _PLAIN and self.turn is None

    def tool(self, name: str) -> tuple[int, Any] | None:
        """The position and the parameters' schema of a tool."""
        for position, tool in enumerate(self.source if self.turn is not None else ()):
            function = tool["function"]
            if function["name"] == name:
                return position, function.get("parameters")
        return None


def read(asked: Definition, service: Service, prompt: str = "") -> Read:
    """Reads a definition. `prompt`: the end of the rendered prompt, for tools. Raises `InputError` and `LimitError`,
    with pointers into the request body."""
    if asked.language == TOOLS:
        with placed_at(SOURCE):
            return _read_tools(asked, service, prompt)
    front = front_end(asked.language)
    front.check_options(asked.options)
    usual = {"additional": "standard", **asked.options, "on_unsupported": "ignore"}
    options = front.of_those(usual)
    text = asked.source.removesuffix("\n") if front.one_line else asked.source
    source: Any = text
    if front.written_as_json:
        with placed_at(SOURCE):
            source = json_pieces.parse(text.encode(), service.limits)
        if not front.takes.fits(source):
            raise InputError(f"the source must be {front.takes.says}", code="wrong_type", pointer=SOURCE)
    return Read(["text", front.name, source, options], source, front.name, options, None, None)


def _read_tools(asked: Definition, service: Service, prompt: str) -> Read:
    tools = json_pieces.parse(asked.source.encode(), service.limits)
    if not isinstance(tools, list) or not tools or not all(isinstance(tool, dict) for tool in tools):
        raise InputError(
            "tools are a list of objects", code="invalid_type", hint='[{"type": "function", "function": …}]'
        )
    if len(tools) > service.limits.tools:
        raise InputError(f"at most {service.limits.tools} tools", code="invalid_value")
    tools = [tool if "function" in tool else {"type": "function", "function": tool} for tool in tools]
    read_tools(tools, limits=service.limits)
    if asked.format is not None and asked.format not in formats.names():
        raise InputError(f"there is no format {quoted(asked.format)}", code="format_unknown")
    fmt = formats.get(asked.format) if asked.format is not None else service.format
    choice: Any = asked.tool_choice
    if choice not in ("auto", "required", "none"):
        choice = {"type": "function", "function": {"name": choice}}
    turn = TurnOptions(
        tools=tools,
        tool_choice=choice,
        parallel=asked.parallel,
        reasoning=service.reasoning if fmt is service.format else "auto",
        prompt=prompt,
    )
    options = {"additional": "declared", **asked.options}
    rest = [turn.arguments(), None, options["additional"], "ignore", None]
    definition = ["chat", *rest] if fmt is service.format else ["chat_in", fmt.name, *rest]
    return Read(definition, tools, TOOLS, options, turn, fmt)


def is_schema(one: Read) -> bool:
    return one.language == JSON_SCHEMA.name


@contextmanager
def placed_at(place: str) -> Iterator[None]:
    """Puts `place` before the pointers of errors."""
    try:
        yield
    except NarrowsError as error:
        raise located(error, place) from None


def located(error: NarrowsError, place: str) -> NarrowsError:
    """A copy of an error about the source, with its place in the request body. Pointers to tools begin with /tools,
    which the pane's list is."""
    found = copy.copy(error)
    pointer = error.pointer or ""
    found.pointer = place + pointer.removeprefix("/tools")
    return found
