"""No server outlives its tests, however these end (guard.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from guard import GUARD

# A server that does not listen, with an engine of its own.
SERVER = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getpid(), engine.pid, flush=True)
time.sleep(600)
"""
TESTS = f"""
import subprocess, sys, time
guarded = subprocess.Popen([*{GUARD!r}, sys.executable, "-c", {SERVER!r}], stdin=subprocess.PIPE)
time.sleep(600)
"""


def start() -> tuple[subprocess.Popen[str], list[int]]:
    tests = subprocess.Popen([sys.executable, "-c", TESTS], stdout=subprocess.PIPE, text=True)
    assert tests.stdout is not None
    with tests.stdout as said:
        return tests, [int(pid) for pid in said.readline().split()]


def ended(pid: int, seconds: float) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_server_and_engine_end_with_tests_that_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARD_PATIENCE", "1")  # it is deaf
    tests, pids = start()
    try:
        assert len(pids) == 2
        assert not any(ended(pid, 0.1) for pid in pids)
        tests.send_signal(signal.SIGKILL)
        tests.wait(10)
        assert all(ended(pid, 30) for pid in pids)
    finally:
        for pid in pids:
            if not ended(pid, 0.1):
                os.kill(pid, signal.SIGKILL)


def test_status_is_the_commands() -> None:
    command = [*GUARD, sys.executable, "-c", "raise SystemExit(7)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as guarded:
        assert guarded.wait(30) == 7


def test_a_command_that_listens_is_asked_and_not_killed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    command = f"import time, pathlib\ntry:\n    print(flush=True); time.sleep(600)\nexcept KeyboardInterrupt:\n    pathlib.Path({str(said)!r}).touch()"
    with subprocess.Popen(
        [*GUARD, sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as guarded:
        assert guarded.stdout is not None
        guarded.stdout.readline()
    assert guarded.returncode == 0
    assert said.exists()
