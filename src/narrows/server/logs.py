"""Log lines that a request cannot forge: text from a request stays on its line, and cannot fill a disk.

`configure` sets up the log of a server process. A program that embeds the server sets up its own log; our logger has
the filter `OneLine` in any case.
"""

from __future__ import annotations

import logging
import time
import traceback

from narrows.errors import shortened

_LONGEST = 2_000
"""Characters of a line."""
_MOST_LINES = 60
"""Lines of a traceback."""
_WINDOW = 10.0
_PER_WINDOW = 20
"""Lines of level warning and above that one place in the code may write in `_WINDOW` seconds."""


def one_line(text: str) -> str:
    """`text`, shortened, with everything escaped that a terminal or a log reader would act upon."""
    text = shortened(text, _LONGEST)
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


class OneLine(logging.Filter):
    """Makes a record's message one line. Lines of a traceback begin with ` | `, so that none of them looks like a line
    of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            record.msg, record.args = one_line(record.getMessage()), ()
        except Exception:
            record.msg, record.args = f"a line of the log could not be written ({record.pathname}:{record.lineno})", ()
        if record.exc_info and not record.exc_text:
            lines = "".join(traceback.format_exception(*record.exc_info)).splitlines()
            if len(lines) > _MOST_LINES:
                half = _MOST_LINES // 2
                lines = [*lines[:half], f"… {len(lines) - 2 * half} lines …", *lines[-half:]]
            record.exc_text = "\n".join(" | " + one_line(line) for line in lines)
        return True


class NotAgain(logging.Filter):
    """Bounds how often each place in the code may write. Its next written line tells how many lines were dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[tuple[str, int], list[float]] = {}
        """By place: when its window began, lines in it, lines dropped."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        now = time.monotonic()
        window = self._written.setdefault((record.pathname, record.lineno), [now, 0, 0])
        if now - window[0] >= _WINDOW:
            if window[2]:
                record.msg, record.args = f"{record.getMessage()} ({window[2]:.0f} like it were not written)", ()
            window[:] = [now, 0, 0]
        window[1] += 1
        window[2] += window[1] > _PER_WINDOW
        return window[1] <= _PER_WINDOW


def configure(level: str) -> None:
    """The log of a server process, on stderr: `level` is debug, info, warning, error or critical."""
    handler = logging.StreamHandler()
    handler.addFilter(NotAgain())
    handler.addFilter(OneLine())
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[handler]
    )


log = logging.getLogger("narrows.server")
log.addFilter(OneLine())
