"""`$ref` within the document, and the keywords that give places a name. Siblings of `$ref` hold as well, in every draft.

A definition is read when something refers to it. References to other documents are refused: nothing is fetched.
"""

from __future__ import annotations

from narrows.grammar.json_schema.reading import Reading

KEYWORDS = (
    "$ref",
    "$defs",
    "definitions",
    "$id",
    "$anchor",
    "$dynamicRef",
    "$recursiveRef",
    "$dynamicAnchor",
    "$recursiveAnchor",
)


def read(reading: Reading) -> None:
    schema = reading.schema
    for keyword in ("$defs", "definitions"):
        if keyword in schema:
            reading.mapping(keyword)
    if "$ref" in schema:
        reference = reading.text("$ref")
        target = reading.document.resolve(reference, reading.site, "$ref")
        if target is None:
            reading.reporter.unsupported(
                reading.at("$ref"),
                f"the reference {reference[:80]!r} leaves the document",
                hint="Put the definition under `$defs` and refer to it as #/$defs/NAME",
            )
        else:
            reading.facts.also += (target,)
    for keyword in ("$dynamicRef", "$recursiveRef"):
        if keyword in schema:
            reading.reporter.unsupported(reading.at(keyword), f"{keyword} is not supported", hint="Use $ref")
