"""Refuses bodies with too many items or fields before anything is built from them. Linear in the items."""

from __future__ import annotations

from typing import Any

from narrows.errors import LimitError
from narrows.limits import Limits

# Objects that are read into models, and lists of them.
_OBJECTS: dict[str, Any] = {
    "messages": [{"tool_calls": [{"function": {}}]}],
    "tools": [{"function": {}}],
    "tool_choice": {"function": {}, "allowed_tools": {"tools": [{"function": {}}]}},
    "response_format": {"json_schema": {}},
    "structured_outputs": {},
    "stream_options": {},
}


def check_sizes(body: dict[str, Any], known: int, limits: Limits) -> None:
    """Raises `LimitError`. `known`: the number of fields that an object may have besides unknown ones."""
    most = {"messages": limits.messages, "tool_calls": limits.messages, "tools": limits.tools}
    seen = dict.fromkeys(most, 0)
    todo: list[tuple[Any, Any, str, str]] = [(body, _OBJECTS, "", "")]
    while todo:
        value, shape, name, pointer = todo.pop()
        if isinstance(shape, dict) and isinstance(value, dict):
            if len(value) > limits.unknown_fields + known:
                raise LimitError(
                    f"{len(value)} fields",
                    limit="unknown_fields",
                    pointer=pointer,
                    hint=f"at most {limits.unknown_fields} unknown fields are allowed",
                )
            todo += [(value[key], inner, key, f"{pointer}/{key}") for key, inner in shape.items() if key in value]
        elif isinstance(shape, list) and isinstance(value, list):
            seen[name] += len(value)
            if seen[name] > most[name]:
                limit = "messages" if name == "tool_calls" else name
                raise LimitError(
                    f"{seen[name]} {name}", limit=limit, pointer=pointer, hint=f"at most {most[name]} are allowed"
                )
            todo += [(item, shape[0], name, f"{pointer}/{i}") for i, item in enumerate(value)]
