"""`properties`, `required`, `additionalProperties` and `patternProperties`.

property_names.py deals with `propertyNames`, presence.py with numbers of keys and with keys that come together,
other_keys.py with the keys that no schema names, some_keys.py with keys of a kind of which one must come.

Declared keys come in the order of `properties` (any_order.py: in any order) and are spelled as JSON writers spell them
(see values.py). Required keys that `properties` does not name follow in the order of `required`. Then come additional
keys: any but those, in every spelling and any number, each once (`ir.Distinct`). Where additional="declared" closes the
object (declared.py), they are the keys that other branches of the place name, in order.

The value of a key satisfies what `properties` says of it, and what every pattern says that is found in it;
`additionalProperties` is about the keys of which neither speaks. Where a pattern is left out, that is left out, too.

Cost: linear in the declared keys, however many are optional.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from narrows.arguments import quoted
from narrows.grammar import ir
from narrows.grammar.json_schema import declared
from narrows.grammar.json_schema.document import Site, escape
from narrows.grammar.json_schema.facts import OBJECT, Facts, Goal, Members, Pattern, Reason, SomeKey
from narrows.grammar.json_schema.families import some_keys, special_pairs
from narrows.grammar.json_schema.families.any_order import members as members_in_any_order
from narrows.grammar.json_schema.families.conditions import Conditions
from narrows.grammar.json_schema.families.other_keys import KeyClass, allows, other_keys
from narrows.grammar.json_schema.families.presence import Presence, impossible, presence
from narrows.grammar.json_schema.families.presence import members as counted_members
from narrows.grammar.json_schema.families.special_pairs import SpecialPairs
from narrows.grammar.json_schema.finite import Enough, Need
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling.patterns import body
from narrows.grammar.json_schema.spelling.spelling import seq
from narrows.grammar.work import Work

MOST_IN_ORDER = 32
"""Keys of other branches that come one after the other; more come in any order and number, lest n branches cost n * n
keys."""


_NOTHING = Members()


def _read(reading: Reading) -> None:
    members = Members()
    try:
        _read_keys(reading, members)
    finally:  # what comes before a keyword with a wrong value counts, where such keywords are left out
        if members != _NOTHING:
            reading.add_members(members)


def _read_keys(reading: Reading, members: Members) -> None:
    schema = reading.schema
    if "properties" in schema:
        members.lists_at = base = reading.at("properties")
        site, scope = reading.document.site, reading.site.scope
        members.named = {
            name: site(f"{base}/{escape(name)}", member, scope)
            for name, member in reading.mapping("properties").items()
        }
    if "additionalProperties" in schema:
        members.says = True
        members.extra = reading.schema_at("additionalProperties", schema=schema["additionalProperties"])
    if "required" in schema:
        members.required_at = reading.at("required")
        members.required = reading.names("required")
    if "patternProperties" in schema:
        _read_patterns(reading, members)


def _read_patterns(reading: Reading, members: Members) -> None:
    supported: list[tuple[Pattern, Site]] = []
    for source, schema in reading.mapping("patternProperties").items():
        site = reading.schema_at("patternProperties", source, schema=schema)
        pattern = Pattern(site.pointer, source=source)
        if reading.types & OBJECT and body(pattern, "none", reading.reporter, reading.work, beside_text=False) is None:
            if members.extra is not None and members.extra.schema not in (True, {}):
                reason = "a pattern beside it is ignored, and so any other key may have any value"
                reading.reporter.unsupported(reading.at("additionalProperties"), reason, kind="over")
            members.extra = None
        else:
            supported.append((pattern, site))
        members.says = True
    members.patterns = tuple(supported)


@dataclass(slots=True)
class Plan:
    """Which members the objects of one alternative have, before they are spelled."""

    keys: list[str]
    """All that the schema names, also those that no object has."""
    members: list[tuple[str, Goal, bool]]
    """Key, what its value satisfies, and whether it is required; in order."""
    nodes: list[ir.Node]
    """What matches these values."""
    classes: list[KeyClass]
    """The keys that come after these in any order."""
    presence: Presence
    added: list[str] = field(default_factory=list)
    """Of the keys, those that the schema does not name."""

    @property
    def is_counted(self) -> bool:
        """Whether the number of members is bounded by more than what is required."""
        required = sum(is_required for _, _, is_required in self.members)
        return self.presence.most is not None or self.presence.least > required

    def put_in_order(self, keys: Sequence[str]) -> None:
        """Puts the members in the order of all their keys."""
        place = {key: k for k, key in enumerate(keys)}
        both = sorted(zip(self.members, self.nodes, strict=True), key=lambda one: place[one[0][0]])
        self.members, self.nodes = [member for member, _ in both], [node for _, node in both]


def plan(rules: Rules, facts: Facts, needs: list[Need], of: Goal) -> Plan | None:
    """For an alternative of the goal `of`; None where there is no such object. Appends to `needs` the goals of members
    that every such object has."""
    made = _plan(rules, facts, needs, of)
    if made is not None and made.presence.least:
        needs.append(_enough(made, rules.work))
    return made


def _enough(made: Plan, work: Work) -> Enough:
    """So many members as there must be have values. A key counts where those that it brings do, too, and there may be
    so many. Whether these can be put together to a number between the bounds the core sees: the rules count them."""
    presence = made.presence
    goals = {key: goal for key, goal, _ in made.members}
    required = {key for key, _, is_required in made.members if is_required}
    ways: list[tuple[int, tuple[Goal, ...]]] = []
    for key in goals:
        brought = presence.brought_by(key, work)
        work.spend(len(required) // 8)
        is_few = presence.most is None or len(required.union(brought)) <= presence.most
        if is_few and all(one in goals for one in brought):
            ways.append((1, tuple([goals[one] for one in brought])))
    ways += [(len(one.only) or presence.least, (one.goal,)) for one in made.classes]
    return Enough(presence.least, tuple(ways))


def _plan(rules: Rules, facts: Facts, needs: list[Need], of: Goal) -> Plan | None:
    every, goals = facts.members, rules.goals
    named: dict[str, None] = {}
    for one in every:
        named.update(dict.fromkeys(one.named))
    wanted: set[str] = set()
    for one in every:
        wanted.update(one.required)
        named.update(dict.fromkeys(one.required))
    how_many = presence(every, wanted)
    for one in every:
        for key, brought in one.brings.items():
            named.update(dict.fromkeys((key, *brought)))
    keys = list(named)
    rules.count(len(keys) * len(every))
    rules.work.spend(len(keys) * (6 + len(every) // 4) + sum(map(len, keys)) // 64)
    names = [members.names for members in every if members.names is not None]
    members: list[tuple[str, Goal, bool]] = []
    nodes: list[ir.Node] = []
    for key in keys:
        goal = goals.member(every, key)
        node = rules.node(goal)
        is_possible = node is not ir.NEVER and (not names or all(allows(rules, one, key) for one in names))
        if key in wanted:
            needs.append(goal)
            if not is_possible:
                return None
        if is_possible:
            members.append((key, goal, key in wanted))
            nodes.append(node)
    others = declared.other_keys(goals, facts, of, len(keys) - len(members))
    if others is None:
        few, classes = other_keys(rules, every, keys)
        added = [key for key, _ in few]
        members += [(*one, False) for one in few]
        nodes += [rules.node(goal) for _, goal in few]
        return Plan([*keys, *added], members, nodes, classes, how_many, added)
    extra = goals.goal(members.extra for members in every)
    node = rules.node(extra)
    if node is ir.NEVER:
        return Plan(keys, members, nodes, [], how_many)
    if len(others) <= MOST_IN_ORDER or rules.spelling.key_order == "any":
        members += [(key, extra, False) for key in others]
        return Plan(keys, members, nodes + [node] * len(others), [], how_many, list(others))
    rules.work.spend(2 * len(others))
    return Plan(keys, members, nodes, [KeyClass(extra, only=tuple(others))], how_many)


def lower(rules: Rules, facts: Facts, name: str, needs: list[Need], of: Goal) -> ir.Node:
    """The objects that satisfy `facts.members`, of an alternative of the goal `of`. Appends to `needs` the goals of
    members that every such object has."""
    if not any(members.some for members in facts.members):
        return _lower(rules, facts, name, needs, of)
    known: list[str] = []
    while True:
        try:
            if rules.spelling.key_order == "any":
                return _any_order(rules, facts, name, needs, of, known)
            wanted: list[Need] = []
            special, one = some_keys.asked(rules, facts, known)
            node = _lower(rules, one, name, wanted, of, special)
            needs += wanted
            return node
        except some_keys.Few as few:
            known += few.keys


def _any_order(rules: Rules, facts: Facts, name: str, needs: list[Need], of: Goal, known: list[str]) -> ir.Node:
    """Keys in any order, some of them special: each way in which these may be named."""
    free = _free(rules, facts, needs, of, known)
    ways: list[ir.Node] = []
    common: list[Need] = []
    for special, one in some_keys.choices(rules, facts, known, free):
        wanted: list[Need] = []
        way = _lower(rules, one, name, wanted, of, special)
        if way is not ir.NEVER:
            common = [goal for goal in common if goal in wanted] if ways else wanted
            ways.append(way)
    needs += common
    return ir.alt(*ways) if ways else ir.NEVER


def _free(rules: Rules, facts: Facts, needs: list[Need], of: Goal, known: list[str]) -> list[SomeKey]:
    """The special keys that may be any key, and for which another one can always come that no schema names. Appends to
    `needs` what every object needs, whichever of its keys are special."""
    special, one = some_keys.asked(rules, facts, known)
    planned = plan(rules, one, needs, of)
    if planned is None or planned.added or planned.is_counted or (rules.closed and planned.members):
        return []
    possible = reduce(or_, some_keys.together(rules, planned.classes, special, planned.keys), 0)
    return [some for k, some in enumerate(special) if possible >> k & 1]


def _lower(
    rules: Rules, facts: Facts, name: str, needs: list[Need], of: Goal, special: Sequence[SomeKey] = ()
) -> ir.Node:
    """`special`: some keys are of these kinds; where keys come in any order, some that no schema names."""
    spelling = rules.spelling
    planned = plan(rules, facts, needs, of)
    if planned is None:
        return ir.NEVER
    any_order = spelling.key_order == "any"
    if special and planned.added and any_order:
        raise some_keys.Few(planned.added)
    if rules.closed:
        if planned.members and planned.classes:
            planned.classes = []
            rules.left_out.add(name)
        planned.put_in_order(rules.in_order([key for key, _, _ in planned.members]))
    written = spelling.key_once if any_order else spelling.key

    def pair(key: str, goal: Goal) -> ir.Node:
        return seq(written(key), rules.node(goal), spelling.gap)

    pairs = [
        (key, seq(written(key), node, spelling.gap), is_required)
        for (key, _, is_required), node in zip(planned.members, planned.nodes, strict=True)
    ]
    together = some_keys.together(rules, planned.classes, special, planned.keys) if special else {}
    others = {
        ways: node
        for ways, classes in together.items()
        if (node := _pairs_of(rules, planned.keys, classes, special_pairs.mark(ways))) is not None
    }
    wanted = {ways: [one.goal for one in classes] for ways, classes in together.items()}
    if special and any_order and not planned.is_counted:
        if reduce(or_, others, 0) != (1 << len(special)) - 1:
            return ir.NEVER
        never = impossible({key for key, _, _ in planned.members}, planned.presence)
        for ways, key, goal in some_keys.named(rules, special, planned.members):
            if key not in never and (value := rules.node(goal)) is not ir.NEVER:
                one = seq(spelling.marked_key(key, special_pairs.mark(ways)), value, spelling.gap)
                others[ways] = ir.alt(others[ways], one) if ways in others else one
                wanted.setdefault(ways, []).append(goal)
    if any_order:
        needs += some_keys.needed(wanted, len(special))
    rules.guarded += [one.goal for classes in together.values() for one in classes]
    conditions = None
    if facts.clauses or (special and not any_order):
        keys = [key for key, _, _ in pairs]
        asked = [
            (some_keys.clause(rules, some, keys), any(ways >> k & 1 for ways in others))
            for k, some in enumerate(special)
        ]
        named = [(key, goal) for key, goal, _ in planned.members]
        conditions = Conditions(rules, facts.clauses, named, pair, asked)
    if len(pairs) >= rules.limits.live_items:
        _refuse_long_choice(rules, [is_required and not any_order for _, _, is_required in pairs], rules.sources[name])
    extra = _pairs_of(rules, planned.keys, planned.classes)
    if any_order:
        pairs_of_others = SpecialPairs(others, (1 << len(special)) - 1) if special else None
        inside = members_in_any_order(rules, name, pairs, extra, planned.presence, pairs_of_others)
    elif planned.presence.is_anything and conditions is None:
        inside = members(rules, name, [(node, is_required) for _, node, is_required in pairs], extra)
    else:
        inside = counted_members(rules, name, pairs, extra, planned.presence, others, conditions)
    return inside if inside is ir.NEVER else seq(spelling.open_object, inside, spelling.close_object)


def _pairs_of(rules: Rules, keys: list[str], classes: list[KeyClass], mark: bytes = b"") -> ir.Node | None:
    """A key of one of the classes, and its value; None where there is no class. `mark`: a name that the colon reads."""
    spelling = rules.spelling
    colon = spelling.marked_colon(mark) if mark else spelling.colon
    pairs: list[ir.Node] = []
    for one in classes:
        if one.only:
            key = spelling.one_of(list(one.only))
        else:
            text = "".join(keys)
            spelled = (
                0 if text.isascii() else sum([char > "\x7f" for char in set(text)])
            )  # one by one, in every way; the others are known
            rules.work.spend(len(keys) + len(text) // 4 + 20 * spelled)
            key = spelling.other_key(keys, one.languages, one.has_empty)
        pairs.append(seq(key, colon, rules.node(one.goal), spelling.gap))
    return ir.alt(*pairs) if pairs else None


def _refuse_long_choice(rules: Rules, closes: list[bool], pointer: str) -> None:
    """Each key in a row may come next, up to one that closes the row, and so is an open reading of the text: better
    refused here, with its place, than in the middle of a text."""
    longest = run = 0
    for closing in closes:
        run = 0 if closing else run + 1
        longest = max(longest, run)
    bound = rules.limits.live_items
    if longest >= bound:
        raise over_limit("live_items", bound, f"{longest:,} keys of which each may come next", f"{pointer}/properties")


def members(rules: Rules, name: str, pairs: list[tuple[ir.Node, bool]], extra: ir.Node | None) -> ir.Node:
    """What stands between the braces, in any number. A comma belongs to the later of its two neighbours, except before
    the first required key, which closes what stands before it: so no choice is ever written twice."""
    comma = rules.spelling.comma
    tail = ir.EMPTY if extra is None else ir.Repeat(seq(comma, extra))
    pivot = next((k for k, (_, is_required) in enumerate(pairs) if is_required), None)
    if pivot is not None:
        body: list[ir.Node] = [ir.optional(ir.Seq((pair, comma))) for pair, _ in pairs[:pivot]]
        body.append(pairs[pivot][0])
        for pair, is_required in pairs[pivot + 1 :]:
            following = ir.Seq((comma, pair))
            body.append(following if is_required else ir.optional(following))
        return seq(*body, tail)
    firsts: list[ir.Node] = []  # by the first key that is there
    if extra is not None:
        firsts.append(seq(extra, tail))
    after: ir.Node = tail  # what may follow once key k is written
    for k in range(len(pairs) - 1, -1, -1):
        firsts.append(seq(pairs[k][0], after))
        if k:
            after = rules.rule(f"{name}+{k}", seq(ir.optional(seq(comma, pairs[k][0])), after))
    return ir.optional(ir.alt(*reversed(firsts))) if firsts else ir.EMPTY


def _contradiction(facts: Facts, work: Work) -> tuple[int, Reason] | None:
    """What is seen without a look into other schemas: a key is required, and its schema is `false`."""
    if len(facts.members) < 2:
        return None
    required = dict.fromkeys(key for members in facts.members for key in members.required)
    for members in facts.members if required else ():
        work.spend(1 + len(required) // 16)
        extra = None if members.patterns else members.extra
        for key in required:
            site = members.named.get(key, extra)
            if site is not None and site.schema is False:
                return OBJECT, Reason(site.pointer, f"{quoted(key)} is required, and may not be there")
    return None


FAMILY = Family(
    (
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
    ),
    _read,
    types=OBJECT,
    contradiction=_contradiction,
)
