"""The bodies of Ollama's `/api/chat` and `/api/generate` as chats. Field names are Ollama's (its `docs/api.md`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import InstanceOf

from narrows.arguments import quoted
from narrows.errors import InputError
from narrows.limits import Limits
from narrows.server import foreign
from narrows.server.errors import RequestError
from narrows.server.faces.reading import Fields, left_out, top
from narrows.server.fields import Model, Object, Strings
from narrows.server.places import Places
from narrows.server.protocol import ChatRequest, read

Objects = InstanceOf[list[dict[str, Any]]]
_INSTEAD = {
    "response_format": "format",
    "response_format of type json_object": 'format "json"',
    "tools in /v1/chat/completions": "tools in /api/chat",
    "max_tokens": "options.num_predict",
}
_OPTIONS = {
    "num_predict": "max_tokens",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "seed": "seed",
    "stop": "stop",
    "repeat_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Ollama's option -> our field."""


class _Body(Model):
    model: str
    format: str | Object | None = None
    options: Object | None = None
    stream: bool | None = None
    think: bool | str | None = None
    keep_alive: str | float | None = None


class OllamaChatRequest(_Body):
    """POST /api/chat. The shared fields of the server's page may stand beside these. `tool_choice` and the fields after
    it are those of chat completions."""

    messages: Objects
    tools: Objects | None = None
    tool_choice: str | Object | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = None


class OllamaGenerateRequest(_Body):
    """POST /api/generate. The shared fields of the server's page may stand beside these."""

    prompt: str
    system: str | None = None
    suffix: str | None = None
    template: str | None = None
    raw: bool | None = None
    context: InstanceOf[list[int]] | None = None
    images: Strings | None = None


@dataclass(slots=True)
class OllamaChat:
    """A body that was read."""

    inner: ChatRequest
    unknown: list[str]

    def unknown_fields(self) -> list[str]:
        """For a warning."""
        return self.unknown


def read_chat(body: Any, limits: Limits) -> OllamaChat:
    """The body of /api/chat. Raises `InputError` and `LimitError` with pointers into the body."""
    sent, chat = top(OllamaChatRequest, body, limits, _INSTEAD)
    places: dict[str, str] = {}
    names: list[str] = []
    """Ids of calls that have no result yet. Ollama's calls have none, and results come in their order."""
    messages = []
    for i, message in enumerate(sent.messages):
        messages.append(_message(Fields(message, f"/messages/{i}"), names, places))
    for name in ("tools", "tool_choice", "parallel_tool_calls", "max_tool_calls"):
        chat[name] = getattr(sent, name)
    return _finished(sent, chat, messages, places, limits)


def read_generate(body: Any, limits: Limits) -> OllamaChat:
    """The body of /api/generate, as a conversation of one message."""
    sent, chat = top(OllamaGenerateRequest, body, limits, _INSTEAD)
    for name in ("suffix", "template", "raw", "context"):
        if getattr(sent, name):
            raise left_out(name, f"/{name}", "Use /v1/completions" if name == "raw" else "Leave it out")
    _refuse_images(Fields({"images": sent.images}, ""))
    messages: list[dict[str, Any]] = []
    places: dict[str, str] = {}
    for role, text, place in (("system", sent.system, "/system"), ("user", sent.prompt, "/prompt")):
        if text or role == "user":
            places[f"/messages/{len(messages)}"] = places[f"/messages/{len(messages)}/content"] = place
            messages.append({"role": role, "content": text})
    places["/messages"] = "/prompt"
    return _finished(sent, chat, messages, places, limits)


def _finished(
    sent: _Body, chat: dict[str, Any], messages: list[dict[str, Any]], places: dict[str, str], limits: Limits
) -> OllamaChat:
    """The chat, with what both bodies have."""
    chat |= {"messages": messages, "model": sent.model, "stream": sent.stream is not False}
    options = Fields(sent.options or {}, "/options")
    others = {name: value for name, value in options.all.items() if name not in _OPTIONS}
    foreign.check_top({"options": others}, (), limits, _INSTEAD)
    for name, ours in _OPTIONS.items():
        value = options.all.get(name)
        if value is not None and not (name == "num_predict" and value in (-1, -2)):  # -1, -2: as many as fit
            chat[ours] = value
            places[f"/{ours}"] = options.at(name)
    if isinstance(sent.format, str) and sent.format not in ("", "json"):
        raise InputError(
            f'format is "json" or a schema, not {quoted(sent.format)}', pointer="/format", code="invalid_value"
        )
    if sent.format == "json":
        chat["response_format"] = {"type": "json_object"}
    elif sent.format:
        chat["response_format"] = {"type": "json_schema", "json_schema": {"schema": sent.format}}
    places["/response_format"] = places["/response_format/json_schema/schema"] = "/format"
    _read_think(sent.think, chat)
    unknown = sorted(sent.model_extra or {}) + [f"options.{name}" for name in others]
    return OllamaChat(read(ChatRequest, chat, limits, Places(places)), unknown)


def _read_think(think: bool | str | None, chat: dict[str, Any]) -> None:
    if think is None:
        return
    if isinstance(think, str) and think not in ("low", "medium", "high"):
        raise InputError(
            f"think is a boolean, low, medium or high, not {quoted(think)}", pointer="/think", code="invalid_value"
        )
    if isinstance(think, str):
        chat["reasoning_effort"] = think
    given = chat.get("chat_template_kwargs")
    if given is None or isinstance(given, dict):
        chat["chat_template_kwargs"] = {"enable_thinking": think is not False, **(given or {})}


def _message(message: Fields, waiting: list[str], places: dict[str, str]) -> dict[str, Any]:
    role = message.one_of("role", ("system", "user", "assistant", "tool"))
    _refuse_images(message)
    made: dict[str, Any] = {"role": role, "content": message.text("content", "")}
    if message.all.get("thinking") is not None:
        made["reasoning_content"] = message.text("thinking")
    calls = []
    for k, call in enumerate(message.objects("tool_calls")):
        function = Fields(call.all.get("function"), call.at("function"))
        arguments = Fields(function.all.get("arguments", {}), function.at("arguments")).all
        waiting.append(f"{message.pointer[1:]}/{k}")
        inner = {"name": function.text("name"), "arguments": arguments}
        calls.append({"id": waiting[-1], "type": "function", "function": inner})
    if calls:
        made["tool_calls"] = calls
    if role == "tool":
        made["tool_call_id"] = waiting.pop(0) if waiting else "unknown"
        places[f"{message.pointer}/tool_call_id"] = message.pointer
        name = message.text("tool_name", "")
        if name:
            made["name"] = name
    return made


def _refuse_images(fields: Fields) -> None:
    if fields.all.get("images"):
        raise RequestError(
            "this model reads only text, not images", pointer=fields.at("images"), code="content_part_unsupported"
        )
