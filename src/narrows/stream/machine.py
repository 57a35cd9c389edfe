"""The state of a stream parser: the unread text, the open call, and the events so far.

A parser is a chain of *regions*: text until a marker, a name until its end, a JSON value, an XML value. The active
region reads what it can from the machine. Then it names the region that takes over, or waits for more text. Regions of
text have no state of their own, and answers share them. The format's family builds the regions of a call once per
parser, when the first call begins. Each of those has its own small state. Only regions move the machine forward, apart
from plain text that a region leaves to the core (`machine.run`).

The machine keeps three rules, so that no region can break them:

1. Every character is taken exactly once, in order. An event's span is the text that was taken for it.
2. From an opening marker until its call has started, the text that is taken is also held. `give_back` returns it as
   text.
3. Events are final. An emitted event never changes, and a call that has started always ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.stream.held import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from narrows._core import Run
    from narrows.stream.source import Alphabet
    from narrows.tools.request import Tools


BEFORE_CALLS = ("opening", "after", "closing")
"""Places of text in which only calls may come, in an answer that must hold nothing but calls."""
CUT = "the text ends inside the call"


@dataclass(frozen=True, slots=True)
class Due:
    """What is known about an answer before it comes."""

    call: bool = False
    """The answer is calls and nothing else, after its reasoning: `tool_choice` is required, or names a tool."""
    grammar: bool = False
    """The answer was held to the format's grammar. Whatever opens a call becomes one, and only calls follow calls."""


NOTHING_DUE = Due()
_SHORT = 64
"""Characters. Shorter pieces of arguments are joined."""


class Region(Protocol):
    """One kind of place in a transcript. A region never looks back, and never reads text that another has taken."""

    @property
    def place(self) -> str:
        """See `StreamParser.place`. "": the place of the text before, of which what is read may still be a part."""

    def enter(self, machine: Machine) -> Region:
        """Reset the state of the last visit. Called before the first `read` of a visit. Returns the region itself."""

    def read(self, machine: Machine) -> Region | None:
        """Take the text that can be taken. Returns the region that goes on, or None to wait for more text."""

    def stop(self, machine: Machine) -> None:
        """The text has ended here, and `read` was called for the last time: emit what is left."""


class Home(Region, Protocol):
    """A region of running text. If a call does not come about, its text goes back to this region."""

    @property
    def kind(self) -> type[Content] | type[Reasoning]:
        """The kind of event that its text becomes."""

    def resume(self, machine: Machine) -> Region:
        """Go on reading in the middle of text."""


