"""`anyOf` and `allOf`. Each is a list of schemas; what they mean together with their siblings is worked out in normal.py."""

from __future__ import annotations

from narrows.grammar.json_schema.reading import Reading

KEYWORDS = ("anyOf", "allOf")


def read(reading: Reading) -> None:
    if "anyOf" in reading.schema:
        reading.facts.choices += (reading.schemas("anyOf"),)
    if "allOf" in reading.schema:
        reading.facts.also += reading.schemas("allOf")
