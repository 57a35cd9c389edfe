"""docs/formats.md names every format, style, family and key that there is."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from narrows import formats
from narrows.formats.families import FAMILIES
from narrows.formats.loader import _files
from narrows.formats.model import Detect, ReasoningStyle

TEXT = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


def test_everything_is_named() -> None:
    names = [*formats.names(), *FAMILIES, *_files("reasoning")]
    for shape in FAMILIES.values():
        names += [field.name for field in fields(shape)]
    names += [field.name for field in (*fields(Detect), *fields(ReasoningStyle)) if field.name not in ("name", "pairs")]
    assert [name for name in names if f"`{name}`" not in TEXT] == []
