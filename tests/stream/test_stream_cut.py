"""An answer that the budget cuts after a call's arguments: half of a closing marker is no content."""

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


@pytest.mark.parametrize("name", formats.names())
def test_half_a_closing_marker_is_no_content(name: str) -> None:
    fmt = formats.get(name)
    text = fmt.render({"content": None, "tool_calls": [CALL]})
    for cut in range(len(text)):
        message = fmt.parse(text[:cut], TOOLS)
        if message.tool_calls and message.tool_calls[0].complete:
            assert not (message.content or "").strip(), text[:cut]
