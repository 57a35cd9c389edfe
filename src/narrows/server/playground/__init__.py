"""The playground: a page for people who want to see what a definition does to a model, and the endpoints behind it.

    pages.py       the page's files, from page/
    routes.py      the endpoints, under /playground/api
    definition.py  what a person has written, as a definition that the server compiles
    following.py   a text, token by token, in a grammar
    next_token.py  what the model would write next, with and without the grammar
    streams.py     a transcript, cut into chunks, in a wire format
    turns.py       one piece of such work at a time, clients in turn

The endpoints are the page's own. They may change with it, and keep no state.
"""

from __future__ import annotations

from narrows.server.playground.routes import Playground, router

__all__ = ["Playground", "router"]
