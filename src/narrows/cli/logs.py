"""Reads logs of OpenAI streams: the model's text, delta by delta.

A log holds what a client received: lines `data: {...}` of a chat completion or a completion, as `curl -N` prints them,
or only the JSON objects, one per line. Other lines (comments, headers) are ignored. If the server took calls or
reasoning out of the text, they are counted, not written back: no text is made up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from narrows.errors import InputError


@dataclass(slots=True)
class Log:
    """One choice of a stream."""

    deltas: list[str] = field(default_factory=list)
    """The pieces of text, in order, without empty ones."""
    parsed_calls: int = 0
    """Tool calls that the server had taken out of the text."""
    parsed_reasoning: int = 0
    """Characters of reasoning that the server had taken out of the text."""
    finish_reason: str | None = None
    choices: int = 0
    """The number of choices in the log."""


def is_log(text: str) -> bool:
    """Whether a text looks like a log: its first line that is not a comment is `data: {` or a chunk's JSON."""
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith((":", "event:", "id:", "retry:")):
            return line.startswith(("data: {", "data:{")) or (line.startswith("{") and '"choices"' in line)
    return False


def read_log(text: str, choice: int = 0) -> Log:
    """The deltas of one choice. Raises `InputError`, with the line of JSON that cannot be parsed."""
    log = Log()
    indices: set[int] = set()
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        payload = line[5:].strip() if line.startswith("data:") else line
        if not payload.startswith("{"):
            continue
        try:
            chunk = from_json(payload)
        except ValueError as error:
            message = f"the log cannot be parsed: {error}"
            raise InputError(message, code="log_invalid", line=number, column=1) from None
        for entry in _list(chunk, "choices"):
            index = entry.get("index", 0) if isinstance(entry, dict) else None
            if isinstance(index, int):
                indices.add(index)
            if index == choice:
                _add(log, entry)
    log.choices = len(indices)
    if choice not in indices:
        raise InputError(f"the log holds no choice {choice}", code="log_invalid")
    return log


def _add(log: Log, entry: dict[str, Any]) -> None:
    delta = entry.get("delta") or entry.get("message") or entry
    if isinstance(delta, dict):
        for key in ("content", "text"):
            if isinstance(delta.get(key), str) and delta[key]:
                log.deltas.append(delta[key])
        thoughts = delta.get("reasoning") or delta.get("reasoning_content")
        log.parsed_reasoning += len(thoughts) if isinstance(thoughts, str) else 0
        log.parsed_calls += sum(1 for call in _list(delta, "tool_calls") if isinstance(call, dict) and call.get("id"))
    if isinstance(entry.get("finish_reason"), str):
        log.finish_reason = entry["finish_reason"]


def _list(node: Any, key: str) -> list[Any]:
    value = node.get(key) if isinstance(node, dict) else None
    return value if isinstance(value, list) else []
