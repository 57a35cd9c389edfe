"""A definition's text is what `json.dumps` writes, in pieces that each hold the interpreter only for a moment."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.compiling import text
from narrows.compiling.text import definition_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=3), inner, max_size=9),
    max_leaves=60,
)


@pytest.mark.parametrize("piece", [1, 3, 2_000])
@given(value=VALUES)
def test_it_is_what_json_writes(piece: int, value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "PIECE", piece)
        assert definition_text(value) == json.dumps(value, separators=(",", ":")).encode()


def test_pieces_are_small_whatever_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0
    real = text._dumps

    def dumps(value: Any) -> str:
        nonlocal longest
        piece = real(value)
        longest = max(longest, piece.count(",") + piece.count("[") + piece.count("{"))
        return piece

    monkeypatch.setattr(text, "_dumps", dumps)
    deep: Any = 1
    for i in range(190):
        deep = [deep, *range(100)] if i % 2 else {"x": deep, **{str(k): k for k in range(100)}}
    shared = {str(i): [i] for i in range(1_000)}
    flat = {str(i): i for i in range(50_000)}
    shapes = [list(range(50_000)), flat, deep, [{"a": [1] * 100}] * 500, [shared, shared, shared]]
    for value in shapes:
        assert json.loads(definition_text(value)) == value
    assert longest <= 2 * text.PIECE + 2
