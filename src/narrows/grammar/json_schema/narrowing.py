"""Where groups of branches must all be chosen from, what the facts so far leave of each group.

normal.py makes an alternative for each combination of branches. A `oneOf` of branches that overlap adds a negation of
each other branch, which is a group of its own; so 20 branches of five keys each are 5 ** 20 combinations, nearly all of
which hold nothing. So before it chooses, it asks here:

- A branch that contradicts the facts is left out.
- A group that is the negation of a schema is left out where the facts contradict that schema: it holds already.
- The group with the fewest branches is chosen from first.

It is a glance, not a proof: what it does not see remains, and is found out later. It looks at types, ranges, lengths
and values, and at the keys that are required, one level down; there also at negations. It follows references, and looks
into no other branches.

Cost: about a conjunction of facts for each branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.equality import keys
from narrows.grammar.json_schema.facts import OBJECT, Facts, Members, SomeKey, meet
from narrows.grammar.json_schema.report import invalid
from narrows.grammar.work import Work

Path = tuple[Site, ...]
MOST_FOLLOWED = 32
"""Schemas that one glance follows references to."""


@dataclass(frozen=True, slots=True)
class Group:
    """Branches of which one must hold."""

    branches: tuple[Site, ...]
    path: Path
    """The references that led to it."""
    negates: Site | None = None
    """That schema, if the group says that it does not hold, and nothing else."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """`glance`: what a schema says, without working out its `oneOf`; None for what is not known yet. `leaves_nothing`:
    whether facts have no type left, as far as they tell by themselves."""

    glance: Callable[[Site], Facts | None]
    leaves_nothing: Callable[[Facts], bool]
    work: Work

    def left(self, facts: Facts, groups: list[Group]) -> list[Group] | None:
        """What is left of the groups, the one to choose from last; None if nothing is left of one."""
        kept: list[Group] = []
        required = frozenset(_required(facts.members))
        for group in groups:
            self.work.spend(2)
            path = group.path
            if group.negates is not None and self._holds_nothing(facts, required, group.negates, path[:-1]):
                continue
            branches = tuple([one for one in group.branches if not self._holds_nothing(facts, required, one, path)])
            if not branches:
                return None
            kept.append(Group(branches, group.path, group.negates))
        kept.sort(key=lambda group: -len(group.branches))
        return kept

    def _holds_nothing(self, facts: Facts, required: frozenset[str], branch: Site, path: Path) -> bool:
        """Whether no value satisfies facts and a branch, as far as a glance tells. `required`: the keys that the facts
        demand. `path`: the references that led to the branch."""
        met = len(facts.members)
        both = self._conjoined([branch], facts, path)
        if both is None:
            return True
        facts, _, _ = both
        every = facts.members
        if self._is_empty(replace(facts, members=())):
            return True
        if facts.types != OBJECT or len(every) == met:
            return False
        added = every[met:]
        keys = dict.fromkeys(_required(added))
        keys.update(dict.fromkeys([key for members in added for key in members.named if key in required]))
        self.work.spend(len(keys) + sum([len(members.named) for members in added]) // 8)
        if any(self._has_no_value(every, key) for key in keys):
            return True
        some = [one for members in added for one in members.some]
        return any(_is_nowhere(one, members) for one in some for members in every)

    def _has_no_value(self, every: tuple[Members, ...], key: str) -> bool:
        """Whether nothing can be the value of a key."""
        self.work.spend(1 + len(every) // 4)
        named: list[Site] = []
        for members in every:
            site = members.named.get(key, members.extra)
            if site is not None and (key in members.named or not members.patterns):
                named.append(site)
        if any(site.schema is False for site in named):
            return True
        if len(named) < 2:
            return False
        both = self._conjoined(named, Facts())
        if both is None:
            return True
        facts, seen, negated = both
        if self._is_empty(facts):
            return True
        return any(other in seen or self._implies(facts, other) for other in negated)

    def _is_empty(self, facts: Facts) -> bool:
        """By its types, or because enumerations share no value."""
        if self.leaves_nothing(facts):
            return True
        if len(facts.values) < 2:
            return False
        shared = keys(facts.values[0], self.work)
        for values in facts.values[1:]:
            self.work.spend(1 + min(len(shared), len(values.options)) // 8)
            shared &= keys(values, self.work)
        return not shared

    def _conjoined(
        self, sites: list[Site], facts: Facts, path: Path = ()
    ) -> tuple[Facts, set[Site], list[Site]] | None:
        """The facts and the schemas together, without their choices; which schemas these are, and those whose negations
        are among them. None where nothing is left."""
        pending, seen, negated = list(sites), set[Site](), list[Site]()
        while pending and len(seen) < MOST_FOLLOWED:
            site = pending.pop()
            if site in seen:
                continue
            refuse_loop(site, path)
            if site.negates in seen or site.negation in seen:
                return None
            seen.add(site)
            self.work.spend(1)
            if site.negates is not None:
                negated.append(site.negates)
            said = self.glance(site)
            if said is None:
                continue
            facts = meet(facts, said)
            if facts.impossible or not facts.types:
                return None
            pending += said.also
            pending += [branches[0] for branches in said.choices if len(branches) == 1]
        return facts, seen, negated

    def _implies(self, facts: Facts, other: Site) -> bool:
        """Whether all that satisfies the facts satisfies the other schema, which says nothing but types or values."""
        said = self.glance(other)
        while said is not None and said.is_bare and not said.choices and len(said.also) == 1:
            self.work.spend(1)
            other = said.also[0]
            said = self.glance(other)
        if said is None or said.also or said.choices or said.text or said.range or said.items or said.members:
            return False
        if facts.types & ~said.types:
            return False
        return all(
            any(keys(mine, self.work) <= keys(values, self.work) for mine in facts.values) for values in said.values
        )


def refuse_loop(site: Site, path: Path) -> None:
    """Refuses a schema that depends on itself, or on its negation, at one and the same value."""
    if site in path or site.negates in path or site.negation in path:
        raise invalid(site.pointer, "the schema refers to itself without anything in between, and so says nothing")


def _required(every: Iterable[Members]) -> Iterator[str]:
    return (key for members in every for key in members.required)


def _is_nowhere(some: SomeKey, members: Members) -> bool:
    """Whether no key of the kind may be there."""
    if members.extra is None or members.extra.schema is not False or members.patterns:
        return False
    return members.named.keys() <= some.but
