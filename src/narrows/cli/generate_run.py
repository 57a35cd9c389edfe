"""Runs the request of `narrows generate`, and prints its answer as it comes.

The request takes the server's own path, without HTTP, so that both mean the same by it. In a pipe the answer is written
as it is. On a terminal it has colours, and control characters in it are shown as escapes.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.markup import escape
from rich.text import Text

from narrows.cli.sources import Sources
from narrows.cli.terminal import out, print_json, talk, visible
from narrows.limits import DEFAULT_LIMITS, Limits


class _Clock:
    """When the request began, and when its first output and its end came."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._first: float | None = None
        self._ended: float | None = None

    def output(self) -> None:
        if self._first is None:
            self._first = time.perf_counter()

    def end(self) -> None:
        self._ended = time.perf_counter()

    def timing(self, tokens: int) -> dict[str, Any]:
        """Seconds, and tokens per second after the first output. None for what there was too little of."""
        ended = self._ended or time.perf_counter()
        first = self._first
        rate = (tokens - 1) / (ended - first) if first is not None and tokens > 1 and ended > first else None
        return {
            "seconds": round(ended - self._began, 4),
            "seconds_to_first_token": None if first is None else round(first - self._began, 4),
            "tokens_per_second": None if rate is None else round(rate, 1),
        }


async def run(
    engine: Any,
    body: dict[str, Any],
    tool_call_parser: str | None,
    as_json: bool,
    sources: Sources,
    limits: Limits = DEFAULT_LIMITS,
) -> bool:
    """Prints the answer. True if no answer was cut."""
    from pydantic import ValidationError

    from narrows import json_pieces
    from narrows.server.answers import collect_chat, first_error
    from narrows.server.errors import from_validation
    from narrows.server.protocol import ChatRequest
    from narrows.server.served_model import ServedModel
    from narrows.server.service import Service
    from narrows.server.settings import Settings
    from narrows.server.shared import Shared

    values = "stream_options" in body
    live = not values and not as_json and body["n"] == 1
    service = Service(ServedModel(engine, tool_call_parser), Shared(Settings(limits=limits)))
    try:
        try:
            request = ChatRequest.model_validate(body, strict=False)
        except ValidationError as error:
            raise from_validation(error) from None
        request.check(service.limits)
        clock = _Clock()
        with _own_words():
            answer = await service.start_chat(request, "generate")
        _show_loose(answer.loose, sources)
        chunks = []
        try:
            async for batch in answer.batches():
                if any(_says_something(chunk) for chunk in batch):
                    clock.output()
                chunks += batch
                if values:
                    for value in (value for chunk in batch for value in chunk.get("values", ())):
                        sys.stdout.write(json_pieces.dumps(value, ensure_ascii=False) + "\n")
                    sys.stdout.flush()
                elif live:
                    for chunk in batch:
                        _show(chunk["delta"])
            clock.end()
        finally:
            answer.close()
        failure = first_error(chunks, answer.errors)
        if failure is not None:
            raise failure
    finally:
        service.close()
    choices = collect_chat(chunks)
    usage = answer.usage()
    timing = clock.timing(usage["completion_tokens"])
    if as_json:
        print_json({"choices": choices, "usage": usage, "timing": timing})
    else:
        _close(choices, live, values)
        if talk.is_terminal:
            talk.print(f"[dim]{_speed(usage['completion_tokens'], timing)}[/]")
    return all(choice["finish_reason"] in ("stop", "tool_calls") for choice in choices)


@contextmanager
def _own_words() -> Iterator[None]:
    """Without the server's warning about keywords that are not enforced: `_show_loose` says it in the user's terms."""
    from narrows.server.logs import log

    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _says_something(chunk: dict[str, Any]) -> bool:
    delta = chunk["delta"]
    return any(delta.get(name) for name in ("content", "reasoning", "tool_calls"))


def _show_loose(places: Sequence[str], sources: Sources) -> None:
    """The keywords that are not enforced, each where the user wrote it."""
    for place in places:
        name, inside = sources.of(place)
        talk.print(f"[yellow]not enforced:[/] {escape(visible(f'{name}: ' if name else ''))}{escape(visible(inside))}")


def _speed(tokens: int, timing: dict[str, Any]) -> str:
    first, rate = timing["seconds_to_first_token"], timing["tokens_per_second"]
    said = f"{tokens} token{'' if tokens == 1 else 's'} in {timing['seconds']:.2f} s"
    said += "" if first is None else f", the first after {first:.2f} s"
    return said + ("" if rate is None else f", then {rate:.1f} tokens/s")


def _write(text: str, style: str = "") -> None:
    """Write a piece of the answer at once."""
    if out.is_terminal:
        out.print(Text(visible(text), style), end="")
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def _show(delta: dict[str, Any]) -> None:
    """Print one delta at once: reasoning to stderr, the answer to stdout."""
    if delta.get("reasoning"):
        talk.print(Text(visible(delta["reasoning"]), "dim magenta"), end="")
    for call in delta.get("tool_calls", ()):
        if "id" in call:
            _write(f"\n{call['function']['name']} " if call["index"] else f"{call['function']['name']} ", "bold green")
        if call["function"]["arguments"]:
            _write(call["function"]["arguments"], "cyan")
    if delta.get("content"):
        _write(delta["content"])


def _close(choices: Sequence[Mapping[str, Any]], live: bool, values: bool) -> None:
    """What comes when all answers are there: the end of a line, scores, several answers, and that one was cut."""
    if live:
        _write("\n")
    for option in choices[0].get("options", ()):
        numbers = f"{option['probability']:7.2%}  {option['logprob']:9.3f}"
        talk.print(f"[dim]{numbers}[/]  {escape(visible(option['text']))}")
    for choice in () if live or values else choices:
        message = choice["message"]
        lines = [message["content"]] if message["content"] else []
        lines += [
            f"{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls", ())
        ]
        _write("\n".join(lines) + "\n")
    reasons = {choice["finish_reason"] for choice in choices}
    if "length" in reasons:
        talk.print("[yellow]cut by --max-tokens: the answer is not complete[/]")
    if "repetition" in reasons:
        talk.print("[yellow]ended by --repetition-detection: the answer repeats itself[/]")
