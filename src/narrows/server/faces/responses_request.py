"""The body of `POST /v1/responses` as a chat. Field names are OpenAI's (API reference, "Create a model response")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import InstanceOf

from narrows import json_pieces
from narrows.errors import UnsupportedError
from narrows.limits import Limits
from narrows.server.errors import RequestError
from narrows.server.faces import custom_input
from narrows.server.faces.reading import Fields, left_out, top, unknown
from narrows.server.faces.responses_items import Conversation
from narrows.server.faces.responses_references import References
from narrows.server.fields import Model, Object, Strings, check_items
from narrows.server.places import Places
from narrows.server.protocol import ChatRequest, read
from narrows.server.remembered import Response

Objects = InstanceOf[list[dict[str, Any]]]
_INSTEAD = {
    "response_format": "text.format",
    "response_format of type json_object": "text.format of type json_object",
    "tools in /v1/chat/completions": "tools",
    "max_tokens": "max_output_tokens",
}
_LOGPROBS = "message.output_text.logprobs"


class ResponsesRequest(Model):
    """POST /v1/responses. The shared fields of the server's page may stand beside these."""

    model: str | None = None
    input: str | Objects | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: Objects | None = None
    tool_choice: str | Object | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    include: Strings | None = None
    text: Object | None = None
    reasoning: Object | None = None
    metadata: Object | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: Object | None = None
    truncation: str | None = None
    background: bool | None = None
    conversation: str | Object | None = None
    prompt: Object | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: str | None = None


@dataclass(slots=True)
class ResponsesChat:
    """A body that was read."""

    inner: ChatRequest
    sent: ResponsesRequest
    items: list[Any]
    """The conversation: the items before, and those of the input, with what it refers to."""
    custom: frozenset[str] = field(default_factory=frozenset)
    """The names of the custom tools."""

    def unknown_fields(self) -> list[str]:
        """For a warning."""
        return sorted(self.sent.model_extra or {})


def read_responses(body: Any, limits: Limits, before: Callable[[str], Response | None]) -> ResponsesChat:
    """The body as a chat. `before`: the response of an id, if it is remembered. Raises `InputError` and `LimitError`
    with pointers into the body."""
    sent, chat = top(ResponsesRequest, body, limits, _INSTEAD)
    _refuse_what_is_not_there(sent)
    talk = Conversation()
    if sent.instructions is not None:
        talk.say("system", sent.instructions, "/instructions", "/instructions")
    items: list[Any] = []
    if sent.previous_response_id is not None:
        known = before(sent.previous_response_id)
        if known is None:
            raise RequestError(
                "the previous response is not known here, or no longer",
                code="previous_response_not_found",
                pointer="/previous_response_id",
                hint="Send the whole conversation as input",
            )
        items = json_pieces.parse(known.items, limits)
        for item in items:
            talk.add(item, "/previous_response_id")
    if isinstance(sent.input, str):
        talk.say("user", sent.input, "/input", "/input")
        given = [{"type": "message", "role": "user", "content": sent.input}]
    else:
        references = References(before, limits)
        given = [references.resolved(item, f"/input/{i}") for i, item in enumerate(sent.input or ())]
        for i, item in enumerate(given):
            talk.add(item, f"/input/{i}")
    if not given and not items:
        raise RequestError("input must not be empty", code="missing_field", pointer="/input")
    places = talk.places
    places["/messages"] = "/input"
    chat |= {"messages": talk.messages, "model": sent.model, "stream": bool(sent.stream)}
    for name in ("parallel_tool_calls", "max_tool_calls", "temperature", "top_p"):
        chat[name] = getattr(sent, name)
    if sent.max_output_tokens is not None:
        chat["max_completion_tokens"] = sent.max_output_tokens
    for name in ("max_completion_tokens", "max_tokens"):
        places[f"/{name}"] = "/max_output_tokens"
    if _LOGPROBS in (sent.include or ()):
        chat |= {"logprobs": True, "top_logprobs": sent.top_logprobs or 0}
    _read_text(sent, chat, places)
    if sent.reasoning is not None:
        chat["reasoning_effort"] = sent.reasoning.get("effort")
        places["/reasoning_effort"] = "/reasoning/effort"
    kinds, inputs = _read_tools(sent, chat, places)
    _read_choice(sent, kinds, chat, places)
    inner = read(ChatRequest, chat, limits, Places(places))
    inner.hold_inputs(inputs)
    inner.leave_logprobs_to_content()
    custom = frozenset(name for name, kind in kinds.items() if kind == "custom")
    return ResponsesChat(inner, sent, [*items, *given], custom)


