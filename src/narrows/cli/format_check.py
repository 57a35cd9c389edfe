"""The checks of `narrows formats check`: whether a format's parser, grammar and renderer agree.

What `render` writes must be read back, the same for every cut in two, and must be in the grammar. What the grammar
allows must be read as whole calls. A check takes some hundred milliseconds.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from narrows.cli.parse import read_by_grammar
from narrows.errors import InputError
from narrows.formats.render import render

if TYPE_CHECKING:
    from narrows.formats import Format
    from narrows.stream import Message

# Conversations that a format must be able to write and read back.
_CALL = {
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris", "days": 3, "metric": true}'},
}
_OTHER = {"type": "function", "function": {"name": "search", "arguments": '{"query": "a \\"quoted\\" word\\nand é"}'}}
_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
                "additionalProperties": False,
            },
        },
    },
]
MESSAGES: dict[str, dict[str, Any]] = {
    "one call": {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    "two calls": {"role": "assistant", "content": None, "tool_calls": [_CALL, _OTHER]},
    "text, then a call": {"role": "assistant", "content": "Let me look.", "tool_calls": [_CALL]},
    "text": {"role": "assistant", "content": "It is warm."},
}
_WALKS = 40


def examples(fmt: Format) -> dict[str, str]:
    """The conversations in this format, without those that it cannot write. One that it may lack is text before calls,
    where calls are the whole answer."""
    texts: dict[str, str] = {}
    for title, message in MESSAGES.items():
        try:
            texts[title] = render(fmt, message)  # what disagrees is reported, not refused
        except InputError:
            if title == "one call":
                raise
    return texts


def disagreements(fmt: Format) -> list[str]:
    """The disagreements, one line each. Empty where parser, grammar and renderer agree."""
    problems = [
        f"{title}: {problem}"
        for title, text in examples(fmt).items()
        for problem in _written_problems(fmt, MESSAGES[title], text)
    ]
    return problems + [f"text that the grammar allows: {problem}" for problem in _allowed_problems(fmt)]


def _written_problems(fmt: Format, message: dict[str, Any], text: str) -> list[str]:
    """Where parser or grammar disagree with the text that `render` writes for the message."""
    read = fmt.parse(text, tools=_TOOLS, id_factory=str)
    expected = [call["function"] for call in message.get("tool_calls", ())]
    problems = []
    if [call.name for call in read.tool_calls] != [call["name"] for call in expected]:
        problems.append(f"the parser reads the calls {[call.name for call in read.tool_calls]} in {text!r}")
    elif any(
        _value(call.arguments) != _value(function["arguments"])
        for call, function in zip(read.tool_calls, expected, strict=True)
    ):
        problems.append(f"the parser reads the arguments {[call.arguments for call in read.tool_calls]} in {text!r}")
    if (read.content or "").strip() != (message.get("content") or ""):
        problems.append(f"the parser reads the content {read.content!r} in {text!r}")
    for cut in range(1, len(text)):
        if _in_two(fmt, text, cut) != read:
            problems.append(f"the parser reads other events where the text is cut at character {cut} of {text!r}")
            break
    count, complete, _ = read_by_grammar(fmt, text, _TOOLS, {"tool_choice": "auto"})
    if not complete:
        problems.append(f"the grammar stops at character {count} of {text!r}")
    return problems


def _in_two(fmt: Format, text: str, cut: int) -> Message:
    from narrows.stream import collect

    parser = fmt.parser(_TOOLS, id_factory=str)
    return collect([*parser.feed(text[:cut]), *parser.feed(text[cut:]), *parser.finish()])


def _allowed_problems(fmt: Format) -> list[str]:
    """Texts that the grammar of required calls allows, and that the parser does not read as whole calls."""
    from narrows import Vocabulary

    marks = {marker for marker in fmt.markers(fmt.reasoning) if len(marker) > 1}
    pieces = [*(bytes([b]) for b in range(256)), *sorted(marker.encode() for marker in marks)]
    vocab = Vocabulary([*pieces, None], special={"<end of all>": len(pieces)}, eos=[len(pieces)])
    constraint = vocab.compile(fmt.grammar(_TOOLS, tool_choice="required"))
    random = Random(fmt.name)
    likely = [t for t in range(len(pieces)) if t >= 256 or 32 <= t < 127 or t == 10]
    problems: list[str] = []
    for _ in range(_WALKS):
        matcher, data = constraint.matcher(), b""
        for _ in range(random.randrange(10, 120)):
            token = next((t for t in random.sample(likely, 40) if matcher.accepts([t])), None)
            if token is None:
                forced = matcher.forced_bytes()
                if not forced:
                    continue
                matcher.accept_bytes(forced)
                data += forced
            else:
                matcher.accept(token)
                data += pieces[token]
        if not matcher.is_finished:
            data += b"".join(pieces[t] for t in matcher.shortest_end() if t < len(pieces))
        text = data.decode()
        calls = fmt.parse(text, _TOOLS).tool_calls
        if not calls or not all(call.complete and call.known for call in calls):
            problems.append(f"the parser reads {[(call.name, call.reason) for call in calls]} in {text!r}")
    return problems[:3]


def _value(arguments: str) -> Any:
    """The value of a JSON text; the text itself where it is not JSON."""
    from pydantic_core import from_json

    try:
        return from_json(arguments)
    except ValueError:
        return arguments
