"""The examples of docs/clients.md, run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Narrows, Outcome

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


def cases() -> list[Any]:
    return [
        pytest.param(section.split("```python\n", 1)[1].split("\n```", 1)[0], id=section.split("\n", 1)[0])
        for section in PAGE.read_text().split("\n## ")[1:]
    ]


def ask(narrows: Narrows, case: str) -> Any:
    code = case.replace("http://127.0.0.1:8000/v1", narrows.base_url)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize("case", cases())
def test_an_example_runs(case: str, outcome: Outcome) -> None:
    done = outcome.value
    if isinstance(done, Exception):
        raise done
    # The budget may cut an answer; everything else is an error.
    assert done.returncode == 0 or "IncompleteOutput" in done.stderr or "LengthFinish" in done.stderr, done.stderr
    assert done.stdout.strip() or done.returncode, case
