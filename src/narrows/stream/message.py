"""The complete answer: the message that the events of one stream add up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from narrows.events import Content, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from narrows.events import Event


@dataclass(slots=True)
class ToolCall:
    """One call. `arguments` is JSON text, an object when `complete`; `reason` says why it is not complete."""

    id: str
    """What the wire carried, or one that the parser made."""
    name: str
    """As the model wrote it."""
    arguments: str = ""
    complete: bool = False
    reason: str | None = None
    known: bool = True
    """False if tools were given and none has this name."""

    def to_dict(self) -> dict[str, Any]:
        """The call as in OpenAI's API."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(slots=True)
class Message:
    """What the model answered. `content` and `reasoning` are None where there is none."""

    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    """In the order in which they were written, those that were cut included."""

    def to_dict(self) -> dict[str, Any]:
        """An assistant message of OpenAI's chat API. `content` is always there; other parts only where they exist."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning is not None:
            message["reasoning"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        return message


def collect(events: Iterable[Event]) -> Message:
    """The message that the events of one stream add up to, in order. Linear."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    arguments: list[list[str]] = []
    for event in events:
        if isinstance(event, Content):
            content.append(event.text)
        elif isinstance(event, Reasoning):
            reasoning.append(event.text)
        elif isinstance(event, ToolCallStart):
            calls.append(ToolCall(event.id, event.name, known=event.known))
            arguments.append([])
        elif isinstance(event, ToolCallArguments):
            arguments[event.index].append(event.text)
        elif isinstance(event, ToolCallEnd):
            calls[event.index].complete, calls[event.index].reason = event.complete, event.reason
    for call, pieces in zip(calls, arguments, strict=False):
        call.arguments = "".join(pieces)
    return Message("".join(content) or None, "".join(reasoning) or None, calls)
