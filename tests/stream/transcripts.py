"""Cases of the wire formats, and the ways of feeding them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows import formats
from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.stream import Message, StreamParser, collect

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parents[1] / "cases" / "formats"
TOOLS: list[dict[str, Any]] = json.loads((CASES / "tools.json").read_text(encoding="utf-8"))
SCHEMAS = {tool["function"]["name"]: tool["function"].get("parameters") for tool in TOOLS}


@dataclass(frozen=True)
class Case:
    format: str
    name: str
    text: str
    options: dict[str, Any]
    message: dict[str, Any]

    @property
    def fmt(self) -> formats.Format:
        return formats.get(self.format)

    def parser(self, **more: Any) -> StreamParser:
        return self.fmt.parser(**{"id_factory": lambda index: f"id{index}", **self.options, **more})

    def parse(self) -> Message:
        return self.fmt.parse(self.text, id_factory=lambda index: f"id{index}", **self.options)

    def __str__(self) -> str:
        return f"{self.format}: {self.name}"


def load() -> list[Case]:
    cases = []
    for name in formats.names():
        for entry in tomllib.loads((CASES / f"{name}.toml").read_text(encoding="utf-8"))["case"]:
            options = {key: entry[key] for key in ("prompt", "parallel", "tool_choice") if key in entry}
            options["tools"] = {True: TOOLS, False: None, "none": []}[entry.get("tools", True)]
            if "reasoning" in entry:
                options["reasoning"] = None if entry["reasoning"] == "none" else entry["reasoning"]
            text = entry["text"]
            cases.append(Case(name, entry["name"], text, options, entry.get("message", {})))
    return cases


def feed(parser: StreamParser, pieces: list[str]) -> list[Event]:
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
    return events + parser.finish()


def splits(text: str, cuts: list[int]) -> list[str]:
    ends = [*sorted(cuts), len(text)]
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def check_stream(events: list[Event], length: int) -> Message:
    """What holds of every stream: spans in order and within the text; a call starts, then has arguments, then ends; no empty pieces."""
    last = 0
    index = 0
    is_open = False
    for event in events:
        begin, end = event.span
        assert last <= begin <= end <= length, (event, last, length)
        last = end
        if isinstance(event, (Content, Reasoning)):
            assert event.text
            assert not is_open
        elif isinstance(event, ToolCallStart):
            assert not is_open
            assert event.index == index
            assert event.name
            is_open = True
        elif isinstance(event, ToolCallArguments):
            assert event.text
            assert is_open
            assert event.index == index
        elif isinstance(event, ToolCallEnd):
            assert is_open
            assert event.index == index
            assert event.complete == (event.reason is None)
            is_open, index = False, index + 1
    assert not is_open
    message = collect(events)
    for call in message.tool_calls:
        if call.complete:
            assert isinstance(json.loads(call.arguments), dict), call
    return message
