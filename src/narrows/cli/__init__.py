"""The command line: `narrows serve | generate | check | parse | formats`. One command per file. Needs the extra
`serve`.

Results go to stdout and messages to stderr, so output can be piped. `--json` makes stdout machine-readable. Exit codes:
see exits.py.
"""

from __future__ import annotations

import os
import sys


def prepare() -> None:
    """Load what every command needs. Ends the process with a message if the extra `serve` is not installed."""
    try:
        import narrows.cli.app  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "narrows":
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'narrows[serve]'")


def main() -> None:
    """Run the command that the process was started with, and end the process."""
    if None in (sys.stdout, sys.stderr):  # whoever started the command has closed them
        with open(os.devnull, "w") as nowhere:
            sys.stdout = sys.stdout or nowhere
            sys.stderr = sys.stderr or nowhere
            _run()
    else:
        _run()


def _run() -> None:
    prepare()
    from narrows.cli.app import app

    app()


__all__ = ["main", "prepare"]
