"""A message to the tool, whose head holds the name and whose body is the arguments: `<|channel|>commentary to=N<|message|>{...}<|call|>`.

Heads are read as `[head]` of the reasoning style says (`ReasoningStyle.head`): the recipient before or behind the channel, on any channel, with or
without a word for the notation. A message to anybody but the people whom the style names is a call. The grammar writes the
spelling that the keys give.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.formats.families.base import Build, Entry, Shape
from narrows.formats.families.json_arguments import JsonArgumentsShape
from narrows.grammar import ir
from narrows.stream.names import is_name
from narrows.stream.regions.json_arguments import JsonArguments
from narrows.stream.regions.message_head import NOT_IN_RECIPIENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.rule_writer import RuleWriter
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.message_head import Parts
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonMessagesShape(Shape):
    """Keys of a `[[call]]` table of family `json_messages`."""

    open: str
    """What is written before the name."""
    arguments_open: str
    """What is written between the name and the arguments."""
    close: str
    close_also: tuple[str, ...] = ()
    needs_head = True

    def _written(self) -> JsonArgumentsShape:
        """A call as it is written."""
        keys = {field.name: getattr(self, field.name) for field in fields(JsonMessagesShape)}
        return JsonArgumentsShape(**keys)

    def markers(self) -> tuple[str, ...]:
        return self._written().markers()

    def markers_after_values(self) -> tuple[str, ...]:
        """None: JSON shows where it ends."""
        return ()

    def entries(self, build: Build) -> list[Entry]:
        """The ways into any head: those of text, too, where the style reads them."""
        assert build.head is not None
        closers = build.closing((c.strip() for c in (self.close, *self.close_also)), build.after)
        arguments = JsonArguments(build.tail_until(*closers), build.raw(*closers), objects_only=True)
        namespace = build.head.namespace

        def call(machine: Machine, parts: Parts) -> Region | None:
            assert parts.recipient is not None
            begin, end = parts.recipient
            whole = machine.clean(machine.text[begin:end])
            name = whole.removeprefix(namespace)
            offered = machine.tools.tools is not None and machine.tools.knows(whole)
            if not name:
                return None
            machine.take(begin)
            start = machine.offset
            machine.take(end)
            span = (start, machine.offset)
            machine.take(parts.end)
            machine.start_call(whole if offered and not machine.tools.knows(name) else name, span)
            return arguments.enter(machine)

        return build.heads(call)

    def call(self, lowering: RuleWriter, tool: Tool | None) -> ir.Node:
        if tool is not None and not is_name(tool.name, False, NOT_IN_RECIPIENTS):
            raise UnsupportedError(
                f"the name {tool.name!r} cannot be written in this format", code="tool_name_unsupported"
            )
        return self._written().call(lowering, tool)

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        """Each message but the first has its start."""
        return lowering.several(call, lowering.seq(lowering.marker(between), call)) if many else call

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        return self._written().render(calls, between, ids)
