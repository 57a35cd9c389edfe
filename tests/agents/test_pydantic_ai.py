"""pydantic-ai's agents come to an end, with tools and with each way to ask for a typed answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import agent_tools
import pytest
from agent_tools import MOST_STEPS, QUESTION, Forecast, judge_run
from checking import Verdict, failed
from clients_here import SECONDS
from conftest import Narrows, Outcome, parameters
from openai import AsyncOpenAI
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput, UsageLimits, capture_run_messages
from pydantic_ai.exceptions import IncompleteToolCall, UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

WEATHER: list[Any] = [agent_tools.get_weather, agent_tools.add]
HOUSE: list[Any] = [agent_tools.thermostat]
BOUND = UsageLimits(request_limit=MOST_STEPS)
LIMITED: dict[str, Any] = {"max_tokens": agent_tools.TOKENS, "temperature": 0}


@dataclass(frozen=True)
class Case:
    output: Any
    tools: list[Any]
    settings: dict[str, Any]
    stream: bool = False
    held: bool = True
    """False where the client keeps the schema to itself: the run has to end, whatever comes out."""


CASES = {
    "text": Case(str, WEATHER, LIMITED),
    "text-by-default": Case(str, HOUSE, {}),
    "text-streamed": Case(str, WEATHER, LIMITED, stream=True),
    "model": Case(Forecast, [], LIMITED),
    "model-by-default": Case(Forecast, [], {}),
    "model-and-tools": Case(Forecast, WEATHER, LIMITED),
    "model-streamed": Case(Forecast, [], LIMITED, stream=True),
    "model-or-text": Case([Forecast, str], WEATHER, LIMITED),
    "two-models": Case([ToolOutput(Forecast, name="forecast"), ToolOutput(int, name="number")], [], LIMITED),
    "native": Case(NativeOutput(Forecast), [], LIMITED),
    "native-by-default": Case(NativeOutput(Forecast), [], {}),
    "native-and-tools": Case(NativeOutput(Forecast), WEATHER, LIMITED),
    "prompted": Case(PromptedOutput(Forecast), [], LIMITED, held=False),
}


def ask(narrows: Narrows, case: Case) -> Any:
    async def run() -> Any:
        # A loop for each run, and so a client of its own.
        async with AsyncOpenAI(base_url=narrows.base_url, api_key="none", max_retries=0, timeout=SECONDS) as client:
            model = OpenAIChatModel(narrows.model, provider=OpenAIProvider(openai_client=client))
            agent: Any = Agent(model, output_type=case.output, tools=case.tools, model_settings=case.settings or None)  # type: ignore[arg-type]
            with capture_run_messages() as messages:
                try:
                    if not case.stream:
                        return Ended((await agent.run(QUESTION, usage_limits=BOUND)).output, messages)
                    async with agent.run_stream(QUESTION, usage_limits=BOUND) as result:
                        async for _ in result.stream_output():
                            pass
                        return Ended(await result.get_output(), messages)
                except UsageLimitExceeded:
                    return Ended(None, messages, stopped=True)

    return asyncio.run(run())


@dataclass
class Ended:
    """A run that came to its end, or to the bound on its steps (`stopped`)."""

    output: Any
    messages: list[Any]
    stopped: bool = False


@pytest.mark.parametrize("case", parameters(CASES, "model-streamed", "native-and-tools"))
def test_it_ends(case: Case, outcome: Outcome, note: Callable[..., None]) -> None:
    note("pydantic-ai", judged(case, outcome.value), outcome.seconds)


def judged(case: Case, result: Any) -> Verdict:
    if isinstance(result, IncompleteToolCall):
        return Verdict("length")
    if isinstance(result, UnexpectedModelBehavior) and not case.held:
        return Verdict("length", "not held to its schema by the client")
    if isinstance(result, Exception):
        return failed(f"{type(result).__name__}: {result}; {result.__cause__!r}")
    answers = [message for message in result.messages if isinstance(message, ModelResponse)]
    steps = [
        [(part.tool_name, part.args) for part in answer.parts if isinstance(part, ToolCallPart)] for answer in answers
    ]
    verdict = judge_run(steps)
    cut = any(answer.finish_reason == "length" for answer in answers)
    if not verdict.sound:
        return verdict
    if result.stopped:
        # As with LangChain: a model that has to call in every step may never choose the tool that ends the run.
        chosen = {name for calls in steps for name, _ in calls}
        return Verdict("length", "the model never chose to end") if "final_result" not in chosen else failed("no end")
    return Verdict("length") if cut else verdict
