"""Raw outputs from other projects' suites, with what those expect. Where narrows disagrees, exceptions.toml says why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from narrows import formats
from narrows.stream import collect

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parents[3] / "shared" / "cases"
OURS = Path(__file__).parents[1] / "cases" / "formats"
EXCEPTIONS: dict[str, str] = tomllib.loads((OURS / "exceptions.toml").read_text(encoding="utf-8"))
STYLES = {
    "qwen3": "think",
    "deepseek_r1": "think_open",
    "deepseek-r1": "think_open",
    "step3p5": "think_open",
    "holo2": "think_open",
}


def load() -> list[Any]:
    if not CASES.is_dir():
        return []
    found = []
    for file in ("tools_vllm_sample.json", "tools_sglang.json", "reasoning_sample.json"):
        for case in json.loads((CASES / file).read_text(encoding="utf-8")):
            if case["canonical_format"] in formats.names() or case["format"] in STYLES:
                found.append(pytest.param(case, id=case["id"]))
    return found


def text_of(value: str | None, how: str) -> str:
    return (value or "").strip() if how == "strip" else value or ""


@pytest.mark.skipif(not CASES.is_dir(), reason="the third-party cases are not here")
@pytest.mark.parametrize("case", load())
@pytest.mark.parametrize("size", [1, 10_000])
def test_case(case: dict[str, Any], size: int) -> None:
    if case["kind"] == "reasoning":
        fmt = formats.get("qwen3_xml" if case["format"] == "step3p5" else "hermes_json")
        style = "think_open" if case["options"].get("force_reasoning") else STYLES[case["format"]]
        options: dict[str, Any] = {"reasoning": style, "tools": []}
    else:
        fmt = formats.get(case["canonical_format"])
        options = {"reasoning": None if case["kind"] == "tool" else "auto", "tools": case["tools"]}
    if case.get("generation_prompt"):
        options["prompt"] = case["generation_prompt"]
    parser = fmt.parser(**options)
    text = case["raw_text"]
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    message = collect(events + parser.finish())
    wanted, how = case["expected"], case["compare"]
    problems = []
    if "reasoning" in case["check"] and text_of(message.reasoning, how) != text_of(wanted["reasoning"], how):
        problems.append(f"reasoning {message.reasoning!r}, not {wanted['reasoning']!r}")
    if "content" in case["check"] and text_of(message.content, how) != text_of(wanted["content"], how):
        problems.append(f"content {message.content!r}, not {wanted['content']!r}")
    if "tool_calls" in case["check"]:
        calls = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in message.tool_calls]
        expected = [{"name": call["name"], "arguments": call["arguments"]} for call in wanted["tool_calls"]]
        if calls != expected:
            problems.append(f"calls {calls}, not {expected}")
    if case["id"] in EXCEPTIONS:
        assert problems, "narrows agrees now: remove the exception"
        return
    assert not problems
