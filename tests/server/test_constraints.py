"""Tools and a response_format in one request: one grammar, cached by all it depends on, and a parser that agrees."""

from __future__ import annotations

from typing import Any

import pytest

import narrows
from narrows import formats
from narrows.compiling.definition import grammar
from narrows.errors import NarrowsError
from narrows.grammar.languages.json_schema import JSON_SCHEMA
from narrows.limits import DEFAULT_LIMITS
from narrows.server.constraints import Task, Wanted, for_chat
from narrows.tools.turn import TurnOptions

VOCABULARY = narrows.Vocabulary([bytes([b]) for b in range(256)] + [None], special={"<|im_end|>": 256}, eos=[256])
TOOLS = [{"type": "function", "function": {"name": "now"}}]
FORMAT = formats.get("hermes_json")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
WANTED = Wanted(JSON_SCHEMA, SCHEMA, "/response_format/json_schema/schema")
CALL = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
TURN = "<|im_start|>assistant\n"


def task(asked: Wanted | None, **more: Any) -> Task:
    turn_task = Task(
        format=FORMAT,
        vocabulary=VOCABULARY,
        limits=DEFAULT_LIMITS,
        turn=TurnOptions(
            tools=more.get("tools", TOOLS), tool_choice=more.get("choice", "auto"), prompt=more.get("prompt", TURN)
        ),
    )
    return turn_task.holding(asked)


def accepts(turn_task: Task, asked: Wanted | None, text: str) -> bool:
    plan = for_chat(turn_task, asked)
    assert plan is not None
    matcher = VOCABULARY.compile(grammar(plan.definition, FORMAT, DEFAULT_LIMITS)).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


CASES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({}, ['{"a": 1}', CALL, '<think>\nx\n</think>\n\n{"a": 1}'], ["text", '{"a": "x"}']),
    ({"choice": "required"}, [CALL], ['{"a": 1}']),
    ({"choice": "none"}, ['{"a": 1}'], [CALL]),
    ({"tools": []}, ['{"a": 1}'], [CALL]),
    ({"tools": [], "prompt": TURN + "<think>\n"}, ['x</think>{"a": 1}'], ['{"a": 1}']),
    ({"prompt": TURN + "<think>\n"}, ['x</think>{"a": 1}', "x</think>" + CALL], ['{"a": 1}']),
]


@pytest.mark.parametrize(("more", "good", "bad"), CASES)
def test_what_may_be_written(more: dict[str, Any], good: list[str], bad: list[str]) -> None:
    turn_task = task(WANTED, **more)
    for text in good + bad:
        assert accepts(turn_task, WANTED, text) == (text in good), text


def test_the_parser_takes_nothing_in_the_content_for_a_call() -> None:
    parser = task(WANTED).parser(str)
    text = f'{{"a": 1, "b": "{CALL}"}}'
    events = [*parser.feed(text), *parser.finish()]
    assert "".join(getattr(event, "text", "") for event in events) == text


def test_what_the_grammar_is_remembered_by() -> None:
    other = Wanted(JSON_SCHEMA, {"type": "object"}, WANTED.pointer)
    plans = [for_chat(task(asked), asked) for asked in (None, WANTED, other)]
    assert len({repr(plan.definition) for plan in plans if plan is not None}) == 3


def test_errors_say_whose_schema_it_is() -> None:
    bad = {"type": "object", "properties": {"x": {"type": "strin"}}}
    wrong = Wanted(JSON_SCHEMA, bad, WANTED.pointer)
    tools = [{"type": "function", "function": {"name": "now", "parameters": bad}}]
    for turn_task, asked, begin in (
        (task(wrong), wrong, WANTED.pointer),
        (task(WANTED, tools=tools), WANTED, "/tools/0/function/parameters"),
    ):
        plan = for_chat(turn_task, asked)
        assert plan is not None
        with pytest.raises(NarrowsError) as error:
            grammar(plan.definition, FORMAT, DEFAULT_LIMITS)
        assert (plan.locate(error.value).pointer or "") == begin + "/properties/x/type"
