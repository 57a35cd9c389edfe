"""What every family offers, and what its regions are built from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from narrows.events import Content
from narrows.stream.markers import Exit
from narrows.stream.regions.message_head import HeadMarkers, MessageHead
from narrows.stream.regions.raw_arguments import RawArguments
from narrows.stream.regions.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from narrows.formats.reasoning import Head
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.message_head import Parts
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True)
class Entry:
    """A way into a call: an opening marker, the region behind it, and the character it begins with ("" for any)."""

    marker: str
    region: Region
    first: str = ""
    keep: bool = False
    """The marker is the beginning of what the region reads: a bracket."""
    at_start: bool = False
    """Calls begin here only where the answer begins, or goes on behind its reasoning."""
    second: str = ""
    """The character behind that one (blanks apart), where other ways into a call begin with the same."""
    opener: ir.Node | None = None
    """What the parser takes for the beginning of a call, as a regular node, where the marker alone does not make it one."""


@dataclass(slots=True)
class Build:
    """The regions of one parser while they are being made. Where calls may lead on to further calls is filled in last."""

    encode: Callable[[str], str]
    """A marker as it stands in the text."""
    parallel: bool
    named: str | None = None
    """The tool that the request names."""
    calls: bool = True
    """False: nothing is a call; entries are there for what else a shape reads."""
    names: tuple[str, ...] | None = None
    """The tools' names, where openers depend on them (a grammar's)."""
    head: Head | None = None
    """How messages are headed, where they are."""
    said: dict[str, Region] = field(default_factory=dict)
    """Where a message that is no call goes on, by its channel."""
    after: Text = field(default_factory=lambda: Text(Content, "after", fresh=True))
    """The text behind a call."""
    tails: list[tuple[Text, tuple[Exit, ...]]] = field(default_factory=list)
    raws: list[tuple[RawArguments, tuple[Exit, ...]]] = field(default_factory=list)

    def tail(self, *closers: str) -> Text:
        """The text behind a call one of whose closing markers is still due; empty ones are none."""
        return self.tail_until(*self.closing(closers, self.after)) if any(closers) else self.after

    def tail_until(self, *exits: Exit) -> Text:
        """The text behind a call where one of these is due."""
        text = Text(Content, "closing", fresh=True)
        self.tails.append((text, exits))
        return text

    def raw(self, *exits: Exit) -> RawArguments:
        """Where the rest of a broken call goes until one of these, or until the next call."""
        region = RawArguments(self.after)
        self.raws.append((region, exits))
        return region

    def heads(self, call: Callable[[Machine, Parts], Region | None] | None) -> list[Entry]:
        """The ways into the head of a message. `call` reads on in a message to a tool (None: that is text)."""
        head = self.head
        assert head is not None
        encode = self.encode
        markers = HeadMarkers(
            start=encode(head.start),
            channel=encode(head.channel),
            constrain=encode(head.constrain),
            recipient=encode(head.recipient),
            namespace=head.namespace,
            end=encode(head.message),
        )

        def use(machine: Machine, parts: Parts) -> Region | None:
            if parts.recipient is not None:
                begin, end = parts.recipient
                if machine.text[begin:end] not in head.people:
                    return call(machine, parts) if call is not None else None
            region = self.said.get(parts.channel)
            if region is not None:
                machine.take(parts.end)
                machine.let_go()
                return region.enter(machine)
            return None

        def entry(marker: str, at_start: bool) -> Entry:
            return Entry(marker, MessageHead(encode(marker), markers, use), keep=True, at_start=at_start)

        # In a prompt that ends with `start`, the answer begins behind it.
        return [
            *(entry(marker, False) for marker in (head.start, head.channel)),
            *(entry(marker, True) for marker in (head.recipient, head.message)),
        ]

    def closing(self, closers: str | Iterable[str], region: Region) -> tuple[Exit, ...]:
        """Exits to the region at these markers, of which empty ones are none."""
        markers = (closers,) if isinstance(closers, str) else closers
        return tuple(Exit(self.encode(marker), region) for marker in markers if marker)


class Shape(Protocol):
    """One way of writing calls.

    A shape may also have: `at_start` (its calls begin where the answer begins alone); `problems()`, (key, message) pairs about its table;
    `markers_behind_values()`, the markers that end a bare value, if those are not all; `heading()`, what stands before text;
    `text(lowering)` and `render_text(content)`, the grammar and the spelling of text that is not written as it stands.
    """

    form: str
    open: str

    def markers(self) -> tuple[str, ...]:
        """The literals that may be single tokens of a vocabulary."""

    def entries(self, build: Build) -> list[Entry]:
        """The regions that read calls of this shape."""

    def call(self, lowering: RuleWriter, tool: Tool | None) -> ir.Node:
        """The grammar of one call of this tool (None: of any name, with any arguments)."""

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        """The grammar of one call, or of several (by `lowering.repeated`, `separated` or `several`, which know how many there may be)."""

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        """The text of these calls: (name, arguments, id) each."""
