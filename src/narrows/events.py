"""What a stream parser reports, in order, as the text flows.

Every event has `span`, the half-open range of input characters (bytes, when fed bytes; tokens' text positions, when fed
ids) that it accounts for. Spans never overlap and never go back. What lies between them is markup.

Events are values: compare and hash them, and do not change them. They are not frozen, since that makes them three times
as slow to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union


@dataclass(slots=True, unsafe_hash=True)
class Reasoning:
    """A piece of the model's reasoning."""

    text: str
    span: tuple[int, int]


@dataclass(slots=True, unsafe_hash=True)
class Content:
    """A piece of the text meant for the user."""

    text: str
    span: tuple[int, int]


@dataclass(slots=True, unsafe_hash=True)
class ToolCallStart:
    """A call begins. Its name is whole and final; `known` is False where tools were given and none has this name."""

    index: int
    id: str
    name: str
    span: tuple[int, int]
    known: bool = True


@dataclass(slots=True, unsafe_hash=True)
class ToolCallArguments:
    """A piece of the call's arguments; the pieces of one call concatenate to its arguments, a JSON object when
    complete."""

    index: int
    text: str
    span: tuple[int, int]


@dataclass(slots=True, unsafe_hash=True)
class ToolCallEnd:
    """The call is over. `complete` is False where it was cut or malformed, and `reason` says why."""

    index: int
    complete: bool
    reason: str | None
    span: tuple[int, int]


Event = Union[Reasoning, Content, ToolCallStart, ToolCallArguments, ToolCallEnd]
