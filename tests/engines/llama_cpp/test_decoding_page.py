"""The examples of docs/decoding.md, run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.model

PAGE = (Path(__file__).parents[3] / "docs" / "decoding.md").read_text()
BLOCKS = [block.split("\n```", 1)[0] for block in PAGE.split("```python\n")[1:]]


def test_the_examples(capsys):
    names = {"__name__": "page"}
    try:
        for block in BLOCKS:
            exec(compile(block, "decoding.md", "exec", dont_inherit=True), names)
    finally:
        names["engine"].close()
    assert names["chosen"].text == " Paris"
    assert capsys.readouterr().out.startswith(" Paris: 0.")
