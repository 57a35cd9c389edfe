"""Arguments as nested elements behind a prefix: `]<]minimax[>[<invoke name="N">]<]minimax[>[<K>V]<]minimax[>[</K>]<]minimax[>[</invoke>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.events import Content
from narrows.formats.families.base import Build, Entry, Shape
from narrows.formats.families.json_arguments import give_back
from narrows.formats.spelling import arguments_of, value_text
from narrows.stream.markers import Exit
from narrows.stream.names import is_name
from narrows.stream.regions.attributes import CLOSED, Attributes, Found
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.text import Text
from narrows.stream.regions.xml_nested import Elements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlNestedShape(Shape):
    """Keys of a `[[call]]` table of family `xml_nested`."""

    prefix: str
    """What stands before every tag."""
    open: str
    """The tag around all calls."""
    close: str
    call_open: str
    """A call's tag up to its attributes."""
    name_attribute: str = "name"
    call_close: str
    inside: str = ""
    """Layout behind `open` and behind each call."""

    def markers(self) -> tuple[str, ...]:
        return self.prefix, self.open, self.close, self.call_open, self.call_close

    # Reading.

    def entries(self, build: Build) -> list[Entry]:
        encode = build.encode
        tail = Text(Content, "closing", fresh=True)
        close = Exit(encode(self.close), build.after)
        call_close = Exit(encode(self.call_close), tail)
        raw = build.raw(call_close, close)
        elements = Elements(encode(self.prefix), [call_close, close], raw)

        def begin(machine: Machine, found: Found, end: int) -> Region | None:
            if self.name_attribute not in found:
                return None
            first, last = found[self.name_attribute]
            name = machine.clean(machine.text[first:last])
            if not name or not is_name(name, False, ""):
                return None
            machine.take(first)
            start = machine.offset
            machine.take(last)
            machine.start_call(name, (start, machine.offset))
            machine.take(end)
            if CLOSED not in found:
                return elements.enter(machine)
            machine.write("{}", machine.offset)
            machine.end_call()
            return tail.enter(machine)

        header = Attributes(">", begin, give_back)
        call_open = encode(self.call_open)
        more = [Exit(call_open, header, begins=True, inside=True)] if build.parallel else []
        build.tails.append((tail, (close, *more)))
        opened = Expect(give_back)
        opened.link([Exit(call_open, header)])
        return [Entry(self.open, opened)]

    # The grammar.

    def call(self, lowering: RuleWriter, tool: Tool | None) -> ir.Node:
        from narrows.formats.nested import NestedRules  # what a parser alone does not need
        from narrows.formats.parameters import Wire, containing

        if tool is not None and (not is_name(tool.name, False, "") or '"' in tool.name):
            raise UnsupportedError(
                f"the name {tool.name!r} cannot be written in this format", code="tool_name_unsupported"
            )
        prefix = lowering.marker(self.prefix)

        def tag(before: str) -> Any:
            def made(key: ir.Node, declared: str = "") -> ir.Node:
                return lowering.seq(prefix, lowering.text(before), key, lowering.text(">"))

            return made

        held = containing((self.prefix,))
        wire = Wire(key=tag("<"), close=tag("</"), after_value=lowering.text(""), banned=held, spell=_spell)
        return lowering.seq(
            lowering.marker(self.call_open),
            lowering.text(f' {self.name_attribute}="'),
            lowering.text(tool.name) if tool is not None else lowering.word(),
            lowering.text('">'),
            lowering.parameters(self.form, wire, tool, NestedRules),
            lowering.marker(self.call_close),
            lowering.text(self.inside),
        )

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        calls = lowering.repeated(call, many, "")
        inside = lowering.text(self.inside)
        return lowering.seq(lowering.marker(self.open), inside, calls, lowering.marker(self.close))

    # The text.

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        made = (
            f'{self.call_open} {self.name_attribute}="{name}">{self._elements(arguments_of(arguments))}'
            f"{self.call_close}{self.inside}"
            for name, arguments, _ in calls
        )
        return self.open + self.inside + "".join(made) + self.close

    def _elements(self, value: Any) -> str:
        """A value as elements, or as text. Members that are None are left out, as the template does."""
        parts: list[str] = []
        todo: list[Any] = [value]
        while todo:
            value = todo.pop()
            if isinstance(value, _Tag):
                parts.append(value)
            elif isinstance(value, (dict, list, tuple)):
                members = [("item", item) for item in value] if not isinstance(value, dict) else list(value.items())
                for key, item in reversed(members):
                    if item is not None:
                        todo += [_Tag(f"{self.prefix}</{key}>"), item, _Tag(f"{self.prefix}<{key}>")]
            else:
                parts.append(value_text(value))
        return "".join(parts)


class _Tag(str):
    """A piece of markup among values."""

    __slots__ = ()


def _spell(key: str) -> str | None:
    fits = key.strip() == key and key.isprintable() and key[:1] not in ("", "/") and not any(c in "<>" for c in key)
    return key if fits else None
