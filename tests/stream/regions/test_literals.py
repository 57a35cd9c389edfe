"""Arguments as literals: what is Python is read as Python reads it, and quotes that a template does not escape are told by what follows."""

from __future__ import annotations

import ast
import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import check_stream, feed, naming

from narrows import formats
from narrows.limits import Limits
from narrows.stream import Message
from narrows.stream.regions.python_value import python_to_json

TOOLS = [
    {"name": "f", "parameters": {"type": "object", "properties": {"x": {}, "y": {}, "z": {}}}},
    {"name": "g", "parameters": {"type": "object", "properties": {"x": {}}}},
    {"name": "h"},
]
AROUND = {
    "lfm2": ("<|tool_call_start|>[", "]<|tool_call_end|>"),
    "pythonic": ("[", "]"),
    "olmo3": ("<function_calls>\n", "\n</function_calls>"),
}
PIECES = [
    "'",
    '"',
    "\\",
    ", ",
    "x",
    "y=",
    "z=1",
    "g(",
    "f(x=",
    ")",
    ")]",
    "]",
    "}",
    "{",
    "[",
    ": ",
    "it's",
    "h()",
    "\n",
    " ",
    "1",
    "=",
]
PIECES += ["<|tool_call_end|>", "'''", "é", "\\n", "or 'b'"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(-9, 9), st.booleans(), st.none(), st.floats(0, 1)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["x", "y", "z", "other", "g"]), VALUES, max_size=4)


def read(name: str, text: str, tools: Any = TOOLS, limits: Limits | None = None) -> Message:
    """The answer, the same in one piece, by character and in a few other pieces."""
    fmt, more = formats.get(name), {"limits": limits} if limits else {}
    random = Random(text)
    found = []
    cuts = [random.randrange(len(text)) for _ in range(3)]
    for pieces in (
        [text],
        list(text),
        [text[i : i + 5] for i in range(0, len(text), 5)],
        *([text[:c], text[c:]] for c in cuts),
    ):
        parser = fmt.parser(tools, id_factory=str, **more)  # type: ignore[arg-type]
        found.append(check_stream(feed(parser, pieces), len(text)))
    with naming(repr(text)):
        assert all(message == found[0] for message in found), found
    return found[0]


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(list(AROUND)), st.lists(ARGUMENTS, min_size=1, max_size=2), st.booleans())
def test_what_is_python_is_read_as_python(name: str, calls: list[dict[str, Any]], with_tools: bool) -> None:
    """Whatever its strings hold, a call that escapes its quotes is read exactly: also where quotes need not be escaped."""
    wanted = [{"name": which, "arguments": arguments} for which, arguments in zip("fg", calls, strict=False)]
    spelled = [
        f"{call['name']}({', '.join(f'{key}={value!r}' for key, value in call['arguments'].items())})"
        for call in wanted
    ]
    before, after = AROUND[name]
    separator = "\n" if name == "olmo3" else ", "
    for text in (
        formats.get(name).render({"tool_calls": wanted}),
        before + separator.join(spelled) + after,
    ):
        message = read(name, text, TOOLS if with_tools else None)
        with naming(repr(text)):
            assert [c.name for c in message.tool_calls] == [call["name"] for call in wanted]
            assert [json.loads(c.arguments) for c in message.tool_calls] == [call["arguments"] for call in wanted]
            assert all(c.complete for c in message.tool_calls)
            assert not message.content


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize(
    "value",
    [
        "print(Qa{Q)",
        "itQs",
        "QquotedQ",
        "say QhiQ, ok",
        "a Q, b",
        "f(a=QbQ)",
        "print(QaQ, end=QQ)",
        "[g(QcQ)]",
        "{Qa{Q: Qb{Q}",
        "select QaQ, b=QcQ",
        "g(QaQ), h(b=1)",
        "g(QaQ), g()",
        "x = [QaQ, QbQ]\nfor y in x:\n    print(y, QQ)\n",
        "aQ",
        "Qa",
    ],
)
def test_quotes_that_are_not_escaped(value: str, quote: str) -> None:
    value = value.replace("{Q", "Q").replace("Q", quote)
    before, after = AROUND["lfm2"]
    for arguments in ({"x": value}, {"x": value, "y": 1}, {"x": value, "y": "b"}, {"y": "b", "x": value}):
        pairs = [f"{key}={quote}{v}{quote}" if isinstance(v, str) else f"{key}={v}" for key, v in arguments.items()]
        for more, calls in (("", []), (", g(x=1)", [{"x": 1}]), (", h()", [{}])):
            message = read("lfm2", f"{before}f({', '.join(pairs)}){more}{after}")
            assert [json.loads(c.arguments) for c in message.tool_calls] == [arguments, *calls], message
            assert all(c.complete for c in message.tool_calls)
            assert message.content is None


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(AROUND)), st.lists(TEXTS, min_size=1, max_size=3))
def test_any_text_in_quotes_is_read_alike_in_any_pieces(name: str, texts: list[str]) -> None:
    """It may come to nothing, but what is complete is JSON in which each key stands once."""
    before, after = AROUND[name]
    body = ", ".join(f"{key}='{text}'" for key, text in zip("xyz", texts, strict=False))
    for call in read(name, f"{before}f({body}){after}").tool_calls:
        if call.complete:
            json.loads(call.arguments, object_pairs_hook=once)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


