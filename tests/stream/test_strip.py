"""With `strip` the text has no blanks at its ends and before calls; nothing else changes, whatever the chunks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import NAMES, Case, cases_of, check_stream, feed, naming, splits

from narrows import formats
from narrows.events import Content, Event, Reasoning
from narrows.stream import collect

WHITESPACE = " \t\n\r"
HERMES = formats.get("hermes_json")
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


def stripped(events: Iterable[Event], kind: type[Content] | type[Reasoning]) -> str | None:
    """What is left of this kind of text: each stretch of it without the blanks behind it, all of it without those before it."""
    stretches = ("".join(e.text for e in run if isinstance(e, kind)) for of, run in groupby(events, type) if of is kind)
    return "".join(stretch.rstrip(WHITESPACE) for stretch in stretches).lstrip(WHITESPACE) or None


def check(case: Case, pieces: list[str]) -> None:
    plain = feed(case.parser(), pieces)
    message = check_stream(feed(case.parser(strip=True), pieces), len(case.text))
    assert message.content == stripped(plain, Content)
    assert message.reasoning == stripped(plain, Reasoning)
    assert message.tool_calls == collect(plain).tool_calls


@pytest.mark.parametrize("name", NAMES)
def test_cases(name: str) -> None:
    for case in cases_of(name):
        with naming(case):
            check(case, [case.text])
            check(case, list(case.text))


PIECES = st.sampled_from([" ", "\n", "\t", "a", "b c", "é", "\u3000", CALL, "<think>", "</think>", "<tool_call>"])


@given(st.lists(PIECES, max_size=14).map("".join), st.lists(st.integers(0, 300), max_size=5))
def test_any_text(text: str, cuts: list[int]) -> None:
    case = Case("hermes_json", "", text, {}, {})
    check(case, splits(text, [min(cut, len(text)) for cut in cuts]))
    data = text.encode()
    parser = HERMES.parser(strip=True)
    events = [event for at in range(len(data)) for event in parser.feed_bytes(data[at : at + 1])] + parser.finish()
    message = check_stream(events, len(data))
    assert (message.content, message.reasoning) == (
        stripped(feed(case.parser(), [text]), Content),
        stripped(feed(case.parser(), [text]), Reasoning),
    )
    for event in events:
        if isinstance(event, (Content, Reasoning)):
            assert event.text == data[event.span[0] : event.span[1]].decode()


def test_what_is_left_out() -> None:
    text = f"<think>\n\n Hm.\n \n</think>\n\n\n Let me look. \n\n{CALL}\n\nIt rains.\n"
    message = HERMES.parse(text, strip=True)
    assert (message.reasoning, message.content) == ("Hm.", "Let me look.\n\nIt rains.")
    assert HERMES.parse(f" \n{CALL} \n", strip=True).content is None


def test_more_blanks_than_are_held_are_text() -> None:
    text = "a" + "\n" * 5_000 + CALL
    parser = HERMES.parser(strip=True)
    events = feed(parser, list(text))
    left = len(collect(events).content or "")
    assert 1 + 5_000 - 1_100 < left <= 5_001
