"""Real clients against the real server with the small model: `make test-agents`. Elsewhere these tests are left out, all but one that says so.

NARROWS_AGENTS_TOOLS=20        a short form: so many MCP tools, drawn from all servers alike; 140 without it, all with 0
NARROWS_AGENTS_MODELS=10       so many Pydantic models; all without it
NARROWS_AGENTS_TOKENS=300      max_tokens of an answer
NARROWS_AGENTS_AT_ONCE=4       requests at a time of a client
NARROWS_AGENTS_SERVER=PATH     the `narrows` to start; .venv/bin/narrows without it
NARROWS_AGENTS_URL=URL         a server that runs already

`-m short` (`make test-agents-short`) takes one or two scenarios of each client, and no MCP servers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from clients_here import INSTALLED, SECONDS, SERVERS_INSTALLED

HERE = Path(__file__).parent
collect_ignore = (
    ([] if SERVERS_INSTALLED else ["test_mcp_tools.py"])
    if INSTALLED
    else [path.name for path in HERE.glob("test_*.py") if path.name != "test_clients_here.py"]
)

ROOT = Path(__file__).parents[2]
TOKENS = int(os.environ.get("NARROWS_AGENTS_TOKENS", "300"))
AT_ONCE = int(os.environ.get("NARROWS_AGENTS_AT_ONCE", "4"))
FEW = 40
"""Fewer answers than this say nothing about a share."""


@dataclass(frozen=True)
class Narrows:
    """The server under test."""

    base_url: str
    model: str
    client: Any
    """The official client. It does not try again: an error of the server is to be seen."""


@pytest.fixture(scope="session")
def narrows() -> Iterator[Narrows]:
    if url := os.environ.get("NARROWS_AGENTS_URL"):
        with _client(url) as client:
            yield _known(client)
        return
    program = os.environ.get("NARROWS_AGENTS_SERVER", str(ROOT / ".venv" / "bin" / "narrows"))
    with tempfile.TemporaryFile("w+") as said:
        command = [program, "serve", "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            said.seek(0)
            assert line, f"the server did not start: {said.read()[-2000:]}"
            try:
                with _client(json.loads(line)["url"]) as client:
                    yield _known(client)
            finally:
                process.terminate()


def _client(url: str) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=SECONDS)


def _known(client: Any) -> Narrows:
    return Narrows(str(client.base_url).rstrip("/"), client.models.list().data[0].id, client)


@dataclass
class Outcome:
    value: Any
    """What the module's `ask` returned, or the exception that it raised."""
    seconds: float


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, narrows: Narrows) -> Iterator[dict[str, Future[Outcome]]]:
    """What the module's `ask(narrows, case)` gives for each selected test's case. They run ahead, in their order and some at a time, since the
    server computes several answers together in little more time than one."""
    ask = request.module.ask
    cases = {
        item.nodeid: item.callspec.params["case"]  # type: ignore[attr-defined]
        for item in request.session.items
        if getattr(item, "module", None) is request.module and "case" in getattr(item, "callspec", _NoCase).params
    }

    def timed(case: Any) -> Outcome:
        started = time.monotonic()
        try:
            value = ask(narrows, case)
        except Exception as error:
            value = error
        return Outcome(value, time.monotonic() - started)

    pool = ThreadPoolExecutor(AT_ONCE)
    yield {name: pool.submit(timed, case) for name, case in cases.items()}
    pool.shutdown(wait=False, cancel_futures=True)


def parameters(cases: dict[str, Any], *short: str) -> list[Any]:
    """Cases by their names, for `parametrize`. `short`: those that the short form runs."""
    assert set(short) <= set(cases)
    return [
        pytest.param(case, id=name, marks=[pytest.mark.short] if name in short else []) for name, case in cases.items()
    ]


class _NoCase:
    params: ClassVar[dict[str, Any]] = {}


@pytest.fixture
def outcome(request: pytest.FixtureRequest, outcomes: dict[str, Future[Outcome]]) -> Outcome:
    """What the client made of this test's case."""
    return outcomes[request.node.nodeid].result()


@dataclass
class Row:
    kinds: Counter[str]
    reasons: Counter[str]
    seconds: float = 0.0


_TABLE: dict[str, Row] = defaultdict(lambda: Row(Counter(), Counter()))


@pytest.fixture(scope="session")
def note() -> Callable[[str, Any, float], None]:
    """`note(part, verdict, seconds)`: a row of the table at the end; fails the test where the verdict does."""

    def note(part: str, verdict: Any, seconds: float = 0.0) -> None:
        row = _TABLE[part]
        row.kinds[verdict.kind] += 1
        row.seconds += seconds
        if verdict.kind == "length":
            row.reasons[verdict.why] += 1
        if not verdict.sound:
            pytest.fail(verdict.why, pytrace=False)

    return note


@pytest.fixture(scope="session")
def counted() -> Callable[[str], Counter[str]]:
    """`counted(prefix)`: the verdicts noted so far for the parts that begin so."""

    def counted(prefix: str) -> Counter[str]:
        total: Counter[str] = Counter()
        for part, row in _TABLE.items():
            if part.startswith(prefix):
                total += row.kinds
        return total

    return counted


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """At once: a run is long."""
    if report.failed:
        print(f"\n{report.nodeid}: {str(report.longrepr)[:500]}", file=sys.__stderr__, flush=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _TABLE:
        return
    terminalreporter.section("clients")
    wide = max(len(part) for part in _TABLE)
    terminalreporter.write_line(f"{'':{wide}}  cases  valid length refused failed    s each")
    for part, row in _TABLE.items():
        kinds, count = row.kinds, sum(row.kinds.values())
        numbers = f"{count:6} {kinds['valid']:6} {kinds['length']:6} {kinds['refused']:7} {kinds['failed']:6} {row.seconds / count:9.1f}"
        cut = ", ".join(f"{number} {reason}" for reason, number in row.reasons.most_common(4) if reason)
        terminalreporter.write_line(f"{part:{wide}} {numbers}  {cut and 'cut ' + cut}")