def _no_shapes(shape: int) -> Sequence[Region]:
    """Of a machine that reads no answer."""
    raise AssertionError(f"there is no shape {shape}")


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
        "fresh",
        "given",
        "has_text",
        "home",
        "layout_at",
        "limits",
        "name",
        "offset",
        "pos",
        "run",
        "shapes",
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
        """What the answer must hold. It tells whether text that the answer's end cut was a call's markup or text."""
        self.ended = False
        """The answer is over: anything that is not whole stays so."""
        self.final = False
        self.run: Run | None = None
        """The run that the core reads plain text with (core/stream/run.hpp). A region sets it when its `read` has taken
        all text or waits for more, and when it need not see plain text. The core goes on to other runs that this one is
        linked to."""
        self.offset = 0
        self.events: list[Event] = []
        self.limits = limits
        self.tools = tools
        self.calls = 0
        """The number of calls that have ended. So it is the index of the open call, or of the next one."""
        self.started = False
        """A call is open: its start has been emitted, its end has not."""
        self.name = ""
        """The open call's name."""
        self.thinking = False
        """Reasoning is open."""
        self.wrapped = False
        """Content that an opener set off is open."""
        self.unwrapped = False
        """Content that was set off has just been closed. A grammar allows only calls after it."""
        self.home: Home | None = None
        self.fresh = False
        """In text: nothing but whitespace has come on this visit, and it waits for what follows."""
        self.has_text = False
        """In text: some has been read on this visit. Before a call: the same of the text before it."""
        self.layout_at = 0
        """In layout: the number of its characters that have come."""
        self.shapes: Callable[[int], Sequence[Region]] = _no_shapes
        """The regions that calls begin in: of the shape with this number, one for each of its openers."""
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
        """The names of the open call's arguments, each with its place, if a region keeps them."""
        self.trouble: str | None = None
        """Why the open call will end incomplete, though its markup is whole."""

    def drain(self) -> list[Event]:
        """The events since the last time."""
        events, self.events = self.events, []
        return events

    # Taking text.

    def take(self, end: int) -> str:
        """Move to `end`. Returns the text in between, unchanged (see `clean`)."""
        piece = self.text[self.pos : end]
        self.pos = end
        self.offset += self._width(piece)
        if self._held is not None:
            self._held.add(piece)
            if self._held.size > self.limits.stream_held_chars:
                raise HeldTooLong
        return piece

    def clean(self, piece: str) -> str:
        """The characters of a raw piece. (Markers that came by id and undecodable bytes have private codes.)"""
        return self._clean(piece)

    def say(self, kind: type[Content] | type[Reasoning], end: int) -> None:
        """Emit the text up to `end`."""
        start = self.offset
        self._emit_text(kind, self.take(end), start)

    def say_as(self, kind: type[Content] | type[Reasoning], text: str, end: int) -> None:
        """Emit `text` for the input up to `end`, such as the character of an escape."""
        start = self.offset
        self.take(end)
        self.events.append(kind(text, self._span(start)))

    def _emit_text(self, kind: type[Content] | type[Reasoning], piece: str, start: int) -> None:
        if start < 0:  # the text was held since the prompt: the prompt's part is not the model's
            piece, start = self._alphabet.after(piece, -start), 0
        if piece:
            self.events.append(kind(self.clean(piece), (start, self.offset)))

    def _span(self, start: int) -> tuple[int, int]:
        return (start if start > 0 else 0, self.offset if self.offset > 0 else 0)

    # A call that may come about.

    def hold(self, home: Home, inside: bool = False, sure: bool = True) -> None:
        """An opening marker comes next: hold the text that is taken from here on. `inside`: other calls have opened the
        markup that the marker stands in. `sure`: a grammar allows nothing but a call after it."""
        self.home = home
        self._sure = sure
        self._held = Held()
        self._held_from = self.offset
        if not inside:
            self._opened_at, self._calls_before = self.offset, self.calls

    @property
    def opened_at(self) -> int:
        """The position of the last call's opening markup; negative in the prompt."""
        return self._opened_at

    @property
    def calls_before(self) -> int:
        """The number of calls that had ended at that position."""
        return self._calls_before

    @property
    def holding(self) -> bool:
        return self._held is not None

    def be_sure(self) -> None:
        """From this part of a call's head on, a grammar allows nothing but a call."""
        self._sure = True

    @property
    def cut_off(self) -> bool:
        """Whether the answer is over and the held text could only have become a call, so that it is markup."""
        if not self.ended or self._held is None or self.home is None:
            return False
        if self.due.grammar and (self._sure or self.due.call):
            return True
        return self.due.call and self.home.kind is Content and self.home.place in BEFORE_CALLS and not self.has_text

    def give_back(self) -> Region:
        """There is no call after all: the held text is text, verbatim. Returns the region that goes on, from `pos`."""
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
        """After `HeldTooLong`: the part that may be held is text. Reading goes on right after it, so the result does
        not depend on the chunks."""
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
        """The text has ended inside a call's markup. A call that has started ends incomplete; else it is no call."""
        if self.started:
            self.take(len(self.text))
            self.end_call(CUT)
        else:
            self.give_back().stop(self)

    def let_go(self) -> None:
        """The held text is markup."""
        self._held = None

    def leave_call(self) -> None:
        """The text that follows belongs to no call."""

    # The prompt.

    def begin_answer(self) -> None:
        """The text so far was the prompt: none of it is reported, and calls are counted from here."""
        self.calls = 0
        self.run = None
        if self._held is not None:
            self._held = Held()
            self._held_from = self.offset

    def replay(self, events: list[Event]) -> None:
        """Announce the call that the prompt has begun, with the arguments that the prompt holds. `events`: the prompt's
        events."""
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
        """Emit a piece of arguments for the text that was taken since `start`."""
        if text:
            self.wrote_arguments = True
            self._append(text, (start, self.offset) if start >= 0 else self._span(start))

    def write_held(self, text: str, span: tuple[int, int]) -> None:
        """Emit a piece of arguments that was read earlier."""
        if text:
            self.wrote_arguments = True
            self._append(text, span if span[0] >= 0 else (0, max(span[1], 0)))

    def _append(self, text: str, span: tuple[int, int]) -> None:
        """Append arguments. Short pieces that touch become one event."""
        last = self.events[-1] if self.events else None
        if type(last) is ToolCallArguments and last.span[1] == span[0] and len(last.text) < _SHORT:
            last.text += text
            last.span = (last.span[0], span[1])
        else:
            self.events.append(ToolCallArguments(self.calls, text, span))

    def pass_through(self, end: int) -> None:
        """Emit the text up to `end` as arguments, unchanged."""
        start = self.offset
        self.write(self.clean(self.take(end)), start)

    def end_call(self, reason: str | None = None) -> None:
        """The call is over. It is complete unless there is a `reason` or `trouble`."""
        self.started = self.wrote_arguments = False
        reason = reason or self.trouble
        self.events.append(ToolCallEnd(self.calls, reason is None, reason, self._span(self.offset)))
        self.calls += 1
