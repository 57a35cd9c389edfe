"""An OpenAI-compatible HTTP server on any engine of `narrows.engines`. Needs the extra `serve`.

    run(create_app(engine, Settings(api_keys=("secret",))), port=8000)

Any ASGI server runs the app; `run` adds time-outs, a bound on connections and an orderly stop (run.py, connections.py,
drain.py).

The files: protocol.py and fields.py (what a request may hold), constraints.py (what constrains the answer), models.py
(the models by name), service.py (from a request to the engine of one model; its parts are prompts.py, leases.py and
answering.py), shared.py and threads.py (what all models share), answers.py (from outputs to chunks), answer_types.py
(their shapes), routes.py (the endpoints), openapi.py and api_page.py (what is told of them), http.py (bodies, keys,
counts), grammars.py (compiled grammars that are kept), compiler.py (compiling in turns).
"""

from __future__ import annotations

from narrows.server.app import create_app
from narrows.server.run import run
from narrows.server.served_model import ServedModel
from narrows.server.settings import Settings

__all__ = ["ServedModel", "Settings", "create_app", "run"]
