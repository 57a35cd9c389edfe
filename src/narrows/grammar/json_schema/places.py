"""Which parts of a schema speak of the place where a text stands, and which of its keywords refuse what comes next.

The text's own structure leads to the value (cursor.py), and the schema's members and items lead from there to the
schemas that speak of it: through references, `allOf`, and every branch of `anyOf` and its like. Nothing of this is
prepared when a schema is compiled.

`refusing` finds keywords by leaving them out: without those that it names, what was refused is allowed, and each of
them is needed for that. It reads the schema once for each keyword that might be to blame.

Cost: `find` measures the document once (0.2 us a node) and reads the schemas on the way, some 10 us each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from narrows.errors import NarrowsError
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema import keywords
from narrows.grammar.json_schema.cursor import Cursor, Part, cursor
from narrows.grammar.json_schema.describe import describe
from narrows.grammar.json_schema.document import Document, Site, unescape
from narrows.grammar.json_schema.facts import Facts
from narrows.grammar.json_schema.report import Reporter
from narrows.grammar.json_schema.spelling.patterns import matches
from narrows.grammar.work import Work
from narrows.limits import Limits

_MOST = 32
"""Schemas that are named for one place, and groups of keywords that are tried."""
_LEADING = ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "properties", "items")
"""Keywords that hold other schemas. They are to blame only where what they hold is not."""
_NAMING = ("$defs", "definitions", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$schema")
"""Keywords that references need."""


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """A place in the text and the schemas that speak of it."""

    value: str
    """JSON pointer into the text's value: the value that is being written or comes next, or the object or array in
    which something comes next."""
    part: Part
    """ "value", "key", "colon", "next" (behind a member or an item) or "end" (behind the whole text)."""
    schemas: tuple[str, ...]
    """JSON pointers of the schemas that speak of this value. Those of branches (`anyOf`) are among them."""
    expected: str
    """What these schemas expect there, in words."""
    keywords: tuple[str, ...] = ()
    """JSON pointers of the keywords that refuse what was tried there: without them it would be allowed, and each of
    them is needed for that. Empty if nothing was refused, if no keyword is to blame but the way that the value is
    spelled, or if finding them takes too much work."""

    @property
    def schema(self) -> str:
        """The first of the schemas, or "" if the text stands where no schema speaks of it."""
        return self.schemas[0] if self.schemas else ""

    def __str__(self) -> str:
        named = self.keywords or self.schemas[:3]
        return f"{', '.join(pointer or 'the schema' for pointer in named) or 'the schema'} expects {self.expected}"


class Place:
    """What `find` has found, for `refusing` to go on from."""

    def __init__(self, document: Document, at: Cursor, every: list[list[Site]], facts: list[Facts]) -> None:
        self._document = document
        self._every = every
        leaf = every[-1]
        self.found = SchemaPlace(
            at.pointer, at.part, tuple([site.pointer for site in leaf[:_MOST]]), describe(at, facts)
        )

    def refusing(self, allows: Callable[[Any], bool]) -> SchemaPlace:
        """The place with its `keywords`. `allows(schema)` says whether a changed schema allows what was refused. Raises
        what it raises."""
        schema = self._document.root.schema
        groups = self._groups()
        few = [
            group for group in groups if _name(group[0]) not in _LEADING
        ]  # a reference may lead into what is left out
        left_out = next((one for one in (groups, few) if one and allows(_without(schema, one))), None)
        if left_out is None:
            return self.found
        for group in list(left_out):
            fewer = [other for other in left_out if other is not group]
            if fewer and allows(_without(schema, fewer)):
                left_out = fewer
        return replace(self.found, keywords=tuple([pointer for group in left_out for pointer in group]))

    def _groups(self) -> list[list[str]]:
        """Keywords that may be to blame. Those of one name at one level of the text count as one: branches say the same
        of one place. The most likely ones come last."""
        groups: dict[tuple[int, str], list[str]] = {}
        for level, sites in enumerate(self._every[-2:]):
            for site in sites:
                if isinstance(site.schema, dict) and "#" not in site.pointer:
                    for keyword in site.schema:
                        if keyword in keywords.KNOWN and (keyword not in _NAMING):
                            groups.setdefault((level, keyword), []).append(site.at(keyword))
        order = sorted(groups, key=lambda group: (group[1] not in _LEADING, group[0]))
        return [groups[group] for group in order[-_MOST:]]


def find(schema: Any, text: str, limits: Limits) -> Place | None:
    """The place behind `text`, which is the beginning of a JSON text that the schema allows. None where the schema
    cannot be read, or reading it takes more than `Limits.reading_work`."""
    try:
        return _found(schema, text, limits)
    except NarrowsError:
        return None


def _found(schema: Any, text: str, limits: Limits) -> Place:
    work = Work(limits)
    document = Document(schema, work, lenient=True)
    reporter = Reporter("ignore")
    at = cursor(text)
    every = [[document.root]]
    facts = _all_said(every[0], document, reporter, work)
    for step in at.path:
        inside: list[Site] = []
        for said in facts:
            inside += _members(said, step, reporter, work) if isinstance(step, str) else _item(said, step)
        every.append(list(dict.fromkeys(inside)))
        facts = _all_said(every[-1], document, reporter, work)
    return Place(document, at, every, facts)


def _all_said(sites: list[Site], document: Document, reporter: Reporter, work: Work) -> list[Facts]:
    """What these schemas say, and those that they refer to, and their branches, which are added to the list."""
    seen = set(sites)
    said = []
    for site in sites:  # the list grows
        facts = keywords.read(site, document, reporter, work)
        said.append(facts)
        for other in (*facts.also, *[branch for branches in facts.choices for branch in branches], *facts.perhaps):
            work.spend(1)
            if other not in seen:
                seen.add(other)
                sites.append(other)
    return said


def _members(facts: Facts, name: str, reporter: Reporter, work: Work) -> list[Site]:
    """What is said of a member."""
    sites = []
    for members in facts.members:
        here = [members.named[name]] if name in members.named else []
        with suppress(NarrowsError):  # no pattern, or too much work
            here += [site for pattern, site in members.patterns if matches(pattern, name, reporter, work)]
        if not here and members.extra is not None:
            here = [members.extra]
        sites += here
    return sites + [rest.site for rest in facts.unevaluated if rest.of == f.OBJECT and not sites]


def _item(facts: Facts, index: int) -> list[Site]:
    """What is said of an item."""
    sites = [items.prefix[index] if index < len(items.prefix) else items.rest for items in facts.items]
    return [site for site in sites if site is not None]


def _name(pointer: str) -> str:
    return unescape(pointer.rpartition("/")[2])


def _without(schema: Any, groups: Sequence[Sequence[str]]) -> Any:
    """The schema without the keywords at these pointers. Only what leads to them is copied."""
    copied: dict[str, Any] = {"": _copy(schema)}
    for pointer in [pointer for group in groups for pointer in group]:
        parent, _, keyword = pointer.rpartition("/")
        holder = _copied(parent, copied)
        if isinstance(holder, dict):
            holder.pop(unescape(keyword), None)
    return copied[""]


def _copied(pointer: str, copied: dict[str, Any]) -> Any:
    """What stands at the pointer, as a copy that stands there in the copy of the document. None where it is gone."""
    here, at = copied[""], ""
    for step in pointer.split("/")[1:]:
        at += f"/{step}"
        key: Any = int(step) if isinstance(here, list) else unescape(step)
        if at not in copied:
            if isinstance(here, dict) and key not in here:
                return None
            copied[at] = here[key] = _copy(here[key])
        here = copied[at]
    return here


def _copy(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
