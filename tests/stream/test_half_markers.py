"""An answer that the budget cuts inside a call: half a marker between values is markup, and no part of the arguments.

Inside a text value it is data: the value may have gone on that way.
"""

from __future__ import annotations

import pytest

from narrows import formats
from narrows.stream.json_scan import JsonScanner

FIELDS = {"a": {"type": "string"}, "c": {"type": "string"}}
TOOLS = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": FIELDS}}}]
CALL = {"id": "functions.now:0", "function": {"name": "now", "arguments": '{"a": "b", "c": "d"}'}}


def inside_a_string(text: str) -> bool:
    scanner = JsonScanner(10)
    scanner.scan(text, 0)
    return scanner.fault is None and scanner.in_string


@pytest.mark.parametrize("name", formats.names())
def test_half_a_marker_is_no_argument(name: str) -> None:
    fmt = formats.get(name)
    text = fmt.render({"content": None, "tool_calls": [CALL]})
    whole = fmt.parse(text, TOOLS).tool_calls[0].arguments
    for cut in range(len(text)):
        for call in fmt.parse(text[:cut], TOOLS).tool_calls:
            assert whole.startswith(call.arguments) or inside_a_string(call.arguments), (text[:cut], call.arguments)
