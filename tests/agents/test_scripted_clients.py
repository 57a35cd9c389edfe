"""The clients that run in a process of their own: those for JavaScript, and LlamaIndex, whose openai is older than that of the other clients.

Each script runs the scenarios that were selected, one after the other, and the scripts run beside each other.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from clients_here import LLAMA_INDEX, NODE_CLIENTS, SECONDS
from conftest import HERE, Narrows
from records import FORECAST, Expected, Record, judge, lines_of

TEXT = Expected()
STREAM = Expected(streamed=True)
CALLS = Expected(("tool_calls",), calls=True)
NAMED = Expected(calls=True)
CALLS_STREAMED = Expected(("tool_calls",), calls=True, streamed=True)
VALUE = Expected(schema=FORECAST)
VALUE_STREAMED = Expected(schema=FORECAST, streamed=True)
ANY_OBJECT = Expected(schema={"type": "object"})
REFUSED = Expected(refused="schema_invalid")
DONE = ("completed",)
"""How a response ends that is whole."""
SKY = {"enum": ["clear", "cloudy", "rain"]}
PLACES = {"type": "array", "items": {"type": "object", "required": ["city"]}}

OPENAI = {
    "chat": TEXT,
    "chat-streamed": STREAM,
    "chat-chunks": Expected(streamed=True, usage=False),
    "tools": CALLS,
    "tools-streamed": CALLS_STREAMED,
    "tools-zod": CALLS,
    "run-tools": NAMED,
    "run-tools-streamed": Expected(("tool_calls",), calls=True, steps=2, usage=False),
    "json-schema": VALUE,
    "json-object": ANY_OBJECT,
    "zod": VALUE,
    "zod-streamed": VALUE_STREAMED,
    "responses": Expected(DONE),
    "responses-streamed": Expected(DONE, streamed=True),
    "responses-tools": Expected(DONE, calls=True),
    "responses-tools-streamed": Expected(DONE, calls=True, streamed=True),
    "responses-tools-zod": Expected(DONE, calls=True),
    "responses-zod": Expected(DONE, schema=FORECAST),
    "responses-zod-streamed": Expected(DONE, schema=FORECAST, streamed=True),
    "responses-previous": Expected(DONE, calls=True, steps=2),
    "models": Expected((None,), usage=False),
    "refused": REFUSED,
}
AI_SDK = {
    "text": TEXT,
    "text-streamed": STREAM,
    "tools": Expected(("tool-calls",), calls=True),
    "tools-steps": Expected(calls=True, steps=2),
    "tools-steps-streamed": Expected(calls=True, steps=2, streamed=True),
    "object": VALUE,
    "object-streamed": VALUE_STREAMED,
    "array": Expected(schema=PLACES),
    "enum": Expected(schema=SKY),
    "no-schema": ANY_OBJECT,
    "output-object": VALUE,
    "output-object-streamed": VALUE,
    "output-array": Expected(schema=PLACES),
    "output-choice": Expected(schema=SKY),
    "output-and-tools": Expected(calls=True, steps=2, schema=FORECAST),
    "conversation": Expected(steps=2),
    "conversation-unstored": Expected(steps=2),
}
LANGCHAIN = {
    "invoke": TEXT,
    "stream": STREAM,
    "tools": CALLS,
    "tools-named": NAMED,
    "tools-streamed": CALLS_STREAMED,
    "tools-answered": Expected(calls=True, steps=2),
    "conversation": Expected(steps=2),
    "structured": VALUE,
    "structured-json-schema": VALUE,
    "structured-plain-schema": VALUE,
    "structured-function-calling": VALUE,
    "structured-json-mode": ANY_OBJECT,
}
LLAMA = {
    "chat": TEXT,
    "chat-streamed": STREAM,
    "complete": Expected(usage=False),
    "tools": CALLS,
    "tools-streamed": Expected(("tool_calls",), calls=True, streamed=True, usage=False),
    "predict": Expected((None,), schema=FORECAST, usage=False),
    "predict-streamed": Expected((None,), schema=FORECAST, usage=False),
    "program-streamed": Expected((None,), schema=FORECAST, usage=False),
    "predict-native": Expected((None,), schema=FORECAST, usage=False),
    "structured-llm": Expected((None,), schema=FORECAST, usage=False),
    "agent": Expected((None,), calls=True, usage=False),
}


def through_responses(expected: Expected) -> Expected:
    """LangChain gives a response's status as it is."""
    return Expected(DONE, expected.calls, expected.schema, expected.streamed, expected.steps)


