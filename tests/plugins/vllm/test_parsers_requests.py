"""What a request's tools, its `tool_choice` and the shape of its content ask for, as the parser hands it to vLLM: calls that must come, that may come,
and content that has a shape beside them."""

from __future__ import annotations

from typing import Any

import pytest
from answers import TOOLS, tokenizer_or_skip
from serving import chat_request, complete, parser_class, stream


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    from narrows.plugins.vllm import plugin

    plugin.register()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tokenizer_or_skip()


@pytest.mark.parametrize(
    ("choice", "reasoning", "expected"),
    [
        ("required", None, {"tool_choice": "required", "reasoning": None}),
        ("required", "narrows_think", {"tool_choice": "required", "reasoning": "think"}),
        ("required", "narrows_think_open", {"tool_choice": "required", "reasoning": None}),
        ({"type": "function", "function": {"name": "now"}}, None, {"reasoning": None}),
    ],
)
def test_call_that_must_come_is_constrained(
    choice: Any, reasoning: str | None, expected: dict[str, Any], tokenizer: Any
) -> None:
    from narrows.plugins.vllm import grammar_request

    request = chat_request(TOOLS, tool_choice=choice, parallel_tool_calls=False)
    parser = parser_class("narrows_hermes_json", reasoning)(tokenizer, request.tools)
    adjusted = parser.adjust_request(request)
    wanted = grammar_request.read(adjusted.structured_outputs.grammar)
    assert wanted.format == "hermes_json"
    assert [tool["function"]["name"] for tool in wanted.turn.tools] == [tool["function"]["name"] for tool in TOOLS]
    assert wanted.turn.parallel is False
    for name, value in expected.items():
        assert getattr(wanted.turn, name) == value
    assert adjusted.skip_special_tokens is False
    wanted.grammar()


@pytest.mark.parametrize(
    ("extra", "additional"), [(None, "declared"), ({"narrows_additional": "standard"}, "standard")]
)
def test_a_request_says_how_its_tools_are_read(extra: Any, additional: str, tokenizer: Any) -> None:
    from narrows.plugins.vllm import grammar_request

    request = chat_request(TOOLS, tool_choice="required", vllm_xargs=extra)
    parser = parser_class("narrows_hermes_json", None)(tokenizer, request.tools)
    assert grammar_request.read(parser.adjust_request(request).structured_outputs.grammar).additional == additional


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_call_that_may_come_is_not_constrained(choice: str, tokenizer: Any) -> None:
    request = chat_request(TOOLS, tool_choice=choice)
    adjusted = parser_class("narrows_hermes_json", "narrows_think")(tokenizer, request.tools).adjust_request(request)
    assert adjusted.structured_outputs is None
    assert adjusted.skip_special_tokens is False


SHAPE = {"type": "object", "properties": {"answer": {"type": "boolean"}}, "required": ["answer"]}
SHAPED: list[tuple[dict[str, Any], str, list[str]]] = [
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SHAPE}}},
        "json",
        ['{"answer": true}'],
    ),
    ({"response_format": {"type": "json_object"}}, "json_object", ['{"a": 1}']),
    ({"structured_outputs": {"json": SHAPE}}, "json", ['{"answer": false}']),
    ({"structured_outputs": {"choice": ["yes", "no"]}}, "choice", ["yes", "no"]),
]


