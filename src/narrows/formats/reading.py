"""An answer's regions, put together: reasoning, content and calls, and which leads to which.

    region                   goes on                to
    opening                  text                   body
    opening, thinking        <think>                thinking
    thinking                 text                   reasoning
    thinking, reasoning      </think>               opening
    opening, body, reasoning a call's opener        the family's regions, then tail
    tail                     the call's closer      after
    tail, after              a call's opener        the next call, if there may be several
    opening                  {                      a call, if the format's calls begin without a marker
    opening                  <answer>               wrapped, if the style sets content off
    wrapped                  </answer>              opening

In `opening` and `thinking` there was nothing but whitespace so far. So reasoning may begin in the one, and content or
calls in the other.

The regions of text do not change, and answers share them. Those of calls are made for each answer, when the first call
of their shape begins.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from narrows.events import Content, Reasoning
from narrows.formats.families.build import Build, give_back
from narrows.stream.markers import Exit
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.late_closer import LateCloser
from narrows.stream.regions.later import Later
from narrows.stream.regions.layout import Layout
from narrows.stream.regions.marker_as_text import MarkerAsText
from narrows.stream.regions.repeated_opener import RepeatedOpener
from narrows.stream.regions.second import Second
from narrows.stream.regions.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from narrows.formats.definition import FormatDefinition
    from narrows.formats.families.base import Shape
    from narrows.formats.families.openers import Entry
    from narrows.formats.reasoning import ReasoningStyle
    from narrows.stream.machine import Machine, Region
    from narrows.stream.source import Alphabet


def answer_regions(
    fmt: FormatDefinition,
    style: ReasoningStyle | None,
    calls: bool,
    parallel: bool,
    alphabet: Alphabet,
    named: str | None = None,
    one_piece: bool = False,
) -> tuple[Region, Callable[[int], Sequence[Region]]]:
    """The region that an answer begins in, and what makes the regions of its calls (`Machine.shapes`).

    `alphabet`: tells how markers stand in the text. `one_piece`: nothing in the content is a marker (but what ends
    content that is set off)."""
    start, build = _text_regions(fmt, style, calls, parallel, alphabet, named, one_piece)
    return start, _CallRegions(fmt.calls, build)


class _CallRegions:
    """The regions of one answer's calls. Most answers hold calls of one shape, or none."""

    __slots__ = ("_build", "_made", "_shapes")

    def __init__(self, shapes: Sequence[Shape], build: Build) -> None:
        self._shapes = shapes
        self._build = build
        self._made: dict[int, list[Region]] = {}

    def __call__(self, shape: int) -> list[Region]:
        made = self._made.get(shape)
        if made is None:
            build = replace(self._build, tails=[], raws=[])
            made = self._made[shape] = [entry.region for entry in self._shapes[shape].entries(build)]
            build.link_ends()
        return made


@lru_cache(maxsize=256)
def _text_regions(
    fmt: FormatDefinition,
    style: ReasoningStyle | None,
    calls: bool,
    parallel: bool,
    alphabet: Alphabet,
    named: str | None,
    one_piece: bool,
) -> tuple[Region, Build]:
    """The regions of text, linked, and what those of calls are built from."""
    encode = alphabet.encode
    head = style.head if style is not None else None
    own = fmt.reasoning.head if fmt.reasoning is not None else None
    build = Build(encode=encode, parallel=parallel, named=named, calls=calls, head=head or own, one_piece=one_piece)
    opening, body, reasoning, wrapped, thinking = (
        Text(Content, "opening", fresh=True),
        Text(Content, "content"),
        Text(Reasoning, "reasoning"),
        Text(Content, "wrapped"),
        Text(Reasoning, "reasoning", fresh=True),  # nothing but whitespace so far
    )
    opening.then, thinking.then = body, reasoning
    begin: list[Exit] = []
    contents: list[Exit] = []
    alone: list[Exit] = []
    late: list[Exit] = []
    start: Region = opening
    shut: list[Exit] = []
    if style is not None and style.shown:
        reasoning = Text(Content, "reasoning")
        inside = RepeatedOpener(reasoning)
        inside.link(Exit(encode(opener), reasoning) for opener, _ in style.pairs)
        begin = [Exit(encode(opener), MarkerAsText(encode(opener), inside), keep=True) for opener, _ in style.pairs]
        shut = [Exit(encode(closer), MarkerAsText(encode(closer), opening), keep=True) for _, closer in style.pairs]
        if style.opened:
            start = inside
    elif style is not None:
        opened = Layout(style.after_open, thinking, thinking=True)
        closed = Layout(style.after_close, opening, thinking=False)
        content = Layout(style.inside_content, wrapped, thinking=False, wrapped=True)
        if head is not None:
            build.messages.update(dict.fromkeys(head.reasoning, opened))
            build.messages.update(dict.fromkeys(("", *head.content), content))
        begin = [Exit(encode(opener), opened, apart=True) for opener, _ in style.pairs]
        begin += [Exit(encode(marker), closed, apart=True) for marker in style.empty]
        contents = [Exit(encode(opener), content, apart=True) for opener, _ in style.wraps]
        if style.close_alone:
            alone = [Exit(encode(closer), closed, apart=True) for _, closer in style.pairs]
        late = _late(style, encode, build.after, opening)
        if style.opened:
            start = opened
    first, openers = _by_place(build, _entries(fmt, build), one_piece)
    headed_first, headed = _by_place(build, build.heads(None), one_piece) if head is not None else ([], [])
    starts = [e for e in (*openers, *headed, *begin, *contents) if _starts_message(e.marker, style, encode)]
    if style is not None and style.shown:
        reasoning.link(shut + (openers if style.calls == "end" else []))
    elif style is not None:
        opens = [e for e in first if e.marker not in BRACKETS] + openers + headed
        opens += [e for e in contents if e.marker.strip()]
        thinking.link(_closers(style.pairs, style.before_close, closed, encode) + opens + begin)
        ends_it = [*(openers if style.calls == "end" else ()), *_unclosed(style, contents, wrapped)]
        reasoning.link(_closers(style.pairs, style.before_close, closed, encode) + ends_it + starts)
        ends_it = list(openers) if style.calls_in_content == "end" else []
        unwrapped = Layout("", opening, wrapped=False)
        closers = _closers(style.wraps, style.inside_content, unwrapped, encode)
        wrapped.link(closers if one_piece else ends_it + starts + closers)
    begin = [*headed, *begin, *contents]
    anywhere = begin if style is not None and style.anywhere else []
    ends = [Exit(encode(end), build.after, apart=True) for end in fmt.ends if calls or style is not None]
    shown: list[Exit] = []
    if style is None and fmt.reasoning is not None and first:
        # The reasoning stays in the text; calls begin after it all the same.
        start_of_next = own.start if own else ""
        in_content = list(dict.fromkeys(closer.removesuffix(start_of_next) for _, closer in fmt.reasoning.pairs))
        shown = [Exit(encode(c), MarkerAsText(encode(c), opening), keep=True) for c in in_content]
    opening.link(openers + first + headed_first + begin + alone + ends + shown)
    opening.fresh = bool(openers + first + begin)  # with nothing to wait for, whitespace is text at once
    body.link([] if one_piece else openers + anywhere + ends + shown)
    again = (openers if parallel else []) + late + anywhere + ends
    build.after.link(again)
    build.again = again
    build.further = openers if parallel else []
    if build.head is not None:  # what a message holds is raw, but for the next message
        build.further = [e for e in (*build.further, *headed) if e.marker.startswith(encode(build.head.start))]
    return start, build


