"""Keys of which the schema does not say which they are: "some key, whose value is no string". Negations ask for them
(negation.py).

Such a key is one that the schema names, or one of the others. Where keys come in declared order, whether one of the
named keys has been special is part of what is known at each place (conditions.py).

Where they come in any order, one key may be special in several ways. Its colon has a name for these ways, which is read
once in an object (`ir.Distinct`), and guards ask for these names: the object ends only where all have come, and where
the number of keys is bounded, a key comes only while there is room for those that are missing. So which special keys
have come is part of the position in the text, and neither orders nor places multiply. This needs keys without a name
that can always come, so that no text ends where a special key is missing. Where there are none, or keys are counted,
the object is written once for each way to choose among the named keys, which are then required.

Cost: each place where a key may come has a pair for each set of ways to be special that some key has, at most 2 to the
power of `MOST_SPECIAL`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from narrows.grammar import ir, json_text, utf8
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Clause, Condition, Facts, Goal, Members, SomeKey
from narrows.grammar.json_schema.families.other_keys import KeyClass, allows, names_node
from narrows.grammar.json_schema.finite import Enough
from narrows.grammar.json_schema.goals import key_of
from narrows.grammar.json_schema.report import over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling import patterns

MOST_SPECIAL = 5
"""Keys that must be among those that no schema names: they may come in any order, and be one key."""

MOST_IN_ANY_ORDER = 3
"""The same where all keys come in any order. With four, the readings of a few objects at one place may be too many for
one step."""


class Few(Exception):
    """A special key is one of these."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__("the keys are few")
        self.keys = keys


def asked(rules: Rules, facts: Facts, known: Sequence[str]) -> tuple[list[SomeKey], Facts]:
    """The special keys, but for those that follow from others, and the facts without them. The keys that they may not
    be, and `known`, count as named."""
    somes = [some for members in facts.members for some in members.some]
    anything = Site(somes[0].site.pointer, True)
    named = dict.fromkeys((*known, *(key for some in somes for key in sorted(some.but))), anything)
    every = [*(replace(members, some=()) for members in facts.members), Members(named)]
    return _without_repetitions(rules, somes), replace(facts, members=tuple(every))


def clause(rules: Rules, some: SomeKey, keys: Sequence[str]) -> Clause:
    """Which of these keys are of the kind, and what is enough of them."""
    rules.work.spend(len(keys))
    return {key: Condition(sites=(some.site,)) for key in keys if _is_of(rules, some, key)}


def choices(
    rules: Rules, facts: Facts, known: Sequence[str] = (), free: Sequence[SomeKey] = ()
) -> Iterator[tuple[list[SomeKey], Facts]]:
    """Every way in which `Members.some` may hold: which of the special keys are not chosen, and what the object
    satisfies if the others are certain keys that are named, or `known`. `free`: those for which nothing is chosen."""
    somes, without = asked(rules, facts, known)
    every = without.members
    keys: dict[str, None] = {}
    for one in every:
        keys.update(dict.fromkeys((*one.named, *one.required)))
        for key, brought in one.brings.items():
            keys.update(dict.fromkeys((key, *brought)))
    ways: list[tuple[list[SomeKey], list[Members]]] = [([], list(every))]
    for some in somes:
        candidates = [] if some in free else [key for key in keys if _may_be(rules, some, every, key)]
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
        yield specials, replace(facts, members=tuple(members))


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
    """Those that do not follow from another one."""
    kept: list[tuple[frozenset[Hashable], SomeKey]] = []
    for some in specials:
        asks = _conditions(rules, some)
        if not any(_follows(asks, some, other, one) for other, one in kept):
            kept = [*((other, one) for other, one in kept if not _follows(other, one, asks, some)), (asks, some)]
    return [some for _, some in kept]


def _follows(asks: frozenset[Hashable], some: SomeKey, other: frozenset[Hashable], one: SomeKey) -> bool:
    return asks <= other and some.but <= one.but


