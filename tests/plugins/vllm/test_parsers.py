"""narrows' parsers in vLLM's serving layer: what is streamed equals what comes complete, ids included, whatever the deltas."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from answers import TOOLS, answers, cut, cuttings, steps, tokenizer_or_skip
from serving import chat_request, complete, parser_class, stream

from narrows import formats

FORMATS = ("hermes_json", "qwen3_xml", "mistral")
"""Those that also run against vLLM's own parsers."""


def bench(name: str) -> ModuleType:
    """A script of bench/, whose folder must not come onto the path: it has a vllm.py."""
    spec = spec_from_file_location(name, Path(__file__).parents[3] / "bench" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    from narrows.plugins.vllm import plugin

    plugin.register()


@pytest.fixture(scope="module", params=formats.names())
def fmt(request: pytest.FixtureRequest) -> formats.Format:
    return formats.get(request.param)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tokenizer_or_skip()


def test_every_cutting_of_every_answer(fmt: formats.Format, tokenizer: Any) -> None:
    cls = parser_class(f"narrows_{fmt.name}", f"narrows_{fmt.name}" if fmt.reasoning else None)
    request = chat_request(TOOLS, request_id="r")
    wrong = []
    for answer in answers(fmt.name):
        whole = complete(cls, tokenizer, request, answer.text, answer.tokens(tokenizer))
        for name, deltas in cuttings(answer, tokenizer):
            streamed = stream(cls, tokenizer, request, deltas)
            if streamed != whole or answer.problem(streamed, whole):
                wrong.append(f"{answer.name}, {name}: {streamed}, complete {whole}: {answer.problem(streamed, whole)}")
    assert not wrong


def test_text_decides_where_no_ids_come(fmt: formats.Format, tokenizer: Any) -> None:
    cls = parser_class(f"narrows_{fmt.name}", f"narrows_{fmt.name}" if fmt.reasoning else None)
    request = chat_request(TOOLS, request_id="r")
    for answer in answers(fmt.name):
        if len(answer.pieces) > 1:
            continue  # a marker spelled in tokens: text cannot tell
        whole = complete(cls, tokenizer, request, answer.text, [])
        deltas = [(text, []) for text, _ in cut(steps(tokenizer, answer.tokens(tokenizer)), None, "tokens")]
        streamed = stream(cls, tokenizer, request, deltas)
        assert streamed == whole
        assert answer.problem(streamed, whole) is None, answer.name


def test_transcripts_of_the_formats(fmt: formats.Format, tokenizer: Any) -> None:
    """The cases that every front end of the parser runs over, by token and complete."""
    transcripts = pytest.importorskip("transcripts")
    cls = parser_class(f"narrows_{fmt.name}", f"narrows_{fmt.name}" if fmt.reasoning else None)
    request = chat_request(transcripts.TOOLS, request_id="r")
    seen = 0
    for case in transcripts.load():
        plain = set(case.options) <= {"tools"} and case.options.get("tools") == transcripts.TOOLS
        if case.format != fmt.name or not plain:
            continue
        ids = tokenizer.encode(case.text, add_special_tokens=False)
        seen += 1
        whole = complete(cls, tokenizer, request, case.text, ids)
        streamed = stream(cls, tokenizer, request, steps(tokenizer, ids))
        assert streamed == whole, case.name
        expected = fmt.parse(case.text, transcripts.TOOLS)
        assert (whole.content, whole.reasoning) == (expected.content or "", expected.reasoning or ""), case.name
        assert [call[:2] for call in whole.calls] == [[c.name, c.arguments] for c in expected.tool_calls], case.name
    assert seen


@pytest.mark.parametrize("name", FORMATS)
def test_vllm_loses_tails_where_narrows_does_not(name: str) -> None:
    """vLLM issues 10781 and 10782: streams of hermes and mistral that lose their tail. Their own parsers still get some answers wrong, in vLLM's serving
    layer and more in a loop that never flushes; should they not any more, this fails, and the pages want other words."""
    vllm_parsers = bench("vllm_parsers")
    fmt = formats.get(name)
    tokenizer = tokenizer_or_skip()
    own = vllm_parsers.vllm_parser(fmt)
    assert own is not None
    for way in vllm_parsers.WAYS:
        wrong = {
            parser: vllm_parsers.wrong_runs(parser, way, tokenizer, answers(name)).wrong
            for parser in (f"narrows_{name}", own)
        }
        assert wrong[f"narrows_{name}"] == 0
        assert wrong[own] > 0


def test_a_wrong_reading_is_seen() -> None:
    """The judge of all of the above."""
    (answer,) = (answer for answer in answers("hermes_json") if answer.name == "one call")
    from answers import Result

    right = Result("", "", [["get_weather", '{"city": "Paris", "days": 3}', "id"]])
    assert answer.problem(right, right) is None
    for wrong in (
        replace(right, content="<tool_call>"),
        replace(right, calls=[]),
        replace(right, calls=[["get_weather", '{"city": "Paris", "days": 3', "id"]]),
        replace(right, calls=[["get_time", right.calls[0][1], "id"]]),
    ):
        assert answer.problem(wrong, right) is not None
        assert answer.problem(right, wrong) is not None
