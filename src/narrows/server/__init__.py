"""An OpenAI-compatible HTTP server on any engine of `narrows.engines`. Needs the extra `serve`.

    app = create_app(engine, Settings(api_keys=("secret",)))    # any ASGI server runs it
    uvicorn.run(app)

One idea per file: protocol.py what a request may hold, constraints.py what holds the answer, service.py from a request to the engine,
answers.py from outputs to chunks, routes.py the endpoints, http.py the connection's edges, grammars.py what is kept between requests, compiler.py who
is compiled for next.
"""

from __future__ import annotations

from narrows.server.app import create_app
from narrows.server.settings import Settings

__all__ = ["Settings", "create_app"]
