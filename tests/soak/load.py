"""The well-behaved load: 16 streams that send request after request, and clients that leave at a random time.

Times are measured where the client reads. A gap is the time between two chunks of one answer, for each token that the
second one brings: an emoji takes three tokens, and what may become the begin of a call is held until that is known.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import asks
import httpx
from asks import Answer, Ask

STALL = 60.0
"""Seconds without text, after the first text, until an answer counts as lost. The stream's pings are not text."""
FIRST_STALL = 240.0
"""The same before the first text, which may have to wait for a place and for its prompt."""
MOST_TOGETHER = 4
"""Tokens that a gap counts at most: text that the grammar forces comes as many tokens at once, and must not hide a stall."""
LEAVERS = 2


@dataclass
class Record:
    """The load's measurements. Times are `time.monotonic()`."""

    gaps: list[tuple[str, float, float]] = field(default_factory=list)
    """(class, when it began, seconds for each token)."""
    firsts: list[tuple[str, float, float]] = field(default_factory=list)
    """(class, when the request was sent, seconds until the first chunk with text or a call)."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Keys: (class, and valid, length or failed)."""
    failures: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0
    left: int = 0
    lags: list[tuple[float, float]] = field(default_factory=list)
    """(when, how many seconds this process was late): the part of the other numbers that is its own fault."""


class LoadError(Exception):
    """An answer that a well-behaved client should not get. The message tells which."""


class StallError(LoadError):
    """No chunk came for a long time."""


