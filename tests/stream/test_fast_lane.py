"""What the core takes without a look at a region must come out as the regions would have it, and at once."""

from __future__ import annotations

import json
import sys
from ast import literal_eval

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import NAMES, facts, naming

from narrows import formats
from narrows._core import Markers, Run, RunReader
from narrows.events import Event, ToolCallArguments
from narrows.stream import collect

TOOLS = [{"name": "write", "parameters": {"properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}}]
CALL = {"name": "write", "arguments": {"text": 'a <b> "c" \\ d\n', "count": 12, "other": "x"}}
LETTERS = st.text(alphabet="<ab/\U0001f326", max_size=12)


@given(st.lists(LETTERS.filter(bool), max_size=4), LETTERS, st.booleans())
def test_the_first_marker_is_found(markers: list[str], text: str, final: bool) -> None:
    ordered = tuple(sorted(markers, key=lambda marker: -len(marker)))

    def at(place: int) -> int:
        for which, marker in enumerate(ordered):
            if text.startswith(marker, place):
                return which
            if not final and marker.startswith(text[place:]):
                return -2
        return -1

    search = Markers(ordered)
    places = [place for place in range(len(text)) if at(place) != -1]
    first = places[0] if places else len(text)
    assert search.search(text, 0, final) == (first, max(at(first), -1) if places else -1)
    assert all(search.match(text, place, final) == at(place) for place in range(len(text)))


@given(st.lists(st.sampled_from(["a", "\\n", "\\", "n", "'", "\\\\", "\\x41", '"', "\n", "\\'", "é"]), max_size=8))
def test_simple_escapes_are_read_and_others_are_left(deltas: list[str]) -> None:
    reader = RunReader(ToolCallArguments, 1024)
    reader._take_any_text()
    reader._arm(Run.of_text(("'",), None, escapes=True), 0, 0, "")
    written = ""
    taken = ""
    for delta in deltas:
        events = reader._read_plain(delta)
        if events is None:
            break
        written += "".join(event.text for event in events)
        taken += delta
    offset, unread, _, _ = reader._disarm()
    assert offset == len(taken) - len(unread)
    assert unread in ("", "\\")
    assert json.loads(f'"{written}"') == literal_eval(f"'''{taken[:offset]}'''")


def in_one(events: list[Event]) -> object:
    message = collect(events)
    return message.content, message.reasoning, [(c.name, c.arguments) for c in message.tool_calls]


@pytest.mark.parametrize("name", NAMES)
def test_a_delta_says_all_that_it_can(name: str) -> None:
    """After each character as much has been said as if all so far had come in one piece."""
    fmt = formats.get(name)
    text = fmt.render({"tool_calls": [CALL] if facts(name).single else [CALL, CALL]})
    slow = fmt.parser(TOOLS)
    said: list[Event] = []
    for end in range(1, len(text) + 1):
        said += slow.feed(text[end - 1])
        with naming(repr(text[:end])):
            assert in_one(said) == in_one(fmt.parser(TOOLS).feed(text[:end]))


@pytest.mark.parametrize("name", NAMES)
def test_a_long_string_needs_no_region(name: str) -> None:
    """Plain text in an argument runs next to no Python."""
    fmt = formats.get(name)
    before, _, _ = fmt.render({"tool_calls": [{"name": "write", "arguments": {"text": "…"}}]}).partition("…")
    parser = fmt.parser(TOOLS)
    parser.feed(before + "a")
    calls = [0]

    def count(frame: object, event: str, argument: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        for _ in range(100):
            parser.feed(" lorem")
    finally:
        sys.setprofile(None)
    assert calls[0] <= 2 * 100 + 10  # `feed`, and the event
