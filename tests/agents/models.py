"""Some fifty Pydantic models of the ordinary kind, by what they use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import (
    UUID4,
    AnyUrl,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    EmailStr,
    Field,
    HttpUrl,
    NonNegativeInt,
    PositiveInt,
    RootModel,
    StringConstraints,
    computed_field,
    conlist,
    constr,
    field_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import NamedTuple, TypedDict

MODELS: dict[str, type[Any]] = {}

Model = TypeVar("Model", bound=type[Any])


def listed(model: Model) -> Model:
    MODELS[model.__name__] = model
    return model


def some(count: int) -> Iterator[type[Any]]:
    """So many of them, spread over the whole list; all with 0."""
    every = list(MODELS.values())
    wanted = min(count, len(every)) or len(every)
    return (every[place * len(every) // wanted] for place in range(wanted))


# Plain fields
@listed
class Person(BaseModel):
    name: str
    age: int


@listed
class Flags(BaseModel):
    verbose: bool
    dry_run: bool = False
    level: int = 1
    note: str = ""


@listed
class Measurement(BaseModel):
    value: float
    unit: str
    exact: bool


@listed
class MaybeNothing(BaseModel):
    nickname: str | None
    age: int | None = None
    parent: Person | None = None


@listed
class Described(BaseModel):
    """A search that the user wants."""

    query: str = Field(description="What to look for")
    limit: int = Field(10, ge=1, le=100, description="How many results at most")
    exact: bool = Field(False, description="Whether the words must stand together")


@listed
class Empty(BaseModel):
    pass


@listed
class ManyFields(BaseModel):
    first: str
    second: str
    third: int
    fourth: int
    fifth: float
    sixth: bool
    seventh: str | None = None
    eighth: list[str] = []
    ninth: int = 9
    tenth: Literal["x", "y"] = "x"


# Choices
class Colour(Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


class Priority(IntEnum):
    LOW = 1
    HIGH = 2


@listed
class Painted(BaseModel):
    colour: Colour
    second: Colour | None = None


@listed
class Ticket(BaseModel):
    title: str = Field(max_length=60)
    priority: Priority
    state: Literal["open", "closed"]


@listed
class MixedLiteral(BaseModel):
    answer: Literal["yes", "no", 1, 0, True, None]


@listed
class Single(BaseModel):
    kind: Literal["only"]
    value: int


@listed
class Classified(BaseModel):
    labels: list[Literal["spam", "ham", "unsure"]] = Field(min_length=1, max_length=3)
    confidence: float = Field(ge=0, le=1)


# Numbers with bounds
@listed
class Bounded(BaseModel):
    small: int = Field(ge=0, le=9)
    above: int = Field(gt=10, lt=1000)
    ratio: float = Field(ge=0, le=1)
    step: int = Field(multiple_of=5, ge=0, le=100)


@listed
class Counted(BaseModel):
    positive: PositiveInt
    not_negative: NonNegativeInt


@listed
class Money(BaseModel):
    amount: Decimal
    currency: Literal["EUR", "USD"]


@listed
class Price(BaseModel):
    amount: Decimal = Field(max_digits=8, decimal_places=2, ge=0)


# Text with a shape
@listed
class Codes(BaseModel):
    postcode: constr(pattern=r"^[0-9]{5}$")  # type: ignore[valid-type]
    country: Annotated[str, StringConstraints(min_length=2, max_length=2, pattern=r"^[A-Z]+$")]


@listed
class Slug(BaseModel):
    slug: Annotated[str, Field(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", max_length=40)]
    title: Annotated[str, Field(min_length=1, max_length=80)]


@listed
class Stripped(BaseModel):
    name: Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True, max_length=20)]


# Types of the standard library
@listed
class Meeting(BaseModel):
    at: datetime
    day: date
    begins: time


@listed
class Lasting(BaseModel):
    duration: timedelta


@listed
class Identified(BaseModel):
    id: UUID
    name: str


@listed
class Blob(BaseModel):
    data: bytes
    name: str


@listed
class Stored(BaseModel):
    id: UUID4
    path: Path
    digest: Base64Bytes


@listed
class Host(BaseModel):
    address: IPv4Address
    port: int = Field(ge=1, le=65535)


@listed
class Page(BaseModel):
    url: HttpUrl
    title: str


@listed
class AnyLink(BaseModel):
    link: AnyUrl


@listed
class Contact(BaseModel):
    email: EmailStr
    name: str | None = None


# Collections
@listed
class Scores(BaseModel):
    scores: dict[str, int]


@listed
class Attributes(BaseModel):
    name: str
    attributes: dict[str, str | int | bool]


@listed
class Grid(BaseModel):
    rows: list[list[int]] = Field(min_length=1, max_length=3)


@listed
class Tags(BaseModel):
    tags: Annotated[list[Annotated[str, Field(max_length=12)]], Field(min_length=1, max_length=4)]


@listed
class Unique(BaseModel):
    members: set[str]


@listed
class Pair(BaseModel):
    point: tuple[float, float]
    named: tuple[str, int, bool]


@listed
class Limited(BaseModel):
    values: conlist(int, min_length=2, max_length=5)  # type: ignore[valid-type]


@listed
class Loose(BaseModel):
    payload: Any
    extra: dict[str, Any] = {}


# Models within models
class Address(BaseModel):
    street: str
    city: str
    postcode: str | None = None


@listed
class Customer(BaseModel):
    name: str
    address: Address
    previous: list[Address] = Field(default=[], max_length=2)


class Line(BaseModel):
    product: str = Field(max_length=30)
    count: int = Field(ge=1, le=99)
    price: float


@listed
class Order(BaseModel):
    number: int
    lines: list[Line] = Field(min_length=1, max_length=3)
    paid: bool


@listed
class Category(BaseModel):
    """A tree of categories."""

    name: str = Field(max_length=20)
    children: list[Category] = []


@listed
class LinkedNode(BaseModel):
    value: int
    next: LinkedNode | None = None


# Unions
class Cat(BaseModel):
    pet: Literal["cat"]
    lives: int


class Dog(BaseModel):
    pet: Literal["dog"]
    tricks: list[str] = Field(max_length=3)


@listed
class Owner(BaseModel):
    name: str
    pet: Annotated[Cat | Dog, Field(discriminator="pet")]


@listed
class Zoo(BaseModel):
    animals: list[Annotated[Cat | Dog, Field(discriminator="pet")]] = Field(max_length=3)


@listed
class Setting(BaseModel):
    value: int | str | bool | None


@listed
class Shape(BaseModel):
    shape: Address | Person | str


# Names and forms of the schema
@listed
class Aliased(BaseModel):
    first_name: str = Field(alias="firstName")
    zip_code: str = Field(alias="zip-code", max_length=10)


@listed
class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int
    b: int | None = None


@listed
class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


@listed
class Computed(BaseModel):
    width: int = Field(ge=0)
    height: int = Field(ge=0)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.width * self.height


@listed
class Checked(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def tidy(cls, value: str) -> str:
        return value.strip()


Content = TypeVar("Content")


class Envelope(BaseModel, Generic[Content]):
    kind: str = Field(max_length=20)
    content: Content


@listed
class EnvelopeOfPerson(Envelope[Person]):
    pass


@listed
class Names(RootModel[list[str]]):
    root: list[str] = Field(min_length=1, max_length=3)


@listed
class Ages(RootModel[dict[str, int]]):
    pass


class Options(TypedDict):
    colour: str
    size: int


class Point(NamedTuple):
    x: int
    y: int


@listed
class FromElsewhere(BaseModel):
    options: Options
    point: Point


@dataclass
class Part:
    name: str
    count: int = 1


@listed
class Assembly(BaseModel):
    parts: list[Part] = Field(max_length=3)


@listed
@pydantic_dataclass
class Vehicle:
    wheels: int
    name: str = "car"


@listed
class Späße(BaseModel):
    straße: str = Field(max_length=30)
    größe: int


@listed
class Step(BaseModel):
    explanation: str
    output: str


@listed
class Reasoned(BaseModel):
    steps: list[Step] = Field(max_length=3)
    final_answer: str


SAYS_LESS = {"Money", "Price", "Page", "Contact"}
"""Their schemas say less than the models check: any text for a decimal, any scheme for a URL, a host without a period in an address. The schema is the
measure then."""
