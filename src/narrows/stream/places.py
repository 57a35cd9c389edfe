"""Where a nested value stands in a tool's schema: what its members and items are, and of what types each may be.

References, `allOf` and unions are looked through; where several schemas speak of a member, all of them hold, and of a union's
members any may. Found when first asked for and kept, at most a thousand per tool. Nothing recurses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narrows.stream.coerce import LOOSE, MAX_SUBSCHEMAS, UNTYPED, ValueType, mixed_enum, resolve, schema_types

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT = 1_000


class Place:
    """One place. Without a schema, anything may stand here, and text is a string."""

    __slots__ = ("_children", "_shared", "kind", "schema", "typed")

    def __init__(self, schema: Any, shared: _Shared | None = None, loose: bool = False) -> None:
        self.schema = schema
        self.typed = schema is not None
        self._shared = shared if shared is not None else _Shared(schema, loose)
        types = schema_types(schema, self._shared.root) if self.typed else UNTYPED.types
        members = mixed_enum(schema, self._shared.root) if self.typed else None
        self.kind = ValueType(types or UNTYPED.types, members) if self.typed or not self._shared.loose else LOOSE
        self._children: dict[str | int, Place] = {}

    @property
    def types(self) -> frozenset[str]:
        """What may stand here, elements included."""
        return self.kind.types if self.typed else _ELEMENTS

    def holds_elements(self) -> bool:
        return bool(self.types & {"object", "array"})

    def is_array(self, tag: str) -> bool:
        """Whether a value whose first element has this tag is an array."""
        if tag != "item" or "array" not in self.types:
            return False
        return "object" not in self.types or not self._pick(lambda part: _property(part, tag))[0]

    def member(self, name: str) -> Place:
        return self._child(name, lambda part: _property(part, name), lambda part: part.get("additionalProperties"))

    def item(self, index: int) -> Place:
        index = min(index, 100)  # tuples are short; all that follows is of one kind
        return self._child(index, lambda part: _item(part, index), lambda part: part.get("items"))

    def _child(self, key: str | int, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Place:
        known = self._children.get(key)
        if known is None:
            every, some = self._pick(first)
            if not every and not some:
                every, some = self._pick(
                    lambda part: found if isinstance(found := second(part), dict) and found else None
                )
            known = self._shared.place(every, some)
            if len(self._children) < _KEPT:
                self._children[key] = known
        return known

    def _pick(self, pick: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
        """(what the schemas that hold say, what those say of which one holds)."""
        every: list[Any] = []
        some: list[Any] = []
        todo: list[tuple[Any, bool]] = [(self.schema, False)]
        seen: set[int] = set()
        while todo and len(seen) < MAX_SUBSCHEMAS:
            part, optional = todo.pop()
            if not isinstance(part, dict) or id(part) in seen:
                continue
            seen.add(id(part))
            found = pick(part)
            if found is not None:
                (some if optional else every).append(found)
            if "$ref" in part:
                todo.append((resolve(part["$ref"], self._shared.root), optional))
            for keyword in ("allOf", "anyOf", "oneOf"):
                members = part.get(keyword)
                todo += [(m, optional or keyword != "allOf") for m in members] if isinstance(members, list) else []
        return every, some


_ELEMENTS = frozenset(("string", "object", "array"))


class _Shared:
    """The places of one tool."""

    def __init__(self, root: Any, loose: bool) -> None:
        self.root = root
        self.loose = loose
        self._made: dict[tuple[int, ...], tuple[Any, Place]] = {}
        self._nowhere: Place | None = None

    def place(self, every: list[Any], some: list[Any]) -> Place:
        if not every and not some:
            if self._nowhere is None:
                self._nowhere = Place(None, self)
            return self._nowhere
        key = (*map(id, every), 0, *map(id, some))
        known = self._made.get(key)
        if known is None:
            schema = (
                every[0] if len(every) == 1 and not some else {"allOf": [*every, *([{"anyOf": some}] if some else [])]}
            )
            known = ((every, some, schema), Place(schema, self))
            if len(self._made) < _KEPT:
                self._made[key] = known
        return known[1]


def _property(part: dict[str, Any], name: str) -> Any:
    properties = part.get("properties")
    return properties.get(name) if isinstance(properties, dict) else None


def _item(part: dict[str, Any], index: int) -> Any:
    for keyword in ("prefixItems", "items"):
        items = part.get(keyword)
        if isinstance(items, list) and index < len(items):
            return items[index]
    items = part.get("items", part.get("additionalItems"))
    return items if isinstance(items, (dict, bool)) else None
