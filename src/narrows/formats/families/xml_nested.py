"""Arguments as nested elements, with a prefix before every tag: `]<]minimax[>[<K>V]<]minimax[>[</K>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.events import Content
from narrows.formats.families.base import Shape, name_unsupported
from narrows.formats.families.build import give_back
from narrows.formats.families.openers import Opener
from narrows.formats.spelling import arguments_of, value_text
from narrows.stream.markers import Exit
from narrows.stream.names import is_name
from narrows.stream.regions.attributes import CLOSED, Attributes, AttributeSpans
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.text import Text
from narrows.stream.regions.xml_nested import Elements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry
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
    """The tag before all calls."""
    close: str
    """The tag after all calls."""
    call_open: str
    """A call's tag up to its attributes."""
    name_attribute: str = "name"
    """The attribute that holds the name."""
    call_close: str
    """The tag at the end of a call."""
    inside: str = ""
    """Layout after `open` and after each call."""

    def markers(self) -> tuple[str, ...]:
        return self.prefix, self.open, self.close, self.call_open, self.call_close

    # Reading.

    def openers(self, context: CallContext) -> list[Opener]:
        return [Opener(self.open)]

    def entries(self, build: Build) -> list[Entry]:
        encode = build.encode
        tail = Text(Content, "closing", fresh=True)
        close = Exit(encode(self.close), build.after)
        call_close = Exit(encode(self.call_close), tail)
        raw = build.raw(call_close, close)
        elements = Elements(encode(self.prefix), [call_close, close], raw)

        def begin(machine: Machine, attributes: AttributeSpans, end: int) -> Region | None:
            if self.name_attribute not in attributes:
                return None
            first, last = attributes[self.name_attribute]
            name = machine.clean(machine.text[first:last])
            if not name or not is_name(name, False, ""):
                return None
            machine.take(first)
            start = machine.offset
            machine.take(last)
            machine.start_call(name, (start, machine.offset))
            machine.take(end)
            if CLOSED not in attributes:
                return elements.enter(machine)
            machine.write("{}", machine.offset)
            machine.end_call()
            return tail.enter(machine)

        header = Attributes(">", begin, give_back)
        call_open = encode(self.call_open)
        more = [Exit(call_open, header, begins=True, inside=True)] if build.parallel else []
        build.tails.append((tail, (close, *more)))
        first_call = Expect(give_back)
        first_call.link([Exit(call_open, header)])
        return [opener.to(first_call) for opener in self.openers(build)]

    # The grammar.

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        from narrows.formats.nested import NestedRules  # what a parser alone does not need
        from narrows.formats.parameters import Wire
        from narrows.grammar.free_text import containing

        if tool is not None and (not is_name(tool.name, False, "") or '"' in tool.name):
            raise name_unsupported(tool.name)
        prefix = writer.marker(self.prefix)

        def tag(before: str) -> Any:
            def around(key: ir.Node, declared: str = "") -> ir.Node:
                return writer.seq(prefix, writer.text(before), key, writer.text(">"))

            return around

        held = containing((self.prefix,))
        wire = Wire(key=tag("<"), close=tag("</"), after_value=writer.text(""), banned=held, spell=_spell)
        return writer.seq(
            writer.marker(self.call_open),
            writer.text(f' {self.name_attribute}="'),
            writer.text(tool.name) if tool is not None else writer.word(),
            writer.text('">'),
            writer.parameters(self.form, wire, tool, NestedRules),
            writer.marker(self.call_close),
            writer.text(self.inside),
        )

    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        calls = writer.repeated(call, many, "")
        inside = writer.text(self.inside)
        return writer.seq(writer.marker(self.open), inside, calls, writer.marker(self.close))

    # The text.

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        texts = (
            f'{self.call_open} {self.name_attribute}="{name}">{self._elements(arguments_of(arguments))}'
            f"{self.call_close}{self.inside}"
            for name, arguments, _ in calls
        )
        return self.open + self.inside + "".join(texts) + self.close

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
