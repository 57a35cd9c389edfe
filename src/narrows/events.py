"""The events that a stream parser reports, in order.

Every event has `span`, the half-open range of the input that it comes from. It counts characters, or bytes if the
parser is fed bytes, or positions in the tokens' text if it is fed ids. Spans never overlap and never go back. Input
between spans is markup.

Events are values: they can be compared and hashed. Do not change them. They are not frozen, because that makes them
three times as slow to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union


@dataclass(slots=True, unsafe_hash=True)
class Reasoning:
    """A piece of the model's reasoning."""

    text: str
    """A piece of at least one character."""
    span: tuple[int, int]
    """The half-open range of the input that it comes from."""


@dataclass(slots=True, unsafe_hash=True)
class Content:
    """A piece of the text for the user."""

    text: str
    """A piece of at least one character."""
    span: tuple[int, int]
    """The half-open range of the input that it comes from."""


@dataclass(slots=True, unsafe_hash=True)
class ToolCallStart:
    """A call begins. Its name is complete and final. `known` is False if tools were given and none has this name."""

    index: int
    """Of the call in its answer, from 0."""
    id: str
    """What the wire carries, or one that the parser made. It does not change."""
    name: str
    """As the model wrote it."""
    span: tuple[int, int]
    """The half-open range of the input that it comes from."""
    known: bool = True


@dataclass(slots=True, unsafe_hash=True)
class ToolCallArguments:
    """A piece of the call's arguments. The pieces of one call concatenate to its arguments, a JSON object if the call
    is complete."""

    index: int
    """Of the call."""
    text: str
    """A piece of JSON text."""
    span: tuple[int, int]
    """The half-open range of the input that it comes from."""


@dataclass(slots=True, unsafe_hash=True)
class ToolCallEnd:
    """The call ends. `complete` is False if it was cut or malformed, and `reason` says why."""

    index: int
    """Of the call."""
    complete: bool
    reason: str | None
    span: tuple[int, int]
    """The half-open range of the input that it comes from."""


Event = Union[Reasoning, Content, ToolCallStart, ToolCallArguments, ToolCallEnd]
"""What a parser reports. `isinstance` tells which."""
