"""LlamaIndex's `OpenAILike`, in the environment that it has for itself: prints a line of JSON for each scenario (records.py says what the fields mean).

python llama_index_client.py                                prints the names of the scenarios
python llama_index_client.py BASE_URL MODEL SCENARIO...
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.llms import ChatMessage
from llama_index.core.program import FunctionCallingProgram
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel, Field

QUESTION = "What is the weather in Paris, in celsius?"
PROMPT = PromptTemplate(QUESTION)


class Forecast(BaseModel):
    """The weather of a city."""

    city: str = Field(max_length=30)
    celsius: int = Field(ge=-60, le=60)
    sky: Literal["clear", "cloudy", "rain"]


def thermostat(room: Literal["kitchen", "bedroom"], degrees: Literal[18, 20, 22]) -> str:
    """Set the temperature of a room."""
    return f"The {room} will have {degrees} degrees."


HOUSE = FunctionTool.from_defaults(thermostat)


class Scenarios:
    """Each is a method; `_` in its name stands for a hyphen."""

    def __init__(self, base_url: str, model: str) -> None:
        self._at: dict[str, Any] = {
            "model": model, "api_base": base_url, "api_key": "none", "context_window": 8192, "is_chat_model": True,
            "is_function_calling_model": True, "temperature": 0, "max_retries": 0,
        }  # fmt: skip

    def _llm(self, tokens: int, **more: Any) -> OpenAILike:
        return OpenAILike(**(self._at | {"max_tokens": tokens} | more))

    def chat(self) -> Any:
        response = self._llm(40).chat([ChatMessage(role="user", content=QUESTION)])
        return self._of(response.message, response.raw.choices[0].finish_reason, response.raw.usage)

    def chat_streamed(self) -> Any:
        llm = self._llm(40, additional_kwargs={"stream_options": {"include_usage": True}})
        return self._streamed(llm.stream_chat([ChatMessage(role="user", content=QUESTION)]))

    def complete(self) -> Any:
        response = self._llm(40).complete(QUESTION)
        return {"text": response.text, "finish": response.raw.choices[0].finish_reason}

    def tools(self) -> Any:
        response = self._llm(120).chat_with_tools([HOUSE], user_msg=QUESTION, tool_required=True)
        return self._of(response.message, response.raw.choices[0].finish_reason, response.raw.usage)

    def tools_streamed(self) -> Any:
        return self._streamed(self._llm(120).stream_chat_with_tools([HOUSE], user_msg=QUESTION, tool_required=True))

    def predict(self) -> Any:
        return self._value(self._llm(120).structured_predict(Forecast, PROMPT))

    def predict_streamed(self) -> Any:
        # With a tool it would leave the model the choice (docs/clients.md).
        *_, last = self._llm(120, should_use_structured_outputs=True).stream_structured_predict(Forecast, PROMPT)
        return self._value(last)

    def program_streamed(self) -> Any:
        llm = self._llm(120)
        made = FunctionCallingProgram.from_defaults(output_cls=Forecast, prompt=PROMPT, llm=llm, tool_choice="required")
        *_, last = made.stream_call()
        return self._value(last)

    def predict_native(self) -> Any:
        return self._value(self._llm(120, should_use_structured_outputs=True).structured_predict(Forecast, PROMPT))

    def structured_llm(self) -> Any:
        return self._value(self._llm(120).as_structured_llm(Forecast).complete(QUESTION).raw)

    def agent(self) -> Any:
        async def run() -> Any:
            agent = FunctionAgent(tools=[thermostat], llm=self._llm(60), initial_tool_choice="thermostat")
            handler = agent.run("Make the kitchen warm.", max_iterations=6)
            done = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
            return await handler, done

        answer, done = asyncio.run(run())
        calls = [
            {"id": event.tool_id, "name": event.tool_name, "arguments": json.dumps(event.tool_kwargs)} for event in done
        ]
        results = [event.tool_output.content for event in done]
        return {"text": str(answer), "calls": calls, "results": results, "finish": None}

    @staticmethod
    def _of(message: ChatMessage, finish: str | None, usage: Any) -> dict[str, Any]:
        calls = [
            {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
            for call in message.additional_kwargs.get("tool_calls", ())
        ]
        counted = [usage.prompt_tokens, usage.completion_tokens] if usage else None
        return {"text": message.content or "", "calls": calls, "finish": finish, "usage": counted}

    def _streamed(self, responses: Any) -> dict[str, Any]:
        pieces, finish, usage, last, arguments = [], None, None, None, [""]
        for response in responses:
            last = response.message
            pieces.append(response.delta or "")
            for call in last.additional_kwargs.get("tool_calls", ())[:1]:
                arguments.append(call.function.arguments)
            usage = response.raw.usage or usage
            if response.raw.choices:
                finish = response.raw.choices[0].finish_reason or finish
        # Each of its responses has the arguments so far.
        grown = [after.removeprefix(before) for before, after in pairwise(arguments)]
        made = self._of(last or ChatMessage(), finish, usage)
        return {**made, "pieces": pieces, "argumentPieces": [grown] if len(arguments) > 1 else []}

    @staticmethod
    def _value(value: Any) -> dict[str, Any]:
        return {"value": value.model_dump(), "finish": None}


def main() -> None:
    names = [name.replace("_", "-") for name in vars(Scenarios) if not name.startswith("_")]
    if len(sys.argv) < 2:
        print("\n".join(names))
        return
    scenarios = Scenarios(*sys.argv[1:3])
    for name in sys.argv[3:]:
        started = time.monotonic()
        line: dict[str, Any] = {"scenario": name}
        scenario: Callable[[], Any] = getattr(scenarios, name.replace("-", "_"))
        try:
            line |= scenario()
        except Exception as error:
            line["error"] = {"class": type(error).__name__, "message": str(error), "code": getattr(error, "code", None)}
        print(json.dumps(line | {"seconds": time.monotonic() - started}), flush=True)


if __name__ == "__main__":
    main()
