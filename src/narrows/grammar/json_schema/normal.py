"""A goal, schemas that must all hold of one value, as alternatives: plain conjunctions of facts, any one of which
suffices.

`$ref` and `allOf` add their facts; `anyOf` is distributed over its siblings, one alternative per combination of
branches. What cannot hold (an empty range, a length from 5 to 2) loses its type: the families say so. An alternative
without types is dropped, and the reason kept.

Cost: one `meet` per schema and alternative. `Limits.schema_branches` bounds the alternatives of one goal,
`Limits.reading_work` those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from narrows.grammar.json_schema.clauses import Clauses, added, closed_keys
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import ANY, OBJECT, Facts, Goal, Reason, meet
from narrows.grammar.json_schema.narrowing import Group, Narrowing, Path, refuse_loop
from narrows.grammar.json_schema.report import over_limit
from narrows.grammar.work import Work

Contradiction = Callable[[Facts, Work], "tuple[int, Reason] | None"]
"""The types of which facts leave no value, and why; None where they leave some of all, or nobody can see."""
_Contradictions = Sequence[tuple[int, Contradiction]]
"""Each with the types that it knows of."""
_BOTH = "a schema and its negation exclude each other"
_MANY = 16
"""With so many alternatives, or combinations of branches, it is worth the time to see early which are empty."""


@dataclass(slots=True)
class _Open:
    """An alternative in the making."""

    facts: Facts
    met: set[Site]
    pending: list[tuple[Site, Path]]
    """Schemas still to conjoin, the next one last, each with the references that led to it."""
    groups: list[Group]
    """Branches still to choose from, the next group last."""


def alternatives(
    goal: Goal,
    read: Callable[[Site], Facts],
    glance: Callable[[Site], Facts | None],
    contradictions: _Contradictions,
    work: Work,
    *,
    same: Callable[[Site], Hashable],
    may_skip: bool = True,
    keeps_clauses: bool = False,
) -> tuple[list[Facts], Reason | None]:
    """The alternatives, mostly in the order of the schema, and the first reason for which one was dropped. `glance`:
    see narrowing.py. `same`: equal for schemas that say the same. `may_skip`: where one branch of a group holds
    already, the others need not be looked at. `keeps_clauses`: where many groups are about keys alone, they become
    `Facts.clauses`."""
    if len(goal) == 1:
        only = read(goal[0])
        if not only.also and not only.choices:
            return kept([only], contradictions, work)
    bound = work.limits.schema_branches
    narrowing = Narrowing(glance, lambda facts: not _prune(facts, contradictions, work)[0].types, work)
    clauses = Clauses(read, work)
    done: list[Facts] = []
    reason: Reason | None = None
    stack = [_Open(Facts(), set(), [(site, ()) for site in reversed(goal)], [])]
    while stack:
        here = stack.pop()
        work.spend(5)
        _conjoin(here, read, same, work)
        many = bool(here.groups) and (len(stack) + len(done) >= _MANY or _combinations(here.groups) >= _MANY)
        if many:
            here.facts, why = _prune(here.facts, contradictions, work)  # those that are empty must not multiply
            reason = reason or why
            left = narrowing.left(here.facts, here.groups) if here.facts.types and not here.facts.impossible else None
            if left is None:
                continue
            here.groups = left
            if keeps_clauses and len(left) > 1:
                if here.facts.types & OBJECT and here.facts.types != OBJECT:
                    for types in (OBJECT, ANY & ~OBJECT):
                        only = replace(here.facts, types=here.facts.types & types)
                        stack.append(_Open(only, here.met, [], left))
                    continue
                if here.facts.types == OBJECT and not here.facts.values:
                    _keep_clauses(here, clauses)
        group = _next_group(here, work, may_skip)
        if group is None or here.facts.impossible or not here.facts.types:
            done.append(here.facts)
            continue
        branches = group.branches
        if len(stack) + len(done) + len(branches) > bound:
            raise over_limit("schema_branches", bound, "the alternatives multiply beyond bound", goal[0].pointer)
        work.spend(len(branches) // 2)
        before: list[tuple[Site, Path]] = []
        opened: list[_Open] = []
        for branch in branches:
            opened.append(_Open(here.facts, here.met, [(branch, group.path), *before], here.groups))
            if many and may_skip and branch.otherwise is not None:
                before.append((branch.otherwise, ()))
        work.spend(len(before) ** 2 // 8)
        stack.extend(reversed(opened))
    remaining, why = kept(done, contradictions, work)
    return remaining, reason or why


def _keep_clauses(here: _Open, clauses: Clauses) -> None:
    """Turns the groups into clauses, if all can be. Else those that cannot come last, and are chosen from first."""
    closed = closed_keys(here.facts.members)
    found = [clauses.of(group.branches, closed) for group in here.groups]
    if all(said is not None for said in found):
        here.facts = added(here.facts, [clause for said in found for clause in said or ()])
        here.groups = []
        if any(not clause for clause in here.facts.clauses):
            here.facts.types, here.facts.impossible = 0, "no branch is left"
    else:
        apart = sorted(zip(here.groups, found, strict=True), key=lambda one: one[1] is None)
        here.groups = [group for group, _ in apart]


def _combinations(groups: list[Group]) -> int:
    """How many there are; not more than some."""
    product = 1
    for group in groups:
        product *= len(group.branches)
        if product >= _MANY:
            break
    return product


def _next_group(here: _Open, work: Work, may_skip: bool) -> Group | None:
    """The next branches to choose from."""
    while here.groups:
        group = here.groups.pop()
        work.spend(len(group.branches) // 16)
        if not may_skip or not any(branch in here.met and _is_plain(branch) for branch in group.branches):
            return group
    return None


def _is_plain(site: Site) -> bool:
    """Whether it says all by itself. What leads on to other schemas may lead back here, and then says nothing."""
    facts: Facts | None = site.facts
    return facts is not None and not facts.also and not facts.choices


def _conjoin(here: _Open, read: Callable[[Site], Facts], same: Callable[[Site], Hashable], work: Work) -> None:
    limits = work.limits
    work.spend((len(here.met) + len(here.groups)) // 16)
    here.met, here.groups = set(here.met), list(here.groups)  # which others that are still to be made share
    groups: list[Group] = []
    while here.pending:
        site, path = here.pending.pop()
        refuse_loop(site, path)
        if site in here.met:
            continue
        if site.negates in here.met or site.negation in here.met:
            here.facts = replace(here.facts, types=0, impossible=_BOTH, impossible_at=site.pointer)
            break
        if len(path) >= limits.schema_depth:
            raise over_limit("schema_depth", limits.schema_depth, "references lead on too long", site.pointer)
        if len(here.met) >= limits.schema_branches:
            raise over_limit("schema_branches", limits.schema_branches, "too many schemas hold at once", site.pointer)
        facts = read(site)
        work.spend(6 + len(path) // 16)
        path = (*path, site)
        here.met.add(site)
        here.facts = meet(here.facts, facts)
        work.spend(_size(here.facts) // 8)
        here.pending.extend((also, path) for also in reversed(facts.also))
        negates = site.negates if len(facts.choices) == 1 and not facts.also else None
        groups.extend(Group(branches, path, negates) for branches in facts.choices)
    here.groups.extend(reversed(groups))
    negated = [site.negates for site in here.met if site.negates is not None and isinstance(site.negates.schema, dict)]
    if negated and len(here.met) > len(negated) and not here.facts.impossible:
        work.spend(len(here.met) // 8)
        said = {same(site) for site in here.met if site.negates is None and isinstance(site.schema, dict)}
        wrong = next((site for site in negated if same(site) in said), None) if said else None
        if wrong is not None:
            here.facts = replace(here.facts, types=0, impossible=_BOTH, impossible_at=wrong.pointer)


def _size(facts: Facts) -> int:
    """How many parts a conjunction keeps."""
    size = len(facts.values) + len(facts.items) + len(facts.members)
    if facts.text is not None:
        size += len(facts.text.patterns)
    if facts.range is not None:
        size += len(facts.range.steps) + len(facts.range.not_steps)
    return size


def kept(alternatives: list[Facts], contradictions: _Contradictions, work: Work) -> tuple[list[Facts], Reason | None]:
    """The alternatives of which something is left, and why the first of the others was dropped."""
    left, reason = [], None
    for facts in alternatives:
        work.spend(1)
        facts, why = _prune(facts, contradictions, work)
        if facts.types and not facts.impossible:
            left.append(facts)
        elif reason is None:
            reason = why
    return left, reason


def _prune(facts: Facts, contradictions: _Contradictions, work: Work) -> tuple[Facts, Reason | None]:
    """Takes away the types of which nothing is left."""
    if facts.impossible or not facts.types:
        return facts, Reason(facts.impossible_at, facts.impossible)
    if not (facts.members or facts.items or facts.text or facts.range or facts.values):
        return facts, None
    types, reason = facts.types, None
    for known, contradiction in contradictions:
        if facts.types & known and (empty := contradiction(facts, work)) is not None:
            types &= ~empty[0]
            reason = empty[1]
    return (facts, None) if reason is None else (replace(facts, types=types), reason)
