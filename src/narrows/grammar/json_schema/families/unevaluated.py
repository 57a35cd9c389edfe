"""Reads `unevaluatedProperties` and `unevaluatedItems`. unevaluated.py says what they mean."""

from __future__ import annotations

from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.facts import Items, Members, Unevaluated
from narrows.grammar.json_schema.reading import Family, Reading, is_empty_object


def _read(reading: Reading) -> None:
    for keyword, kind in (("unevaluatedProperties", f.OBJECT), ("unevaluatedItems", f.ARRAY)):
        if keyword not in reading.schema:
            continue
        schema = reading.schema[keyword]
        site = reading.schema_at(keyword, schema=schema)
        if schema is not True and not is_empty_object(schema):
            after_contains = reading.draft.contains_evaluates
            reading.add_unevaluated(Unevaluated(kind, site, site.pointer, after_contains))
        elif kind == f.OBJECT:  # nothing is left for a schema around this one
            reading.add_members(Members(extra=site, says=schema is True))
        else:
            reading.add_items(Items(rest=site))


FAMILY = Family(("unevaluatedProperties", "unevaluatedItems"), _read)
