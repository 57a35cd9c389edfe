"""The registry of the keyword families, and how one schema object is read with them.

To add a family: write its file (see `Family` in reading.py), import it here and add it to `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable

from narrows.arguments import quoted
from narrows.errors import GrammarError
from narrows.grammar.json_schema import disjoint
from narrows.grammar.json_schema import unevaluated as unevaluated_schemas
from narrows.grammar.json_schema.document import Document, Site, escape
from narrows.grammar.json_schema.facts import Facts
from narrows.grammar.json_schema.families import (
    arrays,
    combine,
    contains,
    formats,
    notes,
    numbers,
    objects,
    presence,
    property_names,
    references,
    strings,
    types,
    unevaluated,
    unique_items,
    values,
)
from narrows.grammar.json_schema.goals import Keywords
from narrows.grammar.json_schema.negation import Inexact, negated
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import ANNOTATION, EXACT, Reporter, Status
from narrows.grammar.near_miss import NearMisses
from narrows.grammar.work import Work

FAMILIES: tuple[Family, ...] = (
    types.FAMILY,
    values.FAMILY,
    strings.FAMILY,
    formats.FAMILY,
    numbers.FAMILY,
    arrays.FAMILY,
    contains.FAMILY,
    objects.FAMILY,
    presence.FAMILY,
    property_names.FAMILY,
    combine.FAMILY,
    references.FAMILY,
    notes.FAMILY,
    unique_items.FAMILY,
    unevaluated.FAMILY,
)
"""In the order in which they are read, but that those that say types come before all others. The order decides which of
several errors is reported, and nothing else."""

KNOWN = frozenset(keyword for family in FAMILIES for keyword in family.keywords)
"""Every keyword that has a meaning here, annotations included."""

_IN_ORDER = sorted((family for family in FAMILIES if family.read is not None), key=lambda family: not family.says_types)
_SAYING_TYPES = sum(family.says_types for family in _IN_ORDER)
_READERS: list[Callable[[Reading], None]] = [family.read for family in _IN_ORDER if family.read is not None]
_POSITIONS = {keyword: position for position, family in enumerate(_IN_ORDER) for keyword in family.keywords}
_TYPE = {_POSITIONS["type"]}
_ANYTHING = Facts()
_MEANT = NearMisses(keyword for keyword in _POSITIONS if keyword not in references.NAMES)
_UNKNOWN = Status("exact", "not a keyword of JSON Schema: an annotation, asserts nothing")
_WRAPPERS = ("schema", "json_schema", "parameters", "input_schema", "inputSchema", "function", "response_format")
"""Where requests and tools of OpenAI, Anthropic and MCP have a schema."""
_BESIDE_REF = Status("exact", "ignored beside $ref, as in all drafts up to 7")


def read(site: Site, document: Document, reporter: Reporter, work: Work) -> Facts:
    """What the schema object at `site` says; read once and kept there. The order of its keywords does not matter."""
    if site.facts is not None:
        known: Facts = site.facts
        return known
    work.pointer = site.pointer
    if site.negates is not None:
        return read_negation(site, lambda negated: read(negated, document, reporter, work), document, reporter)
    schema = site.schema
    if schema is True:
        site.facts = _ANYTHING
    elif schema is False:
        site.facts = Facts(types=0, impossible="the schema `false` allows nothing", impossible_at=site.pointer)
    else:
        # The pointers of the keywords are for the report.
        work.spend(12 + 2 * len(schema) + len(schema) * len(site.pointer) // 64)
        is_alone = "$ref" in schema and document.draft(site).ref_alone
        positions: set[int] = set()
        unknown: list[str] = []
        for keyword in ("$ref",) if is_alone else schema:
            position = _POSITIONS.get(keyword)
            if position is not None:
                positions.add(position)
            elif keyword not in KNOWN and not keyword.startswith("x-"):
                unknown.append(keyword)
        for keyword in sorted(unknown):
            _read_unknown(keyword, site, reporter, work)
        if unknown and not positions and site is document.root:
            _refuse_wrapper(site, reporter)
        site.facts = types.alone(site) if positions == _TYPE else None
        if site.facts is None:
            site.facts = _read(Reading(site, document, reporter, work), sorted(positions))
        if is_alone:
            for keyword in schema.keys() - {"$ref"}:
                reporter.note(site.at(keyword), _BESIDE_REF)
    facts: Facts = site.facts
    return facts


def read_negation(site: Site, read: Callable[[Site], Facts], document: Document, reporter: Reporter) -> Facts:
    """What a negation says, kept there; `read` reads what is negated. A loop, for negations of negations are deep."""
    chain = [site]
    inner = site.negates
    while inner is not None and inner.facts is None and inner.negates is not None:
        chain.append(inner)
        inner = inner.negates
    assert inner is not None
    facts = read(inner)
    for one in reversed(chain):
        assert one.negates is not None
        facts = one.facts = _negate(one.negates, facts, document, reporter)
    return facts


def _negate(site: Site, facts: Facts, document: Document, reporter: Reporter) -> Facts:
    """The facts of a schema's negation. What has no negation is reported, and anything is allowed."""
    try:
        return negated(site, facts, document)
    except Inexact as error:
        reporter.unsupported(error.pointer, f"{error.what} is not supported", kind="over")
        return _ANYTHING


def _read_unknown(keyword: str, site: Site, reporter: Reporter, work: Work) -> None:
    """By the standard an unknown keyword asserts nothing. A slip of the pen would, had it been written as it was
    meant."""
    work.spend(4 + min(len(keyword), 64) // 4)
    meant = _MEANT.of(keyword)
    if meant is None:
        reporter.note(site.at(keyword), _UNKNOWN)
        return
    reporter.unsupported(
        site.at(keyword),
        f"{quoted(keyword)} is not a JSON Schema keyword",
        hint=f"Did you mean {meant!r}? An annotation of your own starts with `x-`",
    )


def _refuse_wrapper(site: Site, reporter: Reporter) -> None:
    """A document that asserts nothing, and has a schema where a request or a tool has one, is such a request or tool.
    By the standard it would allow anything."""
    for keyword in _WRAPPERS:
        if isinstance(site.schema.get(keyword), dict):
            reporter.unsupported(
                site.at(keyword),
                f"this is no schema, but an object that has one in {keyword!r}",
                hint=f"Give what is in {keyword!r}. An annotation of your own starts with `x-`",
            )


def _read(reading: Reading, positions: list[int]) -> Facts:
    """Reads the families at these positions."""
    facts: Facts | None = None
    for position in positions:
        if facts is None and position >= _SAYING_TYPES:
            facts = reading.close_types()
        try:
            _READERS[position](reading)
        except GrammarError:  # no limit is one of these
            if not reading.document.lenient:
                raise
    return facts if facts is not None else reading.close_types()


def report(document: Document, reporter: Reporter) -> dict[str, Status]:
    """The status of every keyword at every place that was read, by JSON pointer."""
    statuses: dict[str, Status] = {}
    known = reporter.notes
    for site in document.sites():
        if site.facts is not None and isinstance(site.schema, dict):
            for keyword in site.schema:
                is_read = keyword in _POSITIONS
                pointer = f"{site.pointer}/{keyword if is_read else escape(keyword)}"  # no name that is read needs it
                statuses[pointer] = known.get(pointer) or (EXACT if is_read else ANNOTATION)
    return statuses


KEYWORDS = Keywords(
    read,
    [(family.types, family.contradiction) for family in FAMILIES if family.contradiction is not None],
    [(family.types, family.settle) for family in FAMILIES if family.settle is not None],
    read_negation,
    disjoint.exclude,
    unevaluated_schemas.close,
)
