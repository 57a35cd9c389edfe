"""The engine and the adapter of docs/own_engine.md, as they stand, under the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "own_engine.md").read_text()
BLOCKS = [block.split("\n```", 1)[0] for block in PAGE.split("```python\n")[1:]]


def names_of_the_page() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    for block in BLOCKS:
        exec(compile(block, "own_engine.md", "exec", dont_inherit=True), names)
    return names


TestTinyEngine = names_of_the_page()["TestTinyEngine"]
