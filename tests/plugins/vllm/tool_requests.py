"""200 requests with tools per wire format, and what the answer to each must be, read from the model's own text.

A small model seldom calls a tool by itself, so a grammar makes it: half of the requests use `tool_choice`, the others bring a grammar in which free
text, calls and markers stand in a fixed order, and the model fills in the rest. What a call says is then read from the raw text with the plain
patterns below, which share nothing with any parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from client import Answer

CITIES = [
    "Paris",
    "Lima",
    "Oslo",
    "Rome",
    "Cairo",
    "Quito",
    "Accra",
    "Delhi",
    "Kyoto",
    "Perth",
    "Turin",
    "Miami",
    "Minsk",
]
CITIES += ["Lyon", "Graz", "Bonn", "Baku", "Riga", "Doha", "Bern", "Nice", "Pisa", "Linz", "Cork", "Split"]


def tool(name: str, field_name: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {field_name: {"type": "string", "maxLength": 12}},
        "required": [field_name],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


WEATHER = tool("get_weather", "city")
TIME = tool("get_time", "place")


@dataclass(frozen=True, slots=True)
class Written:
    """A call in a raw text: from `begin` to `end`."""

    name: str
    arguments: Any
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Wire:
    """How a format writes a call of get_weather, before and after the city; and how any call is found in a raw text."""

    before: str
    after: str
    read: Callable[[str], list[Written]]
    markers: tuple[str, ...]
    """Those that the model's folder has as tokens."""
    tokens_before: int
    """How many tokens `before` has at least."""


_JSON = json.JSONDecoder()


def _hermes(raw: str) -> list[Written]:
    found = []
    for opener in re.finditer(r"<tool_call>\s*(?=\{\s*\")", raw):
        call, end = _JSON.raw_decode(raw, opener.end())
        closer = re.compile(r"\s*</tool_call>").match(raw, end)
        assert closer
        found.append(Written(call["name"], call["arguments"], opener.start(), closer.end()))
    return found


def _qwen3(raw: str) -> list[Written]:
    pattern = r"<tool_call>\s*<function=(\w+)>\s*<parameter=(\w+)>\n(.*?)\n</parameter>\s*</function>\s*</tool_call>"
    return [Written(m[1], {m[2]: m[3]}, m.start(), m.end()) for m in re.finditer(pattern, raw, re.DOTALL)]


def _mistral(raw: str) -> list[Written]:
    """Both of its spellings: name and arguments, or an array of calls."""
    found = []
    for opener in re.finditer(r"\[TOOL_CALLS\](?:(\w+)\[ARGS\])?\s*(?=[{[]\s*[\"{])", raw):
        value, end = _JSON.raw_decode(raw, opener.end())
        if opener[1]:
            found.append(Written(opener[1], value, opener.start(), end))
        else:
            found += [Written(call["name"], call["arguments"], opener.start(), end) for call in value]
    return found


WIRES = {
    "hermes_json": Wire(
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "',
        '"}}\n</tool_call>',
        _hermes,
        ("<tool_call>", "</tool_call>"),
        18,
    ),
    "qwen3_xml": Wire(
        "<tool_call>\n<function=get_weather>\n<parameter=city>\n",
        "\n</parameter>\n</function>\n</tool_call>",
        _qwen3,
        ("<tool_call>", "</tool_call>"),
        16,
    ),
    "mistral": Wire(
        '[TOOL_CALLS]get_weather[ARGS]{"city": "',
        '"}',
        _mistral,
        ("[TOOL_CALLS]", "[ARGS]"),
        10,
    ),
}

Check = Callable[[Answer, str], None]
"""Told the answer and the model's raw text."""


@dataclass(slots=True)
class Request:
    kind: str
    messages: list[dict[str, Any]]
    options: dict[str, Any]
    check: Check
    request_id: str = ""
    raw: str = field(default="", compare=False)


def _ask(city: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"What is the weather in {city}?"}]


def _read(wire: Wire, raw: str) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in wire.read(raw)]


def _calls(answer: Answer) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in answer.calls]


