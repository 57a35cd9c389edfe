"""The stream parser: a model's text in, typed events out. It does no I/O.

It reads a transcript as a chain of regions, one kind per file in `regions/`. It uses no regular expressions, no
recursion and no backtracking.
"""

from __future__ import annotations

from narrows.stream.ids import id_factory
from narrows.stream.message import Message, ToolCall, collect
from narrows.stream.parser import StreamParser

__all__ = ["Message", "StreamParser", "ToolCall", "collect", "id_factory"]
