"""The script `narrows`: it starts the command line of the package `narrows`.

It is a module of its own because importing any part of `narrows` takes some tenths of a second. An interrupt in that
time ends the process without a traceback.
"""

from __future__ import annotations

import signal

__all__ = ["main"]


def main() -> None:
    """The entry point of the script."""
    own = signal.getsignal(signal.SIGINT)
    if own is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from narrows.cli import main as command
    from narrows.cli import prepare

    prepare()
    if own is signal.default_int_handler:
        signal.signal(signal.SIGINT, own)
    command()
