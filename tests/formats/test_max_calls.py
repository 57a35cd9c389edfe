"""`max_calls`: the grammar lets so many calls be written and then the end alone, whatever the format, the form and the prompt."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from test_format_grammar import FORMS, spell, vocabulary, walks
from transcripts import NAMES, TOOLS, facts, naming

from narrows import formats
from narrows.errors import InputError


def calls(count: int) -> list[dict[str, Any]]:
    return [
        {"id": f"a1B2c3D4{i}", "function": {"name": "get_weather", "arguments": {"city": f"Rome {i}"}}}
        for i in range(count)
    ]


def accepts(name: str, text: str, **options: Any) -> bool:
    matcher = vocabulary(name, False)[0].compile(formats.get(name).grammar(TOOLS, **options)).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_so_many_and_no_more(name: str, form: str) -> None:
    fmt = formats.get(name)
    if facts(name).single:
        pytest.skip(facts(name).single)
    for choice, most in (("required", 1), ("auto", 1), ("required", 3)):
        constraint = vocabulary(name, False)[0].compile(fmt.grammar(TOOLS, tool_choice=choice, max_calls=most))
        for count in (1, most, most + 1):
            with naming((choice, most, count)):
                matcher = constraint.matcher()
                text = fmt.render({"tool_calls": calls(count)}, form).encode()
                assert (matcher.accept_bytes(text) and matcher.is_accepting) == (count <= most)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_generated_has_no_more(name: str) -> None:
    fmt = formats.get(name)
    for choice in ("required", "auto"):
        grammar = fmt.grammar([{"name": "now"}], tool_choice=choice, max_calls=2)
        for ids in walks(name, grammar, False, 6, Random(name)):
            assert len(fmt.parse(spell(name, ids, False), [{"name": "now"}]).tool_calls) <= 2


@pytest.mark.parametrize("name", NAMES)
def test_calls_that_the_prompt_has_begun_count(name: str) -> None:
    fmt = formats.get(name)
    if facts(name).single:
        pytest.skip(facts(name).single)
    whole, more = (fmt.render({"tool_calls": calls(count)}) for count in (2, 3))
    if facts(name).turn.rstrip() in whole.removeprefix(facts(name).turn):
        pytest.skip("each call is a turn of its own, and the prompt's last turn is what the answer goes on from")
    first, second = whole.index("Rome 0") + 3, whole.rindex("get_weather") + 4
    # With one call allowed, the prompt alone has more: what it has begun may come to its end, and nothing more begins.
    for cut, most in ((first, 2), (second, 2), (second, 1)):
        prompt = facts(name).turn + whole[:cut]
        constraint = vocabulary(name, False)[0].compile(fmt.grammar(TOOLS, prompt=prompt, max_calls=most))
        for text, fits in ((whole, True), (more, False)):
            with naming((whole[:cut], most, text[cut:])):
                matcher = constraint.matcher()
                assert (matcher.accept_bytes(text[cut:].encode()) and matcher.is_accepting) == fits


def test_behind_calls_in_the_prompt() -> None:
    fmt = formats.get("hermes_json")
    done = fmt.render({"tool_calls": calls(2)})
    more = fmt.render({"tool_calls": calls(1)})
    for choice in ("required", "auto"):
        prompt = "<|im_start|>assistant\n" + done
        for most, may in ((1, False), (2, False), (3, True)):
            assert accepts("hermes_json", "\n" + more, prompt=prompt, tool_choice=choice, max_calls=most) == may
            assert accepts("hermes_json", "", prompt=prompt, tool_choice=choice, max_calls=most)


def test_the_parser_reads_more() -> None:
    fmt = formats.get("hermes_json")
    made = fmt.parse(fmt.render({"tool_calls": calls(5)}), TOOLS, tool_choice="required").tool_calls
    assert [json.loads(call.arguments)["city"] for call in made] == [f"Rome {i}" for i in range(5)]


@pytest.mark.parametrize("most", [0, -1])
def test_at_least_one(most: int) -> None:
    with pytest.raises(InputError) as error:
        formats.get("hermes_json").grammar(TOOLS, max_calls=most)
    assert error.value.code == "max_calls_invalid"
