"""What all models of one server share: its settings, its counters, its threads, and how it stops."""

from __future__ import annotations

import time

from narrows.server.compiler import Lanes
from narrows.server.drain import Drain
from narrows.server.http import Room
from narrows.server.metrics import Metrics
from narrows.server.remembered import Remembered
from narrows.server.settings import Settings
from narrows.server.threads import Threads


class Shared:
    """One for each server. Use from one event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.created = int(time.time())
        """When the server began, in seconds since 1970."""
        self.metrics = Metrics()
        self.threads = Threads()
        self.lanes = Lanes()
        self.drain = Drain(settings.shutdown_timeout)
        self.room = Room(settings.limits.bodies_bytes)
        self.remembered = Remembered(settings.stored_responses, settings.stored_response_bytes)
