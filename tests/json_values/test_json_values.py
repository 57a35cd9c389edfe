"""The values of a JSON text as it grows: against `json.loads` of the whole, Pydantic's partial reader, and a walk."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from narrows import InputError, JsonValues, LimitError, Limits, NarrowsError, WholeValue

Found = tuple[str, Any, tuple[int, int]]


def read(pieces: Sequence[str | bytes], **options: Any) -> tuple[list[WholeValue], NarrowsError | None]:
    """All values, and the error at the end."""
    values = JsonValues(**options)
    found: list[WholeValue] = []
    try:
        for piece in pieces:
            found += values.feed(piece)
        found += values.finish()
    except NarrowsError as error:
        return found, error
    assert values.is_whole
    assert values.finish() == []
    return found, None


def walk(value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Each value of a document with its path, in the order in which they end."""
    if isinstance(value, (dict, list)):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from (((step, *path), found) for path, found in walk(inner))
    yield (), value


def pointer_of(path: Sequence[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.sampled_from(["", "\\", '"', "\u2028", "\U0001f600", "a/b", "~", "\x7f"]),
)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(texts, st.sampled_from(["", "a/b", "m~n", "0", "*"])), inner, max_size=4),
    ),
    max_leaves=12,
)
styles = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "indent": st.sampled_from([None, 1]),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    }
)


def cut(text: Any, places: Sequence[int]) -> list[Any]:
    bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(bounds)]


@given(documents, styles, st.lists(st.integers(0, 200), max_size=8), st.booleans())
@settings(max_examples=300, deadline=None)
def test_every_value_is_reported_once_with_its_place_and_its_text(document, style, places, as_bytes):
    text: Any = " " + json.dumps(document, **style) + "\n"
    text = text.encode() if as_bytes else text
    found, error = read(cut(text, places), depth=None)
    assert error is None
    assert [(one.pointer, one.value) for one in found] == [(pointer_of(path), value) for path, value in walk(document)]
    for one in found:
        again = json.loads(text[slice(*one.span)])
        assert again == one.value
        assert type(again) is type(one.value)
        assert text[slice(*one.span)] == text[slice(*one.span)].strip()


TEXTS = [
    '{"items": [{"id": 1, "t": "a\\n\\u00e9"}, {"id": -2.5e-3}], "ok": true, "é": null}',
    '[[],[[]],{},{"":{}}]',
    '"\\ud83d\\ude00 \\"\\\\ \\/ é😀"',
    " 12.50 ",
    "-0",
    "true",
    "[1e999, -1E+5, 0.0, 123456789012345678901234567890]",
    '{"a": 1, "a": [2], "b": 0, "a": {"a": 3}}',
    '[{"a/b": {"~": [1]}}]',
    '{"a": 1, "a": 2.5, "b": [3, 4.5e1]}',
]
WRONG = [
    '{"a": 1,}',
    "[1,]",
    "[1 2]",
    '[1] "x"',
    "truex",
    "trxe",
    "[01]",
    "[1.]",
    "[.5]",
    "[-]",
    "[+1]",
    "[1e]",
    "[NaN]",
    '{"a" 1}',
    "{1: 2}",
    "{]",
    "[}",
    '["a\tb"]',
    '["\\x"]',
    '["\\u12g4"]',
    '["\\ud83d"]',
    '["\\ud83d\\n"]',
    '["\\ud83d\\u0041"]',
    '["\\ude00"]',
    '[1, "a',
    "",
    "  ",
    "[",
    '{"a": 1',
    "-",
    "1.",
    "nul",
    "\ufeff[]",
    "['a']",
    "[1, '",
    "//",
    '["\x00"]',
    "[" + "9" * 4301 + "]",
]


