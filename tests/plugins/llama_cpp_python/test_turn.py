"""What a chat's arguments become: which grammar holds the answer, where its errors point, and how an answer is written.
No model and no llama-cpp-python."""

from __future__ import annotations

from typing import Any

import pytest

from narrows import Content, NarrowsError, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart, Vocabulary, formats
from narrows.limits import DEFAULT_LIMITS
from narrows.plugins.llama_cpp_python.answer import Answer
from narrows.plugins.llama_cpp_python.turn import (
    Reading,
    Turn,
    check_messages,
    read_response_format,
    read_tool_choice,
    read_turn,
)
from narrows.stream.deltas import Deltas

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
JSON = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
HERMES = formats.get("hermes_json")


def turn(tools: Any = None, choice: Any = None, response_format: Any = None, prompt: str = "", **reading: Any) -> Turn:
    read = Reading(**reading)
    allowed, mode = read_tool_choice(tools, choice, DEFAULT_LIMITS)
    return read_turn(HERMES, "auto", prompt, allowed, mode, read_response_format(response_format, read), True, read)


BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), b""], special={"<end>": 256}, eos=[256])


def accepts(made: Turn, text: str) -> bool:
    matcher = BYTES.compile(made.grammar(DEFAULT_LIMITS)).matcher()
    return bool(matcher.accept_bytes(text.encode()) and matcher.is_accepting)


CALL = '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>'
OTHER_CALL = '<tool_call>\n{"name": "f", "arguments": {"m": 1}}\n</tool_call>'
OPEN = "<|im_start|>assistant\n<think>\n"


@pytest.mark.parametrize(
    ("arguments", "yes", "no"),
    [
        ({"tools": [TOOL], "choice": "required"}, [CALL], ["Hello", OTHER_CALL, '{"n": 1}']),
        ({"tools": [TOOL], "choice": {"type": "function", "function": {"name": "f"}}}, [CALL], ["Hello", ""]),
        ({"tools": [TOOL]}, [CALL, "Hello", f"Hello\n{CALL}"], [OTHER_CALL]),
        ({"tools": [TOOL], "choice": "none"}, ["Hello", CALL], []),
        ({"response_format": JSON}, ['{"n": 1}'], ['{"n": 1, "m": 2}', "Hello", CALL]),
        ({"response_format": {"type": "json_object"}}, ['{"n": 1, "m": 2}'], ["[]", "Hello"]),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, ['{"n": 1}'], ['{"n": 1, "m": 2}']),
        ({"tools": [TOOL], "response_format": JSON}, [CALL, '{"n": 1}'], ["Hello", OTHER_CALL]),
        ({"tools": [TOOL], "choice": "none", "response_format": JSON}, ['{"n": 1}'], [CALL, "Hello"]),
        ({"tools": [TOOL], "choice": "required", "response_format": JSON}, [CALL], ['{"n": 1}']),
        ({"response_format": JSON, "prompt": OPEN}, ['Hm.\n</think>\n\n{"n": 1}'], ["Hm.\n</think>\n\nHello"]),
        ({"response_format": JSON, "additional": "standard"}, ['{"n": 1, "m": 2}'], ["Hello"]),
        ({"tools": [TOOL], "choice": "required", "max_calls": 1}, [CALL], [f"{CALL}\n{CALL}"]),
    ],
)
def test_what_the_grammar_holds(arguments: dict[str, Any], yes: list[str], no: list[str]) -> None:
    made = turn(**arguments)
    assert made.definition is not None
    for text in yes:
        assert accepts(made, text), text
    for text in no:
        assert not accepts(made, text), text


@pytest.mark.parametrize("response_format", [None, {"type": "text"}])
def test_free_text_needs_no_grammar(response_format: Any) -> None:
    assert turn(response_format=response_format).definition is None


BAD = {"type": "object", "properties": {"n": {"type": "sting"}}}


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"response_format": {"type": "json_schema", "schema": BAD}}, "/response_format/schema/properties/n/type"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": BAD}}, "tools": [TOOL]},
            "/response_format/json_schema/schema/properties/n/type",
        ),
        (
            {"tools": [TOOL, {"type": "function", "function": {"name": "g", "parameters": BAD}}]},
            "/tools/1/function/parameters/properties/n/type",
        ),
    ],
)
def test_errors_point_into_the_request(arguments: dict[str, Any], pointer: str) -> None:
    with pytest.raises(NarrowsError) as caught:
        turn(**arguments).grammar(DEFAULT_LIMITS)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("messages", "pointer"),
    [
        ("Hello", "/messages"),
        ([], "/messages"),
        ([{"content": "x"}], "/messages/0"),
        (["x"], "/messages/0"),
        ([{"role": "user", "content": 3}], "/messages/0/content"),
        ([{"role": "user", "content": ["x"]}], "/messages/0/content"),
        ([{"role": "user"}, {"role": "assistant", "tool_calls": [{"id": "1"}]}], "/messages/1/tool_calls"),
        ([{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}], "/messages/0/tool_calls"),
    ],
)
def test_messages_of_another_form(messages: Any, pointer: str) -> None:
    with pytest.raises(NarrowsError) as caught:
        check_messages(messages)
    assert (caught.value.code, caught.value.pointer) == ("invalid_messages", pointer)


@pytest.mark.parametrize("tools", ["f", [3], {"f": 1}])
def test_tools_of_another_form(tools: Any) -> None:
    with pytest.raises(NarrowsError) as caught:
        read_tool_choice(tools, None, DEFAULT_LIMITS)
    assert caught.value.code == "tools_invalid"


def test_an_answer_as_chunks_and_complete() -> None:
    answer = Answer("model.gguf")
    events = [
        Reasoning("Hm", (0, 2)),
        Reasoning(".", (2, 3)),
        Content("So", (3, 5)),
        ToolCallStart(0, "call_1", "f", (5, 6)),
        ToolCallArguments(0, '{"n":', (6, 7)),
        ToolCallArguments(0, " 1}", (7, 8)),
        ToolCallEnd(0, True, None, (8, 9)),
    ]
    deltas = Deltas()
    chunks = [answer.first(), *map(answer.chunk, deltas.of(events)), answer.last("tool_calls", 5, 9)]
    assert deltas.has_call
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"reasoning": "Hm.", "reasoning_content": "Hm."},
        {"content": "So"},
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"n": 1}'}}]},
        {},
    ]
    usage = {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}
    assert answer.complete(chunks) == {
        "id": chunks[0]["id"],
        "object": "chat.completion",
        "created": chunks[0]["created"],
        "model": "model.gguf",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "So",
                    "refusal": None,
                    "reasoning": "Hm.",
                    "reasoning_content": "Hm.",
                    "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}}
                    ],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": usage,
    }
    assert chunks[-1]["usage"] == usage
