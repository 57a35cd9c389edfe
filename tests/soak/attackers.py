"""The attackers: a process of its own at a low priority, so that it does not take the server's CPU time.

    python attackers.py HOST PORT WORKERS SEED [KIND ...]

It reads the lines `go` and `stop`. After `stop` it prints the outcomes of each kind of attack, as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter, defaultdict
from random import Random
from typing import Any

import attacks
import connections
from attacks import Attack
from connections import Target, connected

PAUSE = 0.3
"""Seconds, on average, that an attacker waits after each answer."""


LONG = 16_384
"""Bytes. An error this long repeats the request's text."""


class Attackers:
    def __init__(self, host: str, port: int, workers: int, seed: int, only: list[str]) -> None:
        # Attackers from outside would have addresses of their own, too.
        self.targets = [Target(host, port, f"127.0.0.{2 + i}") for i in range(workers)]
        self.rng = Random(seed)
        requests = [(a.name, a.aim, a) for a in attacks.ATTACKS]
        held = [(name, "connection", make) for name, make in connections.ATTACKS.items()]
        self.kinds: list[tuple[str, str, Any]] = [
            kind for kind in requests + held if not only or kind[0] in only or kind[1] in only
        ]
        if not self.kinds:
            raise SystemExit(f"no kind of attack is named {only}")
        self.queue: list[tuple[str, str, Any]] = []
        self.answers: dict[str, Counter[str]] = defaultdict(Counter)
        self.slowest: dict[str, float] = defaultdict(float)
        self.largest: dict[str, int] = defaultdict(int)
        self.faults: list[str] = []
        """The beginnings of requests that were answered with a 5xx."""

    async def run(self, until: asyncio.Event) -> None:
        await asyncio.gather(*(self._worker(target, until) for target in self.targets))

    async def _worker(self, target: Target, until: asyncio.Event) -> None:
        while not until.is_set():
            if not self.queue:  # all kinds come equally often
                self.queue = self.rng.sample(self.kinds, len(self.kinds))
            name, _, kind = self.queue.pop()
            attacking = asyncio.ensure_future(self._attack(name, kind, target))
            stopped = asyncio.ensure_future(until.wait())
            await asyncio.wait({attacking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not attacking.done():
                attacking.cancel()
                self.answers[name]["stopped"] += 1
            await asyncio.gather(attacking, return_exceptions=True)
            await asyncio.sleep(PAUSE * 2 * self.rng.random())

    async def _attack(self, name: str, kind: Any, target: Target) -> None:
        if not isinstance(kind, Attack):
            try:
                self.answers[name] += await kind(target, self.rng)
            except (OSError, asyncio.TimeoutError):
                self.answers[name]["refused"] += 1
            return
        for _ in range(kind.times):
            begun = time.monotonic()
            self.answers[name][await self.request(kind, target, kind.waits)] += 1
            self.slowest[name] = max(self.slowest[name], time.monotonic() - begun)

    async def request(self, attack: Attack, target: Target, patience: float) -> str:
        path, body = attack.make(self.rng)
        begun = time.monotonic()
        head = f"POST {path} HTTP/1.1\r\nHost: narrows\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            async with connected(target) as (reader, writer):
                writer.write(head.encode())
                writer.write(body)
                if attack.leave:
                    await asyncio.wait_for(writer.drain(), patience)
                    return "left"
                answer = await asyncio.wait_for(reader.read(-1), patience)
        except (asyncio.TimeoutError, TimeoutError):
            return f"nothing in {patience:.0f} s"
        except OSError as error:
            return type(error).__name__
        self.largest[attack.name] = max(self.largest[attack.name], len(answer))
        label = _label(answer)
        if label[:1] == "4" and len(answer) > LONG:
            label += f", {len(answer) >> 10} KB"
        if attack.is_late(label, time.monotonic() - begun):
            return f"nothing in {attacks.REFUSAL_SECONDS:.0f} s, then {label}"
        if label.startswith("5") and len(self.faults) < 20:
            self.faults.append(f"{path} {body[:400]!r}: {answer[-300:]!r}")
        return label

    def report(self) -> dict[str, Any]:
        """By kind: the answers counted by status and code, the slowest, the largest. Resets the counts."""
        kinds = {
            name: {
                "aim": aim,
                "answers": dict(self.answers[name]),
                "slowest_seconds": round(self.slowest[name], 2),
                "largest_bytes": self.largest[name],
            }
            for name, aim, _ in self.kinds
            if self.answers[name]
        }
        for counts in (self.answers, self.slowest, self.largest):
            counts.clear()
        times = os.times()
        return {"kinds": kinds, "faults": self.faults, "cpu_seconds": round(times.user + times.system, 2)}


def _label(answer: bytes) -> str:
    """The status and error code, where a 200 may have an error in its first choice."""
    status = answer[9:12].decode("latin-1")
    if not status:
        return "closed"
    _, _, body = answer.partition(b"\r\n\r\n")
    try:
        parsed = json.loads(body)
        error = parsed.get("error") or (parsed.get("choices") or [{}])[0].get("error")
        if error:
            return f"{status} {error.get('code')}" + (f" {error['limit']}" if error.get("limit") else "")
    except (ValueError, AttributeError, TypeError):
        return status
    return status


async def main(host: str, port: str, workers: str, seed: str, *only: str) -> None:
    os.nice(10)
    attackers = Attackers(host, int(port), int(workers), int(seed), list(only))
    for _, _, kind in attackers.kinds:  # bodies that are made only once are made before the clock runs
        if isinstance(kind, Attack):
            kind.make(attackers.rng)
    print(json.dumps({"kinds": [name for name, _, _ in attackers.kinds]}), flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    until, running = asyncio.Event(), None
    while line := (await lines.readline()).strip():
        if line == b"go":
            until.clear()
            running = asyncio.ensure_future(attackers.run(until))
        elif running is not None:
            until.set()
            await running
            print(json.dumps(attackers.report()), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
