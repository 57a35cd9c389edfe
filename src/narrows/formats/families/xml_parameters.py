"""Parameters as tags around bare text, name and key between literals: `<function=N><parameter=K>V</parameter></function>`, or with
tags of their own: `<tool_call>N<arg_key>K</arg_key><arg_value>V</arg_value></tool_call>`. Values are typed by the schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.formats.families.base import Build, Entry
from narrows.formats.families.json_arguments import give_back
from narrows.formats.families.xml_call import JSON_TYPES, Skeleton, XmlShape, json_type, start_call
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
    """Before the name. Without it, the name stands right behind `open`."""
    name_end: str = ""
    """Behind the name. Without it, the name ends at the first parameter or at `call_close`."""
    name_end_also: tuple[str, ...] = ()
    """Other spellings of it that are read, but not written."""
    name_end_may_be_missing: bool = False
    key_end: str
    value_open: str = ""
    """A tag of its own before the value."""
    inside_parameter: str = ""
    """Layout between `key_end` and `value_open`."""
    type_open: str = ""
    """Tags of its own, before the value's, for what the value is: `string`, or another of JSON's types. They may be missing."""
    type_close: str = ""
    json_body: bool = False
    """A call may be a JSON object, `{"name": N, "arguments": O}`, in place of the name and the parameters; or a name and `O`."""
    writes: str = "tags"
    """What the grammar and `render` write of these: "tags", "types" (tags with types), or "json"."""

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

    def entries(self, build: Build) -> list[Entry]:
        regions = self.skeleton(build, self.call_open)
        key = Name(regions.parameters.key, regions.in_key, spaced=True, forbidden=_NOT_IN_NAMES)
        behind_key = self._behind_key(build, regions, key)
        key.link([Exit(build.encode(self.key_end), behind_key)])

        name = Name(start_call, give_back, forbidden=_NOT_IN_NAMES)
        spellings = (self.name_end, *self.name_end_also)
        ends = [Exit(build.encode(end), regions.between) for end in spellings if end]
        if not ends or self.name_end_may_be_missing:
            behind = (self.parameter_open, *self.call_ends())
            ends += [Exit(build.encode(end), regions.between, keep=True) for end in behind]
        begin: Region = name
        if self.json_body:
            tail = build.tail_until(*regions.behind_call(), *regions.closers())
            ends.append(Exit("{", JsonArguments(tail, regions.raw), keep=True))
            either = Expect(name.enter)
            either.link([Exit("{", CallObject(_KEYS, tail, regions.raw), keep=True)])
            begin = either
        name.link(ends)
        entries = regions.link(begin, key, self.parameter_open, self._is_key(build))
        tag = behind_key if isinstance(behind_key, Expect) else None
        regions.follow(key, key.run, self.parameter_open, self.key_end, tag, self.value_open)
        return entries

    def _is_key(self, build: Build) -> Follows:
        """Whether a name stands in a text, its end, and the tag behind it that a value has."""
        key_end = build.encode(self.key_end)
        search = Markers((Exit(key_end, build.after),)).search
        begins = (
            Ahead(build.encode(tag) for tag in (self.value_open, self.type_open) if tag) if self.value_open else None
        )

        def follows(text: str, at: int, final: bool, longest: int) -> bool | None:
            window = text[at : at + longest + len(self.key_end)]
            end, found = search(window, 0, False)
            name = window[:end].strip()
            if end > longest or not is_name(name, True, _NOT_IN_NAMES):
                return False
            if found is None or not name:
                return final or None if found is None else False
            return begins is None or begins.follows(text, at + end + len(key_end), final, longest)

        return follows

    def _behind_key(self, build: Build, regions: Skeleton, key: Name) -> Region:
        """From a key's end to its value."""
        if not self.value_open:
            return regions.value
        value_open = Exit(build.encode(self.value_open), regions.value)
        behind = Expect(regions.in_key)
        # A key without a value: models write that, and mean nothing by it.
        exits = [value_open, *regions.ends(key, self.parameter_open)]
        if self.type_open:
            declared = Name(_declare(regions), regions.in_key, forbidden=_NOT_IN_NAMES)
            typed = Expect(regions.in_key)
            typed.link([value_open])
            declared.link([Exit(build.encode(self.type_close), typed)])
            exits.append(Exit(build.encode(self.type_open), declared))
        behind.link(exits)
        return behind

    def call(self, lowering: RuleWriter, tool: Tool | None) -> ir.Node:
        if tool is not None and not is_name(tool.name, False, _NOT_IN_NAMES + self.name_end[:1]):
            raise UnsupportedError(
                f"the name {tool.name!r} cannot be written in this format", code="tool_name_unsupported"
            )
        if self.writes == "json":
            name, arguments = lowering.quoted_name(tool), lowering.arguments(tool)
            before, between, behind = (lowering.text(text) for text in _JSON)
            call = lowering.seq(before, name, between, arguments, behind)
            return self.call_node(lowering, lowering.marker(self.call_open), call)
        tag = lowering.seq(
            lowering.marker(self.call_open),
            lowering.text(tool.name) if tool else lowering.word(),
            lowering.marker(self.name_end),
            self.layout(lowering),
        )
        return self.call_node(lowering, tag, lowering.parameters(self.form, self._wire(lowering), tool))

    def _wire(self, lowering: RuleWriter) -> Wire:
        def key(name: ir.Node, declared: str) -> ir.Node:
            return lowering.seq(
                lowering.marker(self.parameter_open),
                name,
                lowering.marker(self.key_end),
                self.layout(lowering, self.inside_parameter),
                *(_type_tags(lowering, declared) if declared else ()),
                lowering.marker(self.value_open),
            )

        def _type_tags(lowering: RuleWriter, declared: str) -> tuple[ir.Node, ...]:
            tags = (lowering.marker(self.type_open), lowering.text(declared), lowering.marker(self.type_close))
            return (*tags, self.layout(lowering, self.inside_parameter))

        types = {name: name for name in JSON_TYPES} if self.writes == "types" else None
        return self.wire(lowering, key=key, spell=_spell, types=types)

    def render_call(self, name: str, arguments: Mapping[str, Any], index: int) -> str:
        if self.writes != "json":
            return super(XmlParametersShape, self).render_call(name, arguments, index)
        before, between, behind = _JSON
        return self.call_open + before + json_text(name) + between + json_text(arguments) + behind + self.call_close

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


def _declare(regions: Skeleton) -> Callable[[Machine, str, tuple[int, int]], None]:
    """What a type's name does: a name that is none of JSON's says nothing."""

    def declare(machine: Machine, name: str, span: tuple[int, int]) -> None:
        if name in JSON_TYPES:
            regions.parameters.kind = UNTYPED if name == "string" else JSON

    return declare


def _spell(key: str) -> str | None:
    """A key that stands bare between its tags."""
    fits = key and key.strip() == key and not any(c < " " or c in "<>" or "\ud800" <= c <= "\udfff" for c in key)
    return key if fits else None
