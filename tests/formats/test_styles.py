"""Every reasoning style is read, generated and rendered, whatever format it comes with."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from test_format_grammar import TOOLS, spell, vocabulary, walks

from narrows import formats
from narrows.errors import FormatError
from narrows.formats.styles import styles
from narrows.stream import collect

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[1] / "cases" / "reasoning_styles.toml").read_text(encoding="utf-8")
)["case"]
FORMAT = formats.get("hermes_json")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['style']}: {case['text'][:40]!r}")
def test_what_a_text_comes_to(case: dict[str, Any]) -> None:
    text = case["text"]
    for cut in range(len(text) + 1):
        parser = FORMAT.parser(TOOLS, reasoning=case["style"], prompt=case.get("prompt", ""))
        message = collect([*parser.feed(text[:cut]), *parser.feed(text[cut:]), *parser.finish()])
        assert message.reasoning == case.get("reasoning"), cut
        assert message.content == case.get("content"), cut
        assert [call.name for call in message.tool_calls] == case.get("calls", [])


@pytest.mark.parametrize("name", styles())
def test_generated_texts_are_read_back(name: str) -> None:
    grammar = FORMAT.grammar(TOOLS, tool_choice="auto", reasoning=name)
    for ids in walks(FORMAT.name, grammar, False, 12, Random(name)):
        text = spell(FORMAT.name, ids, False)
        message = FORMAT.parse(text, TOOLS, reasoning=name)
        assert all(call.complete for call in message.tool_calls), text


@pytest.mark.parametrize("name", styles())
def test_the_canonical_spelling_is_generated(name: str) -> None:
    style = formats.reasoning_style(name)
    (opener, closer), inside = style.pairs[0], style.inside_content
    content = style.wraps[0][0] + inside + "So." + inside + style.wraps[0][1] if style.wraps else "So."
    rest = style.after_open + "Hm." + style.before_close + closer + style.after_close + content
    prompt = "<|im_start|>assistant\n" + opener
    for text, before in ((rest, prompt), (opener + rest, "")):
        if before == "" and style.opened:
            continue
        grammar = FORMAT.grammar(TOOLS, tool_choice="auto", reasoning=name, prompt=before)
        matcher = vocabulary(FORMAT.name, False)[0].compile(grammar).matcher()
        assert matcher.accept_bytes(text.encode()), text
        assert matcher.is_accepting
        message = FORMAT.parse(text, TOOLS, reasoning=name, prompt=before)
        shown = style.pairs[0][0] + "Hm." + style.pairs[0][1] + "So."
        assert (message.reasoning, message.content) == ((None, shown) if style.shown else ("Hm.", "So."))


@pytest.mark.parametrize("name", [name for name in styles() if not formats.reasoning_style(name).shown])
def test_nothing_between_the_markers_is_no_reasoning(name: str) -> None:
    """Models close at once what they have opened, with or without the newline that stands between."""
    style = formats.reasoning_style(name)
    for opener, _ in style.pairs:
        for _, closer in style.pairs:
            for between in {"", "\n", "\n\n"}:
                for text in {opener + between + closer + "So.", opener.rstrip("\n") + between + closer + "So."}:
                    for pieces in ([text], list(text)):
                        parser = FORMAT.parser(TOOLS, reasoning=name)
                        events = [event for piece in pieces for event in parser.feed(piece)]
                        message = collect([*events, *parser.finish()])
                        assert (message.reasoning, message.content) == (None, "So."), text
                message = FORMAT.parse(between + closer + "So.", TOOLS, reasoning=name, prompt="<|im_end|>" + opener)
                assert (message.reasoning, message.content) == (None, "So.")


def test_names_of_other_servers() -> None:
    assert formats.reasoning_style("deepseek_r1").name == "think_open"
    known = list(styles())
    aliases = [alias for name in known for alias in formats.reasoning_style(name).aliases]
    assert len(set(aliases + known)) == len(aliases + known)
    with pytest.raises(FormatError) as error:
        formats.reasoning_style("thimk")
    assert "think" in (error.value.hint or "")
