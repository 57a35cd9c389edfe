"""narrows before the real server: 200 streamed requests with the plug-in in it, and some without, where xgrammar constrains the answers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from client import Client
from conftest import Note, Start
from upstream_calls import all_wrong

from narrows.engines.upstream import UpstreamEngine
from narrows.server import Settings, create_app
from narrows.server.run import Server

pytestmark = pytest.mark.timeout(3600)

REQUESTS = int(os.environ.get("NARROWS_VLLM_REQUESTS", "200"))
AT_ONCE = 16


@contextmanager
def before(client: Client) -> Iterator[tuple[UpstreamEngine, str]]:
    """The engine and the URL of narrows before a server."""
    with UpstreamEngine(str(client.http.base_url)) as engine:
        server = Server(create_app(engine, Settings(tool_call_parser="hermes_json")), port=0, raise_limit=False)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        try:
            yield engine, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.mark.parametrize("plugins", ["narrows", "none"])
def test_streamed_requests(start_server: Start, markers_model: Path, note: Note, plugins: str) -> None:
    client = start_server(model=markers_model, VLLM_PLUGINS=plugins)
    with before(client) as (engine, url):
        assert engine.describe()["kind"] == ("vllm with narrows" if plugins == "narrows" else "vllm")
        wrong = list(all_wrong(url, REQUESTS, AT_ONCE))
        note(f"before {engine.describe()['kind']}: {len(wrong)} of {REQUESTS} streamed requests wrong")
        assert wrong == []
        assert client.alive()
