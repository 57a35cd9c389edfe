"""How much freed memory glibc keeps."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from narrows.server import memory

CHURN = """
import ctypes, threading
from narrows.server import memory
{call}
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
def churn():
    for size in (8 << 20, 7 << 20):  # after the first is freed, glibc keeps smaller pieces
        held = [libc.malloc(size) for _ in range(2)]
        for p in held:
            ctypes.memset(p, 1, size)
        barrier.wait()
        for p in held:
            libc.free(p)
barrier = threading.Barrier(8)
before = resident()
threads = [threading.Thread(target=churn) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(resident() - before)
"""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")


def left(call: str, **environment: str) -> int:
    """MB that the process keeps of 8 threads' large pieces after all are freed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    out = subprocess.run(
        [sys.executable, "-c", CHURN.format(call=call)],
        env=inherited | environment, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return int(out.stdout)


@glibc
def test_large_pieces_go_back() -> None:
    assert left("assert memory.give_back_early()") < 12
    assert left("") > 24, "or there is nothing to do"


AMONG = """
import ctypes
from narrows.server import memory
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
{call}
held = [bytearray(20_000) for _ in range(5_000)]
del held[::2]
before = resident()
memory.trim()
now = resident()
more = [bytearray(20_000) for _ in range(2_500)]
del more
memory.trim()
print(before - now, resident() - now)
"""


@glibc
def test_what_is_freed_among_others_goes_back_but_not_at_each_call() -> None:
    def run(call: str) -> list[int]:
        command = [sys.executable, "-c", AMONG.format(call=call)]
        out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return [int(number) for number in out.stdout.split()]

    less, more = run("memory.give_back_early()")
    assert less > 24
    assert more > 24, "the second call came too soon"
    assert run("")[0] < 12, "nobody asked for it"


@glibc
def test_the_environment_comes_first() -> None:
    variables = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(512 << 20)}
    assert left("memory.give_back_early()", **variables) > 24


@pytest.mark.skipif(platform.libc_ver()[0] == "glibc", reason="glibc has the call")
def test_another_library_stays_as_it_is() -> None:
    from narrows.server import memory

    assert not memory.give_back_early()


def test_a_collection_that_takes_long_comes_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the interpreter's lock: everybody waits for it."""
    now, collections = 1_000.0, 0

    def collect() -> None:
        nonlocal now, collections
        now, collections = now + 0.08, collections + 1

    monkeypatch.setattr(memory, "_may_trim", True)
    for name in ("_trimmed", "_collected", "_pause"):
        monkeypatch.setattr(memory, name, 0.0)
    monkeypatch.setattr(memory.gc, "collect", collect)
    monkeypatch.setattr(memory.time, "monotonic", lambda: now)
    for _ in range(20):
        memory.trim()
        now += 20.5
    assert collections == 5  # in 410 seconds, and one at most in 80
