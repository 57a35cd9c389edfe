"""Parameters as tags around bare text, name and key as attributes.

An example is `<invoke name="N"><parameter name="K">V</parameter></invoke>`. A parameter's tag may say of
what type the value is, and that decides. If it does not say, the schema decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows._core import Run
from narrows.events import Content
from narrows.formats.families.base import name_unsupported
from narrows.formats.families.build import give_back
from narrows.formats.families.xml_call import JSON_TYPES, XmlShape, json_type
from narrows.formats.families.xml_regions import XmlRegions
from narrows.stream.json_scan import WHITESPACE
from narrows.stream.markers import Exit
from narrows.stream.names import UNUSUAL, is_name
from narrows.stream.regions.attributes import BAD, CLOSED, Attributes, AttributeSpans, scan
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.json_arguments import JsonArguments
from narrows.stream.regions.text import Text
from narrows.stream.regions.values import to_json
from narrows.value_types import JSON, UNTYPED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import Entry
    from narrows.formats.parameters import Wire
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.xml_value import Follows
    from narrows.tools.request import Tool, Tools
    from narrows.value_types import ValueType


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlAttributesShape(XmlShape):
    """Keys of a `[[call]]` table of family `xml_attributes`."""

    call_open: str = ""
    """A call's tag up to its attributes: `<invoke`. Without it, `open` is the call's tag."""
    name_attribute: str = "name"
    """The attribute that holds the name."""
    index_attribute: str = ""
    """An attribute that counts the calls, from 1."""
    key_attribute: str = "name"
    """The attribute of a parameter that holds the key."""
    type_attribute: str = ""
    """The attribute of a parameter that says of what type the value is."""
    string_type: str = "string"
    """What the type attribute holds for strings."""
    json_type: str = ""
    """What the type attribute holds for everything else. Without it, JSON's names of types, and "number" for integers,
    too."""
    tag_end: str = ">"
    """The end of a call's tag and of a parameter's tag."""
    json_open: str = ""
    """A tag before all arguments as one JSON object, in place of the parameters. It is read, but not written."""
    json_close: str = ""
    """The tag after that object."""
    escaped: bool = False
    """In attributes, `&` and `"` are written `&amp;` and `&quot;`."""

    def has_inner_tag(self) -> bool:
        return bool(self.call_open)

    def markers(self) -> tuple[str, ...]:
        outer = (self.open, *self.open_also, self.close, *self.close_also, self.wrap_open, self.wrap_close)
        tags = (*outer, self.call_open, *self.call_ends(), self.parameter_open, self.parameter_close)
        return tuple(m for m in tags if m)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super(XmlAttributesShape, self).problems()
        if bool(self.json_open) != bool(self.json_close):
            yield "json_close", "goes with json_open"
        if self.json_type and not self.type_attribute:
            yield "json_type", "goes with type_attribute"

    # Reading.

    def entries(self, build: Build) -> list[Entry]:
        regions = XmlRegions(self, build)
        end = build.encode(self.tag_end)
        reader = _Reader(self, regions, self._first(build, regions))
        call = Attributes(end, reader.call, give_back)
        key = Attributes(end, reader.key, regions.in_key)
        entries = regions.link(call, key, self.parameter_open, self._is_key(end))
        typed = f' {self.type_attribute}="{self.string_type}"' if self.type_attribute else ""
        close = f'"{typed}{self.tag_end}'
        run = Run.of_name(UNUSUAL + '"&', (build.encode(close),), f' {self.key_attribute}="')
        regions.follow(key, run, self.parameter_open, close, declared=UNTYPED if typed else None)
        return entries

    def tags_of_parameters(self) -> tuple[str, ...]:
        return tuple(self.parameter_open + space for space in WHITESPACE)

    def tags_of_calls(self) -> tuple[str, ...]:
        begins = [self.call_open or self.open, *(() if self.call_open else self.open_also)]
        around = (self.open, *self.open_also, self.wrap_open) if self.call_open else ()
        return *around, *(tag + space for tag in begins for space in WHITESPACE)

    def _is_key(self, end: str) -> Follows:
        """Whether attributes stand in a text, the key's among them, and the tag's end."""

        def follows(text: str, at: int, final: bool, longest: int) -> bool | None:
            attributes: AttributeSpans = {}
            stop = scan(text[: at + longest + len(end)], at, end, attributes)
            if stop == BAD or (stop < 0 and len(text) - at > longest) or stop - at > longest:
                return False
            return self.key_attribute in attributes if stop >= 0 else True if final else None

        return follows

    def _first(self, build: Build, regions: XmlRegions) -> Region:
        """Reads on after a call's tag."""
        if not self.json_open:
            return regions.between
        tail = Text(Content, "closing", fresh=True)
        ends = [Exit(build.encode(self.json_close), tail), *regions.after_arguments()]
        build.tails.append((tail, (*ends, *regions.closers())))
        json_open = Exit(build.encode(self.json_open), JsonArguments(tail, regions.raw))
        first = Expect(regions.between.enter)
        first.link([json_open])
        return first

    def unescape(self, text: str) -> str:
        return text.replace("&quot;", '"').replace("&amp;", "&") if self.escaped and "&" in text else text

    def resolve(self, tools: Tools, name: str) -> str:
        """The tool that a name means."""
        return name

    # The grammar.

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        spelled = self._spell(tool.name) if tool is not None else None
        if tool is not None and (spelled is None or not is_name(tool.name, False, "")):
            raise name_unsupported(tool.name)
        index = [writer.text(f' {self.index_attribute}="'), writer.number(), writer.text('"')]
        tag = writer.seq(
            writer.marker(self.call_open),
            writer.text(f' {self.name_attribute}="'),
            writer.text(spelled) if spelled is not None else writer.word(),
            writer.text('"'),
            *(index if self.index_attribute else ()),
            self._tag_end(writer),
            self.layout(writer),
        )
        return self.call_node(writer, tag, writer.parameters(self.form, self._wire(writer), tool))

    def _tag_end(self, writer: RuleWriter) -> ir.Node:
        return writer.marker(self.tag_end) if len(self.tag_end) > 1 else writer.text(self.tag_end)

    def _wire(self, writer: RuleWriter) -> Wire:
        def key(name: ir.Node, declared: str) -> ir.Node:
            return writer.seq(
                writer.marker(self.parameter_open),
                writer.text(f' {self.key_attribute}="'),
                name,
                writer.text(f'" {self.type_attribute}="{declared}"' if declared else '"'),
                self._tag_end(writer),
            )

        types = {name: self._declared(name) for name in JSON_TYPES} if self.type_attribute else None
        return self.wire(writer, key=key, spell=self._spell, types=types)

    def _declared(self, json_type: str) -> str:
        """What the type attribute holds for a value of this JSON type."""
        if json_type == "string":
            return self.string_type
        return self.json_type or ("number" if json_type == "integer" else json_type)

    def _spell(self, name: str) -> str | None:
        """A name or key within quotes."""
        if self.escaped:
            name = name.replace("&", "&amp;").replace('"', "&quot;")
        fits = name and name.strip() == name and '"' not in name and is_name(name, True, "")
        return name if fits else None

    # The text.

    def call_tag(self, name: str, index: int) -> str:
        counted = f' {self.index_attribute}="{index + 1}"' if self.index_attribute else ""
        return (
            f'{self.call_open} {self.name_attribute}="{self._spell(name) or name}"{counted}{self.tag_end}{self.inside}'
        )

    def key_tag(self, key: str, value: Any) -> str:
        declared = f' {self.type_attribute}="{self._declared(json_type(value))}"' if self.type_attribute else ""
        return f'{self.parameter_open} {self.key_attribute}="{self._spell(key) or key}"{declared}{self.tag_end}'


