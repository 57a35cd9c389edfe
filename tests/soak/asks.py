"""The requests of the soak's well-behaved clients, by class. Each request checks its own answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import jsonschema_rs

SCHEMAS: dict[str, Any] = {
    case["name"]: case["schema"]
    for path in sorted((Path(__file__).parents[2] / "bench" / "schemas").glob("*.json"))
    for case in json.loads(path.read_text())
}
TOPICS = "rivers, old clocks, bread, the moon, bicycles, glass, the sea in winter, maps, tea, honey, bridges, lighthouses".split(
    ", "
)
CITIES = "Paris, Lima, Oslo, Nairobi, Quito, Hanoi, Perth, Cork".split(", ")


@dataclass
class Answer:
    """One request's complete answer."""

    text: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict)
    """By index: id, name, arguments as text."""
    finish: str = ""
    tokens: int = 0


@dataclass(frozen=True)
class Ask:
    path: str
    body: dict[str, Any]
    check: Callable[[Answer], str]
    """Returns "valid", or "length" where the token budget cut the answer. Any other text tells what is wrong."""


def chat(rng: Random, text: str, check: Callable[[Answer], str], **fields: Any) -> Ask:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": rng.randint(60, 200), "temperature": 0.8}
    return Ask("/v1/chat/completions", body | fields, check)


def prose(answer: Answer) -> str:
    if answer.finish == "length":
        return "length"
    return "valid" if answer.finish == "stop" and not answer.calls else f"a free answer that ended by {answer.finish!r}"


def free(rng: Random) -> Ask:
    return chat(rng, f"Write some short paragraphs about {rng.choice(TOPICS)} and {rng.choice(TOPICS)}.", prose)


def completion(rng: Random) -> Ask:
    text = f"Notes on {rng.choice(TOPICS)}, {rng.choice(TOPICS)} and {rng.choice(TOPICS)}.\n\nFirst,"
    return Ask("/v1/completions", {"prompt": text, "max_tokens": rng.randint(60, 200), "temperature": 0.8}, prose)


def valid_for(schema: Any) -> Callable[[Answer], str]:
    validator = jsonschema_rs.Draft202012Validator(schema)

    def check(answer: Answer) -> str:
        if answer.finish == "length":
            return "length"
        try:
            value = json.loads(answer.text)
        except ValueError:
            return f"no JSON ({answer.finish}): {answer.text[:200]!r}"
        return "valid" if validator.is_valid(value) else f"not valid for its schema: {answer.text[:200]!r}"

    return check


def of_schema(*names: str) -> Callable[[Random], Ask]:
    checks = {name: valid_for(SCHEMAS[name]) for name in names}

    def ask(rng: Random) -> Ask:
        name = rng.choice(names)
        schema = {"name": name, "schema": SCHEMAS[name], "strict": True}
        response_format = {"type": "json_schema", "json_schema": schema}
        text = f"Answer with a JSON object for {name}: something about {rng.choice(TOPICS)} in {rng.choice(CITIES)}."
        return chat(rng, text, checks[name], response_format=response_format)

    return ask


TOOLS = ("get_weather", "set_timer", "convert_currency", "create_issue", "add_to_cart")
ARGUMENTS = {name: jsonschema_rs.Draft202012Validator(SCHEMAS[name]) for name in TOOLS}


def calls_hold(answer: Answer) -> str:
    """Checks that every call has a known name and valid arguments. The last call may be cut with the answer."""
    for at, (index, (_, name, arguments)) in enumerate(sorted(answer.calls.items())):
        if index != at:
            return f"call {at} has the index {index}"
        try:
            if name in ARGUMENTS and ARGUMENTS[name].is_valid(json.loads(arguments)):
                continue
        except ValueError:
            pass
        if answer.finish != "length" or at != len(answer.calls) - 1:
            return f"a wrong call ({answer.finish}): {name!r} {arguments[:200]!r}"
    return "length" if answer.finish == "length" else "valid"


def required_call(answer: Answer) -> str:
    if answer.finish != "length" and not answer.calls:
        return f"no call, though one was required ({answer.finish}): {answer.text[:200]!r}"
    return calls_hold(answer)


def with_tools(choice: str) -> Callable[[Random], Ask]:
    tools = [
        {"type": "function", "function": {"name": name, "parameters": SCHEMAS[name], "strict": True}} for name in TOOLS
    ]
    check = required_call if choice == "required" else calls_hold
    # A second call that begins like the first is held back until it differs, which makes a gap on purpose.
    most = 1 if choice == "required" else 2

    def ask(rng: Random) -> Ask:
        offered = rng.sample(tools, 2)
        text = f"What is the weather in {rng.choice(CITIES)}? I like {rng.choice(TOPICS)}."
        return chat(rng, text, check, tools=offered, tool_choice=choice, max_tool_calls=most)

    return ask


def second_turn(rng: Random, first: Ask, answer: Answer) -> Ask:
    """The same conversation with the results of the calls, for an answer in prose."""
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in answer.calls.values()
    ]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": '{"sky": "clear", "celsius": 21}'} for call in calls
    ]
    messages = [*first.body["messages"], {"role": "assistant", "content": None, "tool_calls": calls}, *results]
    body = first.body | {"messages": messages, "tool_choice": "none", "max_tokens": rng.randint(60, 120)}
    return Ask(first.path, body, prose)


def seeded(constrained: bool) -> Callable[[Random], Ask]:
    """The same request again and again. One seed must give one answer, whatever else is in the batch."""
    seen: dict[str, str] = {}
    schema = SCHEMAS["container_spec"]
    constraint = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "c", "schema": schema, "strict": True}}
    }

    def check(answer: Answer) -> str:
        if seen.setdefault("text", answer.text) != answer.text:
            return f"the same seed gave another answer: {seen['text'][:200]!r}, then {answer.text[:200]!r}"
        return prose(answer) if not constrained or answer.finish == "length" else valid_for(schema)(answer)

    def ask(rng: Random) -> Ask:
        fields = {"seed": 7, "max_tokens": 120, **(constraint if constrained else {})}
        return chat(rng, "Describe a container that runs a web server.", check, **fields)

    return ask


CLASSES: dict[str, list[Callable[[Random], Ask]]] = {
    "free": [free, free, free],
    "completion": [completion],
    "schema, small": [of_schema("set_timer", "convert_currency", "get_weather")] * 2,
    "schema, medium": [of_schema("sentiment", "create_calendar_event", "person")] * 2,
    "schema, large": [of_schema("invoice", "many_optional", "action_union")],
    "schema, recursive": [of_schema("tree", "expression")],
    "tools, auto": [with_tools("auto")],
    "tools, required": [with_tools("required")] * 2,
    "two turns": [with_tools("required")],
    "seeded": [seeded(False), seeded(True)],
}
"""16 streams. Each sends its next request as soon as its answer is read."""
