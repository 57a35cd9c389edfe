"""What the OpenAPI page says of bodies. FastAPI does not read or write them itself: exchange.py does, under limits."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, TypeAdapter

DEFINITIONS: dict[str, Any] = {}
"""Schemas that the schemas of the bodies refer to, for `components` of the page."""
_REFERENCE = "#/components/schemas/{model}"


def body_of_page(model: type[BaseModel]) -> dict[str, Any]:
    """The request body's schema."""
    schema = model.model_json_schema(ref_template=_REFERENCE)
    DEFINITIONS.update(schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def response_of_page(answer: Any, description: str) -> dict[int | str, dict[str, Any]]:
    """The response of status 200: `answer` is a TypedDict."""
    schema = TypeAdapter(answer).json_schema(ref_template=_REFERENCE, mode="serialization")
    DEFINITIONS.update(schema.pop("$defs", {}))
    return {200: {"description": description, "content": {"application/json": {"schema": schema}}}}
