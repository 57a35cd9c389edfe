"""Keywords that describe and assert nothing, of all drafts and of OpenAPI. Also any keyword that starts with `x-`."""

from __future__ import annotations

from narrows.grammar.json_schema.reading import Family

_KEYWORDS = (
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


FAMILY = Family(_KEYWORDS, None)
