"""The body of `POST /v1/messages` as a chat. Field names are Anthropic's (API reference, "Create a Message")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import InstanceOf

from narrows.arguments import quoted
from narrows.errors import UnsupportedError
from narrows.limits import Limits
from narrows.server.errors import RequestError
from narrows.server.faces.reading import Fields, top
from narrows.server.fields import Model, Object, Strings
from narrows.server.places import Places
from narrows.server.protocol import ChatRequest, read

Objects = InstanceOf[list[dict[str, Any]]]
_INSTEAD = {
    "response_format": "output_config.format",
    "response_format of type json_object": "output_config.format",
    "tools in /v1/chat/completions": "tools",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "stop": "stop_sequences",
}
_THINKS = {"enabled": True, "adaptive": True, "disabled": False}


class CountRequest(Model):
    """POST /v1/messages/count_tokens."""

    model: str | None = None
    messages: Objects
    system: str | Objects | None = None
    tools: Objects | None = None
    tool_choice: Object | None = None
    thinking: Object | None = None
    output_config: Object | None = None


class MessagesRequest(CountRequest):
    """POST /v1/messages. The shared fields of the server's page may stand beside these."""

    max_tokens: int
    stop_sequences: Strings | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stream: bool | None = None
    metadata: Object | None = None
    service_tier: str | None = None


@dataclass(slots=True)
class MessagesChat:
    """A body that was read."""

    inner: ChatRequest
    sent: CountRequest

    def unknown_fields(self) -> list[str]:
        """For a warning."""
        return sorted(self.sent.model_extra or {})


def read_messages(body: Any, limits: Limits, model: type[CountRequest] = MessagesRequest) -> MessagesChat:
    """The body as a chat. Raises `InputError` and `LimitError` with pointers into the body."""
    sent, chat = top(model, body, limits, _INSTEAD)
    if (sent.model_extra or {}).get("mcp_servers"):
        raise UnsupportedError(
            "this server does not connect to MCP servers",
            pointer="/mcp_servers",
            code="tool_unsupported",
            hint="Give their tools as tools, and run the calls yourself",
        )
    talk = _Conversation()
    if sent.system is not None:
        talk.add({"role": "system", "content": sent.system}, "/system")
        talk.places["/messages/0/content"] = "/system"
    for i, message in enumerate(sent.messages):
        talk.read(Fields(message, f"/messages/{i}"))
    places = talk.places
    chat |= {"messages": talk.messages, "model": sent.model}
    last = talk.messages[-1]["role"] if talk.messages else ""
    if last == "assistant":  # it is continued
        chat |= {"continue_final_message": True, "add_generation_prompt": False}
    if isinstance(sent, MessagesRequest):
        chat |= {"stream": bool(sent.stream), "max_tokens": sent.max_tokens, "stop": sent.stop_sequences}
        places["/stop"] = "/stop_sequences"
        for name in ("temperature", "top_p", "top_k"):
            chat[name] = getattr(sent, name)
    _read_tools(sent, chat, places)
    _read_choice(sent, chat, places)
    if sent.thinking is not None:
        kind = Fields(sent.thinking, "/thinking").one_of("type", _THINKS)
        given = chat.get("chat_template_kwargs")
        if given is None or isinstance(given, dict):
            chat["chat_template_kwargs"] = {"enable_thinking": _THINKS[kind], **(given or {})}
        if kind == "enabled" and "thinking_token_budget" not in chat:
            chat["thinking_token_budget"] = sent.thinking.get("budget_tokens")
            places["/thinking_token_budget"] = "/thinking/budget_tokens"
    if sent.output_config is not None:
        _read_output(Fields(sent.output_config, "/output_config"), chat, places)
    return MessagesChat(read(ChatRequest, chat, limits, Places(places)), sent)


def _read_output(config: Fields, chat: dict[str, Any], places: dict[str, str]) -> None:
    config.only(("effort", "format"))
    if config.all.get("effort") is not None:
        chat["reasoning_effort"] = config.text("effort")
    if config.all.get("format") is not None:
        shape = Fields(config.all["format"], config.at("format"))
        shape.only(("type", "schema"))
        shape.one_of("type", ("json_schema",))
        inner = {"schema": shape.all.get("schema"), "strict": True}
        chat["response_format"] = {"type": "json_schema", "json_schema": inner}
        places["/response_format"] = places["/response_format/json_schema"] = shape.pointer


