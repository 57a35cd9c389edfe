"""Real MCP servers from npm, and the tools that they list.

python mcp_servers.py install FOLDER    # npm installs the pinned packages into FOLDER/node_modules
python mcp_servers.py list              # starts each and prints its tools

Each is started over stdio as an agent's host would start it, asked `initialize` and `tools/list`, and stopped. Keys are dummies: a
listing needs no account and no network.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from clients_here import NODE_MODULES

SECONDS = 120
"""For one server to start and list; a busy machine takes its time."""


@dataclass(frozen=True)
class Server:
    package: str
    version: str
    program: str
    """Its name in node_modules/.bin."""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


SERVERS = (
    Server("@modelcontextprotocol/server-everything", "2026.8.31", "mcp-server-everything", ("stdio",)),
    Server("@modelcontextprotocol/server-filesystem", "2026.8.31", "mcp-server-filesystem", (tempfile.gettempdir(),)),
    Server("@modelcontextprotocol/server-memory", "2026.8.31", "mcp-server-memory"),
    Server("@modelcontextprotocol/server-sequential-thinking", "2026.8.31", "mcp-server-sequential-thinking"),
    Server("@playwright/mcp", "0.0.83", "playwright-mcp"),
    Server("@notionhq/notion-mcp-server", "2.5.2", "notion-mcp-server", (), {"NOTION_TOKEN": "none"}),
    Server("firecrawl-mcp", "3.26.0", "firecrawl-mcp", (), {"FIRECRAWL_API_KEY": "none"}),
    Server("tavily-mcp", "0.2.22", "tavily-mcp", (), {"TAVILY_API_KEY": "none"}),
    Server("exa-mcp-server", "3.4.1", "exa-mcp-server", (), {"EXA_API_KEY": "none"}),
    Server("@upstash/context7-mcp", "4.1.1", "context7-mcp"),
    Server(
        "@modelcontextprotocol/server-github",
        "2025.4.8",
        "mcp-server-github",
        (),
        {"GITHUB_PERSONAL_ACCESS_TOKEN": "none"},
    ),
    Server(
        "@modelcontextprotocol/server-gitlab",
        "2025.4.25",
        "mcp-server-gitlab",
        (),
        {"GITLAB_PERSONAL_ACCESS_TOKEN": "none"},
    ),
    Server(
        "@modelcontextprotocol/server-slack",
        "2025.4.25",
        "mcp-server-slack",
        (),
        {"SLACK_BOT_TOKEN": "none", "SLACK_TEAM_ID": "none"},
    ),
    Server(
        "@modelcontextprotocol/server-google-maps",
        "0.6.2",
        "mcp-server-google-maps",
        (),
        {"GOOGLE_MAPS_API_KEY": "none"},
    ),
)


@dataclass(frozen=True)
class Listed:
    """A tool as its server lists it."""

    server: str
    name: str
    description: str
    schema: dict[str, Any] = field(hash=False)

    @property
    def id(self) -> str:
        return f"{self.server}:{self.name}"

    def for_openai(self) -> dict[str, Any]:
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}


@lru_cache(maxsize=1)
def tools() -> tuple[Listed, ...]:
    """All tools of all servers, which are started together; some five seconds. A server that does not start is an error."""
    return asyncio.run(_all())


async def _all() -> tuple[Listed, ...]:
    found = await asyncio.gather(*(_tools_of(server) for server in SERVERS))
    return tuple(tool for listing in found for tool in listing)


async def _tools_of(server: Server) -> list[Listed]:
    from mcp import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.types import PaginatedRequestParams

    how = StdioServerParameters(
        command=str(NODE_MODULES / ".bin" / server.program),
        args=list(server.arguments),
        env={**os.environ, **server.environment},
    )
    listing: list[Any] = []
    with tempfile.TemporaryFile("w+") as said:
        try:
            async with stdio_client(how, errlog=said) as (read, write), ClientSession(read, write) as session:
                await asyncio.wait_for(session.initialize(), SECONDS)
                more: str | None = ""
                while more is not None:
                    page = await asyncio.wait_for(
                        session.list_tools(params=PaginatedRequestParams(cursor=more or None)), SECONDS
                    )
                    listing += page.tools
                    more = page.next_cursor
        except Exception as error:
            said.seek(0)
            raise RuntimeError(f"{server.package} does not list its tools; it says: {said.read()[-500:]}") from error
    listed = [tool.model_dump(mode="json", by_alias=True) for tool in listing]
    return [Listed(server.program, tool["name"], tool.get("description") or "", tool["inputSchema"]) for tool in listed]


def install(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {server.package: server.version for server in SERVERS}
    manifest = {"private": True, "dependencies": wanted}
    (folder / "package.json").write_text(json.dumps(manifest, indent=2))
    # No scripts and nothing optional: they would fetch browsers, which a listing does not need.
    options = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "install", *options], cwd=folder, check=True)


def main() -> None:
    match sys.argv[1:]:
        case ["install", folder]:
            install(Path(folder))
        case ["list"]:
            for tool in tools():
                print(tool.id, len(json.dumps(tool.schema)))
            print(len(tools()), "tools")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
