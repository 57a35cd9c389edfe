"""`items`, `prefixItems`, `minItems`, `maxItems`, and the older `items: [...]` with `additionalItems`.

Cost: a rule per optional place of a prefix. Counts up to 1,000 are repetitions, which the core unrolls; greater ones
are written with powers of two, so that a billion takes some 60 rules.
"""

from __future__ import annotations

from narrows.grammar import ir
from narrows.grammar.json_schema.facts import ARRAY, Facts, Items, Reason
from narrows.grammar.json_schema.families import contains, unique_items
from narrows.grammar.json_schema.finite import Need
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import Status, invalid, over_limit
from narrows.grammar.json_schema.rules import Rules
from narrows.grammar.json_schema.spelling.spelling import seq
from narrows.grammar.work import Work

UNROLLED = 1_000


def _read(reading: Reading) -> None:
    items = Items()
    reading.add_items(items)
    _read_places(reading, items)
    if "minItems" in reading.schema:
        items.min, items.min_at = reading.count("minItems") or 0, reading.at("minItems")
    if "maxItems" in reading.schema:
        items.max, items.max_at = reading.count("maxItems"), reading.at("maxItems")


def _read_places(reading: Reading, items: Items) -> None:
    schema = reading.schema
    if isinstance(schema.get("items"), (list, tuple)):  # until draft 2019-09
        if "prefixItems" in schema:
            raise invalid(reading.at("items"), "items is a schema where prefixItems is an array of schemas")
        items.prefix = reading.schemas("items") if schema["items"] else ()
        if "additionalItems" in schema:
            items.rest = reading.schema_at("additionalItems", schema=schema["additionalItems"])
        return
    if "prefixItems" in schema and reading.draft.prefix_items:
        items.prefix = reading.schemas("prefixItems")
    elif "prefixItems" in schema:
        reading.reporter.unsupported(
            reading.at("prefixItems"),
            f"prefixItems is no keyword of {reading.draft.name}, which `$schema` names",
            hint="Write `items: [...]`, or name draft 2020-12",
        )
    if "items" in schema:
        items.rest = reading.schema_at("items", schema=schema["items"])
    if "additionalItems" in schema:
        reading.reporter.note(reading.at("additionalItems"), Status("exact", "asserts nothing without `items: [...]`"))


