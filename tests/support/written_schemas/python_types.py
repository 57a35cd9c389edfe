"""Types as people write them with Pydantic, and functions as tools of FastMCP.

python python_types.py pydantic >pydantic.json
python python_types.py fastmcp >fastmcp.json
"""

from __future__ import annotations

import asyncio
import enum
import ipaddress
import json
import re
import sys
import uuid
from collections import deque
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar, Union

import pydantic as p
from pydantic import BaseModel, ConfigDict, Field, RootModel, TypeAdapter
from typing_extensions import NotRequired, TypedDict

T = TypeVar("T")


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


class Address(BaseModel):
    street: str
    city: str
    zip: str = Field(pattern=r"^\d{5}$")
    country: str = Field(default="DE", min_length=2, max_length=2)


class Money(BaseModel):
    amount: Decimal = Field(ge=0, max_digits=10, decimal_places=2)
    currency: Literal["EUR", "USD"]


class Person(BaseModel):
    name: str = Field(min_length=1, max_length=80, description="The full name")
    age: int = Field(ge=0, le=150)
    email: str | None = None
    address: Address | None = None
    tags: list[str] = []


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Linked(BaseModel):
    value: str
    next: Linked | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    good: bool = True


class Fish(BaseModel):
    kind: Literal["fish"] = "fish"
    salt_water: bool


class Owner(BaseModel):
    pet: Annotated[Union[Cat, Dog, Fish], Field(discriminator="kind")]
    others: list[Annotated[Union[Cat, Dog], Field(discriminator="kind")]] = []


class Box(BaseModel, Generic[T]):
    content: T
    count: int = 1


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: str | None = None


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: str
    b: int | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: str


class OpenNumbers(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]
    a: str


class Aliased(BaseModel):
    user_name: str = Field(alias="userName")
    user_id: int = Field(validation_alias="userId", serialization_alias="uid")


class Computed(BaseModel):
    width: float
    height: float

    @p.computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> float:
        return self.width * self.height


class Bounds(BaseModel):
    positive: p.PositiveInt
    negative: p.NegativeFloat
    not_negative: p.NonNegativeInt
    share: float = Field(ge=0, le=1)
    half: float = Field(multiple_of=0.5)
    seven: int = Field(multiple_of=7)
    short: p.constr(max_length=5, strip_whitespace=True)  # type: ignore[valid-type]
    code: p.constr(pattern=r"^[A-Z]{2}\d+$")  # type: ignore[valid-type]
    many: p.conlist(int, min_length=1, max_length=3)  # type: ignore[valid-type]
    strict: p.StrictInt
    finite: p.FiniteFloat


class Texts(BaseModel):
    at: datetime
    day: date
    clock: time
    long: timedelta
    id: uuid.UUID
    id4: p.UUID4
    secret: p.SecretStr
    raw: bytes
    path: Path
    four: ipaddress.IPv4Address
    six: ipaddress.IPv6Address
    net: ipaddress.IPv4Network
    net6: ipaddress.IPv6Network
    face: ipaddress.IPv4Interface
    any_ip: p.IPvAnyAddress
    url: p.HttpUrl
    any_url: p.AnyUrl
    database: p.PostgresDsn
    pattern: re.Pattern[str]
    base64: p.Base64Str
    base64_url: p.Base64UrlStr
    encoded: p.Json[list[int]]
    zone: p.AwareDatetime
    past: p.PastDate
    mail: p.EmailStr
    named: p.NameEmail
    size: p.ByteSize


class Collections(BaseModel):
    some: set[str]
    frozen: frozenset[int]
    queue: deque[str]
    pair: tuple[int, str]
    many: tuple[int, ...]
    nothing: tuple[()]
    by_name: dict[str, int]
    by_number: dict[int, str]
    by_level: dict[Level, float]
    by_pattern: dict[Annotated[str, Field(pattern="^[a-z]+$")], int]
    by_length: dict[Annotated[str, Field(min_length=1, max_length=3)], int]
    few: dict[str, int] = Field(min_length=1, max_length=3)
    nested: dict[str, dict[str, list[int]]]
    levels: set[Level]
    numbers: list[Number]


class PointTuple(NamedTuple):
    x: float
    y: float = 0.0


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


@dataclass
class Settings:
    name: str
    level: Level = Level.LOW
    tags: list[str] = dataclass_field(default_factory=list)


class Unions(BaseModel):
    plain: int | str
    maybe: float | None
    lists: list[int] | dict[str, int]
    left: Annotated[Union[int, float, bool, None], Field(union_mode="left_to_right")]
    models: Cat | Address | None = None
    literals: Literal["a", 1, True, None]


class Defaults(BaseModel):
    """With a description of its own."""

    model_config = ConfigDict(title="Something", json_schema_extra={"examples": [{"a": 1}]})
    a: int = Field(default=1, examples=[1, 2], deprecated=True)
    b: str = Field(default="x", title="B", description="says something")
    c: list[int] = Field(default_factory=lambda: [1])
    d: dict[str, Any] = {}
    e: Any = None
    f: object = None
    g: Level = Level.HIGH


class Invoice(BaseModel):
    number: str = Field(pattern=r"^INV-\d{4,}$")
    day: date
    lines: list[LineItem] = Field(min_length=1)
    total: Money
    customer: Person
    notes: dict[str, str] = {}


class LineItem(BaseModel):
    text: str
    quantity: p.PositiveInt
    price: Money


class Step(BaseModel):
    explanation: str
    output: str


class Reasoned(BaseModel):
    steps: list[Step] = Field(max_length=5)
    final_answer: str


class Plan(BaseModel):
    goal: str
    tasks: list[Task]


