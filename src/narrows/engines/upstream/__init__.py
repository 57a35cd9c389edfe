"""An engine that is another server: narrows stands before it. `pip install "narrows[serve]"` has what it needs."""

from __future__ import annotations

from narrows.engines.upstream.engine import UpstreamEngine

__all__ = ["UpstreamEngine"]