@pytest.mark.parametrize("text", [*TEXTS, *WRONG], ids=lambda text: text[:30])
@pytest.mark.parametrize("kind", [str, bytes])
def test_every_split_says_the_same(text: str, kind: type) -> None:
    whole: Any = text if kind is str else text.encode()
    expected, error = read([whole], depth=None)
    if text in TEXTS:
        assert error is None
        last = json.loads(text)
        assert expected[-1] == WholeValue("", last, expected[-1].span)
    else:
        assert isinstance(error, InputError)
        assert error.code == "json_invalid"
        assert error.offset is not None
    splits = [cut(whole, [place]) for place in range(min(len(whole), 60))]
    for pieces in [
        *splits,
        [whole[i : i + 1] for i in range(len(whole))],
        [whole[i : i + 3] for i in range(0, len(whole), 3)],
    ]:
        found, other = read(pieces, depth=None)
        assert found == expected
        assert (other and (other.code, other.offset)) == (error and (error.code, error.offset)), pieces


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:30])
def test_what_is_refused_is_no_json_for_pydantic_either(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        from_json(text, allow_inf_nan=False)


def says_what_pydantic_says(text: str) -> None:
    """At every place, and whether or not it was asked before."""
    values = JsonValues()
    for end, char in enumerate(text, 1):
        values.feed(char)
        try:
            expected = from_json(text[:end], allow_partial="trailing-strings")
        except ValueError:  # it ends in the middle of a bare word or number
            expected = None
        fresh = JsonValues()
        fresh.feed(text[:end])
        assert values.value() == fresh.value() == expected, text[:end]
        assert values.value() == expected
    values.finish()
    assert values.value() == json.loads(text)


@given(documents, styles)
@settings(max_examples=100, deadline=None)
def test_the_value_so_far_is_that_of_pydantic(document, style):
    says_what_pydantic_says(json.dumps(document, **style))


@pytest.mark.parametrize("text", TEXTS)
def test_the_value_so_far_is_that_of_pydantic_in_these_texts_too(text: str) -> None:
    says_what_pydantic_says(text)


def test_a_key_that_comes_twice_is_reported_twice_and_the_last_one_counts() -> None:
    found, _ = read(['{"a": {"x": 1}, "b": 2, "a": 3}'], depth=1)
    assert [(one.pointer, one.value) for one in found] == [
        ("/a", {"x": 1}),
        ("/b", 2),
        ("/a", 3),
        ("", {"a": 3, "b": 2}),
    ]


def test_which_values_are_reported() -> None:
    text = '{"items": [{"id": 1, "of": [1]}, {"id": 2}], "n": 5, "m": {"a": {"b": 1}}}'

    def pointers(**options: Any) -> list[str]:
        return [one.pointer for one in read([text], **options)[0]]

    assert pointers() == ["/items/0", "/items/1", "/items", "/n", "/m/a", "/m", ""]
    assert pointers(depth=0) == [""]
    assert pointers(depth=1) == ["/items", "/n", "/m", ""]
    assert pointers(depth=None) == [pointer_of(path) for path, _ in walk(json.loads(text))]
    assert pointers(pointers=["/items/*"]) == ["/items/0", "/items/1"]
    assert pointers(pointers=["/items/1", "/items/*/id", "/n", "/none/*"]) == [
        "/items/0/id",
        "/items/1/id",
        "/items/1",
        "/n",
    ]
    assert pointers(pointers=["/*/*"]) == ["/items/0", "/items/1", "/m/a"]
    assert [one.value for one in read(['{"~1": 1, "/": 2}'], pointers=["/~01"])[0]] == [1]
    assert pointers(pointers=[]) == []
    assert pointers(pointers=[""]) == [""]
    assert [one.pointer for one in read(['{"a/b": 1, "~": 2, "*": 3, "x": 4}'], pointers=["/a~1b", "/~0"])[0]] == [
        "/a~1b",
        "/~0",
    ]


def test_the_values_are_the_same_objects() -> None:
    values = JsonValues(depth=None)
    found = {one.pointer: one.value for one in values.feed('{"a": [{"b": 1}]}')}
    assert found[""] is values.value()
    assert found["/a"] is found[""]["a"]
    assert found["/a/0"] is found["/a"][0]


@given(documents, st.lists(st.integers(0, 200), max_size=8), st.booleans())
@settings(max_examples=200, deadline=None)
def test_log_probabilities_are_those_of_the_tokens_that_a_value_lies_in(document, places, as_bytes):
    text: Any = json.dumps(document, ensure_ascii=False)
    text = text.encode() if as_bytes else text
    tokens = cut(text, places)
    logprobs = [-(2.0**i) for i in range(len(tokens))]  # each sum tells which tokens it is of
    values = JsonValues(depth=None)
    found = [one for token, logprob in zip(tokens, logprobs, strict=True) for one in values.feed(token, logprob)]
    found += values.finish()
    bounds = list(itertools.accumulate(map(len, tokens), initial=0))
    for one in found:
        start, end = one.span
        inside = [
            i
            for i, (a, b) in enumerate(itertools.pairwise(bounds))
            if max(a, start) < min(b, end) or (a == b and start < a < end)
        ]
        assert (one.logprob, one.tokens) == (sum(logprobs[i] for i in inside), len(inside))


def test_tokens_without_text_or_without_a_logprob() -> None:
    values = JsonValues()
    found = values.feed('{"a": ') + values.feed("12", -1.0) + values.feed("", -8.0) + values.feed("3", -2.0)
    found += values.feed(', "b', -4.0) + values.feed('": 7') + values.feed("}", -math.inf)
    assert [(one.pointer, one.logprob, one.tokens) for one in found] == [
        ("/a", -11.0, 3),
        ("/b", None, 0),
        ("", -math.inf, 5),
    ]
    for logprob in (math.nan, math.inf):
        with pytest.raises(InputError) as caught:
            JsonValues().feed("1", logprob)
        assert caught.value.code == "logprob_invalid"


def test_values_before_a_fault_come_first_and_then_every_call_raises() -> None:
    values = JsonValues()
    assert [one.pointer for one in values.feed("[1, 2, x")] == ["/0", "/1"]
    for action in (values.finish, lambda: values.feed("]"), values.finish):
        with pytest.raises(InputError) as caught:
            action()
        assert (caught.value.code, caught.value.offset) == ("json_invalid", 7)
    assert values.value() == [1, 2]


def test_misuse() -> None:
    for action, code in (
        (lambda: JsonValues(pointers=["items"]), "pointer_invalid"),
        (lambda: JsonValues(pointers=["/a~2"]), "pointer_invalid"),
        (lambda: JsonValues(pointers="/a"), "wrong_type"),
        (lambda: JsonValues(pointers=[3]), "wrong_type"),  # type: ignore[list-item]
        (lambda: JsonValues().feed(3), "wrong_type"),  # type: ignore[arg-type]
        (lambda: JsonValues().feed("1", "x"), "wrong_type"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError) as caught:
            action()
        assert caught.value.code == code
    values = JsonValues()
    values.feed("[")
    with pytest.raises(InputError) as caught:
        values.feed(b"]")
    assert caught.value.code == "feed_mixed"
    values = JsonValues()
    values.feed("1")
    assert [one.value for one in values.finish()] == [1]
    with pytest.raises(InputError) as caught:
        values.feed(" ")
    assert caught.value.code == "stream_finished"
    for cut_at in range(12):
        data = b'[1, "\xc3\xa9\xff"]'
        assert [(one.pointer, one.span) for one in read(cut(data, [cut_at]))[0]] == [("/0", (1, 2))]
        assert [one.value for one in read(cut(b"[1,2,\xff]", [cut_at]))[0]] == [1, 2]
    for data in (b'["\xff"]', b'["\xc3', b'["\xed\xa0\x80"]'):
        assert isinstance(read([data])[1], InputError)
    assert isinstance(read(['["\ud800"]'])[1], InputError)


@pytest.mark.parametrize(
    ("name", "value", "text", "options"),
    [
        ("stream_depth", 512, "[" * 513, {}),
        ("stream_depth", 3, '{"a": [[[', {}),
        ("body_values", 5, "[1, 2, 3, 4, 5]", {}),
        ("stream_name_chars", 4, '{"abcde": 1}', {}),
        ("stream_name_chars", 4, '{"a": {"abcde": 1}}', {"pointers": ["/a/*"]}),
    ],
)
def test_limits(name: str, value: int, text: str, options: dict[str, Any]) -> None:
    for pieces in ([text], list(text)):
        _, error = read(pieces, limits=Limits(**{name: value}), **options)
        assert isinstance(error, LimitError)
        assert error.limit == name
    _, error = read([text], limits=Limits(**{name: value + 1}), **options)
    assert not isinstance(error, LimitError)
    if name == "stream_name_chars":
        assert read([text], limits=Limits(**{name: value}), pointers=["/b"])[1] is None


def test_deep_nesting_needs_no_stack() -> None:
    text = '[{"a":' * 5_000 + "1" + "}]" * 5_000
    values = JsonValues(pointers=["/0/a/0"], limits=Limits(stream_depth=10_000))
    assert len(values.feed(text)) == 1
    assert values.finish() == []
    assert values.is_whole


def work(text: str, chunk: int, ask: bool, **options: Any) -> int:
    """The number of lines of Python and of calls that reading takes, as the interpreter counts them."""
    values = JsonValues(**options)
    steps = 0

    def count(frame: Any, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        return count

    sys.settrace(count)
    try:
        for at in range(0, len(text), chunk):
            values.feed(text[at : at + chunk])
            if ask:
                values.value()
    finally:
        sys.settrace(None)
    return steps


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "[" + ",".join(['{"id": 1, "s": "a\\n"}'] * n) + "]",
        lambda n: '{"a": "' + "\\n\\u00e9x" * n + '"}',
        lambda n: '{"' + "k" * n + '": [1, 2]}',
        lambda n: "[" + "1" * n + "]",
        lambda n: "[" * n + "]" * n,
        lambda n: '{"' + "k" * 5 + '": [' + "1," * n + "1]}",
        lambda n: '{"a": ["x", "' + '\\"' * n + '"]}',
        lambda n: " " * n + "1",
    ],
    ids=["items", "escapes", "key", "digits", "brackets", "numbers", "quotes", "whitespace"],
)
@pytest.mark.parametrize("chunk", [1, 4, 1 << 30])
def test_the_work_is_linear(make: Any, chunk: int) -> None:
    limits = Limits(stream_depth=10_000, stream_name_chars=100_000)
    once, twice = (work(make(n), chunk, ask=chunk != 1, limits=limits) for n in (400, 800))
    assert twice <= 2.1 * once + 50


def test_keys_that_look_like_patterns_do_not_multiply_the_work() -> None:
    once, twice = (work('{"*":' * n + "1" + "}" * n, 4, ask=False, pointers=["/*" * n]) for n in (12, 24))
    assert twice <= 2.5 * once


class Counted(str):
    """A text that counts the characters that searches in it run over."""

    looked = 0

    def find(self, *arguments: Any) -> int:  # type: ignore[override]
        start = arguments[1] if len(arguments) > 1 else 0
        end = min(arguments[2], len(self)) if len(arguments) > 2 else len(self)
        found = super().find(*arguments)
        Counted.looked += (found if found >= 0 else end) - start + 1
        return found


def test_a_long_string_of_escapes_is_searched_once() -> None:
    for text in ('"' + '\\"x' * 5_000 + '"', '"' + "\\nx" * 5_000 + '"'):
        Counted.looked = 0
        JsonValues().feed(Counted(text))
        assert 0 < Counted.looked < 4 * len(text)


def test_a_value_that_is_asked_for_at_every_token_copies_nothing_that_is_whole() -> None:
    values = JsonValues(depth=0)
    values.feed('{"a": [')
    top = values.value()
    for i in range(100):
        values.feed(f"{i}, ")
        assert values.value() is top
        assert values.value()["a"] == list(range(i + 1))


def test_floats_as_the_caller_reads_them() -> None:
    values = JsonValues(parse_float=lambda text: f"<{text}>")
    values.feed("[1.50, 1e9")
    assert values.value() == ["<1.50>", "<1e9>"]
    assert values.feed("]")[-1].value == ["<1.50>", "<1e9>"]