class Task(BaseModel):
    id: int
    title: str
    depends_on: set[int] = set()
    status: Literal["todo", "doing", "done"] = "todo"
    parts: list[Task] = []


class Expression(BaseModel):
    op: Literal["add", "mul"]
    args: list[Union[float, Expression]] = Field(min_length=2)


TYPES: dict[str, Any] = {
    **{
        kind.__name__: kind
        for kind in (
            *(Address, Money, Person, Tree, Linked, Cat, Dog, Owner, Closed, Open, OpenNumbers, Aliased, Computed),
            *(Bounds, Texts, Collections, PointTuple, Movie, Settings, Unions, Defaults, Invoice, Reasoned, Plan),
            *(Task, Expression, Level, Number),
        )
    },
    "Box of an int": Box[int],
    "Box of a box": Box[Box[str]],
    "Page of people": Page[Person],
    "root list": RootModel[list[int]],
    "root dict": RootModel[dict[str, Address]],
    "root union": RootModel[Union[Cat, Dog]],
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "None": type(None),
    "Any": Any,
    "bytes": bytes,
    "list": list,
    "dict": dict,
    "list of str": list[str],
    "list of any": list[Any],
    "list of models": list[Person],
    "dict of models": dict[str, Person],
    "set of int": set[int],
    "set of str": set[str],
    "set of literals": set[Literal["a", "b", "c"]],
    "frozenset of str": frozenset[str],
    "tuple": tuple[int, str, bool],
    "tuple of models": tuple[Cat, Dog],
    "optional": Optional[int],  # noqa: UP045
    "literal": Literal["a", "b"],
    "union of models": Union[Cat, Dog],
    "union of int and list": Union[int, list[int]],
    "decimal": Decimal,
    "decimal, bounds": Annotated[Decimal, Field(gt=0, lt=100, decimal_places=2)],
    "int, bounds": Annotated[int, Field(gt=0, lt=10)],
    "int, steps of 60": Annotated[int, Field(ge=0, le=100_000, multiple_of=60)],
    "float, steps of 0.1": Annotated[float, Field(multiple_of=0.1)],
    "str, bounds": Annotated[str, Field(min_length=2, max_length=4)],
    "str, pattern": Annotated[str, Field(pattern=r"^(foo|bar)-\d{1,3}$")],
    "str, pattern and bounds": Annotated[str, Field(pattern=r"^[a-z]+$", min_length=2, max_length=12)],
    "list, bounds": Annotated[list[int], Field(min_length=2, max_length=4)],
    "dict, bounds": Annotated[dict[str, int], Field(min_length=1)],
    "dict of enum keys": dict[Level, int],
    "dict of literal keys": dict[Literal["x", "y"], int],
    "dict of uuid keys": dict[uuid.UUID, str],
    "dict of date keys": dict[date, float],
    "datetime": datetime,
    "date": date,
    "time": time,
    "timedelta": timedelta,
    "uuid": uuid.UUID,
    "path": Path,
    "deque": deque[int],
    "json": p.Json,
    "callable discriminator": list[Union[Annotated[Cat, p.Tag("cat")], Annotated[Address, p.Tag("address")]]],
}
"""The types that have a schema in one of the modes."""


def pydantic_schemas() -> dict[str, Any]:
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for name, kind in TYPES.items():
        for mode in ("validation", "serialization"):
            schema = TypeAdapter(kind).json_schema(mode=mode)  # type: ignore[arg-type]
            text = json.dumps(schema)
            if text not in seen:
                found[f"{name} ({mode})"] = schema
                seen.add(text)
    return found


async def fastmcp_schemas() -> dict[str, Any]:
    from fastmcp import FastMCP

    server = FastMCP("types")

    @server.tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool
    def greet(name: str, title: str | None = None, loud: bool = False) -> str:
        return name

    @server.tool
    def search(
        query: Annotated[str, Field(description="What to look for", min_length=1)],
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
        kinds: list[Literal["pdf", "html"]] | None = None,
    ) -> list[str]:
        return []

    @server.tool
    def move(point: PointTuple, by: tuple[float, float]) -> PointTuple:
        return point

    @server.tool
    def register(person: Person, addresses: list[Address]) -> Person:
        return person

    @server.tool
    def pay(amount: Money, to: uuid.UUID, at: datetime | None = None) -> bool:
        return True

    @server.tool
    def set_all(values: dict[str, int | str], levels: set[Level]) -> dict[str, int]:
        return {}

    @server.tool
    def adopt(pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")], name: str) -> Owner:
        raise NotImplementedError

    @server.tool
    def grow(tree: Tree, deep: int = 3) -> Tree:
        return tree

    @server.tool
    def configure(settings: Settings, movie: Movie, raw: bytes, path: Path) -> None:
        return None

    @server.tool
    def calculate(expression: Expression) -> float:
        return 0.0

    @server.tool
    def schedule(day: date, clock: time, every: timedelta, zone: str = "UTC") -> list[datetime]:
        return []

    @server.tool
    def anything(value: Any, options: dict[str, Any] | None = None) -> Any:
        return value

    @server.tool
    def nothing() -> None:
        return None

    found: dict[str, Any] = {}
    for tool in (await server.get_tools()).values():
        listed = tool.to_mcp_tool()
        found[f"{listed.name}, arguments"] = listed.inputSchema
        if listed.outputSchema is not None:
            found[f"{listed.name}, result"] = listed.outputSchema
    return found


if __name__ == "__main__":
    schemas = pydantic_schemas() if sys.argv[1] == "pydantic" else asyncio.run(fastmcp_schemas())
    sys.stdout.write(json.dumps(schemas) + "\n")
