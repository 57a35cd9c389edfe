"""What the core takes without a look at a region must come out as the regions would have it, and at once."""

from __future__ import annotations

import gc
import json
import sys
from ast import literal_eval
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import NAMES, facts, naming

from narrows import formats
from narrows._core import Markers, Run, RunReader
from narrows.events import Content, Event, ToolCallArguments
from narrows.limits import Limits
from narrows.stream import StreamParser, collect
from narrows.stream.regions.xml_value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

TOOLS: list[dict[str, Any]] = [
    {"name": "write", "parameters": {"properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}}
]
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


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", NAMES)
def test_a_delta_says_all_that_it_can(name: str, step: int) -> None:
    """After each character as much has been said as if all so far had come in one piece. One in `step` is held to
    it."""
    fmt = formats.get(name)
    text = fmt.render({"tool_calls": [CALL] if facts(name).single else [CALL, CALL]})
    slow = fmt.parser(TOOLS)
    said: list[Event] = []
    for end in range(1, len(text) + 1):
        said += slow.feed(text[end - 1])
        if (end + len(name)) % step:
            continue
        with naming(repr(text[:end])):
            assert in_one(said) == in_one(fmt.parser(TOOLS).feed(text[:end]))


@pytest.mark.parametrize("name", NAMES)
def test_a_long_string_needs_no_region(name: str) -> None:
    """Plain text in an argument runs next to no Python."""
    fmt = formats.get(name)
    before, _, _ = fmt.render({"tool_calls": [{"name": "write", "arguments": {"text": "…"}}]}).partition("…")
    parser = fmt.parser(TOOLS)
    parser.feed(before + "a")
    assert python_calls(parser, [" lorem"] * 100) <= 10


def python_calls(parser: StreamParser, deltas: Iterable[str]) -> int:
    calls = [0]

    def count(frame: object, event: str, argument: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        for delta in deltas:
            parser.feed(delta)
    finally:
        sys.setprofile(None)
    return calls[0]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "minimax_m3"])  # its elements nest
def test_many_strings_need_no_region(name: str) -> None:
    """From one string to the next it is a look at the key's type."""
    fmt = formats.get(name)
    text = fmt.render({"tool_calls": [{"name": "write", "arguments": {f"key_{n}": f"value {n}" for n in range(60)}}]})
    begin, end = text.index("value 20"), text.index("value 40")
    schema = {**TOOLS[0]["parameters"], "additionalProperties": {"type": "string"}}
    parser = fmt.parser([{"name": "write", "parameters": schema}], untyped="string")
    parser.feed(text[:begin])
    assert python_calls(parser, text[begin:end]) <= 20 * 8  # for some 900 deltas


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("limit", [8, 40, 70])
def test_a_limit_on_names_holds_in_any_pieces(name: str, limit: int) -> None:
    fmt = formats.get(name)
    keys = ("text", "n" * 30, "n" * 50, "n" * 69, "other")
    text = fmt.render({"tool_calls": [{"name": "write", "arguments": dict.fromkeys(keys, "x")}]})
    limits = Limits(stream_name_chars=limit)
    whole = fmt.parser(TOOLS, limits=limits)
    each = fmt.parser(TOOLS, limits=limits)
    at_once = [*whole.feed(text), *whole.finish()]
    said = [event for char in text for event in each.feed(char)] + each.finish()
    assert in_one(said) == in_one(at_once)


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", NAMES)
def test_a_call_goes_on_from_anywhere_in_the_prompt(name: str, step: int) -> None:
    """Nothing stands before the answer, wherever in its markup a prompt leaves off."""
    fmt = formats.get(name)
    text = fmt.render(
        {"tool_calls": [{"name": "write", "arguments": dict.fromkeys(("text", "ab", "cd", "other"), "x")}]}
    )
    for cut in range(len(name) % step, len(text), step):
        rest = text[cut:]
        each, whole = (fmt.parser(TOOLS, prompt=text[:cut]) for _ in range(2))
        at_once = [*whole.feed(rest), *whole.finish()]
        said = [event for char in rest for event in each.feed(char)] + each.finish()
        with naming(repr(text[:cut])):
            assert in_one(said) == in_one(at_once)
            spans = [event.span for event in said]
            assert all(0 <= begin <= end <= len(rest) for begin, end in spans)
            assert all(one[1] <= other[0] for one, other in pairwise(spans) if other != (0, 0))


def test_a_parser_that_was_not_made_is_an_error() -> None:
    with pytest.warns(RuntimeWarning, match="uninitialized"), pytest.raises(TypeError):
        StreamParser.__new__(StreamParser).feed("x")


def test_links_are_checked() -> None:
    """A mistake in a region is an error where it is made."""
    text = Run.of_text(("</a>",), None)
    with pytest.raises(ValueError, match="no such marker"):
        text.link("</b>", text)
    with pytest.raises(ValueError, match="lead to a text"):
        Run.of_markers(("x",)).link(None, Run.of_name(""))
    with pytest.raises(ValueError, match="part arguments"):
        Run.of_text(("</a>",), Content).link("</a>", text)


def test_a_parser_leaves_nothing_behind() -> None:
    """Runs and regions refer to each other; the collector sees through it."""

    def regions() -> int:
        gc.collect()
        return sum(type(thing) is Value for thing in gc.get_objects())

    before = regions()
    for _ in range(20):
        formats.get("qwen3_xml").parser(TOOLS).feed("<tool_call>\n<function=write>\n<parameter=text>\na\n</para")
    assert regions() <= before
