"""The sans-I/O stream parser: a model's text in, typed events out. Regions of a transcript, one kind per file; no regular
expressions, no recursion, no backtracking."""

from __future__ import annotations

from narrows.stream.ids import id_factory
from narrows.stream.message import Message, ToolCall, collect
from narrows.stream.parser import StreamParser

__all__ = ["Message", "StreamParser", "ToolCall", "collect", "id_factory"]
