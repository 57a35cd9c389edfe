"""Proof that no value satisfies two branches of a `oneOf`.

Two schemas are disjoint if their conjunction has no alternative: the types, ranges, lengths or enumerations exclude
each other, or a member that both demand (a discriminator, at most three levels down) has such a conjunction. If
there is no proof, the keyword is refused, or taken as `anyOf` and reported as `over`.

Cost: linear if all branches are objects with a discriminator (a required key whose values differ in each branch), and
for branches that list their values. Otherwise one conjunction per pair, for at most 5,000 pairs.
"""

from __future__ import annotations

from collections.abc import Hashable

from narrows.grammar.json_schema import check
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Facts, Goal
from narrows.grammar.json_schema.goals import Goals

MOST_COMPARED = 5_000
LEVELS = 3

_UNREAD = Facts()


def check_all(goals: Goals) -> None:
    """Proves every `oneOf` that was reached, or says which branches overlap."""
    sites = goals.document.sites()
    goals.work.spend(len(sites) // 4)
    for site in sites:
        facts: Facts = site.facts or _UNREAD
        for k in facts.exclusive:
            overlap = _overlap(goals, facts.choices[k])
            if overlap is not None:
                goals.reporter.unsupported(
                    site.at("oneOf"),
                    overlap,
                    kind="over",
                    hint="Write anyOf, or give each branch a required key with a const of its own",
                )


def _overlap(goals: Goals, branches: tuple[Site, ...]) -> str | None:
    """None if no value satisfies two branches; else the reason why this is not proved."""
    if len(branches) < 2 or _has_discriminator(goals, branches):
        return None
    listed = _listed(goals, branches)
    n = len(branches)
    if n * (n - 1) - len(listed) * (len(listed) - 1) > 2 * MOST_COMPARED:
        return f"{n} branches of a oneOf without a discriminator are too many to compare"
    for k, first in enumerate(branches):
        for other in range(k + 1, n):
            if k in listed and other in listed:
                continue
            if not _is_empty(goals, goals.goal((first, branches[other])), LEVELS):
                return f"the branches {k} and {other} of a oneOf may hold of one value"
    return None


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
    keys = [check.keys(option.values[0], goals.work) for option in options]
    goals.work.spend(sum(map(len, keys)) // 8)
    return keys


def _member(goals: Goals, facts: Facts, key: str) -> Goal:
    goals.work.spend(2 + len(facts.members) // 4)
    return goals.goal(members.named.get(key, members.extra) for members in facts.members)


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
