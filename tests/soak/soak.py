"""Can a client's requests harm the other clients? The real server, 16 well-behaved streams, and all kinds of attackers.

    python tests/soak/soak.py [--minutes 60] [--only KIND ...] [--attackers 8] [--json FILE] [--log FILE]
                              [-- SERVE OPTIONS]

Phases without attackers and with them take turns, and are compared. Exit code 1 if a check fails. KIND is the name of
an attack, or the part that it is aimed at: compile, mask, cache, reading, share, connection, fields, echo, leaving.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
from load import Load, Record
from measure import Phase, plan
from process import Server
from report import report, show

HERE = Path(__file__).parent
QUIET_SECONDS = 60.0
"""Seconds that the server has, after all clients have gone, until it must hold nothing more."""


class AttackerProcess:
    def __init__(self, server: Server, workers: int, seed: int, only: list[str]) -> None:
        self._arguments = [server.host, str(server.port), str(workers), str(seed), *only]
        self.kinds: dict[str, dict[str, Any]] = {}
        self.faults: list[str] = []
        self.cpu_seconds = 0.0

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, str(HERE / "attackers.py"), *self._arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24,
        )  # fmt: skip
        assert await self._line(), "the attackers did not start"

    async def _line(self) -> Any:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        return json.loads(line) if line else None

    async def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())
        await self._process.stdin.drain()
        if word == "stop" and (outcome := await self._line()):
            self.cpu_seconds, self.faults = outcome["cpu_seconds"], outcome["faults"]
            for name, seen in outcome["kinds"].items():
                total = self.kinds.setdefault(
                    name, {"aim": seen["aim"], "answers": {}, "slowest_seconds": 0, "largest_bytes": 0}
                )
                for answer, count in seen["answers"].items():
                    total["answers"][answer] = total["answers"].get(answer, 0) + count
                for key in ("slowest_seconds", "largest_bytes"):
                    total[key] = max(total[key], seen[key])

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


async def soak(options: argparse.Namespace, server: Server) -> dict[str, Any]:
    record = Record()
    attackers = AttackerProcess(server, options.attackers, options.seed, options.only)
    await attackers.start()
    load = Load(server.url, record, options.seed)
    begun = time.monotonic()
    running = asyncio.ensure_future(load.run())
    phases, cpu = [], []
    for phase in plan(options.minutes):  # each lasts as long as planned, even if attackers are slow to stop
        now, used = time.monotonic(), processors(server, attackers)
        if phase.name == "with":
            await attackers.tell("go")
        while time.monotonic() < now + phase.end - phase.begin and server.lives and not running.done():
            await asyncio.sleep(0.2)
        if phase.name == "with":
            await attackers.tell("stop")
        phases.append(Phase(phase.name, now, time.monotonic()))
        spent = {who: round(after - used[who], 1) for who, after in processors(server, attackers).items()}
        cpu.append({"phase": phase.name, "seconds": round(time.monotonic() - now, 1), **spent})
        progress(record, server, phase, time.monotonic() - begun)
        if not server.lives or running.done():
            break
    load.stop()
    ended = "" if await _within(running, 90) else "some streams did not end in 90 s"
    await attackers.end()
    held = await asyncio.to_thread(still_held, server)
    stopping = await stop_with_streams(server)
    return report(
        record=record, phases=phases, cpu=cpu, attackers=attackers.kinds, faults=attackers.faults, server=server,
        ended=ended, held=held, stopping=stopping, minutes=options.minutes,
    )  # fmt: skip


async def _within(work: asyncio.Future[Any], seconds: float) -> bool:
    done, _ = await asyncio.wait({work}, timeout=seconds)
    if not done:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    elif error := work.exception():
        raise error
    return bool(done)


def processors(server: Server, attackers: AttackerProcess) -> dict[str, float]:
    """CPU seconds so far. `machine`: those of all processes on the machine, these three included."""
    times = psutil.cpu_times()
    return {
        "server": server.cpu_seconds(),
        "attackers": attackers.cpu_seconds,
        "load": time.process_time(),
        "machine": sum(times) - times.idle - times.iowait,
    }


def progress(record: Record, server: Server, phase: Phase, seconds: float) -> None:
    held = server.samples[-1][1] >> 20 if server.samples else 0
    print(
        f"{seconds:6.0f} s  {phase.name:8} {sum(record.outcomes.values())} answers, "
        f"{len(record.failures)} failed, {held} MB",
        file=sys.stderr, flush=True,
    )  # fmt: skip


def still_held(server: Server) -> str:
    """The part of requests that the server keeps when no client is left; empty if there is none."""
    names = ("narrows_sequences_running", "narrows_sequences_waiting", "narrows_kv_cells_used", "narrows_open_streams")
    until, held = time.monotonic() + QUIET_SECONDS, "the server does not answer"
    while server.lives and time.monotonic() < until:
        try:
            metrics = server.metrics()
        except (OSError, httpx.HTTPError):
            continue
        held = ", ".join(f"{name} {value:.0f}" for name, value in metrics.items() if value and name.startswith(names))
        if not held:
            break
        time.sleep(0.5)
    return held


async def stop_with_streams(server: Server) -> str:
    """Sends SIGTERM while two streams are open. Each must be told the end, and the exit code must be 0. Returns the
    problems; empty if there are none."""
    if not server.lives:
        return server.killed or f"the server had ended: {server.process.returncode}"
    body = {"prompt": "Once upon a time", "max_tokens": 400, "stream": True, "ignore_eos": True}

    async def one() -> str:
        async with (
            httpx.AsyncClient(timeout=30) as client,
            client.stream("POST", f"{server.url}/v1/completions", json=body) as answer,
        ):
            return (await answer.aread()).decode()

    streams = [asyncio.ensure_future(one()) for _ in range(2)]
    await asyncio.sleep(3)
    code = await asyncio.to_thread(server.terminate)
    told = await asyncio.gather(*streams, return_exceptions=True)
    wrong = [] if code == 0 else [f"exit code {code}"]
    wrong += [
        f"a stream that was cut: {text!r:.300}"
        for text in told
        if not isinstance(text, str)
        or ('"finish_reason":"' not in text.replace(" ", "") and "server_stopping" not in text)
    ]
    return "; ".join(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", nargs="+", default=[], metavar="KIND")
    parser.add_argument("--attackers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-mb", type=int, default=4_000, help="the server is killed above this memory")
    parser.add_argument(
        "--program", type=Path, default=Path(sys.executable).parent / "narrows", help="the `narrows` to start"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write the server's log to this file")
    parser.add_argument("serve", nargs="*", help="options for `narrows serve`")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is stopped too
    log = options.log or Path(tempfile.mkdtemp()) / "server.log"
    server = Server(options.program, log, options.serve, most_bytes=options.most_mb << 20)
    try:
        result = asyncio.run(soak(options, server))
    finally:
        server.terminate(5)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + os.linesep)
    print(show(result))
    sys.exit(any(result["checks"].values()))


if __name__ == "__main__":
    main()
