"""What a schema lets stand where: the JSON types of each place, its members and items. For those who read or write
values as bare text.

This is all that such readers and writers need of a schema, and it is derived from what the keyword families say
(`Facts`), so that there is one reading of JSON Schema: references, identifiers, anchors, drafts, `allOf` and unions,
`enum` and `const`, OpenAPI's `nullable`. A union's types are those of all its branches. A member's types are those that
every schema leaves which speaks of it; where branches of unions speak of it, too, those that any of them leaves.

A reader of text refuses nothing. So a view never fails, and never gives too few types: a keyword with a wrong value
asserts nothing, nor does one that is not enforced. Where a schema leads back to itself, or takes more work than
`Limits` allows, anything may stand.

Cost: the document is measured once (0.2 us a node); then some 10 us for each schema object that a question leads to,
once. All work is counted (`Limits.reading_work`), for each document.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from narrows.errors import NarrowsError
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema import keywords
from narrows.grammar.json_schema.document import Document, Site
from narrows.grammar.json_schema.equality import type_of
from narrows.grammar.json_schema.facts import Facts, Items, Members
from narrows.grammar.json_schema.report import Reporter
from narrows.grammar.json_schema.spelling.patterns import matches
from narrows.grammar.work import Work
from narrows.limits import Limits
from narrows.value_types import ANYTHING, NOWHERE, UNTYPED, Place, ValueType

_BITS = {
    "null": f.NULL,
    "boolean": f.BOOLEAN,
    "integer": f.INTEGER,
    "number": f.FRACTION,
    "string": f.STRING,
    "array": f.ARRAY,
    "object": f.OBJECT,
}

_Sites = tuple[Site, ...]


def place_of(schema: Any, limits: Limits, nowhere: Place = NOWHERE) -> Place:
    """The place of a value that the schema describes. The schema may be anything; types may have the names of other
    languages. `nowhere` stands for the places that the schema does not speak of."""
    try:
        work = Work(limits)
        document = Document(schema, work, foreign_types=True, lenient=True)
        return _View(document, work, nowhere).place((document.root,), ())
    except NarrowsError:  # no schema, or too large a one
        return _ANYWHERE


class _Anywhere(Place):
    """Where anything may stand, and inside which, too."""

    __slots__ = ()

    typed = True


_ANYWHERE = _Anywhere(ANYTHING)


class _View:
    """The places of one document. What it reads raises LimitError, and nothing else."""

    def __init__(self, document: Document, work: Work, nowhere: Place) -> None:
        self.work = work
        self._document = document
        self._reporter = Reporter("ignore")
        self._nowhere = nowhere
        self._types: dict[Site, int] = {}
        self._places: dict[tuple[_Sites, _Sites], Place] = {}

    def place(self, every: _Sites, some: _Sites) -> Place:
        """Where all of the schemas `every` hold, and one of `some`. Raises nothing."""
        known = self._places.get((every, some))
        if known is None:
            try:
                self.work.spend(10 + len(every) + len(some))
                known = _SchemaPlace(self, every, some) if every or some else self._nowhere
            except NarrowsError:
                known = _ANYWHERE
            self._places[every, some] = known
        return known

    def read(self, site: Site) -> Facts:
        if site.facts is not None:
            known: Facts = site.facts
            return known
        return keywords.read(site, self._document, self._reporter, self.work)

    def said_of(self, members: Members, name: str) -> list[Site]:
        """What is said of the member of this name, but for what is said of all others. Raises nothing."""
        sites = [members.named[name]] if name in members.named else []
        with suppress(NarrowsError):  # no pattern, or too much work
            sites += [site for pattern, site in members.patterns if matches(pattern, name, self._reporter, self.work)]
        return sites

    def is_possible(self, every: _Sites) -> bool:
        """Whether schemas that hold at once leave any type. Raises nothing."""
        types = f.ANY
        try:
            for site in every:
                types &= self._types_of(site)
        except NarrowsError:
            pass
        return types != 0

    def kind(self, every: _Sites, some: _Sites) -> ValueType:
        """What may stand where all of the schemas `every` hold, and one of `some`; a string, where nothing may."""
        if len(every) == 1 and not some:
            facts = self.read(every[0])
            if not (facts.values or facts.also or facts.choices):
                return _kind(facts.types)
        types = f.ANY
        for site in every:
            types &= self._types_of(site)
        if some:
            types &= _union([self._types_of(site) for site in some])
        strings: frozenset[str] | None = None
        for facts in self.said_by(every, branches=False):
            strings = _both(strings, self._strings_among_others(facts))
        kind = _kind(types)
        return kind if strings is None else ValueType(kind.types, strings)

    def _types_of(self, site: Site) -> int:
        """The types that a schema leaves."""
        opened: set[Site] = set()
        stack = [(site, False)] if site not in self._types else []
        while stack:
            here, is_ready = stack.pop()
            facts = self.read(here)
            if not is_ready:
                if here in self._types or here in opened:
                    continue
                opened.add(here)
                below = [*facts.also, *_branches(facts)]
                self.work.spend(1 + len(below))
                if below:
                    stack.append((here, True))
                    stack += [(other, False) for other in below]
                    continue
            types = facts.types & self._listed(facts)
            for also in facts.also:
                types &= self._types.get(also, f.ANY)  # any, where it leads back to this schema
            for branches in facts.choices:
                types &= _union([self._types.get(branch, f.ANY) for branch in branches])
            self._types[here] = types
        return self._types[site]

    def _listed(self, facts: Facts) -> int:
        """The types of the values that the enumerations list."""
        types = f.ANY
        for values in facts.values:
            self.work.spend(len(values.options) // 4)
            types &= _union(list(map(type_of, values.options)))
        return types

    def _strings_among_others(self, facts: Facts) -> frozenset[str] | None:
        """The strings of an enumeration that has other values, too."""
        strings: frozenset[str] | None = None
        for values in facts.values:
            self.work.spend(len(values.options) // 8)
            listed = frozenset([option for option in values.options if isinstance(option, str)])
            if listed and not all(isinstance(option, str) for option in values.options):
                strings = _both(strings, listed)
        return strings

    def said_by(self, sites: Sequence[Site], *, branches: bool) -> list[Facts]:
        """What schemas say, and what holds with them; `branches`: and what their branches say."""
        if len(sites) == 1:
            alone = self.read(sites[0])
            if not (alone.also or alone.choices):  # as mostly
                return [alone]
        facts: dict[Site, Facts] = {}
        todo = [*sites]
        while todo:
            site = todo.pop()
            if site not in facts:
                facts[site] = here = self.read(site)
                below = [*here.also, *(_branches(here) if branches else ())]
                self.work.spend(2 + len(below))
                todo += below
        return list(facts.values())


def _branches(facts: Facts) -> list[Site]:
    """The schemas of which some hold."""
    return [branch for branches in facts.choices for branch in branches]


@cache  # 128 entries at most
def _kind(types: int) -> ValueType:
    return ValueType(frozenset([name for name, bit in _BITS.items() if types & bit]) or UNTYPED.types)


def _union(types: list[int]) -> int:
    union = 0
    for bits in types:
        union |= bits
    return union


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """What both hold; None holds anything."""
    return other if one is None else one if other is None else one & other


@dataclass(slots=True)
class _Inside:
    """What is said of a place's members and items: by the schemas that hold, and by branches of which some hold."""

    members: list[Members]
    some_members: list[Members]
    items: list[Items]
    some_items: list[Items]
    names: frozenset[str]
    has_patterns: bool
    """Some schema speaks of members by a pattern."""
    width: int
    """Of the longest list of items that have schemas of their own."""

    @staticmethod
    def of(every: list[Facts], some: list[Facts]) -> _Inside:
        members = [members for facts in every for members in facts.members]
        some_members = [members for facts in some for members in facts.members]
        items = [items for facts in every for items in facts.items]
        some_items = [items for facts in some for items in facts.items]
        names = frozenset().union(*[m.named for m in (*members, *some_members)])
        width = max([len(i.prefix) for i in (*items, *some_items)], default=0)
        has_patterns = any(m.patterns for m in (*members, *some_members))
        return _Inside(members, some_members, items, some_items, names, has_patterns, width)

    def member(self, name: str, view: _View) -> Place:
        """The place of a member that some schema names, or in which a pattern is found."""
        if len(self.members) == 1 and not self.some_members and not self.has_patterns:  # as mostly
            return view.place((self.members[0].named[name],), ())
        every, some = (
            _sites([site for m in members for site in view.said_of(m, name)])
            for members in (self.members, self.some_members)
        )
        beside = _sites([_extra(m) for m in self.members if not view.said_of(m, name)])
        if beside and view.is_possible((*every, *beside)):
            every = (*every, *beside)  # people write it as if it saw what `allOf` names
        return view.place(every, some)

    def other_member(self, view: _View) -> Place:
        """The place of a member of which no schema speaks."""
        every, some = ([_extra(m) for m in members] for members in (self.members, self.some_members))
        return view.place(_sites(every), _sites(some))

    def item(self, index: int, view: _View) -> Place:
        every, some = (
            [i.prefix[index] if index < len(i.prefix) else i.rest for i in items]
            for items in (self.items, self.some_items)
        )
        return view.place(_sites(every), _sites(some))


