"""An answer that the budget cuts behind a call's arguments: half of a closing marker is no content."""

from __future__ import annotations

import pytest

from narrows import formats

TOOLS = [
    {
        "type": "function",
        "function": {"name": "now", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}},
    }
]
CALL = {"id": "functions.now:0", "function": {"name": "now", "arguments": '{"a": "b"}'}}
STILL_TEXT = {
    "muse": "the marker that is cut ends the turn, not the call",
    "olmo3": "its list of calls may go on with a name there, and is over at anything else",
    "plamo3": "its two closers differ behind the cut only",
}


@pytest.mark.parametrize("name", formats.names())
def test_half_a_closing_marker_is_no_content(name: str) -> None:
    if name in STILL_TEXT:
        pytest.skip(STILL_TEXT[name])
    fmt = formats.get(name)
    text = fmt.render({"content": None, "tool_calls": [CALL]})
    for cut in range(len(text)):
        message = fmt.parse(text[:cut], TOOLS)
        if message.tool_calls and message.tool_calls[0].complete:
            assert not (message.content or "").strip(), text[:cut]
