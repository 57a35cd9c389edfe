"""Definitions around other definitions: with a report, with each rule apart, in a named wire format."""

from __future__ import annotations

from typing import Any

import pytest

import narrows
from narrows import formats
from narrows.compiling.definition import REPORTED, read_definition
from narrows.compiling.messages import grammar_from, of_grammar
from narrows.limits import DEFAULT_LIMITS
from narrows.tools.turn import TurnOptions

VOCABULARY = narrows.Vocabulary([bytes([b]) for b in range(256)] + [b""], special={"<end>": 256}, eos=[256])
FORMAT = formats.get("hermes_json")
SCHEMA = {"type": "array", "maxitems": 2, "items": {"type": "integer"}}
LOOSE: list[Any] = ["text", "json", SCHEMA, {"on_unsupported": "ignore"}]
GBNF: list[Any] = ["text", "grammar", 'root ::= "a" b\nb ::= "x" | c\nc ::= "y" [0-9]+', {}]


def flat(definition: list[Any]) -> Any:
    return read_definition(definition, FORMAT, VOCABULARY.facts, DEFAULT_LIMITS)


def test_a_report_comes_on_request_and_travels_between_processes() -> None:
    assert flat(LOOSE).report is None
    reported = flat(["reported", LOOSE])
    assert reported.loose == ("/maxitems",)
    assert reported.report.entries[0][:2] == ("/maxitems", "ignored")
    assert ("/items/type", "exact", "") in reported.report.entries
    assert reported.report.bytes > 0
    for one in (flat(LOOSE), reported):
        assert grammar_from(of_grammar(one)).report == one.report


def test_a_report_is_bounded() -> None:
    schema = {"properties": {f"p{i}": {"type": "null"} for i in range(REPORTED)}, "maxitems": 2}
    report = flat(["reported", ["text", "json", schema, {"on_unsupported": "ignore"}]]).report
    assert (len(report.entries), report.left_out) == (REPORTED, 2)
    assert report.entries[0][0] == "/maxitems"


@pytest.mark.parametrize("text", ["ax", "ay7", "ayz", "b", "ay"])
def test_rules_apart_mean_the_same_and_have_names(text: str) -> None:
    rules = []
    ends = []
    for definition in (GBNF, ["by_rule", GBNF]):
        matcher = VOCABULARY.assemble(flat(definition).arrays).matcher()
        token = next((b for b in text.encode() if not matcher.accept(b)), 256)
        rules.append([rule for rule in matcher.explain(token).rules if rule])
        ends.append((matcher.history(), matcher.is_accepting))
    assert ends[0] == ends[1]
    if text == "ayz":
        assert rules[1] == ["3:1"]


def test_a_turn_in_another_format() -> None:
    tools = [{"type": "function", "function": {"name": "now"}}]
    turn = TurnOptions(tools=tools, tool_choice="required").arguments()
    rest = [turn, None, "declared", "ignore", None]
    for definition, text in (
        (["chat", *rest], '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'),
        (["chat_in", "qwen3_xml", *rest], "<tool_call>\n<function=now>\n</function>\n</tool_call>"),
    ):
        matcher = VOCABULARY.assemble(flat(definition).arrays).matcher()
        assert matcher.accept_bytes(text.encode())
        assert matcher.is_accepting
