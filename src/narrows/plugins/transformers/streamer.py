"""Typed events while `transformers`' `generate` runs: a streamer.

    streamer = EventStreamer(fmt.parser(tools=tools, vocab=vocabulary))
    Thread(target=model.generate, kwargs={**inputs, "streamer": streamer}).start()
    for event in streamer: ...

`generate` streams one sequence at a time, so a batch has one row here.
"""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import transformers

from narrows.errors import InputError
from narrows.events import Event
from narrows.stream.parser import StreamParser


class EventStreamer(transformers.generation.streamers.BaseStreamer):  # type: ignore[misc]
    """Hands each token to a parser. Iterating over it waits for the parser's events, and ends with the text."""

    def __init__(self, parser: StreamParser, timeout: float | None = None) -> None:
        """`parser`: made with `vocab`, because it is fed with token ids. `timeout`: seconds to wait for the next event;
        then iterating raises `queue.Empty`, as where `generate` has failed in its thread. None: without end."""
        self._parser = parser
        self._timeout = timeout
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._is_prompt = True

    def put(self, value: Any) -> None:
        """Called by `generate`: first with the prompt, then with the tokens of each step. Raises InputError
        (`rows_invalid`) for a batch of several rows."""
        if value.ndim > 1 and value.shape[0] > 1:
            raise InputError("a streamer takes one sequence", code="rows_invalid", hint="Give generate one prompt")
        if self._is_prompt:
            self._is_prompt = False
            return
        self._add(self._parser.feed_tokens(value.flatten().tolist()))

    def end(self) -> None:
        """Called by `generate` at the end."""
        self._add(self._parser.finish())
        self._events.put(None)

    def _add(self, events: list[Event]) -> None:
        for event in events:
            self._events.put(event)

    def __iter__(self) -> Iterator[Event]:
        while True:
            event = self._events.get(timeout=self._timeout)
            if event is None:
                return
            yield event
