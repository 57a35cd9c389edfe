"""`propertyNames`: a schema that every key satisfies.

Where every string satisfies it (`{"type": "string"}`, as generators write it for any record), it asserts nothing. Where
it lists strings, it says the same as `properties` with these keys and nothing else, and that is what it becomes.
Patterns and lengths of keys are not supported. Cost: a microsecond for each listed key.
"""

from __future__ import annotations

from dataclasses import replace

from narrows.grammar.json_schema import check
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import Facts, Members
from narrows.grammar.json_schema.goals import Goals
from narrows.grammar.json_schema.reading import Family, Reading


def _read(reading: Reading) -> None:
    names = reading.schema_at("propertyNames", schema=reading.schema["propertyNames"])
    reading.add_members(Members(names=names))


def _settle(goals: Goals, facts: Facts) -> Facts:
    """The same facts without `Members.names`."""
    if all(members.names is None for members in facts.members):
        return facts
    settled: list[Members] = []
    for members in facts.members:
        others = replace(members, names=None)
        if others != Members():
            settled.append(others)
        listed = None if members.names is None else _listed(goals, members.names)
        if listed is not None:
            settled.append(listed)
    return replace(facts, members=tuple(settled))


def _listed(goals: Goals, names: Site) -> Members | None:
    """The keys that the schema lists and no others, as `properties` would say it; None where all satisfy it."""
    if names not in goals.listed_names:
        keys = _keys(goals, names)
        goals.listed_names[names] = (
            None
            if keys is None
            else Members(dict.fromkeys(keys, Site(names.pointer, True)), extra=Site(names.pointer, False))
        )
    return goals.listed_names[names]


def _keys(goals: Goals, names: Site) -> list[str] | None:
    """The strings that satisfy the schema; None where all do."""
    goal = goals.goal((names,))
    if not goal:
        return None
    # Not settled: what the schema says of objects, which may lead back here, is of no interest.
    alternatives, _ = goals.unsettled(goal)
    strings = [facts for facts in alternatives if facts.types & f.STRING]
    if any(not facts.values and _is_anything(facts.text) for facts in strings):
        return None
    if not all(facts.values and not (facts.text and facts.text.patterns) for facts in strings):
        goals.reporter.unsupported(
            names.pointer,
            "propertyNames with a pattern, a format or a length is not supported",
            hint="List the keys with `enum`, or write them as `properties`",
        )
        return None
    options = (option for facts in strings for option in check.surviving(goals, replace(facts, types=f.STRING)))
    return list(dict.fromkeys(option for option in options if isinstance(option, str)))


def _is_anything(text: f.Text | None) -> bool:
    return text is None or (not text.min and text.max is None and not text.patterns)


FAMILY = Family(("propertyNames",), _read, types=f.OBJECT, settle=_settle)
