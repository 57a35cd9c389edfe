"""LangChain's agents and structured answers come to an end. `ChatOpenAI` is as it is set up by default, but for the address, a limit of tokens where a case
says so, and a temperature of 0 that makes runs alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import agent_tools
import openai
import pytest
from agent_tools import MOST_STEPS, QUESTION, Forecast, judge_run
from checking import VALID, Verdict, failed
from clients_here import SECONDS
from conftest import Narrows, Outcome, parameters
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.prebuilt import create_react_agent

WEATHER = [tool(agent_tools.get_weather), tool(agent_tools.add)]
HOUSE = [tool(agent_tools.thermostat)]
pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
BOUND: Any = {"recursion_limit": 2 * MOST_STEPS}
LIMITED: dict[str, Any] = {"max_tokens": agent_tools.TOKENS, "temperature": 0}
RESPONSES: dict[str, Any] = {**LIMITED, "use_responses_api": True}
RESPONSES_V1: dict[str, Any] = {**RESPONSES, "output_version": "responses/v1"}
PREVIOUS: dict[str, Any] = {"use_previous_response_id": True}


@dataclass(frozen=True)
class Case:
    run: Callable[[ChatOpenAI], Any]
    options: dict[str, Any]


def run(graph: Any, *modes: str, question: str = QUESTION, config: Any = BOUND) -> Any:
    """The last state; `stopped` in it where the bound on its steps or on its answers ended the run."""
    last: Any = {}
    before: int | None = None
    try:
        for mode, news in graph.stream({"messages": [HumanMessage(question)]}, config, stream_mode=["values", *modes]):
            if mode == "values" and before is None:
                before = len(answers_of(news))
            if mode == "values" and len(answers_of(news)) > MOST_STEPS + (before or 0):
                return {**last, "stopped": True}
            last = news if mode == "values" else last
    except GraphRecursionError:
        return {**last, "stopped": True}
    return last


def answers_of(state: Any) -> list[AIMessage]:
    return [message for message in state["messages"] if isinstance(message, AIMessage)]


def agent(**options: Any) -> Callable[[ChatOpenAI], Any]:
    return lambda model: run(create_agent(model, **options))


def streamed(model: ChatOpenAI) -> Any:
    return run(create_agent(model, WEATHER), "messages")


def react(model: ChatOpenAI) -> Any:
    return run(create_react_agent(model, WEATHER))


def forced_first(tools: list[Any], choice: str) -> Callable[[ChatOpenAI], Any]:
    """The loop as a program writes it: a call that it asks for, the results, an answer."""

    def loop(model: ChatOpenAI) -> Any:
        messages: list[Any] = [HumanMessage(QUESTION)]
        called = model.bind_tools(tools, tool_choice=choice).invoke(messages)
        by_name = {each.name: each for each in tools}
        results = [by_name[call["name"]].invoke(call) for call in called.tool_calls]
        # Free prose of a small model may go on to the end of its context; here it is the call that has to end by itself.
        answer = model.bind(max_tokens=agent_tools.TOKENS).invoke([*messages, called, *results])
        assert called.tool_calls or was_cut(called), called
        return {"messages": [*messages, called, *results, answer]}

    return loop


def talk(*modes: str) -> Callable[[ChatOpenAI], Any]:
    """An agent that remembers: a second question in the same thread."""

    def both(model: ChatOpenAI) -> Any:
        graph = create_agent(model, WEATHER, checkpointer=InMemorySaver())
        thread = {**BOUND, "configurable": {"thread_id": "1"}}
        last = run(graph, *modes, config=thread)
        if last.get("stopped") or any(map(was_cut, answers_of(last))):
            return last
        asked = len(last["messages"])
        last = run(graph, *modes, config=thread, question="And in London?")
        # The turns before the question are those of the first run, and are judged there.
        assert last.get("stopped") or len(last["messages"]) > asked
        return {**last, "messages": last["messages"][asked:]}

    return both


def pieces(tools: list[Any]) -> Callable[[ChatOpenAI], Any]:
    """A call that comes in pieces, then the answer to its result in pieces. They add up to a message."""

    def added(model: Any, messages: list[Any]) -> AIMessage:
        whole: Any = None
        for piece in model.stream(messages):
            whole = piece if whole is None else whole + piece
        assert whole.usage_metadata["output_tokens"] > 0
        return AIMessage(
            **{name: getattr(whole, name) for name in ("content", "tool_calls", "response_metadata", "id")}
        )

    def loop(model: ChatOpenAI) -> Any:
        messages: list[Any] = [HumanMessage(QUESTION)]
        called = added(model.bind_tools(tools, tool_choice="any"), messages)
        assert called.tool_calls or was_cut(called), called
        by_name = {each.name: each for each in tools}
        results = [by_name[call["name"]].invoke(call) for call in called.tool_calls]
        return {"messages": [*messages, called, *results, added(model, [*messages, called, *results])]}

    return loop


def remembered(model: ChatOpenAI) -> Any:
    """The second question goes with the id of the first answer alone."""
    messages: list[Any] = [HumanMessage(QUESTION)]
    first = model.invoke(messages)
    second = model.invoke([*messages, first, HumanMessage("And in London?")])
    return {"messages": [*messages, first, second]}


def structured(**options: Any) -> Callable[[ChatOpenAI], Any]:
    def once(model: ChatOpenAI) -> Any:
        found = model.with_structured_output(Forecast, **options).invoke(f"{QUESTION} Answer in JSON.")
        return {"messages": [], "structured_response": found}

    return once


CASES = {
    "agent": Case(agent(tools=WEATHER), LIMITED),
    "agent-by-default": Case(agent(tools=HOUSE), {}),
    "agent-streamed": Case(streamed, LIMITED),
    "agent-without-tools": Case(agent(tools=[]), LIMITED),
    "agent-response-format": Case(agent(tools=WEATHER, response_format=Forecast), LIMITED),
    "agent-tool-strategy": Case(agent(tools=[], response_format=ToolStrategy(Forecast)), LIMITED),
    "agent-tool-strategy-by-default": Case(agent(tools=[], response_format=ToolStrategy(Forecast)), {}),
    "agent-tool-strategy-and-tools": Case(agent(tools=WEATHER, response_format=ToolStrategy(Forecast)), LIMITED),
    "agent-provider-strategy": Case(agent(tools=WEATHER, response_format=ProviderStrategy(Forecast)), LIMITED),
    "react-agent": Case(react, LIMITED),
    "any-tool": Case(forced_first(WEATHER, "any"), LIMITED),
    "any-tool-by-default": Case(forced_first(HOUSE, "any"), {}),
    "named-tool": Case(forced_first(WEATHER, "get_weather"), LIMITED),
    "structured-json-schema": Case(structured(), LIMITED),
    "structured-json-schema-by-default": Case(structured(), {}),
    "structured-function-calling": Case(structured(method="function_calling"), LIMITED),
    "structured-json-mode": Case(structured(method="json_mode"), LIMITED),
    "responses-agent": Case(agent(tools=WEATHER), RESPONSES),
    "responses-agent-streamed": Case(streamed, RESPONSES),
    "responses-agent-provider-strategy": Case(
        agent(tools=WEATHER, response_format=ProviderStrategy(Forecast)), RESPONSES
    ),
    "responses-any-tool": Case(forced_first(WEATHER, "any"), RESPONSES),
    "responses-named-tool": Case(forced_first(WEATHER, "get_weather"), RESPONSES),
    "responses-v1-agent": Case(agent(tools=WEATHER), RESPONSES_V1),
    "responses-v1-agent-streamed": Case(streamed, RESPONSES_V1),
    "responses-agent-of-two-turns": Case(talk(), RESPONSES),
    "responses-v1-agent-of-two-turns": Case(talk("messages"), RESPONSES_V1),
    "responses-agent-of-two-turns-previous": Case(talk("messages"), {**RESPONSES, **PREVIOUS}),
    "responses-v1-agent-of-two-turns-previous": Case(talk(), {**RESPONSES_V1, **PREVIOUS}),
    "responses-v1-agent-provider-strategy-previous": Case(
        agent(tools=WEATHER, response_format=ProviderStrategy(Forecast)), {**RESPONSES_V1, **PREVIOUS}
    ),
    "responses-v1-any-tool": Case(forced_first(WEATHER, "any"), RESPONSES_V1),
    "responses-any-tool-previous": Case(forced_first(WEATHER, "any"), {**RESPONSES, **PREVIOUS}),
    "responses-pieces": Case(pieces(WEATHER), RESPONSES),
    "responses-v1-pieces": Case(pieces(WEATHER), RESPONSES_V1),
    "responses-v1-pieces-previous": Case(pieces(WEATHER), {**RESPONSES_V1, **PREVIOUS}),
    "responses-v1-without-store": Case(forced_first(WEATHER, "any"), {**RESPONSES_V1, "store": False}),
    "responses-previous": Case(remembered, {**RESPONSES, **PREVIOUS}),
    "responses-structured-json-schema": Case(structured(), RESPONSES),
    "responses-structured-function-calling": Case(structured(method="function_calling"), RESPONSES),
}


def ask(narrows: Narrows, case: Case) -> Any:
    model = ChatOpenAI(
        model=narrows.model, base_url=narrows.base_url, api_key="none", max_retries=0, timeout=SECONDS, **case.options
    )
    return case.run(model)


@pytest.mark.parametrize(
    "case",
    parameters(CASES, "any-tool", "structured-json-schema", "responses-named-tool", "responses-v1-pieces-previous"),
)
def test_it_ends(case: Case, outcome: Outcome, note: Callable[..., None], request: pytest.FixtureRequest) -> None:
    wants = "strategy" in request.node.name or "structured" in request.node.name or "format" in request.node.name
    part = "LangChain, Responses" if request.node.callspec.id.startswith("responses") else "LangChain"
    note(part, judged(outcome.value, wants), outcome.seconds)


def was_cut(answer: AIMessage) -> bool:
    told = answer.response_metadata
    return told.get("finish_reason") == "length" or told.get("status") == "incomplete"


def judged(state: Any, wants: bool) -> Verdict:
    if isinstance(state, openai.LengthFinishReasonError):
        return Verdict("length")
    if isinstance(state, openai.APITimeoutError):
        return failed(f"an answer took more than {SECONDS} seconds")
    if isinstance(state, Exception):
        return failed(f"{type(state).__name__}: {state}")
    answers = answers_of(state)
    verdict = judge_run([[(call["name"], call["args"]) for call in answer.tool_calls] for answer in answers])
    if not verdict.sound:
        return verdict
    if state.get("stopped"):
        # Asked for a call in every step, a model may choose the other tool again and again, or give several forecasts at once, which LangChain sends
        # back; each answer was sound, and no server can choose for it. One forecast alone has to end the run.
        forecasts = [sum(call["name"] == Forecast.__name__ for call in answer.tool_calls) for answer in answers]
        return failed("no end") if 1 in forecasts else Verdict("length", "the model never chose to end")
    cut = any(map(was_cut, answers))
    if wants and not isinstance(state.get("structured_response"), Forecast):
        return Verdict("length") if cut else failed(f"no forecast: {state}")
    return Verdict("length") if cut else VALID
