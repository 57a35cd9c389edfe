"""Parameters as tags around bare text, name and key as text: `<function=N><parameter=K>V</parameter></function>`.

Key and value may also have tags of their own: `<tool_call>N<arg_key>K</arg_key><arg_value>V</arg_value></tool_call>`.
The schema says of what type a value is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.base import name_unsupported
from narrows.formats.families.build import give_back, start_call
from narrows.formats.families.xml_call import JSON_TYPES, XmlShape, json_type
from narrows.formats.families.xml_regions import XmlRegions
from narrows.formats.spelling import json_text
from narrows.stream.markers import Ahead, Exit, Markers
from narrows.stream.names import is_name
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.json_arguments import JsonArguments
from narrows.stream.regions.json_call import CallKeys, CallObject
from narrows.stream.regions.name import Name
from narrows.value_types import JSON, UNTYPED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import Entry
    from narrows.formats.parameters import Wire
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.xml_value import Follows
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlParametersShape(XmlShape):
    """Keys of a `[[call]]` table of family `xml_parameters`."""

    call_open: str = ""
    """What stands before the name. Without it, the name follows `open` at once."""
    name_end: str = ""
    """What stands after the name. Without it, the name ends at the first parameter or at `call_close`."""
    name_end_also: tuple[str, ...] = ()
    """Other spellings of `name_end` that are read, but not written."""
    name_end_may_be_missing: bool = False
    """The first parameter and `call_close` also end a name."""
    key_end: str
    """What stands after a key."""
    value_open: str = ""
    """A tag before the value."""
    inside_parameter: str = ""
    """Layout between `key_end` and `value_open`."""
    type_open: str = ""
    """A tag before the value's type, which stands before `value_open`: `string`, or another type of JSON. The type and
    its tags may be missing."""
    type_close: str = ""
    """The tag after the type."""
    json_body: bool = False
    """In place of the name and the parameters, a JSON object `{"name": N, "arguments": O}` is read. So is a name and
    `O`."""
    writes: str = "tags"
    """What the grammar and `render` write: "tags", "types" (tags with types), or "json"."""

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super(XmlParametersShape, self).problems()
        if bool(self.type_open) != bool(self.type_close) or (self.type_open and not self.value_open):
            yield "type_open", "goes with type_close and value_open"
        if self.writes not in ("tags", "types", "json"):
            yield "writes", 'one of "tags", "types", "json"'
        if (self.writes == "types" and not self.type_open) or (self.writes == "json" and not self.json_body):
            yield "writes", "the parser does not read that: set type_open or json_body"

    def markers(self) -> tuple[str, ...]:
        outer = (
            self.open,
            *self.open_also,
            self.close,
            *self.close_also,
            self.wrap_open,
            self.wrap_close,
            self.call_open,
            *self.call_ends(),
        )
        ends = (self.name_end, *self.name_end_also, self.key_end, self.type_open, self.type_close, self.value_open)
        tags = (*outer, self.parameter_open, self.parameter_close, *(end for end in ends if end[:1] == "<"))
        return tuple(m for m in tags if m)

    def has_inner_tag(self) -> bool:
        return bool(self.call_open)

    # Reading.

    def entries(self, build: Build) -> list[Entry]:
        regions = XmlRegions(self, build)
        key = Name(regions.parameters.key, regions.in_key, spaced=True, forbidden=_NOT_IN_NAMES)
        after_key = self._after_key(build, regions, key)
        key.link([Exit(build.encode(self.key_end), after_key)])

        name = Name(start_call, give_back, forbidden=_NOT_IN_NAMES)
        spellings = (self.name_end, *self.name_end_also)
        ends = [Exit(build.encode(end), regions.between) for end in spellings if end]
        if not ends or self.name_end_may_be_missing:
            following = (self.parameter_open, *self.call_ends())
            ends += [Exit(build.encode(end), regions.between, keep=True) for end in following]
        begin: Region = name
        if self.json_body:
            tail = build.tail_until(*regions.after_arguments(), *regions.closers())
            ends.append(Exit("{", JsonArguments(tail, regions.raw), keep=True))
            either = Expect(name.enter)
            either.link([Exit("{", CallObject(_KEYS, tail, regions.raw), keep=True)])
            begin = either
        name.link(ends)
        entries = regions.link(begin, key, self.parameter_open, self._is_key(build))
        tag = after_key if isinstance(after_key, Expect) else None
        regions.follow(key, key.run, self.parameter_open, self.key_end, tag, self.value_open)
        return entries

    def _is_key(self, build: Build) -> Follows:
        """Whether a name stands in a text, and after it its end and the tag before a value."""
        key_end = build.encode(self.key_end)
        search = Markers((Exit(key_end, build.after),)).search
        begins = (
            Ahead(build.encode(tag) for tag in (self.value_open, self.type_open) if tag) if self.value_open else None
        )

        def follows(text: str, at: int, final: bool, longest: int) -> bool | None:
            window = text[at : at + longest + len(self.key_end)]
            end, key_closed = search(window, 0, False)
            name = window[:end].strip()
            if end > longest or not is_name(name, True, _NOT_IN_NAMES):
                return False
            if key_closed is None or not name:
                return final or None if key_closed is None else False
            return begins is None or begins.follows(text, at + end + len(key_end), final, longest)

        return follows

    def _after_key(self, build: Build, regions: XmlRegions, key: Name) -> Region:
        """Reads from a key's end to its value."""
        if not self.value_open:
            return regions.value
        value_open = Exit(build.encode(self.value_open), regions.value)
        before_value = Expect(regions.in_key)
        # Some models write a key without a value, and mean nothing by it.
        exits = [value_open, *regions.ends(key, self.parameter_open)]
        if self.type_open:
            declared = Name(_declare(regions), regions.in_key, forbidden=_NOT_IN_NAMES)
            typed = Expect(regions.in_key)
            typed.link([value_open])
            declared.link([Exit(build.encode(self.type_close), typed)])
            exits.append(Exit(build.encode(self.type_open), declared))
        before_value.link(exits)
        return before_value

    # The grammar.

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        if tool is not None and not is_name(tool.name, False, _NOT_IN_NAMES + self.name_end[:1]):
            raise name_unsupported(tool.name)
        if self.writes == "json":
            name, arguments = writer.quoted_name(tool), writer.arguments(tool)
            before, between, after = (writer.text(text) for text in _JSON)
            call = writer.seq(before, name, between, arguments, after)
            return self.call_node(writer, writer.marker(self.call_open), call)
        tag = writer.seq(
            writer.marker(self.call_open),
            writer.text(tool.name) if tool else writer.word(),
            writer.marker(self.name_end),
            self.layout(writer),
        )
        return self.call_node(writer, tag, writer.parameters(self.form, self._wire(writer), tool))

    def _wire(self, writer: RuleWriter) -> Wire:
        def key(name: ir.Node, declared: str) -> ir.Node:
            return writer.seq(
                writer.marker(self.parameter_open),
                name,
                writer.marker(self.key_end),
                self.layout(writer, self.inside_parameter),
                *(_type_tags(writer, declared) if declared else ()),
                writer.marker(self.value_open),
            )

        def _type_tags(writer: RuleWriter, declared: str) -> tuple[ir.Node, ...]:
            tags = (writer.marker(self.type_open), writer.text(declared), writer.marker(self.type_close))
            return (*tags, self.layout(writer, self.inside_parameter))

        types = {name: name for name in JSON_TYPES} if self.writes == "types" else None
        return self.wire(writer, key=key, spell=_spell, types=types)

    # The text.

    def render_call(self, name: str, arguments: Mapping[str, Any], index: int) -> str:
        if self.writes != "json":
            return super(XmlParametersShape, self).render_call(name, arguments, index)
        before, between, after = _JSON
        return self.call_open + before + json_text(name) + between + json_text(arguments) + after + self.call_close

    def call_tag(self, name: str, index: int) -> str:
        return self.call_open + name + self.name_end + self.inside

    def key_tag(self, key: str, value: Any) -> str:
        before = self.parameter_open + key + self.key_end + self.inside_parameter
        if self.writes == "types":
            before += self.type_open + json_type(value) + self.type_close + self.inside_parameter
        return before + self.value_open


_NOT_IN_NAMES = "<"
_KEYS = CallKeys(frozenset({"name"}), frozenset({"arguments", "parameters"}), frozenset(), frozenset())
_JSON = ('{"name": ', ', "arguments": ', "}")


def _declare(regions: XmlRegions) -> Callable[[Machine, str, tuple[int, int]], None]:
    """Takes a type's name. A name that is no type of JSON says nothing."""

    def declare(machine: Machine, name: str, span: tuple[int, int]) -> None:
        if name in JSON_TYPES:
            regions.parameters.kind = UNTYPED if name == "string" else JSON

    return declare


def _spell(key: str) -> str | None:
    """A key as it stands between its tags; None if it cannot stand there."""
    fits = key and key.strip() == key and not any(c < " " or c in "<>" or "\ud800" <= c <= "\udfff" for c in key)
    return key if fits else None