SCRIPTS: dict[str, tuple[str, dict[str, Expected]]] = {
    "openai_node.mjs": ("openai for Node", OPENAI),
    "ai_sdk.mjs": (
        "AI SDK",
        {
            f"{through}-{name}": expected
            for through in ("openai", "openai-chat", "compatible")
            for name, expected in AI_SDK.items()
        },
    ),
    "langchain_js.mjs": (
        "LangChain.js",
        {f"chat-{name}": expected for name, expected in LANGCHAIN.items()}
        | {f"responses-{name}": through_responses(expected) for name, expected in LANGCHAIN.items()}
        | {"refused": REFUSED},
    ),
    "llama_index_client.py": ("LlamaIndex", LLAMA),
}
SHORT = {
    "openai_node.mjs": ("tools-streamed", "responses-previous", "responses-zod-streamed"),
    "ai_sdk.mjs": ("openai-conversation", "openai-tools-steps-streamed", "compatible-object-streamed"),
    "langchain_js.mjs": ("chat-tools-answered", "responses-structured"),
    "llama_index_client.py": ("tools-streamed", "predict"),
}


@dataclass(frozen=True)
class Case:
    script: str
    scenario: str
    expected: Expected = field(hash=False)


CASES = [
    pytest.param(
        Case(script, name, expected),
        id=f"{script.partition('.')[0]}-{name}",
        marks=[pytest.mark.short] if name in SHORT[script] else [],
    )
    for script, (_, scenarios) in SCRIPTS.items()
    for name, expected in scenarios.items()
]


def command(script: str) -> list[str]:
    if script.endswith(".py"):
        return [str(LLAMA_INDEX / "bin" / "python"), "-W", "ignore", str(HERE / script)]
    # A script finds its packages beside itself.
    for path in (HERE / "node").glob("*.mjs"):
        shutil.copy(path, NODE_CLIENTS)
    return ["node", "--no-warnings", str(NODE_CLIENTS / script)]


@pytest.fixture(scope="module")
def records(request: pytest.FixtureRequest, narrows: Narrows) -> Iterator[dict[Case, Future[Record]]]:
    """What the scripts say of the selected scenarios."""
    told: dict[Case, Future[Record]] = {}
    for item in request.session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")  # type: ignore[attr-defined]
        if isinstance(case, Case):
            told[case] = Future()

    def run(script: str) -> None:
        mine = {case.scenario: told[case] for case in told if case.script == script}
        missing: Exception = RuntimeError("the script says nothing of it")
        try:
            for line in lines_of([*command(script), narrows.base_url, narrows.model, *mine]):
                mine[line["scenario"]].set_result(line)
        except Exception as error:
            missing = error
        for future in mine.values():
            if not future.done():
                future.set_exception(missing)

    with ThreadPoolExecutor(len(SCRIPTS)) as pool:
        for script in {case.script for case in told}:
            pool.submit(run, script)
        yield told


@pytest.mark.parametrize("case", CASES)
def test_what_it_gives(case: Case, records: dict[Case, Future[Record]], note: Callable[..., None]) -> None:
    record = records[case].result()
    note(SCRIPTS[case.script][0], judge(record, case.expected), record["seconds"])


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_scenario_is_asked_for(script: str) -> None:
    done = subprocess.run(command(script), capture_output=True, text=True, timeout=SECONDS, check=True)
    assert sorted(done.stdout.split()) == sorted(SCRIPTS[script][1])
