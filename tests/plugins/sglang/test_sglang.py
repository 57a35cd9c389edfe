"""narrows' detectors in SGLang's own parser classes: streamed equals complete, whatever the increments, and both equal the parser's message."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sglang.srt.entrypoints.openai.protocol import Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.plugins import load_plugins
from sglang.srt.plugins.hook_registry import HookRegistry
from transcripts import NAMES, TOOLS, Case, cases_of, facts, feed, naming

from narrows import formats
from narrows.events import Content, Reasoning, ToolCallStart
from narrows.formats.registry import aliases, reasoning_names, reasoning_of
from narrows.formats.styles import styles
from narrows.plugins.sglang import compat, plugin
from narrows.plugins.sglang.tools import CallItem
from narrows.stream import Message, collect

load_plugins()
OFFERED = [Tool(**tool) for tool in TOOLS]


def cases(name: str) -> list[Case]:
    """Those that an SGLang server can meet: tools offered, no prompt that goes on, calls not limited to one."""
    return [case for case in cases_of(name) if case.options.keys() == {"tools"} and case.options["tools"] is TOOLS]


def streamed(parser: Any, pieces: list[str]) -> tuple[str, list[tuple[str, str, str | None]]]:
    text, calls = "", []
    for step in [*(lambda piece=piece: parser.parse_stream_chunk(piece) for piece in pieces), parser.parse_stream_end]:
        more, items = step()
        text += more
        for item in items:
            if item.name is not None:
                assert item.tool_index == len(calls)
                assert item.parameters == ""
                calls.append((item.name, "", getattr(item, "call_id", None)))
            else:
                assert item.tool_index == len(calls) - 1
                calls[-1] = (calls[-1][0], calls[-1][1] + item.parameters, calls[-1][2])
    return text, calls


def pieces_of(text: str, random: Random) -> list[str]:
    cuts = sorted(random.randrange(len(text) + 1) for _ in range(random.randrange(1, 8)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def wanted(name: str, text: str) -> Message:
    style = formats.get(name).reasoning
    return formats.get(name).parse(text, TOOLS, reasoning=style.name if style is not None and style.wraps else None)


@pytest.mark.parametrize("name", NAMES)
def test_tool_calls(name: str) -> None:
    random = Random(name)
    for case in cases(name):
        message = wanted(name, case.text)
        expected = [(call.name, call.arguments) for call in message.tool_calls]
        content = (message.content or "") if message.reasoning is None else None
        for pieces in ([case.text], list(case.text), pieces_of(case.text, random), pieces_of(case.text, random)):
            with naming((str(case), pieces)):
                parser = FunctionCallParser(OFFERED, f"narrows_{name}")
                text, calls = streamed(parser, pieces)
                assert [call[:2] for call in calls] == expected
                assert content is None or text == content
                assert parser.detector.streamed_args_for_tool == [arguments for _, arguments in expected]
        with naming(case):
            parser = FunctionCallParser(OFFERED, f"narrows_{name}")
            assert parser.has_tool_call(case.text) >= bool(expected)
            text, items = parser.parse_non_stream(case.text)
            assert [(item.name, item.parameters) for item in items] == expected
            assert content is None or text == content


@pytest.mark.parametrize("name", NAMES)
def test_reasoning_and_then_tool_calls(name: str) -> None:
    """The two detectors one after the other, as the server has them, make what the parser alone makes."""
    fmt, random = formats.get(name), Random(name)
    if fmt.reasoning is None:
        return
    for case in cases(name):
        message = case.parse()
        kinds = [type(event) for event in feed(case.parser(), [case.text])]
        over = (ToolCallStart, Content) if fmt.reasoning.wraps else (ToolCallStart,)
        first = next((at for at, kind in enumerate(kinds) if kind in over), len(kinds))
        if Reasoning in kinds[first:]:
            continue  # reasoning after a call, or after text that is set off: the interface cannot say it
        for pieces in ([case.text], list(case.text), pieces_of(case.text, random)):
            with naming((str(case), pieces)):
                reasoning, calls = ReasoningParser(f"narrows_{name}"), FunctionCallParser(OFFERED, f"narrows_{name}")
                thoughts, rest = "", []
                for piece in pieces:
                    more, normal = reasoning.parse_stream_chunk(piece)
                    thoughts += more
                    rest.append(normal)
                more, normal = reasoning.parse_stream_end()
                thoughts += more
                _, found = streamed(calls, [*rest, normal])
                assert thoughts == (message.reasoning or "")
                assert [call[:2] for call in found] == [(call.name, call.arguments) for call in message.tool_calls]
        with naming(case):
            thoughts, _ = ReasoningParser(f"narrows_{name}", stream_reasoning=False).parse_non_stream(case.text)
            assert thoughts == (message.reasoning or "")


@pytest.mark.parametrize("name", styles())
def test_styles_alone(name: str) -> None:
    style = formats.reasoning_style(name)
    opener, closer = style.pairs[0]
    for text, forced in ((f"{opener}Hm.{closer}Yes.", False), (f"Hm.{closer}Yes.", True)):
        if not opener and not forced:
            continue
        for stream in (True, False):
            parser = ReasoningParser(f"narrows_{name}", stream_reasoning=stream, force_reasoning=forced)
            steps = [*(parser.parse_stream_chunk(char) for char in text), parser.parse_stream_end()]
            wanted = ("", f"{opener}Hm.{closer}Yes.") if style.shown else ("Hm.", "Yes.")
            assert ("".join(a for a, _ in steps), "".join(b for _, b in steps)) == wanted


def test_reasoning_that_is_held_comes_at_once() -> None:
    parser = ReasoningParser("narrows_hermes_json", stream_reasoning=False)
    steps = [parser.parse_stream_chunk(char) for char in "<think>Hm.</think>Yes."]
    assert [a for a, _ in steps if a] == ["Hm."]
    parser = ReasoningParser("narrows_hermes_json", stream_reasoning=False)
    assert parser.parse_stream_chunk("<think>Hm.") == ("", "")
    assert parser.parse_stream_end() == ("Hm.", "")


def test_every_format_and_style_is_registered_beside_sglang_s_own() -> None:
    assert {f"narrows_{name}" for name in (*NAMES, *aliases())} <= set(FunctionCallParser.ToolCallParserEnum)
    assert {f"narrows_{name}" for name in reasoning_names()} <= set(ReasoningParser.DetectorMap)
    for name in reasoning_names():
        fmt, style = reasoning_of(name)
        detector = ReasoningParser.DetectorMap[f"narrows_{name}"]
        assert (detector.format_name, detector.style_name) == (
            (fmt.name, None) if fmt else (None, style.name if style else None)
        )
    for name, canonical in aliases().items():
        assert FunctionCallParser.ToolCallParserEnum[f"narrows_{name}"].format_name == canonical
    assert not FunctionCallParser.ToolCallParserEnum["hermes"].__module__.startswith("narrows")


def test_formats_of_one_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('name = "other"\nextends = "hermes_json"\nstrip = true\n', encoding="utf-8")
    monkeypatch.setenv("NARROWS_FORMATS", str(tmp_path / "mine.toml"))
    plugin.register()
    text = 'So:\n\n<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'
    content, calls = streamed(FunctionCallParser(OFFERED, "narrows_mine"), list(text))
    assert (content, [call[:2] for call in calls]) == ("So:", [("get_weather", '{"city": "Paris"}')])
    reasoning = ReasoningParser("narrows_mine")
    assert reasoning.parse_non_stream("<think>Hm. </think>Yes.") == ("Hm.", "Yes.")


def test_a_server_that_lacks_something_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FunctionCallParser, "ToolCallParserEnum", None)
    plugin.register()
    assert "ToolCallParserEnum" in caplog.text
    assert compat.missing() == ["FunctionCallParser.ToolCallParserEnum"]


def test_ids_of_the_wire_reach_the_server() -> None:
    text = "[TOOL_CALLS]now[CALL_ID]a1B2c3D4e[ARGS]{}"
    _, calls = streamed(FunctionCallParser(OFFERED, "narrows_mistral"), [text])
    assert calls == [("now", "{}", "a1B2c3D4e")]
    assert any("_process_tool_call_id" in target for target in HookRegistry._hooks)
    own = plugin._own_id(
        lambda server, call_item, count: "made", object(), CallItem(tool_index=0, parameters="", call_id="x"), 0
    )
    assert own == "x"


@pytest.mark.parametrize("name", [name for name in NAMES if not facts(name).single])
def test_structural_tags_are_in_the_format(name: str) -> None:
    """What SGLang makes of a required call (begin, JSON, end) is read back."""
    parser = FunctionCallParser(OFFERED, f"narrows_{name}")
    if not parser.detector.supports_structural_tag():
        return
    info = parser.detector.structure_info()("get_weather")
    assert info.begin.startswith(info.trigger)
    text = f'{info.begin}{{"city": "Paris"}}{info.end}'
    calls = parser.parse_non_stream(text + text)[1]
    assert [(call.name, json.loads(call.parameters)) for call in calls] == [("get_weather", {"city": "Paris"})] * 2


def test_an_answer_in_the_parser_s_own_words() -> None:
    """The fixtures above hold the detectors against `Format.parse`; this holds `feed` against it too."""
    case = cases("hermes_json")[0]
    assert collect(feed(case.parser(), [case.text])) == case.parse()
