"""Streamed requests of several kinds to a narrows server that stands before another engine, and what is wrong with each
answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import jsonschema_rs

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 12},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}
NOTE = {
    "type": "object",
    "properties": {"lines": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 2}},
    "required": ["lines"],
    "additionalProperties": False,
}
SCHEMAS: dict[str, Any] = {"get_weather": WEATHER, "take_note": NOTE}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": schema}}
    for name, schema in SCHEMAS.items()
]
PRICE = "(cheap|dear), [0-9]{1,3} (€|£|🦩)"


@dataclass
class Answer:
    content: str = ""
    calls: list[list[str]] = field(default_factory=list)
    """Names and arguments."""
    finish: str | None = None
    error: dict[str, Any] | None = None
    done: bool = False
    """Whether the stream had its last event."""


def stream(url: str, body: dict[str, Any], path: str = "/v1/chat/completions") -> Answer:
    """The answer to a streamed request."""
    answer = Answer()
    with httpx.stream("POST", url + path, json={**body, "stream": True}, timeout=200) as reply:
        if reply.status_code != 200:
            answer.error = json.loads(reply.read())["error"]
            return answer
        for line in reply.iter_lines():
            if line == "data: [DONE]":
                answer.done = True
            elif line.startswith("data: "):
                _add(answer, json.loads(line[6:]))
    return answer


def _add(answer: Answer, event: dict[str, Any]) -> None:
    if "error" in event:
        answer.error = event["error"]
        return
    for choice in event["choices"]:
        assert answer.finish is None, "an event after the last"
        delta = choice.get("delta") or {"content": choice.get("text")}
        answer.content += delta.get("content") or ""
        for call in delta.get("tool_calls") or ():
            if call.get("id"):
                answer.calls.append([call["function"]["name"], ""])
            answer.calls[call["index"]][1] += call["function"].get("arguments") or ""
        answer.finish = choice["finish_reason"]


def _ask(text: str, seed: int, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "seed": seed, "max_tokens": 80, **more}


def _called(answer: Answer, name: str | None = None) -> str | None:
    for called, arguments in answer.calls:
        if name is not None and called != name:
            return f"it called {called}"
        try:
            jsonschema_rs.validator_for(SCHEMAS[called]).validate(json.loads(arguments))
        except (ValueError, KeyError) as error:
            return f"{called}({arguments}): {error}"
    return None


def _required(seed: int) -> tuple[dict[str, Any], str, Callable[[Answer], str | None]]:
    def wrong(answer: Answer) -> str | None:
        return "no call" if not answer.calls or answer.content.strip() else _called(answer)

    body = _ask("What is the weather in Rome?", seed, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    return body, "tool_calls", wrong


def _named(seed: int) -> tuple[dict[str, Any], str, Callable[[Answer], str | None]]:
    choice = {"type": "function", "function": {"name": "take_note"}}
    body = _ask("Note this.", seed, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
    return body, "stop", lambda answer: _called(answer, "take_note")


def _auto(seed: int) -> tuple[dict[str, Any], str, Callable[[Answer], str | None]]:
    return _ask("Say hello to Rome.", seed, tools=TOOLS, temperature=1.2), "", _called


def _schema(seed: int) -> tuple[dict[str, Any], str, Callable[[Answer], str | None]]:
    def wrong(answer: Answer) -> str | None:
        try:
            jsonschema_rs.validator_for(WEATHER).validate(json.loads(answer.content))
        except ValueError as error:
            return f"{answer.content!r}: {error}"
        return None

    wanted = {"type": "json_schema", "json_schema": {"name": "w", "strict": True, "schema": WEATHER}}
    return _ask("The weather in Oslo, as JSON.", seed, response_format=wanted), "stop", wrong


def _regex(seed: int) -> tuple[dict[str, Any], str, Callable[[Answer], str | None]]:
    def wrong(answer: Answer) -> str | None:
        return None if re.fullmatch(PRICE, answer.content) else repr(answer.content)

    return _ask("Is it dear?", seed, structured_outputs={"regex": PRICE}, temperature=1.5), "stop", wrong


def _choice(seed: int) -> tuple[dict[str, Any], str, Callable[[Answer], str | None]]:
    options = ["yes, of course", "no", "perhaps «never»"]

    def wrong(answer: Answer) -> str | None:
        return None if answer.content in options else repr(answer.content)

    return _ask("Is it?", seed, structured_outputs={"choice": options}, temperature=1.5), "stop", wrong


def _plain(seed: int) -> tuple[dict[str, Any], str, Callable[[Answer], str | None]]:
    def wrong(answer: Answer) -> str | None:
        return repr(answer.content) if "e " in answer.content or "<|" in answer.content else None

    return _ask("Tell me a story.", seed, stop=["e "], max_tokens=30), "", wrong


KINDS = (_required, _schema, _regex, _auto, _named, _choice, _plain)


def wrong_of(url: str, number: int) -> str | None:
    """What is wrong with the answer to streamed request `number`. None: nothing."""
    kind = KINDS[number % len(KINDS)]
    body, finish, wrong = kind(number)
    answer = stream(url, body)
    if answer.error is not None or not answer.done:
        found: str | None = f"{answer.error}, done: {answer.done}"
    elif answer.finish == "length":
        found = None  # it was cut: the text is a beginning, which the engine has checked
    elif answer.finish != finish and (finish or answer.finish not in ("stop", "tool_calls")):
        found = f"finish_reason {answer.finish}"
    else:
        found = wrong(answer)
    return None if found is None else f"request {number} ({kind.__name__}): {found}"


def all_wrong(url: str, count: int, at_once: int = 2) -> Iterator[str]:
    """What is wrong with the answers to so many requests."""
    with ThreadPoolExecutor(at_once) as pool:
        for found in pool.map(lambda number: wrong_of(url, number), range(count)):
            if found is not None:
                yield found
