"""Arguments as nested elements: depth is bounded, and costs linear time."""

from __future__ import annotations

import time

import pytest

from narrows import formats
from narrows.limits import Limits

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