@pytest.mark.parametrize("reasoning", [None, "narrows_think", "narrows_think_open"])
@pytest.mark.parametrize(
    ("more", "language", "texts"), SHAPED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_content_that_has_a_shape_beside_calls_that_may_come(
    more: dict[str, Any], language: str, texts: list[str], reasoning: str | None, tokenizer: Any
) -> None:
    """The answer is either calls or content of the shape, and the parser reads it so."""
    from narrows.plugins.vllm import grammar_request
    from narrows.reference import Reference

    request = chat_request(TOOLS, tool_choice="auto", **more)
    cls = parser_class("narrows_hermes_json", reasoning)
    adjusted = cls(tokenizer, request.tools).adjust_request(request)
    wanted = grammar_request.read(adjusted.structured_outputs.grammar)
    assert wanted.content is not None
    assert (wanted.content.language, adjusted.response_format) == (language, None)
    judge = Reference(wanted.grammar().module)
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    assert judge.accepts(call.encode())
    assert not judge.viable(b"Well")
    opened = reasoning == "narrows_think_open"
    for text in texts:
        assert judge.accepts(text.encode())
        for result in both_ways(cls, tokenizer, adjusted, "hm</think>" + text if opened else text):
            assert (result.content.strip(), result.calls) == (text, [])


@pytest.mark.parametrize("strict", [True, None])
@pytest.mark.parametrize("wanted", [{"regex": "<tool_call>.*"}, {"grammar": 'root ::= "a"'}])
def test_a_pattern_or_a_grammar_may_spell_calls_itself(
    wanted: dict[str, str], strict: bool | None, tokenizer: Any
) -> None:
    tools = [{"type": "function", "function": {"name": "now", **({} if strict is None else {"strict": strict})}}]
    request = chat_request(tools, tool_choice="auto", structured_outputs=wanted)
    adjusted = parser_class("narrows_hermes_json", None)(tokenizer, request.tools).adjust_request(request)
    [(name, text)] = wanted.items()
    assert getattr(adjusted.structured_outputs, name) == text
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    for result in both_ways(parser_class("narrows_hermes_json", None), tokenizer, adjusted, "Well. " + call):
        assert (result.content.strip(), len(result.calls)) == ("Well.", 1)


def test_content_that_holds_a_call_is_content(tokenizer: Any) -> None:
    """An answer that was held to a shape, and does not begin with a call, has none."""
    text = 'So: <tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    request = chat_request(TOOLS, tool_choice="auto", structured_outputs={"choice": [text, "no"]})
    cls = parser_class("narrows_hermes_json", None)
    adjusted = cls(tokenizer, request.tools).adjust_request(request)
    for result in both_ways(cls, tokenizer, adjusted, text):
        assert (result.content, result.calls) == (text, [])


def both_ways(cls: Any, tokenizer: Any, request: Any, text: str) -> list[Any]:
    return [
        stream(cls, tokenizer, request, [(char, ()) for char in text]),
        complete(cls, tokenizer, request, text, ()),
    ]


@pytest.mark.parametrize("strict", [True, False, None])
def test_strict_tools_are_constrained_where_calls_may_come(strict: bool | None, tokenizer: Any) -> None:
    from narrows.plugins.vllm import grammar_request
    from narrows.reference import Reference

    function = {"name": "add", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    tools = [*TOOLS, {"type": "function", "function": {**function, **({} if strict is None else {"strict": strict})}}]
    request = chat_request(tools, tool_choice="auto")
    adjusted = parser_class("narrows_hermes_json", None)(tokenizer, request.tools).adjust_request(request)
    assert (adjusted.structured_outputs is not None) is (strict is True)
    if strict:
        judge = Reference(grammar_request.read(adjusted.structured_outputs.grammar).grammar().module)
        call = '<tool_call>\n{"name": "add", "arguments": {"n": %s}}\n</tool_call>'
        assert judge.accepts(b"Well. " + (call % "1").encode())
        assert not judge.viable((call % '"a"').encode())


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "now"}}])
def test_a_shape_of_the_content_is_left_out_where_a_call_must_come(choice: Any, tokenizer: Any) -> None:
    from narrows.plugins.vllm import grammar_request

    request = chat_request(TOOLS, tool_choice=choice, response_format={"type": "json_object"})
    adjusted = parser_class("narrows_hermes_json", None)(tokenizer, request.tools).adjust_request(request)
    assert grammar_request.read(adjusted.structured_outputs.grammar).content is None
    assert adjusted.response_format is None
