"""Raw outputs from other projects' suites, with what those expect. Where narrows disagrees, exceptions.toml says why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from transcripts import check_stream, feed, openers

from narrows import formats
from narrows.errors import FormatError
from narrows.events import Content, Reasoning
from narrows.stream import Message

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parents[3] / "shared" / "cases"
OURS = Path(__file__).parents[1] / "cases" / "formats"
EXCEPTIONS: dict[str, str] = tomllib.loads((OURS / "exceptions.toml").read_text(encoding="utf-8"))
REASONING: dict[str, Any] = tomllib.loads((OURS / "third_party.toml").read_text(encoding="utf-8"))["reasoning"]


def format_of(case: dict[str, Any]) -> formats.Format | None:
    name = REASONING[case["format"]]["format"] if case["kind"] == "reasoning" else case["canonical_format"]
    try:
        return formats.get(name)
    except FormatError:
        return None


def load() -> list[dict[str, Any]]:
    files = ("tools_vllm_sample.json", "tools_sglang.json", "reasoning_sample.json")
    cases = [case for file in files for case in json.loads((CASES / file).read_text(encoding="utf-8"))]
    return [
        case for case in cases if not any(isinstance(t, str) for t in case.get("tools") or ())
    ]  # tools that were lost


def read(case: dict[str, Any], size: int, set_off: bool = False) -> Message:
    """`set_off`: a parser of calls alone leaves reasoning in the content, but knows the markers that set off the channels of an answer."""
    fmt = format_of(case)
    assert fmt is not None
    options: dict[str, Any] = {"tools": case["tools"], "prompt": case.get("generation_prompt") or ""}
    if case["kind"] == "tool" and not set_off:
        options["reasoning"] = None
    elif case["kind"] == "reasoning":
        known = REASONING[case["format"]]
        opened = case["options"]["force_reasoning"] if "force_reasoning" in case["options"] else known.get("opened")
        if opened and fmt.reasoning is not None:
            options["prompt"] = fmt.reasoning.pairs[0][0]
        options["tools"] = None if calls_follow(case) else []
    text = case["raw_text"]
    events = feed(fmt.parser(**options, id_factory=str), (text[at : at + size] for at in range(0, len(text), size)))
    message = check_stream(events, len(text))
    if set_off:
        texts = [event.text for event in events if isinstance(event, (Content, Reasoning))]
        message.content, message.reasoning = "".join(texts), None
    return message


def calls_follow(case: dict[str, Any]) -> bool:
    """These parsers of reasoning leave calls in the content."""
    fmt = format_of(case)
    return fmt is not None and any(opener in (case["expected"]["content"] or "") for opener in openers(fmt))


def differences(case: dict[str, Any], message: Message) -> list[str]:
    wanted, how, found = case["expected"], case["compare"], []
    for part in ("reasoning", "content"):
        if part not in case["check"] or (part == "content" and case["kind"] == "reasoning" and calls_follow(case)):
            continue
        ours, theirs = (
            text.strip() if how == "strip" else text for text in (getattr(message, part) or "", wanted[part] or "")
        )
        if ours != theirs:
            found.append(f"{part} {ours!r}, not {theirs!r}")
    if "tool_calls" in case["check"]:
        calls = [{"name": call.name, "arguments": value_of(call.arguments)} for call in message.tool_calls]
        expected = [{"name": call["name"], "arguments": call["arguments"]} for call in wanted["tool_calls"]]
        if calls != expected:
            found.append(f"calls {calls}, not {expected}")
        for ours, theirs in zip(message.tool_calls, wanted["tool_calls"], strict=False):
            if theirs.get("id_in_wire") and ours.id != theirs["id_in_wire"]:
                found.append(f"id {ours.id!r}, not {theirs['id_in_wire']!r}")
    return found


def value_of(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{fmt.name} {case['id']}") for case in load() if (fmt := format_of(case)) is not None],
)
def test_case(case: dict[str, Any]) -> None:
    found = differences(case, read(case, 1))
    assert found == differences(case, read(case, 10_000))
    style = fmt.reasoning if (fmt := format_of(case)) is not None else None
    if found and case["kind"] == "tool" and style is not None and style.wraps:
        found = differences(case, read(case, 1, set_off=True))
    if case["id"] in EXCEPTIONS:
        assert found, "narrows agrees now: remove the exception"
        return
    assert not found, case["raw_text"]


def test_exceptions_are_of_cases() -> None:
    assert not EXCEPTIONS.keys() - {case["id"] for case in load()}
    assert all(EXCEPTIONS.values())
