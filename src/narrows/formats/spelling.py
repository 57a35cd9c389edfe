"""How values are written where a format is rendered: as the chat templates write them (`tojson`, and `str` for bare
values)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from narrows.errors import InputError


def json_text(value: Any) -> str:
    """JSON with a space after commas and colons, and characters beyond ASCII as they are: what `tojson` writes in
    templates."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"a value cannot be written as JSON: {error}", code="arguments_invalid") from None


def arguments_text(arguments: Mapping[str, Any] | str) -> str:
    """A call's arguments as JSON; text is taken as JSON already."""
    return arguments if isinstance(arguments, str) else json_text(arguments)


def arguments_of(arguments: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """A call's arguments as a mapping."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}", parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise InputError("the arguments of a call are not JSON", code="arguments_invalid") from None
    if not isinstance(arguments, Mapping):
        raise InputError("the arguments of a call are not an object", code="arguments_invalid")
    return arguments


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def value_text(value: Any) -> str:
    """A bare value: strings as they are, the rest as JSON."""
    return value if isinstance(value, str) else json_text(value)
