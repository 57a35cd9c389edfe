"""`narrows serve`: the port before the model, what its flags do, and how it ends."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any

import httpx
import pytest
from commands import run


def test_serve_tries_the_port_before_it_loads_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*arguments: Any, **options: Any) -> None:
        raise AssertionError("the model is loaded first")

    monkeypatch.setattr("narrows.cli.serve.load_engine", load)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run("serve", "--port", port, "--json")
        assert result.exit_code == 2
        assert f"port {port}: Address already in use" in " ".join(result.output.replace("│", " ").split())
        with pytest.raises(AssertionError):
            run("serve", "--port", "0")
    result = run("serve", "--host", "192.0.2.1")  # an address that no machine has
    assert result.exit_code == 2
    assert "--host" in result.output


@pytest.mark.model
def test_a_port_that_is_taken_while_the_model_loads_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows.cli.serve._try_address", lambda host, port: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run("serve", "--port", str(taken.getsockname()[1]), "--json").exit_code == 2


def test_serve_names_the_policies() -> None:
    result = run("serve", "--scheduling-policy", "lifo")
    assert result.exit_code == 2
    assert "fcfs, priority" in result.output


@pytest.mark.model
def test_flags_of_serve_reach_the_server() -> None:
    flags = ["--max-tool-calls", "3", "--no-stop-at-repeated-call", "--strict-schemas"]
    flags += ["--scheduling-policy", "priority", "--no-playground", "--limit", "sequences=2"]
    command = [sys.executable, "-m", "narrows.cli", "serve", "--port", "0", "--json", *flags]
    fixed = {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]}
    loose = {
        **fixed,
        "properties": {
            "x": {
                "type": "array",
                "items": {"const": 1},
                "contains": {"type": "integer"},
                "minContains": 2,
                "maxItems": 2,
                "uniqueItems": True,
            }
        },
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            assert httpx.get(url).status_code == 404
            answers = []
            for schema in (fixed, loose):
                body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 200, "temperature": 0}
                body |= {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}
                body |= {"tool_choice": "required", "logit_bias": {"2": -100}, "priority": 1}
                answers.append(httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120).json())
            refused = httpx.post(f"{url}/v1/chat/completions", json={**body, "n": 3}, timeout=120).json()
        finally:
            process.terminate()
    assert len(answers[0]["choices"][0]["message"]["tool_calls"]) == 3
    assert answers[1]["error"]["code"] == "schema_unsupported"
    assert refused["error"]["limit"] == "sequences"


@pytest.mark.model
@pytest.mark.parametrize("flag", ["--timeout-graceful-shutdown", "--shutdown-timeout"])
def test_serve_stops_in_time_and_with_exit_code_0(flag: str) -> None:
    """Time-outs and bounds on connections reach the server, too."""
    command = [sys.executable, "-m", "narrows.cli", "serve", "--port", "0", "--json", flag, "0.5"]
    command += [
        "--head-timeout",
        "0.5",
        "--body-timeout",
        "0.5",
        "--max-connections",
        "50",
        "--timeout-keep-alive",
        "1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=30) as slow:
                slow.sendall(b"POST /v1/completions HTTP/1.1\r\n")
                assert slow.recv(4096).startswith(b"HTTP/1.1 408")
            body = {"prompt": "x", "max_tokens": 1_000, "ignore_eos": True, "stream": True}
            with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as response:
                lines = response.iter_lines()
                assert next(lines).startswith("data: {")
                process.terminate()
                seen = list(lines)
        finally:
            process.terminate()
        assert '"code":"server_stopping"' in "".join(seen)
        assert process.wait(30) == 0
