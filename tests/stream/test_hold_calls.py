"""With `hold_calls` no client sees half of a call: complete calls come whole, and what does not end well is text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from transcripts import NAMES, Case, cases_of, check_stream, feed, naming, pieces_of, rewrites, splits

from narrows import formats
from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.limits import DEFAULT_LIMITS
from narrows.stream import collect


def check(case: Case, pieces: list[str]) -> None:
    parser = case.parser(hold_calls=True)
    events = []
    for piece in [*pieces, None]:
        more = parser.feed(piece) if piece is not None else parser.finish()
        events += more
        opened = sum(isinstance(e, ToolCallStart) for e in more)
        assert opened == sum(isinstance(e, ToolCallEnd) for e in more)
    assert all(event.complete for event in events if isinstance(event, ToolCallEnd))
    message = check_stream(events, len(case.text))
    plain = case.parse()
    kept = [call for call in plain.tool_calls if call.complete]
    assert [(c.name, c.arguments) for c in message.tool_calls] == [(c.name, c.arguments) for c in kept]
    if len(kept) == len(plain.tool_calls):
        assert (message.content, message.reasoning) == (plain.content, plain.reasoning)


@pytest.mark.parametrize("name", NAMES)
def test_cases(name: str) -> None:
    for case in cases_of(name):
        with naming(case):
            check(case, [case.text])
            check(case, list(case.text))


def test_a_call_that_breaks_off_is_text() -> None:
    fmt = formats.get("hermes_json")
    text = 'a <tool_call>{"name": "f", "arguments": {"x": 1'
    assert fmt.parse(text, hold_calls=True).content == text
    text = '<tool_call>{"name": "f", "arguments": {x}</tool_call>b'
    message = fmt.parse(text, hold_calls=True)
    assert (message.content, message.tool_calls) == (text, [])


def test_a_call_that_is_too_long_is_text() -> None:
    fmt = formats.get("hermes_json")
    text = '<tool_call>{"name": "f", "arguments": {"x": "' + "y" * 900 + '"}}</tool_call>b'
    limits = replace(DEFAULT_LIMITS, stream_held_chars=300)
    assert fmt.parse(text, hold_calls=True).tool_calls
    for size in (1, 7, 2000):
        parser = fmt.parser(limits=limits, hold_calls=True)
        message = check_stream(feed(parser, [text[i : i + size] for i in range(0, len(text), size)]), len(text))
        assert message.tool_calls == []
        assert (message.content or "").startswith(text[:-13])


def test_a_call_that_the_prompt_has_begun() -> None:
    fmt = formats.get("hermes_json")
    prompt = '<|im_start|>assistant\n<tool_call>{"name": "f", "arguments": {"x": '
    parser = fmt.parser(prompt=prompt, hold_calls=True)
    assert parser.feed("1") == []
    events = parser.feed("}}")
    assert [type(e) for e in events] == [ToolCallStart, ToolCallArguments, ToolCallEnd]
    assert fmt.parse("1", prompt=prompt, hold_calls=True).content == "1"


# What does not come to be a call is text, all of it, in order.

BROKEN = {  # format: texts without a complete call
    "hermes_json": [
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {x}\n</tool_call>\nb',
    ],
    "qwen3_xml": ["<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\nso\n</function>\n</tool_call>"],
    "glm_xml": ["<tool_call>f\n<arg_key>a</arg_key>so<arg_value>1</arg_value>\n</tool_call>"],
    "kimi_k2": [
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>[1]<|tool_call_end|>"
            "<|tool_call_begin|>functions.f:1<|tool_call_argument_begin|>{x<|tool_call_end|><|tool_calls_section_end|>"
        )
    ],
    "hunyuan_a13b": ['<tool_calls>[{"name": "f", "arguments": 1}, {"name": "f", "arguments": {x}}] so </tool_calls>'],
    "lfm2": ["<|tool_call_start|>[f(x=1, y=so), g(z=)]<|tool_call_end|>"],
    "generic_json": ['{"tool_calls": [{"name": "f", "arguments": [1]}]} so'],
    "minimax_m3": [
        ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">so]<]minimax[>[</invoke>]<]minimax[>[</tool_call>'
    ],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BROKEN.items() for text in texts])
def test_all_of_a_broken_call_is_text(name: str, text: str) -> None:
    for cut in range(len(text) + 1):
        message = collect(feed(formats.get(name).parser(hold_calls=True), [text[:cut], text[cut:]]))
        assert (message.content, message.tool_calls) == (text, []), cut


def test_complete_calls_beside_a_broken_one() -> None:
    fmt = formats.get("hunyuan_a13b")
    good, bad = '{"name": "f", "arguments": {}}', '{"name": "f", "arguments": 1}'
    for calls, content in (
        ([bad, good], f"<tool_calls>[{bad}"),
        ([good, bad], f", {bad}]</tool_calls>"),
        ([good, bad, good], f", {bad}"),
    ):
        message = fmt.parse(f"<tool_calls>[{', '.join(calls)}]</tool_calls>", hold_calls=True)
        assert (message.content, len(message.tool_calls)) == (content, calls.count(good))


def mutated(text: str, pieces: list[str], random: Random, count: int) -> Iterator[str]:
    for _ in range(count):
        begin = random.randrange(len(text) + 1)
        end = min(begin + random.choice((0, 1, 1, 3, 9)), len(text))
        yield text[:begin] + random.choice(["", *random.sample(pieces, 2)]) + text[end:]
    yield text + text


VERBATIM = [name for name in NAMES if not rewrites(formats.get(name))]


@pytest.mark.parametrize("name", VERBATIM)
def test_only_markup_of_complete_calls_is_left_out(name: str) -> None:
    only_markup_of_complete_calls_is_left_out(name, 1)


@pytest.mark.soak
@pytest.mark.parametrize("name", VERBATIM)
def test_only_markup_of_complete_calls_is_left_out_of_many(name: str) -> None:
    only_markup_of_complete_calls_is_left_out(name, 100)


def only_markup_of_complete_calls_is_left_out(name: str, count: int) -> None:
    fmt, random = formats.get(name), Random(name)
    pieces = pieces_of(fmt)
    for case in cases_of(name):
        if "prompt" in case.options or case.options.get("tool_choice", "auto") != "auto":
            continue  # where a call has to come, one that is cut leaves nothing
        for text in mutated(case.text, pieces, random, count):
            for style in random.sample((None, "auto"), 2 if count > 1 else 1):
                options = {**case.options, "reasoning": style, "hold_calls": True}
                cuts = [random.randrange(len(text) + 1) for _ in range(3)]
                with naming((text, style, cuts)):
                    events = feed(fmt.parser(**options), splits(text, cuts))
                    plain = feed(fmt.parser(**{**options, "hold_calls": False}), [text])
                    check_left_out(fmt, style, text, events, [e for e in plain if isinstance(e, ToolCallEnd)])
                    assert texts_of(feed(fmt.parser(**options), [text])) == texts_of(events)


def texts_of(events: list[Event]) -> tuple[str | None, str | None, int]:
    message = collect(events)
    return message.content, message.reasoning, len(message.tool_calls)


def without_heads(gap: str, begin: str, end: str) -> str:
    parts = gap.split(begin)
    return parts[0] + "".join(part.partition(end)[2] for part in parts[1:])


def check_left_out(
    fmt: formats.Format, style: str | None, text: str, events: list[Event], ends: list[ToolCallEnd]
) -> None:
    """What no text stands for holds a complete call, ends what one stands in, or is made of markers of reasoning and content. `ends`: of all
    calls, without `hold_calls`."""
    markers = [*fmt.ends, *([fmt.heading] if fmt.heading else [])]
    if style is not None and fmt.reasoning is not None:
        markers += fmt.reasoning.empty
        markers += [marker for pair in (*fmt.reasoning.pairs, *fmt.reasoning.wraps) for marker in pair]
    last, calls = 0, 0
    for event in [*events, Content("", (len(text), len(text)))]:
        if isinstance(event, (Content, Reasoning)):
            begin, end = event.span
            assert text[begin:end] == event.text
            gap = text[last:begin]
            before = [end for end in ends if end.span[1] <= last]
            if style is not None and fmt.reasoning is not None and fmt.reasoning.head is not None:
                head = fmt.reasoning.head
                gap = without_heads(gap, head.channel, head.message).replace(head.start, "")
            if not calls and not (before and before[-1].complete):
                for marker in sorted(markers, key=len, reverse=True):
                    gap = gap.replace(marker, "")
                assert not gap.strip(), gap
            last, calls = end, 0
        elif isinstance(event, ToolCallEnd):
            assert event.complete
            calls += 1
