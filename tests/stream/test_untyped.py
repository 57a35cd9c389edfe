"""With `untyped="json"`, as `muse` has it by itself, an argument of which no schema says anything is JSON where it can be, in every format that writes bare text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from transcripts import NAMES, cases_of, check_stream, feed, naming, passes_through

from narrows import formats
from narrows.errors import InputError
from narrows.events import ToolCallArguments

VALUES: dict[str, Any] = {
    "12": 12, "-0.5e3": -500.0, "123456789012345678901234567890": 123456789012345678901234567890, "true": True, "False": False,
    "null": None, "None": None, '{"a": [1]}': {"a": [1]}, "[]": [], "[x]": "[x]", "{": "{", "02134": "02134", "1-2": "1-2",
    "NaN": "NaN", "the": "the", "truest": "truest", "nullify": "nullify", "-": "-", "": "", '"a"': '"a"', "12 ": 12, "1 2": "1 2",
    " x": " x", "a\nb": "a\nb", "9" * 3_000: int("9" * 3_000),
}  # fmt: skip
BARE = [
    "qwen3_xml",
    "mimo_xml",
    "seed_oss",
    "glm_xml",
    "minimax_m2",
    "minimax_m3",
    "hunyuan_v3",
    "dots",
    "step3",
    "telechat4",
    "solar_open2",
    "iquest_q1",
    "muse",
]

LOOSE = ("iquest_coder_v2", "iquest_q1", "muse", "telechat4")


@pytest.mark.parametrize("name", BARE)
def test_values(name: str) -> None:
    fmt = formats.get(name)
    around = fmt.render({"tool_calls": [{"name": "f", "arguments": {"x": "VALUE", "y": "a"}}]})
    known = [{"name": "f", "parameters": {"properties": {"x": {"type": "string"}}}}]
    for raw, value in VALUES.items():
        with naming(repr(raw[:20])):
            text = around.replace("VALUE", raw)
            for size in (1, 3, len(text)):
                pieces = [text[at : at + size] for at in range(0, len(text), size)]
                calls = check_stream(feed(fmt.parser(untyped="json"), pieces), len(text)).tool_calls
                assert json.loads(calls[0].arguments) == {"x": value, "y": "a"}
            assert json.loads(fmt.parse(text, untyped="string").tool_calls[0].arguments)["x"] == raw
            assert json.loads(fmt.parse(text, known, untyped="json").tool_calls[0].arguments)["x"] == raw


@pytest.mark.parametrize("name", BARE)
def test_what_can_be_no_value_streams(name: str) -> None:
    fmt = formats.get(name)
    begin, _, _ = fmt.render({"tool_calls": [{"name": "f", "arguments": {"x": "VALUE"}}]}).partition("VALUE")
    parser = fmt.parser(untyped="json")
    parser.feed(begin)
    told = "".join(e.text for e in parser.feed("to be or not") if isinstance(e, ToolCallArguments))
    assert told.endswith('"to be or not')


@pytest.mark.parametrize("name", NAMES)
def test_cases_without_tools(name: str) -> None:
    for case in cases_of(name):
        with naming(case):
            parser = case.parser(tools=None, tool_choice="auto", untyped="json")
            whole = check_stream(feed(parser, [case.text]), len(case.text))
            parser = case.parser(tools=None, tool_choice="auto", untyped="json")
            assert check_stream(feed(parser, list(case.text)), len(case.text)) == whole
            if passes_through(case.fmt):
                assert whole == check_stream(
                    feed(case.parser(tools=None, tool_choice="auto"), [case.text]), len(case.text)
                )


def test_the_format_has_one_of_its_own() -> None:
    for name in NAMES:
        assert formats.get(name).untyped == ("json" if name in LOOSE else "string")
    text = formats.get("muse").render({"tool_calls": [{"name": "f", "arguments": {"x": 12}}]})
    assert json.loads(formats.get("muse").parse(text).tool_calls[0].arguments) == {"x": 12}
    assert json.loads(formats.get("muse").parse(text, untyped="string").tool_calls[0].arguments) == {"x": "12"}


def test_there_are_two_ways() -> None:
    with pytest.raises(InputError) as error:
        formats.get("qwen3_xml").parser(untyped="yaml")
    assert error.value.code == "untyped_invalid"
