"""A Python type as a JSON Schema, written by Pydantic: a model, a dataclass, a TypedDict, an Enum, `list[int]`,
`Literal["a", "b"]`, an `Annotated` type, or a `pydantic.TypeAdapter`.

The schema is the one for validation, with the aliases as names: what `model_validate_json` and `validate_json` read.
Pydantic is imported when a type is given, and not before. Cost: what Pydantic takes, milliseconds for a large model.
"""

from __future__ import annotations

import types
from typing import Any, get_origin

from narrows.errors import GrammarError, InputError


def schema_of(source: Any) -> Any:
    """The schema of a type; anything else as it is.

    Raises GrammarError `schema_invalid` where Pydantic has no schema for the type, and InputError `library_missing`.
    """
    if isinstance(source, (dict, str, bytes)) or not _is_type(source):
        return source
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError
    except ImportError as error:
        raise InputError(
            "a Python type as a schema needs pydantic", code="library_missing", hint="pip install 'pydantic>=2.10'"
        ) from error
    try:
        adapter = source if isinstance(source, TypeAdapter) else TypeAdapter(source)
        return adapter.json_schema()
    except PydanticUserError as error:
        raise GrammarError(
            f"Pydantic has no JSON Schema for this type: {error.message.splitlines()[0]}", code="schema_invalid"
        ) from error


def _is_type(source: Any) -> bool:
    kind = type(source)
    return (
        isinstance(source, (type, types.UnionType))
        or get_origin(source) is not None
        or kind.__name__ == "TypeAliasType"  # `type X = ...`
        or (kind.__module__.startswith("pydantic") and kind.__name__ == "TypeAdapter")
    )