# A value of its own.

HASHABLE = st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.tuples(st.integers(), TEXTS))
PYTHON = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(TEXTS, inner, max_size=3),
        st.dictionaries(st.integers(), inner, max_size=3),
        st.sets(HASHABLE, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


def plain(value: Any, found: Any) -> tuple[Any, Any]:
    """(what JSON makes of the Python value, the JSON found), with sets in one order."""
    if isinstance(value, dict) and isinstance(found, dict):
        pairs = {str(key): plain(member, found.get(str(key))) for key, member in value.items()}
        return {key: pair[0] for key, pair in pairs.items()}, {**found, **{key: pair[1] for key, pair in pairs.items()}}
    if isinstance(value, (list, tuple)) and isinstance(found, list) and len(value) == len(found):
        items = [plain(*pair) for pair in zip(value, found, strict=True)]
        return [item[0] for item in items], [item[1] for item in items]
    if isinstance(value, set):
        return sorted(map(json.dumps, value)), sorted(map(json.dumps, found))
    return value, found


@settings(max_examples=200, deadline=None)
@given(PYTHON.filter(lambda value: isinstance(value, (dict, list, tuple, set))))
def test_a_value_as_python_writes_it(value: Any) -> None:
    text = repr(value)
    assert ast.literal_eval(text) == value
    made = python_to_json(text, 100)
    assert made is not None
    wanted, found = plain(value, json.loads(made, object_pairs_hook=once))
    assert wanted == found
    for cut in range(len(text)):
        assert python_to_json(text[:cut], 100) is None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([*"[](){},:'\"\\ ", "1", "a", "True", "None", "=", "-", "b'"]), max_size=10).map("".join)
)
def test_what_python_refuses_is_no_value(text: str) -> None:
    text = "[{("[len(text) % 3] + text
    made = python_to_json(text, 100)
    if made is None:
        return
    json.loads(made, object_pairs_hook=once)
    try:
        value = ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, IndentationError):
        words = text.replace(
            "true", ""
        )  # lists and objects as keys, and strings side by side, are all that Python refuses more
        assert any(c in words for c in "[{"), text
    else:
        assert isinstance(value, (dict, list, tuple, set))


def test_depth_is_bounded() -> None:
    assert python_to_json("[" * 50 + "]" * 50, 50) is not None
    assert python_to_json("[" * 51 + "]" * 51, 50) is None
    assert python_to_json("(" * 100_000, 50) is None


# Limits.


@pytest.mark.parametrize("name", AROUND)
def test_the_keys_that_are_kept_are_bounded(name: str) -> None:
    before, after = AROUND[name]
    for body in ("x=1, y=2, z=3, other=4", "x={'a': 1, 'b': 2, 'c': {'a': 1}}", "x={'a': 1, 'b': {'c': 2, 'd': 3}}"):
        text = f"{before}f({body}){after}"
        (call,) = read(name, text, limits=Limits(stream_keys=4)).tool_calls
        assert call.complete
        (call,) = read(name, text, limits=Limits(stream_keys=3)).tool_calls
        assert not call.complete
        assert "stream_keys" in (call.reason or "")
        json.loads(call.arguments, object_pairs_hook=once)


@pytest.mark.parametrize("name", AROUND)
def test_a_key_of_an_object_is_held_within_a_limit(name: str) -> None:
    before, after = AROUND[name]
    for length, complete in ((20, True), (21, False)):
        for text in ("k" * length, "\\n" * length, "\\u0041" * length):
            (call,) = read(name, f"{before}f(x={{'{text}': 1}}){after}", limits=Limits(stream_name_chars=20)).tool_calls
            assert call.complete == complete, call
            assert complete or "stream_name_chars" in (call.reason or "")


def test_what_is_looked_at_after_a_quote_is_bounded() -> None:
    """A string ends where a limit's worth of text tells nothing else."""
    before, after = AROUND["lfm2"]
    text = f"{before}f(x='a', other='{'b' * 300}'){after}"
    assert json.loads(read("lfm2", text).tool_calls[0].arguments) == {"x": "a", "other": "b" * 300}
    parser = formats.get("lfm2").parser(TOOLS, limits=Limits(stream_name_chars=100))
    begun = text[: text.index("b" * 300)]
    parser.feed(begun)
    held = 0
    while len(parser.unread) > 1:
        parser.feed("b")
        held += 1
    assert 50 < held <= 100
