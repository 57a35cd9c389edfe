"""The moving part of a stream parser: the text not yet read, the call under way, and the events so far.

A parser is a chain of *regions*: text until a marker, a name until its end, a JSON value, an XML value. The region in
charge reads from the machine what it can and either names the region that takes over or asks for more text. Regions are
built once per parser by the format's family, hold their own small state, and alone move the machine forward, save for
the plain text that a region leaves to the core by `machine.run`.

Three rules are kept here, so that no region can break them:

1. Every character is taken exactly once, in order, and every event's span is what was taken for it.
2. From an opening marker until its call has started, what is taken is also held, and `give_back` returns it as text.
3. Events are final. Nothing that was emitted is changed, and a call that has started always ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.stream.held import Held

if TYPE_CHECKING:
    from collections.abc import Callable

    from narrows._core import Run
    from narrows.stream.source import Alphabet
    from narrows.tools.request import Tools


BEFORE_CALLS = ("opening", "after", "closing")
"""Places of text where nothing but calls is, in an answer that is nothing but calls."""
CUT = "the text ends inside the call"


@dataclass(frozen=True, slots=True)
class Due:
    """What is known of an answer before it comes."""

    call: bool = False
    """It is calls and nothing else, after its reasoning: `tool_choice` is required, or names a tool."""
    grammar: bool = False
    """It was held to the format's grammar: what opens a call becomes one, and after calls only calls come."""


NOTHING_DUE = Due()
_SHORT = 64
"""Characters."""


class Region(Protocol):
    """One kind of place in a transcript. A region never looks back, and never reads what another has taken."""

    @property
    def place(self) -> str:
        """See `StreamParser.place`."""

    def enter(self, machine: Machine) -> Region:
        """Forget the last visit; called before the first `read` of each visit. Returns the region itself."""

    def read(self, machine: Machine) -> Region | None:
        """Take what can be taken. Returns the region that goes on (None: wait for more text)."""

    def stop(self, machine: Machine) -> None:
        """The text has ended here, and `read` has had its last chance: flush what is left."""


class Home(Region, Protocol):
    """A region of running text, where a call that does not come about gives its text back to."""

    @property
    def kind(self) -> type[Content] | type[Reasoning]:
        """What its text is."""

    @property
    def has_text(self) -> bool:
        """Text has been read on this visit."""

    def resume(self, machine: Machine) -> Region:
        """Go on in the middle of text."""


class HeldTooLong(Exception):
    """Raised by `take`, caught by the parser: an opening is longer than `stream_held_chars`."""


