"""Says what is left out where the clients are not installed."""

from __future__ import annotations

import pytest
from clients_here import SERVERS_INSTALLED


@pytest.mark.skipif(
    not SERVERS_INSTALLED, reason="the tests in this folder need real clients and MCP servers: make test-agents"
)
def test_there_are_enough_tools() -> None:
    from mcp_servers import SERVERS, tools

    found = tools()
    assert len(found) >= 129
    assert {tool.server for tool in found} == {server.program for server in SERVERS}
