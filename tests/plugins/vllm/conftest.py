"""These tests need vLLM in the same environment: `make test-vllm` builds one. Elsewhere they are left out, all but one that says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from client import Client
from installed import INSTALLED
from server import vllm_server

collect_ignore_glob = [] if INSTALLED else ["test_[!i]*.py", "*_test.py"]

Start = Callable[..., Client]
Note = Callable[[str], None]
_NOTES: list[str] = []


@pytest.fixture(scope="session")
def note() -> Note:
    """`note(text)`: a count or a time that the run is to show at its end, passed or failed."""
    return _NOTES.append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _NOTES:
        terminalreporter.section("counted")
        for text in _NOTES:
            terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def start_server() -> Iterator[Start]:
    """`start_server(*arguments, model=...)`: a client of a server with these arguments. One runs at a time; the last is kept for the next call that
    asks for the same, so tests that need the same server should stand together."""
    with ExitStack() as stack:
        running: dict[tuple[object, ...], Client] = {}

        def start(*arguments: str, model: Path, **environment: str) -> Client:
            key = (arguments, model, tuple(sorted(environment.items())))
            if key not in running:
                running.clear()
                stack.close()
                started = time.monotonic()
                url = stack.enter_context(vllm_server(*arguments, model=model, environment=environment))
                running[key] = Client(url)
                stack.callback(running[key].http.close)
                _NOTES.append(f"server {' '.join(arguments)}: up after {time.monotonic() - started:.0f} s")
            return running[key]

        yield start


@pytest.fixture(scope="session")
def markers_model() -> Path:
    """The small model's folder, with tokens for the markers."""
    return _folder("MARKERS")


@pytest.fixture(scope="session")
def plain_model() -> Path:
    """The small model's folder, as it is."""
    return _folder("PLAIN")


def _folder(name: str) -> Path:
    import model_folder

    model_folder.main()
    found: Path = getattr(model_folder, name)
    return found
