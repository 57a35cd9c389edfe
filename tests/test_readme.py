"""The README's examples, run as they stand in it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def example(name: str) -> str:
    """The code block behind the comment `<!-- example: name -->`."""
    text = (ROOT / "README.md").read_text()
    behind = text.split(f"<!-- example: {name} -->\n", 1)[1]
    return behind.split("\n", 1)[1].split("\n```", 1)[0]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "narrows.cli", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the server did not start"
        try:
            yield json.loads(line)["url"]
        finally:
            process.terminate()


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_in_python() -> None:
    assert run(example("python")) == "True\n"


def test_the_stream() -> None:
    out = run(example("stream"))
    assert "name='draw'" in out
    events = out.splitlines()
    assert events[0].startswith("ToolCallStart(")
    assert events[-1].startswith("ToolCallEnd(")
    pieces = [
        line.split("text='", 1)[1].rsplit("', span=", 1)[0] for line in events if line.startswith("ToolCallArguments(")
    ]
    assert "".join(pieces) == '{"prompt": "dog"}'


@pytest.mark.model
def test_over_http(url: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = example("http").replace("http://127.0.0.1:8000", url)
    out = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=100, check=True).stdout
    events = [json.loads(line.removeprefix("data: ")) for line in out.splitlines() if line.startswith("data: {")]
    assert out.rstrip().endswith("data: [DONE]")
    calls = [call for event in events for choice in event["choices"] for call in choice["delta"].get("tool_calls", ())]
    assert calls[0]["function"]["name"] == "get_weather"
    arguments = json.loads("".join(call["function"]["arguments"] for call in calls))
    assert arguments["unit"] in ("celsius", "fahrenheit")
    assert len(arguments["city"]) <= 40
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.model
def test_with_the_official_client(url: str) -> None:
    out = run(example("openai").replace("http://127.0.0.1:8000", url))
    first, _, rest = out.partition("\n")
    assert first.startswith('get_weather {"city": ')
    assert rest.strip()
