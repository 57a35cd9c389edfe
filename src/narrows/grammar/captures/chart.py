"""Reads a text with a network, from the left: everything that may be read so far, at each place of the text.

This is Earley's algorithm (CACM 13, 1970) with the states of networks as items. A frame stands for all runs of one rule
that begin at one place. An item is a state that is reached at a place in a frame; its links say how. What reads nothing
is passed where it stands, so a run of a rule reads something.

The text is one of steps: bytes, or a token that is read as its bytes or as one symbol.

How a terminal ends: anywhere that it may ("all"); only where it cannot go on ("greedy"); or so that of all terminals
that are open, none ends as long as one can go on, and those that began before go first ("longest", as in
`ir.Module.longest`).

Cost: some microseconds for each item. A text that is read with greedy terminals has a few items for each of them;
ambiguous and right-recursive rules may have as many for each byte as the text has bytes. All of it is in arrays of
numbers, some 50 bytes for each item.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from narrows.grammar.captures.names import NO_NAMES, Names, spelled
from narrows.grammar.captures.network import Check, End, Network, OneName, Reads, Rule, Text, Token
from narrows.grammar.captures.work import Terminals
from narrows.grammar.regular import NEVER
from narrows.grammar.work import Work

Ends = Literal["all", "greedy", "longest"]
NONE = -1
"""No link, no run, no byte."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the text."""

    data: bytes
    token: int | None = None
    """The token that it is."""
    is_text: bool = True
    """Whether it may be read as bytes. The bytes of a special token are its name, and only shown."""
    may_end: bool = False
    """An end token. It is a part of the text if the grammar names it, and otherwise left out."""


@dataclass(slots=True, eq=False)
class Thread:
    """A terminal that begins at one place, and what waits for it: items, and which of their moves."""

    place: int
    state: int
    waiting: list[tuple[int, int]] = field(default_factory=list)


def _numbers() -> array[int]:
    return array("i")


@dataclass(slots=True)
class _Lists:
    """Lists of a few numbers each, in one place. A list is the number of its last entry."""

    before: array[int] = field(default_factory=_numbers)
    """The entry before this one in the same list, or NONE."""
    first: array[int] = field(default_factory=_numbers)
    second: array[int] = field(default_factory=_numbers)
    third: array[int] = field(default_factory=_numbers)

    def add(self, last: int, first: int, second: int = NONE, third: int = NONE) -> int:
        """The list with one entry more."""
        self.before.append(last)
        self.first.append(first)
        self.second.append(second)
        self.third.append(third)
        return len(self.before) - 1

    def of(self, last: int) -> Iterator[tuple[int, int, int]]:
        """The entries of a list, the last one first."""
        while last != NONE:
            yield self.first[last], self.second[last], self.third[last]
            last = self.before[last]


