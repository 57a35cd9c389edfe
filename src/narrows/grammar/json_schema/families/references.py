"""`$ref` within the document, and the keywords that give places a name. Siblings of `$ref` hold as well, except where
`$schema` names draft 7 or an older one, in which they are ignored (keywords.py).

A definition is read when something refers to it. Other documents are those that the caller gives as `resources`, and
the published meta-schemas (published.py). Nothing is fetched.
`$dynamicRef` and `$recursiveRef` lead to the outermost schema on the way that has the name (identifiers.py).
"""

from __future__ import annotations

from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.published import EXTRA, is_here, is_published
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import invalid

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NAMES = ("$defs", "definitions", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
"""They assert nothing themselves."""


def _read(reading: Reading) -> None:
    schema = reading.schema
    for keyword in ("$defs", "definitions"):
        if keyword in schema:
            reading.mapping(keyword)
    document, site = reading.document, reading.site
    if "$ref" in schema:
        _follow(reading, "$ref", document.resolve(reading.text("$ref"), site, "$ref"))
    draft = reading.draft if "$dynamicRef" in schema or "$recursiveRef" in schema else None
    if draft is not None and "$dynamicRef" in schema:
        reference = reading.text("$dynamicRef")
        other = f"$dynamicRef is no keyword of {draft.name}"
        _follow(reading, "$dynamicRef", document.resolve_dynamic(reference, site) if draft.dynamic else other)
    if draft is not None and "$recursiveRef" in schema:
        if reading.text("$recursiveRef") != "#":
            raise invalid(reading.at("$recursiveRef"), "a $recursiveRef is `#`")
        other = f"$recursiveRef is no keyword of {draft.name}"
        _follow(reading, "$recursiveRef", document.resolve_recursive(site) if draft.recursive else other)


def _follow(reading: Reading, keyword: str, target: Site | str) -> None:
    if isinstance(target, Site):
        reading.add_also(target)
    else:
        hint = "Put the definition under `$defs` and refer to it as #/$defs/NAME; in Python, resources={URI: schema}"
        if is_published(str(reading.schema[keyword])) and not is_here():
            hint = f"The extra `{EXTRA}` has the published meta-schemas: pip install 'narrows[{EXTRA}]'"
        reading.reporter.unsupported(reading.at(keyword), target, hint=hint)


FAMILY = Family((*_REFERENCES, *NAMES), _read)
