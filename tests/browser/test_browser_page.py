"""What holds for the whole page: keyboard, narrow screens, dark mode, names for screen readers, keys, nothing loaded."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import SERVER, served, settled, until

pytest.importorskip("playwright.sync_api", reason="make test-browser installs playwright")

TABS = ("grammar", "stream", "chat")
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def test_it_is_painted_at_once(open_page: Callable[..., Any], url: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = open_page(url + "/")
    until(page, f"{PAINT} !== undefined")
    paint = page.evaluate(PAINT)
    settled(page)
    verdict = page.evaluate("performance.now()")
    loaded = page.evaluate("performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)")
    with capsys.disabled():
        print(f"\nfirst contentful paint {paint:.0f} ms, first verdict {verdict:.0f} ms, {loaded / 1000:.0f} KB loaded")
    assert paint < 5_000


def test_nothing_that_is_written_becomes_markup_or_script(page: Any) -> None:
    page.select_option("#language", "choice")
    hostile = '<img src=x onerror="document.title = 1"><script>document.title = 2</script>'
    with page.expect_response(lambda response: response.url.endswith("/check")):
        page.fill("#source", hostile)
    page.wait_for_selector("#report .badge.error")
    with page.expect_response(lambda response: response.url.endswith("/check")):
        page.fill("#source", '["<b>x</b>"]')
    with page.expect_response(lambda response: response.url.endswith("/follow")):
        page.fill("#text", "<b>x" + hostile)
    until(page, "document.querySelector('#verdict-summary').textContent.startsWith('Stops')")
    assert page.locator("main img, main b, main script").count() == 0
    assert page.title() == "narrows playground"


def test_scripts_in_the_page_do_not_run(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url + "/", errors=("Content Security Policy", "status of 404"))
    settled(page)
    page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'document.title = 3'; document.body.append(s)"
    )
    page.evaluate(
        "const s = document.createElement('p'); s.innerHTML = '<img src=/nothing onerror=\"document.title = 4\">'; document.body.append(s)"
    )
    page.wait_for_timeout(200)
    assert page.title() == "narrows playground"


def test_the_keyboard_is_enough(page: Any) -> None:
    def at(id: str, most: int = 60) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == id:
                return
        raise AssertionError(f"Tab does not lead to {id}")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    at("tab-grammar")
    page.keyboard.press("ArrowRight")
    assert page.locator("#panel-stream").is_visible()
    page.keyboard.press("ArrowLeft")
    at("language")
    at("text")
    page.keyboard.press("Control+A")
    with page.expect_response(lambda response: response.url.endswith("/follow")):
        page.keyboard.type('{"name": 3')
    until(page, "document.querySelectorAll('#tokens button').length < 10")
    page.wait_for_selector("#token dl")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#tokens') !== null")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#token h3:has-text('Token 2')")
    at("step")
    page.keyboard.press("Enter")
    page.wait_for_selector("#written button")


@pytest.mark.parametrize("width", [390, 320])
def test_a_narrow_screen_does_not_scroll_sideways(open_page: Callable[..., Any], url: str, width: int) -> None:
    page = open_page(url + "/", viewport={"width": width, "height": 800})
    settled(page)
    page.click("#step")
    page.wait_for_selector("#held li")
    page.fill("#text", "x" * 300)
    until(page, "document.querySelector('#verdict-summary').textContent.startsWith('Stops')")
    for tab in TABS:
        page.click(f"#tab-{tab}")
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        script = "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.editor, .scroll, .tokens') && !(e instanceof HTMLOptionElement)).map(e => e.outerHTML.slice(0, 80))"
        assert page.evaluate(script) == []


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.disabled || e.closest('.editor pre, .skip, svg, option, noscript')) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color).slice(0, 3)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(`${e.className} ${e.textContent.slice(0, 20)} ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return bad;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_the_light_and_in_the_dark(open_page: Callable[..., Any], url: str, scheme: str) -> None:
    page = open_page(url + "/", color_scheme=scheme)
    settled(page)
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, back[4:-1].split(","))) < 200) == (scheme == "dark")
    page.click("#step")
    page.wait_for_selector("#held li")
    page.select_option("#examples", label="Not wholly enforced")
    page.wait_for_selector("#report .badge.ignored")
    for tab in TABS:
        page.click(f"#tab-{tab}")
        page.wait_for_timeout(100)
        assert page.evaluate(CONTRAST) == []


def test_everything_that_can_be_used_has_a_name(page: Any) -> None:
    tree = page.context.new_cdp_session(page)
    tree.send("Accessibility.enable")
    usable = {"button", "tab", "textbox", "combobox", "checkbox", "spinbutton", "slider", "link", "searchbox"}
    page.click("#step")
    page.wait_for_selector("#held li")
    for tab in TABS:
        page.click(f"#tab-{tab}")
        nodes = tree.send("Accessibility.getFullAXTree")["nodes"]
        seen = [node for node in nodes if not node["ignored"] and node["role"]["value"] in usable]
        assert len(seen) > 8
        assert [node for node in seen if not node.get("name", {}).get("value")] == []
    for region in ("verdict-summary", "report-summary", "stream-summary", "generate-status", "chat-status"):
        assert page.locator(f"#{region}").get_attribute("role") == "status"


def test_a_server_with_a_key(open_page: Callable[..., Any]) -> None:
    with served("--api-key", "secret") as url:
        page = open_page(url + "/", errors=("401",))
        page.wait_for_selector("#key-dialog[open]")
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-dialog[open]")
        page.fill("#key", "secret")
        page.keyboard.press("Enter")
        settled(page)
        assert page.evaluate("[sessionStorage.length, localStorage.length]") == [1, 0]
        page.reload()
        settled(page)
        page.click("#copy-curl")
        until(page, "document.querySelector('#notice').textContent.startsWith('Copied')")
        command = page.evaluate("navigator.clipboard.readText()")
        assert "$NARROWS_API_KEY" in command
        assert "secret" not in command
        page.close()  # before the server ends


def test_one_of_several_models_is_chosen(open_page: Callable[..., Any]) -> None:
    """All that the page asks names the model then, and a link keeps it."""
    find = "from narrows.engines.default_model import default_gguf; print(default_gguf())"
    python = Path(SERVER).with_name("python")
    file = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    with served(f"one={file}", f"two={file}", "--tool-call-parser", "two=mistral") as url:
        page = open_page(url + "/")
        settled(page)
        assert page.text_content("#model").startswith("one, ")
        assert page.locator("#models option").all_text_contents() == ["one", "two"]
        with page.expect_event("load"):
            page.select_option("#models", "two")
        until(page, "document.querySelector('#model').textContent.startsWith('two, ')")
        settled(page)
        assert page.text_content("#model").endswith(", mistral")
        with page.expect_request("**/playground/api/next") as stepped:
            page.click("#step")
        assert stepped.value.post_data_json["model"] == "two"
        page.click("#tab-chat")
        page.fill("#chat-tokens", "12")
        page.fill("#said", "Hello")
        with page.expect_request("**/v1/chat/completions") as asked:
            page.click("#send")
        assert asked.value.post_data_json["model"] == "two"
        until(page, "document.querySelector('#chat-status').textContent.startsWith('Finished')", seconds=60)
        page.click("#copy-link")
        until(page, "document.querySelector('#notice').textContent.startsWith('Copied')")
        again = open_page(page.evaluate("location.href"))
        again.wait_for_selector("html[data-ready=yes]")
        assert again.text_content("#model").startswith("two, ")
        assert again.input_value("#models") == "two"
        again.close()  # before the server ends: what it then refuses would be an error on the console
        page.close()


def test_one_model_needs_no_choice(page: Any) -> None:
    assert not page.is_visible("#model-choice")
