"""An OpenAI-compatible HTTP server on any engine of `narrows.engines`. Needs the extra `serve`.

    run(create_app(engine, Settings(api_keys=("secret",))), port=8000)

Any ASGI server runs the app; `run` adds time-outs, a bound on connections and an orderly stop (run.py, connections.py,
drain.py).

One idea per file: protocol.py what a request may hold, constraints.py what holds the answer, service.py from a request
to the engine, answers.py from outputs to chunks, routes.py the endpoints, http.py the edges of a request, grammars.py
what is kept between requests, compiler.py who is compiled for next.
"""

from __future__ import annotations

from narrows.server.app import create_app
from narrows.server.run import run
from narrows.server.settings import Settings

__all__ = ["Settings", "create_app", "run"]
