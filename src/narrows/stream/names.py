"""What counts as a name of a tool or an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.json_scan import quote

if TYPE_CHECKING:
    from narrows.stream.machine import Machine


UNUSUAL = "".join(map(chr, range(33))) + "\x7f"
LONGEST_NAME = 64
"""Characters of the names, with the markup around them, that the core reads by itself (core/stream/run.hpp)."""


TOO_MANY_KEYS = "the call has too many arguments [limit stream_keys]"


def next_key(machine: Machine | None, name: str, place: int) -> str | None:
    """What the core writes for the name of a further argument of the open call (`Run.link`); None where a region must see it."""
    if machine is None or not machine.wrote_arguments or not name or not name.isascii():
        return None
    given = machine.given
    if given.get(name, place) != place or len(given) >= machine.limits.stream_keys:
        return None
    given[name] = place
    return f", {quote(name)}: "


def is_name(name: str, spaced: bool, forbidden: str) -> bool:
    """Whether these characters can stand in a name: no control characters, nothing `forbidden` (which no identifier holds), no blanks
    unless `spaced`; and no U+FFFD, so that bytes that are no UTF-8 are no name however they come."""
    if name.isidentifier():
        return True
    if "\ufffd" in name or any(c in name for c in forbidden):
        return False
    if name.isprintable() and (spaced or " " not in name):
        return True
    return not any(c < " " or "\ud800" <= c <= "\udfff" or (c.isspace() and not spaced) for c in name)
