"""`type`, and OpenAPI 3.0's `nullable`, which adds null to the `type` beside it (and to nothing else: OpenAPI 3.0.3).

The standard knows seven names, in lower case. Tools come with the names of other languages and APIs: `"INTEGER"`
(Google), `"int"`, `"Float"`. They are read in documents that allow it (`Document.foreign_types`), which the schemas of
tools are; elsewhere they are refused.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from narrows.arguments import quoted
from narrows.grammar.json_schema import facts
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import Status, invalid
from narrows.grammar.near_miss import NearMisses

BITS = {
    "null": facts.NULL,
    "boolean": facts.BOOLEAN,
    "integer": facts.INTEGER,
    "number": facts.NUMBER,
    "string": facts.STRING,
    "array": facts.ARRAY,
    "object": facts.OBJECT,
}
_FOREIGN = {
    **BITS,
    "int": facts.INTEGER,
    "float": facts.NUMBER,
    "double": facts.NUMBER,
    "bool": facts.BOOLEAN,
    "str": facts.STRING,
    "dict": facts.OBJECT,
    "list": facts.ARRAY,
}
"""By the name in lower case."""
_MEANT = NearMisses(BITS)
_WRAPPERS = {"function": "parameters", "json_schema": "schema"}
"""The type of a tool, and of a `response_format` -> where it has its schema."""
_LONGEST = max(map(len, _FOREIGN))
_FEW = 4
"""Names in a list. So many are charged for."""

_NULLABLE = Status("exact", "OpenAPI 3.0: adds null to the type beside it")


def alone(site: Site) -> facts.Facts | None:
    """What a schema object says of which no other family is to be asked: the same as by `_read`, and faster, where it
    has one name or a few, as most have. None elsewhere."""
    named = site.schema.get("type")
    names = named if isinstance(named, list) else [named]
    bits = [BITS.get(name, 0) if isinstance(name, str) else 0 for name in names[:_FEW]]
    if "nullable" in site.schema or not 0 < len(names) < _FEW or 0 in bits:
        return None
    return facts.Facts(reduce(or_, bits), f"{site.pointer}/type")


def _read(reading: Reading) -> None:
    schema = reading.schema
    types = _types(reading, schema["type"]) if "type" in schema else facts.ANY
    if "nullable" in schema and reading.boolean("nullable") and "type" in schema:
        types |= facts.NULL
        reading.reporter.note(reading.at("nullable"), _NULLABLE)
    if "type" in schema:
        reading.add_types(types, reading.at("type"))


def _types(reading: Reading, named: object) -> int:
    if not isinstance(named, (list, tuple)):
        return _bits(reading, named)
    types = 0
    reading.work.spend(len(named) // 4)
    for name in named:
        types |= _bits(reading, name)
    if not types:
        raise invalid(reading.at("type"), "type is a name or a non-empty array of names")
    return types


def _bits(reading: Reading, name: object) -> int:
    if isinstance(name, str):
        bits = BITS.get(name)
        if bits is None and reading.document.foreign_types and len(name) <= _LONGEST:
            bits = _FOREIGN.get(name.lower())
        if bits is not None:
            return bits
    shown = quoted(name) if isinstance(name, (str, int)) else "something else"
    raise invalid(reading.at("type"), f"a type is one of {', '.join(BITS)}, not {shown}", _hint(name))


def _hint(name: object) -> str | None:
    if not isinstance(name, str):
        return None
    if name in _WRAPPERS:
        return f"This is no schema, but an object that has one in {_WRAPPERS[name]!r}. Give that"
    if name.lower() == "any":
        return "A schema without a type allows any value"
    bits = _FOREIGN.get(name.lower()) if len(name) <= _LONGEST else None
    meant = _MEANT.of(name) if bits is None else next(known for known, each in BITS.items() if each == bits)
    return f"Did you mean {meant!r}?" if meant is not None else None


FAMILY = Family(("type", "nullable"), _read, says_types=True)
