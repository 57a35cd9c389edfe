"""What every family offers, and what its regions are built from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape(ABC):
    """One way of writing calls: the keys of a `[[call]]` table, and what they mean. The base class of all families.

    Each field of a family is a key of the table, and the field's default is the key's default. A key without a default
    must be given, and must not be empty. A key whose name ends with `_also` lists further spellings, none of them empty.
    What has a default here is what most families do.
    """

    form: str
    """The name of this way of writing calls. A format may have several, each with a name of its own."""
    open: str
    """What calls begin with as they are written; "" if no marker announces them."""

    # A family makes this a key if a table may set it.
    at_start = False
    """Whether calls begin only where the answer begins, or goes on after its reasoning."""
    needs_head: ClassVar[bool] = False
    """Whether calls are messages with a head, so that the format's reasoning style must have a `[head]`."""

    def problems(self) -> Iterable[tuple[str, str]]:
        """What is wrong with the table, besides what its fields say: (key, message) each."""
        return ()

    # Reading.

    @abstractmethod
    def markers(self) -> tuple[str, ...]:
        """The literals that may be single tokens of a vocabulary."""

    def markers_after_values(self) -> tuple[str, ...]:
        """The markers that end a bare value. None of them may end as it begins."""
        return self.markers()

    @abstractmethod
    def entries(self, build: Build) -> list[Entry]:
        """The regions that read calls of this shape."""

    # The grammar.

    @abstractmethod
    def call(self, lowering: RuleWriter, tool: Tool | None) -> ir.Node:
        """The grammar of one call of this tool (None: of any name, with any arguments)."""

    @abstractmethod
    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        """The grammar of one call, or of several if `many`.

        `lowering.repeated`, `separated` and `several` know how many calls there may be.
        """

    def text(self, lowering: RuleWriter) -> ir.Node | None:
        """The grammar of text; None if text is written as it stands."""
        return None

    # The text.

    @abstractmethod
    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        """The text of these calls: (name, arguments, id) each."""

    def render_text(self, content: str) -> str | None:
        """How text is written; None if it is written as it stands."""
        return None

    def heading(self) -> str:
        """What is written before text. It is read even where nothing is a call. "" if there is nothing."""
        return ""
