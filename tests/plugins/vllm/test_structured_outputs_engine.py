"""narrows as the backend of the structured outputs of the real engine, token by token and with drafts: n = 3, four prompts, every text valid."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine
import jsonschema_rs
import pytest
from conftest import Note

from narrows import formats
from narrows.plugins.vllm import grammar_request

pytestmark = pytest.mark.timeout(1200)

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "n": {"type": "integer", "minimum": 3, "maximum": 77}},
    "required": ["city", "n"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]


def _is_valid(text: str) -> bool:
    return bool(jsonschema_rs.is_valid(SCHEMA, json.loads(text)))


def _is_call(text: str) -> bool:
    message = formats.get("hermes_json").parse(text, tools=TOOLS)
    return [call.name for call in message.tool_calls] == ["get_weather"] and _is_valid(message.tool_calls[0].arguments)


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


CODE = "[a-f]{3}-[0-9]{4}"
VALID: dict[str, tuple[dict[str, Any], Callable[[str], bool]]] = {
    "json": ({"structured": {"json": SCHEMA}}, _is_valid),
    "regex": ({"structured": {"regex": CODE}}, _matches(CODE)),
    "choice": ({"structured": {"choice": ["yes", "no", "perhaps not"]}}, lambda t: t in ("yes", "no", "perhaps not")),
    "gbnf": ({"structured": {"grammar": 'root ::= "a " [0-9]{1,5} " b"'}}, _matches("a [0-9]{1,5} b")),
    "tools": (
        {
            "structured": {"grammar": grammar_request.for_tools("hermes_json", TOOLS, "required", False, None)},
            "max_tokens": 140,
        },
        _is_call,
    ),
    "a structural tag": (
        {
            "structured": {
                "structural_tag": '{"type": "structural_tag", "format": {"type": "const_string", "value": "hi"}}'
            }
        },
        lambda text: text == "hi",
    ),
}
PROCESSOR: dict[str, tuple[dict[str, Any], Callable[[str], bool]]] = {
    "narrows_json": ({"extra": {"narrows_json": json.dumps(SCHEMA)}}, _is_valid),
    "narrows_regex": ({"extra": {"narrows_regex": CODE}}, _matches(CODE)),
    "narrows_choice": ({"extra": {"narrows_choice": ["yes", "no"]}}, lambda text: text in ("yes", "no")),
    "narrows_grammar": ({"extra": {"narrows_grammar": 'root ::= "a" [0-9]{1,5}'}}, _matches("a[0-9]{1,5}")),
}
WRONG = {
    "regex_invalid": {"structured": {"regex": "(a"}},
    "gbnf_invalid": {"structured": {"grammar": "root ::= missing"}},
    "schema_invalid": {"structured": {"json": '{"type": 7}'}},
    "tool_spec_invalid": {"structured": {"grammar": '{"narrows": {"format": "../secret"}}'}},
    "extra_args_invalid": {"extra": {"narrows_xml": "<a/>"}},
    "two_constraints": {"extra": {"narrows_regex": "a"}, "structured": {"regex": "b"}},
}
REQUESTS = {name: request for name, (request, _) in {**VALID, **PROCESSOR}.items()}


@pytest.fixture(scope="module", params=["structured", "speculative"])
def found(request: pytest.FixtureRequest, plain_model: Path) -> Any:
    requests = json.dumps({**REQUESTS, **WRONG})
    made = engine.run(request.param, plain_model, REQUESTS=requests, NARROWS_VLLM_STRUCTURED_OUTPUTS="1")
    return {**made, "speculative": request.param == "speculative"}


@pytest.mark.parametrize("name", VALID)
def test_every_text_is_valid(name: str, found: Any, note: Note) -> None:
    check = VALID[name][1]
    texts = found["texts"][name]
    whole = [text for text, reason in texts if reason == "stop"]
    wrong = [text for text in whole if not check(text)]
    drafts = ", ngram" if found["speculative"] else ""
    note(
        f"LLM(), {name}{drafts}: {len(whole) - len(wrong)} valid of {len(whole)} whole texts, {len(texts) - len(whole)} cut"
    )
    assert len(texts) == 12
    assert whole
    assert not wrong


@pytest.mark.parametrize("name", PROCESSOR)
def test_sampling_parameters_are_obeyed_or_refused(name: str, found: Any) -> None:
    """vLLM's V1 runner leaves logits processors out when it speculates, without a word: then the request is refused."""
    if found["speculative"]:
        assert "processor_skipped" in found["refused"][name]
        return
    for text, reason in found["texts"][name]:
        assert reason == "length" or PROCESSOR[name][1](text), text


@pytest.mark.parametrize("code", WRONG)
def test_what_is_wrong_is_refused_with_our_code(code: str, found: Any) -> None:
    message = found["refused"][code]
    assert message.startswith("VLLMValidationError: ")
    expected = "processor_skipped" if found["speculative"] and code == "two_constraints" else code
    assert f"[narrows: {expected}]" in message


def test_the_backend_is_ours(found: Any) -> None:
    assert found["backend"] == "NarrowsOverXgrammarBackend"
