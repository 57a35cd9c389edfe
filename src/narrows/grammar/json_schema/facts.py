"""What one schema says at one place, in the normal form that the rest of the package works on.

`Facts` is a conjunction: the JSON types that are allowed and, for each, what is asserted about it. The keyword families
add to it (reading.py) and `meet` joins two of them. So siblings, `$ref` with siblings and `allOf` are the same thing:
more facts. What is not a conjunction (`anyOf`) is kept as `choices` and distributed by normal.py.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from narrows.grammar.json_schema.document import Site

# Types are bits; "number" is both of INTEGER (any number without a fraction) and FRACTION.
NULL, BOOLEAN, INTEGER, FRACTION, STRING, ARRAY, OBJECT = (1 << k for k in range(7))
NUMBER = INTEGER | FRACTION
ANY = 127

Goal = tuple[Site, ...]
"""Schemas that must all hold of one value."""


@dataclass(slots=True)
class Pattern:
    """A regular property of a string's characters: a `pattern` (`source`), a `format` (`name`), or to be one of some
    `texts`."""

    pointer: str
    source: str = ""
    name: str = ""
    texts: tuple[str, ...] = ()
    negated: bool = False
    """It holds of all other strings."""
    measured: Any = None
    """What spelling/patterns.py has read of the source."""
    bodies: dict[Hashable, Any] = field(default_factory=dict, compare=False)
    """Of spelling/patterns.py: what the source became, by how it is to be written."""
    tested: Any = None
    """The automaton that tells which strings fit, once spelling/patterns.py has made it."""


@dataclass(slots=True)
class Text:
    """Of strings; lengths in code points."""

    min: int = 0
    max: int | None = None
    min_at: str = ""
    max_at: str = ""
    patterns: tuple[Pattern, ...] = ()


@dataclass(slots=True)
class Range:
    """Of numbers; None is unbounded. `steps`: multipleOf, each with its pointer. `not_steps`: the number is a multiple
    of none of these."""

    low: Decimal | None = None
    high: Decimal | None = None
    low_open: bool = False
    high_open: bool = False
    low_at: str = ""
    high_at: str = ""
    steps: tuple[tuple[Decimal, str], ...] = ()
    not_steps: tuple[tuple[Decimal, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Contained:
    """Of the items from `start` on, `least` to `most` satisfy a schema."""

    site: Site
    start: int = 0
    least: int = 1
    most: int | None = None
    pointer: str = ""


@dataclass(slots=True)
class Items:
    """Of arrays, by one schema object; several are conjoined. `rest` types what comes after `prefix`; None is
    anything."""

    prefix: tuple[Site, ...] = ()
    rest: Site | None = None
    min: int = 0
    max: int | None = None
    min_at: str = ""
    max_at: str = ""
    contained: tuple[Contained, ...] = ()
    spoken_of: tuple[Site, ...] = ()
    """`contains`: items that satisfy these are none of the `unevaluatedItems`."""
    unique_at: str = ""
    """Where it says that no two items are equal; "": it does not say that."""
    equal_at: str = ""
    """Where it says that two items are equal: the negation."""
    evaluates: bool = True
    """It says something of items in the sense of `unevaluatedItems`. A negation does not."""


@dataclass(frozen=True, slots=True)
class SomeKey:
    """There is a key of a kind, and its value satisfies a schema."""

    site: Site
    but: frozenset[str] = frozenset()
    """It is none of these,"""
    patterns: tuple[Pattern, ...] = ()
    """all of these patterns are found in it,"""
    names: Site | None = None
    """and it satisfies this."""
    opposite: Members | None = None
    """What an object satisfies that has no such key."""


@dataclass(slots=True)
class Members:
    """Of objects, by one schema object; several are conjoined."""

    named: dict[str, Site] = field(default_factory=dict)
    patterns: tuple[tuple[Pattern, Site], ...] = ()
    """What the values of keys satisfy in which a pattern is found."""
    extra: Site | None = None
    """What the values of keys satisfy that are neither named nor hold a pattern; None is anything."""
    names: Site | None = None
    """What every key satisfies. families/property_names.py turns it into `named` and `extra` where it lists keys."""
    required: tuple[str, ...] = ()
    required_at: str = ""
    brings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys, and those that must be there with them."""
    brings_at: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    least_at: str = ""
    most_at: str = ""
    some: tuple[SomeKey, ...] = ()
    lists_at: str = ""
    """Where it lists `properties`."""
    says: bool = False
    """It says what keys may be that it does not name."""
    evaluates: bool = True
    """It says something of keys in the sense of `unevaluatedProperties`. A negation does not."""


