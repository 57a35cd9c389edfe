"""Each pane of the playground, in a browser, with the small model behind it."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from browsing import until

pytest.importorskip("playwright.sync_api", reason="make test-browser installs playwright")


def choose(page: Any, example: str) -> None:
    """Loads an example and waits for its verdict."""
    page.select_option("#examples", label=example)
    with page.expect_response(lambda response: response.url.endswith("/follow")):
        pass
    until(page, "document.querySelector('#tokens button') !== null")


def define(page: Any, language: str, source: str) -> None:
    page.select_option("#language", language)
    with page.expect_response(lambda response: response.url.endswith("/check")):
        page.fill("#source", source)


def selected(page: Any, area: str) -> str:
    """The selected text of a textarea."""
    script = "id => { const a = document.getElementById(id); return a.value.slice(a.selectionStart, a.selectionEnd); }"
    return str(page.evaluate(script, area))


def token_with(page: Any, kind: str) -> Any:
    return page.locator(f"#tokens button.{kind}").first


def test_the_definition_shows_what_is_not_enforced(page: Any) -> None:
    choose(page, "Not wholly enforced")
    until(page, "document.querySelector('#report-summary').textContent.startsWith('Not wholly enforced')")
    marks = page.locator("#source-marks mark.ignored").all_text_contents()
    assert '"maxmum": 100' in marks
    row = page.locator("#report > li", has_text="maxmum")
    assert "Did you mean" in row.inner_text() or "not a JSON Schema keyword" in row.inner_text()
    row.get_by_role("button").click()
    assert selected(page, "source") == '"maxmum": 100'
    page.locator("#report details summary").click()
    assert page.locator("#report details li").count() > 5


@pytest.mark.parametrize(
    ("language", "source", "marked", "said"),
    [
        ("json", '{\n  "type": "objekt"\n}', '"type": "objekt"', "a type is one of"),
        ("json", '{\n  "type": \n}', "}", "not JSON"),
        ("regex", "ab(c", "(", "missing )"),
        ("grammar", 'root ::= "a" b\nb ::= (', "(", "missing )"),
        ("lark", "start: a\n", None, ""),
        ("choice", "[1, 2]", None, ""),
        ("tools", '[{"name": "f", "parameters": {"type": "object", "required": 3}}]', '"required": 3', "required"),
    ],
)
def test_errors_stand_at_their_place(page: Any, language: str, source: str, marked: str | None, said: str) -> None:
    define(page, language, source)
    page.wait_for_selector("#report .badge.error")
    until(page, "said => document.querySelector('#report').textContent.includes(said)", said)
    assert page.locator("#verdict-summary").inner_text().startswith("The definition cannot be used")
    if marked is not None:
        page.wait_for_selector("#source-marks mark.error")
        assert page.locator("#source-marks mark.error").all_text_contents() == [marked]


def test_marks_lie_under_their_text(page: Any) -> None:
    """The text behind the textarea breaks its lines where the textarea does, also where that scrolls."""
    define(
        page,
        "json",
        json.dumps({"properties": {f"p{i}": {"type": "string" if i < 60 else "strin"} for i in range(70)}}, indent=2),
    )
    page.wait_for_selector("#source-marks mark.error")
    # Read before the next frame: the marks follow at once, not when the browser tells of the scrolling.
    area, behind = page.evaluate("""() => {
        document.querySelector('#report button').click();
        const parts = [document.getElementById('source'), document.getElementById('source-marks')];
        return parts.map(part => [part.clientWidth, part.clientHeight, part.scrollTop]);
    }""")
    assert area == behind
    assert area[2] > 0
    box, pane = page.locator("#source-marks mark").bounding_box(), page.locator("#source").bounding_box()
    assert pane["y"] <= box["y"] <= pane["y"] + pane["height"]


def test_the_text_is_green_to_where_it_stops_and_says_why(page: Any) -> None:
    assert page.locator("#tokens button.fits").count() == 13
    assert page.locator("#tokens .stops").inner_text() == '"'
    assert page.locator("#text-marks mark.fits").text_content() == '{"name": "Ada Lovelace", "age": '
    assert page.locator("#text-marks mark.stops").text_content() == '"'
    said = page.locator("#verdict-summary").inner_text()
    assert "/properties/age/type expects an integer of at least 0 and at most 150" in said
    details = page.locator("#token").inner_text()
    assert "tokens" in details
    assert "was not allowed" in details
    page.locator("#token").get_by_role("button", name="/properties/age/type").click()
    assert selected(page, "source") == '"type": "integer"'


def test_a_token_opens_and_the_model_is_asked(page: Any) -> None:
    page.locator("#tokens button").nth(4).click()
    page.wait_for_selector("#token h3:has-text('Token 5')")
    assert "Verdict" in page.locator("#token").inner_text()
    assert "allowed" in page.locator("#token dd").first.inner_text()
    page.get_by_role("button", name="Ask the model what is likely here").click()
    page.wait_for_selector("#token .bars li")
    assert page.locator("#token .bars").count() == 2
    page.locator("#tokens button.after").last.click()
    page.wait_for_selector("#token :text('was not looked at')")


def test_rules_lead_to_their_lines(page: Any) -> None:
    choose(page, "Arithmetic (GBNF)")
    until(page, "document.querySelector('#verdict-summary').textContent.startsWith('Stops')")
    page.wait_for_selector("#token dl")
    said = page.locator("#token").inner_text()
    assert '2:1 sum ::= term (("+" | "-") term)*' in said
    page.locator("#token").get_by_role("button", name="3:1").click()
    assert selected(page, "source") == "term"


def test_calls_lead_into_the_schema_of_their_tool(page: Any) -> None:
    choose(page, "Calls of tools")
    until(page, "document.querySelector('#verdict-summary').textContent.includes('get_weather')")
    page.locator("#token").get_by_role("button", name="maximum").click()
    assert selected(page, "source") == '"maximum": 7'


def test_what_must_come_and_the_way_to_the_end_are_shown(page: Any) -> None:
    with page.expect_response(lambda response: response.url.endswith("/follow")):
        page.fill("#text", '{"nam')
    page.wait_for_selector("#tokens .ghost.forced")
    assert page.locator("#tokens .ghost.forced").inner_text().startswith('e"')
    rest = "".join(page.locator("#tokens .ghost").all_text_contents())
    assert "The shortest way to the end" in page.locator("#verdict-summary").inner_text()
    with page.expect_response(lambda response: response.url.endswith("/follow")):
        page.fill("#text", '{"nam' + rest)
    until(page, "document.querySelector('#verdict-summary').textContent.startsWith('Fits, and may end here')")
    assert page.locator("#tokens button.forced").count() > 0
    assert page.locator("#plot svg rect").count() == page.locator("#tokens button").count() + 1
    assert "tokens allowed at each place" in page.locator("#plot figcaption").inner_text()


def test_characters_of_several_tokens_and_lines(page: Any) -> None:
    define(page, "regex", "[^x]+")
    for text, stops in (("𝄞é\n漢字x", "x"), ("日本", None), ("🙂🙂x", "x")):
        with page.expect_response(lambda response: response.url.endswith("/follow")):
            page.fill("#text", text)
        until(
            page,
            "stops => document.querySelector('#verdict-summary').textContent.startsWith(stops ? 'Stops' : 'Fits')",
            bool(stops),
        )
        until(  # the verdict may still be that of the text before
            page,
            "fits => document.querySelector('#text-marks mark.fits')?.textContent === fits",
            text.removesuffix("x"),
        )
        if stops:
            assert page.locator("#text-marks mark.stops").text_content() == stops


def test_the_model_writes_step_by_step(page: Any) -> None:
    page.fill("#temperature", "0")
    page.click("#step")
    page.wait_for_selector("#held li")
    assert page.locator("#written button").count() == 1
    assert page.locator("#held li.chosen").count() == 1
    assert page.locator("#free li.refused").count() > 0
    page.click("#run")
    until(page, "document.querySelector('#generate-status').textContent.includes('a second')", seconds=120)
    page.click("#take")
    until(
        page,
        "document.querySelector('#verdict-summary').className === 'good' || document.querySelector('#text').value.length > 100",
    )
    text = page.input_value("#text")
    page.locator("#written button").nth(1).click()
    assert page.locator("#written button").nth(1).get_attribute("aria-expanded") == "true"
    page.click("#restart")
    assert page.locator("#written button").count() == 0
    page.click("#run")
    until(page, "document.querySelectorAll('#written button').length > 3")
    page.click("#stop")
    until(page, "document.querySelector('#generate-status').textContent.includes('Stopped')")
    again = "".join(page.locator("#written button").all_text_contents())
    assert text.startswith(again.replace("⏎\n", "⏎").replace("⏎", "\n")[:5])


def test_a_transcript_in_chunks(page: Any) -> None:
    page.click("#tab-stream")
    page.wait_for_selector("#events tbody tr")
    before = page.locator("#events tbody tr").count()
    with page.expect_response(lambda response: response.url.endswith("/stream")):
        page.locator("#chunk").fill("1")
    until(page, "before => document.querySelectorAll('#events tbody tr').length > before", before)
    assert "equal to the complete answer" in page.locator("#stream-summary").inner_text()
    assert page.locator("#chunk-value").inner_text() == "1"
    page.locator("#events").get_by_role("button", name="ToolCallStart").click()
    assert "get_weather" in selected(page, "transcript")
    assert "get_weather" in page.locator("#message").inner_text()
    page.select_option("#format", "qwen3_xml")
    with page.expect_response(lambda response: response.url.endswith("/stream")):
        page.click("#format-example")
    until(page, "document.querySelector('#transcript').value.includes('<function=')")


def test_a_format_is_detected(page: Any) -> None:
    page.click("#tab-stream")
    page.locator("summary", has_text="Detect the format").click()
    page.fill("#template", "nothing of that kind")
    page.click("#detect")
    until(page, "document.querySelector('#detected').textContent.startsWith('no format')")
    page.fill("#template", "<tool_call>\\n<function=example>\\n<parameter=p>\\n</parameter></function></tool_call>")
    page.click("#detect")
    until(
        page,
        "document.querySelector('#detected').className !== '' && document.querySelector('#detected').textContent.length > 9",
    )


def test_a_conversation_with_a_call(page: Any) -> None:
    page.click("#tab-chat")
    page.select_option("#chat-choice", "required")
    page.fill("#chat-tokens", "80")
    page.fill("#said", "What is the weather in Paris?")
    page.press("#said", "Enter")
    page.wait_for_selector("#talk .call textarea", timeout=60_000)
    assert (
        "get_weather" in page.locator("#talk .call").first.inner_text()
        or "search" in page.locator("#talk .call").first.inner_text()
    )
    json.loads(page.locator("#talk .call code").first.inner_text())
    page.select_option("#chat-choice", "none")
    for field in page.locator("#talk .call textarea").all():
        field.fill('{"temperature": 21}')
    page.fill("#chat-tokens", "12")
    page.get_by_role("button", name="back").click()
    until(page, "document.querySelectorAll('#talk li.assistant').length === 2", seconds=60)
    until(page, "document.querySelector('#chat-status').textContent.startsWith('Finished')", seconds=60)
    assert len(page.locator("#talk li.assistant").last.inner_text()) > len("assistant")
    page.click("#chat-clear")
    assert page.locator("#talk li").count() == 0


def test_wrong_tools_are_said(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url + "/", errors=("400",))
    page.click("#tab-chat")
    for tools, said in (("[{", "not JSON"), ('[{"type": "function", "function": {"name": "a b"}}]', "a tool's name")):
        page.fill("#chat-tools", tools)
        page.fill("#said", "hi")
        page.click("#send")
        until(page, "said => document.querySelector('#chat-status').textContent.includes(said)", said)


def copied(page: Any, button: str) -> str:
    page.click(f"#{button}")
    until(page, "document.querySelector('#notice').textContent.startsWith('Copied')")
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_a_link_holds_the_state(page: Any, open_page: Callable[..., Any]) -> None:
    choose(page, "A date")
    page.fill("#text", "2026-11-2")
    page.fill("#prompt", "When? é漢🙂")
    page.fill("#seed", "7")
    page.select_option("#options select", "ecma")
    link = copied(page, "copy-link")
    other = open_page(link)
    until(other, "document.querySelector('#text').value !== ''")
    assert other.input_value("#language") == "regex"
    assert other.input_value("#source") == page.input_value("#source")
    assert other.input_value("#text") == "2026-11-2"
    assert other.input_value("#prompt") == "When? é漢🙂"
    assert other.input_value("#seed") == "7"
    assert other.input_value("#options select") == "ecma"
    broken = open_page(link.partition("#")[0] + "#notastate")
    broken.wait_for_selector("#token dl")
    assert broken.input_value("#language") == "json"


@pytest.mark.parametrize("example", ["A person", "A date", "A verdict", "Arithmetic (GBNF)", "Calls of tools"])
def test_the_same_request_for_other_clients(page: Any, example: str) -> None:
    choose(page, example)
    page.fill("#most-tokens", "8")
    command = copied(page, "copy-curl")
    if shutil.which("curl"):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=True)
        answer = json.loads(done.stdout)
        assert answer.get("choices"), answer
    program = copied(page, "copy-python")
    called = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call)]
    names = {word.arg for call in called for word in call.keywords}
    assert {"model", "max_tokens", "temperature"} <= names
