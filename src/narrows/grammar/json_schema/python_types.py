"""A Python type as a JSON Schema, written by Pydantic: a model, a dataclass, a TypedDict, an Enum, `list[int]`,
`Literal["a", "b"]`, an `Annotated` type, or a `pydantic.TypeAdapter`.

The schema is the one for validation, with the aliases as names: what `model_validate_json` and `validate_json` read.
Pydantic is imported when a type is given, and not before. Cost: what Pydantic takes, milliseconds for a large model.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, get_origin

from narrows.errors import GrammarError, InputError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError


def schema_of(source: Any) -> Any:
    """The schema of a type; anything else as it is. Raises as `schema_from` does."""
    if isinstance(source, (dict, str, bytes)) or not _is_type(source):
        return source
    return schema_from(source)


def schema_from(source: Any) -> dict[str, Any]:
    """The schema of a type, or of the arguments of a function.

    Raises GrammarError `schema_invalid` where Pydantic has no schema for it, and InputError `library_missing`.
    """
    adapter = adapter_of(source)
    from pydantic.errors import PydanticUserError
    from pydantic.json_schema import GenerateJsonSchema

    class WithoutTitles(GenerateJsonSchema):
        """A title that only repeats the name of a field costs a model tokens."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    try:
        return adapter.json_schema(schema_generator=WithoutTitles)
    except PydanticUserError as error:
        raise _no_schema(error) from error


def adapter_of(source: Any) -> TypeAdapter[Any]:
    """Pydantic's reader and writer of a type. Raises as `schema_from` does."""
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError
    except ImportError as error:
        raise InputError(
            "a Python type as a schema needs pydantic", code="library_missing", hint="pip install 'narrows[typed]'"
        ) from error
    try:
        return source if isinstance(source, TypeAdapter) else TypeAdapter(source)
    except PydanticUserError as error:
        raise _no_schema(error) from error
    except Exception as error:  # of a value that is no type, or a type hint that names what is not there
        message = f"Pydantic cannot read this type: {type(error).__name__}: {error}"
        raise GrammarError(message, code="schema_invalid") from error


def input_error(error: ValidationError, code: str, pointer: str = "") -> InputError:
    """What Pydantic says of a value that does not fit: the first thing, with its JSON pointer. `pointer`: where the
    value stands."""
    first = error.errors(include_url=False, include_input=False)[0]
    pointer += "".join([f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in first["loc"]])
    return InputError(first["msg"], code=code, pointer=pointer)


def _no_schema(error: PydanticUserError) -> GrammarError:
    return GrammarError(
        f"Pydantic has no JSON Schema for this type: {error.message.splitlines()[0]}", code="schema_invalid"
    )


def _is_type(source: Any) -> bool:
    kind = type(source)
    return (
        isinstance(source, (type, types.UnionType))
        or get_origin(source) is not None
        or kind.__name__ == "TypeAliasType"  # `type X = ...`
        or (kind.__module__.startswith("pydantic") and kind.__name__ == "TypeAdapter")
    )
