"""The embedded engine on llama.cpp. `pip install "narrows[serve]"` installs its library."""

from __future__ import annotations

from narrows.engines.llama_cpp.engine import LlamaCppEngine

__all__ = ["LlamaCppEngine"]
