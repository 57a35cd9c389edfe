"""The values of a type's JSON text, while the text is being written: each is validated as what the type says of it.

Pydantic describes a type by a core schema: a tree of dicts. The part for a place in the text is found there, and
Pydantic makes a validator of it, once for each part. So a field's constraints and its own validators hold as they do
when the whole text is read. Where the tree does not say what a single value must be, the value stays as JSON has it:

- inside a union (other than with None), below a validator that sees the value before or instead of Pydantic, and below
  a type that reads itself;
- a field with a validator that takes `ValidationInfo`, which may ask for the other fields;
- keys that the type does not name, and those of an `AliasPath`.

Cost: what Pydantic takes to validate a value, once for each level at which values are reported. The text is kept.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from narrows.grammar.json_schema.python_types import input_error
from narrows.json_values import JsonValues, WholeValue
from narrows.json_values.selection import steps_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_Schema = dict[str, Any]

# Schemas around another one, which is for the same JSON value: its name in them.
_AROUND = {
    "custom-error": "schema",
    "dataclass": "schema",
    "default": "schema",
    "definitions": "schema",
    "function-after": "schema",
    "json-or-python": "json_schema",
    "model": "schema",
    "nullable": "schema",
}
_OF_ITEMS = {
    "dict": "values_schema",
    "frozenset": "items_schema",
    "generator": "items_schema",
    "list": "items_schema",
    "set": "items_schema",
}
_OWN_CONFIG = ("dataclass", "model")
_FIELDS = ("model-fields", "typed-dict", "dataclass-args")
_WITH_FIELDS = ("dataclass", "model", "typed-dict")
_PARTS = ("choices", "function", "steps")
"""Further keys of a schema that lead to schemas in it."""


class TypedValues(JsonValues):
    """`JsonValues` of a type's text. Made by `Typed.partials`. `WholeValue.value` is of the type that the value has in
    it; `value()` gives JSON values.

    `feed` and `finish` also raise `InputError` code `value_invalid`, with the pointer of what does not fit.
    """

    def __init__(self, adapter: TypeAdapter[Any], **options: Any) -> None:
        """`options`: of `JsonValues`."""
        super().__init__(**options)
        self._parts = _Parts(adapter)
        self._kept = _Pieces()

    def feed(self, text: str | bytes, logprob: float | None = None) -> list[WholeValue]:
        if isinstance(text, (str, bytes)):
            self._kept.add(text)
        return super().feed(text, logprob)

    def _typed(self, value: Any, pointer: str, start: int, end: int) -> Any:
        from pydantic import ValidationError

        validator = self._parts.validator(pointer)
        if validator is None:
            return value
        try:
            return validator.validate_json(self._kept.part(start, end))
        except ValidationError as error:
            raise input_error(error, "value_invalid", pointer) from error


class _Pieces:
    """A text in the pieces in which it came."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._starts: list[int] = []
        self._size = 0

    def add(self, piece: str | bytes) -> None:
        self._pieces.append(piece)
        self._starts.append(self._size)
        self._size += len(piece)

    def part(self, start: int, end: int) -> Any:
        """The text from `start` to `end`. Cost: its length and the number of its pieces."""
        first = bisect_right(self._starts, start) - 1
        after = bisect_right(self._starts, end - 1)
        pieces = self._pieces[first:after]
        begin = self._starts[first]
        return pieces[0][:0].join(pieces)[start - begin : end - begin]


class _Parts:
    """Validators for the places in a type's JSON text."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter
        self._root: _Schema = adapter.core_schema  # type: ignore[assignment]  # one of many TypedDicts
        self._definitions: list[_Schema] = self._root["definitions"] if self._root.get("type") == "definitions" else []
        self._by_ref = {definition["ref"]: definition for definition in self._definitions}
        self._made: dict[tuple[int, bool], Any] = {}
        """By the identity of the schema, which the adapter keeps, and whether it is of a field."""

    def validator(self, pointer: str) -> Any:
        """What reads the JSON text of the value at a pointer. None if the type does not say what it must be."""
        if not pointer:
            return self._adapter
        schema: _Schema | None = self._root
        config: Any = None
        in_field = False
        for step in steps_of(pointer):
            schema, config = self._inside(schema, config)
            if schema is None:
                return None
            in_field = in_field or schema["type"] in _FIELDS
            schema = _below(schema, step)
        if schema is None:
            return None
        key = id(schema), in_field
        if key not in self._made:
            asks = in_field and _asks_for_other_fields(schema)
            self._made[key] = None if asks else self._make(schema, config)
        return self._made[key]

    def _inside(self, schema: _Schema | None, config: Any) -> tuple[_Schema | None, Any]:
        """The schema for the items or members of a value, and the configuration that holds for them."""
        while schema is not None:
            kind = schema["type"]
            if kind in _OWN_CONFIG:
                config = schema.get("config")
            if kind == "definition-ref":
                schema = self._by_ref.get(schema["schema_ref"])
            elif kind in _AROUND:
                schema = schema[_AROUND[kind]]
            else:
                break
        return schema, config

    def _make(self, schema: _Schema, config: Any) -> Any:
        from pydantic_core import SchemaValidator, core_schema

        whole: Any = schema
        if self._definitions:
            definitions: Any = self._definitions
            whole = core_schema.definitions_schema(whole, definitions)
        return SchemaValidator(whole, config)


def _below(schema: _Schema, step: str) -> _Schema | None:
    """The schema of the item or member at `step`, of a value with this schema. None if it does not say."""
    kind = schema["type"]
    if kind in _OF_ITEMS:
        return schema.get(_OF_ITEMS[kind])
    if kind == "tuple":
        items: list[_Schema] = schema["items_schema"]
        if not (step.isascii() and step.isdigit() and len(step) < 10):
            return None  # a key, where an array should be
        at, variadic = int(step), schema.get("variadic_item_index")
        if variadic is None or at < variadic:
            return items[at] if at < len(items) else None
        return items[variadic] if variadic == len(items) - 1 else None  # else the end decides
    if kind not in _FIELDS:
        return None
    fields = schema["fields"]
    named = fields.items() if isinstance(fields, dict) else [(field["name"], field) for field in fields]
    for name, field in named:
        if _is_named(field.get("validation_alias", name), step):
            found: _Schema = field["schema"]
            return found
    return None


def _is_named(alias: Any, step: str) -> bool:
    """Whether a member's name is this alias: a name, a path, or a list of paths."""
    if isinstance(alias, str):
        return alias == step
    return alias == [step] or [step] in alias


def _asks_for_other_fields(schema: _Schema) -> bool:
    """Whether a validator in it may ask for the fields before this one. Models in it have fields of their own."""
    todo: list[Any] = [schema]
    while todo:
        here = todo.pop()
        if isinstance(here, (list, tuple)):
            todo += here
        elif isinstance(here, dict) and here.get("type") not in _WITH_FIELDS:
            if here.get("type") == "with-info":
                return True
            todo += [value for name, value in here.items() if name.endswith("schema") or name in _PARTS]
    return False
