"""`format`: enforced, as people expect, though the standard lets a validator ignore it.

The formats of strings are in spelling/formats.py. Formats of OpenAPI for numbers are ranges (int32, uint8) or say
nothing (float, double), as do `password`, `binary` and Pydantic's `path`. By the standard a format of another name
asserts nothing: it is an annotation, and the report says so. A name that is almost one of those that are known is
refused, with the name that was meant.
"""

from __future__ import annotations

from decimal import Decimal

from narrows.arguments import quoted
from narrows.errors import GrammarError
from narrows.grammar.json_schema.facts import NUMBER, STRING, Pattern, Range, Text
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import Status
from narrows.grammar.json_schema.spelling.formats import PARTS, PATTERNS
from narrows.grammar.near_miss import NearMisses
from narrows.grammar.regex import search_node
from narrows.grammar.regular import Regular

_RANGES = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
_SAY_NOTHING = ("float", "double", "password", "binary", "path")
_OLD_NAMES = {"host-name": "hostname", "ip-address": "ipv4"}
"""Of draft 3. They are no near misses: `hostname` in other letters means `hostname`."""
_LOCAL_TIME = r"^(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?$"
_MEANT = NearMisses((*PATTERNS, *_RANGES))


def _read(reading: Reading) -> None:
    written = reading.text("format")
    name = _OLD_NAMES.get(written, written)
    where = reading.at("format")
    if name in PATTERNS:
        if reading.types & STRING and name == "time" and _is_local(reading):
            reading.reporter.note(where, Status("exact", "a local time, as the pattern beside it has no offset"))
            reading.add_text(Text(patterns=(Pattern(where, source=_LOCAL_TIME),)))
        elif reading.types & STRING:
            if name in PARTS:
                reading.reporter.note(where, Status("under", PARTS[name][0]))
            reading.add_text(Text(patterns=(Pattern(where, name=name),)))
    elif name in _RANGES:
        if reading.types & NUMBER:
            low, high = map(Decimal, _RANGES[name])
            reading.add_range(Range(low, high, low_at=where, high_at=where))
    elif name in _SAY_NOTHING or not reading.types & (STRING | NUMBER):
        reading.reporter.note(where, Status("exact", "asserts nothing here"))
    elif (meant := _MEANT.of(name)) is not None:
        reading.reporter.unsupported(
            where,
            f"{quoted(name)} is not a known format",
            hint=f"Did you mean {meant!r}? Else choose a name less like it",
        )
    else:
        reading.reporter.note(where, Status("exact", "an unknown format: an annotation, asserts nothing"))


def _is_local(reading: Reading) -> bool:
    """Whether a pattern is for times without the offset that RFC 3339 asks for, as the one that Zod writes. By the
    standard no text would satisfy both."""
    pattern = reading.schema.get("pattern")
    if not isinstance(pattern, str) or len(pattern) > 200:
        return False
    try:
        node = search_node(pattern, dialect="ecma")
    except GrammarError:
        return False
    regular = Regular.of_reading(reading.work)
    with_offset, local = (
        regular.both([regular.of(node), regular.of(search_node(times, dialect="ecma"))])
        for times in (f"^(?:{PATTERNS['time']})$", _LOCAL_TIME)
    )
    return regular.is_never(with_offset) and not regular.is_never(local)


FAMILY = Family(("format",), _read)
