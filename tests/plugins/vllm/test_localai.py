"""narrows' parsers in LocalAI's loop: no tail is lost, complete answers have their calls, for every format."""

from __future__ import annotations

from typing import Any

import pytest
from answers import CUTTINGS, TOOLS, Answer, answers, cut, cuttings, steps, tokenizer_or_skip
from localai import LocalAI

from narrows import formats


@pytest.fixture(scope="module", params=formats.names())
def fmt(request: pytest.FixtureRequest) -> formats.Format:
    return formats.get(request.param)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tokenizer_or_skip()


def loop(fmt: formats.Format, tokenizer: Any, reasoning: bool = False) -> LocalAI:
    from narrows.plugins.vllm.reading import reasoning_parser, tool_parser

    splits = reasoning_parser.class_of(fmt.name) if reasoning and fmt.reasoning is not None else None
    return LocalAI(tool_parser.class_of(fmt.name), tokenizer, TOOLS, splits)


def test_every_cutting_of_every_answer(fmt: formats.Format, tokenizer: Any) -> None:
    """LocalAI issues 10346 and 10351: markup leaks, or everything waits for the end."""
    wrong, runs = [], 0
    for answer in answers(fmt.name, by_text=True):
        complete = loop(fmt, tokenizer, reasoning=True).complete(answer.text)
        for name, deltas in cuttings(answer, tokenizer):
            driven = loop(fmt, tokenizer)
            streamed = driven.stream(deltas)
            problem = answer.problem(streamed, complete, flushed=False)
            runs += 1
            if driven.failed or problem:
                wrong.append(f"{answer.name}, {name}: {problem}")
    assert runs == 22 * 9
    assert not wrong


def test_marker_that_only_ids_tell_from_text(fmt: formats.Format, tokenizer: Any) -> None:
    """A closing marker in a string that text alone cannot hold: streams have ids."""
    (answer,) = (answer for answer in answers(fmt.name) if answer.kind == "hostile")
    for name, deltas in cuttings(answer, tokenizer):
        result = loop(fmt, tokenizer).stream(deltas)
        assert answer.problem(result, result, flushed=False) is None, name


def test_text_after_a_heading_is_shown_without_it(fmt: formats.Format, tokenizer: Any) -> None:
    """Complete answers of plain text, also without a reasoning parser: no markup is in them, and none that is not there is asked for."""
    for answer in answers(fmt.name):
        if answer.kind == "plain":
            assert loop(fmt, tokenizer).complete(answer.text).content.split() == answer.content.split()


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("name", [name for name in formats.names() if formats.get(name).reasoning is not None])
def test_reasoning_is_not_lost_in_complete_answers(called: bool, name: str, tokenizer: Any) -> None:
    """Apart with a reasoning parser; without one in the content, as from vLLM's own tool parsers."""
    fmt = formats.get(name)
    calls = [{"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}] if called else []
    text = fmt.render({"content": None if called else "So it is.", "reasoning": "Let me think.", "tool_calls": calls})
    apart = loop(fmt, tokenizer, reasoning=True).complete(text)
    assert apart.reasoning.strip() == "Let me think."
    assert apart.content.strip() == ("" if called else "So it is.")
    together = loop(fmt, tokenizer).complete(text)
    assert together.reasoning == ""
    assert "Let me think." in together.content
    assert called or "So it is." in together.content
    for result in (apart, together):
        assert [call[0] for call in result.calls] == ["get_weather"] * called


@pytest.mark.parametrize("reasoning", [False, True])
def test_reasoning_of_a_stream_comes_once(reasoning: bool, tokenizer: Any) -> None:
    """With its deltas, also where the loop asks a reasoning parser at the end. Another answer of the same text is asked for itself."""
    fmt = formats.get("hermes_json")
    text = fmt.render({"content": "So it is.", "reasoning": "Let me think."})
    deltas = cut(steps(tokenizer, tokenizer.encode(text, add_special_tokens=False)), tokenizer.eos_token_id, "tokens")
    streaming = loop(fmt, tokenizer, reasoning)
    result = streaming.stream(deltas)
    assert (result.reasoning.strip(), result.content.strip()) == ("Let me think.", "So it is.")
    if reasoning:
        assert loop(fmt, tokenizer, reasoning).complete(text).reasoning.strip() == "Let me think."


def test_special_tokens_that_are_left_out_of_the_text_are_read_from_the_ids(
    fmt: formats.Format, tokenizer: Any
) -> None:
    """vLLM's default, which a user of LocalAI may not know of."""
    markers = fmt.markers(fmt.reasoning)
    if tokenizer.eos_token in markers:
        pytest.skip(
            "what ends a call is this tokenizer's end token: the ids do not tell whether more comes, and LocalAI does not say"
        )
    others = [name for name in tokenizer.get_added_vocab() if not any(name in marker for marker in markers)]
    for with_others in answers(fmt.name):
        answer = with_others.spelled(others)  # no model of this format has them as tokens
        for name, deltas in cuttings(answer, tokenizer, skip_special_tokens=True):
            result = loop(fmt, tokenizer).stream(deltas)
            assert answer.problem(result, result, flushed=False) is None, (answer.name, name)


def test_content_is_not_kept_until_the_end(fmt: formats.Format, tokenizer: Any) -> None:
    (answer,) = (answer for answer in answers(fmt.name) if answer.name == "several paragraphs")
    deltas = cut(steps(tokenizer, answer.tokens(tokenizer)), None, "tokens")
    half = loop(fmt, tokenizer).stream(deltas[: len(deltas) // 2])
    assert len(half.content) > len(answer.text) / 4


def test_what_may_become_a_marker_comes_out_with_the_next_delta() -> None:
    from narrows.plugins.vllm.reading import tool_parser

    parser = tool_parser.class_of("hermes_json")(None, tools=TOOLS)
    parser.turn._has_vocab = True  # text alone
    said = [parser.extract_tool_calls_streaming("", "", text, [], [], [], None) for text in ("a <tool", "s> b")]
    assert [delta.content for delta in said] == ["a ", "<tools> b"]


def test_tail_waits_for_no_flush(fmt: formats.Format, tokenizer: Any) -> None:
    """The arguments are whole when their last token is there, before the end token comes."""
    (answer,) = (answer for answer in answers(fmt.name) if answer.name == "one call")
    deltas = cut(steps(tokenizer, answer.tokens(tokenizer)), None, "tokens")
    result = loop(fmt, tokenizer).stream(deltas)
    assert answer.problem(result, result, flushed=False) is None


def test_cuttings_are_what_they_say() -> None:
    assert len(CUTTINGS) == 9
    answer = Answer("a", "basic", "", (), (("abc", True),))
    assert answer.text == "abc"
