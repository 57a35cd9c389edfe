"""The name outside, the arguments as JSON: `[TOOL_CALLS]N[ARGS]{...}`. An id may stand between the two.

Calls may stand in a section with markers of its own: `<calls><call>N<args>{...}</call>...</calls>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.base import Shape, name_unsupported
from narrows.formats.families.build import give_back, ignore
from narrows.formats.families.json_call import parts
from narrows.formats.families.openers import Opener
from narrows.formats.spelling import arguments_text
from narrows.stream.markers import Exit
from narrows.stream.names import is_name
from narrows.stream.regions.enter_only import EnterOnly
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.json_arguments import JsonArguments
from narrows.stream.regions.name import Name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonArgumentsShape(Shape):
    """Keys of a `[[call]]` table of family `json_arguments`."""

    section_open: str = ""
    """The marker before all calls, if there is one."""
    section_open_also: tuple[str, ...] = ()
    """Other spellings of `section_open` that are read, but not written."""
    section_close: str = ""
    """The marker after all calls."""
    section_close_also: tuple[str, ...] = ()
    """Other spellings of `section_close` that are read, but not written."""
    section_may_be_missing: bool = False
    """Calls outside a section are read, too."""
    section_each: bool = False
    """Each call is written in a section of its own."""
    open: str
    """The marker before each call."""
    open_also: tuple[str, ...] = ()
    """Other spellings of `open` that are read, but not written."""
    type: str = ""
    """A word before the name that means nothing: `function`."""
    id_first: bool = False
    """The call's id stands where that word would. If nothing stands there, the call has no id."""
    name_open: str = ""
    """The marker between that word, or the id, and the name."""
    header: str = ""
    """What stands for the name if the name is part of the call's id, as `functions.$name:$index`. All of it is the
    id."""
    id_open: str = ""
    """The marker between the name and the id, if calls have an id there."""
    arguments_open: str
    """The marker before the arguments."""
    arguments_open_also: tuple[str, ...] = ()
    """Other spellings of `arguments_open` that are read, but not written."""
    arguments_open_may_be_missing: bool = False
    """Some models leave `arguments_open` out: then the name ends at `{`."""
    arguments_must_be_object: bool = False
    """What goes on with anything but `{`, or what closes the call, is text. For markers that may stand in prose."""
    content_name: str = ""
    """After this name, text follows instead of arguments. It is read even where there are no tools."""
    close: str = ""
    """The marker after each call."""
    close_also: tuple[str, ...] = ()
    """Other spellings of `close` that are read, but not written."""
    blanks_vary: bool = False
    """If a marker is made of several tags, other whitespace may stand between them than is written, or none."""

    def markers(self) -> tuple[str, ...]:
        sections = (self.section_open, *self.section_open_also, self.section_close, *self.section_close_also)
        calls = (self.open, *self.open_also, self.name_open, self.id_open, self.close, *self.close_also)
        return tuple(m for m in (*sections, *calls, self.arguments_open, *self.arguments_open_also) if m)

    def markers_after_values(self) -> tuple[str, ...]:
        """None: JSON shows where it ends."""
        return ()

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.header and list(parts(self.header, _HEADER)).count("$name") != 1:
            yield "header", "must hold $name once"
        if self.header and not self.header.partition("$name")[2].removesuffix("$index"):
            yield "header", "something must stand between $name and $index"
        if self.header and not self.header.endswith("$index"):
            yield "header", "must end with $index"
        if bool(self.section_open) != bool(self.section_close):
            yield "section_close", "goes with section_open"
        if self.section_each and not self.section_open:
            yield "section_each", "goes with section_open"
        if bool(self.type or self.id_first) != bool(self.name_open):
            yield "name_open", "goes with type or id_first"
        if self.id_first and (self.type or self.header or self.id_open):
            yield "id_first", "excludes type, header and id_open"

    # Reading.

    def openers(self, context: CallContext) -> list[Opener]:
        sections = self._section_openers()
        return sections + (self._call_openers() if self.section_may_be_missing or not sections else [])

    def _section_openers(self) -> list[Opener]:
        markers = (self.section_open, *self.section_open_also) if self.section_open else ()
        return [Opener(marker) for marker in markers]

    def _call_openers(self) -> list[Opener]:
        return [Opener(marker) for marker in (self.open, *self.open_also)]

    def entries(self, build: Build) -> list[Entry]:
        openers = (self.open, *self.open_also)
        next_call = _NextCall()
        more: tuple[Exit, ...] = ()
        if self.section_open and build.parallel:
            more = tuple(Exit(build.encode(marker), next_call, begins=True, inside=True) for marker in openers)
        ends = build.closing((self.section_close, *self.section_close_also), build.after)
        section = build.tail_until(*ends, *more) if self.section_open else build.after
        closers = build.closing((c.strip() for c in (self.close, *self.close_also)), section)
        tail = build.tail_until(*closers, *ends, *more) if closers else section
        raw = build.raw(*closers, *ends, *more)

        call = next_call.region = self._call(build, JsonArguments(tail, raw))
        in_section = Expect(give_back)
        in_section.link([Exit(build.encode(marker), call) for marker in openers])
        sections = [opener.to(in_section) for opener in self._section_openers()]
        outside = self.section_may_be_missing or not sections
        return sections + [opener.to(call) for opener in (self._call_openers() if outside else [])]

    def _call(self, build: Build, arguments: JsonArguments) -> Region:
        """Reads from after the opener to the arguments."""
        header = _Header(self, arguments)
        name = Name(header.take_name, give_back)
        ahead: Region = header
        if self.arguments_must_be_object:
            ahead = Expect(give_back)
            closers = (c.strip() for c in (self.close, *self.close_also))
            ahead.link(
                [Exit("{", header, keep=True), *(Exit(build.encode(c), header, keep=True) for c in closers if c)]
            )
        if self.content_name:
            ahead = _AfterName(header, ahead if build.calls else _NoCall())
        spellings = dict.fromkeys((self.arguments_open, *self.arguments_open_also))
        ends = [self._exit(build, marker, ahead) for marker in spellings]
        if self.arguments_open_may_be_missing:
            ends.append(Exit("{", header, keep=True))
        if self.id_open:
            call_id = Name(header.take_id, give_back)
            call_id.link(ends)
            name.link([*ends, self._exit(build, self.id_open, call_id)])
        else:
            name.link(ends)
        if not self.name_open:
            return name
        if not self.id_first:
            kind = Name(ignore, give_back)
            kind.link([self._exit(build, self.name_open, name)])
            return kind
        unnamed = Expect(give_back)
        unnamed.link([self._exit(build, self.name_open, name)])

        def without_id(machine: Machine) -> Region:
            header.take_id(machine, "", (0, 0))
            return unnamed.enter(machine)

        first_id = Name(header.take_id, without_id)
        first_id.link([self._exit(build, self.name_open, name)])
        return first_id

    def _exit(self, build: Build, marker: str, region: Region) -> Exit:
        """The way out at this marker, before the call has begun."""
        tags = marker.split() if self.blanks_vary else [marker]
        for tag in reversed(tags[1:]):
            rest = Expect(give_back)
            rest.link([Exit(build.encode(tag), region)])
            region = rest
        return Exit(build.encode(tags[0]), region)

    # The grammar.

    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        if tool is not None:
            ends = [m.strip() for m in (self.arguments_open, *self.arguments_open_also, self.id_open)]
            ends.append("{" if self.arguments_open_may_be_missing else "")
            if not is_name(tool.name, False, "") or any(end and end in tool.name for end in ends):
                raise name_unsupported(tool.name)
        call_id = writer.optional(writer.marker(self.id_open), writer.call_id()) if self.id_open else writer.text("")
        return writer.seq(
            writer.marker(self.open),
            writer.call_id() if self.id_first else writer.text(self.type),
            writer.marker(self.name_open),
            *(self._name(writer, tool, part) for part in parts(self.header or "$name", _HEADER)),
            call_id,
            writer.marker(self.arguments_open),
            writer.arguments(tool),
            writer.marker(self.close),
        )

    def _name(self, writer: RuleWriter, tool: Tool | None, part: str) -> ir.Node:
        if part == "$name":
            return writer.text(tool.name) if tool else writer.word()
        return writer.number() if part == "$index" else writer.text(part)

    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        section_open, section_close = writer.marker(self.section_open), writer.marker(self.section_close)
        if self.section_each:
            return writer.repeated(writer.seq(section_open, call, section_close), many, between)
        return writer.seq(section_open, writer.repeated(call, many, between), section_close)

    # The text.

    def heading(self) -> str:
        return self.open + self.content_name + self.arguments_open if self.content_name else ""

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        section = ("", "") if not self.section_each else (self.section_open, self.section_close)
        written = between.join(
            section[0]
            + self.open
            + (_first_id(call_id if ids else "", index) if self.id_first else self.type)
            + self.name_open
            + self._header(name, call_id if ids else "", index)
            + (self.id_open + call_id if ids and self.id_open and call_id else "")
            + self.arguments_open
            + arguments_text(arguments)
            + self.close
            + section[1]
            for index, (name, arguments, call_id) in enumerate(calls)
        )
        return written if self.section_each else self.section_open + written + self.section_close

    def _header(self, name: str, call_id: str, index: int) -> str:
        if not self.header:
            return name
        before, _, _ = self.header.partition("$name")
        if call_id.startswith(before + name) and self.split(call_id) == (name, True):
            return call_id
        values = {"$name": name, "$index": str(index)}
        return "".join(values.get(part, part) for part in parts(self.header, _HEADER))

    def split(self, header: str) -> tuple[str, bool]:
        """(the name in a header, or "" if there is none; whether it has its number).

        What stands before the name may be missing.
        """
        before, _, after = self.header.partition("$name")
        separator = after.removesuffix("$index")
        name = header.removeprefix(before)
        stem, separated, index = name.rpartition(separator)
        numbered = bool(separated) and index.isdecimal()
        name = stem if numbered else name
        return "" if name.isdecimal() else name, numbered


