"""Cases of the wire formats, the ways of feeding them, and what the tests of every format need to know of it.

A format's cases lie in tests/cases/formats/NAME.toml; README.md there says how they are written. Nothing else has to be added for a
new format: the tests run over every name that `formats.names()` gives.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from narrows import formats
from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.formats.families import FAMILIES
from narrows.stream import Message, StreamParser, collect

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parents[1] / "cases" / "formats"
TOOLS: list[dict[str, Any]] = json.loads((CASES / "tools.json").read_text(encoding="utf-8"))
SCHEMAS = {tool["function"]["name"]: tool["function"].get("parameters") for tool in TOOLS}
NAMES = formats.names()
TURN = "<|im_start|>assistant\n"


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


@dataclass(frozen=True)
class Facts:
    """What holds of a format besides its definition; the `[harness]` table of its cases."""

    turn: str = TURN
    """What stands at the end of a prompt."""
    single: str = ""
    """Why an answer holds one call at most."""
    without: tuple[tuple[str, str], ...] = ()
    """(kind of case, why there is none)."""


@cache
def _file(name: str) -> dict[str, Any]:
    path = CASES / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


@cache
def facts(name: str) -> Facts:
    table = dict(_file(name).get("harness", {}))
    return Facts(without=tuple(table.pop("without", {}).items()), **table)


@cache
def cases_of(name: str) -> tuple[Case, ...]:
    cases = []
    for entry in _file(name).get("case", ()):
        options = {key: entry[key] for key in ("prompt", "parallel", "tool_choice") if key in entry}
        options["tools"] = {True: TOOLS, False: None, "none": []}[entry.get("tools", True)]
        if "reasoning" in entry:
            options["reasoning"] = None if entry["reasoning"] == "none" else entry["reasoning"]
        cases.append(Case(name, entry["name"], entry["text"], options, entry.get("message", {})))
    return tuple(cases)


def load() -> list[Case]:
    return [case for name in NAMES for case in cases_of(name)]


@contextmanager
def naming(thing: object) -> Iterator[None]:
    """Failures within say what they are about."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{thing}: {error}") from error


def passes_through(fmt: formats.Format) -> bool:
    """Arguments are the model's own characters: the JSON families."""
    families = {kind: family for family, kind in FAMILIES.items()}
    return all(families[type(shape)].startswith("json") for shape in fmt.calls)


def rewrites(fmt: formats.Format) -> bool:
    """Text comes as a JSON string, whose escapes are read."""
    return any(shape.render_text("") is not None for shape in fmt.calls)


def openers(fmt: formats.Format, at_start: bool = False) -> list[str]:
    return [opener.marker for opener in fmt.openers() if opener.at_start == at_start]


def like_tokens(markers: Iterable[str]) -> list[str]:
    """Those markers that a tokenizer may well have as one special token: tags without attributes."""
    return [m for m in markers if m[0] in "<[" and m[-1] in ">]" and not set(m) & set('="\n ')]


def begins_in_a_marker(case: Case) -> bool:
    """The prompt ends within a marker, so that it is no token of these models."""
    prompt = case.options.get("prompt", "")
    return any(prompt.endswith(marker[:-1]) for marker in like_tokens(case.fmt.markers(case.fmt.reasoning)))


def pieces_of(fmt: formats.Format) -> list[str]:
    """Text that is hostile to this format: its markers, halves of them, and what stands around values."""
    markers = fmt.markers(fmt.reasoning)
    found = [*markers, *(m[:-1] for m in markers), *("\n" + m for m in markers), *(m[: len(m) // 2] for m in markers)]
    found += [
        *"{}[]()<>:,=\"'\\ \n",
        '": ',
        ", ",
        "}}",
        "\n\n",
        '\\"',
        "\\u00e9",
        *"null nul true the 12 -0 é 🌦".split(),
    ]
    return sorted({piece for piece in found if piece})


def feed(parser: StreamParser, pieces: Iterable[str]) -> list[Event]:
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
