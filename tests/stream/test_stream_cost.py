"""Reading costs in proportion to the text, whatever it is, and what is not held must come at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from transcripts import NAMES, Facts, facts, naming, pieces_of

from narrows import formats
from narrows.events import Content, Event, Reasoning, ToolCallArguments
from narrows.limits import DEFAULT_LIMITS
from narrows.stream import collect

TOOLS = [{"name": "f", "parameters": {"properties": {"text": {"type": "string"}}, "additionalProperties": {}}}]


def call(fmt: formats.Format, arguments: dict[str, Any]) -> str:
    return fmt.render({"tool_calls": [{"name": "f", "arguments": arguments}]})


def adversaries(fmt: formats.Format) -> dict[str, str]:
    """Pieces that are repeated; "…" stands for where, in a text around them."""
    inside, _, end = call(fmt, {"text": "…"}).partition("…")
    found = {
        "calls": call(fmt, {"text": "a"}),
        "beginnings of calls": inside,
        "long string": f"{inside}…lorem \\" + f"ipsum {end}",
        "spaces": f"{inside[: len(inside) // 2]}… \n",
        "half closers": f"{inside}…{end[: len(end) // 2]}",
    }
    for marker in fmt.markers(fmt.reasoning):
        found[marker] = marker
        found[marker[:-1]] = marker[:-1]
        found["in a string: " + marker[:-1]] = f"{inside}…{marker[:-1]}"
    for bracket in '{["':
        found["after an opener: " + bracket] = f"{inside[: inside.find('f')]}…{bracket}"
    return found


def spelled(piece: str, length: int) -> str:
    before, cut, again = piece.partition("…")
    if not cut:
        before, again = "", piece
    return before + again * (length // max(len(again), 1))


@contextmanager
def counting_lines() -> Iterator[list[int]]:
    """Counts the lines of Python that narrows runs, one by one."""
    count = [0]

    def line(frame: FrameType, event: str, argument: object) -> Any:
        count[0] += event == "line"
        return line

    def call(frame: FrameType, event: str, argument: object) -> Any:
        return line if frame.f_globals.get("__name__", "").startswith("narrows.") else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield count
    finally:
        sys.settrace(before)


def work(fmt: formats.Format, text: str) -> tuple[int, int]:
    """(lines that run, characters that are looked at: of each delta, and what waits unread before it)."""
    parser = fmt.parser(TOOLS)
    characters = len(text)
    with counting_lines() as lines:
        for at in range(0, len(text), 4):
            parser.feed(text[at : at + 4])
            characters += len(parser.unread)
        parser.finish()
    return lines[0], characters


def linear(fmt: formats.Format, length: int, pieces: list[str]) -> None:
    for piece in pieces:
        with naming(repr(piece)):
            short, long = (work(fmt, spelled(piece, times * length)) for times in (1, 2))
            assert all(twice < 2.5 * once + 500 for once, twice in zip(short, long, strict=True)), (short, long)


@pytest.mark.parametrize("name", NAMES)
def test_twice_the_text_is_twice_the_work(name: str) -> None:
    fmt = formats.get(name)
    found = adversaries(fmt)
    linear(fmt, 1_000, [found[key] for key in ("calls", "beginnings of calls", "long string", "half closers")])


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_twice_any_text_is_twice_the_work(name: str) -> None:
    fmt = formats.get(name)
    linear(fmt, 4_000, [*adversaries(fmt).values(), *pieces_of(fmt)])


def processor_time(fmt: formats.Format, text: str) -> float:
    parser = fmt.parser(TOOLS)
    begin = time.thread_time()
    for at in range(0, len(text), 16):
        parser.feed(text[at : at + 16])
    parser.finish()
    return time.thread_time() - begin


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_no_text_costs_its_square(name: str) -> None:
    """What the counts do not see: what one line may cost. Over a ratio so wide that no busy machine hides a square: 16 times the text."""
    fmt = formats.get(name)
    for piece in [*adversaries(fmt).values(), *pieces_of(fmt)]:
        with naming(repr(piece)):
            ratio = float("inf")
            for _ in range(5):
                ratio = min(
                    ratio, processor_time(fmt, spelled(piece, 120_000)) / processor_time(fmt, spelled(piece, 7_500))
                )
                if ratio < 30:
                    break
            assert ratio < 40


def what_waits_is_bounded(name: str, step: int) -> None:
    """Wherever a call is cut, and whatever then comes without end: no more waits than a name may have characters."""
    fmt = formats.get(name)
    arguments = {"text": "xy", "n": 1, "o": {"a": [1, "b"]}}
    most = DEFAULT_LIMITS.stream_name_chars + max(len(marker) for marker in fmt.markers(fmt.reasoning))
    for shape in fmt.written:
        text = fmt.render({"tool_calls": [{"name": "f", "arguments": arguments}]}, shape.form)
        for cut in range(1, len(text), step):
            for more in (" \n", "a", "7", "\\", "<", "{"):
                with naming((text[:cut], more)):
                    parser = fmt.parser(TOOLS)
                    parser.feed(text[:cut])
                    for _ in range(20):
                        parser.feed(more * 100)
                        assert len(parser.unread) <= most + 2 * 100


@pytest.mark.parametrize("name", NAMES)
def test_what_waits_is_bounded(name: str) -> None:
    what_waits_is_bounded(name, 11)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_what_waits_is_bounded_anywhere(name: str) -> None:
    what_waits_is_bounded(name, 1)


WORDS = "It rains in Orléans: 5 < 6, and so on. "


@pytest.mark.parametrize("name", NAMES)
def test_text_comes_as_it_is_written(name: str) -> None:
    """Content, reasoning and string arguments: silent for a possible marker less its last character at most."""
    fmt = formats.get(name)
    longest = max(len(marker) for marker in fmt.markers(fmt.reasoning)) + 1
    for kind, start in begun(fmt, facts(name)).items():
        with naming(kind.__name__):
            parser = fmt.parser(TOOLS)
            parser.feed(start)
            events: list[Event] = []
            silent = 0
            for char in WORDS * 3:
                new = parser.feed(char)
                silent = 0 if new else silent + 1
                assert silent < longest
                events += new
            got = collect(events).content if kind is Content else "".join(e.text for e in events if isinstance(e, kind))
            assert len(got or "") > len(WORDS) * 3 - longest


def begun(fmt: formats.Format, known: Facts) -> dict[type[Content] | type[Reasoning] | type[ToolCallArguments], str]:
    found: dict[type[Content] | type[Reasoning] | type[ToolCallArguments], str] = {
        Content: fmt.render({"content": "So …"}).partition("…")[0],
        ToolCallArguments: call(fmt, {"text": "x…"}).partition("…")[0],
    }
    if fmt.reasoning is not None:
        found[Reasoning] = fmt.render({"reasoning": "So …"}).partition("…")[0]
    return found
