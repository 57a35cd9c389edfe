"""Conditions on the keys of an object of which one suffices, kept as they are.

normal.py makes an alternative for each combination of branches. Where branches speak of single keys ("`a` is not there,
or `b` is a string"), the combinations need not be made: an object's keys are written in order, and which of these
clauses hold already is little (families/presence.py). So ten such choices of ten branches are ten clauses, and not
10 ** 10 alternatives.

A group of branches becomes clauses if all that it says is about keys that are known. Where an object is closed, that is
nearly all that schemas say of objects.

Cost: linear in what the branches say, but for conjunctions inside them, which are multiplied out up to `MOST`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import OBJECT, Clause, Condition, Facts, Members
from narrows.grammar.work import Work

MOST = 32
"""Clauses that one group becomes."""
DEEPEST = 12
"""Schemas inside each other that one group leads to."""

Branches = tuple[Site, ...]


@dataclass(slots=True)
class Clauses:
    """What groups of branches become. `read`: what one schema says."""

    read: Callable[[Site], Facts]
    work: Work
    _known: dict[tuple[Branches, frozenset[str] | None], list[Clause] | None] = field(default_factory=dict)

    def of(self, branches: Branches, closed: frozenset[str] | None) -> list[Clause] | None:
        """The clauses that say the same of objects; None if it says something else. `closed`: the keys that an object
        may have, where these are known."""
        key = (branches, closed)
        if key not in self._known:
            self._known[key] = self._either(branches, closed, 0)
        return self._known[key]

    def _either(self, branches: Branches, closed: frozenset[str] | None, depth: int) -> list[Clause] | None:
        product: list[Clause] = [{}]
        for branch in branches:
            said = self._all(branch, closed, depth + 1)
            if said is None or len(said) * len(product) > MOST:
                return None
            self.work.spend(1 + len(said) * sum(map(len, product)))
            product = [one for left in product for right in said if (one := _joined(left, right)) is not None]
        return product

    def _all(self, site: Site, closed: frozenset[str] | None, depth: int) -> list[Clause] | None:
        if depth > DEEPEST:
            return None
        facts = self.read(site)
        self.work.spend(2)
        if facts.impossible or not facts.types & OBJECT:
            return [{}]
        if facts.values or facts.unevaluated or facts.perhaps:
            return None
        clauses: list[Clause] = []
        for members in facts.members:
            said = self._said(members, closed)
            if said is None:
                return None
            clauses += said
        for also in facts.also:
            below = self._all(also, closed, depth + 1)
            if below is None:
                return None
            clauses += below
        for branches in facts.choices:
            below = self._either(branches, closed, depth + 1)
            if below is None:
                return None
            clauses += below
        return clauses if len(clauses) <= MOST else None

    def _said(self, members: Members, closed: frozenset[str] | None) -> list[Clause] | None:
        if members.patterns or members.names or members.most is not None or members.least > 1:
            return None
        if closed is None and (members.least or members.some or not (members.extra is None or _is_true(members.extra))):
            return None
        if any(some.patterns or some.names for some in members.some):
            return None
        self.work.spend(1 + len(members.named) // 4)
        required = set(members.required)
        found: list[Clause] = []
        for key in members.required:
            site = members.named.get(key, members.extra)
            found.append({key: _with(site)})
        for key, site in members.named.items():
            if key not in required and not _is_true(site):
                found.append({key: replace(_with(site), absent=True)})
        for key, brought in members.brings.items():
            found += [{key: _ABSENT, other: _PRESENT} for other in brought if other != key]
        if closed is not None:
            others = sorted(closed - members.named.keys() - required)
            self.work.spend(len(closed) * (1 + len(members.some)))
            if members.extra is not None and not _is_true(members.extra):
                found += [{key: replace(_with(members.extra), absent=True)} for key in others]
            if members.least:
                found.append(dict.fromkeys(sorted(closed), _PRESENT))
            for some in members.some:
                found.append({key: _with(some.site) for key in sorted(closed - some.but)})
        return found


def added(facts: Facts, clauses: Iterable[Clause]) -> Facts:
    """The facts, and these clauses. Of keys that nothing else names, those come first whose values are listed: then
    few clauses are open where the others come."""
    every = (*facts.clauses, *clauses)
    listed: dict[str, bool] = {}
    for clause in every:
        for key, condition in clause.items():
            listed[key] = listed.get(key, True) and bool(condition.sites) and all(map(_lists_values, condition.sites))
    names = Members(dict.fromkeys(sorted(listed, key=lambda key: not listed[key]), _ANYTHING), evaluates=False)
    return replace(facts, clauses=every, members=(*facts.members, names))


def closed_keys(every: Iterable[Members]) -> frozenset[str] | None:
    """All keys that an object may have, where that is known."""
    known: frozenset[str] | None = None
    for members in every:
        if members.extra is not None and members.extra.schema is False and not members.patterns:
            keys = frozenset(members.named)
            known = keys if known is None else known & keys
    return known


def _lists_values(site: Site) -> bool:
    while site.negates is not None:
        site = site.negates
    if site.facts is not None:
        facts: Facts = site.facts
        return bool(facts.values)
    return isinstance(site.schema, dict) and ("const" in site.schema or "enum" in site.schema)


_ANYTHING = Site("", True)
_ABSENT = Condition(absent=True)
_PRESENT = Condition(sites=(_ANYTHING,))


def _with(site: Site | None) -> Condition:
    if site is None or _is_true(site):
        return _PRESENT
    return Condition() if site.schema is False else Condition(sites=(site,))


def _joined(a: Clause, b: Clause) -> Clause | None:
    """Either; None if that always holds."""
    joined = dict(a)
    for key, condition in b.items():
        known = joined.get(key)
        if known is not None:
            sites = dict.fromkeys((*known.sites, *condition.sites))
            condition = Condition(known.absent or condition.absent, tuple(sites))
        if condition.absent and _is_anything(condition.sites):
            return None
        joined[key] = condition
    return joined


def _is_anything(sites: tuple[Site, ...]) -> bool:
    return any(_is_true(site) or site.negates in sites for site in sites)


def _is_true(site: Site) -> bool:
    if site.facts is not None:
        facts: Facts = site.facts
        return facts.is_anything
    return site.negates is None and (site.schema is True or site.schema == {})
