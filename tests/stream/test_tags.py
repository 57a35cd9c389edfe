"""The pieces that formats with tags are read by: attributes and entities."""

from __future__ import annotations

import html
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows import formats
from narrows.limits import Limits
from narrows.stream.regions.attributes import AT_END, BAD, IN_DOUBLE, IN_NAME, WAIT, scan
from narrows.stream.xml_entities import before_entity, unescape

ATTRIBUTES = [  # text, what is found (a place, BAD, or where more is needed), the values
    ('name="a">', 9, {"name": "a"}),
    ("name='a \"b\"' type=x>", 20, {"name": 'a "b"', "type": "x"}),
    (" name = a >rest", 11, {"name": "a"}),
    (' name="a>b" string="true">', 26, {"name": "a>b", "string": "true"}),
    (' name="a"/>', 11, {"name": "a", "/": "/"}),
    (">", 1, {}),
    ("", AT_END, None),
    ("nam", IN_NAME, None),
    ("name ", WAIT, None),
    ("name=", WAIT, None),
    ('name="a', IN_DOUBLE, None),
    ('name="a"', AT_END, None),
    ("name=a", WAIT, None),
    ("name", IN_NAME, None),
    ("name b>", BAD, None),
    ("=b>", BAD, None),
    ('name="a" name="b">', BAD, None),
    ('/ name="a">', BAD, None),
    ("<b>", BAD, None),
]


@pytest.mark.parametrize(("text", "wanted", "values"), ATTRIBUTES)
def test_attributes(text: str, wanted: int, values: dict[str, str] | None) -> None:
    found: dict[str, tuple[int, int]] = {}
    assert scan(text, 0, ">", found) == wanted
    if values is not None:
        assert {key: text[begin:end] for key, (begin, end) in found.items()} == values
        for cut in range(wanted):  # more text never takes back that a tag may go on
            assert scan(text[:cut], 0, ">", {}) < BAD


def test_a_tag_that_does_not_end_is_held_up_to_the_limit() -> None:
    fmt = formats.get("minimax_m2")
    for length, held in ((50, True), (150, False)):
        parser = fmt.parser(limits=Limits(stream_name_chars=100))
        events = parser.feed('<minimax:tool_call><invoke name="' + "a" * length)
        assert (events == []) == held


@given(st.text(alphabet="&;#x1fltgamp<>\"' \n\U0001f326é"))
def test_entities(text: str) -> None:
    """As Python's, where those are the five of XML and end with a semicolon."""
    assert unescape(html.escape(text)) == text
    assert html.unescape(html.escape(text)) == unescape(html.escape(text))
    for cut in range(len(text) + 1):
        at = before_entity(text, 0, cut)
        assert unescape(text[:at]) + unescape(text[at:]) == unescape(text)


@pytest.mark.parametrize(
    "text", ["&#0;", "&#xD800;", "&#x110000;", "&nbsp;", "&;", "&#;", "&#x;", "&#-1;", "&#1_0;", "&lt", "&LT;"]
)
def test_what_is_no_entity(text: str) -> None:
    assert unescape(text) == text


NESTED = '{0}<tool_call>{0}<invoke name="f">'.format("]<]minimax[>[")


def test_nesting_beyond_the_limit_ends_the_call() -> None:
    message = formats.get("minimax_m3").parse(NESTED + "]<]minimax[>[<a>" * 200, limits=Limits(stream_depth=100))
    assert not message.tool_calls[0].complete
    assert message.tool_calls[0].reason == "a tag that fits nowhere"
    assert (
        formats.get("minimax_m3")
        .parse(NESTED + "]<]minimax[>[<a>" * 99, limits=Limits(stream_depth=100))
        .tool_calls[0]
        .reason
        != message.tool_calls[0].reason
    )


@pytest.mark.soak
def test_deep_nesting_takes_linear_time() -> None:
    def seconds(depth: int) -> float:
        parser = formats.get("minimax_m3").parser(limits=Limits(stream_depth=100_000))
        begin = time.perf_counter()
        parser.feed(NESTED + "]<]minimax[>[<a>" * depth + "x")
        parser.finish()
        return time.perf_counter() - begin

    assert min(seconds(40_000) for _ in range(3)) < 3 * min(seconds(20_000) for _ in range(3))
