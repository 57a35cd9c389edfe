"""What JSON a value may be that is written as bare text: the vocabulary that readers and writers of such values share.

Where the types come from: a tool's schema, as `grammar/json_schema/view.py` reads it. A parser gets them from the tool
(`narrows.tools.request`), and so does whoever writes the grammar of what the parser is to read.
"""

from __future__ import annotations

from dataclasses import dataclass

JSON_TYPES = frozenset(("null", "boolean", "integer", "number", "string", "object", "array"))

_STRING = frozenset(("string",))
_ELEMENTS = frozenset(("string", "object", "array"))


@dataclass(frozen=True, slots=True)
class ValueType:
    """The JSON types that a value may have; "number" is any number, "integer" one without a fraction."""

    types: frozenset[str]
    members: frozenset[str] | None = None
    """The strings of its `enum`, where that holds strings and other values."""
    json: bool = False
    """The wire says that it is JSON: strings, too, are quoted."""

    @property
    def plain_string(self) -> bool:
        """Nothing but strings: such a value streams from its first character."""
        return self.types == _STRING


ANYTHING = ValueType(JSON_TYPES)
UNTYPED = ValueType(_STRING)
LOOSE = ValueType(JSON_TYPES - {"string"})
"""Without a schema: what is JSON is JSON, all else a string."""
JSON = ValueType(JSON_TYPES - {"string"}, json=True)


class Place:
    """Where a value stands in the arguments of a call, and what may stand there. This one is a place that no schema
    speaks of, and so are all places inside it. Those of a schema derive from it (view.py)."""

    __slots__ = ("kind",)

    typed = False
    """Whether a schema speaks of the place."""
    possible = True
    """Whether it leaves any type."""

    def __init__(self, kind: ValueType = UNTYPED) -> None:
        self.kind = kind
        """What text that stands here may be."""

    @property
    def types(self) -> frozenset[str]:
        """What may stand here, where objects and arrays may be written as elements."""
        return self.kind.types if self.typed else _ELEMENTS

    @property
    def names(self) -> frozenset[str]:
        """The members that the schema names."""
        return frozenset()

    @property
    def names_all(self) -> bool:
        """Whether the schema does not say that there may be other members than these."""
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
"""Text is a string."""
LOOSE_NOWHERE = Place(LOOSE)
"""Text is JSON where it can be."""
