"""docs/tutorial.md, from top to bottom: the commands are there, and the pieces of Python run as one file, with the small model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "tutorial.md").read_text()
ADDRESS = "http://127.0.0.1:8000"


def blocks(language: str) -> list[str]:
    return [block.split("\n```", 1)[0] for block in TEXT.split(f"```{language}\n")[1:]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """What `make serve` starts."""
    command = [sys.executable, "-m", "narrows.cli", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the server did not start"
        try:
            yield json.loads(line)["url"]
        finally:
            process.terminate()


def test_every_block_is_run_here() -> None:
    """A shell's block starts the server, or installs the client, which the development tools have."""
    assert blocks("sh") == ["make serve", "python3 -m venv agent\nagent/bin/pip install openai"]
    assert TEXT.count("```") == 2 * (len(blocks("sh")) + len(blocks("python")))


@pytest.mark.model
def test_the_pieces_as_one_file(url: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.py"
    file.write_text("\n\n".join(blocks("python")).replace(ADDRESS, url))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    asked = next(n for n, line in enumerate(lines) if line.startswith("get_weather "))
    assert any(line.strip() for line in lines[:asked]), "the first answer is empty"
    arguments = json.loads(lines[asked].removeprefix("get_weather "))
    assert lines[asked + 1].startswith("{'city': ")
    assert arguments["city"] in lines[asked + 1]
    assert any(line.startswith("called get_weather with ") for line in lines)
    assert any(line.startswith("answer: ") for line in lines)
    streamed = [line for line in lines[asked + 2 :] if line.startswith("get_weather ")]
    assert set(json.loads(streamed[0].removeprefix("get_weather "))) == {"city", "unit"}
    assert lines[-1].startswith("{'name': ")
