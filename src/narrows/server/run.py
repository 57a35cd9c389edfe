"""The server's process. It accepts no more connections than it has file descriptors for, and stops in order.

    run(create_app(engine, settings), port=8000)

It is uvicorn with the connections of connections.py. The first SIGTERM or Ctrl-C begins to drain (drain.py). A second
one ends running requests, a third one the process.
"""

from __future__ import annotations

import asyncio
import functools
import os
import resource
import signal
import socket
import time
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from narrows.server.connections import SURPLUS, Connection, Connections
from narrows.server.logs import log

if TYPE_CHECKING:
    from fastapi import FastAPI

    from narrows.server.shared import Shared

_RESERVE = 64
"""Descriptors that are reserved for files and libraries."""
_USUAL = 4_096
"""The bound on connections where descriptors are plenty. An idle connection holds about 20 KB."""
_WANTED = 65_536
"""The limit on descriptors that a process asks for."""
_AT_ONCE = 8
"""Connections that are accepted in one go. Far fewer than `SURPLUS`, so that each can send its request before it has to
give way to a new one."""
_WAITING = 2_048
"""Connections that the kernel keeps until the server accepts them."""
_LAST = 3.0
"""Seconds that clients have to read the last bytes of a stopping server."""


def raise_descriptor_limit() -> int:
    """Raise the process's soft limit on descriptors as far as allowed, as vLLM and Go's runtime do. Returns the
    limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return _WANTED if soft == resource.RLIM_INFINITY else soft


def most_connections(wanted: int | None, descriptors: int) -> int:
    """The bound on connections: `wanted` (None: 4,096), or fewer if there are not enough descriptors."""
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = 64
    room = max(1, descriptors - used - _RESERVE - SURPLUS)
    if wanted is not None and wanted > room:
        log.warning("max_connections is %d, not %d: this process may open %d descriptors", room, wanted, descriptors)
    return min(wanted or _USUAL, room)


class Server(uvicorn.Server):
    """uvicorn's server, for an app of `create_app`. `run()` returns once it has stopped. `raise_limit`: whether to call
    `raise_descriptor_limit`."""

    def __init__(
        self, app: FastAPI, host: str = "127.0.0.1", port: int = 8000, *, raise_limit: bool = True, **config: Any
    ) -> None:
        self.shared: Shared = app.state.models.shared
        settings = self.shared.settings
        descriptors = raise_descriptor_limit() if raise_limit else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.connections_here = Connections(
            settings,
            most_connections(settings.max_connections, descriptors),
            lambda reason: self.shared.metrics.refused.labels(reason).inc(),
        )
        options: dict[str, Any] = {
            "log_config": None,
            "ws": "none",
            "backlog": _AT_ONCE,
            "timeout_keep_alive": settings.keep_alive_timeout,
            "timeout_graceful_shutdown": int(_LAST),
            "server_header": False,
        }
        http: Any = functools.partial(Connection, group=self.connections_here)
        super().__init__(uvicorn.Config(app, host=host, port=port, http=http, **{**options, **config}))
        self._stop_signals = 0
        self._spare = -1
        self._full_logged = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        await super().startup(sockets)
        self._spare = os.open(os.devnull, os.O_RDONLY)
        for listener in (s for server in getattr(self, "servers", ()) for s in server.sockets or ()):
            # asyncio uses `backlog` for two things: how many connections the kernel keeps, and how many are accepted
            # before anything else runs. Here the first is set apart.
            with socket.socket(fileno=os.dup(listener.fileno())) as same:
                same.listen(_WAITING)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        listener = context.get("socket")
        if listener is None or "out of system resource" not in context.get("message", ""):
            loop.default_exception_handler(context)
            return
        # asyncio would try again at once, with a traceback each time. So a waiting connection is accepted with the
        # spare descriptor and closed, and the queue gets shorter.
        if time.monotonic() - self._full_logged > 10:
            self._full_logged = time.monotonic()
            log.error("out of descriptors: connections are refused (%s)", context.get("exception"))
        self.shared.metrics.refused.labels("no_descriptors").inc()
        with suppress(OSError):
            if self._spare >= 0:
                os.close(self._spare)
                self._spare = -1
            same = socket.socket(fileno=listener.fileno())
            try:
                same.accept()[0].close()
            finally:
                same.detach()
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise its captured signals again after the stop. Only Ctrl-C is captured, since the caller may
        # want to see it. After SIGTERM the exit code is 0.
        if sig == signal.SIGINT:
            self._captured_signals.append(sig)
        self._stop_signals += 1
        drain = self.shared.drain
        drain.begin()
        if self._stop_signals == 2:
            drain.deadline = 0.0
        elif self._stop_signals > 2:
            self.should_exit = self.force_exit = True

    async def on_tick(self, counter: int) -> bool:
        drain = self.shared.drain
        leave = await super().on_tick(counter)
        if not drain.begun:
            return leave
        assert drain.deadline is not None
        return drain.tick() or leave or time.monotonic() > drain.deadline + _LAST

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.shared.drain.begin()
        self.shared.drain.over.set()
        try:
            await super().shutdown(sockets)
        finally:
            if self._spare >= 0:
                os.close(self._spare)
                self._spare = -1


def try_address(host: str, port: int) -> None:
    """Listen on an address for a moment, as the server will. Raises `OSError` if that is not possible, such as
    `socket.gaierror` for an unknown host."""
    flags = socket.AI_PASSIVE
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags):
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(1)


def run(app: FastAPI, host: str = "127.0.0.1", port: int = 8000, **config: Any) -> None:
    """Serve an app of `create_app` until a signal stops it. `config`: further options of `uvicorn.Config`."""
    Server(app, host, port, **config).run()
