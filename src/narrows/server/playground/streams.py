"""A transcript in a wire format: the events of its chunks, beside those of the complete text.

Cost: linear in the text, some microseconds a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from narrows import formats
from narrows.arguments import quoted
from narrows.errors import InputError, NarrowsError
from narrows.stream.message import collect

if TYPE_CHECKING:
    from narrows.events import Event
    from narrows.formats import Format

MOST_CHARACTERS = 20_000
"""Characters of a transcript."""
_CALL = {"type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Zürich", "days": 3}'}}
_MESSAGES: tuple[dict[str, Any], ...] = (
    {"role": "assistant", "content": "Let me look.", "tool_calls": [_CALL]},
    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
)


def format_named(name: str, pointer: str) -> Format:
    """A format of narrows. Raises `InputError` code `format_unknown`."""
    if name not in formats.names():
        raise InputError(
            f"there is no format {quoted(name)}",
            code="format_unknown",
            pointer=pointer,
            hint=f"There are {', '.join(formats.names())}",
        )
    return formats.get(name)


def parse(
    fmt: Format, text: str, chunk: int, tools: Any, prompt: str, reasoning: str | None, given_up: Callable[[], bool]
) -> dict[str, Any]:
    """The events of the text in chunks of `chunk` characters, each with the number of its chunk, and whether they add
    up to the message of the complete text and to the same pieces of it."""
    options: dict[str, Any] = {"tools": tools, "prompt": prompt, "reasoning": reasoning, "id_factory": str}
    parser = fmt.parser(**options)
    events: list[tuple[int, Event]] = []
    number = 0
    for number, start in enumerate(range(0, len(text), chunk)):
        if given_up():
            break
        events += [(number, event) for event in parser.feed(text[start : start + chunk])]
    events += [(number, event) for event in parser.finish()]
    whole = fmt.parser(**options)
    complete = [*whole.feed(text), *whole.finish()]
    message = collect(complete)
    in_chunks = [event for _, event in events]
    return {
        "events": [[number, type(event).__name__, asdict(event)] for number, event in events],
        "chunks": number + 1,
        "message": message.to_dict(),
        "equal": collect(in_chunks) == message and _texts(in_chunks) == _texts(complete),
    }


def _texts(events: Iterable[Event]) -> list[list[Any]]:
    """The kinds and texts of events, where pieces of one kind are joined."""
    joined: list[list[Any]] = []
    for event in events:
        fields = asdict(event)
        fields.pop("span")
        kind = [type(event).__name__, fields.get("index")]
        if "text" in fields and joined and joined[-1][0] == kind:
            joined[-1][1] += fields["text"]
        else:
            joined.append([kind, fields.get("text", fields)])
    return joined


def example(fmt: Format) -> str:
    """A transcript in this format."""
    for message in _MESSAGES:
        try:
            return fmt.render(message)
        except NarrowsError:
            continue
    return ""


def detect(template: str) -> dict[str, Any]:
    """What a chat template gives away."""
    found = formats.detect(template)
    return {
        "format": found.name,
        "confidence": found.confidence,
        "reason": found.reason,
        "candidates": list(found.candidates),
        "reasoning": found.reasoning,
        "reasoning_reason": found.reasoning_reason,
    }
