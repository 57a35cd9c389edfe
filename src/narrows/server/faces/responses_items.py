"""The items of the Responses API as the messages of a chat, with the place of each.

An assistant's turn is one message: its reasoning, its text and its calls, though they are items of their own.
"""

from __future__ import annotations

from typing import Any

from narrows.arguments import quoted
from narrows.errors import UnsupportedError
from narrows.server.faces import custom_input
from narrows.server.faces.reading import Fields

_ROLES = ("user", "assistant", "system", "developer")


class Conversation:
    """Messages as they are added. `places`: pointer into them -> pointer into the body."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.places: dict[str, str] = {}
        self._turn: dict[str, Any] | None = None
        """The assistant's message that further items belong to."""

    def say(self, role: str, content: Any, place: str, content_place: str) -> None:
        """Add a message that is no item."""
        self._turn = None
        self._add({"role": role, "content": content}, place)
        self.places[f"{self._last}/content"] = content_place

    def add(self, item: Any, place: str) -> None:
        """Add an item that stands at `place`. Raises `RequestError`, and `UnsupportedError` for other kinds."""
        fields = Fields(item, place)
        kind = fields.text("type", "message")
        reader = _READERS.get(kind)
        if reader is None:
            raise UnsupportedError(
                f"items of type {quoted(kind)} are not supported",
                pointer=fields.at("type"),
                code="item_unsupported",
                hint=f"There are {', '.join(_READERS)}",
            )
        reader(self, fields)

    @property
    def _last(self) -> str:
        return f"/messages/{len(self.messages) - 1}"

    def _add(self, message: dict[str, Any], place: str) -> None:
        self.messages.append(message)
        self.places[self._last] = place

    def _message(self, fields: Fields) -> None:
        role = fields.one_of("role", _ROLES)
        content = fields.all.get("content")
        if not isinstance(content, list):
            content = fields.text("content")
        if role != "assistant":
            self._turn = None
            self._add({"role": role, "content": content}, fields.pointer)
        elif self._turn is None or self._turn["content"] is not None or "tool_calls" in self._turn:
            self._turn = {"role": role, "content": content}
            self._add(self._turn, fields.pointer)
        else:  # after its reasoning
            self._turn["content"] = content
            self.places[f"{self._last}/content"] = fields.at("content")

    def _reasoning(self, fields: Fields) -> None:
        parts = [*fields.objects("content")] or [*fields.objects("summary")]
        text = "".join(part.text("text") for part in parts)
        if not text:
            return  # only its owner can read what is encrypted
        if self._turn is None or self._turn["content"] is not None or "tool_calls" in self._turn:
            self._turn = {"role": "assistant", "content": None, "reasoning_content": text}
            self._add(self._turn, fields.pointer)
        else:
            self._turn["reasoning_content"] = self._turn.get("reasoning_content", "") + text

    def _function_call(self, fields: Fields) -> None:
        self._call(fields, fields.text("arguments"), "arguments")

    def _custom_call(self, fields: Fields) -> None:
        self._call(fields, custom_input.arguments(fields.text("input")), "input")

    def _call(self, fields: Fields, arguments: str, name: str) -> None:
        function = {"name": fields.text("name"), "arguments": arguments}
        if self._turn is None:
            self._turn = {"role": "assistant", "content": None}
            self._add(self._turn, fields.pointer)
        calls = self._turn.setdefault("tool_calls", [])
        calls.append({"id": fields.text("call_id"), "type": "function", "function": function})
        inner = f"{self._last}/tool_calls/{len(calls) - 1}"
        self.places[inner] = self.places[f"{inner}/function"] = fields.pointer
        self.places[f"{inner}/id"] = fields.at("call_id")
        self.places[f"{inner}/function/arguments"] = fields.at(name)

    def _output(self, fields: Fields) -> None:
        self._turn = None
        output = fields.all.get("output")
        if not isinstance(output, list):
            output = fields.text("output")
        self._add({"role": "tool", "tool_call_id": fields.text("call_id"), "content": output}, fields.pointer)
        self.places[f"{self._last}/content"] = fields.at("output")
        self.places[f"{self._last}/tool_call_id"] = fields.at("call_id")


_READERS = {
    "message": Conversation._message,
    "reasoning": Conversation._reasoning,
    "function_call": Conversation._function_call,
    "function_call_output": Conversation._output,
    "custom_tool_call": Conversation._custom_call,
    "custom_tool_call_output": Conversation._output,
}
