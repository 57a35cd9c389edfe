"""The attributes of a tag, cut anywhere."""

from __future__ import annotations

import pytest

from narrows import formats
from narrows.limits import Limits
from narrows.stream.regions.attributes import AT_END, BAD, IN_DOUBLE, IN_NAME, WAIT, scan

ATTRIBUTES = [  # text, what `scan` returns (a place, BAD, or where more is needed), the values
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
    spans: dict[str, tuple[int, int]] = {}
    assert scan(text, 0, ">", spans) == wanted
    if values is not None:
        assert {key: text[begin:end] for key, (begin, end) in spans.items()} == values
        for cut in range(wanted):  # more text never takes back that a tag may go on
            assert scan(text[:cut], 0, ">", {}) < BAD


def test_a_tag_that_does_not_end_is_held_up_to_the_limit() -> None:
    fmt = formats.get("minimax_m2")
    for length, held in ((50, True), (150, False)):
        parser = fmt.parser(limits=Limits(stream_name_chars=100))
        events = parser.feed('<minimax:tool_call><invoke name="' + "a" * length)
        assert (events == []) == held
