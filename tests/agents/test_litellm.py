"""litellm, by its prefix for OpenAI's servers and by the one for vLLM's: completions, streams, tools, shapes, Responses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import litellm
import pytest
from agent_tools import QUESTION, get_weather
from conftest import Narrows, Outcome, parameters
from pydantic import BaseModel, Field
from records import FORECAST, TOOLS, Expected, Record, judge

# Pydantic warns of litellm's types, and litellm keeps its connections.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("UserWarning", "DeprecationWarning", "ResourceWarning")
]
PREFIXES = ("openai", "hosted_vllm")
TEXT, SHAPED = 40, 120
"""max_tokens of a text, and of an answer that is held to a schema."""
DONE = ("completed",)
WEATHER = {"name": "get_weather", "description": get_weather.__doc__, "parameters": TOOLS["get_weather"]}
CALLING: dict[str, Any] = {"tools": [{"type": "function", "function": WEATHER}], "tool_choice": "required"}
RESPONSES_CALLING: dict[str, Any] = {
    "tools": [{"type": "function", **WEATHER, "strict": True}],
    "tool_choice": "required",
}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "forecast", "strict": True, "schema": FORECAST}}
TEXT_FORMAT = {"format": {"type": "json_schema", "name": "forecast", "strict": True, "schema": FORECAST}}


class Forecast(BaseModel):
    city: str = Field(max_length=30)
    celsius: int = Field(ge=-60, le=60)
    sky: Literal["clear", "cloudy", "rain"]


def completion(at: dict[str, Any], **more: Any) -> Record:
    messages = [{"role": "user", "content": QUESTION}]
    return of_completion(litellm.completion(**at, messages=messages, **({"max_tokens": TEXT} | more)))


def of_completion(made: Any) -> Record:
    [choice] = made.choices
    calls = [
        {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
        for call in choice.message.tool_calls or ()
    ]
    usage = [made.usage.prompt_tokens, made.usage.completion_tokens]
    return {"text": choice.message.content, "calls": calls, "finish": choice.finish_reason, "usage": usage}


def streamed(at: dict[str, Any], **more: Any) -> Record:
    """The pieces, and what litellm itself builds of them."""
    options = {"max_tokens": TEXT, "stream_options": {"include_usage": True}} | more
    messages = [{"role": "user", "content": QUESTION}]
    chunks = list(litellm.completion(**at, messages=messages, stream=True, **options))
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    arguments: dict[int, list[str]] = {}
    for chunk in chunks:
        for call in (chunk.choices[0].delta.tool_calls or ()) if chunk.choices else ():
            arguments.setdefault(call.index, []).append(call.function.arguments or "")
    return {
        **of_completion(litellm.stream_chunk_builder(chunks)),
        "pieces": pieces,
        "argumentPieces": [*arguments.values()],
    }


def response(at: dict[str, Any], **more: Any) -> Record:
    return of_response(litellm.responses(**at, input=QUESTION, **({"max_output_tokens": TEXT} | more)))


def of_response(made: Any) -> Record:
    calls = [
        {"id": item.call_id, "name": item.name, "arguments": item.arguments}
        for item in made.output
        if item.type == "function_call"
    ]
    text = "".join(part.text for item in made.output if item.type == "message" for part in item.content)
    finish = made.incomplete_details.reason if made.incomplete_details else made.status
    return {
        "text": text,
        "calls": calls,
        "finish": finish,
        "usage": [made.usage.input_tokens, made.usage.output_tokens],
    }


def response_streamed(at: dict[str, Any], **more: Any) -> Record:
    events = list(litellm.responses(**at, input=QUESTION, stream=True, **({"max_output_tokens": TEXT} | more)))
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    arguments = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    made = of_response(events[-1].response)
    return {**made, "pieces": pieces, "argumentPieces": [arguments] if arguments else []}


def response_answered(at: dict[str, Any]) -> Record:
    """The result of a call, by the id of the response that made it, which litellm wraps."""
    called = litellm.responses(
        **at, input=QUESTION, max_output_tokens=SHAPED, parallel_tool_calls=False, **RESPONSES_CALLING
    )
    calls = of_response(called)["calls"]
    result = {"type": "function_call_output", "call_id": calls[0]["id"], "output": get_weather("Paris")}
    made = litellm.responses(**at, input=[result], previous_response_id=called.id, max_output_tokens=TEXT)
    return {**of_response(made), "calls": calls, "steps": 2}


def conversation(at: dict[str, Any]) -> Record:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    called = litellm.completion(**at, messages=messages, max_tokens=SHAPED, **CALLING)
    message = called.choices[0].message
    messages += [message]
    messages += [
        {"role": "tool", "tool_call_id": call.id, "content": get_weather("Paris")} for call in message.tool_calls
    ]
    made = of_completion(
        litellm.completion(**at, messages=messages, max_tokens=TEXT, tools=CALLING["tools"], tool_choice="none")
    )
    return {**made, "calls": of_completion(called)["calls"], "steps": 2}


SCENARIOS: dict[str, tuple[Callable[[dict[str, Any]], Record], Expected]] = {
    "completion": (completion, Expected()),
    "completion-streamed": (streamed, Expected(streamed=True)),
    "tools": (lambda at: completion(at, max_tokens=SHAPED, **CALLING), Expected(("tool_calls",), calls=True)),
    "tools-streamed": (
        lambda at: streamed(at, max_tokens=SHAPED, **CALLING),
        Expected(("tool_calls",), calls=True, streamed=True),
    ),
    "tools-answered": (conversation, Expected(calls=True, steps=2)),
    "response-format": (
        lambda at: completion(at, max_tokens=SHAPED, response_format=JSON_SCHEMA),
        Expected(schema=FORECAST),
    ),
    "response-format-model": (
        lambda at: completion(at, max_tokens=SHAPED, response_format=Forecast),
        Expected(schema=FORECAST),
    ),
    "response-format-streamed": (
        lambda at: streamed(at, max_tokens=SHAPED, response_format=Forecast),
        Expected(schema=FORECAST, streamed=True),
    ),
    "responses": (response, Expected(DONE)),
    "responses-streamed": (response_streamed, Expected(DONE, streamed=True)),
    "responses-tools": (
        lambda at: response(at, max_output_tokens=SHAPED, **RESPONSES_CALLING),
        Expected(DONE, calls=True),
    ),
    "responses-tools-streamed": (
        lambda at: response_streamed(at, max_output_tokens=SHAPED, parallel_tool_calls=False, **RESPONSES_CALLING),
        Expected(DONE, calls=True, streamed=True),
    ),
    "responses-text-format": (
        lambda at: response(at, max_output_tokens=SHAPED, text=TEXT_FORMAT),
        Expected(DONE, schema=FORECAST),
    ),
    "responses-answered": (response_answered, Expected(DONE, calls=True, steps=2)),
}


@dataclass(frozen=True)
class Case:
    prefix: str
    scenario: str


CASES = {f"{prefix}-{name}": Case(prefix, name) for prefix in PREFIXES for name in SCENARIOS}


def ask(narrows: Narrows, case: Case) -> Record:
    at = {
        "model": f"{case.prefix}/{narrows.model}",
        "api_base": narrows.base_url,
        "api_key": "none",
        "temperature": 0,
        "num_retries": 0,
    }
    run, _ = SCENARIOS[case.scenario]
    return run(at)


@pytest.mark.parametrize("case", parameters(CASES, "hosted_vllm-tools-streamed", "openai-responses-answered"))
def test_what_it_gives(case: Case, outcome: Outcome, note: Callable[..., None]) -> None:
    if isinstance(outcome.value, Exception):
        raise outcome.value
    note(f"litellm, {case.prefix}", judge(outcome.value, SCENARIOS[case.scenario][1]), outcome.seconds)
