"""What a request of SGLang asks for, as a grammar: its key, which is a type and a text.

    json             a JSON Schema, or `$$ANY$$` for any JSON object or array
    regex            a pattern in JavaScript's dialect, which matches the whole text
    ebnf             xgrammar's EBNF; plain BNF; or Lark, if the first rule is written as Lark does
    structural_tag   xgrammar's structural tag, in both forms

Schemas are read as SGLang's default backend reads them: keys in the declared order, and an object with `properties`
has no others unless the schema says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from narrows import Grammar
from narrows.errors import GrammarError, InputError, NarrowsError
from narrows.grammar.json_schema.document import parse
from narrows.grammar.languages.lark_or_gbnf import is_lark
from narrows.limits import DEFAULT_LIMITS, Limits

ADDITIONAL = "NARROWS_SGLANG_ADDITIONAL"
"""The environment variable for objects with `properties` and without `additionalProperties`. "declared", the default,
forbids other properties, as xgrammar does in SGLang. "standard" allows them, as JSON Schema and llguidance do."""
ANY_JSON = "$$ANY$$"
"""In SGLang, the schema of any JSON object or array."""
_OBJECT_OR_ARRAY = {"type": ["object", "array"]}


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the JSON of all requests is written: flags of the server."""

    whitespace: str = "bounded"
    """As for `Grammar.from_json_schema`."""
    most_whitespace: int | None = None
    """The longest run of whitespace, where it is counted."""
    additional: str = "declared"

    @property
    def options(self) -> dict[str, Any]:
        """Those of `Grammar.from_json_schema`."""
        return {"whitespace": self.whitespace, "additional": self.additional}


@dataclass(frozen=True, slots=True)
class Definition:
    """The source of a constraint. Equal definitions have equal grammars."""

    kind: str
    """"json", "regex", "ebnf" or "structural_tag"."""
    text: str

    def grammar(self, spelling: Spelling, limits: Limits = DEFAULT_LIMITS) -> Grammar:
        """Raises `GrammarError`, `UnsupportedError`, `InputError` or `LimitError`, with the place in the text."""
        if self.kind == "json" and spelling.most_whitespace is None:
            schema = _OBJECT_OR_ARRAY if self.text == ANY_JSON else self.text
            return Grammar.from_json_schema(schema, **spelling.options, limits=limits)
        if self.kind == "json":
            return _with_counted_gaps(self.as_format(spelling, limits), spelling, limits)
        if self.kind == "regex":
            return _of_regex(self.text, limits)
        if self.kind == "ebnf":
            return _of_ebnf(self.text, limits)
        return Grammar.from_structural_tag(_completed(self.text, spelling, limits), **spelling.options, limits=limits)

    def as_format(self, spelling: Spelling, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
        """A format of a structural tag with the same texts. Raises `GrammarError` for JSON text that is not valid, and
        `LimitError`."""
        if self.kind == "json":
            schema = _OBJECT_OR_ARRAY if self.text == ANY_JSON else parse(self.text, limits)
            made = {"type": "json_schema", "json_schema": schema}
            return made if spelling.most_whitespace is None else {**made, _MOST: spelling.most_whitespace}
        if self.kind == "regex":
            return {"type": "regex", "pattern": _with_line_breaks(self.text)}
        if self.kind == "ebnf":
            return {"type": "grammar", "grammar": self.text}
        return dict(_completed(self.text, spelling, limits).get("format", {}))


_MOST = "max_whitespace_cnt"


def additional_by_environment() -> str:
    """The value of `NARROWS_SGLANG_ADDITIONAL`. Raises `InputError` code `environment_invalid`."""
    value = os.environ.get(ADDITIONAL) or "declared"
    if value not in ("standard", "declared"):
        raise InputError(f'{ADDITIONAL} must be "standard" or "declared", not {value!r}', code="environment_invalid")
    return value


def _of_regex(text: str, limits: Limits) -> Grammar:
    """In xgrammar's reading of JavaScript's dialect `.` is any character, also a line break."""
    Grammar.from_regex(text, dialect="ecma", limits=limits)  # as it is written: no bracket closes the group around it
    return Grammar.from_regex(_with_line_breaks(text), dialect="ecma", limits=limits)


def _with_line_breaks(pattern: str) -> str:
    return f"(?s:{pattern})"


def _of_ebnf(text: str, limits: Limits) -> Grammar:
    if is_lark(text):
        return Grammar.from_lark(text, limits=limits)
    if text.lstrip().startswith("<"):
        return Grammar.from_ebnf(text, "bnf", limits=limits)
    return Grammar.from_ebnf(text, limits=limits)


def _with_counted_gaps(form: dict[str, Any], spelling: Spelling, limits: Limits) -> Grammar:
    """The schema alone, whose whitespace only structural tags can count. Pointers lead into the schema."""
    try:
        tag = {"type": "structural_tag", "format": form}
        return Grammar.from_structural_tag(tag, **spelling.options, limits=limits)
    except NarrowsError as error:
        if error.pointer is not None:
            error.pointer = error.pointer.removeprefix("/format/json_schema")
        raise


def _completed(text: str, spelling: Spelling, limits: Limits) -> dict[str, Any]:
    """The structural tag as an object. A schema that is left out allows any value, as in SGLang. The older form is put
    into the newer one, which has a field for SGLang's `at_least_one`."""
    try:
        tag = parse(text, limits)
    except GrammarError as error:
        error.code = "structural_tag_invalid"
        error.message = error.message.replace("the schema", "the structural tag")
        raise
    if not isinstance(tag, dict):
        raise GrammarError("a structural tag is an object", code="structural_tag_invalid", pointer="")
    tag = dict(tag)
    if tag.get("structures") is None:
        tag.pop("structures", None)
        tag.pop("triggers", None)
        tag.setdefault("type", "structural_tag")
        if isinstance(tag.get("format"), Mapping):
            _complete(tag["format"], spelling)
        return tag
    structures = tag["structures"]
    if not isinstance(structures, list) or not all(isinstance(structure, Mapping) for structure in structures):
        raise GrammarError("structures are a list of objects", code="structural_tag_invalid", pointer="/structures")
    if tag.get("format") is not None:
        raise GrammarError(
            "there are structures or a format, not both", code="structural_tag_invalid", pointer="/format"
        )
    made = {
        "type": "triggered_tags",
        "triggers": tag.get("triggers"),
        "tags": [_tag_of(structure) for structure in structures],
        "at_least_one": tag.get("at_least_one", False),
    }
    _complete(made, spelling)
    return {"type": "structural_tag", "format": made}


def _tag_of(structure: Mapping[str, Any]) -> dict[str, Any]:
    schema = structure.get("schema")
    tag = {name: value for name, value in structure.items() if name != "schema"}
    return {"type": "tag", **tag, "content": {"type": "json_schema", "json_schema": {} if schema is None else schema}}


_WITHIN = ("content", "elements", "tags")


def _complete(form: Any, spelling: Spelling) -> None:
    todo = [form]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += node
        elif isinstance(node, dict):
            if node.get("type") in ("json_schema", "qwen_xml_parameter") and node.get("json_schema") is None:
                node["json_schema"] = {}
            if node.get("type") == "json_schema" and node.get(_MOST) is None and spelling.most_whitespace is not None:
                node[_MOST] = spelling.most_whitespace
            todo += [node[name] for name in _WITHIN if name in node]
