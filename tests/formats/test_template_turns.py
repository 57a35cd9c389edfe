"""What chat templates write for an answer (tests/cases/formats/turns.toml): `render` writes that, the parser reads it, the grammar accepts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import test_templates as templates

from narrows import formats
from narrows.formats.prompt import open_part
from narrows.stream import Message, collect

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parents[1] / "cases" / "formats"
FILE: dict[str, Any] = tomllib.loads((CASES / "turns.toml").read_text(encoding="utf-8"))
TOOLS: list[dict[str, Any]] = json.loads((CASES / "tools.json").read_text(encoding="utf-8"))
ANSWERS: dict[str, dict[str, Any]] = {answer["name"]: answer for answer in FILE["answer"]}
TURNS = [
    pytest.param(name, answer, id=f"{name}: {answer}")
    for name, known in FILE["format"].items()
    for answer in known["text"]
]
BY = ("template", "renders", "relative", "parser")


def message(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer as OpenAI's API has it."""
    found = {key: answer[key] for key in ("content", "reasoning_content") if key in answer}
    calls = [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in answer.get("calls", ())]
    return {"role": "assistant", **found, "tool_calls": [{"type": "function", "function": call} for call in calls]}


def spelled(arguments: str) -> str:
    """Arguments with their keys in order, on one line."""
    return json.dumps(json.loads(arguments), ensure_ascii=False)


def prompt_of(known: dict[str, Any], answer: dict[str, Any]) -> str:
    prompt: str = known["thinking"] if "reasoning_content" in answer else known["plain"]
    return prompt


def holds(read: Message, answer: dict[str, Any], before_calls: str) -> None:
    content, calls = answer.get("content"), answer.get("calls", [])
    assert read.content in (content, f"{content}{before_calls}" if content and calls else content)
    assert read.reasoning == answer.get("reasoning_content")
    assert [call.name for call in read.tool_calls] == [call["name"] for call in calls]
    assert [spelled(call.arguments) for call in read.tool_calls] == [spelled(call["arguments"]) for call in calls]
    assert all(call.complete and call.known for call in read.tool_calls)


@pytest.mark.parametrize(("name", "of"), TURNS)
def test_render_writes_it(name: str, of: str) -> None:
    fmt, known, answer = formats.get(name), FILE["format"][name], ANSWERS[of]
    begun = open_part(prompt_of(known, answer), fmt, fmt.reasoning) if "reasoning_content" in answer else ""
    assert fmt.render(message(answer)) == begun + known["text"][of]


@pytest.mark.parametrize(("name", "of"), TURNS)
def test_the_parser_reads_it(name: str, of: str) -> None:
    fmt, known, answer = formats.get(name), FILE["format"][name], ANSWERS[of]
    text, prompt = known["text"][of], prompt_of(known, answer)
    holds(fmt.parse(text, TOOLS, prompt=prompt), answer, fmt.before)
    behind = known.get("behind_calls", "") if answer.get("calls") else ""
    for pieces in [(text + behind,), text + behind, *((text[:n], text[n:]) for n in range(len(text)))]:
        parser = fmt.parser(TOOLS, prompt=prompt)
        holds(collect([e for piece in pieces for e in parser.feed(piece)] + parser.finish()), answer, fmt.before)


@pytest.mark.parametrize(("name", "of"), TURNS)
def test_the_grammar_accepts_it(name: str, of: str) -> None:
    fmt, known, answer = formats.get(name), FILE["format"][name], ANSWERS[of]
    text, prompt = known["text"][of], prompt_of(known, answer)
    choices = ["auto", *(["required"] if answer.get("calls") and "content" not in answer else ())]
    for choice in choices:
        grammar = fmt.grammar(TOOLS, tool_choice=choice, prompt=prompt)
        assert templates.reference(grammar).accepts(text.encode()), choice


def test_the_templates_that_are_here_write_it() -> None:
    for name, known in FILE["format"].items():
        if "template" in known and templates.path_of(known["template"]).is_file():
            for answer in known["text"]:
                writes(name, answer)


def writes(name: str, of: str) -> None:
    known, answer = FILE["format"][name], ANSWERS[of]
    made = templates.template(known["template"], False)
    tools = json.loads(json.dumps(TOOLS))
    for tool in tools:
        tool["function"].setdefault("parameters", {"type": "object", "properties": {}})
    values = {"tools": tools, **({} if "reasoning_content" in answer else known.get("variables", {}))}
    end = (known.get("behind_calls", "") if answer.get("calls") else "") + known.get("end", "")
    whole = made.render(messages=[templates.USER, message(answer)], add_generation_prompt=False, **values)
    assert whole.endswith(prompt_of(known, answer) + known["text"][of] + end)
    if "thinking" in known:
        prompt = made.render(messages=[templates.USER], add_generation_prompt=True, **values)
        assert prompt.endswith(prompt_of(known, answer))


def test_each_format_says_how_its_texts_are_known() -> None:
    for name, known in FILE["format"].items():
        assert known["by"] in BY
        assert ("template" in known) == (known["by"] == "template")
        assert {*known["text"], *known.get("without", {})} == set(ANSWERS), name
        assert formats.get(name).verified == (known["by"] in ("template", "renders")), name
