"""Structural tags: xgrammar's JSON for text with structured parts, as vLLM and SGLang take it.

    {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<function="], "tags": [
        {"type": "tag", "begin": "<function=f>", "content": {"type": "json_schema", "json_schema": {...}},
         "end": "</function>"}]}}

The older form is read, too: `{"type": "structural_tag", "structures": [{"begin", "schema", "end"}], "triggers": []}`.

    fields.py   the fields of each type, and the check of one object against them
    reader.py   formats to rules

What the formats mean is what xgrammar 0.2.8 documents, with these rules where it leaves a question open:

* **Free text** (`any_text`, and the text of `triggered_tags` and `dispatch`) is text in UTF-8 without control tokens.
  What it may hold is the one rule of narrows.grammar.free_text: the banned strings are its triggers, its `excludes` and
  the end strings of the nearest `tag`. So the content of a tag goes up to the first occurrence of its end. `dispatch`
  does not leave out the ends of its tag (as in xgrammar): name them in `excludes`. What follows free text counts where
  it is the end of the tag: behind its content, the last element of a sequence, an alternative or what is optional.
  Elsewhere, in `star` too, the text only holds no banned string.
* After a trigger, the text goes on as a tag whose `begin` starts with it. A trigger that begins with another one adds
  nothing. A trigger without tags cannot be written.
* `at_least_one` means that `triggered_tags` begins with a tag: no text stands before it.
* **Fixed strings** are spelled with the special tokens that their parts name (narrows.grammar.spelled).
* `json_schema` is read by narrows' JSON Schema (docs/json_schema.md), `grammar` by narrows' GBNF reader, whose notation
  is xgrammar's EBNF but for the differences in docs/grammars.md, and `regex` in the dialect "ecma". `any_order` means
  the schema's objects with their keys in any order, each at most once and none missing.
* `token` is a token by its id, or a special token by its name. Other tokens in `exclude_token`, `any_tokens` and
  `token_triggered_tags` are any but those named and the end tokens.

Refused with `structural_tag_unsupported`: styles other than "json", `qwen_xml_parameter`, `excludes` and some
`max_whitespace_cnt` of `json_schema`.

Cost: about 10 us per format, and that of the schemas, grammars and patterns in it.

Source: the documentation of xgrammar (docs/structural_tag) and its models (xgrammar/structural_tag.py), version 0.2.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.arguments import of
from narrows.errors import GrammarError, LimitError
from narrows.grammar import ir
from narrows.grammar.json_schema.document import parse
from narrows.grammar.languages.base import FrontEnd
from narrows.grammar.languages.structural_tag.fields import invalid
from narrows.grammar.languages.structural_tag.reader import Reader
from narrows.grammar.work import Work


def structural_tag_module(
    source: Mapping[str, Any] | str,
    work: Work,
    *,
    whitespace: str = "bounded",
    escapes: str = "all",
    on_unsupported: str = "error",
    additional: str = "standard",
) -> tuple[ir.Module, dict[str, Any]]:
    """(the rules, the report of its schemas by pointers into the tag) of a structural tag or its JSON text. The options
    are those of `Grammar.from_json_schema`, for the schemas in it.

    Raises GrammarError `structural_tag_invalid`, UnsupportedError `structural_tag_unsupported`, and the errors of the
    languages in it, each with the JSON pointer. Raises LimitError (`schema_bytes` and `schema_depth` of the text,
    `nesting` of the formats, `reading_work`).
    """
    value = _parsed(source, work) if isinstance(source, str) else source
    if not isinstance(value, Mapping):
        raise invalid("", "a structural tag is an object")
    options = {
        "whitespace": whitespace,
        "escapes": escapes,
        "on_unsupported": on_unsupported,
        "additional": additional,
    }
    reader = Reader(work, options)
    root = reader.read(value)
    work.pointer = None
    rules, sources = {"root": root, **reader.rules}, {"root": "", **reader.sources}
    return ir.Module(rules, sources=sources, places=reader.places, marked=reader.is_marked), reader.report


def _parsed(text: str, work: Work) -> Any:
    try:
        return parse(text, work)
    except GrammarError as error:
        raise GrammarError(
            error.message.replace("the schema", "the structural tag"),
            code="structural_tag_invalid",
            line=error.line,
            column=error.column,
        ) from None
    except LimitError as error:
        error.message = error.message.replace("the schema", "the structural tag")
        error.pointer = error.pointer or ""
        raise


STRUCTURAL_TAG = FrontEnd(
    "structural_tag",
    of("a structural tag: an object or its JSON text", Mapping, str),
    structural_tag_module,
    options=("whitespace", "escapes", "on_unsupported", "additional"),
)
