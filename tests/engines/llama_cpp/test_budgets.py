"""Budgets on the small model: every answer is whole and valid, or was refused because its shortest text is longer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from narrows import Grammar, formats
from narrows.engines import default_model
from narrows.engines.api import Request, SamplingParams, Strategies
from narrows.engines.llama_cpp import LlamaCppEngine

pytestmark = pytest.mark.model

SCHEMAS: list[dict[str, Any]] = [
    entry["schema"]
    for path in sorted((Path(__file__).parents[3] / "bench" / "schemas").glob("*.json"))
    for entry in json.loads(path.read_text())
][:30]
TOOLS = [
    {"type": "function", "function": {"name": f"tool_{i}", "description": "Does it.", "parameters": schema}}
    for i, schema in enumerate(s for s in SCHEMAS if s.get("type") == "object")
][:10]
FORMAT = formats.get("hermes_json")
SAMPLING: list[dict[str, Any]] = [{"temperature": 0}, {"temperature": 1.0}, {"temperature": 1.3, "top_p": 0.9}]
ASK = "Write a very long and detailed example as JSON.\n"


@pytest.fixture(scope="module")
def engine() -> Iterator[LlamaCppEngine]:
    with LlamaCppEngine(default_model.default_gguf(), max_model_len=1024) as engine:
        yield engine


def generate(engine: LlamaCppEngine, grammar: Grammar, most: int, **options: Any) -> str | None:
    """The text. None if the shortest one needs more tokens, and the error says how many."""
    constraint = engine.vocabulary.compile(grammar)
    sampling = SamplingParams(max_tokens=most, seed=most, **options)
    request = Request(
        request_id="r",
        prompt_token_ids=engine.encode(ASK),
        sampling=sampling,
        constraint=constraint,
        strategies=Strategies(budget=True),
    )
    with engine.generate(request) as stream:
        outputs = list(stream)
    last, count = outputs[-1], sum(len(output.token_ids) for output in outputs)
    assert count <= most
    if last.finish_reason == "error":
        assert last.error is not None
        assert last.error.code == "max_tokens_too_small"
        needed = re.search(r"needs (\d+) tokens", str(last.error))
        assert needed is not None
        assert int(needed[1]) == constraint.matcher().tokens_to_end() > most
        return None
    return "".join(output.text for output in outputs)


def holds(engine: LlamaCppEngine, schema: dict[str, Any], most: int, **options: Any) -> bool:
    text = generate(engine, Grammar.from_json_schema(schema), most, **options)
    assert text is None or jsonschema_rs.is_valid(schema, json.loads(text)), text
    return text is not None


def calls(engine: LlamaCppEngine, tools: list[dict[str, Any]], most: int, **options: Any) -> bool:
    grammar = FORMAT.grammar(tools, tool_choice="required", vocab=engine.vocabulary)
    text = generate(engine, grammar, most, **options)
    if text is None:
        return False
    message = FORMAT.parse(text, tools, tool_choice="required")
    assert message.tool_calls
    for call in message.tool_calls:
        schema = next(t["function"]["parameters"] for t in tools if t["function"]["name"] == call.name)
        assert jsonschema_rs.is_valid(schema, json.loads(call.arguments)), text
    return True


@pytest.mark.parametrize("most", [20, 40])
def test_some_answers_are_whole(engine: LlamaCppEngine, most: int) -> None:
    done = [holds(engine, SCHEMAS[i], most, **SAMPLING[i % 3]) for i in (0, 7, 20)]
    assert any(done)
    calls(engine, TOOLS[:3], most, temperature=0)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("most", [20, 40, 80])
@pytest.mark.parametrize("sampling", SAMPLING, ids=["greedy", "plain", "top_p"])
def test_all_answers_are_whole(engine: LlamaCppEngine, most: int, sampling: dict[str, Any]) -> None:
    """360 in all."""
    done = [holds(engine, schema, most, **sampling) for schema in SCHEMAS]
    done += [calls(engine, [TOOLS[i], TOOLS[i - 1]], most, **sampling) for i in range(len(TOOLS))]
    assert sum(done) > 5
