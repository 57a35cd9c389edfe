"""A Python type as a grammar, and its values back out of text.

    person = narrows.Typed(Person)              # a Pydantic model, a dataclass, list[int], Literal["a"], an Enum ...
    constraint = vocabulary.compile(person.grammar())
    person.read(text)                           # the value: an instance of Person
    person.read_partial('{"name": "Ad')         # what an unfinished text says so far: {"name": "Ad"}
    values = person.partials()                  # the same token by token, and each value as it becomes whole
    values.feed(token)

Pydantic does the work: `pip install 'narrows[typed]'`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar, cast

from narrows.arguments import Kind, wants
from narrows.errors import InputError
from narrows.grammar.grammar import Grammar
from narrows.grammar.json_schema.python_types import adapter_of, input_error, schema_from
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.typed_values import TypedValues

T = TypeVar("T")

_JSON_TEXT = Kind("a str or bytes", lambda value: isinstance(value, (str, bytes)))


class Typed(Generic[T]):
    """A type that Pydantic knows: a model, a dataclass, `list[int]`, `Literal["a"]`, an Enum. Its grammar, and its
    values back out of text. Needs Pydantic."""

    def __init__(self, kind: type[T] | Any) -> None:
        """Raises GrammarError `schema_invalid` where Pydantic has no schema for it, and InputError `library_missing`.
        Cost: milliseconds."""
        self._adapter = adapter_of(kind)
        self._schema = schema_from(self._adapter)

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        return self._schema

    def grammar(self, **options: Any) -> Grammar:
        """The JSON texts of its values. `options` are those of `Grammar.from_json_schema`."""
        return Grammar.from_json_schema(self._schema, **options)

    def read(self, text: str | bytes) -> T:
        """The value that a whole JSON text says. Raises InputError `value_invalid` with the JSON pointer of what does
        not fit, such as a rule of the type that no schema can say. Cost: linear in the text."""
        wants(_JSON_TEXT, text=text)
        from pydantic import ValidationError

        try:
            return cast(T, self._adapter.validate_json(text))
        except ValidationError as error:
            raise input_error(error, "value_invalid") from error

    def read_partial(self, text: str | bytes) -> Any:
        """What a text says that has begun and may go on: JSON values (dict, list, str ...), since no value of the type
        may be complete yet. A string or a number that is open is there as far as it has come; a key without a value is
        not there yet. None if it says nothing yet.

        Raises InputError `value_invalid` for what is no beginning of JSON. Cost: linear in the text, so quadratic in
        all where it is called at every token. `partials` gives the same at a constant cost.
        """
        wants(_JSON_TEXT, text=text)
        from pydantic_core import from_json

        try:
            return from_json(text, allow_partial="trailing-strings")
        except (ValueError, TypeError) as error:  # a TypeError for a lone surrogate
            if str(error).startswith("EOF"):  # it ends in a bare word or number
                return None
            raise InputError(f"not a beginning of JSON: {error}", code="value_invalid") from None

    def partials(
        self, *, depth: int | None = 2, pointers: Iterable[str] | None = None, limits: Limits = DEFAULT_LIMITS
    ) -> TypedValues:
        """A reader that is fed the text as it is written. It reports each value that has become whole, as the type that
        it has in this type: of a `list[Item]` each item is an `Item`, of a model each field's value. docs/values.md
        says where values stay as JSON has them. The arguments are those of `JsonValues`."""
        return TypedValues(self._adapter, depth=depth, pointers=pointers, limits=limits)
