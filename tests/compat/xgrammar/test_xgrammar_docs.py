"""The example of docs/compat_xgrammar.md, as it is, and its list of differences."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "compat_xgrammar.md"


def test_the_example_runs() -> None:
    block = PAGE.read_text().split("```python\n", 1)[1].split("```", 1)[0]
    names: dict[str, object] = {}
    exec(block, names)
    assert names["bitmask"].tolist() == [[1]]  # type: ignore[attr-defined]


def test_every_name_of_the_page_is_there() -> None:
    import narrows.compat.xgrammar as xgr

    text = PAGE.read_text().split("## What is there", 1)[1].split("\n\n", 2)[1]
    named = [name.split("(")[0] for name in text.split("`")[1::2] if name.isidentifier()]
    known = {*dir(xgr), *dir(xgr.Grammar), *dir(xgr.GrammarMatcher), *xgr.__all__}
    assert len(named) > 20
    assert not [name for name in named if name not in known]
