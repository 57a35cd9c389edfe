"""`unevaluatedProperties` and `unevaluatedItems`: a schema for the keys and items that no other part of the schema
speaks of.

    {"allOf": [{"properties": {"a": …}}], "properties": {"b": …}, "unevaluatedProperties": false}     keys a and b

Which parts speak depends on the value: a branch speaks if it holds. So the schema is put into alternatives (normal.py),
of which each knows the parts that hold. There the keyword is `additionalProperties` beside all that these parts name.
An `anyOf` needs every set of branches that may hold at once: what two of them say together is more than what each says.
A negation says nothing of any key.

Cost: the alternatives of the schema. An `anyOf` has two to the number of its branches that speak of keys or items,
which `MOST_TOGETHER` bounds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain, combinations

from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Facts, Items, Members, Unevaluated
from narrows.grammar.json_schema.goals import Goals
from narrows.grammar.json_schema.narrowing import refuse_loop

MOST_TOGETHER = 6
"""Branches of one `anyOf` that speak of keys or items."""


class _TooMany(Exception):
    def __init__(self, pointer: str) -> None:
        super().__init__("more branches may hold at once than are supported beside it")
        self.pointer = pointer


def close(goals: Goals, site: Site, facts: Facts) -> Facts:
    """The facts of a schema without `unevaluated`."""
    _refuse_cycle(goals, site, facts)
    open_facts = replace(facts, unevaluated=())
    inner = goals.document.derived(site.pointer, open_facts)
    outer = goals.closing
    goals.closing = (*outer, site)
    try:
        alternatives, reason = goals.unsettled((inner,), partial(_read, goals, {}))
    except _TooMany as error:
        for one in facts.unevaluated:
            goals.reporter.unsupported(one.pointer, str(error))
        return open_facts
    finally:
        goals.closing = outer
    if not alternatives:
        why = reason.message if reason is not None else "no alternative is left"
        where = reason.pointer if reason is not None else site.pointer
        return Facts(types=0, impossible=why, impossible_at=where)
    closed = [_closed(goals, one, facts.unevaluated) for one in alternatives]
    if len(closed) == 1:
        return closed[0]
    return Facts(choices=(tuple([goals.document.derived(site.pointer, one) for one in closed]),))


def _refuse_cycle(goals: Goals, site: Site, facts: Facts) -> None:
    """Refuses a schema that leads back to itself at one and the same value. It is looked for here, since while a schema
    is being closed it counts as less than it says. A negation that is made of that would hide that it leads back."""
    seen: set[Site] = set()
    todo = [*facts.also, *facts.perhaps, *chain.from_iterable(facts.choices)]
    while todo:
        here = todo.pop()
        while here.negates is not None:
            here = here.negates
        refuse_loop(here, (site,))
        if here in seen:
            continue
        seen.add(here)
        goals.work.spend(2)
        said = goals.glance(here)
        if said is not None:
            todo += said.also
            todo += said.perhaps
            todo += chain.from_iterable(said.choices)


def _read(goals: Goals, known: dict[Site, Facts], site: Site) -> Facts:
    """What a schema says, with every set of branches that may hold at once."""
    refuse_loop(site, goals.closing)
    facts = known.get(site)
    if facts is None:
        facts = goals.read(site)
        choices = [
            branches if k in facts.apart else _together(goals, branches) for k, branches in enumerate(facts.choices)
        ]
        choices += [(held, goals.document.negation(held)) for held in facts.perhaps]
        facts = known[site] = replace(facts, choices=tuple(choices)) if choices else facts
    return facts


def _together(goals: Goals, branches: tuple[Site, ...]) -> tuple[Site, ...]:
    """The branches, and the sets of those that speak of keys or items. Who holds beside such a set and says nothing of
    them changes nothing."""
    speaking = [branch for branch in branches if _speaks(goals, branch)]
    if len(speaking) > MOST_TOGETHER:
        raise _TooMany(speaking[0].pointer)
    goals.work.spend(4 << len(speaking))
    sets = [chosen for size in range(2, len(speaking) + 1) for chosen in combinations(speaking, size)]
    return (*branches, *(goals.document.derived(chosen[0].pointer, Facts(also=chosen)) for chosen in sets))


def _speaks(goals: Goals, site: Site) -> bool:
    seen: set[Site] = set()
    todo = [site]
    while todo:
        here = todo.pop()
        if here in seen:
            continue
        seen.add(here)
        refuse_loop(here, goals.closing)
        goals.work.spend(2)
        facts = goals.read(here)
        if any(members.evaluates for members in facts.members) or any(items.evaluates for items in facts.items):
            return True
        todo += facts.also
        todo += facts.perhaps
        for branches in facts.choices:
            todo += branches
    return False


def _closed(goals: Goals, facts: Facts, unevaluated: tuple[Unevaluated, ...]) -> Facts:
    for one in unevaluated:
        if one.of == f.OBJECT and facts.types & f.OBJECT:
            facts = _closed_object(goals, facts, one)
        elif one.of == f.ARRAY and facts.types & f.ARRAY:
            facts = _closed_array(goals, facts, one)
    return facts


def _closed_object(goals: Goals, facts: Facts, unevaluated: Unevaluated) -> Facts:
    speaking = [members for members in facts.members if members.evaluates]
    if any(members.extra is not None for members in speaking):
        return facts
    anything = Site(unevaluated.pointer, True)
    named = {name: anything for members in speaking for name in members.named}
    found = tuple([(pattern, anything) for members in speaking for pattern, _ in members.patterns])
    goals.work.spend(4 + len(named) // 4 + len(found))
    return replace(facts, members=(*facts.members, Members(named, found, extra=unevaluated.site, says=True)))


def _closed_array(goals: Goals, facts: Facts, unevaluated: Unevaluated) -> Facts:
    speaking = [items for items in facts.items if items.evaluates]
    if any(items.rest is not None for items in speaking):
        return facts
    length = max((len(items.prefix) for items in speaking), default=0)
    goals.work.spend(4 + length // 4)
    rest = unevaluated.site
    matched = [site for items in speaking for site in items.spoken_of] if unevaluated.after_contains else []
    if matched:
        branches = tuple(dict.fromkeys((rest, *matched)))
        rest = goals.document.derived(unevaluated.pointer, Facts(choices=(branches,)), ("unevaluated", branches))
    places = Items((Site(unevaluated.pointer, True),) * length, rest)
    return replace(facts, items=(*facts.items, places))
