"""Whether the clients and the MCP servers are here: `make test-agents` installs them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

CLIENTS = ("openai", "instructor", "langchain", "langchain_openai", "pydantic_ai", "mcp", "ijson")
NODE_MODULES = Path(sys.prefix) / "npm" / "node_modules"
"""In the environment's own folder, so that both go together."""

INSTALLED = all(importlib.util.find_spec(name) for name in CLIENTS) and NODE_MODULES.is_dir()