BRACKETS = ("{", "[")
"""Openers that are no markup. In reasoning they open nothing."""


def _closers(pairs: Iterable[tuple[str, str]], before: str, region: Region, encode: Callable[[str], str]) -> list[Exit]:
    """Each closer, with the layout before it or without."""
    return [Exit(lead + encode(closer), region) for _, closer in pairs for lead in dict.fromkeys(("", before))]


def _unclosed(style: ReasoningStyle, contents: list[Exit], wrapped: Text) -> list[Exit]:
    """Openers of content that end reasoning."""
    if style.content != "line":
        return contents if style.content == "end" else []
    inside = Layout("", wrapped, thinking=False, wrapped=True)  # the newline after it has been taken
    return [
        *(replace(e, marker="\n" + e.marker) for e in contents),
        *(replace(e, marker=e.marker + "\n", region=inside) for e in contents),
    ]


def _late(style: ReasoningStyle, encode: Callable[[str], str], after: Region, opening: Region) -> list[Exit]:
    """Closers of what a call stood in, after the call."""
    thoughts = {closer for _, closer in style.pairs}
    texts = {closer for _, closer in style.wraps}
    return [
        Exit(encode(c), LateCloser(after if c in thoughts else None, opening if c in texts else None), begins=True)
        for c in dict.fromkeys(closer for _, closer in (*style.pairs, *style.wraps))
    ]


def _starts_message(marker: str, style: ReasoningStyle | None, encode: Callable[[str], str]) -> bool:
    return style is not None and bool(style.message_start) and marker.startswith(encode(style.message_start))


def _entries(fmt: FormatDefinition, build: Build) -> list[Entry]:
    entries: list[Entry] = []
    for number, shape in enumerate(fmt.calls):
        if not build.calls and not shape.heading():
            continue
        entries += [opener.to(Later(number, which)) for which, opener in enumerate(shape.openers(build))]
    return entries


def _by_place(build: Build, ways: Iterable[Entry], one_piece: bool) -> tuple[list[Exit], list[Exit]]:
    """One exit per opening marker: those that count at the beginning alone, and those that count everywhere. Where two
    shapes share a marker, the first character after it decides."""
    entries: dict[tuple[str, bool], list[Entry]] = {}
    for entry in ways:
        entries.setdefault((build.encode(entry.marker), entry.at_start), []).append(entry)
    exits = {
        key: Exit(
            key[0],
            _fork(ways),
            keep=all(way.keep for way in ways),
            begins=True,
            sure=all(way.node is None for way in ways) and not (one_piece and key[1]),
        )
        for key, ways in entries.items()
    }
    return [e for (_, at_start), e in exits.items() if at_start], [
        e for (_, at_start), e in exits.items() if not at_start
    ]


def _fork(ways: list[Entry]) -> Region:
    if not any(way.first for way in ways):
        return ways[0].region
    open_ended = [way.region for way in ways if not way.first]
    otherwise: Callable[[Machine], Region] = give_back
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