class Machine:
    """State of one stream. `text[pos:]` is unread; `offset` is the position of `text[pos]` in the input, negative in
    the prompt."""

    __slots__ = (
        "_alphabet",
        "_calls_before",
        "_clean",
        "_held",
        "_held_from",
        "_ids",
        "_make_id",
        "_opened_at",
        "_sure",
        "_width",
        "calls",
        "due",
        "ended",
        "events",
        "final",
        "given",
        "home",
        "limits",
        "name",
        "offset",
        "pos",
        "run",
        "started",
        "text",
        "thinking",
        "tools",
        "trouble",
        "unwrapped",
        "wrapped",
        "wrote_arguments",
    )

    def __init__(
        self,
        alphabet: Alphabet,
        tools: Tools,
        make_id: Callable[[int], str],
        limits: Limits = DEFAULT_LIMITS,
        due: Due = NOTHING_DUE,
    ) -> None:
        self.text = ""
        self.pos = 0
        self.due = due
        """What the answer must hold: tells what a cut has left of a call's markup from text."""
        self.ended = False
        """The answer is over: what is not whole now never will be."""
        self.final = False
        self.run: Run | None = None
        """Set by a region whose `read` has taken all of the text, or waits for more, where it need not see plain text:
        the core takes such deltas by itself (core/stream/run.hpp), and goes on to other runs where this one is linked
        to them."""
        self.offset = 0
        self.events: list[Event] = []
        self.limits = limits
        self.tools = tools
        self.calls = 0
        """Calls that have ended; the index of the one that is open or comes next."""
        self.started = False
        """A call is open: its start has been emitted, its end has not."""
        self.name = ""
        """The open call's name."""
        self.thinking = False
        """Reasoning was opened and not closed."""
        self.wrapped = False
        """Content was set off by an opener and not closed."""
        self.unwrapped = False
        """Content was set off, and has just been closed: a grammar lets only calls follow."""
        self.home: Home | None = None
        self._alphabet = alphabet
        self._clean, self._width = alphabet.clean, alphabet.width
        self._make_id = make_id
        self._ids: set[str] = set()
        self._held: Held | None = None
        self._held_from = 0
        self._opened_at = self._calls_before = 0
        self._sure = False
        self.wrote_arguments = False
        """Arguments of the open call have been written."""
        self.given: dict[str, int] = {}
        """The names of the open call's arguments, each with its place, where a region keeps them."""
        self.trouble: str | None = None
        """Why the open call will end incomplete, though its markup is whole."""

    def drain(self) -> list[Event]:
        """The events since the last time."""
        events, self.events = self.events, []
        return events

    # Taking text.

    def take(self, end: int) -> str:
        """Move to `end`; returns what was passed, as it stands in `text` (see `clean`)."""
        piece = self.text[self.pos : end]
        self.pos = end
        self.offset += self._width(piece)
        if self._held is not None:
            self._held.add(piece)
            if self._held.size > self.limits.stream_held_chars:
                raise HeldTooLong
        return piece

    def clean(self, piece: str) -> str:
        """The characters that a raw piece stands for (markers by id and undecodable bytes have private codes)."""
        return self._clean(piece)

    def say(self, kind: type[Content] | type[Reasoning], end: int) -> None:
        """Emit the text up to `end`."""
        start = self.offset
        self._emit_text(kind, self.take(end), start)

    def say_as(self, kind: type[Content] | type[Reasoning], text: str, end: int) -> None:
        """Emit other text for what stands up to `end`: what an escape stands for."""
        start = self.offset
        self.take(end)
        self.events.append(kind(text, self._span(start)))

    def _emit_text(self, kind: type[Content] | type[Reasoning], piece: str, start: int) -> None:
        if start < 0:  # text held since the prompt: what the prompt held is not the model's
            piece, start = self._alphabet.after(piece, -start), 0
        if piece:
            self.events.append(kind(self.clean(piece), (start, self.offset)))

    def _span(self, start: int) -> tuple[int, int]:
        return (start if start > 0 else 0, self.offset if self.offset > 0 else 0)

    # A call that may come about.

    def hold(self, home: Home, inside: bool = False, sure: bool = True) -> None:
        """An opening marker comes next: hold what is taken from here on. `inside` markup that other calls have opened;
        `sure`: a grammar lets nothing but a call go on after it."""
        self.home = home
        self._sure = sure
        self._held = Held()
        self._held_from = self.offset
        if not inside:
            self._opened_at, self._calls_before = self.offset, self.calls

    @property
    def opened_at(self) -> int:
        """Where the last call's opening markup begins; negative in the prompt."""
        return self._opened_at

    @property
    def calls_before(self) -> int:
        """Calls that had ended where that markup begins."""
        return self._calls_before

    @property
    def holding(self) -> bool:
        return self._held is not None

    def be_sure(self) -> None:
        """So much of a call's head has come that a grammar lets nothing but a call go on."""
        self._sure = True

    @property
    def cut_off(self) -> bool:
        """The answer is over, and what is held can only have become a call: it is markup."""
        if not self.ended or self._held is None or self.home is None:
            return False
        if self.due.grammar and (self._sure or self.due.call):
            return True
        return (
            self.due.call and self.home.kind is Content and self.home.place in BEFORE_CALLS and not self.home.has_text
        )

    def give_back(self) -> Region:
        """No call after all: what was held is text, verbatim. Returns the region that goes on, from `pos`."""
        home, held, start = self.home, self._held, self._held_from
        assert home is not None
        assert held is not None
        cut_off, self._held = self.cut_off, None
        if cut_off:
            self.take(len(self.text))
            return home.resume(self)
        self._emit_text(home.kind, held.text, start)
        return home.resume(self)

    def give_back_part(self) -> Region:
        """After `HeldTooLong`: as much as may be held is text, and reading goes on right after it, whatever the
        chunks."""
        assert self._held is not None
        assert self.home is not None
        text = self._held.text
        keep = self.limits.stream_held_chars
        rest = text[keep:]
        self.offset -= self._alphabet.width(rest)
        self.text = rest + self.text[self.pos :]
        self.pos = 0
        self._held = Held(text[:keep])
        return self.give_back()

    def cut(self) -> None:
        """The text has ended in the middle of a call's markup: the call ends incomplete, or was no call."""
        if self.started:
            self.take(len(self.text))
            self.end_call(CUT)
        else:
            self.give_back().stop(self)

    def let_go(self) -> None:
        """What was held is markup."""
        self._held = None

    def leave_call(self) -> None:
        """What comes next belongs to no call."""

    # The prompt.

    def begin_answer(self) -> None:
        """What was read so far was the prompt: nothing of it is reported, and calls are counted from here."""
        self.calls = 0
        self.run = None
        if self._held is not None:
            self._held = Held()
            self._held_from = self.offset

    def replay(self, events: list[Event]) -> None:
        """Announce the call that the prompt has begun, with the arguments that it holds already. `events`: the
        prompt's."""
        last = max(i for i, event in enumerate(events) if isinstance(event, ToolCallStart))
        for event in events[last:]:
            if isinstance(event, ToolCallStart):
                call_id = self._make_id(0) if event.index else event.id
                self.events.append(ToolCallStart(0, call_id, event.name, (0, 0), event.known))
            elif isinstance(event, ToolCallArguments):
                self.events.append(ToolCallArguments(0, event.text, (0, 0)))
            elif isinstance(event, ToolCallEnd):
                self.events.append(ToolCallEnd(0, event.complete, event.reason, (0, 0)))
                self.calls = 1

    # The call under way.

    def start_call(self, name: str, span: tuple[int, int], wire_id: str | None = None) -> None:
        """Announce the call. A wire id is kept unless it is empty or used before in this answer."""
        self._held = None
        self.name = name
        self.started = True
        self.wrote_arguments = False
        self.given.clear()
        self.trouble = None
        index = self.calls
        call_id = wire_id if wire_id and wire_id not in self._ids else self._make_id(index)
        self._ids.add(call_id)
        span = (max(span[0], 0), max(span[1], 0))
        self.events.append(ToolCallStart(index, call_id, name, span, self.tools.knows(name)))

    def write(self, text: str, start: int) -> None:
        """Emit a piece of arguments that stands for what was taken since `start`."""
        if text:
            self.wrote_arguments = True
            self._append(text, (start, self.offset) if start >= 0 else self._span(start))

    def write_held(self, text: str, span: tuple[int, int]) -> None:
        """Emit a piece of arguments that was read earlier."""
        if text:
            self.wrote_arguments = True
            self._append(text, span if span[0] >= 0 else (0, max(span[1], 0)))

    def _append(self, text: str, span: tuple[int, int]) -> None:
        """Short pieces that touch are one event from the start."""
        last = self.events[-1] if self.events else None
        if type(last) is ToolCallArguments and last.span[1] == span[0] and len(last.text) < _SHORT:
            last.text += text
            last.span = (last.span[0], span[1])
        else:
            self.events.append(ToolCallArguments(self.calls, text, span))

    def pass_through(self, end: int) -> None:
        """Emit the text up to `end` as arguments, as the model wrote it."""
        start = self.offset
        self.write(self.clean(self.take(end)), start)

    def end_call(self, reason: str | None = None) -> None:
        """The call is over: complete, or not for this reason."""
        self.started = self.wrote_arguments = False
        reason = reason or self.trouble
        self.events.append(ToolCallEnd(self.calls, reason is None, reason, self._span(self.offset)))
        self.calls += 1
