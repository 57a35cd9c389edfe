"""Runs a command, and ends it with all that it has started when this process's standard input ends:

    with subprocess.Popen([*GUARD, COMMAND...], stdin=subprocess.PIPE) as guarded: ...      # leaving the block closes it

The other end of that pipe belongs to whoever started it, and closes however that dies, killed included, so that no server outlives its tests.
The exit status is the command's. Cost: a Python process of 10 MB.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

GUARD = (sys.executable, str(Path(__file__).resolve()))

_PATIENCE = float(os.environ.get("GUARD_PATIENCE", "15"))
"""Seconds between asking and killing."""


def main(command: list[str]) -> int:
    # Handlers, for what is ignored would stay ignored in the command. Ctrl-C is for the one who holds the pipe.
    signal.signal(signal.SIGINT, _nothing)
    signal.signal(signal.SIGHUP, _nothing)
    signal.signal(signal.SIGTERM, _exit)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_when_input_ends, args=(process,), daemon=True).start()
    try:
        status = process.wait()
    finally:
        _end(process)
    return status if status >= 0 else 128 - status


def _when_input_ends(process: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):
        pass
    _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the command alone, as Ctrl-C would, since it ends its children in its own order; then kills what is left of the group."""
    with suppress(subprocess.TimeoutExpired):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(_PATIENCE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _nothing(*_: Any) -> None:
    pass


def _exit(*_: Any) -> None:
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
