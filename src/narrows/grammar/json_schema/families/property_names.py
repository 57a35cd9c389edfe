"""`propertyNames`: a schema that every key satisfies.

Where every string satisfies it (`{"type": "string"}`, as generators write it for any record), it asserts nothing. Where it lists strings,
it says the same as `properties` with these keys and nothing else, and that is what it becomes. Patterns and lengths of keys
are not supported. Cost: a microsecond for each listed key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema import normal
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Facts, Members

if TYPE_CHECKING:
    from narrows.grammar.json_schema.lower import Lowering


def settle(lowering: Lowering, facts: Facts) -> Facts:
    """The same facts without `Members.names`."""
    if not facts.types & f.OBJECT or all(members.names is None for members in facts.members):
        return facts
    settled: list[Members] = []
    for members in facts.members:
        others = replace(members, names=None)
        if others != Members():
            settled.append(others)
        listed = None if members.names is None else lowering.listed_names(members.names, _listed)
        if listed is not None:
            settled.append(listed)
    return replace(facts, members=tuple(settled))


def _listed(lowering: Lowering, names: Site) -> Members | None:
    """The keys that the schema lists and no others, as `properties` would say it; None where all satisfy it."""
    keys = _keys(lowering, names)
    if keys is None:
        return None
    return Members(dict.fromkeys(keys, Site(names.pointer, True)), extra=Site(names.pointer, False))


def _keys(lowering: Lowering, names: Site) -> list[str] | None:
    """The strings that satisfy the schema; None where all do."""
    goal = lowering.goal((names,))
    if not goal:
        return None
    # Not by way of the lowering: what the schema says of objects, which may lead back here, is of no interest.
    found, _ = normal.alternatives(goal, lowering.read, lowering.work)
    strings = [facts for facts in found if facts.types & f.STRING]
    if any(not facts.values and _is_anything(facts.text) for facts in strings):
        return None
    if not all(facts.values and not (facts.text and facts.text.patterns) for facts in strings):
        lowering.reporter.unsupported(
            names.pointer,
            "propertyNames with a pattern, a format or a length is not supported",
            hint="List the keys with `enum`, or write them as `properties`",
        )
        return None
    options = (option for facts in strings for option in lowering.surviving(replace(facts, types=f.STRING)))
    return list(dict.fromkeys(option for option in options if isinstance(option, str)))


def _is_anything(text: f.Text | None) -> bool:
    return text is None or (not text.min and text.max is None and not text.patterns)