def _extra(members: Members) -> Site | None:
    """What `additionalProperties` says of values, if anything."""
    site = members.extra
    return site if site is not None and isinstance(site.schema, dict) and site.schema else None


def _sites(sites: list[Site | None]) -> _Sites:
    return tuple(dict.fromkeys([site for site in sites if site is not None]))


class _SchemaPlace(Place):
    """A place that a schema speaks of."""

    __slots__ = ("_children", "_every", "_known", "_other", "_some", "_view")

    typed = True

    def __init__(self, view: _View, every: _Sites, some: _Sites) -> None:
        self.kind = view.kind(every, some)
        self._view = view
        self._every = every
        self._some = some
        self._known: _Inside | None = None
        self._children: dict[str | int, Place] = {}
        self._other: Place | None = None

    @property
    def names(self) -> frozenset[str]:
        return self._inside().names

    @property
    def names_all(self) -> bool:
        inside = self._inside()
        every = (*inside.members, *inside.some_members)
        return not inside.has_patterns and not any(m.extra is not None and m.extra.schema for m in every)

    def is_array(self, tag: str) -> bool:
        is_array = super().is_array(tag)
        return is_array and ("object" not in self.types or not any(tag in m.named for m in self._inside().members))

    def member(self, name: str) -> Place:
        child = self._children.get(name)
        if child is None:
            inside = self._known or self._inside()
            if name not in inside.names:
                return inside.member(name, self._view) if inside.has_patterns else self._other or self.other_member()
            child = self._children[name] = inside.member(name, self._view)
        return child

    def other_member(self) -> Place:
        if self._other is None:
            inside = self._inside()
            self._other = self._other or inside.other_member(self._view)
        return self._other

    def item(self, index: int) -> Place:
        inside = self._inside()
        index = min(index, inside.width)
        child = self._children.get(index)
        if child is None:
            child = self._children[index] = inside.item(index, self._view)
        return child

    def _inside(self) -> _Inside:
        if self._known is None:
            try:
                view = self._view
                every = view.said_by(self._every, branches=False)
                some = [*self._some, *[branch for facts in every for branch in _branches(facts)]]
                self._known = _Inside.of(every, view.said_by(some, branches=True) if some else [])
            except NarrowsError:  # too much work: anything may stand there
                self._known = _Inside.of([], [])
                self._other = self._children[0] = _ANYWHERE
        return self._known
