"""Values of a Python type out of a text that is being written: the same as in the whole that Pydantic reads."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from narrows import InputError, Typed


class Item(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)

    number: Annotated[int, Field(ge=1)] = Field(2, alias="N")
    name: str
    price: Decimal = Decimal(1)

    @field_validator("name")
    @classmethod
    def loud(cls, name: str) -> str:
        return name.upper()


@dataclass
class Point:
    x: int
    y: float = 0.0


class Named(TypedDict):
    when: datetime.date


class Order(BaseModel):
    items: list[Item]
    parent: Order | None = None
    points: dict[str, Point] = {}
    pair: tuple[int, Item] | None = None
    more: tuple[str, ...] = ()
    named: Named | None = None
    either: int | list[Item] | None = None


TEXT = (
    '{"items": [{"N": 3, "name": " a ", "price": 1.10}, {"name": "b"}], "points": {"p/q": {"x": 1}}, '
    '"pair": [1, {"name": "c"}], "more": ["x", "y"], "named": {"when": "2026-11-26"}, '
    '"parent": {"items": [{"name": "d", "price": 2.50}]}, "either": [{"name": "e"}]}'
)


def at(whole: Any, pointer: str) -> Any:
    """The value of the validated whole at a pointer."""
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/")
        if isinstance(whole, (list, tuple)):
            whole = whole[int(step)]
        elif isinstance(whole, dict):
            whole = whole[step]
        else:
            whole = getattr(whole, "number" if step == "N" else step)
    return whole


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_each_value_is_the_one_that_the_whole_has(chunk: int, as_bytes: bool) -> None:
    typed = Typed(Order)
    whole = typed.read(TEXT)
    values = typed.partials(depth=None)
    text: Any = TEXT.encode() if as_bytes else TEXT
    found = [one for i in range(0, len(text), chunk) for one in values.feed(text[i : i + chunk])] + values.finish()
    assert len(found) == 28
    plain = {"/either/0/name": "e", "/either/0": {"name": "e"}}  # inside a union
    for one in found:
        expected = plain.get(one.pointer, None if one.pointer in plain else at(whole, one.pointer))
        assert (one.value, type(one.value)) == (expected, type(expected)), one.pointer
    assert values.value()["items"][0]["name"] == " a "


def test_items_of_a_list() -> None:
    values = Typed(list[Item]).partials()
    assert [one.value for one in values.feed('[{"name": "a"}, {"na')] == ["A", Item(name="a")]
    assert [one.value for one in values.feed('me": "b"}', -0.5)] == ["B", Item(name="b")]
    assert values.feed("]")[0].value == [Item(name="a"), Item(name="b")]


class Renamed(BaseModel):
    one: int = Field(validation_alias=AliasChoices("first", AliasPath("many", 0)))
    two: Decimal = Field(validation_alias=AliasPath("second"))


class Before(BaseModel):
    inner: dict[str, Decimal]

    @model_validator(mode="before")
    @classmethod
    def turned(cls, value: Any) -> Any:
        return {"inner": value["outer"]}


class Asking(BaseModel):
    low: Decimal
    high: Decimal

    @field_validator("high")
    @classmethod
    def ordered(cls, high: Decimal, info: ValidationInfo) -> Decimal:
        assert high >= info.data["low"]
        return high


def seen(info_of: Any, info: ValidationInfo) -> Any:
    return info_of


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Renamed, '{"first": 1, "second": 2.50}', {"/first": 1, "/second": Decimal("2.50")}),
        (Renamed, '{"many": ["1"], "second": 1}', {"/many/0": "1", "/many": ["1"], "/second": Decimal(1)}),
        (Before, '{"outer": {"a": 1}}', {"/outer/a": 1, "/outer": {"a": 1}}),
        (Asking, '{"low": 1, "high": 2.50}', {"/low": Decimal(1), "/high": 2.5}),
        (list[Annotated[Decimal, AfterValidator(seen)]], "[1.50]", {"/0": Decimal("1.50")}),
        (Any, '{"a": 1}', {"/a": 1}),
        (dict[str, Any], '{"a": [1]}', {"/a/0": 1, "/a": [1]}),
        (int, "3", {}),
        (tuple[int, Decimal], "[1, 2.50]", {"/0": 1, "/1": Decimal("2.50")}),
    ],
)
def test_where_the_type_says_it_and_where_the_value_stays_json(kind: Any, text: str, expected: dict[str, Any]) -> None:
    typed: Typed[Any] = Typed(kind)
    values = typed.partials()
    found = {one.pointer: one.value for one in values.feed(text) + values.finish()}
    whole = found.pop("")
    assert whole == typed.read(text)
    assert {pointer: (value, type(value)) for pointer, value in found.items()} == {
        pointer: (value, type(value)) for pointer, value in expected.items()
    }


def test_what_does_not_fit_says_where_after_the_values_before_it() -> None:
    values = Typed(Order).partials(pointers=["/items/*"])
    assert [one.pointer for one in values.feed('{"items": [{"name": "a"}, {"name": "b", "N": 0}, {"name": "c"}]')] == [
        "/items/0"
    ]
    for _ in range(2):
        with pytest.raises(InputError) as caught:
            values.feed("}")
        assert (caught.value.code, caught.value.pointer) == ("value_invalid", "/items/1/N")
    values = Typed(tuple[int, ...]).partials(depth=None)
    values.feed('{"' + "1" * 1_000 + '": 1, "x": {"a": 1}}')
    with pytest.raises(InputError) as caught:
        values.finish()
    assert (caught.value.code, caught.value.pointer) == ("value_invalid", "")
    with pytest.raises(InputError) as caught:
        Typed(int).partials().feed("[x")
    assert caught.value.code == "json_invalid"


def test_strict_types_are_read_as_json() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        days: list[datetime.date]
        pair: tuple[int, int]

    values = Typed(Strict).partials()
    found = {one.pointer: one.value for one in values.feed('{"days": ["2026-11-26"], "pair": [1, 2]}')}
    assert found["/days/0"] == datetime.date(2026, 11, 26)
    assert found["/pair"] == (1, 2)
    values = Typed(Strict).partials()
    with pytest.raises(InputError) as caught:
        values.feed('{"pair": ["1"')
    assert caught.value.pointer == "/pair/0"
