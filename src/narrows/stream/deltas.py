"""Events as the deltas of OpenAI's chat stream, and the message that the deltas add up to. Pure functions, linear.

What a client may rely on:
- A call's id, type and name come once, before its arguments. Later deltas of the call do not have these fields (they
  are absent, not null).
- Arguments and content come as they are. Calls follow one another by index and never interleave.
- A delta is of one kind, and never empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart

Delta = dict[str, Any]


class Deltas:
    """Turns the events of one answer into deltas."""

    def __init__(self, include_reasoning: bool = True) -> None:
        self._include_reasoning = include_reasoning
        self.has_call = False
        """Whether the answer has a whole call so far."""
        self.in_call = False
        """Whether the last call so far is not whole: it is being written, or was cut."""

    def of(self, events: Iterable[Event]) -> list[Delta]:
        """The deltas of these events. Adjacent events of one kind are one delta."""
        deltas: list[Delta] = []
        previous: tuple[type[Event], int] | None = None
        for event in events:
            if isinstance(event, ToolCallEnd):
                self.has_call = self.has_call or event.complete
                self.in_call = not event.complete
                continue
            if isinstance(event, ToolCallStart):
                self.in_call = True
                function = {"name": event.name, "arguments": ""}
                deltas.append(
                    {"tool_calls": [{"index": event.index, "id": event.id, "type": "function", "function": function}]}
                )
                previous = None
                continue
            if not event.text or (isinstance(event, Reasoning) and not self._include_reasoning):
                continue
            key = (type(event), event.index if isinstance(event, ToolCallArguments) else 0)
            if key == previous:
                _append(deltas[-1], event)
            else:
                deltas.append(_delta(event))
            previous = key
        return deltas


def _delta(event: Event) -> Delta:
    if isinstance(event, Content):
        return {"content": event.text}
    if isinstance(event, Reasoning):
        # Both spellings are in use: vLLM and OpenRouter write the first, DeepSeek and SGLang the second.
        return {"reasoning": event.text, "reasoning_content": event.text}
    assert isinstance(event, ToolCallArguments)
    return {"tool_calls": [{"index": event.index, "function": {"arguments": event.text}}]}


def _append(delta: Delta, event: Event) -> None:
    if isinstance(event, ToolCallArguments):
        delta["tool_calls"][0]["function"]["arguments"] += event.text
    elif isinstance(event, (Content, Reasoning)):
        for key in delta:
            delta[key] += event.text


def message_of(deltas: Iterable[Delta]) -> dict[str, Any]:
    """The assistant's message of a complete answer, from all deltas of its stream. `content` is null beside calls if
    there is none."""
    texts: dict[str, list[str]] = {}
    calls: list[dict[str, Any]] = []
    arguments: list[list[str]] = []
    for delta in deltas:
        for key in ("content", "reasoning", "reasoning_content"):
            if delta.get(key):
                texts.setdefault(key, []).append(delta[key])
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                calls.append({"id": call["id"], "type": "function", "function": {"name": call["function"]["name"]}})
                arguments.append([])
            arguments[call["index"]].append(call["function"]["arguments"])
    for call, pieces in zip(calls, arguments, strict=True):
        call["function"]["arguments"] = "".join(pieces)
    content = "".join(texts.get("content", ()))
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content if content or not calls else None,
        "refusal": None,
    }
    for key in ("reasoning", "reasoning_content"):
        if key in texts:
            message[key] = "".join(texts[key])
    if calls:
        message["tool_calls"] = calls
    return message
