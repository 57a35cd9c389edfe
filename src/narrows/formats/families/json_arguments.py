"""The name outside, the arguments as JSON: `[TOOL_CALLS]N[ARGS]{...}`, with an id in between where the wire carries one.

Calls may stand in a section with markers of its own: `<calls><call>N<args>{...}</call>...</calls>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.formats.families.base import Build, Entry, Shape
from narrows.formats.families.json_call import parts
from narrows.formats.spelling import arguments_text
from narrows.stream.markers import Exit
from narrows.stream.names import is_name
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.json_arguments import JsonArguments
from narrows.stream.regions.name import Name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonArgumentsShape(Shape):
    """Keys of a `[[call]]` table of family `json_arguments`."""

    section_open: str = ""
    """The marker before all calls, where there is one."""
    section_open_also: tuple[str, ...] = ()
    """Other spellings of it that are read, but not written."""
    section_close: str = ""
    section_close_also: tuple[str, ...] = ()
    section_may_be_missing: bool = False
    """Calls outside a section are read too."""
    section_each: bool = False
    """Each call is written in a section of its own."""
    open: str
    """The marker before each call."""
    open_also: tuple[str, ...] = ()
    type: str = ""
    """A word before the name, which means nothing: `function`."""
    id_first: bool = False
    """The call's id stands where that word would; it may be empty, and then it is not the call's id."""
    name_open: str = ""
    """The marker between that word, or the id, and the name."""
    header: str = ""
    """What stands for the name where it is part of the call's id, as `functions.$name:$index`. The whole of it is the id."""
    id_open: str = ""
    arguments_open: str
    arguments_open_also: tuple[str, ...] = ()
    arguments_open_may_be_missing: bool = False
    """Some models leave it out: then the name ends at `{`."""
    arguments_must_be_object: bool = False
    """What goes on with anything but `{`, or what closes the call, is text: for markers that may well stand in prose."""
    content_name: str = ""
    """This name heads text instead of a call, also where there are no tools."""
    close: str = ""
    close_also: tuple[str, ...] = ()
    blanks_vary: bool = False
    """Between the tags of which a marker is made, other blanks may stand than are written, or none."""

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

    def entries(self, build: Build) -> list[Entry]:
        openers = (self.open, *self.open_also)
        next_call = _Door()
        more: tuple[Exit, ...] = ()
        if self.section_open and build.parallel:
            more = tuple(Exit(build.encode(marker), next_call, begins=True, inside=True) for marker in openers)
        ends = build.closing((self.section_close, *self.section_close_also), build.after)
        section = build.tail_until(*ends, *more) if self.section_open else build.after
        closers = build.closing((c.strip() for c in (self.close, *self.close_also)), section)
        tail = build.tail_until(*closers, *ends, *more) if closers else section
        raw = build.raw(*closers, *ends, *more)

        call = next_call.region = self._call(build, JsonArguments(tail, raw))
        calls = [Entry(marker, call) for marker in openers]
        if not self.section_open:
            return calls
        opened = Expect(give_back)
        opened.link([Exit(build.encode(marker), call) for marker in openers])
        sections = [Entry(marker, opened) for marker in (self.section_open, *self.section_open_also)]
        return sections + (calls if self.section_may_be_missing else [])

    def _call(self, build: Build, arguments: JsonArguments) -> Region:
        """From behind the opener to the arguments."""
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
            ahead = _Heading(header, ahead if build.calls else _GiveBack())
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
            behind = Expect(give_back)
            behind.link([Exit(build.encode(tag), region)])
            region = behind
        return Exit(build.encode(tags[0]), region)

    # Writing.

    def call(self, lowering: RuleWriter, tool: Tool | None) -> ir.Node:
        if tool is not None:
            ends = [m.strip() for m in (self.arguments_open, *self.arguments_open_also, self.id_open)]
            ends.append("{" if self.arguments_open_may_be_missing else "")
            if not is_name(tool.name, False, "") or any(end and end in tool.name for end in ends):
                raise UnsupportedError(
                    f"the name {tool.name!r} cannot be written in this format", code="tool_name_unsupported"
                )
        call_id = (
            lowering.optional(lowering.marker(self.id_open), lowering.call_id()) if self.id_open else lowering.text("")
        )
        return lowering.seq(
            lowering.marker(self.open),
            lowering.call_id() if self.id_first else lowering.text(self.type),
            lowering.marker(self.name_open),
            *(self._name(lowering, tool, part) for part in parts(self.header or "$name", _HEADER)),
            call_id,
            lowering.marker(self.arguments_open),
            lowering.arguments(tool),
            lowering.marker(self.close),
        )

    def heading(self) -> str:
        """What stands before text; "" where nothing does."""
        return self.open + self.content_name + self.arguments_open if self.content_name else ""

    def _name(self, lowering: RuleWriter, tool: Tool | None, part: str) -> ir.Node:
        if part == "$name":
            return lowering.text(tool.name) if tool else lowering.word()
        return lowering.number() if part == "$index" else lowering.text(part)

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        section_open, section_close = lowering.marker(self.section_open), lowering.marker(self.section_close)
        if self.section_each:
            return lowering.repeated(lowering.seq(section_open, call, section_close), many, between)
        return lowering.seq(section_open, lowering.repeated(call, many, between), section_close)

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
        """(the name in a header, or "" where there is none; whether it has its number). What stands before the name may be missing."""
        before, _, behind = self.header.partition("$name")
        behind = behind.removesuffix("$index")
        name = header.removeprefix(before)
        stem, found, index = name.rpartition(behind)
        numbered = bool(found) and index.isdecimal()
        name = stem if numbered else name
        return "" if name.isdecimal() else name, numbered


