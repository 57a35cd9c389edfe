"""Regions for parameters written as tags around bare text: `<parameter=K>` V `</parameter>`.

Values become JSON by the tool's schema (see `values`). A string streams as it comes, escaped for JSON; any other value is held
until it ends, at most `stream_held_chars` (then it is streamed as a string, for a value so long cannot be decided later).

One newline after the opening tag and one before the closing tag are layout. A closing tag is one only where, blanks apart, another tag of
the format follows, or the text ends; else it is data. A missing closing tag is made up for: the next parameter's whole tag or the call's
closing tag ends the value, where it stands at the beginning of a line if the value began on a line of its own; if closing tags were data
in it, the call ends incomplete. Inside an object or array, tags within JSON strings are data.

A parameter that is given twice counts once, the first time: the later values are read over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.held import Held
from narrows.stream.json_scan import JsonScanner, quote
from narrows.stream.machine import CUT
from narrows.stream.markers import Ahead, Exit, Markers
from narrows.stream.names import LONGEST_NAME
from narrows.stream.regions.values import decide, to_json
from narrows.stream.xml_entities import before_entity, unescape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.parameters import Parameters


Follows = Callable[[str, int, bool, int], "bool | None"]
"""`(text, at, final, longest)`: whether what must follow a marker does so at `at`; None: more text will tell."""


class Value:
    """One parameter's value until one of its closers."""

    __slots__ = ("_after_closer", "_any", "_at_start", "_closers", "_entities", "_held", "_held_from", "_if_passed", "_lines",
                 "_mode", "_parameters", "_passed", "_recovery", "_runs", "_scanned", "_scanner", "_trim", "run")  # fmt: skip
    place = "call"

    def __init__(self, parameters: Parameters, after_closer: Ahead, trim: bool, entities: bool = False) -> None:
        """`after_closer`: what follows a closing tag; `trim`: one newline at either end is layout; `entities`: `&lt;` and the like stand
        for characters."""
        self._parameters = parameters
        self._after_closer = after_closer
        self._recovery: dict[str, Follows] = {}
        self._if_passed: dict[int, frozenset[str]] = {}
        self._trim = trim
        self._passed = False  # a closer was data
        self._entities = entities
        self._any = self._lines = self._closers = Markers(())
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
        """Exits that end a value; the ends of the call, and with `key` the next parameter's tag, which make up for a missing one, each with
        what must follow it; `layout` may stand before these. Without `key`, the end of the call does so only where a closer was data."""
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
        """Let the core go on with `run` behind a string, where that leads to this region; to the string, `self.run` leads."""
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
        self._parameters.again = False  # or a region would have read the name
        return self._begin(machine, closers, at_start, "string")

    def enter(self, machine: Machine) -> Value:
        self._begin(machine, self._any, self._trim, "open")
        if self._parameters.kind.plain_string:
            self._begin_string(machine)
        return self

    def _begin(self, machine: Machine, closers: Markers, at_start: bool, mode: str) -> Value:
        self._closers, self._at_start, self._mode = closers, at_start, mode
        self._scanner, self._scanned, self._passed = None, 0, False
        if self._held.size:
            self._held = Held()
        self._held_from = machine.offset
        return self

    def _begin_string(self, machine: Machine) -> None:
        """The value is a string: from here on it streams."""
        begin = '"'
        if self._held.size:
            held = machine.clean(self._held.text)
            begin = quote(unescape(held) if self._entities else held)[:-1]
            self._held = Held()
        self._mode = "string"
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
        if self._mode == "json":
            self._scan(machine)
            if self._mode == "json":
                return None
        at, found, ends = self._search(machine)
        if self._entities and found is None and not machine.final:
            at = before_entity(machine.text, machine.pos, at)
        if self._mode == "open" and at > machine.pos:
            self._decide(machine, at)
            if self._mode == "json":
                return self.read(machine)
        self._pass(machine, at)
        if found is None or not ends:
            if self._mode == "string" and machine.offset >= 0 and not self._parameters.again:
                machine.run = (
                    self._runs[id(self._closers)] if machine.limits.stream_name_chars >= LONGEST_NAME else None
                )
            elif machine.pos < len(machine.text) and found is None:
                machine.run = self._closers.begun
            return None
        return self._close(machine, found)

    def _search(self, machine: Machine) -> tuple[int, Exit | None, bool]:
        """(where, the exit there, whether it ends the value: else more text will tell)."""
        text, pos, final, longest = machine.text, machine.pos, machine.final, machine.limits.stream_name_chars
        while True:
            at, found = self._closers.search(text, pos, final)
            if found is None:
                return at, None, False
            recovers = self._recovery.get(found.marker)
            if self._passed or found.marker not in self._if_passed[id(self._closers)]:
                follows = recovers or self._after_closer.follows
                ends = follows(text, at + len(found.marker), final, longest)
                if ends is None:
                    return at, found, False
                if ends:
                    if recovers is not None and self._passed:
                        machine.trouble = "text behind a parameter's closing tag"
                    return at, found, True
                self._passed = self._passed or recovers is None
            pos = at + 1

    def _decide(self, machine: Machine, at: int) -> None:
        """More of a value whose type is open, up to `at`."""
        so_far = self._held.text
        limits = machine.limits
        decided = decide(so_far + machine.text[machine.pos : at], self._parameters.kind, limits.stream_name_chars)
        if decided == "string":
            self._begin_string(machine)
        else:
            self._mode = decided
        if decided == "json":
            self._scanner = JsonScanner(limits.stream_depth)
            self._scanner.scan(so_far, 0)

    def _scan(self, machine: Machine) -> None:
        """Hold the JSON value that has begun; behind it, or where it breaks off, closers count again."""
        assert self._scanner is not None
        text, pos = machine.text, machine.pos
        room = machine.limits.stream_held_chars - self._held.size
        window = text if len(text) - pos <= room else text[: pos + room]
        at = min(self._scanner.scan(window, pos + self._scanned), len(window))
        if self._scanner.done or self._scanner.fault is not None:
            self._mode = "held"
        elif len(window) < len(text):
            self._pass(machine, at)
            self._begin_string(machine)
            return
        # A newline may belong to a closer: it is left unread, though the scanner has passed it.
        self._scanned = int(at > pos and text[at - 1] == "\n" and not self._scanner.in_string)
        self._pass(machine, at - self._scanned)

    def _pass(self, machine: Machine, at: int) -> None:
        """Take the text up to `at`, as a piece of the string or held."""
        if at <= machine.pos:
            return
        start = machine.offset
        if self._mode == "string":
            piece = machine.clean(machine.take(at))
            self._parameters.write(machine, quote(unescape(piece) if self._entities else piece)[1:-1], start)
            return
        room = machine.limits.stream_held_chars - self._held.size
        if at - machine.pos > room:  # too long to be held: a string from here on
            cut = machine.pos + room
            self._held.add(machine.take(cut))
            self._begin_string(machine)
            self._pass(machine, at)
            return
        self._held.add(machine.take(at))

    def _close(self, machine: Machine, found: Exit) -> Region:
        if self._mode == "string":
            self._parameters.write(machine, '"', machine.offset)
        else:
            text = machine.clean(self._held.text)
            if self._entities and self._scanner is None:
                text = unescape(text)
            json_text = to_json(text, self._parameters.kind, machine.limits.stream_depth)
            self._parameters.write_value(machine, json_text, (self._held_from, machine.offset))
        machine.take(machine.pos if found.keep else machine.pos + len(found.marker))
        return found.region.enter(machine)

    def stop(self, machine: Machine) -> None:
        """The value is cut: what there is of it is written, and not made whole."""
        self._pass(machine, len(machine.text))
        if self._mode != "string":
            text = machine.clean(self._held.text)
            broken = self._scanner is not None and self._scanner.fault is not None
            self._parameters.write_key(machine)
            raw = not broken and (self._scanner is not None or "string" not in self._parameters.kind.types)
            written = text if raw else '"' + quote(text)[1:-1]
            self._parameters.write_held(machine, written, (self._held_from, machine.offset))
        machine.end_call(CUT)
