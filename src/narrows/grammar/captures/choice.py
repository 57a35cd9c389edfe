"""Chooses one reading of a text out of its chart, and says what is captured in it.

In each run of a rule, from its left: of the moves that lead to the end of the run, the first one is taken, and of the
texts that it may read the longest. So alternatives go in their order, repetitions and optional parts are taken where
they can be, and a terminal or a rule reads as much as it can. A rule that may read a text by way of itself alone goes
round no such way.

A text that is not finished is read in the same way. What is open at its end counts as the longest.

Cost: linear in the items and links of the chart. Nothing recurses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Union

from narrows.grammar import ir
from narrows.grammar.captures.chart import NONE, Chart
from narrows.grammar.captures.network import End, Network, Rule
from narrows.grammar.work import Work


@dataclass(frozen=True, slots=True)
class Found:
    """A text that was captured: bytes `start` to `end`."""

    what: ir.Capture
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of a rule that is complete."""

    number: int


@dataclass(frozen=True, slots=True)
class _Empty:
    """A run of a rule that reads nothing."""

    rule: int
    place: int


@dataclass(slots=True)
class _Open:
    """Runs of one frame that are not complete."""

    frame: int
    rank: int
    """Frames that are known to be open because of this one have larger ranks."""
    ends: list[tuple[int, int, int]] = field(default_factory=list)
    """An item, the move that is open, and the frame, if that move reads a rule. At the end of the text: NONE for the
    move."""


_Part = Union[_Run, _Open, _Empty]


@dataclass(frozen=True, slots=True)
class _Passed:
    """Something that was read up to a place, without rules in it."""

    end: int


@dataclass(frozen=True, slots=True)
class _Begins:
    """A reading of a part, from a place."""

    part: _Part
    reads: Rule
    start: int


@dataclass(frozen=True, slots=True)
class _Ends:
    """Where the text of a capture ends. `found`: its place in the list."""

    found: int
    what: ir.Capture
    start: int


_Piece = Union[_Passed, _Begins, _Ends]
_Way = tuple[int, int, int]
"""A move, the item that it leads to, and the run that it reads."""


