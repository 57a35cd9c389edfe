"""JSON Schema: the text is one JSON value that the schema allows. The reader is narrows.grammar.json_schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.arguments import of
from narrows.grammar import ir
from narrows.grammar.json_schema import schema_module
from narrows.grammar.languages.base import FrontEnd
from narrows.grammar.work import Work


def _read(source: Mapping[str, Any] | bool | str, work: Work, **options: Any) -> tuple[ir.Module, Mapping[str, Any]]:
    result = schema_module(source, limits=work, **options)
    return result.module, result.report


JSON_SCHEMA = FrontEnd(
    "json",
    of("a JSON Schema: an object, True or False, or its JSON text", Mapping, bool, str),
    _read,
    options=("whitespace", "key_order", "escapes", "on_unsupported", "additional"),
)
