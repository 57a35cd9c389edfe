"""Whether the clients and the MCP servers are here: `make test-agents` installs them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

CLIENTS = """openai instructor langchain langchain_openai litellm agents pydantic_ai mcp ijson""".split()
# In the environment's own folder, so that they go together.
NODE_MODULES = Path(sys.prefix) / "npm" / "node_modules"
"""The MCP servers."""
NODE_CLIENTS = Path(sys.prefix) / "npm-clients"
"""The clients for JavaScript."""
LLAMA_INDEX = Path(sys.prefix) / "llama-index"
"""An environment within."""

INSTALLED = (
    all(importlib.util.find_spec(name) for name in CLIENTS)
    and (NODE_CLIENTS / "node_modules").is_dir()
    and LLAMA_INDEX.is_dir()
)
SERVERS_INSTALLED = INSTALLED and NODE_MODULES.is_dir()
"""The MCP servers, too, which a short form leaves out."""
SECONDS = 1_800
"""For one answer, or for a script of a client. A text without max_tokens may fill the context of 8,192 tokens. That takes some 300 s beside three
others, and 600 s were too few on a machine that had six times as much to do as it has cores. So this tells a server that hangs, and no slow one."""
