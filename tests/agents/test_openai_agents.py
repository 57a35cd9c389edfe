"""OpenAI's Agents SDK through Responses, which is its default, and through chat completions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import agent_tools
import pytest
from agent_tools import QUESTION, TOKENS
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
)
from agents.exceptions import ModelBehaviorError
from agents.items import ToolCallItem, ToolCallOutputItem
from checking import Verdict
from clients_here import SECONDS
from conftest import Narrows, Outcome, parameters
from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from records import FORECAST, Expected, Record, judge

MODELS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}
HOUSE = [function_tool(agent_tools.thermostat)]
# Its traces would go to OpenAI.
QUIET = RunConfig(tracing_disabled=True)


class Forecast(BaseModel):
    city: str = Field(max_length=30)
    celsius: int = Field(ge=-60, le=60)
    sky: Literal["clear", "cloudy", "rain"]


@dataclass(frozen=True)
class Case:
    api: str
    options: dict[str, Any]
    expected: Expected
    stream: bool = False
    choice: str | None = None


# A run has no finish reason, and a stream of chat completions has no usage unless it is asked for.
ENDED = (None,)
SCENARIOS: dict[str, Any] = {
    "text": {"options": {}, "expected": Expected(ENDED)},
    "text-streamed": {"options": {}, "expected": Expected(ENDED, streamed=True, usage=False), "stream": True},
    # The tool's choice holds for the first answer; then the model is free.
    "tools": {"options": {"tools": HOUSE}, "expected": Expected(ENDED, calls=True, steps=2), "choice": "required"},
    "tools-streamed": {
        "options": {"tools": HOUSE},
        "expected": Expected(ENDED, calls=True, steps=2, usage=False),
        "choice": "required",
        "stream": True,
    },
    "stop-on-tool": {
        "options": {"tools": HOUSE, "tool_use_behavior": "stop_on_first_tool"},
        "expected": Expected(ENDED, calls=True),
        "choice": "thermostat",
    },
    "output-type": {"options": {"output_type": Forecast}, "expected": Expected(ENDED, schema=FORECAST)},
    "output-type-streamed": {
        "options": {"output_type": Forecast},
        "expected": Expected(ENDED, schema=FORECAST, usage=False),
        "stream": True,
    },
}
CASES = {f"{api}-{name}": Case(api, **options) for api in MODELS for name, options in SCENARIOS.items()}


def ask(narrows: Narrows, case: Case) -> Record:
    async def run() -> Record:
        async with AsyncOpenAI(base_url=narrows.base_url, api_key="none", max_retries=0, timeout=SECONDS) as client:
            agent: Any = Agent(
                name="helper",
                model=MODELS[case.api](narrows.model, client),  # type: ignore[abstract]
                model_settings=ModelSettings(max_tokens=TOKENS, temperature=0, tool_choice=case.choice),
                **case.options,
            )
            if not case.stream:
                return of_run(await Runner.run(agent, QUESTION, max_turns=4, run_config=QUIET))
            streamed = Runner.run_streamed(agent, QUESTION, max_turns=4, run_config=QUIET)
            pieces = [
                event.data.delta
                async for event in streamed.stream_events()
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
            ]
            return {**of_run(streamed), "pieces": pieces}

    return asyncio.run(run())


def of_run(result: Any) -> Record:
    calls = [item.raw_item for item in result.new_items if isinstance(item, ToolCallItem)]
    outputs = [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    usage = result.context_wrapper.usage
    output = result.final_output
    return {
        "text": output if isinstance(output, str) else json.dumps(output.model_dump()),
        "calls": [{"id": call.call_id, "name": call.name, "arguments": call.arguments} for call in calls],
        "results": outputs,
        "finish": None,
        "steps": len(result.raw_responses),
        "usage": [usage.input_tokens, usage.output_tokens],
    }


@pytest.mark.parametrize("case", parameters(CASES, "responses-tools-streamed", "chat-output-type"))
def test_what_it_gives(case: Case, outcome: Outcome, note: Callable[..., None]) -> None:
    note(f"openai-agents, {case.api}", judged(case, outcome.value), outcome.seconds)


def judged(case: Case, result: Any) -> Verdict:
    if isinstance(result, ModelBehaviorError) and "max_output_tokens" in str(result):
        return Verdict("length")
    if isinstance(result, Exception):
        raise result
    return judge(result, case.expected)
