"""Tools and a `response_format` in one request: an answer is calls, or content that its own grammar holds; and is read as such."""

from __future__ import annotations

import json
from random import Random

import jsonschema_rs
import pytest
from test_format_grammar import TOOLS, spell, vocabulary, walks
from transcripts import facts

import narrows
from narrows import formats
from narrows.errors import UnsupportedError
from narrows.stream import collect

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 40}, "b": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"n": {"type": ["integer", "null"]}},
}
CONTENT = narrows.Grammar.from_json_schema(SCHEMA)
TEXT_APART = [
    name for name in formats.names() if any(shape.render_text("") is not None for shape in formats.get(name).calls)
]


@pytest.mark.parametrize("name", [name for name in formats.names() if name not in TEXT_APART])
def test_an_answer_is_calls_or_the_content(name: str) -> None:
    fmt = formats.get(name)
    grammar = fmt.grammar(TOOLS, "auto", content=CONTENT)
    matcher = vocabulary(name, False)[0].compile(grammar).matcher
    for arguments in ({"city": "Paris"}, {"city": "Rome", "days": 3}):
        call = {"function": {"name": "get_weather", "arguments": arguments}}
        m = matcher()
        assert m.accept_bytes(fmt.render({"tool_calls": [call]}).encode())
        assert m.is_accepting
    good = fmt.render({"content": '{"a": "x", "b": [1, null]}'})
    m = matcher()
    assert m.accept_bytes(good.encode()), good
    assert m.is_accepting
    message = fmt.parse(good, TOOLS, content=CONTENT)
    assert (json.loads(message.content or ""), message.tool_calls) == ({"a": "x", "b": [1, None]}, [])
    for bad in ("Look: ", '{"a": 1}', '{"b": []}'):
        assert not (matcher().accept_bytes(fmt.render({"content": bad}).encode()))


@pytest.mark.parametrize("name", ["hermes_json", "harmony", "pythonic", "gemma4", "mistral"])
def test_generated_answers_are_read_back(name: str) -> None:
    fmt = formats.get(name)
    grammar = fmt.grammar(TOOLS, "auto", content=CONTENT)
    for ids in walks(name, grammar, True, 30, Random(name)):
        parser = fmt.parser(TOOLS, vocab=vocabulary(name, True)[0], content=CONTENT)
        events = [*parser.feed_tokens(ids), *parser.finish()]
        message = narrows.stream.collect(events)
        assert bool(message.tool_calls) != bool(message.content), spell(name, ids, True)
        if message.content:
            jsonschema_rs.validate(SCHEMA, json.loads(message.content))


def test_what_looks_like_a_call_inside_the_content_is_content() -> None:
    fmt = formats.get("mistral")
    text = '{"a": "[TOOL_CALLS]now[ARGS]{}"}'
    assert fmt.parse(text, TOOLS).tool_calls
    assert fmt.parse(text, TOOLS, content=True).content == text


def test_only_the_content_and_only_calls() -> None:
    fmt = formats.get("hermes_json")
    vocab = vocabulary("hermes_json", False)[0]
    for choice, content, calls in (("none", True, False), ("required", False, True)):
        for text, wanted in (('{"a": ""}', content), (fmt.render({"tool_calls": [{"name": "now"}]}), calls)):
            matcher = vocab.compile(fmt.grammar(TOOLS, choice, content=CONTENT)).matcher()
            assert (matcher.accept_bytes(text.encode()) and matcher.is_accepting) == wanted


def test_behind_reasoning_and_in_a_prompt_that_has_begun_it() -> None:
    fmt = formats.get("hermes_json")
    turn = facts("hermes_json").turn
    vocab = vocabulary("hermes_json", False)[0]
    for prompt, text in ((turn, '<think>\nx</think>\n\n{"a": ""}'), (turn + "<think>\n", 'x</think>{"a": ""}')):
        matcher = vocab.compile(fmt.grammar(TOOLS, "auto", prompt=prompt, content=CONTENT)).matcher()
        assert matcher.accept_bytes(text.encode())
        assert matcher.is_accepting
    with pytest.raises(UnsupportedError) as error:
        fmt.grammar(TOOLS, "auto", prompt=turn + '{"a": ', content=CONTENT)
    assert error.value.code == "content_unsupported"


@pytest.mark.parametrize("name", TEXT_APART)
def test_formats_that_have_text_in_a_form_of_its_own_refuse(name: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        formats.get(name).grammar(TOOLS, "auto", content=CONTENT)
    assert error.value.code == "content_unsupported"


def test_the_report_tells_them_apart() -> None:
    report = formats.get("hermes_json").grammar(TOOLS, "auto", content=CONTENT).report
    assert report["/content/properties/a/maxLength"] == "exact"
    assert report["/tools/0/function/parameters/properties/city/type"] == "exact"


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}, "arguments": {"type": "object"}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("name", ["llama3_json", "xlam", "forced_json"])
def test_content_that_looks_like_a_call_of_no_tool_is_content(name: str) -> None:
    """Where nothing marks a call, the names of the tools tell it from content that has such keys by chance."""
    fmt = formats.get(name)
    content = narrows.Grammar.from_json_schema({"anyOf": [PERSON, {"type": "array", "items": PERSON}]})
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    held = '{"name": "Bob", "parameters": {"f": {}}, "arguments": {}}'
    for text in (held, f"[{held}]", f"[{held}, {held}]"):
        for cut in range(len(text)):
            parser = fmt.parser(tools, content=content)
            message = collect([*parser.feed(text[:cut]), *parser.feed(text[cut:]), *parser.finish()])
            assert (message.content, message.tool_calls) == (text, [])
    call = fmt.render({"tool_calls": [{"id": "abcdefghi", "function": {"name": "f", "arguments": {"a": 1}}}]})
    assert [c.name for c in fmt.parse(call, tools, content=content).tool_calls] == ["f"]
    unknown = call.replace('"f"', '"Bob"')
    assert [c.known for c in fmt.parse(unknown, tools).tool_calls] == [False]