class Maker:
    """The requests of one format, for a model with these marker tokens (name to id)."""

    def __init__(self, format_name: str, tokens: dict[str, int]) -> None:
        self.format = format_name
        self.wire = WIRES[format_name]
        self.tokens = {name: tokens[name] for name in self.wire.markers}

    def all(self, count: int = 200) -> list[Request]:
        kinds = [self.required, self.named, self.text_call_text, self.two_calls, self.plain, self.spelled, self.cut]
        kinds.append(self.cut_after_text)
        made = []
        for number in range(count):
            request = kinds[number % len(kinds)](CITIES[number // len(kinds) % len(CITIES)])
            request.request_id = f"{self.format}-{number}"
            request.options = {"max_tokens": 140, "seed": number, **request.options}
            made.append(request)
        return made

    def required(self, city: str) -> Request:
        """What was read from the raw text, and nothing else."""

        def check(answer: Answer, raw: str) -> None:
            assert not answer.content.strip()
            if answer.finish_reason == "length":  # after the arguments: a model may write a long id of its own
                assert len(answer.calls) == 1
                return
            expected = _read(self.wire, raw)
            assert _calls(answer) == expected
            assert expected
            assert answer.finish_reason == "tool_calls"

        return Request(
            "required", _ask(city), {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}, check
        )

    def named(self, city: str) -> Request:
        def check(answer: Answer, raw: str) -> None:
            assert not answer.content.strip()
            assert [call.name for call in answer.calls] == ["get_time"]
            if answer.finish_reason != "length":
                assert _calls(answer) == _read(self.wire, raw)
                assert answer.finish_reason == "stop"  # OpenAI says so of a named function, and vLLM too

        chosen = {"type": "function", "function": {"name": "get_time"}}
        return Request(
            "named", _ask(city), {"tools": [WEATHER, TIME], "tool_choice": chosen, "parallel_tool_calls": False}, check
        )

    def text_call_text(self, city: str) -> Request:
        return self._in_order("text, call, text", city, "Let me see. ", f"{self._call('city')} ", "Done, ask again.")

    def two_calls(self, city: str) -> Request:
        return self._in_order(
            "two calls", city, "Both: ", f"{self._call('city')} {self._text(chr(10))} {self._call('city')} ", ""
        )

    def plain(self, city: str) -> Request:
        """Text that looks like the beginning of markup all along."""

        def check(answer: Answer, raw: str) -> None:
            assert not answer.calls
            assert answer.content == raw
            assert answer.finish_reason == "stop"

        text = "1 < 2, [x] and <tool are text [TOOL. So is </tool"
        return Request("plain", _ask(city), self._grammar(self._text(text) + " [a-z ]{4,12}"), check)

    def spelled(self, city: str) -> Request:
        """Every marker, spelled in ordinary tokens: once before the call and once inside its argument. It is text: the model has tokens for them."""
        names = " ".join(self.wire.markers)

        def check(answer: Answer, raw: str) -> None:
            before, _, rest = raw.partition(self.wire.before)
            assert answer.content.strip() == before.strip()
            assert _calls(answer) == [("get_weather", {"city": rest.removesuffix(self.wire.after)})]

        parts = f"{self._text(names + ': ')} {self._marked(self.wire.before)} [A-Z] [a-z]{{2,6}} {self._text(names)} {self._marked(self.wire.after)}"
        return Request("spelled markers", _ask(city), self._grammar(parts), check)

    def cut(self, city: str) -> Request:
        return self._cut("cut", city, "", {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False})

    def cut_after_text(self, city: str) -> Request:
        grammar = self._grammar(
            f"{self._text('Let me see. ')} {self._marked(self.wire.before)} [A-Za-z ,]{{60,80}} {self._marked(self.wire.after)}"
        )
        return self._cut("cut after text", city, "Let me see.", grammar)

    def _cut(self, kind: str, city: str, text: str, options: dict[str, Any]) -> Request:
        """The budget ends inside the call: what was written stays as it is. Before the arguments begin no call has begun, and the markup is text,
        but where a call was required: there it can be nothing else, and is left out."""
        required = options.get("tool_choice") == "required"

        def check(answer: Answer, raw: str) -> None:
            assert answer.finish_reason == "length"
            assert len(answer.calls) <= 1
            assert answer.content.strip() == (text if answer.calls or required else raw.strip())
            for call in answer.calls:
                assert call.name == "get_weather"
                assert not _is_json(call.arguments), f"made whole: {call.arguments}"

        budget = self.wire.tokens_before + (4 + 4 if text else 0)
        return Request(kind, _ask(city), {**options, "max_tokens": budget}, check)

    def _in_order(self, kind: str, city: str, before: str, calls: str, after: str) -> Request:
        def check(answer: Answer, raw: str) -> None:
            written = self.wire.read(raw)
            outside = raw[: written[0].begin] + raw[written[-1].end :]
            assert _calls(answer) == _read(self.wire, raw)
            assert "".join(answer.content.split()) == "".join(outside.split())
            assert answer.finish_reason == "tool_calls"

        return Request(kind, _ask(city), self._grammar(f"{self._text(before)} {calls} {self._text(after)}"), check)

    def _grammar(self, sequence: str) -> dict[str, Any]:
        grammar = f"root ::= {sequence}\ncity ::= [A-Z] [a-z]{{2,8}}"
        return {"tools": [WEATHER, TIME], "tool_choice": "auto", "structured_outputs": {"grammar": grammar}}

    def _call(self, rule: str) -> str:
        return f"{self._marked(self.wire.before)} {rule} {self._marked(self.wire.after)}"

    def _text(self, text: str) -> str:
        """A GBNF string: ordinary tokens, whatever it spells."""
        return json.dumps(text, ensure_ascii=False)

    def _marked(self, text: str) -> str:
        """A sequence in GBNF in which the markers are tokens."""
        parts = re.split("(" + "|".join(map(re.escape, self.tokens)) + ")", text)
        return " ".join(
            f"<[{self.tokens[part]}]>" if part in self.tokens else self._text(part) for part in parts if part
        )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
