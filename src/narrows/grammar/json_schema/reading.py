"""What a keyword family is, and what its `read` is given: one schema object, and ways to say what it asserts.

A family owns some keywords. Its file defines `FAMILY`, and keywords.py lists it. `read(reading)` is called once for a
schema object that has any of its keywords, whatever their order.

A family only adds to what is known of the schema: what other families have added is not to be seen, so that no order
can decide. The exception are the types that the schema allows. The families that say these (`says_types`) come first;
then all others may ask for `reading.types`, and nothing changes them any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from narrows.grammar.json_schema.document import Document, Site, escape, kind_of
from narrows.grammar.json_schema.equality import decimal_of
from narrows.grammar.json_schema.facts import (
    ANY,
    Case,
    Facts,
    Items,
    Members,
    Negated,
    Range,
    Text,
    Unevaluated,
    Values,
    meet_range,
    meet_text,
)
from narrows.grammar.json_schema.identifiers import Draft
from narrows.grammar.json_schema.normal import Contradiction
from narrows.grammar.json_schema.report import Reporter, invalid, over_limit, unsatisfiable
from narrows.grammar.work import Work

if TYPE_CHECKING:
    from narrows.grammar.json_schema.goals import Goals

LARGEST_COUNT = 2**31 - 1
"""Of characters or items; a greater maximum is no bound, because no text is as long."""


@dataclass(frozen=True, slots=True)
class Family:
    """One keyword family. How its facts become rules is said by the `lower` of its file, where it has one: lower.py
    calls that."""

    keywords: tuple[str, ...]
    read: Callable[[Reading], None] | None
    """None: the keywords are annotations, and assert nothing."""
    says_types: bool = False
    """It says which types are allowed, and is read before those that ask for them."""
    types: int = ANY
    """The types of values of which `contradiction` and `settle` speak. They are asked only where one of these is
    allowed."""
    contradiction: Contradiction | None = None
    """Says of which types facts leave no value."""
    settle: Callable[[Goals, Facts], Facts] | None = None
    """Puts facts that only other schemas can explain into terms of the others."""


class Reading:
    __slots__ = ("_facts", "_types_are_known", "document", "limits", "reporter", "schema", "site", "work")

    def __init__(self, site: Site, document: Document, reporter: Reporter, work: Work) -> None:
        self.site = site
        self.schema: dict[str, Any] = site.schema
        self.document = document
        self.reporter = reporter
        self.work = work
        self.limits = work.limits
        self._facts = Facts()
        self._types_are_known = False

    def at(self, keyword: str, *more: str | int) -> str:
        if not more:
            return f"{self.site.pointer}/{keyword}"  # no name of a keyword needs an escape
        return f"{self.site.pointer}/{keyword}/" + "/".join([escape(str(m)) for m in more])

    @property
    def draft(self) -> Draft:
        """The draft whose rules hold here."""
        return self.document.draft(self.site)

    # What the schema asserts.

    def add_types(self, types: int, where: str) -> None:
        """The value has one of these types."""
        assert not self._types_are_known, "a family that says types is marked so"
        self._facts.types &= types
        self._facts.types_at = where

    def close_types(self) -> Facts:
        """All families that say types have been read. Returns the facts, to which the others will add."""
        self._types_are_known = True
        return self._facts

    @property
    def types(self) -> int:
        """The types that the schema allows."""
        assert self._types_are_known, "the types are not known yet"
        return self._facts.types

    def add_values(self, values: Values) -> None:
        """The value is one of these."""
        self._facts.values += (values,)

    def add_text(self, text: Text) -> None:
        """What a string satisfies."""
        self._facts.text = meet_text(self._facts.text, text)

    def add_range(self, range_: Range) -> None:
        """What a number satisfies."""
        self._facts.range = meet_range(self._facts.range, range_)

    def add_items(self, items: Items) -> None:
        """What an array satisfies."""
        self._facts.items += (items,)

    def add_members(self, members: Members) -> None:
        """What an object satisfies."""
        self._facts.members += (members,)

    def add_also(self, *sites: Site) -> None:
        """Schemas that hold as well."""
        self._facts.also += sites

    def add_choice(self, branches: tuple[Site, ...], *, exclusive: bool = False) -> None:
        """Schemas of which at least one holds; `exclusive`: exactly one."""
        if exclusive:
            self._facts.exclusive += (len(self._facts.choices),)
        self._facts.choices += (branches,)

    def add_apart(self, branches: tuple[Site, ...], *negation: Case) -> None:
        """Schemas of which one holds, and no two do. `negation`: the cases in which none does."""
        self._facts.negated += (Negated(len(self._facts.choices), negation),)
        self._facts.apart += (len(self._facts.choices),)
        self._facts.choices += (branches,)

    def add_perhaps(self, site: Site) -> None:
        """A schema that asserts nothing here, and may hold or not."""
        self._facts.perhaps += (site,)

    def add_unevaluated(self, unevaluated: Unevaluated) -> None:
        """What keys or items satisfy of which nothing else speaks."""
        self._facts.unevaluated += (unevaluated,)

    def add_impossible(self, where: str, why: str) -> None:
        """Nothing satisfies the schema."""
        if not self._facts.impossible:
            self._facts.impossible, self._facts.impossible_at = why, where

    # What stands in the schema.

    def schema_at(self, keyword: str, *more: str | int, schema: Any) -> Site:
        return self.document.site(self.at(keyword, *more), schema, self.site.scope)

    def schemas(self, keyword: str) -> tuple[Site, ...]:
        """The value of a keyword that holds a non-empty array of schemas."""
        value = self.schema[keyword]
        if not isinstance(value, (list, tuple)) or not value:
            shown = "an empty one" if isinstance(value, (list, tuple)) else _shown(value)
            raise invalid(self.at(keyword), f"{keyword} is a non-empty array of schemas, not {shown}")
        return tuple([self.schema_at(keyword, i, schema=schema) for i, schema in enumerate(value)])

    def count(self, keyword: str) -> int | None:
        """A non-negative integer, or None where the keyword is absent. 3.0 is an integer by the standard."""
        if keyword not in self.schema:
            return None
        value = self.schema[keyword]
        exact = decimal_of(value)
        if exact is None or exact < 0 or (not isinstance(value, int) and exact != exact.to_integral_value()):
            raise invalid(self.at(keyword), f"{keyword} is a non-negative integer, not {_shown(value)}")
        if exact <= LARGEST_COUNT:
            return int(exact)
        if keyword.startswith("max"):
            return None  # longer than any text
        raise unsatisfiable(self.at(keyword), f"no text is so long that it meets this {keyword}")

    def number(self, keyword: str) -> Decimal | None:
        """A number as an exact decimal (a float stands for its shortest decimal form), or None where absent."""
        if keyword not in self.schema:
            return None
        value = self.schema[keyword]
        exact = decimal_of(value)
        if exact is None:
            raise invalid(self.at(keyword), f"{keyword} is a number, not {_shown(value)}")
        self.work.spend(2)
        digits = max(len(exact.as_tuple().digits), abs(exact.adjusted()) + 1)
        if digits > self.limits.number_digits:
            raise over_limit(
                "number_digits",
                self.limits.number_digits,
                f"{keyword} has {digits:,} digits when written without exponent",
                self.at(keyword),
            )
        return exact

    def boolean(self, keyword: str) -> bool:
        value = self.schema[keyword]
        if not isinstance(value, bool):
            raise invalid(self.at(keyword), f"{keyword} is true or false, not {_shown(value)}")
        return value

    def text(self, keyword: str) -> str:
        value = self.schema[keyword]
        if not isinstance(value, str):
            raise invalid(self.at(keyword), f"{keyword} is a string, not {_shown(value)}")
        return value

    def names(self, keyword: str) -> tuple[str, ...]:
        """An array of distinct strings."""
        value = self.schema[keyword]
        if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
            raise invalid(
                self.at(keyword),
                f"{keyword} is an array of property names, not {_shown(value)}",
                "Draft 3 and OpenAPI's `required: true` on a property are not JSON Schema: "
                "name it in the object's `required`"
                if keyword == "required" and isinstance(value, bool)
                else None,
            )
        self.work.spend(len(value) // 8)
        return tuple(dict.fromkeys(value))

    def mapping(self, keyword: str) -> dict[str, Any]:
        value = self.schema[keyword]
        if not isinstance(value, dict):
            raise invalid(self.at(keyword), f"{keyword} is an object, not {_shown(value)}")
        return value


def is_empty_object(value: object) -> bool:
    return isinstance(value, dict) and not value


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    is_short = isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**12)
    is_short = is_short or (isinstance(value, str) and len(value) <= 40)
    return repr(value) if is_short else kind_of(value)
