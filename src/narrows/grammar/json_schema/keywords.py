"""All keyword families, one line each, and how one schema object is read with them.

To add a family: write its module (see reading.py) and add it to `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable

from narrows.grammar.json_schema.document import Document, Site
from narrows.grammar.json_schema.facts import Facts
from narrows.grammar.json_schema.families import (
    arrays,
    combine,
    formats,
    notes,
    numbers,
    objects,
    references,
    strings,
    types,
    unsupported,
    values,
)
from narrows.grammar.json_schema.reading import Reading
from narrows.grammar.json_schema.report import ANNOTATION, EXACT, Reporter, Status
from narrows.grammar.work import Work

FAMILIES = (types, values, strings, formats, numbers, arrays, objects, combine, references, notes, unsupported)

_READERS: dict[str, Callable[[Reading], None]] = {name: family.read for family in FAMILIES for name in family.KEYWORDS}
_ORDER = {family.read: k for k, family in enumerate(FAMILIES)}
"""The types come first: some keywords say nothing where their type is not allowed."""
_ANYTHING = Facts()
_BESIDE_REF = Status("exact", "ignored beside $ref, as in all drafts up to 7")


def read(site: Site, document: Document, reporter: Reporter, work: Work) -> Facts:
    """What the schema object at `site` says; read once and kept there."""
    if site.facts is not None:
        known: Facts = site.facts
        return known
    work.pointer = site.pointer
    if site.schema is True:
        site.facts = _ANYTHING
    elif site.schema is False:
        site.facts = Facts(types=0, impossible="the schema `false` allows nothing", impossible_at=site.pointer)
    else:
        work.spend(
            12 + 2 * len(site.schema) + len(site.schema) * len(site.pointer) // 64
        )  # the pointers are for the report
        reading = Reading(site, document, reporter, work)
        readers: dict[Callable[[Reading], None], None] = {}
        is_alone = "$ref" in site.schema and document.draft(site).ref_alone
        for keyword in ("$ref",) if is_alone else site.schema:
            reader = _READERS.get(keyword)
            if reader is not None:
                readers[reader] = None
            elif not keyword.startswith("x-"):
                reporter.unsupported(
                    site.at(keyword),
                    f"{keyword!r} is not a JSON Schema keyword",
                    hint="Check its spelling; an annotation of your own starts with `x-`",
                )
        for reader in sorted(readers, key=_ORDER.__getitem__):
            reader(reading)
        if is_alone:
            for keyword in site.schema.keys() - {"$ref"}:
                reporter.note(site.at(keyword), _BESIDE_REF)
        site.facts = reading.facts
    return site.facts  # type: ignore[no-any-return]


def report(document: Document, reporter: Reporter) -> dict[str, Status]:
    """The status of every keyword at every place that was read, by JSON pointer."""
    statuses: dict[str, Status] = {}
    known = reporter.notes
    for site in document.sites():
        if site.facts is not None and isinstance(site.schema, dict):
            for keyword in site.schema:
                pointer = site.at(keyword)
                status = known.get(pointer)
                if status is None:
                    is_annotation = _READERS.get(keyword, notes.read) is notes.read
                    status = ANNOTATION if is_annotation else EXACT
                statuses[pointer] = status
    return statuses
