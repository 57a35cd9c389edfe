"""Cases as data: what a schema allows in which spelling, what each keyword changes, what is refused and where."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from schema_cases import FORMATS, VALIDATORS, has_validator, load, validator

from narrows.errors import NarrowsError, UnsupportedError
from narrows.grammar import ir
from narrows.grammar.json_schema import schema_module
from narrows.grammar.json_schema.spelling import formats
from narrows.grammar.json_schema.spelling.spelling import spelling
from narrows.limits import DEFAULT_LIMITS
from narrows.reference import Reference


def _oracle(case: dict[str, Any], schema: Any) -> Reference:
    return Reference(schema_module(schema, **case.get("options", {})).module)


@pytest.mark.parametrize("case", load("case"))
def test_texts(case: dict[str, Any]) -> None:
    oracle = _oracle(case, case["schema"])
    wanted = dict.fromkeys(case["valid"], True)
    for kind in ("invalid", "unspelled", "not_json", "invalid_here"):
        wanted.update(dict.fromkeys(case.get(kind, ()), False))
    assert {text: oracle.accepts(text.encode()) for text in wanted} == wanted


@pytest.mark.parametrize("case", load("case", has_validator))
def test_texts_agree_with_a_validator(case: dict[str, Any]) -> None:
    judge = validator(case)
    for kind, valid in (("valid", True), ("unspelled", True), ("invalid", False)):
        for text in case.get(kind, ()):
            assert judge.is_valid(json.loads(text)) is valid, text


@pytest.mark.parametrize("case", load("case", lambda case: "deletes" in case))
def test_each_keyword_counts(case: dict[str, Any]) -> None:
    """The delete oracle: without the keyword, the text changes sides."""
    whole = _oracle(case, case["schema"])
    for pointer, text in case["deletes"].items():
        schema = json.loads(case["schema"])
        del schema[pointer[1:]]
        assert whole.accepts(text.encode()) is not _oracle(case, schema).accepts(text.encode()), pointer


@pytest.mark.parametrize("case", load("case"))
def test_report(case: dict[str, Any]) -> None:
    report = schema_module(case["schema"], **case.get("options", {})).report
    assert {pointer: report.get(pointer) for pointer in case.get("report", {})} == case.get("report", {})
    chosen = {"under"} if case.get("options", {}).get("additional") == "declared" else set()
    assert set(report.values()) <= {"exact", *case.get("report", {}).values()} | chosen
    schema = json.loads(case["schema"])
    if isinstance(schema, dict):
        assert {f"/{keyword}" for keyword in schema} <= set(report)


@pytest.mark.parametrize("case", load("ignored"))
def test_what_is_left_out(case: dict[str, Any]) -> None:
    """It is refused as long as nobody says otherwise; then all valid texts are in, and the report tells."""
    with pytest.raises(UnsupportedError):
        schema_module(case["schema"])
    made = schema_module(case["schema"], on_unsupported="ignore")
    judge = VALIDATORS["2020-12"](json.loads(case["schema"]))
    oracle = Reference(made.module)
    for kind, valid in (("valid", True), ("invalid", False)):
        for text in case.get(kind, ()):
            assert oracle.accepts(text.encode()) is judge.is_valid(json.loads(text)) is valid, text
    assert {pointer: made.report.get(pointer) for pointer in case["report"]} == case["report"]


@pytest.mark.parametrize("case", load("case", lambda case: "lengths" in case))
def test_where_lengths_go(case: dict[str, Any]) -> None:
    """ "inside": into a repetition of the pattern, "none": implied, "beside": an intersection with any characters."""
    schema = json.loads(case["schema"])
    module = schema_module(schema).module
    root: Any = module.rules["root"]
    inner = root.item.items[1]
    character = spelling("bounded", "all").character
    beside = isinstance(inner, ir.And) and any(
        isinstance(item, ir.Repeat) and item.item is character for item in inner.items
    )
    without = {key: value for key, value in schema.items() if key not in ("minLength", "maxLength")}
    implied = schema_module(without).module == module
    assert ("beside" if beside else "none" if implied else "inside") == case["lengths"]


@pytest.mark.parametrize("case", load("error"))
def test_refusals(case: dict[str, Any]) -> None:
    limits = replace(DEFAULT_LIMITS, **case.get("limits", {}))
    with pytest.raises(NarrowsError) as caught:
        schema_module(case["schema"], limits=limits, **case.get("options", {}))
    error = caught.value
    found = {name: getattr(error, name) for name in ("code", "pointer", "limit", "line", "hint") if name in case}
    assert found == {name: case[name] for name in found}


def test_every_format_has_cases() -> None:
    assert set(FORMATS) == set(formats.PATTERNS)


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str) -> None:
    spelled = spelling("compact", "minimal")
    body = formats.format_body(name, spelled.escapes)
    oracle = Reference(ir.Module({"root": ir.Lexeme(spelled.quoted(body))}))
    validator = jsonschema_rs.Draft202012Validator({"format": name}, validate_formats=True)
    case = FORMATS[name]
    for text in (*case["valid"], *case["invalid"]):
        valid = text in case["valid"]
        assert oracle.accepts(json.dumps(text, ensure_ascii=False).encode()) is valid, text
        if text not in case.get("differs", ()):
            assert validator.is_valid(text) is valid, f"the validator differs: {text}"
