"""A headless Chromium that drives the playground of a real server.

`make test-browser` runs these tests with playwright in an environment of its own. Elsewhere they are skipped. Each test
has a context of its own, and fails if the page asked any other host, or wrote an error to the console.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import WIDE, chromium, served, settled


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with served() as found:
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="make test-browser installs playwright")
    with sync_api.sync_playwright() as playwright:
        path = chromium()
        if path is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no Chromium is installed; on Debian: apt install chromium")
        # Chromium refuses to run as root with its sandbox.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=path, args=arguments)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a new context, and returns the page when it is ready."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def open_at(address: str, *, errors: tuple[str, ...] = (), **options: Any) -> Any:
        origin = "/".join(address.split("/")[:3])
        context = browser.new_context(
            **{"viewport": WIDE, "permissions": ["clipboard-read", "clipboard-write"], **options}
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()

        def asked(request: Any) -> None:
            if not request.url.startswith((origin + "/", "blob:" + origin)):
                wrong.append(f"asked {request.url}")

        def said(message: Any) -> None:
            known = ("status of 400", *errors)  # a browser reports each refusal of a definition
            if message.type in ("error", "warning") and not any(text in message.text for text in known):
                wrong.append(f"console: {message.text}")

        page.on("request", asked)
        page.on("console", said)
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.goto(address)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture
def page(open_page: Callable[..., Any], url: str) -> Any:
    """The page with its first example, followed to where its text stops."""
    opened = open_page(url + "/")
    settled(opened)
    return opened
