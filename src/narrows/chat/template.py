"""Renders chat messages to prompt text with the model's own template. No message can write a control token.

Promises:
- The text is the same as from transformers: the sandboxed jinja environment, filters and globals are the same.
- A template without a branch for tools (many small models) still gets them. The system message then describes the tools
  briefly, in Hermes' tags. Past calls are written in the wire format (Hermes' if none is given), and results as
  `<tool_response>`.
- The name of a control token inside a message, tool or argument stays text. Before rendering, `control_tokens.py`
  breaks each such name with one character that no text may contain. `encode` cuts the rendered prompt at the unbroken
  names, which are the template's own, and removes the character. Formats read the guarded text, so a `<think>` in a
  message does not open reasoning.

Cost: a template is compiled once. Rendering is linear in the text for every template seen so far. Run it off the event
loop.
"""

from __future__ import annotations

import datetime
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from narrows import formats, json_pieces
from narrows.arguments import quoted
from narrows.chat.control_tokens import BREAK, SpecialNames
from narrows.errors import EngineError, InputError, NarrowsError
from narrows.formats.render import render
from narrows.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from jinja2.parser import Parser

    from narrows.formats import Format

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The template for a model without one."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt. `guarded` is the text that formats read. `text` is the same without the breaks in names."""

    guarded: str
    tail: str
    """The end of `guarded` that opens the assistant's turn. It decides where the answer begins (inside `<think>`,
    inside a call). It is the same for most conversations, so that objects built from it can be cached."""

    @property
    def text(self) -> str:
        return self.guarded.replace(BREAK, "")

    def pieces(self, names: SpecialNames) -> Iterator[str]:
        """`guarded`, cut before each of the template's own control tokens."""
        last = end = 0
        for at, name in names.find(self.guarded):
            if at >= end:
                if at > last:
                    yield self.guarded[last:at]
                last, end = at, at + len(name)
        if last < len(self.guarded):
            yield self.guarded[last:]


