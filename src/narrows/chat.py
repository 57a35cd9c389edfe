"""Chat messages to prompt text, by the model's own template, in which nobody can type a control token.

Promises:
- Rendering is what transformers does: the same sandboxed jinja environment, filters and globals, so the same text.
- A template without a branch for tools (many small models) still gets them: the system message then describes them in the
  Hermes way, past calls are written as the wire format writes them, and results arrive as `<tool_response>`.
- A control token's name inside a message, tool or argument stays text. Before rendering, `Guard` breaks each such name with one
  character that no text may contain; `encode` cuts the rendered prompt at the names that are still whole (the template's own)
  and takes the character out again. Formats read the guarded text, so a typed `<think>` opens nothing.

Cost: a template is compiled once. Rendering is linear in the text for every template seen so far; run it off the event loop.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from narrows.errors import EngineError, InputError

if TYPE_CHECKING:
    from jinja2.parser import Parser

    from narrows.formats import Format

BREAK = "\ufdd0"
"""A Unicode noncharacter: set aside for use inside a program, so it is refused in messages and never reaches a model."""

# Words with a fixed meaning, which templates compare and build markup from. They are never broken.
_STRUCTURE = frozenset(
    "system developer user assistant tool function type name id content role tool_calls tool_call_id arguments parameters "
    "properties required description items enum const default title format pattern anyOf oneOf allOf additionalProperties "
    "$ref $defs definitions string number integer boolean array object null text strict nullable minimum maximum".split()
)

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""For a model that brings no template."""


