"""Which texts can be names of tools and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.stream.json_scan import quote

if TYPE_CHECKING:
    from narrows.stream.machine import Machine


UNUSUAL = "".join(map(chr, range(33))) + "\x7f"
"""ASCII's control characters and the space. The core leaves names with these to the regions."""
LONGEST_NAME = 64
"""Characters of the longest name, with its markup, that the core reads by itself (core/stream/run.hpp)."""
TOO_MANY_KEYS = "the call has too many arguments [limit stream_keys]"


def next_key(machine: Machine | None, name: str, place: int) -> str | None:
    """The JSON that the core writes for the name of another argument of the open call (`Run.link`).

    None: a region must read the name."""
    if machine is None or not machine.wrote_arguments or not name or not name.isascii():
        return None
    given = machine.given
    if given.get(name, place) != place or len(given) >= machine.limits.stream_keys:
        return None
    given[name] = place
    return f", {quote(name)}: "


def is_name(name: str, spaced: bool, forbidden: str) -> bool:
    """Whether this can be a name: it has no control character, none of `forbidden`, and no whitespace unless `spaced`.

    An identifier must hold no character of `forbidden`. A name holds no U+FFFD, so bytes that are not UTF-8 are never
    part of a name, whatever the chunks.
    """
    if name.isidentifier():
        return True
    if "\ufffd" in name or any(c in name for c in forbidden):
        return False
    if name.isprintable() and (spaced or " " not in name):
        return True
    return not any(c < " " or "\ud800" <= c <= "\udfff" or (c.isspace() and not spaced) for c in name)
