"""Where grammar, parser and renderer could disagree: markup between calls, arguments that are no object, texts that no call can hold."""

from __future__ import annotations

from typing import Any

import pytest

from narrows import Grammar, GrammarError, InputError, NarrowsError, UnsupportedError, Vocabulary, formats

VOCABULARY = Vocabulary([*(bytes([b]) for b in range(256)), b""], {"</s>": 256}, eos=[256])
OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


def tools(parameters: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


def allows(grammar: Grammar, text: str) -> bool:
    matcher = VOCABULARY.compile(grammar).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


def hermes(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'


@pytest.mark.parametrize("name", [name for name in formats.names() if formats.get(name).between.strip()])
def test_markup_between_calls_is_not_left_out(name: str) -> None:
    fmt = formats.get(name)
    call = {"function": {"name": "f", "arguments": {"a": "x"}}}
    both = fmt.render({"tool_calls": [call, call]})
    grammar = fmt.grammar(tools(OBJECT))
    assert allows(grammar, both)
    assert len(fmt.parse(both, tools(OBJECT)).tool_calls) == 2
    without = both.replace(fmt.between, "", 1)
    assert not allows(grammar, without) or len(fmt.parse(without, tools(OBJECT)).tool_calls) == 2


@pytest.mark.parametrize("types", [["object", "null"], ["null", "OBJECT"], ["string", "object", "array"]])
def test_arguments_are_an_object_where_the_schema_allows_more(types: list[str]) -> None:
    grammar = formats.get("hermes_json").grammar(tools({"type": types}), reasoning=None)
    assert allows(grammar, hermes("{}"))
    for value in ("null", '"x"', "[]"):
        assert not allows(grammar, hermes(value))


def test_nullable_arguments_are_an_object() -> None:
    grammar = formats.get("hermes_json").grammar(tools({**OBJECT, "nullable": True}), reasoning=None)
    assert allows(grammar, hermes('{"a": "x"}'))
    assert not allows(grammar, hermes("null"))


@pytest.mark.parametrize("name", ["hermes_json", "qwen3_xml", "pythonic", "gemma4", "minimax_m3"])
@pytest.mark.parametrize("parameters", [{"type": "string"}, {"type": ["array", "null"]}])
def test_a_schema_without_objects_is_refused_with_its_place(name: str, parameters: Any) -> None:
    with pytest.raises(GrammarError, match="arguments are an object") as caught:
        formats.get(name).grammar(tools(parameters))
    assert (caught.value.code, caught.value.pointer) == ("unsatisfiable", "/tools/0/function/parameters/type")


@pytest.mark.parametrize("wrong", [True, False, {"type": "object"}, "x"])
@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_content_of_a_grammar_is_a_grammar(wrong: Any, choice: str) -> None:
    with pytest.raises(InputError, match=r"content must be a narrows\.Grammar, or None") as caught:
        formats.get("hermes_json").grammar(tools(OBJECT), choice, content=wrong)
    assert caught.value.code == "wrong_type"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("qwen3_xml", "</parameter>"),
        ("qwen3_xml", "x\n<parameter=y>\nz"),
        ("glm_xml", "</arg_value>"),
        ("gemma4", 'a<|"|>b'),
        ("deepseek_v32", "</｜DSML｜parameter>\n</｜DSML｜invoke>"),
    ],
)
def test_a_text_that_no_call_can_hold_is_not_rendered(name: str, value: str) -> None:
    fmt = formats.get(name)
    for text, fits in ((value, False), ("<b> & </b>", True)):
        message = {"tool_calls": [{"function": {"name": "f", "arguments": {"s": text}}}]}
        if fits:
            assert fmt.parse(fmt.render(message)).tool_calls[0].complete
            continue
        with pytest.raises(UnsupportedError, match="its parser reads something else") as caught:
            fmt.render(message)
        assert (caught.value.code, caught.value.pointer) == ("message_unsupported", "/tool_calls/0/function/arguments")


def test_a_name_or_a_content_that_reads_otherwise_is_not_rendered() -> None:
    for name, message, pointer in (
        ("qwen3_xml", {"tool_calls": [{"function": {"name": "a>b", "arguments": {}}}]}, ""),
        ("hermes_json", {"content": hermes("{}")}, "/content"),
    ):
        with pytest.raises(UnsupportedError) as caught:
            formats.get(name).render(message)
        assert (caught.value.code, caught.value.pointer) == ("message_unsupported", pointer)


@pytest.mark.parametrize("arguments", ["{bad", "[1]", '{"a": NaN}', {"a": float("nan")}])
@pytest.mark.parametrize("name", ["hermes_json", "mistral", "qwen3_xml", "pythonic"])
def test_arguments_that_are_no_json_object_are_not_rendered(name: str, arguments: Any) -> None:
    with pytest.raises(InputError) as caught:
        formats.get(name).render({"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]})
    assert caught.value.code == "arguments_invalid"


@pytest.mark.parametrize("name", ["hermes_json", "qwen3_xml", "pythonic", "gemma4"])
@pytest.mark.parametrize("depth", [300, 900, 5_000])
def test_arguments_that_are_nested_deep_are_an_error_of_ours(name: str, depth: int) -> None:
    arguments = '{"a":' * depth + "1" + "}" * depth
    message = {"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
    if depth == 300:
        assert formats.get(name).parse(formats.get(name).render(message)).tool_calls[0].complete
        return
    with pytest.raises(NarrowsError) as caught:
        formats.get(name).render(message)
    assert caught.value.code in ("arguments_invalid", "message_unsupported")


def test_a_form_that_is_unknown_is_refused_without_calls_too() -> None:
    with pytest.raises(NarrowsError) as caught:
        formats.get("hermes_json").render({"content": "x"}, "nope")
    assert caught.value.code == "form_unknown"


@pytest.mark.parametrize("made", [0, None, "", b"x"])
def test_ids_of_the_caller_are_text(made: Any) -> None:
    parser = formats.get("hermes_json").parser(id_factory=lambda index: made)
    with pytest.raises(InputError, match="id_factory must return a str") as caught:
        parser.feed(hermes("{}"))
    assert caught.value.code == "wrong_type"


@pytest.mark.parametrize("options", [{"on_unsupported": "raise"}, {"additional": "closed"}])
@pytest.mark.parametrize("choice", ["none", "auto", "required"])
def test_an_unknown_option_is_refused_whatever_is_written(options: dict[str, Any], choice: str) -> None:
    with pytest.raises(InputError, match=next(iter(options)) + " must be one of") as caught:
        formats.get("hermes_json").grammar(None, choice, **options)
    assert caught.value.code == "invalid_option"