class EncodedPieces:
    """A cache of the token ids of prompt pieces that may come again: tools and earlier turns of a conversation.

    Holds at most `room` characters, some 12 bytes each. Drops the least recently used first. Thread-safe.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self.characters = 0

    def get(self, piece: str, encode: Callable[[str], Sequence[int]]) -> tuple[int, ...]:
        with self._lock:
            ids = self._kept.get(piece)
            if ids is not None:
                self._kept.move_to_end(piece)
                return ids
        ids = tuple(encode(piece))
        if len(piece) <= self._room:
            with self._lock:
                if piece not in self._kept:
                    self._kept[piece] = ids
                    self.characters += len(piece)
                while self.characters > self._room:
                    self.characters -= len(self._kept.popitem(last=False)[0])
        return ids


class ChatTemplate:
    """The chat template of one model. Its abilities are found by rendering probes.

    `source` is jinja text (None: ChatML). `fmt` writes tool calls if the template cannot. The constructor raises
    `EngineError` for an invalid template. Rendering raises `InputError` (code `chat_template_refused`) if the template
    refuses the conversation.
    """

    def __init__(
        self,
        source: str | None,
        *,
        special: Mapping[str, int],
        bos_token: str = "",
        eos_token: str = "",
        fmt: Format | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.source = source or CHATML
        self.special = dict(special)
        self.names = SpecialNames(self.special)
        self.fmt = fmt or formats.get("hermes_json")
        self._tails: tuple[str, ...] = ()
        self._limits = limits
        self._encoded = EncodedPieces(limits.prompt_cache_characters)
        self._variables = {"bos_token": bos_token, "eos_token": eos_token}
        try:
            self._template = _environment().from_string(self.source)
        except TemplateError as error:
            raise EngineError(
                f"the model's chat template is not valid: {error}", code="chat_template_invalid"
            ) from error
        self.renders_tools = self._probe_tools()
        self.renders_system = self._probe([{"role": "system", "content": _PROBE}, {"role": "user", "content": "x"}])
        answer = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]
        self.renders_results = self._probe([*answer, {"role": "tool", "content": _PROBE}])
        self.arguments_as_text = self.renders_tools and self._probe_arguments_as_text()

    # Probes of the template. Its text does not show what it can do: a macro may contain the word "tools" and never use
    # it.

    def _probe(self, messages: list[dict[str, Any]], **variables: Any) -> bool:
        try:
            return _PROBE in self._run(messages, variables)
        except (InputError, EngineError):
            return False

    def _probe_tools(self) -> bool:
        tool = {
            "type": "function",
            "function": {"name": _PROBE, "description": "x", "parameters": {"type": "object", "properties": {}}},
        }
        return self._probe([{"role": "user", "content": "x"}], tools=[tool])

    def _probe_arguments_as_text(self) -> bool:
        """Whether the template concatenates the arguments as text. Most templates expect an object."""

        def attempt(arguments: Any) -> bool:
            call = {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": arguments}}
            user = {"role": "user", "content": "x"}
            assistant = {"role": "assistant", "content": "", "tool_calls": [call]}
            try:
                return _PROBE in (text := self._run([user, assistant])) and f"'{_PROBE}'" not in text
            except (InputError, EngineError):
                return False

        return not attempt({_PROBE: "x"}) and attempt(f'{{"{_PROBE}": "x"}}')

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        parallel: bool = True,
        continue_final: bool = False,
        variables: Mapping[str, Any] | None = None,
    ) -> Prompt:
        """The prompt for these messages, up to where the assistant's answer begins.

        `messages` and `tools` are in OpenAI's form (content may be a list of text parts). With `continue_final` the
        last message, which must be the assistant's, stays open so that the model continues it. Raises `InputError`.
        """
        turns = [_normalised(message, index, self._limits) for index, message in enumerate(messages)]
        guarded: list[dict[str, Any]] = [self.names.guard_value(turn) for turn in turns]
        described = [self.names.guard_value(tool) for tool in tools or ()]
        if not self.renders_tools:
            guarded = self._with_tools_in_text(guarded, described, parallel)
        elif self.arguments_as_text:
            for turn in guarded:
                for call in turn.get("tool_calls") or ():
                    call["function"]["arguments"] = _as_json(call["function"]["arguments"])
        extra = dict(variables or {})
        if self.renders_tools and described:
            extra["tools"] = described
        if continue_final:
            text = self._open_final(guarded, extra)
            return Prompt(text, _added(self._run(guarded[:-1], extra), text))
        text = self._run(guarded, {**extra, "add_generation_prompt": True})
        for tail in self._tails:
            if text.endswith(tail):
                return Prompt(text, tail)
        # The text that opens a turn is found by rendering without it. It is the same for nearly every conversation.
        # A template that always writes it is known by what follows the last message.
        tail = _added(self._run(guarded, extra), text) or self._behind_last(guarded, extra, text)
        if 0 < len(tail) <= 256:
            self._tails = tuple(sorted({tail, *self._tails[:7]}, key=len, reverse=True))
        return Prompt(text, tail)

    def encode(self, prompt: Prompt, encode: Callable[[str, bool], Sequence[int]]) -> list[int]:
        """Token ids of a rendered prompt. `encode(text, parse_special)` is the tokenizer.

        The prompt is cut before each of the template's own control tokens, as tokenizers do. The ids of the pieces are
        cached. In a piece with a broken name, only the name at its beginning becomes a control token. Exact for
        tokenizers whose control tokens strip no text before them, as those of language models do not.
        """

        def encode_piece(piece: str) -> list[int]:
            if BREAK not in piece:
                return list(encode(piece, True))
            name = next((name for at, name in self.names.find(piece) if at == 0), "")
            text = piece[len(name) :].replace(BREAK, "")
            ids = [self.special[name]] if name else []
            return [*ids, *encode(text, False)] if text else ids

        return [token for piece in prompt.pieces(self.names) for token in self._encoded.get(piece, encode_piece)]

    def _run(self, messages: list[dict[str, Any]], variables: Mapping[str, Any] | None = None) -> str:
        values: dict[str, Any] = {
            "add_generation_prompt": False,
            "tools": None,
            "documents": None,
            **self._variables,
            **(variables or {}),
        }
        try:
            return self._template.render(
                {**values, "messages": messages}
            )  # a dict: a caller's variable may be named "self"
        except TemplateError as error:
            raise InputError(
                f"the model's chat template refuses this conversation: {error}",
                code="chat_template_refused",
                pointer="/messages",
            ) from error
        except (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError, RecursionError) as error:
            raise InputError(
                f"the model's chat template cannot render this conversation: {error}",
                code="chat_template_refused",
                pointer="/messages",
            ) from error

    def _behind_last(self, messages: list[dict[str, Any]], extra: dict[str, Any], text: str) -> str:
        """The part of `text` after the last message's content. Empty if another content would change it."""
        probed = self._run([*messages[:-1], {**messages[-1], "content": _PROBE}], extra)
        tail = probed.rpartition(_PROBE)[2] if _PROBE in probed else ""
        return tail if text.endswith(tail) else ""

    def _open_final(self, messages: list[dict[str, Any]], extra: dict[str, Any]) -> str:
        """Render with a mark at the end of the last message, and cut the text there."""
        content = messages[-1].get("content")
        if messages[-1]["role"] != "assistant" or not isinstance(content, str) or not content:
            raise InputError(
                "continue_final_message needs a last message of the assistant with text",
                pointer="/messages",
                code="invalid_messages",
            )
        marked: list[dict[str, Any]] = [*messages[:-1], {**messages[-1], "content": content + _PROBE}]
        text = self._run(marked, extra)
        at = text.rfind(_PROBE)
        if at < 0:
            raise InputError(
                "the model's chat template cannot leave the last message open",
                code="chat_template_refused",
                pointer="/messages",
            )
        return text[:at]

    def _with_tools_in_text(
        self, turns: list[dict[str, Any]], tools: list[Any], parallel: bool
    ) -> list[dict[str, Any]]:
        """The same conversation as text, for a template that supports neither tools nor their results."""
        out: list[dict[str, Any]] = []
        results: list[str] = []

        def flush() -> None:
            if results:
                out.append({"role": "tool" if self.renders_results else "user", "content": "\n".join(results)})
                results.clear()

        for turn in turns:
            if turn["role"] == "tool":
                results.append(f"<tool_response>\n{turn['content']}\n</tool_response>")
                continue
            flush()
            text = turn["content"]
            if turn.get("tool_calls"):
                text = self._calls_as_text(text, turn["tool_calls"])
            out.append({**{key: turn[key] for key in turn if key != "tool_calls"}, "content": text})
        flush()
        if not tools:
            return out
        instructions = self._instructions(tools, parallel)
        if out and out[0]["role"] == "system":
            out[0] = {"role": "system", "content": f"{out[0]['content']}\n\n{instructions}"}
        elif self.renders_system or not out:
            out.insert(0, {"role": "system", "content": instructions})
        else:
            out[0] = {**out[0], "content": f"{instructions}\n\n{out[0]['content']}"}
        return out

    def _calls_as_text(self, content: str, calls: list[dict[str, Any]]) -> str:
        texts = [
            self._call_as_text(call["function"]["name"], _as_json(call["function"]["arguments"])) for call in calls
        ]
        return "\n".join([content, *texts] if content else texts)

    def _call_as_text(self, name: str, arguments: str) -> str:
        call = {"type": "function", "function": {"name": name, "arguments": arguments}}
        # Not `Format.render`: a history may hold a call that was cut, and an example has no real name.
        return render(self.fmt, {"role": "assistant", "content": None, "tool_calls": [call]})

    def _instructions(self, tools: list[Any], parallel: bool) -> str:
        """The description of the tools for a model whose template has none, in Hermes' tags.

        Short on purpose: each token costs such models some 6 ms before the first answer. On SmolLM2-135M this text does
        better than the long one that Hermes models were trained on: 20 of 20 calls of the right tool against 16, and 18
        right arguments against 17. JSON with spaces does better than without: 60 of 60 against 54.
        """
        listed = "\n".join(
            json_pieces.dumps(_described(tool.get("function", tool)), ensure_ascii=False) for tool in tools
        )
        example = self._call_as_text("<function-name>", '{"<argument-name>": "<value>"}')
        how_many = "one, write" if not parallel else "one or more, write for each"
        return (
            f"You can call these functions to help the user:\n<tools>\n{listed}\n</tools>\n"
            f"To call {how_many}:\n{example}\n"
            "Use its result, in <tool_response>, to answer in plain words."
        )


