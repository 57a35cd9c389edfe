"""The examples of docs/values.md, run as they stand."""

from __future__ import annotations

import ast
import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import serving

from narrows.engines import default_model
from narrows.engines.llama_cpp import LlamaCppEngine

PAGE = (Path(__file__).parents[2] / "docs" / "values.md").read_text()
BLOCKS = [block.split("\n```", 1)[0] for block in PAGE.split("```python\n")[1:]]
HERE = [block for block in BLOCKS if "openai" not in block]
[WITH_SERVER] = [block for block in BLOCKS if "openai" in block]


def run(block: str, names: dict[str, Any]) -> str:
    """What the block prints. An expression with a comment behind it has the comment as its value."""
    lines = block.splitlines()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for node in ast.parse(block).body:
            comment = lines[node.end_lineno - 1][node.end_col_offset :].strip().removeprefix("# ")
            if isinstance(node, ast.Expr) and comment and comment[0] in "'[({W0123456789":
                exec(f"_ = {ast.unparse(node)}", names)
                assert repr(names["_"]) == comment
            else:
                exec(compile(ast.Module([node], []), "values.md", "exec", dont_inherit=True), names)
    return printed.getvalue()


def test_the_examples() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    outputs = [run(block, names) for block in HERE]
    expected = PAGE.split("```text\n", 1)[1].split("```", 1)[0]
    assert outputs == [expected, *[""] * (len(HERE) - 1)]
    assert sum(block.count("  # ") for block in HERE) >= 8


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with (
        LlamaCppEngine(default_model.default_gguf(), model_name="small", max_model_len=512) as engine,
        serving(engine) as url,
    ):
        yield url


@pytest.mark.model
def test_the_example_with_the_server(url: str) -> None:
    printed = run(WITH_SERVER.replace("http://127.0.0.1:8000", url), {})
    first, second, end = printed.splitlines()
    assert first.startswith("/0 ")
    assert second.startswith("/1 ")
    assert end == "stop /1"
