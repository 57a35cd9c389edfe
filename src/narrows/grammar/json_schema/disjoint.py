"""`oneOf`: which branches may hold of one value, and what keeps them apart.

Two schemas are disjoint if their conjunction has no alternative: the types, ranges, lengths or enumerations exclude
each other, or a member that both demand (a discriminator, at most three levels down) has such a conjunction. What
stands beside the `oneOf` counts, too. Where that proves nothing, a branch holds and the negation of the other.

Cost: linear if all branches are objects with a discriminator (a required key whose values differ in each branch), and
for branches that list their values. Otherwise one conjunction per pair, for at most 5,000 pairs.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from narrows.grammar.json_schema import check, equality
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Facts, Goal, Negated
from narrows.grammar.json_schema.goals import Goals

MOST_COMPARED = 5_000
LEVELS = 3


def exclude(goals: Goals, site: Site, facts: Facts) -> Facts:
    """The facts of a schema without `exclusive`: a branch of a `oneOf` holds, and none of those that may hold with
    it."""
    choices, negated = list(facts.choices), list(facts.negated)
    beside = goals.document.derived(
        site.pointer, replace(facts, choices=(), exclusive=(), apart=(), perhaps=(), unevaluated=())
    )
    for k in facts.exclusive:
        overlaps = _overlaps(goals, beside, choices[k])
        if overlaps is None:
            goals.reporter.unsupported(
                site.at("oneOf"),
                f"{len(choices[k])} branches of a oneOf without a discriminator are too many to compare",
                kind="over",
                hint="Write anyOf, or give each branch a required key with a const of its own",
            )
        elif overlaps:
            pairs = [(first, other) for first, others in overlaps.items() for other in others if first < other]
            two_hold = [((choices[k][first], choices[k][other]), ()) for first, other in pairs]
            negated.append(Negated(k, (((), choices[k]), *two_hold)))
            goals.work.spend(len(pairs))
            choices[k] = tuple([
                _without(goals, branch, [choices[k][other] for other in overlaps.get(place, ())])
                for place, branch in enumerate(choices[k])
            ])  # fmt: skip
    apart = facts.apart + facts.exclusive
    return replace(facts, choices=tuple(choices), negated=tuple(negated), exclusive=(), apart=apart)


def _without(goals: Goals, branch: Site, others: list[Site]) -> Site:
    """A branch, and none of the others."""
    if not others:
        return branch
    negations = [goals.document.negation(other) for other in others]
    return goals.document.derived(branch.pointer, Facts(also=(branch, *negations)))


def _overlaps(goals: Goals, beside: Site, branches: tuple[Site, ...]) -> dict[int, list[int]] | None:
    """The branches that may hold of one value with each branch, for those of which some may; None: too many to
    compare."""
    if len(branches) < 2 or _has_discriminator(goals, branches):
        return {}
    listed = _listed(goals, branches)
    n = len(branches)
    if n * (n - 1) - len(listed) * (len(listed) - 1) > 2 * MOST_COMPARED:
        return None
    overlaps: dict[int, list[int]] = {}
    for k, first in enumerate(branches):
        for other in range(k + 1, n):
            if k in listed and other in listed:
                continue
            if not _is_empty(goals, goals.goal((beside, first, branches[other])), LEVELS):
                overlaps.setdefault(k, []).append(other)
                overlaps.setdefault(other, []).append(k)
    return overlaps


def _listed(goals: Goals, branches: tuple[Site, ...]) -> set[int]:
    """The branches that list their values, if no two of these share one; else none."""
    listed: set[int] = set()
    seen: set[Hashable] = set()
    for k, branch in enumerate(branches):
        options = goals.alternatives(goals.goal((branch,)))
        goals.work.spend(4 + len(options))
        if options and all(option.values for option in options):
            keys: set[Hashable] = set().union(*_keys(goals, options))
            if not seen.isdisjoint(keys):
                return set()
            seen |= keys
            listed.add(k)
    return listed


def _has_discriminator(goals: Goals, branches: tuple[Site, ...]) -> bool:
    """Whether one required key has values of its own in each branch."""
    candidates: dict[str, set[Hashable]] | None = None
    for branch in branches:
        tags = _tags(goals, branch)
        if candidates is None:
            candidates = {key: set(values) for key, values in tags.items()}
            continue
        distinct = {}
        for key, seen in candidates.items():
            values = tags.get(key)
            goals.work.spend(1 + len(values or ()) // 8)
            if values is not None and seen.isdisjoint(values):
                seen |= values
                distinct[key] = seen
        candidates = distinct
        if not candidates:
            return False
    return bool(candidates)


def _tags(goals: Goals, branch: Site) -> dict[str, frozenset[Hashable]]:
    """The required keys of a branch that is an object, each with the values that it may have, where they are listed."""
    goal = goals.goal((branch,))
    alternatives = goals.alternatives(goal)
    if len(alternatives) != 1 or alternatives[0].types != f.OBJECT:
        return {}
    facts = alternatives[0]
    tags = {}
    for key in (key for members in facts.members for key in members.required):
        options = goals.alternatives(_member(goals, facts, key))
        goals.work.spend(2 + len(options))
        if options and all(option.values for option in options):
            tags[key] = frozenset().union(*_keys(goals, options))
    return tags


def _keys(goals: Goals, options: list[Facts]) -> list[frozenset[Hashable]]:
    """The values that these alternatives list, charged for their union."""
    keys = [equality.keys(option.values[0], goals.work) for option in options]
    goals.work.spend(sum(map(len, keys)) // 8)
    return keys


def _member(goals: Goals, facts: Facts, key: str) -> Goal:
    return goals.member(facts.members, key)


def _is_empty(goals: Goals, goal: Goal, levels: int) -> bool:
    return all(_nothing_fits(goals, facts, levels) for facts in goals.alternatives(goal))


def _nothing_fits(goals: Goals, facts: Facts, levels: int) -> bool:
    goals.work.spend(3 + len(facts.items))
    if facts.values:
        return not any(True for _ in check.surviving(goals, facts))
    if facts.types & ~(f.ARRAY | f.OBJECT) or not levels:
        return False
    if facts.types & f.ARRAY:
        if not any(items.min for items in facts.items):
            return False
        first = goals.goal(items.prefix[0] if items.prefix else items.rest for items in facts.items)
        if not _is_empty(goals, first, levels - 1):
            return False
    if facts.types & f.OBJECT:
        required = (key for members in facts.members for key in members.required)
        return any(_is_empty(goals, _member(goals, facts, key), levels - 1) for key in required)
    return True
