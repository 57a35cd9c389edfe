"""`properties`, `required`, `additionalProperties`; and what `patternProperties`, `unevaluatedProperties` and
`minProperties`, which are not enforced, mean for these. property_names.py deals with `propertyNames`.

Declared keys come in the order of `properties` and are spelled as JSON writers spell them (see values.py). Required
keys that `properties` does not name follow in the order of `required`. Then come additional keys: any but those, in
every spelling and any number, each once (`ir.Distinct`). Where additional="declared" closes the object (declared.py),
they are the keys that other branches of the place name, in order.

`additionalProperties` is about the keys that no pattern of `patternProperties` matches. Where the patterns are left
out, it is left out, too.

Cost: linear in the declared keys, however many are optional.
"""

from __future__ import annotations

from narrows.grammar import ir
from narrows.grammar.json_schema import declared
from narrows.grammar.json_schema.document import escape
from narrows.grammar.json_schema.facts import OBJECT, Facts, Goal, Members
from narrows.grammar.json_schema.reading import Family, Reading, is_empty_object
from narrows.grammar.json_schema.report import over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling.spelling import seq

MOST_IN_ORDER = 32
"""Keys of other branches that come one after the other; more come in any order and number, lest n branches cost n * n
keys."""


def _read(reading: Reading) -> None:
    members = Members()
    try:
        _read_enforced(reading, members)
        _read_unenforced(reading, members)
    finally:  # what comes before a keyword with a wrong value counts, where such keywords are left out
        if members.lists_at or members.says or members.required_at or members.least:
            reading.add_members(members)


def _read_enforced(reading: Reading, members: Members) -> None:
    schema = reading.schema
    if "properties" in schema:
        members.lists_at = base = reading.at("properties")
        site = reading.document.site
        members.named = {
            name: site(f"{base}/{escape(name)}", member) for name, member in reading.mapping("properties").items()
        }
    if "additionalProperties" in schema:
        members.says = True
        members.extra = reading.schema_at("additionalProperties", schema=schema["additionalProperties"])
    if "required" in schema:
        members.required_at = reading.at("required")
        members.required = reading.names("required")


def _read_unenforced(reading: Reading, members: Members) -> None:
    schema = reading.schema
    if "patternProperties" in schema:
        has_patterns = not is_empty_object(schema["patternProperties"])
        members.says |= has_patterns
        if reading.not_enforced("patternProperties", OBJECT, trivial=not has_patterns):
            if members.extra is not None and members.extra.schema not in (True, {}):
                reason = "patternProperties beside it is ignored, and so any other key may have any value"
                reading.reporter.unsupported(reading.at("additionalProperties"), reason, kind="over")
            members.extra = None
    if "unevaluatedProperties" in schema:
        others = schema["unevaluatedProperties"]
        members.says |= not is_empty_object(others)
        reading.not_enforced("unevaluatedProperties", OBJECT, trivial=others is True)
    if "minProperties" in schema:
        least = schema["minProperties"]
        members.least = max(int(least), 0) if isinstance(least, int) else 0
        is_zero = isinstance(least, (int, float)) and least == 0 and least is not False
        reading.not_enforced("minProperties", OBJECT, trivial=is_zero)


def lower(rules: Rules, facts: Facts, name: str, needs: list[Goal], of: Goal) -> ir.Node:
    """The objects that satisfy `facts.members`, of an alternative of the goal `of`. Appends to `needs` the goals of
    members that every such object has."""
    spelling = rules.spelling
    every = facts.members
    required = {key: members.required_at for members in every for key in members.required}
    named = dict.fromkeys(key for members in every for key in members.named)
    keys = [*named, *(key for key in required if key not in named)]
    rules.count(len(keys) * len(every))
    rules.work.spend(len(keys) * (6 + len(every) // 4) + sum(map(len, keys)) // 64)
    pairs: list[tuple[ir.Node, bool]] = []
    for key in keys:
        goal = rules.goals.goal(members.named.get(key, members.extra) for members in every)
        value = rules.node(goal)
        if key in required:
            needs.append(goal)
            if value is ir.NEVER:
                return ir.NEVER
        if value is not ir.NEVER:
            pairs.append((seq(spelling.key(key), value, spelling.gap), key in required))
    extra_value = rules.node(rules.goals.goal(members.extra for members in every))
    extra = None
    others = declared.other_keys(rules.goals, facts, of, len(keys) - len(pairs))
    if others is not None and len(others) <= MOST_IN_ORDER:
        pairs += [(seq(spelling.key(key), extra_value, spelling.gap), False) for key in others]
    elif extra_value is not ir.NEVER:
        if others is None:
            text = "".join(keys)
            spelled = sum([char > "\x7f" for char in set(text)])  # one by one, in every way; the others are known
            rules.work.spend(len(keys) + len(text) // 4 + 20 * spelled)
        else:
            rules.work.spend(2 * len(others))
        any_key = spelling.other_key(keys) if others is None else spelling.one_of(others)
        extra = seq(any_key, spelling.colon, extra_value, spelling.gap)
    _refuse_long_choice(rules, pairs, rules.sources[name])
    return seq(spelling.open_object, members(rules, name, pairs, extra), spelling.close_object)


def _refuse_long_choice(rules: Rules, pairs: list[tuple[ir.Node, bool]], pointer: str) -> None:
    """Each optional key in a row may come next, and so is an open reading of the text: better refused here, with its
    place, than in the middle of a text."""
    longest = run = 0
    for _, is_required in pairs:
        run = 0 if is_required else run + 1
        longest = max(longest, run)
    bound = rules.limits.live_items
    if longest >= bound:
        raise over_limit("live_items", bound, f"{longest:,} optional keys in a row", f"{pointer}/properties")


def members(rules: Rules, name: str, pairs: list[tuple[ir.Node, bool]], extra: ir.Node | None) -> ir.Node:
    """What stands between the braces. A comma belongs to the later of its two neighbours, except before the first
    required key, which closes what stands before it: so no choice is ever written twice."""
    comma = rules.spelling.comma
    tail = ir.EMPTY if extra is None else ir.Repeat(seq(comma, extra))
    pivot = next((k for k, (_, is_required) in enumerate(pairs) if is_required), None)
    if pivot is not None:
        body: list[ir.Node] = [ir.optional(seq(pair, comma)) for pair, _ in pairs[:pivot]]
        body.append(pairs[pivot][0])
        for pair, is_required in pairs[pivot + 1 :]:
            following = seq(comma, pair)
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


FAMILY = Family(
    (
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "unevaluatedProperties",
        "minProperties",
    ),
    _read,
)
