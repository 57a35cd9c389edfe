"""A process may fork while its other threads compute masks: the child goes on with the vocabulary as it was."""

from __future__ import annotations

import os
import signal
import sysconfig
import threading
import time

import numpy as np
import pytest

from narrows import Grammar, Vocabulary

WORDS = [b"".join(bytes([a, b, c]) for _ in range(2)) for a in b"abcdef" for b in b"ghijkl" for c in b"mnopqr"]
VOCABULARY = Vocabulary([bytes([b]) for b in range(256)] + WORDS)
SECONDS = 20


def compute(number: int) -> bool:
    matcher = VOCABULARY.compile(Grammar.from_regex(f"[a-r]{{0,{number}}}(x|y[a-k]{{3,{number}}})+")).matcher()
    row = np.zeros((VOCABULARY.size + 31) // 32, dtype=np.int32)
    for byte in b"agm":
        matcher.fill_mask(row)
        if not matcher.accept(byte):
            return False
    return True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="without the GIL, the lock of a dict that another thread holds stays locked in the child, in Python itself",
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_children_of_a_busy_process_do_not_hang() -> None:
    stop = threading.Event()

    def work(number: int) -> None:
        while not stop.is_set():
            compute(number)
            number += 2

    threads = [threading.Thread(target=work, args=(start,), daemon=True) for start in (10, 11)]
    for thread in threads:
        thread.start()
    try:
        for number in range(30):
            time.sleep(0.003)
            child = os.fork()
            if child == 0:
                os._exit(0 if compute(100_000 + number) else 3)
            assert ended(child) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def ended(child: int) -> int:
    """The child's exit code; kills one that hangs."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1
