"""docs/formats.md names every key of a file, and docs/formats/ holds what `make docs` writes now."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from narrows import formats
from narrows.formats.from_toml import _KEYS

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
import format_pages

DOCS = format_pages.FOLDER.parent
TEXT = (DOCS / "formats.md").read_text(encoding="utf-8")


def test_the_keys_of_a_file_are_named() -> None:
    assert [
        key for key in _KEYS if f"`{key}`" not in TEXT and f"`[{key}]`" not in TEXT and f"`[[{key}]]`" not in TEXT
    ] == []


@pytest.mark.parametrize("name", formats.names())
def test_pages_are_up_to_date(name: str) -> None:
    written = format_pages.FOLDER / f"{name}.md"
    assert written.exists(), "make docs"
    assert written.read_text(encoding="utf-8") == format_pages.page(formats.get(name)), "make docs"


def test_the_list_is_up_to_date() -> None:
    written = {path.name for path in format_pages.FOLDER.glob("*.md")}
    assert written == {"README.md", "keys.md", *(f"{name}.md" for name in formats.names())}, "make docs"
    found = [formats.get(name) for name in formats.names()]
    assert (format_pages.FOLDER / "README.md").read_text(encoding="utf-8") == format_pages.index(found), "make docs"
    assert (format_pages.FOLDER / "keys.md").read_text(encoding="utf-8") == format_pages.keys(), "make docs"
