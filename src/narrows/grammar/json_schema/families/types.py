"""`type`, and OpenAPI 3.0's `nullable`, which adds null to the `type` beside it (and to nothing else: OpenAPI 3.0.3)."""

from __future__ import annotations

from narrows.arguments import quoted
from narrows.grammar.json_schema import facts
from narrows.grammar.json_schema.reading import Reading
from narrows.grammar.json_schema.report import Status, invalid

KEYWORDS = ("type", "nullable")

BITS = {
    "null": facts.NULL,
    "boolean": facts.BOOLEAN,
    "integer": facts.INTEGER,
    "number": facts.NUMBER,
    "string": facts.STRING,
    "array": facts.ARRAY,
    "object": facts.OBJECT,
}


def read(reading: Reading) -> None:
    schema = reading.schema
    if "type" in schema:
        named = schema["type"]
        bits = 0
        reading.work.spend(len(named) // 4 if isinstance(named, (list, tuple)) else 0)
        for name in named if isinstance(named, (list, tuple)) else (named,):
            bit = BITS.get(name) if isinstance(name, str) else None
            if bit is None:
                shown = quoted(name) if isinstance(name, (str, int)) else "something else"
                raise invalid(reading.at("type"), f"a type is one of {', '.join(BITS)}, not {shown}")
            bits |= bit
        if not bits:
            raise invalid(reading.at("type"), "type is a name or a non-empty array of names")
        reading.facts.types = bits
        reading.facts.types_at = reading.at("type")
    if "nullable" in schema and reading.boolean("nullable") and "type" in schema:
        reading.facts.types |= facts.NULL
        reading.reporter.note(reading.at("nullable"), Status("exact", "OpenAPI 3.0: adds null to the type beside it"))
