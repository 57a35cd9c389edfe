"""A goal, schemas that must all hold of one value, as alternatives: plain conjunctions of facts, any one of which suffices.

`$ref` and `allOf` add their facts; `anyOf` is distributed over its siblings, one alternative per combination of branches. What
cannot hold (an empty range, a length from 5 to 2) loses its type, and an alternative without types is dropped, with the
reason kept.
Cost: one `meet` per schema and alternative; `Limits.schema_branches` bounds the alternatives of one goal, `Limits.reading_work` those of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Facts, Goal, Range, meet
from narrows.grammar.json_schema.families import strings
from narrows.grammar.json_schema.families.arrays import bounds
from narrows.grammar.json_schema.report import invalid, over_limit
from narrows.grammar.json_schema.spelling import multiples
from narrows.grammar.work import Work


@dataclass(slots=True)
class Reason:
    """Why a goal has no alternative."""

    pointer: str
    message: str


_Path = tuple[Site, ...]


@dataclass(slots=True)
class _Open:
    """An alternative in the making."""

    facts: Facts
    met: set[Site]
    pending: list[tuple[Site, _Path]]
    """Schemas still to conjoin, the next one last, each with the references that led to it."""
    groups: list[tuple[tuple[Site, ...], _Path]]
    """Branches still to choose from, the next group last."""


def alternatives(goal: Goal, read: Callable[[Site], Facts], work: Work) -> tuple[list[Facts], Reason | None]:
    """The alternatives, in the order of the schema, and the first reason for which one was dropped."""
    if len(goal) == 1:
        only = read(goal[0])
        if not only.also and not only.choices:
            return _kept([only], work)
    bound = work.limits.schema_branches
    done: list[Facts] = []
    stack = [_Open(Facts(), set(), [(site, ()) for site in reversed(goal)], [])]
    while stack:
        here = stack.pop()
        work.spend(5)
        _conjoin(here, read, work)
        if not here.groups or here.facts.impossible or not here.facts.types:
            done.append(here.facts)
            continue
        branches, path = here.groups.pop()
        if len(stack) + len(done) + len(branches) > bound:
            raise over_limit("schema_branches", bound, "the alternatives multiply beyond bound", goal[0].pointer)
        work.spend(len(branches) // 2)
        stack.extend(_Open(here.facts, here.met, [(branch, path)], here.groups) for branch in reversed(branches))
    return _kept(done, work)


def _conjoin(here: _Open, read: Callable[[Site], Facts], work: Work) -> None:
    limits = work.limits
    work.spend((len(here.met) + len(here.groups)) // 16)
    here.met, here.groups = set(here.met), list(here.groups)  # which others that are still to be made share
    while here.pending:
        site, path = here.pending.pop()
        if site in path:
            raise invalid(site.pointer, "the schema refers to itself without anything in between, and so says nothing")
        if site in here.met:
            continue
        if len(path) >= limits.schema_depth:
            raise over_limit("schema_depth", limits.schema_depth, "references lead on too long", site.pointer)
        if len(here.met) >= limits.schema_branches:
            raise over_limit("schema_branches", limits.schema_branches, "too many schemas hold at once", site.pointer)
        found = read(site)
        work.spend(6 + len(path) // 16)
        path = (*path, site)
        here.met.add(site)
        here.facts = meet(here.facts, found)
        work.spend(_size(here.facts) // 8)
        here.pending.extend((also, path) for also in reversed(found.also))
        here.groups.extend((branches, path) for branches in reversed(found.choices))


def _size(facts: Facts) -> int:
    """How many parts a conjunction keeps."""
    size = len(facts.values) + len(facts.items) + len(facts.members)
    if facts.text is not None:
        size += len(facts.text.patterns)
    if facts.range is not None:
        size += len(facts.range.steps)
    return size


def _kept(found: list[Facts], work: Work) -> tuple[list[Facts], Reason | None]:
    kept, reason = [], None
    for facts in found:
        work.spend(1)
        facts, why = _prune(facts, work)
        if facts.types and not facts.impossible:
            kept.append(facts)
        elif reason is None:
            reason = why
    return kept, reason


def _prune(facts: Facts, work: Work) -> tuple[Facts, Reason | None]:
    """Takes away the types of which nothing is left."""
    if facts.impossible or not facts.types:
        return facts, Reason(facts.impossible_at, facts.impossible)
    types = facts.types
    reason = None
    text, numbers = facts.text, facts.range
    if types & f.STRING and text is not None and (why := strings.contradiction(text, work)) is not None:
        types &= ~f.STRING
        reason = Reason(*why)
    if types & f.NUMBER and numbers is not None:
        empty = [
            bit for bit in (f.INTEGER, f.FRACTION) if types & bit and _is_empty(numbers, work, integer=bit == f.INTEGER)
        ]
        if empty:
            types &= ~sum(empty)
            reason = Reason(numbers.low_at or numbers.steps[0][1], "no number of the type lies between the bounds")
    if types & f.ARRAY and facts.items:
        work.spend(len(facts.items) // 4)
        low, high = bounds(facts)
        if high is not None and low > high:
            types &= ~f.ARRAY
            where = next(items.min_at for items in facts.items if items.min == low)
            reason = Reason(where, f"no array has at least {low} and at most {high} items")
    if types == facts.types:
        return facts, None
    return replace(facts, types=types), reason


def _is_empty(numbers: Range, work: Work, *, integer: bool) -> bool:
    if numbers.low is None or numbers.high is None:
        return False
    step = multiples.step_of(numbers, work, integer=integer) or (Fraction(1) if integer else None)
    if step is None:
        is_open = numbers.low_open or numbers.high_open
        return numbers.low > numbers.high or (numbers.low == numbers.high and is_open)
    least, greatest = multiples.between(numbers, step)
    return least is not None and greatest is not None and least > greatest
