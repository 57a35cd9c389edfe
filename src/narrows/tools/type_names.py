"""Names of types as other languages and APIs spell them, in the schemas of tools: `"INTEGER"` (Google), `"int"`, `"Float"`.

The standard knows seven names, in lower case; tools come with others. What a request's tools declare is brought to the standard's names once, where
they are taken in (`read_tools`), so that parser and grammar read the same schema. A schema that is not a tool's is left as it is:
`Grammar.from_json_schema` refuses such names.
"""

from __future__ import annotations

from typing import Any

JSON_TYPES = frozenset(("null", "boolean", "integer", "number", "string", "object", "array"))
SPELLINGS = {
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "str": "string",
    "dict": "object",
    "list": "array",
}
"""Names that are none, but that tools written in other languages' terms declare; in any case, as the seven are."""

_ONE = frozenset(
    ("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
     "unevaluatedItems", "unevaluatedProperties")
)  # fmt: skip
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "items", "prefixItems"))
_MAPS = frozenset(("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"))
_MOST = 10_000
"""Sub-schemas that are looked at; what lies beyond is left as it is."""


def type_name(name: Any) -> Any:
    """The standard's name for a type, where it has one; else the name itself."""
    if not isinstance(name, str) or name in JSON_TYPES:
        return name
    lower = name.lower()
    lower = SPELLINGS.get(lower, lower)
    return lower if lower in JSON_TYPES else name


def standard_types(schema: Any) -> Any:
    """The schema with the standard's names of types; the same object where it has them. Data in it (`enum`, `default`) is left alone. Linear."""
    order: list[dict[str, Any]] = []
    seen: set[int] = set()
    todo: list[Any] = [schema]
    odd = False
    while todo and len(order) < _MOST:
        part = todo.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        order.append(part)
        for keyword, value in part.items():
            if isinstance(value, (dict, list)):
                todo += _inside(keyword, value)
        declared = part.get("type")
        odd = odd or _types(declared) != declared
    if not odd:
        return schema
    copies = {id(part): dict(part) for part in order}
    for part in order:
        copy = copies[id(part)]
        if "type" in copy:
            copy["type"] = _types(copy["type"])
        for keyword, value in part.items():
            if keyword in _MAPS and isinstance(value, dict):
                copy[keyword] = {name: copies.get(id(member), member) for name, member in value.items()}
            elif keyword in _LISTS and isinstance(value, list):
                copy[keyword] = [copies.get(id(member), member) for member in value]
            elif keyword in _ONE and isinstance(value, dict):
                copy[keyword] = copies.get(id(value), value)
    return copies[id(schema)]


def _types(declared: Any) -> Any:
    return [type_name(name) for name in declared] if isinstance(declared, list) else type_name(declared)


def _inside(keyword: str, value: Any) -> list[Any]:
    """The sub-schemas of a keyword."""
    if isinstance(value, dict):
        return list(value.values()) if keyword in _MAPS else [value] if keyword in _ONE else []
    return value if isinstance(value, list) and keyword in _LISTS else []