def lower(rules: Rules, facts: Facts, name: str, needs: list[Need]) -> ir.Node:
    """The arrays that satisfy `facts.items`. Appends to `needs` the goals of items that every such array has."""
    spelling = rules.spelling
    low, high = bounds(facts)
    if equal_at := next((items.equal_at for items in facts.items if items.equal_at), ""):
        if rules.goals.reporter.on_unsupported == "error":  # less than the schema allows, and never more
            rules.leave_out(equal_at, "arrays in which two items are equal are left out where a negation allows them")
            return ir.NEVER
        rules.goals.reporter.unsupported(equal_at, "a uniqueItems in a negation is not supported", kind="over")
    if any(items.unique_at for items in facts.items):
        inside = unique_items.elements(rules, name, facts.items, low, high, needs)
        if inside is not None:
            if inside is ir.NEVER:
                needs.append(unique_items.too_few(rules, facts.items, low))
                return inside
            return seq(spelling.open_array, inside, spelling.close_array)
    if any(items.contained for items in facts.items):
        if max(low, high or 0) > UNROLLED:
            raise over_limit("ir_nodes", UNROLLED, "items are counted in arrays of so many", rules.sources[name])
        inside = contains.elements(rules, name, facts.items, low, high, needs)
        return seq(spelling.open_array, inside, spelling.close_array)
    prefix_length = max(len(items.prefix) for items in facts.items)
    rules.count(prefix_length * len(facts.items))
    rules.work.spend(prefix_length * (4 + len(facts.items) // 4))
    rest_goal = rules.goals.goal(items.rest for items in facts.items)
    rest = rules.node(rest_goal)
    if rest is ir.NEVER and (high is None or high > prefix_length):
        high = prefix_length
    places: list[ir.Node] = []
    for k in range(prefix_length if high is None else min(prefix_length, high)):
        goal = rules.goals.goal(items.prefix[k] if k < len(items.prefix) else items.rest for items in facts.items)
        place = rules.node(goal)
        if k < low:
            needs.append(goal)
        if place is ir.NEVER:
            high = k
            break
        places.append(seq(place, spelling.gap))
    if low > prefix_length:
        needs.append(rest_goal)
    if high is not None and low > high:
        return ir.NEVER
    element = seq(rest, spelling.gap)
    return seq(spelling.open_array, _elements(rules, name, places, element, low, high), spelling.close_array)


def _elements(rules: Rules, name: str, places: list[ir.Node], element: ir.Node, low: int, high: int | None) -> ir.Node:
    """What stands between the brackets: first the places, then elements, `low` to `high` in all."""
    comma = rules.spelling.comma
    n = len(places)
    if high == 0:
        return ir.EMPTY
    if n == 0:
        first_low = max(low - 1, 0)
        more = counted(rules, name, seq(comma, element), first_low, None if high is None else high - 1)
        body = seq(element, more)
        return body if low else ir.optional(body)
    after = counted(rules, name, seq(comma, element), max(low - n, 0), None if high is None else high - n)
    for k in range(n - 1, max(low, 1) - 1, -1):  # optional places: each brings what comes after it
        after = rules.rule(f"{name}+{k}", ir.optional(seq(comma, places[k], after)))
    fixed: list[ir.Node] = []
    for k in range(max(low, 1) if low < n else n):
        fixed += (comma, places[k]) if k else (places[k],)
    body = seq(*fixed, after)
    return body if low else ir.optional(body)


def counted(rules: Rules, name: str, item: ir.Node, low: int, high: int | None) -> ir.Node:
    """The item `low` to `high` times. Large counts are sums of powers of two: a power is a rule of two smaller ones."""
    if (low <= UNROLLED) if high is None else (high <= UNROLLED):
        return ir.EMPTY if high == 0 else ir.Repeat(item, low, high)
    rules.work.spend(300)
    powers: list[ir.Node] = [rules.rule(f"{name}*1", item)]
    up_to: list[ir.Node] = [ir.EMPTY]  # up_to[k]: 0 to 2^k - 1 items, each count in one way
    top = max(low, (high or 0) - low)
    for k in range(1, top.bit_length()):
        up_to.append(
            rules.rule(
                f"{name}<{1 << k}",
                ir.optional(powers[0]) if k == 1 else ir.Alt((up_to[k - 1], ir.Seq((powers[k - 1], up_to[k - 1])))),
            )
        )
        powers.append(rules.rule(f"{name}*{1 << k}", ir.Seq((powers[k - 1], powers[k - 1]))))
    exactly = [powers[k] for k in reversed(range(low.bit_length())) if low >> k & 1]
    if high is None:
        return seq(*exactly, ir.Repeat(item))
    spare = high - low
    tail: ir.Node = ir.EMPTY
    for k in range(spare.bit_length()):  # at most `spare`: fewer than its highest power, or that power and the rest
        if spare >> k & 1:
            with_power = seq(powers[k], tail)
            tail = rules.rule(f"{name}<={spare & ((2 << k) - 1)}", ir.Alt((up_to[k], with_power)))
    return seq(*exactly, tail)


def bounds(facts: Facts) -> tuple[int, int | None]:
    """The least and the greatest number of items; None: without end."""
    low = max((items.min for items in facts.items), default=0)
    high = min((items.max for items in facts.items if items.max is not None), default=None)
    return low, high


def _contradiction(facts: Facts, work: Work) -> tuple[int, Reason] | None:
    if not facts.items:
        return None
    work.spend(len(facts.items) // 4)
    equal_at = next((items.equal_at for items in facts.items if items.equal_at), "")
    if equal_at and any(items.unique_at for items in facts.items):
        return ARRAY, Reason(equal_at, "no array has two equal items and all different ones")
    low, high = bounds(facts)
    if high is None or low <= high:
        return None
    where = next(items.min_at for items in facts.items if items.min == low)
    return ARRAY, Reason(where, f"no array has at least {low} and at most {high} items")


FAMILY = Family(
    ("items", "prefixItems", "additionalItems", "minItems", "maxItems"),
    _read,
    types=ARRAY,
    contradiction=_contradiction,
)