def _read_tools(sent: CountRequest, chat: dict[str, Any], places: dict[str, str]) -> None:
    tools = []
    for i, tool in enumerate(Fields({"tools": sent.tools}, "").objects("tools")):
        if tool.text("type", "custom") != "custom":
            raise UnsupportedError(
                "tools are those that the client runs and describes",
                pointer=tool.at("type"),
                code="tool_unsupported",
                hint="Leave tools out that Anthropic defines",
            )
        apart = ("type", "input_schema", "eager_input_streaming")
        function = {name: value for name, value in tool.all.items() if name not in apart}
        if function.get("allowed_callers") == ["direct"]:
            del function["allowed_callers"]
        if "input_schema" not in tool.all and "name" in tool.all:
            raise RequestError("Field required", code="missing_field", pointer=tool.at("input_schema"))
        function["parameters"] = tool.all.get("input_schema")
        tools.append({"type": "function", "function": function})
        places[f"/tools/{i}/function"] = tool.pointer
        places[f"/tools/{i}/function/parameters"] = tool.at("input_schema")
    chat["tools"] = tools


def _read_choice(sent: CountRequest, chat: dict[str, Any], places: dict[str, str]) -> None:
    if sent.tool_choice is None:
        return
    choice = Fields(sent.tool_choice, "/tool_choice")
    kind = choice.one_of("type", ("auto", "any", "tool", "none"))
    choice.only(("type", "disable_parallel_tool_use", *(("name",) if kind == "tool" else ())))
    if choice.flag("disable_parallel_tool_use"):
        chat["parallel_tool_calls"] = False
    if kind == "tool":
        chat["tool_choice"] = {"type": "function", "function": {"name": choice.text("name")}}
        places["/tool_choice/function"] = "/tool_choice"
    else:
        chat["tool_choice"] = "required" if kind == "any" else kind


class _Conversation:
    """Messages of a chat, from messages whose content is blocks."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.places: dict[str, str] = {}

    def add(self, message: dict[str, Any], place: str) -> str:
        """Add a message. Returns the pointer to it."""
        inner = f"/messages/{len(self.messages)}"
        self.messages.append(message)
        self.places[inner] = place
        return inner

    def read(self, message: Fields) -> None:
        role = message.one_of("role", ("user", "assistant"))
        content = message.all.get("content")
        if not isinstance(content, list):
            self.add({"role": role, "content": message.text("content")}, message.pointer)
        elif role == "user":
            self._user(message)
        else:
            self._assistant(message)

    def _user(self, message: Fields) -> None:
        """Text, and results of tools, each a message of its own."""
        texts: list[Any] = []
        inner = ""
        for block in message.objects("content"):
            if block.text("type") == "tool_result":
                texts = []
                output = block.all.get("content")
                if not isinstance(output, list):
                    output = block.text("content", "")
                name = block.text("tool_use_id")
                result = self.add({"role": "tool", "tool_call_id": name, "content": output}, block.pointer)
                self.places[f"{result}/tool_call_id"] = block.at("tool_use_id")
                continue
            if not texts:
                inner = self.add({"role": "user", "content": texts}, message.pointer)
            self.places[f"{inner}/content/{len(texts)}"] = block.pointer
            texts.append(block.all)

    def _assistant(self, message: Fields) -> None:
        turn: dict[str, Any] = {"role": "assistant", "content": None}
        inner = self.add(turn, message.pointer)
        thoughts: list[str] = []
        for block in message.objects("content"):
            kind = block.text("type")
            if kind == "thinking":
                thoughts.append(block.text("thinking"))
            elif kind == "tool_use":
                arguments = Fields(block.all.get("input"), block.at("input")).all
                calls = turn.setdefault("tool_calls", [])
                function = {"name": block.text("name"), "arguments": arguments}
                own = f"{inner}/tool_calls/{len(calls)}"
                calls.append({"id": block.text("id"), "type": "function", "function": function})
                self.places[own] = self.places[f"{own}/function"] = block.pointer
                self.places[f"{own}/function/arguments"] = block.at("input")
            elif kind == "text":
                texts = turn["content"] = turn["content"] or []
                self.places[f"{inner}/content/{len(texts)}"] = block.pointer
                texts.append(block.all)
            elif kind != "redacted_thinking":  # which only its owner can read
                raise UnsupportedError(
                    f"blocks of type {quoted(kind)} are not supported",
                    pointer=block.at("type"),
                    code="content_part_unsupported",
                )
        if thoughts:
            turn["reasoning_content"] = "".join(thoughts)
        if (
            turn["content"] is not None
            and len(turn["content"]) == 1
            and isinstance(turn["content"][0].get("text"), str)
        ):
            turn["content"] = turn["content"][0]["text"]
