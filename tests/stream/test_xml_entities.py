"""XML's entities in text that comes in pieces."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.stream.xml_entities import before_entity, unescape


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
