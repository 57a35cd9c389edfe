"""A parameter's value as bare text between tags: `<parameter=K>` V `</parameter>`.

The tool's schema says which JSON value the text becomes (see `values`). A string streams as it comes, escaped for JSON.
Any other value is held back until it ends, at most `stream_held_chars`; a longer one is streamed as a string.

One newline after the opening tag and one before the closing tag are layout. Text that looks like a closing tag is one
where another tag of the format follows it, perhaps after whitespace, or the text ends; else it is data. A closing tag
may be missing. Then the next parameter's whole tag, or the call's closing tag, ends the value. If the value began on a
line of its own, this tag must begin a line. If the value held closing tags as data, the call ends incomplete. In an
object or array, tags inside JSON strings are data.

| state | what comes | next state |
| --- | --- | --- |
| `UNDECIDED` | text that can only be a string | `IN_STRING` |
| | the beginning of an object or array that the schema allows | `IN_JSON` |
| | text whose type only its end decides | `UNTIL_END` |
| `IN_JSON` | the end of the JSON value, or an error in it | `UNTIL_END` |
| any but `IN_STRING` | more than `stream_held_chars` | `IN_STRING` |
| any but `IN_JSON` | a closing tag, or another tag that ends the value | the value ends |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.held import Held
from narrows.stream.json_scan import JsonScanner, quote
from narrows.stream.machine import CUT
from narrows.stream.markers import NO_MARKERS, Ahead, Exit, Markers
from narrows.stream.names import LONGEST_NAME
from narrows.stream.regions.values import IN_JSON, IN_STRING, UNDECIDED, UNTIL_END, decide, to_json
from narrows.stream.states import State
from narrows.stream.xml_entities import before_entity, unescape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.parameters import Parameters


Follows = Callable[[str, int, bool, int], "bool | None"]
"""`(text, at, final, longest)`: whether the text at `at` may follow a marker. None: more text is needed to know."""


class Value:
    """One parameter's value until one of its closers."""

    __slots__ = ("_after_closer", "_any", "_at_start", "_closers", "_entities", "_held", "_held_from", "_if_passed",
                 "_lines", "_parameters", "_passed", "_recovery", "_runs", "_scanned", "_scanner", "_state", "_trim",
                 "run")  # fmt: skip
    place = "call"

    def __init__(self, parameters: Parameters, after_closer: Ahead, trim: bool, entities: bool = False) -> None:
        """`after_closer`: the text that may follow a closing tag. `trim`: one newline at either end is layout.
        `entities`: XML's entities such as `&lt;` stand for characters."""
        self._parameters = parameters
        self._after_closer = after_closer
        self._recovery: dict[str, Follows] = {}
        self._if_passed: dict[int, frozenset[str]] = {}
        self._trim = trim
        self._passed = False  # whether a closing tag was data
        self._entities = entities
        self._any = self._lines = self._closers = NO_MARKERS
        self._runs: dict[int, Run] = {}
        self._held = Held()
        self._scanner: JsonScanner | None = None

    def link(
        self,
        closers: Iterable[Exit],
        over: Iterable[tuple[Exit, Follows]],
        key: tuple[Exit, Follows] | None = None,
        layout: str = "",
    ) -> None:
        """`closers`: the closing tags. `over` and `key`: the ends of the call and the next parameter's tag.

        The latter end a value whose closing tag is missing. Each comes with what must follow it, and `layout` may stand
        before it. Without `key`, the ends of the call count only where a closing tag was data."""
        closers, over = list(closers), list(over)
        recovery = [*over, *([key] if key else [])]
        if self._trim:
            closers += [Exit("\n" + e.marker, e.region, e.keep, e.begins) for e in closers]
        lines = [Exit("\n" + e.marker, e.region, e.keep, e.begins) for e, _ in recovery] if key else []
        self._recovery = {before + e.marker: follows for e, follows in recovery for before in ("", "\n")}
        self._any = Markers([*closers, *(e for e, _ in recovery), *(lines if self._trim or layout == "\n" else ())])
        self._lines = Markers([*closers, *lines, *(e for e, _ in over)])
        if_passed = frozenset(e.marker for e, _ in over)
        self._if_passed = {id(self._any): frozenset() if key else if_passed, id(self._lines): if_passed}
        stops = "&" if self._entities else ""
        self._runs = {id(closers): Run.of_text(closers.literals, None, stops) for closers in (self._any, self._lines)}
        self.run = Run.of_markers(("\n",)) if self._trim else self._runs[id(self._any)]

    def follow(self, region: Region, run: Run) -> None:
        """Let the core go on with `run` after a string's closing tag, if that tag leads to `region`.

        `self.run` leads to the string."""
        for closers in (self._any, self._lines):
            string = self._runs[id(closers)]
            string.resume = partial(self._resume, closers, False)
            for end in closers.exits:
                if end.region is region and not end.keep:
                    string.link(end.marker, run, '"', ahead=self._after_closer.run)
        if self._trim:
            self.run.resume = partial(self._resume, self._any, True)
            self.run.link("\n", self._runs[id(self._lines)])
            self.run.link(None, self._runs[id(self._any)])

    def _resume(self, closers: Markers, at_start: bool, machine: Machine, named: object) -> Value:
        self._parameters.again = False  # the core reads no name that was given before
        return self._begin(machine, closers, at_start, IN_STRING)

    def enter(self, machine: Machine) -> Value:
        self._begin(machine, self._any, self._trim, UNDECIDED)
        if self._parameters.kind.plain_string:
            self._begin_string(machine)
        return self

    def _begin(self, machine: Machine, closers: Markers, at_start: bool, state: State) -> Value:
        self._closers, self._at_start, self._state = closers, at_start, state
        self._scanner, self._scanned, self._passed = None, 0, False
        if self._held.size:
            self._held = Held()
        self._held_from = machine.offset
        return self

    def _begin_string(self, machine: Machine) -> None:
        """The value is a string: from here on it streams."""
        begin = '"'
        if self._held.size:
            text = machine.clean(self._held.text)
            begin = quote(unescape(text) if self._entities else text)[:-1]
            self._held = Held()
        self._state = IN_STRING
        self._parameters.write_key(machine)
        self._parameters.write_held(machine, begin, (self._held_from, machine.offset))

    def read(self, machine: Machine) -> Region | None:
        if self._at_start:
            if machine.pos == len(machine.text):
                return None
            if machine.text[machine.pos] == "\n":
                machine.take(machine.pos + 1)
                self._closers = self._lines
                self._held_from = machine.offset
            self._at_start = False
        if self._state is IN_JSON:
            self._scan(machine)
            if self._state is IN_JSON:
                return None
        at, closer, ends = self._search(machine)
        if self._entities and closer is None and not machine.final:
            at = before_entity(machine.text, machine.pos, at)
        if self._state is UNDECIDED and at > machine.pos:
            self._decide(machine, at)
            if self._state is IN_JSON:
                return self.read(machine)
        self._pass(machine, at)
        if closer is None or not ends:
            if self._state is IN_STRING and machine.offset >= 0 and not self._parameters.again:
                machine.run = (
                    self._runs[id(self._closers)] if machine.limits.stream_name_chars >= LONGEST_NAME else None
                )
            elif machine.pos < len(machine.text) and closer is None:
                machine.run = self._closers.begun
            return None
        return self._close(machine, closer)

    def _search(self, machine: Machine) -> tuple[int, Exit | None, bool]:
        """(where the next closer stands, the closer, whether it ends the value: if not, more text must decide)."""
        text, pos, final, longest = machine.text, machine.pos, machine.final, machine.limits.stream_name_chars
        while True:
            at, closer = self._closers.search(text, pos, final)
            if closer is None:
                return at, None, False
            recovers = self._recovery.get(closer.marker)
            if self._passed or closer.marker not in self._if_passed[id(self._closers)]:
                follows = recovers or self._after_closer.follows
                ends = follows(text, at + len(closer.marker), final, longest)
                if ends is None:
                    return at, closer, False
                if ends:
                    if recovers is not None and self._passed:
                        machine.trouble = "text after a parameter's closing tag"
                    return at, closer, True
                self._passed = self._passed or recovers is None
            pos = at + 1

    def _decide(self, machine: Machine, at: int) -> None:
        """More of a value whose type is undecided, up to `at`."""
        so_far = self._held.text
        limits = machine.limits
        decided = decide(so_far + machine.text[machine.pos : at], self._parameters.kind, limits.stream_name_chars)
        if decided is IN_STRING:
            self._begin_string(machine)
        else:
            self._state = decided
        if decided is IN_JSON:
            self._scanner = JsonScanner(limits.stream_depth)
            self._scanner.scan(so_far, 0)

    def _scan(self, machine: Machine) -> None:
        """Hold back the JSON value that has begun. After it, or after an error in it, closers count again."""
        assert self._scanner is not None
        text, pos = machine.text, machine.pos
        room = machine.limits.stream_held_chars - self._held.size
        window = text if len(text) - pos <= room else text[: pos + room]
        at = min(self._scanner.scan(window, pos + self._scanned), len(window))
        if self._scanner.done or self._scanner.fault is not None:
            self._state = UNTIL_END
        elif len(window) < len(text):
            self._pass(machine, at)
            self._begin_string(machine)
            return
        # A newline may belong to a closer: it is left unread, though the scanner has passed it.
        self._scanned = int(at > pos and text[at - 1] == "\n" and not self._scanner.in_string)
        self._pass(machine, at - self._scanned)

    def _pass(self, machine: Machine, at: int) -> None:
        """Take the text up to `at`: as a piece of the string, or held back."""
        if at <= machine.pos:
            return
        start = machine.offset
        if self._state is IN_STRING:
            piece = machine.clean(machine.take(at))
            self._parameters.write(machine, quote(unescape(piece) if self._entities else piece)[1:-1], start)
            return
        room = machine.limits.stream_held_chars - self._held.size
        if at - machine.pos > room:  # too long to be held back: a string from here on
            cut = machine.pos + room
            self._held.add(machine.take(cut))
            self._begin_string(machine)
            self._pass(machine, at)
            return
        self._held.add(machine.take(at))

    def _close(self, machine: Machine, closer: Exit) -> Region:
        if self._state is IN_STRING:
            self._parameters.write(machine, '"', machine.offset)
        else:
            text = machine.clean(self._held.text)
            if self._entities and self._scanner is None:
                text = unescape(text)
            json_text = to_json(text, self._parameters.kind, machine.limits.stream_depth)
            self._parameters.write_value(machine, json_text, (self._held_from, machine.offset))
        machine.take(machine.pos if closer.keep else machine.pos + len(closer.marker))
        return closer.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        """The text ends inside the value: the part that has come is written, and not completed."""
        self._pass(machine, len(machine.text))
        if self._state is not IN_STRING:
            text = machine.clean(self._held.text)
            broken = self._scanner is not None and self._scanner.fault is not None
            self._parameters.write_key(machine)
            raw = not broken and (self._scanner is not None or "string" not in self._parameters.kind.types)
            written = text if raw else '"' + quote(text)[1:-1]
            self._parameters.write_held(machine, written, (self._held_from, machine.offset))
        machine.end_call(CUT)
