"""The pictures of docs/playground.md: `make screenshots` writes them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import SHOTS, settled, until

pytest.importorskip("playwright.sync_api", reason="make test-browser installs playwright")
pytestmark = pytest.mark.skipif(not SHOTS, reason="make screenshots writes them")

COLOURS = 64


def write(page: Any, name: str) -> None:
    """The page as a PNG of few colours, which is a third of the size."""
    image_module = pytest.importorskip("PIL.Image")
    image = image_module.open(io.BytesIO(page.screenshot(full_page=True)))
    folder = Path(SHOTS)
    folder.mkdir(parents=True, exist_ok=True)
    image.convert("RGB").quantize(COLOURS, dither=0).save(folder / f"{name}.png", optimize=True)


def test_screenshots(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url + "/", viewport={"width": 1200, "height": 800})
    settled(page)
    page.fill("#temperature", "0")
    page.click("#step")
    page.wait_for_selector("#held li")
    page.wait_for_timeout(300)
    write(page, "grammar")
    page.set_viewport_size({"width": 1200, "height": 600})
    page.click("#tab-stream")
    page.wait_for_selector("#events tbody tr")
    write(page, "stream")
    page.click("#tab-chat")
    page.select_option("#chat-choice", "required")
    page.fill("#said", "What is the weather in Paris?")
    page.press("#said", "Enter")
    page.wait_for_selector("#talk .call textarea", timeout=60_000)
    until(page, "document.querySelector('#chat-status').textContent.startsWith('Finished')")
    write(page, "chat")
    page = open_page(url + "/", viewport={"width": 390, "height": 800}, color_scheme="dark")
    settled(page)
    page.set_viewport_size({"width": 390, "height": 1700})
    write(page, "narrow")