class Load:
    def __init__(self, url: str, record: Record, seed: int) -> None:
        self.record = record
        self.seed = seed
        self.stopping = False
        self._url = url
        self._addresses = (f"127.0.1.{1 + i % 250}" for i in count())
        """Each stream is a client of its own, since the server shares out its work by client."""

    async def run(self) -> None:
        """Runs until `stop`. Answers that are under way are read to their end."""
        work = [self._stream(name, make, i) for name, makes in asks.CLASSES.items() for i, make in enumerate(makes)]
        work += [self._leaver(i) for i in range(LEAVERS)] + [self._watch_own_lag()]
        await asyncio.gather(*work)

    def _http(self) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(local_address=next(self._addresses))
        return httpx.AsyncClient(
            base_url=self._url, timeout=httpx.Timeout(FIRST_STALL, connect=10), transport=transport
        )

    def stop(self) -> None:
        self.stopping = True

    async def _stream(self, name: str, make: Any, number: int) -> None:
        rng = Random(f"{self.seed} {name} {number}")
        await asyncio.sleep(rng.random() * 2)  # the streams must not begin in step
        async with self._http() as http:
            while not self.stopping:
                ask = make(rng)
                answer = await self._asked(http, name, ask)
                if name == "two turns" and answer and answer.finish == "tool_calls" and not self.stopping:
                    await self._asked(http, name, asks.second_turn(rng, ask, answer))

    async def _asked(self, http: httpx.AsyncClient, name: str, ask: Ask) -> Answer | None:
        begun = time.monotonic()
        try:
            answer = await self._answer(http, name, ask)
            outcome = ask.check(answer)
        except (LoadError, httpx.HTTPError) as error:
            answer, outcome = None, f"{type(error).__name__}: {error}"
        if outcome in ("valid", "length"):
            self.record.outcomes[name, outcome] += 1
            return answer
        self.record.outcomes[name, "failed"] += 1
        self.record.failures.append(
            {"class": name, "at": begun, "seconds": round(time.monotonic() - begun, 1), "what": outcome[:600]}
        )
        await asyncio.sleep(1)
        return None

    async def _answer(self, http: httpx.AsyncClient, name: str, ask: Ask) -> Answer:
        answer, last, tokens, begun = Answer(), 0.0, 0, time.monotonic()
        # The first chunk has the role and comes as soon as the request is queued. Text comes after the prompt.
        chunks = _unless_stalled(self._chunks(http, ask), lambda: STALL if last else FIRST_STALL)
        while True:
            try:
                chunk = await chunks.__anext__()
            except StopAsyncIteration:
                break
            except StallError:  # counts as a gap, as long as the wait was
                rows = self.record.gaps if last else self.record.firsts
                rows.append((name, last or begun, time.monotonic() - (last or begun)))
                raise
            now = time.monotonic()
            if usage := chunk.get("usage"):
                answer.tokens = usage["completion_tokens"]
            for choice in chunk["choices"]:
                if not _collect(choice, answer):
                    continue
                if last:
                    together = min(max(answer.tokens - tokens, 1), MOST_TOGETHER)
                    self.record.gaps.append((name, last, (now - last) / together))
                else:
                    self.record.firsts.append((name, begun, now - begun))
                last, tokens = now, answer.tokens
        if not answer.finish:
            raise LoadError("the stream ended without a finish_reason")
        self.record.tokens += answer.tokens
        return answer

    async def _chunks(self, http: httpx.AsyncClient, ask: Ask) -> AsyncGenerator[dict[str, Any], None]:
        counted = {"include_usage": True, "continuous_usage_stats": True}
        body = ask.body | {"stream": True, "stream_options": counted}
        async with http.stream("POST", ask.path, json=body) as response:
            if response.status_code != 200:
                raise LoadError(f"status {response.status_code}: {(await response.aread())[:300]!r}")
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                if line == "data: [DONE]":
                    return
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    raise LoadError(f"an error in the stream: {line[:400]}")
                yield chunk
        raise LoadError("the stream ended without [DONE]")

    async def _leaver(self, number: int) -> None:
        """Sends requests for long answers and leaves, before the first token or after some."""
        rng = Random(f"{self.seed} leaver {number}")
        kinds = [make for makes in asks.CLASSES.values() for make in makes[:1]]
        async with self._http() as http:
            while not self.stopping:
                ask = rng.choice(kinds)(rng)

                async def read(ask: Ask = ask) -> None:
                    async for _ in self._chunks(http, ask):
                        pass

                try:
                    await asyncio.wait_for(read(), rng.choice((0.05, 0.5, 2, 5)) * rng.random())
                except (asyncio.TimeoutError, LoadError, httpx.HTTPError):
                    self.record.left += 1
                await asyncio.sleep(rng.random() * 4)

    async def _watch_own_lag(self) -> None:
        while not self.stopping:
            begun = time.monotonic()
            await asyncio.sleep(0.1)
            self.record.lags.append((begun, time.monotonic() - begun - 0.1))


async def _unless_stalled(
    chunks: AsyncGenerator[dict[str, Any], None], seconds: Callable[[], float]
) -> AsyncIterator[dict[str, Any]]:
    try:
        while True:
            patience = seconds()
            try:
                chunk = await asyncio.wait_for(chunks.__anext__(), patience)
            except StopAsyncIteration:
                return
            except (asyncio.TimeoutError, TimeoutError):
                raise StallError(f"no chunk in {patience:.0f} s") from None
            yield chunk
    finally:
        await chunks.aclose()


def _collect(choice: dict[str, Any], answer: Answer) -> bool:
    """Adds a chunk to the answer. Returns whether the chunk had text or a part of a call."""
    answer.finish = choice.get("finish_reason") or answer.finish
    if answer.finish == "error" or "error" in choice:
        raise LoadError(f"a choice failed: {json.dumps(choice)[:400]}")
    delta = choice.get("delta") or {}
    text = choice.get("text") or delta.get("content") or ""
    answer.text += text
    news = bool(text)
    for call in delta.get("tool_calls") or []:
        parts = answer.calls.setdefault(call["index"], ["", "", ""])
        parts[0] += call.get("id") or ""
        parts[1] += call["function"].get("name") or ""
        parts[2] += call["function"].get("arguments") or ""
        news = True
    return news
