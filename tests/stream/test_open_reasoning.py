"""Reasoning that the prompt has opened and the model does not close: text and calls that have openers of their own are not lost in it."""

from __future__ import annotations

import pytest
from transcripts import NAMES, check_stream, facts, feed, naming

from narrows import formats
from narrows.errors import NarrowsError

CALL = {"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}


def answers(fmt: formats.Format) -> list[tuple[str, str, int]]:
    """(an answer that begins with an opener, its content, how many calls it has)."""
    found = []
    assert fmt.reasoning is not None
    for message in ({"content": "Hi"}, {"tool_calls": [CALL]}, {"content": "Hi", "tool_calls": [CALL]}):
        content, calls = message.get("content", ""), len(message.get("tool_calls", ()))
        if content and not any(
            opener.strip() for opener, _ in fmt.reasoning.wraps
        ):  # a newline opens nothing in reasoning
            continue
        for shape in fmt.written if calls else fmt.written[:1]:
            try:
                text = fmt.render(message, shape.form)
            except NarrowsError:
                continue  # these calls stand only where an answer begins
            if content or text[0] not in "[{":  # a bracket opens nothing in reasoning
                found.append((text, str(content), calls))
    return found


@pytest.mark.parametrize("name", [name for name in NAMES if formats.get(name).reasoning is not None])
def test_an_opener_at_the_beginning_of_reasoning_counts(name: str) -> None:
    fmt = formats.get(name)
    assert fmt.reasoning is not None
    for opener, _ in fmt.reasoning.pairs:
        for spaces in ("", "\n", " \n\n"):
            for text, content, calls in answers(fmt):
                said = "\n\n"[: len(spaces)] + text
                for pieces in ([said], list(said), [said[: len(said) // 2], said[len(said) // 2 :]]):
                    parser = fmt.parser(prompt=facts(name).turn + opener + spaces)
                    with naming((opener, said)):
                        message = check_stream(feed(parser, pieces), len(said))
                        assert ((message.content or "").strip(), message.reasoning) == (content, None)
                        assert [call.complete for call in message.tool_calls] == [True] * calls


@pytest.mark.parametrize("name", [name for name in NAMES if formats.get(name).reasoning is not None])
def test_an_opener_after_reasoning_counts(name: str) -> None:
    """Where the style says so; a message's start counts in any case."""
    fmt = formats.get(name)
    style = fmt.reasoning
    assert style is not None
    for text, content, calls in answers(fmt):
        start = ""
        if not text.startswith(style.message_start):
            start = style.message_start
        if (
            not start
            and not style.message_start
            and ((content and style.content == "data") or (not content and style.calls == "data"))
        ):
            continue
        by_line = style.content == "line" or not any(
            shape.markers() for shape in fmt.calls
        )  # calls on lines of their own
        said = f"So\n{text}" if by_line else f"So {start}{text}"
        for pieces in ([said], list(said)):
            parser = fmt.parser(prompt=facts(name).turn + style.pairs[0][0])
            with naming(said):
                message = check_stream(feed(parser, pieces), len(said))
                assert ((message.content or "").strip(), (message.reasoning or "").strip()) == (content, "So")
                assert [call.complete for call in message.tool_calls] == [True] * calls
