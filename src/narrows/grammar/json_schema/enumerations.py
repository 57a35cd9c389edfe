"""Branches that only list values, as one that lists the values of all.

`anyOf` of 200 constants, as generators write an enumeration whose values they describe, would be 200 alternatives, and
as many times more with each choice beside it. So would its negation. As one enumeration it is one alternative. The same
holds of a `oneOf`, once disjoint.py has shown that no value is in two branches.

Cost: linear in the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from narrows.grammar.json_schema import equality
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Document, Site
from narrows.grammar.json_schema.facts import Facts, Values
from narrows.grammar.work import Work


def merged(facts: Facts, read: Callable[[Site], Facts], document: Document, work: Work) -> Facts:
    """The same facts, with one branch for those of each group that only list values. `read`: what a schema says."""
    kept = {one.group for one in facts.negated}  # these name the branches
    choices = list(facts.choices)
    for k, branches in enumerate(choices):
        work.spend(1 + len(branches) // 8)
        likely = () if k in kept or len(branches) < 2 else [one for one in branches if _may_only_list(one)]
        if len(likely) < 2:
            continue
        options = {one: found for one in likely if (found := _listed(read(one), work)) is not None}
        if len(options) < 2:
            continue
        every = [option for found in options.values() for option in found]
        first = next(iter(options))
        one = document.derived(first.pointer, Facts(values=(Values(first.pointer, every),)))
        choices[k] = tuple(dict.fromkeys([one if branch in options else branch for branch in branches]))
    return facts if choices == list(facts.choices) else replace(facts, choices=tuple(choices))


def _may_only_list(site: Site) -> bool:
    """Whether a schema lists values, before it is read."""
    return isinstance(site.schema, dict) and ("enum" in site.schema or "const" in site.schema) and site.negates is None


def _listed(facts: Facts, work: Work) -> list[Any] | None:
    """The values, if a schema says nothing else."""
    says_more = facts.text or facts.range or facts.items or facts.members or facts.also or facts.choices
    if not facts.values or says_more or facts.perhaps or facts.unevaluated or facts.impossible:
        return None
    first, *others = facts.values
    work.spend(1 + len(first.options) // 4)
    options = first.options
    if facts.types != f.ANY:
        options = [option for option in options if facts.types & equality.type_of(option)]
    for values in others:
        names = equality.keys(values, work)
        options = [option for option in options if equality.key_of(option, work) in names]
    return options
