"""Choices: exactly the strings given."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.errors import InputError
from narrows.grammar.languages.choice import choice_module
from narrows.reference import Reference

words = st.text("ab é😀", max_size=4)


@given(st.lists(words, min_size=1, max_size=6), words)
def test_exactly_these(strings: list[str], other: str) -> None:
    reference = Reference(choice_module(strings))
    assert all(reference.accepts(text.encode()) for text in strings)
    assert reference.accepts(other.encode()) == (other in strings)
    assert reference.viable(other.encode()) == any(text.startswith(other) for text in strings)


@pytest.mark.parametrize("strings", [[], (), "yes", b"yes", None, 5, ["a", 5], [None], ["a", "\ud800"], iter([])])
def test_refused(strings: Any) -> None:
    with pytest.raises(InputError) as caught:
        choice_module(strings)
    assert caught.value.code == "choice_invalid"


def test_the_place_of_what_is_wrong() -> None:
    with pytest.raises(InputError) as caught:
        choice_module(["a", b"b"])  # type: ignore[list-item]
    assert caught.value.pointer == "/1"


def test_many() -> None:
    started = time.process_time()
    choice_module(f"option {k}" for k in range(100_000))
    assert time.process_time() - started < 5.0
