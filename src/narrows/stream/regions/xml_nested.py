"""Arguments as nested elements: `<K>V</K>`. An object's members are its elements, an array's items are `<item>`.

Every tag has a prefix, so text may hold angle brackets. The schema decides what an element is. Where the schema leaves
it open, the element's first content decides: text makes a string, which streams; an element makes an object, or an
array if its tag is `item`. Text before an object's first element is its member `$text`. Where a closing tag is missing,
that of an outer element, or of the call, closes the inner elements, too. Where an object has a member twice, the first
counts, and the later ones are read and left out.

The state is that of the text in the innermost element, which has no elements so far:

| state | what comes | next state |
| --- | --- | --- |
| `UNDECIDED` | text that can only be a string | `IN_STRING` |
| | the beginning of an object or array that the schema allows | `IN_JSON` |
| | text whose type only its end decides | `UNTIL_END` |
| any but `IN_STRING` | more than `stream_held_chars` | `IN_STRING` |
| any but `IN_STRING` | an element's tag, if the schema allows elements | `UNDECIDED`, in the new element |
| `IN_STRING` | an element's tag | `IN_STRING`: it is text |
| any | the closing tag of an open element | none, until the next element's tag |
| | an end of the call | the call ends |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.held import Held
from narrows.stream.json_scan import WHITESPACE, quote
from narrows.stream.machine import CUT
from narrows.stream.markers import Exit, Markers
from narrows.stream.names import TOO_MANY_KEYS
from narrows.stream.regions.values import IN_STRING, UNDECIDED, decide, to_json
from narrows.value_types import LOOSE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.raw_arguments import RawArguments
    from narrows.value_types import Place

TEXT_KEY = "$text"


class _Element:
    """An open element: its tag, its place in the schema, and what it holds: "object", "array", or "" (text)."""

    __slots__ = ("count", "holds", "keys", "name", "place")

    def __init__(self, name: str, place: Place, holds: str = "") -> None:
        self.name = name
        self.place = place
        self.holds = holds
        self.count = 0
        self.keys: set[str] = set()
        """Of an object: the members that it has."""


class Elements:
    """The arguments from after a call's tag to one of the call's ends; each end names the region after it."""

    __slots__ = ("_ends", "_held", "_held_from", "_ignored", "_in_string", "_in_tag", "_key_count", "_markers", "_open",
                 "_prefix", "_raw", "_stack", "_state")  # fmt: skip
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
        self._ignored: _Element | None = None  # an element that is left out, with all that is in it
        self._key_count = 0
        self._held = Held()
        self._held_from = 0
        self._state = UNDECIDED

    def enter(self, machine: Machine) -> Elements:
        self._stack = [_Element("", machine.tools.place(machine.name), "object")]
        self._open = self._ignored = None
        self._key_count = 0
        self._begin_text(machine)
        return self

    def _write(self, machine: Machine, text: str, start: int) -> None:
        if self._ignored is None:
            machine.write(text, start)

    def _write_held(self, machine: Machine, text: str) -> None:
        if self._ignored is None:
            machine.write_held(text, (self._held_from, machine.offset))

    def read(self, machine: Machine) -> Region | None:
        while True:
            text = machine.text
            at, tag = self._markers.search(text, machine.pos, machine.final and self._open is not None)
            if not self._text(machine, at):
                return self._raw.because("text between the elements").enter(machine)
            if tag is None:
                if self._open is None or machine.pos < len(text):
                    machine.run = self._markers.begun
                plain = machine.offset >= 0 and self._ignored is None
                if self._state is IN_STRING and self._open is not None and plain:
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
        """Read text that looks like a tag. Returns False where it is neither markup nor text."""
        if name[:1] == "/" and self._closes(machine, name[1:], end):
            return True
        leaf = self._open
        if name[:1] == "/" or not _is_tag(name):
            if leaf is None:
                return False
            return self._text(machine, machine.pos + len(self._prefix))
        if leaf is not None:
            if self._state is IN_STRING or not leaf.place.holds_elements():
                return self._text(machine, end)
            self._open_container(machine, leaf, name)
        if len(self._stack) > machine.limits.stream_depth:
            return False
        outer = self._stack[-1]
        self._open_element(machine, outer, name, end)
        return True

    def _open_container(self, machine: Machine, leaf: _Element, tag: str) -> None:
        """The element holds other elements, not only text."""
        leaf.holds = "array" if leaf.place.is_array(tag) else "object"
        text = machine.clean(self._held.text)
        self._stack.append(leaf)
        self._open = None
        before = "[" if leaf.holds == "array" else "{"
        if text.strip(WHITESPACE):
            before += (f"{quote(TEXT_KEY)}: " if leaf.holds == "object" else "") + quote(text)
            leaf.count = 1
            leaf.keys.add(TEXT_KEY)
            self._key_count += 1
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
        if outer.holds == "object" and self._ignored is None and not self._is_new(machine, outer, name):
            self._ignored = self._open
        self._write(machine, before + key, start)
        outer.count += 1
        self._begin_text(machine)
        if place.typed and place.kind.plain_string:
            self._begin_string(machine)

    def _is_new(self, machine: Machine, outer: _Element, name: str) -> bool:
        if name in outer.keys:
            return False
        if self._key_count >= machine.limits.stream_keys:
            machine.trouble = TOO_MANY_KEYS
            return False
        outer.keys.add(name)
        self._key_count += 1
        return True

    def _closes(self, machine: Machine, name: str, end: int) -> bool:
        """Close the element that this closing tag belongs to. Returns False where no open element has this name."""
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
        """Close all that is open inside this element."""
        if self._open is not None:
            self._close_leaf(machine)
        while self._stack[-1] is not outer:
            closed = self._stack.pop()
            self._key_count -= len(closed.keys)
            self._write(machine, "]" if closed.holds == "array" else "}", machine.offset)
            self._end(closed)

    def _end(self, element: _Element) -> None:
        if element is self._ignored:
            self._ignored = None

    # Text.

    def _begin_text(self, machine: Machine) -> None:
        self._held = Held()
        self._held_from = machine.offset
        self._state = UNDECIDED

    def _text(self, machine: Machine, at: int) -> bool:
        """Take the text up to `at`. Returns False where only whitespace may stand, and there is other text."""
        if at <= machine.pos:
            return True
        if self._open is None:
            end = at - len(machine.text[machine.pos : at].lstrip(WHITESPACE))
            machine.take(end)
            return end == at
        start, place = machine.offset, self._open.place
        if self._state is UNDECIDED:
            so_far = self._held.text + machine.text[machine.pos : at]
            if place.typed or place.kind is LOOSE:
                self._state = decide(so_far, place.kind, machine.limits.stream_name_chars)
            elif len(so_far) > machine.limits.stream_name_chars or so_far.strip(WHITESPACE):
                self._state = IN_STRING
            if self._state is IN_STRING:
                self._begin_string(machine)
        if self._state is IN_STRING:
            self._write(machine, quote(machine.clean(machine.take(at)))[1:-1], start)
            return True
        room = machine.limits.stream_held_chars - self._held.size
        if at - machine.pos > room:  # too long to be held back: a string from here on
            self._held.add(machine.take(machine.pos + room))
            self._begin_string(machine)
            return self._text(machine, at)
        self._held.add(machine.take(at))
        return True

    def _begin_string(self, machine: Machine) -> None:
        text = machine.clean(self._held.text)
        self._held = Held()
        self._state = IN_STRING
        self._write_held(machine, '"' + quote(text)[1:-1])

    def _close_leaf(self, machine: Machine) -> None:
        leaf, self._open = self._open, None
        assert leaf is not None
        if self._state is IN_STRING:
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
        """The text ends inside the arguments: the part that has come is written, and not completed."""
        self._text(machine, len(machine.text))
        if self._open is not None and self._state is not IN_STRING:
            text = machine.clean(self._held.text)
            raw = text if "string" not in self._open.place.kind.types else '"' + quote(text)[1:-1]
            self._write_held(machine, raw)
        machine.take(len(machine.text))
        machine.end_call(CUT)


def _is_tag(name: str) -> bool:
    """Whether a tag can hold this name."""
    return bool(name) and name.isprintable() and "<" not in name and name.strip() == name
