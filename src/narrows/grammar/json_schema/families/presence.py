"""`minProperties`, `maxProperties`, `dependentRequired` and draft 7's `dependencies` on keys: how many keys an object
has, and which of them come together.

Declared keys come in one order, so that what counts of the keys before is little: how many there were (as far as a
bound may depend on it), and which of the keys after must come, or must not, because of them. Each such state of each
place in the order becomes a rule.

Cost: a rule for each declared key and state. The states are as many as the greater bound, times two to the number of
dependencies that lie across one place; `Limits.ir_nodes` bounds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from narrows.grammar import ir
from narrows.grammar.json_schema.document import kind_of
from narrows.grammar.json_schema.facts import OBJECT, Facts, Members, Reason
from narrows.grammar.json_schema.families.arrays import counted
from narrows.grammar.json_schema.families.combine import read_dependent
from narrows.grammar.json_schema.families.conditions import Conditions, Open
from narrows.grammar.json_schema.families.special_pairs import SpecialPairs, written
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import invalid, over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling.spelling import seq
from narrows.grammar.work import Work

MOST_COUNTED = 1_000
"""A bound on the number of other keys is a repetition, which the core unrolls. Of more keys, only those that are told
apart are."""


def _read(reading: Reading) -> None:
    schema, members = reading.schema, Members()
    if "minProperties" in schema:
        members.least, members.least_at = reading.count("minProperties") or 0, reading.at("minProperties")
    if "maxProperties" in schema:
        members.most, members.most_at = reading.count("maxProperties"), reading.at("maxProperties")
    for keyword in ("dependentRequired", "dependencies"):
        before = len(members.brings)
        for key, brought in reading.mapping(keyword).items() if keyword in schema else ():
            if isinstance(brought, (list, tuple)):
                if not all(isinstance(name, str) for name in brought):
                    raise invalid(reading.at(keyword, key), f"{keyword} lists property names")
                reading.work.spend(len(brought) // 8)
                members.brings[key] = (*members.brings.get(key, ()), *brought)
            elif keyword == "dependentRequired":
                raise invalid(reading.at(keyword, key), f"{keyword} lists property names, not {kind_of(brought)}")
        if len(members.brings) > before:
            members.brings_at = (*members.brings_at, reading.at(keyword))
    if members != Members():
        reading.add_members(members)
    if "dependencies" in schema:
        read_dependent(reading, "dependencies")


@dataclass(slots=True)
class Presence:
    """How many members objects have, and which bring others with them."""

    least: int
    most: int | None
    brings: dict[str, set[str]]

    @property
    def is_anything(self) -> bool:
        return not self.least and self.most is None and not self.brings

    def brought_by(self, key: str, work: Work) -> list[str]:
        """All that comes with a key, itself included."""
        found = {key: None}
        todo = [key]
        while todo:
            more = self.brings.get(todo.pop(), set()) - found.keys()
            work.spend(1 + len(more))
            found.update(dict.fromkeys(more))
            todo += more
        return list(found)


ANY_KEYS = Presence(0, None, {})


def presence(every: Sequence[Members], required: set[str]) -> Presence:
    """What all of these say besides what is required. Adds to `required` what follows from it."""
    if not any(members.least or members.brings or members.most is not None for members in every):
        return ANY_KEYS
    brings: dict[str, set[str]] = {}
    for members in every:
        for key, brought in members.brings.items():
            brings.setdefault(key, set()).update(brought)
    todo = list(required) if brings else []
    while todo:
        missing = brings.pop(todo.pop(), set()) - required
        required |= missing
        todo += missing
    brings = {key: brought - required - {key} for key, brought in brings.items()}
    least = max((members.least for members in every), default=0)
    most = min((members.most for members in every if members.most is not None), default=None)
    return Presence(
        0 if least <= len(required) else least, most, {key: brought for key, brought in brings.items() if brought}
    )


def _contradiction(facts: Facts, work: Work) -> tuple[int, Reason] | None:
    most = min([members.most for members in facts.members if members.most is not None], default=None)
    if most is None:
        return None
    least = max([members.least for members in facts.members], default=0)
    work.spend(len(facts.members) // 4)
    required = {key for members in facts.members for key in members.required}
    if max(least, len(required)) <= most:
        return None
    where = next(members.most_at for members in facts.members if members.most == most)
    wanted = f"at least {least}" if least > most else f"the {len(required)} required ones"
    return OBJECT, Reason(where, f"no object has at most {most} members and {wanted}")


_NONE_OPEN: Open = frozenset()
_Promises = frozenset[tuple[int, bool]]
"""Keys after this place, by their position, that must come (True) or must not."""
_State = tuple[int, int, _Promises, Open]
"""A place in the order of keys, how many keys came before it, what is promised, and which clauses are open."""


@dataclass(slots=True)
class _Pair:
    """A key and its value."""

    node: ir.Node
    is_required: bool
    brings: list[int]
    """The positions of the keys that must come with it, and of those that must come for it to come."""
    needed_by: list[int]


def members(
    rules: Rules,
    name: str,
    pairs: Sequence[tuple[str, ir.Node, bool]],
    extra: ir.Node | None,
    presence: Presence,
    special: Mapping[int, ir.Node] | None = None,
    conditions: Conditions | None = None,
) -> ir.Node:
    """What stands between the braces: these pairs (key, pair, whether it is required) in order, then others.
    `conditions`: of these pairs. `special`: pairs among the others, by the clauses of the conditions that they make
    hold: bit 0 is clause -1, bit 1 clause -2."""
    return _Builder(rules, name, pairs, extra, presence, special, conditions).node()


def impossible(keys: Set[str], presence: Presence) -> set[str]:
    """Those of the keys that bring one that cannot be."""
    never: set[str] = set()
    while True:
        more = {
            key
            for key, brought in presence.brings.items()
            if key in keys and key not in never and any(b not in keys or b in never for b in brought)
        }
        if not more:
            return never
        never |= more


class _Builder:
    def __init__(
        self,
        rules: Rules,
        name: str,
        pairs: Sequence[tuple[str, ir.Node, bool]],
        extra: ir.Node | None,
        presence: Presence,
        special: Mapping[int, ir.Node] | None,
        conditions: Conditions | None,
    ) -> None:
        self._rules = rules
        self._conditions = conditions
        self._special = special or {}
        self._name = name
        self._extra = extra
        self._least, self._most = presence.least, presence.most
        self._cap = max(self._least, self._most or 0, 1)
        """More keys than these are as good as these."""
        places = {key: place for place, (key, _, _) in enumerate(pairs)}
        never = impossible(places.keys(), presence)
        self._pairs = [_Pair(node, required, [], []) for _, node, required in pairs]
        self._banned = {places[key] for key in never}
        for key, brought in presence.brings.items():
            for other in brought if key in places and key not in never else ():
                self._pairs[places[key]].brings.append(places[other])
                self._pairs[places[other]].needed_by.append(places[key])

    def node(self) -> ir.Node:
        clauses = self._conditions.begin() if self._conditions is not None else _NONE_OPEN
        if clauses is None:
            return ir.NEVER
        start: _State = (0, 0, frozenset((place, False) for place in self._banned), clauses)
        order = self._states(start)
        nodes: dict[_State, ir.Node] = {}
        for state in reversed(order):
            node = self._node(state, nodes)
            self._rules.count(4)
            if state != start and state[0] < len(self._pairs) and not isinstance(node, ir.Ref) and node is not ir.NEVER:
                node = self._rules.rule(f"{self._name}+{state[0]}", node)
            nodes[state] = node
        return nodes[start]

    def _states(self, start: _State) -> list[_State]:
        """All that are reached, each before those that come after it."""
        levels: list[dict[_State, None]] = [{start: None}]
        for _ in self._pairs:
            level: dict[_State, None] = {}
            for state in levels[-1]:
                self._rules.work.spend(6 + len(state[2]) + 2 * len(state[3]))
                level.update(dict.fromkeys([after for _, after in self._taken(state)]))
                if (left_out := self._left_out(state)) is not None:
                    level[left_out] = None
            self._rules.count(len(level))
            levels.append(level)
        return [state for level in levels for state in level]

    def _taken(self, state: _State) -> list[tuple[ir.Node, _State]]:
        place, count, promises, clauses = state
        if (place, False) in promises or (self._most is not None and count >= self._most):
            return []
        later = {(other, True) for other in self._pairs[place].brings if other > place}
        after = frozenset(promise for promise in promises if promise[0] > place) | later
        if any((other, not wanted) in after for other, wanted in after):
            return []
        ways = [(self._pairs[place].node, clauses)]
        if clauses and self._conditions is not None:
            ways = self._conditions.taken(place, clauses)
            self._rules.work.spend(len(ways) * (2 + len(clauses) // 4))
        return [(node, (place + 1, min(count + 1, self._cap), after, still)) for node, still in ways]

    def _left_out(self, state: _State) -> _State | None:
        place, count, promises, clauses = state
        pair = self._pairs[place]
        if pair.is_required or (place, True) in promises:
            return None
        later = {(other, False) for other in pair.needed_by if other > place}
        after = frozenset(promise for promise in promises if promise[0] > place) | later
        if any((other, not wanted) in after for other, wanted in after):
            return None
        still = clauses if self._conditions is None else self._conditions.left_out(place, clauses)
        return None if still is None else (place + 1, count, after, still)

    def _node(self, state: _State, nodes: dict[_State, ir.Node]) -> ir.Node:
        place, count, _, clauses = state
        if place == len(self._pairs):
            return self._others(count, sum([1 << (-1 - number) for number in clauses]))
        options: list[ir.Node] = []
        comma = self._rules.spelling.comma if count else ir.EMPTY
        for pair, after in self._taken(state):
            if nodes[after] is not ir.NEVER:
                options.append(seq(comma, pair, nodes[after]))
        left_out = self._left_out(state)
        if left_out is not None and nodes[left_out] is not ir.NEVER:
            options.append(nodes[left_out])
        return ir.alt(*options) if options else ir.NEVER

    def _others(self, count: int, missing: int) -> ir.Node:
        """As many keys that are not declared as may come after so many. `missing`: the special ones that must, as
        bits."""
        low = max(self._least - count, 0)
        high = None if self._most is None else self._most - count
        if self._extra is None or high == 0:
            return ir.NEVER if low or missing else ir.EMPTY
        bounds = self._rules.limits
        if low > bounds.object_keys:  # a key may come twice after so many
            raise over_limit("object_keys", bounds.object_keys, f"{low:,} keys that must differ", self._place("least"))
        comma = self._rules.spelling.comma
        if high is not None and high > MOST_COUNTED:
            if not missing and bounds.object_keys <= MOST_COUNTED:
                return self._many(bool(count), low, high)
            raise over_limit("object_keys", MOST_COUNTED, f"{high:,} keys are too many to count", self._place("most"))
        if missing:
            return self._with_special(SpecialPairs(self._special, missing), bool(count), low, high)
        if count:
            return ir.Repeat(seq(comma, self._extra), low, high)
        more = ir.Repeat(seq(comma, self._extra), max(low - 1, 0), None if high is None else high - 1)
        first = seq(self._extra, more)
        return first if low else ir.optional(first)

    def _many(self, after_others: bool, low: int, high: int) -> ir.Node:
        """The same for a great number. Of so many keys, only the first are told apart; the others need not stand in the
        same rule."""
        assert self._extra is not None
        comma, apart = self._rules.spelling.comma, self._rules.limits.object_keys
        following = seq(comma, self._extra)
        first = ir.EMPTY if after_others else self._extra
        done = 0 if after_others else 1
        self._rules.count(8 * apart)
        few = seq(first, ir.Repeat(following, max(low - done, 0), apart - done))
        later = counted(self._rules, f"{self._name}*", seq(comma, _in_any_number(self._extra)), 1, high - apart)
        many = seq(first, ir.Repeat(following, apart - done, apart - done), later)
        return ir.alt(few, many) if after_others or low else ir.optional(ir.alt(few, many))

    def _with_special(self, special: SpecialPairs, after_others: bool, low: int, high: int | None) -> ir.Node:
        """The same where some are special."""
        assert self._extra is not None
        slots = special.slots((ir.EMPTY, self._extra), low, high)
        if slots is None:
            return ir.NEVER
        self._rules.count(sum([8 * len(slot.options) * (slot.high or slot.low + 1) for slot in slots]))
        return ir.alt(*written(slots, self._rules.spelling.comma, after_others, special.end))

    def _place(self, bound: str) -> str:
        keyword = "minProperties" if bound == "least" else "maxProperties"
        return f"{self._rules.sources.get(self._name, '')}/{keyword}"


def _in_any_number(pairs: ir.Node) -> ir.Node:
    """The same pairs, their keys not told apart from those before."""
    made = []
    for pair in pairs.items if isinstance(pairs, ir.Alt) else (pairs,):
        items = pair.items if isinstance(pair, ir.Seq) else (pair,)
        made.append(seq(*[item.item if isinstance(item, ir.Distinct) else item for item in items]))
    return ir.alt(*made)


FAMILY = Family(
    ("minProperties", "maxProperties", "dependentRequired", "dependencies"),
    _read,
    types=OBJECT,
    contradiction=_contradiction,
)
