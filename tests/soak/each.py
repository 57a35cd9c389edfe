"""How many CPU seconds does one request of each kind cost the server, alone? And how many of them on the event loop?

    python tests/soak/each.py [--only KIND ...] [--program PATH] [--seconds 20]

Every other request waits for the event loop. The rows are sorted by CPU seconds. The server does nothing else. CPU time
is the same on a busy machine, and waiting does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import attacks
import psutil
from attackers import Attackers
from process import Server, usage

QUIET = 0.05
"""CPU seconds in half a second. Below this the server counts as idle."""


def spent(server: psutil.Process) -> tuple[float, float, int]:
    """CPU seconds so far, of all threads and of the main thread, which runs the event loop; bytes of memory."""
    held, total = usage(server)
    loop = next((t.user_time + t.system_time for t in server.threads() if t.id == server.pid), 0.0)
    return total, loop, held


async def cost(
    attackers: Attackers, attack: attacks.Attack, server: Server, most: float
) -> tuple[float, float, int, str]:
    """CPU seconds, those of the event loop, megabytes that stay in use, and the answer."""
    watched = psutil.Process(server.process.pid)
    begun, last = spent(watched), 0.0
    asking = asyncio.ensure_future(attackers.request(attack, attackers.targets[0], 600))
    while True:
        await asyncio.sleep(0.5)
        total, loop, grown = (after - before for after, before in zip(spent(watched), begun, strict=True))
        if total > most or (asking.done() and total - last < QUIET):
            break
        last = total
    asking.cancel()
    result = (await asyncio.gather(asking, return_exceptions=True))[0]
    answer = result if isinstance(result, str) else "still at it"
    return total, loop, int(grown) >> 20, answer


async def measure(options: argparse.Namespace) -> None:
    rows: list[Any] = []
    server: Server | None = None
    try:
        for attack in attacks.ATTACKS:
            if options.only and attack.name not in options.only and attack.aim not in options.only:
                continue
            attack.make(Random(1))
            if server is None:
                server = Server(options.program, Path(tempfile.mkdtemp()) / "server.log", [], most_bytes=4_000 << 20)
            attackers = Attackers(server.host, server.port, 1, 1, [])
            try:
                row = await cost(attackers, attack, server, options.seconds)
            except psutil.Error:
                row = (0.0, 0.0, 0, server.killed or "the server died")
            rows.append((*row, attack))
            print(f"{attack.name:38} {row[0]:6.2f} s  {row[3]}", file=sys.stderr, flush=True)
            if row[3] == "still at it" or not server.lives:  # its unfinished work must not count for the next attack
                server.terminate(1)
                server = None
    finally:
        if server is not None:
            server.terminate(5)
    print(f"{'attack':38} {'aim':10} {'CPU s':>7} {'loop s':>7} {'MB':>5}  answer")
    for total, loop, grown, answer, attack in sorted(rows, key=lambda row: -row[0]):
        print(f"{attack.name:38} {attack.aim:10} {total:7.2f} {loop:7.2f} {grown:5}  {answer}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="KIND")
    parser.add_argument(
        "--program", type=Path, default=Path(sys.executable).parent / "narrows", help="the `narrows` to start"
    )
    parser.add_argument("--seconds", type=float, default=20, help="CPU seconds after which a request is ended")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is stopped too
    asyncio.run(measure(options))


if __name__ == "__main__":
    main()