def _described(function: Mapping[str, Any]) -> dict[str, Any]:
    """A tool without the fields that only the constraint needs."""
    described = {key: value for key, value in function.items() if key != "strict"}
    parameters = described.get("parameters")
    if isinstance(parameters, dict) and parameters.get("additionalProperties") is False:
        described["parameters"] = {key: value for key, value in parameters.items() if key != "additionalProperties"}
    return described


def _added(before: str, text: str) -> str:
    """The part of `text` after `before`. All of `text` if it does not begin with `before`."""
    return text[len(before) :] if text.startswith(before) else text


def _as_json(value: Any) -> str:
    """JSON text of a value. A string is returned unchanged: it is JSON text, or that of a call that was cut."""
    return value if isinstance(value, str) else json_pieces.dumps(value, ensure_ascii=False)


_PROBE = "narrows_probe"


def _normalised(message: Mapping[str, Any], index: int, limits: Limits) -> dict[str, Any]:
    """One message as templates expect it: content is a string, arguments are an object, empty fields are left out."""
    pointer = f"/messages/{index}"
    turn: dict[str, Any] = {"role": "system" if message["role"] == "developer" else message["role"]}
    turn["content"] = content_text(message.get("content"), pointer)
    if isinstance(message.get("refusal"), str):  # an answer that was one, as OpenAI gives it
        turn["content"] = "\n".join(filter(None, (turn["content"], message["refusal"])))
    for key in ("name", "tool_call_id"):
        if message.get(key) is not None:
            turn[key] = message[key]
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning:
        turn["reasoning_content"] = reasoning
    if message.get("tool_calls"):
        turn["tool_calls"] = [
            _call(call, f"{pointer}/tool_calls/{i}", limits) for i, call in enumerate(message["tool_calls"])
        ]
    if _holds_break(turn):
        raise InputError(
            "messages may not contain the Unicode noncharacter U+FDD0", pointer=pointer, code="invalid_messages"
        )
    return turn


