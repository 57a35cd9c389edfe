"""The stream parser: characters, bytes or token ids in, typed events out.

It does no I/O. It is fed the text that has arrived and returns the new events; the chunks make no difference to the
result. The work per delta depends on the delta alone: a fifth of a microsecond where it is plain, which the core reads
(core/stream/run.hpp), else a few microseconds. It holds back at most a possible marker without its last character, an
open name or header, and a value whose type or name is undecided, each under a field of `Limits`.

It raises only on misuse (`InputError`). No text makes it fail.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from narrows._core import RunReader
from narrows.errors import InputError
from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.stream.machine import NOTHING_DUE, Due, HeldTooLong, Machine
from narrows.stream.regions.text import Text
from narrows.stream.source import OF_BYTES, OF_TEXT, Alphabet, Decoder, MarkerAlphabet, TokenDecoder
from narrows.stream.whole import WholeCallsMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from narrows.limits import Limits
    from narrows.stream.machine import Region
    from narrows.tokens import TokenVocabulary
    from narrows.tools.request import Tools

_PLAIN = 1024
"""Characters of the longest delta that is read character by character. For longer ones searching is faster."""
_BLOCK = 8192
"""Characters read at a time. A search for a marker never looks further than this, so the time stays linear."""


class StreamParser(RunReader):
    """Parses one answer. Made by `Format.parser`; used by one thread at a time."""

    def __init__(
        self,
        build: Callable[[Alphabet], tuple[Region, Callable[[int], Sequence[Region]]]],
        markers: Callable[[], tuple[str, ...]],
        tools: Tools,
        make_id: Callable[[int], str],
        limits: Limits,
        open_text: str = "",
        vocab: TokenVocabulary | None = None,
        hold_calls: bool = False,
        due: Due = NOTHING_DUE,
        lead: str = "",
    ) -> None:
        """`build` gives the region that the answer begins in, and `Machine.shapes`. `markers`: all that a vocabulary
        may hold as one token; asked for where the parser is fed token ids. `open_text`: the part of the prompt that
        the answer continues. `due`: what the answer must hold. `lead`: comes before an answer that begins in
        reasoning."""
        self._block = min(_BLOCK, limits.stream_held_chars)
        super().__init__(ToolCallArguments, min(_PLAIN, self._block))
        self._build = build
        self._markers = markers
        self._tools = tools
        self._make_id = make_id
        self._limits = limits
        self._open_text = open_text
        self._vocab = vocab
        self._hold_calls = hold_calls
        self._due = due
        self._lead = lead
        self._kind = ""
        self._finished = False
        self._decoder: Decoder | None = None
        self._tokens: TokenDecoder | None = None
        self._machine: Machine | None = None
        self._prompt_calls = 0, 0
        self._position = 0
        self._region: Region | None = None

    def _feed(self, text: str) -> list[Event]:
        """Read a delta that is not plain. `feed` itself belongs to the core, which saves the cost of Python calls."""
        if not isinstance(text, str):
            raise InputError(
                f"feed takes str, not {type(text).__name__}", code="feed_invalid", hint="For bytes: feed_bytes"
            )
        if self._kind != "text" or self._finished:
            self._use("text")
        return self._read(text)

    def feed_bytes(self, data: bytes) -> list[Event]:
        """Read more UTF-8. Characters may be cut anywhere. Bytes that are no UTF-8 become U+FFFD. Spans count bytes."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise InputError(f"feed_bytes takes bytes, not {type(data).__name__}", code="feed_invalid")
        self._use("bytes")
        assert self._decoder is not None
        return self._push(self._decoder.decode(bytes(data)))

    def feed_tokens(self, ids: Iterable[int]) -> list[Event]:
        """Read more token ids of the parser's vocabulary. If the vocabulary has a marker as one token, only that id is
        the marker."""
        self._use("tokens")
        assert self._tokens is not None
        text = self._tokens.decode(ids)
        self._position += len(text)
        return self._push(text)

    def feed_spelled(self, text: str) -> list[Event]:
        """Read more text, in a parser that is fed ids: text of ordinary tokens that the caller has decoded. A marker
        that the vocabulary holds as one token is text here."""
        if not isinstance(text, str):
            raise InputError(f"feed_spelled takes str, not {type(text).__name__}", code="feed_invalid")
        self._use("tokens")
        assert self._tokens is not None
        text = self._tokens.end() + text
        self._position += len(text)
        return self._push(text)

    def finish(self) -> list[Event]:
        """The answer has ended: emits what was held. A second call returns nothing; feeding after it raises."""
        if self._finished:
            return []
        if not self._kind:
            self._use("text")
        rest = self._tokens.end() if self._tokens else self._decoder.decode(b"", final=True) if self._decoder else ""
        self._finished = True
        machine = self._machine
        assert machine is not None
        events = self._read("") if rest else []  # the core may hold what is unread
        machine.ended = True
        if rest and self._is_markup(machine):
            rest = ""  # half a character of a marker
        events += self._read(rest)
        machine.final = True
        events += self._read("")
        assert self._region is not None
        self._region.stop(machine)
        self._disarm()
        return join([*events, *machine.drain()])

    def _is_markup(self, machine: Machine) -> bool:
        """Whether the answer has ended at a point where only more of a call's markup could come."""
        if machine.started:
            return False
        return machine.cut_off or (isinstance(self._region, Text) and self._region.is_markup(machine))

    @property
    def position(self) -> int:
        """The number of characters of the ids so far, in a parser that is fed ids: where their text ends, as spans
        count it."""
        return self._position

    @property
    def place(self) -> str:
        """Where the text so far ends: "opening" (only whitespace so far), "reasoning", "content", "call" (inside a
        call), "closing" (after a call whose closing marker, or list's end, must follow), "after" (after a call)."""
        machine = self._machine
        if machine is None:
            return "opening"
        if machine.started:
            return "call"
        place = self._region.place if self._region is not None else "opening"
        return place or (machine.home.place if machine.home is not None else "opening")

    @property
    def unread(self) -> str:
        """The text that has come and waits for more, since it may be the beginning of a marker."""
        machine = self._machine
        if machine is None:
            return ""
        return machine.text[machine.pos :] if machine.run is None else self._unread

    @property
    def call_begins_at(self) -> int:
        """The position in the input where the last call's markup begins; negative in the prompt."""
        return self._machine.opened_at if self._machine is not None else 0

    @property
    def prompt_calls(self) -> tuple[int, int]:
        """Two counts for the prompt: calls before the last call's markup, and all calls that have begun."""
        return self._prompt_calls

    # Set-up, at the first delta: only then is the kind of input known.

    def _use(self, kind: str) -> None:
        if self._finished:
            raise InputError("the stream has been finished", code="stream_finished", hint="Make a parser per answer")
        if self._kind == kind:
            return
        if self._kind:
            raise InputError(f"this parser was fed {self._kind}; it cannot take {kind}", code="feed_mixed")
        alphabet: Alphabet
        if kind == "tokens":
            if self._vocab is None:
                raise InputError(
                    "feed_tokens needs the vocabulary", code="vocab_missing", hint="Pass vocab= to parser()"
                )
            alphabet = MarkerAlphabet(self._markers(), self._vocab)
            self._tokens = TokenDecoder(self._vocab, alphabet)
        elif kind == "bytes":
            alphabet, self._decoder = OF_BYTES, Decoder()
        else:
            alphabet = OF_TEXT
        self._kind = kind
        if kind == "text":
            self._take_any_text()
        kind_of_machine = WholeCallsMachine if self._hold_calls else Machine
        self._machine = machine = kind_of_machine(alphabet, self._tools, self._make_id, self._limits, self._due)
        start, machine.shapes = self._build(alphabet)
        self._region = start.enter(machine)
        if self._open_text:
            self._read_prompt(alphabet)
        if self._lead and self.place == "reasoning":
            machine.events.append(Content(self._lead, (0, 0)))

    def _read_prompt(self, alphabet: Alphabet) -> None:
        """Bring the machine to the prompt's end. A call that is open there is announced with the first delta."""
        machine = self._machine
        assert machine is not None
        text = alphabet.encode(self._open_text)
        machine.offset = -alphabet.width(text)
        events = self._read(text)
        under_way = machine.started or (machine.holding and self.place != "closing")
        self._prompt_calls = machine.calls_before, machine.calls + under_way
        machine.begin_answer()
        self._disarm()
        if machine.started or self.place == "closing":
            machine.replay(events)

    # Reading.

    def _push(self, text: str) -> list[Event]:
        """Read text. Most deltas are a few plain characters of a string, text, name or marker; no region reads them."""
        events = self._read_plain(text)
        return self._read(text) if events is None else events

    def _read(self, text: str) -> list[Event]:
        machine = self._machine
        assert machine is not None
        if machine.run is not None:
            machine.offset, unread, resume, named = self._disarm()
            if resume is not None:
                self._region = resume(machine, named)
        else:
            unread = machine.text[machine.pos :]
        if len(text) <= self._block:
            self._advance(machine, unread + text)
        else:
            for begin in range(0, len(text), self._block):
                self._advance(machine, unread + text[begin : begin + self._block])
                unread = machine.text[machine.pos :]
        if machine.run is not None:
            if self._hold_calls:
                machine.run = None
            else:
                self._arm(machine.run, machine.calls, machine.offset, machine.text[machine.pos :])
        events = machine.drain()
        return join(events) if len(events) > 1 else events

    def _advance(self, machine: Machine, unread: str) -> None:
        machine.text, machine.pos, machine.run = unread, 0, None
        following = self._region
        while following is not None:
            region = following
            try:
                following = region.read(machine)
            except HeldTooLong:
                following = machine.give_back_part()
        self._region = region


def join(events: list[Event]) -> list[Event]:
    """The events, with adjacent ones of the same kind joined. Linear."""
    if not any(type(a) is type(b) and a.span[1] == b.span[0] for a, b in pairwise(events)):
        return events
    joined: list[Event] = []
    run: list[Content | Reasoning | ToolCallArguments] = []
    for event in events:
        if isinstance(event, (ToolCallStart, ToolCallEnd)):
            _close(run, joined)
            joined.append(event)
            continue
        if run and (type(run[0]) is not type(event) or run[-1].span[1] != event.span[0]):
            _close(run, joined)
        run.append(event)
    _close(run, joined)
    return joined


def _close(run: list[Content | Reasoning | ToolCallArguments], joined: list[Event]) -> None:
    if not run:
        return
    first = run[0]
    if len(run) == 1:
        joined.append(first)
    else:
        text = "".join(event.text for event in run)
        span = (first.span[0], run[-1].span[1])
        if isinstance(first, ToolCallArguments):
            joined.append(ToolCallArguments(first.index, text, span))
        else:
            joined.append(type(first)(text, span))
    run.clear()