def _conditions(rules: Rules, some: SomeKey) -> frozenset[Hashable]:
    found: set[Hashable] = {(one.source, one.name, one.texts, one.negated) for one in some.patterns}
    if goal := rules.goals.goal((some.site,)):
        found.add(key_of(goal))
    if some.names is not None:
        found.add(("names", key_of(rules.goals.goal((some.names,)) or (some.names,))))
    return frozenset(found)


def named(
    rules: Rules, specials: Sequence[SomeKey], members: Sequence[tuple[str, Goal, bool]]
) -> Iterator[tuple[int, str, Goal]]:
    """In which ways, as bits, a key that is named may be special, and what its value then satisfies."""
    for key, plain, _ in members:
        sets: dict[int, Goal] = {0: plain}
        for k, some in enumerate(specials):
            if _is_of(rules, some, key):
                sets |= {ways | 1 << k: rules.goals.goal([*goal, some.site]) for ways, goal in sets.items()}
        del sets[0]
        yield from ((ways, key, goal) for ways, goal in sets.items())


def needed(goals: Mapping[int, Sequence[Goal]], count: int) -> Iterator[Enough]:
    """What the value of each special key must satisfy. `goals`: of the keys that may be special, by the ways as bits; a
    key that is special in several ways may be so in each of them alone."""
    for k in range(count):
        yield Enough.any_of({key_of(goal): goal for goal in goals.get(1 << k, ())}.values())


def together(
    rules: Rules,
    classes: Sequence[KeyClass],
    specials: Sequence[SomeKey],
    keys: Sequence[str],
) -> dict[int, list[KeyClass]]:
    """What a key may be that is special in several ways, by the ways as bits. Raises `Few`."""
    sets: dict[int, list[KeyClass]] = {0: list(classes)}
    few: dict[str, None] = {}
    possible = 0
    most = MOST_IN_ANY_ORDER if rules.spelling.key_order == "any" else MOST_SPECIAL
    for k, some in enumerate(specials):
        more: dict[int, list[KeyClass]] = {}
        for chosen, others in sets.items() if possible < most else ():
            more[chosen | 1 << k] = [one for other in others for one in _narrowed(rules, other, some, keys, few)]
        if possible == most and any(_narrowed(rules, one, some, keys, few) for one in classes):
            reason = f"more than {most} keys that must be among those that are not named"
            rules.goals.reporter.unsupported(some.site.pointer, reason, kind="over")
        found = {chosen: narrowed for chosen, narrowed in more.items() if narrowed}
        possible += bool(found)
        sets |= found
    if few:
        raise Few(list(few))
    del sets[0]
    return sets


def _narrowed(
    rules: Rules, one: KeyClass, some: SomeKey, keys: Sequence[str], found: dict[str, None]
) -> list[KeyClass]:
    """The keys of a class that are of this kind, with values as it wants them. `some.but` are among `keys`. Where they
    are few, they are added to `found`."""
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
    regular = rules.regular
    taken = regular.literals(key.encode("utf-8", "surrogatepass") for key in keys)
    characters = regular.of(ir.Repeat(json_text.char(utf8.ANY, "none")))
    term = regular.both([characters, regular.complement(taken), *(regular.of(node) for node in raw)])
    texts = regular.texts(term, rules.limits.object_keys)
    if texts is not None:
        found.update(dict.fromkeys([text.decode("utf-8", "surrogatepass") for text in sorted(texts)]))
        return []
    return [KeyClass(goal, (*one.languages, *bodies), raw, has_empty=regular.matches(term, b""))]


def _bodies(rules: Rules, some: SomeKey, escapes: json_text.Escapes) -> list[ir.Node]:
    reporter, work = rules.goals.reporter, rules.work
    nodes = [patterns.body(pattern, escapes, reporter, work, beside_text=False) for pattern in some.patterns]
    if some.names is not None:
        nodes.append(names_node(rules, some.names, escapes))
    return [node for node in nodes if node is not None]
