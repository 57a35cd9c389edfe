"""Nothing where a call's arguments would stand, and what closes the call right after: `{}`, in every format whose arguments are JSON after a marker."""

from __future__ import annotations

import pytest
from transcripts import NAMES, check_stream, facts, feed

from narrows import formats
from narrows.formats.families.json_arguments import JsonArgumentsShape
from narrows.formats.families.json_messages import JsonMessagesShape


def in_prose(shape: JsonArgumentsShape | JsonMessagesShape) -> bool:
    return isinstance(shape, JsonArgumentsShape) and shape.arguments_must_be_object


SHAPES = [
    (name, shape)
    for name in NAMES
    for shape in formats.get(name).written
    if isinstance(shape, (JsonArgumentsShape, JsonMessagesShape))
    and (shape.close or not in_prose(shape))  # else it is text: the marker may well stand in prose
]
FORMS = [(name, shape.form) for name, shape in SHAPES]
CUT = [(name, shape.form) for name, shape in SHAPES if not in_prose(shape)]


@pytest.mark.parametrize(("name", "form"), FORMS)
@pytest.mark.parametrize("spaces", ["", " ", "\n\n"])
def test_nothing_is_an_empty_object(name: str, form: str, spaces: str) -> None:
    fmt = formats.get(name)
    count = 1 if facts(name).single else 2
    calls = [{"function": {"name": "now", "arguments": {}}}] * count
    text = fmt.render({"tool_calls": calls}, form).replace("{}", spaces)
    shape = fmt.form(form)
    closed = shape.close or getattr(shape, "section_close", "")
    found = []
    for pieces in ([text], list(text)):
        message = check_stream(feed(fmt.parser(id_factory=str), pieces), len(text))
        found.append([(call.name, call.arguments, call.complete) for call in message.tool_calls])
        assert message.content is None
    # Without a closing marker, the next call's opener or nothing tells that a call is over.
    last = ("now", "{}", True) if closed else ("now", "", False)
    assert found == [[("now", "{}", True)] * (count - 1) + [last]] * 2


@pytest.mark.parametrize(("name", "form"), CUT)
def test_a_call_that_is_cut_there_is_not_complete(name: str, form: str) -> None:
    fmt = formats.get(name)
    call = {"function": {"name": "now", "arguments": {}}}
    text, _, after = fmt.render({"tool_calls": [call]}, form).partition("{}")
    for cut in (text, text + " ", text + after.lstrip()[:3] * (len(after.strip()) > 3)):
        for pieces in ([cut], list(cut)):
            message = check_stream(feed(fmt.parser(), pieces), len(cut))
            assert [(call.arguments, call.complete) for call in message.tool_calls] == [("", False)], cut
            assert message.content is None
