"""Heads of Harmony's messages, in every order of their parts: a message to a tool is a call, whatever its channel and its notation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest
from transcripts import check_stream, feed, splits

from narrows import formats
from narrows.limits import Limits

HARMONY = formats.get("harmony")
START = "<|start|>assistant"
TOOLS = {"functions.f": "f", "functions.a.b": "a.b", "python": "python", "browser.search": "browser.search",
         "container.exec": "container.exec"}  # fmt: skip
RECIPIENTS = ("", *TOOLS, "user", "assistant", "all")
CHANNELS = ("", "analysis", "commentary", "final")
NOTATIONS = ("", "json", "code", "<|constrain|>json", "<|constrain|>code", "<|constrain|> json", "<|constrain|>")
BODIES = ('{"x": "<|channel|>final<|message|>"}', "ls -l", "5 + 5", '"a" + b', "[1]", "", " \n")


def heads() -> Iterator[tuple[str, str, str]]:
    """(a head without its start, its recipient, its channel)."""
    for recipient, channel, notation, space in product(RECIPIENTS, CHANNELS, NOTATIONS, ("", " ", "  ")):
        to = recipient and f"to={recipient}"
        kind = channel and f"<|channel|>{channel}"
        for parts in {(to, kind, notation), (kind, to, notation), (kind, notation, to), (notation, to, kind)}:
            written = [part for part in parts if part]
            if parts[0] == notation and notation:
                continue  # no head begins so
            text = " " if to and parts[0] == to else ""
            for before, part in zip(["", *written], written, strict=False):
                needed = before and part[0] != "<"  # two words
                text += (space or (" " if needed else "") if before else "") + part
            yield text + space + "<|message|>", recipient, channel


def expected(recipient: str, channel: str, body: str) -> tuple[object, object, list[tuple[str, str, bool]]]:
    """(content, reasoning, calls)."""
    if recipient in TOOLS:
        arguments = body if body.strip() else "{}"
        return None, None, [(TOOLS[recipient], arguments, arguments[0] == "{")]
    return (None, body or None, []) if channel == "analysis" else (body or None, None, [])


@pytest.mark.parametrize("begin", ["", START])
def test_every_head(begin: str) -> None:
    random = Random(begin)
    for number, (head, recipient, channel) in enumerate(heads()):
        if not begin and not head.strip().startswith(("to=", "<|channel|>", "<|message|>")):
            continue
        body = BODIES[number % len(BODIES)]
        if not body.strip() and recipient not in TOOLS:
            body = "so"
        end = "<|call|>" if recipient in TOOLS else "<|end|>"
        text = begin + head + body + end
        ways = [[], [random.randrange(len(text))], [*range(len(text))]]
        for cuts in ways if number % 20 == 0 else ways[number % 2 : number % 2 + 1]:
            parser = HARMONY.parser(prompt=START)
            message = check_stream(feed(parser, splits(text, cuts)), len(text))
            read = message.content, message.reasoning, [(c.name, c.arguments, c.complete) for c in message.tool_calls]
            assert read == expected(recipient, channel, body), (text, cuts)


def test_a_head_after_every_head() -> None:
    """A message that was not ended is ended by the next one's head."""
    for head, recipient, channel in list(heads())[::5]:
        if not head.strip().startswith(("to=", "<|channel|>", "<|message|>")):
            continue
        text = f"{head}ls{START}<|channel|>final<|message|>So.<|return|>"
        message = HARMONY.parse(text, prompt=START)
        content, reasoning, calls = expected(recipient, channel, "ls")
        assert message.content == f"{content or ''}So.", text
        assert message.reasoning == reasoning
        assert [(c.name, c.arguments, c.complete) for c in message.tool_calls] == calls


NO_HEADS = [
    "<|channel|>commentary to=functions.f and so on",
    "<|channel|>commentary to=functions.<|message|>x",
    "<|channel|>commentary to=a to=b<|message|>x",
    "<|channel|>commentary json code<|message|>x",
    "<|channel|>commentary to=functions.channel|>final<|message|>x",
    "<|channel|><|message|>x",
    "<|channel|>thoughts<|message|>x",
    "<|start|>user<|message|>x",
    "<|start|>assistant and so on",
    "<|channel|>commentary to=",
    "<|channel|>commentary to=functions.f <|constrain|>json",
    "to=be or not to be",
    "<|channel|>commentary to=" + "x" * 10_000 + "<|message|>x",
]


@pytest.mark.parametrize("text", NO_HEADS)
def test_what_is_no_head_is_text(text: str) -> None:
    for size in (1, 2, 7, len(text)):
        parser = HARMONY.parser()
        message = check_stream(feed(parser, [text[i : i + size] for i in range(0, len(text), size)]), len(text))
        assert (message.content, message.reasoning, message.tool_calls) == (text, None, [])


def test_a_head_is_held_up_to_the_limit() -> None:
    text = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
    length = text.index("{}") - len("<|channel|>")
    for limit, calls in ((length, 1), (length - 1, 0)):
        for pieces in ([text], list(text)):
            parser = HARMONY.parser(limits=Limits(stream_name_chars=limit))
            message = check_stream(feed(parser, pieces), len(text))
            assert len(message.tool_calls) == calls
            assert calls or message.content == text


def test_a_tool_that_is_offered_with_its_namespace() -> None:
    text = "<|channel|>commentary to=functions.f<|message|>{}<|call|>"
    for name in ("f", "functions.f"):
        (call,) = HARMONY.parse(text, [{"name": name}]).tool_calls
        assert (call.name, call.known) == (name, True)
