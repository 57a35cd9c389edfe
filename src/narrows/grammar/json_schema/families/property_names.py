"""`propertyNames`: a schema that every key satisfies.

Where every string satisfies it (`{"type": "string"}`, as generators write it for any record), it asserts nothing. Where
it lists strings, it says the same as `properties` with these keys and nothing else, and that is what it becomes. Else
keys that `properties` names are tested, and the others are held to its patterns and lengths (other_keys.py). Cost: a
microsecond for each listed key.
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
    """The same facts, where `Members.names` stands only for what other fields of `Members` cannot say."""
    if all(members.names is None for members in facts.members):
        return facts
    settled: list[Members] = []
    for members in facts.members:
        others = replace(members, names=None)
        if others != Members():
            settled.append(others)
        if members.names is not None:
            settled += _as_members(goals, members.names)
    return replace(facts, members=tuple(settled))


def _as_members(goals: Goals, names: Site) -> tuple[Members, ...]:
    """What the schema of the keys says, as `properties` would say it where that is possible."""
    known = goals.settled_names.get(names)
    if known is None:
        # Not settled: what the schema says of objects, which may lead back here, is of no interest.
        alternatives, _ = goals.unsettled(goals.goal((names,)))
        strings = [facts for facts in alternatives if facts.types & f.STRING]
        if any(not facts.values and _is_anything(facts.text) for facts in strings):
            known = ()
        elif all(facts.values for facts in strings):
            options = [option for facts in strings for option in check.surviving(goals, replace(facts, types=f.STRING))]
            keys = dict.fromkeys(option for option in options if isinstance(option, str))
            named = dict.fromkeys(keys, Site(names.pointer, True))
            known = (Members(named, extra=Site(names.pointer, False)),)
        else:
            known = (Members(names=names),)
        if goals.is_sure:
            goals.settled_names[names] = known
    return known


def _is_anything(text: f.Text | None) -> bool:
    return text is None or (not text.min and text.max is None and not text.patterns)


FAMILY = Family(("propertyNames",), _read, types=f.OBJECT, settle=_settle)