_HEADER = ("$name", "$index")


def _first_id(call_id: str, index: int) -> str:
    """An id that stands before the name is always written: ten letters and digits, where the call has none."""
    return call_id or f"call{index:06d}"


def give_back(machine: Machine) -> Region:
    return machine.give_back()


def ignore(machine: Machine, name: str, span: tuple[int, int]) -> None:
    pass


class _Door:
    """Leads to a region that is made later."""

    __slots__ = ("region",)
    place = "call"

    def __init__(self) -> None:
        self.region: Region = self

    def enter(self, machine: Machine) -> Region:
        return self.region.enter(machine)

    def read(self, machine: Machine) -> Region | None:
        raise AssertionError("entered, never read")

    def stop(self, machine: Machine) -> None:
        raise AssertionError("entered, never read")


class _Header:
    """Name and id on their way to the arguments; entering it starts the call."""

    __slots__ = ("_arguments", "_id", "_name", "_shape", "_span")
    place = "call"

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

    def heads_text(self, machine: Machine) -> bool:
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

    def read(self, machine: Machine) -> Region | None:
        raise AssertionError("entered, never read")

    def stop(self, machine: Machine) -> None:
        raise AssertionError("entered, never read")


class _GiveBack:
    """No call begins here."""

    __slots__ = ()
    place = "content"

    def enter(self, machine: Machine) -> Region:
        return machine.give_back()

    def read(self, machine: Machine) -> Region | None:
        raise AssertionError("entered, never read")

    def stop(self, machine: Machine) -> None:
        raise AssertionError("entered, never read")


class _Heading:
    """Behind a name that may head text: then what was held is markup, and text goes on."""

    __slots__ = ("_call", "_header")
    place = "call"

    def __init__(self, header: _Header, call: Region) -> None:
        self._header = header
        self._call = call

    def enter(self, machine: Machine) -> Region:
        if not self._header.heads_text(machine):
            return self._call.enter(machine)
        machine.let_go()
        assert machine.home is not None
        return machine.home.resume(machine)

    def read(self, machine: Machine) -> Region | None:
        raise AssertionError("entered, never read")

    def stop(self, machine: Machine) -> None:
        raise AssertionError("entered, never read")