class SpecialNames:
    """Finds the names of special tokens in text: leftmost, longest. Linear in the text times the distinct name lengths."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name for name in names if len(name) > 1)
        self._buckets: dict[str, list[int]] = {}
        for name in self._names:
            lengths = self._buckets.setdefault(name[:2], [])
            if len(name) not in lengths:
                lengths.append(len(name))
        for lengths in self._buckets.values():
            lengths.sort(reverse=True)
        self._insides = {
            name[i:j]
            for name in self._names
            if len(name) <= 64
            for i in range(1, len(name))
            for j in range(i + 1, len(name))
        }
        self._heads = {name[:i] for name in self._names for i in range(1, len(name))}
        self._tails = {name[i:] for name in self._names for i in range(1, len(name))}
        self._longest = max((len(name) for name in self._names), default=0)
        self._guard_short = lru_cache(maxsize=4096)(self._guard)

    def find(self, text: str) -> Iterator[tuple[int, str]]:
        """Every place where a name starts, with the longest name there, in order; they may overlap."""
        starts = []
        for head in self._buckets:
            at = text.find(head)
            while at >= 0:
                starts.append(at)
                at = text.find(head, at + 1)
        for at in sorted(starts):
            for length in self._buckets[text[at : at + 2]]:
                name = text[at : at + length]
                if name in self._names:
                    yield at, name
                    break

    def guard(self, text: str) -> str:
        """`text` with every name broken, and every end that could become a name's part beside the template's own text."""
        if text in _STRUCTURE or not self._names:
            return text
        # The strings of a tool come again with every request of an agent.
        return self._guard_short(text) if len(text) <= 256 else self._guard(text)

    def _guard(self, text: str) -> str:
        if text in self._insides:  # a key `tool_call` that the template writes as `<tool_call>`
            return text[:1] + BREAK + text[1:] if len(text) > 1 else text + BREAK
        pieces, last = [], 0
        for at, _ in self.find(text):
            pieces.append(text[last : at + 1])
            last = at + 1
        out = BREAK.join([*pieces, text[last:]])
        window = range(1, min(len(text), self._longest) + 1)
        if any(text[:n] in self._tails for n in window):
            out = BREAK + out
        if any(text[-n:] in self._heads for n in window):
            out = out + BREAK
        return out

    def guard_value(self, value: Any) -> Any:
        """A JSON value with every string and key in it guarded. The value's depth is bounded where it was read."""
        if isinstance(value, str):
            return self.guard(value)
        # Two stacks would say the same with more words: build containers first, fill them from a work list.
        root: list[Any] = [None]
        work: list[tuple[Any, Any, Any]] = [(root, 0, value)]
        while work:
            target, key, item = work.pop()
            if isinstance(item, str):
                target[key] = self.guard(item)
            elif isinstance(item, Mapping):
                copy: dict[str, Any] = {self.guard(str(k)): None for k in item}
                target[key] = copy
                work.extend((copy, self.guard(str(k)), v) for k, v in item.items())
            elif isinstance(item, (list, tuple)):
                target[key] = [None] * len(item)
                work.extend((target[key], i, v) for i, v in enumerate(item))
            else:
                target[key] = item
        return root[0]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt. `guarded` is what formats look at; `text` is the same for people."""

    guarded: str
    tail: str
    """The end of `guarded` that opens the assistant's turn: it decides where the answer starts (inside `<think>`, inside a call),
    and is the same for every conversation, so that what is built from it can be remembered."""

    @property
    def text(self) -> str:
        return self.guarded.replace(BREAK, "")

    def encode(
        self, encode: Callable[[str, bool], Sequence[int]], special: Mapping[str, int], names: SpecialNames
    ) -> list[int]:
        """Token ids. `encode(text, parse_special)` is the tokenizer; where nothing was broken it sees the whole prompt at once.

        Otherwise the prompt is cut at the template's own control tokens, as tokenizers do, and the rest is encoded as plain text.
        """
        if BREAK not in self.guarded:
            return list(encode(self.guarded, True))
        ids: list[int] = []
        last = 0
        for at, name in names.find(self.guarded):
            if at < last:
                continue
            if at > last:
                ids.extend(encode(self.guarded[last:at].replace(BREAK, ""), False))
            ids.append(special[name])
            last = at + len(name)
        if last < len(self.guarded):
            ids.extend(encode(self.guarded[last:].replace(BREAK, ""), False))
        return ids


class ChatTemplate:
    """One model's chat template, with what it can and cannot render found by trying it.

    `source` is jinja text (None: ChatML). `fmt` writes tool calls where the template cannot. Compiling raises `EngineError` for a
    template that does not read; rendering raises `InputError` (code `chat_template_refused`) where the template refuses.
    """

    def __init__(
        self,
        source: str | None,
        *,
        special: Mapping[str, int],
        bos_token: str = "",
        eos_token: str = "",
        fmt: Format | None = None,
    ) -> None:
        self.source = source or CHATML
        self.special = dict(special)
        self.names = SpecialNames(self.special)
        self.fmt = fmt
        self._tails: tuple[str, ...] = ()
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

    # What the template can do, found by trying: its text cannot tell (a macro may hold the word "tools" and never use it).

    def _probe(self, messages: list[dict[str, Any]], **variables: Any) -> bool:
        try:
            return _PROBE in self._run(messages, **variables)
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

        `messages` and `tools` are as OpenAI writes them (content may be a list of text parts). With `continue_final` the last
        message, the assistant's, is left open for the model to go on. Raises `InputError`.
        """
        turns = [_normalised(message, index) for index, message in enumerate(messages)]
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
            return Prompt(text, _behind(self._run(guarded[:-1], **extra), text))
        text = self._run(guarded, add_generation_prompt=True, **extra)
        for tail in self._tails:
            if text.endswith(tail):
                return Prompt(text, tail)
        # What opens a turn is found by rendering without it, and is the same for nearly every conversation.
        tail = _behind(self._run(guarded, **extra), text)
        if 0 < len(tail) <= 256:
            self._tails = tuple(sorted({tail, *self._tails[:7]}, key=len, reverse=True))
        return Prompt(text, tail)

    def encode(self, prompt: Prompt, encode: Callable[[str, bool], Sequence[int]]) -> list[int]:
        """Token ids of a rendered prompt; see `Prompt.encode`."""
        return prompt.encode(encode, self.special, self.names)

    def _run(self, messages: list[dict[str, Any]], **variables: Any) -> str:
        values: dict[str, Any] = {
            "add_generation_prompt": False,
            "tools": None,
            "documents": None,
            **self._variables,
            **variables,
        }
        try:
            return self._template.render(messages=messages, **values)
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
        text = self._run(marked, **extra)
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
        if self.fmt is not None and self.fmt.name != "hermes_json":
            call = {"type": "function", "function": {"name": name, "arguments": arguments}}
            return self.fmt.render({"role": "assistant", "content": None, "tool_calls": [call]})
        return f'<tool_call>\n{{"name": {_as_json(name, quote=True)}, "arguments": {arguments}}}\n</tool_call>'

    def _instructions(self, tools: list[Any], parallel: bool) -> str:
        """How Hermes models are told of their tools."""
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        example = self._call_as_text("<function-name>", '{"<argument-name>": "<value>"}')
        how_many = "one or more functions" if parallel else "one function"
        return (
            f"You are a function calling AI model. You may call {how_many} to assist with the user query. "
            "You are provided with function signatures within <tools></tools> XML tags:\n"
            f"<tools>\n{listed}\n</tools>\n\n"
            f"For each function call, write the function's name and its arguments in this form:\n{example}\n\n"
            "The result of a call comes back within <tool_response></tool_response> XML tags. "
            "Use it to answer the user in plain words."
        )


def _behind(before: str, text: str) -> str:
    """What `text` adds to `before`; all of it where it goes on from something else."""
    return text[len(before) :] if text.startswith(before) else text


def _as_json(value: Any, *, quote: bool = False) -> str:
    """JSON text of a value. A string is JSON text already (a call that was cut stays as it is), unless it is to be quoted."""
    return value if isinstance(value, str) and not quote else json.dumps(value, ensure_ascii=False)


_PROBE = "narrows_probe"


def _normalised(message: Mapping[str, Any], index: int) -> dict[str, Any]:
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
        turn["tool_calls"] = [_call(call, f"{pointer}/tool_calls/{i}") for i, call in enumerate(message["tool_calls"])]
    if BREAK in json.dumps(turn, ensure_ascii=False):
        raise InputError(
            "messages may not contain the Unicode noncharacter U+FDD0", pointer=pointer, code="invalid_messages"
        )
    return turn


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
                f"this model reads text alone, not a part of type {kind!r}",
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


def _call(call: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    function = call["function"]
    arguments: Any = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            # A call that was cut is part of an honest history: the template gets the text as it is.
            if isinstance(error, RecursionError):
                raise InputError(
                    "arguments are nested too deeply", pointer=f"{pointer}/function/arguments", code="json_depth"
                ) from error
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
        text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
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
