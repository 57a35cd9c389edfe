"""What a schema does not allow, as facts: the negation of a conjunction is a choice of negations of its parts.

    not {"type": "string", "minLength": 3}     any other type, or a string of at most two characters
    not {"required": ["a"]}                    no object, but that has an `a`: an object without it
    not {"properties": {"a": S}}               an object whose `a` is there and does not satisfy S

So negation moves inward (De Morgan) until it meets types, ranges, lengths, patterns, values and keys, whose negations
are facts of the same kind. Negations of sub-schemas are made when something asks for them, once for each schema.

A few parts have no negation here, such as `multipleOf`. Then `Inexact` says which, and the caller leaves the whole
negation out, which allows more.

Cost: linear in what one schema object says.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Document, Site
from narrows.grammar.json_schema.equality import decimal_of
from narrows.grammar.json_schema.facts import Contained, Facts, Items, Members, Pattern, Range, SomeKey, Text, Values


class Inexact(Exception):
    """This part of a schema has no negation here."""

    def __init__(self, pointer: str, what: str) -> None:
        super().__init__(what)
        self.pointer = pointer
        self.what = what


def negated(site: Site, facts: Facts, document: Document) -> Facts:
    """The facts of all values that do not satisfy `facts`, which the schema at `site` says. Raises Inexact."""
    if facts.impossible:
        return Facts()
    return _Negation(site, facts, document).choice()


class _Negation:
    def __init__(self, site: Site, facts: Facts, document: Document) -> None:
        self._facts = facts
        self._document = document
        self._at = site.pointer
        self._branches: list[Site] = []

    def choice(self) -> Facts:
        facts = self._facts
        if facts.types != f.ANY:
            self._add(Facts(types=f.ANY & ~facts.types), Facts(types=facts.types), ("types", facts.types))
        for values in facts.values:
            self._values(values)
        if facts.text is not None and facts.types & f.STRING:
            self._text(facts.text)
        if facts.range is not None and facts.types & f.NUMBER:
            self._range(facts.range)
        for items in facts.items if facts.types & f.ARRAY else ():
            self._items(items)
        for members in facts.members if facts.types & f.OBJECT else ():
            self._members(members)
        negation = self._document.negation
        self._branches += map(negation, facts.also)
        if facts.exclusive:
            raise Inexact(self._at, "a oneOf in a negation")
        known = {one.group: one.cases for one in facts.negated}
        for k, branches in enumerate(facts.choices):
            for hold, fail in known.get(k, (((), branches),)):
                held = [negation(negation(site)) for site in hold]  # which says nothing of what is evaluated
                self._add(Facts(also=(*held, *map(negation, fail))))
        if not self._branches:
            return Facts(types=0, impossible="what is not allowed here is every value", impossible_at=self._at)
        return Facts(choices=(tuple(self._branches),))

    def _add(self, facts: Facts, otherwise: Facts | None = None, name: Hashable = None) -> None:
        """A branch. `otherwise`: the part that it negates, where that is one. `name`: of what other schemas say
        likewise, so that who looks for alternatives sees that it is the same."""
        if not facts.types:
            return
        branch = self._derived(facts, name)
        if otherwise is not None and branch.otherwise is None:
            branch.otherwise = self._derived(otherwise, None)
        self._branches.append(branch)

    def _derived(self, facts: Facts, name: Hashable) -> Site:
        for items in facts.items:
            items.evaluates = False
        for members in facts.members:
            members.evaluates = False
        return self._document.derived(self._at, facts, name)

    def _values(self, values: Values) -> None:
        """Everything but these values."""
        options = values.options
        texts = tuple([option for option in options if isinstance(option, str)])
        others = Pattern(values.pointer, texts=texts, negated=True)
        self._add(Facts(types=f.STRING, text=Text(patterns=(others,)) if texts else None))
        for constant, bit in ((None, f.NULL), (True, f.BOOLEAN), (False, f.BOOLEAN)):
            if not any(option is constant for option in options):
                self._add(Facts(types=bit, values=(Values(values.pointer, [constant]),)))
        self._between([exact for option in options if (exact := decimal_of(option)) is not None])
        for kind, bit in (((list, tuple), f.ARRAY), (dict, f.OBJECT)):
            nested = [option for option in options if isinstance(option, kind)]
            sites = [self._document.derived(values.pointer, self._literal(option, values.pointer)) for option in nested]
            self._add(Facts(types=bit, also=tuple([self._document.negation(site) for site in sites])))

    def _between(self, numbers: list[Decimal]) -> None:
        """Every number but these."""
        ends = [None, *sorted(set(numbers)), None]
        for low, high in pairwise(ends):
            range_ = Range(low, high, low_open=True, high_open=True, low_at=self._at, high_at=self._at)
            bounded = low is not None or high is not None
            self._add(Facts(types=f.NUMBER, range=range_ if bounded else None))

    def _literal(self, value: Any, pointer: str) -> Facts:
        """One array or object, by its parts."""

        def part(value: Any) -> Site:
            return self._document.derived(pointer, Facts(values=(Values(pointer, [value]),)))

        if isinstance(value, dict):
            named = {key: part(member) for key, member in value.items()}
            members = Members(named, extra=Site(pointer, False), required=tuple(value), required_at=pointer)
            return Facts(types=f.OBJECT, members=(members,))
        items = Items(tuple([part(item) for item in value]), min=len(value), max=len(value), min_at=pointer)
        return Facts(types=f.ARRAY, items=(items,))

    def _text(self, text: Text) -> None:
        def add(text: Text, otherwise: Text) -> None:
            self._add(Facts(types=f.STRING, text=text), Facts(text=otherwise))

        if text.min:
            add(Text(max=text.min - 1, max_at=self._at), Text(min=text.min, min_at=text.min_at))
        if text.max is not None:
            add(Text(min=text.max + 1, min_at=self._at), Text(max=text.max, max_at=text.max_at))
        for pattern in text.patterns:
            add(Text(patterns=(_without(pattern),)), Text(patterns=(pattern,)))

    def _range(self, range_: Range) -> None:
        def add(range_: Range, otherwise: Range) -> None:
            self._add(Facts(types=f.NUMBER, range=range_), Facts(range=otherwise))

        low, high = range_.low, range_.high
        if low is not None:
            below = Range(high=low, high_open=not range_.low_open, high_at=self._at)
            add(below, Range(low=low, low_open=range_.low_open, low_at=range_.low_at))
        if high is not None:
            above = Range(low=high, low_open=not range_.high_open, low_at=self._at)
            add(above, Range(high=high, high_open=range_.high_open, high_at=range_.high_at))
        for step in range_.steps:
            add(Range(not_steps=(step,)), Range(steps=(step,)))
        for step in range_.not_steps:
            add(Range(steps=(step,)), Range(not_steps=(step,)))

    def _items(self, items: Items) -> None:
        def add(items: Items, otherwise: Items) -> None:
            self._add(Facts(types=f.ARRAY, items=(items,)), Facts(items=(otherwise,)))

        if items.min:
            add(Items(max=items.min - 1, max_at=self._at), Items(min=items.min, min_at=items.min_at))
        if items.unique_at:
            equal = Items(min=2, min_at=items.unique_at, equal_at=items.unique_at)
            add(equal, Items(unique_at=items.unique_at))
        if items.equal_at:
            add(Items(unique_at=items.equal_at), Items(equal_at=items.equal_at))
        if items.max is not None:
            add(Items(min=items.max + 1, min_at=self._at), Items(max=items.max, max_at=items.max_at))
        anything = Site(self._at, True)
        for k, site in enumerate(items.prefix):
            before = (anything,) * k
            wrong = Items((*before, self._document.negation(site)), min=k + 1, min_at=self._at)
            add(wrong, Items((*before, site)))
        places = (anything,) * len(items.prefix)
        if items.rest is not None and items.rest.schema is False:
            add(Items(min=len(places) + 1, min_at=self._at), Items(places, rest=items.rest))
        elif items.rest is not None and not _is_true(items.rest):
            one = Contained(self._document.negation(items.rest), len(places), pointer=items.rest.pointer)
            add(Items(contained=(one,)), Items(places, rest=items.rest))
        for one in items.contained:
            if one.least:
                least = replace(one, most=None)
                add(Items(contained=(replace(one, least=0, most=one.least - 1),)), Items(contained=(least,)))
            if one.most is not None:
                most = replace(one, least=0)
                add(Items(contained=(replace(one, least=one.most + 1, most=None),)), Items(contained=(most,)))

    def _members(self, members: Members) -> None:
        def add(members: Members, otherwise: Members, name: Hashable = None) -> None:
            self._add(Facts(types=f.OBJECT, members=(members,)), Facts(members=(otherwise,)), name)

        at = self._at
        required = set(members.required)
        for key in members.required:
            if key not in members.named or _is_true(members.named[key]):
                add(Members({key: Site(at, False)}), Members(required=(key,), required_at=at), ("without", key))
        for key, site in members.named.items():
            if _is_true(site):
                continue
            other = self._document.negation(site)
            if key in required:  # it is not there, or wrong
                has = Members({key: site}, required=(key,), required_at=at)
                add(Members({key: other}), has, ("without or with", key, other))
            else:
                wrong = Members({key: other}, required=(key,), required_at=at)
                add(wrong, Members({key: site}), ("with", key, other))
        if members.least:
            add(Members(most=members.least - 1, most_at=at), Members(least=members.least, least_at=members.least_at))
        if members.most is not None:
            add(Members(least=members.most + 1, least_at=at), Members(most=members.most, most_at=members.most_at))
        for key, brought in members.brings.items():
            for other_key in brought:
                if other_key != key:
                    wrong = Members({other_key: Site(at, False)}, required=(key,), required_at=at)
                    add(wrong, Members(brings={key: (other_key,)}, brings_at=members.brings_at))
        for pattern, site in members.patterns:
            if not _is_true(site):
                matched = Members(patterns=((pattern, site),))
                some = SomeKey(self._document.negation(site), patterns=(pattern,), opposite=matched)
                add(Members(some=(some,)), matched)
        anything = Site(at, True)
        if members.names is not None:
            names = Members(names=members.names)
            some = SomeKey(anything, names=self._document.negation(members.names), opposite=names)
            add(Members(some=(some,)), names)
        if members.extra is not None and not _is_true(members.extra):
            others = tuple([_without(pattern) for pattern, _ in members.patterns])
            patterns = tuple([(pattern, anything) for pattern, _ in members.patterns])
            extra = Members(dict.fromkeys(members.named, anything), patterns, members.extra)
            value = self._document.negation(members.extra)
            add(Members(some=(SomeKey(value, frozenset(members.named), others, opposite=extra),)), extra)
        for some in members.some:
            assert some.opposite is not None, "only a negation asks for such a key"
            add(some.opposite, Members(some=(some,)))


def _without(pattern: Pattern) -> Pattern:
    """It is not found."""
    return replace(pattern, negated=not pattern.negated, tested=None)


def _is_true(site: Site) -> bool:
    if site.facts is not None:
        facts: Facts = site.facts
        return facts.is_anything
    return site.negates is None and (site.schema is True or site.schema == {})