class Chart:
    def __init__(self, network: Network, terminals: Terminals, work: Work, *, ends: Ends, object_keys: int) -> None:
        self._network = network
        self._terminals = terminals
        self._work = work
        self._longest, self._greedy = ends == "longest", ends == "greedy"
        self._object_keys = object_keys
        self.state, self.place, self.frame = _numbers(), _numbers(), _numbers()
        """Of each item."""
        self._names, self._links = _numbers(), _numbers()
        self._known_names: list[Names] = [NO_NAMES]
        self._number_of: dict[Names, int] = {NO_NAMES: 0}
        self._all_links = _Lists()
        self.rule, self.begin, self.first = _numbers(), _numbers(), _numbers()
        """Of each frame: its rule, where it begins, and its first item."""
        self._waiting = _numbers()
        self._all_waiting = _Lists()
        self.run_frame, self.run_end = _numbers(), _numbers()
        self._run_items = _numbers()
        self._all_run_items = _Lists()
        self._items: dict[tuple[int, int, int], int] = {}
        """Those at the current place, by state, frame and names."""
        self._frames: dict[int, int] = {}
        """Those that begin at the current place, by rule."""
        self._runs: dict[int, int] = {}
        """Those that end at the current place, by frame."""
        self._starting: dict[int, Thread] = {}
        """Terminals that begin at the current place, by their first state."""
        self._tokens: list[tuple[Token, int, int]] = []
        self._todo: list[int] = []
        self.threads: list[Thread] = []
        """Terminals that can go on at the current place."""
        self.text = bytearray()
        self.root = self._frame_of(0)
        self._close()

    # What was found.

    def items_here(self) -> Iterator[int]:
        """The items at the end of the text."""
        return iter(self._items.values())

    def run_here(self, frame: int) -> int:
        """The run of a frame that ends where the text ends, or NONE."""
        return self._runs.get(frame, NONE)

    def links(self, item: int) -> Iterator[tuple[int, int, int]]:
        """How it is reached: an item before, which of its moves was taken, and the run, if the move reads a rule that
        has read something."""
        return self._all_links.of(self._links[item])

    def waiting(self, frame: int) -> Iterator[tuple[int, int]]:
        """The items that wait for a frame, and which of their moves."""
        return ((item, move) for item, move, _ in self._all_waiting.of(self._waiting[frame]))

    def items_of(self, run: int) -> list[int]:
        """The items with which a run ends."""
        return [item for item, _, _ in self._all_run_items.of(self._run_items[run])]

    # Reading.

    def read(self, steps: Sequence[Step]) -> None:
        """The whole text. If nothing is open after a step, the rest is not read."""
        for number, step in enumerate(steps):
            self._work.spend(1)
            named = [
                (item, move)
                for token, item, move in self._tokens
                if step.token is not None and (step.token in token.ids) is not token.negate
            ]
            if step.is_text:
                following = steps[number + 1] if number + 1 < len(steps) else None
                self._read_bytes(step.data, named, _first_byte(following))
            elif named or not step.may_end:
                self.text += step.data
                self.threads = []
                self._next_place()
                self._read_by(named)
                self._close()
            if not self._items and not self.threads:
                return

    def _read_bytes(self, data: bytes, named: list[tuple[int, int]], following: int) -> None:
        last = len(data) - 1
        for place, byte in enumerate(data):
            if place < last:
                self._read_byte(byte, data[place + 1], [])
            else:
                self._read_byte(byte, following, named)
            if not self._items and not self.threads:
                return

    def _next_place(self) -> None:
        self._items, self._frames, self._runs, self._starting, self._tokens = {}, {}, {}, {}, []

    def _read_byte(self, byte: int, following: int, named: list[tuple[int, int]]) -> None:
        place = len(self.text)
        after = self._terminals.after
        self._work.spend(1 + len(self.threads))
        going: list[Thread] = []
        for thread in self.threads:
            thread.state = after(thread.state, byte)
            if thread.state != NEVER:
                going.append(thread)
        if self._longest and going and going[0].place < place:
            going = [thread for thread in going if thread.place < place]
        self.threads = going
        self.text.append(byte)
        if self._items or self._tokens:
            self._next_place()
        for thread in going:
            if self._ends_here(thread.state, following):
                self._read_by(thread.waiting)
        if named:
            self._read_by(named)
        self._close()

    def _ends_here(self, state: int, following: int) -> bool:
        if not self._terminals.ends(state):
            return False
        goes_on = self._greedy and following != NONE and self._terminals.after(state, following) != NEVER
        return not goes_on

    def _read_by(self, waiting: list[tuple[int, int]]) -> None:
        """What waited for a terminal or a token has it."""
        for item, move in waiting:
            reads, after = self._network.moves[self.state[item]][move]
            names = self._names[item]
            if isinstance(reads, OneName):
                known = self._known_names[names]
                name = spelled(bytes(self.text[self.place[item] :]), reads.node)
                if name in known:
                    continue
                if reads.node.name is not None or len(known) < self._object_keys:
                    names = self._number_names(known | {name})
            self._reach(after, self.frame[item], names, item, move, NONE)

    def _number_names(self, names: Names) -> int:
        self._work.spend(1 + len(names) // 8)
        number = self._number_of.setdefault(names, len(self._known_names))
        if number == len(self._known_names):
            self._known_names.append(names)
        return number

    # What follows without reading.

    def _close(self) -> None:
        todo = self._todo
        while todo:
            item = todo.pop()
            moves = self._network.moves[self.state[item]]
            self._work.spend(2 + 2 * len(moves))
            for move, (reads, after) in enumerate(moves):
                self._move(item, move, reads, after)

    def _move(self, item: int, move: int, reads: Reads, after: int) -> None:
        if isinstance(reads, End):
            self._end(item)
        elif isinstance(reads, Rule):
            frame = self._frame_of(reads.number)
            self._waiting[frame] = self._all_waiting.add(self._waiting[frame], item, move)
            if self._network.empty_rank[reads.number]:
                self._pass(item, move, after)
        elif isinstance(reads, (Text, OneName)):
            thread = self._starting.get(reads.first)
            if thread is None:
                thread = self._starting[reads.first] = Thread(len(self.text), reads.first)
                self.threads.append(thread)
            thread.waiting.append((item, move))
            if isinstance(reads, Text) and self._terminals.ends(reads.first):
                self._pass(item, move, after)
        elif isinstance(reads, Token):
            self._tokens.append((reads, item, move))
        else:
            assert isinstance(reads, Check)
            names = {spelled(b"", reads.node, name) for name in reads.node.names}
            if (names <= self._known_names[self._names[item]]) != reads.node.negate:
                self._pass(item, move, after)

    def _pass(self, item: int, move: int, after: int) -> None:
        """Goes on without reading. Where that may lead back, links lead to what is found later alone."""
        known = self._items.get((after, self.frame[item], self._names[item]))
        if known is not None and known <= item:
            loop = self._network.state_loop
            if loop[after] == loop[self.state[item]]:
                return
        self._reach(after, self.frame[item], self._names[item], item, move, NONE)

    def _frame_of(self, rule: int) -> int:
        frame = self._frames.get(rule)
        if frame is None:
            frame = self._frames[rule] = len(self.rule)
            self.rule.append(rule)
            self.begin.append(len(self.text))
            self._waiting.append(NONE)
            self.first.append(self._item(self._network.first[rule], frame, 0))
        return frame

    def _end(self, item: int) -> None:
        frame, place = self.frame[item], len(self.text)
        if self.begin[frame] == place:
            return  # what reads nothing is passed
        run = self._runs.get(frame)
        if run is not None:
            self._run_items[run] = self._all_run_items.add(self._run_items[run], item)
            return
        run = self._runs[frame] = len(self.run_frame)
        self.run_frame.append(frame)
        self.run_end.append(place)
        self._run_items.append(self._all_run_items.add(NONE, item))
        for waiter, move in self.waiting(frame):
            after = self._network.moves[self.state[waiter]][move][1]
            self._reach(after, self.frame[waiter], self._names[waiter], waiter, move, run)

    def _reach(self, state: int, frame: int, names: int, before: int, move: int, run: int) -> None:
        self._work.spend(2)
        item = self._items.get((state, frame, names))
        if item is None:
            item = self._item(state, frame, names)
        self._links[item] = self._all_links.add(self._links[item], before, move, run)

    def _item(self, state: int, frame: int, names: int) -> int:
        self._work.spend(2)
        item = self._items[state, frame, names] = len(self.state)
        self.state.append(state)
        self.place.append(len(self.text))
        self.frame.append(frame)
        self._names.append(names)
        self._links.append(NONE)
        self._todo.append(item)
        return item


def _first_byte(step: Step | None) -> int:
    return step.data[0] if step is not None and step.is_text and step.data else NONE
