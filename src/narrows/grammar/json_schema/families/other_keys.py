"""The keys that no schema names: by the patterns of `patternProperties` that are found in them, and by `propertyNames`.

Each set of patterns makes a class of keys, whose values satisfy what these patterns say, or `additionalProperties`
where there are none. Classes whose values are the same are one. A class of a few keys is written as if `properties`
named them; the keys of all others come in any order, in every spelling, each once (`ir.Distinct`).

Cost: two classes for one pattern; classes that no key can have are left out, so that patterns which exclude each other
add one each. `Limits.schema_branches` bounds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from narrows.grammar import ir, json_text, utf8
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Facts, Goal, Members, Pattern
from narrows.grammar.json_schema.families import strings
from narrows.grammar.json_schema.goals import key_of
from narrows.grammar.json_schema.report import over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling import patterns
from narrows.grammar.json_schema.spelling.spelling import Spelling

_PRUNED_FROM = 4
"""With more classes, it is worth the time to look which have any key."""

_Class = tuple[frozenset[str], frozenset[str]]
"""Patterns that are found in these keys, and those that are not."""


@dataclass(frozen=True, slots=True)
class KeyClass:
    """Keys that no schema names, and what their values satisfy. `languages`: what each of them matches, as regular
    nodes over the characters of a key; none: any key."""

    goal: Goal
    languages: tuple[ir.Node, ...] = ()
    raw: tuple[ir.Node, ...] = ()
    """The same over characters that are not escaped."""
    only: tuple[str, ...] = ()
    """The keys are these alone."""
    has_empty: bool = True
    """Whether one of the keys is the empty string."""


def other_keys(
    rules: Rules, every: Sequence[Members], keys: Sequence[str]
) -> tuple[list[tuple[str, Goal]], list[KeyClass]]:
    """The keys besides `keys`: those that are few, one by one, and classes of more. Those without a value are left
    out."""
    if not any(members.patterns or members.names for members in every):
        goal = rules.goals.goal([members.extra for members in every])
        return [], [KeyClass(goal)] if rules.node(goal) is not ir.NEVER else []
    return _OtherKeys(rules, every, keys).classes()


class _OtherKeys:
    def __init__(self, rules: Rules, every: Sequence[Members], keys: Sequence[str]) -> None:
        self._rules = rules
        self._every = every
        self._keys = keys
        self._regular = rules.regular
        self._patterns = {_id(pattern): pattern for members in every for pattern, _ in members.patterns}
        self._names = [members.names for members in every if members.names is not None]
        taken = self._regular.literals(key.encode("utf-8", "surrogatepass") for key in keys)
        characters = self._regular.of(ir.Repeat(json_text.char(utf8.ANY, "none")))
        names = [self._regular.of(names_node(rules, site, "none")) for site in self._names]
        self._base = self._regular.both([characters, self._regular.complement(taken), *names])
        self._terms: dict[str, int] = {}

    def classes(self) -> tuple[list[tuple[str, Goal]], list[KeyClass]]:
        by_goal: dict[object, tuple[Goal, list[_Class]]] = {}
        for one in self._split():
            goal = self._goal(one)
            self._rules.work.spend(6)
            if self._rules.node(goal) is not ir.NEVER:
                by_goal.setdefault(key_of(goal) if goal else (), (goal, []))[1].append(one)
        few: list[tuple[str, Goal]] = []
        many: list[KeyClass] = []
        for goal, members in by_goal.values():
            term = self._regular.alt([self._term(one) for one in members])
            texts = self._regular.texts(term, self._rules.limits.object_keys)
            if texts is not None:
                few += [(text.decode("utf-8", "surrogatepass"), goal) for text in sorted(texts)]
            else:
                languages, raw = (
                    self._languages(members, escapes) for escapes in (self._rules.spelling.escapes, "none")
                )
                many.append(KeyClass(goal, languages, raw, has_empty=self._regular.matches(term, b"")))
        return few, many

    def _split(self) -> list[_Class]:
        """Every set of patterns that some key may hold."""
        classes: list[_Class] = [(frozenset(), frozenset())]
        bound = self._rules.limits.schema_branches
        for pattern in self._patterns:
            classes = [
                one for held, lacked in classes for one in ((held | {pattern}, lacked), (held, lacked | {pattern}))
            ]
            if len(classes) > _PRUNED_FROM:
                classes = [one for one in classes if not self._regular.is_never(self._term(one))]
            if len(classes) > bound:
                where = next(iter(self._patterns.values())).pointer
                raise over_limit("schema_branches", bound, "the sets of patterns that a key may hold multiply", where)
        return classes

    def _goal(self, one: _Class) -> Goal:
        sites: list[Site | None] = []
        for members in self._every:
            matched = [site for pattern, site in members.patterns if _id(pattern) in one[0]]
            sites += matched or [members.extra]
        return self._rules.goals.goal(sites)

    def _term(self, one: _Class) -> int:
        held = [self._pattern_term(pattern) for pattern in sorted(one[0])]
        lacked = [self._regular.complement(self._pattern_term(pattern)) for pattern in sorted(one[1])]
        return self._regular.both([self._base, *held, *lacked])

    def _pattern_term(self, pattern: str) -> int:
        term = self._terms.get(pattern)
        if term is None:
            term = self._terms[pattern] = self._regular.of(self._body(pattern, "none"))
        return term

    def _body(self, pattern: str, escapes: json_text.Escapes) -> ir.Node:
        reporter, work = self._rules.goals.reporter, self._rules.work
        body = patterns.body(self._patterns[pattern], escapes, reporter, work, beside_text=False)
        assert body is not None, "patterns that are not supported have been left out"
        return body

    def _languages(self, classes: list[_Class], escapes: json_text.Escapes) -> tuple[ir.Node, ...]:
        """What every key matches that belongs to one of the classes."""
        names = [names_node(self._rules, site, escapes) for site in self._names]
        if len(classes) == 2 ** len(self._patterns):
            return tuple(names)
        options: list[ir.Node] = []
        for held, lacked in classes:
            nodes = [self._body(pattern, escapes) for pattern in sorted(held)]
            nodes += [ir.Not(self._body(pattern, escapes)) for pattern in sorted(lacked)]
            options.append(nodes[0] if len(nodes) == 1 else ir.And(tuple(nodes)))
        return (*names, ir.alt(*options))


def _id(pattern: Pattern) -> str:
    return pattern.source


def names_node(rules: Rules, names: Site, escapes: json_text.Escapes) -> ir.Node:
    """The strings that satisfy a schema, as a regular node over the characters of a key."""
    goals, spelled = rules.goals, _spelled(escapes)
    options: list[ir.Node] = []
    for facts in string_facts(rules, names):
        if facts.values:
            texts = [key for key in _listed(facts) if allows(rules, names, key)]
            options += [json_text.literal(text, escapes) for text in texts]
        else:
            node = None if facts.text is None else strings.body(facts.text, spelled, goals.reporter, rules.work)
            options.append(spelled.characters if node is None else node)
    return ir.alt(*options)


@cache  # four entries at most
def _spelled(escapes: json_text.Escapes) -> Spelling:
    return Spelling("compact", escapes)


def string_facts(rules: Rules, names: Site) -> list[Facts]:
    """What a schema of keys says of strings."""
    alternatives, _ = rules.goals.unsettled(rules.goals.goal((names,)))
    return [facts for facts in alternatives if facts.types & f.STRING]


def allows(rules: Rules, names: Site, key: str) -> bool:
    """Whether a key satisfies the schema of keys."""
    goals = rules.goals
    return any(
        (facts.text is None or patterns.fits(facts.text, key, goals.reporter, rules.work))
        and all(key in values.options for values in facts.values)
        for facts in string_facts(rules, names)
    )


def _listed(facts: Facts) -> list[str]:
    shortest = min(facts.values, key=lambda values: len(values.options))
    return [option for option in shortest.options if isinstance(option, str)]
