"""The command line: `narrows serve | generate | check | parse | formats`. One command per file. Needs the extra
`serve`.

Results go to stdout and messages to stderr, so output can be piped. `--json` makes stdout machine-readable. Exit codes:
see exits.py.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the `narrows` script."""
    try:
        from narrows.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "narrows":
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'narrows[serve]'")
    app()


__all__ = ["main"]