@dataclass(frozen=True, slots=True)
class Unevaluated:
    """What keys of an OBJECT, or items of an ARRAY, satisfy of which nothing else in the schema speaks."""

    of: int
    site: Site
    pointer: str
    after_contains: bool = True
    """An item that `contains` counts is spoken of."""


@dataclass(slots=True)
class Values:
    """An enumeration: the value is one of these. `const` is one of one."""

    pointer: str
    options: list[Any]
    keys: frozenset[Hashable] | None = None
    """The options as a set, once check.py has made it."""


@dataclass(slots=True)
class Reason:
    """Why nothing satisfies a schema, and where it says so."""

    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class Condition:
    """What is enough of one key: that it is not there, or that it is and its value satisfies one of `sites`."""

    absent: bool = False
    sites: tuple[Site, ...] = ()


Clause = dict[str, Condition]
"""Conditions on keys; one of them holds. clauses.py makes them."""
Case = tuple[tuple[Site, ...], tuple[Site, ...]]
"""Schemas that all hold, and schemas of which none does."""


@dataclass(frozen=True, slots=True)
class Negated:
    """The negation of a group of choices: one of these cases."""

    group: int
    cases: tuple[Case, ...]


@dataclass(slots=True)
class Facts:
    types: int = ANY
    types_at: str = ""
    values: tuple[Values, ...] = ()
    text: Text | None = None
    range: Range | None = None
    items: tuple[Items, ...] = ()
    members: tuple[Members, ...] = ()
    clauses: tuple[Clause, ...] = ()
    """Of objects. The schema objects have none: normal.py turns choices into them."""
    also: tuple[Site, ...] = ()
    """Schemas that must hold as well: `$ref`, `allOf`."""
    choices: tuple[tuple[Site, ...], ...] = ()
    """Groups of which at least one schema must hold: `anyOf`, `oneOf`."""
    exclusive: tuple[int, ...] = ()
    """The groups of which no two schemas may hold: `oneOf`. disjoint.py proves that no two do."""
    negated: tuple[Negated, ...] = ()
    """What negations of some of these groups are, where that is known to be less than a negation of each branch."""
    apart: tuple[int, ...] = ()
    """The groups of which no two schemas hold of any value."""
    perhaps: tuple[Site, ...] = ()
    """Schemas that assert nothing here, but speak of keys and items where they hold: an `if` alone."""
    unevaluated: tuple[Unevaluated, ...] = ()
    impossible: str = ""
    """A reason for which nothing satisfies this, with `impossible_at`."""
    impossible_at: str = ""

    @property
    def is_types_alone(self) -> bool:
        """Says which types are allowed, and nothing else."""
        return not (
            self.values
            or self.text
            or self.range
            or self.items
            or self.members
            or self.also
            or self.choices
            or self.clauses
            or self.impossible
            or self.unevaluated
        )

    @property
    def is_bare(self) -> bool:
        """Says nothing but `also` and `choices`."""
        return self.types == ANY and not (
            self.values or self.text or self.range or self.items or self.members or self.impossible or self.unevaluated
        )

    @property
    def is_anything(self) -> bool:
        return self.is_bare and not self.also and not self.choices


def meet(a: Facts, b: Facts) -> Facts:
    """Both. Leaves out `also` and `choices`, which the caller has on its list."""
    impossible, where = (a.impossible, a.impossible_at) if a.impossible else (b.impossible, b.impossible_at)
    types = a.types & b.types
    if not types and not impossible:
        impossible, where = "the types that are asked for exclude each other", b.types_at or a.types_at
    return Facts(
        types=types,
        types_at=b.types_at or a.types_at,
        values=a.values + b.values,
        text=meet_text(a.text, b.text),
        range=meet_range(a.range, b.range),
        items=a.items + b.items,
        members=a.members + b.members,
        clauses=a.clauses + b.clauses,
        impossible=impossible,
        impossible_at=where,
    )


def meet_text(a: Text | None, b: Text | None) -> Text | None:
    if a is None or b is None:
        return a or b
    low = a if a.min >= b.min else b
    high = b if a.max is None or (b.max is not None and b.max < a.max) else a
    return Text(low.min, high.max, low.min_at, high.max_at, a.patterns + b.patterns)


def meet_range(a: Range | None, b: Range | None) -> Range | None:
    if a is None or b is None:
        return a or b
    low = a
    if b.low is not None and (a.low is None or (b.low, b.low_open) > (a.low, a.low_open)):
        low = b
    high = a
    if b.high is not None and (a.high is None or (b.high, not b.high_open) < (a.high, not a.high_open)):
        high = b
    steps, not_steps = a.steps + b.steps, a.not_steps + b.not_steps
    return Range(low.low, high.high, low.low_open, high.high_open, low.low_at, high.high_at, steps, not_steps)
