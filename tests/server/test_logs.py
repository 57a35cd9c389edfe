"""Text from a request stays on its line in the log, is bounded, and cannot fill the log."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from scripted import ScriptedEngine
from serving import connect, process, rest_of, serving

from narrows.errors import EngineError
from narrows.server import logs

CHAT = "/v1/chat/completions"
ASK = [{"role": "user", "content": "hi"}]
FORGED = "x\n2026-01-01 00:00:00,000 CRITICAL root: forged\r\x1b[31m\x00\x07\x85\u2028\u202e\ud800"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a handler writes that is set up as the server's."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(logs.NotAgain())
    handler.addFilter(logs.OneLine())
    handler.setFormatter(logging.Formatter("LINE %(levelname)s %(message)s"))
    logger = logging.getLogger("narrows.test_logs")
    logger.propagate = False
    logger.addHandler(handler)
    yield out
    logger.removeHandler(handler)


def harmless(text: str) -> bool:
    return all(ch.isprintable() for line in text.split("\n") for ch in line) and "\nLINE CRITICAL forged" not in text


def test_a_message_is_one_line_whatever_it_holds(written: io.StringIO) -> None:
    logger = logging.getLogger("narrows.test_logs")
    logger.warning("a key: %s", FORGED)
    logger.warning(FORGED)
    logger.warning("too few %s %s", "x")
    lines = written.getvalue().splitlines()
    assert len(lines) == 3
    assert all(line.startswith("LINE WARNING") for line in lines)
    assert harmless(written.getvalue())
    assert r"x\n2026" in lines[0]


def test_a_long_message_is_cut(written: io.StringIO) -> None:
    logging.getLogger("narrows.test_logs").error("%s", "a" * 1_000_000 + "end")
    line = written.getvalue()
    assert len(line) < 3_000
    assert line.rstrip().endswith("end")


def test_a_traceback_cannot_look_like_a_line_of_the_log(written: io.StringIO) -> None:
    try:
        raise ValueError("x\nLINE CRITICAL forged\n" + FORGED + "y" * 100_000 + "\nLINE CRITICAL forged" * 1_000)
    except ValueError:
        logging.getLogger("narrows.test_logs").exception("it failed: %s", FORGED)
    lines = written.getvalue().splitlines()
    assert lines[0].startswith("LINE ERROR")
    assert all(line.startswith(" | ") for line in lines[1:])
    assert 5 < len(lines) < 100
    assert len(written.getvalue()) < 50_000
    assert harmless(written.getvalue())


def test_one_place_does_not_fill_the_log(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(logs.time, "monotonic", lambda: now)
    logger = logging.getLogger("narrows.test_logs")
    for _ in range(3):
        for i in range(10_000):
            logger.warning("line %d", i)
        now += 100
    lines = written.getvalue().splitlines()
    assert len(lines) == 60
    assert lines[20] == "LINE WARNING line 0 (9980 like it were not written)"
    logger.warning("another place")
    assert written.getvalue().splitlines()[-1] == "LINE WARNING another place"


def test_nothing_in_a_request_writes_a_line_of_its_own(tmp_path: Path) -> None:
    """Names of fields, tools, properties, models and variables, paths, headers, and invalid requests."""
    path = tmp_path / "log"
    forged = "x\n2026-01-01 00:00:00,000 CRITICAL root: forged\r\x1b[31m\x07\u2028"
    tool = {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {
                    forged: {"type": "array", "contains": {"type": "string"}, "minContains": 2, "uniqueItems": True}
                },
            },
        },
    }
    with process(path, settings={}) as (_, url), httpx.Client(base_url=url, timeout=30) as client:
        for body in (
            {"messages": ASK, forged: 1},
            {"messages": ASK, "model": forged},
            {"messages": ASK, "user": forged, "metadata": {forged: forged}},
            {"messages": ASK, "tools": [tool], "max_tokens": 3},
            {"messages": ASK, "tools": [{"type": "function", "function": {"name": forged}}]},
            {"messages": ASK, "chat_template_kwargs": {forged: forged}},
            {"messages": ASK, "response_format": {"type": "json_object", forged: 1}},
        ):
            client.post(CHAT, json=body)
        client.get("/%0A2026-01-01%20CRITICAL%20forged%1b[31m")
        for raw in (
            b"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: \x1b[31mforged\r\n\r\n",
            b"GET /\x1b[31m\nCRITICAL forged HTTP/1.1\r\n\r\n",
        ):
            connection = connect(url, raw)
            rest_of(connection)
            connection.close()
    text = path.read_text()
    assert "ignored unknown request fields" in text
    assert "schemas are not wholly enforced" in text
    for line in text.splitlines():
        assert line.isprintable()
        assert line.startswith(("20", " | "))
        assert " CRITICAL root: forged" not in line[:60]


def test_the_engines_death_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    engine = ScriptedEngine()
    with serving(engine) as url, httpx.Client(base_url=url) as client:
        engine.dead = EngineError("the decode thread died\nof something", code="engine_dead")
        for _ in range(3):
            assert client.get("/health").status_code == 503
            response = client.post(CHAT, json={"messages": ASK})
            assert (response.status_code, response.json()["error"]["code"]) == (503, "engine_dead")
    lines = [record for record in caplog.records if "the engine is dead" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].levelno == logging.CRITICAL
    assert "\n" not in lines[0].getMessage()
