"""A call that the budget cuts is no content, wherever it is cut: what the grammar would have made a call is markup, in every format.

Texts are walks of the grammar, cut at every token (and in the middle of characters), read as ids, as text and as bytes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from test_format_grammar import spell, vocabulary, walks
from transcripts import NAMES, TOOLS, feed, naming, openers, rewrites

from narrows import formats
from narrows.stream import Message, collect

NAMED: Any = {"type": "function", "function": {"name": "now"}}
CALLS = [
    {"id": f"functions.now:{i}", "function": {"name": "get_weather", "arguments": {"city": city}}}
    for i, city in enumerate(("Paris", "é"))
]


def readings(fmt: formats.Format, text: str, ids: list[int] | None, **options: Any) -> list[tuple[str, Message]]:
    """Many beginnings of an answer, read: as ids, or as text, and as bytes that are cut inside characters."""
    if ids is not None:
        made = []
        for n in range(len(ids) + 1):
            parser = fmt.parser(**options, vocab=vocabulary(fmt.name, True)[0])
            made.append((repr((text, n)), collect([*parser.feed_tokens(ids[:n]), *parser.finish()])))
        return made
    cuts = {*range(min(50, len(text))), *range(0, len(text), len(text) // 50 + 1)}
    made = [(text[:n], fmt.parse(text[:n], **options)) for n in sorted(cuts)]
    data = text.encode()
    for n in range(0, len(data), len(data) // 200 + 1):
        if data[n] & 0xC0 == 0x80:  # the others are cut between characters
            parser = fmt.parser(**options)
            made.append((repr(data[:n]), collect([*parser.feed_bytes(data[:n]), *parser.finish()])))
    return [*made, (text, fmt.parse(text, **options))]


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
@pytest.mark.parametrize("name", NAMES)
def test_a_forced_call_that_is_cut_has_no_content(name: str, choice: Any) -> None:
    fmt = formats.get(name)
    grammar = fmt.grammar(TOOLS, tool_choice=choice)
    random = Random(name)
    for special in (False, True):
        for ids in walks(name, grammar, special, 1, random):
            text = spell(name, ids, special)
            # A forced call says enough: that the answer was held to the grammar need not be said besides.
            options = {"tools": TOOLS, "tool_choice": choice, "constrained": special}
            for begun, message in readings(fmt, text, ids if special else None, **options):
                assert message.content is None, (begun, message)


@pytest.mark.parametrize("name", NAMES)
def test_with_hold_calls_too(name: str) -> None:
    fmt = formats.get(name)
    for shape in fmt.written:
        text = fmt.render({"tool_calls": CALLS[:1]}, shape.form)
        whole = fmt.parse(text, TOOLS, tool_choice="required", hold_calls=True).tool_calls
        for cut in range(0, len(text), 2):
            message = fmt.parse(text[:cut], TOOLS, tool_choice="required", hold_calls=True)
            assert message.content is None, text[:cut]
            assert [c.name for c in message.tool_calls] in ([], [c.name for c in whole])


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_the_model_chose_leaves_only_what_may_be_text(name: str) -> None:
    """Behind the whole of an opening marker nothing is content; half of one may be."""
    fmt = formats.get(name)
    if rewrites(fmt):
        pytest.skip("text is not written as it stands")
    grammar = fmt.grammar(TOOLS, tool_choice="auto")
    random = Random(name)
    begin = [m.lstrip() for m in (*openers(fmt), *openers(fmt, at_start=True), *around(fmt))]
    # What stands between a recipient and the call's own tag, or before a name in brackets, may be text.
    open_ended = any(opener.node is not None for opener in fmt.openers())
    for special in (False, True):
        for ids in walks(name, grammar, special, 2, random):
            text = spell(name, ids, special)
            options = {"tools": TOOLS, "constrained": True}
            read = readings(fmt, text, ids if special else None, **options)
            whole = (read[-1][1].content or "").rstrip()
            for begun, message in read:
                content = (message.content or "").rstrip("\ufffd").rstrip()
                if whole.startswith(content) or open_ended:
                    continue
                # What is more than the whole answer's content may have become a marker.
                rests = (content[n:].lstrip() for n in range(len(content)) if whole.startswith(content[:n].rstrip()))
                assert any(m.startswith(rest) and rest != m for rest in rests for m in begin), (begun, content)


@pytest.mark.parametrize("name", NAMES)
def test_every_cut_of_calls_behind_text(name: str) -> None:
    fmt = formats.get(name)
    if rewrites(fmt):
        pytest.skip("text is not written as it stands")
    for shape in fmt.written:
        if shape.at_start:
            continue
        text = fmt.render({"content": "Look:", "tool_calls": CALLS[:1]}, shape.form)
        heads = [opener.node or opener.marker for opener in fmt.openers()]
        if any(not isinstance(head, str) for head in heads):
            continue
        at = min(found + len(m) for m in openers(fmt) if (found := text.find(m, text.index("Look:"))) >= 0)
        for cut in (*range(at, at + 30), *range(at + 30, len(text) + 1, 9)):
            content = fmt.parse(text[:cut], TOOLS, constrained=True).content
            assert (content or "").strip() == "Look:", text[:cut]
            with naming(text[:cut]):  # nothing is said of an answer that was held to nothing
                free = fmt.parser(TOOLS)
                collect(feed(free, (text[:cut],)))


def around(fmt: formats.Format) -> list[str]:
    """What sets reasoning and content off, and what ends a turn."""
    style = fmt.reasoning
    return [*fmt.ends, *(m for pair in ((*style.pairs, *style.wraps) if style else ()) for m in pair)]


def test_half_a_character_of_a_marker_is_no_content() -> None:
    fmt = formats.get("deepseek_v3")
    data = fmt.render({"tool_calls": CALLS[:1]}).encode()
    for cut in range(len(data)):
        parser = fmt.parser(TOOLS, tool_choice="required")
        message = collect([*parser.feed_bytes(data[:cut]), *parser.finish()])
        assert message.content is None, data[:cut]


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<tool_", "<tool_"),
        ("Hi <tool_call>", "Hi <tool_call>"),
        ("<tool_call>\n", "<tool_call>\n"),
        ('<tool_call>\n{"na', '<tool_call>\n{"na'),
    ],
)
def test_an_answer_that_was_held_to_nothing_keeps_its_text(text: str, content: str) -> None:
    assert formats.get("hermes_json").parse(text, TOOLS).content == content


def test_text_before_a_required_call_is_still_text() -> None:
    """A model that is not held to the grammar may write it, and nothing of it is lost."""
    message = formats.get("hermes_json").parse("Sure <tool_call>", TOOLS, tool_choice="required")
    assert message.content == "Sure <tool_call>"


def test_text_behind_a_required_call_is_still_text() -> None:
    fmt = formats.get("hermes_json")
    call = fmt.render({"tool_calls": CALLS[:1]})
    for text in (" There you <tool", " There <tool_call>{", "<tool_call> no <tool"):
        message = fmt.parse(call + text, TOOLS, tool_choice="required")
        assert (message.content, len(message.tool_calls)) == (text, 1)
    assert fmt.parse(call + "\n<tool", TOOLS, tool_choice="required").content is None
