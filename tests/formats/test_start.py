"""Where a prompt leaves the answer, told by comparing: a parser that reads the prompt's end says the same."""

from __future__ import annotations

import pytest

from narrows import formats
from narrows.formats.answer_parser import answer_parser
from narrows.formats.prompt import Start, open_part, start_of
from narrows.formats.styles import reasoning_style, styles
from narrows.tools.request import Choice, read_tools


def by_parser(fmt: formats.Format, style: formats.ReasoningStyle | None, prompt: str, calls: bool) -> Start:
    text = open_part(prompt, fmt, style)
    parser = answer_parser(fmt, read_tools(None if calls else []), Choice("auto"), style, open_text=text)
    parser.feed("")
    place = parser.place
    if place == "opening" and text.lstrip() != parser.unread.lstrip():
        place = "content"
    return Start(text, place, parser.unread, max(len(text) + parser.call_begins_at, 0), *parser.prompt_calls)


def prompts(style: formats.ReasoningStyle | None) -> list[str]:
    turn = "<|im_start|>assistant\n"
    ends = ["", turn, turn + "x", turn + "\n"]
    for opener, closer in style.pairs if style is not None else ():
        assert style is not None
        begun = opener + style.after_open
        ends += [begun[:n] for n in range(1, len(begun) + 1)]
        ends += [turn + begun[:n] for n in range(1, len(begun) + 1)]
        ends += [
            turn + opener + "\n\n",
            turn + begun + "Hm",
            turn + begun + closer,
            turn + " " + opener,
            turn + opener + opener,
        ]
    return ends


@pytest.mark.parametrize("name", formats.names())
def test_what_is_told_by_comparing_is_what_a_parser_says(name: str) -> None:
    fmt = formats.get(name)
    others = styles()[formats.names().index(name) % 23 :: 23]
    for style in (None, fmt.reasoning, *map(reasoning_style, others)):
        for prompt in prompts(style):
            for calls in (False, True):
                told, right = start_of(fmt, style, prompt, calls=calls), by_parser(fmt, style, prompt, calls)
                assert (told.text, told.place, told.begun) == (right.text, right.place, right.begun), (style, prompt)
                assert (told.calls_before, told.calls_begun) == (right.calls_before, right.calls_begun), (style, prompt)