class Choice:
    def __init__(self, chart: Chart, network: Network, work: Work) -> None:
        self._chart = chart
        self._network = network
        self._work = work
        self._open: dict[int, _Open] = {}
        """By their frames."""

    def whole(self) -> list[Found] | None:
        """What is captured in the whole text. None if the grammar does not have it."""
        if not self._chart.text:
            return self._captured(_Empty(0, 0)) if self._network.empty_rank[0] else None
        run = self._chart.run_here(self._chart.root)
        return None if run == NONE else self._captured(_Run(run))

    def unfinished(self) -> list[Found] | None:
        """What is captured in rules that are complete, in a text that may go on. None if it may not."""
        self._find_open()
        opened = self._open.get(self._chart.root)
        return None if opened is None else self._captured(opened)

    # The walk through the parts of a reading.

    def _captured(self, root: _Part) -> list[Found]:
        found: list[Found | None] = []
        solid = 0  # the end of what was read and is not ignored
        todo = self._pieces(root)[::-1]
        while todo:
            piece = todo.pop()
            self._work.spend(1)
            if isinstance(piece, _Passed):
                solid = piece.end
            elif isinstance(piece, _Ends):
                found[piece.found] = Found(piece.what, piece.start, max(solid, piece.start))
            elif not piece.reads.is_ignored:
                capture = piece.reads.capture
                if capture is not None and not isinstance(piece.part, _Open):
                    todo.append(_Ends(len(found), capture, piece.start))
                    found.append(None)
                todo += reversed(self._pieces(piece.part))
        return [one for one in found if one is not None]

    def _pieces(self, part: _Part) -> list[_Piece]:
        if isinstance(part, _Empty):
            return self._pieces_of_nothing(part)
        return self._pieces_of_run(part.number) if isinstance(part, _Run) else self._pieces_of_open(part)

    # A complete run.

    def _pieces_of_run(self, run: int) -> list[_Piece]:
        ends = self._chart.items_of(run)
        onward = self._onward(ends, run)
        last = set(ends)
        pieces: list[_Piece] = []
        item = self._chart.first[self._chart.run_frame[run]]
        while True:
            way = onward.get(item)
            if item in last and (way is None or self._end_of(item) < way[0]):
                return pieces
            assert way is not None
            pieces += self._piece(item, way)
            item = way[1]

    def _onward(self, ends: Iterable[int], run: int = NONE) -> dict[int, _Way]:
        """Item -> of the moves from it that lead to one of these ends, the first one, and its longest text."""
        chart = self._chart
        onward: dict[int, _Way] = {}
        seen = set(ends)
        todo = list(seen)
        while todo:
            item = todo.pop()
            place = chart.place[item]
            for before, move, child in chart.links(item):
                self._work.spend(1)
                if run != NONE and child != NONE and self._turns(run, child):
                    continue
                known = onward.get(before)
                if known is None or (move, -place) < (known[0], -chart.place[known[1]]):
                    onward[before] = move, item, child
                if before not in seen:
                    seen.add(before)
                    todo.append(before)
        return onward

    def _turns(self, run: int, child: int) -> bool:
        """Whether a part of a run may be read by way of this run again. Runs are numbered as they are found, and each
        is found by way of others that were found before."""
        chart = self._chart
        frame, inner = chart.run_frame[run], chart.run_frame[child]
        if child < run or (chart.begin[frame], chart.run_end[run]) != (chart.begin[inner], chart.run_end[child]):
            return False
        loop = self._network.rule_loop
        return loop[chart.rule[frame]] == loop[chart.rule[inner]]

    def _moves(self, item: int) -> tuple[tuple[object, int], ...]:
        return self._network.moves[self._chart.state[item]]

    def _end_of(self, item: int) -> int:
        """Which of its moves is the end of the rule."""
        return next(move for move, (reads, _) in enumerate(self._moves(item)) if isinstance(reads, End))

    def _piece(self, item: int, way: _Way) -> list[_Piece]:
        move, after, run = way
        place = self._chart.place
        reads = self._moves(item)[move][0]
        if isinstance(reads, Rule):
            part = _Empty(reads.number, place[item]) if run == NONE else _Run(run)
            return [_Begins(part, reads, place[item])]
        return [_Passed(place[after])] if place[after] > place[item] else []

    # A run that reads nothing.

    def _pieces_of_nothing(self, part: _Empty) -> list[_Piece]:
        network = self._network
        first = network.first[part.rule]
        came: dict[int, tuple[int, Rule | None]] = {}
        todo: list[tuple[int, int, Rule | None]] = [(first, NONE, None)]
        while True:
            state, before, by = todo.pop()
            if state == NONE:
                break
            if state in came:
                continue
            came[state] = before, by
            self._work.spend(1 + len(network.moves[state]))
            for reads, after in reversed(network.moves[state]):
                if isinstance(reads, End):
                    todo.append((NONE, state, None))
                elif network.reads_nothing(reads) and not network.turns_empty(part.rule, reads):
                    todo.append((after, state, reads if isinstance(reads, Rule) else None))
        pieces: list[_Piece] = []
        while before != NONE:
            before, by = came[before]
            if by is not None:
                pieces.append(_Begins(_Empty(by.number, part.place), by, part.place))
        return pieces[::-1]

    # Runs that are not complete.

    def _find_open(self) -> None:
        """What is open in each frame at the end of the text."""
        chart = self._chart
        todo: list[int] = []

        def opens(item: int, move: int, inner: int) -> None:
            frame = chart.frame[item]
            if frame not in self._open:
                self._open[frame] = _Open(frame, len(self._open))
                todo.append(frame)
            self._open[frame].ends.append((item, move, inner))

        for item in chart.items_here():
            opens(item, NONE, NONE)
        for thread in chart.threads:
            if thread.place < len(chart.text):
                for item, move in thread.waiting:
                    opens(item, move, NONE)
        while todo:
            frame = todo.pop()
            for item, move in chart.waiting(frame):
                self._work.spend(1)
                opens(item, move, frame)

    def _pieces_of_open(self, opened: _Open) -> list[_Piece]:
        chart = self._chart
        ways: dict[int, tuple[int, int]] = {}
        """Item -> the first of its moves that is open, and the frame that it reads."""
        for item, move, frame in opened.ends:
            begin = chart.begin[opened.frame]
            if frame == NONE or chart.begin[frame] > begin or self._open[frame].rank < opened.rank:
                ways[item] = min(ways.get(item, (move, frame)), (move, frame))
        onward = self._onward(ways)
        pieces: list[_Piece] = []
        item = chart.first[opened.frame]
        while True:
            way, inner = onward.get(item), ways.get(item)
            if inner is not None and (way is None or inner[0] <= way[0]):
                if inner[1] != NONE:
                    reads = self._moves(item)[inner[0]][0]
                    assert isinstance(reads, Rule)
                    pieces.append(_Begins(self._open[inner[1]], reads, chart.place[item]))
                return pieces
            assert way is not None
            pieces += self._piece(item, way)
            item = way[1]
