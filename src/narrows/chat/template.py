"""Chat messages to prompt text, by the model's own template, in which nobody can type a control token.

Promises:
- Rendering is what transformers does: the same sandboxed jinja environment, filters and globals, so the same text.
- A template without a branch for tools (many small models) still gets them: the system message then describes them in
  few words and Hermes' tags. Past calls are written as the wire format writes them (Hermes', where none is given), and
  results arrive as `<tool_response>`.
- A control token's name inside a message, tool or argument stays text. Before rendering, `control_tokens.py` breaks
  each such name with one character that no text may contain; `encode` cuts the rendered prompt at the names that are
  still whole (the template's own) and takes the character out again. Formats read the guarded text, so a typed
  `<think>` opens nothing.

Cost: a template is compiled once. Rendering is linear in the text for every template seen so far; run it off the event
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
from narrows.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from jinja2.parser import Parser

    from narrows.formats import Format

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""For a model that brings no template."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt. `guarded` is what formats look at; `text` is the same for people."""

    guarded: str
    tail: str
    """The end of `guarded` that opens the assistant's turn: it decides where the answer starts (inside `<think>`,
    inside a call), and is the same for every conversation, so that what is built from it can be remembered."""

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
    """The token ids of prompt pieces that may come again: the tools and the earlier turns of a conversation.

    Holds at most `room` characters, least recently used first out; a character costs some 12 bytes. Thread-safe.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self.characters = 0

    def get(self, piece: str, encode: Callable[[str], Sequence[int]]) -> tuple[int, ...]:
        with self._lock:
            known = self._kept.get(piece)
            if known is not None:
                self._kept.move_to_end(piece)
                return known
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
    """One model's chat template, with what it can and cannot render found by trying it.

    `source` is jinja text (None: ChatML). `fmt` writes tool calls where the template cannot. Compiling raises
    `EngineError` for a template that does not read; rendering raises `InputError` (code `chat_template_refused`) where
    the template refuses.
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
                f"the model's chat template does not read: {error}", code="chat_template_invalid"
            ) from error
        self.renders_tools = self._probe_tools()
        self.renders_system = self._probe([{"role": "system", "content": _PROBE}, {"role": "user", "content": "x"}])
        answer = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]
        self.renders_results = self._probe([*answer, {"role": "tool", "content": _PROBE}])
        self.arguments_as_text = self.renders_tools and self._probe_arguments_as_text()

    # What the template can do, found by trying: its text cannot tell (a macro may hold the word "tools" and never use
    # it).

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
        """Some templates concatenate the arguments as text where most expect an object."""

        def attempt(arguments: Any) -> bool:
            call = {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": arguments}}
            asked, made = {"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [call]}
            try:
                return _PROBE in (text := self._run([asked, made])) and f"'{_PROBE}'" not in text
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
        """The prompt for these messages, ready for the assistant's answer.

        `messages` and `tools` are as OpenAI writes them (content may be a list of text parts). With `continue_final`
        the last message, the assistant's, is left open for the model to go on. Raises `InputError`.
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
        # What opens a turn is found by rendering without it, and is the same for nearly every conversation.
        tail = _added(self._run(guarded, extra), text)
        if 0 < len(tail) <= 256:
            self._tails = tuple(sorted({tail, *self._tails[:7]}, key=len, reverse=True))
        return Prompt(text, tail)

    def encode(self, prompt: Prompt, encode: Callable[[str, bool], Sequence[int]]) -> list[int]:
        """Token ids of a rendered prompt. `encode(text, parse_special)` is the tokenizer.

        The prompt is cut before each of the template's own control tokens, as tokenizers do; the ids of pieces are
        remembered. In a piece that holds a typed name, only the token it begins with is one. Exact for tokenizers whose
        control tokens take nothing from the text before them; those of language models do not.
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

    def _open_final(self, messages: list[dict[str, Any]], extra: dict[str, Any]) -> str:
        """Render with a mark at the end of the last message and cut there."""
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
        """The same conversation for a template that knows neither tools nor their results: all of it becomes text."""
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
        return self.fmt.render({"role": "assistant", "content": None, "tool_calls": [call]})

    def _instructions(self, tools: list[Any], parallel: bool) -> str:
        """How a model without a way of its own is told of its tools, in Hermes' tags.

        Short on purpose: each token costs such models some 6 ms before the first answer. On SmolLM2-135M these words do
        better than the long ones that Hermes models were trained on (20 of 20 calls of the right tool against 16, 18
        right arguments against 17), and JSON with spaces better than without (60 of 60 against 54).
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
    """A tool without the words that the constraint reads and that tell a model nothing."""
    described = {key: value for key, value in function.items() if key != "strict"}
    parameters = described.get("parameters")
    if isinstance(parameters, dict) and parameters.get("additionalProperties") is False:
        described["parameters"] = {key: value for key, value in parameters.items() if key != "additionalProperties"}
    return described


def _added(before: str, text: str) -> str:
    """What `text` adds to `before`; all of it where it goes on from something else."""
    return text[len(before) :] if text.startswith(before) else text


def _as_json(value: Any) -> str:
    """JSON text of a value. A string is JSON text already (a call that was cut stays as it is)."""
    return value if isinstance(value, str) else json_pieces.dumps(value, ensure_ascii=False)


_PROBE = "narrows_probe"


def _normalised(message: Mapping[str, Any], index: int, limits: Limits) -> dict[str, Any]:
    """One message as templates expect it: content a string, arguments an object, no absent fields."""
    pointer = f"/messages/{index}"
    turn: dict[str, Any] = {"role": "system" if message["role"] == "developer" else message["role"]}
    turn["content"] = content_text(message.get("content"), pointer)
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
    """Whether a string or key in a JSON value holds the character that no text may contain."""
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
                f"this model reads text alone, not a part of type {quoted(kind)}",
                pointer=f"{pointer}/content/{i}/type",
                code="content_part_unsupported",
            )
        key = "refusal" if kind == "refusal" else "text"
        text = part.get(key)
        if not isinstance(text, str):
            raise InputError(
                f"a {kind} part holds a string `{key}`", pointer=f"{pointer}/content/{i}/{key}", code="invalid_messages"
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
            # A call that was cut is part of an honest history: the template gets the text as it is.
            if error.code != "json_invalid":
                error.pointer = f"{pointer}/function/arguments"
                raise
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": function["name"], "arguments": {} if arguments is None else arguments},
    }


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks assistant text for training; for inference it is just its body."""

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
        # jinja's own filter escapes HTML characters, which models were not trained on.
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
