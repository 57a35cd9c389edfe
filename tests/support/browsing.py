"""A server with the small model for a browser, and the Chromium that is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SERVER = os.environ.get("NARROWS_BROWSER_SERVER", "")
SHOTS = os.environ.get("NARROWS_BROWSER_SHOTS", "")
WIDE = {"width": 1280, "height": 900}


def chromium() -> str | None:
    """A Chromium that is installed."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("NARROWS_CHROMIUM") or next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def served(*options: str) -> Iterator[str]:
    """The URL of a server with the small model."""
    if not SERVER:
        pytest.skip("NARROWS_BROWSER_SERVER names the command of narrows; make test-browser sets it")
    command = [SERVER, "serve", "--port", "0", "--json", "--timeout-graceful-shutdown", "1", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, "the server did not start"
            yield json.loads(line)["url"]
        finally:
            process.terminate()


def until(page: Any, condition: str, arg: Any = None, seconds: float = 30) -> None:
    """Waits for a condition, which is an expression or a function of `arg`. Playwright's own way needs `eval` in the
    page, which the page's policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition, arg):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


def settled(page: Any) -> None:
    """Waits for the first verdict."""
    page.wait_for_selector("html[data-ready=yes]")
    until(page, "document.querySelector('#verdict-summary').textContent !== ''")
    page.wait_for_selector("#token dl")
