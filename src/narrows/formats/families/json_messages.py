"""A message to the tool, with the name in its head and the arguments in its body.

An example is `<|channel|>commentary to=N<|message|>{...}<|call|>`. The `[head]` table of the reasoning style says how
heads are read. The recipient stands before or after the channel, on any channel, with or without a word for the
notation. A message is a call unless its recipient is one of the `people` that the style names. The keys give the
spelling that the grammar writes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from narrows.formats.families.base import Shape, name_unsupported
from narrows.formats.families.json_arguments import JsonArgumentsShape
from narrows.formats.families.openers import head_openers
from narrows.grammar import ir
from narrows.stream.names import is_name
from narrows.stream.regions.json_arguments import JsonArguments
from narrows.stream.regions.message_head import NOT_IN_RECIPIENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry, Opener
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

    def openers(self, context: CallContext) -> list[Opener]:
        """What begins any head. A head of text is read, too, if the style says so."""
        assert context.head is not None
        return head_openers(context.head)

    def entries(self, build: Build) -> list[Entry]:
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

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        if tool is not None and not is_name(tool.name, False, NOT_IN_RECIPIENTS):
            raise name_unsupported(tool.name)
        return self._written().call(writer, tool)

    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        """Each message but the first has its start."""
        return writer.several(call, writer.seq(writer.marker(between), call)) if many else call

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        return self._written().render(calls, between, ids)