class _Reader:
    """Reads on after the attributes of a call's tag or of a parameter's tag."""

    def __init__(self, shape: XmlAttributesShape, regions: XmlRegions, first: Region) -> None:
        self._shape = shape
        self._regions = regions
        self._first = first

    def call(self, machine: Machine, attributes: AttributeSpans, end: int) -> Region | None:
        name = self._name(machine, attributes, self._shape.name_attribute)
        if name is None or not is_name(name, False, ""):
            return None
        name = self._shape.resolve(machine.tools, name)
        machine.start_call(name, self._take(machine, attributes[self._shape.name_attribute]))
        machine.take(end)
        return self._regions.call_close.region.enter(machine) if CLOSED in attributes else self._first.enter(machine)

    def key(self, machine: Machine, attributes: AttributeSpans, end: int) -> Region | None:
        shape, regions = self._shape, self._regions
        name = self._name(machine, attributes, shape.key_attribute)
        if name is None or not is_name(name, True, ""):
            return None
        declared: ValueType | None = None
        if shape.type_attribute in attributes:
            begin, stop = attributes[shape.type_attribute]
            declared = UNTYPED if machine.text[begin:stop] == shape.string_type else JSON
        regions.parameters.key(machine, name, self._take(machine, attributes[shape.key_attribute]), declared)
        machine.take(end)
        if CLOSED not in attributes:
            return regions.value.enter(machine)
        span = (machine.offset, machine.offset)
        regions.parameters.write_value(machine, to_json("", regions.parameters.kind, 1), span)
        return regions.between.enter(machine)

    def _name(self, machine: Machine, attributes: AttributeSpans, attribute: str) -> str | None:
        if attribute not in attributes:
            return None
        begin, end = attributes[attribute]
        return self._shape.unescape(machine.clean(machine.text[begin:end])).strip() or None

    def _take(self, machine: Machine, place: tuple[int, int]) -> tuple[int, int]:
        """The span of an attribute's value. What stands before it is taken, too."""
        machine.take(place[0])
        start = machine.offset
        machine.take(place[1])
        return start, machine.offset