def _holds_break(value: Any) -> bool:
    """Whether a string or key in a JSON value contains `BREAK`."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            if BREAK in item:
                return True
        elif isinstance(item, dict):
            todo += item.keys()
            todo += item.values()
        elif isinstance(item, list):
            todo += item
    return False


def content_text(content: Any, pointer: str) -> str:
    """The text of a message's content: a string, or a list of text parts (joined by newlines, as vLLM joins them)."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for i, part in enumerate(content):
        kind = part.get("type")
        if kind not in ("text", "input_text", "output_text", "refusal"):
            raise InputError(
                f"this model reads only text, not a part of type {quoted(kind)}",
                pointer=f"{pointer}/content/{i}/type",
                code="content_part_unsupported",
            )
        key = "refusal" if kind == "refusal" else "text"
        text = part.get(key)
        if not isinstance(text, str):
            raise InputError(
                f"a {kind} part must have a string `{key}`",
                pointer=f"{pointer}/content/{i}/{key}",
                code="invalid_messages",
            )
        texts.append(text)
    return "\n".join(texts)


def _call(call: Mapping[str, Any], pointer: str, limits: Limits) -> dict[str, Any]:
    function = call["function"]
    arguments: Any = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json_pieces.parse(arguments.encode(), limits) if arguments.strip() else {}
        except UnicodeEncodeError:
            pass
        except NarrowsError as error:
            # A call that was cut may be part of a conversation: the template gets its text unchanged.
            if error.code != "json_invalid":
                error.pointer = f"{pointer}/function/arguments"
                raise
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": function["name"], "arguments": {} if arguments is None else arguments},
    }


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks assistant text for training. Inference only needs its body."""

    tags = {"generation"}  # noqa: RUF012 (jinja's own declaration is a plain set)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


def _environment() -> ImmutableSandboxedEnvironment:
    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        # jinja's own filter escapes HTML characters. Models were not trained on that.
        text = json_pieces.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        return text.replace("\\ufdd0", BREAK) if ensure_ascii else text

    def strftime_now(form: str) -> str:
        return datetime.datetime.now().strftime(form)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment
