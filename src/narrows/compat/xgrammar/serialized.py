"""JSON texts that this version of narrows writes and reads again.

They are not xgrammar's: a compiled grammar of narrows is its definition, which is read again. So a text is short, and
reading it costs what compiling costs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from narrows.compat.xgrammar.exception import DeserializeVersionError, InvalidJSONError

VERSION = "narrows-1"


def get_serialization_version() -> str:
    """The version of the texts that `serialize_json` writes."""
    return VERSION


def write_object(fields: Mapping[str, Any]) -> str:
    """The fields as JSON text, with the version of xgrammar's form."""
    return json.dumps({**fields, "__VERSION__": VERSION}, separators=(",", ":"))


def read_object(text: str, *, versioned: bool = False) -> dict[str, Any]:
    """The fields of an object. Raises InvalidJSONError, and with `versioned` DeserializeVersionError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"this is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidJSONError("this is JSON, but not an object")
    if versioned:
        version = value.pop("__VERSION__", None)
        if version != VERSION:
            raise DeserializeVersionError(
                f"the text has version {str(version)[:40]!r}, and this is {VERSION!r}",
                hint="Make it again with serialize_json of narrows.compat.xgrammar",
            )
    return value
