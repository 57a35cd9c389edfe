"""What begins a call, as data: no region is needed to know it.

The grammar keeps openers out of free text. The parser attaches to each opener the region that reads on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.formats.reasoning import Head
    from narrows.grammar import ir
    from narrows.stream.machine import Region


@dataclass(slots=True, kw_only=True)
class CallContext:
    """What the openers of calls depend on, besides the table of the shape."""

    names: tuple[str, ...] | None = None
    """The tools' names, if they are known (to a grammar)."""
    named: str | None = None
    """The tool that the request names."""
    head: Head | None = None
    """How messages are headed, if they are."""


@dataclass(frozen=True, slots=True)
class Opener:
    """A marker that begins a call, and what must follow it."""

    marker: str
    first: str = ""
    """The character after the marker; "" for any."""
    keep: bool = False
    """The marker is the beginning of what the region reads, as a bracket is."""
    at_start: bool = False
    """Calls begin here only where the answer begins, or goes on after its reasoning."""
    second: str = ""
    """The character after `first` and whitespace, if other openers have the same `first`."""
    node: ir.Node | None = None
    """What the parser takes for the beginning of a call, as a regular node, if the marker alone is not enough."""

    def to(self, region: Region) -> Entry:
        """This opener with the region that reads on."""
        return Entry(self.marker, self.first, self.keep, self.at_start, self.second, self.node, region=region)


@dataclass(frozen=True, slots=True)
class Entry(Opener):
    """An opener, and the region that reads on after it."""

    region: Region = field(kw_only=True)


def head_openers(head: Head) -> list[Opener]:
    """What begins the head of a message. In a prompt that ends with `start`, the answer begins after it."""
    return [
        *(Opener(marker, keep=True) for marker in (head.start, head.channel)),
        *(Opener(marker, keep=True, at_start=True) for marker in (head.recipient, head.message)),
    ]
