"""Python types as schemas, by Pydantic."""

from __future__ import annotations

import enum
import json
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field, TypeAdapter
from test_schema_engine import VOCABULARY
from typing_extensions import TypedDict

import narrows
from narrows.errors import GrammarError, InputError


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str = Field(min_length=1)
    color: Color
    count: Annotated[int, Field(ge=1, alias="howMany")]
    parent: Item | None = None


@dataclass
class Point:
    x: float
    y: float = 0.0


class Named(TypedDict):
    name: str


TYPES: list[tuple[Any, list[Any], list[Any]]] = [
    (
        Item,
        [{"name": "a", "color": "red", "howMany": 2}],
        [{"name": "a", "color": "red", "count": 2}, {"name": "", "color": "red", "howMany": 2}, {}],
    ),
    (Point, [{"x": 1.5, "y": 2}, {"x": 1}], [{"y": 1}]),
    (Named, [{"name": "a"}], [{}]),
    (Color, ["red"], ["green"]),
    (list[int], [[], [1, 2]], [["a"], {}]),
    (Literal["a", 1], ["a", 1], ["b", 2]),
    (int | None, [None, 1], ["a"]),
    (Optional[int], [None, 1], ["a"]),  # noqa: UP045
    (int | str, [1, "a"], [None]),
    (Annotated[int, Field(ge=3)], [3], [2]),
    (dict[str, bool], [{"a": True}], [{"a": 1}]),
    (TypeAdapter(list[Point]), [[{"x": 1}]], [[{}]]),
    (int, [1], ["1"]),
    (Any, [1, "a", None], []),
]


@pytest.mark.parametrize(("kind", "valid", "invalid"), TYPES, ids=lambda value: str(value)[:40])
def test_values(kind: Any, valid: list[Any], invalid: list[Any]) -> None:
    constraint = VOCABULARY.compile(narrows.Grammar.from_json_schema(kind))
    adapter = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
    for value, is_valid in [*((value, True) for value in valid), *((value, False) for value in invalid)]:
        matcher = constraint.matcher()
        accepted = matcher.accept_bytes(json.dumps(value).encode()) and matcher.is_accepting
        assert accepted is is_valid, value
        if accepted:
            adapter.validate_json(json.dumps(value))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="`type X = ...` is newer")
def test_a_type_alias() -> None:
    space: dict[str, Any] = {}
    exec("type Numbers = list[int] | None", space)
    grammar = narrows.Grammar.from_json_schema(space["Numbers"])
    assert VOCABULARY.compile(grammar).matcher().accept_bytes(b"[1,2]")


def test_options_hold_for_types() -> None:
    grammar = narrows.Grammar.from_json_schema(Named, additional="declared", whitespace="compact")
    matcher = VOCABULARY.compile(grammar).matcher()
    assert not matcher.accept_bytes(b'{"name":"a",')


def test_a_type_without_a_schema_is_refused() -> None:
    class Own:
        pass

    with pytest.raises(GrammarError) as error:
        narrows.Grammar.from_json_schema(Own)
    assert error.value.code == "schema_invalid"


@pytest.mark.parametrize("value", [None, 1, [1], (1,), object()], ids=lambda value: type(value).__name__)
def test_what_is_no_type_is_no_schema(value: Any) -> None:
    with pytest.raises(GrammarError) as error:
        narrows.Grammar.from_json_schema(value)
    assert error.value.code == "schema_invalid"


def test_without_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(InputError) as error:
        narrows.Grammar.from_json_schema(int)
    assert error.value.code == "library_missing"
    assert "pip install" in (error.value.hint or "")
