"""JSON Schemas and structural tags with xgrammar's options, by narrows' readers.

| xgrammar | narrows |
| --- | --- |
| `any_whitespace=True` | `whitespace="any"` |
| `max_whitespace_cnt=n` | the same with at most n characters in a row |
| `any_whitespace=False` | `whitespace="json.dumps"`, or with the given separators |
| `strict_mode=True` | `additional="declared"`; a list of `prefixItems` has no further items |
| `any_order=True` | `key_order="any"` |

`indent` is refused: the depth of a value is not regular.

Cost: that of narrows.grammar.json_schema, and one pass over the schema.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from narrows.compat.xgrammar.exception import CompatError, InvalidJSONError, theirs
from narrows.errors import GrammarError
from narrows.grammar import ir
from narrows.grammar.grammar import Grammar
from narrows.grammar.json_schema import schema_rules
from narrows.grammar.json_schema.document import parse
from narrows.grammar.json_schema.spelling.spelling import Spelling, spelling_with_gaps
from narrows.grammar.options import KeyOrder
from narrows.grammar.work import Work
from narrows.limits import Limits

_OPTIONS = ("any_whitespace", "separators", "strict_mode", "max_whitespace_cnt", "any_order")
_BLANKS = " \t\n\r"
_MOST_GAP = 10_000


def options_text(
    any_whitespace: bool,
    indent: int | None,
    separators: tuple[str, str] | None,
    strict_mode: bool,
    max_whitespace_cnt: int | None,
    any_order: bool,
) -> str:
    """The options of `from_json_schema`, checked, as JSON. What has no effect is left out, so that equal meanings are
    equal texts. Raises CompatError `argument_invalid` and `compat_unsupported`."""
    if any_whitespace:
        separators = None
    else:
        max_whitespace_cnt = None
        if indent is not None:
            raise CompatError(
                "narrows does not enforce indent",
                code="compat_unsupported",
                pointer="/indent",
                hint="Leave it out, or allow any_whitespace",
            )
        separators = _checked_separators(separators or (", ", ": "))
    if max_whitespace_cnt is not None and not 0 < max_whitespace_cnt <= _MOST_GAP:
        raise CompatError(
            f"max_whitespace_cnt is an integer from 1 to {_MOST_GAP:,}",
            code="argument_invalid",
            pointer="/max_whitespace_cnt",
        )
    values = (bool(any_whitespace), separators, bool(strict_mode), max_whitespace_cnt, bool(any_order))
    return json.dumps(dict(zip(_OPTIONS, values, strict=True)), separators=(",", ":"))


def _checked_separators(separators: tuple[str, str]) -> tuple[str, str]:
    comma, colon = separators
    if comma.strip(_BLANKS) != "," or colon.strip(_BLANKS) != ":" or len(comma + colon) > _MOST_GAP:
        raise CompatError(
            "separators are a comma and a colon, with whitespace around them",
            code="argument_invalid",
            pointer="/separators",
            hint='Such as (",", ":") or (", ", ": ")',
        )
    return comma, colon


class _Separated(Spelling):
    """No whitespace but that of the separators."""

    def __init__(self, comma: str, colon: str, key_order: KeyOrder) -> None:
        tag = f"json{json.dumps([comma, colon])}"
        super().__init__("compact", "all", tag, key_order)
        self.comma_bytes, self.colon_bytes = comma.encode(), colon.encode()
        self.comma, self.colon = ir.Bytes(self.comma_bytes), ir.Bytes(self.colon_bytes)


@lru_cache(maxsize=64)
def _separated(comma: str, colon: str, key_order: KeyOrder) -> Spelling:
    return _Separated(comma, colon, key_order)


_KNOWN = {(", ", ": "): "json.dumps", (",", ":"): "compact"}


def read_schema(text: str, options: str, limits: Limits) -> Grammar:
    """The grammar of a schema. `options`: what `options_text` has written."""
    given = json.loads(options)
    key_order: KeyOrder = "any" if given["any_order"] else "declared"
    whitespace, spelled = "any", None
    if given["separators"] is not None:
        comma, colon = given["separators"]
        known = _KNOWN.get((comma, colon))
        if known is None:
            spelled = _separated(comma, colon, key_order)
        whitespace = known or "compact"
    elif given["max_whitespace_cnt"] is not None:
        spelled = spelling_with_gaps(given["max_whitespace_cnt"], "all", key_order, "any")
    work = Work(limits)
    schema = _parsed(text, work, "the schema")
    if given["strict_mode"]:
        close_items(schema, work)
    made = schema_rules(
        schema,
        whitespace=whitespace,
        key_order=key_order,
        additional="declared" if given["strict_mode"] else "standard",
        limits=work,
        spelled=spelled,
    )
    module = ir.Module(made.rules, made.start, made.sources, made.places, marked=True)
    return Grammar(module, made.report, work.spent)


def read_any_json(limits: Limits) -> Grammar:
    """An array or an object of any JSON values, with any whitespace."""
    return Grammar.from_json_schema({"type": ["object", "array"]}, whitespace="any", limits=limits)


def read_structural_tag(text: str, limits: Limits) -> Grammar:
    """The grammar of a structural tag. Its schemas are read as `from_json_schema` reads them by default."""
    work = Work(limits)
    tag = _parsed(text, work, "the structural tag")
    close_items(tag, work)
    grammar = Grammar.from_structural_tag(tag, whitespace="any", additional="declared", limits=limits)
    return Grammar(grammar.module, grammar.report, grammar.work + work.spent)


def _parsed(text: str, work: Work, what: str) -> Any:
    try:
        return parse(text, work)
    except GrammarError as error:
        error.message = error.message.replace("the schema", what)
        raise theirs(error, InvalidJSONError) from error


_VALUES = frozenset(("const", "enum", "default", "examples", "not", "if"))
"""What is under these is no schema, or one that would be turned round."""
_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""What is under these is schemas by name."""


def close_items(schema: Any, work: Work) -> None:
    """Gives each array of the schema that lists its first items no others, unless it says something of them, or needs
    more. Changes the schema."""
    todo = [schema]
    while todo:
        here = todo.pop()
        work.spend(1 + len(here) // 8 if isinstance(here, (dict, list)) else 1)
        if isinstance(here, list):
            todo += here
        if not isinstance(here, dict):
            continue
        _close(here)
        for name, below in here.items():
            if name in _MAPS and isinstance(below, dict):
                todo += below.values()
            elif name not in _VALUES:
                todo.append(below)


def _close(schema: dict[str, Any]) -> None:
    listed, rest = schema.get("prefixItems"), "items"
    if not isinstance(listed, list):
        listed, rest = schema.get("items"), "additionalItems"
    least = schema.get("minItems", 0)
    if not isinstance(listed, list) or "unevaluatedItems" in schema or rest in schema:
        return
    if isinstance(least, (int, float)) and least <= len(listed):
        schema[rest] = False
