"""What a keyword file is given: one schema object, the facts to fill, and helpers that refuse bad values with their place.

A keyword family is a module with `KEYWORDS`, the names it owns, and `read(reading)`, called once for a schema object that
has any of them. `keywords.py` lists the families.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from narrows.grammar.json_schema.document import Document, Site, escape, kind_of
from narrows.grammar.json_schema.facts import Facts
from narrows.grammar.json_schema.report import Reporter, invalid, over_limit, unsatisfiable
from narrows.grammar.work import Work

LARGEST_COUNT = 2**31 - 1
"""Of characters or items; a greater maximum is no bound, because no text is as long."""


class Reading:
    __slots__ = ("document", "facts", "limits", "reporter", "schema", "site", "work")

    def __init__(self, site: Site, document: Document, reporter: Reporter, work: Work) -> None:
        self.site = site
        self.schema: dict[str, Any] = site.schema
        self.document = document
        self.reporter = reporter
        self.work = work
        self.limits = work.limits
        self.facts = Facts()

    def at(self, keyword: str, *more: str | int) -> str:
        if not more:
            return f"{self.site.pointer}/{keyword}"  # no name of a keyword needs an escape
        return f"{self.site.pointer}/{keyword}/" + "/".join([escape(str(m)) for m in more])

    def impossible(self, where: str, why: str) -> None:
        if not self.facts.impossible:
            self.facts.impossible, self.facts.impossible_at = why, where

    def schema_at(self, keyword: str, *more: str | int, schema: Any) -> Site:
        return self.document.site(self.at(keyword, *more), schema)

    def schemas(self, keyword: str) -> tuple[Site, ...]:
        """The value of a keyword that holds a non-empty array of schemas."""
        value = self.schema[keyword]
        if not isinstance(value, (list, tuple)) or not value:
            raise invalid(self.at(keyword), f"{keyword} is a non-empty array of schemas, not {_shown(value)}")
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
                "Draft 3 and OpenAPI's `required: true` on a property are not JSON Schema: name it in the object's `required`"
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


def decimal_of(value: object) -> Decimal | None:
    """The exact decimal that a JSON number stands for; None for anything else, infinities and NaN included."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    try:
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except (InvalidOperation, ValueError):
        return None
    return exact if exact.is_finite() else None


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    is_short = isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**12)
    is_short = is_short or (isinstance(value, str) and len(value) <= 40)
    return repr(value) if is_short else kind_of(value)
