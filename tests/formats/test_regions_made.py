"""The regions of calls are made when a call begins, and once for each parser."""

from __future__ import annotations

from collections import Counter

import pytest
import transcripts

from narrows import formats
from narrows.formats.families import FAMILIES


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a shape has made its regions, by its form."""
    found: Counter[str] = Counter()
    for family in FAMILIES.values():
        entries = family.entries

        def counted(shape, build, entries=entries):
            found[shape.form] += 1
            return entries(shape, build)

        monkeypatch.setattr(family, "entries", counted)
    return found


@pytest.mark.parametrize("name", transcripts.NAMES)
def test_text_makes_none(name: str, made: Counter[str]) -> None:
    parser = formats.get(name).parser(transcripts.TOOLS)
    parser.feed("¡Hola!")
    parser.finish()
    assert not made


@pytest.mark.parametrize("name", transcripts.NAMES)
def test_an_answer_makes_those_of_a_shape_once(name: str, made: Counter[str]) -> None:
    with_calls = [case for case in transcripts.cases_of(name) if case.message.get("tool_calls")]
    for case in with_calls:
        made.clear()
        case.parse()
        assert 1 <= max(made.values(), default=0) <= 2, case  # a family may ask the one that it is made of