_HEADER = ("$name", "$index")


def _first_id(call_id: str, index: int) -> str:
    """An id that stands before the name is always written. If the call has none, one of ten letters and digits is."""
    return call_id or f"call{index:06d}"


class _NextCall(EnterOnly):
    """Leads to a region that is made later."""

    __slots__ = ("region",)

    def __init__(self) -> None:
        self.region: Region = self

    def enter(self, machine: Machine) -> Region:
        return self.region.enter(machine)


class _Header(EnterOnly):
    """Keeps the name and the id until the arguments begin. Entering it starts the call."""

    __slots__ = ("_arguments", "_id", "_name", "_shape", "_span")

    def __init__(self, shape: JsonArgumentsShape, arguments: JsonArguments) -> None:
        self._shape = shape
        self._arguments = arguments
        self._name = ""
        self._id = ""
        self._span = (0, 0)

    def take_name(self, machine: Machine, name: str, span: tuple[int, int]) -> None:
        self._name, self._span = name, span
        if not self._shape.id_first:
            self._id = ""

    def take_id(self, machine: Machine, name: str, span: tuple[int, int]) -> None:
        self._id = name

    def begins_text(self, machine: Machine) -> bool:
        """Whether text follows, and no arguments."""
        return machine.clean(self._name) == self._shape.content_name

    def enter(self, machine: Machine) -> Region:
        """Start the call, unless its name makes none."""
        name, call_id = machine.clean(self._name), machine.clean(self._id)
        if self._shape.header:
            call_id = name
            name, numbered = self._shape.split(name)
            offered = machine.tools.tools is not None and machine.tools.knows(name)
            if not name or not (numbered or offered):
                return machine.give_back()
        machine.start_call(name, self._span, call_id or None)
        return self._arguments.enter(machine)


class _NoCall(EnterOnly):
    """No call begins here: what was held is text."""

    __slots__ = ()
    place = "content"

    def enter(self, machine: Machine) -> Region:
        return machine.give_back()


class _AfterName(EnterOnly):
    """Chooses between text and a call. Before text, what was held is markup."""

    __slots__ = ("_call", "_header")

    def __init__(self, header: _Header, call: Region) -> None:
        self._header = header
        self._call = call

    def enter(self, machine: Machine) -> Region:
        if not self._header.begins_text(machine):
            return self._call.enter(machine)
        machine.let_go()
        assert machine.home is not None
        return machine.home.resume(machine)
