"""Inside Hugging Face's `transformers`: a logits processor and a streamer of events. See docs/transformers.md.

Both are loaded when they are first used: rows.py alone needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows.plugins.transformers.logits_processor import LogitsProcessor
    from narrows.plugins.transformers.streamer import EventStreamer

__all__ = ["EventStreamer", "LogitsProcessor"]


def __getattr__(name: str) -> Any:
    if name == "LogitsProcessor":
        from narrows.plugins.transformers import logits_processor

        return logits_processor.LogitsProcessor
    if name == "EventStreamer":
        from narrows.plugins.transformers import streamer

        return streamer.EventStreamer
    raise AttributeError(name)
