"""Keys of which the schema does not say which they are: "some key, whose value is no string". Negations ask for them
(negation.py).

Such a key is one that the schema names, which is then required, or one of the others. Of the others, the special ones
are written with others between them. One key may be special in several ways.

Cost: the object is written once for each way to choose among the keys that are named; `Limits.schema_branches` bounds
them. The members of an object are written once for each order in which the special ones may come.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from narrows.grammar import ir, json_text, utf8
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Facts, Members, SomeKey
from narrows.grammar.json_schema.families.other_keys import KeyClass, allows, names_node
from narrows.grammar.json_schema.goals import key_of
from narrows.grammar.json_schema.report import over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling import patterns
from narrows.grammar.regular import Regular

MOST_SPECIAL = 3
"""Keys that must be among those that no schema names: they may come in any order, and be one key."""


class Few(Exception):
    """A special key is one of these."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__("the keys are few")
        self.keys = keys


def choices(rules: Rules, facts: Facts, known: Sequence[str] = ()) -> Iterator[tuple[list[SomeKey], Facts]]:
    """Every way in which `Members.some` may hold: which of the special keys are among those that no schema names, and
    what the object satisfies if the others are certain keys that are named, or `known`."""
    every = [replace(members, some=()) for members in facts.members]
    somes = [some for members in facts.members for some in members.some]
    anything = Site(somes[0].site.pointer, True)
    every.append(Members(dict.fromkeys((*known, *(key for some in somes for key in sorted(some.but))), anything)))
    keys: dict[str, None] = {}
    for one in every:
        keys.update(dict.fromkeys((*one.named, *one.required)))
        for key, brought in one.brings.items():
            keys.update(dict.fromkeys((key, *brought)))
    ways: list[tuple[list[SomeKey], list[Members]]] = [([], every)]
    for some in somes:
        candidates = [key for key in keys if _may_be(rules, some, every, key)]
        rules.work.spend(len(ways) * (1 + len(candidates)))
        bound = rules.limits.schema_branches
        if len(ways) * (1 + len(candidates)) > bound:
            raise over_limit("schema_branches", bound, "the ways to have such a key multiply", some.site.pointer)
        ways = [
            way
            for specials, members in ways
            for way in (
                *((specials, [*members, Members({key: some.site}, required=(key,))]) for key in candidates),
                ([*specials, some], members),
            )
        ]
    for specials, members in ways:
        yield _without_repetitions(rules, specials), replace(facts, members=tuple(members))


def _may_be(rules: Rules, some: SomeKey, every: Sequence[Members], key: str) -> bool:
    """Whether a key is of this kind, and may have a value that is wanted."""
    if not _is_of(rules, some, key):
        return False
    goal = rules.goals.member((*every, Members({key: some.site})), key)
    return rules.node(goal) is not ir.NEVER


def _is_of(rules: Rules, some: SomeKey, key: str) -> bool:
    if key in some.but or not (some.names is None or allows(rules, some.names, key)):
        return False
    reporter, work = rules.goals.reporter, rules.work
    return all(patterns.matches(pattern, key, reporter, work) is not False for pattern in some.patterns)


def _without_repetitions(rules: Rules, specials: Sequence[SomeKey]) -> list[SomeKey]:
    """Those that do not follow from another one. (No key in `SomeKey.but` is among those that are not named.)"""
    kept: list[tuple[frozenset[Hashable], SomeKey]] = []
    for some in specials:
        asks = _conditions(rules, some)
        if not any(asks <= other for other, _ in kept):
            kept = [*(one for one in kept if not one[0] <= asks), (asks, some)]
    return [some for _, some in kept]


def _conditions(rules: Rules, some: SomeKey) -> frozenset[Hashable]:
    found: set[Hashable] = {(one.source, one.name, one.texts, one.negated) for one in some.patterns}
    if goal := rules.goals.goal((some.site,)):
        found.add(key_of(goal))
    if some.names is not None:
        found.add(("names", key_of(rules.goals.goal((some.names,)) or (some.names,))))
    return frozenset(found)


def together(
    rules: Rules, classes: Sequence[KeyClass], specials: Sequence[SomeKey], keys: Sequence[str]
) -> dict[int, list[KeyClass]]:
    """What a key may be that is special in several ways, by the ways as bits. Empty where one of them has no key.
    Raises `Few`."""
    sets: dict[int, list[KeyClass]] = {0: list(classes)}
    for k, some in enumerate(specials):
        if not any(_narrowed(rules, one, some, keys) for one in classes):
            return {}
        if k == MOST_SPECIAL:
            reason = f"more than {MOST_SPECIAL} keys that must be among those that are not named"
            rules.goals.reporter.unsupported(some.site.pointer, reason, kind="over")
        if k < MOST_SPECIAL:
            more = {
                chosen | 1 << k: [few for one in others for few in _narrowed(rules, one, some, keys)]
                for chosen, others in sets.items()
            }
            sets |= {chosen: found for chosen, found in more.items() if found}
    del sets[0]
    return sets


def orders(pairs: Mapping[int, ir.Node]) -> list[list[ir.Node]]:
    """Every order in which special pairs may come so that each way to be special comes once."""
    everything = reduce(or_, pairs, 0)
    found: list[list[ir.Node]] = []
    begun: list[tuple[int, list[ir.Node]]] = [(0, [])] if pairs else []
    while begun:
        seen, order = begun.pop()
        if seen == everything:
            found.append(order)
        else:
            begun += [(seen | more, [*order, pair]) for more, pair in pairs.items() if not more & seen]
    return found


def _narrowed(rules: Rules, one: KeyClass, some: SomeKey, keys: Sequence[str]) -> list[KeyClass]:
    """The keys of a class that are of this kind, with values as it wants them. `some.but` are among `keys`."""
    goal = rules.goals.goal([*one.goal, some.site])
    if rules.node(goal) is ir.NEVER:
        return []
    if one.only:
        only = tuple([key for key in one.only if _is_of(rules, some, key)])
        return [KeyClass(goal, only=only)] if only else []
    bodies = _bodies(rules, some, rules.spelling.escapes)
    if not bodies:
        return [replace(one, goal=goal)]
    raw = (*one.raw, *_bodies(rules, some, "none"))
    regular = Regular.of_reading(rules.work)
    taken = regular.literals(key.encode("utf-8", "surrogatepass") for key in keys)
    characters = regular.of(ir.Repeat(json_text.char(utf8.ANY, "none")))
    term = regular.both([characters, regular.complement(taken), *(regular.of(node) for node in raw)])
    texts = regular.texts(term, rules.limits.object_keys)
    if texts:
        raise Few([text.decode("utf-8", "surrogatepass") for text in sorted(texts)])
    if texts is not None:
        return []
    return [KeyClass(goal, (*one.languages, *bodies), raw, has_empty=regular.matches(term, b""))]


def _bodies(rules: Rules, some: SomeKey, escapes: json_text.Escapes) -> list[ir.Node]:
    reporter, work = rules.goals.reporter, rules.work
    nodes = [patterns.body(pattern, escapes, reporter, work, beside_text=False) for pattern in some.patterns]
    if some.names is not None:
        nodes.append(names_node(rules, some.names, escapes))
    return [node for node in nodes if node is not None]
