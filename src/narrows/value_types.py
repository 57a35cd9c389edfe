"""The JSON types of values that are written as bare text. Readers and writers of such values share this module.

The types come from a tool's schema, as `grammar/json_schema/view.py` reads it. A parser gets them from the tool
(`narrows.tools.request`), and so does the writer of the grammar for the parser's input.
"""

from __future__ import annotations

from dataclasses import dataclass

JSON_TYPES = frozenset(("null", "boolean", "integer", "number", "string", "object", "array"))

_STRING = frozenset(("string",))
_ELEMENTS = frozenset(("string", "object", "array"))


@dataclass(frozen=True, slots=True)
class ValueType:
    """The JSON types that a value may have. "number" is any number, "integer" a number without a fraction."""

    types: frozenset[str]
    members: frozenset[str] | None = None
    """The strings of its `enum`, if that has strings and other values. Otherwise None."""
    json: bool = False
    """Whether the wire format writes the value as JSON, with quoted strings."""

    @property
    def plain_string(self) -> bool:
        """Whether the value can only be a string. Such a value streams from its first character."""
        return self.types == _STRING


ANYTHING = ValueType(JSON_TYPES)
UNTYPED = ValueType(_STRING)
LOOSE = ValueType(JSON_TYPES - {"string"})
"""Without a schema: text that is JSON is JSON, other text is a string."""
JSON = ValueType(JSON_TYPES - {"string"}, json=True)


class Place:
    """The place of a value in the arguments of a call, and the values allowed there. This class is a place without a
    schema, like all places inside it. view.py derives the places with a schema."""

    __slots__ = ("kind",)

    typed = False
    """Whether a schema describes the place."""

    def __init__(self, kind: ValueType = UNTYPED) -> None:
        self.kind = kind
        """The types that bare text here may have."""

    @property
    def types(self) -> frozenset[str]:
        """The types allowed here if objects and arrays may be written as elements."""
        return self.kind.types if self.typed else _ELEMENTS

    @property
    def names(self) -> frozenset[str]:
        """The members that the schema names."""
        return frozenset()

    @property
    def names_all(self) -> bool:
        """Whether the schema does not mention members other than these."""
        return True

    def holds_elements(self) -> bool:
        return not self.types.isdisjoint(("object", "array"))

    def is_array(self, tag: str) -> bool:
        """Whether a value whose first element has this tag is an array."""
        return tag == "item" and "array" in self.types

    def member(self, name: str) -> Place:
        """The place of an object's member."""
        return self

    def other_member(self) -> Place:
        """The place of any member that the schema does not name."""
        return self

    def item(self, index: int) -> Place:
        """The place of an array's item."""
        return self


NOWHERE = Place()
"""A place without a schema, where text is a string."""
LOOSE_NOWHERE = Place(LOOSE)
"""A place without a schema, where text is JSON if it can be."""
