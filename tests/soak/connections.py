"""Attacks with connections rather than requests. Each returns the outcomes of its connections, counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random

HEAD = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
BODY = b'{"prompt": "a", "max_tokens": 1}'
PATIENCE = 20.0
"""Seconds that a connection is held, unless the server ends it first."""


@dataclass(frozen=True)
class Target:
    host: str
    port: int
    own: str
    """The attacker's own address."""

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connecting = asyncio.open_connection(self.host, self.port, local_addr=(self.own, 0))
        return await asyncio.wait_for(connecting, 10)


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await target.open()
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ended(reader: asyncio.StreamReader, seconds: float) -> str:
    """How the server ended the connection; "" if it did not."""
    try:
        data = await asyncio.wait_for(reader.read(300), seconds)
    except (asyncio.TimeoutError, TimeoutError):
        return ""
    except OSError:
        return "reset"
    return f"status {data[9:12].decode('latin-1')}" if data else "closed"


async def _slowly(target: Target, begin: bytes, drop: bytes) -> str:
    """Sends a beginning, then a byte each half second."""
    begun = time.monotonic()
    try:
        async with connected(target) as (reader, writer):
            writer.write(begin)
            while time.monotonic() - begun < PATIENCE:
                writer.write(drop)
                if ending := await ended(reader, 0.5):
                    return f"{ending} after {_bucket(time.monotonic() - begun)}"
    except (OSError, asyncio.TimeoutError):
        return "refused"
    return f"open after {PATIENCE:.0f} s"


def _bucket(seconds: float) -> str:
    return next((f"< {most} s" for most in (1, 5, 10, 20) if seconds < most), "20 s and more")


async def _together(works: list[Awaitable[str]]) -> Counter[str]:
    return Counter(await asyncio.gather(*works))


async def slow_heads(target: Target, rng: Random) -> Counter[str]:
    return await _together([_slowly(target, b"GET /health HTTP/1.1\r\nHost: a\r\nX-A: ", b"a") for _ in range(25)])


async def slow_bodies(target: Target, rng: Random) -> Counter[str]:
    begin = (HEAD + "Content-Length: 100000\r\n\r\n").encode() + b'{"prompt": "'
    return await _together([_slowly(target, begin, b"a") for _ in range(25)])


async def idle(target: Target, rng: Random) -> Counter[str]:
    """300 connections that send nothing."""
    return await _together([_slowly(target, b"", b"") for _ in range(300)])


async def flood(target: Target, rng: Random) -> Counter[str]:
    """For a second, more connections than the server has descriptors for."""

    async def one() -> str:
        try:
            async with connected(target) as (reader, _):
                return await ended(reader, 1) or "open after 1 s"
        except (OSError, asyncio.TimeoutError):
            return "refused"

    return await _together([one() for _ in range(1_100)])


async def come_and_go(target: Target, rng: Random) -> Counter[str]:
    """Connects and leaves, 300 times; half of them send half a head."""
    outcomes: Counter[str] = Counter()
    for i in range(300):
        try:
            async with connected(target) as (_, writer):
                writer.write(b"" if i % 2 else b"POST /v1/comp")
            outcomes["gone"] += 1
        except (OSError, asyncio.TimeoutError):
            outcomes["refused"] += 1
        await asyncio.sleep(0.005)
    return outcomes


async def deaf(target: Target, rng: Random) -> Counter[str]:
    """Asks for a long stream and reads none of it."""
    body = b'{"prompt": "a", "max_tokens": 100, "stream": true, "logprobs": 5}'
    async with connected(target) as (_, writer):
        writer.write((HEAD + f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(PATIENCE / 2)
    return Counter(["left"])


async def huge_head(target: Target, rng: Random) -> Counter[str]:
    try:
        async with connected(target) as (reader, writer):
            writer.write(b"GET /health HTTP/1.1\r\nHost: a\r\n")
            with suppress(OSError):
                for _ in range(32):
                    writer.write(b"X-A: " + b"a" * 32_768 + b"\r\n")
                    await writer.drain()
            return Counter([await ended(reader, 5) or "open after 5 s"])
    except (OSError, asyncio.TimeoutError):
        return Counter(["reset"])


async def two_lengths(target: Target, rng: Random) -> Counter[str]:
    """Content-Length with Transfer-Encoding. A proxy may see another end of the body than the server. So the text after
    it must not be answered."""
    head = HEAD + f"Content-Length: {len(BODY) + 60}\r\nTransfer-Encoding: chunked\r\n\r\n"
    smuggled = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"
    chunked = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n\r\n"
    received = b""
    try:
        async with connected(target) as (reader, writer):
            writer.write(head.encode() + chunked + smuggled)
            with suppress(asyncio.TimeoutError, TimeoutError):
                while data := await asyncio.wait_for(reader.read(65_536), 2 if received else PATIENCE):
                    received += data
    except OSError:
        pass
    answers = received.count(b"HTTP/1.1 ")
    return Counter([f"status {received[9:12].decode('latin-1')}" if answers == 1 else f"{answers} answers"])


ATTACKS: dict[str, Callable[[Target, Random], Awaitable[Counter[str]]]] = {
    "heads that come slowly": slow_heads,
    "bodies that come slowly": slow_bodies,
    "300 idle connections": idle,
    "1,100 connections at once": flood,
    "connections that come and go": come_and_go,
    "streams that nobody reads": deaf,
    "a head of 1 MB": huge_head,
    "two lengths": two_lengths,
}
