"""Python types as grammars and values back out of text; functions as tools, and their calls."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from pydantic import BaseModel, Field, model_validator

import narrows
from narrows import Grammar, GrammarError, InputError, Typed, Vocabulary, formats
from narrows.tools.functions import call, tool_of

VOCABULARY = Vocabulary([bytes([b]) for b in range(256)] + [None], special={"<end>": 256}, eos=[256])


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Shape(BaseModel):
    name: str = Field(min_length=1)
    color: Color = Color.RED
    corners: list[Point]
    parent: Shape | None = None


class Ordered(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def in_order(self) -> Ordered:
        if self.low > self.high:
            raise ValueError("low is greater than high")
        return self


def accepts(grammar: Grammar, text: str) -> bool:
    matcher = VOCABULARY.compile(grammar).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (Literal["a", 3], "3", 3),
        (Color, '"blue"', Color.BLUE),
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (dict[str, bool] | None, '{"a": true}', {"a": True}),
        (Shape, '{"name": "t", "corners": [{"x": 1}]}', Shape(name="t", corners=[Point(1)])),
        (Annotated[int, Field(ge=3)], "3", 3),
    ],
)
def test_a_type_and_its_value(kind: Any, text: str, value: Any) -> None:
    typed: Typed[Any] = Typed(kind)
    assert accepts(typed.grammar(), text)
    assert typed.read(text) == value
    assert jsonschema_rs.validator_for(typed.schema).is_valid(json.loads(text))
    assert typed.grammar(whitespace="compact").module == Grammar.from_json_schema(kind, whitespace="compact").module


def test_what_does_not_fit_says_where() -> None:
    for kind, text, pointer in (
        (Shape, '{"name": "t", "corners": [{"x": "a/b"}]}', "/corners/0/x"),
        (dict[str, int], '{"a/b": "x"}', "/a~1b"),
        (Ordered, '{"low": 2, "high": 1}', ""),
        (list[int], "[1", ""),
    ):
        with pytest.raises(InputError) as caught:
            Typed(kind).read(text)
        assert (caught.value.code, caught.value.pointer) == ("value_invalid", pointer)


def test_a_text_that_goes_on() -> None:
    typed = Typed(Shape)
    text = '{"name": "r\\u00e9d", "corners": [{"x": 12}], "parent": null}'
    whole = json.loads(text)
    for end in range(len(text)):
        partial = typed.read_partial(text[:end])
        assert partial is None or partial.items() <= whole.items() or set(partial) <= set(whole), text[:end]
    assert typed.read_partial(text[:20]) == {"name": "réd"[: text[:20].count("d") + 2]}
    assert typed.read_partial(text) == whole
    for text, said in (
        ("", None),
        (" ", None),
        ("-", None),
        ("tr", None),
        ('"ab', "ab"),
        ("[1, 23", [1, 23]),
        ('{"a', {}),
    ):
        assert Typed(Any).read_partial(text) == said
    with pytest.raises(InputError) as caught:
        typed.read_partial('{"a" 1')
    assert caught.value.code == "value_invalid"


def weather(city: str, days: Annotated[int, Field(ge=1, le=7)] = 1, *, unit: Literal["c", "f"] = "c") -> str:
    """The weather of a city.

    It comes from far away.

    Args:
        city: Where, in "any" language.
        days: How many days ahead.
    """
    return f"{city} {days} {unit}"


def test_a_function_as_a_tool() -> None:
    tool = tool_of(weather)
    assert tool == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city.\n\nIt comes from far away.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": 'Where, in "any" language.'},
                    "days": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 7,
                        "default": 1,
                        "description": "How many days ahead.",
                    },
                    "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
    assert tool_of(weather, name="w", strict=True)["function"]["strict"] is True


def test_calls() -> None:
    assert call(weather, '{"city": "Oslo", "unit": "f"}') == "Oslo 1 f"
    assert call(weather, {"city": "Oslo", "days": "3"}) == "Oslo 3 c"
    for arguments, pointer in (
        ('{"city": 3}', "/city"),
        ('{"days": 2}', "/city"),
        ('{"city": "x", "days": 9}', "/days"),
        ('{"city": "x", "day": 1}', "/day"),
        ("[", ""),
        ("3", ""),
    ):
        with pytest.raises(InputError) as caught:
            call(weather, arguments)
        assert (caught.value.code, caught.value.pointer) == ("arguments_invalid", pointer)


def test_what_a_function_raises_is_its_own() -> None:
    def fails(x: int) -> int:
        raise ValueError(f"no {x}")

    with pytest.raises(ValueError, match="no 3"):
        call(fails, '{"x": 3}')


def test_a_method_without_type_hints_or_docstring() -> None:
    class Counter:
        total = 0

        def add(self, amount, note=""):  # type: ignore[no-untyped-def]
            self.total += amount

    counter = Counter()
    assert tool_of(counter.add)["function"] == {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"amount": {}, "note": {"default": ""}},
            "required": ["amount"],
            "additionalProperties": False,
        },
    }
    call(counter.add, '{"amount": 2}')
    assert counter.total == 2


def test_functions_that_are_no_tools() -> None:
    def by_position(a: int, /) -> None: ...

    def any_number(*args: int) -> None: ...

    class Unknown: ...

    def of_unknown(x: Unknown) -> None: ...

    for function in (by_position, of_unknown):
        with pytest.raises(GrammarError) as caught:
            tool_of(function)
        assert caught.value.code == "schema_invalid"
    with pytest.raises(GrammarError):
        tool_of(any_number)
    with pytest.raises(InputError) as wrong:
        tool_of(lambda x: x)
    assert wrong.value.code == "tools_invalid"
    assert tool_of(lambda x: x, name="f")["function"]["name"] == "f"


def test_functions_where_tools_are_asked_for() -> None:
    hermes = formats.get("hermes_json")
    grammar = hermes.grammar([weather], tool_choice="required", reasoning=None)
    good = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}\n</tool_call>'
    assert accepts(grammar, good)
    assert not accepts(grammar, good.replace("3", "9"))
    message = hermes.parse(good, tools=[weather])
    assert call(weather, message.tool_calls[0].arguments) == "Oslo 3 c"


def test_compiled_patterns() -> None:
    grammar = Grammar.from_regex(re.compile(r"a.b # c", re.IGNORECASE | re.DOTALL | re.VERBOSE))
    assert [text for text in ("a\nB", "AxB", "ab", "a.b # c") if accepts(grammar, text)] == ["a\nB", "AxB"]
    assert accepts(Grammar.from_regex(re.compile("é")), "é")
    with pytest.raises(InputError) as caught:
        Grammar.from_regex(re.compile(b"a"))  # type: ignore[arg-type]
    assert caught.value.code == "wrong_type"


def test_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "docstring_parser", None)
    with pytest.raises(InputError) as caught:
        tool_of(weather)
    assert (caught.value.code, caught.value.hint) == ("library_missing", "pip install 'narrows[typed]'")
    monkeypatch.setitem(sys.modules, "pydantic", None)
    for action in (lambda: narrows.Typed(int), lambda: tool_of(weather)):
        with pytest.raises(InputError) as caught:
            action()
        assert caught.value.code == "library_missing"
