"""Applications that use llguidance, with narrows' module in its place, each in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from llguidance_tokenizers import tokenizer_json

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
NEEDS = {
    "outlines": ("outlines", "torch", "transformers"),
    "guidance": ("guidance", "pydantic", "psutil"),
    "sglang": ("sglang", "torch", "transformers"),
    "vllm": ("vllm", "torch", "transformers"),
}


def is_installed(package: str) -> bool:
    """A folder of that name, such as one of these tests, has no file to begin with."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


@pytest.mark.parametrize("name", NEEDS)
def test_with_narrows_in_its_place(name: str) -> None:
    missing = [package for package in NEEDS[name] if not is_installed(package)]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed")
    tokenizer_json("llama2")
    paths = [HERE / "applications", TESTS / "support", TESTS / "plugins" / "sglang"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-W", "ignore", str(HERE / "applications" / f"{name}_program.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
