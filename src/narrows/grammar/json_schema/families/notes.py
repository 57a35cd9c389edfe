"""Keywords that describe and assert nothing, of all drafts and of OpenAPI. Also any keyword that starts with `x-`."""

from __future__ import annotations

from narrows.grammar.json_schema.reading import Reading

KEYWORDS = (
    "$comment",
    "$schema",
    "$vocabulary",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "deprecated",
    "description",
    "discriminator",
    "example",
    "examples",
    "externalDocs",
    "id",
    "readOnly",
    "title",
    "writeOnly",
    "xml",
)


def read(reading: Reading) -> None:
    """Nothing to enforce."""
