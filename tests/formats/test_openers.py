"""Openers as data are those that the parser's regions are attached to."""

from __future__ import annotations

import pytest

from narrows import formats
from narrows.formats.families.build import Build
from narrows.formats.families.openers import CallContext, Entry, Opener


@pytest.mark.parametrize("name", formats.names())
@pytest.mark.parametrize("named", [None, "now"])
def test_every_opener_has_its_region(name: str, named: str | None) -> None:
    fmt = formats.get(name)
    head = fmt.reasoning.head if fmt.reasoning is not None else None
    for shape in fmt.calls:
        openers = shape.openers(CallContext(named=named, head=head))
        entries = shape.entries(Build(encode=str, parallel=True, named=named, head=head))
        assert openers == [_without_region(entry) for entry in entries]


def test_openers_know_the_tools_that_make_a_call_without_a_marker() -> None:
    shape = formats.get("pythonic").calls[0]
    (opener,) = shape.openers(CallContext(names=("now",)))
    assert "now" in repr(opener.node)


def _without_region(entry: Entry) -> Opener:
    return Opener(entry.marker, entry.first, entry.keep, entry.at_start, entry.second, entry.node)
