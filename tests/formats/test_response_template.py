"""A checkpoint's own declaration becomes a format that parses, renders and constrains; what it cannot say is refused with its place."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from test_format_grammar import TOOLS

import narrows
from narrows import formats
from narrows.errors import FormatError
from narrows.stream import collect

CASES = Path(__file__).parents[1] / "cases" / "response_templates"
TEMPLATES: dict[str, Any] = json.loads((CASES / "templates.json").read_text(encoding="utf-8"))
REFUSED: list[dict[str, Any]] = json.loads((CASES / "refused.json").read_text(encoding="utf-8"))
PLAIN: dict[str, Any] = {
    "start_anchor": "<s>",
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "tool_calls": {"open": "<call>", "close": "</call>", "content": "json"},
        "content": {},
    },
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_a_text_comes_to(name: str) -> None:
    case = TEMPLATES[name]
    fmt = formats.from_response_template(case["declaration"])
    text, wanted = case["text"], case["message"]
    for cut in range(len(text) + 1):
        parser = fmt.parser(TOOLS)
        message = collect([*parser.feed(text[:cut]), *parser.feed(text[cut:]), *parser.finish()])
        assert message.reasoning == wanted.get("reasoning"), cut
        assert message.content == wanted.get("content"), cut
        assert [[call.name, json.loads(call.arguments)] for call in message.tool_calls] == wanted["calls"]
        assert all(call.complete for call in message.tool_calls)


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_is_rendered_is_allowed(name: str) -> None:
    fmt = formats.from_response_template(json.dumps(TEMPLATES[name]["declaration"]))
    call = {"function": {"name": "get_weather", "arguments": {"city": 'Pa"ris', "days": 3}}}
    text = fmt.render({"tool_calls": [call]})
    vocab = narrows.Vocabulary([bytes([b]) for b in range(256)] + [None], special={"<end>": 256}, eos=[256])
    matcher = vocab.compile(fmt.grammar(TOOLS)).matcher()
    assert matcher.accept_bytes(text.encode()), text
    assert matcher.is_accepting
    assert [json.loads(c.arguments) for c in fmt.parse(text, TOOLS).tool_calls] == [call["function"]["arguments"]]


def test_the_prompt_says_where_the_answer_begins() -> None:
    fmt = formats.from_response_template(PLAIN)
    message = fmt.parse("b</think>c", prompt="<think>a</think><s><think>")
    assert (message.reasoning, message.content) == ("b", "c")


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["why"])
def test_refused(case: dict[str, Any]) -> None:
    declaration = copy.deepcopy(PLAIN)
    for pointer, value in case.get("set", {}).items():
        *path, last = pointer.split("/")[1:]
        place = declaration
        for key in path:
            place = place[key]
        if value is None:
            del place[last]
        else:
            place[last] = value
    with pytest.raises(FormatError) as error:
        formats.from_response_template(case.get("text", case.get("declaration", declaration)))
    assert (error.value.code, error.value.pointer) == (case["code"], case["pointer"])


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": "", "response_template": PLAIN}), encoding="utf-8")
    assert formats.load(path).parse('<call>{"name": "f"}</call>').tool_calls[0].name == "f"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(FormatError):
        formats.load(path)
