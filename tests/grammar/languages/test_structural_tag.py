"""Structural tags: tables of tags with texts, read by the reference and by the engine; what is refused; hostile input."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structural_tag_cases import cases, of_case
from typer.testing import CliRunner

import narrows
from narrows.cli.app import app
from narrows.errors import GrammarError, LimitError, NarrowsError, UnsupportedError
from narrows.grammar.grammar import Grammar
from narrows.limits import Limits
from narrows.plugins.vllm import grammar_request
from narrows.plugins.vllm.masking import constraints as vllm_constraints


@pytest.mark.parametrize(
    "case", [*cases("formats"), *cases("models"), *cases("xgrammar")], ids=lambda case: case["name"]
)
def test_cases(case: dict[str, Any]) -> None:
    both = of_case(case)
    for text in case["accepts"]:
        assert both.reads(text) == (True, True), text
    for text in case.get("viable", ()):
        assert both.reads(text)[1], text
    for text in case["refuses"]:
        assert not both.reads(text)[0], text


@pytest.mark.parametrize("case", cases("refused"), ids=lambda case: case["name"])
def test_refused(case: dict[str, Any]) -> None:
    wanted = case["error"]
    with pytest.raises(GrammarError) as caught:
        Grammar.from_structural_tag(case["tag"])
    assert (caught.value.code, caught.value.pointer) == (wanted["code"], wanted.get("pointer"))
    assert wanted.get("says", "") in str(caught.value)
    assert isinstance(caught.value, UnsupportedError) == caught.value.code.endswith("_unsupported")


def test_a_mapping_and_its_text_are_the_same() -> None:
    for case in cases("models"):
        from_text, from_mapping = (Grammar.from_structural_tag(one) for one in (case["tag"], json.loads(case["tag"])))
        assert (from_text.module, from_text.report) == (from_mapping.module, from_mapping.report), case["name"]


def test_by_the_name_of_the_language() -> None:
    tag = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"properties": {"a": {}}}}}
    grammar = Grammar.from_language("structural_tag", tag, additional="declared", whitespace="compact")
    assert grammar.report["/format/json_schema/properties"] == "under"


def test_the_report_has_places_in_the_tag() -> None:
    array = {"type": "array", "contains": {"type": "string"}, "minContains": 2, "uniqueItems": True}
    tag = {
        "type": "structural_tag",
        "structures": [{"begin": "<a>", "schema": array, "end": ""}, {"begin": "<b>", "schema": {}, "end": ""}],
        "triggers": ["<"],
    }
    report = Grammar.from_structural_tag(tag, on_unsupported="ignore").report
    assert report["/structures/0/schema/uniqueItems"] == "ignored"


def test_explain_names_the_tag() -> None:
    case = next(case for case in cases("formats") if case["name"] == "triggered_tags")
    vocabulary = narrows.Vocabulary([bytes([byte]) for byte in range(256)])
    matcher = vocabulary.compile(Grammar.from_structural_tag(case["tag"])).matcher()
    matcher.accept_bytes(b"a <f=a>")
    assert "/format/tags/0" in str(matcher.explain(ord("x")))


def test_a_token_that_the_vocabulary_lacks() -> None:
    grammar = Grammar.from_structural_tag('{"type": "structural_tag", "format": {"type": "token", "token": "<|x|>"}}')
    with pytest.raises(GrammarError) as caught:
        narrows.Vocabulary([b"a"]).compile(grammar)
    assert caught.value.code == "token_unknown"


# Hostile input. Seconds on a busy machine.
QUICK = 10.0  # seconds on a busy machine


def _tag(format_: Any) -> dict[str, Any]:
    return {"type": "structural_tag", "format": format_}


def _nested(depth: int) -> Any:
    made: Any = {"type": "any_text"}
    for _ in range(depth):
        made = {"type": "optional", "content": made}
    return _tag(made)


def _calls(count: int, trigger: str = "<f=") -> Any:
    content = {"type": "json_schema", "json_schema": {"type": "integer"}}
    tags = [{"begin": f"<f={k}>", "content": content, "end": "</f>"} for k in range(count)]
    triggers = [trigger] if trigger else [tag["begin"] for tag in tags]
    return _tag({"type": "triggered_tags", "triggers": triggers, "tags": tags})


def _itself() -> Any:
    made: dict[str, Any] = {"type": "star"}
    made["content"] = made
    return _tag(made)


@pytest.mark.parametrize(
    ("tag", "limit", "begin"),
    [
        (_nested(1_100), "nesting", "/format/content"),
        (_itself(), "nesting", "/format/content"),
        (json.dumps(_nested(600)), "schema_depth", ""),
        ('{"type": ' * 100_000, "schema_depth", ""),
        (_tag({"type": "const_string", "value": "a" * 20_000_000}), "reading_work", "/format/value"),
        (
            _tag({"type": "any_text", "excludes": ["a" * 5_000 + str(k) for k in range(4_000)]}),
            "reading_work",
            "/format",
        ),
        (_calls(200_000), "reading_work", "/format"),
        (
            _tag({"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": "a" * 500_000}),
            "reading_work",
            "/",
        ),
        (
            _tag({"type": "dispatch", "rules": [["a" * 5_000 + str(k), {"type": "any_text"}] for k in range(200)]}),
            "reading_work",
            "/format",
        ),
        (_tag({"type": "regex", "pattern": "(" * 30_000}), "nesting", "/format/pattern"),
        (_tag({"type": "grammar", "grammar": "root ::= " + "(" * 30_000}), "nesting", "/format/grammar"),
    ],
)
def test_limits(tag: Any, limit: str, begin: str) -> None:
    started = time.process_time()
    with pytest.raises(LimitError) as caught:
        Grammar.from_structural_tag(tag)
    assert caught.value.limit == limit
    assert caught.value.pointer is not None
    assert caught.value.pointer.startswith(begin)
    assert time.process_time() - started < QUICK


def test_ends_that_overlap_are_no_way_around_the_limits() -> None:
    """Each end has a content of its own there, so that nested ones multiply."""
    made: Any = {"type": "any_text"}
    for _ in range(25):
        made = {"type": "tag", "begin": "<", "content": made, "end": ["``", "`a`"]}
    started = time.process_time()
    with pytest.raises(LimitError):
        Grammar.from_structural_tag(_tag(made))
    assert time.process_time() - started < QUICK


def test_deep_formats_are_compiled() -> None:
    vocabulary = narrows.Vocabulary([bytes([byte]) for byte in range(256)])
    matcher = vocabulary.compile(Grammar.from_structural_tag(_nested(900))).matcher()
    assert matcher.accept_bytes(b"text")
    assert matcher.is_accepting


@pytest.mark.parametrize("trigger", ["<f=", ""])
def test_many_tags(trigger: str) -> None:
    """Work and time grow with the number of tags alone."""
    vocabulary = narrows.Vocabulary([bytes([byte]) for byte in range(256)])
    few, many = (Grammar.from_structural_tag(_calls(count, trigger)) for count in (250, 4_000))
    assert many.work < 20 * few.work
    started = time.process_time()
    matcher = vocabulary.compile(many).matcher()
    assert matcher.accept_bytes(b"some text <f=3999>5</f> and more <f")
    assert matcher.is_accepting
    assert time.process_time() - started < QUICK


def test_what_is_no_structural_tag() -> None:
    for tag in (None, 5, [], b"{}"):
        with pytest.raises(NarrowsError) as caught:
            Grammar.from_structural_tag(tag)  # type: ignore[arg-type]
        assert caught.value.code == "wrong_type"


def test_limits_can_be_raised() -> None:
    tag = _nested(30)
    with pytest.raises(LimitError):
        Grammar.from_structural_tag(tag, limits=Limits(nesting=20))
    Grammar.from_structural_tag(tag, limits=Limits(nesting=40))


# The plug-in for vLLM, as far as it needs no vLLM.

TAG_TEXT = '{"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"properties": {"a": {}}}}}'


def _vllm_reads(definition: vllm_constraints.Definition | None, text: str) -> bool:
    assert definition is not None
    vocabulary = narrows.Vocabulary([bytes([byte]) for byte in range(256)])
    matcher = vocabulary.compile(definition.grammar(Limits())).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


def test_vllms_structured_outputs() -> None:
    asked = SimpleNamespace(json=None, json_object=None, regex=None, choice=None, grammar=None, structural_tag=TAG_TEXT)
    closed = vllm_constraints.of_structured_outputs(asked)
    assert _vllm_reads(closed, '{"a": 1}')
    assert not _vllm_reads(closed, '{"b": 1}')
    open_ = vllm_constraints.of_structured_outputs(asked, compact=True, additional="standard")
    assert _vllm_reads(open_, '{"b":1}')
    assert not _vllm_reads(open_, '{"b": 1}')
    carried = vllm_constraints.of_structural_tag(grammar_request.for_schema(TAG_TEXT, "standard"))
    assert _vllm_reads(carried, '{"b": 1}')


def test_vllms_extra_arguments() -> None:
    for tag in (TAG_TEXT, json.loads(TAG_TEXT)):
        asked = vllm_constraints.of_extra_args({"narrows_structural_tag": tag, "narrows_additional": "standard"})
        assert _vllm_reads(asked, '{"b": 1}')
    with pytest.raises(NarrowsError) as caught:
        vllm_constraints.of_extra_args({"narrows_structural_tag": 5})
    assert caught.value.code == "extra_args_invalid"


# The command.


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "tag.json"
    file.write_text(TAG_TEXT)
    good = CliRunner().invoke(app, ["check", str(file), "--language", "structural_tag"])
    assert good.exit_code == 0, good.output
    file.write_text(TAG_TEXT.replace("json_schema", "json_shema", 1))
    bad = CliRunner().invoke(app, ["check", str(file), "--language", "structural_tag"])
    assert bad.exit_code == 4
    assert "/format/type" in bad.output
