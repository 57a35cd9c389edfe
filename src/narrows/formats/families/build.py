"""An answer's regions while they are made: what every family builds its regions from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from narrows.events import Content
from narrows.formats.families.openers import CallContext, Entry, head_openers
from narrows.stream.markers import Exit
from narrows.stream.regions.message_head import HeadMarkers, MessageHead
from narrows.stream.regions.raw_arguments import RawArguments
from narrows.stream.regions.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.json_call import CallKeys
    from narrows.stream.regions.message_head import Parts


@dataclass(slots=True, kw_only=True)
class Build(CallContext):
    """What the regions of one answer share. The exits to further calls are filled in before a call is read."""

    encode: Callable[[str], str]
    """A marker as it stands in the text."""
    parallel: bool
    calls: bool = True
    """False: nothing is a call. A shape is then asked only for the text that it reads."""
    one_piece: bool = False
    """The content was held to a grammar of its own."""
    messages: dict[str, Region] = field(default_factory=dict)
    """Where a message that is no call goes on, by its channel."""
    after: Text = field(default_factory=lambda: Text(Content, "after", fresh=True))
    """The text after a call."""
    again: list[Exit] = field(default_factory=list)
    """The exits of text after a call, besides the closers of the call."""
    further: list[Exit] = field(default_factory=list)
    """The exits of a broken call to the next call."""
    tails: list[tuple[Text, tuple[Exit, ...]]] = field(default_factory=list)
    raws: list[tuple[RawArguments, tuple[Exit, ...]]] = field(default_factory=list)

    def keys(self, keys: CallKeys) -> CallKeys:
        """The keys of a call's object, in this answer."""
        return replace(keys, known=True) if self.one_piece and keys.strict else keys

    def tail(self, *closers: str) -> Text:
        """The text after a call, up to one of its closing markers. Empty markers are left out."""
        return self.tail_until(*self.closing(closers, self.after)) if any(closers) else self.after

    def tail_until(self, *exits: Exit) -> Text:
        """The text after a call, up to one of these exits."""
        text = Text(Content, "closing", fresh=True)
        self.tails.append((text, exits))
        return text

    def raw(self, *exits: Exit) -> RawArguments:
        """Reads the rest of a broken call, up to one of these exits or the next call."""
        region = RawArguments(self.after)
        self.raws.append((region, exits))
        return region

    def link_ends(self) -> None:
        """Link the regions after calls that were made since the last time."""
        for text, exits in self.tails:
            text.link([*exits, *self.again])
        for raw, exits in self.raws:
            raw.link([*exits, *self.further])
        self.tails.clear()
        self.raws.clear()

    def heads(self, call: Callable[[Machine, Parts], Region | None] | None) -> list[Entry]:
        """The entries into the head of a message. `call` reads on in a message to a tool (None: that is text)."""
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
            region = self.messages.get(parts.channel)
            if region is not None:
                machine.take(parts.end)
                machine.let_go()
                return region.enter(machine)
            return None

        return [opener.to(MessageHead(encode(opener.marker), markers, use)) for opener in head_openers(head)]

    def closing(self, closers: str | Iterable[str], region: Region) -> tuple[Exit, ...]:
        """Exits to the region at these markers. Empty markers are left out."""
        markers = (closers,) if isinstance(closers, str) else closers
        return tuple(Exit(self.encode(marker), region) for marker in markers if marker)


# What regions are given to do with a name, and with text that makes no call.


def give_back(machine: Machine) -> Region:
    """What was held is text."""
    return machine.give_back()


def ignore(machine: Machine, name: str, span: tuple[int, int]) -> None:
    """The name means nothing."""


def start_call(machine: Machine, name: str, span: tuple[int, int]) -> None:
    """The name begins a call."""
    machine.start_call(machine.clean(name), span)