def _refuse_what_is_not_there(sent: ResponsesRequest) -> None:
    if sent.background:
        raise left_out("background", "/background")
    for name in ("conversation", "prompt"):
        if getattr(sent, name) is not None:
            raise left_out(name, f"/{name}", "Send the conversation as input, or use previous_response_id")
    check_items(sent.include or (), str, "/include")
    metadata = Fields(sent.metadata or {}, "/metadata")
    for name in metadata.all:
        metadata.text(name)


def _read_text(sent: ResponsesRequest, chat: dict[str, Any], places: dict[str, str]) -> None:
    if sent.text is None:
        return
    text = Fields(sent.text, "/text")
    text.only(("format",), ("verbosity",))
    if text.all.get("format") is None:
        return
    shape = Fields(text.all["format"], "/text/format")
    places["/response_format"] = "/text/format"
    if shape.text("type") == "json_schema":
        chat["response_format"] = {
            "type": "json_schema",
            "json_schema": {name: value for name, value in shape.all.items() if name != "type"},
        }
        places["/response_format/json_schema"] = "/text/format"
    else:
        chat["response_format"] = shape.all


def _read_tools(
    sent: ResponsesRequest, chat: dict[str, Any], places: dict[str, str]
) -> tuple[dict[str, str], dict[int, list[str]]]:
    """The kind of each tool by its name, and the grammars of custom tools' inputs."""
    kinds: dict[str, str] = {}
    inputs: dict[int, list[str]] = {}
    tools: list[dict[str, Any]] = []
    for i, tool in enumerate(Fields({"tools": sent.tools}, "").objects("tools")):
        kind = tool.text("type")
        if kind not in ("function", "custom"):
            raise UnsupportedError(
                "tools are functions and custom tools, which the client runs",
                pointer=tool.at("type"),
                code="tool_unsupported",
                hint="Leave tools out that OpenAI's servers run",
            )
        kinds.setdefault(tool.text("name"), kind)
        function = {name: value for name, value in tool.all.items() if name != "type"}
        if function.get("allowed_callers") == ["direct"]:
            del function["allowed_callers"]
        if kind == "custom":
            function, grammar = _custom(tool)
            if grammar is not None:
                inputs[i] = grammar
        tools.append({"type": "function", "function": function})
        places[f"/tools/{i}/function"] = tool.pointer
        places[f"/tools/{i}/function/input_grammar"] = f"{tool.pointer}/format/definition"
    chat["tools"] = tools
    return kinds, inputs


def _custom(tool: Fields) -> tuple[dict[str, Any], list[str] | None]:
    """A custom tool as a function of one string, and the grammar of that."""
    tool.only(("type", "name", "description", "format"))
    says, grammar = "The input, as plain text.", None
    if tool.all.get("format") is not None:
        shape = Fields(tool.all["format"], tool.at("format"))
        if shape.one_of("type", ("text", "grammar")) == "grammar":
            shape.only(("type", "syntax", "definition"))
            grammar = [shape.one_of("syntax", ("lark", "regex")), shape.text("definition")]
            says = f"The input. It fits this {'Lark grammar' if grammar[0] == 'lark' else 'regex'}:\n{grammar[1]}"
        else:
            shape.only(("type",))
    function = {"name": tool.text("name"), "parameters": custom_input.parameters(says)}
    if tool.all.get("description") is not None:
        function["description"] = tool.text("description")
    return function, grammar


def _read_choice(sent: ResponsesRequest, kinds: dict[str, str], chat: dict[str, Any], places: dict[str, str]) -> None:
    choice = sent.tool_choice
    if choice is None or isinstance(choice, str):
        chat["tool_choice"] = choice
        return
    fields = Fields(choice, "/tool_choice")
    kind = fields.one_of("type", ("function", "custom", "allowed_tools"))
    if kind == "allowed_tools":
        fields.only(("type", "mode", "tools"))
        tools = [_named(tool, kinds) for tool in fields.objects("tools")]
        chat["tool_choice"] = {"type": kind, kind: {"mode": fields.text("mode"), "tools": tools}}
        places["/tool_choice/allowed_tools"] = "/tool_choice"
        for i in range(len(tools)):
            places[f"/tool_choice/allowed_tools/tools/{i}/function"] = f"/tool_choice/tools/{i}"
    else:
        chat["tool_choice"] = _named(fields, kinds)
        places["/tool_choice/function"] = "/tool_choice"


def _named(fields: Fields, kinds: dict[str, str]) -> dict[str, Any]:
    kind, name = fields.one_of("type", ("function", "custom")), fields.text("name")
    fields.only(("type", "name"))
    if kinds.get(name, kind) != kind:
        raise unknown(name, [name for name, other in kinds.items() if other == kind], fields.at("name"))
    return {"type": "function", "function": {"name": name}}
