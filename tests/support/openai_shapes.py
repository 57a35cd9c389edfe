"""Whether a JSON value has the shape of a type of the `openai` or the `anthropic` package, with nothing beside it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, TypeAdapter


class Shape:
    """A type of the package: a model, or a union of models."""

    def __init__(self, kind: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def strange(self, value: Any) -> set[str]:
        """The fields that the type does not have, as `Model.field`. Raises where a field is missing or of another
        type: strictly, so a number in quotes is no number."""
        found: set[str] = set()
        todo = [self._adapter.validate_python(value, strict=True)]
        while todo:
            one = todo.pop()
            if isinstance(one, BaseModel):
                found |= {f"{type(one).__name__}.{name}" for name in one.model_extra or ()}
                todo += [getattr(one, name) for name in type(one).model_fields]
            elif isinstance(one, dict):
                todo += one.values()
            elif isinstance(one, list):
                todo += one
        return found
