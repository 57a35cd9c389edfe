"""A region for arguments as nested elements: `<K>V</K>`, an object's members as its elements, an array's items as `<item>`.

Every tag has a prefix, so that text may hold angle brackets. What an element is, its schema decides, and where that leaves it open, its first
content: text that the schema takes for a string streams as it comes; an element makes an object, or with the tag `item` an array. Text
before an object's first element is its member `$text`. Where a closing tag is missing, that of an outer element, or of the call, makes up for it.
An element that an object has already counts for nothing, with all that is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.held import Held
from narrows.stream.json_scan import WHITESPACE, quote
from narrows.stream.machine import CUT
from narrows.stream.markers import Exit, Markers
from narrows.stream.names import TOO_MANY_KEYS
from narrows.stream.regions.values import decide, to_json
from narrows.value_types import LOOSE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.raw_arguments import RawArguments
    from narrows.value_types import Place

TEXT_KEY = "$text"


class _Element:
    """An element that is open: its tag, its place, and once that is known what it holds: "object", "array" or "" (text)."""

    __slots__ = ("count", "holds", "keys", "name", "place")

    def __init__(self, name: str, place: Place, holds: str = "") -> None:
        self.name = name
        self.place = place
        self.holds = holds
        self.count = 0
        self.keys: set[str] = set()
        """Of an object: the members that it has."""


class Elements:
    """From behind a call's tag to one of its ends, each with the region behind it."""

    __slots__ = ("_dropped", "_ends", "_held", "_held_from", "_in_string", "_in_tag", "_kept", "_markers", "_mode", "_open",
                 "_prefix", "_raw", "_stack")  # fmt: skip
    place = "call"

    def __init__(self, prefix: str, ends: Sequence[Exit], raw: RawArguments) -> None:
        self._prefix = prefix + "<"
        self._ends = Markers(ends)
        self._markers = Markers((Exit(self._prefix, self),))
        self._in_tag = Run.of_name(">", lead=self._prefix)
        self._in_string = Run.of_text((self._prefix,), None)
        self._raw = raw
        self._stack: list[_Element] = []
        self._open: _Element | None = None
        self._dropped: _Element | None = None  # an element that counts for nothing
        self._kept = 0
        self._held = Held()
        self._held_from = 0
        self._mode = "open"

    def enter(self, machine: Machine) -> Elements:
        self._stack = [_Element("", machine.tools.place(machine.name), "object")]
        self._open = self._dropped = None
        self._kept = 0
        self._begin_text(machine)
        return self

    def _write(self, machine: Machine, text: str, start: int) -> None:
        if self._dropped is None:
            machine.write(text, start)

    def _write_held(self, machine: Machine, text: str) -> None:
        if self._dropped is None:
            machine.write_held(text, (self._held_from, machine.offset))

    def read(self, machine: Machine) -> Region | None:
        while True:
            text = machine.text
            at, found = self._markers.search(text, machine.pos, machine.final and self._open is not None)
            if not self._text(machine, at):
                return self._raw.because("text between the elements").enter(machine)
            if found is None:
                if self._open is None or machine.pos < len(text):
                    machine.run = self._markers.begun
                plain = machine.offset >= 0 and self._dropped is None
                if self._mode == "string" and self._open is not None and plain:
                    machine.run = self._in_string
                return None
            end, maybe = self._ends.match(text, machine.pos, machine.final)
            if end is not None:
                self._close_to(machine, self._stack[0])
                machine.write("}" if self._stack[0].count else "{}", machine.offset)
                machine.take(machine.pos + len(end.marker))
                machine.end_call()
                return end.region.enter(machine)
            begin = machine.pos + len(self._prefix)
            close = text.find(">", begin, begin + machine.limits.stream_name_chars)
            if maybe or (close < 0 and len(text) - begin < machine.limits.stream_name_chars):
                machine.run = self._in_tag
                return None
            if not self._tag(machine, text[begin:close] if close >= 0 else "", close + 1):
                return self._raw.because("a tag that fits nowhere").enter(machine)

    # Tags.

    def _tag(self, machine: Machine, name: str, end: int) -> bool:
        """A tag, or what only looks like one; False where it is neither markup nor text."""
        if name[:1] == "/" and self._closes(machine, name[1:], end):
            return True
        leaf = self._open
        if name[:1] == "/" or not _is_tag(name):
            if leaf is None:
                return False
            return self._text(machine, machine.pos + len(self._prefix))
        if leaf is not None:
            if self._mode == "string" or not leaf.place.holds_elements():
                return self._text(machine, end)
            self._open_container(machine, leaf, name)
        if len(self._stack) > machine.limits.stream_depth:
            return False
        outer = self._stack[-1]
        self._open_element(machine, outer, name, end)
        return True

    def _open_container(self, machine: Machine, leaf: _Element, tag: str) -> None:
        """The element holds others: it is no text."""
        leaf.holds = "array" if leaf.place.is_array(tag) else "object"
        text = machine.clean(self._held.text)
        self._stack.append(leaf)
        self._open = None
        before = "[" if leaf.holds == "array" else "{"
        if text.strip(WHITESPACE):
            before += (f"{quote(TEXT_KEY)}: " if leaf.holds == "object" else "") + quote(text)
            leaf.count = 1
            leaf.keys.add(TEXT_KEY)
            self._kept += 1
        self._write_held(machine, before)
        self._held = Held()

    def _open_element(self, machine: Machine, outer: _Element, name: str, end: int) -> None:
        start = machine.offset
        machine.take(end)
        before = ", " if outer.count else "{" if len(self._stack) == 1 else ""
        if outer.holds == "array":
            place, key = outer.place.item(outer.count), ""
        else:
            name = machine.clean(name)
            place, key = outer.place.member(name), quote(name) + ": "
        self._open = _Element(name, place)
        if outer.holds == "object" and self._dropped is None and not self._is_new(machine, outer, name):
            self._dropped = self._open
        self._write(machine, before + key, start)
        outer.count += 1
        self._begin_text(machine)
        if place.typed and place.kind.plain_string:
            self._begin_string(machine)

    def _is_new(self, machine: Machine, outer: _Element, name: str) -> bool:
        if name in outer.keys:
            return False
        if self._kept >= machine.limits.stream_keys:
            machine.trouble = TOO_MANY_KEYS
            return False
        outer.keys.add(name)
        self._kept += 1
        return True

    def _closes(self, machine: Machine, name: str, end: int) -> bool:
        """Whether this is the closing tag of an element that is open; if so, it is closed."""
        name = machine.clean(name)
        if self._open is not None and self._open.name == name:
            self._close_leaf(machine)
            machine.take(end)
            return True
        for at in range(len(self._stack) - 1, 0, -1):
            if self._stack[at].name == name:
                self._close_to(machine, self._stack[at - 1])
                machine.take(end)
                return True
        return False

    def _close_to(self, machine: Machine, outer: _Element) -> None:
        """Close what is open inside this element."""
        if self._open is not None:
            self._close_leaf(machine)
        while self._stack[-1] is not outer:
            closed = self._stack.pop()
            self._kept -= len(closed.keys)
            self._write(machine, "]" if closed.holds == "array" else "}", machine.offset)
            self._end(closed)

    def _end(self, element: _Element) -> None:
        if element is self._dropped:
            self._dropped = None

    # Text.

    def _begin_text(self, machine: Machine) -> None:
        self._held = Held()
        self._held_from = machine.offset
        self._mode = "open"

    def _text(self, machine: Machine, at: int) -> bool:
        """Take the text up to `at`; False where none may stand."""
        if at <= machine.pos:
            return True
        if self._open is None:
            blanks = at - len(machine.text[machine.pos : at].lstrip(WHITESPACE))
            machine.take(blanks)
            return blanks == at
        start, place = machine.offset, self._open.place
        if self._mode == "open":
            so_far = self._held.text + machine.text[machine.pos : at]
            if place.typed or place.kind is LOOSE:
                self._mode = decide(so_far, place.kind, machine.limits.stream_name_chars)
            elif len(so_far) > machine.limits.stream_name_chars or so_far.strip(WHITESPACE):
                self._mode = "string"
            if self._mode == "string":
                self._begin_string(machine)
        if self._mode == "string":
            self._write(machine, quote(machine.clean(machine.take(at)))[1:-1], start)
            return True
        room = machine.limits.stream_held_chars - self._held.size
        if at - machine.pos > room:  # too long to be held: a string from here on
            self._held.add(machine.take(machine.pos + room))
            self._begin_string(machine)
            return self._text(machine, at)
        self._held.add(machine.take(at))
        return True

    def _begin_string(self, machine: Machine) -> None:
        held = machine.clean(self._held.text)
        self._held = Held()
        self._mode = "string"
        self._write_held(machine, '"' + quote(held)[1:-1])

    def _close_leaf(self, machine: Machine) -> None:
        leaf, self._open = self._open, None
        assert leaf is not None
        if self._mode == "string":
            self._write(machine, '"', machine.offset)
            self._end(leaf)
            return
        text, types = machine.clean(self._held.text), leaf.place.kind.types
        if leaf.place.typed and not text.strip(WHITESPACE) and "string" not in types and types & {"object", "array"}:
            json_text = "{}" if "object" in types else "[]"
        else:
            json_text = to_json(text, leaf.place.kind, machine.limits.stream_depth)
        self._write_held(machine, json_text)
        self._end(leaf)

    def stop(self, machine: Machine) -> None:
        """The text is cut: what there is of it is written, and not made whole."""
        self._text(machine, len(machine.text))
        if self._open is not None and self._mode != "string":
            text = machine.clean(self._held.text)
            raw = text if "string" not in self._open.place.kind.types else '"' + quote(text)[1:-1]
            self._write_held(machine, raw)
        machine.take(len(machine.text))
        machine.end_call(CUT)


def _is_tag(name: str) -> bool:
    """Whether this can stand in a tag."""
    return bool(name) and name.isprintable() and "<" not in name and name.strip() == name
