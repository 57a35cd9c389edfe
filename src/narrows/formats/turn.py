"""An answer's regions, put together: reasoning, content and calls, and which leads to which.

opening --text--> body          opening: nothing but blanks so far, so reasoning may begin
opening --<think>--> reasoning --</think>--> opening
opening, body, reasoning --opener--> a call of the family --> tail --closer--> after
tail, after --opener--> the next call (not where only one is wanted)
opening --{--> a call               where a format's calls begin without a marker, at the beginning alone
opening --<answer>--> wrapped --</answer>--> opening     where a style sets the content off, too
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.events import Content, Reasoning
from narrows.formats.families.shape import Build, Entry
from narrows.stream.markers import Exit
from narrows.stream.names import Expect, Second
from narrows.stream.text import LateClose, LateUnwrap, Layout, Repeated, Spoken, Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from narrows.formats.model import Format, ReasoningStyle
    from narrows.stream.machine import Machine, Region


def build_regions(
    fmt: Format,
    style: ReasoningStyle | None,
    calls: bool,
    parallel: bool,
    encode: Callable[[str], str],
    named: str | None = None,
    one_piece: bool = False,
) -> Region:
    """Fresh regions for one parser; returns the one that an answer begins in. `encode`: a marker as it stands in the text; `one_piece`:
    nothing in the content is a marker (but what ends content that is set off)."""
    build = Build(encode, parallel, named, calls)
    opening, body, reasoning = (
        Text(Content, "opening", fresh=True),
        Text(Content, "content"),
        Text(Reasoning, "reasoning"),
    )
    opening.then = body
    first, openers = _openers(fmt, build)

    begin: list[Exit] = []
    alone: list[Exit] = []
    late: list[Exit] = []
    start: Region = opening
    if style is not None and style.shown:
        reasoning = Text(Content, "reasoning")
        inside = Repeated(reasoning)
        inside.link(Exit(encode(opener), reasoning) for opener, _ in style.pairs)
        begin = [Exit(encode(opener), Spoken(encode(opener), inside), keep=True) for opener, _ in style.pairs]
        shut = [Exit(encode(closer), Spoken(encode(closer), opening), keep=True) for _, closer in style.pairs]
        reasoning.link(shut + (openers if style.calls == "end" else []))
        if style.opened:
            start = inside
    elif style is not None:
        inside = Repeated(reasoning)
        opened = Layout(style.after_open, inside, thinking=True)
        closed = Layout(style.after_close, opening, thinking=False)
        begin = [Exit(encode(opener), opened) for opener, _ in style.pairs]
        inside.link(begin)
        closers = [before + encode(closer) for _, closer in style.pairs for before in {"", style.before_close}]
        ends_at_call = openers if style.calls == "end" else []
        reasoning.link([Exit(closer, closed) for closer in closers] + ends_at_call)
        if ends_at_call:
            late = [Exit(encode(closer), LateClose(build.after), begins=True) for _, closer in style.pairs]
        if style.close_alone:
            alone = [Exit(encode(closer), closed) for _, closer in style.pairs]
        if style.opened:
            start = opened
    if style is not None and style.wraps:
        wrapped = Text(Content, "wrapped")
        unwrapped = Layout("", opening, wrapped=False)
        begin += [Exit(encode(o), Layout(style.inside_content, wrapped, wrapped=True)) for o, _ in style.wraps]
        closers = [before + encode(closer) for _, closer in style.wraps for before in {"", style.inside_content}]
        ends_it = openers if style.calls_in_content == "end" and not one_piece else []
        wrapped.link(ends_it + [Exit(closer, unwrapped) for closer in closers])
        late += [Exit(encode(closer), LateUnwrap(opening), begins=True) for _, closer in style.wraps]
    anywhere = begin if style is not None and style.anywhere else []
    ends = [Exit(encode(end), build.after) for end in fmt.ends if calls or style is not None]
    behind: list[Exit] = []
    if style is None and fmt.reasoning is not None and first:
        # The reasoning stays in the text; calls begin behind it all the same.
        behind = [Exit(encode(c), Spoken(encode(c), opening), keep=True) for _, c in fmt.reasoning.pairs]
    opening.link(openers + first + begin + alone + ends + behind)
    opening.fresh = bool(openers + first + begin)  # with nothing to wait for, blanks are text at once
    body.link([] if one_piece else openers + anywhere + ends + behind)
    again = (openers if parallel else []) + late + anywhere + ends
    build.after.link(again)
    for text, exits in build.tails:
        text.link([*exits, *again])
    for raw, exits in build.raws:
        raw.link([*exits, *(openers if parallel else [])])
    return start


def _openers(fmt: Format, build: Build) -> tuple[list[Exit], list[Exit]]:
    """One exit per opening marker: those that count at the beginning alone, and those that count everywhere. Where two shapes share
    a marker, the first character behind it decides."""
    entries: dict[tuple[str, bool], list[Entry]] = {}
    for shape in fmt.calls:
        if not build.calls and not getattr(shape, "content_name", ""):
            continue
        for entry in shape.entries(build):
            entries.setdefault((build.encode(entry.marker), entry.at_start), []).append(entry)
    exits = {
        key: Exit(key[0], _fork(ways), keep=all(way.keep for way in ways), begins=True) for key, ways in entries.items()
    }
    return [e for (_, at_start), e in exits.items() if at_start], [
        e for (_, at_start), e in exits.items() if not at_start
    ]


def _fork(ways: list[Entry]) -> Region:
    if len(ways) == 1:
        return ways[0].region
    open_ended = [way.region for way in ways if not way.first]
    otherwise: Callable[[Machine], Region] = _give_back
    if open_ended:
        otherwise = open_ended[0].enter
    fork = Expect(otherwise)
    by_first: dict[str, dict[str, Region]] = {}
    for way in ways:
        if way.first:
            by_first.setdefault(way.first, {})[way.second] = way.region
    fork.link([Exit(first, _by_second(first, seconds), keep=True) for first, seconds in by_first.items()])
    return fork


def _by_second(first: str, seconds: dict[str, Region]) -> Region:
    return next(iter(seconds.values())) if len(seconds) == 1 else Second(first, seconds)


def _give_back(machine: Machine) -> Region:
    return machine.give_back()
