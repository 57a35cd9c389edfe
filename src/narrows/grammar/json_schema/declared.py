"""`additional="declared"`: the keys of an object that lists `properties` and does not say what others may be.

The standard allows any other key there. Under this option the keys are those that the schemas of the place name, in
`properties` or `required`: the schema itself, what it refers to, `allOf`, and every branch (`anyOf`, `oneOf`; also of
conditions that are not enforced), whether it holds or not. So a branch may have the keys of another, with any value, as
the standard has it. What is written is a part of what the standard allows, and no branch loses a key that it needs.

An object stays as it is where one of the schemas that hold says what other keys may be (`additionalProperties`,
`unevaluatedProperties`, `patternProperties`), where none lists `properties`, and where `minProperties` asks for more
keys than are named.

Cost: linear in the schemas of one place; once per place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narrows.errors import GrammarError
from narrows.grammar.json_schema.document import Site, escape
from narrows.grammar.json_schema.facts import Facts, Goal
from narrows.grammar.json_schema.goals import Goals, key_of
from narrows.grammar.json_schema.report import CLOSED

_BRANCHES = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("if", "then", "else")
_BY_KEY = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_SAYING = ("additionalProperties", "unevaluatedProperties", "patternProperties")


def other_keys(goals: Goals, facts: Facts, goal: Goal, impossible: int = 0) -> list[str] | None:
    """The keys that objects of this alternative of `goal` may have besides those that its own schemas name; None: any.
    Says in the report what it closes. `impossible`: how many of its own keys have no value."""
    if goals.additional != "declared" or not any(members.lists_at for members in facts.members):
        return None
    if any(members.says for members in facts.members):
        return None
    names = _names_at(goals, goal)
    if names is None:
        return None
    goals.work.spend((len(names) + sum([2 + len(m.named) + len(m.required) for m in facts.members])) // 8)
    if any(members.least > len(names) - impossible for members in facts.members):
        return None
    for members in facts.members:
        if members.lists_at:
            goals.reporter.note(members.lists_at, CLOSED)
    own = {key for members in facts.members for key in (*members.named, *members.required)}
    return [key for key in names if key not in own]


def _names_at(goals: Goals, goal: Goal) -> tuple[str, ...] | None:
    """Every key that a schema of this place names, in their order; None where that cannot be known."""
    key = key_of(goal)
    if key not in goals.declared_names:
        goals.declared_names[key] = _collect(goals, goal)
    return goals.declared_names[key]


def _collect(goals: Goals, goal: Goal) -> tuple[str, ...] | None:
    names: dict[str, None] = {}
    met: set[Site] = set()
    todo = [(site, True) for site in reversed(goal)]  # (schema, whether it is enforced)
    while todo:
        site, enforced = todo.pop()
        if site in met or not isinstance(site.schema, dict):
            continue
        met.add(site)
        goals.work.spend(4 + len(site.pointer) // 16 + len(site.schema) // 16)
        below: list[tuple[Site, bool]] = []
        if enforced:
            facts = goals.read(site)
            if any(goals.reporter.notes.get(site.at(keyword)) == "ignored" for keyword in _REFERENCES):
                return None  # it leads to a schema that is not there
            for members in facts.members:
                goals.work.spend((len(members.named) + len(members.required)) // 8)
                names.update(dict.fromkeys((*members.named, *members.required)))
            below += [(also, True) for also in facts.also]
            below += [(branch, True) for branches in facts.choices for branch in branches]
        else:
            if any(site.schema.get(keyword, False) not in (False, {}) for keyword in _SAYING):
                return None
            names.update(dict.fromkeys(_named(site.schema)))
            referred = _referred(goals, site)
            if referred is None:
                return None
            below += referred
        before = len(names)
        names.update(dict.fromkeys(_needed(site.schema)))
        goals.work.spend((len(names) - before) // 4)
        below += _conditional(goals, site, branches=not enforced)
        todo += reversed(below)
    return tuple(names)


def _named(schema: dict[str, Any]) -> Iterator[str]:
    if isinstance(schema.get("properties"), dict):
        yield from schema["properties"]
    if isinstance(schema.get("required"), (list, tuple)):
        yield from (key for key in schema["required"] if isinstance(key, str))


def _needed(schema: dict[str, Any]) -> Iterator[str]:
    """Keys that others bring with them."""
    for keyword in ("dependentRequired", "dependencies"):
        lists = schema.get(keyword)
        for keys in lists.values() if isinstance(lists, dict) else ():
            if isinstance(keys, (list, tuple)):
                yield from (key for key in keys if isinstance(key, str))


def _conditional(goals: Goals, site: Site, branches: bool) -> Iterator[tuple[Site, bool]]:
    """The schemas of one place that may hold and are not enforced."""
    schema = site.schema
    places = [(site.at(keyword), schema[keyword]) for keyword in _CONDITIONS if keyword in schema]
    for keyword in _BY_KEY:
        if isinstance(schema.get(keyword), dict):
            places += [(f"{site.at(keyword)}/{escape(key)}", below) for key, below in schema[keyword].items()]
    for keyword in _BRANCHES if branches else ():
        if isinstance(schema.get(keyword), (list, tuple)):
            places += [(f"{site.at(keyword)}/{k}", below) for k, below in enumerate(schema[keyword])]
    for pointer, below in places:
        if isinstance(below, dict):
            yield goals.document.site(pointer, below, site.scope), False


def _referred(goals: Goals, site: Site) -> list[tuple[Site, bool]] | None:
    """Where the references of a schema that is not enforced lead; None where that is not known."""
    if any(keyword in site.schema for keyword in _REFERENCES[1:]):
        return None
    reference = site.schema.get("$ref")
    if not isinstance(reference, str):
        return []
    try:
        target = goals.document.resolve(reference, site, "$ref")
    except GrammarError:
        return None
    return None if isinstance(target, str) else [(target, False)]
