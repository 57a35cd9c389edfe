"""Which of an object's clauses hold (clauses.py), as its keys are written one after the other.

A clause names keys, and for each what is enough there. Once it holds it is forgotten; where no key is left that could
make it hold, there is no such object. So what counts of the keys before is which clauses are still open.

What some key must be (some_keys.py) is a clause, too; one that may also hold by keys after all of these.

Cost: for each key and set of open clauses, one goal for each set of the schemas that would make some of them hold;
`MOST` bounds the sets.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from narrows.arguments import quoted
from narrows.grammar import ir
from narrows.grammar.json_schema import check, equality
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Clause, Condition, Facts, Goal, Values
from narrows.grammar.json_schema.report import over_limit
from narrows.grammar.json_schema.rules import Rules

MOST = 256
"""Sets of schemas of one key that would make clauses hold."""

MOST_LISTED = 1_000
"""Values that are told apart by which conditions they satisfy."""
MOST_TRIED = 16
"""Values that are tried one by one."""

Open = frozenset[int]
"""The clauses that do not hold yet."""


class Conditions:
    def __init__(
        self,
        rules: Rules,
        clauses: Sequence[Clause],
        keys: Sequence[tuple[str, Goal]],
        written: Callable[[str, Goal], ir.Node],
        special: Sequence[tuple[Clause, bool]] = (),
    ) -> None:
        """`keys`: all that the object may have of those that clauses name, in order, with what their values satisfy.
        `written`: a key and its value. `special`: clauses that are known by negative numbers, from -1 down, and whether
        they may hold after all keys."""
        self._rules = rules
        self._keys = keys
        self._written = written
        places = {key: place for place, (key, _) in enumerate(keys)}
        self._at: dict[int, list[tuple[int, Condition]]] = {}
        """By place, the clauses that speak of it."""
        self._last: dict[int, int] = {}
        """By clause, the last place that it speaks of; -1 for none."""
        for number, clause in enumerate(dict.fromkeys(map(_frozen, clauses))):
            if any(condition.absent and key not in places for key, condition in clause):
                continue
            here = [(places[key], condition) for key, condition in clause if key in places]
            rules.work.spend(2 + len(clause))
            self._last[number] = max((place for place, _ in here), default=-1)
            for place, condition in here:
                self._at.setdefault(place, []).append((number, condition))
        for k, (one, is_open) in enumerate(special):
            here = [(places[key], condition) for key, condition in one.items() if key in places]
            rules.work.spend(2 + len(one))
            self._last[-1 - k] = len(keys) if is_open else max((place for place, _ in here), default=-1)
            for place, condition in here:
                self._at.setdefault(place, []).append((-1 - k, condition))
        self._lists: dict[Goal, list[Any] | None] = {}
        self._ways: dict[tuple[int, Open], list[tuple[ir.Node, Open]]] = {}

    def begin(self) -> Open | None:
        """Before the first key; None if no object can be."""
        return self._still(-1, frozenset(self._last))

    def left_out(self, place: int, clauses: Open) -> Open | None:
        """After a place whose key is not there."""
        hold = [number for number, condition in self._at.get(place, ()) if condition.absent]
        return self._still(place, clauses.difference(hold))

    def taken(self, place: int, clauses: Open) -> list[tuple[ir.Node, Open]]:
        """After a place whose key is there: each way to write it and its value, and what is open after it."""
        ways = self._ways.get((place, clauses))
        if ways is None:
            ways = self._ways[place, clauses] = self._taken(place, clauses)
        return ways

    def _taken(self, place: int, clauses: Open) -> list[tuple[ir.Node, Open]]:
        self._rules.work.spend(4 + len(self._at.get(place, ())))
        wanted: dict[Site, set[int]] = {}
        for number, condition in self._at.get(place, ()):
            for site in condition.sites if number in clauses else ():
                wanted.setdefault(self._rules.goals.document.like(site), set()).add(number)
        goals = self._rules.goals
        key, goal = self._keys[place]
        ways = self._by_value(goal, wanted)
        most = MOST + len(ways)
        for site, hold in wanted.items():
            following: dict[Goal, set[int]] = {}
            for so_far, held in ways.items():
                is_true = None if hold <= held else self._is_true(so_far, site)
                if hold <= held or is_true is not None:
                    following[so_far] = following.get(so_far, held) | (held | hold if is_true else held)
                    continue
                other = goals.document.negation(site)
                without = so_far
                other_goal = other if site.negates is None else site.negates  # as other, which may not be readable
                if any(self._listed(goals.goal(goal)) is not None for goal in (so_far, (site,), (other_goal,))):
                    without = goals.goal((*so_far, other))  # then no value is written in two ways
                for one, holding in ((goals.goal((*so_far, site)), held | hold), (without, held)):
                    if self._rules.node(one) is not ir.NEVER:
                        following[one] = following.get(one, holding) | holding  # all that one goal is known to imply
            ways = following
            if len(ways) > most:
                reason = f"what {quoted(key)} may be depends on other keys in too many ways"
                raise over_limit("schema_branches", MOST, reason, site.pointer)
        found: dict[Open, list[ir.Node]] = {}
        for one, holding in ways.items():
            still = self._still(place, clauses - holding)
            if still is not None:
                found.setdefault(still, []).append(self._written(key, one))
        self._rules.count(4 * len(ways))
        return [(ir.alt(*nodes), still) for still, nodes in found.items()]

    def _by_value(self, goal: Goal, wanted: dict[Site, set[int]]) -> dict[Goal, set[int]]:
        """What the values of a goal may be, by the schemas that list values, or all but some: each set of values of
        which the same ones hold, and all others together. Takes these schemas from `wanted`."""
        goals, work = self._rules.goals, self._rules.work
        listed: list[tuple[frozenset[Hashable], bool, set[int]]] = []
        values: dict[Hashable, Any] = {}
        for site in list(wanted) if len(wanted) > 1 else ():
            options, is_negated = self._listed(goals.goal((site,))), False
            if options is None and site.negates is not None and site.negates.negates is None:
                options, is_negated = self._listed(goals.goal((site.negates,))), True
            if options is None or len(options) > MOST_LISTED:
                continue
            found = {equality.key_of(option, work): option for option in options}
            listed.append((frozenset(found), is_negated, wanted[site]))
            values.update(found)
        if len(listed) < 2:
            return {goal: set()}
        own = self._listed(goal)
        if own is not None:
            values = {equality.key_of(option, work): option for option in own}
        else:
            values = {name: one for name, one in values.items() if check.run(check.admits(goals, goal, one))}
        work.spend(len(listed) * (1 + len(values) // 4))
        groups: dict[frozenset[int], list[Hashable]] = {}
        for name in values:
            holding = [numbers for names, is_negated, numbers in listed if (name in names) is not is_negated]
            groups.setdefault(frozenset[int]().union(*holding), []).append(name)
        others = frozenset[int]().union(*[numbers for _, is_negated, numbers in listed if is_negated])
        for site in list(wanted):
            if any(wanted[site] is numbers for _, _, numbers in listed):
                del wanted[site]
        if own is not None and len(groups) == 1:
            return {goal: set(next(iter(groups)))}
        if own is None and not values:
            return {goal: set(others)}
        ways: dict[Goal, set[int]] = {}
        for hold, group in groups.items():
            one = self._enumeration(goal, group, values)
            ways.setdefault(goals.goal((*goal, one)), set()).update(hold)
        if own is None:
            every = self._enumeration(goal, list(values), values)
            rest = goals.goal((*goal, goals.document.negation(every)))
            if self._rules.node(rest) is not ir.NEVER:
                ways.setdefault(rest, set()).update(others)
        return ways

    def _enumeration(self, goal: Goal, names: list[Hashable], values: dict[Hashable, Any]) -> Site:
        """The schema of these values."""
        pointer = goal[0].pointer if goal else ""
        facts = Facts(values=(Values(pointer, [values[name] for name in names]),))
        return self._rules.goals.document.derived(pointer, facts, ("values", frozenset(names)))

    def _is_true(self, goal: Goal, site: Site) -> bool | None:
        """Whether all values of the goal satisfy a schema, or (False) none; None if that is not known."""
        goals = self._rules.goals
        both = goals.goal((*goal, site))
        if both == goal:
            return True
        listed = self._listed(goal)
        if listed is None or len(listed) > MOST_TRIED:
            return None
        alone = goals.goal((site,))
        found = {check.run(check.admits(goals, alone, value)) for value in listed}
        return found.pop() if len(found) == 1 else None

    def _listed(self, goal: Goal) -> list[Any] | None:
        """The values of a goal, where they are listed."""
        if goal not in self._lists:
            options = self._rules.goals.alternatives(goal)
            is_listed = bool(options) and all(option.values for option in options)
            every = options if is_listed else ()
            values = [value for option in every for value in check.surviving(self._rules.goals, option)]
            self._lists[goal] = values if is_listed else None
        return self._lists[goal]

    def _still(self, place: int, clauses: Open) -> Open | None:
        """These clauses; None if one of them speaks of no later place."""
        return None if any(self._last[number] <= place for number in clauses) else clauses


def _frozen(clause: Clause) -> tuple[tuple[str, Condition], ...]:
    return tuple(clause.items())
